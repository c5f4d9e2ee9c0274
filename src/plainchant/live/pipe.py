"""A group through a pipe: lines in are messages out, and everything that is delivered is a line.

A thread reads the input and another writes the output, each a piece at a time and only when asked to. So the event loop never
waits for a file, a pipe or a terminal, and both ends have real backpressure: the next input is read when the group has accepted
the last one, and the group's next events are read when the last ones are written; what is unread here slows the senders down.

*Text* is for people: a message is ``sender: payload``, anything else begins with ``* ``, which no name does. What would break a
line or a terminal is shown as an escape. *JSON lines* are exact: any bytes go in and come out. Signals and exit codes are in
``cli.node``.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any, Final, Protocol, TypeVar

import msgspec

from ..core.model import PlainchantError, Reason, View
from ..group import Event, Group, Message, Refused

T = TypeVar("T")

PIECE: Final = 64 << 10  # bytes that are read or written at once
UNREAD: Final = 8 << 20  # bytes of events that wait for the output before the group is slowed down
LONGEST_LINE: Final = 256 << 20  # bytes of the longest line that is taken

_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


class OutputClosed(PlainchantError):
    """Nobody reads the output any more."""


class _Waiter:
    """A thread that does one thing at a time that may take long. Only one task asks it."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._wanted: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def do(self, work: Callable[[], T]) -> T:
        future: asyncio.Future[T] = self._loop.create_future()
        self._wanted.put((work, future))
        return await future

    def _work(self) -> None:
        while True:
            work, future = self._wanted.get()
            try:
                result: Any = work()
            except OSError as problem:
                result = problem
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process is about to end
                self._loop.call_soon_threadsafe(_settle, future, result)


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return  # whoever wanted it has given up
    if isinstance(result, OSError):
        future.set_exception(result)
    else:
        future.set_result(result)


class Input:
    """Lines from a file descriptor, read only when they are asked for."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiter = _Waiter("input")
        self._begun: list[bytes] = []
        self._begun_size = 0
        self._too_long = self._ended = False

    async def lines(self) -> list[bytes | None] | None:
        """The next lines, at least one, without their newlines; None at the end. A line that is too long is a None."""
        while not self._ended:
            piece = await self._waiter.do(lambda: os.read(self._descriptor, PIECE))
            found = self._split(piece) if piece else self._end()
            if found:
                return found
        return None

    def _split(self, piece: bytes) -> list[bytes | None]:
        *whole, rest = piece.split(b"\n")
        found: list[bytes | None] = list(whole)
        if whole and (self._begun or self._too_long):
            found[0] = self._finish(whole[0])
        if rest:
            self._begun.append(rest)
            self._begun_size += len(rest)
            if self._begun_size > LONGEST_LINE:
                self._begun.clear()
                self._begun_size = 0
                self._too_long = True
        return found

    def _finish(self, ending: bytes) -> bytes | None:
        line = None if self._too_long else b"".join([*self._begun, ending])
        self._begun.clear()
        self._begun_size = 0
        self._too_long = False
        return line

    def _end(self) -> list[bytes | None]:
        """A last line may lack its newline."""
        self._ended = True
        return [self._finish(b"")] if self._begun or self._too_long else []


class Output:
    """Writes to a file descriptor; waits until it is written."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiter = _Waiter("output")
        self._turnstile = asyncio.Lock()

    async def write(self, data: bytes) -> None:
        """Everything, or :class:`OutputClosed`. If it is cancelled, what was given to the thread is still written."""
        async with self._turnstile:
            try:
                await self._waiter.do(lambda: self._write_all(data))
            except OSError as error:
                raise OutputClosed(f"the output cannot be written: {error.strerror or error}") from error

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]


class Format(Protocol):
    """How things are written down, and how lines are understood."""

    def event(self, event: Event, me: str) -> bytes: ...
    def error(self, text: str) -> bytes: ...
    def end(self, reason: Reason) -> bytes: ...

    def command(self, line: bytes) -> bytes | None:
        """The message that a line means; None: leave. Raises :class:`PlainchantError` if it means nothing."""


class Text(Format):
    """For people."""

    def event(self, event: Event, me: str) -> bytes:
        if isinstance(event, Message):
            return _text_line(f"{event.sender}: {event.payload.decode(errors='backslashreplace')}")
        if isinstance(event, View):
            return _text_line(f"* view {event.number}: {', '.join(event.members)}{_changes(event)}")
        return b""

    def error(self, text: str) -> bytes:
        return _text_line(f"* error: {text}")

    def end(self, reason: Reason) -> bytes:
        return _text_line(f"* end: {reason.text}")

    def command(self, line: bytes) -> bytes | None:
        return line


def _changes(view: View) -> str:
    if view.is_merge:
        told = ["together again: " + " and ".join(", ".join(part) for part in view.parts if part[0] not in view.newcomers)]
        told += [f"{name} joined" for name in view.newcomers]
    else:
        told = [f"{name} joined" for name in view.joined]
    told += [f"{name} is gone: {reason.text}" for name, reason in view.left.items()]
    return f" ({'; '.join(told)})" if told else ""


def _text_line(text: str) -> bytes:
    escaped = _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return escaped.encode(errors="backslashreplace") + b"\n"


class Command(msgspec.Struct, forbid_unknown_fields=True):
    """A line of JSON input: exactly one of these."""

    send: str | None = None
    send_base64: bytes | None = None
    leave: bool = False


class JsonLines(Format):
    """For programs."""

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(Command).decode

    def event(self, event: Event, me: str) -> bytes:
        if isinstance(event, Message):
            return self._line({"event": "message", "sender": event.sender, "seq": event.seq, **_payload(event.payload)})
        if isinstance(event, View):
            left = {name: reason.text for name, reason in event.left.items()}
            view = {"group": event.group, "number": event.number, "members": event.members, "joined": event.joined, "left": left}
            parts = {"parts": event.parts} if event.is_merge else {}
            return self._line({"event": "view", **view, **parts, "me": me})
        return b""

    def error(self, text: str) -> bytes:
        return self._line({"event": "error", "text": text})

    def end(self, reason: Reason) -> bytes:
        return self._line({"event": "end", "code": reason.code, "reason": reason.text})

    def _line(self, value: dict[str, Any]) -> bytes:
        return self._encode(value) + b"\n"

    def command(self, line: bytes) -> bytes | None:
        try:
            command = self._decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise PlainchantError(f"{error}; {_USAGE}") from None
        given = (command.send is not None) + (command.send_base64 is not None) + command.leave
        if given != 1:
            raise PlainchantError(f"a line asks for one thing, and this for {given}; {_USAGE}")
        return command.send.encode() if command.send is not None else command.send_base64


_USAGE: Final = 'write {"send": "text"}, {"send_base64": "AAEC"} or {"leave": true}'


def _payload(payload: bytes) -> dict[str, str]:
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode()}


async def pass_out(group: Group, output: Output, form: Format) -> None:
    """Writes all events of a group, until it is left; raises ``Halted`` if the process is halted."""
    async for events in group.batches():
        for piece in _pieces(events, form, group.me):
            await output.write(piece)


def _pieces(events: Sequence[Event], form: Format, me: str) -> Iterator[bytes]:
    """The lines of events, together as far as they are about a piece."""
    lines: list[bytes] = []
    size = 0
    for event in events:
        lines.append(line := form.event(event, me))
        size += len(line)
        if size >= PIECE:
            yield b"".join(lines)
            lines.clear()
            size = 0
    if lines:
        yield b"".join(lines)


async def pass_in(group: Group, source: Input, output: Output, form: Format) -> bool:
    """Sends what the input says, as fast as the group takes it, until the input ends (False) or asks to leave (True)."""
    number = 0
    while (lines := await source.lines()) is not None:
        messages: list[bytes] = []
        for line in lines:
            number += 1
            try:
                if line is None:
                    raise PlainchantError(f"it is longer than {LONGEST_LINE:,} bytes; send it in parts")
                message = form.command(line)
            except PlainchantError as error:
                await output.write(form.error(f"line {number} of the input: {error}"))
                continue
            if message is None:
                await _send(group, messages)
                return True
            messages.append(message)
        await _send(group, messages)
    return False


async def _send(group: Group, messages: list[bytes]) -> None:
    if messages:
        with contextlib.suppress(Refused):  # the group is being left, or is over, and the end says why
            await group.send_many(messages)
