"""Claims measured in this process, where each run is made once: whoever alters what it came to alters a copy."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

from plainchant_papers.claims import Context

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
