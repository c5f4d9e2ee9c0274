"""Message sets for ``plainchant schedule``: TOML or CSV, read by declarations, with errors that name the line."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Final

from ..core.model import Duration, ScenarioError, UsageError, declarations, format_duration, parameter
from ..protocols.rtcast.analysis import Demand
from ..protocols.rtcast.parameters import Parameters
from ..protocols.rtcast.schedulability import MessageSet
from ..scenario.load import apply_option, parse_document, read_text
from ..scenario.locate import Path
from ..scenario.read import Reader, nearest

_EXAMPLES: Final = "--set ring.hold=8ms or --set message.0.deadline=300ms"
_NUMBERS: Final = ("size",)
"""Columns of a CSV file that hold numbers."""


@dataclasses.dataclass(frozen=True, slots=True)
class RingTable:
    """What ``[ring]`` may say besides the parameters of rtcast."""

    members: tuple[str, ...] = parameter(
        (), "the nodes in the order of the ring; without it, those of the messages, as they come", example='["p1", "p2"]'
    )
    max_packet: int = parameter(1400, "bytes of messages that a packet may carry", unit="bytes", minimum=64, maximum=65000)
    token: Duration = parameter(Duration(0), "P, if it is not to be reckoned from the other values", unit="duration", minimum=0)


@dataclasses.dataclass(frozen=True, slots=True)
class MessageTable:
    """What ``[[message]]`` may say."""

    name: str = parameter("", "what the message is called")
    node: str = parameter("", "who sends it")
    size: int = parameter(0, "bytes of a message at the most", unit="bytes", minimum=0, maximum=2**31)
    cost: Duration = parameter(Duration(0), "C: how long it takes to send one; instead of size", unit="duration", minimum=1)
    period: Duration = parameter(
        Duration(0), "the shortest time between two of them; leave it out for one message alone", unit="duration", minimum=1
    )
    deadline: Duration = parameter(
        Duration(0), "how long after its hand-over a message is delivered everywhere, at the latest", unit="duration", minimum=1
    )


def load(file: FilePath, overrides: Sequence[str]) -> MessageSet:
    """Reads a file; ``overrides`` are ``key=value`` as after ``--set``."""
    text = read_text(file, "message set", "write one, as `plainchant schedule --help` shows").replace("\r\n", "\n")
    options: dict[Path, str] = {}
    reader: Reader
    if file.suffix.lower() == ".csv":
        document, places = _table(text, str(file))
        reader = _TableReader(places, str(file), options)
    else:
        document = parse_document(text, str(file), "message set")
        reader = Reader(text, str(file), options)
    for override in overrides:
        apply_option(document, override, options, _EXAMPLES)
    return _MessageSet(reader).read(document)


class _MessageSet:
    """Makes a message set of one document."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self, document: dict[str, Any]) -> MessageSet:
        reader = self._reader
        top = reader.table(document, (), ("ring", "message"), "in a message set")
        if not top.get("message"):
            reader.fail((), "there are no messages; write [[message]] with name, node, size and deadline")
        ring, parameters = self._ring(top.get("ring", {}))
        messages = reader.tables(MessageTable, top["message"], ("message",))
        for number, (message, given) in enumerate(zip(messages, top["message"], strict=True)):
            self._check(message, given, ("message", number))
        members = ring.members or tuple(dict.fromkeys(message.node for message in messages))
        demands: dict[str, list[Demand]] = {member: [] for member in members}
        for number, message in enumerate(messages):
            self._place(message, demands, ("message", number), "size" in top["message"][number])
        for name in parameters.holds:
            if name not in members:
                reader.fail(("ring", "holds", name), f'there is no node "{name}" on the ring; {nearest(name, members)}')
        return MessageSet(parameters, ring.max_packet, ring.token, demands)

    def _ring(self, given: Any) -> tuple[RingTable, Parameters]:
        reader = self._reader
        own = {field.name for field, _ in declarations(RingTable)}
        known = [*own, *(field.name for field, _ in declarations(Parameters))]
        table = reader.table(given, ("ring",), known, "in [ring]")
        mine = {key: value for key, value in table.items() if key in own}
        ring = RingTable(**reader.fields(RingTable, mine, ("ring",), "in [ring]"))
        for number, member in enumerate(ring.members):
            if not member or member in ring.members[:number]:
                reader.fail(("ring", "members", number), f'ring.members has "{member}" twice; name every node once')
        rest = {key: value for key, value in table.items() if key not in own}
        values = reader.fields(Parameters, rest, ("ring",), "in [ring]")
        try:
            return ring, Parameters(**values)
        except UsageError as error:
            key = next((key for key in ("holds", "paths", "idle_hold") if key in str(error) and key in values), None)
            reader.fail(("ring", key) if key else ("ring",), str(error))

    def _check(self, message: MessageTable, given: Mapping[str, Any], path: Path) -> None:
        """What a message must say, and what does not go together."""
        fail = self._reader.fail
        called = f'message "{message.name}"' if message.name else "a message"
        for key, example in (("name", '"alarm"'), ("node", '"p1"'), ("deadline", '"200ms"')):
            if key not in given or given[key] == "":
                fail(path, f"{called} has no {key}; write {key} = {example}")
        if ("size" in given) == ("cost" in given):
            both = "both size and cost" if "size" in given else "neither size nor cost"
            fail(path, f'{called} has {both}; write size = 64 (bytes) or cost = "120us" (how long it takes to send)')
        if "period" in given and message.deadline > message.period:
            fail(
                (*path, "deadline"),
                f"{called} has a deadline ({format_duration(message.deadline)}) longer than its period "
                f"({format_duration(message.period)}); a deadline must end before the next message comes: shorten it, or leave "
                "period out if there is one message only",
            )

    def _place(self, message: MessageTable, demands: Mapping[str, list[Demand]], path: Path, has_size: bool) -> None:
        fail = self._reader.fail
        if message.node not in demands:
            fail((*path, "node"), f'there is no node "{message.node}" in ring.members; {nearest(message.node, demands)}')
        of_node = demands[message.node]
        if any(demand.name == message.name for demand in of_node):
            fail((*path, "name"), f'node {message.node} has two messages "{message.name}"; give one of them another name')
        cost = None if has_size else int(message.cost)
        of_node.append(Demand(message.name, message.deadline, message.period, message.size, cost))


class _TableReader(Reader):
    """A reader that knows where the rows of a table are, instead of a TOML text's keys."""

    def __init__(self, places: dict[Path, int], filename: str, options: Mapping[Path, str]) -> None:
        super().__init__("", filename, options)
        self._places = places

    @functools.cached_property
    def _lines(self) -> dict[Path, int]:
        return self._places


def _table(text: str, filename: str) -> tuple[dict[str, Any], dict[Path, int]]:
    """The messages of a CSV text, whose first row names the columns, as a TOML file would have them, and their lines."""
    rows = csv.reader(io.StringIO(text))
    columns = [column.strip() for column in next(rows, [])]
    known = [field.name for field, _ in declarations(MessageTable)]
    for column in columns:
        if column not in known:
            raise ScenarioError(f'{filename}:1: unknown column "{column}"; {nearest(column, known)}')
        if columns.count(column) > 1:
            raise ScenarioError(f'{filename}:1: there are two columns "{column}"; remove one of them')
    messages: list[dict[str, Any]] = []
    places: dict[Path, int] = {}
    for row in rows:
        if not any(cell.strip() for cell in row):
            continue
        if len(row) > len(columns):
            raise ScenarioError(f"{filename}:{rows.line_num}: {len(row)} cells, and there are {len(columns)} columns")
        place: Path = ("message", len(messages))
        places[place] = rows.line_num
        cells = {column: cell.strip() for column, cell in zip(columns, row, strict=False) if cell.strip()}
        # A number where there has to be one, if it is one; everything else as it is, for the reader to judge.
        is_number = {column: column in _NUMBERS and cell.lstrip("-").isdecimal() for column, cell in cells.items()}
        messages.append({column: int(cell) if is_number[column] else cell for column, cell in cells.items()})
    return {"message": messages}, places
