"""A violation, or a message's life, as a piece of the page: sentence, picture, steps with their reasons, rows, command."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from ...core.model import PlainchantError, UsageError
from ...core.words import moment, short
from ..draw.layout import Message
from ..explain.explainer import Explainer
from ..explain.reading import explainer_of
from ..properties import PROPERTIES, Violation
from ..show import about, name_of
from . import html, words
from .choose import Scene, scene_of_message, scene_of_violation
from .source import Rows, Subject
from .spacetime import spacetime
from .words import Row

LEGEND: Final = (
    '<div class="legend" aria-hidden="true">'
    '<span><svg width="14" height="12"><circle class="send m1" cx="7" cy="6" r="4.5"/></svg>send</span>'
    '<span><svg width="14" height="12"><polygon class="deliver m1" points="2,1 12,1 7,11"/></svg>delivery</span>'
    '<span><svg width="30" height="12"><line class="arrow m1 stroke" x1="1" y1="6" x2="22" y2="6"/>'
    '<polygon class="arrow m1 fill" points="28,6 21,3 21,9"/></svg>a message, from its send to its delivery</span>'
    '<span><svg width="30" height="12"><rect class="view v0" x="1" y="4" width="28" height="4"/></svg>'
    "a view in force (same colour: same view)</span>"
    '<span><svg width="14" height="14"><line class="crash" x1="2" y1="2" x2="12" y2="12"/>'
    '<line class="crash" x1="2" y1="12" x2="12" y2="2"/></svg>the process stops</span>'
    '<span><svg width="14" height="14"><polygon class="suspect" points="7,1 13,7 7,13 1,7"/></svg>a suspicion</span>'
    '<span><svg width="14" height="14"><line class="faultline" x1="7" y1="0" x2="7" y2="14"/></svg>an injected fault</span>'
    '<span><svg width="14" height="12"><rect class="note other" x="3" y="2" width="7" height="7"/></svg>another event</span>'
    "</div>"
)


def violation_story(subject: Subject, violation: Violation, number: int, *, is_open: bool) -> str:
    """One violation: unfolded, or folded away behind its sentence."""
    name, sentence = html.text(violation.property, 60), html.text(_ended(violation.sentence))
    inside = _inside(subject, violation, explain_large=is_open)
    if not is_open:
        in_run = f' <span class="note">(run {html.text(violation.run, 200)})</span>' if subject.kind != "run" else ""
        folded = f"<details><summary><b>{number}. {name}</b> {sentence}{in_run}</summary>{inside}</details>"
        return f'<article id="violation-{number}">{folded}</article>'
    head = f"<h3>{number}. {name} {html.chip('violated')}</h3>"
    if violation.property in PROPERTIES:
        head += html.paragraph(f"The property: {PROPERTIES[violation.property]}.", "note")
    return f'<article id="violation-{number}">{head}<p class="sentence">{sentence}</p>{inside}</article>'


def _inside(subject: Subject, violation: Violation, *, explain_large: bool) -> str:
    parts = [html.paragraph(f"In run {short(violation.run, 200)}.", "note")]
    scene = scene_of_violation(subject.rows, violation) if subject.rows is not None else None
    if subject.rows is None or scene is None or not scene.drawn:
        parts.append(html.paragraph("The trace of this run was not kept: run it again to see what happened.", "note"))
    else:
        explainer = _explainer(subject.rows, violation.run, violation.messages if explain_large else ())
        title = f"Space-time diagram of the violation: {violation.sentence}"
        parts.append(_picture(scene, title, "The numbered events are the ones that break the property."))
        parts.append(_steps(scene, explainer))
        if explainer is None:
            parts.append(html.paragraph("The run is large: the reasons of these steps are told by `plainchant explain`.", "note"))
        parts += [_what_became(explainer, message) for message in scene.messages]
        parts.append(_rows(scene))
    parts.append(_commands(subject, violation))
    return "".join(parts)


def message_story(rows: Rows, run: str, message: Message, why_this: str) -> str:
    """The life of one message, told as an example."""
    scene = scene_of_message(rows, run, message)
    title = f"Space-time diagram of the message {'/'.join(map(str, message))}"
    parts = [html.paragraph(why_this, "lead"), LEGEND, _picture(scene, title, "")]
    explainer = _explainer(rows, run, [message])
    if explainer is not None:
        story = explainer.message(message)
        told = [(step.when - explainer.origin, "", _ended(step.what), step.because) for step in story.steps[:24]]
        parts.append(_list(told))
        if left_out := words.showing(len(told), len(story.steps), " steps"):
            parts.append(html.paragraph(left_out.lstrip(), "note"))
        parts.append(f'<p class="conclusion">{html.text(_ended(story.conclusion))}</p>')
    return "".join(parts)


def _explainer(rows: Rows, run: str, messages: Sequence[Message]) -> Explainer | None:
    """Who knows the reasons; of a run too large to be read whole, those that concern the first of these messages."""
    whole = rows.whole(run)
    if whole is not None:
        return Explainer(whole)
    with contextlib.suppress(PlainchantError, pa.ArrowException):  # the picture and the rows are shown without reasons
        return explainer_of(rows.path, run, message=messages[0]).explainer if messages else None
    return None


def _picture(scene: Scene, title: str, more: str) -> str:
    told = f"{more} Time runs to the right; distances are compressed, the axis has the true times. Point at a mark to read it."
    told += words.showing(len(scene.lanes), len(scene.lanes) + scene.lanes_left_out, " processes involved")
    told += words.showing(len(scene.messages), len(scene.messages) + scene.messages_left_out, " messages involved")
    if scene.drawn_left_out:
        told += f" {words.count(scene.drawn_left_out, 'event')} further away or of the same kind are left out."
    return html.figure(spacetime(scene, short(title, 300)), html.text(told.lstrip()))


def _steps(scene: Scene, explainer: Explainer | None) -> str:
    told = []
    for row in scene.steps:
        number = scene.marks.get((row["process"], row["index"]))
        because = explainer.because(row["process"], row["index"]) if explainer is not None else None
        told.append((row["moment"], str(number) if number is not None else "", _ended(words.event(row)), because))
    last = max((row["moment"] for row in scene.drawn), default=0)
    for message, process in scene.never:
        name = "/".join(str(part) for part in message)
        told.append((last, "", f"{process} has not delivered {name}, and never does.", None))
    return "<h4>Step by step</h4>" + _list(told)


def _list(steps: Iterable[tuple[int, str, str, str | None]]) -> str:
    parts = []
    for when, number, sentence, because in steps:
        dot = f'<span class="dot">{number}</span>' if number else ""
        why = f'<span class="because"><i>because</i> {html.text(because, 500)}</span>' if because else ""
        place = f'<span class="when">{moment(when)}</span><span class="which">{dot}</span>'
        parts.append(f"<li>{place}<span>{html.text(sentence, 500)}{why}</span></li>")
    return f'<ol class="steps">{"".join(parts)}</ol>'


def _what_became(explainer: Explainer | None, message: Message) -> str:
    """The conclusion of a message's story, where it can be told."""
    if explainer is not None:
        with contextlib.suppress(UsageError):  # nothing in the trace is about a forged one, which the violation itself says
            conclusion = html.text(_ended(explainer.message(message).conclusion), 600)
            name = html.text("/".join(map(str, message)), 80)
            return f'<p class="conclusion"><b>What became of {name}:</b> {conclusion}</p>'
    return ""


def _rows(scene: Scene) -> str:
    def cells(row: Row) -> Sequence[str]:
        where = f"{row['group'] or ''}" + (f" view {row['view']}" if row["view"] is not None else "")
        what = (row["kind"], where, name_of(row), about(row, row["story"]))
        return [html.text(cell, 160) for cell in (row["process"], f"{row['index']:,}", moment(row["moment"]), *what)]

    marked = [("marked" if (row["process"], row["index"]) in scene.marks else "", cells(row)) for row in scene.around]
    caption = "Rows of the trace around the events named, history by history; the named ones are coloured."
    caption += words.showing(len(scene.around), len(scene.around) + scene.around_left_out, " rows")
    headings = ("process", "index", "time", "kind", "group", "message", "more")
    return html.fold("The rows around it", html.table(headings, marked, caption, right=(1, 2), style="rows"), is_open=True)


def _commands(subject: Subject, violation: Violation) -> str:
    replay = subject.replay(violation.run)
    told = html.paragraph("No command runs this again: nothing beside the trace says how it was made.", "note")
    told = told if replay is None else f"<h4>Run it again</h4>{html.command(replay)}"
    if violation.messages and subject.rows is not None:
        name = "/".join(str(part) for part in violation.messages[0])
        words_ = ["plainchant", "explain", subject.path, "--run", violation.run, "--message", name]
        told += f'<p class="note">The whole life of the message:</p>{html.command(shlex.join(words_))}'
    return told


def _ended(sentence: str) -> str:
    """With one full stop. The first letter stays as it is: it may be that of a process's name."""
    return sentence.rstrip().removesuffix(".") + "."
