"""What the tests of the paper's sections share: a steady sender, a link that is cut, letters by kind, and a full history."""

from __future__ import annotations

from typing import Any

from plainchant.core.model import MS, Duration
from plainchant.scenario.model import Fault, Workload
from tests.protocols.sequencer.by_hand import ByHand

DELAY = 1 * MS
THREE = ("p1", "p2", "p3")


def closed(sender: str, count: int) -> Workload:
    """A process that continuously broadcasts null messages, the next one when the last has come back (section 3)."""
    return Workload(senders=(sender,), closed=1, count=count, size=0)


def cut(source: str, target: str, at_ms: float, length_ms: float = 0) -> Fault:
    at, length = Duration(round(at_ms * MS)), Duration(round(length_ms * MS))
    return Fault(kind="cut", source=source, target=target, at=at, length=length)


def carries(kind: type) -> Any:
    return lambda letter: type(letter.packet) is kind


def full(*, lose: Any = None, **parameters: Any) -> ByHand:
    """A group whose history of two is full, with a request waiting."""
    group = ByHand(*THREE, **{"history": 2, "acknowledge_every": 100, **parameters})
    group.broadcast("a", "b", **({"lose": lose} if lose else {}))
    group.say("p2", "c")
    group.carry()
    return group
