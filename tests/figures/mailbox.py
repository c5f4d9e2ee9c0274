"""The timing diagrams of common memory in docs/trace.md: a Send and a Receive of the first protocol, and of the second.

python -m tests.figures.mailbox       draws docs/figures/mailbox-*.svg anew
"""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Final

from plainchant.lab.draw.timing import timing_diagram
from plainchant.scenario import find, load
from plainchant.sim import run_scenario
from plainchant.trace import TraceBuffer
from tests.figures.membership import DOCS

PAGE: Final = DOCS / "trace.md"
MESSAGE: Final = ("g", "p2", 1)


@dataclasses.dataclass(frozen=True)
class Picture:
    """A timing diagram, and how it is made."""

    directory: str
    name: str
    settings: tuple[str, ...]
    message: tuple[str, str, int] = MESSAGE

    @property
    def path(self) -> Path:
        return DOCS / "figures" / self.name

    @property
    def commands(self) -> tuple[str, str]:
        """The commands by which a reader gets it."""
        chosen = " ".join(f"--set {shlex.quote(setting)}" for setting in self.settings)
        message = "/".join(map(str, self.message))
        return (
            f"plainchant run first-steps {chosen} --out {self.directory}",
            f"plainchant trace {self.directory} --timing {self.name} --message {message}",
        )


_COMMON: Final = ("protocol=mailbox", "members=3", "duration=20ms", 'workload.0.senders=["p2"]', "memory.operations=true")
PICTURES: Final = (
    Picture("first", "mailbox-first.svg", (*_COMMON, "memory.duration=max", "parameters.copies=3", "parameters.tolerate=crash")),
    Picture("second", "mailbox-second.svg", _COMMON),
)


def draw(picture: Picture) -> str:
    trace = TraceBuffer()
    run_scenario(load(find("first-steps"), list(picture.settings)), trace)
    return timing_diagram(trace.table(), message=MESSAGE)


if __name__ == "__main__":
    for each in PICTURES:
        each.path.write_text(draw(each), encoding="utf-8")
