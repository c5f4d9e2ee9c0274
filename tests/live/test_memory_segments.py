"""Memory modules that real processes share: records, steps that are all or nothing, locks, crashes."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from plainchant.core.memory import FAILED, Connection, Copy, Entry, Header, Layout
from plainchant.core.model import UsageError
from plainchant.live.memory import segments
from plainchant.live.memory.segments import CommonMemoryError, Segment, make, size_of

LAYOUT = Layout(copies=1, places=4, slots=3, room=100)
FULL = Entry(
    stamp=2**62,
    place=3,
    sender="päng#12",
    first=2**40,
    count=7,
    offset=9,
    total=10**12,
    size=100,
    filled=True,
    available=True,
    listed=2**62 - 1,
    done=5,
    seen=6,
    voted=2**61,
    local=True,
    decision=False,
    removed=True,
    number=2**50,
    kind=2**16 - 1,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "module-1"
    make(made, LAYOUT)
    return made


@pytest.fixture
def segment(path: Path) -> Iterator[Segment]:
    opened = Segment(path)
    yield opened
    opened.close()


@pytest.fixture
def other(path: Path) -> Iterator[Segment]:
    """The same module, as another process has it."""
    opened = Segment(path)
    yield opened
    opened.close()


def test_a_module_is_as_large_as_its_layout_says_and_empty(path: Path, segment: Segment) -> None:
    assert path.stat().st_size == size_of(LAYOUT)
    assert segment.layout == LAYOUT
    assert segment.operate(lambda copy: [*copy.connections(), *copy.entries()]) == []
    assert segment.operate(lambda copy: (copy.entry(0), copy.data(0))) == (None, b"")


@pytest.mark.parametrize("entry", [FULL, Entry(0, -1, "a", number=3), Entry(5, 1, "b", decision=True, available=True)])
def test_an_entry_is_for_others_what_was_put(entry: Entry, segment: Segment, other: Segment) -> None:
    for _ in range(3):
        segment.operate(lambda copy: copy.put(4, entry))
        assert other.operate(lambda copy: copy.entry(4)) == entry
    there = [] if entry.removed else [(4, entry)]
    assert other.operate(lambda copy: list(copy.entries())) == there


def test_a_connection_is_for_others_what_was_put(segment: Segment, other: Segment) -> None:
    flagged = Connection("p3", sends=True), Connection("p3", present=True), Connection("p3", 1, wish=-2, last=2**50, read=7)
    for connection in (Connection("p1", 5, 9, True), Connection("p2"), Connection("x" * 64, 2**62), *flagged):
        segment.operate(partial(Segment.connect, place=2, connection=connection))
        assert other.operate(lambda copy: copy.connection(2)) == connection
        assert other.operate(lambda copy: list(copy.connections())) == [(2, connection)]
    assert other.operate(lambda copy: copy.connection(1)) is None


def test_who_is_disconnected_is_nobody_until_somebody_is_connected(segment: Segment, other: Segment) -> None:
    for name in ("p1", "p2", "p3"):
        segment.operate(partial(Segment.connect, place=2, connection=Connection(name)))
        assert other.operate(lambda copy: copy.connection(2)) == Connection(name)
        segment.operate(lambda copy: copy.disconnect(2))
        assert other.operate(lambda copy: (copy.connection(2), list(copy.connections()))) == (None, [])

    def both(copy: Copy) -> Any:
        copy.connect(2, Connection("p4"))
        copy.disconnect(2)
        left = copy.connection(2)
        copy.connect(2, Connection("p5"))
        return left, copy.connection(2)

    assert segment.operate(both) == (None, Connection("p5"))
    assert other.operate(lambda copy: list(copy.connections())) == [(2, Connection("p5"))]


def test_a_header_is_for_others_what_was_put(segment: Segment, other: Segment) -> None:
    assert other.operate(lambda copy: copy.header()) == Header()
    for number in (5, 2**60, 7):
        header = Header(number, number - 1, -number, 3, number + 1, 9)
        segment.operate(partial(Segment.put_header, header=header))
        assert other.operate(lambda copy: copy.header()) == header


def test_data_is_as_long_as_the_entry_says(segment: Segment, other: Segment) -> None:
    def write(copy: Copy, data: bytes) -> None:
        copy.fill(11, data)
        copy.put(11, Entry(1, 3, "a", size=len(data)))

    for data in (b"x" * 100, b"", b"hello"):
        segment.operate(partial(write, data=data))
        assert other.operate(lambda copy: copy.data(11)) == data
    with pytest.raises(UsageError, match="room for 100 bytes, not for 101"):
        segment.operate(lambda copy: copy.fill(11, bytes(101)))


def test_a_step_sees_what_it_has_put(segment: Segment) -> None:
    def step(copy: Copy) -> Any:
        copy.put(0, Entry(1, 0, "a"))
        copy.put(0, Entry(2, 0, "a"))
        copy.put(5, Entry(3, 1, "b"))
        copy.connect(1, Connection("b"))
        copy.put(5, Entry(4, 1, "b", removed=True))
        return [slot for slot, _ in copy.entries()], copy.entry(0), copy.entry(5), dict(copy.connections())

    slots, first, second, connections = segment.operate(step)
    assert slots == [0]
    assert (first.stamp, second.stamp, second.removed) == (2, 4, True)
    assert connections == {1: Connection("b")}


def test_a_step_that_raises_changes_nothing_and_gives_the_lock_back(segment: Segment, other: Segment) -> None:
    segment.operate(lambda copy: copy.put(0, Entry(1, 0, "a")))

    def step(copy: Copy) -> None:
        copy.put(0, Entry(2, 0, "a"))
        copy.connect(0, Connection("a"))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        segment.operate(step)
    assert other.operate(lambda copy: (copy.entry(0), copy.connection(0))) == (Entry(1, 0, "a"), None)
    segment.operate(lambda copy: None)
    assert other.operate(lambda copy: copy.entry(0)) == Entry(1, 0, "a")


def test_names_that_are_too_long_are_refused(segment: Segment) -> None:
    with pytest.raises(UsageError, match="more than 64 bytes"):
        segment.operate(lambda copy: copy.connect(0, Connection("ä" * 33)))


def test_what_is_no_module_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(bytes(10000))
    with pytest.raises(CommonMemoryError, match="is no module"):
        Segment(tmp_path / "other")
    for layout in (Layout(1, 63, 1, 1), Layout(1, 0, 1, 1), Layout(0, 1, 1, 1), Layout(1, 1, 0, 1)):
        with pytest.raises(UsageError, match="choose others"):
            make(tmp_path / "module", layout)


def test_without_room_no_module_is_made_and_no_place_taken(
    tmp_path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, start: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(CommonMemoryError, match="No space left on device; make room"):
        make(tmp_path / "module", LAYOUT)
    with pytest.raises(CommonMemoryError, match="no room for 300 bytes of common memory"):
        segment.reserve(2)


def test_memory_for_messages_is_taken_place_by_place(tmp_path: Path) -> None:
    large = Layout(copies=1, places=40, slots=4, room=1 << 16)
    make(tmp_path / "large", large)
    assert (tmp_path / "large").stat().st_size == size_of(large)
    before = (tmp_path / "large").stat().st_blocks * 512
    assert before < 1 << 18
    segment = Segment(tmp_path / "large")
    segment.reserve(39)
    assert (tmp_path / "large").stat().st_blocks * 512 - before >= 4 << 16
    segment.operate(lambda copy: copy.fill(159, bytes(1 << 16)))
    taken = (tmp_path / "large").stat().st_blocks
    segment.operate(lambda copy: copy.fill(0, b""))
    assert ((tmp_path / "large").stat().st_blocks - taken) * 512 >= 4 << 16, "whoever fills another's slot takes memory for it"
    segment.close()


# --- killed at any store ------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is no more."""


class Fuse:
    """Kills at a store: before it, or in the middle of it."""

    def __init__(self, at: int, half: bool) -> None:
        self.left = at
        self.half = half

    def burn(self) -> bool:
        """Whether this is the store at which the process dies."""
        self.left -= 1
        return self.left < 0


class Memory:
    """A mapping whose stores burn a fuse."""

    def __init__(self, memory: mmap.mmap, fuse: Fuse) -> None:
        self.memory = memory
        self.fuse = fuse

    def __getitem__(self, key: Any) -> Any:
        return self.memory[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.fuse.burn():
            if self.fuse.half and isinstance(key, slice):
                self.memory[key.start : key.start + len(value) // 2] = value[: len(value) // 2]
            raise Killed
        self.memory[key] = value

    def close(self) -> None:
        self.memory.close()


class Record:
    """A struct whose stores burn a fuse."""

    def __init__(self, record: Any) -> None:
        self.record = record
        self.size = record.size
        self.unpack = record.unpack

    def unpack_from(self, memory: Any, at: int) -> Any:
        return self.record.unpack_from(memory.memory if isinstance(memory, Memory) else memory, at)

    def pack_into(self, memory: Any, at: int, *values: Any) -> None:
        if isinstance(memory, Memory):
            memory[at : at + self.size] = self.record.pack(*values)
        else:
            self.record.pack_into(memory, at, *values)


def change_much(copy: Copy, stamp: int) -> None:
    copy.fill(1, b"%100d" % stamp)
    copy.put(1, Entry(stamp, 0, "a", listed=stamp, size=100))
    copy.put(7, Entry(stamp, 2, "b", listed=stamp, removed=bool(stamp % 2)))
    copy.connect(3, Connection("c", stamp, stamp, last=stamp))
    copy.put_header(Header(stamp, stamp))


def state(copy: Copy) -> set[int]:
    """The stamps of everything: one if nothing is torn."""
    first, second, connection = copy.entry(1), copy.entry(7), copy.connection(3)
    assert first is not None
    assert second is not None
    assert connection is not None
    return {first.stamp, first.listed, second.stamp, second.listed, connection.entry, connection.last} | {
        copy.header().next,
        copy.header().oldest,
    }


@pytest.mark.parametrize("half", [False, True])
def test_who_is_killed_at_any_store_leaves_all_or_nothing(half: bool, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_COUNT", "_CHANGE", "_HEADER", "_CONNECTION", "_ENTRY"):
        monkeypatch.setattr(segments, name, Record(getattr(segments, name)))
    observer = Segment(path)
    observer.operate(lambda copy: change_much(copy, 1))
    stamp, before, after, replayed = 1, 0, 0, 0
    for at in range(100):
        victim = Segment(path)
        victim._memory = Memory(victim._memory, Fuse(at, half))  # type: ignore[assignment]
        try:
            victim.operate(partial(change_much, stamp=stamp + 1))
            done = True
        except Killed:
            done = False
        victim.close()
        replayed += observer._memory[9]
        found = observer.operate(state)
        assert found in ({stamp}, {stamp + 1})
        before += found == {stamp}
        after += found == {stamp + 1} and not done
        (stamp,) = found
        if done:
            break
    else:
        pytest.fail("a step has no end")
    # Records and journal before it is whole; the changes of the selectors after that.
    assert before >= 7
    assert after == replayed == 5
    observer.close()


STEPPING = """
import json, os, random, signal, sys, time, traceback
from pathlib import Path
from plainchant.live.memory.segments import Segment
from plainchant.core.memory import FAILED
from tests.live.test_memory_segments import change_much, state

def step(path):
    segment = Segment(path)
    stamp = 2
    while True:
        stamp = max(segment.operate(state)) + 1
        segment.operate(lambda copy: change_much(copy, stamp))

path, rounds = Path(sys.argv[1]), int(sys.argv[2])
chance = random.Random(8)
observer = Segment(path)
observer.operate(lambda copy: change_much(copy, 1))
last = 1
for _ in range(rounds):
    child = os.fork()
    if child == 0:
        try:
            step(path)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    end = time.monotonic() + 20
    while observer.operate(state) == {last} and time.monotonic() < end:
        time.sleep(0.0005)
    time.sleep(chance.uniform(0, 0.003))
    os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    found = observer.operate(state)
    assert found is not FAILED, "a lock was held for ever"
    (stamp,) = found
    assert stamp > last
    last = stamp
print(json.dumps({"steps": last}))
"""


def test_processes_that_are_killed_leave_nothing_torn_and_no_lock(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STEPPING, str(path), "25"],
        capture_output=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["steps"] > 25


# --- crashes of the module ----------------------------------------------------------------------------------------------


def test_a_module_that_has_crashed_has_crashed_for_everybody(path: Path, segment: Segment, other: Segment) -> None:
    segment.operate(lambda copy: copy.put(0, Entry(1, 0, "a")))
    other.crash()
    assert segment.has_crashed
    assert segment.operate(lambda copy: copy.entry(0)) is FAILED
    later = Segment(path)
    assert later.operate(lambda copy: 1) is FAILED
    later.close()


def test_a_crash_in_the_middle_of_a_step_fails_it(segment: Segment, other: Segment) -> None:
    assert segment.operate(lambda copy: other.crash()) is FAILED


def test_who_is_stopped_in_a_step_costs_the_module_not_the_others(path: Path, segment: Segment) -> None:
    patient = Segment(path, patience=0.03)
    with path.open("rb+") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        assert patient.operate(lambda copy: 1) is FAILED
    assert patient.gave_up
    assert segment.operate(lambda copy: 1) is FAILED
    assert not segment.gave_up
    patient.close()


def test_who_waits_gets_the_lock_when_it_is_given_back(path: Path, segment: Segment, monkeypatch: pytest.MonkeyPatch) -> None:
    with path.open("rb+") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        waits: list[float] = []

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                fcntl.flock(holder, fcntl.LOCK_UN)

        monkeypatch.setattr(time, "sleep", sleep)
        assert segment.operate(lambda copy: 5) == 5
    assert len(waits) == 3
    assert waits == sorted(waits)
    assert not segment.has_crashed


def test_who_was_stopped_while_it_waited_has_not_waited(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patient = Segment(path, patience=0.02)
    with path.open("rb+") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        times = iter([0.0, 1000.0, 1000.001, 1000.002])
        pauses = 0

        def pause(seconds: float = 0.0) -> None:
            nonlocal pauses
            pauses += 1
            if pauses == 3:
                fcntl.flock(holder, fcntl.LOCK_UN)

        monkeypatch.setattr(time, "monotonic", lambda: next(times))
        monkeypatch.setattr(os, "sched_yield", pause)
        monkeypatch.setattr(time, "sleep", pause)
        assert patient.operate(lambda copy: 5) == 5
    patient.close()
