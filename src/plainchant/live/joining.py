"""``async with ...join(...) as group``: a membership from entering the group to leaving it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Final, Protocol

from ..core.model import BOTH, PlainchantError, Reason, UsageError
from ..group import Buffers, Group, Halted, LeaveTimeout
from ..layers.state import STATE_LOST
from .rendezvous import LOST_BEGINNING

NO_GROUP: Final = "no group"  # why a protocol halts a process that is not admitted: those that it asked may be gone
COME_BACK: Final = (LOST_BEGINNING, NO_GROUP, STATE_LOST)  # reasons for which ``join`` starts again by itself, within its time


class Process(Protocol):
    """The node, as far as a membership needs it."""

    @property
    def is_closed(self) -> bool: ...
    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def enter(self, name: str, first: tuple[str, ...], timeout: float, buffers: Buffers, role: str) -> Group: ...
    def finish(self, group: str) -> None: ...


class Joining:
    """A membership from its beginning to its end: what ``join`` returns, for ``async with``."""

    def __init__(
        self,
        process: Process,
        name: str,
        first: tuple[str, ...],
        timeout: float,
        leave_timeout: float,
        buffers: Buffers,
        role: str = BOTH,
    ) -> None:
        self._process = process
        self._make_process: Callable[[], Process] | None = None  # makes another process, for a membership that has one of its own
        self._name, self._first, self._timeout, self._leave_timeout = name, first, timeout, leave_timeout
        self._buffers, self._role = buffers, role
        self._group: Group | None = None

    def own_process(self, make: Callable[[], Process]) -> Joining:
        """The process is this membership's own: it is opened and closed with it, and made again to start again."""
        self._make_process = make
        return self

    def __await__(self) -> Generator[Any, None, Group]:
        raise UsageError(f"a membership has an end: write `async with ...join({self._name!r}, ...) as group` instead of `await`")

    async def __aenter__(self) -> Group:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        if self._make_process is not None and self._process.is_closed:
            self._process = self._make_process()
        while True:
            try:
                return await self._enter(deadline - loop.time())
            except Halted as halted:
                # A process of its own comes back as a new one, as if it had been started again.
                if self._make_process is None or halted.reason.code not in COME_BACK or loop.time() >= deadline:
                    raise
                self._process = self._make_process()

    async def _enter(self, timeout: float) -> Group:
        if self._make_process is not None:
            await self._process.open()
        try:
            self._group = await self._process.enter(self._name, self._first, timeout, self._buffers, self._role)
        except BaseException:
            if self._make_process is not None:
                await self._process.close()
            raise
        return self._group

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        group = self._group
        assert group is not None
        try:
            await self._leave(group, error)
        finally:
            if group.changes:
                self._process.finish(group.name)
            if self._make_process is not None:
                await self._process.close()

    async def _leave(self, group: Group, error: BaseException | None) -> None:
        group.stop_listening()
        problem: PlainchantError | None = None
        try:
            async with asyncio.timeout(self._leave_timeout):
                await group.finish()
        except TimeoutError:
            waiting = group.waiting()
            what = "left {} without being let go" if group.changes else "ended its part in {}, which was not at rest"
            text = (
                f"{group.me} {what.format(group.name)} in {self._leave_timeout:g} s "
                f"({waiting.text if waiting is not None else 'nothing is waited for'}); "
                f"{group.metrics()['queued']} accepted messages were not sent"
            )
            problem = LeaveTimeout(Reason("leave timeout", text))
        except Halted as halted:
            problem = None if isinstance(error, Halted) else halted
        if problem is not None:
            if error is None:
                raise problem
            error.add_note(str(problem))
