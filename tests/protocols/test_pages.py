"""The page of a protocol has every parameter, with its default and its meaning, as the command prints them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plainchant.cli.protocols import facts
from plainchant.protocols.registry import describe, protocols

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {"dedos": "hierarchy"}
"""Pages that are not called after their protocol."""


def rows(name: str) -> list[str]:
    """The rows of the table that its page should have."""
    found = []
    for parameter in facts(describe(name))["parameters"]:
        default = parameter["default"]
        shown = default if isinstance(default, str) else json.dumps(default) if default != {} else "none"
        found.append(f"| `{parameter['name']}` | {shown} | {parameter['about']} |")
    return found


@pytest.mark.parametrize("name", protocols())
def test_the_parameters_on_the_page_are_those_of_the_protocol(name: str) -> None:
    text = (DOCS / f"{PAGES.get(name, name)}.md").read_text(encoding="utf-8")
    _, _, table = text.partition("| parameter | default | meaning |\n|---|---|---|\n")
    assert table.split("\n\n")[0].splitlines() == rows(name)
