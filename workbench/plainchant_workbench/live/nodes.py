"""Two nodes of four processes each: ``dedos`` within a node and across, beside a flat group over UDP, in the same run.

Theory of operation
-------------------
Everything is on this machine: a node is four processes with common memory of their own, and between nodes there is UDP on
loopback. What the hierarchy saves on a real network, packets, costs nothing here; what it adds, steps through memory and a
process more on the way, does. Nobody is pinned: the system places the processes.

*Rates* are of a flood by everybody, at the slowest member. *Delays* are of one message every ``period``, from ``send`` until
a receiver has read it, of receivers on the sender's node (itself among them) and of those on the other one. One sender is on
the first node, which orders (its relay is the distributor; in a flat group its first member is the sequencer) and one on the
second.

One round measures all arrangements, one right after the other, and ratios are of one round; of several rounds the median counts.
Everything waits for processors if the machine is busy: the load average stands beside it.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from plainchant.core.model import US
from plainchant.live.memory.server import MailboxServer, namespace_of
from plainchant.live.ports import free_ports

from .plan import LOOPBACK
from .processes import BenchError, Crew, cores
from .raw import RawUdp, measure_raw
from .session import Flood, Session
from .us import LIST_BYTES, MODULE

EACH: Final = 4
"""Processes of a node."""
PERIOD: Final = 0.02
"""Seconds between two messages whose delay counts."""
PATIENCE: Final = 60.0
"""Seconds until eight processes are a group, and until everything has arrived that was accepted in a flood, at the most."""
RAW_SECONDS: Final = 0.3
FIRST: Final = "n1"
SECOND: Final = "n2"


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """Who is measured."""

    name: str
    protocol: str
    nodes: int
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(f"{node}.{member}" for node in (FIRST, SECOND)[: self.nodes] for member in "abcd"[:EACH])

    @property
    def senders(self) -> tuple[str, ...]:
        """Whose delays count: the last of each node, which neither orders nor relays."""
        return tuple(f"{node}.{'abcd'[EACH - 1]}" for node in (FIRST, SECOND)[: self.nodes])


HIERARCHY: Final = Arrangement("dedos, two nodes", "dedos", 2)
FLAT: Final = Arrangement("sequencer, flat", "sequencer", 2)
NODE: Final = Arrangement("dedos, one node", "dedos", 1, {"reach": "node"})
FLAT_NODE: Final = Arrangement("sequencer, one node's processes", "sequencer", 1)
ARRANGEMENTS: Final = (HIERARCHY, FLAT, NODE, FLAT_NODE)
BESIDE: Final = {HIERARCHY: FLAT, NODE: FLAT_NODE}
"""What each is compared with."""


@dataclasses.dataclass(frozen=True)
class Found:
    """What one round of an arrangement came to."""

    flood: Flood
    delays: Mapping[tuple[str, str], tuple[int, ...]]
    """In ns, in order, by the sender's node and the receivers'."""

    def median(self, *ways: tuple[str, str]) -> float | None:
        """Of the delays on these ways together, in µs."""
        found = [delay for way in ways for delay in self.delays.get(way, ())]
        return statistics.median(found) / US if found else None

    @property
    def inside(self) -> float | None:
        return self.median((FIRST, FIRST), (SECOND, SECOND))

    @property
    def across(self) -> float | None:
        return self.median((FIRST, SECOND), (SECOND, FIRST))


def measure(arrangement: Arrangement, *, size: int, warm: float, seconds: float, messages: int) -> Found:
    """One round, with fresh processes; ``messages`` of each sender whose delays count."""
    memory = f"bench {os.urandom(8).hex()}"
    with ExitStack() as stack:
        for node in (FIRST, SECOND):
            stack.callback(MailboxServer(namespace_of(memory, node)).remove_all)
        crew = stack.enter_context(_start(arrangement, size, memory))
        crew.answers(seconds=PATIENCE)
        crew.pin(False)
        session = Session(crew, arrangement.members, range(len(arrangement.members)), patience=PATIENCE)
        delays: dict[tuple[str, str], list[int]] = {}
        for sender in arrangement.senders:
            _take_delays(crew, session, arrangement, sender, messages, delays)
        flood = session.flood(warm, seconds)
    return Found(flood, {way: tuple(sorted(each)) for way, each in delays.items()})


def _start(arrangement: Arrangement, size: int, memory: str) -> Crew:
    members = arrangement.members
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(members, free_ports(len(members)), strict=True)}
    task = {
        "protocol": arrangement.protocol,
        "parameters": dict(arrangement.parameters),
        "link_ms": 0,
        "peers": peers,
        "memory": memory,
        "packet": LOOPBACK,
        "size": size,
        "reading": "batches()",
        "sending": "send_many",
        "together": max(1, LIST_BYTES // size),
        "trace": None,
    }
    return Crew(MODULE, [{**task, "me": name} for name in members])


def _take_delays(
    crew: Crew, session: Session, arrangement: Arrangement, sender: str, messages: int, delays: dict[tuple[str, str], list[int]]
) -> None:
    crew.ask({"do": "watch", "watched": sender})
    answers = crew.ask({"do": "idle", "messages": messages, "period": PERIOD}, seconds=messages * PERIOD)
    session.compare(answers)
    sent = answers[arrangement.members.index(sender)]["times"]
    for receiver, report in zip(arrangement.members, crew.ask({"do": "times"}), strict=True):
        way = (_node(sender), _node(receiver))
        delays.setdefault(way, []).extend(there - at for at, there in zip(sent, report["arrivals"], strict=True))


def _node(member: str) -> str:
    return member.partition(".")[0]


# --- the whole ----------------------------------------------------------------------------------------------------------


def run(
    *, rounds: int, seconds: float, size: int = 32, warm: float = 0.5, messages: int = 100,
    progress: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:  # fmt: skip
    """Measures everything; what ``plainchant bench nodes --json`` prints."""
    here = machine(seconds)
    found: dict[Arrangement, list[Found | None]] = {each: [] for each in ARRANGEMENTS}
    errors: dict[Arrangement, str] = {}
    raw: list[RawUdp] = []
    for number in range(rounds):
        progress(f"raw UDP (round {number + 1} of {rounds})")
        raw.append(measure_raw(size, LOOPBACK, seconds=RAW_SECONDS))
        for each in ARRANGEMENTS:
            progress(f"{each.name} (round {number + 1} of {rounds})")
            try:
                found[each].append(measure(each, size=size, warm=warm, seconds=seconds, messages=messages))
            except BenchError as error:
                errors[each] = str(error)
                found[each].append(None)
    return {
        "rows": [row(each, found[each], errors.get(each)) for each in ARRANGEMENTS],
        "ratios": [ratio for each, other in BESIDE.items() if (ratio := compare(each, other, found)) is not None],
        "raw": {
            "rtt_us_p50": round(min(each.rtt_us_p50 for each in raw), 1),
            "datagrams_per_s": round(max(each.datagrams_per_s for each in raw)),
        },
        "machine": here | {"load_average_after": _load_average()},
        "size": size,
    }


def row(arrangement: Arrangement, rounds: Sequence[Found | None], error: str | None) -> dict[str, Any]:
    """A row of the result: the medians of the rounds."""
    good = [each for each in rounds if each is not None]
    return {
        "name": arrangement.name,
        "protocol": arrangement.protocol,
        "members": len(arrangement.members),
        "nodes": arrangement.nodes,
        "rounds": len(good),
        "error": error,
        "messages_per_s": _median([each.flood.messages_per_s for each in good], 0),
        "best_messages_per_s": round(max((each.flood.messages_per_s for each in good), default=0.0)),
        "cpu_us_per_message": _median([each.flood.cpu_us_per_message for each in good], 2),
        "inside_us_p50": _median([each.inside for each in good], 1),
        "across_us_p50": _median([each.across for each in good], 1),
        "from_first_us_p50": {
            "inside": _median([each.median((FIRST, FIRST)) for each in good], 1),
            "across": _median([each.median((FIRST, SECOND)) for each in good], 1),
        },
        "from_second_us_p50": {
            "inside": _median([each.median((SECOND, SECOND)) for each in good], 1),
            "across": _median([each.median((SECOND, FIRST)) for each in good], 1),
        },
    }


def compare(
    arrangement: Arrangement, other: Arrangement, found: Mapping[Arrangement, Sequence[Found | None]]
) -> dict[str, Any] | None:
    """Rates and delays to those of the other, round by round; None: no round has both."""
    together = zip(found[arrangement], found[other], strict=True)
    pairs = [(ours, its) for ours, its in together if ours is not None and its is not None]
    if not pairs:
        return None
    rates = [ours.flood.messages_per_s / its.flood.messages_per_s for ours, its in pairs if its.flood.messages_per_s]
    return {
        "name": arrangement.name,
        "to": other.name,
        "rounds": len(pairs),
        "messages_per_s": _spread(rates),
        "inside": _spread([ours.inside / its.inside for ours, its in pairs if ours.inside and its.inside]),
        "across": _spread([ours.across / its.across for ours, its in pairs if ours.across and its.across]),
    }


def machine(seconds: float) -> dict[str, Any]:
    """Where it was measured."""
    return {
        "cores": len(cores()) or os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "seconds": seconds,
        "load_average_before": _load_average(),
    }


def _load_average() -> float | None:
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _median(values: Sequence[float | None], digits: int) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), digits or None) if known else None


def _spread(ratios: Sequence[float]) -> dict[str, float] | None:
    if not ratios:
        return None
    return {"median": round(statistics.median(ratios), 4), "least": round(min(ratios), 4), "largest": round(max(ratios), 4)}
