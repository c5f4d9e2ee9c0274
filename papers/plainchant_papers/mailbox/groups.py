"""Claims 93 to 95 (appendix A): receivers that join and leave, with and without timing failures, and remote members."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import product
from typing import Final

from plainchant.core.model import US
from plainchant.protocols import mailbox
from plainchant.protocols.mailbox.parameters import Parameters
from plainchant.scenario.model import Delay, Network
from plainchant.sim.scripted import Script

from ..claims import Context, Figure, Measured, Table, curves, judge, rows, totals
from ..runs import Given
from .bounds import worst_runs
from .scripted import AS_BUILT, PROTOCOLS, QUIETLY, WORDS, Found, Plan, Rules, fault, found_of, load, message, plan, us
from .timing import DECIDE, FINISH, FLAG, POLL, READ, SKEW, WRITE


# 93: Join and Leave
@dataclasses.dataclass(frozen=True, slots=True)
class Flags:
    """Whom messages had a decision flag for while c joined and left."""

    label: str
    messages: int  # Entries in copies that were looked at,
    within: int  # of which so many have a timestamp from the entry on and before the exit,
    missing: int  # so many of these have no flag for c: Claim 1 is broken,
    after: int  # so many have a timestamp from the exit on,
    remaining: int  # and so many of these have one: Claim 2 is broken.
    before: int  # Flags in messages earlier than the entry.
    untimely: tuple[str, ...]
    violated: tuple[str, ...]
    delivered: tuple[tuple[str, int], ...]


def flags_of(one: Plan) -> Flags:
    run = found_of(one)
    entry = run.states.get(("c", "entered"), 0)
    leaving = run.states.get(("c", "leaving"), 0) or 1 << 62
    within = [names for (_, stamp, _), names in run.flagged.items() if entry <= stamp < leaving]
    after = [names for (_, stamp, _), names in run.flagged.items() if stamp >= leaving]
    missing = sum("c" not in names for names in within)
    remaining = sum("c" in names for names in after)
    before = sum("c" in names for (_, stamp, _), names in run.flagged.items() if stamp < entry)
    delivered = run.delivered.get("c", ())
    return Flags(
        run.label, len(run.flagged), len(within), missing, len(after), remaining, before, run.untimely, run.violated, delivered
    )


def changing(tolerate: str, usual: float | None, ahead: float, at: float) -> Plan:
    """c joins and leaves, and two who only send do so at a high rate before, at and after that."""
    loads = [
        load(name, 7000.0, begin + 33 * number, begin + 1400)
        for number, name in enumerate("st")
        for begin in (at - 500, at + 2500)
    ]
    changes = [fault("join", at, process="c"), fault("leave", at + 3000, process="c")]
    given: Given = {"tolerate": tolerate, "senders": ("s", "t"), "faults": changes, "later": ("c",), "seed": int(at)}
    clocks = {"s": ahead, "t": SKEW - ahead}
    label = f"{WORDS[tolerate]} protocol, share {usual}, clocks {ahead:g}, at {at:g}"
    return plan("s t a b", *loads, usual=usual, clocks=clocks, length=at + 5000, label=label, **given)


def join_and_leave(context: Context) -> Measured:
    aheads = context.of((SKEW,), (0, SKEW / 2, SKEW))
    moments = context.of((5000.0,), (5000.0, 5013.0, 5037.0, 5050.0, 5071.0, 5090.0))
    cases = product(PROTOCOLS, (0.0, 0.5, 1.0, None), aheads, moments)
    found = context.sweep(flags_of, [changing(*case) for case in cases])
    within, missing, after, remaining, before = totals(found, "within", "missing", "after", "remaining", "before")
    violated = sum(bool(one.violated or one.untimely) for one in found)
    return Measured(
        f"{len(found)} runs in which somebody joins and leaves while two processes send: {within:,} entries of messages with "
        f"timestamps from the entry on and before the exit, {missing} of them without a flag for it; {after:,} with later ones, "
        f"{remaining} of them with a flag (and {before} with one before the entry); {violated} runs violate something",
        judge(holds=not missing and not remaining and not violated and within > 0 and after > 0),
        "by entry and exit every copy has the receiver in its list, or out of it, and senders go by timestamps, not by when they "
        "write",
        rows(found),
    )


# 94: the same with timing failures
PRINTED: Final[Rules] = {"enter_after": False}  # Entries and exits as the appendix has them, whatever is there already.


def unlisted(ahead: float, rules: Rules = PRINTED) -> Plan:
    """s's clock is ahead: its message is later than c's entry, and it writes it before c is in the list."""
    script = Script({"c list": 1, "c read": 1})
    given: Given = {"senders": ("s",), "clocks": {"s": ahead}, "faults": [fault("join", 5000, process="c")], "later": ("c",)}
    label = f"ahead by {ahead:g}, {_words(rules)}"
    return plan("s a b", message("s", 5005), script=script, rules=rules, label=label, **given)


def still_listed(ahead: float, rules: Rules = PRINTED) -> Plan:
    """The same when c leaves."""
    sends = [message("s", 5005), message("s", 9000)]
    given: Given = {"senders": ("s",), "slots": 1, "clocks": {"s": ahead}, "faults": [fault("leave", 5000, process="c")]}
    label = f"ahead by {ahead:g}, leaving, {_words(rules)}"
    return plan("s a b c", *sends, script=Script({"c list": 1}), rules=rules, label=label, **given)


def slow_sender(share: float) -> Plan:
    """s is late instead: it writes long after its timestamp."""
    script = Script({"s write 1": share, "s write 2": 3})
    given: Given = {"senders": ("s",), "faults": [fault("join", 5000, process="c")], "later": ("c",), "rejected": "again"}
    label = f"write takes {share:g} of its bound"
    return plan("s a b", message("s", 4990), message("s", 5046), script=script, rules=PRINTED, label=label, **given)


def _words(rules: Rules) -> str:
    if rules.get("enter_after", True):
        return "enters and leaves after what is there"
    if not rules.get("listen", True):
        return "does not listen"
    return "listens" if rules.get("postpone", True) else "removed at once"


def with_timing_failures(context: Context) -> Measured:
    aheads = context.of((100, 130), range(60, 200, 5))
    joins = context.sweep(flags_of, [unlisted(ahead) for ahead in aheads])
    leaves = context.sweep(flags_of, [still_listed(ahead) for ahead in aheads])
    slow = context.sweep(flags_of, [slow_sender(share) for share in context.of((3, 60), (2, 3, 4, 6, 10, 20, 40, 60, 100))])
    lost = {}
    for name, rule in (("listening in", "listen"), ("postponing removal", "postpone")):
        runs = context.sweep(flags_of, [unlisted(ahead, {**PRINTED, rule: False}) for ahead in aheads])
        lost[name] = sum(one.missing > 0 and one.delivered != (("s", 1),) for one in runs)
    ours = context.sweep(flags_of, [make(ahead, AS_BUILT) for make in (unlisted, still_listed) for ahead in aheads])
    never = sum(one.missing > 0 or one.remaining > 0 or bool(one.violated) for one in ours)
    first, second = sum(one.missing > 0 for one in joins), sum(one.remaining > 0 for one in leaves)
    by_slow = sum(one.missing > 0 or one.remaining > 0 for one in slow)
    bad = sum(bool(one.violated) for one in (*joins, *leaves, *slow))
    heard = sum(one.missing > 0 and one.delivered == (("s", 1),) for one in joins)
    reading = {run.copies: run.latest for run in context.once("worst bounds", worst_runs) if run.tolerate == "timing"}
    removed = {copies: copies * (WRITE + FLAG) + copies * (DECIDE + READ + FINISH) + POLL + SKEW + 2 * SKEW for copies in reading}
    short = [copies for copies in reading if reading[copies] > removed[copies]]
    fixed = not bad and heard == first > 0 and all(lost.values()) and not never
    columns = ("n", "printed: Ds + Dr + 2e", "read at the latest, measured")
    cells = [(copies, removed[copies], f"{reading[copies]:.1f}") for copies in reading]
    return Measured(
        f"a sender whose clock is ahead breaks Claim 1 in {first} of {len(joins)} runs and Claim 2 in {second} of "
        f"{len(leaves)}; one that is late breaks them in {by_slow} of {len(slow)}. With both changes {bad} runs violate "
        f"something, and the new receiver has the message in {heard} of {first}; "
        + "; ".join(f"without {name} it lacks it in {count}" for name, count in lost.items())
        + f". If a change comes after all messages that are there, the claims fail in {never} of {len(ours)} runs. An "
        f"intact receiver may read up to {max(reading.values()):.0f} µs after a Send (n = {max(reading)}), where messages are "
        f"kept for Ds + Dr + 2e = {removed[max(reading)]} µs as printed",
        judge(holds=fixed and second > 0 and by_slow > 0 and not short, nearly=fixed and second > 0),
        "it takes a clock that is ahead: a late sender goes by the list as it is then, and by the timestamp, and is right. The "
        "printed postponement forgets that reading begins after T + X + e, and what may have to be decided before; we keep "
        "messages until every intact receiver must have read them",
        rows(joins, leaves, slow, ours),
        tables=(Table("messages are kept after their timestamps (µs)", columns, cells),),
    )


# 95: remote members
_DATAGRAM: Final = 5000  # The bound of a datagram and its acknowledgement, µs.


@dataclasses.dataclass(frozen=True, slots=True)
class Distance:
    """How far away a member is: one way, µs; 0: it is not remote."""

    tolerate: str
    most: float
    seed: int


@dataclasses.dataclass(frozen=True, slots=True)
class Reached:
    """A run with a remote member."""

    tolerate: str
    most: float
    latest: float
    bound: float
    untimely: tuple[str, ...]
    violated: tuple[str, ...]
    same: bool  # All have delivered the same,
    sent: int


def far(distance: Distance) -> Plan:
    """Four members; the last is elsewhere, and the first acts for it."""
    network = Network(delay=Delay("uniform", us(min(100, distance.most)), us(max(distance.most, 1))))
    given: Given = {"remote": {"d": "a"}} if distance.most else {}
    given |= {"tolerate": distance.tolerate, "poll": 1000, "datagram": _DATAGRAM, "rejected": "again", "seed": distance.seed}
    given |= {"length": 100_000, "drain": 5, "settle": 0, "memory": {"duration": "max", **QUIETLY}, "network": network}
    label = f"{WORDS[distance.tolerate]} protocol, {distance.most:g} one way"
    return plan("a b c d", load("abcd", 60.0, 20_000, 90_000), usual=None, label=label, **given)


def reached_of(distance: Distance) -> Reached:
    one = far(distance)
    run: Found = found_of(one)
    members = one.scenario.members
    bounds = mailbox.DESCRIPTION.bounds(Parameters(**one.scenario.parameters), {"g": members})
    orders = {run.delivered.get(name) for name in members}
    bound = bounds["deliver"] / US
    return Reached(distance.tolerate, distance.most, run.latest, bound, run.untimely, run.violated, len(orders) == 1, run.sent)


def _longest(found: Sequence[Reached], tolerate: str) -> dict[float, tuple[float, float]]:
    """For each distance: the longest delivery, and the bound."""
    mine = [one for one in found if one.tolerate == tolerate]
    return {
        most: (max(one.latest for one in mine if one.most == most), next(one.bound for one in mine if one.most == most))
        for most in sorted({one.most for one in mine})
    }


def remote(context: Context) -> Measured:
    near = context.of((0, 1000, 2400), (0, 100, 500, 1000, 1500, 2000, 2400))
    beyond = context.of((12_000,), (6000, 12_000, 20_000))
    seeds = range(context.of(1, 6))
    within, outside = (
        context.sweep(reached_of, [Distance(*each) for each in product(PROTOCOLS, distances, seeds)])
        for distances in (near, beyond)
    )
    kept = all(one.latest <= one.bound and not one.violated and not one.untimely and one.same for one in within)
    exceeded = sum(one.latest > one.bound for one in outside)
    noticed = sum("d" in one.untimely for one in outside if one.latest > one.bound)
    broken = sum(bool(set(one.violated) - {"bounded"}) or not one.same for one in outside)
    parts, figures = [], []
    for tolerate, word in WORDS.items():
        longest = _longest(within, tolerate)
        latest, bounds = ([pair[place] for pair in longest.values()] for place in (0, 1))
        at = ", ".join(f"{time / 1000:.2f} ms at {most / 1000:g}" for most, (time, _) in longest.items())
        parts.append(f"{word} protocol {at} (bound {bounds[-1] / 1000:.2f})")
        series = curves(list(longest), {"longest delivery": latest, "bound": bounds})
        title = f"a remote member, {word} protocol"
        figures.append(Figure(f"remote-{word}", title, "longest datagram, one way (µs)", "µs", series))
    return Measured(
        f"a member elsewhere, datagrams of up to so many ms one way and a bound of {_DATAGRAM // 1000} ms for one and its "
        f"acknowledgement, longest delivery: {'; '.join(parts)}; above the bound in "
        f"{sum(one.latest > one.bound for one in within)} of "
        f"{len(within)} runs. With datagrams that exceed theirs in {exceeded} of {len(outside)}, {noticed} of these with a "
        f"timing fault of the remote member in the trace; order or agreement is broken in {broken}",
        judge(
            holds=kept and exceeded > 0 and noticed == exceeded and not broken and min(one.sent for one in within) > 0,
            nearly=kept and not broken,
        ),
        "the slave is a member like any other, and a datagram to it and one back are all that is added (and a look for a slot); "
        "if they are late, so is the remote member, and nobody else",
        rows(within, outside),
        tuple(figures),
    )
