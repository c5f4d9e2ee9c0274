"""The same scenario, the same seed, the same code: the same files, byte for byte, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(directory: Path, *arguments: str, hash_seed: str) -> dict[str, bytes]:
    """Runs a shipped scenario in a process of its own and reads every file that it wrote."""
    out = directory / f"hash-{hash_seed}"
    subprocess.run(
        [sys.executable, "-m", "plainchant", "run", *arguments, "--out", str(out)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
    )
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("arguments", [("everything-at-once",), ("everything-at-once", "--set", "network.wire=true")])
def test_another_hash_seed_changes_no_byte_of_a_run(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    first = run(tmp_path, *arguments, "--seed", "11", hash_seed="1")
    assert any(name.endswith(".parquet") for name in first)
    assert first == run(tmp_path, *arguments, "--seed", "11", hash_seed="2")


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    first = run(tmp_path, "everything-at-once", "--seed", "11", hash_seed="1")
    second = run(tmp_path, "everything-at-once", "--seed", "12", hash_seed="2")
    trace = "trace/part-00000.parquet"
    assert first[trace] != second[trace]
