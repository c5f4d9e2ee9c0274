"""The whole benchmark: every case of a plan, raw UDP and the peers beside it, and what was wanted against what was measured.

Machines are noisy: cases with targets are measured in several rounds, which take turns with all other cases and with raw UDP,
and the best round counts on every side. A case whose members deliver something wrong, or hang, has no figures but an ``error``.

Ratios between protocols are of one round, where one was measured right after the other; of several rounds the median counts.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from .idle import idle_row, measure_idle
from .local import compare_local, local_row, measure_local
from .peers import measure_peers
from .plan import HEADLINES, LOCAL_SIZES, LOOPBACK, PROTOCOLS, QUEUE, SENDERS, SMALL, Case, Plan
from .processes import BenchError, core_of, cores
from .raw import measure_raw
from .sealing import can_measure, measure_sealing
from .timed import measure_timed, timed_row
from .us import MEASURED, Round, measure_round, measure_stall, near_sequencer

_Case = TypeVar("_Case")
_Found = TypeVar("_Found")

RAW_SECONDS: Final = 0.3
RATES_WANTED: Final = {(32, LOOPBACK): 750_000, (32, SMALL): 250_000, (1_024, LOOPBACK): 150_000}
"""Messages a second, by size and packet."""
RTT_WANTED: Final = 3.0
ASYNC_FOR_WANTED: Final = 1 / 3
STALL_WANTED: Final = 0.5
NEWTOP_WANTED: Final = 0.5
"""newtop's rate to sequencer's."""
ENCRYPTED_WANTED: Final = 0.5
"""The rate with a key to that without."""
IDLE_TRIPS_WANTED: Final = 2.0
IDLE_PACKETS_WANTED: Final = 2.0
MAILBOX_DELAY_WANTED: Final = 1.0
"""To those of groups over UDP."""
MAILBOX_RATE_WANTED: Final = 1.0
"""To that of queues."""
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
                "protocol": "raw UDP",
                "version": platform.python_version(),
                "members": 2,
                "size": size,
                "senders": "one",
                "packet": packet,
                "encrypted": False,
                "traced": False,
                "messages_per_s": None,
                "rtt_us_p50": round(self.best[size, packet, False], 1),
                "rtt_ratio_to_raw_udp": 1.0,
                "rtt_us_p50_same_core": _rounded(self.best.get((size, packet, True))),
                "datagrams_per_s": round(self.one_way[size, packet]),
                "why": None,
            }
            for size, packet in self.one_way
        ]


def run(plan: Plan, *, peers: bool = True, progress: Callable[[str], None] = lambda what: None) -> dict[str, Any]:
    """Measures everything of a plan; what ``plainchant bench live --json`` prints."""
    raw = Raw()
    here = machine(plan)
    rounds: dict[Case, list[Round]] = {case: [] for case in plan.cases}
    errors: dict[Case, str] = {}
    for number in range(max([case.rounds for case in plan.cases], default=0)):
        for case in plan.cases:
            if number >= case.rounds or case in errors:
                continue
            progress(f"{case}" + (f" (round {number + 1} of {case.rounds})" if case.rounds > 1 else ""))
            try:
                if case.rounds > 1 or not raw.has(case):
                    raw.measure(case)
                rounds[case].append(measure_round(case, plan))
            except BenchError as error:
                errors[case] = str(error)
    idle, idle_errors = _in_rounds(plan.idle, plan.idle_rounds, measure_idle, plan, progress)
    timed, timed_errors = _in_rounds(plan.timed, plan.timed_rounds, measure_timed, plan, progress)
    local, local_errors = _in_rounds(plan.local, plan.local_rounds, measure_local, plan, progress)
    sealing = [
        measure_sealing(case, case.rounds) for case in plan.cases if case.encrypted and can_measure(case) and not errors.get(case)
    ]
    stall: float | str | None = None
    if plan.stall_seconds:
        progress(f"{plan.stall_seconds:.0f} s without a stall")
        try:
            case = dataclasses.replace(STALL_CASE, protocol=plan.cases[0].protocol if plan.cases else STALL_CASE.protocol)
            stall = measure_stall(case, plan.stall_seconds).slowest_to_median_second
        except BenchError as error:
            stall = str(error)
    others = list(measure_peers(plan, progress)) if peers else []
    for row in others:
        beside = raw.best.get((row["size"], LOOPBACK, False))
        if row["rtt_us_p50"] and beside:
            row["rtt_ratio_to_raw_udp"] = round(row["rtt_us_p50"] / beside, 2)
    rows = [_row(case, rounds[case], raw, errors.get(case)) for case in plan.cases]
    idle_rows = [idle_row(each, idle[each], _why(idle_errors.get(each))) for each in plan.idle]
    ratios = compare_protocols(rounds)
    local_ratios = compare_local({each: handed for each, handed in local.items() if each not in local_errors})
    return {
        "rows": rows,
        "idle": idle_rows,
        "timed": [timed_row(each, timed[each], timed_errors.get(each)) for each in plan.timed],
        "peers": [*raw.rows(), *others],
        "machine": here,
        "local": [local_row(each, local[each], _why(local_errors.get(each))) for each in plan.local],
        "mailbox_to": local_ratios,
        "newtop_to_sequencer": ratios,
        "encrypted_to_plain": compare_encrypted(rounds),
        "sealing": sealing,
        "wanted": wanted_of_encryption(compare_encrypted(rounds)) or wanted(rows, stall, ratios, idle_rows, local_ratios),
    }


def _in_rounds(
    cases: Sequence[_Case], rounds: int, measure: Callable[[_Case, Plan], _Found], plan: Plan, progress: Callable[[str], None]
) -> tuple[dict[_Case, list[_Found]], dict[_Case, BenchError]]:
    """What is found of each case, round by round until it fails, and why those failed that did."""
    found: dict[_Case, list[_Found]] = {case: [] for case in cases}
    errors: dict[_Case, BenchError] = {}
    for number in range(rounds):
        for case in cases:
            if case not in errors:
                progress(f"{case} (round {number + 1} of {rounds})")
                try:
                    found[case].append(measure(case, plan))
                except BenchError as error:
                    errors[case] = error
    return found, errors


def _why(error: BenchError | None) -> str | None:
    return str(error) if error is not None else None


def compare_protocols(rounds: Mapping[Case, Sequence[Round]]) -> list[dict[str, Any]]:
    """newtop's rates to sequencer's, round by round, where both were measured."""
    found = []
    for case, ours in rounds.items():
        beside = rounds.get(dataclasses.replace(case, protocol="sequencer"), ())
        if case.protocol != "newtop" or case.encrypted:
            continue
        rates = [(one.flood.messages_per_s, other.flood.messages_per_s) for one, other in zip(ours, beside, strict=False)]
        ratios = sorted(rate / other for rate, other in rates if other)
        if not ratios:
            continue
        found.append(
            {
                "members": case.members,
                "size": case.size,
                "packet": case.packet,
                "senders": case.senders,
                "sending": case.sending,
                "median": round(statistics.median(ratios), 3),
                "least": round(ratios[0], 3),
                "largest": round(ratios[-1], 3),
            }
        )
    return found


def compare_encrypted(rounds: Mapping[Case, Sequence[Round]]) -> list[dict[str, Any]]:
    """Rates and round trips with a key to those without, round by round, where both were measured one after the other."""
    found = []
    for case, ours in rounds.items():
        beside = rounds.get(dataclasses.replace(case, encrypted=False), ())
        if not case.encrypted:
            continue
        pairs = [(one, other) for one, other in zip(ours, beside, strict=False) if other.flood.messages_per_s]
        rates = sorted(one.flood.messages_per_s / other.flood.messages_per_s for one, other in pairs)
        if not rates:
            continue
        trips = [one.closed["p50"] / other.closed["p50"] for one, other in pairs]
        spent = [(one.flood.cpu_us_per_message, other.flood.cpu_us_per_message) for one, other in pairs]
        processor = [mine / without for mine, without in spent if mine and without]
        found.append(
            {
                "protocol": case.protocol,
                "members": case.members,
                "size": case.size,
                "packet": case.packet,
                "median": round(statistics.median(rates), 3),
                "least": round(rates[0], 3),
                "largest": round(rates[-1], 3),
                "round_trip": round(statistics.median(trips), 3),
                "rounds": len(rates),
                "processor": round(statistics.median(processor), 3) if processor else None,
            }
        )
    return found


def wanted_of_encryption(ratios: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """At least half of the rate, wherever it was measured."""
    what = "{protocol}'s messages/s with a key to those without, {size} B in packets of {packet}"
    return [_at_least(what.format(**row), ENCRYPTED_WANTED, row["median"]) for row in ratios]


def machine(plan: Plan) -> dict[str, Any]:
    """Where and how it was measured."""
    return {
        "cores": len(cores()) or os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.machine(),
        "python": platform.python_version(),
        "pins": {f"member {number}": core_of(number) for number in range(max([case.members for case in plan.cases], default=3))},
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
        **{key: value for key, value in dataclasses.asdict(case).items() if key != "rounds"},
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


def wanted(
    rows: list[dict[str, Any]],
    stall: float | str | None,
    ratios: Sequence[Mapping[str, Any]] = (),
    idle: Sequence[Mapping[str, Any]] = (),
    local: Sequence[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:
    """Every target, what was measured, and whether it was reached (None: not measured)."""
    found = {
        (row["size"], row["packet"], row["traced"], row["reading"]): row
        for row in rows
        if row["protocol"] == "sequencer"
        and row["members"] == 3
        and row["senders"] == "all"
        and row["sending"] == "send_many"
        and not row.get("encrypted")
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
        targets.append(_at_most(what, RTT_WANTED, ratio))
    if isinstance(stall, str):
        targets.append({**_target("slowest second to median second", STALL_WANTED, None), "error": stall})
    else:
        targets.append(_at_least("slowest second to median second", STALL_WANTED, None if stall is None else round(stall, 3)))
    return [*targets, *_wanted_of_newtop(ratios, idle), *_wanted_of_mailbox(local)]


def _wanted_of_newtop(ratios: Sequence[Mapping[str, Any]], idle: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    by_case = {
        (row["size"], row["packet"]): row["median"]
        for row in ratios
        if row["members"] == 3 and row["senders"] == "all" and row["sending"] == "send_many"
    }
    rates = "newtop's messages/s to sequencer's, {} B in packets of {}"
    targets = [_at_least(rates.format(*case), NEWTOP_WANTED, by_case.get(case)) for case in RATES_WANTED]
    adaptive = [row for row in idle if row["protocol"] == "newtop" and row["silence_ms"] is None and row["members"] == 3]
    near = next((row for row in adaptive if not row["link_ms"]), {})
    far = next((row for row in adaptive if row["link_ms"]), {})
    trips = "newtop, nearly idle: round trips of the link until one's own delivery, "
    for where, ratio in (
        ("in the simulator", near.get("simulated_round_trips")),
        ("links with a delay", (far.get("round_trips") or {}).get("median")),
        ("loopback, of the members' transport", (near.get("round_trips") or {}).get("median")),
        ("loopback, of raw UDP", (near.get("raw_round_trips") or {}).get("median")),
    ):
        targets.append(_at_most(trips + where, IDLE_TRIPS_WANTED, ratio))
    packets = "newtop, nearly idle: packets of a silent member a message, "
    for where, number in (("in the simulator", near.get("simulated_packets")), ("live", near.get("packets"))):
        targets.append(_at_most(packets + where, IDLE_PACKETS_WANTED, number))
    return targets


def _wanted_of_mailbox(ratios: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    by_case = {(row["to"], row["size"], row["senders"]): row for row in ratios}
    small, large = LOCAL_SIZES
    targets = []
    for protocol in PROTOCOLS:
        delay = by_case.get((protocol, small, "one"), {}).get("delay_us_p50")
        targets.append(_at_most(f"mailbox's median delay to {protocol}'s, {small} B", MAILBOX_DELAY_WANTED, delay))
    for senders in SENDERS:
        rate = by_case.get((QUEUE, large, senders), {}).get("messages_per_s")
        what = f"mailbox's messages/s to {QUEUE}'s, three receivers, {large} B, {senders} sending"
        targets.append(_at_least(what, MAILBOX_RATE_WANTED, rate))
    return targets


def _target(what: str, target: float, measured: float | None) -> dict[str, Any]:
    return {"what": what, "target": round(target, 3), "measured": measured, "reached": None}


def _at_least(what: str, target: float, measured: float | None) -> dict[str, Any]:
    return {**_target(what, target, measured), "reached": None if measured is None else measured >= target}


def _at_most(what: str, target: float, measured: float | None) -> dict[str, Any]:
    return {**_target(what, target, measured), "reached": None if measured is None else measured <= target}


def _least(values: list[float]) -> float | None:
    return min(values, default=None)


def _rounded(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)


def _ratio(value: float | None, to: float | None) -> float | None:
    return round(value / to, 3) if value is not None and to else None
