"""Live groups with a key: every transport and protocol, an attacker on the network, other keys under load, noise."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import socket
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

import plainchant
from plainchant import Group, Insecure, Key, Keyring, Message, Node, UsageError, View
from plainchant.core.wire import Stamped
from plainchant.lab.properties import verify
from plainchant.live import node_keys
from plainchant.live.memory import server
from plainchant.live.ports import free_addresses
from plainchant.live.presence import HELLO_PACKETS, MOST_STRANGERS, Hello, Known
from plainchant.live.refusals import Refusals
from plainchant.live.transport import Address, Data, Receive, TurnOver
from plainchant.live.udp import UdpTransport
from plainchant.trace import read as read_trace
from plainchant.trace.collect import collect

from .endpoints import until
from .test_api import CALM, HASTY, addresses, members, payloads, read, run

SLOW: dict[str, dict[str, Any]] = {"sequencer": CALM, "newtop": {"suspect_after": "10s"}, "rtcast": {}}


def node_of(group: Group) -> Node:
    assert isinstance(group.node, Node)
    return group.node


# --- it works everywhere ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "transport"),
    [("sequencer", "udp"), ("sequencer", "tcp"), ("sequencer", "multicast"), ("newtop", "tcp"), ("rtcast", "udp")],
)
def test_a_group_with_a_key_is_a_group(protocol: str, transport: str) -> None:
    async def main() -> None:
        options: dict[str, Any] = {"protocol": protocol, "transport": transport, "parameters": SLOW[protocol]}
        async with members("a", "b", "c", key=Keyring.new(), **options) as groups:
            for group in groups:
                await group.send_many([f"{group.me} {number}".encode() for number in range(5)])
            await groups[1].send(bytes(200_000))
            found = await asyncio.gather(*(read(group, 16) for group in groups))
            assert payloads(found[0]) == payloads(found[1]) == payloads(found[2])
            told = node_of(groups[0]).statistics()
            assert told["packets_received"] > 0
            assert told["refused_forged"] == told["refused_damaged"] == told["refused_unsealed"] == 0

    run(main())


def test_two_networks_have_one_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SHARED", tmp_path)
    names = ("n1.a", "n1.b", "n2.a")

    async def main() -> None:
        places = list(free_addresses(range(6)).values())
        options: dict[str, Any] = {
            "peers": dict(zip(names, places[:3], strict=True)),
            "backup": dict(zip(names, places[3:], strict=True)),
            "protocol": "dedos",
            "parameters": {"lans": 2, "misses": 50},
            "key": Keyring.new(),
        }
        async with AsyncExitStack() as stack:
            joins = [stack.enter_async_context(plainchant.join("g", me=name, **options)) for name in names]
            groups = await asyncio.gather(*joins)
            for group in groups:
                await group.send(group.me.encode())
            found = await asyncio.gather(*(read(group, 3) for group in groups))
            assert payloads(found[0]) == payloads(found[1]) == payloads(found[2])
            told = node_of(groups[0]).statistics()
            assert (told["sessions"], told["refused_forged"], told["refused_redirected"]) == (3, 0, 0)

    run(main())


@pytest.mark.parametrize(
    ("mine", "others", "reason", "says"),
    [
        (True, True, "other_key", "are sealed with a key that it does not have: give everybody the same key file"),
        (True, False, "unsealed", "are not sealed: give the others the key, too"),
        (False, True, "sealed", "are sealed, and it has no key: give key=FILE here, too"),
    ],
)
def test_different_keys_do_not_meet_and_it_is_said_why(mine: bool, others: bool, reason: str, says: str) -> None:
    async def main() -> None:
        peers = addresses("a", "b")

        async def join(node: Node) -> None:
            async with node.join("g", timeout=0.4):
                pass

        async with (
            Node(me="a", peers=peers, key=Keyring.new() if mine else None) as a,
            Node(me="b", peers=peers, key=Keyring.new() if others else None) as b,
        ):
            ends = await asyncio.gather(join(a), join(b), return_exceptions=True)
            assert all(isinstance(end, plainchant.JoinTimeout) for end in ends)
            assert "not heard: b" in str(ends[0])
            assert says in str(ends[0])
            told = a.statistics()
            assert told[f"refused_{reason}"] > 0
            assert told["packets_received"] == 0
            if mine:
                assert told["packets_unproved"] > 0
                assert told[f"sealed_with_{a.key_ids[0]}"] == 0

    run(main())


def test_who_comes_back_is_let_in_under_its_next_name() -> None:
    async def main() -> None:
        ring, peers = Keyring.new(), addresses("a", "b")
        options: dict[str, Any] = {"peers": peers, "key": ring, "parameters": HASTY}
        async with plainchant.join("g", me="a", members=["a"], **options) as a:
            for expected in ("b", "b#1", "b#2"):
                async with plainchant.join("g", me="b", members=["a"], **options) as b:
                    assert b.me == expected
                    await b.send(expected.encode())
                    (message,) = await read(a, 1)
                    assert message.payload == expected.encode()
            assert node_of(a).statistics()["sessions"] == 4

    run(main())


# --- where a node may be without a key --------------------------------------------------------------------------------


def test_without_a_key_a_node_is_only_on_loopback_unless_that_is_meant() -> None:
    async def main() -> None:
        peers = {"a": f"0.0.0.0:{addresses('a')['a'].rpartition(':')[2]}"}
        with pytest.raises(UsageError, match=r"has no key: anybody .* `plainchant key new FILE`, .* insecure=True"):
            await Node(me="a", peers=peers).open()
        with pytest.warns(Insecure, match="anybody there can read, change and forge") as warned:
            async with Node(me="a", peers=peers, insecure=True):
                pass
        assert len(warned) == 1
        async with Node(me="a", peers=peers, key=Keyring.new()):
            pass

    run(main())


def test_the_second_network_counts_too() -> None:
    async def main() -> None:
        first, second = free_addresses(range(2)).values()
        node = Node(
            me="n1.a", peers={"n1.a": first}, backup={"n1.a": ("0.0.0.0", second[1])}, protocol="dedos", parameters={"lans": 2}
        )
        with pytest.raises(UsageError, match=r"n1.a is at 0\.0\.0\.0:\d+, where other machines reach it"):
            await node.open()

    run(main())


def test_the_environment_has_a_key_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Keyring.new()
    ring.write(tmp_path / "k", replace=False)

    async def ids() -> tuple[str, ...]:
        async with Node(me="a", peers=addresses("a")) as node:
            return node.key_ids

    monkeypatch.setenv("PLAINCHANT_KEY", ring.sealing.text)
    assert asyncio.run(ids()) == (str(ring.sealing),)
    monkeypatch.setenv("PLAINCHANT_KEY_FILE", str(tmp_path / "k"))
    with pytest.raises(UsageError, match="both PLAINCHANT_KEY and PLAINCHANT_KEY_FILE are set"):
        asyncio.run(ids())
    monkeypatch.delenv("PLAINCHANT_KEY")
    assert asyncio.run(ids()) == (str(ring.sealing),)


# --- other keys while it runs -----------------------------------------------------------------------------------------


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_keys, "KEY_POLL", 0.02)


async def chatter(group: Group, stop: asyncio.Event) -> int:
    """Sends until it is told to stop; how many it has sent."""
    sent = 0
    while not stop.is_set():
        await group.send(f"{group.me} {sent}".encode())
        sent += 1
        await asyncio.sleep(0.001)
    return sent


async def listen(group: Group, book: list[bytes], views: list[tuple[str, ...]]) -> None:
    async for event in group:
        if isinstance(event, Message):
            book.append(event.payload)
        elif isinstance(event, View):
            views.append(event.members)


@pytest.mark.parametrize("protocol", ["sequencer", "newtop"])
def test_keys_are_changed_under_load_and_who_gets_none_is_out(protocol: str, tmp_path: Path, quickly: None) -> None:
    files = {name: tmp_path / f"{name}.key" for name in "abc"}
    patient = {"sequencer": {"suspect_after": "2s", "patience": "6s"}, "newtop": {"suspect_after": "2s"}}[protocol]

    async def main() -> None:
        peers = addresses(*files)
        ring = Keyring.new()
        for file in files.values():
            ring.write(file, replace=False)
        books: dict[str, list[bytes]] = {name: [] for name in files}
        views: dict[str, list[tuple[str, ...]]] = {name: [] for name in files}
        async with AsyncExitStack() as stack:
            opened = {
                name: await stack.enter_async_context(
                    Node(me=name, peers=peers, key=file, protocol=protocol, parameters=patient, trace=tmp_path / "spool", run="r")
                )
                for name, file in files.items()
            }
            groups = await asyncio.gather(*(node.enter("g", tuple(files), 20.0) for node in opened.values()))
            reading = [asyncio.create_task(listen(group, books[group.me], views[group.me])) for group in groups]
            stop = asyncio.Event()
            sending = [asyncio.create_task(chatter(group, stop)) for group in groups]

            async def give(ring: Keyring, *names: str) -> None:
                """These get the file, and notice it."""
                for name in names:
                    ring.write(files[name], replace=True)
                ids = tuple(str(key) for key in ring.keys)
                await until(lambda: all(opened[name].key_ids == ids for name in names))

            async def step(ring: Keyring, *names: str) -> Keyring:
                """The same, and they go on for a while with it."""
                await give(ring, *names)
                before = {name: len(books[name]) for name in names}
                await until(lambda: all(len(books[name]) > before[name] + 30 for name in names))
                return ring

            async def used(key: str) -> None:
                """Everybody seals with that key."""
                await until(lambda: all(node.statistics()[key] == 2 for node in opened.values()))

            for _ in range(2):
                old, new = ring.sealing, Key.new()
                ring = await step(ring.add(new), *files)
                ring = await step(ring.use(str(new)), *files)
                await used(f"sealed_with_{new}")
                ring = await step(ring.drop(str(old)), *files)
            stop.set()
            sent = await asyncio.gather(*sending)
            await until(lambda: all(len(book) == sum(sent) for book in books.values()))
            assert books["a"] == books["b"] == books["c"]
            assert all(seen == [("a", "b", "c")] for seen in views.values())
            # c does not get the third key.
            old, new = ring.sealing, Key.new()
            added = ring.add(new)
            for each in (added, added.use(str(new)), added.use(str(new)).drop(str(old))):
                await give(each, "a", "b")
            await until(lambda: all(views[name][-1] == ("a", "b") for name in "ab"))
            await groups[0].send(b"without c")
            await until(lambda: all(books[name][-1] == b"without c" for name in "ab"))
            assert b"without c" not in books["c"]
            assert opened["a"].statistics()["refused_other_key"] > 0
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    run(main())
    collect([tmp_path / "spool"], tmp_path / "out", alive=())
    result = verify(read_trace(tmp_path / "out" / "trace").table)
    assert [violation.sentence for violation in result.violations] == []


def test_a_key_file_that_cannot_be_read_changes_nothing_and_is_told_once(tmp_path: Path, quickly: None) -> None:
    async def main() -> None:
        file = tmp_path / "k"
        ring = Keyring.new()
        ring.write(file, replace=False)
        async with Node(me="a", peers=addresses("a"), key=file) as node:
            source = node._keys.source
            assert source is not None
            file.write_text("nonsense\n")
            with pytest.warns(RuntimeWarning, match="goes on with the keys that it has: .* no key that could be used"):
                await until(lambda: node._keys.problem is not None)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for number in range(5):  # it is looked at again, and is no better
                    os.utime(file, (number, number))
                    await until(lambda seconds=number: source._seen[0] == seconds * 10**9)  # type: ignore[misc]
            with pytest.raises(UsageError, match="no key that could be used"):
                node.reload_key()
            assert node.key_ids == (str(ring.sealing),)
            later = ring.add(Key.new())
            later.write(file, replace=True)
            await until(lambda: len(node.key_ids) == 2)
            assert node.reload_key() is False
            with pytest.raises(UsageError, match="was not started with a Keyring"):
                node.use_keys(ring)
        async with Node(me="a", peers=addresses("a"), key=ring) as node:
            node.use_keys(later)
            assert len(node.key_ids) == 2
            with pytest.raises(UsageError, match="has no key file"):
                node.reload_key()

    run(main())


# --- an attacker on the network ---------------------------------------------------------------------------------------


class Tapped(UdpTransport):
    """A transport whose packets somebody records, who can also put packets on the network that seem to come from anywhere."""

    def __init__(self, address: Address, packet: int, recorded: list[tuple[Address, Address, bytes]]) -> None:
        super().__init__(address, packet=packet)
        self._recorded = recorded

    async def open(self, receive: Receive, turn_over: TurnOver) -> None:
        self.inject: Callable[[Address, bytes], None] = receive
        await super().open(receive, turn_over)

    def send(self, to: Sequence[Address], data: Data) -> None:
        self._recorded.extend((self.address, address, bytes(data)) for address in to)
        super().send(to, data)


def test_an_attacker_who_has_everything_changes_nothing(tmp_path: Path) -> None:
    recorded: list[tuple[Address, Address, bytes]] = []
    taps: dict[Address, Tapped] = {}

    def tapped(address: Address, packet: int) -> Tapped:
        taps[address] = Tapped(address, packet, recorded)
        return taps[address]

    def attack(random: Random) -> None:
        source, to, data = random.choice(recorded)
        kind = random.randrange(6)
        other = random.choice(recorded)[2]
        at = random.randrange(len(data))
        if kind == 1:
            to = random.choice(list(taps))
        elif kind == 2:
            source = random.choice([*taps, ("127.0.0.1", 9)])
        elif kind == 3:
            data = data[:at]
        elif kind == 4:
            data = data[:at] + bytes((data[at] ^ 1 << random.randrange(8),)) + data[at + 1 :]
        elif kind == 5:
            data = data[:at] + other[at:]
        if to in taps:
            taps[to].inject(source, data)

    async def main() -> None:
        options: dict[str, Any] = {"key": Keyring.new(), "transport": tapped, "trace": tmp_path / "spool", "run": "r"}
        async with members("a", "b", "c", **options) as groups:
            random, stop = Random(1), asyncio.Event()
            books: list[list[bytes]] = [[], [], []]
            reading = [asyncio.create_task(listen(group, book, [])) for group, book in zip(groups, books, strict=True)]
            sending = [asyncio.create_task(chatter(group, stop)) for group in groups]
            for _ in range(150):
                for _ in range(20):
                    attack(random)
                await asyncio.sleep(0.001)
            stop.set()
            sent = await asyncio.gather(*sending)
            await until(lambda: all(len(book) >= sum(sent) for book in books))
            assert books[0] == books[1] == books[2]
            assert sorted(books[0]) == sorted(
                f"{group.me} {number}".encode() for group, n in zip(groups, sent, strict=True) for number in range(n)
            )
            told = [node_of(group).statistics() for group in groups]
            for reason in ("replayed", "forged", "misdirected", "truncated", "other_key"):
                assert sum(each[f"refused_{reason}"] for each in told) > 0, reason
            assert all(each["peers"] == 2 and each["sessions"] == 3 for each in told)
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    run(main())
    collect([tmp_path / "spool"], tmp_path / "out", alive=())
    result = verify(read_trace(tmp_path / "out" / "trace").table)
    assert [violation.sentence for violation in result.violations] == []
    assert result.properties["identical"].cases


# --- noise ------------------------------------------------------------------------------------------------------------


NOISY = 700


def noise(random: Random) -> Iterator[tuple[Address, bytes]]:
    """Bytes of every kind that a stranger can make, from many addresses."""
    codec = Stamped(HELLO_PACKETS, b"evil")
    for number in range(NOISY):
        source = (f"127.6.{number % 250}.{1 + number % 200}", 1024 + number)
        name = f"stranger{number}"
        known = {f"friend{number}": Known(0, b"boot", "127.0.0.1", 9)}
        yield source, b""
        yield source, random.randbytes(random.randrange(1, 200))
        yield source, b"\xc1" + random.randbytes(300)
        yield source, b"\xc2" + random.randbytes(300)
        yield source, b"\xc3" + random.randbytes(100)
        yield source, bytes(codec.encode_frame(Hello(name, 0, b"evil", False, {}, known)))
        yield source, bytes(codec.encode_frame(Hello(name, 1 << 60, b"evil", False, {}, {})))
        yield source, bytes(codec.encode_frame(Hello(name * 100, 0, b"evil", False, {}, {})))
        yield source, bytes(codec.encode_frame(Hello("b", 0, b"else", False, {}, {})))
        yield source, bytes(codec.encode_frame(Hello("b", 0, b"evil", False, {}, {})))[:-3]


@pytest.mark.parametrize("key", [None, Keyring.new()], ids=["without a key", "with a key"])
def test_noise_is_counted_and_takes_no_memory(key: Keyring | None) -> None:
    sent: list[int] = []

    class Quiet(Tapped):
        """Packets to strangers go nowhere: they are counted."""

        def send(self, to: Sequence[Address], data: Data) -> None:
            strange = [address for address in to if address[0] != "127.0.0.1"]
            sent.append(len(strange))
            super().send([address for address in to if address not in strange], data)

    taps: list[Quiet] = []

    def tapped(address: Address, packet: int) -> Quiet:
        taps.append(Quiet(address, packet, []))
        return taps[-1]

    async def main() -> None:
        async with members("a", "b", key=key, transport=tapped) as (a, b):
            node = node_of(a)
            tracemalloc.start()
            try:
                grown = []
                for seed in range(3):
                    for source, data in noise(Random(seed)):
                        taps[0].inject(source, data)
                    taps[0]._recorded.clear()
                    taps[1]._recorded.clear()
                    await asyncio.sleep(0)
                    grown.append(tracemalloc.get_traced_memory()[0])
            finally:
                tracemalloc.stop()
            assert grown[2] - grown[1] < 100_000, grown
            await b.send(b"still here")
            (message,) = await read(a, 1)
            assert message.payload == b"still here"
            told = node.statistics()
            assert told["peers"] <= 1 + MOST_STRANGERS
            assert node._presence.name_at("b") == "b"
            assert a.members == ("a", "b")
            refused = {name.removeprefix("refused_"): count for name, count in told.items() if name.startswith("refused_")}
            assert sum(refused.values()) >= (2 if key is None else 3) * 9 * NOISY
            expected = (
                {"truncated", "noise", "sealed", "hello", "future", "damaged"}
                if key is None
                else {"truncated", "noise", "unsealed", "other_key"}
            )
            assert {name for name, count in refused.items() if count} >= expected
            if key is not None:
                assert told["sessions"] == 2
                assert sum(sent) == 0

    run(main())


def test_every_reason_and_every_bound_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    assert [reason for reason in Refusals().as_dict() if f"| `{reason}` |" not in page] == []
    bounds = re.findall(r"\| ([0-9]+) \| `(\w+)\.(\w+)` \|", page)
    assert len(bounds) > 20
    for number, module, constant in bounds:
        assert getattr(importlib.import_module(f"plainchant.live.{module}"), constant) == int(number), (module, constant)


def test_a_socket_that_is_flooded_by_a_stranger_serves_the_group() -> None:
    """The same over a real socket: a stranger without a key sends what it likes."""

    async def main() -> None:
        peers = addresses("a", "b")
        host, _, port = peers["a"].partition(":")
        async with members("a", "b", peers=peers, key=Keyring.new()) as (a, b):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                for _ in range(300):
                    stranger.sendto(os.urandom(64), (host, int(port)))
            await b.send(b"still here")
            (message,) = await read(a, 1)
            assert message.payload == b"still here"
            await until(lambda: node_of(a).statistics()["refused_noise"] > 0)

    run(main())
