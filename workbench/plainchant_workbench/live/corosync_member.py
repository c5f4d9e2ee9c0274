"""One client of a Corosync daemon: closed process groups through libcpg, by ctypes. Started by ``plainchant bench live``.

Messages are sent with the guarantee "agreed" (one order for all) as long as the daemon takes them; what it does not take now
is tried again after reading.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import queue
import select
import struct
import time
from typing import Any, Final

from .processes import BenchError, enter, listen_apart, tell, telling_errors
from .recorder import Recorder, summary

OK: Final = 1
TRY_AGAIN: Final = 6
DISPATCH_ALL: Final = 2
AGREED: Final = 2
GROUP: Final = b"bench"
HEADER: Final = struct.Struct(">BQ")
"""Sender and number, at the beginning of a message."""
START_SECONDS: Final = 15.0
AT_ONCE: Final = 64


class Name(ctypes.Structure):
    """``struct cpg_name``."""

    _fields_ = [("length", ctypes.c_uint32), ("value", ctypes.c_char * 128)]


class Vector(ctypes.Structure):
    """``struct iovec``."""

    _fields_ = [("base", ctypes.c_char_p), ("length", ctypes.c_size_t)]


_DELIVER = ctypes.CFUNCTYPE(
    None, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t
)
_CHANGE = ctypes.CFUNCTYPE(
    None,
    ctypes.c_uint64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
)


class Callbacks(ctypes.Structure):
    """``cpg_callbacks_t``."""

    _fields_ = [("deliver", _DELIVER), ("change", _CHANGE)]


class Member:
    """What the process does with its group."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._number: int = task["number"]
        self._names: list[str] = task["names"]
        self._padding = bytes(task["size"] - HEADER.size)
        self._recorder = Recorder()
        self._sent = 0
        self._mine = 0
        self._present = 0
        self._failure: BenchError | None = None
        self._library = ctypes.CDLL(ctypes.util.find_library("cpg"))
        self._library.cpg_dispatch.argtypes = [ctypes.c_uint64, ctypes.c_int]
        self._library.cpg_mcast_joined.argtypes = [ctypes.c_uint64, ctypes.c_int, ctypes.POINTER(Vector), ctypes.c_uint]
        self._callbacks = Callbacks(_DELIVER(self._on_message), _CHANGE(self._on_change))
        self._handle = ctypes.c_uint64()
        self._poll = select.poll()
        self._questions: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        listen_apart(self._questions.put)

    def join(self) -> None:
        """Joins, once the daemon is there, and waits for the others."""
        deadline = time.monotonic() + START_SECONDS
        self._retry(lambda: self._library.cpg_initialize(ctypes.byref(self._handle), ctypes.byref(self._callbacks)), deadline)
        descriptor = ctypes.c_int()
        self._retry(lambda: self._library.cpg_fd_get(self._handle, ctypes.byref(descriptor)), deadline)
        self._poll.register(descriptor.value, select.POLLIN)
        name = Name(len(GROUP), GROUP)
        self._retry(lambda: self._library.cpg_join(self._handle, ctypes.byref(name)), deadline)
        while self._present < len(self._names):
            if time.monotonic() > deadline:
                raise BenchError(f"only {self._present} of {len(self._names)} members came into the group")
            self._read(10)

    def _retry(self, call: Any, deadline: float) -> None:
        while (status := call()) != OK:
            if time.monotonic() > deadline:
                raise BenchError(f"the daemon did not let us in: libcpg says {status}")
            time.sleep(0.05)

    # --- reading and sending ---

    def _on_message(self, handle: int, group: Any, node: int, pid: int, message: int, length: int) -> None:
        try:
            sender, number = HEADER.unpack(ctypes.string_at(message, length)[: HEADER.size])
            self._recorder.order.run(self._names[sender], number, 1)
        except BenchError as error:
            self._failure = error
            return
        if sender == self._number:
            self._mine += 1

    def _on_change(
        self, handle: int, group: Any, members: Any, count: int, left: Any, left_count: int, joined: Any, joined_count: int
    ) -> None:
        self._present = count

    def _read(self, milliseconds: int) -> None:
        """Takes everything that has come; waits so long for something."""
        if self._poll.poll(milliseconds):
            status = self._library.cpg_dispatch(self._handle, DISPATCH_ALL)
            if status not in (OK, TRY_AGAIN):
                raise BenchError(f"the daemon is gone: libcpg says {status}")
            if self._failure is not None:
                raise self._failure
            self._recorder.sample(time.monotonic_ns())

    def _send(self) -> bool:
        """Whether the daemon took a message."""
        message = HEADER.pack(self._number, self._sent + 1) + self._padding
        vector = Vector(message, len(message))
        status = self._library.cpg_mcast_joined(self._handle, AGREED, ctypes.byref(vector), 1)
        if status == OK:
            self._sent += 1
        elif status != TRY_AGAIN:
            raise BenchError(f"a message was not taken: libcpg says {status}")
        return bool(status == OK)

    # --- doing ---

    def flood(self, question: dict[str, Any]) -> dict[str, Any]:
        """Sends as much as the daemon takes."""
        while time.monotonic_ns() < question["begin"]:
            self._read(1)
        while time.monotonic_ns() < question["end"]:
            sent = 0
            while question["send"] and sent < AT_ONCE and self._send():
                sent += 1
            self._read(0 if sent == AT_ONCE else 1)
        return {"sent": self._sent}

    def closed(self, question: dict[str, Any]) -> dict[str, Any]:
        """One message at a time, the next when the last is delivered here."""
        trips: list[int] = []
        end = time.monotonic_ns() + round(question["seconds"] * 1e9)
        while question["send"] and time.monotonic_ns() < end:
            began = time.monotonic_ns()
            while not self._send():
                self._read(1)
            while self._mine < self._sent:
                self._read(10)
            trips.append(time.monotonic_ns() - began)
        return {"sent": self._sent, "trips": summary(trips[len(trips) // 10 :])}

    def drain(self, question: dict[str, Any]) -> dict[str, Any]:
        """Until everything is delivered here."""
        while self._recorder.order.counts != question["expected"]:
            self._read(10)
        return self._recorder.report()

    def run(self) -> None:
        """The whole life of the process: it reads while nothing is asked."""
        self.join()
        tell({})
        while True:
            if self._questions.empty():
                self._read(1)
                continue
            question = self._questions.get()
            if question is None:
                return
            tell(getattr(self, question["do"])(question))


def main() -> None:
    with telling_errors():
        Member(enter()).run()


if __name__ == "__main__":
    main()
