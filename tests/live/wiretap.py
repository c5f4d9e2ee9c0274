"""Processes whose packets go through one hand: sealing transports in one memory, and an attacker who sees everything.

Nothing waits and nothing is random but salts and keys: a packet that is sent lies in the hand until the test delivers it,
loses it, or does worse with it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from plainchant.live.keys import Keyring
from plainchant.live.refusals import Refusals
from plainchant.live.sealed import Sealed
from plainchant.live.transport import Address, Counters, Data, Limits, Receive, TurnOver

PLACES = ("a", "b", "c")
AT: dict[str, Address] = {place: ("10.0.0.1", 7000 + number) for number, place in enumerate(PLACES)}


@dataclasses.dataclass(frozen=True)
class Seen:
    """A packet on the wire."""

    source: Address
    to: Address
    data: bytes


class Wire:
    """The transport of one process."""

    def __init__(self, tap: Tap, address: Address) -> None:
        self.address = address
        self.limits = Limits(65_507, 1 << 20)
        self.counters = Counters()
        self._tap = tap

    async def open(self, receive: Receive, turn_over: TurnOver) -> None:
        self.receive = receive

    def send(self, to: Sequence[Address], data: Data) -> None:
        for address in to:
            self._tap.send(Seen(self.address, address, bytes(data)))

    def catch_up(self) -> bool:
        return False

    async def close(self) -> None:
        pass


class End:
    """A process: what it has been handed, and from where."""

    def __init__(self, tap: Tap, place: str, ring: Keyring) -> None:
        self.place = place
        self.address = AT[place]
        self.boot = os.urandom(4)
        self.refusals = Refusals()
        self.proved: list[Address] = []
        self.heard: list[tuple[Address, bytes]] = []
        self._wire = Wire(tap, self.address)
        self.sealed = Sealed(
            self._wire, ring, place=place, boot=self.boot, peers=AT, refusals=self.refusals, proved=self.proved.append
        )

    async def open(self) -> None:
        await self.sealed.open(self._receive, lambda: None)

    def _receive(self, source: Address, data: Data) -> None:
        self.heard.append((source, bytes(data[9:])))

    def says(self, word: bytes, *to: str, boot: bytes = b"") -> None:
        """Sends a word, in a frame as hosts make them."""
        self.sealed.send(tuple(AT[place] for place in to), b"\xc1crc." + (boot or self.boot) + word)

    def gets(self, source: Address, data: bytes) -> None:
        self._wire.receive(source, data)

    def words(self) -> list[bytes]:
        return [word for _, word in self.heard]


class Tap:
    """The network, and who listens on it."""

    def __init__(self) -> None:
        self.ring = Keyring.new()
        self.ends: dict[str, End] = {}
        self.under_way: list[Seen] = []
        self.recorded: list[Seen] = []

    async def start(self, place: str, ring: Keyring | None = None) -> End:
        """A new process at a place; the one that was there is gone."""
        end = self.ends[place] = End(self, place, ring or self.ring)
        await end.open()
        return end

    def send(self, seen: Seen) -> None:
        self.under_way.append(seen)
        self.recorded.append(seen)

    def deliver(self, limit: int = 500) -> None:
        """Delivers all that is under way, and what comes of it."""
        for _ in range(limit):
            if not self.under_way:
                return
            self.hand_on(self.under_way.pop(0))
        raise AssertionError("packets that answer packets have to come to an end")

    def hand_on(self, seen: Seen) -> None:
        for end in self.ends.values():
            if end.address == seen.to:
                end.gets(seen.source, seen.data)

    async def acquainted(self) -> tuple[End, End, End]:
        """Three processes that have proved themselves to each other."""
        a, b, c = [await self.start(place) for place in PLACES]
        self.acquaint()
        return a, b, c

    def acquaint(self) -> None:
        for end in self.ends.values():
            end.says(b"lost", *(place for place in self.ends if place != end.place))
            self.deliver()
        for end in self.ends.values():
            end.heard.clear()
