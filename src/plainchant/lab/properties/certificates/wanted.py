"""Which rows of a run decide a property that is in doubt, beside its skeleton: what families say, and ``narrowing.few`` uses.

A :class:`Question` is for properties whose cases are matters of one message, one row or a few: the certificates count the cases,
and say which messages, which rows, or which durations are in doubt. The reference's own functions then judge these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from ...arrays import nullable
from ..facts import Message
from ..report import Report
from .columns import Coded, Ints, Mask
from .evidence import Evidence, Messages
from .ranges import Range, Ranges, added

Rows: TypeAlias = tuple[str, int, int]  # a process, the first and the last index

KEYS: Final = ("run", "process", "index", "kind", "group", "sender", "seq", "true_time", "sent", "detail")


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """Some rows of a run: those about some messages, those at some places, and those that took longer than a bound."""

    messages: tuple[Messages, ...] = ()
    rows: tuple[Rows, ...] = ()
    send: int | None = None  # rows with a longer ``took_ns``
    deliver: int | None = None  # deliveries with a longer ``true_time - sent``

    def __or__(self, other: Wanted) -> Wanted:
        pairs = (self.send, other.send), (self.deliver, other.deliver)
        send, deliver = (min((bound for bound in pair if bound is not None), default=None) for pair in pairs)
        return Wanted(self.messages + other.messages, self.rows + other.rows, send, deliver)

    @property
    def is_empty(self) -> bool:
        """Whether the skeleton has all that is wanted."""
        return self == Wanted()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that tell which rows these are."""
        timed = KEYS if self.send is not None or self.deliver is not None else KEYS[:3]
        return tuple(dict.fromkeys(("run", *timed, *(("group", "sender", "seq") if self.messages else ()))))

    @property
    def span(self) -> Range | None:
        """The lowest and the highest number of a message, where all wanted rows are about these messages."""
        if self.rows or self.send is not None or self.deliver is not None or not self.messages:
            return None
        return min(low for *_, low, _ in self.messages), max(high for *_, high in self.messages)

    def among(self, keys: pa.Table) -> pa.ChunkedArray:
        """Which rows of one run these are, given ``columns`` of theirs."""
        found = np.zeros(keys.num_rows, np.bool_)
        if self.messages:
            spans = joined(((group, sender), low, high) for group, sender, low, high in self.messages)
            _mark(found, (Coded(keys.column("group")), Coded(keys.column("sender"))), nullable(keys.column("seq")), spans)
        if self.rows:
            spans = joined(((process,), low, high) for process, low, high in self.rows)
            _mark(found, (Coded(keys.column("process")),), nullable(keys.column("index")), spans)
        if self.deliver is not None:
            (began, has_began), (ended, has_ended) = (nullable(keys.column(name)) for name in ("sent", "true_time"))
            late = Coded(keys.column("kind")).equals("deliver") & has_began & has_ended
            found |= late & (ended - began > self.deliver)
        if self.send is not None:
            kinds, details = Coded(keys.column("kind")), Coded(keys.column("detail"))
            late = np.array([*(_took(value) > self.send for value in details.values), False], np.bool_)
            found |= (kinds.equals("send") | kinds.equals("sent")) & late[details.codes]
        return pa.chunked_array([pa.array(found)])


class _Took(msgspec.Struct):
    took_ns: int | None = None


_decode: Final = msgspec.json.Decoder(_Took).decode


def _took(detail: str | None) -> int:
    try:
        return _decode(detail).took_ns or 0 if detail else 0
    except msgspec.MsgspecError:
        return 0  # of a kind that has its own say


def joined(spans: Iterable[tuple[tuple[str, ...], int, int]]) -> dict[tuple[str, ...], Ranges]:
    """Spans by name, in ascending order, those that touch put together."""
    found: dict[tuple[str, ...], list[Range]] = {}
    for names, low, high in spans:
        found.setdefault(names, []).append((low, high))
    return {names: added((), mine) for names, mine in found.items()}


def _mark(found: Mask, names: tuple[Coded, ...], numbers: tuple[Ints, Mask], spans: Mapping[tuple[str, ...], Ranges]) -> None:
    values, there = numbers
    for wanted, ranges in spans.items():
        own = there.copy()
        for coded, name in zip(names, wanted, strict=True):
            own &= coded.equals(name)
        at = np.flatnonzero(own)
        lows, highs = (np.array(ends) for ends in zip(*ranges, strict=True))
        near = np.searchsorted(lows, values[at], side="right") - 1
        found[at[(near >= 0) & (values[at] <= highs[np.maximum(near, 0)])]] = True


def about(messages: Iterable[Message]) -> tuple[Messages, ...]:
    """Some messages, those put together whose numbers follow each other."""
    spans = joined(((group, sender), number, number) for group, sender, number in messages)
    return tuple((group, sender, *span) for (group, sender), ranges in sorted(spans.items()) for span in ranges)


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A property in doubt, the rows that decide it, and the function that does, given a report on these and the skeleton.

    The function counts the cases of the whole run."""

    wanted: Wanted
    decide: Callable[[Report], None]


def distinct(evidence: Evidence, process: str, group: str, sender: str) -> Ranges:
    """The numbers that a process delivers of a sender, in whatever order and however often."""
    return evidence.covered.get((process, group), {}).get(sender, ())


def repeated(evidence: Evidence) -> tuple[Messages, ...]:
    """Messages that a process delivers more than once."""
    found: dict[Messages, None] = {}
    if evidence.sets is not None:
        return ()
    for (_, group), by_sender in evidence.delivered.items():
        for sender, intervals in by_sender.items():
            reached = -(2**62)
            for low, high in sorted((each.low, each.high) for each in intervals):
                if low <= reached:
                    found[group, sender, low, min(high, reached)] = None
                reached = max(reached, high)
    return tuple(found)


def unsent(evidence: Evidence, group: str, sender: str) -> tuple[Messages, ...]:
    """Messages of a sender that processes deliver though it never sent them."""
    found: dict[Messages, None] = {}
    last = evidence.sent_up_to(sender, group)
    for (_, of), by_sender in evidence.delivered.items():
        for interval in by_sender.get(sender, ()) if of == group else ():
            if interval.low < 1:
                found[group, sender, interval.low, min(interval.high, 0)] = None
            if interval.high > last:
                found[group, sender, max(interval.low, last + 1), interval.high] = None
    return tuple(found)
