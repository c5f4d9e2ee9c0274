"""What the proofs of all properties share: the evidence of one run, and results that several proofs need.

A proof is a function of a :class:`Prover`. It returns how many cases the reference check would have examined, or raises
:class:`~.evidence.Doubtful`; then the reference check decides on the rows of the run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar, TypeVarTuple

from ..facts import History, Run
from ..owing import Owing
from .evidence import Doubtful, Evidence
from .ranges import Range, Ranges
from .untimed import Untimed

T = TypeVar("T")
Key = TypeVarTuple("Key")

_DOUBTFUL: Final = object()


class Prover:
    """One run, as its certificates show it."""

    def __init__(self, evidence: Evidence, until_end: bool, *, quick: bool = False) -> None:
        self.evidence = evidence
        self.run: Run = evidence.facts
        self.until_end = until_end  # whether clauses that speak of the end of the run are proved, too
        self.quick = quick  # leave out ways of proof that cost microseconds an event
        self.owing = Owing(self.run)
        self.doubts: dict[tuple[str, str], list[Range]] | None = None  # by group and sender; None: a doubt ends a proof
        self.untimed: Untimed | None = None  # what the rows must still show before ``deadline`` holds; set by its proof
        self.known: dict[tuple[Any, ...], Any] = {}  # results of functions marked with :func:`once`

    @cached_property
    def correct(self) -> dict[str, list[History]]:
        """By group: the processes that are correct in it."""
        return {group: self.run.correct_in(group) for group in self.run.groups}

    @property
    def sets(self) -> Mapping[tuple[str, str], Mapping[str, Ranges]]:
        """By process and group, then by sender: the numbers that it delivers. Doubtful if a process delivers messages of a
        sender out of order, or one of them twice."""
        sets = self.evidence.sets
        if sets is None:
            raise Doubtful
        return sets

    def doubt(self, group: str, sender: str, ranges: Sequence[Range]) -> None:
        """Some messages are in the way of a proof. Where these are collected, it goes on without them; else it ends here."""
        if self.doubts is None:
            raise Doubtful
        self.doubts.setdefault((group, sender), []).extend(ranges)

    def require_time(self) -> None:
        """Raises Doubtful if only quick proofs are wanted."""
        if self.quick:
            raise Doubtful

    def require_sets(self) -> None:
        """Raises Doubtful if there are no sets: then there may be repeated deliveries, which the other properties ignore."""
        if self.evidence.sets is None:
            raise Doubtful

    def set_of(self, process: str, group: str, sender: str) -> Ranges:
        return self.sets.get((process, group), {}).get(sender, ())

    def can_owe(self, process: History, group: str) -> bool:
        """Whether a process can owe messages of a group: one that only sends to a group without views cannot."""
        return group in self.run.viewed or self.run.is_ever_member(process, group)

    @cached_property
    def is_sound(self) -> bool:
        """Whether ``integrity`` holds apart from the digests: deliveries lie in what the sender sent, or the sender is
        excused; deliveries of own messages never run ahead of the sends; membership is the same all through an interval."""
        evidence, run = self.evidence, self.run
        if evidence.leads:
            return False
        for (process, group), by_sender in self.sets.items():
            for sender, ranges in by_sender.items():
                if ranges[-1][1] > evidence.sent_up_to(sender, group):
                    history = run.histories.get(sender)
                    excused = history.cut if history is not None else sender in run.named[group]
                    if not excused or sender == process:
                        return False
        for (process, group), intervals in evidence.delivered.items():
            history = run.histories[process]
            for of_sender in intervals.values():
                if not all(run.is_member_at(history, group, interval.first) for interval in of_sender):
                    return False
        return True


def once(find: Callable[[Prover, *Key], T]) -> Callable[[Prover, *Key], T]:
    """Computes a function of a prover once for each run and further arguments; a doubt is remembered as well."""

    @functools.wraps(find)
    def found(prover: Prover, *key: *Key) -> T:
        place = (find, *key)
        if place not in prover.known:
            try:
                prover.known[place] = find(prover, *key)
            except Doubtful:
                prover.known[place] = _DOUBTFUL
        known = prover.known[place]
        if known is _DOUBTFUL:
            raise Doubtful
        result: T = known
        return result

    return found
