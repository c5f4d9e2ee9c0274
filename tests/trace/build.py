"""Hand-written traces for tests: a few words an event, a line a process.

    trace({"p": "view 1 p,q | send | deliver p 1 | end", "q": "view 1 p,q | deliver p 1 | end"})

An event is a kind, what that kind needs, and ``column=value`` for anything else: ``view NUMBER MEMBERS``, ``send``
(the next number is given), ``deliver SENDER SEQ`` (also ``sent``, ``reject``, ``block``, ``drop``), ``accept``, ``join``,
``leave``, ``crash``, ``end``, ``fault``, ``note``, ``request WHAT [MEMBERS]``, ``refused``. The group is ``g`` unless
``group=h`` says otherwise. What is left out is filled in:
``index``, the view in force, ``time`` (the index), and ``{"drained": true}`` in ``end`` rows. A history without
``crash``, ``end`` or its last ``leave`` is cut."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from plainchant.lab.properties import Verification, Violation, verify
from plainchant.trace.schema import SCHEMA

_ABOUT_A_GROUP = frozenset(
    {"join", "leave", "view", "accept", "send", "sent", "deliver", "reject", "block", "drop", "note", "request", "refused"}
)
_NAMES_A_MESSAGE = frozenset({"sent", "deliver", "reject", "block", "drop"})


def trace(
    histories: Mapping[str, str],
    *,
    run: str = "r0",
    drained: bool = True,
    promises: Sequence[str] | None = None,
    bounds: Mapping[str, int] | None = None,
    despite: Sequence[str] = (),
    acting: Mapping[str, str] | None = None,
) -> pa.Table:
    """The trace of one run, from the histories of its processes. ``promises`` and ``bounds`` add ``start`` rows, which say with
    ``despite`` which kinds of fault are no excuse for ``progress``, and with ``acting`` who acts for remote processes."""
    rows: list[dict[str, Any]] = []
    for process, text in histories.items():
        events = [words.split() for words in text.split("|") if words.strip()]
        if promises is not None or bounds is not None:
            start: dict[str, Any] = {"version": 1, "bounds": dict(bounds or {})}
            if promises is not None:
                start["promises"] = list(promises)
            if despite:
                start["despite"] = list(despite)
            if acting:
                start["acting"] = dict(acting)
            events.insert(0, ["start", f"detail={json.dumps(start, separators=(',', ':'))}"])
        rows += _history(run, process, events, drained=drained)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def check(histories: Mapping[str, str], *properties: str, **options: Any) -> Verification:
    """Verifies a hand-written trace for the properties named."""
    return verify(trace(histories, **options), properties)


def assert_flagged(histories: Mapping[str, str], name: str, culprit: str, **options: Any) -> Violation:
    """The property is violated, some violation blames that process, all point at rows there are; returns the first."""
    table = trace(histories, **options)
    verification = verify(table, [name])
    assert verification.verdict == "violated"
    assert verification.properties[name].verdict == "violated"
    there = set(zip(table.column("process").to_pylist(), table.column("index").to_pylist(), strict=True))
    for violation in verification.violations:
        assert violation.property == name
        assert violation.sentence
        assert violation.events
        assert set(violation.events) <= there
        assert {process for process, _ in violation.events} <= set(violation.processes)
    assert any(culprit in violation.processes for violation in verification.violations)
    return verification.violations[0]


def assert_passes(histories: Mapping[str, str], name: str, **options: Any) -> None:
    """The property holds, and not for want of a case."""
    verification = check(histories, name, **options)
    assert not verification.violations, [violation.sentence for violation in verification.violations]
    assert verification.properties[name].verdict == "holds"


def _history(run: str, process: str, events: list[list[str]], *, drained: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    taken: dict[str, int] = {}
    in_force: dict[str, int] = {}
    for index, words in enumerate(events):
        row = {"run": run, "process": process, "index": index, "time": index, **_event(words)}
        group = str(row.get("group"))
        if row["kind"] == "send":
            taken[group] = taken.get(group, 0) + 1
            row = {"sender": process, "seq": taken[group], **row}
        if row["kind"] == "view":
            in_force[group] = row["view"]
        if row["kind"] == "end" and drained:
            row = {"detail": '{"drained": true}', **row}
        if group in in_force:
            row.setdefault("view", in_force[group])
        if row["kind"] == "leave":
            in_force.pop(group, None)
        rows.append(row)
    return rows


def _event(words: list[str]) -> dict[str, Any]:
    kind, *others = words
    row: dict[str, Any] = {"kind": kind}
    if kind in _ABOUT_A_GROUP:
        row["group"] = "g"
    plain = [word for word in others if "=" not in word]
    if kind == "request" and plain:
        row["detail"] = json.dumps({"request": plain[0]} | ({"members": plain[1].split(",")} if len(plain) > 1 else {}))
    if kind == "view":
        row["view"], row["members"] = int(plain[0]), plain[1].split(",")
    elif kind in _NAMES_A_MESSAGE and plain:
        row["sender"], row["seq"] = plain[0], int(plain[1])
    for word in others:
        column, equals, value = word.partition("=")
        if equals:
            is_number = pa.types.is_integer(SCHEMA.field(column).type)
            row[column] = int(value) if is_number else value
    return row


def correct_run(random: Random, *, processes: int = 5, messages: int = 60, changes: bool = True) -> dict[str, list[str]]:
    """Histories of a random run that keeps every order and every view property: all processes follow one log.

    With ``changes``, one process crashes, one leaves and one joins on the way. Senders send in whatever view they
    have come to, so that messages cross views. Events are lists, for tests to spoil; :func:`joined` makes them a
    trace's input."""
    log = _Log(random, [f"p{number}" for number in range(1, processes + 1)])
    steps = {messages // 4: log.crash, messages // 2: log.join, 3 * messages // 4: log.leave} if changes else {}
    for count in range(messages):
        steps.get(count, lambda: None)()
        log.send()
        log.advance()
    log.finish()
    return log.histories


def joined(histories: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Histories as :func:`trace` takes them."""
    return {process: " | ".join(events) for process, events in histories.items()}


class _Log:
    """The one order that all follow: ``deliver`` and ``view`` events, and how far each process has come in it."""

    def __init__(self, random: Random, members: list[str]) -> None:
        self.random = random
        self.members = members
        self.number = 1
        self.events = [self._view()]
        self.position = dict.fromkeys(members, 1)
        self.taken: dict[str, int] = {}
        self.waiting: list[str] = []
        self.histories = {name: [self.events[0]] for name in members}

    def _view(self) -> str:
        return f"view {self.number} {','.join(self.members)}"

    def send(self) -> None:
        """Somebody sends, and after a while the log takes it."""
        sender = self.random.choice(self.members)
        self.taken[sender] = self.taken.get(sender, 0) + 1
        self.histories[sender].append("send")
        self.waiting.append(f"deliver {sender} {self.taken[sender]}")
        if self.random.random() < 0.6:
            self._order()

    def _order(self) -> None:
        self.events += self.waiting
        self.waiting = []

    def advance(self, name: str | None = None, to: int | None = None) -> None:
        name = name or self.random.choice(self.members)
        start = self.position[name]
        stop = self.random.randint(start, len(self.events)) if to is None else to
        self.histories[name] += self.events[start:stop]
        self.position[name] = max(start, stop)

    def crash(self) -> None:
        """The last member stops where it is; what the log has not taken of it is lost."""
        gone = self.members[-1]
        self.histories[gone].append("crash")
        self.waiting = [event for event in self.waiting if event.split()[1] != gone]
        self._change([name for name in self.members if name != gone])

    def leave(self) -> None:
        gone = self.members[1]
        self._order()
        self.advance(gone, len(self.events))
        self.histories[gone].append("leave")
        self._change([name for name in self.members if name != gone])

    def join(self) -> None:
        self._change([*self.members, "late"])
        self.histories["late"] = ["join", self.events[-1]]
        self.position["late"] = len(self.events)

    def _change(self, members: list[str]) -> None:
        self.members = members
        self.number += 1
        self.events.append(self._view())

    def finish(self) -> None:
        self._order()
        for name in self.members:
            self.advance(name, len(self.events))
            self.histories[name].append("end")
