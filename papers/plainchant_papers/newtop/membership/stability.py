"""Claim 43 (6.3.1): nothing that is stable, and so may have been forgotten, is ever asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from plainchant.core.model import Packet, ProcessId
from plainchant.protocols.newtop.matrix import Column
from plainchant.protocols.newtop.packets import Ask
from plainchant.protocols.newtop.part import Part
from plainchant.scenario.model import Scenario

from ...claims import Context, Measured, judge, named_rows, totals
from ...observe import Observer
from ..structures import ORDERS, faulty_run
from ..variants import VARIANTS


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """The requests of a run."""

    asks: int
    looked_at: int  # Members, other than who asked, that had received what was asked for,
    forgotten: int  # and of these, those that had forgotten it.
    quiet: bool


class _Asks(Observer):
    """At every request, looks into all members that have the one who asks in their view: have they got it, and still?"""

    def __init__(self) -> None:
        super().__init__()
        self.asks = self.looked_at = self.forgotten = 0

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        if not isinstance(packet, Ask):
            return
        self.asks += 1
        for process, engine in self.engines.items():
            part: Part | None = engine.parts.get(packet.group)
            if process == me or part is None or part.form != packet.form or me not in part.members:
                continue
            if part.membership is not None and me in part.membership.failed:
                continue
            for column in part.matrix.roster:
                if column.process == packet.source and _received(column) >= packet.last:
                    self.looked_at += 1
                    self.forgotten += not any(kept.block == packet.last for kept in column.kept)


def _received(column: Column) -> int:
    """Up to where it has, and counts, what the member sent."""
    return column.last if column.cut is None else column.cut


def asked_of(item: tuple[Scenario, str]) -> Asked:
    run, name = item
    observer = _Asks()
    summary, _ = observer.run(run, VARIANTS[name])
    return Asked(observer.asks, observer.looked_at, observer.forgotten, summary.quiet)


def nothing_stable(context: Context) -> Measured:
    runs = [faulty_run(seed, order) for order in ORDERS for seed in range(context.of(2, 15))]
    ours = context.sweep(asked_of, [(run, "") for run in runs])
    hasty = context.sweep(asked_of, [(run, "discards at completion") for run in runs])
    asks, looked_at, forgotten = totals(ours, "asks", "looked_at", "forgotten")
    looked_at_hasty, missed = totals(hasty, "looked_at", "forgotten")
    return Measured(
        f"{len(runs)} runs with failures and lost packets: {asks:,} requests for something that is missing; {looked_at:,} times "
        f"another member had received it, and {forgotten} times had forgotten it. If what is complete is forgotten at once, "
        f"{missed:,} times of {looked_at_hasty:,}",
        judge(holds=bool(asks and looked_at and missed) and not forgotten),
        "who asks has not completed the block, so that nobody who counts it as a member can have heard that it has; what is "
        "complete here may be missing elsewhere",
        named_rows("rule", {"stable": ours, "complete": hasty}),
    )
