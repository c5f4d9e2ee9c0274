"""The certificates themselves: what one pass over rows (``unit``) says, and what ``evidence`` puts together.

A run's :class:`Slice` has:

- the *skeleton*: its rows other than ``send`` and ``deliver`` that properties look at, the first row of each interval, and the
  last row of each history. The facts of the reference checks (views, memberships, who is correct) can be read off it as off the
  whole run;
- intervals of deliveries and of sends. An interval contains no ``view`` or ``join`` of its group and no ``leave`` of its process,
  so membership and view are the same all through it;
- tapes, cut at the same places, and, for a history that takes part in several groups, the *weave*: the group of each of its
  message rows, by which its tapes can be joined into one;
- where ``block`` rows stand among a history's message rows, and at which of those rows the clock moves on;
- by history and group: the first and last turn of a token and the longest time between two; how many messages were sent, and how
  far deliveries of own messages run ahead of the sends; by sender, how late the latest delivery with a deadline of its own is;
  and which processes send with deadlines (``timing.deadlines`` checks those against the rows);
- what all rows about a message must agree on (the digest; the rank, where there are several groups): compared within the unit,
  and hashed in blocks of 256 messages for runs that continue elsewhere;
- for ``progress``: when messages were accepted and sent, and where deliveries of a sender pause (``Waits``);
- by history, which indices there are (``Extent``);
- ``suspect``: something may be malformed; the plain validation then looks at the run.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..facts import Moment
from .agreed import Blocks
from .columns import folded, unfolded
from .shared import Spliced

NOWHERE: Final[NDArray[np.int64]] = np.zeros(0, np.int64)


class Delivered(NamedTuple):
    """Messages ``low`` to ``high`` of a sender, delivered in that order in one view, with those of others between them."""

    process: str
    group: str
    sender: str
    low: int
    high: int
    first: int
    last: int  # index of the first and the last of these deliveries


class Sent(NamedTuple):
    """Messages ``low`` to ``high`` that a process sent in one view."""

    process: str
    group: str
    low: int
    high: int
    first: int
    last: int


class Own(NamedTuple):
    """How many messages of a group a process sends in these rows, and by how much the highest of its own that it delivers
    exceeds what it has sent in them by then."""

    process: str
    group: str
    sends: int
    lead: int


class Tape(NamedTuple):
    """The senders of one history's deliveries in a group, in order, from the row with that index on."""

    process: str
    group: str
    first: int
    kept: NDArray[Any] | Spliced
    cuts: NDArray[np.int64] = NOWHERE  # at which deliveries pieces of it end that can be shared

    @property
    def codes(self) -> NDArray[Any]:
        """0: a send of its own; else 1 + a place in the slice's ``senders``."""
        return self.kept.codes() if isinstance(self.kept, Spliced) else self.kept


class Weave(NamedTuple):
    """The groups of one history's message rows, in order, as places in the slice's ``groups``."""

    process: str
    codes: NDArray[Any]


class Moves(NamedTuple):
    """At which of a history's message rows ``true_time`` is not that of the message row before (a bit for each, packed); the
    first of a unit counts as one, and a row without the time does. Where no row has it, there are none."""

    process: str
    bits: NDArray[np.uint8]
    first: int | None
    last: int | None  # the times of the first and the last of these rows


class Stop(NamedTuple):
    """A ``block`` row about a message, and how many of the history's message rows in these rows come before it."""

    process: str
    at: int  # its index
    before: int


RankKey: TypeAlias = tuple[int, str, str, int]  # rank, sender, group, seq: messages of a batch share a rank


class Ranked(NamedTuple):
    """The first and the last delivery of a history, by rank."""

    process: str
    low: RankKey
    high: RankKey


class Misplaced(NamedTuple):
    """A row whose index is not the one that was due after the row before it."""

    process: str
    at: int  # its index
    due: int
    file: str | None


class Extent(NamedTuple):
    """The rows of one history in a unit, from the first index to the last. ``final``: the last row is ``crash`` or ``end``.
    ``jumps``: rows whose index does not follow the one before (the first of them); a repeat and a gap are two."""

    process: str
    first: int
    last: int
    final: bool
    begin: Misplaced  # the first row, which may be misplaced after those of another unit
    jumps: tuple[Misplaced, ...]


class Timed(NamedTuple):
    """Deliveries of a history, of one sender, whose duration is known, and the longest; and the bytes of the largest of them."""

    process: str
    sender: str
    deliveries: int
    longest: int
    largest: int


class Taken(NamedTuple):
    """Sends of a history whose duration is known (``send`` and ``sent`` rows), and the longest; and the bytes of the largest
    message that it sends."""

    process: str
    sends: int
    longest: int
    largest: int


MAX_SLOWEST: Final = 64  # rotations of a process that a unit names


class Turns(NamedTuple):
    """The ``token`` rows of a history in a group: how many follow another without a view or a leave between them, the longest
    time from one to the next of these, and where and when the first and the last stand."""

    process: str
    group: str
    rotations: int
    longest: int
    first: int
    began: Moment
    last: int
    ended: Moment
    slowest: tuple[tuple[int, int, int], ...]  # the longest times, each with the two rows; at most ``MAX_SLOWEST``


class Dated(NamedTuple):
    """Deliveries of a history, of one sender in a group, that have a deadline of their own, and the most that one is late."""

    process: str
    group: str
    sender: str
    deliveries: int
    latest: int


class Calls(NamedTuple):
    """Rows about messages that a process hands in, in their order."""

    indices: NDArray[np.int64]
    times: NDArray[np.int64]  # by the global clock where there is one
    contents: NDArray[np.int64]  # digest and size, hashed


class Folded(NamedTuple):
    """Calls as they travel: the differences of indices and of times."""

    indices: tuple[int, str, bytes]
    times: tuple[int, str, bytes]
    contents: NDArray[np.int64]


class Handed(NamedTuple):
    """The ``accept`` and the ``send`` rows of a history in a group."""

    process: str
    group: str
    kept: tuple[Calls, Calls] | tuple[Folded, Folded]

    @property
    def accepts(self) -> Calls:
        return _unfolded(self.kept[0])

    @property
    def sends(self) -> Calls:
        return _unfolded(self.kept[1])

    def folded(self) -> Handed:
        """The same in a third of the space, unfolded when it is looked at."""
        accepts, sends = (Folded(folded(c.indices), folded(c.times), c.contents) for c in (self.accepts, self.sends))
        return self._replace(kept=(accepts, sends))


def _unfolded(calls: Calls | Folded) -> Calls:
    return calls if isinstance(calls, Calls) else Calls(unfolded(calls.indices), unfolded(calls.times), calls.contents)


class Steps(NamedTuple):
    """Deliveries of a history, of one sender in a group and one view, as *steps*: successive numbers, none of them delivered more
    than a quantum after the one before. Only the pauses between steps can be long."""

    process: str
    group: str
    sender: str
    first: int  # index of the first delivery
    numbers: NDArray[np.int64]  # the first number of each step
    lasts: NDArray[np.int64]  # its last number
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]  # when the first and the last message of each step are delivered
    indices: NDArray[np.int64]  # index of the first delivery of each step
    latest: int  # the latest time of all these deliveries


@dataclasses.dataclass(slots=True)
class Waits:
    """How long messages waited, for ``progress``."""

    handed: list[Handed]
    steps: list[Steps]
    quantum: int  # longest pause within a step, ns: the bound, if the unit knows it
    largest: int  # bytes of the largest message that is accepted, sent or delivered; -1: no row tells


@dataclasses.dataclass
class Slice:
    """What a unit has to say about one run."""

    run: str
    senders: list[str]
    groups: list[str]
    extents: list[Extent]
    delivered: list[Delivered]
    sent: list[Sent]
    own: list[Own]
    tapes: list[Tape]
    weaves: list[Weave]  # of histories that have message rows of several groups here
    stops: list[Stop]
    moves: list[Moves]  # none if there are no ``stops``
    claims: list[tuple[str, str, int]]  # (process, group, view) that rows claim before the unit's first ``view`` row
    timed: list[Timed]
    taken: list[Taken]
    ranks: list[Ranked] | None  # None: they do not grow along every history; empty: there is one group
    blocks: list[Blocks]
    rows: int
    suspect: bool
    differs: bool  # rows about one message disagree on its digest
    turns: list[Turns]
    dated: list[Dated]
    dating: list[tuple[str, str]]  # (process, group) that send messages with deadlines
    differing: list[tuple[str, str, int, int]] | None = None  # the messages of which ``differs`` tells; None: too many
    odd: list[str] = dataclasses.field(default_factory=list)  # where it is ``suspect``: processes with rows that may be malformed
    unsteady: list[str] = dataclasses.field(default_factory=list)  # processes whose clock goes back, or is missing in some rows
    waits: Waits | None = None  # None: no row shows that the run states a time for ``progress``
    skeleton: pa.Table | None = None  # only where the slice travels alone
