"""Asserts the invariants of 3.6.2 and the lemmas of appendix B inside a simulation of dedos over nodes, after every operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plainchant.core.engine import Layer
from plainchant.core.memory import Copy, Operate
from plainchant.core.model import GroupId, ProcessId
from plainchant.protocols.dedos import invariants
from plainchant.protocols.dedos.distributor import Distributor
from plainchant.protocols.dedos.engine import SEATS, Dedos
from plainchant.protocols.dedos.member import Member
from plainchant.sim.host import SimHost
from plainchant.sim.memory import SimMemory


class Lemmas:
    """The ``watch`` of a simulation. ``broken`` has what was not true, ``asked`` how often it was asked, by name. With
    ``boxes_crash`` numbers may be missing in a mailbox: a relay asks for what no receiver has restored."""

    def __init__(self, *, boxes_crash: bool = False) -> None:
        self.boxes_crash = boxes_crash
        self.hosts: dict[ProcessId, SimHost] = {}
        self.broken: list[str] = []
        self.asked: dict[str, int] = {}

    def __call__(self, host: SimHost, request: Operate, memory: SimMemory) -> None:
        self.hosts[host.me] = host
        mailbox = memory.server.mailboxes.get(request.mailbox)
        if request.mailbox == SEATS or mailbox is None or not memory.working or self.broken:
            return
        group, copy = request.mailbox, mailbox.copies[min(memory.working) - 1]
        for name, sentences in self._wrong(group, copy, memory.node):
            self.asked[name] = self.asked.get(name, 0) + 1
            self.broken += [f"{name}: {sentence} (after {request.name} by {host.me} at {host.now})" for sentence in sentences]

    def _wrong(self, group: GroupId, copy: Copy, node: str) -> Iterator[tuple[str, list[str]]]:
        engines = dict(self._engines())
        members = {
            name: engine.members[group]
            for name, engine in engines.items()
            if group in engine.members and engine.members[group].entered and not engine.members[group].gone
        }
        readers = {name: member for name, member in members.items() if not member.only_sends}
        local = {name: member for name, member in readers.items() if engines[name].node == node}
        for lemma in invariants.BETWEEN:
            yield lemma.__name__, lemma(copy, local)
        stored = {name: member.number - member.sending for name, member in members.items() if engines[name].node == node}
        if not self.boxes_crash:
            yield "consecutive", invariants.consecutive(copy)
        yield "sent_is_there", invariants.sent_is_there(copy, stored)
        yield "removed_is_read", invariants.acknowledged_is_read(copy.header().oldest - 1, readers)
        for engine in engines.values():
            distributor = engine.distributors.get(group)
            if distributor is not None and not distributor.starting and not distributor.stopped:
                yield from self._wrong_at(distributor, readers, engines)

    def _wrong_at(
        self, distributor: Distributor, readers: dict[ProcessId, Member], engines: dict[ProcessId, Dedos]
    ) -> Iterator[tuple[str, list[str]]]:
        yield "history_consecutive", invariants.history_consecutive(distributor.history, distributor.next)
        for peer in distributor.peers.values():
            there = {name: member for name, member in readers.items() if engines[name].node == peer.node}
            yield "acknowledged_is_read", invariants.acknowledged_is_read(peer.acked, there)

    def _engines(self) -> Iterator[tuple[ProcessId, Dedos]]:
        """Processes that are alive and have seen what their operations did."""
        for name, host in self.hosts.items():
            engine: Any = host.engine
            while isinstance(engine, Layer):
                engine = engine.inner
            if host.alive and not host.processor.busy and isinstance(engine, Dedos):
                yield name, engine
