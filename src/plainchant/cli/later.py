"""Commands that are imported when they are called.

A :class:`Later` stands in its group with its name and its line of help, which is all that a list of commands shows. When the
command line gets to it, it imports the command's file and lets the command itself read the rest of the arguments: help, options,
errors and exit status are the command's own, and what it needs is loaded for it only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

import typer
from typer.core import TyperCommand
from typer.main import get_command

from ..core.plugins import missing
from ..core.shipped import with_pages
from .console import EXIT_WRONG_INPUT, complain

BESIDE: Final = {"plainchant_papers": "papers", "plainchant_workbench": "workbench"}
"""Packages beside the library that have commands, and their folders in a checkout."""


class Later(TyperCommand):
    """The command ``name``: the function that has the name of its module, which is ``home`` or else ``name``; or ``function``.

    ``line`` is the first paragraph of the function's docstring. ``home`` may be a module of a package beside the library
    (:data:`BESIDE`), which says how to get it where it is missing.
    """

    def __init__(self, name: str, line: str, *, home: str = "", function: str = "") -> None:
        super().__init__(name, help=line, short_help=line, rich_markup_mode=None)
        self.home = home or name
        self.function = function or self.home.rpartition(".")[2]

    def load(self) -> Any:
        """The command itself."""
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(self.name)(getattr(self._import(), self.function))
        command = get_command(alone)
        command.help = _as_written(_with_places(_apart(command.help or "")))
        for parameter in command.params:
            setattr(parameter, "get_help_record", _readable(parameter.get_help_record))  # noqa: B010 - mypy forbids assignment
        return command

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


def _apart(text: str) -> str:
    """A command's help, with a blank line between its examples, which end it."""
    head, title, examples = text.partition("\n\nExamples:\n\n")
    return head + title + "\n\n".join(line for line in examples.split("\n") if line)


def _with_places(text: str) -> str:
    """A command's help, and at its end where the pages are that it cites."""
    pages = dict.fromkeys(re.findall(r"\bdocs/[a-z-]+\.md\b", text))
    return "\n\n".join([text, "Pages:", *(f"  {with_pages(page)}" for page in pages)]) if pages else text


def _as_written(text: str) -> str:
    r"""A command's help, in which indented paragraphs (commands, files) are printed line by line instead of being wrapped.

    >>> _as_written("Wrapped.\n\n  as it\n  is")
    'Wrapped.\n\n\x08\n  as it\n  is'
    """
    return "\n\n".join(f"\b\n{each}" if each.startswith("  ") else each for each in re.split(r"\n{2,}", text))


def _readable(record: Callable[[Any], tuple[str, str] | None]) -> Callable[[Any], tuple[str, str] | None]:
    """A parameter's line of help, without Python's types: ``<path>`` instead of ``<list[Path]>``; dots say that it repeats."""

    def shown(context: Any) -> tuple[str, str] | None:
        found = record(context)
        return None if found is None else (re.sub(r"<list\[(\w+)\]>", lambda kind: f"<{kind[1].lower()}>", found[0]), found[1])

    return shown
