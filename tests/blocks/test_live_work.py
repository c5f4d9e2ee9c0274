"""A work queue and questions between real processes, of which one is killed with a job in hand and a question unanswered."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from plainchant.lab.properties import verify
from plainchant.live.ports import free_ports
from plainchant.trace import read
from plainchant.trace.collect import collect

from .live_member import JOBS

ROOT = Path(__file__).parents[2]
QUICK = {"suspect_after": "500ms", "patience": "2s"}


async def run(trace: str) -> Any:
    """What ``a`` came to; all processes have ended when this returns."""
    peers = {name: f"127.0.0.1:{port}" for name, port in zip("abc", free_ports(3), strict=True)}
    processes: dict[str, asyncio.subprocess.Process] = {}
    try:
        async with asyncio.timeout(90):
            for me in peers:
                task = json.dumps({"me": me, "peers": peers, "parameters": QUICK, "trace": trace})
                processes[me] = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "tests.blocks.live_member", task, cwd=ROOT, stdout=asyncio.subprocess.PIPE
                )
            assert processes["b"].stdout is not None
            assert processes["a"].stdout is not None
            assert json.loads(await processes["b"].stdout.readline()) == "begun"
            processes["b"].kill()
            told = json.loads(await processes["a"].stdout.readline())
            assert [await processes[me].wait() for me in "ac"] == [0, 0]
            return told
    finally:
        for process in processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()


def test_a_worker_that_is_killed_costs_no_job_and_no_question(tmp_path: Path) -> None:
    told = asyncio.run(run(str(tmp_path / "spools")))
    assert [value.partition(" by ")[0] for _, _, value in told["results"]] == [f"job {number}" for number in range(JOBS)]
    again = [(worker, attempt) for worker, attempt, _ in told["results"] if attempt > 1]
    assert len(again) == 1
    assert again[0][0] in ("a", "c")
    assert told["gone"] == ["b"]
    assert told["answers"] == {"a": "here is a", "c": "here is c"}
    collect([tmp_path / "spools"], tmp_path)
    result = verify(read(tmp_path / "trace").table)
    assert [violation.sentence for violation in result.violations] == []
    assert result.properties["jobs-once"].cases > 0
    assert result.properties["answers"].cases > 0
