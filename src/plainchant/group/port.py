"""The boundary between a membership and its host: what a membership asks for, and the state both sides refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..core.model import GroupId, Nanoseconds, ProcessId, Reason, Stream


class Port(Protocol):
    """What a membership asks of its host. The host never calls the membership from inside these."""

    def accept(self, group: GroupId, payloads: Sequence[bytes]) -> None:
        """Queues messages; the host calls ``took`` when the protocol has taken some."""

    def leave(self, group: GroupId) -> None:
        """Asks the protocol to leave; the host calls ``left`` when it has."""

    def close_group(self, group: GroupId) -> None:
        """Asks the protocol to close the group; ``left`` is called at every member."""

    def rename(self, group: GroupId, name: GroupId) -> None:
        """Asks the protocol to rename the group; ``renamed`` is called at every member."""

    def pressure(self, group: GroupId, full: bool) -> None:
        """Tells the protocol that too much is unread here, or no longer."""

    def waiting(self, group: GroupId) -> Reason | None:
        """What the protocol still has to do."""

    def counters(self) -> Mapping[str, int]:
        """Counters of the process: packets and the like."""

    def admit(self, group: GroupId, wanted: Stream, payload: bytes | None, arrived: Nanoseconds) -> None:
        """Asks the protocol to guarantee the deadlines of a stream (``model.Admit``); the host answers by ``admitted`` or
        ``rejected``. ``payload`` is the one message of a stream without a period, handed over at ``arrived`` (``host.now``)."""

    def offer(self, group: GroupId, stream: str, payload: bytes, arrived: Nanoseconds) -> None:
        """Queues the next message of an admitted stream; the host calls ``took`` when the protocol has taken it."""

    def release(self, group: GroupId, stream: str) -> None:
        """Tells the protocol that the stream has ended (``model.Release``); no message of it is queued."""

    def admission(self, group: GroupId) -> Mapping[str, Any] | None:
        """What is guaranteed now, and how much room is left; None if the protocol does not say."""

    def is_traced(self) -> bool:
        """Whether this process records a trace."""

    def write_note(self, group: GroupId, sender: ProcessId | None, seq: int | None, detail: dict[str, Any]) -> None:
        """Writes a ``note`` row into the trace, if there is one and this process is still part of it."""


class Link:
    """A membership's end of the connection to its host, shared by the parts of the membership. ``group`` is the name by which the
    host knows the group now: it changes when the group is renamed."""

    def __init__(self, port: Port, group: GroupId, me: ProcessId) -> None:
        self.port, self.group, self.me = port, group, me
        self.over: Reason | None = None  # why this process is out of the group; None while it is in it
        self.is_halted = False  # whether it is out because the protocol stopped the process
