"""A plain log, of anybody's system, as a trace.

Theory of operation
-------------------
The logs are read twice. The first pass gives numbers to what the log names in its own way: a message becomes the n-th
one of its sender in its group, in the order of its sender's sends, because a trace counts 1, 2, 3, ... without gaps; a
message that nobody is seen to send comes after all of those, in the order of first mention. Views keep their numbers
where they are whole numbers and are counted where they are not. The second pass writes the rows, so that memory is
bounded by the number of messages and not of lines (unless the lines have to be sorted by time first).

What a log says in the wrong place (something after a crash, a second start, a message sent twice) is refused with its
line, because the trace would be malformed; what only a wrong *system* does (delivering twice, delivering what nobody
sent) is kept: finding that is what the trace is for.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from .buffer import TraceBuffer
from .history import History
from .importing_lines import Lines, Said
from .importing_mapping import ImportProblem, Mapping
from .schema import FINAL_KINDS, MESSAGE_KINDS

_Key: TypeAlias = tuple[str, str, str, str]  # run, group, sender, the log's id

_UNKNOWN: Final = "unknown"  # the sender of a message that no line tells the sender of

_STEP_NS: Final = 1000  # without times in the log, lines are a microsecond apart

_FLUSH_EVERY: Final = 4096
_WARNED: Final = 10


@dataclasses.dataclass
class Imported:
    """What an import made."""

    lines: int
    ignored: int
    events: dict[str, int]  # how many of each kind
    processes: list[str]
    runs: list[str]
    warnings: list[str]


def import_logs(
    logs: Sequence[Path], mapping: Mapping, trace: TraceBuffer, *, progress: Callable[[int], None] = lambda lines: None
) -> Imported:
    """Puts the events of some logs into a trace (a TraceBuffer or a TraceWriter, which the caller closes). ``progress`` is told
    now and then how many lines were read, both passes counted. Raises ImportProblem with the file and line, or with what is wrong
    with the mapping."""
    lines = Lines(logs, mapping)
    events: Iterable[Said] = lines
    if mapping.by_time:
        events = sorted(lines, key=_by_time)
        lines.tally.refuse()
    numbers = _Numbers()
    for said in events:
        numbers.hear(said)
        if not lines.tally.lines % _FLUSH_EVERY:
            progress(lines.tally.lines)
    lines.tally.refuse()
    first_pass = lines.tally.lines
    numbers.finish()
    builder = _Builder(mapping, numbers, trace)
    for said in events:
        builder.write(said)
        if not builder.count % _FLUSH_EVERY:
            trace.flush_if_full()
            progress(first_pass + lines.tally.lines)
    builder.finish()
    if not builder.histories:
        raise ImportProblem(f"no line of {', '.join(map(str, logs))} is an event; check that the mapping is for this log")
    return Imported(
        lines=lines.tally.lines,
        ignored=lines.tally.ignored,
        events=dict(sorted(builder.kinds.items())),
        processes=sorted({process for _, process in builder.histories}),
        runs=sorted({run for run, _ in builder.histories}),
        warnings=numbers.warnings,
    )


def _by_time(said: Said) -> tuple[str, str, int]:
    if said.time is None:
        raise ImportProblem(f'{said.where}: there is no time to order it by; mend its pattern, or use time.order = "lines"')
    return said.run, said.process, said.time


class _Numbers:
    """Gives messages and views their numbers."""

    def __init__(self) -> None:
        self._seqs: dict[_Key, int] = {}
        self._taken: Counter[tuple[str, str, str]] = Counter()
        self._senders: dict[tuple[str, str, str], str] = {}
        """Who sends an id; empty if several do, and it then says nothing alone."""
        self._mentioned: dict[tuple[str, str, str | None, str], str] = {}
        """Messages that are delivered, by the line that does so first."""
        self._views: dict[tuple[str, str], dict[tuple[Any, ...], int]] = {}
        self._installed: Counter[tuple[Any, ...]] = Counter()
        self.warnings: list[str] = []

    def hear(self, said: Said) -> None:
        if said.kind in MESSAGE_KINDS and (said.group is None or said.id is None):
            lacking = "group" if said.group is None else "id"
            raise ImportProblem(f"{said.where}: a {said.kind} without a {lacking}; capture it, or give it with set")
        if said.kind == "send":
            self._send(said)
        elif said.kind == "deliver":
            key = (said.run, said.group or "", said.sender, said.id or "")
            # Only what no send has explained so far is remembered, which in most logs is little.
            run, group, sender, name = key
            known = (run, group, sender, name) in self._seqs if sender is not None else (run, group, name) in self._senders
            if not known:
                self._mentioned.setdefault(key, said.where)
        elif said.kind == "view":
            self._view(said)

    def _send(self, said: Said) -> None:
        run, group, name = said.run, said.group or "", said.id or ""
        if said.sender not in (None, said.process):
            raise ImportProblem(f"{said.where}: {said.process} sends a message of {said.sender}; a sender sends its own")
        key = (run, group, said.process, name)
        if key in self._seqs:
            again = f"{said.process} sends message {name} of group {group} a second time"
            raise ImportProblem(f'{said.where}: {again}; map what is sent again to kind = "retransmit"')
        self._taken[run, group, said.process] += 1
        self._seqs[key] = self._taken[run, group, said.process]
        place = (run, group, name)
        self._senders[place] = said.process if self._senders.get(place, said.process) == said.process else ""

    def _view(self, said: Said) -> None:
        if said.group is None or not said.members:
            raise ImportProblem(f"{said.where}: a view without a group or members; capture them, or give them with set")
        if len(set(said.members)) < len(said.members):
            raise ImportProblem(f"{said.where}: a view in which a member stands twice; mend members.split or the pattern")
        views = self._views.setdefault((said.run, said.group), {})
        views.setdefault(self._view_key(said, self._installed), len(views) + 1)

    @staticmethod
    def _view_key(said: Said, installed: Counter[tuple[Any, ...]]) -> tuple[Any, ...]:
        """What makes two view lines one view: the log's name of it; without one, the same members for the n-th time."""
        if said.view is not None:
            return ("named", said.view)
        members = tuple(sorted(said.members or ()))
        installed[said.run, said.group, said.process, members] += 1
        return ("members", members, installed[said.run, said.group, said.process, members])

    def finish(self) -> None:
        """After the first pass: numbers for messages without a send, and views that were numbers already."""
        unsent: dict[_Key, str] = {}
        for (run, group, sender, name), where in self._mentioned.items():
            found = (run, group, self.sender(run, group, sender, name), name)
            if found not in self._seqs:
                unsent.setdefault(found, where)
        for key, where in unsent.items():
            run, group, sender, name = key
            self._taken[run, group, sender] += 1
            self._seqs[key] = self._taken[run, group, sender]
            if len(self.warnings) < _WARNED:
                seq = self._seqs[key]
                self.warnings.append(f"{where}: message {name} of {sender} in {group} has no send; it becomes number {seq}")
        if len(unsent) > _WARNED:
            self.warnings.append(f"and {len(unsent) - _WARNED:,} more messages without a send")
        for views in self._views.values():
            if all(key[0] == "named" and key[1].isascii() and key[1].isdigit() for key in views):
                views.update({key: int(key[1]) for key in views})
        self._mentioned.clear()
        self._installed.clear()

    def sender(self, run: str, group: str, sender: str | None, name: str) -> str:
        """Who sent it, if the line itself does not say."""
        return sender if sender is not None else self._senders.get((run, group, name)) or _UNKNOWN

    def message(self, said: Said) -> tuple[str | None, int | None]:
        """The sender and number of the message that a line names; what it does not name is None."""
        if said.group is None or said.id is None:
            return said.sender, None
        sender = said.process if said.kind == "send" else self.sender(said.run, said.group, said.sender, said.id)
        return sender, self._seqs.get((said.run, said.group, sender, said.id))

    def view(self, said: Said) -> int:
        return self._views[said.run, said.group or ""][self._view_key(said, self._installed)]


class _Builder:
    """Writes rows, and keeps what a history has to keep: its views, its time, that nothing follows its end."""

    def __init__(self, mapping: Mapping, numbers: _Numbers, trace: TraceBuffer) -> None:
        self._mapping = mapping
        self._numbers = numbers
        self._trace = trace
        self.histories: dict[tuple[str, str], _State] = {}
        self.kinds: Counter[str] = Counter()
        self.count = 0

    def write(self, said: Said) -> None:
        state = self.histories.get((said.run, said.process))
        if said.kind == "start" and state is not None:
            again = f"{said.process} starts a second time; a restarted process is a new one"
            raise ImportProblem(f"{said.where}: {again}: give it a name of its own, such as {said.process}#1")
        if state is None:
            state = self._begin(said)
        if state.final is not None:
            raise ImportProblem(f"{said.where}: {said.process} does something after its {state.final}; nothing can follow that")
        if said.kind != "start":
            self._row(said, state)

    def _begin(self, said: Said) -> _State:
        state = _State(self._trace.history(said.run, said.process))
        self.histories[said.run, said.process] = state
        state.time = said.time if said.time is not None else (said.line - 1) * _STEP_NS
        self._append(state, "start", state.time, extra={"detail": self._mapping.start})
        return state

    def _row(self, said: Said, state: _State) -> None:
        time = said.time if said.time is not None else max(state.time + 1, said.line * _STEP_NS)
        sender, seq = self._numbers.message(said)
        if said.kind == "view":
            state.views[said.group or ""] = self._numbers.view(said)
        members = said.members if said.kind == "view" else None
        parts = {"members": members, "deadline": said.deadline, "detail": self._detail(said, seq) or None}
        extra = {name: part for name, part in parts.items() if part is not None}
        if said.kind in ("join", "leave") and said.group is None:
            raise ImportProblem(f"{said.where}: a {said.kind} without a group; capture it, or give it with set")
        row = (said.group, state.views.get(said.group or ""), sender, seq, None, said.rank, said.digest, said.size)
        self._append(state, said.kind, time, row, extra or None)
        state.note(said)

    def _detail(self, said: Said, seq: int | None) -> dict[str, Any]:
        """What the line says beyond the columns; the log's own names, where ours differ, so that it can be searched."""
        detail = dict(said.detail or {})
        if said.id is not None and said.id != str(seq):
            detail["id"] = said.id
        if said.view is not None and (said.kind != "view" or not said.view.isdigit()):
            detail["view"] = said.view
        if said.kind == "end" and self._mapping.drained:
            detail["drained"] = True
        return detail

    def _append(
        self, state: _State, kind: str, time: int, row: tuple[Any, ...] = (None,) * 8, extra: dict[str, Any] | None = None
    ) -> None:
        group, view, sender, seq, sent, rank, digest, size = row
        state.history.rows.append((kind, time, None, group, view, sender, seq, sent, rank, digest, size, extra))
        state.time = time
        self.kinds[kind] += 1
        self.count += 1

    def finish(self) -> None:
        """Ends the histories that the log leaves open as the mapping says."""
        how = self._mapping.otherwise
        for state in self.histories.values():
            if how == "cut" or state.final is not None or state.has_left:
                continue
            detail = {"by": "collector"} if how == "crash" else {"drained": True} if self._mapping.drained else None
            self._append(state, how, state.time, extra={"detail": detail} if detail else None)


@dataclasses.dataclass(slots=True)
class _State:
    """How far a history has come."""

    history: History
    time: int = 0
    views: dict[str, int] = dataclasses.field(default_factory=dict)
    groups: dict[str, None] = dataclasses.field(default_factory=dict)
    final: str | None = None
    has_left: bool = False  # whether it has left the last group that it was in: that ends a history too

    def note(self, said: Said) -> None:
        if said.kind in FINAL_KINDS:
            self.final = said.kind
        elif said.kind == "leave":
            self.views.pop(said.group or "", None)
            self.groups.pop(said.group or "", None)
            self.has_left = not self.groups
        elif said.kind in ("join", "view", "send", "deliver") and said.group is not None:
            self.groups[said.group] = None
            self.has_left = False
