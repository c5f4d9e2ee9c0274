"""Hand-written traces of building blocks: each case breaks one clause of one property, or looks like it and is correct.

Histories are those of :mod:`.build`; :func:`note` makes a row of a block.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

AB = "view 1 a,b"
ABC = "view 1 a,b,c"


def note(about: str, event: str, message: str = "", at: int | None = None, **detail: Any) -> str:
    """A row about block ``x``; ``message`` is ``sender/seq``, ``at`` the global time."""
    whole = json.dumps({"note": about, "block": "x", "event": event, **detail}, separators=(",", ":"))
    sender, _, seq = message.partition("/")
    told = f" sender={sender} seq={seq}" if message else ""
    when = f" true_time={at}" if at is not None else ""
    return f"note{told}{when} detail={whole}"


def begin(digest: str = "0", **detail: Any) -> str:
    return note("sum", "begin", at_view=1, members=["a", "b"], digest=digest, **detail)


def apply(message: str, digest: str, about: str = "sum", **detail: Any) -> str:
    return note(about, "apply", message, digest=digest, **detail)


def history(*events: str) -> str:
    return " | ".join(events)


# --- replica-agreement --------------------------------------------------------------------------------------------------

_SENDS = history(AB, "send", "deliver a 1", begin(), apply("a/1", "1"))
_JOINS = history("view 2 a,b,c", note("sum", "take", at_view=2, donor="a", digest="1"))
_GIVES = history("view 2 a,b,c", note("sum", "give", at_view=2, to="c", digest="1"))


def _merged(digest: str, *before: str) -> str:
    parts: dict[str, Any] = {"parts": [["a"], ["b"]], "speakers": ["a", "b"]}
    return history(*before, "view 3 a,b", note("sum", "merge", at_view=3, digest=digest, **parts))


# --- counter-sum --------------------------------------------------------------------------------------------------------


def add(message: str, amount: int, value: int) -> str:
    return apply(message, str(value), "counter", amount=amount, value=value)


def count_from(value: int = 0) -> str:
    return note("counter", "begin", at_view=1, members=["a", "b"], digest=str(value), value=value)


def _counts(*events: str) -> dict[str, str]:
    """a adds 3 and then 4; b follows as told."""
    return {
        "a": history(AB, "send", "deliver a 1", "send", "deliver a 2", count_from(), add("a/1", 3, 3), add("a/2", 4, 7), "end"),
        "b": history(AB, "deliver a 1", "deliver a 2", count_from(), *events, "end"),
    }


def _counts_apart(value: int) -> dict[str, str]:
    """a and b add apart from each other, 3 and 5, and come together."""
    parts: dict[str, Any] = {"parts": [["a"], ["b"]], "speakers": ["a", "b"]}
    merged = note("counter", "merge", at_view=3, digest=str(value), value=value, **parts)
    return {
        "a": history(AB, "view 2 a", "send", "deliver a 1", count_from(), add("a/1", 3, 3), "view 3 a,b", merged, "end"),
        "b": history(AB, "view 2 b", "send", "deliver b 1", count_from(), add("b/1", 5, 5), "view 3 a,b", merged, "end"),
    }


# --- dictionary-merge ---------------------------------------------------------------------------------------------------


def _dictionary(digest: str = "d", parts: int = 2, **detail: Any) -> dict[str, str]:
    members = [["a", "b"], ["c"]][:parts]
    row = note("dictionary", "merge", at_view=3, parts=members, speakers=[part[0] for part in members], digest=digest, **detail)
    return {"a": history("view 3 a,b,c", row, "end")}


_WRITTEN = [{"k": [1, "a", True], "l": [2, "a", False]}, {"k": [3, "c", True], "l": [1, "c", True]}]


# --- lock-exclusion and one-leader --------------------------------------------------------------------------------------


def hold(token: int, members: str = "a,b", quorum: str = "majority", at: int | None = None, about: str = "lock") -> str:
    return note(about, "hold", at=at, token=token, quorum=quorum, members=members.split(","))


def release(token: int, at: int | None = None, event: str = "release", about: str = "lock") -> str:
    return note(about, event, at=at, token=token)


def admit(token: int, number: int) -> str:
    return note("lock", "admit", token=token, number=number, resource="disk")


def leads(owner: str | None, term: int, quorum: str = "majority", *, confirmed: bool = True, primary: bool = True) -> str:
    state: dict[str, Any] = {"owner": owner, "token": term, "confirmed": confirmed, "primary": primary, "quorum": quorum}
    return note("election", "view", at_view=1, members=["a", "b"], digest=f"{owner}{term}", **state)


# --- the cases ----------------------------------------------------------------------------------------------------------

BAD: list[tuple[str, str, Mapping[str, str], str]] = [
    (
        "replica-agreement: the same command leads to different states",
        "replica-agreement",
        {
            "a": history(_SENDS, "end"),
            "b": history(AB, "deliver a 1", begin(), apply("a/1", "2"), "end"),
        },
        "b",
    ),
    (
        "replica-agreement: the beginnings differ",
        "replica-agreement",
        {
            "a": history(AB, begin("0"), "end"),
            "b": history(AB, begin("7"), "end"),
        },
        "b",
    ),
    (
        "replica-agreement: applied before it is delivered",
        "replica-agreement",
        {
            "a": history(AB, "send", begin(), apply("a/1", "1"), "deliver a 1", "end"),
        },
        "a",
    ),
    (
        "replica-agreement: applied and never delivered",
        "replica-agreement",
        {
            "a": history(AB, "send", "deliver a 1", "end"),
            "b": history(AB, begin(), apply("a/1", "1"), "end"),
        },
        "b",
    ),
    (
        "replica-agreement: applied twice",
        "replica-agreement",
        {
            "a": history(_SENDS, apply("a/1", "2"), "end"),
        },
        "a",
    ),
    (
        "replica-agreement: applied in another order than delivered",
        "replica-agreement",
        {
            "a": history(AB, "send", "deliver a 1", "send", "deliver a 2", begin(), apply("a/2", "2"), apply("a/1", "3"), "end"),
        },
        "a",
    ),
    (
        "replica-agreement: a joiner has another state than it was given",
        "replica-agreement",
        {
            "a": history(_SENDS, _GIVES, "end"),
            "c": history("view 2 a,b,c", note("sum", "take", at_view=2, donor="a", digest="0"), "end"),
        },
        "c",
    ),
    (
        "replica-agreement: a joiner goes on otherwise",
        "replica-agreement",
        {
            "a": history(_SENDS, _GIVES, "send", "deliver a 2", apply("a/2", "2"), "end"),
            "c": history(_JOINS, "deliver a 2", apply("a/2", "9"), "end"),
        },
        "c",
    ),
    (
        "replica-agreement: parts do not come to the same",
        "replica-agreement",
        {
            "a": history(_merged("5", AB, begin(), "view 2 a"), "end"),
            "b": history(_merged("6", AB, begin(), "view 2 b"), "end"),
        },
        "b",
    ),
    (
        "replica-agreement: one stops applying before the end",
        "replica-agreement",
        {
            "a": history(_SENDS, "end"),
            "b": history(AB, "deliver a 1", begin(), "end"),
        },
        "b",
    ),
    ("counter-sum: an addition is counted twice", "counter-sum", _counts(add("a/1", 3, 3), add("a/2", 4, 11)), "b"),
    ("counter-sum: an addition is lost", "counter-sum", _counts(add("a/1", 3, 0), add("a/2", 4, 4)), "b"),
    (
        "counter-sum: a joiner begins with nothing",
        "counter-sum",
        {
            **_counts(add("a/1", 3, 3), add("a/2", 4, 7), "view 2 a,b,c", note("counter", "give", at_view=2, to="c", digest="7")),
            "c": history("view 2 a,b,c", note("counter", "take", at_view=2, donor="b", digest="0", value=0), "end"),
        },
        "c",
    ),
    ("counter-sum: a merge takes one part's value", "counter-sum", _counts_apart(5), "a"),
    ("counter-sum: a merge counts something twice", "counter-sum", _counts_apart(11), "b"),
    (
        "dictionary-merge: the smaller part wins",
        "dictionary-merge",
        _dictionary("2", policy="larger-part", digests=["1", "2"]),
        "a",
    ),
    (
        "dictionary-merge: an older entry wins",
        "dictionary-merge",
        _dictionary(policy="last-writer", digests=["1", "2"], written=_WRITTEN, kept={"k": [1, "a", True], "l": [2, "a", False]}),
        "a",
    ),
    (
        "dictionary-merge: an entry is lost",
        "dictionary-merge",
        _dictionary(policy="last-writer", digests=["1", "2"], written=_WRITTEN, kept={"l": [2, "a", False]}),
        "a",
    ),
    (
        "dictionary-merge: a deleted key comes back",
        "dictionary-merge",
        _dictionary(policy="last-writer", digests=["1", "2"], written=_WRITTEN, kept={"k": [3, "c", True], "l": [1, "c", True]}),
        "a",
    ),
    (
        "dictionary-merge: a key comes from nowhere",
        "dictionary-merge",
        _dictionary(policy="last-writer", digests=["1", "2"], written=_WRITTEN, kept={"k": [3, "c", True], "m": [9, "z", True]}),
        "a",
    ),
    (
        "lock-exclusion: two hold one token",
        "lock-exclusion",
        {
            "a": history(AB, hold(1), release(1), "end"),
            "b": history(AB, hold(1), "end"),
        },
        "b",
    ),
    (
        "lock-exclusion: one token in two parts",
        "lock-exclusion",
        {
            "a": history("view 1 a", hold(1, "a"), "end"),
            "b": history("view 1 b", hold(1, "b"), "end"),
        },
        "b",
    ),
    (
        "lock-exclusion: tokens do not grow at a process",
        "lock-exclusion",
        {
            "a": history(AB, hold(2), release(2), hold(1), release(1), "end"),
        },
        "a",
    ),
    (
        "lock-exclusion: the first one has not given it up",
        "lock-exclusion",
        {
            "a": history(AB, hold(1), "end"),
            "b": history(AB, hold(2), "end"),
        },
        "a",
    ),
    (
        "lock-exclusion: the first one gives it up later",
        "lock-exclusion",
        {
            "a": history(AB, hold(1, at=10), release(1, at=30), "end"),
            "b": history(AB, hold(2, at=20), "end"),
        },
        "a",
    ),
    ("lock-exclusion: held twice without a release between", "lock-exclusion", {"a": history(AB, hold(1), hold(2), "end")}, "a"),
    (
        "lock-exclusion: an old token is let in",
        "lock-exclusion",
        {
            "a": history(AB, hold(1), release(1), admit(1, 2), "end"),
            "b": history(AB, hold(2), admit(2, 1), "end"),
        },
        "a",
    ),
    ("lock-exclusion: let in without having held", "lock-exclusion", {"a": history(AB, admit(1, 1), hold(1), "end")}, "a"),
    (
        "one-leader: two lead in one term",
        "one-leader",
        {
            "a": history(AB, hold(1, about="election"), "end"),
            "b": history(AB, hold(1, about="election"), "end"),
        },
        "b",
    ),
    (
        "one-leader: the next one leads while the first does",
        "one-leader",
        {
            "a": history(AB, hold(1, about="election"), "end"),
            "b": history(AB, hold(2, about="election"), "end"),
        },
        "a",
    ),
    (
        "one-leader: members follow different leaders",
        "one-leader",
        {
            "a": history(AB, leads("a", 1), "end"),
            "b": history(AB, leads("b", 1), "end"),
        },
        "b",
    ),
    ("one-leader: nobody is known at the end", "one-leader", {"a": history(AB, leads(None, 1, confirmed=False), "end")}, "a"),
    (
        "one-leader: one that is gone is followed to the end",
        "one-leader",
        {
            "a": history(AB, leads("b", 1), "view 2 a", leads("b", 1), "end"),
        },
        "a",
    ),
]

GOOD: list[tuple[str, str, Mapping[str, str]]] = [
    (
        "replica-agreement: the same commands, the same states",
        "replica-agreement",
        {
            "a": history(_SENDS, "end"),
            "b": history(AB, "deliver a 1", begin(), apply("a/1", "1"), "end"),
        },
    ),
    (
        "replica-agreement: different commands, different states",
        "replica-agreement",
        {
            "a": history(_SENDS, "view 2 a", "end"),
            "b": history(AB, begin(), "view 2 b", "send", "deliver b 1", apply("b/1", "8"), "end"),
        },
    ),
    (
        "replica-agreement: who joins has what its donor had",
        "replica-agreement",
        {
            "a": history(_SENDS, _GIVES, "end"),
            "c": history(_JOINS, "end"),
        },
    ),
    (
        "replica-agreement: a command that waits travels with the state",
        "replica-agreement",
        {
            "a": history(
                AB,
                "send",
                "deliver a 1",
                begin(),
                "view 2 a,b,c",
                note("sum", "give", at_view=2, to="c", digest="0"),
                apply("a/1", "1"),
                "end",
            ),
            "c": history("view 2 a,b,c", note("sum", "take", at_view=2, donor="a", digest="0"), apply("a/1", "1"), "end"),
        },
    ),
    (
        "replica-agreement: parts come to the same",
        "replica-agreement",
        {
            "a": history(_merged("5", AB, begin(), "view 2 a"), "end"),
            "b": history(_merged("5", AB, begin(), "view 2 b"), "end"),
        },
    ),
    (
        "replica-agreement: a replica that was closed is not asked at the end",
        "replica-agreement",
        {
            "a": history(_SENDS, "end"),
            "b": history(AB, begin(), note("sum", "end", digest="0"), "deliver a 1", "end"),
        },
    ),
    (
        "replica-agreement: nor is one that crashed",
        "replica-agreement",
        {
            "a": history(_SENDS, "end"),
            "b": history(AB, "deliver a 1", begin(), "crash"),
        },
    ),
    ("counter-sum: every addition once", "counter-sum", _counts(add("a/1", 3, 3), add("a/2", 4, 7))),
    ("counter-sum: parts add up", "counter-sum", _counts_apart(8)),
    (
        "counter-sum: whose donor is not in the trace is not asked",
        "counter-sum",
        {
            "a": history(AB, count_from(), "end"),
            "c": history("view 2 a,b,c", note("counter", "take", at_view=2, donor="b", digest="9", value=9), "end"),
        },
    ),
    ("dictionary-merge: the larger part wins", "dictionary-merge", _dictionary("1", policy="larger-part", digests=["1", "2"])),
    (
        "dictionary-merge: the last writer wins",
        "dictionary-merge",
        _dictionary(policy="last-writer", digests=["1", "2"], written=_WRITTEN, kept={"k": [3, "c", True], "l": [2, "a", False]}),
    ),
    (
        "dictionary-merge: deletions may be forgotten",
        "dictionary-merge",
        _dictionary(policy="last-writer", digests=["1", "2"], written=_WRITTEN, kept={"k": [3, "c", True]}),
    ),
    (
        "lock-exclusion: one after the other",
        "lock-exclusion",
        {
            "a": history(AB, hold(1, at=10), admit(1, 1), release(1, at=20), "end"),
            "b": history(AB, hold(2, at=20), admit(2, 2), "end"),
        },
    ),
    (
        "lock-exclusion: the holder crashed",
        "lock-exclusion",
        {
            "a": history(AB, hold(1), "crash"),
            "b": history(AB, hold(2), "end"),
        },
    ),
    (
        "lock-exclusion: the holder is in another part",
        "lock-exclusion",
        {
            "a": history(ABC, hold(1, "a,b,c"), "end"),
            "b": history(ABC, "view 2 b,c", hold(2, "b,c"), "end"),
        },
    ),
    (
        "lock-exclusion: who is cut off may give it up later",
        "lock-exclusion",
        {
            "a": history(AB, hold(1, at=10), release(1, at=30), "end"),
            "b": history(AB, "view 2 b", hold(2, "b", at=20), release(2, at=40), "end"),
        },
    ),
    (
        "lock-exclusion: who loses it may learn that later",
        "lock-exclusion",
        {
            "a": history(AB, hold(1, at=10), release(1, at=30, event="lost"), "end"),
            "b": history(AB, hold(2, at=20), "end"),
        },
    ),
    (
        "lock-exclusion: each part has tokens of its own where that was asked for",
        "lock-exclusion",
        {
            "a": history("view 1 a", hold(1, "a", "part"), "end"),
            "b": history("view 1 b", hold(1, "b", "part"), "end"),
        },
    ),
    (
        "one-leader: one after the other",
        "one-leader",
        {
            "a": history(AB, leads("a", 1), hold(1, about="election"), release(1, about="election"), leads("b", 2), "end"),
            "b": history(AB, leads("a", 1), hold(2, about="election"), leads("b", 2), "end"),
        },
    ),
    (
        "one-leader: a part without a majority has none",
        "one-leader",
        {
            "a": history(AB, leads("a", 1), "view 2 a", leads(None, 1, confirmed=False, primary=False), "end"),
        },
    ),
    (
        "one-leader: what is not confirmed does not count",
        "one-leader",
        {
            "a": history(AB, leads("a", 1, confirmed=False), leads("b", 1), "end"),
            "b": history(AB, leads("b", 1), "end"),
        },
    ),
]

NOTHING: list[tuple[str, str, Mapping[str, str]]] = [
    (
        "replica-agreement: notes about no block",
        "replica-agreement",
        {
            "a": history(AB, 'note detail={"note":"x","event":"apply"}', "end"),
        },
    ),
    ("counter-sum: rows of another block", "counter-sum", {"a": history(_SENDS, "end")}),
    ("dictionary-merge: nothing came together", "dictionary-merge", {"a": history(AB, apply("a/1", "1", "dictionary"), "end")}),
    ("dictionary-merge: only the program knows", "dictionary-merge", _dictionary(policy="function", digests=["1", "2"])),
    ("lock-exclusion: nobody holds it", "lock-exclusion", {"a": history(AB, apply("a/1", "1", "lock"), "end")}),
    ("one-leader: a lock is no election", "one-leader", {"a": history(AB, hold(1), "end")}),
]
