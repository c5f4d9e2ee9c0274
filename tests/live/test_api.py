"""The asyncio API, as an asyncio programmer expects it to behave: several real nodes in one event loop, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

import plainchant
from plainchant import Group, Halted, JoinTimeout, Lost, Message, Node, Refused, UsageError, View
from plainchant.live.transport import Address
from plainchant.live.udp import UdpTransport

PATIENCE = 60.0
CALM = {"suspect_after": "5s", "patience": "20s"}
"""A busy machine excludes nobody."""
HASTY = {"suspect_after": "300ms", "patience": "1s"}


def run(main: Coroutine[Any, Any, None]) -> None:
    """Runs a test; whatever it waits for, it does not wait for ever."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await main

    asyncio.run(bounded())


def addresses(*names: str) -> dict[str, str]:
    """Free ports of this machine, held together while they are looked for."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in names]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return {name: f"127.0.0.1:{each.getsockname()[1]}" for name, each in zip(names, sockets, strict=True)}


class Severed(UdpTransport):
    """A transport whose cable can be pulled."""

    def __init__(self, address: Address, packet: int) -> None:
        super().__init__(address, packet=packet)
        self.cut = False

    def send(self, to: Sequence[Address], data: bytes | bytearray | memoryview) -> None:
        if not self.cut:
            super().send(to, data)

    async def open(self, receive: Callable[..., None], turn_over: Callable[[], None]) -> None:
        def pass_on(address: Address, data: Any) -> None:
            if not self.cut:
                receive(address, data)

        await super().open(pass_on, turn_over)


class Cables:
    """Makes transports whose cables can be pulled, by their addresses."""

    def __init__(self) -> None:
        self.made: dict[str, Severed] = {}

    def __call__(self, address: Address, packet: int) -> Severed:
        made = self.made[f"{address[0]}:{address[1]}"] = Severed(address, packet)
        return made


@asynccontextmanager
async def members(*names: str, group: str = "g", **options: Any) -> AsyncIterator[list[Group]]:
    """A group of members, all in this process."""
    peers = options.pop("peers", None) or addresses(*names)
    options.setdefault("parameters", CALM)
    async with AsyncExitStack() as stack:
        joins = [stack.enter_async_context(plainchant.join(group, me=name, peers=peers, **options)) for name in names]
        yield list(await asyncio.gather(*joins))


async def read(group: Group, count: int) -> list[Message]:
    """The next messages."""
    found: list[Message] = []
    while len(found) < count:
        event = await anext(group)
        if isinstance(event, Message):
            found.append(event)
    return found


async def read_view(group: Group, *names: str) -> View:
    """Reads until the view with these members."""
    async for event in group:
        if isinstance(event, View) and event.members == names:
            return event
    raise AssertionError(f"the stream of {group.me} ended before the view {names}")


def payloads(messages: Sequence[Message]) -> list[bytes]:
    return [message.payload for message in messages]


async def fill(group: Group, payload: bytes) -> int:
    """Sends until nothing is taken any more, however the loop turns: for who is cut off. How many were accepted."""
    accepted = refused = 0
    while refused < 5:
        if group.try_send(payload):
            accepted += 1
            refused = 0
            assert accepted < 1_000_000
        else:
            refused += 1
            await asyncio.sleep(0)
    return accepted


@asynccontextmanager
async def full(payload: bytes, **options: Any) -> AsyncIterator[tuple[Group, Group, Severed, int]]:
    """Two members, of whom the second is cut off and has no room left: both, its cable, and what it has accepted."""
    peers, cables = addresses("a", "b"), Cables()
    async with members("a", "b", peers=peers, transport=cables, parameters={**CALM, "window": 4}, **options) as (a, b):
        cable = cables.made[peers["b"]]
        cable.cut = True
        try:
            yield a, b, cable, await fill(b, payload)
        finally:
            cable.cut = False


async def settle(group: Group, payload: bytes) -> int:
    """Sends what is taken, with turns of the loop, until the whole group stands still; how many were accepted."""
    accepted, idle = 0, time.monotonic()
    while time.monotonic() < idle + 1.0:
        if group.try_send(payload):
            accepted += 1
            idle = time.monotonic()
        else:
            await asyncio.sleep(0.001)
    return accepted


# --- the ordinary -----------------------------------------------------------------------------------------------------


def test_all_members_see_one_stream_of_messages_and_views() -> None:
    async def main() -> None:
        async with members("a", "b", "c") as groups:
            for group in groups:
                for number in range(50):
                    await group.send(b"%s%d" % (group.me.encode(), number))
            streams = [[await anext(group) for _ in range(151)] for group in groups]
            assert streams[0] == streams[1] == streams[2]
            first, *messages = streams[0]
            assert isinstance(first, View)
            assert first.members == groups[0].members == ("a", "b", "c")
            assert first == groups[0].view
            for name in "abc":
                own = [event for event in messages if isinstance(event, Message) and event.sender == name]
                assert [(event.seq, event.payload, event.group) for event in own] == [
                    (number + 1, b"%s%d" % (name.encode(), number), "g") for number in range(50)
                ]

    run(main())


def test_receipts_tell_of_delivery_and_stability() -> None:
    async def main() -> None:
        async with members("a", "b", "c") as (a, b, c):
            receipt = await b.send(b"x")
            await receipt.delivered()
            await receipt.delivered()
            assert b.metrics()["own_delivered"] == 1
            await receipt.stable()
            # Every member holds it: whoever has not delivered it yet does so without the sender's help.
            last = await b.send_many([b"y", b"z"])
            assert last.seq == 3
            await asyncio.gather(last.delivered(), last.stable())
            assert payloads(await read(c, 3)) == payloads(await read(a, 3)) == [b"x", b"y", b"z"]

    run(main())


def test_guarantees_and_metrics_say_what_is_promised_and_what_happened() -> None:
    async def main() -> None:
        async with members("a", "b", parameters={**CALM, "resilience": 1}) as (a, b):
            assert "identical" in a.guarantees
            assert "everything" not in a.guarantees
            assert a.guarantees.faults
            assert "identical: " in str(a.guarantees)
            receipt = await a.send_many([b"123"] * 7)
            await receipt.stable()
            await read(b, 7)
            metrics = a.metrics()
            expected = {"accepted": 7, "sent": 7, "queued": 0, "queued_bytes": 0, "own_delivered": 7, "own_stable": 7}
            assert {name: metrics[name] for name in expected} == expected
            assert (metrics["delivered"], metrics["views"], metrics["members"]) == (7, 1, 2)
            assert metrics["unread_bytes"] > 21
            assert b.metrics()["unread_bytes"] == 0
            assert metrics["packets_sent"] > 0
            assert metrics["packets_received"] > 0
            assert all(type(value) is int for value in metrics.values())

    run(main())


def test_a_message_larger_than_a_packet_and_one_of_five_megabytes() -> None:
    async def main() -> None:
        async with members("a", "b", "c", packet=1400) as (a, b, c):
            large = [bytes([number]) * size for number, size in enumerate((1400, 5_000, 5_000_000, 0, 1))]
            for payload in large:
                await b.send(payload)
            for group in (a, b, c):
                assert payloads(await read(group, len(large))) == large

    run(main())


def test_bytes_likes_are_copied_and_anything_else_is_refused() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            buffer = bytearray(b"before")
            await a.send(buffer)  # type: ignore[arg-type]
            await a.send_many([memoryview(buffer), b"x"])  # type: ignore[list-item]
            buffer[:] = b"after!"
            assert payloads(await read(b, 3)) == [b"before", b"before", b"x"]
            for wrong in ("text", None, 7, [b"x"]):
                with pytest.raises(UsageError, match="a message is bytes"):
                    await a.send(wrong)  # type: ignore[arg-type]
                with pytest.raises(UsageError, match="a message is bytes"):
                    a.try_send(wrong)  # type: ignore[arg-type]
                with pytest.raises(UsageError, match="a message is bytes"):
                    await a.send_many([b"not sent", wrong])  # type: ignore[list-item]
            await a.send(b"last")
            assert payloads(await read(b, 1)) == [b"last"]

    run(main())


# --- back-pressure and cancellation -------------------------------------------------------------------------------------


def test_try_send_is_falsy_when_there_is_no_room_and_send_waits_for_it() -> None:
    async def main() -> None:
        async with full(b"x" * 936, outgoing=10_000) as (a, b, cable, sent):
            assert b.metrics()["queued"] == 10
            assert b.try_send(b"") is None
            waiting = asyncio.create_task(b.send(b"waited"))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not waiting.done()
            assert b.waiting() is not None
            cable.cut = False
            assert (await waiting).seq == sent + 1
            assert payloads(await read(a, sent + 1)) == [b"x" * 936] * sent + [b"waited"]
            assert b.try_send(b"there is room") is not None

    run(main())


def test_something_larger_than_the_whole_buffer_is_sent_when_it_is_empty() -> None:
    async def main() -> None:
        async with members("a", "b", outgoing=10_000) as (a, b):
            await a.send(b"small")
            await a.send(b"x" * 100_000)
            await a.send_many([b"y" * 5_000] * 5)
            assert [len(payload) for payload in payloads(await read(b, 7))] == [5, 100_000, 5_000, 5_000, 5_000, 5_000, 5_000]

    run(main())


def test_a_send_that_is_cancelled_while_it_waits_has_sent_nothing() -> None:
    async def main() -> None:
        async with full(b"x", outgoing=1_000) as (a, b, cable, sent):
            waiting = [asyncio.create_task(b.send(b"%d" % number)) for number in range(6)]
            waiting.append(asyncio.create_task(b.send_many([b"6", b"6"])))
            waiting.append(asyncio.create_task(b.send_many([b"7", b"7"])))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not any(task.done() for task in waiting)
            cancelled = [waiting[number] for number in (0, 3, 4, 6)]
            for task in cancelled:
                task.cancel()
            cable.cut = False
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert [isinstance(result, asyncio.CancelledError) for result in results] == [task in cancelled for task in waiting]
            assert payloads(await read(a, sent + 5))[sent:] == [b"1", b"2", b"5", b"7", b"7"]
            assert b.metrics()["accepted"] == sent + 5

    run(main())


def test_a_send_that_waits_for_room_heeds_a_timeout() -> None:
    async def main() -> None:
        async with full(b"x", outgoing=1_000) as (a, b, cable, sent):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await b.send(b"never")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(b.send_many([b"never", b"never"]), 0.02)
            cable.cut = False
            await b.send(b"after")
            assert payloads(await read(a, sent + 1)) == [b"x"] * sent + [b"after"]

    run(main())


def test_a_reader_that_is_cancelled_loses_no_event() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            seen: list[bytes] = []

            async def keep() -> None:
                async for event in b:
                    if isinstance(event, Message):
                        seen.append(event.payload)

            async def keep_batches() -> None:
                async for events in b.batches():
                    seen.extend(event.payload for event in events if isinstance(event, Message))

            for number in range(300):
                reader = asyncio.create_task(keep() if number % 2 else keep_batches())
                await a.send(b"%d" % number)
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                reader.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reader
            await a.send(b"end")
            while not seen or seen[-1] != b"end":
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.001):
                        await keep()
            assert seen == [b"%d" % number for number in range(300)] + [b"end"]

    run(main())


def test_a_timeout_around_a_reader_leaves_the_stream_as_it_is() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            await anext(b)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await anext(b)
            await a.send(b"x")
            assert payloads(await read(b, 1)) == [b"x"]

    run(main())


def test_breaking_out_of_a_loop_and_starting_again_loses_nothing() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            receipt = await a.send_many([b"%d" % number for number in range(100)])
            await receipt.stable()
            await asyncio.sleep(0)
            seen: list[bytes] = []
            while len(seen) < 60:
                async for event in b:
                    if isinstance(event, Message):
                        seen.append(event.payload)
                        if len(seen) % 7 == 0:
                            break
            async for events in b.batches():
                seen.extend(event.payload for event in events if isinstance(event, Message))
                if len(seen) == 100:
                    break
            assert seen == [b"%d" % number for number in range(100)]

    run(main())


def test_two_tasks_that_read_at_once_are_told() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            await anext(b)
            first = asyncio.create_task(anext(b))
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="two tasks read group 'g' at once"):
                await anext(b)
            with pytest.raises(UsageError, match="two tasks read group 'g' at once"):
                async for _ in b.batches():
                    pass
            await a.send(b"x")
            event = await first
            assert isinstance(event, Message)
            assert event.payload == b"x"
            # The same when there is something to read for both.
            receipt = await a.send_many([b"1", b"2", b"3"])
            await receipt.stable()
            # (The second may find that the first has read already, without having waited: then it is just the next to read.)
            both = await asyncio.gather(anext(b), anext(b), return_exceptions=True)
            got = [event for event in both if isinstance(event, Message)]
            assert all(isinstance(event, Message | UsageError) for event in both)
            assert got
            assert payloads([*got, *await read(b, 3 - len(got))]) == [b"1", b"2", b"3"]

    run(main())


def test_batches_are_lists_of_events_in_their_order() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            sender = asyncio.create_task(a.send_many([b"%d" % number for number in range(10_000)]))
            seen: list[bytes] = []
            batches = 0
            async for events in b.batches():
                assert events
                batches += 1
                seen += [event.payload for event in events if isinstance(event, Message)]
                if len(seen) == 10_000:
                    break
            await sender
            assert seen == [b"%d" % number for number in range(10_000)]
            assert batches < 2_000

    run(main())


def test_a_consumer_that_stops_reading_slows_the_senders_down_and_loses_nothing() -> None:
    async def main() -> None:
        size, unread = 10_000, 1 << 20
        async with members("a", "b", "c", outgoing=unread, unread=unread) as (a, b, c):
            sent = 0
            readers = [asyncio.create_task(count(group)) for group in (a, c)]
            sent = await settle(a, b"x" * size)
            assert a.try_send(b"x" * size) is None
            assert b.metrics()["unread_bytes"] < 20 * unread
            assert b.waiting() is not None or a.waiting() is not None
            assert sum(group.metrics()["queued_bytes"] for group in (a, b, c)) <= 3 * unread
            assert len(await read(b, sent)) == sent
            receipt = await a.send(b"last")
            await receipt.stable()
            assert payloads(await read(b, 1)) == [b"last"]
            for reader in readers:
                reader.cancel()

    async def count(group: Group) -> None:
        async for _ in group.batches():
            pass

    run(main())


def test_many_who_send_at_once_are_served_in_their_order() -> None:
    async def main() -> None:
        async with members("a", "b", outgoing=500) as (a, b):
            tasks = [asyncio.create_task(a.send(b"%d" % number)) for number in range(100)]
            assert payloads(await read(b, 100)) == [b"%d" % number for number in range(100)]
            assert [(await task).seq for task in tasks] == list(range(1, 101))

    run(main())


def test_send_many_is_in_one_piece_among_others() -> None:
    async def main() -> None:
        async with members("a", "b", outgoing=2_000) as (a, b):
            tasks = []
            for number in range(20):
                tasks.append(asyncio.create_task(a.send_many([b"many %d" % number] * 10)))
                tasks.append(asyncio.create_task(a.send(b"one")))
            got = payloads(await read(b, 220))
            await asyncio.gather(*tasks)
            for number in range(20):
                at = got.index(b"many %d" % number)
                assert got[at : at + 10] == [b"many %d" % number] * 10

    run(main())


# --- ends -----------------------------------------------------------------------------------------------------------


def test_leaving_by_an_exception_is_a_clean_leave_and_the_exception_goes_on() -> None:
    async def main() -> None:
        peers = addresses("a", "b", "c")

        async def fails() -> None:
            async with plainchant.join("g", me="c", peers=peers, parameters=CALM) as group:
                await group.send(b"last words")
                raise LookupError("mine")

        joins = [plainchant.join("g", me=name, peers=peers, parameters=CALM) for name in "ab"]
        failing = asyncio.create_task(fails())
        async with AsyncExitStack() as stack:
            a, b = await asyncio.gather(*(stack.enter_async_context(join) for join in joins))
            with pytest.raises(LookupError, match="mine") as caught:
                await failing
            assert not getattr(caught.value, "__notes__", [])
            for group in (a, b):
                assert payloads(await read(group, 1)) == [b"last words"]
                view = await read_view(group, "a", "b")
                assert view.left["c"].code == "left"

    run(main())


def test_cancelling_a_member_is_a_clean_leave() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        inside = asyncio.Event()

        async def stays() -> None:
            async with plainchant.join("g", me="b", peers=peers, parameters=CALM) as group:
                inside.set()
                async for _ in group:
                    pass

        staying = asyncio.create_task(stays())
        async with plainchant.join("g", me="a", peers=peers, parameters=CALM) as a:
            await inside.wait()
            staying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await staying
            assert (await read_view(a, "a")).left["b"].code == "left"

    run(main())


def test_after_leaving_the_stream_ends_and_sends_are_refused_with_a_reason() -> None:
    async def main() -> None:
        async with members("a", "b") as (a, b):
            await b.send(b"x")
            await b.leave()
            await b.leave()
            with pytest.raises(Refused, match="b has left g") as caught:
                await b.send(b"y")
            assert caught.value.reason.code == "left"
            with pytest.raises(Refused):
                b.try_send(b"y")
            with pytest.raises(Refused):
                await b.send_many([b"y"])
            assert [type(event).__name__ async for event in b][:2] == ["View", "Message"]
            assert b.members == ()
            assert [event async for event in b] == []
            await read_view(a, "a")

    run(main())


def test_a_send_that_waits_is_refused_when_the_member_leaves() -> None:
    async def main() -> None:
        async with full(b"x", outgoing=1_000) as (a, b, cable, sent):
            waiting = [asyncio.create_task(b.send(b"late")), asyncio.create_task(b.send_many([b"late", b"late"]))]
            await asyncio.sleep(0)
            leaving = asyncio.create_task(b.leave())
            for task in waiting:
                with pytest.raises(Refused, match="leaving"):
                    await task
            assert not leaving.done()
            cable.cut = False
            await leaving
            assert payloads(await read(a, sent)) == [b"x"] * sent
            await read_view(a, "a")

    run(main())


def test_who_is_cut_off_is_halted_with_a_reason_and_its_receipts_are_lost() -> None:
    async def main() -> None:
        peers, cables = addresses("a", "b", "c"), Cables()
        joins = [plainchant.join("g", me=name, peers=peers, transport=cables, parameters=HASTY) for name in "abc"]
        a, b, c = await asyncio.gather(*(join.__aenter__() for join in joins))
        receipt = await c.send(b"before")
        await receipt.stable()
        cables.made[peers["c"]].cut = True
        doomed = await c.send(b"too late")
        with pytest.raises(Halted) as caught:
            async for _ in c:
                pass
        assert caught.value.reason.code
        assert str(caught.value) == caught.value.reason.text
        for waiting in (doomed.delivered(), doomed.stable()):
            with pytest.raises(Lost):
                await waiting
        await receipt.delivered()
        with pytest.raises(Refused):
            c.try_send(b"x")
        with pytest.raises(Halted):
            await anext(c)
        with pytest.raises(Halted):
            await c.leave()
        assert c.members == ()
        for group in (a, b):
            view = await read_view(group, "a", "b")
            assert view.left["c"].text
        # Leaving the block says it too, unless it is left by the same news.
        with pytest.raises(Halted):
            await joins[2].__aexit__(None, None, None)
        await asyncio.gather(*(join.__aexit__(None, None, None) for join in joins[:2]))

    run(main())


def test_halted_leaves_the_block_once() -> None:
    async def main() -> None:
        peers, cables = addresses("a", "b"), Cables()

        async def live(name: str) -> None:
            async with plainchant.join("g", me=name, peers=peers, transport=cables, parameters=HASTY) as group:
                async for _ in group:
                    for cable in cables.made.values():
                        cable.cut = True

        results = await asyncio.gather(live("a"), live("b"), return_exceptions=True)
        assert [type(result) for result in results] == [Halted, Halted]
        assert not any(getattr(result, "__notes__", []) for result in results)

    run(main())


# --- beginnings -------------------------------------------------------------------------------------------------------


def test_a_group_that_does_not_answer_is_a_timeout_that_names_who_is_missing() -> None:
    async def main() -> None:
        peers = addresses("a", "b", "c")
        with pytest.raises(JoinTimeout) as caught:
            async with plainchant.join("g", me="a", peers=peers, timeout=0.3):
                pass
        assert f"not heard: b at {peers['b']}, c at {peers['c']}" in str(caught.value)
        assert caught.value.reason.code == "join timeout"
        # The address is free again.
        async with plainchant.join("g", me="a", peers={"a": peers["a"]}):
            pass

    run(main())


def test_somebody_who_is_there_but_not_in_the_group_is_named() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        async with Node(me="a", peers=peers) as here, Node(me="b", peers=peers):
            with pytest.raises(JoinTimeout, match="there, but not in this group: b"):
                async with here.join("g", timeout=0.5):
                    pass

    run(main())


def test_joining_can_be_cancelled_and_tried_again() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        async with Node(me="a", peers=peers, parameters=CALM) as a, Node(me="b", peers=peers, parameters=CALM) as b:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await a.join("g").__aenter__()
            entering = b.join("g")
            task = asyncio.create_task(entering.__aenter__())
            async with a.join("g") as group:
                await task
                assert group.members == ("a", "b")
                await entering.__aexit__(None, None, None)
                await read_view(group, "a")

    run(main())


def test_an_address_that_is_taken_is_said() -> None:
    async def main() -> None:
        peers = addresses("a")
        async with plainchant.join("g", me="a", peers=peers):
            with pytest.raises(UsageError, match=f"cannot listen at {peers['a']}: .* is another member running there"):
                async with plainchant.join("g", me="a", peers=peers):
                    pass

    run(main())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"me": "x"}, "me is 'x', which is not among peers"),
        ({"members": ["a", "z"]}, "not among the peers: z"),
        ({"protocol": "seqencer"}, "did you mean 'sequencer'"),
        ({"transport": "pigeon"}, "there is no transport 'pigeon'"),
        ({"peers": {"a": "nowhere"}}, "is not an address"),
        ({"peers": {"a#1": "127.0.0.1:1"}, "me": "a#1"}, "no '#'"),
        ({"parameters": {"resilence": 1}}, 'did you mean "resilience"'),
        ({"parameters": {"resilience": 5}}, "make it at most"),
        ({"outgoing": 0}, "at least one byte"),
        ({"packet": 5}, "64 to 65507"),
    ],
)
def test_mistakes_are_said(options: dict[str, Any], problem: str) -> None:
    async def main() -> None:
        given = {"me": "a", "peers": addresses("a"), "timeout": 5.0, **options}
        with pytest.raises(UsageError, match=problem):
            async with plainchant.join("g", **given):
                pass

    run(main())


class EarlyBird(UdpTransport):
    """A transport that has packets before it is open, as one that waits for something while it opens may."""

    def __init__(self, address: Address, packet: int) -> None:
        super().__init__(address, packet=packet)

    async def open(self, receive: Callable[..., None], turn_over: Callable[[], None]) -> None:
        await super().open(receive, turn_over)
        receive(("127.0.0.1", 9), b"too early")
        turn_over()


def test_packets_that_come_before_a_node_is_open_are_lost_and_harm_nobody() -> None:
    async def main() -> None:
        async with members("a", "b", transport=EarlyBird) as (a, b):
            await a.send(b"x")
            assert payloads(await read(b, 1)) == [b"x"]

    run(main())


def test_two_groups_in_one_process() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        async with Node(me="a", peers=peers, parameters=CALM) as a, Node(me="b", peers=peers, parameters=CALM) as b:

            async def use(node: Node) -> list[list[bytes]]:
                async with node.join("bank") as bank, node.join("audit") as audit:
                    with pytest.raises(UsageError, match="is in 'bank' already"):
                        await node.join("bank").__aenter__()
                    for number in range(20):
                        await bank.send(b"bank %d" % number)
                        await audit.send(b"audit %d" % number)
                    return [payloads(await read(group, 40)) for group in (bank, audit)]

            first, second = await asyncio.gather(use(a), use(b))
            assert first == second
            assert all(payload.startswith(b"bank") for payload in first[0])
            assert all(payload.startswith(b"audit") for payload in first[1])

    run(main())


def test_a_process_joins_a_group_once_and_a_new_one_may_come() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        async with AsyncExitStack() as stack:
            joins = [plainchant.join("other", me="a", peers=peers, parameters=CALM)]
            node = Node(me="b", peers=peers, parameters=CALM)
            await stack.enter_async_context(node)
            joins.append(node.join("other"))
            other, _ = await asyncio.gather(*(stack.enter_async_context(join) for join in joins))
            assert other.members == ("a", "b")
            async with node.join("own", members=["b"]) as own:
                await own.send(b"x")
            with pytest.raises(UsageError, match="b has been in 'own' before; open a new node to join it again"):
                async with node.join("own", members=["b"]):
                    pass
            receipt = await other.send(b"the other group goes on")
            await receipt.stable()

    run(main())


def test_a_member_that_comes_back_to_its_address_has_a_new_name() -> None:
    async def main() -> None:
        peers = addresses("a", "b", "c")
        nodes = [Node(me=name, peers=peers, parameters=HASTY) for name in "abc"]
        for node in nodes:
            await node.open()
        joins = [node.join("g") for node in nodes]
        a, b, _ = await asyncio.gather(*(join.__aenter__() for join in joins))
        await nodes[2].close()  # without a word
        await read_view(a, "a", "b")
        await read_view(b, "a", "b")
        async with plainchant.join("g", me="c", peers=peers, parameters=HASTY) as again:
            assert again.me == "c#1"
            assert (await read_view(again, "a", "b", "c#1")).joined == ("c#1",)
            await again.send(b"back")
            assert [(event.sender, event.seq) for event in await read(a, 1)] == [("c#1", 1)]
        await asyncio.gather(*(join.__aexit__(None, None, None) for join in joins[:2]))
        for node in nodes:
            await node.close()

    run(main())


def test_a_member_that_comes_back_before_it_was_missed_is_let_in() -> None:
    async def main() -> None:
        peers = addresses("a", "b", "c")
        nodes = [Node(me=name, peers=peers, parameters=HASTY) for name in "abc"]
        for node in nodes:
            await node.open()
        joins = [node.join("g") for node in nodes]
        a, *_ = await asyncio.gather(*(join.__aenter__() for join in joins))
        await nodes[2].close()
        async with plainchant.join("g", me="c", peers=peers, parameters=HASTY) as again:
            assert again.me == "c#1"
            await read_view(a, "a", "b", "c#1")
        await asyncio.gather(*(join.__aexit__(None, None, None) for join in joins[:2]))
        for node in nodes:
            await node.close()

    run(main())


def test_the_first_members_wait_for_the_last_of_them() -> None:
    async def main() -> None:
        peers = addresses("a", "b", "c")
        early = [asyncio.create_task(enter(name, peers)) for name in "ab"]
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert not any(task.done() for task in early)
        late = asyncio.create_task(enter("c", peers))
        assert await asyncio.gather(*early, late) == [("a", "b", "c")] * 3

    async def enter(name: str, peers: dict[str, str]) -> tuple[str, ...]:
        async with plainchant.join("g", me=name, peers=peers, parameters=CALM) as group:
            event = await anext(group)
            assert isinstance(event, View)
            return event.members

    run(main())


def test_some_members_form_the_group_and_others_come_later() -> None:
    async def main() -> None:
        peers = addresses("a", "b", "c")
        options: dict[str, Any] = {"peers": peers, "members": ["a", "b"], "parameters": CALM}
        async with AsyncExitStack() as stack:
            joins = [plainchant.join("g", me=name, **options) for name in "ab"]
            a, b = await asyncio.gather(*(stack.enter_async_context(join) for join in joins))
            receipt = await a.send(b"before")
            await receipt.stable()
            async with plainchant.join("g", me="c", **options) as c:
                view = await anext(c)
                assert isinstance(view, View)
                assert (view.members, view.joined) == (("a", "b", "c"), ("c",))
                await b.send(b"after")
                assert payloads(await read(c, 1)) == [b"after"]
            assert payloads(await read(a, 2)) == [b"before", b"after"]

    run(main())
