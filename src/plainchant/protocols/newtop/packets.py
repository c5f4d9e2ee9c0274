"""Newtop's packets.

Numbers in them: ``block`` is the sender's block counter, one for all its groups (4.4), and orders messages; ``flow`` is its
counter in this group alone and serves flow control (ch. 8). ``complete``, ``stable`` and ``delivered`` are flow numbers: up to
where the sender has everything (lcb), knows that everybody has everything (lsb), and has delivered what it has.
"""

from __future__ import annotations

from typing import TypeAlias

from ...model import Batch, GroupId, Packet, ProcessId

Vector: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""Fast (keyed): numbers of a group's members, in the order of its view, for every group that anything depended on. CBCAST the
same, with counts of messages. Fast (compact): a process and one number. Relative: the numbers of the members of the message's
own group under its name, and one number for each other group."""


class Data(Packet, frozen=True, array_like=True, gc=False, tag=30):
    """A multicast. ``previous`` is the block of the sender's message before it in this group (m.pb); 0 over a FIFO transport.

    ``floor``: all blocks up to here must be complete and delivered first (where orders of different kinds meet). In an
    asymmetric group the packet comes from the sequencer, ``sender`` is whose message it is and ``request`` its number there.
    """

    group: GroupId
    block: int
    previous: int
    flow: int
    complete: int
    stable: int
    delivered: int
    batch: Batch
    vector: Vector = ()
    floor: int = 0
    sender: ProcessId = ""
    request: int = 0


class Null(Packet, frozen=True, array_like=True, gc=False, tag=31):
    """A multicast without a message: it completes blocks (4.3), or creates one in a group that has to catch up (4.4)."""

    group: GroupId
    block: int
    previous: int
    flow: int
    complete: int
    stable: int
    delivered: int


class Status(Packet, frozen=True, array_like=True, gc=False, tag=32):
    """Where its sender stands; it takes no block number. ``block``: of its last message in the group, all of which are older.

    ``wanted``: tell me when you have delivered everything up to this flow number (0: not wanted; -1: tell me where you
    stand, unless you are about to). ``have``: of you I have
    everything up to this block; tell me where you stand (-1: not said).
    """

    group: GroupId
    block: int
    flow: int
    complete: int
    stable: int
    delivered: int
    wanted: int = 0
    have: int = -1


class Ask(Packet, frozen=True, array_like=True, gc=False, tag=33):
    """Blocks of ``source`` after ``after`` and up to ``last`` are missing here (3.7)."""

    group: GroupId
    source: ProcessId
    after: int
    last: int


class Again(Packet, frozen=True, array_like=True, gc=False, tag=34):
    """The answer to Ask: what ``source`` sent, from it or from anybody who still has it."""

    group: GroupId
    source: ProcessId
    packet: Data | Null


class Request(Packet, frozen=True, array_like=True, gc=False, tag=35):
    """Asymmetric group: a member's message to its sequencer, to be numbered above ``block``. ``request`` counts 1, 2, 3, ..."""

    group: GroupId
    request: int
    block: int
    delivered: int
    batch: Batch


class Emit(Packet, frozen=True, array_like=True, gc=False, tag=36):
    """Asymmetric group: the sequencer is idle, and a member needs block ``block`` to be complete."""

    group: GroupId
    block: int


PACKETS: tuple[type[Packet], ...] = (Data, Null, Status, Ask, Again, Request, Emit)
