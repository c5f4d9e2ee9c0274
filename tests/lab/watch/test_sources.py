"""What can be watched: spools that grow, finished traces at a speed or at once, and what one node does."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow.parquet as pq
import pytest

import plainchant
from plainchant.core.model import TraceError, UsageError
from plainchant.lab.watch import sources, tap
from plainchant.lab.watch.picture import Picture
from plainchant.lab.watch.sources import Replay, Spools, source_at
from plainchant.lab.watch.tap import Tap
from plainchant.live.ports import free_ports
from plainchant.trace.fact import Fact
from plainchant.trace.spool import Spool
from tests.lab.random_traces import random_run, table


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "run" / "trace").mkdir(parents=True)
    pq.write_table(table([random_run(1, "r0"), random_run(2, "r1")]), tmp_path / "run" / "trace" / "part.parquet")
    return tmp_path / "run"


def test_a_finished_trace_is_shown_as_it_ended(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ROUND_FACTS", 30)
    replay = source_at(trace, run=None, speed=0.0)
    assert isinstance(replay, Replay)
    rounds = []
    while not replay.is_over:
        rounds.append(replay.poll())
    facts = [fact for each in rounds for fact in each]
    assert all(len(each) <= 30 for each in rounds)
    assert {fact.run for fact in facts} == {"r0"}
    assert [fact.time for fact in facts] == sorted(fact.time for fact in facts)
    assert replay.now() == facts[-1].time
    assert replay.told()["over"]
    assert "run r0 of 2" in replay.what
    picture = Picture()
    picture.take(facts)
    assert picture.runs["r0"].events == len(facts)


def test_a_replay_keeps_its_own_time(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)
    replay = Replay(trace, run="r1", speed=2.0)
    everything = [fact.time for fact in Replay(trace, run="r1").poll()]
    first, last = everything[0], everything[-1]
    seen = [fact.time for fact in replay.poll()]
    while not replay.is_over:
        now += 10
        seen += [fact.time for fact in replay.poll()]
        assert seen == [moment for moment in everything if moment <= first + 2 * now]
    assert now >= (last - first) / 2
    assert replay.now() == last


def test_what_is_nothing_to_watch_is_a_sentence(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        source_at(tmp_path / "nowhere", run=None, speed=0.0)
    with pytest.raises(UsageError, match="there is no run 'x'"):
        source_at(trace, run="x", speed=0.0)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(TraceError, match="there is no trace"):
        source_at(tmp_path / "other", run=None, speed=0.0)
    (tmp_path / "empty").mkdir()
    assert isinstance(source_at(tmp_path / "empty", run=None, speed=0.0), Spools)
    with pytest.raises(UsageError, match="--speed are for finished"):
        source_at(tmp_path / "empty", run=None, speed=1.0)


def test_spools_are_over_when_all_are_dead_and_read(tmp_path: Path) -> None:
    source = Spools(tmp_path)
    assert source.poll() == []
    assert not source.told()["over"]
    with Spool(tmp_path, run="r0", process="p", start={}, time=7) as spool:
        source.poll()
        assert source.told()["alive"] == 1
        assert not source.told()["over"]
        spool.row("end", 8)
    assert [fact.kind for fact in source.poll()] == ["end"]
    source.poll()
    assert source.told()["over"]
    assert source.now() == 8
    assert source.size > 0


# --- one node ---------------------------------------------------------------------------------------------------------


def test_a_tap_keeps_what_happens_and_passes_it_on(tmp_path: Path) -> None:
    inner = Spool(tmp_path, run="r0", process="p", start={}, time=0)
    both = Tap(run="r0", process="p", start={"protocol": "toy"}, inner=inner)
    both.row("view", 1, group="g", view=1, members=["p"], detail={"joined": ["p"]})
    both.accept(2, "g", [b"x", b"y"])
    both.send(3, "g", 1, 1, [b"x", b"y"])
    both.deliver(4, "g", 1, "p", 1, [b"x", b"y"], None)
    both.packets(1)
    both.flush()
    found = both.poll()
    assert [(fact.kind, fact.count) for fact in found] == [("start", 1), ("view", 1), ("accept", 2), ("send", 2), ("deliver", 2)]
    assert both.poll() == []
    assert json.loads(found[1].detail or "") == {"joined": ["p"]}
    both.row("end", 9)
    both.close()
    assert both.told()["over"]
    on_disk = Spools(tmp_path).poll()
    assert [fact.kind for fact in on_disk] == ["start", "view", "accept", "send", "deliver", "end"]


def test_a_tap_forgets_what_nobody_looks_at_and_says_so() -> None:
    only = Tap(run="r0", process="p", start={}, inner=None)
    for number in range(tap.KEPT + 10):
        only.row("null", number)
    only.flush()
    only.close()
    assert len(only.poll()) == tap.KEPT
    assert "11 records" in only.told()["problems"][0]


@pytest.mark.parametrize("traced", [False, True])
def test_a_node_serves_a_page_of_itself(tmp_path: Path, traced: bool) -> None:
    async def check() -> dict[str, Any]:
        ports = free_ports(3)
        peers = {"ann": f"127.0.0.1:{ports[0]}", "ben": f"127.0.0.1:{ports[1]}"}
        place = f"127.0.0.1:{ports[2]}"
        ann = plainchant.Node(me="ann", peers=peers, watch=place, trace=tmp_path / "spools" if traced else None)
        async with ann, plainchant.Node(me="ben", peers=peers) as ben:
            alone = ["ann"]
            async with (
                ann.join("bank", members=alone) as one,
                ben.join("bank", members=alone),
                aiohttp.ClientSession() as session,
            ):
                await one.send(b"hello")
                async with asyncio.timeout(30):
                    while True:
                        async with session.get(f"http://{place}/state") as response:
                            told: dict[str, Any] = await response.json()
                        if told["run"] and told["run"]["delivered"]["total"]:
                            return told
                        await asyncio.sleep(0.05)
        raise AssertionError("the page showed nothing")

    told = asyncio.run(check())
    assert told["what"] == "process ann, by itself"
    assert {each["name"]: each["state"] for each in told["run"]["processes"]} == {"ann": "running", "ben": "unseen"}
    assert told["run"]["groups"][0]["parts"][0]["members"] == ["ann", "ben"]
    assert "plainchant watch DIR" in told["verdict"]["why"]
    assert (tmp_path / "spools").exists() == traced


def test_a_page_that_cannot_be_served_opens_no_node() -> None:
    async def check() -> None:
        node = plainchant.Node(me="a", peers={"a": "127.0.0.1:0"}, watch="nowhere")
        with pytest.raises(UsageError, match="no place to listen at"):
            await node.open()

    asyncio.run(check())


def test_facts_of_nobody_are_no_facts() -> None:
    only = Tap(run="r0", process="p", start={}, inner=None)
    only.send(1, "g", None, 1, [])
    assert [fact.kind for fact in only.poll()] == ["start"]
    assert Fact("r", "p", 0, "start", 1).count == 1
