"""The reference verifier: every property of a trace, in plain Python, slow and obviously correct.

It serves ``plainchant run`` on small runs, users' own tests, and as the measure for the verification on Spark.
``facts`` turns the table into runs and histories; ``causality`` and ``owing`` say what happened before what and who
owes what; ``order``, ``delivery``, ``views``, ``timing`` and ``blocks`` hold one function a property, whose docstring is its
definition and says how an open point of it was decided; ``report`` is what comes out. It imports ``model`` and the
trace's ``schema`` and ``properties`` only.

What speaks of ``end`` is checked by default only in drained runs. That is all of self-delivery, validity, agreement,
view-exclusion and convergence; of uniform, view-order, causal and total it is a clause, and the rest of each is
checked in every run. A property that is asked for by name is checked whole.

Start reading here, then ``facts``, then the property you want to know about."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from ...core.model import UsageError
from ...trace.properties import BLOCK_PROPERTIES, PROPERTIES, SPEAK_OF_END
from ...trace.schema import Malformed
from .blocks import merged as blocks_merged
from .blocks import offices as blocks_offices
from .blocks import queue as blocks_queue
from .blocks import replicas as blocks
from .blocks import requests as blocks_requests
from .delivery import reference as delivery
from .facts import Run, runs_of
from .order import reference as order
from .owing import Owing
from .report import Outcome, Report, Verification, Violation
from .timing import reference as timing
from .views import reference as views

__all__ = ["PROPERTIES", "SPEAK_OF_END", "Outcome", "Verification", "Violation", "verify"]

_CHECKERS: Final[Mapping[str, Callable[[Report], None]]] = {
    "integrity": delivery.integrity,
    "fifo": order.fifo,
    "causal": order.causal,
    "identical": order.identical,
    "total": order.total,
    "acyclic": order.acyclic,
    "self-delivery": delivery.self_delivery,
    "validity": delivery.validity,
    "agreement": delivery.agreement,
    "uniform": delivery.uniform,
    "view-order": views.view_order,
    "view-atomicity": views.view_atomicity,
    "view-exclusion": views.view_exclusion,
    "convergence": views.convergence,
    "sender-in-view": views.sender_in_view,
    "same-view": views.same_view,
    "disjoint-views": views.disjoint_views,
    "unanimity": delivery.unanimity,
    "deadline": timing.deadline,
    "bounded": timing.bounded,
    "prompt": order.prompt,
    "replica-agreement": blocks.replica_agreement,
    "dictionary-merge": blocks_merged.dictionary_merge,
    "counter-sum": blocks_merged.counter_sum,
    "lock-exclusion": blocks_offices.lock_exclusion,
    "one-leader": blocks_offices.one_leader,
    "jobs-once": blocks_queue.jobs_once,
    "answers": blocks_requests.answers,
}


def verify(table: pa.Table, properties: Sequence[str] | None = None, *, malformed: Sequence[Malformed] = ()) -> Verification:
    """Verifies every run of a trace.

    With ``properties``, exactly these are checked, whole, in every run. Without, each run is checked for what its
    ``start`` rows promise, or, if they do not speak of promises, for every property that it has a case of. The table is
    taken to be well formed; pass what validation found as ``malformed``, and nothing is verified.

    >>> from plainchant.trace.schema import SCHEMA
    >>> verify(SCHEMA.empty_table(), ["fifo"]).properties["fifo"].verdict
    'nothing to check'
    """
    known(properties or ())
    outcomes = {name: Outcome() for name in PROPERTIES if properties is not None and name in properties}
    if malformed:
        return Verification(outcomes, malformed=tuple(malformed))
    shown: list[tuple[tuple[Any, ...], Violation]] = []
    warnings: list[str] = []
    for run in runs_of(table):
        warnings += warnings_of(run)
        for report, counts in check_run(run, properties):
            before = outcomes.get(report.name, Outcome())
            outcomes[report.name] = Outcome(
                before.runs + counts,
                before.events + counts * run.events,
                before.cases + report.cases,
                before.violations + report.count,
            )
            shown += [((*key[:2], run.name, report.name, *key[2:]), violation) for key, violation in report.shown()]
    shown.sort(key=lambda pair: pair[0])
    ordered = {name: outcomes[name] for name in PROPERTIES if name in outcomes}
    return Verification(ordered, tuple(violation for _, violation in shown), (), tuple(warnings))


def check_run(run: Run, properties: Sequence[str] | None, only: Container[str] = PROPERTIES) -> list[tuple[Report, int]]:
    """The reports of one run, each with 1 if the property was checked in it and 0 if the run is not fit for that.

    ``only``: of the properties that this run is to be checked for, look at these."""
    owing = Owing(run)
    reports = []
    for name in names_for(run, properties):
        if name not in only:
            continue
        report = Report(run, owing, name, until_end=properties is not None or run.drained)
        checked = report.until_end or name not in SPEAK_OF_END
        if checked:
            _CHECKERS[name](report)
        if report.cases or is_held_to_names(run, properties):
            reports.append((report, int(checked)))
    return reports


def names_for(run: Run, properties: Sequence[str] | None) -> list[str]:
    """The properties that a run is checked for: what was asked, else what it promises and what its building blocks do, else
    everything."""
    promised = properties if properties is not None else run.promises
    if promised is None:
        return list(PROPERTIES)
    blocks_too = properties is None
    return [name for name in PROPERTIES if name in promised or (blocks_too and is_about_blocks_of(run, name))]


def is_about_blocks_of(run: Run, name: str) -> bool:
    """Whether a property is one of building blocks that there are rows of in a run."""
    if name not in BLOCK_PROPERTIES:
        return False
    about = BLOCK_PROPERTIES[name]
    return bool(run.noted) if about is None else about in run.noted


def is_held_to_names(run: Run, properties: Sequence[str] | None) -> bool:
    """Whether a property without a case is to be told of: somebody asked for it or promised it."""
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


def known(properties: Sequence[str]) -> None:
    """Refuses names that no property has."""
    for name in properties:
        if name not in PROPERTIES:
            near = difflib.get_close_matches(name, PROPERTIES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(PROPERTIES)}"
            raise UsageError(f"there is no property {name!r}; {hint}")
