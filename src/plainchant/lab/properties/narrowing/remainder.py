"""A run of any kind without some of its messages: what is left is a run as well, and is proved like any other.

The messages that are left are numbered anew, without gaps, so the certificates are those of a run in which the others were never
sent. An interval without some of its numbers is an interval again, in the same view and membership, and keeps its first row; that
row now stands for the first message of the interval that is left.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ..certificates.columns import Ints, Mask
from ..certificates.evidence import Doubtful, Evidence
from ..certificates.ranges import Range
from ..certificates.records import Delivered, Extent, Misplaced, Own, Sent, Slice, Tape, Weave
from ..facts import Columns, Run
from .strands import Key, Strand, Strands

_ASIDE: Final = "aside"  # a kind that no property knows
_UNUSED: Final = ("stops", "moves", "claims", "timed", "taken", "blocks", "turns", "dated", "dating")


class Remainder:
    """The evidence of a run without some of its messages."""

    def __init__(self, strands: Strands, without: Mask) -> None:
        self._strands = strands
        self._evidence = strands.evidence
        kept = ~without
        so_far = np.concatenate(([0], np.cumsum(kept)))
        self._so_far: Ints = so_far
        self._kept = kept
        self._heads: dict[tuple[str, int], int] = {}  # by process and index: the new number of the message of that row
        delivered = [part for part in map(self._delivered, self._every_delivered()) if part is not None]
        sent = [part for part in map(self._sent, self._every_sent()) if part is not None]
        tapes, weaves, own = list[Tape](), list[Weave](), list[Own]()
        for strand in strands.all:
            self._take(strand, tapes, weaves, own)
        certificates: dict[str, Any] = {name: [] for name in _UNUSED}
        certificates |= {"delivered": delivered, "sent": sent, "own": own, "tapes": tapes, "weaves": weaves}
        certificates |= {"senders": strands.senders, "groups": strands.groups, "rows": self._evidence.rows}
        certificates |= {"suspect": False, "differs": False, "ranks": [] if len(strands.groups) == 1 else None}
        self.evidence = self._assemble(certificates)

    def originals(self, key: Key, ranges: list[Range]) -> Ints:
        """The messages that have some of the new numbers."""
        place = self._strands.places[key]
        first, count = int(self._strands.bases[place]), int(self._strands.counts[place])
        mine = first + np.flatnonzero(self._kept[first : first + count])
        return np.concatenate([np.zeros(0, np.int64), *(mine[max(low, 1) - 1 : high] for low, high in ranges)])

    def _every_delivered(self) -> list[Delivered]:
        return [each for by_sender in self._evidence.delivered.values() for mine in by_sender.values() for each in mine]

    def _every_sent(self) -> list[Sent]:
        return [each for spans in self._evidence.sent.values() for each in spans]

    def _numbers(self, key: Key, low: int, high: int) -> Range:
        """The new numbers of some messages; an empty range if none is left."""
        base, ends = int(self._strands.bases[self._strands.places[key]]), self._strands.of(key, np.array([low, high]))
        before = int(self._so_far[base])
        return int(self._so_far[ends[0]]) - before + 1, int(self._so_far[ends[1] + 1]) - before

    def _delivered(self, interval: Delivered) -> Delivered | None:
        low, high = self._numbers((interval.group, interval.sender), interval.low, interval.high)
        if high < low:
            return None
        self._heads[interval.process, interval.first] = low
        return interval._replace(low=low, high=high)

    def _sent(self, span: Sent) -> Sent | None:
        low, high = self._numbers((span.group, span.process), span.low, span.high)
        if high < low:
            return None
        self._heads[span.process, span.first] = low
        return span._replace(low=low, high=high)

    def _take(self, strand: Strand, tapes: list[Tape], weaves: list[Weave], own: list[Own]) -> None:
        """The tapes of one history; its own messages are delivered after they were sent, or are not left."""
        name, kept = strand.history.name, self._kept[strand.messages]
        heads = sorted(index for process, index in self._heads if process == name)
        present = np.unique(strand.groups)
        for place in present.tolist():
            group = self._strands.groups[place]
            chosen = strand.groups == place
            codes, left = strand.codes[chosen], kept[chosen]
            first = 0
            parts = [tape for part in self._evidence.slices for tape in part.tapes if tape[:2] == (name, group)]
            parts.sort(key=lambda tape: tape.first)
            for tape, following in zip(parts, [*parts[1:], None], strict=True):
                mine = slice(first, first + len(tape.codes))
                first = mine.stop
                if left[mine].any():
                    head = self._head(name, group, heads, tape.first, following.first if following is not None else None)
                    tapes.append(Tape(name, group, head, codes[mine][left[mine]]))
            own.append(Own(name, group, int(np.count_nonzero(kept & chosen & strand.is_send)), 0))
        if len(present) > 1:
            weaves.append(Weave(name, strand.groups[kept]))

    def _head(self, name: str, group: str, heads: list[int], first: int, end: int | None) -> int:
        """The first row of an interval that is left in a tape's stretch of a history."""
        for index in heads[bisect_right(heads, first - 1) :]:
            if end is not None and index >= end:
                break
            if self._evidence.event(name, index).message[0] == group:
                return index
        raise Doubtful

    def _assemble(self, certificates: dict[str, Any]) -> Evidence:
        facts = self._evidence.facts
        skeleton, self.aside = self._skeleton()
        certificates["extents"] = [Extent(h.name, 0, h.last_index, False, Misplaced(h.name, 0, 0, None), ()) for h in facts.all]
        left = Run(facts.name, Columns(skeleton), range(skeleton.num_rows))
        for mine, theirs in zip(left.all, facts.all, strict=True):  # a message after a leave tells that a history is cut
            mine.crashed, mine.cut = theirs.crashed, theirs.cut
        for group in {each.group for each in (*certificates["delivered"], *certificates["sent"])} - facts.viewed - facts.joined:
            # who delivers is a member
            if [left.is_ever_member(h, group) for h in left.all] != [facts.is_ever_member(h, group) for h in facts.all]:
                raise Doubtful
        return Evidence(left, [Slice(run=facts.name, **certificates)])

    def _skeleton(self) -> tuple[pa.Table, pa.Table]:
        """The rows that the facts are read from, with new numbers; and the rows that are about no message."""
        facts = self._evidence.facts
        kinds, seqs = list(facts.columns["kind"]), list(facts.columns["seq"])
        plain = list(kinds)
        for history in facts.all:
            for event in (*history.traffic, *history.repeats, *history.rejects, *history.blocks):
                number = self._heads.get(event.place)
                if kinds[event.row] in ("send", "deliver"):
                    plain[event.row] = _ASIDE
                if number is None:
                    kinds[event.row] = _ASIDE
                else:
                    seqs[event.row] = number
        table = pa.concat_tables([_plain(part.skeleton) for part in self._evidence.slices], promote_options="permissive")
        at = {name: place for place, name in enumerate(table.column_names)}
        numbered = table.set_column(at["kind"], "kind", pa.array(kinds, pa.string()))
        numbered = numbered.set_column(at["seq"], "seq", pa.array(seqs, pa.int64()))
        return numbered, table.set_column(at["kind"], "kind", pa.array(plain, pa.string()))


def _plain(skeleton: pa.Table | None) -> pa.Table:
    if skeleton is None:
        raise Doubtful
    kinds = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in skeleton.schema]
    return skeleton.cast(pa.schema(list(zip(skeleton.column_names, kinds, strict=True))))
