"""Looks into simulated runs: what passes between engines and network, and what engines hold, as it happens.

An :class:`Observer` stands between every process's host and engine. It changes nothing: host calls and packets pass
through as they are, and the run is the same with it as without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...engine import Engine, Host, Layer
from ...model import Batch, GroupId, Packet, ProcessId
from ...protocols.registry import describe
from ...protocols.sequencer import Member
from ...scenario.model import Scenario
from ...sim import Simulation, Summary
from ...trace import TraceBuffer

GROUP = "g"


class Observer:
    """Told of everything; subclasses write down what they want to know."""

    def __init__(self) -> None:
        self._stacks: dict[ProcessId, Any] = {}

    def make(self, host: Host, parameters: Any) -> Engine:
        """The sequencer's engine with this observer around it: the ``make`` of a simulation."""
        stack = _Observed(host, self, parameters)
        self._stacks[host.me] = stack.inner
        return stack

    def member(self, process: ProcessId) -> Member:
        """A process's part in the group."""
        member: Member = self._stacks[process].instances[GROUP]
        return member

    def receiving(self, me: ProcessId, packet: Packet) -> None:
        """Before an engine gets a packet."""

    def received(self, me: ProcessId, packet: Packet) -> None:
        """After it has dealt with it."""

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        """An engine sends."""

    def delivering(self, me: ProcessId, sender: ProcessId, batch: Batch, rank: int | None) -> None:
        """An engine delivers."""

    def run(self, scenario: Scenario) -> tuple[Summary, TraceBuffer]:
        """Runs a scenario of the sequencer under observation."""
        trace = TraceBuffer()
        summary = Simulation(scenario, trace=trace, make=self.make).run()
        return summary, trace


class _Observed(Layer):
    """The layer that tells the observer."""

    def __init__(self, host: Host, observer: Observer, parameters: Any) -> None:
        self._observer = observer
        super().__init__(host, lambda inner: describe("sequencer").make(inner, parameters))

    def receive(self, source: ProcessId, packet: Packet) -> None:
        self._observer.receiving(self.me, packet)
        self.inner.receive(source, packet)
        self._observer.received(self.me, packet)

    def send(self, to: Sequence[ProcessId], packet: Packet) -> None:
        self._observer.sending(self.me, to, packet)
        self.host.send(to, packet)

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        self._observer.delivering(self.me, sender, batch, rank)
        self.host.deliver(group, sender, batch, rank)
