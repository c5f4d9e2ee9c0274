"""Further traces about delivery and time, for the catalogue: the situations that ``tests/lab/properties`` does not have."""

from __future__ import annotations

AB = "view 1 a,b"
ABC = "view 1 a,b,c"

BAD = [
    ("integrity: again after a merge", "integrity", {
        "a": "view 1 a,b | send | view 2 a | view 4 a,b | end",
        "b": "view 1 a,b | deliver a 1 | view 3 b | view 4 a,b | deliver a 1 | end",
    }, "b"),
    ("integrity: again after it was readmitted", "integrity", {
        "a": "view 1 a,b | send | view 2 a | view 3 a,b | end",
        "b": "view 1 a,b | deliver a 1 | leave | join | view 3 a,b | deliver a 1 | end",
    }, "b"),
    ("integrity: an outsider's message with two contents", "integrity", {
        "s": "send digest=7 | end",
        "a": f"{AB} | deliver s 1 digest=7 | end",
        "b": f"{AB} | deliver s 1 digest=9 | end",
    }, "b"),
    ("integrity: of a group that overlaps with its own", "integrity", {
        "a": "view 1 a,b | send | end",
        "b": "view 1 a,b | view 1 b,c group=h | deliver a 1 | end",
        "c": "view 1 b,c group=h | deliver a 1 | end",
    }, "c"),
    ("integrity: one more than a crashed sender sent", "integrity", {
        "a": f"{AB} | send | crash",
        "b": f"{AB} | deliver a 1 | deliver a 2 | end",
    }, "b"),
    ("integrity: one more than a sender that left sent", "integrity", {
        "a": f"{AB} | send | leave",
        "b": f"{AB} | deliver a 1 | deliver a 2 | end",
    }, "b"),
    ("integrity: the old incarnation's number under the new one's name, twice over", "integrity", {
        "p3": "view 1 b,p3 | send | crash",
        "p3#1": "join | view 2 b,p3#1 | send | end",
        "b": "view 1 b,p3 | view 2 b,p3#1 | deliver p3#1 1 | deliver p3#1 2 | end",
    }, "b"),
    ("self-delivery: a joiner never delivers what it sends", "self-delivery", {
        "a": "view 1 a | view 2 a,b | deliver b 1 | end",
        "b": "join | view 2 a,b | send | end",
    }, "b"),
    ("self-delivery: the new incarnation, though the old one's message is there", "self-delivery", {
        "p3": "view 1 a,p3 | send | crash",
        "p3#1": "join | view 2 a,p3#1 | send | deliver p3 1 | end",
        "a": "view 1 a,p3 | view 2 a,p3#1 | deliver p3 1 | deliver p3#1 1 | end",
    }, "p3#1"),
    ("self-delivery: sent on its side of a partition, lost in the merge", "self-delivery", {
        "a": "view 1 a,b | view 2 a | send | view 4 a,b | end",
        "b": "view 1 a,b | view 3 b | send | deliver b 1 | view 4 a,b | end",
    }, "a"),
    ("self-delivery: a pause is no excuse", "self-delivery", {
        "a": f"{AB} | send | fault detail={{\"fault\":\"pause\"}} | end",
        "b": f"{AB} | deliver a 1 | crash",
    }, "a"),
    ("validity: in the second of two groups only", "validity", {
        "a": "view 1 a,b | view 1 a,b group=h | send | send group=h | deliver a 1 | deliver a 1 group=h | end",
        "b": "view 1 a,b | view 1 a,b group=h | deliver a 1 | end",
    }, "b"),
    ("validity: the new incarnation misses what was sent in its view", "validity", {
        "p3": "view 1 a,p3 | crash",
        "p3#1": "join | view 2 a,p3#1 | end",
        "a": "view 1 a,p3 | view 2 a,p3#1 | send | deliver a 1 | end",
    }, "p3#1"),
    ("validity: missed after a merge", "validity", {
        "a": "view 1 a,b | view 2 a | view 4 a,b | send | deliver a 1 | end",
        "b": "view 1 a,b | view 3 b | view 4 a,b | end",
    }, "b"),
    ("validity: one leaves, one is cut, the third misses it", "validity", {
        "a": "view 1 a,b,c,d | send | deliver a 1 | view 2 a,b | end",
        "b": "view 1 a,b,c,d | view 2 a,b | end",
        "c": "view 1 a,b,c,d | leave",
        "d": "view 1 a,b,c,d",
    }, "b"),
    ("agreement: its sender left", "agreement", {
        "a": f"{ABC} | send | leave",
        "b": f"{ABC} | deliver a 1 | view 2 b,c | end",
        "c": f"{ABC} | view 2 b,c | end",
    }, "c"),
    ("agreement: its sender was cut, in the second of two groups", "agreement", {
        "a": "view 1 a,b,c group=h | send group=h",
        "b": "view 1 b,c | view 1 a,b,c group=h | deliver a 1 group=h | end",
        "c": "view 1 b,c | view 1 a,b,c group=h | end",
    }, "c"),
    ("agreement: delivered in the view after a merge", "agreement", {
        "a": "view 1 a,b | view 2 a | send | view 4 a,b | deliver a 1 | end",
        "b": "view 1 a,b | view 3 b | view 4 a,b | end",
    }, "b"),
    ("agreement: the new incarnation misses the old one's last message", "agreement", {
        "p3": "view 1 a,p3 | send | crash",
        "p3#1": "join | view 2 a,p3#1 | end",
        "a": "view 1 a,p3 | view 2 a,p3#1 | deliver p3 1 | end",
    }, "p3#1"),
    ("uniform: the survivor dropped the crashed one, which excuses nothing", "uniform", {
        "a": f"{ABC} | send | deliver a 1 | crash",
        "b": f"{ABC} | view 2 b,c | end",
        "c": f"{ABC} | deliver a 1 | view 2 b,c | end",
    }, "b"),
    ("uniform: another order at a cut process, in the second of two groups", "uniform", {
        "a": "view 1 a,b | view 1 a,b group=h | send group=h | deliver a 1 group=h | deliver b 1 group=h",
        "b": "view 1 a,b | view 1 a,b group=h | send group=h | deliver b 1 group=h | deliver a 1 group=h | end",
    }, "a"),
    ("uniform: a joiner delivers alone and crashes", "uniform", {
        "a": "view 1 a | send | view 2 a,b | end",
        "b": "join | view 2 a,b | deliver a 1 | crash",
    }, "a"),
    ("uniform: what the old incarnation delivered", "uniform", {
        "a": "view 1 a,p3 | send | view 2 a,p3#1 | end",
        "p3": "view 1 a,p3 | deliver a 1 | crash",
        "p3#1": "join | view 2 a,p3#1 | end",
    }, "p3"),
    ("uniform: after a merge an outsider's message reaches only one that dies", "uniform", {
        "s": "send | end",
        "a": "view 1 a,b | view 2 a | view 4 a,b | deliver s 1 | crash",
        "b": "view 1 a,b | view 3 b | view 4 a,b | end",
    }, "b"),
    ("unanimity: a joiner rejects, a cut process has delivered", "unanimity", {
        "a": "view 1 a,c | send | view 2 a,b,c | end",
        "b": "join | view 2 a,b,c | reject a 1 | end",
        "c": "view 1 a,c | deliver a 1",
    }, "c"),
    ("unanimity: in the second group, delivered by one that left", "unanimity", {
        "a": "view 1 a,b | view 1 a,b group=h | send | send group=h | reject a 1 group=h | end",
        "b": "view 1 a,b | view 1 a,b group=h | deliver a 1 | deliver a 1 group=h | leave group=h | end",
    }, "b"),
    ("unanimity: an outsider's message, delivered by a new incarnation", "unanimity", {
        "s": "send | end",
        "a": "view 1 a,p3 | view 2 a,p3#1 | reject s 1 | end",
        "p3": "view 1 a,p3 | crash",
        "p3#1": "join | view 2 a,p3#1 | deliver s 1 | end",
    }, "p3#1"),
    ("unanimity: rejected on one side of a partition, delivered on the other", "unanimity", {
        "a": "view 1 a,b | send | view 2 a | reject a 1 | view 4 a,b | end",
        "b": "view 1 a,b | view 3 b | deliver a 1 | view 4 a,b | end",
    }, "b"),
    ("deadline: a joiner owes what was sent in its view", "deadline", {
        "a": "view 1 a | view 2 a,b | send time=10 deadline=20 | deliver a 1 time=11 | end time=90",
        "b": "join | view 2 a,b time=5 | end time=50",
    }, "b"),
    ("deadline: a cut process recorded something after it", "deadline", {
        "a": f"{AB} | send time=10 deadline=20 | deliver a 1 time=11 | end time=90",
        "b": f"{AB} | drop a 9 time=25",
    }, "b"),
    ("deadline: it leaves, but later", "deadline", {
        "a": f"{AB} | send time=10 deadline=20 | deliver a 1 time=11 | end time=90",
        "b": f"{AB} | drop a 9 time=25 | leave time=30",
    }, "b"),
    ("deadline: in the second group, to the new incarnation", "deadline", {
        "a": "view 1 a,p3 group=h | view 2 a,p3#1 group=h | view 1 a | send group=h time=10 deadline=20 | end time=90",
        "p3": "view 1 a,p3 group=h | crash time=1",
        "p3#1": "join group=h | view 2 a,p3#1 group=h | deliver a 1 group=h time=21 | end time=90",
    }, "p3#1"),
    ("deadline: an outsider's message, late after a merge", "deadline", {
        "s": "send time=10 deadline=20 | end time=90",
        "a": "view 1 a,b | view 2 a | view 4 a,b | deliver s 1 time=15 | end time=90",
        "b": "view 1 a,b | view 3 b | view 4 a,b | deliver s 1 time=35 | end time=90",
    }, "b"),
    ("self-delivery: one sends from outside, one is cut, one comes back, and the fourth forgets its own", "self-delivery", {
        "s": "send | end",
        "a": "view 1 a,b,c | send | deliver s 1 | view 2 a | view 3 a,c | end",
        "b": "view 1 a,b,c | send",
        "c": "view 1 a,b,c | leave | join | view 3 a,c | send | end",
    }, "a"),
    ("validity: one that came back owes nothing, the other does", "validity", {
        "a": "view 1 a,b,c | view 2 a,b | view 3 a,b,c | send | deliver a 1 | end",
        "b": "view 1 a,b,c | view 2 a,b | view 3 a,b,c | end",
        "c": "view 1 a,b,c | leave | join | view 3 a,b,c | end",
    }, "b"),
    ("agreement: the one that came back sent it", "agreement", {
        "a": "view 1 a,b,c | view 2 a,b | view 3 a,b,c | deliver c 1 | end",
        "b": "view 1 a,b,c | view 2 a,b | view 3 a,b,c | end",
        "c": "view 1 a,b,c | leave | join | view 3 a,b,c | send | end",
    }, "b"),
    ("uniform: one that came back orders otherwise in its second stay", "uniform", {
        "a": "view 1 a,b,c | view 2 a,b | view 3 a,b,c | send | deliver a 1 | deliver b 1 | end",
        "b": "view 1 a,b,c | view 2 a,b | view 3 a,b,c | send | deliver a 1 | deliver b 1 | end",
        "c": "view 1 a,b,c | leave | join | view 3 a,b,c | deliver b 1 | deliver a 1 | leave",
    }, "c"),
    ("unanimity: delivered by one that came back", "unanimity", {
        "a": "view 1 a,b | view 2 a | view 3 a,b | send | reject a 1 | end",
        "b": "view 1 a,b | leave | join | view 3 a,b | deliver a 1 | end",
    }, "b"),
    ("deadline: one that came back delivers late", "deadline", {
        "a": "view 1 a,b | view 2 a | view 3 a,b | send time=10 deadline=20 | end time=90",
        "b": "view 1 a,b | leave | join | view 3 a,b | deliver a 1 time=21 | end time=90",
    }, "b"),
]  # fmt: skip

BOUNDED = [
    ("bounded: a delivery before a crash", {"deliver": 5}, {
        "a": f"{AB} | send | end",
        "b": f"{AB} | deliver a 1 sent=1 true_time=7 | crash",
    }, "b"),
    ("bounded: a process that only sends takes too long", {"send": 5}, {
        "s": 'send detail={"took_ns":6} | end',
        "a": f"{AB} | deliver s 1 | end",
    }, "s"),
    ("bounded: in the second group, by a new incarnation that is cut", {"deliver": 5}, {
        "a": "view 1 a,p3 | view 1 a group=h | view 2 a,p3#1 group=h | send group=h | end",
        "p3": "view 1 a,p3 | crash",
        "p3#1": "join group=h | view 2 a,p3#1 group=h | deliver a 1 group=h sent=0 true_time=6",
    }, "p3#1"),
    ("bounded: after a merge, by one that leaves", {"deliver": 5}, {
        "a": "view 1 a,b | view 2 a | view 4 a,b | send | end",
        "b": "view 1 a,b | view 3 b | view 4 a,b | deliver a 1 sent=0 true_time=6 | leave",
    }, "b"),
    ("bounded: in its second stay", {"deliver": 5}, {
        "a": "view 1 a,b | view 2 a | view 3 a,b | send | end",
        "b": "view 1 a,b | leave | join | view 3 a,b | deliver a 1 sent=0 true_time=6 | end",
    }, "b"),
]  # fmt: skip

GOOD = [
    ("integrity: the same number of two incarnations", "integrity", {
        "p3": "view 1 b,p3 | send digest=7 | crash",
        "p3#1": "join | view 2 b,p3#1 | send digest=8 | end",
        "b": "view 1 b,p3 | deliver p3 1 digest=7 | view 2 b,p3#1 | deliver p3#1 1 digest=8 | end",
    }),
    ("integrity: on both sides of a partition", "integrity", {
        "a": "view 1 a,b | send | view 2 a | deliver a 1 | view 4 a,b | end",
        "b": "view 1 a,b | view 3 b | deliver a 1 | view 4 a,b | end",
    }),
    ("self-delivery: who left need not, who was cut need not, who has a timing fault need not", "self-delivery", {
        "a": "view 1 a,b,c,d | send | leave",
        "b": "view 1 a,b,c,d | send",
        "c": "view 1 a,b,c,d | send | fault detail={\"fault\":\"timing\"} | end",
        "d": "view 1 a,b,c,d | send | deliver d 1 | end",
    }),
    ("validity: the receivers left, crashed and were cut", "validity", {
        "a": "view 1 a,b,c,d | send | deliver a 1 | end",
        "b": "view 1 a,b,c,d | leave",
        "c": "view 1 a,b,c,d | crash",
        "d": "view 1 a,b,c,d",
    }),
    ("agreement: a joiner came a view too late", "agreement", {
        "a": "view 1 a,b | send | deliver a 1 | view 2 a,b,c | end",
        "b": "view 1 a,b | deliver a 1 | view 2 a,b,c | end",
        "c": "join | view 2 a,b,c | end",
    }),
    ("uniform: the old incarnation's peers had all parted from it", "uniform", {
        "p3": "view 1 a,b,p3 | send | view 9 p3 | deliver p3 1 | crash",
        "a": "view 1 a,b,p3 | send | deliver a 1 | view 2 a,b | end",
        "b": "view 1 a,b,p3 | deliver a 1 | view 2 a,b | end",
    }),
    ("unanimity: an outsider rejects, a crashed one too", "unanimity", {
        "s": "reject a 1 | end",
        "c": f"{ABC} | reject a 1 | crash",
        "a": f"{ABC} | send | deliver a 1 | reject a 2 | end",
    }),
    ("deadline: it left before", "deadline", {
        "a": f"{AB} | send time=10 deadline=20 | deliver a 1 time=11 deadline=20 | end time=90",
        "b": f"{AB} | leave time=15 | drop a 1 time=25",
    }),
    ("deadline: one lacks it and drops its sender, one leaves, one ends before it is due", "deadline", {
        "a": "view 1 a,b,c,d | send time=10 deadline=20 | deliver a 1 time=11 | end time=90",
        "b": "view 1 a,b,c,d | view 2 b time=20 | end time=90",
        "c": "view 1 a,b,c,d | leave time=20 | null time=90",
        "d": "view 1 a,b,c,d | end time=19",
    }),
    ("deadline: by the global clock one ends and one leaves before it is due", "deadline", {
        "a": "view 1 a,b,c | send time=10 true_time=110 deadline=20 | deliver a 1 time=9 true_time=111 | end time=9 true_time=99",
        "b": "view 1 a,b,c | end time=99 true_time=119",
        "c": "view 1 a,b,c | leave time=99 true_time=120 | null time=99 true_time=190",
    }),
    ("deadline: a joiner's view came after the message", "deadline", {
        "a": "view 1 a | send time=10 deadline=20 | deliver a 1 time=11 | view 2 a,b | end time=90",
        "b": "join | view 2 a,b time=5 | end time=50",
    }),
]  # fmt: skip

BOUNDED_GOOD = [
    ("bounded: a message without times stands between", {"deliver": 5}, {
        "a": f"{AB} | send | send | end",
        "b": f"{AB} | deliver a 1 sent=1 | deliver a 2 sent=3 true_time=8 | crash",
    }),
]  # fmt: skip

NOTHING = [
    ("integrity: nobody delivers", "integrity", {"a": f"{AB} | send | crash"}),
    ("self-delivery: its only sender crashes", "self-delivery", {"a": f"{AB} | send | deliver a 1 | crash", "b": f"{AB} | end"}),
    ("validity: its only sender crashes", "validity", {"a": f"{AB} | send | crash", "b": f"{AB} | deliver a 1 | end"}),
    ("agreement: only one that crashes delivers", "agreement", {"a": f"{AB} | send | deliver a 1 | crash", "b": f"{AB} | end"}),
    ("uniform: only one, and alone", "uniform", {"a": "view 1 a | send | deliver a 1 | crash"}),
    ("unanimity: who rejects is no member", "unanimity", {"a": f"{AB} | send | deliver a 1 | end", "s": "reject a 1 | end"}),
    ("deadline: the sender crashed", "deadline", {
        "a": f"{AB} | send time=1 deadline=2 | crash", "b": f"{AB} | deliver a 1 time=9 deadline=3 | end time=10",
    }),
    ("bounded: no bound is stated", "bounded", {"b": f"{AB} | deliver a 1 sent=1 true_time=9 | end"}),
]  # fmt: skip
