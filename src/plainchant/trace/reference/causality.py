"""Happened-before over ``send`` and ``deliver`` events (seed 001, 3.2), as vector clocks.

The clock of a message counts, for each process, how many of its sends (of one group, or of all) happened before that
message's send, the message itself included. A trace can claim what cannot be, that two messages each happened before
the other; clocks then grow together until they stand still, and both are each other's past, as the definition says.

A message whose ``send`` is not in the trace (its sender is unobserved or was cut) brings no past with it."""

from __future__ import annotations

from typing import TypeAlias

from ...model import GroupId
from .facts import Event, History, Message, Run

Clock: TypeAlias = list[int]
"""Per process, by place: how many of its sends are known."""


class Causality:
    """What happened before what in a run; with a group, through that group's messages alone."""

    def __init__(self, run: Run, group: GroupId | None = None) -> None:
        self._histories = run.all
        self._places = {history.name: history.place for history in self._histories}
        self.sends: list[list[Event]] = []
        """Each process's sends, by place; clocks count into these."""
        self.clocks: dict[Message, Clock] = {}
        self.number: dict[Message, int] = {}
        """A message's number among its sender's sends, from 1."""
        self._traffic: list[list[Event]] = []
        for history in self._histories:
            mine = [event for event in history.sends if group is None or event.message[0] == group]
            self.sends.append(mine)
            self.number.update((event.message, number) for number, event in enumerate(mine, 1))
            self._traffic.append([event for event in history.traffic if group is None or event.message[0] == group])
        if not self._walk():
            self._settle()

    def known(self, history: History, index: int) -> Clock:
        """The clock of a process just after the event with that index."""
        clock = [0] * len(self._histories)
        for event in self._traffic[history.place]:
            if event.index > index:
                break
            self.include(clock, event.message)
        return clock

    def include(self, clock: Clock, message: Message) -> None:
        """Adds a message and its past to a clock. Whoever knows the message knows its past already."""
        known = self.clocks.get(message)
        if known is not None and self.number[message] > clock[self._places[message[1]]]:
            for place, count in enumerate(known):
                if count > clock[place]:
                    clock[place] = count

    def _walk(self) -> bool:
        """Follows every history as far as the messages that it delivers have been sent; False if that does not end."""
        size = len(self._histories)
        cursors = [0] * size
        clocks = [[0] * size for _ in range(size)]
        moved = True
        while moved:
            moved = False
            for place in range(size):
                start = cursors[place]
                cursors[place] = self._advance(place, start, clocks[place])
                moved = moved or cursors[place] > start
        return all(cursor == len(traffic) for cursor, traffic in zip(cursors, self._traffic, strict=True))

    def _advance(self, place: int, cursor: int, clock: Clock) -> int:
        traffic = self._traffic[place]
        while cursor < len(traffic):
            event = traffic[cursor]
            if event.is_send:
                clock[place] += 1
                self.clocks[event.message] = clock.copy()
            elif event.message in self.number:
                if event.message not in self.clocks:
                    break
                self.include(clock, event.message)
            cursor += 1
        return cursor

    def _settle(self) -> None:
        """Lets clocks that wait for each other grow until none changes."""
        changed = True
        while changed:
            changed = False
            for place, traffic in enumerate(self._traffic):
                clock = [0] * len(self._histories)
                for event in traffic:
                    if event.is_send:
                        clock[place] = max(clock[place], self.number[event.message])
                        if self.clocks.get(event.message) != clock:
                            self.clocks[event.message] = clock.copy()
                            changed = True
                    else:
                        clock = [max(pair) for pair in zip(clock, self.clocks.get(event.message, clock), strict=True)]
