"""``plainchant import``: a plain log of any system as a trace."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..trace import MalformedTrace, TraceWriter, read, validate
from ..trace.importing import Imported, import_logs
from ..trace.importing_mapping import Mapping, load_mapping
from .console import complain, guarded, output, plain_table
from .output import OutputError, remedy, staged

_VALIDATE_UP_TO: Final = 200_000
"""So many events are checked once more after they were written; of more, ``plainchant verify`` does it."""

_ONE_FILE: Final = 1 << 62


@guarded
def import_(
    logs: Annotated[list[Path], typer.Argument(help="The log; several files if each process has its own.", show_default=False)],
    mapping: Annotated[
        Path, typer.Option("--map", metavar="MAPPING.toml", help="What the lines of the log mean.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="The trace: a new file.parquet, or a new directory.", show_default=False)],
) -> None:
    """Convert a plain log into a trace, which can then be verified, measured, listed and explained.

    A mapping file says by regular expressions what the lines mean. For lines such as "p3 deliver g1 p1 42" one pattern
    is enough:

      [[line]]

      match = '(?P<process>\\S+) (?P<kind>\\S+) (?P<group>\\S+) (?P<sender>\\S+) (?P<id>\\S+)'

    Messages and views may have any names; they are numbered as a trace wants it. A line that the mapping neither
    describes nor ignores is an error, because it may be the one that matters. docs/import.md has it all.

    Examples:

      plainchant import system.log --map system.toml --out system.parquet

      plainchant import node-1.log node-2.log node-3.log --map nodes.toml --out nodes

      plainchant verify system.parquet
    """
    described = load_mapping(mapping)
    if out.suffix == ".parquet":
        with _one_file(out) as directory:
            imported = _convert(logs, described, directory)
    else:
        with staged(out) as directory:
            imported = _convert(logs, described, directory)
    _tell(imported, out)


@contextlib.contextmanager
def _one_file(target: Path) -> Iterator[Path]:
    """A directory to write one part into, which then becomes the file that was asked for, or nothing."""
    if target.exists():
        raise OutputError(f"{target} exists; name another file with --out, or remove it first")
    hidden = target.with_name(f".{target.name}.partial-{os.getpid()}")
    made = [parent for parent in target.absolute().parents if not parent.exists()]
    try:
        hidden.mkdir(parents=True)
        yield hidden
        (hidden / "trace" / "part-00000.parquet").rename(target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror}; {remedy(error, 'place')}") from error
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
        for parent in made:
            with contextlib.suppress(OSError):
                parent.rmdir()  # only what we made, and only if nothing is in it: the trace is, if all went well


def _convert(logs: list[Path], mapping: Mapping, directory: Path) -> Imported:
    with _progress() as progress, TraceWriter(directory, file_bytes=_ONE_FILE) as trace:
        imported = import_logs(logs, mapping, trace, progress=progress)
    if sum(imported.events.values()) <= _VALIDATE_UP_TO:
        found = read(directory)
        malformed = validate(found.table)
        if malformed:
            raise MalformedTrace(malformed)
    return imported


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Lines read so far, on a terminal only. (Each line is read twice: how many there are is not known before.)"""
    if not sys.stderr.isatty():
        yield lambda lines: None
        return
    columns = (TextColumn("lines read, in two passes"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("import", total=None)
        yield lambda lines: bar.update(task, completed=lines)


def _tell(imported: Imported, out: Path) -> None:
    for warning in imported.warnings:
        complain(f"warning: {warning}")
    table = plain_table("", "")
    table.add_row("lines", f"{imported.lines:,} read, {imported.ignored:,} ignored")
    table.add_row("events", ", ".join(f"{count:,} {kind}" for kind, count in imported.events.items()))
    table.add_row("processes", _some(imported.processes))
    if len(imported.runs) > 1:
        table.add_row("runs", _some(imported.runs))
    console = output()
    console.print(table)
    console.print(f"\nWritten to {out}. Check it with: plainchant verify {out}", markup=False)


def _some(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12:,} more" if len(names) > 12 else "")
