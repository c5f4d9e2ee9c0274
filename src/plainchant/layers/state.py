"""State transfer: a process that joins an existing group gets the application's state as it was at the view that admitted it.

Theory of operation
-------------------
The layer stands outermost, above :class:`~.fragmentation.Fragmentation`, at every member of a group that uses it. All
members place a view at the same point between whole messages, so the state of any member at that point, and everything
after it, is all that a joiner needs. The group is not stopped for it: the joiner's protocol takes part like any other.

**One donor, known from the view alone.** It is the first member of the view that is not new in it; where parts of a group merged,
the first member of the first part. (Those parts have states of their own, which the application reconciles.) Joiner and donor
find it independently, and no other member has anything to do. The donor's application is asked (:meth:`Keeper.state_wanted`)
after the view and before whatever comes later. Each joiner of a view has a *transfer* of its own.

**The joiner holds back.** Its first view passes at once; everything later is held in order until the state is complete, then
comes :meth:`Keeper.state_arrived`, then what was held. A donor may itself still wait for its state. Then the view is among what
it holds, and its application is asked when the view's turn comes: the cut is the same, only later. It waits for a member that
joined before it, so processes never wait for each other in a circle. A process that asks to leave does so when its state is
complete, because others may have delivered what it holds. (If another member closes the group first, what is held is dropped.)

**A process that forms a group needs no state**: it calls ``join`` with ``Form`` or ``Propose``, one that joins with ``Join``.

**Transport.** Parts are numbered 1, 2, 3, ... The joiner asks for what follows the last one that it has without a gap
(:class:`StateAsk`), at its view, at each part, and whenever it has heard nothing for ``retry``: that is at once the request,
the acknowledgement and the sign that it is there. The donor has at most ``window`` parts under way, sends them all again
when nothing was acknowledged for ``retry`` (then twice that, up to a bound), and the first of them at the third equal
acknowledgement. If it has nothing to send it says so (:class:`StateWait`). Any packet may be lost, repeated or late.

**There is no second donor.** If the donor is gone from a later view, fails, or does not answer ``patience`` worth of
questions, no member has the state at the joiner's view any more (the others have gone on), and the joiner gives up: it leaves
all its groups as members do, and then halts with the reason ``state lost``. (Halting at once would lose the group a second
member just when it has lost the donor: with four, that is the majority.) Joined again as a new process it gets a new view and
a new donor. A joiner that is gone from a view is forgotten by its donor.

**Memory.** The donor keeps what is not acknowledged: ``window`` packets' worth and one chunk more, if its application heeds
:meth:`StateTransfer.has_room`. The joiner keeps the state and what it holds back, and gives up if either is too much
(:data:`LARGEST_STATE`, :data:`MOST_HELD`).

The packets, and how a state becomes parts and a state again, are in :mod:`.state_parts`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from ..core.engine import Engine, Host, Layer
from ..core.model import (
    MS,
    PACK_OVERHEAD,
    SECOND,
    SENDS,
    Batch,
    Form,
    GroupId,
    Join,
    Packet,
    ProcessId,
    Propose,
    ProtocolError,
    Reason,
    Timer,
    View,
    unpack,
)
from .state_parts import IncomingState, OutgoingState, StateAsk, StateLost, StatePart, StateWait

STATE_LOST: Final = "state lost"  # the code of the reason for which a joiner halts that cannot get its state

_LAYER: Final = "state"
_SLOWEST_RETRY: Final = 1 * SECOND
_EQUAL_ACKNOWLEDGEMENTS: Final = 3
LARGEST_STATE: Final = 1 << 34  # bytes of the largest state that a joiner takes, with something for each chunk
MOST_HELD: Final = 1 << 30  # bytes of messages that a joiner holds back while it waits for its state


@dataclasses.dataclass(frozen=True, slots=True)
class StateWanted:
    """The application's state at this place in its stream is wanted; ``transfer`` names the answer."""

    transfer: int
    group: GroupId
    view: View
    joiner: ProcessId


class Keeper(Protocol):
    """The host's way to the application that has the state. It is called from inside a turn and must not call back: like
    ``deliver`` and ``install``, each call takes its place among the effects of the turn, in order."""

    def state_wanted(self, wanted: StateWanted) -> None:
        """A process joined. The host answers, in turns of its own and at any time, by ``put``, ``finish`` and ``fail``."""

    def state_room(self, transfer: int) -> None:
        """``has_room`` was False for this transfer and is True again."""

    def state_over(self, transfer: int, reason: Reason | None) -> None:
        """Nothing more is wanted for this transfer: the joiner has everything (None), or never will."""

    def state_arrived(self, group: GroupId, view: View, donor: ProcessId, chunks: list[bytes]) -> None:
        """The state at ``view``, in the chunks in which the donor's application wrote it."""


class StateTransfer(Layer):
    """Brings the application's state to joiners. See the module's docstring. Besides an engine's entry points it has those of the
    donor's application: ``put``, ``finish`` and ``fail``, which the host calls as turns, and ``has_room``, which only reads.
    Calls for a transfer that is over do nothing."""

    def __init__(
        self,
        host: Host,
        inside: Callable[[Host], Engine],
        keeper: Keeper,
        *,
        window: int = 16,
        retry: int = 50 * MS,
        patience: int = 5 * SECOND,
    ) -> None:
        if window < 1 or retry < 1 or patience < retry:
            given = f"state transfer with window {window}, retry {retry} and patience {patience}"
            raise ProtocolError(f"{given}: the window is at least 1 packet, patience at least retry, and both are positive")
        self._keeper = keeper
        self._window = window
        self._retry = retry
        self._most_asks = patience // retry
        self._views: dict[GroupId, int] = {}  # the last view passed on of each group that this process has entered (0: none yet)
        self._incoming: dict[GroupId, IncomingState] = {}
        # Where our state came from, at which view, in how many parts: its donor may not know yet that we have it all.
        self._arrived: dict[GroupId, tuple[ProcessId, int, int]] = {}
        self._lost: Reason | None = None  # why this process is about to halt, when it has left the groups in `_leaving`
        self._leaving: dict[GroupId, None] = {}
        self._outgoing: dict[int, OutgoingState] = {}
        self._transfers = 0
        self._handlers: dict[type[Packet], Callable[[ProcessId, Any], None]] = {
            StateAsk: self._on_ask,
            StatePart: self._on_part,
            StateWait: self._on_wait,
            StateLost: self._on_lost,
        }
        self._deliver_now = host.deliver
        super().__init__(host, inside)
        self._receive_inside = self.inner.receive

    # --- the host of the protocol inside ---

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        incoming = self._incoming.get(group)
        if incoming is None:
            self._deliver_now(group, sender, batch, rank)
        else:
            if batch.count != 1:
                unpack(batch)  # what cannot be delivered later is refused now, in the turn that hands it over
            incoming.hold(self._deliver_now, group, sender, batch, rank)
            incoming.held_bytes += len(batch.body) + PACK_OVERHEAD
            if incoming.held_bytes > MOST_HELD:
                self._give_up(incoming, f"{incoming.held_bytes} bytes of messages wait for it")

    def stable(self, group: GroupId, rank: int) -> None:
        incoming = self._incoming.get(group)
        if incoming is None:
            self.host.stable(group, rank)
        else:
            incoming.hold(self.host.stable, group, rank)

    def install(self, view: View) -> None:
        incoming = self._incoming.get(view.group)
        if incoming is None:
            self._pass_on(view)
        elif incoming.view is None:
            self._begin(incoming, view)
        else:
            incoming.hold(self._pass_on, view)
            if incoming.donor not in view.members:
                self._give_up(incoming, f"{incoming.donor} is gone in view {view.number} of {view.group}")

    def left(self, group: GroupId, rank: int | None = None) -> None:
        if (incoming := self._incoming.get(group)) is not None:
            self._drop(incoming)
        self._arrived.pop(group, None)
        self._views.pop(group, None)
        for outgoing in [outgoing for outgoing in self._outgoing.values() if outgoing.name == group]:
            self._forget(outgoing, f"{self.me} has left {group}")
        if incoming is None or not incoming.lost:
            self.host.left(group, rank)
        self._leaving.pop(group, None)
        if self._lost is not None and not self._leaving:
            self.host.halt(self._lost)

    def refused(self, group: GroupId, reason: Reason) -> None:
        self._views.pop(group, None)
        if (incoming := self._incoming.get(group)) is not None:
            self._drop(incoming)
        self.host.refused(group, reason)

    def renamed(self, group: GroupId, view: View, returned: Sequence[bytes] = ()) -> None:
        incoming = self._incoming.get(group)
        if group in self._leaving:
            self._leaving[view.group] = self._leaving.pop(group)
        if incoming is None:
            self._pass_on_name(group, view, returned)
        else:
            # Donor and joiner go on speaking of the group by the name that it had at the joiner's view.
            self._incoming[view.group] = incoming
            incoming.name = view.group
            incoming.hold(self._pass_on_name, group, view, returned)

    # --- the engine of the host outside ---

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        self._views[group] = 0
        if isinstance(how, Join) and how.role != SENDS:
            self._incoming[group] = IncomingState(group, group)
        self.inner.join(group, how)

    def leave(self, group: GroupId) -> None:
        self._end(group, self.inner.leave)

    def close(self, group: GroupId) -> None:
        self._end(group, self.inner.close)

    def _end(self, group: GroupId, end: Callable[[GroupId], None]) -> None:
        incoming = self._incoming.get(group)
        if incoming is None:
            end(group)
        else:
            incoming.end = incoming.end or end

    def receive(self, source: ProcessId, packet: Packet) -> None:
        self._handlers.get(packet.__class__, self._receive_inside)(source, packet)

    def expire(self, timer: Timer) -> None:
        # Three parts tell ours from PerGroup's (group, name), should a group be called like this layer.
        if not isinstance(timer, tuple) or len(timer) != 3 or timer[0] != _LAYER:
            self.inner.expire(timer)
        elif timer[1] == "ask":
            self._ask_again(timer[2])
        else:
            self._send_again(timer[2])

    def waiting(self) -> Reason | None:
        reason = self.inner.waiting() or self._lost
        if reason is not None:
            return reason
        for group, incoming in self._incoming.items():
            if incoming.view is not None:
                text = f"{self.me} waits for the state of {group} at view {incoming.view.number} from {incoming.donor}"
                return Reason("state", text, {"group": group, "donor": incoming.donor, "bytes": incoming.size})
        for outgoing in self._outgoing.values():
            if outgoing.failure is None:
                group, number = outgoing.view.group, outgoing.view.number
                text = f"{self.me} gives {outgoing.joiner} the state of {group} at view {number}"
                return Reason("state", text, {"group": group, "joiner": outgoing.joiner, "bytes": outgoing.size})
        return None

    # --- the donor's application ---

    def has_room(self, transfer: int) -> bool:
        """Whether the next chunk should be ``put`` now. If not, ``state_room`` or ``state_over`` will follow."""
        outgoing = self._outgoing.get(transfer)
        return outgoing is not None and outgoing.is_open and outgoing.backlog < self._window * self.max_packet

    def put(self, transfer: int, chunk: bytes) -> None:
        """The next chunk of the state, of any size. It is taken even if there is no room."""
        if (outgoing := self._open(transfer, "put")) is not None:
            outgoing.put(chunk)
            self._send_parts(outgoing)

    def finish(self, transfer: int) -> None:
        """The state is complete; ``state_over`` follows when the joiner has it."""
        if (outgoing := self._open(transfer, "finish")) is not None:
            outgoing.closed = True
            self._send_parts(outgoing)

    def fail(self, transfer: int, text: str) -> None:
        """The application cannot give its state, and why. The joiner gives up."""
        outgoing = self._outgoing.get(transfer)
        if outgoing is not None and outgoing.failure is None:
            outgoing.fail(text)
            self.host.cancel_timer(_again_timer(transfer))
            self._report_lost(outgoing, text)
            self.host.send((outgoing.joiner,), StateLost(outgoing.view.group, outgoing.view.number, text))

    def abandon(self, group: GroupId, text: str) -> None:
        """The application does not wait for its state any more: the process leaves, as if the state were lost."""
        if (incoming := self._incoming.get(group)) is not None and self._views.get(group):
            self._give_up(incoming, text)
        else:
            self.leave(group)

    def _open(self, transfer: int, call: str) -> OutgoingState | None:
        outgoing = self._outgoing.get(transfer)
        if outgoing is None or outgoing.failure is not None:
            return None
        if outgoing.closed:
            raise ProtocolError(f"{call} for transfer {transfer}, which was finished; nothing may follow that")
        return outgoing

    # --- the donor ---

    def _pass_on(self, view: View) -> None:
        self._views[view.group] = view.number
        self.host.install(view)
        for outgoing in [each for each in self._outgoing.values() if each.name == view.group]:
            if outgoing.joiner not in view.members:
                self._forget(outgoing, f"{outgoing.joiner} is gone in view {view.number} of {view.group}")
        if view.joined and donor_of(view) == self.me:
            for joiner in receivers_of(view):
                self._want(view, joiner)

    def _pass_on_name(self, group: GroupId, view: View, returned: Sequence[bytes]) -> None:
        self._views.pop(group, None)
        self._views[view.group] = view.number
        for outgoing in self._outgoing.values():
            if outgoing.name == group:
                outgoing.name = view.group
        self.host.renamed(group, view, returned)

    def _want(self, view: View, joiner: ProcessId) -> None:
        self._transfers += 1
        self._outgoing[self._transfers] = OutgoingState(self._transfers, view, view.group, joiner, self._retry)
        self.host.record("state", view.group, stage="wanted", at_view=view.number, joiner=joiner)
        self._keeper.state_wanted(StateWanted(self._transfers, view.group, view, joiner))

    def _on_ask(self, source: ProcessId, packet: StateAsk) -> None:
        group, number = packet.group, packet.view
        outgoing = self._find(group, number, source)
        if outgoing is None:
            if self._views.get(group, number) < number:
                self.host.send((source,), StateWait(group, number))
            else:
                text = f"{self.me} has no state for {source} at view {number} of {group}"
                self.host.send((source,), StateLost(group, number, text))
        elif outgoing.failure is not None:
            self.host.send((source,), StateLost(group, number, outgoing.failure))
        else:
            self._go_on(outgoing, packet.received)

    def _find(self, group: GroupId, number: int, joiner: ProcessId) -> OutgoingState | None:
        wanted = (joiner, number, group)
        transfers = self._outgoing.values()
        return next((each for each in transfers if (each.joiner, each.view.number, each.view.group) == wanted), None)

    def _go_on(self, outgoing: OutgoingState, received: int) -> None:
        """The joiner has so much: send what it lacks."""
        had_room = self.has_room(outgoing.transfer)
        outgoing.asked = True
        if outgoing.acknowledge(received):
            outgoing.delay = self._retry
            self.host.cancel_timer(_again_timer(outgoing.transfer))
        elif outgoing.equal_acknowledgements == _EQUAL_ACKNOWLEDGEMENTS:
            self.host.send((outgoing.joiner,), next(iter(outgoing.under_way.values())))
        if outgoing.is_done:
            del self._outgoing[outgoing.transfer]
            self._record_end(outgoing, "given")
            self._keeper.state_over(outgoing.transfer, None)
            return
        self._send_parts(outgoing)
        if not had_room and self.has_room(outgoing.transfer):
            self._keeper.state_room(outgoing.transfer)
        if not outgoing.under_way:
            self.host.send((outgoing.joiner,), StateWait(outgoing.view.group, outgoing.view.number))

    def _send_parts(self, outgoing: OutgoingState) -> None:
        """Sends as much as the window allows. The timer runs from the first part that is not acknowledged."""
        while outgoing.asked and len(outgoing.under_way) < self._window:
            part = outgoing.next_part(self.max_packet)
            if part is None:
                break
            self.host.send((outgoing.joiner,), part)
        if outgoing.under_way and not outgoing.timed:
            outgoing.timed = True
            self.host.set_timer(_again_timer(outgoing.transfer), self.host.now + outgoing.delay)

    def _send_again(self, transfer: int) -> None:
        outgoing = self._outgoing.get(transfer)
        if outgoing is None or not outgoing.under_way:
            return
        for part in outgoing.under_way.values():
            self.host.send((outgoing.joiner,), part)
        outgoing.delay = min(2 * outgoing.delay, max(_SLOWEST_RETRY, self._retry))
        self.host.set_timer(_again_timer(transfer), self.host.now + outgoing.delay)

    def _record_end(self, outgoing: OutgoingState, stage: str, **text: str) -> None:
        view, joiner = outgoing.view, outgoing.joiner
        self.host.record("state", view.group, stage=stage, at_view=view.number, joiner=joiner, bytes=outgoing.size, **text)

    def _forget(self, outgoing: OutgoingState, text: str) -> None:
        del self._outgoing[outgoing.transfer]
        if outgoing.failure is None:
            self.host.cancel_timer(_again_timer(outgoing.transfer))
            self._report_lost(outgoing, text)

    def _report_lost(self, outgoing: OutgoingState, text: str) -> None:
        self._record_end(outgoing, "lost", text=text)
        self._keeper.state_over(outgoing.transfer, Reason(STATE_LOST, text, {"joiner": outgoing.joiner}))

    # --- the joiner ---

    def _begin(self, incoming: IncomingState, view: View) -> None:
        """Our first view: it passes, and we ask for the state at it."""
        self._pass_on(view)
        incoming.view = view
        donor = donor_of(view)
        if donor is None:
            self._give_up(incoming, f"all members of view {view.number} of {view.group} are new: nobody has a state")
        else:
            incoming.donor = donor
            self._ask(incoming)
            self.host.set_timer(_ask_timer(view.group), self.host.now + self._retry)

    def _ask(self, incoming: IncomingState) -> None:
        self.host.send((incoming.donor,), StateAsk(incoming.group, incoming.number, incoming.received))

    def _ask_again(self, group: GroupId) -> None:
        if (incoming := self._incoming.get(group)) is None:
            return
        if incoming.lost:
            self._leave_all(incoming.name)
        elif incoming.unanswered >= self._most_asks:
            self._give_up(incoming, f"{incoming.donor} did not answer {incoming.unanswered} times")
        else:
            if incoming.unanswered:
                self._ask(incoming)
            incoming.unanswered += 1
            self.host.set_timer(_ask_timer(group), self.host.now + self._retry)

    def _from_donor(self, source: ProcessId, group: GroupId, number: int) -> IncomingState | None:
        """The state that waits for this donor's packets; the donor has shown that it is there."""
        incoming = self._incoming.get(group)
        if incoming is None or incoming.lost or source != incoming.donor or number != incoming.number:
            return None
        incoming.unanswered = 0
        return incoming

    def _on_part(self, source: ProcessId, packet: StatePart) -> None:
        incoming = self._from_donor(source, packet.group, packet.view)
        if incoming is not None:
            incoming.accept(packet)
            if incoming.size + incoming.pieces * PACK_OVERHEAD > LARGEST_STATE:
                self._give_up(incoming, f"it has more than {LARGEST_STATE} bytes")
                return
            self._ask(incoming)
            if incoming.is_complete:
                self._complete(incoming)
        elif self._arrived.get(packet.group, ("", 0, 0))[:2] == (source, packet.view):
            self.host.send((source,), StateAsk(packet.group, packet.view, self._arrived[packet.group][2]))

    def _on_wait(self, source: ProcessId, packet: StateWait) -> None:
        self._from_donor(source, packet.group, packet.view)

    def _on_lost(self, source: ProcessId, packet: StateLost) -> None:
        if (incoming := self._from_donor(source, packet.group, packet.view)) is not None:
            self._give_up(incoming, f"{source} could not give it: {packet.text}")

    def _complete(self, incoming: IncomingState) -> None:
        group, donor, number = incoming.group, incoming.donor, incoming.number
        assert incoming.view is not None
        self._drop(incoming)
        self._arrived[group] = donor, number, incoming.received
        more = {"bytes": incoming.size, "held": len(incoming.held)}
        self.host.record("state", group, stage="arrived", at_view=number, donor=donor, **more)
        self._keeper.state_arrived(group, incoming.view, donor, incoming.chunks)
        for call, arguments in incoming.held:
            call(*arguments)
        if incoming.end is not None:
            incoming.end(incoming.name)

    def _drop(self, incoming: IncomingState) -> None:
        self.host.cancel_timer(_ask_timer(incoming.group))
        for group in [group for group, each in self._incoming.items() if each is incoming]:
            del self._incoming[group]

    def _give_up(self, incoming: IncomingState, text: str) -> None:
        """What was held means nothing without the state. The protocol may be calling us: it is called when it does not."""
        if incoming.lost:
            return
        group, number, more = incoming.group, incoming.number, {"donor": incoming.donor, "bytes": incoming.size}
        text = f"{self.me} cannot get the state of {group} at view {number}: {text}; join again"
        self.host.record("state", group, stage="lost", at_view=number, **more, text=text)
        self._lost = self._lost or Reason(STATE_LOST, text, {"group": group, "view": number, **more})
        self._leaving[incoming.name] = None
        incoming.lost = True
        incoming.held.clear()
        self.host.set_timer(_ask_timer(group), self.host.now)

    def _leave_all(self, lost: GroupId) -> None:
        """Leaves the group whose state is lost at once, and the others if that has not been done."""
        self.inner.leave(lost)
        for group in [self._incoming[group].name if group in self._incoming else group for group in self._views]:
            if group not in self._leaving:
                self._leaving[group] = None
                self.leave(group)


def donor_of(view: View) -> ProcessId | None:
    """Who gives its state to those who are new in a view; None if all are."""
    members = (member for part in view.parts for member in part) if view.parts else view.members
    new = receivers_of(view)
    return next((member for member in members if member not in new), None)


def receivers_of(view: View) -> tuple[ProcessId, ...]:
    """Who gets a state at a view: those who are new. Members of parts that come together have a state of their own."""
    return view.newcomers if view.parts else view.joined


def _ask_timer(group: GroupId) -> Timer:
    return (_LAYER, "ask", group)


def _again_timer(transfer: int) -> Timer:
    return (_LAYER, "again", transfer)
