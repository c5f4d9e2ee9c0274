"""The metrics of a run, from the partials of its pieces: the definition of every figure. ``docs/metrics.md`` has them for people.

Counts and times are integers, a percentile interpolates between the two nearest values in integer arithmetic, and a ratio is
one division of doubles.

*Not recorded* is null, *none happened* is 0, and a trace does not say which it is when a kind of event is missing. So a kind
is taken as recorded if the run has a row of it, if the ``start`` row says so (``"records": ["null", ...]`` in its
``detail``), or if the run's protocol is described so (``Description.recorded``).
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from ...protocols import registry
from ..arrays import NOTHING, Flags, Integers, look_up
from . import realtime, standing
from .partials import Closings, Numbers, Pair, Partial, Row, Stability, Traffic
from .samples import Sample, spread
from .schema import ratio, share_of_packets
from .standing import NO_SENDS, Deliveries

T = TypeVar("T")

_FOR_EVER: Final = 2**63 - 1
_COUNTED: Final = {"nulls": "null", "retransmissions": "retransmit", "suspicions": "suspect"}  # metrics that count rows
_NO_TRAFFIC: Final = Traffic(0, 0, 0)
_Noticed: TypeAlias = dict[tuple[str | None, str], list[int]]  # by group (None: any) and process: when others noticed


class Incomplete(Exception):
    """Partials left out times of deliveries that turn out to be needed: they have to be made with ``everything``."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Failure:
    """A process that was silent from a moment on, for ever or for a while."""

    process: str
    since: int
    until: int


def is_whole(partials: Sequence[Partial]) -> bool:
    """Whether the pieces of each history have successive rows, from its first row on."""
    extents = defaultdict(list)
    for each in partials:
        for process, extent in each.extents.items():
            extents[process].append(extent)
    return all(_is_whole(pieces) for pieces in extents.values())


def _is_whole(pieces: list[tuple[int, int, int]]) -> bool:
    due = 0
    for first, last, rows in sorted(pieces):
        if first != due or last - first + 1 != rows:
            return False
        due = last + 1
    return True


class Merged:
    """A run, from the partials of all its pieces."""

    def __init__(self, run: str, partials: Sequence[Partial]) -> None:
        self.run = run
        self._parts = partials
        self._story = sorted((row for part in partials for row in part.story), key=lambda row: (row.process, row.place))
        self._kinds = _added(part.kinds for part in partials)
        self.groups = sorted({group for group, _ in self._kinds if group is not None})
        self._of_kind: dict[str, list[Row]] = defaultdict(list)
        for row in self._story:
            self._of_kind[row.kind].append(row)
        senders = sorted({name for part in partials for name in part.senders})
        self._codes = {name: code for code, name in enumerate(senders)}
        crashed = {row.process for row in self._of_kind["crash"]}
        self._is_safe = {name: name not in crashed for name in senders}

    def metrics(self) -> Iterator[dict[str, Any]]:
        """A row a group, in the order of their names."""
        recorded = self._recorded()
        packets = self._packets()
        failures = self._failures()
        evidence = self._evidence() if failures else {}
        bounds: dict[str, int] = {}
        for row in self._of_kind["start"]:
            bounds.update(row.detail.bounds or {})
        has_states = self._has_states(recorded)
        memory = self._memory()
        for name in self.groups:
            took = self.rotations(name)
            yield {
                "run": self.run,
                "group": name,
                "processes": len({process for part in self._parts for group, process in part.present if group == name}),
                **self._traffic(name),
                **self._delays(name),
                **self._cost(name, packets.get(name)),
                **{metric: self._count(name, kind) if kind in recorded else None for metric, kind in _COUNTED.items()},
                "history_max": max((part.history[name] for part in self._parts if name in part.history), default=None),
                "unstable_max": self._unstable_max(name),
                "blocked_ns": _closed_time(self._pieces("blocks", name)) if "unblock" in recorded else None,
                "sync_ns": _closed_time(self._pieces("syncs", name)) if "sync" in recorded else None,
                "standstill_max_ns": self._standstill(name),
                "view_changes": self._view_changes(name),
                **self._detection(name, failures, evidence),
                **self._fairness(name),
                **self._late(name),
                **self._admission(name),
                "rotations": sum(each.total for each in took) if "token" in recorded else None,
                **spread("rotation", took),
                "rotation_bound_ns": bounds.get("rotation"),
                **self._exclusion(name, bounds.get("detection")),
                **(self._states(name) if has_states else {}),
                **spread("send", self._took(name, "sent")),
                "send_bound_ns": bounds.get("send"),
                "deliver_bound_ns": bounds.get("deliver", bounds.get("delivery")),
                **self._decisions(name),
                **memory,
            }

    @cached_property
    def _protocols(self) -> Mapping[Any, registry.Description]:
        return registry.protocols()

    def _count(self, group: str | None, kind: str) -> int:
        return self._kinds.get((group, kind), 0)

    def _rows(self, group: str, *kinds: str) -> list[Row]:
        """Rows of the story that name a group, in order."""
        if len(kinds) == 1:
            return [row for row in self._of_kind[kinds[0]] if row.group == group]
        return [row for row in self._story if row.group == group and row.kind in kinds]

    def _pieces(self, name: str, group: str) -> dict[str, list[Any]]:
        """By process: what each piece of its history says, in order."""
        found: dict[str, list[tuple[int, Any]]] = defaultdict(list)
        for part in self._parts:
            for (of, process), piece in getattr(part, name).items():
                if of == group:
                    found[process].append((part.extents[process][0], piece))
        return {process: [piece for _, piece in sorted(pieces, key=lambda p: p[0])] for process, pieces in found.items()}

    def _recorded(self) -> set[str]:
        found = {kind for _, kind in self._kinds}
        known = self._protocols
        for row in self._of_kind["start"]:
            found |= set(row.detail.records or ())
            if row.detail.protocol in known:
                found |= known[row.detail.protocol].recorded
        return found

    @cached_property
    def _delivers(self) -> dict[str, dict[Pair, Traffic]]:
        return self._tables("delivers")

    @cached_property
    def _sends(self) -> dict[str, dict[Pair, Traffic]]:
        return self._tables("sends")

    def _tables(self, name: str) -> dict[str, dict[Pair, Traffic]]:
        found: dict[str, dict[Pair, Traffic]] = defaultdict(dict)
        for part in self._parts:
            for pair, traffic in getattr(part, name).items():
                of_group = found[pair[0]]
                of_group[pair] = of_group[pair].plus(traffic) if pair in of_group else traffic
        return found

    def _traffic(self, group: str) -> dict[str, Any]:
        sends, delivers = self._count(group, "send"), self._count(group, "deliver")
        first = min((part.first[group] for part in self._parts if group in part.first), default=None)
        last = max((part.last[group] for part in self._parts if group in part.last), default=None)
        span = last - first if first is not None and last is not None else None
        by_process = _summed((process, traffic) for (_, process, _), traffic in self._delivers[group].items())
        sizes = bool(delivers) and all(traffic.rows == traffic.sized for traffic in by_process.values())
        most = max(traffic.size for traffic in by_process.values()) if sizes else None
        return {
            "sends": sends or (None if delivers else 0),
            "deliveries": delivers,
            "span_ns": span,
            "messages_per_s": ratio(max((traffic.rows for traffic in by_process.values()), default=0), span, 1e9),
            "bytes_per_s": ratio(most, span, 1e9),
        }

    def _fairness(self, group: str) -> dict[str, Any]:
        """Jain's index over the senders' shares of the deliveries, and the largest share over the smallest."""
        by_sender = _summed((sender, traffic) for (*_, sender), traffic in self._delivers[group].items())
        silent = {sender for *_, sender in self._sends[group]} - by_sender.keys()
        shares = [*(traffic.rows for traffic in by_sender.values()), *(0 for _ in silent)]
        total, squares = sum(shares), sum(share * share for share in shares)
        return {
            "senders": len(shares),
            "fairness": ratio(total * total, len(shares) * squares),
            "fairness_ratio": ratio(max(shares), min(shares)) if shares else None,
        }

    def _delays(self, group: str) -> dict[str, int | None]:
        latencies: dict[Pair, list[Sample]] = defaultdict(list)
        for part in self._parts:
            for pair, sample in part.latencies.items():
                if pair[0] == group:
                    latencies[pair].append(sample)
        for pair, values in self._undated(group):
            latencies[pair].append(Sample.of(values))
        every = [sample for samples in latencies.values() for sample in samples]
        arrivals = [pair for part in self._parts for pair in part.arrivals if pair[0] == group]
        if arrivals:
            overhead = spread("overhead", self._since_arrival(group))
        else:  # how much later than the quickest delivery from that sender to that process
            best = [min(sample.least for sample in samples) for samples in latencies.values() for _ in samples]
            overhead = spread("overhead", every, less=best)
        return {**spread("latency", every), **overhead}

    @cached_property
    def _look_up(self) -> dict[str, _Sent]:
        """By group: when messages were sent."""
        found: dict[str, list[tuple[int, Numbers]]] = defaultdict(list)
        for part in self._parts:
            for (group, _, sender), numbers in part.sent.items():
                found[group].append((self._codes[sender], numbers))
        return {group: _Sent(found[group]) for group in self.groups}

    def _undated(self, group: str) -> Iterator[tuple[Pair, Integers]]:
        """The latencies of deliveries whose rows do not say when the message was sent."""
        for part in self._parts:
            for (of, process), piece in part.deliveries.items():
                undated = piece.sents == standing.NEVER
                if of != group or not undated.any():
                    continue
                senders, seqs, clocks = piece.senders[undated], piece.seqs[undated], piece.delivered[undated]
                sent, found = self._look_up[group].at(self._recoded(part, senders), seqs)
                for sender in np.unique(senders[found]).tolist():
                    mine = found & (senders == sender)
                    yield (group, process, part.senders[sender]), clocks[mine] - sent[mine]

    def _recoded(self, part: Partial, senders: Integers) -> Integers:
        return np.array([self._codes[name] for name in part.senders], np.int64)[senders]

    def _received(self, group: str) -> dict[tuple[str, str], realtime.Received]:
        """By process and sender: the deliveries of a group."""
        found: dict[tuple[str, str], list[realtime.Received]] = defaultdict(list)
        for part in self._parts:
            if part.received is None:
                if any(pair[0] == group for pair in part.delivers):
                    raise Incomplete
                continue
            for (of, process, sender), each in part.received.items():
                if of == group:
                    found[process, sender].append(each)
        return {key: _received(each) for key, each in found.items()}

    def _since_arrival(self, group: str) -> Iterator[Sample]:
        """From the first arrival of a message at a process to its delivery there."""
        arrivals: dict[Pair, list[Numbers]] = defaultdict(list)
        for part in self._parts:
            for pair, numbers in part.arrivals.items():
                arrivals[pair].append(numbers)
        for (process, sender), delivered in self._received(group).items():
            mine = arrivals.get((group, process, sender))
            if mine:
                seq, clock = (np.concatenate(columns) for columns in zip(*mine, strict=True))
                arrived, found = look_up(seq, clock, delivered.seq)
                if found.any():
                    yield Sample.of((delivered.moments.clock - arrived)[found])

    def _packets(self) -> dict[str, float | None]:
        """Packets for each group: those on its rows, and of those on rows without a group in proportion."""
        told = [part.packets for part in self._parts if part.packets is not None]
        if not told:
            return {}
        counts = _added(told)
        alone = counts.pop(None, 0)
        every = sum(counts.values())
        return {group: share_of_packets(counts.get(group, 0), alone, every) for group in self.groups}

    def _cost(self, group: str, packets: float | None) -> dict[str, float | None]:
        sends = _summed((group, traffic) for traffic in self._sends[group].values()).get(group, _NO_TRAFFIC)
        count = self._count(group, "send")
        return {
            "packets": packets,
            "packets_per_multicast": ratio(packets, count),
            "bytes_per_multicast": ratio(sends.size, count) if count and sends.sized == count else None,
        }

    def _unstable_max(self, group: str) -> int | None:
        """The most deliveries of one process whose rank was above the highest that it knew to be stable."""
        every = self._pieces("stability", group)
        if not any(len(piece.stable) for pieces in every.values() for piece in pieces):
            return None
        return max(_unstable_at(pieces) for pieces in every.values())

    def _standstill(self, group: str) -> int | None:
        every = self._pieces("deliveries", group)
        accepts, left = self._pieces("accepts", group), {row.process for row in self._rows(group, "leave")}
        sends: dict[str, list[Numbers]] = defaultdict(list)
        for part in self._parts:
            for (of, process, _), numbers in part.sent.items():
                if of == group:
                    sends[process].append(numbers)
        parts = {id(piece): part for part in self._parts for piece in part.deliveries.values()}

        def dated(piece: Deliveries) -> tuple[Deliveries, Integers]:
            part = parts[id(piece)]
            return piece, standing.sent_at(piece, lambda codes, seqs: self._look_up[group].at(self._recoded(part, codes), seqs))

        found = []
        for process in every.keys() | accepts.keys() | sends.keys():
            pieces = [dated(piece) for piece in every.get(process, ())]
            accepted = np.concatenate(accepts[process]) if process in accepts else NOTHING
            mine = sends.get(process)
            own = tuple(np.concatenate(columns) for columns in zip(*mine, strict=True)) if mine else NO_SENDS
            last = max(part.ends[process].clock for part in self._parts if process in part.ends)
            found.append(standing.longest(pieces, accepted, (own[0], own[1]), last, left=process in left))
        return max((each for each in found if each is not None), default=None)

    def _view_changes(self, group: str) -> int | None:
        installed = {(row.view, row.members) for row in self._rows(group, "view")}
        return len(installed) - 1 if installed else None

    def _failures(self) -> list[_Failure]:
        """Crashes that were not the protocol's own decision, and pauses as long as they last."""
        crashes = [row for row in self._of_kind["crash"] if row.detail.by != "protocol"]
        found = [_Failure(row.process, row.clock, _FOR_EVER) for row in crashes]
        pauses = (pause for part in self._parts for pause in part.pauses)
        return found + [_Failure(process, since, since + length) for process, since, length in pauses]

    def _evidence(self) -> _Noticed:
        """When another process suspected a process or went to a view without it: (group or none, process) to moments."""
        found: _Noticed = {}
        for row in self._of_kind["suspect"]:
            for name in {row.detail.process, *(row.detail.processes or ())} - {None, row.process}:
                found.setdefault((row.group, str(name)), []).append(row.clock)
        before: dict[tuple[str, str | None], tuple[str, ...]] = {}
        for row in self._of_kind["view"]:
            place = (row.process, row.group)
            for gone in set(before.get(place, ())) - {*(row.members or ()), row.process}:
                found.setdefault((row.group, gone), []).append(row.clock)
            before[place] = row.members or ()
        return found

    def _detection(self, group: str, failures: Sequence[_Failure], evidence: _Noticed) -> dict[str, int | None]:
        """How long after a member fell silent the first other one noticed."""
        members = self._members(group) if failures else frozenset()
        concerned = [failure for failure in failures if failure.process in members]
        times = []
        for failure in concerned:
            seen = [*evidence.get((group, failure.process), ()), *evidence.get((None, failure.process), ())]
            after = [moment for moment in seen if failure.since <= moment <= failure.until]
            if after:
                times.append(min(after) - failure.since)
        return {"failures": len(concerned), "detected": len(times), **_middle("detection", times)}

    def _members(self, group: str) -> frozenset[str]:
        """Processes that came into the group and did not leave it."""
        came = {row.process for row in self._rows(group, "join", "view")}
        return frozenset(came - {row.process for row in self._rows(group, "leave")})

    def _admission(self, group: str) -> dict[str, Any]:
        """Streams whose deadlines were guaranteed or not; a ``reject`` of something else names no stream."""
        rejections = _added(part.rejections for part in self._parts)
        admits = any(kind == "admit" for _, kind in self._kinds)
        if not admits and not any(rejections.values()):
            return {}
        admitted, rejected = self._count(group, "admit"), rejections.get(group, 0)
        return {"admitted": admitted, "rejected": rejected, "admission_ratio": ratio(admitted, admitted + rejected)}

    def _exclusion(self, group: str, bound: int | None) -> dict[str, Any]:
        """From each crash to the first view without the crashed one, at each member that neither crashes nor leaves."""
        members = self._members(group)
        crashes = {row.process: row.clock for row in self._of_kind["crash"]}
        installed: dict[str, list[tuple[int, Sequence[str]]]] = defaultdict(list)
        for row in self._rows(group, "view"):
            installed[row.process].append((row.clock, row.members or ()))
        took = []
        for crashed, since in crashes.items():
            for process in members - crashes.keys() if crashed in members else ():
                after = _excluded(installed[process], crashed, since)
                took += [after] if after is not None else []
        return {**_middle("exclusion", took), "detection_bound_ns": bound}

    def _has_states(self, recorded: set[str]) -> bool:
        """Whether ``state`` rows tell of joining and of assumptions; those of some protocols tell of other things."""
        told = any(part.has_states for part in self._parts)
        return ("state" in recorded and not told) or any(part.is_ring for part in self._parts)

    def _states(self, group: str) -> dict[str, Any]:
        """Assumptions that were broken, and how long it took from joining to a view."""
        took: list[int] = []
        joining: dict[str, int] = {}
        for row in self._rows(group, "state", "view"):
            if row.kind == "state":
                joining.setdefault(row.process, row.clock)
            elif row.process in joining:
                took.append(row.clock - joining.pop(row.process))
        broken = sum(part.broken.get(group, 0) for part in self._parts)
        return {"joins": len(took), **_middle("join", took), "broken": broken}

    def _took(self, group: str, kind: str) -> list[Sample]:
        return [part.took[group, kind] for part in self._parts if (group, kind) in part.took]

    def _decisions(self, group: str) -> dict[str, Any]:
        """What receivers decided on messages, and how long that took them."""
        if not any(kind == "decide" for _, kind in self._kinds):
            return {}
        against = sum(part.against.get(group, 0) for part in self._parts)
        counts = {"decisions": self._count(group, "decide"), "decided_against": against}
        return {**counts, **spread("decision", self._took(group, "decide"))}

    def _memory(self) -> dict[str, Any]:
        """Timing faults and crashed modules of the run; empty if it is not on shared memory and has none of them."""
        modules = {module for part in self._parts for module in part.modules}
        known = self._protocols
        protocols = {row.detail.protocol for row in self._of_kind["start"]}
        has_memory = any(known[name].placement.memory is not None for name in protocols if name in known)
        if not modules and not has_memory and not any(part.has_late for part in self._parts):
            return {}
        return {"timing_faults": sum(part.late for part in self._parts), "module_crashes": len(modules)}

    def rotations(self, group: str) -> list[Sample]:
        """How long each way of the token round took: from a turn of a process to its next, without a view or a leave between."""
        found = [part.rotations[group] for part in self._parts if group in part.rotations]
        ways = [way for pieces in self._pieces("turns", group).values() for way in realtime.across(pieces)]
        return [*found, Sample.of(np.array(ways, np.int64))] if ways else found

    def lateness(self, group: str) -> realtime.Lateness:
        """How much after their deadlines messages were delivered: those that bring one, and those whose sends have one."""
        own = [s for part in self._parts for (of, sender), s in part.lateness.items() if of == group and self._is_safe[sender]]
        dues: dict[str, list[realtime.Sends]] = defaultdict(list)
        for part in self._parts:
            for (of, sender), each in part.due.items():
                if of == group and self._is_safe[sender]:
                    dues[sender].append(each)
        if not dues:
            return realtime.Lateness(own, 0)
        views: dict[str, list[tuple[int, Sequence[str]]]] = defaultdict(list)
        for row in self._rows(group, "view"):
            views[row.process].append((row.place, row.members or ()))
        sends = {sender: _sends(each) for sender, each in dues.items()}
        found = realtime.lateness(sends, self._received(group), views, self._ends())
        return realtime.Lateness([*own, *found.values], found.missing)

    def _ends(self) -> dict[str, realtime.Ends]:
        found: dict[str, realtime.Ends] = {}
        for part in self._parts:
            for process, end in part.ends.items():
                before = found.get(process, end)
                true_times = [each.true_time for each in (before, end) if each.true_time is not None]
                latest = max(before.time, end.time), max(true_times, default=None), max(before.clock, end.clock)
                found[process] = realtime.Ends(*latest)
        return found

    def _late(self, group: str) -> dict[str, Any]:
        if not any(part.has_deadlines for part in self._parts):
            return {}
        found = self.lateness(group)
        return {**found.counts(), **spread("lateness", found.values)}


class _Sent:
    """When the messages of a group were sent, by sender and number; sorted once, and only if it is asked for."""

    def __init__(self, every: Sequence[tuple[int, Numbers]]) -> None:
        self._every = every

    @cached_property
    def _columns(self) -> tuple[Integers, Integers, Integers]:
        senders = np.concatenate([NOTHING, *(np.full(len(numbers.seq), sender) for sender, numbers in self._every)])
        seq, clock = (np.concatenate([NOTHING, *(numbers[at] for _, numbers in self._every)]) for at in (0, 1))
        return senders, seq, clock

    def at(self, senders: Integers, seqs: Integers) -> tuple[Integers, Flags]:
        of, numbers, clocks = self._columns
        width = max(int(numbers.max(initial=0)), int(seqs.max(initial=0))) + 1
        return look_up(of * width + numbers, clocks, senders * width + seqs)


def _received(pieces: Sequence[realtime.Received]) -> realtime.Received:
    if len(pieces) == 1:
        return pieces[0]
    seq, dated, moments = zip(*pieces, strict=True)
    return realtime.Received(np.concatenate(seq), np.concatenate(dated), _moments(moments))


def _sends(pieces: Sequence[realtime.Sends]) -> realtime.Sends:
    if len(pieces) == 1:
        return pieces[0]
    *columns, moments = zip(*pieces, strict=True)
    place, seq, due = (np.concatenate(column) for column in columns)
    order = np.argsort(place, kind="stable")
    return realtime.Sends(place[order], seq[order], due[order], _moments(moments).at(order))


def _moments(pieces: Sequence[realtime.Moments]) -> realtime.Moments:
    return realtime.Moments(*(np.concatenate(column) for column in zip(*pieces, strict=True)))


def _unstable_at(pieces: Sequence[Stability]) -> int:
    ranks, stable = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("ranks", "stable"))
    if not len(ranks) or not len(stable):
        return 0  # a process that never learns what is stable does not count
    firsts = np.cumsum([0, *(len(piece.ranks) for piece in pieces[:-1])])
    before = np.concatenate([piece.before + first for piece, first in zip(pieces, firsts, strict=True)])
    covered = np.maximum.accumulate(np.searchsorted(np.sort(ranks), stable, side="right"))
    return max(0, int((np.append(before, len(ranks)) - np.append(0, covered)).max()))


def _closed_time(pieces: Mapping[str, Sequence[Closings]]) -> int:
    """From the first opening to the next closing at the same process, summed; what is never closed is not counted."""
    total = 0
    for of_process in pieces.values():
        clocks, closing = (np.concatenate(columns) for columns in zip(*of_process, strict=True))
        changes = np.append(True, np.diff(closing))
        clocks, closing = clocks[changes], closing[changes]
        ends = np.flatnonzero(closing[1:]) + 1
        total += int((clocks[ends] - clocks[ends - 1]).sum())
    return total


def _excluded(views: Sequence[tuple[int, Sequence[str]]], crashed: str, since: int) -> int | None:
    """How long after its crash, or after a view that names it was installed later, a process had the crashed one in its view."""
    begins: int | None = None
    for at, members in views:
        if crashed in members:
            begins = max(since, at) if begins is None else begins
        elif begins is not None and at > since:
            return at - begins
        else:
            begins = None
    return None


def _middle(name: str, times: Sequence[int]) -> dict[str, int | None]:
    """The median of a few times, and the longest."""
    return spread(name, [Sample.of(np.array(times, dtype=np.int64))] if times else [], (50,))


def _added(tables: Any) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for table in tables:
        for key, count in table.items():
            found[key] = found.get(key, 0) + count
    return found


def _summed(tables: Any) -> dict[str, Traffic]:
    found: dict[str, Traffic] = {}
    for key, traffic in tables:
        found[key] = found[key].plus(traffic) if key in found else traffic
    return found
