"""The fault sweep of mailbox: from a seed to a scenario, and from a run to a verdict and its situations.

A seed decides the protocol, the copies, the bounds, the clocks, the groups, the load and the faults. Seeds fall into families,
which take turns, and each family is run with both protocols (*timing* and *majority* with the second alone):

- *steady*: nothing fails;
- *crashes*: processes crash at any operation or while they send, some come back, and modules crash meanwhile;
- *overtaking*: a sender dies while it sends, and a module while what it left is being decided or read;
- *churn*: processes join, leave, crash and come back;
- *pressure*: few slots, large messages and bursts, with crashes;
- *timing*: a minority of the receivers, and any who only send, are slow, paused, or have clocks that are wrong, with everything
  else; often in the middle of a Send, and with a module that crashes while it is being decided;
- *majority*: with the second protocol, more receivers crash than it promises anything about time for;
- *alive* (seeds from ``alive.FIRST_SEED`` on): processes stop, or do not read, for longer than every timeout.

To hit what takes microseconds, *overtaking* and *timing* are run once without the last faults, which are then aimed at a message
(:func:`_aim`). All but *majority* stay within what every promise allows, times too. Besides the promises, these are verified:

- *halted*: nobody stops but who was made to, or was late; *untimely*: nobody is late who was not made to;
- *rejected*: no message of an intact sender is;
- *views*: those of intact processes agree and stand in the order of the messages;
- *unread*: who leaves reads what has a timestamp before its exit;
- *left over*: in the end no copy holds a message that somebody has not done with, and only who is in a group has a place;
- *shut out*: who asks to be let in is let in, unless it is late;
- *... of all*: what does not depend on time holds for the late as well.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plainchant.core.engine import Engine, Host
from plainchant.core.model import MS, SECOND, US, Duration, GroupId, ProcessId, View
from plainchant.core.names import is_place, place_of
from plainchant.lab.properties import verify
from plainchant.protocols.mailbox import DESCRIPTION
from plainchant.protocols.mailbox.parameters import Parameters
from plainchant.protocols.mailbox.times import Times
from plainchant.scenario.model import Clock, Fault, Memory, Scenario, Workload
from plainchant.sim import Simulation
from plainchant.sim.scripted import Script, ScriptedSimulation
from plainchant.trace import TraceBuffer

from .. import sweeping
from ..sweeping import Make, Watch, Watched, ms
from . import alive

FAMILIES = ("steady", "crashes", "overtaking", "churn", "pressure", "timing", "overtaking", "timing", "majority")
ONLY_SECOND = ("timing", "majority")
AIMED = ("overtaking", "timing")
SEEDS = 180
"""The ordinary sweep: each family with each protocol, ten times."""
SHORT = (*range(36), 41, 59, 160)
"""What ``make test`` has of it: each with each twice, and what comes to the situations that are rare."""
TIMES = frozenset({"bounded", "rejected", "halted", "validity"})
"""What is not promised when most receivers crash."""
REGRESSIONS = (26, 399, 484)
"""Seeds of runs that once went wrong; they are run however short the sweep is."""
TIMELESS = frozenset({"integrity", "identical", "agreement", "unanimity"})
"""What the second protocol keeps for all that do not stop, late or not."""

SITUATIONS = (
    "crash in a Send",
    "accepted from the dead",
    "rejected from the dead",
    "module",
    "all modules but one",
    "late and rejected",
    "late and accepted",
    "sent again",
    "halted by a rejection",
    "no slot",
    "pieces",
    "join",
    "leave",
    "restart",
    "only sends",
    "schedule",
    "several groups",
    "paused",
    "slow",
    "clock set",
    "clock wrong",
)
"""What has to occur; see :func:`situations`."""


# --- what is verified -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Outcome(sweeping.Outcome):
    """What a run of the sweep came to."""

    watched: Watched

    @property
    def violated(self) -> list[str]:
        """The promises that are not kept, and whatever else is wrong."""
        names = super().violated
        found: dict[str, Sequence[object]] = {
            "halted": self.halted(),
            "untimely": self.untimely(),
            "rejected": self.rejected(),
            "views": self.views(),
            "unread": self.unread(),
            "left over": self.watched.left_over,
            "shut out": self.shut_out(),
        }
        names += [name for name, troubles in found.items() if troubles]
        names += self.broken_by_late()
        return [name for name in names if name not in TIMES] if family_of(self.seed) == "majority" else names

    def broken_by_late(self) -> list[str]:
        """What does not hold among all processes, of what does not depend on time: the late ones too, unless they halted."""
        if not self.late or self.scenario.parameters.get("tolerate") == "crash":
            return []
        details = [_unmarked(text) for text in self.table["detail"].to_pylist()]
        column = self.table.schema.get_field_index("detail")
        table = self.table.set_column(column, self.table.schema.field(column), pa.array(details, self.table["detail"].type))
        kept = TIMELESS | ({"validity"} if self.scenario.parameters.get("rejected", "again") == "again" else frozenset())
        found = verify(table).properties
        return [f"{name} of all" for name, outcome in found.items() if name in kept and outcome.violations]

    def rows(self, *kinds: str) -> list[dict[str, Any]]:
        """The rows of some kinds, in the order of time, with their details."""
        rows: list[dict[str, Any]] = self.table.filter(pc.is_in(self.table["kind"], pa.array(kinds))).to_pylist()
        for row in rows:
            row["detail"] = json.loads(row["detail"]) if row["detail"] else {}
        return sorted(rows, key=lambda row: (row["true_time"], row["process"], row["index"]))

    @cached_property
    def crashed(self) -> dict[ProcessId, int]:
        """Processes that crashed or halted, with the time."""
        return {row["process"]: row["true_time"] for row in self.rows("crash")}

    @cached_property
    def late(self) -> dict[ProcessId, None]:
        """Processes with a timing fault."""
        return dict.fromkeys(row["process"] for row in self.rows("fault") if row["detail"].get("timing"))

    def is_intact(self, process: ProcessId) -> bool:
        return process not in self.crashed and process not in self.late

    def halted(self) -> list[str]:
        """Who stopped though nobody made it to, and it was not late."""
        unprovoked = [row for row in self.rows("crash") if row["detail"].get("by") != "fault"]
        unread = {fault.process for fault in self.scenario.fault if fault.kind == "sluggish"}
        return [
            f"{row['process']}: {row['detail']}"
            for row in unprovoked
            if row["process"] not in self.late
            and not (place_of(row["process"]) in unread and row["detail"].get("reason") == "excluded")
        ]

    def shut_out(self) -> list[ProcessId]:
        """Who was not let in though it was not late."""
        return [row["process"] for row in self.rows("refused") if row["process"] not in self.late]

    def untimely(self) -> list[ProcessId]:
        """Who was late though nobody made it to be."""
        made = {fault.process for fault in self.scenario.fault if fault.kind in ("slow", "pause", "step")}
        made |= {clock.process for clock in self.scenario.clock if is_wrong(self.scenario, clock)}
        return [process for process in self.late if place_of(process) not in made]

    def rejected(self) -> list[str]:
        """Decisions of intact receivers against intact senders."""
        found = []
        for row in self.rows("decide"):
            sender = row["sender"] or row["detail"].get("of")
            if row["detail"]["decision"] == 0 and self.is_intact(row["process"]) and self.is_intact(sender):
                found.append(f"{row['process']} at {row['true_time']}: {sender} {row['seq']} {row['detail']}")
        return found

    def unread(self) -> list[str]:
        """What an intact process that left had to read before, by the timestamps, and did not."""
        began = {(row["process"], row["group"]): row["rank"] for row in self.rows("join")}
        delivered: dict[GroupId, dict[tuple[ProcessId, int], int]] = {}
        has: dict[tuple[ProcessId, GroupId], set[tuple[ProcessId, int]]] = {}
        for row in self.rows("deliver"):
            message = (row["sender"], row["seq"])
            has.setdefault((row["process"], row["group"]), set()).add(message)
            if self.is_intact(row["process"]):
                delivered.setdefault(row["group"], {})[message] = row["rank"]
        found = []
        for row in self.rows("leave"):
            process, group = row["process"], row["group"]
            if self.is_intact(process) and row["rank"] is not None:
                own = has.get((process, group), set())
                within = [
                    message for message, rank in delivered.get(group, {}).items() if began[process, group] <= rank < row["rank"]
                ]
                found += [f"{process} in {group}: {message}" for message in within if message not in own]
        return found

    def _is_about_intact(self, view: View) -> bool:
        """Whether a view changes something about somebody who keeps time."""
        return any(process not in self.late for process in (*view.joined, *view.left))

    def views(self) -> list[str]:
        """Where views of intact processes differ, or are out of order."""
        found = []
        known: dict[tuple[GroupId, int], tuple[ProcessId, frozenset[ProcessId]]] = {}
        spans: dict[tuple[GroupId, ProcessId], list[int]] = {}
        left = {(row["group"], row["process"]) for row in self.rows("leave")}
        for (process, group), items in self.watched.order.items():
            if not self.is_intact(process):
                continue
            ranks = [rank for rank, view in items if view is None or self._is_about_intact(view)]
            if ranks != sorted(ranks):
                found.append(f"{process} in {group}: out of order")
            views = [view for _, view in items if view is not None and self._is_about_intact(view)]
            if not views or process not in views[0].members:
                continue  # it only sends, and is told once who is there
            spans[group, process] = [view.number for view in views]
            for view in views:
                other, members = known.setdefault((group, view.number), (process, frozenset(view.members)))
                if members != frozenset(view.members):
                    found.append(f"{group} {view.number}: {process} has {view.members}, {other} has {sorted(members)}")
        for (group, process), numbers in spans.items():
            for (other_group, other), others in spans.items():
                if group == other_group and numbers and others:
                    begin = max(numbers[0], others[0])
                    end = min(own[-1] for own in (numbers, others))
                    if (group, process) not in left and (group, other) not in left:
                        end = max(numbers[-1], others[-1])
                    missed = [number for number in others if begin <= number <= end and number not in numbers]
                    found += [f"{process} in {group} misses view {number} of {other}" for number in missed]
        return found


def _unmarked(detail: str | None) -> str | None:
    """The detail of a row without the marks of a timing fault.

    >>> _unmarked('{"fault":"timing","timing":true,"copy":1}')
    '{"copy": 1}'
    """
    if not detail or '"timing":true' not in detail:
        return detail
    fields: dict[str, Any] = json.loads(detail)
    return json.dumps({name: value for name, value in fields.items() if name != "timing" and value != "timing"})


def run(seed: int, variant: Make | None = None, scenario: Scenario | None = None, script: Script | None = None) -> Outcome:
    """Runs and verifies one seed (or a scenario, with or without a script), with the protocol or a variant of it."""
    scenario = scenario or scenario_of(seed)
    engine = variant or DESCRIPTION.make
    watched = Watched()

    def watching(host: Host, parameters: Any) -> Engine:
        return Watch(host, lambda inner: engine(inner, parameters), watched)

    trace = TraceBuffer()
    simulation = ScriptedSimulation(script, scenario, trace=trace, run=scenario.name or "scripted", make=watching)
    summary = simulation.run()
    table = trace.table()
    outcome = Outcome(seed, scenario, summary, table, verify(table), Counter(), watched)
    watched.left_over += _left_over(simulation, outcome)
    return outcome


def _left_over(simulation: Simulation, outcome: Outcome) -> list[str]:
    """What is in the memory at the end of a run and should not be."""
    assert simulation.memory is not None
    dead = {row["detail"]["module"] for row in outcome.rows("fault") if row["detail"].get("fault") == "module"}
    alive = {host.me for host in simulation.hosts if host.alive}
    found = []
    for name, mailbox in simulation.memory.server.mailboxes.items():
        found += [f"{process} has a place in {name}" for process in mailbox.places.values() if process not in alive]
        for number, copy in enumerate(mailbox.copies, 1):
            if number not in dead:
                entries = [(slot, entry) for slot, entry in copy.entries() if entry.listed & ~entry.done]
                found += [f"{name}, copy {number}, slot {slot}: {entry}" for slot, entry in entries]
    return found


# --- situations -------------------------------------------------------------------------------------------------------


def situations(outcome: Outcome) -> Counter[str]:
    """What happened in a run; each situation counts once."""
    scenario = outcome.scenario
    modules: set[int] = set()
    if family_of(outcome.seed) == "alive":
        return _situations_of_exclusions(outcome)
    found = {
        "only sends": bool(scenario.parameters["senders"]),
        "schedule": bool(scenario.parameters["schedule"]),
        "several groups": len(scenario.groups) > 1,
        "pieces": any(workload.size > scenario.parameters["room"] for workload in scenario.workload),
    }
    for row in outcome.rows("decide", "sent", "block", "fault", "join", "leave", "crash"):
        kind, detail, process = row["kind"], row["detail"], row["process"]
        if kind == "decide":
            sender, accepted = row["sender"] or detail.get("of"), bool(detail["decision"])
            verdict = "accepted" if accepted else "rejected"
            if row["true_time"] > outcome.crashed.get(sender, 1 << 62):
                found[f"{verdict} from the dead"] = True
            elif sender in outcome.late:
                found[f"late and {verdict}"] = True
        elif kind == "sent":
            found["sent again"] = found.get("sent again", False) or detail["attempt"] > 1
        elif kind == "block":
            found["no slot"] = True
        elif kind == "leave":
            found["leave"] = True
        elif kind == "join":
            if process not in scenario.members:
                found["join" if is_place(process) else "restart"] = True
        elif kind == "crash":
            found["halted by a rejection"] = found.get("halted by a rejection", False) or detail.get("reason") == "rejected"
        elif detail.get("fault") == "module":
            modules.add(detail["module"])
        else:
            if detail.get("mid_broadcast"):
                found["crash in a Send"] = True
            found[_BY_FAULT.get(detail["fault"], "")] = True
    found["module"] = bool(modules)
    found["all modules but one"] = bool(modules) and len(modules) == scenario.parameters["copies"] - 1
    return Counter([name for name, occurs in found.items() if occurs and name])


def _situations_of_exclusions(outcome: Outcome) -> Counter[str]:
    scenario = outcome.scenario
    excluded = [row["process"] for row in outcome.rows("crash") if row["detail"].get("reason") == "excluded"]
    sent = {row["process"] for row in outcome.rows("send")}
    kinds: dict[ProcessId, set[str]] = {}
    for fault in scenario.fault:
        kinds.setdefault(fault.process, set()).add(fault.kind)
    paused = {name for name, kinds_ in kinds.items() if "pause" in kinds_}
    stopped = [process for process in paused if process not in outcome.crashed]
    joined = {row["process"] for row in outcome.rows("join")}
    found = {
        "excluded": bool(excluded),
        "several excluded": len(excluded) > 1,
        "excluded sender": any(process in sent for process in excluded),
        "excluded while it joins or leaves": any(kinds[place_of(process)] & {"join", "leave"} for process in excluded),
        "excluded because it does not read": any("sluggish" in kinds[place_of(process)] for process in excluded),
        "excluded because it is slow": any(kinds[place_of(process)] & {"slow", "step"} for process in excluded),
        "stopped and not excluded": any(process not in scenario.parameters["senders"] for process in stopped),
        "only sender stopped": any(process in scenario.parameters["senders"] for process in stopped),
        "back after its exclusion": any(place_of(process) in excluded and not is_place(process) for process in joined),
        "module and exclusion": bool(excluded) and any(fault.kind == "module" for fault in scenario.fault),
        "large group": bool(excluded) and len(scenario.members) > 8,
    }
    return Counter([name for name, occurs in found.items() if occurs])


_BY_FAULT: Mapping[str, str] = {"pause": "paused", "slow": "slow", "step": "clock set", "clock": "clock wrong"}


# --- from a seed to a scenario ----------------------------------------------------------------------------------------


def family_of(seed: int) -> str:
    return "alive" if seed >= alive.FIRST_SEED else FAMILIES[seed % len(FAMILIES)]


def protocol_of(seed: int) -> str:
    """The first protocol or the second."""
    if family_of(seed) == "alive":
        return alive.protocol_of(seed)
    return "crash" if seed // len(FAMILIES) % 2 == 0 and family_of(seed) not in ONLY_SECOND else "timing"


def is_wrong(scenario: Scenario, clock: Clock) -> bool:
    """Whether a clock is off by more than clocks may be."""
    return not 0 <= clock.offset - _base(scenario.seed) <= scenario.parameters["skew"]


def _base(seed: int) -> int:
    """What all clocks of a scenario are ahead of true time at the least."""
    return Random(f"mailbox base {seed}").choice((0, 0, 3 * MS, 500 * MS))


@lru_cache(maxsize=16)
def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed."""
    family = family_of(seed)
    if family == "alive":
        return alive.scenario_of(seed)
    random = Random(f"mailbox sweep {seed}")
    count = random.choice((2, 2, 3, 3, 3, 4, 4, 5, 6, 8) if family not in AIMED else (2, 3, 3, 3, 4, 4, 5, 6))
    members = tuple(f"p{number + 1}" for number in range(count))
    later = ("q1", "q2")[: random.choice((1, 2))] if family == "churn" or (family == "timing" and random.random() < 0.3) else ()
    parameters = _parameters(random, family, protocol_of(seed), members)
    declared = Parameters(**parameters)
    duration = ms(12, 30, random)
    plan = _Plan(random, family, declared, members, later, duration, _base(seed))
    plan.draw()
    scenario = Scenario(
        protocol="mailbox",
        name=f"mailbox-{seed}",
        about=f"{family}, {declared.tolerate}, {declared.copies} copies",
        seed=seed,
        duration=duration,
        drain=Duration(1 * SECOND),
        members=members,
        later=later,
        groups=plan.groups,
        parameters=parameters,
        memory=plan.memory,
        workload=_workload(random, family, declared, plan.groups),
        clock=tuple(plan.clocks),
        fault=plan.sorted(),
    )
    return _aim(scenario, plan) if family in AIMED else scenario


def _parameters(random: Random, family: str, tolerate: str, members: Sequence[ProcessId]) -> dict[str, Any]:
    def bound(*choices: int) -> Duration:
        return Duration(random.choice(choices) * US)

    copies = random.choice((1, 1, 2, 2, 3, 4) if family in ("steady", "churn", "pressure") else (2, 2, 2, 3, 3, 4))
    parameters: dict[str, Any] = {
        "tolerate": tolerate,
        "copies": copies,
        "write": bound(20, 100, 100),
        "flag": bound(20, 50, 100),
        "decide": bound(20, 50, 100),
        "read": bound(20, 100),
        "finish": bound(10, 50),
        "skew": bound(0, 10, 50, 50, 200),
        "poll": bound(100, 200, 500, 500),
        "schedule": bound(1_000, 2_000) if random.random() < 0.15 else Duration(0),
        "rejected": "again" if family == "majority" else random.choice(("again", "halt")),
        "senders": _senders(random, family, members),
        "slots": random.choice((1, 2, 3) if family == "pressure" else (2, 8, 8)),
        "room": random.choice((100, 300, 65_536) if family == "pressure" else (300, 65_536, 65_536)),
    }
    parameters["poll"] = max(parameters["poll"], Duration(2 * parameters["decide"]))
    if tolerate == "timing" and random.random() < 0.15:
        least = Times(Parameters(**parameters)).expiry
        parameters["expiry"] = Duration(least + random.randrange(1 * MS))
    return parameters


def _senders(random: Random, family: str, members: Sequence[ProcessId]) -> tuple[ProcessId, ...]:
    """Who only sends."""
    if random.random() < (0.5 if family == "timing" else 0.3):
        return tuple(members[-1:] if len(members) < 5 or random.random() < 0.6 else members[-2:])
    return ()


def _memory(random: Random, family: str) -> Memory:
    detection = ms(0, 3, random) if random.random() < 0.5 else ms(3, 12, random)
    if family == "overtaking" and random.random() < 0.6:
        return Memory(duration="extremes", detection=detection)
    if random.random() < 0.2:
        # Half the bound is left for the queue, which is never so long.
        return Memory(duration=random.choice(("uniform", "max")), share=0.5, service=Duration(100), detection=detection)
    return Memory(duration=random.choice(("uniform", "uniform", "extremes", "extremes", "max", "min")), detection=detection)


def _workload(
    random: Random, family: str, declared: Parameters, groups: Mapping[GroupId, Sequence[ProcessId]]
) -> tuple[Workload, ...]:
    rate = random.choice((200.0, 600.0, 1_500.0)) / len(groups)
    # Who only sends has messages in one piece.
    largest = declared.room if declared.senders else 1_000
    size = min(largest, random.choice((20, 250, 700) if family == "pressure" else (20, 20, 90)))
    loads = [Workload(rate=rate, arrivals=random.choice(("regular", "poisson", "poisson")), size=size)]
    if family == "pressure" or random.random() < 0.2:
        loads.append(Workload(rate=100.0, burst=random.choice((3, 8, 20)), size=min(largest, random.choice((20, 250)))))
    if random.random() < 0.2:
        loads.append(Workload(closed=random.choice((1, 2)), size=20, count=10, start=Duration(3 * MS)))
    return tuple(loads)


class _Plan:
    """Groups, clocks and faults of a scenario, such that a majority of the receivers in every group stays intact (second
    protocol), somebody does, and a copy does."""

    def __init__(
        self,
        random: Random,
        family: str,
        declared: Parameters,
        members: Sequence[ProcessId],
        later: Sequence[ProcessId],
        duration: Duration,
        base: int,
    ) -> None:
        self.random = random
        self.family = family
        self.declared = declared
        self.members = members
        self.later = later
        self.duration = duration
        self.base = base
        self.receivers = [process for process in members if process not in declared.senders]
        self.groups = self._groups()
        self.clocks: list[Clock] = []
        self.faults: list[Fault] = []
        self.lost: dict[ProcessId, None] = {}
        """Receivers that fail or leave."""
        self.modules = list(range(1, declared.copies + 1))
        self.memory = _memory(random, family)

    def _groups(self) -> dict[GroupId, tuple[ProcessId, ...]]:
        groups = {"g": tuple(self.members)}
        for name in ("h", "i")[: self.random.choice((0, 0, 0, 1, 2)) if len(self.members) > 2 else 0]:
            chosen = self.random.sample(list(self.members), self.random.randint(2, len(self.members)))
            if self.receivers and any(process in self.receivers for process in chosen):
                groups[name] = tuple(process for process in self.members if process in chosen)
        return groups

    def draw(self) -> None:
        self._clocks()
        for kind in self._kinds():
            getattr(self, f"_{kind}")(self._moment())

    def _kinds(self) -> list[str]:
        several = self.random.randint(1, 5)
        return {
            "steady": [],
            "crashes": self.random.choices(("crash", "crash", "module"), k=several),
            "churn": [*["join" for _ in self.later], *self.random.choices(("leave", "crash", "module"), k=several)],
            "pressure": self.random.choices(("crash", "module"), k=self.random.randint(0, 2)),
            "overtaking": ["sending" for _ in range(self.random.choice((1, 2, 3)))],
            "timing": [
                *["join" for _ in self.later],
                *self.random.choices(("pause", "slow", "step", "slow", "module", "crash", "leave"), k=several - 1),
            ],
            "majority": self.random.choices(("crash", "crash", "crash", "module"), k=several + 1),
        }[self.family]

    def _moment(self) -> Duration:
        return Duration(self.random.randrange(200 * US, self.duration))

    def _clocks(self) -> None:
        skew = self.declared.skew
        how = self.random.choice(("equal", "extreme", "any"))
        for process in (*self.members, *self.later):
            ahead = 0
            if how == "extreme":
                ahead = self.random.choice((0, skew))
            elif how == "any":
                ahead = self.random.randint(0, skew)
            self.clocks.append(Clock(process=process, offset=self.base + ahead))
        if self.family == "timing" and self.random.random() < 0.3:
            self._wrong_clock()

    def _wrong_clock(self) -> None:
        process = self._victim(self.members)
        if process is not None:
            offset = self._jump()
            self.clocks = [clock for clock in self.clocks if clock.process != process]
            self.clocks.append(Clock(process=process, offset=self.base + offset))

    def _jump(self) -> int:
        """By how much a clock is wrong."""
        size = self.random.choice((100 * US, 500 * US, 2 * MS, 4 * MS)) + self.declared.skew
        return size if self.random.random() < 0.6 else -size

    def _victim(self, among: Sequence[ProcessId]) -> ProcessId | None:
        """Somebody that may fail."""
        possible = [process for process in among if process in self.lost or self._may_lose(process)]
        if not possible:
            return None
        process = self.random.choice(possible)
        if process in self.receivers:
            self.lost[process] = None
        return process

    def _may_lose(self, process: ProcessId) -> bool:
        if process not in self.receivers:
            return True
        for members in self.groups.values():
            receiving = [member for member in members if member in self.receivers]
            lost = sum(member in self.lost for member in receiving) + 1
            is_any = self.declared.tolerate == "crash" or self.family == "majority"
            most = len(receiving) - 1 if is_any else (len(receiving) - 1) // 2
            if process in receiving and lost > most:
                return False
        return True

    # --- faults ---

    def _crash(self, at: Duration) -> None:
        gone = [fault.process for fault in self.faults if fault.kind in ("crash", "leave")]
        process = self._victim([process for process in self.members if process not in gone])
        if process is None:
            return
        how = self.random.choice(("time", "events", "sending", "sending"))
        if how == "events":
            self.faults.append(Fault(kind="crash", process=process, after_events=self.random.randint(1, 150)))
        else:
            self.faults.append(Fault(kind="crash", at=at, process=process, mid_broadcast=how == "sending"))
        if self.random.random() < 0.5:
            collected = at + self.memory.detection + self.random.randrange(self.declared.copies * self.declared.flag)
            back = Duration(collected if self.random.random() < 0.4 else at + self.random.randrange(2 * MS, 12 * MS))
            if back < self.duration:
                self.faults.append(Fault(kind="restart", at=back, process=process))

    def _module(self, at: Duration) -> None:
        if len(self.modules) > 1:
            module = self.modules[0] if self.random.random() < 0.6 else self.random.choice(self.modules)
            self.modules.remove(module)
            self.faults.append(Fault(kind="module", at=at, module=module))

    def _sending(self, at: Duration) -> None:
        """A sender dies while it sends."""
        gone = [fault.process for fault in self.faults if fault.kind == "crash"]
        process = self._victim([process for process in self.members if process not in gone])
        if process is not None:
            self.faults.append(Fault(kind="crash", at=at, process=process, mid_broadcast=True))

    def _join(self, at: Duration) -> None:
        asked = [fault.process for fault in self.faults if fault.kind == "join"]
        process = next((process for process in self.later if process not in asked), None)
        if process is not None:
            self.faults.append(Fault(kind="join", at=at, process=process, group="g"))

    def _leave(self, at: Duration) -> None:
        gone = [fault.process for fault in self.faults if fault.kind in ("crash", "leave")]
        process = self._victim([process for process in self.members if process not in gone])
        if process is not None:
            self.faults.append(Fault(kind="leave", at=at, process=process))

    def _pause(self, at: Duration) -> None:
        process = self._victim(self.members)
        if process is not None:
            self.faults.append(Fault(kind="pause", at=at, process=process, length=self._some_time()))

    def _slow(self, at: Duration) -> None:
        process = self._victim(self.members)
        if process is not None:
            delay = Duration(self.random.choice((20, 100, 400, 1_500)) * US)
            self.faults.append(Fault(kind="slow", at=at, process=process, delay=delay, length=self._some_time()))

    def _step(self, at: Duration) -> None:
        process = self._victim(self.members)
        if process is not None:
            self.faults.append(Fault(kind="step", at=at, process=process, offset=self._jump()))

    def _some_time(self) -> Duration:
        return Duration(self.random.choice((100 * US, 600 * US, 2 * MS, 6 * MS)))

    # --- faults that are aimed ---

    def aim(self, stamp: int, sender: ProcessId, sent: int) -> None:
        """Lets a module crash, and its sender stop, around the decision on the message with this timestamp, which was sent at
        ``sent``."""
        declared, times, random = self.declared, Times(self.declared), self.random
        begin = times.instant(stamp + times.complete) - self.base
        if self.family == "timing" and random.random() < 0.8 and self._victim([sender]) is not None:
            at = sent - random.randrange(max(1, min(times.send, sent)))
            until = begin + random.randrange(-declared.decide, times.expiry)
            if at < min(until, self.duration):
                self.faults.append(Fault(kind="pause", at=Duration(at), process=sender, length=Duration(until - at)))
        if len(self.modules) < 2:
            return
        module = random.choice((self.modules[0], self.modules[0], random.choice(self.modules)))
        if times.first:
            at = begin + random.randrange(random.choice((2, 2, 2, 4, 20)) * declared.decide)
        else:
            # While copies are looked at, or one of the three steps on this one is taken, or later.
            slot = declared.decide + (module - 1) * times.slot
            step = random.choice((0, slot, slot + times.vote, slot + times.settle, slot + times.settle))
            at = begin + step + random.randrange(random.choice((1, 1, 20)) * declared.decide)
        if 0 <= at < self.duration:
            self.modules.remove(module)
            self.faults.append(Fault(kind="module", at=Duration(at), module=module))

    def sorted(self) -> tuple[Fault, ...]:
        return tuple(sorted(self.faults, key=lambda fault: fault.at))


def _aim(scenario: Scenario, plan: _Plan) -> Scenario:
    """The scenario with faults at the worst moments of messages that are chosen from a first run."""
    trace = TraceBuffer()
    Simulation(scenario, trace=trace, run=scenario.name).run()
    table = trace.table()
    table = table.filter(pc.is_in(table["kind"], pa.array(["decide", "sent", "crash"])))
    rows = sorted(table.to_pylist(), key=lambda row: (row["true_time"], row["process"], row["index"]))
    crashed = {row["process"]: row["true_time"] for row in rows if row["kind"] == "crash"}
    targets: dict[tuple[int, ProcessId], int] = {}
    rejected: dict[tuple[int, ProcessId], None] = {}
    for row in rows:
        detail = json.loads(row["detail"]) if row["detail"] else {}
        sender: ProcessId = row["sender"] or detail.get("of", "")
        if row["kind"] == "decide" and plan.family == "overtaking" and row["true_time"] > crashed.get(sender, 1 << 62):
            targets[detail["stamp"], sender] = crashed[sender]
            if not detail["decision"]:
                rejected[detail["stamp"], sender] = None
        elif row["kind"] == "sent" and plan.family == "timing":
            targets[detail["stamp"], sender] = row["true_time"]
    likely = sorted(target for target in targets if target not in rejected) or sorted(targets)
    for stamp, sender in plan.random.sample(likely, min(len(likely), plan.random.choice((1, 1, 2, 3)))):
        plan.aim(stamp, place_of(sender), targets[stamp, sender])
    return dataclasses.replace(scenario, fault=plan.sorted())
