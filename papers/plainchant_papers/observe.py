"""Looks into simulated runs: what passes between engines and network, and what engines hold, as it happens.

An :class:`Observer` stands between every process's host and engine. It changes nothing: host calls and packets pass
through as they are, and the run is the same with it as without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from plainchant.core.engine import Engine, Host, Layer
from plainchant.core.model import Batch, GroupId, Packet, ProcessId
from plainchant.protocols.registry import describe
from plainchant.scenario.model import Scenario
from plainchant.sim import Simulation, Summary
from plainchant.sim.variants import AS_BUILT, Variant
from plainchant.trace import TraceBuffer

Make: TypeAlias = Callable[[Host, Any], Engine]


class Observer:
    """Told of everything; subclasses write down what they want to know."""

    def __init__(self) -> None:
        self.engines: dict[ProcessId, Any] = {}
        self.hosts: dict[ProcessId, Host] = {}

    def receiving(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        """Before an engine gets a packet."""

    def received(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        """After it has dealt with it."""

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        """An engine sends."""

    def delivering(self, me: ProcessId, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None) -> None:
        """An engine delivers."""

    def run(
        self,
        scenario: Scenario,
        *,
        variant: Variant = AS_BUILT,
        make: Make | None = None,
        applications: Mapping[str, Any] | None = None,
    ) -> tuple[Summary, TraceBuffer]:
        """Runs a scenario under observation, with a variant of its protocol or another engine if one is given."""
        trace = TraceBuffer()
        inside = make if make is not None else describe(scenario.protocol).make

        def observed(host: Host, parameters: Any) -> Engine:
            layer = _Observed(host, self, lambda inner: inside(inner, parameters))
            self.engines[host.me] = layer.inner
            self.hosts[host.me] = host
            return layer

        with variant.applied():
            summary = Simulation(scenario, trace=trace, make=observed, applications=applications).run()
        return summary, trace


class _Observed(Layer):
    """The layer that tells the observer."""

    def __init__(self, host: Host, observer: Observer, inside: Callable[[Host], Engine]) -> None:
        self._observer = observer
        super().__init__(host, inside)

    def receive(self, source: ProcessId, packet: Packet) -> None:
        self._observer.receiving(self.me, source, packet)
        self.inner.receive(source, packet)
        self._observer.received(self.me, source, packet)

    def send(self, to: Sequence[ProcessId], packet: Packet, lan: int = 0) -> None:
        self._observer.sending(self.me, to, packet)
        self.host.send(to, packet, lan)

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        self._observer.delivering(self.me, group, sender, batch, rank)
        self.host.deliver(group, sender, batch, rank)
