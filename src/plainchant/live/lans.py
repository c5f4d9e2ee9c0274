"""Several networks: a transport for each, between the same processes.

Processes are known by their addresses on the first network (:mod:`.presence`), so a packet that comes on another one is handed
on with its sender's address on the first, and one that is to leave on another is sent to the address there. A process without an
address on that network is not reached by it, and packets from strangers there are dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial

from ..core.model import UsageError
from .transport import Address, Counters, Data, Limits, Receive, Send, Transport, TurnOver


class Lans:
    """The transports of one process, the first network's first. ``addresses`` say for each of the others where on it a process is
    that has a certain address on the first."""

    def __init__(self, transports: Sequence[Transport], addresses: Sequence[Mapping[Address, Address]]) -> None:
        self._transports = tuple(transports)
        self._there = ({}, *(dict(each) for each in addresses))
        self._here = [{there: here for here, there in each.items()} for each in self._there]
        self._lost = Counters()  # what was to leave where it could not
        self.strangers = 0  # packets on a further network from an address that is not listed there

    @property
    def limits(self) -> Limits:
        limits = [transport.limits for transport in self._transports]
        return Limits(min(each.packet for each in limits), min(each.buffer for each in limits))

    @property
    def address(self) -> Address:
        return self._transports[0].address

    @property
    def counters(self) -> Counters:
        """Of all networks together."""
        every = [self._lost, *(transport.counters for transport in self._transports)]
        return Counters(*map(sum, zip(*map(dataclasses.astuple, every), strict=True)))

    async def open(self, receive: Receive, turn_over: TurnOver) -> None:
        opened: list[Transport] = []
        try:
            for number, transport in enumerate(self._transports):
                await transport.open(partial(self._receive_on, number, receive) if number else receive, turn_over)
                opened.append(transport)
        except BaseException:
            for transport in opened:
                await transport.close()
            raise

    def _receive_on(self, lan: int, receive: Receive, source: Address, data: Data) -> None:
        known = self._here[lan].get(source)
        if known is not None:
            receive(known, data)
        else:
            self.strangers += 1

    def send(self, to: Sequence[Address], data: Data) -> None:
        self._transports[0].send(to, data)

    def senders(self) -> tuple[Send, ...]:
        """What sends on each network, to addresses on the first."""
        return (self.send, *(partial(self._send_on, lan) for lan in range(1, len(self._transports))))

    def _send_on(self, lan: int, to: Sequence[Address], data: Data) -> None:
        there = self._there[lan]
        reached = [there[address] for address in to if address in there]
        self._lost.dropped += len(to) - len(reached)
        if reached:
            self._transports[lan].send(reached, data)

    def catch_up(self) -> bool:
        ways = [getattr(transport, "catch_up", None) for transport in self._transports]
        return any([catch_up() for catch_up in ways if catch_up is not None])

    async def close(self) -> None:
        for transport in self._transports:
            await transport.close()


def check_lans(lans: int, peers: Mapping[str, Address], backup: Mapping[str, Address]) -> None:
    """Fails unless every process has an address on every network, and different ones."""
    if lans == 1:
        if backup:
            raise UsageError("backup gives addresses on a second network, and there is one; set lans to 2, or leave backup out")
        return
    missing = [name for name in peers if name not in backup]
    unknown = [name for name in backup if name not in peers]
    if missing or unknown:
        problem = f"{', '.join(missing)} missing" if missing else f"{', '.join(unknown)} not among the peers"
        raise UsageError(f"with lans = 2 each of the peers has an address on the second network, too: {problem} in backup")
    if any(port == 0 for _, port in backup.values()):
        raise UsageError("backup has an address with port 0, and others have to know the port; choose one")
    twice = [name for name, address in backup.items() if address in peers.values()]
    if twice:
        raise UsageError(f"backup gives {', '.join(twice)} an address that is in peers already; give each of them two addresses")
