"""The network: what happens to a packet between two processes.

Theory of operation
-------------------
A host asks for a :class:`Route` for each set of destinations and keeps it until the network changes. If nothing can happen to a
packet on the way (no rates, no faults, no bandwidth, the same constant delay on every link) the route has a ``delay``: one heap
entry carries the packet to all destinations and nothing is drawn at random. Otherwise each copy goes through, in this order: the
sender's processor, the medium (one for all, or one a link), cuts and partitions, loss, corruption, delay, reordering,
duplication. Faults apply when a packet leaves: what is under way when a link is cut still arrives.

A shared medium is a queue, unless it has a ``slot``: then stations that wait for it at once collide, and who gets it has
lost as many slots as Metcalfe and Boggs expect for so many stations (:func:`contention`).

**Loopback.** What a process sends to itself is there at once and cannot be lost, unless the protocol wants it from the network
(``Description.loopback``). Then it has the link's delay and bandwidth, it costs receiving, and faults of kind cut, clog and loss
that name the process as source or target apply to it. Partitions and the network's own rates do not: the way is short.

Links are between processes, not incarnations: ``p3#1`` has the links of ``p3``. Sizes matter only with a bandwidth:
encoded bytes in wire mode, else the bytes of messages in the packet plus :data:`ESTIMATED_OVERHEAD`.

**Several.** Where a protocol has several networks (``Placement.lans``), each is a :class:`SimNetwork` with the same settings and
its own medium and links; :class:`Networks` is all of them. Faults that name processes are on all, one of kind ``lan`` is on one.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from heapq import heappush
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from ..core.model import Batch, Packet, ProtocolError, WireError
from ..scenario.links import HELD_BACK, damaged, draw_delay, effect_of, link_between, transmission_time, without_rates
from ..scenario.model import Fault, Link, Network
from .processor import Core, cores

if TYPE_CHECKING:
    from .host import SimHost
    from .kernel import Kernel

ESTIMATED_OVERHEAD: Final = 16
_RATES: Final = ("loss", "duplicate", "reorder", "corrupt")


class Codec(Protocol):
    """Packets to bytes and back (``wire.Codec``)."""

    def encode(self, packet: Packet) -> bytes: ...
    def decode(self, data: bytes) -> Packet: ...


@dataclasses.dataclass(slots=True)
class Counters:
    """What happened to packets. ``by_type`` counts packets sent, a hardware broadcast once; the others count copies."""

    lost: int = 0
    duplicated: int = 0
    corrupted: int = 0
    overflowed: int = 0
    broadcasts: int = 0
    by_type: dict[type, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True, eq=False)
class Route:
    """Where packets to one set of destinations go: ``names`` those over the network, ``others`` those that are not the sender,
    ``own`` whether the sender gets one without the network."""

    names: tuple[str, ...]
    others: tuple[str, ...]
    own: bool
    hosts: tuple[SimHost, ...]
    delay: int | None  # of every packet, if the route is fast; None: packets differ
    cost: int


@dataclasses.dataclass(slots=True, eq=False)
class _Path:
    """One direction of one link, with the faults that are on it now."""

    link: Link
    blocked: bool
    added: int
    loss: float

    @property
    def plain_delay(self) -> int | None:
        """The delay of every packet, if nothing else can happen to one."""
        link = self.link
        odd = self.blocked or self.loss or link.bandwidth or link.delay.kind != "constant"
        if odd or any(getattr(link, rate) for rate in _RATES):
            return None
        return link.delay.low + self.added


class SimNetwork:
    """All links of one network, and the faults that are on them."""

    def __init__(
        self, settings: Network, kernel: Kernel, random: Random, codec: Codec | None, *, loopback: bool = False, number: int = 1
    ) -> None:
        self.settings = settings
        self.number = number  # which it is of several, counted from 1
        self._loopback = loopback
        self.counters = Counters()
        self.hosts: dict[str, SimHost] = {}
        self._routed: dict[SimHost, None] = {}  # processes that keep routes
        self._kernel = kernel
        self._random = random
        self._codec = codec if settings.wire else None
        self._calm = False
        self._faults: list[Fault] = []
        self._paths: dict[tuple[str, str], _Path] = {}
        self._alike: _Path | None = None  # the path of every link, where all are alike
        self._link_free: dict[tuple[str, str], int] = {}
        self._cores = cores(settings.machines)
        self._medium_free = 0
        self._claims: deque[int] = deque()  # when those that have claimed the medium get it, as far as that lies ahead
        self._outgoing: dict[str, deque[int]] = {}  # when a process's packets get the medium, as far as that lies ahead

    def core(self, place: str) -> Core:
        """What a new incarnation of a process runs on: its machine's, or one of its own."""
        return self._cores.get(place) or Core()

    def route(self, host: SimHost, to: tuple[str, ...]) -> Route:
        """Works out a route; valid until :meth:`changed`, when its host forgets it."""
        self._routed[host] = None
        others = tuple(name for name in to if name != host.me)
        names = to if self._loopback else others
        hosts = tuple(self.hosts[name] for name in names if name in self.hosts)
        cost = min(1, len(others)) if self.settings.broadcast else len(others)
        own = host.me in to and not self._loopback
        return Route(names, others, own, hosts, self._common_delay(host, hosts), cost)

    def _common_delay(self, host: SimHost, hosts: tuple[SimHost, ...]) -> int | None:
        if self._codec is not None or self.settings.send_cost or (self.settings.shared and self.settings.bandwidth):
            return None
        if not hosts:
            return 0
        first = self._path(host.place, hosts[0].place).plain_delay
        if self._alike is not None:
            return first
        return first if all(self._path(host.place, target.place).plain_delay == first for target in hosts[1:]) else None

    def send(self, host: SimHost, route: Route, packet: Any) -> int:
        """Sends a packet along a route; returns how many packets that is on the network."""
        kernel = self._kernel
        cost = route.cost
        if cost:
            counters = self.counters
            by_type, kind = counters.by_type, packet.__class__
            by_type[kind] = by_type.get(kind, 0) + cost
            if len(route.others) > 1:
                counters.broadcasts += 1
        delay, hosts = route.delay, route.hosts
        if delay is not None:
            if hosts:
                heappush(kernel.heap, (kernel.now + delay, next(kernel.order), hosts, host.me, packet))
        elif route.names:
            self._transmit(host, route.names, packet)
        if route.own:
            kernel.at(kernel.now, host.arrive_own, packet)
        return cost

    def send_to(self, host: SimHost, names: tuple[str, ...], packet: Any) -> int:
        """Sends along a route that is used once."""
        return self.send(host, self.route(host, names), packet)

    def overflow(self, packet: Any) -> None:
        """A receiver's buffer was full."""
        self.counters.overflowed += 1
        self.counters.lost += 1

    def _transmit(self, host: SimHost, names: tuple[str, ...], packet: Any) -> None:
        data = self._codec.encode(packet) if self._codec is not None else None
        arrivals: dict[int, list[tuple[SimHost, Any]]] = {}
        leaves = -1
        for name in names:
            if leaves < 0 or not self.settings.broadcast:
                leaves = self._leave(host, packet, data)
            target = self.hosts.get(name)
            if target is not None:
                self._copy(host, target, packet, data, leaves, arrivals)
        for time, copies in arrivals.items():
            # Copies that arrive at one instant are one heap entry, unless each is a packet of its own (wire mode).
            if self._codec is None:
                self._kernel.arrive(time, tuple(target for target, _ in copies), host.me, copies[0][1])
            else:
                for target, received in copies:
                    self._kernel.arrive(time, (target,), host.me, received)

    def _leave(self, host: SimHost, packet: Any, data: bytes | None) -> int:
        """When a packet leaves its sender: after the processor, and the medium if there is one for all."""
        cost = self.settings.send_cost
        time = host.processor.occupy(cost) if cost else self._kernel.now
        if self.settings.shared and self.settings.bandwidth:
            start = self._acquire(time)
            if self.settings.outgoing:
                self._hold(host, start)
            time = start + self._transmission(packet, data, self.settings.bandwidth)
            self._medium_free = time
        return time

    def _acquire(self, time: int) -> int:
        """When a station that wants the medium at a time gets it."""
        start = max(time, self._medium_free)
        slot = self.settings.slot
        if not slot:
            return start
        # One who begins at the same instant is not heard yet. Who waits behind us is not known yet either; it will be
        # charged for waiting beside us, so that a crowd of m loses the sum over m, m - 1, ..., 1 stations in any case.
        while self._claims and self._claims[0] < time:
            self._claims.popleft()
        start += round(slot * contention(len(self._claims) + 1))
        self._claims.append(start)
        return start

    def _hold(self, host: SimHost, start: int) -> None:
        """A packet waits in its sender's interface until the medium takes it; a processor with too many there waits too."""
        waiting = self._outgoing.setdefault(host.me, deque())
        while waiting and waiting[0] <= self._kernel.now:
            waiting.popleft()
        waiting.append(start)
        if len(waiting) > self.settings.outgoing:
            host.processor.hold(waiting[-self.settings.outgoing - 1])

    def _copy(
        self, host: SimHost, target: SimHost, packet: Any, data: bytes | None, time: int, arrivals: dict[int, list[Any]]
    ) -> None:
        path = self._path(host.place, target.place)
        link = path.link
        random = self._random.random
        if link.bandwidth and not self.settings.shared:
            key = (host.place, target.place)
            time = max(time, self._link_free.get(key, 0)) + self._transmission(packet, data, link.bandwidth)
            self._link_free[key] = time
        if path.blocked or (path.loss and random() < path.loss) or (link.loss and random() < link.loss):
            self.counters.lost += 1
            return
        if link.corrupt and random() < link.corrupt:
            self._corrupt(data)
            return
        copies = 1
        if link.duplicate and random() < link.duplicate:
            copies = 2
            self.counters.duplicated += 1
        for _ in range(copies):
            delay = draw_delay(link.delay, self._random)
            if link.reorder and random() < link.reorder:
                delay += int(random() * HELD_BACK * delay)
            received = packet if data is None or self._codec is None else self._codec.decode(data)
            arrivals.setdefault(time + delay + path.added, []).append((target, received))

    def _corrupt(self, data: bytes | None) -> None:
        """Flips bits of a packet. Objects have no bits: there the checksum is taken to have found it."""
        self.counters.corrupted += 1
        if data is None or self._codec is None:
            return
        try:
            self._codec.decode(damaged(data, self._random))
        except WireError:
            return
        raise ProtocolError("a packet with flipped bits was decoded: the checksum of wire.Codec does not cover all of it")

    def _transmission(self, packet: Any, data: bytes | None, bandwidth: int) -> int:
        return transmission_time(self.settings, estimated_size(packet) if data is None else len(data), bandwidth)

    def add(self, fault: Fault) -> None:
        """Puts a partition, cut, clog or loss on the network, or a crash of this one."""
        self._faults.append(fault)
        self.changed()

    def remove(self, fault: Fault) -> None:
        """Ends one; nothing happens if it was healed before."""
        if any(active is fault for active in self._faults):
            self._faults = [active for active in self._faults if active is not fault]
            self.changed()

    def heal(self) -> None:
        self._faults.clear()
        self.changed()

    def calm(self) -> None:
        """From now on nothing is lost, doubled, overtaken or damaged. Delays, bandwidth and costs stay."""
        self._calm = True
        self.heal()

    def changed(self) -> None:
        self._paths.clear()
        self._alike = None
        for host in self._routed:
            host.forget_routes()
        self._routed.clear()

    def _path(self, source: str, target: str) -> _Path:
        if self._alike is not None:
            return self._alike
        path = self._paths.get((source, target))
        if path is None:
            link = link_between(self.settings, source, target)
            if self._calm or (self._loopback and source == target):
                link = without_rates(link)
            path = self._paths[source, target] = _Path(link, *effect_of(self._faults, source, target))
            if not self.settings.link and not self._loopback and all(fault.kind == "lan" for fault in self._faults):
                self._alike = path
        return path


class Networks:
    """All networks of a simulation, which count together."""

    def __init__(self, lans: Sequence[SimNetwork]) -> None:
        self.lans = tuple(lans)
        first = self.lans[0]
        self.counters, self.settings, self._hosts, self.core = first.counters, first.settings, first.hosts, first.core
        for lan in self.lans[1:]:
            lan.counters, lan.hosts = self.counters, self._hosts

    def connect(self, host: SimHost) -> None:
        """A process is there from now on."""
        self._hosts[host.me] = host
        for lan in self.lans:
            lan.changed()

    def add(self, fault: Fault) -> None:
        for lan in self.lans:
            if fault.lan in (0, lan.number):
                lan.add(fault)

    def remove(self, fault: Fault) -> None:
        for lan in self.lans:
            lan.remove(fault)

    def heal(self) -> None:
        for lan in self.lans:
            lan.heal()

    def calm(self) -> None:
        for lan in self.lans:
            lan.calm()


def contention(stations: int) -> float:
    """Slots that are lost on average before one of this many waiting stations has the medium for itself.

    Each tries in a slot with probability 1/stations, which is what the backoff of Ethernet strives for; a slot is won with
    probability A = (1 - 1/stations) ** (stations - 1), and (1 - A)/A are lost before (Metcalfe and Boggs 1976).

    >>> contention(1), contention(2)
    (0.0, 1.0)
    """
    won = (1 - 1 / stations) ** (stations - 1)
    return (1 - won) / won


def estimated_size(packet: Any) -> int:
    """Bytes of a packet that travels as an object: those of its messages, and a constant for the rest."""
    return ESTIMATED_OVERHEAD + sum(_message_bytes(getattr(packet, field)) for field in packet.__struct_fields__)


def _message_bytes(value: Any) -> int:
    if isinstance(value, Batch | bytes):
        return len(value.body if isinstance(value, Batch) else value)
    if isinstance(value, list | tuple):
        return sum(_message_bytes(item) for item in value)
    if isinstance(value, msgspec.Struct):  # a part of a packet, such as a numbered entry with its batch
        return sum(_message_bytes(getattr(value, field)) for field in value.__struct_fields__)
    return 0
