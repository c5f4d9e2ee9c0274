"""Which cases are measured: a case is one setting of everything that a benchmark of groups can turn.

``quick`` (about a minute) is what tells whether a change made things faster, the default (some minutes) all that has a target and
the most telling rest, ``full`` every combination. Cases with a target are measured three times and the best counts; others once.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Final, Literal

SMALL: Final = 1_400
LOOPBACK: Final = 65_507
"""Bytes of the largest packet, which only loopback carries whole."""
SIZES: Final = (32, 1_024, 65_536)
MEMBERS: Final = (3, 5)

Senders = Literal["all", "one"]
Reading = Literal["batches()", "async for"]
Sending = Literal["send_many", "send"]
SENDERS: Final[tuple[Senders, ...]] = ("all", "one")
READING: Final[tuple[Reading, ...]] = ("batches()", "async for")
SENDING: Final[tuple[Sending, ...]] = ("send_many", "send")

Level = Literal["quick", "default", "full"]


@dataclasses.dataclass(frozen=True)
class Case:
    """One setting."""

    members: int = 3
    size: int = 32
    senders: Senders = "all"
    packet: int = LOOPBACK
    traced: bool = False
    reading: Reading = "batches()"
    sending: Sending = "send_many"
    rounds: int = 1

    def __str__(self) -> str:
        parts = [
            f"{self.members} members", f"{self.size} B", f"{self.senders} sending by {self.sending}", f"packets of {self.packet}",
            f"{self.reading}", "traced" if self.traced else "not traced",
        ]
        return ", ".join(parts)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run of the benchmark does."""

    cases: tuple[Case, ...]
    peer_sizes: tuple[int, ...]
    peer_members: tuple[int, ...]
    warm: float
    """Seconds before counting begins."""
    seconds: float
    """Seconds that are counted."""
    latency_seconds: float
    stall_seconds: float = 0.0

    def steps(self, peers: bool) -> int:
        """How many things are measured, one after the other."""
        beside = 2 * len(self.peer_members) * len(self.peer_sizes) if peers else 0
        return sum(case.rounds for case in self.cases) + bool(self.stall_seconds) + beside


HEADLINES: Final = (
    Case(size=32, packet=LOOPBACK),
    Case(size=32, packet=SMALL),
    Case(size=1_024, packet=LOOPBACK),
)
"""The cases with targets, not traced, read by ``batches()``."""


def make_plan(level: Level, *, rounds: int, seconds: float, stall_seconds: float = 0.0) -> Plan:
    """The cases of a level. ``rounds``: of cases with targets."""
    headlines = [dataclasses.replace(case, rounds=rounds) for case in HEADLINES]
    targets = [
        *headlines,
        *(dataclasses.replace(case, traced=True) for case in headlines),
        *(dataclasses.replace(case, reading="async for") for case in headlines[:2]),
    ]
    if level == "quick":
        return Plan(tuple(dataclasses.replace(case, rounds=1) for case in targets), (32,), (3,), 0.4, seconds, 0.5, stall_seconds)
    telling = [
        Case(sending="send"),
        Case(size=1_024, packet=SMALL),
        Case(size=65_536),
        Case(senders="one"),
        Case(senders="one", packet=SMALL),
        Case(senders="one", size=1_024),
        Case(members=5),
        Case(members=5, packet=SMALL),
        Case(members=5, size=1_024),
    ]
    cases = [*targets, *telling]
    if level == "full":
        done = {dataclasses.replace(case, rounds=1) for case in cases}
        turned = itertools.product(MEMBERS, SIZES, SENDERS, (LOOPBACK, SMALL), (False, True), READING, SENDING)
        every = (Case(*settings) for settings in turned)
        cases += [case for case in every if case not in done]
    return Plan(tuple(cases), (32, 1_024), MEMBERS if level == "full" else (3,), 0.5, seconds, 0.8, stall_seconds)
