"""A trace for reading: one line an event, filtered, in the order in which things happened.

Within a process that order is the history's. Between processes it is that of the simulator's clock where there is one,
and else that of the processes' own clocks, which is a guess: clocks differ and step. A clock that steps back never
reorders a history, because a row counts as no earlier than the row before it.

A line looks so::

        12.345 ms  p2  deliver  g view 1  g/p1/7  32 B, rank 9
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.model import MS, UsageError
from ..protocols.registry import story_of
from ..protocols.story import Story

_DETAIL_MAX: Final = 120
_ORDER: Final = [("run", "ascending"), ("process", "ascending"), ("index", "ascending")]

_TIME_OF_DAY: Final = 10**18
"""A clock that reads more than this (ns) tells the time since 1970, as those of live processes do."""


def lines(
    table: pa.Table,
    *,
    process: str | None = None,
    kind: str | None = None,
    group: str | None = None,
    message: str | None = None,
    run: str | None = None,
    first: int | None = None,
    last: int | None = None,
) -> Iterator[str]:
    """The listing of a trace. Filters combine; ``message`` is ``"group/sender/seq"``, ``first`` and ``last`` as for ``between``.

    With several runs in the listing, each begins with a line that names it.

    >>> from plainchant.trace import TraceBuffer
    >>> trace = TraceBuffer()
    >>> trace.history("r0", "p1").rows.append(("send", 0, 1500000, "g", None, "p1", 7, None, None, None, 32, None))
    >>> list(lines(trace.table()))
    ['       1.500 ms  p1  send     g         g/p1/7  32 B']
    """
    wanted: dict[str, Any] = {"process": process, "kind": kind, "group": group, "run": run}
    if message is not None:
        names = parse_message(message)
        if group not in (None, names["group"]):
            return
        wanted.update(names)
    begins = beginnings(table)
    chosen = select(between(table, first, last), {name: value for name, value in wanted.items() if value is not None})
    chosen = in_order(chosen)
    several = pc.count_distinct(chosen.column("run")).as_py() > 1
    stories = stories_in(table)
    widths = {name: _width(chosen, name) for name in ("process", "kind")}
    current = None
    for batch in chosen.to_batches(max_chunksize=8192):
        for row in batch.to_pylist():
            if several and row["run"] != current:
                current = row["run"]
                yield f"run {current}"
            yield line(
                row,
                process_width=widths["process"],
                kind_width=widths["kind"],
                begin=begins.get(row["run"], 0),
                story=stories.get(row["run"], Story),
            )


def stories_in(table: pa.Table) -> dict[str, type[Story]]:
    """The story of each run's protocol, by the first of its ``start`` rows."""
    starts = table.filter(pc.equal(table.column("kind"), "start")).select(["run", "detail"])
    found: dict[str, type[Story]] = {}
    for run, detail in zip(starts.column("run").to_pylist(), starts.column("detail").to_pylist(), strict=True):
        if run not in found:
            decoded = decode(detail)
            found[run] = story_of(decoded.get("protocol") if isinstance(decoded, dict) else None)
    return found


def beginnings(table: pa.Table) -> dict[str, int]:
    """When runs began that have times of the day: their moments are told from there on."""
    told = table.filter(pc.and_(pc.is_null(table.column("true_time")), pc.greater(table.column("time"), _TIME_OF_DAY)))
    first = told.group_by("run").aggregate([("time", "min")])
    return dict(zip(first.column("run").to_pylist(), first.column("time_min").to_pylist(), strict=True))


def between(table: pa.Table, first: int | None, last: int | None) -> pa.Table:
    """The rows that happened from ``first`` to ``last`` (ns, as the listing counts them, both included)."""
    if first is None and last is None:
        return table
    table = table.sort_by(_ORDER)
    begins = beginnings(table)
    when = moments(table) - np.array([begins.get(run, 0) for run in table.column("run").to_pylist()], dtype=np.int64)
    wanted = np.ones(len(when), dtype=np.bool_)
    wanted &= when >= first if first is not None else True
    wanted &= when <= last if last is not None else True
    return table.filter(pa.array(wanted))


def parse_message(text: str) -> dict[str, Any]:
    """The columns that name a message.

    >>> parse_message("g/p1/7")
    {'group': 'g', 'sender': 'p1', 'seq': 7}
    """
    parts = text.rsplit("/", 2)
    if len(parts) != 3 or not parts[2].isascii() or not parts[2].isdigit():
        raise UsageError(f'{text!r} does not name a message: write group/sender/number, such as "g/p1/7"')
    return {"group": parts[0], "sender": parts[1], "seq": int(parts[2])}


def select(table: pa.Table, wanted: dict[str, Any]) -> pa.Table:
    """The rows that have all of these values."""
    for name, value in wanted.items():
        table = table.filter(pc.equal(table.column(name), value))
    return table


def in_order(table: pa.Table) -> pa.Table:
    """The rows as they happened: run by run, by ``moments``, histories kept in order."""
    table = table.sort_by(_ORDER)
    table = table.append_column("_moment", pa.array(moments(table)))
    return table.sort_by([_ORDER[0], ("_moment", "ascending"), *_ORDER[1:]]).drop_columns(["_moment"])


def moments(table: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """When each row of a table that is sorted by (run, process, index) happened: the global clock where there is one,
    else the process's own, never earlier than the row before it."""
    clock = pc.coalesce(table.column("true_time"), table.column("time"))
    times: np.ndarray[Any, np.dtype[np.int64]] = clock.to_numpy().astype(np.int64)
    begins = np.zeros(table.num_rows, dtype=np.bool_)
    for name in ("run", "process"):
        codes = table.column(name).combine_chunks().dictionary_encode().indices.to_numpy()
        begins[1:] |= codes[1:] != codes[:-1]
    bounds = [0, *np.flatnonzero(begins).tolist(), table.num_rows]
    for first, after in pairwise(bounds):
        times[first:after] = np.maximum.accumulate(times[first:after])
    return times


def line(row: dict[str, Any], *, process_width: int = 0, kind_width: int = 0, begin: int = 0, story: type[Story] = Story) -> str:
    """One event as one line, in the words of its protocol's story."""
    moment = (row["time"] if row["true_time"] is None else row["true_time"]) - begin
    where = row["group"] or ""
    if row["view"] is not None:
        where += f" view {row['view']}"
    fields = [
        f"{moment / MS:12.3f} ms",
        f"{row['process']:<{process_width}}",
        f"{row['kind']:<{kind_width}}",
        f"{where:<8}",
        name_of(row),
        about(row, story),
    ]
    return "  ".join(field for field in fields if field).rstrip()


def name_of(row: dict[str, Any]) -> str:
    """The message of a row as group/sender/seq, as far as it has one."""
    if row["seq"] is not None:
        return f"{row['group']}/{row['sender']}/{row['seq']}"
    return f"of {row['sender']}" if row["sender"] is not None else ""


def about(row: dict[str, Any], story: type[Story]) -> str:
    """The rest of a row for people, short."""
    parts = []
    if row["members"] is not None:
        parts.append("members " + " ".join(str(name) for name in row["members"]))
    if row["size"] is not None:
        parts.append(f"{row['size']} B")
    for name in ("rank", "packets"):
        if row[name] is not None:
            parts.append(f"{name} {row[name]}")
    if row["deadline"] is not None:
        parts.append(f"deadline {row['deadline'] / MS:.3f} ms")
    if row["detail"] is not None:
        parts.append(_particular(row, story) or summarise(row["detail"]))
    return ", ".join(part for part in parts if part)


def _particular(row: dict[str, Any], story: type[Story]) -> str | None:
    """What its protocol's story says about a row, and why."""
    detail = decode(row["detail"])
    if not isinstance(detail, dict):
        return None
    does, because = story.act(row["kind"], detail, row["sender"]), story.ground(row["kind"], detail)
    return _cut(f"{does} ({because})" if does is not None and because is not None else does or "") or None


def summarise(detail: str) -> str:
    """The detail of a row in a few words: its sentence if it has one, else its values.

    >>> summarise('{"reason":"silent","text":"p2 was silent for 50 ms"}')
    'p2 was silent for 50 ms'
    >>> summarise('{"round":2,"of":["p1","p2"]}')
    'round=2 of=p1,p2'
    """
    decoded = decode(detail)
    if isinstance(decoded, dict) and isinstance(decoded.get("text"), str):
        text = decoded["text"]
    elif isinstance(decoded, dict):
        # The line may be cut: what is short comes first, what is empty says nothing.
        told = [(key, value) for key, value in decoded.items() if value not in ([], {}, None)]
        told.sort(key=lambda item: isinstance(item[1], list) + 2 * isinstance(item[1], dict))
        text = " ".join(f"{key}={_brief(value)}" for key, value in told)
    else:
        text = _brief(decoded)
    return _cut(text)


def _cut(text: str) -> str:
    """Text for one line, as much of it as there is room for."""
    text = " ".join(text.split())
    return text if len(text) <= _DETAIL_MAX else text[: _DETAIL_MAX - 3] + "..."


def decode(detail: str | None) -> Any:
    """The value of a detail; text that is not JSON stands for itself, because showing is not validating."""
    if detail is None:
        return None
    try:
        return msgspec.json.decode(detail)
    except (msgspec.MsgspecError, RecursionError):
        return detail


def _brief(value: Any) -> str:
    if isinstance(value, list):
        between = "|" if any(isinstance(element, list) for element in value) else ","
        return between.join(_brief(element) for element in value)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _width(table: pa.Table, name: str) -> int:
    longest = pc.max(pc.utf8_length(table.column(name))).as_py() or 0
    # Room for the commonest kind, so that listings of different selections look alike.
    return max(longest, len("deliver")) if name == "kind" else longest
