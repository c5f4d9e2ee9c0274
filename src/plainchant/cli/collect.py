"""``plainchant collect``: what live processes have recorded, as a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from typer import Argument

from ..trace.collect import CollectSummary, Ending
from ..trace.collect import collect as collect_spools
from .console import complain, guarded, moving_bar, output, plain_table
from .options import option
from .output import staged

_ENDINGS: Final[dict[Ending, str]] = {
    "end": "recorded its end",
    "crash": "recorded its crash",
    "left": "left its last group",
    "killed": "stopped without a word; a crash is noted",
    "alive": "still runs; its history is cut here",
}
_SHOWN: Final = 40


@guarded
def collect(
    spools: Annotated[list[Path], Argument(metavar="SPOOL", help="Directories that processes recorded to, or above them.")],
    out: Annotated[Path, option("The trace: a new directory.")],
    alive: Annotated[
        list[str] | None, option("It still runs: note no crash. May be repeated. Default: found out by its lock.", of="PROCESS")
    ] = None,
    tail: Annotated[bool, option("Take histories whose beginning was removed: to look at, not to verify.", "--tail")] = False,
) -> None:
    """Convert what live processes have recorded (spools) into a trace, which can then be verified, measured and explained.

    A process that records leaves SPOOL/RUN/PROCESS/00000.spool and so on, readable whenever and however it stops. Give
    the directories of all processes of a run at once: a trace that lacks one says less.

    A history that just stops is that of a killed process, and a crash is noted at its end, unless the process still runs.
    That is seen by the lock it holds; for directories copied from another machine, name who still runs by --alive.

    Examples:

      plainchant collect spools --out collected
      plainchant collect node-1/spools node-2/spools --alive node-2 --out collected
      plainchant verify collected
    """
    columns = (TextColumn("read, in two passes"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with staged(out) as directory, moving_bar(*columns) as bar:

        def progress(done: int, total: int) -> None:
            bar(completed=done, total=total)

        summary = collect_spools(spools, directory, alive=alive or None, tail=tail, progress=progress)
    _tell(summary, out)


def _tell(summary: CollectSummary, out: Path) -> None:
    for directory in summary.empty:
        complain(f"warning: {directory} holds nothing: its process stopped before it had recorded anything")
    headless = [process for process in summary.processes if process.missing]
    for process in headless:
        gone = f"the first {process.missing:,} rows of {process.process} are gone"
        complain(f"warning: {gone}; run {process.run} can be looked at, but not verified")
    console = output()
    table = plain_table("run", "process", "events", "at its end")
    for process in summary.processes[:_SHOWN]:
        table.add_row(process.run, process.process, f"{process.rows:,}", _ENDINGS[process.ending])
    console.print(table)
    if len(summary.processes) > _SHOWN:
        console.print(f"and {len(summary.processes) - _SHOWN:,} more")
    for process in summary.processes:
        if process.torn:
            written = f"an unfinished write of {process.torn:,} bytes at the end of {process.process}"
            console.print(f"{written} in run {process.run} is left out", markup=False)
    console.print("\n" + ", ".join(f"{count:,} {kind}" for kind, count in summary.events.items()), markup=False)
    follow = "List it with: plainchant trace" if headless else "Check it with: plainchant verify"
    console.print(f"Written to {out}. {follow} {out}", markup=False)
