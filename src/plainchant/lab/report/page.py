"""The page: what was verified, what was found, what happened, in this order, within a budget of bytes.

Everything but the violations is bounded by what is drawn (lanes, bins, rows); violations are added as long as there is room.
What was left out is said where it would have stood. The same input gives the same bytes: nothing here knows the time of day.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Final

from ... import __version__
from ..properties import PROPERTIES
from . import html, sections, words
from .choose import prepare
from .overview import Overview, overview
from .realtime import real_time
from .recovery import recovery
from .source import Subject
from .standstills import standing_still
from .stories import LEGEND, violation_story
from .style import STYLE

SIZE_MAX: Final = 5_000_000
"""Bytes of a page, whatever the size of the trace."""
_BUDGET: Final = 4_600_000
"""When so many bytes are written, no further violation is."""
_WARNINGS: Final = 10


def page(subject: Subject, *, progress: Callable[[str], None] = lambda doing: None) -> str:
    """The report as one HTML file without a script, which loads nothing; ``progress`` is told what is being done."""
    progress("reading the trace")
    seen = overview(subject.rows) if subject.rows is not None else Overview()
    body = [_opening(subject, seen), _properties(subject)]
    if subject.runs is not None:
        body.append(sections.runs_of_sweep(subject))
    progress("drawing the run over time")
    body.append(sections.over_time(subject, seen))
    progress("looking at what failures did")
    run = sections.chosen_run(subject, seen)
    body += [recovery(subject, seen, run), standing_still(subject, run), real_time(subject, run)]
    command = html.text(f"plainchant report {shlex.quote(subject.path)}", 300)
    footer = f"<footer>Made by plainchant {html.text(__version__)} with <code>{command}</code>.</footer>"
    after = [sections.distributions(subject, seen), _terms(), footer]
    if subject.violations:
        room = _BUDGET - sum(len(part.encode()) for part in (*body, *after, STYLE))
        body.append(_violations(subject, room, progress))
    else:
        body.append(sections.example(subject, seen))
    title = f"{subject.name}: report of plainchant"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.text(title, 200)}</title><style>{STYLE}</style></head>\n"
        f"<body><main>\n{chr(10).join(part for part in (*body, *after) if part)}\n</main></body></html>\n"
    )


def _opening(subject: Subject, seen: Overview) -> str:
    kind = {"run": "Report of a run", "sweep": "Report of a sweep", "trace": "Report of a trace"}[subject.kind]
    parts = [f"<header><p class='note'>{kind}</p><h1>{html.text(subject.name, 200)}</h1>"]
    if subject.about:
        parts.append(html.paragraph(subject.about, "lead"))
    parts.append(_verdict(subject))
    parts += [f'<p class="warning">{html.text(warning, 400)}</p>' for warning in subject.warnings[:_WARNINGS]]
    if len(subject.warnings) > _WARNINGS:
        parts.append(html.paragraph(f"Showing {_WARNINGS} of {len(subject.warnings):,} notes.", "note"))
    facts = list(subject.facts)
    if subject.rows is not None and subject.kind != "sweep":
        facts += [("runs", f"{len(seen.runs):,}")] if len(seen.runs) != 1 else []
        facts += [("messages sent", f"{sum(each.sends for each in seen.runs.values()):,}")]
        facts += [("delivered", f"{sum(each.deliveries for each in seen.runs.values()):,}"), ("events", f"{seen.events:,}")]
    return "".join([*parts, html.facts(facts), "</header>"])


def _verdict(subject: Subject) -> str:
    verdicts = [outcome.verdict for outcome in subject.outcomes.values()]
    violated, held = verdicts.count("violated"), verdicts.count("holds")
    unknown = verdicts.count("unknown")
    empty = len(verdicts) - violated - held - unknown
    nothing = (
        f" {words.count(unknown, 'property is', 'properties are')} not decided: only a part was searched." if unknown else ""
    )
    nothing += f" {words.count(empty, 'property', 'properties')} had nothing to check." if empty else ""
    if violated:
        style = "violated"
        head = f"{words.count(violated, 'property is', 'properties are')} violated, "
        is_partial = any(outcome.in_part for outcome in subject.outcomes.values())
        head += f"{'at least ' if is_partial else ''}{words.count(subject.count, 'violation')} in all"
        text = (f"{words.count(held, 'property holds', 'properties hold')}." if held else "") + nothing
        if subject.expects_violation:
            text += " This scenario is meant to show a violation, and it does."
        text += " What went wrong is told and drawn below."
    elif unknown:
        style, head = "nothing", f"{words.count(unknown, 'property is', 'properties are')} not decided, none is violated"
        text = "Only a part of a large run was searched for them: plainchant verify says how to search all of it."
    elif held:
        style = "holds"
        head = f"{words.count(held, 'property holds', 'properties hold')}, none is violated"
        text = f"Each of them was looked for in every case that the trace has.{nothing}"
        if subject.expects_violation:
            text += " This scenario is meant to show a violation; none was found."
    else:
        style, head = "nothing", "There was nothing to check"
        text = "No property had a case in what was recorded: that is not the same as holding."
    return f'<div class="verdict {style}"><strong>{html.text(head)}.</strong>{html.paragraph(text.strip())}</div>'


def _properties(subject: Subject) -> str:
    if not subject.outcomes:
        return ""
    rows = []
    for name, outcome in subject.outcomes.items():
        meaning = html.text(PROPERTIES.get(name, "not known to this version"))
        numbers = [f"{number:,}" for number in (outcome.runs, outcome.events, outcome.cases, outcome.violations)]
        numbers[2:] = [f"at least {number}" if outcome.in_part else number for number in numbers[2:]]
        rows.append(("", (html.text(name, 60), html.chip(outcome.verdict), meaning, *numbers)))
    headings = ("property", "verdict", "what it says", "runs", "events", "cases", "violations")
    caption = (
        "A case is one thing that could have gone wrong and was looked at, such as one delivery or one pair of processes. "
        "A property without a case has not been shown to hold."
    )
    return f"<h2>Properties</h2>{html.table(headings, rows, caption, right=(3, 4, 5, 6), style='properties')}"


def _violations(subject: Subject, room: int, progress: Callable[[str], None]) -> str:
    if subject.rows is not None:
        progress("reading the rows around the violations")
        prepare(subject.rows, subject.violations)
    told: list[str] = []
    shown: set[str] = set()
    for number, violation in enumerate(subject.violations, 1):
        progress(f"drawing violation {number} of {len(subject.violations)}")
        story = violation_story(subject, violation, number, is_open=violation.property not in shown)
        shown.add(violation.property)
        room -= len(story.encode())
        if room < 0 and told:
            break
        told.append(story)
    head = "<h2>Violations</h2>"
    if len(told) < subject.count:
        text = f"Showing {len(told):,} of {subject.count:,} violations, the smallest and earliest of each property first"
        head += html.paragraph(f"{text}; {subject.where_all}.", "lead")
    return head + LEGEND + "".join(told)


def _terms() -> str:
    terms = (
        ("process", "one running member; a restarted one is a new process: p3, then p3#1"),
        ("group", "processes that exchange messages; what one of them sends in it, all of them are to deliver"),
        ("message", "what the application sends, named group/sender/number: g/p1/7 is the seventh of p1 in g"),
        ("deliver", "to hand a message to the application: the moment that counts"),
        ("view", "who is in the group, as a process sees it; it changes when somebody joins, leaves or is taken for dead"),
        ("fault", "what was done to the run on purpose: a crash, lost or slow packets, a partition"),
        ("property", "a sentence that every correct run fulfils; a violation is a place where it does not"),
        ("event", "one row of the trace: a process and an index name it"),
    )
    told = "".join(f"<dt>{html.text(term)}</dt><dd>{html.text(meaning)}</dd>" for term, meaning in terms)
    return f'<h2>Words on this page</h2><dl class="terms">{told}</dl>'
