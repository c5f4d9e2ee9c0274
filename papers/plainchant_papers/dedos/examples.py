"""Claims 97, 98, 99 and 102: the examples of 3.6.2, and appendix B on a new distributor, each with the rule and without it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..claims import Context, Measured, judge, rows
from ..runs import rows_of
from . import cases, variants
from .metered import Run
from .towns import Plan

_ATTEMPTS = 3  # With so many seeds: operations take other times.


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    label: str
    rule: bool
    delivered: tuple[tuple[str, int], ...]  # How many messages each receiver has got.
    violated: tuple[str, ...]
    distributors: int
    boxes: int  # Boxes that crashed.

    @property
    def is_good(self) -> bool:
        return not self.violated


def outcome_of(one: Plan) -> Outcome:
    run = Run(one)
    receivers = [name for name in one.scenario.groups["g"] if name not in one.scenario.parameters["senders"]]
    counts = dict.fromkeys(receivers, 0)
    for row in rows_of(run.table, "deliver"):
        counts[row["process"]] += 1
    boxes = sum(fault.kind == "module" for fault in one.scenario.fault)
    rule = not set(one.variants).intersection(variants.RULES)
    return Outcome(one.label, rule, tuple(counts.items()), run.violated, run.started, boxes)


def both_ways(context: Context, build: Callable[..., Plan], rule: str) -> tuple[list[Outcome], list[Outcome]]:
    """Runs with the rule, and without it."""

    def sweep(*variants: str) -> list[Outcome]:
        one = build(variants)
        scenarios = [dataclasses.replace(one.scenario, seed=seed) for seed in range(context.of(1, _ATTEMPTS))]
        return context.sweep(outcome_of, [dataclasses.replace(one, scenario=each) for each in scenarios])

    return sweep(), sweep(rule)


def _told(found: list[Outcome]) -> str:
    first = found[0]
    counts = ", ".join(f"{name} {count}" for name, count in first.delivered)
    broken = [name for name in first.violated if name != "rest"]
    text = f"{counts}; {' and '.join(broken)} violated" if broken else counts
    return f"{text}, and it waits for ever" if "rest" in first.violated else text


def _told_both(with_rule: list[Outcome], without: list[Outcome], what: str) -> str:
    """What receivers have got in the first runs."""
    same = sum(one.is_good for one in with_rule), sum(not one.is_good for one in without), len(with_rule)
    return f"with {what}: {_told(with_rule)}. Without: {_told(without)}. So in {same[0]} and {same[1]} of {same[2]} runs"


def _judged(
    context: Context, build: Callable[..., Plan], rule: str, what: str, why: str, broken: str, *, reverse: bool = False
) -> Measured:
    with_rule, without = both_ways(context, build, rule)
    kept = all(one.is_good for one in with_rule)
    shown = all(broken in one.violated for one in without)
    return Measured(
        "messages that receivers get " + _told_both(with_rule, without, what),
        judge(holds=kept and not shown) if reverse else judge(holds=kept and shown),
        why,
        rows(with_rule, without),
    )


def sender_buffer(context: Context) -> Measured:
    return _judged(
        context, cases.sender_buffer, "all_boxes", "the message in all boxes of the sender's node",
        "in the spare box of its node it outlives mailboxes and distributor; if it is in the mailbox only, nobody has it then",
        "validity",
    )  # fmt: skip


def four_receivers(context: Context) -> Measured:
    return _judged(
        context, cases.four_receivers, "restore_buffers", "buffers of receivers",
        "who has read it restores it in the spare box, from where the new distributor loads it for everybody; otherwise it has "
        "read what nobody else can ever get, and later numbers wait behind it",
        "agreement",
    )  # fmt: skip


def full_buffer(context: Context) -> Measured:
    loose = context.sweep(outcome_of, [cases.full_buffer(("restore_flags",), tight=False)])
    measured = _judged(
        context, cases.full_buffer, "restore_flags", "flags for who has restored its messages",
        "who restores needs the elements that new messages have taken, and these are read only after the others. "
        + ("Where a mailbox has room for what is stored at once, as ours do, it gets out of it even without the flags, a few "
           "messages at a time" if loose[0].is_good else "It happens with the room that our mailboxes have, too"),
        "rest",
    )  # fmt: skip
    return dataclasses.replace(measured, data=[*measured.data, *(dataclasses.asdict(one) for one in loose)])


def rebuild(context: Context) -> Measured:
    return _judged(
        context, cases.rebuild, "load_unread", "all loaded that not every receiver has read",
        "appendix B loads what not every mailbox has, and argues that mailboxes keep the rest. But a mailbox can crash after "
        "that: then what its receivers have not read is neither there nor at the distributor, and others have read it. It is "
        "mended by loading everything after the smallest number that a node has acknowledged",
        "agreement", reverse=True,
    )  # fmt: skip
