"""Sentences about the rows of ``rtcast``: turns, eliminations, joins, votes, missing packets, admission, clocks, assumptions.

A row becomes what its process does (:func:`act`, a clause without its subject) and, as far as its ``detail`` has it, why
(:func:`ground`). ``docs/explain.md`` lists what ``detail`` may have; a sentence leaves out what is missing there or has an
unexpected shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ...core.words import listed, names_in, span, times, whole

Detail: TypeAlias = Mapping[str, Any]

STOPS: Final = {  # By which rule a member of a ring stops, by the code of its reason
    "omission": "only those stay who have everything",
    "eliminated": "the others go on without it",
    "unheard": "others may not have heard it either: that is a send omission, and counts as a crash",
    "deaf": "who hears nobody is taken to be cut off itself, and does not eliminate all the others",
    "minority": "by the majority rule only the larger part of a group goes on",
    "late": "a member that is late has missed its deadlines anyway",
}

_CHANGES: Final = {
    "eliminate": "members are eliminated",
    "join": "somebody joins",
    "leave": "a member leaves",
    "form": "the group begins",
}
_LOST_CLOCK: Final = {
    "step": "its own clock was set",
    "contradiction": "two readings contradict each other",
    "unread": "no reading was good enough for too long",
}
_LISTED: Final = 8


def _names(names: Any) -> str:
    return listed(names_in(names), most=_LISTED)


def act(kind: str, detail: Detail, sender: str | None = None) -> str | None:
    """What a process does in a row; ``sender`` is that of the row. None if the row is not about a ring."""
    if kind not in _ACTS:
        return None
    tells, telling = _ACTS[kind]
    return tells(detail, sender) if any(key in detail for key in telling) else None


def ground(kind: str, detail: Detail) -> str | None:
    """Why, as a clause; None if the row does not say, or is not about a ring."""
    match kind:
        case "suspect" if "processes" in detail:
            return _suspicion(detail)
        case "ask" if whole(detail, "left") is not None:
            left = whole(detail, "left") or 0
            return f"it has not come; {times(left, 'more turn')} may pass before that is an omission"
        case "query" if whole(detail, "rotation") is not None:
            return "the ring with them takes longer than P, and everybody must still be able to keep its guarantees"
        case "reject" if isinstance(detail.get("why"), str) and detail.get("join"):
            return str(detail["why"])
        case "reject" | "state" | "receive" if isinstance(detail.get("text"), str):
            return str(detail["text"])
    return None


def missing(detail: Detail) -> list[tuple[str, int, int]]:
    """The packets that an omission is about: sender, first number, last number (-1: all from the first on)."""
    found = detail.get("missing")
    return [
        (str(row[0]), row[1], row[2])
        for row in (found if isinstance(found, list) else ())
        if isinstance(row, list) and len(row) == 3 and all(isinstance(number, int) for number in row[1:])
    ]


def packets(sender: str | None, first: int, last: int) -> str:
    """Packets of a sender by their numbers.

    >>> packets("b", 7, 7), packets("b", 7, 9), packets("b", 7, -1)
    ('packet 7 of b', 'packets 7 to 9 of b', 'all packets of b from 7 on')
    """
    of = f" of {sender}" if sender else ""
    if last == -1:
        return f"all packets{of} from {first} on"
    return f"packet {first}{of}" if first == last else f"packets {first} to {last}{of}"


def broken(detail: Detail) -> str | None:
    """What an assumption that does not hold is, and by how much, as a sentence about the process that found it."""
    what, measured, bound = detail.get("broken"), whole(detail, "measured"), whole(detail, "bound")
    if not isinstance(what, str):
        return None
    took = span(measured) if measured is not None else "longer"
    most = f"; at most {span(bound)} is assumed" if bound is not None else ""
    source = f" of {detail['source']}" if isinstance(detail.get("source"), str) else ""
    match what:
        case "rotation":
            return f"gets the token after {took}" + (f", and P is {span(bound)}" if bound is not None else "")
        case "hold":
            return f"holds the token for {took}" + (f", and its T is {span(bound)}" if bound is not None else "")
        case "reaction":
            return f"reacts {took} late{most}"
        case "P2":
            return f"gets a packet{source} after its heartbeat, though that was sent later (P2)"
        case "P3":
            return f"gets a packet{source} that is {took} old{most} (P3)"
        case "P4":
            why = _LOST_CLOCK.get(str(detail.get("why")), str(detail.get("why") or "it was not read in time"))
            return f"does not know the time any more: {why} (P4)"
    return f"finds {what} broken" + (f": {took}{most}" if measured is not None else "")


def _token(detail: Detail, sender: str | None) -> str:
    ways = {"token": "by the token", "timeout": "by its timeout, without the token", "alone": "alone on the ring"}
    told = f"has turn {detail['visit']}, {ways.get(str(detail.get('by')), 'by the token')}"
    rotation, bound, hold = (whole(detail, key) for key in ("rotation", "bound", "hold"))
    if rotation is not None:
        told += f", {span(rotation)} after its last" + (f" (P is {span(bound)})" if bound is not None else "")
    if hold is not None:
        count = whole(detail, "packets")
        told += f"; {times(count, 'packet')}, held for {span(hold)}" if count is not None else f"; held for {span(hold)}"
    return told


def _suspicion(detail: Detail) -> str:
    silent = names_in(detail["processes"])
    its, told = ("its", "no heartbeat of it came") if len(silent) == 1 else ("their", "no heartbeats of them came")
    waited, after = whole(detail, "waited"), whole(detail, "after")
    if waited is not None:
        told += f" for {span(waited)}" + (f" after turn {after}" if after is not None else "")
    if "answers" in detail:
        answered = names_in(detail["answers"])
        knows = "knows" if len(answered) == 1 else "know"
        told += f"; {_names(answered)} answered and {knows} of no later turn" if answered else "; nobody answered"
    last = detail.get("last")
    known = {str(name): number for name, number in last.items() if isinstance(number, int)} if isinstance(last, dict) else {}
    if len(known) == 1:
        told += f"; {its} last packet is number {next(iter(known.values()))}"
    elif known:
        told += f"; their last packets: {listed((f'{number} of {name}' for name, number in known.items()), most=_LISTED)}"
    return told


def _confirm(detail: Detail, sender: str | None) -> str:
    kinds = names_in(detail["kinds"])
    rotation, present = whole(detail, "rotation"), whole(detail, "present")
    if "reclaim" in kinds:
        became = f": {span(present)} becomes {span(rotation)}" if present is not None and rotation is not None else ""
        return f"gives back what P has too much{became}"
    by = f" by {detail['by']}" if isinstance(detail.get("by"), str) else ""
    what = listed(_CHANGES.get(each, each) for each in kinds) or "the ring is another one"
    told = f"comes to change {detail.get('number', '?')}{by}: {what}"
    return told + (f"; P is {span(rotation)}" if rotation is not None else "")


def _state(detail: Detail, sender: str | None) -> str | None:
    if "broken" in detail:
        return broken(detail)
    after = f" again, after it had dropped out ({detail['after']})" if isinstance(detail.get("after"), str) else ""
    match detail.get("state"):
        case "gathering" if isinstance(detail.get("found"), str):
            return f"gives its ring up for that of {detail['found']}"
        case "gathering":
            return f"looks for those who form the group{after}"
        case "joining":
            return f"looks for the group{after}"
        case "running":
            return "is in the group"
        case "crashed":
            return "drops out" + (f" ({detail['reason']})" if isinstance(detail.get("reason"), str) else "")
    return None


def _query(detail: Detail, sender: str | None) -> str:
    rotation, present = whole(detail, "rotation"), whole(detail, "present")
    grow = f" from {span(present)}" if present is not None else ""
    grow += f" to {span(rotation)}" if rotation is not None else ""
    return f"asks all members whether P may grow{grow}, for {_names(detail['joiners']) or 'somebody'} to join"


def _vote(detail: Detail, sender: str | None) -> str:
    rotation = whole(detail, "rotation")
    what = f"P = {span(rotation)}" if rotation is not None else "the larger P"
    return f"votes {'for' if detail['vote'] else 'against'} {what}"


def _collision(detail: Detail, sender: str | None) -> str:
    return f"hears nothing of the requests of {listed(names_in(detail['processes']))}, which collided in the join slot"


def _receive(detail: Detail, sender: str | None) -> str:
    return f"has missed {listed((packets(*each) for each in missing(detail)), most=3) or 'something'} for good"


def _ask(detail: Detail, sender: str | None) -> str:
    first, last = whole(detail, "first"), whole(detail, "last")
    return f"asks for {packets(sender, first, last) if first is not None and last is not None else 'packets'}"


def _retransmit(detail: Detail, sender: str | None) -> str:
    number = whole(detail, "number")
    what = packets(sender, number, number) if number is not None else "a packet"
    return f"sends {what} again, of turn {detail['visit']}, to {_names(detail.get('to')) or 'others'}"


def _drop(detail: Detail, sender: str | None) -> str | None:
    what = "a heartbeat" if detail["packet"] == "Beat" else "a packet"
    source = f" of {detail['source']}" if isinstance(detail.get("source"), str) else ""
    age, bound = whole(detail, "age"), whole(detail, "bound")
    match detail.get("why"):
        case "late" if age is not None:
            most = f", older than {span(bound)}" if bound is not None else ""
            return f"throws {what}{source} away, which is {span(age)} old{most}"
        case "foreign":
            return f"throws {what}{source} away, which is not of its ring"
    return None


def _demand(detail: Detail) -> str:
    size, deadline, period = (whole(detail, key) for key in ("size", "deadline_ns", "period_ns"))
    parts = [f"{size:,} B"] if size is not None else []
    parts.append(f"every {span(period)}" if period else "once")
    parts += [f"due within {span(deadline)}"] if deadline is not None else []
    name = str(detail["stream"])
    return f"{'a message' if name.startswith('~') else f'stream {name}'} ({', '.join(parts)})"


def _load(detail: Detail) -> str:
    used, hold = whole(detail, "used"), whole(detail, "hold")
    return f"{span(used)} of T = {span(hold)} are promised" if used is not None and hold is not None else ""


def _admit(detail: Detail, sender: str | None) -> str:
    visits, share, load = whole(detail, "visits"), whole(detail, "share"), _load(detail)
    told = f"admits {_demand(detail)}"
    if visits is not None and share is not None:
        told += f": {span(share)} in each of {times(visits, 'turn')}" if visits > 1 else f": {span(share)} in one turn"
    return told + (f"; now {load}" if load else "")


def _reject(detail: Detail, sender: str | None) -> str:
    if "stream" not in detail:
        rounds = whole(detail, "rounds")
        return "is not let in" + (f", and waits {times(rounds, 'rotation')}" if rounds is not None else "")
    return f"rejects {_demand(detail)}"


def _release(detail: Detail, sender: str | None) -> str:
    load = _load(detail)
    return f"releases stream {detail['stream']}" + (f"; now {load}" if load else "")


def _sync(detail: Detail, sender: str | None) -> str:
    error, trip, tries = (whole(detail, key) for key in ("error", "round_trip", "tries"))
    told = f"has the time of {detail['master']}" + (f", within {span(error)}" if error is not None else "")
    if trip:
        told += f", by a round trip of {span(trip)}"
    return told + (f", after {times(tries, 'failed reading')}" if tries else "")


_Tells: TypeAlias = Callable[[Detail, str | None], str | None]

_ACTS: Final[dict[str, tuple[_Tells, Sequence[str]]]] = {  # What tells of a kind, and the keys of ``detail``: it needs one
    "token": (_token, ("visit",)),
    "suspect": (lambda detail, _: f"eliminates {_names(detail['processes']) or 'nobody'}", ("processes",)),
    "confirm": (_confirm, ("kinds",)),
    "state": (_state, ("state", "broken")),
    "request": (lambda detail, _: f"asks {detail['to']} for a place on the ring, in the join slot", ("to",)),
    "query": (_query, ("joiners",)),
    "usend": (_vote, ("vote",)),
    "udeliver": (lambda row, _: f"has {row.get('source', 'somebody')}'s vote: {'yes' if row['vote'] else 'no'}", ("vote",)),
    "collision": (_collision, ("processes",)),
    "receive": (_receive, ("omission",)),
    "ask": (_ask, ("left",)),
    "retransmit": (_retransmit, ("visit",)),
    "drop": (_drop, ("packet",)),
    "admit": (_admit, ("stream",)),
    "reject": (_reject, ("stream", "join")),
    "release": (_release, ("stream",)),
    "sync": (_sync, ("master",)),
}
