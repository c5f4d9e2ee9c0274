"""Small cases of ``mailbox`` for the explorer, and why some of its operations need not be tried at every moment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from ...core.engine import _GroupHost
from ...core.memory import Layout
from ...core.model import UsageError
from ..exploration import GROUP, Case, Exploration
from ..variants import Calls
from . import DESCRIPTION, make
from .parameters import Parameters
from .times import Times
from .variants import VALUES, variant_of

OPERATIONS: Final = frozenset({"decide", "finish", "flag", "list", "look", "read", "write"})  # names of those on shared memory
# Bounds in units, unless others are given: e is small against dd.
UNITS: Final = {"write": 2, "flag": 2, "decide": 10, "read": 2, "finish": 2, "skew": 4, "poll": 60}
# Unless a patience is given, cases end before any receiver would be overdue: what receivers watch is left out of the states.
NO_PATIENCE: Final = 0


def mailbox_case(
    *,
    receivers: int = 2,
    senders: int = 1,
    both: bool = False,
    rules: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Case:
    """A case with receivers ``r1``, ``r2``, ... and senders ``s1``, ..., or, with ``both``, the first receivers as senders."""
    listening = tuple(f"r{number}" for number in range(1, receivers + 1))
    sending = listening[:senders] if both else tuple(f"s{number}" for number in range(1, senders + 1))
    if len(sending) < senders:
        raise UsageError(f"{senders} of {receivers} receivers cannot send; name fewer senders, or leave out --both")
    only = tuple(name for name in sending if name not in listening)
    given = {**UNITS, **(parameters or {})}
    for name in given:
        if name not in Parameters.__dataclass_fields__:
            raise UsageError(f"there is no number {name!r} in mailbox; see: plainchant protocols mailbox")
    fixed = {"rejected": "halt", "slots": 2, "places": receivers + len(only), "room": 64, "patience": NO_PATIENCE}
    chosen = Parameters(**{**fixed, **given, "senders": only})
    variant = variant_of(rules or {})
    times = Times(chosen)
    groups = {GROUP: (*listening, *only)}
    bounds = dict(DESCRIPTION.bounds(chosen, groups))
    settings.setdefault("modules", chosen.copies - 1)
    settings.setdefault("detections", (1, bounds["deliver"]))
    if chosen.tolerate == "timing":
        faulty = {*settings.get("early", ()), *settings.get("late", ())}
        settings.setdefault("failures", max(0, (receivers - 1) // 2 - len(faulty.intersection(listening))))
    if settings.get("reduced", True) and not variant.replacements and settings.get("messages", 1) <= chosen.slots:
        # Reading concerns only the reader, and the message stays until its flag is set. Bounds need only the longest time tried.
        settings.setdefault("private", frozenset() if settings.get("early") or settings.get("late") else frozenset({"read"}))
        settings.setdefault("unseen", _unseen(chosen.tolerate == "crash", settings))
    return Case(
        receivers=listening,
        senders=sending,
        copies=chosen.copies,
        make=lambda host: make(host, chosen),
        skew=chosen.skew,
        poll=chosen.poll,
        complete=times.complete,
        bounds=bounds,
        operations=OPERATIONS,
        scheduled=bool(chosen.schedule),
        start={
            "version": 1,
            "protocol": DESCRIPTION.name,
            "parameters": dataclasses.asdict(chosen),
            "promises": [promise.name for promise in DESCRIPTION.promises(chosen, groups)],
            "bounds": bounds,
        },
        constants=(chosen,),
        variant=variant,
        still=(Times, Layout, _GroupHost, Calls),
        **settings,
    )


def _unseen(crash: bool, settings: Mapping[str, Any]) -> frozenset[str]:
    """Decision flags matter only to the process that removes the message, in the step that sets the last of them: after that no
    process that is in time looks at it, unless its sender wants the slot. A collected process is marked as gone, which concerns
    only later messages, and has flags set in its name; with the second protocol votes too, if it is a receiver, and others can
    tell when those are cast. In a module that fails none of this matters. (Whether anything is left behind does depend on when
    flags are set: not all of that is tried.)"""
    if settings.get("early") or settings.get("late"):
        return frozenset()
    only_senders = not settings.get("failures", 1) or not settings.get("crashes", 1)
    return frozenset({"finish", "collect"} if crash or only_senders else {"finish"})


EXPLORATION: Final = Exploration(case=mailbox_case, rules=VALUES, units=UNITS)
