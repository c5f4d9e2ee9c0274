"""The certificates of one run put together: what stage 2 reads.

A run's slices may come from several units, in any order. Here they are joined history by history, with the few checks that are
only possible where pieces meet: that indices and numbers continue, that nothing follows an end, that a claim about the view in
force is true. Where something does not fit, the run is *suspect*, and the plain validation looks at it.

The *facts* are those of the reference checks, read off the skeletons: views, memberships, correct processes. The first row of
every interval is in the skeleton, so the view of an interval needs no second bookkeeping.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..facts import Event, Run, View, between
from .agreed import BLOCK, Blocks, hash_block, taken_apart
from .columns import small_type
from .ranges import Range, Ranges, added
from .records import Delivered, Extent, Misplaced, Own, Ranked, RankKey, Sent, Slice
from .shared import Shared, Spliced, in_codes, since_the_last

Codes: TypeAlias = NDArray[Any]
Place: TypeAlias = tuple[str, str]  # (process, group)
_Block: TypeAlias = tuple[str, str, int]  # (group, sender, block)
Messages: TypeAlias = tuple[str, str, int, int]  # (group, sender, first number, last number)


class Doubtful(Exception):
    """The certificates do not prove a property; the reference check has to look at the rows."""


class Evidence:
    """What the certificates of a run say, together with its facts."""

    def __init__(self, facts: Run, slices: Sequence[Slice]) -> None:
        self.facts = facts
        self.slices = slices
        self.rows = sum(part.rows for part in slices)
        self.out_of_order, self.misplaced = arrangement(slices)
        self.suspect = self.out_of_order or bool(self.misplaced)
        self._events: dict[str, dict[int, Event]] = {}
        self._arrange()

    def _arrange(self) -> None:
        """Puts the certificates of several units into the order of the histories."""
        if len(self.slices) == 1:
            only = self.slices[0]
            self._deliveries: Iterable[Delivered] = only.delivered
            self._sends: Iterable[Sent] = only.sent
            self.suspect = self.suspect or bool(only.claims)
            first_sends = {sent[:2]: sent.low for sent in reversed(only.sent)}
            self.suspect = self.suspect or any(low != 1 for low in first_sends.values())
            self.leads = any(own.lead > 0 for own in only.own)
            return
        self._deliveries = sorted((d for part in self.slices for d in part.delivered), key=lambda d: (d.process, d.first))
        self._sends = sorted((s for part in self.slices for s in part.sent), key=lambda s: (s.process, s.first))
        begins = [(extent.first, part, extent.process) for part in self.slices for extent in part.extents]
        self._join(sorted(begins, key=lambda begin: begin[0]))

    def _join(self, begins: list[tuple[int, Slice, str]]) -> None:
        final: set[str] = set()
        sent: dict[Place, int] = {}
        self.leads = False
        places = {id(part): _Places(part) for part in self.slices}
        for first, part, process in begins:
            there = places[id(part)]
            extent = there.extents[process]
            self.suspect = self.suspect or process in final
            if extent.final:
                final.add(process)
            for own in there.own.get(process, ()):
                self.leads = self.leads or own.lead > sent.get(own[:2], 0)
                sent[own[:2]] = sent.get(own[:2], 0) + own.sends
            for group, view in there.claims.get(process, ()):
                views = [i.view.number for i in self.facts.histories[process].views.get(group, ()) if i.index < first]
                self.suspect = self.suspect or view != (views[-1] if views else None)
        numbers: dict[Place, int] = {}
        for span in self._sends:
            self.suspect = self.suspect or span.low != numbers.get(span[:2], 0) + 1
            numbers[span[:2]] = span.high

    def view_at(self, process: str, index: int) -> View | None:
        """The view in force at the first row of an interval or tape."""
        return self.event(process, index).view

    def event(self, process: str, index: int) -> Event:
        known = self._events.get(process)
        if known is None:
            history = self.facts.histories[process]
            known = {event.index: event for event in (*history.traffic, *history.repeats)}
            self._events[process] = known
        return known[index]

    @cached_property
    def delivered(self) -> dict[Place, dict[str, list[Delivered]]]:
        """By process and group, then by sender: intervals in the order of the history."""
        found: dict[Place, dict[str, list[Delivered]]] = {}
        for interval in self._deliveries:
            found.setdefault((interval.process, interval.group), {}).setdefault(interval.sender, []).append(interval)
        return found

    @cached_property
    def sets(self) -> dict[Place, dict[str, Ranges]] | None:
        """What each process delivers of each sender; None if a process delivers out of order or twice."""
        found: dict[Place, dict[str, Ranges]] = {}
        for place, by_sender in self.delivered.items():
            mine = found[place] = {}
            for sender, intervals in by_sender.items():
                low, high = intervals[0].low, intervals[0].high
                if low < 1:
                    return None
                before: list[Range] = []
                for interval in intervals[1:]:
                    if interval.low <= high:
                        return None
                    if interval.low != high + 1:
                        before.append((low, high))
                        low = interval.low
                    high = interval.high
                mine[sender] = (*before, (low, high))
        return found

    @cached_property
    def covered(self) -> dict[Place, dict[str, Ranges]]:
        """What each process delivers of each sender, in whatever order and however often."""
        if self.sets is not None:
            return self.sets
        return {
            place: {sender: added((), ((each.low, each.high) for each in intervals)) for sender, intervals in by_sender.items()}
            for place, by_sender in self.delivered.items()
        }

    @cached_property
    def ranges(self) -> dict[Place, dict[str, Range]] | None:
        """What each process delivers of each sender, as one range of numbers; None if a process delivers out of order, twice, or
        with a hole."""
        if self.sets is None or any(len(mine) > 1 for by_sender in self.sets.values() for mine in by_sender.values()):
            return None
        return {place: {sender: mine[0] for sender, mine in by_sender.items()} for place, by_sender in self.sets.items()}

    @cached_property
    def count(self) -> int:
        """Deliveries, repeated ones included."""
        return sum(interval.high - interval.low + 1 for interval in self._deliveries)

    @cached_property
    def sent(self) -> dict[Place, list[Sent]]:
        found: dict[Place, list[Sent]] = {}
        for span in self._sends:
            found.setdefault((span.process, span.group), []).append(span)
        return found

    def sent_up_to(self, process: str, group: str) -> int:
        spans = self.sent.get((process, group))
        return spans[-1].high if spans else 0

    def in_views(self, place: Place) -> dict[View | None, dict[str, Ranges]]:
        """What a process delivers of a group, view by view; for runs with ``sets``."""
        return self._in_views.get(place, {})

    @cached_property
    def _in_views(self) -> dict[Place, dict[View | None, dict[str, Ranges]]]:
        found: dict[Place, dict[View | None, dict[str, Ranges]]] = {}
        for place, by_sender in self.delivered.items():
            mine: dict[View | None, dict[str, list[Range]]] = {}
            for sender, intervals in by_sender.items():
                for interval in intervals:
                    here = mine.setdefault(self.view_at(interval.process, interval.first), {}).setdefault(sender, [])
                    if here and here[-1][1] + 1 == interval.low:
                        here[-1] = here[-1][0], interval.high
                    else:
                        here.append((interval.low, interval.high))
            found[place] = {view: {sender: tuple(each) for sender, each in parts.items()} for view, parts in mine.items()}
        return found

    @cached_property
    def tracks(self) -> dict[Place, list[Track]]:
        """By process and group, view by view, what is on its tapes. Shared pieces are the same arrays in all tracks."""
        places = {name: place for place, name in enumerate(dict.fromkeys(n for part in self.slices for n in part.senders), 1)}
        kind = small_type(len(places) + 1)
        shared: dict[bytes, Codes] = {}
        found: dict[Place, list[Track]] = {}
        tapes = [(tape, part) for part in self.slices for tape in part.tapes]
        if len(self.slices) > 1:
            tapes.sort(key=lambda tape: (tape[0].process, tape[0].group, tape[0].first))
        for tape, part in tapes:
            tracks = found.setdefault((tape.process, tape.group), [])
            view = self.view_at(tape.process, tape.first)
            if not tracks or tracks[-1].view is not view:
                tracks.append(Track(view))
            if isinstance(tape.kept, Spliced):
                pieces = []
                for piece in tape.kept.pieces:
                    codes = shared.get(piece.key) if isinstance(piece, Shared) else None
                    if codes is None:
                        codes = in_codes(piece, places, kind)
                        if isinstance(piece, Shared):
                            shared[piece.key] = codes
                    pieces.append(codes)
                tracks[-1].add(pieces, tape.kept.between)
            else:
                codes = tape.kept
                if len(self.slices) > 1:
                    codes = np.array([0, *(places[name] for name in part.senders)], kind)[codes]
                sends = np.flatnonzero(codes == 0)
                tracks[-1].add([codes[codes != 0] if len(sends) else codes], since_the_last(sends))
        return found

    @cached_property
    def tapes(self) -> dict[Place, list[tuple[View | None, Codes]]]:
        """By process and group, view by view: the codes of the senders, with 0 for sends."""
        return {place: [(track.view, track.codes()) for track in tracks] for place, tracks in self.tracks.items()}

    @cached_property
    def digests_agree(self) -> bool:
        """False if rows about a message differ. Those of ``unresolved`` have still to be compared."""
        return not any(part.differs for part in self.slices) and not self._blocks[0]

    @cached_property
    def differing(self) -> list[Messages] | None:
        """Messages among which are all those about whose digest rows differ; None if there are too many to tell."""
        found = list(self._blocks[0])
        for part in self.slices:
            if part.differs and part.differing is None:
                return None
            found += part.differing or ()
        return found

    @cached_property
    def unresolved(self) -> list[Messages]:
        """Messages whose digests could not be compared: their block is whole in one unit and incomplete in another, as when a
        process crashes in the middle of a block."""
        return self._blocks[1]

    @cached_property
    def _blocks(self) -> tuple[list[Messages], list[Messages]]:
        return self._compare_blocks("digest")

    @cached_property
    def is_ranked(self) -> bool:
        """Whether processes that deliver in several groups do so by rank: along their histories ranks grow, and a message has the
        same one everywhere. Messages of equal rank count as ordered by sender, group and number."""
        last: dict[str, RankKey] = {}
        ends: list[tuple[int, Ranked]] = []
        for part in self.slices:
            if part.ranks is None:
                return False
            ranked = {mine.process for mine in part.ranks}
            if any(interval.process in self.in_several and interval.process not in ranked for interval in part.delivered):
                return False
            begins = {extent.process: extent.first for extent in part.extents}
            ends += [(begins[mine.process], mine) for mine in part.ranks]
        for _, (process, low, high) in sorted(ends):
            if process in last and low <= last[process]:
                return False
            last[process] = high
        return self._compare_blocks("rank") == ([], [])

    @cached_property
    def in_several(self) -> dict[str, list[str]]:
        """The processes that deliver in several groups, and these."""
        found: dict[str, list[str]] = {}
        for process, group in self.delivered:
            found.setdefault(process, []).append(group)
        return {process: groups for process, groups in found.items() if len(groups) > 1}

    def _compare_blocks(self, attribute: str) -> tuple[list[Messages], list[Messages]]:
        """Blocks that differ, and what could not be compared."""
        if len(self.slices) == 1:
            return [], []
        differing: set[_Block] = set()
        unresolved: list[Messages] = []
        whole: dict[_Block, bytes] = {}
        parts: dict[_Block, dict[int, int]] = {}
        together: dict[_Block, Shared] = {}
        for blocks in (blocks for part in self.slices for blocks in part.blocks if blocks.attribute == attribute):
            for number, hashes in blocks.together.items():
                if together.setdefault((blocks.group, blocks.sender, number), hashes).key != hashes.key:
                    differing.update(_add(blocks._replace(whole=taken_apart(number, hashes), parts={}), whole, parts))
            differing.update(_add(blocks, whole, parts))
        for (group, sender, number), hashes in together.items():
            differing.update(_add(Blocks(attribute, group, sender, taken_apart(number, hashes), {}), whole, parts))
        for key, values in parts.items():
            if key not in whole or key in differing:
                continue
            if len(values) < BLOCK:
                unresolved.append((key[0], key[1], min(values), max(values)))
            elif hash_block(np.array([values[number] for number in sorted(values)], np.int64)) != whole[key]:
                differing.add(key)
        every = [(group, sender, block * BLOCK, block * BLOCK + BLOCK - 1) for group, sender, block in sorted(differing)]
        return every, unresolved

    @cached_property
    def participates(self) -> dict[str, set[str]]:
        """The groups in which each process sends or delivers."""
        found: dict[str, set[str]] = {}
        for process, group in (*self.delivered, *self.sent):
            found.setdefault(process, set()).add(group)
        return found

    def longest_delivery(self) -> tuple[int, int, int]:
        """Timed deliveries and the longest, among processes without a timing fault, and the bytes of the largest."""
        every = (entry for part in self.slices for entry in part.timed)
        timed = [entry[2:] for entry in every if not self.facts.untimely & {entry.process, entry.sender}]
        counts, longest, largest = zip(*timed, strict=True) if timed else ((0,), (0,), (0,))
        return sum(counts), max(longest), max(largest)

    def longest_send(self) -> tuple[int, int, int]:
        """Timed sends and the longest, by processes without a timing fault, and the bytes of the largest."""
        untimely = self.facts.untimely
        every = [entry for part in self.slices for entry in part.taken if entry.process not in untimely]
        taken = [entry for entry in every if entry.sends]
        longest = max((entry.longest for entry in taken), default=0)
        return sum(entry.sends for entry in taken), longest, max((entry.largest for entry in every), default=0)

    @cached_property
    def rotations(self) -> tuple[int, int]:
        """How often a token came back to a process without a view or a leave in between, and the longest time that took."""
        pieces = [turns for part in self.slices for turns in part.turns]
        pieces.sort(key=lambda turns: (turns.process, turns.group, turns.first))
        count = sum(turns.rotations for turns in pieces)
        longest = [turns.longest for turns in pieces if turns.rotations]
        for one, other in pairwise(pieces):
            if one[:2] == other[:2] and not self.facts.histories[one.process].is_broken(one.group, one.last, other.first):
                count += 1
                longest.append(between(one.ended, other.began))
        return count, max(longest, default=0)

    @cached_property
    def dating(self) -> list[Place]:
        """Processes that send messages with deadlines, and in which groups."""
        return sorted({place for part in self.slices for place in part.dating})


def arrangement(slices: Sequence[Slice]) -> tuple[bool, list[Misplaced]]:
    """Whether rows of a history may only stand in another order than their indices, and the rows that are misplaced in any order.

    Where the pieces of a history do not overlap, or are complete, sorting fills no gap and removes no repetition."""
    pieces: dict[str, list[Extent]] = {}
    for part in slices:
        for extent in part.extents:
            pieces.setdefault(extent.process, []).append(extent)
    out_of_order, misplaced = False, list[Misplaced]()
    for process in sorted(pieces):
        due, found, is_complete, is_open = 0, list[Misplaced](), True, False
        for extent in sorted(pieces[process], key=lambda extent: extent.first):
            if extent.first < due:
                is_open = is_open or not is_complete or bool(extent.jumps)
                found.append(extent.begin._replace(due=extent.first + 1))
            elif extent.first > due or extent.first < 0:
                found.append(extent.begin._replace(due=due))
            found += extent.jumps
            is_complete = is_complete and not extent.jumps
            due = max(due, extent.last + 1)
        if is_open:
            out_of_order = True
        else:
            misplaced += found
    return out_of_order, misplaced


@dataclasses.dataclass(slots=True)
class Track:
    """What a history delivers of a group in one view, in order, and when it sends."""

    view: View | None
    parts: list[Codes] = dataclasses.field(default_factory=list)  # the codes of the senders
    size: int = 0
    sends: int = 0
    _between: list[tuple[int, Codes]] = dataclasses.field(default_factory=list)

    def add(self, parts: Sequence[Codes], steps: Codes) -> None:
        """What follows: deliveries, and how many of them come before each send since the send before."""
        self._between.append((self.size, steps))
        self.parts += parts
        self.size += sum(map(len, parts))
        self.sends += len(steps)

    def delivered(self) -> Codes:
        return self.parts[0] if len(self.parts) == 1 else np.concatenate(self.parts) if self.parts else np.zeros(0, np.uint8)

    def delivered_before(self, send: int) -> int:
        """How many of the deliveries come before the send of that place."""
        for before, steps in self._between:
            if send < len(steps):
                return before + int(steps[: send + 1].sum(dtype=np.int64))
            send -= len(steps)
        raise IndexError(send)

    def codes(self) -> Codes:
        """All of it, with 0 for sends."""
        at = [before + np.cumsum(steps, dtype=np.int64) for before, steps in self._between]
        return np.insert(self.delivered(), np.concatenate(at), 0) if self.sends else self.delivered()


class _Places:
    """What a slice says of each process."""

    def __init__(self, part: Slice) -> None:
        self.extents = {extent.process: extent for extent in part.extents}
        self.own: dict[str, list[Own]] = {}
        for own in part.own:
            self.own.setdefault(own.process, []).append(own)
        self.claims: dict[str, list[tuple[str, int]]] = {}
        for process, group, view in part.claims:
            self.claims.setdefault(process, []).append((group, view))


def _add(blocks: Blocks, whole: dict[_Block, bytes], parts: dict[_Block, dict[int, int]]) -> Iterator[_Block]:
    """Adds what a unit says; yields blocks that differ from what is known."""
    for block, digest in blocks.whole.items():
        key = blocks.group, blocks.sender, block
        if whole.setdefault(key, digest) != digest:
            yield key
    for block, (numbers, values) in blocks.parts.items():
        key = blocks.group, blocks.sender, block
        known = parts.setdefault(key, {})
        if any(known.setdefault(n, value) != value for n, value in zip(numbers.tolist(), values.tolist(), strict=True)):
            yield key
