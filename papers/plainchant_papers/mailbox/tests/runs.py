"""Small simulations of mailbox for paper tests: a group of named processes, its run, and what can be read off it.

How long each operation takes, and what fails after which, is in scripts (:mod:`plainchant.sim.scripted`); times are in µs.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from plainchant.core.model import US
from plainchant.lab.properties import verify
from plainchant.scenario.model import Workload
from plainchant.sim.scripted import Script, ScriptedMemory
from plainchant_papers.mailbox.scripted import PROMISES, message, plan, run
from tests.protocols.runs import Run


@dataclasses.dataclass(frozen=True)
class MailboxRun(Run):
    """A finished run of one group; times in µs."""

    sentences: list[str]
    """What was violated, in words."""
    flagged: dict[tuple[str, int, int], frozenset[str]]
    """Who had a decision flag when a message was written: by sender, timestamp and copy. Of runs with a script."""
    changed: Counter[tuple[str, str]]
    """How many operations of a process, by name, changed an entry. Of runs with a script."""

    def decisions(self, process: str) -> list[int]:
        """What a receiver decided, message by message, in the order of their timestamps."""
        found = sorted(self.details("decide", process), key=lambda detail: detail["stamp"])
        return [detail["decision"] for detail in found]

    def operations(self, process: str, *names: str) -> list[tuple[str, int, float, float]]:
        """What a process did: operation, copy (from 1), begin and end."""
        found = [(row, msgspec.json.decode(row["detail"])) for row in self.of("operation", process)]
        return [
            (detail["operation"], detail["copy"] + 1, detail["began"] / US, row["true_time"] / US)
            for row, detail in found
            if not names or detail["operation"] in names
        ]

    def timing_faults(self) -> list[str]:
        """Who had a timing fault."""
        return sorted({row["process"] for row in self.of("fault") if '"timing":true' in row["detail"].replace(" ", "")})

    def accused(self) -> list[str]:
        """Senders that keep time and had a message rejected: what the paper calls validity is broken."""
        rejected = {row["sender"] for row in self.rows if row["kind"] in ("reject", "late") and row["sender"]}
        crashed = {row["process"] for row in self.of("crash") if '"by":"fault"' in row["detail"].replace(" ", "")}
        return sorted(rejected - crashed - set(self.timing_faults()))

    def latest(self) -> float:
        """Longest time from a Send to the last delivery of its message."""
        return max(float(row["true_time"] - row["sent"]) for row in self.of("deliver")) / US


def simulate(
    members: str,
    *workload: Workload,
    script: Script | None = None,
    settings: Mapping[str, Any] | None = None,
    **given: Any,
) -> MailboxRun:
    """Runs a group of these and verifies all that is promised, drained or not. ``given`` is what plans and the protocol take,
    ``settings`` are of the scenario."""
    planned = plan(members, *(workload or (message(members.split()[0], 5000),)), script=script, **given)
    planned = dataclasses.replace(planned, scenario=dataclasses.replace(planned.scenario, **(settings or {})))
    table, summary, memory = run(planned)
    found = verify(table, PROMISES)
    violated = [name for name, outcome in found.properties.items() if outcome.violations]
    sentences = [violation.sentence for violation in found.violations]
    if not isinstance(memory, ScriptedMemory):
        return MailboxRun(summary, table.to_pylist(), violated, sentences, {}, Counter())
    return MailboxRun(summary, table.to_pylist(), violated, sentences, memory.flagged, memory.changed)
