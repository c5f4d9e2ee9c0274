"""Properties of building blocks, by every way there is to verify: the same verdicts as the reference's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from plainchant.lab.properties import verify
from plainchant.lab.verify.check import check
from plainchant.trace.properties import BLOCK_PROPERTIES
from tests.lab.properties.blocks_all import BAD, GOOD, NOTHING
from tests.trace.build import trace

from ..agreement import check_in_pieces, differences
from ..layouts import ORDER, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = [*(histories for _, _, histories, _ in BAD), *(histories for _, _, histories in (*GOOD, *NOTHING))]


def packed() -> pa.Table:
    """All cases, a run each. They promise nothing of blocks, which are looked at anyhow."""
    return pa.concat_tables([trace(histories, run=f"r{place:03}", promises=["fifo"]) for place, histories in enumerate(CASES)])


@pytest.mark.parametrize("properties", [None, list(BLOCK_PROPERTIES)], ids=["promised", "asked"])
def test_tasks_find_what_the_reference_finds(properties: list[str] | None) -> None:
    found = check(packed(), properties)
    assert differences(found.to_json(), verify(packed(), properties).to_json()) == []
    assert len({violation.run for violation in found.violations}) >= len(BAD)


def test_runs_that_are_torn_into_pieces_are_put_together_again() -> None:
    table = packed().sort_by(ORDER)
    assert differences(check_in_pieces(table, 7, None).to_json(), verify(table).to_json()) == []


def test_spark_finds_them_all(spark: SparkSession, tmp_path: Path) -> None:
    from plainchant.lab.verify import verify as verify_on_spark

    path = written("shuffled", packed(), tmp_path)
    assert differences(verify_on_spark(spark, [path]).to_json(), verify(packed()).to_json()) == []
