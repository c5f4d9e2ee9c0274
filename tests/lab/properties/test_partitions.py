"""Runs that part and come together again, on the smallest traces: what is owed, to whom, from when and until when.

Good and bad stand beside each other: each pair differs in one thing, which is the thing that the definition speaks of. The
same cases go through every other way to verify (``tests/lab/catalogue.py``).
"""

from __future__ import annotations

import pytest

from ...trace.build import assert_flagged, assert_passes

APART = {"a": "view 1 a,b | view 2 a", "b": "view 1 a,b | view 2 b"}
"""Two who part: concurrent views of one number and different members."""
U = "view 1 a,b,c"


def signed(view: str, signatures: str) -> str:
    return f'{view} detail={{"signatures":{{{signatures}}}}}'


BAD = [
    ("view-order: merged, and then each another way", "view-order", {
        "a": f"{APART['a']} | view 3 a,b | view 4 a,b | end",
        "b": f"{APART['b']} | view 3 a,b | view 4 a,b,c | end",
    }, "b"),
    ("view-order: of two of a part, one skips the view before the merge", "view-order", {
        "a": f"{U} | view 2 a,b | view 4 a,b,c | end",
        "b": f"{U} | view 2 a,b | view 3 a,b | view 4 a,b,c | end",
        "c": f"{U} | view 2 c | view 4 a,b,c | end",
    }, "a"),
    ("view-order: it missed a formation and enters the next as if nothing had been", "view-order", {
        "c": "view 1 c,d | view 4 a,c,d | end",
        "d": "view 1 c,d | view 2 a,c,d | view 3 a,d | view 4 a,c,d | end",
    }, "c"),
    ("view-order: merged into a view that was there before they parted", "view-order", {
        "a": "view 1 a,b | view 2 a | view 1 a,b | end",
        "b": "view 1 a,b | view 2 b | view 1 a,b | end",
    }, "b"),
    ("view-order: merged, and one correct process stays behind", "view-order", {
        "a": f"{APART['a']} | view 3 a,b | view 4 a,b | end",
        "b": f"{APART['b']} | view 3 a,b | end",
    }, "b"),
    ("view-order: a joiner and a member go on from the joiner's first view differently", "view-order", {
        "a": "view 1 a,b | view 2 a,b,j | view 3 a,j | end",
        "j": "join | view 2 a,b,j | view 3 a,b,j | end",
    }, "j"),
    ("view-atomicity: two of a part come to the merge with different sets", "view-atomicity", {
        "a": f"{U} | view 2 a,b | send | deliver a 1 | view 3 a,b,c | end",
        "b": f"{U} | view 2 a,b | view 3 a,b,c | deliver a 1 | end",
        "c": f"{U} | view 2 c | view 3 a,b,c | deliver a 1 | end",
    }, "b"),
    ("view-atomicity: after the merge, until the next view, they are held to the same again", "view-atomicity", {
        "a": f"{APART['a']} | view 3 a,b | send | deliver a 1 | view 4 a,b | end",
        "b": f"{APART['b']} | view 3 a,b | view 4 a,b | end",
    }, "b"),
    ("view-exclusion: it left while apart, and the merge names it", "view-exclusion", {
        "a": f"{U} | view 2 a | view 3 a,b,c | end",
        "b": f"{U} | view 2 b,c | leave",
        "c": f"{U} | view 2 b,c | view 3 a,b,c | end",
    }, "b"),
    ("view-exclusion: only the other part has removed it", "view-exclusion", {
        "a": f"{U} | view 2 a,c | end",
        "b": f"{U} | view 2 b | end",
        "c": f"{U} | view 2 a,c | crash",
    }, "c"),
    ("agreement: two of a part, and the merge is no parting", "agreement", {
        "a": f"{U} | view 2 a,b | send | deliver a 1 | view 3 a,b,c | end",
        "b": f"{U} | view 2 a,b | view 3 a,b,c | end",
        "c": f"{U} | view 2 c | view 3 a,b,c | end",
    }, "b"),
    ("agreement: delivered after the merge", "agreement", {
        "a": f"{APART['a']} | send | view 3 a,b | deliver a 1 | end",
        "b": f"{APART['b']} | view 3 a,b | end",
    }, "b"),
    ("agreement: they part in one group and not in the other", "agreement", {
        "a": "view 1 a,b | view 1 a,b group=h | send group=h | deliver a 1 group=h | view 2 a | end",
        "b": "view 1 a,b | view 1 a,b group=h | view 2 b | end",
    }, "b"),
    ("validity: sent after the merge", "validity", {
        "a": f"{APART['a']} | view 3 a,b | send | deliver a 1 | end",
        "b": f"{APART['b']} | view 3 a,b | end",
    }, "b"),
    ("validity: sent in a part, to one who stayed in it up to the merge and beyond", "validity", {
        "a": f"{U} | view 2 a,b | send | deliver a 1 | view 3 a,b,c | end",
        "b": f"{U} | view 2 a,b | view 3 a,b,c | end",
        "c": f"{U} | view 2 c | view 3 a,b,c | end",
    }, "b"),
    ("validity: the same two part in one group and stay together in the other", "validity", {
        "a": "view 1 a,b | view 1 a,b group=h | send group=h | deliver a 1 group=h | view 2 a | view 3 a,b | end",
        "b": "view 1 a,b | view 1 a,b group=h | view 2 b | view 3 a,b | end",
    }, "b"),
    ("self-delivery: sent before it was alone, never delivered", "self-delivery", {
        "a": "view 1 a,b | send | view 2 a | view 3 a,b | end",
        "b": f"{APART['b']} | view 3 a,b | end",
    }, "a"),
    ("sender-in-view: the number is right, the members are another part's", "sender-in-view", {
        "a": f"{APART['a']} | send | deliver a 1 | view 3 a,b | end",
        "b": f"{APART['b']} | deliver a 1 | view 3 a,b | end",
    }, "b"),
    ("same-view: the same number in another part", "same-view", {
        "a": f"{U} | view 2 a,b | send | end",
        "b": f"{U} | view 2 a,b,c | deliver a 1 | end",
    }, "b"),
    ("same-view: sent apart, delivered after the merge", "same-view", {
        "a": f"{APART['a']} | send | view 3 a,b | deliver a 1 | end",
    }, "a"),
    ("disjoint-views: two parts admit a joiner under one signature", "disjoint-views", {
        "a": signed("view 1 a,b", '"a":1,"b":1') + " | " + signed("view 2 a,j", '"a":2,"j":1') + " | end",
        "b": signed("view 1 a,b", '"a":1,"b":1') + " | " + signed("view 2 b,j", '"b":2,"j":1') + " | end",
    }, "b"),
    ("disjoint-views: views of concurrent parts that intersect", "disjoint-views", {
        "a": signed("view 2 a,b", '"a":2,"b":2') + " | end",
        "b": signed("view 3 b,c", '"b":2,"c":2') + " | end",
    }, "b"),
    ("convergence: the same number, not the same view", "convergence", {
        "a": f"{U} | view 2 a,b | view 3 a,b,c | end",
        "b": f"{U} | view 2 a,b | view 3 a,b,c | end",
        "c": f"{U} | view 2 c | view 3 b,c | end",
    }, "c"),
    ("convergence: a member that joined and never got a view", "convergence", {
        "a": "view 1 a | view 2 a,b | end",
        "b": "join | end",
    }, "b"),
    ("fifo: they parted and merged, and from then on nothing may be missing", "fifo", {
        "a": f"{APART['a']} | send | deliver a 1 | view 3 a,b | send | send | deliver a 2 | deliver a 3 | end",
        "b": f"{APART['b']} | view 3 a,b | deliver a 3 | end",
    }, "b"),
    ("fifo: it parts only after it left a hole", "fifo", {
        "a": "view 1 a,b | send | send | deliver a 1 | deliver a 2 | view 2 a | view 3 a,b | end",
        "b": "view 1 a,b | deliver a 2 | view 2 b | view 3 a,b | end",
    }, "b"),
    ("causal: what a third one knew is missing before they part", "causal", {
        "a": f"{U} | send | view 2 a | end",
        "c": f"{U} | deliver a 1 | send | deliver c 1 | view 2 b,c | end",
        "b": f"{U} | deliver c 1 | view 2 b,c | end",
    }, "b"),
    ("causal: what was sent since the merge is owed, whoever tells of it", "causal", {
        "a": f"{U} | view 2 a | view 3 a,b,c | send | deliver a 1 | end",
        "c": f"{U} | view 2 b,c | view 3 a,b,c | deliver a 1 | send | deliver c 1 | end",
        "b": f"{U} | view 2 b,c | view 3 a,b,c | deliver c 1 | end",
    }, "b"),
    ("causal: one that parts with nobody owes until the end, through whatever group", "causal", {
        "a": "view 1 a,b,c | send | deliver a 1 | end",
        "c": "view 1 a,b,c | view 1 b,c group=h | deliver a 1 | send group=h | deliver c 1 group=h | end",
        "b": "view 1 a,b,c | view 1 b,c group=h | deliver c 1 group=h | end",
    }, "b"),
    ("causal: one alone never drops the other, who dropped it only after the last that it knows of", "causal", {
        "a": "view 1 a,b | send | send | deliver a 1 | deliver a 2 | view 2 a | end",
        "b": "view 1 a,b | deliver a 2 | end",
    }, "b"),
    ("total: two parts order what both have from before differently", "total", {
        "a": "view 1 a,b | send | view 2 a | deliver a 1 | deliver b 1 | view 3 a,b | end",
        "b": "view 1 a,b | send | view 2 b | deliver b 1 | deliver a 1 | view 3 a,b | end",
    }, "b"),
    ("total: one delivers its part's message before the merge, the other the merge's before it", "total", {
        "a": f"{APART['a']} | send | deliver a 1 | view 3 a,b | deliver b 1 | end",
        "b": f"{APART['b']} | view 3 a,b | send | deliver b 1 | deliver a 1 | end",
    }, "b"),
    ("total: across two groups, of which one is parted", "total", {
        "a": "view 1 a,b | view 1 a,b group=h | view 2 a | send group=h | view 3 a,b | send | deliver a 1 "
             "| deliver a 1 group=h | end",
        "b": "view 1 a,b | view 1 a,b group=h | view 2 b | view 3 a,b | deliver a 1 group=h | deliver a 1 | end",
    }, "b"),
    ("integrity: the one that was excluded left, was merged, and delivers before it is a member again", "integrity", {
        "a": "view 1 a,b | view 2 a | send | view 3 a,b | end",
        "b": "view 1 a,b | leave | deliver a 1 | join | view 3 a,b | end",
    }, "b"),
]  # fmt: skip

GOOD = [
    ("view-order: three parts of one number, merged at once", "view-order", {
        "a": f"{U} | view 2 a | view 3 a,b,c | view 4 a,b | end",
        "b": f"{U} | view 2 b | view 3 a,b,c | view 4 a,b | end",
        "c": f"{U} | view 2 c | view 3 a,b,c | crash",
    }),
    ("view-order: views of concurrent parts that intersect: it is for disjoint-views to forbid that", "view-order", {
        "a": f"{U} | view 2 a,b | view 3 a | end",
        "b": f"{U} | view 2 b,c | end",
        "c": f"{U} | view 2 b,c | end",
    }),
    ("view-order: it missed a formation, and so did not stay with those who entered", "view-order", {
        "c": "view 1 c,d | view 2 c | view 4 a,c,d | end",
        "d": "view 1 c,d | view 2 a,c,d | view 3 a,d | view 4 a,c,d | end",
    }),
    ("view-order: excluded by one who stays with it in its own eyes, and merged", "view-order", {
        "a": "view 1 a,b | view 2 a | view 3 a,b | end",
        "b": "view 1 a,b | view 3 a,b | end",
    }),
    ("view-order: a joiner begins with the merge", "view-order", {
        "a": f"{APART['a']} | view 3 a,b,j | view 4 a,b,j | end",
        "b": f"{APART['b']} | view 3 a,b,j | view 4 a,b,j | end",
        "j": "join | view 3 a,b,j | view 4 a,b,j | end",
    }),
    ("view-atomicity: each part comes to the merge with what it has", "view-atomicity", {
        "a": f"{U} | view 2 a,b | send | deliver a 1 | view 3 a,b,c | end",
        "b": f"{U} | view 2 a,b | deliver a 1 | view 3 a,b,c | end",
        "c": f"{U} | view 2 c | send | deliver c 1 | view 3 a,b,c | end",
    }),
    ("view-atomicity: sent apart, and delivered by all after the merge", "view-atomicity", {
        "a": f"{APART['a']} | send | view 3 a,b | deliver a 1 | view 4 a,b | end",
        "b": f"{APART['b']} | view 3 a,b | deliver a 1 | view 4 a,b | end",
    }),
    ("view-exclusion: it crashed among the others; this part had excluded it long before", "view-exclusion", {
        "a": f"{U} | view 2 a | view 4 a,b | end",
        "b": f"{U} | view 2 b,c | view 3 b | view 4 a,b | end",
        "c": f"{U} | view 2 b,c | crash",
    }),
    ("view-exclusion: excluded is not gone: it is there again, and alive", "view-exclusion", {
        "a": f"{U} | view 2 a | view 3 a,b | end",
        "b": f"{U} | view 2 b | view 3 a,b | end",
        "c": f"{U} | crash",
    }),
    ("agreement: they part after the view of delivery, and come together again", "agreement", {
        "a": f"{U} | send | deliver a 1 | view 2 a | view 3 a,b,c | end",
        "b": f"{U} | view 2 b,c | send | deliver b 1 | view 3 a,b,c | end",
        "c": f"{U} | view 2 b,c | deliver b 1 | view 3 a,b,c | end",
    }),
    ("agreement: a view of the same number is not the same view", "agreement", {
        "a": f"{U} | view 2 a,c | send | deliver a 1 | view 3 a,b,c | end",
        "b": f"{U} | view 2 a,b,c | view 3 a,b,c | end",
        "c": f"{U} | view 2 a,c | deliver a 1 | view 3 a,b,c | end",
    }),
    ("agreement: they part a second time", "agreement", {
        "a": f"{APART['a']} | view 3 a,b | send | send | deliver a 1 | deliver a 2 | view 4 a | view 5 a,b | send | deliver a 3 "
             "| end",
        "b": f"{APART['b']} | view 3 a,b | deliver a 1 | view 4 b | view 5 a,b | deliver a 3 | end",
    }),
    ("validity: sent before they part; they merge before the end", "validity", {
        "a": "view 1 a,b | send | deliver a 1 | view 2 a | view 3 a,b | send | deliver a 2 | end",
        "b": "view 1 a,b | view 2 b | view 3 a,b | deliver a 2 | end",
    }),
    ("validity: only the sender parts", "validity", {
        "a": "view 1 a,b | send | deliver a 1 | view 2 a | view 3 a,b | end",
        "b": "view 1 a,b | view 3 a,b | end",
    }),
    ("validity: only the receiver parts", "validity", {
        "a": "view 1 a,b | send | deliver a 1 | view 3 a,b | end",
        "b": "view 1 a,b | view 2 b | view 3 a,b | end",
    }),
    ("validity: a joiner does not owe what was sent in the view before it, and may deliver it", "validity", {
        "a": "view 1 a | send | send | view 2 a,j | deliver a 1 | deliver a 2 | end",
        "j": "join | view 2 a,j | deliver a 2 | end",
    }),
    ("self-delivery: sent apart, delivered after the merge", "self-delivery", {
        "a": f"{APART['a']} | send | view 3 a,b | deliver a 1 | end",
        "b": f"{APART['b']} | view 3 a,b | deliver a 1 | end",
    }),
    ("sender-in-view: sent where nobody else was, delivered where its sender is again", "sender-in-view", {
        "a": f"{APART['a']} | send | view 3 a,b | deliver a 1 | end",
        "b": f"{APART['b']} | view 3 a,b | deliver a 1 | end",
    }),
    ("same-view: each part in its own view of one number", "same-view", {
        "a": f"{APART['a']} | send | deliver a 1 | view 3 a,b | end",
        "b": f"{APART['b']} | send | deliver b 1 | view 3 a,b | end",
    }),
    ("disjoint-views: parts that intersect, told apart by signatures", "disjoint-views", {
        "a": signed("view 2 a,b", '"a":2,"b":2') + " | end",
        "b": signed("view 3 b,c", '"b":3,"c":2') + " | end",
    }),
    ("disjoint-views: two parts admit a joiner, each under its own signature", "disjoint-views", {
        "a": signed("view 1 a,b", '"a":1,"b":1') + " | " + signed("view 2 a,j", '"a":2,"j":1') + " | end",
        "b": signed("view 1 a,b", '"a":1,"b":1') + " | " + signed("view 2 b,j", '"b":2,"j":2') + " | end",
    }),
    ("convergence: three parts, one of them a joiner's", "convergence", {
        "a": f"{APART['a']} | view 3 a,b,j | end",
        "b": f"{APART['b']} | view 3 a,b,j | end",
        "j": "join | view 1 j | view 3 a,b,j | end",
    }),
    ("fifo: what the other part had is missing, what came since is not", "fifo", {
        "a": f"{APART['a']} | send | deliver a 1 | view 3 a,b | send | send | deliver a 2 | deliver a 3 | end",
        "b": f"{APART['b']} | view 3 a,b | deliver a 2 | deliver a 3 | end",
    }),
    ("fifo: cut off at the parting, and again at the next", "fifo", {
        "a": "view 1 a,b | send | send | deliver a 1 | deliver a 2 | view 2 a | view 3 a,b | send | send | deliver a 3 "
             "| deliver a 4 | view 4 a | view 5 a,b | send | deliver a 5 | end",
        "b": "view 1 a,b | deliver a 1 | view 2 b | view 3 a,b | deliver a 3 | view 4 b | view 5 a,b | deliver a 5 | end",
    }),
    ("fifo: only the sender parts, and it says so with what it sends next", "fifo", {
        "a": "view 1 a,b | send | deliver a 1 | view 2 a | view 3 a,b | send | deliver a 2 | end",
        "b": "view 1 a,b | view 3 a,b | deliver a 2 | end",
    }),
    ("causal: the same hole after they part", "causal", {
        "a": f"{U} | send | view 2 a | end",
        "c": f"{U} | deliver a 1 | send | deliver c 1 | view 2 b,c | end",
        "b": f"{U} | view 2 b,c | deliver c 1 | end",
    }),
    ("causal: from the other part, told of after the merge", "causal", {
        "a": f"{U} | send | deliver a 1 | view 2 a | send | deliver a 2 | view 3 a,b,c | send | deliver a 3 | deliver c 1 | end",
        "c": f"{U} | view 2 b,c | view 3 a,b,c | deliver a 3 | send | deliver c 1 | end",
        "b": f"{U} | view 2 b,c | view 3 a,b,c | deliver a 3 | deliver c 1 | end",
    }),
    ("causal: through another group, from one with whom it parts before the end", "causal", {
        "a": "view 1 a,b,c | send | deliver a 1 | view 2 a | view 3 a,b,c | end",
        "c": "view 1 a,b,c | view 1 b,c group=h | deliver a 1 | send group=h | deliver c 1 group=h | view 2 c | view 3 a,b,c "
             "| end",
        "b": "view 1 a,b,c | view 1 b,c group=h | deliver c 1 group=h | view 2 b | view 3 a,b,c | end",
    }),
    ("causal: only the sender's part drops it; after the merge a third one tells of what it lacks", "causal", {
        "a": f"{U} | send | deliver a 1 | view 2 a,c | view 3 a,b,c | deliver c 1 | end",
        "c": f"{U} | deliver a 1 | view 2 a,c | view 3 a,b,c | send | deliver c 1 | end",
        "b": f"{U} | view 3 a,b,c | deliver c 1 | end",
    }),
    ("total: each part orders its own, all order what came before and after", "total", {
        "a": "view 1 a,b | send | deliver b 1 | deliver a 1 | view 2 a | send | deliver a 2 | view 3 a,b | send "
             "| deliver a 3 | deliver b 3 | end",
        "b": "view 1 a,b | send | deliver b 1 | deliver a 1 | view 2 b | send | deliver b 2 | view 3 a,b | send "
             "| deliver a 3 | deliver b 3 | end",
    }),
    ("total: across two groups, of which one is parted and one is not", "total", {
        "a": "view 1 a,b | view 1 a,b group=h | view 2 a | send | deliver a 1 | send group=h | deliver a 1 group=h "
             "| view 3 a,b | send | deliver a 2 | end",
        "b": "view 1 a,b | view 1 a,b group=h | view 2 b | send | deliver a 1 group=h | deliver b 1 | view 3 a,b "
             "| deliver a 2 | end",
    }),
    ("integrity: sent in the other part, delivered after the merge", "integrity", {
        "a": f"{APART['a']} | send | view 3 a,b | deliver a 1 | end",
        "b": f"{APART['b']} | view 3 a,b | deliver a 1 | end",
    }),
    ("agreement: a member that nobody observed owes nothing, in either part", "agreement", {
        "a": "view 1 a,b,x | send | deliver a 1 | view 2 a,x | view 3 a,b,x | send | deliver a 2 | end",
        "b": "view 1 a,b,x | view 2 b | view 3 a,b,x | deliver a 2 | end",
    }),
    ("agreement: nor does one whose history is cut", "agreement", {
        "a": f"{U} | view 2 a,c | send | deliver a 1 | view 3 a,b | send | deliver a 2 | end",
        "b": f"{U} | view 2 b | view 3 a,b | deliver a 2 | end",
        "c": f"{U} | view 2 a,c",
    }),
]  # fmt: skip


@pytest.mark.parametrize(("name", "histories", "culprit"), [pytest.param(p, h, c, id=i) for i, p, h, c in BAD])
def test_what_a_partition_does_not_excuse_is_flagged(name: str, histories: dict[str, str], culprit: str) -> None:
    assert_flagged(histories, name, culprit)


@pytest.mark.parametrize(("name", "histories"), [pytest.param(p, h, id=i) for i, p, h in GOOD])
def test_what_a_partition_excuses_passes(name: str, histories: dict[str, str]) -> None:
    assert_passes(histories, name)
