"""Claims 1 to 7 (section 2): packets, interrupts, purging, duplicates, misses, and the synchronisation phase."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from plainchant.core.model import MS, US, Duration, Packet, ProcessId
from plainchant.protocols.sequencer.packets import Broadcast, Phase2
from plainchant.scenario.model import Delay, Fault, LinkOverride, Network, Scenario, Workload

from ..claims import FAILS, HOLDS, Context, Figure, Measured, curves, judge, rows, totals
from ..observe import Observer, trace_of
from ..runs import names, violated
from .broadcasts import CALM, Counts, baseline, count, delays, deliveries, group, member, one_sender
from .ethernet import Load, calibration, scenario_of

_ROOMY: Final = 1_000_000  # A history that is never full: nobody acknowledges explicitly.


# 1 to 3: packets and interrupts
def _counts(context: Context) -> list[Counts]:
    sizes = context.of((2, 3, 5, 10, 20), (2, 3, 5, 10, 20, 50, 100))
    messages = context.of(200, 1000)
    return context.sweep(count, [one_sender(members, _ROOMY, messages) for members in sizes])


def two_packets(context: Context) -> Measured:
    counts = context.once("counts", _counts)
    each = sorted({round(run.packets_each, 6) for run in counts})
    (own,) = context.sweep(count, [one_sender(10, _ROOMY, context.of(200, 1000), sender="p1")])
    total = sum(run.messages for run in counts)
    told = " or ".join(f"{value:g}" for value in each)
    return Measured(
        f"{told} packets a broadcast in groups of {counts[0].members} to {counts[-1].members} ({total:,} broadcasts); "
        f"{own.packets_each:g} if the sender is on the sequencer's node",
        HOLDS if each == [2] else FAILS,
        "one request and one broadcast, and nothing else, as long as the history has room",
        [_row(run) for run in counts],
    )


def n_interrupts(context: Context) -> Measured:
    counts = context.once("counts", _counts)
    exact = all(sum(run.interrupts.values()) == run.members * run.messages for run in counts)
    shown = ", ".join(f"{run.interrupts_each:g} (n = {run.members})" for run in counts)
    return Measured(
        f"interrupts a broadcast: {shown}",
        HOLDS if exact else FAILS,
        "one at the sequencer for the request, one at each of the n - 1 others for the broadcast",
        [_row(run) for run in counts],
    )


def remote_calls(context: Context) -> Measured:
    sizes = context.of((2, 3, 5, 10, 20), (2, 3, 5, 10, 20, 50))
    messages = context.of(50, 300)
    counts = context.sweep(count, [baseline("remote-calls", members, messages) for members in sizes])
    delivered = all(run.delivered == run.members * run.messages for run in counts)
    wanted = [3 * (run.members - 1) * run.messages for run in counts]
    packets = [sum(run.packets.values()) for run in counts] == wanted
    interrupts = [sum(run.interrupts.values()) for run in counts] == wanted
    shown = ", ".join(f"{run.packets_each:g} (n = {run.members})" for run in counts)
    ours = [run for run in context.once("counts", _counts) if run.members in sizes]
    measured = {"sequencer": ours, "remote calls": counts}
    drawn = {label: [run.interrupts_each for run in runs] for label, runs in measured.items()}
    printed = {"paper: n": sizes, "paper: 3(n - 1)": [3 * (n - 1) for n in sizes]}
    series = curves(sizes, drawn, printed)
    return Measured(
        f"packets, and as many interrupts, of a broadcast by calls: {shown}",
        judge(holds=packets and interrupts and delivered),
        "a request, a reply and its acknowledgement with each of the n - 1 others",
        [_row(run) for run in counts],
        (Figure("interrupts-remote-calls", "Interrupts of a broadcast", "group size", "interrupts", series),),
    )


def _row(run: Counts) -> dict[str, float]:
    return {name: getattr(run, name) for name in ("members", "messages", "packets_each", "interrupts_each")}


# 4: purging
_TABLE: Final = (8, 7, 9, 8, 6, 8)
_STEP: Final = 10


def purge(context: Context) -> Measured:
    draw = random.Random("tables")
    tables = [_TABLE, *(tuple(draw.randrange(1, 10) for _ in _TABLE) for _ in range(context.of(20, 200)))]
    found = context.sweep(_purged, tables)
    right = sum(1 for table, low in zip(tables, found, strict=True) if low == min(table))
    return Measured(
        f"table {', '.join(map(str, _TABLE))}: purged up to {found[0]}; of {len(tables) - 1} random tables "
        f"{right - (found[0] == min(_TABLE))} purged exactly up to their minimum",
        HOLDS if right == len(tables) else FAILS,
        "what the lowest acknowledgement covers leaves the history, and nothing more does",
        [{"table": " ".join(map(str, table)), "purged": low} for table, low in zip(tables, found, strict=True)],
    )


def _purged(table: tuple[int, ...]) -> int:
    """How far the sequencer has purged when a tenth message asks for room in a history of nine, and each node has
    acknowledged as far as the table says because it heard no more."""
    observer = Observer()
    cuts = [
        Fault(kind="cut", source="p1", target=node, at=Duration(((last - 1) * _STEP + _STEP // 2) * MS))
        for node, last in zip(names(len(table) + 1)[1:], table, strict=True)
    ]
    load = Workload(senders=("p1",), rate=1000 / _STEP, count=10)
    parameters = {**CALM, "pack": False, "history": 9, "acknowledge_every": 1}
    observer.run(group(len(table) + 1, load, seconds=0.2, faults=cuts, **parameters))
    return member(observer, "p1").log.low


# 5: duplicates
@dataclasses.dataclass(frozen=True, slots=True)
class _Duplicates:
    messages: int
    repeated: int  # Packets that arrived twice, or were sent again because their answer was lost.
    again: int  # Messages that got a second number, or whose number was broadcast to all a second time.
    violated: tuple[str, ...]


def duplicates(context: Context) -> Measured:
    seeds = range(context.of(2, 40))
    networks = [Network(duplicate=rate, loss=loss) for rate in (0.1, 0.5, 1.0) for loss in (0.0, 0.2)]
    scenarios = [
        group(4, Workload(rate=200.0), pack=False, seconds=0.2, network=network, seed=seed, drain=30)
        for network in networks
        for seed in seeds
    ]
    runs = context.sweep(_duplicates, scenarios)
    again, repeated, messages = totals(runs, "again", "repeated", "messages")
    broken = sum(1 for run in runs if run.violated)
    return Measured(
        f"{again} of {messages:,} messages broadcast a second time, {broken} of {len(runs)} runs with "
        f"a violation, {repeated:,} packets doubled or repeated",
        HOLDS if not again and not broken and repeated else FAILS,
        "a request that is not newer than its sender's last is known, also after its original is purged "
        "(Fig. 4's test for equality would not do: docs/errata.md)",
        rows(runs),
    )


class _Numbers(Observer):
    """What the sequencer numbers and broadcasts."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[tuple[ProcessId, int], set[int]] = {}
        self.broadcasts: dict[int, int] = {}

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        if isinstance(packet, Broadcast) and packet.entry.batch is not None:
            self.numbers.setdefault((packet.entry.sender, packet.entry.request), set()).add(packet.number)
            if len(to) > 1:
                self.broadcasts[packet.number] = self.broadcasts.get(packet.number, 0) + 1


def _duplicates(scenario: Scenario) -> _Duplicates:
    observer = _Numbers()
    summary, table = observer.run(scenario)
    twice = sum(1 for numbers in observer.numbers.values() if len(numbers) > 1)
    twice += sum(1 for times in observer.broadcasts.values() if times > 1)
    retransmitted = sum(1 for kind in table["kind"].to_pylist() if kind == "retransmit")
    return _Duplicates(summary.messages_sent, summary.packets_duplicated + retransmitted, twice, violated(table))


# 6: a miss
@dataclasses.dataclass(frozen=True, slots=True)
class _Miss:
    missed: int
    others_same: bool  # Whether every delivery at the other members is at exactly the time of the run without loss.
    late: float  # How late the process that missed something delivered, at most, in ms.
    others_later: float  # How much later another member delivered than without loss, at most, in ms.


def a_miss(context: Context) -> Measured:
    seeds = range(context.of(4, 60))
    ideal = context.sweep(_miss, [_steady(Network(), seed) for seed in seeds])
    costs = calibration(context).costs
    network = scenario_of(Load(costs, 4, ("p2",))).network
    # Without jitter: what it draws for one packet would depend on how many there were before.
    network = dataclasses.replace(network, delay=Delay("constant", Duration(5 * US)))
    real = context.sweep(_miss, [_steady(network, seed) for seed in seeds])
    missed = sum(run.missed for run in ideal)
    same = all(run.others_same for run in ideal)
    late = max(run.late for run in ideal)
    tens = 50
    return Measured(
        f"{missed} broadcasts missed by one node in {len(ideal)} runs: it delivered at most {late:.0f} ms late, the others "
        f"{'all at the same instant as without the loss' if same else 'not all as without the loss'}; "
        f"with the costs of 1989 the others at most {max(run.others_later for run in real):.2f} ms later",
        judge(holds=missed > 0 and same and late <= tens),
        "the missing message is asked for and sent point-to-point; others only share the sequencer's processor, which is "
        "busy with the repetition for a moment",
        rows(ideal, real),
    )


def _steady(network: Network, seed: int) -> Scenario:
    """A steady stream of messages to four nodes, of which one misses some broadcasts."""
    deaf = LinkOverride(source="p1", target="p3", delay=network.delay, loss=0.05, bandwidth=network.bandwidth)
    load = Workload(senders=("p2",), rate=300.0, arrivals="poisson")
    network = dataclasses.replace(network, link=(deaf,))
    return group(4, load, seconds=1.0, network=network, seed=seed, drain=30, pack=False, heartbeat=Duration(20 * MS))


def _miss(scenario: Scenario) -> _Miss:
    summary, after = trace_of(scenario)
    _, before = trace_of(dataclasses.replace(scenario, network=dataclasses.replace(scenario.network, link=())))
    later = {}
    for process in scenario.members:
        usual = dict(zip(deliveries(before, process, "seq")[0], delays(before, process), strict=True))
        now = dict(zip(deliveries(after, process, "seq")[0], delays(after, process), strict=True))
        later[process] = [now[seq] - usual[seq] for seq in now]
    others = [gap for process, gaps in later.items() if process != "p3" for gap in gaps]
    return _Miss(summary.packets_lost, not any(others), max(later["p3"]) / MS, max(others) / MS)


# 7: the synchronisation phase
@dataclasses.dataclass(frozen=True, slots=True)
class _Phases:
    phases: int
    not_empty: int
    behind: int
    quiet: bool


class _Commits(Observer):
    """Looks at everybody when the sequencer begins the second phase."""

    def __init__(self, members: Sequence[ProcessId]) -> None:
        super().__init__()
        self._members = members
        self.phases: dict[int, tuple[bool, bool]] = {}

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        if isinstance(packet, Phase2) and packet.phase not in self.phases:
            log = member(self, me).log
            behind = any(member(self, other).log.contiguous < log.contiguous for other in self._members)
            self.phases[packet.phase] = (not log.entries, behind)


def second_phase(context: Context) -> Measured:
    # Acknowledgements come so late that the history is full again and again.
    late = {"quiet_after": 200, "sync_after": 1, "suspect_after": 600, "patience": 2000}
    given: dict[str, Any] = {
        "acknowledge_every": 10_000,
        "pack": False,
        **{name: Duration(value * MS) for name, value in late.items()},
    }
    cases = product((3, 5), (4, 8), (0.0, 0.1, 0.2), range(context.of(1, 10)))
    scenarios = [
        group(size, Workload(rate=250.0), seconds=0.3, network=Network(loss=loss), seed=seed, drain=30, history=history, **given)
        for size, history, loss, seed in cases
    ]
    runs = context.sweep(_phases, scenarios)
    phases, not_empty, behind = totals(runs, "phases", "not_empty", "behind")
    quiet = all(run.quiet for run in runs)
    return Measured(
        f"{phases:,} phases in {len(runs)} runs with up to 20 % loss: the history was not empty in {not_empty}, somebody was "
        f"behind in {behind}",
        judge(holds=phases > 0 and not not_empty and not behind and quiet),
        "the second phase begins when everybody has answered the first, and nobody answers before it has everything",
        rows(runs),
    )


def _phases(scenario: Scenario) -> _Phases:
    observer = _Commits(scenario.members)
    summary, _ = observer.run(scenario)
    seen = observer.phases.values()
    return _Phases(len(seen), sum(not empty for empty, _ in seen), sum(behind for _, behind in seen), summary.quiet)
