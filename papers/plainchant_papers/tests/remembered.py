"""Claims measured in this process, where each run is made once, and the tests that every paper's claims have.

What Spark adds is tested with the frame. A test that alters a result alters a copy of it.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import pytest

from plainchant_papers import NAMES, claims_of
from plainchant_papers.claims import Context, Measured
from plainchant_papers.page import draw

_RUNS: dict[bytes, bytes] = {}
"""A function and its argument to what it returned, all pickled, as on the way to and from Spark."""


class Remembering(Context):
    """A quick context without Spark that knows what other contexts have run."""

    def __init__(self) -> None:
        super().__init__(None, quick=True)

    def sweep(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return [self._run(function, item) for item in items]

    def _run(self, function: Callable[[Any], Any], item: Any) -> Any:
        key = pickle.dumps((function, item))
        if key not in _RUNS:
            _RUNS[key] = pickle.dumps(function(item))
        return pickle.loads(_RUNS[key])


class Altered(Remembering):
    """A context in which every run comes out differently."""

    def __init__(self, alter: Callable[[Any], Any]) -> None:
        super().__init__()
        self._alter = alter

    def sweep(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return [self._alter(found) for found in super().sweep(function, items)]


def altered(**fields: Any) -> Callable[[Any], Any]:
    """Replaces these fields of results that have them; a result without fields becomes ``value``."""

    def alter(found: Any) -> Any:
        if not dataclasses.is_dataclass(found) or isinstance(found, type):
            return fields.get("value", found)
        known = {field.name for field in dataclasses.fields(found)}
        return dataclasses.replace(found, **{name: value for name, value in fields.items() if name in known})

    return alter


_CLAIMS = {claim.number: claim for name in NAMES for claim in claims_of(name)}


def measured(number: int, context: Context) -> Measured:
    return _CLAIMS[number].run(context)


def on_record(
    numbers: Sequence[int], *, long: Collection[int] = (), mark: pytest.MarkDecorator = pytest.mark.sweep
) -> Callable[[int], None]:
    """A test for each claim: a quick measurement gives the verdict on record, and its figures can be drawn."""

    @pytest.mark.parametrize("number", [pytest.param(number, marks=mark if number in long else ()) for number in numbers])
    def test(number: int) -> None:
        found = measured(number, Remembering())
        assert found.verdict == _CLAIMS[number].expected, f"{found.measured}: {found.why}"
        for figure in found.figures:
            assert draw(figure).startswith("<?xml")

    return test
