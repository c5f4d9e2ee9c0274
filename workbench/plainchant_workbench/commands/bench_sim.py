"""``plainchant bench sim``: how fast the simulator is, beside something that everybody knows, measured in the same run.

Machines are noisy, so that only ratios are worth keeping: each measurement alternates with the peer's, and the best of
the rounds counts on both sides. Figures of length and memory come from processes of their own.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from plainchant.cli.console import guarded, output, plain_table
from plainchant.cli.options import JsonOption
from plainchant.core.model import SECOND, Duration, UsageError
from plainchant.scenario.model import Scenario, Workload
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer, TraceWriter

from .telling import progress

RATE: Final = 1_000.0
"""Messages per second of each member."""
BURST: Final = 8
"""A member hands so many messages over at a time; each still travels in a packet of its own."""
SIMPY_PROCESSES: Final = 10


class Forgetful(TraceBuffer):
    """A trace that is thrown away: what is left is the simulation's own time."""

    def flush_if_full(self) -> None:
        for history in self._ordered():
            history.rows.clear()
            history.packets.clear()


def scenario(members: int, events: int) -> Scenario:
    """The benchmark's scenario: everybody sends, nothing goes wrong, one message a packet."""
    names = tuple(f"p{number + 1}" for number in range(members))
    events_per_second = RATE * members * members  # one request and n - 1 arrivals a message
    return Scenario(
        protocol="sequencer",
        name="bench",
        members=names,
        groups={"g": names},
        parameters={"pack": False},
        workload=(Workload(rate=RATE, burst=BURST),),
        duration=Duration(max(1, round(events / events_per_second * SECOND))),
        drain=Duration(0),
    )


def simulate(members: int, events: int, *, traced: bool = True) -> tuple[int, float]:
    """Runs the benchmark's scenario once; returns events handled and processor seconds, writing included."""
    what = scenario(members, events)
    with tempfile.TemporaryDirectory() as directory:
        began = time.process_time()
        trace = TraceWriter(Path(directory) / "out") if traced else Forgetful()
        summary = Simulation(what, trace=trace).run()
        trace.close()
        return summary.events, time.process_time() - began


def simpy_rate(events: int) -> float:
    """Events per second of SimPy with ten processes that only ``timeout(1)``."""
    try:
        import simpy
    except ImportError:
        raise UsageError("SimPy is not installed; `pip install plainchant[bench]` brings it, and so does `make setup`") from None

    def process(environment: Any) -> Any:
        while True:
            yield environment.timeout(1)

    environment = simpy.Environment()
    for _ in range(SIMPY_PROCESSES):
        environment.process(process(environment))
    began = time.process_time()
    environment.run(until=events // SIMPY_PROCESSES)
    return events / (time.process_time() - began)


@guarded
def bench(
    events: Annotated[int, typer.Option(help="Events of a measurement.", min=10_000)] = 200_000,
    rounds: Annotated[int, typer.Option(help="Rounds; the best of them counts.", min=1)] = 5,
    as_json: JsonOption = False,
) -> None:
    """Measure the simulator beside SimPy.

    The `sequencer` protocol with 3, 10 and 50 members, trace on, one message a packet; an event is a packet arrival or
    a timer that an engine handled. SimPy runs ten processes that do nothing but timeout(1), in the same run.

    Examples:

      plainchant bench sim

      plainchant bench sim --json > sim.json
    """
    peer = 0.0
    rates = {3: 0.0, 10: 0.0, 50: 0.0}
    untraced = 0.0
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}", as_json)
        peer = max(peer, simpy_rate(events))
        for members in rates:
            handled, seconds = simulate(members, events)
            rates[members] = max(rates[members], handled / seconds)
        handled, seconds = simulate(10, events, traced=False)
        untraced = max(untraced, handled / seconds)
    progress("ten times the length", as_json)
    long = _compare_lengths(events, rounds)
    result: dict[str, Any] = {
        "rows": [
            {"members": members, "events_per_s": round(rate), "ratio_to_simpy": round(rate / peer, 3)}
            for members, rate in rates.items()
        ],
        "simpy_events_per_s": round(peer),
        "trace_share_of_time": round(1 - rates[10] / untraced, 3),
        **long,
    }
    if as_json:
        print(json.dumps(result))
        return
    table = plain_table("members", "events/s", "of SimPy's bare rate")
    for row in result["rows"]:
        table.add_row(f"{row['members']}", f"{row['events_per_s']:,}", f"{row['ratio_to_simpy']:.2f}")
    console = output()
    console.print(table)
    console.print(
        f"SimPy: {peer:,.0f} events/s. Writing the trace takes {result['trace_share_of_time']:.0%} of the time (10 members)."
    )
    console.print(
        f"At ten times the length: {long['time_per_event_at_10x']:.2f} times the time for an event, "
        f"{long['memory_at_10x']:.2f} times the memory."
    )


def _compare_lengths(events: int, rounds: int) -> dict[str, float]:
    """Time for an event and peak memory at ten times the length, each in a fresh process, alternating."""
    short = [_apart(events) for _ in range(rounds)]
    long = [_apart(10 * events) for _ in range(min(rounds, 2))]
    return {
        "time_per_event_at_10x": round(min(one[0] for one in long) / min(one[0] for one in short), 3),
        "memory_at_10x": round(max(one[1] for one in long) / max(one[1] for one in short), 3),
    }


def _apart(events: int) -> tuple[float, int]:
    """Seconds for an event and peak resident memory (KiB) of one measurement in its own process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (events,))


def _measure(events: int) -> tuple[float, int]:
    handled, seconds = simulate(10, events)
    return seconds / handled, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
