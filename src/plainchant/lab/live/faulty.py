"""A transport that injects faults into another: loss, delay, duplicates, damage, partitions, a crash in a broadcast.

It does to real packets what ``sim.network`` does to simulated ones, from the same declarations
(:class:`~plainchant.scenario.model.Network` and :class:`~plainchant.scenario.model.Fault`), with the same computations
(:mod:`~plainchant.scenario.links`) and in the same order: bandwidth, cuts and partitions, loss, damage, duplication, delay,
reordering. All of it happens at the sender, so a fault has to be applied at every process that it concerns. A packet that is
under way when a link is cut still arrives. Packets with flipped bits are sent, and their receivers detect it. What a process
sends to itself over the network (``Description.loopback``) has the delay of its link and the faults that name the process, but
not the network's own rates.

Links are between processes, not incarnations. Where nothing is to happen to a packet, it goes to all such destinations in one
call of the inner transport; what is delayed waits in a heap with one timer for the earliest, so that packets with the same delay
stay in order. Delays add to those of the real network, and are as exact as the event loop's timers (about a millisecond);
without any delay, a reordered packet is held back as if there were one of a millisecond. With ``shared``, each process has a
medium for itself. What costs processor time (``send_cost``, ``receive_cost``), ``buffer``, ``outgoing`` and ``slot`` are left to
reality.
"""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from ...core.model import MS, SECOND, Duration, UsageError
from ...core.names import place_of
from ...live.addresses import format_address
from ...live.transport import Address, Data, Receive, Transport, TurnOver
from ...scenario.links import HELD_BACK, damaged, draw_delay, effect_of, link_between, transmission_time, without_rates
from ...scenario.model import Delay, Fault, Link, Network

NETWORK_FAULTS: Final = ("partition", "cut", "clog", "loss", "lan", "heal")  # what :meth:`FaultyTransport.apply` takes
HARMLESS: Final = Network(delay=Delay(low=Duration(0)))  # rules that do nothing, until faults are applied
_FOREVER: Final = 1 << 62


@dataclasses.dataclass(slots=True)
class Spoiled:
    """What was done to packets on purpose; each counts copies, one per destination."""

    lost: int = 0
    duplicated: int = 0
    corrupted: int = 0
    delayed: int = 0  # those that did not leave at once
    held_back: int = 0  # those among them that others may have overtaken


@dataclasses.dataclass(frozen=True, slots=True)
class _Path:
    """What happens to one destination's packets now."""

    link: Link
    blocked: bool
    added: int
    loss: float
    harmless: bool


class FaultyTransport:
    """Wraps a transport of the process ``me`` on one network (``lan``, counted from 1). ``names`` has the process at each
    address; an address that is not in it is its own name, and in no part of a partition."""

    def __init__(
        self, inner: Transport, rules: Network, random: Random, *, me: str, names: Mapping[Address, str], lan: int = 1
    ) -> None:
        self.inner = inner
        self.limits = inner.limits
        self.address = inner.address
        self.counters = inner.counters
        self.spoiled = Spoiled()
        self._rules = rules
        self._random = random
        self._me = place_of(me)
        self._lan = lan
        self._names = {address: place_of(name) for address, name in names.items()}
        self._calm = False
        self._faults: list[Fault] = []
        self._ends: list[asyncio.TimerHandle] = []
        self._paths: dict[Address, _Path] = {}
        self._free: dict[Address | None, int] = {}  # when a link (or, under None, the medium) is free again
        self._order = itertools.count()
        self._under_way: list[tuple[int, int, list[Address], bytes]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._kill: Callable[[Sequence[Address]], None] | None = None
        self._dying = False

    async def open(self, receive: Receive, turn_over: TurnOver) -> None:
        self._loop = asyncio.get_running_loop()
        await self.inner.open(receive, turn_over)
        self.limits = self.inner.limits
        self.address = self.inner.address

    def send(self, to: Sequence[Address], data: Data) -> None:
        if self._dying:
            self.spoiled.lost += len(to)
        elif self._kill is None or len(others := [address for address in to if address != self.address]) < 2:
            self._send(to, data)
        else:
            reached = sorted(self._random.sample(range(len(others)), self._random.randrange(1, len(others))))
            part = [others[index] for index in reached]
            self._send(part, data)
            self._let_go(_FOREVER)
            self._dying = True
            # The inner transport may keep packets until the end of this turn, and they are to leave.
            self._loop.call_soon(self._kill, part)

    def catch_up(self) -> bool:
        return self.inner.catch_up()

    async def close(self) -> None:
        """What is under way leaves at once, and then the inner transport closes."""
        self._let_go(_FOREVER)
        for handle in self._ends:
            handle.cancel()
        self._ends.clear()
        await self.inner.close()

    def apply(self, fault: Fault) -> None:
        """Puts a partition, cut, clog, loss or crash of a network on, for its length or until the next heal; or heals."""
        if fault.kind not in NETWORK_FAULTS:
            raise UsageError(f"{fault.kind!r} is no fault of the network; it takes {', '.join(NETWORK_FAULTS)}")
        if fault.kind == "heal":
            self.heal()
            return
        if fault.lan not in (0, self._lan):
            return
        self._faults.append(fault)
        self._paths.clear()
        if fault.length:
            self._ends.append(asyncio.get_running_loop().call_later(fault.length / SECOND, self._end, fault))

    def heal(self) -> None:
        """Ends every partition, cut, clog, loss and crash of a network; the rules stay."""
        self._faults.clear()
        self._paths.clear()

    def calm(self) -> None:
        """From now on no packet is lost, duplicated, reordered or damaged, and the process is not killed. Delays and bandwidth
        stay."""
        self._calm = True
        self._kill = None
        self.heal()

    def doom(self, kill: Callable[[Sequence[Address]], None]) -> None:
        """The next packet to two or more others goes to a random part of them, some and never all; nothing leaves after it, and
        ``kill`` is called with those addresses, in the next turn of the loop. It is meant to end the process."""
        self._kill = kill

    def spare(self) -> bool:
        """Takes :meth:`doom` back; False if it has struck, and the process is about to end."""
        self._kill = None
        return not self._dying

    def _end(self, fault: Fault) -> None:
        for index, active in enumerate(self._faults):
            if active is fault:
                del self._faults[index]
                self._paths.clear()
                return

    def _path(self, address: Address) -> _Path:
        path = self._paths.get(address)
        if path is None:
            path = self._paths[address] = self._make_path(self._names.get(address) or format_address(address))
        return path

    def _make_path(self, target: str) -> _Path:
        source = self._me
        link = link_between(self._rules, source, target)
        if self._calm or source == target:
            link = without_rates(link)
        effect = effect_of(self._faults, source, target)
        rates = link.loss, link.duplicate, link.reorder, link.corrupt
        harmless = not (any(effect) or any(rates) or self._bandwidth(link)) and link.delay == HARMLESS.delay
        return _Path(link, *effect, harmless)

    def _bandwidth(self, link: Link) -> int:
        return self._rules.bandwidth if self._rules.shared else link.bandwidth

    def _send(self, to: Sequence[Address], data: Data) -> None:
        paths = [self._path(address) for address in to]
        if all(path.harmless for path in paths):
            self.inner.send(to, data)
            return
        now = self._now()
        copies: dict[tuple[int, bytes], list[Address]] = {}  # destinations by time and content
        kept = bytes(data)
        leaves = -1
        for address, path in zip(to, paths, strict=True):
            if self._rules.shared and (leaves < 0 or not self._rules.broadcast):
                leaves = self._transmitted(None, now, len(kept), self._bandwidth(path.link))
            start = leaves if self._rules.shared else self._transmitted(address, now, len(kept), path.link.bandwidth)
            for time, received in self._copies(path, start, kept):
                copies.setdefault((time, received), []).append(address)
        for (time, received), addresses in copies.items():
            if time <= now:
                self.inner.send(addresses, received)
            else:
                self._put_under_way(time, addresses, received)

    def _copies(self, path: _Path, time: int, data: bytes) -> list[tuple[int, bytes]]:
        """What becomes of a packet on its way to one destination: the times at which copies leave, and their bytes."""
        link = path.link
        random = self._random.random
        spoiled = self.spoiled
        if path.blocked or (path.loss and random() < path.loss) or (link.loss and random() < link.loss):
            spoiled.lost += 1
            return []
        if link.corrupt and random() < link.corrupt:
            spoiled.corrupted += 1
            data = damaged(data, self._random)
        number = 1
        if link.duplicate and random() < link.duplicate:
            number = 2
            spoiled.duplicated += 1
        copies: list[tuple[int, bytes]] = []
        for _ in range(number):
            delay = draw_delay(link.delay, self._random)
            if link.reorder and random() < link.reorder:
                spoiled.held_back += 1
                delay += int(random() * HELD_BACK * (delay or MS))
            copies.append((time + delay + path.added, data))
        return copies

    def _transmitted(self, link: Address | None, now: int, size: int, bandwidth: int) -> int:
        """When a link with a bandwidth has sent a packet that it is given now."""
        if not bandwidth:
            return now
        self._free[link] = time = max(now, self._free.get(link, 0)) + transmission_time(self._rules, size, bandwidth)
        return time

    def _now(self) -> int:
        return int(self._loop.time() * SECOND)

    def _put_under_way(self, time: int, addresses: list[Address], data: bytes) -> None:
        self.spoiled.delayed += len(addresses)
        entry = (time, next(self._order), addresses, data)
        heapq.heappush(self._under_way, entry)
        if self._under_way[0] is entry:
            self._wake()

    def _wake(self) -> None:
        """Has the loop call us when the earliest packet is due."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._under_way[0][0] / SECOND, self._due) if self._under_way else None

    def _due(self) -> None:
        self._let_go(self._now())

    def _let_go(self, until: int) -> None:
        while self._under_way and self._under_way[0][0] <= until:
            _, _, addresses, data = heapq.heappop(self._under_way)
            self.inner.send(addresses, data)
        self._wake()
