"""Verifies whole runs inside one task: what sweeps call for each run, and what verification calls where a run fits.

The certificates (stage 1) of all rows are made at once; then each run is proved (stage 2) as far as they go. What they leave
doubtful the reference verifier decides, on the rows of that run alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...trace.reader import Part
from ...trace.schema import Malformed
from ...trace.validation import validate
from ..properties import PROPERTIES, Outcome, Verification, Violation, check_run, known, warnings_of
from ..properties.certificates.evidence import Evidence, Messages
from ..properties.certificates.unit import Slice, Unit
from ..properties.facts import Columns, Run, runs_of
from ..properties.proof import prove
from ..properties.report import MOST_SHOWN, Report
from ..properties.timing.deadlines import Timed, Untimed, timed


@dataclasses.dataclass(slots=True)
class Found:
    """What is known of one run: outcomes by property, violations with their order, or what is malformed."""

    run: str
    outcomes: dict[str, Outcome] = dataclasses.field(default_factory=dict)
    violations: list[tuple[tuple[Any, ...], Violation]] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    malformed: list[Malformed] = dataclasses.field(default_factory=list)
    doubtful: tuple[str, ...] = ()
    """Properties that need the exact search, which was not made because the rows are not all here."""
    smells: bool = False
    """The same for validation."""
    unresolved: tuple[Messages, ...] = ()
    """Messages whose digests have to be compared before ``integrity`` can be said to hold."""
    untimed: Untimed | None = None
    """What has to be seen of the times before ``deadline`` can be said to hold."""
    is_loose: bool = False
    """It smells because rows of a history stand apart, which may only be their order in the files."""

    @property
    def is_open(self) -> bool:
        """Whether something is left to settle."""
        return self.smells or bool(self.doubtful) or bool(self.unresolved) or self.untimed is not None

    def settle_times(self, seen: Timed) -> None:
        """Says that ``deadline`` holds, or leaves it to the exact search."""
        left = self.untimed
        self.untimed = None
        if left is None:
            return
        if not seen.in_time:
            self.doubtful = (*self.doubtful, "deadline")
        elif left.cases + seen.cases or left.is_held:
            self.outcomes["deadline"] = Outcome(1, left.events, left.cases + seen.cases, 0)

    def add(self, report: Report, checked: int, events: int, most: int | None) -> None:
        self.outcomes[report.name] = Outcome(checked, checked * events, report.cases, report.count)
        self.violations += [((*key[:2], self.run, report.name, *key[2:]), violation) for key, violation in report.shown(most)]


def judge(facts: Run, slices: Sequence[Slice], properties: Sequence[str] | None, most: int | None = MOST_SHOWN) -> Found:
    """What the certificates of a run come to."""
    evidence = Evidence(facts, slices)
    proof = prove(evidence, properties)
    found = Found(facts.name, smells=proof.smells, doubtful=tuple(proof.doubtful), is_loose=evidence.is_loose)
    if not proof.smells:
        for report, checked in proof.decided:
            found.add(report, checked, evidence.rows, most)
        for name, (checked, cases) in proof.cases.items():
            found.outcomes[name] = Outcome(checked, checked * evidence.rows, cases, 0)
        found.warnings = warnings_of(facts)
        found.unresolved = tuple(proof.unresolved)
        found.untimed = proof.untimed
    return found


def look_closely(
    found: Found, table: pa.Table, files: Sequence[Part], properties: Sequence[str] | None, most: int | None = MOST_SHOWN
) -> None:
    """Settles what the certificates left open, from all rows of the run."""
    found.malformed = validate(_plain(table), files) if found.smells else []
    if found.malformed:
        return
    if found.untimed is not None:
        found.settle_times(timed(table, found.untimed))
        if not found.is_open:
            return
    only = PROPERTIES if found.smells else (*found.doubtful, *(("integrity",) if found.unresolved else ()))
    run = next(runs_of(table))
    for report, checked in check_run(run, properties, only):
        found.add(report, checked, run.events, most)
    found.warnings = warnings_of(run)
    found.doubtful, found.unresolved, found.smells = (), (), False


def examine(
    units: Sequence[Unit], table: pa.Table, files: Sequence[Part], properties: Sequence[str] | None, most: int | None = MOST_SHOWN
) -> Iterator[Found]:
    """Every run of some units that hold whole runs, settled; ``table`` has the rows of all of them."""
    for found in proved(units, properties, most):
        if found.is_open:
            rows, parts = rows_of(table, files, found.run)
            look_closely(found, rows, parts, properties, most)
        yield found


def proved(
    units: Sequence[Unit],
    properties: Sequence[str] | None,
    most: int | None = MOST_SHOWN,
    without: Container[str] = (),
) -> Iterator[Found]:
    """Every run of some units, except some, as far as certificates go."""
    where: dict[str, list[tuple[Unit, int]]] = {}
    for unit in units:
        for place, run in enumerate(unit.runs):
            if run not in without:
                where.setdefault(run, []).append((unit, place))
    columns = {id(unit): Columns(unit.skeleton) for unit in units if unit.runs}
    for run in sorted(where):
        places = where[run]
        if len(places) == 1:
            unit, place = places[0]
            only = unit.slice(place)
            if only.smells:  # facts are made of rows that can be understood
                yield Found(run, smells=True)
            else:
                facts = Run(run, columns[id(unit)], unit.skeleton_rows(place))
                yield judge(facts, [only], properties, most)
        else:
            yield judge_alone(run, [unit.slice(place, alone=True) for unit, place in places], properties, most)


def judge_alone(run: str, slices: Sequence[Slice], properties: Sequence[str] | None, most: int | None = MOST_SHOWN) -> Found:
    """A run whose slices come from several units and bring their skeletons."""
    if any(part.smells for part in slices):
        return Found(run, smells=True)
    skeleton = pa.concat_tables([part.skeleton for part in slices], promote_options="permissive")
    facts = Run(run, Columns(skeleton), range(skeleton.num_rows))
    return judge(facts, slices, properties, most)


def _plain(table: pa.Table) -> pa.Table:
    """Strings as strings: dictionaries cannot be sorted."""
    kinds = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))


def rows_of(table: pa.Table, files: Sequence[Part], run: str) -> tuple[pa.Table, list[Part]]:
    """The rows of one run, and where they came from."""
    kept = pc.equal(table.column("run"), run)
    parts: list[Part] = []
    for part in files:
        rows = int(pc.sum(kept.slice(part.first, part.rows)).as_py() or 0)
        parts.append(Part(part.path, sum(before.rows for before in parts), rows))
    return table.filter(kept), parts


def together(results: Sequence[Found], properties: Sequence[str] | None = None) -> Verification:
    """One verification from the runs'."""
    outcomes = {name: Outcome() for name in PROPERTIES if properties is not None and name in properties}
    malformed = [problem for found in results for problem in found.malformed]
    if malformed:
        return Verification(outcomes, malformed=tuple(malformed))
    for found in results:
        for name, outcome in found.outcomes.items():
            outcomes[name] = plus(outcomes.get(name, Outcome()), outcome)
    shown = sorted((pair for found in results for pair in found.violations), key=lambda pair: pair[0])
    ordered = {name: outcomes[name] for name in PROPERTIES if name in outcomes}
    warnings = [warning for found in results for warning in found.warnings]
    return Verification(ordered, tuple(violation for _, violation in shown), (), tuple(warnings))


def plus(one: Outcome, other: Outcome) -> Outcome:
    return Outcome(one.runs + other.runs, one.events + other.events, one.cases + other.cases, one.violations + other.violations)


def check(table: pa.Table, properties: Sequence[str] | None = None) -> Verification:
    """The verification of every run in a table of whole runs: the same as ``lab.properties.verify``, and sooner.

    The table is taken to be well formed as far as it does not smell: one that does is validated, and what is malformed is
    told instead of a verdict.
    """
    known(properties or ())
    return together(list(examine([Unit(table)], table, (), properties)), properties)


def check_each(tables: Sequence[pa.Table], properties: Sequence[str] | None = None) -> list[Verification]:
    """The verification of each of some tables of one run each, whose names are different; all at once is several times sooner
    than one by one where they are small."""
    known(properties or ())
    table = pa.concat_tables(tables)
    found = {each.run: each for each in examine([Unit(table)], table, (), properties)}
    names = [rows.column("run")[0].as_py() if rows.num_rows else None for rows in tables]
    return [together([found[name]] if name in found else [], properties) for name in names]
