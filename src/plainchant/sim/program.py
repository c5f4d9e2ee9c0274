"""The asyncio program of one simulated process: its event loop, its groups, its life from joining to leaving.

Theory of operation
-------------------
The simulator steps the program's loop whenever something in it is ready, as an event of its own at that instant; timers are
events too. What the program asks of its groups is collected during a step and handed to the host after it, all sends of a
step together. What the host has to say reaches the groups when the effects of the engine's turn are performed, and wakes the
program for the next step. So neither ever runs inside the other.

Steps wait in the processor's inbox like packets, which is what a pause or a busy processor does to a program. When the host
is gone and the program is not (it left, or was halted), steps are taken at once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import os
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import CoroutineType
from typing import Any, Final, Literal, Protocol, TypeAlias

from ..core.model import Batch, Invitation, PlainchantError, Reason, Stream, UsageError, View, format_duration
from ..group import (
    LARGEST_MESSAGE,
    OUTGOING,
    UNREAD,
    Buffers,
    Group,
    GroupError,
    Guarantees,
    Halted,
    JoinTimeout,
    LeaveTimeout,
    Membership,
    Profile,
)
from ..group.proposals import Proposals, consent
from ..group.state_transfer import StateEvents
from ..scenario.outcome import EndState
from .host import SimHost
from .outgoing import Outgoing
from .virtual_loop import VirtualLoop

Main: TypeAlias = Callable[[Any], Awaitable[Any]]
State: TypeAlias = Literal["returned", "raised", "cancelled", "crashed", "halted", "unfinished"]

STANDSTILL: Final = 100_000  # rounds of a program's loop at one instant after which virtual time counts as stuck
_PACKAGE: Final = str(Path(__file__).resolve().parent.parent) + os.sep
_ASYNCIO: Final = str(Path(asyncio.__file__).resolve().parent) + os.sep


class Standstill(PlainchantError):
    """A member's program goes round and round at one instant: virtual time would never go on."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How the program of one incarnation ended."""

    state: State
    value: Any = None  # what `main` returned
    error: Exception | None = None  # what it raised, or what joining or leaving did
    reason: str = ""  # why it was halted, or where it is if it is unfinished
    at: int = 0  # when `main` ended, ns

    @property
    def traceback(self) -> str:
        """The error with its traceback, as text; empty if there was none."""
        return "".join(traceback.format_exception(self.error)) if self.error is not None else ""


class Stage(Protocol):
    """The simulation, as far as a program knows it."""

    @property
    def now(self) -> int: ...

    def at(self, time: int, function: Callable[[Any], None], argument: Any = None) -> None:
        """Calls ``function(argument)`` at that time."""

    def guarantees(self, group: str, members: Sequence[str]) -> Guarantees:
        """What is promised in a group of these."""

    def name_at(self, place: str) -> str | None:
        """The process that was last at a place, if there was one."""

    def program_ended(self) -> None:
        """Nothing of a program will run any more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Terms:
    """What is the same for all programs of a run."""

    main: Main
    as_mapping: bool  # `main` gets all its groups by name
    timeout: float
    leave_timeout: float
    buffers: Buffers
    agree: Callable[[Invitation], bool] | None = None  # whether a program agrees to be in a group that is proposed to it


class Program:
    """The program of one incarnation: its event loop, its groups, its task. To its groups it is the port, and the node; to its
    process it is the application's side (:class:`.listener.Listener`)."""

    def __init__(self, simulation: Stage, host: SimHost, terms: Terms) -> None:
        self._simulation = simulation
        self._host = host
        self._outgoing = Outgoing(host)
        self._terms = terms
        self.name = host.me
        host.watch(self, all_messages=True)
        self._received = 0  # packets that its process has received
        self.groups: dict[str, Membership] = {}
        self._changes = True
        self._proposes = False
        self._settle = 0.0
        self._proposals = Proposals()
        # What is abstract in it is refused: those methods are set when its class is made.
        self.loop = VirtualLoop(host.me, lambda: simulation.now, self._wake)  # type: ignore[abstract]
        self.keeper = StateEvents(self.groups, defer=host.defer, turn=partial(self._request, host.later))
        self.over = False  # nothing of it will run any more
        self.outcome = Outcome("unfinished")
        self._task: asyncio.Task[None] | None = None
        self._stopping, self._stoppable = False, True
        self._value: Any = None
        self._ended_at = 0
        self._sizes: dict[str, deque[int]] = {}  # of the messages that the protocol has not taken yet
        self._requests: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._scheduled = False
        self._armed: int | None = None
        self._instant, self._rounds = -1, 0  # the instant of the latest step, and the number of steps before it at that instant
        self._counters: dict[str, int] = {}

    # --- beginning and ending ---------------------------------------------------------------------------------------

    def prepare(
        self, guarantees: Mapping[str, Guarantees], *, formed: Container[str], changes: bool, proposes: bool, settle: float
    ) -> None:
        """Makes the memberships, before the process forms or joins the groups. The other terms are those of :class:`Profile`."""
        self._changes, self._proposes, self._settle = changes, proposes, settle
        with self.loop.running():
            for name, promised in guarantees.items():
                self._make_member(name, promised, name in formed, self._terms.buffers)

    def _make_member(self, name: str, promised: Guarantees, formed: bool, buffers: Buffers) -> Membership:
        host = self._host
        largest = host.max_packet if host.only_sends else LARGEST_MESSAGE
        terms = {"changes": self._changes, "proposes": self._proposes, "admits": host.admits}
        profile = Profile(promised, formed=formed, settle=self._settle, largest=largest, **terms)
        member = self.groups[name] = Membership(self, name, self.name, profile, buffers)
        self._sizes[name] = deque()
        return member

    def count_packets(self) -> None:
        """Counts what its process receives, for :meth:`counters`."""
        receive = self._host.receive

        def counted(source: str, packet: Any) -> None:
            self._received += 1
            receive(source, packet)

        self._host.receive = counted

    def begin(self) -> None:
        if not self.over:
            with self.loop.running():
                self._task = self.loop.create_task(self._live(), name="main")

    def stop(self) -> None:
        """Cancels ``main``, as Ctrl-C does; what it does about it takes virtual time."""
        self._stopping = True
        if self._task is not None and self._stoppable and not self.over:
            self._stoppable = False
            self._task.cancel()

    def asked_to_leave(self, group: str) -> None:
        if not group or list(self.groups) == [group]:
            self.stop()
        elif group in self.groups:
            with self.loop.running():
                self.loop.create_task(self._leave_one(self.groups[group]))

    @property
    def is_going(self) -> bool:
        return self._stopping or not self._stoppable

    def crash(self, state: State = "crashed", reason: str = "") -> None:
        """Stops where it is, for ever."""
        if not self.over:
            self._is_over(Outcome(state, self._value, None, reason, self._simulation.now))
            self.loop.crash()

    def stopped(self, state: EndState, reason: Reason) -> None:
        """The process is no more; unless it crashed, the program goes on (called by the host)."""
        self._counters = self._count()
        if state == "crashed":
            self.crash()
            return
        self.keeper.end()
        if state == "halted":
            for group in self.groups.values():
                group.halted(reason)
            self._proposals.halt(reason)
        # What the processor was to do is forgotten, a step of ours perhaps among it.
        self._scheduled = False
        self._wake()

    def let_go(self) -> None:
        """The run is over: lets go of everything that belongs to it, since groups and remains of a crash live on."""
        if not self.over:
            self.crash("unfinished", self.describe())
        self._counters = self._count()
        self.loop.release()
        for group in self.groups.values():
            group.incoming.stop_listening()
            group.halted(Reason("over", f"the run is over, and {self.name} with it"))
        del self._host, self._outgoing, self._simulation, self._task

    def describe(self) -> str:
        """Where the program is, and what its process waits for."""
        parts = [f"it is at {place}" if (place := _where(self._task)) else "it has not begun"]
        parts += [f"{name}: {reason.text}" for name in self.groups if (reason := self.waiting(name)) is not None]
        return "; ".join(parts)

    def _is_over(self, outcome: Outcome) -> None:
        self.over = True
        self.outcome = outcome
        self._simulation.program_ended()

    # --- the program's life -----------------------------------------------------------------------------------------

    async def _live(self) -> None:
        state: State = "returned"
        error, reason = None, ""
        try:
            await self._membership()
        except asyncio.CancelledError:
            state = "cancelled"
        except Exception as caught:
            error, state = caught, "raised"
            if self._host.end.state == "halted" and _is_about_groups(caught):
                state, reason = "halted", self._host.end.reason
        self._stoppable = False
        await self._tidy_up()
        self._is_over(Outcome(state, self._value, error, reason, self._ended_at))
        if self._host.alive and self._changes:
            text = "its program ended without being let go"
            self._host.crash({"by": "application", "text": text}, text)

    async def _membership(self) -> None:
        terms = self._terms
        try:
            async with asyncio.timeout(terms.timeout):
                for group in self.groups.values():
                    await group.joined()
        except TimeoutError:
            self._ended_at = self._simulation.now
            text = f"{self.name} could not enter {', '.join(self.groups)} in {terms.timeout:g} s: {self.describe()}"
            raise JoinTimeout(Reason("join timeout", text)) from None
        error: BaseException | None = None
        try:
            given = {name: Group(member, self) for name, member in self.groups.items()}
            awaitable = terms.main(given if terms.as_mapping else next(iter(given.values())))
            if not inspect.isawaitable(awaitable):
                raise UsageError(f"main returned a {type(awaitable).__name__} and nothing to await: write `async def`")
            self._value = await awaitable
        except BaseException as caught:
            error = caught
            raise
        finally:
            self._ended_at = self._simulation.now
            self._stoppable = False
            for group in list(self.groups.values()):
                await self._leave(group, error)

    async def _leave(self, group: Membership, error: BaseException | None) -> None:
        """As at the end of ``async with plainchant.join(...)``. In a group that cannot be left, the program ends first."""
        group.incoming.stop_listening()
        if not group.profile.changes:
            return
        problem: GroupError
        try:
            async with asyncio.timeout(self._terms.leave_timeout):
                await group.leave()
            return
        except TimeoutError:
            waiting = group.waiting()
            text = f"{self.name} left {group.name} without being let go: not in {self._terms.leave_timeout:g} s"
            problem = LeaveTimeout(Reason("leave timeout", text + (f" ({waiting.text})" if waiting is not None else "")))
        except Halted as halted:
            if error is not None and _is_about_groups(error):
                return
            problem = halted
        if error is None:
            raise problem
        error.add_note(str(problem))

    async def _leave_one(self, group: Membership) -> None:
        with suppress(Halted):
            await group.leave()

    async def _tidy_up(self) -> None:
        """Ends what main has left behind, as ``asyncio.run`` does."""
        left = [task for task in self.loop.tasks() if task is not self._task]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for task in left:
            if not task.cancelled() and task.exception() is not None:
                message = "unhandled exception while the program was ended"
                self.loop.call_exception_handler({"message": message, "exception": task.exception(), "task": task})
        await self.loop.shutdown_asyncgens()

    # --- groups that are formed while processes run -----------------------------------------------------------------

    async def form(
        self,
        group: str,
        members: Sequence[str],
        *,
        timeout: float = 30.0,
        outgoing: int = OUTGOING,
        unread: int = UNREAD,
        listen: bool = True,
    ) -> Group:
        """Proposes a group, as ``plainchant.Node.form`` does."""
        self._check_proposes()
        buffers = Buffers(outgoing, unread, listen)
        if group in self._host.entered or group in self._proposals:
            raise UsageError(f"{self.name} is in {group!r} already, or about to be; propose a group of another name")
        names = [self._simulation.name_at(place) for place in members]
        missing = [place for place, name in zip(members, names, strict=True) if name is None]
        if missing or not members:
            raise UsageError(f"{group!r} is proposed to {', '.join(missing) or 'nobody'}; name processes that there are")
        proposal = self._proposals.begin(group, buffers)
        self._request(self._host.propose, group, names)
        try:
            async with asyncio.timeout(timeout):
                return await proposal.outcome
        except TimeoutError:
            text = f"{self.name} could not form group {group!r} in {timeout:.3g} s: no answer"
            raise JoinTimeout(Reason("join timeout", text)) from None
        finally:
            # What was proposed may be formed yet: then this process leaves at once.
            proposal.outcome.cancel()

    async def next_group(self) -> Group:
        """Waits for the next group that this process is in because another process proposed it."""
        self._check_proposes()
        return await self._proposals.next_group()

    def _check_proposes(self) -> None:
        if not self._proposes:
            raise UsageError("with this protocol and its parameters processes do not form groups while they run")

    def invited(self, invitation: Invitation) -> str:
        """Whether the program agrees; why not, or nothing (called by the host)."""
        agree = self._terms.agree
        if agree is None or self.over:
            return f"the program of {self.name} is in the groups that it was given, and no others"
        with self.loop.running():
            return consent(agree, invitation, self.name, self.loop)

    def installed(self, view: View) -> None:
        """A view of a group that the program was given, or of one that was formed meanwhile."""
        group = self.groups.get(view.group)
        if group is None or group.is_over:
            with self.loop.running():
                group = self._formed(view)
        group.add(view)

    def _formed(self, view: View) -> Membership:
        name = view.group
        proposal = self._proposals.take(name)
        buffers = proposal.buffers if proposal is not None else self._terms.buffers
        member = self._make_member(name, self._simulation.guarantees(name, view.members), True, buffers)
        if not self._proposals.hand_over(proposal, Group(member, self)):
            member.incoming.stop_listening()
            self._request(self._host.leave, name)
        return member

    def refused(self, group: str, reason: Reason) -> None:
        """This process is not in a group that it proposed, agreed to or asked to join."""
        if not self._proposals.refuse(group, reason) and group in self.groups:
            self.groups[group].halted(reason)

    # --- steps ------------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Something is ready, or a timer was set, or something is asked for: a step is due, or a look at the timers."""
        if not self._scheduled and not self.over:
            self._scheduled = True
            self._simulation.at(self._simulation.now, self._go)

    def _go(self, _: None) -> None:
        if self._host.alive:
            self._host.post(self._step)
        else:
            self._step()

    def _step(self) -> None:
        self._scheduled = False
        if self.over:
            return
        now = self._simulation.now
        self._rounds = self._rounds + 1 if now == self._instant else 0
        self._instant = now
        if self._rounds > STANDSTILL:
            raise Standstill(
                f"the program of {self.name} has gone round {STANDSTILL} times at {format_duration(now)}, and virtual time "
                f"stands still ({self.describe()}): it waits by asyncio.sleep(0), or for what is there already; wait for an "
                f"event, or sleep a while"
            )
        self.loop.step()
        while self._requests and not self.over:
            # The host gets what the program asked for, in order.
            requests, self._requests = self._requests, []
            for request, arguments in requests:
                if self._host.alive:
                    request(*arguments)
        if not self.over:
            self._arm()

    def _arm(self) -> None:
        due = self.loop.due()
        if due is not None and (self._armed is None or due < self._armed):
            self._armed = due
            self._simulation.at(due, self._timer, due)

    def _timer(self, due: int) -> None:
        if due != self._armed or self.over:
            return
        self._armed = None
        following = self.loop.due()
        if following is not None and following <= due:
            self._wake()
        else:
            self._arm()

    # --- what the groups ask for (Port) -----------------------------------------------------------------------------

    def accept(self, group: str, payloads: Sequence[bytes]) -> None:
        self._sizes[group].extend(map(len, payloads))
        if self._requests and self._requests[-1][0] == self._outgoing.accept and self._requests[-1][1][0] == group:
            self._requests[-1][1][1].extend(payloads)
        else:
            self._request(self._outgoing.accept, group, list(payloads))

    def leave(self, group: str) -> None:
        self._request(self._host.leave, group)

    def close_group(self, group: str) -> None:
        self._request(self._host.close_group, group)

    def rename(self, group: str, name: str) -> None:
        self._request(self._host.rename, group, name)

    def pressure(self, group: str, full: bool) -> None:
        if not self.over:  # a group may be told to stop listening after the run
            self._request(self._host.pressure, group, full)

    def waiting(self, group: str) -> Reason | None:
        return self._host.waiting() if not self.over and self._host.alive else None

    def counters(self) -> Mapping[str, int]:
        return self._count() if not self.over else self._counters

    def _count(self) -> dict[str, int]:
        return {"packets_sent": self._host.packets_sent, "packets_received": self._received}

    def admit(self, group: str, wanted: Stream, payload: bytes | None, arrived: int) -> None:
        self._request(self._outgoing.ask, group, wanted, payload)

    def offer(self, group: str, stream: str, payload: bytes, arrived: int) -> None:
        self._request(self._outgoing.accept_in, group, stream, payload)

    def release(self, group: str, stream: str) -> None:
        self._request(self._host.release, group, stream)

    def admission(self, group: str) -> Mapping[str, Any] | None:
        return self._host.admission(group) if not self.over and self._host.alive else None

    def is_traced(self) -> bool:
        return not self.over and self._host.alive

    def write_note(self, group: str, sender: str | None, seq: int | None, detail: dict[str, Any]) -> None:
        self._request(self._host.write_note, group, sender, seq, detail)

    # --- what the process tells (Listener) --------------------------------------------------------------------------

    def started(self) -> None:
        """Its program begins after this (:meth:`begin`)."""

    def took(self, group: str, stream: str, batch: Batch) -> None:
        sizes = self._sizes[group]
        size = 0 if stream else sum(sizes.popleft() for _ in range(batch.count))
        self.groups[group].took(batch.count, size, stream)

    def delivered(self, group: str, sender: str, batch: Batch, payloads: list[bytes] | None, rank: int | None) -> None:
        # A copy, because the list is the same for all members.
        messages = [*payloads] if payloads is not None else [batch.body]
        self.groups[group].deliver(sender, batch.first, messages, rank, len(batch.body))

    def stable(self, group: str, rank: int) -> None:
        self.groups[group].stable(rank)

    def left(self, group: str) -> None:
        self.groups[group].left()

    def admitted(self, group: str, stream: str) -> None:
        self.groups[group].admitted(stream)

    def rejected(self, group: str, stream: str, reason: Reason) -> None:
        self.groups[group].rejected(stream, reason)

    def renamed(self, group: str, view: View, returned: Sequence[bytes], numbered: int) -> None:
        name = view.group
        member = self.groups[name] = self.groups.pop(group)
        sizes = self._sizes[name] = self._sizes.pop(group)
        sizes.extendleft(map(len, reversed(returned)))
        member.renamed(name, returned, numbered)

    def _request(self, request: Callable[..., object], *arguments: Any) -> None:
        self._requests.append((request, arguments))
        self._wake()


def _is_about_groups(error: BaseException) -> bool:
    """Whether an error, or everything in a group of errors, is about what became of a group."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_about_groups, error.exceptions))
    return isinstance(error, GroupError | asyncio.CancelledError)


def _where(task: asyncio.Task[None] | None) -> str:
    """The line of the user's own code at which a task waits."""
    place = ""
    awaited: Any = task.get_coro() if task is not None else None
    while awaited is not None:
        frame = awaited.cr_frame if isinstance(awaited, CoroutineType) else getattr(awaited, "gi_frame", None)
        if frame is not None and (not place or not frame.f_code.co_filename.startswith((_PACKAGE, _ASYNCIO))):
            place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}, {frame.f_code.co_qualname}"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return place
