"""The engine: one process, with all its groups.

Theory of operation
-------------------
A process has one block counter for all its groups (4.4). Before it multicasts a message it advances the counter by one and
numbers the message with it (CA1); when it delivers one it advances the counter to that number (CA2). Null messages (4.3) bear the
largest number of the group and complete its blocks; a process that sends or receives a *message* also puts a null with its
number into those of its other groups that have no block so large (4.4, :meth:`Process.second_liveness`).

A group that is formed while its members are in others begins with a null message of each, with its block counter; members send
when they have all of these, with larger numbers. Otherwise a member that has got far elsewhere would deliver small numbers after
large ones, and another one before.

Every entry point ends in :meth:`Process._settle`: deliver what can be (:mod:`.delivery`), then tend to the groups that something
happened in: null messages that are due, messages that flow control lets go, whoever wants to be told, timers.

Who is in a group, and since when, is not decided here: ``Part.membership`` decides who is gone (None: the group is static), and
``formations`` who comes in. They speak by :meth:`Process.say`, and have views and formations begin and end by
``install_smaller``, ``begin``, ``retire`` and ``gone``.

The rules that safety and liveness stand on are methods: ``next_block``, ``advance_on_delivery``, ``second_liveness``,
``sets_off`` and ``_elsewhere`` here, ``Delivery.ripe``, ``Flow.fl1`` to ``fl3`` and ``room``, ``Vectors.unmet``, ``is_met``,
``learn``, ``merge`` and ``keeps``; for membership those that bear a rule's number in :mod:`.membership`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from ...core.engine import Engine, Host
from ...core.model import Consent, Form, GroupId, Join, Packet, Pressure, ProcessId, ProtocolError, Reason, View
from .asymmetric import Desk
from .delivery import RANK_BITS, Delivery
from .formation import Formations
from .matrix import Column, Multicast
from .membership import Membership
from .packets import FORMING, ORDERED, Again, Ask, Data, Emit, Null, Opening, Request, Say, Status, Vector, Word, weight
from .parameters import Parameters
from .part import BLOCK, Part
from .repair import Repair

if TYPE_CHECKING:
    from ...core.model import Batch, Propose, Timer

EARLY: Final = {"lossy": 500, "fifo": 100_000}  # packets kept of groups that this process has not entered yet
EARLY_BYTES: Final = 64 << 20  # bytes of messages in them
LEAST: Final = 64  # bytes of messages that a packet may have however large its vector is
SLOWEST: Final = 8  # announcements in an idle group are at most so many times ``announce_after`` apart
REPEATS: Final = 2  # a request that is repeated more often was not only slow: it, and others with it, met a network that was cut
REQUESTS: Final = 32  # requests that a member may have under way to a sequencer


class Process(Engine):
    """Newtop at one process."""

    def __init__(self, host: Host, parameters: Parameters) -> None:
        self.host = host
        self.parameters = parameters
        self.lossy = parameters.transport == "lossy"
        self.parts: dict[GroupId, Part] = {}
        self.counter = 0  # the block counter
        self.touched: dict[Part, None] = {}  # groups that something happened in
        self.delivery = Delivery(self)
        self.repair = Repair(self)
        self._desks: list[Part] = []
        self._begun_in: Part | None = None  # the group in which the last fragment of a message is still to come
        self._kept: dict[Part, None] = {}  # groups that wait until a message in another one has its number
        self._early: deque[tuple[ProcessId, Packet]] = deque()
        self._early_from: dict[ProcessId, int] = {}  # how many of them each has sent: nobody takes the room of others
        self._early_bytes = 0
        self._retired: dict[tuple[GroupId, int], Part] = {}  # ended formations in which others may still ask for something
        self.formations = Formations(self)
        self._receivers: dict[type[Packet], Callable[[Part, ProcessId, Any], None]] = {
            **dict.fromkeys((Data, Null, Word), self.multicast),
            Status: self._status,
            Ask: self.repair.answer,
            Again: self._again,
            Request: self._request,
            Emit: self._emit,
        }
        self._timers: dict[str, Callable[..., None]] = {
            "silence": self._silence_over,  # time-silence owes something
            "probe": self.repair.probe,  # a block stays incomplete
            "ask": self.repair.ask_again,  # messages of a member are missing
            "request": self._repeat_request,  # to the sequencer of an asymmetric group
            "announce": self._announce,  # what the members of an idle group tell each other
            "alive": self._show_life,  # this one, those below and "form" (:mod:`.formation`): where groups change
            "suspect": lambda part: part.membership.suspector.expire(),
            "repeat": lambda part: part.membership.repeat(),  # suspicions are not settled
            "reading": lambda part: part.membership.expel_oneself(),  # the application does not read
            "leave": self.gone,  # a leaver is not let go
        }

    # --- entry points -------------------------------------------------------------------------------------------------

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        if group in self.parts:
            raise ProtocolError(f"{self.host.me} joins {group!r} a second time")
        if isinstance(how, Form):
            part = self.begin(group, how.members)
            rank = 0 if part.order == "total" else None
            self.host.install(View(group, 1, how.members, joined=how.members, rank=rank, signatures=self.signatures(part)))
            if not how.fresh:
                self._open(part)
            self.replay_early()
        elif self.parameters.is_static(group):
            raise ProtocolError(f"{self.host.me} cannot join {group!r}: the members of a static group form it together")
        elif isinstance(how, Join):
            self.formations.ask_to_join(group, how.contacts)
        else:
            self.formations.propose(group, how.members)
        self._settle()

    def begin(self, group: GroupId, members: tuple[ProcessId, ...], form: int = 1, number: int = 1) -> Part:
        """A formation of a group begins here."""
        part = self.parts[group] = Part(self.host, group, members, self.parameters, form, number)
        if not self.parameters.is_static(group):
            part.membership = Membership(self, part)
            if part.others:
                self.host.set_timer(("alive", group), self.host.now + self.parameters.alive_every)
        self.delivery.add(part)
        if part.desk is not None:
            self._desks.append(part)
        part.ready = True
        self.touched[part] = None
        return part

    def replay_early(self) -> None:
        """What came for a group, or a formation of it, before this process was in it."""
        early, self._early, self._early_from, self._early_bytes = self._early, deque(), {}, 0
        for source, packet in early:
            self._dispatch(source, packet)

    def retire(self, part: Part) -> None:
        """A formation has ended here. Those who are behind may still ask for something."""
        del self.parts[part.group]
        self.touched.pop(part, None)
        self._kept.pop(part, None)
        self.delivery.forget(part)
        self._retired[part.group, part.form] = part
        for name in ("silence", "probe", "announce", "suspect", "repeat", "reading", "alive", "leave", "request"):
            self.host.cancel_timer((name, part.group))
        for column in part.matrix.roster:
            self.host.cancel_timer(("ask", part.group, column.process))

    def goes_on(self, old: Part, part: Part | None) -> None:
        """A message that has gone out in part is sent anew in the group's next formation, if there is one with that name."""
        if self._begun_in is old:
            self._begun_in = part
            if part is None:
                self._touch_all()

    def gone(self, part: Part) -> None:
        """This process has left a group, or the group is closed."""
        self.retire(part)
        del self._retired[part.group, part.form]
        self.formations.forget(part.group)
        self.goes_on(part, None)
        self._touch_all()
        if part.membership is not None and part.membership.expelled is not None:
            self.host.halt(part.membership.expelled)
        else:
            self.host.left(part.group)

    def leave(self, group: GroupId) -> None:
        part = self.parts.get(group)
        if part is None:
            self.formations.forget(group)
            self.host.left(group)
            return
        if part.membership is None:
            raise ProtocolError(f"{self.host.me} cannot leave {group!r}: the members of a static group stay")
        part.membership.wants_out = True
        self.touched[part] = None
        self._settle()

    def close(self, group: GroupId) -> None:
        self.rename(group, "")

    def rename(self, group: GroupId, name: GroupId) -> None:
        part = self.parts.get(group)
        if part is None or part.membership is None:
            raise ProtocolError(f"{self.host.me} cannot close or rename {group!r}: it is not in it, or its members are static")
        if name and (name in self.parts or self.parameters.is_static(name)):
            self.host.record("form", group, stage="refuse", why=f"there is a group {name} already", situation="rename refused")
            return
        self.formations.wish(group, name)
        self._settle()

    def _open(self, part: Part) -> None:
        """The group begins where the furthest of its members is."""
        part.open = False
        block = max(1, self.counter)
        if part.desk is None and part.office is None:
            self._null(part, block, "opening")
        else:
            part.demand = block
            part.openers[self.host.me] = None
        part.first = part.me.last
        self.delivery.reopened()

    def _opened(self, part: Part) -> None:
        """Whether it can begin: everybody has been heard."""
        if part.office is not None and part.matrix.largest == 0 and len(part.openers) == len(part.members):
            self._null(part, max(part.demand, self.counter), "opening")
        if part.matrix.complete:
            part.open = True
            self.raise_counter(part, part.matrix.largest)
            self.delivery.reopened()
            if part.previous is not None:
                self._retired.pop((part.previous.group, part.previous.form), None)
                part.previous = None
                self.host.record("unblock", part.group, over=True, condition="moving")
            if part.form != 1:
                self.host.record("form", part.group, stage="open", form=part.form)

    def ready(self, group: GroupId) -> None:
        part = self.parts.get(group)
        if part is not None:
            part.ready = True
            self.touched[part] = None
            self._settle()

    def receive(self, source: ProcessId, packet: Packet) -> None:
        self._dispatch(source, packet)
        self._settle()

    def _dispatch(self, source: ProcessId, packet: Packet) -> None:
        kind = type(packet)
        if kind in FORMING:
            self.formations.receive(source, packet)
            return
        part = self.parts.get(packet.group)  # type: ignore[attr-defined]  # by the rule in Packet's docstring
        if part is None or packet.form != part.form:  # type: ignore[attr-defined]  # all others have it
            self._stray(source, packet)
            return
        column = part.matrix.columns.get(source)
        if column is not None:
            column.heard = self.host.now
            if part.membership is None or source not in part.membership.failed or kind is Ask:
                self.touched[part] = None
                self._receivers[kind](part, source, packet)

    def _stray(self, source: ProcessId, packet: Any) -> None:
        """A packet of another formation: one that has ended here, or one that this process is not in, perhaps not yet."""
        retired = self._retired.get((packet.group, packet.form))
        if retired is not None:
            was_member = any(column.process == source for column in retired.matrix.roster)
            if was_member and type(packet) is Ask:
                self.repair.answer(retired, source, packet)
            elif was_member and type(packet) is Status and packet.have >= 0:
                self.host.send((source,), self.status(retired))
            return
        self._keep_early(source, packet)
        if type(packet) is Word and type(packet.say) is Opening and self.formations.awaits(source, packet.say.plan):
            self.formations.enter(packet.say.plan, None)

    def _keep_early(self, source: ProcessId, packet: Packet) -> None:
        """Keeps a packet, in the place of the oldest of whoever has sent the most if there is no room."""
        self._early.append((source, packet))
        self._early_from[source] = self._early_from.get(source, 0) + 1
        self._early_bytes += weight(packet)
        while len(self._early) > EARLY[self.parameters.transport] or self._early_bytes > EARLY_BYTES:
            worst = max(self._early_from, key=lambda name: self._early_from[name])
            place = next(index for index, (name, _) in enumerate(self._early) if name == worst)
            self._early_bytes -= weight(self._early[place][1])
            del self._early[place]
            self._early_from[worst] -= 1
            if not self._early_from[worst]:
                del self._early_from[worst]

    def expire(self, timer: Timer) -> None:
        assert isinstance(timer, tuple), timer
        name, group, *rest = timer
        if name == "form":
            self.formations.expire(group)
        else:
            self.touched[self.parts[group]] = None
            self._timers[name](self.parts[group], *rest)
        self._settle()

    def notice(self, event: Any) -> None:
        if isinstance(event, Pressure) and event.group in self.parts:
            part = self.parts[event.group]
            part.flow.full = event.full
            self.touched[part] = None
            self._settle()
        elif isinstance(event, Consent):
            self.formations.consent(event)
            self._settle()

    def waiting(self) -> Reason | None:
        reasons = (self._unfinished(part) for part in self.parts.values())
        return self.formations.unfinished() or next((reason for reason in reasons if reason is not None), None)

    def _unfinished(self, part: Part) -> Reason | None:
        matrix, group = part.matrix, part.group
        if part.membership is not None:
            reason = part.membership.unfinished()
            if reason is not None:
                return reason
            if not part.open:
                return Reason("opening", f"{group} has not begun: not everybody has been heard", {"group": group})
        undelivered = [column.process for column in matrix.members if column.queue]
        if undelivered:
            oldest = min(column.queue[0].block for column in matrix.members if column.queue)
            text = f"messages of {', '.join(undelivered)} in {group} are not delivered; the first has block {oldest}"
            text += f", and all groups are complete up to {self.delivery.complete}"
            return Reason("undelivered", text, {"group": group, "block": oldest})
        largest = matrix.largest if part.membership is None else matrix.spoken  # beside signs of life
        missing = [column.process for column in matrix.members if any(after < largest for after, _ in column.gaps())]
        if missing:
            return Reason("gap", f"messages of {', '.join(missing)} in {group} are missing", {"group": group})
        if part.membership is not None and part.others and any(type(packet) is not Null for packet in part.me.kept):
            text = f"not every member of {group} is known to have all messages of {part.me.process}"
            return Reason("unstable", text, {"group": group})  # what is missing elsewhere may look like signs of life there
        if matrix.complete < largest:
            late = [column.process for column in matrix.counted if column.last < largest]
            text = f"block {largest} of {group} is not complete: {', '.join(late)} has sent nothing for it"
            return Reason("incomplete", text, {"group": group, "block": largest})
        if part.desk is not None and part.desk.open:
            text = f"{len(part.desk.open)} requests in {group} have not come back from {part.sequencer} numbered"
            return Reason("unnumbered", text, {"group": group})
        if part.office is not None and part.flow.acknowledged() < matrix.largest_flow:
            late = [column.process for column in matrix.members if column.complete < matrix.largest_flow]
            return Reason("unacknowledged", f"{', '.join(late)} has not said that it has everything in {group}", {"group": group})
        if part.blocked:
            return Reason("flow control", f"flow control keeps messages back in {group} ({part.blocked})", {"group": group})
        return None

    # --- the block counter --------------------------------------------------------------------------------------------

    def next_block(self, part: Part, above: int) -> int:
        """CA1: the number of the next message."""
        self.counter = max(self.counter, above) + 1
        return self.counter

    def raise_counter(self, part: Part, block: int) -> None:
        if block > self.counter:
            self.counter = block

    def advance_on_delivery(self, part: Part, packet: Data) -> None:
        """CA2. For total order in symmetric groups it changes nothing (4.2)."""
        if packet.block > self.counter:
            self.raise_counter(part, packet.block)
        if packet.flow > part.counter:
            part.counter = packet.flow

    # --- sending ------------------------------------------------------------------------------------------------------

    def _pump(self, part: Part) -> None:
        """Sends what there is to send, as far as flow control and requests under way allow."""
        if part.desk is not None:
            self._pump_requests(part, part.desk)
            return
        office, membership = part.office, part.membership
        part.flow.refresh()
        while part.ready or (office is not None and office.queue):
            if office is not None and office.queue:
                if self._held_up(part):
                    return
                source, request = office.take()
                self._send(part, request.batch, (), 0, source, request.request, request.block)
            own = part.ready and not self._elsewhere(part) and not self._held_up(part) and self._send_own(part)
            if not own and (office is None or not office.queue or part.blocked):
                return
            if membership is not None and not membership.may_send():
                return

    def _send_own(self, part: Part) -> bool:
        """Takes a message and sends it."""
        vector, floor = part.begun or (self.delivery.stamp(part), self.delivery.floor(part))
        batch = self._take(part, vector)
        if batch is not None:
            part.begun = (vector, floor) if self._begun_in is part else None
            self._send(part, batch, vector, floor)
        return batch is not None

    def _take(self, part: Part, vector: Vector = ()) -> Batch | None:
        """Messages for one packet, which has to hold the vector too, and to fit into another one if it is sent again."""
        room = self.host.max_packet - part.reserve
        if vector:
            room -= sum([len(name) + 6 + 9 * len(numbers) for name, numbers in vector])
        batch = self.host.take(part.group, max(LEAST, room), 0 if self.parameters.pack else 1)
        if batch is None:
            part.ready = False
        elif batch.total and not batch.count:
            self._begun_in = part
        elif self._begun_in is part:
            self._begun_in = None
            self._touch_all()
        return batch

    def _elsewhere(self, part: Part) -> bool:
        """A message of ours in another group has no number yet, or not all of its fragments have: what is sent here now, after
        it, must not get a smaller one. Others who wait like that come first when it is over."""
        other = self._begun_in
        waits = (other is not None and other is not part) or (
            bool(self._desks) and any(one.desk is not None and one.desk.open and one is not part for one in self._desks)
        )
        if waits:
            self._kept[part] = None
        elif self._kept:
            self._kept.pop(part, None)
        return waits

    def _held_up(self, part: Part) -> bool:
        """Whether flow control keeps the next message back; writes down when that begins and ends. ``refresh`` first."""
        flow = max(part.counter, part.me.flow) + 1
        finishes = part.membership is not None and part.membership.finishes
        why = part.flow.closed(flow, null=finishes)
        if why:
            part.flow.refresh()
            why = part.flow.closed(flow, null=finishes)
        if why and part.blocked and self._starves(part):
            why = ""
        if why == "room" and part.told_wanted < flow - part.flow.bound:
            part.told_wanted = flow - part.flow.bound
            self.want_room(part)
        if why and not part.blocked:
            part.blocked_at = self.host.now
            text = f"{self.host.me} may not send in {part.group}: {_CONDITIONS[why].format(block=flow, n=part.flow.bound)}"
            reason = Reason("flow control", text, {"condition": why})
            self.host.record("block", part.group, reason=reason, situation=f"blocked by {why}")
        if part.blocked and not why:
            self.host.record("unblock", part.group, over=True, condition=part.blocked)
        part.blocked = why
        return bool(why)

    def _starves(self, part: Part) -> bool:
        """Whether a message has waited for ``alive_every`` although all live and have room. Where links are slow, signs of life,
        which do not wait, fill a small window: then a message now and then goes like one of them. They raise flow numbers; room
        is counted in messages here: at most N of ours that not every member has delivered."""
        membership = part.membership
        if membership is None or not membership.calm or not part.flow.bound or part.count_undelivered() >= part.flow.bound:
            return False
        return self.host.now - part.blocked_at >= self.parameters.alive_every

    def _send(
        self, part: Part, batch: Batch, vector: Vector, floor: int, sender: ProcessId = "", request: int = 0, above: int = 0
    ) -> None:
        """psend: numbers a message, multicasts it, and has the other groups catch up."""
        me = part.me
        block = self.next_block(part, above)
        flow = max(part.counter, me.flow) + 1
        known = (me.last if self.lossy else 0, flow, me.complete, me.stable, me.done)
        packet = Data(part.group, block, *known, batch, vector, floor, sender, request, part.form)
        self._transmit(part, packet)
        self.delivery.sent(part, packet)
        part.silence.sent(part.spoke)
        self._enter(part, me, packet)
        if part.membership is not None:
            part.membership.before_last = part.matrix.largest_flow
            if part.flow.bound:
                part.count_undelivered()
                part.undelivered.append(flow)

    def _transmit(self, part: Part, packet: Multicast) -> None:
        """A packet goes out to the group, and with it what this process has delivered and knows to be stable."""
        part.counter = max(part.counter, packet.flow)
        part.announced, part.said_stable = packet.delivered, packet.stable
        part.last_sent = part.spoke = self.host.now
        self.host.send(part.others, packet)

    def _null(self, part: Part, block: int, why: str) -> None:
        """Multicasts a null message, unless flow control keeps it back: then it is judged anew later."""
        me = part.me
        flow = part.matrix.largest_flow if part.matrix.largest_flow > me.flow else me.flow + 1
        part.flow.refresh()
        closed = part.flow.closed(flow, null=True)
        if closed and why != "alive":
            if not part.held:
                part.held = True
                self.host.record("block", part.group, null=block, condition=closed, situation="null held back")
            return
        part.held = False
        packet = Null(part.group, block, me.last if self.lossy else 0, flow, me.complete, me.stable, me.done, part.form)
        self._transmit(part, packet)
        self.host.record("null", part.group, block=block, why=why, situation=f"null: {why}")
        self.raise_counter(part, block)
        self._enter(part, me, packet)

    def say(self, part: Part, say: Say, *, above: int = 0) -> int:
        """Multicasts a word of the group view, in a new block. It does not wait for flow control, which a failed member stops."""
        me = part.me
        block = self.next_block(part, above)
        flow = part.matrix.largest_flow if part.matrix.largest_flow > me.flow else me.flow + 1
        part.flow.refresh()
        word = Word(part.group, block, me.last if self.lossy else 0, flow, me.complete, me.stable, me.done, say, part.form)
        self._transmit(part, word)
        self._enter(part, me, word)
        return block

    def _show_life(self, part: Part) -> None:
        """The extended time-silence: a member that has sent nothing for long makes a block, which the others complete. Like
        suspicions it ignores flow control: where a failed member stops that, none would notice, or all seem to have failed."""
        membership = part.membership
        if not part.others or (membership is not None and membership.bye):
            return
        due = part.spoke + self.parameters.alive_every
        if self.host.now >= due:
            if not part.open and part.form != 1:
                absent = tuple(column.process for column in part.matrix.members if column.last == 0)
                self.host.send(absent, part.me.kept[0])  # the Opening, by which some of them enter
            wanted = max(part.matrix.largest, part.demand)
            if wanted > part.me.last:
                self._null(part, wanted, "alive")
            elif membership is not None and membership.suspector.wants_life():
                self._null(part, part.me.last + 1, "alive")
            due = self.host.now + self.parameters.alive_every
        self.host.set_timer(("alive", part.group), due)

    def install_smaller(self, part: Part, gone: dict[ProcessId, Reason], rank: int | None) -> None:
        """(ix): the view without these is in force."""
        part.members = tuple(member for member in part.members if member not in gone)
        part.others = tuple(member for member in part.others if member not in gone)
        part.number += len(gone)
        part.matrix.drop(gone)
        for process in gone:
            part.wanted_by.pop(process, None)
        self.delivery.recount()
        self.touched[part] = None
        signatures = self.signatures(part)
        self.host.install(View(part.group, part.number, part.members, left=gone, rank=rank, signatures=signatures))
        self.formations.parted(part.group, gone)

    def signatures(self, part: Part) -> dict[ProcessId, int]:
        """6.4: what a member is called in this view and in no other. (The number of processes that were excluded, which the
        thesis takes, is the same in two views that exclude different ones, and repeats when somebody joins.)"""
        if not self.parameters.signatures:
            return {}
        identity = f"{part.group}/{part.form}/{part.number}/{','.join(part.members)}"
        number = int.from_bytes(blake2b(identity.encode(), digest_size=7).digest(), "big")
        return dict.fromkeys(part.members, number)

    def _flow_null(self, part: Part) -> None:
        """Completes the blocks of flow control alone: the block counter is ahead of them already."""
        flow = part.matrix.largest_flow
        part.flow.refresh()
        part.held = bool(part.flow.closed(flow, null=True))
        if not part.held:
            part.me.flow = flow
            part.counter = max(part.counter, flow)
            self._tell_all(part, self.status(part))
            self.host.record("null", part.group, why="flow", situation="null: flow")

    def want_room(self, part: Part) -> None:
        """Asks those who have not delivered enough to say so when they have. Everybody hears it: what is complete and stable here
        must not be known to some only, who would run ahead while the others' null messages wait for it."""
        self._tell_all(part, self.status(part, wanted=part.told_wanted))

    def _tell_all(self, part: Part, status: Status) -> None:
        """To everybody; in an asymmetric group, to the sequencer."""
        part.announced, part.said_complete, part.said_stable = status.delivered, status.complete, status.stable
        self.host.send(part.others if part.desk is None else (part.sequencer,), status)

    def status(self, part: Part, *, wanted: int = 0, have: int = -1) -> Status:
        """Where this process stands in a group."""
        part.flow.refresh()
        me = part.me
        return Status(part.group, me.last, me.flow, me.complete, me.stable, me.done, wanted, have, part.form)

    def second_liveness(self, part: Part, packet: Multicast) -> None:
        """4.4: the other groups, which this message's delivery waits for, get a block with its number if they have none."""
        if self.sets_off(part, packet):
            block = packet.block
            for other in [other for other in self.parts.values() if other is not part]:
                if block > other.matrix.largest and block > other.demand:
                    other.demand = block
                    self.touched[other] = None
                elif not other.eager and block > other.matrix.complete:
                    other.urgent = True
                    self.touched[other] = None

    def sets_off(self, part: Part, packet: Multicast) -> bool:
        """Only messages do, never nulls, or nulls would breed nulls; only where other groups' blocks are waited for."""
        if len(self.parts) == 1 or type(packet) is Null:
            return False
        if type(packet) is Word:
            return part.kind == BLOCK and isinstance(packet.say, ORDERED)
        if part.kind == BLOCK or (isinstance(packet, Data) and packet.floor):
            return True
        return part.eager and part.kind == "fast"

    # --- receiving ----------------------------------------------------------------------------------------------------

    def multicast(self, part: Part, source: ProcessId, packet: Multicast) -> None:
        column = part.matrix.columns[source]
        if part.membership is not None and part.membership.is_pending(source, packet):
            return
        self._heard(column, packet)
        if part.sequencer and source != part.sequencer:
            return
        if isinstance(packet, Data) and not self.delivery.fits(part, packet):
            if source not in part.refused:
                part.refused[source] = None
                text = f"{source} sends in another order than {part.order}"
                self.host.record("refuse", part.group, process=source, text=text)
            return
        if packet.block > column.last:
            if part.is_full(column):
                return  # nobody has so much under way: it does not keep to flow control
            if not part.eager and packet.block > part.me.last and (packet.floor if isinstance(packet, Data) else True):
                part.urgent = True
            self._enter(part, column, packet)
            if column.early:
                self.repair.gap(part, column)
        elif packet.block == column.last and packet.flow > column.flow:
            column.flow = packet.flow

    def _enter(self, part: Part, column: Column, packet: Multicast) -> None:
        """A message, one's own or another's, joins the matrix, and with it what lay aside behind it."""
        matrix, delivery, membership = part.matrix, self.delivery, part.membership
        before = matrix.complete
        following: Multicast | None = packet
        while following is not None and matrix.enter(column, following):
            one = following
            if membership is not None and membership.recorded:
                membership.compare(column)
            if type(one) is Data:
                delivery.arrived(part, column, one)
                if part.desk is not None and one.sender == self.host.me:
                    part.desk.numbered(one.request)
                    self._send_the_rest(part, part.desk)
                    self.raise_counter(part, one.block)
                    if delivery.floors:
                        delivery.raise_floors(part.kind, one.block, 0)
                    self._touch_all()
            elif type(one) is Word:
                if isinstance(one.say, ORDERED):
                    delivery.ordered(part, column, one)
                if membership is not None:
                    membership.heard(column, one)
            self.second_liveness(part, one)
            if membership is not None and column.process in membership.suspicions:
                break  # what is behind it is pending
            following = column.early.pop(column.last, None) if column.early else None
        if delivery.vectors:
            delivery.settled_in(part, column)
        if matrix.complete != before and before <= delivery.complete:
            delivery.recount()
        self.touched[part] = None

    def _touch_all(self) -> None:
        """All groups may go on. The last one in is tended to first: of those kept waiting, the one that has waited longest."""
        for part in (*self.parts.values(), *reversed(self._kept)):
            self.touched.pop(part, None)
            self.touched[part] = None

    def _heard(self, column: Column, packet: Multicast | Status) -> None:
        """What the sender says about itself; packets may be late, so the largest counts."""
        if packet.complete > column.complete:
            column.complete = packet.complete
        if packet.stable > column.stable:
            column.stable = packet.stable
        if packet.delivered > column.done:
            column.done = packet.delivered

    def _again(self, part: Part, source: ProcessId, again: Again) -> None:
        if again.source in part.matrix.columns and again.source != self.host.me:
            self.multicast(part, again.source, again.packet)

    def _status(self, part: Part, source: ProcessId, status: Status) -> None:
        column = part.matrix.columns[source]
        self._heard(column, status)
        if status.block == column.last and status.flow > column.flow:
            column.flow = status.flow
        elif status.flow > part.matrix.largest_flow:
            part.matrix.largest_flow = status.flow
        if self.lossy:
            self.repair.told(part, column, status)
        if status.wanted > 0:
            part.wanted_by[source] = max(status.wanted, part.wanted_by.get(source, 0))
        if status.have >= 0:
            self._fulfil(part)
            self.host.send((source,), self.status(part))
        elif status.wanted < 0 and not part.announcing:  # what was said last was lost
            self.host.send((source,), self.status(part))

    def _request(self, part: Part, source: ProcessId, request: Request) -> None:
        if part.office is not None:
            column = part.matrix.columns[source]
            column.complete = max(column.complete, request.delivered)
            column.done = max(column.done, request.delivered)
            part.office.asked(source, request)

    def _emit(self, part: Part, source: ProcessId, emit: Emit) -> None:
        if part.office is not None:
            part.demand = max(part.demand, emit.block)
            part.openers[source] = None

    # --- tending ------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Delivers, and tends to every group that something happened in, until nothing more happens."""
        touched, delivery = self.touched, self.delivery
        while True:
            delivery.advance()
            if not touched:
                return
            self._tend(touched.popitem()[0])

    def _tend(self, part: Part) -> None:
        membership = part.membership
        if membership is not None:
            membership.notice_readers()
            membership.suspector.watch()
            membership.think()
            if membership.wants_out:
                membership.go_on_leaving()
            if self.parts.get(part.group) is not part:
                return
        if not part.open:
            self._opened(part)
        if part.demand > part.me.last:
            self._demanded(part)
        if part.held:
            self._fulfil(part)
        if membership is not None:
            membership.say_what_is_owed()
        may_send = membership is None or membership.may_send()
        if part.open and may_send and (part.ready or part.office is not None):
            self._pump(part)
        self._oblige(part)
        if part.wanted_by:
            self._tell(part)
        flow = part.flow
        if part.me.stable > part.seen_stable:
            part.seen_stable = part.me.stable
            self._tell_host(part)
        if part.matrix.largest_flow - part.me.stable > part.most_unstable:
            flow.refresh()
            if flow.unstable > part.most_unstable:
                counted = {}
                if part.most_unstable == 0 or flow.unstable >= 9 * part.counted_at // 8:  # not each time that it grows by one
                    part.counted_at = flow.unstable
                    counted["history"] = part.matrix.held()
                part.most_unstable = flow.unstable
                self.host.record("state", part.group, unstable=flow.unstable, **counted)
        if self.lossy:
            self.repair.watch(part)
        # Something new is here that not every member has.
        if part.matrix.largest_flow > part.announced_up_to and part.announcing != 1 and self.parameters.announce_after:
            part.announcing = 1
            self.host.set_timer(("announce", part.group), self.host.now + self.parameters.announce_after)

    def _announce(self, part: Part) -> None:
        """An idle group: everybody says what it has, until everybody knows that everybody has it."""
        flow, patience = part.flow, self.parameters.announce_after
        flow.refresh()
        self._tell_host(part)
        part.announced_up_to = part.matrix.largest_flow
        if min(flow.everywhere, part.said_stable) >= part.matrix.largest_flow:
            part.announcing = 0
            return
        due = part.last_sent + patience
        if self.host.now >= due:
            self._tell_all(part, self.status(part, wanted=-1))
            part.last_sent = self.host.now
            part.announcing = min(2 * part.announcing, SLOWEST)
            due = self.host.now + part.announcing * patience
        self.host.set_timer(("announce", part.group), due)

    def _tell_host(self, part: Part) -> None:
        """What everybody has by now, for whoever waits for that."""
        if part.order == "total" and (stable := part.flow.stable_block()) > part.told_stable:
            part.told_stable = stable
            self.host.stable(part.group, (stable + 1 << RANK_BITS) - 1)

    def _demanded(self, part: Part) -> None:
        """4.4 wants a block here: at once, or, adaptively, with the message that this process is about to send here anyway."""
        if part.desk is not None:
            if part.demand <= part.matrix.complete:
                part.demand = 0
            elif part.demand > part.emitted:
                part.emitted = part.demand
                self.emit(part)
        elif part.demand <= part.matrix.largest:
            part.demand = 0
        elif not part.open:
            return
        elif self.parameters.silence_by != "adaptive" or self.host.now >= part.silence.due(self.host.now):
            self._null(part, part.demand, "other group")
        else:
            part.urgent = True

    def _oblige(self, part: Part) -> None:
        """Sets the timer of time-silence where this process owes something."""
        if part.desk is not None:
            self._acknowledge(part)
            return
        if not (part.owes_block or part.owes_flow) or (part.office is not None and not part.open):
            part.due = None
            part.urgent = False
            return
        if not part.eager and not part.urgent and part.flow.waited_for(part.matrix.largest_flow - part.me.flow):
            part.urgent = True
        stopped = part.membership is not None and part.membership.stopped != "" and self.parameters.silence_by == "adaptive"
        if part.held or (part.due is not None and not part.urgent and not stopped):
            return
        now = self.host.now
        due = part.silence.due(now) if part.eager or part.urgent else now + self.parameters.stability_after
        due = now if stopped else due  # stopped: no message of one's own is to be expected
        if part.due is None or due < part.due:
            part.due = due
            if part.timer_at is None or part.timer_at > due:
                part.timer_at = due
                self.host.set_timer(("silence", part.group), due)

    def _silence_over(self, part: Part) -> None:
        part.timer_at = None
        if part.due is not None and self.host.now < part.due:
            part.timer_at = part.due
            self.host.set_timer(("silence", part.group), part.due)
        elif part.due is not None:
            part.due = None
            self._fulfil(part)

    def _fulfil(self, part: Part) -> None:
        """Sends the null message that is owed, if one still is."""
        if part.desk is not None:
            self._tell_all(part, self.status(part))
        elif part.office is not None and not part.open:
            return
        elif part.owes_block:
            demanded = part.demand > part.matrix.largest
            self._null(part, part.demand if demanded else part.matrix.largest, "other group" if demanded else "silence")
        elif part.owes_flow:
            self._flow_null(part)
        else:
            part.held = False

    def _tell(self, part: Part) -> None:
        """Those who wait for it are told that enough is delivered here."""
        part.flow.refresh()
        told = tuple([process for process, wanted in part.wanted_by.items() if wanted <= part.me.done])
        if told:
            self._tell_all(part, self.status(part))
            for process in told:
                del part.wanted_by[process]

    def waits(self, part: Part, column: Column, packet: Data, owner: Any, number: int) -> None:
        """A message is here, all of it, and waits: written down once."""
        whole = packet.batch.count or not packet.batch.total
        if whole and column.waited < packet.block:
            column.waited = packet.block
            what = f"{owner.group if isinstance(owner, Part) else 'all groups'} up to block {number}"
            if isinstance(owner, Column):
                what = f"{owner.process} up to {number}"
            sender = packet.sender or column.process
            self.host.record("block", part.group, sender=sender, seq=packet.batch.first, waits_for=what, situation="waits")

    # --- asymmetric groups --------------------------------------------------------------------------------------------

    def _pump_requests(self, part: Part, desk: Desk) -> None:
        most = min(REQUESTS, part.flow.bound or REQUESTS)
        while part.ready and len(desk.open) < most and not self._elsewhere(part):
            if desk.open and self._kept and self._begun_in is None:
                return  # another group's turn comes when all of these have their numbers
            batch = self._take(part)
            if batch is None:
                return
            part.flow.refresh()
            desk.last += 1
            request = Request(part.group, desk.last, self.counter, part.me.done, batch, part.form)
            part.announced = part.me.done
            desk.open[desk.last] = request
            self.host.send((part.sequencer,), request)
            if not desk.watched and self.lossy:
                self._watch_requests(part, desk)

    def _watch_requests(self, part: Part, desk: Desk) -> None:
        """Sees to it that the oldest request is repeated if it stays away."""
        desk.watched = next(iter(desk.open), 0)
        if desk.watched:
            wait = self.parameters.probe_after << min(desk.repeats, SLOWEST.bit_length() - 1)
            self.host.set_timer(("request", part.group), self.host.now + wait)

    def _repeat_request(self, part: Part) -> None:
        """The others follow when the first one is there: the sequencer takes them in order."""
        desk = part.desk
        assert desk is not None
        if desk.watched in desk.open:
            self.host.send((part.sequencer,), desk.open[desk.watched])
            self.host.record("retransmit", part.group, to=part.sequencer, packets=1, situation="request again")
            desk.repeats += 1
        else:
            desk.repeats = 0
        self._watch_requests(part, desk)

    def _send_the_rest(self, part: Part, desk: Desk) -> None:
        """A request that had to be repeated for long has come back: those after it are probably lost as well."""
        if desk.repeats > REPEATS:
            for request in desk.open.values():
                self.host.send((part.sequencer,), request)
        desk.repeats = 0

    def emit(self, part: Part) -> None:
        """An idle sequencer is asked for a number."""
        if part.demand > part.matrix.complete:
            self.host.send((part.sequencer,), Emit(part.group, part.demand, part.form))
            self.host.record("ask", part.group, process=part.sequencer, block=part.demand, situation="emit")

    def _acknowledge(self, part: Part) -> None:
        """A member tells the sequencer what it has: after a quarter of N, and when it has been silent for a while."""
        part.flow.refresh()
        me = part.me
        if me.done <= part.announced and me.complete <= part.said_complete:
            return
        if part.flow.bound and me.done - part.announced >= max(1, part.flow.bound // 4):
            self._tell_all(part, self.status(part))
        elif part.timer_at is None:
            part.due = part.timer_at = self.host.now + self.parameters.stability_after
            self.host.set_timer(("silence", part.group), part.timer_at)


_CONDITIONS: Final = {
    "fl1": "block {block} - {n} is not known to be stable at everybody",
    "fl2": "block {block} + 1 - {n} is not stable yet",
    "fl3": "block {block} + 2 - {n} is not complete yet",
    "room": "block {block} - {n} is not delivered everywhere yet",
}
