"""Whether deliveries were in time: what ``deadline`` asks of the rows themselves.

A deadline stands in the ``send`` row, and the deliveries it is for stand in other histories: certificates cannot hold all these
times. They prove all else and say what is left (:class:`Untimed`). One pass over the rows about the senders concerned settles
that: in the task that has them, or, for a run that is spread over many, by Spark, which brings the rows about a message together.
Where something is late, or might be, the exact search decides (see ``proof``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...arrays import nullable
from ..certificates.columns import Coded, Ints, Mask
from ..certificates.evidence import Messages
from ..certificates.untimed import Lacking, Untimed
from ..facts import Moment

COLUMNS: Final = ("kind", "group", "sender", "seq", "deadline", "time", "true_time")  # what is read of the rows

BLOCK: Final = 4_096  # messages of a sender that Spark keeps together


MAX_LATE: Final = 20_000  # messages that missed their deadline, if more are not named


class Timed(NamedTuple):
    """What some rows say: deliveries that their sender's deadline is for, and the messages of which something is or might be late
    (None: not all of them can be named)."""

    cases: int
    late: tuple[Messages, ...] | None

    @property
    def in_time(self) -> bool:
        """Whether all was in time for certain."""
        return self.late == ()


def timed(rows: pa.Table, untimed: Untimed) -> Timed:
    """Looks at rows of one run that hold, of each message that they have a ``send`` of, every delivery."""
    rows = about(rows, untimed)
    group, sender, kind = (Coded(rows.column(name)) for name in ("group", "sender", "kind"))
    seq, time = nullable(rows.column("seq"))[0], nullable(rows.column("time"))[0]
    true_time, has_true = nullable(rows.column("true_time"))
    due, has_due = nullable(rows.column("deadline"))
    is_send = kind.equals("send")
    cases, late = 0, dict[Messages, None]()
    is_clear = True
    for name in dict.fromkeys((*untimed.senders, *untimed.dated)):
        mine = group.equals(name[0]) & sender.equals(name[1])
        overdue = np.flatnonzero(mine & ~is_send & has_due & (time > due)) if name in untimed.dated else seq[:0]
        late |= dict.fromkeys((*name, number, number) for number in seq[overdue[: MAX_LATE + 1]].tolist())
        if name not in untimed.senders:
            continue
        sends = np.flatnonzero(mine & is_send & has_due)
        sends = sends[np.argsort(seq[sends], kind="stable")]
        if not len(sends):
            continue
        delivers = np.flatnonzero(mine & ~is_send & ~has_due)
        places = np.searchsorted(seq[sends], seq[delivers])
        found = places < len(sends)
        found[found] = seq[sends[places[found]]] == seq[delivers[found]]
        delivers, sent = delivers[found], sends[places[found]]
        both = has_true[delivers] & has_true[sent]
        took = np.where(both, true_time[delivers] - true_time[sent], time[delivers] - time[sent])
        cases += len(delivers)
        named = [seq[delivers[took > due[sent] - time[sent]]]]
        moments = _Dues(seq[sends], due[sends], time[sends], true_time[sends], has_true[sends])
        for lacks in untimed.lacking:
            if (lacks.group, lacks.sender) == name:
                owed = moments.owed(lacks)
                is_clear = is_clear and (lacks.is_clear or not len(owed))
                named.append(owed)
        late |= dict.fromkeys((*name, number, number) for number in np.concatenate(named)[: MAX_LATE + 1].tolist())
    return Timed(cases, tuple(late) if is_clear and len(late) <= MAX_LATE else None)


def together(parts: Sequence[Timed]) -> Timed:
    """What several parts of the rows say."""
    late = [each for part in parts for each in part.late or ()]
    is_known = all(part.late is not None for part in parts) and len(late) <= MAX_LATE
    return Timed(sum(part.cases for part in parts), tuple(dict.fromkeys(late)) if is_known else None)


def about(rows: pa.Table, untimed: Untimed) -> pa.Table:
    """The rows that may tell: sends and deliveries of messages of the senders concerned."""
    kind, sender = (rows.column(name).cast(pa.string()) for name in ("kind", "sender"))
    senders = pa.array(sorted({sender for _, sender in (*untimed.senders, *untimed.dated)}), pa.string())
    kept = pc.and_(pc.is_in(kind, pa.array(["send", "deliver"])), pc.is_in(sender, senders))
    return rows.filter(kept).select(list(COLUMNS))


class _Dues(NamedTuple):
    """The deadlines of some messages of a sender, by number."""

    seq: Ints
    due: Ints
    time: Ints
    true_time: Ints
    has_true: Mask

    def owed(self, lacks: Lacking) -> Ints:
        """Which of these messages may have been owed when their deadline came."""
        here = slice(*np.searchsorted(self.seq, [lacks.low, lacks.high + 1]).tolist())
        by_true = self.has_true[here] & (lacks.ended[0] is not None)
        due = np.where(by_true, self.true_time[here] + self.due[here] - self.time[here], self.due[here])
        excused = _at(lacks.ended, by_true) < due
        for moment in lacks.freed:
            known = ~by_true if moment[0] is None else np.ones(len(due), np.bool_)
            excused |= known & (_at(moment, by_true) <= due)
        return self.seq[here][~excused]


def _at(moment: Moment, by_true: Mask) -> Ints:
    return np.where(by_true, moment[0] if moment[0] is not None else 0, moment[1])


def blocks(rows: pa.Table, run: str, untimed: Untimed) -> Iterator[pa.RecordBatch]:
    """The rows that may tell, as Spark shuffles them: rows about a message have the same ``run``, ``group``, ``sender`` and
    ``block``."""
    told = about(rows, untimed)
    if told.num_rows:
        block = pc.divide(told.column("seq"), BLOCK)
        names = pa.array([run] * told.num_rows)
        yield from told.append_column("block", block).append_column("run", names).cast(BLOCKS).to_batches()


_NAMES: Final = frozenset({"kind", "group", "sender", "run"})
BLOCKS: Final = pa.schema([(name, pa.string() if name in _NAMES else pa.int64()) for name in (*COLUMNS, "block", "run")])
