"""The decision of the second protocol, which tolerates timing failures too (3.4.2): a majority decides.

A copy is used in three atomic steps, at fixed times of its slot (see ``times``): *join in* (a decision from an earlier copy is
written into D; else a receiver that sees the message before it expires says so: nxp), *vote* (a receiver that finds the a-flag
set, and a majority that saw the message in time, sets LD, as long as there is no quorum; each counts itself: nrd), *settle* (with
a quorum D becomes LD, and D is the decision). D is set once in a copy and then followed by all, at any time: that is consensus.

A receiver with a decision writes it into the next copies without waiting. A message that is absent from a copy is decided on
there all the same, in a place that its sender finds if it comes after all; else two receivers that come before and after it would
wait for different quorums. For processes that are gone ``membership.collect`` has voted. A receiver without a decision flag in a
copy only *listens* there (A.1.2): it changes nothing, and waits for the decision of the others. A process that joins may have a
flag in one copy and none in another."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from ...core.memory import FAILED, Copy, Entry, Request, Until
from .box import Box, changed, find, majority, receivers
from .message import Message


def decide(box: Box, batch: list[Message], begin: int, start: int) -> Generator[Request, Any, None]:
    """Decides on messages together; the slot of copy i begins at ``begin`` and i slots, by this process's clock."""
    times = box.times
    for copy in range(start, box.copies):
        for message in batch:
            message.follow(copy - 1)
        if _waits_for_slot(batch):
            yield Until(begin + copy * times.slot)
        slot = max(begin + copy * times.slot, box.clock)
        open_ = yield box.decide(copy, partial(_join_in, box, batch))
        if open_ is FAILED or not open_:
            continue
        yield Until(_vote_at(box, slot))
        if (yield from _vote(box, copy, open_)) is FAILED:
            continue
        yield from _wait_to_settle(box, slot)
        while open_:
            open_ = yield from _settle_in(box, copy, open_)
            if open_ is FAILED:
                break
            if open_:
                yield Until(box.clock + box.parameters.decide)
    for message in batch:
        message.follow(box.copies - 1)


def _waits_for_slot(batch: list[Message]) -> bool:
    """Whether a message has no decision yet; decisions of an earlier copy are written into the next without waiting."""
    return any(message.verdict is None for message in batch)


def _vote_at(box: Box, slot: int) -> int:
    """When this process votes in the slot that began then: all have seen the message by then, if they see it in time."""
    return slot + box.times.vote


def _wait_to_settle(box: Box, slot: int) -> Generator[Request, Any, None]:
    yield Until(slot + box.times.settle)


def _join_in(box: Box, batch: list[Message], copy: Copy) -> list[Message]:
    """Lines 12 to 20; those for which this copy has no decision yet."""
    undecided = []
    for message in batch:
        entry = _entry(box, message, copy)
        if entry is None:
            continue
        if entry.removed:
            message.verdict = message.verdict if entry.decision is None else entry.decision
            continue
        if not entry.listed & box.mask:
            if entry.decision is not None:
                message.verdict = entry.decision
            elif entry.listed & ~entry.done:
                undecided.append(message)
            continue
        decision = _decision_for(entry, message)
        if decision is not None:
            message.verdict = decision
            copy.put(message.slot, changed(entry, decision=decision, voted=entry.voted | box.mask))
            continue
        if box.host.clock() < message.stamp + box.times.expiry:
            entry = changed(entry, seen=entry.seen | box.mask)
        copy.put(message.slot, entry)
        undecided.append(message)
    return undecided


def _decision_for(entry: Entry, message: Message) -> bool | None:
    """What D of a copy is to be: what it is, or the decision that was made in an earlier copy."""
    return message.verdict if entry.decision is None else entry.decision


def _entry(box: Box, message: Message, copy: Copy) -> Entry | None:
    """The message's entry in a copy, or an empty one: a message that is absent from a copy is decided on there all the same.
    None: the slot has another message, so all have done with this one."""
    entry = copy.entry(message.slot)
    if entry is not None and (entry.stamp, entry.place) == message.key:
        return entry
    if entry is not None and (not entry.removed or entry.stamp > message.stamp):
        return None
    listed = receivers(copy, message.stamp)
    return Entry(message.stamp, message.entry.place, message.entry.sender, listed=listed | box.mask)


def _vote(box: Box, copy: int, batch: list[Message]) -> Generator[Request, Any, Any]:
    """Lines 22 to 28: LD and nrd are tested and changed in one step."""
    return (yield box.decide(copy, partial(_count_in, box, batch)))


def _count_in(box: Box, batch: list[Message], copy: Copy) -> None:
    _change(_would_change(box, batch, copy), copy)
    _only_count(box, batch, copy)


def _would_change(box: Box, batch: list[Message], copy: Copy) -> list[Message]:
    """Those for which LD is to be set."""
    setting = []
    for message in batch:
        entry = find(copy, message.slot, message.key)
        if entry is not None and entry.listed & box.mask and entry.available and not entry.local:
            quorum = majority(entry.listed)
            if entry.seen.bit_count() >= quorum > entry.voted.bit_count():
                setting.append(message)
    return setting


def _change(batch: list[Message], copy: Copy) -> None:
    for message in batch:
        entry = find(copy, message.slot, message.key)
        if entry is not None and not entry.removed:
            copy.put(message.slot, changed(entry, local=True))


def _only_count(box: Box, batch: list[Message], copy: Copy) -> None:
    for message in batch:
        entry = find(copy, message.slot, message.key)
        if entry is not None and entry.listed & box.mask and not entry.removed:
            copy.put(message.slot, changed(entry, voted=entry.voted | box.mask))


def _settle_in(box: Box, copy: int, batch: list[Message]) -> Generator[Request, Any, Any]:
    """Lines 29 to 34, in one step; those that have no quorum yet."""
    return (yield box.decide(copy, partial(_settle, box, batch)))


def _settle(box: Box, batch: list[Message], copy: Copy) -> list[Message]:
    setting, without = _would_settle(box, batch, copy)
    _set_decision(box, setting, copy)
    return without


def _would_settle(box: Box, batch: list[Message], copy: Copy) -> tuple[list[tuple[Message, bool]], list[Message]]:
    """Those that have a decision or a quorum for one, each with whether it has none yet; and those that have no quorum."""
    setting, without = [], []
    for message in batch:
        entry = find(copy, message.slot, message.key)
        if entry is None:
            continue
        if entry.decision is not None:
            setting.append((message, False))
        elif not entry.listed & box.mask:
            if entry.listed & ~entry.done:
                without.append(message)
        elif entry.voted.bit_count() >= majority(entry.listed):
            setting.append((message, True))
        else:
            without.append(message)
    return setting, without


def _set_decision(box: Box, batch: list[tuple[Message, bool]], copy: Copy) -> None:
    for message, is_open in batch:
        entry = find(copy, message.slot, message.key)
        if entry is None:
            continue
        if is_open:
            entry = changed(entry, decision=entry.local)
            copy.put(message.slot, entry)
        message.verdict = _verdict_of(entry)


def _verdict_of(entry: Entry) -> bool | None:
    """What is decided in a copy: D, not LD, which others may still change."""
    return entry.decision
