"""``plainchant reproduce``: re-runs a document's experiments and says which of its claims hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from plainchant.cli.console import EXIT_UNEXPECTED, complain, guarded, moving_line, output
from plainchant.cli.output import refuse_occupied, staged
from plainchant.cli.spark import MasterOption, RemoteOption, spark_for
from plainchant.core.model import UsageError

if TYPE_CHECKING:
    from .claims import Result

_STYLES = {"holds": "green", "holds with a remark": "yellow", "does not hold": "red", "open": "dim"}


@guarded
def reproduce(
    name: Annotated[str | None, typer.Argument(help="What to reproduce: the name of its protocol.", show_default=False)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sweeps: a first look.")] = False,
    claims: Annotated[
        list[int] | None, typer.Option("--claim", metavar="N", help="Only this claim, by its number; repeat as needed.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="New directory for a page with figures, and the data as CSV.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
) -> None:
    """Re-run a document's experiments: what it claims, what was measured, and whether that holds.

    Every claim is measured by simulations, which run as Spark tasks, and judged by a stated rule: "holds", "holds with a
    remark" or "does not hold", and why; or "open", if what it is about is not built yet. The exit status is 0 if all verdicts
    are those on record in docs/reproduce.md (also where a claim does not hold: that is a result), 1 if one is not, 2 if the
    input was wrong.

    Examples:

      plainchant reproduce sequencer --quick

      plainchant reproduce sequencer --claim 8 --claim 13 --out figures

      plainchant reproduce newtop --json > claims.json
    """
    from . import NAMES, claims_of
    from .claims import Context, measure
    from .page import check_drawing, write

    if name is None:
        raise UsageError(f"reproduce what? Name one of: {', '.join(NAMES)}")
    chosen = claims_of(name, claims or ())
    if out is not None:
        refuse_occupied(out)
        check_drawing()
    with spark_for(master, remote, quick=quick) as spark, moving_line() as tell:
        context = Context(spark, quick=quick)
        results = measure(
            chosen,
            context,
            lambda claim: tell(f"claim {claim.number} ({chosen.index(claim) + 1} of {len(chosen)}): {claim.claim}"),
        )
    if out is not None:
        with staged(out) as directory:
            write(directory, name, results, quick=quick)
    if as_json:
        print(json.dumps({"claims": [result.to_json() for result in results]}, indent=2, ensure_ascii=False))
    else:
        _tell(results, output())
        if out is not None:
            print(f"\nWritten to {out}: open {out / 'index.html'}")
    news = [result for result in results if not result.as_expected]
    for result in news:
        complain(f"claim {result.claim.number} {result.measured.verdict}, but {result.claim.expected!r} is on record")
    if news:
        raise typer.Exit(EXIT_UNEXPECTED)


def _tell(results: Sequence[Result], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 1, 0))
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("section", overflow="fold", min_width=7, max_width=9)
    for heading in ("claim", "measured", "verdict, and why"):
        table.add_column(heading, overflow="fold", ratio=1)
    for result in results:
        claim, measured = result.claim, result.measured
        style = _STYLES[measured.verdict]
        verdict = f"[{style}]{measured.verdict}[/{style}]: {measured.why}"
        table.add_row(str(claim.number), claim.section, claim.claim, measured.measured, verdict)
    console.print(table, soft_wrap=False)
    count = Counter[str](result.measured.verdict for result in results)
    counts = [f"{verdict}: {count[verdict]}" for verdict in _STYLES if count[verdict] or verdict != "open"]
    console.print(f"{len(results)} claims ({', '.join(counts)})")
