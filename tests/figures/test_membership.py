"""The pictures and stories of docs/membership.md are what the protocol does."""

from __future__ import annotations

import re

import pytest

from plainchant.lab.explain.explainer import Explainer
from tests.figures.membership import DOCS, PICTURES, Picture, draw, run_of

PAGE = (DOCS / "membership.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_is_what_the_protocol_does(picture: Picture) -> None:
    assert f"$ plainchant run {picture.scenario} --out {picture.directory}" in PAGE
    assert f"$ {picture.command}\n" in PAGE
    assert f"(figures/{picture.name})" in PAGE
    assert picture.path.read_text(encoding="utf-8") == draw(picture), "python -m tests.figures.membership draws it anew"


def test_the_story_is_what_explain_tells() -> None:
    (quoted,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    steps = Explainer(run_of("newtop-crash")).view("g", 3).steps
    told = {f"{step.when / 1e6:.3f} ms  {step.what}" for step in steps} | {f"because: {step.because}" for step in steps}
    missing = [line.strip() for line in quoted.splitlines() if line.strip() not in told]
    assert not missing
