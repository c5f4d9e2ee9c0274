"""The command line: one file a command. May import everything; nothing imports it. Start with ``run``.

``console`` has what the commands share (where text goes, how errors end), ``output`` makes result directories that are
whole or not there at all.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Annotated, NoReturn

import typer

from .. import __version__
from .bench import bench
from .bench_live import bench_live
from .bench_sweep import bench_sweep
from .bench_verify import bench_verify
from .collect import collect
from .console import EXIT_INTERRUPTED, complain
from .demo import demo
from .explain import explain
from .import_ import import_
from .live import live
from .metrics import metrics
from .node import node
from .protocols import protocols
from .report import report
from .reproduce import reproduce
from .run import run
from .sweep import sweep
from .trace import trace
from .verify import verify

app = typer.Typer(
    name="plainchant",
    help="Reliable, ordered group communication, and the laboratory that proves it.\n\n"
    "First steps:\n\n  plainchant demo\n\n  plainchant run first-steps\n\n  plainchant protocols",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (demo, run, live, sweep, verify, metrics, report, trace, collect, explain, reproduce, protocols, node):
    app.command()(command)
app.command(name="import")(import_)
bench.command("verify")(bench_verify)
bench.command("sweep")(bench_sweep)
bench.command("live")(bench_live)
app.add_typer(bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"plainchant {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that come before the command."""


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
        with _terminated_like_interrupted():
            app(args=None if arguments is None else list(arguments), prog_name="plainchant")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        complain("interrupted; nothing was kept")
        return EXIT_INTERRUPTED
    return 0
