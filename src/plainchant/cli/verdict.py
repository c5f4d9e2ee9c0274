"""How findings are printed, the same for a verification, a sweep and whatever else verifies: a table, then sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rich.console import Console

from ..lab.properties import Outcome, Violation
from .console import plain_table

_STYLES: Final = {"holds": "green", "violated": "red"}


def coloured(verdict: str) -> str:
    """A verdict in its colour."""
    style = _STYLES.get(verdict, "yellow")
    return f"[{style}]{verdict}[/{style}]"


def print_outcomes(console: Console, properties: Mapping[str, Outcome]) -> None:
    """A line a property: what it was checked on, and what was found."""
    table = plain_table("property", "runs", "events", "cases", "violations", "verdict")
    for heading in table.columns[1:5]:
        heading.justify = "right"
    for name, outcome in properties.items():
        numbers = [f"{number:,}" for number in (outcome.runs, outcome.events, outcome.cases, outcome.violations)]
        if outcome.in_part:
            numbers[2:] = [f"at least {number}" for number in numbers[2:]]
        table.add_row(name, *numbers, coloured(outcome.verdict))
    console.print(table)


def print_violations(
    console: Console, violations: Sequence[Violation], *, most: int, replay: Callable[[str], str] | None = None
) -> None:
    """The first of them, which are the smallest, as sentences with the events involved.

    ``replay`` makes the command that performs a run again, which is printed below each. How many are not shown is said.
    """
    for violation in violations[:most]:
        places = ", ".join(f"{process} at index {index}" for process, index in violation.events)
        involved = f" ({places})" if places else ""
        console.print(f"\n{violation.property}, run {violation.run}: {violation.sentence}{involved}", markup=False)
        if replay is not None:
            console.print(f"  {replay(violation.run)}", markup=False)
    if len(violations) > most:
        console.print(f"\nand {len(violations) - most:,} more")
