"""What the report says about events, faults, times and numbers, in words."""

from __future__ import annotations

from typing import Any, Final

from ...core.model import MS, SECOND, US
from ...core.words import short
from ..show import decode, name_of, summarise

Row = dict[str, Any]
"""A row of a trace, by column, with its ``moment`` on the clock that the report uses, and its protocol's ``story``."""

NAME_MAX: Final = 24
"""Characters of a name in a picture."""

_LISTED: Final = 12
"""So many names are listed; the others are counted."""


def duration(ns: float) -> str:
    """A length of time for people, with three digits.

    >>> duration(1_234_567), duration(250), duration(61 * SECOND), duration(0)
    ('1.23 ms', '250 ns', '61 s', '0')
    """
    if ns == 0:
        return "0"
    for unit, size in (("s", SECOND), ("ms", MS), ("µs", US)):
        if abs(ns) >= size * 0.9995:
            return f"{_digits(ns / size)} {unit}"
    return f"{_digits(ns)} ns"


def count(many: int, word: str, plural: str = "") -> str:
    """A number with its noun.

    >>> count(1, "run"), count(2318, "run"), count(2, "process", "processes")
    ('1 run', '2,318 runs', '2 processes')
    """
    return f"{many:,} {word if many == 1 else plural or word + 's'}"


def listed(names: Any) -> str:
    """Names with commas, the many cut.

    >>> listed(["p1", "p2"])
    'p1, p2'
    """
    told = [short(name, NAME_MAX) for name in names]
    more = f" and {len(told) - _LISTED:,} more" if len(told) > _LISTED else ""
    return ", ".join(told[:_LISTED]) + more


def event(row: Row) -> str:
    """An event as a sentence without its full stop."""
    who, kind, detail = short(row["process"], NAME_MAX), row["kind"], decode(row["detail"])
    message = short(name_of(row), 80)
    in_view = f" in view {row['view']}" if row["view"] is not None else ""
    does = row["story"].act(kind, detail, row["sender"]) if isinstance(detail, dict) else None
    if does is not None:
        return f"{who} {short(does, 200)}"
    match kind:
        case "send":
            return f"{who} sends {message}{in_view}"
        case "deliver":
            return f"{who} delivers {message}{in_view}"
        case "view":
            return f"{who} installs view {row['view']} of {short(row['group'], NAME_MAX)}: {listed(row['members'] or ())}"
        case "join" | "leave":
            verb = "becomes a receiver of" if kind == "join" else "leaves"
            return f"{who} {verb} {short(row['group'], NAME_MAX)}"
        case "crash":
            return f"{who} {crash(detail)}"
        case "end":
            return f"{who} is alive when the recording ends"
        case "fault":
            return f"Injected fault: {fault(row['detail'])}"
        case "suspect":
            about = detail.get("process") if isinstance(detail, dict) else None
            told = f": {summarise(row['detail'])}" if row["detail"] else ""
            return f"{who} suspects {short(about, NAME_MAX)}{told}" if about else f"{who} suspects somebody{told}"
        case _:
            told = f": {summarise(row['detail'])}" if row["detail"] else ""
            return f"{who} records {kind}{' ' + message if message else ''}{told}"


def crash(detail: Any) -> str:
    """How a process stopped."""
    if not isinstance(detail, dict):
        return "crashes"
    if detail.get("by") == "protocol":
        text = detail.get("text") or detail.get("reason") or "its protocol decided so"
        return f"halts: {short(text, 200)}"
    if detail.get("by") == "collector":
        return "is gone: its history has no end, so that it counts as crashed"
    reached = detail.get("reached")
    if detail.get("mid_broadcast") and isinstance(reached, list):
        return f"crashes in the middle of a broadcast, which only {listed(reached) or 'nobody'} got"
    return "crashes"


def fault(detail: str | None) -> str:
    """An injected fault, in a few words."""
    known = decode(detail)
    if not isinstance(known, dict) or not isinstance(known.get("fault"), str):
        return short(summarise(detail), 100) if detail else "not described"
    who, source, target = (short(known.get(name) or "", NAME_MAX) for name in ("process", "source", "target"))
    link = f"from {source or 'anybody'} to {target or 'anybody'}"
    length = known.get("length")
    lasting = f" for {duration(length)}" if isinstance(length, int) and length else ""
    match known["fault"]:
        case "partition":
            parts = [listed(part) for part in known.get("parts") or () if isinstance(part, list)]
            return f"partition into {' | '.join('{' + part + '}' for part in parts)}{lasting}"
        case "cut":
            return f"cut: packets {link} are lost{lasting}"
        case "clog":
            delay = known.get("delay")
            later = f" by {duration(delay)}" if isinstance(delay, int) else ""
            return f"slow link: packets {link} come later{later}{lasting}"
        case "loss":
            return f"loss: {_share(known.get('rate'))} of the packets {link}{lasting}"
        case "crash":
            return f"{who} is killed" + (" in the middle of a broadcast" if known.get("mid_broadcast") else "")
        case "pause":
            return f"{who} is stopped{lasting}"
        case "restart":
            return f"{who} is started again"
        case "join" | "leave":
            return f"{who} is told to {known['fault']}"
        case "heal":
            return "the network is healed"
        case "calm":
            return "no more faults"
        case "step":
            offset = known.get("offset")
            return f"the clock of {who} jumps" + (f" by {duration(offset)}" if isinstance(offset, int) else "")
        case _:
            return short(summarise(detail or ""), 100)


def fault_word(detail: str | None) -> str:
    """The kind of a fault, in a word."""
    known = decode(detail)
    word = known.get("fault") if isinstance(known, dict) else None
    return short(word, 16) if isinstance(word, str) else "fault"


def fault_length(detail: str | None) -> int:
    """How long a fault lasts; 0 where it does not say."""
    known = decode(detail)
    length = known.get("length") if isinstance(known, dict) else None
    return length if isinstance(length, int) and length > 0 else 0


def _share(rate: Any) -> str:
    return f"{rate:.0%}" if isinstance(rate, int | float) else "some"


def _digits(value: float) -> str:
    whole = len(str(int(abs(value))))
    told = f"{value:,.{max(0, 3 - whole)}f}"
    return told.rstrip("0").rstrip(".") if "." in told else told
