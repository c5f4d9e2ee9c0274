"""``plainchant bench sweep``: how fast sweeps are, beside a plain pool of processes in the same run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from plainchant.cli.console import guarded, output, plain_table
from plainchant.cli.options import JsonOption
from plainchant.cli.spark import spark_for


@guarded
def bench_sweep(
    runs: Annotated[int, typer.Option(help="Simulated runs of a measurement, about 1,000 events each.", min=10)] = 400,
    rounds: Annotated[int, typer.Option(help="Rounds; the best of them counts.", min=1)] = 3,
    cores: Annotated[int, typer.Option(help="Slots of Spark on this machine, and processes of the pool.", min=1)] = 2,
    as_json: JsonOption = False,
) -> None:
    """Measure sweeps beside a plain pool of processes.

    The same runs on both sides, simulated, verified, measured and written: as `plainchant sweep` does it on local Spark, and by
    concurrent.futures.ProcessPoolExecutor. Both warm, in turns, the best of the rounds; start-up of Spark apart.

    Examples:

      plainchant bench sweep

      plainchant bench sweep --json > sweep.json
    """
    from ..lab.sweep import measure_sweeps

    def progress(what: str) -> None:
        if not as_json:
            typer.echo(f"measuring: {what}", err=True)

    with spark_for(f"local[{cores}]", None) as spark:
        rate = measure_sweeps(spark, runs=runs, rounds=rounds, processes=cores, progress=progress).to_json()
    if as_json:
        print(json.dumps({"rows": [rate]}))
        return
    table = plain_table("runs", "events a run", "Spark, runs/s", "pool, runs/s", "of the pool's rate")
    table.add_row(*(f"{rate[key]:,}" for key in ("runs", "events_per_run", "spark_runs_per_s", "pool_runs_per_s", "ratio")))
    output().print(table)
