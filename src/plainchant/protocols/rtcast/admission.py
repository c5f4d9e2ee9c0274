"""Admission control (section 5): promises deadlines, and hands messages to the ring so that they are kept.

The layer stands above the ring. :mod:`.analysis` computes what it may promise; the :mod:`.regulator` says when pieces of promised
messages may go out. In its turn the ring asks for packets until it gets none or T is over; it gets what the regulator has
released, first in first out, and only then messages without a deadline.

**Taking late.** A message that is cut into pieces is only looked at (``peek``) until its last piece goes out; then it is taken
and gets its number. So a sender's messages are numbered in the order in which they become whole, though their pieces alternate,
and an urgent message that was promised late does not wait for a long, slow one. A piece carries the number of its stream in
front; the whole message is delivered with the rank of its last piece. A promised packet for which a turn has no room left waits
for the next turn, and everything behind it too; nothing is squeezed in at the price of one more header.

**A view without a sender drops its partial messages**, at all members at the same place; one that its sender gave up is replaced
by the next one with its number. A joiner takes over what the others have heard of messages that are not whole (``partial``,
``adopt``); nothing has to be sent again, so deadlines stand.

**A larger P.** From the first question (``carries``) until the answer is acted upon, everything is computed with the larger P,
new messages of promised streams too. The answer is no if the promised streams do not fit. It is put off while messages are under
way that were planned with the smaller P: until they are sent and Delta has passed, in which they may be sent again. A P that
grows without a question takes promises back, the latest first, until the rest can be kept, and drops the waiting and partly sent
messages of those streams; a ring that asks first never does this.

**Streams that end.** An aperiodic stream leaves G with its last piece; a periodic one that is released, when all that was handed
over before has gone out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ...core.engine import Engine, Host, Layer
from ...core.model import Admit, Batch, GroupId, Nanoseconds, ProcessId, ProtocolError, Reason, Release, Stream, View
from .advisor import Advisor
from .analysis import NUMBER, SMALLEST, TERMS, Demand, Turn, Verdict, enough
from .parameters import Parameters
from .regulator import Chunk, Flow, Plan, Regulator

_Heard = tuple[ProcessId, int, bytes]
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[_Heard]).decode
_UNPROMISED: Final = (0).to_bytes(NUMBER, "big")


@dataclasses.dataclass(slots=True)
class _Promise:
    """A stream of G."""

    demand: Demand
    flow: Flow
    admitted: Nanoseconds
    plan: Plan | None  # How its one message is sent; None: it has several, and each is planned when it comes
    is_ending: bool = False  # Whether it leaves G when it has no more messages

    @property
    def is_aperiodic(self) -> bool:
        return not self.demand.period


class Admission(Layer, Advisor):
    """Promises deadlines in one group. See the module's docstring."""

    def __init__(self, host: Host, inside: Callable[[Host, Advisor], Engine], group: GroupId, parameters: Parameters) -> None:
        self._group = group
        self._parameters = parameters
        self._hold = 0  # T, as the ring granted it; 0: as parameters say
        self._turn: Turn | None = None  # What is reckoned with; None: there is no ring yet
        self._is_in = False  # Whether this process is in the group; before that P is only that of whom it has found so far
        self._asked_about: Turn | None = None  # The same for a larger P that is voted on
        self._settled: dict[Nanoseconds, Nanoseconds] = {}  # By P: when sent messages that were planned with it have arrived
        self._pending: dict[str, tuple[Stream, Nanoseconds]] = {}  # Streams asked for before we were in the group, and when
        self._promises: dict[str, _Promise] = {}
        self._regulator = Regulator(host.max_packet)
        self._sent = 0  # Bytes of the first message without a deadline that have gone out
        self._passed_over: bytes | None = None  # The message without a deadline for which the last turn had no room
        self._heard: dict[tuple[ProcessId, int], bytearray] = {}  # Messages that are not whole, by sender and stream number
        self._deliver_whole = host.deliver
        super().__init__(host, lambda host: inside(host, self))

    def take(self, group: GroupId, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
        self._look(awaited_only=True)
        chunk = self._regulator.next(self.host.now)
        if chunk is None:
            return self._take_unpromised(max_bytes, most)
        return self._take_promised(chunk) if chunk.size <= max_bytes else None

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        if batch.total == 0:
            self._deliver_whole(group, sender, batch, rank)
            return
        key = sender, int.from_bytes(batch.body[:NUMBER], "big")
        if not batch.offset:
            self._heard[key] = bytearray()
        heard = self._heard.get(key, b"")
        if len(heard) != batch.offset:
            raise ProtocolError(
                f"{sender} sends byte {batch.offset} of a message in stream {key[1]} of which {len(heard)} bytes "
                "have been heard; the ring left a packet out or delivered one twice"
            )
        self._heard[key] += batch.body[NUMBER:]
        if batch.count:
            self._deliver_whole(group, sender, Batch(batch.first, 1, bytes(self._heard.pop(key))), rank)

    def install(self, view: View) -> None:
        for key in [key for key in self._heard if key[0] not in view.members]:
            del self._heard[key]
        self.host.install(view)
        self._is_in = True
        self._decide_pending()

    def left(self, group: GroupId, rank: int | None = None) -> None:
        for known in (self._heard, self._promises, self._regulator.flows, self._pending):
            known.clear()
        self._sent, self._is_in = 0, False
        self._turn = self._asked_about = None
        self.host.left(group, rank)

    def ready(self, group: GroupId) -> None:
        self._look(awaited_only=False)
        self.inner.ready(group)

    def notice(self, event: Any) -> None:
        if isinstance(event, Admit):
            self._ask(event.stream)
        elif isinstance(event, Release):
            self._release(event.stream)
        else:
            self.inner.notice(event)

    def admission(self, group: GroupId) -> Mapping[str, Any] | None:
        turn = self._reckoned()
        if turn is None:
            return {"hold": self._parameters.hold_of(self.me), "rotation": None, "streams": {}}
        used = self._used()
        streams = {}
        for name, promise in self._promises.items():
            demand = promise.demand
            granted = {"visits": turn.visits(demand.deadline), "share": self._share(promise, turn)}
            streams[name] = {**granted, "deadline": demand.deadline, "period": demand.period, "size": demand.size}
        load = {"hold": turn.hold, "used": used, "overhead": turn.reserved, "slack": turn.hold - used}
        times = {"rotation": turn.rotation, "delay": turn.delay}
        return {**load, "utilisation": used / turn.hold, **times, "streams": streams}

    def waiting(self) -> Reason | None:
        reason = self.inner.waiting()
        if reason is not None:
            return reason
        for name, promise in self._promises.items():
            if promise.flow.is_under_way or promise.is_aperiodic:
                return Reason("pieces", f"a message of stream {name!r} of {self.me} is not sent yet", {"stream": name})
        if self._pending:
            return Reason("asked", f"{self.me} has asked for {len(self._pending)} streams, and is not in the group yet")
        if self._sent:
            return Reason("pieces", f"{self._sent} bytes of a message of {self.me} are sent, and not the rest")
        return None

    def rotation(self, period: int, ring: Sequence[ProcessId] = (), hold: int = 0) -> None:
        self._hold = hold
        self._turn = self._turn_with(period, ring)
        self._asked_about = None
        self._settled = {spacing: settled for spacing, settled in self._settled.items() if settled > self.host.now}
        self._keep_what_can_be_kept()
        self._decide_pending()

    def carries(self, period: int, ring: Sequence[ProcessId] = ()) -> bool | None:
        if self._turn is None or period <= self._turn.rotation:
            return True
        if not self._promises and not any(settled > self.host.now for settled in self._settled.values()):
            # A large ring may need all of a short T for itself: that is no reason to refuse a member, as nothing is promised.
            self._asked_about = self._turn_with(period, ring)
            return True
        if self._asked_about is None or self._asked_about.rotation != period:
            self._asked_about = self._turn_with(period, ring)
        turn = self._asked_about
        load = turn.reserved
        now = self.host.now
        is_early = any(spacing < period and settled > now for spacing, settled in self._settled.items())
        for promise in self._promises.values():
            plan = promise.plan or promise.flow.plan
            is_early = is_early or (plan is not None and plan.spacing < period)
            if promise.plan is None:
                visits = turn.visits(promise.demand.deadline)
                load += turn.share(promise.demand, visits) if visits >= 1 else turn.hold + 1
            elif promise.plan.spacing >= period:
                load += promise.plan.share
        if load > turn.hold:
            self._asked_about = None
            return False
        return None if is_early else True

    def decided(self) -> None:
        self._asked_about = None

    def has_messages(self) -> bool:
        return any(
            promise.is_aperiodic or promise.flow.is_under_way or self.host.peek(self._group, name) is not None
            for name, promise in self._promises.items()
        )

    def spare(self) -> int | None:
        turn = self._reckoned()
        return None if turn is None else turn.hold - self._used()

    def partial(self) -> bytes:
        if not self._heard:
            return b""
        return _encode([(sender, number, bytes(heard)) for (sender, number), heard in sorted(self._heard.items())])

    def adopt(self, data: bytes) -> None:
        self._heard = {(sender, number): bytearray(heard) for sender, number, heard in _decode(data)} if data else {}

    def _turn_with(self, period: int, ring: Sequence[ProcessId]) -> Turn:
        return Turn(self._parameters, self.me, period, self.max_packet, ring, self._group, self._hold)

    def _reckoned(self) -> Turn | None:
        """What new promises and new messages are reckoned with."""
        return self._asked_about or self._turn

    def _ask(self, stream: Stream) -> None:
        if stream.name in self._promises or stream.name in self._pending:
            raise ProtocolError(f"stream {stream.name!r} is asked for a second time; release it first")
        self._pending[stream.name] = stream, self.host.now
        self._decide_pending()

    def _decide_pending(self) -> None:
        if self._turn is None or not self._is_in:
            return
        pending, self._pending = self._pending, {}
        for stream, asked in pending.values():
            self._decide(stream, asked)

    def _decide(self, stream: Stream, asked: Nanoseconds) -> None:
        turn = self._reckoned()
        assert turn is not None
        now = self.host.now
        demand = Demand(stream.name, stream.deadline, stream.period, stream.size)
        verdict = turn.judge(demand, self._used(), waited=0 if stream.period else now - asked)
        if verdict.is_admitted:
            plan = None if stream.period else self._plan(demand, verdict.visits, turn)
            flow = self._regulator.add(stream.name)
            self._promises[stream.name] = _Promise(demand, flow, now, plan, is_ending=plan is not None)
            self.host.record("admit", self._group, **self._detail(verdict, turn))
            self.host.admitted(self._group, stream.name)
        else:
            self._reject(verdict, turn)

    def _reject(self, verdict: Verdict, turn: Turn, before: str = "") -> None:
        advice = f"no deadline can be promised: {verdict.hopeless}"
        if verdict.nearest is not None:
            advice = f"the nearest deadline that can be promised is {enough(verdict.nearest)}"
        failed = {"term": TERMS[verdict.term], "nearest_ns": verdict.nearest}
        reason = Reason(verdict.term, f"{before}{verdict.text}; {advice}", {"stream": verdict.demand.name, **failed})
        self.host.record("reject", self._group, **self._detail(verdict, turn), reason=reason.code, text=reason.text, **failed)
        self.host.rejected(self._group, verdict.demand.name, reason)

    def _detail(self, verdict: Verdict, turn: Turn) -> dict[str, Any]:
        demand = verdict.demand
        asked = {"stream": demand.name, "size": demand.size, "cost": turn.cost(demand)}
        times = {"deadline_ns": demand.deadline, "period_ns": demand.period}
        found = {"visits": verdict.visits, "pieces": verdict.pieces, "share": verdict.share, "used": verdict.load}
        return {**asked, **times, **found, "hold": turn.hold, "rotation": turn.rotation, "delay": turn.delay}

    def _used(self) -> Nanoseconds:
        """What G takes of a turn."""
        turn = self._reckoned()
        assert turn is not None
        return turn.reserved + sum(self._share(promise, turn) for promise in self._promises.values())

    def _share(self, promise: _Promise, turn: Turn) -> Nanoseconds:
        """What a stream takes of a turn: its message under way by its plan, and those that come, as they will be planned."""
        if promise.plan is not None:
            return promise.plan.share
        under_way = 0 if promise.flow.plan is None else promise.flow.plan.share
        return max(under_way, turn.share(promise.demand, max(1, turn.visits(promise.demand.deadline))))

    def _keep_what_can_be_kept(self) -> None:
        """Takes promises back until the rest fits; nothing is to be done unless P has grown unasked."""
        turn = self._turn
        assert turn is not None
        while self._promises:
            kept = [promise for promise in self._promises.values() if not promise.is_ending]
            impossible = [promise for promise in kept if turn.visits(promise.demand.deadline) < 1]
            if not kept or (not impossible and self._used() <= turn.hold):
                return
            lost = (impossible or kept)[-1]
            verdict = turn.judge(lost.demand, self._used() - self._share(lost, turn))
            self._forget(lost)
            self._reject(verdict, turn, "P has grown, and what was promised cannot be kept: ")

    def _release(self, name: str) -> None:
        self._pending.pop(name, None)
        promise = self._promises.get(name)
        if promise is not None:
            promise.is_ending = True
            self._begin(promise)
            self._end(promise)

    def _end(self, promise: _Promise) -> None:
        """Takes a stream that ends out of G, if nothing of it is under way."""
        if promise.flow.is_under_way:
            return
        self._forget(promise)
        turn = self._reckoned()
        if turn is not None and not promise.is_aperiodic:
            self.host.record("release", self._group, stream=promise.demand.name, used=self._used(), hold=turn.hold)

    def _forget(self, promise: _Promise) -> None:
        del self._promises[promise.demand.name]
        self._regulator.remove(promise.demand.name)

    def _look(self, *, awaited_only: bool) -> None:
        """Begins what waits at the host: of all streams, or of those whose one message has to be there."""
        for promise in self._promises.values():
            if not promise.flow.is_under_way and (promise.is_aperiodic or not awaited_only):
                self._begin(promise)

    def _begin(self, promise: _Promise) -> None:
        turn = self._reckoned()
        if turn is None or promise.flow.is_under_way:
            return
        due = self.host.peek(self._group, promise.demand.name)
        if due is None:
            return
        plan = promise.plan or self._plan(promise.demand, max(1, turn.visits(promise.demand.deadline)), turn)
        promise.flow.begin(due.payload, max(due.arrived, promise.admitted), plan)

    def _plan(self, demand: Demand, visits: int, turn: Turn) -> Plan:
        piece = max(1, -(-demand.size // turn.pieces(demand, visits)))
        return Plan(piece, turn.rotation, turn.share(demand, visits))

    def _take_promised(self, chunk: Chunk) -> Batch:
        promise = self._promises[chunk.stream]
        flow = promise.flow
        payload, plan = flow.payload, flow.plan
        assert payload is not None and plan is not None and self._turn is not None  # noqa: PT018
        first = self._taken(payload, chunk.stream) if chunk.is_last else 0
        flow.advance(chunk)
        if chunk.is_last:
            self._settled[plan.spacing] = self.host.now + self._turn.delay
            if not promise.is_aperiodic:
                self._begin(promise)
            if promise.is_ending:
                self._end(promise)
        if chunk.is_whole:
            return Batch(first, 1, payload)
        body = chunk.number.to_bytes(NUMBER, "big") + payload[chunk.start : chunk.end]
        return Batch(first, int(chunk.is_last), body, chunk.start, chunk.total)

    def _taken(self, payload: bytes, stream: str = "") -> int:
        """Takes the message that the host has shown; its number."""
        taken = self.host.take(self._group, len(payload), 1, stream)
        if taken is None or taken.body != payload:
            which = f"of stream {stream!r}" if stream else "without a deadline"
            raise ProtocolError(f"the host shows one message {which} and hands over another one")
        return taken.first

    def _take_unpromised(self, max_bytes: int, most: int) -> Batch | None:
        """The next of the messages without a deadline, whole if it fits. One that fits into a packet and not into the rest of a
        turn waits for the next turn, once; a longer one is cut where room ends."""
        due = self.host.peek(self._group)
        if due is None:
            return None
        payload = due.payload
        if not self._sent:
            if len(payload) <= max_bytes:
                self._passed_over = None
                return self.host.take(self._group, max_bytes, most)
            if len(payload) <= self.max_packet and self._passed_over is not payload:
                self._passed_over = payload
                return None
        start = self._sent
        end = min(start + max_bytes - NUMBER, len(payload))
        if end < len(payload) and end - start < SMALLEST:
            return None
        first, self._sent = 0, end
        if end == len(payload):
            first, self._sent, self._passed_over = self._taken(payload), 0, None
        return Batch(first, int(end == len(payload)), _UNPROMISED + payload[start:end], start, len(payload))
