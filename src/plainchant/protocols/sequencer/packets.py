"""The sequencer's packets: those of the paper's table (2.1), then what views, elections and joining need.

Every packet carries the *epoch*: the number of the election that made its sequencer. A packet of an epoch that has been
superseded changes nothing (fencing). Wherever a packet carries an acknowledgement, it means *the last number received
without a gap*: everything up to and including it (the paper uses its variable in both senses, see docs/errata.md). Beside it
stands ``behind``: so many of the numbers that are here came since the application has had no room (see :mod:`.room`).
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from ...core.model import Batch, GroupId, Number, Packet, ProcessId

Epoch: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=1 << 40)]
"""The number of an election. Phases, which are numbered within it, fit into 64 bits."""
Stage: TypeAlias = tuple[Number, Number, ProcessId]
"""A part of a history: (epoch, last number before it, its sequencer). Two epochs may bear one number (see election)."""


class Change(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A view, as it stands in the order. ``left`` holds (process, reason code, sentence)."""

    number: Number
    members: tuple[ProcessId, ...]
    joined: tuple[ProcessId, ...]
    left: tuple[tuple[ProcessId, str, str], ...]
    phase_over: Number


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one number of the order stands for: a sender's batch, or a view."""

    sender: ProcessId
    request: Number
    batch: Batch | None
    change: Change | None = None


class Request(Packet, frozen=True, array_like=True, gc=False, tag=1):
    """DATA: a member asks for its batch to be broadcast. ``request`` numbers the sender's batches 1, 2, 3, ..."""

    group: GroupId
    epoch: Epoch
    request: Number
    ack: Number
    batch: Batch
    behind: Number = 0


class Broadcast(Packet, frozen=True, array_like=True, gc=False, tag=2):
    """BROADCAST, and the answer to RETRANS: an entry with its number.

    ``stable``: every member has everything up to here. ``allowed``: delivery is permitted up to here (views wait for a
    majority, messages for ``resilience`` members).
    """

    group: GroupId
    epoch: Epoch
    number: Number
    stable: Number
    allowed: Number
    entry: Entry


class Nack(Packet, frozen=True, array_like=True, gc=False, tag=3):
    """RETRANS: numbers ``first`` to ``last`` are missing here, and those of the gaps after them (``further``)."""

    group: GroupId
    epoch: Epoch
    first: Number
    last: Number
    ack: Number
    behind: Number = 0
    further: tuple[tuple[Number, Number], ...] = ()


class Ack(Packet, frozen=True, array_like=True, gc=False, tag=4):
    """The dummy message of a quiet member."""

    group: GroupId
    epoch: Epoch
    ack: Number
    behind: Number = 0


class Announce(Packet, frozen=True, array_like=True, gc=False, tag=5):
    """What the sequencer says when it has nothing to broadcast, and how a new epoch begins.

    ``base``: the order of earlier epochs goes up to here. ``lineage``: those earlier epochs, as far back as
    anybody may need them to see whether its own history is a part of this one. ``voters``: who took part in the
    epoch's election; only they may follow it, because only their histories were looked at.
    """

    group: GroupId
    epoch: Epoch
    base: Number
    lineage: tuple[Stage, ...]
    voters: tuple[ProcessId, ...]
    highest: Number
    stable: Number
    allowed: Number
    phase_over: Number


class Phase1(Packet, frozen=True, array_like=True, gc=False, tag=6):
    """PHASE1: stop sending; get everything up to ``highest``."""

    group: GroupId
    epoch: Epoch
    phase: Number
    highest: Number


class Phase2(Packet, frozen=True, array_like=True, gc=False, tag=7):
    """PHASE2: everybody has everything up to ``stable``; go on."""

    group: GroupId
    epoch: Epoch
    phase: Number
    stable: Number


class AckCommit(Packet, frozen=True, array_like=True, gc=False, tag=8):
    """ACK_COMMIT: step 1 or 2 of that phase is done here."""

    group: GroupId
    epoch: Epoch
    phase: Number
    step: Number
    ack: Number
    behind: Number = 0


class AskJoin(Packet, frozen=True, array_like=True, gc=False, tag=9):
    """A process that is not a member wants to be one."""

    group: GroupId


class Where(Packet, frozen=True, array_like=True, gc=False, tag=10):
    """The answer of a member that is not the sequencer: ask this one."""

    group: GroupId
    sequencer: ProcessId


class Welcome(Packet, frozen=True, array_like=True, gc=False, tag=11):
    """What a joiner needs: the entry that lets it in, and the table of the senders' last requests (else a joiner that is
    elected would number a repeated request again, or wait for the requests before a sender's next for ever)."""

    group: GroupId
    epoch: Epoch
    base: Number
    voters: tuple[ProcessId, ...]
    number: Number
    entry: Entry
    table: tuple[tuple[ProcessId, Number], ...]
    highest: Number
    allowed: Number


class AskLeave(Packet, frozen=True, array_like=True, gc=False, tag=12):
    """A member wants to leave; everything that it sent has been numbered."""

    group: GroupId
    epoch: Epoch
    ack: Number
    behind: Number = 0


class Excluded(Packet, frozen=True, array_like=True, gc=False, tag=13):
    """You are not a member any more since view ``view``, and why."""

    group: GroupId
    view: Number
    code: str
    text: str


class Stale(Packet, frozen=True, array_like=True, gc=False, tag=14):
    """Your epoch is over: there is ``epoch``, and, if known, its sequencer."""

    group: GroupId
    epoch: Epoch
    sequencer: ProcessId


class Invite(Packet, frozen=True, array_like=True, gc=False, tag=15):
    """A member calls an election. ``trial``: would you take part? (No member is bound yet, and ``epoch`` is only the number of
    the trial.) ``pace``: how long (ns) the trial took,
    so that voters wait long enough for the result."""

    group: GroupId
    epoch: Epoch
    trial: bool
    pace: Number = 0


class Promise(Packet, frozen=True, array_like=True, gc=False, tag=16):
    """The answer: I listen to no epoch below this one any more; here is what I hold.

    ``synced``: the newest epoch whose beginning I hold; ``contiguous``: the last number that I have without a gap.
    Histories are compared by (synced, contiguous). ``view`` and ``members``: the view in force here. ``later``: what is held
    beyond a gap, numbered in epoch ``followed``.
    """

    group: GroupId
    epoch: Epoch
    trial: bool
    synced: tuple[Number, ProcessId]
    contiguous: Number
    allowed: Number
    view: Number
    members: tuple[ProcessId, ...]
    followed: tuple[Number, ProcessId]
    later: tuple[Number, ...]


class Refuse(Packet, frozen=True, array_like=True, gc=False, tag=17):
    """The other answer to the invitation to epoch ``asked``: I hear the sequencer (``trial``), or I have promised ``epoch``."""

    group: GroupId
    epoch: Epoch
    asked: Epoch
    trial: bool


class Elected(Packet, frozen=True, array_like=True, gc=False, tag=18):
    """You have the longest history: be the sequencer of this epoch, for these voters. ``why`` says what happened; ``reach``:
    up to here each number is held by some voter; ``allowed`` and ``view``: what is in force at some voter; ``pace``: how long
    (ns) the voters took to answer."""

    group: GroupId
    epoch: Epoch
    voters: tuple[ProcessId, ...]
    allowed: Number
    view: Number
    reach: Number
    why: str
    pace: Number = 0


class Fetch(Packet, frozen=True, array_like=True, gc=False, tag=19):
    """The winner of an election asks the voters who followed the same epoch for what it lacks."""

    group: GroupId
    epoch: Epoch
    followed: tuple[Number, ProcessId]
    first: Number
    last: Number


class Held(Packet, frozen=True, array_like=True, gc=False, tag=20):
    """The answer: an entry that was held here."""

    group: GroupId
    epoch: Epoch
    number: Number
    entry: Entry


class Lacks(Packet, frozen=True, array_like=True, gc=False, tag=21):
    """The other answer to ``Fetch``: the first of these numbers is not held here."""

    group: GroupId
    epoch: Epoch
    number: Number


PACKETS: tuple[type[Packet], ...] = (
    Request,
    Broadcast,
    Nack,
    Ack,
    Announce,
    Phase1,
    Phase2,
    AckCommit,
    AskJoin,
    Where,
    Welcome,
    AskLeave,
    Excluded,
    Stale,
    Invite,
    Promise,
    Refuse,
    Elected,
    Fetch,
    Held,
    Lacks,
)
