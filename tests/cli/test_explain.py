"""``plainchant explain``: what it prints, as text and as JSON, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.cli import main


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The directory of a run in which the sequencer crashes."""
    directory = tmp_path_factory.mktemp("explain") / "crash"
    settings = ["--set", "duration=1300ms", "--no-verify"]
    assert main(["run", "sequencer-crash", *settings, "--out", str(directory)]) == 0
    return str(directory)


def test_the_story_of_a_view(crash: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", crash, "--view", "g/2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("How view 2 of g {p2, p3, p4, p5} came to be, after view 1")
    for part in ("p1 crashes in the middle of a broadcast", "suspects p1", "because: p", "installs view 2", "takes office"):
        assert part in out
    assert "delivered the same" in out


def test_a_group_without_a_number_lists_its_views(crash: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", crash, "--view", "g"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("The views of g\n")
    assert "view 2 {p2, p3, p4, p5}, installed by all 4" in out
    assert out.endswith("3 views. The story of the last: --view g/3\n")


def test_the_life_of_a_message_as_json(crash: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", crash, "--message", "g/p4/56", "--json"]) == 0
    story = json.loads(capsys.readouterr().out)
    assert story["title"] == "The life of message g/p4/56"
    assert set(story) == {"run", "title", "steps", "conclusion"}
    assert set(story["steps"][0]) == {"process", "index", "when", "what", "because"}
    assert "elected" in story["conclusion"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "explain what?"),
        (["--message", "g/p1/1", "--view", "g/1"], "explain what?"),
        (["--message", "g"], "does not name a message"),
        (["--view", "g/two"], "does not name a view"),
        (["--view", "h"], "no view of a group 'h' is recorded in this run; its groups are g"),
        (["--view", "g/2", "--process", "p1"], "p1 did not install view 2 of group 'g'; it was installed by"),
        (["--message", "g/p1/1", "--process", "p1"], "it goes with --view"),
        (["--view", "g/77"], "its views are 1, 2 and 3"),
        (["--message", "g/p1/70000"], "there is no message g/p1/70000 in this run; list those there are with: plainchant trace"),
        (["--message", "g/p1/1", "--run", "nope"], 'there is no run "nope"'),
    ],
)
def test_a_slip_is_one_sentence_and_exit_2(
    crash: str, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", crash, *arguments]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert "Traceback" not in err


def test_a_path_without_a_trace_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.parquet").write_text("no parquet")
    assert main(["explain", str(tmp_path / "nowhere"), "--view", "g/1"]) == 2
    assert main(["explain", str(tmp_path / "broken.parquet"), "--view", "g/1"]) == 2
    assert "not a readable Parquet file" in capsys.readouterr().err


@pytest.mark.parametrize("question", [["--view", "g"], ["--standstill"], ["--process", "p1"], ["--message", "g/p4/56"]])
@pytest.mark.parametrize("damage", ["a page", "a name"])
def test_a_corrupt_file_is_a_sentence(
    crash: str, question: list[str], damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = Path(crash, "trace").glob("*.parquet")
    if damage == "a page":
        content = bytearray(file.read_bytes())
        for place in range(500, 3500):
            content[place] ^= 0x5A
        (tmp_path / "a.parquet").write_bytes(content)
    else:
        rows = pq.read_table(file, partitioning=None)
        raw = pa.array([b"p\xff" if name == "p2" else name.encode() for name in rows.column("process").to_pylist()], pa.binary())
        names = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
        pq.write_table(rows.set_column(rows.column_names.index("process"), "process", names), tmp_path / "a.parquet")
    assert main(["explain", str(tmp_path), *question]) == 2
    complaint = capsys.readouterr().err
    assert f"cannot read {tmp_path}: " in complaint
    assert "find the damaged file with `plainchant verify`" in complaint
