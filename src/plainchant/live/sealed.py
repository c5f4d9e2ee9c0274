"""A transport that seals: everything that leaves is encrypted, everything that comes is authentic, fresh and for us.

It stands between a host and its transport, or transports (:mod:`.lans`), as one more transport. :mod:`.sessions` has the layout
and the cipher; here is who is let through.

**Proof.** A salt is random, so a process that names mine has heard me since I began. Packets of a session are taken once it is
*proved*: by a proof packet, sealed in it, that answers my present salt. All that its sender had sent before is refused, also by
a process that came back and remembers nothing. To an address where no process is proved only a *knock* is sent; a knock, or data
of an unproved session, is answered by an *ask*, and that by a *tell*::

    a                                   b
    | knock: I am S          ---------> |
    | <--------- ask: I am T, answers S |     a has proved b
    | tell: I am S, answers T  -------> |     b has proved a, and refuses what S sent before

When a process is proved the owner is told (``proved``), and says hello at once.

**Bound.** A data packet opens only with the sender's place and salt, under its number, names the boots of its receivers, and
counts only from the address at which its sender has proved itself. An address that the configuration gives to one place is not
taken by another.

**Another session.** Before its numbers end, and when another key is to seal, a process begins another session, and tells those
that it knows before it uses it, so nothing waits. Answers to the salt before still count, because sessions renewed at once
cross; but not once a session of another process was forgotten, and its window with it: what was recorded could prove it again.
Then only a new salt is answered. (Sessions under a dropped key cannot be opened until it comes back; so then, too.)

**Costs.** What fails is refused in the order of what that costs: length, first byte, tables, window, and only then the cipher,
which a packet of an unknown session never reaches. Asks and derivations are bounded by time, tables by number.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from ..core.wire import FRAME_BYTES, HEADER_BYTES, MAX_BYTES
from ..protocols.buffers import charge
from .keys import Keyring
from .refusals import PROOF, SEALED, Refusals
from .sessions import (
    ASK,
    BOOT_BYTES,
    DATA_HEAD,
    KNOCK,
    LONGEST_PROOF,
    NOTHING,
    NUMBERS,
    PROOF_HEAD,
    SHORTEST_DATA,
    SHORTEST_PROOF,
    TAG_BYTES,
    TELL,
    Own,
    Session,
    data_overhead,
)
from .transport import Address, Counters, Data, Limits, Receive, Send, Transport, TurnOver, senders_of

MOST_RECEIVERS: Final = 16  # named in one packet; what goes to more is sealed several times
MOST_SESSIONS: Final = 1024  # remembered sessions: of all peers and their earlier incarnations; with many peers, four each
MOST_LISTS: Final = 256  # lists of receivers that are kept ready
MOMENT: Final = 0.05  # seconds: the unit of time for the bounds below
ASKS: Final = 64  # strangers asked to prove themselves in a moment; peers of the configuration are counted apart
ASKS_OF_PEER: Final = 16  # the same at one address that the configuration names
DERIVATIONS: Final = 256  # sessions that are derived to look at a proof in a moment

_KINDS: Final = (KNOCK, ASK, TELL)
_ALL: Final[weakref.WeakSet[Sealed]] = weakref.WeakSet()


class Sealed:
    """Wraps the transport of the process at ``place``. ``peers`` are the addresses of the configuration, ``boot`` is what
    stands in the frames of this process, and ``proved`` is told where somebody has proved itself."""

    def __init__(
        self,
        inner: Transport,
        ring: Keyring,
        *,
        place: str,
        boot: bytes,
        peers: Mapping[str, Address],
        refusals: Refusals,
        proved: Callable[[Address], None] = lambda address: None,
    ) -> None:
        self.inner, self.refusals, self._place, self._boot = inner, refusals, place, boot
        self._places = {address: name for name, address in peers.items()}
        self._proved = proved
        self._inner_senders = senders_of(inner)
        self._overhead = data_overhead(len(peers), MOST_RECEIVERS)
        self._most = max(MOST_SESSIONS, 4 * len(peers))
        self._sessions: dict[bytes, Session] = {}  # by salt: those that are proved, and our own
        self._at: dict[Address, Session] = {}  # the session that is in use at an address
        self._lists: dict[tuple[Address, ...], tuple[list[tuple[tuple[Address, ...], bytes]], tuple[Address, ...]]] = {}
        """For receivers: whom each packet names, and who is not proved."""
        self._moment = 0.0
        self._asked: set[tuple[int, Address, bytes]] = set()
        self._asks: Counter[Address | None] = Counter()  # of strangers together under None
        self._derived = 0
        self._numbers = NUMBERS
        self._dropped: set[bytes] = set()  # ids of keys that were in the ring; only changes of keys make it grow
        self.unproved = 0  # packets that did not leave, because no process has proved itself at their address
        self._ring = ring
        self._keys = {key.id: key for key in ring.keys}
        self._own = Own(ring.sealing, boot, place)
        self._own_salts: tuple[bytes, ...] = (self._own.salt,)  # of our present session, and of the one before
        self._answerable: tuple[bytes, ...] = self._own_salts  # those of them that an answer proves something by
        self._sessions[self._own.salt] = self._own
        _ALL.add(self)

    @property
    def limits(self) -> Limits:
        inner = self.inner.limits
        packet = inner.packet - self._overhead
        # Protocols reckon what packets take of a buffer by their size, and ours are larger there by what sealing adds.
        return Limits(packet, inner.buffer * charge(packet) // charge(inner.packet))

    @property
    def address(self) -> Address:
        return self.inner.address

    @property
    def counters(self) -> Counters:
        return self.inner.counters

    async def open(self, receive: Receive, turn_over: TurnOver) -> None:
        self._loop = asyncio.get_running_loop()
        self._receive = receive
        await self.inner.open(self._on_packet, turn_over)
        self._at[self.inner.address] = self._own

    def catch_up(self) -> bool:
        catch_up = getattr(self.inner, "catch_up", None)
        return bool(catch_up is not None and catch_up())

    async def close(self) -> None:
        await self.inner.close()

    def send(self, to: Sequence[Address], data: Data) -> None:
        self._send(self._inner_senders[0], to, data)

    def senders(self) -> tuple[Send, ...]:
        """What sends on each network."""
        return tuple(partial(self._send, send) for send in self._inner_senders)

    def _send(self, send: Send, to: Sequence[Address], data: Data) -> None:
        everybody = to if to.__class__ is tuple else tuple(to)
        found = self._lists.get(everybody)
        if found is None:
            found = self._list(everybody)
        parts, unproved = found
        for addresses, receivers in parts:
            send(addresses, self._session().seal(receivers, data))
        for address in unproved:
            self._knock(send, address)

    def _list(self, to: tuple[Address, ...]) -> tuple[list[tuple[tuple[Address, ...], bytes]], tuple[Address, ...]]:
        known = [address for address in to if address in self._at]
        cut = [tuple(known[first : first + MOST_RECEIVERS]) for first in range(0, len(known), MOST_RECEIVERS)]
        parts = [(part, bytes((len(part),)) + b"".join(self._at[address].boot for address in part)) for part in cut]
        found = (parts, tuple(address for address in to if address not in self._at))
        if len(self._lists) >= MOST_LISTS:
            self._lists.clear()
        self._lists[to] = found
        return found

    def _session(self) -> Own:
        """Our own session, as long as it may seal."""
        if self._own.is_over:
            self._begin_session()
        return self._own

    def _knock(self, send: Send, address: Address) -> None:
        """Data for somebody who has not proved itself is not sent; it is asked who it is, but not for each of many packets."""
        self.unproved += 1
        if self._is_first(KNOCK, address, NOTHING):
            send((address,), self._session().prove(KNOCK, NOTHING))

    def _prove(self, address: Address, kind: int, answers: bytes) -> None:
        for send in self._inner_senders:
            send((address,), self._session().prove(kind, answers))

    def _is_first(self, kind: int, address: Address, salt: bytes) -> bool:
        """Whether nothing of that kind went to that address about that salt in this moment, and there is room for it: for
        strangers together, and for each address of the configuration by itself, which anybody can pretend to be at."""
        self._look_at_clock()
        what = (kind, address, salt)
        whose = address if address in self._places else None
        if what in self._asked or self._asks[whose] >= (ASKS if whose is None else ASKS_OF_PEER):
            return False
        self._asks[whose] += 1
        self._asked.add(what)
        return True

    def _look_at_clock(self) -> None:
        now = self._loop.time()
        if now >= self._moment:
            self._moment = now + MOMENT
            self._asked.clear()
            self._asks.clear()
            self._derived = 0

    def _on_packet(self, source: Address, data: Data) -> None:
        size = len(data)
        if size < SHORTEST_DATA:
            self.refusals.truncated += 1
        elif size > MAX_BYTES:
            self.refusals.oversized += 1
        elif data[0] == SEALED:
            self._on_data(source, data)
        elif data[0] == PROOF:
            self._on_proof(source, data)
        elif data[0] == 0xC1:
            self.refusals.unsealed += 1
        else:
            self.refusals.noise += 1

    def _on_data(self, source: Address, data: Data) -> None:
        _, key, salt, number, receivers = DATA_HEAD.unpack_from(data)
        session = self._sessions.get(salt)
        if session is None:
            self._on_stranger(source, key, salt)
            return
        refused = self.refusals
        if not self._may_be_new(session, key, number):
            return
        if session.address != source and session.address is not None:
            refused.redirected += 1
            if self._is_first(ASK, source, salt):
                self._prove(source, ASK, salt)  # it may have moved; then it says so
            return
        end = DATA_HEAD.size + BOOT_BYTES * receivers
        head = bytes(data[:end])
        if not _is_named(self._boot, head):
            refused.misdirected += 1
            return
        if len(data) < end + TAG_BYTES + FRAME_BYTES:
            refused.truncated += 1
            return
        frame = session.open(number, head, data[end:])
        if frame is None:
            refused.forged += 1
            return
        session.took(number)
        if not _is_of(frame, session.boot):
            refused.old += 1
            return
        self._receive(source, frame)

    def _may_be_new(self, session: Session, key: bytes, number: int) -> bool:
        if key != session.key.id:
            self.refusals.forged += 1
        elif number >= NUMBERS:
            self.refusals.future += 1
        elif not session.is_new(number):
            self.refusals.replayed += 1
        else:
            return True
        return False

    def _on_stranger(self, source: Address, key: bytes, salt: bytes) -> None:
        """Data of a session that is not proved: whoever it is is asked, if it has a key of ours."""
        if key not in self._keys:
            self.refusals.other_key += 1
            return
        self.refusals.stranger += 1
        if self._is_first(ASK, source, salt):
            self._prove(source, ASK, salt)

    def _on_proof(self, source: Address, data: Data) -> None:
        refused = self.refusals
        if not SHORTEST_PROOF <= len(data) <= LONGEST_PROOF:
            refused.truncated += len(data) < SHORTEST_PROOF
            refused.oversized += len(data) > LONGEST_PROOF
            return
        _, key, salt, number, kind, answers, length = PROOF_HEAD.unpack_from(data)
        if key not in self._keys:
            refused.other_key += 1
        elif kind not in _KINDS or len(data) != PROOF_HEAD.size + length + TAG_BYTES:
            refused.noise += 1
        elif salt in self._own_salts:
            refused.misdirected += 1  # our own word, come back
        elif kind == KNOCK:
            if self._is_first(ASK, source, salt):
                self._prove(source, ASK, salt)
            else:
                refused.crowded += 1
        elif answers not in self._answerable:
            refused.old += 1  # it answers what we were before
        else:
            self._on_answer(source, bytes(data), key, salt, number, kind)

    def _on_answer(self, source: Address, data: bytes, key: bytes, salt: bytes, number: int, kind: int) -> None:
        """Somebody says that it has heard us: if that is so, it is there now."""
        refused = self.refusals
        head, tag = data[:-TAG_BYTES], data[-TAG_BYTES:]
        session = self._sessions.get(salt)
        is_known = session is not None
        try:
            place = head[PROOF_HEAD.size :].decode()
        except UnicodeDecodeError:
            refused.forged += 1
            return
        if self._places.get(source, place) != place:
            refused.redirected += 1
            return
        if session is None:
            self._look_at_clock()
            if self._derived >= DERIVATIONS:
                refused.crowded += 1
                return
            self._derived += 1
            session = Session(self._keys[key], salt, place, source)
        elif not self._may_be_new(session, key, number):
            return
        if session.open(number, head, tag) is None:
            refused.forged += 1
            return
        if is_known:
            session.took(number)
        else:
            session.begin_after(number)
            self._sessions[salt] = session
        self._settle(session, source)
        if len(self._sessions) > self._most:
            self._forget_half()
        if kind == ASK:
            self._prove(source, TELL, salt)
        if not is_known:
            self._proved(source)

    def _settle(self, session: Session, source: Address) -> None:
        """A session is in use at an address from here on."""
        if session.address != source and session.address is not None and self._at.get(session.address) is session:
            del self._at[session.address]
        session.address = source
        if self._at.get(source) is not session:
            self._at[source] = session
            self._lists.clear()

    def place_at(self, address: Address) -> str | None:
        """The place of whoever has proved itself at an address."""
        session = self._at.get(address)
        return session.place if session is not None else None

    @property
    def sealed_with(self) -> Mapping[bytes, int]:
        """How many of the others use which key."""
        return Counter(session.key.id for session in self._at.values() if session.address is not None)

    @property
    def sessions(self) -> int:
        """How many are remembered."""
        return len(self._sessions)

    def use(self, ring: Keyring) -> None:
        """Other keys from here on. What is sealed with one that is gone is not opened any more."""
        keys = {key.id: key for key in ring.keys}
        changed = ring.sealing != self._ring.sealing
        self._dropped |= self._keys.keys() - keys.keys()
        comes_back = self._dropped & keys.keys()
        self._dropped -= comes_back
        self._ring, self._keys = ring, keys
        for session in [session for session in self._sessions.values() if session.key.id not in keys]:
            self._forget(session)
        if changed or comes_back:
            self._begin_session(forgetful=bool(comes_back))

    def _begin_session(self, *, forgetful: bool = False) -> None:
        """Another session of our own; those whom we know hear of it before it is used. ``forgetful``: a window was forgotten."""
        before = self._own
        for salt in self._own_salts:
            if salt != before.salt:
                self._sessions.pop(salt, None)
        self._own = Own(self._ring.sealing, self._boot, self._place, self._numbers)
        self._own_salts = (self._own.salt, before.salt)
        self._answerable = (self._own.salt,) if forgetful else self._own_salts
        self._sessions[self._own.salt] = self._own
        for address, session in list(self._at.items()):
            if session.address is None:
                self._at[address] = self._own
            else:
                self._prove(address, TELL, session.salt)

    def _forget(self, session: Session) -> None:
        self._sessions.pop(session.salt, None)
        if session.address is not None and self._at.get(session.address) is session:
            del self._at[session.address]
        self._lists.clear()

    def _forget_half(self) -> None:
        """There are too many: the older half of those that are not in use is forgotten. What they have sent could come again, so
        what proved them must not count again. (Half of them, because a new session of ours is one more at everybody else: if each
        made room for one, they would begin new ones for ever.)"""
        others = [session for session in self._sessions.values() if session.address is not None]
        unused = [session for session in others if session.address and self._at.get(session.address) is not session]
        for session in unused[: 1 + len(unused) // 2]:
            self._forget(session)
        self._begin_session(forgetful=True)

    def forked(self) -> None:
        """This is a copy of the process that the session belongs to: it must not go on with the same numbers."""
        self._own.spoil()


def _is_of(frame: bytes, boot: bytes) -> bool:
    """Whether a frame bears that boot."""
    return frame[HEADER_BYTES:FRAME_BYTES] == boot


def _is_named(boot: bytes, head: bytes) -> bool:
    """Whether a boot is among those for whom a packet is.

    >>> head = bytes(DATA_HEAD.size) + b"aaaabbbb"
    >>> _is_named(b"bbbb", head), _is_named(b"aabb", head)
    (True, False)
    """
    at = head.find(boot, DATA_HEAD.size)
    while at >= 0 and (at - DATA_HEAD.size) % BOOT_BYTES:
        at = head.find(boot, at + 1)
    return at >= 0


def _in_child() -> None:
    for sealed in list(_ALL):
        sealed.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
