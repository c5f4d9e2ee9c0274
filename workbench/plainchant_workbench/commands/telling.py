"""What the benchmark commands print in the same way: progress, wide tables, figures, ratios and failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.console import Console

from plainchant.cli.console import EXIT_UNEXPECTED, complain, output


def progress(what: str, quiet: bool) -> None:
    if not quiet:
        typer.echo(f"measuring: {what}", err=True)


def wide_output(width: int) -> Console:
    """Standard output, at least this wide where no terminal says how wide it is."""
    console = output()
    if not console.is_terminal:
        console.width = max(console.width, width)
    return console


def figure(value: float | None) -> str:
    """A number for a table; empty if there is none.

    >>> figure(12345.6), figure(1.5), figure(7), figure(None)
    ('12,346', '1.50', '7', '')
    """
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or isinstance(value, int) else f"{value:,.2f}"


def spread(ratios: Mapping[str, float] | None) -> str:
    """The median of ratios, and their range."""
    if ratios is None:
        return ""
    return f"{ratios['median']:,.2f} ({ratios['least']:,.2f} to {ratios['largest']:,.2f})"


def fail_on_errors(rows: Sequence[Mapping[str, Any]], what: str) -> None:
    """Ends the command if a row has an error."""
    wrong = [row["error"] for row in rows if row["error"] is not None]
    if wrong:
        complain(f"{len(wrong)} of {len(rows)} {what} failed, the first with: {wrong[0]}")
        raise typer.Exit(EXIT_UNEXPECTED)
