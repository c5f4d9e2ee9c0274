"""What hosts, layers and programs make of ``newtop`` groups that change: large messages, state, parts, names and ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from plainchant import Group, Lost, Message, Refused, State, StateRequest, View, sim
from plainchant.lab.properties import verify
from plainchant.scenario import parse
from plainchant.sim import Simulation, Summary
from plainchant.trace import TraceBuffer
from plainchant.trace.validation import validate

ORDERS = ("total", "slow", "fast", "relative", "cbcast")
HALVES = {"kind": "partition", "at": "300ms", "length": "900ms", "parts": [["p1", "p2"], ["p3", "p4"]]}
"""Long enough for both parts to go on without each other."""

LARGE = """
protocol = "newtop"
members = 4
duration = "3s"

[network]
loss = 0.05
delay = {uniform = ["500us", "3ms"]}

[[workload]]
rate = 15
size = 9000
arrivals = "poisson"
"""
COME_AND_GO = """
[[fault]]
kind = "form"
process = "p1"
group = "room"
members = ["p2", "p3"]
at = "100ms"

[[fault]]
kind = "partition"
at = "300ms"
length = "600ms"
parts = [["p1", "p2"], ["p3", "p4"]]

[[fault]]
kind = "crash"
process = "p4"
at = "1150ms"

[[fault]]
kind = "rename"
process = "p2"
group = "g"
name = "h"
at = "1200ms"

[[fault]]
kind = "restart"
process = "p4"
at = "2400ms"

[[fault]]
kind = "close"
process = "p3"
group = "room"
at = "1700ms"
"""


def simulate(text: str, *overrides: str) -> tuple[Summary, list[dict[str, Any]]]:
    """A run that must get quiet and keep what is promised."""
    trace = TraceBuffer()
    summary = Simulation(parse(text, overrides=overrides), trace=trace).run()
    table = trace.table()
    assert validate(table) == []
    assert [violation.sentence for violation in verify(table).violations] == []
    assert summary.not_quiet == {}
    rows: list[dict[str, Any]] = table.to_pylist()
    return summary, rows


@pytest.mark.parametrize("order", ORDERS)
def test_messages_larger_than_a_packet_survive_merges_joins_names_and_ends(order: str) -> None:
    """Members have heard half of a message when parts come together, somebody joins, or the name changes."""
    summary, rows = simulate(LARGE + COME_AND_GO, f"parameters.order={order}")
    groups = {row["group"] for row in rows if row["kind"] == "deliver"}
    assert groups == {"g", "room", "h"}
    merges = [row for row in rows if row["kind"] == "view" and len(json.loads(row["detail"] or "{}").get("parts", ())) > 1]
    assert {row["group"] for row in merges} >= {"g", "room"}
    assert any(row["process"] == "p4#1" and row["kind"] == "deliver" for row in rows)
    assert summary.messages_delivered > 200


def test_rows_of_views_say_what_came_together() -> None:
    _, rows = simulate(LARGE + COME_AND_GO)
    details = [json.loads(row["detail"]) for row in rows if row["kind"] == "view" and row["detail"]]
    merge = next(detail for detail in details if len(detail.get("parts", ())) > 1 and "newcomers" not in detail)
    assert sorted(name for part in merge["parts"] for name in part) in (["p1", "p2", "p3", "p4"], ["p1", "p2", "p3"])
    let_in = next(detail for detail in details if "newcomers" in detail)
    assert let_in["newcomers"] == ["p4#1"]
    assert ["p4#1"] in let_in["parts"]
    gone = next(detail["left"] for detail in details if "p4" in detail.get("left", ()) and len(detail["left"]) == 1)
    assert gone["p4"]["reason"] == "crashed"
    assert "signatures" not in merge


# --- programs ---------------------------------------------------------------------------------------------------------


def test_programs_see_parts_come_together_before_any_message_of_the_whole() -> None:
    async def main(group: Group) -> list[Any]:
        found: list[Any] = []
        sent = False
        async for event in group:
            if isinstance(event, View):
                found.append(event)
                if event.is_merge and not sent:
                    sent = True
                    await group.send(group.me.encode())
            elif isinstance(event, Message):
                found.append(event.sender)
                if len([one for one in found if isinstance(one, str)]) == 4:
                    return found
        return found

    result = sim.run(main, protocol="newtop", members=4, faults=[HALVES], limit="20s")
    assert result.verdict == "holds"
    for name, found in result.returned.items():
        at = next(place for place, event in enumerate(found) if isinstance(event, View) and event.is_merge)
        merge = found[at]
        assert merge.parts == (("p1", "p2"), ("p3", "p4"))
        assert merge.members == ("p1", "p2", "p3", "p4")
        assert merge.joined == tuple(other for other in merge.members if other not in merge.part_of(name))
        assert not [event for event in found[:at] if isinstance(event, str)]
        split = next(event for event in found if isinstance(event, View) and len(event.members) == 2)
        assert {reason.code for reason in split.left.values()} <= {"crashed", "excluded us"}
        assert set(split.left) == set(merge.members) - set(split.members)
        assert all(reason.text and reason.evidence for reason in split.left.values())


def test_state_goes_to_newcomers_and_not_to_parts_that_come_together() -> None:
    """p4 crashes and comes back in the middle of a partition. Each part counts on by itself; p4#1 takes a part's count."""

    async def main(group: Group) -> tuple[int, int, int]:
        total = given = taken = 0
        speaks = asyncio.create_task(speak(group))
        async for event in group:
            match event:
                case Message(payload=b"end"):
                    break
                case Message():
                    total += 1
                case StateRequest():
                    given += 1
                    await event.reply(str(total).encode())
                case State(payload=payload):
                    taken += 1
                    total = int(payload)
        await speaks
        return total, given, taken

    async def speak(group: Group) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < 4.0:
            await asyncio.sleep(0.05)
            if group.me != "p4#1":
                await group.send(b"one")
        if group.me == "p1":
            await asyncio.sleep(1.0)
            await group.send(b"end")

    faults: list[Mapping[str, Any]] = [
        {"kind": "partition", "at": "500ms", "length": "1500ms", "parts": [["p1", "p2"], ["p3", "p4"]]},
        {"kind": "crash", "at": "700ms", "process": "p4"},
        {"kind": "restart", "at": "1200ms", "process": "p4"},
    ]
    result = sim.run(main, protocol="newtop", members=4, faults=faults, state=True, limit="20s")
    assert result.verdict == "holds"
    counts = result.returned
    assert set(counts) == {"p1", "p2", "p3", "p4#1"}
    assert [taken for _, _, taken in counts.values()] == [0, 0, 0, 1]
    assert sum(given for _, given, _ in counts.values()) == 1
    assert counts["p1"][0] == counts["p2"][0]
    assert counts["p3"][0] == counts["p4#1"][0], "p4#1 was let in by p3, alone in its part"
    assert counts["p1"][0] != counts["p3"][0], "what each part did is not reconciled by anybody but the application"


def test_a_program_gives_its_group_another_name_and_closes_it() -> None:
    async def main(group: Group) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        if group.me == "p1":
            receipts = [await group.send(b"x" * 4000) for _ in range(5)]
            view = await group.rename("hall")
            assert (view.group, group.name, view.members) == ("hall", "hall", ("p1", "p2", "p3"))
            await receipts[-1].delivered()
            await (await group.send(b"last")).delivered()
            assert group.metrics()["own_delivered"] == 6
            await group.close()
            with pytest.raises(Refused, match="hall was closed by p1"):
                await group.send(b"too late")
        async for event in group:
            if isinstance(event, Message):
                found.append((event.group, event.payload[:4].decode()))
            elif isinstance(event, View):
                found.append((event.group, "view"))
        return found

    result = sim.run(main, protocol="newtop", members=3)
    assert result.verdict == "holds"
    p1, p2, p3 = result.returned.values()
    assert p1 == p2 == p3
    assert p1[0] == ("g", "view")
    assert p1.count(("hall", "view")) == 1
    assert p1[-1] == ("hall", "last")
    at = p1.index(("hall", "view"))
    assert {group for group, _ in p1[:at]} == {"g"}
    assert len(p1) == 8


def test_a_group_that_somebody_else_closes_ends_a_program_and_its_receipts() -> None:
    async def main(mine: Mapping[str, Group]) -> str:
        group = mine["g"]
        if group.me == "p2":
            await asyncio.sleep(0.2)
            await group.close()
            return "closed"
        try:
            while True:
                await (await group.send(b"x")).delivered()
        except (Lost, Refused) as over:
            return over.reason.code

    groups = {"g": ["p1", "p2"], "h": ["p1", "p2"]}
    result = sim.run(main, protocol="newtop", groups=groups)
    assert result.verdict == "holds"
    assert result.returned == {"p1": "closed", "p2": "closed"}


def test_programs_refuse_groups_that_they_were_not_given() -> None:
    async def main(group: Group) -> int:
        await asyncio.sleep(2.0)
        return len(group.members)

    faults = [{"kind": "form", "process": "p1", "group": "room", "members": ["p2"], "at": "100ms"}]
    result = sim.run(main, protocol="newtop", members=2, faults=faults, limit="20s")
    (refused,) = [row for row in result.trace.to_pylist() if row["kind"] == "refused"]
    assert "the program of p2 is in the groups that it was given" in json.loads(refused["detail"])["text"]
