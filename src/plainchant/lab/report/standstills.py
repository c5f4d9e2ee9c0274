"""The longest standstill of each member, and what it waited for: a table.

``lab.standstills`` defines what a standstill is, ``lab.explain.standstill`` what a member waited for. A run that is too
large to be searched here has a sentence instead of the table.
"""

from __future__ import annotations

from typing import Final

from ...core.words import moment
from ..explain.explainer import Explainer
from ..standstills import standstills
from . import html, words
from .source import Subject
from .words import duration

_ROWS_MAX: Final = 20
_LEAD: Final = (
    "The longest time in which each member delivered nothing although a message waited for it: one that was sent, or one that it "
    "had handed in itself. `plainchant explain --standstill --process NAME` tells it step by step."
)
_TOO_LARGE: Final = (
    "This run is too large to search for standstills while the report is made. `plainchant explain --standstill` reads runs of "
    "any size; the metric `standstill_max_ns` has the longest one."
)


def standing_still(subject: Subject, run: str | None) -> str:
    """The section about a run's standstills; nothing if no message ever waited."""
    if subject.rows is None or run is None:
        return ""
    whole = subject.rows.whole(run)
    if whole is None:
        return f"<h2>Standstills</h2>{html.paragraph(_TOO_LARGE, 'lead')}"
    found = [each for each in standstills(whole) if each.length > 0]
    if not found:
        return ""
    origin = subject.rows.origins.get(run, 0)
    explainer = Explainer(whole, stood_still=found)
    rows = []
    for each in found[:_ROWS_MAX]:
        ended = duration(each.length) if each.ended_by is not None else f"{duration(each.length)}, to its end"
        told = (each.process, each.group, ended, moment(each.since - origin), each.sender, explainer.waited_for(each))
        rows.append(("", [html.text(text, words.NAME_MAX) if place < 2 else html.text(text) for place, text in enumerate(told)]))
    headings = ("member", "group", "for", "from", "message of", "what it waited for")
    caption = f"Members by their longest standstill.{words.showing(_ROWS_MAX, len(found))}"
    table = html.table(headings, rows, caption, right=range(2, 4))
    return f"<h2>Standstills</h2>{html.paragraph(_LEAD, 'lead')}{table}"
