"""The parameters of ``dedos``: where processes are, how large boxes and buffers are, and how long to wait for whom."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from ...core.memory import MOST_PLACES
from ...core.model import MS, SECOND, US, Duration, UsageError, duration, format_duration, parameter

SHORTEST_SILENCE: Final = 5  # Polls that a process may miss before it counts as hung, at least


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """The same at all processes."""

    reach: str = parameter(
        "lan",
        "how far groups reach: lan (any nodes; a distributor orders), or node (all members on one node; no packet is sent)",
        choices=("lan", "node"),
    )
    nodes: Mapping[str, str] = parameter(
        factory=dict,
        about="the nodes of processes, where their names do not say it (`n1.p2` is on `n1`)",
        keys="process",
        example='{ p4 = "n2" }',
    )
    networked: tuple[str, ...] = parameter(
        (),
        "processes that are connected to the network and can relay and distribute; none given: all",
        example='["n1.a", "n2.a"]',
    )
    senders: tuple[str, ...] = parameter((), "processes that only send", example='["n1.p3"]')
    boxes: int = parameter(
        2, "mailboxes of a group on a node: the active one and spares; all but one may fail", minimum=1, maximum=9
    )
    elements: int = parameter(64, "messages that a mailbox holds", minimum=2, maximum=4096)
    reserve: int = parameter(
        16,
        "of these, how many are kept for messages that have a number, so that local senders cannot fill the mailbox "
        "(0 is the thesis: between nodes a group may then stand still for good)",
        minimum=0,
    )
    history: int = parameter(64, "messages that a distributor keeps; with more it asks everybody to catch up", minimum=1)
    window: int = parameter(4, "messages of a sender that wait for a number at once", minimum=1, maximum=256)
    places: int = parameter(16, "processes that can be connected to a mailbox at once", minimum=2, maximum=MOST_PLACES)
    room: int = parameter(
        8192,
        "bytes that an element of a mailbox holds; the names of all members have to fit",
        unit="bytes",
        minimum=64,
        maximum=1 << 20,
    )
    poll: Duration = duration(
        20 * MS, "how often who waits for news looks at the mailbox even so: crashes of boxes are noticed then"
    )
    operation: Duration = duration(50 * US, "longest time that an operation on a mailbox should take")
    retry: Duration = duration(30 * MS, "how long to wait for an answer before asking again")
    acknowledge: Duration = duration(20 * MS, "a relay acknowledges what its receivers have read within so long")
    present_every: Duration = duration(100 * MS, "each node says so often that it is there (pi)")
    delta: Duration = duration(50 * MS, "longest time that a broadcast takes, repetitions and clock differences included (D)")
    misses: int = parameter(5, "a node that was not heard in so many rounds has crashed", minimum=1)
    silence: Duration = parameter(
        Duration(0),
        "a process that does not stamp its presence for this long is excluded by its node; "
        "0: half the time after which a node counts as crashed, and at least 5 polls",
        unit="duration",
        minimum=0,
    )
    patience: Duration = duration(1 * SECOND, "how long a member may hold up the others by not reading before it halts")
    lans: int = parameter(1, "networks; with 2 the second is used when the first has crashed", minimum=1, maximum=2)

    def __post_init__(self) -> None:
        if self.reserve >= self.elements:
            raise UsageError(
                f"reserve is {self.reserve} of {self.elements} elements, so senders have none; let it be smaller than elements"
            )
        if self.delta >= self.present_every:
            raise UsageError("delta has to be shorter than present_every: a round ends before the next begins")
        if 0 < self.silence < SHORTEST_SILENCE * self.poll:
            raise UsageError(
                f"silence is {format_duration(self.silence)}, but processes stamp their presence once per poll; make it at least "
                f"{format_duration(SHORTEST_SILENCE * self.poll)}, or 0 to have it chosen"
            )

    @property
    def longest_silence(self) -> int:
        """How long (ns) a process may be silent before its node excludes it."""
        return int(self.silence) or max(self.node_timeout // 2, SHORTEST_SILENCE * self.poll)

    @property
    def node_timeout(self) -> int:
        """How long (ns) a node may be silent before the others take it for crashed."""
        return self.misses * self.present_every

    @property
    def most_unread(self) -> int:
        """No more messages than this have numbers and are not read by all: the distributor's history is full before."""
        return 4 * (self.history + self.elements) + 64

    @property
    def soonest_given_up(self) -> int:
        """Time (ns) after which a relay that hangs costs its node, if it hangs right before a round and is not replaced."""
        return (self.misses - 1) * self.present_every + self.delta
