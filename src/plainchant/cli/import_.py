"""``plainchant import``: a plain log of any system as a trace."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn
from typer import Argument

from ..trace import MalformedTrace, TraceWriter, read, validate
from ..trace.importing import Imported, import_logs
from ..trace.importing_mapping import Mapping, load_mapping
from .console import complain, guarded, moving_bar, output, plain_table
from .options import option
from .output import OutputError, remedy, staged

_VALIDATE_UP_TO: Final = 200_000
"""So many events are checked once more after they were written; of more, ``plainchant verify`` does it."""
_ONE_FILE: Final = 1 << 62


@guarded
def import_(
    logs: Annotated[list[Path], Argument(help="The log; several files if each process has its own.")],
    mapping: Annotated[Path, option("What the lines of the log mean.", "--map", of="MAPPING.toml")],
    out: Annotated[Path, option("The trace: a new file.parquet, or a new directory.")],
) -> None:
    """Convert a plain log into a trace, which can then be verified, measured, listed and explained.

    A mapping file says by regular expressions what the lines mean. For lines such as "p3 deliver g1 p1 42" one pattern is enough:

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
    with _one_file(out) if out.suffix == ".parquet" else staged(out) as directory:
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
    # Each line is read twice, and how many there are is not known before.
    columns = (TextColumn("lines read, in two passes"), MofNCompleteColumn(), TimeElapsedColumn())
    with moving_bar(*columns) as bar, TraceWriter(directory, file_bytes=_ONE_FILE) as trace:
        imported = import_logs(logs, mapping, trace, progress=lambda lines: bar(completed=lines))
    if sum(imported.events.values()) <= _VALIDATE_UP_TO and (malformed := validate(read(directory).table)):
        raise MalformedTrace(malformed)
    return imported


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
