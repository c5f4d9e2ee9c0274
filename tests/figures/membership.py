"""The pictures of docs/membership.md: stretches of runs of shipped scenarios, drawn by ``plainchant.lab.draw.diagram``.

python -m tests.figures.membership        draws docs/figures/membership-*.svg anew
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Final

import pyarrow as pa

from plainchant.core.model import MS
from plainchant.lab.draw.diagram import diagram
from plainchant.scenario import find, load
from plainchant.sim import run_scenario
from plainchant.trace import TraceBuffer

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"


@dataclasses.dataclass(frozen=True)
class Picture:
    """A stretch of a run (ms), and how many of its messages are drawn."""

    scenario: str
    directory: str
    name: str
    first: int
    last: int
    messages: int

    @property
    def path(self) -> Path:
        return DOCS / "figures" / self.name

    @property
    def command(self) -> str:
        """The command that draws it, as the page has it."""
        stretch = f"--from {self.first}ms --to {self.last}ms --messages {self.messages}"
        return f"plainchant trace {self.directory} --diagram {self.name} {stretch}"


PICTURES: Final = (
    Picture("newtop-crash", "crash", "membership-crash.svg", 395, 970, 6),
    Picture("newtop-virtual-synchrony", "synchrony", "membership-same-view.svg", 545, 580, 8),
    Picture("newtop-partition", "parts", "membership-parts.svg", 280, 580, 6),
    Picture("newtop-partition", "parts", "membership-merge.svg", 980, 1300, 6),
)


@functools.cache
def run_of(scenario: str) -> pa.Table:
    """The trace of a shipped scenario."""
    trace = TraceBuffer()
    run_scenario(load(find(scenario)), trace)
    return trace.table()


def draw(picture: Picture) -> str:
    return diagram(run_of(picture.scenario), first=picture.first * MS, last=picture.last * MS, messages=picture.messages)


if __name__ == "__main__":
    for each in PICTURES:
        each.path.write_text(draw(each), encoding="utf-8")
