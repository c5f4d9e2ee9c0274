"""Building blocks whose parts become one again: dictionaries and counters."""

from __future__ import annotations

from typing import Any

from ..facts import Message, Note
from ..report import Report
from .replicas import Key, Pasts, replicas_of, tell


def dictionary_merge(report: Report) -> None:
    """Where parts of a group come together a dictionary becomes what its policy says (``merge`` rows: ``policy``, ``parts``,
    ``digests`` of the parts' dictionaries in the same order, ``digest`` of what came of them).

    - ``larger-part``: the dictionary of the part with the most members, of equal ones the first.
    - ``last-writer``: of each key the entry with the largest stamp, of equal ones that of the larger writer's name; where the
      newest is a deletion, the key is not there. (Rows of small dictionaries tell all stamps: ``written`` by the parts,
      ``kept`` of them.)
    - ``function``: only the program knows; that all members come to the same is ``replica-agreement``."""
    for rows in replicas_of(report.run, "dictionary").values():
        for note in rows:
            if note.event != "merge":
                continue
            if note.detail.get("policy") == "larger-part":
                _larger(report, note)
            elif note.detail.get("policy") == "last-writer" and "written" in note.detail:
                _last_written(report, note)


def _larger(report: Report, note: Note) -> None:
    report.cases += 1
    sizes = [len(part) for part in note.detail["parts"]]
    chosen = sizes.index(max(sizes))
    if note.detail["digest"] != note.detail["digests"][chosen]:
        told = f"{note.process} does not have the dictionary of the larger part, {', '.join(note.detail['parts'][chosen])}"
        merge = f"after the merge of {note.block!r} in view {note.detail.get('at_view')} of {note.group}"
        tell(report, f"{told}, {merge}", note)


def _last_written(report: Report, note: Note) -> None:
    newest: dict[str, list[Any]] = {}
    for written in note.detail["written"]:
        for key, (stamp, writer, is_there) in written.items():
            report.cases += 1
            if key not in newest or [stamp, writer] > newest[key][:2]:
                newest[key] = [stamp, writer, is_there]
    kept = note.detail["kept"]
    for key in sorted({*newest, *kept}):
        last, mine = newest.get(key), kept.get(key)
        if mine != last and not (mine is None and last is not None and not last[2]):
            merge = f"after the merge of {note.block!r} in view {note.detail.get('at_view')} of {note.group}"
            tell(report, f"{merge} {note.process} has {key!r} as written at {mine}; the last one is {last}", note)


def counter_sum(report: Report) -> None:
    """The value of a counter is the sum of all that was added, each addition counted once: in every row of a replica that tells a
    ``value``, it is the sum of the ``amount`` of the commands in its past. Those are its own ``apply`` rows; for a joiner,
    those of its donor when it gave the state; after a merge, those of all parts, as their speakers had them.

    A replica whose past goes back to a row that is not in the trace is not asked."""
    amounts: dict[Message, int] = {}
    replicas = replicas_of(report.run, "counter")
    for rows in replicas.values():
        for note in rows:
            if note.event == "apply" and note.message is not None and isinstance(note.detail.get("amount"), int):
                amounts.setdefault(note.message, note.detail["amount"])
    added = _Added(report, replicas)
    for key in replicas:
        for note, commands in added.rows(key):
            if commands is None or "value" not in note.detail or not commands <= amounts.keys():
                continue
            report.cases += 1
            expected = sum(amounts[command] for command in commands)
            if note.detail["value"] != expected:
                told = f"{note.process} has {note.detail['value']} in counter {note.block!r} of {note.group}"
                tell(report, f"{told}, and what was added comes to {expected}", note, message=note.message)


class _Added:
    """The commands in the past of each replica, row by row. A row may depend on rows of others that were written before it, so
    each replica is followed as far as another row needs it, and no further."""

    def __init__(self, report: Report, replicas: dict[Key, list[Note]]) -> None:
        self._replicas = replicas
        self._pasts = Pasts(report.run)
        self._after: dict[Key, list[frozenset[Message] | None]] = {key: [] for key in replicas}
        """What is in the past after each row, as far as it was worked out."""
        self._busy: set[Key] = set()

    def rows(self, key: Key) -> list[tuple[Note, frozenset[Message] | None]]:
        """Each row of a replica with the commands in its past; None where rows that are not there would tell."""
        self._follow(key, len(self._replicas[key]))
        return list(zip(self._replicas[key], self._after[key], strict=True))

    def _follow(self, key: Key, rows: int) -> None:
        after = self._after[key]
        if key in self._busy:
            return  # it is being followed: what comes later is not known
        self._busy.add(key)
        while len(after) < rows:
            after.append(self._next(self._replicas[key][len(after)], after[-1] if after else None))
        self._busy.discard(key)

    def _next(self, note: Note, before: frozenset[Message] | None) -> frozenset[Message] | None:
        if note.event == "begin":
            return frozenset()
        if note.event == "take":
            gift = self._pasts.gift(note)
            return self._at(gift, 1) if gift is not None else None
        if note.event == "merge":
            return self._of_all_parts(note)
        if note.event == "apply" and before is not None and note.message is not None:
            return before | {note.message}
        return before

    def _at(self, row: Note, rows: int) -> frozenset[Message] | None:
        """What is in a replica's past after a row (``rows`` 1), or before it (0)."""
        key = (row.process, row.group, row.block)
        known = self._replicas[key].index(row) + rows
        self._follow(key, known)
        return self._after[key][known - 1] if 0 < known <= len(self._after[key]) else None

    def _of_all_parts(self, merge: Note) -> frozenset[Message] | None:
        """What each part's speaker had when it spoke: what it has in the row before its own ``merge`` row."""
        together: frozenset[Message] = frozenset()
        for speaker in merge.detail.get("speakers", ()):
            own = self._merge_of(speaker, merge)
            said = self._at(own, 0) if own is not None else None
            if said is None:
                return None
            together |= said
        return together

    def _merge_of(self, speaker: str, merge: Note) -> Note | None:
        """The row of a speaker about the same merge."""
        wanted = [merge.detail.get(name) for name in ("at_view", "parts")]
        for note in self._replicas.get((speaker, merge.group, merge.block), ()):
            if note.event == "merge" and [note.detail.get(name) for name in ("at_view", "parts")] == wanted:
                return note
        return None
