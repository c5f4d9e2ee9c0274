"""Processes on nodes: each node has its own memory, and who is in no group takes part all the same."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from plainchant import Node
from plainchant.core.engine import Engine, Host
from plainchant.core.model import MS, Packet, ProcessId, Reason, UsageError
from plainchant.live.memory import server
from plainchant.live.memory.server import mailboxes, namespace_of
from plainchant.live.ports import free_addresses
from plainchant.protocols.registry import Description, Placement
from plainchant.trace import read
from plainchant.trace.collect import collect

from .board import BOARD
from .endpoints import PATIENCE, run, until


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Mailboxes of a test's own."""
    directory = tmp_path / "shared"
    directory.mkdir()
    monkeypatch.setattr(server, "SHARED", directory)
    return directory


def node_of(parameters: Any, process: ProcessId) -> str:
    return process.partition(".")[0]


BOARDS = dataclasses.replace(BOARD, placement=dataclasses.replace(BOARD.placement, node_of=node_of))
"""A board on each node."""


def test_processes_of_a_node_share_its_memory_and_see_each_other_die(shared: Path, tmp_path: Path) -> None:
    async def main() -> None:
        peers = free_addresses(["n1.a", "n1.b", "n2.a", "n2.b"])
        nodes = [Node(me=name, peers=peers, description=BOARDS, memory="m", trace=tmp_path / "spools", run="r") for name in peers]
        try:
            for node in nodes:
                await node.open()
            # Both nodes have a group of that name for themselves: nobody else is asked for.
            entered = [
                nodes[at].enter(group, members, PATIENCE)
                for at, group, members in (
                    (0, "g", ("n1.a", "n1.b")),
                    (1, "g", ("n1.a", "n1.b")),
                    (2, "h", ("n2.a", "n2.b")),
                    (3, "h", ("n2.a", "n2.b")),
                )
            ]
            await asyncio.gather(*entered)
            found = {found.register.namespace: found.alive for found in mailboxes()}
            assert {name: sorted(alive) for name, alive in found.items()} == {
                namespace_of("m", "n1"): ["n1.a", "n1.b"],
                namespace_of("m", "n2"): ["n2.a", "n2.b"],
            }
            boards: list[Any] = [node.host.engine for node in nodes]
            await nodes[1].close()
            await until(lambda: boards[0].inner.failed == ["n1.b"])
            memory = nodes[2].host.memory
            assert memory is not None
            memory.look()
            assert boards[2].inner.failed == boards[3].inner.failed == []
        finally:
            for node in nodes:
                await node.close()

    run(main())
    assert list(shared.iterdir()) == []
    collect([tmp_path / "spools"], tmp_path, alive=())
    table = read(tmp_path / "trace").table
    assert sorted(set(table.column("process").to_pylist())) == ["n1.a", "n1.b", "n2.a", "n2.b"]


def test_a_node_is_on_one_machine_and_the_others_may_be_elsewhere() -> None:
    async def main() -> None:
        peers = {**free_addresses(["n1.a"]), "n1.b": ("192.0.2.1", 7001), "n2.a": ("192.0.2.2", 7001)}
        with pytest.raises(UsageError, match=r"processes of node n1 are elsewhere: n1\.b at 192\.0\.2\.1:7001; name them"):
            async with Node(me="n1.a", peers=peers, description=BOARDS):
                pytest.fail("it is open")
        del peers["n1.b"]
        async with Node(me="n1.a", peers=peers, description=BOARDS) as node:
            assert node.name == "n1.a"

    run(main())


# --- who is in no group ---------------------------------------------------------------------------------------------------


class Servant(Engine):
    """Says that it is there, to whoever is known, and halts when it hears from two others."""

    def __init__(self, host: Host, parameters: Any) -> None:
        self.host = host
        self.heard: set[ProcessId] = set()

    def start(self) -> None:
        self.expire("again")

    def expire(self, timer: Any) -> None:
        self.host.send(("a", "b", "c"), Ping())
        self.host.set_timer("again", self.host.now + 5 * MS)

    def receive(self, source: ProcessId, packet: Packet) -> None:
        if source != self.host.me:
            self.heard.add(source)
        if self.host.me == "a" and len(self.heard) == 2:
            self.host.halt(Reason("done", f"a has heard {' and '.join(sorted(self.heard))}"))


class Ping(Packet, frozen=True, array_like=True, gc=False, tag=1):
    pass


SERVANTS = Description(
    name="servants",
    about="a toy",
    parameters=type(BOARD.parameters()),
    packets=(Ping,),
    make=Servant,
    promises=lambda parameters, groups: (),
    faults=(),
    settle=lambda parameters: 0,
    placement=Placement(idle=True),
)


def test_who_is_in_no_group_serves_until_it_is_halted(tmp_path: Path) -> None:
    async def main() -> None:
        peers = free_addresses(["a", "b", "c"])
        nodes = [
            Node(me=name, peers=peers, groups={}, description=SERVANTS, trace=tmp_path / "spools", run="r") for name in peers
        ]
        try:
            for node in nodes:
                await node.open()
            await asyncio.gather(*(node.serve() for node in nodes))
            async with asyncio.timeout(PATIENCE):
                reason = await nodes[0].halted()
            assert reason.text == "a has heard b and c"
            assert [node.host.alive for node in nodes] == [False, True, True]
        finally:
            for node in nodes:
                await node.close()

    run(main())
    collect([tmp_path / "spools"], tmp_path, alive=())
    rows = read(tmp_path / "trace").table.to_pylist()
    ends = {row["process"]: row["kind"] for row in rows if row["kind"] in ("crash", "end")}
    assert ends == {"a": "crash", "b": "end", "c": "end"}


def test_where_nobody_serves_that_is_refused() -> None:
    async def main() -> None:
        async with Node(me="a", peers=free_addresses(["a"]), description=BOARD) as node:
            with pytest.raises(UsageError, match="has nothing to do; join one"):
                await node.serve()
        with pytest.raises(UsageError, match="is not open"):
            await Node(me="a", peers=free_addresses(["a"]), description=SERVANTS).serve()

    run(main())
