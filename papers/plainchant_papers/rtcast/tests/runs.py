"""Small simulations of rtcast for paper tests: a run, its trace, and every packet that was sent in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec

from plainchant.core.engine import Engine, Host, Layer
from plainchant.core.model import MS, SECOND, Duration, Packet, ProcessId
from plainchant.protocols.registry import describe
from plainchant.scenario.model import Delay, Fault, LinkOverride, Network, Scenario, Workload
from tests.protocols.runs import Run, verified

from .variants import Maker

GROUP = "g"
PLAIN: dict[str, Any] = {
    "admission": False,
    "clocks": "none",
    "heartbeats": 1,
    "idle_hold": Duration(1 * MS),
    "retransmissions": 0,
}
"""The ring alone, with the hold for packets that overtake."""


class Sent(NamedTuple):
    """One packet, when it left."""

    time: int
    source: ProcessId
    to: tuple[ProcessId, ...]
    packet: Any


class _Wire(Layer):
    """Writes down what is sent."""

    def __init__(self, host: Host, inside: Callable[[Host], Engine], sent: list[Sent]) -> None:
        self._sent = sent
        super().__init__(host, inside)

    def send(self, to: Sequence[ProcessId], packet: Packet) -> None:
        self._sent.append(Sent(self.now, self.me, tuple(to), packet))
        self.host.send(to, packet)


@dataclasses.dataclass(frozen=True)
class RingRun(Run):
    """A finished run of one group."""

    sent_packets: list[Sent]

    def packets_of(self, kind: type[Packet]) -> list[Sent]:
        return [sent for sent in self.sent_packets if type(sent.packet) is kind]

    def words(self, kind: type[Any]) -> list[Any]:
        """What ordered packets said of that kind, each once."""
        packets = [sent.packet for sent in self.sent_packets if isinstance(getattr(sent.packet, "word", None), kind)]
        return [packet.word for packet in {packet.identity: packet for packet in packets}.values()]

    def halted(self) -> dict[str, str]:
        """Who has stopped, and the code of the reason."""
        told = ((row["process"], msgspec.json.decode(row["detail"])) for row in self.of("state"))
        return {process: detail["reason"] for process, detail in told if detail.get("state") == "crashed"}

    def views(self, process: str) -> list[tuple[str, ...]]:
        return [tuple(row["members"]) for row in self.of("view", process)]

    def alive(self) -> list[str]:
        return [name for name, end in self.summary.processes.items() if end.state == "alive"]

    def bounds(self, process: str) -> list[int]:
        """P as that member knew it, whenever it became another one."""
        found: list[int] = []
        for detail in self.details("token", process):
            if not found or found[-1] != detail["bound"]:
                found.append(detail["bound"])
        return found


def ms(count: float) -> Duration:
    return Duration(int(count * MS))


def uneven(members: str, seed: int) -> Network:
    """A network whose links differ in delay, from a tenth of d_max up to it, each always the same: channels are FIFO (P2)."""
    random = Random(seed)
    return Network(
        link=tuple(
            LinkOverride(source=source, target=target, delay=Delay("constant", ms(random.choice((0.2, 0.5, 1, 2)))))
            for source in members.split()
            for target in members.split()
            if source != target
        )
    )


def message(sender: str, at: float, **settings: Any) -> Workload:
    """One message at a time (ms)."""
    return Workload(senders=(sender,), closed=1, count=1, start=ms(at), **settings)


def fault(kind: str, at: float, *, length: float = 0, delay: float = 0, **settings: Any) -> Fault:
    """A fault at a time; times are in milliseconds."""
    return Fault(kind=kind, at=ms(at), length=ms(length), delay=ms(delay), **settings)


def simulate(
    members: str,
    *workload: Workload,
    parameters: Mapping[str, Any] | None = None,
    make: Maker | None = None,
    faults: Sequence[Fault] = (),
    length: float = 300,
    network: Network | None = None,
    **settings: Any,
) -> RingRun:
    """Runs one group, drained and verified; with one early message if there is no workload."""
    names = tuple(members.split())
    scenario = Scenario(
        protocol="rtcast",
        members=names,
        duration=ms(length),
        drain=Duration(20 * SECOND),
        workload=workload or (message(names[0], 30),),
        parameters={**PLAIN, **(parameters or {})},
        fault=tuple(faults),
        network=network or Network(delay=Delay("constant", ms(1))),
        **settings,
    )
    sent: list[Sent] = []
    engine = make or describe("rtcast").make
    run = verified(scenario, lambda host, values: _Wire(host, lambda inner: engine(inner, values), sent))
    return RingRun(run.summary, run.rows, run.violated, sent)
