"""Small cases that are tried in every way (``lab.explore``): as tasks, and as rows of a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from plainchant.lab.explore import explore
from plainchant.protocols.mailbox.exploration import mailbox_case

from ..claims import Table

STEPS: Final = frozenset({"decide"})  # Steps of decisions take nothing or their bound; everything else takes its bound.


@dataclasses.dataclass(frozen=True, slots=True)
class Small:
    """A small case, in words and as the explorer takes it."""

    words: str
    parameters: Mapping[str, Any]
    settings: Mapping[str, Any]
    rules: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    equal_clocks: bool = False  # All clocks show the same; the protocol does not know it.
    promise: str = ""  # What is looked for; empty: anything.
    probes: int = 0
    limit: int = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Explored:
    """What became of a small case."""

    words: str
    rules: str
    states: int
    transitions: int
    runs: int  # Runs to their ends that differ,
    drawn: int  # and runs that were drawn before, to find at once what breaks easily.
    complete: bool  # Everything was tried.
    broken: str  # The promise that a run has broken, if any,
    how: str  # and how.
    faults: int


def small(words: str, *, tolerate: str, copies: int = 2, skew: int | None = None, **given: Any) -> Small:
    """A case with one moment at which sends begin, told of crashes late, in which only steps of decisions vary. ``given`` are
    fields of :class:`Small`, and settings of the explorer."""
    chosen = {"tolerate": tolerate, "copies": copies, **({} if skew is None else {"skew": skew})}
    fields = {name: given.pop(name) for name in ("rules", "equal_clocks", "promise", "probes", "limit") if name in given}
    plain = {"phases": (0,), "detections": (1000,), "varied": STEPS}
    return Small(words, chosen, {**plain, **given}, **fields)


def explored_of(case: Small) -> Explored:
    whole = mailbox_case(parameters=case.parameters, rules=case.rules, **case.settings)
    if case.equal_clocks:
        whole = dataclasses.replace(whole, skew=0)
    found = explore(whole, limit=case.limit, probes=case.probes, promise=case.promise)
    rules = ", ".join(f"{name} = {value}" for name, value in case.rules.items()) or "all"
    counts = (found.states, found.transitions, found.runs, found.sampled)
    broken, how = (found.violation.promise, found.violation.text) if found.violation is not None else ("", "")
    return Explored(case.words, rules, *counts, found.complete, broken, how, found.faults)


def table(title: str, cases: Sequence[Explored]) -> Table:
    columns = ("case", "rules", "states", "transitions", "runs", "drawn before", "all of it", "broken", "how", "faults")
    cells = []
    for one in cases:
        counts = (f"{count:,}" for count in (one.states, one.transitions, one.runs, one.drawn))
        ended = ("yes" if one.complete else "no", one.broken or "nothing", one.how, one.faults)
        cells.append((one.words, one.rules, *counts, *ended))
    return Table(title, columns, cells)
