"""What the slices of a run have in common, and so travels and is kept once: pieces of tapes, and the hashes of blocks.

Processes that deliver the same messages in the same order have the same tape, apart from where their own sends stand. A tape is
cut after every message whose number is a multiple of ``SHARE``, wherever units begin and end, so that the pieces of all histories
are the same bytes; its sends are kept beside it. Hashes of blocks are put together by 64. A slice names such *shared* bytes by a
cryptographic hash of theirs, and they travel beside it. So a run's certificates grow with its messages, and not with its
deliveries.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from .columns import Ints, small_type

SHARE: Final = 16_384  # deliveries in a piece of a tape, about
_LEAST: Final = 256  # shorter pieces travel with their slice


class Shared:
    """Bytes that slices may have in common, and their hash."""

    __slots__ = ("content", "key")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.key = hashlib.blake2b(content, digest_size=16).digest()


@dataclasses.dataclass(slots=True)
class Spliced:
    """A tape in pieces: its deliveries, and where its sends stand among them."""

    pieces: list[Shared | bytes]
    between: NDArray[Any]  # deliveries before each send, since the send before
    senders: list[str]  # of the slice

    def codes(self) -> NDArray[Any]:
        """The whole tape, in the codes of the slice."""
        places = {name: place for place, name in enumerate(self.senders, 1)}
        kind = small_type(len(self.senders) + 1)
        parts = [in_codes(piece, places, kind) for piece in self.pieces]
        delivered = np.concatenate(parts) if parts else np.zeros(0, kind)
        return np.insert(delivered, np.cumsum(self.between, dtype=np.int64), 0)


def spliced(codes: NDArray[Any], cuts: Ints, senders: list[str]) -> Spliced:
    """A tape in pieces that can be shared; ``cuts``: at which deliveries pieces end."""
    sends = np.flatnonzero(codes == 0)
    pieces = np.split(codes[codes != 0], cuts - np.searchsorted(sends, cuts) + 1)
    between = since_the_last(sends)
    kind = small_type(int(between.max(initial=0)) + 1)
    return Spliced([_piece(piece, senders) for piece in pieces if len(piece)], between.astype(kind), senders)


def since_the_last(sends: Ints) -> Ints:
    """How many deliveries come before each send, since the send before; given where sends stand on a tape."""
    return np.diff(sends, prepend=-1) - 1


def _piece(codes: NDArray[Any], senders: Sequence[str]) -> Shared | bytes:
    """Says who sent some messages, in the same way in every unit."""
    present = sorted(np.unique(codes).tolist(), key=lambda code: senders[code - 1])
    places = np.zeros(len(senders) + 1, small_type(len(present)))
    places[present] = np.arange(len(present))
    content = msgspec.msgpack.encode(([senders[code - 1] for code in present], places[codes].tobytes()))
    return Shared(content) if len(codes) >= _LEAST else content


def in_codes(piece: Shared | bytes, places: Mapping[str, int], kind: Any) -> NDArray[Any]:
    """The senders of a piece's messages, in some codes of that type."""
    content = piece.content if isinstance(piece, Shared) else piece
    named, codes = msgspec.msgpack.decode(content, type=tuple[list[str], bytes])
    return np.array([places[name] for name in named], kind)[np.frombuffer(codes, small_type(len(named)))]


def packed(value: object) -> tuple[bytes, dict[bytes, bytes]]:
    """An object as bytes, and by their hashes the shared bytes that it names."""
    target = io.BytesIO()
    pickler = _Pickler(target, protocol=5)
    pickler.dump(value)
    return target.getvalue(), pickler.named


def unpacked(value: bytes, known: Mapping[bytes, Shared]) -> Any:
    """The object again, given all that it names."""
    return _Unpickler(io.BytesIO(value), known).load()


class _Pickler(pickle.Pickler):
    def __init__(self, target: io.BytesIO, protocol: int) -> None:
        super().__init__(target, protocol=protocol)
        self.named: dict[bytes, bytes] = {}

    def persistent_id(self, obj: Any) -> bytes | None:
        if not isinstance(obj, Shared):
            return None
        self.named[obj.key] = obj.content
        return obj.key


class _Unpickler(pickle.Unpickler):
    def __init__(self, source: io.BytesIO, known: Mapping[bytes, Shared]) -> None:
        super().__init__(source)
        self._known = known

    def persistent_load(self, pid: bytes) -> Shared:
        return self._known[pid]
