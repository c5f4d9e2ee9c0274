"""Packets from their declarations: as hypothesis strategies, out of dice, and real ones with a field bent.

Everything goes by msgspec's own description of the types (``msgspec.inspect``), so that nothing here knows any packet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from plainchant.core.model import MOST, Packet

from .dice import Dice

LONGEST: Final = 3
"""Items of a container that is made up."""
EDGES: Final = (
    0, 1, -1, 2, 3, 31, 64, 255, 256, 1000, 4096, 65_535, 1 << 20, (1 << 31) - 1, 1 << 32, 1 << 38, 1 << 40, 1 << 53,
    MOST - 1, MOST, -MOST, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
)  # fmt: skip
"""Numbers at which something changes, of ours and of machines."""


# --- strategies ---------------------------------------------------------------------------------------------------------


def packets_of(packet: type[Packet]) -> st.SearchStrategy[Packet]:
    """Packets of one type, with any values that the types of its fields allow."""
    return _strategy(inspect.type_info(packet))


def _integers(kind: inspect.IntType) -> st.SearchStrategy[int]:
    low = kind.ge if kind.ge is not None else -(2**63)
    high = kind.le if kind.le is not None else 2**64 - 1
    return st.integers(low, high) | st.integers(max(low, -3), min(high, 300))


_PLAIN: Final[dict[type[inspect.Type], st.SearchStrategy[Any]]] = {
    inspect.StrType: st.text(max_size=12),
    inspect.BytesType: st.binary(max_size=40),
    inspect.BoolType: st.booleans(),
    inspect.FloatType: st.floats(allow_nan=False),
    inspect.NoneType: st.none(),
}


def _strategy(kind: inspect.Type) -> st.SearchStrategy[Any]:
    match kind:
        case inspect.Metadata(type=inner):
            return _strategy(inner)
        case inspect.IntType():
            return _integers(kind)
        case inspect.StructType(cls=cls, fields=fields) | inspect.DataclassType(cls=cls, fields=fields):
            return st.tuples(*(_strategy(field.type) for field in fields)).map(lambda values: cls(*values))
        case inspect.TupleType(item_types=items):
            return st.tuples(*map(_strategy, items))
        case inspect.VarTupleType(item_type=item):
            return st.lists(_strategy(item), max_size=LONGEST).map(tuple)
        case inspect.ListType(item_type=item):
            return st.lists(_strategy(item), max_size=LONGEST)
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(_strategy(key), _strategy(value), max_size=LONGEST)
        case inspect.UnionType(types=types):
            return st.one_of(*map(_strategy, types))
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.EnumType(cls=cls):
            return st.sampled_from(list(cls))
        case _:
            return _PLAIN[type(kind)]


def integers_in(packet: type[Packet]) -> Iterator[tuple[str, inspect.IntType]]:
    """Every integer in a packet type, wherever in it, with where that is."""
    yield from _integers_in(inspect.type_info(packet), packet.__name__)


def _integers_in(kind: inspect.Type, where: str) -> Iterator[tuple[str, inspect.IntType]]:
    match kind:
        case inspect.IntType():
            yield where, kind
        case inspect.Metadata(type=inner):
            yield from _integers_in(inner, where)
        case inspect.StructType(fields=fields) | inspect.DataclassType(fields=fields):
            for field in fields:
                yield from _integers_in(field.type, f"{where}.{field.name}")
        case inspect.TupleType(item_types=items) | inspect.UnionType(types=items):
            for item in items:
                yield from _integers_in(item, where)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            yield from _integers_in(item, where)
        case inspect.DictType(key_type=key, value_type=value):
            yield from _integers_in(key, where)
            yield from _integers_in(value, where)


# --- out of dice --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Pool:
    """What is about: values near which hostile ones lie."""

    names: Sequence[str]
    """Of processes and groups, of strangers too."""
    numbers: Sequence[int]
    bodies: Sequence[bytes]


def make(packet: type[Packet], dice: Dice, pool: Pool) -> Packet:
    """A packet of a type with made-up values of its fields' types."""
    made: Packet = _value(inspect.type_info(packet), dice, pool)
    return made


def _value(kind: inspect.Type, dice: Dice, pool: Pool) -> Any:
    match kind:
        case inspect.Metadata(type=inner):
            return _value(inner, dice, pool)
        case inspect.IntType():
            return _number(dice, pool)
        case inspect.StrType():
            return dice.choose(pool.names)
        case inspect.BytesType():
            return dice.choose(pool.bodies) if dice.pick(2) else dice.some_bytes(20)
        case inspect.BoolType():
            return bool(dice.pick(2))
        case inspect.FloatType():
            return float(_number(dice, pool))
        case inspect.NoneType():
            return None
        case inspect.StructType(cls=cls, fields=fields) | inspect.DataclassType(cls=cls, fields=fields):
            return cls(*[_value(field.type, dice, pool) for field in fields])
        case inspect.TupleType(item_types=items):
            return tuple(_value(item, dice, pool) for item in items)
        case inspect.VarTupleType(item_type=item):
            return tuple(_value(item, dice, pool) for _ in range(dice.pick(LONGEST + 1)))
        case inspect.ListType(item_type=item):
            return [_value(item, dice, pool) for _ in range(dice.pick(LONGEST + 1))]
        case inspect.DictType(key_type=key, value_type=value):
            return {_value(key, dice, pool): _value(value, dice, pool) for _ in range(dice.pick(LONGEST + 1))}
        case inspect.UnionType(types=types):
            return _value(dice.choose(types), dice, pool)
        case inspect.LiteralType(values=values):
            return dice.choose(values)
        case _:
            raise TypeError(f"no values of {kind} can be made up yet: say how, here and in _strategy")


def _number(dice: Dice, pool: Pool) -> int:
    way = dice.pick(4)
    if way == 0 and pool.numbers:
        return dice.choose(pool.numbers)
    if way == 1 and pool.numbers:
        return dice.choose(pool.numbers) + dice.choose((1, -1, 2, 8, 100))
    return dice.choose(EDGES)


# --- real ones, bent ----------------------------------------------------------------------------------------------------

Path = tuple[int | str, ...]


def bend(packet: Packet, dice: Dice, pool: Pool, others: Sequence[Any] = ()) -> Packet:
    """A copy of a packet with some of its fields replaced: by edge values, values of other packets, or their parts."""
    bent: Any = packet
    for _ in range(1 + dice.pick(3)):
        paths = list(_paths(bent, ()))
        if not paths:
            return packet
        path = dice.choose(paths)
        bent = _replaced(bent, path, _bent(_at(bent, path), dice, pool, others))
    result: Packet = bent
    return result


def parts_of(value: Any) -> Iterator[Any]:
    """A value and everything in it."""
    yield value
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from parts_of(getattr(value, field))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from parts_of(item)


def _paths(value: Any, here: Path) -> Iterator[Path]:
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield (*here, field)
            yield from _paths(getattr(value, field), (*here, field))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield (*here, index)
            yield from _paths(item, (*here, index))


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step] if isinstance(step, int) else getattr(value, step)
    return value


def _replaced(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    step, *rest = path
    inner = _replaced(_at(value, (step,)), tuple(rest), new)
    if isinstance(step, int):
        return (*value[:step], inner, *value[step + 1 :])
    return msgspec.structs.replace(value, **{step: inner})


def _bent(value: Any, dice: Dice, pool: Pool, others: Sequence[Any]) -> Any:
    same = [other for other in others if type(other) is type(value)]
    if same and dice.pick(3) == 0:
        return dice.choose(same)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + dice.choose((1, -1, 2, 16, 1000)) if dice.pick(2) else _number(dice, pool)
    if isinstance(value, str):
        return dice.choose(pool.names)
    if isinstance(value, bytes):
        return dice.choose((b"", value[: len(value) // 2], value * 2, dice.some_bytes(20), *pool.bodies))
    if isinstance(value, tuple):
        return dice.choose((
            (), value[1:], value[:1] * 2, (*value, *value), value[::-1],
            *([(*value, dice.choose(same))] if same else []),
        ))  # fmt: skip
    if isinstance(value, msgspec.Struct) and dice.pick(2):
        return None
    return value
