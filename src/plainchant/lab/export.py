"""A trace for other people's tools: ShiViz (which process knew what) and Chrome's trace viewer or Perfetto (when it happened).

ShiViz draws happened-before from vector clocks: each event counts one at its process, and a ``deliver`` also knows all
that its ``send`` knew. Those are the only edges between processes, as everywhere in this project. To compute them a
history is followed until it delivers something whose ``send`` has not been reached; then another history goes on. That
works without trusting any clock. (A trace in which deliveries wait for each other in a circle is of no run that can
have been; an edge is left out where the circle closes, so that one can still look at it.)

Chrome's format has a row a process. Sends and deliveries are thin slices, because arrows can only be tied to slices;
everything else is an instant; what has a length (``block`` to ``unblock``, a fault with a ``length`` in its detail, in
ns) is a span above the row, named for the ``fault`` in the detail.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

import msgspec
import pyarrow as pa

from ..core.model import US
from ..protocols.story import Story
from ..trace.schema import MESSAGE_KINDS
from .show import about, decode, moments, name_of, stories_in

SHIVIZ_EVENT: Final = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"
"""The expression by which ShiViz reads an event: first line of the file."""
SHIVIZ_RUN: Final = r"^=== (?<trace>.*) ===$"
"""The expression by which ShiViz tells several runs apart: second line of the file."""

_SLICE_NS: Final = US
_PLACE: Final = [("run", "ascending"), ("process", "ascending"), ("index", "ascending")]

_Event = dict[str, Any]
_Message = tuple[str, str, int]


def to_shiviz(table: pa.Table, stories: Mapping[str, type[Story]] | None = None) -> str:
    """The log for ShiViz (https://bestchai.bitbucket.io/shiviz/).

    Write it to a file, choose "Upload log" there and select the file: its first two lines tell ShiViz how to read it.
    ShiViz is made for hundreds of events rather than millions: filter the table first, whole runs or kinds. ``stories`` are
    those of its runs (``show.stories_in``), if the table has lost its ``start`` rows.
    """
    out = [SHIVIZ_EVENT, SHIVIZ_RUN, ""]
    rows = table.sort_by(_PLACE).to_pylist()
    stories = stories_in(table) if stories is None else stories
    for run, of_run in groupby(rows, key=lambda row: row["run"]):
        out.append(f"=== {_one_line(run)} ===")
        histories = {name: list(events) for name, events in groupby(of_run, key=lambda row: row["process"])}
        for row, clock in vector_clocks(histories):
            known = {_host(name): count for name, count in sorted(clock.items())}
            out.append(f"{_host(row['process'])} {msgspec.json.encode(known).decode()}")
            out.append(_one_line(f"{row['kind']} {name_of(row)} {about(row, stories.get(run, Story))}"))
    return "\n".join(out) + "\n"


def vector_clocks(histories: dict[str, list[_Event]]) -> Iterator[tuple[_Event, dict[str, int]]]:
    """The events of one run in an order that respects happened-before, each with its vector clock."""
    will_send = {_message(row) for rows in histories.values() for row in rows if row["kind"] == "send"}
    sent: dict[_Message, dict[str, int]] = {}
    clocks: dict[str, dict[str, int]] = {name: {} for name in histories}
    waiting: dict[_Message, list[str]] = {}
    queues = {name: deque(rows) for name, rows in histories.items()}
    runnable = deque(sorted(histories))
    while any(queues.values()):
        if not runnable:
            # A circle: the first history that waits goes on without what it waits for.
            message = min(waiting, key=lambda m: waiting[m][0])
            will_send.discard(message)
            runnable.extend(waiting.pop(message))
        name = runnable.popleft()
        queue, clock = queues[name], clocks[name]
        while queue:
            row = queue[0]
            message = _message(row)
            if row["kind"] == "deliver":
                if message in sent:
                    _learn(clock, sent[message])
                elif message in will_send:
                    waiting.setdefault(message, []).append(name)
                    break
            queue.popleft()
            clock[name] = clock.get(name, 0) + 1
            if row["kind"] == "send":
                sent[message] = dict(clock)
                runnable.extend(waiting.pop(message, ()))
            yield row, dict(clock)


def to_chrome(table: pa.Table) -> str:
    """The trace as Chrome trace event JSON: open it at https://ui.perfetto.dev or in chrome://tracing.

    A run is a process of that format, and a process a thread of it.
    """
    table = table.sort_by(_PLACE)
    rows = table.append_column("_moment", pa.array(moments(table))).to_pylist()
    events: list[_Event] = []
    for pid, (run, of_run) in enumerate(groupby(rows, key=lambda row: row["run"]), start=1):
        events.extend(_chrome_run(pid, run, list(of_run)))
    return msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": events}).decode()


def _chrome_run(pid: int, run: str, rows: list[_Event]) -> Iterator[_Event]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": f"run {run}"}}
    tids: dict[str, int] = {}
    for tid, (process, history) in enumerate(groupby(rows, key=lambda row: row["process"]), start=1):
        tids[process] = tid
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": process}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}
        yield from _chrome_history(pid, tid, list(history))
    yield from _chrome_arrows(pid, tids, rows)


def _chrome_history(pid: int, tid: int, rows: list[_Event]) -> Iterator[_Event]:
    """A process's slices, instants and spans."""
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        event = _chrome_event(pid, tid, row)
        if row["kind"] in MESSAGE_KINDS:
            # Slices of a thread may not overlap unless one is inside the other: it ends before the next event begins.
            gap = _SLICE_NS if following is None else following["_moment"] - row["_moment"]
            yield event | {"ph": "X", "dur": min(gap, _SLICE_NS) / US}
        else:
            yield event | {"ph": "i", "s": "t"}
    yield from _chrome_spans(pid, tid, rows)


def _chrome_spans(pid: int, tid: int, rows: list[_Event]) -> Iterator[_Event]:
    """What lasts: blocks until they are lifted (or the history ends), faults for as long as they say."""
    open_blocks: dict[str | None, _Event] = {}
    for row in rows:
        if row["kind"] == "block":
            open_blocks.setdefault(row["group"], row)
        elif row["kind"] == "unblock" and row["group"] in open_blocks:
            yield from _chrome_span(pid, tid, "block", open_blocks.pop(row["group"]), row["_moment"])
        elif row["kind"] == "fault":
            detail = decode(row["detail"])
            length = detail.get("length") if isinstance(detail, dict) else None
            if isinstance(length, int) and length > 0:
                yield from _chrome_span(pid, tid, str(detail.get("fault", "fault")), row, row["_moment"] + length)
    for row in open_blocks.values():
        yield from _chrome_span(pid, tid, "block", row, rows[-1]["_moment"])


def _chrome_span(pid: int, tid: int, name: str, row: _Event, until: int) -> Iterator[_Event]:
    # Spans of one process may overlap, which slices must not: they are the format's asynchronous events.
    common = {"cat": "span", "name": name, "pid": pid, "tid": tid, "id": f"{row['process']}/{row['index']}"}
    yield common | {"ph": "b", "ts": row["_moment"] / US, "args": _chrome_args(row)}
    yield common | {"ph": "e", "ts": until / US}


def _chrome_arrows(pid: int, tids: dict[str, int], rows: list[_Event]) -> Iterator[_Event]:
    """An arrow from each send to each of its deliveries, with an id of its own, as the format wants it."""
    sends = {_message(row): row for row in rows if row["kind"] == "send"}
    for row in rows:
        send = sends.get(_message(row)) if row["kind"] == "deliver" else None
        if send is None:
            continue
        common = {"cat": "message", "name": name_of(row), "pid": pid, "id": f"{pid}/{row['process']}/{row['index']}"}
        yield common | {"ph": "s", "tid": tids[send["process"]], "ts": send["_moment"] / US}
        yield common | {"ph": "f", "bp": "e", "tid": tids[row["process"]], "ts": row["_moment"] / US}


def _chrome_event(pid: int, tid: int, row: _Event) -> _Event:
    return {
        "name": f"{row['kind']} {name_of(row)}".rstrip(),
        "cat": row["kind"],
        "pid": pid,
        "tid": tid,
        "ts": row["_moment"] / US,
        "args": _chrome_args(row),
    }


def _chrome_args(row: _Event) -> _Event:
    """Everything that the row says, shown when it is selected."""
    args = {key: value for key, value in row.items() if value is not None and key not in ("run", "process", "_moment")}
    if "detail" in args:
        args["detail"] = decode(args["detail"])
    return args


def _message(row: _Event) -> _Message:
    return row["group"], row["sender"], row["seq"]


def _learn(clock: dict[str, int], other: dict[str, int]) -> None:
    for name, count in other.items():
        clock[name] = max(clock.get(name, 0), count)


def _host(process: str) -> str:
    """ShiViz takes names without spaces only."""
    return "_".join(process.split())


def _one_line(text: str) -> str:
    return " ".join(text.split())
