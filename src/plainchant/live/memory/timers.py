"""A timer that wakes an event loop when the system's clock shows a time, to the microsecond.

Event loops wait in whole milliseconds (``epoll``), too long for shared memory. On Linux a timer is a file that becomes readable
when it is due (``timerfd``); it goes by the system's clock itself, so it is right after that is set, too. Elsewhere the loop's
own timers have to do.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Final

_ABSOLUTE: Final = 1
_SECOND: Final = 1_000_000_000
_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC


class _Spec(ctypes.Structure):
    """``struct itimerspec``."""

    _fields_ = [(name, ctypes.c_long) for name in ("interval_seconds", "interval_nanoseconds", "seconds", "nanoseconds")]


class ClockTimer:
    """Calls ``due`` when the system's clock shows the time that was asked for last."""

    def __init__(self, due: Callable[[], None]) -> None:
        self._due = due
        self._loop = asyncio.get_running_loop()
        self._time: int | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._spec = _Spec()
        self._file = -1
        if sys.platform == "linux":
            library = ctypes.CDLL(None, use_errno=True)
            self._set = library.timerfd_settime
            self._set.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
            self._file = library.timerfd_create(time.CLOCK_REALTIME, _FLAGS)
        if self._file >= 0:
            self._address = ctypes.addressof(self._spec)
            self._loop.add_reader(self._file, self._read)

    def set(self, at: int | None) -> None:
        """Wakes at this time, ns of ``time.time_ns``, and not when it was to wake before; None: never."""
        if at == self._time:
            return
        self._time = at
        if self._file < 0:
            self._call(at)
            return
        # A time of 0 would switch the timer off.
        self._spec.seconds, self._spec.nanoseconds = divmod(max(1, at), _SECOND) if at is not None else (0, 0)
        self._set(self._file, _ABSOLUTE, self._address, None)

    def _call(self, at: int | None) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        if at is not None:
            self._handle = self._loop.call_later(max(0, at - time.time_ns()) / _SECOND, self._wake)

    def _read(self) -> None:
        try:
            os.read(self._file, 8)
        except BlockingIOError:
            return  # it was set anew meanwhile
        self._wake()

    def _wake(self) -> None:
        self._time = None
        self._due()

    def close(self) -> None:
        self._call(None)
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1
