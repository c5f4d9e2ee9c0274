"""Sentences about membership: suspicions with their evidence, refutations, agreements, removals and formations.

A row of one of the kinds ``suspect``, ``refute``, ``confirm``, ``remove``, ``bye``, ``form``, ``refused``, ``elect``, ``sync``,
``block`` and ``unblock`` becomes what happened and, as far as its ``detail`` has it, because of what. ``docs/explain.md`` lists
what ``detail`` may have; a sentence leaves out what is missing there or has an unexpected shape.
A protocol's story has the first word about its own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ...core.words import braces, listed, names_in, natural, reason, span, times, whole
from ...protocols.story import Event, Story

CONDITIONS: Final = ("view change", "moving", "leaving")
"""The ``condition`` of a ``block`` by which membership keeps a process from sending."""
_LISTED: Final = 8


def about(event: Event) -> list[str]:
    """The processes that a row is about: suspected, detected, removed, leaving."""
    keys = ("process", "processes", "suspect", "detection", "failed")
    return next((names_in(event.detail[key]) for key in keys if key in event.detail), [])


def parts_in(detail: Mapping[str, Any]) -> list[list[str]]:
    """The parts that came, or are to come, together."""
    parts = detail.get("parts")
    return [names_in(part) for part in parts if isinstance(part, list)] if isinstance(parts, list) else []


def replaced(detail: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """The messages that a confirmation replaces by nulls: sender, number of the first, count."""
    found: list[tuple[str, int, int]] = []
    for row in detail["discarded"] if isinstance(detail.get("discarded"), list) else ():
        match row:
            case [str(sender), int(first), int(count)] if count > 0:
                found.append((sender, first, count))
    return found


def together(ranges: Iterable[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Such ranges in order; those that touch become one.

    >>> together([("p1", 16, 1), ("p1", 14, 2), ("p2", 7, 1)])
    [('p1', 14, 3), ('p2', 7, 1)]
    """
    joined: list[tuple[str, int, int]] = []
    for sender, first, count in sorted(set(ranges), key=lambda each: (natural(each[0]), *each[1:])):
        if joined and joined[-1][0] == sender and joined[-1][1] + joined[-1][2] >= first:
            before = joined.pop()
            first, count = before[1], max(before[2], first + count - before[1])
        joined.append((sender, first, count))
    return joined


def replaced_words(group: str, ranges: Sequence[tuple[str, int, int]]) -> str:
    """Those messages by name.

    >>> replaced_words("g", [("p1", 14, 3), ("p2", 7, 1)])
    'g/p1/14 to g/p1/16 and g/p2/7'
    """
    named = [
        f"{group}/{sender}/{first}" + (f" to {group}/{sender}/{first + count - 1}" if count > 1 else "")
        for sender, first, count in together(ranges)
    ]
    return listed(named, most=_LISTED)


def cut_words(cut: Any) -> str:
    """Up to which block the messages of failed processes count.

    >>> cut_words({"p1": 16, "p2": 16}), cut_words({"p1": 16, "p2": 9})
    ('p1 and p2 count up to block 16', 'p1 counts up to block 16, and p2 counts up to block 9')
    """
    together: dict[int, list[str]] = {}
    for name, block in cut.items() if isinstance(cut, dict) else ():
        if isinstance(block, int):
            together.setdefault(block, []).append(str(name))
    clauses = [
        f"{listed(found, most=_LISTED)} {'counts' if len(found) == 1 else 'count'} up to block {block}"
        for block, found in together.items()
    ]
    return ", and ".join(clauses)


def sentence(event: Event, story: Story) -> str | None:
    """What happened; None if the row is neither about membership nor told by its protocol's story."""
    told = story.sentence(event)
    if told is not None:
        return told
    if event.kind in _TOLD:
        return _TOLD[event.kind](event)
    if event.kind in ("block", "unblock") and event.detail.get("condition") in CONDITIONS:
        return f"{event.process} {'may not send' if event.kind == 'block' else 'may send again'}"
    return None


def given(event: Event, story: Story) -> str | None:
    """Why an event happened, as its own row has it."""
    if story.act(event.kind, event.detail, event.sender) is not None:
        return story.ground(event.kind, event.detail)
    return evidence(event, story) or reason(event.detail)


def evidence(event: Event, story: Story) -> str | None:
    """Why it happened, as a clause; None if the row does not say, or not in words of membership."""
    detail = event.detail
    if isinstance(detail.get("text"), str) and detail["text"]:
        return str(detail["text"])
    because = story.ground(event.kind, detail)
    if because is not None:
        return because
    match event.kind:
        case "suspect":
            return suspected_because([event])
        case "confirm" if "detection" in detail:
            return _confirmed_because(event)
        case "form":
            return str(detail["why"]) if isinstance(detail.get("why"), str) else None
        case "refute" if detail.get("heard"):
            by = detail.get("by")
            return f"{by} refuted it" if isinstance(by, str) else "it was refuted"
        case "refute" if detail.get("late"):
            return "it came from somebody who is suspected here, or counts as failed"
    return None


def suspected_because(rows: Sequence[Event]) -> str | None:
    """The evidence for suspicions that one process raises at one instant for the same reason."""
    detail, who = rows[0].detail, rows[0].process
    silence, patience, block = whole(detail, "silence"), whole(detail, "patience"), whole(detail, "block")
    match detail.get("why"):
        case "silence" if silence is not None:
            lacking = f"block {block} lacked them" if block is not None and len(rows) > 1 else f"block {block} lacked it"
            told = f"{lacking if block is not None else 'nothing was heard'} for {span(silence)}"
            if patience is not None:
                told += f", and {who}'s patience is {span(patience)}"
        case "mutual":
            by = list(dict.fromkeys(name for row in rows for name in names_in(row.detail.get("by"))))
            told = f"{listed(by) or 'it'} {'count' if len(by) > 1 else 'counts'} {who} as failed, so the suspicion is mutual"
        case str(why) if why:
            told = why
        case _:
            return None
    lasts = {name: last for row in rows for name in about(row) if (last := whole(row.detail, "last")) is not None}
    if len(set(lasts.values())) == 1:
        told += f"; {'its' if len(lasts) == 1 else 'their'} last here is block {next(iter(lasts.values()))}"
    elif lasts:
        told += f"; their last here: {listed((f'{name} block {last}' for name, last in lasts.items()), most=_LISTED)}"
    return told


def _refute(event: Event) -> str:
    who, detail = event.process, event.detail
    whom = listed(about(event))
    if detail.get("heard"):
        return f"{who} drops its suspicion of {whom or 'somebody'}"
    if detail.get("late"):
        by = f" by {detail['by']}" if isinstance(detail.get("by"), str) else ""
        return f"{who} discards a refutation{by}" + (f" of the suspicion of {whom}" if whom else "")
    of = names_in(detail.get("of"))
    if not of:
        return f"{who} takes a suspicion back" + (f" of {whom}" if whom else "")
    told = f"{who} refutes {listed(f'{name}' for name in of)}'s suspicion of {'itself' if whom == who else whom or 'somebody'}"
    up_to, packets = whole(detail, "up_to"), whole(detail, "packets")
    if up_to is not None:
        told += f": it has block {up_to} of it" if whom != who else f": its last block is {up_to}"
    if packets:
        told += f", and sends {times(packets, 'packet')} along"
    return told


def _confirm(event: Event) -> str:
    who, detail = event.process, event.detail
    if isinstance(detail.get("members"), list):
        place = f" at place {detail['number']} of the order" if detail.get("number") is not None else ""
        return f"{who} proposes view {detail.get('proposed')} {braces(names_in(detail['members']))}{place}"
    failed = names_in(detail.get("detection"))
    if not failed:
        return f"{who} confirms"
    by = detail.get("by")
    verb = "have failed" if len(failed) > 1 else "has failed"
    told = f"{who} agrees with {by}:" if isinstance(by, str) and by != who else f"{who} confirms:"
    told += f" {listed(failed, most=_LISTED)} {verb}"
    cut = cut_words(detail.get("cut"))
    told += f"; {cut}" if cut else ""
    ranges = replaced(detail)
    if ranges:
        become = "is replaced" if sum(count for _, _, count in ranges) == 1 else "are replaced"
        told += f"; {replaced_words(event.group or '', ranges)} {become} by nulls"
    return told


def _confirmed_because(event: Event) -> str:
    by = event.detail.get("by")
    own = not isinstance(by, str) or by == event.process
    whom = "them" if len(names_in(event.detail["detection"])) > 1 else "it"
    told = f"all whom it does not suspect suspect {whom} too" if own else f"{by} has confirmed the same"
    waited = whole(event.detail, "suspected_for")
    return told + (f", {span(waited)} after the first suspicion" if waited else "")


def _bye(event: Event) -> str:
    gone = about(event)
    if not gone or gone == [event.process]:
        return f"{event.process} says good-bye: this is its last message"
    return f"{event.process} has the last message of {listed(gone)}, which leaves"


def _form(event: Event) -> str:
    who, detail = event.process, event.detail
    number, members, parts = whole(detail, "number"), names_in(detail.get("members")), parts_in(detail)
    view = (f"view {number}" if number is not None else "a new view") + (f" {braces(members)}" if members else "")
    called, caller = names_in(detail.get("called")), names_in(detail.get("caller"))
    by = f" of {listed(caller)}" if caller else ""
    acts = {
        "beacon": "looks for lost members" + (f": {listed(members, most=_LISTED)}" if members else ""),
        "call": f"calls {listed(called, most=_LISTED) or 'others'} to come together",
        "propose": f"proposes the group to {listed(members, most=_LISTED)}",
        "answer": f"follows the call{by}",
        "refuse": f"refuses the call{by}",
        "plan": f"plans {view}" + (f", from {' and '.join(map(braces, parts))}" if len(parts) > 1 else ""),
        "move": f"is to move to {view}, and stops sending",
        "close": "has heard all of its part stop, and ends it",
        "enter": f"enters {view}",
        "opening": f"has heard {listed(about(event)) or 'somebody'} there",
        "open": "has heard everybody there",
        "gave up": f"gives {view} up",
    }
    return f"{who} {acts.get(str(detail.get('stage')), 'takes part in a formation')}"


def _election(event: Event) -> str:
    detail, epoch, winner = event.detail, event.detail.get("epoch"), event.detail.get("winner")
    acts = {
        "vote": f"calls an election for epoch {epoch}",
        "elected": f"takes office for epoch {epoch}; the order goes on after number {detail.get('base')}",
        "hand-over": "hands its office over",
    }
    if isinstance(winner, str):
        acts["decided"] = f"has heard {listed(names_in(detail.get('voters')))}: {winner} wins epoch {epoch}"
    return f"{event.process} {acts.get(str(detail.get('stage')), 'takes part in an election')}"


def _block(event: Event) -> str:
    block = whole(event.detail, "block")
    return f", in block {block}" if block is not None else ""


_TOLD: Final[Mapping[str, Callable[[Event], str]]] = {
    "suspect": lambda event: f"{event.process} suspects {listed(about(event)) or 'somebody'}",
    "refute": _refute,
    "confirm": _confirm,
    "remove": lambda event: f"{event.process} removes {listed(about(event), most=_LISTED) or 'somebody'}{_block(event)}",
    "bye": _bye,
    "form": _form,
    "refused": lambda event: f"{event.group} is not formed at {event.process}",
    "elect": _election,
    "sync": lambda event: f"{event.process} {'ends the' if event.detail.get('over') else 'starts a'} synchronisation",
}
