"""Newtop's parameters, declared once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from ...core.model import MS, Duration, GroupId, ProcessId, UsageError, duration, format_duration, parameter

ORDERS: Final = ("total", "slow", "fast", "relative", "cbcast")  # total (ch. 4), causal (ch. 5), vector clocks to compare with
LONGEST: Final = 8  # omega grows to at most this multiple of ``suspect_after``
FARTHEST: Final = 3  # the longest round trip for which ``progress`` is stated, as a multiple of ``suspect_after``


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """What can be set. The defaults suit a local network with delays of a few milliseconds."""

    order: str = parameter(
        "total",
        "the order of delivery: total (one order everywhere), or causal by block numbers (slow), by vectors (fast), by one "
        "vector and a number a group (relative), by vector clocks (cbcast)",
        choices=ORDERS,
    )
    orders: Mapping[GroupId, str] = parameter(
        factory=dict, about="groups whose order is another one", choices=ORDERS, example='{ news = "fast", trades = "total" }'
    )
    sequencers: Mapping[GroupId, ProcessId] = parameter(
        factory=dict,
        about="groups in total order whose members are mostly silent: this member numbers everything sent in the group "
        "(asymmetric), and nobody else has to send null messages in it",
        example='{ alarms = "p1" }',
    )
    vectors: str = parameter(
        "keyed",
        "fast order: keyed has a number a process and group, and delivers as early as possible; compact has one a process, and "
        "may wait for the null messages of another group",
        choices=("keyed", "compact"),
    )
    transport: str = parameter(
        "lossy",
        "what is below: lossy (packets get lost, doubled, overtaken: they carry the number of the one before and are asked for), "
        "or fifo (a lossless stream between any two processes)",
        choices=("lossy", "fifo"),
    )
    silence_by: str = parameter(
        "adaptive",
        "when a member that has nothing to send completes a block by a null message: adaptive (at once, unless it is about to "
        "send anyway), timeout (after `silence`), ticks (as the thesis: `silence` counted in whole ticks of a clock)",
        choices=("adaptive", "timeout", "ticks"),
    )
    silence: Duration = duration(
        20 * MS,
        "the local time-silence: a block that somebody else has created is completed after so long (adaptive: at the latest)",
    )
    tick: Duration = duration(50 * MS, "ticks: the period of the clock (CLOCKPERIOD)")
    stability_after: Duration = duration(
        50 * MS,
        "where the order itself needs no null messages (fast, cbcast): a member that has received and has sent nothing for so "
        "long says what it has, so that others can forget it",
    )
    blocks: int = parameter(
        256,
        "flow control: unstable blocks that a group may have (N, at least 3); a process holds at most so many times the members "
        "of the group; 0: no flow control",
        unit="blocks",
        minimum=0,
        maximum=1_000_000,
    )
    pack: bool = parameter(True, "put as many waiting messages into a packet as fit; off: one message a packet, as in the thesis")
    ask_after: Duration = duration(10 * MS, "lossy: a missing message is asked for again so often, each time of somebody else")
    gap_patience: Duration = duration(
        0, "lossy: how long a gap may last before it is asked for (networks that reorder); 0: it is asked for at once", minimum=0
    )
    probe_after: Duration = duration(
        60 * MS,
        "lossy: who has sent nothing for a block that is so old is probed: its message, or the one that made the block, is lost",
    )
    announce_after: Duration = duration(
        100 * MS,
        "a group that has become idle tells each other what everybody has, so that it can be forgotten: so long after the last "
        "message; 0: never, as in the thesis, where that travels with later messages only",
        minimum=0,
    )
    suspect_after: Duration = duration(
        250 * MS,
        "a member whose part of a block is missing for so long is suspected (omega); more where blocks are seen to take longer; "
        "0: never, and groups are static (nobody joins, leaves or may fail)",
        minimum=0,
    )
    patience: Duration = duration(
        0,
        "how long a member whose application does not read may hold up the senders of a group before it is excluded; how long "
        "members may disagree on suspicions, beyond eight times `suspect_after`, before they part; 0: eight times "
        "`suspect_after`",
        minimum=0,
    )
    alive_every: Duration = duration(
        80 * MS,
        "the extended time-silence (tau): a member that has sent nothing for so long sends a null message, so that an idle group "
        "notices a crash",
    )
    merge_after: Duration = duration(
        200 * MS,
        "how often a part of a group looks for the members that it has lost, to come together again when the network heals; 0: "
        "parts stay apart",
        minimum=0,
    )
    partitions: str = parameter(
        "all",
        "what becomes of a group that falls into parts: all of them go on, or only one that has a majority of the view before "
        "(half of it, if its first member is there) does, and the others halt",
        choices=("all", "majority"),
    )
    same_view: bool = parameter(
        False,
        "original virtual synchrony: a message is delivered in the view that it was sent in; nobody sends while members are "
        "being removed",
    )
    signatures: bool = parameter(
        False, "views carry signatures of their members, which no other view has: concurrent views never intersect"
    )

    def __post_init__(self) -> None:
        for group, order in self.orders.items():
            if order not in ORDERS:
                raise UsageError(f"orders: group {group} has order {order!r}; there are: {', '.join(ORDERS)}")
        if 0 < self.blocks < 3:
            raise UsageError(
                f"blocks is {self.blocks}; make it at least 3 (with fewer, senders would wait for each other for ever), or 0 for "
                "no flow control"
            )
        if self.silence_by == "ticks" and self.silence % self.tick:
            raise UsageError(
                f'silence is {format_duration(self.silence)}; with silence_by = "ticks" make it a multiple of tick '
                f"({format_duration(self.tick)})"
            )
        if self.silence_by != "adaptive" and self.probe_after <= self.silence:
            raise UsageError(
                f"probe_after is {format_duration(self.probe_after)}; make it longer than silence "
                f"({format_duration(self.silence)}), or members are probed while they are only silent"
            )
        if self.suspect_after:
            self._check_patience()
        for group in self.sequencers:
            if self.order_of(group) != "total":
                raise UsageError(f"group {group} has a sequencer and order {self.order_of(group)}; a sequencer orders totally")

    def order_of(self, group: GroupId) -> str:
        """The order of a group."""
        return self.orders.get(group, self.order)

    def _check_patience(self) -> None:
        """Nobody may be suspected who only waits as long as it may (omega above the local time-silence, 7.2.12)."""
        shorter = {"silence": self.silence, "stability_after": self.stability_after, "alive_every": self.alive_every}
        if self.transport == "lossy":
            shorter["probe_after"] = self.probe_after
        for name, value in shorter.items():
            if value >= self.suspect_after:
                raise UsageError(
                    f"suspect_after is {format_duration(self.suspect_after)}; make it longer than {name} "
                    f"({format_duration(value)}), or members are suspected that are only silent"
                )
        if 0 < self.patience < 2 * self.suspect_after:
            raise UsageError(
                f"patience is {format_duration(self.patience)}; make it at least twice suspect_after "
                f"({format_duration(2 * self.suspect_after)}), or members part before they can agree on who has failed"
            )

    @property
    def longest_wait(self) -> int:
        """``patience``, or what it is by default."""
        return self.patience or LONGEST * self.suspect_after

    def is_static(self, group: GroupId) -> bool:
        """Whether the group's members stay what they are."""
        return not self.suspect_after or group in self.sequencers
