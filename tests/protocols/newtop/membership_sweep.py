"""The fault sweep of newtop's membership: from a seed to a scenario in which members fail, come, go, and are cut off.

A seed decides how many processes and groups there are, their orders and options, the network, the load and a schedule of faults.
The seven kinds of order take turns, and so do the kinds of trouble, so that each meets each. Faults come in clusters: several
within the time that an agreement about one of them takes. All times of the protocol are a tenth of their defaults, and the
network is as much quicker, so that a run has little to simulate and much to go wrong.

Beside what the protocol promises, a run is judged by these:

- *quiet*: it comes to rest.
- *halted*: nobody stops but for being in a minority, where only the majority goes on, or for finding no group to enter.
- *primary*: where only a majority goes on, a group has one view at a time: no two views of it have the same number, and no two
  processes go on that have excluded each other.
- *mutual*: who has everything that another sent, up to its word that this one has failed, does not wait for it to be silent.
- *shut out*: who asked to be let in was let in, unless nobody who was in the group when it asked is in it to the end.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plainchant.core.model import MS, SECOND, Duration, GroupId, ProcessId
from plainchant.protocols.newtop.formation import ENTRY_PATIENCE
from plainchant.scenario.model import Clock, Delay, Fault, LinkOverride, Network, Scenario, Workload

from .. import sweeping
from ..sweeping import Make, ms
from .sweep import ORDERS

KINDS = (*ORDERS, "mixed")
"""Of order."""
TROUBLES = (
    "crashes",
    "partitions",
    "nested",
    "churn",
    "pauses",
    "links",
    "packets",
    "forming",
    "avalanche",
    "merges",
    "all",
)
LOSSLESS = ("crashes", "churn", "pauses", "avalanche")
"""Where nothing is lost but with a process."""
RECEPTIONS = 250
"""So many copies of messages arrive in a run, roughly."""
MAX_PACKET = 200
"""Bytes of a packet in runs with messages of several packets."""
TIMES: Mapping[str, Duration] = {
    "silence": Duration(2 * MS),
    "tick": Duration(1 * MS),
    "stability_after": Duration(5 * MS),
    "ask_after": Duration(2 * MS),
    "probe_after": Duration(6 * MS),
    "announce_after": Duration(10 * MS),
    "suspect_after": Duration(20 * MS),
    "alive_every": Duration(8 * MS),
    "merge_after": Duration(10 * MS),
}
OMEGA = TIMES["suspect_after"]
SEEDS = 1_001
"""The ordinary sweep: each kind of order with each trouble, thirteen times."""
SHORT = range(4 * 7 * 11)
"""What ``make test`` has of it: each with each four times."""
REGRESSIONS = (0, 20, 37, 83, 125, 144, 187, 237, 306, 325, 331, 335, 374, 463, 957, 1011, 1298, 1329, 2811, 6310, 11038)
"""Seeds of runs that once went wrong; they are run however short the sweep is."""

SITUATIONS = (
    "null: alive",
    "suspects",
    "suspects several",
    "suspected by another",
    "mutual suspicion",
    "refutes",
    "refuted",
    "confirms",
    "takes a detection over",
    "cascade",
    "member leaves",
    "stopped: moving",
    "stopped: leaving",
    "stopped: view change",
    "moves",
    "move during a view change",
    "calls",
    "follows a call",
    "refuses a call",
    "proposes",
    "lets joiners in",
    "plan of 2 parts",
    "enters with 2 parts",
    "joiner gives up",
)
"""What the protocol has a name for where members fail, come and go."""
FURTHER = (
    "suspects the absent",
    "suspects the living",
    "false suspicion refuted",
    "refuted too late",
    "messages discarded",
    "fail together",
    "different cuts",
    "concurrent calls",
    "join during a view change",
    "cut off during agreement",
    "plan given up",
    "merge of three parts",
)
"""What several rows together show."""
RARE = (
    "keeps a detection",
    "move given up",
    "rename refused",
    "plan of 3 parts",
    "enters with 3 parts",
    "leave during a view change",
    "cut off while parts meet",
    "pause during agreement",
    "crash during agreement",
    "crash while parts meet",
    "crash in a view change",
)


@dataclasses.dataclass(frozen=True)
class Outcome(sweeping.Outcome):
    """What a run of the sweep came to."""

    @property
    def violated(self) -> list[str]:
        """The properties and bounds that do not hold, and ``quiet`` if the run did not come to rest."""
        names = super().violated
        if self._halted():
            names.append("halted")
        if shut_out(self.table):
            names.append("shut out")
        if self._only_a_majority and (self._rivals() or self._split()):
            names.append("primary")
        if self._unrequited():
            names.append("mutual")
        return names

    @property
    def _only_a_majority(self) -> bool:
        return self.scenario.parameters.get("partitions") == "majority"

    def _halted(self) -> list[str]:
        allowed = {"no group", "nobody agreed"}
        if self._only_a_majority:
            allowed.add("minority")
        details = [json.loads(text) for text in self.table.filter(pc.equal(self.table["kind"], "crash"))["detail"].to_pylist()]
        return [detail["reason"] for detail in details if detail.get("by") != "fault" and detail["reason"] not in allowed]

    def _unrequited(self) -> list[tuple[ProcessId, ProcessId]]:
        """Who suspected whom for silence although it had been told that this one had excluded it."""
        rows = self.table.filter(pc.is_in(self.table["kind"], pa.array(["suspect", "confirm", "remove"])))
        excluded: dict[tuple[GroupId, int, ProcessId, ProcessId], int] = {}
        suspected = []
        columns = [rows[name].to_pylist() for name in ("process", "kind", "group", "view", "detail")]
        for process, kind, group, view, text in zip(*columns, strict=True):
            detail = json.loads(text)
            if kind == "confirm":
                excluded.update({(group, view, process, failed): 0 for failed in detail["detection"]})
            elif kind == "remove":
                for failed in detail["failed"]:
                    if excluded.get((group, view, process, failed)) == 0:
                        excluded[group, view, process, failed] = detail["block"]
            elif detail["why"] == "silence":
                suspected.append(((group, view, detail["process"], process), detail["last"]))
        # the word was sent to it before the Remove, which was not
        return [(key[3], key[2]) for key, last in suspected if 0 < excluded.get(key, 0) <= last + 1]

    def _rivals(self) -> list[tuple[GroupId, int]]:
        """Groups, and numbers that two views of theirs have."""
        views: dict[tuple[GroupId, int], tuple[ProcessId, ...]] = {}
        rows = self.table.filter(pc.equal(self.table["kind"], "view"))
        found = []
        for group, number, members in zip(*(rows[name].to_pylist() for name in ("group", "view", "members")), strict=True):
            if views.setdefault((group, number), tuple(members)) != tuple(members):
                found.append((group, number))
        return found

    def _split(self) -> list[tuple[ProcessId, ProcessId]]:
        """Pairs of processes that had each other in their views, and then were in views without each other at the same time."""
        rows = self.table.filter(pc.is_in(self.table["kind"], pa.array(["view", "leave", "crash"])))
        names = ("true_time", "process", "index", "kind", "group", "members")
        known: dict[tuple[GroupId, ProcessId], set[ProcessId]] = {}
        excluded: dict[tuple[GroupId, ProcessId], set[ProcessId]] = {}
        found = []
        for _, process, _, kind, group, members in sorted(zip(*(rows[name].to_pylist() for name in names), strict=True)):
            if kind != "view":
                for key in [key for key in excluded if key[1] == process and group in (None, key[0])]:
                    del excluded[key]
                continue
            known.setdefault((group, process), set()).update(members)
            without = excluded[group, process] = known[group, process].difference(members)
            found += [(process, other) for other in without if process in excluded.get((group, other), ())]
        return found


def shut_out(table: pa.Table) -> list[tuple[ProcessId, GroupId]]:
    """Who was refused although somebody was in the group all the time from its request to the end."""
    rows = table.filter(pc.is_in(table["kind"], pa.array(["join", "leave", "refused", "crash"]))).to_pylist()
    rows.sort(key=lambda row: (row["true_time"], row["process"], row["index"]))
    inside: dict[GroupId, dict[ProcessId, int]] = {}
    refused: list[tuple[int, ProcessId, GroupId]] = []
    for row in rows:
        process, group, kind = row["process"], row["group"], row["kind"]
        if kind == "join":
            inside.setdefault(group, {})[process] = row["true_time"]
        elif kind == "leave":
            inside.get(group, {}).pop(process, None)
        elif kind == "crash":
            for members in inside.values():
                members.pop(process, None)
        elif json.loads(row["detail"])["reason"] == "no group":
            refused.append((row["true_time"] - ENTRY_PATIENCE * OMEGA, process, group))
    return [
        (process, group) for asked, process, group in refused if any(since <= asked for since in inside.get(group, {}).values())
    ]


def run(seed: int, variant: Make | None = None, scenario: Scenario | None = None) -> Outcome:
    """Runs and verifies one seed, with the protocol or a variant of it."""
    found = sweeping.run_and_verify(seed, scenario or scenario_of(seed), variant, 0)
    fields = {field.name: getattr(found, field.name) for field in dataclasses.fields(sweeping.Outcome)}
    return Outcome(**fields)


# --- from a seed to a scenario ----------------------------------------------------------------------------------------


def kind_of(seed: int) -> str:
    return KINDS[seed % len(KINDS)]


def trouble_of(seed: int) -> str:
    return TROUBLES[seed // len(KINDS) % len(TROUBLES)]


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed."""
    random = Random(f"newtop membership {seed}")
    kind, trouble = kind_of(seed), trouble_of(seed)
    members = tuple(f"p{number + 1}" for number in range(_size(random, trouble)))
    groups = draw_groups(random, members)
    duration = ms(90, 160, random)
    later = ("q1", "q2")[: random.choice((0, 1, 2))] if trouble in ("churn", "all", "forming") else ()
    faults = Schedule(random, members, later, groups, duration).of(trouble)
    parameters = draw_parameters(random, kind, groups, faults)
    network = dataclasses.replace(_network(random, trouble), link=_slow_links(seed, trouble, members))
    if trouble in LOSSLESS and random.random() < 0.25:
        parameters["transport"], network = "fifo", _lossless(random, members)
    size = 20
    if random.random() < 0.2:
        network, size = dataclasses.replace(network, max_packet=MAX_PACKET), random.choice((300, 900))
    return Scenario(
        protocol="newtop",
        name=f"membership-{seed}",
        about=f"{kind}, {trouble}",
        seed=seed,
        duration=duration,
        drain=Duration(3 * SECOND),
        members=members,
        later=later,
        groups=groups,
        parameters=parameters,
        network=network,
        workload=draw_workload(random, groups, duration, size),
        fault=faults,
        clock=_clocks(random, members),
    )


def _size(random: Random, trouble: str) -> int:
    if random.random() < 0.03 and trouble not in ("packets", "all"):  # those cost most of all
        return random.randint(8, 15)
    return random.choice((3, 4, 5, 6) if trouble in ("merges", "avalanche", "nested") else (2, 3, 3, 4, 4, 5))


def draw_groups(random: Random, members: Sequence[ProcessId]) -> dict[GroupId, tuple[ProcessId, ...]]:
    """Groups that overlap; everybody is in one."""
    count = random.choice((1, 1, 1, 2, 2, 3, 4, 5)) if len(members) < 6 else random.choice((1, 1, 2))
    groups = {}
    for number in range(count):
        chosen = random.sample(members, random.randint(2, len(members)))
        if number == 0:
            chosen = list(members) if count == 1 else chosen
        groups[f"g{number + 1}"] = tuple(sorted(chosen, key=members.index))
    alone = [name for name in members if not any(name in names for names in groups.values())]
    groups["g1"] = tuple(name for name in members if name in groups["g1"] or name in alone)
    return groups


def draw_parameters(random: Random, kind: str, groups: Mapping[GroupId, Any], faults: Sequence[Fault]) -> dict[str, Any]:
    parameters: dict[str, Any] = dict(TIMES)
    if kind == "mixed":
        parameters["orders"] = {group: random.choice(("total", "slow", "fast", "relative", "cbcast")) for group in groups}
        parameters["vectors"] = random.choice(("keyed", "compact"))
        for fault in faults:  # a group keeps its order under its new name
            if fault.kind == "rename":
                parameters["orders"][fault.name] = parameters["orders"][fault.group]
    else:
        parameters |= ORDERS[kind]
    parameters["blocks"] = random.choice((3, 4, 8, 256, 256, 0))
    parameters["pack"] = random.random() < 0.6
    parameters["silence_by"] = random.choice(("adaptive", "adaptive", "timeout", "ticks"))
    parameters["announce_after"] = random.choice((Duration(0), TIMES["announce_after"]))
    parameters["same_view"] = random.random() < 0.3
    parameters["signatures"] = random.random() < 0.3
    if random.random() < 0.12:
        parameters["partitions"] = "majority"
    if random.random() < 0.2:
        parameters["gap_patience"] = Duration(1 * MS)
    return parameters


def _network(random: Random, trouble: str) -> Network:
    delay = random.choice(
        (
            Delay("constant", Duration(200_000)),
            Delay("uniform", Duration(100_000), Duration(1 * MS)),
            Delay("exponential", Duration(100_000), Duration(500_000)),
        )
    )
    if trouble == "packets":
        return Network(
            delay=delay,
            loss=random.choice((0.05, 0.15, 0.3)),
            duplicate=random.choice((0.0, 0.1)),
            corrupt=random.choice((0.0, 0.05)),
            reorder=random.choice((0.0, 0.2)),
            wire=random.random() < 0.3,
        )
    return Network(
        delay=delay,
        loss=random.choice((0.0, 0.0, 0.05)),
        duplicate=random.choice((0.0, 0.0, 0.05)),
        reorder=random.choice((0.0, 0.0, 0.1)),
        wire=random.random() < 0.05,
    )


def _lossless(random: Random, members: Sequence[ProcessId]) -> Network:
    """What is sent first arrives first; some links take nearly as long as a member may be silent."""
    links = {_some_link(random, members) for _ in range(random.choice((0, 1, 2)))}
    return Network(delay=Delay("constant", Duration(300_000)), link=tuple(_slow(random, *link) for link in sorted(links)))


def _slow_links(seed: int, trouble: str, members: Sequence[ProcessId]) -> tuple[LinkOverride, ...]:
    """What others have agreed on is known before their messages are."""
    random = Random(f"newtop slow links {seed}")
    if trouble not in ("crashes", "avalanche", "links") or random.random() < 0.5:
        return ()
    links = {_some_link(random, members) for _ in range(random.choice((1, 1, 2)))}
    return tuple(_slow(random, *link) for link in sorted(links))


def _some_link(random: Random, members: Sequence[ProcessId]) -> tuple[ProcessId, ProcessId]:
    source, target = random.sample(members, 2)
    return source, target


def _slow(random: Random, source: ProcessId, target: ProcessId) -> LinkOverride:
    delay = Delay("constant", Duration(round(OMEGA * random.uniform(0.3, 0.8))))
    return LinkOverride(source=source, target=target, delay=delay)


def _clocks(random: Random, members: Sequence[ProcessId]) -> tuple[Clock, ...]:
    if random.random() < 0.8:
        return ()
    return (Clock(process=random.choice(members), offset=random.choice((-1, 1)) * 500 * MS),)


def draw_workload(
    random: Random, groups: Mapping[GroupId, Sequence[ProcessId]], duration: Duration, size: int
) -> tuple[Workload, ...]:
    loads = []
    for group, names in groups.items():
        kind = random.choice(("all", "all", "one", "none", "burst"))
        if kind == "none" and len(groups) > 1:
            continue
        senders = tuple(names) if kind != "one" else (random.choice(names),)
        each = max(2.0, RECEPTIONS / len(groups) / len(names) / len(senders)) / (1 + size // MAX_PACKET)
        rate = each * SECOND / duration
        if kind == "burst":
            loads.append(Workload(group=group, senders=senders, rate=rate, burst=4, size=size))
        else:
            loads.append(Workload(group=group, senders=senders, rate=rate, arrivals="poisson", size=size))
    return tuple(loads) or (Workload(group=next(iter(groups)), rate=100.0, size=size),)


class Schedule:
    """Draws the faults of a scenario."""

    def __init__(
        self,
        random: Random,
        members: Sequence[ProcessId],
        later: Sequence[ProcessId],
        groups: Mapping[GroupId, Sequence[ProcessId]],
        duration: Duration,
    ) -> None:
        self.random = random
        self.members = list(members)
        self.later = list(later)
        self.groups = groups
        self.duration = duration
        self.faults: list[Fault] = []

    def of(self, trouble: str) -> tuple[Fault, ...]:
        """A schedule with this kind of trouble, in the order of time."""
        for _ in range(self.random.choice((1, 1, 2))):
            getattr(self, trouble)(self._moment(0.1, 0.55))
        if self.random.random() < 0.25:
            self.step(self._moment(0.1, 0.9))
        last = self.duration - 1
        faults = [dataclasses.replace(fault, at=Duration(min(fault.at, last))) for fault in self.faults]
        return tuple(sorted(faults, key=lambda fault: fault.at))

    def _moment(self, low: float, high: float) -> int:
        return round(self.duration * self.random.uniform(low, high))

    def _soon(self, after: int, most: float = 2.0) -> Duration:
        """Within the time of so many omegas."""
        return Duration(after + round(OMEGA * self.random.uniform(0, most)))

    def _length(self, low: float, high: float) -> Duration:
        return Duration(round(OMEGA * self.random.uniform(low, high)))

    def add(self, kind: str, at: int, **settings: Any) -> None:
        self.faults.append(Fault(kind=kind, at=Duration(at), **settings))

    # --- kinds of trouble ---

    def crashes(self, at: int) -> None:
        for process in self.random.sample(self.members, min(len(self.members), self.random.choice((1, 1, 2, 2, 3)))):
            when = self._soon(at, 1.5)
            self.add("crash", when, process=process, mid_broadcast=self.random.random() < 0.5)
            if self.random.random() < 0.6:
                self.add("restart", self._soon(when, 3), process=process)

    def partitions(self, at: int) -> None:
        self._split(at, self._length(0.5, 4), self.random.choice((2, 2, 3, 4)))

    def _split(self, at: int, length: Duration, parts: int) -> None:
        names = list(self.members)
        self.random.shuffle(names)
        parts = min(parts, len(names))
        borders = sorted(self.random.sample(range(1, len(names)), parts - 1))
        split = [tuple(names[low:high]) for low, high in zip((0, *borders), (*borders, len(names)), strict=True)]
        self.add("partition", at, parts=tuple(split), length=length)

    def nested(self, at: int) -> None:
        """Partitions while others last, and right after them."""
        when: int = at
        for _ in range(self.random.choice((2, 3))):
            length = self._length(0.8, 3)
            self._split(when, length, self.random.choice((2, 2, 3)))
            when = round(when + length * self.random.uniform(0.4, 1.3))
        if self.random.random() < 0.4:
            self.crashes(self._soon(at, 3))

    def churn(self, at: int) -> None:
        for process in self.random.sample(self.members, min(len(self.members), self.random.choice((1, 2, 3)))):
            when = self._soon(at)
            mine = [group for group, names in self.groups.items() if process in names]
            group = self.random.choice(("", *mine))
            self.add("leave", when, process=process, group=group)
            if self.random.random() < 0.6:
                if group:
                    self.add("join", self._soon(when, 2), process=process, group=group)
                else:
                    self.add("restart", self._soon(when, 2), process=process)
        self._newcomers(at)
        if self.random.random() < 0.5:
            self.crashes(self._soon(at))

    def _newcomers(self, at: int) -> None:
        for process in self.later:
            if not any(fault.process == process for fault in self.faults):
                group = self.random.choice(("", *self.groups))
                self.add("join", self._soon(at), process=process, group=group)

    def pauses(self, at: int) -> None:
        """Of about the length after which one is suspected."""
        for _ in range(self.random.choice((1, 2, 3))):
            self.add("pause", self._soon(at), process=self.random.choice(self.members), length=self._length(0.6, 2.2))
        if self.random.random() < 0.5:
            self.crashes(self._soon(at))

    def links(self, at: int) -> None:
        """One direction is cut, or slow."""
        if len(self.members) > 2 and self.random.random() < 0.5:
            self.whispers(at)
            return
        for _ in range(self.random.choice((1, 2, 3, 4))):
            source, target = self.random.sample(self.members, 2)
            whose = {"source": source} if self.random.random() < 0.2 else {"source": source, "target": target}
            if self.random.random() < 0.65:
                self.add("cut", self._soon(at), length=self._length(0.7, 3), **whose)
            else:
                self.add("clog", self._soon(at), length=self._length(0.7, 3), delay=self._length(0.2, 1.6), **whose)
        if self.random.random() < 0.4:
            self.crashes(self._soon(at))

    def whispers(self, at: int) -> None:
        """One is heard by another only, who goes on talking to all; then both fail, and what the first said last is lost."""
        first, second, *others = self.random.sample(self.members, len(self.members))
        for other in others:
            self.add("cut", at, source=first, target=other, length=self._length(3, 5))
        when = self._soon(at + OMEGA // 4, 0.4)
        self.add("crash", when, process=first)
        self.add("crash", self._soon(when, 0.3), process=second, mid_broadcast=self.random.random() < 0.3)
        if others and self.random.random() < 0.3:
            self.add("crash", self._soon(when, 1.5), process=others[0], mid_broadcast=True)

    def packets(self, at: int) -> None:
        """The network loses much already."""
        self.random.choice((self.crashes, self.partitions, self.churn, self.links))(at)

    def forming(self, at: int) -> None:
        process = self.random.choice(self.members)
        others = [name for name in (*self.members, *self.later) if name != process]
        invited = tuple(self.random.sample(others, self.random.randint(1, len(others))))
        if not any(fault.kind == "form" for fault in self.faults):
            self.add("form", at, process=process, group="formed", members=invited)
            if self.random.random() < 0.3:
                self.add("form", self._soon(at, 0.3), process=invited[0], group="formed", members=(process,))
            if self.random.random() < 0.3:
                self.add("refuse", 0, process=self.random.choice(invited), group="formed")
        group = self.random.choice(tuple(self.groups))
        if not any(fault.group == group and fault.kind in ("close", "rename") for fault in self.faults):
            settings = {"name": f"{group}x"} if self.random.random() < 0.6 else {}
            kind = "rename" if settings else "close"
            self.add(kind, self._soon(at), process=self.random.choice(self.groups[group]), group=group, **settings)
        self._newcomers(at)
        if self.random.random() < 0.5:
            self.random.choice((self.crashes, self.partitions, self.links))(self._soon(at))
        if self.random.random() < 0.3:
            self._taken_name(at)

    def _taken_name(self, at: int) -> None:
        """The proposer of the new group gives another one the same name."""
        proposer = next(fault.process for fault in self.faults if fault.kind == "form")
        given_up = [fault.group for fault in self.faults if fault.kind in ("close", "rename")]
        free = [group for group, names in self.groups.items() if proposer in names and group not in given_up]
        if free:
            self.add("rename", self._soon(at + OMEGA), process=proposer, group=free[0], name="formed")

    def avalanche(self, at: int) -> None:
        """All but one or two, one after the other, while the others agree."""
        victims = self.random.sample(self.members, max(1, len(self.members) - self.random.choice((1, 1, 2))))
        when: int = at
        for process in victims:
            self.add("crash", when, process=process, mid_broadcast=self.random.random() < 0.5)
            when = self._soon(when, 0.8)

    def merges(self, at: int) -> None:
        """Parts come together again, and something else happens while they do."""
        length = self._length(2, 3.5)
        self._split(at, length, self.random.choice((2, 3, 3, 4)))
        self.random.choice((self.crashes, self.partitions, self.churn, self.pauses))(self._soon(at + length, 2))

    def all(self, at: int) -> None:
        for trouble in self.random.sample((self.crashes, self.partitions, self.churn, self.pauses, self.links), 3):
            trouble(self._soon(at, 3))

    def step(self, at: int) -> None:
        """A clock jumps."""
        offset = self.random.choice((-1, 1)) * self.random.randint(1, 300) * MS
        self.add("step", at, process=self.random.choice(self.members), offset=offset)


# --- what happened ----------------------------------------------------------------------------------------------------


def situations(outcome: Outcome) -> Counter[str]:
    """What the protocol has a name for, and what only several rows together show."""
    kinds = ("suspect", "refute", "confirm", "bye", "view", "form", "fault", "crash", "state")
    rows = outcome.table.filter(pc.is_in(outcome.table["kind"], pa.array(kinds))).to_pylist()
    rows.sort(key=lambda row: (row["true_time"], row["process"], row["index"]))
    reading = _Reading()
    for row in rows:
        detail = json.loads(row["detail"]) if row["detail"] else {}
        reading.read(row["kind"], row["process"], row["group"], detail)
    reading.close()
    return outcome.situations + reading.found


class _Reading:
    """Reads the rows of a run, in the order of time, for what one row does not say."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self.agreeing: dict[tuple[ProcessId, GroupId], None] = {}
        """Who suspects somebody in a group, and nobody is confirmed yet."""
        self.changing: dict[tuple[ProcessId, GroupId], None] = {}
        """For whom a view change is under way: somebody is suspected, or has left."""
        self.meeting: dict[tuple[ProcessId, GroupId], None] = {}
        """Who has moved to a formation in which not everybody has been heard."""
        self.refuted: dict[tuple[ProcessId, GroupId, ProcessId], None] = {}
        """Whose suspicion of whom others have refuted, and that one has not heard it."""
        self.planned: dict[int, None] = {}
        self.entered: dict[int, None] = {}
        self.gone: dict[ProcessId, None] = {}

    def read(self, kind: str, process: ProcessId, group: GroupId, detail: dict[str, Any]) -> None:
        getattr(self, f"_{kind}")(process, group, detail)

    def close(self) -> None:
        self.found["plan given up"] += len([form for form in self.planned if form not in self.entered])

    def _state(self, process: ProcessId, group: GroupId, detail: dict[str, Any]) -> None:
        """Named by the protocol where it matters."""

    def _suspect(self, process: ProcessId, group: GroupId, detail: dict[str, Any]) -> None:
        self.agreeing[process, group] = self.changing[process, group] = None
        self.found["suspects the absent"] += detail["why"] == "absent"
        self.found["suspects the living"] += detail["why"] == "silence" and detail["process"] not in self.gone

    def _refute(self, process: ProcessId, group: GroupId, detail: dict[str, Any]) -> None:
        if not detail.get("heard"):
            self.refuted.update(dict.fromkeys((by, group, detail["process"]) for by in detail["of"]))
            return
        self.refuted.pop((process, group, detail["process"]), None)
        self.found["false suspicion refuted"] += detail["process"] not in self.gone

    def _confirm(self, process: ProcessId, group: GroupId, detail: dict[str, Any]) -> None:
        self.agreeing.pop((process, group), None)
        self.found["refuted too late"] += any((process, group, failed) in self.refuted for failed in detail["detection"])
        self.found["messages discarded"] += bool(detail["discarded"])
        self.found["fail together"] += len(detail["detection"]) > 1
        self.found["different cuts"] += len(set(detail["cut"].values())) > 1

    def _bye(self, process: ProcessId, group: GroupId, detail: dict[str, Any]) -> None:
        self.found["leave during a view change"] += (process, group) in self.changing
        self.changing[process, group] = None

    def _view(self, process: ProcessId, group: GroupId, detail: dict[str, Any]) -> None:
        self.changing.pop((process, group), None)
        self.found["merge of three parts"] += len(detail.get("parts", ())) - len(detail.get("newcomers", ())) >= 3

    def _form(self, process: ProcessId, group: GroupId, detail: dict[str, Any]) -> None:
        stage = detail["stage"]
        if stage == "plan":
            self.planned[detail["form"]] = None
        elif stage == "move":
            self.meeting[process, group] = None
        elif stage == "enter":
            self.entered[detail["form"]] = None
        elif stage == "open":
            self.meeting.pop((process, group), None)
        elif stage == "refuse":
            self.found["concurrent calls"] += detail["why"] == "busy"

    def _fault(self, process: ProcessId, group: GroupId, detail: dict[str, Any]) -> None:
        fault = detail["fault"]
        if fault in ("join", "restart"):
            self.found["join during a view change"] += bool(self.changing)
        elif fault in ("partition", "cut"):
            self.found["cut off while parts meet"] += bool(self.meeting)
            self.found["cut off during agreement"] += bool(self.agreeing)
        elif fault == "pause":
            self.found["pause during agreement"] += bool(self.agreeing)

    def _crash(self, process: ProcessId, group: GroupId, detail: dict[str, Any]) -> None:
        self.gone[process] = None
        under_ways = {
            "crash during agreement": self.agreeing,
            "crash while parts meet": self.meeting,
            "crash in a view change": self.changing,
        }
        for name, under_way in under_ways.items():
            if any(one == process for one, _ in under_way):
                self.found[name] += 1
            for key in [key for key in under_way if key[0] == process]:
                del under_way[key]
