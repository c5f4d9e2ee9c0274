"""A live group of which one member is careless: it delivers one batch after the one that follows it.

The rule that is taken out is the sequencer's own: numbers are delivered in their order.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import plainchant
from plainchant.core.engine import Host, Layer
from plainchant.core.model import Batch
from plainchant.live.ports import free_ports
from plainchant.protocols.sequencer import DESCRIPTION

NAMES = ("ann", "ben", "cyd")
CARELESS = "ben"


class Overtaking(Layer):
    """Holds the first batch of ann's back at ben, until one of somebody else has been delivered."""

    held: tuple[str, str, Batch, int | None] | None = None
    done = False

    def deliver(self, group: str, sender: str, batch: Batch, rank: int | None = None) -> None:
        if self.me == CARELESS and sender == "ann" and not self.done:
            self.held, self.done = (group, sender, batch, rank), True
            return
        self.host.deliver(group, sender, batch, rank)
        if self.held is not None and sender != "ann":
            held, self.held = self.held, None
            self.host.deliver(*held)


def _make(host: Host, parameters: Any) -> Overtaking:
    return Overtaking(host, lambda inner: DESCRIPTION.make(inner, parameters))


SPOILT = dataclasses.replace(DESCRIPTION, make=_make)


class Careless:
    """Three members that send now and then, until they are told to end; they record to a directory."""

    def __init__(self, spools: Path, group: str) -> None:
        self._spools = spools
        self._group = group
        self._end = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self.failure = error

    def end(self) -> None:
        self._end.set()

    async def _run(self) -> None:
        peers = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, free_ports(len(NAMES)), strict=True)}
        nodes = [plainchant.Node(me=name, peers=peers, trace=self._spools, run="r0", description=SPOILT) for name in NAMES]
        async with nodes[0], nodes[1], nodes[2]:
            await asyncio.gather(*(self._member(node) for node in nodes))
            for node in nodes:
                await node.close()

    async def _member(self, node: plainchant.Node) -> None:
        group = await node.join(self._group, timeout=60).__aenter__()
        group.stop_listening()
        while not self._end.is_set():
            await group.send(b"x")
            await asyncio.sleep(0.05)


@contextmanager
def careless(spools: Path, group: str) -> Iterator[Careless]:
    members = Careless(spools, group)
    thread = threading.Thread(target=members.run, daemon=True)
    thread.start()
    try:
        yield members
    finally:
        members.end()
        thread.join(60)
    assert not thread.is_alive()
    if members.failure is not None:
        raise members.failure
