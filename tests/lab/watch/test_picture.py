"""What the page is told of a run: who is there and why not, how fast, how late, who is blocked, and the flow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plainchant.lab.watch import picture
from plainchant.lab.watch.picture import Picture, RunPicture, SentTimes
from plainchant.trace.fact import Fact

SECOND = 1_000_000_000
MS = 1_000_000


def start(process: str, time: int = 0) -> Fact:
    return Fact("r0", process, 0, "start", time, detail=json.dumps({"protocol": "sequencer", "promises": ["fifo"]}))


def view(process: str, time: int, number: int, *members: str, **detail: Any) -> Fact:
    told = json.dumps(detail) if detail else None
    return Fact("r0", process, 1, "view", time, "g", number, members=members, detail=told)


def taken(*facts: Fact) -> RunPicture:
    run = RunPicture("r0")
    run.take(list(facts))
    return run


def shown(run: RunPicture, now: int, *, full: bool = True) -> dict[str, Any]:
    told = run.to_json(now, full=full)
    assert json.loads(json.dumps(told)) == told
    return told


def test_who_is_there_and_who_is_not_and_why() -> None:
    run = taken(
        *(start(name) for name in "abcd"),
        *(view(name, 5, 1, "a", "b", "c", "d") for name in "abcd"),
        view("a", 10 * MS, 2, "a", "b", left={"c": {"reason": "silent", "text": "c was not heard for 300 ms"}}),
        view("b", 11 * MS, 2, "a", "b", left={"c": {"reason": "silent", "text": "c was not heard for 300 ms"}}),
        Fact("r0", "c", 2, "crash", 9 * MS, detail='{"by": "collector"}'),
        Fact("r0", "d", 2, "crash", 9 * MS, detail='{"by": "protocol", "reason": "excluded", "text": "d was excluded"}'),
    )
    told = shown(run, SECOND)
    assert {each["name"]: each["state"] for each in told["processes"]} == {
        "a": "running",
        "b": "running",
        "c": "killed",
        "d": "stopped",
    }
    (group,) = told["groups"]
    assert [(part["number"], part["members"], part["behind"]) for part in group["parts"]] == [(2, ["a", "b"], [])]
    assert {each["name"]: each["why"] for each in group["absent"]} == {
        "c": "c was not heard for 300 ms",
        "d": "d was excluded",
    }
    assert group["views"][0]["left"] == [{"name": "c", "why": "c was not heard for 300 ms"}]
    assert group["views"][0]["by"] == ["a", "b"]


def test_members_in_different_views_are_told_apart_and_those_without_records_are_named() -> None:
    run = taken(start("a"), start("b"), view("a", 5, 1, "a", "b", "x"), view("b", 5, 1, "a", "b", "x"), view("b", 9, 2, "b"))
    told = shown(run, SECOND)
    assert [part["number"] for part in told["groups"][0]["parts"]] == [1, 2]
    assert told["groups"][0]["parts"][0]["behind"] == ["b"]
    assert {each["name"]: each["state"] for each in told["processes"]} == {"a": "running", "b": "running", "x": "unseen"}


def test_when_all_have_ended_the_last_view_is_still_shown() -> None:
    run = taken(start("a"), view("a", 5, 3, "a"), Fact("r0", "a", 2, "end", 9))
    assert [part["number"] for part in shown(run, 9)["groups"][0]["parts"]] == [3]


def test_a_blocked_sender_is_shown_with_its_reason_until_it_goes_on() -> None:
    block = Fact("r0", "a", 2, "block", 2 * SECOND, "g", detail='{"reason": "full", "text": "the history is full"}')
    run = taken(start("a"), view("a", 1, 1, "a"), block)
    (process,) = shown(run, 5 * SECOND)["processes"]
    assert process["blocked"] == [{"group": "g", "why": "the history is full", "for": 3000.0}]
    run.take([Fact("r0", "a", 3, "unblock", 6 * SECOND, "g")])
    assert shown(run, 7 * SECOND)["processes"][0]["blocked"] == []


def test_rates_and_latencies_are_of_the_last_seconds_and_count_messages_not_batches() -> None:
    facts = [start("a"), start("b")]
    for second in range(1, 9):
        first = 1 + 100 * (second - 1)
        facts.append(Fact("r0", "a", 0, "send", second * SECOND, "g", 1, "a", first, 100))
        facts.append(Fact("r0", "b", 0, "deliver", second * SECOND + 8 * MS, "g", 1, "a", first, 99))
        facts.append(Fact("r0", "b", 0, "deliver", second * SECOND + 500 * MS, "g", 1, "a", first + 99, 1))
    told = shown(taken(*facts), 9 * SECOND)
    assert told["sent"]["rate"] == 100
    assert told["delivered"]["rate"] == 100
    assert told["sent"]["total"] == 800
    assert told["sent"]["series"][-9:] == [0, 100, 100, 100, 100, 100, 100, 100, 100, 0][-9:]
    assert told["latency"]["p50"] == pytest.approx(8, rel=0.1)
    assert told["latency"]["p99"] == pytest.approx(8, rel=0.1)
    run = taken(*facts, *(Fact("r0", "b", 0, "deliver", 9 * SECOND, "g", 1, "a", 800, 1) for _ in range(90)))
    assert shown(run, 9 * SECOND)["latency"]["p99"] == pytest.approx(1000, rel=0.1)


def test_a_delivery_that_is_read_before_its_send_waits_for_a_round() -> None:
    run = taken(start("b"), Fact("r0", "b", 1, "deliver", 7 * MS, "g", 1, "a", 1))
    assert run.unmatched == 0
    run.take([start("a"), Fact("r0", "a", 1, "send", 3 * MS, "g", 1, "a", 1)])
    assert shown(run, 9 * MS)["latency"]["p50"] == pytest.approx(4, rel=0.1)
    run.take([Fact("r0", "b", 2, "deliver", 8 * MS, "g", 1, "nobody", 1)])
    run.take([])
    assert run.unmatched == 1


def test_too_many_messages_are_sampled_by_message_and_it_says_so() -> None:
    run = taken(start("a"), start("b"))
    index = 1
    for round_ in range(12):
        facts = []
        for number in range(1_000):
            seq = 1 + round_ * 1_000 + number
            facts.append(Fact("r0", "a", index, "send", seq * 1000, "g", 1, "a", seq))
            facts.append(Fact("r0", "b", index, "deliver", seq * 1000 + 500, "g", 1, "a", seq))
        run.take(facts)
    told = shown(run, SECOND, full=False)
    assert told["flow"]["stride"] >= 4
    items = told["flow"]["items"]
    assert len(items) <= 2 * picture.FLOW_ROUND
    sent = {item[4] for item in items if item[0] == "s"}
    delivered = {item[4] for item in items if item[0] == "d"}
    assert sent == delivered, "a message that is drawn is drawn everywhere"
    assert len(sent) < 1_000 // 2
    run.take([])
    assert shown(run, SECOND)["flow"]["stride"] >= 4, "what is on the screen was sampled"
    for _ in range(30):
        run.take([])
    assert shown(run, SECOND)["flow"]["stride"] == 1


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "RANGES", 50)
    times = SentTimes()
    for seq in range(1, 1_000):
        times.add(seq, 1, seq)
    assert times.find(999) == 999
    assert times.find(3) is None
    assert len(times._firsts) <= 100
    run = RunPicture("r0")
    run.take([start(f"p{number}") for number in range(picture.MOST_PROCESSES + 5)])
    assert len(run.processes) == picture.MOST_PROCESSES
    assert shown(run, 1)["left_out"] == 5
    for number in range(200):
        run.take([view("p1", number, number, "p1", f"q{number}")])
    assert len(run.groups["g"].views) == picture.VIEWS
    assert len(run.log) == picture.LOG
    both = Picture()
    both.take([Fact(f"r{number}", "p", 0, "start", number) for number in range(20)])
    assert sorted(both.runs) == sorted(f"r{number}" for number in range(12, 20))
    assert both.latest() == "r19"
