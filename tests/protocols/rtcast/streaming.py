"""A host with streams, and a ring that takes when it is told to: what admission control stands between."""

from __future__ import annotations

from collections import deque
from typing import Any, cast

from plainchant.core.engine import Engine, Host
from plainchant.core.model import Admit, Batch, Due, Duration, GroupId, Reason, Release, Stream, View
from plainchant.protocols.rtcast.admission import Admission
from plainchant.protocols.rtcast.advisor import Advisor
from plainchant.protocols.rtcast.parameters import Parameters
from tests.fakes import FakeHost

GROUP = "g"


class StreamingHost(FakeHost):
    """Messages with a stream wait under its name; they can be seen when the stream was admitted."""

    def __init__(self, me: str = "p1", max_packet: int = 200) -> None:
        super().__init__(me, max_packet)
        self.streams: dict[str, deque[Due]] = {}
        self.is_admitted: set[str] = set()
        self.rejections: dict[str, Reason] = {}
        self.numbered = 0

    def take(self, group: GroupId, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
        queue = self.streams.get(stream, deque())
        if not stream:
            queue = deque(Due(payload, 0) for payload in self._queues.get(group, ()))
        if not queue:
            return None
        self.numbered += 1
        if stream:
            return Batch(self.numbered, 1, queue.popleft().payload)
        return Batch(self.numbered, 1, self._queues[group].popleft())

    def peek(self, group: GroupId, stream: str = "") -> Due | None:
        if stream:
            queue = self.streams.get(stream)
            return queue[0] if queue and stream in self.is_admitted else None
        waiting = self._queues.get(group)
        return Due(waiting[0], 0) if waiting else None

    def admitted(self, group: GroupId, stream: str) -> None:
        self.is_admitted.add(stream)

    def rejected(self, group: GroupId, stream: str, reason: Reason) -> None:
        self.rejections[stream] = reason
        self.streams.pop(stream, None)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        return [detail for name, _, detail in self.called("record") if name == kind]


class Ring(Engine):
    """Keeps its host and its advisor for the test to call."""

    def __init__(self, host: Host, advisor: Advisor) -> None:
        self.host = host
        self.advisor = advisor
        self.told: list[Any] = []

    def ready(self, group: GroupId) -> None:
        self.told.append("ready")

    def notice(self, event: Any) -> None:
        self.told.append(event)


class Bench:
    """A host, admission control, and the ring inside it. A byte takes a nanosecond, a header 20; T has ``room`` for messages."""

    def __init__(self, *, room: int = 300, rotation: int = 10_000, retransmissions: int = 0, max_packet: int = 200) -> None:
        self.rotation = rotation
        self.host = StreamingHost(max_packet=max_packet)
        reserved = (512 + 20) + (192 + 20) + 20 + (512 + 20) + (max_packet + 20 if retransmissions else 0)
        parameters = Parameters(
            bandwidth=8_000_000_000,
            header=20,
            idle_hold=Duration(0),
            heartbeats=1,
            retransmissions=retransmissions,
            hold=Duration(reserved + room),
        )
        self.reserved = reserved
        self.room = room
        self.layer = Admission(cast(Host, self.host), Ring, GROUP, parameters)
        self.ring = cast(Ring, self.layer.inner)

    def start(self) -> Bench:
        """The group begins."""
        self.layer.rotation(self.rotation)
        self.ring.host.install(View(GROUP, 1, ("p1", "p2", "p3")))
        return self

    def ask(self, name: str, *, size: int, deadline: int, period: int = 0) -> bool:
        self.layer.notice(Admit(GROUP, Stream(name, size, deadline, period)))
        return name in self.host.is_admitted

    def release(self, name: str) -> None:
        self.layer.notice(Release(GROUP, name))

    def hand_over(self, name: str, payload: bytes, deadline: int = 0) -> None:
        self.host.streams.setdefault(name, deque()).append(Due(payload, self.host.time, self.host.time + deadline))
        self.layer.ready(GROUP)

    def turn(self, at: int) -> list[Batch]:
        """What the ring gets in a turn that begins then."""
        self.host.time = at
        left, found = self.room, []
        while (batch := self.ring.host.take(GROUP, min(left - 20, self.host.max_packet))) is not None:
            found.append(batch)
            left -= len(batch.body) + 20
            assert left >= 0
        return found

    def deliver(self, sender: str, *batches: Batch) -> list[Batch]:
        """What the application gets of them."""
        before = len(self.host.called("deliver"))
        for rank, batch in enumerate(batches):
            self.ring.host.deliver(GROUP, sender, batch, rank)
        return [call[2] for call in self.host.called("deliver")[before:]]
