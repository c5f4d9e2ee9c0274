"""Injected failures and what was detected of them: one row of counts for each run, from the trace alone.

An *injection* is a ``fault`` row of kind ``crash`` or ``omit`` (a packet that a process dropped as it came in). What must have
followed:

- a crash that took effect, of a process that another has in its view then or later (else it is *unseen*), is *matched* if a
  process that had it in its view went to a view without it;
- an omission is *halted* if it is the last at a process that its protocol then halted, or one of the same packet; *repaired* if
  afterwards that packet was sent to the process again, as far as the rows say which it was; *eliminated* if others went to a view
  without the process, which was alive; else *without effect*, as that of one of several heartbeats is.

The other way round, an *elimination* is a view without a process that the view before at the same process had, and which had
neither crashed nor left by then. It is *provoked* if an omission of a packet from that process had been injected before, else
*false*. A halt by the protocol at a process without an injected omission is *unprovoked*, unless it was eliminated before.
Moments are compared by the global clock, or by the processes' own where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..show import decode

_COUNTS: Final = (
    *("crashes", "crashes_matched", "crashes_unseen"),
    *("omissions", "omissions_halted", "omissions_repaired", "omissions_eliminated", "omissions_without_effect"),
    *("eliminations_provoked", "eliminations_false", "halts_unprovoked"),
)
DETECTIONS: Final = pa.schema([("run", pa.string()), *((name, pa.int64()) for name in _COUNTS)])

COLUMNS: Final = ("run", "process", "index", "time", "true_time", "kind", "group", "sender", "members", "detail")
"""The columns of a trace that are read here."""

_FOR_EVER: Final = 2**63 - 1

KINDS: Final = ("fault", "crash", "view", "leave", "retransmit")  # kinds of rows that are read here


def match(table: pa.Table) -> pa.Table:
    """The counts of every run of a table of whole runs, in the schema ``DETECTIONS``, ordered by run.

    >>> from plainchant.trace import SCHEMA
    >>> match(SCHEMA.empty_table()).num_rows
    0
    """
    runs = sorted(set(table.column("run").to_pylist()))
    told = table.select(list(COLUMNS)).filter(pc.is_in(table.column("kind"), pa.array(KINDS)))
    rows: dict[str, list[dict[str, Any]]] = {run: [] for run in runs}
    for row in told.to_pylist():
        detail = decode(row["detail"]) if row["detail"] else None
        row["detail"] = detail if isinstance(detail, dict) else {}
        row["clock"] = row["time"] if row["true_time"] is None else row["true_time"]
        rows[row["run"]].append(row)
    return pa.Table.from_pylist([{"run": run, **_Matching(rows[run]).counts()} for run in runs], schema=DETECTIONS)


class _Matching:
    """The injections and detections of one run."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        of_kind: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in KINDS}
        for row in sorted(rows, key=lambda row: (row["process"], row["index"])):
            of_kind[row["kind"]].append(row)
        self._faults = of_kind["fault"]
        self._again: dict[tuple[str, str, str] | None, list[tuple[int, list[str]]]] = {}  # by packet: when, and to whom
        for row in of_kind["retransmit"]:
            packet = row["sender"], str(row["detail"].get("visit")), str(row["detail"].get("number"))
            to = row["detail"].get("to")
            self._again.setdefault(packet, []).append((row["clock"], to if isinstance(to, list) else []))
        self._stops = {row["process"]: row for row in of_kind["crash"]}
        self._leaves = {(row["group"], row["process"]): row["clock"] for row in reversed(of_kind["leave"])}
        self._dropped = list(_dropped(of_kind["view"]))
        self._until = _until(of_kind["view"])
        self._eliminated: dict[tuple[str, str], int] = {}
        for group, process, clock in self._dropped:
            if not self._is_gone(group, process, clock):
                known = self._eliminated.setdefault((group, process), clock)
                self._eliminated[group, process] = min(known, clock)

    def _is_gone(self, group: str, process: str, clock: int) -> bool:
        stop, left = self._stops.get(process), self._leaves.get((group, process))
        return (stop is not None and stop["clock"] <= clock) or (left is not None and left <= clock)

    def counts(self) -> dict[str, int]:
        found = dict.fromkeys(_COUNTS, 0)
        omissions = [row for row in self._faults if row["detail"].get("fault") == "omit"]
        for row in self._faults:
            stop = self._stops.get(row["process"])
            if row["detail"].get("fault") == "crash" and stop is not None and stop["detail"].get("by") == "fault":
                is_seen = self._until.get(row["process"], stop["clock"] - 1) >= stop["clock"]
                found["crashes" if is_seen else "crashes_unseen"] += 1
                dropped = any(who == row["process"] and at >= stop["clock"] for _, who, at in self._dropped)
                found["crashes_matched"] += is_seen and dropped
        last = {row["process"]: row for row in omissions}
        for row in omissions:
            found["omissions"] += 1
            found[f"omissions_{self._became(row, last[row['process']])}"] += 1
        for (_, process), clock in self._eliminated.items():
            provoked = any(row["detail"].get("source") == process and row["clock"] <= clock for row in omissions)
            found["eliminations_provoked" if provoked else "eliminations_false"] += 1
        for process, stop in self._stops.items():
            eliminated = any(who == process and at <= stop["clock"] for (_, who), at in self._eliminated.items())
            found["halts_unprovoked"] += _is_halt(stop) and process not in last and not eliminated
        return found

    def _became(self, row: Mapping[str, Any], last: Mapping[str, Any]) -> str:
        process, clock, packet = row["process"], row["clock"], _packet(row)
        if _is_halt(self._stops.get(process)) and (row is last or (packet is not None and packet == _packet(last))):
            return "halted"
        if any(at >= clock and process in targets for at, targets in self._again.get(packet, ())):
            return "repaired"
        if any(who == process and at >= clock for (_, who), at in self._eliminated.items()):
            return "eliminated"
        return "without_effect"


def _dropped(views: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, int]]:
    """(group, process, moment): another process goes to a view without a process that its view before had."""
    before: dict[tuple[str, str], list[str]] = {}
    for row in views:
        place = (row["process"], row["group"])
        for gone in set(before.get(place, ())) - set(row["members"] or ()) - {row["process"]}:
            yield row["group"], gone, row["clock"]
        before[place] = row["members"] or []


def _until(views: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """By process: until when the last view of another process that names it was in force; for ever, if none came after it."""
    found: dict[str, int] = {}
    after: dict[tuple[str, str], int] = {}
    for row in reversed(views):
        place = (row["process"], row["group"])
        for name in set(row["members"] or ()) - {row["process"]}:
            found[name] = max(found.get(name, 0), after.get(place, _FOR_EVER))
        after[place] = row["clock"]
    return found


def _is_halt(stop: Mapping[str, Any] | None) -> bool:
    return stop is not None and stop["detail"].get("by") == "protocol"


def _packet(row: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Sender, visit and number of a dropped packet, where its identity (ring, sender, visit, number) is told."""
    identity = row["detail"].get("identity")
    if not isinstance(identity, list) or len(identity) != 4:
        return None
    return str(identity[1]), str(identity[2]), str(identity[3])
