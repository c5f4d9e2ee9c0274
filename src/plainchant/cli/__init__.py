"""The command line: one file a command. May import everything; nothing imports it. Start with ``run``.

A command's file is imported when the command is called (:class:`.later.Later`): who runs a member does not wait for Arrow.
``console`` has what the commands share (where text goes, how errors end), ``output`` makes result directories that are
whole or not there at all.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_group

from .. import __version__
from .console import EXIT_INTERRUPTED, EXIT_WRONG_INPUT, complain
from .later import Later
from .output import unwritten

_WORKBENCH: Final = "plainchant_workbench.commands"
_COMMANDS: Final = {
    "demo": "Show a group that survives loss and a crash, and the laboratory that proves it.",
    "run": "Run a scenario in the simulator and verify what it did.",
    "live": "Run a scenario with real processes on this machine and verify what they did.",
    "chaos": "Put real members of every live protocol into trouble and look whether everything still holds.",
    "sweep": "Run a scenario with many seeds and settings, and verify every run.",
    "verify": "Verify traces of any size: did every run keep what it promised?",
    "metrics": "Measure runs: throughput, latency, packets, retransmissions, flow control, views, failure detection, fairness.",
    "watch": "Show a group in the browser while it works: who is there, views and why, rates, latencies, messages, and "
    "a verdict.",
    "report": "Write a report: one HTML file that opens in any browser, without network.",
    "trace": "Print a trace readably, export it, or draw it.",
    "collect": "Convert what live processes have recorded (spools) into a trace, which can then be verified, measured and "
    "explained.",
    "explain": "Explain a message, a view, the end of a process or a standstill, step by step, with reasons.",
    "explore": "Try every run of a small case that the bounds allow: every crash, every order, shortest and longest operations.",
    "reproduce": "Re-run a document's experiments: what it claims, what was measured, and whether that holds.",
    "schedule": "Say whether messages meet their deadlines on an rtcast ring, node by node, before anything runs.",
    "protocols": "List protocols, or show what one promises.",
    "doctor": "Look whether this machine has what groups and the laboratory need, and say what to change.",
    "node": "Be a member of a group: lines from standard input are sent to it, what it delivers comes out.",
    "import": "Convert a plain log into a trace, which can then be verified, measured, listed and explained.",
}
"""Commands, each with the first paragraph of its help."""
_HOMES: Final = {
    "demo": f"{_WORKBENCH}.demo",
    "chaos": f"{_WORKBENCH}.chaos",
    "reproduce": "plainchant_papers.command",
    "import": "import_",
}
COMMANDS: Final = tuple(
    Later(name, line, home=_HOMES.get(name, name), function="reproduce" if name == "reproduce" else "")
    for name, line in _COMMANDS.items()
)
_KEYS: Final = {
    "new": "Make a key file with one new key.",
    "show": "Show which keys a file has, without the keys themselves.",
    "add": "Add a key that opens and does not seal yet: a new one, or those of another file.",
    "use": "Seal with another key of the file from now on.",
    "drop": "Take a key out of the file: what is sealed with it is not opened any more.",
}
KEYS: Final = tuple(Later(name, line, home="key", function=name) for name, line in _KEYS.items())
_BENCHMARKS: Final = {
    "sim": "Measure the simulator beside SimPy.",
    "groups": "Measure many overlapping groups in the simulator (newtop).",
    "verify": "Measure verification beside DuckDB.",
    "metrics": "Measure the metrics of large traces beside DuckDB.",
    "sweep": "Measure sweeps beside a plain pool of processes.",
    "live": "Measure live groups beside raw UDP and other systems.",
    "nodes": "Measure two nodes of four processes (dedos) beside a flat group over UDP.",
    "stops": "Stop a live member for a while and measure what that does to the others.",
}
BENCHMARKS: Final = tuple(
    Later(name, line, home=f"{_WORKBENCH}.bench_{name}", function="bench" if name == "sim" else "")
    for name, line in _BENCHMARKS.items()
)
_BENCH: Final = "Measure speed beside a peer, in one run: the simulator, verification, sweeps."
_KEY: Final = (
    "Make and change the key that a group's packets are sealed with.\n\n"
    "Change it while the group runs, each step at every member before the next:\n\n"
    "  plainchant key add bank.key\n\n  plainchant key use bank.key ID\n\n  plainchant key drop bank.key OLD-ID\n\n"
    "After each, copy the file to all members; they notice within a second or two."
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"plainchant {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that come before the command."""


def _make_app() -> TyperGroup:
    top = typer.Typer(
        name="plainchant",
        help="Reliable, ordered group communication, and the laboratory that proves it.\n\n"
        "First steps:\n\n  plainchant demo\n\n  plainchant run first-steps\n\n  plainchant protocols",
        callback=_options,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )
    app = get_group(top)
    for command in (*COMMANDS, _group("key", _KEY, KEYS), _group("bench", _BENCH, BENCHMARKS)):
        app.add_command(command)
    return app


def _group(name: str, text: str, commands: Sequence[Later]) -> TyperGroup:
    first = text.partition("\n")[0]
    return TyperGroup(name=name, help=text, short_help=first, commands=commands, no_args_is_help=True, rich_markup_mode=None)


app: Final = _make_app()


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does, so that whoever is told to stop also cleans up. Only a main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status."""
    try:
        status = _status(arguments)
        sys.stdout.flush()
    except OSError as error:
        if (sentence := unwritten(error)) is None:
            raise
        complain(sentence)
        _leave_output()
        return EXIT_WRONG_INPUT
    return status


def _leave_output() -> None:
    """Nothing more goes to a standard output that takes nothing: Python would try once more when it ends."""
    own = sys.__stdout__
    if own is not None and sys.stdout is own:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), own.fileno())


def _status(arguments: Sequence[str] | None) -> int:
    try:
        with _terminated_like_interrupted():
            app(args=None if arguments is None else list(arguments), prog_name="plainchant")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        complain("interrupted; nothing was kept")
        return EXIT_INTERRUPTED
    return 0
