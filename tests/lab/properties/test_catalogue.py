"""The table of properties is complete: every name has a definition, a reference check, and its other checks or a reason."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from plainchant.lab.properties.catalogue import ALL_OF_IT, CATALOGUE, definition
from plainchant.lab.properties.growing import Growing
from plainchant.trace.properties import BLOCK_PROPERTIES, PROPERTIES

ROOT = Path(__file__).parents[3]


def test_every_property_is_in_the_table_in_the_order_of_their_names() -> None:
    assert list(CATALOGUE) == list(PROPERTIES)


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_has_its_definition_in_the_documentation(name: str) -> None:
    page, anchor = definition(name).split("#")
    text = (ROOT / page).read_text(encoding="utf-8")
    headings = [heading.strip("` ").lower().replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    anchors = [*re.findall(r'<a id="([^"]+)"></a>', text), *headings]
    assert anchors.count(anchor) == 1


@pytest.mark.parametrize("name", PROPERTIES)
def test_the_checks_of_a_property_are_named_after_it(name: str) -> None:
    checks, function = CATALOGUE[name], name.replace("-", "_")
    assert checks.reference.__name__ == function
    assert inspect.getdoc(checks.reference), "its docstring is the definition"
    if checks.proof is not None and name not in BLOCK_PROPERTIES:
        assert checks.proof.__name__ == function
        assert inspect.getdoc(checks.proof), "its docstring says why the condition suffices"


@pytest.mark.parametrize("name", PROPERTIES)
def test_what_nothing_checks_while_the_trace_grows_is_open_until_its_end(name: str) -> None:
    checks = CATALOGUE[name]
    assert (checks.growing is None) == (checks.open == ALL_OF_IT)


def test_a_growing_run_has_every_growing_check_of_the_table() -> None:
    used = {type(value) for value in vars(Growing("r0")).values()}
    assert {checks.growing for checks in CATALOGUE.values() if checks.growing is not None} <= used


@pytest.mark.parametrize("name", PROPERTIES)
def test_the_checks_of_a_property_stand_side_by_side(name: str) -> None:
    """They are in the package of one family; only ``uniform`` is about delivery and about order."""
    checks = CATALOGUE[name]
    families = {
        check.__module__.rsplit(".", 2)[1] for check in (checks.reference, checks.proof, checks.growing) if check is not None
    }
    assert len(families) == 1 or name == "uniform"
