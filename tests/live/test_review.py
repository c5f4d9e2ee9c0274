"""What a review of the live part found: each test failed once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import plainchant
from plainchant import Group, JoinTimeout, LeaveTimeout, Node, StateRequest, UsageError
from plainchant.core.model import TraceError, WireError
from plainchant.core.wire import Stamped
from plainchant.live.addresses import parse_address
from plainchant.live.presence import LONGEST_NAME, Hello, Known
from plainchant.live.tcp import TcpTransport
from plainchant.live.transport import Address, Transport
from plainchant.live.udp import UdpTransport

from .test_api import CALM, HASTY, Cables, addresses, fill, members, payloads, read, read_view, run


async def read_request(group: Group) -> StateRequest:
    """Reads until somebody wants the state."""
    async for event in group:
        if isinstance(event, StateRequest):
            return event
    raise AssertionError(f"the stream of {group.me} ended before a request for its state")


def is_free(address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(parse_address(address))
        except OSError:
            return False
    return True


@contextmanager
def no_problems_in_callbacks() -> Iterator[None]:
    """Fails if anything was raised where only the event loop could hear of it."""
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    yield
    assert problems == []


# --- opening and closing ------------------------------------------------------------------------------------------------


def test_a_membership_that_is_over_can_be_entered_again() -> None:
    async def main() -> None:
        peers = addresses("a")
        joining = plainchant.join("g", me="a", peers=peers)
        for _ in range(2):
            async with joining as group:
                await (await group.send(b"x")).delivered()
        assert is_free(peers["a"])

    run(main())


def test_a_node_is_opened_once_and_says_so() -> None:
    async def main() -> None:
        peers = addresses("a")
        node = Node(me="a", peers=peers)
        with pytest.raises(UsageError, match="is not open"):
            async with node.join("g"):
                pass
        await node.open()
        with pytest.raises(UsageError, match="was opened before"):
            await node.open()
        await node.close()
        await node.close()
        with pytest.raises(UsageError, match="was opened before"):
            await node.open()
        assert is_free(peers["a"])
        await Node(me="a", peers=peers).close()

    run(main())


def test_a_node_that_could_not_open_may_try_again() -> None:
    async def main() -> None:
        peers = addresses("a")
        node = Node(me="a", peers=peers)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(parse_address(peers["a"]))
            with pytest.raises(UsageError, match="cannot listen"):
                await node.open()
        async with node, node.join("g") as group:
            assert group.members == ("a",)

    run(main())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"members": ["a", "b", "a"]}, "named twice"),
        ({"members": []}, "no process forms"),
        ({"members": "ab"}, "a list"),
        ({"parameters": {"resilience": 5}}, "at most"),
        ({"state": True, "listen": False}, "listen"),
        ({"outgoing": 0}, "at least one byte"),
    ],
)
def test_mistakes_that_can_be_known_are_said_before_anybody_waits(options: dict[str, Any], problem: str) -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        with pytest.raises(UsageError, match=problem):
            async with plainchant.join("g", **{"me": "a", "peers": peers, "timeout": 0.2, **options}):
                pass

    run(main())


def test_a_packet_in_which_nothing_fits_is_refused() -> None:
    async def main() -> None:
        peers = addresses("a")
        with pytest.raises(UsageError, match="choose a larger packet"):
            async with plainchant.join("g", me="a", peers=peers, packet=100):
                pass
        assert is_free(peers["a"])

    run(main())


def test_a_group_that_is_being_joined_is_not_joined_a_second_time() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        async with AsyncExitStack() as stack:
            a, b = [await stack.enter_async_context(Node(me=name, peers=peers, parameters=CALM)) for name in "ab"]
            first = asyncio.create_task(stack.enter_async_context(a.join("g")))
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="already"):
                await a.join("g", timeout=0.2).__aenter__()
            groups = await asyncio.gather(first, stack.enter_async_context(b.join("g")))
            assert [group.members for group in groups] == [("a", "b")] * 2

    run(main())


def test_programs_that_name_themselves_first_form_one_group() -> None:
    async def enter(me: str, peers: dict[str, str]) -> tuple[str, ...]:
        own_first = {me: peers[me], **peers}
        async with plainchant.join("g", me=me, peers=own_first, parameters=CALM, timeout=5) as group:
            return group.members

    async def main() -> None:
        for _ in range(3):
            peers = addresses("a", "b", "c")
            views = await asyncio.gather(*(enter(name, peers) for name in "cba"))
            assert views == [("a", "b", "c")] * 3

    run(main())


class Unheard:
    """Makes transports of which the first lets nothing out but hellos."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, address: Address, packet: int) -> UdpTransport:
        self.made += 1
        return OnlyHellos(address, packet=packet) if self.made == 1 else UdpTransport(address, packet=packet)


class OnlyHellos(UdpTransport):
    def send(self, to: Sequence[Address], data: bytes | bytearray | memoryview) -> None:
        with contextlib.suppress(WireError):
            Stamped((Hello,), b"boot").decode_frame(data)
            super().send(to, data)


def test_who_was_not_let_in_tries_again_while_there_is_time() -> None:
    async def main() -> None:
        peers, transports = addresses("a", "b"), Unheard()
        hasty = {"suspect_after": "100ms", "patience": "200ms"}
        async with plainchant.join("g", me="a", peers=peers, members=["a"], parameters=hasty) as a:
            async with plainchant.join(
                "g", me="b", peers=peers, members=["a"], parameters=hasty, transport=transports, timeout=30
            ) as b:
                assert b.me == "b#1"
                assert transports.made == 2
            await read_view(a, "a", "b#1")

    run(main())


# --- state --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["close", "halt"])
def test_who_writes_a_state_does_not_wait_for_ever_when_its_process_stops(ending: str) -> None:
    async def main() -> None:
        peers, cables = addresses("a", "b"), Cables()
        options: dict[str, Any] = {"peers": peers, "parameters": HASTY, "state": True, "transport": cables}
        async with Node(me="a", **options) as node, Node(me="b", **options) as other:
            joining = node.join("g", members=["a"])
            group = await joining.__aenter__()
            coming = asyncio.create_task(other.join("g", members=["a"]).__aenter__())
            request = await read_request(group)
            cables.made[peers["b"]].cut = True

            async def write() -> None:
                for _ in range(100):
                    await request.write(bytes(1 << 20))

            writing = asyncio.create_task(write())
            for _ in range(10):
                await asyncio.sleep(0)
            assert not writing.done()
            if ending == "close":
                await node.close()
            async with asyncio.timeout(20):
                await writing
            coming.cancel()
            await asyncio.wait([coming])

    run(main())


def test_who_gives_up_waiting_for_the_state_says_so_and_leaves() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        options: dict[str, Any] = {"peers": peers, "parameters": CALM, "state": True}
        nodes = [Node(me=name, **options) for name in "ab"]
        async with nodes[0] as node, nodes[1] as other, node.join("g", members=["a"]) as group:
            with pytest.raises(JoinTimeout, match="state of g at view 2 from a"):
                await other.join("g", members=["a"], timeout=1).__aenter__()
            request = await read_request(group)
            await read_view(group, "a")
            await request.reply(b"late")  # to nobody

    run(main())


def test_a_member_that_wants_state_harms_nobody_where_there_is_none() -> None:
    async def main() -> None:
        peers = addresses("a", "b", "c")
        async with AsyncExitStack() as stack:
            joins = [plainchant.join("g", me=name, peers=peers, members=["a", "b"], parameters=CALM) for name in "ab"]
            a, b = await asyncio.gather(*(stack.enter_async_context(join) for join in joins))
            node = await stack.enter_async_context(Node(me="c", peers=peers, parameters=CALM, state=True))
            with pytest.raises(JoinTimeout, match=r"a works with .* without state transfer, and c with .* with state transfer"):
                await node.join("g", members=["a", "b"], timeout=1).__aenter__()
            await a.send(b"still here")
            assert payloads(await read(b, 1)) == [b"still here"]
            await node.close()

    run(main())


# --- leaving ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cancelled", [False, True])
def test_who_could_not_leave_in_time_leaves_when_it_can(cancelled: bool) -> None:
    async def main() -> None:
        peers, cables = addresses("a", "b"), Cables()
        options: dict[str, Any] = {"peers": peers, "parameters": {**CALM, "window": 4}, "transport": cables}
        async with Node(me="a", **options) as first, Node(me="b", **options) as second, AsyncExitStack() as stack:
            joining = second.join("g", outgoing=1_000, leave_timeout=0.2)
            a, b = await asyncio.gather(stack.enter_async_context(first.join("g")), joining.__aenter__())
            cables.made[peers["b"]].cut = True
            accepted = await fill(b, b"x")
            leaving = asyncio.create_task(joining.__aexit__(None, None, None))
            if cancelled:
                await asyncio.sleep(0)
                leaving.cancel()
            with pytest.raises(asyncio.CancelledError if cancelled else LeaveTimeout):
                await leaving
            cables.made[peers["b"]].cut = False
            assert payloads(await read(a, accepted)) == [b"x"] * accepted
            assert "b" in (await read_view(a, "a")).left

    run(main())


# --- strangers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address", [("127.0.0.1", 70_000), ("127.0.0.1", -1), ("no\0host", 7), ("somewhere.invalid", 7), ("", 7)]
)
def test_a_hello_with_addresses_that_are_none_harms_nobody(address: tuple[str, int]) -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        with no_problems_in_callbacks(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            async with Node(me="a", peers=peers, parameters=CALM) as a, Node(me="b", peers=peers, parameters=CALM) as b:
                boot = os.urandom(4)
                hello = Hello("stranger", 0, boot, True, {}, {"friend": Known(0, b"boot", *address)})
                stranger.sendto(Stamped((Hello,), boot).encode_frame(hello), a.address)
                stranger.settimeout(20)
                await asyncio.to_thread(stranger.recv, 1 << 16)
                async with AsyncExitStack() as stack:
                    await asyncio.gather(*(stack.enter_async_context(node.join("g")) for node in (a, b)))

    run(main())


# --- mistakes that only this machine knows ------------------------------------------------------------------------------


def test_a_trace_that_cannot_be_written_is_said_before_anybody_counts_on_us(tmp_path: Path) -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        (tmp_path / "file").write_text("")
        with pytest.raises(TraceError, match="choose another directory"):
            async with plainchant.join("g", me="a", peers=peers, trace=tmp_path / "file", timeout=0.2):
                pass
        assert is_free(peers["a"])

    run(main())


def test_addresses_of_two_families_do_not_go_together_over_udp() -> None:
    async def main() -> None:
        peers = {**addresses("a"), "b": "[::1]:7"}
        with pytest.raises(UsageError, match=r"b at \[::1\]:7"):
            async with plainchant.join("g", me="a", peers=peers, timeout=0.2):
                pass
        assert is_free(peers["a"])

    run(main())


def test_who_comes_back_is_recorded_in_the_run_of_the_others(tmp_path: Path) -> None:
    async def life() -> None:
        peers = addresses("a", "b")
        options: dict[str, Any] = {"peers": peers, "members": ["a"], "parameters": CALM, "trace": tmp_path}
        async with plainchant.join("g", me="a", **options):
            for _ in range(2):
                async with plainchant.join("g", me="b", **options):
                    pass

    run(life())
    run(life())
    recorded = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*"))
    assert recorded == [f"{each}/{name}" for each in ("r0", "r1") for name in ("a", "b", "b%231")]


# --- names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("transport", "packet"), [("udp", 0), ("udp", 1400), ("tcp", 0)])
def test_the_longest_names_leave_room_for_messages(transport: str, packet: int) -> None:
    async def main() -> None:
        group, names = "g" * LONGEST_NAME, ["a" * LONGEST_NAME, "b" * LONGEST_NAME]
        longest = [0]

        def sized(address: Address, size: int) -> Transport:
            made: Transport = UdpTransport(address, packet=size) if transport == "udp" else TcpTransport(address)
            send = made.send

            def measured(to: Sequence[Address], data: bytes | bytearray | memoryview) -> None:
                longest[0] = max(longest[0], len(data) - made.limits.packet)
                send(to, data)

            made.send = measured  # type: ignore[method-assign]
            return made

        async with members(*names, group=group, transport=sized, packet=packet) as (a, b):
            for each in (a, b):
                await each.send(bytes(300_000))
                receipt = await each.send_many([b"xx"] * 50_000)
                await receipt.delivered()
        assert longest[0] <= 0

    run(main())


def test_longer_names_are_refused() -> None:
    async def main() -> None:
        too_long = "é" * (LONGEST_NAME // 2 + 1)
        peers = addresses("a")
        with pytest.raises(UsageError, match="choose a shorter one"):
            plainchant.join(too_long, me="a", peers=peers)
        with pytest.raises(UsageError, match="choose a shorter one"):
            plainchant.join("g", me="a", peers={**peers, too_long: "127.0.0.1:7"})

    run(main())
