"""``plainchant bench verify``: how fast traces are verified, beside DuckDB on the same files in the same run."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from plainchant.cli.console import guarded, output, plain_table
from plainchant.cli.options import JsonOption
from plainchant.cli.spark import MasterOption, RemoteOption

if TYPE_CHECKING:
    from ..lab.verify import Figures, Row

SIZES: Final = (1_000_000, 10_000_000, 50_000_000)
QUICK: Final = (10_000, 100_000, 500_000)


@guarded
def bench_verify(
    events: Annotated[
        list[int] | None, typer.Option(help="Size of a trace; may be given again. [default: 1, 10 and 50 million]", min=1_000)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A hundredth of the sizes: to see that it works.")] = False,
    rounds: Annotated[int, typer.Option(help="Rounds; the best of them counts.", min=1)] = 3,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep the traces here, for the next time. [default: a temporary one]")
    ] = None,
    violations: Annotated[
        bool, typer.Option("--violations", help="Also with one and with 1,000 violations of each of some properties.")
    ] = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure verification beside DuckDB.

    Traces as `sequencer` leaves them, verified for all that it promises: warm, best of the rounds, start-up apart. DuckDB
    (2 threads) numbers the deliveries of each process and counts the positions of each message, on the same files, in
    turns with us. Memory is the summed proportional set size of our process tree. Beside the sizes: 50 members instead of
    5, many small runs instead of one long, and a small trace from the shell with start-up included.

    50 million events need about 1 GB of disk in all and some minutes.

    Examples:

      plainchant bench verify --quick

      plainchant bench verify --events 10000000 --dir traces

      plainchant bench verify --events 10000000 --violations --rounds 1

      plainchant bench verify --json > verify.json
    """
    from ..lab.verify import measure, require_peer

    require_peer()
    sizes = events or list(QUICK if quick else SIZES)
    with place_for_traces(directory) as place:
        told = teller(as_json)
        figures = measure(sizes, place, rounds=rounds, master=master, remote=remote, violations=violations, progress=told)
    if as_json:
        print(json.dumps(figures.to_json()))
    else:
        _show(figures)


@contextlib.contextmanager
def place_for_traces(directory: Path | None) -> Iterator[Path]:
    """Where the traces are made."""
    if directory is not None:
        yield directory
    else:
        with tempfile.TemporaryDirectory(prefix="plainchant-bench-") as made:
            yield Path(made)


def teller(quiet: bool) -> Callable[[str], None]:
    """Says what is being done, to people only."""
    if quiet or not sys.stderr.isatty():
        return lambda what: None
    return lambda what: typer.echo(f"measuring: {what}", err=True)


def show_rows(rows: Sequence[Row]) -> None:
    table = plain_table("events", "members", "runs", "seconds", "events/s", "of DuckDB's time", "peak MB")
    for row in rows:
        peak = "unknown" if row.peak_mb is None else f"{row.peak_mb:,}"
        table.add_row(
            *(f"{row.events:,}", f"{row.members}", f"{row.runs:,}", f"{row.seconds:.2f}", f"{row.events_per_s:,}"),
            *(f"{row.ratio_to_duckdb:.2f}", peak),
        )
    output().print(table)


def _show(figures: Figures) -> None:
    show_rows(figures.rows)
    console = output()
    if figures.violated:
        table = plain_table("violated", "planted", "found", "seconds", "of the clean time", "peak MB")
        for row in figures.violated:
            peak = "unknown" if row.peak_mb is None else f"{row.peak_mb:,}"
            counts = f"{row.planted:,}", f"{row.violations:,}"
            table.add_row(row.property or "nothing", *counts, f"{row.seconds:.2f}", f"{row.ratio_to_clean:.2f}", peak)
        console.print(table)
    console.print(f"Spark was ready after {figures.session_seconds:.1f} s.")
    for target in figures.targets:
        verdict = {True: "met", False: "missed", None: "not measured"}[target.met]
        measured = "" if target.measured is None else f" ({target.measured:g})"
        console.print(f"{verdict}: {target.wanted}{measured}")
