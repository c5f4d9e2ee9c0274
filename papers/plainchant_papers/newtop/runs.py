"""Scenarios of overlapping groups, and what is looked at in their runs.

Structures are the shapes that groups can overlap in (chains, rings, stars, cliques, and any at all); links have delays of very
different size, each always the same, so that the network is FIFO as the thesis assumes, unless it is to lose and overtake.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from plainchant.core.model import MS, US, Batch, Duration, GroupId, Packet, ProcessId
from plainchant.protocols.newtop.packets import Data
from plainchant.scenario.model import Delay, LinkOverride, Network, Scenario, Workload

from ..observe import Observer
from ..runs import ONE_MILLISECOND, names
from ..runs import scenario as any_scenario

Groups = dict[str, tuple[str, ...]]
Message = tuple[GroupId, ProcessId, int]


# --- structures -----------------------------------------------------------------------------------------------------


def chain(groups: int, size: int) -> Groups:
    """Each group shares one member with the next."""
    members = names(groups * (size - 1) + 1)
    return {f"g{number + 1}": members[number * (size - 1) : number * (size - 1) + size] for number in range(groups)}


def ring(groups: int, size: int) -> Groups:
    """The same, and the last shares one with the first."""
    count = groups * (size - 1)
    members = names(count)
    return {
        f"g{number + 1}": tuple(members[(number * (size - 1) + place) % count] for place in range(size))
        for number in range(groups)
    }


def star(groups: int, size: int) -> Groups:
    """One process is in every group."""
    members = names(groups * (size - 1) + 1)
    return {
        f"g{number + 1}": (members[0], *members[1 + number * (size - 1) : 1 + (number + 1) * (size - 1)])
        for number in range(groups)
    }


def clique(groups: int, size: int) -> Groups:
    """All groups have the same members."""
    return {f"g{number + 1}": names(size) for number in range(groups)}


def anything(draw: random.Random, groups: int, processes: int) -> Groups:
    """Groups of two or more, drawn; who is in none is in no structure."""
    members = names(processes)
    most = max(2, processes * 2 // 3)
    drawn = (draw.sample(members, draw.randint(2, most)) for _ in range(groups))
    return {f"g{number}": tuple(sorted(chosen, key=members.index)) for number, chosen in enumerate(drawn, 1)}


def structure(draw: random.Random, most_groups: int = 5) -> Groups:
    """One of all kinds."""
    groups, size = draw.randrange(1, most_groups + 1), draw.randrange(2, 6)
    shape = draw.choice(("chain", "ring", "star", "clique", "anything"))
    if shape == "chain":
        return chain(groups, size)
    if shape == "ring" and groups > 2:
        return ring(groups, size)
    if shape == "star":
        return star(groups, size)
    if shape == "clique":
        return clique(groups, size)
    return anything(draw, groups, draw.randrange(3, 9))


def members_of(groups: Groups) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for members in groups.values() for name in members))


# --- networks and scenarios -----------------------------------------------------------------------------------------


def uneven(draw: random.Random, members: Sequence[str]) -> Network:
    """Every link has a constant delay of its own, from a fifth of a millisecond to fifty."""
    links = tuple(
        LinkOverride(source=source, target=target, delay=Delay("constant", Duration(round(MS * 0.2 * 250 ** draw.random()))))
        for source in members
        for target in members
        if source != target
    )
    return Network(delay=Delay("constant", Duration(1 * MS)), link=links)


def delayed(base: Mapping[tuple[str, str], float], otherwise: float = 1.0) -> Network:
    """A network with these delays in ms, and one for all other links."""
    links = tuple(
        LinkOverride(source=source, target=target, delay=Delay("constant", Duration(round(delay * MS))))
        for (source, target), delay in base.items()
    )
    return Network(delay=Delay("constant", Duration(round(otherwise * MS))), link=links)


_THESIS: Final[Mapping[str, Any]] = {
    "transport": "fifo",
    "pack": False,
    "announce_after": Duration(0),
    "suspect_after": Duration(0),
}
LOSSY: Final = Network(loss=0.05, duplicate=0.02, reorder=0.1, delay=Delay("uniform", Duration(500 * US), Duration(5 * MS)))


def scenario(
    groups: Groups,
    *workload: Workload,
    seed: int = 0,
    network: Network | None = None,
    seconds: float = 0.5,
    drain: float = 60,
    **parameters: Any,
) -> Scenario:
    """A scenario of these groups, static, over a FIFO network and with what the thesis has, unless a parameter says otherwise."""
    return any_scenario(
        "newtop",
        members_of(groups),
        *workload,
        length=1000 * seconds,
        drain=1000 * drain,
        parameters={**_THESIS, **parameters},
        groups=groups,
        network=network or ONE_MILLISECOND,
        seed=seed,
    )


def random_run(seed: int, order: str, *, lossy: bool = False, most_groups: int = 5, **parameters: Any) -> Scenario:
    """Groups of any shape; some members send, some in bursts, some hardly ever."""
    draw = random.Random(f"{seed}/structure")
    groups = structure(draw, most_groups)
    members = members_of(groups)
    workload = tuple(
        Workload(
            senders=(name,),
            rate=draw.choice((10.0, 40.0, 120.0)),
            arrivals="poisson",
            burst=draw.choice((1, 1, 1, 4)),
            size=16,
        )
        for name in members
        if draw.random() < 0.7
    ) or (Workload(senders=members[:1], rate=40.0),)
    network = LOSSY if lossy else uneven(draw, members)
    settings: dict[str, Any] = {"silence_by": draw.choice(("adaptive", "timeout")), "order": order, **parameters}
    if lossy:
        settings["transport"] = "lossy"
    return scenario(groups, *workload, seed=seed, network=network, **settings)


class Relay:
    """Sends a message in another group when the first one is delivered in a group."""

    def __init__(self, when: str, group: str, payload: bytes) -> None:
        self._when: str | None = when
        self._group = group
        self._payload = payload

    def on_deliver(self, member: Any, group: str, sender: str, payload: bytes, seq: int) -> None:
        if group == self._when:
            self._when = None
            member.send(self._group, self._payload)


# --- messages and what happened before them -------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """A message as it was sent."""

    message: Message
    packet: Data
    clock: Mapping[ProcessId, int]
    """How many messages of each process happened before it or are it."""
    highest: int
    """The largest block of what its sender had sent or delivered before."""

    def before(self, other: Sent) -> bool:
        """Whether this one happened before another (3.2: over sends and deliveries)."""
        sender = self.message[1]
        return self is not other and other.clock.get(sender, 0) >= self.clock[sender]


class Causes(Observer):
    """Works out, for every message, what happened before it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: dict[Message, Sent] = {}
        self._clocks: dict[ProcessId, dict[ProcessId, int]] = {}
        self._highest: dict[ProcessId, int] = {}

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        if isinstance(packet, Data) and packet.sender in ("", me):
            clock = self._clocks.setdefault(me, {})
            clock[me] = clock.get(me, 0) + 1
            message = (packet.group, me, packet.batch.first)
            highest = self._highest.get(me, 0)
            self.sent[message] = Sent(message, packet, dict(clock), highest)
            self._highest[me] = max(highest, packet.block)

    def delivering(self, me: ProcessId, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None) -> None:
        sent = self.sent[group, sender, batch.first]
        clock = self._clocks.setdefault(me, {})
        for process, count in sent.clock.items():
            if count > clock.get(process, 0):
                clock[process] = count
        self._highest[me] = max(self._highest.get(me, 0), sent.packet.block)
