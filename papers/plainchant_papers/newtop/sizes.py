"""Claims 32 and 36 (4.6, 5.5 to 5.7): what order costs on the wire, field by field.

Theory of operation
-------------------
The packets are the engine's own. In a structure of overlapping groups everybody sends, in each of its groups; then, wave after
wave, those that are in several groups send again, until everybody can have heard of everybody; then the first sends once more,
in its first group. That last message depends on something of everybody, so that its vectors are as long as they get. It is
encoded by the protocol's codec, and every field on its own.

Two structures: *one on another* (all groups have the same members: as much overlap as can be; to begin with everybody sends in
the first group and one member in each) and *ring* (each group shares one member with the next, the last with the first: as
little as a cycle of groups can have).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from plainchant.core.model import MS, SECOND, Duration, Packet, ProcessId
from plainchant.core.wire import HEADER_BYTES, Codec
from plainchant.protocols.newtop.packets import PACKETS, Data
from plainchant.scenario.model import Scenario, Workload

from ..claims import Context, Figure, Measured, Series, Table, judge
from ..observe import Observer
from .structures import EVERY_ORDER, Groups, clique, members_of, ring, static

ONE: Final = "one on another"
_WAVE: Final = 20 * MS  # Between two waves: longer than it takes until everything of one is delivered.
_SILENCE: Final[Mapping[str, Any]] = {"silence_by": "timeout", "silence": Duration(1 * MS)}
_FIELDS: Final = tuple(name for name in Data.__struct_fields__ if name != "batch")


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """How many groups of how many members overlap, and how."""

    structure: str
    size: int
    groups: int
    order: str

    def make(self) -> Groups:
        if self.structure == "ring" and self.groups > 1:
            return ring(self.groups, self.size)
        return clique(self.groups, self.size)


@dataclasses.dataclass(frozen=True, slots=True)
class Bytes:
    """The last message of a structure, on the wire."""

    shape: Shape
    whole: int  # Bytes of the packet, without its content.
    fields: Mapping[str, int]
    numbers: int  # Numbers in its vector.
    processes: int
    formula: int  # Numbers that 5.5 to 5.7 count for this structure.

    @property
    def for_order(self) -> int:
        """Bytes that are there for the order: the block and the vector."""
        return self.fields["block"] + self.fields["vector"]


class _Last(Observer):
    """The last message that the first process sent."""

    packet: Data | None = None

    def sending(self, me: ProcessId, to: Sequence[ProcessId], packet: Packet) -> None:
        if isinstance(packet, Data) and me == "p1":
            self.packet = packet


def scenario_of(shape: Shape) -> Scenario:
    groups = shape.make()
    waves = _waves(shape, groups)
    workload = tuple(
        Workload(senders=(name,), group=group, rate=1.0, count=1, size=16, start=Duration(number * _WAVE))
        for number, wave in enumerate(waves)
        for name, group in wave
    )
    never = Duration(3600 * SECOND)
    parameters = {"blocks": 0, "stability_after": never, "probe_after": never, **_SILENCE, **EVERY_ORDER[shape.order]}
    return static(groups, *workload, seconds=len(waves) * _WAVE / SECOND, drain=0, **parameters)


def _waves(shape: Shape, groups: Groups) -> list[list[tuple[str, str]]]:
    """Who sends where, all of a wave at once."""
    of: dict[str, list[str]] = {}
    for group, members in groups.items():
        for name in members:
            of.setdefault(name, []).append(group)
    first = next(iter(groups))
    last = [("p1", first)]
    if shape.structure == "ring":
        everybody = [(name, group) for name, mine in of.items() for group in mine]
        shared = [(name, group) for name, mine in of.items() if len(mine) > 1 for group in mine]
        return [everybody, *[shared] * (len(groups) // 2 + 1), last]
    return [[(name, first) for name in of], [("p1", group) for group in groups], last]


def bytes_of(shape: Shape) -> Bytes:
    observer = _Last()
    observer.run(scenario_of(shape))
    packet = observer.packet
    assert packet is not None
    empty = msgspec.structs.replace(packet, batch=msgspec.structs.replace(packet.batch, body=b""))
    groups = shape.make()
    fields = {"header": HEADER_BYTES, **{name: len(msgspec.msgpack.encode(getattr(packet, name))) for name in _FIELDS}}
    numbers = sum(len(numbers) for _, numbers in packet.vector)
    return Bytes(shape, len(Codec(PACKETS).encode(empty)), fields, numbers, len(members_of(groups)), formula(shape, groups))


def formula(shape: Shape, groups: Groups) -> int:
    """Numbers that a message carries besides its block, as the thesis counts them."""
    if shape.order in ("total", "slow"):
        return 0
    if shape.order == "relative":
        return shape.size + len(groups) - 1
    return len(members_of(groups)) if shape.order == "fast, compact" else sum(len(members) for members in groups.values())


def table(context: Context) -> list[Bytes]:
    sizes = context.of((2, 8, 16), (2, 4, 8, 16, 32, 64))
    groups = context.of((1, 2, 4), (1, 2, 4, 8, 16))
    most = context.of(64, 512)
    shapes = [
        Shape(structure, size, count, order)
        for structure in (ONE, "ring")
        for size in sizes
        for count in groups
        for order in EVERY_ORDER
        if structure != "ring" or (count > 2 and count * (size - 1) <= most)
    ]
    return context.sweep(bytes_of, shapes)


def _rows(found: Sequence[Bytes], structure: str, value: str) -> list[tuple[Any, ...]]:
    cells: dict[tuple[int, int], dict[str, Any]] = {}
    for one in found:
        if one.shape.structure == structure:
            cells.setdefault((one.shape.size, one.shape.groups), {})[one.shape.order] = getattr(one, value)
    return [(size, groups, *(row[order] for order in EVERY_ORDER)) for (size, groups), row in cells.items()]


def constant(context: Context) -> Measured:
    found = context.once("bytes", table)
    total = [one for one in found if one.shape.order == "total"]
    numbers = {one.numbers for one in total}
    vector = {one.fields["vector"] for one in total}
    block = sorted({one.fields["block"] for one in total})
    sizes = [one.shape.size for one in total]
    groups = [one.shape.groups for one in total]
    largest = max(found, key=lambda one: one.for_order)
    columns = ("members", "groups", *EVERY_ORDER)
    title = "Bytes for a message's order: groups of the same 16 members"
    series = tuple(_line(found, order) for order in EVERY_ORDER)
    return Measured(
        f"groups of {min(sizes)} to {max(sizes)}, {min(groups)} to {max(groups)} of them: a message in total order carries "
        f"{max(numbers)} numbers besides its block ({max(vector)} byte says so); the block takes {max(block)} here, and more as "
        f"its value grows; the most for any order: {largest.for_order:,} bytes ({largest.shape.order}, "
        f"{largest.shape.groups} groups of {largest.shape.size})",
        judge(holds=numbers == {0} and vector == {1} and max(block) <= 5),
        "one number for all groups, whatever their members; a MessagePack integer is longer the larger it is, and no longer "
        "than nine bytes ever",
        [
            {**dataclasses.asdict(one.shape), "whole": one.whole, "numbers": one.numbers, "formula": one.formula, **one.fields}
            for one in found
        ],
        (Figure("bytes-by-groups", title, "groups", "bytes of block and vector", series),),
        (
            Table("bytes for the order (block and vector), groups on one another", columns, _rows(found, ONE, "for_order")),
            Table("bytes for the order (block and vector), groups in a ring", columns, _rows(found, "ring", "for_order")),
            Table("field by field, the largest group and most groups on one another", ("field", *EVERY_ORDER), _by_field(found)),
        ),
    )


def _line(found: Sequence[Bytes], order: str) -> Series:
    chosen = [one for one in found if (one.shape.structure, one.shape.size, one.shape.order) == (ONE, 16, order)]
    return Series(order, [one.shape.groups for one in chosen], [one.for_order for one in chosen])


def _by_field(found: Sequence[Bytes]) -> list[tuple[Any, ...]]:
    one_on_another = [one for one in found if one.shape.structure == ONE]
    most = max((one.shape.size, one.shape.groups) for one in one_on_another)
    chosen = {one.shape.order: one for one in one_on_another if (one.shape.size, one.shape.groups) == most}
    rows: list[tuple[Any, ...]] = [
        (field, *(chosen[order].fields[field] for order in EVERY_ORDER)) for field in ("header", *_FIELDS)
    ]
    return [*rows, ("whole packet, without content", *(chosen[order].whole for order in EVERY_ORDER))]


def overlapping(context: Context) -> Measured:
    found = context.once("bytes", table)
    pairs: dict[tuple[str, int, int], dict[str, Bytes]] = {}
    for one in found:
        pairs.setdefault((one.shape.structure, one.shape.size, one.shape.groups), {})[one.shape.order] = one
    several = {key: row for key, row in pairs.items() if key[2] > 1}
    smaller = sum(row["fast, compact"].numbers < row["cbcast"].numbers for row in several.values())
    alone = [row for key, row in pairs.items() if key[2] == 1]
    equal = all(row["fast, compact"].numbers == row["cbcast"].numbers for row in alone)
    exact = all(one.numbers == one.formula for one in found)
    larger = [row for row in several.values() if row["fast, compact"].fields["vector"] >= row["cbcast"].fields["vector"]]
    columns = ("members", "groups", *EVERY_ORDER)
    return Measured(
        f"GLDV has fewer numbers than CBCAST's vectors in {smaller} of {len(several)} structures of several groups, as many "
        f"in single groups: {'yes' if equal else 'no'}; numbers are as 5.5 to 5.7 count them: "
        f"{'in all' if exact else 'not in all'} {len(found)}. In bytes it is larger in {len(larger)} of {len(several)}",
        judge(
            holds=smaller == len(several) and equal and exact and not larger, nearly=smaller == len(several) and equal and exact
        ),
        "who is in several groups has one number in GLDV and one for each group in the others. But GLDV needs a name beside each "
        "number, where a group's vector goes by the order of its view; where groups overlap little that costs more than it saves",
        [
            {"structure": key[0], "members": key[1], "groups": key[2], **{order: one.numbers for order, one in row.items()}}
            for key, row in pairs.items()
        ],
        (),
        (
            Table("numbers in a message besides its block, groups on one another", columns, _rows(found, ONE, "numbers")),
            Table("numbers in a message besides its block, groups in a ring", columns, _rows(found, "ring", "numbers")),
        ),
    )
