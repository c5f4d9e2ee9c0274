"""What a person wants to know first about a run that is under way, from its facts, in bounded memory.

Are all there; who is not, and why; how fast; how late; who is blocked, and by what; and the messages of the last seconds. Every
number is of the last seconds, by the times in the facts; ``now`` is the source's: the time of day live, the replay's clock else.

**Ranges.** Facts are ranges of messages, and so is the work: counting and timing a batch costs as much as one message. When a
message was sent is looked up in the last ranges of its sender; a delivery that is read before its send waits for a round.

**Sampling.** The flow shows messages whose number is a multiple of ``stride``, which grows when more would be drawn than a screen
takes. So a message that is drawn is drawn at every process, and the page says how many stand behind it.
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from ...core.words import natural
from ...trace.fact import Fact
from . import words

SECOND: Final = 1_000_000_000
SERIES: Final = 60
"""Seconds of rates and latencies that are shown."""
WINDOW: Final = 5
"""Seconds that a present rate is of."""
LATENCY_WINDOW: Final = 10
FLOW_SECONDS: Final = 6
FLOW_ROUND: Final = 240
"""Marks of the flow in one round, about."""
FLOW_KEPT: Final = 3_000
RANGES: Final = 4_000
"""Ranges of sent messages that are remembered of each sender and group."""
PENDING: Final = 5_000
LOG: Final = 60
VIEWS: Final = 30
MOST_RUNS: Final = 8
MOST_PROCESSES: Final = 200
STEPS: Final = 8
"""Steps of the latency scale from one power of two to the next."""
QUIET: Final = 5 * SECOND
_ENDS: Final = {
    "end": ("ended", "it ended in good order"),
    "killed": ("killed", "it ended without a word: killed, or its machine failed"),
    "crash": None,
}
"""The state of a process whose history has ended, and why; None: its row tells why."""
Json: TypeAlias = dict[str, Any]


def _ms(time: int) -> float:
    return round(time / 1e6, 3)


class SentTimes:
    """When the last messages of a sender in a group were sent."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._entries: list[tuple[int, int]] = []

    def add(self, first: int, count: int, time: int) -> None:
        self._firsts.append(first)
        self._entries.append((first + count, time))
        if len(self._firsts) > 2 * RANGES:
            del self._firsts[:RANGES], self._entries[:RANGES]

    def find(self, seq: int) -> int | None:
        place = bisect_right(self._firsts, seq) - 1
        return self._entries[place][1] if place >= 0 and seq < self._entries[place][0] else None


class Latencies:
    """How long messages took, second by second, on a logarithmic scale: bounded whatever comes."""

    def __init__(self) -> None:
        self._seconds: dict[int, Counter[int]] = {}

    def add(self, second: int, took: int, count: int) -> None:
        self._seconds.setdefault(second, Counter())[int(math.log2(max(took, 1)) * STEPS)] += count
        if len(self._seconds) > 2 * SERIES:
            del self._seconds[min(self._seconds)]

    def quantile(self, share: float, until: int, seconds: int) -> float | None:
        """In ms, over the seconds before; None if nothing was delivered."""
        counts: Counter[int] = Counter()
        for second in range(until - seconds + 1, until + 1):
            counts.update(self._seconds.get(second, {}))
        wanted = share * counts.total()
        if not counts:
            return None
        for step in sorted(counts):
            wanted -= counts[step]
            if wanted <= 0:
                break
        return round(2 ** ((step + 0.5) / STEPS) / 1e6, 4)

    def present(self, second: int) -> dict[str, float | None]:
        return {name: self.quantile(share, second, LATENCY_WINDOW) for name, share in (("p50", 0.5), ("p99", 0.99))}


class Rates:
    """How many a second."""

    def __init__(self) -> None:
        self._seconds: dict[int, int] = {}
        self.total = 0

    def add(self, second: int, count: int) -> None:
        self.total += count
        self._seconds[second] = self._seconds.get(second, 0) + count
        if len(self._seconds) > 2 * SERIES:
            del self._seconds[min(self._seconds)]

    def now(self, second: int) -> float:
        """A second, over the last whole ones."""
        return round(sum(self._seconds.get(second - back, 0) for back in range(1, WINDOW + 1)) / WINDOW, 1)

    def to_json(self, second: int) -> Json:
        series = [self._seconds.get(each, 0) for each in range(second - SERIES + 1, second + 1)]
        return {"rate": self.now(second), "total": self.total, "series": series}


@dataclasses.dataclass(slots=True)
class _Process:
    name: str
    first: int
    last: int = 0
    state: str = "starting"
    """``starting``, ``running``, ``ended``, ``stopped`` (by its protocol), ``killed`` or ``left``."""
    why: str = ""
    views: dict[str, tuple[int, tuple[str, ...]]] = dataclasses.field(default_factory=dict)
    blocked: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    joined: set[str] = dataclasses.field(default_factory=set)
    sent: Rates = dataclasses.field(default_factory=Rates)
    delivered: Rates = dataclasses.field(default_factory=Rates)
    latencies: Latencies = dataclasses.field(default_factory=Latencies)

    @property
    def is_there(self) -> bool:
        return self.state in ("starting", "running")


@dataclasses.dataclass(slots=True)
class _Group:
    name: str
    views: deque[Json] = dataclasses.field(default_factory=lambda: deque(maxlen=VIEWS))
    seen: dict[tuple[int, tuple[str, ...]], Json] = dataclasses.field(default_factory=dict)
    known: dict[str, str] = dataclasses.field(default_factory=dict)
    """Everybody who was in a view or joined, and why each is not there any more."""


class RunPicture:
    """One run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.protocol = ""
        self.promises: list[str] = []
        self.began = self.last = self.events = 0
        self.processes: dict[str, _Process] = {}
        self.groups: dict[str, _Group] = {}
        self.log: deque[Json] = deque(maxlen=LOG)
        self.stride = 1
        self._strides: deque[int] = deque(maxlen=2 * FLOW_SECONDS)
        """Of the last rounds, whose marks are still on the screen."""
        self.unmatched = 0
        """Deliveries whose send was not found: how long they took is not known."""
        self.left_out = 0
        """Facts of processes beyond those that are shown."""
        self._logged = 0
        self._sent: dict[tuple[str, str], SentTimes] = {}
        self._latencies, self._sent_rate, self._delivered_rate = Latencies(), Rates(), Rates()
        self._pending: list[Fact] = []
        self._flow: deque[list[Any]] = deque(maxlen=FLOW_KEPT)
        self._fresh: list[list[Any]] = []

    def take(self, facts: list[Fact]) -> None:
        """One round of facts of this run."""
        self._fresh = []
        self._strides.append(self.stride)
        for fact in facts:
            if fact.kind == "send" and fact.seq is not None:
                self._sent.setdefault((fact.group or "", fact.process), SentTimes()).add(fact.seq, fact.count, fact.time)
        waited, self._pending = self._pending, []
        for fact in waited:
            self._timed(fact, waited=True)
        for fact in facts:
            self._take(fact)
        self._flow.extend(self._fresh)
        if len(self._fresh) > 2 * FLOW_ROUND:
            self.stride *= 2
        elif self.stride > 1 and len(self._fresh) < FLOW_ROUND // 4:
            self.stride //= 2

    def _take(self, fact: Fact) -> None:
        process = self.processes.get(fact.process)
        if process is None:
            if len(self.processes) >= MOST_PROCESSES:
                self.left_out += fact.count
                return
            process = self.processes[fact.process] = _Process(fact.process, fact.time)
        self.events += fact.count
        self.began = min(self.began, fact.time) if self.began else fact.time
        self.last = max(self.last, fact.time)
        process.last = max(process.last, fact.time)
        second = fact.time // SECOND
        if fact.kind == "deliver":
            process.delivered.add(second, fact.count)
            self._delivered_rate.add(second, fact.count)
            self._timed(fact, waited=False)
        elif fact.kind == "send":
            process.sent.add(second, fact.count)
            self._sent_rate.add(second, fact.count)
            self._mark(fact, fact.time)
        elif fact.kind != "accept":
            self._other(process, fact)

    def _timed(self, fact: Fact, *, waited: bool) -> None:
        """A delivery: how long it took, and a mark in the flow."""
        assert fact.seq is not None
        times = self._sent.get((fact.group or "", fact.sender or ""))
        sent = times.find(fact.seq) if times is not None else None
        if sent is None:
            sent = fact.sent if fact.true_time is None else None
        took = None if sent is None else fact.time - sent
        if fact.true_time is not None and fact.sent is not None:
            took = fact.true_time - fact.sent
        if took is not None:
            for latencies in (self._latencies, self.processes[fact.process].latencies):
                latencies.add(fact.time // SECOND, took, fact.count)
        elif not waited and len(self._pending) < PENDING:
            return self._pending.append(fact)
        else:
            self.unmatched += fact.count
        self._mark(fact, sent)

    def _mark(self, fact: Fact, sent: int | None) -> None:
        """The message of a range that is drawn, if one is."""
        assert fact.seq is not None
        seq = -(-fact.seq // self.stride) * self.stride
        if seq < fact.seq + fact.count and len(self._fresh) < 4 * FLOW_ROUND:
            kind = "s" if fact.kind == "send" else "d"
            at = None if sent is None else _ms(sent)
            self._fresh.append([kind, _ms(fact.time), fact.process, fact.sender, seq, at, fact.group])

    def _other(self, process: _Process, fact: Fact) -> None:
        detail = words.detail_of(fact.detail)
        told = words.event(fact, detail)
        kind, group = fact.kind, fact.group
        if kind == "start":
            self.protocol = str(detail.get("protocol") or self.protocol)
            promises = detail.get("promises")
            self.promises = [str(each) for each in promises] if isinstance(promises, list) else self.promises
        elif kind == "view" and group is not None:
            self._view(process, fact, detail)
        elif kind == "join" and group is not None:
            process.joined.add(group)
            process.state = "running"
            self._group(group).known[process.name] = ""
        elif kind == "leave" and group is not None:
            process.views.pop(group, None)
            process.joined.discard(group)
            process.blocked.pop(group, None)
            self._group(group).known[process.name] = "it left"
            if not process.views and not process.joined:
                process.state, process.why = "left", f"it left {words.short(group)}"
        elif kind in ("crash", "end"):
            process.blocked.clear()
            stopped = words.short(detail.get("text") or detail.get("reason") or "it stopped", 300)
            killed = kind == "crash" and detail.get("by") == "collector"
            process.state, process.why = _ENDS["killed" if killed else kind] or ("stopped", stopped)
        elif kind == "block" and fact.seq is None:
            process.blocked[group or ""] = (fact.time, words.why_blocked(detail))
        elif kind == "unblock":
            process.blocked.pop(group or "", None)
        if told:
            self._logged += 1
            self.log.append({"n": self._logged, "t": _ms(fact.time), "process": process.name, "kind": kind, "text": told})
            if kind not in ("block", "unblock"):
                self._fresh.append([kind, _ms(fact.time), process.name, None, None, None, told])

    def _group(self, name: str) -> _Group:
        return self.groups.setdefault(name, _Group(name))

    def _view(self, process: _Process, fact: Fact, detail: Json) -> None:
        assert fact.group is not None
        assert fact.view is not None
        members = tuple(fact.members or ())
        if process.is_there:
            process.state = "running"
        process.views[fact.group] = (fact.view, members)
        group = self._group(fact.group)
        left = words.left_of(detail)
        group.known |= left | dict.fromkeys(members, "")
        key = (fact.view, members)
        if key not in group.seen:
            joined = [str(name) for name in detail.get("joined") or ()]
            gone = [{"name": name, "why": why} for name, why in left.items()]
            told: Json = {"number": fact.view, "members": list(members), "joined": joined, "left": gone}
            group.seen[key] = told | {"t": _ms(fact.time), "by": []}
            group.views.append(group.seen[key])
            if len(group.seen) > 4 * VIEWS:
                del group.seen[next(iter(group.seen))]
        by = group.seen[key]["by"]
        if process.name not in by:
            by.append(process.name)

    def to_json(self, now: int, *, full: bool) -> Json:
        """As the page wants it. ``full``: all of the flow that is kept, not only what came in the last round."""
        second = now // SECOND
        return {
            "name": self.name,
            "protocol": self.protocol,
            "promises": self.promises,
            "began": _ms(self.began),
            "now": _ms(now),
            "last": _ms(self.last),
            "events": self.events,
            "processes": [
                self._process(process, now) for process in sorted(self._everybody(), key=lambda process: natural(process.name))
            ],
            "groups": [self._grouped(group) for group in self.groups.values()],
            "sent": self._sent_rate.to_json(second),
            "delivered": self._delivered_rate.to_json(second),
            "latency": self._latency(second),
            "flow": {"full": full, "items": list(self._flow) if full else self._fresh, "stride": max(self._strides)},
            "log": sorted(self.log, key=lambda line: (line["t"], line["n"])),
            "left_out": self.left_out,
        }

    def _everybody(self) -> list[_Process]:
        """The processes, and the members of present views of which nothing is recorded here."""
        present = [process for process in self.processes.values() if process.is_there]
        named = {name: group for process in present for group, (_, members) in process.views.items() for name in members}
        unseen = [name for name in sorted(named) if name not in self.processes][: MOST_PROCESSES - len(self.processes)]
        why = "a view names it; nothing that it records is here"
        return [*self.processes.values(), *(_Process(name, self.last, self.last, "unseen", why) for name in unseen)]

    def _latency(self, second: int) -> Json:
        series = [self._latencies.quantile(0.99, each, 1) for each in range(second - SERIES + 1, second + 1)]
        return {**self._latencies.present(second), "series": series, "unmatched": self.unmatched}

    def _process(self, process: _Process, now: int) -> Json:
        second = now // SECOND
        silent = now - process.last
        return {
            "name": process.name,
            "state": process.state,
            "why": process.why,
            "quiet": _ms(silent) if process.is_there and silent > QUIET else None,
            "views": {group: number for group, (number, _) in process.views.items()},
            "blocked": [
                {"group": group, "why": why, "for": max(0.0, _ms(now - since))} for group, (since, why) in process.blocked.items()
            ],
            "sent": process.sent.now(second),
            "delivered": process.delivered.now(second),
            "sent_total": process.sent.total,
            "delivered_total": process.delivered.total,
            **process.latencies.present(second),
        }

    def _grouped(self, group: _Group) -> Json:
        parts: dict[tuple[int, tuple[str, ...]], list[str]] = {}
        present = [process for process in self.processes.values() if process.is_there]
        if not present:  # all is over: then who ended in good order was there to the end
            present = [process for process in self.processes.values() if process.state == "ended"]
        for process in present:
            if group.name in process.views:
                parts.setdefault(process.views[group.name], []).append(process.name)
        there = {name for _, members in parts for name in members}
        there |= {process.name for process in present if group.name in process.joined}
        ends = {name: process.why or "no view names it any more" for name, process in self.processes.items()}
        gone = {name: why for name, why in group.known.items() if name not in there}
        return {
            "name": group.name,
            "parts": [
                {
                    "number": number,
                    "members": list(members),
                    "behind": [name for name in members if name not in at and name in self.processes],
                }
                for (number, members), at in sorted(parts.items(), key=lambda part: (-len(part[1]), part[0][0]))
            ],
            "joined": sorted(name for name in there if not any(name in members for _, members in parts)),
            "absent": [{"name": name, "why": why or ends.get(name, "no view names it any more")} for name, why in gone.items()],
            "views": list(group.views)[::-1],
        }


class Picture:
    """All runs of a source; the last few of them."""

    def __init__(self) -> None:
        self.runs: dict[str, RunPicture] = {}

    def take(self, facts: Iterable[Fact]) -> None:
        by_run: dict[str, list[Fact]] = {run: [] for run in self.runs}
        for fact in facts:
            by_run.setdefault(fact.run, []).append(fact)
        for name, own in by_run.items():
            self.runs.setdefault(name, RunPicture(name)).take(own)
        while len(self.runs) > MOST_RUNS:
            del self.runs[min(self.runs.values(), key=lambda run: run.last).name]

    def latest(self) -> str | None:
        """The run in which something happened last."""
        return max(self.runs.values(), key=lambda run: run.last).name if self.runs else None
