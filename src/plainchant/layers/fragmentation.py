"""The layer at the top of every stack: messages larger than a packet travel in fragments.

Theory of operation
-------------------
The host outside hands over messages of any size, the protocol inside never sees a body larger than it asked for. To the
protocol a fragment is a batch like any other. The layer relies on what every protocol of ours keeps: the batches of one
sender come in the order in which they were taken, its own come back to the sender too, and all members place a view at
the same point between them. Nothing is assumed about the order of different senders.

**One large message at a time.** A sender takes nothing more from its host until its large message has come back whole. So
whatever is heard from a sender while a message of its is partial is a fragment of that message, which makes the next rule
possible; it costs large messages one round trip each, and small ones nothing.

**A view with joiners starts partial messages afresh.** A process that joins in the middle of a message has not heard its
beginning, yet the others would deliver it in the joiner's first view: agreement would break. Therefore at a view with joiners
*every member* forgets the fragments heard before it, and the sender takes back those that it has heard itself, to send them
again. Those that it has sent and not heard yet are still to come, after the view, for every member. So each byte comes once after
the view, to old members and joiners alike, which from here on have the same state and deliver the message at the same fragment.
The order of the fragments does not matter, nor does another join before they are all there.

(Why not let a sender go on meanwhile? It sends the fragments a1 a2 and the message b at once; the order becomes a1,
a view with J, a2, a view with K, b. K hears b and cannot know that the others still wait for a1 again.)

**A partial message disappears with the view that removes its sender**, at everybody. A restarted process is a new one.
A process that asks to leave, or to close the group, does so when its own large message has come back: it was accepted for good.

**A merge is a view with joiners**, at everybody: those of another part have not heard the beginning. **A new name** of the
group is the end of the old one: everybody forgets what is partial, and its sender gives the message back to the host, to be
taken again under the new name, first of all.

Memory is bounded by what senders have under way: at each member one partial message a sender and group, and the whole
of one's own; nothing is reserved on the mere word of a fragment. A message has at most :data:`LARGEST` bytes, its fragments are
kept in at most :data:`MOST_SPANS` pieces, and no more than :data:`MOST_PARTIAL` messages of a group are partial.

**What no sender of ours makes** (a batch that does not hold what it says, a fragment beyond the end of its message, one that
overlaps another) is left out, and a message that cannot be whole any more is forgotten. All members see the same batches, so all
leave out the same.

This module imports ``model`` and ``engine`` and nothing else of ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from ..core.engine import Engine, Host, Layer
from ..core.model import Batch, Due, GroupId, ProcessId, ProtocolError, Reason, Timer, View, WireError

LARGEST: Final = 1 << 30  # bytes of the largest message
MOST_SPANS: Final = 1024  # pieces of a partial message that do not touch: there is one, and another for each view with joiners
MOST_PARTIAL: Final = 4096  # partial messages of a group
_LAYER: Final = "fragmentation"


class Fragmentation(Layer):
    """Cuts what the host hands over, joins what the protocol delivers. See the module's docstring."""

    def __init__(self, host: Host, inside: Callable[[Host], Engine]) -> None:
        self._outgoing: dict[GroupId, _Outgoing] = {}
        self._partial: dict[GroupId, dict[ProcessId, _Partial]] = {}
        self._ends: dict[GroupId, Callable[[GroupId], None]] = {}
        """Groups that are to be left or closed when a message has been sent that their new name cut off."""
        self._deliver_whole = host.deliver
        super().__init__(host, inside)

    def take(self, group: GroupId, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
        if self._outgoing and group in self._outgoing:
            return self._outgoing[group].next_fragment(max_bytes)
        batch = self.host.take(group, max_bytes, most, stream)
        if batch is None:
            return None
        if len(batch.body) <= max_bytes:
            if self._ends and group in self._ends:
                self._outgoing[group] = _Outgoing(batch, is_back=True, end=self._ends.pop(group))
                self.host.set_timer(_nudge(group), self.host.now)
            return batch
        if batch.count != 1:
            packed = f"the host packed {batch.count} messages into {len(batch.body)} bytes, and {max_bytes} were asked for"
            raise ProtocolError(f"{packed}; only one message alone may be larger")
        outgoing = self._outgoing[group] = _Outgoing(batch, end=self._ends.pop(group, None))
        return outgoing.next_fragment(max_bytes)

    def peek(self, group: GroupId, stream: str = "") -> Due | None:
        outgoing = self._outgoing.get(group)
        if outgoing is None:
            return self.host.peek(group, stream)
        part = outgoing.next_part()
        return Due(part, 0) if part is not None else None

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        # A whole batch never meets a partial message of its sender (one large message at a time): no look-up is needed.
        if batch.total == 0:
            try:
                self._deliver_whole(group, sender, batch, rank)
            except WireError as error:
                self._leave_out(group, sender, batch, str(error))
        else:
            self._deliver_fragment(group, sender, batch, rank)

    def _leave_out(self, group: GroupId, sender: ProcessId, batch: Batch, why: str) -> None:
        """A batch that nobody can deliver."""
        self.host.record("drop", group, process=sender, first=batch.first, why=why, situation="malformed batch")

    def install(self, view: View) -> None:
        partial = self._partial.get(view.group)
        if partial:
            for sender in [sender for sender in partial if sender not in view.members]:
                del partial[sender]
            if view.joined:
                self._start_afresh(view.group, partial)
        self.host.install(view)

    def left(self, group: GroupId, rank: int | None = None) -> None:
        self._partial.pop(group, None)
        self._ends.pop(group, None)
        if self._outgoing.pop(group, None) is not None:
            self.host.cancel_timer(_nudge(group))
        self.host.left(group, rank)

    def renamed(self, group: GroupId, view: View, returned: Sequence[bytes] = ()) -> None:
        self._partial.pop(group, None)
        outgoing = self._outgoing.pop(group, None)
        if outgoing is not None:
            self.host.cancel_timer(_nudge(group))
            self.host.set_timer(_nudge(view.group), self.host.now)
            if outgoing.is_back:
                self._outgoing[view.group] = outgoing
            else:
                returned = (*returned, outgoing.body)
                if outgoing.end is not None:
                    self._ends[view.group] = outgoing.end
        self.host.renamed(group, view, returned)

    def expire(self, timer: Timer) -> None:
        # Three parts tell ours from PerGroup's (group, name), should a group be called like this layer.
        if timer[0] == _LAYER and len(timer) == 3:
            self._go_on(timer[2])
        else:
            self.inner.expire(timer)

    def leave(self, group: GroupId) -> None:
        self._end(group, self.inner.leave)

    def close(self, group: GroupId) -> None:
        self._end(group, self.inner.close)

    def waiting(self) -> Reason | None:
        reason = self.inner.waiting()
        if reason is None and self._outgoing:
            group = min(self._outgoing)
            message = self._outgoing[group]
            text = f"message {message.first} of {self.me} in {group} ({len(message.body)} bytes) has not come back whole"
            return Reason("fragments", text, {"group": group, "first": message.first, "bytes_untaken": message.untaken_bytes})
        return reason

    def _end(self, group: GroupId, end: Callable[[GroupId], None]) -> None:
        """Leaves or closes a group, when our large message there has come back."""
        outgoing = self._outgoing.get(group)
        if outgoing is not None:
            outgoing.end = outgoing.end or end
        elif group not in self._ends:
            end(group)

    def _deliver_fragment(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None) -> None:
        of_group = self._partial.setdefault(group, {})
        partial = of_group.get(sender)
        if partial is None or partial.first != batch.first:
            if batch.total > LARGEST or (partial is None and len(of_group) >= MOST_PARTIAL):
                self._leave_out(group, sender, batch, "there is no room for such a message")
                return
            partial = of_group[sender] = _Partial(batch.first, batch.total)
        if not partial.add(batch):
            del of_group[sender]
            self._leave_out(group, sender, batch, "the fragments of the message do not fit together")
            return
        if partial.missing > 0:
            return
        del of_group[sender]
        self.host.deliver(group, sender, Batch(partial.first, 1, partial.body()), rank)
        if sender == self.me:
            self._came_back(group)

    def _came_back(self, group: GroupId) -> None:
        outgoing = self._outgoing.get(group)
        if outgoing is None:
            return
        outgoing.is_back = True
        if outgoing.end is None:
            del self._outgoing[group]
        # The protocol was told that there is nothing to take; now there may be. Calling it from here would re-enter it.
        if outgoing.refused or outgoing.end is not None:
            self.host.set_timer(_nudge(group), self.host.now)

    def _go_on(self, group: GroupId) -> None:
        """Tells the protocol, now that it may be called, that it can take or leave."""
        outgoing = self._outgoing.get(group)
        if outgoing is not None and outgoing.is_back and outgoing.end is not None:
            del self._outgoing[group]
            outgoing.end(group)
        else:
            self.inner.ready(group)

    def _start_afresh(self, group: GroupId, partial: dict[ProcessId, _Partial]) -> None:
        mine = partial.get(self.me)
        outgoing = self._outgoing.get(group)
        if mine is not None and outgoing is not None:
            outgoing.take_back(mine)
            self.host.set_timer(_nudge(group), self.host.now)
        partial.clear()


class _Outgoing:
    """A large message of ours under way. Each of its bytes is untaken, or on its way, or in our own partial message. One that
    ``is_back`` stays only if the process leaves or closes the group then, so that nothing more is taken before."""

    __slots__ = ("_untaken", "body", "end", "first", "is_back", "refused")

    def __init__(self, batch: Batch, *, is_back: bool = False, end: Callable[[GroupId], None] | None = None) -> None:
        self.first = batch.first
        self.body = batch.body
        self.is_back = is_back
        self.end = end  # what is to be done when the message is back: leave the group, or close it
        self.refused = False
        """Whether the protocol asked for more and got nothing, so that it has to be told when there is something."""
        self._untaken = deque([(0, len(batch.body))] if not is_back else ())

    @property
    def untaken_bytes(self) -> int:
        return sum(end - start for start, end in self._untaken)

    def next_part(self) -> bytes | None:
        """What can be taken next, as long as it is; None: nothing now."""
        self.refused |= not self._untaken
        return self.body[slice(*self._untaken[0])] if self._untaken else None

    def next_fragment(self, max_bytes: int) -> Batch | None:
        if not self._untaken:
            self.refused = True
            return None
        if max_bytes < 1:
            raise ProtocolError(f"a fragment of at most {max_bytes} bytes was asked for; ask for at least 1")
        start, end = self._untaken.popleft()
        cut = min(start + max_bytes, end)
        if cut < end:
            self._untaken.appendleft((cut, end))
        total = len(self.body)
        return Batch(self.first, int(cut == total), self.body[start:cut], start, total)

    def take_back(self, heard: _Partial) -> None:
        """What has been heard is to be sent again, before the rest."""
        self._untaken.extendleft(reversed(heard.spans()))


class _Partial:
    """The fragments of one message that have been heard since it started, or started afresh; those that touch are one."""

    __slots__ = ("_chunks", "_ends", "_total", "first", "missing")

    def __init__(self, first: int, total: int) -> None:
        self.first = first
        self.missing = total
        self._total = total
        self._chunks: dict[int, bytearray] = {}  # by where they begin
        self._ends: dict[int, int] = {}  # where the one begins that ends there

    def add(self, batch: Batch) -> bool:
        """False: it is no fragment of this message, or cannot be beside what is here."""
        start, end = batch.offset, batch.offset + len(batch.body)
        if batch.total != self._total or not start < end <= self._total:
            return False
        # Either nothing of it is here, or it is only repeated. There are few pieces.
        if not all(end <= there or start >= there + len(chunk) for there, chunk in self._chunks.items()):
            return self._is_here(start, batch.body)
        before = self._ends.pop(start, start)
        chunk = self._chunks.setdefault(before, bytearray())
        chunk += batch.body
        chunk += self._chunks.pop(end, b"")
        self._ends[before + len(self._chunks[before])] = before
        self.missing -= len(batch.body)
        return len(self._chunks) <= MOST_SPANS

    def _is_here(self, start: int, body: bytes) -> bool:
        """Whether it is only repeated."""
        pieces = ((start - there, chunk) for there, chunk in self._chunks.items() if there <= start)
        return any(chunk[at : at + len(body)] == body for at, chunk in pieces)

    def spans(self) -> list[tuple[int, int]]:
        """The parts of the message that are here, as (start, end), in order."""
        return [(start, start + len(self._chunks[start])) for start in sorted(self._chunks)]

    def body(self) -> bytes:
        """The message, when nothing is missing."""
        return bytes(self._chunks[0])


def _nudge(group: GroupId) -> Timer:
    return (_LAYER, "nudge", group)
