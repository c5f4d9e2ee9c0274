"""Newtop's packets.

Numbers in them: ``block`` is the sender's block counter, one for all its groups (4.4), and orders messages; ``flow`` is its
counter in this group alone and serves flow control (ch. 8). ``complete``, ``stable`` and ``delivered`` are flow numbers: up to
where the sender has everything (lcb), knows that everybody has everything (lsb), and has delivered what it has. ``form`` is the
tag of the group's formation that the packet belongs to: 1 for the first, another one after every join and merge, so that what
is left of an earlier one is told apart.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from ...core.model import Batch, GroupId, Number, Packet, ProcessId

Block: TypeAlias = Annotated[int, Meta(ge=-1, le=1 << 38)]  # with a rank's lower bits (``delivery.RANK_BITS``) it fits into 64
ViewNumber: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 40)]
Form: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 33)]  # the tag of a formation
Members: TypeAlias = tuple[ProcessId, ...]
Vector: TypeAlias = tuple[tuple[GroupId, tuple[Block, ...]], ...]
"""Fast (keyed): numbers of a group's members, in the order of its view, for every group that anything depended on. CBCAST the
same, with counts of messages. Fast (compact): a process and one number. Relative: the numbers of the members of the message's
own group under its name, and one number for each other group."""


class Numbered(Packet, frozen=True, array_like=True, gc=False):
    """What all multicasts begin with."""

    group: GroupId
    block: Block
    previous: Block  # of the sender's multicast before it in this group (m.pb); 0 over a FIFO transport
    flow: Number
    complete: Number
    stable: Number
    delivered: Number


class Data(Numbered, frozen=True, array_like=True, gc=False, tag=30):
    """A message. ``floor``: all blocks up to here must be complete and delivered first (where orders of different kinds meet). In
    an asymmetric group the sequencer sends the packet: ``sender`` is whose message it is and ``request`` its number there."""

    batch: Batch
    vector: Vector = ()
    floor: Block = 0
    sender: ProcessId = ""
    request: Number = 0
    form: Form = 1


class Null(Numbered, frozen=True, array_like=True, gc=False, tag=31):
    """A multicast without a message: it completes blocks (4.3), or creates one in a group that has to catch up (4.4)."""

    form: Form = 1


class Suspect(Struct, frozen=True, array_like=True, gc=False, tag=1):
    """The sender has had nothing of these after the block beside each and thinks that they have failed."""

    suspicions: tuple[tuple[ProcessId, Number], ...]


class Refute(Struct, frozen=True, array_like=True, gc=False, tag=2):
    """There is more of ``process`` than ``last``: up to ``up_to``, which is sent along (``Again``)."""

    process: ProcessId
    last: Number
    up_to: Number


class Confirmed(Struct, frozen=True, array_like=True, gc=False, tag=3):
    """These, with the last block of each, have failed together: everybody who is not among them has suspected them all."""

    detection: tuple[tuple[ProcessId, Number], ...]


class Remove(Struct, frozen=True, array_like=True, gc=False, tag=4):
    """All who have failed or left and are in the view still. Its delivery installs the view without them."""

    failed: tuple[ProcessId, ...]


class Bye(Struct, frozen=True, array_like=True, gc=False, tag=5):
    """The sender's last message: it leaves. ``held_up``: its application did not read, and senders waited this long (ns)."""

    held_up: Number = 0


class Plan(Struct, frozen=True, array_like=True, gc=False):
    """A formation to come: its tag, the number of its first view, who is in it, and the parts that come together in it, those
    with something to bring first; ``newcomers`` have asked to join; ``lost`` are members of former times who may live. ``name``
    is the group's name in it; empty: the group is closed. ``patience``: how long (ns) members wait for each other at first, from
    what the parts have seen so far."""

    form: Form
    name: GroupId
    number: ViewNumber
    members: tuple[ProcessId, ...]
    parts: tuple[Members, ...] = ()
    newcomers: tuple[ProcessId, ...] = ()
    lost: tuple[ProcessId, ...] = ()
    patience: Number = 0


class Move(Struct, frozen=True, array_like=True, gc=False, tag=6):
    """The group goes over into another formation. The first one that is delivered counts."""

    plan: Plan


class Close(Struct, frozen=True, array_like=True, gc=False, tag=7):
    """The sender's last message in this formation, but for null ones: it goes over to formation ``plan``."""

    plan: Number


class Opening(Struct, frozen=True, array_like=True, gc=False, tag=8):
    """The sender's first message in a formation; it begins with the sender's block counter."""

    plan: Plan


Say: TypeAlias = Suspect | Refute | Confirmed | Remove | Bye | Move | Close | Opening
ORDERED: Final = (Remove, Move, Close)  # delivered in their places among the messages; other words are heard in sequence


class Word(Numbered, frozen=True, array_like=True, gc=False, tag=37):
    """A null message with something to say to the other members' group views."""

    say: Say
    form: Form = 1


class Beacon(Packet, frozen=True, array_like=True, gc=False, tag=38):
    """A part of the group shows itself to those who were lost; its leader is the first of ``members``."""

    group: GroupId
    number: ViewNumber
    members: tuple[ProcessId, ...]


class Call(Packet, frozen=True, array_like=True, gc=False, tag=39):
    """A part's leader asks another's to come together, or a process to form a group with ``invited``; it waits ``wait`` (ns)."""

    group: GroupId
    attempt: Number
    invited: tuple[ProcessId, ...] = ()
    wait: Number = 0


class Answer(Packet, frozen=True, array_like=True, gc=False, tag=40):
    """Whether a call is followed; ``number`` is larger than that of any view that the part can have until then."""

    group: GroupId
    attempt: Number
    agrees: bool
    number: ViewNumber = 0
    members: tuple[ProcessId, ...] = ()
    text: str = ""
    patience: Number = 0  # how long (ns) members of that part wait for each other


class Abandon(Packet, frozen=True, array_like=True, gc=False, tag=43):
    """To a leader who has followed a call: there will be no plan."""

    group: GroupId
    attempt: Number


class Convene(Packet, frozen=True, array_like=True, gc=False, tag=41):
    """To a leader who has followed a call: this is the plan; have your part move."""

    group: GroupId
    attempt: Number
    plan: Plan


class AskJoin(Packet, frozen=True, array_like=True, gc=False, tag=42):
    """``process`` wants to be let in. Passed on to the leader."""

    group: GroupId
    process: ProcessId


class Status(Packet, frozen=True, array_like=True, gc=False, tag=32):
    """Where its sender stands; it takes no block number. ``block``: of its last message in the group, all of which are older.
    ``wanted``: tell me when you have delivered everything up to this flow number (0: not wanted; -1: tell me where you stand,
    unless you are about to). ``have``: of you I have everything up to this block; tell me where you stand (-1: not said)."""

    group: GroupId
    block: Block
    flow: Number
    complete: Number
    stable: Number
    delivered: Number
    wanted: Number = 0
    have: Number = -1
    form: Form = 1


class Ask(Packet, frozen=True, array_like=True, gc=False, tag=33):
    """Blocks of ``source`` after ``after`` and up to ``last`` are missing here (3.7)."""

    group: GroupId
    source: ProcessId
    after: Number
    last: Number
    form: Form = 1


class Again(Packet, frozen=True, array_like=True, gc=False, tag=34):
    """The answer to Ask: what ``source`` sent, from it or from anybody who still has it."""

    group: GroupId
    source: ProcessId
    packet: Data | Null | Word
    form: Form = 1


class Request(Packet, frozen=True, array_like=True, gc=False, tag=35):
    """Asymmetric group: a member's message to its sequencer, to be numbered above ``block``. ``request`` counts 1, 2, 3, ..."""

    group: GroupId
    request: Number
    block: Block
    delivered: Number
    batch: Batch
    form: Form = 1


class Emit(Packet, frozen=True, array_like=True, gc=False, tag=36):
    """Asymmetric group: the sequencer is idle, and a member needs block ``block`` to be complete."""

    group: GroupId
    block: Block
    form: Form = 1


FORMING: Final = (Beacon, Call, Answer, Convene, AskJoin, Abandon)  # packets between formations, which belong to none
PACKETS: tuple[type[Packet], ...] = (Data, Null, Status, Ask, Again, Request, Emit, Word, *FORMING)


def weight(packet: Packet) -> int:
    """About how many bytes a packet takes in memory.

    >>> weight(Emit("g", 7))
    100
    """
    inside = packet.packet if isinstance(packet, Again) else packet
    return 100 + (len(inside.batch.body) if isinstance(inside, Data | Request) else 0)
