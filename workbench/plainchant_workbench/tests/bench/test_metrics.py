"""The benchmark of metrics: DuckDB's figures are ours, and a figure that is not is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from plainchant.lab.metrics import measure
from plainchant.trace import read
from plainchant_workbench.lab.metrics import QUERY, disagreements
from plainchant_workbench.lab.traces import Shape, make
from plainchant_workbench.lab.verify import peer_process


def test_the_peer_has_the_same_figures_and_another_one_is_noticed(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    with peer_process() as peer:
        for shape in (Shape(2_000), Shape(3_000, 7, 3)):
            path = make(tmp_path, shape)
            seconds, rows = peer.answer(path, QUERY)
            ours = {(row["run"], row["group"]): row for row in measure(read(path).table).to_pylist()}
            theirs = {(row["run"], row["group"]): row for row in rows}
            assert seconds > 0
            assert len(theirs) == shape.runs
            assert disagreements(ours, theirs) == []
            first = min(ours)
            for name in theirs[first].keys() - {"run", "group"}:
                wrong = {**ours, first: {**ours[first], name: ours[first][name] + 0.001 * abs(ours[first][name]) + 10**7}}
                assert any(f": {name} is" in each for each in disagreements(wrong, theirs)), name
