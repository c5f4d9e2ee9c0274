"""A ring with deadlines: how many are missed, how long the token takes round, and what goes beside it.

Theory of operation
-------------------
First the members are asked for the nearest deadline that is admitted: it follows from P, and P from the largest delay that is
reckoned with. Then every member sends messages with that deadline, some tens a second, each asked for by itself; in a *flooded*
ring everybody also sends messages without deadlines, as many as go. All of it is traced, and the figures are from the trace of
the time in which that happened: what was delivered after its deadline, or not at all, at any member; the turns' rotation times
beside the bound; packets that were thrown away because they were too old; and the assumptions that were seen to be broken.

Real time on a shared machine is soft. A ring that reckons with shorter delays than the machine keeps loses members: that is a
result, too (``halted``).
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from plainchant.core.model import MS
from plainchant.trace import read
from plainchant.trace.collect import collect

from .plan import Case, Plan, Timed
from .processes import BenchError
from .session import Session
from .us import names, start

PROTOCOL: Final = "rtcast"
SIZE: Final = 256
RATE: Final = 40.0
"""Messages with a deadline, of each member a second."""
HALTED: Final = frozenset({"Halted", "MemberLost"})
"""Exceptions by which a process ends that its group, or another one, has lost."""


@dataclasses.dataclass(frozen=True)
class Punctual:
    """What one round came to; times in ns."""

    deadline: int
    rejected: int
    owed: int
    """Deliveries with a deadline: messages times members."""
    missed: int
    delays: tuple[int, ...]
    """From being sent to each delivery, of messages with deadlines; in order."""
    rotations: tuple[int, ...]
    """In order."""
    bound: int
    late_packets: int
    broken: Mapping[str, int]
    """How often each assumption was seen to be broken."""
    beside_per_s: float
    """Messages without a deadline, at the slowest member."""


def measure_timed(timed: Timed, plan: Plan) -> Punctual:
    """One round, with fresh processes."""
    case = Case(protocol=PROTOCOL, members=timed.members, size=SIZE, traced=True)
    parameters = {"delay_max": timed.delay_ms * MS} if timed.delay_ms else {}
    everybody = names(timed.members)
    with tempfile.TemporaryDirectory(prefix="plainchant-bench-") as directory:
        with start(case, Path(directory) / "spools", parameters=parameters) as crew:
            crew.answers()
            deadline = max(answer["nearest"] for answer in crew.ask({"do": "promise"}))
            question = {
                "do": "timed",
                "deadline": deadline,
                "rate": RATE,
                "seconds": plan.timed_seconds,
                "load": timed.flooded,
            }
            began = time.time_ns()
            answers = crew.ask(question, seconds=plan.timed_seconds)
            Session(crew, everybody, range(timed.members)).compare(answers)
            ended = time.time_ns()
        collect([Path(directory) / "spools"], Path(directory) / "out", alive=everybody)
        table = read(Path(directory) / "out").table
    rejected = sum(answer["rejected"] for answer in answers)
    return examine(table, everybody, (began, ended), deadline=deadline, rejected=rejected)


def examine(table: pa.Table, members: Sequence[str], between: tuple[int, int], *, deadline: int, rejected: int) -> Punctual:
    """What the rows of a run say, of those between two times."""
    began, ended = between
    times = table.column("time")
    table = table.filter(pc.and_(pc.greater_equal(times, began), pc.less_equal(times, ended)))
    sends = _rows(table, "send", "process", "seq", "time", "deadline")
    due = {(row["process"], row["seq"]): row for row in sends if row["deadline"] is not None}
    delays, missed = [], len(due) * len(members)
    beside = dict.fromkeys(members, 0)
    for row in _rows(table, "deliver", "process", "sender", "seq", "time"):
        sent = due.get((row["sender"], row["seq"]))
        if sent is None:
            beside[row["process"]] += 1
        else:
            delays.append(row["time"] - (sent["deadline"] - deadline))
            missed -= row["time"] <= sent["deadline"]
    turns = [json.loads(row["detail"]) for row in _rows(table, "token", "detail")]
    rotations = sorted(turn["rotation"] for turn in turns if turn["rotation"] is not None)
    if not due or not rotations:
        raise BenchError("nothing was sent with a deadline, or the token did not come round while it was measured")
    states = [json.loads(row["detail"]) for row in _rows(table, "state", "detail")]
    drops = [json.loads(row["detail"]) for row in _rows(table, "drop", "detail")]
    return Punctual(
        deadline=deadline,
        rejected=rejected,
        owed=len(due) * len(members),
        missed=missed,
        delays=tuple(sorted(delays)),
        rotations=tuple(rotations),
        bound=max(turn["bound"] for turn in turns),
        late_packets=sum(drop["why"] == "late" for drop in drops),
        broken=dict(sorted(Counter(state["broken"] for state in states if "broken" in state).items())),
        beside_per_s=min(beside.values()) / ((ended - began) / 1e9),
    )


def timed_row(timed: Timed, rounds: Sequence[Punctual], error: BenchError | None) -> dict[str, Any]:
    """A row of the result: all rounds together."""
    halted = str(error) if error is not None and error.kind in HALTED else None
    row: dict[str, Any] = {
        "protocol": PROTOCOL,
        "members": timed.members,
        "size": SIZE,
        "flooded": timed.flooded,
        "delay_max_ms": timed.delay_ms or None,
        "rounds": len(rounds),
        "halted": halted,
        "error": str(error) if error is not None and halted is None else None,
    }
    if not rounds:
        return row
    owed = sum(each.owed for each in rounds)
    missed = sum(each.missed for each in rounds)
    broken: Counter[str] = Counter()
    for each in rounds:
        broken.update(each.broken)
    return row | {
        "deadline_ms": _ms(max(each.deadline for each in rounds)),
        "deliveries": owed,
        "missed": missed,
        "miss_ratio": round(missed / owed, 6),
        "rejected": sum(each.rejected for each in rounds),
        **_spread("delivery", [delay for each in rounds for delay in each.delays]),
        "turns": sum(len(each.rotations) for each in rounds),
        **_spread("rotation", [rotation for each in rounds for rotation in each.rotations]),
        "rotation_ms_bound": _ms(max(each.bound for each in rounds)),
        "late_packets": sum(each.late_packets for each in rounds),
        "broken": dict(sorted(broken.items())),
        "beside_per_s": round(statistics.median(each.beside_per_s for each in rounds)),
    }


def _rows(table: pa.Table, kind: str, *columns: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.filter(pc.equal(table.column("kind"), kind)).select(columns).to_pylist()
    return found


def _spread(name: str, values: Sequence[int]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        f"{name}_ms_p50": _ms(statistics.median(ordered)),
        f"{name}_ms_p99": _ms(ordered[int(0.99 * len(ordered))]),
        f"{name}_ms_max": _ms(ordered[-1]),
    }


def _ms(time: float) -> float:
    return round(time / MS, 2)
