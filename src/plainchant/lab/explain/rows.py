"""The rows of one run, indexed for questions: which process sent this, what stood before it here, what happened meanwhile.

The table stays in Arrow; the columns that are searched are numpy arrays of numbers (names as codes), sorted by (process, index),
so that a question is a comparison of arrays and only the rows it finds become Python objects. The rows need not be all of a run:
histories may have holes. The run's protocol is the one that a ``start`` row names; its *story*
(:mod:`plainchant.protocols.story`) answers what is particular to it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.model import MS, UsageError
from ...core.words import listed, times
from ...protocols import registry
from ...protocols.story import Event, Message, Step, Story
from ..show import decode, moments

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Told: TypeAlias = list[Step]
COLUMNS: Final = (
    *("run", "process", "index", "time", "true_time", "kind", "group", "view", "sender", "seq"),
    *("members", "deadline", "sent", "rank", "size", "packets", "detail"),
)
_NOTHING: Final = -1
_MOMENTS_MAX: Final = 3
"""Moments that are named; more are counted."""
_SAMPLED: Final = 20_000
"""Deliveries from which the usual delay is estimated."""


def unless_said(what: str, because: str | None) -> str | None:
    """The reason, or None if the sentence gives it already."""
    return None if because is not None and because in what else because


def once(told: Iterable[Step]) -> Told:
    """The first step of each sentence."""
    first: dict[str, Step] = {}
    for step in told:
        first.setdefault(step[1], step)
    return list(first.values())


class Rows:
    """One run's rows."""

    def alike(self, told: Iterable[Step], likeness: Callable[[Event, str], Hashable]) -> Told:
        """Merges steps of the same likeness into the first of them, which counts the others."""
        found: dict[Hashable, Told] = {}
        for step in told:
            found.setdefault(likeness(step[0], step[1]), []).append(step)
        steps: Told = []
        for same in found.values():
            event, what, because = same[0]
            more = f"; the like {times(len(same) - 1, 'more time')}, until {self.moment(same[-1][0].when)}"
            steps.append((event, what + more * (len(same) > 1), because))
        return steps

    def __init__(self, table: pa.Table, *, origin: int | None = None, is_whole: bool = True) -> None:
        """``table`` has all rows of the run, or (not ``is_whole``) those that matter; ``origin`` is when the run began."""
        runs = table.column("run").unique().to_pylist()
        if len(runs) > 1:
            raise UsageError(f"rows of {len(runs)} runs were given to be explained; choose one of them first")
        self.table = table.select(COLUMNS).sort_by([("process", "ascending"), ("index", "ascending")]).combine_chunks()
        self.when: Ints = moments(self.table)
        self.is_global = self.table.num_rows > 0 and self.table.column("true_time").null_count == 0
        self.names: dict[str, dict[str, int]] = {}
        self.process = self._codes("process")
        self.kind = self._codes("kind")
        self.group = self._codes("group")
        self.sender = self._codes("sender")
        self.index = self._numbers("index")
        self.seq = self._numbers("seq")
        self.rank = self._numbers("rank")
        self.view = self._numbers("view")
        self.is_whole = is_whole
        own = int(self.when.min()) if len(self.when) and not self.is_global else 0
        self.origin = own if origin is None else origin
        """Times in sentences count from here: 0 in a simulation, elsewhere the first row's time."""

    def _codes(self, name: str) -> Ints:
        encoded = self.table.column(name).combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        self.names[name] = {str(value): code for code, value in enumerate(encoded.dictionary.to_pylist())}
        return pc.fill_null(encoded.indices, _NOTHING).to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]

    def _numbers(self, name: str) -> Ints:
        column = pc.fill_null(self.table.column(name).cast(pa.int64()), _NOTHING)
        return column.to_numpy().astype(np.int64)  # type: ignore[no-any-return]

    def code(self, column: str, value: str) -> int:
        """The number that stands for a name; one that no row has if it does not occur."""
        return self.names[column].get(value, -2)

    def mask(
        self,
        *kinds: str,
        process: str | None = None,
        group: str | None = None,
        sender: str | None = None,
        after: int | None = None,
        until: int | None = None,
    ) -> Mask:
        """Rows of these kinds (any, if none is named) in ``(after, until]``; ``group`` also finds rows without one."""
        found: Mask = np.ones(len(self.when), dtype=np.bool_)
        if kinds:
            found &= np.isin(self.kind, [self.code("kind", kind) for kind in kinds])
        if process is not None:
            found &= self.process == self.code("process", process)
        if group is not None:
            found &= self.within(group) | (self.group == _NOTHING)
        if sender is not None:
            found &= self.sender == self.code("sender", sender)
        if after is not None:
            found &= self.when > after
        return found & (self.when <= until) if until is not None else found

    def within(self, group: str) -> Mask:
        """Rows that name the group."""
        found: Mask = self.group == self.code("group", group)
        return found

    def find(self, *kinds: str, **where: Any) -> list[Event]:
        """The rows that a mask finds, in the order in which they happened."""
        return self.events(np.flatnonzero(self.mask(*kinds, **where)))

    def events(self, places: Iterable[int] | Ints) -> list[Event]:
        """Rows by their positions, in the order in which they happened (position breaks ties: histories stay whole)."""
        positions = np.asarray(list(places) if not isinstance(places, np.ndarray) else places, dtype=np.int64)
        ordered = positions[np.lexsort((positions, self.when[positions]))]
        rows = self.table.take(pa.array(ordered)).to_pylist()
        return [self._event(int(at), row) for at, row in zip(ordered, rows, strict=True)]

    def _event(self, at: int, row: dict[str, Any]) -> Event:
        when = int(self.when[at])
        due = None if row["deadline"] is None else when + row["deadline"] - row["time"]
        return Event.of(row, decode(row["detail"]), when, at=at, due=due)

    def at(self, process: str, index: int) -> Event | None:
        """The row with that place."""
        return self._first(np.flatnonzero((self.process == self.code("process", process)) & (self.index == index))[:1])

    def naming(self, message: Message) -> list[Event]:
        """Every row that names the message, whatever its kind."""
        group, sender, seq = message
        found = self.within(group) & (self.sender == self.code("sender", sender)) & (self.seq == seq)
        return self.events(np.flatnonzero(found))

    def least_seq(self, *kinds: str, group: str, sender: str, seq: int | None = None, rank: int | None = None) -> int | None:
        """The least message number among such rows; with ``seq`` or ``rank``, among those with at least this number or rank."""
        found = self.mask(*kinds, group=group, sender=sender)
        if seq is not None:
            found &= self.seq >= seq
        if rank is not None:
            found &= self.rank >= rank
        return int(self.seq[found].min()) if found.any() else None

    def ranks(self, *kinds: str, process: str, group: str, sender: str) -> list[tuple[int, int]]:
        """Message numbers and ranks of the rows that have a rank, in the order of the process's history."""
        found = self.mask(*kinds, process=process, group=group, sender=sender) & (self.rank >= 0)
        return list(zip(self.seq[found].tolist(), self.rank[found].tolist(), strict=True))

    def instants(self, *kinds: str, process: str, group: str) -> list[int]:
        """When rows of these kinds happened, in the order of the process's history."""
        found: list[int] = self.when[self.mask(*kinds, process=process, group=group)].tolist()
        return found

    def moment(self, when: int) -> str:
        """A moment as the run's readers count."""
        return f"{(when - self.origin) / MS:.3f} ms"

    def moments(self, when: Iterable[int]) -> str:
        """Moments in order: all of a few, the first and the last of many; empty if there are none."""
        found = list(when)
        if len(found) > _MOMENTS_MAX:
            return f"{times(len(found), 'time')}, from {self.moment(found[0])} to {self.moment(found[-1])}"
        return "at " + listed(map(self.moment, found)) if found else ""

    def processes(self) -> list[str]:
        return sorted(self.names["process"])

    @property
    def clocks(self) -> list[str]:
        """What a conclusion says of times, if there is something to say."""
        return [] if self.is_global else ["Times are of each process's own clock."]

    @cached_property
    def usual(self) -> int:
        """The usual time from a message's send to a delivery: the median; 0 if there is nothing to measure."""
        delivered = np.flatnonzero(self.mask("deliver"))
        delivered = delivered[:: max(1, len(delivered) // _SAMPLED)]
        sends = np.flatnonzero(self.mask("send"))
        if not len(delivered) or not len(sends):
            return 0
        keys = self._keys(sends)
        order = np.argsort(keys, kind="stable")
        keys, sends = keys[order], sends[order]
        wanted = self._keys(delivered)
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        known = keys[places] == wanted
        delays = (self.when[delivered] - self.when[sends[places]])[known]
        return max(0, int(np.median(delays))) if len(delays) else 0

    def _keys(self, places: Ints) -> Ints:
        """A number for each row's message, equal for equal messages."""
        pairs = self.group[places] * (len(self.names["sender"]) + 1) + self.sender[places]
        return pairs * (int(self.seq.max()) + 1) + self.seq[places]

    def view_at(self, event: Event, group: str) -> Event | None:
        """The last view of the group that was installed at this event's process before it."""
        installed = np.flatnonzero(self.mask("view", process=event.process) & self.within(group))
        return self._first(installed[installed < event.at][-1:])

    def burst(self, event: Event) -> list[Event]:
        """The deliveries of the same group directly before this one, at the same instant: what came free together."""
        first = event.at
        like = self.process[first], self.code("kind", "deliver"), self.group[first], event.when
        while first > 0 and like == tuple(column[first - 1] for column in (self.process, self.kind, self.group, self.when)):
            first -= 1
        return self.events(np.arange(first, event.at))

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The protocol's parameters, from a ``start`` row."""
        parameters = self._started.get("parameters")
        return parameters if isinstance(parameters, dict) else {}

    @cached_property
    def bounds(self) -> dict[str, int]:
        """The times (ns) that the run promises, from a ``start`` row."""
        bounds = self._started.get("bounds")
        return {str(name): value for name, value in bounds.items() if isinstance(value, int)} if isinstance(bounds, dict) else {}

    @cached_property
    def description(self) -> registry.Description | None:
        """The protocol that a ``start`` row names; None if there is none, or it cannot be used here."""
        return registry.known(self._started.get("protocol"))

    @cached_property
    def story(self) -> Story:
        """The story of the run's protocol."""
        return registry.story_of(self._started.get("protocol"))(self)

    @cached_property
    def _started(self) -> dict[str, Any]:
        start = self._first(np.flatnonzero(self.mask("start"))[:1])
        return start.detail if start is not None else {}

    def last_row(self, process: str) -> Event | None:
        return self._first(np.flatnonzero(self.process == self.code("process", process))[-1:])

    def _first(self, places: Ints) -> Event | None:
        return next(iter(self.events(places)), None)
