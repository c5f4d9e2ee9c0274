"""``newtop`` between real sockets on loopback: every transport and order, overlapping groups on one node, verified traces."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from plainchant import Group, Lost, Message, Node
from plainchant.cli.live import execute, given_parameters
from plainchant.core.engine import Engine
from plainchant.core.model import MS, Duration, Packet, Timer
from plainchant.core.wire import Stamped
from plainchant.lab.live.faulty import FaultyTransport
from plainchant.lab.properties import Verification, verify
from plainchant.live.config import parse_config
from plainchant.live.host import LiveHost
from plainchant.live.transport import Address, Counters, Data, Limits
from plainchant.live.udp import UdpTransport
from plainchant.protocols.newtop import Parameters
from plainchant.protocols.newtop.packets import PACKETS, Emit
from plainchant.protocols.newtop.tuning import LEAST_BLOCKS, MOST_BLOCKS, tune
from plainchant.protocols.registry import Surroundings
from plainchant.scenario import load, shipped
from plainchant.scenario.model import Delay, Network
from plainchant.trace import read as read_trace
from plainchant.trace.collect import collect

from ..cli.test_node import Running
from .test_api import addresses, members, payloads, read, run

RING = {"red": ("a", "b"), "green": ("b", "c"), "blue": ("c", "a")}
STATIC = {"suspect_after": "0s"}
"""Members stay to the end, so that everything may be asked of them; for groups that change see ``test_newtop_changes``."""
LONGEST = 50
"""Bytes that a name may have."""


def lossy(loss: float, *, duplicate: float = 0.0) -> Any:
    """A transport for ``join`` that loses packets by a seed; what is lost where differs by place."""

    def make(address: Address, packet: int) -> FaultyTransport:
        rules = Network(delay=Delay(low=Duration(0)), loss=loss, duplicate=duplicate)
        return FaultyTransport(UdpTransport(address, packet=packet), rules, Random(address[1]), me="", names={})

    return make


class Nodes:
    """One node a place, each in all of its groups, all in this process."""

    def __init__(self, groups: Mapping[str, Sequence[str]], **options: Any) -> None:
        places = tuple(dict.fromkeys(place for members in groups.values() for place in members))
        self.groups = groups
        peers = addresses(*places)
        options["parameters"] = {**STATIC, **options.get("parameters", {})}
        self.nodes = {place: Node(protocol="newtop", me=place, peers=peers, groups=groups, **options) for place in places}
        self.entered: dict[tuple[str, str], Group] = {}

    async def __aenter__(self) -> Nodes:
        for node in self.nodes.values():
            await node.open()
        await asyncio.gather(*(self._enter(place, group) for group, members in self.groups.items() for place in members))
        return self

    async def _enter(self, place: str, group: str) -> None:
        self.entered[place, group] = await self.nodes[place].enter(group, tuple(self.groups[group]), 30.0)

    async def __aexit__(self, *exception: object) -> None:
        for node in self.nodes.values():
            await node.close()

    async def end(self) -> None:
        """Everybody is done: the groups rest, and the run is judged in full."""
        await asyncio.gather(*(group.finish() for group in self.entered.values()))
        for node in self.nodes.values():
            await node.close(drained=True)


async def talk(nodes: Nodes, each: int) -> dict[tuple[str, str], list[Message]]:
    """Every member sends in each of its groups, one message a turn of the loop; what each of them read."""

    async def say(place: str, group: str) -> None:
        for number in range(each):
            await nodes.entered[place, group].send(f"{place}/{group}/{number}".encode())
            await asyncio.sleep(0)

    async def hear(place: str, group: str) -> list[Message]:
        return await read(nodes.entered[place, group], each * len(nodes.groups[group]))

    keys = list(nodes.entered)
    found, _ = await asyncio.gather(asyncio.gather(*(hear(*key) for key in keys)), asyncio.gather(*(say(*key) for key in keys)))
    return dict(zip(keys, found, strict=True))


def verified(spool: Path, out: Path) -> Verification:
    """What the collected spools of a run come to."""
    collect([spool], out, alive=())
    return verify(read_trace(out / "trace").table)


def assert_holds(result: Verification, *names: str) -> None:
    assert [violation.sentence for violation in result.violations] == []
    assert set(result.properties) == set(names)
    assert all(outcome.cases for name, outcome in result.properties.items() if name != "prompt"), result.properties


CAUSAL = ("integrity", "fifo", "causal", "self-delivery", "validity", "agreement")
TOTAL = (*CAUSAL, "identical", "total", "acyclic")


# --- one group ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_members_deliver_one_order(transport: str) -> None:
    async def main() -> None:
        async with members("a", "b", "c", protocol="newtop", transport=transport, parameters={}) as groups:
            for group in groups:
                assert group.members == ("a", "b", "c")
                assert "identical" in group.guarantees
                await group.send_many([f"{group.me}{number}".encode() for number in range(50)])
            found = [payloads(await read(group, 150)) for group in groups]
            assert found[0] == found[1] == found[2]
            assert sorted(found[0]) == sorted(f"{name}{number}".encode() for name in "abc" for number in range(50))

    run(main())


def test_a_message_of_an_otherwise_idle_group_is_delivered_and_becomes_stable() -> None:
    async def main() -> None:
        async with members("a", "b", "c", protocol="newtop", parameters={}) as (a, _, _):
            receipt = await a.send(b"alone")
            await receipt.delivered()
            await receipt.stable()
            assert a.metrics()["own_stable"] == 1

    run(main())


def test_in_a_causal_order_nobody_learns_when_everybody_has_a_message_and_is_told_so() -> None:
    async def main() -> None:
        async with members("a", "b", protocol="newtop", parameters={"order": "fast"}) as (a, _):
            receipt = await a.send(b"who has it?")
            await receipt.delivered()
            with pytest.raises(Lost):
                await receipt.stable()

    run(main())


def test_large_messages_travel_in_parts() -> None:
    async def main() -> None:
        large = bytes(range(256)) * 800
        async with members("a", "b", protocol="newtop", packet=1_400, parameters={}) as (a, b):
            await asyncio.gather(a.send(large), b.send(b"between"))
            found = [payloads(await read(group, 2)) for group in (a, b)]
            assert found[0] == found[1]
            assert sorted(found[0]) == [large, b"between"]

    run(main())


def test_who_does_not_read_slows_its_senders_down_and_loses_nothing() -> None:
    async def main() -> None:
        options: dict[str, Any] = {"packet": 1_400, "unread": 4_096, "outgoing": 4_096, "parameters": {"blocks": 8}}
        async with members("a", "b", protocol="newtop", **options) as (a, b):
            hearing = asyncio.create_task(_count(a))
            accepted = refused = 0
            while refused < 50:  # b does not read
                if a.try_send(bytes(100)) is not None:
                    accepted += 1
                    refused = 0
                else:
                    refused += 1
                    await asyncio.sleep(0.002)
                assert accepted < 10_000, "nothing holds a back"
            assert a.waiting() is not None
            assert len(await read(b, accepted)) == accepted
            await a.send(b"again")
            assert (await read(b, 1))[0].payload == b"again"
            hearing.cancel()

    run(main())


async def _count(group: Group) -> None:
    async for _ in group:
        pass


def test_full_packets_with_the_longest_names_are_sent_again_where_they_are_lost() -> None:
    """Fields and names come on top of the messages, once more where a packet is sent again: all of it fits."""

    async def main() -> None:
        names = ["a" * LONGEST, "b" * LONGEST]
        options: dict[str, Any] = {"group": "g" * LONGEST, "packet": 65_507, "transport": lossy(0.2)}
        async with members(*names, protocol="newtop", parameters={}, **options) as groups:
            for group in groups:
                await group.send_many([bytes(1_000)] * 1_000)
            for group in groups:
                assert len(await read(group, 2_000)) == 2_000

    run(main())


def test_vectors_of_many_groups_fit_beside_messages() -> None:
    async def main() -> None:
        groups = {f"group-{number:02}-{'x' * 30}": ("a", "b") for number in range(20)}
        async with Nodes(groups, parameters={"order": "fast"}, packet=1_400) as nodes:
            largest = max(len(data) for data in await _watched(nodes))
            assert largest <= 1_400

    async def _watched(nodes: Nodes) -> list[bytes]:
        seen: list[bytes] = []
        for node in nodes.nodes.values():
            send = node._transport.send

            def watching(to: Sequence[Address], data: Data, send: Any = send) -> None:
                seen.append(bytes(data))
                send(to, data)

            node._transport.send = watching  # type: ignore[method-assign]
        for group in nodes.entered.values():
            await group.send_many([bytes(40)] * 100)
        for group in nodes.entered.values():
            await read(group, 200)
        return seen

    run(main())


# --- overlapping groups ---------------------------------------------------------------------------------------------


def test_groups_that_overlap_in_a_ring_have_one_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with Nodes(RING, trace=tmp_path / "spool", transport=lossy(0.05, duplicate=0.05)) as nodes:
            found = await talk(nodes, 20)
            for group, (one, other) in RING.items():
                assert payloads(found[one, group]) == payloads(found[other, group])
            await nodes.end()

    run(main())
    assert_holds(verified(tmp_path / "spool", tmp_path / "out"), *TOTAL)


@pytest.mark.parametrize("parameters", [{}, {"sequencers": {"blue": "c"}}, {"order": "slow"}], ids=["total", "sequencer", "slow"])
def test_a_group_may_begin_when_others_have_got_far(parameters: dict[str, Any], tmp_path: Path) -> None:
    async def main() -> None:
        nodes = Nodes(RING, trace=tmp_path / "spool", parameters=parameters)
        nodes.groups = {"red": RING["red"]}
        async with nodes:
            assert len((await talk(nodes, 30))["a", "red"]) == 60
            nodes.groups = RING
            late = [("b", "green"), ("c", "green"), ("c", "blue"), ("a", "blue")]
            await asyncio.gather(*(nodes._enter(*each) for each in late))
            assert len((await talk(nodes, 10))["a", "blue"]) == 20
            await nodes.end()

    run(main())
    result = verified(tmp_path / "spool", tmp_path / "out")
    assert_holds(result, *(CAUSAL if "order" in parameters else TOTAL))


@pytest.mark.parametrize(
    ("parameters", "promised"),
    [
        pytest.param({"order": "slow"}, CAUSAL, id="slow"),
        pytest.param({"order": "fast"}, (*CAUSAL, "prompt"), id="fast"),
        pytest.param({"order": "fast", "vectors": "compact"}, CAUSAL, id="compact"),
        pytest.param({"order": "relative"}, CAUSAL, id="relative"),
        pytest.param({"order": "cbcast"}, (*CAUSAL, "prompt"), id="cbcast"),
        pytest.param({"orders": {"green": "fast", "blue": "relative"}}, CAUSAL, id="mixed"),
        pytest.param({"sequencers": {"red": "a"}}, TOTAL, id="asymmetric"),
    ],
)
def test_every_order_runs_live(parameters: dict[str, Any], promised: tuple[str, ...], tmp_path: Path) -> None:
    async def main() -> None:
        async with Nodes(RING, trace=tmp_path / "spool", parameters=parameters, transport=lossy(0.03)) as nodes:
            found = await talk(nodes, 10)
            for group, (one, other) in RING.items():
                assert sorted(payloads(found[one, group])) == sorted(payloads(found[other, group]))
            await nodes.end()

    run(main())
    assert_holds(verified(tmp_path / "spool", tmp_path / "out"), *promised)


# --- processes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["newtop-asymmetric", "newtop-causal", "newtop-overlapping"])
def test_a_shipped_scenario_runs_live(name: str, tmp_path: Path) -> None:
    path = shipped()[name]
    options = ("duration=200ms",)
    scenario = load(path, options)
    result = execute(
        scenario, tmp_path, verify_it=True, options={"drain_at_most": 60_000 * MS, "given": given_parameters(path, options)}
    )
    assert result.summary.unexpected == {}
    assert result.summary.quiet, result.summary.not_quiet
    assert result.verification is not None
    assert [violation.sentence for violation in result.verification.violations] == []
    assert result.passes
    assert result.collected.events["deliver"] > 0


def test_a_configuration_makes_nodes(tmp_path: Path) -> None:
    peers = "".join(f'{name} = "{address}"\n' for name, address in addresses("a", "b").items())
    text = 'protocol = "newtop"\ngroup = "news"\n[parameters.orders]\nnews = "relative"\n[peers]\n' + peers
    config = tmp_path / "news.toml"
    config.write_text(text)
    assert parse_config(text, overrides=["me=a"]).parameters == {"orders": {"news": "relative"}}
    running: list[Running] = []
    try:
        running += [Running(config, "--me", name, "--json") for name in "ab"]
        for each in running:
            each.view("a", "b")
        running[0].say({"send": "hello"})
        for each in running:
            each.until(lambda event: event["event"] == "message")
        for each in running:
            each.process.send_signal(signal.SIGTERM)
        for each in running:
            assert each.rest()[-1]["event"] == "end"
            each.ends(0)
    finally:
        for each in running:
            each.stop()


# --- parameters -----------------------------------------------------------------------------------------------------


def surroundings(**changes: Any) -> Surroundings:
    return Surroundings(**{"members": 3, "packet": 1_400, "buffer": 4 << 20, "live": True, **changes})


def test_windows_fit_into_the_buffers() -> None:
    for packet in (1_400, 9_000, 65_507):
        fitted = tune(Parameters(), surroundings(packet=packet))
        assert LEAST_BLOCKS <= fitted.blocks <= MOST_BLOCKS
    assert tune(Parameters(), surroundings(packet=65_507)).blocks < tune(Parameters(), surroundings()).blocks
    assert tune(Parameters(), surroundings(members=20)).blocks < tune(Parameters(), surroundings()).blocks
    assert tune(Parameters(blocks=5), surroundings(given=frozenset({"blocks"}))).blocks == 5


def test_times_fit_to_a_machine_that_is_shared_and_to_those_that_are_given() -> None:
    live = tune(Parameters(), surroundings())
    assert live.probe_after > Parameters().probe_after
    assert live.silence < Parameters().silence
    assert tune(Parameters(), surroundings(live=False)).silence == Parameters().silence
    given = {
        "silence_by": "timeout",
        "silence": Duration(700 * MS),
        "probe_after": Duration(800 * MS),
        "suspect_after": Duration(0),
    }
    fixed = frozenset({"silence_by", "silence", "suspect_after"})
    thesis = tune(Parameters(**given), surroundings(given=fixed))  # type: ignore[arg-type]
    assert thesis.silence == 700 * MS
    assert thesis.probe_after > thesis.silence


# --- the host: timers that are due already --------------------------------------------------------------------------


class Quiet:
    """A transport that only counts."""

    def __init__(self) -> None:
        self.limits = Limits(1_400, 0)
        self.address = ("127.0.0.1", 1)
        self.counters = Counters()

    async def open(self, receive: Any, turn_over: Any) -> None:
        raise AssertionError("nobody opens it")

    def send(self, to: Sequence[Address], data: Data) -> None:
        self.counters.sent += 1

    def catch_up(self) -> bool:
        return False

    async def close(self) -> None:
        raise AssertionError("nobody closes it")


class Punctual(Engine):
    """Sets a timer for now with every packet, and once more when it expires."""

    def __init__(self, host: LiveHost) -> None:
        self.host = host
        self.heard: list[str] = []
        self.again = True
        self.over = asyncio.Event()

    def receive(self, source: str, packet: Packet) -> None:
        self.heard.append("packet")
        self.host.set_timer(("now",), self.host.now)

    def expire(self, timer: Timer) -> None:
        self.heard.append(timer[0])
        if timer == ("now",) and self.again:
            self.host.set_timer(("later",), self.host.now)
        else:
            self.over.set()


def test_timers_for_now_expire_at_the_end_of_the_turn_once_for_all_its_packets() -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            host = LiveHost(Quiet(), Stamped(PACKETS, b"boot"), random=Random(0))
            stack.callback(host.close)
            made: list[Punctual] = []
            host.begin("a", lambda inner: made.append(Punctual(inner)) or made[0], None)  # type: ignore[func-returns-value]
            engine = made[0]
            for _ in range(3):
                host.turn(engine.receive, "b", Emit("g", 1))
            assert engine.heard == ["packet"] * 3
            host.turn_over()
            assert engine.heard == ["packet"] * 3 + ["now"], "what is set for now at the end of a turn waits for the loop"
            await engine.over.wait()
            assert engine.heard[-1] == "later"
            host.turn(engine.receive, "b", Emit("g", 1))
            host.turn(host.cancel_timer, ("now",))
            host.turn_over()
            assert engine.heard[-1] == "packet"

    run(main())
