"""The reference verifier: every property of a trace, in plain Python, slow and obviously correct. It serves ``plainchant run`` on
small runs, users' own tests, and as the measure for the proofs and for the checks on growing traces.

Properties that speak of the ``end`` of a run are checked by default only in drained runs. These are all of self-delivery,
validity, agreement, view-exclusion and convergence, and a clause of uniform, view-order, causal and total. A property that is
asked for by name is checked whole.
"""

from __future__ import annotations

import difflib
from collections.abc import Container, Sequence

import pyarrow as pa

from ...core.model import UsageError
from ...trace.properties import BLOCK_PROPERTIES, PROPERTIES, SPEAK_OF_END
from ...trace.schema import Malformed
from .catalogue import CATALOGUE
from .facts import Run, runs_of
from .owing import Owing
from .report import Report, Result, Verification


def verify(table: pa.Table, properties: Sequence[str] | None = None, *, malformed: Sequence[Malformed] = ()) -> Verification:
    """Verifies every run of a trace.

    With ``properties``, exactly these are checked, whole, in every run. Without, each run is checked for what its ``start``
    rows promise, or, if they promise nothing, for every property that it has a case of. The table must be well formed; pass
    what validation found as ``malformed``, and nothing is verified.

    >>> from plainchant.trace.schema import SCHEMA
    >>> verify(SCHEMA.empty_table(), ["fifo"]).properties["fifo"].verdict
    'nothing to check'
    """
    require_known(properties or ())
    result = Result(malformed=list(malformed))
    if not malformed:
        for run in runs_of(table):
            result.warnings += warnings_of(run)
            for report, checked in check_run(run, properties):
                result.add_report(report, checked, run.events)
    return result.verification(properties)


def check_run(run: Run, properties: Sequence[str] | None, only: Container[str] = PROPERTIES) -> list[tuple[Report, int]]:
    """The reports of one run, each with 1 if the property was checked in it and 0 if the run is not fit for that.

    ``only``: of the properties that this run is to be checked for, check these."""
    owing = Owing(run)
    reports = []
    for name in names_for(run, properties):
        if name not in only:
            continue
        report = Report(run, owing, name, until_end=properties is not None or run.drained)
        checked = report.until_end or name not in SPEAK_OF_END
        if checked:
            CATALOGUE[name].reference(report)
        if report.cases or reports_without_case(run, properties):
            reports.append((report, int(checked)))
    return reports


def names_for(run: Run, properties: Sequence[str] | None) -> list[str]:
    """The properties that a run is checked for: those asked for, else those that it and its building blocks promise, else all."""
    promised = properties if properties is not None else run.promises
    if promised is None:
        return list(PROPERTIES)
    kinds = {*run.noted, *([None] if run.noted else [])} if properties is None else set()
    concerned = {name for name, about in BLOCK_PROPERTIES.items() if about in kinds}
    return [name for name in PROPERTIES if name in promised or name in concerned]


def reports_without_case(run: Run, properties: Sequence[str] | None) -> bool:
    """Whether a property without a case is reported: it was asked for or promised."""
    return properties is not None or run.promises is not None


def warnings_of(run: Run) -> list[str]:
    """What a person should know about a run though it is no violation."""
    found = []
    if run.unobserved:
        found.append(f"run {run.name}: views name {', '.join(run.unobserved)}, which have no rows; nothing is asked of them")
    unknown = [name for name in run.promises or () if name not in PROPERTIES]
    if unknown:
        found.append(f"run {run.name}: promises {', '.join(unknown)}, which this version cannot check; update plainchant")
    return found


def require_known(properties: Sequence[str]) -> None:
    """Raises UsageError for a name that no property has."""
    for name in properties:
        if name not in PROPERTIES:
            near = difflib.get_close_matches(name, PROPERTIES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(PROPERTIES)}"
            raise UsageError(f"there is no property {name!r}; {hint}")
