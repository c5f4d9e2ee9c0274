"""Questions to a group (``plainchant.blocks.Requests``): an outcome is made of answers that were given, and of enough of them.

Rows: ``asked`` (where a question has its place; the row names its message) and ``outcome`` (where it is over) at every member,
``given`` at who answers. What a member answers and which view it is in when it does is told by rows that requests do not write.
"""

from __future__ import annotations

from typing import Any, Final

from ....core.model import ProcessId
from ..facts import History, Note, View
from ..report import Report
from .replicas import Key, replicas_of, tell

ABOUT: Final = "requests"
_VIEWS: Final = frozenset({"begin", "take", "view", "merge"})


class _Rows:
    """The rows of all members about questions."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.replicas = replicas_of(report.run, ABOUT)
        self.given: dict[tuple[Key, str], Note] = {}
        for key, rows in self.replicas.items():
            for note in rows:
                if note.event == "given":
                    report.cases += 1
                    before = self.given.setdefault((key, _question(note)), note)
                    if before is not note:
                        self.tell(f"{note.process} answers question {_question(note)} twice", before, note)

    def tell(self, sentence: str, *notes: Note) -> None:
        tell(self.report, sentence, *notes)


def answers(report: Report) -> None:
    """An outcome names answers that were given to that question, by members that were asked, enough of them, no member twice; and
    a question of a correct member has one.

    *Asked* are the members of the view in which the question was delivered, at every member. A member gives at most one answer to
    a question, and only if it was asked. An outcome puts every member that was asked, and no other, into one place: ``answers``
    and ``failed`` (what is named there that member gave, with that digest, unless it is unobserved or cut), ``gone`` (it is not
    in the view at that place of the order) and ``late`` (it is). It is ``enough`` with one answer for ``first``, with answers of
    more than half of the asked for ``majority``, and for ``all`` with an answer, none late and none failed; and only then. It is
    over without enough only if the asker stopped it, if parts came together, if no member is late, or if the late ones would not
    be enough. A member has one outcome of a question, and those of members that do not crash (with ``uniform``: of all) are
    equal.

    At ``end``, at an asker that is correct in g and whose replica was not closed: there is an outcome, or a member that was
    asked, is correct in g and has not closed its replica, has given no answer yet.

    *The view at that place* is the one of the last row about a view in this replica, or, where a view is what ends the question,
    of the next one; the outcome says which."""
    rows = _Rows(report)
    outcomes: dict[tuple[str, str, str], Note] = {}
    is_uniform = "uniform" in (report.run.promises or ())
    for key, notes in rows.replicas.items():
        history = report.run.histories[key[0]]
        counts = is_uniform or not history.crashed
        _one(rows, key, history, notes, outcomes if counts else {})
        _were_asked(rows, key, notes)


def _one(rows: _Rows, key: Key, history: History, notes: list[Note], outcomes: dict[tuple[str, str, str], Note]) -> None:
    """One member's questions, in the order of its rows."""
    report = rows.report
    asked: dict[str, Note] = {}
    over: dict[str, Note] = {}
    has_joined = False
    for place, note in enumerate(notes):
        name = _question(note)
        if note.event == "take":
            has_joined = True
        elif note.event == "asked":
            asked[name] = note
            _asked_the_view(rows, history, note)
        elif note.event == "outcome":
            report.cases += 1
            first = over.setdefault(name, note)
            if first is not note:
                rows.tell(f"{note.process} has two outcomes of question {name}", first, note)
            elif name not in asked and not has_joined:
                rows.tell(f"{note.process} has an outcome of question {name}, which nobody asked", note)
            else:
                _outcome(rows, asked.get(name), note, _view_at(rows, history, notes, place))
                same = outcomes.setdefault((key[1], key[2], name), note)
                if _said(same) != _said(note):
                    rows.tell(f"question {name} has one outcome at {same.process} and another at {note.process}", same, note)
    closed = any(note.event == "end" for note in notes)
    if report.until_end and history.is_correct_in(key[1]) and history.end and not closed:
        for name, note in asked.items():
            if note.detail.get("asker") == key[0]:
                report.cases += 1
                if name not in over and not _is_being_answered(rows, key, note):
                    rows.tell(f"question {name} of {key[0]} is never over", note)


def _asked_the_view(rows: _Rows, history: History, note: Note) -> None:
    """The members of the view in which the question was delivered were asked."""
    delivered = history.first.get(note.message) if note.message is not None else None
    if delivered is None or delivered.view is None:
        return
    rows.report.cases += 1
    asked = note.detail.get("asked")
    names = asked if isinstance(asked, list) else []
    if len(names) != len(delivered.view.members) or {*map(str, names)} != delivered.view.members:
        told = f"{note.process} takes question {_question(note)} for one to {', '.join(asked or ())}"
        rows.tell(f"{told}, and it was delivered in {delivered.view}", note)


def _outcome(rows: _Rows, asked_row: Note | None, note: Note, view: View | None) -> None:
    detail, name = note.detail, _question(note)
    told = f"the outcome of question {name} at {note.process}"
    asked = list(detail.get("asked") or ())
    if asked_row is not None and asked != asked_row.detail.get("asked"):
        rows.tell(f"{told} names others as asked than were asked", asked_row, note)
    answered = [member for member, _ in detail.get("answers") or ()]
    failed = [member for member, _ in detail.get("failed") or ()]
    gone, late = list(detail.get("gone") or ()), list(detail.get("late") or ())
    if sorted([*answered, *failed, *gone, *late]) != sorted(asked):
        rows.tell(f"{told} does not name everybody who was asked once, and nobody else", note)
    for member, digest in [*(detail.get("answers") or ()), *(detail.get("failed") or ())]:
        _was_given(rows, note, member, digest, told)
    if view is not None:
        for member in gone:
            if member in view.members:
                rows.tell(f"{told} says that {member} is gone, which is in {view}", note)
        for member in late:
            if member not in view.members:
                rows.tell(f"{told} says that {member} is late, which is gone from {view}", note)
    enough = _is_enough(str(detail.get("need")), len(asked), len(answered), len(failed) + len(late))
    if enough != detail.get("enough"):
        word = "enough" if detail.get("enough") else "not enough"
        rows.tell(f"{told} has {len(answered)} answers of {len(asked)} and calls that {word}", note)
    elif not enough and detail.get("why") not in ("stopped", "merged"):
        could = _is_enough(str(detail.get("need")), len(asked), len(answered) + len(late), len(failed))
        if late and could:
            rows.tell(f"{told} does not wait for {', '.join(late)}, though nobody stopped it", note)


def _was_given(rows: _Rows, note: Note, member: ProcessId, digest: Any, told: str) -> None:
    history = rows.report.run.histories.get(member)
    given = rows.given.get(((member, note.group, note.block), _question(note)))
    if given is None:
        if history is not None and not history.cut:
            rows.tell(f"{told} has an answer of {member}, which it never gave", note)
    elif given.detail.get("value") != digest:
        rows.tell(f"{told} has another answer of {member} than it gave", given, note)


def _were_asked(rows: _Rows, key: Key, notes: list[Note]) -> None:
    """A member that answers was asked, as far as its own rows tell."""
    asked = {_question(note): note for note in notes if note.event == "asked"}
    for note in notes:
        if note.event == "given":
            question = asked.get(_question(note))
            if question is None or key[0] not in (question.detail.get("asked") or ()):
                rows.tell(f"{key[0]} answers question {_question(note)}, which it was not asked", note)


def _is_being_answered(rows: _Rows, key: Key, asked: Note) -> bool:
    """Whether a member that was asked, and is present and correct, has not answered yet."""
    run = rows.report.run
    for member in asked.detail.get("asked") or ():
        history = run.histories.get(member)
        replica = (member, key[1], key[2])
        open_there = replica in rows.replicas and not any(note.event == "end" for note in rows.replicas[replica])
        if history is not None and history.is_correct_in(key[1]) and open_there and (replica, _question(asked)) not in rows.given:
            return True
    return False


def _is_enough(need: str, asked: int, answered: int, missing: int) -> bool:
    if need == "majority":
        return 2 * answered > asked
    return answered > 0 and (need != "all" or not missing)


def _view_at(rows: _Rows, history: History, notes: list[Note], place: int) -> View | None:
    """The view of an outcome, as the host has written it."""
    number = notes[place].detail.get("at_view")
    before = next((note for note in reversed(notes[:place]) if note.event in _VIEWS), None)
    after = next((note for note in notes[place:] if note.event in _VIEWS), None)
    if number not in [note.detail.get("at_view") for note in (before, after) if note is not None]:
        told = f"{history.name} has an outcome of question {_question(notes[place])}"
        rows.tell(f"{told} in view {number}, which is not in force there", notes[place])
    return next((one.view for one in history.views.get(notes[place].group, ()) if one.view.number == number), None)


def _question(note: Note) -> str:
    return str(note.detail.get("question"))


def _said(note: Note) -> tuple[Any, ...]:
    return tuple(note.detail.get(name) for name in ("need", "asked", "answers", "failed", "gone", "late", "enough"))
