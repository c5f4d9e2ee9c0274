"""The frame: what a claim is, what measuring it gives, and how its runs become Spark tasks.

Theory of operation
-------------------
A :class:`Claim` says what a document states, how that is tested, and which verdict is on record; its ``run`` is given a
:class:`Context`, sweeps over simulations with it, and returns what was :class:`Measured` with a verdict that follows from
the numbers by a rule that ``how`` states. A verdict that differs from the one on record is news: something has changed. A
claim about something that is not built yet is *open*: it is listed, and never said to hold.

A sweep is a list of specifications and one function, which runs one of them and returns what it found. Python tasks are
expensive to start, so that a sweep has a few long ones; neighbours in the list, which tend to cost the same, go to
different tasks. Specifications and results travel pickled; nothing needs more of Spark than ``mapInArrow``, which works the
same on this machine, on a cluster and over Connect. What several claims look at is swept once.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Verdict: TypeAlias = Literal["holds", "holds with a remark", "does not hold", "open"]
HOLDS: Final = "holds"
REMARK: Final = "holds with a remark"
FAILS: Final = "does not hold"
OPEN: Final = "open"
VERDICTS: Final[tuple[Verdict, ...]] = (HOLDS, REMARK, FAILS, OPEN)

Item = TypeVar("Item")
Found = TypeVar("Found")

_TASKS_A_SLOT: Final = 2  # More than one, so that a slot that is done early gets another; few, because each costs a start.


@dataclasses.dataclass(frozen=True, slots=True)
class Series:
    """Points of one kind in a figure; the document's own are drawn apart from what was measured."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    from_document: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A picture of numbers, to be drawn by ``page``."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False  # A logarithmic axis, with the measured values as its ticks.
    log_y: bool = False
    steps: bool = False  # A value holds until the next one: no slopes between points.


@dataclasses.dataclass(frozen=True, slots=True)
class Picture:
    """A picture that is drawn already, as SVG."""

    name: str
    svg: str


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A table that is shown whole on the page."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """What came out of measuring a claim."""

    measured: str
    verdict: Verdict
    why: str
    data: Sequence[Mapping[str, Any]] = ()  # The rows behind it.
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """What a document states, as something that can be measured."""

    number: int
    paper: str  # Number of the source document.
    section: str
    claim: str
    how: str  # How it is tested, and the rule for the verdict.
    expected: Verdict  # The verdict on record (docs/reproduce.md).
    run: Callable[[Context], Measured]


Row: TypeAlias = (
    tuple[int, str, str, str, Callable[["Context"], Measured]]
    | tuple[int, str, str, str, Callable[["Context"], Measured], Verdict]
)
"""A claim in a table: number, section, claim, how, run, and the verdict on record if that is another one than "holds"."""


def claims_table(paper: str, *rows: Row | Claim) -> tuple[Claim, ...]:
    """The claims of a source document, given by its number; those of its chapters may be claims already."""
    return tuple(row if isinstance(row, Claim) else _claim(paper, *row) for row in rows)


def _claim(
    paper: str, number: int, section: str, claim: str, how: str, run: Callable[[Context], Measured], expected: Verdict = HOLDS
) -> Claim:
    return Claim(number, paper, section, claim, how, expected, run)


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """A claim that was measured."""

    claim: Claim
    measured: Measured

    @property
    def as_expected(self) -> bool:
        return self.measured.verdict == self.claim.expected

    def to_json(self) -> dict[str, Any]:
        claim, measured = self.claim, self.measured
        stated = {"number": claim.number, "seed": claim.paper, "section": claim.section, "claim": claim.claim}  # published keys
        return {**stated, "measured": measured.measured, "verdict": measured.verdict, "why": measured.why}


class Context:
    """What a claim measures with: sweeps on Spark, or in this process where there is none."""

    def __init__(self, spark: SparkSession | None, *, quick: bool = False) -> None:
        self.quick = quick
        self._spark = spark
        self._slots = 0
        self._known: dict[str, Any] = {}

    def of(self, quick: Item, full: Item) -> Item:
        """The size of something: the smaller one if it is to be quick."""
        return quick if self.quick else full

    def once(self, name: str, make: Callable[[Context], Found]) -> Found:
        """What several claims look at, made when it is asked for first."""
        if name not in self._known:
            self._known[name] = make(self)
        found: Found = self._known[name]
        return found

    def sweep(self, function: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
        """The function of every item, in their order. Function and items are picklable; runs take no notice of each other."""
        listed = list(items)
        if self._spark is None or not listed:
            return [function(item) for item in listed]
        tasks = min(len(listed), _TASKS_A_SLOT * self._slots_of(self._spark))
        order = [index for first in range(tasks) for index in range(first, len(listed), tasks)]
        task = _task(function, [listed[index] for index in order])
        rows = self._spark.range(0, len(order), 1, tasks).mapInArrow(task, "id long, found binary").collect()
        found = {order[row["id"]]: pickle.loads(row["found"]) for row in rows}
        return [found[index] for index in range(len(listed))]

    def _slots_of(self, spark: SparkSession) -> int:
        if not self._slots:
            from plainchant.lab.session import send_code, slots

            send_code(spark)
            self._slots = slots(spark)
        return self._slots


def _task(function: Callable[[Any], Any], items: Sequence[Any]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            found = [pickle.dumps(function(items[number])) for number in numbers]
            yield pa.record_batch({"id": pa.array(numbers, pa.int64()), "found": pa.array(found, pa.binary())})

    return work


def measure(claims: Iterable[Claim], context: Context, begin: Callable[[Claim], None] = lambda claim: None) -> list[Result]:
    """Measures claims one after the other; ``begin`` is told of each before it begins."""
    results = []
    for claim in claims:
        begin(claim)
        results.append(Result(claim, claim.run(context)))
    return results


def rows(*several: Iterable[Any]) -> list[dict[str, Any]]:
    """The data behind a claim: the results of sweeps, which are dataclasses, one after the other."""
    return [dataclasses.asdict(found) for results in several for found in results]


def named_rows(column: str, several: Mapping[Any, Iterable[Any]]) -> list[dict[str, Any]]:
    """The same, with a first column that has each sweep's name."""
    return [{column: name, **row} for name, results in several.items() for row in rows(results)]


def curves(
    x: Sequence[float], measured: Mapping[str, Sequence[float]], printed: Mapping[str, Sequence[float]] | None = None
) -> tuple[Series, ...]:
    """Series over the same x, by label: those measured, then the document's own."""
    drawn = [Series(label, x, y) for label, y in measured.items()]
    return (*drawn, *(Series(label, x, y, from_document=True) for label, y in (printed or {}).items()))


def totals(found: Iterable[Any], *fields: str) -> list[Any]:
    """The sum of each of these fields over the results of a sweep.

    >>> totals([Series("a", [1], [2]), Series("b", [3], [4], True)], "from_document")
    [1]
    """
    results = list(found)
    return [sum(getattr(result, field) for result in results) for field in fields]


def judge(*, holds: bool, nearly: bool = False) -> Verdict:
    """The verdict of two tests, of which the second is the weaker."""
    return HOLDS if holds else REMARK if nearly else FAILS
