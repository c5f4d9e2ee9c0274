"""A process's part in one group: its matrix, its flow control, its time-silence, and what it owes."""

from __future__ import annotations

from collections import deque
from dataclasses import InitVar, dataclass, field
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

BLOCK: Final = "block"  # kind of the orders that go by block numbers alone (total, slow); each other order is its own kind
SPARE: Final = 1024  # packets of a member that may be kept beside those that flow control lets it send
FORM: Final = "\0"  # between a group's name and its formation, in the key of vectors


@dataclass(slots=True, eq=False, repr=False)
class Part:
    """Everything about one group at one process, in one formation of it."""

    host: InitVar[Host]
    group: GroupId
    members: tuple[ProcessId, ...]  # the view in force, in the order of the formation
    parameters: InitVar[Parameters]
    form: int = 1  # the tag of the formation
    # Number of the view in force: that of the first one here and the members that are gone since. So if a member is given up
    # while it installs a view, its view and that of the others, which lack it, have different numbers.
    number: int = 1
    key: str = field(init=False)  # its name in vectors; later formations of a group have a larger number
    reach: int = field(init=False)  # above all view numbers of this formation, and of those that it was to move to and did not
    order: str = field(init=False)
    kind: str = field(init=False)
    sequencer: ProcessId = field(init=False)  # empty: the group is symmetric
    matrix: BlockMatrix = field(init=False)
    me: Column = field(init=False)
    flow: Flow = field(init=False)
    eager: bool = field(init=False)  # messages wait until their block, or another one, is complete: null messages are urgent
    silence: Silence = field(init=False)
    office: Office | None = field(init=False)
    desk: Desk | None = field(init=False)
    others: tuple[ProcessId, ...] = field(init=False)
    reserve: int = field(init=False)  # bytes of a packet that its messages must leave for the fields of Again
    spoke: int = field(init=False)  # when this process last sent a message, null or not, that completes blocks
    membership: Membership | None = None  # what has failed, as far as this process knows; None: the group is static
    previous: Part | None = None  # the formation before, as long as others may ask for what was sent in it
    counter: int = 0  # the flow counter: the largest flow number that was sent or delivered here
    ready: bool = False  # there may be something to take
    demand: int = 0  # another group's message waits for this block (4.4)
    emitted: int = 0  # the block that the sequencer was last asked for
    urgent: bool = False  # a process waits for the blocks of this group, although its own order would not
    due: int | None = None  # when the null message that time-silence owes goes out; None: it owes none
    timer_at: int | None = None
    held: bool = False  # flow control keeps a null message back; it is judged anew
    begun: tuple[Vector, int] | None = None  # what the first fragment of a message carried; the others carry the same
    blocked: str = ""  # the condition of flow control that keeps a message back
    blocked_at: int = 0  # since when it does
    undelivered: deque[int] = field(default_factory=deque)  # flow numbers of own messages not known to be delivered everywhere
    announced: int = 0  # what was last said to be delivered here
    announcing: int = 0  # factor by which the interval between announcements of an idle group has grown; 0: none are made
    announced_up_to: int = 0  # what there was when the timer for announcements last expired
    last_sent: int = 0  # when something was last said to all
    wanted_by: dict[ProcessId, int] = field(default_factory=dict)  # members to be told when a flow number is delivered here
    said_complete: int = 0  # what this process last told the sequencer to have
    said_stable: int = 0  # what this process last said to all to be stable
    seen_stable: int = 0
    told_stable: int = 0  # the host has been told that everything up to this block is stable
    told_wanted: int = 0  # the others have been told that this process waits to hear that they have delivered up to here
    open: bool = True  # messages may be sent: every member has said from where on it numbers them here
    first: int = 0  # the block with which this process has begun here, while the group is not open
    openers: dict[ProcessId, None] = field(default_factory=dict)  # asymmetric group: members that have told the sequencer
    refused: dict[ProcessId, None] = field(default_factory=dict)  # members whose messages cannot be of this group's order
    probe_mark: int = 0  # the largest block when the probe's timer was set; 0: it is not set
    probes: int = 0
    most_unstable: int = 0
    counted_at: int = 0
    watchers: list[tuple[int, int, Any]] = field(default_factory=list)  # what waits for a block to be delivered (a heap)

    def __post_init__(self, host: Host, parameters: Parameters) -> None:
        group, members = self.group, self.members
        self.key = group if self.form == 1 else f"{group}{FORM}{self.number}.{self.form}"
        self.reach = self.number + len(members)
        self.order = parameters.order_of(group)
        self.kind = BLOCK if self.order in ("total", "slow") else self.order
        self.sequencer = _member(parameters.sequencers.get(group, ""), members)
        counted = (self.sequencer,) if self.sequencer else members
        self.matrix = BlockMatrix(members, counted=counted, fifo=parameters.transport == "fifo")
        self.me = self.matrix.columns[host.me]
        self.flow = (OneWay if self.sequencer else Flow)(self.matrix, self.me, parameters.blocks)
        self.eager = self.kind in (BLOCK, "relative") or (self.kind == "fast" and parameters.vectors == "compact")
        self.silence = Silence(host, parameters)
        self.office = Office() if self.sequencer == host.me else None
        self.desk = Desk() if self.sequencer and self.sequencer != host.me else None
        self.others = tuple(process for process in members if process != host.me)
        self.reserve = len(group) + max(len(member) for member in members) + 16
        self.spoke = host.now

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
    """The member at a place, in any incarnation; empty if there is no place (that of a stranger named ``#`` is empty)."""
    return next((member for member in members if place and place_of(member) == place), "")
