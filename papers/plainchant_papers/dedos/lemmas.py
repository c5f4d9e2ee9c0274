"""Claims 96, 100 and 101: the invariants of 3.6.2 and the lemmas of appendices B and C, asked after every operation."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from plainchant.core.model import MS, US, Duration
from plainchant.scenario.model import Delay, Fault, Network, RandomFaults

from ..claims import Context, Measured, Table, judge
from ..runs import fault
from . import cases
from .metered import Run
from .towns import LAN, Plan, load, plan, town

INVARIANTS: Final = (
    "flags_in_order", "flags_mean_read", "read_is_kept", "sent_is_there", "acknowledged_is_read", "history_consecutive",
)  # fmt: skip
"""Those of 3.6.2."""
LEMMAS_B: Final = {"flags_in_order": "B.1", "removed_is_read": "B.2", "sent_is_there": "B.3"}
LEMMAS_C: Final = {
    "flags_in_order": "C.1 and C.5", "removed_is_read": "C.2 and C.6", "read_is_kept": "C.3", "kept_is_there": "C.4",
}  # fmt: skip
_BEGIN, _END = 300.0, 1100.0


def between(seed: int) -> Plan:
    """Two to four nodes with two or three members each; packets are lost, processes and boxes crash, receivers are slow."""
    draw = random.Random(f"between/{seed}")
    names = town(draw.randint(2, 4), draw.randint(2, 3))
    nodes = sorted({name.partition(".")[0] for name in names})
    delay = Delay("uniform", Duration(50 * US), Duration(2 * MS))
    network = dataclasses.replace(LAN, loss=draw.choice((0.0, 0.02, 0.08)), delay=delay)
    faults = _slow(draw, names) + _modules(draw, nodes)
    return plan(
        names, load(names, 150, _BEGIN, _END, size=32), length=1200, network=network, faults=faults,
        random_faults=RandomFaults(crash=2.0, restart=0.5, most_lost=len(names) - 2), seed=seed, lemmas=True,
        label=f"between {seed}", boxes=3, places=8, elements=draw.choice((16, 64)), reserve=4, history=draw.choice((8, 64)),
    )  # fmt: skip


def within(seed: int) -> Plan:
    """Two to five members on one node."""
    draw = random.Random(f"within/{seed}")
    names = town(1, draw.randint(2, 5))
    faults = _slow(draw, names) + _modules(draw, ["n0001"])
    return plan(
        names, load(names, 400, _BEGIN, _END, size=32), length=1200, network=Network(), faults=faults,
        random_faults=RandomFaults(crash=2.0, restart=0.5, most_lost=len(names) - 1), seed=seed, lemmas=True,
        label=f"within {seed}", reach="node", boxes=3, places=8, elements=draw.choice((6, 16)), reserve=0,
        operation=Duration(200 * US),
    )  # fmt: skip


def _slow(draw: random.Random, names: Sequence[str]) -> list[Fault]:
    return [
        fault(
            "slow", draw.uniform(_BEGIN, _END), process=draw.choice(names), length=draw.uniform(5, 60),
            delay=Duration(draw.randint(1, 20) * MS),
        )
        for _ in range(draw.randint(0, 3))
    ]  # fmt: skip


def _modules(draw: random.Random, nodes: Sequence[str]) -> list[Fault]:
    """Of three boxes of a node up to two crash."""
    return [
        fault("module", draw.uniform(_BEGIN, _END), module=module, node=node)
        for node in nodes
        for module in draw.sample((1, 2, 3), draw.randint(0, 2))
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A run in which lemmas were asked."""

    label: str
    asked: Mapping[str, int]
    broken: tuple[str, ...]
    holes: int
    violated: tuple[str, ...]
    crashes: int
    boxes: int
    sent: int


def asked_of(one: Plan) -> Asked:
    run = Run(one)
    ends = [end.state for end in run.summary.processes.values()]
    modules = sum(each.kind == "module" for each in one.scenario.fault)
    asked, broken = dict(run.lemmas.asked), tuple(run.lemmas.broken)
    crashed, sent = ends.count("crashed"), run.summary.messages_sent
    return Asked(one.label, asked, broken, run.lemmas.holes, run.violated, crashed, modules, sent)


def _runs_between(context: Context) -> list[Asked]:
    return context.sweep(asked_of, [between(seed) for seed in range(2, context.of(4, 300))])


def _runs_within(context: Context) -> list[Asked]:
    return context.sweep(asked_of, [within(seed) for seed in range(3, context.of(6, 400))])


def _told(found: Sequence[Asked], names: Sequence[str]) -> tuple[str, bool, bool]:
    """What was asked, in words; whether nothing is broken; whether everything was asked."""
    count: Counter[str] = Counter()
    for one in found:
        count.update(one.asked)
    broken = [sentence for one in found for sentence in one.broken if sentence.partition(":")[0] in names]
    bad = sum(bool(one.violated) for one in found)
    text = (
        f"{len(found)} runs with {sum(one.crashes for one in found)} crashes of processes and {sum(one.boxes for one in found)} "
        f"of boxes, {sum(one.sent for one in found):,} messages: asked {sum(count[name] for name in names):,} times, wrong "
        f"{len(broken)} times{f' ({broken[0]})' if broken else ''}; {bad} runs violate a promise"
    )
    return text, not broken and not bad, all(count[name] for name in names)


def _rows(found: Sequence[Asked]) -> list[dict[str, Any]]:
    return [
        {"run": one.label, "asked": sum(one.asked.values()), "broken": " ".join(one.broken), "violated": " ".join(one.violated)}
        for one in found
    ]


def _table(found: Sequence[Asked], names: Mapping[str, str]) -> Table:
    return Table(
        "how often it was asked", ("lemma", "as a question", "asked", "wrong"),
        [
            (lemma, name.replace("_", " "), sum(one.asked.get(name, 0) for one in found),
             sum(sentence.startswith(f"{name}:") for one in found for sentence in one.broken))
            for name, lemma in names.items()
        ],
    )  # fmt: skip


def invariants(context: Context) -> Measured:
    found = context.once("dedos between", _runs_between)
    text, clean, all_asked = _told(found, INVARIANTS)
    (gap,) = context.sweep(asked_of, [dataclasses.replace(cases.gap(), lemmas=True)])
    drawn = sum(one.holes for one in found)
    return Measured(
        f"{text}. Outside a recovery the numbers in a mailbox had a gap after {drawn} operations of these, and after {gap.holes} "
        "of a run in which a mailbox crashes with an unread message from elsewhere before a local one",
        judge(holds=clean and all_asked and not drawn + gap.holes, nearly=clean and all_asked and not gap.violated),
        "all hold but one: the numbers in a mailbox that was restored have a gap if a local sender's message is in the spare "
        "box, and one with a lower number was read by nobody, until the relay has asked for that. So the next number to ask for "
        "is not the highest plus one",
        _rows(found),
        tables=(_table(found, dict.fromkeys(INVARIANTS, "3.6.2")),),
    )


def _appendix(found: Sequence[Asked], lemmas: Mapping[str, str], why: str) -> Measured:
    text, clean, all_asked = _told(found, tuple(lemmas))
    return Measured(text, judge(holds=clean and all_asked), why, _rows(found), tables=(_table(found, lemmas),))


def appendix_b(context: Context) -> Measured:
    why = "asked after every operation of anybody, B.2 also during recoveries; with the rules of the protocol as we run it"
    return _appendix(context.once("dedos between", _runs_between), LEMMAS_B, why)


def appendix_c(context: Context) -> Measured:
    why = "within a node, with the errors of the printed procedures corrected (docs/errata.md)"
    return _appendix(context.once("dedos within", _runs_within), LEMMAS_C, why)
