"""Output directories are whole or not there at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from plainchant.cli.output import OutputError, refuse_occupied, staged


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
