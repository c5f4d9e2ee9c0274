"""What a process takes is seen from outside: leaks that are planted in real processes and in common memory are found."""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plainchant.core.memory import Layout
from plainchant.lab.live.process import LiveError
from plainchant.live.memory.server import MailboxServer
from plainchant_workbench.chaos.figures import ALL, FLOORS, MIB, Figure, Sampler, of_process
from plainchant_workbench.chaos.trend import FEWEST

LEAKY = """
import os, sys, threading
kept = []
stay = threading.Event()
def leak(what):
    if what == "files":
        kept.append(os.open(os.devnull, os.O_RDONLY))
    elif what == "threads":
        kept.append(threading.Thread(target=stay.wait, daemon=True))
        kept[-1].start()
    elif what == "memory":
        kept.append(bytearray(os.urandom(64) * 4096))
    print("done", flush=True)
for line in sys.stdin:
    leak(line.strip())
"""


@dataclasses.dataclass
class Watched:
    """As the sampler sees a process."""

    pid: int
    name: str = "p1"
    entered: tuple[str, ...] = ("g",)
    serves: bool = False


@contextlib.contextmanager
def leaky() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", LEAKY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def sampled(what: str, times: int = 2 * FEWEST) -> dict[str, Figure]:
    """The figures of a process that leaks one thing a step."""
    sampler = Sampler(long_enough=0)
    with leaky() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        seen: Any = Watched(process.pid)
        for _ in range(times):
            process.stdin.write(f"{what}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
            sampler.look([seen], {})
    return {figure.name: figure for figure in sampler.figures()}


@pytest.mark.parametrize("what", ["files", "threads", "memory"])
def test_a_planted_leak_is_found_and_nothing_else(what: str) -> None:
    figures = sampled(what)
    growing = {name for name, figure in figures.items() if figure.grows}
    assert what in growing
    # A thread takes some memory, and memory is a part of what is resident.
    allowed = {"files": {"files"}, "threads": {"threads", "memory", "resident"}, "memory": {"memory", "resident"}}
    assert growing <= allowed[what]
    assert figures[what].trend is not None
    assert figures[what].to_json()["grows"] is True


def test_a_process_that_leaks_nothing_does_not_grow() -> None:
    figures = sampled("nothing")
    assert set(figures) == {"files", "threads", "memory", "resident"}
    assert not [figure for figure in figures.values() if figure.grows]
    assert all(figure.trend is not None for figure in figures.values())


def test_segments_that_are_left_are_found(tmp_path: Path) -> None:
    server = MailboxServer("chaos", root=tmp_path)
    attached = server.connect("box", Layout(copies=2, places=2, slots=2, room=4096), "p1", 0)
    try:
        folder = next(path for path in tmp_path.iterdir() if path.is_dir())
        steady, leaking = Sampler(long_enough=0), Sampler(long_enough=0)
        for _ in range(2 * FEWEST):
            steady.look([], {"": server})
        for number in range(2 * FEWEST):
            (folder / f"left-{number}").write_bytes(bytes(64 << 10))
            leaking.look([], {"": server})
    finally:
        attached.disconnect()
    assert not [figure for figure in steady.figures() if figure.grows]
    assert {(figure.process, figure.name) for figure in leaking.figures() if figure.grows} == {(ALL, "segments"), (ALL, "shared")}


def test_who_is_gone_or_not_yet_there_has_no_figures() -> None:
    with leaky() as process:
        pass
    assert of_process(process.pid) == {}
    sampler = Sampler()
    starting: Any = Watched(os.getpid(), entered=())
    sampler.look([starting], {})
    assert sampler.figures() == []


def test_a_short_life_says_nothing() -> None:
    sampler = Sampler(long_enough=3600)
    seen: Any = Watched(os.getpid())
    for _ in range(2 * FEWEST):
        sampler.look([seen], {})
    assert all(figure.trend is None and not figure.grows for figure in sampler.figures())


def test_our_own_figures_are_what_we_know_of_ourselves() -> None:
    before = of_process(os.getpid())
    kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(5)]
    # Of its own: a bytearray may fit into what the interpreter has left over.
    block = mmap.mmap(-1, 8 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.write(b"x" * len(block))
    try:
        after = of_process(os.getpid())
    finally:
        for file in kept:
            os.close(file)
        block.close()
    assert after["files"] - before["files"] == 5
    assert after["memory"] - before["memory"] >= 4 * MIB
    assert after["resident"] >= after["memory"]
    assert after["threads"] >= threading.active_count()


def test_floors_are_of_figures_that_there_are() -> None:
    assert set(FLOORS) == {"files", "threads", "memory", "resident", "segments", "shared"}
    assert FLOORS["memory"].of(10 * MIB) == MIB
    assert FLOORS["memory"].of(1000 * MIB) == 20 * MIB


def test_without_proc_nobody_pretends_to_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("plainchant_workbench.chaos.figures._PROC", tmp_path)
    with pytest.raises(LiveError, match="where there is /proc"):
        Sampler()
