"""Names of processes.

A *place* (``p3``) is where a member runs: it has an address, a clock and links, and one process at a time. A process that
restarts is a new process at the same place, the next *incarnation*, with a name of its own: ``p3``, then ``p3#1``, then ``p3#2``.
Scenarios, faults and configurations name places; traces, views and packets name processes.

Every name that has an incarnation is made and taken apart here, and nowhere else. Names arrive in packets and in traces of other
programs, so the functions accept any text: what follows the mark counts only if it is a number.
"""

from __future__ import annotations

from typing import Final

from .model import ProcessId

MARK: Final = "#"
"""Separates a place from an incarnation number."""
_MAX_DIGITS: Final = 19  # longer incarnation numbers, which only forged packets have, read as 0


def process_name(place: str, incarnation: int) -> ProcessId:
    """The name of a place's process with this incarnation number.

    >>> process_name("p3", 0), process_name("p3", 2)
    ('p3', 'p3#2')
    """
    return f"{place}{MARK}{incarnation}" if incarnation else place


def place_of(process: ProcessId) -> str:
    """The place where a process runs: its name without the incarnation.

    >>> place_of("p3"), place_of("n1.p3#2")
    ('p3', 'n1.p3')
    """
    return process.partition(MARK)[0]


def incarnation_of(process: ProcessId) -> int:
    """How many processes this process's place had before; 0 if the name does not say.

    >>> incarnation_of("p3"), incarnation_of("p3#2"), incarnation_of("p3#x")
    (0, 2, 0)
    """
    number = process.partition(MARK)[2]
    return int(number) if number.isdecimal() and len(number) <= _MAX_DIGITS else 0


def is_place(name: str) -> bool:
    """Whether a name has no incarnation mark, and so names a place and its first process.

    >>> is_place("p3"), is_place("p3#1")
    (True, False)
    """
    return MARK not in name
