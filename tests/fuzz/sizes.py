"""How much an engine holds: everything that can be reached from it is counted, whatever it is called.

Theory of operation
-------------------
The walk goes through attributes (``__dict__`` and ``__slots__``), containers, structs, bound methods, closures and the frames of
procedures, so that a table that is added tomorrow is counted tomorrow. It stops at what engines share with the world: their host,
classes, modules, parameters and chance. An item of a container counts one, bytes and text count by their length, in
:data:`CELL` bytes an item.
"""

from __future__ import annotations

import dataclasses
import random
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from plainchant.sim.host import SimHost
from plainchant.sim.kernel import Kernel
from plainchant.sim.memory import SimMemory

CELL: Final = 64
"""Bytes of a payload that count as one item."""
_WORLD: Final = (SimHost, Kernel, SimMemory, random.Random, type, types.ModuleType, types.CodeType)
_TABLES: Final = (dict, list, tuple, set, frozenset, deque)


def size_of(root: object) -> int:
    """Items, and cells of bytes, of everything that can be reached."""
    return sum(_weight(value) for value in _reachable(root))


def largest_in(root: object, most: int = 5) -> list[str]:
    """The largest tables, for a person."""
    found = [value for value in _reachable(root) if isinstance(value, _TABLES)]
    found.sort(key=len, reverse=True)
    return [f"{type(value).__name__} of {len(value)}: {str(value)[:100]}" for value in found[:most]]


def _weight(value: Any) -> int:
    if isinstance(value, bytes | bytearray | str):
        return len(value) // CELL
    return len(value) if isinstance(value, _TABLES) else 0


def _reachable(root: object) -> Iterator[Any]:
    seen: set[int] = set()
    kept: list[Any] = []  # what is counted stays alive, or its number could become another's
    left = [root]
    while left:
        value = left.pop()
        if id(value) in seen or value is None or isinstance(value, int | float) or _is_of_the_world(value):
            continue
        seen.add(id(value))
        kept.append(value)
        yield value
        left.extend(_inside(value))


def _is_of_the_world(value: Any) -> bool:
    if isinstance(value, _WORLD):
        return True
    is_parameters = dataclasses.is_dataclass(value) and type(value).__name__ == "Parameters"
    return is_parameters or type(value).__name__ in ("World", "Simulation", "Rules")


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, str | bytes | bytearray):
        return ()
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, _TABLES):
        return list(value)
    if isinstance(value, types.MethodType):
        return (value.__self__,)
    if isinstance(value, types.FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        return [*(frame.f_locals.values() if frame is not None else ()), value.gi_yieldfrom]
    if isinstance(value, msgspec.Struct):
        return [getattr(value, field) for field in value.__struct_fields__]
    return _attributes(value)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _attributes(value: Any) -> Iterator[Any]:
    yield from getattr(value, "__dict__", {}).values()
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            missing: Callable[[], None] | None = None
            yield getattr(value, name, missing)
