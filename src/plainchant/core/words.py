"""Words for people: lists of names, counts, lengths of time, faults, crashes and views."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from .model import MS, SECOND, US, format_duration

_EXACT_MAX: Final = 8  # a duration whose exact form has this many characters or more is rounded


def listed(names: Iterable[str], *, most: int = 0) -> str:
    """Names as people list them; with ``most``, the rest is counted.

    >>> listed(["p1", "p2", "p3"])
    'p1, p2 and p3'
    >>> listed(["p1", "p2", "p3", "p4"], most=2)
    'p1, p2 and 2 others'
    """
    named = list(names)
    if most and len(named) > most + 1:
        named = [*named[:most], f"{len(named) - most} others"]
    return f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else "".join(named)


def short(text: object, most: int) -> str:
    """The text, cut to ``most`` characters.

    >>> short("abcdefgh", 5)
    'abcd…'
    """
    told = str(text)
    return told if len(told) <= most else told[: most - 1] + "…"


def names_in(value: Any) -> list[str]:
    """Names in a detail: a list of them, the keys of a mapping, or one name."""
    if isinstance(value, str):
        return [value]
    return [str(name) for name in value] if isinstance(value, list | dict) else []


def whole(detail: Mapping[str, Any], key: str) -> int | None:
    """A whole number of a detail."""
    value = detail.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def times(count: int, what: str) -> str:
    """A count and its noun.

    >>> times(1, "message"), times(1200, "message"), times(2, "delivery")
    ('1 message', '1,200 messages', '2 deliveries')
    """
    several = f"{what[:-1]}ies" if what.endswith("ry") else f"{what}s"
    return f"{count:,} {what if count == 1 else several}"


def often(count: int) -> str:
    """How many times.

    >>> often(1), often(2), often(3)
    ('once', 'twice', '3 times')
    """
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """A key that puts p2 before p10, and p3#1 after p3.

    >>> sorted(["p10", "p3#1", "p2", "p3"], key=natural)
    ['p2', 'p3', 'p3#1', 'p10']
    """
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    return tuple((False, int(part), "") if part[0] in "0123456789" else (True, 0, part) for part in parts)


def span(ns: int) -> str:
    """A length of time, rounded to what a person compares.

    >>> span(750), span(815_285), span(34_727_000), span(1_676_000_000)
    ('750 ns', '815 us', '34.7 ms', '1.676 s')
    """
    if abs(ns) < US:
        return f"{ns} ns"
    if abs(ns) < MS:
        return f"{ns / US:.0f} us"
    return f"{ns / MS:.1f} ms" if abs(ns) < SECOND else f"{ns / SECOND:.3f} s"


def moment(ns: int) -> str:
    """A point of time, to the microsecond; below that, where times are just numbers, in ns.

    >>> moment(326_000_000), moment(7)
    ('326.000 ms', '7 ns')
    """
    return f"{ns:,} ns" if 0 < abs(ns) < US else f"{ns / MS:,.3f} ms"


def fault_words(detail: Mapping[str, Any]) -> str:
    """A fault's settings: its kind first, durations as people write them.

    >>> fault_words({"fault": "partition", "length": 60000000, "parts": [["p1", "p2"], ["p3"]]})
    'partition, length 60ms, p1 p2 | p3'
    >>> fault_words({"fault": "timing", "timing": True, "operation": "write", "copy": 0, "took_ns": 3_000_000})
    'timing: write in copy 1 took 3.0 ms'
    """
    match detail:
        case {"fault": "module", "module": int(module)}:
            return f"memory module {module} crashes, and with it every copy that is in it"
        case {"fault": "timing", "operation": str()}:
            return f"timing: {operation_words(detail)}"
    words = [str(detail.get("fault", detail.get("kind", "")))]
    for key, value in detail.items():
        if key in ("length", "delay", "offset") and isinstance(value, int):
            sign = "-" if value < 0 else ""
            exact = format_duration(abs(value))
            words.append(f"{key} {sign}{exact if len(exact) < _EXACT_MAX else span(abs(value))}")
        elif key == "parts":
            words.append(" | ".join(" ".join(part) for part in value))
        elif key not in ("fault", "kind", "process", "timing"):
            words.append(f"{key} {value}")
    return ", ".join(words)


def reason(detail: Mapping[str, Any]) -> str | None:
    """The reason that a row itself gives."""
    given = detail.get("reason")
    for name in ("text", "situation", "why", "reason"):
        # A protocol's Reason has its sentence inside.
        value = given.get("text") if name == "text" and isinstance(given, dict) else detail.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def operation_words(detail: Mapping[str, Any]) -> str:
    """An operation on shared memory that took too long; copies are counted from 1.

    >>> operation_words({"operation": "write", "copy": 0, "took_ns": 3_000_000, "bound_ns": 100_000})
    'write in copy 1 took 3.0 ms instead of 100 us'
    >>> operation_words({"operation": "wait", "took_ns": 3_000_000, "bound_ns": 0})
    'a wait ended 3.0 ms late'
    """
    copy, took, bound = whole(detail, "copy"), whole(detail, "took_ns"), whole(detail, "bound_ns")
    if detail.get("operation") == "wait" and took is not None:
        return f"a wait ended {span(took)} late"
    told = str(detail.get("operation", "an operation")) + (f" in copy {copy + 1}" if copy is not None else "")
    told += f" took {span(took)}" if took is not None else " took too long"
    return told + (f" instead of {span(bound)}" if took is not None and bound is not None else "")


def crash_words(process: str, detail: Mapping[str, Any]) -> str:
    """How a process stopped."""
    operation, copy = detail.get("operation"), whole(detail, "copy")
    if detail.get("mid_broadcast") and isinstance(operation, str) and copy is not None:
        return f"{process} crashes in the middle of a Send, after its {operation} in copy {copy + 1}"
    if "text" in detail:
        return f"{process} halts: {detail['text']}"
    if detail.get("mid_broadcast"):
        reached = listed(str(name) for name in detail.get("reached", []))
        return f"{process} crashes in the middle of a broadcast: only {reached or 'nobody'} still got the packet"
    return f"{process} crashes"


def braces(members: Sequence[str]) -> str:
    """The members of a view.

    >>> braces(["p1", "p2"])
    '{p1, p2}'
    """
    return "{" + ", ".join(members) + "}"


def left_reasons(detail: Mapping[str, Any]) -> dict[str, str]:
    """The reason for each process that a view lost, as far as the view's ``detail`` tells."""
    left = detail.get("left")
    if not isinstance(left, dict):
        return {}
    texts = {str(name): reason.get("text") if isinstance(reason, dict) else reason for name, reason in left.items()}
    return {name: str(text) for name, text in texts.items() if text}
