"""Hand-written traces of work queues and of questions to the group, in words of their own:

    rows("work-queue", p="begin 1 p,q | put job=j | deal job=j attempt=1 worker=p | end", ...)

An event of a block and its detail: ``name=value``, values being JSON where they can be, else texts. ``begin``, ``view`` and
``take`` come with a number and members, which are a view of the host's first. ``message=SENDER/SEQ`` says which message a row is
about. ``send``, ``deliver SENDER SEQ``, ``crash`` and ``end`` are as in :mod:`.build`, which gets all of it.

:data:`BAD`, :data:`GOOD` and :data:`NOTHING` are like those of :mod:`.blocks`.
"""

from __future__ import annotations

import json
from typing import Any

from .blocks import history, note

_VIEWS = frozenset({"begin", "view", "take"})
_HOST = frozenset({"send", "deliver", "crash", "end"})
QUEUE, REQUESTS = "work-queue", "requests"


def rows(about: str, **histories: str) -> dict[str, str]:
    """Histories as :func:`.build.trace` takes them."""
    return {process: history(*(_event(about, event.strip()) for event in text.split("|"))) for process, text in histories.items()}


def _event(about: str, event: str) -> str:
    kind, *words = event.split()
    if kind in _HOST:
        return event
    detail: dict[str, Any] = {}
    before = ""
    if kind in _VIEWS:
        number, members, *words = words
        detail = {"at_view": int(number), "members": members.split(",")}
        before = f"view {number} {members} | "
    pairs = dict(word.split("=", 1) for word in words)
    message = pairs.pop("message", "")
    return before + note(about, kind, message, **detail, **{name: _value(value) for name, value in pairs.items()})


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# --- jobs-once --------------------------------------------------------------------------------------------------------

PUT = "put job=j"
ONE = "deal job=j attempt=1 worker=p"
TWO = "deal job=j attempt=2 worker=q"
BACK = "back job=j attempt=1 worker=p why=tired"
EFFECT = "effect job=j attempt=1 worker=p failed=false value=v"
START, STOP = "start job=j attempt=1", "stop job=j attempt=1"


def queue(p: str, q: str = "end") -> dict[str, str]:
    """A queue at p and q, which begin it together."""
    return rows(QUEUE, p=f"begin 1 p,q | {p}", q=f"begin 1 p,q | {q}")


JOBS_WRONG: list[tuple[str, dict[str, str]]] = [
    ("p puts job j into 'x' twice", queue(f"{PUT} | {PUT} | {ONE} | {EFFECT} | end")),
    ("p deals job j of 'x' to p, which nobody put", queue(f"{ONE} | end")),
    ("job j of 'x' has an effect at p, and nobody put it", queue(f"{EFFECT} | end")),
    ("job j of 'x' has an effect at p twice: of attempts 1 and 1", queue(f"{PUT} | {ONE} | {EFFECT} | {EFFECT} | end")),
    ("p deals job j of 'x' to q, though it is done", queue(f"{PUT} | {ONE} | {EFFECT} | {TWO} | end")),
    ("p deals job j of 'x' to q, though p has it", queue(f"{PUT} | {ONE} | {TWO} | end")),
    (
        "p deals job j of 'x' to p as attempt 1, and there was an attempt 1 before",
        queue(f"{PUT} | {ONE} | {BACK} | {ONE} | {EFFECT} | end"),
    ),
    (
        "job j of 'x' has an effect at p of attempt 1 by p, though attempt 2 is q's",
        queue(f"{PUT} | {ONE} | {BACK} | {TWO} | {EFFECT} | end"),
    ),
    (
        "job j of 'x' has an effect at p of attempt 1, which was given back before",
        queue(f"{PUT} | {ONE} | {BACK} | {EFFECT} | end"),
    ),
    ("job j of 'x' has an effect at p of attempt 1, and the last one dealt is None", queue(f"{PUT} | {EFFECT} | end")),
    ("p begins attempt 1 at job j of 'x', which it was not dealt", queue(f"{PUT} | {START} | end")),
    ("p begins attempt 2 at job j of 'x', which it was not dealt", queue(f"{PUT} | {TWO} | start job=j attempt=2 | end")),
    ("p begins attempt 1 at job j of 'x' twice", queue(f"{PUT} | {ONE} | {START} | {START} | {EFFECT} | end")),
    ("p begins attempt 1 at job j of 'x', which is done", queue(f"{PUT} | {ONE} | {EFFECT} | {START} | end")),
    (
        "job j of 'x' is not done at p in the end: p has it, and does nothing about it",
        queue(f"{PUT} | {ONE} | {START} | {STOP} | end"),
    ),
    ("job j of 'x' is not done at p in the end: q has it, and does nothing about it", queue(f"{PUT} | {TWO} | end")),
    ("job j of 'x' is not done at p in the end: nobody has it, though q could", queue(f"work worker=q at_once=1 | {PUT} | end")),
    (
        "job j of 'x' has two effects: attempt 1 by p at p, attempt 1 by p at q",
        queue(f"{PUT} | {ONE} | {EFFECT} | end", f"{PUT} | {ONE} | {EFFECT.replace('value=v', 'value=w')} | end"),
    ),
    (
        "attempt 1 at job j of 'x' is p's and q's",
        queue(f"{PUT} | {ONE} | {START} | end", f"{PUT} | {ONE.replace('worker=p', 'worker=q')} | {START} | end"),
    ),
]

JOBS_RIGHT: list[tuple[str, dict[str, str]]] = [
    (
        "put, dealt and done",
        queue(
            f"work worker=p at_once=1 | {PUT} | {ONE} | {START} | {STOP} | {EFFECT} | end",
            f"work worker=p at_once=1 | {PUT} | {ONE} | {EFFECT} | end",
        ),
    ),
    ("its worker is still at it", queue(f"{PUT} | {ONE} | {START} | end")),
    ("nobody works", queue(f"{PUT} | end")),
    ("nobody works any more", queue(f"work worker=q at_once=1 | rest worker=q | {PUT} | end")),
    ("given up in the end", queue(f"{PUT} | {ONE} | {BACK} | effect job=j attempt=1 worker=null failed=true value=v | end")),
    (
        "what a crashed process was alone with",
        queue(
            f"{PUT} | {ONE} | {EFFECT} | crash",
            f"{PUT} | {ONE.replace('worker=p', 'worker=q')} | {START} | "
            "effect job=j attempt=1 worker=q failed=false value=w | end",
        ),
    ),
]

# --- answers ----------------------------------------------------------------------------------------------------------

ASKED = 'deliver p 1 | asked question=p/1 asker=p need={need} asked=["p","q","r"] message=p/1'
GIVEN = 'given question=p/1 value="yes"'


def outcome(
    *answers: str,
    need: str = "majority",
    gone: str = "",
    late: str = "",
    failed: str = "",
    enough: bool = True,
    why: str = "enough",
    at_view: int = 1,
    asked: str = "pqr",
    value: str = "yes",
) -> str:
    """The row of an outcome; members are p, q and r."""

    def dump(told: object) -> str:
        return json.dumps(told, separators=(",", ":"))

    return " ".join(
        [
            f"outcome question=p/1 need={need} why={why} enough={dump(enough)} at_view={at_view} asked={dump(list(asked))}",
            f"answers={dump([[member, value] for member in answers])} failed={dump([[member, 'no'] for member in failed])}",
            f"gone={dump(list(gone))} late={dump(list(late))}",
        ]
    )


def asking(
    end: str, *, need: str = "majority", given: str = "pqr", fails: str = "", r: str = "end", view: str = ""
) -> dict[str, str]:
    """p asks p, q and r, those who are ``given`` answer, there may be another view, and p has an outcome."""
    whole: dict[str, str] = {}
    for name, last in (("p", f"{end} | end"), ("q", "end"), ("r", r)):
        answer = [GIVEN.replace("yes", "no")] if name in fails else [GIVEN] if name in given else []
        whole[name] = " | ".join(
            [
                "begin 1 p,q,r",
                ASKED.format(need=need),
                *answer,
                *([view] if view else []),
                last,
            ]
        )
    return rows(REQUESTS, **whole)


_END = outcome("p", "q", late="r")
_OPEN = f"begin 1 p,q,r | {ASKED.format(need='all')} | {GIVEN}"

ANSWERS_WRONG: list[tuple[str, dict[str, str]]] = [
    ("has 1 answers of 3 and calls that enough", asking(outcome("q", late="pr"))),
    ("has 2 answers of 3 and calls that not enough", asking(outcome("q", "p", late="r", enough=False, why="stopped"))),
    ("does not name everybody who was asked once, and nobody else", asking(outcome("q", "q", late="pr"))),
    ("does not name everybody who was asked once, and nobody else", asking(outcome("q", "p"))),
    ("has another answer of q than it gave", asking(outcome("q", "p", late="r", value="no"))),
    ("has an answer of q, which it never gave", asking(_END, given="p")),
    ("says that r is gone, which is in view 1 {p, q, r}", asking(outcome("q", "p", gone="r"))),
    (
        "says that r is late, which is gone from view 2 {p, q}",
        asking(outcome("p", "q", late="r", at_view=2), view="view 2 p,q", r="crash"),
    ),
    ("in view 7, which is not in force there", asking(outcome("q", "p", late="r", at_view=7))),
    ("does not wait for p, r, though nobody stopped it", asking(outcome("q", late="pr", enough=False, why="impossible"))),
    ("names others as asked than were asked", asking(outcome("q", "p", asked="pq"))),
    ("has 2 answers of 3 and calls that enough", asking(outcome("p", "q", need="all", late="r"), need="all")),
    ("has 2 answers of 3 and calls that enough", asking(outcome("p", "q", need="all", failed="r"), need="all", fails="r")),
    (
        "p takes question p/1 for one to p, q, r, and it was delivered in view 2 {p, q}",
        rows(REQUESTS, p=f"begin 1 p,q,r | view 2 p,q | {ASKED.format(need='first')} | crash"),
    ),
    ("p has two outcomes of question p/1", asking(f"{_END} | {_END}")),
    ("question p/1 has one outcome at p and another at r", asking(_END, r=f"{outcome('q', 'r', late='p')} | end")),
    ("p has an outcome of question p/1, which nobody asked", rows(REQUESTS, p=f"begin 1 p,q,r | {_END} | end")),
    ("p answers question p/1, which it was not asked", rows(REQUESTS, p=f"begin 1 p,q,r | {GIVEN} | end")),
    ("p answers question p/1 twice", rows(REQUESTS, p=f"{_OPEN} | {GIVEN} | end")),
    ("question p/1 of p is never over", rows(REQUESTS, p=f"{_OPEN} | end", q=f"{_OPEN} | end", r=f"{_OPEN} | crash")),
]

ANSWERS_RIGHT: list[tuple[str, dict[str, str]]] = [
    ("the first answer", asking(outcome("q", need="first", late="pr"), need="first")),
    ("a majority", asking(_END)),
    ("all", asking(outcome("q", "r", "p", need="all"), need="all")),
    ("all who are there", asking(outcome("q", "p", need="all", gone="r", at_view=2), need="all", view="view 2 p,q", r="crash")),
    ("stopped by its asker", asking(outcome("q", need="all", late="pr", enough=False, why="stopped"), need="all")),
    ("somebody has failed", asking(outcome("q", failed="p", late="r", enough=False, why="stopped"), fails="p")),
    ("what a crashed process was alone with", asking(_END, r=f"{outcome('q', 'r', late='p')} | crash")),
    (
        "somebody is still at an answer",
        rows(
            REQUESTS,
            p=f"{_OPEN} | end",
            q=f"{_OPEN.replace(f' | {GIVEN}', '')} | end",
            r=f"{_OPEN} | end",
        ),
    ),
    ("whoever asked has crashed", rows(REQUESTS, p=f"{_OPEN} | crash", q=f"{_OPEN} | end", r=f"{_OPEN} | end")),
]

# --- as others want them ----------------------------------------------------------------------------------------------

BAD = [
    *((f"jobs-once: {said}", "jobs-once", histories, "p") for said, histories in JOBS_WRONG),
    *((f"answers: {said} ({place})", "answers", histories, "p") for place, (said, histories) in enumerate(ANSWERS_WRONG)),
]
GOOD = [
    *((f"jobs-once: {said}", "jobs-once", histories) for said, histories in JOBS_RIGHT),
    *((f"answers: {said}", "answers", histories) for said, histories in ANSWERS_RIGHT),
]
NOTHING = [
    ("jobs-once: an empty queue", "jobs-once", rows(QUEUE, p="begin 1 p | end")),
    ("answers: nobody asks", "answers", rows(REQUESTS, p="begin 1 p | end")),
]
