"""One member of a PySyncObj cluster (Raft in Python), driven as hard as it goes. Started by ``plainchant bench live``.

Tuned in its favour: no journal and no dump, no log compaction while it is measured, ticks by hand in a loop that waits on the
sockets (no second thread), entries sent in batches every ``period`` (its default of 100 ms is what a round trip takes by
default) or at once, large buffers, and a window of messages under way at each sender. A message is a call of a replicated
method. Member 0 is made leader by its election timeout.
"""

from __future__ import annotations

import queue
import struct
import time
from collections.abc import Callable
from typing import Any, Final

from pysyncobj import SyncObj, SyncObjConf, replicated  # type: ignore[import-untyped]

from .processes import enter, listen_apart, tell, telling_errors
from .recorder import Recorder, summary

HEADER: Final = struct.Struct(">BQ")
"""Sender and number, at the beginning of a message."""
NEVER: Final = 10**9


class Replica(SyncObj):  # type: ignore[misc]  # it has no types
    """The replicated object: it only counts what it gets."""

    def __init__(self, task: dict[str, Any], delivered: Callable[[bytes], None]) -> None:
        self._delivered = delivered
        number = task["number"]
        soon = (0.3, 0.5) if number == 0 else (3.0, 6.0)
        super().__init__(
            task["addresses"][number],
            [address for other, address in enumerate(task["addresses"]) if other != number],
            SyncObjConf(
                autoTick=False,
                appendEntriesUseBatch=task["batch"],
                appendEntriesPeriod=task["period"],
                commandsQueueSize=1_000_000,
                connectionRetryTime=0.1,
                connectionTimeout=30.0,
                raftMinTimeout=soon[0],
                raftMaxTimeout=soon[1],
                logCompactionMinEntries=NEVER,
                logCompactionMinTime=NEVER,
                sendBufferSize=task["buffer"],
                recvBufferSize=task["buffer"],
            ),
        )

    @replicated  # type: ignore[untyped-decorator]
    def put(self, message: bytes) -> None:
        self._delivered(message)


class Member:
    """What the process does with its replica."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._number: int = task["number"]
        self._names: list[str] = task["names"]
        self._window: int = task["window"]
        self._wait: float = task["wait"]
        self._padding = bytes(task["size"] - HEADER.size)
        self._recorder = Recorder()
        self._sent = 0
        self._mine = 0
        self._replica = Replica(task, self._deliver)
        self._questions: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        listen_apart(self._questions.put)

    def _deliver(self, message: bytes) -> None:
        sender, number = HEADER.unpack_from(message)
        self._recorder.order.run(self._names[sender], number, 1)
        if sender == self._number:
            self._mine += 1

    def _send(self) -> None:
        self._sent += 1
        self._replica.put(HEADER.pack(self._number, self._sent) + self._padding)

    def _tick(self, wait: float | None = None) -> None:
        self._replica.doTick(self._wait if wait is None else wait)
        self._recorder.sample(time.monotonic_ns())

    def ready(self) -> None:
        """Until there is a leader that everybody knows."""
        while not (self._replica.isReady() and self._replica._getLeader() is not None):
            self._tick()

    def flood(self, question: dict[str, Any]) -> dict[str, Any]:
        """Keeps a window of messages under way."""
        while time.monotonic_ns() < question["begin"]:
            self._tick()
        while time.monotonic_ns() < question["end"]:
            if question["send"]:
                while self._sent - self._mine < self._window:
                    self._send()
            self._tick()
        return {"sent": self._sent}

    def closed(self, question: dict[str, Any]) -> dict[str, Any]:
        """One message at a time, the next when the last is applied here."""
        trips: list[int] = []
        end = time.monotonic_ns() + round(question["seconds"] * 1e9)
        while question["send"] and time.monotonic_ns() < end:
            began = time.monotonic_ns()
            self._send()
            while self._mine < self._sent:
                self._tick()
            trips.append(time.monotonic_ns() - began)
        return {"sent": self._sent, "trips": summary(trips[len(trips) // 10 :])}

    def drain(self, question: dict[str, Any]) -> dict[str, Any]:
        """Until everything is applied here."""
        while self._recorder.order.counts != question["expected"]:
            self._tick()
        return self._recorder.report()

    def run(self) -> None:
        """The whole life of the process: ticks go on while nothing is asked."""
        self.ready()
        tell({})
        while True:
            if self._questions.empty():
                self._tick()
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
