"""Live groups that do not change, and parameters by group that all members have to agree on: real sockets on loopback."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import plainchant
from plainchant import Group, JoinTimeout, LeaveTimeout, Node, UsageError
from plainchant.cli.live import execute
from plainchant.core.model import MS, ScenarioError
from plainchant.live.config import parse_config
from plainchant.live.joining import Joining
from plainchant.protocols import registry
from plainchant.scenario import parse
from plainchant.trace import read as read_trace
from plainchant.trace.collect import collect

from ..cli.test_node import Running
from ..fixed import PLAINSONG
from .test_api import addresses, payloads, read, run

ROOT = Path(__file__).resolve().parents[2]
PEERS = {"a": "127.0.0.1:7001", "b": "127.0.0.1:7002"}
"""For what never opens a socket."""


@pytest.fixture(autouse=True)
def _plainsong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The protocol, here and in the processes that are started."""
    monkeypatch.setattr(registry, "protocols", lambda: {"plainsong": PLAINSONG})
    (tmp_path / "sitecustomize.py").write_text(
        "from plainchant.protocols import registry\n"
        "from tests.fixed import PLAINSONG\n"
        "registry.protocols = lambda: {'plainsong': PLAINSONG}\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}:{ROOT / 'src'}")


def joining(peers: Mapping[str, str], me: str, group: str = "g", **options: Any) -> Joining:
    return plainchant.join(group, me=me, peers=peers, protocol="plainsong", **options)


def kinds(directory: Path, spool: Path) -> dict[str, list[str]]:
    """The kinds of each process's rows, as they were recorded."""
    collect([spool], directory, alive=())
    found: dict[str, list[str]] = {}
    for row in read_trace(directory / "trace").table.to_pylist():
        found.setdefault(row["process"], []).append(row["kind"])
    return found


# --- beginning and ending -------------------------------------------------------------------------------------------


def test_a_membership_ends_when_the_group_is_at_rest(tmp_path: Path) -> None:
    async def member(peers: Mapping[str, str], me: str) -> list[bytes]:
        async with joining(peers, me, trace=tmp_path / "spool", parameters={"moods": {"g": "hasty"}}) as group:
            assert group.formed
            assert not group.changes
            await group.send(me.encode())
            return payloads(await read(group, 3))

    async def main() -> None:
        peers = addresses("a", "b", "c")
        found = await asyncio.gather(*(member(peers, me) for me in peers))
        assert [sorted(each) for each in found] == [[b"a", b"b", b"c"]] * 3

    run(main())
    for history in kinds(tmp_path / "out", tmp_path / "spool").values():
        assert history.count("deliver") == 3
        assert history[-1] == "end"
        assert {"leave", "crash"}.isdisjoint(history)


def test_what_was_accepted_at_the_last_moment_is_sent_all_the_same() -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            peers = addresses("a", "b")
            first = joining(peers, "a")
            b_entering = stack.enter_async_context(joining(peers, "b"))
            a, b = await asyncio.gather(first.__aenter__(), b_entering)
            await a.send_many([b"%d" % number for number in range(100)])
            await first.__aexit__(None, None, None)
            assert len(await read(b, 100)) == 100

    run(main())


def test_who_is_gone_cannot_come_back_while_others_run() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        async with Node(protocol="plainsong", me="b", peers=peers) as b:
            a = Node(protocol="plainsong", me="a", peers=peers)
            await a.open()
            entered = await asyncio.gather(_enter(a), _enter(b))
            assert [group.members for group in entered] == [("a", "b")] * 2
            await a.close()
            with pytest.raises(UsageError, match=r"group 'g' runs already \(b\), and groups of plainsong do not change; end all"):
                async with joining(peers, "a"):
                    raise AssertionError("a was let in")

    run(main())


async def _enter(one: Node, name: str = "g", first: Sequence[str] = ("a", "b")) -> Group:
    return await one.enter(name, tuple(first), 30.0)


def test_who_is_not_among_the_first_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match=r"b is not among the members of 'g' \(a\), and groups of plainsong do not change"):
        joining(PEERS, "b", members=["a"])


def test_nobody_leaves_and_a_node_stays_in_its_groups_until_it_is_closed() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        async with Node(protocol="plainsong", me="a", peers=peers) as a, Node(protocol="plainsong", me="b", peers=peers) as b:
            other = asyncio.create_task(_enter(b))
            async with a.join("g") as group:
                with pytest.raises(UsageError, match="a cannot leave g"):
                    await group.leave()
            theirs = await other
            with pytest.raises(UsageError, match="a is in 'g' already; its members do not change, so it stays there"):
                await _enter(a)
            receipt = await theirs.send(b"are you there?")
            await receipt.delivered()
            await theirs.finish()  # a still answers, though nobody reads there

    run(main())


def test_who_ends_while_there_is_something_to_do_is_told_so() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        membership = joining(peers, "a", leave_timeout=0.5)
        async with Node(protocol="plainsong", me="b", peers=peers) as b:
            group, _ = await asyncio.gather(membership.__aenter__(), _enter(b))
        await group.send(b"nobody answers")
        with pytest.raises(LeaveTimeout, match=r"a ended its part in g, which was not at rest in 0\.5 s \(1 answers are missing"):
            await membership.__aexit__(None, None, None)

    run(main())


# --- which groups there are -------------------------------------------------------------------------------------------


def test_groups_that_overlap_are_entered_with_the_members_that_the_node_was_told() -> None:
    async def main() -> None:
        peers = addresses("a", "b", "c")
        groups = {"red": ["a", "b"], "blue": ["b", "c"]}

        async def views(me: str) -> dict[str, tuple[str, ...]]:
            names = [name for name, members in groups.items() if me in members]
            async with Node(protocol="plainsong", me=me, peers=peers, groups=groups) as node, AsyncExitStack() as stack:
                entered = [await stack.enter_async_context(node.join(name)) for name in names]
                return {group.name: group.members for group in entered}

        red, blue = {"red": ("a", "b")}, {"blue": ("b", "c")}
        assert await asyncio.gather(*map(views, peers)) == [red, red | blue, blue]

    run(main())


def test_members_may_be_said_again_but_not_otherwise() -> None:
    node = Node(protocol="plainsong", me="a", peers=PEERS, groups={"g": ["a", "b"], "alone": ["a"]})
    node.join("g", members=["b", "a"])
    node.join("alone")
    with pytest.raises(UsageError, match="members of 'alone' are a, b, and a in the groups of this node; make both the same"):
        node.join("alone", members=["a", "b"])
    with pytest.raises(UsageError, match=r"group 'h' is not in the groups of this node \(g, alone\); add it there"):
        node.join("h")
    with pytest.raises(UsageError, match=r"group 'h' is not in the groups of this node \(none\)"):
        Node(protocol="plainsong", me="a", peers=PEERS, groups={}).join("h", members=["a"])


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        (["a", "z"], "members of 'g' that are not among the peers: z"),
        ([], "members of 'g' is empty"),
        (["a", "b", "a"], "members of 'g' that are named twice: a"),
        ("ab", "members of 'g' is 'ab'; it must be a list of names"),
    ],
)
def test_groups_that_cannot_be_are_refused_wherever_they_are_named(members: Sequence[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Node(protocol="plainsong", me="a", peers=PEERS, groups={"g": members})
    with pytest.raises(UsageError, match=problem):
        Node(protocol="plainsong", me="a", peers=PEERS).join("g", members=members)
    with pytest.raises(UsageError, match=problem):
        joining(PEERS, "a", members=members)


def test_groups_entered_in_different_orders_are_told_so() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        async with Node(protocol="plainsong", me="a", peers=peers) as a, Node(protocol="plainsong", me="b", peers=peers) as b:
            other = asyncio.create_task(_enter(b, "h"))
            with pytest.raises(JoinTimeout, match="b waits for h first: enter groups in the same order everywhere"):
                await a.enter("g", ("a", "b"), 1.0)
            other.cancel()
            with pytest.raises(asyncio.CancelledError):
                await other

    run(main())


# --- parameters by group ----------------------------------------------------------------------------------------------


def test_members_agree_on_them_whatever_their_order() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        groups = {"g": ("a", "b"), "h": ("a", "b")}
        first, second = {"g": "hasty", "h": "solemn"}, {"h": "solemn", "g": "hasty"}
        nodes = [
            Node(protocol="plainsong", me=me, peers=peers, groups=groups, parameters={"moods": moods})
            for me, moods in (("a", first), ("b", second))
        ]
        async with nodes[0], nodes[1]:
            entered = await asyncio.gather(*map(_enter, nodes))
            assert [group.members for group in entered] == [("a", "b")] * 2

    run(main())


def test_who_has_others_is_not_let_in_and_told_why() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        moods = {"a": {"g": "hasty"}, "b": {"g": "solemn"}}
        memberships = [joining(peers, me, parameters={"moods": moods[me]}, timeout=1.0) for me in peers]
        outcomes = await asyncio.gather(*(each.__aenter__() for each in memberships), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [JoinTimeout] * 2
        assert 'b works with plainsong moods={"g": "solemn"}' in str(outcomes[0])

    run(main())


def test_terms_stay_short() -> None:
    groups = {f"group-{number}": ("a", "b") for number in range(200)}
    terms = [
        Node(protocol="plainsong", me="a", peers=PEERS, groups=groups, parameters={"moods": moods})._setup.terms(state=False)
        for moods in (dict.fromkeys(groups, "hasty"), dict.fromkeys(reversed(groups), "hasty"), dict.fromkeys(groups, "solemn"))
    ]
    assert terms[0] == terms[1]
    assert terms[0] != terms[2]
    assert "moods=200 entries of digest " in terms[0]
    assert max(map(len, terms)) < 120


def test_they_are_checked_against_the_groups_that_are_known() -> None:
    moods = {"moods": {"g": "hasty", "h": "calm"}, "leaders": {"g": "a"}}
    several = Node(protocol="plainsong", me="a", peers=PEERS, parameters=moods)
    several.join("g")  # h may be joined later
    several.join("h")
    wrong = Node(protocol="plainsong", me="a", peers=PEERS, parameters={"leaders": {"g": "c"}})
    with pytest.raises(UsageError, match="c leads g and is not in it"):
        wrong.join("g")
    known = Node(protocol="plainsong", me="a", peers=PEERS, parameters=moods, groups={"g": ("a", "b")})
    with pytest.raises(UsageError, match="there is no group h"):
        known.join("g")
    with pytest.raises(UsageError, match="there is no group h"):
        joining(PEERS, "a", parameters=moods)
    with pytest.raises(UsageError, match='cannot be "hsty"; did you mean "hasty"'):
        joining(PEERS, "a", parameters={"moods": {"g": "hsty"}})


def test_a_configuration_has_them() -> None:
    text = 'me = "a"\nprotocol = "plainsong"\n[peers]\na = "h:1"\nb = "h:2"\n'
    assert parse_config(text + '[parameters.moods]\ng = "hasty"\n').parameters == {"moods": {"g": "hasty"}}
    assert parse_config(text, overrides=["parameters.leaders.g=b"]).parameters == {"leaders": {"g": "b"}}
    with pytest.raises(ScenarioError, match=r"^node\.toml:7: parameters\.moods\.g cannot be"):
        parse_config(text + '[parameters.moods]\ng = "no"\n', "node.toml")
    with pytest.raises(ScenarioError, match=r"^node\.toml:6: there is no group h; name one of g"):
        parse_config(text + '[parameters.moods]\nh = "calm"\n', "node.toml")


# --- processes --------------------------------------------------------------------------------------------------------


def test_a_live_scenario_ends_without_anybody_leaving(tmp_path: Path) -> None:
    text = """\
protocol = "plainsong"
duration = "200ms"
[groups]
red = ["p1", "p2"]
blue = ["p2", "p3"]
[parameters.moods]
blue = "hasty"
[[workload]]
rate = 50
"""
    result = execute(parse(text, "small.toml"), tmp_path / "out", verify_it=True, options={"drain_at_most": 60_000 * MS})
    assert result.summary.unexpected == {}
    assert result.summary.quiet, result.summary.not_quiet
    assert result.passes
    assert {end.state for end in result.summary.processes.values()} == {"alive"}
    rows = read_trace(tmp_path / "out" / "trace").table.to_pylist()
    assert {row["kind"] for row in rows}.isdisjoint({"leave", "crash"})
    assert [json.loads(row["detail"]) for row in rows if row["kind"] == "end"] == [{"drained": True}] * 3
    starts = [json.loads(row["detail"])["parameters"] for row in rows if row["kind"] == "start"]
    assert [parameters["moods"] for parameters in starts] == [{"blue": "hasty"}] * 3
    assert parse((tmp_path / "out" / "scenario.toml").read_text()).parameters["moods"] == {"blue": "hasty"}


def test_nodes_end_when_they_are_told_to(tmp_path: Path) -> None:
    peers = "".join(f'{name} = "{address}"\n' for name, address in addresses("a", "b").items())
    config = tmp_path / "choir.toml"
    config.write_text('protocol = "plainsong"\n[peers]\n' + peers)
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
