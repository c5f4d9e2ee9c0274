"""What the report says about events, faults, times and numbers, in words."""

from __future__ import annotations

from typing import Any, Final

from ...core.model import MS, SECOND, US
from ...core.words import short
from ..draw.svg import Drawing, width_of
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


def showing(shown: int, of: int, what: str = "") -> str:
    """The sentence of a caption that says how much is left out, if something is.

    >>> showing(3, 1200, " runs"), showing(3, 2)
    (' Showing 3 of 1,200 runs.', '')
    """
    return f" Showing {shown} of {of:,}{what}." if of > shown else ""


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
    if kind == "fault":
        return f"Injected fault: {fault(row['detail'])}"
    told = f": {summarise(row['detail'])}" if row["detail"] else ""
    group = short(row["group"], NAME_MAX)
    suspected = detail.get("process") if isinstance(detail, dict) else None
    acts = {
        "send": f"sends {message}{in_view}",
        "deliver": f"delivers {message}{in_view}",
        "view": f"installs view {row['view']} of {group}: {listed(row['members'] or ())}",
        "join": f"becomes a receiver of {group}",
        "leave": f"leaves {group}",
        "crash": crash(detail),
        "end": "is alive when the recording ends",
        "suspect": f"suspects {short(suspected, NAME_MAX) if suspected else 'somebody'}{told}",
    }
    return f"{who} {acts[kind] if kind in acts else f'records {kind} {message}'.rstrip() + told}"


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
    parts = [listed(part) for part in known.get("parts") or () if isinstance(part, list)]
    rate = known.get("rate")
    told = {
        "partition": f"partition into {' | '.join('{' + part + '}' for part in parts)}{lasting}",
        "cut": f"cut: packets {link} are lost{lasting}",
        "clog": f"slow link: packets {link} come later{_by(known.get('delay'))}{lasting}",
        "loss": f"loss: {f'{rate:.0%}' if isinstance(rate, int | float) else 'some'} of the packets {link}{lasting}",
        "crash": f"{who} is killed" + (" in the middle of a broadcast" if known.get("mid_broadcast") else ""),
        "pause": f"{who} is stopped{lasting}",
        "restart": f"{who} is started again",
        "join": f"{who} is told to join",
        "leave": f"{who} is told to leave",
        "heal": "the network is healed",
        "calm": "no more faults",
        "step": f"the clock of {who} jumps{_by(known.get('offset'))}",
    }
    return told.get(known["fault"]) or short(summarise(detail or ""), 100)


def _by(length: Any) -> str:
    return f" by {duration(length)}" if isinstance(length, int) else ""


def label_fault(picture: Drawing, detail: str | None, x: float, y: float, title: str) -> None:
    """A fault's words at the line that is drawn for it; those that would leave the picture stand to the left of the line."""
    text = "⚡ " + short(fault(detail), 90)
    beyond = x + width_of(text) > picture.width - 4
    picture.text(max(x - 5 - width_of(text), 2) if beyond else x - 4, y, text, "faulttext", title=title)


def fault_word(detail: str | None) -> str:
    """The kind of a fault, in a word."""
    match decode(detail):
        case {"fault": str(word)}:
            return short(word, 16)
    return "fault"


def fault_length(detail: str | None) -> int:
    """How long a fault lasts; 0 where it does not say."""
    match decode(detail):
        case {"length": int(length)} if length > 0:
            return length
    return 0


def _digits(value: float) -> str:
    whole = len(str(int(abs(value))))
    told = f"{value:,.{max(0, 3 - whole)}f}"
    return told.rstrip("0").rstrip(".") if "." in told else told
