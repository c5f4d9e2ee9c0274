"""The example of a store behind a lock: on virtual time, and with real processes, one of which is killed as it holds the lock."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from examples.fenced_store import Store, free_peers, live, simulate
from plainchant.lab.properties import verify
from plainchant.trace import read, validate
from plainchant.trace.collect import collect

APART = {"kind": "partition", "at": "300ms", "length": "800ms", "parts": [["ann"], ["ben", "cyd"]]}


@pytest.mark.parametrize("seed", range(2))
def test_writes_are_not_mixed_up_though_a_holder_is_killed(seed: int) -> None:
    store, result = simulate(seed=seed)
    assert result.verdict == "holds"
    assert store.problems == []
    assert {name for _, name, _ in store.lines} == {"ann", "ben", "cyd", "ann#1"}
    assert result.verification.properties["lock-exclusion"].cases > 100


def test_nor_though_one_is_cut_off() -> None:
    store, result = simulate(seed=1, protocol="newtop", faults=[APART])
    assert result.verdict == "holds"
    assert store.problems == []


def test_what_is_wrong_is_told() -> None:
    store = Store()
    store.lines = [(1, "a", "begins"), (2, "b", "ends"), (1, "a", "ends")]
    assert store.problems == ["b ends what a began", "a writes with token 1 after b with 2", "a ends what it has not begun"]
    store.fence.admit(5)
    store.write(4, "a", "begins")
    assert len(store.refused) == 1


def test_real_processes_write_one_after_the_other_though_the_holder_is_killed(tmp_path: Path) -> None:
    workers, killed, token = asyncio.run(live(peers=free_peers(), trace=str(tmp_path / "spools")))
    assert workers.store.problems == []
    assert [line for line in workers.store.lines if line[0] == token] == [(token, killed, "begins")]
    collect([tmp_path / "spools"], tmp_path / "trace", alive=[])
    table = read(tmp_path / "trace").table
    assert validate(table) == []
    verification = verify(table)
    assert verification.verdict == "holds", [violation.sentence for violation in verification.violations[:5]]
    for name in ("lock-exclusion", "replica-agreement", "counter-sum"):
        assert verification.properties[name].cases > 0, name
