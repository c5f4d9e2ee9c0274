"""How a process of a run ended; the same for every host."""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeAlias

EndState: TypeAlias = Literal["alive", "crashed", "halted", "left"]


@dataclasses.dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a process ended: alive, crashed by a fault, halted by its protocol, or it left its last group."""

    state: EndState
    reason: str = ""
