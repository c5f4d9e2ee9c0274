"""The timing diagrams of common memory in docs/trace.md are what the protocol does."""

from __future__ import annotations

import pytest

from tests.figures.mailbox import PAGE, PICTURES, Picture, draw


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_is_what_the_protocol_does(picture: Picture) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for command in picture.commands:
        assert f"$ {command}\n" in page
    assert f"(figures/{picture.name})" in page
    assert picture.path.read_text(encoding="utf-8") == draw(picture), "python -m tests.figures.mailbox makes it anew"


def test_the_pictures_show_a_send_and_a_receive() -> None:
    first, second = (draw(picture) for picture in PICTURES)
    for picture, copies in ((first, 3), (second, 2)):
        for copy in range(1, copies + 1):
            for operation in ("write", "flag", "decide", "finish"):
                assert f"p2: {operation} in copy {copy}," in picture
        assert "p3: read in copy 1," in picture
        assert "p3 delivers g/p2/1" in picture
