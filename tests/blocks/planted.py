"""Rows of blocks written by hand, with a mistake or without.

    planted({"p": "begin 1 p,q | put job=p/1 | deal job=p/1 attempt=1 worker=p", ...}, "work queue", "jobs-once")

An event of a block and its detail: ``name=value``, values being JSON where they can be, else texts. ``begin``, ``view`` and
``take`` come with a number and members, which are written as a view of the host's first. ``deliver SENDER SEQ`` is a message;
``message=SENDER/SEQ`` says which one a row is about. ``crash`` and ``end`` end a history; one without is cut.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from plainchant.trace import TraceBuffer
from plainchant.trace.reference import Verification, verify

_VIEWS = ("begin", "view", "take")


def planted(histories: Mapping[str, str], about: str, name: str, *, promises: Sequence[str] | None = None) -> Verification:
    """What one property says of such rows; all histories are drained."""
    return verify(table(histories, about, promises), [name] if promises is None else None)


def sentences(histories: Mapping[str, str], about: str, name: str, **options: Any) -> list[str]:
    return [violation.sentence for violation in planted(histories, about, name, **options).violations]


def table(histories: Mapping[str, str], about: str, promises: Sequence[str] | None = None) -> pa.Table:
    buffer = TraceBuffer()
    for process, text in histories.items():
        rows = buffer.history("r0", process).rows
        view: int | None = None
        if promises is not None:
            start = {"detail": {"version": 1, "promises": list(promises), "bounds": {}}}
            rows.append(("start", 0, 0, None, None, None, None, None, None, None, None, start))
        for event in text.split("|"):
            kind, *words = event.split()
            when = len(rows)
            if kind == "end":
                extra: dict[str, Any] = {"detail": {"drained": True}}
                rows.append(("end", when, when, None, None, None, None, None, None, None, None, extra))
                continue
            if kind == "crash":
                rows.append(("crash", when, when, None, None, None, None, None, None, None, None, None))
                continue
            if kind == "deliver":
                rows.append(("deliver", when, when, "g", view, words[0], int(words[1]), None, None, None, None, None))
                continue
            detail: dict[str, Any] = {"note": about, "block": "b", "event": kind}
            if kind in _VIEWS:
                view, members = int(words[0]), words[1].split(",")
                rows.append(("view", when, when, "g", view, None, None, None, None, None, None, {"members": members}))
                detail |= {"at_view": view, "members": members}
                words = words[2:]
            pairs = dict(word.split("=", 1) for word in words)
            sender, _, seq = pairs.pop("message", "").partition("/")
            detail |= {key: _value(value) for key, value in pairs.items()}
            message = (sender, int(seq)) if seq else (None, None)
            rows.append(("note", when, when, "g", view, *message, None, None, None, None, {"detail": detail}))
    return buffer.table()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
