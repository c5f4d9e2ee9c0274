"""Several groups of one process as one stream, and receipts of newtop: on an event loop without a network, and simulated."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

import plainchant
from plainchant import Event, Group, Halted, Lost, Message, Stream, UsageError, View, merged, sim
from plainchant.core.model import Reason
from plainchant.group import MESSAGE_COST, Buffers
from plainchant.group.reading import MOST_AT_ONCE

from ..ports import NoStreams, a_membership, member_of

PATIENCE = 30.0
RED_AND_BLUE = {"red": ["p1", "p2", "p3", "p4"], "blue": ["p3", "p4", "p5", "p6"]}


class Silent(NoStreams):
    """A host that only remembers what it was told of pressure."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []

    def accept(self, group: str, payloads: Sequence[bytes]) -> None:
        return

    def leave(self, group: str) -> None:
        return

    def close_group(self, group: str) -> None:
        raise AssertionError("nobody closes this group")

    def rename(self, group: str, name: str) -> None:
        raise AssertionError("nobody renames this group")

    def pressure(self, group: str, full: bool) -> None:
        self.told.append((group, full))

    def waiting(self, group: str) -> Reason | None:
        return None

    def counters(self) -> Mapping[str, int]:
        return {}


def run(main: Coroutine[Any, Any, None]) -> None:
    """Runs a test; whatever it waits for, it does not wait for ever."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await main

    asyncio.run(bounded())


def groups(*names: str, port: Silent | None = None, **buffers: Any) -> list[Group]:
    """Groups of one process."""
    host = port or Silent()
    return [Group(a_membership(host, name, buffers=Buffers(**buffers))) for name in names]


def deliver(group: Group, *payloads: bytes, rank: int | None = 1) -> None:
    member_of(group).deliver("p2", group.metrics()["delivered"] + 1, list(payloads), rank, sum(map(len, payloads)))


def said(events: Sequence[Event]) -> str:
    """The payloads of messages, and ``|`` for each view."""
    return "".join(event.payload.decode() if isinstance(event, Message) else "|" for event in events)


async def rest(stream: Stream | Group) -> str:
    """All events, to the end."""
    return said([event async for event in stream])


async def read(stream: Stream | Group, number: int) -> str:
    """The next events."""
    return said([await anext(stream) for _ in range(number)])


# --- order --------------------------------------------------------------------------------------------------------------


def test_events_come_in_the_order_in_which_they_were_delivered() -> None:
    async def main() -> None:
        red, blue, green = groups("red", "blue", "green")
        stream = merged(red, blue, green)
        member_of(red).add(View("red", 1, ("p1", "p2")))
        deliver(blue, b"a", b"b")
        deliver(red, b"c")
        deliver(blue, b"d")
        member_of(blue).add(View("blue", 2, ("p1",)))
        deliver(green, b"e")
        deliver(red, b"f")
        events = [await anext(stream) for _ in range(8)]
        assert said(events) == "|abcd|ef"
        assert [event.group for event in events] == ["red", "blue", "blue", "red", "blue", "blue", "green", "red"]
        assert [event.seq for event in events if isinstance(event, Message)] == [1, 2, 1, 3, 1, 2]

    run(main())


def test_a_reader_that_waits_is_woken_by_any_group() -> None:
    async def main() -> None:
        red, blue = groups("red", "blue")
        stream = merged(red, blue)
        for group, payload in ((red, b"a"), (blue, b"b"), (red, b"c")):
            waiting = asyncio.create_task(read(stream, 1))
            await asyncio.sleep(0)
            assert not waiting.done()
            deliver(group, payload)
            assert await waiting == payload.decode()

    run(main())


def test_many_events_are_read_in_parts_and_in_order() -> None:
    async def main() -> None:
        named = groups(*"abcde")
        numbers = [b"%d" % number for number in range(3 * MOST_AT_ONCE)]
        for number, payload in enumerate(numbers):
            deliver(named[number * number % 5], payload)
        found: list[bytes] = []
        sizes = []
        async for batch in merged(*named).batches():
            sizes.append(len(batch))
            found += [event.payload for event in batch if isinstance(event, Message)]
            if len(found) == len(numbers):
                break
        assert found == numbers
        assert sizes == [MOST_AT_ONCE] * 3

    run(main())


def test_one_group_may_be_merged_too() -> None:
    async def main() -> None:
        (red,) = groups("red")
        deliver(red, b"a", b"b")
        member_of(red).left()
        assert await rest(merged(red)) == "ab"

    run(main())


def test_a_reader_that_always_finds_something_lets_the_loop_turn() -> None:
    async def main() -> None:
        red, blue = groups("red", "blue")
        turned = 0

        async def count() -> None:
            nonlocal turned
            while True:
                turned += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        deliver(red, b"x")
        number = 0
        async for event in merged(red, blue):
            number += 1
            deliver(blue if event.group == "red" else red, b"x")
            if turned > 5:
                break
            assert number < 1_000_000
        counting.cancel()

    run(main())


# --- breaking out loses nothing -----------------------------------------------------------------------------------------


def test_what_one_stream_took_and_did_not_give_out_is_read_by_the_next_in_its_place() -> None:
    async def main() -> None:
        red, blue = groups("red", "blue")
        deliver(red, b"a")
        deliver(red, b"b", b"d", b"e")
        deliver(blue, b"1")
        deliver(red, b"f")
        deliver(blue, b"2", b"3")
        member_of(red).add(View("red", 2, ("p1",)))
        assert await read(red, 2) == "ab"
        first = merged(red, blue)
        assert await read(first, 3) == "de1"
        assert await read(blue, 1) == "2"
        assert await read(first, 1) == "f"
        assert await read(merged(blue, red), 1) == "3"
        deliver(blue, b"4")
        assert await read(red, 1) == "|"
        assert await read(first, 1) == "4"
        assert red.metrics()["unread_bytes"] == blue.metrics()["unread_bytes"] == 0

    run(main())


def test_batches_begin_with_what_was_not_given_out() -> None:
    async def main() -> None:
        red, blue = groups("red", "blue")
        deliver(red, b"a", b"b")
        deliver(blue, b"c")
        stream = merged(red, blue)
        assert await read(stream, 1) == "a"
        assert said(await anext(stream.batches())) == "bc"
        deliver(blue, b"d")
        deliver(red, b"e")
        assert said(await anext(merged(red, blue).batches())) == "de"

    run(main())


def test_a_read_that_is_cancelled_loses_nothing() -> None:
    async def main() -> None:
        red, blue = groups("red", "blue")
        stream = merged(red, blue)
        reading = asyncio.create_task(read(stream, 1))
        await asyncio.sleep(0)
        deliver(red, b"a")
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        deliver(blue, b"b")
        assert await read(stream, 2) == "ab"

    run(main())


def test_nothing_goes_back_to_a_group_to_which_nobody_listens() -> None:
    async def main() -> None:
        red, blue = groups("red", "blue")
        deliver(red, b"a", b"b")
        deliver(blue, b"c")
        assert await read(merged(red, blue), 1) == "a"
        red.stop_listening()
        member_of(blue).left()
        member_of(red).left()
        assert await rest(merged(red, blue)) == "c"

    run(main())


# --- what is unread -----------------------------------------------------------------------------------------------------


def test_pressure_is_each_groups_own_and_ends_when_the_stream_is_read() -> None:
    async def main() -> None:
        port = Silent()
        red, blue = groups("red", "blue", port=port, unread=10 * MESSAGE_COST)
        for number in range(11):
            deliver(red, b"")
            assert port.told == ([("red", True)] if number == 10 else [])
            if number % 2:
                deliver(blue, b"")
        stream = merged(red, blue)
        assert len([await anext(stream) for _ in range(16)]) == 16
        assert port.told == [("red", True), ("red", False)]
        assert red.metrics()["unread_bytes"] == blue.metrics()["unread_bytes"] == 0

    run(main())


def test_pressure_lasts_while_much_is_unread() -> None:
    async def main() -> None:
        port = Silent()
        red, blue = groups("red", "blue", port=port, unread=2 * MOST_AT_ONCE * MESSAGE_COST)
        for _ in range(2 * MOST_AT_ONCE + 1):
            deliver(blue, b"")
        for _ in range(2 * MOST_AT_ONCE + 1):
            deliver(red, b"")
        batches = merged(red, blue).batches()
        told = []
        for _ in range(4):
            await anext(batches)
            told.append(port.told[2:])
        assert port.told[:2] == [("blue", True), ("red", True)]
        assert told == [[], [("blue", False)], [("blue", False)], [("blue", False), ("red", False)]]

    run(main())


# --- the end ------------------------------------------------------------------------------------------------------------


def test_the_stream_ends_when_all_groups_have() -> None:
    async def main() -> None:
        red, blue = groups("red", "blue")
        stream = merged(red, blue)
        deliver(red, b"a")
        member_of(red).left()
        deliver(blue, b"b")
        assert await read(stream, 2) == "ab"
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        deliver(blue, b"c")
        assert said([await waiting]) == "c"
        ending = asyncio.create_task(rest(stream))
        await asyncio.sleep(0)
        member_of(blue).left()
        assert await ending == ""
        assert await rest(stream) == ""

    run(main())


def test_a_halt_comes_after_what_was_delivered_before() -> None:
    async def main() -> None:
        red, blue, left = groups("red", "blue", "left")
        member_of(left).left()
        deliver(blue, b"a")
        deliver(red, b"b")
        for group in (red, blue, left):
            member_of(group).halted(Reason("excluded", "p1 was not heard"))
        stream = merged(left, red, blue)
        assert await read(stream, 2) == "ab"
        for _ in range(2):
            with pytest.raises(Halted, match="p1 was not heard"):
                await anext(stream)
        with pytest.raises(Halted, match="p1 was not heard"):
            await anext(merged(red, blue).batches())

    run(main())


def test_a_halt_wakes_who_waits() -> None:
    async def main() -> None:
        red, blue = groups("red", "blue")
        waiting = asyncio.create_task(anext(merged(red, blue)))
        await asyncio.sleep(0)
        member_of(red).halted(Reason("excluded", "p1 was not heard"))
        member_of(blue).halted(Reason("excluded", "p1 was not heard"))
        with pytest.raises(Halted, match="p1 was not heard"):
            await waiting

    run(main())


# --- mistakes -----------------------------------------------------------------------------------------------------------


def test_groups_of_different_processes_are_refused() -> None:
    async def main() -> None:
        (red,) = groups("red")
        blue = Group(a_membership(Silent(), "blue", "p2"))
        with pytest.raises(UsageError, match=r"'red' at p1 and 'blue' at p2 are groups of different processes.*from one Node"):
            merged(red, blue)

    run(main())


def test_what_is_no_group_is_refused() -> None:
    async def main() -> None:
        by_name: Any = {group.name: group for group in groups("red", "blue")}
        with pytest.raises(UsageError, match=r"a dict was given; write merged\(red, blue\), or merged\(\*groups\.values\(\)\)"):
            merged(by_name)
        with pytest.raises(UsageError, match="a str was given"):
            merged(*by_name)
        with pytest.raises(UsageError, match="none was given"):
            merged()
        with pytest.raises(UsageError, match="named twice: blue"):
            merged(by_name["blue"], by_name["red"], by_name["blue"])

    run(main())


def test_two_tasks_that_read_a_group_are_told_so() -> None:
    async def main() -> None:
        red, blue, green = groups("red", "blue", "green")
        alone = asyncio.create_task(anext(blue))
        stream = merged(red, green)
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="two tasks read group 'blue' at once"):
            merged(red, blue)
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="two tasks read group 'green' at once"):
            await anext(green)
        with pytest.raises(UsageError, match="two tasks read group 'red' at once"):
            await anext(stream)
        deliver(blue, b"b")
        deliver(red, b"a")
        assert said([await waiting, await alone]) == "ab"
        later = merged(red, blue)
        waiting = asyncio.create_task(anext(red))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="two tasks read group 'red' at once"):
            await anext(later)
        deliver(blue, b"c")
        deliver(red, b"d")
        assert said([await waiting]) == "d"
        assert await read(later, 1) == "c"

    run(main())


# --- programs on virtual time -------------------------------------------------------------------------------------------

ROUGH = {"delay": {"uniform": ["1ms", "20ms"]}, "loss": 0.05}
Place = tuple[str, str, int]
"""Group, sender, number: which message it is."""


def place(message: Message) -> Place:
    return message.group, message.sender, message.seq


def delivered(result: sim.Result) -> dict[str, list[Place]]:
    """What each process was given, in order, as the trace has it."""
    found: dict[str, list[Place]] = {}
    for row in result.trace.to_pylist():
        if row["kind"] == "deliver":
            found.setdefault(row["process"], []).append((row["group"], row["sender"], row["seq"]))
    return found


async def send_to_all(mine: Mapping[str, Group], number: int) -> None:
    for count in range(number):
        for group in mine.values():
            await group.send(b"%d" % count)
        await asyncio.sleep(0.003)


async def read_messages(mine: Mapping[str, Group], number: int, pause: float) -> list[Place]:
    """Reads that number of messages of all groups, taking some time for each."""
    found: list[Place] = []
    async for event in merged(*mine.values()):
        if isinstance(event, Message):
            found.append(place(event))
            if len(found) == number:
                break
            await asyncio.sleep(pause)
    return found


@pytest.mark.parametrize("order", ["total", "slow", "fast", "relative", "cbcast"])
def test_a_program_reads_what_the_protocol_delivers_in_its_order(order: str) -> None:
    async def main(mine: Mapping[str, Group]) -> list[Place]:
        sending = asyncio.create_task(send_to_all(mine, 20))
        found = await read_messages(mine, 80 * len(mine), 0.005)
        await sending
        return found

    result = sim.run(
        main, protocol="newtop", groups=RED_AND_BLUE, seed=5, network=ROUGH, parameters={"order": order}, verify=False
    )
    assert result.returned == delivered(result)
    read_by_both = result.returned["p3"]
    assert sum(one[0] != other[0] for one, other in pairwise(read_by_both)) > 20
    if order == "total":
        assert result.returned["p4"] == read_by_both


@pytest.mark.parametrize("order", ["total", "slow", "fast", "relative", "cbcast"])
def test_an_answer_in_another_group_is_read_after_its_question(order: str) -> None:
    """p1 asks in red, p3 answers in blue: p4, in both, never has the answer first, though its way is shorter."""

    async def main(mine: Mapping[str, Group]) -> str:
        me = next(iter(mine.values())).me
        found = ""
        if me == "p1":
            for count in range(10):
                await mine["red"].send(b"q")
                await asyncio.sleep(0.01 * (count % 3))
        if "red" not in mine or "blue" not in mine:
            return found
        async for event in merged(*mine.values()):
            if isinstance(event, Message):
                found += event.payload.decode()
                if me == "p3" and event.payload == b"q":
                    await mine["blue"].send(b"a")
                if len(found) == 20:
                    break
        return found

    network = {"link": [{"source": "p1", "target": "p4", "delay": "40ms"}]}
    result = sim.run(main, protocol="newtop", groups=RED_AND_BLUE, parameters={"order": order}, network=network)
    assert result.verdict == "holds"
    for name in ("p3", "p4"):
        read_there = result.returned[name]
        assert sorted(read_there) == sorted("qa" * 10)
        assert all(read_there[:end].count("a") <= read_there[:end].count("q") for end in range(21))


def test_a_program_that_does_not_read_its_groups_slows_their_senders_down() -> None:
    seen: dict[str, int] = {}

    async def main(mine: Mapping[str, Group]) -> None:
        me = next(iter(mine.values())).me
        if me == "p3":
            await asyncio.sleep(2)
            seen["before"] = sum(group.metrics()["delivered"] for group in mine.values())
            seen["most"] = max(group.metrics()["unread_bytes"] for group in mine.values())
            seen["after"] = len(await read_messages(mine, 4000, 0))
            return
        for group in mine.values():
            group.stop_listening()
        if me in ("p1", "p5"):
            (group,) = mine.values()
            for _ in range(200):
                await (await group.send_many([b"x" * 100] * 10)).delivered()

    sim.run(
        main,
        protocol="newtop",
        groups=RED_AND_BLUE,
        unread=20_000,
        outgoing=20_000,
        verify=False,
        parameters={"blocks": 16},
        network={"max_packet": 500},
    )
    assert 0 < seen["before"] < 2000
    assert seen["most"] < 100_000
    assert seen["after"] == 4000


def test_a_process_that_is_stopped_is_told_in_its_merged_stream() -> None:
    async def main(mine: Mapping[str, Group]) -> str:
        found = ""
        sending = asyncio.create_task(send_to_all(mine, 5))
        try:
            async for event in merged(*mine.values()):
                found += "|" if isinstance(event, View) else "."
                if found.endswith("|") and len(found) > 3:
                    break
        except Halted as halted:
            return f"{found} {halted.reason.code}"
        finally:
            await asyncio.gather(sending, return_exceptions=True)
        return found

    three = ["p1", "p2", "p3"]
    parts = [["p1", "p2"], ["p3"]]
    result = sim.run(
        main,
        groups={"red": three, "blue": three},
        parameters={"suspect_after": "200ms"},
        raises=False,
        faults=[{"kind": "partition", "at": "500ms", "parts": parts}],
    )
    assert result.outcomes["p3"].value == "||" + "." * 30 + " minority"
    assert result.returned["p1"] == result.returned["p2"] == "||" + "." * 30 + "|"


def test_the_stream_goes_on_in_the_groups_that_are_left() -> None:
    async def main(mine: Mapping[str, Group]) -> list[tuple[str, bytes]]:
        (red, blue) = mine.values()
        sent = 0
        found = []
        async for event in merged(red, blue):
            if isinstance(event, Message):
                found.append((event.group, event.payload))
            if red.me == "p1" and not sent:
                await (await red.send(b"goodbye")).stable()
                await red.leave()
                await blue.send(b"hello")
                sent = 1
            if found and found[-1][0] == "blue":
                await blue.leave()
                if red.me != "p1":
                    await red.leave()
        return found

    three = ["p1", "p2", "p3"]
    result = sim.run(main, groups={"red": three, "blue": three})
    assert list(result.returned.values()) == [[("red", b"goodbye"), ("blue", b"hello")]] * 3


# --- receipts of newtop -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{}, {"sequencers": {"red": "p2"}}, {"transport": "fifo"}], ids=str)
def test_a_message_in_total_order_becomes_stable_in_a_group_that_is_idle(parameters: dict[str, Any]) -> None:
    async def main(mine: Mapping[str, Group]) -> float:
        for name, group in mine.items():
            if group.me == RED_AND_BLUE[name][0]:
                receipt = await group.send(b"only this")
                await receipt.stable()
                assert group.metrics()["own_stable"] == receipt.seq
        return asyncio.get_running_loop().time()

    result = sim.run(main, protocol="newtop", groups=RED_AND_BLUE, parameters=parameters)
    assert set(result.returned) == {f"p{number}" for number in range(1, 7)}
    assert all(len(received) == 1 + (name in ("p3", "p4")) for name, received in delivered(result).items())


def test_stability_waits_for_every_member() -> None:
    async def main(group: Group) -> float:
        if group.me == "p1":
            receipt = await group.send(b"x")
            await receipt.stable()
        return asyncio.get_running_loop().time()

    cut_off = [{"kind": "partition", "at": "0s", "length": "3s", "parts": [["p1", "p2"], ["p3"]]}]
    result = sim.run(main, protocol="newtop", faults=cut_off, parameters={"suspect_after": "0s"})
    assert result.returned["p1"] > 3.0 > result.returned["p3"]


@pytest.mark.parametrize("order", ["slow", "fast", "relative", "cbcast"])
def test_who_waits_for_stability_in_a_causal_order_is_told_that_there_is_none(order: str) -> None:
    async def main(mine: Mapping[str, Group]) -> None:
        for name, group in mine.items():
            receipt = await group.send(b"x")
            if name == "red":
                with pytest.raises(
                    Lost, match=r"red has no total order, so no message is known to be stable; wait until it is delivered"
                ) as told:
                    await receipt.stable()
                assert told.value.reason.code == "no order"
                await receipt.delivered()
                with pytest.raises(Lost, match="red has no total order"):
                    await receipt.stable()
            else:
                await receipt.stable()

    result = sim.run(main, protocol="newtop", groups=RED_AND_BLUE, parameters={"orders": {"red": order}})
    assert {outcome.state for outcome in result.outcomes.values()} == {"returned"}


def test_the_names_are_exported() -> None:
    assert plainchant.merged is merged
    assert plainchant.Stream is Stream
