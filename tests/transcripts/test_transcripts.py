"""Every transcript is what its scenario gives today, word for word, and its run keeps what the protocol promises.

``pytest tests/transcripts --rewrite-transcripts`` writes them anew: read the difference before it is committed.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from .driver import SEPARATOR, play, split

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*/*.txt"))
LONGEST = 80
"""Lines of a transcript that a person still reads."""


def name_of(file: Path) -> str:
    return str(file.relative_to(HERE).with_suffix(""))


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_transcript(file: Path, request: pytest.FixtureRequest) -> None:
    played = play(file)
    assert [name for name, outcome in played.verification.properties.items() if outcome.violations] == list(played.breaks)
    assert played.breaks or played.verification.verdict == "holds"
    assert played.summary.quiet != played.waits, played.summary.not_quiet
    header, expected = split(file.read_text())
    if request.config.getoption("--rewrite-transcripts"):
        file.write_text(header + SEPARATOR + played.text)
        return
    name = name_of(file)
    difference = difflib.unified_diff(
        expected.splitlines(), played.text.splitlines(), f"{name} as written", f"{name} as played", lineterm=""
    )
    shown = "\n".join(difference)
    if shown:
        pytest.fail(f"it has changed; if that is right, run with --rewrite-transcripts\n{shown}", pytrace=False)


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_transcript_can_be_read(file: Path) -> None:
    header, transcript = split(file.read_text())
    assert header.startswith("# "), "it says first what it shows"
    assert 0 < len(transcript.splitlines()) <= LONGEST


def test_a_transcript_is_the_same_when_it_is_played_again() -> None:
    assert play(FILES[0]).text == play(FILES[0]).text
