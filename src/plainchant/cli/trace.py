"""``plainchant trace``: a trace for people to read, and for other tools to draw."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from typer import Argument

from ..core.model import UsageError, parse_duration
from ..lab.export import to_chrome, to_shiviz
from ..lab.show import between, lines, parse_message, select, stories_in
from ..scenario.read import nearest
from ..trace import KINDS, MalformedTrace, read, validate
from .console import guarded
from .options import option
from .output import write_new


@guarded
def trace(
    path: Annotated[str, Argument(help="The directory of a run, a Parquet file, or a glob of them.")],
    process: Annotated[str | None, option("Only this process.")] = None,
    kind: Annotated[str | None, option("Only events of this kind: send, deliver, view, suspect, ...")] = None,
    group: Annotated[str | None, option("Only this group.")] = None,
    message: Annotated[str | None, option("Only this message: GROUP/SENDER/NUMBER.")] = None,
    run: Annotated[str | None, option("Only this run.")] = None,
    limit: Annotated[int | None, option("At most so many lines.", min=1)] = None,
    export: Annotated[
        Literal["shiviz", "chrome"] | None, option("Write it for another tool: ShiViz, or Chrome tracing and Perfetto.")
    ] = None,
    out: Annotated[Path | None, option("The file to export to.")] = None,
    begin: Annotated[str | None, option("Only from this time of the run on, such as 480ms.", "--from", of="TIME")] = None,
    end: Annotated[str | None, option("Only up to this time of the run.", "--to", of="TIME")] = None,
    diagram: Annotated[Path | None, option("Draw a space-time diagram into this SVG file instead.")] = None,
    messages: Annotated[
        int | None, option("With --diagram: at most so many messages are drawn.", min=0, show_default="20")
    ] = None,
    nulls: Annotated[bool, option("With --diagram: draw null messages too.", "--nulls")] = False,
    timing: Annotated[
        Path | None, option("Draw a timing diagram of operations on common memory into this SVG file instead.")
    ] = None,
) -> None:
    """Print a trace readably, export it, or draw it.

    Examples:

      plainchant trace DIR --kind view
      plainchant trace DIR --process p3 --limit 50
      plainchant trace DIR --message g/p1/7
      plainchant trace DIR --export chrome --out run.json
      plainchant trace DIR --diagram run.svg --from 480ms --to 800ms
      plainchant trace DIR --timing send.svg --message g/p1/7
    """
    if (export is None) != (out is None):
        raise UsageError("--export and --out go together: plainchant trace DIR --export chrome --out run.json")
    if diagram is not None and any(value is not None for value in (process, kind, message, limit, export)):
        raise UsageError("--diagram goes with --run, --group, --from, --to, --messages and --nulls only; leave the others out")
    if timing is not None and any(value is not None for value in (kind, limit, export, diagram)):
        raise UsageError("--timing goes with --run, --group, --process, --message, --from and --to only; leave the others out")
    if diagram is None and (nulls or messages is not None):
        raise UsageError("--messages and --nulls go with --diagram: plainchant trace DIR --diagram run.svg --nulls")
    names = parse_message(message) if message is not None else {}
    first, last = (None if text is None else parse_duration(text) for text in (begin, end))
    found = read(path)
    malformed = validate(found.table, found.files)
    if malformed:
        raise MalformedTrace(malformed)
    table = found.table
    _refuse_unknown(table, {"process": process, "kind": kind, "group": group, "run": run})
    if message is not None:
        _refuse_unknown_message(table, message, **names)
    shown = select(table, {"run": run}) if run is not None else table
    if diagram is not None:
        from ..lab.draw.diagram import diagram as draw
        from ..lab.draw.rows import MESSAGES

        most = MESSAGES if messages is None else messages
        write_new(diagram, draw(shown, group=group, first=first, last=last, messages=most, nulls=nulls), "--diagram")
        return print(f"drawn in {diagram}")
    if timing is not None:
        from ..lab.draw.timing import timing_diagram

        about = (names["group"], names["sender"], names["seq"]) if names else None
        drawn = timing_diagram(shown, group=group, process=process, message=about, first=first, last=last)
        write_new(timing, drawn, "--timing")
        return print(f"drawn in {timing}")
    if export is not None and out is not None:
        wanted: dict[str, Any] = {"process": process, "kind": kind, "group": group, "run": run, **names}
        chosen = select(between(table, first, last), {name: value for name, value in wanted.items() if value is not None})
        write_new(out, to_shiviz(chosen, stories_in(table)) if export == "shiviz" else to_chrome(chosen), "--out")
        return print(f"{chosen.num_rows} events written to {out}")
    listing = lines(table, process=process, kind=kind, group=group, message=message, run=run, first=first, last=last)
    for line in islice(listing, limit):
        print(line)


def _refuse_unknown(table: pa.Table, wanted: dict[str, str | None]) -> None:
    """A name that does not occur is a slip of the pen: an empty listing would hide it. A known kind may not occur."""
    for column, value in wanted.items():
        if value is None:
            continue
        known = sorted(str(one) for one in table.column(column).unique().to_pylist() if one is not None)
        if value not in known and not (column == "kind" and value in KINDS):
            raise UsageError(f'there is no {column} "{value}" in this trace; {nearest(value, known)}')


def _refuse_unknown_message(table: pa.Table, message: str, *, group: str, sender: str, seq: int) -> None:
    known = select(table, {"group": group, "sender": sender}).column("seq")
    if seq not in set(known.to_pylist()):
        last = pc.max(known).as_py()
        hint = f"{sender} has none in {group}" if last is None else f"the last of {sender} is {group}/{sender}/{last}"
        raise UsageError(f"there is no message {message} in this trace; {hint}")
