"""An office: something that at most one process of a group holds at a time. Locks and leaders are offices.

The state says who the owner is, under which *token* (a number that grows with every owner), and who waits. Owners change by
commands and, where an owner disappears, by views. But no process can be sure that it sees the whole group's order to its end: it
may be partitioned, or die, with commands that no other member ever gets, and in a protocol whose parts go on alone each part
would have an owner. So an owner *holds* the office only when enough others have said that they know.

**Acknowledgements.** Whenever owner or electors change, which is a *step*, each member that has applied the step says so in the
group's order. The step is *confirmed* when a majority of the electors has; then the owner holds the office. A member that
acknowledged an owner under a token never acknowledges another under that token or a smaller one: its state has moved on, and a
merge takes the largest token. Any two majorities have a member in common, so a token is held by one process, ever, and a larger
one is held later.

**Electors** are the members of a view. When the view changes, the new members are electors *besides* the old ones: a majority of
each set is needed until a step is confirmed by majorities of all; then the newest set is enough. A view without a majority of
each set is not *primary*: it has no owner. So at most one part of a group goes on, and a group that shrinks member by member
goes on to the last. With ``quorum="part"`` the members of the view are the electors: each part has an owner and tokens of its
own. A process that closes its replica says so in the order and is no elector from there on.

**Parts that come together.** The primary part keeps its owner and its electors; if none is primary there is no owner, and all
sets of electors that a part may still count on are needed. What waited still waits. The token is the largest of all parts.

**The holder** is told when it holds the office (:class:`Holding`) and when it has lost it: by a view, by the end of the replica,
by a merge. A program that was paused may go on for a moment with an office that another process has by then. So what is done
with an office bears its token, and the resource refuses tokens smaller than one it has seen (:class:`~.lock.Fence`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from ..core.model import ProcessId, Reason, UsageError, View
from ..group import GroupError
from .block import Block, Command, Part, digest_of

if TYPE_CHECKING:
    from .replica import Replica

Quorum: TypeAlias = Literal["majority", "part"]
QUORUMS: Final = ("majority", "part")

ASK, DROP, ACK, QUIT = "ask", "drop", "ack", "quit"


class OfficeLost(GroupError):
    """The office is held no longer: another may hold it. ``reason`` says why."""


class Holding:
    """An office that this process holds, under a token; ``async with`` it to be interrupted when it is lost. Within the ``async
    with`` the task that entered it is cancelled at its next ``await`` when the office is lost, and a kind of :class:`OfficeLost`
    is raised at the end. Leaving it gives the office up."""

    def __init__(self, office: Office, token: int, request: int) -> None:
        self._office = office
        self.token = token
        self.request = request  # which of this process's requests it answers
        self.lost: Reason | None = None  # why the office is held no longer, if it was not given up
        self._over = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        self._interrupted = False

    @property
    def is_held(self) -> bool:
        """Whether it is held, as far as this process knows. (Use the token with whatever you do.)"""
        return not self._over.is_set()

    async def ended(self) -> Reason | None:
        """Waits until it is held no longer; why it was lost, or None if it was given up."""
        await self._over.wait()
        return self.lost

    async def release(self) -> None:
        """Gives the office up; returns when the next one can have it. Nothing happens if it was lost before."""
        if self.is_held:
            self._over.set()
            await self._office.give_up(self.request, self.token)

    def lose(self, reason: Reason) -> None:
        """What the office calls: it is another's, or nobody's."""
        if self._over.is_set():
            return
        self.lost = reason
        self._over.set()
        if self._task is not None and self._task is not asyncio.current_task():
            self._interrupted = True
            self._task.cancel()

    async def __aenter__(self) -> int:
        if self.lost is not None:
            raise self._office.lost_error(self.lost)
        self._task = asyncio.current_task()
        return self.token

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        task, self._task = self._task, None
        if self.lost is not None:
            if self._interrupted and task is not None and task.uncancel() > 0:
                return  # somebody else has cancelled the task as well
            if error is None or isinstance(error, asyncio.CancelledError):
                raise self._office.lost_error(self.lost) from None
            return
        await self.release()

    def __repr__(self) -> str:
        state = "held" if self.is_held else "lost" if self.lost is not None else "given up"
        return f"<Holding {self._office.name!r}, token {self.token}, {state}>"


class Office(Block):
    """What locks and elections have in common. See the module's docstring."""

    kind: ClassVar[str] = "office"
    lost_error: ClassVar[type[OfficeLost]] = OfficeLost  # what is raised when it is lost

    def __init__(self, *, quorum: Quorum = "majority") -> None:
        super().__init__()
        if quorum not in QUORUMS:
            raise UsageError(f"the quorum of a {self.kind} is {quorum!r}; choose {' or '.join(QUORUMS)}")
        self._quorum = quorum
        # the state, the same at every member
        self.owner: ProcessId | None = None  # the process that holds the office, or is about to, as far as this member has come
        self.token = 0  # under which number; it only grows
        self._request = 0  # which of the owner's requests it is
        self._waiting: list[list[Any]] = []  # what waits: process and number of its request, the next one first
        self._members: list[ProcessId] = []  # of the view
        self._quit: list[ProcessId] = []  # members that have closed their replicas: they want and acknowledge nothing any more
        self._electors: list[list[Any]] = []  # the step at which each set of electors came, and the set
        self._step = 0
        self._acks: list[ProcessId] = []  # members that have said that they applied the step
        self._confirmed = 0  # the last token whose owner enough members know
        # this process alone
        self._holding: Holding | None = None
        self._acknowledged = 0
        self._begun = 0  # the last token held here: each is held once, even if others do not know yet that it was given up

    def attach(self, replica: Replica, name: str) -> None:
        """Where any survivor goes on, an office that needs a majority would be lost for good with one of two members."""
        if self._quorum == "majority" and replica.group.guarantees.any_survivor:
            raise UsageError(
                f"the quorum of {self.kind} {name!r} is a majority, but in {replica.group.name} any survivor goes on, and "
                f'partitions are not tolerated; choose quorum="part", or parameters of the protocol that need a majority'
            )
        super().attach(replica, name)

    @property
    def is_primary(self) -> bool:
        """Whether this part of the group may have an owner."""
        return all(_has_majority(self._members, electors) for _, electors in self._electors)

    @property
    def is_confirmed(self) -> bool:
        """Whether enough members know of the owner: it holds the office."""
        return self.owner is not None and self._confirmed == self.token

    def apply(self, command: Command) -> Any:
        what, which = command.body
        if what == ASK:
            self._waiting.append([command.sender, which])
        elif what == DROP:
            self._drop(command.sender, which)
        elif what == ACK:
            self._count(command.sender, which)
        elif what == QUIT:
            self._quit.append(command.sender)
            self._without_quitters()
        self._appoint()
        self._tell_holder()

    def changed(self, view: View) -> None:
        self._members = list(view.members)
        self._waiting = [entry for entry in self._waiting if entry[0] in view.members]
        if self.owner not in view.members:
            self._vacate()
        self._without_quitters()
        self._admit()
        self._appoint()
        self._tell_holder()

    def merge(self, parts: Sequence[Part], view: View) -> None:
        states = [_State(part) for part in parts]
        primary = next((state for state in states if state.is_primary), None)
        self.token = max(state.token for state in states)
        self._step = max(state.step for state in states)
        self._confirmed, self._electors = 0, _all_that_count(states)
        self._vacate()
        if primary is not None:
            self._confirmed, self._electors = primary.confirmed, primary.electors
            self.owner, self._request = primary.owner, primary.request
        self._waiting = []
        for entry in (entry for state in (primary, *states) if state is not None for entry in state.waiting):
            if entry not in self._waiting:
                self._waiting.append(entry)
        self._members = list(view.members)
        self._quit = [process for state in states for process in state.quit]
        self._without_quitters()
        self._take_step()
        self._admit()
        self._appoint()
        self._tell_holder()

    def snapshot(self) -> list[Any]:
        waiting = [list(entry) for entry in self._waiting]
        electors = [[step, list(electors)] for step, electors in self._electors]
        state = [self.owner, self.token, self._request, waiting, list(self._members), list(self._quit), electors, self._step]
        return [*state, list(self._acks), self._confirmed]

    def restore(self, snapshot: list[Any]) -> None:
        self.owner, self.token, self._request, self._waiting, self._members, self._quit = snapshot[:6]
        self._electors, self._step, self._acks, self._confirmed = snapshot[6:]
        self._tell_holder()

    def told(self, command: Command | None) -> dict[str, Any]:
        state = {"owner": self.owner, "token": self.token, "confirmed": self.is_confirmed, "primary": self.is_primary}
        return {**state, "quorum": self._quorum}

    def _drop(self, process: ProcessId, number: int) -> None:
        if (self.owner, self._request) == (process, number):
            self._vacate()
        self._waiting = [entry for entry in self._waiting if entry != [process, number]]

    def _without_quitters(self) -> None:
        """Who has quit is no elector. (Its part knows all that it acknowledged; a majority without it is one of the rest.)"""
        self._quit = [member for member in self._members if member in self._quit]
        if self.owner in self._quit:
            self._vacate()
        self._waiting = [entry for entry in self._waiting if entry[0] not in self._quit]
        left = [[step, [process for process in electors if process not in self._quit]] for step, electors in self._electors]
        self._electors = [entry for entry in left if entry[1]]

    def _vacate(self) -> None:
        self.owner, self._request = None, 0

    def _admit(self) -> None:
        """The members of a view become electors, if the view is primary; if it is not, it has no owner."""
        if self._quorum == "part":
            self._electors = []
        if self.is_primary:
            self._take_step()
            self._electors.append([self._step, [member for member in self._members if member not in self._quit]])
        else:
            self._vacate()

    def _take_step(self) -> None:
        self._step += 1
        self._acks = []

    def _appoint(self) -> None:
        """The next one that waits becomes the owner, if there is none and may be one."""
        if self.owner is None and self._waiting and self.is_primary:
            self.owner, self._request = self._waiting.pop(0)
            self.token += 1
            self._take_step()

    def _count(self, process: ProcessId, mark: str) -> None:
        """A member has applied a step. With majorities of all sets of electors the last one is enough from now on."""
        if mark != self._mark() or process in self._acks:
            return
        self._acks.append(process)
        if self.is_primary and all(_has_majority(self._acks, electors) for _, electors in self._electors):
            self._confirmed = self.token
            self._electors = self._electors[-1:]

    def _mark(self) -> str:
        """What is acknowledged: the step, and all that it is about."""
        return digest_of([self._step, self.owner, self.token, self._electors[-1:]])

    def _tell_holder(self) -> None:
        """What has come to be is told to whom it concerns here, and acknowledged."""
        if self._step > self._acknowledged:
            self._acknowledged = self._step
            self.tell([ACK, self._mark()])
        mine = self.owner == self.me
        if self._holding is not None and not (mine and self._holding.token == self.token):
            self._lose(Reason("lost", self._why_lost()))
        if mine and self.is_confirmed and self.token > self._begun:
            self._begun = self.token
            self._holding = Holding(self, self.token, self._request)
            self.note("hold", token=self.token, quorum=self._quorum, members=list(self._members))
            self.held(self._holding, self._request)

    def held(self, holding: Holding, request: int) -> None:
        """This process holds the office from now on."""

    def _why_lost(self) -> str:
        if not self.is_primary:
            part = f"a part of {self.replica.group.name} without a majority"
            return f"{self.me} is in {part}, where nobody has {self.kind} {self.name!r}"
        return f"{self.me} holds {self.kind} {self.name!r} no longer: {self.owner or 'nobody'} does, with token {self.token}"

    def _lose(self, reason: Reason) -> None:
        holding, self._holding = self._holding, None
        if holding is not None and holding.is_held:
            self.note("lost", token=holding.token, reason=reason.code, text=reason.text)
            holding.lose(reason)

    async def give_up(self, request: int, token: int) -> None:
        """Holdings call it: this process does not hold the office any more."""
        self._holding = None
        self.note("release", token=token)
        await self.execute([DROP, request])

    def farewell(self) -> list[Any]:
        return [QUIT, 0]

    def ended(self, reason: Reason) -> None:
        self._lose(reason)


class _State:
    """A part's state, as :meth:`Office.snapshot` has it."""

    def __init__(self, part: Part) -> None:
        self.owner, self.token, self.request, self.waiting, _, self.quit = part.state[:6]
        self.electors, self.step, _, self.confirmed = part.state[6:]
        self.is_primary = all(_has_majority(part.members, electors) for _, electors in self.electors)
        # Sets of electors that came before this step are known to count no more.
        self.confirmed_up_to: int = self.electors[0][0] if self.electors else 0


def _all_that_count(states: Sequence[_State]) -> list[list[Any]]:
    """The sets of electors of all parts, without those that one of them knows not to count any more."""
    floor = max(state.confirmed_up_to for state in states)
    found: list[list[Any]] = []
    for state in states:
        found += [entry for entry in state.electors if entry[0] >= floor and entry not in found]
    return sorted(found)


def _has_majority(present: Sequence[ProcessId], electors: Sequence[ProcessId]) -> bool:
    """More than half of them, or half with the first: any two such sets have a member in common.

    >>> _has_majority(["a"], ["a", "b"]), _has_majority(["b"], ["a", "b"]), _has_majority(["b", "c"], ["a", "b", "c"])
    (True, False, True)
    """
    there = [process for process in electors if process in present]
    return 2 * len(there) > len(electors) or (2 * len(there) == len(electors) and electors[0] in there)
