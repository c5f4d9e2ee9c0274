"""The space-time diagram: a line a process, time to the right, messages as arrows, views as bars, faults behind it all.

Distances are compressed (``diagram_layout``); the axis says the true times.
"""

from __future__ import annotations

from typing import Final

from ...core.words import moment, short
from ..draw.layout import Layout, Message, View, message_of, view_colours, view_of
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
        self.end, self.knots, self.x_of, self._x = layout.end, layout.knots, layout.x_of, layout.x
        self.top = 16 + _ROW * len(scene.faults) + 26
        self.y = {name: self.top + _LANE * number for number, name in enumerate(scene.lanes)}
        self.bottom = self.top + _LANE * (len(scene.lanes) - 1) + 34
        self.tones = {message: number % 3 for number, message in enumerate(scene.messages)}
        self.sends = {message_of(row): row for row in scene.drawn if row["kind"] == "send"}
        self.picture = Drawing(self.end + _RIGHT, self.bottom + 34, title, fluid=self.end + _RIGHT <= 1_100)

    def draw(self) -> Drawing:
        self._faults()
        self._lanes()
        self._views()
        self._arrows()
        self._never()
        for row in self.scene.drawn:
            self._mark(row)
        ticks = ((x, moment(time)) for time, x in self.knots)
        self.picture.axis(_LEFT - 14, self.end, self.bottom + 8, ticks)
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
            words.label_fault(self.picture, row["detail"], x, y, told)

    def _lanes(self) -> None:
        crashed = {row["process"]: row for row in self.scene.states if row["kind"] == "crash"}
        for name, y in self.y.items():
            self.picture.text(8, y + 4, short(name, 12), "lane", title=name)
            until = self._x(crashed[name]) if name in crashed else self.end
            self.picture.line(_LEFT - 14, y, until, y, "life")
            if until < self.end:
                self.picture.line(until, y, self.end, y, "gone", title=f"{name} has stopped")

    def _views(self) -> None:
        """A bar from the installation of a view to whatever ends it; the same colour is the same view."""
        colours = view_colours(sorted(self.scene.states, key=lambda row: (row["moment"], row["index"])), _TONES)
        groups = sorted({str(row["group"]) for row in self.scene.states if row["kind"] == "view"})
        for name, y in self.y.items():
            mine = [row for row in self.scene.states if row["process"] == name]
            for number, group in enumerate(groups[:3]):
                bars = [row for row in mine if row["kind"] in ("crash", "end") or str(row["group"]) == group]
                self._bars(bars, y + 9 + 5 * number, colours, several=len(groups) > 1, number=number)

    def _bars(self, rows: list[Row], y: float, colours: dict[View, int], *, several: bool, number: int) -> None:
        free = -1.0
        for place, row in enumerate(rows):
            if row["kind"] != "view":
                continue
            x = self._x(row)
            after = rows[place + 1] if place + 1 < len(rows) else None
            until = self._x(after) if after is not None and after["kind"] != "end" else self.end
            self.picture.box(x, y, until - x, 4, f"view v{colours[view_of(row)]}", title=words.event(row), round_by=1)
            group = f"{short(row['group'], 8)} " if several else ""
            text = f"{group}view {row['view']}: {words.listed(row['members'] or ())}"
            room = until - x
            told = text if width_of(text) * 0.93 < room else f"{group}view {row['view']}"
            if number == 0 and x > free and width_of(told) * 0.93 < max(room, 40):
                self.picture.text(x + 1, y + 16, told, "viewtext", title=text)
                free = x + width_of(told)

    def _arrows(self) -> None:
        drawn = [
            (self.sends[message], row, message)
            for row in self.scene.drawn
            if row["kind"] == "deliver" and (message := message_of(row)) in self.sends
        ]
        # What the scene is about is drawn over the rest.
        for send, row, message in sorted(drawn, key=lambda each: each[2] in self.tones):
            if send["process"] == row["process"]:
                continue
            style = f"arrow m{self.tones[message]}" if message in self.tones else "arrow other"
            told = f"{words.event(send)}, {words.event(row)} {words.duration(row['moment'] - send['moment'])} later"
            self.picture.arrow(self._x(send), self.y[send["process"]], self._x(row), self.y[row["process"]], style, title=told)

    def _never(self) -> None:
        for number, (message, process) in enumerate(self.scene.never):
            if process not in self.y:
                continue
            stops = [self._x(row) for row in self.scene.states if row["kind"] == "crash" and row["process"] == process]
            x, y = (stops[0] - 20 if stops else self.end - 6) - 26 * (number % 2), self.y[process]
            told = f"{process} never delivers {_name(message)}"
            if message in self.sends:
                send = self.sends[message]
                self.picture.line(self._x(send), self.y[send["process"]], x, y - 4, f"missing m{self.tones[message]}", title=told)
            self.picture.add("circle", f"absent m{self.tones[message]}", title=told, cx=x, cy=y, r=6)
            self.picture.line(x - 3.5, y + 3.5, x + 3.5, y - 3.5, f"absent m{self.tones[message]}")
            self.picture.text(x - 12, y - 10, "never", f"nevertext m{self.tones[message]}", title=told)

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
                    aside = 12 if number is not None else 6
                    self.picture.text(x - aside, y - 10, short(_name(message), 26), f"name {tone}")
            case "deliver":
                self.picture.shape([(x - 5, y - 5), (x + 5, y - 5), (x, y + 5)], f"deliver {tone}", title=told)
            case "crash":
                self.picture.cross(x, y, 7, title=told)
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
            self.picture.add("circle", "number", cx=x, cy=y - 20, r=8.5)
            self.picture.text(x, y - 16, str(number), "numbertext")


def _name(message: Message) -> str:
    group, sender, seq = message
    return f"{short(group, NAME_MAX)}/{short(sender, NAME_MAX)}/{seq}"
