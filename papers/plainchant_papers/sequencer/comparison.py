"""Claims 16 to 21 (sections 4 and 5): the history's size, delivery on arrival, the token site, storage, and a crash."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from plainchant.core.model import MS, Batch, Duration, GroupId, Packet, ProcessId
from plainchant.protocols.sequencer.packets import Broadcast, Request
from plainchant.scenario.model import Delay, Fault, Network, Scenario, Workload

from ..claims import Context, Figure, Measured, curves, judge, rows, totals
from ..observe import Observer
from ..runs import rows_of, violated
from .broadcasts import baseline, count, deliveries, group, member, one_sender

# 16 and 17: the history's size
_LARGE: Final = 1024


def history_of_n(context: Context) -> Measured:
    sizes = context.of((5, 10, 20), (5, 10, 20, 50, 100))
    rounds = context.of(20, 100)
    runs = context.sweep(count, [one_sender(size, size, rounds * size) for size in sizes])
    each = [run.packets_each for run in runs]
    shown = ", ".join(f"{packets:g} (n = H = {size})" for size, packets in zip(sizes, each, strict=True))
    series = curves(sizes, {"counted": each}, {"paper: n/H + 2": [3.0] * len(sizes)})
    title = "Packets of a broadcast, one steady sender, history of n"
    return Measured(
        f"packets a broadcast: {shown}",
        judge(holds=all(abs(packets - 3) <= 0.05 for packets in each), nearly=all(2.5 < packets <= 3 for packets in each)),
        "sender and sequencer acknowledge nothing explicitly, so that it is 2 + (n - 2)/n: below 3 for every n, and close to it "
        "for large ones",
        [{"nodes": size, "history": size, "packets_each": packets} for size, packets in zip(sizes, each, strict=True)],
        (Figure("packets-by-history", title, "group size", "packets", series),),
    )


def large_history(context: Context) -> Measured:
    (run,) = context.sweep(count, [one_sender(10, _LARGE, context.of(2, 8) * _LARGE)])
    return Measured(
        f"{run.packets_each:.4f} packets a broadcast for 10 nodes and a history of {_LARGE}",
        judge(holds=abs(run.packets_each - 2) <= 0.05),
        f"eight explicit acknowledgements in {_LARGE} broadcasts",
        [{"nodes": 10, "history": _LARGE, "packets_each": run.packets_each}],
    )


# 18: delivered on arrival
@dataclasses.dataclass(frozen=True, slots=True)
class _Waits:
    deliveries: int
    waited: int


class _Arrivals(Observer):
    """Whether what is delivered is delivered while the packet that brought it is dealt with."""

    deliveries = waited = 0

    def __init__(self) -> None:
        super().__init__()
        self._arriving: dict[ProcessId, object] = {}

    def receiving(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Broadcast) and packet.entry.batch is not None:
            self._arriving[me] = (packet.entry.sender, packet.entry.batch.first)
        elif isinstance(packet, Request):
            self._arriving[me] = packet.batch.first

    def received(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        self._arriving.pop(me, None)

    def delivering(self, me: ProcessId, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None) -> None:
        if sender == me == "p1":
            return  # nothing arrives: the sequencer's own messages are delivered when they are numbered
        self.deliveries += 1
        self.waited += self._arriving.get(me) not in ((sender, batch.first), batch.first)


def on_arrival(context: Context) -> Measured:
    sizes = context.of((3, 5, 10), (3, 5, 10, 20))
    load = Workload(rate=50.0, arrivals="poisson")
    calm, lossy = (
        context.sweep(
            _waits,
            [
                group(size, load, seconds=0.3, network=Network(loss=loss), seed=seed, drain=30, pack=False)
                for size in sizes
                for seed in range(context.of(2, 20))
            ],
        )
        for loss in (0.0, 0.05)
    )
    total, waited = totals(calm, "deliveries", "waited")
    lossy_total, lossy_waited = totals(lossy, "deliveries", "waited")
    return Measured(
        f"{waited} of {total:,} deliveries waited after their packet had come; with 5 % of packets lost "
        f"{lossy_waited / lossy_total:.0%} do",
        judge(holds=total > 0 and not waited),
        "where nothing is lost or overtaken every number is the next one; with resilience r > 0, which the paper does not have, "
        "delivery waits for acknowledgements",
        rows(calm, lossy),
    )


def _waits(scenario: Scenario) -> _Waits:
    observer = _Arrivals()
    observer.run(scenario)
    return _Waits(observer.deliveries, observer.waited)


# 19: a token site
def token_site(context: Context) -> Measured:
    sizes = context.of((2, 3, 5, 10, 20), (2, 3, 5, 10, 20, 50))
    messages = context.of(60, 300)
    runs = context.sweep(count, [baseline("token-site", size, messages) for size in sizes])
    delivered = all(run.delivered == run.members * run.messages for run in runs)
    theirs = [run.interrupts_each for run in runs]
    ours = [run.interrupts_each for run in context.sweep(count, [one_sender(size, 1_000_000, messages) for size in sizes])]
    printed = [2 * (size - 1) for size in sizes]
    at_least = all(each >= least for each, least in zip(theirs, printed, strict=True))
    fewer = all(mine <= each for mine, each in zip(ours, theirs, strict=True))
    ten = sizes.index(10)
    series = curves(sizes, {"token site": theirs, "sequencer": ours}, {"paper: 2(n - 1)": printed})
    return Measured(
        f"{theirs[ten]:.4g} interrupts a broadcast for 10 nodes by a token site, {ours[ten]:g} "
        f"by the sequencer; at least 2(n - 1) in groups of {sizes[0]} to {sizes[-1]}: {'yes' if at_least else 'no'}",
        judge(holds=at_least and delivered and fewer),
        "message and acknowledgement both interrupt everybody; with two nodes both protocols need two",
        [{"nodes": n, "token_site": each, "sequencer": mine} for n, each, mine in zip(sizes, theirs, ours, strict=True)],
        (Figure("interrupts-token-site", "Interrupts of a broadcast", "group size", "interrupts", series),),
    )


# 20: storage
class _Storage(Observer):
    """The most entries that anybody but the sequencer kept."""

    most = 0

    def received(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        if me != "p1":
            log = member(self, me).log
            self.most = max(self.most, len(log.entries) + len(log.later))


def storage(context: Context) -> Measured:
    histories = context.of((8, 64, 256), (8, 16, 64, 256, 1024))
    seconds = context.of(1.0, 5.0)
    load = Workload(rate=100.0)
    runs = [group(5, load, pack=False, history=history, seconds=seconds, drain=30) for history in histories]
    most = dict(zip(histories, context.sweep(_most_stored, runs), strict=True))
    shown = ", ".join(f"{entries} (H = {history})" for history, entries in most.items())
    return Measured(
        f"messages kept at a node that is not the sequencer, at most: {shown}",
        judge(holds=not any(most.values())),
        "section 5 contradicts section 4: to survive the sequencer the history is replicated, so that every node keeps what it "
        "does not know to be everywhere; it never needs more than the sequencer's history",
        [{"history": history, "kept": entries} for history, entries in most.items()],
    )


def _most_stored(scenario: Scenario) -> int:
    observer = _Storage()
    observer.run(scenario)
    return observer.most


# 21: the sequencer crashes
@dataclasses.dataclass(frozen=True, slots=True)
class _Crash:
    own: int  # Messages of the sequencer's node that were sent.
    lost: int  # Those of them that the survivors do not have in the end.
    seen: int  # Those of the lost ones that a survivor had received.
    behind: int  # Those of the seen ones that stood behind a number which no survivor had received.
    lost_of_others: int
    differs: bool  # Whether the dead sequencer's application had got something that the survivors have not, or elsewhere.
    quiet: bool


class _Seen(Observer):
    """Who was sent what number, and which numbers reached a survivor."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[int, tuple[ProcessId, int]] = {}
        self.seen: set[int] = set()

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        if me == "p1" and isinstance(packet, Broadcast) and packet.entry.batch is not None:
            self.numbers[packet.number] = (packet.entry.sender, packet.entry.batch.first)

    def receiving(self, me: ProcessId, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Broadcast) and packet.epoch == 1:
            self.seen.add(packet.number)


def crash(context: Context) -> Measured:
    runs = context.sweep(_crash, [_crash_scenario(seed) for seed in range(context.of(24, 600))])
    others, lost, seen, behind, differs = totals(runs, "lost_of_others", "lost", "seen", "behind", "differs")
    quiet = all(run.quiet for run in runs)
    return Measured(
        f"{len(runs)} crashes: lost were {lost} messages of the sequencer's node and {others} of others; of the {lost}, {seen} "
        f"had reached a survivor, {behind} of them behind one that had reached none",
        judge(holds=bool(lost) and not others and not seen and quiet, nearly=not others and seen == behind and quiet),
        "nothing can be delivered behind a hole that nobody can fill: what follows a lost message of the same epoch is lost or, "
        f"if its sender lives, numbered anew. In {differs} runs the dead sequencer's application had been given something that "
        "the survivors have not, or have elsewhere (Fig. 4 passes it on before the broadcast); resilience > 0 prevents that",
        rows(runs),
    )


def _crash_scenario(seed: int) -> Scenario:
    """The sequencer dies under load on a network that loses packets, heard badly by some or by all just before."""
    at = 40 + 3 * (seed % 20)
    fault = Fault(kind="crash", process="p1", at=Duration(at * MS), mid_broadcast=bool(seed % 2))
    # Everybody is deaf to it in one run of four; in the others one member is, and the rest hears most of what it says.
    target = "" if seed % 4 == 0 else "p3"
    deaf = Fault(kind="cut", source="p1", target=target, at=Duration((at - 4) * MS))
    worse = Fault(kind="loss", source="p1", rate=0.5, at=Duration((at - 8) * MS))
    network = Network(loss=0.1, delay=Delay("uniform", Duration(1 * MS), Duration(2 * MS)))
    parameters: dict[str, Any] = {"pack": False, "suspect_after": Duration(60 * MS), "patience": Duration(400 * MS)}
    load = Workload(rate=250.0, stop=Duration(300 * MS))
    return group(4, load, **parameters, seconds=0.5, network=network, faults=(worse, deaf, fault), seed=seed, drain=30)


def _crash(scenario: Scenario) -> _Crash:
    observer = _Seen()
    summary, table = observer.run(scenario)
    kept = set(zip(*deliveries(table, "p2", "sender", "seq"), strict=True))
    sent = [(row["sender"], row["seq"]) for row in rows_of(table, "send")]
    lost = {message for message in sent if message not in kept}
    own = {message for message in lost if message[0] == "p1"}
    numbers = {message: number for number, message in observer.numbers.items() if message in own}
    holes = [number for number in observer.numbers if number not in observer.seen]
    seen = [number for number in numbers.values() if number in observer.seen]
    behind = sum(any(hole < number for hole in holes) for number in seen)
    others, differs = len(lost) - len(own), bool(violated(table, ["uniform"]))
    return _Crash(sum(sender == "p1" for sender, _ in sent), len(own), len(seen), behind, others, differs, summary.quiet)
