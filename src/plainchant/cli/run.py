"""``plainchant run``: a scenario in the simulator, its trace written, verified, and told in a short table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from rich.console import Console
from typer import Argument, Exit

from ..core.model import UsageError, format_duration
from ..lab.properties import Verification
from ..scenario import find, load, shipped
from .console import EXIT_UNEXPECTED, guarded, output, plain_table, print_some
from .options import SetOption, option
from .output import staged
from .running import VERIFY_UP_TO, Result, VerifyOption, execute
from .verdict import coloured

_TOLD: Final = 3
"""So many violations of a property are told; the others are counted."""
_HALTED: Final = 10
"""So many halted processes are named with their reasons; the others are counted."""


@guarded
def run(
    file: Annotated[str | None, Argument(help="A scenario file, or the name of a shipped scenario.")] = None,
    seed: Annotated[int | None, option("Decides everything that is drawn at random.", min=0)] = None,
    sets: SetOption = None,
    out: Annotated[Path | None, option("New directory for the trace, the complete scenario and the summary.")] = None,
    verify: VerifyOption = None,
    show_list: Annotated[bool, option("List the shipped scenarios and exit.", "--list")] = False,
) -> None:
    """Run a scenario in the simulator and verify what it did.

    The exit status is 0 if the run was as the scenario expects, 1 if a property was violated (or none, where one was
    expected, or it was not looked for) or the run did not get quiet, 2 if the input was wrong.

    Examples:

      plainchant run first-steps
      plainchant run lossy-network --seed 7 --set network.loss=0.3
      plainchant run sequencer-crash --set fault.0.at=100ms --out crash
      plainchant run my.toml --out result
    """
    if show_list:
        table = plain_table("scenario", "what it shows")
        for name, path in shipped().items():
            table.add_row(name, load(path).about)
        return output().print(table)
    if file is None:
        raise UsageError(f"which scenario? Name a file or a shipped one: {', '.join(shipped())}")
    scenario = load(find(file), [*(sets or ()), *([f"seed={seed}"] if seed is not None else ())])
    if out is None:
        result = execute(scenario, verify_it=verify)
    else:
        with staged(out) as directory:
            result = execute(scenario, directory, verify_it=verify)
    console = output()
    tell(result, console)
    if out is not None:
        console.print(f"\nWritten to {out}. Read it with: plainchant trace {out}", markup=False)
    if not result.passes:
        raise Exit(EXIT_UNEXPECTED)


def tell(result: Result, console: Console) -> None:
    """The short account of a run."""
    scenario, summary = result.scenario, result.summary
    facts = plain_table("", "")
    facts.add_row("scenario", f"{scenario.name} (seed {scenario.seed})")
    facts.add_row("protocol", scenario.protocol)
    facts.add_row("processes", states(result))
    facts.add_row("messages", f"{summary.messages_sent:,} sent, {summary.messages_delivered:,} delivered")
    if summary.streams_asked:
        asked = f"{summary.streams_asked:,} streams and single messages asked for"
        facts.add_row("deadlines", f"{asked}, {summary.streams_admitted:,} admitted, {summary.streams_rejected:,} rejected")
    facts.add_row("packets", f"{summary.packets_sent:,} sent, {summary.packets_lost:,} lost")
    facts.add_row("time", f"{format_duration(scenario.duration)} of traffic, {summary.virtual_time / 1e9:.3f} s in all")
    facts.add_row("events", f"{summary.events:,} handled, {result.events:,} in the trace")
    console.print(facts)
    halted = [f"{name} halted: {end.reason}" for name, end in summary.processes.items() if end.state == "halted"]
    print_some(console, halted, _HALTED)
    if result.restless:
        tell_restless(scenario.drain, summary.not_quiet, console)
    console.print()
    found = "and one was found" if result.as_expected else "but none was found"
    if result.verification is not None:
        tell_verification(result.verification, console)
        shown = f", {found}"
    else:
        shown = "; not verified: cannot tell"
        more = f": {result.events:,} events are more than are checked without being asked ({VERIFY_UP_TO:,}). "
        more += "Add --verify to check them all the same."
        console.print(f"Not verified{more if result.events > VERIFY_UP_TO else ', as asked.'}")
    if scenario.expect == "violation":
        console.print(f"This scenario is meant to show a violation{shown}.")


def tell_restless(drain: int, not_quiet: Mapping[str, str], console: Console) -> None:
    """Which processes were not quiet, and what they still had to do."""
    console.print(f"\nIt did not get quiet within {format_duration(drain)} of the end of traffic:")
    for process, text in not_quiet.items():
        console.print(f"  {process}: {text}", markup=False)


def count_words(count: Mapping[Any, int]) -> str:
    """Counts, each with its word: ``4 alive, 1 crashed``."""
    return ", ".join(f"{number} {what}" for what, number in count.items())


def states(result: Result) -> str:
    """How many ended how."""
    return count_words(Counter(end.state for end in result.summary.processes.values()))


def tell_verification(verification: Verification, console: Console) -> None:
    """A line a property, and a sentence a violation."""
    table = plain_table("property", "cases", "verdict")
    for name, outcome in verification.properties.items():
        table.add_row(name, f"{outcome.cases:,}", coloured(outcome.verdict))
    console.print(table)
    for name, outcome in verification.properties.items():
        # The first few, which are the smallest and earliest; the summary has more of them.
        found = [violation for violation in verification.violations if violation.property == name]
        for violation in found[:_TOLD] if outcome.violations else ():
            places = ", ".join(f"{process} at index {index}" for process, index in violation.events)
            console.print(f"\n{name}: {violation.sentence} ({places})", markup=False)
        if outcome.violations > _TOLD:
            console.print(f"\n{name}: and {outcome.violations - _TOLD:,} more violations")
    for warning in verification.warnings:
        console.print(f"\nNote: {warning}", markup=False)
