"""Runs of many overlapping groups as a correct protocol would leave them, without running one: total order by Lamport's numbers,
or causal order by vector clocks.

Theory of operation
-------------------
A message is in the mail of all members of its group at once; each process takes from its mail at its own pace.

- ``total``: a process has one counter for all its groups; a message is numbered one above it. A process takes the least
  message of its mail, and everybody who could still send it something smaller moves its counter up first (which may be done
  at any time, and stands for what null messages do). The number, with a hash of the sender below it, is the rank.
- ``causal``: a process takes any message before which nothing else of its mail happened. If it tries another, that one waits
  (``block``) and is delivered in the moment in which the last that it waits for is.

A *batch* is up to three messages of one sender, with one number. ``python -m tests.lab.overlapping_traces`` measures how fast
long runs are verified.
"""

from __future__ import annotations

import argparse
import heapq
import json
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from plainchant.trace.schema import SCHEMA

Groups = Mapping[str, Sequence[str]]

CAUSAL = ("integrity", "fifo", "causal", "self-delivery", "validity", "agreement")
PROMISES = {"total": (*CAUSAL, "identical", "total", "acyclic"), "causal": (*CAUSAL, "prompt")}
_COLUMNS = ("kind", "time", "group", "sender", "seq", "sent", "rank", "digest")
_WINDOW = 6
_MOST_MAIL = 40


def chain(count: int, size: int = 3) -> dict[str, list[str]]:
    """Each group shares its last member with the next one."""
    return {f"g{g}": [f"p{g * (size - 1) + member:02d}" for member in range(size)] for g in range(count)}


def ring(count: int, size: int = 3) -> dict[str, list[str]]:
    """A chain whose last group shares a member with the first."""
    number = count * (size - 1)
    return {f"g{g}": [f"p{(g * (size - 1) + member) % number:02d}" for member in range(size)] for g in range(count)}


def star(count: int, size: int = 3) -> dict[str, list[str]]:
    """One process is in all groups."""
    return {f"g{g}": ["p00", *(f"p{1 + g * (size - 1) + member:02d}" for member in range(size - 1))] for g in range(count)}


def clique(count: int) -> dict[str, list[str]]:
    """Every two groups share a process, each two another one."""
    pairs = list(combinations(range(count), 2))
    return {f"g{g}": [f"p{number:02d}" for number, pair in enumerate(pairs) if g in pair] for g in range(count)}


SHAPES: Mapping[str, Groups] = {"chain": chain(8), "ring": ring(8), "star": star(8), "clique": clique(8)}


class _Message(NamedTuple):
    rank: int
    sender: int
    number: int
    """Of the sender's batches."""
    group: str
    first: int
    size: int
    sent: int
    clock: list[int]


class _Process:
    def __init__(self, name: str, place: int, size: int) -> None:
        self.name = name
        self.place = place
        self.groups: list[str] = []
        self.near: set[int] = set()
        self.counter = 0
        self.clock = [0] * size
        self.mail: list[_Message] = []
        self.waiting: list[_Message] = []
        self.rows: list[tuple[Any, ...]] = []


class World:
    """One run while it is made."""

    def __init__(self, groups: Groups, order: str, seed: int = 0, *, batches: bool = True, clocked: bool = True) -> None:
        self.random = Random(f"{order} {seed}")
        self.order = order
        self.batches = batches
        self.clocked = clocked
        self.groups = groups
        self.now = 0
        names = sorted({name for members in groups.values() for name in members})
        self.processes = [_Process(name, place, len(names)) for place, name in enumerate(names)]
        self.members = {group: [self.processes[names.index(name)] for name in members] for group, members in groups.items()}
        for group, members in self.members.items():
            for process in members:
                process.groups.append(group)
                process.near |= {other.place for other in members}
        self.taken: dict[tuple[str, str], int] = {}

    def run(self, rows: int, name: str = "r0") -> pa.Table:
        """The trace of a run with about so many rows."""
        written = 0
        while written < rows:
            process = self.random.choice(self.processes)
            if self.random.random() < 0.35:
                written += self._send(process)
            while process.mail and (self.random.random() < 0.8 or len(process.mail) > _MOST_MAIL):
                self._take(process)
        for process in self.processes:
            while process.mail:
                self._take(process)
        return self._table(name)

    def _send(self, process: _Process) -> int:
        """Sends a batch; returns how many rows it comes to."""
        group = self.random.choice(process.groups)
        size = self.random.choice((1, 1, 2, 3)) if self.batches else 1
        first = self.taken.get((group, process.name), 0) + 1
        self.taken[group, process.name] = first + size - 1
        process.counter += 1
        process.clock[process.place] += 1
        self.now += self.random.randint(1, 9)
        rank = process.counter << 24 | zlib.crc32(process.name.encode()) & 0xFFFFFF
        clock = process.clock.copy() if self.order == "causal" else []
        message = _Message(rank, process.place, process.clock[process.place], group, first, size, self.now, clock)
        process.rows += [("send", self.now, group, process.name, seq, None, None, seq) for seq in range(first, first + size)]
        for member in self.members[group]:
            if self.order == "total":
                heapq.heappush(member.mail, message)
            else:
                member.mail.append(message)
        return size * (len(self.members[group]) + 1)

    def _take(self, process: _Process) -> None:
        self.now += self.random.randint(1, 9)
        if self.order == "total":
            message = heapq.heappop(process.mail)
            for place in process.near:
                self.processes[place].counter = max(self.processes[place].counter, message.rank >> 24)
            self._deliver(process, message)
            return
        message = process.mail[self.random.randrange(min(_WINDOW, len(process.mail)))]
        if message in process.waiting:
            return
        if not _is_free(process, message):
            process.waiting.append(message)
            row = (message.group, self.processes[message.sender].name, message.first, None, None, None)
            process.rows.append(("block", self.now, *row))
            return
        freed: _Message | None = message
        while freed is not None:
            process.mail.remove(freed)
            self._deliver(process, freed)
            freed = next((waiting for waiting in process.waiting if _is_free(process, waiting)), None)
            if freed is not None:
                process.waiting.remove(freed)

    def _deliver(self, process: _Process, message: _Message) -> None:
        if message.clock:
            process.clock = list(map(max, process.clock, message.clock))
        name = self.processes[message.sender].name
        rank = message.rank if self.order == "total" else None
        process.rows += [
            ("deliver", self.now, message.group, name, seq, message.sent, rank, seq)
            for seq in range(message.first, message.first + message.size)
        ]

    def _table(self, name: str) -> pa.Table:
        promises = json.dumps({"version": 1, "promises": list(PROMISES[self.order])})
        return pa.concat_tables([self._history(name, process, promises) for process in self.processes])

    def _history(self, run: str, process: _Process, promises: str) -> pa.Table:
        nothing = (None,) * 5
        rows = [
            ("start", 0, None, *nothing),
            *(("view", 0, group, *nothing) for group in process.groups),
            *process.rows,
            ("end", self.now, None, *nothing),
        ]
        listed = dict(zip(_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
        size, views = len(rows), len(process.groups)
        members = [None, *(list(self.groups[group]) for group in process.groups), *[None] * (size - 1 - views)]
        columns: dict[str, Any] = {
            **listed,
            "run": pa.repeat(run, size),
            "process": pa.repeat(process.name, size),
            "index": list(range(size)),
            "view": [None if group is None else 1 for group in listed["group"]],
            "members": members,
            "detail": [promises, *[None] * (size - 2), '{"drained": true}'],
        }
        if self.clocked:
            columns["true_time"] = listed["time"]
        return pa.table(
            [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(size, f.type) for f in SCHEMA], schema=SCHEMA
        )


def _is_free(process: _Process, message: _Message) -> bool:
    """Whether nothing that is still in the mail happened before the message."""
    for other in process.mail:
        if other is message:
            return True
        if message.clock[other.sender] >= other.number:
            return False
    raise AssertionError("what waits is in the mail")


def trace(shape: str, order: str, rows: int, seed: int = 0, name: str = "r0", **options: bool) -> pa.Table:
    """The trace of a correct run of eight groups."""
    return World(SHAPES[shape], order, seed, **options).run(rows, name)


def _measure(events: int, shapes: Sequence[str], orders: Sequence[str]) -> None:
    from plainchant.lab.session import session
    from plainchant.lab.verify import verify
    from plainchant_workbench.lab.memory import Peak

    with tempfile.TemporaryDirectory() as directory, session("local[2]") as spark:
        for shape, order in product(shapes, orders):
            path = Path(directory) / f"{shape}-{order}.parquet"
            table = trace(shape, order, events)
            pq.write_table(table, path, compression="zstd", row_group_size=500_000)
            rows = table.num_rows
            del table
            seconds = []
            with Peak() as peak:
                for _ in range(2):
                    begun = time.monotonic()
                    found = verify(spark, [str(path)])
                    seconds.append(time.monotonic() - begun)
            size = f"{(peak.bytes or 0) / 1e6:.0f} MB"
            print(f"{shape} {order}: {rows} events, {min(seconds):.2f} s, {size}, {found.verdict}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES))
    parser.add_argument("--orders", nargs="*", default=list(PROMISES))
    given = parser.parse_args()
    _measure(given.events, given.shapes, given.orders)
