"""Our own groups: one case measured, as a row of the result."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from plainchant.live.keys import Key
from plainchant.live.ports import free_ports

from .plan import Case, Plan
from .processes import Crew, core_of
from .session import Flood, Session

MODULE: Final = "plainchant_workbench.live.member"
MEASURED: Final = 1
"""The number of the member whose round trips count, and who sends where one does. Number 0 is the sequencer."""
LIST_BYTES: Final = 32 << 10
"""Messages handed over in one ``send_many``, about."""


@dataclasses.dataclass(frozen=True)
class Round:
    """What one round of a case came to."""

    flood: Flood
    closed: dict[str, Any]
    near: dict[str, Any] | None
    """As ``closed``, at a member on the sequencer's own core."""
    at_200: dict[str, Any]
    at_half_load: dict[str, Any]


def names(members: int) -> list[str]:
    """Members' names, in the order of their numbers."""
    return [f"m{number}" for number in range(members)]


def near_sequencer(members: int) -> int | None:
    """The number of a member that is pinned to the sequencer's core."""
    return next((number for number in range(1, members) if core_of(number) == core_of(0)), None)


def start(
    case: Case, directory: Path, *, parameters: Mapping[str, Any] | None = None, link_ms: int = 0, memory: str = ""
) -> Crew:
    """Member processes for a case; ``directory`` is where they leave their traces, ``memory`` the name of what they share."""
    everybody = names(case.members)
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(everybody, free_ports(case.members), strict=True)}
    common = {
        "protocol": case.protocol,
        "parameters": dict(parameters or {}),
        "link_ms": link_ms,
        "peers": peers,
        "memory": memory,
        "key": Key.new().text if case.encrypted else None,
        "packet": case.packet,
        "size": case.size,
        "reading": case.reading,
        "sending": case.sending,
        "together": max(1, LIST_BYTES // case.size),
    }
    traces = {name: str(directory / name) if case.traced else None for name in everybody}
    return Crew(MODULE, [{**common, "me": name, "trace": traces[name]} for name in everybody])


def measure_round(case: Case, plan: Plan) -> Round:
    """One round of a case: fresh processes, a flood, then round trips."""
    with tempfile.TemporaryDirectory(prefix="plainchant-bench-") as directory, start(case, Path(directory)) as crew:
        crew.answers()
        session = Session(crew, names(case.members), [MEASURED] if case.senders == "one" else range(case.members))
        flood = session.flood(plan.warm, plan.seconds)
        closed = session.closed(MEASURED, plan.latency_seconds)
        near = near_sequencer(case.members)
        return Round(
            flood,
            closed,
            session.closed(near, plan.latency_seconds) if near is not None else None,
            session.paced(MEASURED, plan.latency_seconds),
            session.paced(MEASURED, plan.latency_seconds, flood.messages_per_s / 2),
        )


def measure_stall(case: Case, seconds: float) -> Flood:
    """One long flood."""
    with tempfile.TemporaryDirectory(prefix="plainchant-bench-") as directory, start(case, Path(directory)) as crew:
        crew.answers()
        session = Session(crew, names(case.members), [MEASURED] if case.senders == "one" else range(case.members))
        return session.flood(1.0, seconds)
