"""A larger installation: a model of packets, latency and load of a group, and simulations of up to 1,000 nodes that check it.

Theory of operation
-------------------
One group has M members on each of N nodes, which send R messages a second in all. Each number has its assumption:

- **Requests**, R (N - 1) / N a second: every message is a packet of its own, because messages are rarer than a relay looks (R / N
  is small against 1 / ``acknowledge``), and the distributor's own node needs none.
- **Multicasts**, R: one broadcast each, whatever N is.
- **Acknowledgements**, (N - 1) / (A + (e + (1 - e)^2) / R), e = exp(-R A): a relay acknowledges at once if it has not for A =
  ``acknowledge``; otherwise when it looks next after that, which is with the next message or A after it has looked last.
- **Reminders**, (1 - exp(-R T)) / (R T) for each of these intervals, T = ``retry``: what all have read is told with the next
  message, or by the distributor's next tick if no message comes before.
- **Presents**, N / pi: one broadcast of each relay every pi = ``present_every``, for all groups together.
- **Loss** p: each of N - 1 relays misses a multicast with probability p and asks for it, and a request or an answer is lost as
  well, so that 2 p (N - 1) R / (1 - p) packets come on top. (Requests that are lost are p R more.)
- **Latency**: B + 3 operations of mean length o (a sender stores in B boxes, a relay looks, the other relay stores, a receiver
  reads), and twice the LAN's delay d, except on the distributor's own node. Of packets that are lost, a request is repeated after
  T, and a multicast is missed when the next one comes or the second tick, after (1 - exp(-1.5 R T)) / R on average.
- **Load**: a relay handles multicasts, reminders and presents, and sends its share of requests, its acknowledgements and its
  presents. The distributor handles requests and acknowledgements of all. Time on the LAN is the sum of all packets' frames.
- **G groups** on the same nodes, with R messages a second each: G times all but the presents. Distributors are spread, so that
  no relay has more than one if G is not above N; it relays for the other groups as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from math import exp
from statistics import mean
from typing import Any, Final

from plainchant.core.model import MS, US, Duration
from plainchant.scenario.model import Delay, Network

from ..claims import Context, Figure, Table, curves
from ..runs import rows_of
from .metered import Run
from .towns import FORMED, LOADED, Plan, frame_time, load, plan, town

DELAY: Final = 100.0  # One way, µs: d. Frames take no time here, so that simulations of 1,000 nodes take minutes.
OPERATION: Final = 50.0  # The longest operation on shared memory, µs; they take half of it on average: o = 25.
BOXES: Final = 2
ACKNOWLEDGE: Final = 20.0
RETRY: Final = 30.0
SIZE: Final = 64
_SENDERS: Final = 30
BYTES: Final[Mapping[str, int]] = {"McRequest": 127, "Multicast": 113, "AcksOnly": 42, "Present": 52}
"""Of packets with one message of that size each, with names as in these runs; of a present, without the names of members."""
_NAME: Final = 10  # Bytes of a name in a present, which has those of all networked processes of its node.


@dataclasses.dataclass(frozen=True, slots=True)
class Installation:
    """N nodes with M members each; R messages a second; times in ms."""

    nodes: int
    members: int
    rate: float
    present_every: float = 1000.0
    loss: float = 0.0
    groups: int = 1
    seconds: float = 1.0
    seed: int = 0

    @property
    def looked_at(self) -> tuple[str, str]:
        """Relays whose load is counted: one that distributes, and one that does not (the first nodes do)."""
        names = town(self.nodes, self.members)
        return names[0], names[self.members if self.groups == 1 else -self.members]

    def plan(self) -> Plan:
        """A simulation of it, over whole rounds of presents."""
        names = town(self.nodes, self.members)
        # With many nodes not all of them send: all senders send their first message at once.
        senders = names[:: self.members] if self.nodes <= _SENDERS else names[self.members :: len(names) // _SENDERS]
        end = FORMED + 1000 * self.seconds
        delay = Delay("constant", Duration(round(DELAY * US)))
        groups = {"g": names} if self.groups == 1 else {f"g{number:02d}": names for number in range(1, self.groups + 1)}
        loads = [load(senders, self.rate, LOADED, end, size=SIZE, group=group) for group in groups]
        return plan(
            names, *loads, length=end, drain=0, counted=(FORMED, end), groups=groups,
            network=Network(delay=delay, loss=self.loss), seed=self.seed, handled=self.looked_at,
            places=max(4, self.members + 1), room=65536, boxes=BOXES, operation=Duration(round(OPERATION * US)),
            acknowledge=Duration(round(ACKNOWLEDGE * MS)), retry=Duration(round(RETRY * MS)), poll=Duration(20 * MS),
            present_every=Duration(round(self.present_every * MS)),
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """What the model says, or a simulation; a second."""

    requests: float
    multicasts: float  # Reminders included.
    acknowledgements: float
    presents: float
    repeats: float  # Requests for retransmissions, and retransmissions.
    latency: float  # Mean, µs.
    relay: float  # Packets that a relay sends and handles.
    distributor: float  # Packets that the relay with the distributor sends and handles.
    lan: float  # Share of the time for which an Ethernet of 100 Mbit/s is occupied.

    @property
    def packets(self) -> float:
        """On the LAN."""
        return self.requests + self.multicasts + self.acknowledgements + self.presents + self.repeats


def model(one: Installation) -> Estimate:
    """The formulas above."""
    nodes, rate, loss = one.nodes, one.rate, one.loss
    others = nodes - 1
    requests = rate * others / nodes / (1 - loss)
    alone = exp(-rate * ACKNOWLEDGE / 1000)
    intervals = 1 / (ACKNOWLEDGE / 1000 + (alone + (1 - alone) ** 2) / rate)
    waits = rate * RETRY / 1000
    reminders = intervals * (1 - exp(-waits)) / waits
    acknowledgements = others * intervals
    presents = nodes * 1000 / one.present_every
    repeats = 2 * loss * others * rate / (1 - loss)
    missed = (1 - exp(-1.5 * waits)) / rate
    waiting = loss / (1 - loss) * (RETRY * 1000 + missed * 1e6)
    latency = (BOXES + 3) * OPERATION / 2 + 2 * DELAY * others / nodes + waiting
    multicasts = rate + reminders
    relay = multicasts + presents + requests / others + intervals + repeats / others
    distributor = requests + acknowledgements + multicasts + presents + repeats
    frames = {kind: frame_time(size) for kind, size in BYTES.items()}
    of_presents = presents * frame_time(BYTES["Present"] + _NAME * one.members)
    lan = (
        requests * frames["McRequest"] + rate * frames["Multicast"] + (reminders + acknowledgements) * frames["AcksOnly"]
        + of_presents + repeats / 2 * (frames["AcksOnly"] + frames["Multicast"])
    )  # fmt: skip
    groups, relays = one.groups, relay - presents
    return Estimate(
        groups * requests, groups * multicasts, groups * acknowledgements, presents, groups * repeats, latency,
        groups * relays + presents, distributor + (groups - 1) * relays, (groups * (lan - of_presents) + of_presents) / 1e6,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """An installation, what was simulated, and what it took."""

    installation: Installation
    simulated: Estimate
    sent: int
    delivered: int
    events: int

    @property
    def rate(self) -> float:
        """Messages a second of a group, as they were drawn."""
        return self.sent / self.installation.seconds / self.installation.groups


def simulate(one: Installation) -> Checked:
    run = Run(one.plan())
    meter, seconds = run.meter, one.seconds
    begin, end = FORMED, FORMED + 1000 * seconds
    packets = {kind: count / seconds for kind, count in meter.packets.items()}
    known = ("McRequest", "Multicast", "AcksOnly", "Present")
    busy = {name: (meter.interrupts[name] + meter.sent[name]) / seconds for name in one.looked_at}
    chosen = {run.distributor(group) for group in run.one.scenario.groups}
    relays = [value for name, value in busy.items() if name not in chosen]
    distributors = [value for name, value in busy.items() if name in chosen]
    sends = sum(1 for row in rows_of(run.table, "send") if begin * MS <= row["true_time"] < end * MS)
    latencies = run.latencies(begin, end - 50) or [0.0]
    requests, multicasts, acknowledgements, presents = (packets.get(kind, 0.0) for kind in known)
    simulated = Estimate(
        requests, multicasts, acknowledgements, presents,
        sum(value for kind, value in packets.items() if kind not in known), mean(latencies), mean(relays),
        mean(distributors or [0.0]), meter.lan_time / seconds / 1e6,
    )  # fmt: skip
    return Checked(one, simulated, sends, len(latencies), run.summary.events)


FIELDS: Final = ("requests", "multicasts", "acknowledgements", "presents", "repeats", "latency", "relay", "distributor", "lan")


def installations(context: Context) -> list[Installation]:
    if context.quick:
        return [Installation(8, 2, 20)]
    grid = [Installation(nodes, 1, 10, seconds=4.0) for nodes in (10, 30, 100)]
    grid += [Installation(300, 1, 10, seconds=2.0), Installation(1000, 1, 10)]
    grid += [Installation(nodes, 2, 10, seconds=4.0) for nodes in (10, 100)]
    rates = [Installation(30, 2, rate, seconds=4.0) for rate in (2, 5, 20, 50, 100)]
    lossy = [Installation(30, 1, 20, loss=loss, seconds=8.0) for loss in (0.01, 0.05)]
    often = [Installation(30, 1, 20, present_every=every, seconds=2.0) for every in (100.0, 500.0)]
    several = [Installation(nodes, 1, 10, groups=4, seconds=4.0) for nodes in (10, 30)]
    return sorted([*grid, *rates, *lossy, *often, *several], key=lambda one: -one.nodes)


def checked(context: Context) -> tuple[str, list[dict[str, Any]], tuple[Table, ...], tuple[Figure, ...]]:
    """A sentence, the rows behind it, tables and a figure."""
    found = sorted(
        context.sweep(simulate, installations(context)),
        key=lambda one: (one.installation.loss, one.installation.present_every, one.installation.nodes, one.installation.rate),
    )
    # The messages that were drawn are not exactly as many as asked for: the model is told how many there were.
    models = [model(dataclasses.replace(one.installation, rate=one.rate)) for one in found]
    trios = [(one.installation, est, one.simulated) for one, est in zip(found, models, strict=True)]
    packets = max(abs(est.packets / real.packets - 1) for _, est, real in trios)
    latency = max(abs(est.latency / real.latency - 1) for size, est, real in trios if not size.loss)
    text = (
        f"The model of a larger installation is within {packets:.0%} of the packets of {len(found)} simulations, with up to "
        f"{max(size.nodes for size, _, _ in trios):,} nodes, and where nothing is lost within {latency:.0%} of the mean latency"
    )
    cells, data = [], []
    for one, (size, est, real) in zip(found, trios, strict=True):
        both = [f"{_shown(getattr(est, name), name)} / {_shown(getattr(real, name), name)}" for name in FIELDS]
        kind = (size.nodes, size.members, size.groups, one.sent, f"{size.loss:.0%}", f"{size.present_every:g}")
        cells.append((*kind, *both, f"{est.packets / real.packets - 1:+.0%}"))
        values = {f"{who}_{name}": getattr(what, name) for who, what in (("simulated", real), ("model", est)) for name in FIELDS}
        data.append({**dataclasses.asdict(size), **values})
    columns = ("nodes", "members a node", "groups", "messages", "loss", "present every (ms)", *FIELDS, "error of all packets")
    table = Table("model / simulation, a second (latency in µs; LAN: share of 100 Mbit/s)", columns, cells)
    plain = [each for each in trios if (each[0].rate, each[0].members, each[0].groups) == (10, 1, 1) or context.quick]
    lines = ({"simulated": [real.packets for _, _, real in plain]}, {"model": [est.packets for _, est, _ in plain]})
    series = curves([size.nodes for size, _, _ in plain], *lines)
    title = "packets a second on the LAN, 10 messages/s"
    figure = Figure("installation", title, "nodes", "packets/s", series, log_x=True, log_y=True)
    return text, data, (table, outlook()), (figure,)


def outlook() -> Table:
    """What the model says of installations that were not simulated."""
    sizes_ = [
        Installation(100, 16, 1000, 1000.0), Installation(1000, 16, 1000, 1000.0), Installation(1000, 16, 1000, 10_000.0),
        Installation(1000, 16, 100, 10_000.0), Installation(100, 16, 100, 1000.0, groups=10),
    ]  # fmt: skip
    return Table(
        "what the model says of larger ones (a second)",
        ("nodes", "members a node", "messages", "groups", "present every (ms)", "LAN packets", "share of the LAN",
         "packets of a relay", "packets of a distributor", "latency (µs)"),
        [
            (one.nodes, one.members, f"{one.rate:g}", one.groups, f"{one.present_every:g}", f"{est.packets:,.0f}",
             f"{est.lan:.1%}", f"{est.relay:,.0f}", f"{est.distributor:,.0f}", f"{est.latency:.0f}")
            for one in sizes_
            for est in (model(one),)
        ],
    )  # fmt: skip


def _shown(value: float, name: str) -> str:
    return f"{value:.2%}" if name == "lan" else f"{value:.1f}" if value < 100 else f"{value:,.0f}"
