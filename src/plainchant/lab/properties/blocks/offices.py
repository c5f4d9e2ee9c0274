"""Building blocks that one process holds at a time: locks, and leaders of elections."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

from ....core.model import GroupId, ProcessId
from ..facts import Note, Run
from ..report import Report
from .replicas import last_rows

Office: TypeAlias = tuple[GroupId, str]  # group and name of a block
_ENDINGS = frozenset({"release", "lost"})


def lock_exclusion(report: Report) -> None:
    """A lock is held by one process at a time, and tokens are its witnesses.

    A process holds a lock, under a token, from its ``hold`` row to its ``release`` or ``lost`` row for that token, or to the
    end of its history. There is no clock that all share, so *at once* is said by tokens and views:

    - Two ``hold`` rows of a lock never have the same token. (With ``quorum: part`` that is asked of rows with the same
      ``members``: each part of a group has tokens of its own.) At one process they grow.
    - Of two holders that follow each other by token, the first, if it is in the view of the second (``members`` of its ``hold``
      row) and has not crashed, has a ``release`` or ``lost`` row for its token. Where both rows have a global time, a
      ``release`` of such a one is not later than the next ``hold``. (Who *loses* a lock may learn it later than another gets
      it, and who is cut off may even give it up later: that is what tokens are for.)
    - What protects a resource (``admit`` rows: ``resource``, ``token``, and ``number`` in the resource's own order) never lets
      in a token that is smaller than one before; and who is let in with a token has held it, in its own history, before."""
    for office, holds in _holds(report.run, "lock").items():
        _follow_each_other(report, office, holds, "lock")
    _admitted(report)


def one_leader(report: Report) -> None:
    """A term has one leader, and all members know it.

    Leading is holding the office (``hold`` rows, with the term as token), and what :func:`lock_exclusion` says of holders holds
    of leaders. Two rows of any replicas that name the leader of a term (``confirmed``) name the same one, unless each part has
    leaders of its own (``quorum: part``).

    At ``end``: the last row of a replica that is in a primary part, at a process correct in g, names a leader, which is in the
    last view that this process has installed."""
    for office, holds in _holds(report.run, "election").items():
        _follow_each_other(report, office, holds, "election")
    _named(report)
    if report.until_end:
        _known_at_the_end(report)


def _holds(run: Run, about: str) -> dict[Office, list[Note]]:
    found: dict[Office, list[Note]] = {}
    for history in run.all:
        for note in history.notes:
            if note.about == about and note.event == "hold" and isinstance(note.detail.get("token"), int):
                found.setdefault((note.group, note.block), []).append(note)
    return found


def _follow_each_other(report: Report, office: Office, holds: list[Note], what: str) -> None:
    group, block = office
    endings = _endings(report.run, office, what)
    by_token: dict[Any, Note] = {}
    for hold in holds:
        report.cases += 1
        token = hold.detail["token"]
        part = tuple(hold.detail.get("members", ())) if hold.detail.get("quorum") == "part" else ()
        other = by_token.setdefault((token, part), hold)
        if other is not hold:
            sentence = f"{other.process} and {hold.process} both hold {what} {block!r} of {group} with token {token}"
            report.violation(sentence, events=[other.place, hold.place], group=group)
    for process in {hold.process: None for hold in holds}:
        for one, other in pairwise([hold for hold in holds if hold.process == process]):
            if other.detail["token"] <= one.detail["token"]:
                told = f"{process} holds {what} {block!r} of {group} with token {other.detail['token']}"
                report.violation(f"{told} after one that is not smaller", events=[one.place, other.place], group=group)
    for one, other in pairwise(sorted(holds, key=lambda hold: (hold.detail["token"], hold.place))):
        if one.detail["token"] < other.detail["token"]:
            _hand_over(report, what, one, other, endings.get((one.process, one.detail["token"])))


def _hand_over(report: Report, what: str, one: Note, other: Note, ending: Note | None) -> None:
    """One holder had ended when the next one began."""
    if one.process != other.process and one.process not in other.detail.get("members", ()):
        return  # it was cut off: it may learn that, or give up what it has lost, when another holds it
    if ending is None:
        if one.process != other.process and report.run.histories[one.process].crashed:
            return
        told = "without having given it up, and is in the view of the next one"
        events = [one.place, other.place]
    elif _is_later(report.run, ending, other):
        told = "and gives it up later"
        events = [one.place, other.place, ending.place]
    else:
        return
    held = f"{other.process} holds {what} {other.block!r} of {other.group} with token {other.detail['token']}"
    told = f"{held}; {one.process} holds it with token {one.detail['token']} {told}"
    report.violation(told, events=events, group=one.group)


def _is_later(run: Run, ending: Note, hold: Note) -> bool:
    """Whether a holder released later than the next one held, as far as the rows tell."""
    if ending.process == hold.process:
        return ending.index > hold.index
    times = run.columns.true_time
    released, held = times[ending.row], times[hold.row]
    return ending.event == "release" and released is not None and held is not None and released > held


def _endings(run: Run, office: Office, what: str) -> dict[tuple[ProcessId, int], Note]:
    found: dict[tuple[ProcessId, int], Note] = {}
    for history in run.all:
        for note in history.notes:
            if note.about == what and (note.group, note.block) == office and note.event in _ENDINGS:
                found.setdefault((note.process, note.detail.get("token", 0)), note)
    return found


def _admitted(report: Report) -> None:
    """What resources let in, in their own order."""
    admitted: dict[tuple[GroupId, str, Any], list[Note]] = {}
    for history in report.run.all:
        held: set[Any] = set()
        for note in history.notes:
            if note.about != "lock":
                continue
            if note.event == "hold":
                held.add((note.group, note.block, note.detail.get("token")))
            elif note.event == "admit":
                admitted.setdefault((note.group, note.block, note.detail.get("resource")), []).append(note)
                report.cases += 1
                if (note.group, note.block, note.detail.get("token")) not in held:
                    told = f"{note.process} is let in to {note.detail.get('resource')!r} with token {note.detail.get('token')}"
                    report.violation(f"{told}, which it never held", events=[note.place], group=note.group)
    for (group, _, resource), notes in admitted.items():
        notes.sort(key=lambda note: note.detail.get("number", 0))
        for one, other in pairwise(notes):
            before, token = one.detail.get("token", 0), other.detail.get("token", 0)
            if token < before:
                told = f"{resource!r} lets {other.process} in with token {token} after {one.process} with {before}"
                report.violation(told, events=[one.place, other.place], group=group)


def _named(report: Report) -> None:
    """All rows that name the leader of a term name the same one."""
    leaders: dict[tuple[GroupId, str, Any], Note] = {}
    for history in report.run.all:
        for note in history.notes:
            detail = note.detail
            if note.about != "election" or detail.get("confirmed") is not True or detail.get("quorum") != "majority":
                continue
            report.cases += 1
            other = leaders.setdefault((note.group, note.block, detail.get("token")), note)
            if other.detail.get("owner") != detail.get("owner"):
                told = f"in term {detail.get('token')} of election {note.block!r} in {note.group}"
                first, second = (f"{each.process} follows {each.detail.get('owner')}" for each in (other, note))
                report.violation(f"{told} {first}, and {second}", events=[other.place, note.place], group=note.group)


def _known_at_the_end(report: Report) -> None:
    for history, last in last_rows(report.run, "election"):
        if last.detail.get("primary") is not True:
            continue
        report.cases += 1
        views = history.views.get(last.group)
        leader = last.detail.get("owner") if last.detail.get("confirmed") is True else None
        if leader is None or (views and leader not in views[-1].view.members):
            known = f"follows {leader}, which is gone" if leader is not None else "knows of no leader"
            sentence = f"{history.name} {known} at the end of election {last.block!r} in {last.group}"
            report.violation(sentence, events=[last.place], group=last.group)
