"""Asyncio programs whose messages have deadlines, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

import plainchant
from plainchant.core.model import UsageError
from plainchant.core.names import is_place
from plainchant.group import Group, Rejected
from plainchant.protocols import registry
from plainchant.scenario.model import RandomFaults
from plainchant.sim import Result, run

from .conftest import MS
from .test_omissions import Brittle
from .toy import Flood, Warden, describe_toy


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    toys = {name: describe_toy(engine) for name, engine in (("warden", Warden), ("flood", Flood), ("brittle", Brittle))}
    monkeypatch.setattr(registry, "protocols", lambda: toys)


def first_only(program: Any) -> Any:
    """A main whose first member does something; the others live on for a while."""

    async def main(group: Group) -> Any:
        if group.me == "p1":
            return await program(group)
        await asyncio.sleep(0.2)
        return None

    return main


def rows(result: Result, kind: str) -> list[dict[str, Any]]:
    return [row for row in result.trace.to_pylist() if row["kind"] == kind]


def test_a_single_message_is_sent_by_its_deadline() -> None:
    async def program(group: Group) -> int:
        await asyncio.sleep(0.005)
        receipt = await group.send(b"alarm", deadline="30ms")
        await receipt.delivered()
        return receipt.seq

    result = run(first_only(program), protocol="warden", verify=False)
    assert result.outcomes["p1"].value == 1
    assert [(row["time"], row["deadline"]) for row in rows(result, "send")] == [(6 * MS, 35 * MS)]
    assert result.summary.streams_admitted == 1


def test_what_is_rejected_is_raised_and_not_sent() -> None:
    async def program(group: Group) -> str:
        with pytest.raises(Rejected) as caught:
            await group.send(b"alarm", deadline="9ms")
        receipt = await group.send(b"at leisure")
        await receipt.delivered()
        return caught.value.reason.code

    result = run(first_only(program), protocol="warden", verify=False)
    assert result.outcomes["p1"].value == "too soon"
    assert [row["size"] for row in rows(result, "send")] == [10]
    assert result.summary.streams_rejected == 1


def test_a_stream_sends_once_a_period_and_can_be_released() -> None:
    admissions: list[Mapping[str, Any] | None] = []

    async def program(group: Group) -> None:
        stream = await group.stream("temperature", size=8, deadline="15ms", period="20ms")
        admissions.append(group.admission)
        receipts = [await stream.send(bytes([n])) for n in range(3)]
        await receipts[-1].delivered()
        stream.release()
        await asyncio.sleep(0.001)
        admissions.append(group.admission)

    result = run(first_only(program), protocol="warden", verify=False)
    assert [(row["time"], row["deadline"]) for row in rows(result, "send")] == [
        (k * 20 * MS + MS, k * 20 * MS + 15 * MS) for k in range(3)
    ]
    assert admissions == [{"streams": ["temperature"]}, {"streams": []}]
    assert len(rows(result, "release")) == 1


def test_receipts_of_streams_and_others_are_told_apart() -> None:
    order: list[str] = []

    async def wait(name: str, receipt: Any) -> None:
        await receipt.delivered()
        order.append(name)

    async def program(group: Group) -> None:
        slow = [await group.send(bytes(5)) for _ in range(3)]
        fast = await group.send(b"fast", deadline="20ms")
        await asyncio.gather(*(wait(f"slow {n}", receipt) for n, receipt in enumerate(slow)), wait("fast", fast))

    result = run(first_only(program), protocol="warden", verify=False)
    assert result.outcomes["p1"].state == "returned"
    assert sorted(order) == ["fast", "slow 0", "slow 1", "slow 2"]
    assert order.index("fast") < order.index("slow 2")


def test_a_send_that_is_given_up_before_the_answer_is_not_sent() -> None:
    async def program(group: Group) -> None:
        sending = asyncio.ensure_future(group.send(b"x", deadline="30ms"))
        await asyncio.sleep(0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await asyncio.sleep(0.05)

    result = run(first_only(program), protocol="warden", verify=False)
    assert result.outcomes["p1"].state == "returned"
    assert len(rows(result, "send")) <= 1
    assert len(rows(result, "release")) + len(rows(result, "send")) == 1


def test_without_admission_control_there_are_no_deadlines() -> None:
    async def program(group: Group) -> Any:
        with pytest.raises(UsageError, match="deadlines cannot be guaranteed in g"):
            await group.send(b"x", deadline="30ms")
        return group.admission

    assert run(first_only(program), protocol="flood", verify=False).outcomes["p1"].value is None


def test_a_run_waits_for_halted_members_that_come_back() -> None:
    """Without a duration it ends when all programs have; one that is to come back has not begun."""
    began: list[str] = []

    async def main(group: Group) -> None:
        began.append(group.me)
        for _ in range(3):
            await group.send(b"x")
            await asyncio.sleep(0.005)

    halted = RandomFaults(restart_halted=1.0, restart_after=500 * MS)
    result = run(main, protocol="brittle", members=2, random=halted, limit="5s", verify=False, raises=False)
    assert [name for name in began if not is_place(name)]
    assert result.virtual_time > 20 * MS


def test_the_api_says_what_it_offers() -> None:
    assert plainchant.Rejected is Rejected
