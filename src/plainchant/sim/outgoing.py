"""What the application of a simulated process hands over to be sent: messages, and messages of streams with deadlines.

This stands above the host: it puts messages into the queues of the process and offers them to the engine. Callbacks, workloads
and programs all send by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..core.model import Admit, Stream, UsageError
from ..core.queues import Waiting
from .host import SimHost


@dataclasses.dataclass(slots=True)
class Outgoing:
    """The way out of one process."""

    _host: SimHost

    def accept(self, group: str, payloads: Sequence[bytes]) -> bool:
        """Takes messages of the application into the queue; False if this process can send no more."""
        if not self._can_send(group):
            return False
        self.check_size(max(map(len, payloads), default=0))
        queue = self._host.queue_of(group)
        was_empty = not queue.items
        queue.items.extend(payloads)
        self._host.note_accepted(group, payloads)
        if was_empty and queue.items:
            self._host.offer(group)
        return True

    def check_size(self, size: int) -> None:
        """Refuses a message that a process that only sends cannot send: it does not see when a fragment has arrived."""
        host = self._host
        if size > host.max_packet and host.only_sends:
            problem = f"{host.me} only sends, so its messages have at most {host.max_packet} bytes, not {size}"
            raise UsageError(f"{problem}: send less, give the protocol more room, or let it receive as well")

    def _can_send(self, group: str) -> bool:
        return self._host.alive and group in self._host.entered and group not in self._host.leaving

    def ask(self, group: str, stream: Stream, payload: bytes | None = None) -> bool:
        """Asks the protocol to guarantee a stream's deadlines; an aperiodic stream comes with its message, whose time runs from
        now on. False if this process can send no more."""
        if not self._can_send(group):
            return False
        if self._host.streams.find(group, stream.name) is not None:
            raise UsageError(f"{self._host.me} has a stream {stream.name!r} in {group!r}; release it first, or take another name")
        waiting = self._host.streams.open(group, stream)
        if payload is not None:
            waiting.add(payload, waiting.arrival(self._host.kernel.now))
            self._host.note_accepted(group, [payload])
        self._host.call_engine(self._host.engine.notice, Admit(group, stream))
        return True

    def new_stream_name(self) -> str:
        """A name for the stream of a single message."""
        self._host.streams.named += 1
        return f"~{self._host.streams.named}"

    def check_stream(self, group: str, stream: str, size: int) -> None:
        """Refuses what cannot be sent in a stream."""
        me = self._host.me
        waiting = self._host.streams.find_admitted(group, stream)
        if waiting is None or waiting.released:
            raise UsageError(f"{me} has no stream {stream!r} in {group!r} now: ask for it, and send when it is admitted")
        if size > waiting.stream.size:
            problem = f"{me} sends {size} bytes in stream {stream!r}, whose messages have at most {waiting.stream.size}"
            raise UsageError(f"{problem}; send less, or ask for a stream of that size")

    def accept_in(self, group: str, stream: str, payload: bytes) -> bool:
        """Takes a message of a periodic stream that was admitted; False if this process can send no more there."""
        waiting = self._host.streams.find_admitted(group, stream)
        if not self._can_send(group) or waiting is None or waiting.released:
            return False
        kernel, message = self._host.kernel, (group, stream, waiting, payload)
        arrival = waiting.arrival(kernel.now)
        waiting.coming += 1
        if arrival > kernel.now:
            kernel.at(arrival, self._arrive, message)
        else:
            self._arrive(message)
        return True

    def _arrive(self, message: tuple[str, str, Waiting, bytes]) -> None:
        group, stream, waiting, payload = message
        if not self._host.alive or self._host.streams.find(group, stream) is not waiting:
            return
        was_empty = not waiting.messages
        waiting.coming -= 1
        waiting.add(payload, self._host.kernel.now)
        self._host.note_accepted(group, [payload])
        if was_empty:
            self._host.offer(group)
