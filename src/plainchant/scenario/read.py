"""Typed values out of a parsed TOML document, driven by declarations, with errors that name file and line.

A :class:`Reader` turns tables into keyword arguments for a dataclass whose fields are declared with
``model.parameter``: the field's type says what is read, the declaration which values are right and what it is for, and
both together make the error messages. It knows nothing of scenarios; ``load`` puts those together.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from ..core.model import Declared, Duration, ScenarioError, UsageError, declarations, format_duration, parse_duration
from .locate import Path, lines
from .model import Delay

LONGEST = 2**62  # trace columns are 64-bit nanoseconds; a longer duration could not be added to another one


_known: Final[dict[type[Any], tuple[dict[str, Any], dict[str, Declared]]]] = {}


def declared_types(cls: type[Any]) -> tuple[dict[str, Any], dict[str, Declared]]:
    """The resolved types of a dataclass's fields, and the declarations of those that have one. Resolving types is slow, so each
    class is resolved once."""
    if cls not in _known:
        _known[cls] = typing.get_type_hints(cls), {field.name: declaration for field, declaration in declarations(cls)}
    return _known[cls]


def hints(cls: type[Any]) -> dict[str, Any]:
    """The resolved types of a dataclass's fields."""
    return declared_types(cls)[0]


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest valid one, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return f'did you mean "{near[0]}"?'
    return f"there are: {', '.join(names)}" if names else "there are none"


def dotted(path: Path) -> str:
    """A path as ``--set`` writes it."""
    return ".".join(str(part) for part in path)


class Reader:
    """Reads one document. ``options`` are the paths that ``--set`` put there, with their text as it was given."""

    def __init__(self, text: str, filename: str, options: Mapping[Path, str]) -> None:
        self._text = text
        self._filename = filename
        self._options = options

    @functools.cached_property
    def _lines(self) -> dict[Path, int]:
        return lines(self._text)

    def fail(self, path: Path, problem: str) -> NoReturn:
        raise ScenarioError(f"{self.where(path)}: {problem}")

    def where(self, path: Path) -> str:
        """The option or the line that a value comes from; for what is missing, the table it is missing in."""
        for option, text in self._options.items():
            if path[: len(option)] == option:
                return f"--set {dotted(option)}={text}"
        if path and path not in self._lines:
            for option, text in self._options.items():
                if option[: len(path)] == path:
                    return f"--set {dotted(option)}={text}"
            inside = [line for known, line in self._lines.items() if known[: len(path)] == path]
            if inside:  # a table without a header of its own
                return f"{self._filename}:{min(inside)}"
        while path and path not in self._lines:
            path = path[:-1]
        return f"{self._filename}:{self._lines[path]}" if path else self._filename

    def table(self, value: Any, path: Path, known: Iterable[str], what: str) -> dict[str, Any]:
        """A table with none but these keys."""
        if not isinstance(value, dict):
            self.fail(path, f"{dotted(path)} must be a table of keys and values, not {_shown(value)}")
        names = list(known)
        for key in value:
            if key not in names:
                self.fail((*path, key), f'unknown key "{key}" {what}; {nearest(key, names)}')
        return value

    def fields(self, cls: type[Any], value: Any, path: Path, what: str) -> dict[str, Any]:
        """Keyword arguments for ``cls`` from a table; what is left out is left out."""
        types, declared = declared_types(cls)
        table = self.table(value, path, declared, what)
        return {key: self.value(types[key], declared[key], given, (*path, key)) for key, given in table.items()}

    def tables(self, cls: type[Any], value: Any, path: Path) -> tuple[Any, ...]:
        """An array of tables, each made into a ``cls``."""
        if not isinstance(value, list):
            self.fail(path, f"{dotted(path)} must be an array of tables: write [[{dotted(path)}]] above each of them")
        what = f"in [[{dotted(path)}]]"
        return tuple(cls(**self.fields(cls, item, (*path, n), what)) for n, item in enumerate(value))

    def value(self, hint: Any, declared: Declared, given: Any, path: Path) -> Any:
        """A value of the declared type and range."""
        if hint is Delay:
            return self._delay(given, path)
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            return hint(**self.fields(hint, given, path, f"in [{dotted(path)}]"))
        if typing.get_origin(hint) is tuple:
            return self._sequence(typing.get_args(hint)[0], declared, given, path)
        if typing.get_origin(hint) is Mapping:
            return self._mapping(typing.get_args(hint)[1], declared, given, path)
        if hint is Duration or declared.unit == "duration":
            return self.duration(given, path, declared.about, signed=hint is not Duration, minimum=declared.minimum or 0)
        return self._scalar(hint, declared, given, path)

    def _sequence(self, item: Any, declared: Declared, given: Any, path: Path) -> tuple[Any, ...]:
        if dataclasses.is_dataclass(item) and isinstance(item, type):
            return self.tables(item, given, path)
        if not isinstance(given, list):
            of_processes = '[["p1", "p2"], ["p3"]]' if typing.get_origin(item) is tuple else '["p1", "p2"]'
            self._wrong(path, f"a list such as {declared.example or of_processes}", given, declared)
        return tuple(self.value(item, declared, one, (*path, n)) for n, one in enumerate(given))

    def _mapping(self, item: Any, declared: Declared, given: Any, path: Path) -> dict[str, Any]:
        """Values by name; of each the declaration says which are right."""
        if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
            self._wrong(path, f"a table such as {declared.example or f'{{ {declared.keys} = ... }}'}", given, declared)
        return {key: self.value(item, declared, one, (*path, key)) for key, one in given.items()}

    def _scalar(self, hint: Any, declared: Declared, given: Any, path: Path) -> Any:
        if hint is int or hint is float:
            return self._number(hint, declared, given, path)
        if hint not in (str, bool):
            raise TypeError(f"{dotted(path)} is declared as {hint}, which scenario files have no way to write")
        if hint is str and not isinstance(given, str) and path in self._options:
            given = self._options[path]  # on a command line a name that looks like a number is not quoted
        if not isinstance(given, hint):
            self._wrong(path, "text in quotes" if hint is str else "true or false", given, declared)
        if declared.choices and given not in declared.choices:
            self.fail(path, f'{dotted(path)} cannot be "{given}"; {nearest(given, declared.choices)}')
        return given

    def _number(self, hint: Any, declared: Declared, given: Any, path: Path) -> float:
        wanted = ("a whole number" if hint is int else "a number") + _range(declared)
        kinds = (int,) if hint is int else (int, float)
        low = declared.minimum if declared.minimum is not None else -math.inf
        high = declared.maximum if declared.maximum is not None else math.inf
        is_number = isinstance(given, kinds) and not isinstance(given, bool) and math.isfinite(given)
        if not is_number or not low <= given <= high or abs(given) >= 2**63:
            self._wrong(path, wanted, given, declared)
        return given if hint is int else float(given)

    def duration(self, given: Any, path: Path, about: str, *, signed: bool = False, minimum: float = 0) -> int:
        """Nanoseconds. A bare 0 is the same in every unit and needs none; any other number does."""
        if isinstance(given, int | float) and not isinstance(given, bool) and given == 0:
            given = "0s"
        if not isinstance(given, str):
            example = f' (did you mean "{given}ms"?)' if isinstance(given, int) and not isinstance(given, bool) else ""
            wanted = f'{dotted(path)} must be a duration with its unit, such as "50ms" or "2s"'
            self.fail(path, f"{wanted}, not {_shown(given)}{example}{_about(about)}")
        text, sign = given.strip(), 1
        if text.startswith(("-", "+")):
            text, sign = text[1:], -1 if text[0] == "-" else 1
        try:
            length = sign * parse_duration(text)
        except OverflowError:
            length = LONGEST
        except UsageError as error:
            self.fail(path, f"{dotted(path)}: {error}{_about(about)}")
        if abs(length) >= LONGEST:
            self.fail(path, f'{dotted(path)} is longer than 146 years: "{given}"')
        if not signed and length < minimum:
            self.fail(path, f'{dotted(path)} must be {"above 0" if minimum else "0 or more"}, not "{given}"{_about(about)}')
        return length

    def _delay(self, given: Any, path: Path) -> Delay:
        about = "time under way"
        if not isinstance(given, dict):
            varying = f'{about}; for one that varies write {{uniform = ["1ms", "5ms"]}}'
            return Delay("constant", Duration(self.duration(given, path, varying)), Duration(0))
        table = self.table(given, path, ("constant", "uniform", "exponential", "minimum"), "of a delay")
        kinds = [key for key in table if key != "minimum"]
        if len(kinds) != 1 or ("minimum" in table and kinds != ["exponential"]):
            forms = '"1ms", {uniform = ["1ms", "5ms"]} or {exponential = "2ms", minimum = "1ms"}'
            self.fail(path, f"{dotted(path)} must be {forms}")
        kind = kinds[0]
        inside, given = (*path, kind), table[kind]
        if kind == "constant":
            return Delay("constant", Duration(self.duration(given, inside, about)), Duration(0))
        if kind == "exponential":
            least = self.duration(table.get("minimum", 0), (*path, "minimum"), about)
            return Delay("exponential", Duration(least), Duration(self.duration(given, inside, about)))
        if not isinstance(given, list) or len(given) != 2:
            self.fail(inside, f'{dotted(inside)} must be the smallest and the largest delay: ["1ms", "5ms"]')
        low, high = (self.duration(one, (*inside, n), about) for n, one in enumerate(given))
        if high < low:
            self.fail(inside, f"{dotted(inside)}: the smallest delay comes first")
        return Delay("uniform", Duration(low), Duration(high))

    def _wrong(self, path: Path, wanted: str, given: Any, declared: Declared) -> NoReturn:
        self.fail(path, f"{dotted(path)} must be {wanted}, not {_shown(given)}{_about(declared.about)}")


def given_parameters(cls: type[Any], given: Mapping[str, Any], protocol: str) -> dict[str, Any]:
    """A protocol's parameters in a program's dictionary, checked: durations as text such as ``"50ms"`` or as nanoseconds."""
    return Reader("", "parameters", {}).fields(cls, as_document(cls, given), (), f"among the parameters of {protocol}")


def as_document(cls: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A program's parameters as the table that a file would have: durations in nanoseconds become text."""
    types, _ = declared_types(cls)
    return {name: _as_in_a_file(types.get(name), value) for name, value in given.items()}


def _as_in_a_file(hint: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        item = typing.get_args(hint)[1] if typing.get_origin(hint) is Mapping else None
        return {key: _as_in_a_file(item, one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_as_in_a_file(None, one) for one in value]
    return format_duration(value) if hint is Duration and type(value) is int else value


def _about(about: str) -> str:
    return f" ({about})" if about else ""


def _range(declared: Declared) -> str:
    low, high = declared.minimum, declared.maximum
    if low is not None and high is not None:
        return f" from {_plain(low)} to {_plain(high)}"
    if low is not None:
        return f" of at least {_plain(low)}"
    return f" of at most {_plain(high)}" if high is not None else ""


def _plain(number: float) -> str:
    """A bound as people write it: 67,108,864 and 0.5."""
    return f"{int(number):,}" if number == int(number) else f"{number:g}"


def _shown(value: Any) -> str:
    """A value as the file would write it, shortened."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
