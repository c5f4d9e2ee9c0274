"""The space-time diagram: a line a process, time to the right, messages as arrows, views as bars, faults behind it all.

Distances are compressed (``diagram_layout``); the axis says the true times.
"""

from __future__ import annotations

from typing import Final

from ...core.words import moment, short
from ..draw.layout import Layout, Message, message_of
from ..draw.svg import Drawing, width_of
from . import words
from .choose import Scene
from .words import NAME_MAX, Row

_LEFT: Final = 92
_RIGHT: Final = 70
_LANE: Final = 62
_ROW: Final = 17
_WIDE: Final = 960
_TONES: Final = 6


def spacetime(scene: Scene, title: str) -> str:
    """The picture of a scene, as SVG."""
    return str(_Picture(scene, title).draw())


class _Picture:
    def __init__(self, scene: Scene, title: str) -> None:
        self.scene = scene
        layout = Layout(scene.drawn, left=_LEFT, wide=_WIDE)
        self.at, self.end, self.knots = layout.at, layout.end, layout.knots
        self.x_of, self._x = layout.x_of, layout.x
        self.top = 16 + _ROW * len(scene.faults) + 26
        self.y = {name: self.top + _LANE * number for number, name in enumerate(scene.lanes)}
        self.bottom = self.top + _LANE * (len(scene.lanes) - 1) + 34
        self.tones = {message: number % 3 for number, message in enumerate(scene.messages)}
        self.picture = Drawing(self.end + _RIGHT, self.bottom + 34, title, fluid=self.end + _RIGHT <= 1_100)

    def draw(self) -> Drawing:
        self._faults()
        self._lanes()
        self._views()
        self._arrows()
        self._never()
        for row in self.scene.drawn:
            self._mark(row)
        self._axis()
        return self.picture

    def _faults(self) -> None:
        for number, row in enumerate(self.scene.faults):
            x, y = self.x_of(row["moment"]), 14 + _ROW * number
            length = words.fault_length(row["detail"])
            until = self.x_of(row["moment"] + length) if length else x
            told = f"{moment(row['moment'])}: {words.fault(row['detail'])}"
            if until > x + 1:
                self.picture.box(x, y + 4, until - x, self.bottom - y - 4, "band", title=told)
            self.picture.line(x, y + 4, x, self.bottom, "faultline", title=told)
            text = "⚡ " + short(words.fault(row["detail"]), 90)
            # Text that would leave the picture stands to the left of its line.
            beyond = x + width_of(text) > self.end + _RIGHT - 4
            at = max(x - 5 - width_of(text), 2) if beyond else x - 4
            self.picture.text(at, y, text, "faulttext", title=told)

    def _lanes(self) -> None:
        crashed = {row["process"]: row for row in self.scene.states if row["kind"] == "crash"}
        for name, y in self.y.items():
            told = short(name, 12)
            self.picture.text(8, y + 4, told, "lane", title=name)
            until = self.x_of(crashed[name]["moment"]) if name in crashed else self.end
            place = (name, crashed[name]["index"]) if name in crashed else None
            if place in self.at:
                until = self.at[place]
            self.picture.line(_LEFT - 14, y, until, y, "life")
            if until < self.end:
                self.picture.line(until, y, self.end, y, "gone", title=f"{name} has stopped")

    def _views(self) -> None:
        """A bar from the installation of a view to whatever ends it; the same colour is the same view."""
        colours: dict[tuple[str, int, tuple[str, ...]], int] = {}
        for row in sorted(self.scene.states, key=lambda row: (row["moment"], row["index"])):
            if row["kind"] == "view":
                colours.setdefault(_view(row), len(colours) % _TONES)
        groups = sorted({str(row["group"]) for row in self.scene.states if row["kind"] == "view"})
        for name, y in self.y.items():
            mine = [row for row in self.scene.states if row["process"] == name]
            for number, group in enumerate(groups[:3]):
                bars = [row for row in mine if row["kind"] in ("crash", "end") or str(row["group"]) == group]
                self._bars(bars, y + 9 + 5 * number, colours, several=len(groups) > 1, number=number)

    def _bars(
        self, rows: list[Row], y: float, colours: dict[tuple[str, int, tuple[str, ...]], int], *, several: bool, number: int
    ) -> None:
        free = -1.0
        for place, row in enumerate(rows):
            if row["kind"] != "view":
                continue
            x = self._x(row)
            after = rows[place + 1] if place + 1 < len(rows) else None
            until = self._x(after) if after is not None and after["kind"] != "end" else self.end
            members = words.listed(row["members"] or ())
            self.picture.box(x, y, until - x, 4, f"view v{colours[_view(row)]}", title=f"{words.event(row)}", round_by=1)
            group = f"{short(row['group'], 8)} " if several else ""
            text = f"{group}view {row['view']}: {members}"
            room = until - x
            told = text if width_of(text) * 0.93 < room else f"{group}view {row['view']}"
            if number == 0 and x > free and width_of(told) * 0.93 < max(room, 40):
                self.picture.text(x + 1, y + 16, told, "viewtext", title=text)
                free = x + width_of(told)

    def _arrows(self) -> None:
        sends = {message_of(row): row for row in self.scene.drawn if row["kind"] == "send"}
        plain: list[tuple[Row, Row]] = []
        telling: list[tuple[Row, Row]] = []
        for row in self.scene.drawn:
            message = message_of(row)
            if row["kind"] == "deliver" and message in sends and sends[message]["process"] != row["process"]:
                (telling if message in self.tones else plain).append((sends[message], row))
        for send, row in (*plain, *telling):
            message = message_of(row)
            style = f"arrow m{self.tones[message]}" if message in self.tones else "arrow other"
            told = f"{words.event(send)}, {words.event(row)} {words.duration(row['moment'] - send['moment'])} later"
            self.picture.arrow(self._x(send), self.y[send["process"]], self._x(row), self.y[row["process"]], style, title=told)

    def _never(self) -> None:
        sends = {message_of(row): row for row in self.scene.drawn if row["kind"] == "send"}
        for number, (message, process) in enumerate(self.scene.never):
            if process not in self.y:
                continue
            x, y = self._before_end(process) - 26 * (number % 2), self.y[process]
            told = f"{process} never delivers {_name(message)}"
            if message in sends:
                send = sends[message]
                self.picture.line(self._x(send), self.y[send["process"]], x, y - 4, f"missing m{self.tones[message]}", title=told)
            self.picture.add("circle", f"absent m{self.tones[message]}", title=told, cx=x, cy=y, r=6)
            self.picture.line(x - 3.5, y + 3.5, x + 3.5, y - 3.5, f"absent m{self.tones[message]}")
            self.picture.text(x - 12, y - 10, "never", f"nevertext m{self.tones[message]}", title=told)

    def _before_end(self, process: str) -> float:
        """The right end of a lane, or a little before the place where its process stops."""
        stops = [self._x(row) for row in self.scene.states if row["kind"] == "crash" and row["process"] == process]
        return stops[0] - 20 if stops else self.end - 6

    def _mark(self, row: Row) -> None:
        x, y = self._x(row), self.y[row["process"]]
        told = f"{moment(row['moment'])}: {words.event(row)} (index {row['index']})"
        message = message_of(row)
        tone = f"m{self.tones[message]}" if message in self.tones else "other"
        number = self.scene.marks.get((row["process"], row["index"]))
        if number is not None:
            self.picture.add("circle", "halo", cx=x, cy=y, r=10)
        match row["kind"]:
            case "send":
                self.picture.add("circle", f"send {tone}", title=told, cx=x, cy=y, r=4.5)
                if tone != "other" and message is not None:
                    self._label(x, y, _name(message), tone, number)
            case "deliver":
                self.picture.shape([(x - 5, y - 5), (x + 5, y - 5), (x, y + 5)], f"deliver {tone}", title=told)
            case "crash":
                for slope in (1, -1):
                    self.picture.line(x - 7, y - 7 * slope, x + 7, y + 7 * slope, "crash", title=told)
                self.picture.text(x + 12, y + 4, "stops", "crashtext", title=told)
            case "view":
                self.picture.line(x, y - 7, x, y + 13, "install", title=told)
            case "suspect":
                self.picture.shape([(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)], "suspect", title=told)
            case "end":
                self.picture.line(x, y - 8, x, y + 8, "ended", title=told)
            case _:
                self.picture.box(x - 3.5, y - 3.5, 7, 7, f"note {tone}", title=told)
        if number is not None:
            self._number(x, y, number)

    def _number(self, x: float, y: float, number: int) -> None:
        self.picture.add("circle", "number", cx=x, cy=y - 20, r=8.5)
        self.picture.text(x, y - 16, str(number), "numbertext")

    def _label(self, x: float, y: float, text: str, tone: str, number: int | None) -> None:
        self.picture.text(x - (12 if number is not None else 6), y - 10, short(text, 26), f"name {tone}")

    def _axis(self) -> None:
        y = self.bottom + 8
        self.picture.line(_LEFT - 14, y, self.end, y, "axis")
        free = -1.0
        for time, x in self.knots:
            told = moment(time)
            if x - width_of(told) / 2 > free:
                self.picture.line(x, y, x, y + 4, "axis")
                self.picture.text(x, y + 17, told, "tick")
                free = x + width_of(told) / 2 + 8


def _view(row: Row) -> tuple[str, int, tuple[str, ...]]:
    return row["group"], row["view"], tuple(sorted(row["members"] or ()))


def _name(message: Message) -> str:
    group, sender, seq = message
    return f"{short(group, NAME_MAX)}/{short(sender, NAME_MAX)}/{seq}"
