"""Messages with deadlines as an asyncio program sees them: a group whose host does what the test says."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from plainchant.core.model import MS, SECOND, Reason, Stream, UsageError, View
from plainchant.group import Group, Guaranteed, Lost, Receipt, Refused, Rejected
from plainchant.group.deadlines import BACKLOG

from ..ports import a_membership, member_of

NO_ROOM = Reason("no room", "the sum of shares is larger than T", {"nearest_ns": 70 * MS})


class Desk:
    """A host that writes down what it is asked for; the test plays the protocol."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.wanted: dict[str, Stream] = {}
        self.offered: list[tuple[str, bytes, int]] = []
        self._seq = 0

    def accept(self, group: str, payloads: Sequence[bytes]) -> None:
        pass

    def leave(self, group: str) -> None:
        self.calls.append(("leave",))

    def close_group(self, group: str) -> None:
        raise AssertionError("nobody closes this group")

    def rename(self, group: str, name: str) -> None:
        raise AssertionError("nobody renames this group")

    def pressure(self, group: str, full: bool) -> None:
        pass

    def waiting(self, group: str) -> Reason | None:
        return None

    def counters(self) -> Mapping[str, int]:
        return {}

    def admit(self, group: str, wanted: Stream, payload: bytes | None, arrived: int) -> None:
        self.calls.append(("admit", wanted.name))
        self.wanted[wanted.name] = wanted
        if payload is not None:
            self.offered.append((wanted.name, payload, arrived))

    def offer(self, group: str, stream: str, payload: bytes, arrived: int) -> None:
        self.offered.append((stream, payload, arrived))

    def release(self, group: str, stream: str) -> None:
        self.calls.append(("release", stream))

    def admission(self, group: str) -> Mapping[str, Any] | None:
        return {"hold": 4 * MS, "streams": dict.fromkeys(self.wanted)}

    def is_traced(self) -> bool:
        return False

    def write_note(self, group: str, sender: str | None, seq: int | None, detail: dict[str, Any]) -> None:
        raise AssertionError("nobody notes anything in this group")

    def take(self, group: Group, messages: int, stream: str = "") -> None:
        member_of(group).took(messages, messages, stream)

    def bring_back(self, group: Group, messages: int, rank: int | None = 1) -> None:
        """The next own messages, in the order of taking."""
        first, self._seq = self._seq + 1, self._seq + messages
        member_of(group).deliver(group.me, first, [b"."] * messages, rank, messages)


def play(main: Callable[[Desk, Group], Awaitable[None]], *, admits: bool = True) -> None:
    async def bounded() -> None:
        desk = Desk()
        group = Group(a_membership(desk, admits=admits))
        member_of(group).add(View("g", 1, ("p1", "p2")))
        async with asyncio.timeout(30):
            await main(desk, group)

    asyncio.run(bounded())


async def soon(task: asyncio.Task[Any]) -> bool:
    """Whether a task is done after some turns of the loop."""
    for _ in range(5):
        await asyncio.sleep(0)
    return task.done()


async def a_stream(group: Group, name: str = "pulse", period: str = "1h", deadline: str = "50ms") -> Guaranteed:
    asking = asyncio.create_task(group.stream(name, size=8, deadline=deadline, period=period))
    assert not await soon(asking)
    member_of(group).admitted(name)
    return await asking


async def send_in(stream: Guaranteed, group: Group, desk: Desk, messages: int) -> list[Receipt]:
    return [await stream.send(b".") for _ in range(messages)]


async def is_delivered(receipt: Receipt) -> bool:
    return await soon(asyncio.create_task(receipt.delivered()))


async def is_stable(receipt: Receipt) -> bool:
    return await soon(asyncio.create_task(receipt.stable()))


# --- what is asked for ----------------------------------------------------------------------------------------------


def test_a_stream_is_there_when_the_protocol_has_admitted_it() -> None:
    async def main(desk: Desk, group: Group) -> None:
        stream = await a_stream(group, period="100ms")
        assert desk.wanted["pulse"] == Stream("pulse", 8, 50 * MS, 100 * MS)
        assert (stream.name, stream.size, stream.deadline, stream.period) == ("pulse", 8, 50 * MS, 100 * MS)
        assert repr(stream) == "<Guaranteed 'pulse' in 'g': size=8, deadline=50ms, period=100ms>"
        assert group.admission == {"hold": 4 * MS, "streams": {"pulse": None}}

    play(main)


def test_a_stream_that_is_rejected_says_why_and_can_be_asked_for_again() -> None:
    async def main(desk: Desk, group: Group) -> None:
        asking = asyncio.create_task(group.stream("pulse", size=8, deadline="50ms", period="100ms"))
        await soon(asking)
        member_of(group).rejected("pulse", NO_ROOM)
        with pytest.raises(Rejected, match="the sum of shares is larger than T") as caught:
            await asking
        assert caught.value.reason.evidence["nearest_ns"] == 70 * MS
        await a_stream(group, deadline="70ms")

    play(main)


def test_one_message_with_a_deadline_is_a_stream_of_its_own() -> None:
    async def main(desk: Desk, group: Group) -> None:
        before = round(asyncio.get_running_loop().time() * SECOND)
        sending = asyncio.create_task(group.send(b"alarm", deadline="20ms"))
        assert not await soon(sending)
        assert desk.wanted["~1"] == Stream("~1", 5, 20 * MS, 0)
        ((name, payload, arrived),) = desk.offered
        assert (name, payload) == ("~1", b"alarm")
        assert arrived >= before
        member_of(group).admitted("~1")
        receipt = await sending
        assert repr(receipt) == "Receipt(group='g', stream='~1', seq=1)"
        other = asyncio.create_task(group.send(b"again", deadline="20ms"))
        await soon(other)
        assert list(desk.wanted) == ["~1", "~2"]
        member_of(group).rejected("~2", NO_ROOM)
        with pytest.raises(Rejected):
            await other
        assert group.metrics()["accepted"] == 1
        assert group.metrics()["queued"] == 1

    play(main)


def test_a_message_that_is_taken_in_the_moment_of_its_admission_is_accepted() -> None:
    async def main(desk: Desk, group: Group) -> None:
        sending = asyncio.create_task(group.send(b"alarm", deadline="20ms"))
        await soon(sending)
        desk.take(group, 1, "~1")
        member_of(group).admitted("~1")
        receipt = await sending
        desk.bring_back(group, 1)
        assert await is_delivered(receipt)

    play(main)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"name": ""}, "the name of a stream is ''"),
        ({"name": "~1"}, "begins with no ~"),
        ({"name": "pulse"}, "there is a stream 'pulse' in g already; send in it, or release it"),
        ({"size": -1}, "the size of stream 'a' is -1"),
        ({"size": True}, "the size of stream 'a' is True"),
        ({"deadline": 0.05}, "the deadline of stream 'a' is 0.05: write a number and a unit"),
        ({"deadline": "0ms"}, "the deadline of stream 'a' is 0ms; give it a positive one"),
        ({"deadline": "soon"}, "'soon' is not a duration"),
        ({"period": "0s"}, "the period of stream 'a' is 0s; give it a positive one"),
        ({"deadline": "101ms"}, "the next one would come before; give a deadline of at most the period"),
    ],
)
def test_what_cannot_be_asked_for(arguments: dict[str, Any], problem: str) -> None:
    async def main(desk: Desk, group: Group) -> None:
        await a_stream(group)
        asked = {"name": "a", "size": 8, "deadline": "50ms", "period": "100ms", **arguments}
        with pytest.raises(UsageError, match=problem):
            await group.stream(asked.pop("name"), **asked)
        assert desk.calls == [("admit", "pulse")]

    play(main)


def test_without_admission_control_a_deadline_is_refused_with_what_to_do() -> None:
    async def main(desk: Desk, group: Group) -> None:
        with pytest.raises(UsageError, match=r"deadlines cannot be guaranteed in g: .* choose the protocol rtcast"):
            await group.send(b"alarm", deadline="20ms")
        with pytest.raises(UsageError, match="deadlines cannot be guaranteed in g"):
            await group.stream("pulse", size=8, deadline="50ms", period="100ms")
        assert group.admission is None

    play(main, admits=False)


# --- periods and room -----------------------------------------------------------------------------------------------


def test_a_message_that_comes_early_waits_for_its_period_and_arrives_then() -> None:
    async def main(desk: Desk, group: Group) -> None:
        stream = await a_stream(group, deadline="10ms", period="20ms")
        await asyncio.gather(*(stream.send(bytes((number,))) for number in range(4)))
        assert [payload for _, payload, _ in desk.offered] == [b"\x00", b"\x01", b"\x02", b"\x03"]
        times = [arrived for _, _, arrived in desk.offered]
        assert all(later - earlier >= 20 * MS for earlier, later in itertools.pairwise(times))

    play(main)


def test_a_send_that_is_cancelled_while_it_waits_has_sent_nothing() -> None:
    async def main(desk: Desk, group: Group) -> None:
        stream = await a_stream(group, period="1h")
        await stream.send(b"1")
        waiting = asyncio.create_task(stream.send(b"2"))
        assert not await soon(waiting)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert len(desk.offered) == 1
        assert group.metrics()["accepted"] == 1

    play(main)


def test_a_stream_that_the_protocol_does_not_take_has_no_room_for_ever() -> None:
    async def main(desk: Desk, group: Group) -> None:
        stream = await a_stream(group, deadline="1ns", period="1ns")
        await send_in(stream, group, desk, BACKLOG)
        waiting = asyncio.create_task(stream.send(b"."))
        assert not await soon(waiting)
        desk.take(group, 1, "pulse")
        await waiting
        assert group.metrics()["queued"] == BACKLOG

    play(main)


def test_a_message_larger_than_its_stream_is_refused() -> None:
    async def main(desk: Desk, group: Group) -> None:
        stream = await a_stream(group)
        with pytest.raises(UsageError, match="9 bytes are more than a message of stream 'pulse' has"):
            await stream.send(b"123456789")
        with pytest.raises(UsageError, match="a message is bytes"):
            await stream.send("text")  # type: ignore[arg-type]

    play(main)


# --- receipts -------------------------------------------------------------------------------------------------------


def test_receipts_are_right_though_streams_overtake() -> None:
    async def main(desk: Desk, group: Group) -> None:
        slow = [await group.send(b".") for _ in range(4)]
        desk.take(group, 1)  # before there is any stream
        stream = await a_stream(group, deadline="1ns", period="1ns")
        quick = await send_in(stream, group, desk, 3)
        desk.take(group, 2, "pulse")
        desk.take(group, 1)
        desk.take(group, 1, "pulse")
        desk.take(group, 2)
        order = [slow[0], quick[0], quick[1], slow[1], quick[2], slow[2], slow[3]]
        for number, receipt in enumerate(order):
            assert not await is_delivered(receipt)
            desk.bring_back(group, 1, rank=number)
            assert await is_delivered(receipt)
        assert group.metrics()["own_delivered"] == 7
        for number, receipt in enumerate(order):
            assert not await is_stable(receipt)
            member_of(group).stable(number)
            assert await is_stable(receipt)
        assert group.metrics()["own_stable"] == 7

    play(main)


def test_a_batch_that_ends_within_a_run_of_a_lane_tells_so_far() -> None:
    async def main(desk: Desk, group: Group) -> None:
        stream = await a_stream(group, deadline="1ns", period="1ns")
        quick = await send_in(stream, group, desk, 1)
        slow = [await group.send(b".") for _ in range(5)]
        desk.take(group, 2)
        desk.take(group, 1, "pulse")
        desk.take(group, 3)
        desk.bring_back(group, 4, rank=1)
        assert [await is_delivered(receipt) for receipt in slow] == [True, True, True, False, False]
        assert await is_delivered(quick[0])
        member_of(group).stable(1)
        assert [await is_stable(receipt) for receipt in slow] == [True, True, True, False, False]
        desk.bring_back(group, 2, rank=2)
        assert [await is_delivered(receipt) for receipt in slow] == [True] * 5

    play(main)


def test_without_an_order_nobody_tells_what_is_stable() -> None:
    async def main(desk: Desk, group: Group) -> None:
        stream = await a_stream(group)
        receipt = await stream.send(b".")
        desk.take(group, 1, "pulse")
        desk.bring_back(group, 1, rank=None)
        assert await is_delivered(receipt)
        with pytest.raises(Lost, match="has no total order"):
            await receipt.stable()

    play(main)


def test_receipts_of_messages_that_were_under_way_are_lost_with_the_process() -> None:
    async def main(desk: Desk, group: Group) -> None:
        stream = await a_stream(group, deadline="1ns", period="1ns")
        first, second, third = await send_in(stream, group, desk, 3)
        sending = asyncio.create_task(group.send(b"alarm", deadline="1s"))
        await soon(sending)
        member_of(group).admitted("~1")
        alarm = await sending
        desk.take(group, 1, "~1")
        desk.take(group, 2, "pulse")
        desk.bring_back(group, 2, rank=1)
        asking = asyncio.create_task(group.stream("other", size=1, deadline="1s", period="1s"))
        await soon(asking)
        member_of(group).halted(Reason("omission", "p1 has missed a message"))
        await alarm.delivered()
        await first.delivered()
        for receipt in (second, third):
            with pytest.raises(Lost, match="p1 has missed a message"):
                await receipt.delivered()
        with pytest.raises(Lost):
            await alarm.stable()
        with pytest.raises(Refused, match="p1 has missed a message"):
            await asking
        with pytest.raises(Refused, match="p1 has missed a message"):
            await stream.send(b".")
        stream.release()
        assert ("release", "pulse") not in desk.calls

    play(main)


# --- the end of a stream --------------------------------------------------------------------------------------------


def test_a_stream_is_released_when_what_was_accepted_is_taken() -> None:
    async def main(desk: Desk, group: Group) -> None:
        stream = await a_stream(group)
        await stream.send(b".")
        stream.release()
        stream.release()
        with pytest.raises(Refused, match="stream 'pulse' in g was released"):
            await stream.send(b".")
        assert ("release", "pulse") not in desk.calls
        desk.take(group, 1, "pulse")
        assert desk.calls == [("admit", "pulse"), ("release", "pulse")]
        await a_stream(group)

    play(main)


def test_who_waits_for_its_period_hears_that_the_stream_is_over() -> None:
    async def main(desk: Desk, group: Group) -> None:
        stream = await a_stream(group)
        await stream.send(b".")
        waiting = asyncio.create_task(stream.send(b"."))
        assert not await soon(waiting)
        stream.release()
        with pytest.raises(Refused, match="was released"):
            await waiting

    play(main)


def test_a_stream_whose_guarantee_is_lost_loses_what_was_not_taken_and_no_more() -> None:
    async def main(desk: Desk, group: Group) -> None:
        stream = await a_stream(group, deadline="1ns", period="1ns")
        taken, waiting = await send_in(stream, group, desk, 2)
        desk.take(group, 1, "pulse")
        member_of(group).rejected("pulse", NO_ROOM)
        with pytest.raises(Lost, match="the sum of shares"):
            await waiting.delivered()
        with pytest.raises(Rejected, match="the sum of shares"):
            await stream.send(b".")
        assert not await is_delivered(taken)
        desk.bring_back(group, 1)
        assert await is_delivered(taken)
        assert group.metrics()["queued"] == 0

    play(main)


@pytest.mark.parametrize("deadline", [None, "1s"])
def test_who_does_not_wait_for_the_answer_has_asked_for_nothing(deadline: str | None) -> None:
    async def main(desk: Desk, group: Group) -> None:
        name = "pulse" if deadline is None else "~1"
        asked = group.send(b".", deadline=deadline) if deadline else group.stream("pulse", size=8, deadline="1s", period="1s")
        asking: asyncio.Task[Any] = asyncio.create_task(asked)
        await soon(asking)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert desk.calls == [("admit", name), ("release", name)]
        member_of(group).admitted(name)
        member_of(group).rejected(name, NO_ROOM)
        assert group.metrics()["queued"] == 0

    play(main)


def test_a_stream_that_is_admitted_when_nobody_waits_any_more_is_released() -> None:
    async def main(desk: Desk, group: Group) -> None:
        asking = asyncio.create_task(group.stream("pulse", size=8, deadline="1s", period="1s"))
        await soon(asking)
        member_of(group).admitted("pulse")
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert desk.calls == [("admit", "pulse"), ("release", "pulse")]

    play(main)


def test_a_message_that_is_admitted_when_nobody_waits_any_more_is_sent() -> None:
    async def main(desk: Desk, group: Group) -> None:
        sending = asyncio.create_task(group.send(b".", deadline="1s"))
        await soon(sending)
        member_of(group).admitted("~1")
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert desk.calls == [("admit", "~1")]
        assert group.metrics()["queued"] == 1

    play(main)


def test_who_leaves_sends_first_what_was_accepted_in_streams() -> None:
    async def main(desk: Desk, group: Group) -> None:
        stream = await a_stream(group)
        await stream.send(b".")
        sending = asyncio.create_task(group.send(b".", deadline="1s"))
        await soon(sending)
        leaving = asyncio.create_task(group.leave())
        await soon(leaving)
        with pytest.raises(Refused, match="is leaving"):
            await stream.send(b".")
        desk.take(group, 1, "pulse")
        assert ("leave",) not in desk.calls
        member_of(group).rejected("~1", NO_ROOM)
        assert desk.calls[-1] == ("leave",)
        member_of(group).left()
        await leaving
        with pytest.raises(Rejected):
            await sending

    play(main)
