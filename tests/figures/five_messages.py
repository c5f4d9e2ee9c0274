"""The same five messages in five orders: the picture of docs/ordering.md.

ann and dan are in both groups, red and blue; ben is in red, cyd in blue. Everything is sent at fixed times, and packets take as
long in every run, so that at dan the messages arrive at the same instants whatever the order: only their delivery differs.

    python -m tests.figures.five_messages        draws docs/figures/five-messages.svg anew
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from plainchant.core.engine import Engine, Host
from plainchant.core.model import MS, Duration, Packet, ProcessId
from plainchant.protocols.newtop import Parameters, Process
from plainchant.protocols.newtop.packets import Data
from plainchant.protocols.newtop.part import Part
from plainchant.protocols.newtop.vectors import Keyed, Need
from plainchant.protocols.variants import AS_BUILT, Replacement, Variant
from plainchant.scenario.model import Delay, Fault, LinkOverride, Network, Scenario, Workload
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer

PICTURE: Final = Path(__file__).resolve().parents[2] / "docs" / "figures" / "five-messages.svg"
WATCHED: Final = "dan"
OTHER: Final = "ann"

SENT: Final[Mapping[str, tuple[ProcessId, str, int]]] = {
    "m1": ("ann", "red", 1),
    "m2": ("ann", "blue", 3),
    "m3": ("cyd", "blue", 2),
    "m4": ("cyd", "blue", 6),
    "m5": ("ben", "red", 14),
}
"""Who sends each message, in which group, and when (ms)."""

ORDERS: Final[Mapping[str, str]] = {
    "fifo": "no order but each sender's own (to compare with; newtop has no such order)",
    "fast": "waits for what happened before the message, and for nothing else",
    "relative": "of its own group as fast; of the other group everything up to a block",
    "slow": "everything with a smaller block number first",
    "total": "the whole block, in every group, first; then the same order everywhere",
}


@dataclasses.dataclass(frozen=True)
class Fate:
    """What became of a message at the watched process (times in ms)."""

    name: str
    block: int
    arrived: float
    delivered: float
    waited_for: str


@dataclasses.dataclass(frozen=True)
class Run:
    """One order: the fates of the five, in the order in which they were sent, and in which order two processes delivered them."""

    order: str
    fates: tuple[Fate, ...]
    sequences: Mapping[ProcessId, tuple[str, ...]]


# --- the runs ---------------------------------------------------------------------------------------------------------


def _nothing_unmet(self: Keyed, part: Part, packet: Data) -> Need | None:
    """What is here without a gap before it is delivered."""
    return None


UNORDERED: Final = Variant("fifo", (Replacement(Keyed, "unmet", _nothing_unmet),))


class Watched(Process):
    """Notes what arrives, and when."""

    arrivals: dict[tuple[ProcessId, str], list[tuple[int, int]]]

    def receive(self, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Data):
            self.arrivals.setdefault((source, packet.group), []).append((self.host.now, packet.block))
        super().receive(source, packet)


def scenario_of(order: str) -> Scenario:
    return Scenario(
        protocol="newtop",
        name="five-messages",
        members=("ann", "ben", "cyd", "dan"),
        groups={"red": ("ann", "ben", "dan"), "blue": ("ann", "cyd", "dan")},
        duration=Duration(50 * MS),
        parameters={"order": "fast" if order == "fifo" else order, "gap_patience": Duration(100 * MS)},
        network=Network(
            delay=Delay("constant", Duration(2 * MS)),
            link=tuple(LinkOverride(target=far, delay=Delay("constant", Duration(20 * MS))) for far in ("ben", "cyd")),
        ),
        workload=tuple(
            Workload(senders=(sender,), group=group, rate=1000.0, count=1, start=Duration(at * MS))
            for sender, group, at in SENT.values()
        ),
        # The link from ann to dan is slow for a moment, when m1 is sent.
        fault=(Fault(kind="clog", source="ann", target="dan", at=Duration(0), length=Duration(2 * MS), delay=Duration(10 * MS)),),
    )


def perform(order: str) -> Run:
    """Runs the five messages through an order."""
    engines: dict[ProcessId, Watched] = {}

    def make(host: Host, parameters: Parameters) -> Engine:
        engine = engines[host.me] = Watched(host, parameters)
        engine.arrivals = {}
        return engine

    trace = TraceBuffer()
    with (UNORDERED if order == "fifo" else AS_BUILT).applied(must_act=True):
        summary = Simulation(scenario_of(order), trace=trace, run=order, make=make).run()
    assert summary.quiet, summary.not_quiet
    rows = trace.table().to_pylist()
    names: dict[tuple[str, str, int], str] = {}
    for name, (sender, group, _) in SENT.items():
        seq = 1 + sum(1 for key in names if key[:2] == (sender, group))
        names[sender, group, seq] = name
    delivered: dict[ProcessId, dict[str, float]] = {name: {} for name in engines}
    reasons: dict[str, str] = {}
    for row in rows:
        if row["kind"] == "deliver":
            delivered[row["process"]][names[row["sender"], row["group"], row["seq"]]] = row["true_time"] / MS
        elif row["kind"] == "block" and row["process"] == WATCHED and row["seq"] is not None:
            reasons[names[row["sender"], row["group"], row["seq"]]] = row["detail"]
    fates = []
    for (sender, group, seq), name in names.items():
        at, block = engines[WATCHED].arrivals[sender, group][seq - 1]
        here = delivered[WATCHED][name]
        fates.append(Fate(name, block, at / MS, here, why(order, block, reasons.get(name, "")) if here > at / MS else ""))
    return Run(order, tuple(fates), {process: tuple(delivered[process]) for process in (OTHER, WATCHED)})


def why(order: str, block: int, reason: str) -> str:
    """What a message waited for, in words: what the engine wrote down, or the rule of its order."""
    if order == "total":
        return f"block {block} to be complete in red and blue"
    if order == "slow":
        return f"block {block - 1} to be complete in red and blue"
    found: str = json.loads(reason)["waits_for"]
    return f"all of {found}" if order == "relative" else f"m1 ({found})"


# --- the picture ------------------------------------------------------------------------------------------------------

LEFT: Final = 150
SCALE: Final = 24
"""Pixels a millisecond."""
LAST: Final = 27
ROW: Final = 22
PANEL: Final = 5 * ROW + 66
TOP: Final = 74
WIDTH: Final = LEFT + LAST * SCALE + 40
COLOURS: Final[Mapping[str, str]] = {"red": "#c0392b", "blue": "#2469b3"}


def text(x: float, y: float, words: str, *, colour: str = "#222", anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'


def draw(runs: Sequence[Run]) -> str:
    """The picture, as SVG."""
    height = TOP + PANEL * len(runs) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        text(10, 22, "The same five messages at dan, in five orders", weight="bold"),
        text(10, 42, "ring: arrives; bar: waits; disc: is delivered (milliseconds)"),
        text(10, 60, "in red: m1 (ann), m5 (ben)", colour=COLOURS["red"]),
        text(190, 60, "in blue: m2 (ann, after m1), m3 (cyd), m4 (cyd, after m3)", colour=COLOURS["blue"]),
    ]
    for number, run in enumerate(runs):
        lines += panel(run, TOP + number * PANEL)
    return "\n".join([*lines, "</svg>", ""])


def panel(run: Run, top: float) -> Iterator[str]:
    yield text(10, top + 16, run.order, weight="bold")
    yield text(LEFT - 60, top + 16, ORDERS[run.order], colour="#555")
    bottom = top + 24 + 5 * ROW
    for tick in range(0, LAST, 5):
        x = LEFT + tick * SCALE
        yield f'<line x1="{x:g}" y1="{top + 24:g}" x2="{x:g}" y2="{bottom:g}" stroke="#ddd"/>'
        yield text(x, bottom + 13, str(tick), colour="#888", anchor="middle")
    early = too_early(run)
    for number, fate in enumerate(run.fates):
        y = top + 34 + number * ROW
        sender, group, _ = SENT[fate.name]
        colour = COLOURS[group]
        start, end = LEFT + fate.arrived * SCALE, LEFT + fate.delivered * SCALE
        yield text(10, y + 4, f"{fate.name}  {sender}, block {fate.block}", colour=colour)
        if end > start:
            yield f'<line x1="{start:g}" y1="{y:g}" x2="{end:g}" y2="{y:g}" stroke="{colour}" stroke-width="4" opacity="0.35"/>'
        yield f'<circle cx="{start:g}" cy="{y:g}" r="5" fill="white" stroke="{colour}" stroke-width="1.5"/>'
        yield f'<circle cx="{end:g}" cy="{y:g}" r="4" fill="{colour}"/>'
        note = "too early: m1, which happened before it, is not here" if fate.name in early else ""
        words = f"waits for {fate.waited_for}" if fate.waited_for else note
        if words and end > LEFT + 17 * SCALE:
            yield text(start + 8, y - 5, words, colour="#555")
        elif words:
            yield text(end + 10, y + 4, words, colour="#b00" if note else "#555")
    for number, (process, sequence) in enumerate(run.sequences.items()):
        yield text(LEFT + number * 12 * SCALE, bottom + 29, f"delivered at {process}: {', '.join(sequence)}")


def too_early(run: Run) -> frozenset[str]:
    """Messages that were delivered before one that happened before them: of two of one sender the first is first."""
    times = {fate.name: fate.delivered for fate in run.fates}
    return frozenset(later for later, earlier in (("m2", "m1"), ("m4", "m3")) if times[later] < times[earlier])


def main() -> None:
    PICTURE.write_text(draw([perform(order) for order in ORDERS]), encoding="utf-8")


if __name__ == "__main__":
    main()
