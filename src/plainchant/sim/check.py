"""Scenarios that Python made, checked by the rules of scenario files.

A scenario is written out as the document that a file would hold, without what is left at its default (right by
declaration, and thousands of simulations of a sweep must not pay for it). That document goes through the same
``Reader`` and the same rules as a file. Differences: durations are numbers of nanoseconds, and places are named by
their keys, because there are no lines; and a group may have one member, a message no bytes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Final

from ..core.model import ScenarioError
from ..protocols.registry import Description, describe
from ..scenario.check import check
from ..scenario.load import DEFAULT_GROUP
from ..scenario.locate import Path
from ..scenario.model import Clock, Delay, Fault, LinkOverride, Memory, Network, RandomFaults, Scenario, Workload, groups_ever
from ..scenario.read import LONGEST, Reader, declared_types, dotted

_OWN: Final = ("members", "later", "groups", "parameters")  # keys that are more, or less, than their type says
_ONE: Final[dict[str, type[Any]]] = {"network": Network, "memory": Memory, "random": RandomFaults}
_SEVERAL: Final[dict[str, type[Any]]] = {"network.link": LinkOverride, "workload": Workload, "clock": Clock, "fault": Fault}


def check_scenario(scenario: Scenario, description: Description | None = None) -> None:
    """Fails with a sentence at the first thing that cannot be; a given description has its own parameters."""
    reader = _PythonReader("", "scenario", {})
    _check_names(scenario, reader)
    document = _document(scenario)
    types, declared = declared_types(Scenario)
    for key, given in document.items():
        reader.value(types[key], declared[key], given, (key,))
    described = description if description is not None else describe(scenario.protocol)
    if description is None:
        _check_parameters(scenario, described, reader)
    # With what Python may leave out, and without empty messages, which it may ask for and files may not.
    workload = tuple(dataclasses.replace(one, size=1) if not one.size else one for one in scenario.workload)
    groups = scenario.groups or {DEFAULT_GROUP: scenario.members}
    whole = dataclasses.replace(scenario, groups=groups, workload=workload)
    check(whole, document, reader, described)
    problem = described.check(described.parameters(**scenario.parameters), groups_ever(whole.groups, whole.fault))
    if problem is not None:
        reader.fail(("parameters",), problem)


class _PythonReader(Reader):
    """Reads values of Python instead of TOML."""

    def where(self, path: Path) -> str:
        return f"scenario, {dotted(path)}" if path else "scenario"

    def duration(self, given: Any, path: Path, about: str, *, signed: bool = False, minimum: float = 0) -> int:
        if isinstance(given, bool) or not isinstance(given, int):
            self.fail(path, f'a duration is a whole number of nanoseconds, not {given!r}: parse_duration reads "50ms"')
        if not signed and given < minimum:
            self.fail(path, f"must be {'above 0' if minimum else '0 or more'}, not {given} ({about})")
        if abs(given) >= LONGEST:
            self.fail(path, f"{given} ns are more than 146 years")
        return given


def _check_names(scenario: Scenario, reader: Reader) -> None:
    """Members, later processes and groups: sequences of names, each name once."""
    if not isinstance(scenario.groups, Mapping):
        reader.fail(("groups",), 'groups must be a mapping such as {"g": ("p1", "p2")}')
    lists: dict[Path, Any] = {("members",): scenario.members, ("later",): scenario.later}
    lists |= {("groups", group): names for group, names in scenario.groups.items()}
    for path, names in lists.items():
        if not isinstance(names, tuple | list) or not all(isinstance(name, str) and name for name in names):
            reader.fail(path, f'must be a tuple of names such as ("p1", "p2"), not {names!r}')
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            reader.fail(path, f"{twice!r} is named twice; every process has a name of its own")
    if not scenario.members:
        reader.fail(("members",), "a scenario needs processes: give members=")


def _check_parameters(scenario: Scenario, description: Description, reader: Reader) -> None:
    if not isinstance(scenario.parameters, Mapping):
        reader.fail(("parameters",), "parameters must be a mapping of names and values")
    cls: type[Any] = description.parameters
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    given = {key: _plain(value) for key, value in scenario.parameters.items() if not _same(value, defaults.get(key))}
    reader.fields(cls, given, ("parameters",), f"among the parameters of {description.name}")


def _document(scenario: Scenario) -> dict[str, Any]:
    _check_tables(scenario)
    document = _given(scenario)
    for key in _OWN:
        document.pop(key, None)
    for fault, table in zip(scenario.fault, document.get("fault", ()), strict=True):
        # Without a time it happens at 0; only a crash has other moments.
        if not fault.after_events:
            table["at"] = fault.at
    return document


def _check_tables(scenario: Scenario) -> None:
    """What stands for a table of the file must be of its class: nothing else can be written out."""
    for key, cls in _ONE.items():
        if not isinstance(getattr(scenario, key), cls):
            raise ScenarioError(f"scenario, {key}: must be a {cls.__name__}, not {getattr(scenario, key)!r}")
    for key, cls in _SEVERAL.items():
        given: Any = functools.reduce(getattr, key.split("."), scenario)
        if not isinstance(given, tuple | list) or not all(isinstance(one, cls) for one in given):
            raise ScenarioError(f"scenario, {key}: must be a tuple of {cls.__name__}, not {given!r}")


def _given(item: Any) -> dict[str, Any]:
    """The fields of a dataclass that are not at their defaults."""
    values = ((field, getattr(item, field.name)) for field in dataclasses.fields(item))
    return {field.name: _plain(value) for field, value in values if not _same(value, field.default)}


def _plain(value: Any) -> Any:
    if isinstance(value, Delay):
        if value.kind == "uniform":
            return {"uniform": [value.low, value.high]}
        return {value.kind: value.high, "minimum": value.low} if value.kind == "exponential" else {value.kind: value.low}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _given(value)
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value


def _same(value: Any, default: Any) -> bool:
    """Equal and of one type: True is not 1 here."""
    return type(value) is type(default) and bool(value == default)
