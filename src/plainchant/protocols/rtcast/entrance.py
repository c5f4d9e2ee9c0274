"""How a process gets onto the ring: processes that form a group find each other, and others ask to be let in (4.4, Lemma 5).

**Forming.** Each process begins as a ring of its own and knocks at the others. Of two rings that hear of each other the one with
the smaller name stays. A process that is alone asks it for a place like any joiner; a larger ring dissolves first, which costs
nothing: until the group is formed no view is installed and no message taken. When all are together, or ``gather`` has passed, the
first member of the ring says so, and all install the group's first view at that place of the order.

A process that hears of a ring that is to stay does not form the group by itself, however long it waits to be let in there: it is
refused like a joiner, or there would be two groups of one name.

**Joining.** The joiner knocks at its contacts, one at a time and at random times (:attr:`~.interface.Interface.crowd`), so that
the heartbeat with the slot bit is sent to it too (on a broadcast medium it would hear it anyway). In the slot it asks the member
that comes next, its sponsor, and keeps all that it hears of that ring from then on. It is in when *every* member of the view has
acknowledged, within one rotation, with the same view, sequence vector and place in the order; it goes on from there with what it
has kept. Otherwise it is silent, is eliminated like a dead member, waits a random number of rotations and asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

from ...core.model import Form, Join, ProcessId, Reason, Timer, View
from .packets import Beat, Change, Data, JoinAck, Knock, Partial, Refuse, Request
from .sizes import JOINERS, MENTIONED

if TYPE_CHECKING:
    from .ring import Ring

KNOCK: Final = "knock"
KNOCKS_EVERY: Final = 4  # Average time between knocks, in d_max; it is longer where many knock
KNOCKS_SHARE: Final = 8  # One part in so many of a medium is for the knocks of processes that form a group
ACKS: Final = "acknowledgements"
PATIENCE: Final = 10  # So many times ``gather`` a joiner looks for the group
MOST_KEPT: Final = 4096
KEPT_BYTES: Final = 16 << 20  # Bytes of messages in what is kept
KNOCKERS: Final = 64  # So many processes at the door are noted; further ones knock again
LONGEST_WAIT: Final = 10  # A joiner waits at most this many ``gather`` for acknowledgements, whatever rotation the ring states


class Entrance:
    """One process's way in."""

    def __init__(self, ring: Ring) -> None:
        self._ring, self._host, self._group = ring, ring.host, ring.group
        self._form: tuple[ProcessId, ...] = ()  # Those who form the group; empty: we join one
        self._contacts: tuple[ProcessId, ...] = ()
        self._until = 0
        self._founded = 0
        self._better_until = 0  # So long a ring that is to stay rather than ours counts as being there
        self._heard_at = -(1 << 62)  # When anybody was heard of who is not on our ring
        self._knockers: dict[ProcessId, int] = {}
        self._to_mention: dict[ProcessId, None] = {}  # Processes that have knocked at us, for our next heartbeat
        self._knocks = -1
        self._asked: ProcessId = ""  # The ring that we have asked for a place
        self._asked_rotation = 0
        self._not_before = 0
        self._offered = 0  # A T that we were offered instead of ours
        self._acks: dict[ProcessId, JoinAck] = {}
        self._parts: dict[tuple[ProcessId, int, int], Partial] = {}  # Partial messages, by who told us, change and index
        self._kept_bytes = 0
        self._kept: list[tuple[ProcessId, Data, int]] = []  # Packets of that ring, from whom, and when they came
        self._beats: dict[ProcessId, tuple[Beat, int]] = {}
        self._first_ack_at = 0
        self._why = ""
        self.is_installed = False  # Whether the application has had a view: from then on there is no second try

    @property
    def is_outside(self) -> bool:
        """Whether this process is on no ring at all."""
        return not self._ring.name

    @property
    def looks_elsewhere(self) -> bool:
        """Whether our ring is one that is to be given up: it takes nobody in."""
        return not self._ring.will_form and (bool(self._asked) or self._host.now < self._better_until)

    @property
    def _knock_every(self) -> int:
        """How often a process knocks. Many on one medium must leave room for the ring among them."""
        interface = self._ring.interface
        if not self._form:
            return self._joiners_knock_every
        together = len(self._form) * interface.cost(interface.sizes(self._form).knock)
        return max(KNOCKS_EVERY * interface.delay_max, KNOCKS_SHARE * together)

    @property
    def _joiners_knock_every(self) -> int:
        interface = self._ring.interface
        return max(KNOCKS_EVERY * interface.delay_max, interface.crowd)

    def begin(self, how: Form | Join) -> None:
        gather = int(self._ring.parameters.gather)
        if isinstance(how, Form):
            self._form = how.members
            self._contacts = tuple(process for process in how.members if process != self._host.me)
            self._until = self._host.now + gather
            self._state("gathering")
            self._found()
            self._knock()
        else:
            self._contacts = how.contacts
            self._until = self._host.now + PATIENCE * gather
            self._state("joining")
            self._knock_soon()

    def _knock_soon(self) -> None:
        """A joiner waits for a random part of the time over which a crowd spreads: many may ask at one instant."""
        wait = 0 if self._form else self._host.random.randrange(self._ring.interface.crowd + 1)
        self._host.set_timer(KNOCK, self._host.now + wait)

    def _state(self, state: str, **detail: str) -> None:
        self._host.record("state", self._group, state=state, **detail)

    def _found(self) -> None:
        self._founded += 1
        self._ring.found(self._host.me if self._founded == 1 else f"{self._host.me}~{self._founded}")

    def stop(self) -> None:
        self._host.cancel_timer(KNOCK)
        self._host.cancel_timer(ACKS)
        self._forget_asking()

    def installed(self) -> None:
        """The group has begun, or we are in: nothing is left to look for."""
        if not self.is_installed:
            self.is_installed = True
            self._state("running")
            self.stop()

    def should_form(self) -> bool:
        """Whether the group begins: all are here, or it has been looked for the others long enough, longer if they are about."""
        if not self._form:
            return False
        if set(self._form) <= set(self._ring.ring):
            return True
        now = self._host.now
        if self.looks_elsewhere:
            return False  # the group is there already, or will be: we ask for a place, until we are refused
        return now >= (self._latest if self._heard_at > now - 3 * self._knock_every else self._until)

    @property
    def _latest(self) -> int:
        """When a process has looked for the group for long enough, whatever it has heard."""
        return self._until + (PATIENCE * int(self._ring.parameters.gather) if self._form else 0)

    def expire(self, timer: Timer) -> None:
        if timer == KNOCK:
            self._knock()
        elif timer == ACKS:
            self._fail("not every member has acknowledged within a rotation")

    def _knock(self) -> None:
        if self.is_installed:
            return
        ring = self._ring
        if (self.is_outside or self.looks_elsewhere) and not self._asked and self._host.now >= self._latest:
            self.stop()
            ring.abandon()
            text = self._why or f"no member of {self._group} has answered"
            self._host.refused(self._group, Reason("nobody", f"{self._host.me} was not let into {self._group}: {text}"))
            return
        away = tuple(process for process in self._contacts if process not in ring.ring or self.is_outside)
        if self.is_outside and not self._form:
            # One contact after the other: members pass it on, and each knock is in the way of a turn.
            self._knocks += 1
            away = away[self._knocks % len(away) :][:1] if away else ()
        if not self._asked:
            self._host.send(away, Knock(self._group, ring.name))
        every = self._knock_every
        self._host.set_timer(KNOCK, self._host.now + every // 2 + self._host.random.randrange(every))

    def knocked(self, source: ProcessId, knock: Knock) -> None:
        """Somebody looks for the group."""
        ring = self._ring
        if self.is_outside or source in ring.ring or (knock.ring == ring.name and knock.ring):
            return
        self._heard_at = self._host.now
        if ring.will_form or not knock.ring or ring.name < knock.ring:
            self._note_knocker(source)
            if source in self._knockers:
                self._to_mention[source] = None
            return
        self._hears_better(0)
        if len(ring.ring) > 1:
            self._give_up_ring(knock.ring)

    def _hears_better(self, rotation: int) -> None:
        """A ring is there that is to stay rather than ours. It answers knocks once in a rotation."""
        self._better_until = max(self._better_until, self._host.now + 3 * self._knock_every + self._patience(2 * rotation))

    def _note_knocker(self, process: ProcessId) -> None:
        if process in self._knockers or len(self._knockers) < KNOCKERS:
            self._knockers[process] = self._host.now

    def let_in(self, ring: tuple[ProcessId, ...]) -> None:
        """These are members: should one of them die soon, it does not count as being at the door."""
        for process in ring:
            self._knockers.pop(process, None)
            self._to_mention.pop(process, None)

    def mentions(self) -> tuple[ProcessId, ...]:
        """For our heartbeat: processes that have knocked at us since our last turn, as many as it has room for."""
        names = tuple(process for process in self._to_mention if process not in self._ring.ring)[:MENTIONED]
        self._to_mention = {process: None for process in self._to_mention if process not in names}
        return names

    def mentioned(self, processes: tuple[ProcessId, ...]) -> None:
        """A member's heartbeat mentions processes at the door."""
        for process in processes[:MENTIONED]:
            if process not in self._ring.ring:
                self._note_knocker(process)

    def invited(self) -> tuple[ProcessId, ...]:
        """Those that a heartbeat with the slot bit goes to, the ones that have waited longest first."""
        knockers = self.knockers()
        return tuple(process for process in self._knockers if process in knockers)[:JOINERS]

    def knockers(self) -> tuple[ProcessId, ...]:
        """Processes that have knocked lately and are not in."""
        if self.looks_elsewhere:
            return ()
        # A process that has knocked counts as being at the door until the slot comes round.
        since = self._host.now - max(3 * self._knock_every, 3 * self._joiners_knock_every, 2 * self._ring.rotation)
        self._knockers = {name: at for name, at in self._knockers.items() if at >= since and name not in self._ring.ring}
        return tuple(sorted(self._knockers))

    def _give_up_ring(self, other: ProcessId) -> None:
        """A ring that is to stay has been heard of: we leave ours and ask for a place there."""
        self._state("gathering" if self._form else "joining", gives_up=self._ring.name, found=other)
        self._not_before = self._host.now + 2 * self._ring.interface.hold_back
        self._begin_again()

    def _begin_again(self) -> None:
        """Those who form the group begin with a ring of their own; who joins one has none."""
        if self._form:
            self._found()
        else:
            self._ring.abandon()

    def hears_ring(self, source: ProcessId, beat: Beat) -> None:
        """A heartbeat of a ring that we are not on."""
        if beat.ring == self._asked:
            known = self._beats.get(source)
            if len(self._beats) < MOST_KEPT and (known is None or known[0].visit < beat.visit):
                self._beats[source] = beat, self._host.now
            if self._host.me in beat.voting and not self._acks:
                self._host.set_timer(ACKS, self._host.now + self._patience(3 * beat.rotation))
            return
        ring = self._ring
        if self.is_installed or not beat.slot or self._asked:
            return
        if not self.is_outside:
            if ring.will_form or not (beat.formed or beat.ring < ring.name):
                return
            self._hears_better(beat.rotation)  # also while we wait to ask it again, or we would form a group of our own
        if self._host.now < self._not_before:
            return
        if not self.is_outside and len(ring.ring) > 1:
            self._give_up_ring(beat.ring)
            return
        if self._host.me == beat.next:
            return
        if not ring.fresh(source, beat.at, "Beat"):
            self._why = "its clock is off, or packets take longer than d_max"
            return
        self._forget_asking()
        self._asked, self._asked_rotation = beat.ring, beat.rotation
        self._host.record("request", self._group, to=beat.next, ring=beat.ring)
        hold = self._offered or ring.interface.hold(self._host.me)
        self._host.send((beat.next,), Request(self._group, beat.ring, hold))
        self._host.set_timer(ACKS, self._host.now + self._patience(3 * beat.rotation))

    def _patience(self, rotations: int) -> int:
        return max(0, min(rotations, LONGEST_WAIT * int(self._ring.parameters.gather)))

    def keeps(self, source: ProcessId, data: Data) -> bool:
        """Keeps a packet of the ring that we have asked for a place, for when we are in."""
        if not self._asked or data.ring != self._asked or data.ring == self._ring.name:
            return False
        has_room = len(self._kept) < MOST_KEPT and self._kept_bytes < KEPT_BYTES
        if has_room and self._ring.fresh(source, data.at, "Data"):
            self._kept_bytes += len(data.batch.body) if data.batch is not None else 0
            self._kept.append((source, data, self._host.now))
            if isinstance(data.word, Change) and self._acks:
                self._try(next(iter(self._acks.values())))
        return True

    def refused(self, packet: Refuse) -> None:
        if packet.ring == self._asked:
            # An offer is good for one request: P may be larger, or given back, when we ask again.
            least = max(1, int(self._ring.parameters.least_hold))
            wanted = self._ring.interface.hold(self._host.me)
            self._offered = packet.hold if least <= packet.hold < wanted and not self._offered else 0
            self._fail(packet.text)

    def _fail(self, why: str) -> None:
        """We are not let in this time: a random number of rotations is waited for before the next."""
        if not self._asked:
            return
        self._why = why
        rounds = 1 + self._host.random.randrange(self._ring.parameters.backoff)
        self._not_before = self._host.now + self._patience(rounds * self._asked_rotation)
        self._hears_better(self._asked_rotation)
        self._host.record("reject", self._group, join=True, why=why, rounds=rounds)
        self._forget_asking()
        self._host.cancel_timer(ACKS)

    def _forget_asking(self) -> None:
        self._asked = ""
        self._acks, self._parts, self._kept, self._beats, self._kept_bytes = {}, {}, [], {}, 0

    def acknowledged(self, source: ProcessId, ack: JoinAck) -> None:
        if ack.ring != self._asked or self._host.me not in ack.joined or source not in ack.members or not is_sound(ack):
            return
        newest = max((known.number for known in self._acks.values()), default=-1)
        if ack.number < newest:
            return  # for a change that let us in before, and came to nothing
        if ack.number > newest:
            self._acks = {}
            self._first_ack_at = self._host.now
            self._host.set_timer(ACKS, self._host.now + self._patience(ack.rotation))
        self._acks[source] = ack
        self._try(ack)

    def told(self, source: ProcessId, part: Partial) -> None:
        """The sponsor tells us of messages that are partly there."""
        if part.ring == self._asked and len(self._parts) < MOST_KEPT and self._kept_bytes < KEPT_BYTES:
            self._parts[source, part.number, part.index] = part
            self._kept_bytes += len(part.body)
            if self._acks:
                self._try(next(iter(self._acks.values())))

    def _try(self, ack: JoinAck) -> None:
        partial = self._partial(ack.holder, ack.number)
        if self._enough(ack) and (crc32(partial) == ack.digest):
            self._enter(ack, partial)

    def _partial(self, sponsor: ProcessId, number: int) -> bytes:
        told = [part for (source, _, _), part in self._parts.items() if source == sponsor and part.number == number]
        return b"".join(part.body for part in sorted(told, key=lambda part: part.index))

    def _enough(self, ack: JoinAck) -> bool:
        """Whether every member of the view has acknowledged, and all the same; but for those that have been eliminated since."""
        later = [change for change in self._changes() if change.number > ack.number]
        gone = {process for change in later for process in ack.members if process not in change.ring}
        expected = [process for process in ack.members if process not in ack.joined and process not in gone]
        if any(process not in self._acks for process in expected):
            return False
        if not any(process in self._acks for process in self._contacts):
            return False  # nobody whom we know: strangers may call themselves a ring
        if len(set(self._acks.values())) != 1:
            self._fail("members acknowledge different views")
            return False
        return True

    def _changes(self) -> list[Change]:
        """The changes of that ring that we have heard of."""
        changes = [data.word for _, data, _ in self._kept if isinstance(data.word, Change)]
        return changes + [beat.change for beat, _ in self._beats.values() if beat.change is not None]

    def _enter(self, ack: JoinAck, partial: bytes) -> None:
        ring = self._ring
        kept, beats = self._kept, self._beats
        if any(change.number > ack.number and self._host.me not in change.ring for change in self._changes()):
            self._fail("the others have not waited for the acknowledgements")
            return
        self._host.cancel_timer(ACKS)
        self._forget_asking()
        self._better_until = 0  # this is the ring that was to stay
        ring.advisor.adopt(partial)
        ring.enter(ack, min([self._first_ack_at, *(came for _, data, came in kept if data.visit == ack.visit)]))
        if ack.formed:
            self.installed()
            self._host.install(View(self._group, ack.number, ack.members, ack.joined, rank=ack.rank))
            ring.ready(self._group)
        for source, data, came in kept:
            ring.replay(source, data, came)
        for source, (beat, came) in sorted(beats.items(), key=lambda item: item[1][0].visit):
            ring.replay_beat(source, beat, came)

    def again(self, code: str) -> None:
        """We have dropped out before the application had a view: it was not meant to be, so we try again. Not before all that we
        have said on that ring has died out: there our numbers begin again."""
        self._why = code
        self._not_before = self._host.now + 2 * self._ring.interface.hold_back
        self._state("gathering" if self._form else "joining", after=code)
        self._begin_again()
        self._knock_soon()


def is_sound(ack: JoinAck) -> bool:
    """Whether an acknowledgement describes a ring that can be."""
    members = set(ack.members)
    fits = len(members) == len(ack.members) == len(ack.holds) and ack.holder in members and set(ack.joined) <= members
    return fits and {process for process, _ in ack.seqs} == members and all(hold >= 0 for hold in ack.holds)
