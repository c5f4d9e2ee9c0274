"""Observes a node: counts what the node itself does not count, and lets metrics and spans read it.

Messages, bytes, packets and queues are counted by the groups, the host and the transport anyhow, and read on demand. An
:class:`Observer` is told only of rare events: views, departures, halts, and what protocols record (retransmissions, suspicions,
blocked senders, state transfer); of messages only of samples (:mod:`.sampling`) and, if messages are traced, of each delivered
batch. A timer looks how late the event loop is, and fits the samples to the rate.

Figures of a group are kept as long as the process is in it: a program that forms many groups does not make them grow for ever.
Everything happens on the node's event loop and ends with the node; :meth:`Observer.close` may be called at any time, and again.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, Final

from ...core.model import Reason, UsageError, View
from ...core.plugins import need
from ...group import Membership
from .sampling import LAGS, LATENCIES, Histogram, Pace

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from ..node import Node
    from .endpoint import Endpoint
    from .metrics import NodeCollector
    from .spans import Spans, Tracing

TICK: Final = 0.25  # seconds between two looks at the event loop
RETRANSMIT: Final = "retransmit"


class Figures:
    """What is counted of one group while the process is in it."""

    def __init__(self, group: Membership, random: Random) -> None:
        self.group = group
        self.arrivals: int = 0
        self.departures: Counter[str] = Counter()  # members that are gone, by the code of the reason
        self.latency: Histogram = Histogram(LATENCIES)
        self.pace = Pace(random)


class Observer:
    """One node's. ``metrics``: an address, or a registry; ``spans``: see :class:`.spans.Spans`."""

    def __init__(self, metrics: str | CollectorRegistry | None, spans: Spans | float | None) -> None:
        self.figures: dict[str, Figures] = {}
        self.halts: Counter[str] = Counter()
        self.recorded_by_kind: dict[str, Counter[str]] = {}  # what protocols recorded, by group (empty: of none) and kind
        self.retransmitted: Counter[str] = Counter()  # packets that were sent again, by group
        self.lag: Histogram = Histogram(LAGS)
        self.thread = 0  # the node's own
        self._random = Random()
        self._metrics = metrics
        self._collector: NodeCollector | None = None
        self._endpoint: Endpoint | None = None
        self._tracing: Tracing | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._node: Node | None = None
        if metrics is not None:
            need("prometheus_client", "metrics need", "observe")
        if isinstance(metrics, str):
            from .endpoint import where

            need("aiohttp", "metrics need", "observe")
            self._where = where(metrics)
        if spans is not None:
            from .spans import Spans, Tracing

            self._tracing = Tracing(spans if isinstance(spans, Spans) else Spans(spans))

    async def open(self, node: Node) -> None:
        """Begins to look at a node whose host is there; the node is open when this has returned."""
        self._node = node
        self.thread = threading.get_ident()
        if self._metrics is not None:
            await self._open_metrics(node)
        if self._tracing is not None:
            self._tracing.open(node)
        node.host.observer = self
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(TICK, self._tick, loop.time() + TICK)

    async def _open_metrics(self, node: Node) -> None:
        from .endpoint import Endpoint
        from .metrics import NodeCollector, register

        collector = NodeCollector(node, self)
        if isinstance(self._metrics, str):
            self._endpoint = Endpoint(collector, self._where)
            await self._endpoint.open()
        else:
            assert self._metrics is not None
            register(collector, self._metrics)
            self._collector = collector

    async def close(self) -> None:
        """Looks no longer: nobody is answered, nothing is told."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._node is not None:
            self._node.host.observer = None
        for figures in self.figures.values():
            figures.group.stop_observing()
        if self._collector is not None and self._metrics is not None and not isinstance(self._metrics, str):
            collector, self._collector = self._collector, None
            self._metrics.unregister(collector)
        endpoint, self._endpoint = self._endpoint, None
        try:
            if endpoint is not None:
                await endpoint.close()
        finally:
            if self._tracing is not None:
                await self._tracing.close()

    @property
    def metrics_address(self) -> tuple[str, int]:
        """Where the figures are found, once the node is open."""
        if self._endpoint is None:
            raise UsageError('this node has no endpoint for metrics; open it with metrics="127.0.0.1:9464"')
        return self._endpoint.address

    def _tick(self, due: float) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self.lag.add(max(0.0, now - due))
        self._timer = loop.call_at(now + TICK, self._tick, now + TICK)
        for figures in self.figures.values():
            figures.pace.tick(figures.group.accepted)
            self._next_sample(figures)

    def recorded(self, kind: str, group: str | None, detail: dict[str, Any]) -> None:
        """The protocol, or a layer of it, explains something."""
        # Of groups that this process is not in there may be any number, so they have no figures of their own.
        name = group if group is not None and self._node is not None and group in self._node.host.groups else ""
        counts = self.recorded_by_kind.get(name)
        if counts is None:
            counts = self.recorded_by_kind[name] = Counter()
        counts[kind] += 1
        if kind == RETRANSMIT:
            packets = detail.get("packets", 1)
            self.retransmitted[name] += packets if isinstance(packets, int) else 1
        if self._tracing is not None:
            self._tracing.recorded(kind, name, detail)

    def installed(self, group: Membership, view: View) -> None:
        figures = self.figures.get(view.group)
        is_first = figures is None
        if figures is None:
            figures = self.figures[view.group] = Figures(group, self._random)
            figures.pace.next = group.accepted + 1
            tracing = self._tracing
            group.observe(self.accepted, tracing.delivered if tracing is not None and tracing.traces_messages else None)
            self._next_sample(figures)
        figures.arrivals += len(view.joined)
        figures.departures.update(reason.code for reason in view.left.values())
        if self._tracing is not None:
            self._tracing.installed(group, view, is_first)

    def leaving(self, group: str) -> None:
        if self._tracing is not None:
            self._tracing.leaving(group)

    def left(self, group: str) -> None:
        figures = self.figures.pop(group, None)
        if figures is not None:
            figures.group.stop_observing()
        self.recorded_by_kind.pop(group, None)
        self.retransmitted.pop(group, None)
        if self._tracing is not None:
            self._tracing.left(group)

    def renamed(self, group: str, name: str) -> None:
        tables: tuple[dict[str, Any], ...] = (self.figures, self.recorded_by_kind, self.retransmitted)
        for table in tables:
            if group in table:
                table[name] = table.pop(group)
        if self._tracing is not None:
            self._tracing.renamed(group, name)
        if name in self.figures:
            self._next_sample(self.figures[name])

    def stopped(self, reason: Reason) -> None:
        self.halts[reason.code] += 1
        if self._tracing is not None:
            self._tracing.stopped(reason)

    def joining(self, group: str) -> contextlib.AbstractContextManager[None]:
        """Around the way into a group."""
        return self._tracing.joining(group) if self._tracing is not None else contextlib.nullcontext()

    def accepted(self, group: Membership) -> None:
        """Messages are about to be handed to the host; among them is a sample."""
        figures = self.figures.get(group.name)
        if figures is None:
            group.stop_observing()
            return
        number = group.accepted
        if self._metrics is not None and number >= figures.pace.next and figures.pace.take(number):
            self._measure(figures, number)
        if self._tracing is not None:
            self._tracing.accepted(group)
        self._next_sample(figures)

    def _measure(self, figures: Figures, number: int) -> None:
        loop = asyncio.get_running_loop()
        sent = loop.time()
        figures.pace.pending += 1

        def over(delivered: asyncio.Future[None]) -> None:
            figures.pace.pending -= 1
            if not delivered.cancelled() and delivered.exception() is None:
                figures.latency.add(loop.time() - sent)

        figures.group.when_delivered(number, over)

    def _next_sample(self, figures: Figures) -> None:
        following = figures.pace.next if self._metrics is not None else math.inf
        if self._tracing is not None:
            following = min(following, self._tracing.next_of(figures.group))
        figures.group.sample_at(following)
