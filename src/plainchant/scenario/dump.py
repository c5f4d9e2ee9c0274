"""Scenarios to scenario files: complete, so that the file replays the run whatever later defaults are.

``load`` of what ``dump`` wrote gives an equal scenario. Every value of the network, the parameters and the random
faults is written out; of a workload or a fault only what applies to it.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from ..core.model import Declared, Duration, format_duration
from ..protocols import registry
from .check import fault_keys
from .model import Delay, Fault, LinkOverride, Scenario
from .read import declared_types

_TOP = ("protocol", "name", "about", "seed", "duration", "drain", "members", "later", "verify", "expect")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def dump(scenario: Scenario) -> str:
    """The scenario as TOML text."""
    top = _pairs(scenario, _TOP) + ("" if scenario.workload else "workload = []\n")
    groups = "".join(f"{_key(name)} = {_value(members)}\n" for name, members in scenario.groups.items())
    parts = [top, "[groups]\n" + groups, _parameters(scenario), _network(scenario)]
    if registry.describe(scenario.protocol).placement.memory is not None:
        parts.append(_table("[memory]", scenario.memory, _keys(scenario.memory)))
    parts += [_table("[[workload]]", workload, _all_but_zero(workload)) for workload in scenario.workload]
    parts += [_table("[[clock]]", clock, _keys(clock)) for clock in scenario.clock]
    parts += [_table("[[fault]]", fault, _fault_keys(fault)) for fault in scenario.fault]
    parts.append(_table("[random]", scenario.random, _keys(scenario.random)))
    return "\n".join(parts)


def _parameters(scenario: Scenario) -> str:
    types, declared = declared_types(registry.describe(scenario.protocol).parameters)
    values = {name: _typed(types.get(name), declared.get(name), value) for name, value in scenario.parameters.items()}
    return "[parameters]\n" + "".join(f"{_key(name)} = {value}\n" for name, value in values.items())


def _network(scenario: Scenario) -> str:
    network = scenario.network
    text = _table("[network]", network, [key for key in _keys(network) if key != "link"])
    keys = dict.fromkeys(("source", "target", *_keys(LinkOverride())))
    return text + "".join("\n" + _table("[[network.link]]", link, keys) for link in network.link)


def _keys(item: Any) -> list[str]:
    return list(declared_types(type(item))[1])


def _all_but_zero(item: Any) -> list[str]:
    """In a workload zero means "no limit", which a file says by leaving the key out."""
    return [key for key in _keys(item) if getattr(item, key) or isinstance(getattr(item, key), str)]


def _fault_keys(fault: Fault) -> list[str]:
    """What the kind has, as far as it is given; the moment always, except where events are counted instead."""
    defaults = {field.name: field.default for field in dataclasses.fields(Fault)}
    keys = dict.fromkeys(("kind", "at", *fault_keys(fault.kind)))
    given = [key for key in keys if key == "at" or getattr(fault, key) != defaults[key]]
    return [key for key in given if key != "at" or not fault.after_events]


def _table(header: str, item: Any, keys: Iterable[str]) -> str:
    return f"{header}\n{_pairs(item, keys)}"


def _pairs(item: Any, keys: Iterable[str]) -> str:
    types, declared = declared_types(type(item))
    return "".join(f"{key} = {_typed(types[key], declared[key], getattr(item, key))}\n" for key in keys)


def _typed(hint: Any, declared: Declared | None, value: Any) -> str:
    if isinstance(value, Mapping):
        item = typing.get_args(hint)[1] if hint is not None else None
        return f"{{{', '.join(f'{_key(name)} = {_typed(item, declared, one)}' for name, one in value.items())}}}"
    if hint is Duration or (declared is not None and declared.unit == "duration"):
        return _duration(value)
    if isinstance(value, Delay):
        return _delay(value)
    return _value(float(value) if hint is float else value)


def _delay(delay: Delay) -> str:
    if delay.kind == "uniform":
        return f"{{uniform = [{_duration(delay.low)}, {_duration(delay.high)}]}}"
    if delay.kind == "exponential":
        return f"{{exponential = {_duration(delay.high)}, minimum = {_duration(delay.low)}}}"
    return _duration(delay.low)


def _duration(ns: int) -> str:
    return f'"{"-" if ns < 0 else ""}{format_duration(abs(ns))}"'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(_value(one) for one in value)}]"
    if isinstance(value, int | float):
        return repr(value)
    raise TypeError(f"{value!r} has no form in a scenario file")


def _string(text: str) -> str:
    """JSON's quoting is TOML's, except for the one control character that JSON lets through."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)
