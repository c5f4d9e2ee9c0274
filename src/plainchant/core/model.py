"""The vocabulary that every floor of plainchant shares.

Names here mean one thing everywhere: a *process* is a member's running instance, a *group* is what it joins, a *view*
is who is in the group from a point of its order on, a *message* is the application's, a *packet* is ours. Nothing in
this module does anything; it imports nothing of ours, and everything of ours may import it.

Start with :class:`Batch` (what protocols carry), :class:`View`, :class:`Reason`, and :func:`parameter` (how a protocol or
a scenario declares a setting once, for validation, help, files and docs alike).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, NewType, TypeAlias

import msgspec

LONGEST_NAME: Final = 120  # characters of a name in a packet, of a process or a group, with what protocols add to it
ProcessId: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
"""Where things happen. A restarted process is a new one: ``p3``, then ``p3#1``, ``p3#2``."""
GroupId: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
MOST: Final = 1 << 62
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=-MOST, le=MOST)]
"""An integer in a packet. Decoding refuses what is out of range, so that sums of them fit into 64 bits, as trace columns have."""
Nanoseconds: TypeAlias = Number
Timer: TypeAlias = str | tuple[Any, ...]  # an engine names its timers; a layer's timers carry the layer's name

Duration = NewType("Duration", int)
"""A length of time in nanoseconds; at the edges it is written ``"50ms"``. The type marks parameters of that kind."""

TRACE_VERSION: Final = 1
"""Version of the trace format. Hosts write it into the ``detail`` of ``start`` rows, writers into the metadata of files."""

US: Final = 1_000
MS: Final = 1_000_000
SECOND: Final = 1_000_000_000


# --- errors ---------------------------------------------------------------------------------------------------------


class PlainchantError(Exception):
    """Root of everything we raise on purpose. The text says what is wrong *and* what to do."""


class UsageError(PlainchantError):
    """The caller asked for something that cannot be: a wrong name, a value out of range."""


class ScenarioError(UsageError):
    """A scenario file is wrong; the text names the file and, where known, the line."""


class WireError(PlainchantError):
    """Bytes that are not a packet of ours: truncated, corrupted, of another version or protocol."""


class TraceError(PlainchantError):
    """A trace cannot be read or written."""


class ProtocolError(PlainchantError):
    """An engine or a host broke the contract between them. Always a defect of ours."""


# --- what travels ---------------------------------------------------------------------------------------------------


class Packet(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of everything that engines send to each other: frozen, typed, small. A subclass sets its wire tag with ``class
    Ack(Packet, frozen=True, array_like=True, gc=False, tag=3)``. Packets of a protocol that is written for one group have the
    group as their first field, by which they find their instance."""


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a protocol numbers, orders, acknowledges and stores: consecutive messages of one sender, packed.

    ``first`` is the number of its first message among those of its sender and group; ``count`` messages end in it.
    ``body`` is opaque to protocols (see :func:`pack`): a sequencer that passes it on never looks inside, because a call
    a message is what Python cannot afford. With ``total`` > 0 the batch is a fragment: ``body`` is the part at
    ``offset`` of message ``first``, which has ``total`` bytes; only its last fragment has count 1.
    """

    first: Annotated[int, msgspec.Meta(ge=0, le=MOST)]
    count: Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
    body: bytes
    offset: Annotated[int, msgspec.Meta(ge=0, le=MOST)] = 0
    total: Annotated[int, msgspec.Meta(ge=0, le=MOST)] = 0


_encode_list = msgspec.msgpack.Encoder().encode
_decode_list = msgspec.msgpack.Decoder(list[bytes]).decode

PACK_OVERHEAD: Final = 5  # bytes that packing adds to a message at most (and once to a batch)


def pack(first: int, payloads: Sequence[bytes]) -> Batch:
    """Packs messages into a batch; one message alone travels as it is.

    >>> unpack(pack(7, [b"a", b"bc"]))
    [b'a', b'bc']
    """
    if len(payloads) == 1:
        return Batch(first, 1, payloads[0])
    return Batch(first, len(payloads), _encode_list(payloads))


def unpack(batch: Batch) -> list[bytes]:
    """The payloads of a batch that is not a fragment, in order."""
    if batch.count == 1:
        return [batch.body]
    try:
        payloads = _decode_list(batch.body)
    except msgspec.MsgspecError as error:
        raise WireError(f"a batch of {batch.count} messages cannot be read ({error}); its sender is defective") from error
    if len(payloads) != batch.count:
        raise WireError(f"a batch says {batch.count} messages and holds {len(payloads)}; its sender is defective")
    return payloads


# --- what is reported -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """Why something happened, for a person: a stable ``code``, one sentence, and the evidence. Every transition that a person may
    ask about carries one: which process suspected another and why, why a send blocks, what a delivery waits for."""

    code: str
    text: str
    evidence: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return self.text

    def to_detail(self) -> dict[str, Any]:
        return {"reason": self.code, "text": self.text} | ({"evidence": dict(self.evidence)} if self.evidence else {})


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """Who is in a group, from a point of its order on. ``number`` is the group's, not the process's."""

    group: GroupId
    number: int
    members: tuple[ProcessId, ...]
    joined: tuple[ProcessId, ...] = ()
    left: Mapping[ProcessId, Reason] = dataclasses.field(default_factory=dict)
    rank: int | None = None  # the view's place in the group's order, where the protocol has one
    parts: tuple[tuple[ProcessId, ...], ...] = ()
    """The parts of the group that merged in this view, the same at all members; empty: nothing merged. A process that asked to
    join is a part of its own, after the others."""
    newcomers: tuple[ProcessId, ...] = ()
    """Where ``parts`` came together: those in it that asked to join (:class:`Join`) and were in no part before."""
    signatures: Mapping[ProcessId, int] = dataclasses.field(default_factory=dict)
    """What distinguishes concurrent views with the same members, where the protocol has it."""

    @property
    def is_merge(self) -> bool:
        """Whether parts that went on without each other are one group again: their applications may have to reconcile.

        >>> View("g", 7, ("a", "b", "c"), parts=(("a", "b"), ("c",))).is_merge
        True
        >>> View("g", 7, ("a", "b", "c"), parts=(("a", "b"), ("c",)), newcomers=("c",)).is_merge
        False
        """
        return len([part for part in self.parts if part[0] not in self.newcomers]) > 1

    def to_detail(self) -> dict[str, Any]:
        """What a trace's ``view`` row says beside number and members."""
        detail: dict[str, Any] = {
            "joined": list(self.joined),
            "left": {name: reason.to_detail() for name, reason in self.left.items()},
            "parts": [list(part) for part in self.parts],
            "newcomers": list(self.newcomers),
            "signatures": dict(self.signatures),
        }
        return {key: value for key, value in detail.items() if value}

    def part_of(self, process: ProcessId) -> tuple[ProcessId, ...]:
        """The part that a member came from; if nothing came together, all members.

        >>> View("g", 7, ("a", "b", "c"), parts=(("a", "b"), ("c",))).part_of("b")
        ('a', 'b')
        """
        if process not in self.members:
            raise UsageError(f"{process!r} is not in view {self.number} of {self.group}; its members: {', '.join(self.members)}")
        return next((part for part in self.parts if process in part), self.members)


BOTH: Final = "both"
SENDS: Final = "sends"
RECEIVES: Final = "receives"
ROLES: Final = (BOTH, SENDS, RECEIVES)
"""What a process may do in a group, chosen when it joins: send and receive, only send, only receive. A process that only sends
sees the views of the others, and is in none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """How to join: all these processes start the group together, in this order. ``fresh``: no process has sent anything in any
    group yet. Otherwise a protocol with order across groups has to begin this group where all its members are in the others."""

    members: tuple[ProcessId, ...]
    fresh: bool = False
    role: str = BOTH  # what this process does in the group: one of `ROLES`


@dataclasses.dataclass(frozen=True, slots=True)
class Join:
    """How to join: ask these processes, of whom some are members."""

    contacts: tuple[ProcessId, ...]
    role: str = BOTH  # what this process does in the group: one of `ROLES`


@dataclasses.dataclass(frozen=True, slots=True)
class Propose:
    """How to join: this process proposes a group to these (itself among them or not); those who agree form it."""

    members: tuple[ProcessId, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Invitation:
    """What a process is asked before it is in a group that ``proposer`` proposes; ``attempt`` tells its proposals apart."""

    group: GroupId
    proposer: ProcessId
    members: tuple[ProcessId, ...]
    attempt: int


@dataclasses.dataclass(frozen=True, slots=True)
class Consent:
    """What a host tells an engine (``notice``): the application's answer to an invitation, and why if it does not agree."""

    invitation: Invitation
    agrees: bool
    text: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Pressure:
    """What a host tells an engine (``notice``): the application in this group has no room for more, or has room again. What is
    delivered meanwhile has to be kept all the same; a protocol that heeds the notice slows the senders down, to limit it."""

    group: GroupId
    full: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """What a host tells an engine (``notice``) where a process membership service knows: this process has stopped for ever."""

    process: ProcessId
    text: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Met:
    """What a host tells an engine (``notice``) of a protocol with processes in no group: a process of this name has started and
    can be sent to. Names that engines were given otherwise may have other incarnations meanwhile."""

    process: ProcessId


# --- messages with deadlines ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Stream:
    """Messages of one kind whose deadlines are to be guaranteed: what admission control is asked to take on. ``deadline`` counts
    from the moment at which the application hands a message over. ``period`` is the shortest time between two of them; 0: there
    is one message only (aperiodic)."""

    name: str
    size: int  # bytes of a message at most
    deadline: Nanoseconds
    period: Nanoseconds = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Admit:
    """What a host tells an engine (``notice``): the application wants this stream's deadlines guaranteed. The engine answers,
    then or later, with ``host.admitted`` or ``host.rejected``."""

    group: GroupId
    stream: Stream


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """What a host tells an engine (``notice``): the application has no more messages in this stream; it need not be kept room."""

    group: GroupId
    stream: str


class Due(msgspec.Struct, frozen=True, gc=False):
    """The next message of a stream, as a host shows it (``peek``). Times are those of ``host.now``."""

    payload: bytes
    arrived: Nanoseconds  # when the application handed it over; 0 for messages that belong to no stream: hosts do not note it
    deadline: Nanoseconds = 0  # when it has to be delivered; 0: at any time


# --- parameters -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Declared:
    """What one declaration of a parameter says; ``parameter`` puts it into the field's metadata."""

    about: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    example: str = ""
    keys: str = "group"  # what the keys of a parameter with several values (a `Mapping`) are


def parameter(
    default: Any = dataclasses.MISSING,
    about: str = "",
    *,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Sequence[str] = (),
    example: str = "",
    keys: str = "group",
    factory: Callable[[], Any] | None = None,
) -> Any:
    """Declares a parameter as a dataclass field: default, unit and one sentence in one place."""
    metadata = {"declared": Declared(about, unit, minimum, maximum, tuple(choices), example, keys)}
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def duration(default: int, about: str, *, minimum: int = 1) -> Any:
    """Declares a parameter that is a duration, in ns."""
    return parameter(Duration(default), about, unit="duration", minimum=minimum)


def declarations(parameters: type[Any]) -> Iterator[tuple[dataclasses.Field[Any], Declared]]:
    """The declared fields of a parameter class, in order."""
    for field in dataclasses.fields(parameters):
        if "declared" in field.metadata:
            yield field, field.metadata["declared"]


_UNITS: Final = {"ns": 1, "us": US, "µs": US, "ms": MS, "s": SECOND, "m": 60 * SECOND, "min": 60 * SECOND, "h": 3600 * SECOND}
_DURATION: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ns|us|µs|ms|s|min|m|h)\s*")


def parse_duration(text: str) -> Duration:
    """Turns ``"50ms"`` into nanoseconds.

    >>> parse_duration("1.5ms")
    1500000
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f'{text!r} is not a duration: write a number and a unit, such as "50ms", "2s" or "250us"')
    return Duration(round(Decimal(match[1]) * _UNITS[match[2]]))


def format_duration(ns: int) -> str:
    """Turns nanoseconds into exact text, in the largest whole unit; :func:`parse_duration` reads it back.

    >>> format_duration(1500000)
    '1500us'
    """
    for unit, size in (("s", SECOND), ("ms", MS), ("us", US)):
        if ns % size == 0:
            return f"{ns // size}{unit}"
    return f"{ns}ns"
