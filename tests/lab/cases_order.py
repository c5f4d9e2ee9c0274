"""Further traces about order, for the catalogue: the situations that ``tests/lab/properties`` does not have for each property."""

from __future__ import annotations

AB = "view 1 a,b"
ABC = "view 1 a,b,c"

# The two processes that disagree never deliver in the same view: comparing view by view would see nothing.
STRANGERS = {
    "a": "view 1 a,b | send | deliver a 1 | deliver b 1 | end",
    "b": "view 2 a,b | send | deliver b 1 | deliver a 1 | end",
}
LATE = {
    "a": "view 1 a,b | send | deliver a 1 | deliver b 1 | view 2 a,b,c | end",
    "b": "view 1 a,b | send | deliver a 1 | deliver b 1 | view 2 a,b,c | end",
    "c": "join | view 2 a,b,c | deliver b 1 | deliver a 1 | end",
}
LATE_BUT_ALIKE = {**LATE, "c": "join | view 2 a,b,c | deliver a 1 | deliver b 1 | end"}
ORDERS = ("identical", "total", "acyclic", "uniform")

BAD = [
    *((f"{name}: two that share no view disagree", name, STRANGERS, "b") for name in ORDERS),
    *((f"{name}: a joiner delivers older messages, the other way round", name, LATE, "c") for name in ORDERS),
    ("fifo: in the second of two groups only", "fifo", {
        "a": "view 1 a,b | view 1 a,b group=h | send | send | send group=h | send group=h | end",
        "b": "view 1 a,b | view 1 a,b group=h | deliver a 1 | deliver a 2 group=h | deliver a 2 | deliver a 1 group=h | end",
    }, "b"),
    ("fifo: a new incarnation's messages swapped", "fifo", {
        "p3": "view 1 a,p3 | send | crash",
        "p3#1": "join | view 3 a,p3#1 | send | send | end",
        "a": "view 1 a,p3 | deliver p3 1 | view 2 a | view 3 a,p3#1 | deliver p3#1 2 | deliver p3#1 1 | end",
    }, "a"),
    ("fifo: swapped, by one that leaves afterwards", "fifo", {
        "a": f"{AB} | send | send | end",
        "b": f"{AB} | deliver a 2 | deliver a 1 | leave",
    }, "b"),
    ("fifo: a joiner skips the first message after its view", "fifo", {
        "a": "view 1 a | send | view 2 a,b | send | send | end",
        "b": "join | view 2 a,b | deliver a 3 | end",
    }, "b"),
    ("fifo: readmitted, it skips the first message of its new stay", "fifo", {
        "a": "view 1 a,b | send | view 2 a | send | view 3 a,b | send | send | end",
        "b": "view 1 a,b | deliver a 1 | leave | join | view 3 a,b | deliver a 4 | end",
    }, "b"),
    ("fifo: after a merge a hole in what was sent in the merged view", "fifo", {
        "a": "view 1 a,b | view 2 a | view 4 a,b | send | send | end",
        "b": "view 1 a,b | view 3 b | view 4 a,b | deliver a 2 | end",
    }, "b"),
    ("causal: a joiner gets the answer before the question", "causal", {
        "a": "view 1 a,b | view 2 a,b,c | send | deliver a 1 | deliver b 1 | end",
        "b": "view 1 a,b | view 2 a,b,c | deliver a 1 | send | deliver b 1 | end",
        "c": "join | view 2 a,b,c | deliver b 1 | deliver a 1 | end",
    }, "c"),
    ("causal: the new incarnation answers the old one", "causal", {
        "p3": "view 1 a,b,p3 | send | crash",
        "b": "view 1 a,b,p3 | deliver p3 1 | send | view 2 a,b | end",
        "p3#1": "join group=x | deliver p3 1 | send | end",
        "a": "view 1 a,b,p3 | deliver p3#1 1 | deliver p3 1 | view 2 a,b | deliver b 1 | end",
    }, "a"),
    ("causal: the wrong way round before it leaves", "causal", {
        "a": f"{ABC} | send | deliver a 1 | end",
        "b": f"{ABC} | deliver a 1 | send | deliver b 1 | end",
        "c": f"{ABC} | deliver b 1 | deliver a 1 | leave",
    }, "c"),
    ("causal: after a merge, the answer and then the question, both sent in the merged view", "causal", {
        "a": "view 1 a,b,c | view 2 a | view 4 a,b,c | send | deliver a 1 | end",
        "b": "view 1 a,b,c | view 3 b,c | view 4 a,b,c | deliver a 1 | send | deliver b 1 | end",
        "c": "view 1 a,b,c | view 3 b,c | view 4 a,b,c | deliver b 1 | deliver a 1 | end",
    }, "c"),
    ("causal: readmitted, it misses the question sent in its new view", "causal", {
        "a": "view 1 a,b,c | view 2 a,b | view 3 a,b,c | send | deliver a 1 | end",
        "b": "view 1 a,b,c | view 2 a,b | view 3 a,b,c | deliver a 1 | send | deliver b 1 | end",
        "c": "view 1 a,b,c | leave | join | view 3 a,b,c | deliver b 1 | end",
    }, "c"),
    ("identical: in the second of two groups only", "identical", {
        "a": "view 1 a,b group=h | view 1 a,b | send | send group=h | deliver a 1 | deliver a 1 group=h "
        "| deliver b 1 group=h | end",
        "b": "view 1 a,b group=h | view 1 a,b | send group=h | deliver a 1 | deliver b 1 group=h | deliver a 1 group=h | end",
    }, "b"),
    ("identical: two processes that only send", "identical", {
        "s": "send | end",
        "t": "send | end",
        "a": f"{AB} | deliver s 1 | deliver t 1 | end",
        "b": f"{AB} | deliver t 1 | deliver s 1 | end",
    }, "b"),
    ("identical: the last message of one incarnation and the first of the next", "identical", {
        "p3": "view 1 a,b,p3 | send | crash",
        "p3#1": "join | view 2 a,b,p3#1 | send | end",
        "a": "view 1 a,b,p3 | deliver p3 1 | view 2 a,b,p3#1 | deliver p3#1 1 | end",
        "b": "view 1 a,b,p3 | view 2 a,b,p3#1 | deliver p3#1 1 | deliver p3 1 | end",
    }, "b"),
    ("identical: after a merge, each side's message first", "identical", {
        "a": "view 1 a,b | view 2 a | send | deliver a 1 | view 4 a,b | deliver b 1 | end",
        "b": "view 1 a,b | view 3 b | send | deliver b 1 | view 4 a,b | deliver a 1 | end",
    }, "a"),
    ("identical: one order over two stays", "identical", {
        "a": "view 1 a,b | send | send | deliver a 1 | deliver a 2 | end",
        "b": "view 1 a,b | deliver a 2 | leave | join | view 3 a,b | deliver a 1 | leave",
    }, "b"),
    ("total: a cut process disagrees", "total", {
        "a": f"{AB} | send | deliver a 1 | deliver b 1 | end",
        "b": f"{AB} | send | deliver b 1 | deliver a 1",
    }, "b"),
    ("total: a joiner, across two groups", "total", {
        "a": "view 1 a group=g | view 2 a,b | view 1 a,b group=h | send | send group=h | deliver a 1 | deliver a 1 group=h | end",
        "b": "join | view 2 a,b | join group=h | view 1 a,b group=h | deliver a 1 group=h | deliver a 1 | end",
    }, "b"),
    ("total: two outsiders' messages, and one of the receivers left", "total", {
        "s": "send | end",
        "t": "send | end",
        "a": f"{AB} | deliver s 1 | deliver t 1 | end",
        "b": f"{AB} | deliver t 1 | deliver s 1 | leave",
    }, "b"),
    ("total: the new incarnation had another order than the old one's peer", "total", {
        "a": "view 1 a,p3 | send | send | deliver a 1 | view 2 a,p3#1 | deliver a 2 | end",
        "p3": "view 1 a,p3 | crash",
        "p3#1": "join | view 2 a,p3#1 | deliver a 2 | deliver a 1 | crash",
    }, "p3#1"),
    ("total: after a merge", "total", {
        "a": "view 1 a,b | view 2 a | send | deliver a 1 | view 4 a,b | deliver b 1 | end",
        "b": "view 1 a,b | view 3 b | send | deliver b 1 | view 4 a,b | deliver a 1 | crash",
    }, "b"),
    ("acyclic: a ring of overlapping groups with views, closed by a joiner", "acyclic", {
        "a": "view 1 a,c group=x | view 1 a,b group=y | send group=x | deliver a 1 group=x | deliver b 1 group=y | end",
        "b": "view 1 a,b group=y | view 1 b,c group=z | send group=y | deliver b 1 group=y | deliver c 1 group=z | end",
        "c": "join group=x | view 1 a,c group=x | view 1 b,c group=z | send group=z "
        "| deliver c 1 group=z | deliver a 1 group=x | end",
    }, "c"),
    ("acyclic: a ring of three outsiders' messages, one receiver left, one crashed", "acyclic", {
        "s": "send | send | send | end",
        "a": f"{ABC} | deliver s 1 | deliver s 2 | leave",
        "b": f"{ABC} | deliver s 2 | deliver s 3 | crash",
        "c": f"{ABC} | deliver s 3 | deliver s 1 | end",
    }, "c"),
    ("acyclic: across incarnations", "acyclic", {
        "a": "view 1 a,p3 | send | send | deliver a 1 | view 2 a,p3#1 | deliver a 2 | end",
        "p3": "view 1 a,p3 | crash",
        "p3#1": "join | view 2 a,p3#1 | deliver a 2 | deliver a 1 | end",
    }, "p3#1"),
    ("acyclic: after a merge and a leave", "acyclic", {
        "a": "view 1 a,b | view 2 a | send | deliver a 1 | view 4 a,b | deliver b 1 | end",
        "b": "view 1 a,b | view 3 b | send | deliver b 1 | view 4 a,b | deliver a 1 | leave",
    }, "b"),
    ("prompt: what it waits for was sent in a group that it has left", "prompt", {
        "a": "view 1 a,b | view 1 a,b group=h | send group=h | send | end",
        "b": "view 1 a,b | view 1 a,b group=h | leave group=h | block a 1 | deliver a 1 | end",
    }, "b"),
    ("prompt: a joiner waits for what came before its view", "prompt", {
        "a": "view 1 a | send | view 2 a,b | send | end",
        "b": "join | view 2 a,b | block a 2 | deliver a 2 | end",
    }, "b"),
    ("prompt: the new incarnation's first message waits for the old one's", "prompt", {
        "p3": "view 1 a,p3 | send | crash",
        "p3#1": "join | view 2 a,p3#1 | send | end",
        "a": "view 1 a,p3 | view 2 a,p3#1 | block p3#1 1 | deliver p3#1 1 | end",
    }, "a"),
    ("prompt: an outsider's first message waits, and the process crashes", "prompt", {
        "s": "send | end",
        "b": f"{AB} | block s 1 | crash",
    }, "b"),
    ("prompt: after a merge it waits for what the other side sent to itself", "prompt", {
        "a": "view 1 a,b | view 2 a | send | view 4 a,b | send | end",
        "b": "view 1 a,b | view 3 b | view 4 a,b | block a 2 | deliver a 2 | end",
    }, "b"),
    ("identical: two correct members, and a cut one that agrees with either", "identical", {
        "a": f"{ABC} | send | deliver a 1 | deliver b 1 | end",
        "b": f"{ABC} | send | deliver b 1 | deliver a 1 | end",
        "c": f"{ABC} | deliver b 1",
    }, "b"),
    ("total: one order over two stays, the second of them cut", "total", {
        "a": "view 1 a,b | send | send | deliver a 1 | deliver a 2 | end",
        "b": "view 1 a,b | deliver a 2 | leave | join | view 3 a,b | deliver a 1",
    }, "b"),
    ("acyclic: a ring of three messages over two stays", "acyclic", {
        "a": f"{ABC} | send | send | send | deliver a 1 | deliver a 2 | end",
        "b": f"{ABC} | deliver a 2 | deliver a 3 | end",
        "c": f"{ABC} | deliver a 3 | leave | join | view 3 a,b,c | deliver a 1 | end",
    }, "c"),
    ("prompt: readmitted, it waits for what was sent while it was away, and is cut", "prompt", {
        "a": "view 1 a,b | view 2 a | send | view 3 a,b | send | end",
        "b": "view 1 a,b | leave | join | view 3 a,b | block a 2 | deliver a 2",
    }, "b"),
]  # fmt: skip

GOOD = [
    *((f"{name}: a joiner delivers older messages, in the same order", name, LATE_BUT_ALIKE) for name in ORDERS),
    ("fifo: it crashed in the middle, another was cut in the middle", "fifo", {
        "a": f"{ABC} | send | send | send | end",
        "b": f"{ABC} | deliver a 1 | deliver a 2 | crash",
        "c": f"{ABC} | deliver a 1 | deliver a 2",
    }),
    ("fifo: readmitted, what was sent while it was away is not owed", "fifo", {
        "a": "view 1 a,b | send | view 2 a | send | view 3 a,b | send | end",
        "b": "view 1 a,b | deliver a 1 | leave | join | view 3 a,b | deliver a 3 | end",
    }),
    ("causal: what was sent on the other side of a partition", "causal", {
        "a": "view 1 a,b | view 2 a | send | deliver a 1 | view 4 a,b | send | deliver a 2 | end",
        "b": "view 1 a,b | view 3 b | view 4 a,b | deliver a 2 | end",
    }),
    ("identical: a cut process may disagree", "identical", {
        "a": f"{ABC} | send | deliver a 1 | deliver b 1 | end",
        "b": f"{ABC} | send | deliver b 1 | deliver a 1",
        "c": f"{ABC} | deliver a 1 | deliver b 1 | end",
    }),
    ("total: they share one group, and order across the other is free", "total", {
        "a": "view 1 a,b | view 1 a group=h | send group=h | send | send | deliver a 1 group=h | deliver a 1 | deliver a 2 | end",
        "b": "view 1 a,b | deliver a 1 | deliver a 2 | end",
    }),
    ("total: messages of two incarnations in one order", "total", {
        "p3": "view 1 a,b,p3 | send | crash",
        "p3#1": "join | view 2 a,b,p3#1 | send | end",
        "a": "view 1 a,b,p3 | deliver p3 1 | view 2 a,b,p3#1 | deliver p3#1 1 | end",
        "b": "view 1 a,b,p3 | deliver p3 1 | view 2 a,b,p3#1 | deliver p3#1 1 | end",
    }),
    ("acyclic: one process alone delivers what would close the ring", "acyclic", {
        "a": "send | send | deliver a 1 | deliver a 2 | end",
        "b": "send | deliver a 1 | deliver b 1 | end",
        "c": "deliver a 2 | end",
    }),
    ("prompt: it waits for an outsider's message that another member delivered", "prompt", {
        "s": "send | send | end",
        "a": f"{AB} | deliver s 1 | deliver s 2 | end",
        "b": f"{AB} | block s 2 | deliver s 1 | deliver s 2 | end",
    }),
]  # fmt: skip

NOTHING = [
    ("fifo: one message of each sender", "fifo", {
        "a": f"{AB} | send | deliver a 1 | deliver b 1 | end",
        "b": f"{AB} | send | deliver b 1 | deliver a 1 | end",
    }),
    ("causal: concurrent messages only", "causal", {
        "a": f"{AB} | send | end",
        "b": f"{AB} | send | deliver a 1 | deliver b 1 | end",
    }),
    ("identical: one message in common, the other order is a crashed process's", "identical", {
        "a": f"{AB} | send | deliver a 1 | deliver b 1 | end",
        "b": f"{AB} | send | deliver b 1 | deliver a 1 | crash",
        "c": f"{AB} | deliver a 1 | end",
    }),
    ("total: one message, one process", "total", {"a": "view 1 a | send | deliver a 1 | end"}),
    ("acyclic: nobody delivers what another does", "acyclic", {
        "a": "view 1 a | send | deliver a 1 | end",
        "b": "view 2 b | send | deliver b 1 | crash",
    }),
    ("prompt: nobody waited", "prompt", {"a": f"{AB} | send | send | deliver a 1 | deliver a 2 | end"}),
]  # fmt: skip
