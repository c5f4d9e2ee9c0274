"""Which parameters suit real processes: none is given up for waiting for a processor, nothing is lost for want of buffer.

**Real time is soft.** Processes that share processors wait for them, often for tens of milliseconds. So nothing about time is
promised (``timing``), and d_max and ``slack`` cover an ordinary wait. P follows from d_max, and admissible deadlines from P: with
dedicated processors, give a smaller ``delay_max`` to get nearer deadlines. The trace shows what happens all the same: packets
that are too old, turns and rotations that took too long, deadlines missed.

**Clocks** of different machines are not assumed to agree: the age of a packet is checked only where the clock layer has read the
master's clock well enough.

**What a turn may send.** All members' turns come before a member's own: what they send waits in its buffer if it does not get to
read. So what all of them send in T fits into three quarters of a buffer. T and ``bandwidth`` say how much that is: at least two
full packets, since time is kept for one retransmission; where buffers are too small even for that, packets are lost: make them
smaller.

**An idle ring turns** all the time: ``idle_hold`` is how long a message waits at each member on its way, and what keeps an idle
group from taking a processor.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from ...core.model import MS, SECOND
from ..buffers import room
from ..registry import Surroundings
from .parameters import Parameters

DELAY_MAX: Final = 100 * MS  # Longer than a process waits for a processor that it shares with a few others
SLACK: Final = 25 * MS  # How late a timer is, at the most, where as many processes wait
HOLD: Final = 20 * MS
IDLE_HOLD: Final = 4 * MS
GATHER: Final = 3 * SECOND  # Those who form a group begin at once; each of them that comes into the ring takes a slot or two
RECLAIM_AFTER: Final = 10 * SECOND  # A process that was killed is started again by then
PATIENCE: Final = 5 * SECOND  # A program that does not read for so long is not just busy
CLOCK_EVERY: Final = 1 * SECOND
RESERVED: Final = 4096  # Bytes of a turn for what the ring itself sends
MOST_BYTES: Final = 384 << 10
MOST_PACKETS: Final = 96  # In a rotation: even a busy process handles this much within d_max, also in small messages


def tune(parameters: Parameters, surroundings: Surroundings) -> Parameters:
    """The parameters fitted to a network and to real time, except for those that were given."""
    if not surroundings.live:
        return parameters
    given = surroundings.given
    delay_max = parameters.delay_max if "delay_max" in given else DELAY_MAX
    waits = {"delay_max": delay_max, "slack": SLACK, "gather": GATHER, "reclaim_after": RECLAIM_AFTER, "patience": PATIENCE}
    clocks = {"clocks": "synchronised", "clock_precision": max(1, delay_max // 2), "clock_every": CLOCK_EVERY}
    chosen: dict[str, Any] = {"timing": "soft", **waits, **clocks, **_turn(parameters, surroundings)}
    return dataclasses.replace(parameters, **{name: value for name, value in chosen.items() if name not in given})


def _turn(parameters: Parameters, surroundings: Surroundings) -> dict[str, int]:
    """T and the bandwidth, from what may wait in a buffer: either of them may be given."""
    given = surroundings.given
    packet = surroundings.packet + parameters.header
    rotation = min(min(room(surroundings.buffer, surroundings.packet), MOST_PACKETS) * packet, MOST_BYTES)
    resends = parameters.resends if parameters.retransmissions else 0
    size = RESERVED + max((1 + resends) * packet, rotation // max(1, surroundings.members))
    hold = int(parameters.hold) if "hold" in given else HOLD
    if "bandwidth" in given and "hold" not in given:
        hold = max(hold, -(-size * 8 * SECOND // parameters.bandwidth))
    shortest = min(hold, *map(int, parameters.holds.values()), hold)
    return {"hold": hold, "bandwidth": -(-size * 8 * SECOND // shortest), "idle_hold": min(IDLE_HOLD, shortest)}
