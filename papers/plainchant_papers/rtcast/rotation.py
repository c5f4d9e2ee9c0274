"""Claim 63 (4.1, 4.4): the token's rotation, with turns that are full, against the printed bound and the one that holds.

Theory of operation
-------------------
Everybody always has messages, and these fill T to the byte (``SIZE``); every packet takes d_max. Three situations: nothing else
happens; somebody asks to join all the time, and is refused because a promised deadline would not survive the larger P, so that
the join slot is in every rotation; a member crashes, just before its turn or at any other moment.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from plainchant.core.model import MS, Duration
from plainchant.scenario.model import Scenario, Workload

from ..claims import Context, Figure, Measured, Series, curves, judge, rows
from ..observe import trace_of
from ..runs import Given, fault, milliseconds, names
from .rings import BEGIN, DELAY, FULL, SIZES, ring, rotations, times_of

SITUATIONS: Final = ("nothing else", "somebody asks to join", "a crash")
SIZE: Final = 1058  # Four of these, with their headers and one heartbeat, fill T = 4 ms at 10 Mbit/s but for 0.2 ms.
_JOINER: Final = "late"


@dataclasses.dataclass(frozen=True, slots=True)
class Full:
    """A ring with full turns."""

    members: int
    situation: str
    moment: float = 0.0  # A crash: when, in rotations after the beginning.

    def run(self) -> Scenario:
        load = [Workload(size=SIZE, start=milliseconds(100))]
        settings: Given = {"heartbeats": 1, "retransmissions": 0, "clocks": "none", "admission": False}
        settings |= {"hold": milliseconds(4), "idle_hold": milliseconds(1), "network": FULL}
        tight = Duration(2 * times_of(ring(self.members, **settings))["rotation"])
        rotation = tight / 2 / MS
        if self.situation == SITUATIONS[1]:
            load.append(Workload(senders=("p1",), rate=1e9 / (2 * tight), deadline=tight, size=16, start=milliseconds(100)))
            settings |= {"admission": True, "faults": [fault("join", BEGIN, process=_JOINER)], "later": (_JOINER,)}
        elif self.situation == SITUATIONS[2]:
            settings["faults"] = [fault("crash", BEGIN + self.moment * rotation, process=names(self.members)[-1])]
        return ring(self.members, *load, length=BEGIN + 6 * rotation, drain=0, **settings)


@dataclasses.dataclass(frozen=True, slots=True)
class Rotation:
    """The longest rotation of a run, in ms, beside the bounds."""

    members: int
    situation: str
    longest: float
    rotations: int
    printed_41: float
    printed_42: float
    hops: float  # n T + n d_max (and the join slot, if somebody asks to join).
    safe: float  # P, as it is reckoned here.
    slots: int  # Requests to join.


def rotation_of(full: Full) -> Rotation:
    run = full.run()
    _, table = trace_of(run)
    found = rotations(table, BEGIN)
    times = {name: time / MS for name, time in times_of(run).items()}
    slots = table["kind"].to_pylist().count("request")
    hops = (times_of(run)["4.1"] + (times_of(run)["slot"] if full.situation == SITUATIONS[1] else 0)) / MS + DELAY
    bounds = (times["4.1"], times["4.2"], hops, times["rotation"])
    return Rotation(full.members, full.situation, max(found) / MS, len(found), *bounds, slots)


def token_rotation(context: Context) -> Measured:
    sizes = context.of((2, 4), SIZES)
    moments = context.of((0.3, 0.8), tuple(step / 4 for step in range(4)))
    flat = [Full(members, situation) for situation in SITUATIONS[:2] for members in sizes]
    flat += [Full(members, SITUATIONS[2], moment) for members in sizes for moment in moments]
    found = context.sweep(rotation_of, flat)
    quiet, asked, crashed = ([run for run in found if run.situation == situation] for situation in SITUATIONS)
    worst = {
        f"measured: {situation}": [max(run.longest for run in runs if run.members == members) for members in sizes]
        for situation, runs in zip(SITUATIONS, (quiet, asked, crashed), strict=True)
    }
    above = [run for run in quiet if run.longest > run.printed_41] + [run for run in asked if run.longest > run.printed_42]
    beyond = [run for run in (*quiet, *asked) if run.longest > run.hops]
    unsafe = [run for run in found if run.longest > run.safe]
    last = [next(run for run in runs if run.members == sizes[-1]) for runs in (quiet, asked)]
    printed = {"printed: 4.1": [run.printed_41 for run in quiet], "printed: 4.2": [run.printed_42 for run in quiet]}
    series = (*curves(sizes, worst, printed), Series("P, as reckoned here", sizes, [run.safe for run in quiet]))
    return Measured(
        f"{len(found)} runs with full turns in rings of {sizes[0]} to {sizes[-1]}: the longest rotation of {sizes[-1]} members "
        f"is {last[0].longest:.1f} ms (4.1 says {last[0].printed_41:.1f}), with somebody asking to join {last[1].longest:.1f} "
        f"ms (4.2 says {last[1].printed_42:.1f}), with a crash {[*worst.values()][2][-1]:.1f} ms; above the printed bound in "
        f"{len(above)} of {len(quiet) + len(asked)} runs without a crash, above n T + n d_max (+ T_v) in {len(beyond)}, above "
        f"P as reckoned here ({last[0].safe:.1f} ms) in {len(unsafe)}",
        judge(
            holds=not above and not unsafe and len(crashed) > 0,
            nearly=not beyond and not unsafe and len(crashed) > 0 and all(run.slots > 1 for run in asked),
        ),
        "from one turn of a member to its next the token makes n hops, not n - 1; and a crash costs the time-outs of those who "
        "wait for it, which neither formula has",
        rows(found),
        (Figure("rotation-by-size", "the longest rotation of the token, full turns", "members (n)", "ms", series),),
    )
