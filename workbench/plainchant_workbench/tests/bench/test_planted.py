"""Traces with violations to measure with: they have what was planted, and the same trace without it is correct."""

from __future__ import annotations

from pathlib import Path

import pytest

from plainchant.lab.properties import verify
from plainchant.trace import read, validate
from plainchant_workbench.lab.planted import FURTHER, MALFORMED, PLANTS, made
from plainchant_workbench.lab.traces import Shape

SHAPE = Shape(6_000)


def test_the_clean_trace_is_correct_and_states_more(tmp_path: Path) -> None:
    trace = read(made(tmp_path, SHAPE, None, 0))
    assert validate(*trace) == []
    found = verify(trace.table)
    assert found.ok, found.violations
    assert {name for name in FURTHER if found.properties[name].cases} == {"deadline", "bounded", "progress"}


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_planted_is_found(plant: str, count: int, tmp_path: Path) -> None:
    trace = read(made(tmp_path, SHAPE, plant, count))
    malformed = validate(*trace)
    if plant == MALFORMED:
        assert len(malformed) == count
        return
    assert malformed == []
    assert verify(trace.table).properties[plant].violations >= count
