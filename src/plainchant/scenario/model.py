"""A scenario as data: who takes part, what they send, on what network, with which faults, for how long.

Every field is declared once (default, unit, range, one sentence); the loader, ``--set``, the validation of single values
and their error messages are made from these declarations, and a test finds every key in the docs. Durations are
nanoseconds here and text such as ``"50ms"`` in files. A scenario is complete: written out again it replays the same run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from ..core.model import MS, SECOND, Duration, parameter

_MOST_FAULTS: Final = 1000  # of a kind per second: the schedule is drawn before the run; a mistyped rate must not fill the memory


def _duration(about: str, default: int = 0) -> Any:
    return parameter(Duration(default), about, unit="duration", minimum=0)


def _share(about: str, default: float = 0.0) -> Any:
    return parameter(default, about, minimum=0, maximum=1)


def _per_second(about: str) -> Any:
    """A rate of random faults."""
    return parameter(0.0, about, unit="1/s", minimum=0, maximum=_MOST_FAULTS)


@dataclasses.dataclass(frozen=True, slots=True)
class Delay:
    """How long a packet is under way. In a file: ``"1ms"``, ``{uniform = ["1ms", "5ms"]}`` or
    ``{exponential = "2ms", minimum = "1ms"}`` (mean of the exponential part, added to the minimum)."""

    kind: Literal["constant", "uniform", "exponential"] = parameter("constant", "shape of the distribution")
    low: Duration = _duration("the constant, the smallest value, or the minimum", 1 * MS)
    high: Duration = _duration("the largest value (uniform) or the mean above the minimum (exponential)")


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """What one direction of one connection does to packets. Rates are probabilities per packet and destination."""

    delay: Delay = parameter(factory=Delay, about="time under way")
    loss: float = _share("share of packets lost")
    duplicate: float = _share("share of packets that arrive twice")
    reorder: float = _share("share of packets held back by up to four times the delay, so that later ones overtake")
    corrupt: float = _share("share of packets with flipped bits (the checksum finds it; the packet is dropped)")
    bandwidth: int = parameter(0, "bits per second of the link; 0 is unlimited", unit="bit/s", minimum=0)


@dataclasses.dataclass(frozen=True, slots=True)
class LinkOverride(Link):
    """A link that differs from the others: ``[[network.link]]``. What a file leaves out is taken from ``[network]``."""

    source: str = parameter("", "process the packets come from; empty: any")
    target: str = parameter("", "process the packets go to; empty: any")


@dataclasses.dataclass(frozen=True, slots=True)
class Network(Link):
    """The network: what every link does, and what is common to all."""

    broadcast: bool = parameter(True, "a packet to many is one packet on the wire (hardware broadcast), not one each")
    shared: bool = parameter(False, "one medium for all, as 1989's Ethernet: packets queue for it (needs bandwidth)")
    slot: Duration = _duration(
        "shared medium: stations that wait for it collide and lose slots of this length (51.2us on an Ethernet); 0: they queue"
    )
    outgoing: int = parameter(
        0,
        "shared medium: packets that wait for it in a sender's interface; with more its processor waits; 0 is unlimited",
        minimum=0,
    )
    header: int = parameter(0, "bytes that every packet adds on the wire", unit="bytes", minimum=0)
    minimum_frame: int = parameter(
        0, "a packet on the wire has at least so many bytes (64 on an Ethernet)", unit="bytes", minimum=0
    )
    send_cost: Duration = _duration("processor time to send a packet")
    receive_cost: Duration = _duration("processor time to receive a packet")
    machines: tuple[tuple[str, ...], ...] = parameter(
        (), "processes that share a processor, machine by machine; who is on none has a processor of its own"
    )
    buffer: int = parameter(0, "packets that wait for a busy receiver; further ones are lost; 0 is unlimited", minimum=0)
    max_packet: int = parameter(1400, "bytes of messages that a packet may carry", unit="bytes", minimum=64, maximum=65000)
    wire: bool = parameter(False, "encode every packet to bytes and decode it again, as live hosts do")
    link: tuple[LinkOverride, ...] = parameter((), "links that differ")


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """Common memory, for protocols on it: how long operations take, within the bounds that the protocol's parameters say."""

    duration: str = parameter(
        "uniform",
        "what an operation takes: anything from 0 to its bound, always the bound, nothing, or one of the two",
        choices=("uniform", "max", "min", "extremes"),
    )
    share: float = parameter(1.0, "the longest duration, as a share of the bound; above 1: bounds are exceeded", minimum=0)
    service: Duration = _duration(
        "a module does one operation at a time, and each takes it for so long; others wait; 0: nobody waits"
    )
    detection: Duration = _duration(
        "how long after a crash the process membership service tells the others, unless one of them reports it before", 10 * MS
    )
    operations: bool = parameter(False, "write every operation into the trace, when it is over")


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """Who sends what: ``[[workload]]``, as many as wanted."""

    senders: tuple[str, ...] = parameter((), "processes that send; empty: all members of the group")
    group: str = parameter("", "group they send in; empty: every group each of them is in")
    rate: float = parameter(0.0, "messages per second and sender (open loop); 0: as fast as accepted", unit="1/s", minimum=0)
    arrivals: str = parameter("regular", "spacing of an open loop", choices=("regular", "poisson"))
    closed: int = parameter(0, "closed loop: so many messages of a sender under way; 0: open loop", minimum=0)
    burst: int = parameter(1, "messages handed over at once", minimum=1)
    size: int = parameter(32, "bytes of a message", unit="bytes", minimum=0, maximum=64 * 1024 * 1024)
    cost: Duration = _duration("time that its sender's processor spends on a message before the protocol gets it")
    count: int = parameter(0, "messages a sender sends in all; 0: until the scenario ends", minimum=0)
    start: Duration = _duration("when sending begins")
    stop: Duration = _duration("when sending ends; 0: at the end of the scenario")
    deadline: Duration = _duration(
        "open loop: a message is delivered within so long or not sent at all: a sender asks for a stream (regular) or for every "
        "message (poisson) to be admitted; 0: no deadline"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Clock:
    """A process's clock: ``[[clock]]``. It reads true time x (1 + drift) + offset (+ steps)."""

    process: str = parameter("", "whose clock; empty: every process's")
    offset: int = parameter(0, "how far it is ahead of true time", unit="duration")
    drift: float = parameter(0.0, "how much faster it runs (0.0001: 100 ppm)", minimum=-0.5, maximum=0.5)


FAULTS = {
    "crash": "the process stops for ever: at a time, after its k-th event, or in the middle of its next broadcast",
    "restart": "a crashed or halted process comes back as a new incarnation and joins its groups again",
    "join": "a process that is not a member joins its groups",
    "leave": "the process leaves its groups (or one of them)",
    "form": "the process proposes a group to `members`, while they are in other groups; those who agree form it",
    "refuse": "from now on the process does not agree to groups that are proposed to it (or to one of them)",
    "close": "the process closes a group for all its members",
    "rename": "the process gives a group another name",
    "pause": "the process does nothing for a while (a slow process); packets wait for it",
    "partition": "the network falls into parts; packets between parts are lost",
    "cut": "packets from source to target are lost (one way)",
    "clog": "packets from source to target (or of everybody) take longer by `delay`",
    "loss": "packets from source to target (or of everybody) are lost at `rate`",
    "omit": "the process drops its next incoming packet, or the next `count` (of one packet, where packets say what they carry)",
    "lan": "a network crashes: all packets on it are lost",
    "heal": "ends every partition, cut, clog and loss, and lets networks that crashed work again",
    "step": "the process's clock jumps by `offset`",
    "module": "a memory module crashes; every copy in it is lost",
    "node": "a node crashes: all its processes at once, and what was in its memory",
    "processor": "a processor crashes: all processes on it at once",
    "slow": "operations of the process on common memory take `delay` longer for `length`",
    "sluggish": "the process's application takes no messages for `length`",
    "busy": "the process gets only a share of a processor for `length`: it is stopped, in turns, for `rate` of the time",
    "disk": "the disk that the process records on is full, but for `room` bytes; it halts when it can record nothing more",
}
SLICE: Final = 20 * MS  # a process that is busy is stopped, and goes on, once in such a time


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong: ``[[fault]]``."""

    kind: str = parameter("", "what happens", choices=tuple(FAULTS))
    at: Duration = _duration("when it happens")
    process: str = parameter("", "the process it happens to")
    group: str = parameter("", "the group it concerns; empty (join, leave, refuse): all of the process's groups")
    members: tuple[str, ...] = parameter((), "form: to whom the group is proposed")
    name: str = parameter("", "rename: the group's new name")
    after_events: int = parameter(0, "crash: not at a time, but when the process has handled so many events", minimum=0)
    mid_broadcast: bool = parameter(False, "crash: during its next packet to several processes, which only some of them get")
    length: Duration = _duration(
        "how long it lasts (pause, partition, cut, clog, loss, lan, slow, sluggish, busy); 0: until healed"
    )
    parts: tuple[tuple[str, ...], ...] = parameter((), "partition: the parts, as lists of processes; who is in none is alone")
    source: str = parameter("", "cut, clog, loss, omit: where packets come from; empty: any")
    target: str = parameter("", "cut, clog, loss: where packets go to; empty: any")
    delay: Duration = _duration("clog, slow: added delay")
    rate: float = _share("loss: share of packets lost; busy: share of the time in which it is stopped")
    packet: str = parameter("", "omit: the kind of packet, one of the protocol's; empty: any")
    count: int = parameter(
        1, "omit: packets that are dropped; sluggish: so many messages of a group wait when the protocol is told of it", minimum=1
    )
    offset: int = parameter(0, "step: how far the clock jumps (may be negative)", unit="duration")
    module: int = parameter(0, "module: which one, counted from 1", minimum=0)
    node: str = parameter("", "module: the node that it is in, where there are several; node: which one")
    processor: str = parameter("", "processor: which one")
    lan: int = parameter(0, "lan: which network, counted from 1", minimum=0)
    room: int = parameter(0, "disk: bytes that still fit", unit="bytes", minimum=0)


@dataclasses.dataclass(frozen=True, slots=True)
class RandomFaults:
    """Faults drawn from the seed: ``[random]``. Rates are expected numbers per second of the whole run."""

    crash: float = _per_second("crashes (half of them in the middle of a broadcast)")
    restart: float = _share("share of crashed processes that come back", 1.0)
    restart_after: Duration = _duration("how long they stay away, on average", 300 * MS)
    restart_halted: float = _share("share of processes halted by their protocol that come back, 1 ms later at the earliest")
    pause: float = _per_second("pauses")
    pause_length: Duration = _duration("their mean length", 100 * MS)
    partition: float = _per_second("partitions into two or three parts")
    cut: float = _per_second("one-way cuts")
    clog: float = _per_second("slow links")
    network_length: Duration = _duration("mean length of partitions, cuts, slow links and crashes of networks", 150 * MS)
    leave: float = _per_second("members that leave, and join again as new incarnations")
    step: float = _per_second("clock steps")
    step_most: Duration = _duration("they are up to so much, either way", 50 * MS)
    omit: float = _per_second("processes that drop incoming packets")
    omit_most: int = parameter(1, "they drop 1 to so many each", minimum=1)
    omit_packet: str = parameter("", "the kind of packet that they drop, one of the protocol's; empty: any")
    module: float = _per_second("memory modules that crash, all but one of a node at the most")
    slow: float = _per_second("processes whose operations on common memory take longer")
    slow_length: Duration = _duration("mean length of that", 10 * MS)
    slow_delay: Duration = _duration("how much longer they take, on average", 1 * MS)
    node: float = _per_second("nodes that crash")
    keep_nodes: int = parameter(1, "so many nodes always have a process that is not lost", minimum=1)
    processor: float = _per_second("processors that crash")
    lan: float = _per_second("networks that crash, all but one at a time at the most")
    sluggish: float = _per_second("processes whose applications take no messages for a while")
    sluggish_length: Duration = _duration("mean length of that", 50 * MS)
    busy: float = _per_second("processes that get a share of a processor only")
    busy_length: Duration = _duration("mean length of that", 500 * MS)
    disk: float = _per_second(
        "processes whose disk is full; they halt, and as many of them as of crashed ones come back, to a disk with room"
    )
    steady: tuple[str, ...] = parameter(
        (), "members that are never crashed, stopped, cut off, without a disk or made to leave; other faults happen to them"
    )
    most_lost: int = parameter(
        0,
        "never more processes crashed, paused or cut off at once than this (with their nodes: not counted); 0: a minority",
        minimum=0,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """The whole scenario. ``members`` in a file is a number (p1, p2, ...) or a list of names."""

    protocol: str = parameter("", "the protocol, by name (see `plainchant protocols`)")
    name: str = parameter("", "a short name; by default the file's")
    about: str = parameter("", "what this scenario shows, in a sentence or two")
    seed: int = parameter(0, "decides everything that is drawn at random", minimum=0)
    duration: Duration = parameter(Duration(1 * SECOND), "how long senders send and faults happen", unit="duration", minimum=1)
    drain: Duration = _duration("after that, how long the run may take to get quiet; 0: it is not drained", 30 * SECOND)
    members: tuple[str, ...] = parameter((), "the processes that form the groups at the start")
    later: tuple[str, ...] = parameter((), "processes that exist but join only by a fault of kind join")
    groups: dict[str, tuple[str, ...]] = parameter(
        factory=dict, about="groups and their first members; by default one group `g` of all"
    )
    parameters: dict[str, Any] = parameter(factory=dict, about="the protocol's own parameters")
    network: Network = parameter(factory=Network, about="the network")
    memory: Memory = parameter(factory=Memory, about="common memory, for protocols on it")
    workload: tuple[Workload, ...] = parameter((), "who sends what")
    clock: tuple[Clock, ...] = parameter((), "clocks that are off")
    fault: tuple[Fault, ...] = parameter((), "what goes wrong, and when")
    random: RandomFaults = parameter(factory=RandomFaults, about="faults drawn from the seed")
    verify: tuple[str, ...] = parameter(
        (), "properties to check; empty: those that the protocol promises", example='["fifo", "total"]'
    )
    expect: str = parameter("holds", "what the verification is meant to find", choices=("holds", "violation"))


def groups_ever(groups: Mapping[str, tuple[str, ...]], faults: Iterable[Fault]) -> dict[str, tuple[str, ...]]:
    """The groups that there are at the start, are formed later, or are called so later, with their first members."""
    ever = dict(groups)
    for fault in sorted(faults, key=lambda fault: fault.at):
        if fault.kind == "form":
            ever.setdefault(fault.group, tuple(dict.fromkeys((fault.process, *fault.members))))
        elif fault.kind == "rename":
            ever.setdefault(fault.name, ever.get(fault.group, ()))
    return ever


def first_groups(place: str, groups: Mapping[str, tuple[str, ...]], members: Sequence[str]) -> tuple[str, ...]:
    """The groups that the first process of a place enters: those that name it. A place that none names and that is no member
    joins all groups; a member that none names takes part without being in a group."""
    named = tuple(group for group, first in groups.items() if place in first)
    return named if named or place in members else tuple(groups)


def clock_of(process: str, clocks: Sequence[Clock]) -> Clock:
    """The clock that a scenario gives a process: the last entry that names it, else the last for every process."""
    named = [clock for clock in clocks if clock.process == process]
    found = named or [clock for clock in clocks if not clock.process]
    return found[-1] if found else Clock()
