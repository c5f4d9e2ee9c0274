"""The fault sweep of newtop in static groups: from a seed to a scenario of overlapping groups, and from a run to a verdict and
its situations. (Groups whose members fail, come and go: ``membership_sweep``.)

A seed decides how many processes and groups there are and in what shape the groups overlap, their orders, the parameters, the
network, the load and the faults. Seeds fall into families, so that every order and every kind of trouble has its share. In many
runs some groups are silent: what completes their blocks is null messages alone. In some families half of the runs have messages
of up to 20 packets, which flow control stops half way.

What a trace does not show is watched from inside the stack (:class:`Watch`), by bounds:

- *held*: flow control with N blocks lets a process hold at most N packets of each member in a group that are not stable, and at
  most N messages of each that are not delivered. What arrives while an application does not read is at most as much again. A
  sequencer holds besides at most N requests of each member.
- *nulls*: a null message is sent for a block that somebody's message created, in its own group or, by 4.4, in one that shares a
  member with it. So a group sees at most one null of each member for each message in these. Null messages that breed null
  messages reach groups further away. *Statuses* follow multicasts, or time passing: at most two of each member for each of the
  group's multicasts and near messages, and for every 20 ms.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from random import Random
from typing import Any

from plainchant.core.engine import Engine, Host, Layer
from plainchant.core.model import MS, SECOND, Batch, Duration, GroupId, Packet, Pressure, ProcessId, Timer
from plainchant.protocols.newtop import Process
from plainchant.protocols.newtop.packets import Data, Null, Status
from plainchant.scenario.model import Delay, LinkOverride, Network, RandomFaults, Scenario, Workload

from .. import sweeping
from ..sweeping import Make, ms

LEAST_EVENTS = 600
RECEPTIONS = 900
"""So many copies of messages arrive in a run, roughly; null messages and repairs come on top."""

FAMILIES = (
    "total",
    "slow",
    "keyed",
    "compact",
    "relative",
    "cbcast",
    "mixed",
    "asymmetric",
    "flow",
    "fifo",
    "silence",
    "distances",
    "faults",
    "unread",
)
LARGE = ("mixed", "asymmetric", "flow")
"""Families of which every second run has messages of many packets."""
MAX_PACKET = 200
"""Bytes of a packet in those runs."""
SHAPES = ("chain", "ring", "star", "clique", "random", "one")
ORDERS: Mapping[str, Mapping[str, str]] = {
    "total": {"order": "total"},
    "slow": {"order": "slow"},
    "keyed": {"order": "fast", "vectors": "keyed"},
    "compact": {"order": "fast", "vectors": "compact"},
    "relative": {"order": "relative"},
    "cbcast": {"order": "cbcast"},
}


# --- what is watched --------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Watched:
    """What the processes of one run were seen to do."""

    sent: Counter[tuple[GroupId, type[Packet]]] = dataclasses.field(default_factory=Counter)
    """Multicasts and statuses, by group."""
    fullest: float = 0.0
    """The largest share of the bound on held packets that any process reached in any group."""
    unread: float = 0.0
    """The same for what was delivered to an application that does not read."""


@dataclasses.dataclass(frozen=True)
class Unread:
    """An application does not read for a while."""

    process: ProcessId
    group: GroupId
    start: Duration
    stop: Duration


class Watch(Layer):
    """A layer around a process's engine that counts what it sends and measures what it holds, and plays a slow reader."""

    inner: Process

    def __init__(self, host: Host, inside: Callable[[Host], Engine], watched: Watched, unread: Sequence[Unread]) -> None:
        self.watched = watched
        self.plan = [one for one in unread if one.process == host.me]
        self.unread: dict[GroupId, int] = {}
        super().__init__(host, inside)

    def start(self) -> None:
        for number, one in enumerate(self.plan):
            self.host.set_timer(("unread", one.group, number, True), one.start)
            self.host.set_timer(("unread", one.group, number, False), one.stop)
        self.inner.start()

    def send(self, to: Sequence[ProcessId], packet: Packet) -> None:
        self.watched.sent[packet.group, type(packet)] += 1  # type: ignore[attr-defined]  # by the rule in Packet's docstring
        self.host.send(to, packet)

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        if group in self.unread:
            self.unread[group] += 1
            part = self.inner.parts[group]
            if part.flow.bound:
                share = self.unread[group] / (part.flow.bound * len(part.members))
                self.watched.unread = max(self.watched.unread, share)
        self.host.deliver(group, sender, batch, rank)

    def receive(self, source: ProcessId, packet: Packet) -> None:
        group = packet.group  # type: ignore[attr-defined]  # by the rule in Packet's docstring
        self._measure(group)
        self.inner.receive(source, packet)
        self._measure(group)

    def expire(self, timer: Timer) -> None:
        assert isinstance(timer, tuple), timer
        name, group, *rest = timer
        if name != "unread":
            self.inner.expire(timer)
            return
        full = bool(rest[-1])
        if full:
            self.unread.setdefault(group, 0)
        else:
            self.unread.pop(group, None)
        self.inner.notice(Pressure(group, full))

    def _measure(self, group: GroupId) -> None:
        part = self.inner.parts.get(group)
        if part is not None and part.flow.bound:
            for column in part.matrix.members:
                most = max(len(column.kept) + len(column.early), len(column.queue)) / part.flow.bound
                if most > self.watched.fullest:
                    self.watched.fullest = most
            if part.office is not None:
                asked = Counter([source for source, _ in (*part.office.queue, *part.office._early)])
                self.watched.fullest = max(self.watched.fullest, max(asked.values(), default=0) / part.flow.bound)


@dataclasses.dataclass(frozen=True)
class Outcome(sweeping.Outcome):
    """What a run of the sweep came to."""

    watched: Watched

    @property
    def violated(self) -> list[str]:
        """The properties and bounds that do not hold, and ``quiet`` if the run did not come to rest."""
        names = super().violated
        if self.watched.fullest > 1:
            names.append("held")
        if self.watched.unread > 1:
            names.append("unread")
        return names + self._too_many()

    def _too_many(self) -> list[str]:
        """``nulls`` or ``statuses``, if a group has more of them than there can be a reason for."""
        groups, sent = self.scenario.groups, self.watched.sent
        names: dict[str, None] = {}
        for group, members in groups.items():
            near = [other for other in groups if set(groups[other]) & set(members)]
            messages = sum(sent[other, Data] for other in near)
            if sent[group, Null] > len(members) * messages:
                names["nulls"] = None
            moments = self.summary.virtual_time // (20 * MS)
            if sent[group, Status] > 2 * len(members) * (messages + sent[group, Null] + moments):
                names["statuses"] = None
        return list(names)


def run(seed: int, variant: Make | None = None, scenario: Scenario | None = None, least_events: int = LEAST_EVENTS) -> Outcome:
    """Runs and verifies one seed, with the protocol or a variant of it."""
    scenario = scenario or scenario_of(seed)
    unread = unread_of(scenario)
    engine = variant or Process
    watches: list[Watched] = []

    def watching(host: Host, parameters: Any) -> Engine:
        if not watches or host.me == scenario.members[0]:  # a run that was too short is run again
            watches.append(Watched())
        return Watch(host, lambda inner: engine(inner, parameters), watches[-1], unread)

    found = sweeping.run_and_verify(seed, scenario, watching, least_events)
    fields = {field.name: getattr(found, field.name) for field in dataclasses.fields(sweeping.Outcome)}
    return Outcome(**fields, watched=watches[-1])


# --- from a seed to a scenario ----------------------------------------------------------------------------------------


def family_of(seed: int) -> str:
    return FAMILIES[seed % len(FAMILIES)]


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed."""
    random = Random(f"newtop sweep {seed}")
    family = family_of(seed)
    groups = groups_of(random, random.choice(SHAPES))
    members = tuple(sorted({name for names in groups.values() for name in names}, key=lambda name: int(name[1:])))
    parameters = _parameters(random, family, groups)
    duration = ms(400, 900, random) if family != "distances" else ms(900, 1400, random)
    scenario = Scenario(
        protocol="newtop",
        name=f"sweep-{seed}",
        about=family,
        seed=seed,
        duration=duration,
        drain=Duration(30 * SECOND),
        members=members,
        groups=groups,
        parameters=parameters,
        network=_network(random, family, members),
        workload=_workload(random, family, groups, duration),
        random=_faults(random, family),
    )
    return _with_large_messages(scenario) if has_large_messages(seed) else scenario


def has_large_messages(seed: int) -> bool:
    return family_of(seed) in LARGE and seed // len(FAMILIES) % 2 == 1


def groups_of(random: Random, shape: str) -> dict[GroupId, tuple[ProcessId, ...]]:
    """Groups that overlap in this shape."""
    if shape == "one":
        return {"g1": _names(random.choice((2, 3, 4, 5, 7, 10)))}
    if shape == "clique":  # every two groups share a process of their own
        count = random.choice((3, 3, 4, 5))
        pairs = list(combinations(range(count), 2))
        sets = [[index for index, pair in enumerate(pairs) if group in pair] for group in range(count)]
        for number in range(random.randrange(count + 1)):
            sets[number].append(len(pairs) + number)
    elif shape == "star":  # one process is in all
        count = random.randint(2, 8)
        sets = [[0] for _ in range(count)]
        for process in range(1, random.randint(count + 1, min(20, 3 * count + 1))):
            sets[(process - 1) % count].append(process)
    elif shape == "random":
        count, processes = random.randint(2, 8), random.randint(2, 12)
        sets = [sorted(random.sample(range(processes), random.randint(2, max(2, processes // 2)))) for _ in range(count)]
    else:  # each group shares its last process with the next one's first
        count, step = random.randint(3, 8), random.choice((1, 1, 2))
        sets = [list(range(group * step, (group + 1) * step + 1)) for group in range(count)]
        if shape == "ring":
            sets[-1][-1] = 0
        elif random.random() < 0.4:  # or its last two
            sets = [[*names, names[-1] + 1] for names in sets]
    used = sorted({process for names in sets for process in names})
    names = dict(zip(used, _names(len(used)), strict=True))
    return {f"g{number + 1}": tuple(names[process] for process in one) for number, one in enumerate(sets)}


def _names(count: int) -> tuple[ProcessId, ...]:
    return tuple(f"p{number + 1}" for number in range(count))


def _parameters(random: Random, family: str, groups: Mapping[GroupId, tuple[ProcessId, ...]]) -> dict[str, Any]:
    parameters: dict[str, Any] = {"suspect_after": Duration(0)}
    if family in ORDERS:
        parameters |= ORDERS[family]
    elif family == "mixed":
        parameters["orders"] = {group: random.choice(("total", "slow", "fast", "relative", "cbcast")) for group in groups}
        parameters["vectors"] = random.choice(("keyed", "compact"))
    elif family != "asymmetric" and random.random() < 0.5:
        parameters |= ORDERS[random.choice(tuple(ORDERS))]
    total = [group for group in groups if parameters.get("orders", {}).get(group, parameters.get("order", "total")) == "total"]
    if total and (family == "asymmetric" or random.random() < (0.5 if family == "mixed" else 0.15)):
        chosen = random.sample(total, random.randint(1, len(total)))
        parameters["sequencers"] = {group: random.choice(groups[group]) for group in chosen}
    parameters |= _silence(random)
    parameters["announce_after"] = Duration(random.choice((0, 20, 100)) * MS)
    if family in ("flow", "unread"):
        parameters |= {"blocks": random.choice((3, 4, 5, 8)), "pack": False}
    else:
        parameters |= {"blocks": random.choice((0, 5, 16, 64, 256)), "pack": random.random() < 0.5}
    if family == "fifo":
        parameters |= {"transport": "fifo", "blocks": random.choice((0, 3, 4, 5, 64))}
    elif random.random() < 0.25:
        parameters["gap_patience"] = Duration(random.choice((2, 8)) * MS)
    return parameters


def _silence(random: Random) -> dict[str, Any]:
    by = random.choice(("adaptive", "adaptive", "timeout", "ticks"))
    if by != "ticks":
        return {"silence_by": by, "silence": Duration(random.choice((2, 10, 20, 40)) * MS)}
    tick = random.choice((2, 5, 10)) * MS
    return {"silence_by": by, "tick": Duration(tick), "silence": Duration(tick * random.choice((1, 2, 4)))}


def _network(random: Random, family: str, members: Sequence[ProcessId]) -> Network:
    wire = random.random() < 0.12
    if family == "fifo":  # what is sent first arrives first, on every link
        return Network(delay=Delay("constant", Duration(1 * MS)), wire=wire, link=_links(random, members, 0.1, 20, 0.6))
    delay = random.choice(
        (
            Delay("constant", Duration(1 * MS)),
            Delay("uniform", Duration(200_000), Duration(3 * MS)),
            Delay("exponential", Duration(500_000), Duration(2 * MS)),
        )
    )
    link: tuple[LinkOverride, ...] = ()
    loss = random.choice((0.0, 0.02, 0.08, 0.2))
    if family == "distances":
        link = _links(random, members, 0.1, 80, 0.5, loss)
    elif random.random() < 0.5:
        link = _links(random, members, 0.1, 30, 0.3, loss)
    return Network(
        delay=delay,
        loss=loss,
        duplicate=random.choice((0.0, 0.05, 0.1)),
        reorder=random.choice((0.0, 0.1, 0.3)),
        corrupt=random.choice((0.0, 0.0, 0.02)),
        wire=wire,
        link=link,
        receive_cost=Duration(random.choice((0, 0, 300_000) if family == "flow" else (0,))),
    )


def _links(
    random: Random, members: Sequence[ProcessId], low: float, high: float, share: float, loss: float = 0.0
) -> tuple[LinkOverride, ...]:
    """Some links that are much shorter or longer than the others."""
    found = []
    for source in members:
        for target in members:
            if source != target and random.random() < share:
                delay = low * (high / low) ** random.random()
                found.append(
                    LinkOverride(source=source, target=target, delay=Delay("constant", Duration(round(delay * MS))), loss=loss)
                )
    return tuple(found)


def _faults(random: Random, family: str) -> RandomFaults:
    if family == "fifo":
        return RandomFaults(pause=random.choice((0.0, 3.0)), pause_length=ms(10, 80, random))
    if family == "faults":
        pause, network = ms(30, 200, random), ms(30, 200, random)
        return RandomFaults(pause=2.0, partition=2.0, cut=2.0, clog=2.0, step=0.5, pause_length=pause, network_length=network)
    if family == "flow":
        return RandomFaults(pause=4.0, pause_length=ms(20, 150, random))
    if random.random() < 0.3:
        return RandomFaults(pause=2.0, cut=2.0, clog=2.0, pause_length=ms(20, 100, random), network_length=ms(20, 100, random))
    return RandomFaults()


def _workload(
    random: Random, family: str, groups: Mapping[GroupId, tuple[ProcessId, ...]], duration: Duration
) -> tuple[Workload, ...]:
    """Who sends in which group: all, some, one, or nobody."""
    silent = random.choice((0.0, 0.2, 0.5))
    active = [group for group in groups if random.random() >= silent] or [random.choice(tuple(groups))]
    loads = []
    for group in active:
        members = groups[group]
        size = len(members)
        senders = tuple(random.sample(members, random.choice((1, 1, size, size, random.randint(1, size)))))
        messages = max(4, RECEPTIONS // (len(active) * size))
        loads.append(_load(random, family, group, senders, max(2, messages // len(senders)), duration))
    if all(load.closed for load in loads):  # a longer run shall have more messages
        loads[0] = dataclasses.replace(loads[0], closed=0, count=0, rate=loads[0].count * SECOND / duration, arrivals="poisson")
    return tuple(loads)


def _load(random: Random, family: str, group: GroupId, senders: tuple[ProcessId, ...], each: int, duration: Duration) -> Workload:
    rate = each * SECOND / duration
    if family in ("flow", "unread"):
        kind = random.choice(("greedy", "burst", "regular"))
    elif family == "silence":
        kind = random.choice(("burst", "sparse", "late"))
    else:
        kind = random.choice(("regular", "poisson", "poisson", "burst", "closed", "late"))
    size = random.choice((8, 40, 40, 300))
    if kind == "greedy":
        return Workload(group=group, senders=senders, count=each, size=size)
    if kind == "burst":
        burst = min(each, random.choice((4, 12)))
        return Workload(group=group, senders=senders, rate=rate, burst=burst, size=size)
    if kind == "sparse":
        return Workload(group=group, senders=senders, rate=rate / 4, arrivals="poisson", size=size)
    if kind == "late":
        return Workload(group=group, senders=senders, rate=2 * rate, arrivals="poisson", start=Duration(duration // 2), size=size)
    if kind == "closed":
        return Workload(group=group, senders=senders, closed=random.choice((1, 3)), count=each, size=size)
    return Workload(group=group, senders=senders, rate=rate, arrivals="poisson" if kind == "poisson" else "regular", size=size)


def _with_large_messages(scenario: Scenario) -> Scenario:
    """The same with small packets, where some load is in messages of many packets, and of fewer messages for that."""
    random = Random(f"newtop large {scenario.name}")
    sizes = [random.choice((20, 600, 1500, 3000)) for _ in scenario.workload]
    sizes[random.randrange(len(sizes))] = 3000
    loads = []
    for load, size in zip(scenario.workload, sizes, strict=True):
        packets = -(-size // MAX_PACKET)
        count = max(1, load.count // packets) if load.count else 0
        loads.append(dataclasses.replace(load, size=size, count=count, rate=load.rate / packets, burst=min(load.burst, 4)))
    return dataclasses.replace(
        scenario, workload=tuple(loads), network=dataclasses.replace(scenario.network, max_packet=MAX_PACKET)
    )


def unread_of(scenario: Scenario) -> tuple[Unread, ...]:
    """Whose application does not read when: nobody's, but for one family."""
    if scenario.about != "unread":
        return ()
    random = Random(f"newtop unread {scenario.name}")
    found = []
    for group, members in scenario.groups.items():
        if random.random() < 0.7:
            start = Duration(round(scenario.duration * random.uniform(0.05, 0.6)))
            stop = Duration(start + round(scenario.duration * random.uniform(0.1, 0.6)))
            found.append(Unread(random.choice(members), group, start, stop))
    return tuple(found)
