"""What of a trace is drawn in a space-time diagram: lanes, marks, messages, views, faults, and what is left out.

Rows about membership are all drawn; a stretch with too many to be read is refused. Messages are thinned, evenly over the time:
half of the room is for those that not all members delivered, or that were delivered in another view than they were sent in. What
one process says of several others at one instant is one mark. Turns are drawn where they can be told apart: all that are in the
stretch, or none. The story of the run's protocol says what else is drawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from ...core.model import UsageError
from ...core.words import natural, whole
from ...protocols.story import Event, Story
from ..explain.rows import Rows
from ..show import beginnings, decode
from .layout import Message, Row, message_of

LANES_MAX: Final = 40
MESSAGES: Final = 20
"""Messages that are drawn unless more are wanted."""
MARKS_MAX: Final = 600
FAULTS_MAX: Final = 8
TURNS_MAX: Final = 60
LATE_MAX: Final = 60
"""Timing faults that are drawn."""
_TELLING: Final = ("suspect", "refute", "confirm", "remove", "bye", "form", "elect", "view", "leave", "crash")
_IN_A_TURN: Final = ("send", "suspect", "confirm", "query", "usend", "retransmit", "ask")
_STATES: Final = ("view", "leave", "crash", "end")
_QUIET_STAGES: Final = ("beacon", "opening", "enter", "decided")
"""Stages that every member goes through with every other, or that a view's mark shows at the same instant."""
_JOINED: Final = ("suspect", "refute", "confirm", "remove", "late", "reject")
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Blocked:
    """A process might not send."""

    start: Row
    until: int | None
    """None: for ever."""


@dataclasses.dataclass(frozen=True)
class Turn:
    """A turn of a process."""

    first: Row
    """What is drawn of it first."""
    token: Row
    before: Row | None
    """The ``token`` row of the turn that passed the token on; None if there is none in the picture."""


@dataclasses.dataclass(frozen=True)
class Scene:
    """What is drawn; rows have their ``moment`` (ns since the run's beginning) and their ``detail`` as a mapping."""

    run: str
    groups: tuple[str, ...]
    lanes: tuple[str, ...]
    first: int
    last: int
    drawn: tuple[Row, ...]
    """In the order in which they happened."""
    also: dict[tuple[str, int], tuple[Row, ...]]
    """Rows that are drawn by the mark of another one, by its place."""
    states: dict[str, list[Row]]
    """Views, leaves and the end of each lane, in order, from the run's beginning to the last moment drawn."""
    begins: dict[str, int]
    """When each lane's process has its first row."""
    faults: tuple[Row, ...]
    blocked: tuple[Blocked, ...]
    turns: tuple[Turn, ...]
    notes: tuple[str, ...]
    """What is left out, in sentences."""
    sheets: tuple[str, ...]
    """Style sheets that its marks need (``marks.SHEETS``)."""
    story: Story
    """The story of the run's protocol."""


def scene(
    table: pa.Table, group: str | None, first: int | None, last: int | None, messages: int = MESSAGES, nulls: bool = False
) -> Scene:
    """The scene of one run, or of a group and a stretch of it."""
    runs = sorted(str(run) for run in table.column("run").unique().to_pylist())
    if not runs:
        raise UsageError("there are no rows in this trace, so there is nothing to draw; give another path")
    if len(runs) > 1:
        raise UsageError(f"a diagram shows one run, and there are {len(runs):,} in this trace; choose one with --run")
    rows = _Chosen(table, group)
    low = first if first is not None else rows.least
    high = last if last is not None else rows.most
    story = rows.story
    marks = rows.of((*_TELLING, *(("null",) if nulls else ()), *story.drawn_kinds), low, high)
    sent, notes = _messages(rows, rows.of(("send", "deliver"), low, high), messages)
    timing = [row for row in rows.of(("fault",), low, high) if row["detail"].get("fault") == "timing"]
    untimely = [row for row in timing if row["process"] in rows.begins]
    if len(untimely) > LATE_MAX:
        notes.append(f"{LATE_MAX} of {len(untimely):,} timing faults are drawn")
        untimely = _spread(untimely, LATE_MAX)
    # Quiet: another mark of the same instant shows the same, or the row is about no more than itself.
    told = [row for row in (*marks, *untimely) if row["detail"].get("stage") not in _QUIET_STAGES]
    marks, also = _joined([row for row in told if not story.is_quiet(event_of(row))])
    tokens = rows.of(("token",), low, high) if story.has_turns else []
    if len(tokens) > TURNS_MAX:
        notes.append(f"{len(tokens):,} turns are not drawn: choose a stretch with at most {TURNS_MAX}")
        tokens = []
    drawn = sorted([*marks, *sent, *tokens], key=lambda row: (row["moment"], row["process"], row["index"]))
    if not drawn:
        raise UsageError("there is nothing to draw in this stretch; choose another one with --from and --to, or another group")
    if len(marks) > MARKS_MAX:
        many = f"there are {len(marks):,} marks to draw, of which at most {MARKS_MAX} can be read"
        raise UsageError(f"{many}; choose a shorter stretch with --from and --to")
    states = rows.of(_STATES, rows.least, high)
    lanes = _lanes(states, drawn, rows.begins, low, high)
    faults = _faults(rows.of(("fault",), rows.least, high), low)
    if len(faults) > FAULTS_MAX:
        notes.append(f"{FAULTS_MAX} of {len(faults):,} faults are drawn")
    return Scene(
        run=runs[0],
        groups=tuple(sorted({row["group"] for row in states if row["kind"] == "view"}, key=natural)),
        lanes=lanes,
        first=low,
        last=high,
        drawn=tuple(drawn),
        also=also,
        states={name: [row for row in states if row["process"] == name] for name in lanes},
        begins=rows.begins,
        faults=tuple(faults[:FAULTS_MAX]),
        blocked=tuple(_blocked(rows.of(("block", "unblock"), rows.least, high), low)),
        turns=tuple(_turns(tokens, drawn)),
        notes=tuple(notes),
        sheets=(*story.sheets, *(("memory",) if untimely and "memory" not in story.sheets else ())),
        story=story,
    )


class _Chosen:
    """The rows of a run and a group, of which those that are asked for become Python objects."""

    def __init__(self, table: pa.Table, group: str | None) -> None:
        self._rows = Rows(table)
        self._group = group
        self.story = self._rows.story
        self._when = self._rows.when - next(iter(beginnings(table).values()), 0)
        self.least, self.most = int(self._when.min()), int(self._when.max())
        own = self._rows.within(group) if group is not None else self._rows.mask()
        codes, places = np.unique(self._rows.process, return_index=True)
        begins = dict(zip(codes.tolist(), self._when[places].tolist(), strict=True))
        there = set(self._rows.process[own].tolist())
        self.begins = {name: begins[code] for name, code in self._rows.names["process"].items() if code in there}
        """When each process that is in the picture has its first row."""
        self._there = np.isin(self._rows.process, list(there))

    def of(self, kinds: Sequence[str], low: int, high: int) -> list[Row]:
        """The rows of these kinds in this time, in the order in which they happened. Faults may stand at any process."""
        wanted = self._rows.mask(*kinds, group=self._group) & (self._when >= low) & (self._when <= high)
        places = np.flatnonzero(wanted if "fault" in kinds else wanted & self._there)
        places = places[np.lexsort((places, self._when[places]))]
        rows: list[Row] = self._rows.table.take(pa.array(places)).to_pylist()
        for row, when in zip(rows, self._when[places].tolist(), strict=True):
            detail = decode(row["detail"])
            row["moment"], row["detail"] = when, detail if isinstance(detail, dict) else {}
        return rows

    def odd(self, found: Mapping[Message, Sequence[Row]]) -> list[Message]:
        """Messages sent in the picture that, in the whole run, fewer processes delivered than another one of their group, or that
        were delivered in another view than they were sent in."""
        numbers = [message[2] for message in found]
        rows = self._rows
        delivered = rows.mask("deliver", group=self._group) & (rows.seq >= min(numbers)) & (rows.seq <= max(numbers))
        table = rows.table.take(pa.array(np.flatnonzero(delivered))).group_by(["group", "sender", "seq"], use_threads=False)
        table = table.aggregate([("process", "count_distinct"), ("view", "min"), ("view", "max")])
        lives = {(row["group"], row["sender"], row["seq"]): row for row in table.to_pylist()}
        counts = {message: lives[message]["process_count_distinct"] if message in lives else 0 for message in found}
        usual: dict[str, int] = {}
        for (group, *_), many in counts.items():
            usual[group] = max(many, usual.get(group, 0))
        sent = {message: row["view"] for message, about in found.items() for row in about if row["kind"] == "send"}
        return [
            message
            for message, view in sent.items()
            if counts[message] < usual[message[0]] or (lives[message]["view_min"], lives[message]["view_max"]) != (view, view)
        ]


def event_of(row: Row) -> Event:
    """A row as stories take it."""
    return Event.of(row, row["detail"], row["moment"])


def _turns(tokens: Sequence[Row], drawn: Sequence[Row]) -> list[Turn]:
    """Turns, each with what is drawn of it and the one that the token came from: that of the visit before."""
    started: dict[tuple[str, int], Row] = {}
    for row in drawn:
        if row["kind"] in _IN_A_TURN:
            started.setdefault((row["process"], row["moment"]), row)
    visits = {(row["group"], row["detail"].get("visit")): row for row in tokens}
    found = []
    for row in tokens:
        visit = whole(row["detail"], "visit") if row["detail"].get("by") == "token" else None
        before = visits.get((row["group"], visit - 1)) if visit is not None else None
        found.append(Turn(started.get((row["process"], row["moment"]), row), row, before))
    return found


def _messages(chosen: _Chosen, rows: list[Row], most: int) -> tuple[list[Row], list[str]]:
    """The rows of the messages that are drawn, at most ``most``, and what is left out."""
    found: dict[Message, list[Row]] = {}
    for row in rows:
        if (message := message_of(row)) is not None:
            found.setdefault(message, []).append(row)
    if len(found) <= most:
        return rows, []
    odd = chosen.odd(found)
    telling = _spread(odd, (most + 1) // 2)
    like_others = found.keys() - odd
    drawn = {*telling, *_spread([message for message in found if message in like_others], most - len(telling))}
    return [row for row in rows if message_of(row) in drawn], [f"{len(drawn)} of {len(found):,} messages are drawn"]


def _spread(messages: Sequence[T], most: int) -> list[T]:
    """At most ``most`` of them, evenly spread."""
    return [messages[len(messages) * place // most] for place in range(most)] if len(messages) > most else list(messages)


def _faults(rows: Iterable[Row], low: int) -> list[Row]:
    """Faults that come in the picture or last into it, each once; a crash has its own mark, and so has what was late."""
    once: dict[tuple[int, str], Row] = {}
    healed = [row["moment"] for row in rows if row["detail"].get("fault") == "heal"]
    for row in rows:
        if row["detail"].get("fault") in ("crash", "join", "leave", "restart", "timing"):
            continue
        row["until"] = _until(row, healed)
        if row["moment"] >= low or (row["until"] is not None and row["until"] > low):
            once.setdefault((row["moment"], str(row["detail"])), row)
    return list(once.values())


def _until(row: Row, healed: Sequence[int]) -> int | None:
    """When a fault is over; None if it does not last."""
    length = row["detail"].get("length")
    if isinstance(length, int) and length > 0:
        return int(row["moment"]) + length
    if row["detail"].get("fault") not in ("partition", "cut", "clog", "loss", "pause", "slow"):
        return None
    return next((when for when in healed if when > row["moment"]), 2**62)


def _joined(rows: list[Row]) -> tuple[list[Row], dict[tuple[str, int], tuple[Row, ...]]]:
    """Rows, and those beside them that are drawn by the same mark."""
    kept: list[Row] = []
    also: dict[tuple[str, int], tuple[Row, ...]] = {}
    for key, found in groupby(sorted(rows, key=_mark), key=_mark):
        same = list(found)
        heads = same[:1] if key[2] in _JOINED else same
        kept += heads
        if len(heads) < len(same):
            also[heads[0]["process"], heads[0]["index"]] = tuple(same[1:])
    return kept, also


def _mark(row: Row) -> tuple[Any, ...]:
    flavour = "heard" if row["detail"].get("heard") else "late" if row["detail"].get("late") else ""
    return row["moment"], row["process"], row["kind"], row["group"] or "", flavour


def _lanes(states: Sequence[Row], drawn: Sequence[Row], begins: dict[str, int], low: int, high: int) -> tuple[str, ...]:
    """The processes that are there in this time."""
    gone = {row["process"]: row["moment"] for row in states if row["kind"] in ("crash", "end")}
    there = {name for name, begin in begins.items() if begin <= high and gone.get(name, high) >= low}
    lanes = sorted({*there, *(row["process"] for row in drawn)}, key=natural)
    if len(lanes) > LANES_MAX:
        many = f"there are {len(lanes):,} processes to draw, of which at most {LANES_MAX} can be read"
        raise UsageError(f"{many}; choose a group with --group, or another stretch with --from and --to")
    return tuple(lanes)


def _blocked(rows: Iterable[Row], low: int) -> list[Blocked]:
    """Times in which a process might not send in a group. Rows about single messages, requests and nulls are of another kind."""
    found: list[Blocked] = []
    waiting: dict[tuple[str, str | None], Row] = {}
    for row in rows:
        if row["seq"] is not None or "request" in row["detail"] or "null" in row["detail"]:
            continue
        key = row["process"], row["group"]
        if row["kind"] == "block":
            waiting.setdefault(key, row)
        elif key in waiting:
            start = waiting.pop(key)
            found += [Blocked(start, row["moment"])] if row["moment"] > low else []
    return found + [Blocked(row, None) for row in waiting.values()]
