"""Which messages of a run are doubtful: where processes do not walk along one common sequence.

*Walks.* Take one sequence of a group's messages, view after view (of each view, what the process with the most deliveries
delivers), and number its places. What a process delivers is then a walk over places, and in a correct run each step leads to the
next place. Every other step is a *detour*, and covers the places between its ends, both included. Detours are also: a beginning
or an end that is not where the process's views say it should be; a place that a process walks over in another view; a send after
the sender has delivered, or gone past, that message's own place; two messages of a sender in the wrong order of numbers; and
whatever lies about a message that the sequence lacks.

*Windows.* The union of all detours falls into windows. Between two windows, and between any two places that no detour covers
together, there is a clean cut: every process takes first what is before it and then what is after it, all of it in the same
order. A cause never lies behind a cut that its effect is before. So a violation (an inversion, a repetition, a hole, a cause
that comes late) lies inside one window, and what happened before what *within* a window is told by its messages alone.

A message that a process lacks is judged at a later delivery: the next of its sender, or of another that follows from it. Windows
are extended to hold it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np

from ..certificates.columns import Ints, Mask, stable_order, starts_of
from ..certificates.evidence import Codes, Doubtful, Evidence
from ..certificates.woven import Woven
from ..facts import History, View
from ..order.one_sequence import chain_of

MAX_DOUBTFUL: Final = 200_000  # doubtful messages that are worth a search of their own
_MAX_STRANGE: Final = 10_000  # messages that the sequence lacks
_MAX_MISSING: Final = 20_000  # messages that processes lack, counted for each

Span: TypeAlias = tuple[int, int]


@dataclasses.dataclass(slots=True)
class Walk:
    """The message rows of one history. Messages are numbered through the run (``Walks.bases``)."""

    history: History
    codes: Codes  # of all message rows: 0 for a send, else the sender's
    views: list[tuple[View, int]]  # the views of these rows, in order, and how many rows each has
    delivered: Ints  # the message of each delivery
    view_of: Ints  # the place of its view in the chain
    sends_after: Ints  # how many deliveries come before each send
    sent: Ints  # the message of each send
    has: Mask  # which messages it delivers


class Walks:
    """The walks of a run with one group and a chain of views; Doubtful for any other run."""

    def __init__(self, evidence: Evidence, woven: Woven) -> None:
        run = evidence.facts
        if len(run.groups) != 1 or run.groups[0] not in run.viewed:
            raise Doubtful
        (self.group,) = run.groups
        if any(history.rejects or history.timing_fault for history in run.all):
            raise Doubtful
        self._evidence = evidence
        self._woven = woven
        self.chain = chain_of(run, self.group)
        self.senders = woven.senders
        self.counts = np.array([evidence.sent_up_to(sender, self.group) for sender in self.senders], np.int64)
        self.bases: Ints = np.cumsum(self.counts) - self.counts  # message n of a sender is base + n - 1
        self.sent = int(self.counts.sum())
        self.unsent: list[tuple[int, int]] = []  # (sender, number) of deliveries of what was never sent: messages after these
        self._unsent: dict[tuple[int, int], int] = {}
        self.walks = [self._walk(history) for history in run.all]
        self.size = self.sent + len(self.unsent)
        for walk in self.walks:
            walk.has = np.zeros(self.size, np.bool_)
            walk.has[walk.delivered] = True
        self._find_sequence()

    def sender_of(self, messages: Ints) -> Ints:
        """The places in ``senders`` of messages that were sent."""
        return np.searchsorted(self.bases + self.counts, messages, side="right")

    def named(self, message: int) -> tuple[str, int]:
        """The sender and the number of a message."""
        if message >= self.sent:
            place, number = self.unsent[message - self.sent]
            return self.senders[place], number
        place = int(self.sender_of(np.array([message]))[0])
        return self.senders[place], message - int(self.bases[place]) + 1

    def _walk(self, history: History) -> Walk:
        codes = self._woven.strand(history.name, self.group).senders
        tapes = self._evidence.tapes.get((history.name, self.group), [])
        views = [(view, len(part)) for view, part in tapes if view is not None]
        if len(views) < len(tapes) or len({view for view, _ in views}) < len(views):
            raise Doubtful
        is_send = codes == 0
        places = np.repeat([self.chain[view] for view, _ in views], [rows for _, rows in views]).astype(np.int64)
        sends = int(np.count_nonzero(is_send))
        if sends != self._evidence.sent_up_to(history.name, self.group):
            raise Doubtful
        base = int(self.bases[self.senders.index(history.name)]) if sends else 0
        before = np.cumsum(~is_send)[is_send]
        delivered = self._numbered(history.name, codes[~is_send])
        nothing = np.zeros(0, np.bool_)
        return Walk(history, codes, views, delivered, places[~is_send], before, base + np.arange(sends), nothing)

    def _numbered(self, process: str, codes: Codes) -> Ints:
        """The messages that a process delivers, given their senders."""
        found = np.empty(len(codes), np.int64)
        if not len(codes):
            return found
        order = stable_order(codes.astype(np.int64), len(self.senders) + 1)
        starts = starts_of(np.diff(codes[order].astype(np.int64)) != 0)
        intervals = self._evidence.delivered[process, self.group]
        for first, last in zip(starts.tolist(), [*starts[1:].tolist(), len(codes)], strict=True):
            place = int(codes[order[first]]) - 1
            mine = intervals[self.senders[place]]
            numbers = np.concatenate([np.arange(interval.low, interval.high + 1) for interval in mine])
            messages = numbers + (self.bases[place] - 1)
            strange = np.flatnonzero((numbers < 1) | (numbers > self.counts[place]))
            if len(strange):
                messages[strange] = [self._strange(place, number) for number in numbers[strange].tolist()]
            found[order[first:last]] = messages
        return found

    def _strange(self, place: int, number: int) -> int:
        """A message that was never sent. What a sender did that is unobserved, or cut, is not known; that is left to others."""
        history = self._evidence.facts.histories.get(self.senders[place])
        if history is None or history.cut or len(self.unsent) > _MAX_STRANGE:
            raise Doubtful
        if (place, number) not in self._unsent:
            self._unsent[place, number] = self.sent + len(self.unsent)
            self.unsent.append((place, number))
        return self._unsent[place, number]

    def _find_sequence(self) -> None:
        """The common sequence, and where each view's part begins."""
        self.place: Ints = np.full(self.size, -1, np.int64)
        parts: list[Ints] = []
        self.begins: list[int] = []  # by place of the view in the chain
        length = 0
        for view in range(len(self.chain)):
            self.begins.append(length)
            most = np.zeros(0, np.int64)
            for walk in self.walks:
                mine = walk.delivered[slice(*np.searchsorted(walk.view_of, (view, view + 1)))]
                if len(mine) > len(most):
                    most = self._better(most, mine)
            most = most[(self.place[most] < 0) & (most < self.sent)]
            self.place[most] = length + np.arange(len(most))
            parts.append(most)
            length += len(most)
        self.begins.append(length)
        self.sequence: Ints = np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _better(self, one: Ints, other: Ints) -> Ints:
        """The one with more different messages, each once."""
        seen = np.zeros(self.size, np.bool_)
        seen[other] = True
        if np.count_nonzero(seen) < len(other):
            _, firsts = np.unique(other, return_index=True)
            other = other[np.sort(firsts)]
        return other if len(other) > len(one) else one

    def doubtful(self, further: Iterable[int] = ()) -> Mask:
        """Which messages are doubtful: those in windows, those that the sequence lacks, and some more."""
        spans = [np.array(list(self._in_wrong_order()), np.int64).reshape(-1, 2)]
        strange: dict[int, Span] = {}
        for walk in self.walks:
            spans += self._detours(walk, strange)
        lacking = np.flatnonzero(self.place < 0)
        if len(lacking) > _MAX_STRANGE:
            raise Doubtful
        spans.append(np.array(list(strange.values()), np.int64).reshape(-1, 2))
        spans += [self.place[[message, message]].reshape(1, 2) for message in further if self.place[message] >= 0]
        windows = self._windows(spans)
        windows |= self._windows([np.array(list(self._judged(windows, lacking, strange)), np.int64).reshape(-1, 2)])
        found = np.zeros(self.size, np.bool_)
        found[self.sequence[windows]] = True
        found[lacking] = True
        if np.count_nonzero(found) > MAX_DOUBTFUL:
            raise Doubtful
        return found

    def _windows(self, spans: Sequence[Ints]) -> Mask:
        """Which places of the sequence some spans cover."""
        every = np.concatenate(spans)
        depth = np.zeros(len(self.sequence) + 1, np.int64)
        np.add.at(depth, every[:, 0], 1)
        np.add.at(depth, every[:, 1] + 1, -1)
        covered: Mask = np.cumsum(depth[:-1]) > 0
        if np.count_nonzero(covered) > MAX_DOUBTFUL:
            raise Doubtful
        return covered

    def _in_wrong_order(self) -> Iterator[Span]:
        """Where the sequence has messages of a sender in another order than their numbers."""
        for base, count in zip(self.bases.tolist(), self.counts.tolist(), strict=True):
            places = self.place[base : base + count]
            places = places[places >= 0]
            for at in np.flatnonzero(np.diff(places) < 0).tolist():
                yield int(places[at + 1]), int(places[at])

    def _begin_of(self, walk: Walk) -> int:
        """Where a process begins, by its first view; nothing from before may be owed."""
        installations = walk.history.views.get(self.group)
        if not installations:
            raise Doubtful
        begin = self.begins[self.chain[installations[0].view]]
        for sender, base in zip(self.senders, self.bases.tolist(), strict=True) if begin else ():
            for span in self._evidence.sent.get((sender, self.group), ()):
                places = self.place[base + span.low - 1 : base + span.high]
                is_owed = self._evidence.view_at(sender, span.first) in walk.history.installed
                if is_owed and ((places >= 0) & (places < begin)).any():
                    raise Doubtful
        return begin

    def _detours(self, walk: Walk, strange: dict[int, Span]) -> list[Ints]:
        """The detours of one process; those about messages that the sequence lacks go into ``strange``."""
        if not len(walk.codes) and not walk.history.views.get(self.group):
            return []
        end = len(self.sequence) - 1
        begin = self._begin_of(walk)
        places = self.place[walk.delivered]
        known = np.flatnonzero(places >= 0)
        steps = places[known]
        before = np.append(np.int64(begin), steps[:-1]) if len(steps) else steps
        is_detour = steps != before + 1
        is_detour[1:] |= np.diff(known) != 1
        if len(steps):
            is_detour[0] = steps[0] != begin or known[0] != 0
        is_detour |= self._views_of(steps) != walk.view_of[known]
        low, high = np.minimum(before, steps)[is_detour], np.maximum(before, steps)[is_detour]
        found = [np.stack([np.minimum(low, end), np.minimum(high, end)], axis=1)] if len(low) else []
        self._place_strange(walk, places, strange)
        last = int(steps[-1]) if len(steps) else begin - 1
        due = self.begins[self.chain[walk.history.views[self.group][-1].view] + 1] - 1
        is_late = self.group not in walk.history.left and not walk.history.crashed
        if last != due and is_late and due >= begin:
            found.append(np.array([(min(max(last, 0), due), max(last, due))], np.int64))
        if len(walk.sent) and len(places):
            found += self._sent_too_late(walk, places)
        return found

    def _sent_too_late(self, walk: Walk, places: Ints) -> Iterator[Ints]:
        """Sends after the sender delivered something from that message's place on; also, own messages delivered before."""
        reached = np.append(np.int64(-1), np.maximum.accumulate(places))[walk.sends_after]
        own = self.place[walk.sent]
        late = (own >= 0) & (own <= reached)
        if late.any():
            yield np.stack([own[late], reached[late]], axis=1)

    def _views_of(self, places: Ints) -> Ints:
        """The places in the chain of the views in which the sequence has some messages."""
        return np.searchsorted(np.array(self.begins[1:]), places, side="right")

    def _place_strange(self, walk: Walk, places: Ints, strange: dict[int, Span]) -> None:
        """Around which places a process delivers what the sequence lacks: from the delivery before to the one after, of any
        sender and of that sender; and, by its number, where it belongs among the sender's messages."""
        odd = np.flatnonzero(places < 0)
        if not len(odd):
            return
        if walk.history.crashed or len(odd) > _MAX_STRANGE:
            raise Doubtful  # what a crashed process lacks would count as a hole before such a message
        senders = walk.codes[walk.codes != 0]
        for code in np.unique(senders[odd]).tolist():
            of_sender = np.flatnonzero((senders == code) & (places >= 0))
            for at in odd[senders[odd] == code].tolist():
                message = int(walk.delivered[at])
                for among in (np.flatnonzero(places >= 0), of_sender):
                    near = int(np.searchsorted(among, at))
                    for neighbour in among[max(0, near - 1) : near + 1].tolist():
                        self._widen(strange, message, int(places[neighbour]), int(places[neighbour]))
                if message not in strange:
                    raise Doubtful
                if message < self.sent:
                    self._among_its_own(message, code - 1, strange)

    def _among_its_own(self, message: int, sender: int, strange: dict[int, Span]) -> None:
        low, high = strange[message]
        own = self.place[self.bases[sender] : self.bases[sender] + self.counts[sender]]
        at = message - int(self.bases[sender])
        before, after = own[:at], own[at + 1 :]
        for place in (*before[before > high].tolist(), *after[(after >= 0) & (after < low)].tolist()):
            self._widen(strange, message, place, place)

    @staticmethod
    def _widen(strange: dict[int, Span], message: int, low: int, high: int) -> None:
        known = strange.get(message, (low, high))
        strange[message] = min(low, known[0]), max(high, known[1])

    def _judged(self, windows: Mask, lacking: Ints, strange: dict[int, Span]) -> Iterator[Span]:
        """From each message that a process lacks to the delivery at which that is judged."""
        inside = self.sequence[windows]
        missing = 0
        for walk in self.walks:
            installations = walk.history.views.get(self.group)
            if not installations:
                continue
            begin = self._begin_of(walk)
            mine = np.concatenate([inside, lacking[lacking < self.sent]])
            mine = mine[~walk.has[mine]]
            mine = mine[(self.place[mine] >= begin) | (self.place[mine] < 0)]
            reached = int(self.place[walk.delivered].max(initial=-1))
            if reached < 0:  # at a delivery; it has none
                continue
            missing += len(mine)
            if missing > _MAX_MISSING:
                raise Doubtful
            for message in mine.tolist():
                place = int(self.place[message])
                if place > reached:
                    continue
                follower = self._follower(walk, message, reached)
                if follower is not None:
                    low, high = strange.get(message, (follower, follower)) if place < 0 else (place, place)
                    yield min(low, follower), max(high, follower)

    def _follower(self, walk: Walk, message: int, reached: int) -> int | None:
        """A place by which a process has delivered something that follows from a message; None if nothing does."""
        place = int(self.place[message])
        sender = int(self.sender_of(np.array([message]))[0])
        last = int(self.bases[sender] + self.counts[sender])
        for start in range(message + 1, last, 4_096):
            near = np.arange(start, min(start + 4_096, last))
            near = near[walk.has[near] & (self.place[near] > place)]
            if len(near):
                return int(self.place[near[0]])
        found: list[int] = []
        follows = message + 1 < last
        for other in self.walks:
            if not other.has[message] or not len(other.sent):
                continue
            at = int(np.flatnonzero(other.delivered == message)[0])
            after = other.sent[np.searchsorted(other.sends_after, at, side="right") :]
            follows = follows or len(after) > 0
            near = after[walk.has[after]]
            found += self.place[near[self.place[near] >= 0][:1]].tolist()
        return min(found) if found else reached if follows else None
