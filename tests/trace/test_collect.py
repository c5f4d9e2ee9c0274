"""Spools become the trace that a simulator would have written of the same events."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plainchant.core.model import TraceError
from plainchant.lab.properties import verify
from plainchant.trace import SCHEMA, TraceBuffer, collect, read, validate
from plainchant.trace.collect import CollectSummary
from plainchant.trace.spool import Spool

from .build import correct_run, joined, trace

START = {"version": 1, "protocol": "made-up", "promises": ["integrity", "total", "view-order"]}


def begun(directory: Path, process: str = "p1", run: str = "r0", **options: Any) -> Spool:
    return Spool(directory, run=run, process=process, start=START, time=0, **options)


def collected(spools: Path, **options: Any) -> tuple[pa.Table, CollectSummary]:
    with tempfile.TemporaryDirectory() as out:
        summary = collect.collect([spools], out, **options)
        return read(out).table, summary


def rows(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


# --- the same rows --------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["p1", "p2", "p3#1", "é/x"])
GROUPS = st.sampled_from(["g", "another group"])
NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1)
TIMES = st.integers(0, 2**62)
PAYLOADS = st.lists(st.binary(max_size=4), max_size=5) | st.integers(1, 4).map(lambda count: [b"same"] * count)
DETAILS = st.none() | st.dictionaries(st.text(max_size=3), st.integers(-5, 5) | st.text(max_size=3) | st.none(), max_size=2)
STEPS = st.one_of(
    st.tuples(st.just("send"), TIMES, GROUPS, NUMBERS, PAYLOADS),
    st.tuples(st.just("deliver"), TIMES, GROUPS, NUMBERS, NAMES, st.integers(1, 12), PAYLOADS, NUMBERS),
    st.tuples(st.just("accept"), TIMES, GROUPS, PAYLOADS),
    st.tuples(
        st.just("row"),
        st.sampled_from(["view", "suspect", "token", "of my own"]),
        TIMES,
        st.none() | GROUPS,
        NUMBERS,
        st.none() | NAMES,
        NUMBERS,
        NUMBERS,
        st.none() | st.lists(NAMES, max_size=3),
        NUMBERS,
        DETAILS,
    ),
    st.tuples(st.just("packets"), st.integers(0, 9)),
    st.tuples(st.just("flush")),
)


class Plain:
    """The rows of one history, made one by one and without any batch."""

    def __init__(self, buffer: TraceBuffer, process: str) -> None:
        self.history = buffer.history("r0", process)
        self.process = process
        self.taken: dict[str, int] = {}
        self.owed = 0
        self.flushed = 0
        self.sent: dict[tuple[str, str, int], int] = {}

    def messages(
        self,
        kind: str,
        time: int,
        group: str,
        view: int | None,
        sender: str,
        first: int | None,
        payloads: list[bytes],
        rank: int | None,
    ) -> None:
        for offset, payload in enumerate(payloads):
            seq = None if first is None else first + offset
            row = (kind, time, None, group, view, sender, seq, None, rank, crc32(payload), len(payload), None)
            self.history.rows.append(row)

    def other(
        self,
        kind: str,
        time: int,
        group: str | None = None,
        view: int | None = None,
        sender: str | None = None,
        seq: int | None = None,
        rank: int | None = None,
        members: list[str] | None = None,
        deadline: int | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        extra = {"members": members, "deadline": deadline, "detail": detail}
        self.history.rows.append((kind, time, None, group, view, sender, seq, None, rank, None, None, extra))

    def flush(self) -> None:
        if len(self.history.rows) > self.flushed:
            if self.owed:
                self.history.packets[len(self.history.rows) - 1] = self.owed
            self.flushed = len(self.history.rows)
            self.owed = 0


def play(steps: list[tuple[Any, ...]], spool: Spool, plain: Plain) -> None:
    """Tells both the same."""
    for what, *values in steps:
        match what, values:
            case "send", [time, group, view, payloads]:
                first = plain.taken.get(group, 0) + 1
                plain.taken[group] = first + len(payloads) - 1
                spool.send(time, group, view, first, payloads)
                plain.messages("send", time, group, view, plain.process, first, payloads, None)
                plain.sent.update({(group, plain.process, first + offset): time for offset in range(len(payloads))})
            case "deliver", [time, group, view, sender, first, payloads, rank]:
                spool.deliver(time, group, view, sender, first, payloads, rank)
                plain.messages("deliver", time, group, view, sender, first, payloads, rank)
            case "accept", [time, group, payloads]:
                spool.accept(time, group, payloads)
                plain.messages("accept", time, group, None, plain.process, None, payloads, None)
            case "row", values:
                spool.row(*values)
                plain.other(*values)
            case "packets", [count]:
                spool.packets(count)
                plain.owed += count
            case _:
                spool.flush()
                plain.flush()


@given(
    st.dictionaries(NAMES, st.lists(STEPS, max_size=16), min_size=1),
    st.sampled_from([1, 400, 100_000]),
    st.sampled_from([3, 65_536]),
)
@settings(max_examples=60)
def test_the_rows_are_those_that_a_plain_writer_makes(
    histories: dict[str, list[tuple[Any, ...]]], rotate: int, table_rows: int
) -> None:
    buffer = TraceBuffer()
    sent: dict[tuple[str, str, int], int] = {}
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(collect, "_TABLE_ROWS", table_rows)
        for process, steps in histories.items():
            plain = Plain(buffer, process)
            with begun(Path(name), process, rotate=rotate) as spool:
                plain.other("start", 0, detail=START)
                plain.flush()
                play(steps, spool, plain)
                plain.flush()
            plain.other("crash", plain.history.rows[-1][1], detail={"by": "collector"})
            sent.update(plain.sent)
        table, summary = collected(Path(name))
    expected = buffer.table().to_pylist()
    for row in expected:
        if row["kind"] == "deliver":
            row["sent"] = sent.get((row["group"], row["sender"], row["seq"]))
    assert table.schema == SCHEMA
    assert table.to_pylist() == expected
    assert sum(summary.events.values()) == sum(process.rows for process in summary.processes) == len(expected)


def test_several_runs_and_row_groups_are_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "_TABLE_ROWS", 100)
    for run in ("r1", "r0"):
        for process in ("p2", "p1"):
            with begun(tmp_path / "spools", process, run) as spool:
                for first in range(1, 1000, 10):
                    spool.send(first, "g", None, first, [b"x"] * 10)
                    spool.flush()
    summary = collect.collect([tmp_path / "spools"], tmp_path / "out")
    assert summary.runs == ("r0", "r1")
    table = read(tmp_path / "out").table
    places = rows(table, "run", "process", "index")
    assert places == sorted(places)
    assert len(places) == len(set(places)) == 4 * 1002
    assert validate(table) == []
    (file,) = (tmp_path / "out" / "trace").iterdir()
    assert pq.read_metadata(file).metadata[b"plainchant.trace.version"] == b"1"


def test_messages_are_sent_when_their_sender_says_in_the_same_run(tmp_path: Path) -> None:
    for run, time in (("r0", 1_000), ("r1", 2_000)):
        with begun(tmp_path, "p1", run) as spool:
            spool.send(time, "g", None, 1, [b"a", b"b"])
            spool.send(time + 1, "g", None, 3, [b"c"])
            spool.send(time + 2, "h", None, 1, [b"d"])
        with begun(tmp_path, "p2", run) as spool:
            spool.deliver(5_000, "g", None, "p1", 2, [b"b", b"c", b"not sent"], None)
            spool.deliver(5_000, "h", None, "p1", 1, [b"d"], None)
            spool.deliver(5_000, "g", None, "unobserved", 1, [b"e"], None)
            spool.deliver(5_000, "g", None, "p1", 0, [b"there is no message 0"], None)
    table, _ = collected(tmp_path)
    deliveries = table.filter(pc.equal(table.column("kind"), "deliver"))
    assert deliveries.column("sent").to_pylist() == [
        *(1_000, 1_001, None, 1_002, None, None),
        *(2_000, 2_001, None, 2_002, None, None),
    ]


# --- how histories end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "ending"),
    [
        ([], "killed"),
        ([("join", "g"), ("leave", "h")], "killed"),
        ([("join", "g"), ("join", "h"), ("leave", "g")], "killed"),
        ([("join", "g"), ("leave", "g"), ("join", "g")], "killed"),
        ([("join", "g"), ("join", "h"), ("leave", "g"), ("leave", "h")], "left"),
        ([("join", "g"), ("leave", "g"), ("suspect", "g")], "left"),
        ([("join", "g"), ("end", None)], "end"),
        ([("join", "g"), ("crash", None)], "crash"),
    ],
)
def test_a_crash_is_noted_where_a_history_does_not_end(tmp_path: Path, events: list[tuple[str, str | None]], ending: str) -> None:
    with begun(tmp_path) as spool:
        for time, (kind, group) in enumerate(events, 1):
            spool.row(kind, time, group)
    table, summary = collected(tmp_path)
    assert summary.processes[0].ending == ending
    expected = ["start", *(kind for kind, _ in events), *(["crash"] if ending == "killed" else [])]
    assert table.column("kind").to_pylist() == expected
    assert validate(table) == []
    if ending == "killed":
        last = table.slice(table.num_rows - 1).to_pylist()[0]
        assert (last["time"], last["index"], last["detail"]) == (len(events), len(events) + 1, '{"by":"collector"}')


def test_a_process_that_lives_gets_no_crash(tmp_path: Path) -> None:
    living, dead = begun(tmp_path, "p1"), begun(tmp_path, "p2")
    dead.close()
    _, summary = collected(tmp_path)
    assert [process.ending for process in summary.processes] == ["alive", "killed"]
    _, summary = collected(tmp_path, alive=["p2"])
    assert [process.ending for process in summary.processes] == ["killed", "alive"]
    _, summary = collected(tmp_path, alive=[])
    assert [process.ending for process in summary.processes] == ["killed", "killed"]
    living.row("end", 1)
    living.close()
    _, summary = collected(tmp_path, alive=["p1"])
    assert [process.ending for process in summary.processes] == ["end", "killed"]


def test_a_torn_tail_is_told_and_left_out(tmp_path: Path) -> None:
    with begun(tmp_path) as spool:
        spool.send(1, "g", None, 1, [b"x"])
        spool.flush()
        spool.send(2, "g", None, 2, [b"y"])
    file = spool.directory / "00000.spool"
    file.write_bytes(file.read_bytes()[:-1])
    table, summary = collected(tmp_path)
    assert table.column("kind").to_pylist() == ["start", "send", "crash"]
    assert summary.processes[0].torn > 0


def test_a_process_that_recorded_nothing_is_not_in_the_trace(tmp_path: Path) -> None:
    for process in ("p1", "p2", "p3"):
        begun(tmp_path, process).close()
    header = tmp_path / "r0" / "p1" / "00000.spool"
    header.write_bytes(header.read_bytes()[:30])
    start = tmp_path / "r0" / "p2" / "00000.spool"
    start.write_bytes(start.read_bytes()[:-1])
    table, summary = collected(tmp_path)
    assert table.column("process").unique().to_pylist() == ["p3"]
    assert sorted(path.name for path in summary.empty) == ["p1", "p2"]
    header.parent.rename(tmp_path / "p1")
    (tmp_path / "r0" / "p2").rename(tmp_path / "p2")
    with pytest.raises(TraceError, match="none of these processes had recorded anything"):
        collect.collect([tmp_path / "p1", tmp_path / "p2"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_spool_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with begun(tmp_path / "spools") as spool:
        spool.send(1, "g", None, 1, [b"x"])
    file = spool.directory / "00000.spool"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(TraceError, match="is damaged at byte"):
        collect.collect([tmp_path / "spools"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- verified -------------------------------------------------------------------------------------------------------


def replay(table: pa.Table, directory: Path, payload: Callable[[dict[str, Any]], bytes]) -> None:
    """Tells spools the rows of a trace; processes that crash there stop without a word."""
    spools: dict[str, Spool] = {}
    for row in table.to_pylist():
        name = row["process"]
        spool = spools.get(name) or spools.setdefault(name, begun(directory, name))
        time, group, view = row["time"], row["group"], row["view"]
        if row["kind"] == "send":
            spool.send(time, group, view, row["seq"], [payload(row)])
        elif row["kind"] == "deliver":
            spool.deliver(time, group, view, row["sender"], row["seq"], [payload(row)], None)
        elif row["kind"] != "crash":
            detail = None if row["detail"] is None else json.loads(row["detail"])
            spool.row(row["kind"], time, group, view, members=row["members"], detail=detail)
        spool.flush()
    for spool in spools.values():
        spool.close()


def honest(row: Mapping[str, Any]) -> bytes:
    return f"{row['sender']}/{row['seq']}".encode()


def test_a_correct_run_is_a_well_formed_trace_and_verified(tmp_path: Path) -> None:
    made_up = trace(joined(correct_run(Random(5))))
    replay(made_up, tmp_path, honest)
    table, summary = collected(tmp_path)
    assert validate(table) == []
    verification = verify(table, ["integrity", "fifo", "causal", "total", "uniform", "agreement", "view-order", "view-exclusion"])
    assert verification.verdict == "holds", [violation.sentence for violation in verification.violations]
    assert {process.ending for process in summary.processes} == {"end", "killed", "left"}
    deliveries = table.filter(pc.equal(table.column("kind"), "deliver"))
    assert deliveries.num_rows > 100
    assert deliveries.column("sent").null_count == 0


def test_an_altered_payload_is_a_violation(tmp_path: Path) -> None:
    made_up = trace(joined(correct_run(Random(5))))
    victim = next(row for row in made_up.to_pylist() if row["kind"] == "deliver" and row["process"] == "p3")

    def forged(row: dict[str, Any]) -> bytes:
        return honest(row) + (b"!" if row == victim else b"")

    replay(made_up, tmp_path, forged)
    table, _ = collected(tmp_path)
    assert validate(table) == []
    verification = verify(table)
    assert verification.verdict == "violated"
    assert {violation.property for violation in verification.violations} == {"integrity"}
    assert all("p3" in violation.processes for violation in verification.violations)


KILLED = """
import os, signal, sys
from plainchant.trace.spool import Spool

spool = Spool(sys.argv[1], run="r0", process="p1", start={"version": 1, "promises": ["integrity", "fifo"]}, time=0)
spool.row("join", 1, "g")
spool.row("view", 1, "g", 1, members=["p1", "p2"])
for first in range(1, 101, 4):
    spool.send(first, "g", 1, first, [b"%d" % number for number in range(first, first + 4)])
    spool.flush()
spool.send(101, "g", 1, 101, [b"nobody has seen this"])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_was_really_killed_is_verified_with_the_others(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60)
    assert ended.returncode == -signal.SIGKILL
    with begun(tmp_path, "p2") as spool:
        spool.row("join", 1, "g")
        spool.row("view", 1, "g", 1, members=["p1", "p2"])
        spool.deliver(200, "g", 1, "p1", 1, [b"%d" % number for number in range(1, 101)], None)
        spool.row("end", 300)
    table, summary = collected(tmp_path)
    assert [process.ending for process in summary.processes] == ["killed", "end"]
    assert validate(table) == []
    verification = verify(table, ["integrity", "fifo"])
    assert verification.verdict == "holds"
    assert verification.properties["integrity"].cases > 0


# --- without a beginning --------------------------------------------------------------------------------------------


def with_a_tail(directory: Path) -> None:
    """A process that kept only its last files, and one that kept all."""
    with begun(directory, "p1", rotate=300, keep=2) as spool:
        spool.row("view", 1, "g", 1, members=["p1", "p2"])
        for number in range(1, 40):
            spool.send(number, "g", 1, number, [b"%d" % number])
            spool.deliver(number, "g", 1, "p1", number, [b"%d" % number], None)
            spool.flush()
        spool.row("view", 40, "g", 2, members=["p1"])
        spool.send(41, "g", 2, 40, [b"last"])
    with begun(directory, "p2") as spool:
        spool.row("view", 1, "g", 1, members=["p1", "p2"])
        spool.deliver(50, "g", 1, "p1", 1, [b"%d" % number for number in range(1, 40)], None)
        spool.row("end", 51)


def test_a_history_without_its_beginning_is_refused(tmp_path: Path) -> None:
    with_a_tail(tmp_path / "spools")
    with pytest.raises(TraceError, match=r"the first \d+ rows of .*p1 are gone: .* can be looked at \(--tail\), but not"):
        collect.collect([tmp_path / "spools"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_tail_can_be_looked_at_and_promises_nothing(tmp_path: Path) -> None:
    with_a_tail(tmp_path)
    table, summary = collected(tmp_path, tail=True)
    headless, whole = summary.processes
    assert headless.missing > 0
    assert whole.missing == 0
    assert validate(table) == []
    first, *others = table.filter(pc.equal(table.column("process"), "p1")).to_pylist()
    assert (first["kind"], json.loads(first["detail"])) == ("start", {"missing": headless.missing, "promises": [], "version": 1})
    assert {row["kind"] for row in others} == {"taken", "deliver", "view", "crash"}
    assert {row["view"] for row in others[:-3]} == {None}
    last = [(row["kind"], row["view"], row["seq"]) for row in others[-3:]]
    assert last == [("view", 2, None), ("taken", 2, 40), ("crash", None, None)]
    starts = table.filter(pc.equal(table.column("kind"), "start")).column("detail").to_pylist()
    assert [json.loads(start)["promises"] for start in starts] == [[], []]
    assert verify(table).properties == {}
    known = [row["sent"] is not None for row in table.to_pylist() if row["process"] == "p2" and row["kind"] == "deliver"]
    assert known == sorted(known)
    assert known[-1]


def test_progress_goes_to_the_end(tmp_path: Path) -> None:
    for process in ("p1", "p2"):
        with begun(tmp_path, process, rotate=100) as spool:
            for number in range(1, 20):
                spool.send(number, "g", None, number, [b"x"])
                spool.flush()
    told: list[tuple[int, int]] = []
    collected(tmp_path, progress=lambda done, total: told.append((done, total)))
    size = sum(file.stat().st_size for file in tmp_path.rglob("*.spool"))
    assert {total for _, total in told} == {2 * size}
    done = [done for done, _ in told]
    assert done == sorted(done)
    assert done[-1] == 2 * size
