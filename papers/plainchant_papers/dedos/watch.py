"""Asks the invariants of 3.6.2 and the lemmas of appendices B and C inside a simulation, after every operation on shared memory.

The questions are those of :mod:`plainchant.protocols.dedos.invariants`. A process that is paused has not seen the results of its
steps yet, so it is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from plainchant.core.engine import Layer, PerGroup
from plainchant.core.memory import Copy, Operate
from plainchant.core.model import GroupId, ProcessId
from plainchant.protocols.dedos import invariants
from plainchant.sim.host import SimHost
from plainchant.sim.memory import SimMemory

Answers = Iterator[tuple[str, list[str]]]  # The name of each question, and what is wrong.


class Lemmas:
    """The ``watch`` of a simulation, within a node or between nodes. It stops asking when something is wrong."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()  # How often each question was asked.
        self.broken: list[str] = []  # What was wrong: the question, and a sentence.
        self.holes = 0  # How often the numbers in a mailbox had a gap. A gap is no error if a box has crashed.
        self._hosts: dict[ProcessId, SimHost] = {}

    def __call__(self, host: SimHost, request: Operate, memory: SimMemory) -> None:
        self._hosts[host.me] = host
        mailbox = memory.server.mailboxes.get(request.mailbox)
        if self.broken or mailbox is None or not memory.working or request.mailbox.startswith("@"):
            return
        copy = mailbox.copies[min(memory.working) - 1]
        engines = {me: _innermost(each.engine) for me, each in self._hosts.items() if each.alive and not each.processor.busy}
        asks = _within if isinstance(_innermost(host.engine), PerGroup) else self._between
        for name, wrong in asks(engines, request.mailbox, copy, memory.node):
            self.asked[name] += 1
            self.broken += [f"{name}: {sentence}" for sentence in wrong]

    def _between(self, engines: Mapping[ProcessId, Any], group: GroupId, copy: Copy, node: str) -> Answers:
        members = {
            me: member
            for me, engine in engines.items()
            if (member := engine.members.get(group)) is not None and member.entered and not member.gone
        }
        receivers = {me: member for me, member in members.items() if not member.only_sends}
        here = {me: member for me, member in receivers.items() if engines[me].node == node}
        for lemma in invariants.BETWEEN:
            yield lemma.__name__, lemma(copy, here)
        stored = {me: member.number - member.sending for me, member in members.items() if engines[me].node == node}
        yield "sent_is_there", invariants.sent_is_there(copy, stored)
        yield "removed_is_read", invariants.acknowledged_is_read(copy.header().oldest - 1, receivers)
        self.holes += bool(invariants.consecutive(copy))
        for engine in engines.values():
            distributor = engine.distributors.get(group)
            if distributor is None or distributor.starting or distributor.stopped:
                continue
            yield "history_consecutive", invariants.history_consecutive(distributor.history, distributor.next)
            for peer in distributor.peers.values():
                there = {me: member for me, member in receivers.items() if engines[me].node == peer.node}
                yield "acknowledged_is_read", invariants.acknowledged_is_read(peer.acked, there)


def _within(engines: Mapping[ProcessId, Any], group: GroupId, copy: Copy, node: str) -> Answers:
    members: dict[ProcessId, Any] = {me: _innermost(engine.instances.get(group)) for me, engine in engines.items()}
    receivers = {
        me: member for me, member in members.items() if member and member.entry and not member.only_sends and not member.departing
    }
    for lemma in invariants.WITHIN:
        yield lemma.__name__, lemma(copy, receivers)


def _innermost(engine: Any) -> Any:
    while isinstance(engine, Layer):
        engine = engine.inner
    return engine
