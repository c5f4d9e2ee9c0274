"""What the hosts in tests of groups share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plainchant.core.model import Stream
from plainchant.group import Buffers, Group, Guarantees, Membership, Profile
from plainchant.group.port import Port


def a_membership(port: Port, name: str = "g", me: str = "p1", *, buffers: Buffers | None = None, **profile: Any) -> Membership:
    """A membership in a group that promises nothing, at a host that the test plays."""
    return Membership(port, name, me, Profile(Guarantees((), ()), **profile), buffers if buffers is not None else Buffers())


def member_of(group: Group) -> Membership:
    """The host's side of a group."""
    return group._membership


class NoStreams:
    """The part of a port that is about deadlines, for groups without any."""

    def admit(self, group: str, wanted: Stream, payload: bytes | None, arrived: int) -> None:
        raise AssertionError("nobody asks for a stream in this group")

    def offer(self, group: str, stream: str, payload: bytes, arrived: int) -> None:
        raise AssertionError("nobody has a stream in this group")

    def release(self, group: str, stream: str) -> None:
        raise AssertionError("nobody has a stream in this group")

    def admission(self, group: str) -> Mapping[str, Any] | None:
        return None

    def is_traced(self) -> bool:
        return False

    def write_note(self, group: str, sender: str | None, seq: int | None, detail: dict[str, Any]) -> None:
        raise AssertionError("nobody notes anything in this group")
