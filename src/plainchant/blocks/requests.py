"""Questions to the group: every member answers, and the asker waits for the first answer, for a majority, or for all.

A question is a command in the group's order. The members of the view in force at its place are *asked*, and no process that
comes later. Each calls its handler and says its answer, another command. So answers, and views without crashed members, come in
one order, and every member knows where a question is *over*:

- ``first``: there is an answer;
- ``majority``: more than half of those asked have answered (asked, not present: two answers in a view of five are no majority);
- ``all``: every member asked has answered, or is gone;
- or enough cannot come any more: too many are gone, or their handlers have failed;
- or the asker has waited long enough, and says so by a command, or is gone.

The outcome says who answered and what, who is gone, whose handler failed, and who was late. Later answers change nothing.

**Why answers go through the order.** A group cannot tell something to one member only; in the order an outcome is the same at
every member, "gone" is a fact and not a guess, and it can be verified. The price: a question to n members is n + 1 broadcasts.
Answers to many questions at a time are packed together by the protocol; for ``first``, a member that sees that the question is
over does not answer.

**Handlers.** An ordinary function is called at the question's place, so it sees the other blocks exactly as far as that, at
every member; it must not take long. A coroutine function is awaited beside reading, and cancelled when the question is over. If
it raises, the asker is told. A handler may be called for a question that is over before it answers and, where the protocol does
not promise ``uniform``, for one that the others never get. So what it *does* must not matter; what is to be done once belongs
into a work queue.

**Bounds.** At most ``most`` questions are open; ``ask`` waits for room. A question or an answer has at most ``largest`` bytes.
What is over is forgotten at once. Joiners get the open questions with the state, and are asked none of them. **Parts**
(``newtop``) have questions of their own; where they come together, open ones are over, with what has come.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from ..core.model import PlainchantError, ProcessId, Reason, UsageError, View
from .block import Block, Command, CommandRefused, NoOutcome, Part, digest_of, encode

Need: TypeAlias = Literal["first", "majority", "all"]
Handler: TypeAlias = Callable[["Question"], Any | Awaitable[Any]]
MOST: Final = 1_000
LARGEST: Final = 1 << 20
_ASK, _ANSWER, _FAILED, _STOP = "ask", "answer", "failed", "stop"


class TooManyQuestions(CommandRefused):
    """There are as many open questions as there is room for; ``ask`` waits until some are over."""


class NotEnoughAnswers(PlainchantError):
    """A question is over without the answers that were needed; ``outcome`` has those that came, and who is gone or late."""

    def __init__(self, outcome: Outcome) -> None:
        heard = f"{len(outcome.answers)} of {len(outcome.asked)} have answered"
        groups = (("gone", outcome.gone), ("failed", outcome.failed), ("late", outcome.late))
        others = [f"{word}: {', '.join(names)}" for word, names in groups if names]
        super().__init__(
            f"question {outcome.question} wanted {outcome.need!r}, and {heard} ({'; '.join(others) or 'nobody else was asked'}); "
            f"ask again, wait longer, or need less"
        )
        self.outcome = outcome


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """What a handler gets. ``asked`` are the members of the view in which the question has its place."""

    name: str
    asker: ProcessId
    payload: Any
    asked: tuple[ProcessId, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """A question that is over. Everybody who was asked is in one of ``answers``, ``gone``, ``failed`` and ``late``."""

    question: str
    need: Need
    asked: tuple[ProcessId, ...]
    answers: dict[ProcessId, Any]  # member and answer, in the order of arrival
    gone: tuple[ProcessId, ...]
    failed: dict[ProcessId, str]
    late: tuple[ProcessId, ...]
    enough: bool

    @property
    def first(self) -> Any:
        """The answer that came first."""
        return next(iter(self.answers.values()))


@dataclasses.dataclass(slots=True)
class _Open:
    """A question that is not over."""

    name: str
    asker: ProcessId
    need: Need
    asked: list[ProcessId]
    answers: list[list[Any]] = dataclasses.field(default_factory=list)
    """Who has answered, and what, in the order in which that came."""
    failed: list[list[Any]] = dataclasses.field(default_factory=list)
    gone: list[ProcessId] = dataclasses.field(default_factory=list)

    def has_heard(self, member: ProcessId) -> bool:
        return any(member == name for name, _ in (*self.answers, *self.failed))

    @property
    def pending(self) -> list[ProcessId]:
        """Who was asked and may still answer."""
        return [member for member in self.asked if member not in self.gone and not self.has_heard(member)]


class Requests(Block):
    """Questions to a group: ``await requests.ask(payload, need="majority")``; every member answers by its ``handler``. All
    members give the same ``most`` (open questions) and ``largest`` (bytes of a question or an answer), each its own handler."""

    kind: ClassVar[str] = "requests"

    def __init__(self, handler: Handler, *, most: int = MOST, largest: int = LARGEST) -> None:
        super().__init__()
        for what, number in (("most", most), ("largest", largest)):
            if number < 1:
                raise UsageError(f"the {what} of requests is {number}; make it 1 or more")
        if not callable(handler):
            raise UsageError(f"the handler of requests answers questions: give a function of one, not {handler!r}")
        self.handler, self.most, self.largest = handler, most, largest
        self._open: dict[str, _Open] = {}
        self._members: list[ProcessId] = []
        self._view = 0  # the number of the view that is in force in the order
        self._numbers = count(1)
        self._asking: dict[str, asyncio.Future[Outcome]] = {}  # questions of this process whose outcome a task waits for
        self._tasks: dict[str, asyncio.Task[None]] = {}  # answers that this process is at, by question
        self._turnstile = asyncio.Lock()

    async def ask(self, payload: Any, *, need: Need = "majority", timeout: float | None = None) -> Outcome:
        """Asks every member, this one included, and returns when enough have answered. ``timeout``: seconds, else the replica's
        ``patience``. Raises :class:`NotEnoughAnswers` if the question is over without enough; if the process is stopped
        meanwhile, ``OutcomeUnknown``. ``payload`` and answers are anything that MessagePack has."""
        limit = self._check(payload, need, timeout)
        number = next(self._numbers)
        name = f"{self.me}/{number}"
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._asking[name] = future
        try:
            async with asyncio.timeout(limit) as scope:
                await self._put(number, need, payload)
                await self.replica.until(future.done, timeout=math.inf)
        except TimeoutError:
            if not scope.expired():
                raise
            await self.execute([_STOP, number])  # behind the question, so that it is over now, or never had a place
        except asyncio.CancelledError:
            self._start(f"{name} stop", self._say([_STOP, number], math.inf))
            raise
        finally:
            del self._asking[name]
        if not future.done():
            text = f"there was no room for a question in {self.name} in {limit:g} s; wait longer, or ask less at a time"
            raise NoOutcome(Reason("no room", text))
        if not future.result().enough:
            raise NotEnoughAnswers(future.result())
        return future.result()

    def _check(self, payload: Any, need: Need, timeout: float | None) -> float:
        """Refuses what makes no sense; how long the question may take."""
        if need not in get_args(Need):
            raise UsageError(f"a question needs {', '.join(map(repr, get_args(Need)))}, and not {need!r}")
        if need == "majority" and self.replica.group.guarantees.any_survivor:
            raise UsageError(
                f"a question to {self.name} needs a majority, but in {self.replica.group.name} any survivor goes on, and "
                f'partitions are not tolerated; choose need="first" or "all", or parameters of the protocol that need a majority'
            )
        size = len(encode(payload))
        if size > self.largest:
            raise UsageError(f"a question of {size} bytes: {self.name} takes {self.largest}; store it, and ask with its address")
        limit = self.replica.patience if timeout is None else timeout
        if limit <= 0:
            raise UsageError(f"a question that waits {limit:g} s gets no answer; give it more time")
        return limit

    async def _put(self, number: int, need: Need, payload: Any) -> None:
        body = [_ASK, number, need, payload]
        try:
            await self.execute(body, timeout=math.inf)
        except TooManyQuestions:
            async with self._turnstile:  # one of this process tries again, not all at once
                while True:
                    await self.replica.until(lambda: len(self._open) < self.most, timeout=math.inf)
                    with suppress(TooManyQuestions):
                        await self.execute(body, timeout=math.inf)
                        return

    def _call(self, question: Question) -> None:
        """Calls the handler, here and now, or lets a task await it; what it returns is said by the task."""
        if inspect.iscoroutinefunction(self.handler):
            self._start(question.name, self._await(question))
            return
        value, error = None, None
        try:
            value = self.handler(question)
        except Exception as problem:
            error = _told(problem)
        self._start(question.name, self._reply(question.name, value, error))

    async def _await(self, question: Question) -> None:
        value, error = None, None
        try:
            value = await self.handler(question)
        except Exception as problem:
            error = _told(problem)
        await self._reply(question.name, value, error)

    async def _reply(self, name: str, value: Any, error: str | None) -> None:
        try:
            size = len(encode(value))
        except (TypeError, ValueError, OverflowError) as problem:
            size, error = 0, _told(problem)
        if size > self.largest:
            error = f"its answer has {size} bytes, and {self.name} takes {self.largest}"
        if name in self._open:
            self._tell("given", question=name, value=digest_of(value if error is None else error))
            await self._say([_ANSWER, name, value] if error is None else [_FAILED, name, error], math.inf)

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[name] = asyncio.create_task(work)
        task.add_done_callback(lambda done: self._tasks.pop(name) if self._tasks.get(name) is done else None)

    def apply(self, command: Command) -> None:
        word, name, *rest = command.body
        if word == _ASK:
            self._ask(command, name, *rest)
        elif word == _STOP:
            question = self._open.get(f"{command.sender}/{name}")
            if question is not None:
                self._close(question, "stopped")
        else:
            self._hear(command.sender, name, rest[0], failed=word == _FAILED)

    def _ask(self, command: Command, number: int, need: Need, payload: Any) -> None:
        name = f"{command.sender}/{number}"
        if command.sender not in self._members:
            raise CommandRefused(f"{command.sender} is gone, and cannot ask {self.name}")
        if len(self._open) >= self.most:
            raise TooManyQuestions(f"{self.name} has {len(self._open)} open questions, and no room for more; wait for some")
        self._open[name] = question = _Open(name, command.sender, need, list(self._members))
        self._tell("asked", command.message, question=name, asker=command.sender, need=need, asked=list(question.asked))
        if self.me in question.asked:
            self._call(Question(name, command.sender, payload, tuple(question.asked)))

    def _hear(self, member: ProcessId, name: str, value: Any, *, failed: bool) -> None:
        question = self._open.get(name)
        if question is None or member not in question.pending:
            raise CommandRefused(f"an answer of {member} to {name} comes too late, or was not asked for")
        (question.failed if failed else question.answers).append([member, value])
        self._look(question)

    def changed(self, view: View) -> None:
        """Who is gone is not waited for any more; and nobody answers who is gone."""
        self._members, self._view = list(view.members), view.number
        for question in list(self._open.values()):
            question.gone += [member for member in question.pending if member not in view.members]
            if question.asker not in view.members:
                self._drop(question)
            else:
                self._look(question)

    def _look(self, question: _Open) -> None:
        if self._is_enough(question):
            self._close(question, "enough")
        elif len(question.answers) + len(question.pending) < self._needed(question) or not question.pending:
            self._close(question, "impossible")

    def _needed(self, question: _Open) -> int:
        return len(question.asked) // 2 + 1 if question.need == "majority" else 1

    def _is_enough(self, question: _Open) -> bool:
        if question.need == "all" and (question.pending or question.failed):
            return False
        return len(question.answers) >= self._needed(question)

    def _close(self, question: _Open, why: str) -> None:
        asked, answers, failed = tuple(question.asked), dict(question.answers), dict(question.failed)
        gone, late, enough = tuple(question.gone), tuple(question.pending), self._is_enough(question)
        outcome = Outcome(question.name, question.need, asked, answers, gone, failed, late, enough)
        what: dict[str, Any] = {
            "question": question.name,
            "need": question.need,
            "asked": list(asked),
            "why": why,
            "enough": enough,
        }
        said = [[member, digest_of(value)] for member, value in question.answers]
        errors = [[member, digest_of(text)] for member, text in question.failed]
        self._tell("outcome", **what, at_view=self._view, answers=said, gone=list(gone), failed=errors, late=list(late))
        self._drop(question)
        future = self._asking.get(question.name)
        if future is not None and not future.done():
            future.set_result(outcome)

    def _drop(self, question: _Open) -> None:
        """Nobody waits for answers any more; whoever is still at one need not go on."""
        del self._open[question.name]
        task = self._tasks.get(question.name)
        if task is not None:
            task.cancel()

    def snapshot(self) -> Any:
        return {
            "bounds": [self.most, self.largest],
            "open": [list(dataclasses.astuple(question)) for question in self._open.values()],
            "members": list(self._members),
            "view": self._view,
        }

    def restore(self, snapshot: Any) -> None:
        if snapshot["bounds"] != [self.most, self.largest]:
            text = f"the others have requests with most and largest {snapshot['bounds']}"
            raise UsageError(f"{text}, and here they are {[self.most, self.largest]}; give all members the same")
        self._open = {fields[0]: _Open(*fields) for fields in snapshot["open"]}
        self._members, self._view = list(snapshot["members"]), snapshot["view"]

    def merge(self, parts: Sequence[Part], view: View) -> None:
        """What is open in any part is over, with what has come there. Those of its own part each member tells."""
        self._members, self._view = list(view.members), view.number
        for question in list(self._open.values()):
            question.gone += [member for member in question.pending if member not in view.members]
            self._close(question, "merged")

    def ended(self, reason: Reason) -> None:
        for task in list(self._tasks.values()):
            task.cancel()


def _told(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"
