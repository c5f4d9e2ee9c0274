"""Further traces about views, for the catalogue: the situations that ``tests/lab/properties`` does not have for each property."""

from __future__ import annotations

AB = "view 1 a,b"
ABC = "view 1 a,b,c"


def signed(view: str, signatures: str) -> str:
    return f'{view} detail={{"signatures":{{{signatures}}}}}'


BAD = [
    ("view-order: a joiner goes another way", "view-order", {
        "a": "view 1 a | view 2 a,b | view 3 a,b,c | end",
        "b": "join | view 2 a,b | view 4 a,b,d | end",
    }, "b"),
    ("view-order: before one of them leaves", "view-order", {
        "a": f"{AB} | view 2 a,b | end",
        "b": f"{AB} | view 3 a,b | leave",
    }, "b"),
    ("view-order: a cut process went another way, in the second of two groups", "view-order", {
        "a": "view 1 a,b | view 1 a,b group=h | view 2 a,b group=h | end",
        "b": "view 1 a,b | view 1 a,b group=h | view 3 a,b group=h",
    }, "b"),
    ("view-order: one admits the new incarnation under another number", "view-order", {
        "a": "view 1 a,b,p3 | view 2 a,b,p3#1 | end",
        "b": "view 1 a,b,p3 | view 3 a,b,p3#1 | end",
        "p3": "view 1 a,b,p3 | crash",
        "p3#1": "join | view 2 a,b,p3#1 | end",
    }, "b"),
    ("view-order: readmitted into a view, and then apart in number", "view-order", {
        "a": "view 1 a,b | view 2 a | view 3 a,b | view 4 a,b,c | end",
        "b": "view 1 a,b | leave | join | view 3 a,b | view 5 a,b,c | end",
    }, "b"),
    ("view-order: an outsider installs a view that it is not in", "view-order", {
        "s": "send | view 1 a,b | end",
        "a": f"{AB} | deliver s 1 | end",
    }, "s"),
    ("view-atomicity: a cut process lacks an incarnation's last message", "view-atomicity", {
        "p3": "view 1 a,b,p3 | send | crash",
        "a": "view 1 a,b,p3 | deliver p3 1 | view 2 a,b | end",
        "b": "view 1 a,b,p3 | view 2 a,b",
    }, "b"),
    ("view-atomicity: between the merged view and the next", "view-atomicity", {
        "a": "view 1 a,b | view 2 a | view 4 a,b | send | deliver a 1 | view 5 a,b,c | end",
        "b": "view 1 a,b | view 3 b | view 4 a,b | view 5 a,b,c | deliver a 1 | end",
    }, "b"),
    ("view-atomicity: a joiner and one that leaves later", "view-atomicity", {
        "a": "view 1 a | view 2 a,b | send | deliver a 1 | view 3 a,b,c | end",
        "b": "join | view 2 a,b | view 3 a,b,c | leave",
    }, "b"),
    ("view-atomicity: readmitted, in its second stay", "view-atomicity", {
        "a": "view 1 a,b | view 3 a,b,c | send | deliver a 1 | view 4 a,b | end",
        "b": "view 1 a,b | leave | join | view 3 a,b,c | view 4 a,b | end",
    }, "b"),
    ("view-exclusion: the old incarnation beside the new one", "view-exclusion", {
        "a": "view 1 a,p3 | view 2 a,p3,p3#1 | end",
        "p3": "view 1 a,p3 | crash",
        "p3#1": "join | view 2 a,p3,p3#1 | end",
    }, "p3"),
    ("view-exclusion: gone from one group, not from the other", "view-exclusion", {
        "a": "view 1 a,b | view 1 a,b group=h | view 2 a | end",
        "b": "view 1 a,b | view 1 a,b group=h | crash",
    }, "b"),
    ("view-exclusion: it crashed on the other side and stands in the merged view", "view-exclusion", {
        "a": "view 1 a,b,c | view 2 a | view 4 a,b,c | end",
        "b": "view 1 a,b,c | view 3 b,c | view 4 a,b,c | end",
        "c": "view 1 a,b,c | view 3 b,c | crash",
    }, "c"),
    ("view-exclusion: readmitted and gone again", "view-exclusion", {
        "a": "view 1 a,b | view 2 a | view 3 a,b | end",
        "b": "view 1 a,b | leave | join | view 3 a,b | leave",
    }, "b"),
    ("view-exclusion: an outsider that a view names, and that is cut", "view-exclusion", {
        "s": "send",
        "a": "view 1 a,s | deliver s 1 | end",
    }, "s"),
    ("convergence: one misses the merge", "convergence", {
        "a": "view 1 a,b,c | view 2 a,b | view 4 a,b,c | end",
        "b": "view 1 a,b,c | view 2 a,b | end",
        "c": "view 1 a,b,c | view 3 c | view 4 a,b,c | end",
    }, "b"),
    ("convergence: the new incarnation stays alone", "convergence", {
        "a": "view 1 a,p3 | view 2 a | end",
        "p3": "view 1 a,p3 | crash",
        "p3#1": "join | view 1 p3#1 | end",
    }, "p3#1"),
    ("convergence: one group has, the other has not, and one was cut", "convergence", {
        "a": "view 1 a,b,c | view 1 a,b group=h | view 2 a,b | view 2 a group=h | end",
        "b": "view 1 a,b,c | view 1 a,b group=h | view 2 a,b | view 3 b group=h | end",
        "c": "view 1 a,b,c",
    }, "b"),
    ("convergence: the same number with other members, after a leave", "convergence", {
        "a": f"{ABC} | view 2 a,b | end",
        "b": f"{ABC} | view 2 a,b,c | end",
        "c": f"{ABC} | leave",
    }, "b"),
    ("sender-in-view: on the wrong side of a partition", "sender-in-view", {
        "a": "view 1 a,b | send | view 2 a | view 4 a,b | end",
        "b": "view 1 a,b | view 3 b | deliver a 1 | view 4 a,b | end",
    }, "b"),
    ("sender-in-view: an outsider that joins later", "sender-in-view", {
        "s": "send | join | end",
        "a": f"{AB} | deliver s 1 | end",
    }, "a"),
    ("sender-in-view: it left, and a cut process delivers", "sender-in-view", {
        "a": f"{AB} | send | leave",
        "b": f"{AB} | view 2 b | deliver a 1",
    }, "b"),
    ("sender-in-view: it is in the other group's view", "sender-in-view", {
        "a": "view 1 a,b | view 1 a,b group=h | send group=h | end",
        "b": "view 1 a,b | view 1 a,b group=h | view 2 b group=h | deliver a 1 group=h | end",
    }, "b"),
    ("sender-in-view: readmitted, but not yet there", "sender-in-view", {
        "a": "view 1 a,b | leave | join | view 3 a,b | send | end",
        "b": "view 1 a,b | view 2 b | deliver a 1 | view 3 a,b | end",
    }, "b"),
    ("same-view: after a merge", "same-view", {
        "a": "view 1 a,b | view 2 a | send | view 4 a,b | end",
        "b": "view 1 a,b | view 3 b | view 4 a,b | deliver a 1 | crash",
    }, "b"),
    ("same-view: a joiner delivers what was sent before its view", "same-view", {
        "a": "view 1 a | send | view 2 a,b | end",
        "b": "join | view 2 a,b | deliver a 1 | end",
    }, "b"),
    ("same-view: the old incarnation's message in the new one's view", "same-view", {
        "p3": "view 1 a,p3 | send | crash",
        "p3#1": "join | view 2 a,p3#1 | end",
        "a": "view 1 a,p3 | view 2 a,p3#1 | deliver p3 1 | end",
    }, "a"),
    ("same-view: after it left, and was readmitted, in the second of two groups", "same-view", {
        "a": "view 1 a,b | view 1 a,b group=h | send | send group=h | end",
        "b": "view 1 a,b | deliver a 1 | view 1 a,b group=h | leave group=h | join group=h | view 3 a,b group=h "
        "| deliver a 1 group=h",
    }, "b"),
    ("disjoint-views: a merged view reuses the signature of one side", "disjoint-views", {
        "a": signed("view 1 a,b", '"a":1,"b":1') + " | " + signed("view 2 a", '"a":2') + " | "
        + signed("view 4 a,b", '"a":2,"b":3') + " | end",
        "b": signed("view 1 a,b", '"a":1,"b":1') + " | " + signed("view 3 b", '"b":2') + " | crash",
    }, "a"),
    ("disjoint-views: the new incarnation's view reuses a survivor's signature", "disjoint-views", {
        "p3": signed("view 1 a,p3", '"a":1,"p3":1') + " | crash",
        "p3#1": "join | " + signed("view 2 a,p3#1", '"a":1,"p3#1":1') + " | end",
        "a": signed("view 1 a,p3", '"a":1,"p3":1') + " | end",
    }, "p3#1"),
    ("disjoint-views: in the second group, over two stays of a cut process", "disjoint-views", {
        "a": signed("view 1 a", '"a":1') + " | " + signed("view 1 a,b group=h", '"a":1,"b":1')
        + " | leave group=h | join group=h | " + signed("view 3 a,b group=h", '"a":4,"b":1'),
    }, "a"),
    ("view-order: apart while an outsider sends", "view-order", {
        "s": "send | end",
        "a": f"{AB} | view 2 a,b | deliver s 1 | end",
        "b": f"{AB} | view 3 a,b | deliver s 1 | end",
    }, "b"),
    ("view-atomicity: the new incarnation lacks what was delivered before the next view", "view-atomicity", {
        "p3": "view 1 a,p3 | crash",
        "p3#1": "join | view 2 a,p3#1 | view 3 a,p3#1 | end",
        "a": "view 1 a,p3 | view 2 a,p3#1 | send | deliver a 1 | view 3 a,p3#1 | end",
    }, "p3#1"),
    ("convergence: two go apart over one that came back, and an outsider", "convergence", {
        "s": "send | end",
        "a": "view 1 a,b,c | view 2 a,b | view 3 a,b,c | deliver s 1 | end",
        "b": "view 1 a,b,c | view 2 a,b | end",
        "c": "view 1 a,b,c | leave | join | view 3 a,b,c | end",
    }, "b"),
    ("sender-in-view: an outsider that a later view names, though it never joins", "sender-in-view", {
        "s": "send | end",
        "a": "view 1 a | deliver s 1 | view 2 a,s | end",
    }, "a"),
    ("same-view: an outsider's message in any view, a member's not", "same-view", {
        "s": "send | end",
        "a": f"{AB} | send | view 2 a | deliver s 1 | deliver a 1 | end",
    }, "a"),
    ("disjoint-views: an outsider's signature in two views", "disjoint-views", {
        "s": "send | end",
        "a": signed("view 1 a", '"a":1,"s":5') + " | " + signed("view 2 a", '"a":2,"s":5') + " | deliver s 1 | end",
    }, "a"),
]  # fmt: skip

GOOD = [
    ("view-order: a cut process is behind, a process that left went another way", "view-order", {
        "a": f"{ABC} | view 2 a,b | view 3 a,b,d | end",
        "b": f"{ABC} | view 2 a,b",
        "c": f"{ABC} | leave",
    }),
    ("view-atomicity: each group for itself, and a merge", "view-atomicity", {
        "a": "view 1 a,b | view 1 a,b group=h | send | deliver a 1 | view 2 a,b group=h | view 2 a,b | end",
        "b": "view 1 a,b | view 1 a,b group=h | view 2 a,b group=h | deliver a 1 | view 2 a,b | end",
    }),
    ("view-exclusion: gone from both groups, crashed in one run of views and cut in another", "view-exclusion", {
        "a": "view 1 a,b | view 1 a,b,c group=h | view 2 a | view 2 a group=h | end",
        "b": "view 1 a,b | view 1 a,b,c group=h | crash",
        "c": "view 1 a,b,c group=h",
    }),
    ("convergence: a timing fault excuses", "convergence", {
        "a": f"{ABC} | view 2 a,b | end",
        "b": f"{ABC} | view 2 a,b | end",
        "c": f"{ABC} | fault detail={{\"timing\":true}} | end",
    }),
    ("sender-in-view: a member of the other group only", "sender-in-view", {
        "s": "view 1 s group=h | send | end",
        "a": f"{AB} | send | deliver s 1 | deliver a 1 | end",
    }),
    ("same-view: an unobserved sender's message, after it left the view", "same-view", {
        "a": "view 1 a,x | send | deliver a 1 | view 2 a | deliver x 1 | end",
    }),
    ("disjoint-views: a merged view with fresh signatures", "disjoint-views", {
        "a": signed("view 2 a", '"a":2') + " | " + signed("view 4 a,b", '"a":3,"b":3') + " | end",
        "b": signed("view 3 b", '"b":2') + " | " + signed("view 4 a,b", '"a":3,"b":3') + " | crash",
    }),
]  # fmt: skip

NOTHING = [
    ("view-order: nobody has a view", "view-order", {"a": "join | send | deliver a 1 | end"}),
    ("view-atomicity: nobody shares two views", "view-atomicity", {"a": f"{AB} | view 2 a | end", "b": f"{AB} | view 3 b | end"}),
    ("view-exclusion: nobody is gone", "view-exclusion", {"a": f"{AB} | end", "b": f"{AB} | end"}),
    ("convergence: one correct member", "convergence", {"a": f"{AB} | view 2 a | end", "b": f"{AB} | crash"}),
    ("sender-in-view: without views", "sender-in-view", {"a": "join | send | deliver a 1 | end"}),
    ("same-view: an outsider's message only", "same-view", {"s": "send | end", "a": f"{AB} | deliver s 1 | end"}),
    ("disjoint-views: without signatures", "disjoint-views", {"a": f"{AB} | view 2 a | end"}),
]  # fmt: skip
