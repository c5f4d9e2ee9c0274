"""How long a group stands still after a crash: scenarios, and what is read from their traces.

Durations are those of the live hosts (``tuning``) unless a test says otherwise: on a real network they are what a round trip has
to be compared with.

    python -m tests.protocols.sequencer.failover       # a table of fail-over times by round trip, size and loss
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from plainchant.core.model import MS, SECOND, Duration
from plainchant.lab.properties import Verification, verify
from plainchant.protocols.registry import Surroundings
from plainchant.protocols.sequencer.parameters import Parameters
from plainchant.protocols.sequencer.tuning import tune
from plainchant.scenario.model import Delay, Fault, Network, Scenario, Workload
from plainchant.sim import Simulation, Summary
from plainchant.trace import TraceBuffer

CRASH = 3 * SECOND
FAIL_OVER_ROUND_TRIPS = 4
"""Trial, vote, telling the winner and its view, the word that it is in force."""
TIMES = ("suspect_after", "patience", "retry_after", "sync_after", "nack_after", "nack_retries")


def live_times(**given: Any) -> dict[str, Any]:
    """The durations that a live host would choose."""
    tuned = tune(Parameters(**given), Surroundings(3, 1_400, 1 << 20, frozenset(given)))
    return {name: getattr(tuned, name) for name in TIMES} | given


class Run(NamedTuple):
    scenario: Scenario
    summary: Summary
    table: pa.Table
    verification: Verification

    def rows(self, *kinds: str) -> Iterator[dict[str, Any]]:
        return (row for row in self.table.to_pylist() if row["kind"] in kinds)

    @property
    def violated(self) -> list[str]:
        """The properties that do not hold, and ``quiet`` if the run did not come to rest."""
        names = [name for name, outcome in self.verification.properties.items() if outcome.violations]
        return names if self.summary.quiet else [*names, "quiet"]

    @property
    def survivors(self) -> list[str]:
        return [name for name, end in self.summary.processes.items() if end.state == "alive"]

    def next_view(self, after: int = CRASH) -> int | None:
        """Time from the crash until the last survivor has installed its next view; None: one of them never did."""
        first: dict[str, int] = {}
        for row in self.rows("view"):
            if row["time"] > after:
                first.setdefault(row["process"], row["time"])
        names = self.survivors
        return max(first[name] for name in names) - after if names and all(name in first for name in names) else None

    @property
    def epochs(self) -> int:
        """Votes that were begun."""
        return sum(1 for row in self.rows("elect") if json.loads(row["detail"]).get("stage") == "vote")


def crash_of_the_sequencer(
    seed: int, *, members: int, round_trip_ms: float, loss: float = 0.0, jitter: float = 0.0, crashes: int = 1, **parameters: Any
) -> Scenario:
    """The first ``crashes`` members crash together. ``jitter``: one-way delays vary by this share of their mean."""
    names = tuple(f"p{number + 1}" for number in range(members))
    mean = round_trip_ms * MS / 2
    spread = round(mean * jitter)
    delay = (
        Delay("uniform", Duration(round(mean) - spread), Duration(round(mean) + spread))
        if spread
        else Delay("constant", Duration(round(mean)))
    )
    return Scenario(
        protocol="sequencer",
        name="fail-over",
        seed=seed,
        members=names,
        duration=Duration(CRASH + 12 * SECOND),
        drain=Duration(60 * SECOND),
        parameters=live_times() | parameters,
        network=Network(delay=delay, loss=loss),
        workload=(Workload(rate=2.0),),
        fault=tuple(
            Fault(kind="crash", at=Duration(CRASH + seed * 7_300_000 % (200 * MS)), process=name) for name in names[:crashes]
        ),
    )


def run(scenario: Scenario) -> Run:
    trace = TraceBuffer()
    summary = Simulation(scenario, trace=trace).run()
    table = trace.table()
    return Run(scenario, summary, table, verify(table))


def fail_over(done: Run) -> int | None:
    return done.next_view(done.scenario.fault[0].at)


def bound(scenario: Scenario) -> int:
    """What a fail-over takes at most without loss, where ``patience`` is longer than a round trip: a suspicion, of which
    ``suspect_after`` is counted in ticks, and four round trips."""
    parameters = Parameters(**scenario.parameters)
    delay = scenario.network.delay
    tick = max(parameters.heartbeat, parameters.quiet_after)
    return int(parameters.suspect_after) + 2 * int(tick) + FAIL_OVER_ROUND_TRIPS * 2 * int(max(delay.low, delay.high))


def distribution(runs: Iterable[Run]) -> str:
    times, votes, lost, bad, out = [], [], 0, 0, 0
    for done in runs:
        time = fail_over(done)
        votes.append(done.epochs)
        bad += done.verification.verdict != "holds"
        out += any(end.state == "halted" for end in done.summary.processes.values())
        if time is None:
            lost += 1
        else:
            times.append(time / MS)
    middle = f"{min(times):6.0f} {statistics.median(times):6.0f} {max(times):6.0f} ms" if times else "none"
    return f"{middle}; votes {statistics.mean(votes):.2f} (most {max(votes)}); never {lost}, halts in {out}, violated {bad}"


def main(seeds: int) -> None:
    for members, loss, jitter in (
        (3, 0, 0),
        (5, 0, 0),
        (5, 0, 0.3),
        (5, 0.1, 0.3),
        (5, 0.3, 0.3),
        (20, 0.1, 0.3),
        (40, 0.3, 0.3),
    ):
        for round_trip in (2, 100, 200, 420, 800, 1600):
            if members > 5 and round_trip not in (2, 420):
                continue
            some = range(seeds if members < 20 else max(2, seeds // 5))
            runs = (
                run(crash_of_the_sequencer(seed, members=members, round_trip_ms=round_trip, loss=loss, jitter=jitter))
                for seed in some
            )
            print(
                f"{members:3} members, round trip {round_trip:5} ms, loss {loss:.0%}, jitter {jitter:.0%}: {distribution(runs)}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
