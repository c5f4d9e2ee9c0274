"""Newtop processes in overlapping groups whose packets are carried by hand, and what happened before what.

Processes stand on fake hosts. What they send lies in ``mail`` until the test brings it; time passes only when the test lets
timers expire. Every message has a text of its own, under which its sender, its packet and its causes are kept: ``causes`` is
worked out from the events alone (what its sender had sent or delivered, and the causes of that), whatever packets say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from plainchant.core.model import Batch, Form, GroupId, Packet, ProcessId, Reason, Timer
from plainchant.protocols.newtop.matrix import BlockMatrix, Multicast
from plainchant.protocols.newtop.packets import Data, Null, Word
from plainchant.protocols.newtop.parameters import Parameters
from plainchant.protocols.newtop.part import Part
from plainchant.protocols.newtop.process import Process
from tests.fakes import FakeHost, as_host

MOST_STEPS = 20_000
"""More packets and timers than that are never caused by what one test does."""
USUAL: dict[str, Any] = {"pack": False, "transport": "fifo", "silence_by": "timeout", "announce_after": 0, "suspect_after": 0}
"""As the thesis has it before chapter 6 (groups are static), unless the test wants something else."""
CAUSAL: tuple[dict[str, Any], ...] = (
    {"order": "slow"},
    {"order": "fast"},
    {"order": "fast", "vectors": "compact"},
    {"order": "relative"},
    {"order": "cbcast"},
)
ORDERS: tuple[dict[str, Any], ...] = ({"order": "total"}, *CAUSAL)
SHAPES: dict[str, dict[GroupId, str]] = {
    "one": {"g": "a b c d"},
    "two": {"g1": "a b c d", "g2": "c d e f"},
    "chain": {"g1": "a b", "g2": "b c", "g3": "c d"},
    "ring": {"g1": "a b", "g2": "b c", "g3": "c a"},
    "star": {"g1": "a b c", "g2": "a d e", "g3": "a c f"},
    "clique": {"g1": "a b c", "g2": "a b d", "g3": "b c d", "g4": "a c d"},
}


def name_of(parameters: Mapping[str, Any]) -> str:
    return "-".join(str(value) for value in parameters.values())


class Letter(NamedTuple):
    """One copy of a packet under way."""

    source: ProcessId
    target: ProcessId
    packet: Any


Choice = Callable[[Letter], bool]


def nothing(letter: Letter) -> bool:
    return False


def link(source: ProcessId, target: ProcessId) -> Choice:
    """Chooses what goes from one to the other."""
    return lambda letter: (letter.source, letter.target) == (source, target)


def to(*targets: ProcessId) -> Choice:
    return lambda letter: letter.target in targets


class _Host(FakeHost):
    def __init__(self, me: ProcessId, hands: ByHand) -> None:
        super().__init__(me)
        self._hands = hands
        self.past: set[str] = set()

    @property
    def now(self) -> int:
        return self._hands.time

    def take(self, group: GroupId, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
        batch = super().take(group, max_bytes, most, stream)
        if batch is not None:
            text = batch.body.decode()
            self._hands.senders[text] = self.me
            self._hands.causes[text] = frozenset(self.past)
            self.past.add(text)
        return batch

    def send(self, to: Sequence[ProcessId], packet: Packet, lan: int = 0) -> None:
        super().send(to, packet, lan)
        hands = self._hands
        if isinstance(packet, Data):
            hands.data[packet.batch.body.decode()] = packet
        if isinstance(packet, Data | Null | Word):
            hands.multicasts.append((self.me, packet))
        hands.mail += [Letter(self.me, target, packet) for target in to]

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        super().deliver(group, sender, batch, rank)
        text = batch.body.decode()
        self.past |= {text} | self._hands.causes[text]


class ByHand:
    """The processes, all in their groups."""

    def __init__(self, groups: Mapping[GroupId, str], **parameters: Any) -> None:
        self.parameters = Parameters(**{**USUAL, **parameters})
        self.groups = {group: tuple(members.split()) for group, members in groups.items()}
        self.time = 0
        self.mail: list[Letter] = []
        self.senders: dict[str, ProcessId] = {}
        self.causes: dict[str, frozenset[str]] = {}
        self.data: dict[str, Data] = {}
        self.multicasts: list[tuple[ProcessId, Multicast]] = []
        names = dict.fromkeys(name for members in self.groups.values() for name in members)
        self.hosts = {name: _Host(name, self) for name in names}
        self.processes = {name: Process(as_host(host), self.parameters) for name, host in self.hosts.items()}
        for group, members in self.groups.items():
            for name in members:
                self[name].join(group, Form(members, fresh=True))

    def __getitem__(self, name: ProcessId) -> Process:
        return self.processes[name]

    # --- what happens -----------------------------------------------------------------------------------------------

    def say(self, name: ProcessId, group: GroupId, *texts: str) -> None:
        """The application of that process sends messages."""
        self.hosts[name].submit(group, *(text.encode() for text in texts))
        self[name].ready(group)

    def bring(self, letter: Letter) -> None:
        """One packet arrives."""
        self[letter.target].receive(letter.source, letter.packet)

    def carry(self, *, only: Choice | None = None, lose: Choice = nothing, keep: Choice = nothing) -> None:
        """Brings mail and what it causes, in order; what is kept (or not chosen) stays in the mail."""
        kept: list[Letter] = []
        for _ in range(MOST_STEPS):
            if not self.mail:
                self.mail = kept
                return
            letter = self.mail.pop(0)
            if keep(letter) or (only is not None and not only(letter)):
                kept.append(letter)
            elif not lose(letter):
                self.bring(letter)
        raise AssertionError("a storm: packets cause packets without end")

    def expire(self, name: ProcessId, timer: Timer) -> None:
        """That timer comes due, now."""
        self.time = max(self.time, self.hosts[name].timers.pop(timer))
        self[name].expire(timer)

    def next_timer(self) -> tuple[int, ProcessId, Timer] | None:
        return min(((at, name, timer) for name, host in self.hosts.items() for timer, at in host.timers.items()), default=None)

    def rest(self, *, lose: Choice = nothing, keep: Choice = nothing, most: int = MOST_STEPS) -> None:
        """Brings all mail and lets timers expire, earliest first, until neither is left (or so many timers have expired)."""
        for _ in range(most):
            self.carry(lose=lose, keep=keep)
            due = self.next_timer()
            if due is None:
                return
            self.expire(*due[1:])
        assert most < MOST_STEPS, "it never comes to rest"

    def wander(self, random: Random, steps: int, *, messages: int = 30, timers: float = 0.1, loss: float = 0.0) -> Iterator[None]:
        """Sends, arrivals and timers in random order; stops after each. Links are FIFO, or lose and overtake with ``loss``."""
        texts = iter(range(messages))
        for _ in range(steps):
            if random.random() < 0.25 and (number := next(texts, None)) is not None:
                group = random.choice(list(self.groups))
                self.say(random.choice(self.groups[group]), group, f"m{number}")
            elif self.mail:
                self._arrive(random, loss)
            if random.random() < timers and (due := self.next_timer()) is not None:
                self.expire(*due[1:])
            yield

    def _arrive(self, random: Random, loss: float) -> None:
        letter = random.choice(self.mail)
        if not loss:
            letter = next(one for one in self.mail if one[:2] == letter[:2])
        self.mail.remove(letter)
        if not loss or random.random() > loss:
            self.bring(letter)

    # --- what can be seen -------------------------------------------------------------------------------------------

    def delivered(self, name: ProcessId, group: GroupId = "") -> list[str]:
        calls = self.hosts[name].called("deliver")
        return [batch.body.decode() for where, _, batch, _ in calls if group in ("", where)]

    def part(self, name: ProcessId, group: GroupId) -> Part:
        return self[name].parts[group]

    def matrix(self, name: ProcessId, group: GroupId) -> BlockMatrix:
        return self.part(name, group).matrix

    def parts(self) -> Iterator[tuple[ProcessId, Part]]:
        for name, process in self.processes.items():
            for part in process.parts.values():
                yield name, part

    def block(self, text: str) -> int:
        """The number of a message."""
        return self.data[text].block

    def sent(self, name: ProcessId, kind: type[Packet], group: GroupId = "") -> list[Any]:
        """All packets of that type which it sent, whoever got them."""
        packets = [packet for _, packet in self.hosts[name].called("send")]
        return [packet for packet in packets if type(packet) is kind and group in ("", getattr(packet, "group", ""))]

    def count(self, kind: type[Packet]) -> int:
        return sum(len(self.sent(name, kind)) for name in self.processes)

    def records(self, name: ProcessId, kind: str) -> list[dict[str, Any]]:
        """The explanations of that kind which it wrote."""
        return [detail for what, _, detail in self.hosts[name].called("record") if what == kind]

    def waiting(self) -> dict[ProcessId, Reason]:
        """Who is not at rest, and why."""
        reasons = {name: process.waiting() for name, process in self.processes.items()}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def pairs(self) -> Iterator[tuple[str, str]]:
        """All (m, m') with m -> m'."""
        return ((cause, text) for text, causes in self.causes.items() for cause in causes)

    def concurrent(self, one: str, other: str) -> bool:
        return one != other and one not in self.causes[other] and other not in self.causes[one]

    # --- what must hold ---------------------------------------------------------------------------------------------

    def causal_violations(self) -> list[tuple[ProcessId, str, str]]:
        """Where a message was delivered and, before it, a cause of it in a group of that process was not."""
        found = []
        for name in self.processes:
            seen: set[str] = set()
            for text in self.delivered(name):
                missing = [cause for cause in self.causes[text] if cause not in seen and self._is_for(name, cause)]
                found += [(name, cause, text) for cause in missing]
                seen.add(text)
        return found

    def _is_for(self, name: ProcessId, text: str) -> bool:
        return name in self.groups[self.data[text].group] if text in self.data else False

    def order_violations(self) -> list[tuple[str, str]]:
        """Pairs of messages that two processes delivered in different orders."""
        found = []
        places = {name: {text: place for place, text in enumerate(self.delivered(name))} for name in self.processes}
        for one in places.values():
            for other in places.values():
                common = sorted(one.keys() & other.keys(), key=one.__getitem__)
                found += [(a, b) for a, b in pairwise(common) if other[a] > other[b]]
        return found

    def undelivered(self) -> list[tuple[ProcessId, str]]:
        """Messages that a member of their group has not delivered."""
        return [
            (name, text)
            for text, packet in self.data.items()
            for name in self.groups[packet.group]
            if text not in self.delivered(name)
        ]

    def in_order(self) -> bool:
        """Everything is delivered everywhere, causes first."""
        return not self.undelivered() and not self.causal_violations()
