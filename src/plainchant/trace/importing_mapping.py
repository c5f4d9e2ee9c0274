"""What a log's lines mean: the mapping file of ``plainchant import``, read and checked.

A mapping is TOML. Its ``[[line]]`` tables are patterns, tried in order; the first that is found in a line decides. The
named groups of a pattern are what the line says: ``time process kind group id sender view members payload digest
deadline rank size`` have a meaning, any other name goes into the event's ``detail``. ``set`` gives a value to what the
line does not say. Everything that is wrong with a mapping is said before the first line of a log is read.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from ..core.model import TRACE_VERSION, TraceError
from ..core.shipped import with_pages

MEANT: Final = frozenset(
    {"time", "process", "kind", "group", "id", "sender", "view", "members", "payload", "digest", "deadline", "rank", "size"}
)
"""Names of groups with a meaning."""

_DIGITS: Final = {"s": 9, "ms": 6, "us": 3, "ns": 0}
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)


class ImportProblem(TraceError):
    """A log cannot be brought into a trace with this mapping."""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    match: str
    kind: str | None = None
    set: dict[str, str | int] = {}


class _Time(msgspec.Struct, forbid_unknown_fields=True):
    unit: Literal["s", "ms", "us", "ns"] = "s"
    format: str | None = None
    order: Literal["lines", "time"] = "lines"


class _Files(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class _End(msgspec.Struct, forbid_unknown_fields=True):
    otherwise: Literal["end", "crash", "cut"] = "cut"
    drained: bool = False


class _Members(msgspec.Struct, forbid_unknown_fields=True):
    split: str = r"[\s,]+"


class _Mapping(msgspec.Struct, forbid_unknown_fields=True):
    line: list[_Line]
    run: str | None = None
    protocol: str | None = None
    promises: list[str] | None = None
    parameters: dict[str, Any] = {}
    bounds: dict[str, int] = {}
    ignore: list[str] = []
    kinds: dict[str, str] = {}
    names: dict[str, str] = {}
    time: _Time = msgspec.field(default_factory=_Time)
    files: _Files | None = None
    end: _End = msgspec.field(default_factory=_End)
    members: _Members = msgspec.field(default_factory=_Members)


@dataclasses.dataclass(frozen=True)
class Pattern:
    """One ``[[line]]``: what is looked for, and what is known without the line."""

    expression: re.Pattern[str]
    constants: dict[str, str]


class Mapping:
    """A mapping that can be used."""

    def __init__(self, raw: _Mapping, where: str) -> None:
        self._where = where
        self.run = raw.run
        self.patterns = [self._pattern(number, line) for number, line in enumerate(raw.line, start=1)]
        self.ignore = [self._compile(text, f"ignore {number}") for number, text in enumerate(raw.ignore, start=1)]
        self.kinds = raw.kinds
        self.names = raw.names
        self.by_time = raw.time.order == "time"
        self.otherwise = raw.end.otherwise
        self.drained = raw.end.drained
        self.split = self._compile(raw.members.split, "members.split")
        self.file_name = self._compile(raw.files.name, "files.name") if raw.files is not None else None
        self._digits = _DIGITS[raw.time.unit]
        self._format = raw.time.format
        self.start: dict[str, Any] = {"version": TRACE_VERSION, "parameters": raw.parameters, "bounds": raw.bounds}
        named = {"protocol": raw.protocol, "promises": raw.promises}
        self.start |= {key: value for key, value in named.items() if value is not None}
        self._check()

    def _pattern(self, number: int, line: _Line) -> Pattern:
        where = f"line {number}"
        expression = self._compile(line.match, where)
        constants = {name: str(value) for name, value in line.set.items()}
        if line.kind is not None:
            constants["kind"] = line.kind
        if "kind" not in constants and "kind" not in expression.groupindex:
            raise ImportProblem(f'{self._where}: {where} says nothing about its kind; add kind = "deliver" or the like')
        both = sorted(set(constants) & set(expression.groupindex))
        if both:
            raise ImportProblem(f"{self._where}: {where} has {both[0]!r} both in the pattern and as a constant; keep one")
        return Pattern(expression, constants)

    def _compile(self, text: str, where: str) -> re.Pattern[str]:
        try:
            return re.compile(text)
        except re.error as error:
            raise ImportProblem(f"{self._where}: {where} is not a regular expression: {error}; mend it") from error

    def _check(self) -> None:
        if not self.patterns:
            raise ImportProblem(f"{self._where}: there is no [[line]]; describe at least one kind of line")
        in_name = set(self.file_name.groupindex) if self.file_name is not None else set()
        for number, pattern in enumerate(self.patterns, start=1):
            if "process" not in {*pattern.expression.groupindex, *pattern.constants, *in_name}:
                problem = f"line {number} does not tell the process; name a group (?P<process>...) there or in files.name"
                raise ImportProblem(f"{self._where}: {problem}")
        if self.by_time and not all("time" in pattern.expression.groupindex for pattern in self.patterns):
            raise ImportProblem(f'{self._where}: time.order = "time" needs a group (?P<time>...) in every [[line]]')

    def nanoseconds(self, text: str) -> int:
        """A time as the log writes it. Raises ValueError if it is none."""
        if self._format is None:
            return _scaled(text, self._digits)
        moment = datetime.fromisoformat(text) if self._format == "iso" else datetime.strptime(text, self._format)
        offset = moment.utcoffset()
        if offset is not None:
            moment = moment.replace(tzinfo=None) - offset
        return (moment - _EPOCH) // _MICROSECOND * 1000


def load_mapping(path: Path) -> Mapping:
    """Reads a mapping file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ImportProblem(f"cannot read the mapping {path}: {why}; check the path") from error
    try:
        return Mapping(msgspec.convert(tomllib.loads(text), _Mapping), str(path))
    except tomllib.TOMLDecodeError as error:
        raise ImportProblem(f"{path} is not TOML: {error}; mend it there") from error
    except msgspec.ValidationError as error:
        raise ImportProblem(with_pages(f"{path}: {error}; docs/import.md describes mappings")) from error


def _scaled(text: str, digits: int) -> int:
    """A decimal number times a power of ten, exactly (a float cannot hold the time of day in nanoseconds).

    >>> _scaled("1700000000.123456789", 9), _scaled("12.5", 6), _scaled("-3", 0)
    (1700000000123456789, 12500000, -3)
    """
    whole, point, fraction = text.partition(".")
    if point and not fraction.isdecimal():
        raise ValueError(f"{text!r} is not a number")
    return int(whole + fraction[:digits].ljust(digits, "0"))
