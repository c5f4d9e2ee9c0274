"""Checks of clocks: how fine they are, whether they jump, whether somebody keeps them, and how late waits end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .finding import Finding, Subject, ok, warning
from .machine import Machine

LOOKS: Final = 300
"""Waits of a millisecond: a third of a second at the least."""
FINE: Final = 1e-4
STEP: Final = 0.005
"""A jump of the time of day of so many seconds between two looks is a step, and no drift."""
LATE: Final = 0.02
"""Seconds: with waits that end so late, protocols with short time-outs suspect each other."""


def clocks(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """Resolution, steps and lateness, of one short look."""
    resolution = machine.resolution()
    if resolution > FINE:
        yield warning(
            f"the monotonic clock shows steps of {_shown(resolution)}: latencies and time-outs are as coarse",
            "choose another clock source (/sys/devices/system/clocksource/clocksource0/available_clocksource)",
        )
    else:
        yield ok(f"the monotonic clock has a resolution of {_shown(resolution)}")
    seen = machine.lateness(LOOKS)
    if seen.step > STEP:
        yield warning(
            f"the time of day jumped by {_shown(seen.step)} while it was looked at",
            "let NTP slew the clock instead of stepping it (chrony: no makestep after the start), and see who else sets it",
        )
    else:
        yield ok(f"the time of day ran evenly (within {_shown(seen.step)} between two looks)")
    late = f"waits of 1 ms end {_shown(seen.median)} late, 1 in 100 {_shown(seen.most)}, at the worst {_shown(seen.longest)}"
    if seen.most > LATE:
        yield warning(
            f"{late}: members with short time-outs would suspect each other",
            "give the machine more processors or less to do, or set the protocol's suspect_after to seconds",
        )
    else:
        yield ok(late)


def synchronisation(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """Whether the time of day is kept by NTP or its like: times of traces from several machines are compared by it."""
    kept = machine.synchronised()
    if kept is None:
        yield ok("this system does not say whether its clock is synchronised")
    elif kept:
        yield ok("the kernel says that its clock is synchronised")
    else:
        yield warning(
            "the kernel says that nobody keeps its clock: times of several machines cannot be compared",
            "timedatectl set-ntp true, or install chrony (in a container: on its host)",
        )


def _shown(seconds: float) -> str:
    """A short time for people.

    >>> _shown(1e-9), _shown(0.00025), _shown(0.031), _shown(3)
    ('1 ns', '250 µs', '31 ms', '3 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"
