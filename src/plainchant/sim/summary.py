"""What a run amounted to, in numbers and in who ended how."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..scenario.faults import describe_fault
from ..scenario.model import Fault
from ..scenario.outcome import ProcessEnd


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of one simulation."""

    run: str
    protocol: str
    seed: int
    virtual_time: int  # when the run ended, ns
    events: int  # packet arrivals and timers that engines handled
    packets_sent: int  # packets on the network; a hardware broadcast is one
    packets_delivered: int
    packets_lost: int  # copies lost, including those that found a full receive buffer; copies to dead processes are not counted
    packets_overflowed: int
    packets_duplicated: int
    packets_corrupted: int
    broadcasts: int  # packets to more than one process
    interrupts: int  # packet arrivals that engines handled, without packets to oneself
    packets_by_type: dict[str, int]
    interrupts_by_type: dict[str, int]
    messages_sent: int
    messages_delivered: int
    messages_dropped: int
    """Messages that processes had accepted and not yet sent when they left the group; crashes are not counted."""
    streams_asked: int  # streams, and single messages with a deadline, whose deadlines were to be guaranteed
    streams_admitted: int
    streams_rejected: int  # those that were not, or no longer; what was asked for as a single message was not sent
    processes: dict[str, ProcessEnd]
    drained: bool  # whether the run was to be drained
    quiet: bool  # whether it was drained and got quiet
    not_quiet: dict[str, str]  # if it did not get quiet: who waits for what
    faults: tuple[Fault, ...]  # the schedule: the scenario's own faults and those drawn from the seed

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON; faults show only what differs from the defaults."""
        plain = dataclasses.asdict(self)
        plain["faults"] = [describe_fault(fault, at=True) for fault in self.faults]
        return plain
