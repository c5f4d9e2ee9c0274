"""A group of sequencer members whose packets are carried by hand.

Members stand on fake hosts. What they send lies in ``mail`` until :meth:`ByHand.carry` brings it, at once and in order,
except for what the test loses, keeps back or repeats. Time passes only when the test lets timers expire.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from plainchant.core.model import Batch, Form, Join, Packet, ProcessId, Reason, Timer
from plainchant.protocols.sequencer.member import Member
from plainchant.protocols.sequencer.packets import Broadcast, Entry, Request
from plainchant.protocols.sequencer.parameters import Parameters
from tests.fakes import FakeHost, as_host

GROUP = "g"
MOST_LETTERS = 10_000
"""More packets than that are never caused by what one test does at once."""
MOST_TIMERS = 10_000
"""A condition that has not come about after so many timers never will."""


class Letter(NamedTuple):
    """One copy of a packet under way."""

    source: ProcessId
    target: ProcessId
    packet: Packet


Choice = Callable[[Letter], bool]


def nothing(letter: Letter) -> bool:
    return False


def to(*targets: ProcessId) -> Choice:
    """Chooses what goes to these processes."""
    return lambda letter: letter.target in targets


class _Host(FakeHost):
    def __init__(self, me: ProcessId, group: ByHand) -> None:
        super().__init__(me)
        self._group = group

    @property
    def now(self) -> int:
        return self._group.time

    def send(self, to: Sequence[ProcessId], packet: Packet, lan: int = 0) -> None:
        super().send(to, packet, lan)
        self._group.mail += [Letter(self.me, target, packet) for target in to]


class ByHand:
    """The group. Everybody forms it together; the first one named is the sequencer."""

    def __init__(self, *names: ProcessId, **parameters: Any) -> None:
        self.parameters = Parameters(**{"pack": False, **parameters})
        self.time = 0
        self.mail: list[Letter] = []
        self.dead: dict[ProcessId, None] = {}
        self.hosts: dict[ProcessId, _Host] = {}
        self.members: dict[ProcessId, Member] = {}
        for name in names:
            self._add(name).join(GROUP, Form(names))

    def __getitem__(self, name: ProcessId) -> Member:
        return self.members[name]

    def _add(self, name: ProcessId) -> Member:
        self.hosts[name] = _Host(name, self)
        self.members[name] = Member(as_host(self.hosts[name]), GROUP, self.parameters)
        return self.members[name]

    # --- what happens -----------------------------------------------------------------------------------------------

    def enter(self, name: ProcessId) -> None:
        """Somebody new asks to join."""
        contacts = tuple(self.members)
        self._add(name).join(GROUP, Join(contacts))

    def say(self, name: ProcessId, *texts: str) -> None:
        """The application of that process sends messages."""
        self.hosts[name].submit(GROUP, *(text.encode() for text in texts))
        self[name].ready(GROUP)

    def carry(self, lose: Choice = nothing, keep: Choice = nothing) -> list[Letter]:
        """Brings all mail and what it causes; returns what was kept back."""
        kept: list[Letter] = []
        for _ in range(MOST_LETTERS):
            if not self.mail:
                return kept
            letter = self.mail.pop(0)
            if keep(letter):
                kept.append(letter)
            elif not lose(letter):
                self.bring(letter)
        raise AssertionError("a storm: packets cause packets without end")

    def bring(self, letter: Letter) -> None:
        """One packet arrives (again, late, or at last)."""
        if letter.target not in self.dead and not self.halted(letter.target):
            self[letter.target].receive(letter.source, letter.packet)

    def broadcast(self, *texts: str, by: ProcessId = "p2", lose: Choice = nothing) -> None:
        """Messages go through, one after the other."""
        for text in texts:
            self.say(by, text)
            self.carry(lose)

    def kill(self, name: ProcessId) -> None:
        self.dead[name] = None
        self.hosts[name].timers.clear()

    def expire(self, name: ProcessId, timer: Timer, lose: Choice = nothing, keep: Choice = nothing) -> list[Letter]:
        """That timer comes due, now; returns what was kept back of the mail that it caused."""
        self.time = max(self.time, self.hosts[name].timers.pop(timer))
        self[name].expire(timer)
        return self.carry(lose, keep)

    def wait_until(self, condition: Callable[[], bool], lose: Choice = nothing) -> None:
        """Lets timers expire, earliest first, until something is so."""
        for _ in range(MOST_TIMERS):
            if condition():
                return
            due = [
                (at, name, timer)
                for name, host in self.hosts.items()
                if not self.halted(name)
                for timer, at in host.timers.items()
            ]
            _, name, timer = min(due)
            self.expire(name, timer, lose)
        raise AssertionError("it never came about")

    # --- what can be seen -------------------------------------------------------------------------------------------

    def delivered(self, name: ProcessId) -> list[str]:
        return [batch.body.decode() for _, _, batch, _ in self.hosts[name].called("deliver")]

    def numbers(self, name: ProcessId) -> list[int]:
        """The numbers under which messages were delivered there."""
        return [rank for _, _, _, rank in self.hosts[name].called("deliver")]

    def views(self, name: ProcessId) -> list[tuple[ProcessId, ...]]:
        return [view.members for (view,) in self.hosts[name].called("install")]

    def halted(self, name: ProcessId) -> Reason | None:
        reasons = self.hosts[name].called("halt")
        return reasons[0][0] if reasons else None

    def sent(self, name: ProcessId, kind: type[Packet]) -> list[Any]:
        """All packets of that type which it sent, whoever got them."""
        return [packet for _, packet in self.hosts[name].called("send") if type(packet) is kind]

    def sequencers(self) -> list[ProcessId]:
        return [name for name, member in self.members.items() if member.office is not None and name not in self.dead]

    def acknowledged(self, name: ProcessId) -> int:
        """The sequencer's table entry for that member."""
        (sequencer,) = self.sequencers()
        office = self[sequencer].office
        assert office is not None
        return office.acked[name]


def request(number: int, text: str, ack: int = 0, epoch: int = 1) -> Request:
    return Request(GROUP, epoch, number, ack, Batch(number, 1, text.encode()))


def broadcast(number: int, sender: ProcessId, text: str, *, request: int = 0, epoch: int = 1) -> Broadcast:
    """Number ``number`` of the order; by default the sender's request has the same number."""
    entry = Entry(sender, request or number, Batch(request or number, 1, text.encode()))
    return Broadcast(GROUP, epoch, number, 0, 0, entry)
