"""What it means that two verifiers agree: on runs, events, cases and violations of each property, and on who is to blame."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plainchant.lab.properties import Verification, verify
from plainchant.lab.properties.certificates.unit import Unit
from plainchant.lab.properties.certificates.waits import stated_bound
from plainchant.lab.properties.narrowing.portion import WHOLE_UP_TO
from plainchant.lab.properties.timing.deadlines import timed
from plainchant.lab.verify.check import Found, check, examine, judge_alone, look_closely, needed_of, settle_narrowed, together

Json = dict[str, Any]


def differences(ours: Json, reference: Json) -> list[str]:
    """Where a verification differs from the reference's, both as JSON; nothing if they agree."""
    found = []
    for name in sorted({*ours["properties"], *reference["properties"]}):
        mine, theirs = ours["properties"].get(name), reference["properties"].get(name)
        if mine != theirs:
            found.append(f"{name}: {mine}, the reference says {theirs}")
    blamed, expected = verdicts(ours), verdicts(reference)
    found += [f"only here violated: {each}" for each in sorted(blamed - expected)]
    found += [f"only by the reference violated: {each}" for each in sorted(expected - blamed)]
    described = {str(violation) for violation in reference["violations"]}
    found += [f"the reference has no {each}" for each in ours["violations"] if str(each) not in described]
    if ours["verdict"] != reference["verdict"]:
        found.append(f"verdict {ours['verdict']}, the reference says {reference['verdict']}")
    return found


def verdicts(result: Json) -> set[tuple[str, str]]:
    """The (run, property) pairs that are violated."""
    return {(violation["run"], violation["property"]) for violation in result["violations"]}


def summed(parts: Sequence[Verification]) -> Json:
    """One verification from those of several tables, whose runs are different ones."""
    properties: dict[str, dict[str, int]] = {}
    for part in parts:
        for name, outcome in part.properties.items():
            sums = properties.setdefault(name, dict.fromkeys(outcome.to_json(), 0))
            for key, value in outcome.to_json().items():
                sums[key] += value
    violations = [violation.to_json() for part in parts for violation in part.violations]
    return {"verdict": "violated" if violations else "holds", "properties": properties, "violations": violations}


def check_in_pieces(table: pa.Table, rows: int, properties: Sequence[str] | None) -> Verification:
    """The check of tasks on a trace that came in row groups of so many rows, so that runs are spread over several."""
    units = [Unit(table.slice(first, rows)) for first in range(0, table.num_rows, rows)]
    return together(list(examine(units, table, (), properties)), properties)


def check_narrowed(
    table: pa.Table, rows: int, properties: Sequence[str] | None, *, whole_up_to: int = WHOLE_UP_TO
) -> tuple[Verification, dict[str, Found]]:
    """The check of a large run: it comes in units of so many rows, and what is doubtful is narrowed down where that can be done.
    Also, what was found of each run before the search. Runs of more than ``whole_up_to`` rows are not searched whole."""
    settled: list[Found] = []
    before: dict[str, Found] = {}
    for run in table.column("run").unique().to_pylist():
        own = table.filter(pc.equal(table["run"], run))
        starts = own.filter(pc.equal(own["kind"], "start")).column("detail").unique().to_pylist()
        bounds = {run: max(map(stated_bound, starts), default=0)}  # as tasks are told where the run begins
        units = [Unit(own.slice(first, rows), bounds=bounds) for first in range(0, own.num_rows, rows)]
        slices = [unit.slice(0, alone=True) for unit in units]
        found = judge_alone(run, slices, properties, narrow_from=0, whole_up_to=whole_up_to)
        before[run] = dataclasses.replace(found)
        if found.untimed is not None:
            found.settle_times(timed(own, found.untimed))
            before[run].doubtful = found.doubtful
        if found.is_narrowed:
            settle_narrowed(found, own.filter(needed_of(found).among(own)))
        if found.is_open:
            look_closely(found, own, (), properties)
        settled.append(found)
    return together(settled, properties), before


def run_differences(table: pa.Table, properties: Sequence[str] | None) -> dict[str, list[str]]:
    """The runs of a trace on which the check of tasks and the reference differ, one by one: slow, and tells where to look."""
    found = {}
    for run in table.column("run").unique().to_pylist():
        own = table.filter(pc.equal(table["run"], run))
        differing = differences(check(own, properties).to_json(), verify(own, properties).to_json())
        if differing:
            found[run] = differing
    return found
