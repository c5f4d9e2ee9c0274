"""What stands at a path, and the rows of its trace as far as they are needed.

A path is a run's directory (``plainchant run --out``), a sweep's directory (see ``lab.tables``) or any trace. A run that was
verified when it was made, and a sweep, bring their verdicts with them; a trace without one is verified here. Rows are read
through Arrow datasets: a filter on the run skips the row groups of all others, and no more than ``WHOLE_RUN_MAX`` rows
of a run are ever in memory at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ...protocols.story import Story
from ...trace import SCHEMA, MalformedTrace
from ...trace.reader import find_files
from ..errors import LabError
from ..metrics import measure
from ..metrics.frames import MetricsOfRuns
from ..properties import PROPERTIES, Outcome, Verification, Violation
from ..reading import reading
from ..session import explained_session
from ..show import stories_in
from ..tables import violation_of
from ..verify import HERE_UP_TO, is_small, verify, verify_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Sessions: TypeAlias = "Callable[[], AbstractContextManager[SparkSession]]"
WHOLE_RUN_MAX: Final = 200_000
"""A run of up to so many rows is read whole; of a longer one only what is shown."""
SELECTED_MAX: Final = 200_000
"""So many rows are selected from a longer run at the most."""
_ORDER: Final = [("run", "ascending"), ("process", "ascending"), ("index", "ascending")]
_SMALLEST_FIRST: Final = [("size", "ascending"), ("seen_at", "ascending"), ("run", "ascending"), ("sentence", "ascending")]


class Rows:
    """The rows of a trace, on demand."""

    def __init__(self, path: str) -> None:
        filesystem, files = find_files(path)
        with reading(path):
            self._data = ds.dataset(files, schema=SCHEMA, filesystem=filesystem, format="parquet")
        self.path = path
        self.origins: dict[str, int] = {}
        """When runs began whose clock does not start at 0: their times are told from there."""
        self.prepared: dict[str, pa.Table] = {}
        """Of runs that are not read whole, the rows of all their violations, selected in one pass."""
        self._whole: tuple[str, pa.Table | None] | None = None
        self._stories: dict[str, type[Story]] = {}

    def stream(self, columns: Sequence[str], where: Any = None) -> Iterator[pa.Table]:
        """These columns of the rows that are wanted, a batch at a time, in the order of the files."""
        with reading(self.path):
            for batch in self._data.to_batches(columns=list(columns), filter=where, batch_size=131_072):
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])

    def whole(self, run: str) -> pa.Table | None:
        """All rows of a run in the order of its histories; None if they are too many."""
        if self._whole is None or self._whole[0] != run:
            where = ds.field("run") == run
            with reading(self.path):
                few = self._data.count_rows(filter=where) <= WHOLE_RUN_MAX
                self._whole = (run, self._data.to_table(filter=where).sort_by(_ORDER) if few else None)
        return self._whole[1]

    def select(self, run: str, where: Any) -> pa.Table:
        """The rows of a run that are wanted, in the order of its histories, at most ``SELECTED_MAX``."""
        whole = self.whole(run)
        if whole is not None:
            return whole.filter(where)
        with reading(self.path):
            return self._data.filter(ds.field("run") == run).filter(where).head(SELECTED_MAX).sort_by(_ORDER)

    def story(self, run: str) -> type[Story]:
        """The story of a run's protocol."""
        if run not in self._stories:
            self._stories[run] = stories_in(self.select(run, pc.field("kind") == "start")).get(run, Story)
        return self._stories[run]


@dataclasses.dataclass(frozen=True)
class Subject:
    """What a report is about."""

    kind: Literal["run", "sweep", "trace"]
    name: str
    path: str
    """Where the trace is, as one would type it."""
    outcomes: Mapping[str, Outcome]
    violations: tuple[Violation, ...]
    """The ones to show: the smallest of each property in turn."""
    where_all: str
    """Where all violations are: the end of the sentence that says that some were left out."""
    rows: Rows | None
    facts: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    replays: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The command that runs a run again, by run; under "" the one for every run."""
    about: str = ""
    expects_violation: bool = False
    runs: pa.Table | None = None
    metrics: pa.Table | None = None
    """Of a sweep: the metrics of all its runs."""
    measured: pa.Table | None = None
    """Of a trace that was verified here: the metrics of its runs, which were measured in the same pass."""

    def metrics_of(self, run: str) -> list[dict[str, Any]]:
        """A run's metrics, group by group; none if it is too large to be measured here and was not measured before."""
        if self.measured is not None:
            mine = self.measured.filter(pc.equal(self.measured.column("run"), run))
            return mine.to_pylist()  # type: ignore[no-any-return]
        whole = self.rows.whole(run) if self.rows is not None else None
        return measure(whole).to_pylist() if whole is not None else []

    @property
    def count(self) -> int:
        """All violations."""
        return sum(outcome.violations for outcome in self.outcomes.values())

    def replay(self, run: str) -> str | None:
        return self.replays.get(run) or self.replays.get("")


def subject_at(
    path: str, *, most: int, shown: str = "", spark: Sessions = explained_session, here_up_to: int = HERE_UP_TO
) -> Subject:
    """The run, sweep or trace at a path, with at most ``most`` of its violations.

    ``shown`` is the path that the report names, if the results of a run or a sweep will be moved there. ``spark`` opens a
    session; it is called only if a trace that brings no verdict with it has more than ``here_up_to`` rows.
    """
    directory = Path(path)
    if (directory / "sweep.json").is_file():
        with reading(str(directory)):
            return _sweep(directory, most, Path(shown or path))
    if (directory / "summary.json").is_file() and (directory / "trace").exists():
        return _run(directory, most, Path(shown or path), spark, here_up_to)
    verification, measured = outcomes_of(path, spark, here_up_to)
    return Subject(
        kind="trace",
        name=directory.name or path,
        path=path,
        outcomes=verification.properties,
        violations=_in_turn(verification.violations, most),
        where_all=_where_all(path, ()),
        rows=Rows(path),
        warnings=tuple(verification.warnings),
        measured=measured,
    )


def outcomes_of(
    path: str, spark: Sessions = explained_session, here_up_to: int = HERE_UP_TO
) -> tuple[Verification, pa.Table | None]:
    """The verification of a trace that brings none with it, here if it is small, on Spark if it is not; of a large one also the
    metrics, from the same pass over its rows."""
    beside, results = MetricsOfRuns(), dict[str, bytes]()
    is_large = not is_small([path], here_up_to)
    if is_large:
        with spark() as session:
            verification = verify(session, [path], beside=beside, results=results)
    else:
        verification = verify_here([path])
    if verification.malformed:
        raise MalformedTrace(verification.malformed)
    return verification, beside.table(results) if is_large else None


def _where_all(path: str, properties: Iterable[str]) -> str:
    """A run may have been checked for other properties than it promises: the command asks for the same ones."""
    asked = "".join(f" --property {name}" for name in properties)
    return f"`plainchant verify {shlex.quote(path)}{asked} --violations all.jsonl` writes all of them"


def _run(directory: Path, most: int, shown: Path, spark: Sessions, here_up_to: int) -> Subject:
    summary = _json(directory / "summary.json")
    trace = directory / "trace"
    told = summary.get("verification")
    measured = None
    if isinstance(told, dict):
        verification = _verification(told, directory)
    else:
        verification, measured = outcomes_of(str(trace), spark, here_up_to)
    run: dict[str, Any] = summary["run"] if isinstance(summary.get("run"), dict) else {}
    warnings = list(verification.warnings)
    if run.get("drained") and not run.get("quiet", True):
        warnings.append("the run did not get quiet after its traffic ended: what speaks of the end may be missing")
    facts = [("protocol", summary.get("protocol")), ("seed", summary.get("seed")), ("processes", _states(run.get("processes")))]
    facts += [("packets sent", run.get("packets_sent")), ("packets lost", run.get("packets_lost"))]
    scenario = directory / "scenario.toml"
    command = "live" if summary.get("command") == "live" else "run"
    return Subject(
        kind="run",
        name=str(summary.get("scenario") or directory.name),
        path=str(shown),
        outcomes=verification.properties,
        violations=_in_turn(verification.violations, most),
        where_all=_where_all(str(shown), verification.properties),
        rows=Rows(str(trace)),
        facts=tuple(
            (name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in facts if value not in (None, "")
        ),
        warnings=tuple(warnings),
        replays={"": f"plainchant {command} {shlex.quote(str(shown / scenario.name))}"} if scenario.is_file() else {},
        about=_about(scenario),
        expects_violation=summary.get("expect") == "violation",
        measured=measured,
    )


def _verification(told: dict[str, Any], directory: Path) -> Verification:
    """The verification that a summary has as JSON."""
    try:
        outcomes = {str(name): Outcome(**counts) for name, counts in told["properties"].items()}
        return Verification(outcomes, tuple(map(violation_of, told["violations"])))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LabError(
            f"the verification in {directory / 'summary.json'} is not one of ours; "
            f"report on the trace alone: plainchant report {directory / 'trace'} --out FILE.html"
        ) from error


def _states(processes: Any) -> str | None:
    """How many ended how."""
    if not isinstance(processes, dict):
        return None
    states = Counter(end.get("state", "?") for end in processes.values() if isinstance(end, dict))
    return ", ".join(f"{number} {state}" for state, number in states.items())


def _about(scenario: Path) -> str:
    """The sentence with which a scenario file introduces itself."""
    about = ""
    with contextlib.suppress(OSError, ValueError):  # a report does without it
        about = tomllib.loads(scenario.read_text(encoding="utf-8")).get("about", "")
    return about if isinstance(about, str) else ""


def _sweep(directory: Path, most: int, shown: Path) -> Subject:
    definition = _json(directory / "sweep.json")
    runs, outcomes, found, metrics = (_parts(directory, name) for name in ("runs", "outcomes", "violations", "metrics"))
    if runs is None or outcomes is None:
        again = "run the same `plainchant sweep` command again to continue it"
        raise LabError(f"the sweep in {directory} has no results yet; {again}")
    told = runs.to_table().sort_by("run")
    violations = _violations(found, most) if found is not None else ()
    has_trace = any((directory / "trace").rglob("*.parquet"))
    wanted = definition.get("runs")
    warnings: tuple[str, ...] = ()
    if isinstance(wanted, int) and told.num_rows < wanted:
        warnings = (f"the sweep is not complete: {told.num_rows:,} of {wanted:,} runs are done; the same command continues it",)
    return Subject(
        kind="sweep",
        name=str(definition.get("scenario") or definition.get("name") or directory.name),
        path=str(shown),
        outcomes=_summed(outcomes.to_table(columns=["property", "runs", "events", "cases", "violations"])),
        violations=violations,
        where_all=f"all are in {shown / 'violations'}",
        rows=Rows(str(directory / "trace")) if has_trace else None,
        facts=_sweep_facts(told),
        warnings=warnings,
        replays=_replays(told, violations),
        about=_about(directory / "scenario.toml"),
        runs=told,
        metrics=metrics.to_table() if metrics is not None else None,
    )


def _parts(directory: Path, name: str) -> ds.Dataset | None:
    """One of a sweep's tables; None if there is nothing of it."""
    units = directory / "units"
    files = sorted(file for file in (directory / name).glob("*.parquet") if not file.name.startswith((".", "_")))
    # A unit without its marker was interrupted: what it left will be written again.
    whole = [str(file) for file in files if not units.is_dir() or (units / f"{file.stem}.json").is_file()]
    return ds.dataset(whole, format="parquet") if whole else None


def _summed(table: pa.Table) -> dict[str, Outcome]:
    names = ("runs", "events", "cases", "violations")
    summed = table.group_by("property").aggregate([(name, "sum") for name in names])
    found = {row["property"]: Outcome(*(row[f"{name}_sum"] or 0 for name in names)) for row in summed.to_pylist()}
    known = [name for name in PROPERTIES if name in found]
    return {name: found[name] for name in (*known, *sorted(set(found) - set(known)))}


def _violations(found: ds.Dataset, most: int) -> tuple[Violation, ...]:
    """The smallest violations of each property in turn; all of them are never in memory at once."""
    best: dict[str, pa.Table] = {}
    for batch in found.to_batches():
        table = pa.Table.from_batches([batch])
        for name in sorted(table.column("property").unique().to_pylist()):
            here = table.filter(pc.equal(table.column("property"), name))
            both = pa.concat_tables([best[name], here]) if name in best else here
            best[name] = _one_a_run_first(both.sort_by(_SMALLEST_FIRST)).slice(0, most)
    if not best:
        return ()
    return _in_turn(map(violation_of, pa.concat_tables(best.values()).sort_by(_SMALLEST_FIRST).to_pylist()), most)


def _one_a_run_first(violations: pa.Table) -> pa.Table:
    """The first violation of each run, then the others, both in the order in which they come."""
    runs = violations.column("run").combine_chunks().dictionary_encode().indices.to_numpy()
    is_first = np.zeros(len(runs), dtype=np.bool_)
    is_first[np.unique(runs, return_index=True)[1]] = True
    return violations.take(np.concatenate([np.flatnonzero(is_first), np.flatnonzero(~is_first)]))


def _sweep_facts(runs: pa.Table) -> tuple[tuple[str, str], ...]:
    verdicts = pc.value_counts(runs.column("verdict")).to_pylist()
    facts = [("runs", f"{runs.num_rows:,}")]
    facts += [(f"runs {each['values']}", f"{each['counts']:,}") for each in sorted(verdicts, key=lambda one: one["values"])]
    summed = {"messages sent": "sent", "messages delivered": "delivered", "packets": "packets", "events traced": "events"}
    return (*facts, *((name, f"{pc.sum(runs.column(column)).as_py() or 0:,}") for name, column in summed.items()))


def _replays(runs: pa.Table, violations: Iterable[Violation]) -> dict[str, str]:
    shown = pa.array(sorted({violation.run for violation in violations}), pa.string())
    runs = runs.filter(pc.is_in(runs.column("run"), shown))
    pairs = zip(runs.column("run").to_pylist(), runs.column("replay").to_pylist(), strict=True)
    return {run: command for run, command in pairs if command}


def _in_turn(violations: Iterable[Violation], most: int) -> tuple[Violation, ...]:
    """The first of each property, one of each run, then the second of each, ...: what is shown varies as much as it can."""
    seen: Counter[tuple[str, ...]] = Counter()
    ranked = []
    for place, violation in enumerate(violations):
        here, everywhere = (violation.property, violation.run), (violation.property,)
        ranked.append((seen[here], seen[everywhere], place, violation))
        seen.update([here, everywhere])
    return tuple(violation for *_, violation in sorted(ranked, key=lambda each: each[:3])[:most])


def _json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LabError(f"cannot read {file}: {error}; make it again, or report on the trace beside it") from error
    if not isinstance(value, dict):
        raise LabError(f"{file} is not one of ours: it holds no JSON object; report on the trace beside it")
    return value
