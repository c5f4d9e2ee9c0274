"""The process core: a turn ends as one list of effects, in order, and a driver performs them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from plainchant.core.engine import Engine
from plainchant.core.model import (
    Batch,
    Due,
    Invitation,
    Packet,
    Pressure,
    ProtocolError,
    Reason,
    Release,
    Stream,
    View,
    pack,
)
from plainchant.core.process import EFFECTS, Process


class Word(Packet, frozen=True, array_like=True, gc=False, tag=1):
    text: str


class Driver(Process):
    """Writes down the effects that it performs, by name."""

    def __init__(self) -> None:
        for name in EFFECTS:
            if not hasattr(Process, f"do_{name}"):
                setattr(self, f"do_{name}", self._note(name))
        self.done: list[tuple[Any, ...]] = []
        self.time = 5
        super().__init__("p1", Random(0), 100, 0)

    def _note(self, name: str) -> Callable[..., None]:
        return lambda *what: self.done.append((name, *what))

    def clock(self) -> int:
        return self.now + 1_000

    def read_clock(self) -> None:
        self.now = self.time

    def later(self, method: Callable[..., object], *arguments: Any) -> None:
        self.calls.append((self.turn, (method, *arguments)))

    def stop(self, reason: Reason, detail: dict[str, Any]) -> None:
        self.done.append(("stop", reason.code, detail["by"]))
        self.alive = False

    def names(self) -> list[str]:
        return [effect[0] for effect in self.done]


def member(view: int = 1, *members: str) -> Driver:
    """A process that is in group g."""
    process = Driver()
    process.turn(process.install, View("g", view, members or ("p1", "p2")))
    process.done.clear()
    return process


# --- turns ------------------------------------------------------------------------------------------------------------


def test_effects_are_performed_in_order_after_the_method_has_returned() -> None:
    process = member()

    def method() -> None:
        process.send(["p2"], Word("one"))
        process.set_timer("t", 7)
        process.deliver("g", "p2", Batch(1, 1, b"x"), 3)
        process.defer(process.done.append, ("placed",))
        process.cancel_timer("t")
        assert process.done == [], "nothing is done while the engine runs"

    process.turn(method)
    assert process.done == [
        ("send", ("p2",), Word("one"), 0),
        ("timer", "t", 7),
        ("deliver", "g", 1, "p2", Batch(1, 1, b"x"), None, 3),
        ("placed",),
        ("timer", "t", None),
    ]
    assert process.effects == []


def test_a_list_of_receivers_may_be_changed_before_the_packet_leaves() -> None:
    process, to = member(), ["p2"]

    def method() -> None:
        process.send(to, Word("one"))
        to.append("p3")

    process.turn(method)
    assert process.done == [("send", ("p2",), Word("one"), 0)]


def test_an_engine_that_raises_has_done_nothing_and_its_process_halts() -> None:
    process = member()

    def method() -> None:
        process.send(["p2"], Word("one"))
        process.record("thought")
        raise ValueError("no")

    process.turn(method)
    assert process.done == [("stop", "exception", "protocol")]
    assert not process.alive
    process.turn(process.record, "afterwards")
    assert process.names() == ["stop"], "a process that has stopped has no turns"


def test_a_halt_cuts_off_what_is_behind_it() -> None:
    process = member()

    def method() -> None:
        process.send(["p2"], Word("before"))
        process.halt(Reason("minority", "only a minority is left"))
        process.send(["p2"], Word("behind"))
        process.deliver("g", "p2", Batch(1, 1, b"x"))

    process.turn(method)
    assert process.done == [("send", ("p2",), Word("before"), 0), ("stop", "minority", "protocol")]


def test_entry_points_are_not_re_entrant() -> None:
    process = member()
    process.turn(process.turn, process.record, "inside")
    assert process.done == [("stop", "exception", "protocol")]


def test_time_stands_still_during_a_turn() -> None:
    process = member()
    seen: list[int] = []

    def method() -> None:
        for _ in range(2):
            process.time += 1
            seen.append(process.now)

    process.turn(method)
    process.turn(method)
    assert seen == [5, 5, 7, 7]


def test_calls_run_first_in_first_out_with_those_that_they_add() -> None:
    process, seen = member(), list[str]()

    def first() -> None:
        seen.append("first")
        process.calls.append((seen.append, ("added",)))
        process.settle()  # nested: only adds

    process.calls.extend([(first, ()), (seen.append, ("second",))])
    process.settle()
    assert seen == ["first", "second", "added"]


def test_calls_end_with_the_process() -> None:
    process, seen = member(), list[str]()
    process.calls.extend([(process.stop, (Reason("x", "y"), {"by": "test"})), (seen.append, ("never",))])
    process.settle()
    assert seen == []
    assert not process.calls


def test_an_effect_that_a_driver_does_not_have_is_refused() -> None:
    class Small(Process):
        def read_clock(self) -> None:
            pass

    process = Small("p1", Random(0), 100, 0)
    with pytest.raises(ProtocolError, match="asks for stable"):
        process.turn(process.stable, "g", 1)


# --- messages ---------------------------------------------------------------------------------------------------------


def test_taking_numbers_messages_and_says_so() -> None:
    process = member(4)
    process.queue_of("g").items += [b"a", b"b", b"c"]
    taken: list[Batch | None] = []

    def method() -> None:
        taken.append(process.take("g", 100, 1))
        assert process.peek("g") == Due(b"b", 0)
        taken.append(process.take("g", 100))
        taken.append(process.take("g", 100))

    process.turn(method)
    assert taken == [Batch(1, 1, b"a"), pack(2, [b"b", b"c"]), None]
    assert process.taken("g") == 3
    assert process.done == [
        ("took", "g", 4, "", Batch(1, 1, b"a"), None),
        ("took", "g", 4, "", pack(2, [b"b", b"c"]), [b"b", b"c"]),
    ]


def test_a_batch_that_cannot_be_read_fails_in_the_turn() -> None:
    process = member()
    process.turn(process.deliver, "g", "p2", Batch(1, 2, b"\xc1"))
    assert process.done == [("stop", "exception", "protocol")]


def test_a_fragment_is_not_delivered() -> None:
    process = member()
    with pytest.raises(ProtocolError, match="Fragmentation must be at the top"):
        process.deliver("g", "p2", Batch(1, 1, b"x", 0, 10))


def test_a_stream_is_taken_from_when_it_is_admitted() -> None:
    process = member()
    process.streams.open("g", Stream("s", 10, 50, 100)).add(b"m", 7)
    process.turn(process.take, "g", 100, 0, "s")
    assert process.done == []
    process.turn(process.admitted, "g", "s")
    process.turn(process.admitted, "g", "s")
    process.turn(process.take, "g", 100, 0, "s")
    assert process.done == [("admitted", "g", "s"), ("took", "g", 1, "s", Batch(1, 1, b"m"), [Due(b"m", 7, 57)])]


def test_a_stream_that_was_released_ends_when_its_last_message_is_taken() -> None:
    process = member()
    process.streams.open("g", Stream("s", 10, 50, 100)).add(b"m", 7)
    process.turn(process.admitted, "g", "s")
    process.release("g", "s")
    assert not process.calls
    process.done.clear()
    process.turn(process.take, "g", 100, 0, "s")
    assert process.names() == ["took", "later"]
    assert process.done[1][2] == (Release("g", "s"),)
    assert process.streams.find("g", "s") is None


def test_a_rejected_stream_drops_what_waits_in_it() -> None:
    process = member()
    process.streams.open("g", Stream("s", 10, 50, 100)).add(b"m", 7)
    process.turn(process.admitted, "g", "s")
    process.done.clear()
    reason = Reason("room", "no room")
    process.turn(process.rejected, "g", "s", reason)
    drop, rejected = process.done
    assert drop[:4] == ("drop", "g", 1, 1)
    assert rejected == ("rejected", "g", "s", reason)


# --- groups and rows --------------------------------------------------------------------------------------------------


def test_the_first_view_with_this_process_is_its_join() -> None:
    process = Driver()
    process.turn(process.install, View("g", 1, ("p2",)))
    process.turn(process.install, View("g", 2, ("p1", "p2"), rank=9))
    rows = [effect[1:] for effect in process.done if effect[0] == "row"]
    assert [(row[0], row[2], row[5]) for row in rows] == [("view", 1, None), ("join", 1, 9), ("view", 2, None)]
    assert [effect[2:] for effect in process.done if effect[0] == "view"] == [(True, False), (False, True)]


def test_rows_and_deliveries_have_the_view_of_the_call() -> None:
    process = member()

    def method() -> None:
        process.deliver("g", "p2", Batch(1, 1, b"x"))
        process.install(View("g", 2, ("p1",)))
        process.deliver("g", "p1", Batch(1, 1, b"y"))
        process.left("g")
        process.record("thought", "g")

    process.turn(method)
    assert [effect[2] for effect in process.done if effect[0] == "deliver"] == [1, 2]
    assert process.done[-1][3] is None, "it is in no view any more"
    assert process.names() == ["deliver", "row", "view", "deliver", "row", "left", "record"]


def test_leaving_drops_what_was_not_taken() -> None:
    process = member()
    process.queue_of("g").items += [b"a", b"b"]
    process.turn(process.left, "g", 4)
    assert process.names() == ["drop", "row", "left"]
    assert process.done[0][3] == 2
    assert process.done[-1] == ("left", "g", True)
    assert (process.entered, process.joined, process.views) == ({}, {}, {})


def test_messages_follow_a_group_to_its_new_name() -> None:
    process = member()
    process.queue_of("g").items += [b"b", b"c"]
    process.leaving["g"] = None
    taken: list[Batch | None] = []

    def method() -> None:
        process.renamed("g", View("h", 1, ("p1",)), [b"a"])
        taken.append(process.take("h", 100))

    process.turn(method)
    assert taken == [pack(1, [b"a", b"b", b"c"])]
    assert process.leaving == {"h": None}
    assert process.names() == ["row", "renamed", "row", "row", "view", "took"]
    engine = Asked()
    process.engine = engine
    process.turn(process._ask, engine.leave, "g")
    assert engine.asked == [("leave", "h")]


def test_a_process_that_is_refused_has_left() -> None:
    process = Driver()
    process._enter("g")
    process.turn(process.refused, "g", Reason("full", "no place"))
    assert process.names() == ["row", "refused"]
    assert process.done[-1][-1] is True
    assert process.entered == {}


def test_facts_are_not_for_engines_to_record() -> None:
    process = member()
    with pytest.raises(ProtocolError, match="hosts alone write"):
        process.record("deliver", "g")


def test_a_record_has_columns_and_detail() -> None:
    process = member()
    why = Reason("late", "it is late", {"ms": 3})
    process.turn(lambda: process.record("suspect", "g", sender="p2", seq=4, deadline=9, why=why, count=2))
    extra = {"deadline": 9, "detail": {"why": why.to_detail(), "count": 2}}
    assert process.done == [("record", "suspect", "g", 1, "p2", 4, None, extra)]


def test_there_are_no_procedures_without_shared_memory() -> None:
    process = member()
    with pytest.raises(ProtocolError, match="without shared memory"):
        process.spawn("look", iter(()))  # type: ignore[arg-type]
    process.turn(process.report, "p2", Reason("x", "y"))
    assert process.done == []


def test_an_engine_sends_only_over_networks_that_there_are() -> None:
    process = member()
    with pytest.raises(ProtocolError, match="there are 1, counted from 0"):
        process.send(["p2"], Word("x"), 1)


# --- what applications ask for ----------------------------------------------------------------------------------------


class Asked(Engine):
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def join(self, group: str, how: Any) -> None:
        self.asked.append(("join", group, how))

    def leave(self, group: str) -> None:
        self.asked.append(("leave", group))

    def close(self, group: str) -> None:
        self.asked.append(("close", group))

    def rename(self, group: str, name: str) -> None:
        self.asked.append(("rename", group, name))

    def notice(self, event: Any) -> None:
        self.asked.append(("notice", event))

    def waiting(self) -> Reason | None:
        return None


def test_requests_become_turns_and_a_group_is_left_once() -> None:
    process, engine = member(), Asked()
    process.engine = engine
    process.rename("g", "h")
    process.pressure("g", True)
    process.leave("g")
    process.leave("g")
    process.close_group("g")
    process.rename("g", "i")
    process.leave("elsewhere")
    assert engine.asked == []
    process.settle()
    assert engine.asked == [("rename", "g", "h"), ("notice", Pressure("g", True)), ("leave", "g")]


def test_what_a_process_waits_for() -> None:
    process = member()
    assert process.waiting() is None
    process.queue_of("g").items.append(b"a")
    reason = process.waiting()
    assert reason is not None
    assert (reason.code, reason.evidence) == ("queue", {"messages": 1})
    assert process.waiting("h") is None
    process.queues.clear()
    process.streams.open("h", Stream("s", 1, 1, 1))
    reason = process.waiting()
    assert reason is not None
    assert reason.code == "admission"
    assert process.waiting("g") is None


def test_invitations_and_stability_reach_the_driver() -> None:
    process = Driver()
    invitation = Invitation("g", "p2", ("p1", "p2"), 1)
    process.turn(process.invited, invitation)
    process.turn(process.stable, "g", 7)
    assert process.done == [("invited", invitation), ("stable", "g", 7)]
