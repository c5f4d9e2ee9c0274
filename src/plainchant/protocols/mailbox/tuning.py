"""Which parameters suit real processes in shared memory.

**Bounds** are what operations take on an ordinary machine that is not overloaded; ``plainchant doctor --memory`` measures them. A
process that waits for its processor longer than that is late: its message is sent again with a timestamp that lies ahead (see
``sending``), so on a busy machine everything takes longer and nothing is lost. Processes on one machine read one clock.

**Room.** Messages of a sender go together, as many as there is room for, one such batch at a time: large entries make large
messages fast. The memory of a place is reserved when a process connects there. So places cost nothing until they are taken, and
a mailbox has as many as there can be: their number must not depend on the peers that a process happens to list."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from ...core.memory import MOST_PLACES
from ...core.model import MS, SECOND, US
from ..registry import Surroundings
from .parameters import Parameters

BOUNDS: Final = {
    "write": 200 * US, "flag": 100 * US, "decide": 100 * US, "read": 200 * US, "finish": 100 * US, "skew": 1 * US,
    "poll": 300 * US, "notice": 50 * MS, "datagram": 200 * MS, "patience": 5 * SECOND,
}  # fmt: skip
SLOTS: Final = 4
ROOM: Final = 2 << 20


def tune(parameters: Parameters, surroundings: Surroundings) -> Parameters:
    """The parameters fitted to real time and memory, except for those that were given."""
    if not surroundings.live:
        return parameters
    chosen: dict[str, Any] = {**BOUNDS, "slots": SLOTS, "room": ROOM, "places": MOST_PLACES}
    return dataclasses.replace(parameters, **{name: value for name, value in chosen.items() if name not in surroundings.given})
