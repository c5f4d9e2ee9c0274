"""Processes of a measurement: started, pinned, spoken to in JSON lines, and ended whatever happens.

Theory of operation
-------------------
A :class:`Crew` starts one Python process a member (``python -m MODULE``), tells each its task in one JSON line, and asks
them all the same or different things, one line each way. Every wait has a deadline. A process that stops answering, dies,
or answers ``{"error": ...}`` ends the measurement with a :class:`BenchError`. All processes are killed by their ids when the
crew is left; and if this process is killed itself, they end by their own alarm.

Times that processes tell each other are of ``time.monotonic_ns``, which is one clock for all processes of a machine.

Pinning: where round trips are taken, process number *i* runs on core *i* modulo the cores that this process may use, in the
order of their numbers, because there the price of waking a core decides; raw round trips are pinned by the same rule. Where rates
are taken the system places processes as it likes, as it would for anybody: three members pinned to two cores leave half of
one idle.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from plainchant.core.model import PlainchantError

ANSWER_SECONDS: Final = 20.0
"""How long an answer may take beyond the time that the question itself takes."""
LIFE_SECONDS: Final = 240
"""After so long a member process ends by itself."""


class BenchError(PlainchantError):
    """A measurement that cannot be used: a process failed, hung, or delivered something wrong. ``kind`` is that of the exception
    that ended the process, if one did."""

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class MemberLost(BenchError):
    """A group that is measured has excluded a member."""


def cores() -> list[int]:
    """The cores that this process may use; where the system cannot say, there is no pinning and the list is empty."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def core_of(number: int) -> int | None:
    """The core of process ``number``."""
    usable = cores()
    return usable[number % len(usable)] if usable else None


class Crew:
    """Member processes of one measurement. A context manager: leaving it ends them all."""

    def __init__(
        self,
        module: str,
        tasks: Sequence[dict[str, Any]],
        *,
        pins: Sequence[int] | None = None,
        within: Sequence[Sequence[str]] = (),
    ) -> None:
        """``pins``: the numbers that processes are pinned by, if not their own; ``within``: for each process, the command that it
        is started under, such as ``ip netns exec NAME``."""
        self._module = module
        self._tasks = tasks
        self._pins = range(len(tasks)) if pins is None else pins
        self._within = within
        self._processes: list[subprocess.Popen[bytes]] = []
        self._buffers: list[bytearray] = []

    def __enter__(self) -> Crew:
        try:
            for number, task in enumerate(self._tasks):
                before = list(self._within[number]) if self._within else []
                process = subprocess.Popen(
                    [*before, sys.executable, "-m", self._module],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(_search_path())},
                )
                self._processes.append(process)
                self._buffers.append(bytearray())
                self._write(number, {**task, "core": core_of(self._pins[number]), "number": number})
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def ask(self, question: dict[str, Any] | Sequence[dict[str, Any]], *, seconds: float = 0.0) -> list[dict[str, Any]]:
        """Asks every process, and returns their answers; ``seconds`` is what the work itself takes."""
        questions = [question] * len(self._processes) if isinstance(question, dict) else question
        for number, each in enumerate(questions):
            self._write(number, each)
        return self.answers(seconds=seconds)

    def pin(self, pinned: bool) -> None:
        """Pins every process to its core, or lets the system place them."""
        usable = cores()
        if not usable:
            return
        for process, number in zip(self._processes, self._pins, strict=True):
            try:
                os.sched_setaffinity(process.pid, {usable[number % len(usable)]} if pinned else set(usable))
            except ProcessLookupError as error:
                raise BenchError(f"a process of {self._module} has ended ({process.poll()})") from error

    def answers(self, *, seconds: float = 0.0) -> list[dict[str, Any]]:
        """The next line of every process."""
        deadline = time.monotonic() + seconds + ANSWER_SECONDS
        lines: dict[int, bytes] = {}
        with selectors.DefaultSelector() as selector:
            for number, process in enumerate(self._processes):
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ, number)
            while len(lines) < len(self._processes):
                left = deadline - time.monotonic()
                ready = selector.select(left) if left > 0 else []
                if not ready:
                    silent = [number for number in range(len(self._processes)) if number not in lines]
                    raise BenchError(f"processes {silent} of {self._module} did not answer in {seconds + ANSWER_SECONDS:.0f} s")
                for key, _ in ready:
                    line = self._read(key.data)
                    if line is not None:
                        lines[key.data] = line
                        selector.unregister(key.fileobj)
        answers = [json.loads(lines[number]) for number in range(len(self._processes))]
        for number, answer in enumerate(answers):
            if "error" in answer:
                raise BenchError(f"process {number} of {self._module}: {answer['error']}", answer.get("kind", ""))
        return answers

    def end(self) -> None:
        """Ends every process."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
        for process in self._processes:
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    _close(stream)

    def _write(self, number: int, what: dict[str, Any]) -> None:
        stream = self._processes[number].stdin
        assert stream is not None
        try:
            stream.write(json.dumps(what).encode() + b"\n")
            stream.flush()
        except BrokenPipeError:
            raise self._obituary(number) from None

    def _read(self, number: int) -> bytes | None:
        """A whole line of a process, or None if there is none yet."""
        stream = self._processes[number].stdout
        assert stream is not None
        data = os.read(stream.fileno(), 1 << 20)
        if not data:
            raise self._obituary(number)
        buffer = self._buffers[number]
        buffer += data
        end = buffer.find(b"\n")
        if end < 0:
            return None
        line = bytes(buffer[:end])
        del buffer[: end + 1]
        return line

    def _obituary(self, number: int) -> BenchError:
        process = self._processes[number]
        try:
            said, errors = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            said = errors = b""
        lines = (errors + bytes(self._buffers[number]) + said).decode(errors="replace").strip().splitlines()
        last = lines[-1] if lines else "it said nothing"
        if last.startswith('{"error"'):
            answer = json.loads(last)
            return BenchError(f"process {number} of {self._module}: {answer['error']}", answer.get("kind", ""))
        return BenchError(f"process {number} of {self._module} ended with status {process.returncode}: {last}")


def _search_path() -> list[str]:
    """Where the processes find this package, also if it is not installed."""
    return [str(Path(__file__).resolve().parents[3]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]


def _close(stream: Any) -> None:
    """Closes a pipe whose other end may be gone: what was not read there any more is nobody's."""
    try:
        stream.close()
    except BrokenPipeError:
        return


# --- the side of the process ----------------------------------------------------------------------------------------


def enter(*, pinned: bool = True) -> dict[str, Any]:
    """Called first by a process: reads its task, pins it if it is to be, and sets its alarm."""
    if hasattr(signal, "alarm"):
        signal.alarm(LIFE_SECONDS)
    line = sys.stdin.readline()
    if not line:
        raise SystemExit("no task: this module is started by `plainchant bench live`")
    task: dict[str, Any] = json.loads(line)
    if pinned and task["core"] is not None:
        os.sched_setaffinity(0, {task["core"]})
    return task


def listen() -> dict[str, Any] | None:
    """The next question, or None when there are no more."""
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def tell(what: dict[str, Any]) -> None:
    """Answers."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


@contextmanager
def telling_errors() -> Iterator[None]:
    """What goes wrong in the process becomes its answer."""
    try:
        yield
    except Exception as error:  # the boundary of a process: whoever started it decides
        kind = type(error).__name__
        tell({"error": f"{kind}: {error}", "kind": kind})
        raise SystemExit(1) from error


def listen_apart(put: Callable[[dict[str, Any] | None], object]) -> None:
    """Hands questions to ``put`` as they come, in a thread of their own, for processes that are busy meanwhile."""

    def read() -> None:
        while True:
            question = listen()
            put(question)
            if question is None:
                return

    threading.Thread(target=read, daemon=True).start()
