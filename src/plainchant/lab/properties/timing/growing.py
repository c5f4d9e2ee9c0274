"""Checks on a growing trace: deadline and bounded."""

from __future__ import annotations

from typing import Final

from ....trace.fact import Fact
from ..facts import Message, between, detail_of
from ..growth import Condition, Delivery, History, Letter, RunState, Sent
from ..order.growing import ROUNDS
from ..report import say
from .reference import Bounds, bounds_stated

MOST_DATED: Final = 20_000


class Deadline:
    """A message is delivered by its deadline, if its sender does not crash."""

    def __init__(self) -> None:
        self._dated: dict[Message, int] = {}  # messages with deadlines that may be due, and the round of their send
        self._missed: set[tuple[Message, str]] = set()

    def delivered(self, run: RunState, process: str, letter: Letter, delivery: Delivery) -> None:
        """Called when both the send and the delivery are known."""
        sent = letter.sent
        if sent is None:
            return
        if delivery.deadline is not None:
            due, at = delivery.deadline, delivery.time
        elif sent.deadline is not None:
            due, at = _carried(sent, delivery.time, delivery.true_time)
        else:
            return
        run.book.case("deadline")
        if at > due:
            sentence = f"{process} delivers {say(letter.message)} {at - due} ns after its deadline"
            events = [(letter.message[1], sent.index), (process, delivery.index)]
            self._late(run, letter, sentence, delivery.time, events)

    def sent(self, run: RunState, letter: Letter) -> None:
        assert letter.sent is not None
        if letter.sent.deadline is None:
            return
        if len(self._dated) >= MOST_DATED:
            self._dated.pop(next(iter(self._dated)))
            run.late += 1
        self._dated[letter.message] = run.round

    def tick(self, run: RunState, *, over: bool = False) -> None:
        """Checks whether a deadline has passed at a process that owes the message."""
        for message, since in list(self._dated.items()):
            letter = run.letters.get(message)
            if letter is None or letter.sent is None or letter.sent.view is None:
                is_over = True  # forgotten, or no process is known to owe it
            else:
                is_over = (over or run.round - since >= ROUNDS) and not self._awaited(run, letter, over=over)
            if is_over:
                del self._dated[message]

    def _awaited(self, run: RunState, letter: Letter, *, over: bool) -> bool:
        """Whether a process that has to deliver it still has time."""
        assert letter.sent is not None
        assert letter.sent.view is not None
        awaited = False
        for history in run.histories.values():
            if history.name in letter.delivered or (letter.message, history.name) in self._missed:
                continue
            since = history.installed.get(letter.sent.view)
            if since is None:
                continue
            due, now = _carried(letter.sent, history.time, history.true_time)
            if now < due or (now == due and not over and not history.final):
                awaited = awaited or not history.final
            elif run.owes(history, letter, history.expected - 1) and _had_view_by_then(history, letter):
                self._missed.add((letter.message, history.name))
                run.book.case("deadline")
                sentence = f"the deadline of {say(letter.message)} passes and {history.name}, which owes it, does not deliver it"
                events = [(letter.message[1], letter.sent.index), (history.name, history.expected - 1)]
                self._late(run, letter, sentence, history.time, events)
        return awaited

    def _late(self, run: RunState, letter: Letter, sentence: str, time: int, events: list[tuple[str, int]]) -> None:
        unless = [Condition("crash", letter.message[1])]
        run.book.violation("deadline", sentence, time, events, messages=[letter.message], unless=unless)


def _carried(sent: Sent, time: int, true_time: int | None) -> tuple[int, int]:
    """The deadline of a ``send`` and a moment elsewhere, on one clock: the global one, or the processes' own as they are."""
    assert sent.deadline is not None
    if sent.true_time is None or true_time is None:
        return sent.deadline, time
    return sent.true_time + sent.deadline - sent.time, true_time


def _had_view_by_then(history: History, letter: Letter) -> bool:
    """Whether it had installed the view of the message when the deadline came."""
    sent = letter.sent
    assert sent is not None
    for installed in history.views.get(letter.message[0], ()):
        if installed.view == sent.view:
            due, at = _carried(sent, installed.time, installed.true_time)
            return at <= due
    return False


class Bounded:
    """No send, no delivery and no rotation of a token takes longer than the stated bound."""

    def __init__(self) -> None:
        self._bounds: Bounds | None = None
        self._turns: dict[tuple[str, str], tuple[int, tuple[int | None, int]]] = {}  # the last turn: its index, and when

    def stated(self, run: RunState) -> None:
        self._bounds = bounds_stated(run.bounds)

    def sent(self, run: RunState, fact: Fact, message: Message, index: int, size: int | None) -> None:
        """A ``send`` or ``sent`` row of a message with ``size`` bytes."""
        bound = self._bounds.send if self._bounds is not None else None
        if bound is None or fact.detail is None or self._is_too_large(size):
            return
        took = detail_of(fact.detail).get("took_ns")
        if took is not None:
            self._within(run, (fact.process, index), message, took, bound, "sends", fact.time, [fact.process])

    def delivered(self, run: RunState, fact: Fact, message: Message, index: int) -> None:
        bound = self._bounds.deliver if self._bounds is not None else None
        if bound is None or fact.true_time is None or fact.sent is None or self._is_too_large(fact.size):
            return
        who = [fact.process, message[1]]
        self._within(run, (fact.process, index), message, fact.true_time - fact.sent, bound, "delivers", fact.time, who)

    def _within(
        self, run: RunState, place: tuple[str, int], message: Message, took: int, bound: int, does: str, time: int, who: list[str]
    ) -> None:
        run.book.case("bounded")
        if took > bound:
            sentence = f"{place[0]} {does} {say(message)} in {took} ns; the bound is {bound} ns"
            unless = [Condition("timing", process) for process in dict.fromkeys(who)]
            run.book.violation("bounded", sentence, time, [place], messages=[message], unless=unless)

    def token(self, run: RunState, fact: Fact) -> None:
        bound = self._bounds.rotation if self._bounds is not None else None
        if bound is None or fact.group is None:
            return
        now = (fact.true_time, fact.time)
        before = self._turns.get((fact.process, fact.group))
        self._turns[fact.process, fact.group] = (fact.index, now)
        if before is None:
            return
        run.book.case("bounded")
        took = between(before[1], now)
        if took > bound:
            sentence = f"the token of {fact.group} takes {took} ns to come back to {fact.process}; the bound is {bound} ns"
            events = [(fact.process, before[0]), (fact.process, fact.index)]
            run.book.violation("bounded", sentence, fact.time, events, group=fact.group)

    def broken(self, process: str, group: str) -> None:
        """A view or a leave: what began before it is no rotation."""
        self._turns.pop((process, group), None)

    def _is_too_large(self, size: int | None) -> bool:
        most = self._bounds.size if self._bounds is not None else None
        return most is not None and size is not None and size > most
