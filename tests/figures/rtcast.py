"""The pictures of a token ring, stretches of the scenario ``rtcast-ring``, and the story beside them in docs/explain.md.

python -m tests.figures.rtcast        draws docs/figures/rtcast-*.svg anew, and writes the story anew
"""

from __future__ import annotations

import re
import textwrap
from typing import Final

from plainchant.lab.explain.explainer import Explainer
from tests.figures.membership import DOCS, Picture, draw, run_of

SCENARIO: Final = "rtcast-ring"
PICTURES: Final = (
    Picture(SCENARIO, "ring", "rtcast-crash.svg", 294, 330, 3),
    Picture(SCENARIO, "ring", "rtcast-join.svg", 569, 595, 2),
)
PAGE: Final = DOCS / "explain.md"
STORY: Final = re.compile(r"(?<=\n## A token ring\n)(.*?```text\n)(.*?)(?=```)", re.DOTALL)
"""The part of the page with the story, which is its second group."""


def story() -> str:
    """The story of the crash as ``plainchant explain`` tells it, in lines that fit the page."""
    told = Explainer(run_of(SCENARIO)).view("g", 3)
    lines = [told.title, ""]
    for step in told.steps:
        lines.append(f"{step.when / 1e6:12.3f} ms  {step.what}")
        if step.because:
            lines.append(f"{'':15}    because: {step.because}")
    lines += ["", told.conclusion]
    wrapped = [textwrap.fill(line, 125, subsequent_indent=" " * (len(line) - len(line.lstrip()))) for line in lines]
    return "\n".join(wrapped) + "\n"


if __name__ == "__main__":
    for each in PICTURES:
        each.path.write_text(draw(each), encoding="utf-8")
    PAGE.write_text(STORY.sub(lambda found: found[1] + story(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
