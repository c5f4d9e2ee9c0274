"""The one sequence of a group's messages, where the certificates show that there is one (``proof`` says why it matters)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise

import numpy as np

from ..certificates.evidence import Doubtful, Evidence, Track
from ..facts import History, Run, View


class OneSequence:
    """The one sequence of a group's messages; raises Doubtful if the certificates do not show that there is one.

    Views are compared by identity and must form a chain: the numbers grow, no number stands for two views, and every process
    installs a stretch of the chain, in one stay. (Partitions and readmissions are for ``sequences``.)"""

    def __init__(self, evidence: Evidence, group: str) -> None:
        self._evidence = evidence
        self._run = evidence.facts
        self._group = group
        if evidence.ranges is None:
            raise Doubtful
        self._ranges = evidence.ranges
        self._chain: dict[View | None, int] = {}
        if group in self._run.viewed:
            self._chain.update(chain_of(self._run, group).items())
        else:
            self._chain[None] = 0
        self._lengths: dict[str, dict[View | None, int]] = {}
        self._latest: dict[tuple[str, int], int | None] = {}
        places = [(history.name, group) for history in self._run.all]
        self._tracks = {place[0]: evidence.tracks[place] for place in places if place in evidence.tracks}
        self._compare()
        self._begin = min((self._chain[view] for lengths in self._lengths.values() for view in lengths), default=0)

    def _compare(self) -> None:
        """What each delivers in a view is a beginning of the longest, from the same messages on."""
        in_view: dict[View | None, list[tuple[str, Track]]] = {}
        for process, tracks in self._tracks.items():
            for track in tracks:
                if track.size:
                    # In no known view, or its deliveries in this view are interrupted by none or another.
                    if track.view not in self._chain or track.view in self._lengths.setdefault(process, {}):
                        raise Doubtful
                    self._lengths[process][track.view] = track.size
                    in_view.setdefault(track.view, []).append((process, track))
        reached: dict[str, int] = {}
        for view, found in sorted(in_view.items(), key=lambda item: self._chain[item[0]]):
            _require_beginnings([track for _, track in found])
            self._begin_alike(view, [process for process, _ in found], reached)
            self._are_complete(view, max(track.size for _, track in found))

    def _begin_alike(self, view: View | None, processes: Iterable[str], reached: dict[str, int]) -> None:
        """Of each sender, all processes that deliver in a view begin with the same message, and none delivers it in an earlier
        view."""
        begins: dict[str, int] = {}
        ends: dict[str, int] = {}
        for process in processes:
            for sender, ((low, high), *_) in self._evidence.in_views((process, self._group))[view].items():
                if begins.setdefault(sender, low) != low or low <= reached.get(sender, 0):
                    raise Doubtful
                ends[sender] = max(high, ends.get(sender, 0))
        reached.update(ends)

    def _are_complete(self, view: View | None, size: int) -> None:
        """A process that goes on to another view has delivered everything of this one."""
        if view is None:
            return
        for history in self._run.all:
            installations = history.views.get(self._group, [])
            goes_on = view in history.installed and installations[-1].view is not view
            if goes_on and self._lengths.get(history.name, {}).get(view, 0) != size:
                raise Doubtful

    def common(self, p: str, q: str) -> int:
        """How many messages two processes have in common."""
        mine, theirs = self._lengths.get(p), self._lengths.get(q)
        if mine is None or theirs is None:
            return 0
        return sum(min(size, theirs.get(view, 0)) for view, size in mine.items())

    def begins_with(self, process: str) -> int | None:
        """How many messages of the sequence a process delivers, from its first on; None if it begins later."""
        lengths = self._lengths.get(process, {})
        if lengths and min(map(self._chain.__getitem__, lengths)) > self._begin:
            return None
        return sum(lengths.values())

    def in_common(self) -> Iterator[tuple[tuple[str, str], int]]:
        """Every two processes that have messages in common, and how many."""
        for p, q in combinations(sorted(self._lengths), 2):
            count = self.common(p, q)
            if count:
                yield (p, q), count

    def pairs(self, histories: Sequence[History]) -> int:
        """Pairs of processes with an order to compare: two messages or more in common."""
        names = [history.name for history in histories if history.name in self._lengths]
        return sum(self.common(p, q) >= 2 for p, q in combinations(names, 2))

    @property
    def shared(self) -> int:
        """Messages that more than one process delivers."""
        sizes: dict[View | None, list[int]] = {}
        for lengths in self._lengths.values():
            for view, size in lengths.items():
                sizes.setdefault(view, []).append(size)
        return sum(sorted(found)[-2] for found in sizes.values() if len(found) > 1)

    def sends_come_after(self) -> None:
        """What a process sent and did not deliver, others deliver in its last view or later: not among what it delivered."""
        if self._group not in self._run.viewed:
            return
        for (process, group), by_sender in self._ranges.items():
            if group != self._group:
                continue
            for sender, (low, high) in by_sender.items():
                history = self._run.histories.get(sender)
                installations = history.views.get(group, ()) if history is not None else ()
                if not installations or sender == process:
                    continue
                last = self._chain[installations[-1].view]
                mine = self._ranges.get((sender, group), {}).get(sender)
                if mine is not None and mine[0] <= low and high <= mine[1]:
                    continue
                if mine is not None and low < mine[0]:
                    raise Doubtful
                for interval in self._evidence.delivered[process, group][sender]:
                    beyond = mine is None or interval.high > mine[1]
                    view = self._evidence.view_at(process, interval.first)
                    if beyond and (view not in self._chain or self._chain[view] < last):
                        raise Doubtful

    def with_a_cause(self) -> int:
        """Of the first messages that processes deliver of senders, how many have something before them that the same process
        delivers. (All others have: an earlier message of the same sender.)

        The sender's last delivery before that send is the latest thing in its past; it counts if it lies in a view that the
        process was in."""
        found = 0
        for (process, group), by_sender in self._ranges.items():
            if group != self._group:
                continue
            start = min(self._chain[view] for view in self._lengths[process])
            for sender, (low, _) in by_sender.items():
                latest = self._last_view_before(sender, low)
                found += latest is not None and latest >= start
        return found

    def _last_view_before(self, sender: str, number: int) -> int | None:
        """The place of the view in which a sender delivered last before it sent its message of that number."""
        key = sender, number
        if key not in self._latest:
            self._latest[key] = self._find_last_view_before(sender, number)
        return self._latest[key]

    def _find_last_view_before(self, sender: str, number: int) -> int | None:
        latest: int | None = None
        sent = 0
        for track in self._tracks.get(sender, ()):
            if sent + track.sends >= number:
                return self._chain[track.view] if track.delivered_before(number - sent - 1) else latest
            if track.size:
                latest = self._chain[track.view]
            sent += track.sends
        return latest


def _require_beginnings(tracks: Sequence[Track]) -> None:
    """Doubtful unless all tracks are beginnings of the longest one. A part that stands at the same place in several is compared
    once."""
    longest = max(tracks, key=lambda track: track.size)
    whole = longest.delivered()
    known: set[tuple[int, int]] = set()
    for track in (longest, *tracks):
        at = 0
        for part in track.parts:
            if (id(part), at) not in known:
                known.add((id(part), at))
                if track is not longest and not np.array_equal(part, whole[at : at + len(part)]):
                    raise Doubtful
            at += len(part)


def chain_of(run: Run, group: str) -> dict[View, int]:
    """The views of a group in the order of their numbers, each with its place; Doubtful unless a number stands for one view and
    every process installs a stretch of them, in one stay."""
    by_number: dict[int, View] = {}
    for history in run.all:
        if len(history.stays.get(group, ())) > 1:
            raise Doubtful
        for installed in history.views.get(group, ()):
            if by_number.setdefault(installed.view.number, installed.view) is not installed.view:
                raise Doubtful
    chain = {by_number[number]: place for place, number in enumerate(sorted(by_number))}
    for history in run.all:
        places = [chain[installed.view] for installed in history.views.get(group, ())]
        if any(other != one + 1 for one, other in pairwise(places)):
            raise Doubtful
    return chain


def merge(orders: Mapping[str, OneSequence], delivered: Mapping[str, Sequence[tuple[str, int]]]) -> None:
    """Merges the sequences of groups into one, as processes that are in several groups deliver them; Doubtful if that is not
    possible, because these processes order messages in a cycle.

    ``delivered`` has, for each of these processes, the groups of its deliveries in order, each with the length of its stretch. A
    group's next message may be taken when it is the next one of all processes that deliver it."""
    left: dict[str, dict[str, int]] = {}  # by group, then by process: how many of the group's messages it still has to deliver
    heads: dict[str, tuple[str, int]] = {}
    stretches = {process: iter(mine) for process, mine in delivered.items()}
    for process, mine in delivered.items():
        for group in {group for group, _ in mine}:
            count = orders[group].begins_with(process)
            if count is None:
                raise Doubtful
            left.setdefault(group, {})[process] = count
        heads[process] = next(stretches[process])
    work = list(left)
    while work:
        group = work.pop()
        concerned = left[group]
        step = min((heads[process][1] if heads[process][0] == group else 0 for process in concerned), default=0)
        if not step:
            continue
        work.append(group)
        for process in list(concerned):
            concerned[process] -= step
            if not concerned[process]:
                del concerned[process]
            remaining = heads[process][1] - step
            heads[process] = (group, remaining) if remaining else next(stretches[process], (group, 0))
            work.append(heads[process][0])
    if any(left.values()):
        raise Doubtful
