"""The groups of one live process: entering them, forming them while processes run, and what the host reports about them.

A process is in a group of a name at most once, as processes of a trace are. Entering asks the others for a way in, then waits for
the first view; a process that gives up after it was admitted leaves again.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from ..core.model import BOTH, RECEIVES, SECOND, SENDS, Form, Invitation, Join, Reason, UsageError, View
from ..group import LARGEST_MESSAGE, Buffers, Group, Guarantees, JoinTimeout, Membership, Profile
from ..group.group import Founder
from ..group.profile import NOTHING
from ..group.proposals import Proposals, consent
from .host import LiveHost
from .presence import MOST_GROUPS
from .rendezvous import Rendezvous
from .setup import Setup, members_of
from .stack import Stack

GOODBYE: Final = 1.0  # seconds to leave again, for a process that gives up while it is being admitted
SHORTEST_SETTLE: Final = 0.1  # shortest idle time, in seconds, before a member of a group that does not change has finished
DEFAULT_BUFFERS: Final = Buffers()


class Memberships:
    """The memberships of one process, and the owner of its host. ``host`` is set when the node opens. ``begin`` makes the
    process's engine for these groups, once its name is known; ``take_name`` learns the name first."""

    host: LiveHost

    def __init__(
        self,
        setup: Setup,
        rendezvous: Rendezvous,
        founder: Founder,
        *,
        state: bool,
        agree: Callable[[Invitation], bool] | None,
        begin: Callable[[Mapping[str, tuple[str, ...]]], None],
        take_name: Callable[[], Awaitable[None]],
    ) -> None:
        self._setup, self._rendezvous, self._founder, self._state = setup, rendezvous, founder, state
        self._agree, self._begin, self._take_name = agree, begin, take_name
        self.stack: Stack | None = None  # the engine's stack, once the process has begun
        self.mine: dict[str, tuple[str, ...]] = {}  # groups that this process was told to enter, and the places that form them
        self._entering: set[str] = set()
        self._entered: set[str] = set()  # groups that this process is or has been in
        self.proposals = Proposals()

    @property
    def _name(self) -> str:
        return self.host.me or self._rendezvous.presence.name

    async def enter(self, name: str, first: tuple[str, ...], timeout: float, buffers: Buffers, role: str = BOTH) -> Group:
        """Finds the way into a group, and returns when the first view is there."""
        self._check_outside(name)
        presence = self._rendezvous.presence
        member: Membership | None = None
        self._entering.add(name)
        try:
            async with asyncio.timeout(timeout):
                how = await self._rendezvous.find_way(name, first)
                if isinstance(how, Join) and not self._setup.changes:
                    protocol, there = self._setup.description.name, ", ".join(how.contacts)
                    text = f"group {name!r} runs already ({there}), and groups of {protocol} do not change"
                    raise UsageError(f"{text}; end all its members and start them together")
                how = dataclasses.replace(how, role=role)
                member = self._become_member(name, first, how, buffers)
                await member.joined()
                presence.entered(name)
                if self._state and isinstance(how, Join) and role != SENDS:
                    await member.has_state()
        except TimeoutError:
            waiting = self.host.waiting(name) if member is not None else None
            missing = waiting.text if waiting is not None else presence.missing(name)
            await self._give_up(name, member)
            text = f"{presence.name} could not enter group {name!r} in {timeout:.3g} s: {missing}{self.host.refusals.key_hint()}"
            raise JoinTimeout(Reason("join timeout", text)) from None
        except BaseException:
            await self._give_up(name, member)
            raise
        finally:
            self._entering.discard(name)
        return Group(member, self._founder)

    def _check_outside(self, name: str) -> None:
        """Fails unless the process runs and has never been in the group."""
        if not self.host.alive:
            raise UsageError(f"{self._name} was stopped ({self.host.end_reason}); open a new node to join {name!r} again")
        if self._is_in(name):
            remedy = "leave it first" if self._setup.changes else "its members do not change, so it stays there"
            raise UsageError(f"{self._name} is in {name!r} already; {remedy}")
        if name in self._entered:
            raise UsageError(f"{self._name} has been in {name!r} before; open a new node to join it again")

    def _is_in(self, name: str) -> bool:
        return name in self.host.groups or name in self._entering or name in self.proposals

    async def _give_up(self, name: str, member: Membership | None) -> None:
        """Stops entering a group. A process that was admitted meanwhile leaves again, so that the others need not detect it."""
        self._rendezvous.presence.give_up(name)
        if member is None:
            return
        member.incoming.stop_listening()
        if not self._setup.changes:
            return  # the others count on this process until it is closed
        if member.view is None or self.stack is None:
            self.host.leave(name)
            return
        self.stack.abandon(self.host, name)
        try:
            async with asyncio.timeout(GOODBYE):
                await member.ended()
        except TimeoutError:
            return  # the others will detect it

    def _become_member(self, name: str, first: tuple[str, ...], how: Form | Join, buffers: Buffers) -> Membership:
        setup, host = self._setup, self.host
        groups = setup.groups if setup.groups is not None else setup.possible_groups(name, first)
        if setup.groups is None:
            setup.check(setup.parameters, {**self.mine, name: first})
        if not host.me:
            self._begin(groups)
        self.mine[name] = first
        member = self._make_member(name, groups, isinstance(how, Form), buffers, how.role)
        self._rendezvous.presence.enter(name, how)
        host.enter(member, how)
        return member

    def _make_member(
        self, name: str, groups: Mapping[str, Sequence[str]], formed: bool, buffers: Buffers, role: str = BOTH
    ) -> Membership:
        """The membership in a group that this process enters; ``groups`` are those that there are."""
        assert self.stack is not None, "a process has begun before it enters a group"
        setup, parameters, host = self._setup, self.stack.parameters, self.host
        about = setup.description
        guarantees = Guarantees(about.promises(parameters, groups), about.faults, about.beyond(parameters))
        admits, settle = about.admits(parameters), max(SHORTEST_SETTLE, about.settle(parameters) / SECOND)
        largest = host.max_packet if host.only_sends or role == SENDS else LARGEST_MESSAGE
        if role == RECEIVES:
            largest = NOTHING
        profile = Profile(guarantees, formed, setup.changes, setup.proposes, admits, settle, largest)
        self._entered.add(name)
        return Membership(host, name, host.me, profile, buffers)

    def finish(self, group: str) -> None:
        """The process has left a group."""
        self.mine.pop(group, None)
        self._rendezvous.presence.left(group)

    async def form(self, group: str, members: Sequence[str], timeout: float, buffers: Buffers) -> Group:
        """Proposes a group to the processes at these places; returns when those that agree have formed it."""
        places = members_of(group, members, self._setup.peers)
        self._check_outside(group)
        proposal = self.proposals.begin(group, buffers)
        presence = self._rendezvous.presence
        missing: list[str] = []
        try:
            async with asyncio.timeout(timeout):
                await self._take_name()
                await self._rendezvous.hear([place for place in places if place != self._setup.place], missing)
                self.host.propose(group, [presence.name_at(place) or self._name for place in places])
                return await proposal.outcome
        except TimeoutError:
            waiting = self.host.waiting(group) if self.host.me and not missing else None
            what = waiting.text if waiting is not None else f"not heard: {', '.join(missing)}" if missing else "no answer"
            text = f"{self._name} could not form group {group!r} in {timeout:.3g} s: {what}"
            raise JoinTimeout(Reason("join timeout", text)) from None
        finally:
            # The group may still be formed: then this process leaves at once.
            proposal.outcome.cancel()
            if missing:
                self.proposals.take(group)

    def formed(self, view: View) -> Membership:
        """This process is in a group that it proposed, or was invited to."""
        name = view.group
        proposal = self.proposals.take(name)
        groups = {**(self._setup.groups or {}), name: view.members, f"{name}, and another": view.members}
        member = self._make_member(name, groups, True, proposal.buffers if proposal is not None else DEFAULT_BUFFERS)
        self._rendezvous.presence.be_member(name)
        if not self.proposals.hand_over(proposal, Group(member, self._founder)):
            member.incoming.stop_listening()
            asyncio.get_running_loop().call_soon(self.host.leave, name)
        return member

    def invited(self, invitation: Invitation) -> str:
        """Whether the application agrees; why not, or nothing."""
        name = invitation.group
        if self._is_in(name) or name in self._entered:
            return f"{self._name} is in {name}, has been, or is on its way there"
        if len(self._entered) >= MOST_GROUPS:
            return f"{self._name} has been in {MOST_GROUPS} groups, and that is as many as it can be in"
        return consent(self._agree, invitation, self._name, asyncio.get_running_loop()) if self._agree is not None else ""

    def refused(self, group: str, reason: Reason) -> None:
        """This process is not in a group that it proposed, agreed to or asked to join."""
        self._entered.discard(group)
        self.proposals.refuse(group, reason)

    def renamed(self, group: str, name: str) -> None:
        """The group has another name."""
        self._entered.add(name)
        self._rendezvous.presence.left(group)
        self._rendezvous.presence.be_member(name)
