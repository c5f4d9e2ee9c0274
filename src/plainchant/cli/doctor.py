"""``plainchant doctor``: whether this machine has what groups need, what to change, and how fast its memory is."""

from __future__ import annotations

import contextlib
import json
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Exit

from .. import __version__
from ..core.model import UsageError, format_duration
from .console import EXIT_UNEXPECTED, guarded, output, plain_table
from .options import JsonOption, option

if TYPE_CHECKING:
    from rich.console import Console

    from ..doctor.finding import Finding, Subject
    from ..doctor.memory import Measurement
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
_STYLES: Final = {"ok": "green", "warning": "yellow", "problem": "bold red"}


@guarded
def doctor(
    config: Annotated[Path | None, option("A node's configuration: look at its addresses, too.", "--config", of="FILE")] = None,
    me: Annotated[str | None, option("Which of its peers is to run here.", of="NAME")] = None,
    spool: Annotated[Path | None, option("Where spools are to go; else as the configuration says.", of="DIR")] = None,
    spark: Annotated[bool, option("Start Spark, too, which takes some seconds.", "--spark")] = False,
    memory: Annotated[bool, option("Measure common memory instead, for `mailbox` and `dedos`.", "--memory")] = False,
    copies: Annotated[int, option("With --memory: copies of the mailbox.", min=1, max=9)] = 2,
    size: Annotated[int, option("With --memory: bytes of a message.", of="BYTES", min=1, max=1 << 24)] = 32,
    seconds: Annotated[float, option("With --memory: how long to measure; 0: not at all.", min=0, max=3600)] = 3.0,
    clean: Annotated[bool, option("With --memory: remove mailboxes whose processes have all died.", "--clean")] = False,
    as_json: JsonOption = False,
) -> None:
    """Look whether this machine has what groups and the laboratory need, and say what to change.

    Python and its packages, Java, sockets, multicast (really sent and received), buffers, sizes of packets, clocks, shared
    memory, open files, room on disk and processors. It takes a second or two and changes nothing. The exit status is 1 if there
    is a problem, else 0; a warning is something that works, but not as well as it could.

    With --memory it measures common memory and proposes bounds for it. Three processes exchange messages through a mailbox; what
    each operation took is counted from the moment at which it was due, so waiting for the lock and for the processor is part of
    it. The bounds that are proposed are those that all but one in a thousand kept: measure while the machine does what it will
    do later.

    Examples:

      plainchant doctor
      plainchant doctor --config bank.toml --me a
      plainchant doctor --spark --json
      plainchant doctor --memory --copies 3 --size 65536 --seconds 10
      plainchant doctor --memory --clean --seconds 0
    """
    if memory:
        if config is not None or me is not None or spool is not None or spark:
            raise UsageError("--memory measures memory and nothing else; leave --config, --me, --spool and --spark out")
        return _memory(copies, size, seconds, clean, as_json)
    if clean:
        raise UsageError("mailboxes are removed by plainchant doctor --memory --clean")
    findings = _examine(_subject(config, me, spool, spark), quiet=as_json)
    counts = {f"{level}s": sum(finding.level == level for finding in findings) for level in ("problem", "warning")}
    if as_json:
        found = [finding.to_json() for finding in findings]
        print(json.dumps({"plainchant": __version__, "command": "doctor", "findings": found, **counts}))
    else:
        _show_findings(findings)
        _wide().print(f"\n{_counted(counts['problems'], 'problem')}, {_counted(counts['warnings'], 'warning')}")
    if counts["problems"]:
        raise Exit(EXIT_UNEXPECTED)


def _subject(config: Path | None, me: str | None, spool: Path | None, spark: bool) -> Subject:
    """What is looked at. A configuration that serves all members need not say which one is meant."""
    from ..doctor.finding import Subject

    if config is None:
        if me is not None:
            raise UsageError("--me is one of the peers of a configuration; name it with --config")
        return Subject(spool=spool or Path("."), spark=spark)
    from ..live.config import load_config

    overrides = [f"me={me}"] if me is not None else []
    known = me or ""
    if me is None:
        with contextlib.suppress(OSError, ValueError):  # loading says what is wrong, with its line
            document = tomllib.loads(config.read_text())
            known = document.get("me", "")
            if not known and isinstance(document.get("peers"), dict):
                overrides = [f"me={next(iter(document['peers']), '')}"]
    loaded = load_config(config, overrides)
    return Subject(loaded, known, spool or Path(loaded.trace or "."), spark)


def _examine(subject: Subject, *, quiet: bool) -> list[Finding]:
    """All findings; who watches sees which check is at work when one takes long."""
    from ..doctor.examination import examine
    from ..doctor.machine import Machine

    def show(text: str) -> None:
        if not quiet and sys.stderr.isatty():
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    slow = {"spark": "starting Spark, which takes some seconds"} if subject.spark else {}
    findings = list(examine(Machine(), subject, lambda check: show(f"looking at {slow.get(check, check)} ...")))
    show("")
    return findings


def _show_findings(findings: list[Finding]) -> None:
    from rich.text import Text

    table = plain_table("", "", "")
    for finding in findings:
        table.add_row(Text(finding.level, style=_STYLES[finding.level]), finding.check, Text(finding.text))
        if finding.change:
            table.add_row("", "", Text(f"-> {finding.change}", style="bold"))
    _wide().print(table)


def _counted(number: int, word: str) -> str:
    """How many there are.

    >>> _counted(0, "problem"), _counted(1, "problem"), _counted(2, "problem")
    ('no problem', '1 problem', '2 problems')
    """
    return f"{number or 'no'} {word}{'s' if number > 1 else ''}"


def _memory(copies: int, size: int, seconds: float, clean: bool, as_json: bool) -> None:
    """Measures common memory, and looks after the mailboxes in it."""
    from ..live.memory.server import SHARED, check_root, default_root, mailboxes
    from ..live.memory.server import clean as remove_stale

    check_root()
    root = default_root()
    removed = remove_stale() if clean else []
    there = mailboxes()
    measurement = None
    if seconds:
        from ..doctor.memory import measure

        measurement = measure(copies=copies, size=size, seconds=seconds)
    if as_json:
        return print(json.dumps(_to_json(str(root), there, removed, measurement)))
    console = output()
    slower = "" if SHARED in root.parents else ", which is no memory but files: slower"
    console.print(f"Mailboxes are in {root}{slower}.", markup=False)
    for found in removed:
        console.print(f"Removed {found.register.mailbox}, whose processes had all died.", markup=False)
    _show_mailboxes(there)
    if measurement is not None:
        _show_measurement(measurement)


def _to_json(root: str, there: list[Found], removed: list[Found], measurement: Measurement | None) -> dict[str, Any]:
    from msgspec import to_builtins

    measured = None if measurement is None else {**to_builtins(measurement), "proposal_ns": measurement.proposal}
    boxes = {"mailboxes": [*map(_found_to_json, there)], "removed": [*map(_found_to_json, removed)]}
    return {"root": root, **boxes, "measurement": measured}


def _found_to_json(found: Found) -> dict[str, Any]:
    register = found.register
    seats = [{"process": seat.process, "place": seat.place, "pid": seat.pid} for seat in register.seats]
    where = {"mailbox": register.mailbox, "namespace": register.namespace, "node": found.node, "directory": found.directory}
    state = {"alive": list(found.alive), "crashed_modules": list(found.crashed), "stale": found.is_stale}
    return {**where, "connected": seats, **state}


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
        times = (reading.median, reading.most, reading.nearly_all, reading.longest)
        table.add_row(_WORDS[name], *(f"{time / 1000:.1f}" for time in times), f"{reading.count:,}", bound)
    console.print(table)
    settings = ", ".join(f'"{name}": "{format_duration(bound)}"' for name, bound in proposal.items())
    console.print(f"\nparameters = {{{settings}}}", markup=False)


def _wide() -> Console:
    """Standard output with room for the tables where no terminal says how wide it is."""
    console = output()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH)
    return console
