"""Building blocks: what their rows (kind ``note``) say of replicas. This module holds what is true of every block.

A *replica* is a block of one process in one group. Its rows, in their order, tell its *past*: where it began, and what came to
it. Pasts are interned: equal ones are one number, so that comparing replicas is looking up a number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, TypeAlias

from ....core.model import GroupId, ProcessId
from ..certificates.evidence import Doubtful
from ..certificates.prover import Prover
from ..certificates.wanted import Question, Wanted, about
from ..facts import History, Message, Note, Place, Run
from ..report import Report, say

Key: TypeAlias = tuple[ProcessId, GroupId, str]  # process, group and name of a block

MAX_SHARE: Final = 0.2  # of the rows of a run that are notes, if a few rows are to decide
STEPS = frozenset({"begin", "take", "apply", "view", "merge"})  # events whose rows tell the digest of the block's state


def replicas_of(run: Run, about: str | None = None) -> dict[Key, list[Note]]:
    """The rows of each replica, of one kind of block or of all."""
    found: dict[Key, list[Note]] = {}
    for history in run.all:
        for note in history.notes:
            if about is None or note.about == about:
                found.setdefault((note.process, note.group, note.block), []).append(note)
    return found


class Pasts:
    """What each replica of a run has gone through, at each of its rows."""

    def __init__(self, run: Run) -> None:
        self._replicas = replicas_of(run)
        self._numbers: dict[Hashable, int] = {}
        self._at: dict[Place, int] = {}  # the past after a row, its own step included
        self._under_way: set[Key] = set()
        self._done: set[Key] = set()

    def after(self, note: Note) -> int | None:
        """The past after a row; None if the rows do not tell it."""
        self._follow((note.process, note.group, note.block))
        return self._at.get(note.place)

    def _follow(self, key: Key) -> None:
        """Numbers all pasts of a replica. One that waits for itself, through its donors, has none."""
        if key in self._done or key in self._under_way:
            return
        self._under_way.add(key)
        past: int | None = None
        for note in self._replicas.get(key, ()):
            past = self._next(past, note)
            if past is not None:
                self._at[note.place] = past
        self._under_way.discard(key)
        self._done.add(key)

    def _next(self, past: int | None, note: Note) -> int | None:
        detail = note.detail
        where = (note.group, note.block)
        match note.event:
            case "begin":
                return self._number((*where, "begin", detail.get("at_view"), _listed(detail.get("members"))))
            case "take":
                given = self.gift(note)
                return self.after(given) if given is not None else self._number((*where, "take", note.place))
            case "merge":
                return self._number((*where, "merge", detail.get("at_view"), _listed(detail.get("parts"))))
            case "apply":
                return None if past is None else self._number((past, note.message))
            case "view":
                return None if past is None else self._number((past, detail.get("at_view"), _listed(detail.get("members"))))
        return past

    def gift(self, take: Note) -> Note | None:
        """The row in which a joiner's donor gave the state that it took."""
        donor, at_view = take.detail.get("donor"), take.detail.get("at_view")
        for note in self._replicas.get((str(donor), take.group, take.block), ()):
            if note.event == "give" and note.detail.get("to") == take.process and note.detail.get("at_view") == at_view:
                return note
        return None

    def _number(self, past: Hashable) -> int:
        return self._numbers.setdefault(past, len(self._numbers))


def _listed(value: Any) -> Hashable:
    return tuple(map(_listed, value)) if isinstance(value, list) else value


def without_blocks(prover: Prover) -> int:
    """The proof of every property of blocks: no case if the run has no row of a block; else the reference check decides."""
    if prover.run.noted:
        raise Doubtful
    return 0


def asked_of(check: Callable[[Report], None], *, told: str | None = None) -> Callable[[Prover], Question]:
    """The question of a property of blocks. Its reference check reads ``note`` rows, views and ends, which the skeleton has;
    ``told``: and where the messages of notes of that event (None: of no event) were delivered."""

    def question(prover: Prover) -> Question:
        notes = [note for history in prover.run.all for note in history.notes]
        if MAX_SHARE * prover.evidence.rows < len(notes):
            raise Doubtful  # the skeleton is a large part of the run: reading it twice would cost more than a search
        every = (note for note in notes if note.event == told)
        named = {note.message for note in every if note.message is not None}
        return Question(Wanted(messages=about(named)), check)

    return question


def replica_agreement(report: Report) -> None:
    """Replicas of a block that have gone through the same have the same state; a replica applies what its process has delivered,
    in that order, each command once; in the end all have come as far.

    A replica's *past* begins with its ``begin`` row (the view in it), or is that of its donor at the ``give`` row that its
    ``take`` row answers; each ``apply`` adds the message, each ``view`` the view. ``merge`` begins a new one: the view, and the
    parts whose states were put together. Two rows with equal pasts have equal digests. A joiner whose donor's row is not in the
    trace has a past of its own.

    A message that a replica applies was delivered before by its process, or, if it joined, by its donor before it gave the state
    (commands that wait for a merge travel with the state).

    At ``end``: two replicas of processes correct in g that end in the same view have the same digest in their last row, unless
    one of them was closed (``end`` event) before."""
    pasts = Pasts(report.run)
    seen: dict[int, Note] = {}
    for rows in replicas_of(report.run).values():
        for note in rows:
            if note.event in STEPS:
                _compare(report, seen, note, pasts.after(note))
        _in_order(report, pasts, rows)
    if report.until_end:
        _as_far(report)


def _compare(report: Report, seen: dict[int, Note], note: Note, past: int | None) -> None:
    if past is None or "digest" not in note.detail:
        return
    other = seen.setdefault(past, note)
    if other is note:
        return
    report.cases += 1
    if other.detail["digest"] != note.detail["digest"]:
        told = f"{other.process} and {note.process} have gone through the same in {note.about} {note.block!r} of {note.group}"
        digests = f"{other.detail['digest']} and {note.detail['digest']}"
        tell(report, f"{told}, and their states differ: {digests}", other, note, message=note.message)


def _in_order(report: Report, pasts: Pasts, rows: list[Note]) -> None:
    """Commands were delivered before they are applied, and in that order."""
    applied: dict[Any, Note] = {}
    last: tuple[int, Note] | None = None
    take = next((note for note in rows if note.event == "take"), None)
    for note in rows:
        if note.event != "apply" or note.message is None:
            continue
        report.cases += 1
        told = f"{note.process} applies {say(note.message)} to {note.about} {note.block!r}"
        before = applied.setdefault(note.message, note)
        if before is not note:
            tell(report, f"{told} twice", before, note, message=note.message)
            continue
        delivered = report.run.histories[note.process].first.get(note.message)
        if delivered is None or delivered.index > note.index:
            if delivered is not None or take is None or not _has_come_with(report, pasts.gift(take), note):
                tell(report, f"{told} without having delivered it", note, message=note.message)
        elif last is not None and delivered.index < last[0]:
            tell(report, f"{told} after one that it delivered later", last[1], note, message=note.message)
        else:
            last = delivered.index, note


def _has_come_with(report: Report, gift: Note | None, note: Note) -> bool:
    """Whether the donor had delivered a message when it gave the state (or nothing is known of the donor)."""
    if gift is None:
        return True
    delivered = report.run.histories[gift.process].first.get(note.message) if note.message is not None else None
    return delivered is not None and delivered.index < gift.index


def tell(report: Report, sentence: str, *notes: Note, message: Message | None = None) -> None:
    """Reports a violation that some rows show, about a message where that is given."""
    messages = [message] if message is not None else []
    report.violation(sentence, events=[note.place for note in notes], group=notes[-1].group, messages=messages)


def _as_far(report: Report) -> None:
    """Replicas of correct members that end in the same view end with the same state."""
    firsts: dict[tuple[Any, ...], Note] = {}
    for history, last in last_rows(report.run):
        views = history.views.get(last.group)
        view = views[-1].view if views else None
        other = firsts.setdefault((last.group, last.block, view), last)
        if other is last:
            continue
        report.cases += 1
        if other.detail.get("digest") != last.detail.get("digest"):
            told = f"{other.process} and {last.process} end in one view of {last.group}, and their states of {last.about}"
            digests = f"{other.detail.get('digest')} and {last.detail.get('digest')}"
            tell(report, f"{told} {last.block!r} differ: {digests}", other, last, message=last.message)


def last_rows(run: Run, about: str | None = None) -> Iterator[tuple[History, Note]]:
    """The last row with a digest of each replica that was not closed, at processes that are correct in its group."""
    for (process, group, _), rows in replicas_of(run, about).items():
        history = run.histories[process]
        if not history.is_correct_in(group) or not history.end or any(note.event == "end" for note in rows):
            continue
        told = [note for note in rows if note.event in STEPS]
        if told:
            yield history, told[-1]
