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

    from ...group import Membership
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


class Snapshot:
    """What a node has counted, read at one instant."""

    def __init__(self, node: Node, observer: Observer) -> None:
        host = node.host
        self.node = node
        self.host = host
        self.observer = observer
        self.transport: dict[str, int] = _integers(host.transport.counters)
        self.is_here = threading.get_ident() == observer.thread  # whether this is the node's thread: the protocol may be asked
        self.statistics = node.statistics()
        self.refused: dict[str, int] = refused_packets(host, self.transport, self.statistics)
        self.groups: list[tuple[str, Membership, Mapping[str, int]]] = [
            (name, group, group.figures()) for name, group in list(host.groups.items())
        ]
        self.recorded: list[tuple[str, str, int]] = [
            (group, kind, number)
            for group, counts in list(observer.recorded_by_kind.items())
            for kind, number in list(counts.items())
        ]


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


# --- reading --------------------------------------------------------------------------------------------------------


def _of_group(key: str, scale: float = 1) -> Read:
    return lambda snapshot: [((name,), figures[key] * scale) for name, _, figures in snapshot.groups]


def _of_transport(key: str) -> Read:
    return lambda snapshot: [((), snapshot.transport[key])] if key in snapshot.transport else []


def _info(snapshot: Snapshot) -> list[Sample]:
    node = snapshot.node
    return [((node.name, node.place, node.description.name, __version__), 1)]


def _view_number(snapshot: Snapshot) -> list[Sample]:
    return [((name,), group.view.number) for name, group, _ in snapshot.groups if group.view is not None]


def _departures(snapshot: Snapshot) -> list[Sample]:
    return [
        ((name, reason), number)
        for name, figures in list(snapshot.observer.figures.items())
        for reason, number in list(figures.departures.items())
    ]


def _waiting(snapshot: Snapshot) -> list[Sample]:
    if not snapshot.is_here or not snapshot.host.alive or not snapshot.host.me:
        return []
    reason = snapshot.host.waiting("")
    return [((reason.code,), 1)] if reason is not None else []


def _statistic(key: str) -> Read:
    return lambda snapshot: [((), snapshot.statistics[key])] if key in snapshot.statistics else []


def _sealed_with(snapshot: Snapshot) -> list[Sample]:
    found = snapshot.statistics.items()
    return [((key.removeprefix(_SEALED),), number) for key, number in found if key.startswith(_SEALED)]


def _spool(read: Callable[[Any], float]) -> Read:
    def samples(snapshot: Snapshot) -> list[Sample]:
        spool = snapshot.host.spool
        return [((), read(spool))] if spool is not None else []

    return samples


def _free(spool: Any) -> float:
    try:
        disk = os.statvfs(spool.directory)
    except OSError:
        return 0.0
    return float(disk.f_bavail * disk.f_frsize)


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """One figure. The name of a counter ends in ``_total``."""

    name: str
    kind: str
    labels: tuple[str, ...]
    about: str
    read: Read


_G: Final = ("group",)

METRICS: Final = (
    Metric("plainchant_node_info", GAUGE, ("process", "place", "protocol", "version"), "Who this is; always 1.", _info),
    Metric(
        "plainchant_node_alive",
        GAUGE,
        (),
        "1 while the process takes part; 0 when it was halted.",
        lambda snapshot: [((), int(snapshot.host.alive))],
    ),
    Metric(
        "plainchant_halts_total",
        COUNTER,
        ("reason",),
        "Times that this node was halted, by reason: 0 or 1.",
        lambda snapshot: [((reason,), number) for reason, number in list(snapshot.observer.halts.items())],
    ),
    Metric(
        "plainchant_waiting", GAUGE, ("reason",), "1 while the protocol has something to wait for, with what that is.", _waiting
    ),
    # messages
    Metric(
        "plainchant_messages_accepted_total", COUNTER, _G, "Messages that `send` has accepted for good.", _of_group("accepted")
    ),
    Metric("plainchant_messages_sent_total", COUNTER, _G, "Messages that the protocol has taken to send.", _of_group("sent")),
    Metric(
        "plainchant_messages_delivered_total",
        COUNTER,
        _G,
        "Messages of all members that were delivered here.",
        _of_group("delivered"),
    ),
    Metric(
        "plainchant_own_messages_delivered_total",
        COUNTER,
        _G,
        "The number of the last own message that was delivered here.",
        _of_group("own_delivered"),
    ),
    Metric(
        "plainchant_own_messages_stable_total",
        COUNTER,
        _G,
        "The number of the last own message that all members hold.",
        _of_group("own_stable"),
    ),
    Metric("plainchant_message_sent_bytes_total", COUNTER, _G, "Bytes of the messages taken to send.", _of_group("sent_bytes")),
    Metric(
        "plainchant_message_delivered_bytes_total",
        COUNTER,
        _G,
        "Bytes of the messages delivered, in batches: up to 5 more a message.",
        _of_group("delivered_bytes"),
    ),
    Metric(
        "plainchant_message_latency_seconds",
        HISTOGRAM,
        _G,
        "From `send` to the own delivery, of sampled messages without deadlines.",
        lambda snapshot: [((name,), figures.latency.copy()) for name, figures in list(snapshot.observer.figures.items())],
    ),
    # queues
    Metric("plainchant_queue_messages", GAUGE, _G, "Accepted messages that the protocol has not taken.", _of_group("queued")),
    Metric("plainchant_queue_bytes", GAUGE, _G, "Their bytes.", _of_group("queued_bytes")),
    Metric("plainchant_queue_limit_bytes", GAUGE, _G, "Where `send` begins to wait.", _of_group("outgoing_limit")),
    Metric(
        "plainchant_unread_bytes", GAUGE, _G, "What was delivered and not read, with 64 a message.", _of_group("unread_bytes")
    ),
    Metric("plainchant_unread_limit_bytes", GAUGE, _G, "Where the group's senders are slowed down.", _of_group("unread_limit")),
    Metric(
        "plainchant_blocked_seconds_total",
        COUNTER,
        _G,
        "Time during which a `send` waited for room.",
        _of_group("blocked_ns", 1 / SECOND),
    ),
    Metric("plainchant_blocked_senders", GAUGE, _G, "Calls of `send` that wait for room now.", _of_group("blocked_senders")),
    Metric(
        "plainchant_overfull_seconds_total",
        COUNTER,
        _G,
        "Time during which too much was unread, so that others were slowed down.",
        _of_group("overfull_ns", 1 / SECOND),
    ),
    # membership
    Metric("plainchant_members", GAUGE, _G, "Members of the view in force; 0 after this one is out.", _of_group("members")),
    Metric("plainchant_view_number", GAUGE, _G, "The number of the view in force.", _view_number),
    Metric("plainchant_views_total", COUNTER, _G, "Views that this process has seen.", _of_group("views")),
    Metric(
        "plainchant_arrivals_total",
        COUNTER,
        _G,
        "Members that came, as views said.",
        lambda snapshot: [((name,), figures.arrivals) for name, figures in list(snapshot.observer.figures.items())],
    ),
    Metric(
        "plainchant_departures_total",
        COUNTER,
        ("group", "reason"),
        "Members that are gone, as views said: who left, and who was excluded and why.",
        _departures,
    ),
    # what protocols do
    Metric(
        "plainchant_protocol_events_total",
        COUNTER,
        ("group", "kind"),
        "What the protocol recorded: suspicions, elections, blocked senders, ... (the kinds of a trace's rows).",
        lambda snapshot: [((group, kind), number) for group, kind, number in snapshot.recorded],
    ),
    Metric(
        "plainchant_retransmitted_packets_total",
        COUNTER,
        _G,
        "Packets that the protocol sent again.",
        lambda snapshot: [((group,), number) for group, number in list(snapshot.observer.retransmitted.items())],
    ),
    # packets
    Metric("plainchant_packets_sent_total", COUNTER, (), "Packets that the network took.", _of_transport("sent")),
    Metric("plainchant_packets_sent_bytes_total", COUNTER, (), "Their bytes.", _of_transport("sent_bytes")),
    Metric("plainchant_packets_received_total", COUNTER, (), "Packets that came, of whatever kind.", _of_transport("received")),
    Metric("plainchant_packets_received_bytes_total", COUNTER, (), "Their bytes.", _of_transport("received_bytes")),
    Metric(
        "plainchant_packets_refused_total",
        COUNTER,
        ("kind",),
        "Packets that had to wait, were given up or not taken, by kind.",
        lambda snapshot: [((kind,), number) for kind, number in snapshot.refused.items()],
    ),
    Metric("plainchant_peers", GAUGE, (), "Other processes in the address book.", _statistic("peers")),
    Metric(
        "plainchant_sessions",
        GAUGE,
        (),
        "Sessions of other processes that are remembered, where there is a key.",
        _statistic("sessions"),
    ),
    Metric(
        "plainchant_sealed_with",
        GAUGE,
        ("key",),
        "How many of the others seal with a key: one that nobody uses can be dropped.",
        _sealed_with,
    ),
    # the process
    Metric(
        "plainchant_event_loop_lag_seconds",
        HISTOGRAM,
        (),
        "How late a timer of the event loop is, looked at four times a second.",
        lambda snapshot: [((), snapshot.observer.lag.copy())],
    ),
    Metric("plainchant_spool_bytes_total", COUNTER, (), "Bytes written to the spool.", _spool(lambda spool: spool.bytes_written)),
    Metric("plainchant_spool_rows_total", COUNTER, (), "Rows written to the spool.", _spool(lambda spool: spool.rows_written)),
    Metric(
        "plainchant_spool_waiting_rows",
        GAUGE,
        (),
        "Rows that are not written yet: how far the spool is behind.",
        _spool(lambda spool: spool.rows_waiting),
    ),
    Metric("plainchant_spool_free_bytes", GAUGE, (), "Room left where the spool is.", _spool(_free)),
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
        make = {
            COUNTER: self._core.CounterMetricFamily,
            GAUGE: self._core.GaugeMetricFamily,
            HISTOGRAM: self._core.HistogramMetricFamily,
        }[metric.kind]
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
