"""One run of a case: the protocol's own engines in integer time, with a question wherever things could go otherwise.

Theory of operation
-------------------
An operation begins, and has its effect at once or after its whole bound (a question); at that moment its process learns the
result and goes on. Just before an effect, its process may crash instead (after which everybody is told, sooner or later: a
question), or the module that it falls on, or a process with a late timing fault may be stopped for a while. So every point
between two operations of a process, and between two effects on a module, is a point where it may crash; that it crashes earlier
in the same interval makes no difference to anybody but for when the others are told. Events that fall on one moment can come in
any order (a question).

The group is formed first, with operations that take no time and nothing going wrong. The run proper begins with the first send,
whose moment is chosen (questions) so that the receivers' next look comes as soon as a message may be decided on, or just before.
The run is over when nobody waits for anything and the memory is empty.

A process that only sends, and has sent everything, is *set aside*: what it does from then on, looking for what became of its
message, changes nothing that others see. It may crash at that moment (a question); else it goes on when all others are at rest.

Naps last until their time: what a host may do to end them earlier is not explored.

**What nobody can tell** need not be asked. A case names procedures whose operations nobody else sees happen (``Case.unseen``,
``Case.private``; the protocol's ``exploration`` says why): theirs take one time, not two. What is unseen takes none, comes before
what others do at that moment, and no module fails just before it: had it failed a moment later, before something that is seen,
nobody would know the difference. At each of these operations a process may crash like at any other. Of receivers that only
receive and whose clocks agree, the first is the one that crashes first: exchanging their names makes one run out of the other.
With ``Case.reduced`` off all this is asked and every order is tried; the outcomes are the same (``tests/sim/test_explore.py``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from ...core.memory import FAILED, Connect, Connection, Directory, Disconnect, Nap, Operate, Rest, Until
from ...core.model import Failure, Form, ProcessId, ProtocolError, Reason
from ...protocols.exploration import GROUP, Case
from .checks import Broken, Checks, Violation
from .host import Event, ExploredHost, Task
from .memory import ExploredMemory
from .state import digest

_NEVER: Final = 1 << 62
_SERVER: Final = -1  # What calls of the mailbox server touch, beside the copies.


class Guide(Protocol):
    """Who answers questions. An answer is a number below ``count``; 0 is what happens if nothing special does."""

    def choose(self, count: int, *, rare: bool = False) -> int:
        """One of so many answers; ``rare``: whoever draws should prefer 0."""

    def order(self, due: Sequence[Event], world: World) -> int:
        """Which of these events comes next."""

    def passes(self, due: Sequence[Event], world: World) -> None:
        """One of these events comes next of which the order does not matter, but whether it goes well."""

    def mixed(self) -> None:
        """What just happened touched processes at large."""


@dataclasses.dataclass(frozen=True, slots=True)
class Happened:
    """A line of a run's story: who (nobody: a promise was broken) and what."""

    time: int
    who: str
    text: str


class World:
    """One run. ``telling``: whether it remembers its story and the rows of its trace, and goes on when a promise is broken."""

    def __init__(self, case: Case, guide: Guide, *, telling: bool = False) -> None:
        self.case = case
        self.now = 0
        self.memory = ExploredMemory(case.copies)
        self.checks = Checks(self)
        self.hosts: dict[ProcessId, ExploredHost] = {}
        self.story: list[Happened] = []
        self.rows: dict[ProcessId, list[tuple[Any, ...]]] = {}
        self.steps = 0
        self.faults = 0
        self.broken: Violation | None = None  # What a run that is told has broken already: it goes on to its end.
        self._guide = guide
        self._telling = telling
        self._crashes = case.crashes
        self._modules = case.modules
        self._failures = case.crashes if case.failures is None else case.failures
        self._exploring = False
        self._until = 0
        self._sends: dict[ProcessId, int] = {}
        self._constants = {id(thing): f"constant {number}" for number, thing in enumerate(case.constants)}

    # The run
    def run(self) -> Violation | None:
        """Runs to the end; what was broken, if anything."""
        try:
            self._form()
            self._run_until_rest()
            self._bring_back()
            self._run_until_rest()
            self.checks.ended()
            self._end(drained=True)
        except Broken as broken:
            self._end(drained=False)
            return self.broken or broken.violation
        return self.broken

    def _run_until_rest(self) -> None:
        while True:
            time, due = self._soon()
            if time > self.now:
                if self._is_over():
                    return
                if time > self._until:
                    self.checks.unending()
                self._go_to(time)
            self._step(due)

    def _go_to(self, time: int) -> None:
        self.now = time
        for host in self.hosts.values():
            host.now = time

    def set_aside(self, host: ExploredHost) -> None:
        """A process has sent a message. If that was the last, and it receives nothing, nobody has to look at it."""
        if not self._exploring or host.messages() or host.me in self.case.receivers:
            return
        answer = self._guide.choose(1 + len(self.case.detections), rare=True) if self._may_crash(host) else 0
        if answer:
            self.faults += 1
            self._crash(host, self.case.detections[answer - 1], "crashes after its Send")
        else:
            host.aside = True

    def _bring_back(self) -> None:
        """Everything has been asked; those who were set aside go on."""
        self._exploring = False
        for host in self.hosts.values():
            host.aside = False
            host.postpone(self.now)

    def _end(self, *, drained: bool) -> None:
        for host in self.hosts.values():
            if host.alive:
                self.note(host, "end", detail={"drained": True} if drained else {})

    def _form(self) -> None:
        case = self.case
        for name, ahead in self._offsets().items():
            host = self.hosts[name] = ExploredHost(self, name, ahead)
            host.stops = int(name in case.late)
            host.engine = case.make(host)
        everybody = tuple(self.hosts)
        for name, host in self.hosts.items():
            self._constants[id(host)] = f"host {name}"
            self.note(host, "start", detail=dict(case.start))
            if name in case.early:
                host.faulty = True
                self.note(host, "fault", detail={"fault": "clock", "timing": True, "ahead_ns": host.ahead})
        for host in self.hosts.values():
            host.call(host.engine.start)
            host.call(host.engine.join, GROUP, Form(everybody, fresh=True))
        for _ in range(10_000):
            time, due = self._soon()
            if time > self.now and self._is_formed():
                break
            if not due:
                raise ProtocolError("the group is not formed, and nobody does anything about it")
            self._go_to(time)
            self._step(due)
        else:
            raise ProtocolError("the group is not formed after 10,000 steps")
        self._plan()

    def _is_formed(self) -> bool:
        receivers = set(self.case.receivers)
        return not self._waits() and all(receivers <= set(host.members) for host in self.hosts.values())

    def _offsets(self) -> dict[ProcessId, int]:
        """How far clocks are ahead. Receivers that only receive are alike, so it matters only how many of them are."""
        case = self.case
        offsets = dict.fromkeys(case.processes, 0)
        alike = case.alike
        if case.skew:
            count = self._guide.choose(len(alike) + 1)
            offsets.update(dict.fromkeys(alike[len(alike) - count :], case.skew))
            for name in case.processes:
                if name not in alike and name not in case.early:
                    offsets[name] = case.skew * self._guide.choose(2)
        return {**offsets, **case.early}

    def _plan(self) -> None:
        """When messages are sent: so that the next look comes as soon as possible, or a moment too early."""
        case = self.case
        clock = max(host.clock() for host in self.hosts.values()) + case.complete + case.skew + 1
        look = clock + -clock % case.poll
        for name in case.senders:
            phase = 0 if case.scheduled or len(case.phases) == 1 else self._guide.choose(len(case.phases))
            stamp = look - case.complete + case.phases[phase]
            self._sends[name] = max(self.now, stamp - self.hosts[name].ahead)
        self._until = max(self._sends.values()) + case.horizon
        begin = min(self._sends.values())
        time, due = self._soon()
        while time < begin:
            self._go_to(time)
            self._step(due)
            time, due = self._soon()
        self._exploring = True

    def _is_over(self) -> bool:
        return not self._sends and not self.memory.left_behind() and not self._waits()

    def _waits(self) -> bool:
        return any(
            host.alive and (host.messages() or host.notices or host.engine.waiting() is not None)
            for host in self.hosts.values()
            if not host.aside
        )

    # Events
    def _soon(self) -> tuple[int, list[Event]]:
        """When something is due next (or never), and what."""
        soonest = _NEVER
        due: list[Event] = []
        for name, host in self.hosts.items():
            if host.aside:
                continue
            for task in host.tasks.values():
                if task.time <= soonest:
                    if task.time < soonest:
                        soonest, due = task.time, []
                    due.append(task.event)
            if host.notices or host.timers or name in self._sends:
                for event, time in self._asked_from_outside(host):
                    if time <= soonest:
                        if time < soonest:
                            soonest, due = time, []
                        due.append(event)
        return soonest, due

    def _asked_from_outside(self, host: ExploredHost) -> Iterator[tuple[Event, int]]:
        if host.notices:
            yield Event(host.me, "notice", 0), host.notices[0][0]
        yield from ((Event(host.me, "timer", number), at) for number, at in enumerate(host.timers.values()))
        if host.me in self._sends:
            yield Event(host.me, "ready", 0), self._sends[host.me]

    def _step(self, due: Sequence[Event]) -> None:
        """One event of those that are due now."""
        event = due[self._pick(due)]
        self.steps += 1
        host = self.hosts[event.process]
        host.mark = None
        task = host.tasks.get((event.what, event.number))
        if task is not None:
            self._fulfil(host, task)
        elif event.what == "notice":
            host.call(host.engine.notice, host.notices.pop(0)[1])
        elif event.what == "timer":
            timer = list(host.timers)[event.number]
            del host.timers[timer]
            host.call(host.engine.expire, timer)
        else:
            del self._sends[event.process]
            host.queue_of(GROUP).items.extend(f"{event.process}{number}".encode() for number in range(1, self.case.messages + 1))
            host.call(host.engine.ready, GROUP)

    def _pick(self, due: Sequence[Event]) -> int:
        """Which event is next. One that touches no memory, alone at its process, can as well come first."""
        if not self._exploring:
            return 0
        for index, event in enumerate(due if self.case.reduced else ()):
            if event.touches is None and sum(other.process == event.process for other in due) == 1:
                host = self.hosts[event.process]
                task = host.tasks.get((event.what, event.number))
                if task is not None and isinstance(task.request, Operate) and self._may_crash(host):
                    self._guide.passes(due, self)
                return index
        return self._guide.order(due, self)

    def _fulfil(self, host: ExploredHost, task: Task) -> None:
        """A request has had its time."""
        request = task.request
        result: Any = None
        if isinstance(request, Operate):
            if self._is_open(host) and not self._goes_well(host, task, request):
                return
            result = FAILED
            if self.memory.alive[request.copy]:
                result = request.step(self.memory.mailboxes[request.mailbox][request.copy])
            if self._telling:
                self._tell(host, task, request, result)
        elif isinstance(request, Connect):
            result = self.memory.connect(request.mailbox, request.layout, host.me, host.clock())
        elif isinstance(request, Disconnect):
            self.memory.disconnect(request.mailbox, request.place, request.process)
        elif isinstance(request, Directory):
            result = self.memory.directory()
        self.advance(host, task, result)
        host.settle()

    def advance(self, host: ExploredHost, task: Task, result: Any) -> None:
        """Runs a procedure up to its next request."""
        host.turn(host.resume, task, result)
        request = task.request
        if request is None:
            return
        task.began = task.time = self.now
        touches = None
        if isinstance(request, Operate):
            case = self.case
            is_unseen, is_private = task.name in case.unseen, task.name in case.private
            touches = None if is_unseen or (is_private and not self._modules) else request.copy
            if self._is_open(host) and not is_unseen:
                varies = not is_private and (not case.varied or request.name in case.varied)
                task.time += request.bound if not varies or self._guide.choose(2) else 0
        elif isinstance(request, Until | Nap):
            task.time = max(self.now, request.time - host.ahead)
        elif isinstance(request, Rest):
            task.time = self.now + request.length
        elif task.name not in self.case.unseen:
            touches = _SERVER
        task.event = Event(host.me, task.name, task.number, touches)

    # What may go wrong
    def _is_open(self, host: ExploredHost) -> bool:
        """Whether questions are asked about a process: from the first send on, and not before a sender has begun."""
        return self._exploring and (host.taken(GROUP) > 0 or host.me not in self.case.senders)

    def _goes_well(self, host: ExploredHost, task: Task, request: Operate) -> bool:
        """Whether an operation has its effect; else its process has crashed or stopped meanwhile."""
        if self.case.struck and request.name not in self.case.struck:
            return True
        crashes = len(self.case.detections) if self._may_crash(host) else 0
        module = int(self.memory.alive[request.copy] and self._modules > 0 and task.name not in self.case.unseen)
        count = 1 + crashes + module + (host.stops > 0)
        answer = self._guide.choose(count, rare=True) if count > 1 else 0
        if not answer:
            return True
        self.faults += 1
        if answer <= crashes:
            self._crash(host, self.case.detections[answer - 1], f"crashes before {_named(request)}")
            return False
        if answer <= crashes + module:
            self._modules -= 1
            self.memory.alive[request.copy] = False
            for other in self.hosts.values():
                if other.alive:
                    self.note(other, "fault", detail={"fault": "module", "module": request.copy + 1})
            self.say(f"module {request.copy + 1}", "crashes")
            return True
        host.stops -= 1
        length = self.case.late[host.me]
        host.faulty = True
        self.note(host, "fault", detail={"fault": "pause", "timing": True, "length_ns": length})
        self.say(host.me, f"is stopped for {length} before {_named(request)}")
        host.stopped = self.now + length
        host.postpone(host.stopped)
        return False

    def _may_crash(self, host: ExploredHost) -> bool:
        """Of receivers that are alike, and their clocks too, the first crashes first: which it is makes no difference."""
        if not self._crashes or (not self._failures and host.me in self.case.receivers):
            return False
        for name in self.case.alike if host.me in self.case.alike else ():
            if name == host.me:
                break
            if self.hosts[name].alive and self.hosts[name].ahead == host.ahead:
                return False
        return True

    def _crash(self, host: ExploredHost, detection: int, text: str) -> None:
        self._crashes -= 1
        self._failures -= host.me in self.case.receivers
        self.note(host, "crash", detail={"reason": "fault"})
        self.say(host.me, f"{text}; everybody is told after {detection}")
        self._stop(host, detection)

    def _stop(self, host: ExploredHost, detection: int) -> None:
        host.alive = False
        host.tasks.clear()
        host.timers.clear()
        host.notices.clear()
        self._sends.pop(host.me, None)
        for other in self.hosts.values():
            other.mark = None
            if other.alive:
                other.notices.append((max(other.stopped, self.now + detection), Failure(host.me, "it crashed")))
                other.notices.sort(key=lambda notice: notice[0])
        self._guide.mixed()

    def halt(self, host: ExploredHost, reason: Reason) -> None:
        """A process stops by itself."""
        host.halted = True
        self.note(host, "crash", detail=reason.to_detail())
        self.say(host.me, f"halts: {reason}")
        self._stop(host, min(self.case.detections))

    def report(self, process: ProcessId) -> None:
        """Somebody thinks that this process has failed: if so, everybody is told soon."""
        for host in self.hosts.values():
            host.mark = None
            soon = max(host.stopped, self.now + min(self.case.detections))
            host.notices = [(min(soon, at) if notice.process == process else at, notice) for at, notice in host.notices]
            host.notices.sort(key=lambda notice: notice[0])
        self._guide.mixed()

    @property
    def outcome(self) -> tuple[Any, ...]:
        """How the run ended for everybody; receivers that are alike are not told apart."""
        senders = self.case.senders
        ends = []
        for name, host in self.hosts.items():
            state = (name if name in senders else "", host.ahead, host.alive, host.halted)
            ends.append((*state, tuple(host.delivered), tuple(sorted(host.decided.items()))))
        return (tuple(self.memory.alive), *sorted(ends))

    # What is remembered
    def digest(self) -> bytes:
        """Where the run stands."""
        memory = self.memory
        copies = [
            (copy.head, copy.slots, [_lasting(connection) for connection in copy.places])
            for mailbox in memory.mailboxes.values()
            for copy, alive in zip(mailbox, memory.alive, strict=True)
            if alive
        ]
        marks = tuple(self._mark(host) for host in self.hosts.values())
        left = (self._crashes, self._failures, self._modules)
        state = (self.now, marks, copies, memory.alive, memory.connected, left, self.checks.sent)
        return digest(state, self._constants, self.case.still)

    @property
    def marks(self) -> tuple[bytes | None, ...]:
        """The digests of the processes, as far as they are known."""
        return tuple(host.mark for host in self.hosts.values())

    def recall(self, marks: tuple[bytes | None, ...]) -> None:
        """The processes stand where they stood when these were their digests."""
        for host, mark in zip(self.hosts.values(), marks, strict=True):
            host.mark = mark

    def _mark(self, host: ExploredHost) -> bytes:
        if host.mark is None:
            done = (host.taken(GROUP), host.delivered, host.decided)
            state: tuple[Any, ...] = (host.alive, host.ahead, host.faulty, host.stops, *done)
            if host.alive and not host.aside:
                tasks = [(key, task.time, task.request, task.procedure) for key, task in sorted(host.tasks.items())]
                outside = (host.stopped, host.messages(), host.timers, host.notices, self._sends.get(host.me))
                state = (*state, *outside, host.engine, tasks)
            host.mark = digest(state, self._constants, self.case.still)
        return host.mark

    def breaks(self, promise: str, text: str) -> None:
        """A promise is broken: that ends the run, or is remembered."""
        if not self._telling:
            raise Broken(promise, text)
        if self.broken is None:
            self.broken = Violation(promise, text)
            self.story.append(Happened(self.now, "", text))

    def note(self, host: ExploredHost, kind: str, **columns: Any) -> None:
        """A row of the trace."""
        if not self._telling or not host.alive:
            return
        detail = columns.get("detail")
        extra = {"detail": detail} if detail else None
        names = ("sender", "seq", "sent", "rank", "digest", "size")
        group = None if kind in ("start", "crash", "end", "fault") else GROUP
        self.rows.setdefault(host.me, []).append(
            (kind, host.clock(), self.now, group, None, *[columns.get(name) for name in names], extra)
        )
        if kind in ("send", "deliver", "decide", "reject", "late"):
            words = "".join(f" {name}={value}" for name, value in (detail or {}).items() if name != "text")
            self.say(host.me, f"{kind} {columns['sender']}/{columns['seq']}{words}")

    def _tell(self, host: ExploredHost, task: Task, request: Operate, result: Any) -> None:
        took = self.now - task.began
        lasted = f"took {took}" if took else "at once"
        self.say(host.me, f"{_named(request)} ({lasted}){' finds it dead' if result is FAILED else ''}")

    def say(self, who: str, text: str) -> None:
        """A line of the story."""
        if self._telling and self._exploring:
            self.story.append(Happened(self.now, who, text))


def _lasting(connection: Connection | None) -> Any:
    """What anybody can still see of a connection: when one that only sends has gone is no matter."""
    return connection if connection is None or connection.entry else (connection.process, connection.gone)


def _named(request: Operate) -> str:
    return f"{request.name} in copy {request.copy + 1}"
