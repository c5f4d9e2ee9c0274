"""The words for rows of a token ring."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from plainchant.core.model import MS, US
from plainchant.protocols.rtcast.story_words import act, broken, ground, missing, packets

STREAM = {"stream": "w0", "size": 200, "deadline_ns": 90 * MS, "period_ns": 100 * MS, "used": 2_600 * US, "hold": 4 * MS}
TURN = {"by": "token", "visit": 7, "rotation": 6 * MS, "hold": 460 * US, "bound": 40 * MS, "packets": 3}

ROWS: list[tuple[str, Mapping[str, Any], str | None, str]] = [
    ("token", TURN, None, "has turn 7, by the token, 6.0 ms after its last (P is 40.0 ms); 3 packets, held for 460 us"),
    (
        "token",
        {**TURN, "by": "timeout", "rotation": None},
        None,
        "has turn 7, by its timeout, without the token; 3 packets, held for 460 us",
    ),
    ("suspect", {"processes": ["b", "c"]}, None, "eliminates b and c"),
    (
        "confirm",
        {"kinds": ["eliminate", "join"], "number": 3, "by": "c", "rotation": 40 * MS},
        None,
        "comes to change 3 by c: members are eliminated and somebody joins; P is 40.0 ms",
    ),
    (
        "confirm",
        {"kinds": ["reclaim"], "rotation": 30 * MS, "present": 40 * MS},
        None,
        "gives back what P has too much: 40.0 ms becomes 30.0 ms",
    ),
    ("state", {"state": "gathering"}, None, "looks for those who form the group"),
    ("state", {"state": "gathering", "gives_up": "b", "found": "a"}, None, "gives its ring up for that of a"),
    ("state", {"state": "joining", "after": "omission"}, None, "looks for the group again, after it had dropped out (omission)"),
    ("state", {"state": "crashed", "reason": "deaf"}, None, "drops out (deaf)"),
    (
        "state",
        {"broken": "rotation", "measured": 50 * MS, "bound": 40 * MS},
        None,
        "gets the token after 50.0 ms, and P is 40.0 ms",
    ),
    ("state", {"broken": "P4", "why": "step"}, None, "does not know the time any more: its own clock was set (P4)"),
    ("request", {"to": "a", "ring": "a"}, None, "asks a for a place on the ring, in the join slot"),
    (
        "query",
        {"joiners": ["d"], "rotation": 50 * MS, "present": 40 * MS},
        None,
        "asks all members whether P may grow from 40.0 ms to 50.0 ms, for d to join",
    ),
    ("usend", {"vote": False, "rotation": 50 * MS}, None, "votes against P = 50.0 ms"),
    ("udeliver", {"vote": True, "source": "b"}, None, "has b's vote: yes"),
    ("collision", {"processes": ["d", "e"]}, None, "hears nothing of the requests of d and e, which collided in the join slot"),
    ("reject", {"join": True, "why": "b did not vote", "rounds": 3}, None, "is not let in, and waits 3 rotations"),
    (
        "receive",
        {"omission": True, "missing": [["a", 7, 7], ["b", 2, -1]]},
        None,
        "has missed packet 7 of a and all packets of b from 2 on for good",
    ),
    ("ask", {"first": 7, "last": 9, "left": 1}, "a", "asks for packets 7 to 9 of a"),
    ("retransmit", {"to": ["c"], "number": 7, "visit": 4}, "a", "sends packet 7 of a again, of turn 4, to c"),
    (
        "drop",
        {"why": "late", "packet": "Beat", "source": "b", "age": 9 * MS, "bound": 2 * MS},
        None,
        "throws a heartbeat of b away, which is 9.0 ms old, older than 2.0 ms",
    ),
    ("drop", {"why": "foreign", "packet": "Data", "source": "b"}, None, "throws a packet of b away, which is not of its ring"),
    (
        "admit",
        {**STREAM, "visits": 4, "share": 77 * US},
        None,
        "admits stream w0 (200 B, every 100.0 ms, due within 90.0 ms): 77 us in each of 4 turns; now 2.6 ms of T = 4.0 ms are "
        "promised",
    ),
    (
        "admit",
        {**STREAM, "stream": "~1", "period_ns": 0, "visits": 1, "share": 77 * US},
        None,
        "admits a message (200 B, once, due within 90.0 ms): 77 us in one turn; now 2.6 ms of T = 4.0 ms are promised",
    ),
    (
        "reject",
        {**STREAM, "reason": "visits", "text": "n < 1"},
        None,
        "rejects stream w0 (200 B, every 100.0 ms, due within 90.0 ms)",
    ),
    (
        "release",
        {"stream": "w0", "used": 1 * MS, "hold": 4 * MS},
        None,
        "releases stream w0; now 1.0 ms of T = 4.0 ms are promised",
    ),
    (
        "sync",
        {"master": "a", "error": 800 * US, "round_trip": 2 * MS, "tries": 2},
        None,
        "has the time of a, within 800 us, by a round trip of 2.0 ms, after 2 failed readings",
    ),
]


@pytest.mark.parametrize(("kind", "detail", "sender", "words"), ROWS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_row_in_words(kind: str, detail: Mapping[str, Any], sender: str | None, words: str) -> None:
    assert act(kind, detail, sender) == words


def test_why_a_member_is_eliminated() -> None:
    detail = {"processes": ["b"], "last": {"b": 4}, "after": 10, "waited": 26 * MS, "answers": ["a", "d"]}
    assert ground("suspect", detail) == (
        "no heartbeat of it came for 26.0 ms after turn 10; a and d answered and know of no later turn; its last packet is "
        "number 4"
    )
    several = {"processes": ["b", "c"], "last": {"b": 4, "c": 9}, "after": 10, "waited": 26 * MS, "answers": []}
    assert ground("suspect", several) == (
        "no heartbeats of them came for 26.0 ms after turn 10; nobody answered; their last packets: 4 of b and 9 of c"
    )


def test_why_a_stream_or_a_joiner_is_rejected() -> None:
    assert ground("reject", {**STREAM, "text": "n < 1: too short"}) == "n < 1: too short"
    assert ground("reject", {"join": True, "why": "b did not vote"}) == "b did not vote"
    left = "it has not come; 2 more turns may pass before that is an omission"
    assert ground("ask", {"first": 1, "last": 1, "left": 2}) == left


def test_rows_of_other_protocols_are_not_of_a_ring() -> None:
    others: list[tuple[str, dict[str, Any]]] = [
        ("suspect", {"process": "m", "why": "silence"}),
        ("confirm", {"detection": {"m": 8}}),
        ("state", {"epoch": 2, "sequencer": "p"}),
        ("sync", {"phase": 2, "over": True}),
        ("ask", {"process": "m", "asked": "k"}),
        ("retransmit", {"first": 3, "last": 4}),
        ("drop", {"epoch": 3, "count": 2}),
        ("receive", {}),
        ("reject", {}),
        ("elect", {"stage": "vote"}),
    ]
    for kind, detail in others:
        assert act(kind, detail) is None, kind
        assert ground(kind, detail) is None, kind


def test_assumptions_that_do_not_hold() -> None:
    assert broken({"broken": "P3", "source": "b", "measured": 9 * MS, "bound": 2 * MS}) == (
        "gets a packet of b that is 9.0 ms old; at most 2.0 ms is assumed (P3)"
    )
    assert broken({"broken": "hold", "measured": 9 * MS, "bound": 4 * MS}) == "holds the token for 9.0 ms, and its T is 4.0 ms"
    assert broken({"broken": "reaction", "measured": 9 * MS}) == "reacts 9.0 ms late"
    assert broken({"broken": "P2", "source": "b"}) == "gets a packet of b after its heartbeat, though that was sent later (P2)"
    assert broken({"broken": "P9"}) == "finds P9 broken"
    assert broken({"state": "running"}) is None


def test_packets_that_are_missing_are_read_with_care() -> None:
    assert missing({"missing": [["a", 1, 2], ["b", "x", 2], "c", ["d", 3]]}) == [("a", 1, 2)]
    assert missing({"missing": 7}) == []
    assert packets(None, 3, 3) == "packet 3"


def test_whatever_a_detail_has_or_lacks_something_is_told() -> None:
    random = Random(7)
    odd: list[Any] = [None, 7, "x", [], ["a"], {"a": 1}, {}, True, -1, 2.5]
    for kind, detail, sender, _ in ROWS:
        for _ in range(60):
            given = {key: random.choice([value, random.choice(odd)]) for key, value in detail.items() if random.random() < 0.8}
            told = act(kind, given, sender)
            assert told is None or told
            ground(kind, given)
