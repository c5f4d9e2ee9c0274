"""``plainchant bench metrics``: how fast traces are measured, beside DuckDB on the same files in the same run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from plainchant.cli.console import guarded
from plainchant.cli.options import JsonOption
from plainchant.cli.spark import MasterOption, RemoteOption

from .bench_verify import place_for_traces, show_rows, teller

SIZES: Final = (1_000_000, 10_000_000)
QUICK: Final = (10_000, 100_000)


@guarded
def bench_metrics(
    events: Annotated[
        list[int] | None, typer.Option(help="Size of a trace; may be given again. [default: 1 and 10 million]", min=1_000)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A hundredth of the sizes: to see that it works.")] = False,
    rounds: Annotated[int, typer.Option(help="Rounds; the best of them counts.", min=1)] = 3,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep the traces here, for the next time. [default: a temporary one]")
    ] = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the metrics of large traces beside DuckDB.

    Traces as `sequencer` leaves them, validated and measured in one pass: warm, best of the rounds, start-up apart. DuckDB
    (2 threads) computes the figures that most runs have, from the same files, in turns with us; it is an error if they
    are not the same. Memory is the summed proportional set size of our process tree.

    Examples:

      plainchant bench metrics --quick

      plainchant bench metrics --events 10000000 --dir traces --json
    """
    from ..lab.metrics import measure
    from ..lab.verify import require_peer

    require_peer()
    with place_for_traces(directory) as place:
        sizes = events or list(QUICK if quick else SIZES)
        rows = measure(sizes, place, rounds=rounds, master=master, remote=remote, progress=teller(as_json))
    if as_json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))
    else:
        show_rows(rows)
