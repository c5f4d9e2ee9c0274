"""Which parameters suit a network: nothing is lost for want of buffer, and the pipe stays full.

Two kinds of packets can pile up in the buffer of a process that does not get to read it: at the sequencer the requests of the
others, (members - 1) x ``window``; at a member at most ``history`` broadcasts that it has not acknowledged, then numbering stops.
Both are made to fit into three quarters of the buffer; the rest is for acknowledgements, announcements and what is sent again.

Members acknowledge after a quarter of the history: a sender at full speed has three quarters to go on with until that comes.
Where buffers are large, more than ``HISTORY`` or ``WINDOW`` does not help: it is what a process can get through while another
one waits for a processor for some milliseconds. Where they are too small for the least values, packets are lost and asked for
again: make packets smaller.

**Real time.** Processes that share processors wait for them, sometimes for a tenth of a second. That must not exclude a member,
call an election or begin a phase."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from ...core.model import MS, SECOND
from ..buffers import room
from ..registry import Surroundings
from .parameters import Parameters

LEAST_WINDOW: Final = 2
LEAST_HISTORY: Final = 4
WINDOW: Final = 128
HISTORY: Final = 1024
SUSPECT_AFTER: Final = 1 * SECOND  # a process that waits for its processor, or collects its garbage, is not taken for dead
PATIENCE: Final = 5 * SECOND  # enough for an application that starts a process or writes to a disk, and for elections
RETRY_AFTER: Final = 100 * MS  # a request is hardly ever lost, but often late: repeating it early doubles the load
SYNC_AFTER: Final = 100 * MS  # several ``quiet_after``: acknowledgements that come by themselves, or are lost once, need no phase
NACK_AFTER: Final = 20 * MS  # a gap is asked for at once; then the answer needs time to pass what is queued before it
NACK_RETRIES: Final = 50  # as many as fit into ``SUSPECT_AFTER``


def tune(parameters: Parameters, surroundings: Surroundings) -> Parameters:
    """The parameters fitted to a network and to real time, except for those that were given."""
    chosen: dict[str, Any] = _flow(parameters, surroundings)
    if surroundings.live:
        chosen |= _times(parameters, surroundings.given)
    return dataclasses.replace(parameters, **{name: value for name, value in chosen.items() if name not in surroundings.given})


def _flow(parameters: Parameters, surroundings: Surroundings) -> dict[str, Any]:
    packets = room(surroundings.buffer, surroundings.packet)
    history = parameters.history if "history" in surroundings.given else min(max(packets, LEAST_HISTORY), HISTORY)
    window = min(max(packets // max(1, surroundings.members - 1), LEAST_WINDOW), WINDOW)
    return {"history": history, "window": window, "acknowledge_every": max(1, history // 4)}


def _times(parameters: Parameters, given: frozenset[str]) -> dict[str, Any]:
    """What is given bounds what is not: a suspicion takes three packets, patience two suspicions."""
    shortest = 3 * max(parameters.heartbeat, parameters.quiet_after)
    longest = parameters.patience // 2 if "patience" in given else SUSPECT_AFTER
    suspect_after = parameters.suspect_after if "suspect_after" in given else max(shortest, min(SUSPECT_AFTER, longest))
    return {
        "suspect_after": suspect_after,
        "patience": max(PATIENCE, 2 * suspect_after),
        "retry_after": RETRY_AFTER,
        "sync_after": SYNC_AFTER,
        "nack_after": NACK_AFTER,
        "nack_retries": NACK_RETRIES,
    }
