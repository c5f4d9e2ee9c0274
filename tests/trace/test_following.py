"""Spools while they are written: only what is new, whole, and the end of who was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from plainchant.trace import read
from plainchant.trace.collect import collect
from plainchant.trace.fact import Fact, facts_of
from plainchant.trace.following import Follower
from plainchant.trace.spool import SUFFIX, Spool

START: dict[str, Any] = {"version": 1, "protocol": "toy", "promises": ["fifo"]}


def rows(facts: list[Fact]) -> list[tuple[Any, ...]]:
    """Facts as the rows that they stand for."""
    found = []
    for fact in facts:
        for offset in range(fact.count):
            seq = None if fact.seq is None else fact.seq + offset
            digest = None if fact.digests is None else fact.digests[offset]
            found.append((fact.process, fact.index + offset, fact.kind, fact.time, fact.group, fact.sender, seq, digest))
    return found


def write(spool: Spool, round_: int) -> None:
    spool.send(10 * round_, "g", 1, 1 + 2 * round_, [b"one", b"three"])
    spool.deliver(10 * round_ + 1, "g", 1, "p", 1 + 2 * round_, [b"one", b"three"], None)
    spool.row("suspect", 10 * round_ + 2, group="g", detail={"text": "silent"})
    spool.flush()


def test_it_reads_what_collect_reads_and_each_byte_once(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "spools")
    assert follower.poll() == []  # the directory need not be there yet
    seen: list[Fact] = []
    with Spool(tmp_path / "spools", run="r0", process="p", start=START, time=0, rotate=300) as spool:
        spool.row("view", 1, group="g", view=1, members=["p"])
        spool.flush()
        seen += follower.poll()
        for round_ in range(20):
            write(spool, round_)
            if round_ % 3 == 0:
                new = follower.poll()
                assert new
                seen += new
        spool.row("end", 999)
    seen += follower.poll()
    assert len(list((tmp_path / "spools").rglob(f"*{SUFFIX}"))) > 3
    assert follower.poll() == []
    assert follower.problems == []
    collect([tmp_path / "spools"], tmp_path / "trace")
    assert rows(seen) == rows(list(facts_of(read(tmp_path / "trace").table)))


def test_a_block_that_is_torn_waits_until_it_is_whole(tmp_path: Path) -> None:
    with Spool(tmp_path / "whole", run="r0", process="p", start=START, time=0) as spool:
        write(spool, 0)
        spool.row("end", 99)
    data = (spool.directory / f"00000{SUFFIX}").read_bytes()
    place = tmp_path / "torn" / "r0" / "p" / f"00000{SUFFIX}"
    place.parent.mkdir(parents=True)
    place.touch()
    follower = Follower(tmp_path / "torn")
    holder = os.open(place, os.O_RDWR)
    import fcntl

    fcntl.flock(holder, fcntl.LOCK_EX)  # somebody writes it
    seen: list[Fact] = []
    for at in range(0, len(data), 7):
        with place.open("ab") as stream:
            stream.write(data[at : at + 7])
        seen += follower.poll()
    os.close(holder)
    seen += follower.poll()
    assert [fact.kind for fact in seen] == ["start", "send", "deliver", "suspect", "end"]
    assert follower.problems == []


def test_who_is_killed_gets_the_crash_that_collect_appends(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from plainchant.trace.spool import Spool\n"
        "spool = Spool(sys.argv[1], run='r0', process='p', start={'version': 1}, time=5)\n"
        "spool.row('view', 6, group='g', view=1, members=['p']); spool.flush()\n"
        "print('written', flush=True); time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        follower = Follower(tmp_path)
        assert [fact.kind for fact in follower.poll()] == ["start", "view"]
        assert follower.poll() == []
        assert follower.alive == 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        with next(tmp_path.rglob(f"*{SUFFIX}")).open("ab") as stream:
            stream.write(b"\x10\x00\x00")  # the write that the kill interrupted
        found = follower.poll()
        assert [(fact.kind, fact.index, fact.detail) for fact in found] == [("crash", 2, '{"by":"collector"}')]
        assert follower.alive == 0
        assert follower.poll() == []
    finally:
        process.kill()
        process.wait()


def test_processes_that_come_later_or_come_back_are_found(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    for number, name in enumerate(("p", "q", "p#1")):
        with Spool(tmp_path, run="r0", process=name, start=START, time=number) as spool:
            spool.row("end", 9)
        assert {fact.process for fact in follower.poll()} == {name}
    assert [tail.header.process for tail in follower.processes if tail.header] == ["p", "q", "p#1"]


def test_a_process_that_left_has_an_end(tmp_path: Path) -> None:
    with Spool(tmp_path, run="r0", process="p", start=START, time=0) as spool:
        spool.row("join", 1, group="g")
        spool.row("leave", 2, group="g")
    follower = Follower(tmp_path)
    assert [fact.kind for fact in follower.poll()] == ["start", "join", "leave"]
    assert follower.poll() == []


@pytest.mark.parametrize(("spoil", "problem"), [("checksum", "checksum"), ("begin", "is gone"), ("noise", "no block begins")])
def test_what_cannot_be_followed_is_told_once_and_the_others_go_on(tmp_path: Path, spoil: str, problem: str) -> None:
    keep = 1 if spoil == "begin" else 0
    with Spool(tmp_path, run="r0", process="bad", start=START, time=0, rotate=120 if keep else 1 << 20, keep=keep) as spool:
        for round_ in range(5):
            write(spool, round_)
    with Spool(tmp_path, run="r0", process="good", start=START, time=0) as good:
        good.row("end", 1)
    file = max(spool.directory.glob(f"*{SUFFIX}"))
    data = bytearray(file.read_bytes())
    if spoil == "checksum":
        data[-3] ^= 1
    elif spoil == "noise":
        data += b"noise that is no block"
    file.write_bytes(data)
    follower = Follower(tmp_path)
    seen = follower.poll() + follower.poll()
    assert {fact.process for fact in seen} >= {"good"}
    assert len(follower.problems) == 1
    assert problem in follower.problems[0] or "are gone" in follower.problems[0]


def test_a_round_reads_no_more_than_it_may(tmp_path: Path) -> None:
    with Spool(tmp_path, run="r0", process="p", start=START, time=0) as spool:
        for round_ in range(50):
            write(spool, round_)
        spool.row("end", 999)
    follower = Follower(tmp_path, round_bytes=500)
    first = follower.poll()
    assert 0 < len(first) < 50
    assert follower.behind > 0
    seen = list(first)
    for _ in range(100):
        seen += follower.poll()
    assert sum(fact.count for fact in seen) == 1 + 50 * 5 + 1
    assert follower.behind == 0
