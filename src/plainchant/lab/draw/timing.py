"""A timing diagram of operations on shared memory, as an SVG file: what each process did on which copy, and for how long.

A run whose scenario says ``[memory] operations = true`` has an ``operation`` row for each atomic step on a copy, written when it
is over, with the moment at which it began. Here they are boxes, a band per process, time to the right: a Send is the writes and
then the flags in all copies, a Receive the decisions, the reading and the decision flags. Operations of a process that overlap
stand below each other. Time is in true proportions, but stretches in which nothing is done, or processes only look whether there
is something, are cut short, with a sign on the axis.

The picture of one message has everything that was done for it, with lines at its timestamp T, when its Send has to be over (T +
``send`` of the run's bounds) and when every receiver has to have delivered it (T + ``deliver``). The same trace gives the same
file, byte for byte.
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import pyarrow as pa

from ...core.model import US, UsageError
from ...core.words import listed, natural, short, span, whole
from ...protocols.story import Event, Message
from ..explain.rows import Rows
from ..show import beginnings
from .svg import Drawing, steps_between, width_of

BOXES_MAX: Final = 2_000
LANES_MAX: Final = 24
_LEFT: Final = 64
_WIDE: Final = 1_120
_RIGHT: Final = 30
_TOP: Final = 46
_BOX: Final = 22
_TRACK: Final = _BOX + 4
_GAP: Final = 22
_TICKS: Final = 90
"""The least distance between two ticks."""
_CUT: Final = 34
"""How wide a stretch is drawn in which nothing is done."""
_IDLE: Final = 0.12
"""A stretch is cut short if it is longer than this share of the time in which something is done."""
_MARKS: Final = {"deliver": "delivers", "sent": "has sent", "send": "", "decide": "decides", "crash": "crashes"}
_SHEET: Final = """
text{font:11px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:#1d2328}
.paper{fill:#fdfdfb}.title{font-size:13px;font-weight:600}.lane{font-size:12px;font-weight:600}.soft{fill:#5b6670}
.tick{fill:#5b6670;font-size:10px;text-anchor:middle}.axis{stroke:#8b959e}.life{stroke:#c3cad0}
.inside{font-size:10px;text-anchor:middle;pointer-events:none}
.box{stroke:#5b6670;stroke-width:.8}.failed{stroke:#b3261e;stroke-width:1.6;stroke-dasharray:3 2;fill-opacity:.35}
.write{fill:#8fbbe3}.flag{fill:#9fd3a9}.decide{fill:#e3c07a}.read{fill:#cfaee0}.finish{fill:#8fd3cf}.look{fill:#e9edf1}.list{fill:#d9d9d0}
.mark{stroke:#1d2328;stroke-width:1.6}.bad{stroke:#b3261e;stroke-width:2}.marktext{font-size:10px;fill:#1d2328}
.bound{stroke:#b3261e;stroke-width:1.1;stroke-dasharray:5 3}.boundtext{fill:#b3261e;font-size:10px;text-anchor:middle}
""".strip()


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """An operation on a copy (counted from 0), and from when to when it lasted, in ns since the run's beginning."""

    process: str
    name: str
    copy: int
    began: int
    ended: int
    failed: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """What is drawn."""

    title: str
    operations: tuple[Operation, ...]
    marks: tuple[Event, ...]
    lanes: tuple[str, ...]
    first: int
    last: int
    lines: tuple[tuple[int, str], ...]
    """Moments with a meaning."""
    styles: Mapping[str, tuple[str, str]]
    """Style and meaning of the operations by name, in the legend's order."""


def timing_diagram(
    table: pa.Table,
    *,
    group: str | None = None,
    process: str | None = None,
    message: Message | None = None,
    first: int | None = None,
    last: int | None = None,
) -> str:
    """The diagram of one run as SVG: of what was done for a message, or of a stretch of time (ns since the run's beginning)."""
    return str(_Picture(timing(table, group=group, process=process, message=message, first=first, last=last)).draw())


def timing(
    table: pa.Table,
    *,
    group: str | None = None,
    process: str | None = None,
    message: Message | None = None,
    first: int | None = None,
    last: int | None = None,
) -> Timing:
    """What a timing diagram shows."""
    runs = sorted(str(run) for run in table.column("run").unique().to_pylist())
    if len(runs) != 1:
        raise UsageError(f"a timing diagram shows one run, and there are {len(runs):,} in this trace; choose one with --run")
    rows = Rows(table)
    origin = next(iter(beginnings(table).values()), 0)
    group = message[0] if message is not None else group
    every = _operations(rows, group, process, origin)
    if not every:
        hint = "simulate the run with --set memory.operations=true, and a protocol on common memory"
        raise UsageError(f"no operations on common memory are recorded in this trace; {hint}")
    lines: list[tuple[int, str]] = []
    title = f"Run {short(runs[0], 60)}"
    if message is not None:
        title += f": what was done for {message[0]}/{message[1]}/{message[2]}"
        low, high, lines = _life(rows, message, every, origin)
    else:
        low, high = every[0].began, max(operation.ended for operation in every)
    low = low if first is None else first
    high = high if last is None else last
    shown = [operation for operation in every if operation.ended >= low and operation.began <= high]
    if not shown:
        raise UsageError("there are no operations in this stretch; choose another one with --from and --to, or another message")
    if len(shown) > BOXES_MAX:
        many = f"there are {len(shown):,} operations to draw, of which at most {BOXES_MAX:,} can be told apart"
        raise UsageError(f"{many}; choose a shorter stretch with --from and --to, or a message with --message")
    lanes = tuple(sorted({operation.process for operation in shown}, key=natural))
    if len(lanes) > LANES_MAX:
        many = f"there are {len(lanes)} processes to draw, of which at most {LANES_MAX} can be read"
        raise UsageError(f"{many}; choose one with --process")
    marks = tuple(
        dataclasses.replace(event, when=event.when - origin)
        for event in rows.find(*_MARKS, after=low + origin - 1, until=high + origin)
        if event.process in lanes and (message is None or event.kind == "crash" or event.message == message)
    )
    kept = tuple(line for line in lines if low <= line[0] <= high)
    return Timing(title, tuple(shown), marks, lanes, low, high, kept, rows.story.operations)


def _operations(rows: Rows, group: str | None, process: str | None, origin: int) -> list[Operation]:
    found = []
    for event in rows.find("operation", process=process, group=group):
        name, copy, began = event.detail.get("operation"), whole(event.detail, "copy"), whole(event.detail, "began")
        if isinstance(name, str) and copy is not None and began is not None:
            failed = event.detail.get("failed") is True
            found.append(Operation(event.process, name, copy, began - origin, event.when - origin, failed))
    return sorted(found, key=lambda operation: (operation.began, operation.process, operation.ended))


def _life(rows: Rows, message: Message, every: Sequence[Operation], origin: int) -> tuple[int, int, list[tuple[int, str]]]:
    """The stretch in which things were done for a message, and its moments."""
    naming = [*rows.naming(message), *rows.story.about(message)]
    if not naming:
        hint = "list those there are with: plainchant trace DIR --kind send"
        raise UsageError(f"there is no message {message[0]}/{message[1]}/{message[2]} in this run; {hint}")
    began = next((event for event in naming if event.kind == "send"), naming[0]).when - origin
    ended = max(event.when for event in naming) - origin
    for name in {event.process for event in naming if event.kind == "deliver"}:
        delivered = max(event.when - origin for event in naming if event.process == name and event.kind == "deliver")
        flags = [operation for operation in every if operation.process == name and operation.name == rows.story.last_operation]
        after = [operation for operation in flags if operation.began >= delivered]
        # The flags of one message are set in copy after copy, one round of them.
        copies = max((operation.copy for operation in flags), default=0) + 1
        ended = max([ended, *(operation.ended for operation in after[:copies])])
    bounds = rows.bounds
    texts = {"send": "T + \N{GREEK CAPITAL LETTER DELTA}s", "deliver": "delivered by now"}
    lines = [(began, "T"), *((began + bounds[name], text) for name, text in texts.items() if name in bounds)]
    margin = max((ended - began) // 50, 1)
    return began - margin, ended + margin, lines


class _Picture:
    def __init__(self, shown: Timing) -> None:
        self.shown = shown
        self.scale = _Scale(shown)
        self.x = self.scale.x
        drawn = [each for each in shown.operations if self.scale.is_drawn(each)]
        self.left_out = len(shown.operations) - len(drawn)
        self.tracks = {name: _tracks([each for each in drawn if each.process == name]) for name in shown.lanes}
        self.y: dict[str, float] = {}
        bottom = float(_TOP)
        for name in shown.lanes:
            self.y[name] = bottom + _GAP
            bottom += _GAP + _TRACK * len(self.tracks[name])
        self.bottom = bottom + 10
        self.picture = Drawing(_LEFT + _WIDE + _RIGHT, 0, shown.title, sheet=_SHEET)

    def draw(self) -> Drawing:
        self.picture.add("rect", "paper", width="100%", height="100%")
        self.picture.text(8, 18, self.shown.title, "title")
        for time, text in self.shown.lines:
            self.picture.line(self.x(time), _TOP - 8, self.x(time), self.bottom, "bound", title=f"{text}: {_moment(time)}")
            self.picture.text(self.x(time), _TOP - 12, text, "boundtext")
        for name in self.shown.lanes:
            self._lane(name)
        self._axis()
        self.picture.height = self._legend()
        return self.picture

    def _lane(self, name: str) -> None:
        self.picture.text(8, self.y[name] + _BOX / 2 + 4, short(name, 9), "lane", title=name)
        for place, track in enumerate(self.tracks[name]):
            y = self.y[name] + _TRACK * place
            self.picture.line(_LEFT, y + _BOX / 2, _LEFT + _WIDE, y + _BOX / 2, "life")
            for operation in track:
                self._box(operation, y)
        free = 0.0
        for event in self.shown.marks:
            if event.process != name or not _MARKS[event.kind]:
                continue
            x, word = self.x(event.when), _MARKS[event.kind]
            told = f"{_moment(event.when)}: {name} {word}" + (f" {event.name}" if event.seq is not None else "")
            style = "bad" if event.kind == "crash" else "mark"
            self.picture.line(x, self.y[name] - 4, x, self.y[name] + _BOX + 2, style, title=told)
            left = min(x + 2, _LEFT + _WIDE + _RIGHT - width_of(word) - 2)  # at the right edge it stands before the line
            if left >= free:
                self.picture.text(left, self.y[name] - 6, word, "marktext", title=told)
                free = left + width_of(word) + 4

    def _box(self, operation: Operation, y: float) -> None:
        x, until = self.x(operation.began), self.x(operation.ended)
        drawn, _ = self.shown.styles.get(operation.name, ("look", ""))
        told = f"{operation.process}: {operation.name} in copy {operation.copy + 1}, {_moment(operation.began)} to "
        told += f"{_moment(operation.ended)}, {span(operation.ended - operation.began)}"
        told += ", and the copy was lost" * operation.failed
        style = f"box {drawn}" + (" failed" * operation.failed)
        self.picture.box(x, y, until - x, _BOX, style, title=told)
        text = f"M{operation.copy + 1}"
        if width_of(text) < until - x:
            self.picture.text((x + until) / 2, y + _BOX / 2 + 4, text, "inside")

    def _axis(self) -> None:
        y = self.bottom
        free = 0.0
        for begin, end in self.scale.busy:
            left, right = self.x(begin), self.x(end)
            self.picture.line(left, y, right, y, "axis")
            for time in [float(begin), *steps_between(begin, end, int((right - left) // _TICKS))]:
                x = self.x(round(time))
                if x >= free:
                    self.picture.line(x, y, x, y + 4, "axis")
                    self.picture.text(x, y + 16, _moment(round(time)), "tick")
                    free = x + _TICKS * 0.8
        for (_, end), (begin, _) in pairwise(self.scale.busy):
            middle = (self.x(end) + self.x(begin)) / 2
            told = f"{span(begin - end)} are left out"
            for aside in (-3, 3):
                self.picture.line(middle + aside - 3, y + 5, middle + aside + 3, y - 5, "axis", title=told)
            self.picture.text(middle, y - 10, span(begin - end), "tick", title=told)

    def _legend(self) -> float:
        """Writes what the boxes mean; returns where it ends."""
        used = {operation.name for operation in self.shown.operations}
        x, y = float(_LEFT), self.bottom + 42.0
        for name, (style, meaning) in self.shown.styles.items():
            if name in used:
                self.picture.box(x, y - 10, 16, 12, f"box {style}")
                self.picture.text(x + 22, y, meaning, "soft")
                x += 22 + width_of(meaning) + 20
        notes = ["M1, M2, ...: the copies. Time is in true proportions"]
        notes[0] += ", but for what is cut out where nothing is done." if len(self.scale.busy) > 1 else "."
        if self.left_out:
            looks, are = ("look", "is") if self.left_out == 1 else ("looks", "are")
            notes.append(f"{self.left_out:,} {looks} at the memory meanwhile {are} not drawn.")
        lost = sorted({operation.copy + 1 for operation in self.shown.operations if operation.failed})
        if lost:
            notes.append(f"Dashed: copy {listed(map(str, lost))} was lost, which the process notices by this operation.")
        for note in notes:
            y += 18
            self.picture.text(_LEFT, y, note, "soft")
        return y + 12


class _Scale:
    """Where moments stand. Stretches in which nothing is done but looking are cut short."""

    def __init__(self, shown: Timing) -> None:
        worked = [(each.began, each.ended) for each in shown.operations if each.name != "look"]
        worked += [(event.when, event.when) for event in shown.marks]
        clipped = sorted((max(begin, shown.first), min(end, shown.last)) for begin, end in worked)
        self.busy = _merged(clipped, shown) if clipped else [(shown.first, shown.last)]
        per_ns = (_WIDE - _CUT * (len(self.busy) - 1)) / max(sum(end - begin for begin, end in self.busy), 1)
        self._knots: list[tuple[int, float]] = []
        x = float(_LEFT)
        for begin, end in self.busy:
            self._knots += [(begin, x), (end, x + (end - begin) * per_ns)]
            x += (end - begin) * per_ns + _CUT

    def x(self, time: int) -> float:
        place = bisect_right(self._knots, (time, math.inf))
        if place == 0 or place == len(self._knots):
            return self._knots[min(place, len(self._knots) - 1)][1]
        (before, left), (after, right) = self._knots[place - 1], self._knots[place]
        return left + (right - left) * (time - before) / max(after - before, 1)

    def is_drawn(self, operation: Operation) -> bool:
        """Whether an operation has its place in the picture; looking where the picture is cut has none."""
        return operation.name != "look" or any(begin <= operation.began and operation.ended <= end for begin, end in self.busy)


def _merged(worked: Sequence[tuple[int, int]], shown: Timing) -> list[tuple[int, int]]:
    """The stretches in which something is done, with a little room around them; those that are near each other are one."""
    apart = _joined(worked, 0)
    total = sum(end - begin for begin, end in apart)
    near, room = max(int(total * _IDLE), 1), total // 100
    return _joined([(max(begin - room, shown.first), min(end + room, shown.last)) for begin, end in apart], near)


def _joined(stretches: Sequence[tuple[int, int]], near: int) -> list[tuple[int, int]]:
    """Stretches in order, of which those that are this near each other are one."""
    joined: list[tuple[int, int]] = []
    for begin, end in stretches:
        if joined and begin - joined[-1][1] <= near:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def _tracks(operations: Sequence[Operation]) -> list[list[Operation]]:
    """Operations of a process, in as few rows as have no two of them at the same time."""
    tracks: list[list[Operation]] = []
    for operation in operations:
        free = next((track for track in tracks if track[-1].ended <= operation.began), None)
        if free is None:
            tracks.append([operation])
        else:
            free.append(operation)
    return tracks


def _moment(ns: int) -> str:
    return f"{ns / US:,.1f} \N{MICRO SIGN}s"
