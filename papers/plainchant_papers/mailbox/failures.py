"""Claims 83, 84, 86 and 88 (3.4.1): failures that the first protocol does not tolerate, how many the second does, and X."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from plainchant.core.model import US
from plainchant.sim.scripted import Script

from ..claims import Context, Figure, Measured, Table, curves, judge, rows
from ..runs import Given
from .scripted import AS_BUILT, PROTOCOLS, QUIETLY, WORDS, Found, Plan, Rules, fault, found_of, message, modules, plan, times
from .timing import DECIDE, FLAG, POLL, SKEW, WRITE


# 83: an early receiver
def early_receiver(tolerate: str, ahead: float) -> Plan:
    """Three senders, one after the other, take all their time; the clock of one receiver is ahead, and it looks often."""
    sends = [message(name, 5010 + 2000 * number) for number, name in enumerate("stu")]
    given: Given = {"tolerate": tolerate, "senders": tuple("stu"), "clocks": {"a": ahead}, "poll": 30, "memory": QUIETLY}
    return plan("s t u a b c", *sends, usual=1, label=f"{WORDS[tolerate]} protocol, ahead by {ahead:g}", **given)


def early(context: Context) -> Measured:
    aheads = context.of((0, 4, 60, 150), (0, 4, 10, 15, 20, 30, 40, 60, 80, 100, 150, 200, 300))
    runs = {tolerate: context.sweep(found_of, [early_receiver(tolerate, ahead) for ahead in aheads]) for tolerate in PROTOCOLS}
    heard = {tolerate: [len(run.delivered.get("b", ())) for run in found] for tolerate, found in runs.items()}
    blocked = [
        (ahead, len(run.accused))
        for ahead, run in zip(aheads, runs["crash"], strict=True)
        if not run.delivered.get("b") and not run.delivered.get("c")
    ]
    everything = {("s", 1), ("t", 1), ("u", 1)}
    survived = all(
        set(run.delivered["b"]) == set(run.delivered["c"]) == everything and not run.accused and not run.violated
        for run in runs["timing"]
    )
    within = heard["crash"][aheads.index(4)] == 3
    least = min((ahead for ahead, _ in blocked), default=0)
    title = "three intact senders and a receiver whose clock is ahead (e = 4 µs)"
    series = curves(aheads, {f"{WORDS[tolerate]} protocol": counts for tolerate, counts in heard.items()})
    return Measured(
        f"three intact senders, one of three receivers with a clock that is ahead: of the first protocol all three messages are "
        f"rejected by everybody if it is ahead by {least} µs or more ({len(blocked)} of {len(aheads)} runs), and all are "
        f"delivered if it is ahead by e; of the second all are delivered in {sum(count == 3 for count in heard['timing'])} of "
        f"{len(aheads)}",
        judge(holds=bool(blocked) and within and survived and all(accused == 3 for _, accused in blocked)),
        "its decision is in the decision field, and everybody follows it; a quorum has somebody in it who is not early",
        [run.row() for found in runs.values() for run in found],
        (Figure("early-receiver", title, "ahead by (µs)", "messages delivered to the others", series),),
    )


# 84: late failures
def late_receiver(tolerate: str, stop: float) -> Plan:
    label = f"{WORDS[tolerate]} protocol, receiver stops at {stop:g}"
    given: Given = {"tolerate": tolerate, "senders": ("s",), "faults": [fault("pause", stop, process="c", length=3000)]}
    return plan("s a b c", message("s", 5010), usual=0.5, label=label, memory=QUIETLY, **given)


def late_sender(tolerate: str, share: float) -> Plan:
    """s begins before t and writes late; one receiver looks a little later than the other."""
    script = Script({"s write": share, "b look": 1})
    label = f"{WORDS[tolerate]} protocol, write takes {share * WRITE:g}"
    given: Given = {"tolerate": tolerate, "senders": ("s", "t"), "copies": 1, "memory": QUIETLY}
    return plan("s t a b", message("s", 5010), message("t", 5020), script=script, label=label, **given)


def late(context: Context) -> Measured:
    stops = context.of((4990, 5060, 5105, 5112), range(4980, 5240, 3))
    shares = [value / WRITE for value in context.of((70, 93, 120), range(20, 160, 1))]
    receivers = {name: context.sweep(found_of, [late_receiver(name, stop) for stop in stops]) for name in PROTOCOLS}
    senders = {name: context.sweep(found_of, [late_sender(name, share) for share in shares]) for name in PROTOCOLS}

    def bad(runs: Sequence[Found]) -> int:
        return sum(bool(run.violated or run.accused) for run in runs)

    first = next((run for run in senders["crash"] if run.violated), None)
    example = "none"
    if first is not None:
        told = {name: " ".join(sender for sender, _ in first.delivered.get(name, ())) or "nothing" for name in "ab"}
        example = "; ".join(f"{name} delivers {what}" for name, what in told.items())
    stopped = sum("c" in run.untimely for run in receivers["crash"])
    return Measured(
        f"a receiver that stops at {len(stops)} moments ({stopped} timing faults): {bad(receivers['crash'])} runs violate "
        f"something. A sender whose write takes up to {max(shares):g} of its bound, with another message after it: "
        f"{bad(senders['crash'])} of {len(shares)} do ({example}). With the second protocol {bad(receivers['timing'])} and "
        f"{bad(senders['timing'])}",
        judge(holds=not bad(receivers["crash"]) and not bad(senders["crash"]) and stopped > 0, nearly=False),
        "3.4.1 says that the first protocol is tolerant of late timing failures. Of late receivers it is; a late sender inserts "
        "a message when one receiver has gone on to a later timestamp and another has not, and they deliver different messages. "
        "The second protocol rejects it by X, or everybody has it in time",
        [run.row() for found in (*receivers.values(), *senders.values()) for run in found],
    )


# 86: how many
KINDS: Final = ("early", "late", "crashed")


@dataclasses.dataclass(frozen=True, slots=True)
class Many:
    """So many of N receivers fail in one way."""

    kind: str
    receivers: int
    failing: int


@dataclasses.dataclass(frozen=True, slots=True)
class Survived(Many):
    """Whether the others accepted the message of an intact sender in time."""

    survived: bool


def failing_plan(many: Many) -> Plan:
    """An intact sender, and receivers of which the last fail."""
    names = "abcdefg"[: many.receivers]
    last = names[many.receivers - many.failing :] if many.failing else ""
    clocks = {name: 150.0 + 5 * number for number, name in enumerate(last)} if many.kind == "early" else {}
    faults = {
        "early": [],
        "late": [fault("pause", 5050, process=name, length=3000) for name in last],
        "crashed": [fault("crash", 5000 + number, process=name) for number, name in enumerate(last)],
    }[many.kind]
    given: Given = {"senders": ("s",), "clocks": clocks, "faults": faults, "memory": QUIETLY, "places": 9}
    label = f"{many.failing} of {many.receivers} {many.kind}"
    usual = 1.0 if many.kind == "early" else 0.5
    return plan(f"s {' '.join(names)}", message("s", 5010), usual=usual, label=label, **given)


def survived_of(many: Many) -> Survived:
    run = found_of(failing_plan(many))
    intact = "abcdefg"[: many.receivers - many.failing]
    everybody = all(run.delivered.get(name) == (("s", 1),) for name in intact)
    survived = everybody and not run.accused and "bounded" not in run.violated
    return Survived(many.kind, many.receivers, many.failing, survived)


def how_many(context: Context) -> Measured:
    sizes = context.of((3, 4, 5), (2, 3, 4, 5, 6, 7))
    items = [Many(kind, size, failing) for kind in KINDS for size in sizes for failing in range(size)]
    found = context.sweep(survived_of, items)
    most = {(kind, size): _most_survived(found, kind, size) for kind in KINDS for size in sizes}
    quorum = {size: size // 2 + 1 for size in sizes}
    by_quorum = all(most[kind, size] == quorum[size] - 1 for kind in KINDS for size in sizes)
    by_table = all(
        most[kind, size] == (quorum[size] - 1 if kind == "early" else (size - 1) // 2) for kind in KINDS for size in sizes
    )
    told = "; ".join(f"{kind}: " + ", ".join(f"{most[kind, size]} of {size}" for size in sizes) for kind in KINDS)
    cells = [(size, quorum[size] - 1, (size - 1) // 2, *(most[kind, size] for kind in KINDS)) for size in sizes]
    return Measured(
        f"the most failing receivers with which an intact sender's message is delivered to the others in time: {told}; with one "
        "more it is rejected or late",
        judge(holds=by_quorum, nearly=by_table),
        "a quorum of mu has somebody intact in it as long as fewer than mu are early: t < mu, and no more. But a quorum also has "
        "to come about without those who are late or have crashed: t <= N - mu = floor((N - 1) / 2), as Table 4.1 has it, which "
        "is one less if N is even",
        rows(found),
        tables=(Table("the most receivers that may fail", ("N", "mu - 1", "floor((N - 1) / 2)", *KINDS), cells),),
    )


def _most_survived(found: Sequence[Survived], kind: str, receivers: int) -> int:
    """The largest number of failures that is survived, as are all smaller ones; -1: not even none is."""
    failed = [one.failing for one in found if (one.kind, one.receivers, one.survived) == (kind, receivers, False)]
    return min(failed, default=receivers) - 1


# 88: X
def last_moment(copies: int, rules: Rules = AS_BUILT, expiry: float = 0) -> Plan:
    """All copies but the last are dead, everything takes its bound, and the message is complete just after all have looked."""
    sent = message("s", 5100.001 - times(rules, copies=copies).complete / US - copies * DECIDE)
    given: Given = {"senders": ("s",), "copies": copies, "faults": modules(1000, copies), "expiry": expiry, "memory": QUIETLY}
    label = f"{copies} copies, X {expiry or rules.get('expiry', 'corrected')}"
    return plan("s a b", sent, usual=1, rules=rules, label=label, **given)


@dataclasses.dataclass(frozen=True, slots=True)
class Expiry:
    """X for so many copies, µs."""

    copies: int
    printed: float
    corrected: float
    least: float  # The smallest with which the message is accepted.
    printed_rejects: bool
    corrected_rejects: bool


def expiry_of(copies: int) -> Expiry:
    printed: Rules = {"expiry": "printed"}
    corrected = AS_BUILT
    bounds = times(copies=copies).expiry
    low, high = copies * (WRITE + FLAG) * US, bounds
    while high - low > 1:
        middle = (low + high) // 2
        if found_of(last_moment(copies, expiry=middle / US)).accused:
            low = middle
        else:
            high = middle
    printed_rejects = bool(found_of(last_moment(copies, printed)).accused)
    corrected_rejects = bool(found_of(last_moment(copies, corrected)).accused)
    return Expiry(copies, times(printed, copies=copies).expiry / US, bounds / US, high / US, printed_rejects, corrected_rejects)


def expiry(context: Context) -> Measured:
    found = context.sweep(expiry_of, context.of((1, 3), range(1, 8)))
    rejects = [one.copies for one in found if one.printed_rejects]
    tight = all(one.corrected - one.least <= 0.01 and not one.corrected_rejects for one in found)
    last = found[-1]
    measured = {"least that is enough (measured)": [one.least for one in found], "corrected": [one.corrected for one in found]}
    series = curves([one.copies for one in found], measured, {"printed": [one.printed for one in found]})
    cells = [(one.copies, f"{one.printed:g}", f"{one.corrected:.3f}", f"{one.least:.3f}") for one in found]
    return Measured(
        f"an intact sender whose message is seen as late as it may be, in the last of n copies: with X as printed it is rejected "
        f"for n = {', '.join(map(str, rejects)) or 'none'}. The least X with which it is accepted, to the nanosecond, is "
        f"{last.least:.3f} µs for n = {last.copies}, where {last.printed:g} is printed; ours is {last.corrected:.3f}, never "
        f"more than {max(one.corrected - one.least for one in found) * 1000:.0f} ns above the least",
        judge(holds=not rejects, nearly=False),
        "X >= Ds + p + n dd + 2e leaves out the look itself (dd), and that each copy that dies holds everybody up for three "
        f"steps and two waits, W = 3 dd + 2e, not for dd. X = Ds + e + p + dd + (n - 1) W + dd is enough, and "
        f"{'no smaller one is' if tight else 'is not the least'}",
        rows(found),
        (Figure("expiry", f"expiry time X (dd = {DECIDE}, e = {SKEW}, p = {POLL} µs)", "copies (n)", "µs", series),),
        (Table("X (µs)", ("n", "printed", "corrected", "least, measured"), cells),),
    )
