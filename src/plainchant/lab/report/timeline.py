"""A run from beginning to end: messages a second above, a lane a process below with its views, crashes and suspicions,
and the faults as bands through all of it. Unlike in a space-time diagram, time is true to scale."""

from __future__ import annotations

from itertools import accumulate, groupby
from typing import Final

from ...core.model import SECOND
from ...core.words import moment, natural, short
from ..draw.layout import View, view_colours, view_of
from ..draw.svg import Drawing, steps_between, width_of
from . import words
from .charts import compact, even_axis
from .overview import BINS, LANES_MAX, RunInBins, each_once
from .words import Row, duration

_GROUPS_MAX: Final = 6
"""So many of its groups a process's lane shows."""
_FAULTS_MAX: Final = 200
_LABELLED: Final = 6
_WIDTH: Final = 1_080
_LEFT: Final = 92
_RIGHT: Final = 16
_FLOW: Final = 96
_BAR: Final = 16
_ROW: Final = 16
_TONES: Final = 6


def timeline(run: RunInBins, title: str) -> str:
    """The picture of a run, as SVG."""
    return str(_Picture(run, title).draw())


def left_out(run: RunInBins) -> list[str]:
    """What the picture does not show, in sentences."""
    told = []
    if len(run.processes) > LANES_MAX:
        told.append(f"{LANES_MAX} of {len(run.processes):,} processes have a lane here")
    if run.sparse_left_out:
        told.append(f"the last {run.sparse_left_out:,} of the run's views, crashes and suspicions are left out")
    most = max(map(len, _groups(run).values()), default=0)
    if most > _GROUPS_MAX:
        told.append(f"a lane shows the views of {_GROUPS_MAX} groups at most; a process is in up to {most:,}")
    if len(faults := each_once(run.faults)) > _FAULTS_MAX:
        told.append(f"{_FAULTS_MAX} of {len(faults):,} faults are drawn")
    return told


def _groups(run: RunInBins) -> dict[str, list[str]]:
    """The groups of which a process installed views, by process."""
    found: dict[str, set[str]] = {name: set() for name in run.lanes}
    for row in run.sparse:
        if row["kind"] == "view":
            found[row["process"]].add(str(row["group"]))
    return {name: sorted(groups, key=natural) for name, groups in found.items()}


class _Picture:
    def __init__(self, run: RunInBins, title: str) -> None:
        self.run = run
        self.faults = each_once(run.faults)[:_FAULTS_MAX]
        self.labelled = len(self.faults) <= _LABELLED
        self.flow_top = 22 + (_ROW * len(self.faults) if self.labelled else _ROW if self.faults else 0)
        self.top = self.flow_top + _FLOW + 22
        self.groups = {name: groups[:_GROUPS_MAX] for name, groups in _groups(run).items()}
        self.one_group = len({group for groups in self.groups.values() for group in groups}) <= 1
        self.bar = _BAR if self.one_group else _BAR - 3
        heights = {name: 8 + self.bar * max(len(groups), 1) for name, groups in self.groups.items()}
        ends = list(accumulate(heights.values(), initial=self.top))
        self.y = dict(zip(heights, ends, strict=False))
        self.middle = {name: self.y[name] + height / 2 for name, height in heights.items()}
        self.bottom = ends[-1]
        self.picture = Drawing(_WIDTH, self.bottom + 30, title)

    def x(self, time: int) -> float:
        span = max(self.run.last - self.run.first, 1)
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max((time - self.run.first) / span, 0), 1)

    def draw(self) -> Drawing:
        self._bands()
        self._flow()
        self._views()
        self._faults()
        self._marks()
        steps = steps_between(0, max(self.run.last - self.run.first, 1), 8)
        ticks = ((self.x(self.run.first + round(value)), duration(value)) for value in steps)
        even_axis(self.picture, _LEFT, _WIDTH - _RIGHT, self.bottom + 4, ticks)
        return self.picture

    def _bands(self) -> None:
        """Behind everything: how long a fault lasts that says so."""
        for row in self.faults:
            length = words.fault_length(row["detail"])
            if length:
                x, until = self.x(row["moment"]), self.x(row["moment"] + length)
                told = f"{moment(row['moment'])}: {words.fault(row['detail'])}"
                self.picture.box(x, self.flow_top, max(until - x, 1), self.bottom - self.flow_top, "band", title=told)

    def _faults(self) -> None:
        for number, row in enumerate(self.faults):
            x = self.x(row["moment"])
            told = f"{moment(row['moment'])}: {words.fault(row['detail'])}"
            y = 12 + _ROW * number if self.labelled else 12
            self.picture.line(x, y + 4, x, self.bottom, "faultline", title=told)
            if self.labelled:
                words.label_fault(self.picture, row["detail"], x, y, told)
        free = -1.0
        for row in self.faults if not self.labelled else ():  # where they are many, a word each, as far as there is room
            x, word = self.x(row["moment"]), words.fault_word(row["detail"])
            if x - 4 > free:
                self.picture.text(x - 4, 12, word, "faulttext", title=words.fault(row["detail"]))
                free = x + width_of(word) + 4

    def _flow(self) -> None:
        """Deliveries and sends a second, bin by bin."""
        seconds = max(self.run.last - self.run.first, 1) / SECOND / BINS
        floor = self.flow_top + _FLOW
        rates = [(self.run.deliveries / seconds, "delivered"), (self.run.sends / seconds, "sent")]
        most = max(float(rate.max()) for rate, _ in rates) or 1.0
        self.picture.text(8, self.flow_top + 10, "messages/s", "small")
        self.picture.text(8, self.flow_top + 30, "▬ delivered", "small flowtext")
        self.picture.text(8, self.flow_top + 46, "▬ sent", "small flowtext two")
        for value in steps_between(0, most, 3)[1:]:
            y = floor - _FLOW * value / most
            self.picture.line(_LEFT, y, _WIDTH - _RIGHT, y, "grid")
            self.picture.text(_WIDTH - _RIGHT - 2, y - 3, compact(value), "tick end")
        wide = (_WIDTH - _LEFT - _RIGHT) / BINS
        for rate, name in rates:
            points: list[tuple[float, float]] = [(_LEFT, floor)]
            for number, value in enumerate(rate.tolist()):
                y = floor - _FLOW * value / most
                points += [(_LEFT + wide * number, y), (_LEFT + wide * (number + 1), y)]
            points.append((_WIDTH - _RIGHT, floor))
            self.picture.shape(points, f"flow {'two' if name == 'sent' else ''}".strip())
        self.picture.line(_LEFT, floor, _WIDTH - _RIGHT, floor, "axis")

    def _views(self) -> None:
        colours = view_colours(self.run.sparse, _TONES)
        mine = sorted(self.run.sparse, key=lambda row: (row["process"], row["index"]))
        for name, rows in groupby(mine, key=lambda row: row["process"]):
            told = list(rows)
            for number, group in enumerate(self.groups[name]):
                here = [row for row in told if row["kind"] in ("crash", "end") or str(row["group"]) == group]
                changes = [row for row in here if row["kind"] in ("view", "leave", "crash", "end")]
                self._bars(changes, self.y[name] + 4 + self.bar * number, colours)
        for name, y in self.middle.items():
            sent, delivered = self.run.processes[name]
            self.picture.text(8, y + 4, short(name, 12), "lane", title=f"{name}: {sent:,} sent, {delivered:,} delivered")

    def _bars(self, rows: list[Row], y: float, colours: dict[View, int]) -> None:
        for place, row in enumerate(rows):
            if row["kind"] != "view":
                continue
            x = self.x(row["moment"])
            until = self.x(rows[place + 1]["moment"]) if place + 1 < len(rows) else self.x(self.run.last)
            told = f"{moment(row['moment'])}: {words.event(row)}"
            self.picture.box(x, y, until - x, self.bar - 1, f"view v{colours[view_of(row)]}", title=told, round_by=2)
            group = f"{short(row['group'], 8)} " if not self.one_group else ""
            view = f"{group}view {row['view']}"
            whole = f"{view}: {words.listed(row['members'] or ())}"
            if fitting := [text for text in (whole, view) if width_of(text) < until - x - 6]:
                self.picture.text(x + 4, y + self.bar / 2 + 3.5, fitting[0], "bartext")

    def _marks(self) -> None:
        for row in self.run.sparse:
            x, y = self.x(row["moment"]), self._beside(row)
            told = f"{moment(row['moment'])}: {words.event(row)}"
            if row["kind"] == "crash":
                self.picture.cross(x, y, 6, title=told)
            elif row["kind"] == "suspect":
                self.picture.shape([(x, y - 5), (x + 5, y), (x, y + 5), (x - 5, y)], "suspect", title=told)
            elif row["kind"] == "leave":
                self.picture.box(x - 4, y - 4, 8, 8, "left", title=told)

    def _beside(self, row: Row) -> float:
        """The middle of the bar of the row's group, or of the lane where there is none."""
        groups = self.groups[row["process"]]
        if row["group"] not in groups:
            return self.middle[row["process"]]
        return self.y[row["process"]] + 4 + self.bar * (groups.index(row["group"]) + 0.5)
