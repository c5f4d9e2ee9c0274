"""Was every accepted message delivered, once? A check beside the properties, for the time after faults.

``group.send`` accepts a message *for good*: it is sent, or the process dies. The properties of a trace begin with ``send``; they
do not notice a message that the API accepted and no protocol took. This check begins with ``accept``:

    Every message that was accepted from a *survivor* (it lives at the end of a drained run, and did not leave the group) was
    sent, in the order in which it was accepted unless deadlines let messages overtake, and was delivered **exactly once**, by
    the survivor itself if it receives in that group, and by every other survivor that owes it (``owing``); by no process twice.

An ``accept`` row has no number yet, so it is compared with ``send`` rows by the digest and the size of its message. A survivor
that missed a shared-memory deadline (a timing fault) is checked like the others: on one machine, with one clock, lateness may
delay others but loses nothing. A survivor whose *clock* was set is not checked: nothing is promised to it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Final

import pyarrow as pa

from .facts import Columns, Event, History, Message, Run, runs_of
from .owing import Owing
from .report import Violation, say

NAME: Final = "accepted"
MOST: Final = 20  # violations that are described; all are counted


@dataclasses.dataclass(slots=True)
class AcceptedOnce:
    """What was found."""

    survivors: int = 0  # processes that were asked, group by group
    accepted: int = 0  # messages of theirs
    deliveries: int = 0  # deliveries of these, at survivors
    count: int = 0  # violations
    violations: list[Violation] = dataclasses.field(default_factory=list)  # the first of them

    @property
    def verdict(self) -> str:
        if self.count:
            return "violated"
        return "holds" if self.accepted else "nothing to check"

    def _add(self, run: Run, group: str, processes: list[str], messages: list[Message], sentence: str) -> None:
        self.count += 1
        if len(self.violations) < MOST:
            self.violations.append(Violation(run.name, NAME, group, tuple(processes), tuple(messages), (), sentence))


def accepted_once(table: pa.Table) -> AcceptedOnce:
    """Checks every drained run of a trace."""
    found = AcceptedOnce()
    for run in runs_of(table):
        if run.drained:
            _check(run, found)
    return found


def _check(run: Run, found: AcceptedOnce) -> None:
    owing = Owing(run)
    accepted = {history.name: _accepted(run.columns, history) for history in run.all}
    if not any(accepted.values()):
        return  # without accept rows, as in simulations
    for group in run.groups:
        survivors = [history for history in run.all if _survives(run.columns, history, group)]
        for sender in survivors:
            sends = [event for event in sender.sends if event.message[0] == group]
            mine = accepted[sender.name].get(group, [])
            found.survivors += 1
            found.accepted += len(mine)
            _was_sent(run, found, sender, group, mine, sends)
            for send in sends:
                for q in survivors:
                    _came_once(run, found, owing, send, q)


def _accepted(columns: Columns, history: History) -> dict[str, list[tuple[int | None, int | None]]]:
    """Digest and size of what was accepted of a process, group by group."""
    kinds, groups, digests, sizes = columns["kind"], columns["group"], columns["digest"], columns["size"]
    found: dict[str, list[tuple[int | None, int | None]]] = {}
    for row in history.rows.values():
        if kinds[row] == "accept":
            found.setdefault(groups[row], []).append((digests[row], sizes[row]))
    return found


def _survives(columns: Columns, history: History, group: str) -> bool:
    if not history.end or history.crashed or group in history.left:
        return False
    faults = (columns.detail(history.rows[index]) for index in history.faults)
    return not any(detail.get("timing") is True and detail.get("fault") in ("step", "clock") for detail in faults)


def _was_sent(
    run: Run, found: AcceptedOnce, sender: History, group: str, accepted: list[tuple[int | None, int | None]], sends: list[Event]
) -> None:
    columns = run.columns
    sent = [(columns["digest"][event.row], columns["size"][event.row]) for event in sends]
    if sent == accepted:
        return
    missing = Counter(accepted) - Counter(sent)
    surplus = Counter(sent) - Counter(accepted)
    for number, message in enumerate(accepted, 1):
        if missing[message] > 0:
            missing[message] -= 1
            text = f"{sender.name} lives, and the message that it accepted in {group} as number {number} was never sent"
            found._add(run, group, [sender.name], [], text)
    if surplus:
        text = f"{sender.name} sent {surplus.total():,} messages in {group} that nobody gave it, or sent them again"
        found._add(run, group, [sender.name], [], text)
    elif not missing.total() and len(sent) == len(accepted) and all(columns.deadline[event.row] is None for event in sends):
        text = f"{sender.name} sent messages in {group} in another order than it accepted them in"
        found._add(run, group, [sender.name], [], text)


def _came_once(run: Run, found: AcceptedOnce, owing: Owing, send: Event, q: History) -> None:
    message = send.message
    if message in q.first:
        found.deliveries += 1
        if any(again.message == message for again in q.repeats):
            text = f"{q.name} delivers {say(message)} more than once"
            found._add(run, message[0], [q.name], [message], text)
        return
    if q.name == send.process:
        if run.is_member_at(q, message[0], send.index):
            found._add(run, message[0], [q.name], [message], f"{q.name} lives, and never delivers its own {say(message)}")
    elif owing.owes(q, message):
        text = f"{q.name} and {send.process} live and did not part, and {q.name} never delivers {say(message)}"
        found._add(run, message[0], [send.process, q.name], [message], text)
