"""Checks on a growing trace: integrity and unanimity."""

from __future__ import annotations

from typing import Final

from ..facts import Message
from ..growth import Condition, Delivery, History, Letter, RunState
from ..report import say

MOST_STRANGERS: Final = 1_000


class Integrity:
    """A message is delivered at most once, by members, as its sender sent it.

    Whether it was sent at all is known when its sender has ended. A delivery in a group without any known join or view is
    examined again when there is one."""

    def __init__(self) -> None:
        self._strangers: dict[str, list[tuple[str, int, int, Message]]] = {}  # by group: deliveries before any join or view

    def delivered(self, run: RunState, history: History, message: Message, index: int, time: int, *, again: bool) -> None:
        group, sender, seq = message
        place = (history.name, index)
        run.book.case("integrity")
        if again:
            letter = run.letters.get(message)
            first = letter.delivered.get(history.name) if letter is not None else None
            events = [place] if first is None else [(history.name, first.index), place]
            run.book.violation("integrity", f"{history.name} delivers {say(message)} twice", time, events, messages=[message])
            return
        other = run.histories.get(sender)
        if sender == history.name and seq > history.sent.get(group, 0):
            sentence = f"{history.name} delivers {say(message)} before it sends it"
            run.book.violation("integrity", sentence, time, [place], messages=[message])
        elif seq < 1 or (other is not None and other.final and seq > other.sent.get(group, 0)):
            self._never_sent(run, message, history.name, index, time)
        self._membership(run, history, message, index, time)

    def _membership(self, run: RunState, history: History, message: Message, index: int, time: int) -> None:
        group = message[0]
        if group in run.declared or group in history.leaves:
            if not history.member.get(group):
                self._no_member(run, history.name, message, index, time)
            return
        strangers = self._strangers.setdefault(group, [])
        if len(strangers) < MOST_STRANGERS:
            strangers.append((history.name, index, time, message))

    def declared(self, run: RunState, group: str) -> None:
        """The first join or view of a group: processes that delivered before without being members violate integrity."""
        for process, index, time, message in self._strangers.pop(group, ()):
            self._no_member(run, process, message, index, time)

    def _no_member(self, run: RunState, process: str, message: Message, index: int, time: int) -> None:
        sentence = f"{process} delivers {say(message)} while it is no member"
        run.book.violation("integrity", sentence, time, [(process, index)], messages=[message])

    def _never_sent(self, run: RunState, message: Message, process: str, index: int, time: int) -> None:
        sentence = f"{process} delivers {say(message)}, which {message[1]} never sent"
        run.book.violation("integrity", sentence, time, [(process, index)], messages=[message])

    def content(self, run: RunState, letter: Letter, process: str, index: int, time: int, digest: int) -> None:
        """The digest of a send or a delivery."""
        if letter.digest_at is None:
            letter.digest, letter.digest_at = digest, (process, index)
        elif letter.digest != digest:
            sentence = f"{process} has {say(letter.message)} with another content than {letter.digest_at[0]}"
            run.book.violation("integrity", sentence, time, [letter.digest_at, (process, index)], messages=[letter.message])

    def final(self, run: RunState, history: History) -> None:
        """A process has ended: deliveries of messages that it never sent violate integrity."""
        for letter in run.letters.values():
            if letter.message[1] == history.name and letter.sent is None and letter.message[2] > 0:
                for process, delivery in letter.delivered.items():
                    if process != history.name:
                        self._never_sent(run, letter.message, process, delivery.index, delivery.time)


class Unanimity:
    """What one correct member rejects none delivers; that it is correct is a condition."""

    def rejected(self, run: RunState, history: History, letter: Letter, index: int, time: int) -> None:
        group = letter.message[0]
        if not history.member.get(group):
            return  # where memberships are unknown, only the end decides
        run.book.case("unanimity")
        letter.rejected.append((history.name, index))
        for process, delivery in letter.delivered.items():
            self._both(run, letter, history.name, index, process, delivery.index, max(time, delivery.time))

    def delivered(self, run: RunState, history: History, letter: Letter, delivery: Delivery) -> None:
        for process, index in letter.rejected:
            self._both(run, letter, process, index, history.name, delivery.index, delivery.time)

    def _both(self, run: RunState, letter: Letter, rejecting: str, at: int, delivering: str, index: int, time: int) -> None:
        group = letter.message[0]
        unless = [Condition("crash", rejecting), Condition("timing", rejecting), Condition("leave", rejecting, group)]
        sentence = f"{rejecting} rejects {say(letter.message)}, and {delivering} delivers it"
        events = [(rejecting, at), (delivering, index)]
        run.book.violation("unanimity", sentence, time, events, messages=[letter.message], unless=unless)
