"""Receive: looking for messages, having them decided, reading them in the order of their timestamps, setting flags (Fig. 2).

**Looking.** A receiver looks at the queue of the first copy that it has not found dead, at *instants* of its own clock that are
the same for all (``Times.instant``). What is complete at an instant, or never will be, is decided together, beginning at that
instant: intact receivers begin the same messages at the same reading of their clocks. So decisions on many messages are under
way at once and a busy receiver is late for none.

**Order.** Messages wait in the order of their names (timestamp, place). The first is taken off when it is decided and a look that
began ``Times.settled`` after its timestamp has shown all that can come before it: the second look, since an earlier one may have
been inserted while this one waited. Changes of membership stand in the same order, at their timestamps.

**Reading** is separate from deciding: from the first copy that is alive, messages beside each other. Then decision flags are set,
with the second protocol when every receiver has had time to read, also those without a flag (A.1.2). An application without room
delays that, so that senders run out of slots; a receiver that leaves its flags unset for too long is excluded (``watching``)."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, cast

from ...core.memory import FAILED, Connection, Copy, Entry, Nap, Request, Until
from ...core.model import Batch, ProcessId, Reason, View, format_duration
from . import first, second
from .box import Box, Key, changed, find
from .message import Message
from .watching import Guard, is_excluded, why_excluded

Found = tuple[list[tuple[int, Entry]], list[tuple[int, Connection]]]


class Receiver:
    """Finds messages, decides on them and delivers them; ``decided`` is told what became of each."""

    def __init__(self, box: Box, decided: Callable[[Message], None], over: Callable[[], None]) -> None:
        self.box = box
        self.entry = self.exit = 0
        self._decided = decided
        self._over = over  # called when everything that this process has to read before its exit is read
        self.forms = False  # whether this process is among those who form the group, and begins when all are there
        self.started = self.stopped = False
        self.order: list[tuple[Key, Message]] = []
        self.known: dict[Key, Message] = {}
        self.instant = box.clock  # the last one at which this process has looked
        self.horizon = 0  # nothing up to this timestamp that was not seen yet will be accepted
        self.passed: Key = (0, 0)
        self.listed: dict[ProcessId, Connection] = {}  # all processes in the list of receivers, as it was last seen
        self.number = 0  # number of the last view: its timestamp, or one more than that of the view before
        self.places: dict[int, ProcessId] = {}
        self.members: dict[ProcessId, None] = {}
        self.changes: list[tuple[int, int, ProcessId]] = []  # entries (1) and exits (0) that are not in a view yet
        self.queue: deque[Message | View] = deque()
        self.reading = 0
        self.pressed = False
        self.unfinished: list[Message] = []  # those whose flags are to be set
        self.deciding = 0
        self.finishing = False
        self.guard = Guard(box, self._halt_excluded)

    def scan(self) -> Generator[Request, Any, None]:
        """Looks for messages until this process has left."""
        box, times = self.box, self.box.times
        while True:
            instant = self._next_instant()
            needed = self._needed()
            # A look that begins between two instants has to be over at the next.
            yield Until(needed) if 0 < needed <= instant - box.parameters.decide else Nap(instant, needed)
            if self._has_stopped():
                return
            began = box.clock
            reached = instant if began >= instant else None
            if reached is not None:
                self.instant = reached
            while (found := (yield box.look(box.first, self._look))) is FAILED:
                box.first += 1
                if box.first == box.copies:
                    box.give_up()
                    return
                if times.first:
                    yield Until(box.clock + box.parameters.decide + times.extra)
                    began = box.clock
                if self._has_stopped():
                    return
            self._looked(found, began, reached)

    def _has_stopped(self) -> bool:
        return self.stopped

    def _next_instant(self) -> int:
        """The instant after the last one; of several that have gone by the latest."""
        times = self.box.times
        return max(times.instant(self.instant + 1), times.instant(self.box.clock + 1 - times.period))

    def _look(self, copy: Copy) -> Found:
        box = self.box
        box.sweep(copy)
        entries = list(copy.entries())
        if not box.times.first:
            # Whose timestamp lies ahead was sent by somebody who is slow, to those who may be: it has been seen in time.
            now = box.host.clock()
            for slot, entry in entries:
                if entry.stamp > now and entry.listed & ~entry.seen & box.mask:
                    copy.put(slot, changed(entry, seen=entry.seen | box.mask))
        return entries, list(copy.connections())

    def _needed(self) -> int:
        """When there is something to do, as far as is known; 0: never."""
        times = self.box.times
        due = [
            message.stamp + times.settled if message.begun else times.instant(message.stamp + times.complete)
            for _, message in self.order
            if not message.begun or message.stamp > self.horizon
        ]
        stamps = [*(stamp for stamp, _, _ in self.changes[:1]), 0 if self.started else self.entry, self.exit]
        due += [stamp + times.settled for stamp in stamps if stamp > self.horizon]
        return max(min(due), self.box.clock + 1) if due else 0

    def _looked(self, found: Found, began: int, instant: int | None) -> None:
        """What a look has shown that began at ``began``; at an instant, decisions begin."""
        if self.stopped:
            return
        entries, connections = found
        if self.guard.judge(connections):
            return
        for slot, entry in entries:
            self._see(slot, entry)
        self._see_connections(connections)
        present = {(entry.stamp, entry.place) for _, entry in entries}
        for key in [key for key, message in self.known.items() if message.finished and key not in present]:
            del self.known[key]
        self._look_back(began, instant)
        self.advance()

    def _halt_excluded(self, own: Connection) -> None:
        """The others have excluded this process."""
        box = self.box
        self.stopped = True
        name, patience = box.host.me, format_duration(box.parameters.patience)
        text = f"{name} was excluded from {box.group}: it had not set its decision flags for {patience}"
        why = "its application does not read" if self.pressed else "it was stopped or too slow"
        box.host.halt(Reason("excluded", f"{text}, because {why}", {"reports": own.reports.bit_count()}))

    def _look_back(self, began: int, instant: int | None) -> None:
        """Up to the horizon this look has shown everything. Later messages wait: an earlier one may still be inserted."""
        self.horizon = max(self.horizon, began - self.box.times.settled)
        self._begin_due(began if instant is None else instant, instant)

    def _see(self, slot: int, entry: Entry) -> None:
        box = self.box
        key = (entry.stamp, entry.place)
        if key in self.known or entry.done & box.mask:
            return
        wanted = self.entry <= entry.stamp and not 0 < self.exit <= entry.stamp
        if not (entry.listed & box.mask or (wanted and self._listens())):
            return
        message = self.known[key] = Message(slot, entry, wanted=wanted)
        if key <= self.passed and box.times.first:
            # Only a sender with a timing failure can be so late; what the seed calls unread are later messages.
            message.begun = message.decided = True
            message.verdict = None
            text = "it came after later messages had been read"
            box.host.record("late", box.group, stamp=message.stamp, text=text, **message.name)
            self._finish([message])
            self._decided(message)
            return
        insort(self.order, (key, message), key=lambda item: item[0])

    def _listens(self) -> bool:
        """With the second protocol a receiver reads what was sent after its entry, also where it has no decision flag (A.1.2)."""
        return not self.box.times.first

    def _begin_due(self, now: int, instant: int | None) -> None:
        """Begins what is complete, or never will be. With the second protocol those that become so at an instant go together and
        wait for it; each that is later than that goes on its own, at once."""
        times = self.box.times
        due = now - times.complete
        fresh = [message for _, message in self.order if not message.begun and message.stamp <= due]
        if times.first:
            self._begin(fresh, now)
            return
        if instant is not None:
            self._begin([message for message in fresh if message.stamp > due - times.period], instant)
        for message in fresh:
            if message.stamp <= due - times.period:
                self._begin([message], now)

    def _begin(self, batch: list[Message], instant: int | None) -> None:
        """Has messages decided together: those of an instant, or one that is late."""
        box, times = self.box, self.box.times
        for message in batch:
            message.begun = True
            if instant is None:
                self._decide([message], times.instant(message.stamp + times.complete))
        if batch and instant is not None:
            self._decide(batch, box.clock if times.first else instant + box.parameters.decide)

    def _decide(self, batch: list[Message], begin: int) -> None:
        self.deciding += 1
        self.box.host.spawn("decide", self._decision(batch, begin, self.box.first))

    def _decision(self, batch: list[Message], begin: int, start: int) -> Generator[Request, Any, None]:
        box = self.box
        yield Until(begin)
        if box.times.first:
            yield from first.decide(box, batch, start)
        else:
            yield from second.decide(box, batch, begin, start)
        for message in batch:
            message.decided = True
            self._tell_decision(message, begin)
            self._decided(message)
        self.deciding -= 1
        self.advance()

    def _tell_decision(self, message: Message, begin: int) -> None:
        box, entry = self.box, message.entry
        took = {"took_ns": box.clock - begin, "after_ns": box.clock - entry.stamp}
        made = {"stamp": entry.stamp, "decision": int(bool(message.verdict)), "copy": message.copy}
        box.host.record("decide", box.group, **made, **message.name, **took)
        if message.verdict or not entry.count:
            return
        text = "its flag was not set" if box.times.first else "most receivers did not see it in time with its flag set"
        if box.parameters.rejected == "halt":
            for seq in range(entry.first, entry.first + entry.count):
                box.host.record("reject", box.group, sender=entry.sender, seq=seq, stamp=entry.stamp, text=text)
        else:
            # It is sent again, under the same numbers: nobody can say that it is never delivered.
            box.host.record("late", box.group, stamp=entry.stamp, count=entry.count, text=text, **message.name)

    def _see_connections(self, connections: list[tuple[int, Connection]]) -> None:
        for place, connection in connections:
            process = connection.process
            gone = self.places.get(place, process)
            self.places[place] = process
            if gone != process and gone in self.listed and not self.listed.pop(gone).exit:
                # Somebody else has its place already: it must have left before.
                insort(self.changes, ((connection.entry or self.horizon + 2) - 1, 0, gone))
            if not connection.entry:
                continue
            before = self.listed.get(process)
            if before == connection:
                continue
            self.listed[process] = connection
            if before is None and process not in self.members:
                insort(self.changes, (connection.entry, 1, process))
            elif before is not None and before.entry != connection.entry and (before.entry, 1, process) in self.changes:
                self.changes.remove((before.entry, 1, process))
                insort(self.changes, (connection.entry, 1, process))
            if connection.exit and before is not None and before.exit:
                if (before.exit, 0, process) in self.changes:
                    self.changes.remove((before.exit, 0, process))
                    insort(self.changes, (connection.exit, 0, process))
            elif connection.exit:
                insort(self.changes, (connection.exit, 0, process))

    def start(self, members: tuple[ProcessId, ...], stamp: int) -> None:
        """The group has been formed of these; what they send from now on is delivered."""
        self.members = dict.fromkeys(members)
        self.changes = [change for change in self.changes if change[0] > stamp or change[2] not in self.members]
        self.started = True
        self.queue.append(self._view(stamp, members))
        self.advance()

    def _view(self, stamp: int, joined: tuple[ProcessId, ...] = (), left: tuple[ProcessId, ...] = ()) -> View:
        box = self.box
        gone = {name: Reason("left", f"{name} is no longer a receiver of {box.group}") for name in left}
        gone |= {name: why_excluded(last) for name in left if (last := self.listed.get(name)) is not None and is_excluded(last)}
        self.number = number = max(self.number + 1, stamp - box.epoch)
        own = box.rank(self.entry) if box.host.me in joined else box.rank(stamp)
        return View(box.group, number, tuple(self.members), joined, gone, rank=own)

    def advance(self) -> None:
        """Takes off the front of the order what can be."""
        while self.started or self._may_start():
            change = self.changes[0] if self.changes and self.changes[0][0] <= self.horizon else None
            if change is not None and 0 < self.exit <= change[0]:
                change = None
            head = self.order[0][1] if self.order else None
            if change is not None and (head is None or change[0] <= head.stamp):
                self._change(change[0])
            elif head is not None and head.decided and head.stamp <= self.horizon:
                self.order.pop(0)
                self._take_off(head)
            else:
                break
        self._deliver()

    def _may_start(self) -> bool:
        """Whether this process, which joins a group that exists, has got to its entry."""
        if self.forms or not self.entry or self.horizon < self.entry:
            return False
        earlier = [name for stamp, kind, name in self.changes if kind and stamp <= self.entry]
        gone = [name for stamp, kind, name in self.changes if not kind and stamp <= self.entry]
        self.changes = [change for change in self.changes if change[0] > self.entry]
        self.members = dict.fromkeys(name for name in earlier if name not in gone)
        self.members[self.box.host.me] = None
        self.started = True
        self.queue.append(self._view(self.entry, (self.box.host.me,)))
        return True

    def _change(self, stamp: int) -> None:
        """Takes all changes of one timestamp into one view."""
        now = [change for change in self.changes if change[0] == stamp]
        del self.changes[: len(now)]
        joined = tuple(name for _, enters, name in now if enters and name not in self.members)
        left = tuple(name for _, enters, name in now if not enters and name in self.members and name != self.box.host.me)
        for name in left:
            del self.members[name]
        self.members.update(dict.fromkeys(joined))
        if joined or left:
            self.queue.append(self._view(stamp, joined, left))

    def _take_off(self, message: Message) -> None:
        if message.key > self.passed:
            self.passed = message.key
        elif message.verdict and message.wanted:
            # Everybody else has delivered it: this process's clock is ahead, and what it has delivered is not what they have.
            text = f"{self.box.host.me} had delivered later messages when one of {message.entry.sender} was accepted"
            self.box.host.halt(Reason("overtaken", f"{text}: its clock is ahead", {"stamp": message.stamp}))
            return
        if message.verdict and message.wanted:
            self.queue.append(message)
            self.reading += 1
            self.box.host.spawn("read", self._read(message))
        else:
            self._finish([message])

    def _is_at_end(self) -> bool:
        """Whether nothing is left to read before this process's exit."""
        is_past = bool(self.exit) and self.horizon >= self.exit and not self.stopped and not self.queue
        return is_past and not any(message.stamp < self.exit for _, message in self.order)

    def _deliver(self) -> None:
        """Delivers what has been read, in order, and shows views in their places."""
        box = self.box
        while self.queue:
            item = self.queue[0]
            if isinstance(item, View):
                box.host.install(item)
            elif not item.is_read:
                break
            else:
                if item.found is not None:
                    entry, data = item.found
                    batch = Batch(entry.first, entry.count, data, entry.offset, entry.total)
                    box.host.deliver(box.group, entry.sender, batch, box.rank(*item.key))
                    item.found = None
                self._finish([item])
            self.queue.popleft()
        if self._is_at_end():
            self.stopped = self.guard.stopped = True
            self._over()

    def _read(self, message: Message) -> Generator[Request, Any, None]:
        """Reads a message, from the first copy that is alive."""
        message.found = yield from self._fetch(message)
        message.is_read = True
        self.reading -= 1
        self._deliver()

    def _fetch(self, message: Message) -> Generator[Request, Any, tuple[Entry, bytes] | None]:
        def fetch(copy: Copy) -> tuple[Entry, bytes] | None:
            entry = find(copy, message.slot, message.key)
            there = entry is not None and entry.filled and not entry.removed
            return (entry, copy.data(message.slot)) if entry is not None and there else None

        for copy in range(self.box.first, self.box.copies):
            found = yield self.box.read(copy, fetch, message.entry.size)
            if found is not FAILED and found is not None:
                return cast("tuple[Entry, bytes]", found)
        text = f"a message of {message.entry.sender} was accepted, but {self.box.host.me} was too late to read it"
        self.box.host.halt(Reason("missed", text, {"stamp": message.stamp}))
        return None

    def _finish(self, batch: list[Message]) -> None:
        self.unfinished += batch
        if self.unfinished and not self.finishing and not self.pressed:
            self.finishing = True
            self.box.host.spawn("finish", self._set_all_flags())

    def press(self, full: bool) -> None:
        """The application has no room for more, or has room again."""
        self.pressed = full
        self._finish([])

    def _set_all_flags(self) -> Generator[Request, Any, None]:
        """Sets this process's decision flags, as soon as it may: those of many messages together."""
        kept = self.box.times.kept
        while self.unfinished and not self.pressed:
            times = [message.stamp + kept if kept else 0 for message in self.unfinished]
            yield Until(min(times))
            batch = [message for message, time in zip(self.unfinished, times, strict=False) if time <= self.box.clock]
            done = {message.key for message in batch}
            self.unfinished = [message for message in self.unfinished if message.key not in done]
            yield from self._set_flags(batch)
            for message in batch:
                message.finished = True
        self.finishing = False

    def _set_flags(self, batch: list[Message]) -> Generator[Request, Any, None]:
        """Sets this process's decision flags. The process that sets the last one removes the message in the same step."""
        box = self.box

        def set_flags(copy: Copy) -> None:
            for message in batch:
                entry = find(copy, message.slot, message.key)
                if entry is not None and not entry.removed:
                    entry = changed(entry, done=entry.done | box.mask)
                    copy.put(message.slot, entry)
                elif entry is None and not message.verdict:
                    self._bar(copy, message)
            box.sweep(copy)

        for copy in range(box.copies):
            yield box.finish(copy, set_flags)

    def _bar(self, copy: Copy, message: Message) -> None:
        """Part of a step: a message that was rejected, or came too late to be decided on, is not in this copy. If its sender
        comes late, it must not write it: those that have done with it here would never set a flag."""
        there = copy.entry(message.slot)
        if self.box.times.first and (there is None or (there.removed and there.stamp < message.stamp)):
            barred = Entry(message.stamp, message.entry.place, message.entry.sender, decision=False, removed=True)
            copy.put(message.slot, barred)

    @property
    def is_idle(self) -> bool:
        """Whether no procedure of its is under way, but for one that looks."""
        return not (self.deciding or self.reading or self.finishing or self.guard.looking)

    def waiting(self) -> Reason | None:
        if self.order:
            text = f"{len(self.order)} messages in {self.box.group} are not decided, or may not be delivered yet"
            return Reason("undecided", text, {"messages": len(self.order)})
        if self.queue or self.reading or self.finishing or self.changes:
            return Reason("unread", f"{self.box.host.me} is reading in {self.box.group}")
        return None
