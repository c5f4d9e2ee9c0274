"""What slices of a run have in common: it travels once, and what is said of the run stays the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from plainchant.lab.properties import verify as by_reference
from plainchant.lab.properties.certificates import agreed, evidence, shared, unit
from plainchant.lab.properties.certificates.records import Slice
from plainchant.lab.properties.certificates.shared import Shared, Spliced, spliced
from plainchant.lab.properties.certificates.unit import Unit
from plainchant.lab.verify import job, parts
from plainchant.lab.verify.frame import compact, settle
from plainchant.lab.verify.results import Options, Sum, slice_rows, unzipped, verification_of
from tests.lab.overlapping_traces import trace as overlapping
from tests.protocols.sequencer import sweep
from tests.trace.build import trace


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and pieces so small that short runs have many."""
    for module, name, size in ((unit, "SHARE", 16), (shared, "_LEAST", 2), (agreed, "TOGETHER", 2)):
        monkeypatch.setattr(module, name, size)
    for user in (agreed, evidence, unit):
        monkeypatch.setattr(user, "BLOCK", 4)


def travelling(table: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, table.num_rows, rows):
        yield from slice_rows([compact(Unit(table.slice(first, rows)).slice(0, alone=True))], apart=True)


def settled(table: pa.Table, rows: int, properties: Sequence[str] | None = None) -> tuple[Sum, list[str]]:
    """What the slices of one run come to, and the kinds of row that say so."""
    total, kinds = Sum(), []
    options = Options(tuple(properties) if properties else None, None)
    for batch in settle(options, job._each_once(travelling(table, rows))):
        kinds += batch.column("kind").to_pylist()
        total.add_rows(batch)
    return total, kinds


@pytest.mark.parametrize("seed", range(20))
def test_a_tape_is_the_same_after_it_was_spliced(seed: int) -> None:
    random = np.random.default_rng(seed)
    names = [f"p{n}" for n in range(random.integers(1, 400))]
    codes = random.integers(0, len(names) + 1, random.integers(1, 3_000)).astype(np.uint16)
    cuts = np.flatnonzero((random.random(len(codes)) < 0.02) & (codes != 0))
    assert np.array_equal(spliced(codes, cuts, names).codes(), codes)


def test_histories_share_the_pieces_of_their_tapes_wherever_row_groups_end() -> None:
    table = sweep.run(1).table
    slices = [compact(Unit(table.slice(first, 400)).slice(0, alone=True)) for first in range(0, table.num_rows, 400)]
    kept = [tape.kept for part in slices for tape in part.tapes]
    keys = [piece.key for each in kept if isinstance(each, Spliced) for piece in each.pieces if isinstance(piece, Shared)]
    assert len(keys) > 20
    assert len(set(keys)) < len(keys) / 2


def test_of_what_slices_share_one_copy_goes_to_the_task_that_settles_the_run() -> None:
    table = sweep.run(1).table
    batches = list(job._each_once(travelling(table, 400)))
    rows = [row for batch in batches for row in batch.to_pylist() if row["kind"] == "shared"]
    assert {row["key"] for row in rows} == {row["run"] for row in rows} == {"sweep-1"}
    contents = [unzipped(row["value"]) for row in rows]
    assert len(contents) == len(set(contents))
    before = sum(row["kind"] == "shared" for batch in travelling(table, 400) for row in batch.to_pylist())
    assert len(rows) < before / 2


@pytest.mark.parametrize("rows", [100, 333])
@pytest.mark.parametrize("what", ["one group", "total", "causal"])
def test_a_run_is_settled_as_by_the_reference(what: str, rows: int) -> None:
    table = sweep.run(1).table if what == "one group" else overlapping("chain", what, 2_000)
    total, kinds = settled(table, rows)
    assert "open" not in kinds
    assert verification_of(total, Options(None, None)).to_json() == by_reference(table).to_json()


@pytest.mark.parametrize("number", [3, 150, 299])
@pytest.mark.parametrize("spoiled", ["order", "digest"])
def test_a_copy_that_differs_raises_a_doubt(spoiled: str, number: int) -> None:
    sends = ["send digest=7"] * 300
    both = [f"deliver {who} {n} digest=7" for n in range(1, 301) for who in "pq"]
    at = 2 * number - 1
    odd = [*both[:at], both[at + 1], both[at], *both[at + 2 :]] if number < 300 else both
    if spoiled == "digest":
        odd = [*both[:at], both[at].replace("7", "9"), *both[at + 1 :]]
    histories = {"p": [*sends, *both], "q": [*sends, *both], "r": odd}
    table = trace({name: f"view 1 p,q,r | {' | '.join(rows)} | end" for name, rows in histories.items()})
    assert by_reference(table, ["identical", "integrity"]).verdict == "violated"
    assert "open" in settled(table, 300, ["identical", "integrity"])[1]
    right = table.filter(pc.not_equal(table.column("process"), "r"))
    assert "open" not in settled(right, 300, ["identical", "integrity"])[1]


@pytest.mark.parametrize("bound", [10**9, None])
def test_a_chunk_in_the_middle_of_a_run_learns_its_bound_from_where_the_run_begins(bound: int | None, tmp_path: Path) -> None:
    """So no pause below the bound is told of; and of a run that states none, nothing about waiting."""
    start = '{"version": 1, "promises": ["fifo"], "bounds": BOUNDS}'.replace(
        "BOUNDS", f'{{"progress": {bound}}}' if bound else "{}"
    )
    table = sweep.run(1).table
    details = [start if kind == "start" else None for kind in table.column("kind").to_pylist()]
    place = table.column_names.index("detail")
    pq.write_table(table.set_column(place, "detail", pa.array(details)), tmp_path / "t.parquet", row_group_size=200)
    chunks = parts.plan([str(tmp_path)], 1, chunk_rows=200, least_rows=200).chunks
    found = [each for chunk in chunks for each in job.certify_chunk(chunk, Options(None, None)) if isinstance(each, Slice)]
    without_start = [part for part in found if part.skeleton and "start" not in part.skeleton.column("kind").to_pylist()]
    assert len(without_start) > 3
    assert {part.waits.quantum if part.waits else None for part in found} == {bound}
