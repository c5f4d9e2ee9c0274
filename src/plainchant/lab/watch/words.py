"""What happened, in words that fit a line. All of it is text: the page shows it as text, whatever is in it."""

from __future__ import annotations

import json
from typing import Any, Final

from ...core.words import short as cut
from ...trace.fact import Fact

TEXT_MAX: Final = 200
NAME_MAX: Final = 60


def short(value: object, most: int = TEXT_MAX) -> str:
    """Text that is not too long."""
    return cut(value, most)


def detail_of(text: str | None) -> dict[str, Any]:
    """The detail of a row; empty if there is none, or none that can be read."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def reason_of(value: object) -> str:
    """A reason as people write it: its text if it has one."""
    if isinstance(value, dict):
        return short(value.get("text") or value.get("reason") or value.get("code") or json.dumps(value))
    return short(value)


def left_of(detail: dict[str, Any]) -> dict[str, str]:
    """Who is gone with a view, and why."""
    left = detail.get("left")
    return {short(name, NAME_MAX): reason_of(why) for name, why in left.items()} if isinstance(left, dict) else {}


def why_blocked(detail: dict[str, Any]) -> str:
    """Why a sender waits.

    >>> why_blocked({"reason": "full", "text": "all slots are taken"})
    'all slots are taken'
    """
    return reason_of(detail.get("text") or detail.get("situation") or detail.get("reason") or "it does not say why")


def event(fact: Fact, detail: dict[str, Any]) -> str:
    """What a line of the log says; nothing if it is not worth one."""
    group = short(fact.group, NAME_MAX)
    match fact.kind:
        case "view":
            return _view(fact, detail, group)
        case "crash":
            if detail.get("by") == "collector":
                return "is dead: its history has no end"
            return f"stops: {reason_of(detail.get('text') or detail.get('reason') or 'it does not say why')}"
        case "suspect" | "refute" | "confirm" | "elect" | "remove" | "refused" | "reject":
            if detail.get("text") or detail.get("reason"):
                return f"{fact.kind}: {reason_of(detail)}"
            values = {name: ", ".join(map(str, each)) if isinstance(each, list) else each for name, each in detail.items()}
            told = short("; ".join(f"{name} {value}" for name, value in values.items()))
            return f"{fact.kind}: {told}" if detail else fact.kind
    acts = {
        "start": f"starts, with {short(detail.get('protocol') or 'an unknown protocol', NAME_MAX)}",
        "join": f"is in {group}",
        "leave": f"leaves {group}",
        "end": "ends",
        "fault": f"fault: {short(detail.get('fault') or detail.get('kind') or 'fault', NAME_MAX)}",
        "block": f"is blocked: {why_blocked(detail)}" if fact.seq is None else "",
        "unblock": "is blocked no longer",
    }
    return acts.get(fact.kind, "")


def _view(fact: Fact, detail: dict[str, Any], group: str) -> str:
    members = ", ".join(short(name, NAME_MAX) for name in fact.members or ())
    said = [f"installs view {fact.view} of {group}: {short(members)}"]
    said += [f"{name} is gone: {why}" for name, why in left_of(detail).items()]
    if detail.get("joined"):
        said.append(f"new: {short(', '.join(map(str, detail['joined'])))}")
    return "; ".join(said)
