"""The workstations of 7.3 and 8.2 as a cost model, and one experiment on them.

Theory of operation
-------------------
Members are spread over three workstations, the fourth beside the first and so on; those of one workstation share its processor
(``network.machines``). A multicast is one packet to each of the others, as over the TCP connections of 7.2; each costs the
sender's processor and the receiver's processor ``COST``, whatever is in it. The network itself takes a millisecond.

The thesis prints no numbers for its figures, so that nothing can be fitted to them. ``COST`` is chosen by one sentence of 8.2:
with six members and a time-silence of 50 ms, flow control begins to matter at a message every 50 ms, which it cannot do before
a processor is busy all the time (docs/reproduce.md). What is compared with the thesis is directions.

Measures are those of 7.3.1. *Unstable*: the most blocks that exist and are not known to be stable, at any member. *Nulls*: null
multicasts. *Delay overhead*: from when a member's engine gets a message to when it delivers it; its own messages it gets when
it sends them; the mean over a member's messages, then over members. *Throughput*: messages over the time from the first send to
when the first member has delivered all of them and a reply of everybody else.

Senders wait for a while, send, and wait again. On machines with other things to do no two such loops keep in step: each begins
at a moment of its own, and is slower than it should be by a share of its own, up to ``SLOWER`` at the last.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pyarrow.compute as pc

from plainchant.core.model import MS, SECOND, US, Batch, Duration, GroupId, Packet, ProcessId
from plainchant.lab.errors import LabError
from plainchant.protocols.newtop.packets import Data, Null
from plainchant.scenario.model import Delay, Network, Scenario, Workload
from plainchant.sim.application import Member

from ..observe import Observer
from ..runs import Given, names, rows_of, scenario

STATIONS: Final = 3
COST: Final = 5 * MS  # Processor time for a packet, sending or receiving.
DELAY: Final = Duration(1 * MS)
TICK: Final = Duration(50 * MS)
SLOWER: Final = 0.02
SIZE: Final = 32
MESSAGES: Final = 1000
_REPLY: Final = b"reply"
_LONGEST: Final = Duration(2000 * SECOND)  # Until when a run must have got quiet after the last message.


@dataclasses.dataclass(frozen=True, slots=True)
class Experiment:
    """What is varied in 7.3 and 8.2. Times are in ms."""

    members: int
    interval: float
    silence: int
    all_active: bool = False
    messages: int = MESSAGES  # Of each sender.
    blocks: int = 0  # N of flow control; 0: off.
    cost: int = COST
    slower: float = SLOWER
    seed: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it; mappings are by member."""

    experiment: Experiment
    unstable: Mapping[str, int]
    nulls: Mapping[str, int]
    delays: Mapping[str, float]  # Mean delay overhead in ms.
    throughput: float  # Messages a second.

    @property
    def most_unstable(self) -> int:
        return max(self.unstable.values())

    @property
    def all_nulls(self) -> int:
        return sum(self.nulls.values())

    @property
    def nulls_a_receiver(self) -> float:
        """Null multicasts of a member that sends nothing, on average."""
        return sum(count for name, count in self.nulls.items() if name != "p1") / (len(self.nulls) - 1)

    @property
    def delay(self) -> float:
        return sum(self.delays.values()) / len(self.delays)

    def row(self) -> dict[str, Any]:
        """As a row of data."""
        given = self.experiment
        return {
            "members": given.members, "active": "all" if given.all_active else "1", "interval_ms": given.interval,
            "silence_ms": given.silence, "blocks": given.blocks, "cost_us": given.cost // US, "seed": given.seed,
            "unstable": self.most_unstable, "unstable_at_sender": self.unstable["p1"], "nulls": self.all_nulls,
            "nulls_a_receiver": round(self.nulls_a_receiver, 2), "delay_ms": round(self.delay, 3),
            "delay_at_sender_ms": round(self.delays["p1"], 3), "throughput": round(self.throughput, 3),
        }  # fmt: skip


def scenario_of(experiment: Experiment) -> Scenario:
    """The scenario of an experiment; its replies are the applications' (:func:`perform`)."""
    members = names(experiment.members)
    draw = random.Random(f"{experiment.seed}/stations")
    senders = members if experiment.all_active else members[:1]
    workload = tuple(_loop(experiment, sender, number / experiment.members, draw) for number, sender in enumerate(senders, 1))
    longest = experiment.messages * experiment.interval * (1 + experiment.slower) + 2 * experiment.interval
    parameters = {
        "order": "total", "transport": "fifo", "silence_by": "ticks", "silence": Duration(experiment.silence * MS), "tick": TICK,
        "probe_after": Duration(2 * experiment.silence * MS), "pack": False, "announce_after": Duration(0),
        "suspect_after": Duration(0), "blocks": experiment.blocks,
    }  # fmt: skip
    machines = tuple(members[station::STATIONS] for station in range(min(STATIONS, len(members))))
    cost = Duration(experiment.cost)
    network = Network(delay=Delay("constant", DELAY), broadcast=False, send_cost=cost, receive_cost=cost, machines=machines)
    given: Given = {"seed": experiment.seed, "network": network, **parameters}
    return scenario("newtop", members, *workload, length=longest, drain=_LONGEST / MS, **given)


def _loop(experiment: Experiment, sender: str, share: float, draw: random.Random) -> Workload:
    rate = 1000 / (experiment.interval * (1 + share * experiment.slower))
    start = Duration(round(draw.random() * experiment.interval * MS))
    return Workload(senders=(sender,), rate=rate, count=experiment.messages, size=SIZE, start=start)


class _Meter(Observer):
    """Notes when messages arrive and are delivered, and null messages."""

    def __init__(self) -> None:
        super().__init__()
        self._arrived: dict[tuple[ProcessId, ProcessId, int], int] = {}
        self.waited, self.delivered, self.nulls = Counter[ProcessId](), Counter[ProcessId](), Counter[ProcessId]()

    def receiving(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Data):
            self._arrived[me, source, packet.batch.first] = self.hosts[me].now

    def sending(self, me: ProcessId, to: Any, packet: Packet) -> None:
        if isinstance(packet, Data):
            self._arrived[me, me, packet.batch.first] = self.hosts[me].now
        self.nulls[me] += isinstance(packet, Null)

    def delivering(self, me: ProcessId, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None) -> None:
        self.waited[me] += self.hosts[me].now - self._arrived.pop((me, sender, batch.first))
        self.delivered[me] += 1


class _User:
    """An application of 7.3.1: it delivers everything and replies; the first one waits for all replies."""

    def __init__(self, me: str, messages: int, members: int) -> None:
        self._me = me
        self._messages = messages
        self._replies = members - 1
        self.finished = 0

    def on_deliver(self, member: Member, group: str, sender: str, payload: bytes, seq: int) -> None:
        if payload.startswith(_REPLY):
            self._replies -= 1
        else:
            self._messages -= 1
            if not self._messages and self._me != "p1":
                member.send(group, _REPLY.ljust(SIZE))
        if not self._messages and not self._replies and not self.finished:
            self.finished = member.now


def perform(experiment: Experiment) -> Outcome:
    """Runs an experiment."""
    run = scenario_of(experiment)
    members = run.members
    total = experiment.messages * len(run.workload)
    users = {name: _User(name, total, len(members)) for name in members}
    meter = _Meter()
    summary, table = meter.run(run, applications=users)
    if not summary.quiet or not users["p1"].finished:
        raise LabError(f"an experiment did not come to its end: {experiment}: {summary.not_quiet}")
    first = pc.min(table.filter(pc.equal(table["kind"], "send"))["true_time"]).as_py()
    nulls = {name: meter.nulls[name] for name in members}
    delays = {name: meter.waited[name] / meter.delivered[name] / MS for name in members}
    return Outcome(experiment, _unstable(table, members), nulls, delays, total * SECOND / (users["p1"].finished - first))


def _unstable(table: Any, members: tuple[str, ...]) -> dict[str, int]:
    """The most unstable blocks that each member says that it has had."""
    most = dict.fromkeys(members, 0)
    for row in rows_of(table, "state"):
        most[row["process"]] = max(most[row["process"]], row["detail"].get("unstable", 0))
    return most
