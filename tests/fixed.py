"""A protocol whose groups do not change and whose parameters may differ by group, for tests of everything around it.

Every message is sent to everybody, again and again until everybody has said that it was heard.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from plainchant.core.engine import Engine, Host
from plainchant.core.model import (
    MS,
    Batch,
    Duration,
    Form,
    GroupId,
    Join,
    Packet,
    ProcessId,
    Propose,
    Reason,
    Timer,
    UsageError,
    View,
    parameter,
)
from plainchant.protocols.registry import Description, Promise

MOODS = ("calm", "hasty", "solemn")
AGAIN = 10 * MS


class Song(Packet, frozen=True, array_like=True, gc=False, tag=1):
    group: GroupId
    batch: Batch


class Heard(Packet, frozen=True, array_like=True, gc=False, tag=2):
    group: GroupId
    first: int


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    mood: str = parameter("calm", "the mood of all groups", choices=MOODS)
    moods: Mapping[GroupId, str] = parameter(
        factory=dict, about="groups of another mood", choices=MOODS, example='{ news = "hasty" }'
    )
    leaders: Mapping[GroupId, ProcessId] = parameter(factory=dict, about="who begins in a group", example='{ news = "p1" }')
    pauses: Mapping[GroupId, Duration] = parameter(factory=dict, about="pauses in a group", unit="duration", minimum=1)
    breaths: Mapping[ProcessId, Duration] = parameter(factory=dict, about="singers that breathe", minimum=1, keys="process")

    def __post_init__(self) -> None:
        if self.mood == "solemn" and "hasty" in self.moods.values():
            raise UsageError("a hasty group does not go with a solemn mood; choose one of them")


class Choir(Engine):
    """One process, in all its groups."""

    def __init__(self, host: Host, parameters: Parameters) -> None:
        self.host = host
        self.others: dict[GroupId, tuple[ProcessId, ...]] = {}
        self.unheard: dict[tuple[ProcessId, GroupId, int], Song] = {}
        self.heard: set[tuple[ProcessId, GroupId, int]] = set()

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        assert isinstance(how, Form)
        self.others[group] = tuple(name for name in how.members if name != self.host.me)
        self.host.install(View(group, 1, how.members))

    def ready(self, group: GroupId) -> None:
        while (batch := self.host.take(group, self.host.max_packet, 1)) is not None:
            self.unheard |= {(name, group, batch.first): Song(group, batch) for name in self.others[group]}
            self.host.send(self.others[group], Song(group, batch))
            self.host.set_timer("again", self.host.now + AGAIN)
            self.host.deliver(group, self.host.me, batch)

    def expire(self, timer: Timer) -> None:
        for (name, _, _), song in self.unheard.items():
            self.host.send((name,), song)
        if self.unheard:
            self.host.set_timer("again", self.host.now + AGAIN)

    def receive(self, source: ProcessId, packet: Any) -> None:
        if isinstance(packet, Heard):
            self.unheard.pop((source, packet.group, packet.first), None)
        elif packet.group in self.others:
            song = (source, packet.group, packet.batch.first)
            if song not in self.heard:
                self.heard.add(song)
                self.host.deliver(packet.group, source, packet.batch)
            self.host.send((source,), Heard(packet.group, packet.batch.first))

    def waiting(self) -> Reason | None:
        return Reason("unheard", f"{len(self.unheard)} answers are missing") if self.unheard else None


def check(parameters: Parameters, groups: Mapping[GroupId, Sequence[ProcessId]]) -> str | None:
    for group in (*parameters.moods, *parameters.pauses, *parameters.leaders):
        if group not in groups:
            return f"there is no group {group}; name one of {', '.join(groups)}"
    for group, leader in parameters.leaders.items():
        if leader not in groups[group]:
            return f"{leader} leads {group} and is not in it; name one of {', '.join(groups[group])}"
    return None


PLAINSONG = Description(
    name="plainsong",
    about="For tests.",
    parameters=Parameters,
    packets=(Song, Heard),
    make=Choir,
    promises=lambda parameters, groups: (Promise("integrity", "always"), Promise("validity", "nobody stops")),
    faults=(),
    settle=lambda parameters: 20 * MS,
    check=check,
    changes=lambda parameters: False,
    recorded=frozenset({"null"}),
)
