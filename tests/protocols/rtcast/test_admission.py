"""The admission layer between a host and a ring that takes when it is told to."""

from __future__ import annotations

import pytest

from plainchant.core.model import Batch, Pressure, ProtocolError, View
from plainchant.protocols.rtcast.advisor import Advisor
from tests.protocols.rtcast.streaming import GROUP, Bench


def bodies(batches: list[Batch]) -> list[bytes]:
    return [batch.body for batch in batches]


# --- promising ------------------------------------------------------------------------------------------------------------------


def test_what_is_asked_for_before_there_is_a_ring_is_decided_when_there_is_one() -> None:
    bench = Bench()
    assert not bench.ask("a", size=10, deadline=40_000, period=50_000)
    assert bench.layer.waiting() is not None
    bench.layer.rotation(5_000)
    assert not bench.host.is_admitted, "that is the P of those who have found each other so far"
    bench.start()
    assert bench.host.rows("admit")[0]["rotation"] == 10_000
    assert bench.host.is_admitted == {"a"}
    assert bench.layer.waiting() is None


def test_one_that_waited_for_the_ring_has_less_time_if_its_message_is_there_already() -> None:
    bench = Bench()
    bench.ask("~1", size=10, deadline=40_000)
    bench.ask("~2", size=10, deadline=20_000)
    bench.host.time = 15_000
    bench.start()
    assert bench.host.is_admitted == {"~1"}
    assert bench.host.rejections["~2"].code == "visits"
    assert bench.host.rows("admit")[0]["visits"] == 1


def test_a_promise_is_recorded_with_everything_it_rests_on() -> None:
    bench = Bench(retransmissions=1).start()
    assert bench.ask("a", size=100, deadline=50_000, period=60_000)
    (row,) = bench.host.rows("admit")
    assert row == {
        "stream": "a",
        "size": 100,
        "cost": 120,
        "deadline_ns": 50_000,
        "period_ns": 60_000,
        "visits": 3,
        "pieces": 3,
        "share": 34 + 2 + 20,
        "used": bench.reserved + 56,
        "hold": bench.reserved + 300,
        "rotation": 10_000,
        "delay": 20_000,
    }


def test_a_rejection_says_the_term_and_the_nearest_deadline() -> None:
    bench = Bench(room=100).start()
    assert not bench.ask("a", size=150, deadline=20_000)
    assert bench.host.rejections["a"].code == "load"
    assert bench.host.rejections["a"].evidence == {"stream": "a", "term": "sum of C/n > T", "nearest_ns": 30_000}
    assert bench.host.rejections["a"].text.endswith("the nearest deadline that can be promised is 30us")
    (row,) = bench.host.rows("reject")
    assert (row["reason"], row["term"], row["nearest_ns"]) == ("load", "sum of C/n > T", 30_000)
    assert bench.ask("b", size=150, deadline=30_000)


def test_a_rejection_that_no_deadline_would_change_says_why() -> None:
    bench = Bench(room=100).start()
    assert not bench.ask("a", size=150, deadline=20_000, period=20_000)
    assert bench.host.rejections["a"].evidence["nearest_ns"] is None
    assert "no deadline can be promised: 30us would do, but" in bench.host.rejections["a"].text
    assert not bench.ask("b", size=1, deadline=30_000, period=20_000)
    assert bench.host.rejections["b"].code == "period"


def test_the_load_can_be_read_at_any_time() -> None:
    bench = Bench()
    assert bench.layer.admission(GROUP) == {"hold": bench.reserved + 300, "rotation": None, "streams": {}}
    bench.start()
    bench.ask("a", size=50, deadline=20_000, period=60_000)
    load = bench.layer.admission(GROUP)
    hold = bench.reserved + 300
    assert load == {
        "hold": hold,
        "used": bench.reserved + 70,
        "overhead": bench.reserved,
        "slack": 230,
        "utilisation": (bench.reserved + 70) / hold,
        "rotation": 10_000,
        "delay": 10_000,
        "streams": {"a": {"visits": 1, "share": 70, "deadline": 20_000, "period": 60_000, "size": 50}},
    }


def test_a_name_that_is_promised_is_not_promised_again() -> None:
    bench = Bench().start()
    bench.ask("a", size=10, deadline=40_000, period=50_000)
    with pytest.raises(ProtocolError, match="release it first"):
        bench.ask("a", size=10, deadline=40_000, period=50_000)


def test_what_is_not_for_admission_reaches_the_ring() -> None:
    bench = Bench().start()
    bench.layer.notice(Pressure(GROUP, True))
    bench.layer.ready(GROUP)
    assert bench.ring.told == [Pressure(GROUP, True), "ready"]


# --- sending --------------------------------------------------------------------------------------------------------------------


def test_a_long_message_takes_its_turns_and_its_number_with_the_last_piece() -> None:
    bench = Bench().start()
    bench.ask("a", size=90, deadline=40_000, period=50_000)
    payload = bytes(range(90))
    bench.hand_over("a", payload)
    first, second = bench.turn(0), bench.turn(9_999)
    assert first == [Batch(0, 0, b"\0\1" + payload[:30], 0, 90)]
    assert second == []
    third = bench.turn(10_000)
    assert bench.host.numbered == 0
    assert bench.layer.waiting() is not None
    last = bench.turn(20_000)
    assert last == [Batch(1, 1, b"\0\1" + payload[60:], 60, 90)]
    assert bench.layer.waiting() is None
    assert bench.deliver("p1", *first, *third, *last) == [Batch(1, 1, payload)]


def test_an_urgent_message_passes_a_long_one_and_is_numbered_before_it() -> None:
    bench = Bench().start()
    bench.ask("slow", size=90, deadline=40_000, period=50_000)
    bench.ask("quick", size=20, deadline=20_000, period=50_000)
    bench.hand_over("slow", b"s" * 90)
    sent = bench.turn(0)
    bench.host.time = 5_000
    bench.hand_over("quick", b"q" * 20)
    sent += bench.turn(9_000) + bench.turn(18_000) + bench.turn(20_000)
    assert [(batch.first, batch.body) for batch in bench.deliver("p1", *sent)] == [(1, b"q" * 20), (2, b"s" * 90)]


def test_messages_without_a_deadline_come_last_and_only_in_what_is_left() -> None:
    bench = Bench(room=200).start()
    bench.ask("a", size=100, deadline=20_000, period=50_000)
    bench.host.submit(GROUP, b"n" * 60, b"m" * 60)
    bench.hand_over("a", b"a" * 100)
    assert bodies(bench.turn(0)) == [b"a" * 100, b"n" * 60]
    assert bodies(bench.turn(10_000)) == [b"m" * 60]


def test_a_message_without_a_deadline_that_is_longer_than_a_packet_is_cut() -> None:
    bench = Bench(room=300, max_packet=200).start()
    payload = bytes(index % 251 for index in range(900))
    bench.host.submit(GROUP, payload, b"next")
    sent: list[Batch] = []
    for number in range(6):
        sent += bench.turn(number * 10_000)
    assert bench.host.numbered == 2
    assert all(batch.body[:2] == b"\0\0" for batch in sent[:-1])
    assert bodies(bench.deliver("p1", *sent)) == [payload, b"next"]


def test_a_message_without_a_deadline_waits_once_for_a_turn_with_room_and_is_cut_where_no_turn_has_it() -> None:
    bench = Bench(room=200).start()
    bench.host.submit(GROUP, b"n" * 120, b"m" * 120)
    assert bodies(bench.turn(0)) == [b"n" * 120]
    assert bodies(bench.turn(10_000)) == [b"m" * 120], "whole, though 60 of the last turn were left"
    bench = Bench(room=100).start()
    bench.host.submit(GROUP, b"n" * 120)
    sent = bench.turn(0) + bench.turn(10_000) + bench.turn(20_000)
    assert bodies(bench.deliver("p1", *sent)) == [b"n" * 120]


def test_a_promised_packet_without_room_is_not_cut_and_nothing_passes_it() -> None:
    bench = Bench(room=300).start()
    bench.ask("a", size=100, deadline=20_000, period=50_000)
    bench.hand_over("a", b"a" * 100)
    bench.host.submit(GROUP, b"n")
    assert bench.ring.host.take(GROUP, 99) is None
    assert bodies(bench.turn(0)) == [b"a" * 100, b"n"]


def test_an_aperiodic_stream_leaves_g_when_its_message_is_sent() -> None:
    bench = Bench(room=130).start()
    bench.host.streams.clear()
    assert bench.ask("~1", size=100, deadline=20_000)
    assert not bench.ask("~2", size=100, deadline=20_000)
    bench.hand_over("~1", b"x" * 100)
    assert bodies(bench.turn(10)) == [b"x" * 100]
    load = bench.layer.admission(GROUP)
    assert load is not None
    assert not load["streams"]
    assert bench.ask("~3", size=100, deadline=20_000)


def test_the_next_message_of_a_stream_follows_when_the_one_before_is_sent() -> None:
    bench = Bench().start()
    bench.ask("a", size=20, deadline=20_000, period=20_000)
    bench.hand_over("a", b"1" * 20)
    bench.host.time = 20_000
    bench.hand_over("a", b"2" * 20)
    assert bodies(bench.turn(20_000)) == [b"1" * 20, b"2" * 20], "the first is late: it is sent all the same, and both in order"


def test_release_makes_room_when_what_was_handed_over_is_sent() -> None:
    bench = Bench(room=130).start()
    bench.ask("a", size=100, deadline=20_000, period=20_000)
    bench.hand_over("a", b"a" * 100)
    bench.release("a")
    assert not bench.ask("b", size=100, deadline=20_000, period=20_000)
    assert bodies(bench.turn(0)) == [b"a" * 100]
    assert bench.host.rows("release") == [{"stream": "a", "used": bench.reserved, "hold": bench.reserved + 130}]
    assert bench.ask("c", size=100, deadline=20_000, period=20_000)
    bench.release("c")
    assert bench.ask("d", size=100, deadline=20_000, period=20_000), "nothing of c was under way"
    bench.release("nobody")


# --- receiving ------------------------------------------------------------------------------------------------------------------


def piece(number: int, body: bytes, offset: int, total: int, first: int = 0) -> Batch:
    return Batch(first, int(first > 0), number.to_bytes(2, "big") + body, offset, total)


def test_pieces_of_several_messages_and_senders_alternate() -> None:
    bench = Bench().start()
    delivered = bench.deliver(
        "p2",
        piece(1, b"aa", 0, 4),
        piece(2, b"b", 0, 2),
        Batch(1, 1, b"whole"),
        piece(2, b"B", 1, 2, 2),
        piece(1, b"AA", 2, 4, 3),
    )
    assert [(batch.first, batch.body) for batch in delivered] == [(1, b"whole"), (2, b"bB"), (3, b"aaAA")]
    ranks = [call[3] for call in bench.host.called("deliver")]
    assert ranks == [2, 3, 4]


def test_a_view_without_a_sender_drops_its_pieces_and_no_others() -> None:
    bench = Bench().start()
    bench.deliver("p2", piece(1, b"aa", 0, 4))
    bench.deliver("p3", piece(1, b"cc", 0, 4))
    bench.ring.host.install(View(GROUP, 2, ("p1", "p3")))
    assert bodies(bench.deliver("p3", piece(1, b"CC", 2, 4, 1))) == [b"ccCC"]
    with pytest.raises(ProtocolError, match="of which 0 bytes"):
        bench.deliver("p2", piece(1, b"AA", 2, 4, 1))


def test_a_message_that_its_sender_gave_up_is_replaced() -> None:
    bench = Bench().start()
    assert bodies(bench.deliver("p2", piece(1, b"old", 0, 9), piece(1, b"ne", 0, 3), piece(1, b"w", 2, 3, 1))) == [b"new"]


def test_who_joins_takes_over_what_the_others_have_heard() -> None:
    members = [Bench().start(), Bench().start()]
    for bench in members:
        bench.deliver("p2", piece(1, b"aa", 0, 4), piece(7, b"b", 0, 2))
        bench.deliver("p1", piece(1, b"\0\xff", 0, 3))
    data = [bench.layer.partial() for bench in members]
    assert data[0] == data[1] != b""
    joiner = Bench().start()
    joiner.layer.adopt(data[0])
    assert joiner.layer.partial() == data[0]
    assert bodies(joiner.deliver("p2", piece(7, b"B", 1, 2, 1), piece(1, b"AA", 2, 4, 2))) == [b"bB", b"aaAA"]
    joiner.layer.adopt(b"")
    assert joiner.layer.partial() == b""


# --- a larger P -----------------------------------------------------------------------------------------------------------------


def test_a_larger_p_is_carried_if_all_that_is_promised_fits() -> None:
    bench = Bench(room=130).start()
    assert bench.layer.carries(15_000) is True
    bench.layer.decided()
    bench.ask("a", size=100, deadline=30_000, period=50_000)
    assert bench.layer.carries(14_000) is True, "n is 1 now, and 100 bytes fit at once"
    bench.layer.decided()
    assert bench.layer.carries(16_000) is False, "n < 1"
    assert bench.layer.carries(10_000) is True, "that is P"


def test_a_vote_freezes_promises_until_it_is_over() -> None:
    bench = Bench(room=130).start()
    assert bench.layer.carries(15_000) is True
    assert not bench.ask("a", size=100, deadline=20_000, period=50_000)
    assert bench.host.rows("reject")[0]["rotation"] == 15_000
    assert bench.ask("b", size=10, deadline=30_000, period=50_000)
    bench.layer.decided()
    assert bench.ask("c", size=10, deadline=20_000, period=50_000)


def test_a_vote_that_was_lost_here_freezes_nothing() -> None:
    bench = Bench(room=130).start()
    bench.ask("a", size=100, deadline=20_000, period=50_000)
    assert bench.layer.carries(15_000) is False
    bench.hand_over("a", b"a" * 100)
    assert bodies(bench.turn(0)) == [b"a" * 100]


def test_the_answer_waits_for_messages_that_were_planned_with_the_smaller_p() -> None:
    bench = Bench(room=300, retransmissions=1).start()
    bench.ask("a", size=90, deadline=60_000, period=60_000)
    bench.hand_over("a", b"a" * 90)
    sent = bench.turn(0)
    assert bench.layer.has_messages()
    assert bench.layer.carries(15_000) is None, "under way"
    sent += bench.turn(10_000) + bench.turn(20_000) + bench.turn(30_000)
    assert len(bench.deliver("p1", *sent)) == 1
    assert not bench.layer.has_messages()
    assert bench.layer.carries(15_000) is None, "it may have to be sent again"
    bench.host.time = 60_000
    bench.hand_over("a", b"b" * 90)
    assert bench.layer.carries(15_000) is True, "planned with the larger one"
    later = bench.turn(60_000) + bench.turn(70_000)
    bench.layer.rotation(15_000)
    assert len(later) == 1
    later += bench.turn(75_000)
    assert bodies(bench.deliver("p1", *later)) == [b"b" * 90]
    load = bench.layer.admission(GROUP)
    assert load is not None
    assert load["rotation"] == 15_000


def test_an_aperiodic_message_under_way_delays_the_answer_and_does_not_change_it() -> None:
    bench = Bench(room=130).start()
    bench.ask("~1", size=100, deadline=20_000)
    bench.hand_over("~1", b"x" * 100)
    assert bench.layer.carries(15_000) is None
    bench.turn(0)
    bench.host.time = 10_000
    assert bench.layer.carries(15_000) is True


def test_a_p_that_grows_unasked_takes_back_the_latest_promises() -> None:
    bench = Bench(room=110).start()
    for name, deadline in (("a", 60_000), ("b", 20_000), ("c", 60_000), ("d", 60_000)):
        assert bench.ask(name, size=5 if name == "b" else 40, deadline=deadline, period=60_000) == (name != "d")
    bench.host.rejections.clear()
    bench.layer.rotation(30_000)
    assert list(bench.host.rejections) == ["b", "c"]
    assert bench.host.rejections["b"].text.startswith("P has grown, and what was promised cannot be kept: n < 1")
    load = bench.layer.admission(GROUP)
    assert load is not None
    assert list(load["streams"]) == ["a"]
    assert load["slack"] >= 0


def test_a_p_that_shrinks_leaves_a_message_under_way_its_plan() -> None:
    bench = Bench(room=300).start()
    bench.ask("a", size=90, deadline=40_000, period=50_000)
    bench.hand_over("a", b"a" * 90)
    sent = bench.turn(0)
    bench.layer.rotation(5_000)
    assert bench.turn(5_000) == []
    sent += bench.turn(10_000) + bench.turn(20_000)
    assert len(bench.deliver("p1", *sent)) == 1
    bench.host.time = 50_000
    bench.hand_over("a", b"b" * 90)
    assert len(bench.turn(50_000) + bench.turn(55_000)) == 2


def test_leaving_forgets_everything() -> None:
    bench = Bench().start()
    bench.ask("a", size=90, deadline=40_000, period=50_000)
    bench.hand_over("a", b"a" * 90)
    bench.deliver("p2", piece(1, b"aa", 0, 4))
    bench.ring.host.left(GROUP)
    assert bench.layer.partial() == b""
    assert bench.turn(0) == []
    assert bench.host.called("left") == [(GROUP, None)]


def test_without_admission_everything_can_be_carried() -> None:
    advisor = Advisor()
    advisor.rotation(5)
    assert advisor.carries(10**12) is True
    advisor.decided()
    advisor.adopt(advisor.partial())
