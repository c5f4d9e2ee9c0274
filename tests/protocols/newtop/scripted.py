"""Made by hand, for what a random scenario hardly ever comes to: scenarios, and courses of events that no scenario can have.

In a scenario all groups begin at once, and nothing is wrong as long as everything is delivered in order at last. A course brings
packets one by one; it gives what it violated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from plainchant.core.model import MS, SECOND, Duration, Form, GroupId, ProcessId
from plainchant.scenario.model import Delay, LinkOverride, Network, Scenario, Workload
from tests.protocols.newtop.by_hand import ByHand, link

Course: TypeAlias = Callable[[], list[str]]


def _at(milliseconds: int, sender: ProcessId, group: GroupId, count: int = 1) -> Workload:
    """So many messages of one sender, one after the other, from that moment on."""
    return Workload(senders=(sender,), group=group, count=count, rate=1000.0, start=Duration(milliseconds * MS))


def _slow(source: ProcessId, target: ProcessId, milliseconds: int) -> LinkOverride:
    return LinkOverride(source=source, target=target, delay=Delay("constant", Duration(milliseconds * MS)))


def _scenario(
    name: str, groups: Mapping[GroupId, str], parameters: dict[str, Any], links: tuple[LinkOverride, ...], *loads: Workload
) -> Scenario:
    members = {group: tuple(names) for group, names in groups.items()}
    return Scenario(
        protocol="newtop",
        name=name,
        duration=Duration(200 * MS),
        drain=Duration(20 * SECOND),
        groups=members,
        members=tuple(sorted({name for names in members.values() for name in names})),
        parameters={"suspect_after": Duration(0), **parameters},
        workload=loads,
        network=Network(delay=Delay("constant", Duration(1 * MS)), link=links),
    )


SCENARIOS: Mapping[str, Scenario] = {
    # a has delivered y1..y7 when it sends m in x, and c has delivered x1..x6 when it sends n in y; neither has anything of the
    # other's group. With a counter for each group, m and n have number 1: at i, m waits for y up to 7, n among it, and n for x up
    # to 6, m among it.
    "relative, two groups": _scenario(
        "relative-two-groups",
        {"x": "acei", "y": "acdi"},
        {
            "order": "relative",
            "pack": False,
            "silence_by": "timeout",
            "silence": Duration(200 * MS),
            "probe_after": Duration(250 * MS),
        },
        (_slow("e", "a", 60), _slow("d", "c", 60)),
        _at(0, "d", "y", 7),
        _at(0, "e", "x", 6),
        _at(20, "a", "x"),
        _at(20, "c", "y"),
    ),
    # k's message to i is slow. j has it, and what j then says to l, and l to i, overtakes it; l shares no group with k.
    "round a cycle of groups": _scenario(
        "round-a-cycle",
        {"g1": "ijk", "g2": "jl", "g3": "il"},
        {"order": "fast", "vectors": "compact"},
        (_slow("k", "i", 60),),
        _at(0, "k", "g1"),
        _at(10, "j", "g2"),
        _at(20, "l", "g3"),
    ),
}


def late_kind(order: str = "fast") -> list[str]:
    """b has delivered m of x when it enters f and sends n there; c, in both, gets m last of all."""
    hands = ByHand({"x": "a b c"}, orders={"f": order})
    hands.say("a", "x", "m")
    hands.rest(keep=link("a", "c"))
    assert hands.delivered("b") == ["m"]
    assert not hands.delivered("c")
    members = hands.groups["f"] = ("b", "c")
    for name in members:
        hands[name].join("f", Form(members))
    hands.rest(keep=link("a", "c"))
    hands.say("b", "f", "n")
    hands.rest(keep=link("a", "c"))
    hands.rest()
    return ["causal"] if hands.causal_violations() else ["quiet"] if hands.undelivered() or hands.waiting() else []


def turns() -> list[str]:
    """a has very much to send in an asymmetric group when it sends one message in another."""
    hands = ByHand({"x": "a b", "y": "a b c"}, sequencers={"y": "c"})
    hands.say("a", "y", *(f"y{number}" for number in range(400)))
    hands.say("a", "x", "turn")
    hands.rest()
    before = list(hands.data).index("turn")
    return ["quiet"] if len(hands.data) != 401 or hands.waiting() else ["turn"] if before > 100 else []


COURSES: Mapping[str, Course] = {"a kind of order that begins late": late_kind, "a turn for every group": turns}
