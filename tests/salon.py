"""A protocol whose groups are formed, closed, renamed and merged while processes run, for tests of everything around it.

It is correct as long as nothing is lost and nobody stops: there is no agreement in it. A proposer asks everybody, forms the
group when all have answered, and tells those who agreed. Every message goes to everybody at once.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from plainchant.core.engine import Engine, Host
from plainchant.core.model import (
    MS,
    Batch,
    Consent,
    Duration,
    Form,
    GroupId,
    Invitation,
    Join,
    Packet,
    ProcessId,
    Propose,
    Reason,
    View,
    parameter,
)
from plainchant.protocols.registry import Description, Promise


class Song(Packet, frozen=True, array_like=True, gc=False, tag=1):
    group: GroupId
    batch: Batch


class Asked(Packet, frozen=True, array_like=True, gc=False, tag=2):
    group: GroupId
    members: tuple[ProcessId, ...]
    attempt: int


class Answered(Packet, frozen=True, array_like=True, gc=False, tag=3):
    group: GroupId
    agrees: bool
    text: str


class Changed(Packet, frozen=True, array_like=True, gc=False, tag=4):
    """The group has these members, and this name; without members it is closed."""

    group: GroupId
    name: GroupId
    number: int
    members: tuple[ProcessId, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SalonParameters:
    settle: Duration = parameter(Duration(20 * MS), "how long a fault goes unnoticed", unit="duration", minimum=0)
    forming: bool = parameter(True, "groups are formed while processes run")
    moving: bool = parameter(True, "members come and go")


class Salon(Engine):
    """One process's protocol, for all its groups."""

    def __init__(self, host: Host, parameters: SalonParameters) -> None:
        self.host = host
        self.views: dict[GroupId, View] = {}
        self.attempts = 0
        self.asked: dict[GroupId, dict[ProcessId, Answered | None]] = {}

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        if isinstance(how, Form):
            self.install(View(group, 1, how.members))
        elif isinstance(how, Propose):
            self.attempts += 1
            others = tuple(name for name in how.members if name != self.host.me)
            self.asked[group] = dict.fromkeys(others)
            self.host.send(others, Asked(group, (self.host.me, *others), self.attempts))

    def leave(self, group: GroupId) -> None:
        view = self.views.pop(group)
        members = tuple(name for name in view.members if name != self.host.me)
        self.host.send(members, Changed(group, group, view.number + 1, members))
        self.host.left(group)

    def close(self, group: GroupId) -> None:
        self.tell(self.views[group].members, Changed(group, group, 0, ()))

    def rename(self, group: GroupId, name: GroupId) -> None:
        view = self.views[group]
        self.tell(view.members, Changed(group, name, view.number + 1, view.members))

    def tell(self, members: tuple[ProcessId, ...], changed: Changed) -> None:
        self.host.send(members, changed)

    def install(self, view: View) -> None:
        self.views[view.group] = view
        self.host.install(view)

    def ready(self, group: GroupId) -> None:
        if group not in self.views:
            return
        while (batch := self.host.take(group, self.host.max_packet, 1)) is not None:
            self.host.send(self.views[group].members, Song(group, batch))

    def receive(self, source: ProcessId, packet: Any) -> None:
        match packet:
            case Song(group, batch):
                if group in self.views:
                    self.host.deliver(group, source, batch)
            case Asked(group, members, attempt):
                self.host.invited(Invitation(group, source, members, attempt))
            case Answered(group, _, _):
                self.on_answer(source, group, packet)
            case Changed(group, name, number, members):
                self.on_change(group, name, number, members)

    def notice(self, event: Any) -> None:
        if isinstance(event, Consent):
            invitation = event.invitation
            self.host.send((invitation.proposer,), Answered(invitation.group, event.agrees, event.text))

    def on_answer(self, source: ProcessId, group: GroupId, packet: Answered) -> None:
        asked = self.asked[group]
        asked[source] = packet
        if None in asked.values():
            return
        del self.asked[group]
        members = (self.host.me, *(name for name, answer in asked.items() if answer is not None and answer.agrees))
        if len(members) > 1:
            self.tell(members, Changed(group, group, 1, members))
        else:
            self.host.refused(group, Reason("nobody", f"nobody agreed to {group}: {packet.text}"))

    def on_change(self, group: GroupId, name: GroupId, number: int, members: tuple[ProcessId, ...]) -> None:
        view = View(name, number, members)
        if group not in self.views and number != 1:
            return
        if not members:
            del self.views[group]
            self.host.left(group)
        elif name != group:
            del self.views[group]
            self.views[name] = view
            self.host.renamed(group, view)
        else:
            self.install(view)


SALON = Description(
    name="salon",
    about="groups that are formed as people like",
    parameters=SalonParameters,
    packets=(Song, Asked, Answered, Changed),
    make=Salon,
    promises=lambda parameters, groups: (Promise("integrity", "always"), Promise("fifo", "always")),
    faults=("pause",),
    settle=lambda parameters: int(parameters.settle),
    changes=lambda parameters: bool(parameters.moving),
    proposes=lambda parameters: bool(parameters.forming),
)
