"""``plainchant doctor``: what this machine has for groups, and how fast that is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..model import UsageError, format_duration
from .console import guarded, output, plain_table

if TYPE_CHECKING:
    from rich.console import Console

    from ..live.memory.measure import Measurement, Reading
    from ..live.memory.server import Found

WIDTH: Final = 150
_WORDS: Final = {
    "write": "write a message (ds)",
    "flag": "set an availability flag (df)",
    "decide": "look, or one step of a decision (dd)",
    "read": "read a message (dr)",
    "finish": "set a decision flag, remove (dfd)",
    "wake": "lateness of a wait's end",
    "bell": "from a ring until it is heard",
}


@guarded
def doctor(
    memory: Annotated[bool, typer.Option("--memory", help="Common memory, for `mailbox` and `dedos`.")] = False,
    copies: Annotated[int, typer.Option(help="Copies of the mailbox that is measured.", min=1, max=9)] = 2,
    size: Annotated[int, typer.Option(metavar="BYTES", help="Bytes of a message.", min=1, max=1 << 24)] = 32,
    seconds: Annotated[float, typer.Option(help="How long to measure; 0: not at all.", min=0, max=3600)] = 3.0,
    clean: Annotated[bool, typer.Option("--clean", help="Remove mailboxes whose processes have all died.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Measure common memory on this machine, propose bounds for it, and look after the mailboxes in it.

    Three processes exchange messages through a mailbox; what each operation took is counted from the moment at which it was
    due, so waiting for the lock and for the processor is part of it. The bounds that are proposed are those that all but one
    in a thousand kept: measure while the machine does what it will do later.

    Examples:

      plainchant doctor --memory

      plainchant doctor --memory --copies 3 --size 65536 --seconds 10

      plainchant doctor --memory --clean --seconds 0
    """
    if not memory:
        raise UsageError("say what to look at: plainchant doctor --memory")
    from ..live.memory.server import SHARED, check_root, default_root, mailboxes
    from ..live.memory.server import clean as remove_stale

    check_root()
    root = default_root()
    removed = remove_stale() if clean else []
    there = mailboxes()
    measurement = None
    if seconds:
        from ..live.memory.measure import measure

        measurement = measure(copies=copies, size=size, seconds=seconds)
    if as_json:
        print(json.dumps(_to_json(str(root), there, removed, measurement)))
        return
    console = output()
    in_memory = SHARED in root.parents
    console.print(f"Mailboxes are in {root}" + ("." if in_memory else ", which is no memory but files: slower."), markup=False)
    for found in removed:
        console.print(f"Removed {found.register.mailbox}, whose processes had all died.", markup=False)
    _show_mailboxes(there)
    if measurement is not None:
        _show_measurement(measurement)


def _to_json(root: str, there: list[Found], removed: list[Found], measurement: Measurement | None) -> dict[str, Any]:
    from msgspec import to_builtins

    return {
        "root": root,
        "mailboxes": [_found_to_json(found) for found in there],
        "removed": [_found_to_json(found) for found in removed],
        "measurement": None if measurement is None else {**to_builtins(measurement), "proposal_ns": measurement.proposal},
    }


def _found_to_json(found: Found) -> dict[str, Any]:
    register = found.register
    return {
        "mailbox": register.mailbox,
        "namespace": register.namespace,
        "node": found.node,
        "directory": found.directory,
        "connected": [{"process": seat.process, "place": seat.place, "pid": seat.pid} for seat in register.seats],
        "alive": list(found.alive),
        "crashed_modules": list(found.crashed),
        "stale": found.is_stale,
    }


def _show_mailboxes(there: list[Found]) -> None:
    console = _wide()
    if not there:
        console.print("There are no mailboxes now.")
        return
    nodes = any(found.node for found in there)
    table = plain_table(*(("node",) if nodes else ()), "mailbox", "copies", "crashed", "connected", "")
    for found in there:
        register = found.register
        who = [f"{seat.process} ({f'pid {seat.pid}' if seat.process in found.alive else 'dead'})" for seat in register.seats]
        crashed = ", ".join(map(str, found.crashed)) or "none"
        state = "stale: --clean removes it" if found.is_stale else ""
        where = (found.node,) if nodes else ()
        table.add_row(*where, register.mailbox, str(register.layout.copies), crashed, ", ".join(who) or "nobody", state)
    console.print(table)


def _show_measurement(measurement: Measurement) -> None:
    console = _wide()
    console.print(
        f"\n{measurement.processes} processes, {measurement.copies} copies, messages of {measurement.size} bytes; microseconds "
        "from when an operation was due:\n"
    )
    table = plain_table("operation", "median", "99 %", "99.9 %", "longest", "measured", "proposed bound")
    proposal = measurement.proposal
    for name, reading in measurement.readings.items():
        bound = format_duration(proposal[name]) if name in proposal else ""
        table.add_row(_WORDS[name], *_microseconds(reading), f"{reading.count:,}", bound)
    console.print(table)
    settings = ", ".join(f'"{name}": "{format_duration(bound)}"' for name, bound in proposal.items())
    console.print(f"\nparameters = {{{settings}}}", markup=False)


def _wide() -> Console:
    """Standard output with room for the tables where no terminal says how wide it is."""
    console = output()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH)
    return console


def _microseconds(reading: Reading) -> list[str]:
    return [f"{value / 1000:.1f}" for value in (reading.median, reading.most, reading.nearly_all, reading.longest)]
