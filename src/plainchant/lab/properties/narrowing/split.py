"""Runs of any kind, split into doubtful messages and the rest: several groups, several views at a time or none, causal orders
only.

No common sequence is needed. Properties of single messages and of streams are proved for the rest (``doubts``), orders are
compared two by two in the whole run (``orders``), causes are told by the clocks of all messages (``causes``); each says which
messages show its violations, and the search is of all these together. What a property demands of the set is such that more
messages in it do no harm. Cases add up as :func:`cases_of` says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from ..certificates.evidence import Doubtful, Evidence
from ..certificates.woven import Woven
from ..facts import Run
from ..order import reference as order
from ..owing import Owing
from ..report import Report
from .causes import Causes
from .doubts import OF_MESSAGES, Doubts
from .orders import Orders, knots
from .strands import Key, Strands

IN_ORDER: Final = frozenset({"identical", "uniform", "total"})


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """How a run's cases follow from its two parts."""

    rest: dict[str, int]  # cases of the rest, of what is proved for it
    whole: dict[str, int]  # cases of the whole run: of two processes' order, of ``acyclic``, and of ``causal``
    delivered: frozenset[tuple[str, Key]]  # processes, and from whom they deliver something of the rest
    partly: frozenset[Key]  # senders with messages in the rest
    fates: dict[str, tuple[bool, bool]]  # by process: whether it crashed, and was cut, in the whole run


def split(
    evidence: Evidence, wanted: Sequence[str], *, until_end: bool
) -> tuple[Split, dict[Key, tuple[tuple[int, int], ...]], pa.Table]:
    """Splits a run: also returns the doubtful messages, and the rows that are about none. ``Split`` names the properties that
    can be decided so."""
    woven = Woven(evidence)
    strands = Strands(evidence, woven)
    doubts = Doubts(strands)
    names = list(wanted)
    if "integrity" in names:
        _try(doubts, names, ["integrity"], doubts.add_contents)
    whole: dict[str, int] = {}
    if IN_ORDER & set(names):
        _try(doubts, names, sorted(IN_ORDER), lambda: whole.update(Orders(strands, doubts).cases))
    if "acyclic" in names:
        _try(doubts, names, ["acyclic"], lambda: whole.update(acyclic=knots(strands, doubts)))
    if {"causal", "total"} & set(names):
        _try(
            doubts,
            names,
            ["causal", "total"],
            lambda: whole.update(causal=Causes(strands, doubts, woven, until_end=until_end).cases),
        )
    rest, cases = doubts.settled([name for name in names if name in OF_MESSAGES], until_end)
    delivered = frozenset(
        (process, (group, sender)) for (process, group), mine in rest.evidence.delivered.items() for sender in mine
    )
    proved = {name: cases.get(name, 0) for name in names if name not in OF_MESSAGES or name in cases}
    fates = {history.name: (history.crashed, history.cut) for history in evidence.facts.all}
    found = Split(proved, whole, delivered, doubts.partly, fates)
    if not found.rest:
        raise Doubtful
    return found, strands.ranges(doubts.found.nonzero()[0].tolist()), rest.aside


def prepare(parts: Split, run: Run) -> None:
    """Tells the run of the doubtful messages what only the whole run shows."""
    run.partly = parts.partly
    for history in run.all:
        history.crashed, history.cut = parts.fates[history.name]


def cases_of(parts: Split, run: Run, owing: Owing, report: Report) -> int:
    """The cases of a property in a whole run, given the report of its doubtful messages."""
    name = report.name
    if name == "view-atomicity":  # compares two processes once for every two views
        return report.cases
    if name == "fifo":  # from one message to the next: where a process has some in both parts, there is one step more
        here = {(h.name, (group, sender)) for h in run.all for group, sender, _ in h.first}
        return parts.rest[name] + report.cases + len(here & parts.delivered)
    if name in ("identical", "acyclic"):
        return parts.whole[name]
    if name == "uniform":
        alone = Report(run, owing, name, until_end=report.until_end)
        for group in run.groups:
            order.compare_orders(alone, run.all, group)
        return parts.rest[name] + report.cases - alone.cases + parts.whole[name]
    if name in ("causal", "total"):
        blamed = order.blamed_before_the_end(Report(run, owing, name, until_end=report.until_end))
        return parts.whole["causal"] - blamed + (parts.whole["total"] if name == "total" else 0)
    return parts.rest[name] + report.cases


def _try(doubts: Doubts, names: list[str], concerned: Sequence[str], note: Callable[[], None]) -> None:
    """Notes what is doubtful; where that cannot be told, some properties are left out."""
    found = doubts.found.copy()
    try:
        note()
    except Doubtful:
        doubts.forget(found)
        names[:] = [name for name in names if name not in concerned]
