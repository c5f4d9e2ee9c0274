"""Runs as protocols on common memory make them, without running one: groups without views, members by the rank of their ``join``
and ``leave``, processes that only send, rows about sends that have completed, decisions, and timing faults.

There is one sequence of messages, by timestamp. A member delivers what lies between its entry and its exit, some time after the
timestamp; a message that was rejected is sent again with a later one, and keeps its number.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from .random_traces import Event, RandomRun

PLACES = 64
BOUNDS = {"send": 40, "deliver": 400}
PROMISES = ["integrity", "identical", "total", "agreement", "uniform", "validity", "unanimity", "bounded"]


def mailbox_run(
    seed: int,
    name: str,
    *,
    members: int = 3,
    only_send: int = 1,
    messages: int = 20,
    joins: bool = False,
    leaves: bool = False,
    crashes: bool = False,
    faulty: bool = False,
    decisions: bool = True,
) -> RandomRun:
    """The run of a seed. ``faulty``: one process has a timing fault and takes longer than bounds allow."""
    return _Mailbox(Random(f"mailbox {seed}"), members, only_send).run(
        name, messages, joins=joins, leaves=leaves, crashes=crashes, faulty=faulty, decisions=decisions
    )


class _Mailbox:
    def __init__(self, random: Random, members: int, only_send: int) -> None:
        self.random = random
        self.members = [f"p{number}" for number in range(1, members + 1)]
        self.senders = [f"s{number}" for number in range(1, only_send + 1)]
        self.places = {name: place for place, name in enumerate([*self.members, *self.senders, "late"])}
        self.timed: dict[str, list[tuple[int, int, Event]]] = {name: [] for name in (*self.members, *self.senders)}
        """By process: (time, order of writing, event)."""
        self.entry: dict[str, int] = dict.fromkeys(self.members, 0)
        self.exit: dict[str, int] = {}
        self.dead: dict[str, int] = {}
        self.count = 0

    def add(self, process: str, time: int, kind: str, **columns: Any) -> None:
        if time > self.dead.get(process, time):
            return
        self.count += 1
        if isinstance(columns.get("detail"), dict):
            columns["detail"] = json.dumps(columns["detail"])
        event: Event = {"kind": kind, "time": time, "true_time": time, **columns}
        self.timed[process].append((time, self.count, event))

    def rank(self, stamp: int, process: str) -> int:
        return stamp * PLACES + self.places[process]

    def run(
        self, name: str, messages: int, *, joins: bool, leaves: bool, crashes: bool, faulty: bool, decisions: bool
    ) -> RandomRun:
        end = 1_000 + 100 * messages + 2_000
        slow = self.random.choice([*self.members, *self.senders]) if faulty else None
        if crashes and len(self.members) > 1:
            self.dead[self.random.choice([who for who in self.members if who != slow])] = self.random.randint(1_000, end - 2_000)
        if joins:
            self.timed["late"] = []
            self.entry["late"] = self.random.randint(1_000, end - 2_500)
        if leaves:
            self.exit[self.random.choice(self.members)] = self.random.randint(1_000, end - 2_500)
        start = {"version": 1, "promises": PROMISES, "bounds": BOUNDS}
        for who in self.timed:
            self.add(who, 0, "start", detail=start)
            if who in self.entry:
                self.add(who, self.entry[who], "join", group="g", rank=self.rank(self.entry[who], who))
            if who == slow:
                self.add(who, 500, "fault", detail={"fault": "timing", "timing": True, "operation": "write", "copy": 0})
        self._traffic(messages, slow, decisions=decisions)
        for who in self.timed:
            if who in self.dead:
                self.add(who, self.dead[who], "crash")
            else:
                if who in self.exit:
                    self.add(who, self.exit[who] + 900, "leave", group="g", rank=self.rank(self.exit[who], who))
                self.add(who, end, "end", detail={"drained": True})
        histories = {who: [event for _, _, event in sorted(mine, key=lambda row: row[:2])] for who, mine in self.timed.items()}
        chosen = {"joins": joins, "leaves": leaves, "crashes": crashes, "faulty": faulty}
        features = {feature for feature, is_there in chosen.items() if is_there}
        return RandomRun(name, histories, PROMISES, features)

    def _traffic(self, messages: int, slow: str | None, *, decisions: bool) -> None:
        numbers: dict[str, int] = {}
        busy: dict[str, int] = {}
        """By process: until when it has a message that is not decided on."""
        for place in range(messages):
            sender = self.random.choice(sorted(self.timed))
            began = 1_000 + 100 * place + self.random.randint(0, 50)
            if began < max(self.entry.get(sender, 0), busy.get(sender, 0)) or began > self.exit.get(sender, began):
                continue
            if began > self.dead.get(sender, began):
                continue
            numbers[sender] = seq = numbers.get(sender, 0) + 1
            about = {"group": "g", "sender": sender, "seq": seq}
            self.add(sender, began, "send", digest=seq, **about)
            stamp = began
            if sender == slow and self.random.random() < 0.5:
                self.add(sender, began + 700, "late", **about, detail={"stamp": stamp})
                stamp += 700
                busy[sender] = stamp + 300
            took = self.random.randint(1, 40) if sender != slow else self.random.randint(30, 90)
            if began + took > self.dead.get(sender, began + took):
                continue  # nobody accepts what was not written in time
            self.add(sender, stamp + took, "sent", **about, detail={"took_ns": took, "stamp": stamp})
            for who, entry in self.entry.items():
                if entry <= stamp <= self.exit.get(who, stamp):
                    self._deliver(who, began, stamp, about, late=who == slow, decisions=decisions)

    def _deliver(self, who: str, began: int, stamp: int, about: dict[str, Any], *, late: bool, decisions: bool) -> None:
        when = stamp + (300 if not late else 800) + self.places[who]
        rank = stamp * PLACES + self.places[about["sender"]]
        if decisions:
            detail = {"stamp": stamp, "decision": 1, "copy": 0, "took_ns": 30}
            self.add(who, when - 20, "decide", **about, detail=detail)
        self.add(who, when, "deliver", **about, sent=began, rank=rank, digest=about["seq"])
