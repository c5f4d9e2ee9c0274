"""The fault sweep of rtcast: from a seed to a scenario of one ring, and from a run to a verdict and its situations.

A seed decides the size of the ring, the stack (admission control, clocks, overtaking, r = 0 to 3, delivery), the network, the
load and the faults. Seeds fall into families, which take turns:

- *steady*, *crashes*, *churn*, *omissions*, *deadlines* and *votes* stay within what every promise allows, times too: members
  fail one after the other, and a data packet is lost at most r times. There everything promised is verified, and *halted*:
  nobody stops but who was made to; *shut out*: who asks to be let in is let in; *undetected*: each injected crash is matched by
  views without the process; *taken back*: what was promised stays promised.
- *storm*, *instrumented* (6.3) and *loss* do not: several members fail at once, and packets are lost, heartbeats too. There
  order, atomicity and agreement are verified, and that the run comes to rest; a member may stop, and comes back.

What a trace does not show is watched from inside the stack (:class:`Watch`).
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plainchant.core.engine import Engine, Host, Layer, PerGroup
from plainchant.core.model import MS, SECOND, US, Duration, Packet, ProcessId
from plainchant.core.names import is_place
from plainchant.lab.metrics.detections import match
from plainchant.protocols.rtcast import DESCRIPTION, Parameters, Ring
from plainchant.protocols.rtcast.analysis import Demand, Turn
from plainchant.protocols.rtcast.interface import Interface
from plainchant.protocols.rtcast.order import Place
from plainchant.protocols.rtcast.packets import Data
from plainchant.scenario.model import Clock, Delay, Fault, Network, RandomFaults, Scenario, Workload

from .. import sweeping
from ..sweeping import Make, ms

GROUP = "g"
FAMILIES = ("steady", "crashes", "churn", "omissions", "deadlines", "votes", "storm", "instrumented", "loss")
UNTIMED = ("storm", "instrumented", "loss")
"""Families in which more goes wrong than promises about time allow for."""
SHARED = ("deadlines", "votes")
"""Families in which sending takes the time that it is reckoned with: one medium for all, with the bandwidth of the parameters."""
TIMES = frozenset({"deadline", "bounded"})
SEEDS = 72
"""The ordinary sweep: each family with each r, twice."""
SHORT = (*range(36), 39, 61)
"""What ``make test`` has of it: each with each once, and what is rare."""
REGRESSIONS = (121, 169, 193, 230, 653)
"""Seeds of runs that once went wrong; they are run however short the sweep is."""
MAX_PACKET = 400
NUMBERS = 64

SITUATIONS = (
    "elimination",
    "false omission",
    "crash in a broadcast",
    "retransmission",
    "overtaking",
    "leave",
    "rejoin",
    "join",
    "two joins at once",
    "vote",
    "collision",
    "reclaim",
    "roll-over",
    "admitted",
    "rejected",
    "aperiodic",
    "long message",
    "omission halts",
    "clocks synchronised",
    "safe delivery",
    "minimal stack",
    "omission repaired",
)
"""What has to occur; see :func:`situations`."""


# --- what is watched --------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Watched:
    """What the processes of one run were seen to do."""

    early: int = 0
    """Packets that came before those which are before them in the order."""


class Watch(Layer):
    """A layer around a process's engine that looks at the order when a packet comes."""

    inner: PerGroup

    def __init__(self, host: Host, inside: Callable[[Host], Engine], watched: Watched) -> None:
        self.watched = watched
        super().__init__(host, inside)

    def receive(self, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Data):
            order = self._ring().order
            if order is not None and order.place(packet) is Place.EARLY:
                self.watched.early += 1
        self.inner.receive(source, packet)

    def _ring(self) -> Ring:
        engine: Any = self.inner.instances[GROUP]
        while not isinstance(engine, Ring):
            engine = engine.inner
        return engine


@dataclasses.dataclass(frozen=True)
class Outcome(sweeping.Outcome):
    """What a run of the sweep came to."""

    watched: Watched

    @property
    def violated(self) -> list[str]:
        """The properties and bounds that do not hold, and ``quiet`` if the run did not come to rest."""
        names = self.broken()
        if family_of(self.seed) in UNTIMED:
            return [name for name in names if name not in TIMES]
        if self.halted():
            names.append("halted")
        if self.shut_out():
            names.append("shut out")
        if self._undetected():
            names.append("undetected")
        if self.taken_back():
            names.append("taken back")
        return names

    def broken(self) -> list[str]:
        """The promises that are not kept, whatever the family allows."""
        return super().violated

    def rows(self, *kinds: str) -> list[dict[str, Any]]:
        """The rows of some kinds, in the order of time, with their details."""
        rows: list[dict[str, Any]] = self.table.filter(pc.is_in(self.table["kind"], pa.array(kinds))).to_pylist()
        for row in rows:
            row["detail"] = json.loads(row["detail"]) if row["detail"] else {}
        return sorted(rows, key=lambda row: (row["true_time"], row["process"], row["index"]))

    def halted(self) -> list[str]:
        """Why processes stopped that nobody made to."""
        return [row["detail"]["reason"] for row in self.rows("crash") if row["detail"].get("by") != "fault"]

    def shut_out(self) -> list[ProcessId]:
        """Processes that asked to be let in and were refused for good."""
        return [row["process"] for row in self.rows("refused")]

    def taken_back(self) -> list[str]:
        """Streams that were promised and then were not, since P had grown."""
        promised = {(row["process"], row["detail"]["stream"]) for row in self.rows("admit")}
        refused = [(row["process"], row["detail"]["stream"]) for row in self.rows("reject") if not row["detail"].get("join")]
        return [stream for process, stream in refused if (process, stream) in promised]

    def _undetected(self) -> bool:
        counts = detections(self)
        return bool(counts["crashes"] != counts["crashes_matched"] or counts["halts_unprovoked"])


def run(seed: int, variant: Make | None = None, scenario: Scenario | None = None) -> Outcome:
    """Runs and verifies one seed, with the protocol or a variant of it."""
    scenario = scenario or scenario_of(seed)
    engine = variant or DESCRIPTION.make
    watched = Watched()

    def watching(host: Host, parameters: Any) -> Engine:
        return Watch(host, lambda inner: engine(inner, parameters), watched)

    found = sweeping.run_and_verify(seed, scenario, watching, 0)
    fields = {field.name: getattr(found, field.name) for field in dataclasses.fields(sweeping.Outcome)}
    return Outcome(**fields, watched=watched)


# --- situations -------------------------------------------------------------------------------------------------------


def situations(outcome: Outcome) -> Counter[str]:
    """What happened in a run; each situation counts once."""
    parameters = outcome.scenario.parameters
    found: dict[str, bool] = {
        "overtaking": outcome.watched.early > 0 and _is_lossless(outcome.scenario),
        "safe delivery": parameters.get("delivery") == "safe",
        "minimal stack": is_minimal(outcome.seed),
        "roll-over": _rolls_over(outcome),
    }
    for row in outcome.rows(
        "confirm", "view", "crash", "retransmit", "query", "collision", "admit", "reject", "deliver", "sync", "leave", "fault"
    ):
        found.update(dict.fromkeys(_named(row), True))
    found["omission repaired"] = detections(outcome)["omissions_repaired"] > 0
    return Counter([name for name, occurs in found.items() if occurs])


def detections(outcome: Outcome) -> dict[str, int]:
    """The injected failures of a run, and what was detected of them."""
    counts: dict[str, Any] = match(outcome.table).to_pylist()[0]
    return {name: count for name, count in counts.items() if name != "run"}


def _named(row: Mapping[str, Any]) -> list[str]:
    """The situations that one row shows."""
    kind, detail = row["kind"], row["detail"]
    if kind == "confirm":
        names = {"eliminate": "elimination", "reclaim": "reclaim"}
        found = [names[name] for name in detail["kinds"] if name in names]
        return [*found, "false omission"] if "elimination" in found and detail["by"] != row["process"] else found
    if kind == "view":
        joined = detail.get("joined", [])
        found = ["join"] if joined else []
        found += ["two joins at once"] if len(joined) > 1 else []
        return [*found, "rejoin"] if any(not is_place(process) for process in joined) else found
    if kind == "crash":
        return ["omission halts"] if detail.get("reason") == "omission" else []
    if kind == "fault":
        return ["crash in a broadcast"] if detail.get("mid_broadcast") else []
    if kind == "admit":
        found = ["admitted"] if detail["period_ns"] else ["admitted", "aperiodic"]
        return [*found, "long message"] if detail["pieces"] > 1 else found
    if kind == "reject":
        return ["joiner tries again" if detail.get("join") else "rejected"]
    return [_BY_KIND[kind]] if kind in _BY_KIND else []


_BY_KIND: Mapping[str, str] = {
    "retransmit": "retransmission",
    "query": "vote",
    "collision": "collision",
    "sync": "clocks synchronised",
    "leave": "leave",
}


def _is_lossless(scenario: Scenario) -> bool:
    network, rates = scenario.network, scenario.random
    lost = network.loss or network.corrupt or rates.omit
    return not lost and not any(fault.kind == "omit" or fault.mid_broadcast for fault in scenario.fault)


def _rolls_over(outcome: Outcome) -> bool:
    turns = Counter(row["process"] for row in outcome.rows("token"))
    return bool(max(turns.values(), default=0) > outcome.scenario.parameters["numbers"])


# --- from a seed to a scenario ----------------------------------------------------------------------------------------


def family_of(seed: int) -> str:
    return FAMILIES[seed % len(FAMILIES)]


def is_minimal(seed: int) -> bool:
    """Whether the stack is the ring alone (Fig. 8 b), which a medium that keeps the order can do with."""
    return family_of(seed) not in SHARED and seed // len(FAMILIES) % 8 == 4


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed."""
    random = Random(f"rtcast sweep {seed}")
    family = family_of(seed)
    retransmissions = seed // len(FAMILIES) % 4
    members = tuple(f"p{number + 1}" for number in range(random.choice((2, 3, 3, 4, 4, 5, 6))))
    if family in ("crashes", "omissions", "deadlines", "votes") and len(members) == 2:
        members = (*members, "p3")
    later = ("q1", "q2")[: random.choice((1, 2, 2))] if family in ("churn", "votes") else ()
    parameters = _parameters(random, family, retransmissions)
    network = _network(random, family, Parameters(**parameters))
    parameters["overtaking"] = network.delay.kind != "constant" or random.random() < 0.3
    if is_minimal(seed):
        parameters |= {"admission": False, "clocks": "none", "overtaking": False}
        network = dataclasses.replace(network, delay=Delay("constant", Duration(1 * MS)))
    declared = Parameters(**parameters)
    duration = ms(380, 480, random)
    return Scenario(
        protocol="rtcast",
        name=f"rtcast-{seed}",
        about=f"{family}, r = {retransmissions}",
        seed=seed,
        duration=duration,
        drain=Duration(4 * SECOND),
        members=members,
        later=later,
        groups={GROUP: members},
        parameters=parameters,
        network=network,
        workload=_workload(random, family, declared, members, later, network.max_packet),
        fault=_faults(random, family, declared, members, later, duration),
        random=_random_faults(random, family, declared),
        clock=_clocks(random, declared, members),
    )


def _parameters(random: Random, family: str, retransmissions: int) -> dict[str, Any]:
    admission = family in SHARED or random.random() < 0.5
    clocks = random.choice(("assumed", "assumed", "synchronised", "none"))
    parameters: dict[str, Any] = {
        "retransmissions": retransmissions,
        "admission": admission,
        "delivery": "immediate" if admission or random.random() < 0.7 else "safe",
        "clocks": clocks,
        "clock_every": Duration(60 * MS),
        "hold": Duration(random.choice((4, 4, 6) if family in SHARED else (3, 4)) * MS),
        "idle_hold": Duration(random.choice((200 * US, 1 * MS, 2 * MS, 2 * MS))),
        "heartbeats": random.choice((1, 2) if family not in UNTIMED else (1, 2, 3)),
        "numbers": random.choice((NUMBERS, 65_536)),
        "collisions": family == "churn" and random.random() < 0.6,
        "reclaim_after": Duration(random.choice((30, 60, 2_000)) * MS),
        "gather": Duration(120 * MS),
        "partitions": random.choice(("any", "any", "majority")) if family in UNTIMED else "any",
    }
    # Where requests collide, those who wait equally long collide again.
    return {**parameters, "backoff": 8 if parameters["collisions"] else 2}


def _network(random: Random, family: str, declared: Parameters) -> Network:
    largest = int(declared.delay_max)
    delay = random.choice(
        (
            Delay("constant", Duration(1 * MS)),
            Delay("constant", Duration(largest)),
            Delay("uniform", Duration(largest // 10), Duration(largest)),
            Delay("uniform", Duration(largest // 10), Duration(largest)),
        )
    )
    max_packet = random.choice((MAX_PACKET, 1400))
    if family in SHARED:
        # What a turn sends leaves packet by packet, and so in the order in which it was sent; the rest of d_max is for the queue.
        slower = Delay("uniform", Duration(largest // 10), Duration(largest * 3 // 4))
        quiet = Delay("constant", Duration(random.choice((largest // 4, largest * 3 // 4))))
        return Network(
            delay=random.choice((slower, quiet)),
            bandwidth=declared.bandwidth,
            shared=True,
            max_packet=max_packet,
        )
    wire = random.random() < 0.1
    if family != "loss":
        return Network(delay=delay, max_packet=max_packet, wire=wire, duplicate=random.choice((0.0, 0.0, 0.05)))
    return Network(
        delay=delay,
        max_packet=max_packet,
        loss=random.choice((0.001, 0.004, 0.01)),
        duplicate=random.choice((0.0, 0.02)),
        corrupt=random.choice((0.0, 0.002)),
        wire=wire,
    )


def _clocks(random: Random, declared: Parameters, members: Sequence[ProcessId]) -> tuple[Clock, ...]:
    if declared.clocks == "assumed":
        return ()
    drift = random.choice((0.0, float(declared.clock_drift))) * random.choice((-1, 1))
    return (Clock(process=random.choice(members), offset=random.choice((-40, 3, 500)) * MS, drift=drift),)


def _workload(
    random: Random, family: str, declared: Parameters, members: Sequence[ProcessId], later: Sequence[ProcessId], max_packet: int
) -> tuple[Workload, ...]:
    if family in SHARED:
        return _streams(random, family, declared, members, later, max_packet)
    size = random.choice((20, 20, 300, 3 * max_packet))
    loads = [Workload(rate=random.choice((20.0, 60.0)), arrivals=random.choice(("regular", "poisson")), size=size)]
    if random.random() < 0.3:
        loads.append(Workload(senders=(random.choice(members),), rate=30.0, burst=random.choice((3, 8)), size=max_packet - 50))
    return tuple(loads)


def _streams(
    random: Random, family: str, declared: Parameters, members: Sequence[ProcessId], later: Sequence[ProcessId], max_packet: int
) -> tuple[Workload, ...]:
    """Periodic streams that take nearly all of a turn, messages that ask one by one, and more without a deadline than there is
    time for."""
    interface = Interface(declared)
    ring = (*members, *later)
    rotation = interface.rotation(ring, [interface.hold(process) for process in ring])
    turn = Turn(declared, members[0], rotation, max_packet, ring)
    loads = []
    share = random.choice((0.5, 0.9)) if family == "deadlines" else 0.5
    for number in range(count := random.choice((1, 2))):
        visits = random.choice((1, 2, 4))
        deadline = turn.delay + visits * rotation + random.randrange(rotation)
        size = _fitting(turn, deadline, visits, round((turn.hold - turn.reserved) * share / count))
        if size < 1:
            continue
        period = deadline + US + (random.randrange(rotation) if number else 0)
        loads.append(
            Workload(
                rate=SECOND / period,
                size=size,
                deadline=Duration(deadline),
                start=Duration(random.randrange(40) * MS),
            )
        )
    if random.random() < 0.7:
        loads.append(
            Workload(
                rate=random.choice((5.0, 15.0)),
                arrivals="poisson",
                size=random.choice((10, 120)),
                deadline=Duration(turn.delay + random.choice((1, 2, 3)) * rotation),
            )
        )
    loads.append(Workload(rate=random.choice((10.0, 60.0)), size=random.choice((100, max_packet)), burst=random.choice((1, 4))))
    return tuple(loads)


def _fitting(turn: Turn, deadline: int, visits: int, room: int) -> int:
    """The largest message that takes no more than ``room`` of a turn."""
    low, high = 0, 64_000
    while low < high:
        middle = (low + high + 1) // 2
        if turn.share(Demand("", deadline, deadline, middle), visits) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _random_faults(random: Random, family: str, declared: Parameters) -> RandomFaults:
    back = Duration(40 * MS)
    if family == "storm":
        leaves = random.choice((0.0, 5.0))
        return RandomFaults(crash=random.choice((6.0, 12.0)), leave=leaves, restart_after=back, restart_halted=1.0)
    if family == "instrumented":
        most = declared.retransmissions + 1
        return RandomFaults(
            crash=4.0,
            restart_after=back,
            restart_halted=1.0,
            omit=random.choice((10.0, 25.0)),
            omit_most=most,
            omit_packet=random.choice(("", "Data")),
        )
    if family == "loss":
        return RandomFaults(crash=random.choice((0.0, 3.0)), restart_after=back, restart_halted=1.0)
    return RandomFaults()


def _faults(
    random: Random,
    family: str,
    declared: Parameters,
    members: Sequence[ProcessId],
    later: Sequence[ProcessId],
    duration: Duration,
) -> tuple[Fault, ...]:
    """One after the other, each when the one before is over."""
    if family in UNTIMED or family == "steady":
        return ()
    interface = Interface(declared)
    ring = (*members, *later)
    apart = (2 + declared.retransmissions) * interface.rotation(ring, [interface.hold(process) for process in ring])
    faults: list[Fault] = []
    at = 60 * MS + random.randrange(apart)
    lost: dict[ProcessId, None] = {}
    asked = False
    while at < duration:
        alive = [process for process in members if process not in lost]
        kind = random.choice(_KINDS[family])
        if kind == "join" and (asked or not later):
            kind = "leave" if len(alive) > 2 else "omit"
        if kind == "join":
            asked = True
            together = random.random() < 0.6
            faults += [
                Fault(kind="join", at=Duration(at + (0 if together else number * apart // 2)), process=process)
                for number, process in enumerate(later)
            ]
        elif kind in ("crash", "leave") and len(alive) > 2:
            process = random.choice(alive)
            lost[process] = None
            # With r = 0 nobody can be given what only some have heard: members stop (see storm).
            half = kind == "crash" and declared.retransmissions > 0 and random.random() < 0.5
            faults.append(Fault(kind=kind, at=Duration(at), process=process, mid_broadcast=half))
            if kind == "crash" and random.random() < 0.7:
                faults.append(Fault(kind="restart", at=Duration(at + apart), process=process))
        elif kind == "omit" and declared.retransmissions:
            target = random.choice(alive)
            count = random.randint(1, declared.retransmissions)
            faults.append(Fault(kind="omit", at=Duration(at), process=target, packet="Data", count=count))
        at += apart + random.randrange(apart)
    return tuple(sorted((fault for fault in faults if fault.at < duration), key=lambda fault: fault.at))


_KINDS: Mapping[str, tuple[str, ...]] = {
    "crashes": ("crash",),
    "churn": ("join", "join", "leave", "crash"),
    "omissions": ("omit", "omit", "crash"),
    "deadlines": ("omit", "crash"),
    "votes": ("join", "join", "omit", "crash"),
}
