"""The whole benchmark: every case of a plan, raw UDP and the peers beside it, and what was wanted against what was measured.

Machines are noisy: cases with targets are measured in several rounds, which take turns with all other cases and with raw UDP,
and the best round counts on every side. A case whose members deliver something wrong, or hang, has no figures but an ``error``.
"""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Callable
from typing import Any, Final

from .peers import measure_peers
from .plan import HEADLINES, LOOPBACK, SMALL, Case, Plan
from .processes import BenchError, core_of, cores
from .raw import measure_raw
from .us import MEASURED, Round, measure_round, measure_stall, near_sequencer

PROTOCOL: Final = "sequencer"
RAW_SECONDS: Final = 0.3
RATES_WANTED: Final = {(32, LOOPBACK): 750_000, (32, SMALL): 250_000, (1_024, LOOPBACK): 150_000}
"""Messages a second, by size and packet."""
RTT_WANTED: Final = 3.0
ASYNC_FOR_WANTED: Final = 1 / 3
STALL_WANTED: Final = 0.5
STALL_CASE: Final = HEADLINES[0]


class Raw:
    """Raw UDP beside it: round trips by size, packet and placement, the best of all times it was asked for."""

    def __init__(self) -> None:
        self.best: dict[tuple[int, int, bool], float] = {}
        self.one_way: dict[tuple[int, int], float] = {}

    def measure(self, case: Case) -> None:
        """Between the cores of the measured member and the sequencer; and on the sequencer's core."""
        near = near_sequencer(case.members)
        for same_core, number in ((False, MEASURED), (True, near)):
            if number is None:
                continue
            raw = measure_raw(case.size, case.packet, seconds=RAW_SECONDS, pinned=(0, number), one_way=not same_core)
            key = (case.size, case.packet, same_core)
            self.best[key] = min(raw.rtt_us_p50, self.best.get(key, raw.rtt_us_p50))
            if not same_core:
                self.one_way[key[:2]] = max(raw.datagrams_per_s, self.one_way.get(key[:2], 0.0))

    def has(self, case: Case) -> bool:
        return (case.size, case.packet, False) in self.best

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "protocol": "raw UDP", "version": platform.python_version(), "members": 2, "size": size, "senders": "one",
                "packet": packet, "encrypted": False, "traced": False, "messages_per_s": None,
                "rtt_us_p50": round(self.best[size, packet, False], 1), "rtt_ratio_to_raw_udp": 1.0,
                "rtt_us_p50_same_core": _rounded(self.best.get((size, packet, True))),
                "datagrams_per_s": round(self.one_way[size, packet]), "why": None,
            }
            for size, packet in self.one_way
        ]


def run(plan: Plan, *, peers: bool = True, progress: Callable[[str], None] = lambda what: None) -> dict[str, Any]:
    """Measures everything of a plan; what ``plainchant bench live --json`` prints."""
    raw = Raw()
    here = machine(plan)
    rounds: dict[Case, list[Round]] = {case: [] for case in plan.cases}
    errors: dict[Case, str] = {}
    for number in range(max(case.rounds for case in plan.cases)):
        for case in plan.cases:
            if number >= case.rounds or case in errors:
                continue
            progress(f"{case}" + (f" (round {number + 1} of {case.rounds})" if case.rounds > 1 else ""))
            try:
                if case.rounds > 1 or not raw.has(case):
                    raw.measure(case)
                rounds[case].append(measure_round(case, plan, PROTOCOL))
            except BenchError as error:
                errors[case] = str(error)
    stall: float | str | None = None
    if plan.stall_seconds:
        progress(f"{plan.stall_seconds:.0f} s without a stall")
        try:
            stall = measure_stall(STALL_CASE, plan.stall_seconds, PROTOCOL).slowest_to_median_second
        except BenchError as error:
            stall = str(error)
    others = list(measure_peers(plan, progress)) if peers else []
    for row in others:
        beside = raw.best.get((row["size"], LOOPBACK, False))
        if row["rtt_us_p50"] and beside:
            row["rtt_ratio_to_raw_udp"] = round(row["rtt_us_p50"] / beside, 2)
    rows = [_row(case, rounds[case], raw, errors.get(case)) for case in plan.cases]
    return {"rows": rows, "peers": [*raw.rows(), *others], "machine": here, "wanted": wanted(rows, stall)}


def machine(plan: Plan) -> dict[str, Any]:
    """Where and how it was measured."""
    return {
        "cores": len(cores()) or os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.machine(),
        "python": platform.python_version(),
        "pins": {f"member {number}": core_of(number) for number in range(max(case.members for case in plan.cases))},
        "sequencer": "member 0",
        "measured": f"member {MEASURED} (round trips, and who sends where one does)",
        "seconds": plan.seconds,
        "load_average_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _row(case: Case, rounds: list[Round], raw: Raw, error: str | None) -> dict[str, Any]:
    beside = raw.best.get((case.size, case.packet, False))
    beside_near = raw.best.get((case.size, case.packet, True))
    rounds = [] if error is not None else rounds
    trip = _least([each.closed["p50"] for each in rounds])
    near = _least([each.near["p50"] for each in rounds if each.near is not None])
    best = max(rounds, key=lambda each: each.flood.messages_per_s, default=None)
    return {
        "protocol": PROTOCOL,
        **{key: value for key, value in dataclasses.asdict(case).items() if key != "rounds"},
        "encrypted": False,
        "messages_per_s": round(best.flood.messages_per_s) if best is not None else None,
        "rtt_us_p50": _rounded(trip),
        "rtt_ratio_to_raw_udp": _ratio(trip, beside),
        "rtt_us_p50_same_core": _rounded(near),
        "rtt_ratio_to_raw_udp_same_core": _ratio(near, beside_near),
        "rtt_us_p50_at_200_per_s": _rounded(_least([each.at_200["p50"] for each in rounds])),
        "rtt_us_p50_at_half_load": _rounded(_least([each.at_half_load["p50"] for each in rounds])),
        "cpu_us_per_message": _rounded(best.flood.cpu_us_per_message, 3) if best is not None else None,
        "rounds": len(rounds),
        "error": error,
    }


def wanted(rows: list[dict[str, Any]], stall: float | str | None) -> list[dict[str, Any]]:
    """Every target, what was measured, and whether it was reached (None: not measured)."""
    found = {
        (row["size"], row["packet"], row["traced"], row["reading"]): row
        for row in rows
        if row["members"] == 3 and row["senders"] == "all" and row["sending"] == "send_many"
    }
    targets: list[dict[str, Any]] = []
    for (size, packet), rate in RATES_WANTED.items():
        for traced in (False, True):
            row = found.get((size, packet, traced, "batches()"), {})
            what = f"messages/s, {size} B in packets of {packet}, " + ("traced" if traced else "not traced")
            targets.append(_at_least(what, rate / 2 if traced else rate, row.get("messages_per_s")))
    for size, packet in ((32, LOOPBACK), (32, SMALL)):
        one_by_one = found.get((size, packet, False, "async for"), {}).get("messages_per_s")
        batches = found.get((size, packet, False, "batches()"), {}).get("messages_per_s")
        what = f"`async for` to `batches()`, {size} B in packets of {packet}"
        targets.append(_at_least(what, ASYNC_FOR_WANTED, _ratio(one_by_one, batches)))
    for where, key in (("another core than", "rtt_ratio_to_raw_udp"), ("the core of", "rtt_ratio_to_raw_udp_same_core")):
        ratio = found.get((32, LOOPBACK, False, "batches()"), {}).get(key)
        what = f"closed-loop round trip to raw UDP's, on {where} the sequencer"
        targets.append({**_target(what, RTT_WANTED, ratio), "reached": None if ratio is None else ratio <= RTT_WANTED})
    if isinstance(stall, str):
        targets.append({**_target("slowest second to median second", STALL_WANTED, None), "error": stall})
    else:
        targets.append(_at_least("slowest second to median second", STALL_WANTED, None if stall is None else round(stall, 3)))
    return targets


def _target(what: str, target: float, measured: float | None) -> dict[str, Any]:
    return {"what": what, "target": round(target, 3), "measured": measured, "reached": None}


def _at_least(what: str, target: float, measured: float | None) -> dict[str, Any]:
    return {**_target(what, target, measured), "reached": None if measured is None else measured >= target}


def _least(values: list[float]) -> float | None:
    return min(values, default=None)


def _rounded(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)


def _ratio(value: float | None, to: float | None) -> float | None:
    return round(value / to, 3) if value is not None and to else None
