"""Sealed packets: their layout, the keys they are sealed with, and the window that refuses replays.

All members of a group have the same key, so none seals with it. A process that starts makes a *session*: it draws a salt,
derives a key of its own from the group key, the salt and its place, and numbers its packets from 1 on. The number is the nonce,
never used twice under one key: not on two networks (one session, one counter), not after a restart or under another group key
(another salt, so another key), and a session ends before its numbers do (:data:`NUMBERS`). A salt is the process's *boot* (the
four bytes by which presence tells incarnations apart) and twelve random bytes more::

    data   | C2 | key id | salt | number | n | boot of each receiver | sealed frame        |
             1    4        16     8        1   4 n                     frame + 16

    proof  | C3 | key id | salt | number | kind | answers | length | place | tag |
             1    4        16     8        1      16        1        length   16

Everything in front of the sealed part is authenticated with it. The frame inside bears the same boot, and in it the packet with
its group. A packet that is altered, cut, mixed of two, or sent to another receiver than it was sealed for does not open.

**Window.** For each session of another process a receiver remembers the highest number and which of the :data:`WINDOW` below it
have come. A number that has come, or is older, is refused. The window moves only by packets that have opened.
"""

from __future__ import annotations

import os
import struct
from typing import Final

from cryptography.exceptions import InvalidTag

from ..core.model import ProtocolError
from .keys import ID_BYTES, Key
from .refusals import PROOF, SEALED
from .transport import Address, Data

BOOT_BYTES: Final = 4
SALT_BYTES: Final = 16
TAG_BYTES: Final = 16
WINDOW: Final = 4096  # packets that may overtake one that is still taken
NUMBERS: Final = 1 << 32  # packets of a session; with packets of 64 KiB AES-GCM is far from its bounds there

KNOCK: Final = 0  # I am here. Who are you? (Answers nothing, and proves nothing.)
ASK: Final = 1  # I have heard of the session whose salt this answers, so I am here now. Prove that you are, too
TELL: Final = 2  # the same, and nothing is asked
NOTHING: Final = bytes(SALT_BYTES)

DATA_HEAD: Final = struct.Struct(">B4s16sQB")
PROOF_HEAD: Final = struct.Struct(">B4s16sQB16sB")
SHORTEST_DATA: Final = DATA_HEAD.size + BOOT_BYTES + TAG_BYTES
SHORTEST_PROOF: Final = PROOF_HEAD.size + 1 + TAG_BYTES
LONGEST_PROOF: Final = PROOF_HEAD.size + 255 + TAG_BYTES

_SEEN: Final = (1 << WINDOW) - 1
_NONCE: Final = struct.Struct(">4xQ")

assert DATA_HEAD.size == 1 + ID_BYTES + SALT_BYTES + 8 + 1


class Session:
    """One process start under one group key, its own or another's."""

    def __init__(self, key: Key, salt: bytes, place: str, address: Address | None = None) -> None:
        self.key = key
        self.salt = salt
        self.boot = salt[:BOOT_BYTES]
        self.place = place
        self.address = address  # where its process is; None: this process itself
        self.prefix = key.id + salt
        self._cipher = key.sealer(salt, b"packets of " + place.encode())
        self._highest = 0
        self._seen = _SEEN

    def begin_after(self, number: int) -> None:
        """What was sent up to that number is not taken any more: it is older than the proof that its sender is there."""
        self._highest = number
        self._seen = _SEEN

    def is_new(self, number: int) -> bool:
        """Whether a packet with that number can be taken."""
        behind = self._highest - number
        return behind < 0 or (behind < WINDOW and not self._seen >> behind & 1)

    def took(self, number: int) -> None:
        """A packet with that number has opened."""
        ahead = number - self._highest
        if ahead > 0:
            self._seen = (self._seen << ahead | 1) & _SEEN if ahead < WINDOW else 1
            self._highest = number
        else:
            self._seen |= 1 << -ahead

    def open(self, number: int, head: bytes, sealed: Data) -> bytes | None:
        """What was sealed, or None if that does not open."""
        try:
            return self._cipher.decrypt(_NONCE.pack(number), sealed, head)  # type: ignore[arg-type]
        except InvalidTag:
            return None


class Own(Session):
    """A session of this process's own, that nobody ever had. It alone seals, and counts."""

    def __init__(self, key: Key, boot: bytes, place: str, numbers: int = NUMBERS) -> None:
        super().__init__(key, boot + os.urandom(SALT_BYTES - BOOT_BYTES), place)
        self._number = 0
        self._numbers = numbers
        self._spoiled = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more may be sealed in it."""
        return self._spoiled or self._number >= self._numbers - 1

    def spoil(self) -> None:
        """Somebody else may go on with these numbers: nothing more is sealed in it."""
        self._spoiled = True

    def _next_number(self) -> int:
        if self.is_over:
            raise ProtocolError("a session is over and was to seal; begin another one")
        self._number += 1
        return self._number

    def seal(self, receivers: bytes, frame: Data) -> bytes:
        """A data packet; ``receivers`` is their number, one byte, and their boots."""
        number = self._next_number()
        head = b"%c%b%b%b" % (SEALED, self.prefix, number.to_bytes(8), receivers)
        return head + self._cipher.encrypt(_NONCE.pack(number), frame, head)  # type: ignore[arg-type]

    def prove(self, kind: int, answers: bytes) -> bytes:
        """A proof packet."""
        number = self._next_number()
        place = self.place.encode()
        head = PROOF_HEAD.pack(PROOF, self.key.id, self.salt, number, kind, answers, len(place)) + place
        return head + self._cipher.encrypt(_NONCE.pack(number), b"", head)


def data_overhead(peers: int, most: int) -> int:
    """Bytes that sealing adds to a packet, to so many peers of which a packet names so many at the most."""
    return DATA_HEAD.size + BOOT_BYTES * max(1, min(peers, most)) + TAG_BYTES
