"""Groups that are formed while processes run: what a process has proposed, and what it was invited to.

One process proposes a group (``form``), the others are asked (``agree``), and those that agree find themselves in it
(``next_group``). This is the part that live and simulated processes share: the outcome of each proposal, and the queue of groups
that a process is in because another one proposed them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..core.model import GroupId, Invitation, ProcessId, Reason
from .errors import Halted, NotFormed
from .group import Group
from .profile import Buffers


class Proposal:
    """A group that this process has proposed, until it is formed or refused."""

    def __init__(self, buffers: Buffers) -> None:
        self.buffers = buffers
        self.outcome: asyncio.Future[Group] = asyncio.get_running_loop().create_future()


class Proposals:
    """The proposals of one process, and the groups that it was invited to."""

    def __init__(self) -> None:
        self._open: dict[GroupId, Proposal] = {}
        self._arrived: asyncio.Queue[Group] = asyncio.Queue()

    def __contains__(self, name: GroupId) -> bool:
        """Whether a group was proposed and is neither formed nor refused."""
        return name in self._open

    def begin(self, name: GroupId, buffers: Buffers) -> Proposal:
        proposal = self._open[name] = Proposal(buffers)
        return proposal

    def take(self, name: GroupId) -> Proposal | None:
        """The proposal of a group whose outcome is known now; None if another process proposed it."""
        return self._open.pop(name, None)

    def hand_over(self, proposal: Proposal | None, group: Group) -> bool:
        """Gives a formed group to the program; False if the program gave up waiting for it."""
        if proposal is None:
            self._arrived.put_nowait(group)
        elif proposal.outcome.done():
            return False
        else:
            proposal.outcome.set_result(group)
        return True

    async def next_group(self) -> Group:
        """Waits for the next group that another process proposed."""
        return await self._arrived.get()

    def refuse(self, name: GroupId, reason: Reason) -> bool:
        """A group is not formed; False if this process did not propose it."""
        proposal = self._open.pop(name, None)
        if proposal is not None and not proposal.outcome.done():
            proposal.outcome.set_exception(NotFormed(reason))
        return proposal is not None

    def halt(self, reason: Reason) -> None:
        """The protocol stopped this process."""
        for proposal in self._open.values():
            if not proposal.outcome.done():
                proposal.outcome.set_exception(Halted(reason))


def consent(agree: Callable[[Invitation], bool], invitation: Invitation, me: ProcessId, loop: asyncio.AbstractEventLoop) -> str:
    """Asks the application whether it agrees to be in a group; returns why not, or an empty text."""
    try:
        agrees = agree(invitation)
    except Exception as error:
        message = f"{me} could not say whether it agrees to {invitation.group}, so it does not"
        loop.call_exception_handler({"message": message, "exception": error})
        agrees = False
    return "" if agrees else f"{me} does not agree"
