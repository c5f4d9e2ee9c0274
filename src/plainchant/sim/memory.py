"""Shared memory in the simulator: modules, mailboxes, the mailbox server, and the procedures that use them.

Theory of operation
-------------------
**Procedures.** A procedure (:mod:`.core.memory`) is resumed in a turn of its host: what it asks of the host until its next
request is applied like what an engine asks for. A request is one entry in the kernel's heap, which resumes the procedure when it
is over. An operation has its effect at the instant at which it is over, in the turn in which the procedure gets the result, and
counts as an event of the process. So a process can crash between any two operations, and one that crashes during an operation has
not done it.

**Time.** An operation takes what is drawn for it in [0, bound] x ``share``, and longer if its process is ``slow``. With
``service`` a module does one operation at a time: the last part of an operation, of that length, needs the module for itself and
waits for it in order of arrival. Waits end when the process's clock shows their time; a clock that is set ends them earlier or
later. A nap that names no mailbox is a wait. One that does ends with the first news in it that its procedure has not seen: news
that came between the procedure's last operation there and the nap end it at once, and what ended a nap counts as seen. An
operation that finds its module crashed is no news.

**Late.** ``due`` is when a procedure's last request ought to have ended. An operation is late if it is over more than its bound
after that. An operation that a process has begun has its effect even if the process then does nothing for a while (a pause, a
busy processor); it is late if its result is seen too long after it was due, and a wait is late if the procedure goes on at all
after its end. What is late is written into the trace as a timing fault, once, unless the protocol does not mind.

**Failures.** The process membership service knows which processes have crashed or were halted and tells all others after
``detection``, or as soon as a process reports it; those that it was connected for (``Connect.process``) have failed with it. A
process that starts later is told as well, because it may be the only one left to clean up.

**Nodes.** Where processes are on nodes, each node has a :class:`SimMemory` of its own. A node that crashes as a whole forgets
what was in it; of its modules, those that had crashed stay so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..core.memory import (
    FAILED,
    Connect,
    Connection,
    Directory,
    Disconnect,
    Entry,
    Header,
    Layout,
    Nap,
    Operate,
    Port,
    Procedure,
    Rest,
    Until,
)
from ..core.model import Failure, ProtocolError, UsageError
from ..scenario.model import Memory

if TYPE_CHECKING:
    from .host import SimHost
    from .kernel import Kernel

_FAILED: Final = ("crashed", "halted")
_REQUESTS: Final = (Operate, Until, Rest, Nap, Connect, Disconnect, Directory)

Watch: TypeAlias = "Callable[[SimHost, Operate, SimMemory], None]"
"""Looks at the memory of a node after an operation, when its process has seen the result."""


class SimCopy:
    """One copy of a mailbox."""

    __slots__ = ("_connections", "_data", "_entries", "_header", "_sorted", "_there", "layout")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._header = Header()
        self._connections: dict[int, Connection] = {}
        self._entries: dict[int, Entry] = {}
        self._there: dict[int, Entry] = {}  # the entries that are not removed
        self._sorted: tuple[tuple[int, Entry], ...] | None = ()
        self._data: dict[int, bytes] = {}

    def header(self) -> Header:
        return self._header

    def put_header(self, header: Header) -> None:
        self._header = header

    def connections(self) -> Iterable[tuple[int, Connection]]:
        return tuple(self._connections.items())

    def connection(self, place: int) -> Connection | None:
        return self._connections.get(place)

    def connect(self, place: int, connection: Connection) -> None:
        if not 0 <= place < self.layout.places:
            raise ProtocolError(f"there is no place {place}: this mailbox has {self.layout.places}, counted from 0")
        is_new = place not in self._connections
        self._connections[place] = connection
        if is_new:
            self._connections = dict(sorted(self._connections.items()))

    def disconnect(self, place: int) -> None:
        self._connections.pop(place, None)

    def entries(self) -> Iterable[tuple[int, Entry]]:
        if self._sorted is None:
            self._sorted = tuple(sorted(self._there.items()))
        return self._sorted

    def entry(self, slot: int) -> Entry | None:
        return self._entries.get(slot)

    def put(self, slot: int, entry: Entry) -> None:
        self._check(slot)
        self._entries[slot] = entry
        self._sorted = None
        if entry.removed:
            self._there.pop(slot, None)
            self._data.pop(slot, None)
        else:
            self._there[slot] = entry

    def data(self, slot: int) -> bytes:
        return self._data.get(slot, b"")

    def fill(self, slot: int, data: bytes) -> None:
        self._check(slot)
        if len(data) > self.layout.room:
            raise ProtocolError(f"{len(data)} bytes do not fit into an entry, which has room for {self.layout.room}")
        self._data[slot] = data

    def _check(self, slot: int) -> None:
        slots = self.layout.places * self.layout.slots
        if not 0 <= slot < slots:
            raise ProtocolError(f"there is no slot {slot}: this mailbox has {slots}, counted from 0")


class SimMailbox:
    """A mailbox: its copies, and the processes connected to it, by place, in the order in which they connected."""

    def __init__(self, layout: Layout, epoch: int) -> None:
        self.layout = layout
        self.epoch = epoch
        self.copies = tuple(SimCopy(layout) for _ in range(layout.copies))
        self.places: dict[int, str] = {}


class SimMailboxServer:
    """Knows mailboxes by name and who is connected to them."""

    def __init__(self) -> None:
        self.mailboxes: dict[str, SimMailbox] = {}

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.mailboxes))

    def directory(self) -> dict[str, tuple[str, ...]]:
        """Who is connected to each mailbox, in the order in which they were."""
        return {name: tuple(self.mailboxes[name].places.values()) for name in self.names()}

    def create(self, name: str, layout: Layout, epoch: int) -> None:
        """Makes a mailbox; its name must be new."""
        if name in self.mailboxes:
            raise UsageError(f"there is a mailbox {name!r} already; connect to it, or choose another name")
        self.mailboxes[name] = SimMailbox(layout, epoch)

    def connect(self, name: str, layout: Layout, process: str) -> Port | str:
        """The lowest free place for a process, or why it gets none."""
        mailbox = self.mailboxes.get(name)
        if mailbox is None:
            return f"there is no mailbox {name!r}"
        if mailbox.layout != layout:
            return f"mailbox {name!r} was made as {mailbox.layout}, not as {layout}; give all its members the same parameters"
        if process in mailbox.places.values():
            return f"{process} is connected to mailbox {name!r} already"
        for place in range(layout.places):
            if place not in mailbox.places:
                mailbox.places[place] = process
                return Port(place, mailbox.epoch)
        return f"all {layout.places} places of mailbox {name!r} are taken; wait until somebody has left, or make it with more"

    def disconnect(self, name: str, place: int, process: str) -> None:
        """Frees a place (-1: whichever it is), if that process has it; the last one to go removes the mailbox."""
        mailbox = self.mailboxes.get(name)
        if mailbox is None:
            return
        if place < 0:
            place = next((each for each, who in mailbox.places.items() if who == process), place)
        if mailbox.places.get(place) == process:
            del mailbox.places[place]
            if not mailbox.places:
                self.remove(name)

    def remove(self, name: str) -> None:
        """Removes a mailbox to which nobody is connected."""
        mailbox = self.mailboxes.get(name)
        if mailbox is None:
            raise UsageError(f"there is no mailbox {name!r}; there are: {', '.join(self.names()) or 'none'}")
        if mailbox.places:
            there = ", ".join(mailbox.places[place] for place in sorted(mailbox.places))
            raise UsageError(f"mailbox {name!r} cannot be removed while {there} are connected; let them disconnect first")
        del self.mailboxes[name]


@dataclasses.dataclass(slots=True)
class _Module:
    """A memory module, which does one operation at a time."""

    crashed: bool = False
    free_at: int = 0


@dataclasses.dataclass(slots=True, eq=False)
class _Running:
    """A procedure that runs."""

    host: SimHost
    name: str
    send: Callable[[Any], Any]
    random: Random
    began: int
    since: int  # when the request that is under way was due
    due: int  # when the last request ought to have ended
    request: Any = None
    token: int = 0  # changes when a wait is begun or moved, so that older entries in the heap are void
    seen: dict[str, int] = dataclasses.field(default_factory=dict)  # the number of news in each mailbox when it last looked


class SimMemory:
    """All modules of a node, the mailboxes in them, and everything that runs on them. ``timely``: what is late is a timing fault.
    ``watch`` is called after every operation. ``send_length``: see ``Placement.send_length``."""

    def __init__(
        self,
        kernel: Kernel,
        settings: Memory,
        layout: Layout,
        seed: int,
        *,
        node: str = "",
        timely: bool = True,
        watch: Watch | None = None,
        send_length: Callable[[Operate, int], int | None] = lambda operation, copies: None,
    ) -> None:
        self.node = node
        self._kernel = kernel
        self._settings = settings
        self._service = settings.service
        self._seed = seed
        self._timely = timely
        self._watch = watch
        self._send_length = send_length
        self._hosts: dict[str, SimHost] = {}  # every process that has started here, also those that have stopped
        self._modules = tuple(_Module() for _ in range(layout.copies))
        self.server = SimMailboxServer()
        self._running: dict[str, dict[_Running, None]] = {}  # the procedures of each process
        self._random: dict[str, Random] = {}
        self._slow: dict[str, tuple[int, int]] = {}  # of processes that are slow: until when, and by how much
        self._dying: dict[str, int] = {}  # of processes that die while they send: how many operations they still do
        self._told: dict[str, Failure] = {}  # failures that all processes know of
        self._acting: dict[str, SimHost] = {}  # processes elsewhere, and the host connected for each: they fail with it
        self._news: dict[str, int] = {}  # the number of news in each mailbox
        self._napping: dict[str, dict[_Running, None]] = {}  # procedures that wait for news, by mailbox

    # --- what hosts and faults ask for ---

    def begin(self, host: SimHost, name: str, procedure: Procedure) -> None:
        """Runs a procedure, from now on."""
        if host.me not in self._random:
            self._random[host.me] = Random(f"{self._seed}/memory/{host.me}")
        now = self._kernel.now
        running = _Running(host, name, procedure.send, self._random[host.me], now, now, now)
        self._running.setdefault(host.me, {})[running] = None
        self._resume(running)

    def crash_module(self, number: int) -> bool:
        """A module (counted from 1) crashes, with every copy in it; False: it had crashed before."""
        had_crashed = self._modules[number - 1].crashed
        self._modules[number - 1].crashed = True
        return not had_crashed

    @property
    def working(self) -> tuple[int, ...]:
        """The modules that have not crashed, counted from 1."""
        return tuple(number for number, module in enumerate(self._modules, 1) if not module.crashed)

    def lose_all(self) -> None:
        """The node has crashed: its memory is lost, and so is the record of the processes that were there."""
        self.server.mailboxes.clear()
        for known in (self._hosts, self._told, self._acting):
            known.clear()

    def slow_down(self, host: SimHost, until: int, delay: int) -> None:
        """Operations of this process take longer by ``delay`` until a time."""
        self._slow[host.me] = (until, delay)

    def calm(self) -> None:
        """No process is slow any more."""
        self._slow.clear()

    def clock_was_set(self, host: SimHost) -> None:
        """Waits of a process end when its clock, as it is now, shows their time."""
        for running in self._running.get(host.me, ()):
            request, kind = running.request, running.request.__class__
            roused = kind is Nap and request.mailbox and running not in self._napping.get(request.mailbox, ())
            if kind is Until or (kind is Nap and not roused):
                self._arm(running)
                running.due = max(running.due, self._kernel.now)

    # --- failures ---

    def stopped(self, host: SimHost) -> None:
        """A process has stopped for ever."""
        for running in self._running.pop(host.me, ()):
            self._napped(running)
        if host.end.state in _FAILED:
            self._kernel.at(self._kernel.now + self._settings.detection, self._tell, host)

    def started(self, host: SimHost) -> None:
        """A process has started: it hears of those that had failed before."""
        self._hosts[host.me] = host
        if self._told:
            self._kernel.at(self._kernel.now + self._settings.detection, self._tell_newcomer, host)

    def reported(self, reporter: SimHost, process: str) -> None:
        """A process reports that another seems to have failed."""
        if process in self._told:
            _notice(reporter, self._told[process])
            return
        for host in tuple(self._hosts.values()):
            if host.end.state in _FAILED and (host.me == process or self._acting.get(process) is host):
                self._tell(host)

    def _tell(self, host: SimHost) -> None:
        if host.me not in self._hosts:
            return
        actor = self._acting.get(host.me)
        if actor is not None and actor.alive:
            # The process connected for it stops acting for it, and cleans up; before that no other process may.
            _notice(actor, Failure(host.me, host.end.reason))
            return
        names = {host.me: host.end.reason}
        names |= {name: f"{host.me}, which acts for it, has failed" for name, actor in self._acting.items() if actor is host}
        for name, text in names.items():
            if name not in self._told:
                failure = self._told[name] = Failure(name, text)
                for other in tuple(self._hosts.values()):
                    _notice(other, failure)

    def _tell_newcomer(self, host: SimHost) -> None:
        for failure in self._told.values():
            _notice(host, failure)

    # --- requests ---

    def _resume(self, running: _Running, result: Any = None) -> None:
        """Goes on with a procedure as soon as its process does."""
        host = running.host
        if host.special and host.processor.busy:
            host.post(host.turn, self._catch_up, running, result)
        else:
            host.turn(self._advance, running, result)

    def _catch_up(self, running: _Running, result: Any) -> None:
        """Goes on with a procedure whose process did nothing for a while."""
        host, request = running.host, running.request
        if request.__class__ is Operate:
            if host.now - running.since > request.bound:
                self._note_late(running, request.name, request.copy, host.now - running.since, request.bound)
                running.due = host.now
        elif host.now > running.due:
            self._note_late(running, "wait", None, host.now - running.due, 0)
            running.due = host.now
        self._advance(running, result)

    def _advance(self, running: _Running, result: Any) -> None:
        """Inside a turn: lets the procedure go on to its next request, which begins when the turn is over."""
        try:
            request: Any = running.send(result)
        except StopIteration:
            self._running.get(running.host.me, {}).pop(running, None)
            return
        if request.__class__ not in _REQUESTS:
            raise ProtocolError(f"procedure {running.name!r} of {running.host.me} yields {request!r}, which is no request")
        running.request = request
        running.since = running.due
        running.host.defer(self._begin, running)

    def _begin(self, running: _Running) -> None:
        request, kernel = running.request, self._kernel
        kind = request.__class__
        if kind is Operate:
            running.began = kernel.now
            duration = self._duration(running, request.bound)
            if self._service:
                kernel.at(kernel.now + max(0, duration - self._service), self._arrive, running)
            else:
                kernel.at(kernel.now + duration, self._complete, running)
        elif kind is Until or kind is Rest or kind is Nap:
            mailbox = request.mailbox if kind is Nap else ""
            if mailbox and self._news.get(mailbox, 0) > running.seen.get(mailbox, 0):
                self._rouse(running, mailbox)
                return
            if mailbox:
                self._napping.setdefault(mailbox, {})[running] = None
            self._arm(running)
        else:
            kernel.at(kernel.now, self._serve, running)

    # waits

    def _arm(self, running: _Running) -> None:
        request = running.request
        running.token += 1
        if request.__class__ is Rest:
            ends = self._kernel.now + request.length
        else:
            time = request.latest or request.time if request.__class__ is Nap and request.mailbox else request.time
            ends = running.host.clock_.when(time)
        running.due = max(running.since, ends)
        self._kernel.at(ends, self._wake, (running, running.token))

    def _wake(self, wait: tuple[_Running, int]) -> None:
        running, token = wait
        if token == running.token and running.host.alive:
            self._napped(running)
            running.request = None
            self._resume(running)

    def _rouse(self, running: _Running, mailbox: str) -> None:
        """Ends a nap now: there is news."""
        running.seen[mailbox] = self._news[mailbox]
        running.token += 1
        running.due = max(running.since, self._kernel.now)
        self._kernel.at(self._kernel.now, self._wake, (running, running.token))

    def _napped(self, running: _Running) -> None:
        request = running.request
        if request.__class__ is Nap and request.mailbox:
            self._napping.get(request.mailbox, {}).pop(running, None)

    # operations

    def _duration(self, running: _Running, bound: int) -> int:
        kind, share = self._settings.duration, self._settings.share
        most = bound if share == 1.0 else int(bound * share)
        if kind == "uniform":
            duration = int(running.random.random() * (most + 1))
        elif kind == "extremes":
            duration = most if running.random.random() < 0.5 else 0
        else:
            duration = most if kind == "max" else 0
        until, delay = self._slow.get(running.host.me, (0, 0))
        return duration + (delay if self._kernel.now < until else 0)

    def _arrive(self, running: _Running) -> None:
        """An operation needs the module for itself."""
        if running.host.alive:
            module = self._modules[running.request.copy]
            module.free_at = max(self._kernel.now, module.free_at) + self._service
            self._kernel.at(module.free_at, self._complete, running)

    def _complete(self, running: _Running) -> None:
        host = running.host
        if not host.alive:
            return
        self._kernel.events += 1
        request = running.request
        if host.special and host.processor.busy:
            host.turn(self._operate_behind, running)
        else:
            host.turn(self._operate, running)
            host.count_down()
        if self._watch is not None:
            self._watch(host, request, self)

    def _operate(self, running: _Running) -> None:
        """Inside a turn: the effect of an operation, and on."""
        result = self._effect(running)
        if not running.host.crashing:
            self._advance(running, result)

    def _operate_behind(self, running: _Running) -> None:
        """Inside a turn of a process that does nothing just now: the effect of an operation, which it sees later."""
        result = self._effect(running)
        running.host.after(running.host.post, self._see, running, result)

    def _see(self, running: _Running, result: Any) -> None:
        running.host.turn(self._catch_up, running, result)
        running.host.count_down()

    def _effect(self, running: _Running) -> Any:
        request: Operate = running.request
        host = running.host
        mailbox = self.server.mailboxes.get(request.mailbox)
        if mailbox is None:
            raise ProtocolError(f"{host.me} operates on mailbox {request.mailbox!r}, which does not exist; connect to it first")
        now = host.now
        result = FAILED if self._modules[request.copy].crashed else request.step(mailbox.copies[request.copy])
        if request.news and result is not FAILED:
            self._news[request.mailbox] = self._news.get(request.mailbox, 0) + 1
            for waiting in self._napping.pop(request.mailbox, ()):
                self._rouse(waiting, request.mailbox)
        running.seen[request.mailbox] = self._news.get(request.mailbox, 0)
        if self._settings.operations:
            detail = {"operation": request.name, "copy": request.copy, "began": running.began, "failed": result is FAILED}
            host.note_inside("operation", detail, request.mailbox)
        if now - running.since > request.bound:
            self._note_late(running, request.name, request.copy, now - running.since, request.bound)
            running.since = now
        running.due = now
        if host.mid_crash is not None:
            self._die_while_sending(host, request, host.mid_crash)
        return result

    def _die_while_sending(self, host: SimHost, request: Operate, random: Random) -> None:
        """A process that is to crash in the middle of a broadcast does so after some of the operations of a Send."""
        operations, left = self._send_length(request, len(self._modules)), self._dying.get(host.me)
        if operations is None or (not operations and left is None):
            return
        if left is None:
            left = random.randrange(max(operations - 1, 1))  # of one operation, after that one
        self._dying[host.me] = left - 1
        if not left:
            host.crash_inside({"mid_broadcast": True, "operation": request.name, "copy": request.copy})

    def _note_late(self, running: _Running, operation: str, copy: int | None, took: int, bound: int) -> None:
        if self._timely:
            where = {} if copy is None else {"copy": copy}
            detail = {"fault": "timing", "timing": True, "operation": operation, **where, "took_ns": took, "bound_ns": bound}
            running.host.note_inside("fault", detail)

    # the server

    def _serve(self, running: _Running) -> None:
        host, request = running.host, running.request
        if not host.alive:
            return
        running.due = self._kernel.now
        if request.__class__ is not Connect:
            if request.__class__ is Disconnect and self._may_disconnect(host, request.process):
                self.server.disconnect(request.mailbox, request.place, request.process)
            self._resume(running, self.server.directory() if request.__class__ is Directory else None)
            return
        self._drop_stale(request.mailbox)
        if request.mailbox not in self.server.mailboxes:
            self.server.create(request.mailbox, request.layout, host.clock_.read(self._kernel.now))
        if request.process:
            self._acting[request.process] = host
        self._resume(running, self.server.connect(request.mailbox, request.layout, request.process or host.me))

    def _may_disconnect(self, host: SimHost, process: str) -> bool:
        """Whether a process may free another's place. Where being late is no failure, not while that one runs: it may be using
        the place, and a live server refuses it. With timeouts the protocol itself has to keep the place."""
        other = self._hosts.get(process)
        return self._timely or other is None or other is host or not other.alive

    def _drop_stale(self, name: str) -> None:
        """Where being late is no failure, a mailbox whose processes have all stopped is made anew, as by a live mailbox server.
        With timeouts, what they left behind is waited for."""
        mailbox = self.server.mailboxes.get(name)
        if mailbox is None or self._timely or not mailbox.places:
            return
        if not any(who in self._hosts and self._hosts[who].alive for who in mailbox.places.values()):
            del self.server.mailboxes[name]


def _notice(host: SimHost, failure: Failure) -> None:
    if host.alive and host.me != failure.process:
        host.post(host.turn, host.engine.notice, failure)
