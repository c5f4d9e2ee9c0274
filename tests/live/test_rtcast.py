"""``rtcast`` between real sockets and processes: every transport, deadlines that are aimed at, kills and omissions, verified."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from plainchant import Halted, Node, Refused, Rejected
from plainchant.lab.properties import verify
from plainchant.live.host import AT_ONCE
from plainchant.trace import read as read_trace
from plainchant.trace.collect import collect

from ..lab.live.test_live_scenarios import Started, assert_well, live, rows, scenario_of, started
from .test_api import members, payloads, read, read_view, run

__all__ = ["started"]

NAMES = ("a", "b", "c")


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["udp", "tcp", "multicast"])
def test_members_deliver_one_order_over_every_transport(transport: str, tmp_path: Path) -> None:
    async def main() -> None:
        spools = tmp_path / "spools"
        async with members(*NAMES, protocol="rtcast", transport=transport, parameters={}, trace=spools) as groups:
            for group in groups:
                await group.send_many([f"{group.me}{number}".encode() for number in range(50)])
            await groups[1].send(bytes(200_000))
            found = [payloads(await read(group, 151)) for group in groups]
            assert found[0] == found[1] == found[2]

    run(main())
    collect([tmp_path / "spools"], tmp_path, alive=())
    result = verify(read_trace(tmp_path / "trace").table)
    assert [violation.sentence for violation in result.violations] == []
    assert result.properties["total"].cases
    assert not set(result.properties) & {"deadline", "bounded"}


def test_deadlines_are_admitted_or_rejected_and_nothing_about_time_is_promised(tmp_path: Path) -> None:
    async def main() -> None:
        async with members(*NAMES, protocol="rtcast", parameters={}, trace=tmp_path / "spools") as groups:
            a, b, _ = groups
            assert "total" in a.guarantees
            assert "deadline" not in a.guarantees
            with pytest.raises(Rejected) as rejected:
                await a.send(b"too soon", deadline="1ms")
            nearest = rejected.value.reason.evidence["nearest_ns"]
            await a.send(b"alarm", deadline=f"{nearest}ns")
            stream = await b.stream("level", size=64, deadline=f"{nearest}ns", period=f"{nearest}ns")
            await stream.send(b"level")
            room = b.admission
            assert room is not None
            assert list(room["streams"]) == ["level"]
            assert room["used"] < room["hold"]
            for group in groups:
                assert sorted(payloads(await read(group, 2))) == [b"alarm", b"level"]

    run(main())
    collect([tmp_path / "spools"], tmp_path, alive=())
    sends = rows(tmp_path, kind="send")
    assert [row["deadline"] > row["time"] for row in sends] == [True, True]
    admitted = [json.loads(row["detail"])["stream"] for row in rows(tmp_path, kind="admit")]
    assert admitted == ["~2", "level"]
    assert all(json.loads(row["detail"])["bound"] for row in rows(tmp_path, kind="token"))


def test_the_clock_of_an_engine_stands_still_with_its_time() -> None:
    """Else a process that waits for its processor would take that for a clock that was set."""

    async def main() -> None:
        async with members("a", protocol="rtcast", parameters={}) as (group,):
            node = group.node
            assert isinstance(node, Node)
            host = node.host
            seen: list[tuple[int, int]] = []

            def looks(*arguments: Any) -> None:
                for _ in range(2):
                    seen.append((host.now, host.clock()))
                    time.sleep(0.01)

            host.call(looks)
            (now, shown), (again, later) = seen
            assert again == now
            assert abs(later - shown) < 10 * AT_ONCE
            assert host.clock() - later >= 10_000_000

    run(main())


def test_a_bound_that_the_machine_breaks_is_told(tmp_path: Path) -> None:
    """All members stand still for longer than P, and go on: what was too late is in the trace, and nothing is out of order."""
    # P is 600 ms. Shorter delays would be broken by a busy machine before anybody is in the group.
    hasty = {"delay_max": "50ms", "slack": "50ms", "hold": "50ms", "crashes": 0}

    async def main() -> None:
        # A member that has missed a packet halts: while it sends or reads, or when it leaves.
        with contextlib.suppress(Halted, Refused):
            async with members(*NAMES, protocol="rtcast", parameters=hasty, trace=tmp_path / "spools") as groups:
                await groups[0].send(b"before")
                for group in groups:
                    await read(group, 1)
                time.sleep(1.0)
                for number in range(20):
                    await groups[0].send(f"{number}".encode())
                    await read(groups[0], 1)

    run(main())
    collect([tmp_path / "spools"], tmp_path, alive=())
    found = [json.loads(row["detail"]) for row in rows(tmp_path, kind="state")]
    broken = [detail for detail in found if "broken" in detail]
    assert any(detail["measured"] > detail["bound"] for detail in broken if "measured" in detail)
    assert {detail["broken"] for detail in broken} & {"P3", "rotation", "reaction", "hold"}
    result = verify(read_trace(tmp_path / "trace").table)
    assert [violation.sentence for violation in result.violations] == []


# --- scenarios --------------------------------------------------------------------------------------------------------

KILLED = """
protocol = "rtcast"
members = ["ann", "ben", "cyd"]
duration = "2500ms"

[[workload]]
rate = 20
size = 64

[[workload]]
rate = 10
size = 64
arrivals = "poisson"
deadline = "5s"

[[fault]]
kind = "omit"
process = "cyd"
source = "ann"
packet = "Data"
at = "300ms"

[[fault]]
kind = "crash"
process = "ben"
at = "700ms"

[[fault]]
kind = "restart"
process = "ben"
at = "1400ms"
"""


def test_a_member_is_killed_and_comes_back_and_an_omitted_packet_is_sent_again(tmp_path: Path, started: Started) -> None:
    result = live(scenario_of(KILLED), tmp_path)
    assert_well(result)
    # Their places on the ring depend on who knocks first.
    views = [set(row["members"]) for row in rows(tmp_path, kind="view", process="ann")]
    assert views[0] == {"ann", "ben", "cyd"}
    assert {"ann", "cyd"} in views
    assert views[-1] == {"ann", "cyd", "ben#1"}
    faults = [json.loads(row["detail"]) for row in rows(tmp_path, kind="fault", process="cyd")]
    (dropped,) = [fault for fault in faults if fault["fault"] == "omit"]
    assert dropped["packet"] == "Data"
    assert any("cyd" in json.loads(row["detail"])["to"] for row in rows(tmp_path, kind="retransmit"))
    assert any(row["deadline"] is not None for row in rows(tmp_path, kind="send"))
    started.assert_gone()


STOPPED = """
protocol = "rtcast"
members = ["ann", "ben", "cyd"]
duration = "14s"

[[workload]]
rate = 20
size = 64

[[fault]]
kind = "pause"
process = "ben"
at = "1s"
length = "10s"

[random]
restart_halted = 1.0
restart_after = "50ms"
"""


def test_a_member_that_is_stopped_for_ten_seconds_is_told_and_comes_back(tmp_path: Path, started: Started) -> None:
    """``SIGSTOP`` and ``SIGCONT``: the others go on within the stated time, which the verdict (``progress``) covers too."""
    result = live(scenario_of(STOPPED), tmp_path)
    assert_well(result)
    (end,) = rows(tmp_path, kind="crash", process="ben")
    assert json.loads(end["detail"])["reason"] == "eliminated"
    views = [row["members"] for row in rows(tmp_path, kind="view", process="ann")]
    assert ["ann", "cyd"] in views
    assert set(views[-1]) == {"ann", "cyd", "ben#1"}
    bound = json.loads(rows(tmp_path, kind="start", process="ann")[0]["detail"])["bounds"]["progress"]
    for process in ("ann", "cyd"):
        times = [row["time"] for row in rows(tmp_path, kind="deliver", process=process) if row["sender"] != "ben"]
        assert max(later - earlier for earlier, later in pairwise(times)) <= bound
    started.assert_gone()


def test_a_member_whose_application_does_not_read_halts_and_the_others_go_on() -> None:
    async def main() -> None:
        parameters = {"patience": "300ms"}
        async with members(*NAMES, protocol="rtcast", parameters=parameters, unread=2_000) as (a, _, c):
            await a.send_many([bytes(100)] * 40)  # b has more unread than it has room for
            views = await asyncio.gather(*(read_view(group, "a", "c") for group in (a, c)))
            assert [view.left["b"].code for view in views] == ["crashed", "crashed"]
            await c.send(b"after")
            assert payloads(await read(a, 1)) == [b"after"]

    with pytest.raises(Halted, match="the application of b has not read"):  # as b leaves
        run(main())
