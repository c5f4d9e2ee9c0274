"""Properties that a few rows of a large run decide, beside its skeleton: questions (``certificates.wanted``) put together.

The rows that any of the questions wants are fetched once. With the skeleton they are a small run, which has all views, members,
faults and ends of the large one, and where the events of every violation stand; each question's own function judges it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pyarrow as pa

from ..certificates.records import Slice
from ..certificates.wanted import Question, Wanted
from ..facts import Run, runs_of
from ..owing import Owing
from ..report import Report


@dataclasses.dataclass(frozen=True, slots=True)
class Few:
    """The questions to a run."""

    skeleton: pa.Table
    questions: Mapping[str, Question]  # by property
    until_end: bool
    is_held: bool  # whether properties without a case are told of

    @property
    def wanted(self) -> Wanted:
        """The rows that decide all of it."""
        wanted = Wanted()
        for question in self.questions.values():
            wanted |= question.wanted
        return wanted

    def asking(self, name: str, question: Question) -> Few:
        return dataclasses.replace(self, questions={**self.questions, name: question})

    def decided(self, rows: pa.Table) -> list[Report]:
        """The reports of these properties, given the wanted rows, with the cases of the whole run."""
        schema = self.skeleton.schema
        run = next(runs_of(pa.concat_tables([self.skeleton, rows.select(schema.names).cast(schema)])))
        return answered(run, self.questions, until_end=self.until_end, is_held=self.is_held)


def answered(run: Run, questions: Mapping[str, Question], *, until_end: bool, is_held: bool) -> list[Report]:
    """The reports of some properties, given a run of the rows that their questions want."""
    owing, found = Owing(run), []
    for name, question in questions.items():
        report = Report(run, owing, name, until_end=until_end)
        question.decide(report)
        if report.cases or is_held:
            found.append(report)
    return found


def skeleton_of(slices: Sequence[Slice]) -> pa.Table:
    """The skeleton of a run, with strings as strings."""
    skeleton = pa.concat_tables([part.skeleton for part in slices], promote_options="permissive")
    kinds = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in skeleton.schema]
    return skeleton.cast(pa.schema(list(zip(skeleton.column_names, kinds, strict=True))))
