"""Which rows of a run may be malformed: where a unit saw something odd, or two units do not fit together.

Whether a row is well formed depends on its own history alone: on the views and the numbers that came before it, and whether the
history had ended. Certificates have all of that, so the plain validation can begin at the unit where something is odd.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ....trace.schema import FINAL_KINDS
from ....trace.validation import Past, newer_runs
from .ranges import Ranges, added, missing
from .records import Slice
from .wanted import Rows, Wanted


@dataclasses.dataclass(frozen=True, slots=True)
class Odd:
    """The stretches of histories that the plain validation has to look at, in the order of processes and indices."""

    pasts: Mapping[str, Sequence[Past]]  # by process: what came before each stretch
    rows: tuple[Rows, ...]
    too_new: bool  # whether the run says that it is of a newer version

    @property
    def wanted(self) -> Wanted:
        return Wanted(rows=self.rows)


class _History:
    """What units say of a history, one after another."""

    def __init__(self) -> None:
        self.final: str | None = None
        self.told_final = False
        self.views: dict[str, int] = {}
        self.sent: dict[str, Ranges] = {}
        self.last: dict[str, int] = {}

    def past(self, index: int) -> Past:
        return Past(index, self.final, self.told_final, dict(self.views), dict(self.sent), dict(self.last))

    def fits(self, part: Slice, process: str) -> bool:
        """Whether a unit's rows can follow."""
        sends = [sent for sent in part.sent if sent.process == process]
        firsts = {sent.group: sent.low for sent in sorted(sends, key=lambda sent: sent.first, reverse=True)}
        follows = all(low == self.last.get(group, 0) + 1 for group, low in firsts.items())
        new = all(missing(self.sent.get(s.group, ()), s.low, s.high) == [(s.low, s.high)] for s in sends)
        claims = all(self.views.get(group) == view for owner, group, view in part.claims if owner == process)
        return self.final is None and follows and new and claims

    def add(self, part: Slice, process: str, rows: pa.Table) -> None:
        self.told_final = self.told_final or self.final is not None
        for row in rows.select(["kind", "group", "view", "index"]).to_pylist():
            if row["kind"] == "view" and row["group"] is not None and row["view"] is not None:
                self.views[row["group"]] = row["view"]
            if self.final is not None:
                self.told_final = True
            if row["kind"] in FINAL_KINDS:
                self.final = row["kind"]
        for sent in sorted((sent for sent in part.sent if sent.process == process), key=lambda sent: sent.first):
            known = self.sent.get(sent.group, ())
            new = missing(known, sent.low, sent.high)
            if new:
                self.last[sent.group] = new[-1][1]
            self.sent[sent.group] = added(known, [(sent.low, sent.high)])


def odd_rows(slices: Sequence[Slice]) -> Odd | None:
    """Where a run whose indices are in order may be malformed; None if nothing tells."""
    found = list(_odd(slices))
    if not found:
        return None
    skeletons = (part.skeleton for part in slices if part.skeleton is not None)
    too_new = any(newer_runs(skeleton) for skeleton in skeletons)
    pasts: dict[str, list[Past]] = {}
    for (process, *_), past in found:
        pasts.setdefault(process, []).append(past)
    return Odd(pasts, tuple(rows for rows, _ in found), too_new)


def _odd(slices: Sequence[Slice]) -> Iterator[tuple[Rows, Past]]:
    pieces = sorted((extent.process, extent.first, extent.last, at) for at, part in enumerate(slices) for extent in part.extents)
    history, before = _History(), ""
    for process, first, last, at in pieces:
        part = slices[at]
        if part.skeleton is None:
            return
        history, before = (history if process == before else _History()), process
        if process in part.odd or not history.fits(part, process):
            yield (process, first, last), history.past(first)
        history.add(part, process, part.skeleton.filter(pc.equal(part.skeleton.column("process"), process)))
