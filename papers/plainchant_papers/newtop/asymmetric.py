"""Claim 61 (9.2): a sequencer, where few members are active, against the symmetric protocol."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import pyarrow.compute as pc

from plainchant.core.model import MS, SECOND, Duration
from plainchant.scenario.model import Scenario, Workload

from ..claims import Context, Figure, Measured, curves, judge, rows
from ..observe import trace_of
from ..runs import names
from .structures import static

_MEMBERS: Final = 10
_RARELY: Final = 20.0
_OFTEN: Final = 2000.0  # Messages a second of each active member.
_RULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "symmetric, time-silence 20 ms": {"silence_by": "timeout", "silence": Duration(20 * MS)},
    "symmetric, nulls at once": {"silence_by": "adaptive"},
    "asymmetric": {"sequencers": {"g": "p1"}},
}


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    active: int
    rate: float
    rule: str
    delay: float  # Mean time from send to delivery, in ms.
    packets: float  # Copies of packets that arrive anywhere, for each message.


def scenario_of(active: int, rate: float, rule: str, messages: int) -> Scenario:
    """So many members send at a rate each, in turn; p1, which may be the sequencer, is the last of them to send."""
    members = names(_MEMBERS)
    senders = (*members[1:], members[0])[:active]
    workload = tuple(
        Workload(senders=(sender,), rate=rate, count=messages, size=32, start=Duration(round(number * SECOND / rate / active)))
        for number, sender in enumerate(senders)
    )
    return static({"g": members}, *workload, seconds=messages / rate + 0.2, order="total", **_RULES[rule])


def cost_of(item: tuple[int, float, str, int]) -> Cost:
    active, rate, rule, messages = item
    summary, table = trace_of(scenario_of(active, rate, rule, messages))
    rows = table.filter(pc.equal(table["kind"], "deliver"))
    delay = pc.mean(pc.subtract(rows["true_time"], rows["sent"])).as_py() / MS
    return Cost(active, rate, rule, delay, summary.interrupts / summary.messages_sent)


def few_active(context: Context) -> Measured:
    counts = context.of((1, 2, 5, 10), tuple(range(1, _MEMBERS + 1)))
    messages = context.of(20, 100)
    cases = [(active, _RARELY, rule, messages) for rule in _RULES for active in counts]
    found = context.sweep(cost_of, [*cases, *((_MEMBERS, _OFTEN, rule, 2 * messages) for rule in _RULES)])
    lines = {rule: [cost for cost in found if cost.rule == rule and cost.rate == _RARELY] for rule in _RULES}
    busy = {rule: next(cost for cost in found if cost.rule == rule and cost.rate == _OFTEN) for rule in _RULES}
    timed, at_once, asymmetric = lines.values()
    few = [(one, other) for line in (timed, at_once) for one, other in zip(asymmetric, line, strict=True) if one.active <= 2]
    wins = all(one.delay < other.delay and one.packets < other.packets for one, other in few)
    ours, _, theirs = busy.values()
    wins_back = ours.delay < theirs.delay and ours.packets < theirs.packets
    title = f"{_MEMBERS} members, a message of each active one every 50 ms"
    delays = curves(counts, {rule: [cost.delay for cost in line] for rule, line in lines.items()})
    packets = curves(counts, {rule: [cost.packets for cost in line] for rule, line in lines.items()})
    return Measured(
        f"{_MEMBERS} members, links of 1 ms; delay and arrivals a message, asymmetric against symmetric with time-silence of "
        f"20 ms and with nulls at once: one active {_pair(asymmetric[0])} against {_pair(timed[0])} and {_pair(at_once[0])}; "
        f"all active, {_RARELY:g} messages/s each, {_pair(asymmetric[-1])} against {_pair(timed[-1])} and "
        f"{_pair(at_once[-1])}; all active, {_OFTEN:,.0f}/s each, {_pair(theirs)} against {_pair(ours)}",
        judge(holds=wins and wins_back, nearly=wins),
        "a sequencer needs nobody else's messages: one packet to it, and one to everybody. The symmetric protocol waits for a "
        "message of everybody: null messages if they are silent, the next ones if they are not, and the latter is quicker "
        "than the way to a sequencer and back only where all send more often than a packet takes",
        rows(found),
        (
            Figure("asymmetric-delay", title, "active members", "mean delay (ms)", delays),
            Figure("asymmetric-packets", title, "active members", "arrivals a message", packets),
        ),
    )


def _pair(cost: Cost) -> str:
    return f"{cost.delay:.1f} ms, {cost.packets:.1f}"
