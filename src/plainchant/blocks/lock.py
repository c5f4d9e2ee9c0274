"""A distributed lock with fencing tokens, which survives its owner's crash.

A lock is an :class:`~.office.Office` that processes ask for: the first to ask has it first. Its owner's crash, halt or departure
is a view, in which the next one gets it. ``async with lock as token`` waits for the lock, and interrupts the body when the lock
is lost.

A :class:`Fence` stands before what the lock protects. A process that was paused or partitioned may go on with a lock that it has
lost; but every write says its token, and the fence refuses tokens smaller than one that it has seen. One fence for each
resource.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar

from ..core.model import PlainchantError, Reason
from ..group.waiting import fail
from .block import ReplicaOver
from .office import ASK, DROP, Holding, Office, OfficeLost, Quorum


class LockLost(OfficeLost):
    """The lock is held no longer: another may hold it. ``reason`` says why."""


class StaleToken(PlainchantError):
    """A token that is smaller than one that the fence has seen: its lock was lost. Nothing was done."""


class Lock(Office):
    """One holder at a time: ``async with lock as token: store.write(token, ...)``. With ``quorum="majority"`` at most one part of
    a group that is cut in two has a holder, and tokens grow for ever; with ``"part"`` each part has a holder of its own, and only
    tokens of one part are comparable."""

    kind: ClassVar[str] = "lock"
    lost_error: ClassVar[type[OfficeLost]] = LockLost

    def __init__(self, *, quorum: Quorum = "majority") -> None:
        super().__init__(quorum=quorum)
        self._numbers = count(1)
        self._requests: dict[int, asyncio.Future[Holding]] = {}
        self._entered: dict[asyncio.Task[Any] | None, list[Holding]] = {}

    async def acquire(self, *, timeout: float | None = None) -> Holding:
        """Waits for the lock, behind those who asked before; with ``timeout``, so many seconds, and ``TimeoutError`` if they are
        over. Who is cancelled here waits no longer, and gives the lock back if it has it by then."""
        async with asyncio.timeout(timeout):
            while True:
                holding = await self._ask()
                if holding.is_held:
                    return holding  # else it was lost in the very moment

    async def _ask(self) -> Holding:
        number = next(self._numbers)
        request: asyncio.Future[Holding] = asyncio.get_running_loop().create_future()
        self._requests[number] = request
        try:
            await self.execute([ASK, number])
            return await request
        except BaseException:
            self._decline(number)
            raise
        finally:
            del self._requests[number]

    async def __aenter__(self) -> int:
        holding = await self.acquire()
        self._entered.setdefault(asyncio.current_task(), []).append(holding)
        return await holding.__aenter__()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        task = asyncio.current_task()
        holding = self._entered[task].pop()
        if not self._entered[task]:
            del self._entered[task]
        try:
            await holding.__aexit__(kind, error, traceback)
        except ReplicaOver as over:
            raise LockLost(over.reason) from over

    def held(self, holding: Holding, request: int) -> None:
        waiting = self._requests.get(request)
        if waiting is None or waiting.done():
            self._decline(request)
        else:
            waiting.set_result(holding)

    def _decline(self, request: int) -> None:
        """Nobody here wants the lock any more that was asked for."""
        if self._holding is not None and self._holding.request == request:
            self.note("release", token=self._holding.token)
            self._holding = None
        self.tell([DROP, request])

    def ended(self, reason: Reason) -> None:
        super().ended(reason)
        for waiting in self._requests.values():
            fail(waiting, ReplicaOver(reason))


class Fence:
    """What a resource that a lock protects asks first: ``fence.admit(token)``. ``note`` is called with what it let in, for a
    trace: ``functools.partial(lock.note, "admit")`` writes rows that ``lock-exclusion`` looks at."""

    def __init__(self, resource: str = "resource") -> None:
        self.resource = resource
        self.newest = 0  # the largest token that was let in
        self._admitted = 0

    def admit(self, token: int, note: Callable[..., None] | None = None) -> None:
        """Lets a token in, or raises :class:`StaleToken`."""
        if token < self.newest:
            text = f"{self.resource}: token {token} is older than {self.newest}, whose holder came later"
            raise StaleToken(f"{text}; acquire the lock again")
        self.newest = token
        self._admitted += 1
        if note is not None:
            note(resource=self.resource, token=token, number=self._admitted)
