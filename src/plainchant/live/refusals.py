"""What was refused, and why: a counter for every kind of packet that costs a look and changes nothing.

A packet passes checks in the order of what they cost: its length and its first byte, tables by what stands in the clear, then
the cipher or the checksum, then decoding. The first that it fails counts it here. One :class:`Refusals` belongs to a process;
the sealing (:mod:`.sealed`), the host (:mod:`.host`) and the address book (:mod:`.presence`) count into it, and
``Node.statistics`` shows it.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from ..core.wire import FRAME_BYTES, MAX_BYTES, VERSION

SEALED: Final = 0xC2  # the first byte of a sealed packet
PROOF: Final = 0xC3  # the first byte of a packet by which processes prove to each other that they are there now


@dataclasses.dataclass(slots=True)
class Refusals:
    """Packets that were refused since the process began, by reason."""

    truncated: int = 0  # too short for a packet
    oversized: int = 0  # longer than any packet, or a hello longer than any hello
    noise: int = 0  # the first byte is none of ours: another program's, or random
    damaged: int = 0  # the checksum does not fit, or it is no packet of this protocol
    unsealed: int = 0  # in the clear, and this process has a key
    sealed: int = 0  # sealed, and this process has no key
    other_key: int = 0  # sealed with a key that this process does not have, or not any more
    forged: int = 0  # sealed with a key of ours, it seems, but it does not open: bent, cut, mixed, or made up
    stranger: int = 0  # from a process that has not proved itself, or is not in the address book
    redirected: int = 0  # it came from another address than its sender's
    misdirected: int = 0  # it was sealed for other processes than this one
    replayed: int = 0  # it was here before, or may have been: older than the window
    future: int = 0  # a number, or an incarnation, that no process can have reached
    old: int = 0
    """From a process that has a successor, an answer to what this process was before, or a hello under this process's own
    name."""
    hello: int = 0  # a hello that breaks the bounds of hellos
    crowded: int = 0  # from a process for which there is no room in a table, or no time now

    @property
    def total(self) -> int:
        return sum(self.as_dict().values())

    @property
    def broken(self) -> int:
        """Those that nobody of ours can have sent as they came."""
        return self.truncated + self.oversized + self.noise + self.damaged + self.forged

    @property
    def foreign(self) -> int:
        """Those from or for somebody else."""
        own_key = self.unsealed + self.sealed + self.other_key
        return own_key + self.stranger + self.redirected + self.misdirected + self.old

    def as_dict(self) -> dict[str, int]:
        """By reason."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def key_hint(self) -> str:
        """What the counters say of keys that do not match, for an error of a process that waits in vain; empty: nothing."""
        hints = (
            (self.other_key, "are sealed with a key that it does not have: give everybody the same key file"),
            (self.unsealed, "are not sealed: give the others the key, too"),
            (self.sealed, "are sealed, and it has no key: give key=FILE here, too"),
        )
        return next((f"; {count} packets came that {what}" for count, what in hints if count), "")

    def unreadable(self, data: bytes | bytearray | memoryview) -> None:
        """Counts bytes that did not decode."""
        if len(data) <= FRAME_BYTES:
            self.truncated += 1
        elif len(data) > MAX_BYTES:
            self.oversized += 1
        elif data[0] in (SEALED, PROOF):
            self.sealed += 1
        elif data[0] != VERSION:
            self.noise += 1
        else:
            self.damaged += 1
