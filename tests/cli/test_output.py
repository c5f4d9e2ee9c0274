"""Output directories are whole or not there at all."""

from __future__ import annotations

import errno
import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from plainchant.cli import main
from plainchant.cli.output import OutputError, refuse_occupied, staged, write_whole


def everything(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_what_was_written_appears_at_the_end(tmp_path: Path) -> None:
    with staged(tmp_path / "a" / "out") as directory:
        (directory / "file").write_text("x")
        assert not (tmp_path / "a" / "out").exists()
        assert directory.name.startswith(".out.partial")
    assert everything(tmp_path) == ["a", "a/out", "a/out/file"]


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with staged(tmp_path / "out") as directory:
        (directory / "file").write_text("x")
    assert everything(tmp_path) == ["out", "out/file"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("x"), SystemExit(1)])
def test_nothing_is_left_after_an_exception(tmp_path: Path, error: BaseException) -> None:
    def fail() -> None:
        with staged(tmp_path / "a" / "b" / "out") as directory:
            (directory / "file").write_text("x")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert everything(tmp_path) == []


@pytest.mark.parametrize(
    "command",
    [
        ("run", "first-steps", "--out", "s3://bucket/first"),
        ("sweep", "first-steps", "--seeds", "0:1", "--out", "s3://bucket/swept"),
        ("report", "first", "--out", "s3://bucket/report.html"),
        ("verify", "first", "--json", "s3a://bucket/verdict.json"),
    ],
)
def test_an_address_is_no_place_for_results(
    command: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "first-steps", "--out", "first"]) == 0
    assert main(list(command)) == 2
    assert "is an address, and results go to files and directories" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"first"}


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    def fail() -> None:
        with staged(tmp_path / "out"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OutputError, match=r"cannot write to .*out: No space left on device; nothing was kept there; make room"):
        fail()
    assert everything(tmp_path) == []


def test_a_place_below_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    said = r"cannot write to .*Not a directory.*; choose another directory"  # making room would not help
    with pytest.raises(OutputError, match=said), staged(tmp_path / "file" / "out"):
        pass


def test_what_is_there_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="exists and is not empty; name another directory with --out"):
        refuse_occupied(tmp_path / "out")
    for name in ("file", "link"):
        with pytest.raises(OutputError, match="exists and is not a directory"):
            refuse_occupied(tmp_path / name)


def test_what_may_be_replaced_goes_only_when_the_new_one_is_complete(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("x")

    def fail() -> None:
        with staged(tmp_path / "out", replace=lambda target: True):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert everything(tmp_path) == ["out", "out/old"]
    with staged(tmp_path / "out", replace=lambda target: True) as directory:
        (directory / "new").write_text("x")
    assert everything(tmp_path) == ["out", "out/new"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A directory with a trace that violates something, so that all that commands write is more than nothing."""
    made = tmp_path_factory.mktemp("output") / "why"
    assert main(["run", "why-resilience", "--out", str(made)]) == 0
    return str(made)


@pytest.fixture
def no_room() -> Iterator[None]:
    """Files end after some bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


WRITING = [
    ["run", "first-steps", "--no-verify", "--set", "duration=50ms", "--out", "made"],
    ["metrics", "{run}", "--json", "made.json"],
    ["metrics", "{run}", "--csv", "made.csv"],
    ["metrics", "{run}", "--out", "made"],
    ["report", "{run}", "--out", "made.html"],
    ["trace", "{run}", "--export", "chrome", "--out", "made.json"],
    ["trace", "{run}", "--diagram", "made.svg"],
    ["sweep", "first-steps", "--seeds", "0:1", "--out", "made"],
    ["key", "new", "made.key"],
]


@pytest.mark.parametrize("command", WRITING, ids=lambda command: " ".join(command[:1] + command[-2:]))
@pytest.mark.usefixtures("no_room")
def test_a_disk_without_room_leaves_a_sentence_and_nothing_else(
    command: list[str], run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([word.format(run=run) for word in command]) == 2
    assert re.search("(cannot write|cannot be written).*File too large", capsys.readouterr().err)
    assert everything(tmp_path) == []


@pytest.mark.usefixtures("no_room")
def test_violations_without_room_leave_nothing(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("all.parquet", "all.jsonl"):
        assert main(["verify", run, "--property", "uniform", "--violations", str(tmp_path / name)]) == 2
        assert f"cannot write {tmp_path / name}: " in capsys.readouterr().err
        assert everything(tmp_path) == []


def test_what_cannot_even_be_removed_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that is read-only refuses the removal of what was not written, too."""

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(OutputError, match=r"cannot write .*out.json: Read-only file system; choose another place"):
        write_whole(tmp_path / "out.json", "{}")


@pytest.mark.parametrize(
    "command", [["trace", "{run}"], ["explain", "{run}", "--view", "g"], ["metrics", "{run}", "--json", "-"], ["protocols"]]
)
def test_a_standard_output_that_takes_nothing_is_a_sentence(command: list[str], run: str) -> None:
    words = [sys.executable, "-m", "plainchant", *(word.format(run=run) for word in command)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "plainchant: cannot write the output: No space left on device; make room or choose another place\n"
