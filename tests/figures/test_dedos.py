"""The timing diagram of dedos is what the protocol does."""

from __future__ import annotations

import re

import pytest

from plainchant.lab.draw.svg import width_of
from tests.figures.dedos import PICTURES, draw
from tests.figures.mailbox import Picture
from tests.figures.membership import DOCS


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_is_what_the_protocol_does(picture: Picture) -> None:
    page = (DOCS / "hierarchy.md").read_text(encoding="utf-8")
    for command in picture.commands:
        assert f"$ {command}\n" in page
    assert f"(figures/{picture.name})" in page
    assert picture.path.read_text(encoding="utf-8") == draw(picture), "python -m tests.figures.dedos makes it anew"


def test_the_picture_shows_the_way_of_a_message() -> None:
    """Into the boxes of its sender's node, spares first; to the distributor on n1, and back; into the mailboxes, and out."""
    shown = draw(PICTURES[0])
    for operation in (
        "n2.b: store in copy 2, 300,050.0 µs", "n2.b: store in copy 1, 300,100.0 µs", "n1.a: store in copy 1, 301,200.0 µs",
        "n2.a: store in copy 2, 302,200.0 µs", "n2.a: store in copy 1, 302,250.0 µs",
    ):  # fmt: skip
        assert operation in shown
    for process in ("n1.a", "n1.b", "n2.a", "n2.b"):
        assert f"{process} delivers g/n2.b/1" in shown


def test_no_word_is_cut_off_at_the_edge() -> None:
    shown = draw(PICTURES[0])
    width = float(re.findall(r'<svg [^>]*width="(\d+)"', shown)[0])
    words = re.findall(r'class="marktext" x="([\d.]+)"[^>]*><title>[^<]*</title>(\w+)<', shown)
    assert len(words) == 4
    assert all(float(x) + width_of(word) <= width for x, word in words)
