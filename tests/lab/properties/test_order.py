"""Order properties on the smallest traces that break them, and on correct ones that look as if they did."""

from __future__ import annotations

import pytest

from ...trace.build import assert_flagged, assert_passes

AB = "view 1 a,b"
ABC = "view 1 a,b,c"

BAD = [
    ("fifo: two messages of one sender swapped", "fifo", {
        "a": f"{AB} | send | send | deliver a 1 | deliver a 2 | end",
        "b": f"{AB} | deliver a 2 | deliver a 1 | end",
    }, "b"),
    ("fifo: a hole in the middle", "fifo", {
        "a": f"{AB} | send | send | send | end",
        "b": f"{AB} | deliver a 1 | deliver a 3 | end",
    }, "b"),
    ("fifo: a hole before a crash is a hole", "fifo", {
        "a": f"{AB} | send | send | end",
        "b": f"{AB} | deliver a 2 | crash",
    }, "b"),
    ("fifo: the sender drops b only after it sent both", "fifo", {
        "a": f"{AB} | send | send | view 2 a | end",
        "b": f"{AB} | deliver a 2 | crash",
    }, "b"),
    ("fifo: the first message is owed once its view is installed, though it was not at the second", "fifo", {
        "a": f"{AB} | view 2 a,b | send | send | send | end",
        "b": f"{AB} | deliver a 2 | view 2 a,b | deliver a 3 | end",
    }, "b"),
    ("fifo: an outsider's message that another member delivered", "fifo", {
        "s": "send | send | end",
        "a": f"{AB} | deliver s 1 | deliver s 2 | end",
        "b": f"{AB} | deliver s 2 | end",
    }, "b"),
    ("fifo: a group without views owes by membership", "fifo", {
        "a": "join | send | send | end",
        "b": "join | deliver a 2 | end",
    }, "b"),
    ("fifo: a cut sender's rows still count", "fifo", {
        "a": f"{AB} | send | send",
        "b": f"{AB} | deliver a 2 | end",
    }, "b"),
    ("causal: an answer before its question", "causal", {
        "a": f"{ABC} | send | deliver a 1 | end",
        "b": f"{ABC} | deliver a 1 | send | deliver b 1 | end",
        "c": f"{ABC} | deliver b 1 | deliver a 1 | end",
    }, "c"),
    ("causal: an answer without its question, up to then", "causal", {
        "a": f"{ABC} | send | deliver a 1 | end",
        "b": f"{ABC} | deliver a 1 | send | deliver b 1 | end",
        "c": f"{ABC} | deliver b 1 | crash",
    }, "c"),
    ("causal: across overlapping groups, both delivered", "causal", {
        "a": "view 1 a,b,c | send | deliver a 1 | end",
        "b": "view 1 a,b,c | view 1 b,c group=h | deliver a 1 | send group=h | deliver b 1 group=h | end",
        "c": "view 1 a,b,c | view 1 b,c group=h | deliver b 1 group=h | deliver a 1 | end",
    }, "c"),
    ("causal: across groups, owed until the end", "causal", {
        "a": "view 1 a,c | send | view 1 a,c group=h | send group=h | end",
        "c": "view 1 a,c | view 1 a,c group=h | deliver a 1 group=h | end",
    }, "c"),
    ("causal: through a process that only sends", "causal", {
        "a": f"{AB} | send | end",
        "b": f"{AB} | deliver s 1 | deliver a 1 | end",
        "s": "join group=x | deliver a 1 | send | end",
    }, "b"),
    ("causal: two messages that claim to be each other's cause", "causal", {
        "a": f"{AB} | deliver b 1 | send | end",
        "b": f"{AB} | deliver a 1 | send | deliver b 1 | end",
    }, "b"),
    ("identical: two correct members", "identical", {
        "a": f"{AB} | send | deliver a 1 | deliver b 1 | end",
        "b": f"{AB} | send | deliver b 1 | deliver a 1 | end",
    }, "a"),
    ("identical: a member that left did not crash", "identical", {
        "a": f"{AB} | send | deliver a 1 | deliver b 1 | end",
        "b": f"{AB} | send | deliver b 1 | deliver a 1 | leave",
    }, "b"),
    ("identical: neighbours in common are not neighbours in the history", "identical", {
        "a": f"{ABC} | send | deliver a 1 | deliver c 1 | deliver b 1 | end",
        "b": f"{ABC} | send | deliver b 1 | deliver a 1 | end",
        "c": f"{ABC} | send | end",
    }, "a"),
    ("identical: in different views, a joiner among them", "identical", {
        "a": "view 1 a,b | send | send | view 2 a,b,c | deliver a 1 | deliver b 1 | end",
        "b": "view 1 a,b | send | view 2 a,b,c | deliver a 1 | deliver b 1 | end",
        "c": "join | view 2 a,b,c | deliver b 1 | deliver a 1 | end",
    }, "c"),
    ("total: a crashed process disagrees", "total", {
        "a": f"{AB} | send | deliver a 1 | deliver b 1 | end",
        "b": f"{AB} | send | deliver b 1 | deliver a 1 | crash",
    }, "b"),
    ("total: across two shared groups", "total", {
        "a": "view 1 a,b | view 1 a,b group=h | send | send group=h | deliver a 1 | deliver a 1 group=h | end",
        "b": "view 1 a,b | view 1 a,b group=h | deliver a 1 group=h | deliver a 1 | end",
    }, "b"),
    ("total: one order, but not causal", "total", {
        "a": f"{AB} | send | send | deliver a 2 | deliver a 1 | end",
        "b": f"{AB} | deliver a 2 | deliver a 1 | end",
    }, "a"),
    ("acyclic: two processes", "acyclic", {
        "a": f"{AB} | send | deliver a 1 | deliver b 1 | end",
        "b": f"{AB} | send | deliver b 1 | deliver a 1 | crash",
    }, "a"),
    ("acyclic: a ring of three groups, each pair in order", "acyclic", {
        "a": "send group=x | deliver a 1 group=x | deliver b 1 group=y | end",
        "b": "send group=y | deliver b 1 group=y | deliver c 1 group=z | end",
        "c": "send group=z | deliver c 1 group=z | deliver a 1 group=x | end",
    }, "c"),
    ("acyclic: a ring closed by a cut process, with other messages between", "acyclic", {
        "a": "send group=x | deliver a 1 group=x | deliver q 1 group=x | deliver b 1 group=y | end",
        "b": "send group=y | deliver b 1 group=y | deliver c 1 group=z",
        "c": "send group=z | deliver c 1 group=z | deliver a 1 group=x | end",
        "q": "send group=x | end",
    }, "b"),
    ("prompt: nothing was missing", "prompt", {
        "a": f"{AB} | send | end",
        "b": f"{AB} | block a 1 | deliver a 1 | end",
    }, "b"),
    ("prompt: the predecessor had been delivered", "prompt", {
        "a": f"{AB} | send | send | end",
        "b": f"{AB} | deliver a 1 | block a 2 | deliver a 2 | end",
    }, "b"),
    ("prompt: a predecessor in a group one is not in", "prompt", {
        "a": f"{AB} | view 1 a,c group=h | send group=h | send | end",
        "b": f"{AB} | block a 1 | deliver a 1 | end",
        "c": "view 1 a,c group=h | deliver a 1 group=h | end",
    }, "b"),
    ("prompt: it waits on after the last predecessor", "prompt", {
        "a": f"{AB} | send | send | end",
        "b": f"{AB} | block a 2 true_time=1 | deliver a 1 true_time=2 | deliver a 2 true_time=3 | end",
    }, "b"),
    ("total: an earlier message is left out, and there is no timing fault", "total", {
        "p1": "join rank=1 | deliver p2 1 rank=5 | deliver p2 2 rank=6 | end",
        "p2": "join rank=1 | send | send | deliver p2 1 rank=5 | deliver p2 2 rank=6 | end",
        "p3": "join rank=1 | deliver p2 2 rank=6 | end",
    }, "p3"),
    ("total: who has a timing fault delivers the other way round", "total", {
        "p1": "join rank=1 | deliver p2 1 rank=5 | deliver p2 2 rank=6 | end",
        "p2": "join rank=1 | send | send | deliver p2 1 rank=5 | deliver p2 2 rank=6 | end",
        "p3": 'join rank=1 | fault detail={"timing":true} | deliver p2 2 rank=6 | deliver p2 1 rank=5 | end',
    }, "p3"),
]  # fmt: skip

GOOD = [
    ("total: who has a timing fault leaves out what came too late for its order", "total", {
        "p1": "join rank=1 | deliver p2 1 rank=5 | deliver p2 2 rank=6 | end",
        "p2": "join rank=1 | send | send | deliver p2 1 rank=5 | deliver p2 2 rank=6 | end",
        "p3": 'join rank=1 | fault detail={"timing":true} | deliver p2 2 rank=6 | end',
    }),
    ("fifo: who has a timing fault leaves out what came too late for its order", "fifo", {
        "p1": "join rank=1 | deliver p2 1 rank=5 | deliver p2 2 rank=6 | end",
        "p2": "join rank=1 | send | send | deliver p2 1 rank=5 | deliver p2 2 rank=6 | end",
        "p3": 'join rank=1 | fault detail={"timing":true} | deliver p2 2 rank=6 | end',
    }),
    ("fifo: a joiner starts in the middle", "fifo", {
        "a": "view 1 a | send | view 2 a,b | send | send | end",
        "b": "join | view 2 a,b | deliver a 2 | deliver a 3 | end",
    }),
    ("fifo: apart and together again, what was sent in between is not owed", "fifo", {
        "a": "view 1 a,b | send | view 2 a | send | view 4 a,b | send | end",
        "b": "view 1 a,b | view 3 b | view 4 a,b | deliver a 3 | end",
    }),
    ("fifo: the sender dropped b before it sent the second, and b heard it late", "fifo", {
        "a": "view 1 a,b | send | view 2 a | send | end",
        "b": "view 1 a,b | deliver a 2 | crash",
    }),
    ("fifo: a new incarnation starts again at 1", "fifo", {
        "p3": "view 1 a,p3 | send | send | crash",
        "p3#1": "join | view 3 a,p3#1 | send | end",
        "a": "view 1 a,p3 | deliver p3 1 | deliver p3 2 | view 2 a | view 3 a,p3#1 | deliver p3#1 1 | end",
    }),
    ("fifo: numbers of different groups do not mix", "fifo", {
        "a": "send | send group=h | send | end",
        "b": "deliver a 1 | deliver a 2 | deliver a 1 group=h | end",
    }),
    ("fifo: an outsider reached one side of a partition with each message", "fifo", {
        "s": "send | send | end",
        "a": "view 1 a,b | view 2 a | deliver s 1 | end",
        "c": "view 1 a,b,c | deliver s 1 | view 2 c | end",
        "b": "view 1 a,b,c | view 3 b | deliver s 2 | end",
    }),
    ("causal: concurrent messages in different orders", "causal", {
        "a": f"{AB} | send | deliver a 1 | deliver b 1 | send | deliver a 2 | end",
        "b": f"{AB} | send | deliver b 1 | deliver a 1 | deliver a 2 | end",
    }),
    ("causal: the question was sent in a group that c is not in", "causal", {
        "a": "view 1 a,b | send | deliver a 1 | end",
        "b": "view 1 a,b | deliver a 1 | view 1 b,c group=h | send group=h | deliver b 1 group=h | end",
        "c": "view 1 b,c group=h | deliver b 1 group=h | end",
    }),
    ("causal: the question's sender crashed and is out of the view before the answer", "causal", {
        "a": f"{ABC} | send | crash",
        "b": f"{ABC} | deliver a 1 | send | view 2 b,c | deliver b 1 | end",
        "c": f"{ABC} | view 2 b,c | deliver b 1 | end",
    }),
    ("causal: across groups, the cause is lost with its sender", "causal", {
        "a": "view 1 a,c | view 1 a,c group=h | send | send group=h | crash",
        "c": "view 1 a,c | view 1 a,c group=h | deliver a 1 group=h | view 2 c | end",
    }),
    ("identical: a crashed process may disagree", "identical", {
        "a": f"{ABC} | send | deliver a 1 | deliver b 1 | end",
        "b": f"{ABC} | send | deliver b 1 | deliver a 1 | crash",
        "c": f"{ABC} | deliver a 1 | deliver b 1 | end",
    }),
    ("identical: group by group", "identical", {
        "a": "deliver x 1 | deliver x 2 | deliver x 1 group=h | end",
        "b": "deliver x 1 group=h | deliver x 1 | deliver x 2 | end",
        "x": "send | send | send group=h | end",
    }),
    ("identical: a message that only one delivers stands between", "identical", {
        "a": f"{AB} | send | deliver a 1 | deliver b 1 | deliver b 2 | end",
        "b": f"{AB} | send | send | deliver a 1 | deliver b 2 | end",
    }),
    ("total: a crashed process is a prefix", "total", {
        "a": f"{AB} | send | send | deliver a 1 | deliver a 2 | end",
        "b": f"{AB} | deliver a 1 | crash",
        "c": f"{AB} | deliver a 1 | deliver a 2 | crash",
    }),
    ("total: a ring of three groups is total, though not acyclic", "total", {
        "a": "send group=x | deliver a 1 group=x | deliver b 1 group=y | end",
        "b": "send group=y | deliver b 1 group=y | deliver c 1 group=z | end",
        "c": "send group=z | deliver c 1 group=z | deliver a 1 group=x | end",
        "d": "deliver a 1 group=x | deliver b 1 group=y | end",
    }),
    ("acyclic: a repeated delivery closes no cycle", "acyclic", {
        "a": f"{AB} | send | send | deliver a 1 | deliver a 2 | deliver a 1 | end",
        "b": f"{AB} | deliver a 1 | deliver a 2 | end",
    }),
    ("acyclic: a ring of groups that is not closed", "acyclic", {
        "a": "send group=x | deliver a 1 group=x | deliver b 1 group=y | end",
        "b": "send group=y | deliver b 1 group=y | deliver c 1 group=z | end",
        "c": "send group=z | deliver a 1 group=x | deliver c 1 group=z | end",
    }),
    ("prompt: it waits for a predecessor that comes", "prompt", {
        "a": f"{AB} | send | send | end",
        "b": f"{AB} | block a 2 true_time=1 | deliver a 1 true_time=2 | deliver a 2 true_time=2 | end",
    }),
    ("prompt: it waits for one that never comes, until it crashes", "prompt", {
        "a": f"{AB} | send | send | end",
        "b": f"{AB} | block a 2 | crash",
    }),
]  # fmt: skip


@pytest.mark.parametrize(("name", "histories", "culprit"), [pytest.param(p, h, c, id=i) for i, p, h, c in BAD])
def test_bad_order_is_flagged(name: str, histories: dict[str, str], culprit: str) -> None:
    assert_flagged(histories, name, culprit)


@pytest.mark.parametrize(("name", "histories"), [pytest.param(p, h, id=i) for i, p, h in GOOD])
def test_suspicious_but_correct_order_passes(name: str, histories: dict[str, str]) -> None:
    assert_passes(histories, name)


def test_the_witness_of_a_cycle_has_one_step_a_process() -> None:
    found = assert_flagged(
        {
            "a": "send | send | send | deliver a 1 | deliver a 2 | deliver a 3 | end",
            "b": "deliver a 3 | deliver a 1 | end",
            "c": "deliver a 2 | end",
        },
        "acyclic",
        "b",
    )
    assert found.messages == (("g", "a", 3), ("g", "a", 1))
    assert found.events == (("b", 0), ("b", 1), ("a", 3), ("a", 5))
