"""Packets that a process drops as they come in, because a fault says so.

The first is the next that matches. If its class has an ``identity`` (what it carries, whatever else in it changes when it is sent
again), the others are those that carry the same: so many losses of one packet, one after the other. Else they are the next that
match.
"""

from __future__ import annotations

from typing import Any

from ..core.names import place_of
from ..scenario.model import Fault


class Omission:
    """One fault of kind ``omit``, as far as it has happened."""

    __slots__ = ("_done", "_fault", "_identity")

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._done = 0
        self._identity: Any = None

    @property
    def is_over(self) -> bool:
        return self._done >= self._fault.count

    def hits(self, source: str, packet: Any) -> bool:
        """Whether this packet is dropped; then it counts."""
        identity = identity_of(packet)
        hit = self._matches(source, packet) if self._identity is None else identity == self._identity
        if hit:
            self._identity = identity
            self._done += 1
        return hit

    def _matches(self, source: str, packet: Any) -> bool:
        fault = self._fault
        return fault.source in ("", place_of(source)) and fault.packet in ("", type(packet).__name__)

    def describe(self, source: str, packet: Any) -> dict[str, Any]:
        """The latest drop, as the detail of a row."""
        name, count = type(packet).__name__, self._fault.count
        detail = {"fault": "omit", "source": source, "packet": name, "drop": self._done, "count": count}
        if self._identity is not None:
            detail["identity"] = list(self._identity)
        return detail


def identity_of(packet: Any) -> Any:
    """What a packet carries: a tuple, or None where its class does not say."""
    identity = getattr(packet, "identity", None)
    return identity() if callable(identity) else identity
