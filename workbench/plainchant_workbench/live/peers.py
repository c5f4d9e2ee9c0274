"""Other systems, measured in the same run with the same processes, pins and questions: those that are installed.

PySyncObj comes with the ``bench`` extra, Corosync is measured where it is installed and we are root. What is not there, or
cannot be driven from here, is listed with the reason instead of a figure.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from plainchant.live.ports import free_ports

from .corosync import corosync, obstacle, version
from .plan import SENDERS, Plan
from .processes import BenchError, Crew
from .session import Session
from .us import names

PYSYNCOBJ: Final = "plainchant_workbench.live.pysyncobj_member"
BUFFER: Final = 4 << 20
FAST: Final = {"batch": True, "period": 0.001, "wait": 0.001, "window": 3_000, "buffer": BUFFER}
"""PySyncObj for throughput: in batches, every millisecond, with many under way."""
FASTER_ALONE: Final = {**FAST, "window": 10_000}
"""For one sender, at the leader, where more under way is better."""
PROMPT: Final = {"batch": False, "period": 0.05, "wait": 0.001, "window": 1, "buffer": BUFFER}
"""PySyncObj for latency: every entry leaves at once."""
MEASURED: Final = 1
"""The member whose round trips count; number 0 leads."""


def measure_peers(plan: Plan, progress: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """A row for each thing measured, and one for each peer that could not be."""
    for members in plan.peer_members:
        for size in plan.peer_sizes:
            progress(f"PySyncObj, {members} members, {size} B")
            yield from pysyncobj_rows(plan, members, size)
            progress(f"Corosync, {members} members, {size} B")
            yield from corosync_rows(plan, members, size)
    yield from missing()


def peer_row(name: str, members: int | None = None, size: int | None = None, senders: str | None = None) -> dict[str, Any]:
    """A row with nothing measured yet; ``why`` says why there are no figures."""
    return {
        "protocol": name,
        "version": None,
        "members": members,
        "size": size,
        "senders": senders,
        "packet": None,
        "encrypted": False,
        "traced": False,
        "messages_per_s": None,
        "rtt_us_p50": None,
        "rtt_ratio_to_raw_udp": None,
        "why": None,
    }


def pysyncobj_rows(plan: Plan, members: int, size: int) -> Iterator[dict[str, Any]]:
    """What PySyncObj does, each figure with the settings that suit it."""
    for senders, tuned in (("all", FAST), ("one", FASTER_ALONE)):
        row = peer_row("PySyncObj", members, size, senders)
        if importlib.util.find_spec("pysyncobj") is None:
            yield {**row, "why": "not measured: not installed; `pip install plainchant[bench]` brings it"}
            continue
        row |= {"version": importlib.metadata.version("pysyncobj"), "settings": {"throughput": tuned, "latency": PROMPT}}
        try:
            with _pysyncobj(members, size, tuned) as crew:
                flood = _session(crew, members, range(members) if senders == "all" else [0]).flood(plan.warm, plan.seconds)
            with _pysyncobj(members, size, PROMPT) as crew:
                closed = _session(crew, members, [MEASURED]).closed(MEASURED, plan.latency_seconds)
        except BenchError as error:
            yield {**row, "why": f"not measured: {error}"}
        else:
            yield {**row, "messages_per_s": round(flood.messages_per_s), "rtt_us_p50": round(closed["p50"], 1)}


def _pysyncobj(members: int, size: int, tuned: dict[str, Any]) -> Crew:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(members, socket.SOCK_STREAM)]
    return Crew(PYSYNCOBJ, [{"names": names(members), "addresses": addresses, "size": size, **tuned}] * members)


def _session(crew: Crew, members: int, senders: Sequence[int]) -> Session:
    crew.answers()
    return Session(crew, names(members), senders)


def corosync_rows(plan: Plan, members: int, size: int) -> Iterator[dict[str, Any]]:
    """What Corosync's closed process groups do, with the daemons' own settings and no encryption."""
    for senders in SENDERS:
        row = peer_row("Corosync CPG", members, size, senders)
        why = obstacle()
        if why is not None:
            yield {**row, "why": f"not measured: {why}"}
            continue
        row["version"] = version()
        try:
            with corosync(members, [{"names": names(members), "size": size}] * members) as crew:
                session = _session(crew, members, range(members) if senders == "all" else [MEASURED])
                flood = session.flood(plan.warm, plan.seconds)
                closed = session.closed(MEASURED, plan.latency_seconds)
        except BenchError as error:
            yield {**row, "why": f"not measured: {error}"}
        else:
            yield {**row, "messages_per_s": round(flood.messages_per_s), "rtt_us_p50": round(closed["p50"], 1)}


def missing() -> Iterator[dict[str, Any]]:
    """Peers that are not measured, and why."""
    for name, what, there in (
        ("Spread", "the `spread` daemon", shutil.which("spread") is not None),
        ("JGroups", "a JGroups jar in CLASSPATH", "jgroups" in os.environ.get("CLASSPATH", "").lower()),
    ):
        found = "is there" if there else "was not found"
        yield {**peer_row(name), "why": f"not measured: plainchant has no driver for it ({what} {found})"}
