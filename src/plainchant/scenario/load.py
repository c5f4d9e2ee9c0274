"""Scenario files to scenarios: TOML, ``--set`` options, defaults, and errors that name the file and the line.

The document is read by ``tomllib``, options are put into it as if they stood in the file, then every table is read
by the declarations in ``scenario.model`` and in the protocol's parameter class (``read``), and at last the whole is
checked for what no single value can be wrong about (``check``). What comes out is complete: groups, workload and all
parameters are spelled out, so that writing it down (``dump``) replays the same run whatever later defaults are.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Final

from ..core.model import ScenarioError, UsageError
from ..protocols import registry
from .check import check
from .locate import Path, split_key
from .model import Link, Network, Scenario, Workload, groups_ever
from .read import Reader, declared_types, dotted

DEFAULT_GROUP: Final = "g"
DEFAULT_WORKLOAD: Final = Workload(rate=100.0)
"""Without any ``[[workload]]`` every member sends at this rate; ``workload = []`` is a run without messages."""

_ARRAYS: Final = (("workload",), ("clock",), ("fault",), ("network", "link"))
_NAME: Final = re.compile(r"[\w.-]+")
_MOST_MEMBERS: Final = 10_000


def load(path: str | FilePath, overrides: Sequence[str] = ()) -> Scenario:
    """Reads a scenario file; ``overrides`` are ``key=value`` as after ``--set``, the last one wins."""
    file = FilePath(path)
    text = read_text(file, "scenario", "`plainchant run --list` names the shipped ones")
    return parse(text, str(file), overrides)


def read_text(file: FilePath, what: str, remedy: str) -> str:
    """The text of a file that people write, or an error that says what to do; ``what`` it is, for messages."""
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        raise ScenarioError(f"there is no {what} file {file}; {remedy}") from None
    except IsADirectoryError:
        raise ScenarioError(f"{file} is a directory; name the {what} file in it") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{file} is not text in UTF-8 (at byte {error.start}); a {what} is a TOML file") from None
    except OSError as error:
        raise ScenarioError(f"{file} cannot be read: {error.strerror}") from None


def parse(text: str, filename: str = "scenario", overrides: Sequence[str] = ()) -> Scenario:
    """Reads a scenario from its text; ``filename`` is for messages, and names the scenario if nothing else does."""
    text = text.replace("\r\n", "\n")
    document = parse_document(text, filename)
    options: dict[Path, str] = {}
    for override in overrides:
        apply_option(document, override, options)
    return _assembled(document, Reader(text, filename, options), FilePath(filename).stem)


def build(document: dict[str, Any], name: str) -> Scenario:
    """A scenario from a document of a program's own, of the form that a file has; ``name`` is for messages."""
    return _assembled(document, Reader("", name, {}), name)


def _assembled(document: dict[str, Any], reader: Reader, stem: str) -> Scenario:
    scenario = _Assembly(reader, document).scenario(stem)
    check(scenario, document, reader, registry.describe(scenario.protocol))
    return scenario


def parse_document(text: str, filename: str, what: str = "scenario") -> dict[str, Any]:
    """The document in a TOML text, or an error that names the line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = found[1] if found else str(text.count("\n") + 1)
        problem = str(error)[: found.start()].strip() if found else str(error).replace("(at end of document)", "").strip()
        raise ScenarioError(f"{filename}:{line}: this is not TOML: {problem}") from None
    except (ValueError, RecursionError):
        raise ScenarioError(f"{filename}: this is not a {what}: a number or a nesting in it is far too large") from None


def apply_option(
    document: dict[str, Any],
    override: str,
    options: dict[Path, str],
    examples: str = "--set network.loss=0.05 or --set fault.0.at=1s",
) -> None:
    """Puts one ``key=value`` into the document, as if it stood there, and its path and text into ``options``."""
    name, equals, raw = override.partition("=")
    option = f"--set {override}"
    try:
        keys = split_key(name.strip())
    except (tomllib.TOMLDecodeError, RecursionError):
        keys = ()
    if not equals or not keys:
        quotes = "; a name with characters other than letters, digits, - and _ stands in double quotes" if equals else ""
        raise ScenarioError(f"{option}: write --set key=value, for instance {examples}{quotes}")
    raw = raw.strip()
    path: Path = ()
    place: Any = document
    for key in keys[:-1]:
        place, path = _step(place, path, key, option)
    path = _assign(place, path, keys[-1], _option_value(raw), option)
    for known in [known for known in options if known[: len(path)] == path]:
        del options[known]  # a later option replaced what an earlier one had set
    options[path] = raw


def _option_value(raw: str) -> Any:
    """The value of an option: TOML where it is TOML, otherwise the text itself (``1s``, ``p1``)."""
    try:
        document = tomllib.loads(f"value = {raw}")
    except (ValueError, RecursionError):
        return raw
    value = document["value"]
    return value if len(document) == 1 and isinstance(value, bool | int | float | str | list | dict) else raw


def _step(place: Any, path: Path, key: str, option: str) -> tuple[Any, Path]:
    inside = _inside(place, path, key, option)
    if isinstance(place, dict):
        return place.setdefault(key, [] if inside in _ARRAYS else {}), inside
    number = inside[-1]
    if number == len(place):
        place.append({})
    return place[number], inside


def _assign(place: Any, path: Path, key: str, value: Any, option: str) -> Path:
    inside = _inside(place, path, key, option)
    if isinstance(place, dict):
        place[key] = value
    else:
        place[int(key) : int(key) + 1] = [value]
    return inside


def _inside(place: Any, path: Path, key: str, option: str) -> Path:
    """The path of a table's key or an array's element; the element after the last is a new one."""
    if isinstance(place, dict):
        return (*path, key)
    if not isinstance(place, list):
        raise ScenarioError(f"{option}: {dotted(path)} is a single value here and has nothing inside to set")
    if not key.isdecimal():
        raise ScenarioError(f"{option}: {dotted(path)} is a list; name one of its elements by number: {dotted(path)}.0")
    if int(key) > len(place):
        raise ScenarioError(f"{option}: {dotted(path)} has {len(place)} elements, counted from 0")
    return (*path, int(key))


class _Assembly:
    """Reads the top of a document: what the declarations say, and the three tables that need more."""

    def __init__(self, reader: Reader, document: dict[str, Any]) -> None:
        self._reader = reader
        self._document = document

    def scenario(self, stem: str) -> Scenario:
        types, declared = declared_types(Scenario)
        self._no_parameters_at_the_top(declared)
        self._reader.table(self._document, (), declared, "in a scenario")
        description = self._protocol()
        values = {
            key: self._reader.value(types[key], declared[key], given, (key,))
            for key, given in self._document.items()
            if key not in ("members", "later", "groups", "parameters")
        }
        if "network" in values:
            values["network"] = self._inherit(values["network"])
        groups = self._groups()
        members = self._members(groups)
        values["later"] = self._names(self._document.get("later", []), ("later",))
        values.setdefault("name", stem)
        values.setdefault("workload", (DEFAULT_WORKLOAD,))
        parameters = self._parameters(description)
        groups = groups or {DEFAULT_GROUP: members}
        problem = description.check(description.parameters(**parameters), groups_ever(groups, values.get("fault", ())))
        if problem is not None:
            self._reader.fail(("parameters",), problem)
        return Scenario(members=members, groups=groups, parameters=parameters, **values)

    def _no_parameters_at_the_top(self, declared: Collection[str]) -> None:
        """A parameter of the protocol is no unknown key: it only stands in the wrong place."""
        misplaced = [key for key in self._document if key not in declared]
        name = self._document.get("protocol")
        if not misplaced or not isinstance(name, str) or name not in registry.protocols():
            return
        _, parameters = declared_types(registry.describe(name).parameters)
        for key in misplaced:
            if key in parameters:
                self._reader.fail((key,), f'"{key}" is a parameter of {name}; write it below [parameters]')

    def _protocol(self) -> registry.Description:
        name = self._document.get("protocol")
        if name is None:
            example = f'write protocol = "{next(iter(registry.protocols()))}" at the top (`plainchant protocols` lists them)'
            self._reader.fail((), f"protocol is missing: {example}")
        if not isinstance(name, str):
            self._reader.fail(("protocol",), f"protocol must be a name in quotes, one of: {', '.join(registry.protocols())}")
        try:
            return registry.describe(name)
        except UsageError as error:
            self._reader.fail(("protocol",), str(error))

    def _inherit(self, network: Network) -> Network:
        """What a link leaves out is as everywhere else in the network, not as in a network without any settings."""
        written = self._document["network"].get("link", [])
        links = []
        for link, table in zip(network.link, written, strict=True):
            left_out = {key: getattr(network, key) for key in declared_types(Link)[1] if key not in table}
            links.append(dataclasses.replace(link, **left_out))
        return dataclasses.replace(network, link=tuple(links))

    def _parameters(self, description: registry.Description) -> dict[str, Any]:
        cls, table, path = description.parameters, self._document.get("parameters", {}), ("parameters",)
        given = self._reader.fields(cls, table, path, f"among the parameters of {description.name}")
        try:
            complete = cls(**given)
        except UsageError as error:
            self._reader.fail(path, str(error))
        return {name: getattr(complete, name) for name in declared_types(cls)[1]}

    def _groups(self) -> dict[str, tuple[str, ...]]:
        table = self._document.get("groups", {})
        if not isinstance(table, dict):
            self._reader.fail(("groups",), 'groups must be a table of lists: write [groups] and, below it, g = ["p1", "p2"]')
        groups = {}
        for name, given in table.items():
            self._checked_name(name, ("groups", name))
            groups[name] = self._names(given, ("groups", name))
            if len(groups[name]) < 2:
                problem = f"group {name} has {len(groups[name]) or 'no'} member; a group needs at least two"
                self._reader.fail(("groups", name), problem)
        return groups

    def _members(self, groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        """The members by number or by name; without either, those that the groups name, in that order."""
        given = self._document.get("members")
        path = ("members",)
        if given is None and groups:
            return tuple(dict.fromkeys(name for names in groups.values() for name in names))
        if given is None:
            self._reader.fail((), 'members is missing: write members = 5, or members = ["p1", "p2", "p3"], at the top')
        if isinstance(given, int) and not isinstance(given, bool):
            if not 1 <= given <= _MOST_MEMBERS:
                self._reader.fail(path, f"members must be from 2 to {_MOST_MEMBERS:,}, not {given}")
            given = [f"p{number}" for number in range(1, given + 1)]
        elif not isinstance(given, list):
            self._reader.fail(path, f'members must be a number or a list such as ["p1", "p2"], not {given!r}')
        names = self._names(given, path)
        if len(names) < 2:
            self._reader.fail(path, f"members has {len(names) or 'no'} process; a group needs at least two")
        return names

    def _names(self, given: Any, path: Path) -> tuple[str, ...]:
        if not isinstance(given, list):
            self._reader.fail(path, f'{dotted(path)} must be a list of processes such as ["p1", "p2"], not {given!r}')
        seen: dict[str, None] = {}
        for number, name in enumerate(given):
            self._checked_name(name, (*path, number))
            if name in seen:
                self._reader.fail((*path, number), f'"{name}" is named twice in {dotted(path)}; every process is named once')
            seen[name] = None
        return tuple(seen)

    def _checked_name(self, name: Any, path: Path) -> None:
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            self._reader.fail(
                path,
                f"{name!r} cannot be a name: use letters, digits, dots, dashes and underscores "
                f"(p3#1 is the name that p3 gets when it restarts)",
            )
