"""Commands that are imported when they are called.

Theory of operation
-------------------
A :class:`Later` stands in its group with its name and its line of help, which is all that a list of commands shows. When the
command line gets to it, it imports the command's file and lets the command itself read the rest of the arguments. So what a
command needs is loaded for that command only, and everything else (help, options, errors, exit status) is the command's own.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

import typer
from typer.core import TyperCommand
from typer.main import get_command

from ..core.plugins import missing
from .console import EXIT_WRONG_INPUT, complain

BESIDE: Final = {"plainchant_papers": "papers", "plainchant_workbench": "workbench"}
"""Packages beside the library that have commands, and their folders in a checkout."""


class Later(TyperCommand):
    """The command ``name``: the function that has the name of its module, which is ``home`` or else ``name``; or ``function``.

    ``line`` is the first paragraph of the function's docstring. ``home`` may be a module of a package beside the library
    (:data:`BESIDE`), which says how to get it where it is missing.
    """

    def __init__(self, name: str, line: str, *, home: str = "", function: str = "") -> None:
        super().__init__(name, help=line, rich_markup_mode=None)
        self.home = home or name
        self.function = function or self.home.rpartition(".")[2]

    def load(self) -> Any:
        """The command itself."""
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(self.name)(getattr(self._import(), self.function))
        return get_command(alone)

    def _import(self) -> ModuleType:
        beside = self.home.partition(".")[0]
        if beside not in BESIDE:
            try:
                return import_module(f"{__package__}.{self.home}")
            except ModuleNotFoundError as error:
                if (error.name or "").startswith("plainchant"):
                    raise
                complain(str(missing(error, f"`plainchant {self.name}` needs", "cli")))
                raise SystemExit(EXIT_WRONG_INPUT) from None
        if find_spec(beside) is None:
            package, folder = beside.replace("_", "-"), BESIDE[beside]
            complain(
                f"`plainchant {self.name}` is in the package {package}, which is not installed; in a checkout of plainchant run "
                f"`make setup`, or `pip install ./{folder}`"
            )
            raise SystemExit(EXIT_WRONG_INPUT)
        return import_module(self.home)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Where the arguments of a command are read: from here on it is the command itself."""
        return self.load().make_context(info_name, args, parent, **extra)
