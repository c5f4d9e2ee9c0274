"""All runs of a case: depth first, each run again from its beginning, never twice from the same state.

Theory of operation
-------------------
Procedures are generators, which cannot be copied. So a branch is explored by running its whole case again with the answers that
lead there (``_Path``); further questions get their first answers, and the last question with an answer left is next. Where events
have to be ordered the run's state is looked up, and a state from which everything was tried is not tried again.

**Order.** Two events at one moment are *independent* if they belong to different processes and do not touch the same copy: each
leaves alone what the other reads or writes (memory by copies, engines by processes; the mailbox server counts as a copy), so does
whatever happens instead of them (a crash, a dead module), and a budget that one uses up is used up for the other in either order.
So ab and ba lead to the same state, and only one of them need be tried: while b is tried first, after all that begins with a was,
a *sleeps*, and is not tried again until something that depends on it has happened (sleep sets: Godefroid, 1996). A state is
remembered with who slept there; met again with others asleep, it is explored only for those who slept then and do not now. What
touches processes at large (a crash, of which all are told) wakes everybody. A process's step that touches no memory, alone at its
process, comes first: what others do at this moment is independent of it, and that a crash is told a moment later at the earliest
makes this true of notices. The same goes for operations that nobody else can tell (``world``); because a process may crash there,
the state is looked up, with who slept: met again, it is gone on from only if somebody slept then who does not now.

**Drawing.** Depth first is a slow way to find what is broken: so runs can be drawn first (``probes``), and, beyond the limit on
states, to sample the rest (``random``).

**Shrinking.** Of a run that breaks a promise every answer that need not be special (a fault, a long operation, an order) is made
the usual one, until none can be taken away alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final

from ...protocols.exploration import Case
from .checks import Violation
from .host import Event
from .world import World

_COLLECTING: Final = 500  # After so many runs what they have left is collected: Python's own schedule costs more than the runs.
_RARE: Final = (0.03, 0.1, 0.3)
"""How often something goes wrong when it could, in runs that are drawn; each run has one of these."""


class _Known(Exception):
    """The run has come to where another has been."""


@dataclasses.dataclass(slots=True)
class _Question:
    """A question of the run that is explored, with the answers that are left."""

    answers: list[int]
    at: int = 0
    due: tuple[Event, ...] = ()
    asleep: frozenset[Event] = frozenset()
    marks: tuple[bytes | None, ...] = ()

    @property
    def answer(self) -> int:
        return self.answers[self.at]


class _Path:
    """Answers questions along a path and lengthens it."""

    def __init__(self, states: dict[bytes, frozenset[Event]]) -> None:
        self.questions: list[_Question] = []
        self._states = states
        self._asked = 0
        self._asleep: frozenset[Event] = frozenset()
        self._last: _Question | None = None

    def rewind(self) -> bool:
        """Goes back to the last question with another answer; whether there is one."""
        self._asked = 0
        self._asleep = frozenset()
        while self.questions:
            self.questions[-1].at += 1
            if self.questions[-1].at < len(self.questions[-1].answers):
                self._last = next((question for question in reversed(self.questions) if question.due), None)
                return True
            self.questions.pop()
        return False

    @property
    def answers(self) -> list[int]:
        return [question.answer for question in self.questions]

    def choose(self, count: int, *, rare: bool = False) -> int:
        if self._asked == len(self.questions):
            self.questions.append(_Question(list(range(count))))
        self._asked += 1
        return self.questions[self._asked - 1].answer

    def order(self, due: Sequence[Event], world: World) -> int:
        if self._asked == len(self.questions):
            self.questions.append(self._new(tuple(due), world))
        question = self.questions[self._asked]
        if question is self._last:
            world.recall(question.marks)
        self._asked += 1
        chosen = due[question.answer]
        before = {due[index] for index in question.answers[: question.at]}
        if world.case.reduced:
            self._asleep = frozenset(event for event in question.asleep | before if event.is_independent(chosen))
        return question.answer

    def _new(self, due: tuple[Event, ...], world: World) -> _Question:
        asleep = self._asleep & frozenset(due)
        state = world.digest()
        slept = self._states.get(state)
        if slept is None:
            self._states[state] = asleep
            awake = [index for index, event in enumerate(due) if event not in asleep]
        else:
            self._states[state] = slept & asleep
            awake = [index for index, event in enumerate(due) if event in slept and event not in asleep]
        if not awake:
            raise _Known
        return _Question(awake, 0, due, asleep, world.marks)

    def passes(self, due: Sequence[Event], world: World) -> None:
        if self._asked == len(self.questions):
            asleep = self._asleep & frozenset(due)
            state = world.digest()
            slept = self._states.get(state)
            if slept is not None and slept <= asleep:
                raise _Known
            self._states[state] = asleep if slept is None else slept & asleep

    def mixed(self) -> None:
        self._asleep = frozenset()


class _Given:
    """Answers as given; where nothing is given, or something that cannot be, the usual."""

    def __init__(self, answers: Sequence[int], random: Random | None = None) -> None:
        self._given = answers
        self._random = random
        self._rarity = random.choice(_RARE) if random is not None else 0.0
        self.answers: list[int] = []

    def choose(self, count: int, *, rare: bool = False) -> int:
        number = len(self.answers)
        if self._random is not None:
            usual = rare and self._random.random() > self._rarity
            answer = 0 if usual else self._random.randrange(count)
        else:
            answer = self._given[number] if number < len(self._given) else 0
        self.answers.append(answer if answer < count else 0)
        return self.answers[-1]

    def order(self, due: Sequence[Event], world: World) -> int:
        return self.choose(len(due))

    def passes(self, due: Sequence[Event], world: World) -> None:
        """Nothing is remembered here."""

    def mixed(self) -> None:
        """Nobody sleeps here."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What an exploration found."""

    case: Case
    states: int = 0
    runs: int = 0  # Runs to their ends.
    branches: int = 0  # Runs in all: most end where another has been.
    transitions: int = 0  # Events that were tried, each counted once.
    deepest: int = 0  # Events of the longest run.
    seconds: float = 0.0
    complete: bool = False  # Everything was tried.
    sampled: int = 0  # Runs that were drawn.
    violation: Violation | None = None
    answers: tuple[int, ...] = ()  # Of the run that breaks a promise: what ``replay`` takes.
    faults: int = 0
    outcomes: frozenset[tuple[Any, ...]] = frozenset()  # How runs ended (``World.outcome``): reductions must not lose any.


Progress = Callable[[int, int], None]


def explore(
    case: Case,
    *,
    limit: int = 1_000_000,
    probes: int = 0,
    random: int = 0,
    seed: int = 0,
    promise: str = "",
    shrink: bool = True,
    progress: Progress = lambda states, branches: None,
) -> Result:
    """Tries everything, up to ``limit`` states, then ``random`` runs; stops at the first run that breaks a promise (or this one).

    ``probes`` are runs that are drawn before: what breaks easily is found at once."""
    began = time.perf_counter()
    with case.variant.applied():
        found = _sampled(case, Result(case), probes, f"{seed}/probe", promise)
        if found.violation is None:
            with _collecting_seldom():
                found = dataclasses.replace(_all_runs(case, limit, promise, progress), sampled=found.sampled)
        if found.violation is None and not found.complete and random:
            found = _sampled(case, found, random, f"{seed}", promise)
        if found.violation is not None and shrink:
            found = _shrunk(found)
    return dataclasses.replace(found, seconds=time.perf_counter() - began)


def replay(found: Result) -> tuple[World, Violation | None]:
    """The run that breaks a promise again, with its story."""
    return retell(found.case, found.answers)


def retell(case: Case, answers: Sequence[int]) -> tuple[World, Violation | None]:
    """One run with its story: these answers, then the usual ones."""
    with case.variant.applied():
        world = World(case, _Given(answers), telling=True)
        return world, world.run()


@contextlib.contextmanager
def _collecting_seldom() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _all_runs(case: Case, limit: int, promise: str, progress: Progress) -> Result:
    states: dict[bytes, frozenset[Event]] = {}
    path = _Path(states)
    runs = branches = transitions = deepest = faults = 0
    outcomes = set()
    violation: Violation | None = None
    more = True
    while more and len(states) < limit:
        if not branches % _COLLECTING:
            gc.collect()
        known = len(path.questions)
        world = World(case, path)
        try:
            violation = world.run()
            runs += 1
            outcomes.add(world.outcome)
        except _Known:
            violation = None
        branches += 1
        transitions += len(path.questions) - known + 1
        deepest = max(deepest, world.steps)
        if violation is not None and promise in ("", violation.promise):
            faults = world.faults
            break
        violation = None
        if not branches % 500:
            progress(len(states), branches)
        more = path.rewind()
    answers = tuple(path.answers) if violation is not None else ()
    counts = (len(states), runs, branches, transitions, deepest)
    return Result(case, *counts, 0.0, not more, 0, violation, answers, faults, frozenset(outcomes))


def _sampled(case: Case, found: Result, count: int, seed: str, promise: str) -> Result:
    for number in range(count):
        guide = _Given((), Random(f"{seed}/{number}"))
        world = World(case, guide)
        violation = world.run()
        if violation is not None and promise in ("", violation.promise):
            return dataclasses.replace(
                found, sampled=found.sampled + number + 1, violation=violation, answers=tuple(guide.answers), faults=world.faults
            )
    return dataclasses.replace(found, sampled=found.sampled + count)


def _shrunk(found: Result) -> Result:
    """The same promise broken with fewer special answers, faults among them: none of those left can be taken away alone."""
    assert found.violation is not None
    promise, answers = found.violation.promise, list(found.answers)

    def breaks(tried: list[int]) -> list[int] | None:
        guide = _Given(tried)
        world = World(found.case, guide)
        violation = world.run()
        return guide.answers if violation is not None and violation.promise == promise and world.faults <= found.faults else None

    answers = next(usual for length in range(len(answers) + 1) if (usual := breaks(answers[:length])) is not None)
    changed = True
    while changed:
        changed = False
        for index in range(len(answers)):
            if index < len(answers) and answers[index]:
                usual = breaks([*answers[:index], 0, *answers[index + 1 :]])
                if usual is not None and sum(map(bool, usual)) < sum(map(bool, answers)):
                    answers, changed = usual, True
    guide = _Given(answers)
    world = World(found.case, guide)
    return dataclasses.replace(found, violation=world.run(), answers=tuple(answers), faults=world.faults)
