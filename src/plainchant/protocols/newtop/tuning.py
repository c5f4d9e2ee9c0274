"""Which parameters suit a network: nothing is lost for want of buffer, nobody is probed who waits for a processor."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from ...core.model import MS, UsageError
from ..buffers import room
from ..registry import Surroundings
from .parameters import Parameters

LEAST_BLOCKS: Final = 8
MOST_BLOCKS: Final = 512
PROBE_AFTER: Final = 250 * MS
ASK_AFTER: Final = 20 * MS  # before a gap is asked for again: the answer has had time to pass what is queued before it
SUSPECT_AFTER: Final = 1_000 * MS
ALIVE_EVERY: Final = 250 * MS  # processors are shared: nobody is suspected who only waits for one
MERGE_AFTER: Final = 500 * MS
SILENCE: Final = 2 * MS  # adaptive: a member that is about to send delays others by about a round trip of a local network


def tune(parameters: Parameters, surroundings: Surroundings) -> Parameters:
    """The parameters fitted to a network and to real time, except for those that were given."""
    if parameters.transport == "fifo" and surroundings.live and surroundings.buffer:
        raise UsageError(
            'the parameter transport is "fifo", which needs a network that loses nothing; leave it out, or give the node '
            'transport="tcp"'
        )
    packets = room(surroundings.buffer, surroundings.packet)
    chosen: dict[str, Any] = {"blocks": min(max(packets // max(1, surroundings.members - 1), LEAST_BLOCKS), MOST_BLOCKS)}
    if surroundings.live:
        chosen |= {"probe_after": max(PROBE_AFTER, 2 * parameters.silence), "ask_after": ASK_AFTER}
        if parameters.suspect_after:
            is_given = "suspect_after" in surroundings.given
            patience = parameters.suspect_after if is_given else max(SUSPECT_AFTER, 4 * parameters.silence)
            chosen |= {"suspect_after": patience, "alive_every": min(ALIVE_EVERY, patience // 3), "merge_after": MERGE_AFTER}
            chosen["probe_after"] = min(chosen["probe_after"], patience // 2)
        if parameters.silence_by == "adaptive":
            chosen["silence"] = SILENCE
    return dataclasses.replace(parameters, **{name: value for name, value in chosen.items() if name not in surroundings.given})
