"""The page about scenario files says every key that a file may have, where it may have it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from plainchant.core.model import declarations
from plainchant.scenario.model import Clock, Fault, LinkOverride, Memory, Network, RandomFaults, Scenario, Workload

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scenarios.md"
BEGINNINGS: dict[type[Any], str] = {
    Scenario: "Top of the file:",
    Network: "`[network]`;",
    LinkOverride: "`[network]`;",
    Memory: "`[memory]`, for",
    Workload: "`[[workload]]`:",
    Clock: "`[[clock]]` has",
    Fault: "`[[fault]]`, each",
    RandomFaults: "`[random]`:",
}
ENDS = (*BEGINNINGS.values(), "## ")


def part(cls: type[Any]) -> str:
    """What the page says about a table: from its beginning to the next one's."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition("\n" + BEGINNINGS[cls])
    following = [found for end in ENDS if (found := rest.find("\n" + end)) >= 0]
    return BEGINNINGS[cls] + rest[: min(following)]


@pytest.mark.parametrize("cls", BEGINNINGS, ids=lambda cls: cls.__name__)
def test_every_declared_key_is_in_the_docs(cls: type[Any]) -> None:
    described = set(re.findall(r"`([^`]+)`", part(cls)))
    tables = {"network", "memory", "workload", "clock", "fault", "random", "link"}  # these have parts of their own
    keys = {field.name for field, _ in declarations(cls)} - tables
    assert keys - described == set()


def test_every_declared_table_is_in_the_docs() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for cls, prefix in ((Scenario, ""), (Network, "network.")):
        for field in dataclasses.fields(cls):
            if field.name in ("network", "memory", "random"):
                assert f"`[{field.name}]`" in text
            elif field.name in ("workload", "clock", "fault", "link"):
                assert f"`[[{prefix}{field.name}]]`" in text
