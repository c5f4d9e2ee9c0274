"""Messages with deadlines that wait at one simulated process, stream by stream.

A stream is *asked for* before its messages may be taken. A periodic one's messages are handed over when it was admitted, one a
period at the most: one that comes earlier arrives when the period is over. The single message of an aperiodic one is handed over
with the question, and its stream is over when it is taken.
"""

from __future__ import annotations

from collections import deque

from ..core.model import Due, Stream


class Waiting:
    """The messages of one stream that the protocol has not taken."""

    __slots__ = ("admitted", "coming", "last", "messages", "released", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.messages: deque[Due] = deque()
        self.coming = 0
        """Messages that were handed over before their period had begun."""
        self.admitted = False
        self.released = False
        """Whether it is over when its last message is taken."""
        self.last: int | None = None
        """When its latest message arrived, or will."""

    @property
    def is_aperiodic(self) -> bool:
        return not self.stream.period

    @property
    def unsent(self) -> int:
        return len(self.messages) + self.coming

    @property
    def is_over(self) -> bool:
        """Whether nothing is in it any more and nothing comes."""
        return not self.unsent and (self.is_aperiodic or self.released)

    def arrival(self, now: int) -> int:
        """When a message that is handed over now arrives."""
        if self.last is not None and not self.is_aperiodic:
            now = max(now, self.last + self.stream.period)
        self.last = now
        return now

    def add(self, payload: bytes, arrived: int) -> None:
        self.messages.append(Due(payload, arrived, arrived + self.stream.deadline))


class Streams:
    """All streams of a process, by group and name, and how many were asked for, admitted and rejected."""

    __slots__ = ("_by_group", "admitted", "asked", "named", "rejected")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, Waiting]] = {}
        self.asked = 0
        self.admitted = 0
        self.rejected = 0
        self.named = 0
        """Streams of single messages that got a name of their own."""

    def find(self, group: str, name: str) -> Waiting | None:
        streams = self._by_group.get(group)
        return streams.get(name) if streams is not None else None

    def open(self, group: str, stream: Stream) -> Waiting:
        waiting = self._by_group.setdefault(group, {})[stream.name] = Waiting(stream)
        self.asked += 1
        return waiting

    def remove(self, group: str, name: str) -> Waiting | None:
        return self._by_group.get(group, {}).pop(name, None)

    def remove_all(self, group: str) -> int:
        """Forgets the streams of a group; says how many messages were in them."""
        return sum(waiting.unsent for waiting in self._by_group.pop(group, {}).values())

    def clear(self) -> None:
        self._by_group.clear()

    def has_messages(self, group: str) -> bool:
        """Whether there is something that may be taken."""
        return any(waiting.admitted and waiting.messages for waiting in self._by_group.get(group, {}).values())

    def why_waiting(self) -> tuple[str, int] | None:
        """What somebody still waits for, and how many messages wait with it."""
        for group, streams in self._by_group.items():
            for name, waiting in streams.items():
                count = waiting.unsent
                if not waiting.admitted:
                    return f"the protocol has not said whether it admits stream {name} in group {group}", count
                if count:
                    return f"{count} messages of stream {name} wait in group {group} and the protocol does not take them", count
        return None
