"""Procedures on common memory in the live host: turns, waits, bells, bounds, failures, and groups without views."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import plainchant
from plainchant.core.engine import Engine
from plainchant.core.memory import (
    FAILED,
    Connect,
    Copy,
    Directory,
    Disconnect,
    Entry,
    Layout,
    Nap,
    Operate,
    Port,
    Procedure,
    Rest,
    Until,
)
from plainchant.core.model import MS, SECOND, US, Failure, ProtocolError, Reason, UsageError
from plainchant.group import Group
from plainchant.live.memory import server, stepper
from plainchant.live.memory.server import MailboxServer, mailboxes
from plainchant.live.memory.stepper import Stepper
from plainchant.live.node import Node
from plainchant.live.ports import free_addresses
from plainchant.trace import read
from plainchant.trace.collect import collect

from .board import BOARD
from .endpoints import PATIENCE, run

LAYOUT = Layout(copies=2, places=4, slots=2, room=64)
BOUND = 10 * SECOND


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Mailboxes of a test's own."""
    directory = tmp_path / "shared"
    directory.mkdir()
    monkeypatch.setattr(server, "SHARED", directory)
    return directory


# --- the stepper alone ----------------------------------------------------------------------------------------------------


class FakeHost:
    """Turns as the live host has them, and what was done in them."""

    def __init__(self, me: str = "a") -> None:
        self.me = me
        self.alive = True
        self.engine = Engine()
        self.clock_offset = 0
        self.countdown = 0
        self.inside = False
        self.done: list[Any] = []
        self.rows: list[dict[str, Any]] = []
        self.errors: list[Exception] = []
        self.counted = 0
        self.engine.notice = self.done.append  # type: ignore[method-assign,assignment]

    def clock(self) -> int:
        return stepper.time.time_ns() + self.clock_offset  # type: ignore[attr-defined,no-any-return]

    def turn(self, method: Callable[..., None], *arguments: Any) -> None:
        assert not self.inside
        self.inside = True
        try:
            method(*arguments)
        except Exception as error:
            self.failed(error)
        self.inside = False

    def turn_over(self) -> None:
        assert not self.inside
        self.done.append("over")

    def call(self, method: Callable[..., None], *arguments: Any) -> None:
        self.turn(method, *arguments)
        self.turn_over()

    def failed(self, error: Exception) -> None:
        self.errors.append(error)
        self.alive = False

    def count_down(self) -> None:
        self.counted += 1

    def note(self, kind: str, detail: dict[str, Any] | None = None, group: str | None = None) -> None:
        self.rows.append({"kind": kind, "group": group, **(detail or {})})


@contextlib.asynccontextmanager
async def stepping(*names: str) -> AsyncIterator[list[tuple[FakeHost, Stepper]]]:
    """Processes in one loop."""
    made = []
    try:
        for name in names:
            host = FakeHost(name)
            made.append((host, Stepper(host, MailboxServer("n"))))
        yield made
    finally:
        for _, each in made:
            each.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


def operate(
    step: Callable[[Copy], Any], *, copy: int = 0, name: str = "look", bound: int = BOUND, news: bool = False, mailbox: str = "m"
) -> Operate:
    return Operate(mailbox, copy, name, step, bound, news)


def test_procedures_run_in_turns_and_steps_outside_of_them(shared: Path) -> None:
    async def main() -> None:
        async with stepping("a") as [(host, stepper_)]:
            seen: list[Any] = []

            def procedure() -> Procedure:
                port = yield Connect("m", LAYOUT)
                seen.append(port)
                assert host.inside
                seen.append((yield operate(lambda copy: host.inside)))
                before = host.clock()
                inside = yield operate(lambda copy: host.clock())
                seen.append(before <= inside <= host.clock())
                yield Disconnect("m", port.place, "a")
                seen.append("over")

            stepper_.start("p", procedure())
            assert seen == []
            stepper_.run()
            assert isinstance(seen[0], Port)
            assert seen[1:] == [False, True, "over"]
            assert host.done == ["over"] * 5
            assert list(shared.iterdir()) == []

    run(main())


def test_a_turn_is_over_before_its_operation_happens() -> None:
    async def main() -> None:
        async with stepping("a") as [(host, stepper_)]:

            def procedure() -> Procedure:
                yield Connect("m", LAYOUT)
                host.done.append("asked")
                yield operate(lambda copy: host.done.append("done"))

            stepper_.start("p", procedure())
            stepper_.run()
            assert host.done == ["over", "asked", "over", "done", "over"]

    run(main())


def test_waits_end_in_their_order_and_never_early(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with stepping("a") as [(host, stepper_)]:
            ended: list[tuple[int, int]] = []

            def procedure(wait: int) -> Procedure:
                time = host.clock() + wait
                yield Until(time)
                assert host.clock() >= time
                ended.append((time, wait))

            waits = [0, 3 * MS, 10 * US, 200 * US, 1 * MS, 100 * US, -5 * MS]
            for wait in waits:
                stepper_.start("p", procedure(3600 * SECOND + wait))
            stepper_.run()
            assert not ended
            host.clock_offset += 3600 * SECOND - 1 * MS
            stepper_.run()
            await until(lambda: len(ended) == len(waits))
            assert ended == sorted(ended)

    run(main())


def test_a_clock_that_is_set_ends_waits() -> None:
    async def main() -> None:
        async with stepping("a") as [(host, stepper_)]:
            ended: list[int] = []

            def procedure() -> Procedure:
                yield Until(host.clock() + 3600 * SECOND)
                ended.append(1)

            stepper_.start("p", procedure())
            stepper_.run()
            assert not ended
            host.clock_offset += 3601 * SECOND
            stepper_.run()
            assert ended

    run(main())


def test_a_busy_process_lets_the_loop_come_round() -> None:
    async def main() -> None:
        async with stepping("a") as [(_, stepper_)]:
            steps = 0
            stop = False

            def procedure() -> Procedure:
                nonlocal steps
                yield Connect("m", LAYOUT)
                while not stop:
                    steps += 1
                    yield operate(lambda copy: None)

            stepper_.start("p", procedure())
            stepper_.run()
            first = steps
            assert 0 < first <= stepper.AT_ONCE
            await until(lambda: steps > 10 * stepper.AT_ONCE)
            stop = True

    run(main())


@pytest.mark.parametrize("news", [True, False])
def test_a_nap_ends_when_somebody_rings(news: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepper, "BACKSTOP", 50 * MS if not news else 3600 * SECOND)

    async def main() -> None:
        async with stepping("a", "b") as [(host, sleeper), (_, ringer)]:
            log: list[str] = []

            def nap() -> Procedure:
                yield Connect("m", LAYOUT)
                found = None
                while found is None:
                    found = yield operate(lambda copy: copy.entry(0))
                    if found is None:
                        yield Nap(host.clock() + 1)
                log.append("found")

            def ring() -> Procedure:
                yield Connect("m", LAYOUT)
                yield operate(lambda copy: copy.put(0, Entry(1, 1, "b")), news=news)
                log.append("written")

            sleeper.start("nap", nap())
            sleeper.run()
            await asyncio.sleep(0)
            ringer.start("ring", ring())
            ringer.run()
            assert log == ["written"]
            await until(lambda: log == ["written", "found"])

    run(main())


def test_news_between_an_operation_and_a_nap_are_not_slept_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepper, "BACKSTOP", 3600 * SECOND)

    async def main() -> None:
        async with stepping("a") as [(host, stepper_)]:
            looks = 0

            def nap() -> Procedure:
                nonlocal looks
                yield Connect("m", LAYOUT)
                stepper_.start("ring", ring())
                for _ in range(2):
                    looks += 1
                    yield operate(lambda copy: None)
                    # The other procedure's operation comes between this one's and its nap.
                    yield Nap(host.clock() + 1)
                looks += 1

            def ring() -> Procedure:
                yield operate(lambda copy: None, news=True)

            stepper_.start("nap", nap())
            stepper_.run()
            assert looks == 2
            await asyncio.sleep(0.005)
            assert looks == 2

    run(main())


def test_a_nap_ends_at_its_latest_time_though_nobody_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepper, "BACKSTOP", 3600 * SECOND)

    async def main() -> None:
        async with stepping("a") as [(host, stepper_)]:
            ended: list[int] = []

            def procedure() -> Procedure:
                latest = host.clock() + 3 * MS
                yield Nap(host.clock() + 1, latest)
                ended.append(host.clock() - latest)

            stepper_.start("p", procedure())
            stepper_.run()
            await until(lambda: bool(ended))
            assert ended[0] >= 0

    run(main())


def nothing(copy: Copy) -> None:
    return None


@pytest.mark.parametrize("ringer", ["a", "b"])
def test_a_nap_for_a_mailbox_ends_with_news_of_that_one_alone(ringer: str) -> None:
    async def main() -> None:
        async with stepping("a", "b") as [(host, one), (_, other)]:
            log: list[str] = []

            def nap(mailbox: str) -> Procedure:
                yield operate(nothing, mailbox=mailbox)
                far = host.clock() + 3600 * SECOND
                yield Nap(host.clock() + 1, far, mailbox)
                log.append(mailbox)

            def connect() -> Procedure:
                for mailbox in ("m", "k"):
                    yield Connect(mailbox, LAYOUT)

            def ring(mailbox: str) -> Procedure:
                yield operate(nothing, mailbox=mailbox, news=True)

            for each in (one, other):
                each.start("connect", connect())
                each.run()
            for mailbox in ("m", "k"):
                one.start("nap", nap(mailbox))
            one.run()
            ringing = one if ringer == "a" else other
            ringing.start("ring", ring("k"))
            ringing.run()
            await until(lambda: bool(log))
            await asyncio.sleep(0.005)
            assert log == ["k"]
            ringing.start("ring", ring("m"))
            ringing.run()
            await until(lambda: len(log) == 2)

    run(main())


def test_a_nap_for_a_mailbox_does_not_sleep_over_news_nor_end_twice_for_them() -> None:
    async def main() -> None:
        async with stepping("a") as [(host, stepper_)]:
            ends: list[int] = []

            def nap() -> Procedure:
                for mailbox in ("m", "k"):
                    yield Connect(mailbox, LAYOUT)
                stepper_.start("ring", ring())
                yield operate(nothing)
                # The other procedure's operation comes between this one's and its nap; what it does elsewhere changes nothing.
                yield operate(nothing, mailbox="k")
                for length in (3600 * SECOND, 20 * MS):
                    latest = host.clock() + length
                    yield Nap(0, latest, "m")
                    ends.append(host.clock() - latest)

            def ring() -> Procedure:
                yield operate(nothing, news=True)

            stepper_.start("nap", nap())
            stepper_.run()
            await until(lambda: len(ends) == 2)
            assert ends[1] >= 0

    run(main())


def test_an_operation_on_a_module_that_has_crashed_is_no_news() -> None:
    async def main() -> None:
        async with stepping("a") as [(host, stepper_)]:
            ends: list[bool] = []

            def nap() -> Procedure:
                yield Connect("m", LAYOUT)
                stepper_.server.crash_module(2)
                stepper_.start("ring", ring())
                yield operate(nothing)
                latest = host.clock() + 20 * MS
                yield Nap(0, latest, "m")
                ends.append(host.clock() < latest)

            def ring() -> Procedure:
                assert (yield operate(nothing, copy=1, news=True)) is FAILED

            stepper_.start("nap", nap())
            stepper_.run()
            await until(lambda: bool(ends))
            assert ends == [False]

    run(main())


def test_procedures_ask_who_is_there_in_the_order_of_connecting() -> None:
    async def main() -> None:
        async with stepping("b", "a") as [(_, one), (_, other)]:
            seen: list[Any] = []

            def connect(*names: str) -> Procedure:
                for name in names:
                    yield Connect(name, LAYOUT)
                seen.append((yield Directory()))

            one.start("p", connect("m", "k"))
            one.run()
            other.start("p", connect("m"))
            other.run()
            assert seen == [{"k": ("b",), "m": ("b",)}, {"k": ("b",), "m": ("b", "a")}]

    run(main())


def test_an_operation_that_is_late_is_a_timing_fault_and_not_told_too_often() -> None:
    async def main() -> None:
        async with stepping("a") as [(host, stepper_)]:

            def procedure() -> Procedure:
                yield Connect("m", LAYOUT)
                yield operate(lambda copy: None, name="read")
                for _ in range(3):
                    yield operate(lambda copy: None, copy=1, name="write", bound=0)
                yield operate(lambda copy: None, name="flag", bound=0)
                host.clock_offset += 2 * SECOND
                yield operate(lambda copy: None, name="write", bound=0)

            stepper_.start("p", procedure())
            stepper_.run()
            assert stepper_.late == 5
            told = [(row["operation"], row["copy"], row["count"]) for row in host.rows]
            assert told == [("write", 1, 1), ("flag", 0, 1), ("write", 0, 3)]
            assert all(row["kind"] == row["fault"] or row["fault"] == "timing" for row in host.rows)
            assert all(row["timing"] is True and row["bound_ns"] == 0 and row["took_ns"] > 0 for row in host.rows)
            assert host.rows[2]["took_ns"] >= 2 * SECOND

    run(main())


def test_an_operation_is_due_when_the_wait_before_it_was_to_end() -> None:
    async def main() -> None:
        async with stepping("a") as [(host, stepper_)]:

            def procedure() -> Procedure:
                yield Connect("m", LAYOUT)
                yield Until(host.clock() + 1 * SECOND)
                yield operate(lambda copy: None, bound=1 * SECOND)
                yield Until(host.clock() - 5 * SECOND)
                yield operate(lambda copy: None, bound=1 * SECOND)

            stepper_.start("p", procedure())
            stepper_.run()
            host.clock_offset += 3 * SECOND  # two seconds too late
            stepper_.run()
            assert [2 * SECOND <= row["took_ns"] < 3 * SECOND for row in host.rows] == [True]

    run(main())


def test_a_rest_is_over_when_the_clock_was_set_back_meanwhile() -> None:
    async def main() -> None:
        async with stepping("a") as [(host, stepper_)]:
            done = asyncio.Event()

            def procedure() -> Procedure:
                yield Connect("m", LAYOUT)
                yield Rest(2 * MS)
                done.set()

            stepper_.start("p", procedure())
            stepper_.run()
            host.clock_offset -= 3600 * SECOND
            assert not done.is_set()
            await asyncio.wait_for(done.wait(), 20)

    run(main())


def test_who_was_stopped_in_a_nap_is_late_for_the_bell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepper, "BACKSTOP", 3600 * SECOND)

    async def main() -> None:
        async with stepping("a", "b") as [(host, sleeper), (_, ringer)]:
            looks = 0

            def nap() -> Procedure:
                nonlocal looks
                yield Connect("m", LAYOUT)
                while True:
                    looks += 1
                    yield operate(lambda copy: None, bound=1 * SECOND)
                    yield Nap(host.clock() + 1)

            def ring() -> Procedure:
                yield Connect("m", LAYOUT)
                yield operate(lambda copy: None, news=True)

            sleeper.start("nap", nap())
            sleeper.run()
            ringer.start("ring", ring())
            ringer.run()
            # By its own clock it goes on two seconds after the bell.
            monkeypatch.setattr(stepper, "HEARING", -2 * SECOND)
            await until(lambda: looks == 2)
            assert [row["operation"] for row in host.rows] == ["look"]

    run(main())


def test_the_engine_is_told_who_has_died(shared: Path) -> None:
    async def main() -> None:
        async with stepping("a", "b") as [(host, one), (_, other)]:

            def procedure() -> Procedure:
                yield Connect("m", LAYOUT)

            for each in (one, other):
                each.start("p", procedure())
                each.run()
            await asyncio.sleep(3 * stepper.LOOK_EVERY / SECOND)
            assert not [event for event in host.done if event != "over"]
            other.stop()
            await until(lambda: any(isinstance(event, Failure) for event in host.done))
            (failure,) = [event for event in host.done if event != "over"]
            assert failure.process == "b"
        assert list(shared.iterdir()) == []

    run(main())


def test_a_process_that_acts_for_another_is_connected_twice(shared: Path) -> None:
    async def main() -> None:
        async with stepping("a", "c") as [(_, one), (watching, third)]:
            ports: list[Port] = []

            def connect(*names: str) -> Procedure:
                for name in names:
                    ports.append((yield Connect("m", LAYOUT, name)))

            one.start("p", connect("", "b"))
            third.start("p", connect(""))
            one.run()
            third.run()
            assert [port.place for port in ports] == [0, 1, 2]

            def disconnect() -> Procedure:
                yield Disconnect("m", 0, "a")
                yield operate(lambda copy: copy.put(0, Entry(5, 0, "a")))

            one.start("p", disconnect())
            one.run()
            assert [seat.process for found in mailboxes() for seat in found.register.seats] == ["b", "c"]
            one.stop()
            third.look()
            assert [event.process for event in watching.done if event != "over"] == ["b"]

    run(main())


@pytest.mark.parametrize("where", ["procedure", "step", "unknown"])
def test_a_procedure_or_step_that_raises_stops_the_process(where: str) -> None:
    async def main() -> None:
        async with stepping("a") as [(host, stepper_)]:

            def fail(copy: Copy) -> None:
                raise ValueError("no")

            def procedure() -> Procedure:
                if where == "unknown":
                    yield operate(fail)
                yield Connect("m", LAYOUT)
                if where == "procedure":
                    raise ValueError("no")
                yield operate(fail)
                pytest.fail("it goes on")

            stepper_.start("p", procedure())
            stepper_.run()
            assert not host.alive
            (error,) = host.errors
            assert isinstance(error, ProtocolError if where == "unknown" else ValueError)

    run(main())


def test_a_server_that_refuses_says_why() -> None:
    async def main() -> None:
        async with stepping("a", "a") as [(_, one), (_, other)]:
            answers: list[Any] = []

            def procedure() -> Procedure:
                answers.append((yield Connect("m", LAYOUT)))

            for each in (one, other):
                each.start("p", procedure())
                each.run()
            assert isinstance(answers[0], Port)
            assert "a process named a is connected" in answers[1]

    run(main())


def test_a_module_whose_lock_cannot_be_had_is_told_once() -> None:
    async def main() -> None:
        host = FakeHost()
        stepper_ = Stepper(host, MailboxServer("n", patience=0.02))
        results: list[Any] = []

        def procedure() -> Procedure:
            yield Connect("m", LAYOUT)
            (found,) = mailboxes()
            with (Path(found.directory) / "module-2").open("rb+") as stopped:
                server.fcntl.flock(stopped, server.fcntl.LOCK_EX)  # type: ignore[attr-defined]
                for _ in range(2):
                    results.append((yield operate(lambda copy: 1, copy=1)))
            results.append((yield operate(lambda copy: 1, copy=0)))

        stepper_.start("p", procedure())
        stepper_.run()
        stepper_.stop()
        assert results == [FAILED, FAILED, 1]
        assert [(row["fault"], row["module"]) for row in host.rows] == [("module", 2)]

    run(main())


# --- the live host --------------------------------------------------------------------------------------------------------


def node(me: str, peers: dict[str, Any], trace: Path | None = None, **parameters: Any) -> Node:
    return Node(me=me, peers=peers, description=BOARD, parameters=parameters, trace=trace, run="r", memory="board")


async def hear(group: Group, count: int) -> list[bytes]:
    heard: list[bytes] = []
    async with asyncio.timeout(PATIENCE):
        async for event in group:
            if isinstance(event, plainchant.Message):
                heard.append(event.payload)
            if len(heard) == count:
                return heard
    raise AssertionError(heard)


def rows(directory: Path, *kinds: str) -> list[dict[str, Any]]:
    """The rows of a trace of these kinds; of all if none is named."""
    collect([directory / "spools"], directory / "trace", alive=())
    table: pa.Table = read(directory / "trace").table
    return [row for row in table.to_pylist() if not kinds or row["kind"] in kinds]


def test_a_group_on_common_memory_and_its_trace(shared: Path, tmp_path: Path) -> None:
    async def main() -> None:
        peers = free_addresses(["a", "b", "c"])
        inside = asyncio.Barrier(2)

        async def member(name: str) -> list[bytes]:
            async with node(name, peers, tmp_path / "spools", mute="c") as mine, mine.join("g") as group:
                assert mine.host.max_packet == 4096
                await group.send(name.encode())
                if name == "c":
                    return []
                heard = await hear(group, 3)
                assert group.view is not None
                assert set(group.view.members) == {"a", "b"}
                await inside.wait()
                return heard

        async with asyncio.timeout(PATIENCE):
            a, b, c = await asyncio.gather(*map(member, peers))
        assert a == b
        assert sorted(a) == [b"a", b"b", b"c"]
        assert c == []

    run(main())
    assert list(shared.iterdir()) == []
    table = rows(tmp_path)
    assert {row["view"] for row in table} == {None}
    kinds = {kind: sorted(row["process"] for row in table if row["kind"] == kind) for kind in ("join", "leave", "send", "view")}
    assert kinds == {"join": ["a", "b"], "leave": ["a", "b", "c"], "send": ["a", "b", "c"], "view": []}
    assert all(row["rank"] is not None for row in table if row["kind"] in ("join", "leave", "deliver") and row["process"] != "c")


def test_a_module_that_crashes_is_survived(shared: Path, tmp_path: Path) -> None:
    async def main() -> None:
        peers = free_addresses(["a", "b"])
        inside = asyncio.Barrier(2)

        async def member(name: str) -> None:
            async with node(name, peers) as mine, mine.join("g") as group:
                await inside.wait()
                await group.send(name.encode())
                assert len(await hear(group, 2)) == 2
                await inside.wait()
                if name == "a":
                    MailboxServer("board").crash_module(1)
                await inside.wait()
                await group.send(name.encode())
                assert len(await hear(group, 2)) == 2
                await inside.wait()

        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*map(member, peers))

    run(main())
    assert list(shared.iterdir()) == []


def test_a_process_without_any_copy_is_halted_and_gone_from_the_memory(shared: Path) -> None:
    async def main() -> None:
        peers = free_addresses(["a"])
        async with node("a", peers, copies=1) as mine:
            group = await mine.enter("g", ("a",), PATIENCE)
            MailboxServer("board").crash_module(1)
            with pytest.raises(plainchant.Halted, match="all copies are lost"):
                await hear(group, 1)
            assert list(shared.iterdir()) == []

    run(main())


MEMBER = """
import asyncio, json, sys
from pathlib import Path
from plainchant.live.memory import server
from plainchant.live.node import Node
from tests.live.board import BOARD
server.SHARED = Path(sys.argv[1])
peers = {name: tuple(address) for name, address in json.loads(sys.argv[2]).items()}

async def main():
    async with Node(me="c", peers=peers, description=BOARD, memory="board", trace=sys.argv[3], run="r") as node:
        group = await node.enter("g", tuple(peers), 30.0)
        while True:
            await group.send(b"c")
            await asyncio.sleep(0.002)

asyncio.run(main())
"""


def start_victim(shared: Path, peers: dict[str, Any], trace: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", MEMBER, str(shared), json.dumps(peers), str(trace)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2])


def test_a_member_that_is_killed_is_missed_by_all(shared: Path, tmp_path: Path) -> None:
    async def main() -> None:
        peers = free_addresses(["a", "b", "c"])
        trace = tmp_path / "spools"
        inside = asyncio.Barrier(2)
        victim = start_victim(shared, peers, trace)

        async def member(name: str) -> None:
            async with node(name, peers, trace) as mine:
                group = await mine.enter("g", tuple(peers), PATIENCE)
                await hear(group, 3)
                await inside.wait()
                victim.kill()
                engine = mine.host.engine
                await until(lambda: engine.inner.failed == ["c"])  # type: ignore[attr-defined]
                await inside.wait()
                # Both have read that its place is free.
                await until(lambda: [len(found.register.seats) for found in mailboxes()] == [2])
                await inside.wait()

        try:
            async with asyncio.timeout(2 * PATIENCE):
                await asyncio.gather(member("a"), member("b"))
        finally:
            victim.kill()
            victim.wait()

    run(main())
    assert list(shared.iterdir()) == []
    table = rows(tmp_path)
    assert sorted(row["process"] for row in table if row["kind"] == "state") == ["a", "b"]
    # What it had put into the memory is in its trace.
    sent = {row["seq"] for row in table if row["kind"] == "send" and row["process"] == "c"}
    delivered = {row["seq"] for row in table if row["kind"] == "deliver" and row["sender"] == "c"}
    assert delivered
    assert delivered <= sent


def test_members_elsewhere_are_refused_unless_somebody_acts_for_them(shared: Path) -> None:
    async def main() -> None:
        peers: dict[str, Any] = {**free_addresses(["a"]), "b": ("192.0.2.7", 4000)}
        with pytest.raises(UsageError, match=r"for processes on one machine, and these are elsewhere: b at 192\.0\.2\.7:4000"):
            await Node(me="a", peers=peers, description=BOARD).open()
        remote = dataclasses.replace(BOARD, placement=dataclasses.replace(BOARD.placement, remote=lambda parameters: {"b": "a"}))
        async with Node(me="a", peers=peers, description=remote):
            pass
        here = free_addresses(["a", "b"])
        async with Node(me="b", peers=here, description=remote, memory="x") as mine:
            mine._begin({"g": ("b",)})
            with pytest.raises(ProtocolError, match="without shared memory"):
                mine.host.spawn("p", iter(()))  # type: ignore[arg-type]

    run(main())


def test_memories_of_the_same_peers_are_the_same_and_of_others_not(shared: Path) -> None:
    async def main() -> None:
        names = []
        peers, others = free_addresses(["a", "b"]), free_addresses(["a", "b"])
        for me, known in (("a", peers), ("b", dict(reversed(peers.items()))), ("a", others)):
            async with Node(me=me, peers=known, description=BOARD) as mine:
                names.append(mine._memory)
        assert names[0] == names[1] != names[2]

    run(main())


def test_a_node_without_room_for_memory_says_so(shared: Path) -> None:
    (shared / f"plainchant-{os.getuid()}").write_text("")

    async def main() -> None:
        with pytest.raises(UsageError, match="not a directory that is yours alone"):
            await node("a", free_addresses(["a"])).open()

    run(main())


def test_operations_are_written_down_if_wanted(tmp_path: Path) -> None:
    async def main() -> None:
        async with node("a", free_addresses(["a"]), tmp_path / "spools") as mine:
            mine._begin({"g": ("a",)})
            assert mine.host.memory is not None
            mine.host.memory.tells_operations = True
            await mine.enter("g", ("a",), PATIENCE)

    run(main())
    found = rows(tmp_path, "operation")
    assert {row["group"] for row in found} == {"g"}
    details = [json.loads(row["detail"]) for row in found]
    assert [(each["operation"], each["copy"]) for each in details][:3] == [("list", 0), ("list", 1), ("look", 0)]
    assert all(each["failed"] is False and each["began"] <= row["time"] for each, row in zip(details, found, strict=True))


def test_a_process_that_reports_somebody_looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepper, "LOOK_EVERY", 3600 * SECOND)

    async def main() -> None:
        peers = free_addresses(["a", "b"])
        async with node("a", peers) as mine, node("b", peers) as other:
            await asyncio.gather(*(each.enter("g", ("a", "b"), PATIENCE) for each in (mine, other)))
            await other.close()
            engine = mine.host.engine
            assert engine.inner.failed == []  # type: ignore[attr-defined]
            mine.host.report("b", Reason("silent", "b says nothing"))
            await until(lambda: engine.inner.failed == ["b"])  # type: ignore[attr-defined]

    run(main())


def test_who_only_sends_sends_in_one_piece() -> None:
    async def main() -> None:
        peers = free_addresses(["a", "c"])
        async with node("a", peers, mute="c") as mine, node("c", peers, mute="c") as mute:
            group, only = await asyncio.gather(*(each.enter("g", ("a", "c"), PATIENCE) for each in (mine, mute)))
            await only.send(bytes(4096))
            for send in (only.send(bytes(4097)), only.send_many([b"", bytes(4097)])):
                with pytest.raises(UsageError, match=r"c only sends in g, so its messages .* at most 4096 bytes, not 4097"):
                    await send
            with pytest.raises(UsageError, match="c only sends in g"):
                only.try_send(bytes(4097))
            await only.send_many([b"x" * 100] * 100)
            await group.send(bytes(10_000))
            assert [len(payload) for payload in await hear(group, 102)].count(100) == 100

    run(main())
