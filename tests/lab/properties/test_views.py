"""View properties on the smallest traces that break them, and on correct ones that look as if they did."""

from __future__ import annotations

import pytest

from ...trace.build import assert_flagged, assert_passes, check

AB = "view 1 a,b"
ABC = "view 1 a,b,c"


def signed(view: str, signatures: str) -> str:
    return f'{view} detail={{"signatures":{{{signatures}}}}}'


BAD = [
    ("view-order: the next views differ", "view-order", {
        "a": f"{ABC} | view 2 a,b | end",
        "b": f"{ABC} | view 3 a,b | end",
    }, "b"),
    ("view-order: the same number, other members", "view-order", {
        "a": f"{ABC} | view 2 a,b | end",
        "b": f"{ABC} | view 2 a,b,d | end",
    }, "b"),
    ("view-order: one skips a view, and crashes later", "view-order", {
        "a": f"{ABC} | view 2 a,b | view 3 a,b,d | end",
        "b": f"{ABC} | view 3 a,b,d | crash",
    }, "b"),
    ("view-order: two correct ones do not end equal", "view-order", {
        "a": f"{ABC} | view 2 a,b | end",
        "b": f"{ABC} | end",
    }, "b"),
    ("view-order: twice the same", "view-order", {
        "a": f"{AB} | view 2 a | view 1 b,a | end",
    }, "a"),
    ("view-order: without itself", "view-order", {
        "a": f"{AB} | view 2 b | end",
    }, "a"),
    ("view-order: apart, together again, and then different", "view-order", {
        "a": f"{AB} | view 2 a | view 4 a,b | view 5 a,b,c | end",
        "b": f"{AB} | view 3 b | view 4 a,b | view 6 a,b,d | end",
    }, "b"),
    ("view-atomicity: one misses a message between two views", "view-atomicity", {
        "a": f"{ABC} | send | deliver a 1 | view 2 a,b | end",
        "b": f"{ABC} | view 2 a,b | end",
    }, "b"),
    ("view-atomicity: one delivers it a view later", "view-atomicity", {
        "a": f"{ABC} | send | deliver a 1 | view 2 a,b | end",
        "b": f"{ABC} | view 2 a,b | deliver a 1 | end",
    }, "b"),
    ("view-atomicity: a process that crashes after the second view counts", "view-atomicity", {
        "a": f"{ABC} | send | deliver a 1 | view 2 a,b | end",
        "b": f"{ABC} | view 2 a,b | crash",
    }, "b"),
    ("view-atomicity: an outsider's message, in the second of two groups", "view-atomicity", {
        "a": "view 1 a,b | view 1 a,b group=h | deliver s 1 group=h | view 2 a,b group=h | end",
        "b": "view 1 a,b | view 1 a,b group=h | view 2 a,b group=h | end",
        "s": "send group=h | end",
    }, "b"),
    ("view-exclusion: a crashed process stays", "view-exclusion", {
        "a": f"{AB} | end",
        "b": f"{AB} | crash",
    }, "b"),
    ("view-exclusion: a cut process stays", "view-exclusion", {
        "a": f"{ABC} | view 2 a,b | end",
        "b": f"{ABC}",
    }, "b"),
    ("view-exclusion: one that left stays", "view-exclusion", {
        "a": f"{AB} | end",
        "b": f"{AB} | leave | end",
    }, "b"),
    ("view-exclusion: gone, and named again after it crashed", "view-exclusion", {
        "a": f"{AB} | view 2 a | view 3 a,b | end",
        "b": f"{AB} | crash",
    }, "b"),
    ("convergence: two halves that never merge", "convergence", {
        "a": f"{AB} | view 2 a | end",
        "b": f"{AB} | view 3 b | end",
    }, "b"),
    ("convergence: one stays behind", "convergence", {
        "a": f"{ABC} | view 2 a,b | end",
        "b": f"{ABC} | end",
    }, "b"),
    ("convergence: a joiner alone with its view, in the second group", "convergence", {
        "a": "view 1 a | view 1 a group=h | end",
        "b": "join group=h | view 7 b group=h | end",
    }, "b"),
    ("sender-in-view: delivered after the view that removes its sender", "sender-in-view", {
        "a": f"{AB} | send | crash",
        "b": f"{AB} | view 2 b | deliver a 1 | end",
    }, "b"),
    ("sender-in-view: delivered before the view that admits its sender", "sender-in-view", {
        "a": "join | view 2 a,b | send | end",
        "b": "view 1 b | deliver a 1 | view 2 a,b | end",
    }, "b"),
    ("sender-in-view: of an incarnation that is gone", "sender-in-view", {
        "p3": "view 1 b,p3 | send | crash",
        "p3#1": "join | view 2 b,p3#1 | end",
        "b": "view 1 b,p3 | view 2 b,p3#1 | deliver p3 1 | end",
    }, "b"),
    ("same-view: delivered in the next", "same-view", {
        "a": f"{AB} | send | view 2 a,b | deliver a 1 | end",
    }, "a"),
    ("same-view: delivered in the one before", "same-view", {
        "a": f"{AB} | view 2 a,b | send | end",
        "b": f"{AB} | deliver a 1 | view 2 a,b | end",
    }, "b"),
    ("same-view: the same number with other members", "same-view", {
        "a": "view 1 a,b | send | end",
        "b": "view 1 a,b,c | deliver a 1 | end",
    }, "b"),
    ("disjoint-views: concurrent views share a member's signature", "disjoint-views", {
        "a": signed("view 2 a,c", '"a":1,"c":1') + " | end",
        "b": signed("view 3 b,c", '"b":1,"c":1') + " | end",
    }, "b"),
    ("disjoint-views: the next view keeps a signature", "disjoint-views", {
        "a": signed("view 1 a,b", '"a":0,"b":0') + " | " + signed("view 2 a", '"a":0') + " | end",
    }, "a"),
    ("disjoint-views: the same number, other members", "disjoint-views", {
        "a": signed("view 2 a", '"a":1') + " | end",
        "b": signed("view 2 a,b", '"a":1,"b":2') + " | crash",
    }, "b"),
]  # fmt: skip

GOOD = [
    ("view-order: they part, each in its own way", "view-order", {
        "a": f"{ABC} | view 2 a,b | end",
        "b": f"{ABC} | view 2 a,b | end",
        "c": f"{ABC} | view 2 c | end",
    }),
    ("view-order: a crashed process is behind", "view-order", {
        "a": f"{ABC} | view 2 a,b | view 3 a | end",
        "b": f"{ABC} | crash",
    }),
    ("view-order: one leaves, comes back, and has skipped a view", "view-order", {
        "a": f"{AB} | view 2 a | view 3 a,b | end",
        "b": f"{AB} | leave | join | view 3 a,b | end",
    }),
    ("view-order: the same members under a new number are a new view", "view-order", {
        "a": f"{AB} | view 2 a | view 3 a,b | end",
        "b": f"{AB} | view 4 b | view 3 b,a | end",
    }),
    ("view-atomicity: they came to the second view by different ways", "view-atomicity", {
        "a": f"{ABC} | send | deliver a 1 | view 2 a,b | end",
        "b": f"{ABC} | deliver a 1 | view 2 a,b | end",
        "c": "view 9 c | view 2 a,b | end",
    }),
    ("view-atomicity: another order, the same set", "view-atomicity", {
        "a": f"{ABC} | send | send | deliver a 1 | deliver a 2 | view 2 a,b | end",
        "b": f"{ABC} | deliver a 2 | deliver a 1 | view 2 a,b | crash",
    }),
    ("view-atomicity: a leave between two views", "view-atomicity", {
        "a": f"{AB} | send | deliver a 1 | view 2 a,b | end",
        "b": f"{AB} | leave | join | view 2 a,b | end",
        "c": f"{AB} | deliver a 1 | view 2 a,b | crash",
    }),
    ("view-exclusion: the new incarnation is there", "view-exclusion", {
        "a": "view 1 a,p3 | view 2 a | view 3 a,p3#1 | end",
        "p3": "view 1 a,p3 | crash",
        "p3#1": "join | view 3 a,p3#1 | end",
    }),
    ("view-exclusion: it left, came back and is a member", "view-exclusion", {
        "a": f"{ABC} | view 2 a,c | view 3 a,b | end",
        "b": f"{ABC} | leave | join | view 3 a,b | end",
        "c": f"{ABC} | view 2 a,c | crash",
    }),
    ("view-exclusion: a crashed process that saw another crash owes nothing", "view-exclusion", {
        "a": f"{ABC} | view 2 c | crash",
        "b": f"{ABC} | crash",
        "c": f"{ABC} | view 2 c | end",
    }),
    ("convergence: one that left and one that crashed ended elsewhere", "convergence", {
        "a": f"{ABC} | view 2 a,b | end",
        "b": f"{ABC} | view 2 a,b | end",
        "c": f"{ABC} | leave",
        "d": "view 9 d | crash",
    }),
    ("convergence: by different ways into the same view", "convergence", {
        "a": f"{AB} | view 2 a | view 4 a,b | end",
        "b": f"{AB} | view 3 b | view 4 b,a | end",
    }),
    ("sender-in-view: an outsider", "sender-in-view", {
        "s": "send | end",
        "a": f"{AB} | send | deliver s 1 | deliver a 1 | end",
    }),
    ("sender-in-view: its sender has crashed but is not yet out", "sender-in-view", {
        "a": f"{AB} | send | crash",
        "b": f"{AB} | deliver a 1 | view 2 b | end",
    }),
    ("same-view: the members in another order", "same-view", {
        "a": "view 1 a,b | send | end",
        "b": "view 1 b,a | deliver a 1 | end",
    }),
    ("same-view: an outsider's message in any view", "same-view", {
        "s": "send | end",
        "a": f"{AB} | send | deliver a 1 | view 2 a | deliver s 1 | end",
    }),
    ("disjoint-views: one view at two processes", "disjoint-views", {
        "a": signed("view 2 a,b", '"a":1,"b":1') + " | end",
        "b": signed("view 2 b,a", '"a":1,"b":1') + " | end",
    }),
    ("disjoint-views: the same numbers of other processes, and in another group", "disjoint-views", {
        "a": signed("view 2 a", '"a":1') + " | " + signed("view 3 a,b group=h", '"a":1,"b":1') + " | end",
        "b": signed("view 3 b", '"b":1') + " | end",
    }),
]  # fmt: skip


@pytest.mark.parametrize(("name", "histories", "culprit"), [pytest.param(p, h, c, id=i) for i, p, h, c in BAD])
def test_bad_views_are_flagged(name: str, histories: dict[str, str], culprit: str) -> None:
    assert_flagged(histories, name, culprit)


@pytest.mark.parametrize(("name", "histories"), [pytest.param(p, h, id=i) for i, p, h in GOOD])
def test_suspicious_but_correct_views_pass(name: str, histories: dict[str, str]) -> None:
    assert_passes(histories, name)


def test_convergence_has_nothing_to_check_in_a_run_that_was_not_drained_or_not_healed() -> None:
    halves = {"a": f"{AB} | view 2 a | end", "b": f"{AB} | view 3 b | end"}
    assert check(halves, "convergence", drained=False).properties["convergence"].verdict == "nothing to check"
    not_healed = 'end detail={"drained":true,"healed":false}'
    halves = {process: text.replace("end", not_healed) for process, text in halves.items()}
    assert check(halves, "convergence").properties["convergence"].verdict == "nothing to check"
