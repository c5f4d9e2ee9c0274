"""The names of all properties, for code that only has to know which there are.

``docs/properties.md`` defines them, and ``plainchant.lab.properties.catalogue`` binds each name to its checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PROPERTIES: Final[Mapping[str, str]] = {
    "integrity": "a message is delivered at most once, by members, as its sender sent it",
    "fifo": "messages of one sender are delivered in the order in which it sent them, without holes",
    "causal": "a message is delivered after everything that happened before it",
    "identical": "processes that do not crash deliver a group's messages in one order",
    "total": "all processes deliver in one order, across the groups they share, and it is causal",
    "acyclic": "the delivery orders of all processes together have no cycle",
    "self-delivery": "a correct member delivers its own messages",
    "validity": "what a correct process sends, every correct member that owes it delivers",
    "agreement": "what one correct member delivers, all correct members of its view deliver",
    "uniform": "what any member delivers, even one that crashes, all correct members of its view deliver, in one order",
    "view-order": "members that stay together install the same views in the same order",
    "view-atomicity": "members that install the same two consecutive views deliver the same messages between them",
    "view-exclusion": "who crashed or left disappears from the views of the correct members",
    "convergence": "when faults have stopped, the correct members of a group end in the same view",
    "sender-in-view": "a message is delivered in a view that its sender is in",
    "same-view": "a message is delivered in the view in which it was sent",
    "disjoint-views": "two different views of a group share no signature",
    "unanimity": "what one correct member rejects, none delivers",
    "deadline": "a message is delivered by its deadline",
    "bounded": "no send, no delivery, no rotation of a token and no detection of a crash takes longer than the stated bound",
    "progress": "what a process hands in is delivered, what it asks for is answered in time, and no fault-free member is halted",
    "prompt": "no delivery waits unless something that happened before it is missing",
    "replica-agreement": "replicas of a block that have applied the same commands have the same state",
    "dictionary-merge": "where parts of a group come together, a dictionary becomes what its merge policy says",
    "counter-sum": "a counter's value is the sum of all that was added, each addition counted once",
    "lock-exclusion": "a lock is held by one process at a time, under tokens that grow, and nobody is let in with an older one",
    "one-leader": "a term has one leader, and all members know it",
    "jobs-once": "every job of a work queue has its effect exactly once",
    "answers": "the outcome of a question to the group is made of answers that were given, and of enough of them",
}
"""Every property by name, with one sentence for people. Its exact definition is in ``docs/properties.md``."""

BLOCK_PROPERTIES: Final[Mapping[str, str | None]] = {
    "replica-agreement": None,
    "dictionary-merge": "dictionary",
    "counter-sum": "counter",
    "lock-exclusion": "lock",
    "one-leader": "election",
    "jobs-once": "work-queue",
    "answers": "requests",
}
"""Properties of building blocks, and the kind of block (``note`` in the detail of its rows) that each is about; None: every
kind. They are checked wherever there are rows of such blocks, whatever the protocol promises."""

SPEAK_OF_END: Final = frozenset({"self-delivery", "validity", "agreement", "view-exclusion", "convergence"})
"""Properties that, unless asked for by name, are checked in drained runs only."""
