"""A worker process as its supervisor sees it: it is started, gets commands as lines, and is watched until it has exited.

A process is *running* from its start until it is known to have exited. How it ended follows from its last report, from what the
supervisor did to it, and from its exit status; an end that none of these explains is *unexpected*.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from ...core.model import SECOND, PlainchantError
from ...core.names import process_name
from ...group.waiting import fail
from ...scenario.model import SLICE
from ...scenario.outcome import ProcessEnd
from . import control

WORKER: Final = ("-m", "plainchant.lab.live.worker")  # what Python is started with
ANSWER_SECONDS: Final = 5.0  # how long a worker may take to answer before it is taken to be busy
EXIT_SECONDS: Final = 10.0  # how long a worker may take to exit after its last word
WHERE_SECONDS: Final = 1.0  # how long a worker that hangs is given to say where it is
_LONGEST_LINE: Final = 1 << 20
_LONGEST_STORY: Final = 20_000
_LAST_WORDS: Final = 400  # characters of a dead worker's complaint that are told


class LiveError(PlainchantError):
    """A live run that cannot be: processes do not start, or do not find each other."""


class Process:
    """One worker. Made idle; :meth:`employ` gives it a task."""

    _numbers = itertools.count(1)

    def __init__(self, errors: Path, within: Sequence[str] = ()) -> None:
        """``errors``: the file for its complaints; ``within``: the command that it is started under."""
        self.place = self.name = ""
        self.entered: dict[str, None] = {}
        self.parameters: dict[str, Any] | None = None
        self.serves = False  # whether it takes part without being in a group
        self.leaving = False
        self.paused_until = 0
        self.doomed = False
        self.killed = ""  # why we killed it, if we did
        self.unexpected = ""  # how it ended, if neither the scenario nor the supervisor caused that
        self.end: ProcessEnd | None = None
        self.status = control.Status(0, None, 0, 0, 0)
        self.is_awake = False  # whether it has sent a report; until then it is starting, which is slow on a busy machine
        self.unanswered = 0  # consecutive status requests that it left unanswered while it was awake
        self.stuck = ""  # its stacks when it was found to hang, if it was
        self.last_word: control.Over | None = None
        self._errors = errors
        self._answers: dict[int, asyncio.Future[control.Done | control.Status]] = {}
        self._changed: Callable[[Process], None] = lambda process: None
        with errors.open("wb") as file:
            self._popen = subprocess.Popen(
                [*within, sys.executable, *WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file
            )
        self._busy_until = 0
        self._slowing: asyncio.Task[None] | None = None
        self._writer: asyncio.WriteTransport | None = None
        self._unsaid: list[bytes] = []  # lines to write once its standard input is connected: its task first
        self._ear: asyncio.ReadTransport | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self.end is None

    @property
    def listens(self) -> bool:
        """Whether it runs and is not stopped."""
        return self.end is None and not self.paused_until

    async def employ(self, task: control.Task, changed: Callable[[Process], None]) -> None:
        """Gives it its task; ``changed`` is called when it has entered a group or begun to serve, and when it is gone."""
        self.place = task.place
        self.name = process_name(task.place, task.incarnation)
        self._changed = changed
        # Commands may come while the pipes are being connected: they are written after the task, and none is lost.
        self._write(task)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LONGEST_LINE)
        self._ear, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._popen.stdout)
        self._writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self._popen.stdin)
        self._writer.write(b"".join(self._unsaid))
        self._unsaid.clear()
        self._reading = loop.create_task(self._read(reader))

    def tell(self, command: control.Command) -> None:
        """Sends a command that needs no answer; a process that is stopped reads it when it continues."""
        if self.running:
            self._write(command)

    async def ask(self, make: Callable[[int], control.Command]) -> control.Done | control.Status | None:
        """Sends a command and waits for the answer; None if it is gone or too busy to answer."""
        if not self.running:
            return None
        number = next(self._numbers)
        answer: asyncio.Future[control.Done | control.Status] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self._write(make(number))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await answer
        except (TimeoutError, _Gone):
            return None
        finally:
            self._answers.pop(number, None)

    def _write(self, message: control.Task | control.Command) -> None:
        if self._writer is None:
            self._unsaid.append(control.line(message))
        elif not self._writer.is_closing():
            self._writer.write(control.line(message))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while text := await reader.readline():
                self._heard(control.decode_report(text))
        except (msgspec.MsgspecError, ValueError) as error:
            self.unexpected = f"said something that is no report ({error}) and was killed"
            self._popen.kill()
        await self._exited()

    def _heard(self, report: control.Report) -> None:
        self.is_awake = True
        match report:
            case control.Entered() | control.Serving():
                self.name, self.parameters = report.name, report.parameters
                if isinstance(report, control.Entered):
                    self.entered[report.group] = None
                else:
                    self.serves = True
                self._changed(self)
            case control.Over():
                self.last_word = report
            case control.Spared():
                self.doomed = False
            case control.Done() | control.Status():
                if isinstance(report, control.Status):
                    self.status = report
                answer = self._answers.get(report.id)
                if answer is not None and not answer.done():
                    answer.set_result(report)

    def kill(self, why: str) -> None:
        """Ends it with SIGKILL."""
        if self._signal(signal.SIGKILL):
            self.killed = self.killed or why

    def pause(self, until: int) -> None:
        """Stops it until a time, ns of the monotonic clock; a longer pause that is under way stays. A timer of its own ends it,
        as the agenda of faults may wait for other processes, and the pause must not last longer than the trace says."""
        if self._signal(signal.SIGSTOP):
            self.paused_until = max(until, self.paused_until)
            self._end_pause()

    def _end_pause(self) -> None:
        left = self.paused_until - time.monotonic_ns()
        if left > 0:
            asyncio.get_running_loop().call_later(left / SECOND, self._end_pause)
        else:
            self.resume()

    def keep_busy(self, until: int, share: float) -> None:
        """Stops it for a share of every :data:`SLICE` until a time."""
        self._busy_until = max(self._busy_until, until)
        if self._slowing is None or self._slowing.done():
            self._slowing = asyncio.get_running_loop().create_task(self._stop_and_go(share))

    async def _stop_and_go(self, share: float) -> None:
        try:
            while self.running and time.monotonic_ns() < self._busy_until:
                self._signal(signal.SIGSTOP)
                await asyncio.sleep(share * SLICE / SECOND)
                self._go_on()
                await asyncio.sleep((1 - share) * SLICE / SECOND)
        finally:
            self._go_on()

    def _go_on(self) -> None:
        if not self.paused_until:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> bool:
        is_there = self.running and self._popen.poll() is None
        if is_there:
            self._popen.send_signal(number)
        return is_there

    def relax(self) -> None:
        """Ends its pause and its busy time."""
        self._busy_until = 0
        if self._slowing is not None:
            self._slowing.cancel()
        self.resume()

    def resume(self) -> None:
        """Lets it go on."""
        if self.paused_until:
            self.paused_until = 0
            self._signal(signal.SIGCONT)

    async def gone(self, seconds: float) -> bool:
        """Waits until it is gone, for at most this long; whether it is."""
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=seconds)
        return not self.running

    async def _exited(self) -> None:
        """Its standard output has ended: it has exited, or is about to."""
        deadline = time.monotonic() + EXIT_SECONDS
        while self._popen.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        if self._popen.poll() is None:
            self.unexpected = f"did not exit in {EXIT_SECONDS:g} s after its last word"
            self._popen.kill()
            self._popen.wait()
        self.end = self._judge(self._popen.returncode)
        self.hang_up()
        self.paused_until = 0
        for answer in self._answers.values():
            fail(answer, _Gone())
        self._changed(self)

    def _judge(self, status: int) -> ProcessEnd:
        word = self.last_word
        if status == 0 and word is not None:
            ends = {"ended": ProcessEnd("alive"), "left": ProcessEnd("left")}
            return ends.get(word.state, ProcessEnd("halted", word.reason))
        if status == -signal.SIGKILL and self.killed:
            return ProcessEnd("crashed", self.killed)
        if status == -signal.SIGKILL and self.doomed:
            return ProcessEnd("crashed", "killed itself, as a fault wanted it")
        if not self.unexpected:
            self.unexpected = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
            self.unexpected += self._complaint()
        return ProcessEnd("crashed", self.unexpected)

    @property
    def pid(self) -> int:
        return self._popen.pid

    async def where(self) -> str:
        """The stacks of its threads, and of its tasks if it still reads commands. For a process that hangs."""
        before = self._errors.stat().st_size
        self.tell(control.Where())
        if self.is_awake:  # else the signal would end it
            self._signal(signal.SIGUSR1)
        await self.gone(WHERE_SECONDS)
        return self._errors.read_bytes()[before:].decode(errors="replace")[-_LONGEST_STORY:]

    def _complaint(self) -> str:
        text = self._errors.read_text(errors="replace").strip()
        return f": {text.splitlines()[-1][:_LAST_WORDS]}" if text else ", without a word"

    def hang_up(self) -> None:
        """Closes the pipes to it."""
        for line in (self._writer, self._ear):
            if line is not None:
                line.close()

    def dismiss(self) -> None:
        """Ends it in any case, and returns when it is gone. For the very end: it needs no event loop."""
        if self._popen.poll() is None:
            self._popen.kill()
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


class _Gone(Exception):
    """The process that was asked has exited."""
