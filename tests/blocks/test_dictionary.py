"""The replicated dictionary: what can be done with it, and merge policies."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from plainchant import Group, UsageError, View, sim
from plainchant.blocks import CommandRefused, Dictionary, Part, Replica
from plainchant.blocks.block import Command
from plainchant.group import Message

APART = {"kind": "partition", "at": "300ms", "length": "2s", "parts": [["p1", "p2"], ["p3", "p4", "p5"]]}
TOGETHER = View("g", 9, ("a", "b", "c"), parts=(("a",), ("b", "c")))


def told(book: Dictionary, body: list[Any], sender: str = "a") -> Any:
    return book.apply(Command(body, sender, 1, Message(sender, b"", 1, "g")))


def book_of(*bodies: list[Any], sender: str = "a", **options: Any) -> Dictionary:
    book = Dictionary(**options)
    for body in bodies:
        told(book, body, sender)
    return book


def merged(*books: Dictionary, into: Dictionary | None = None) -> Dictionary:
    book = into if into is not None else Dictionary()
    members: Sequence[tuple[str, ...]] = (("a",), ("b", "c"))
    book.merge([Part(who, each.snapshot()) for who, each in zip(members, books, strict=True)], TOGETHER)
    return book


def put(**entries: Any) -> list[Any]:
    return ["update", entries, []]


def test_it_is_read_like_a_mapping_and_changed_by_commands() -> None:
    async def main(group: Group) -> Any:
        book = Dictionary()
        async with Replica(group, book=book) as replica:
            if group.me == "p1":
                await book.update({"a": 1, "b": [1, {"x": b"bytes"}]}, deleted=["nothing"])
                await book.set("c", None)
                assert await book.delete("a")
                assert not await book.delete("a")
                with pytest.raises(CommandRefused, match="look again"):
                    await book.compare_and_set("b", 7, 8)
                await book.compare_and_set("d", None, 8)
            await replica.until(lambda: "d" in book)
            assert (len(book), list(book), book.get("a", "gone"), await book.read("d")) == (3, ["b", "c", "d"], "gone", 8)
            return book.copy()

    result = sim.run(main, members=2, state=True)
    assert result.verdict == "holds"
    assert list(result.returned.values()) == 2 * [{"b": [1, {"x": b"bytes"}], "c": None, "d": 8}]


def test_a_copy_is_a_copy() -> None:
    book = book_of(put(a=[1]))
    copy = book.copy()
    copy["a"].append(2)
    assert book["a"] == [1]


def test_the_digest_is_that_of_the_entries_whatever_led_there() -> None:
    one = book_of(put(a=1), put(b=2), ["delete", "a"])
    again = Dictionary()
    again.restore(one.snapshot())
    assert one.digest() == again.digest() != book_of(put(b=2)).digest()
    assert Dictionary().digest() == book_of(put(a=1), ["delete", "a"]).digest()


@pytest.mark.parametrize("wrong", [
    lambda: Dictionary(merge="mine"), lambda: Dictionary(tombstones=-1),
    lambda: asyncio.run(Dictionary().set(3, "x")),  # type: ignore[arg-type]
    lambda: asyncio.run(Dictionary().set("x", object())),
])  # fmt: skip
def test_what_cannot_be_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError):
        wrong()


# --- merge policies -----------------------------------------------------------------------------------------------------


def test_the_last_writer_wins_key_by_key() -> None:
    first = book_of(put(k="old"), put(l="old"), put(l="new"))
    second = book_of(put(k="old"), put(k="new"), sender="c")
    both = merged(first, second)
    assert both.copy() == {"k": "new", "l": "new"}
    told(both, put(k="after"))
    assert merged(both, second)["k"] == "after"


def test_of_equal_stamps_the_larger_name_wins() -> None:
    assert merged(book_of(put(k=1), sender="b"), book_of(put(k=2), sender="a"))["k"] == 1


def test_a_deletion_is_a_write() -> None:
    first, second = book_of(put(k=1), ["delete", "k"]), book_of(put(k=1))
    assert "k" not in merged(first, second)
    assert "k" in merged(book_of(put(k=1), ["delete", "k"], tombstones=0), second)


def test_the_larger_part_wins_as_a_whole() -> None:
    book = merged(book_of(put(a=1), put(b=2)), book_of(put(c=3)), into=Dictionary(merge="larger-part"))
    assert book.copy() == {"c": 3}


def test_a_function_says_what_becomes_of_the_parts() -> None:
    def both(parts: Sequence[Any]) -> dict[str, Any]:
        return {key: [part.get(key) for part in parts] for part in parts for key in part}

    book = merged(book_of(put(a=1)), book_of(put(a=2, b=3)), into=Dictionary(merge=both))
    assert book.copy() == {"a": [1, 2], "b": [None, 3]}


@pytest.mark.parametrize("policy", ["last-writer", "larger-part"])
def test_parts_of_a_group_come_to_one_dictionary(policy: str) -> None:
    async def main(group: Group) -> Any:
        book = Dictionary(merge=policy)
        async with Replica(group, book=book) as replica:
            await asyncio.sleep(1.0)
            await book.set(group.me, "apart")
            await book.set("shared", group.me)
            await replica.until(lambda: len(group.members) == 5 and not replica.is_merging)
            await replica.catch_up()
            return book.copy()

    result = sim.run(main, members=5, protocol="newtop", state=True, faults=[APART])
    assert result.verdict == "holds"
    books = list(result.returned.values())
    assert all(book == books[0] for book in books)
    assert set(books[0]) == {"shared", *(("p3", "p4", "p5") if policy == "larger-part" else ("p1", "p2", "p3", "p4", "p5"))}
