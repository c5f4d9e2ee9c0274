"""The addresses of the processes that a packet goes to, kept ready for each list of receivers."""

from __future__ import annotations

from typing import Final

from ..core.model import ProcessId
from .presence import Presence
from .transport import Address

MAX_ROUTES: Final = 1024  # lists of receivers whose addresses are kept ready


class Routes:
    """``own``: the address at which this process gets what it sends to itself, where that goes over the network."""

    def __init__(self, own: Address | None) -> None:
        self.presence: Presence
        self.unroutable = 0  # packets to processes whose address is not known
        self._own = own
        self.ready: dict[tuple[ProcessId, ...], tuple[Address, ...]] = {}  # addresses of lists of receivers that were found

    def find(self, names: tuple[ProcessId, ...], me: ProcessId) -> tuple[Address, ...]:
        """The addresses of these processes, without those that are not known."""
        known = self.presence.routes
        addresses = tuple(known[name] for name in names if name in known)
        if self._own is not None and me in names:
            addresses = (*addresses, self._own)
        unknown = [name for name in names if name not in known and name != me]
        if unknown:
            self.unroutable += len(unknown)
            self.presence.seek()
        else:
            if len(self.ready) >= MAX_ROUTES:
                self.ready.clear()
            self.ready[names] = addresses
        return addresses
