"""Throughput around each failure: a table with a row for each, and pictures of what the survivors delivered meanwhile.

``lab.metrics.recovery`` defines the figures. Time in a picture is true to scale and counts from the failure; deliveries are drawn
in bins shorter than the window of the rates. Messages that waited are delivered at once when a group comes back, at many times
the usual rate: the scale ends at twice the rate before, and the picture states what is beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from ...core.model import SECOND
from ...core.words import moment, short
from ..draw.svg import Drawing, steps_between, width_of
from ..metrics.recovery import BACK, COLUMNS, KINDS, KINDS_BUT_DELIVERIES, Recovery, recoveries
from . import html, words
from .charts import compact, even_axis
from .overview import Overview
from .source import Rows, Subject
from .words import duration

DELIVERIES_MAX: Final = 2_000_000
"""So many deliveries of a run are read for this."""
_ROWS_MAX: Final = 30
_PICTURES_MAX: Final = 6
_BINS: Final = 180
_WIDTH: Final = 1_080
_LEFT: Final = 92
_RIGHT: Final = 16
_TALL: Final = 110
_ROW: Final = 15
_HIGH: Final = 2.0
"""The scale ends at so many times the rate before."""


def recovery(subject: Subject, seen: Overview, run: str | None) -> str:
    """The section about a run's failures; nothing if it has none that somebody survived."""
    if run is None or subject.rows is None:
        return ""
    found = _found(subject.rows, run, seen)
    if not found:
        return ""
    origin = subject.rows.origins.get(run, 0)
    of_one_group = len({each.group for each in found}) == 1
    parts = ["<h2>Throughput around failures</h2>", html.paragraph(_LEAD, "lead"), _table(found, origin, of_one_group)]
    drawn = [each for each in found if each.before is not None]
    for each in drawn[:_PICTURES_MAX]:
        first, last = seen.runs[run].first, seen.runs[run].last
        others = [other for other in found if other.group == each.group and other is not each]
        parts.append(html.figure(picture(each, others, first, last), _caption(each, of_one_group)))
    if len(drawn) > _PICTURES_MAX:
        parts.append(html.paragraph(f"Showing {_PICTURES_MAX} of {len(drawn):,} failures in pictures.", "note"))
    return "".join(parts)


_LEAD: Final = (
    "What those who survived a failure delivered of each other's messages. Times count from the failure: to the first suspicion "
    "or view without the failed one, to the last survivor's view without it, and until deliveries were back at 90 % of before. "
    "The lowest rate is a share of the usual one, and stands beside the lowest that there was before the failure. "
    "A message is late if it took more than twice as long as 99 % of those before."
)


def _found(rows: Rows, run: str, seen: Overview) -> list[Recovery]:
    whole = rows.whole(run)
    if whole is not None:
        return recoveries([whole])
    too_many = seen.runs[run].deliveries > DELIVERIES_MAX
    where = (ds.field("run") == run) & ds.field("kind").isin(pa.array(KINDS_BUT_DELIVERIES if too_many else KINDS))
    return recoveries(rows.stream(COLUMNS, where), deliveries_left_out=too_many)


def _table(found: Sequence[Recovery], origin: int, of_one_group: bool) -> str:
    rows = []
    for each in found[:_ROWS_MAX]:
        back = duration(each.back) if each.back else "never below"
        lowest = each.deepest is not None and each.lowest_before is not None
        told = [
            *([] if of_one_group else [html.text(each.group, words.NAME_MAX)]),
            moment(each.at - origin),
            "not noticed" if each.noticed is None else duration(each.noticed),
            "not by all" if each.viewed is None else duration(each.viewed),
            each.remark if each.back is None else back,
            f"{each.deepest:.0%} ({each.lowest_before:.0%})" if lowest else "",
            "" if each.standstill is None else duration(each.standstill),
            _late(each),
        ]
        rows.append(("", [_failure(each), *map(html.text, told)]))
    group = [] if of_one_group else ["group"]
    times = ("at", "noticed after", "new view after", "back at 90 % after")
    headings = ("failure", *group, *times, "lowest rate (before)", "longest standstill", "late messages")
    caption = f"Every failure that somebody survived.{words.showing(_ROWS_MAX, len(found))}"
    return html.table(headings, rows, caption, right=range(1 + len(group), len(headings)))


def _failure(each: Recovery) -> str:
    verb = {"crash": "crashes", "pause": "is stopped"}[each.how]
    return html.text(f"{short(each.process, words.NAME_MAX)} {verb}")


def _late(each: Recovery) -> str:
    if each.late is None:
        return "" if each.remark else "not recorded"
    slowest = f", slowest {duration(each.slowest)}" if each.slowest is not None else ""
    return f"{each.late:,}{slowest}"


def _caption(each: Recovery, of_one_group: bool) -> str:
    """What the picture shows, as HTML."""
    assert each.before is not None
    assert each.window is not None
    assert each.lowest_before is not None
    where = "" if of_one_group else f" in {short(each.group, words.NAME_MAX)}"
    head = f"<b>Deliveries{html.text(where)} when {_failure(each)}.</b>"
    before = f"Before, a survivor ({words.listed(each.survivors)}) delivered {each.before:,.0f} messages/s of the survivors"
    ordinary = f"over {duration(each.window)}, as rates are taken here, never less than {each.lowest_before:.0%} of that"
    return f"{head} {html.text(f'{before}; {ordinary}.')}"


def picture(each: Recovery, others: Sequence[Recovery], first: int, last: int) -> str:
    """Messages a second at a survivor around a failure, as SVG; ``first`` and ``last`` are the ends of the run."""
    return str(_Picture(each, others, first, last).draw())


class _Picture:
    def __init__(self, each: Recovery, others: Sequence[Recovery], first: int, last: int) -> None:
        assert each.before is not None
        assert each.window is not None
        self.each = each
        self.before = each.before
        lengths = (each.noticed, each.viewed, each.back)
        over = max(each.window, *(length for length in lengths if length is not None), each.standstill or 0)
        margin = max(over // 3, 4 * each.window)
        self.begin = max(each.at - margin, first)
        self.end = max(min(each.at + over + margin, last), self.begin + 1)
        self.marks = self._marks(others)
        self.top = 8 + _ROW * len(self.marks)
        self.floor = self.top + _TALL
        self.most = self.before * _HIGH
        end = f", back at 90 % after {duration(each.back)}" if each.back else ""
        deepest = f": the lowest rate is {each.deepest:.0%} of before{end}" if each.deepest is not None else ""
        title = f"Messages a second while {short(each.process, words.NAME_MAX)} fails{deepest}"
        self.drawing = Drawing(_WIDTH, self.floor + 30, title)

    def _marks(self, others: Sequence[Recovery]) -> list[tuple[int, str, str]]:
        """When, how drawn, and what it is: each on a line of its own, the later the lower, so that no line crosses a text."""
        each = self.each
        near = [other for other in others if self.begin <= other.at <= self.end][:_PICTURES_MAX]
        told = [(failed.at, "crash thin", f"✕ {short(failed.process, words.NAME_MAX)} fails") for failed in (each, *near)]
        steps = ((each.noticed, "◇ noticed"), (each.viewed, "▬ view without it everywhere"), (each.back, "▲ back at 90 %"))
        for length, text in steps:
            if length:
                told.append((each.at + length, "mark", f"{text}, after {duration(length)}"))
        return sorted(told)

    def x(self, time: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (time - self.begin) / (self.end - self.begin)

    def y(self, rate: float) -> float:
        return self.floor - _TALL * min(rate, self.most) / self.most

    def draw(self) -> Drawing:
        self._flow()
        self._levels()
        for number, (time, style, text) in enumerate(self.marks):
            x, y = self.x(time), 12 + _ROW * number
            self.drawing.line(x, y + 3, x, self.floor, style, title=text)
            beyond = x + width_of(text) > _WIDTH - 4
            self.drawing.text(x - width_of(text) if beyond else x - 4, y, text, "small")
        steps = steps_between(self.begin - self.each.at, self.end - self.each.at, 8)
        ticks = ((self.x(self.each.at + value), duration(round(value))) for value in steps)
        even_axis(self.drawing, _LEFT, _WIDTH - _RIGHT, self.floor, ticks)
        return self.drawing

    def _flow(self) -> None:
        """Deliveries a second and survivor, bin by bin, with an edge at the failure."""
        window = self.each.window or 1
        width = max((self.end - self.begin) // _BINS, window // 10, 1)
        before = -(-(self.each.at - self.begin) // width)
        edges = self.each.at + width * np.arange(-before, (self.end - self.each.at) // width + 1)
        edges = np.unique(np.clip(edges, self.begin, self.end))
        rates = np.diff(np.searchsorted(self.each.deliveries, edges)) / (np.diff(edges) / SECOND) / len(self.each.survivors)
        points = [(self.x(self.begin), float(self.floor))]
        for left, right, rate in zip(edges[:-1].tolist(), edges[1:].tolist(), rates.tolist(), strict=True):
            points += [(self.x(left), self.y(rate)), (self.x(right), self.y(rate))]
        points.append((points[-1][0], float(self.floor)))
        self.drawing.shape(points, "flow")
        highest = int(rates.argmax()) if len(rates) else 0
        if len(rates) and rates[highest] > self.most:
            x = self.x(edges[highest + 1])
            text = f"up to {compact(rates[highest])}/s"
            fits = x + 6 + width_of(text) < _WIDTH
            self.drawing.text(x + 6 if fits else x - 6 - width_of(text), self.top + 10, text, "small flowtext")

    def _levels(self) -> None:
        self.drawing.text(8, self.top + 10, "messages/s", "small")
        self.drawing.text(8, self.top + 26, "at a survivor", "small")
        for share, text in ((1.0, "before"), (BACK, f"{BACK:.0%}")):
            y = self.y(self.before * share)
            self.drawing.line(_LEFT, y, _WIDTH - _RIGHT, y, "quantile", title=f"{text}: {self.before * share:,.0f} messages/s")
            self.drawing.text(_LEFT - 6, y + (-2 if share == 1 else 10), f"{text} {compact(self.before * share)}", "tick right")
