"""``dedos`` between real processes: nodes with memory of their own, two networks, and every unit that can crash, verified."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from plainchant import Node, UsageError
from plainchant.lab.live import supervisor
from plainchant.lab.properties import verify
from plainchant.live.memory import server
from plainchant.live.memory.server import MailboxServer
from plainchant.live.ports import free_addresses
from plainchant.trace import read as read_trace
from plainchant.trace.collect import collect

from ..lab.live.test_live_scenarios import Started, assert_well, live, rows, scenario_of, started
from .endpoints import PATIENCE, run
from .test_api import payloads, read

__all__ = ["started"]

PATIENT: dict[str, Any] = {"misses": 50}
"""On a machine that is busy with other things nobody is taken for crashed."""


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Mailboxes of a test's own."""
    directory = tmp_path / "shared"
    directory.mkdir()
    monkeypatch.setattr(server, "SHARED", directory)
    return directory


@pytest.mark.parametrize("parameters", [{}, {"lans": 2}, {"reach": "node"}], ids=str)
def test_members_on_nodes_deliver_one_order(parameters: dict[str, Any], shared: Path, tmp_path: Path) -> None:
    names = ("n1.a", "n1.b", "n2.a") if "reach" not in parameters else ("n1.a", "n1.b", "n1.c")

    async def main() -> None:
        addresses = list(free_addresses(range(6)).values())
        peers = dict(zip(names, addresses[:3], strict=True))
        backup = dict(zip(names, addresses[3:], strict=True)) if "lans" in parameters else {}
        async with AsyncExitStack() as stack, asyncio.timeout(2 * PATIENCE):
            joins = []
            for name in names:
                node = Node(
                    protocol="dedos",
                    me=name,
                    peers=peers,
                    backup=backup,
                    parameters={**PATIENT, **parameters},
                    trace=tmp_path / "spools",
                    run="r",
                )
                await stack.enter_async_context(node)
                joins.append(stack.enter_async_context(node.join("g")))
            groups = await asyncio.gather(*joins)
            for group in groups:
                await group.send_many([f"{group.me} {number}".encode() for number in range(20)])
            await groups[1].send(bytes(20_000))
            found = await asyncio.gather(*(read(group, 61) for group in groups))
            assert payloads(found[0]) == payloads(found[1]) == payloads(found[2])

    run(main())
    assert list(shared.iterdir()) == []
    collect([tmp_path / "spools"], tmp_path, alive=())
    result = verify(read_trace(tmp_path / "trace").table)
    assert [violation.sentence for violation in result.violations] == []
    assert result.properties["identical"].cases
    assert rows(tmp_path, kind="crash") == []


FAULTS = """
protocol = "dedos"
members = ["n1.a", "n1.b", "n1.s", "n2.c1.a", "n2.c1.b", "n2.c2.a", "n3.a"]
duration = "3500ms"
drain = "60s"

[groups]
g = ["n1.a", "n1.b", "n2.c1.a", "n2.c1.b", "n2.c2.a", "n3.a"]

[parameters]
lans = 2
misses = 35
present_every = "100ms"
delta = "50ms"
silence = "3s"

[[workload]]
rate = 10

[[fault]]
kind = "module"
node = "n1"
module = 1
at = "100ms"

[[fault]]
kind = "sluggish"
process = "n1.b"
at = "200ms"
length = "200ms"

[[fault]]
kind = "lan"
lan = 1
at = "400ms"
length = "500ms"

[[fault]]
kind = "processor"
processor = "n2.c1"
at = "600ms"

[[fault]]
kind = "node"
node = "n3"
at = "1s"

[[fault]]
kind = "restart"
process = "n3.a"
at = "3s"
"""


def test_modules_processors_nodes_and_networks_crash_for_real(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers: list[MailboxServer] = []

    class Noted(MailboxServer):
        def __init__(self, namespace: str) -> None:
            super().__init__(namespace)
            servers.append(self)

    monkeypatch.setattr(supervisor, "MailboxServer", Noted)
    result = live(scenario_of(FAULTS), tmp_path / "run", given=("present_every", "delta"))
    started.assert_gone()
    assert_well(result)
    assert [server.namespace.rpartition(" ")[2] for server in servers] == ["n1", "n2", "n3"]
    assert [server.names() for server in servers] == [[], [], []]
    states = {name: (end.state, end.reason) for name, end in result.summary.processes.items()}
    assert states["n2.c1.a"] == states["n2.c1.b"] == ("crashed", "with processor n2.c1")
    assert states["n3.a"] == ("crashed", "with node n3")
    halted = [reason for state, reason in states.values() if state == "halted"]
    if halted:
        assert all("it was taken for crashed" in reason for reason in halted), halted
        return  # the machine was busy for so long that nodes missed each other
    assert {states[name][0] for name in ("n1.a", "n1.b", "n1.s", "n2.c2.a", "n3.a#1")} == {"alive"}
    faults: dict[str, set[str]] = {}
    for row in rows(tmp_path / "run", kind="fault"):
        faults.setdefault(json.loads(row["detail"])["fault"], set()).add(row["process"])
    faults.pop("calm")  # when the networks were whole again
    assert faults == {
        "module": {"n1.a", "n1.b", "n1.s"},
        "sluggish": {"n1.b"},
        "lan": {"n1.a"},
        "processor": {"n2.c1.a", "n2.c1.b"},
        "node": {"n3.a"},
        "restart": {"n3.a#1"},
    }
    assert [row["group"] for row in rows(tmp_path / "run", kind="join", process="n3.a#1")] == ["g"]
    assert result.summary.packets_lost > 0


STOPPED = """
protocol = "dedos"
members = ["n1.a", "n1.b", "n2.a", "n2.b", "n2.c"]
duration = "18s"
drain = "60s"

[[workload]]
rate = 20

[[fault]]
kind = "pause"
process = "{stopped}"
at = "2s"
length = "10s"

[random]
restart_halted = 1.0
restart_after = "100ms"
"""


@pytest.mark.parametrize("stopped", ["n2.a", "n2.b"], ids=["a relay", "a member"])
def test_a_process_that_is_stopped_for_ten_seconds_holds_up_no_other_and_comes_back(
    stopped: str, tmp_path: Path, started: Started
) -> None:
    """The processes that join first relay: n2.a is the relay of n2, or has the same chance as the others of n2."""
    result = live(scenario_of(STOPPED.format(stopped=stopped)), tmp_path / "run")
    started.assert_gone()
    assert_well(result)  # progress is verified: the others wait no longer than the protocol states
    states = {name: (end.state, end.reason) for name, end in result.summary.processes.items()}
    state, reason = states.pop(stopped)
    assert state == "halted"
    assert "its node has gone on without it" in reason
    assert {state for state, _ in states.values()} == {"alive"}, states
    assert f"{stopped}#1" in states
    suspicions = [(row["process"], json.loads(row["detail"])["process"]) for row in rows(tmp_path / "run", kind="suspect")]
    assert suspicions
    assert set(suspicions) <= {(name, stopped) for name in {"n2.a", "n2.b", "n2.c"} - {stopped}}
    assert rows(tmp_path / "run", kind="deliver", process=f"{stopped}#1")


@pytest.mark.parametrize("parameters", [{}, {"reach": "node"}], ids=["between nodes", "within a node"])
def test_roles_are_chosen_by_group_when_a_process_joins(parameters: dict[str, Any], shared: Path) -> None:
    """n1.s only sends in g, n1.b only receives there, and in h both do everything. Their views agree."""
    names = ("n1.a", "n1.b", "n1.s") if parameters else ("n1.a", "n2.b", "n1.s")
    receiving = names[1]

    async def main() -> None:
        peers = dict(zip(names, free_addresses(range(3)).values(), strict=True))
        async with AsyncExitStack() as stack, asyncio.timeout(2 * PATIENCE):
            joins = []
            for name in names:
                node = await stack.enter_async_context(
                    Node(protocol="dedos", me=name, peers=peers, parameters={**PATIENT, **parameters})
                )
                role = {"n1.s": "sends", receiving: "receives"}.get(name, "both")
                joins += [stack.enter_async_context(node.join("g", role=role)), stack.enter_async_context(node.join("h"))]
            groups = await asyncio.gather(*joins)
            sender, reader = groups[4], groups[2]
            with pytest.raises(UsageError, match="to receive only"):
                await reader.send(b"no")
            await sender.send(b"from outside")
            await groups[5].send(b"from inside")
            for group, text in ((groups[0], b"from outside"), (reader, b"from outside"), (groups[1], b"from inside")):
                assert payloads(await read(group, 1)) == [text]
            assert set(sender.members) == set(groups[0].members) == {names[0], receiving}
            assert set(groups[5].members) == set(names)

    run(main())
    assert list(shared.iterdir()) == []


def test_a_role_is_refused_where_every_member_sends_and_receives() -> None:
    node = Node(protocol="sequencer", me="a", peers={"a": "127.0.0.1:7999"})
    with pytest.raises(UsageError, match="leave role out"):
        node.join("g", role="sends")
