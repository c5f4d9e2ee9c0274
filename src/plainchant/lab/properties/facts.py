"""What a trace says, in a shape that properties can be read off: runs, histories, messages, views.

The columns are read once into Python lists. One walk over each process's history, in the order of ``index``, keeps the views in
force and the memberships, and turns every row that a property needs into an :class:`Event` that carries them. Nothing is judged
here. Views are interned per run, so that "the same view" (group, number, set of members) is ``is``. Two terms are decided here
and nowhere else:

- *Ended*. A history that ends in the ``leave`` of its last group may go on with explanations (``drop``, ``stable``, ...) and
  ``fault`` rows; it counts as cut only if it is a member, or takes part in a group again, after its last ``leave``. Otherwise
  leaving out rows that verifiers need not understand would change a verdict.
- *Member*. A process is one from its ``join``, or from the first view of the group that names it (whichever the host writes
  first), up to its ``leave``. In a group without any join or view, the processes that deliver are members.
"""

from __future__ import annotations

import dataclasses
import json
from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence
from dataclasses import field
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias

import pyarrow as pa

from ...core.model import GroupId, ProcessId

Message: TypeAlias = tuple[GroupId, ProcessId, int]  # (group, sender, seq): names a message within a run
Place: TypeAlias = tuple[ProcessId, int]  # (process, index): names an event within a run
Moment: TypeAlias = tuple[int | None, int]  # when a row was written: by the global clock, if any, and by its process's

COLUMNS: Final = (
    *("run", "process", "index", "time", "true_time", "kind", "group", "view", "sender", "seq"),
    *("members", "deadline", "sent", "rank", "digest", "size", "detail"),
)
"""The columns that checks read."""
TAKES_PART: Final = frozenset({"join", "send", "deliver", "view"})


class Columns:
    """The columns of a trace as Python lists; a missing column is full of nulls."""

    def __init__(self, table: pa.Table) -> None:
        nothing: list[Any] = [None] * table.num_rows
        self._lists = {name: _listed(table.column(name)) if name in table.column_names else nothing for name in COLUMNS}
        self.true_time: list[int | None] = self._lists["true_time"]
        self.time: list[int] = self._lists["time"]
        self.rank: list[int | None] = self._lists["rank"]
        self.deadline: list[int | None] = self._lists["deadline"]
        self.sent: list[int | None] = self._lists["sent"]
        self.digest: list[int | None] = self._lists["digest"]
        self.size: list[int | None] = self._lists["size"]

    def __getitem__(self, name: str) -> list[Any]:
        return self._lists[name]

    def detail(self, row: int) -> dict[str, Any]:
        """The ``detail`` of a row as an object; empty if there is none."""
        return detail_of(self._lists["detail"][row])


def _listed(column: pa.ChunkedArray) -> list[Any]:
    """What ``to_pylist`` gives, several times faster for the columns of traces: integers, names and nulls."""
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_dictionary(column.type):
        found: list[Any] = []
        for chunk in column.chunks:
            values = [*chunk.dictionary.to_pylist(), None]
            found += [values[code] for code in _listed(pa.chunked_array([chunk.indices.fill_null(-1)]))]
        return found
    if not pa.types.is_integer(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    if column.null_count == 0:
        return column.to_numpy().tolist()  # type: ignore[no-any-return]
    there = column.is_valid().to_numpy().tolist()
    return [value if valid else None for value, valid in zip(column.fill_null(0).to_numpy().tolist(), there, strict=True)]


@lru_cache(maxsize=1024)
def detail_of(text: str | None) -> dict[str, Any]:
    """The object in a ``detail``; empty if there is none. Rows of many histories share one object: do not change it."""
    value = json.loads(text) if text else {}
    return value if isinstance(value, dict) else {}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class View:
    """A view that a process installed. Interned per run: equal views are one object."""

    group: GroupId
    number: int
    members: frozenset[ProcessId]

    def __str__(self) -> str:
        return f"view {self.number} {{{', '.join(sorted(self.members))}}}"


@dataclasses.dataclass(slots=True, eq=False)
class Event:
    """A row about a message: ``send``, ``sent``, ``deliver``, ``reject`` or ``block``, with the view in force there."""

    process: ProcessId
    index: int
    message: Message
    view: View | None
    row: int
    is_send: bool

    @property
    def place(self) -> Place:
        return self.process, self.index


@dataclasses.dataclass(slots=True, eq=False)
class Note:
    """A ``note`` row about a building block, with the view in force there."""

    process: ProcessId
    index: int
    group: GroupId
    about: str  # the kind of block
    block: str
    event: str
    detail: dict[str, Any]
    message: Message | None
    view: View | None
    row: int

    @property
    def place(self) -> Place:
        return self.process, self.index


@dataclasses.dataclass(slots=True, eq=False)
class Installed:
    """A ``view`` row. ``stay`` counts the leaves of that group before it: views of different stays are not consecutive."""

    view: View
    index: int
    row: int
    stay: int


@dataclasses.dataclass(slots=True)
class Stay:
    """A membership: from the row that began it to the ``leave`` that ended it."""

    begin: int
    begin_row: int
    end: int | None = None
    end_row: int | None = None


@dataclasses.dataclass(slots=True, eq=False)
class History:
    """Everything that happened at one process, sorted by what properties ask for."""

    name: ProcessId
    place: int  # its place among the run's processes, in the order of their names
    rows: dict[int, int]  # row of each index, in order; a *skeleton*, as certificates keep it, lacks some
    sends: list[Event] = field(default_factory=list)
    first: dict[Message, Event] = field(default_factory=dict)  # first deliveries, in their order
    repeats: list[Event] = field(default_factory=list)
    traffic: list[Event] = field(default_factory=list)  # sends and first deliveries, in order: they make happened-before
    completed: list[Event] = field(default_factory=list)  # own ``sent`` rows; a skeleton has none that count
    accepts: dict[GroupId, list[int]] = field(default_factory=dict)  # indices of ``accept`` rows; a skeleton has none
    requests: list[int] = field(default_factory=list)  # indices of the ``request`` rows
    refusals: dict[GroupId, list[int]] = field(default_factory=dict)  # indices of ``refused`` rows
    faults: list[int] = field(default_factory=list)  # indices of the ``fault`` rows
    denied: set[GroupId] = field(default_factory=set)  # groups in which a stream of messages was not admitted
    rejects: list[Event] = field(default_factory=list)
    blocks: list[Event] = field(default_factory=list)
    views: dict[GroupId, list[Installed]] = field(default_factory=dict)
    installed: dict[View, int] = field(default_factory=dict)  # index of the first installation of each view
    stays: dict[GroupId, list[Stay]] = field(default_factory=dict)
    joined: set[GroupId] = field(default_factory=set)  # groups with a ``join`` row here
    left: dict[GroupId, int] = field(default_factory=dict)  # groups with a ``leave`` row, and its first index
    notes: list[Note] = field(default_factory=list)  # ``note`` rows about building blocks, in their order
    turns: dict[GroupId, list[int]] = field(default_factory=dict)  # indices of ``token`` rows, but for skeletons
    breaks: dict[GroupId, list[int]] = field(default_factory=dict)  # indices of ``view`` and ``leave`` rows
    crashed: bool = False  # it has a ``crash``, or its history is cut, which counts as one
    cut: bool = False
    end: bool = False
    timing_fault: bool = False

    @property
    def last_index(self) -> int:
        return next(reversed(self.rows))

    @property
    def last_row(self) -> int:
        return self.rows[self.last_index]

    def is_member_at(self, group: GroupId, index: int) -> bool:
        stays = self.stays.get(group, ())
        return any(stay.begin <= index and (stay.end is None or index < stay.end) for stay in stays)

    def left_since(self, group: GroupId, since: int, at: int | None) -> bool:
        """Whether it left the group after one event and up to another, or, without that, at all after the first."""
        ends = [stay.end for stay in self.stays.get(group, ()) if stay.end is not None]
        return any(since < end and (at is None or end <= at) for end in ends)

    def is_member_last(self, group: GroupId) -> bool:
        """Whether it is a member when its history ends."""
        stays = self.stays.get(group)
        return stays is not None and stays[-1].end is None

    def is_correct_in(self, group: GroupId) -> bool:
        return not (self.crashed or self.timing_fault or group in self.left)

    def is_broken(self, group: GroupId, after: int, before: int) -> bool:
        """Whether it installed a view of the group, or left it, between two of its events."""
        breaks = self.breaks.get(group, [])
        place = bisect_right(breaks, after)
        return place < len(breaks) and breaks[place] < before

    def first_view_without(self, group: GroupId, other: ProcessId, after: int) -> int | None:
        """Index of the first view of the group, installed after an index, that lacks another process."""
        for installed in self.views.get(group, ()):
            if installed.index > after and other not in installed.view.members:
                return installed.index
        return None


class Run:
    """One run: its histories in the order of their names, and what follows from all of them together."""

    def __init__(self, name: str, columns: Columns, rows: Sequence[int]) -> None:
        self.name = name
        self.columns = columns
        self.events = len(rows)
        self.partly: Container[tuple[GroupId, ProcessId]] = ()  # senders some of whose rows are left out: numbers may be missing
        self.histories: dict[ProcessId, History] = {}
        self.sends: dict[Message, Event] = {}
        self.promises: list[str] | None = None
        self.bounds: dict[str, int] = {}
        self.despite: frozenset[str] | None = None  # faults that are no excuse for ``progress``; None: not stated
        self.acting: dict[ProcessId, ProcessId] = {}  # by remote process: the one that acts for it
        self._views: dict[tuple[GroupId, int, frozenset[ProcessId]], View] = {}
        self._ends: list[dict[str, Any]] = []
        self._deliveries: dict[Message, list[Event]] | None = None
        by_process: dict[ProcessId, dict[int, int]] = {}
        for row in rows:
            by_process.setdefault(columns["process"][row], {})[columns["index"][row]] = row
        for place, (process, own) in enumerate(sorted(by_process.items())):
            self.histories[process] = self._walk(History(process, place, dict(sorted(own.items()))))
        self.viewed: frozenset[GroupId] = frozenset(group for h in self.all for group in h.views)
        self.joined: frozenset[GroupId] = frozenset(group for h in self.all for group in h.joined)
        self.groups: list[GroupId] = sorted(
            {m[0] for m in self.sends} | {m[0] for h in self.all for m in h.first} | self.viewed | self.joined
        )
        self.named: dict[GroupId, set[ProcessId]] = {group: set() for group in self.groups}  # by views of the group
        for view in self._views.values():
            self.named[view.group] |= view.members

    @cached_property
    def numbers(self) -> dict[tuple[GroupId, ProcessId], list[int]]:
        """By group and sender: the numbers of its messages that are sent or delivered, in ascending order."""
        known: dict[tuple[GroupId, ProcessId], set[int]] = {}
        for messages in (self.sends, *(history.first for history in self.all)):
            for group, sender, seq in messages:
                known.setdefault((group, sender), set()).add(seq)
        return {key: sorted(seqs) for key, seqs in known.items()}

    @cached_property
    def untimely(self) -> frozenset[ProcessId]:
        """Processes with a timing fault."""
        return frozenset(history.name for history in self.all if history.timing_fault)

    @property
    def all(self) -> list[History]:
        return list(self.histories.values())

    @cached_property
    def noted(self) -> frozenset[str]:
        """The kinds of building blocks that there are rows of."""
        return frozenset(note.about for history in self.all for note in history.notes)

    @property
    def drained(self) -> bool:
        """Faults and senders had stopped long before the end: every ``end`` row says so."""
        return bool(self._ends) and all(detail.get("drained") is True for detail in self._ends)

    @property
    def healed(self) -> bool:
        """Draining heals; a recorder that drains without healing says ``{"healed": false}`` in its ``end`` rows."""
        return all(detail.get("healed", True) is not False for detail in self._ends)

    @property
    def unobserved(self) -> list[ProcessId]:
        """Members that views name but that have no rows."""
        return sorted({name for names in self.named.values() for name in names} - set(self.histories))

    def deliveries_of(self, message: Message) -> list[Event]:
        """First deliveries of a message, by process."""
        if self._deliveries is None:
            self._deliveries = {}
            for history in self.all:
                for delivered, event in history.first.items():
                    self._deliveries.setdefault(delivered, []).append(event)
        return self._deliveries.get(message, [])

    def is_member_at(self, history: History, group: GroupId, index: int) -> bool:
        if group in self.viewed or group in self.joined:
            return history.is_member_at(group, index)
        return self.is_ever_member(history, group) and index < history.left.get(group, index + 1)

    def is_ever_member(self, history: History, group: GroupId) -> bool:
        if group in self.viewed or group in self.joined:
            return group in history.stays
        return any(message[0] == group for message in history.first)

    def correct_in(self, group: GroupId) -> list[History]:
        return [history for history in self.all if history.is_correct_in(group)]

    def when(self, place: Place) -> int:
        """When an event happened, for putting violations into an order: on the global clock where there is one."""
        row = self.histories[place[0]].rows[place[1]]
        true_time = self.columns.true_time[row]
        return self.columns.time[row] if true_time is None else true_time

    def _walk(self, history: History) -> History:
        columns = self.columns
        kinds, groups, senders, seqs = columns["kind"], columns["group"], columns["sender"], columns["seq"]
        name = history.name
        in_force: dict[GroupId, View] = {}
        taking_part = False
        for index, row in history.rows.items():
            kind = kinds[row]
            taking_part = taking_part or kind in TAKES_PART
            if kind == "deliver":
                message = (groups[row], senders[row], seqs[row])
                event = Event(name, index, message, in_force.get(groups[row]), row, False)
                if message in history.first:
                    history.repeats.append(event)
                else:
                    history.first[message] = event
                    history.traffic.append(event)
            elif kind == "send":
                message = (groups[row], senders[row], seqs[row])
                event = Event(name, index, message, in_force.get(groups[row]), row, True)
                self.sends[message] = event
                history.sends.append(event)
                history.traffic.append(event)
            elif kind == "accept":
                if groups[row] is not None:
                    history.accepts.setdefault(groups[row], []).append(index)
            elif kind == "view":
                in_force[groups[row]] = self._install(history, index, row)
                history.breaks.setdefault(groups[row], []).append(index)
            elif kind == "token" and groups[row] is not None:
                history.turns.setdefault(groups[row], []).append(index)
            elif kind == "note":
                self._note(history, index, row, in_force.get(groups[row]))
            elif kind == "join":
                history.joined.add(groups[row])
                _begin_stay(history, groups[row], index, row)
            elif kind == "leave":
                in_force.pop(groups[row], None)
                history.left.setdefault(groups[row], index)
                stays = history.stays.get(groups[row])
                if stays and stays[-1].end is None:
                    stays[-1].end, stays[-1].end_row = index, row
                history.breaks.setdefault(groups[row], []).append(index)
                # It goes on as a member of another group, or of one that it neither joined, nor has a view of, nor left.
                undeclared = {message[0] for message in history.first} - history.stays.keys() - history.left.keys()
                taking_part = bool(undeclared) or any(mine[-1].end is None for mine in history.stays.values())
            elif kind == "reject" and seqs[row] is None and groups[row] is not None:
                history.denied.add(groups[row])
            elif kind in ("reject", "block", "sent") and seqs[row] is not None and groups[row] is not None:
                message = (groups[row], senders[row], seqs[row])
                event = Event(name, index, message, in_force.get(groups[row]), row, False)
                if kind == "reject":
                    history.rejects.append(event)
                elif kind == "block":
                    history.blocks.append(event)
                elif senders[row] == name:
                    history.completed.append(event)
            elif kind == "start":
                self._start(row)
            elif kind == "end":
                history.end = True
                self._ends.append(columns.detail(row))
            elif kind == "crash":
                history.crashed = True
            elif kind == "fault":
                history.faults.append(index)
                history.timing_fault = history.timing_fault or is_timing_fault(columns.detail(row))
            elif kind == "request" and groups[row] is not None:
                history.requests.append(index)
            elif kind == "refused" and groups[row] is not None:
                history.refusals.setdefault(groups[row], []).append(index)
        history.cut = not (history.crashed or history.end or (history.left and not taking_part))
        history.crashed = history.crashed or history.cut
        return history

    def _install(self, history: History, index: int, row: int) -> View:
        group, number = self.columns["group"][row], self.columns["view"][row]
        members = frozenset(self.columns["members"][row] or ())
        view = self._views.setdefault((group, number, members), View(group, number, members))
        ended = sum(stay.end is not None for stay in history.stays.get(group, ()))
        history.views.setdefault(group, []).append(Installed(view, index, row, ended))
        history.installed.setdefault(view, index)
        if history.name in members:
            _begin_stay(history, group, index, row)
        return view

    def _note(self, history: History, index: int, row: int, view: View | None) -> None:
        """Notes that are about no block are the application's own business."""
        columns = self.columns
        detail, group = columns.detail(row), columns["group"][row]
        words = [detail.get(name) for name in ("note", "block", "event")]
        if group is None or not all(isinstance(word, str) for word in words):
            return
        sender, seq = columns["sender"][row], columns["seq"][row]
        message = (group, sender, seq) if sender is not None and seq is not None else None
        about, block, event = (str(word) for word in words)
        history.notes.append(Note(history.name, index, group, about, block, event, detail, message, view, row))

    def _start(self, row: int) -> None:
        detail = self.columns.detail(row)
        if isinstance(detail.get("promises"), list):
            before = self.promises or []
            self.promises = before + [name for name in detail["promises"] if name not in before]
        if isinstance(detail.get("bounds"), dict):
            widest = {name: self.bounds[name] for name in ("progress", "answer") if name in self.bounds}
            self.bounds.update(detail["bounds"])
            self.bounds.update({name: max(bound, self.bounds[name]) for name, bound in widest.items()})
        self.acting |= acting_of(detail)
        if isinstance(detail.get("despite"), list):
            despite = frozenset(kind for kind in detail["despite"] if isinstance(kind, str))
            self.despite = despite if self.despite is None else self.despite & despite


def acting_of(detail: dict[str, Any]) -> dict[ProcessId, ProcessId]:
    """What the ``detail`` of a ``start`` row says of remote processes: which other process acts for each of them."""
    acting = detail.get("acting")
    return {key: name for key, name in acting.items() if isinstance(name, str)} if isinstance(acting, dict) else {}


def runs_of(table: pa.Table) -> Iterator[Run]:
    """The runs of a trace, in the order of their names; rows may come in any order."""
    columns = Columns(table)
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(columns["run"]):
        rows.setdefault(name, []).append(row)
    for name in sorted(rows):
        yield Run(name, columns, rows[name])


def between(one: Moment, other: Moment) -> int:
    """The time from one row of a process to another: by the global clock, or by its own where one of them lacks that."""
    if one[0] is None or other[0] is None:
        return other[1] - one[1]
    return other[0] - one[0]


def _begin_stay(history: History, group: GroupId, index: int, row: int) -> None:
    stays = history.stays.setdefault(group, [])
    if not stays or stays[-1].end is not None:
        stays.append(Stay(index, row))


def is_timing_fault(detail: dict[str, Any]) -> bool:
    """A timing fault is marked as one: ``{"timing": true}``, or a fault of that kind.

    Other faults are not: a process that was paused, or whose links lost packets, still owes what it promised."""
    return detail.get("timing") is True or "timing" in (detail.get("fault"), detail.get("kind"))
