"""Where a key stands in a TOML text, so that an error can name the line.

``tomllib`` reads values and forgets where they were. This module walks the same text a second time and only keeps
positions: ``lines(text)["fault", 0, "at"]`` is the line of that key. It runs after ``tomllib`` has accepted the text
(or on the key of a ``--set`` option), so it may trust the syntax; it never looks at what a value means.
"""

from __future__ import annotations

import tomllib
from typing import Final, TypeAlias

Path: TypeAlias = tuple[str | int, ...]  # the way to a value: keys of tables and numbers of array elements

_SPACE: Final = " \t\r\n"


def lines(text: str) -> dict[Path, int]:
    """The line (from 1) of every table header, key and array element.

    >>> lines('seed = 1\\n[network]\\nloss = 0.1')
    {('seed',): 1, ('network',): 2, ('network', 'loss'): 3}
    """
    return _Walk(text).document()


def split_key(text: str) -> tuple[str, ...]:
    """The parts of a dotted key: ``'groups."a.b"'`` is ``('groups', 'a.b')``.

    >>> split_key("network.loss")
    ('network', 'loss')
    """
    parts: list[str] = []
    value: object = tomllib.loads(f"{text} = 0")
    while isinstance(value, dict):
        key, value = next(iter(value.items()))
        parts.append(key)
    return tuple(parts)


class _Walk:
    """One pass over a text that is known to be TOML."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Path, int] = {}
        self.arrays: dict[Path, int] = {}  # number of the last element of each array of tables

    def document(self) -> dict[Path, int]:
        table: Path = ()
        while self._skip():
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
        return self.found

    def _header(self) -> Path:
        line = self._line()
        is_array = self.text.startswith("[[", self.at)
        self.at += 2 if is_array else 1
        path = self._resolve(self._key(), is_array)
        self.at += 2 if is_array else 1
        self.found.setdefault(path, line)
        return path

    def _resolve(self, parts: list[str], is_array: bool) -> Path:
        """The path that a header means: on its way, an array of tables stands for its last element."""
        path: Path = ()
        for position, part in enumerate(parts):
            path = (*path, part)
            if is_array and position == len(parts) - 1:
                self.arrays[path] = self.arrays.get(path, -1) + 1
                self.found.setdefault(path, self._line())
            if path in self.arrays:
                path = (*path, self.arrays[path])
        return path

    def _pair(self, table: Path) -> None:
        line = self._line()
        path = table
        for part in self._key():
            path = (*path, part)
            self.found.setdefault(path, line)
        self.at += 1  # the equals sign
        self._skip()
        self._value(path)

    def _key(self) -> list[str]:
        """A dotted key; stops at what follows it: ``=`` or ``]``."""
        parts: list[str] = []
        while True:
            self._skip()
            begin = self.at
            if self.text[self.at] in "\"'":
                self._string()
                parts.append(tomllib.loads(f"k = {self.text[begin : self.at]}")["k"])
            else:
                while self.text[self.at] not in " \t=].":
                    self.at += 1
                parts.append(self.text[begin : self.at])
            self._skip()
            if self.text[self.at] != ".":
                return parts
            self.at += 1

    def _value(self, path: Path) -> None:
        start = self.text[self.at]
        if start in "\"'":
            self._string()
        elif start == "[":
            self._array(path)
        elif start == "{":
            self._inline_table(path)
        else:
            while self.at < len(self.text) and self.text[self.at] not in ",]}#\n":
                self.at += 1

    def _array(self, path: Path) -> None:
        self.at += 1
        number = 0
        while self._skip(commas=True) and self.text[self.at] != "]":
            self.found[(*path, number)] = self._line()
            self._value((*path, number))
            number += 1
        self.at += 1

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        while self._skip(commas=True) and self.text[self.at] != "}":
            self._pair(path)
        self.at += 1

    def _string(self) -> None:
        quote = self.text[self.at]
        ending = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        self.at += len(ending)
        while not self.text.startswith(ending, self.at):
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += len(ending)
        while len(ending) == 3 and self.text.startswith(quote, self.at):
            self.at += 1  # a text in three quotes may end in quotes of its own

    def _skip(self, commas: bool = False) -> bool:
        """Passes over space and comments; False at the end of the text."""
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif character in _SPACE or (commas and character == ","):
                self.at += 1
            else:
                return True
        return False

    def _line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1
