"""Commands that are imported when they are called.

Theory of operation
-------------------
A :class:`Later` stands in its group with its name and its line of help, which is all that a list of commands shows. When the
command line gets to it, it imports the command's file and lets the command itself read the rest of the arguments. So what a
command needs is loaded for that command only, and everything else (help, options, errors, exit status) is the command's own.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command


class Later(TyperCommand):
    """The command ``name``: the function that has the name of its module, which is ``home`` or else ``name``; or ``function``.

    ``line`` is the first paragraph of the function's docstring.
    """

    def __init__(self, name: str, line: str, *, home: str = "", function: str = "") -> None:
        super().__init__(name, help=line, rich_markup_mode=None)
        self.home = home or name
        self.function = function or self.home

    def load(self) -> Any:
        """The command itself."""
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(self.name)(getattr(import_module(f"{__package__}.{self.home}"), self.function))
        return get_command(alone)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Where the arguments of a command are read: from here on it is the command itself."""
        return self.load().make_context(info_name, args, parent, **extra)
