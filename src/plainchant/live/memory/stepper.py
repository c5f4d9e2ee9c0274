"""Runs the procedures of one process on shared memory, in the thread of its event loop.

**Steps and turns.** What a procedure does between two requests is a turn of its host: what it asks for is applied, the spool is
written, and only then does its next request happen. So the memory never shows what a trace does not say. The steps themselves
are outside turns: the clock goes on while they run. Ready procedures take turns, one request each; after :data:`AT_ONCE` of them
the loop comes round.

**Waiting.** Times are those of the process's clock; only a ``Rest`` goes by the monotonic one, as timers of the loop do. The loop
is woken a little before the next of them: as long as waking took on average lately, up to :data:`AHEAD`. The rest is waited for
busily: the loop goes round, so that its other tasks run, and only the very last bit (:data:`AT_HAND`) is waited for here. A
``Nap`` ends when a bell rings: others ring after operations that are ``news``, as soon as they have nothing else to do at once
(waking a process takes longer than a step). So it ends at the latest time that it allows, and now and then in case a bell was
lost (:data:`BACKSTOP`). News between a procedure's operation and its nap end that at once. A nap that names a mailbox ends with
news of that one alone, and otherwise at its latest time or a little after: it is not waited for busily.

**Bounds.** An operation is due when the request before it has ended: an operation, or the time until which was waited; after a
nap that a bell ended, a little after the bell rang (:data:`HEARING`). If it is not done within its bound from there, that is a
timing fault, for the trace: the first one of a kind, then one per second with a count.

**Failures.** Every :data:`LOOK_EVERY` the presences of others are looked at, and the engine is told who has died.
"""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from ...core.engine import Engine
from ...core.memory import FAILED, Connect, Directory, Disconnect, Nap, Operate, Procedure, Request, Rest, Until
from ...core.model import MS, SECOND, US, Failure, PlainchantError, ProtocolError
from .segments import CommonMemoryError
from .server import Attachment, MailboxServer
from .timers import ClockTimer

AT_ONCE: Final = 64
AHEAD: Final = 100 * US  # the loop is woken at most this long before a time; what is nearer is waited for busily
AT_LEAST_AHEAD: Final = 10 * US
AT_HAND: Final = 20 * US
BACKSTOP: Final = 20 * MS
LOOK_EVERY: Final = 20 * MS
HEARING: Final = 500 * US  # an operation after a nap is due this long after the ring: without bells it would look about then
_LATELY: Final = 8  # wakings that count for the average


class MemoryHost(Protocol):
    """What a stepper needs of its host."""

    me: str
    alive: bool
    engine: Engine
    clock_offset: int
    countdown: int

    def clock(self) -> int: ...
    def turn(self, method: Callable[..., None], *arguments: Any) -> None: ...
    def turn_over(self) -> None: ...
    def call(self, method: Callable[..., None], *arguments: Any) -> None: ...
    def failed(self, error: Exception) -> None: ...
    def count_down(self) -> None: ...
    def note(self, kind: str, detail: dict[str, Any] | None = None, group: str | None = None) -> None: ...


@dataclasses.dataclass(slots=True, eq=False)
class _Running:
    """A procedure and where it stands."""

    name: str
    procedure: Procedure
    due: int  # when the request before has ended, or was to end
    request: Request | None = None
    looked: int = 0  # how much news there was when its last operation began
    looked_at: dict[str, int] = dataclasses.field(default_factory=dict)  # the same of each mailbox alone
    awaits: str = ""  # the mailbox whose news it naps for; empty: all
    wake: int = 0  # which of its waits is under way; 0: none


@dataclasses.dataclass(slots=True)
class _Late:
    """Timing faults of one kind of operation."""

    told: int
    count: int = 0


class Stepper:
    """The procedures of one process."""

    def __init__(self, host: MemoryHost, server: MailboxServer, *, timely: bool = True) -> None:
        """``timely``: whether who is late has failed, which is written into the trace."""
        self.server = server
        self.timely = timely
        self.operations = 0
        self.late = 0  # operations that took longer than their bounds
        self.after: Callable[[Operate], None] = lambda operation: None  # called before others hear of an operation: for faults
        self.meter: Callable[[str, int], None] | None = None
        """For measurements: how long (ns) an operation took since it was due; how late a ``wake`` or a ``bell`` was."""
        self.tells_operations = False  # whether every operation is written into the trace
        self._slow_until = self._delay = 0
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._timer = ClockTimer(self._on_time)
        self._attached: dict[tuple[str, str], Attachment] = {}  # by mailbox and process: this one, and those that it acts for
        self._copies: dict[str, Attachment] = {}  # one of them for each mailbox
        self._ready: deque[tuple[_Running, Any]] = deque()
        self._waits: list[tuple[int, int, _Running]] = []
        self._numbers = 0
        self._lead = AHEAD  # how long before a time the loop is woken
        self._armed = 0  # when it is to be woken, by the process's clock
        self._napping: dict[_Running, int] = {}  # procedures that nap, and when that ends if no bell rings; 0: some time
        self._resting: dict[_Running, asyncio.TimerHandle] = {}
        self._news = 0
        self._news_of: dict[str, int] = {}  # the same of each mailbox
        self._ringing: dict[Attachment, None] = {}  # where others are to be told of news, once nothing else is to be done at once
        self._is_running = self._asked = False
        self._looking: asyncio.TimerHandle | None = None
        self._late: dict[str, _Late] = {}
        self._stuck: set[tuple[str, int]] = set()

    def start(self, name: str, procedure: Procedure) -> None:
        """A procedure that runs from here on."""
        self._ready.append((_Running(name, procedure, self._host.clock()), None))

    def run(self) -> None:
        """Does what can be done now."""
        if self._is_running or not self._host.alive:
            return
        self._is_running = True
        try:
            self._run_some()
            self._ring()
        finally:
            self._is_running = False
        if self._host.alive:
            self._arm()

    def _run_some(self) -> None:
        host, ready = self._host, self._ready
        for _ in range(AT_ONCE):
            self._wake_due()
            if ready:
                self._advance(*ready.popleft())
                if not host.alive:
                    return
                continue
            self._ring()
            ahead = self._ahead()
            if ahead is None or ahead > self._lead:
                return
            if ahead > AT_HAND:
                break
            self._await_next()
        if not self._asked:
            self._asked = True
            self._loop.call_soon(self._again)

    def _again(self) -> None:
        self._asked = False
        self.run()

    def _ahead(self) -> int | None:
        """How far ahead the next time is; None: nobody waits."""
        waits = self._waits
        while waits and waits[0][2].wake != waits[0][1]:
            heapq.heappop(waits)
        return waits[0][0] - self._host.clock() if waits else None

    def _await_next(self) -> None:
        clock, until = self._host.clock, self._waits[0][0]
        give_up = time.monotonic_ns() + 2 * AT_HAND
        while clock() < until and time.monotonic_ns() < give_up:
            continue

    def _wake_due(self) -> None:
        waits = self._waits
        if not waits:
            return
        now = self._host.clock()
        # Who only looks whether a bell was lost may do so early: nobody waits busily for that.
        while waits and waits[0][0] <= now + self._lead:
            moment, number, running = waits[0]
            if running.wake == number:
                is_exact = self._napping.get(running, moment) == moment
                if is_exact and moment > now:
                    return
                self._napping.pop(running, None)
                running.due = max(running.due, moment) if is_exact else now
                if self.meter is not None and is_exact:
                    self.meter("wake", now - running.due)
                running.wake = 0
                self._ready.append((running, None))
            heapq.heappop(waits)

    def _arm(self) -> None:
        if self._asked or self._ahead() is None:
            self._timer.set(None)
        else:
            self._armed = self._waits[0][0] - self._lead
            self._timer.set(self._armed - self._host.clock_offset)

    def _advance(self, running: _Running, result: Any) -> None:
        """The procedure gets what it has asked for and goes on to its next request."""
        host = self._host
        host.turn(self._resume, running, result)
        host.turn_over()
        request = running.request
        if request is None or not host.alive:
            return
        try:
            self._begin(running, request)
        except Exception as error:
            host.failed(error)

    def _resume(self, running: _Running, result: Any) -> None:
        running.request = None
        try:
            running.request = running.procedure.send(result)
        except StopIteration:
            return

    def _begin(self, running: _Running, request: Request) -> None:
        match request:
            case Operate():
                self._operate(running, request)
            case Until(time=moment):
                self._wait(running, moment)
            case Rest(length=length):
                self._resting[running] = self._loop.call_later(length / SECOND, self._rested, running)
            case Nap():
                self._nap(running, request)
            case Connect():
                self._answer(running, self._connect(request))
            case Directory():
                self._answer(running, self.server.directory())
            case Disconnect():
                self._disconnect(request)
                self._answer(running, None)

    def _answer(self, running: _Running, result: Any) -> None:
        self._ready.append((running, result))
        running.due = self._host.clock()

    def _nap(self, running: _Running, request: Nap) -> None:
        mailbox, latest = request.mailbox, request.latest
        now = self._host.clock()
        running.awaits = mailbox
        if running.looked_at.get(mailbox, 0) != self._news_of.get(mailbox, 0) if mailbox else running.looked != self._news:
            running.due = now
            self._note_looked(running)
            self._ready.append((running, None))
        elif mailbox:
            self._napping[running] = 0
            self._wait(running, (latest or request.time) + AHEAD)
        else:
            self._napping[running] = latest
            until = max(request.time, now + BACKSTOP)
            self._wait(running, min(until, latest) if latest else until)

    def _rested(self, running: _Running) -> None:
        del self._resting[running]
        self._answer(running, None)
        self.run()

    def _note_looked(self, running: _Running) -> None:
        """What a nap was for has come: the next one is for what comes after it."""
        if running.awaits:
            running.looked_at[running.awaits] = self._news_of.get(running.awaits, 0)
        else:
            running.looked = self._news

    def _wait(self, running: _Running, until: int) -> None:
        self._numbers += 1
        running.wake = self._numbers
        heapq.heappush(self._waits, (until, self._numbers, running))

    def _operate(self, running: _Running, request: Operate) -> None:
        attached = self._copies.get(request.mailbox)
        if attached is None:
            raise ProtocolError(f"{self._host.me} works on mailbox {request.mailbox!r} without being connected to it")
        running.looked = self._news
        running.looked_at[request.mailbox] = self._news_of.get(request.mailbox, 0)
        segment = attached.segments[request.copy]
        began = self._host.clock() if self.tells_operations else 0
        if self._slow_until and time.monotonic_ns() < self._slow_until:
            time.sleep(self._delay / SECOND)
        result = segment.operate(request.step)
        self.operations += 1
        ended = self._host.clock()
        took = ended - running.due
        running.due = ended
        self._ready.append((running, result))
        self.after(request)
        if request.news and result is not FAILED:
            self._end_naps(request.mailbox, ended)
            running.looked += 1
            running.looked_at[request.mailbox] += 1
            self._ringing[attached] = None
        if self.meter is not None:
            self.meter(request.name, took)
        if segment.gave_up and (request.mailbox, request.copy) not in self._stuck:
            self._note_stuck(request)
        if took > request.bound:
            self._note_late(request, took, ended)
        if self.tells_operations:
            detail = {"operation": request.name, "copy": request.copy, "began": began, "failed": result is FAILED}
            self._host.note("operation", detail, request.mailbox)
        if self._host.countdown:
            self._host.count_down()

    def slow_down(self, length: int, delay: int) -> None:
        """A test's fault: for so long (ns) operations take longer by ``delay``."""
        self._slow_until = time.monotonic_ns() + length
        self._delay = delay

    def _note_late(self, request: Operate, took: int, now: int) -> None:
        self.late += 1
        if not self.timely:
            return
        late = self._late.get(request.name)
        if late is not None and 0 <= now - late.told < SECOND:
            late.count += 1
            return
        detail = {"fault": "timing", "timing": True, "operation": request.name, "copy": request.copy, "took_ns": took}
        count = late.count + 1 if late is not None else 1
        self._late[request.name] = _Late(now)
        self._host.note("fault", {**detail, "bound_ns": request.bound, "count": count})

    def _note_stuck(self, request: Operate) -> None:
        """A module whose lock could not be had: for everybody it has crashed."""
        self._stuck.add((request.mailbox, request.copy))
        text = f"the lock of module {request.copy + 1} of {request.mailbox} could not be had: whoever holds it is stopped"
        self._host.note("fault", {"fault": "module", "module": request.copy + 1, "text": text})

    def _end_naps(self, mailbox: str, due: int) -> None:
        """There is something new in a mailbox."""
        self._news += 1
        self._news_of[mailbox] = self._news_of.get(mailbox, 0) + 1
        for running in [running for running in self._napping if running.awaits in ("", mailbox)]:
            del self._napping[running]
            running.wake = 0
            running.due = due
            self._note_looked(running)
            self._ready.append((running, None))

    def _ring(self) -> None:
        """Tells the others, once for all that is new."""
        if self._ringing:
            ringing, self._ringing = self._ringing, {}
            for attached in ringing:
                attached.ring()

    def _hear(self, mailbox: str, attached: Attachment) -> None:
        rung = attached.hear()
        if rung is not None:
            if self.meter is not None:
                self.meter("bell", time.time_ns() - rung)
            self._end_naps(mailbox, min(self._host.clock(), rung + self._host.clock_offset + HEARING))

    def _on_bell(self, mailbox: str, attached: Attachment) -> None:
        self._hear(mailbox, attached)
        self.run()

    def _on_time(self) -> None:
        late = min(max(AT_LEAST_AHEAD, self._host.clock() - self._armed), AHEAD)
        self._lead += (late - self._lead) // _LATELY
        # Who was stopped finds its timer and bells at the same time; the bells are older.
        if self._napping:
            for (mailbox, _), attached in self._attached.items():
                self._hear(mailbox, attached)
        self.run()

    def _connect(self, request: Connect) -> Any:
        host = self._host
        process = request.process or host.me
        try:
            attached = self.server.connect(request.mailbox, request.layout, process, host.clock())
        except CommonMemoryError as error:
            return str(error)
        self._attached[request.mailbox, process] = attached
        self._copies.setdefault(request.mailbox, attached)
        self._loop.add_reader(attached.bell, self._on_bell, request.mailbox, attached)
        self._look_later()
        return attached.port

    def _disconnect(self, request: Disconnect) -> None:
        self._ring()
        attached = self._attached.pop((request.mailbox, request.process), None)
        if attached is None:
            self.server.disconnect(request.mailbox, request.place, request.process)
            return
        if self._copies[request.mailbox] is attached:
            del self._copies[request.mailbox]
            for (mailbox, _), other in self._attached.items():
                self._copies.setdefault(mailbox, other)
        self._loop.remove_reader(attached.bell)
        attached.disconnect()

    def _look_later(self) -> None:
        if self._looking is None and self._attached:
            self._looking = self._loop.call_later(LOOK_EVERY / SECOND, self._look)

    def _look(self) -> None:
        self._looking = None
        self.look()
        self._look_later()

    def look(self) -> None:
        """Looks who has died."""
        failed = {name: mailbox for (mailbox, _), attached in self._attached.items() for name in attached.failures()}
        for name, mailbox in failed.items():
            if self._host.alive:
                self._host.call(self._host.engine.notice, Failure(name, f"{name} has died: its presence at {mailbox} is gone"))

    def stop(self) -> None:
        """Nothing more is done; to others this process has died, unless it is disconnected."""
        self._timer.close()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        for handle in self._resting.values():
            handle.cancel()
        self._resting.clear()
        self._ready.clear()
        self._waits.clear()
        self._napping.clear()
        problem: PlainchantError | None = None
        self._copies.clear()
        self._ringing.clear()
        for key in list(self._attached):
            attached = self._attached.pop(key)
            self._loop.remove_reader(attached.bell)
            try:
                attached.abandon()
            except PlainchantError as error:
                problem = error
        if problem is not None:
            raise problem
