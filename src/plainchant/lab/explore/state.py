"""Where a run stands, as a digest: two runs with the same digest go on alike.

Theory of operation
-------------------
What matters is what the engines and their procedures can still see. The walk follows everything from there: objects by their
attributes, generators by where they stand and by those local variables that they will still read (along ``yield from``),
functions by their code and what they close over. Objects that are met twice are named by the order in which they were met, so
that sharing counts too. What a run has produced belongs to the state as far as ``checks`` will look at it. Times are absolute:
states are the same only at the same moment, which costs little, because timed protocols come back to the same moments, and is
never wrong.

A ``for`` loop keeps its place out of sight of Python; that it is in its variable is taken for granted (a list with the same
object twice would deceive us).
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import marshal
import types
from collections import deque
from collections.abc import Callable
from enum import Enum
from hashlib import blake2b
from random import Random
from typing import Any, Final

import msgspec

from ...core.memory import Connection, Entry, Header

_ATOMS: Final = frozenset({int, str, bytes, bool, float, type(None)})
_JUMPS: Final = frozenset({*dis.hasjrel, *dis.hasjabs})
_NEVER_GOES_ON: Final = frozenset(
    {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
)
_VALUES: Final = frozenset({Entry, Connection, Header})


@functools.cache
def _value(record: Entry | Connection | Header) -> Any:
    return msgspec.structs.astuple(record)


class Walk:
    """Objects as nested tuples of values. ``names``: what stands for itself; ``still``: types whose objects never change."""

    def __init__(self, names: dict[int, str], still: tuple[type, ...]) -> None:
        self._names = names
        self._still = still
        self._met: dict[int, int] = {}
        self._kept: list[Any] = []

    def plain(self, thing: Any) -> Any:
        kind = type(thing)
        if kind in _ATOMS:
            return thing
        plain = self.plain
        if kind is tuple:
            return ("t", *[each if type(each) in _ATOMS else plain(each) for each in thing])
        if kind is dict and not thing:
            return "{}"
        if kind in _VALUES:
            return _value(thing)
        name = self._names.get(id(thing))
        if name is not None:
            return name
        if kind in self._still:
            return kind.__name__
        if issubclass(kind, msgspec.Struct):
            return (kind.__name__, *[self.plain(getattr(thing, name)) for name in kind.__struct_fields__])
        met = self._met.get(id(thing))
        if met is not None:
            return ("met", met)
        self._met[id(thing)] = len(self._met)
        self._kept.append(thing)
        return _walker(kind)(self, thing)  # type: ignore[arg-type]  # types are hashable; a checker does not know it of type[Any]

    def _sequence(self, thing: Any) -> Any:
        return ("l", *[each if type(each) in _ATOMS else self.plain(each) for each in thing])

    def _mapping(self, thing: Any) -> Any:
        return ("d", *[(self.plain(key), self.plain(value)) for key, value in _in_order(thing).items()])

    def _set(self, thing: Any) -> Any:
        return ("s", *sorted((self.plain(each) for each in thing), key=repr))

    def _iterator(self, thing: Any) -> Any:
        return ("i", *[self.plain(each) for each in thing.__reduce__()[1:]])

    def _generator(self, thing: Any) -> Any:
        frame = thing.gi_frame
        if frame is None:
            return "over"
        values, at = frame.f_locals, frame.f_lasti
        read = [self.plain(values[name]) if name in values else None for name in _read_later(frame.f_code)[at]]
        return (thing.__qualname__, at, *read, self.plain(thing.gi_yieldfrom))

    def _function(self, thing: Any) -> Any:
        cells = [self.plain(cell.cell_contents) for cell in thing.__closure__ or ()]
        return (thing.__qualname__, *cells, self.plain(thing.__defaults__))

    def _method(self, thing: Any) -> Any:
        return ("m", thing.__func__.__qualname__, self.plain(thing.__self__))

    def _partial(self, thing: Any) -> Any:
        return ("p", self.plain(thing.func), self.plain(thing.args), self.plain(thing.keywords))

    def _constant(self, thing: Any) -> Any:
        return getattr(thing, "__qualname__", type(thing).__qualname__)

    def _choice(self, thing: Any) -> Any:
        return (type(thing).__name__, thing.name)

    def _object(self, thing: Any) -> Any:
        names = _attributes(type(thing))  # type: ignore[arg-type]  # as above
        if names is None:
            return (type(thing).__name__, *[each if type(each) in _ATOMS else self.plain(each) for each in vars(thing).values()])
        return (type(thing).__name__, *[self.plain(getattr(thing, name, None)) for name in names])


def digest(thing: Any, names: dict[int, str], still: tuple[type, ...] = ()) -> bytes:
    """The digest of a state; ``names``: objects, by identity, that are the same in all of them; ``still``: types of such."""
    # Version 2 of marshal has no back references, which depend on more than the value.
    return blake2b(marshal.dumps(Walk(names, still).plain(thing), 2), digest_size=16).digest()


def _in_order(thing: dict[Any, Any]) -> dict[Any, Any]:
    try:
        return dict(sorted(thing.items(), key=lambda item: item[0]))
    except TypeError:
        return thing


@functools.cache
def _walker(kind: Any) -> Callable[[Walk, Any], Any]:
    for kinds, walker in _WALKERS:
        if issubclass(kind, kinds):
            return walker
    return Walk._iterator if kind.__module__ == "builtins" else Walk._object


_WALKERS: Final[tuple[tuple[tuple[type, ...], Callable[[Walk, Any], Any]], ...]] = (
    ((list, deque), Walk._sequence),
    ((dict,), Walk._mapping),
    ((set, frozenset), Walk._set),
    ((types.GeneratorType,), Walk._generator),
    ((types.FunctionType,), Walk._function),
    ((types.MethodType,), Walk._method),
    ((functools.partial,), Walk._partial),
    ((Enum,), Walk._choice),
    ((type, types.BuiltinFunctionType, types.ModuleType, Random), Walk._constant),
)
"""How objects of these types are walked; the first that fits counts."""


@functools.cache
def _read_later(code: types.CodeType) -> dict[int, tuple[str, ...]]:
    """The local variables that are read after each instruction before they are written, by its offset; some more at the most.

    Variables that are shared with inner functions are always among them.
    """
    instructions = list(dis.get_instructions(code))
    places = {instruction.offset: number for number, instruction in enumerate(instructions)}
    handlers = [number for number, instruction in enumerate(instructions) if instruction.opname == "PUSH_EXC_INFO"]
    shared = frozenset(code.co_cellvars + code.co_freevars)
    before: list[frozenset[str]] = [shared] * (len(instructions) + 1)
    after: list[frozenset[str]] = [shared] * len(instructions)
    changed = True
    while changed:
        changed = False
        for number in range(len(instructions) - 1, -1, -1):
            instruction = instructions[number]
            follow = [*handlers]
            if instruction.opname not in _NEVER_GOES_ON:
                follow.append(number + 1)
            if instruction.opcode in _JUMPS:
                follow.append(places[instruction.argval])
            live = shared.union(*[before[place] for place in follow])
            names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
            needed = live
            if instruction.opname == "STORE_FAST":
                needed = live - {*names}
            elif "_FAST" in instruction.opname:
                needed = live | {*names}
            if live != after[number] or needed != before[number]:
                after[number], before[number], changed = live, needed, True
    return {instruction.offset: tuple(sorted(after[number])) for number, instruction in enumerate(instructions)}


@functools.cache
def _attributes(kind: Any) -> tuple[str, ...] | None:
    """The slots of a class, if it has no dictionary."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if kind.__dictoffset__:
        return None
    return tuple(name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))
