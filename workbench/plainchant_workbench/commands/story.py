"""A trace as a story: the few events that matter, in plain sentences, in the order in which they happened.

A run has thousands of events; a person wants the dozen that changed something. What every member does (installing the
same view) is told once, what happens all the time (deliveries, requests for lost packets) is counted until something
else happens. Only the trace is looked at, so the story is as true as the trace.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from plainchant.core.names import is_place
from plainchant.core.words import crash_words, fault_words, listed, times
from plainchant.lab.show import decode, in_order

_WORTH_TELLING: Final = 25
"""Fewer everyday events than this between two sentences are left to the next count."""


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """One sentence and its time (ns)."""

    time: int
    text: str


def tell(table: pa.Table) -> Iterator[Moment]:
    """The story of a run."""
    teller = _Teller()
    for row in in_order(table).to_pylist():
        yield from teller.hear(row)
    yield from teller.end()


class _Teller:
    """Reads rows in order and says what is worth a sentence."""

    def __init__(self) -> None:
        self._views: dict[str, tuple[int, list[str]]] = {}
        """The newest view of each group that was told: its number and members."""
        self._counts: Counter[str] = Counter()
        self._suspected: set[tuple[str, str]] = set()
        self._last = 0
        self._last_fault = ""

    def hear(self, row: dict[str, Any]) -> Iterator[Moment]:
        kind = row["kind"]
        detail = decode(row["detail"])
        sentence = getattr(self, f"_on_{kind}", self._ignore)(row, detail if isinstance(detail, dict) else {})
        time = row["true_time"] if row["true_time"] is not None else row["time"]
        if sentence:
            yield from self._meanwhile()
            yield Moment(time, sentence)
        self._last = time

    def end(self) -> Iterator[Moment]:
        yield from self._meanwhile(at_end=True)

    def _meanwhile(self, at_end: bool = False) -> Iterator[Moment]:
        """What went on between two sentences, in one."""
        if self._counts.total() < (1 if at_end else _WORTH_TELLING):
            return
        counts, self._counts = self._counts, Counter()
        sentences = {
            "send": times(counts["send"], "message") + " sent",
            "deliver": f"{times(counts['deliver'], 'time')} delivered",
            "ask": f"missing packets asked for {times(counts['ask'], 'time')}",
            "repeat": f"{times(counts['repeat'], 'request')} repeated",
        }
        told = [sentence for kind, sentence in sentences.items() if counts[kind]]
        yield Moment(self._last, f"(meanwhile: {listed(told)})")

    # --- one method a kind; the sentence, or nothing ---

    def _ignore(self, row: dict[str, Any], detail: dict[str, Any]) -> str:
        return ""

    def _count(self, row: dict[str, Any], detail: dict[str, Any]) -> str:
        self._counts[row["kind"]] += 1
        return ""

    _on_send = _on_deliver = _count

    def _on_retransmit(self, row: dict[str, Any], detail: dict[str, Any]) -> str:
        self._counts["repeat" if detail.get("what") == "request" else "ask"] += 1
        return ""

    def _on_view(self, row: dict[str, Any], detail: dict[str, Any]) -> str:
        group, number, members = row["group"], row["view"], list(row["members"])
        known = self._views.get(group)
        if known is not None and known[0] >= number:
            return ""
        self._views[group] = (number, members)
        who = listed(members)
        if known is None:
            return f"The group {group} is formed: {who}."
        lost = [name for name in known[1] if name not in members]
        new = [name for name in members if name not in known[1]]
        changes = ([f"without {listed(lost)}"] if lost else []) + ([f"with {listed(new)} joined"] if new else [])
        reasons = [f" ({reason['text']})" for reason in detail.get("left", {}).values() if reason.get("text")]
        what = " and ".join(changes) or "with the same members"
        return f"View {number} of {group} begins, {what}: {who}.{''.join(reasons)}"

    def _on_suspect(self, row: dict[str, Any], detail: dict[str, Any]) -> str:
        whom = str(detail.get("process", "somebody"))
        if (row["process"], whom) in self._suspected:
            return ""
        self._suspected.add((row["process"], whom))
        return f"{row['process']} suspects {whom}: {detail.get('text', 'no reason given')}."

    def _on_elect(self, row: dict[str, Any], detail: dict[str, Any]) -> str:
        if detail.get("stage") == "vote":
            return f"{row['process']} calls an election for epoch {detail.get('epoch')}."
        if detail.get("stage") != "elected":
            return ""
        voters = listed([str(name) for name in detail.get("voters", [])])
        return f"{row['process']} is elected: it heard {voters}, numbers go on after {detail.get('base')}."

    def _on_fault(self, row: dict[str, Any], detail: dict[str, Any]) -> str:
        what = detail.get("fault", detail.get("kind", ""))
        if what == "crash":
            return ""  # the crash itself has a row, and says more
        if what == "restart":
            return f"{detail.get('process')} comes back, as {row['process']}, and asks to be let in."
        told = fault_words(detail)
        if told == self._last_fault:
            return ""  # the same partition, written down at each of its parts
        self._last_fault = told
        return f"Fault at {row['process']}: {told}."

    def _on_crash(self, row: dict[str, Any], detail: dict[str, Any]) -> str:
        return f"{crash_words(row['process'], detail)}."

    def _on_join(self, row: dict[str, Any], detail: dict[str, Any]) -> str:
        group = row["group"]
        if group not in self._views or is_place(row["process"]):
            return ""
        return f"{row['process']} has joined {group}."

    def _on_leave(self, row: dict[str, Any], detail: dict[str, Any]) -> str:
        return f"{row['process']} has left {row['group']}, as it wished."
