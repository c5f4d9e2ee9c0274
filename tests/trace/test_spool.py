"""A spool is readable at any time, up to its last whole flush, whatever stopped its process."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from plainchant.core.model import TraceError, UsageError
from plainchant.trace import spool as spool_module
from plainchant.trace.spool import BLOCK, MAGIC, Accepted, Delivered, Other, Sent, Spool
from plainchant.trace.spool_reader import SpoolReader, open_spools

START = {"version": 1, "protocol": "made-up", "promises": ["integrity"]}


def begun(directory: Path, process: str = "p1", **options: Any) -> Spool:
    return Spool(directory, run="r0", process=process, start=START, time=0, **options)


def kinds(directory: Path) -> list[list[str]]:
    """The kind of each record, flush by flush."""
    (reader,) = open_spools([directory])
    names = {Sent: "send", Delivered: "deliver", Accepted: "accept"}
    return [
        [read.names[record.kind] if isinstance(record, Other) else names[type(record)] for record in read.block.records]
        for read in reader.blocks()
    ]


def turn(spool: Spool, number: int) -> None:
    """A turn with a record of each sort, sizes that differ, and a name that is new."""
    spool.accept(number, "g", [b"x" * number, b"y"])
    spool.send(number, "g", 1, 2 * number + 1, [b"x" * number, b"y"])
    spool.deliver(number, "g", 1, f"p{number}", 1, [b"abc", b"def", b"ghi"], number)
    spool.row("suspect", number, "g", 1, f"q{number}", detail={"why": number})
    spool.packets(number)
    spool.flush()


# --- what is written ------------------------------------------------------------------------------------------------


def test_a_spool_begins_with_its_start_row_on_disk(tmp_path: Path) -> None:
    with begun(tmp_path) as spool:
        (reader,) = open_spools([tmp_path])
        (read,) = reader.blocks()
        (record,) = read.block.records
        assert isinstance(record, Other)
        assert (read.names[record.kind], record.time) == ("start", 0)
        assert record.detail == '{"promises":["integrity"],"protocol":"made-up","version":1}'
        assert reader.header is not None
        assert (reader.header.run, reader.header.process, reader.header.index) == ("r0", "p1", 0)
        assert spool.directory == tmp_path / "r0" / "p1"


def test_batches_are_one_record_with_a_digest_a_message(tmp_path: Path) -> None:
    payloads = [b"one", b"two", b"six"]
    with begun(tmp_path) as spool:
        spool.deliver(7, "g", 3, "p2", 10, payloads, 5)
        spool.send(8, "g", 3, 1, [b"a", b"bc"])
    (reader,) = open_spools([tmp_path])
    _, read = reader.blocks()
    delivered, sent = read.block.records
    assert isinstance(delivered, Delivered)
    assert isinstance(sent, Sent)
    digests = b"".join(crc32(payload).to_bytes(4, sys.byteorder) for payload in payloads)
    assert delivered == Delivered(7, read.names.index("g"), 3, read.names.index("p2"), 10, 5, 3, digests)
    assert sent.sizes == b"".join(size.to_bytes(4, sys.byteorder) for size in (1, 2))
    assert read.rows == 5


def test_a_flush_with_nothing_to_tell_writes_nothing_and_its_packets_go_to_the_next(tmp_path: Path) -> None:
    with begun(tmp_path) as spool:
        file = spool.directory / "00000.spool"
        before = file.stat().st_size
        spool.packets(2)
        spool.send(1, "g", 1, 1, [])
        spool.deliver(1, "g", 1, "p2", 1, [], None)
        spool.accept(1, "g", [])
        spool.flush()
        assert file.stat().st_size == before
        spool.packets(3)
        spool.row("end", 1)
        spool.flush()
        spool.row("end", 2)
        spool.flush()
    (reader,) = open_spools([tmp_path])
    assert [read.block.packets for read in reader.blocks()] == [0, 5, 0]


def test_a_name_is_written_once(tmp_path: Path) -> None:
    with begun(tmp_path) as spool:
        for number in range(1, 4):
            spool.deliver(number, "a-group-with-a-long-name", 1, "p2", number, [b"x"], None)
            spool.flush()
    assert (tmp_path / "r0" / "p1" / "00000.spool").read_bytes().count(b"a-group-with-a-long-name") == 1
    (reader,) = open_spools([tmp_path])
    assert [list(read.block.names) for read in reader.blocks()] == [["start"], ["a-group-with-a-long-name", "p2"], [], []]


def test_a_detail_is_kept_as_it_was_when_it_was_told(tmp_path: Path) -> None:
    detail = {"count": 1}
    with begun(tmp_path) as spool:
        spool.row("suspect", 1, detail=detail)
        detail["count"] = 2
    (reader,) = open_spools([tmp_path])
    *_, read = reader.blocks()
    (record,) = read.block.records
    assert isinstance(record, Other)
    assert record.detail == '{"count":1}'


# --- where it is written --------------------------------------------------------------------------------------------


def test_two_incarnations_have_two_directories(tmp_path: Path) -> None:
    for process in ("p3", "p3#1", "../p3", "."):
        begun(tmp_path, process).close()
    assert sorted(path.name for path in (tmp_path / "r0").iterdir()) == ["%2E", "%2E.%2Fp3", "p3", "p3%231"]
    names = [reader.header.process for reader in open_spools([tmp_path]) if reader.header is not None]
    assert names == [".", "../p3", "p3", "p3#1"]


def test_a_history_is_never_written_over(tmp_path: Path) -> None:
    begun(tmp_path).close()
    with pytest.raises(TraceError, match=r"already holds a history of p1 in run r0; a restarted process has a new name"):
        begun(tmp_path)


@pytest.mark.parametrize(("rotate", "keep"), [(0, 0), (1, -1)])
def test_limits_that_make_no_sense_are_refused(tmp_path: Path, rotate: int, keep: int) -> None:
    with pytest.raises(UsageError, match="rotate is at least 1, keep at least 0"):
        begun(tmp_path, rotate=rotate, keep=keep)


def test_a_process_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="without a name"):
        begun(tmp_path, "")


def test_a_directory_that_cannot_be_made_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "r0").write_text("in the way")
    with pytest.raises(TraceError, match="cannot write the spool of p1"):
        begun(tmp_path)


# --- rotation -------------------------------------------------------------------------------------------------------


def test_each_file_can_be_read_without_those_before_it(tmp_path: Path) -> None:
    with begun(tmp_path, rotate=300) as spool:
        for number in range(1, 30):
            turn(spool, number)
    files = sorted(spool.directory.iterdir())
    assert [file.name for file in files] == [f"{number:05d}.spool" for number in range(len(files))]
    assert len(files) > 5
    (whole,) = open_spools([tmp_path])
    expected = list(whole.blocks())
    assert len(expected) == 30
    assert whole.torn == 0
    for file in files[:3]:
        file.unlink()
    (rest,) = open_spools([tmp_path])
    found = list(rest.blocks())
    assert rest.first == sum(read.rows for read in expected[: -len(found)])
    assert [read.block.records for read in found] == [read.block.records for read in expected[-len(found) :]]
    # Names that a record uses are known, in whichever file they stood first.
    assert found[-1].names == expected[-1].names


@pytest.mark.parametrize("keep", [1, 3])
def test_only_the_last_files_are_kept_if_asked_for(tmp_path: Path, keep: int) -> None:
    with begun(tmp_path, rotate=300, keep=keep) as spool:
        for number in range(1, 30):
            turn(spool, number)
            assert len(list(spool.directory.iterdir())) <= keep
    (reader,) = open_spools([tmp_path])
    assert reader.first > 0
    assert len(reader.files) == keep
    *_, last = reader.blocks()
    assert last.block.records[-1].time == 29


# --- torn, damaged, unwritable --------------------------------------------------------------------------------------


def test_torn_at_any_byte_the_flushes_before_it_are_read(tmp_path: Path) -> None:
    with begun(tmp_path / "whole", rotate=250) as spool:
        for number in range(1, 6):
            turn(spool, number)
    (reader,) = open_spools([tmp_path / "whole"])
    whole = [read.block for read in reader.blocks()]
    assert len(reader.files) >= 2
    last = reader.files[-1].path
    content = last.read_bytes()
    before = sum(1 for read in reader.blocks() if read.read <= reader.size - len(content))
    torn = tmp_path / "torn"
    shutil.copytree(reader.directory, torn)
    lengths = set()
    for size in range(len(content) + 1):
        (torn / last.name).write_bytes(content[:size])
        (cut,) = open_spools([torn])
        found = list(cut.blocks())
        assert [read.block for read in found] == whole[: len(found)]
        assert (cut.torn == 0) == (size in (0, len(content)) or _ends_in_a_block(content, size))
        assert len(found) >= before
        lengths.add(len(found))
    assert lengths == set(range(before, len(whole) + 1))


def _ends_in_a_block(content: bytes, size: int) -> bool:
    at = len(MAGIC)
    while at < size:
        at += BLOCK.size + BLOCK.unpack_from(content, at)[0]
    return at == size and at > len(MAGIC)


def test_torn_in_the_only_file_there_is(tmp_path: Path) -> None:
    with begun(tmp_path) as spool:
        turn(spool, 1)
    file = spool.directory / "00000.spool"
    content = file.read_bytes()
    counts = []
    for size in range(len(content) + 1):
        file.write_bytes(content[:size])
        (reader,) = open_spools([tmp_path])
        counts.append(len(list(reader.blocks())))
        assert reader.torn <= size
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2}


def test_every_altered_byte_is_found(tmp_path: Path) -> None:
    with begun(tmp_path) as spool:
        turn(spool, 1)
    file = spool.directory / "00000.spool"
    content = file.read_bytes()
    for place in range(len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :])
        with pytest.raises(TraceError, match=r"is damaged at byte \d+|is no spool"):
            list(SpoolReader(spool.directory).blocks())


def test_a_torn_or_missing_file_in_the_middle_is_damage(tmp_path: Path) -> None:
    with begun(tmp_path, rotate=250) as spool:
        for number in range(1, 10):
            turn(spool, number)
    middle = spool.directory / "00001.spool"
    content = middle.read_bytes()
    middle.write_bytes(content[:-1])
    with pytest.raises(TraceError, match="its last block is not whole, though another file follows"):
        list(SpoolReader(spool.directory).blocks())
    middle.write_bytes(content[: content.index(b"suspect")])
    with pytest.raises(TraceError, match="damaged"):
        list(SpoolReader(spool.directory).blocks())
    middle.unlink()
    with pytest.raises(TraceError, match=r"lacks file 00001\.spool"):
        SpoolReader(spool.directory)


def test_a_block_that_is_missing_before_the_next_file_is_damage(tmp_path: Path) -> None:
    with begun(tmp_path, rotate=600) as spool:
        for number in range(1, 10):
            turn(spool, number)
    (reader,) = open_spools([tmp_path])
    ends = [read.read for read in reader.blocks() if read.read < reader.files[0].size]
    first = reader.files[0].path
    first.write_bytes(first.read_bytes()[: ends[-1]])
    with pytest.raises(TraceError, match=r"it begins with row \d+, but the files before it end with row \d+"):
        list(SpoolReader(spool.directory).blocks())


def test_a_file_of_another_process_does_not_go_on(tmp_path: Path) -> None:
    for process in ("p1", "p2"):
        with begun(tmp_path, process, rotate=250) as spool:
            turn(spool, 1)
            turn(spool, 2)
    shutil.copy(tmp_path / "r0/p2/00001.spool", tmp_path / "r0/p1/00001.spool")
    with pytest.raises(TraceError, match="it is of p2 in run r0"):
        list(SpoolReader(tmp_path / "r0/p1").blocks())


def test_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "FORMAT", 2)
    begun(tmp_path).close()
    with pytest.raises(TraceError, match="a spool of version 2, newer than 1"):
        open_spools([tmp_path])


def test_a_full_disk_stops_the_spool_and_what_was_flushed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = begun(tmp_path)
    turn(spool, 1)
    write = os.write

    def half(file: int, data: bytes) -> int:
        """Takes a part of the data, and next time says that there is no room."""
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[: len(data) - 50])

    monkeypatch.setattr(os, "write", half)
    spool.row("suspect", 2, detail={"text": "x" * 100})
    with pytest.raises(TraceError, match="No space left on device; make room or choose another directory"):
        spool.flush()
    monkeypatch.undo()
    for _ in range(2):
        spool.row("end", 3)
        with pytest.raises(TraceError, match="cannot write the spool of p1"):
            spool.flush()
    spool.close()
    (reader,) = open_spools([tmp_path])
    assert len(list(reader.blocks())) == 2
    assert reader.torn > 0
    assert not reader.alive


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))
    with begun(tmp_path) as spool:
        turn(spool, 1)
    assert kinds(tmp_path) == [["start"], ["accept", "send", "deliver", "suspect"]]


def test_what_cannot_be_recorded_is_said(tmp_path: Path) -> None:
    spool = begun(tmp_path)
    with pytest.raises(TraceError, match="is not JSON"):
        spool.row("suspect", 1, detail={"what": object()})
    spool.row("suspect", 2**70)
    with pytest.raises(TraceError, match="a value of this turn cannot be recorded"):
        spool.flush()
    assert kinds(tmp_path) == [["start"]]


def test_nothing_is_taken_after_closing(tmp_path: Path) -> None:
    spool = begun(tmp_path)
    spool.close()
    spool.close()
    spool.row("end", 1)
    with pytest.raises(TraceError, match="is closed"):
        spool.flush()


# --- who lives ------------------------------------------------------------------------------------------------------


def test_who_writes_is_seen_to_live(tmp_path: Path) -> None:
    with begun(tmp_path, rotate=250) as spool:
        for number in range(1, 6):
            turn(spool, number)
            (reader,) = open_spools([tmp_path])
            assert reader.alive
    (reader,) = open_spools([tmp_path])
    assert not reader.alive


def test_a_reader_reads_the_same_again_while_the_process_writes_on(tmp_path: Path) -> None:
    with begun(tmp_path, rotate=250) as spool:
        turn(spool, 1)
        (reader,) = open_spools([tmp_path])
        before = [read.block for read in reader.blocks()]
        for number in range(2, 9):
            turn(spool, number)
        assert [read.block for read in reader.blocks()] == before


KILLED = """
import os, signal, sys
from plainchant.trace.spool import Spool

spool = Spool(sys.argv[1], run="r0", process="p1", start={"version": 1}, time=0, rotate=2_000)
for number in range(1, 101):
    spool.send(number, "g", None, number, [b"x" * number])
    spool.flush()
spool.send(101, "g", None, 101, [b"never flushed"])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_is_read_to_its_last_flush_and_known_to_be_dead(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60)
    assert ended.returncode == -signal.SIGKILL
    (reader,) = open_spools([tmp_path])
    assert not reader.alive
    assert len(reader.files) > 1
    assert [record.time for read in reader.blocks() for record in read.block.records] == list(range(101))
    assert reader.torn == 0


# --- looking for spools ---------------------------------------------------------------------------------------------


def test_spools_are_found_at_any_depth_once(tmp_path: Path) -> None:
    for process in ("p2", "p1"):
        begun(tmp_path / "deep" / "er", process).close()
    readers = open_spools([tmp_path, tmp_path / "deep" / "er" / "r0" / "p1"])
    assert [reader.directory.name for reader in readers] == ["p1", "p2"]


def test_a_place_without_spools_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, problem in ((tmp_path, "contains no"), (tmp_path / "file", "is no directory"), (tmp_path / "x", "does not exist")):
        with pytest.raises(TraceError, match=f"there is no spool at .*: it {problem}"):
            open_spools([path])


def test_two_spools_of_one_process_are_refused(tmp_path: Path) -> None:
    for directory in ("monday", "tuesday"):
        begun(tmp_path / directory).close()
    with pytest.raises(TraceError, match="are both of process p1 in run r0"):
        open_spools([tmp_path])


def test_files_that_are_no_spools_are_refused(tmp_path: Path) -> None:
    spool = begun(tmp_path)
    spool.close()
    (spool.directory / "notes.spool").touch()
    with pytest.raises(TraceError, match="files that no process has recorded"):
        open_spools([tmp_path])
    (spool.directory / "notes.spool").unlink()
    (spool.directory / "00000.spool").write_bytes(b"something else")
    with pytest.raises(TraceError, match="is no spool"):
        open_spools([tmp_path])
