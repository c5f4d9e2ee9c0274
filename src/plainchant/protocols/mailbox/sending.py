"""Send: a message is written into every copy, then every copy's availability flag is set (Fig. 1).

A process sends one message at a time, and into a slot of its own that is free in every copy: so a mailbox never overflows, and
who finds no free slot waits before it takes anything from its application.

**Late.** A process that was not fast enough finds its message rejected. It sends the message again with a timestamp that lies
ahead: it has so much more time, and receivers can say that they have seen the message before their time comes. The lead doubles
each time, and is halved when a message is accepted; a process that is as fast as its bounds say has none. There is a longest
lead. Whose clock is further behind than that would send again for ever, so a sender that was rejected with it many times halts.

A copy may have a place for the message before it comes: a receiver that is early has left its vote there (second protocol). The
sender fills it and leaves the votes as they are. If everybody has done with it already, the message was rejected for being late.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from ...core.memory import FAILED, Copy, Entry, Request, Until
from ...core.model import SECOND, Batch
from .box import Box, Key, changed, find, receivers

LONGEST_LEAD: Final = 1 * SECOND
# How often in succession a message with the longest lead is rejected before its sender gives up: it is not late by chance, its
# clock is behind by more than that.
HOPELESS: Final = 30


class Outgoing:
    """A message that this process sends, until it knows how that ended."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.key: Key = (0, 0)
        self.slot = self.attempts = 0
        self.hopeless = 0  # how often it was rejected although it had the longest lead


class Sender:
    """Writes messages into this process's slots."""

    def __init__(self, box: Box, *, tells_dead: bool = False) -> None:
        self.box = box
        self.tells_dead = tells_dead  # only the sender finds out which copies are dead: this process does not look for messages
        self.last = 0  # the timestamp of the last message
        self.lead = 0  # how far timestamps lie ahead of the clock
        self._slot = 0
        self._next_is_free = False  # whether the last Send has found the next slot free in every copy

    def wait_for_slot(self) -> Generator[Request, Any, bool]:
        """Waits until the next slot is free in every copy; whether there is a copy at all."""
        box = self.box
        if self._next_is_free:
            return True
        copy = 0
        alive = blocked = False
        while copy < box.copies:
            free = yield box.look(copy, self._is_free)
            if free is False:
                if not blocked:
                    text = f"all {box.layout.slots} slots of {box.host.me} hold messages that not everybody has read"
                    box.host.record("block", box.group, reason="slots", text=text)
                blocked = True
                yield Until(box.times.instant(box.clock + 1))
                continue
            alive = alive or free is not FAILED
            copy += 1
        if blocked:
            box.host.record("unblock", box.group)
        return alive

    def _is_free(self, copy: Copy) -> bool:
        """Whether the next slot is free in this copy."""
        slot = self.box.place * self.box.layout.slots + self._slot
        entry = copy.entry(slot)
        if entry is None or entry.removed:
            return True
        if not self.box.is_over(entry) and not self._is_abandoned(entry):
            return False
        copy.put(slot, changed(entry, removed=True))
        return True

    def _is_abandoned(self, entry: Entry) -> bool:
        """Whether the process that had this place before has left something there that no receiver looks at. (It was late and
        wrote into one copy what had been rejected in another, and crashed before it could withdraw that: first protocol.)"""
        times, patience = self.box.times, self.box.parameters.patience
        return bool(patience) and entry.sender != self.box.host.me and self.box.clock >= entry.stamp + times.slot_free

    def stamp(self) -> int:
        """The timestamp of a message that is sent now."""
        period = self.box.parameters.schedule
        stamp = max(self.box.clock + self.lead, self.last + 1)
        return stamp + -stamp % period if period else stamp

    def was_late(self) -> None:
        """A message was rejected: the next has more time."""
        self.lead = min(max(2 * self.lead, self.box.times.deliver), LONGEST_LEAD)

    def was_punctual(self) -> None:
        """A message was accepted: the next may do with less time."""
        self.lead = self.lead // 2 if self.lead > self.box.times.deliver else 0

    def send(self, outgoing: Outgoing, stamp: int) -> Generator[Request, Any, bool]:
        """The procedure of the seed: 3.3.1. Whether there is a copy at all."""
        box = self.box
        batch = outgoing.batch
        self.last = stamp
        key = outgoing.key = (stamp, box.place)
        slot = outgoing.slot = box.place * box.layout.slots + self._slot
        outgoing.attempts += 1
        self._slot = (self._slot + 1) % box.layout.slots

        def insert(copy: Copy) -> None:
            there = find(copy, slot, key)
            latest = copy.entry(slot)
            if (there is not None and there.removed) or (latest is not None and latest.stamp > stamp):
                return  # it was rejected here; or this Send is so late that a later one has used the slot
            copy.fill(slot, batch.body)
            if there is None:
                there = Entry(stamp, box.place, box.host.me, listed=receivers(copy, stamp))
            sizes = {"offset": batch.offset, "total": batch.total, "size": len(batch.body)}
            copy.put(slot, changed(there, first=batch.first, count=batch.count, **sizes, filled=True))

        def make_available(copy: Copy) -> bool:
            there = find(copy, slot, key)
            if there is not None and not there.removed:
                copy.put(slot, changed(there, available=True))
            return self._is_free(copy)

        for copy in range(box.copies):
            failed = (yield box.write(copy, insert, len(batch.body))) is FAILED
            if failed and copy == box.first and self.tells_dead:
                box.first += 1
        alive = is_free = False
        for copy in range(box.copies):
            free = yield box.flag(copy, make_available)
            if free is not FAILED:
                is_free = free and (is_free or not alive)
                alive = True
        self._next_is_free = is_free
        return alive

    def withdraw(self, outgoing: Outgoing) -> Generator[Request, Any, bool]:
        """Removes a message that was rejected from every copy (first protocol): no receiver looks for it where it was written
        late. False: others have accepted it. (To its sender it came too late to be decided on.) Then it stays."""

        def remove(copy: Copy) -> bool:
            there = find(copy, outgoing.slot, outgoing.key)
            if there is None:
                return True
            if there.decision and not there.removed:
                return False
            copy.put(outgoing.slot, changed(there, decision=False, done=there.listed, removed=True))
            return True

        for copy in range(self.box.copies):
            if (yield self.box.flag(copy, remove)) is False:
                return False
        return True

    def outcome(self, outgoing: Outgoing) -> Generator[Request, Any, bool]:
        """How a message ended that this process does not receive itself: the decision in the last copy that is alive."""
        box = self.box
        verdict = True

        def ended(copy: Copy) -> bool | None:
            there = find(copy, outgoing.slot, outgoing.key)
            if there is None:
                return False
            return True if there.decision is None and not there.listed & ~there.done else there.decision

        yield Until(box.clock + box.times.slot)
        copy = 0
        while copy < box.copies:
            decision = yield box.look(copy, ended)
            if decision is None:
                yield Until(box.times.instant(box.clock + 1))
                continue
            if decision is not FAILED:
                verdict = decision
            copy += 1
        return verdict
