"""Claims 89 to 92 (Table 4.1 and 4.1): how long a Send, a Receive and a delivery take at most, and what that depends on.

Theory of operation
-------------------
Maxima are looked for in runs that are made to be bad (everything takes its bound, copies die at the worst moment, clocks differ
by e, the message is complete just after a look) and in drawn ones. A line is fitted to the former by least squares.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
from collections.abc import Sequence
from typing import Final

from plainchant.core.model import US
from plainchant.lab.draw.timing import timing_diagram
from plainchant.sim.scripted import Script

from ..claims import Context, Figure, Measured, Picture, Series, Table, curves, judge, rows
from ..runs import Given
from .scripted import PROTOCOLS, QUIETLY, WORDS, Plan, bound_of, found_of, load, message, modules, plan, table_of, times
from .timing import DECIDE, FINISH, FLAG, POLL, READ, SKEW, WRITE

_SLACK: Final = 0.1  # µs: what the ticks of a nanosecond of a few copies come to, and more.
_ROUNDING: Final = 0.0005
_RARELY: Final = 1000  # A polling delay in which a whole Receive has room: no look comes between deciding and reading.
_RECEIVERS: Final = "abcdefg"


# Runs
def worst_first(copies: int, receivers: str = "ab", poll: int = POLL) -> Plan:
    """The sender's clock is ahead by e, the message is complete just after a look, everything takes its bound, and the copies die
    when everybody has looked: they are found dead by who decides, and again by who reads, unless a look comes between them."""
    look = 5000 + poll
    sent = message("s", look + 0.001 - times(tolerate="crash", copies=copies).complete / US - SKEW - copies * DECIDE)
    given: Given = {"tolerate": "crash", "senders": ("s",), "copies": copies, "places": 9, "poll": poll}
    label = f"worst, first protocol, {copies} copies, {len(receivers)} receivers"
    faults = modules(look + poll + 15, copies)
    return plan(f"s {' '.join(receivers)}", sent, usual=1, clocks={"s": SKEW}, faults=faults, label=label, **given)


def worst_second(copies: int, receivers: str = "ab") -> Plan:
    """s's message is decided and waits for T + X + e. t's, which is earlier and late, is in the queue for the first time when a
    looks for the last; the others, whose clocks are ahead, have just looked and come to it at their next look. The copies die
    meanwhile."""
    look = 5500 + DECIDE + 0.001
    sent = look - times(copies=copies).settled / US - SKEW
    late = sent - 1
    written = look + copies * DECIDE - 0.5
    script = Script({"t write": ((written - late) / WRITE, 0), "t flag": 0}, usual=1)
    sends = [message("s", sent - copies * DECIDE), message("t", late - copies * DECIDE)]
    given: Given = {"senders": ("s", "t"), "copies": copies, "places": 9, "clocks": dict.fromkeys(f"st{receivers[1:]}", SKEW)}
    label = f"worst, second protocol, {copies} copies, {len(receivers)} receivers"
    return plan(f"s t {' '.join(receivers)}", *sends, script=script, faults=modules(look, copies), label=label, **given)


WORST: Final = {"crash": worst_first, "timing": worst_second}


def dying(copies: int, at: float) -> Plan:
    """The second protocol, a message that is complete just after a look, and copies that die then."""
    sent = message("s", 5100.001 - times(copies=copies).complete / US - copies * DECIDE)
    label = f"second protocol, {copies} copies, dying at {at:g}"
    return plan("s a b", sent, usual=1, senders=("s",), copies=copies, faults=modules(at, copies), label=label)


def drawn(tolerate: str, copies: int, seed: int) -> Plan:
    """Many messages at once; durations, clocks, and when copies die, are drawn."""
    draw = random.Random(f"{seed}/{tolerate}/{copies}/bounds")
    sends = load("abcd", draw.choice((400.0, 1500.0)), 4000, 8000)
    clocks = {name: draw.uniform(0, SKEW) for name in "abcd"}
    memory = {"duration": draw.choice(("extremes", "uniform", "max")), **QUIETLY}
    faults = modules(draw.uniform(4500, 7500), draw.randrange(1, copies + 1))
    given: Given = {"tolerate": tolerate, "copies": copies, "seed": seed}
    label = f"drawn, {WORDS[tolerate]} protocol, {copies} copies, {seed}"
    return plan("a b c d", sends, usual=None, clocks=clocks, memory=memory, faults=faults, label=label, **given)


@dataclasses.dataclass(frozen=True, slots=True)
class Spans:
    """The longest times of a run, beside its bounds, µs."""

    label: str
    tolerate: str
    copies: int
    sent: int
    send: float
    latest: float
    send_bound: float
    latest_bound: float
    violated: tuple[str, ...]
    earliest: float  # The earliest decision (first protocol) or delivery (second) after a timestamp, by the clock of who did it.


def spans_of(one: Plan) -> Spans:
    run, bounds = found_of(one), bound_of(one)
    tolerate, moments = ("crash", run.decided_after) if bounds.first else ("timing", run.waited)
    send, latest, earliest = bounds.send / US, bounds.deliver / US, min(moments, default=float("inf"))
    measured = (run.sent, run.longest_send, run.latest)
    return Spans(run.label, tolerate, bounds.parameters.copies, *measured, send, latest, run.violated, earliest)


def drawn_runs(context: Context) -> list[Spans]:
    sizes = context.of((1, 2, 3), (1, 2, 3, 4, 5))
    plans = [drawn(tolerate, copies, seed) for tolerate in PROTOCOLS for copies in sizes for seed in range(context.of(2, 25))]
    return context.sweep(spans_of, plans)


def worst_runs(context: Context) -> list[Spans]:
    sizes = context.of((1, 2, 3), (1, 2, 3, 4, 5, 6))
    return context.sweep(spans_of, [WORST[tolerate](copies) for tolerate in PROTOCOLS for copies in sizes])


def slope(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """The line through points: slope, intercept, and how much of the variance it explains (R²)."""
    line = statistics.linear_regression(x, y)
    mean = statistics.fmean(y)
    spread = sum((value - mean) ** 2 for value in y)
    rest = sum((value - line.slope * at - line.intercept) ** 2 for at, value in zip(x, y, strict=True))
    return line.slope, line.intercept, 1 - rest / spread if spread else 1.0


def equation(line: tuple[float, float, float]) -> str:
    """A line, in words.

    >>> equation((60.0, -20.0, 1.0))
    '60.0 n - 20.0'
    """
    a, b, _ = line
    return f"{a:.1f} n {'-' if b < 0 else '+'} {abs(b):.1f}"


# The figures of the paper
def picture_of(item: tuple[Plan, str]) -> str:
    """The timing diagram of what a process does for the message of s."""
    one, process = item
    return timing_diagram(table_of(one), message=("g", "s", 1), process=process)


def typical(tolerate: str) -> Plan:
    """Three copies, all alive; everything takes its bound."""
    return plan("s a b", message("s", 5000), usual=1, tolerate=tolerate, senders=("s",), copies=3)


# 89: Send
def send(context: Context) -> Measured:
    runs = [*context.once("drawn bounds", drawn_runs), *context.once("worst bounds", worst_runs)]
    picture = context.sweep(picture_of, [(typical("crash"), "s")])
    sizes = sorted({run.copies for run in runs})
    most = {copies: max(run.send for run in runs if run.copies == copies) for copies in sizes}
    printed = {copies: copies * (WRITE + FLAG) for copies in sizes}
    above = sum(run.send > printed[run.copies] + _ROUNDING for run in runs)
    reached = all(most[copies] == printed[copies] for copies in sizes)
    series = curves(sizes, {"longest, measured": list(most.values())}, {"n ds + n df": list(printed.values())})
    cells = [(copies, printed[copies], f"{most[copies]:g}") for copies in sizes]
    return Measured(
        f"{sum(run.sent for run in runs):,} Sends in {len(runs)} runs: {above} runs have one above n ds + n df; the longest are "
        + ", ".join(f"{most[copies]:g} µs (n = {copies})" for copies in sizes),
        judge(holds=not above and reached, nearly=not above),
        "2n operations, one after the other, and nothing to wait for; a dead copy takes no longer than one that is alive",
        rows(runs),
        (Figure("send", "Send", "copies (n)", "µs", series),),
        (Table("Send (µs)", ("n", "printed, and ours", "longest, measured"), cells),),
        (Picture("send-timing", picture[0]),),
    )


# 90: Receive
@dataclasses.dataclass(frozen=True, slots=True)
class Received:
    """The longest Receive that was brought about, µs."""

    tolerate: str
    copies: int
    took: float
    printed: float
    corrected: float
    violated: tuple[str, ...]


def received_of(item: tuple[str, int]) -> Received:
    """First protocol: from the decision's beginning to the last flag. Second: from when the message may be looked for until it is
    decided, and, without the time for which removal is postponed, the reading and the flags."""
    tolerate, copies = item
    each = DECIDE + READ + FINISH
    if tolerate == "crash":
        run = found_of(worst_first(copies, poll=_RARELY))
        steps = run.operations["a"]
        took = steps[-1][3] - steps[0][2]
        corrected = times(tolerate="crash", copies=copies).receive / US
        return Received(tolerate, copies, took, copies * (each + SKEW), corrected, run.violated)
    bounds = times(copies=copies)
    deciding, alive = found_of(dying(copies, 5215)), found_of(dying(copies, 9900))
    begins = next(begin for name, _, begin, _ in alive.operations["a"] if name == "read")
    reading = found_of(dying(copies, begins + 1))
    first = min(begin for name, _, begin, _ in deciding.operations["a"] if name == "decide")
    decided = max(end for name, _, _, end in deciding.operations["a"] if name == "decide") - first + POLL + DECIDE
    rest = sum(end - begin for name, _, begin, end in reading.operations["a"] if name in ("read", "finish"))
    printed = copies * each + POLL + SKEW
    violated = tuple(sorted({*deciding.violated, *reading.violated}))
    return Received(tolerate, copies, decided + rest, printed, (bounds.receive / US) + POLL + DECIDE, violated)


def _received(context: Context) -> list[Received]:
    sizes = context.of((1, 2, 3), (1, 2, 3, 4, 5, 6))
    return context.sweep(received_of, [(tolerate, copies) for tolerate in PROTOCOLS for copies in sizes])


def receive(context: Context) -> Measured:
    found = context.once("received", _received)
    pictures = context.sweep(picture_of, [(typical(tolerate), "a") for tolerate in PROTOCOLS])
    above = [one for one in found if one.took > one.printed + _SLACK]
    beyond = [one for one in found if one.took > one.corrected + _ROUNDING or one.violated]
    parts, figures = [], []
    for tolerate, word in WORDS.items():
        mine = [one for one in found if one.tolerate == tolerate]
        last = max(mine, key=lambda one: one.copies)
        parts.append(
            f"{word} protocol, {last.copies} copies of which all but one die: {last.took:.1f} µs (printed "
            f"{last.printed:g}, ours {last.corrected:.1f})"
        )
        measured = {"longest, measured": [one.took for one in mine], "corrected": [one.corrected for one in mine]}
        series = curves(sorted({one.copies for one in found}), measured, {"printed": [one.printed for one in mine]})
        figures.append(Figure(f"receive-{word}", f"Receive, {word} protocol", "copies (n)", "µs", series))
    cells = [(WORDS[one.tolerate], one.copies, f"{one.printed:g}", f"{one.corrected:.3f}", f"{one.took:.3f}") for one in found]
    return Measured(
        f"{'; '.join(parts)}; above the printed bound in {len(above)} of {len(found)} cases, above ours in {len(beyond)}",
        judge(holds=not above and not beyond, nearly=not beyond),
        "the first protocol has to wait 2 dd, not e, for a dead copy (claim 82). In the second a copy takes three steps of dd "
        "and two waits of e, where the table has one dd and e once. Ours: n (dd + dr + dfd) + (n - 1) 2 dd, and p + dd + n (3 "
        "dd + 2e + dr + dfd)",
        rows(found),
        tuple(figures),
        (Table("Receive (µs)", ("protocol", "n", "printed", "corrected", "longest, measured"), cells),),
        tuple(Picture(f"receive-timing-{WORDS[name]}", svg) for name, svg in zip(PROTOCOLS, pictures, strict=True)),
    )


# 91: latency
def latency(context: Context) -> Measured:
    worst = context.once("worst bounds", worst_runs)
    runs = [*context.once("drawn bounds", drawn_runs), *worst]
    sizes = sorted({run.copies for run in runs})
    bounds = {(tolerate, copies): times(tolerate=tolerate, copies=copies) for tolerate in PROTOCOLS for copies in sizes}
    early = [run for run in runs if run.earliest < bounds[run.tolerate, run.copies].settled / US - _SLACK]
    beyond = [run for run in runs if run.latest > run.latest_bound or "bounded" in run.violated]
    most = {key: max((run.latest for run in runs if (run.tolerate, run.copies) == key), default=0.0) for key in bounds}
    ours = {key: bound.deliver / US for key, bound in bounds.items()}
    expiry = {copies: (copies * (WRITE + FLAG) + POLL + copies * DECIDE + 2 * SKEW) * US for copies in sizes}  # X as printed
    printed = {key: (bound.send if bound.first else expiry[key[1]]) / US + SKEW for key, bound in bounds.items()}
    above = sum(most[key] > printed[key] for key in bounds)
    parts, figures = [], []
    for tolerate, word in WORDS.items():
        keys = [(tolerate, copies) for copies in sizes]
        parts.append(f"{word} protocol: " + ", ".join(f"{most[key]:.0f} of {ours[key]:.0f} µs (n = {key[1]})" for key in keys))
        measured = {"longest, measured": [most[key] for key in keys], "our bound": [ours[key] for key in keys]}
        series = curves(sizes, measured, {"printed: may be read": [printed[key] for key in keys]})
        figures.append(Figure(f"latency-{word}", f"from Send to delivery, {word} protocol", "copies (n)", "µs", series))
    columns = ("protocol", "n", "may be read (printed)", "may be read (ours)", "bound of delivery (ours)", "longest, measured")
    cells = [
        (WORDS[key[0]], key[1], f"{printed[key]:g}", f"{bound.settled / US:.3f}", f"{ours[key]:.3f}", f"{most[key]:.3f}")
        for key, bound in bounds.items()
    ]
    return Measured(
        f"{sum(run.sent for run in runs):,} messages in {len(runs)} runs: decided (first) or delivered (second) before T + Ds + "
        f"e or T + X + e in {len(early)}; from a Send's timestamp to the last delivery, measured and bound: {'; '.join(parts)}; "
        f"above our bound in {len(beyond)} runs",
        judge(holds=not early and not beyond and not above, nearly=not early and not beyond),
        "Ds + e and X + e are when a message may be read, by any clock, and not before; until it is read it is looked for (p), "
        "decided and read, and others with earlier timestamps go first. A bound of what a user sees has to have these parts too; "
        "ours is reached to the nanosecond by the first protocol as long as no look comes between deciding and reading (claim "
        "92, p = 1000 µs); the second's is not tight. X is another one than printed (claim 88)",
        rows(runs),
        tuple(figures),
        (Table("from Send to delivery (µs)", columns, cells),),
    )


# 92: what times depend on
def crowded(tolerate: str, receivers: int, service: float) -> Plan:
    """Messages of one sender, and a memory that serves one at a time."""
    sends = load("a", 500.0, 4500, 9000)
    memory = {"duration": "min", "service": round(service * US), **QUIETLY}
    label = f"served one at a time, {WORDS[tolerate]} protocol, {receivers} processes"
    return plan(" ".join(_RECEIVERS[:receivers]), sends, usual=None, tolerate=tolerate, memory=memory, places=9, label=label)


def dependence(context: Context) -> Measured:
    worst = context.once("worst bounds", worst_runs)
    received = context.once("received", _received)
    counts = context.of((2, 3, 5), (2, 3, 4, 5, 6, 7))
    by_processes = {
        tolerate: context.sweep(spans_of, [WORST[tolerate](2, _RECEIVERS[:count]) for count in counts]) for tolerate in PROTOCOLS
    }
    served = {tolerate: context.sweep(spans_of, [crowded(tolerate, count, 2.0) for count in counts]) for tolerate in PROTOCOLS}
    lines: dict[tuple[str, str], tuple[float, float, float]] = {}
    straightest = {
        "crash": context.sweep(spans_of, [worst_first(run.copies, poll=_RARELY) for run in worst if run.tolerate == "crash"]),
        "timing": [run for run in worst if run.tolerate == "timing"],
    }
    for tolerate, mine in straightest.items():
        lines[tolerate, "Send"] = slope([run.copies for run in mine], [run.send for run in mine])
        lines[tolerate, "delivery"] = slope([run.copies for run in mine], [run.latest for run in mine])
        taken = [one for one in received if one.tolerate == tolerate]
        lines[tolerate, "Receive"] = slope([one.copies for one in taken], [one.took for one in taken])
    latest = [[run.latest for run in by_processes[tolerate] if run.latest] for tolerate in PROTOCOLS]
    spread = max(max(found) - min(found) for found in latest)
    straight = min(r2 for _, _, r2 in lines.values())
    within = all(run.latest <= run.latest_bound for runs in served.values() for run in runs)
    told = "; ".join(f"{WORDS[tolerate]} protocol {what} {equation(line)} µs" for (tolerate, what), line in lines.items())
    crowd = served["crash"]
    linear = [each for tolerate, mine in straightest.items() for each in _line(tolerate, mine, lines[tolerate, "delivery"])]
    alone = {f"{WORDS[tolerate]} protocol": [run.latest for run in runs] for tolerate, runs in by_processes.items()}
    queued = {f"{WORDS[tolerate]}, served one at a time": [run.latest for run in runs] for tolerate, runs in served.items()}
    by_count = curves(counts, alone | queued)
    title = "the longest delivery by the number of processes (2 copies)"
    return Measured(
        f"lines through the maxima, R² >= {straight:.6f}: {told}. With 2 copies and {counts[0]} to {counts[-1]} receivers the "
        f"longest delivery differs by {spread:.3f} µs. With a memory that serves one at a time (2 µs each) it grows from "
        f"{crowd[0].latest:.0f} to {crowd[-1].latest:.0f} µs, {'within' if within else 'beyond'} the bounds",
        judge(holds=straight > 0.9999 and spread < _SLACK and within, nearly=straight > 0.99),
        "the first protocol with p = 1000 µs, so that no look finds dead copies between deciding and reading, which would make "
        "it faster. Nobody waits for anybody but for a quorum, whose members work at the same time; that processes share the "
        "memory has to be in the bounds of one operation, as the seed says",
        rows(*by_processes.values(), *served.values()),
        (
            Figure("linear", "the longest delivery (p = 1000 and 100 µs)", "copies (n)", "µs", tuple(linear)),
            Figure("by-processes", title, "receivers", "µs", by_count),
        ),
    )


def _line(tolerate: str, runs: Sequence[Spans], line: tuple[float, float, float]) -> tuple[Series, Series]:
    a, b, _ = line
    ends = (runs[0].copies, runs[-1].copies)
    return (
        Series(f"{WORDS[tolerate]} protocol, measured", [run.copies for run in runs], [run.latest for run in runs]),
        Series(equation(line), ends, [a * end + b for end in ends], from_document=True),
    )
