"""What all commands share: where text goes, and how errors end a command.

Results go to standard output, everything else (errors, progress) to standard error. A mistake of the user's is one
sentence and exit status 2, Ctrl-C (or SIGTERM) one sentence and 130; whatever we did not foresee keeps its traceback.
rich is imported by those who print with it: a live member does not.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from typer import Exit

from ..core.model import PlainchantError, ProtocolError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import ProgressColumn
    from rich.table import Table

P = ParamSpec("P")
R = TypeVar("R")
EXIT_UNEXPECTED: Final = 1
EXIT_WRONG_INPUT: Final = 2
EXIT_INTERRUPTED: Final = 130


def output() -> Console:
    """Standard output. Made anew each time, so that whoever redirects it gets it."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def terminal() -> Console | None:
    """Standard error, for progress displays; None if it is no terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    return console if sys.stderr.isatty() and console.is_terminal else None


@contextlib.contextmanager
def moving_line(first: str = "starting") -> Iterator[Callable[[str], None]]:
    """A status line, on a terminal only."""
    console = terminal()
    if console is None:
        yield lambda text: None
        return
    with console.status(first) as status:
        yield status.update


@contextlib.contextmanager
def moving_bar(*columns: str | ProgressColumn) -> Iterator[Callable[..., None]]:
    """A progress bar, on a terminal only; what it yields takes the arguments of ``Progress.update``."""
    from rich.progress import Progress

    console = terminal()
    if console is None:
        yield lambda **changes: None
        return
    with Progress(*columns, console=console, transient=True) as bar:
        yield functools.partial(bar.update, bar.add_task("", total=None))


def print_some(console: Console, lines: Sequence[str], most: int) -> None:
    """The first lines; the others are counted."""
    for line in lines[:most]:
        console.print(line, markup=False)
    if len(lines) > most:
        console.print(f"and {len(lines) - most:,} more")


def complain(sentence: str) -> None:
    """One sentence on standard error, as it is: no colours, no wrapping, so that it can be searched for."""
    print(f"plainchant: {sentence}", file=sys.stderr)


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turns the errors that people make into a sentence and an exit status."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except ProtocolError:
            raise  # a defect of ours, not of the user's: its traceback is what we need
        except PlainchantError as error:
            complain(str(error))
            raise Exit(EXIT_WRONG_INPUT) from None
        except KeyboardInterrupt:
            complain("interrupted; nothing was kept")
            raise Exit(EXIT_INTERRUPTED) from None

    return run


def plain_table(*headings: str) -> Table:
    """A table without lines, which also reads well in a log file."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(headings))
    for number, heading in enumerate(headings):
        table.add_column(heading, no_wrap=number < len(headings) - 1, overflow="fold")
    return table
