"""Scenarios made by hand for what a random one hardly ever comes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plainchant.model import MS, SECOND, Duration, GroupId, ProcessId
from plainchant.scenario.model import Delay, LinkOverride, Network, Scenario, Workload


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
        protocol="newtop", name=name, duration=Duration(200 * MS), drain=Duration(20 * SECOND), groups=members,
        members=tuple(sorted({name for names in members.values() for name in names})), parameters=parameters,
        network=Network(delay=Delay("constant", Duration(1 * MS)), link=links), workload=loads,
    )


SCENARIOS: Mapping[str, Scenario] = {
    # a has delivered y1..y7 when it sends m in x, and c has delivered x1..x6 when it sends n in y; neither has anything of the
    # other's group. With a counter for each group, m and n have number 1: at i, m waits for y up to 7, n among it, and n for x up
    # to 6, m among it.
    "relative, two groups": _scenario(
        "relative-two-groups", {"x": "acei", "y": "acdi"},
        {
            "order": "relative", "pack": False, "silence_by": "timeout", "silence": Duration(200 * MS),
            "probe_after": Duration(250 * MS),
        },
        (_slow("e", "a", 60), _slow("d", "c", 60)),
        _at(0, "d", "y", 7), _at(0, "e", "x", 6), _at(20, "a", "x"), _at(20, "c", "y"),
    ),
    # k's message to i is slow. j has it, and what j then says to l, and l to i, overtakes it; l shares no group with k.
    "round a cycle of groups": _scenario(
        "round-a-cycle", {"g1": "ijk", "g2": "jl", "g3": "il"}, {"order": "fast", "vectors": "compact"}, (_slow("k", "i", 60),),
        _at(0, "k", "g1"), _at(10, "j", "g2"), _at(20, "l", "g3"),
    ),
}
