"""``plainchant import``: a log in, a trace out, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from plainchant.cli import main
from plainchant.trace import read, validate

MAPPING = r"""
[[line]]
match = '^(?P<process>\S+) (?P<kind>\S+) (?P<group>\S+) (?P<sender>\S+) (?P<id>\S+)$'
"""
LOG = "p1 send g1 p1 42\np3 deliver g1 p1 42\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "map.toml").write_text(MAPPING)
    (tmp_path / "a.log").write_text(LOG)
    return tmp_path


def run(*arguments: str) -> int:
    return main(["import", *arguments, "--map", "map.toml"])


@pytest.mark.parametrize("out", ["a.parquet", "deep/er/a.parquet", "directory"])
def test_a_log_becomes_a_valid_trace(place: Path, out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("a.log", "--out", out) == 0
    said = capsys.readouterr().out
    assert "1 deliver, 1 send, 2 start" in said
    assert f"plainchant verify {out}" in said
    trace = read(out)
    assert validate(trace.table) == []
    assert trace.table.num_rows == 4
    left = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
    assert left == sorted(["a.log", "map.toml", out if out.endswith("parquet") else f"{out}/trace/part-00000.parquet"])


def test_the_same_log_gives_the_same_bytes(place: Path) -> None:
    assert run("a.log", "--out", "1.parquet") == run("a.log", "--out", "2.parquet") == 0
    assert Path("1.parquet").read_bytes() == Path("2.parquet").read_bytes()


@pytest.mark.parametrize("out", ["a.parquet", "new/a.parquet", "directory"])
def test_a_line_that_nobody_described_stops_it_and_nothing_is_left(
    place: Path, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "a.log").write_text(LOG + "something else\n")
    assert run("a.log", "--out", out) == 2
    assert "1 of 3 lines match no [[line]]" in capsys.readouterr().err
    assert sorted(path.name for path in place.iterdir()) == ["a.log", "map.toml"]


def test_nothing_is_written_over(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "a.parquet").write_text("precious")
    assert run("a.log", "--out", "a.parquet") == 2
    assert "a.parquet exists" in capsys.readouterr().err
    assert (place / "a.parquet").read_text() == "precious"


def test_warnings_go_to_standard_error(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "a.log").write_text("p3 deliver g1 p1 42\n")
    assert run("a.log", "--out", "a.parquet") == 0
    assert "warning: a.log, line 1: message 42 of p1 in g1 has no send" in capsys.readouterr().err


def test_a_missing_mapping_is_a_sentence(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "a.log", "--map", "nowhere.toml", "--out", "x"]) == 2
    assert "cannot read the mapping nowhere.toml" in capsys.readouterr().err
