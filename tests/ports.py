"""What hosts in tests of groups have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plainchant.core.model import Stream


class NoStreams:
    """The part of a port that is about deadlines, for groups in which nobody has any."""

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
