"""``plainchant sweep``: every seed and every grid point of a scenario as one simulated run, on Spark, verified and measured."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from typer import Exit

from .console import EXIT_INTERRUPTED, EXIT_UNEXPECTED, complain, guarded, output, terminal
from .options import ScenarioArgument, option
from .output import refuse_address
from .spark import ConfOption, MasterOption, MemoryOption, RemoteOption, UiOption, spark_for
from .verdict import print_outcomes, print_violations

if TYPE_CHECKING:
    from ..lab.sweep import Progress, Swept

_TOLD: Final = 5
"""So many violations, and so many runs that failed or did not get quiet, are told; the others are counted."""
_SPEED_OVER: Final = 120.0
"""Seconds of which the time left is estimated: units are committed seconds apart."""


@guarded
def sweep(
    scenario: ScenarioArgument,
    seeds: Annotated[str, option("Seeds: 0:1000 (1000 not included), 0:1000:10, or 3,5,8.", of="SEEDS")],
    out: Annotated[Path, option("Directory for the results; this machine and all executors must see it.")],
    grid: Annotated[list[str] | None, option("Values of a setting to try; several grids are multiplied.", of="KEY=A,B,C")] = None,
    keep: Annotated[
        Literal["all", "violations", "none"], option("Traces to keep; violations: also of runs that did not get quiet.")
    ] = "violations",
    properties: Annotated[
        list[str] | None, option("Check this property instead of the promised ones; repeat as needed.", "--property", of="NAME")
    ] = None,
    tasks: Annotated[int | None, option("Spark tasks; by default one for each that can run at once.", min=1)] = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = None,
    conf: ConfOption = None,
    ui: UiOption = False,
) -> None:
    """Run a scenario with many seeds and settings, and verify every run.

    Each seed with each point of the grid is one run. Interrupted, the same command continues where it stopped; complete, it
    only reports. The exit status is 0 if every run was as the scenario expects, 1 if one was not (a violation, a run that
    failed or did not get quiet; no violation where one is to be shown), 2 if the input was wrong.

    Examples:

      plainchant sweep sweep-faults --seeds 0:1000 --out faults
      plainchant sweep lossy-network --seeds 0:100 --grid network.loss=0,0.1,0.3 --out loss
      plainchant sweep my.toml --seeds 3,5,8 --property total --keep all --out result --master spark://host:7077
    """
    from ..lab.sweep import define, swept
    from ..lab.sweep import sweep as perform_sweep

    refuse_address(out)
    definition, result = swept(define(scenario, seeds, grid=grid or (), keep=keep, properties=properties or ()), out)
    if result is None:
        try:
            with spark_for(master, remote, memory, conf, ui=ui) as spark, _progress(definition.runs) as watch:
                result = perform_sweep(spark, definition, out, tasks=tasks, watch=watch)
        except KeyboardInterrupt:
            complain(f"interrupted; what is done is in {out}, and the same command continues it")
            raise Exit(EXIT_INTERRUPTED) from None
    else:
        output().print(f"All {definition.runs:,} runs are already in {out}.\n", markup=False)
    tell(result, out, output())
    if not result.passes:
        raise Exit(EXIT_UNEXPECTED)


def tell(result: Swept, out: Path, console: Console) -> None:
    """The short account of a sweep."""
    counts = ", ".join(f"{count:,} {_SAID[verdict]}" for verdict, count in result.verdicts.items())
    console.print(f"{result.definition.runs:,} runs, {result.events:,} events: {counts}\n", markup=False)
    print_outcomes(console, result.verification.properties)
    print_violations(console, result.verification.violations, most=_TOLD, replay=result.replays.__getitem__)
    for row in result.troubled[:_TOLD]:
        console.print(f"\nrun {row['run']} {_SAID[row['verdict']]}: {row['problem']}", markup=False)
        console.print(f"  {row['replay']}", markup=False)
    if len(result.troubled) > _TOLD:
        console.print(f"\nand {len(result.troubled) - _TOLD:,} more; {out}/runs has them all", markup=False)
    if result.unexpected and result.unexpected != sum(result.verdicts.values()) - result.verdicts.get("holds", 0):
        console.print(f"\n{result.unexpected:,} runs did not end as their scenario expects (it is meant to show a violation).")
    console.print(f"\nWritten to {out}.", markup=False)


_SAID: Final = {"holds": "hold", "violated": "violated", "restless": "did not get quiet", "failed": "failed"}


@contextlib.contextmanager
def _progress(runs: int) -> Iterator[Callable[[Progress], None] | None]:
    """A progress bar, on a terminal only."""
    console = terminal()
    if console is None:
        yield None
        return
    found = TextColumn("runs, {task.fields[found]}")
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), found, TimeRemainingColumn(elapsed_when_finished=True))
    with Bar(*columns, console=console, transient=True, speed_estimate_period=_SPEED_OVER) as bar:
        line = bar.add_task("sweeping", total=None, found="no violations")

        def watch(progress: Progress) -> None:
            if bar.tasks[line].total is None:
                # What an earlier command did says nothing about the speed of this one.
                bar.reset(line, total=runs, completed=progress.runs)
            troubled = f", {progress.troubled:,} failed or restless" if progress.troubled else ""
            found = f"{progress.violated:,} violated" if progress.violated else "no violations"
            bar.update(line, completed=progress.runs, found=found + troubled)

        yield watch
