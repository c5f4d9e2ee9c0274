"""Messages of a process that wait until its protocol takes them: one queue for each group, and one for each stream.

A :class:`Queue` holds messages without deadlines. Taking a batch from it costs a few calls that run in C, whatever the number of
messages.

A *stream* (:class:`~.model.Stream`) holds messages with deadlines. The application asks for it first; its messages can be taken
once the protocol has admitted it. A periodic stream carries at most one message per period: a message that comes earlier arrives
when the period has passed. An aperiodic stream has a single message, which comes with the request, and ends when it is taken.

This module imports ``model`` and nothing else of ours.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from .model import PACK_OVERHEAD, Due, GroupId, Nanoseconds, Reason, Stream

_COMPACT: Final = 4096  # a queue frees the slots of taken messages once there are this many of them


class Queue:
    """Messages without deadlines, in order: ``items[at:]``."""

    __slots__ = ("at", "guess", "items")

    def __init__(self, items: Iterable[bytes] = ()) -> None:
        self.items = [*items]
        self.at = 0
        self.guess = 64  # about how many messages the next batch takes

    def __len__(self) -> int:
        return len(self.items) - self.at

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.items[self.at :])

    def put_back(self, payloads: Sequence[bytes]) -> None:
        """Puts messages in front of those that wait."""
        self.items[self.at : self.at] = payloads

    def pop(self) -> bytes:
        """Takes the next message."""
        at = self.at
        payload = self.items[at]
        if at + 1 < len(self.items) and at < _COMPACT:
            self.at = at + 1
        else:
            self._drop(1)
        return payload

    def cut(self, max_bytes: int, most: int) -> list[bytes]:
        """Takes as many messages as fit, and at least one, however large."""
        items, at = self.items, self.at
        waiting = len(items) - at
        room = max_bytes - PACK_OVERHEAD
        guess = self.guess
        while True:
            part = items[at : at + guess]
            ends = list(accumulate(map(len, part)))
            fitting = bisect_right(range(len(part)), room, key=lambda index: ends[index] + PACK_OVERHEAD * (index + 1))
            if fitting < len(part) or len(part) == waiting:
                break
            guess *= 2
        if most:
            fitting = min(fitting, most)
        taken = part[: max(1, fitting)]
        self.guess = len(taken) + len(taken) // 8 + 8
        self._drop(len(taken))
        return taken

    def _drop(self, count: int) -> None:
        items, at = self.items, self.at + count
        if at == len(items):
            items.clear()
            at = 0
        elif at > _COMPACT and 2 * at > len(items):
            del items[:at]
            at = 0
        self.at = at


@dataclasses.dataclass(slots=True, eq=False)
class Waiting:
    """The messages of one stream that the protocol has not taken."""

    stream: Stream
    messages: deque[Due] = dataclasses.field(default_factory=deque)
    coming: int = 0  # messages that were handed over before their period had begun
    admitted: bool = False
    released: bool = False  # whether the stream ends with its last message
    last: Nanoseconds | None = None  # when its latest message arrived, or will arrive

    @property
    def unsent(self) -> int:
        return len(self.messages) + self.coming

    @property
    def is_over(self) -> bool:
        """Whether it is empty and no more messages come."""
        return not self.unsent and (self.released or not self.stream.period)

    def arrival(self, now: Nanoseconds) -> Nanoseconds:
        """When a message that is handed over now arrives: at once, or when the period of the one before is over."""
        if self.last is not None and self.stream.period:
            now = max(now, self.last + self.stream.period)
        self.last = now
        return now

    def add(self, payload: bytes, arrived: Nanoseconds) -> None:
        self.messages.append(Due(payload, arrived, arrived + self.stream.deadline))

    def cut(self, max_bytes: int, most: int) -> list[Due]:
        """Takes as many messages as fit, and at least one, however large."""
        messages = self.messages
        taken = [messages.popleft()]
        room = max_bytes - len(taken[0].payload) - 2 * PACK_OVERHEAD
        while messages and len(taken) != most:
            room -= len(messages[0].payload) + PACK_OVERHEAD
            if room < 0:
                break
            taken.append(messages.popleft())
        return taken


@dataclasses.dataclass(slots=True, eq=False)
class Streams:
    """All streams of a process, by group and name, with counts of those requested, admitted and rejected."""

    _by_group: dict[GroupId, dict[str, Waiting]] = dataclasses.field(default_factory=dict)
    asked: int = 0
    admitted: int = 0
    rejected: int = 0
    named: int = 0  # streams of a single message that were given a name

    def find(self, group: GroupId, name: str) -> Waiting | None:
        return self._by_group.get(group, {}).get(name)

    def find_admitted(self, group: GroupId, name: str) -> Waiting | None:
        waiting = self.find(group, name)
        return waiting if waiting is not None and waiting.admitted else None

    def open(self, group: GroupId, stream: Stream) -> Waiting:
        waiting = self._by_group.setdefault(group, {})[stream.name] = Waiting(stream)
        self.asked += 1
        return waiting

    def remove(self, group: GroupId, name: str) -> Waiting | None:
        return self._by_group.get(group, {}).pop(name, None)

    def remove_all(self, group: GroupId) -> int:
        """Forgets the streams of a group; returns the number of messages that were in them."""
        return sum(waiting.unsent for waiting in self._by_group.pop(group, {}).values())

    def clear(self) -> None:
        self._by_group.clear()

    def has_messages(self, group: GroupId) -> bool:
        """Whether a message may be taken."""
        return any(waiting.admitted and waiting.messages for waiting in self._by_group.get(group, {}).values())

    def why_waiting(self, only: GroupId | None = None) -> Reason | None:
        """What the streams, of one group or of all, still wait for."""
        for group, streams in self._by_group.items():
            for name, waiting in streams.items() if only in (None, group) else ():
                if not waiting.admitted:
                    return Reason("admission", f"the protocol has not said whether it admits stream {name} in group {group}")
                if count := waiting.unsent:
                    text = f"{count} messages of stream {name} wait in group {group} and the protocol does not take them"
                    return Reason("queue", text, {"messages": count, "stream": name})
        return None
