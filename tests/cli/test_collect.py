"""``plainchant collect``: spools in, a trace out, whole or not at all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plainchant.cli import main
from plainchant.trace import read, validate
from plainchant.trace.spool import Spool

START = {"version": 1, "protocol": "made-up", "promises": ["integrity", "fifo"]}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Spools of a process that was killed and of one that ended well."""
    monkeypatch.chdir(tmp_path)
    with Spool("spools", run="r0", process="p1", start=START, time=0) as spool:
        spool.send(1, "g", None, 1, [b"one", b"two"])
    with Spool("spools", run="r0", process="p2", start=START, time=0) as spool:
        spool.deliver(2, "g", None, "p1", 1, [b"one", b"two"], None)
        spool.row("end", 3)
    return tmp_path


def test_spools_become_a_valid_trace(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "spools", "--out", "deep/collected"]) == 0
    said = capsys.readouterr()
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert "r0 p1 4 stopped without a word; a crash is noted" in lines
    assert "r0 p2 4 recorded its end" in lines
    assert "1 crash, 2 deliver, 1 end, 2 send, 2 start" in lines
    assert "Written to deep/collected. Check it with: plainchant verify deep/collected" in lines
    assert said.err == ""
    trace = read("deep/collected")
    assert validate(trace.table) == []
    assert sorted(path.name for path in place.iterdir()) == ["deep", "spools"]
    assert main(["trace", "deep/collected", "--kind", "crash"]) == 0
    assert "p1" in capsys.readouterr().out


def test_who_is_said_to_run_gets_no_crash(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "spools", "--alive", "p1", "--out", "collected"]) == 0
    assert "still runs; its history is cut here" in capsys.readouterr().out
    assert "crash" not in read("collected").table.column("kind").to_pylist()


def test_an_unfinished_write_and_an_empty_spool_are_told(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = place / "spools" / "r0" / "p1" / "00000.spool"
    file.write_bytes(file.read_bytes()[:-3])
    empty = place / "spools" / "r0" / "p3"
    empty.mkdir()
    (empty / "00000.spool").touch()
    assert main(["collect", "spools", "--out", "collected"]) == 0
    said = capsys.readouterr()
    assert re.search(r"an unfinished write of \d+ bytes at the end of p1 in run r0 is left out", said.out)
    assert f"warning: {empty} holds nothing" in said.err


def test_a_history_without_its_beginning_wants_to_be_asked_for(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Spool("spools", run="r0", process="p3", start=START, time=0, rotate=1, keep=1) as spool:
        spool.send(1, "g", None, 1, [b"three"])
        spool.flush()
        spool.send(2, "g", None, 2, [b"four"])
    assert main(["collect", "spools", "--out", "collected"]) == 2
    assert "can be looked at (--tail), but not verified" in capsys.readouterr().err
    assert sorted(path.name for path in place.iterdir()) == ["spools"]
    assert main(["collect", "spools", "--tail", "--out", "collected"]) == 0
    said = capsys.readouterr()
    assert "warning: the first 2 rows of p3 are gone; run r0 can be looked at, but not verified" in said.err
    assert "List it with: plainchant trace collected" in said.out
    assert main(["trace", "collected", "--process", "p3"]) == 0
    assert "taken" in capsys.readouterr().out


def test_mistakes_are_sentences_and_leave_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "nowhere", "--out", "collected"]) == 2
    assert "there is no spool at nowhere: it does not exist" in capsys.readouterr().err
    (place / "precious").mkdir()
    (place / "precious" / "file").touch()
    assert main(["collect", "spools", "--out", "precious"]) == 2
    assert "precious exists and is not empty" in capsys.readouterr().err
    file = place / "spools" / "r0" / "p1" / "00000.spool"
    file.write_bytes(file.read_bytes()[:-3] + b"???")
    assert main(["collect", "spools", "--out", "collected"]) == 2
    assert "00000.spool is damaged at byte" in capsys.readouterr().err
    assert sorted(path.name for path in place.iterdir()) == ["precious", "spools"]
