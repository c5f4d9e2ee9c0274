"""Delivery properties on the smallest traces that break them, and on correct ones that look as if they did."""

from __future__ import annotations

import pytest

from ...trace.build import assert_flagged, assert_passes, check

AB = "view 1 a,b"
ABC = "view 1 a,b,c"

BAD = [
    ("integrity: delivered twice", "integrity", {
        "a": f"{AB} | send | end",
        "b": f"{AB} | deliver a 1 | deliver a 1 | end",
    }, "b"),
    ("integrity: delivered twice, a view apart", "integrity", {
        "a": f"{AB} | send | view 2 a,b | end",
        "b": f"{AB} | deliver a 1 | view 2 a,b | deliver a 1 | end",
    }, "b"),
    ("integrity: before it is sent", "integrity", {
        "a": f"{AB} | deliver a 1 | send | end",
    }, "a"),
    ("integrity: never sent", "integrity", {
        "a": f"{AB} | end",
        "b": f"{AB} | deliver a 1 | end",
    }, "b"),
    ("integrity: sent in another group", "integrity", {
        "a": f"{AB} | view 1 a,b group=h | send group=h | end",
        "b": f"{AB} | view 1 a,b group=h | deliver a 1 | end",
    }, "b"),
    ("integrity: sent by an earlier incarnation", "integrity", {
        "p3": "view 1 b,p3 | send | crash",
        "p3#1": "view 2 b,p3#1 | end",
        "b": "view 1 b,p3 | view 2 b,p3#1 | deliver p3#1 1 | end",
    }, "b"),
    ("integrity: a sender that nobody knows of", "integrity", {
        "b": "view 1 b | deliver ghost 1 | end",
    }, "b"),
    ("integrity: after it left", "integrity", {
        "a": f"{AB} | send | end",
        "b": f"{AB} | leave | deliver a 1 | end",
    }, "b"),
    ("integrity: before it joined", "integrity", {
        "a": "join | send | end",
        "b": "deliver a 1 | join | end",
    }, "b"),
    ("integrity: a process that only sends delivers", "integrity", {
        "a": f"{AB} | send | end",
        "s": "send | deliver a 1 | end",
    }, "s"),
    ("integrity: another content", "integrity", {
        "a": f"{AB} | send digest=7 | end",
        "b": f"{AB} | deliver a 1 digest=8 | end",
    }, "b"),
    ("integrity: two contents of a message whose send was cut off", "integrity", {
        "a": f"{ABC}",
        "b": f"{ABC} | deliver a 1 digest=7 | end",
        "c": f"{ABC} | deliver a 1 digest=8 | end",
    }, "c"),
    ("self-delivery: never", "self-delivery", {
        "a": f"{AB} | send | end",
        "b": f"{AB} | deliver a 1 | end",
    }, "a"),
    ("self-delivery: the same number in another group does not count", "self-delivery", {
        "a": "view 1 a | view 1 a group=h | send | send group=h | deliver a 1 | end",
    }, "a"),
    ("self-delivery: in a group without views", "self-delivery", {
        "a": "join | send | end",
    }, "a"),
    ("self-delivery: it left another group, not this one", "self-delivery", {
        "a": "join | join group=h | leave group=h | send | end",
    }, "a"),
    ("validity: a member misses it", "validity", {
        "a": f"{AB} | send | deliver a 1 | end",
        "b": f"{AB} | end",
    }, "b"),
    ("validity: a joiner owes what was sent after its view", "validity", {
        "a": "view 1 a | view 2 a,b | send | deliver a 1 | end",
        "b": "join | view 2 a,b | end",
    }, "b"),
    ("validity: nobody takes an outsider's message", "validity", {
        "s": "send | end",
        "a": f"{AB} | end",
        "b": f"{AB} | end",
    }, "s"),
    ("validity: only one that leaves takes an outsider's message, without views", "validity", {
        "s": "send | send | end",
        "a": "join rank=1 | deliver s 1 rank=5 | leave rank=6",
        "b": "join rank=4 | deliver s 2 rank=9 | end",
    }, "b"),
    ("validity: only a crashed member takes an outsider's message", "validity", {
        "s": "send | end",
        "a": f"{AB} | deliver s 1 | crash",
        "b": f"{AB} | view 2 b | end",
    }, "s"),
    ("validity: in a group without views, taken after the join by rank", "validity", {
        "a": "join rank=0 | send | deliver a 1 rank=5 | end",
        "b": "join rank=4 time=99 | end",
    }, "b"),
    ("agreement: one correct member misses what another delivers", "agreement", {
        "a": f"{ABC} | send | crash",
        "b": f"{ABC} | deliver a 1 | view 2 b,c | end",
        "c": f"{ABC} | view 2 b,c | end",
    }, "c"),
    ("agreement: a joiner misses what is delivered in its first view", "agreement", {
        "a": "view 1 a | send | view 2 a,b | deliver a 1 | end",
        "b": "join | view 2 a,b | end",
    }, "b"),
    ("agreement: an outsider's message", "agreement", {
        "s": "send | crash",
        "a": f"{AB} | deliver s 1 | end",
        "b": f"{AB} | end",
    }, "b"),
    ("agreement: in a group without views", "agreement", {
        "a": "join | send | crash",
        "b": "join | deliver a 1 | end",
        "c": "join | end",
    }, "c"),
    ("agreement: they part from a third, not from each other", "agreement", {
        "a": f"{ABC} | send | deliver a 1 | view 2 a,b | end",
        "b": f"{ABC} | view 2 a,b | end",
        "c": f"{ABC} | deliver a 1 | view 3 c | end",
    }, "b"),
    ("uniform: what a process delivered before it crashed", "uniform", {
        "a": f"{AB} | send | deliver a 1 | crash",
        "b": f"{AB} | view 2 b | end",
    }, "b"),
    ("uniform: what a cut process delivered", "uniform", {
        "a": f"{ABC} | send | end",
        "b": f"{ABC} | deliver a 1",
        "c": f"{ABC} | view 2 a,c | end",
    }, "c"),
    ("uniform: a crashed process had another order", "uniform", {
        "a": f"{AB} | send | deliver a 1 | deliver b 1 | crash",
        "b": f"{AB} | send | deliver b 1 | deliver a 1 | end",
    }, "a"),
    ("uniform: two correct members, as in agreement", "uniform", {
        "a": f"{AB} | send | deliver a 1 | end",
        "b": f"{AB} | end",
    }, "b"),
    ("unanimity: one rejects, another delivers", "unanimity", {
        "a": f"{AB} | send | reject a 1 | end",
        "b": f"{AB} | deliver a 1 | end",
    }, "b"),
    ("unanimity: the one that delivers crashes", "unanimity", {
        "a": f"{AB} | send | reject a 1 | end",
        "b": f"{AB} | deliver a 1 | crash",
    }, "b"),
    ("unanimity: it delivers what it rejected itself", "unanimity", {
        "a": f"{AB} | send | end",
        "b": f"{AB} | reject a 1 | deliver a 1 | end",
    }, "b"),
]  # fmt: skip

GOOD = [
    ("integrity: beyond the last row of a cut sender", "integrity", {
        "a": f"{AB} | send",
        "b": f"{AB} | deliver a 1 | deliver a 2 | end",
    }),
    ("integrity: of an unobserved member", "integrity", {
        "b": f"{AB} | deliver a 1 | end",
    }),
    ("integrity: delivered again after a leave and a join is once", "integrity", {
        "a": f"{AB} | send | send | end",
        "b": f"{AB} | deliver a 1 | leave | join | deliver a 2 | end",
    }),
    ("integrity: neither joins nor views tell who is a member", "integrity", {
        "a": "send | end",
        "b": "deliver a 1 | end",
    }),
    ("integrity: no digest at the send, the same at all deliveries", "integrity", {
        "a": f"{AB} | send | deliver a 1 digest=7 | end",
        "b": f"{AB} | deliver a 1 digest=7 | end",
    }),
    ("self-delivery: a crashed sender need not, an outsider need not", "self-delivery", {
        "a": f"{ABC} | send | crash",
        "s": "send | end",
        "c": f"{ABC} | send | deliver c 1 | view 2 b,c | end",
    }),
    ("self-delivery: after a view change", "self-delivery", {
        "a": f"{AB} | send | view 2 a | deliver a 1 | end",
    }),
    ("validity: it was in the view, and they parted", "validity", {
        "a": f"{AB} | send | deliver a 1 | view 2 a | end",
        "b": f"{AB} | view 3 b | end",
    }),
    ("validity: a timing fault excuses", "validity", {
        "a": f"{AB} | send | deliver a 1 | end",
        "b": f"{AB} | fault detail={{\"timing\":true}} | end",
    }),
    ("validity: an outsider's message is from before the only correct member joined", "validity", {
        "s": "send | send | end",
        "a": "join rank=1 | deliver s 1 rank=5 | leave rank=6",
        "b": "join rank=7 | deliver s 2 rank=9 | end",
    }),
    ("validity: an outsider's message reaches one correct member only", "validity", {
        "s": "send | end",
        "a": f"{AB} | deliver s 1 | end",
        "b": f"{AB} | end",
    }),
    ("validity: in a group without views, the join came later by rank", "validity", {
        "a": "join rank=0 | send | deliver a 1 rank=3 | end",
        "b": "join rank=4 | end",
    }),
    ("agreement: they parted after that view", "agreement", {
        "a": f"{ABC} | send | deliver a 1 | view 2 a,b | end",
        "b": f"{ABC} | deliver a 1 | view 2 a,b | end",
        "c": f"{ABC} | view 3 c | end",
    }),
    ("agreement: delivered by the one that crashed only", "agreement", {
        "a": f"{ABC} | send | deliver a 1 | crash",
        "b": f"{ABC} | send | deliver b 1 | view 2 b,c | end",
        "c": f"{ABC} | deliver b 1 | view 2 b,c | end",
    }),
    ("agreement: delivered in another view", "agreement", {
        "a": f"{AB} | send | deliver a 1 | view 2 a,b | end",
        "b": f"{AB} | view 2 a,b | deliver a 1 | end",
    }),
    ("uniform: the crashed one had dropped the other before", "uniform", {
        "a": f"{AB} | send | view 2 a | deliver a 1 | crash",
        "b": f"{AB} | send | deliver b 1 | view 3 b | end",
        "c": f"{AB} | deliver b 1 | crash",
    }),
    ("uniform: the crashed one delivered, then dropped the other", "uniform", {
        "a": f"{ABC} | send | deliver a 1 | view 2 a,c | crash",
        "b": f"{ABC} | view 3 b | end",
        "c": f"{ABC} | deliver a 1 | view 2 a,c | end",
    }),
    ("unanimity: who rejects and crashes is not correct", "unanimity", {
        "a": f"{ABC} | send | deliver a 1 | end",
        "b": f"{ABC} | reject a 1 | crash",
        "c": f"{ABC} | reject b 1 | end",
    }),
    ("unanimity: another group's message has the same number", "unanimity", {
        "a": "join | join group=h | send | send group=h | reject a 1 group=h | deliver a 1 | end",
    }),
]  # fmt: skip


@pytest.mark.parametrize(("name", "histories", "culprit"), [pytest.param(p, h, c, id=i) for i, p, h, c in BAD])
def test_bad_delivery_is_flagged(name: str, histories: dict[str, str], culprit: str) -> None:
    assert_flagged(histories, name, culprit)


@pytest.mark.parametrize(("name", "histories"), [pytest.param(p, h, id=i) for i, p, h in GOOD])
def test_suspicious_but_correct_delivery_passes(name: str, histories: dict[str, str]) -> None:
    assert_passes(histories, name)


def test_a_repeated_delivery_violates_integrity_only() -> None:
    histories = {
        "a": f"{AB} | send | send | deliver a 1 | deliver a 2 | end",
        "b": f"{AB} | deliver a 1 | deliver a 2 | deliver a 1 | end",
    }
    found = check(histories, "integrity", "fifo", "causal", "identical", "total", "acyclic", "agreement", "uniform")
    assert [name for name, outcome in found.properties.items() if outcome.verdict == "violated"] == ["integrity"]


def test_explanations_after_the_last_leave_do_not_cut_a_history() -> None:
    histories = {
        "a": f"{AB} | send | send | deliver a 1 | deliver a 2 | end",
        "b": f"{AB} | deliver a 2 | deliver a 1 | leave | drop a 3 | fault",
    }
    assert_flagged(histories, "identical", "b")
