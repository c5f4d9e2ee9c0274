"""Injected failures and what was detected of them, on traces of a few rows, and that the two ways of matching agree on many."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from plainchant.lab.metrics.detections import DETECTIONS, match
from plainchant.trace import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Events = list[dict[str, Any]]


def table(histories: dict[str, Events], run: str = "r0") -> pa.Table:
    rows = []
    for process, events in histories.items():
        for index, event in enumerate(events):
            row = {"run": run, "process": process, "index": index, "group": "g", **event}
            row["time"] = row["true_time"] = row.pop("at")
            row["detail"] = json.dumps(row["detail"]) if isinstance(row.get("detail"), dict) else row.get("detail")
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def counted(histories: dict[str, Events]) -> dict[str, int]:
    """What is not 0."""
    (row,) = match(table(histories)).to_pylist()
    return {name: count for name, count in row.items() if name != "run" and count}


def view(members: str, at: int) -> dict[str, Any]:
    return {"kind": "view", "view": at, "members": list(members), "at": at}


def fault(kind: str, at: int, **detail: Any) -> dict[str, Any]:
    return {"kind": "fault", "group": None, "at": at, "detail": {"fault": kind, **detail}}


def stop(by: str, at: int, **detail: Any) -> dict[str, Any]:
    return {"kind": "crash", "group": None, "at": at, "detail": {"by": by, **detail}}


def again(to: str, at: int, number: int = 7) -> dict[str, Any]:
    return {"kind": "retransmit", "at": at, "sender": "p", "detail": {"to": list(to), "visit": 3, "number": number}}


IDENTITY = {"source": "p", "identity": ["p", "p", 3, 7]}


def test_a_crash_is_matched_by_a_view_without_it() -> None:
    histories = {"p": [view("pq", 0), view("p", 30)], "q": [view("pq", 0), fault("crash", 20), stop("fault", 20)]}
    assert counted(histories) == {"crashes": 1, "crashes_matched": 1}


def test_a_crash_that_nobody_notices_is_not_matched() -> None:
    histories = {"p": [view("pq", 0)], "q": [view("pq", 0), fault("crash", 20), stop("fault", 20)]}
    assert counted(histories) == {"crashes": 1}


@pytest.mark.parametrize("at_p", [[], [view("p", 0)], [view("pq", 0), view("p", 10)]])
def test_a_crash_of_a_process_that_nobody_else_has_in_his_view_is_unseen(at_p: Events) -> None:
    found = counted({"p": at_p or [{"kind": "start", "at": 0}], "q": [fault("crash", 20), stop("fault", 20)]})
    assert (found.get("crashes"), found["crashes_unseen"]) == (None, 1)


def test_a_doomed_process_that_lives_on_has_not_crashed() -> None:
    assert counted({"p": [view("pq", 0)], "q": [view("pq", 0), fault("crash", 20)]}) == {}


@pytest.mark.parametrize(
    ("at_p", "at_q", "expected"),
    [
        pytest.param([view("p", 40)], [stop("protocol", 30)], "halted", id="its protocol halts it"),
        pytest.param([again("q", 30)], [], "repaired", id="it is sent again"),
        pytest.param([again("q", 30, number=8)], [], "without_effect", id="another packet is sent again"),
        pytest.param([again("r", 30)], [], "without_effect", id="it is sent again to another"),
        pytest.param([again("q", 10)], [], "without_effect", id="it was sent again before"),
        pytest.param([again("q", 30)], [stop("protocol", 50)], "halted", id="it is sent again in vain"),
    ],
)
def test_what_becomes_of_an_omission(at_p: Events, at_q: Events, expected: str) -> None:
    histories = {"p": [view("pq", 0), *at_p], "q": [view("pq", 0), fault("omit", 20, **IDENTITY), *at_q]}
    assert counted(histories) == {"omissions": 1, f"omissions_{expected}": 1}


def test_all_drops_of_the_packet_that_was_missing_in_the_end_led_to_the_halt() -> None:
    other = fault("omit", 10, source="p", identity=["p", "p", 1, 5])
    drops = [fault("omit", at, **IDENTITY) for at in (20, 30)]
    histories = {"p": [view("pq", 0), again("q", 15, number=5)], "q": [view("pq", 0), other, *drops, stop("protocol", 40)]}
    assert counted(histories) == {"omissions": 3, "omissions_halted": 2, "omissions_without_effect": 1}


def test_an_omission_may_cost_a_process_that_is_alive_its_membership() -> None:
    """Its heartbeat was lost; who did not hear it eliminates it, and it halts rightly when it hears of that."""
    histories = {
        "p": [view("pq", 0), fault("omit", 20, source="q"), view("p", 30)],
        "q": [view("pq", 0), stop("protocol", 40, reason="eliminated")],
    }
    assert counted(histories) == {"omissions": 1, "omissions_without_effect": 1, "eliminations_provoked": 1}


def test_who_is_eliminated_though_nothing_was_done_to_it_is_counted_as_false() -> None:
    assert counted({"p": [view("pq", 0), view("p", 30)], "q": [view("pq", 0)]}) == {"eliminations_false": 1}
    left = {"p": [view("pq", 0), view("p", 30)], "q": [view("pq", 0), {"kind": "leave", "at": 30}]}
    assert counted(left) == {}


def test_a_halt_without_an_injection_is_told() -> None:
    histories = {"p": [view("pq", 0), view("p", 30)], "q": [view("pq", 0), stop("protocol", 20)]}
    assert counted(histories) == {"halts_unprovoked": 1}


def random_trace(random: Random, run: str) -> pa.Table:
    """Rows of every kind that is looked at, thrown together."""
    processes = "pqr"
    histories: dict[str, Events] = {}
    for process in processes:
        events: Events = [view(processes, 0)] if random.random() < 0.8 else []
        clock = 0
        for _ in range(random.randint(0, 12)):
            clock += random.randint(0, 3)
            told: Events = [{}, {"identity": [process, "p", 3, random.randint(6, 8)]}, {"identity": ["p"]}]
            identity = random.choice(told)
            events.append(
                random.choice(
                    [
                        view("".join(random.sample(processes, random.randint(1, 3))), clock),
                        fault("omit", clock, source=random.choice(processes), **identity),
                        fault(random.choice(["crash", "cut"]), clock),
                        again("".join(random.sample(processes, random.randint(0, 2))), clock, random.randint(6, 8)),
                        {"kind": "leave", "at": clock} if random.random() < 0.3 else {"kind": "null", "at": clock},
                        {"kind": "retransmit", "at": clock, "detail": random.choice([None, "{", '{"to": "p"}'])},
                    ]
                )
            )
        if random.random() < 0.5:
            events.append(stop(random.choice(["fault", "protocol"]), clock + random.randint(0, 2)))
        histories[process] = events or [{"kind": "start", "at": 0}]
    return table(histories, run)


def test_spark_gives_the_same(spark: SparkSession) -> None:
    from plainchant.lab.metrics.frames import DetectionsOfRuns

    random = Random("detections")
    made = pa.concat_tables([random_trace(random, f"r{number:03}") for number in range(150)]).combine_chunks()
    wanted = match(made)
    for name in DETECTIONS.names[1:]:
        assert any(wanted.column(name).to_pylist()), f"no random trace has {name}"
    assert DetectionsOfRuns().of_frame(spark.createDataFrame(made)).to_pylist() == wanted.to_pylist()
