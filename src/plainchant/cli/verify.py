"""``plainchant verify``: whether runs kept their promises, from their traces alone; here if they are small, else on Spark."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from typer import Exit

from ..core.model import TraceError, UsageError
from ..lab.properties import Verification
from ..lab.properties.narrowing.portion import WHOLE_UP_TO
from ..lab.properties.reference import require_known
from ..lab.properties.report import MAX_SHOWN
from ..trace.reader import find_files
from .console import EXIT_UNEXPECTED, EXIT_WRONG_INPUT, complain, guarded, output, terminal
from .options import TracesOrTableArgument, option
from .output import json_text, whole_file, write_or_print
from .spark import (
    ConfOption,
    EngineOption,
    ExplainOption,
    MasterOption,
    MemoryOption,
    RemoteOption,
    TableOption,
    UiOption,
    engine_of,
    paths_of,
    spark_for,
)
from .verdict import print_outcomes, print_violations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOLD: Final = 10
"""So many violations are told; the others are counted, and written if a file is asked for."""
_PROBLEMS: Final = 10
_SMALL: Final = 16 * 1024 * 1024
"""Bytes of Parquet up to which starting fast counts for more than running fast."""


@guarded
def verify(
    paths: TracesOrTableArgument = None,
    table: TableOption = None,
    properties: Annotated[
        list[str] | None, option("Check this property, whatever is promised; repeat as needed.", "--property", of="NAME")
    ] = None,
    json_file: Annotated[Path | None, option("Write the result as JSON; - is standard output.", "--json", of="FILE")] = None,
    violations: Annotated[
        Path | None, option("Write all violations, however many: .parquet, or .jsonl for lines of JSON.", of="FILE")
    ] = None,
    write_to: Annotated[
        Path | None, option("New directory for outcomes and violations, as Parquet partitioned by property.", of="DIR")
    ] = None,
    most: Annotated[int, option("Violations to tell.", min=0)] = _TOLD,
    search_up_to: Annotated[
        int, option("Search a run of up to so many rows whole if need be, in one task (1 KB each); a larger one in part.", min=1)
    ] = WHOLE_UP_TO,
    explain: ExplainOption = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = None,
    conf: ConfOption = None,
    ui: UiOption = False,
    engine: EngineOption = "auto",
) -> None:
    """Verify traces of any size: did every run keep what it promised?

    Without --property, each run is checked for what its protocol promises (the `start` rows say it), or, if it does not
    speak of promises, for every property that it has the events for. What properties mean is in docs/properties.md.

    Up to 300,000 rows are verified in this process, in less time than Spark takes to start; more, or if an option is about Spark,
    on Spark. Both say the same. --table and --write-to go through Spark's own reader, as DataFrames (docs/lab.md).

    Where almost everything in a large run is wrong, only a part of it is searched: then there are "at least" so many violations,
    or a property is "unknown". --search-up-to says up to which size a run is searched whole.

    The exit status is 0 if everything holds, 1 if something is violated, 2 if the input is malformed or unreadable, or nothing is
    known to be violated and something is unknown.

    Examples:

      plainchant verify result
      plainchant verify 'live/*.parquet' --property total --property uniform
      plainchant verify s3://bucket/traces --json verdict.json --master spark://host:7077
      plainchant verify --table lake.traces --write-to verdicts
    """
    from ..lab.tables import violation_rows
    from ..lab.verify import is_small, job, verify_here
    from ..lab.verify import verify as verify_on_spark

    require_known(properties or ())
    if violations is not None and violations.suffix not in (".parquet", ".jsonl"):
        raise UsageError(f"--violations writes .parquet or .jsonl, not {violations.name!r}; name such a file")
    paths = paths_of(paths, table)
    engine = engine_of(engine, master, remote, memory, conf, ui, table, explain, write_to)
    described = None if violations is not None else MAX_SHOWN
    if table is not None or write_to is not None:
        with spark_for(master, remote, memory, conf, ui=ui) as spark:
            asked = _Asked(properties or None, described, write_to, search_up_to)
            told = _as_frame(spark, paths, table, asked, explain=explain)
        if told is None:
            return
        found = told
    elif explain:
        with spark_for(master, remote, memory, conf, ui=ui) as spark:
            chunks, first = job.planned(spark, paths, properties or None)
            output().print(f"{chunks:,} chunks of row groups, a task each; then:", markup=False)
            return first.explain("formatted")
    elif engine == "local" or (engine == "auto" and is_small(paths)):
        found = verify_here(paths, properties or None, most=described, search_up_to=search_up_to)
    else:
        quick = _bytes(paths) <= _SMALL
        with spark_for(master, remote, memory, conf, ui=ui, quick=quick) as spark, _progress() as progress:
            run = partial(verify_on_spark, most=described, search_up_to=search_up_to, progress=progress)
            found = run(spark, paths, properties or None)
    if json_file is not None:
        write_or_print(json_file, json_text(found.to_json()))
    if violations is not None:
        if violations.suffix == ".jsonl":
            write_or_print(violations, "".join(json.dumps(v.to_json(), ensure_ascii=False) + "\n" for v in found.violations))
        else:
            import pyarrow.parquet as pq

            rows = violation_rows((violation, 0) for violation in found.violations).drop_columns(["seen_at"])
            with whole_file(violations) as hidden:
                pq.write_table(rows, hidden)
    if json_file is None or str(json_file) != "-":
        _tell(found, most, violations)
    if found.verdict != "holds":
        raise Exit(EXIT_UNEXPECTED if found.verdict == "violated" else EXIT_WRONG_INPUT)


class _Asked(NamedTuple):
    properties: list[str] | None
    described: int | None
    write_to: Path | None
    search_up_to: int


def _as_frame(spark: SparkSession, paths: list[str], table: str | None, asked: _Asked, *, explain: bool) -> Verification | None:
    """Verifies a table, or files as Spark reads them, and writes what was found; None if the plan was all that was wanted."""
    from ..lab.frames import source, verified
    from ..lab.verify.frame import verification_in
    from ..lab.verify.parts import without_rows

    if len(paths) > 1:
        raise UsageError("--write-to is about one trace: give one path, or a table of all of them with --table")
    where = table or paths[0]
    rows = source.table(spark, where) if table is not None else source.trace(spark, Path(where) if "://" not in where else where)
    most = asked.described if asked.write_to is None else None
    found = verified.found_in(rows, asked.properties, most=most, search_up_to=asked.search_up_to)
    if explain:
        return found.explain("formatted")  # it prints
    if not rows.take(1):
        raise TraceError(without_rows(where))
    if asked.write_to is None:
        return verification_in(found, asked.properties, most=asked.described)
    if asked.write_to.exists():
        raise UsageError(f"{asked.write_to} exists: name a new directory")
    found = found.persist()
    try:
        for name, choose in (("outcomes", verified.outcomes_in), ("violations", verified.violations_in)):
            choose(found).write.partitionBy("property").parquet(f"{asked.write_to.absolute().as_uri()}/{name}")
        return verification_in(found, asked.properties, most=asked.described)
    finally:
        found.unpersist()


def _tell(found: Verification, most: int, written: Path | None) -> None:
    console = output()
    if found.malformed:
        for problem in found.malformed[:_PROBLEMS]:
            complain(f"malformed: {problem}")
        if len(found.malformed) > _PROBLEMS:
            complain(f"and {len(found.malformed) - _PROBLEMS} more; --json FILE has them")
        return complain("nothing was verified: mend the trace or leave out what is wrong with it")
    print_outcomes(console, found.properties)
    if not found.properties:
        console.print("nothing to check: no run promises anything, or has events that a property speaks of")
    print_violations(console, found.violations, most=most)
    told = sum(outcome.violations for outcome in found.properties.values())
    if len(found.violations) < told:
        console.print(f"({told:,} violations in all; --violations FILE writes every one)")
    elif written is not None:
        console.print(f"({len(found.violations):,} violations written to {written})", markup=False)
    for warning in found.warnings[:_PROBLEMS]:
        console.print(f"\nNote: {warning}", markup=False)
    if len(found.warnings) > _PROBLEMS:
        console.print(f"\nand {len(found.warnings) - _PROBLEMS} more notes")


def _bytes(paths: list[str]) -> int:
    """How much there is to read, as far as that is cheap to know. Also says at once if there is nothing."""
    found = [find_files(path) for path in takewhile(lambda path: "://" not in path, paths)]
    sizes = [info.size or 0 for filesystem, files in found for info in filesystem.get_file_info(files)]
    return sum(sizes) if len(found) == len(paths) else _SMALL + 1


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str, float], None] | None]:
    """A status line, on a terminal only."""
    console = terminal()
    if console is None:
        yield None
        return
    with console.status("starting") as status:
        yield lambda doing, done: status.update(f"{doing}: {done:.0%} of the tasks")
