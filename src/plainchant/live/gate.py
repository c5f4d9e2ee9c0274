"""Decides what becomes of bytes that arrive: a packet of a known process, a hello, or nothing.

Every packet bears the boot number of its sender. It counts only if the address is that of a known process, under the boot
number by which that process is known. Packets of strangers are not even decoded, unless they look like a hello: the stranger is
asked for its name at the next tick, and every refusal has a counter (:class:`~.refusals.Refusals`).
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.model import Packet, ProcessId, WireError
from ..core.wire import FRAME_BYTES, HEADER_BYTES, MAX_BYTES, VERSION, Stamped
from .presence import HELLO_TAG, LARGEST_HELLO, Hello, Presence
from .refusals import Refusals
from .transport import Address, Data


class Gate:
    """Reads what a transport hands over. ``loopback``: packets of this process itself come from the network, too."""

    def __init__(self, codec: Stamped, refusals: Refusals, *, loopback: bool) -> None:
        self.presence: Presence
        self.place_at: Callable[[Address], str | None] | None = None  # where packets are sealed: the place proved at an address
        self._codec, self._refusals, self._loopback = codec, refusals, loopback

    def read(self, source: Address, data: Data, me: ProcessId) -> tuple[ProcessId, Packet] | None:
        """The sender and its packet; None if there is nothing for the engine of ``me`` in it."""
        known = self.presence.sources.get(source)
        stamp = data[HEADER_BYTES:FRAME_BYTES]
        if (known is None or stamp != known[0]) and not _is_hello(data):
            if not self._loopback or stamp != self.presence.boot:
                self._refuse_stranger(source, data, known is None)
                return None
            known = (self.presence.boot, me)
        try:
            packet = self._codec.decode_frame(data)
        except WireError:
            self._refusals.unreadable(data)
            return None
        if packet.__class__ is Hello:
            self._on_hello(source, packet, data)
            return None
        if known is None or stamp != known[0]:
            self._refusals.damaged += 1  # it looked like a hello
            return None
        return known[1], packet

    def _refuse_stranger(self, source: Address, data: Data, unknown: bool) -> None:
        """Not known to each other: if the bytes are of our format, the sender is asked for its name."""
        if len(data) <= FRAME_BYTES or len(data) > MAX_BYTES or data[0] != VERSION:
            self._refusals.unreadable(data)
            return
        if unknown:
            self._refusals.stranger += 1
        else:
            self._refusals.old += 1
        self.presence.meet(source)

    def _on_hello(self, source: Address, hello: Hello, data: Data) -> None:
        if len(data) > LARGEST_HELLO:
            self._refusals.oversized += 1
        elif hello.boot != data[HEADER_BYTES:FRAME_BYTES]:
            self._refusals.hello += 1
        elif self.place_at is not None and self.place_at(source) != hello.place:
            self._refusals.redirected += 1  # sealed by a process at another place
        else:
            self.presence.on_hello(source, hello)


def _is_hello(data: Data) -> bool:
    """Whether bytes look like a hello, before they are decoded: an array, whose first element is the tag."""
    return len(data) > FRAME_BYTES + 1 and data[FRAME_BYTES + 1] == HELLO_TAG
