"""The figures of a node: their names, what they mean, and where they are read.

:data:`METRICS` declares every figure once: name, kind, labels, one sentence, and the function that reads it. The exposition, the
table in ``docs/observe.md`` and the tests are made of it. A scrape makes one :class:`Snapshot` of what groups, host and
transport have counted; the functions only pick from it. Nothing is counted for metrics alone on the way of a message.

**Whatever is counted is shown.** Packets that were not taken are counted by the transport and the host, by kind: fields of
``Transport.counters``, attributes ``packets_...`` of the host, entries of ``host.counters()``, and fields of any dataclass of
counters that the host has, are all labels of one family, without being named here.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ... import __version__
from ...core.model import SECOND, UsageError
from ...core.plugins import need
from .sampling import Histogram

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family

    from ..node import Node
    from .observer import Observer

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

Value: TypeAlias = float | Histogram
Sample: TypeAlias = tuple[tuple[str, ...], Value]
Read: TypeAlias = Callable[["Snapshot"], Iterable[Sample]]  # what it gives does not change afterwards

_SHOWN_ALONE: Final = frozenset({"sent", "sent_bytes", "received", "received_bytes"})  # counters that have their own figures
_SUMS: Final = frozenset({"sent", "received", "queued", "dropped", "damaged", "foreign"})  # sums of what is counted elsewhere
_PREFIX: Final = "packets_"
_SEALED: Final = "sealed_with_"
_NS: Final = 1 / SECOND


class Snapshot:
    """What a node has counted, read at one instant."""

    def __init__(self, node: Node, observer: Observer) -> None:
        host = node.host
        self.node, self.host, self.observer = node, host, observer
        self.transport: dict[str, int] = _integers(host.transport.counters)
        self.is_here = threading.get_ident() == observer.thread  # whether this is the node's thread: the protocol may be asked
        self.statistics = node.statistics()
        self.refused: dict[str, int] = refused_packets(host, self.transport, self.statistics)
        self.groups = [(name, group, group.figures()) for name, group in list(host.groups.items())]
        by_group = list(observer.recorded_by_kind.items())
        self.recorded: list[Sample] = [((group, kind), n) for group, counts in by_group for kind, n in list(counts.items())]


def refused_packets(host: Any, transport: Mapping[str, int], statistics: Mapping[str, int]) -> dict[str, int]:
    """Packets that were not sent or not taken, by kind: everything that the host and its transport count beside the ordinary."""
    found = {f"transport_{name}": number for name, number in transport.items() if name not in _SHOWN_ALONE}
    for key, number in statistics.items():
        kind = key.removeprefix(_PREFIX)
        if key.startswith(_PREFIX) and kind not in _SUMS:
            found[kind] = number
    for name, value in list(vars(host).items()):
        if name.startswith(_PREFIX) and isinstance(value, int) and name not in ("packets_sent", "packets_received"):
            found[name.removeprefix(_PREFIX)] = value
        elif dataclasses.is_dataclass(value) and not isinstance(value, type) and (counted := _integers(value)):
            found.update(counted)
    return found


def _integers(counters: Any) -> dict[str, int]:
    """The fields of a dataclass of counters; nothing of one that has other fields, or of what is none."""
    if not dataclasses.is_dataclass(counters):
        return {}
    fields = {field.name: getattr(counters, field.name) for field in dataclasses.fields(counters)}
    return fields if all(value.__class__ is int for value in fields.values()) else {}


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """One figure. The name of a counter ends in ``_total``."""

    name: str
    kind: str
    labels: tuple[str, ...]
    about: str
    read: Read


def _figure(name: str, about: str, read: Read, *labels: str, kind: str = "") -> Metric:
    kind = kind or (COUNTER if name.endswith("_total") else GAUGE)
    return Metric(f"plainchant_{name}", kind, labels, about, read)


def _group(name: str, key: str, about: str, scale: float = 1) -> Metric:
    return _figure(name, about, lambda now: [((group,), figures[key] * scale) for group, _, figures in now.groups], "group")


def _packets(name: str, key: str, about: str) -> Metric:
    return _figure(name, about, lambda now: [((), now.transport[key])] if key in now.transport else [])


def _statistic(name: str, key: str, about: str) -> Metric:
    return _figure(name, about, lambda now: [((), now.statistics[key])] if key in now.statistics else [])


def _spool(name: str, read: Callable[[Any], float], about: str) -> Metric:
    return _figure(name, about, lambda now: [((), read(now.host.spool))] if now.host.spool is not None else [])


def _info(now: Snapshot) -> list[Sample]:
    return [((now.node.name, now.node.place, now.node.description.name, __version__), 1)]


def _view_number(now: Snapshot) -> list[Sample]:
    return [((name,), group.view.number) for name, group, _ in now.groups if group.view is not None]


def _departures(now: Snapshot) -> list[Sample]:
    by_group = list(now.observer.figures.items())
    return [((name, why), number) for name, figures in by_group for why, number in list(figures.departures.items())]


def _waiting(now: Snapshot) -> list[Sample]:
    if not now.is_here or not now.host.alive or not now.host.me:
        return []
    reason = now.host.waiting("")
    return [((reason.code,), 1)] if reason is not None else []


def _sealed_with(now: Snapshot) -> list[Sample]:
    found = now.statistics.items()
    return [((key.removeprefix(_SEALED),), number) for key, number in found if key.startswith(_SEALED)]


def _free(spool: Any) -> float:
    try:
        disk = os.statvfs(spool.directory)
    except OSError:
        return 0.0
    return float(disk.f_bavail * disk.f_frsize)


def _labelled(counts: Mapping[str, int]) -> list[Sample]:
    return [((label,), number) for label, number in list(counts.items())]


METRICS: Final = (
    _figure("node_info", "Who this is; always 1.", _info, "process", "place", "protocol", "version"),
    _figure("node_alive", "1 while the process takes part; 0 when it was halted.", lambda now: [((), int(now.host.alive))]),
    _figure(
        "halts_total", "Times that this node was halted, by reason: 0 or 1.", lambda now: _labelled(now.observer.halts), "reason"
    ),
    _figure("waiting", "1 while the protocol has something to wait for, with what that is.", _waiting, "reason"),
    # messages
    _group("messages_accepted_total", "accepted", "Messages that `send` has accepted for good."),
    _group("messages_sent_total", "sent", "Messages that the protocol has taken to send."),
    _group("messages_delivered_total", "delivered", "Messages of all members that were delivered here."),
    _group("own_messages_delivered_total", "own_delivered", "The number of the last own message that was delivered here."),
    _group("own_messages_stable_total", "own_stable", "The number of the last own message that all members hold."),
    _group("message_sent_bytes_total", "sent_bytes", "Bytes of the messages taken to send."),
    _group(
        "message_delivered_bytes_total", "delivered_bytes", "Bytes of the messages delivered, in batches: up to 5 more a message."
    ),
    _figure(
        "message_latency_seconds",
        "From `send` to the own delivery, of sampled messages without deadlines.",
        lambda now: [((name,), figures.latency.copy()) for name, figures in list(now.observer.figures.items())],
        "group",
        kind=HISTOGRAM,
    ),
    # queues
    _group("queue_messages", "queued", "Accepted messages that the protocol has not taken."),
    _group("queue_bytes", "queued_bytes", "Their bytes."),
    _group("queue_limit_bytes", "outgoing_limit", "Where `send` begins to wait."),
    _group("unread_bytes", "unread_bytes", "What was delivered and not read, with 64 a message."),
    _group("unread_limit_bytes", "unread_limit", "Where the group's senders are slowed down."),
    _group("blocked_seconds_total", "blocked_ns", "Time during which a `send` waited for room.", _NS),
    _group("blocked_senders", "blocked_senders", "Calls of `send` that wait for room now."),
    _group(
        "overfull_seconds_total", "overfull_ns", "Time during which too much was unread, so that others were slowed down.", _NS
    ),
    # membership
    _group("members", "members", "Members of the view in force; 0 after this one is out."),
    _figure("view_number", "The number of the view in force.", _view_number, "group"),
    _group("views_total", "views", "Views that this process has seen."),
    _figure(
        "arrivals_total",
        "Members that came, as views said.",
        lambda now: _labelled({name: figures.arrivals for name, figures in list(now.observer.figures.items())}),
        "group",
    ),
    _figure(
        "departures_total",
        "Members that are gone, as views said: who left, and who was excluded and why.",
        _departures,
        "group",
        "reason",
    ),
    # what protocols do
    _figure(
        "protocol_events_total",
        "What the protocol recorded: suspicions, elections, blocked senders, ... (the kinds of a trace's rows).",
        lambda now: now.recorded,
        "group",
        "kind",
    ),
    _figure(
        "retransmitted_packets_total",
        "Packets that the protocol sent again.",
        lambda now: _labelled(now.observer.retransmitted),
        "group",
    ),
    # packets
    _packets("packets_sent_total", "sent", "Packets that the network took."),
    _packets("packets_sent_bytes_total", "sent_bytes", "Their bytes."),
    _packets("packets_received_total", "received", "Packets that came, of whatever kind."),
    _packets("packets_received_bytes_total", "received_bytes", "Their bytes."),
    _figure(
        "packets_refused_total",
        "Packets that had to wait, were given up or not taken, by kind.",
        lambda now: _labelled(now.refused),
        "kind",
    ),
    _statistic("peers", "peers", "Other processes in the address book."),
    _statistic("sessions", "sessions", "Sessions of other processes that are remembered, where there is a key."),
    _figure("sealed_with", "How many of the others seal with a key: one that nobody uses can be dropped.", _sealed_with, "key"),
    # the process
    _figure(
        "event_loop_lag_seconds",
        "How late a timer of the event loop is, looked at four times a second.",
        lambda now: [((), now.observer.lag.copy())],
        kind=HISTOGRAM,
    ),
    _spool("spool_bytes_total", lambda spool: spool.bytes_written, "Bytes written to the spool."),
    _spool("spool_rows_total", lambda spool: spool.rows_written, "Rows written to the spool."),
    _spool("spool_waiting_rows", lambda spool: spool.rows_waiting, "Rows that are not written yet: how far the spool is behind."),
    _spool("spool_free_bytes", _free, "Room left where the spool is."),
)


class NodeCollector:
    """What ``prometheus_client`` asks for the figures of a node."""

    def __init__(self, node: Node, observer: Observer) -> None:
        self._node = node
        self._observer = observer
        self._core = need("prometheus_client.core", "metrics need", "observe")

    def describe(self) -> Iterator[Family]:
        """The families, empty: so a registry refuses what has the same names."""
        for metric in METRICS:
            yield self.family(metric, ())

    def collect(self) -> list[Family]:
        """All families at once, for a registry."""
        return [self.family(metric, samples) for metric, samples in self.read()]

    def read(self) -> list[tuple[Metric, list[Sample]]]:
        """All figures as they are now: numbers only, of which text is made later."""
        snapshot = Snapshot(self._node, self._observer)
        return [(metric, list(metric.read(snapshot))) for metric in METRICS]

    def family(self, metric: Metric, samples: Iterable[Sample]) -> Family:
        """A figure with samples of it, as ``prometheus_client`` has them."""
        make = getattr(self._core, f"{metric.kind.capitalize()}MetricFamily")
        family = make(metric.name, metric.about, labels=metric.labels)
        for labels, value in samples:
            if isinstance(value, Histogram):
                family.add_metric(labels, value.buckets(), value.sum)
            else:
                family.add_metric(labels, value)
        return family  # type: ignore[no-any-return]


def register(collector: NodeCollector, registry: CollectorRegistry) -> None:
    """Lets a registry have the figures of a node, of one node only: figures bear no name of the process."""
    try:
        registry.register(collector)
    except ValueError as error:
        raise UsageError(
            "this registry has the figures of a node already; give each node of a program a registry, or an address, of its own"
        ) from error
