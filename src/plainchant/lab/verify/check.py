"""Verifies whole runs inside one task: what sweeps call for each run, and what verification calls where a run fits.

The certificates (stage 1) of all rows are made at once; then each run is proved (stage 2) as far as they go. The reference checks
decide what they leave doubtful, on the rows of that run alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ...trace.reader import Part
from ...trace.schema import Malformed
from ...trace.validation import misplaced, validate, validate_spans
from ..properties import PROPERTIES, Outcome, Verification
from ..properties.certificates.evidence import Doubtful, Evidence, Messages, arrangement
from ..properties.certificates.odd import Odd, odd_rows
from ..properties.certificates.records import Misplaced, Slice
from ..properties.certificates.unit import Unit
from ..properties.certificates.untimed import Untimed
from ..properties.certificates.wanted import Wanted
from ..properties.facts import Columns, Run, runs_of
from ..properties.narrowing.few import Few, answered, skeleton_of
from ..properties.narrowing.narrow import Narrowed, narrow, searched
from ..properties.narrowing.portion import WHOLE_UP_TO, Portion, portion_of
from ..properties.proof import prove
from ..properties.reference import check_run, reports_without_case, require_known, warnings_of
from ..properties.report import MAX_SHOWN, Result
from ..properties.timing.deadlines import Timed, timed
from ..properties.timing.in_doubt import deadline_missed


@dataclasses.dataclass(slots=True)
class Found(Result):
    """What is known of one run, and what is left to settle."""

    run: str = ""
    doubtful: tuple[str, ...] = ()  # left to the reference check, which needs rows that are not all here
    suspect: bool = False  # the same for validation
    unresolved: tuple[Messages, ...] = ()  # messages whose digests have to be compared before ``integrity`` can be said to hold
    untimed: Untimed | None = None  # what the times of rows must show before ``deadline`` can be said to hold
    out_of_order: bool = False  # rows of a history stand apart, which may only be their order in the files
    misplaced: tuple[Misplaced, ...] = ()  # rows whose index is wrong in any order
    rows: int = 0
    narrowed: Narrowed | None = None  # some properties are left to the reference check of a few messages' rows
    odd: Odd | None = None  # the rows that validation has to look at; None: all
    few: Few | None = None  # questions that a few rows decide; it may be there without any, for what times will show
    portion: Portion | None = None  # what is searched if something is left to the reference check; None: the whole run

    @property
    def is_open(self) -> bool:
        """Whether something is left to settle."""
        return self.suspect or bool(self.doubtful or self.unresolved) or self.untimed is not None or self.is_narrowed

    @property
    def is_narrowed(self) -> bool:
        """Whether some of the rows settle something."""
        return self.narrowed is not None or bool(self.few and self.few.questions) or self.is_partial

    @property
    def is_partial(self) -> bool:
        """Whether a portion of the run is searched for what would need the whole run, and all of that is known."""
        return self.portion is not None and self.untimed is None and bool(self.doubtful or self.unresolved)

    def tell_misplaced(self, large_rows: int) -> None:
        """Says at once of a large run which rows are misplaced; a smaller one is looked through for all that is malformed."""
        if self.out_of_order or not self.misplaced or self.rows < large_rows:
            return
        problems = [(row.file, self.run, row.process, row.at, misplaced(row.at, row.due)) for row in self.misplaced]
        self.malformed = [Malformed(*problem) for problem in problems]
        self.suspect, self.misplaced = False, ()

    def settle_narrowed(self, rows: pa.Table, most: int | None = MAX_SHOWN) -> None:
        """Decides the properties that were narrowed down, from the rows about the doubtful messages."""
        if self.narrowed is not None:
            for report in searched(self.narrowed, rows):
                self.add_report(report, 1, self.rows, most)
            self.narrowed = None

    def settle_few(self, rows: pa.Table, most: int | None = MAX_SHOWN) -> None:
        """Answers the questions, from all rows that they want."""
        if self.few is not None:
            for report in self.few.decided(rows):
                self.add_report(report, 1, self.rows, most)
            # Times may still raise another question.
            self.few = dataclasses.replace(self.few, questions={}) if self.untimed is not None else None

    def settle_portion(self, rows: pa.Table, most: int | None = MAX_SHOWN) -> None:
        """Searches for what is left in all rows about the messages of the portion."""
        assert self.portion is not None
        names = (*self.doubtful, *(("integrity",) if self.unresolved else ()))
        for report in self.portion.searched(rows, names):
            self.outcomes.pop(report.name, None)  # of integrity, where only the digests were open
            self.add_report(report, 1, self.rows, most, in_part=True)
            if not report.count:
                told = (
                    f"run {self.run}: {report.name} is not decided: it is in doubt, and of {self.rows:,} rows only a portion was"
                )
                told += f" searched, which shows no violation; --search-up-to {self.rows} searches all of them, in one task"
                self.warnings.append(f"{told} with about {-(-self.rows // 1_000_000)} GB")
        self.doubtful, self.unresolved = (), ()

    def settle_odd(self, rows: pa.Table, files: Sequence[Part]) -> None:
        """Says what is malformed, from the rows that may be."""
        if self.odd is not None:
            self.malformed = validate_spans(plain(rows), files, self.odd.pasts, too_new=self.odd.too_new)
            self.odd = None

    def settle_times(self, seen: Timed) -> None:
        """Says that ``deadline`` holds, or asks about the messages that are late, or leaves it to the exact search."""
        left, self.untimed = self.untimed, None
        if left is None:
            return
        question = deadline_missed(left, seen) if self.few is not None else None
        if question is not None and self.few is not None:
            self.few = self.few.asking("deadline", question)
        elif not seen.in_time or left.odd:
            self.doubtful = (*self.doubtful, "deadline")
        elif left.cases + seen.cases or left.is_held:
            self.outcomes["deadline"] = Outcome(1, left.events, left.cases + seen.cases, 0)


def judge(facts: Run, slices: Sequence[Slice], properties: Sequence[str] | None, most: int | None = MAX_SHOWN) -> Found:
    """What the certificates of a run come to."""
    return _judge(Evidence(facts, slices), properties, most, narrowed=False)


def _judge(
    evidence: Evidence, properties: Sequence[str] | None, most: int | None, *, narrowed: bool, whole_up_to: int = WHOLE_UP_TO
) -> Found:
    facts = evidence.facts
    messages: Narrowed | None = None

    def narrow_down(doubtful: Sequence[str]) -> Container[str]:
        nonlocal messages
        try:
            messages = narrow(evidence, doubtful, properties)
        except Doubtful:
            return ()
        return messages.cases

    proof = prove(evidence, properties, narrow_down if narrowed else None)
    found = Found(run=facts.name, suspect=proof.suspect, doubtful=tuple(proof.doubtful), rows=evidence.rows)
    found.narrowed = messages
    if narrowed and (proof.questions or proof.untimed is not None):
        until_end, is_held = properties is not None or facts.drained, reports_without_case(facts, properties)
        at_once = {name: question for name, question in proof.questions.items() if question.wanted.is_empty}
        for report in answered(facts, at_once, until_end=until_end, is_held=is_held):
            found.add_report(report, 1, evidence.rows, most)
        left = {name: question for name, question in proof.questions.items() if name not in at_once}
        if left or proof.untimed is not None:
            found.few = Few(skeleton_of(evidence.slices), left, until_end, is_held)
    found.out_of_order, found.misplaced = evidence.out_of_order, tuple(evidence.misplaced)
    if narrowed and proof.suspect and not (found.out_of_order or found.misplaced):
        found.odd = odd_rows(evidence.slices)
    if not proof.suspect:
        for report, checked in proof.decided:
            found.add_report(report, checked, evidence.rows, most)
        for name, (checked, cases) in proof.cases.items():
            found.outcomes[name] = Outcome(checked, checked * evidence.rows, cases, 0)
        found.warnings = warnings_of(facts)
        found.unresolved = tuple(proof.unresolved)
        found.untimed = proof.untimed
        if narrowed and evidence.rows > whole_up_to and (found.doubtful or found.unresolved or found.untimed is not None):
            until_end = properties is not None or facts.drained
            found.portion = portion_of(evidence, found.doubtful, whole_up_to, until_end=until_end)
    if messages is not None and not messages.messages:  # no row is needed
        found.settle_narrowed(messages.skeleton.slice(0, 0), most)
    return found


def look_closely(
    found: Found, table: pa.Table, files: Sequence[Part], properties: Sequence[str] | None, most: int | None = MAX_SHOWN
) -> None:
    """Settles what the certificates left open, from all rows of the run."""
    assert found.narrowed is None, "a few rows settle that"
    if found.odd is not None:
        found.settle_odd(*among(table, files, found.odd.wanted.among(table)))
    if found.suspect and not found.malformed:
        found.malformed = validate(plain(table), files)
    if found.malformed:
        return
    if found.untimed is not None:
        found.settle_times(timed(table, found.untimed))
        if found.is_narrowed:
            settle_narrowed(found, plain(table.filter(needed_of(found).among(table))), most)
        if not found.is_open:
            return
    only = PROPERTIES if found.suspect else (*found.doubtful, *(("integrity",) if found.unresolved else ()))
    run = next(runs_of(table))
    for report, checked in check_run(run, properties, only):
        found.outcomes.pop(report.name, None)  # of integrity, where only the digests were open
        found.add_report(report, checked, run.events, most)
    found.warnings = warnings_of(run)
    found.doubtful, found.unresolved, found.suspect = (), (), False


def examine(
    units: Sequence[Unit], table: pa.Table, files: Sequence[Part], properties: Sequence[str] | None, most: int | None = MAX_SHOWN
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
    most: int | None = MAX_SHOWN,
    without: Container[str] = (),
    narrow_from: int | None = None,
    whole_up_to: int = WHOLE_UP_TO,
) -> Iterator[Found]:
    """Every run of some units, except some, as far as certificates go. Runs of ``narrow_from`` rows are narrowed down; runs of
    more than ``whole_up_to`` are never searched whole."""
    where: dict[str, list[tuple[Unit, int]]] = {}
    for unit in units:
        for place, run in enumerate(unit.runs):
            if run not in without:
                where.setdefault(run, []).append((unit, place))
    columns = {id(unit): Columns(unit.skeleton) for unit in units if unit.runs}
    for run, places in sorted(where.items()):
        unit, place = places[0]
        if len(places) > 1 or (narrow_from is not None and unit.size_of(place) >= narrow_from):
            slices = [unit.slice(place, alone=True) for unit, place in places]
            yield judge_alone(run, slices, properties, most, narrow_from=narrow_from, whole_up_to=whole_up_to)
            continue
        only = unit.slice(place)
        if only.suspect:  # facts are made of rows that can be understood
            yield Found(run=run, suspect=True)
        else:
            yield judge(Run(run, columns[id(unit)], unit.skeleton_rows(place)), [only], properties, most)


def judge_alone(
    run: str,
    slices: Sequence[Slice],
    properties: Sequence[str] | None,
    most: int | None = MAX_SHOWN,
    *,
    narrow_from: int | None = None,
    whole_up_to: int = WHOLE_UP_TO,
) -> Found:
    """A run whose slices come from several units and bring their skeletons. What is doubtful in one of ``narrow_from`` rows or
    more is narrowed down to a few messages where that can be done."""
    if any(part.suspect for part in slices):  # facts are made of rows that can be understood
        out_of_order, wrong = arrangement(slices)
        rows = sum(part.rows for part in slices)
        odd = odd_rows(slices) if narrow_from is not None and rows >= narrow_from and not (out_of_order or wrong) else None
        return Found(run=run, suspect=True, out_of_order=out_of_order, misplaced=tuple(wrong), rows=rows, odd=odd)
    skeleton = pa.concat_tables([part.skeleton for part in slices], promote_options="permissive")
    evidence = Evidence(Run(run, Columns(skeleton), range(skeleton.num_rows)), slices)
    narrowed = narrow_from is not None and evidence.rows >= narrow_from
    return _judge(evidence, properties, most, narrowed=narrowed, whole_up_to=whole_up_to)


@dataclasses.dataclass(frozen=True, slots=True)
class Needed:
    """Which rows of a run decide what was narrowed down in it."""

    narrowed: Narrowed | None
    wanted: Wanted | None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that tell them from others."""
        about = ("run", "group", "sender", "seq") if self.narrowed is not None else ()
        return tuple(dict.fromkeys((*about, *(self.wanted.columns if self.wanted is not None else ()))))

    @property
    def spans(self) -> list[tuple[int, int]] | None:
        """The lowest and the highest number that these rows have; None: rows with any number, or without one."""
        spans = [each.span for each in (self.narrowed, self.wanted) if each is not None]
        return None if None in spans else [span for span in spans if span is not None]

    def among(self, keys: pa.Table) -> pa.ChunkedArray:
        found = None if self.narrowed is None else self.narrowed.is_about(keys)
        if self.wanted is None:
            return found
        return self.wanted.among(keys) if found is None else pc.or_(found, self.wanted.among(keys))


def needed_of(found: Found) -> Needed:
    narrowed = found.narrowed.without_skeleton() if found.narrowed is not None else None
    few = found.few.wanted if found.few is not None and found.few.questions else None
    if found.portion is None or not found.is_partial:
        return Needed(narrowed, few)
    return Needed(narrowed, found.portion.wanted if few is None else few | found.portion.wanted)


def settle_narrowed(found: Found, rows: pa.Table, most: int | None = MAX_SHOWN) -> None:
    """Decides what was narrowed down in a run, from some rows of it, all that are needed among them."""
    if found.narrowed is not None:
        found.settle_narrowed(rows.filter(found.narrowed.is_about(rows)), most)
    if found.few is not None and found.few.questions:
        found.settle_few(rows.filter(found.few.wanted.among(rows)), most)
    if found.portion is not None and found.is_partial:
        found.settle_portion(rows.filter(found.portion.wanted.among(rows)), most)


def plain(table: pa.Table) -> pa.Table:
    """Strings as strings: dictionaries cannot be sorted."""
    kinds = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))


def rows_of(table: pa.Table, files: Sequence[Part], run: str) -> tuple[pa.Table, list[Part]]:
    """The rows of one run, and where they came from."""
    return among(table, files, pc.equal(table.column("run"), run))


def among(table: pa.Table, files: Sequence[Part], kept: pa.ChunkedArray) -> tuple[pa.Table, list[Part]]:
    """Some rows, and where they came from."""
    parts: list[Part] = []
    for part in files:
        rows = int(pc.sum(kept.slice(part.first, part.rows)).as_py() or 0)
        parts.append(Part(part.path, sum(before.rows for before in parts), rows))
    return table.filter(kept), parts


def together(results: Sequence[Found], properties: Sequence[str] | None = None) -> Verification:
    """One verification from those of several runs."""
    total = Result()
    for found in results:
        total.add(found)
    return total.verification(properties)


def check(table: pa.Table, properties: Sequence[str] | None = None) -> Verification:
    """The verification of every run in a table of whole runs: the same as ``lab.properties.verify``, and sooner.

    The table is taken to be well formed as far as it is not suspect: one that is, is validated, and what is malformed is reported
    instead of a verdict."""
    require_known(properties or ())
    return together(list(examine([Unit(table)], table, (), properties)), properties)


def check_each(tables: Sequence[pa.Table], properties: Sequence[str] | None = None) -> list[Verification]:
    """The verification of each of some tables of one run each, whose names are different; all at once is several times sooner
    than one by one where they are small."""
    require_known(properties or ())
    table = pa.concat_tables(tables)
    found = {each.run: each for each in examine([Unit(table)], table, (), properties)}
    names = [rows.column("run")[0].as_py() if rows.num_rows else None for rows in tables]
    return [together([found[name]] if name in found else [], properties) for name in names]
