"""One group that broadcasts: scenarios, and what is read off their runs.

A run where nothing happens because time has passed (*calm*: no heartbeat, no retry, no suspicion) has the protocol's own
traffic and nothing else, which is what the paper counts. One message travels in a packet, as there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from plainchant.core.model import SECOND, Duration, ProcessId
from plainchant.protocols.sequencer import Member
from plainchant.scenario.model import Scenario, Workload

from ..observe import Observer, trace_of
from ..runs import names, scenario
from .baselines import BASELINES

_NEVER: Final = 1_000_000 * SECOND
CALM: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("heartbeat", "quiet_after", "retry_after", "sync_after"), Duration(_NEVER)),
    "suspect_after": Duration(3 * _NEVER),
    "patience": Duration(6 * _NEVER),
}


def group(
    members: int, *workload: Workload, seconds: float, drain: float = 0, protocol: str = "sequencer", **given: Any
) -> Scenario:
    """A scenario of one group; ``p1`` is the sequencer. Times are in seconds."""
    return scenario(protocol, names(members), *workload, length=1000 * seconds, drain=1000 * drain, **given)


def one_sender(members: int, history: int, messages: int, *, sender: str = "p2") -> Scenario:
    """One process broadcasts continuously: the next message when the last has come back (section 3)."""
    load = Workload(senders=(sender,), closed=1, count=messages, size=0)
    calm = {**CALM, "pack": False, "history": history, "acknowledge_every": history}
    return group(members, load, seconds=messages * 0.01 + 1, **calm)


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """What a run put on the network."""

    members: int
    messages: int
    packets: Mapping[str, int]
    interrupts: Mapping[str, int]
    delivered: int

    @property
    def packets_each(self) -> float:
        """Packets for a broadcast."""
        return sum(self.packets.values()) / self.messages

    @property
    def interrupts_each(self) -> float:
        return sum(self.interrupts.values()) / self.messages


def count(scenario: Scenario) -> Counts:
    """Runs the sequencer, or the baseline that the scenario names, and counts."""
    summary, _ = trace_of(scenario, description=BASELINES.get(scenario.protocol))
    packets, interrupts = summary.packets_by_type, summary.interrupts_by_type
    return Counts(len(scenario.members), summary.messages_sent, packets, interrupts, summary.messages_delivered)


def baseline(protocol: str, members: int, messages: int) -> Scenario:
    """The same steady sender under another protocol."""
    load = Workload(senders=("p2",), closed=1, count=messages, size=0)
    return group(members, load, seconds=messages * 0.02 + 1, protocol=protocol)


def member(observer: Observer, process: ProcessId) -> Member:
    """A process's part in the group of a run that was observed."""
    found: Member = observer.engines[process].instances["g"]
    return found


def deliveries(table: pa.Table, process: str, *columns: str) -> list[list[Any]]:
    """Columns of what a process delivered, in its order."""
    chosen = pc.and_(pc.equal(table["kind"], "deliver"), pc.equal(table["process"], process))
    rows = table.filter(chosen)
    return [rows[column].to_pylist() for column in columns]


def delays(table: pa.Table, process: str) -> list[int]:
    """From the send of each message to its delivery at a process, in ns, in the order of delivery."""
    times, sent = deliveries(table, process, "true_time", "sent")
    return [time - before for time, before in zip(times, sent, strict=True)]
