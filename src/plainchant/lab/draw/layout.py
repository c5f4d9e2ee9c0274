"""Where the events of a space-time diagram stand from left to right.

Distances are compressed. Events of one moment stand one below the other, a process's own events never overlap, a delivery stands
to the right of its send, and a longer wait is a longer distance, but by its logarithm: a run's microseconds and its seconds both
have to be seen. Times between those of the events stand between them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import Any, Final, TypeAlias

Row: TypeAlias = dict[str, Any]
"""A row of a trace, by column, with ``moment``: when it happened on the clock of the picture."""
Message: TypeAlias = tuple[str, str, int]
Place: TypeAlias = tuple[str, int]
_STEP: Final = 17
_ARROW: Final = 26
_MARGIN: Final = 30
_LEAST: Final = 640.0


def message_of(row: Row) -> Message | None:
    """The message that a row is about."""
    return (row["group"], row["sender"], row["seq"]) if row["seq"] is not None and row["sender"] is not None else None


View: TypeAlias = tuple[str, int | None, frozenset[str]]


def view_of(row: Row) -> View:
    """The view that a row installs."""
    return row["group"], row["view"], frozenset(row["members"] or ())


def view_colours(rows: Iterable[Row], colours: int) -> dict[View, int]:
    """A colour for each view, in the order in which they were installed."""
    views = dict.fromkeys(view_of(row) for row in rows if row["kind"] == "view")
    return {view: place % colours for place, view in enumerate(views)}


class Layout:
    """Places for rows that are given in the order in which they happened."""

    def __init__(self, rows: Sequence[Row], *, left: float, wide: float) -> None:
        """``left`` is where the first stands; a picture of width ``wide`` is aimed at."""
        self._left = left
        self.at = _places(rows, 1.0, left)
        width = max(self.at.values(), default=left)
        if width > left:
            # Filled where it is small, pressed where it is large; further than that it is scrolled.
            self.at = _places(rows, min(max((wide - left) / (width - left), 0.55), 3.0), left)
            width = max(self.at.values())
        self.end = max(width + _MARGIN, _LEAST)
        self.knots = _knots(rows, self.at)

    def x(self, row: Row) -> float:
        """Where a row stands, drawn or not."""
        return self.at.get((row["process"], row["index"]), self.x_of(row["moment"]))

    def x_of(self, time: int) -> float:
        """Where a time stands that need not be that of an event: between its neighbours."""
        if not self.knots:
            return self._left
        place = bisect_right(self.knots, (time, math.inf))
        if place == 0:
            return self._left
        if place == len(self.knots):
            return self.knots[-1][1] if time == self.knots[-1][0] else self.end
        (before, left), (after, right) = self.knots[place - 1], self.knots[place]
        return left + (right - left) * (time - before) / max(after - before, 1)


def _places(drawn: Sequence[Row], scale: float, left: float) -> dict[Place, float]:
    """Where each event stands."""
    waits = sorted(after - before for before, after in pairwise(sorted({row["moment"] for row in drawn})))
    usual = max(waits[len(waits) // 2], 1) if waits else 1
    at: dict[Place, float] = {}
    last: dict[str, float] = {}
    sent: dict[Message | None, float] = {}
    furthest = float(left)
    before: int | None = None
    for time, rows in groupby(drawn, key=lambda row: row["moment"]):
        wait = 0 if before is None else 14 + min(20 * math.log2(1 + (time - before) / usual), 90)
        start = furthest + wait * scale
        for row in _sends_before_deliveries(list(rows)):
            x = max(start, last.get(row["process"], 0) + _STEP * max(scale, 0.8))
            message = message_of(row)
            if row["kind"] == "send":
                sent[message] = x
            elif row["kind"] == "deliver" and message in sent and message is not None and message[1] != row["process"]:
                x = max(x, sent[message] + _ARROW * scale)
            at[row["process"], row["index"]] = last[row["process"]] = x
            furthest = max(furthest, x)
        before = time
    return at


def _sends_before_deliveries(rows: list[Row]) -> list[Row]:
    """The rows of one moment, histories in order, and a delivery after its send wherever both are among them."""
    ordered_rows = sorted(rows, key=lambda row: (row["process"], row["index"]))
    waiting = {name: list(group) for name, group in groupby(ordered_rows, key=lambda row: row["process"])}
    unsent = {message_of(row) for row in rows if row["kind"] == "send"}
    ordered: list[Row] = []
    while waiting:
        ready = [name for name, queue in waiting.items() if queue[0]["kind"] != "deliver" or message_of(queue[0]) not in unsent]
        # A trace in which deliveries and sends of one moment wait for each other is drawn as it comes.
        name = ready[0] if ready else next(iter(waiting))
        row = waiting[name].pop(0)
        ordered.append(row)
        if row["kind"] == "send":
            unsent.discard(message_of(row))
        if not waiting[name]:
            del waiting[name]
    return ordered


def _knots(rows: Sequence[Row], at: dict[Place, float]) -> list[tuple[int, float]]:
    """Times and where they stand, both increasing."""
    first: dict[int, float] = {}
    for row in rows:
        x = at[row["process"], row["index"]]
        first[row["moment"]] = min(first.get(row["moment"], x), x)
    return sorted(first.items())
