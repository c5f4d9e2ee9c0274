"""A space-time diagram of a trace, as an SVG file: a line a process, time to the right, messages as arrows, views as bars.

``rows`` chooses what is drawn, ``layout`` where it stands, ``marks`` has the signs. Distances are
compressed, the axis has the true times. Every mark says in its title what it stands for, in the words of ``plainchant explain``.
The same trace gives the same file, byte for byte.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Final

import pyarrow as pa

from ...core.words import braces, crash_words, fault_words, listed, moment, reason, short, span
from ...protocols.story import Event
from ..explain.membership import about, given, parts_in, sentence
from ..show import name_of
from .layout import Layout, Row, message_of, view_colours, view_of
from .marks import SHEET, SHEETS, SIGNS, TONES, TURN
from .rows import MESSAGES, Scene, event_of, scene
from .svg import Drawing, width_of

_LEFT: Final = 84
_RIGHT: Final = 24
_WIDE: Final = 1_040
_TOP: Final = 30
_ROW: Final = 16
_ABOVE: Final = 40
"""Room above a line: three levels of labels."""
_BAR: Final = 17
"""Height of a group's bar of views with its text."""
_LEVELS: Final = (10, 21, 32)
_NAMED: Final = 3
_ROOM_MAX: Final = 160
_LEGEND: Final = 18
"""Height of a line of the legend."""


def diagram(
    table: pa.Table,
    *,
    group: str | None = None,
    first: int | None = None,
    last: int | None = None,
    messages: int = MESSAGES,
    nulls: bool = False,
) -> str:
    """The diagram of one run as SVG.

    ``first`` and ``last`` are ns since the run's beginning, as ``plainchant trace`` prints times. At most ``messages`` messages
    are drawn, and null messages only with ``nulls``.

    >>> from plainchant.trace import TraceBuffer
    >>> trace = TraceBuffer()
    >>> none = (None,) * 5
    >>> trace.history("r0", "a").rows.append(("send", 0, 0, "g", None, "a", 1, *none))
    >>> trace.history("r0", "b").rows.append(("deliver", 5, 1000000, "g", None, "a", 1, *none))
    >>> diagram(trace.table()).startswith("<svg xmlns")
    True
    """
    return str(_Picture(scene(table, group, first, last, messages, nulls)).draw())


class _Picture:
    def __init__(self, shown: Scene) -> None:
        self.scene = shown
        layout = Layout(shown.drawn, left=_LEFT, wide=_WIDE)
        layout.end += self._room_at_the_end(layout)
        self.end, self.knots, self.x_of, self.x = layout.end, layout.knots, layout.x_of, layout.x
        self.tones = {name: place % TONES for place, name in enumerate(shown.lanes)}
        self.high = _ABOVE + 8 + _BAR * max(len(shown.groups), 1)
        top = _TOP + _ROW * len(shown.faults)
        self.y = {name: top + _ABOVE + self.high * place for place, name in enumerate(shown.lanes)}
        self.bottom = top + self.high * len(shown.lanes) + 4
        states = [row for rows in shown.states.values() for row in rows]
        self.views = view_colours(sorted(states, key=lambda row: (row["moment"], row["process"], row["index"])), TONES)
        self.used: set[str] = set()
        """Signs that stand in the picture, for the legend."""
        self.free: dict[tuple[str, int], float] = {}
        """From where on there is room for labels, by lane and level."""
        sheet = "\n".join([SHEET, *(SHEETS[name] for name in shown.sheets)])
        self.picture = Drawing(self.end + _RIGHT, 0, self._title(), sheet=sheet)

    def _title(self) -> str:
        several = "s" * (len(self.scene.groups) > 1)
        groups = f", group{several} {listed(self.scene.groups, most=4)}" if self.scene.groups else ""
        return f"Run {short(self.scene.run, 60)}{groups}, {moment(self.scene.first)} to {moment(self.scene.last)}"

    def _room_at_the_end(self, layout: Layout) -> float:
        """How much further the lines have to go for the members of the last views to be read."""
        views = (row for rows in self.scene.states.values() for row in rows if row["kind"] == "view")
        last = {(row["process"], row["group"]): row for row in views}
        drawn = [row for row in last.values() if (row["process"], row["index"]) in layout.at]
        wanted = (layout.x(row) + width_of(_view_name(row, several=len(self.scene.groups) > 1)) - layout.end for row in drawn)
        return min(max([0.0, *wanted]), _ROOM_MAX)

    def draw(self) -> Drawing:
        self.picture.add("rect", "paper", width="100%", height="100%")
        self.picture.text(8, 18, self._title(), "title")
        self._faults()
        self._lanes()
        self._blocked()
        self._bars()
        self._turns()
        self._arrows()
        for row in self.scene.drawn:
            self._mark(row)
        ticks = ((x, moment(time)) for time, x in self.knots)
        self.picture.axis(_LEFT - 14, self.end, self.bottom, ticks, below=16)
        self.picture.height = self._legend()
        return self.picture

    def _faults(self) -> None:
        for place, row in enumerate(self.scene.faults):
            y = _TOP + _ROW * place + 8
            words = fault_words(row["detail"])
            told = f"{moment(row['moment'])}: {words}"
            x = max(self.x_of(row["moment"]), _LEFT - 14)
            if row["until"] is not None:
                self.picture.box(x, y + 4, self.x_of(row["until"]) - x, self.bottom - y - 4, "band", title=told)
            if row["moment"] >= self.scene.first:
                self.picture.line(x, y + 4, x, self.bottom, "faultline", title=told)
            text = short(f"fault: {words}", 90)
            self.picture.text(min(x, max(self.end - width_of(text), 2)), y, text, "faulttext", title=told)

    def _lanes(self) -> None:
        for name, y in self.y.items():
            self.picture.text(8, y + 4, short(name, 11), "lane", title=name)
            begin = self.scene.begins.get(name, 0)
            start = self.x_of(begin) if begin > self.scene.first else _LEFT - 14
            stop = next((row for row in self.scene.states[name] if row["kind"] == "crash"), None)
            until = self.x(stop) if stop is not None and stop["moment"] >= self.scene.first else self.end
            if stop is not None and stop["moment"] < self.scene.first:
                start = until = _LEFT - 14
            if until > start:
                self.picture.line(start, y, until, y, "life")
            if stop is not None:
                self.picture.line(until, y, self.end, y, "gone", title=f"{name} has stopped")

    def _blocked(self) -> None:
        for blocked in self.scene.blocked:
            name = blocked.start["process"]
            if name not in self.y:
                continue
            x = max(self.x_of(blocked.start["moment"]), _LEFT - 14)
            until = self.end if blocked.until is None else self.x_of(blocked.until)
            length = "" if blocked.until is None else f" for {span(blocked.until - blocked.start['moment'])}"
            why = reason(blocked.start["detail"])
            told = f"{moment(blocked.start['moment'])}: {name} may not send{length}{f': {why}' if why else ''}"
            self.picture.line(x, self.y[name], max(until, x + 2), self.y[name], "blocked", title=told)
            self.used.add("blocked")

    def _bars(self) -> None:
        """A bar from the installation of a view to whatever ends it; the same colour is the same view."""
        for name, y in self.y.items():
            for place, group in enumerate(self.scene.groups):
                rows = [row for row in self.scene.states[name] if row["group"] in (group, None)]
                for row, after in zip_longest(rows, rows[1:]):
                    if row["kind"] == "view":
                        self._bar(row, after if after is not None and after["kind"] != "end" else None, y + 8 + _BAR * place)

    def _bar(self, row: Row, after: Row | None, y: float) -> None:
        if after is not None and after["moment"] < self.scene.first:
            return
        x = self.x(row) if row["moment"] >= self.scene.first else _LEFT - 14
        until = self.x(after) if after is not None else self.end
        several = len(self.scene.groups) > 1
        whole = _view_name(row, several=several)
        told = f"{moment(row['moment'])}: {row['process']} installs {whole}"
        self.picture.box(x, y, until - x, 4, f"v{self.views[view_of(row)]}", title=told, round_by=1)
        self.used.add("view")
        texts = (whole, _view_name(row, several=several, members=False), str(row["view"]))
        if fitting := [text for text in texts if width_of(text) * 0.92 < until - x]:
            self.picture.text(x + 1, y + 13, fitting[0], "viewtext", title=told)

    def _turns(self) -> None:
        """A box around what is sent in a turn, and an arrow for the token that began it."""
        for turn in self.scene.turns:
            y, x = self.y[turn.token["process"]], self.x(turn.first) - 8
            style = "turn" if turn.token["detail"].get("by") != "timeout" else "overdue"
            drawn, wide = "turn" if style == "turn" else "turn overdue", self.x(turn.token) + 8 - x
            self.picture.box(x, y - TURN / 2, wide, TURN, drawn, title=self._told(turn.token), round_by=4)
            self.used.add(style)
            if turn.before is not None and turn.before["process"] != turn.token["process"]:
                told = f"the token passes from {turn.before['process']} to {turn.token['process']}"
                self.picture.arrow(self.x(turn.before), self.y[turn.before["process"]], x + 4, y, "token", title=told, head=6)
                self.used.add("token")

    def _arrows(self) -> None:
        sends = {message_of(row): row for row in self.scene.drawn if row["kind"] == "send"}
        for row in self.scene.drawn:
            send = sends.get(message_of(row)) if row["kind"] == "deliver" else None
            if send is None or send["process"] == row["process"]:
                continue
            told = f"{name_of(row)}: sent at {moment(send['moment'])}, delivered by {row['process']} at {moment(row['moment'])}"
            ends = (self.x(send), self.y[send["process"]], self.x(row), self.y[row["process"]])
            self.picture.arrow(*ends, f"t{self.tones[send['process']]}", title=told, head=6)
            self.used.add("message")

    def _mark(self, row: Row) -> None:
        sign, label, style = self._sign(row)
        x, told = self.x(row), self._told(row)
        tone = self.tones.get(row["sender"])
        SIGNS[sign][0](self.picture, x, self.y[row["process"]], "soft" if tone is None else f"t{tone}", told)
        self.used.add(sign)
        if label:
            self._label(x, row, label, style, told)

    def _sign(self, row: Row) -> tuple[str, str, str]:
        """The sign of a row, and its label with its style."""
        kind, detail = row["kind"], row["detail"]
        particular = self.scene.story.sign(event_of(row))
        if particular is not None:
            return particular
        if kind == "send":
            number = f"{short(row['group'], 8)}/{row['seq']}" if len(self.scene.groups) > 1 else str(row["seq"])
            return "send", number, f"t{self.tones[row['process']]}"
        parts, names, stage = len(parts_in(detail)), self._names(row), detail.get("stage")
        refuted = ("heard" if detail.get("heard") else "refute", f"{names}!", "good")
        formed = ("form", short(stage if isinstance(stage, str) else "proposes" if kind == "confirm" else kind, 14), "formtext")
        signs = {
            "deliver": ("deliver", "", ""),
            "null": ("null", "", ""),
            "crash": ("crash", "halts" if "text" in detail else "crashes", "bad"),
            "view": ("install", f"{parts} parts" if parts > 1 else "", "formtext"),
            "leave": ("leave", "leaves", "soft"),
            "fault": ("untimely", "late", "bad"),
            "suspect": ("suspect", f"{names}?", "bad"),
            "refute": ("late", "too late", "bad") if detail.get("late") else refuted,
            "confirm": ("confirm", f"{names} failed", "bad") if "detection" in detail else formed,
            "remove": ("remove", f"\N{MINUS SIGN}{names}", "bad"),
            "bye": ("bye", f"{names} leaves", "soft"),
        }
        return signs.get(kind, formed)

    def _told(self, row: Row) -> str:
        """What a mark stands for."""
        sentences = []
        for one in (row, *self.scene.also.get((row["process"], row["index"]), ())):
            event, story = event_of(one), self.scene.story
            what = story.caption(event) or _plain(event) or sentence(event, story) or f"{event.process}: {event.kind}"
            why = given(event, story)
            sentences.append(what + (f" ({why})" if why and why not in what else ""))
        group = f" in {row['group']}" if len(self.scene.groups) > 1 and row["group"] is not None and row["seq"] is None else ""
        return f"{moment(row['moment'])}{group}: {'; '.join(sentences)}"

    def _names(self, row: Row) -> str:
        """Whom a mark is about, short."""
        rows = (row, *self.scene.also.get((row["process"], row["index"]), ()))
        names = list(dict.fromkeys(name for one in rows for name in about(event_of(one))))
        more = f" +{len(names) - _NAMED}" if len(names) > _NAMED else ""
        return " ".join(short(name, 10) for name in names[:_NAMED]) + more

    def _label(self, x: float, row: Row, text: str, style: str, told: str) -> None:
        """A label above a mark, at the lowest level that is free; none if all are taken."""
        half = width_of(text) / 2 + 3
        for level, above in enumerate(_LEVELS):
            if x - half >= self.free.get((row["process"], level), 0):
                self.free[row["process"], level] = x + half
                self.picture.text(x, self.y[row["process"]] - above, text, f"label {style}", title=told)
                return

    def _legend(self) -> float:
        """Writes what the signs in the picture mean, and what is left out; returns where it ends."""
        x, y = float(_LEFT - 14), self.bottom + 40.0
        for name, (sign, meaning) in SIGNS.items():
            if name not in self.used:
                continue
            wide = 18 + width_of(meaning) + 22
            if x + wide > self.end + _RIGHT:
                x, y = float(_LEFT - 14), y + _LEGEND
            sign(self.picture, x, y - 4, "t0", "")
            self.picture.text(x + 16, y, meaning, "soft")
            x += wide
        for note in (*self.scene.notes, "Distances are compressed: the times are true."):
            y += _LEGEND
            self.picture.text(_LEFT - 14, y, note, "soft")
        return y + 12


def _view_name(row: Row, *, several: bool, members: bool = True) -> str:
    """A view as it is written under its bar; with its group, where there are several."""
    name = f"{short(row['group'], 8)} view {row['view']}" if several else f"view {row['view']}"
    return f"{name} {braces(row['members'] or ())}" if members else name


def _plain(event: Event) -> str | None:
    """What happened, of kinds that are not about membership."""
    if event.kind in ("crash", "fault"):
        is_crash = event.kind == "crash"
        return crash_words(event.process, event.detail) if is_crash else f"{event.process}: {fault_words(event.detail)}"
    acts = {
        "send": f"sends {event.name}",
        "deliver": f"delivers {event.name}",
        "view": f"installs view {event.view} of {event.group} {braces(event.members)}",
        "leave": f"has left {event.group}",
    }
    return f"{event.process} {acts[event.kind]}" if event.kind in acts else None
