"""Coming in and going out: joining, being let go, being excluded.

A process that joins asks every process it knows until the sequencer lets it in with the view that contains it. A process that
was excluded is told so, with the reason, by each member that it speaks to. (Leaving is decided in :mod:`.member`: a sequencer
that leaves first hands its office over.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...core.model import ProcessId, Reason
from .packets import AskJoin, Change, Excluded, Welcome, Where
from .standing import NO_EPOCH, Standing

REMEMBERED: Final = 256  # excluded processes remembered, to tell them so when they speak again
LEFT: Final = "left"  # the reason code of a process that asked to leave
LINGER: Final = 10  # ticks for which the last member stays after another process went
CONTACTS: Final = 64  # a joiner asks at most this number of processes that others have named
JOIN_PATIENCE: Final = 5  # a joiner gives up after this multiple of the members' patience: an election may be under way


class Door:
    """A member's side of membership; the office decides about it. ``finish`` ends the member's part in the group, ``be_let_in``
    starts it with the view of a welcome."""

    __slots__ = (
        "_be_let_in", "_claims", "_finish", "_gone", "_max_contacts", "_parted", "_since", "_standing", "_vouched", "contacts",
    )  # fmt: skip

    def __init__(self, standing: Standing, finish: Callable[[], None], be_let_in: Callable[[ProcessId, Welcome], None]) -> None:
        self._standing, self._finish, self._be_let_in = standing, finish, be_let_in
        self._gone: dict[ProcessId, tuple[int, str, str]] = {}
        # An epoch, the unknown process that claims to be its sequencer, and the time of the first claim.
        self._claims: tuple[int, ProcessId, int] = (NO_EPOCH, "", 0)
        self._vouched: tuple[int, ProcessId] = (NO_EPOCH, "")  # sequencer that a peer named for an epoch we promised
        self._since = 0
        self._parted = 0  # when a process last left the group or was excluded
        self.contacts: tuple[ProcessId, ...] = ()
        self._max_contacts = CONTACTS

    def knows(self, source: ProcessId) -> bool:
        """Whether a process is a member, as far as is known here; for a joiner, whether it asked that process to be let in.
        Packets that only members send are ignored from other processes."""
        standing = self._standing
        view = standing.view
        if source == standing.sequencer or (view is not None and source in view.members):
            return True
        newest = standing.log.newest
        if newest is None:
            return source in self.contacts
        if source in newest.members or (view is None and source in self.contacts):
            return True
        return any(entry.change is not None and source in entry.change.members for entry in standing.log.later.values())

    def vouch(self, epoch: int, sequencer: ProcessId) -> None:
        """A member names the sequencer of the epoch that we have promised."""
        self._vouched = (epoch, sequencer)

    def is_vouched_for(self, source: ProcessId, epoch: int) -> bool:
        """Whether to believe a process that claims to be the sequencer of the epoch that we have promised, and was in no view we
        know of. It may have joined while we were behind, or be a stranger. Members that follow it will say so (``Stale``). If
        no member that we know is left, we believe a claim that was repeated for a while and that no vote has overtaken."""
        standing = self._standing
        if self._vouched[0] == epoch:
            return self._vouched[1] == source
        now = standing.host.now
        if self._claims[:2] != (epoch, source):
            self._claims = (epoch, source, now)
            self._ask_about()
        return now - self._claims[2] >= standing.parameters.suspect_after // 2

    def _ask_about(self) -> None:
        standing = self._standing
        views = (view.members for view in (standing.view, standing.log.newest) if view is not None)
        members = dict.fromkeys(process for view in views for process in view)
        others = tuple(process for process in members if process != standing.me)
        standing.host.send(others, standing.acknowledgement())

    def ask_to_join(self, contacts: tuple[ProcessId, ...]) -> None:
        self.contacts = contacts
        self._max_contacts = len(contacts) + CONTACTS
        self._since = self._standing.host.now
        self._ask()

    def _ask(self) -> None:
        self._standing.host.send(self.contacts, AskJoin(self._standing.group))

    def ask_again(self) -> None:
        """There is no answer yet. A joiner does not wait for ever."""
        standing = self._standing
        tried = standing.host.now - self._since
        if tried > JOIN_PATIENCE * standing.parameters.patience:
            self._finish()
            text = f"{standing.me} asked {', '.join(self.contacts)} to be let in for {tried // 1_000_000} ms; nobody did"
            standing.host.halt(Reason("no group", text))
        else:
            self._ask()

    def on_where(self, source: ProcessId, packet: Where) -> None:
        standing = self._standing
        is_asked = standing.view is None and not standing.follows and self.knows(source)
        if is_asked and packet.sequencer not in self.contacts and len(self.contacts) < self._max_contacts:
            self.contacts = (*self.contacts, packet.sequencer)
            standing.host.send((packet.sequencer,), AskJoin(standing.group))

    def on_welcome(self, source: ProcessId, packet: Welcome) -> None:
        standing, log = self._standing, self._standing.log
        change = packet.entry.change
        if change is None or not self.knows(source):
            return
        if standing.view is not None:
            if standing.me in change.joined and change.number > standing.view.number:
                # We were excluded and let in again, and know only that we had been let in before: too much lies between.
                self.go_out(Reason("restarted", f"{standing.me} was let in a second time, in view {change.number}"), None)
            return
        if packet.epoch < standing.promised or standing.me not in change.members or packet.number < 1:
            return
        if packet.epoch != standing.epoch or log.contiguous < packet.number or not standing.follows:
            log.begin_at(packet.number, packet.entry, dict(packet.table))
            log.highest = max(packet.highest, packet.number)
            self._be_let_in(source, packet)
        standing.speak(standing.acknowledgement())

    def may_close(self) -> bool:
        """Whether the last member may go. Only it can tell the process that went before it, which may not know that yet."""
        standing = self._standing
        return standing.host.now >= self._parted + LINGER * standing.parameters.quiet_after

    def note(self, change: Change) -> None:
        """A view is in force: remembers which processes left or were excluded, and why."""
        if change.left:
            self._parted = self._standing.host.now
        for process, code, text in change.left:
            self._gone[process] = (change.number, code, text)
        for process in change.joined:
            self._gone.pop(process, None)
        while len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def tell_excluded(self, source: ProcessId) -> bool:
        """Tells a process that was excluded; False if it was not."""
        standing = self._standing
        if standing.view is None or source not in self._gone:
            return False
        number, code, text = self._gone[source]
        standing.host.send((source,), Excluded(standing.group, number, code, text))
        return True

    def on_excluded(self, source: ProcessId, packet: Excluded) -> None:
        standing = self._standing
        if not self.knows(source):
            return
        if standing.view is None:
            # The sequencer that let us in died before any other member knew of it: ask anew.
            newest = standing.log.newest
            if standing.follows and newest is not None and packet.view >= newest.number:
                standing.follow_none()
                self._ask()
        elif packet.view > standing.view.number:
            text = f"{standing.me} was excluded in view {packet.view}: {packet.text}"
            self.go_out(Reason(packet.code, text, {"told_by": source}), None)

    def go_out(self, reason: Reason, rank: int | None) -> None:
        """Ends membership, as this process asked or for that reason. A process that was excluded while it wished to leave has not
        left: it may have delivered, alone, what the others ordered differently."""
        standing = self._standing
        self._finish()
        if standing.leaving and reason.code == LEFT:
            standing.host.left(standing.group, rank)
        else:
            standing.host.halt(reason)
