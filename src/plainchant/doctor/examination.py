"""The list of checks, and an examination: each is run, and nothing that one of them does keeps the others from running.

A check is quick, changes nothing, and sends nothing to other machines but a multicast that its receivers pass over. Starting
Spark takes seconds, so it is asked for, and comes last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Final

from . import clocks, keys, network, resources, software
from .finding import PROBLEM, Check, Finding, Subject, problem
from .machine import Machine

CHECKS: Final[dict[str, Check]] = {
    "python": software.python,
    "event loop": software.event_loop,
    "packages": software.packages,
    "extras": software.extras,
    "java": software.java,
    "loopback": network.loopback,
    "peers": network.peers,
    "keys": keys.keys,
    "metrics": network.metrics_port,
    "multicast": network.multicast,
    "buffers": network.buffers,
    "packets": network.packets,
    "clocks": clocks.clocks,
    "time of day": clocks.synchronisation,
    "shared memory": resources.shared_memory,
    "open files": resources.files,
    "disk": resources.disk,
    "processors": resources.processors,
    "spark": software.spark,
}
"""In the order in which they are shown."""


def examine(machine: Machine, subject: Subject, began: Callable[[str], None] = lambda check: None) -> Iterator[Finding]:
    """Runs all checks; ``began`` is told of each before it starts."""
    for name, check in CHECKS.items():
        began(name)
        try:
            yield from (dataclasses.replace(found, check=found.check or name) for found in check(machine, subject))
        except Exception as error:
            text = f"this could not be looked at: {type(error).__name__}: {error}"
            yield problem(text, "tell those who make plainchant, with this line and the system that it is on", check=name)


def is_ill(findings: list[Finding]) -> bool:
    """Whether there is a problem."""
    return any(finding.level == PROBLEM for finding in findings)
