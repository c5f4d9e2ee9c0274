"""Runs scenarios and looks into them: what passes between engines and network, and what engines hold, as it happens.

:func:`trace_of` runs a scenario and returns its trace. An :class:`Observer` stands between every process's host and engine. It
changes nothing: host calls and packets pass through as they are, and the run is the same with it as without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import pyarrow as pa

from plainchant.core.engine import Engine, Host, Layer
from plainchant.core.model import Batch, GroupId, Packet, ProcessId
from plainchant.protocols.registry import Description, describe
from plainchant.protocols.variants import AS_BUILT, Variant, Variants
from plainchant.scenario.model import Scenario
from plainchant.sim import Simulation, Summary
from plainchant.trace import TraceBuffer

Make: TypeAlias = Callable[[Host, Any], Engine]


def trace_of(
    scenario: Scenario,
    variant: Variant = AS_BUILT,
    make: Make | None = None,
    *,
    applications: Mapping[str, Any] | None = None,
    description: Description | None = None,
) -> tuple[Summary, pa.Table]:
    """Runs a scenario: summary and trace. ``make`` replaces the protocol's engine, ``description`` its whole protocol."""
    trace = TraceBuffer()
    with variant.applied():
        summary = Simulation(scenario, trace=trace, make=make, applications=applications, description=description).run()
    return summary, trace.table()


def constants(variants: Variants, *rules: tuple[str, type | ModuleType, str, object]) -> None:
    """Adds variants of which a rule always gives the same answer: the name, where the rule is defined and as what, the answer."""

    def always(answer: object) -> Callable[..., object]:
        return lambda *_, **__: answer

    for name, owner, attribute, answer in rules:
        variants.replaces(name, owner, attribute)(always(answer))


class Observer:
    """Sees every packet and delivery of a run; subclasses record what they need."""

    def __init__(self) -> None:
        self.engines: dict[ProcessId, Any] = {}
        self.hosts: dict[ProcessId, Host] = {}

    def receiving(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        """Before an engine gets a packet."""

    def received(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        """After the engine has handled it."""

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        """An engine sends."""

    def delivering(self, me: ProcessId, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None) -> None:
        """An engine delivers."""

    def run(
        self, scenario: Scenario, variant: Variant = AS_BUILT, make: Make | None = None, **more: Any
    ) -> tuple[Summary, pa.Table]:
        """:func:`trace_of` a scenario under observation."""
        inside = make if make is not None else describe(scenario.protocol).make

        def observed(host: Host, parameters: Any) -> Engine:
            layer = _Observed(host, self, lambda inner: inside(inner, parameters))
            self.engines[host.me] = layer.inner
            self.hosts[host.me] = host
            return layer

        return trace_of(scenario, variant, observed, **more)


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
