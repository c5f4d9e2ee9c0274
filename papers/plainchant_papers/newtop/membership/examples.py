"""Claims 44 (6.3.2: P_r and P_s) and 45 (6.3.3: five processes), as the thesis tells them; and twenty members that part and meet.

The examples say who receives what before which failure, and not when. The times of the first are chosen so that it happens; in
the second they follow from a run without the partition, which is the same up to there.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final

from plainchant.core.model import MS, ProcessId
from plainchant.scenario.model import Fault, Scenario, Workload
from plainchant.sim.application import Member

from ...claims import Context, Figure, Measured, Series, Table, judge
from ...observe import Observer, trace_of
from ...runs import ONE_MILLISECOND, Given, fault, milliseconds, names, rows_of, views_of, violations
from ..structures import Groups, scenario
from ..variants import VARIANTS


# 44: failed together
class _Answers:
    """Sends a message when the first one of somebody is delivered."""

    def __init__(self, to: ProcessId) -> None:
        self._to = to

    def on_deliver(self, member: Member, group: str, sender: str, payload: bytes, seq: int) -> None:
        if sender == self._to:
            member.send(group, b"m'")


@dataclasses.dataclass(frozen=True, slots=True)
class Together:
    """What became of m, which P_r sent and only P_s got, and of m', which P_s sent when it had delivered m."""

    m_at: tuple[ProcessId, ...]  # Who delivered m,
    answer_at: tuple[ProcessId, ...]  # and who m'.
    detections: tuple[tuple[ProcessId, ...], ...]  # What P_i and P_j confirmed.
    discarded: int  # Messages that they replaced by null messages.
    views: tuple[tuple[ProcessId, ...], ...]  # Their last views.
    causal: int  # Violations of causal order.


def together(name: str) -> Together:
    """i's messages, at the same time as m, make m's block complete at s. s answers m, and crashes; r has crashed before."""
    several = Workload(senders=("i",), rate=1000.0, burst=2, count=2, size=16, start=milliseconds(100))
    one = Workload(senders=("r",), rate=1000.0, count=1, size=16, start=milliseconds(100.1))
    faults = [fault("cut", 100.05, source="r", target=target) for target in "ij"]
    faults += [fault("crash", 101, process="r"), fault("crash", 104, process="s")]
    given: Given = {"network": ONE_MILLISECOND, "faults": faults, "order": "total", "pack": False}
    run = scenario({"g": ("r", "s", "i", "j")}, several, one, length=1500, drain=0, **given)
    _, table = trace_of(run, VARIANTS[name], applications={"s": _Answers("r")})
    delivered = list(rows_of(table, "deliver"))
    confirmed = [row for row in rows_of(table, "confirm") if row["process"] in "ij"]
    views = views_of(table)
    m_at, answer_at = (tuple(row["process"] for row in delivered if row["sender"] == sender) for sender in "rs")
    detections = tuple(tuple(sorted(row["detail"]["detection"])) for row in confirmed)
    discarded = sum(len(row["detail"]["discarded"]) for row in confirmed)
    last = tuple(views[process, "g"][-1][2] for process in "ij")
    return Together(m_at, answer_at, detections, discarded, last, violations(table, ["causal"]))


def failed_together(context: Context) -> Measured:
    ours, apart = context.sweep(together, ["", "failed apart"])
    meant = ours.m_at == ("s",) and ours.detections == (("r", "s"), ("r", "s")) and ours.views == (("i", "j"), ("i", "j"))
    return Measured(
        f"m is delivered by {_listed(ours.m_at)}; i and j confirm {_sets(ours.detections)}, and replace {ours.discarded} "
        f"messages, m' at each, by null messages; m' is delivered by {_listed(ours.answer_at)}; their views end in "
        f"{_sets(ours.views)}; violations of causal order: {ours.causal}. If each of the failed counts up to its own last "
        f"message, m' is delivered by {_listed(apart.answer_at)}; violations: {apart.causal}",
        judge(holds=meant and ours.answer_at == () and ours.discarded == 2 and not ours.causal and apart.causal > 0),
        "m' has a larger number than m, and m a larger one than what everybody has of P_r: above the smallest last block of both "
        "nothing of either counts",
        [{"rule": rule, **dataclasses.asdict(one)} for rule, one in (("together", ours), ("apart", apart))],
    )


def _listed(several: Sequence[str]) -> str:
    return ", ".join(several) or "nobody"


def _sets(several: Sequence[Sequence[str]]) -> str:
    return " and ".join("{" + ", ".join(one) + "}" for one in several) or "nothing"


# 45: five processes
_FIVE: Final[Groups] = {"g": ("i", "j", "k", "l", "m")}
_CRASH: Final = 300.0
_LATER: Final = 60.0
"""ms from when k and l can no longer be heard to when the network falls apart: k and l have their view by then."""


@dataclasses.dataclass(frozen=True, slots=True)
class Five:
    """The views of the four who live, one after the other, each as its members without commas."""

    case: str
    views: Mapping[ProcessId, tuple[str, ...]]
    mutual: int  # Suspicions by (viii).
    intersect: bool  # Whether concurrent views had members in common,
    signed_intersect: bool  # and whether they had signatures in common.
    violations: int  # Of view-order, view-atomicity and total order.


def _five(faults: Sequence[Fault], length: float) -> Scenario:
    often = Workload(senders=("i", "j"), rate=200.0, size=16)
    rarely = Workload(senders=("k", "l", "m"), rate=20.0, size=16)
    given: Given = {"network": ONE_MILLISECOND, "faults": [fault("crash", _CRASH, process="m"), *faults]}
    given |= {"order": "total", "signatures": True, "merge_after": milliseconds(0)}
    return scenario(_FIVE, often, rarely, length=length, drain=0, **given)


def five(item: tuple[str, str]) -> Five:
    """m crashes; everybody suspects it; what k and l say does not reach i and j any more, and then ("partition") nothing passes
    between the two sides, or ("one way") k and l go on hearing i and j."""
    name, case = item
    _, table = trace_of(_five((), 1000), VARIANTS[name])
    suspected = min(row["true_time"] for row in rows_of(table, "suspect")) / MS
    faults = [fault("cut", suspected - 0.5, source=source, target=target) for source, target in product("kl", "ij")]
    if case == "partition":
        faults.append(fault("partition", suspected + _LATER, parts=(("i", "j"), ("k", "l"), ("m",))))
    _, table = trace_of(_five(faults, 2500), VARIANTS[name])
    views = views_of(table)
    signed = {(row["process"], row["view"]): set(row["detail"].get("signatures", {}).items()) for row in rows_of(table, "view")}
    return Five(
        case,
        views={process: tuple("".join(members) for _, _, members in views[process, "g"]) for process in "ijkl"},
        mutual=sum(row["detail"]["why"] == "mutual" for row in rows_of(table, "suspect")),
        intersect=bool(set(views["i", "g"][1][2]) & set(views["k", "g"][1][2])),
        signed_intersect=bool(signed["i", views["i", "g"][1][1]] & signed["k", views["k", "g"][1][1]]),
        violations=violations(table, ["view-order", "view-atomicity", "total"]),
    )


_EXPECTED: Final = {"i": ("ijklm", "ij"), "j": ("ijklm", "ij"), "k": ("ijklm", "ijkl", "kl"), "l": ("ijklm", "ijkl", "kl")}


def views_get_disjoint(context: Context) -> Measured:
    lasting, transient = context.sweep(five, [("", "partition"), ("", "one way")])
    ends = all({one[-1] for one in found.views.values()} == {"ij", "kl"} for found in (lasting, transient))
    (parting,) = context.sweep(part_and_meet, [context.of(Parting((4, 3, 2)), Parting((11, 6, 3)))])
    return Measured(
        f"partition: i and j install {_sequence(lasting.views['i'])}, k and l {_sequence(lasting.views['k'])}; where k and l go "
        f"on hearing i and j, {_sequence(transient.views['i'])} and {_sequence(transient.views['k'])}, after {transient.mutual} "
        f"suspicions by (viii); violations of view-order, view-atomicity and total order: "
        f"{lasting.violations + transient.violations}. {parting.said}",
        judge(
            holds=lasting.views == _EXPECTED
            and ends
            and transient.mutual > 0
            and not lasting.violations + transient.violations
            and parting.as_meant,
            nearly=ends,
        ),
        "who is confirmed as failed hears of it, or suspects those who no longer answer: exclusion is mutual, and until then "
        "views may intersect for a while, as the thesis says of V1 = {i, j} and V1 = {i, j, k, l}",
        [
            {"case": one.case, "process": process, "views": " ".join(views)}
            for one in (lasting, transient)
            for process, views in one.views.items()
        ],
        (parting.figure,),
        (parting.table,),
    )


def _sequence(views: Sequence[str]) -> str:
    return ", ".join("{" + ", ".join(view) + "}" for view in views)


# Twenty members that part and meet
@dataclasses.dataclass(frozen=True, slots=True)
class Parting:
    """A group that falls into parts of these sizes at one moment, and is whole again at another."""

    sizes: tuple[int, ...]
    parted: float = 500.0
    healed: float = 2000.0
    length: float = 3500.0
    rate: float = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class Parted:
    """What came of it; times in ms."""

    parting: Parting
    views: Mapping[ProcessId, tuple[tuple[float, int], ...]]
    """By member: when it installed views, and of how many members each was."""
    split: float  # From the partition to the last view that has the members of its part alone,
    merged: float  # and from its end to the last view that has everybody.
    packets: Mapping[str, int]
    """Multicasts from the partition's end to the last view, by kind, beside messages and null messages."""
    quiet: bool
    violations: int

    @property
    def as_meant(self) -> bool:
        """Everybody was in a view of its part alone, and then in one with everybody."""
        return self.quiet and not self.violations and self.split > 0 and self.merged > 0

    @property
    def said(self) -> str:
        sizes = ", ".join(map(str, self.parting.sizes))
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.packets.items()))
        return (
            f"{sum(self.parting.sizes)} members that part into {sizes}: all are in the views of their parts after "
            f"{self.split:.0f} ms, and in one view {self.merged:.0f} ms after the network is whole, by "
            f"{sum(self.packets.values())} packets ({kinds})"
        )

    @property
    def figure(self) -> Figure:
        series = []
        for number, part in enumerate(_parts(self.parting), 1):
            views = self.views[part[0]]
            steps = [(0.0, sum(self.parting.sizes)), *views, (self.parting.length, views[-1][1])]
            label = f"part {number}, {len(part)} members"
            series.append(Series(label, [x for x, _ in steps], [y for _, y in steps]))
        title = f"{sum(self.parting.sizes)} members, apart from {self.parting.parted:g} to {self.parting.healed:g} ms"
        return Figure("part-and-meet", title, "time (ms)", "members in the view", tuple(series), steps=True)

    @property
    def table(self) -> Table:
        rows = []
        for number, part in enumerate(_parts(self.parting), 1):
            times = [[self.views[member][place][0] for member in part] for place in (1, -1)]
            rows.append((number, len(part), *(f"{min(several):.1f} to {max(several):.1f}" for several in times)))
        return Table("when views were installed (ms)", ("part", "members", "its own view", "the view with everybody"), rows)


def _parts(parting: Parting) -> tuple[tuple[ProcessId, ...], ...]:
    members = names(sum(parting.sizes))
    parts: list[tuple[ProcessId, ...]] = []
    for size in parting.sizes:
        parts.append(members[sum(map(len, parts)) : sum(map(len, parts)) + size])
    return tuple(parts)


class _Kinds(Observer):
    """Counts packets that are neither messages nor null messages nor about them, from a moment on."""

    def __init__(self, since: float) -> None:
        super().__init__()
        self._since = since * MS
        self.seen: list[tuple[int, str]] = []

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Any) -> None:
        now = self.hosts[me].now
        kind = type(packet).__name__
        if now >= self._since and kind in ("Word", "Beacon", "Call", "Answer", "Convene"):
            self.seen.append((now, type(packet.say).__name__ if kind == "Word" else kind))


def part_and_meet(parting: Parting) -> Parted:
    parts = _parts(parting)
    load = Workload(rate=parting.rate, arrivals="poisson", size=16)
    faults = [fault("partition", parting.parted, length=parting.healed - parting.parted, parts=parts)]
    run = scenario({"g": names(sum(parting.sizes))}, load, faults=faults, length=parting.length, order="total")
    kinds = _Kinds(parting.healed)
    summary, table = kinds.run(run)
    views = views_of(table)
    split = [when for part in parts for member in part for when, _, members in views[member, "g"] if set(members) == set(part)]
    merged = [views[member, "g"][-1][0] for member in run.members if len(views[member, "g"][-1][2]) == len(run.members)]
    whole = len(split) >= len(run.members) and len(merged) == len(run.members)
    apart, met = (max(split) / MS - parting.parted, max(merged) / MS - parting.healed) if whole else (0.0, 0.0)
    packets = Counter(kind for when, kind in kinds.seen if whole and when <= max(merged))
    sizes = {name: tuple((when / MS, len(members)) for when, _, members in views[name, "g"]) for name in run.members}
    broken = violations(table, ["view-order", "view-atomicity", "total", "convergence", "agreement"])
    return Parted(parting, sizes, apart, met, dict(packets), summary.quiet, broken)
