"""RTCast's packets (Fig. 9, and what it leaves out).

Every turn on the ring has a number, its *visit*: one more than that of the turn before. ``seq`` is the sender's own number of a
data packet, from 0 to ``numbers`` - 1 and then again (footnote 1). ``ring`` names the ring by who founded it, so that what is
left of one that was given up is told apart; ``number`` is that of the ring's last change that the sender knew. ``at`` is when the
packet leaves, on the sender's clock, plus what that clock may be off: 0 if it does not know.

Only :class:`Data` is ordered and atomic. All others are unreliable messages (6.2): a lost one is repeated, or nobody misses it.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from ...core.model import Batch, GroupId, Number, Packet, ProcessId

Numbers: TypeAlias = tuple[tuple[ProcessId, Number], ...]  # A sequence number for each of some processes


class _Word(Struct, frozen=True, array_like=True, gc=False):
    """What ordered packets say to the protocol itself."""


class _OfRing(Packet, frozen=True, array_like=True, gc=False):
    group: GroupId
    ring: ProcessId


class Change(_Word, frozen=True, tag=1):
    """The ring from here on. ``out``: eliminated members, each with its last number; ``after``: the last visit heard of before
    this one; with an empty ``out`` nothing lies between. ``formed``: the group begins, or has begun."""

    number: Number
    ring: tuple[ProcessId, ...]
    holds: tuple[Number, ...]
    rotation: Number
    formed: bool
    out: Numbers = ()
    after: Number = 0
    joined: tuple[ProcessId, ...] = ()
    left: ProcessId = ""
    left_at: Number = 0  # The number of the packet by which ``left`` left
    by: ProcessId = ""  # Who makes it: after a failure two members may make changes of the same number


class Query(_Word, frozen=True, tag=2):
    """Can everybody still keep its guarantees if P becomes this? (4.4)"""

    attempt: Number
    rotation: Number
    joiners: tuple[ProcessId, ...]


class Decided(_Word, frozen=True, tag=3):
    """The query of the sender is over, and P stays what it is."""

    attempt: Number


class Reclaim(_Word, frozen=True, tag=4):
    """P is this from here on: what members that have gone had of it is given back (4.5)."""

    rotation: Number


Word: TypeAlias = Change | Query | Decided | Reclaim


class Data(_OfRing, frozen=True, tag=50):
    """One numbered packet of a turn: messages, a word, or neither (a dummy). ``last``: the turn's last one."""

    number: Number
    visit: Number
    sender: ProcessId
    seq: Number
    last: bool
    at: Number
    batch: Batch | None = None
    word: Word | None = None
    by: ProcessId = ""  # Who made the change ``number``

    @property
    def identity(self) -> tuple[ProcessId, ProcessId, int, int]:
        """What it carries, whoever sends it again."""
        return self.ring, self.sender, self.visit, self.seq


Ask: TypeAlias = tuple[ProcessId, Number, Number]  # A sender, its first and last missing number; -1: all that it has sent since
Asked: TypeAlias = tuple[ProcessId, Number, ProcessId, Number, Number]  # The same with who asks, and in which of its turns


class Beat(_OfRing, frozen=True, tag=51):
    """The heartbeat that ends a turn, and the token for ``next``. ``seq`` is the number of the turn's last data packet; ``slot``:
    before the next turn is time to ask to join; ``asks``: packets that the sender misses, and that others do who had their turn
    before; ``got``: how far it has the order; ``rotation``: P."""

    number: Number
    visit: Number
    seq: Number
    next: ProcessId
    slot: bool
    at: Number
    formed: bool
    rotation: Number
    asks: tuple[Asked, ...] = ()
    got: Number = 0
    change: Change | None = None  # The last one, until all are heard to know it: the token's holder has to know whose is the next
    by: ProcessId = ""  # Who made the change ``number``
    voting: tuple[ProcessId, ...] = ()  # Those who have asked to join and on whom a vote is under way: they wait
    mentioned: tuple[ProcessId, ...] = ()  # Processes that knocked at the sender: the ring's last member has to hear of them


class Where(_OfRing, frozen=True, tag=52):
    """The token has not come: which member has heard of a turn after ``visit``, or of a change after ``number``? ``silent`` are
    the members that the sender would eliminate. With ``whole`` the answer is to have the heartbeat and the change."""

    visit: Number
    number: Number
    silent: tuple[ProcessId, ...] = ()
    whole: bool = False


class Here(_OfRing, frozen=True, tag=53):
    """Answers :class:`Where`: the last turn heard of, which member had it, how long ago (ns) and whether its heartbeat was heard;
    the highest number heard of each of the silent members; the number of the ring's last change. The whole answer has the
    heartbeat and the change themselves: every member answers, so an answer is short unless the asker wants more of it."""

    asked: Number
    visit: Number
    holder: ProcessId
    ago: Number
    highest: Numbers
    number: Number = 0
    ended: bool = False
    beat: Beat | None = None
    change: Change | None = None


class Knock(_OfRing, frozen=True, tag=54):
    """The sender wants to be in the group. ``ring`` is its ring meanwhile (those that form a group begin alone); empty: it is in
    none. A member that hears it mentions the sender in its next heartbeat, so that the last member of the ring opens the slot. A
    knock comes in no turn, so the one of a joiner has no name in it: its size has a limit, however long names are."""


class Request(_OfRing, frozen=True, tag=55):
    """In the join slot: the sender asks for a place on the ring, with this T (T_new of 4.4)."""

    hold: Number


class Refuse(_OfRing, frozen=True, tag=56):
    """The sender of a request cannot be let in, and why. ``hold`` is a T with which it could be, without a vote; 0: none."""

    text: str
    hold: Number = 0


class Vote(_OfRing, frozen=True, tag=57):
    """An answer to a :class:`Query`."""

    attempt: Number
    agrees: bool


class JoinAck(_OfRing, frozen=True, tag=58):
    """What a joiner has to know, as it is right after the change that lets it in; the same from every member. ``seqs`` is the
    sequence vector; ``visit``, ``holder`` and ``complete`` say whose turn it is; ``digest`` is that of the messages that are
    partly there (:class:`Partial`), 0 if there are none."""

    number: Number
    members: tuple[ProcessId, ...]
    holds: tuple[Number, ...]
    joined: tuple[ProcessId, ...]
    rotation: Number
    formed: bool
    visit: Number
    holder: ProcessId
    complete: bool
    seqs: Numbers
    rank: Number
    digest: Number


class Partial(_OfRing, frozen=True, tag=59):
    """From the sponsor, for who joins by change ``number``: a part of what is partly there."""

    number: Number
    index: Number
    count: Number
    body: bytes


PACKETS: Final = (Data, Beat, Where, Here, Knock, Request, Refuse, Vote, JoinAck, Partial)
