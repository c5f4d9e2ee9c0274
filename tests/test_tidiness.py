"""Files are whole and of a size that a person can hold: no conflict markers, and long files only with a reason."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 700
"""Lines of a source file. A longer one has its reason in ``long_files.toml``."""
REASONS = tomllib.loads(Path(__file__).with_name("long_files.toml").read_text())
MARKER = re.compile(r"^(<{7}|>{7}|\|{7})( |$)|^={7}$", re.MULTILINE)


def tracked(*patterns: str) -> list[Path]:
    """Files of the repository, also those that are about to be added."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def markers(text: str) -> list[int]:
    """Lines with a mark of a merge that was not finished. Seven equals signs alone may be a heading's underline."""
    found = [text.count("\n", 0, match.start()) + 1 for match in MARKER.finditer(text)]
    return found if any(mark in text for mark in ("<" * 7, ">" * 7)) else []


def test_no_file_has_conflict_markers() -> None:
    offences = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        offences += [f"{path.relative_to(ROOT)}:{line}" for line in markers(text)]
    assert not offences, "a merge was not finished:\n" + "\n".join(offences)


@pytest.mark.parametrize("mark", ["<" * 7 + " HEAD", ">" * 7 + " main"])
def test_planted_markers_are_found(mark: str) -> None:
    assert markers(f"one\n{mark}\ntwo\n") == [2]
    assert not markers("A heading\n" + "=" * 7 + "\n")


def lengths() -> dict[str, int]:
    """Lines of each source file."""
    files = tracked("src/*.py", "papers/*.py", "workbench/*.py")
    return {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in files}


def test_long_files_have_a_reason() -> None:
    long = {name: lines for name, lines in lengths().items() if lines > LONGEST}
    assert not long.keys() - REASONS.keys(), f"two ideas, or a reason for long_files.toml: {long}"
    assert not REASONS.keys() - long.keys(), "no longer long: take them off the list"
    assert all(len(reason.split()) > 4 for reason in REASONS.values())
