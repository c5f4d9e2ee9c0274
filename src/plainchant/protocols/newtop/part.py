"""A process's part in one group: its matrix, its flow control, its time-silence, and what it owes."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from ...core.engine import Host
from ...core.model import GroupId, ProcessId
from ...core.names import place_of
from .asymmetric import Desk, Office
from .flow import Flow, OneWay
from .matrix import BlockMatrix, Column
from .packets import Vector
from .parameters import Parameters
from .silence import Silence

if TYPE_CHECKING:
    from .membership import Membership

BLOCK: Final = "block"
"""The kind of the orders that go by block numbers alone (total, slow); the others have each a kind of their own."""


SPARE: Final = 1024  # packets of a member that may be kept beside those that flow control lets it send
FORM: Final = "\0"  # between a group's name and its formation, in the key of vectors


class Part:
    """Everything about one group at one process, in one formation of it."""

    __slots__ = (
        "announced",
        "announced_up_to",
        "announcing",
        "begun",
        "blocked",
        "blocked_at",
        "counted_at",
        "counter",
        "demand",
        "desk",
        "due",
        "eager",
        "emitted",
        "first",
        "flow",
        "form",
        "group",
        "held",
        "key",
        "kind",
        "last_sent",
        "matrix",
        "me",
        "members",
        "membership",
        "most_unstable",
        "number",
        "office",
        "open",
        "openers",
        "order",
        "others",
        "previous",
        "probe_mark",
        "probes",
        "reach",
        "ready",
        "refused",
        "reserve",
        "said_complete",
        "said_stable",
        "seen_stable",
        "sequencer",
        "silence",
        "spoke",
        "timer_at",
        "told_stable",
        "told_wanted",
        "undelivered",
        "urgent",
        "wanted_by",
        "watchers",
    )

    def __init__(
        self, host: Host, group: GroupId, members: tuple[ProcessId, ...], parameters: Parameters, form: int = 1, number: int = 1
    ) -> None:
        self.group = group
        self.form = form  # the tag of the formation
        self.key = group if form == 1 else f"{group}{FORM}{number}.{form}"
        """Its name in vectors; what comes later in a group's life has a larger number."""
        self.number = number
        """Of the view in force: as much larger than that of the first one here as members are gone since. So if a member is given
        up while it installs a view, its view and that of the others, which lack it, have different numbers."""
        self.reach = number + len(members)
        """No view of this formation has so large a number, nor has any of a formation that it was to move to and did not."""
        self.members = members  # the view in force, in the order of the formation
        self.membership: Membership | None = None  # what has failed, as far as this process knows; None: the group is static
        self.previous: Part | None = None  # the formation before, as long as others may ask for what was sent in it
        self.spoke = host.now  # when this process last sent a message, null or not, that completes blocks
        self.others = tuple(process for process in members if process != host.me)
        self.order = parameters.order_of(group)
        self.kind = BLOCK if self.order in ("total", "slow") else self.order
        self.sequencer = _member(parameters.sequencers.get(group, ""), members)
        counted = (self.sequencer,) if self.sequencer else members
        self.matrix = BlockMatrix(members, counted=counted, fifo=parameters.transport == "fifo")
        self.me = self.matrix.columns[host.me]
        self.flow = (OneWay if self.sequencer else Flow)(self.matrix, self.me, parameters.blocks)
        self.eager = self.kind in (BLOCK, "relative") or (self.kind == "fast" and parameters.vectors == "compact")
        """Whether a message is delivered only when its block, or another one, is complete: then null messages are urgent."""
        self.silence = Silence(host, parameters)
        self.office = Office() if self.sequencer == host.me else None
        self.desk = Desk() if self.sequencer and self.sequencer != host.me else None
        self.counter = 0  # the flow counter: the largest flow number that was sent or delivered here
        self.ready = False  # there may be something to take
        self.demand = 0  # another group's message waits for this block (4.4).
        self.emitted = 0  # the block that the sequencer was last asked for
        self.urgent = False  # somebody waits for the blocks of this group, although its own order would not
        self.due: int | None = None  # when the null message that time-silence owes goes out; None: it owes none
        self.timer_at: int | None = None
        self.held = False  # flow control keeps a null message back; it is judged anew
        self.begun: tuple[Vector, int] | None = None
        """What the first fragment of a message carried, for the others: they happened when it did."""
        self.blocked = ""  # the condition of flow control that keeps a message back
        self.blocked_at = 0  # since when it does
        self.undelivered: deque[int] = deque()
        """Flow numbers of this process's messages that not everybody is known to have delivered, oldest first."""
        self.announced = 0  # what was last said to be delivered here
        self.announcing = 0  # so much longer than at first an idle group waits between announcements; 0: it does not announce
        self.announced_up_to = 0  # what there was when the timer for announcements last expired
        self.last_sent = 0  # when something was last said to all
        self.wanted_by: dict[ProcessId, int] = {}  # who wants to be told when everything up to a flow number is delivered here
        self.reserve = len(group) + max(len(member) for member in members) + 16
        """Bytes of a packet that its messages must leave, beside what the host leaves: for the fields of Again."""
        self.said_complete = 0  # what this process last told the sequencer to have
        self.said_stable = 0  # what this process last said to all to be stable
        self.seen_stable = 0
        self.told_stable = 0  # the host has been told that so much is stable
        self.told_wanted = 0  # the others have been told that this process waits to hear that they have delivered so much
        self.open = True  # messages may be sent: every member has said from where on it numbers them here
        self.first = 0  # the block with which this process has begun here, while the group is not open
        self.openers: dict[ProcessId, None] = {}  # asymmetric group: who has told the sequencer
        self.refused: dict[ProcessId, None] = {}  # whose messages cannot be of this group's order
        self.probe_mark = 0  # the largest block when the probe's timer was set; 0: it is not set
        self.probes = 0
        self.most_unstable = 0
        self.counted_at = 0
        self.watchers: list[tuple[int, int, Any]] = []
        """Who waits until everything up to a block is complete and delivered here (a heap)."""

    def is_full(self, column: Column) -> bool:
        """Whether more of a member is here than it can have under way: N messages, as many nulls, and signs of life."""
        bound = self.flow.bound
        return bound > 0 and len(column.kept) + len(column.early) > 4 * bound + SPARE

    def count_undelivered(self) -> int:
        """Messages of this process that not everybody is known to have delivered."""
        while self.undelivered and self.undelivered[0] <= self.flow.roomy:
            self.undelivered.popleft()
        return len(self.undelivered)

    @property
    def owes_block(self) -> bool:
        """There is a block that this process has not completed yet."""
        return self.desk is None and max(self.matrix.largest, self.demand) > self.me.last

    @property
    def owes_flow(self) -> bool:
        """The same for the blocks of flow control, which are behind where the block counter has run ahead."""
        return self.desk is None and self.matrix.largest_flow > self.me.flow


def _member(place: ProcessId, members: tuple[ProcessId, ...]) -> ProcessId:
    """The member at a place, in whatever incarnation; none if there is no place. (A stranger may call itself ``#``, whose place
    is empty.)"""
    if not place:
        return ""
    return next((member for member in members if place_of(member) == place), "")
