"""What processes of one machine hand each other without a group: ``multiprocessing.Queue`` and Unix socket pairs.

Theory of operation
-------------------
Three processes receive, and one, or three others, send everything to all three: into one queue a receiver, or into one socket
pair a receiver (``SOCK_SEQPACKET``, which keeps messages apart), whose writing end all senders share. That is the arrangement
that suits these best: nobody both sends and receives. Nothing is ordered but each sender's own messages, and if a sender dies
some receivers may have its last message and others not: it is what Python has at hand, for less.

Queues can only be inherited, so all of them are children of one process, which passes questions and answers on. They end when it
does, and by their own alarm. :class:`Handover` is that process for whoever measures.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import struct
import threading
import time
from multiprocessing.connection import Connection
from typing import Any, Final, Protocol

from .plan import QUEUE, Senders
from .processes import LIFE_SECONDS, BenchError, Crew, enter, listen, tell, telling_errors
from .recorder import Recorder
from .session import SECOND, SOON, Flood, flood_of

MODULE: Final = "plainchant_workbench.live.handover"
RECEIVERS: Final = 3
HEADER: Final = struct.Struct(">BQ")
"""Sender and number, at the beginning of a message; number 0: it has no more."""
BUFFER: Final = 4 << 20
"""Bytes of a socket's buffer; the system may grant less."""
UNDER_WAY: Final = 4 << 20
"""Bytes in a queue, at the most."""
LARGEST: Final = 1 << 20
AT_ONCE: Final = 16
"""Messages between two looks at the clock."""


class Channel(Protocol):
    """How processes reach all receivers, and are reached."""

    def send(self, message: bytes) -> None:
        """To all receivers; waits for room."""

    def receive(self, number: int) -> bytes:
        """The next message for a receiver."""


class Queues:
    """A queue for each receiver."""

    def __init__(self, size: int) -> None:
        context = multiprocessing.get_context("fork")
        self._inboxes = [context.Queue(max(1, UNDER_WAY // size)) for _ in range(RECEIVERS)]

    def send(self, message: bytes) -> None:
        for inbox in self._inboxes:
            inbox.put(message)

    def receive(self, number: int) -> bytes:
        message: bytes = self._inboxes[number].get()
        return message


class Pairs:
    """A socket pair for each receiver."""

    def __init__(self) -> None:
        self._pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(RECEIVERS)]
        for out, _ in self._pairs:
            out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)

    def send(self, message: bytes) -> None:
        for out, _ in self._pairs:
            out.send(message)

    def receive(self, number: int) -> bytes:
        return self._pairs[number][1].recv(LARGEST)


class Handover:
    """Processes that hand each other messages of a size. A context manager: leaving it ends them all."""

    def __init__(self, kind: str, size: int, senders: Senders = "one") -> None:
        self._senders = 1 if senders == "one" else RECEIVERS
        self._crew = Crew(MODULE, [{"kind": kind, "size": size, "senders": self._senders}])

    def __enter__(self) -> Handover:
        self._crew.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._crew.__exit__(*exception)

    def flood(self, warm: float, seconds: float) -> Flood:
        """Sends as much as there is room for, for a time."""
        self._crew.answers()
        begin = time.monotonic_ns() + round(SOON * SECOND)
        counted = begin + round(warm * SECOND)
        end = counted + round(seconds * SECOND)
        reports = self._ask({"begin": begin, "end": end}, warm + seconds)
        samples = [report["samples"] for report in reports]
        return flood_of(samples[:RECEIVERS], counted, end, samples[RECEIVERS:])

    def delays(self, messages: int, period: float) -> list[int]:
        """Each sender sends a message every ``period`` seconds: how long each took to each receiver, in ns."""
        self._crew.answers()
        reports = self._ask({"messages": messages, "period": period}, messages * period)
        sent = [report["times"] for report in reports[RECEIVERS:]]
        return [
            there - sent[sender][position - 1] for report in reports[:RECEIVERS] for sender, position, there in report["arrivals"]
        ]

    def _ask(self, question: dict[str, Any], seconds: float) -> list[dict[str, Any]]:
        (answer,) = self._crew.ask(question, seconds=seconds)
        reports: list[dict[str, Any]] = answer["reports"]
        expected = {f"s{number}": report["sent"] for number, report in enumerate(reports[RECEIVERS:])}
        for number, report in enumerate(reports[:RECEIVERS]):
            if report["counts"] != expected:
                raise BenchError(f"{expected} were sent, and receiver {number} got {report['counts']}")
        return reports


# --- the side of the processes ------------------------------------------------------------------------------------------


def _receive(number: int, channel: Channel, task: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
    """Receives until no sender has any more."""
    recorder = Recorder()
    arrivals = []
    open_, size, timed = task["senders"], task["size"], "period" in question
    while open_:
        message = channel.receive(number)
        now = time.monotonic_ns()
        sender, position = HEADER.unpack_from(message)
        if not position:
            open_ -= 1
            continue
        if len(message) != size:
            raise BenchError(f"message {position} of sender {sender} has not {size} bytes, as it was sent")
        recorder.order.run(f"s{sender}", position, 1)
        if timed:
            arrivals.append((sender, position, now))
        recorder.sample(now)
    return {**recorder.report(), "arrivals": arrivals}


def _send(number: int, channel: Channel, task: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
    """Sends as it is told, and that there is no more."""
    recorder = Recorder()
    padding = bytes(task["size"] - HEADER.size)
    times = []
    sent = 0
    if "period" in question:
        for sent in range(1, question["messages"] + 1):
            times.append(time.monotonic_ns())
            channel.send(HEADER.pack(number, sent) + padding)
            time.sleep(question["period"])
    else:
        time.sleep(max(0, question["begin"] - time.monotonic_ns()) / SECOND)
        while time.monotonic_ns() < question["end"]:
            for _ in range(AT_ONCE):
                sent += 1
                channel.send(HEADER.pack(number, sent) + padding)
            recorder.sample(time.monotonic_ns())
    channel.send(HEADER.pack(number, 0) + padding)
    return {"sent": sent, "times": times, "samples": recorder.samples}


def _child(number: int, channel: Channel, control: Connection, task: dict[str, Any]) -> None:
    """A receiver, or a sender: it does one thing and ends."""
    signal.alarm(LIFE_SECONDS)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    question = control.recv()
    try:
        if number < RECEIVERS:
            report = _receive(number, channel, task, question)
        else:
            report = _send(number - RECEIVERS, channel, task, question)
    except Exception as error:  # the boundary of a process: whoever started it decides
        report = {"error": f"{type(error).__name__}: {error}"}
    control.send(report)


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def main() -> None:
    """The process between the others and whoever measures."""
    with telling_errors():
        task = enter(pinned=False)
        context = multiprocessing.get_context("fork")
        channel: Channel = Queues(task["size"]) if task["kind"] == QUEUE else Pairs()
        controls, pids = [], []
        for number in range(RECEIVERS + task["senders"]):
            control, theirs = context.Pipe()
            child = context.Process(target=_child, args=(number, channel, theirs, task), daemon=True)
            child.start()
            theirs.close()
            controls.append(control)
            pids.append(child.pid)
        tell({"pids": pids})
        while (question := listen()) is not None:
            for control in controls:
                control.send(question)
            tell({"reports": [_report(number, control) for number, control in enumerate(controls)]})


def _report(number: int, control: Connection) -> dict[str, Any]:
    try:
        report: dict[str, Any] = control.recv()
    except EOFError:
        raise BenchError(f"process {number} has ended and said nothing") from None
    if "error" in report:
        raise BenchError(f"process {number}: {report['error']}")
    return report


if __name__ == "__main__":
    main()
