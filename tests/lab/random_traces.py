"""Small random runs as correct protocols would make them, without running one.

Theory of operation
-------------------
All that a group's processes are to do is put into *queues*, one for each process (or for each process and group), in one
global order; each process then works its queue off at its own pace. A view is an entry like a message, so that members
of a view deliver the same set between two views. What a protocol promises is which entries may overtake each other:

- ``total``: one queue a process, strictly in order: one order across all groups;
- ``grouped``: one queue for each group, strictly in order: one order in each group, as ``sequencer`` does it;
- ``causal``: a message may overtake whatever did not happen before it; ``fifo``: whatever is not of its sender. No message
  overtakes a view of its group.

A group's members form *components*; a partition splits one, each part goes on with views of its own, and a merge joins
them. Joins, leaves, crashes and returns are changes of a component. Everything is drawn from one seed: processes, groups,
faults, which optional columns there are, whether the run is drained.

Events are dictionaries without ``index``, ``view`` and ``run``, which :func:`table` fills in, so that mutations may move them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from plainchant.core.names import incarnation_of, place_of, process_name
from plainchant.trace.schema import SCHEMA

Event = dict[str, Any]
Message = tuple[str, str, int]
MODES = ("total", "grouped", "causal", "fifo")
EXPLANATIONS = ("null", "receive", "stable", "of their own")


@dataclass
class RandomRun:
    """The histories of one run and what it promises; ``features`` says what happened in it."""

    name: str
    histories: dict[str, list[Event]]
    promises: list[str]
    features: set[str] = field(default_factory=set)


def random_run(seed: int, name: str | None = None) -> RandomRun:
    """The correct run of a seed."""
    randoms = (Random(f"{part}random run {seed}") for part in ("", "times of ", "waits of "))
    return _World(*randoms).run(name or f"r{seed:06d}")


def table(runs: Iterable[RandomRun]) -> pa.Table:
    """The trace of some runs. Views in force, indices and the numbers of sends follow from where the rows stand."""
    rows: list[Event] = []
    for run in runs:
        for process, events in run.histories.items():
            rows += _placed(run.name, process, events)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _placed(run: str, process: str, events: Sequence[Event]) -> list[Event]:
    in_force: dict[str, int] = {}
    rows = []
    for index, event in enumerate(events):
        row = {**event, "run": run, "process": process, "index": index}
        group = event.get("group")
        if event["kind"] == "view":
            in_force[group or ""] = event["view"]
        elif group in in_force:
            row["view"] = in_force[group]
        if event["kind"] == "leave":
            in_force.pop(group or "", None)
        rows.append(row)
    return rows


@dataclass
class _Entry:
    """What members of a component are to do: deliver a message, or install a view (then ``message`` is None)."""

    group: str
    rank: int
    message: Message | None = None
    number: int = 0
    members: tuple[str, ...] = ()
    signatures: dict[str, int] = field(default_factory=dict)


@dataclass
class _Process:
    name: str
    skew: int
    events: list[Event] = field(default_factory=list)
    queue: list[_Entry] = field(default_factory=list)
    known: set[Message] = field(default_factory=set)
    """Its own messages and what it delivered, with all that happened before."""
    in_view: set[str] = field(default_factory=set)
    """Groups in which it may send: a view of its present stay is installed, or there are none."""
    alive: bool = True


@dataclass
class _Group:
    name: str
    viewed: bool
    joins: bool
    components: list[list[str]]
    number: int = 0
    used: set[tuple[int, tuple[str, ...]]] = field(default_factory=set)
    """Views that there were."""


class _World:
    """One run while it is made."""

    def __init__(self, random: Random, times: Random, waits: Random) -> None:
        self.random = random
        self.times = times
        """Decides what is said about times, and nothing of what happens."""
        self.waits = waits
        """The same for what ``progress`` looks at."""
        self.mode = random.choice(MODES)
        self.clocked = random.random() < 0.6
        self.ranked = self.mode in ("total", "grouped") and random.random() < 0.7
        self.digested = random.random() < 0.6
        self.signed = random.random() < 0.2
        self.synchronous = random.random() < 0.25
        self.changing = random.random() < 0.75
        self.blocks = self.mode == "causal" and not self.clocked
        self.drained = random.random() < 0.7
        self.healed = True
        self.now = 0
        self.rank = 0
        self.taken: dict[tuple[str, str], int] = {}
        self.sent_at: dict[Message, int] = {}
        self.past: dict[Message, frozenset[Message]] = {}
        self.waiting: list[Message] = []
        self.late = 0
        self.features: set[str] = {self.mode}
        self.processes: dict[str, _Process] = {}
        self.outsiders: list[str] = []
        self.groups: dict[str, _Group] = {}
        self._found()

    # --- beginning and end ----------------------------------------------------------------------------------------------

    def _found(self) -> None:
        names = [f"p{number}" for number in range(1, self.random.randint(2, 6) + 1)]
        for name in names:
            self._add_process(name)
        for group in ("g", "h", "k")[: self.random.choice((1, 1, 2, 2, 3))]:
            members = sorted(self.random.sample(names, self.random.randint(min(2, len(names)), len(names))))
            viewed = self.random.random() < 0.8
            self.groups[group] = _Group(group, viewed, viewed or self.random.random() < 0.6, [members])
            for name in members:
                self._enter(self.groups[group], name)
            if viewed:
                self._install(self.groups[group], members)
        if self.random.random() < 0.25:
            self.outsiders.append("s1")
            self._add_process("s1")
            self.features.add("outsider")
        memberships = [name for group in self.groups.values() for name in group.components[0]]
        if len(memberships) > len(set(memberships)):
            self.features.add("overlapping")
        if not all(group.viewed for group in self.groups.values()):
            self.features.add("no views")

    def run(self, name: str) -> RandomRun:
        for _ in range(self.random.randint(8, 45)):
            self._step()
        self._finish()
        promises = self._promises()
        if self.random.random() < 0.15 and self._is_static():
            self._set_deadlines()
            promises.append("deadline")
        else:
            self._hope_for_deadlines()
        bounds = self._bounds() | self._turns() | self._detections()
        if bounds and self.times.random() < 0.2:
            bounds = {name: self.times.randint(0, bound) for name, bound in bounds.items()}
        elif bounds:
            promises.append("bounded")
        waits = self._waits()
        bounds |= waits
        if waits and self.waits.random() < 0.2:
            bounds["progress"] = self.waits.randint(0, bounds["progress"])
            self._halt_some()
        elif waits:
            promises.append("progress")
        self._cut_some()
        self._lose_sight_of_one()
        stated = {"version": 1, "promises": promises, "bounds": bounds}
        detail = json.dumps(stated | ({"despite": self.waits.sample(["pause", "cut", "loss<=0.5"], 2)} if waits else {}))
        starters = list(self.processes.values()) if self.random.random() < 0.8 else list(self.processes.values())[:1]
        for process in starters:
            time = process.events[0]["time"] if process.events else 0
            process.events.insert(0, {"kind": "start", "time": time, "detail": detail})
        histories = {process.name: process.events for process in self.processes.values() if process.events}
        return RandomRun(name, histories, promises, self.features)

    def _finish(self) -> None:
        if self.drained or self.random.random() < 0.5:
            for group in self.groups.values():
                if len(group.components) > 1 and self.random.random() < 0.8:
                    self._merge(group)
                self.healed = self.healed and len(group.components) == 1
            self._order(len(self.waiting))
        detail = json.dumps({"drained": self.drained} | ({} if self.healed else {"healed": False}))
        for process in self.processes.values():
            if process.alive:
                if self.drained:
                    self._work_off(process)
                self._write(process, {"kind": "end", "detail": detail})
        self.features |= {"drained" if self.drained else "not drained"} | (set() if self.healed else {"never healed"})

    def _promises(self) -> list[str]:
        names = ["integrity", "fifo", "self-delivery", "validity", "agreement", "view-order", "view-atomicity"]
        names += ["view-exclusion", "convergence", "sender-in-view", "disjoint-views", "unanimity"]
        if "outsider" in self.features and {"crash", "leave", "partition"} & self.features:
            names.remove("validity")  # an outsider's message may reach only members that are gone in the end
        if self.mode in ("total", "grouped"):
            names += ["identical", "uniform"]
        if self.mode == "total" or (self.mode == "grouped" and len(self.groups) == 1):
            names += ["causal", "total", "acyclic"]
        if self.mode == "causal":
            names.append("causal")
        # Who crashes, or is stopped, while something waits never shows what it waited for.
        if self.blocks and self.drained and "crash" not in self.features:
            names.append("prompt")
        if self.synchronous:
            names.append("same-view")
        return names

    def _is_static(self) -> bool:
        changed = {"crash", "leave", "join", "partition", "outsider"} & self.features
        return not changed and self.drained

    def _set_deadlines(self) -> None:
        """What turned out to be the longest delivery becomes the guarantee: it is kept to the nanosecond."""
        longest = 0
        for process in self.processes.values():
            for event in process.events:
                if event["kind"] == "deliver":
                    longest = max(longest, event["time"] - process.skew - self.sent_at[_message(event)])
        for process in self.processes.values():
            for event in process.events:
                if event["kind"] == "send":
                    event["deadline"] = event["time"] + longest
                elif event["kind"] == "deliver" and self.random.random() < 0.5:
                    event["deadline"] = self.sent_at[_message(event)] + longest + process.skew
        self.features.add("deadlines")

    def _hope_for_deadlines(self) -> None:
        """Deadlines that nobody guarantees, in runs in which members come and go."""
        if self.times.random() < 0.6:
            return
        longest = self.times.choice((10, 100, 1_000))
        for process in self.processes.values():
            for event in process.events:
                if event["kind"] == "send" and self.times.random() < 0.8:
                    event["deadline"] = event["time"] + self.times.randint(1, longest)
                elif event["kind"] == "deliver" and self.times.random() < 0.1:
                    event["deadline"] = event["time"] + self.times.randint(-1, longest)
        self.features.add("hopes")

    def _turns(self) -> dict[str, int]:
        """A token comes to processes now and then; the longest that it was away between two views is its bound."""
        if self.times.random() < 0.5:
            return {}
        longest = 0
        for process in self.processes.values():
            last: dict[str, int] = {}
            events: list[Event] = []
            for event in process.events:
                if event["kind"] in ("view", "leave"):
                    last.pop(event["group"], None)
                events.append(event)
                if event["kind"] in ("crash", "end") or self.times.random() < 0.5:
                    continue
                group = self.times.choice(sorted(self.groups))
                moment: Event = {column: event[column] for column in ("time", "true_time") if column in event}
                events.append({"kind": "token", "group": group, **moment})
                longest = max(longest, event["time"] - last.get(group, event["time"]))
                last[group] = event["time"]
            process.events = events
        self.features.add("turns")
        return {"rotation": longest}

    def _detections(self) -> dict[str, int]:
        """Nobody takes longer to notice a crash than the run takes."""
        if not self.clocked or self.times.random() < 0.5:
            return {}
        self.features |= {"detections"} if "crash" in self.features else set()
        return {"detection": self.now}

    def _bounds(self) -> dict[str, int]:
        if not self.clocked or self.random.random() < 0.6:
            return {}
        events = [event for process in self.processes.values() for event in process.events]
        sizes = self._sizes(events) if self.times.random() < 0.3 else {}
        bounded = [event for event in events if event["kind"] == "deliver" and event.get("size", 0) <= sizes.get("size", 0)]
        took = [event["true_time"] - event["sent"] for event in bounded]
        for event in events:
            if event["kind"] == "send" and self.random.random() < 0.5:
                event["detail"] = json.dumps({"took_ns": self.random.randint(1, 9)})
        if self.times.random() < 0.5:
            self._complete_sends()
        self.features.add("bounds")
        return {"deliver": max(took, default=0), "send": 9} | sizes

    def _sizes(self, events: list[Event]) -> dict[str, int]:
        """Messages have sizes, and bounds are for those up to one of them."""
        for event in events:
            if event["kind"] in ("send", "deliver"):
                event["size"] = _digest(_message(event)) % 4
        self.features.add("sizes")
        return {"size": self.times.randint(1, 3)}

    def _complete_sends(self) -> None:
        """Of some sends there are rows that tell how long they took."""
        for process in self.processes.values():
            events: list[Event] = []
            for event in process.events:
                events.append(event)
                if event["kind"] == "send" and self.times.random() < 0.5:
                    told = {"kind": "sent", "detail": json.dumps({"took_ns": self.times.randint(1, 9)})}
                    kept = ("group", "sender", "seq", "time", "true_time")
                    events.append({column: event[column] for column in kept if column in event} | told)
            process.events = events
        self.features.add("completed sends")

    def _waits(self) -> dict[str, int]:
        """Messages are accepted, and faults come and go; a message waits no longer than the run takes."""
        if self.waits.random() < 0.6:
            return {}
        moments = [event[column] for process in self.processes.values() for event in process.events for column in _clocks(event)]
        longest = max(moments, default=0) - min(moments, default=0) + 1
        for process in self.processes.values():
            events: list[Event] = []
            for event in process.events:
                moment: Event = {column: event[column] for column in _clocks(event)}
                if event["kind"] == "send" and self.waits.random() < 0.9:
                    accepted: Event = {
                        column: event[column] for column in ("group", "sender", "digest", "size") if column in event
                    }
                    events.append({"kind": "accept", **accepted, **moment})
                elif self.waits.random() < 0.05:
                    told = {"fault": self.waits.choice(["pause", "cut", "loss"]), "length": self.waits.randint(0, longest)}
                    told["rate"] = self.waits.choice([0.3, 0.7])
                    events.append({"kind": "fault", "detail": json.dumps(told), **moment})
                events.append(event)
            process.events = events
        self.features.add("waits")
        return {"progress": longest}

    def _halt_some(self) -> None:
        """Their protocol has halted some that crashed; the trace does not promise ``progress``, which may be violated by it."""
        for process in self.processes.values():
            for event in process.events[-1:]:
                if event["kind"] == "crash" and self.waits.random() < 0.7:
                    event["detail"] = '{"by": "protocol", "reason": "excluded"}'
                    self.features.add("halt")

    def _cut_some(self) -> None:
        """Of some that crashed the last rows were lost, or nobody wrote down that they crashed."""
        for process in self.processes.values():
            if process.events and process.events[-1]["kind"] == "crash" and self.random.random() < 0.4:
                process.events.pop()
                for _ in range(self.random.choice((0, 0, 1, 3))):
                    if process.events and process.events[-1]["kind"] not in ("leave", "join", "view"):
                        process.events.pop()
                if process.events and process.events[-1]["kind"] != "leave":
                    self.features.add("cut")

    def _lose_sight_of_one(self) -> None:
        """A member of viewed groups alone was not observed at all."""
        if self.random.random() < 0.1:
            name = self.random.choice(list(self.processes))
            groups = {event["group"] for event in self.processes[name].events if event.get("group")}
            named = all(self.groups[group].viewed for group in groups) and name not in self.outsiders
            entered = any(event["kind"] == "view" for event in self.processes[name].events)
            if named and entered and len(self.processes) > 2:
                del self.processes[name]
                self.features.add("unobserved")

    # --- steps ----------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        dice = self.random.random()
        if dice < 0.40:
            self._send()
        elif dice < 0.85:
            process = self.random.choice([p for p in self.processes.values() if p.alive])
            for _ in range(self.random.randint(1, 6)):
                self._work(process)
        elif dice < 0.90:
            self._explain()
        elif self.changing:
            self._change(self.random.choice(list(self.groups.values())))
        if self.random.random() < 0.6:
            self._order(self.random.randint(0, len(self.waiting)))

    def _send(self) -> None:
        process = self.random.choice([p for p in self.processes.values() if p.alive])
        groups = sorted(process.in_view) if process.name not in self.outsiders else sorted(self.groups)
        if self.synchronous:
            pending = {entry.group for entry in process.queue if entry.message is None}
            groups = [group for group in groups if group not in pending]
        if not groups or (process.name in self.outsiders and self.mode != "total" and len(groups) > 1):
            return
        group = self.random.choice(groups)
        number = self.taken.get((group, process.name), 0) + 1
        self.taken[group, process.name] = number
        message = (group, process.name, number)
        event = self._about(message, "send")
        if self.digested and self.random.random() < 0.9:
            event["digest"] = _digest(message)
        self.sent_at[message] = self._write(process, event)
        self.past[message] = frozenset(process.known)
        process.known.add(message)
        self.waiting.append(message)

    def _explain(self) -> None:
        process = self.random.choice([p for p in self.processes.values() if p.alive])
        kind = self.random.choice((*EXPLANATIONS, "reject", "fault"))
        event: Event = {"kind": kind}
        if kind == "reject":
            event |= {"group": self.random.choice(sorted(self.groups)), "sender": process.name, "seq": 1_000}
        elif kind == "fault":
            event["detail"] = self.random.choice(('{"fault": "pause"}', '{"fault": "timing"}', '{"timing": true}'))
        elif process.in_view:
            event["group"] = self.random.choice(sorted(process.in_view))
        self._write(process, event)

    def _change(self, group: _Group) -> None:
        """Somebody crashes, leaves, joins or comes back; or the group splits or merges."""
        members = [name for component in group.components for name in component]
        what = self.random.choice(("crash", "leave", "join", "join", "join", "partition", "merge"))
        if what == "crash" and len(members) > 1:
            self._crash(self.random.choice(members))
        elif what == "leave" and len(members) > 1 and group.viewed:
            self._leave(group, self.random.choice(members))
        elif what == "join" and group.viewed and members:
            self._join(group)
        elif what == "partition" and group.viewed:
            self._split(group)
        elif what == "merge" and len(group.components) > 1:
            self._merge(group)

    def _crash(self, name: str) -> None:
        process = self.processes[name]
        process.alive = False
        process.queue.clear()
        self._write(process, {"kind": "crash", "detail": '{"by": "fault"}'})
        self.waiting = [message for message in self.waiting if message[1] != name]
        for group in self.groups.values():
            for component in group.components:
                if name in component:
                    self._settle()
                    component.remove(name)
                    if group.viewed and component:
                        self._install(group, component)
            group.components = [component for component in group.components if component]
        self.features.add("crash")

    def _leave(self, group: _Group, name: str) -> None:
        process = self.processes[name]
        component = next(component for component in group.components if name in component)
        self._order(len(self.waiting))
        self._work_off(process)
        self._write(process, {"kind": "leave", "group": group.name} | self._ranked(self.rank))
        process.in_view.discard(group.name)
        component.remove(name)
        if component:
            self._install(group, component)
        group.components = [component for component in group.components if component]
        self.features.add("leave")

    def _join(self, group: _Group) -> None:
        members = [name for component in group.components for name in component]
        absent = [p for p in self.processes.values() if p.alive and p.name not in members and p.name not in self.outsiders]
        # Whoever still has something of that group before it would get old and new mixed up.
        absent = [p for p in absent if not any(entry.group == group.name for entry in p.queue)]
        if absent and self.random.random() < 0.6:
            away = [p for p in absent if any(e["kind"] == "leave" and e["group"] == group.name for e in p.events)]
            process = self.random.choice(away or absent)
            self.features |= {"readmission"} if away else set()
        else:
            process = self._newcomer()
        component = self.random.choice(group.components)
        self._settle()
        component.append(process.name)
        component.sort()
        self._enter(group, process.name)
        self._install(group, component)
        self.features.add("join")

    def _newcomer(self) -> _Process:
        """A process that was not there before: the next incarnation of one that crashed, or a new name."""
        dead = [p.name for p in self.processes.values() if not p.alive]
        names = [_next_incarnation(name) for name in dead]
        names = [name for name in names if name not in self.processes]
        if names and self.random.random() < 0.7:
            self.features.add("incarnation")
            return self._add_process(self.random.choice(names))
        self.late += 1
        return self._add_process(f"q{self.late}")

    def _split(self, group: _Group) -> None:
        component = self.random.choice(group.components)
        if len(component) < 2:
            return
        self._settle()
        part = sorted(self.random.sample(component, self.random.randint(1, len(component) - 1)))
        rest = [name for name in component if name not in part]
        group.components.remove(component)
        group.components += [part, rest]
        self._install(group, part)
        self._install(group, rest)
        self.features.add("partition")

    def _merge(self, group: _Group) -> None:
        self._settle()
        group.components = [sorted(name for component in group.components for name in component)]
        self._install(group, group.components[0])
        self.features.add("merge")

    def _settle(self) -> None:
        """Original virtual synchrony: before a view changes, what was sent in it is ordered."""
        if self.synchronous:
            self._order(len(self.waiting))

    # --- queues ---------------------------------------------------------------------------------------------------------

    def _order(self, count: int) -> None:
        """The first of the messages that wait are put into the queues of their sender's component."""
        ordered, self.waiting = self.waiting[:count], self.waiting[count:]
        for message in ordered:
            components = self.groups[message[0]].components
            home = next((c for c in components if message[1] in c), None)
            if home is None and message[1] in self.outsiders and components:
                home = self.random.choice(components)
            if home is not None:
                self.rank += 1
                for name in home:
                    self.processes[name].queue.append(_Entry(message[0], self.rank, message))

    def _install(self, group: _Group, members: Sequence[str]) -> None:
        if len(group.components) > 1 and group.number and self.random.random() < 0.4:
            self.features.add("concurrent numbers")  # parts count for themselves: another's number, other members
        else:
            group.number += self.random.choice((1, 1, 1, 2))
        while (group.number, tuple(members)) in group.used:
            group.number += 1
        group.used.add((group.number, tuple(members)))
        self.rank += 1
        signatures = {name: self.rank for name in members} if self.signed else {}
        for name in members:
            entry = _Entry(group.name, self.rank, None, group.number, tuple(members), signatures)
            self.processes[name].queue.append(entry)

    def _work_off(self, process: _Process) -> None:
        while process.queue:
            self._work(process)

    def _work(self, process: _Process) -> None:
        """Does one thing that is in its queue, if there is one."""
        open_ones = self._open(process)
        if not open_ones:
            return
        entry = self.random.choice(open_ones)
        if self.blocks and self.random.random() < 0.2:
            self._block(process)
        process.queue.remove(entry)
        if entry.message is None:
            event: Event = {"kind": "view", "group": entry.group, "view": entry.number, "members": list(entry.members)}
            if entry.signatures:
                event["detail"] = json.dumps({"signatures": entry.signatures})
            self._write(process, event)
            process.in_view.add(entry.group)
            return
        event = self._about(entry.message, "deliver") | self._ranked(entry.rank)
        if self.clocked:
            event["sent"] = self.sent_at[entry.message]
        if self.digested:
            event["digest"] = _digest(entry.message)
        self._write(process, event)
        process.known |= self.past[entry.message] | {entry.message}

    def _open(self, process: _Process) -> list[_Entry]:
        """The entries that may come next."""
        if self.mode == "total":
            return process.queue[:1]
        found: list[_Entry] = []
        closed: set[str] = set()
        before: list[_Entry] = []
        for entry in process.queue:
            first_of_group = not any(other.group == entry.group for other in before)
            if self.mode == "grouped":
                is_open = first_of_group
            elif entry.message is None:
                is_open = first_of_group
                closed.add(entry.group)
            else:
                is_open = entry.group not in closed and not self._has_to_wait(entry.message, before)
            found += [entry] if is_open else []
            before.append(entry)
        return found

    def _has_to_wait(self, message: Message, before: Sequence[_Entry]) -> bool:
        if self.mode == "fifo":
            return any(entry.message is not None and entry.message[:2] == message[:2] for entry in before)
        return any(entry.message in self.past[message] for entry in before if entry.message is not None)

    def _block(self, process: _Process) -> None:
        """A message arrives whose past has not: it waits."""
        waiting = [e for at, e in enumerate(process.queue) if e.message and self._has_to_wait(e.message, process.queue[:at])]
        if waiting:
            message = self.random.choice(waiting).message
            assert message is not None
            self._write(process, self._about(message, "block"))
            self.features.add("block")

    # --- rows -----------------------------------------------------------------------------------------------------------

    def _add_process(self, name: str) -> _Process:
        process = _Process(name, self.random.randint(-1_000, 1_000) if self.clocked else 0)
        self.processes[name] = process
        return process

    def _enter(self, group: _Group, name: str) -> None:
        if group.joins and (not group.viewed or self.random.random() < 0.9):
            self._write(self.processes[name], {"kind": "join", "group": group.name} | self._ranked(self.rank))
        if not group.viewed:
            self.processes[name].in_view.add(group.name)

    def _ranked(self, rank: int) -> Event:
        return {"rank": rank} if self.ranked else {}

    def _about(self, message: Message, kind: str) -> Event:
        return {"kind": kind, "group": message[0], "sender": message[1], "seq": message[2]}

    def _write(self, process: _Process, event: Event) -> int:
        """Adds a row to a history; returns the global time."""
        self.now += self.random.randint(1, 9)
        event["time"] = self.now + process.skew
        if self.clocked:
            event["true_time"] = self.now
        process.events.append(event)
        return self.now


def _message(event: Event) -> Message:
    return event["group"], event["sender"], event["seq"]


def _digest(message: Message) -> int:
    return int.from_bytes(f"{message[0]}{message[1]}{message[2]}".encode()[-6:], "big")


def _next_incarnation(name: str) -> str:
    return process_name(place_of(name), incarnation_of(name) + 1)


def _clocks(event: Event) -> list[str]:
    """The columns that say when an event happened."""
    return [column for column in ("time", "true_time") if event.get(column) is not None]
