"""Stage 1 of verification: one pass over a unit of rows yields certificates that are small and lose nothing that counts.

A *unit* is a row group, or whatever rows are available; it may hold many whole runs or a piece of one. Messages of a sender are
numbered without gaps, so the *set* of messages that a process delivers of one sender is a few *intervals* of numbers, in an
ordinary run one for each view. Once the intervals are known, the *order* of deliveries follows from the sequence of senders
alone, one byte for each delivery: the *tape* (a send of its own is on it as 0). Both are exact. Nothing here judges a protocol;
stage 2 (``properties.proof``) does, from the certificates of a whole run. ``records`` describes each certificate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ....trace.reader import Part, file_of
from ....trace.schema import FINAL_KINDS, KINDS, REQUIRED
from ....trace.validation import detail_problems
from ..facts import COLUMNS
from .agreed import BLOCK, Agreed, Blocks
from .columns import Coded, Ints, Mask, Rows, small_type, stable_order, starts_of
from .records import (
    MAX_SLOWEST,
    NOWHERE,
    Dated,
    Delivered,
    Extent,
    Misplaced,
    Moves,
    Own,
    Ranked,
    RankKey,
    Sent,
    Slice,
    Stop,
    Taken,
    Tape,
    Timed,
    Turns,
    Weave,
)
from .shared import SHARE
from .waits import Waiting, stated_bound

CONTROL: Final = frozenset(
    {"start", "join", "leave", "view", "crash", "end", "fault", "reject", "block", "note", "request", "refused"}
)
"""Kinds that properties look at row by row."""

MAX_JUMPS: Final = 100  # misplaced rows of a history that a unit tells of
MAX_TORN: Final = 2_000  # blocks of a run whose digests a unit tells one by one, 2 KiB each, besides their hash

_OTHER, _DELIVER, _SEND, _VIEW, _JOIN, _LEAVE, _CONTROL = range(7)
_CODES: Final = {"deliver": _DELIVER, "send": _SEND, "view": _VIEW, "join": _JOIN, "leave": _LEAVE}
_NEVER: Final = -(2**62)


class Unit:
    """The certificates of a unit. ``slice`` gives those of one run."""

    def __init__(
        self,
        table: pa.Table,
        files: Sequence[Part] = (),
        columns: Sequence[str] = COLUMNS,
        bounds: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """``files``: where the rows of the table came from. ``columns``: what ``rows`` has to have. ``bounds``: what runs that
        may begin elsewhere state for ``progress`` (0: nothing)."""
        self._told = bounds
        table = table.select([name for name in columns if name in table.column_names])
        self._files = files
        self.without_place = 0
        for name in REQUIRED:
            if table.column(name).null_count:
                there = pc.is_valid(table.column(name))
                self.without_place += table.num_rows - int(pc.sum(there).as_py() or 0)
                table = table.filter(there)
        self.rows = Rows(table)
        self._table = table
        self.runs: list[str] = self.rows.run.values
        if table.num_rows:
            self._certify()

    def size_of(self, run: int) -> int:
        """The rows of a run, given its place in ``runs``."""
        return int(self._listed.counts[run])

    def file_of_row(self, at: int) -> str | None:
        """The file of a row; None if that is not known."""
        if self.without_place:
            return None
        return file_of(self._files, at if self.rows.order is None else int(self.rows.order[at]))

    def _certify(self) -> None:
        rows = self.rows
        count = len(rows)
        codes = [_CODES.get(value, _CONTROL if value in CONTROL else _OTHER) for value in rows.kind.values]
        self._kinds: NDArray[np.int8] = np.array([*codes, _OTHER], np.int8)[rows.kind.codes]
        self._begins = starts_of(rows.history[1:] != rows.history[:-1])
        self._ends: Ints = np.append(self._begins[1:], count) - 1
        self._dense: Ints = np.repeat(np.arange(len(self._begins)), self._ends - self._begins + 1)
        self._owner: NDArray[np.int32] = rows.process.codes[self._begins]
        self._run_of: NDArray[np.int32] = rows.run.codes[self._begins]
        self._groups = max(1, len(rows.group.values))
        self._senders = max(1, len(rows.sender.values))
        self._suspects: Mask = np.zeros(len(self.runs), np.bool_)
        self._odd: Mask = np.zeros(len(self._begins), np.bool_)  # by history
        self._differing: Mask = np.zeros(len(self.runs), np.bool_)
        places = {name: code for code, name in enumerate(rows.process.values)}
        owners = [*(places.get(name, -1) for name in rows.sender.values), -1]
        self._sender_process: NDArray[np.int32] = np.array(owners, np.int32)  # the process of that name; -1: it has no rows here
        self._place: Ints = self._dense * self._groups + rows.group.codes  # history and group of each row that has a group
        self._check_rows()
        self._cut_into_segments()
        self._check_views()
        self._intervals()
        self._tapes()
        self._own()
        self._digests = self._agree("digest", self._message, self._differing)
        self._differing_rows = self._contradicting
        self._weave()
        self._stop()
        self._times()
        self._choose_skeleton()

    def _suspect(self, where: Mask | Ints) -> None:
        """Marks the runs and the histories of some rows."""
        self._suspects[self.rows.run.codes[where]] = True
        self._odd[self._dense[where]] = True

    def _check_rows(self) -> None:
        rows, kinds = self.rows, self._kinds
        message = (kinds == _DELIVER) | (kinds == _SEND)
        nameless = (rows.group.codes < 0) | (rows.sender.codes < 0)
        if rows.has_seq is not None:
            nameless |= ~rows.has_seq
        foreign = (kinds == _SEND) & (self._sender_process[rows.sender.codes] != rows.process.codes)
        groupless = ((kinds == _VIEW) | (kinds == _JOIN) | (kinds == _LEAVE)) & (rows.group.codes < 0)
        wrong = (message & (nameless | foreign)) | groupless
        if rows.has_view is not None:
            wrong |= (kinds == _VIEW) & ~rows.has_view
        if wrong.any():
            self._suspect(wrong)
            kinds[wrong] = _OTHER
            message &= ~wrong
        self._message: Ints = np.flatnonzero(message)
        final = [value in FINAL_KINDS for value in rows.kind.values]
        self._is_final: Mask = np.array([*final, False], np.bool_)[rows.kind.codes]
        followed = self._is_final.copy()
        followed[self._ends] = False
        if followed.any():
            self._suspect(followed)
        views = np.flatnonzero(kinds == _VIEW)
        lists = rows.rows(views).column("members").to_pylist() if len(views) else []
        bad = [not names or None in names or len(set(names)) < len(names) for names in lists]
        self._suspect(views[np.array(bad, np.bool_)])
        self._check_details()

    def _check_details(self) -> None:
        """Rows that say the same are looked at once."""
        details = self.rows.codes("detail")
        having = np.flatnonzero(details.codes >= 0)
        if not len(having):
            return
        width = len(details.values)
        pairs = self.rows.kind.codes[having].astype(np.int64) * width + details.codes[having]
        known = np.array([value in KINDS for value in self.rows.kind.values], np.bool_)
        for kind, detail in (divmod(pair, width) for pair in np.unique(pairs).tolist()):
            if known[kind] and any(detail_problems(self.rows.kind.values[kind], details.values[detail])):
                self._suspect(having[pairs == kind * width + detail])

    def _cut_into_segments(self) -> None:
        """Gives each message row the number of its segment: between the ``view`` and ``join`` rows of its group and the
        ``leave`` rows of its process. Numbers grow with history, group and place."""
        kinds = self._kinds
        is_mark = (kinds == _VIEW) | (kinds == _JOIN) | (kinds == _LEAVE)
        marks = np.flatnonzero(is_mark)
        places = self._place[self._message]
        if self._groups == 1:
            self._segment: Ints = places + np.cumsum(is_mark)[self._message]
        else:
            leaves = marks[kinds[marks] == _LEAVE]
            present = np.unique(places)
            keys = [self._place[marks] * (len(self.rows) + 1) + marks]
            for leave in leaves.tolist():
                low = self._dense[leave] * self._groups
                here = present[(present >= low) & (present < low + self._groups)]
                keys.append(here * (len(self.rows) + 1) + leave)
            boundaries = np.unique(np.concatenate(keys))
            own = places * (len(self.rows) + 1) + self._message
            self._segment = places + np.searchsorted(boundaries, own, side="right")
        self._segments = self._groups * len(self._begins) + 2 * self._groups * len(marks) + 1

    def _check_views(self) -> None:
        """A row's ``view`` is the last one installed there; rows before the first one of the unit make a claim."""
        rows = self.rows
        stating = (rows.group.codes >= 0) & (self._kinds != _VIEW)
        if rows.has_view is not None:
            stating &= rows.has_view
        places = np.flatnonzero(stating)
        installs = np.flatnonzero((self._kinds == _VIEW) & (rows.group.codes >= 0))
        scale = len(rows) + 1
        order = np.argsort(self._place[installs] * scale + installs, kind="stable")
        installs = installs[order]
        if self._groups == 1 and len(installs):
            before = np.cumsum(self._kinds == _VIEW)[places] - 1
        else:
            before = np.searchsorted(self._place[installs] * scale + installs, self._place[places] * scale + places) - 1
        known = before >= 0
        if len(installs):
            last = installs[np.maximum(before, 0)]
            known &= self._place[last] == self._place[places]
            wrong = known & (rows.view[last] != rows.view[places])
            if wrong.any():
                self._suspect(places[wrong])
        claiming = places[~known]
        self._claims: dict[int, list[tuple[str, str, int]]] = {}
        if len(claiming):
            claiming = claiming[stable_order(self._place[claiming], self._groups * len(self._begins))]
            starts = claiming[starts_of(np.diff(self._place[claiming]) != 0, np.diff(rows.view[claiming]) != 0)]
            for at in starts.tolist():
                mine = self._claims.setdefault(int(rows.run.codes[at]), [])
                mine.append((*self._names(at), int(rows.view[at])))

    def _names(self, at: int) -> tuple[str, str]:
        return self.rows.process.values[self.rows.process.codes[at]], self.rows.group.values[self.rows.group.codes[at]]

    def _intervals(self) -> None:
        rows = self.rows
        deliver = self._kinds[self._message] == _DELIVER
        where, segment = self._message[deliver], self._segment[deliver]
        keys = segment * self._senders + rows.sender.codes[where]
        order = stable_order(keys, self._segments * self._senders)
        where, keys = where[order], keys[order]
        self._by_sender = where, keys  # deliveries and their segment and sender, in the order of these
        seqs = rows.seq[where]
        self._delivered = _Spans(where, np.diff(keys) != 0, np.diff(seqs) != 1)
        where, segment = self._message[~deliver], self._segment[~deliver]
        if self._groups > 1:
            order = stable_order(segment, self._segments)
            where, segment = where[order], segment[order]
        seqs = rows.seq[where]
        same = np.diff(self._place[where]) == 0
        gap = same & (np.diff(seqs) != 1)
        if gap.any():
            self._suspect(where[1:][gap])
        self._sent = _Spans(where, np.diff(segment) != 0, gap)

    def _tapes(self) -> None:
        where, segment = self._message, self._segment
        if self._groups > 1:
            order = stable_order(segment, self._segments)
            where, segment = where[order], segment[order]
        kind = small_type(self._senders + 1)
        senders = self.rows.sender.codes[where].astype(kind) + kind(1)
        self._tape = np.where(self._kinds[where] == _SEND, kind(0), senders)
        starts = starts_of(np.diff(segment) != 0) if len(where) else np.zeros(0, np.int64)
        self._tape_starts: Ints = where[starts] if len(where) else where
        self._tape_bounds: Ints = np.append(starts, len(where))
        self._tape_cuts: Ints = np.flatnonzero((self.rows.seq[where] % SHARE == 0) & (self._tape != 0))

    def _own(self) -> None:
        """Per history and group: sends, and how far deliveries of own messages run ahead of them."""
        rows = self.rows
        where = self._message[self._sender_process[rows.sender.codes[self._message]] == rows.process.codes[self._message]]
        if self._groups > 1:
            where = where[stable_order(self._place[where], self._groups * len(self._begins))]
        self._own_rows: dict[int, list[Own]] = {}
        if not len(where):
            return
        starts = starts_of(np.diff(self._place[where]) != 0)
        is_send = (self._kinds[where] == _SEND).astype(np.int64)
        so_far = np.cumsum(is_send)
        base = np.repeat((so_far - is_send)[starts], np.diff(np.append(starts, len(where))))
        lead = np.where(is_send == 1, _NEVER, rows.seq[where] - (so_far - base))
        leads = np.maximum.reduceat(lead, starts).tolist()
        sends = np.add.reduceat(is_send, starts).tolist()
        runs = self._run_of[self._dense[where[starts]]].tolist()
        names = [self._names(at) for at in where[starts].tolist()]
        for run, (process, group), sent, ahead in zip(runs, names, sends, leads, strict=True):
            self._own_rows.setdefault(run, []).append(Own(process, group, sent, ahead))

    def _contradicted(self, run: int) -> list[tuple[str, str, int, int]] | None:
        """Messages about whose digest rows of a run differ here; None if there are too many."""
        rows = self.rows
        where = self._differing_rows[rows.run.codes[self._differing_rows] == run]
        if len(where) > MAX_JUMPS:
            return None
        names = [(rows.group.values[rows.group.codes[at]], rows.sender.values[rows.sender.codes[at]]) for at in where.tolist()]
        return [(*name, seq, seq) for name, seq in zip(names, rows.seq[where].tolist(), strict=True)]

    def _agree(self, name: str, where: Ints, differing: Mask) -> Agreed:
        """Compares what some rows say of the same message. Nulls say nothing."""
        rows = self.rows
        values, there = rows.ints(name)
        if there is not None:
            where = where[there[where]]
        key = rows.run.codes[where].astype(np.int64) * self._groups + rows.group.codes[where]
        key = key * self._senders + rows.sender.codes[where]
        agreed = Agreed(name, key, rows.seq[where], values[where], self._kinds[where] == _SEND)
        self._contradicting = where[agreed.differing]
        differing[rows.run.codes[self._contradicting]] = True
        return agreed

    def _weave(self) -> None:
        """Where a process is in several groups, how their rows follow each other."""
        rows = self.rows
        self._weaves: dict[int, list[Weave]] = {}
        self._needs_ranks: Mask = np.zeros(len(self.runs), np.bool_)
        if self._groups == 1:
            return
        pairs = np.unique(self._place[self._message])
        owners = pairs // self._groups
        several = np.unique(owners[1:][owners[1:] == owners[:-1]])
        named = rows.group.codes >= 0
        groups = np.unique(rows.run.codes[named].astype(np.int64) * self._groups + rows.group.codes[named]) // self._groups
        self._needs_ranks = np.bincount(groups, minlength=len(self.runs)) > 1
        kind = small_type(self._groups)
        first, last = self._message_bounds(several)
        for history, a, b in zip(several.tolist(), first, last, strict=True):
            weave = Weave(rows.process.values[self._owner[history]], rows.group.codes[self._message[a:b]].astype(kind))
            self._weaves.setdefault(int(self._run_of[history]), []).append(weave)

    def _message_bounds(self, histories: Ints) -> tuple[list[int], list[int]]:
        """Where the message rows of some histories begin and end."""
        first = np.searchsorted(self._message, self._begins[histories])
        last = np.searchsorted(self._message, self._ends[histories], side="right")
        return first.tolist(), last.tolist()

    def _stop(self) -> None:
        """Block rows about messages; in runs that have them, when the message rows of each history were written."""
        rows = self.rows
        self._stops: dict[int, list[Stop]] = {}
        self._moves: dict[int, list[Moves]] = {}
        about = rows.kind.equals("block") & (rows.group.codes >= 0)
        if rows.has_seq is not None:
            about &= rows.has_seq
        where = np.flatnonzero(about)
        if not len(where):
            return
        first = np.searchsorted(self._message, self._begins[self._dense[where]])
        before = (np.searchsorted(self._message, where) - first).tolist()
        for at, index, passed in zip(where.tolist(), rows.index[where].tolist(), before, strict=True):
            stop = Stop(rows.process.values[rows.process.codes[at]], index, passed)
            self._stops.setdefault(int(rows.run.codes[at]), []).append(stop)
        times, there = rows.ints("true_time")
        stopped: Mask = np.zeros(len(self.runs), np.bool_)
        stopped[list(self._stops)] = True
        histories = np.flatnonzero(stopped[self._run_of])
        for history, a, b in zip(histories.tolist(), *self._message_bounds(histories), strict=True):
            mine = self._message[a:b]
            known = np.ones(len(mine), np.bool_) if there is None else there[mine]
            moved = np.ones(len(mine), np.bool_)
            moved[1:] = (np.diff(times[mine]) != 0) | ~known[1:] | ~known[:-1]
            moved &= known.any()
            first_time, last_time = (int(times[mine[at]]) if len(mine) and known[at] else None for at in (0, -1))
            moves = Moves(rows.process.values[self._owner[history]], np.packbits(moved), first_time, last_time)
            self._moves.setdefault(int(self._run_of[history]), []).append(moves)

    @cached_property
    def _torn(self) -> tuple[dict[int, set[int]], Ints]:
        """Blocks, by run, group and sender, in the middle of which a history begins or ends here, or installs a view: it, or
        another process, may have the rest elsewhere. And how many of them each run has."""
        rows, found = self.rows, dict[int, set[int]]()
        cuts = []
        for spans in (self._delivered, self._sent):
            for ends, aside in ((spans.heads, 0), (spans.tails, 1)):
                ends = ends[(rows.seq[ends] + aside) % BLOCK != 0]
                keys = rows.run.codes[ends].astype(np.int64) * self._groups + rows.group.codes[ends]
                cuts.append(np.stack([keys * self._senders + rows.sender.codes[ends], rows.seq[ends] // BLOCK]))
        keys, blocks = np.unique(np.concatenate(cuts, axis=1), axis=1)
        for key, block in zip(keys.tolist(), blocks.tolist(), strict=True):
            found.setdefault(key, set()).add(block)
        return found, np.bincount(keys // (self._groups * self._senders), minlength=len(self.runs))

    @cached_property
    def _ranks(self) -> _Ranks:
        """Where there are several groups, ranks may show that one order holds across them."""
        return _Ranks(self)

    @cached_property
    def _waiting(self) -> Waiting:
        sends = self._message[self._kinds[self._message] == _SEND]
        return Waiting(self.rows, self._place, self._by_sender, sends, self._bounds)

    @cached_property
    def _bounds(self) -> dict[int, int]:
        """By run: the time that its ``start`` rows state for ``progress``, or 0. Where there are none, it may have been told."""
        rows = self.rows
        found = {place: self._told[run] for place, run in enumerate(self.runs) if run in self._told}
        starts, details = np.flatnonzero(rows.kind.equals("start")), rows.codes("detail")
        stated = {code: stated_bound(details.values[code]) for code in set(details.codes[starts].tolist()) if code >= 0}
        for run, code in zip(rows.run.codes[starts].tolist(), details.codes[starts].tolist(), strict=True):
            found[run] = max(found.get(run, 0), stated.get(code, 0))
        return found

    def _times(self) -> None:
        """Per segment and sender: how many deliveries have a known duration, and the longest."""
        where, keys = self._by_sender
        began, has_began = self.rows.ints("sent")
        ended, has_ended = self.rows.ints("true_time")
        for mask in (has_began, has_ended):
            if mask is not None:
                known = mask[where]
                where, keys = where[known], keys[known]
        starts = starts_of(np.diff(keys) != 0) if len(where) else where
        self._timed_heads: Ints = where[starts]
        self._timed_counts: list[int] = np.diff(np.append(starts, len(where))).tolist()
        sizes = self._sizes
        self._longest: list[int] = np.maximum.reduceat(ended[where] - began[where], starts).tolist() if len(where) else []
        self._largest: list[int] = np.maximum.reduceat(sizes[where], starts).tolist() if len(where) else []
        self._send_times()
        self._turn()
        self._deadlines()
        self._unsteady = self._find_unsteady()

    @cached_property
    def _sizes(self) -> Ints:
        """Bytes of each row's message; -1: not told."""
        sizes, there = self.rows.ints("size")
        return sizes if there is None else np.where(there, sizes, -1)

    def _turn(self) -> None:
        """Per history and group: the ways of the token round, as far as they begin and end here."""
        rows = self.rows
        self._turns: dict[int, list[Turns]] = {}
        where = np.flatnonzero(rows.kind.equals("token") & (rows.group.codes >= 0))
        if not len(where):
            return
        where = where[np.argsort(self._place[where], kind="stable")]
        breaks = np.flatnonzero(((self._kinds == _VIEW) | (self._kinds == _LEAVE)) & (rows.group.codes >= 0))
        scale = len(rows) + 1
        passed = np.searchsorted(np.sort(self._place[breaks] * scale + breaks), self._place[where] * scale + where)
        times, _ = rows.ints("time")
        true_times, there = rows.ints("true_time")
        known = np.ones(len(where), np.bool_) if there is None else there[where]
        took = np.where(known[1:] & known[:-1], np.diff(true_times[where]), np.diff(times[where]))
        whole = np.append((np.diff(self._place[where]) == 0) & (np.diff(passed) == 0), False)
        took = np.where(whole, np.append(took, 0), _NEVER)
        starts = starts_of(np.diff(self._place[where]) != 0)
        ends = np.append(starts[1:], len(where)) - 1
        counts = np.add.reduceat(whole.astype(np.int64), starts).tolist()
        longest = np.maximum.reduceat(took, starts).tolist()
        clocks = zip(true_times[where].tolist(), times[where].tolist(), known.tolist(), strict=True)
        moments = [(true_time if is_known else None, time) for true_time, time, is_known in clocks]
        for first, last, count, most in zip(starts.tolist(), ends.tolist(), counts, longest, strict=True):
            at, to = int(where[first]), int(where[last])
            slowest = first + np.argsort(-took[first : last + 1], kind="stable")[: min(count, MAX_SLOWEST)]
            named = zip(took[slowest].tolist(), rows.index[where[slowest]].tolist(), strict=True)
            after = rows.index[where[np.minimum(slowest + 1, last)]].tolist()
            spans = (int(rows.index[at]), moments[first], int(rows.index[to]), moments[last])
            longest_ones = tuple((*one, other) for one, other in zip(named, after, strict=True))
            turns = Turns(*self._names(at), count, most, *spans, longest_ones)
            self._turns.setdefault(int(rows.run.codes[at]), []).append(turns)

    def _deadlines(self) -> None:
        """Who sends with deadlines, and how deliveries stand to those that they bring themselves."""
        rows = self.rows
        self._dated: dict[int, list[Dated]] = {}
        self._dating: dict[int, list[tuple[str, str]]] = {}
        due, has_due = rows.ints("deadline")
        where = self._message if has_due is None else self._message[has_due[self._message]]
        if not len(where):
            return
        is_send = self._kinds[where] == _SEND
        _, firsts = np.unique(self._place[where[is_send]], return_index=True)
        for at in where[is_send][firsts].tolist():
            self._dating.setdefault(int(rows.run.codes[at]), []).append(self._names(at))
        where = where[~is_send]
        if not len(where):
            return
        times, _ = rows.ints("time")
        keys = self._place[where] * self._senders + rows.sender.codes[where]
        order = np.argsort(keys, kind="stable")
        where, starts = where[order], starts_of(np.diff(keys[order]) != 0)
        counts = np.diff(np.append(starts, len(where))).tolist()
        latest = np.maximum.reduceat(times[where] - due[where], starts).tolist()
        for at, count, most in zip(where[starts].tolist(), counts, latest, strict=True):
            sender = rows.sender.values[rows.sender.codes[at]]
            self._dated.setdefault(int(rows.run.codes[at]), []).append(Dated(*self._names(at), sender, count, most))

    def _find_unsteady(self) -> dict[int, list[str]]:
        """By run: the histories in which a clock goes back, or is there in some rows and not in others."""
        rows, found = self.rows, dict[int, list[str]]()
        inside = np.diff(self._dense) == 0
        wrong = np.zeros(len(self._begins), np.bool_)
        for name in ("time", "true_time"):
            values, there = rows.ints(name)
            back = inside & (np.diff(values) < 0)
            if there is not None:
                back = (back & there[1:] & there[:-1]) | (inside & (there[1:] != there[:-1]))
            wrong[self._dense[1:][back]] = True
        for history in np.flatnonzero(wrong).tolist():
            found.setdefault(int(self._run_of[history]), []).append(rows.process.values[self._owner[history]])
        return found

    def _send_times(self) -> None:
        """Per history: how many sends have a known duration, and the longest."""
        rows = self.rows
        self._send_durations = np.zeros((len(self._begins), 3), np.int64)
        self._send_durations[:, 1] = _NEVER
        every = self._message[self._kinds[self._message] == _SEND]
        np.maximum.at(self._send_durations[:, 2], self._dense[every], self._sizes[every])
        details = rows.codes("detail")
        sends = self._message[(self._kinds[self._message] == _SEND) & (details.codes[self._message] >= 0)]
        about = rows.kind.equals("sent") & (rows.group.codes >= 0) & (rows.sender.codes >= 0) & (details.codes >= 0)
        if about.any():
            about &= self._sender_process[rows.sender.codes] == rows.process.codes
            if rows.has_seq is not None:
                about &= rows.has_seq
            sends = np.concatenate([sends, np.flatnonzero(about)])
        for at in sends.tolist():
            try:
                took = msgspec.json.decode(details.values[details.codes[at]]).get("took_ns")
            except (msgspec.MsgspecError, AttributeError):
                continue  # malformed: the run suspect of it already
            if isinstance(took, int):
                mine = self._send_durations[self._dense[at]]
                mine[0] += 1
                mine[1] = max(mine[1], took)

    def _choose_skeleton(self) -> None:
        control = np.flatnonzero(self._kinds >= _VIEW)
        places = np.unique(np.concatenate([control, self._delivered.heads, self._sent.heads, self._begins, self._ends]))
        self.skeleton: pa.Table = self.rows.rows(places)
        runs = self.rows.run.codes[places]
        self._skeleton_bounds: list[int] = np.searchsorted(runs, np.arange(len(self.runs) + 1)).tolist()

    def skeleton_rows(self, run: int) -> range:
        """Which rows of ``skeleton`` are the run's, given its place in ``runs``."""
        return range(self._skeleton_bounds[run], self._skeleton_bounds[run + 1])

    @cached_property
    def _listed(self) -> _Listed:
        return _Listed(self)

    def slice(self, run: int, *, alone: bool = False) -> Slice:
        """The certificates of a run, given its place in ``runs``. ``alone``: others' rows about it are elsewhere, so what
        is needed to compare with them is included."""
        listed = self._listed
        part = listed.part
        blocks: list[Blocks] = []
        if alone:
            sizes, names = (self._groups, self._senders), (self.rows.group.values, self.rows.sender.values)
            torn, counts = self._torn
            blocks = self._digests.blocks(run, *sizes, names, torn if counts[run] <= MAX_TORN else {})
            if self._needs_ranks[run] and not self._ranks.is_unfit[run]:
                blocks += self._ranks.agreed.blocks(run, *sizes, names, torn)
        ranks: list[Ranked] | None = []
        if self._needs_ranks[run]:
            ranks = None if self._ranks.is_unfit[run] else self._ranks.ends.get(run, [])
        extents, rows = part(listed.extents, listed.histories, run), self.rows
        places = self.skeleton_rows(run)
        return Slice(
            run=self.runs[run],
            senders=self.rows.sender.values,
            groups=self.rows.group.values,
            extents=extents,
            delivered=part(listed.delivered, listed.delivered_bounds, run),
            sent=part(listed.sent, listed.sent_bounds, run),
            own=self._own_rows.get(run, []),
            tapes=part(listed.tapes, listed.tape_bounds, run),
            weaves=self._weaves.get(run, []),
            stops=self._stops.get(run, []),
            moves=self._moves.get(run, []),
            claims=self._claims.get(run, []),
            timed=part(listed.timed, listed.timed_bounds, run),
            taken=part(listed.taken, listed.histories, run),
            ranks=ranks,
            blocks=blocks,
            rows=listed.counts[run],
            suspect=bool(self._suspects[run]),
            differs=bool(self._differing[run]),
            differing=self._contradicted(run) if alone and self._differing[run] else None,
            turns=self._turns.get(run, []),
            dated=self._dated.get(run, []),
            dating=self._dating.get(run, []),
            odd=[rows.process.values[self._owner[at]] for at in np.flatnonzero(self._odd & (self._run_of == run)).tolist()],
            unsteady=self._unsteady.get(run, []),
            waits=self._waiting.of(run) if self._bounds.get(run, alone) else None,
            skeleton=self.skeleton.slice(places.start, len(places)) if alone else None,
        )


class _Ranks:
    """What the ranks of a unit's deliveries are good for."""

    def __init__(self, unit: Unit) -> None:
        rows = unit.rows
        self.is_unfit: Mask = np.zeros(len(unit.runs), np.bool_)  # by run: ranks are missing, differ or do not grow
        self.ends: dict[int, list[Ranked]] = {}
        where = unit._message[(unit._kinds[unit._message] == _DELIVER) & unit._needs_ranks[rows.run.codes[unit._message]]]
        self.agreed = unit._agree("rank", where, self.is_unfit)
        values, there = rows.ints("rank")
        if there is not None:
            self.is_unfit[rows.run.codes[where[~there[where]]]] = True
        if not len(where):
            return
        grows = np.zeros(len(where) - 1, np.bool_)
        same = np.ones(len(where) - 1, np.bool_)
        for column in (values, _by_name(rows.sender), _by_name(rows.group), rows.seq):
            step = np.diff(column[where])
            grows |= same & (step > 0)
            same &= step == 0
            if not same.any():
                break
        owners = unit._dense[where]
        self.is_unfit[rows.run.codes[where[1:][(np.diff(owners) == 0) & ~grows]]] = True
        starts = starts_of(np.diff(owners) != 0)
        ends = np.append(starts[1:], len(where)) - 1
        for first, last in zip(where[starts].tolist(), where[ends].tolist(), strict=True):
            keys: list[RankKey] = []
            for at in (first, last):
                sender, group = (coded.values[coded.codes[at]] for coded in (rows.sender, rows.group))
                keys.append((int(values[at]), sender, group, int(rows.seq[at])))
            ranked = Ranked(rows.process.values[rows.process.codes[first]], *keys)
            self.ends.setdefault(int(rows.run.codes[first]), []).append(ranked)


def _by_name(coded: Coded) -> Ints:
    """Codes that grow with the names."""
    names = sorted(range(len(coded.values)), key=lambda code: coded.values[code] or "")
    places = np.empty(len(names) + 1, np.int64)
    places[names] = np.arange(len(names))
    places[-1] = -1
    return places[coded.codes]


def _extents(unit: Unit, owners: list[str]) -> list[Extent]:
    rows, begins, ends = unit.rows, unit._begins, unit._ends
    odd = rows.index[1:] - rows.index[:-1] != 1
    odd[begins[1:] - 1] = False
    jumps = np.flatnonzero(odd) + 1

    def misplaced(owner: str, at: int, due: int) -> Misplaced:
        return Misplaced(owner, int(rows.index[at]), due, unit.file_of_row(at))

    found = []
    edges = np.searchsorted(jumps, np.append(begins, len(rows))).tolist()
    columns = (begins, rows.index[begins], rows.index[ends], unit._is_final[ends])
    every = zip(owners, *(column.tolist() for column in columns), pairwise(edges), strict=True)
    for owner, at, first, last, final, (low, high) in every:
        mine = jumps[low : min(high, low + MAX_JUMPS)].tolist()
        odd_ones = tuple(misplaced(owner, jump, int(rows.index[jump - 1]) + 1) for jump in mine)
        found.append(Extent(owner, first, last, final, misplaced(owner, at, 0), odd_ones))
    return found


class _Spans:
    """Blocks of rows that make one interval each."""

    def __init__(self, where: Ints, *changes: Mask) -> None:
        starts = starts_of(*changes) if len(where) else where
        self.heads: Ints = where[starts]  # the first row of each
        self.tails: Ints = where[np.append(starts[1:], len(where)) - 1] if len(where) else where


class _Listed:
    """The certificates of a unit as Python tuples, made once for all runs, and where each run's begin."""

    def __init__(self, unit: Unit) -> None:
        rows, runs = unit.rows, len(unit.runs)

        def bounds(places: Ints) -> list[int]:
            return np.searchsorted(rows.run.codes[places], np.arange(runs + 1)).tolist()  # type: ignore[no-any-return]

        def named(coded: Coded, places: Ints) -> list[str]:
            return [coded.values[code] for code in coded.codes[places].tolist()]

        def ends_of(spans: _Spans) -> list[list[int]]:
            return [column[at].tolist() for column in (rows.seq, rows.index) for at in (spans.heads, spans.tails)]

        heads = unit._delivered.heads
        names = (named(coded, heads) for coded in (rows.process, rows.group, rows.sender))
        self.delivered = list(map(Delivered, *names, *ends_of(unit._delivered)))
        self.delivered_bounds = bounds(heads)
        heads = unit._sent.heads
        self.sent = list(map(Sent, named(rows.process, heads), named(rows.group, heads), *ends_of(unit._sent)))
        self.sent_bounds = bounds(heads)
        heads = unit._tape_starts
        slices = [unit._tape[a:b] for a, b in pairwise(unit._tape_bounds.tolist())]
        names = (named(coded, heads) for coded in (rows.process, rows.group))
        edges = np.searchsorted(unit._tape_cuts, unit._tape_bounds).tolist()
        begins = zip(pairwise(edges), unit._tape_bounds[:-1].tolist(), strict=True)
        cuts = [unit._tape_cuts[a:b] - begin if b > a else NOWHERE for (a, b), begin in begins]
        self.tapes = list(map(Tape, *names, rows.index[heads].tolist(), slices, cuts))
        self.tape_bounds = bounds(heads)
        owners = named(rows.process, unit._begins)
        self.extents = _extents(unit, owners)
        self.taken = [Taken(owner, *values) for owner, values in zip(owners, unit._send_durations.tolist(), strict=True)]
        heads = unit._timed_heads
        names = (named(coded, heads) for coded in (rows.process, rows.sender))
        self.timed = list(map(Timed, *names, unit._timed_counts, unit._longest, unit._largest))
        self.timed_bounds = bounds(heads)
        self.histories = np.searchsorted(unit._run_of, np.arange(runs + 1)).tolist()
        self.counts = np.bincount(rows.run.codes, minlength=runs).tolist()

    @staticmethod
    def part(items: list[Any], bounds: list[int], run: int) -> list[Any]:
        return items[bounds[run] : bounds[run + 1]]
