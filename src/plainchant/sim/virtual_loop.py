"""An asyncio event loop on virtual time: one for each simulated member, stepped by the simulator.

Theory of operation
-------------------
The loop never waits. Callbacks that are ready are run by :meth:`VirtualLoop.step`; its driver is told by ``wake`` that there are
some, and asks :meth:`VirtualLoop.due` when the next timer is. Time is the driver's, in whole nanoseconds; a timer that is set for
later than now is at least one nanosecond away, so that waiting always makes time go on.

Everything happens in the order in which it was asked for: callbacks first in, first out, timers by time and then by order.
Tasks and asynchronous generators that are left over are ended in the order in which they began. There is no real input and
output, and no thread: what would need either is refused.

**A crash runs nothing.** The tasks of a crashed process stay as they are for ever: no ``finally``, no ``except``, no
cancellation. Python can only discard a suspended coroutine by running its ``finally`` blocks, so they are not discarded: they are
laid to rest in a list that outlives even the interpreter's own tidying up. What they hold of the simulation is cut off before.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import sys
import weakref
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple, Unpack

from ..core.model import SECOND, UsageError

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")
_CANCELLED_TIMERS: Final = 100  # with more cancelled timers than this, and more than half of all, they are swept out

_AT_REST: Final[list[Any]] = []


def lay_to_rest(remains: object) -> None:
    """Keeps something for ever, so that nothing of it runs any more."""
    if not _AT_REST:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_AT_REST))
    _AT_REST.append(remains)


class NotSimulated(UsageError):
    """A simulated member asked for something of the real world: a socket, a thread, a signal, a subprocess."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """The event loop of one simulated member, whose name errors mention."""

    def __init__(self, member: str, clock: Callable[[], int], wake: Callable[[], None]) -> None:
        self._member = member
        self._clock = clock
        self._wake = wake
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._cancelled_timers = 0
        self._order = count()
        self._names = count(1)
        self._tasks: weakref.WeakValueDictionary[int, asyncio.Task[Any]] = weakref.WeakValueDictionary()
        self._generators: weakref.WeakValueDictionary[int, AsyncGenerator[Any, Any]] = weakref.WeakValueDictionary()
        self._task_factory: Any = None
        self._exception_handler: Any = None
        self._stopped = False
        self.handled = 0  # callbacks that have run
        self.slow_callback_duration = 0.1

    def step(self) -> None:
        """Runs what is ready now; what becomes ready meanwhile waits for the next step."""
        now = self._clock()
        ready, timers = self._ready, self._timers
        while timers and timers[0][0] <= now:
            timer = heappop(timers)[2]
            timer._scheduled = False  # type: ignore[attr-defined]  # as asyncio's own loops do
            if timer.cancelled():
                self._cancelled_timers -= 1
            else:
                ready.append(timer)
        with self.running():
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle.cancelled():
                    self.handled += 1
                    handle._run()

    def due(self) -> int | None:
        """When the next timer is due, in ns; None if there is none."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heappop(timers)
            self._cancelled_timers -= 1
        return timers[0][0] if timers else None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Inside, this is the running loop."""
        hooks = sys.get_asyncgen_hooks()
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(firstiter=self._generator_begins, finalizer=self._generator_is_lost)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(None)

    def crash(self) -> None:
        """Nothing of this loop runs ever again."""
        self._stopped = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # nobody is to be told of it
        lay_to_rest((tasks, list(self._generators.values()), self._ready, self._timers))

    def release(self) -> None:
        """The simulation is over: lets go of it. Time stands still from here on."""
        now = self._clock()
        self._clock = lambda: now
        self._wake = lambda: None
        self._stopped = True

    def tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks that are not done, in the order in which they began."""
        return [task for _, task in sorted(self._tasks.items()) if not task.done()]

    def time(self) -> float:
        return self._clock() / SECOND

    def call_soon(
        self, callback: Callable[[Unpack[_Arguments]], object], *args: *_Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        self._wake()
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[_Arguments]], object], *args: *_Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        if events._get_running_loop() is not self:
            _refuse(self._member, "call_soon_threadsafe from another thread")
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[_Arguments]], object], *args: *_Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[_Arguments]], object], *args: *_Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        now = self._clock()
        due = round(when * SECOND)
        if due <= now and when > now / SECOND:
            due = now + 1
        heappush(self._timers, (due, next(self._order), timer))
        timer._scheduled = True  # type: ignore[attr-defined]
        self._wake()
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > _CANCELLED_TIMERS and 2 * self._cancelled_timers > len(self._timers):
            for _, _, timer in self._timers:
                timer._scheduled = not timer.cancelled()  # type: ignore[attr-defined]
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapify(self._timers)
            self._cancelled_timers = 0

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, _Result] | Generator[Any, None, _Result],
        *,
        name: object = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[_Result]:
        number = next(self._names)
        if self._task_factory is not None:
            given = options if context is None else {**options, "context": context}
            task: asyncio.Task[_Result] = self._task_factory(self, coro, **given)
        else:
            task = asyncio.Task(coro, loop=self, context=context, **options)
        task.set_name(f"Task-{number}" if name is None else str(name))
        self._tasks[number] = task
        return task

    def set_task_factory(self, factory: Any) -> None:
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        return self._task_factory

    def _generator_begins(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[next(self._names)] = generator

    def _generator_is_lost(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self._stopped:
            lay_to_rest(generator)
        else:
            self.create_task(generator.aclose())

    async def shutdown_asyncgens(self) -> None:
        for _, generator in sorted(self._generators.items()):
            try:
                await generator.aclose()
            except Exception as error:
                message = f"an error occurred while closing the asynchronous generator {generator!r}"
                self.call_exception_handler({"message": message, "exception": error, "asyncgen": generator})
        self._generators.clear()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    def set_exception_handler(self, handler: Any) -> None:
        self._exception_handler = handler

    def get_exception_handler(self) -> Any:
        return self._exception_handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Says it in asyncio's log, as any loop does."""
        message = context.get("message") or "unhandled exception in the event loop"
        error = context.get("exception")
        details = [f"{key}: {context[key]!r}" for key in sorted(context) if key not in ("message", "exception")]
        text = "\n".join([f"{self._member} at {self.time():g} s: {message}", *details])
        logging.getLogger("asyncio").error(
            text, exc_info=(type(error), error, error.__traceback__) if error is not None else False
        )

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._stopped:
            return
        if self._exception_handler is None:
            self.default_exception_handler(context)
        else:
            self._exception_handler(self, context)

    def is_running(self) -> bool:
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._stopped

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Debugging measures real time: there is nothing to measure here."""

    def __repr__(self) -> str:
        return f"<VirtualLoop of {self._member} at {self.time():g} s>"


def _refuse(member: str, call: str) -> NoReturn:
    raise NotSimulated(
        f"real I/O inside a simulated member: {member} called {call}; a simulated member has virtual time and its group, and "
        f"nothing else: give main what it needs from outside (an object that a test can replace), or run it live"
    )


def _refusal(name: str) -> Callable[..., Any]:
    def refused(self: VirtualLoop, *args: Any, **options: Any) -> Any:
        _refuse(self._member, name)

    refused.__name__ = name
    return refused


for _name in dir(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and _name not in vars(VirtualLoop):
        setattr(VirtualLoop, _name, _refusal(_name))
