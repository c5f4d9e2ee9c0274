"""Do members that are far from each other stay together, meet again and let a joiner in? Scenarios, and what their traces say.

Round trips are multiples of ``suspect_after`` (omega), all other parameters are the defaults.

    python -m tests.protocols.newtop.far [SEEDS]       # a table by course of events, round trip, size and loss
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from plainchant.core.model import SECOND, Duration
from plainchant.protocols.newtop.parameters import Parameters
from plainchant.scenario.model import Delay, Fault, Network, Scenario, Workload
from tests.protocols.runs import Run, names, verified

OMEGA = int(Parameters().suspect_after)
APART = (10 * SECOND, 20 * SECOND)
"""From when to when the parts of a group cannot hear each other."""
PROMISED = 3
"""Up to this round trip (in omegas) the time that ``progress`` states is long enough for parts to meet, however much is lost."""
COURSES = ("stay", "merge", "join")
ROUND_TRIPS = (0.5, 1, 2, 3, 5, 8, 10)
SIZES = (2, 3, 5, 8)
MEMBERS = names(max(SIZES))


def scenario_of(course: str, seed: int, *, round_trip: float, members: int, loss: float, **parameters: Any) -> Scenario:
    """``stay``: nothing happens. ``merge``: the group is in two parts for a while. ``join``: one more joins a majority."""
    group = MEMBERS[:members]
    way = round(round_trip * OMEGA / 2)
    faults: tuple[Fault, ...] = ()
    if course == "merge":
        middle = 1 + seed % (members - 1)
        faults = (
            Fault(
                kind="partition",
                at=Duration(APART[0]),
                parts=(group[:middle], group[middle:]),
                length=Duration(APART[1] - APART[0]),
            ),
        )
    if course == "join":
        faults = (Fault(kind="join", at=Duration(4 * SECOND), process="q1"),)
        parameters = {"partitions": "majority"} | parameters
    return Scenario(
        protocol="newtop",
        name=f"far-{course}",
        seed=seed,
        members=group,
        later=("q1",) if course == "join" else (),
        groups={"g": group},
        parameters=parameters,
        duration=Duration(50 * SECOND),
        drain=Duration(60 * SECOND),
        network=Network(delay=Delay("constant", Duration(way)), loss=loss),
        workload=(Workload(rate=2.0),),
        fault=faults,
    )


def expected_views(course: str) -> int:
    """Views that a member installs if nothing goes wrong."""
    return {"stay": 1, "merge": 3, "join": 2}[course]


def run(course: str, seed: int, **settings: Any) -> Run:
    return verified(scenario_of(course, seed, **settings))


def together_at(done: Run, members: int) -> float | None:
    """When (s) the last member has installed the last view of all, if nobody is without it at the end; None: somebody is."""
    last: dict[str, dict[str, Any]] = {row["process"]: row for row in done.of("view")}
    complete = len(last) == members and all(len(row["members"]) == members for row in last.values())
    return float(max(row["true_time"] for row in last.values())) / SECOND if complete else None


def judged(course: str, runs: Iterable[Run], members: int) -> str:
    """One line: runs in which all was well at once, in which all are together at the end, and what went wrong."""
    expected, size = expected_views(course), members + (course == "join")
    count = well = together = halts = bad = worst = 0
    moments: list[float] = []
    for done in runs:
        count += 1
        most = max(len(done.of("view", name)) for name in {row["process"] for row in done.of("view")})
        worst = max(worst, most)
        moment = together_at(done, size)
        together += moment is not None
        moments += [moment] if moment is not None else []
        halts += any('"by":"protocol"' in row["detail"] for row in done.of("crash"))
        well += moment is not None and most <= expected
        bad += bool(done.violated) or not done.summary.quiet
    last = f"{max(moments):5.1f} s" if moments else "never"
    return f"at once {well:2}/{count}, together {together:2}/{count} by {last}, views {worst:2}, halts {halts}, violated {bad}"


def main(seeds: int, courses: tuple[str, ...]) -> None:
    for course in courses:
        for round_trip in ROUND_TRIPS:
            for loss in (0.0, 0.1, 0.3):
                for members in SIZES:
                    settings: dict[str, Any] = {"round_trip": round_trip, "members": members, "loss": loss}
                    text = judged(course, (run(course, seed, **settings) for seed in range(seeds)), members)
                    print(f"{course:5} {round_trip:4} omega, {loss:4.0%}, {members} members: {text}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, tuple(sys.argv[2:]) or COURSES)
