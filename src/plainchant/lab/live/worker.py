"""One member of a live scenario, as a process: ``python -m plainchant.lab.live.worker``.

The worker reads its task and then commands from standard input and reports on standard output (:mod:`.control`). It is an
application like any other: a :class:`~.node.Node` over a :class:`~.faulty.FaultyTransport`, with senders (:mod:`.workload`) and
a reader for each of its groups. It exits when it has left its last group, was halted by the protocol, or is told to end; only
then does it record an ``end``.

A process that is to die in the middle of a broadcast, or after its k-th event, kills itself with SIGKILL. One whose supervisor
is gone (standard input ends, or on Linux the parent dies) dies at once, because no other process would end it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import dataclasses
import faulthandler
import os
import resource
import signal
import sys
import warnings
from collections.abc import Coroutine
from random import Random
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ...core.engine import Engine, Host
from ...core.memory import Operate
from ...core.model import SECOND, Invitation, PlainchantError, UsageError
from ...group import Buffers, Group, Halted, JoinTimeout, NotFormed, Refused
from ...live.node import Node
from ...live.node_keys import Insecure
from ...live.transport import Address
from ...live.udp import UdpTransport
from ...protocols.registry import Description, describe
from ...scenario.faults import Omission, describe_background, describe_fault
from ...scenario.links import background_loss
from ...scenario.model import Fault
from ...scenario.traffic import sends
from . import control
from .faulty import FaultyTransport
from .workload import Numbering, Sender, outgoing_for

if TYPE_CHECKING:
    from ...live.keys import Keyring

JOIN_SECONDS: Final = 30.0  # how long a process that starts later tries to join a group before it gives up
FORM_SECONDS: Final = 120.0  # how long the first members wait for each other; their supervisor gives up before
_LONGEST_LINE: Final = 64 << 20
_PR_SET_PDEATHSIG: Final = 1


class Worker:
    """One process: its node, its groups, and its task."""

    def __init__(self, task: control.Task) -> None:
        self._task = task
        self._numbering: dict[Group, Numbering] = {}
        self._groups: list[Group] = []
        self._outside: dict[str, None] = {}  # groups that it has asked to enter and is not in yet
        self._begin = task.begin
        self._quiet = task.calm
        self._refusing: dict[str, None] = {}  # groups that it refuses when they are proposed; an empty name stands for all
        self._sending: dict[Group, list[asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[control.Over] = asyncio.get_running_loop().create_future()
        self._drained = False
        self._transports: list[FaultyTransport] = []  # one for each network
        self._attentive = asyncio.Event()  # whether the application takes messages
        self._attentive.set()
        same = ("peers", "parameters", "packet", "trace", "run", "incarnation", "groups", "memory", "backup", "insecure")
        given: dict[str, Any] = {name: getattr(task, name) for name in same}
        description, key = self._describe(), _ring(task.key)
        self._node = Node(me=task.place, transport=self._make_transport, description=description, key=key, **given)
        if self._node.proposes:
            self._node.agree = self._agree

    def _make_transport(self, address: Address, packet: int) -> FaultyTransport:
        task = self._task
        lan = len(self._transports) + 1
        names = {place_address: place for place, place_address in (task.peers, task.backup)[lan - 1].items()}
        random = self._stream("network" if lan == 1 else f"network/{lan}")
        made = FaultyTransport(UdpTransport(address, packet=packet), task.network, random, me=task.place, names=names, lan=lan)
        self._transports.append(made)
        return made

    def _describe(self) -> Description:
        task = self._task
        description = describe(task.protocol)

        def make(host: Host, parameters: Any) -> Engine:
            """Called when the process has its name and its spool, before it does anything."""
            if task.note is not None:
                self._node.host.note("fault", task.note)
            loss = background_loss(task.network)
            if loss and not task.calm and self._node.host.notes_requests:
                self._node.host.note("fault", describe_background(loss))
            if self._node.host.memory is not None:
                self._node.host.memory.tells_operations = task.operations
                if self._node.host.memory.timely and abs(task.clock_offset) > description.placement.skew(parameters):
                    # The clock may have been set while no process ran here. Promises do not cover a process with a wrong clock.
                    self._node.host.note("fault", {"fault": "clock", "timing": True, "offset": task.clock_offset})
            return description.make(host, parameters)

        return dataclasses.replace(description, make=make)

    def _stream(self, name: str) -> Random:
        return Random(f"{self._task.seed}/{name}/{self._task.place}/{self._task.incarnation}")

    async def run(self, commands: asyncio.StreamReader) -> None:
        """Carries out commands until the process ends."""
        node = self._node
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Insecure)  # the run has a network of its own
            await node.open()
        node.host.clock_offset = self._task.clock_offset
        for transport in self._transports:
            for fault in self._task.faults:
                transport.apply(fault)
            if self._task.calm:
                transport.calm()
        if not self._task.enter and node.description.placement.idle:
            self._spawn(self._serve())
        for group in self._task.enter:
            self._enter(group, forms=self._task.forms)
        self._spawn(self._obey(commands))
        if self._node.proposes:
            self._spawn(self._accept_invitations())
        over = await self._over
        for sending in list(self._sending):
            self._stop_sending(sending)
        if over.state in ("left", "outside"):
            if node.host.memory is not None:
                node.host.memory.stop()
            for transport in self._transports:
                await transport.close()  # without an ``end``, see above
        else:
            await node.close(drained=self._drained)
        say(over)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._gone)
        return task

    def _gone(self, task: asyncio.Task[None]) -> None:
        """The protocol halted the process, or a task failed, which ends the process with its traceback."""
        self._tasks.discard(task)
        error = task.exception() if not task.cancelled() else None
        if isinstance(error, Halted):
            self._finish(control.Over("halted", str(error)))
        elif error is not None and not self._over.done():
            self._over.set_exception(error)

    def _finish(self, over: control.Over) -> None:
        if not self._over.done():
            self._over.set_result(over)

    async def _serve(self) -> None:
        node = self._node
        await node.serve()
        say(control.Serving(node.name, dataclasses.asdict(node.parameters)))
        reason = await node.halted()
        self._finish(control.Over("halted", reason.text))

    def _enter(self, name: str, *, forms: bool) -> None:
        self._outside[name] = None
        self._spawn(self._take_part(name, forms))

    async def _take_part(self, name: str, forms: bool) -> None:
        node, task = self._node, self._task
        first = task.groups[name] if forms else ()
        buffers = Buffers(outgoing=self._outgoing(name))
        try:
            group = await node.enter(name, first, FORM_SECONDS if forms else JOIN_SECONDS, buffers)
        except JoinTimeout as late:
            del self._outside[name]
            if not self._groups and not self._outside:
                self._finish(control.Over("outside", str(late)))
            return
        del self._outside[name]
        await self._be_in(group)

    def _outgoing(self, group: str) -> int:
        return outgoing_for([workload for workload in self._task.workload if sends(workload, self._task.place, group)])

    async def _be_in(self, group: Group) -> None:
        node = self._node
        name = group.name
        self._groups.append(group)
        say(control.Entered(name, node.name, dataclasses.asdict(node.parameters)))
        if self._begin is not None:
            self._start_sending(group)
        async for _ in group.batches():
            await self._attentive.wait()
            if group.name != name:
                name = group.name
                say(control.Entered(name, node.name, dataclasses.asdict(node.parameters)))
        node.finish(group.name)
        self._groups.remove(group)
        self._stop_sending(group)
        if not self._groups and not self._outside:
            self._finish(control.Over("left"))

    def _agree(self, invitation: Invitation) -> bool:
        return invitation.group not in self._refusing and "" not in self._refusing

    async def _accept_invitations(self) -> None:
        while True:
            self._spawn(self._be_in(await self._node.next_group()))

    async def _form(self, name: str, members: tuple[str, ...]) -> None:
        try:
            group = await self._node.form(name, members, timeout=JOIN_SECONDS, outgoing=self._outgoing(name))
        except (NotFormed, JoinTimeout):
            return  # the trace says why
        await self._be_in(group)

    async def _end(self, end: Coroutine[Any, Any, object]) -> None:
        with contextlib.suppress(Halted, Refused):  # the reader of the group sees it, too
            await end

    def _start_sending(self, group: Group) -> None:
        if self._quiet:
            return
        assert self._begin is not None
        task = self._task
        sending = self._sending[group] = []
        numbering = self._numbering.setdefault(group, Numbering())
        end = self._begin + task.duration
        for number, workload in enumerate(task.workload):
            if sends(workload, task.place, group.name):
                random = self._stream(f"workload/{group.name}/{number}")
                sender = Sender(group, workload, numbering, random, begin=self._begin, end=end, stream=f"w{number}")
                sending.append(self._spawn(sender.run()))

    def _group(self, name: str) -> Group | None:
        return next((group for group in self._groups if group.name == name), None)

    def _stop_sending(self, group: Group) -> None:
        for task in self._sending.pop(group, ()):
            task.cancel()

    async def _obey(self, commands: asyncio.StreamReader) -> None:
        while text := await commands.readline():
            self._do(control.decode_command(text))
        die()

    def _do(self, command: control.Command) -> None:
        host = self._node.host
        match command:
            case control.Begin(start):
                self._begin = start
                for group in self._groups:
                    self._start_sending(group)
            case control.Note(number, detail):
                host.note("fault", detail)
                say(control.Done(number))
            case control.Spare(number):
                if self._spare():
                    say(control.Done(number))
            case control.Spoil(fault, recorded):
                if recorded:
                    host.note("fault", describe_fault(fault))
                for transport in self._transports:
                    transport.apply(fault)
            case control.Inflict(fault):
                self._suffer(fault)
            case control.Enter(groups, fault):
                for name in groups:
                    if self._group(name) is None and name not in self._outside:
                        host.note("fault", describe_fault(fault))
                        self._enter(name, forms=False)
            case control.Quieten():
                if host.notes_requests:
                    host.note("fault", {"fault": "calm"})
                self._quiet = True
                self._spare()
                self._attentive.set()
                _limit_files(resource.RLIM_INFINITY)
                for transport in self._transports:
                    transport.calm()
                host.omissions.clear()
                for group in list(self._sending):
                    self._stop_sending(group)
            case control.Ask(number):
                every = [transport.spoiled for transport in self._transports]
                counts = [sum(getattr(each, name) for each in every) for name in ("lost", "duplicated", "corrupted")]
                say(control.Status(number, self._waiting(), *counts))
            case control.Where():
                for task in asyncio.all_tasks():
                    task.print_stack(file=sys.stderr)
                sys.stderr.flush()
            case control.End(drained):
                self._drained = drained
                self._finish(control.Over("ended"))

    def _suffer(self, fault: Fault) -> None:
        host, kind, named = self._node.host, fault.kind, self._group(fault.group)
        if kind == "crash":
            self._doom(fault)
            return
        if kind == "omit":
            host.omissions.append(Omission(fault))
            return
        if (kind == "slow" and host.memory is None) or (kind in ("close", "rename") and named is None):
            return
        # Protocols on shared memory compare clocks, which may differ by their skew and no more.
        is_timing = kind in ("step", "slow") and host.memory is not None and host.memory.timely
        host.note("fault", describe_fault(fault) | ({"timing": True} if is_timing else {}))
        match kind:
            case "step":
                host.set_clock(fault.offset)
            case "slow" if host.memory is not None:
                host.memory.slow_down(fault.length, fault.delay)
            case "sluggish":
                self._attentive.clear()
                asyncio.get_running_loop().call_later(fault.length / SECOND, self._attentive.set)
            case "disk":
                if host.spool is not None:
                    _limit_files(host.spool.written + fault.room)
            case "leave":
                for group in self._groups:
                    if fault.group in ("", group.name):
                        self._spawn(self._end(group.leave()))
            case "form":
                self._spawn(self._form(fault.group, fault.members))
            case "refuse":
                self._refusing[fault.group] = None
            case "close" if named is not None:
                self._spawn(self._end(named.close()))
            case "rename" if named is not None:
                self._spawn(self._end(named.rename(fault.name)))
            case _:
                raise UsageError(f"{kind!r} is no fault that happens inside a process")

    def _doom(self, fault: Fault) -> None:
        host = self._node.host
        if fault.after_events:

            def end() -> None:
                host.note("fault", describe_fault(fault))
                die()

            host.doom = end
            host.countdown = fault.after_events
            return
        host.note("fault", describe_fault(fault))
        if host.memory is not None:
            host.memory.after = _die_while_sending
        if host.memory is None or self._node.description.placement.node_of is not None:
            for transport in self._transports:
                transport.doom(lambda reached: die())

    def _spare(self) -> bool:
        """Takes a crash back that has not happened yet; False if it is happening."""
        self._node.host.countdown = 0
        in_time = all([transport.spare() for transport in self._transports])
        if self._node.host.memory is not None:
            self._node.host.memory.after = lambda operation: None
        if in_time:
            say(control.Spared())
        return in_time

    def _waiting(self) -> str | None:
        """What this process still has to do before it is at rest."""
        for name in self._outside:
            return f"it is not in group {name} yet"
        reasons = [group.waiting() for group in self._groups]
        if not reasons and self._node.host.me:
            reasons = [self._node.host.waiting("")]
        return next((reason.text for reason in reasons if reason is not None), None)


def _ring(key: str) -> Keyring | None:
    if not key:
        return None
    from ...live.keys import Keyring  # brings the ciphers, for which other runs need not wait

    return Keyring.parse(key, "the task")


def say(report: control.Report) -> None:
    """Tells the supervisor."""
    sys.stdout.buffer.write(control.line(report))
    sys.stdout.buffer.flush()


def die() -> NoReturn:
    """Ends this process at once, without a report."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit("a killed process does not come here")


def _die_while_sending(operation: Operate) -> None:
    """After a message is in one copy, the first that is written, and not in all."""
    if (operation.name == "write" and operation.copy == 0) or (operation.name == "store" and not operation.news):
        die()


def _limit_files(size: int) -> None:
    """From now on the kernel refuses to write beyond this offset of any file, as a full disk does: what still fits is written."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size if most == resource.RLIM_INFINITY else most, most))


async def _main() -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=_LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    first = await commands.readline()
    if first:
        await Worker(control.decode_task(first)).run(commands)


def main() -> int:
    """The process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor, which then ends its workers
    faulthandler.register(signal.SIGUSR1)  # prints the stacks, also of a process that hangs
    if sys.platform == "linux":  # elsewhere the end of standard input tells that the parent has died
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        asyncio.run(_main())
    except PlainchantError as error:
        print(f"plainchant: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
