"""What certificates leave open of ``deadline``: the messages whose times the rows must still show (``timing.deadlines``)."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from ..facts import Moment
from .evidence import Messages


class Lacking(NamedTuple):
    """Messages that a process does not deliver though it installed the view in which they were sent. It is excused for those
    whose deadline comes after its last row, and for those whose deadline comes when it had left, or dropped the sender."""

    group: str
    sender: str
    low: int
    high: int
    ended: Moment
    freed: tuple[Moment, ...]
    is_clear: bool  # whether a few rows tell if it owes one of them that is not excused


@dataclasses.dataclass(frozen=True, slots=True)
class Untimed:
    """What is left to be seen before ``deadline`` can be said to hold in a run."""

    senders: tuple[tuple[str, str], ...]  # (group, sender): those who send with deadlines and do not crash
    lacking: tuple[Lacking, ...]
    cases: int  # cases that have been counted
    events: int = 0  # rows of the run
    is_held: bool = False  # whether the property is told of though it has no case
    dated: tuple[tuple[str, str], ...] = ()  # (group, sender): deliveries are late by deadlines of their own
    odd: tuple[Messages, ...] = ()  # messages about which rows are counted that are no cases
