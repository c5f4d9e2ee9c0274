"""Which cases are measured: a case is one setting of everything that a benchmark of groups can turn.

``quick`` (about a minute) is what tells whether a change made things faster, the default (some minutes) all that has a target and
the most telling rest, ``full`` every combination. Cases with a target are measured three times and the best counts; others once.

An :class:`Idle` is a group in which one member says something now and then: what counts is how long that takes, in round trips
of the link, and what the others send for it.

A :class:`Timed` is a ring in which everybody sends messages with deadlines: what counts is how many are missed.

A :class:`Local` is what processes of one machine can do: a group through common memory, and whatever else there is.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Final, Literal

SMALL: Final = 1_400
LOOPBACK: Final = 65_507
"""Bytes of the largest packet, which only loopback carries whole."""
SIZES: Final = (32, 1_024, 65_536)
MEMBERS: Final = (3, 5)

PROTOCOLS: Final = ("sequencer", "newtop", "rtcast")
MAILBOX: Final = "mailbox"
QUEUE: Final = "multiprocessing.Queue"
PAIR: Final = "Unix socket pair"

MEASURED: Final = (*PROTOCOLS, MAILBOX)

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
    protocol: str = "sequencer"
    rounds: int = 1
    encrypted: bool = False
    """Whether every packet is sealed, with a key that is made for the measurement."""

    def __str__(self) -> str:
        parts = [
            self.protocol,
            f"{self.members} members",
            f"{self.size} B",
            f"{self.senders} sending by {self.sending}",
            f"packets of {self.packet}",
            f"{self.reading}",
            "traced" if self.traced else "not traced",
            *(["encrypted"] if self.encrypted else []),
        ]
        return ", ".join(parts)


@dataclasses.dataclass(frozen=True)
class Idle:
    """A group where one member sends a message now and then, and the others nothing."""

    protocol: str = "newtop"
    members: int = 3
    silence_ms: int = 0
    """newtop: the fixed time-out of time-silence; 0: adaptive."""
    link_ms: int = 0
    """What is added to the way of every packet, in one direction; 0: loopback as it is."""

    def __str__(self) -> str:
        silence = f", time-silence of {self.silence_ms} ms" if self.silence_ms else ""
        link = f", links of {2 * self.link_ms} ms there and back" if self.link_ms else ""
        return f"{self.protocol}, {self.members} members, nearly idle{silence}{link}"


@dataclasses.dataclass(frozen=True)
class Timed:
    """A ring in which everybody sends messages with deadlines."""

    members: int = 3
    flooded: bool = False
    """Whether messages without deadlines are sent beside them, as many as go."""
    delay_ms: int = 0
    """The largest delay that is reckoned with; 0: as the protocol chooses it for real processes."""

    def __str__(self) -> str:
        beside = " in a flood" if self.flooded else ""
        delay = f", reckoning with {self.delay_ms} ms" if self.delay_ms else ""
        return f"rtcast, {self.members} members, deadlines{beside}{delay}"


@dataclasses.dataclass(frozen=True)
class Local:
    """Three processes of one machine that get everything which one or all of them send."""

    how: str = MAILBOX
    """A protocol, :data:`QUEUE` or :data:`PAIR`."""
    size: int = 32
    senders: Senders = "one"

    def __str__(self) -> str:
        return f"{self.how}, on one machine, {self.size} B, {self.senders} sending"


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
    idle: tuple[Idle, ...] = ()
    idle_rounds: int = 1
    idle_seconds: float = 1.0
    timed: tuple[Timed, ...] = ()
    timed_rounds: int = 1
    timed_seconds: float = 2.0
    local: tuple[Local, ...] = ()
    local_rounds: int = 1

    def steps(self, peers: bool) -> int:
        """How many things are measured, one after the other."""
        beside = 2 * len(self.peer_members) * len(self.peer_sizes) if peers else 0
        rounds = self.idle_rounds * len(self.idle) + self.timed_rounds * len(self.timed) + self.local_rounds * len(self.local)
        return sum(case.rounds for case in self.cases) + bool(self.stall_seconds) + rounds + beside


HEADLINES: Final = (
    Case(size=32, packet=LOOPBACK),
    Case(size=32, packet=SMALL),
    Case(size=1_024, packet=LOOPBACK),
)
"""The cases with targets, not traced, read by ``batches()``."""


LINK_MS: Final = 5
"""One way of a link where the way, and not the processor, is what takes time."""
SILENCES_MS: Final = (50, 250)
"""Fixed time-outs of the thesis (7.3 has 50 to 1,050 ms)."""

LOCAL_SIZES: Final = (32, 65_536)

NEARER_MS: Final = 25
"""A largest delay that a shared machine does not always keep."""


def make_plan(
    level: Level, *, rounds: int, seconds: float, stall_seconds: float = 0.0, protocols: Sequence[str] = MEASURED
) -> Plan:
    """The cases of a level. ``rounds``: of cases with targets."""
    if level == "quick":
        rounds = 1
    headlines = [dataclasses.replace(case, rounds=rounds) for case in HEADLINES]
    targets = [
        *(dataclasses.replace(case, protocol=protocol) for case in headlines for protocol in PROTOCOLS),
        *(dataclasses.replace(case, traced=True) for case in headlines),
        *(dataclasses.replace(case, reading="async for") for case in headlines[:2]),
    ]
    quick = level == "quick"
    cases = targets if quick else [*targets, *_telling()]
    if level == "full":
        done = {dataclasses.replace(case, rounds=1) for case in cases}
        turned = itertools.product(MEMBERS, SIZES, SENDERS, (LOOPBACK, SMALL), (False, True), READING, SENDING, PROTOCOLS)
        every = (Case(*settings) for settings in turned)
        cases += [case for case in every if case not in done]
    return Plan(
        tuple(case for case in cases if case.protocol in protocols),
        peer_sizes=(32,) if quick else (32, 1_024),
        peer_members=MEMBERS if level == "full" else (3,),
        warm=0.4 if quick else 0.5,
        seconds=seconds,
        latency_seconds=0.5 if quick else 0.8,
        stall_seconds=stall_seconds,
        idle=tuple(each for each in _idle(level) if each.protocol in protocols),
        idle_rounds=rounds,
        timed=tuple(_timed(level)) if "rtcast" in protocols else (),
        timed_rounds=rounds,
        local=tuple(_local(level)) if MAILBOX in protocols else (),
        local_rounds=rounds,
    )


def make_encrypted_plan(*, rounds: int, seconds: float, protocols: Sequence[str] = PROTOCOLS) -> Plan:
    """The cases with targets, each right before the same with a key."""
    plain = [
        dataclasses.replace(case, rounds=rounds, protocol=protocol)
        for case in HEADLINES
        for protocol in PROTOCOLS
        if protocol in protocols
    ]
    cases = tuple(dataclasses.replace(case, encrypted=encrypted) for case in plain for encrypted in (False, True))
    return Plan(cases, peer_sizes=(), peer_members=(), warm=0.4, seconds=seconds, latency_seconds=0.4)


def _telling() -> list[Case]:
    return [
        Case(sending="send"),
        Case(size=1_024, packet=SMALL),
        Case(size=65_536),
        Case(senders="one"),
        Case(senders="one", packet=SMALL),
        Case(senders="one", size=1_024),
        Case(members=5),
        Case(members=5, packet=SMALL),
        Case(members=5, size=1_024),
        Case(sending="send", protocol="newtop"),
        Case(senders="one", protocol="newtop"),
        Case(senders="one", packet=SMALL, protocol="newtop"),
        Case(members=5, protocol="newtop"),
        Case(members=5, packet=SMALL, protocol="newtop"),
        Case(members=5, protocol="rtcast"),
    ]


def _idle(level: Level) -> list[Idle]:
    """Adaptive, on loopback and on links that take time; then the fixed time-outs, and ``sequencer`` beside it."""
    found = [Idle(), Idle(link_ms=LINK_MS), Idle(silence_ms=SILENCES_MS[0])]
    if level != "quick":
        found += [Idle(silence_ms=each) for each in SILENCES_MS[1:]]
        found += [Idle(members=5), Idle(members=5, link_ms=LINK_MS), Idle("sequencer"), Idle("sequencer", link_ms=LINK_MS)]
    return found


def _timed(level: Level) -> list[Timed]:
    """With the delays that real processes are thought to keep, alone and in a flood; then with a quarter of that."""
    found = [Timed(), Timed(flooded=True)]
    if level != "quick":
        found += [Timed(members=5), Timed(members=5, flooded=True)]
        found += [Timed(delay_ms=NEARER_MS), Timed(delay_ms=NEARER_MS, flooded=True)]
    return found


def _local(level: Level) -> list[Local]:
    """Everything else right after the mailbox that it is compared with."""
    found = []
    for size, senders in itertools.product(LOCAL_SIZES, SENDERS):
        others: tuple[str, ...] = (*PROTOCOLS, QUEUE, PAIR)
        if level == "quick":
            if size == LOCAL_SIZES[0] and senders == "all":
                continue
            others = others if size == LOCAL_SIZES[0] else ("sequencer", QUEUE, PAIR)
        found += [Local(how, size, senders) for how in (MAILBOX, *others)]
    return found
