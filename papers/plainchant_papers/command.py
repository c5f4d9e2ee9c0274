"""``plainchant reproduce``: re-runs a document's experiments and says which of its claims hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from plainchant.cli.console import EXIT_UNEXPECTED, complain, guarded, moving_line, output
from plainchant.cli.output import refuse_occupied, staged
from plainchant.cli.spark import ConfOption, MasterOption, RemoteOption, UiOption, spark_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .claims import Claim, Result

_STYLES = {"holds": "green", "holds with a remark": "yellow", "does not hold": "red", "open": "dim"}


@guarded
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="What to reproduce: the name of its protocol; everything if left out.", show_default=False),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sweeps: a first look.")] = False,
    claims: Annotated[
        list[int] | None, typer.Option("--claim", metavar="N", help="Only this claim, by its number; repeat as needed.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="New directory for a page with figures, and the data as CSV.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
    conf: ConfOption = None,
    ui: UiOption = False,
) -> None:
    """Re-run a document's experiments: what it claims, what was measured, and whether that holds.

    Without a name, those of all documents, on one page and in one table.

    Every claim is measured by simulations, which run as Spark tasks, and judged by a stated rule: "holds", "holds with a
    remark" or "does not hold", and why; or "open", if what it is about is not built yet. The exit status is 0 if all verdicts
    are those on record in docs/reproduce.md (also where a claim does not hold: that is a result), 1 if one is not, 2 if the
    input was wrong.

    Examples:

      plainchant reproduce --quick --out claims

      plainchant reproduce sequencer --quick

      plainchant reproduce sequencer --claim 8 --claim 13 --out figures

      plainchant reproduce newtop --json > claims.json
    """
    from . import claims_of, claims_of_all
    from .page import check_drawing, write

    chosen = {name: claims_of(name, claims or ())} if name is not None else claims_of_all(claims or ())
    if out is not None:
        refuse_occupied(out)
        check_drawing()
    with spark_for(master, remote, conf=conf, ui=ui, quick=quick) as spark, moving_line() as tell:
        documents = _measure(chosen, spark, quick, tell)
    if out is not None:
        with staged(out) as directory:
            write(directory, documents, quick=quick)
    results = [result for found in documents.values() for result in found]
    if as_json:
        print(json.dumps({"claims": [result.to_json() for result in results]}, indent=2, ensure_ascii=False))
    else:
        _tell(documents, output())
        if out is not None:
            print(f"\nWritten to {out}: open {out / 'index.html'}")
    news = [result for result in results if not result.as_expected]
    for result in news:
        complain(f"claim {result.claim.number} {result.measured.verdict}, but {result.claim.expected!r} is on record")
    if news:
        raise typer.Exit(EXIT_UNEXPECTED)


def _measure(
    chosen: Mapping[str, Sequence[Claim]], spark: SparkSession, quick: bool, tell: Callable[[str], None]
) -> dict[str, list[Result]]:
    """Document by document; what claims of one look at together is forgotten after it."""
    from .claims import Context, measure

    numbers = [claim.number for claims in chosen.values() for claim in claims]
    documents = {}
    for name, claims in chosen.items():

        def begin(claim: Claim, name: str = name) -> None:
            tell(f"{name}, claim {claim.number} ({numbers.index(claim.number) + 1} of {len(numbers)}): {claim.claim}")

        documents[name] = measure(claims, Context(spark, quick=quick), begin)
    return documents


def _tell(documents: Mapping[str, Sequence[Result]], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 1, 0))
    table.add_column("", justify="right", no_wrap=True)
    if len(documents) > 1:
        table.add_column("document", no_wrap=True)
    table.add_column("section", overflow="fold", min_width=7, max_width=9)
    for heading in ("claim", "measured", "verdict, and why"):
        table.add_column(heading, overflow="fold", ratio=1)
    for name, found in documents.items():
        for result in found:
            claim, measured = result.claim, result.measured
            style = _STYLES[measured.verdict]
            verdict = f"[{style}]{measured.verdict}[/{style}]: {measured.why}"
            place = (name, claim.section) if len(documents) > 1 else (claim.section,)
            table.add_row(str(claim.number), *place, claim.claim, measured.measured, verdict)
    console.print(table, soft_wrap=False)
    results = [result for found in documents.values() for result in found]
    count = Counter[str](result.measured.verdict for result in results)
    counts = [f"{verdict}: {count[verdict]}" for verdict in _STYLES if count[verdict] or verdict != "open"]
    console.print(f"{len(results)} claims ({', '.join(counts)})")
