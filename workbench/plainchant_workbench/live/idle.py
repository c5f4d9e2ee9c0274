"""A nearly idle group: how long a message takes to its sender's own delivery, and to everybody's, in round trips of the link.

Theory of operation
-------------------
One member sends a message, waits until it must long be delivered everywhere, and sends the next. All members write down when they
read it; ``time.monotonic_ns`` is one clock for all processes of a machine. In the same round the link alone is measured, with the
same pauses: raw UDP with blocking sockets, and packets over the members' own transport with no protocol on it (:mod:`.link`).

On loopback the processor is what takes time: three members share two cores, and every packet costs a process its turn. So the
same is measured over links with a delay, where the ways count, and in the simulator, where nothing else does.

A silent member sends null messages only (and what tells others where it stands): its packets are counted, to each other member.
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from plainchant.core.model import MS, SECOND, Duration
from plainchant.scenario.model import Delay, Network, Scenario, Workload
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer

from .link import measure_link
from .plan import LOOPBACK, Case, Idle, Plan
from .processes import BenchError
from .raw import measure_raw
from .session import Session
from .us import MEASURED, names, start

SIZE: Final = 32
SHORTEST_PERIOD: Final = 0.02
"""Seconds between two messages, at the least."""
LEAST_MESSAGES: Final = 10
SIMULATED_MESSAGES: Final = 50
SIMULATED_LINK: Final = 1 * MS
"""One way; costs of processors are none."""


@dataclasses.dataclass(frozen=True)
class Quiet:
    """What one round came to; times in µs."""

    own: float
    """Median, from ``send`` until the sender has read it."""
    everywhere: float
    """Median, until the last member has read it."""
    packets: float
    """What a silent member sent to each other one for a message."""
    link: float
    """Median round trip of the link, over the members' transport."""
    raw: float | None
    """The same of blocking sockets, on loopback."""


def measure_idle(idle: Idle, plan: Plan) -> Quiet:
    """One round, with fresh processes."""
    period = _period(idle)
    case = Case(members=idle.members, protocol=idle.protocol)
    seconds = plan.idle_seconds
    raw = measure_raw(SIZE, LOOPBACK, seconds=seconds, one_way=False, pause=period).rtt_us_p50 if not idle.link_ms else None
    link = measure_link(SIZE, idle.link_ms, seconds=seconds, pause=period)
    with (
        tempfile.TemporaryDirectory(prefix="plainchant-bench-") as directory,
        start(case, Path(directory), parameters=_parameters(idle), link_ms=idle.link_ms) as crew,
    ):
        crew.answers()
        crew.pin(True)
        everybody = names(idle.members)
        messages = max(LEAST_MESSAGES, round(seconds / period))
        crew.ask({"do": "watch", "watched": everybody[MEASURED]})
        answers = crew.ask({"do": "idle", "messages": messages, "period": period}, seconds=messages * period)
        Session(crew, everybody, [MEASURED]).compare(answers)
        reports = crew.ask({"do": "times"})
    sent = answers[MEASURED]["times"]
    arrivals = [report["arrivals"] for report in reports]
    if any(len(each) != len(sent) for each in arrivals):
        raise BenchError(f"{len(sent)} messages were sent, and {[len(each) for each in arrivals]} times written down")
    silent = [report["packets"] for number, report in enumerate(reports) if number != MEASURED]
    return Quiet(
        own=_median_us(sent, arrivals[MEASURED]),
        everywhere=_median_us(sent, [max(times) for times in zip(*arrivals, strict=True)]),
        packets=statistics.mean(silent) / len(sent),
        link=link,
        raw=raw,
    )


def simulate_idle(idle: Idle) -> dict[str, float]:
    """The same in the simulator, exactly: both times in round trips of the link, and packets of a silent member a message."""
    everybody = tuple(names(idle.members))
    period = _period(idle)
    trace = TraceBuffer()
    scenario = Scenario(
        protocol=idle.protocol,
        name="idle",
        members=everybody,
        groups={"bench": everybody},
        parameters=_parameters(idle),
        network=Network(delay=Delay(low=Duration(SIMULATED_LINK))),
        workload=(Workload(senders=(everybody[MEASURED],), rate=1 / period),),
        duration=Duration(round(SIMULATED_MESSAGES * period * SECOND)),
        drain=Duration(10 * SECOND),
    )
    summary = Simulation(scenario, trace=trace, run="idle").run()
    if not summary.quiet:
        raise BenchError(f"the simulated group did not get quiet: {summary.not_quiet}")
    sent: dict[int, int] = {}
    arrivals: dict[str, dict[int, int]] = {name: {} for name in everybody}
    for row in trace.table().to_pylist():
        if row["kind"] == "send":
            sent[row["seq"]] = row["time"]
        elif row["kind"] == "deliver":
            arrivals[row["process"]][row["seq"]] = row["time"]
    own = [arrivals[everybody[MEASURED]][seq] - time for seq, time in sent.items()]
    everywhere = [max(times[seq] for times in arrivals.values()) - time for seq, time in sent.items()]
    others = summary.packets_sent - summary.messages_sent
    return {
        "own": statistics.median(own) / (2 * SIMULATED_LINK),
        "everywhere": statistics.median(everywhere) / (2 * SIMULATED_LINK),
        "packets": others / len(sent) / (idle.members - 1),
    }


def idle_row(idle: Idle, rounds: Sequence[Quiet], error: str | None) -> dict[str, Any]:
    """A row of the result: the median of the rounds, and the least and largest ratio."""
    exact = simulate_idle(idle)
    row: dict[str, Any] = {
        "protocol": idle.protocol,
        "members": idle.members,
        "size": SIZE,
        "silence_ms": idle.silence_ms or None,
        "link_ms": 2 * idle.link_ms,
        "simulated_round_trips": round(exact["own"], 3),
        "simulated_round_trips_everywhere": round(exact["everywhere"], 3),
        "simulated_packets": round(exact["packets"], 3),
        "rounds": len(rounds),
        "error": error,
    }
    if not rounds or error is not None:
        return row
    return row | {
        "own_us_p50": _middle([each.own for each in rounds]),
        "everywhere_us_p50": _middle([each.everywhere for each in rounds]),
        "link_us_p50": _middle([each.link for each in rounds]),
        "raw_us_p50": _middle([each.raw for each in rounds if each.raw is not None]),
        "round_trips": _ratios([(each.own, each.link) for each in rounds]),
        "round_trips_everywhere": _ratios([(each.everywhere, each.link) for each in rounds]),
        "raw_round_trips": _ratios([(each.own, each.raw) for each in rounds if each.raw is not None]),
        "packets": round(statistics.median(each.packets for each in rounds), 3),
    }


def _period(idle: Idle) -> float:
    """Long enough for the group to be idle again before the next message."""
    return max(SHORTEST_PERIOD, 3 * (idle.silence_ms + 2 * idle.link_ms) / 1_000)


def _parameters(idle: Idle) -> dict[str, Any]:
    """A static group: what is measured is the round trip, without signs of life."""
    if idle.protocol != "newtop":
        return {}
    if not idle.silence_ms:
        return {"suspect_after": 0}
    silence = idle.silence_ms * MS
    return {"suspect_after": 0, "silence_by": "timeout", "silence": silence, "probe_after": 4 * silence}


def _median_us(sent: Sequence[int], arrived: Sequence[int]) -> float:
    return statistics.median(there - here for here, there in zip(sent, arrived, strict=True)) / 1_000


def _middle(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 1) if values else None


def _ratios(pairs: Sequence[tuple[float, float]]) -> dict[str, float] | None:
    """Ratios of one round each: the median, the least and the largest."""
    ratios = sorted(value / to for value, to in pairs)
    if not ratios:
        return None
    return {"median": round(statistics.median(ratios), 2), "least": round(ratios[0], 2), "largest": round(ratios[-1], 2)}
