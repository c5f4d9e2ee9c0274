"""The timing diagram of dedos in docs/hierarchy.md: the way of a message through mailboxes, relays and distributor.

python -m tests.figures.dedos         draws docs/figures/dedos-*.svg anew
"""

from __future__ import annotations

from typing import Final

from plainchant.lab.draw.timing import timing_diagram
from plainchant.scenario import find, load
from plainchant.sim import run_scenario
from plainchant.trace import TraceBuffer
from tests.figures.mailbox import Picture

MESSAGE: Final = ("g", "n2.b", 1)
_COMMON: Final = (
    "protocol=dedos", 'members=["n1.a", "n1.b", "n2.a", "n2.b"]', "duration=301ms", "network.delay=1ms",
    'workload.0.senders=["n2.b"]', "workload.0.start=300ms", "workload.0.count=1", "memory.operations=true",
    "memory.duration=max",
)  # fmt: skip
PICTURES: Final = (Picture("message", "dedos-message.svg", _COMMON, MESSAGE),)


def draw(picture: Picture) -> str:
    trace = TraceBuffer()
    run_scenario(load(find("first-steps"), list(picture.settings)), trace)
    return timing_diagram(trace.table(), message=picture.message)


if __name__ == "__main__":
    for each in PICTURES:
        each.path.write_text(draw(each), encoding="utf-8")
