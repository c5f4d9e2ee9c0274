"""``plainchant bench stops``: a member is stopped for a while and continued, in each protocol."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from plainchant.cli.console import guarded, plain_table
from plainchant.cli.options import JsonOption
from plainchant.core.model import UsageError

from .telling import fail_on_errors, figure, progress, wide_output

WIDTH: Final = 150
"""Columns of the table where no terminal says how many it has."""


@guarded
def bench_stops(
    seconds: Annotated[float, typer.Option(help="How long the member is stopped.", min=0.1)] = 10.0,
    rate: Annotated[float, typer.Option(help="Messages per second of each member.", min=1)] = 50.0,
    protocol: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this protocol. May be given again. [default: all]")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Stop a live member for a while and measure what that does to the others.

    Members are processes of their own on this machine and send at a steady rate. One gets SIGSTOP, and SIGCONT later. The
    longest standstill is the longest time without a delivery at a member that was not stopped, beside the bound that its
    protocol states. What the stopped one was told is what it recorded when it went on; a process that halted is started again
    and joins.

    Examples:

      plainchant bench stops

      plainchant bench stops --seconds 2 --protocol newtop --json > stops.json
    """
    from ..live.stops import CASES, run

    known = list(dict.fromkeys(case.protocol for case in CASES))
    for name in protocol or ():
        if name not in known:
            raise UsageError(f"there is no measurement of {name!r}; there are: {', '.join(known)}")
    cases = [case for case in CASES if not protocol or case.protocol in protocol]
    rows = run(cases, seconds=seconds, rate=rate, progress=lambda what: progress(what, quiet=as_json))
    if as_json:
        print(json.dumps({"seconds": seconds, "rate": rate, "rows": rows}))
    else:
        _show(rows)
    fail_on_errors(rows, "cases")


def _show(rows: list[dict[str, Any]]) -> None:
    table = plain_table(
        "protocol", "stopped", "longest standstill, s", "bound, s", "back after, s", "verdict", "what it was told"
    )
    for row in rows:
        times = (figure(row[name]) for name in ("standstill", "bound", "back"))
        table.add_row(row["protocol"], row["role"], *times, row["verdict"], row["told"])
    wide_output(WIDTH).print(table)
