"""Coming in and going out: forming, joining, leaving, being excluded.

A process that joins asks everybody it knows until the sequencer lets it in with the view that contains it. A process that
leaves waits until all that it sent is in the order; a sequencer that leaves first hands its office over. A process that was
excluded is told so, with the reason, by whomever it speaks to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.model import ProcessId, Reason
from .election import Election
from .packets import Ack, AskJoin, AskLeave, Change, Excluded, Welcome, Where

if TYPE_CHECKING:
    from .member import Member

REMEMBERED: Final = 256
"""So many excluded processes are remembered, to be told so when they speak again."""
LEFT: Final = "left"
"""Why a process is gone that asked to be."""
LINGER: Final = 10
"""The last member stays for so many ticks after somebody else went."""
CONTACTS: Final = 64
"""A joiner asks so many processes that others have named, at the most."""
JOIN_PATIENCE: Final = 5
"""A joiner gives up after so many times the members' patience: an election may be under way."""


class Door:
    """A member's side of membership; deciding about it is the office's."""

    __slots__ = ("_gone", "_member", "_most_contacts", "_parted", "_since", "contacts")

    def __init__(self, member: Member) -> None:
        self._member = member
        self._gone: dict[ProcessId, tuple[int, str, str]] = {}
        self._since = 0
        self._parted = 0
        """When somebody went last."""
        self.contacts: tuple[ProcessId, ...] = ()
        self._most_contacts = CONTACTS

    # --- joining ----------------------------------------------------------------------------------------------------

    def ask_to_join(self, contacts: tuple[ProcessId, ...]) -> None:
        self.contacts = contacts
        self._most_contacts = len(contacts) + CONTACTS
        self._since = self._member.host.now
        self._ask()

    def _ask(self) -> None:
        self._member.host.send(self.contacts, AskJoin(self._member.group))

    def ask_again(self) -> None:
        """Nobody has answered yet. A joiner does not wait for ever."""
        member = self._member
        tried = member.host.now - self._since
        if tried > JOIN_PATIENCE * member.parameters.patience:
            member.halt(
                Reason(
                    "no group",
                    f"{member.me} asked {', '.join(self.contacts)} to be let in for {tried // 1_000_000} ms; nobody did",
                )
            )
        else:
            self._ask()

    def on_where(self, source: ProcessId, packet: Where) -> None:
        member = self._member
        is_asked = member.view is None and not member.follows and member.knows(source)
        if is_asked and packet.sequencer not in self.contacts and len(self.contacts) < self._most_contacts:
            self.contacts = (*self.contacts, packet.sequencer)
            member.host.send((packet.sequencer,), AskJoin(member.group))

    def on_ask_join(self, source: ProcessId, packet: AskJoin) -> None:
        member = self._member
        if member.office is not None:
            member.office.ask_join(source)
        elif member.view is not None and member.follows:
            member.host.send((source,), Where(member.group, member.sequencer))

    def on_welcome(self, source: ProcessId, packet: Welcome) -> None:
        member = self._member
        log = member.log
        change = packet.entry.change
        if change is None or not member.knows(source):
            return
        if member.view is not None:
            if member.me in change.joined and change.number > member.view.number:
                # We were excluded and let in again, and know only that we had been let in before: too much lies between.
                self.go_out(Reason("restarted", f"{member.me} was let in a second time, in view {change.number}"), None)
            return
        if packet.epoch < member.promised or member.me not in change.members or packet.number < 1:
            return
        if packet.epoch != member.epoch or log.contiguous < packet.number or not member.follows:
            log.begin_at(packet.number, packet.entry, dict(packet.table))
            log.highest = max(packet.highest, packet.number)
            member.be_let_in(source, packet)
        member.speak(Ack(member.group, member.epoch, log.contiguous, member.room.behind))

    # --- leaving ----------------------------------------------------------------------------------------------------

    def go_on_leaving(self) -> None:
        """The next step on the way out, if it can be made now; every tick tries again."""
        member = self._member
        if member.done or member.view is None or member.requests.outstanding or not (member.follows or member.office):
            return
        if member.office is None:
            member.speak(AskLeave(member.group, member.epoch, member.log.contiguous, member.room.behind))
        elif len(member.view.members) == 1:
            if member.host.now < self._parted + LINGER * member.parameters.quiet_after:
                return  # who went last may not have heard yet that it was let go, and nobody else can tell it
            member.finish()
            member.host.left(member.group, member.log.delivered + 1)
        elif member.office.may_be_handed_over() and member.election is None:
            if member.host.now < member.office.since + 2 * member.parameters.quiet_after:
                return  # whoever handed the office to us wants to leave too, and has yet to ask: it would get the office back
            member.host.record("elect", member.group, stage="hand-over", situation="sequencer leaves")
            member.election = Election(member, Reason("left", f"the sequencer {member.me} leaves"), binding=True)

    # --- being excluded ---------------------------------------------------------------------------------------------

    def note(self, change: Change) -> None:
        """A view is in force: remember who is gone, and why."""
        if change.left:
            self._parted = self._member.host.now
        for process, code, text in change.left:
            self._gone[process] = (change.number, code, text)
        for process in change.joined:
            self._gone.pop(process, None)
        while len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def tell_excluded(self, source: ProcessId) -> bool:
        """Tells a process that was excluded; False if it was not."""
        member = self._member
        if member.view is None or source not in self._gone:
            return False
        number, code, text = self._gone[source]
        member.host.send((source,), Excluded(member.group, number, code, text))
        return True

    def on_excluded(self, source: ProcessId, packet: Excluded) -> None:
        member = self._member
        if not member.knows(source):
            return
        if member.view is None:
            # Let in by a sequencer that died before anybody else knew: ask anew.
            newest = member.log.newest
            if member.follows and newest is not None and packet.view >= newest.number:
                member.follow_nobody()
                self._ask()
        elif packet.view > member.view.number:
            text = f"{member.me} was excluded in view {packet.view}: {packet.text}"
            self.go_out(Reason(packet.code, text, {"told_by": source}), None)

    def go_out(self, reason: Reason, rank: int | None) -> None:
        """We are no member any more: as we asked, or for that reason. Who was excluded while it wished to leave has not left: it
        may have delivered, alone, what the others ordered differently."""
        member = self._member
        member.finish()
        if member.leaving and reason.code == LEFT:
            member.host.left(member.group, rank)
        else:
            member.host.halt(reason)
