"""State transfer as applications see it: requests and states in a group's stream, answers that can be awaited.

The layer (:mod:`plainchant.layers.state`) speaks to a ``Keeper``; this is the one of every host with memberships. It needs a
place in the outbox, among deliveries and views, for what the layer says, and turns, in which the layer is called back. An answer
hands over a chunk at a time: the next one waits until the last has reached the layer and there is room, so a donor's state is in
memory once. What is written to a joiner that is gone is dropped: its departure is a view, and no error of the donor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ..core.model import GroupId, ProcessId, Reason, UsageError, View
from ..layers.state import StateTransfer, StateWanted
from .events import State, StateRequest
from .membership import Membership
from .waiting import wake


class Call(Protocol):
    """Has a function called with these arguments, later or at once."""

    def __call__(self, function: Callable[..., None], /, *arguments: Any) -> None: ...


class StateEvents:
    """The keeper of one process. ``layer`` is set when the stack is built. ``defer`` makes a call among the effects of the host's
    turn, in order; ``turn`` calls the engine, outside any other turn."""

    layer: StateTransfer

    def __init__(self, groups: Mapping[GroupId, Membership], *, defer: Call, turn: Call) -> None:
        self._groups, self._defer, self.turn = groups, defer, turn
        self._answers: dict[int, Answer] = {}

    def state_wanted(self, wanted: StateWanted) -> None:
        self._defer(self._ask, wanted)

    def state_room(self, transfer: int) -> None:
        self._defer(self._go_on, transfer)

    def state_over(self, transfer: int, reason: Reason | None) -> None:
        self._defer(self._end, transfer)

    def state_arrived(self, group: GroupId, view: View, donor: ProcessId, chunks: list[bytes]) -> None:
        self._defer(self._hand_over, State(group, view.number, donor, tuple(chunks)))

    def _ask(self, wanted: StateWanted) -> None:
        answer = self._answers[wanted.transfer] = Answer(self, wanted.transfer)
        self._groups[wanted.group].add(StateRequest(wanted.group, wanted.joiner, wanted.view.number, answer))

    def _go_on(self, transfer: int) -> None:
        if transfer in self._answers:
            self._answers[transfer].wake()

    def _end(self, transfer: int) -> None:
        answer = self._answers.pop(transfer, None)
        if answer is not None:
            answer.end()

    def _hand_over(self, state: State) -> None:
        self._groups[state.group].add(state)

    def end(self) -> None:
        """The process has stopped: no request can be answered any more."""
        for transfer in list(self._answers):
            self._end(transfer)


class Answer:
    """The way back of a request (:class:`~.events.StateAnswer`)."""

    def __init__(self, events: StateEvents, transfer: int) -> None:
        self._events = events
        self._transfer = transfer
        self._turnstile = asyncio.Lock()
        self._waiter: asyncio.Future[None] | None = None
        self._under_way = False  # a chunk has been handed over that has not reached the layer yet
        self._closed = self._over = False

    async def write(self, chunk: bytes) -> None:
        async with self._turnstile:
            self._check_open()
            if await self._room():
                self._under_way = True
                self._events.turn(self._put, bytes(chunk))

    async def close(self) -> None:
        async with self._turnstile:
            self._check_open()
            self._closed = True
            self._events.turn(self._events.layer.finish, self._transfer)

    async def refuse(self, why: str) -> None:
        async with self._turnstile:
            self._check_open()
            self._closed = True
            self._events.turn(self._events.layer.fail, self._transfer, why)

    def wake(self) -> None:
        """Lets a writer that waits look again."""
        wake(self._waiter)

    def end(self) -> None:
        self._over = True
        self.wake()

    def _put(self, chunk: bytes) -> None:
        self._under_way = False
        self._events.layer.put(self._transfer, chunk)
        self.wake()

    async def _room(self) -> bool:
        while not self._over and (self._under_way or not self._events.layer.has_room(self._transfer)):
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return not self._over

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this request for the state was answered already: write everything before close")
