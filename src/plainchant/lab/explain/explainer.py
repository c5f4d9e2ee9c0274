"""The life of a message, the story of a view change, what became of a process and why a member stood still, from one run's rows.

An explanation is a list of steps in the order in which they happened, each with what happened and, where the trace says or
suggests it, because of what; and a conclusion. It works for any protocol's trace: what a trace does not record is left out, what
it only suggests is called probable. ``rows`` finds rows, ``why`` derives reasons, ``membership`` has the sentences of several
stories, ``reading`` brings just the rows that an explanation needs from files of any size. What is particular to a protocol is in
its own story (``protocols.story``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ...protocols.story import Message
from ..standstills import Standstill, standstills
from .message import MessageExplainer
from .process import ProcessExplainer
from .rows import Rows, Told
from .standstill import StandstillExplainer, waited_for
from .view import ViewExplainer, ViewList
from .why import Why


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One event of an explanation: its place, its moment (ns), a sentence, and why."""

    process: str
    index: int
    when: int
    what: str
    because: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """What happened, in order, and what to conclude."""

    title: str
    steps: tuple[Step, ...]
    conclusion: str

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class Explainer:
    """Explains one run.

    >>> from plainchant.trace import TraceBuffer
    >>> trace = TraceBuffer()
    >>> none = (None,) * 5
    >>> trace.history("r0", "a").rows.append(("send", 0, 0, "g", None, "a", 1, *none))
    >>> trace.history("r0", "a").rows.append(("deliver", 5, 1000000, "g", None, "a", 1, *none))
    >>> for step in Explainer(trace.table()).message(("g", "a", 1)).steps:
    ...     print(step.when, step.what)
    0 a sends it
    1000000 a delivers it, 1.0 ms after its send
    """

    def __init__(
        self,
        table: pa.Table,
        *,
        origin: int | None = None,
        is_whole: bool = True,
        stood_still: Sequence[Standstill] | None = None,
    ) -> None:
        """As for :class:`Rows`; ``stood_still`` has the run's standstills, where they cannot be read off these rows."""
        self._stood_still = stood_still
        self._rows = Rows(table, origin=origin, is_whole=is_whole)
        self.origin = self._rows.origin
        self._why = Why(self._rows)

    def because(self, process: str, index: int) -> str | None:
        """Why this event happened, or why it came late, as a clause; None if there is nothing to add."""
        event = self._rows.at(process, index)
        return self._why.clause(event) if event is not None else None

    def message(self, message: Message) -> Explanation:
        """The life of a message, named (group, sender, seq)."""
        return _explanation(MessageExplainer(self._rows, self._why, message).tell())

    def process(self, name: str) -> Explanation:
        """What became of a process, and if it stopped, why."""
        return _explanation(ProcessExplainer(self._rows, self._why, name).tell())

    def standstill(self, process: str | None = None) -> Explanation:
        """Why a process, or the one that did so longest, delivered nothing while a message waited."""
        found = self._stood_still if self._stood_still is not None else standstills(self._rows.table)
        return _explanation(StandstillExplainer(self._rows, self._why, found, process).tell())

    def waited_for(self, standstill: Standstill) -> str:
        """What a member waited for, in a few clauses."""
        return waited_for(self._rows, self._why, standstill)

    def view(self, group: str, number: int, process: str | None = None) -> Explanation:
        """The story of how a view came to be; ``process`` says whose, if several concurrent views go by that number."""
        return _explanation(ViewExplainer(self._rows, self._why, group, number, process).tell())

    def views(self, group: str, process: str | None = None) -> Explanation:
        """The views of a group, or those that a process installed, to choose one from: a step for each."""
        return _explanation(ViewList(self._rows, self._why, group, process).tell())


def _explanation(found: tuple[str, Told, str]) -> Explanation:
    title, told, conclusion = found
    # Of what happened at one instant, the send comes first: everything else follows from it.
    ordered = sorted(told, key=lambda each: (each[0].when, each[0].kind != "send", each[0].process, each[0].index))
    steps = (Step(event.process, event.index, event.when, what, because) for event, what, because in ordered)
    return Explanation(title, tuple(steps), conclusion)
