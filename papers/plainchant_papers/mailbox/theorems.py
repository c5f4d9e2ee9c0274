"""Claims 81, 82, 85 and 87: the theorems, overtaking and decision field, in explored small cases and runs with drawn failures."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from plainchant.sim.scripted import Script

from ..claims import Context, Figure, Measured, Series, judge, rows
from ..runs import Given
from .explored import Explored, Small, explored_of, small, table
from .scripted import QUIETLY, Found, Plan, fault, found_of, load, message, plan
from .timing import DECIDE, SKEW

_DELAYS: Final = {"none": "no delay", "printed": "e", "corrected": "2 dd"}
"""The extra delay for a dead copy: as a rule, and in words."""
_ALONE: Final[dict[str, Any]] = {"failures": 0}  # Only the sender may crash.
_EQUAL: Final = "2 receivers, 2 copies, crashes of the sender and of a copy, clocks equal"


def _broken(runs: Sequence[Found]) -> list[Found]:
    """Runs in which something that is promised to intact processes is violated, or an intact sender's message is rejected."""
    return [run for run in runs if run.violated or run.accused]


def _told(cases: Sequence[Explored]) -> str:
    states, ends = sum(case.states for case in cases), sum(case.runs for case in cases)
    every = "all of them" if all(case.complete for case in cases) else f"{sum(case.complete for case in cases)} of them"
    return f"{len(cases)} small cases, {every} tried in every way ({states:,} states, {ends:,} different runs to their ends)"


# 81, 82: the first protocol
def first_cases(context: Context) -> list[Small]:
    """What is tried of the first protocol as we run it."""
    quick = [
        small("2 receivers, 1 copy, a crash", tolerate="crash", copies=1),
        small(_EQUAL, tolerate="crash", equal_clocks=True, **_ALONE),
    ]
    full = [
        small("2 receivers, 2 copies, crashes of a process and of a copy, e = 0", tolerate="crash", skew=0),
        small("2 receivers, 2 copies, crashes of the sender and of a copy", tolerate="crash", **_ALONE),
        small("2 receivers, 2 senders, 1 copy, a crash, clocks equal", tolerate="crash", copies=1, senders=2, equal_clocks=True),
    ]
    return context.of(quick, [*quick, *full])


def printed_first() -> list[Small]:
    """The same with the delay as printed, and with none."""
    return [small(_EQUAL, tolerate="crash", rules={"extra": extra}, equal_clocks=True, **_ALONE) for extra in ("printed", "none")]


def crashing(seed: int) -> Plan:
    """Processes and copies crash at drawn moments, some processes in the middle of a Send; clocks and durations are drawn."""
    draw = random.Random(f"{seed}/crashing")
    copies = draw.randrange(1, 5)
    dead = draw.sample(range(1, copies + 1), draw.randrange(copies))
    faults = [fault("module", draw.uniform(4500, 11_000), module=number) for number in dead]
    for process in draw.sample("abcd", draw.randrange(4)):
        faults.append(fault("crash", draw.uniform(4500, 11_000), process=process, mid_broadcast=draw.random() < 0.5))
    clocks = {process: draw.uniform(0, SKEW) for process in "abcd"}
    sends = load("abcd", draw.choice((300.0, 700.0, 1500.0)), 4000, 11_000)
    given: Given = {"tolerate": "crash", "copies": copies, "clocks": clocks, "faults": faults}
    return plan("a b c d", sends, memory=_drawn_times(draw), **given, **_drawn(seed))


def _drawn_times(draw: random.Random) -> dict[str, Any]:
    return {"duration": draw.choice(("uniform", "extremes")), **QUIETLY}


def _drawn(seed: int) -> dict[str, Any]:
    return {"usual": None, "seed": seed, "length": 12_000, "label": f"drawn {seed}"}


def theorem_1(context: Context) -> Measured:
    clean = context.sweep(explored_of, first_cases(context))
    printed = context.sweep(explored_of, printed_first())
    drawn = context.sweep(found_of, [crashing(seed) for seed in range(context.of(16, 200))])
    broken = _broken(drawn)
    messages = sum(run.sent for run in drawn)
    ours = [case for case in clean if case.broken or not case.complete]
    theirs = next(case for case in printed if "printed" in case.rules)
    return Measured(
        f"with 2 dd for a dead copy: {_told(clean)}, {len([case for case in clean if case.broken])} break a promise; of "
        f"{len(drawn)} runs with crashes at drawn moments ({messages:,} messages) {len(broken)} do. With e, as printed, the "
        f"explorer finds after {theirs.states:,} states: {theirs.how or 'nothing'} ({theirs.broken or 'no promise broken'})",
        judge(holds=not ours and not broken and not theirs.broken, nearly=not ours and not broken and messages > 0),
        "case 2 of the proof says that the extra delay brings B to the next copy after A; e does not: A may have begun up to dd "
        "after B, and has dd to write. With 2 dd for each copy that is found dead, kept for all later copies, everything holds",
        rows(clean, printed),
        tables=(table("small cases of the first protocol, tried in every way", [*clean, *printed]),),
    )


def overtaken(extra: str, skew: float, look: float, decides: float) -> Plan:
    """s crashes after the flag in copy 1. a, whose look takes a while, accepts there, and the copy dies. b finds it dead and
    goes on to copy 2, where the flag is not set, while a takes all the time that it has to write its decision there."""
    script = Script({"a look": look, "b decide 1": decides, "a decide 2": 1}, {"s flag 1": "s", "a decide 1": "module 1"})
    given: Given = {"rules": {"extra": extra}, "tolerate": "crash", "senders": ("s",), "skew": skew, "memory": QUIETLY}
    label = f"extra {extra}, e {skew:g}, look {look:g}, decide {decides:g}"
    return plan("s a b", message("s", 5010), script=script, label=label, **given)


def overtaking(context: Context) -> Measured:
    skews = context.of((1.0, 4.0, 15.0), (1.0, 2.0, 4.0, 8.0, 12.0, 15.0, 18.0, 21.0, 25.0))
    shares = context.of((0.8, 1.0), (0.2, 0.4, 0.6, 0.8, 0.9, 1.0))
    cases = list(product(_DELAYS, skews, shares, shares))
    runs = context.sweep(found_of, [overtaken(*case) for case in cases])
    broken = {extra: dict.fromkeys(skews, 0) for extra in _DELAYS}
    for (extra, skew, _, _), run in zip(cases, runs, strict=True):
        broken[extra][skew] += bool(_broken([run]))
    of = len(shares) ** 2
    none, printed, ours = (sum(broken[extra].values()) for extra in _DELAYS)
    longest = max((skew for skew in skews if broken["printed"][skew]), default=0)
    series = tuple(
        Series(words, skews, list(broken[extra].values()), from_document=extra == "printed") for extra, words in _DELAYS.items()
    )
    title = "runs in which a receiver overtakes another (dd = 10 µs)"
    return Measured(
        f"{len(cases) // 3} runs in which a copy dies when one receiver has accepted there: without a delay {none} end with "
        f"different decisions, with e {printed} (up to e = {longest / DECIDE:g} dd), with 2 dd {ours}",
        judge(holds=none > 0 and not printed, nearly=False),
        "the scenario of 3.3.1 is real, and so a delay is needed; how long it has to be depends on dd, by which two receivers "
        "may be apart and which a step takes, and not on e: all begin by the same reading of their clocks only if they look at "
        "the same time. In our model 2 dd a dead copy is enough",
        [
            {"extra": _DELAYS[extra], "e_us": skew, "runs": of, "broken": count}
            for extra, counts in broken.items()
            for skew, count in counts.items()
        ],
        (Figure("overtaking", title, "e (µs)", f"of {of} runs", series),),
    )


# 85, 87: the second protocol
def second_cases(context: Context) -> list[Small]:
    """What is tried of the second protocol as we run it."""
    one: Given = {"tolerate": "timing", "copies": 1}
    stops: Given = {"late": {"s1": 60}, "crashes": 0}
    early: Given = {"receivers": 3, "early": {"r1": 70}, "crashes": 0}
    slow: Given = {"receivers": 3, "late": {"r1": 100}, "crashes": 0}
    words = "2 receivers, 2 copies, the sender stops once for 60, a copy crashes, clocks equal"
    quick = [
        small("2 receivers, 1 copy, the sender crashes", **one),
        small("2 receivers, 1 copy, the sender stops once for 60, e = 0", skew=0, **one, **stops),
        small("3 receivers, 1 copy, one of them early by 70, e = 0", skew=0, **one, **early),
    ]
    full = [
        small("2 receivers, 2 copies, crashes of the sender and of a copy, e = 0", tolerate="timing", skew=0),
        small(words, tolerate="timing", equal_clocks=True, **stops),
        small("3 receivers, 1 copy, one of them stops once for 100, clocks equal", equal_clocks=True, **one, **slow),
    ]
    return context.of(quick, [*quick, *full])


def printed_second() -> list[Small]:
    """The second protocol with X as it is printed."""
    given: Given = {"crashes": 0, "phases": (0, 1), "varied": frozenset[str]()}
    words, rules = "2 receivers, 2 copies, a copy crashes", {"expiry": "printed"}
    return [small(words, tolerate="timing", rules=rules, probes=2000, limit=1000, **given)]


def untimely(seed: int) -> Plan:
    """Senders that are slow or are stopped, receivers that are early, late or crash (a minority), copies that die."""
    draw = random.Random(f"{seed}/untimely")
    copies = draw.randrange(1, 4)
    faults = [
        fault("slow", draw.uniform(4500, 8000), process="s", length=draw.uniform(500, 4000), delay=draw.uniform(10, 300)),
        fault("pause", draw.uniform(4500, 10_000), process="t", length=draw.uniform(50, 900)),
    ]
    for number in draw.sample(range(1, copies + 1), draw.randrange(copies)):
        faults.append(fault("module", draw.uniform(4500, 10_000), module=number))
    ways = (
        fault("crash", draw.uniform(4500, 10_000), process="e"),
        fault("pause", draw.uniform(4500, 10_000), process="e", length=draw.uniform(50, 900)),
        fault("slow", 5000, process="e", length=5000, delay=draw.uniform(10, 200)),
        fault("step", draw.uniform(4500, 10_000), process="e", offset=draw.choice((-500, 300))),
    )
    faults.append(draw.choice(ways))
    clocks = {"b": SKEW, "d": SKEW / 2, "c": draw.choice((137, -90, 1000))}
    sends = load("stab", draw.choice((300.0, 600.0)), 4000, 11_000)
    given: Given = {"copies": copies, "senders": ("s", "t"), "clocks": clocks, "faults": faults, "rejected": "again"}
    return plan("s t a b c d e", sends, memory=_drawn_times(draw), **given, **_drawn(seed))


def theorem_2(context: Context) -> Measured:
    clean = context.sweep(explored_of, second_cases(context))
    printed = context.sweep(explored_of, printed_second())
    waiting = context.sweep(found_of, [line_21(wait) for wait in ("printed", "corrected")])
    drawn = context.sweep(found_of, [untimely(seed) for seed in range(context.of(12, 150))])
    broken = _broken(drawn)
    messages, late = sum(run.sent for run in drawn), sum(bool(run.untimely) for run in drawn)
    ours = [case for case in clean if case.broken or not case.complete]
    theirs = printed[0]
    accused = [bool(run.accused) for run in waiting]
    return Measured(
        f"with X and the wait of line 21 as corrected: {_told(clean)}, {len([case for case in clean if case.broken])} break a "
        f"promise; of {len(drawn)} runs with timing failures and crashes at drawn moments ({messages:,} messages, timing faults "
        f"in {late} runs) {len(broken)} do. With X as printed the explorer finds, in {theirs.drawn:,} drawn runs: "
        f"{theirs.how or 'nothing'}; with line 21 as printed the message of an intact sender is "
        f"{'rejected' if accused[0] else 'accepted'} in a scripted run, with the longer wait it is "
        f"{'rejected' if accused[1] else 'accepted'}",
        judge(
            holds=not ours and not broken and not theirs.broken and not any(accused),
            nearly=not ours and not broken and not accused[1] and late > 0,
        ),
        "line 21 waits for e, but those who joined in at the same moment may need dd before it can be seen that they have: e + "
        "dd. And X has to allow for three steps and two waits in each copy that dies (claim 88). Consensus and order do not "
        "depend on either",
        rows(clean, printed),
        (),
        (table("small cases of the second protocol, tried in every way", [*clean, *printed]),),
    )


def line_21(wait: str) -> Plan:
    """c's clock is so far ahead that the message has expired for it: it votes without having seen it. a joins in at once, waits
    and votes, before it can be seen that b, whose first step takes its time, has: the quorum is there, and nobody may accept."""
    given: Given = {"rules": {"wait": wait}, "senders": ("s",), "copies": 1, "clocks": {"c": 1000}, "label": f"wait {wait}"}
    return plan("s a b c", message("s", 5010), script=Script({"b decide 1": 1}), **given)


def pausing(field: bool, at: float) -> Plan:
    """s pauses before it sets its flags, and goes on when copy 1 is decided or while it is. Copy 2 dies when a has left it."""
    script = Script({"s flag 1": at / 20, "b decide 2": (0, 0, 1)}, {"a decide 2 #3": "module 2"})
    rules = {"decision_field": field}
    label = f"D {'as it is' if field else 'not used'}, flags {at:g} late"
    memory = QUIETLY
    return plan("s a b", message("s", 5010), script=script, rules=rules, senders=("s",), label=label, memory=memory)


def decision_field(context: Context) -> Measured:
    moments = context.of((100, 130, 160), range(90, 220, 2))
    runs = {field: context.sweep(found_of, [pausing(field, at) for at in moments]) for field in (True, False)}
    case: Given = {"tolerate": "timing", "late": {"s1": 60}, "crashes": 0, "promise": "consensus"}
    words = "2 receivers, 2 copies, the sender stops once for 60, a copy crashes"
    without = context.sweep(explored_of, [small(words, rules={"decision_field": False}, probes=6000, limit=20_000, **case)])
    broken = {field: [run for run in found if "unanimity" in run.violated] for field, found in runs.items()}
    example = broken[False][0] if broken[False] else None
    ends = ", ".join(f"{name} decides {values[0]}" for name, values in example.decisions.items()) if example else "nothing"
    return Measured(
        f"a sender that pauses before it sets its flags, for {len(moments)} lengths of time, and copy 2 dying: receivers decide "
        f"differently in {len(broken[False])} runs if a decision of an earlier copy is not written into D ({ends}), in "
        f"{len(broken[True])} if it is. The explorer, without D: {without[0].how or 'nothing'}, after {without[0].drawn:,} "
        "drawn runs",
        judge(holds=bool(broken[False]) and not broken[True] and without[0].broken == "consensus"),
        "in copy 2 the flag is set that was not set in copy 1: LD becomes 1 there, and who follows LD contradicts who has gone "
        "on with the decision of copy 1",
        [run.row() for found in runs.values() for run in found],
        (),
        (table("without D", without),),
    )
