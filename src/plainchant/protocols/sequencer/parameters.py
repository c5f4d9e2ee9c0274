"""The sequencer's parameters, declared once."""

from __future__ import annotations

import dataclasses
from typing import Final

from ...core.model import MS, SECOND, Duration, UsageError, duration, format_duration, parameter

ASKS: Final = 12  # Times that a silent member is asked before it is suspected: at 30 % loss all are in vain once in 3,000 times


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """What can be set. The defaults suit a local network with delays of a few milliseconds."""

    history: int = parameter(
        256,
        "batches that the sequencer keeps for retransmission (HISTORY_SIZE); when they are full and somebody's "
        "acknowledgement is missing, a synchronisation phase begins",
        unit="batches",
        minimum=2,
        maximum=1_000_000,
    )
    window: int = parameter(
        16,
        "batches that a sender may have under way before the first of them comes back numbered",
        unit="batches",
        minimum=1,
        maximum=100_000,
    )
    resilience: int = parameter(
        0,
        "a message is delivered only when so many members besides the sequencer hold it (r); 0 is the paper's "
        "protocol, which delivers on arrival",
        unit="members",
        minimum=0,
        maximum=100,
    )
    acknowledge_every: int = parameter(
        0, "a member that sends nothing acknowledges after so many batches; 0: half of the history", unit="batches", minimum=0
    )
    pack: bool = parameter(True, "put as many waiting messages into a packet as fit; off: one message a packet, as in the paper")
    heartbeat: Duration = duration(20 * MS, "an idle sequencer announces its highest number so often")
    quiet_after: Duration = duration(20 * MS, "a member that has sent nothing for so long sends the sequencer a dummy message")
    retry_after: Duration = duration(
        25 * MS, "a request that has not come back numbered is repeated after so long, at the earliest"
    )
    nack_after: Duration = duration(10 * MS, "a negative acknowledgement is repeated so often")
    nack_retries: int = parameter(20, "after so many repetitions without an answer the sequencer is suspected", minimum=1)
    gap_patience: Duration = duration(
        0, "how long a gap may last before it is asked for (networks that reorder); 0: it is asked for at once", minimum=0
    )
    sync_after: Duration = duration(
        10 * MS,
        "how long a full history waits for acknowledgements on their way before it starts a synchronisation phase",
        minimum=0,
    )
    suspect_after: Duration = duration(150 * MS, "who has not been heard for so long is suspected")
    patience: Duration = duration(
        1 * SECOND,
        "how long a member that cannot reach a majority of its view tries before it halts; how long a "
        "member may hold up a synchronisation phase, or everybody by not reading, before it is excluded",
    )
    partitions: str = parameter(
        "majority",
        "who goes on: majority (members that are a majority of their view; the others halt) or none (the paper's failure model: "
        "processes crash, but the network never falls apart; any survivor goes on, also a single one)",
        choices=("majority", "none"),
    )

    def __post_init__(self) -> None:
        slowest = max(self.heartbeat, self.quiet_after)
        if self.suspect_after < 3 * slowest:
            least = f"at least {format_duration(3 * slowest)}: three packets may be lost before anybody is suspected"
            given = format_duration(self.suspect_after)
            raise UsageError(f"suspect_after is {given}, but heartbeat and quiet_after need it to be {least}")
        if self.patience < 2 * self.suspect_after:
            least = f"at least twice suspect_after ({format_duration(2 * self.suspect_after)})"
            given = format_duration(self.patience)
            raise UsageError(f"patience is {given}; make it {least}, or members halt before an election can end")

    @property
    def any_survivor(self) -> bool:
        """Whether no majority is needed: a member that does not answer has crashed."""
        return self.partitions == "none"

    @property
    def ask_after(self) -> int:
        """How long the sequencer does not hear a member before it asks it: a third of ``suspect_after``, and two of its words."""
        return max(self.suspect_after // 3, 2 * max(self.heartbeat, self.quiet_after))

    @property
    def ask_every(self) -> int:
        """Time between two asks: they are spread evenly, because packets are often lost in bursts."""
        return min(int(self.heartbeat), max(1, (self.suspect_after - self.ask_after) // ASKS))

    @property
    def reach(self) -> int:
        """No number is so far beyond what a member has acknowledged: a history, and the views that are proposed beside it."""
        return 4 * self.history + 64

    @property
    def acknowledgement_interval(self) -> int:
        """Batches after which a silent member acknowledges."""
        return self.acknowledge_every or max(1, self.history // 2)
