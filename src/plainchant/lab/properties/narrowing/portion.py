"""A portion of a run, for what can neither be narrowed down nor searched whole: where everything is wrong, or all of it unclear.

A portion is some messages, with all rows about them, and the views, memberships, faults and ends of the run. The reference checks
search it, and what they find is a violation of the whole run:

- *Message by message* (integrity, self-delivery, validity, agreement, the sets of uniform, view-atomicity, sender-in-view,
  same-view, unanimity, deadline, the durations of bounded): nothing but the rows about a message counts, and what the portion has
  of the run. In a group about whose members neither view nor join tells, the first message that each member delivers is in it.
- *Owed up to an event* (fifo, causal, deadline): what an event can know of is told by rows that the portion lacks. A process is
  blamed only if it owes the message until the end as well (``Cautious``); then it owes it up to each event since it can.
- *Orders of two* (fifo, identical, total, uniform): two messages that are neighbours in the portion and stand the other way
  round do so in the run; between them there are two neighbours of the run that do. So there are no fewer of these.
- *Causes* (causal, total): a chain of messages of the portion is one of the run. A process is blamed once for a message.
- *Cycles* (acyclic): a cycle of the portion is one of the run, but two of its knots may belong to one of the run: one is told.

Not so where other messages can excuse one: ``progress``, ``prompt``, what blocks promise, rotations of tokens, and ``fifo`` if a
number below 1 is delivered, which the reference asks only those for that lack others. These are not decided.

Half of the portion is about places at which something looks odd, half is spread evenly. Both are stretches of histories, because
what belongs together stands together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..catalogue import CATALOGUE
from ..certificates.columns import Ints, Mask
from ..certificates.evidence import Evidence, Messages
from ..certificates.ranges import missing
from ..certificates.wanted import Wanted
from ..certificates.woven import Woven
from ..facts import History, Message, runs_of
from ..owing import Owing
from ..report import Report
from .doubts import Doubts
from .narrow import NARROWED, has_numbers_below_one
from .orders import Orders
from .strands import Strands

WHOLE_UP_TO: Final = 2_000_000
"""Rows of a run that one task searches whole: about a kilobyte of memory each. Of larger runs it searches a portion."""
_SHARE: Final = 4  # how many times larger the largest run is that is searched whole
_STRETCHES: Final = 16  # of a portion, about
_ASIDE: Final = "aside"  # a kind that no property knows
_KEPT: Final = ("view", "join", "leave", "start", "end", "crash", "fault")
_SOUND: Final = frozenset({*NARROWED, "unanimity", "deadline", "bounded"})


class Cautious(Owing):
    """Says that a process owes a message up to an event only if it owes it until the end, which needs no clocks."""

    def owes(self, q: History, message: Message, at: int | None = None) -> bool:
        return super().owes(q, message) and (at is None or super().owes(q, message, at))


@dataclasses.dataclass(frozen=True, slots=True)
class Portion:
    """Some messages of a run, and what else the search of all rows about them has to know."""

    messages: tuple[Messages, ...]
    skeleton: pa.Table  # the run's rows that are about no message, as far as they count
    fates: dict[str, tuple[bool, bool]]  # by process: whether it crashed, and was cut, in the whole run
    sound: frozenset[str]  # the properties of which the portion shows violations
    until_end: bool

    @property
    def wanted(self) -> Wanted:
        return Wanted(messages=self.messages)

    def searched(self, rows: pa.Table, names: Sequence[str]) -> list[Report]:
        """The reports of some properties, given all rows about the messages."""
        schema = self.skeleton.schema
        run = next(runs_of(pa.concat_tables([self.skeleton, rows.select(schema.names).cast(schema)])))
        run.partly = run.numbers
        for history in run.all:
            history.crashed, history.cut = self.fates[history.name]
        owing, found = Cautious(run), []
        for name in names:
            report = Report(run, owing, name, until_end=self.until_end)
            if name in self.sound:
                CATALOGUE[name].reference(report)
            if name == "acyclic":
                report.limit(1)
            found.append(report)
        return found


def portion_of(evidence: Evidence, doubtful: Sequence[str], whole_up_to: int, *, until_end: bool) -> Portion:
    """A portion of a run in which some properties are in doubt, or may come to be: by what rows tell beside certificates."""
    rows = max(1, whole_up_to // _SHARE)
    messages = _in_stretches(evidence, rows) if doubtful else _by_numbers(evidence, rows)
    sound = _SOUND - {"fifo"} if has_numbers_below_one(evidence) else _SOUND
    fates = {history.name: (history.crashed, history.cut) for history in evidence.facts.all}
    return Portion(tuple(messages), _skeleton(evidence), fates, sound, until_end)


def _skeleton(evidence: Evidence) -> pa.Table:
    """The rows of some kinds, and the first and the last of each history."""
    table = pa.concat_tables([part.skeleton for part in evidence.slices], promote_options="permissive")
    kinds = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in table.schema]
    table = table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))
    is_kept = pc.is_in(table.column("kind"), pa.array(_KEPT))
    ends = {row for history in evidence.facts.all for row in (next(iter(history.rows.values())), history.last_row)}
    chosen: Mask = np.array(is_kept)
    chosen[list(ends)] = True
    kinds = pc.if_else(is_kept, table.column("kind"), _ASIDE)
    return table.set_column(table.column_names.index("kind"), "kind", kinds).filter(pa.array(chosen))


def _by_numbers(evidence: Evidence, rows: int) -> Iterator[Messages]:
    """Messages of all senders, spread evenly; first those of which digests are to be compared."""
    sent = {place: evidence.sent_up_to(*place) for place in evidence.sent}
    most = max(1, rows * sum(sent.values()) // max(1, evidence.rows))  # messages
    left = most // 2
    for group, sender, low, high in evidence.unresolved:
        if left > 0:
            yield group, sender, low, min(high, low + left - 1)
            left -= high - low + 1
    size = max(1, most // 2 // (max(1, len(sent)) * _STRETCHES))
    for (sender, group), count in sent.items():
        for first in np.linspace(1, max(1, count - size), min(_STRETCHES, count), dtype=np.int64).tolist():
            yield group, sender, first, first + size - 1


class _Hints(Doubts):
    """Messages that look odd, however many: hints where to look, no more."""

    def __init__(self, strands: Strands) -> None:
        self._strands, self._evidence = strands, strands.evidence
        self.found: Mask = np.zeros(strands.size, np.bool_)
        self.count = 0
        for key, numbers in strands.odd.items():
            self.add(strands.of(key, numbers))
        for strand in strands.all:
            self.add(strand.messages[~strand.is_first & ~strand.is_send])
            self._note_leads(strand)
            for stream in strands.streams(strand):
                at = np.flatnonzero(np.diff(stream) < 0)
                self.add(stream[np.concatenate([at, at + 1])])
        for (_, group), by_sender in self._evidence.covered.items():
            for sender, ranges in by_sender.items():
                for hole in missing(ranges, 1, self._evidence.sent_up_to(sender, group)):
                    self.add(strands.within((group, sender), *hole))
        if self._evidence.differing is not None:
            self.add_contents()
        Orders(strands, self)

    def add(self, messages: Ints | Sequence[int]) -> None:
        self.found[np.asarray(messages, np.int64)] = True


def _in_stretches(evidence: Evidence, rows: int) -> Iterator[Messages]:
    """The messages of stretches of histories: where something looks odd, and spread evenly."""
    strands = Strands(evidence, Woven(evidence))
    hints = _Hints(strands).found
    most = max(1, rows * strands.size // max(1, evidence.rows))  # messages
    size = -(-most // max(_STRETCHES, 2 * len(strands.all)))
    chosen: Mask = np.zeros(strands.size, np.bool_)
    for group in set(evidence.facts.groups) - evidence.facts.viewed - evidence.facts.joined:
        for strand in strands.all:
            chosen[strands.deliveries(strand, group)[:1]] = True
    for share in _spread():
        for strand in strands.all:
            mine = strand.messages
            for starts in (np.flatnonzero(hints[mine]), np.arange(max(1, len(mine) - size + 1))):
                if len(starts) and len(mine):
                    first = int(starts[int(share * len(starts))])
                    chosen[mine[first : first + size]] = True
            if np.count_nonzero(chosen) >= most:
                break
        else:
            continue
        break
    for (group, sender), ranges in strands.ranges(np.flatnonzero(chosen).tolist()).items():
        yield from ((group, sender, low, high) for low, high in ranges)


def _spread() -> Iterator[float]:
    """Places between 0 and 1, each far from those before."""
    return (sum((place >> bit & 1) / 2 ** (bit + 1) for bit in range(8)) for place in range(4 * _STRETCHES))
