"""A run without its doubtful messages: what is left is a run as well, and is proved like any other.

Its messages are numbered anew, without gaps, so the certificates are those of a run in which the doubtful messages were never
sent. Each interval has its first row in the skeleton, as the proofs expect; where that row was about a doubtful message, it now
stands for the first message of the interval that is left. (Only the views and memberships around the row count, and those are
the same all through an interval.)
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from ..certificates.columns import Ints, Mask
from ..certificates.evidence import Doubtful, Evidence
from ..certificates.records import Delivered, Extent, Misplaced, Own, Sent, Slice, Tape
from ..facts import Columns, Run
from .walks import Walk, Walks

_ASIDE = "aside"  # a kind that no property knows

_UNUSED: Final = ("weaves", "stops", "moves", "claims", "timed", "taken", "ranks", "blocks", "turns", "dated", "dating")

Place: TypeAlias = tuple[str, int, str]  # (process, place of a view in the chain, "send" or the sender of deliveries)


class Rest:
    """The evidence of a run without some of its messages."""

    def __init__(self, evidence: Evidence, walks: Walks, doubtful: Mask) -> None:
        self._walks = walks
        self._evidence = evidence
        kept = ~doubtful[: walks.sent]
        so_far = np.cumsum(kept)
        firsts = np.concatenate(([0], so_far))[walks.bases]
        self._numbers: Ints = so_far - np.repeat(firsts, walks.counts)  # of each message that is kept
        self._kept = kept
        self._lows: dict[Place, int] = {}  # the first number of each interval
        self._delivered: list[Delivered] = []
        self._sent: list[Sent] = []
        self._own: list[Own] = []
        self._tapes: list[tuple[str, int, Any]] = []
        self._sequence = walks.sequence[kept[walks.sequence]]
        self._check_sequence()
        for walk in walks.walks:
            self._take(walk)
        self.evidence = self._assemble()

    def _check_sequence(self) -> None:
        """Along the sequence, each sender's messages come in the order of their numbers, all of them."""
        senders = self._walks.sender_of(self._sequence)
        order = np.argsort(senders, kind="stable")
        if not np.array_equal(self._sequence[order], np.flatnonzero(self._kept)):
            raise Doubtful
        self._codes = senders
        self._at = np.full(self._walks.size, -1, np.int64)
        self._at[self._sequence] = np.arange(len(self._sequence))

    def _take(self, walk: Walk) -> None:
        """The certificates of one history: a walk of single steps over what is left of the sequence."""
        name, group = walk.history.name, self._walks.group
        is_send = walk.codes == 0
        rows = np.empty(len(walk.codes), np.int64)
        rows[is_send], rows[~is_send] = walk.sent, walk.delivered
        is_kept = (rows < self._walks.sent) & self._kept[np.minimum(rows, self._walks.sent - 1)]
        steps = self._at[rows[is_kept & ~is_send]]
        if (np.diff(steps) != 1).any():
            raise Doubtful
        self._count_own(walk, rows[is_kept], is_send[is_kept])
        first = 0
        self._passed = 0, np.zeros(len(self._walks.senders), np.int64)
        for view, size in walk.views:
            part = slice(first, first + size)
            first += size
            mine, sends = is_kept[part], is_send[part]
            if not mine.any():
                continue
            place = self._walks.chain[view]
            self._tapes.append((name, place, walk.codes[part][mine]))
            sent, taken = rows[part][mine & sends], rows[part][mine & ~sends]
            if len(sent):
                low, high = int(self._numbers[sent[0]]), int(self._numbers[sent[-1]])
                self._lows[name, place, "send"] = low
                self._sent.append(Sent(name, group, low, high, place, place))
            if len(taken):
                self._intervals(name, place, int(self._at[taken[0]]), int(self._at[taken[-1]]) + 1)

    def _intervals(self, name: str, place: int, begin: int, end: int) -> None:
        width = len(self._walks.senders)
        counts = np.bincount(self._codes[begin:end], minlength=width)
        passed, before = self._passed
        before = before + np.bincount(self._codes[passed:begin], minlength=width)
        self._passed = end, before + counts
        for code in np.flatnonzero(counts).tolist():
            sender, low = self._walks.senders[code], int(before[code]) + 1
            self._lows[name, place, f"deliver {sender}"] = low
            high = low + int(counts[code]) - 1
            self._delivered.append(Delivered(name, self._walks.group, sender, low, high, place, place))

    def _count_own(self, walk: Walk, rows: Ints, is_send: Mask) -> None:
        """No own message is delivered before it is sent."""
        if not len(walk.sent):
            return
        own = self._walks.senders.index(walk.history.name)
        mine = ~is_send & (self._walks.sender_of(rows) == own)
        lead = self._numbers[rows[mine]] - np.cumsum(is_send)[mine]
        self._own.append(Own(walk.history.name, self._walks.group, int(is_send.sum()), int(lead.max(initial=-1))))

    def _assemble(self) -> Evidence:
        """Puts the index of a row in the place of each view, and makes the skeleton and the facts of it."""
        skeleton, heads, self.aside = self._skeleton()
        group, senders = self._walks.group, self._walks.senders

        def settled(interval: Any, what: str) -> Any:
            at = heads[interval.process, interval.first, what]
            return interval._replace(first=at, last=at)

        delivered = [settled(interval, f"deliver {interval.sender}") for interval in self._delivered]
        sent = [settled(span, "send") for span in self._sent]
        tapes = [Tape(name, group, _any_head(heads, name, place), codes) for name, place, codes in self._tapes]
        extents = [Extent(h.name, 0, h.last_index, False, Misplaced(h.name, 0, 0, None), ()) for h in self._evidence.facts.all]
        certificates: dict[str, Any] = {name: [] for name in _UNUSED}
        certificates |= {"delivered": delivered, "sent": sent, "own": self._own, "tapes": tapes, "extents": extents}
        certificates |= {"senders": senders, "groups": [group], "rows": self._evidence.rows, "suspect": False, "differs": False}
        part = Slice(run=self._evidence.facts.name, **certificates)
        facts = Run(self._evidence.facts.name, Columns(skeleton), range(skeleton.num_rows))
        for mine, theirs in zip(facts.all, self._evidence.facts.all, strict=True):
            if (mine.crashed, mine.cut, mine.end, mine.left) != (theirs.crashed, theirs.cut, theirs.end, theirs.left):
                raise Doubtful
        return Evidence(facts, [part])

    def _skeleton(self) -> tuple[pa.Table, dict[Place, int], pa.Table]:
        """The rows that the facts are read from, with new numbers; where each interval begins; and the rows that are about no
        message."""
        facts, group = self._evidence.facts, self._walks.group
        columns, heads = facts.columns, dict[Place, int]()
        kinds, seqs = list(columns["kind"]), list(columns["seq"])
        plain = list(kinds)
        for history in facts.all:
            for event in sorted((*history.traffic, *history.repeats), key=lambda event: event.index):
                what = "send" if event.is_send else f"deliver {event.message[1]}"
                plain[event.row] = kinds[event.row] = _ASIDE
                place = self._walks.chain.get(event.view, -1) if event.view is not None else -1
                key = history.name, place, what
                if key in self._lows and key not in heads:
                    heads[key] = event.index
                    kinds[event.row], seqs[event.row] = "send" if event.is_send else "deliver", self._lows[key]
        table = self._table(columns)
        for event in (event for history in facts.all for event in (*history.rejects, *history.blocks)):
            if event.message[0] == group:
                kinds[event.row] = _ASIDE
        at = {name: place for place, name in enumerate(table.column_names)}
        numbered = table.set_column(at["kind"], "kind", pa.array(kinds, pa.string()))
        numbered = numbered.set_column(at["seq"], "seq", pa.array(seqs, pa.int64()))
        return numbered, heads, table.set_column(at["kind"], "kind", pa.array(plain, pa.string()))

    def _table(self, columns: Columns) -> pa.Table:
        return pa.concat_tables([self._plain(part.skeleton) for part in self._evidence.slices], promote_options="permissive")

    @staticmethod
    def _plain(skeleton: pa.Table | None) -> pa.Table:
        if skeleton is None:
            raise Doubtful
        kinds = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in skeleton.schema]
        return skeleton.cast(pa.schema(list(zip(skeleton.column_names, kinds, strict=True))))


def _any_head(heads: dict[Place, int], name: str, place: int) -> int:
    return min(at for (process, view, _), at in heads.items() if (process, view) == (name, place))
