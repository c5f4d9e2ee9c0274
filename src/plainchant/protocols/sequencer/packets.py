"""The sequencer's packets: those of the paper's table (2.1), then what views, elections and joining need.

The *epoch* is the number of the election that made a sequencer; a packet of a superseded epoch changes nothing (fencing). An
acknowledgement is *the last number received without a gap* (the paper uses its variable in two senses, see docs/errata.md).
``behind`` beside it counts the numbers received since the application has had no room (see :mod:`.room`)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from ...core.model import Batch, GroupId, Number, Packet, ProcessId

Epoch: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=1 << 40)]  # phases, numbered within an epoch, fit into 64 bits
# A part of a history: (epoch, last number before it, its sequencer). Two epochs may bear one number (see election).
Stage: TypeAlias = tuple[Number, Number, ProcessId]


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


class OfEpoch(Packet, frozen=True, array_like=True, gc=False):
    """Base of packets that belong to an epoch of a group."""

    group: GroupId
    epoch: Epoch


class Request(OfEpoch, frozen=True, array_like=True, gc=False, tag=1):
    """DATA: a member asks for its batch to be broadcast. ``request`` numbers the sender's batches 1, 2, 3, ..."""

    request: Number
    ack: Number
    batch: Batch
    behind: Number = 0


class Broadcast(OfEpoch, frozen=True, array_like=True, gc=False, tag=2):
    """BROADCAST, and the answer to RETRANS: an entry with its number. ``stable``: every member has everything up to here.
    ``allowed``: delivery is permitted up to here (views wait for a majority, messages for ``resilience`` members)."""

    number: Number
    stable: Number
    allowed: Number
    entry: Entry


class Nack(OfEpoch, frozen=True, array_like=True, gc=False, tag=3):
    """RETRANS: numbers ``first`` to ``last`` are missing here, and those of the gaps after them (``further``)."""

    first: Number
    last: Number
    ack: Number
    behind: Number = 0
    further: tuple[tuple[Number, Number], ...] = ()


class Ack(OfEpoch, frozen=True, array_like=True, gc=False, tag=4):
    """The dummy message of a quiet member."""

    ack: Number
    behind: Number = 0


class Announce(OfEpoch, frozen=True, array_like=True, gc=False, tag=5):
    """What the sequencer says when it has nothing to broadcast, and how a new epoch begins. ``base``: the order of earlier epochs
    goes up to here. ``lineage``: those epochs, as far back as a member may need them to see whether its history is a part of this
    one. ``voters`` of the epoch's election: only they may follow it, because only their histories were looked at."""

    base: Number
    lineage: tuple[Stage, ...]
    voters: tuple[ProcessId, ...]
    highest: Number
    stable: Number
    allowed: Number
    phase_over: Number


class Phase1(OfEpoch, frozen=True, array_like=True, gc=False, tag=6):
    """PHASE1: stop sending; get everything up to ``highest``."""

    phase: Number
    highest: Number


class Phase2(OfEpoch, frozen=True, array_like=True, gc=False, tag=7):
    """PHASE2: everybody has everything up to ``stable``; go on."""

    phase: Number
    stable: Number


class AckCommit(OfEpoch, frozen=True, array_like=True, gc=False, tag=8):
    """ACK_COMMIT: step 1 or 2 of that phase is done here."""

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


class Welcome(OfEpoch, frozen=True, array_like=True, gc=False, tag=11):
    """What a joiner needs: the entry that lets it in, and the table of the senders' last requests (else a joiner that is elected
    would number a repeated request again, or wait for the requests before a sender's next for ever)."""

    base: Number
    voters: tuple[ProcessId, ...]
    number: Number
    entry: Entry
    table: tuple[tuple[ProcessId, Number], ...]
    highest: Number
    allowed: Number


class AskLeave(OfEpoch, frozen=True, array_like=True, gc=False, tag=12):
    """A member wants to leave; everything that it sent has been numbered."""

    ack: Number
    behind: Number = 0


class Excluded(Packet, frozen=True, array_like=True, gc=False, tag=13):
    """You are not a member any more since view ``view``, and why."""

    group: GroupId
    view: Number
    code: str
    text: str


class Stale(OfEpoch, frozen=True, array_like=True, gc=False, tag=14):
    """Your epoch is over: there is ``epoch``, and, if known, its sequencer."""

    sequencer: ProcessId


class Invite(OfEpoch, frozen=True, array_like=True, gc=False, tag=15):
    """A member calls an election. ``trial``: would you take part? (It binds no member; ``epoch`` is the number of the trial.)
    ``pace``: how long (ns) the trial took, so that voters wait long enough for the result."""

    trial: bool
    pace: Number = 0


class Promise(OfEpoch, frozen=True, array_like=True, gc=False, tag=16):
    """The answer: I listen to no epoch below this one any more; here is what I hold. Histories are compared by ``synced``, the
    newest epoch whose beginning I hold, and ``contiguous``, the last number that I have without a gap. ``view`` and ``members``:
    the view in force here. ``later``: what is held beyond a gap, numbered in epoch ``followed``. ``pending``: the members of the
    last later view in the history, if there is one."""

    trial: bool
    synced: tuple[Number, ProcessId]
    contiguous: Number
    allowed: Number
    view: Number
    members: tuple[ProcessId, ...]
    followed: tuple[Number, ProcessId]
    later: tuple[Number, ...]
    pending: tuple[ProcessId, ...] = ()


class Refuse(OfEpoch, frozen=True, array_like=True, gc=False, tag=17):
    """The other answer to the invitation to epoch ``asked``: I hear the sequencer (``trial``), or I have promised ``epoch``."""

    asked: Epoch
    trial: bool


class Elected(OfEpoch, frozen=True, array_like=True, gc=False, tag=18):
    """You have the longest history: be the sequencer of this epoch, for these voters. ``why`` says what happened; ``reach``: each
    number up to here is held by a voter; ``allowed``, ``view``: in force at a voter; ``pace``: how long (ns) voters took."""

    voters: tuple[ProcessId, ...]
    allowed: Number
    view: Number
    reach: Number
    why: str
    pace: Number = 0


class Fetch(OfEpoch, frozen=True, array_like=True, gc=False, tag=19):
    """The winner of an election asks the voters who followed the same epoch for what it lacks."""

    followed: tuple[Number, ProcessId]
    first: Number
    last: Number


class Held(OfEpoch, frozen=True, array_like=True, gc=False, tag=20):
    """The answer: an entry that was held here."""

    number: Number
    entry: Entry


class Lacks(OfEpoch, frozen=True, array_like=True, gc=False, tag=21):
    """The other answer to ``Fetch``: the first of these numbers is not held here."""

    number: Number


class Ask(OfEpoch, frozen=True, array_like=True, gc=False, tag=22):
    """The sequencer has not heard you for long: acknowledge something, or it will suspect you."""


PACKETS: tuple[type[Packet], ...] = (
    Request, Broadcast, Nack, Ack, Announce, Phase1, Phase2, AckCommit, AskJoin, Where, Welcome, AskLeave, Excluded, Stale,
    Invite, Promise, Refuse, Elected, Fetch, Held, Lacks, Ask,
)  # fmt: skip
