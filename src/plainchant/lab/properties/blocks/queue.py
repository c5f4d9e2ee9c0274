"""Work queues (``plainchant.blocks.WorkQueue``): every job has its effect once.

The rows of a queue (``put``, ``deal``, ``back``, ``effect``, ``work``, ``rest``, ``anew`` at every copy; ``start`` and ``stop``
at a worker) are walked in their order, copy by copy. A copy that joined goes on from what its donor's rows had come to.
"""

from __future__ import annotations

import dataclasses
from copy import copy as shallow
from dataclasses import field
from typing import Any, Final, TypeAlias

from ....core.model import GroupId, ProcessId
from ..facts import Note, Place
from ..report import Report
from .replicas import Key, Pasts, replicas_of, tell

ABOUT: Final = "work-queue"
Attempt: TypeAlias = tuple[str, int]  # a job and the number of an attempt at it


@dataclasses.dataclass
class _Copy:
    """What the rows of one copy have come to."""

    whole: bool = False  # whether its beginning is known: it began empty, or its donor's rows are here
    put: dict[str, Note] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)  # the last attempt at each job
    hands: dict[str, tuple[int, ProcessId, Note]] = field(default_factory=dict)  # attempt, worker, and the row that says so
    effects: dict[str, Note] = field(default_factory=dict)
    workers: dict[ProcessId, Note] = field(default_factory=dict)

    def become(self, other: _Copy) -> _Copy:
        """Takes over all that another copy has come to."""
        for each in dataclasses.fields(self):
            setattr(self, each.name, shallow(getattr(other, each.name)))
        return self


class _Walk:
    """All copies of all queues of a run."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.rows = replicas_of(report.run, ABOUT)
        self.pasts = Pasts(report.run)
        notes = [note for rows in self.rows.values() for note in rows]
        self.put = {(note.group, note.block, _job(note)) for note in notes if note.event == "put"}
        self.last: dict[Key, _Copy] = {}
        self.given: dict[Place, _Copy] = {}
        self.begun: dict[tuple[Key, Attempt], Note] = {}
        self.stopped: set[tuple[Key, Attempt]] = set()
        for key in self.rows:
            self.follow(key)

    def follow(self, key: Key) -> None:
        if key in self.last:
            return
        mine = self.last[key] = _Copy()
        for note in self.rows[key]:
            match note.event:
                case "begin":
                    mine.whole = True
                case "take":
                    self._take(mine, note)
                case "give":
                    self.given[note.place] = _Copy().become(mine)
                case "put":
                    self.report.cases += 1
                    before = mine.put.setdefault(_job(note), note)
                    if before is not note:
                        self.tell(f"{note.process} puts job {_job(note)} into {note.block!r} twice", before, note)
                case "deal":
                    self._deal(mine, note)
                case "back":
                    mine.hands.pop(_job(note), None)
                case "anew":
                    mine.hands.clear()
                case "effect":
                    self._effect(mine, note)
                case "work":
                    mine.workers[str(note.detail.get("worker"))] = note
                case "rest":
                    mine.workers.pop(str(note.detail.get("worker")), None)
                case "start":
                    self._start(mine, key, note)
                case "stop":
                    self.stopped.add((key, (_job(note), _attempt(note))))

    def _take(self, mine: _Copy, note: Note) -> None:
        """A joiner goes on from where its donor was."""
        gift = self.pasts.gift(note)
        if gift is not None:
            self.follow((gift.process, gift.group, gift.block))
            if gift.place in self.given:
                mine.become(self.given[gift.place])

    def _deal(self, copy: _Copy, note: Note) -> None:
        self.report.cases += 1
        job, attempt, worker = _job(note), _attempt(note), str(note.detail.get("worker"))
        told = f"{note.process} deals job {job} of {note.block!r} to {worker}"
        if (note.group, note.block, job) not in self.put:
            self.tell(f"{told}, which nobody put", note)
        if job in copy.effects:
            self.tell(f"{told}, though it is done", copy.effects[job], note)
        elif job in copy.hands:
            _, other, earlier = copy.hands[job]
            self.tell(f"{told}, though {other} has it", earlier, note)
        if copy.whole and attempt <= copy.attempts.get(job, 0):
            self.tell(f"{told} as attempt {attempt}, and there was an attempt {copy.attempts[job]} before", note)
        copy.attempts[job] = attempt
        copy.hands[job] = attempt, worker, note

    def _effect(self, copy: _Copy, note: Note) -> None:
        self.report.cases += 1
        job, attempt, worker = _job(note), _attempt(note), note.detail.get("worker")
        told = f"job {job} of {note.block!r} has an effect at {note.process}"
        if (note.group, note.block, job) not in self.put:
            self.tell(f"{told}, and nobody put it", note)
        before = copy.effects.setdefault(job, note)
        if before is not note:
            self.tell(f"{told} twice: of attempts {_attempt(before)} and {attempt}", before, note)
        elif job in copy.hands and copy.hands[job][:2] != (attempt, worker):
            newest, other, deal = copy.hands[job]
            self.tell(f"{told} of attempt {attempt} by {worker}, though attempt {newest} is {other}'s", deal, note)
        elif copy.whole and attempt != copy.attempts.get(job):
            self.tell(f"{told} of attempt {attempt}, and the last one dealt is {copy.attempts.get(job)}", note)
        elif copy.whole and job not in copy.hands and not note.detail.get("failed"):
            self.tell(f"{told} of attempt {attempt}, which was given back before", note)
        copy.hands.pop(job, None)

    def _start(self, copy: _Copy, key: Key, note: Note) -> None:
        self.report.cases += 1
        job, attempt = _job(note), _attempt(note)
        told = f"{note.process} begins attempt {attempt} at job {job} of {note.block!r}"
        before = self.begun.setdefault((key, (job, attempt)), note)
        if before is not note:
            self.tell(f"{told} twice", before, note)
        elif job in copy.effects:
            self.tell(f"{told}, which is done", copy.effects[job], note)
        elif copy.hands.get(job, (0, ""))[:2] != (attempt, note.process):
            self.tell(f"{told}, which it was not dealt", note)

    def tell(self, sentence: str, *notes: Note) -> None:
        tell(self.report, sentence, *notes)


def jobs_once(report: Report) -> None:
    """Every job that was put has its effect once; nothing else has one.

    At each copy of a queue: a job is put once, and dealt and given an effect only if some copy says that it was put; it is dealt
    to one worker at a time, never after its effect, and each time as a higher attempt; its effect comes once, of the attempt
    that was dealt last and was not given back, by that worker (one that failed may have been given back). A worker begins an
    attempt once, after it was dealt it, and not after the effect.

    Between copies: effects of one job are of one attempt and have one value; an attempt at a job has one worker, wherever it is
    dealt or begun. Of what a process that crashed says, only what it began counts here, unless the run promises ``uniform``:
    what it dealt and recorded last it may have been alone with.

    At ``end``, at each copy of a process correct in g that was not closed: a job without an effect is in the hands of a correct
    worker that has begun it and not stopped; or no worker has it, and there is none, or a correct one has not stopped yet."""
    walk = _Walk(report)
    _agree(walk)
    if report.until_end:
        _all_done(walk)


def _agree(walk: _Walk) -> None:
    report = walk.report
    is_uniform = "uniform" in (report.run.promises or ())
    effects: dict[tuple[GroupId, str, str], Note] = {}
    workers: dict[tuple[GroupId, str, Attempt], tuple[ProcessId, Note]] = {}
    for (process, group, block), rows in walk.rows.items():
        counts = is_uniform or not report.run.histories[process].crashed
        for note in rows:
            if note.event == "effect" and counts:
                report.cases += 1
                first = effects.setdefault((group, block, _job(note)), note)
                if _said(first) != _said(note):
                    attempts = [f"attempt {_attempt(e)} by {e.detail.get('worker')} at {e.process}" for e in (first, note)]
                    walk.tell(f"job {_job(note)} of {block!r} has two effects: {', '.join(attempts)}", first, note)
            elif (note.event == "deal" and counts) or note.event == "start":
                report.cases += 1
                worker = process if note.event == "start" else str(note.detail.get("worker"))
                attempt = (_job(note), _attempt(note))
                other, earlier = workers.setdefault((group, block, attempt), (worker, note))
                if other != worker:
                    walk.tell(f"attempt {attempt[1]} at job {attempt[0]} of {block!r} is {other}'s and {worker}'s", earlier, note)


def _all_done(walk: _Walk) -> None:
    run = walk.report.run
    begun = {
        (key[1], key[2], attempt): key[0]
        for key, attempt in walk.begun
        if (key, attempt) not in walk.stopped and run.histories[key[0]].is_correct_in(key[1])
    }
    """Attempts that correct workers are at."""
    for key, copy in walk.last.items():
        process, group, block = key
        history = run.histories[process]
        closed = any(note.event == "end" for note in walk.rows[key])
        if not history.is_correct_in(group) or not history.end or closed:
            continue
        busy = any(where[:2] == (group, block) for where in begun)
        for job, put in copy.put.items():
            walk.report.cases += 1
            if job in copy.effects:
                continue
            told = f"job {job} of {block!r} is not done at {process} in the end"
            if job in copy.hands:
                attempt, worker, deal = copy.hands[job]
                if begun.get((group, block, (job, attempt))) != worker:
                    walk.tell(f"{told}: {worker} has it, and does nothing about it", put, deal)
            elif copy.workers and not busy:
                walk.tell(f"{told}: nobody has it, though {', '.join(copy.workers)} could", put)


def _job(note: Note) -> str:
    return str(note.detail.get("job"))


def _attempt(note: Note) -> int:
    attempt = note.detail.get("attempt")
    return attempt if isinstance(attempt, int) else 0


def _said(note: Note) -> tuple[Any, ...]:
    return tuple(note.detail.get(name) for name in ("attempt", "worker", "failed", "value"))
