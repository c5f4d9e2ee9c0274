"""Happened-before over ``send`` and ``deliver`` events (paper 001, section 3.2), as vector clocks.

The clock of a message counts, for each process, how many of its sends (of one group, or of all) happened before that message's
send, the message itself included. A trace can claim the impossible: that two messages each happened before the other. Their
clocks then grow together until they no longer change, and each message is in the past of the other, as the definition says.

A message whose ``send`` is not in the trace (its sender is unobserved or was cut) was sent all the same. It is in the past of
each process that delivers it from that delivery on. It has a place of its own, one for each sender and group, in the order of
``seq``. What a cut sender did before its last row is in the past of such a message; of an unobserved sender nothing is.
"""

from __future__ import annotations

import dataclasses
from itertools import groupby
from typing import TypeAlias

from ...core.model import GroupId
from .facts import Event, History, Message, Run

Clock: TypeAlias = list[int]  # per process, by place: how many of its sends are known


class Causality:
    """What happened before what in a run; with a group, through that group's messages alone."""

    def __init__(self, run: Run, group: GroupId | None = None) -> None:
        self._histories = run.all
        self.sends: list[list[Event]] = []
        """Each process's sends, by place; clocks count into these. Further places hold, for each sender and group, messages
        whose ``send`` is not in the trace; a delivery stands for it."""
        self.clocks: dict[Message, Clock] = {}
        self.number: dict[Message, int] = {}  # a message's number among its sender's sends, from 1
        self.place: dict[Message, int] = {}  # where a message's send is counted
        self._traffic: list[list[Event]] = []
        for history in self._histories:
            mine = [event for event in history.sends if group is None or event.message[0] == group]
            self.sends.append(mine)
            self._count(history.place, mine)
            self._traffic.append([event for event in history.traffic if group is None or event.message[0] == group])
        self._add_unrecorded(run)
        if not self._walk():
            self._settle()

    def _count(self, place: int, sends: list[Event]) -> None:
        self.number.update((event.message, number) for number, event in enumerate(sends, 1))
        self.place.update((event.message, place) for event in sends)

    def _add_unrecorded(self, run: Run) -> None:
        """Gives places of their own to messages that are delivered and have no ``send`` row."""
        witnesses: dict[Message, Event] = {}
        for traffic in self._traffic:
            for event in traffic:
                sender = run.histories.get(event.message[1])
                if event.message not in self.number and (sender is None or sender.cut):
                    witnesses.setdefault(event.message, event)
        for (_, sender), messages in groupby(sorted(witnesses), key=lambda message: message[:2]):
            sends = [dataclasses.replace(witnesses[message], is_send=True) for message in messages]
            history = run.histories.get(sender)
            recorded = self._traffic[history.place] if history is not None else []
            before = [dataclasses.replace(event, is_send=False) for event in recorded]
            self._count(len(self.sends), sends)
            self.sends.append(sends)
            self._traffic.append(before + sends)

    def known(self, history: History, index: int) -> Clock:
        """The clock of a process just after the event with that index."""
        clock = [0] * len(self.sends)
        for event in self._traffic[history.place]:
            if event.index > index:
                break
            self.include(clock, event.message)
        return clock

    def include(self, clock: Clock, message: Message) -> None:
        """Adds a message and its past to a clock. A clock that counts the message counts its past already."""
        known = self.clocks.get(message)
        if known is not None and self.number[message] > clock[self.place[message]]:
            for place, count in enumerate(known):
                if count > clock[place]:
                    clock[place] = count

    def _walk(self) -> bool:
        """Follows every history as far as the messages that it delivers have been sent; False if that does not end."""
        size = len(self.sends)
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
                clock = [0] * len(self.sends)
                for event in traffic:
                    if event.is_send:
                        clock[place] = max(clock[place], self.number[event.message])
                        if self.clocks.get(event.message) != clock:
                            self.clocks[event.message] = clock.copy()
                            changed = True
                    else:
                        clock = [max(pair) for pair in zip(clock, self.clocks.get(event.message, clock), strict=True)]
