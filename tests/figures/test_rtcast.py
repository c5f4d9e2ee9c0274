"""The pictures and the story of a token ring in docs/explain.md are what the protocol does."""

from __future__ import annotations

import pytest

from tests.figures.membership import Picture, draw
from tests.figures.rtcast import PAGE, PICTURES, STORY, story

ANEW = "python -m tests.figures.rtcast makes it anew"


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_is_what_the_protocol_does(picture: Picture) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"$ plainchant run {picture.scenario} --out {picture.directory}" in page
    assert f"$ {picture.command}\n" in page
    assert f"(figures/{picture.name})" in page
    assert picture.path.read_text(encoding="utf-8") == draw(picture), ANEW


def test_the_pictures_show_what_they_are_for() -> None:
    crash, join = (draw(picture) for picture in PICTURES)
    for words in ("ben crashes", "cyd eliminates ben", "turn after a timeout, without the token", "ann installs view 3"):
        assert words in crash
    assert crash.count("the token passes from ") >= 10
    for words in ("asks ann for a place on the ring", "asks all members whether P may grow", "eve votes for P", "ben#1 has turn"):
        assert words in join


def test_the_story_is_what_explain_tells() -> None:
    found = STORY.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found[2] == story(), ANEW
