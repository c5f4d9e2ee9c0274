"""Omissions: packets that a process drops as they arrive, because a fault says so.

The first packet dropped is the next that matches. If its class has an ``identity`` (what it carries, which a retransmission does
not change), the others are those with the same identity: ``count`` losses of one packet in succession. Otherwise they are the
next packets that match.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ...core.names import place_of
from ..model import Fault


@dataclasses.dataclass(slots=True, eq=False)
class Omission:
    """The progress of one fault of kind ``omit``."""

    _fault: Fault
    _done: int = 0
    _identity: Any = None

    @property
    def is_over(self) -> bool:
        return self._done >= self._fault.count

    def hits(self, source: str, packet: Any) -> bool:
        """Whether this packet is dropped; if so, it is counted."""
        identity, fault = identity_of(packet), self._fault
        matches = fault.source in ("", place_of(source)) and fault.packet in ("", type(packet).__name__)
        hit = matches if self._identity is None else identity == self._identity
        if hit:
            self._identity = identity
            self._done += 1
        return hit

    def describe(self, source: str, packet: Any) -> dict[str, Any]:
        """The latest drop, as the detail of a ``fault`` row."""
        name, count = type(packet).__name__, self._fault.count
        detail = {"fault": "omit", "source": source, "packet": name, "drop": self._done, "count": count}
        return detail | ({} if self._identity is None else {"identity": list(self._identity)})


def identity_of(packet: Any) -> Any:
    """What a packet carries: a tuple, or None if its class does not define it."""
    identity = getattr(packet, "identity", None)
    return identity() if callable(identity) else identity
