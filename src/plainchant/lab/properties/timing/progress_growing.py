"""Check on a growing trace: progress of messages, and ``bounded`` where it counts from their acceptance.

A wait is judged when every history is known up to the wait's end, so that nothing can be read any more that would excuse it. A
history that has brought nothing for ``ROUNDS`` rounds holds up nothing: what it writes later is later. So a message that waits is
reported while it waits, even if a third process hangs. Where a clock was set, times may run backwards and only the end decides.
Halts are judged as soon as every history is known up to them (``halts``).
Left to the end are also requests, groups without views and senders that are in no view, holes before later deliveries, and what a
process other than the sender lacks of messages that were never taken.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from ....trace.fact import Fact
from ..facts import Message, Place, detail_of, is_timing_fault
from ..growth import Condition, History, RunState
from ..order.growing import ROUNDS
from ..report import say
from .disturbances import FOREVER, Disturbances, Seen, Stretch, sets_clock
from .halts import GrowingHalts
from .progress import common

MAX_ACCEPTED: Final = 20_000  # messages of a process in a group whose times are remembered; the oldest are forgotten first
MAX_SUSPECTED: Final = 20_000  # long waits that are not judged yet

_Stream: TypeAlias = tuple[str, str]  # (process, group)


@dataclasses.dataclass(slots=True)
class _Taken:
    """A message that was sent: when it was accepted and where, and the members of the view in force at the ``send``."""

    accepted: int
    place: Place
    members: frozenset[str] | None
    views: int  # how many views and leaves of the group its sender had before it
    size: int | None
    has_accept: bool


@dataclasses.dataclass(slots=True)
class _Given:
    """A message that was accepted and is not sent yet."""

    at: int
    index: int
    content: int | None
    size: int | None


@dataclasses.dataclass(slots=True)
class _Wait:
    """A delivery that took longer than the bound; a disturbance may excuse it."""

    message: Message
    receiver: str
    since: int
    until: int
    events: tuple[Place, Place]


class _Delivered(NamedTuple):
    """The last delivery of a sender's message at a process."""

    number: int
    at: int


_NOTHING: Final = _Delivered(0, -FOREVER)


class Progress:
    """What processes hand in is delivered within the stated time."""

    def __init__(self) -> None:
        self._bound: int | None = None
        self._answered: int | None = None
        self._halts = GrowingHalts()
        self._accepted: int | None = None  # the bound of ``bounded`` from acceptance to delivery
        self._size: int | None = None
        self._despite: frozenset[str] | None = None
        self._faults: list[tuple[int, str, dict[str, Any]]] = []
        self._moments: set[int] = set()
        self._seen: dict[_Stream, Seen] = {}
        self._views: dict[_Stream, list[tuple[int, frozenset[str]]]] = {}  # when it installed which members; none: it left
        self._members: set[_Stream] = set()
        self._waiting: dict[_Stream, deque[_Given]] = {}
        self._taken: dict[_Stream, dict[int, _Taken]] = {}
        self._last: dict[tuple[str, str, str], _Delivered] = {}  # by receiver, group and sender
        self._early: dict[Message, list[tuple[str, int, int, int]]] = {}
        """Deliveries whose ``send`` is not known yet: receiver, its delivery before, when, index."""
        self._suspected: deque[_Wait] = deque()
        self._reported: set[tuple[Message, str]] = set()
        self._stuck: set[tuple[str, str, int]] = set()  # messages that were reported before they were sent, by their ``accept``
        self._grew: dict[str, int] = {}  # by process: the last round that brought something of it
        self.clockless: set[str] = set()  # with a timing fault, or a clock that was set: only the end excuses them
        self.unordered: set[_Stream] = set()  # streams that were not admitted, or sent in another order than accepted

    def stated(self, detail: dict[str, Any]) -> None:
        """A ``start`` row."""
        self._halts.stated(detail)
        bounds = detail.get("bounds")
        if isinstance(bounds, dict):
            stated = bounds.get("progress")
            if stated is not None:
                self._bound = max(stated, self._bound or 0)
            answered = bounds.get("answer")
            if answered is not None:
                self._answered = max(answered, self._answered or 0)
            self._size = bounds.get("size", self._size)
            self._accepted = bounds.get("accepted", self._accepted)
        if isinstance(detail.get("despite"), list):
            despite = frozenset(kind for kind in detail["despite"] if isinstance(kind, str))
            self._despite = despite if self._despite is None else self._despite & despite

    def saw(self, run: RunState, fact: Fact) -> None:
        """Any row that is not about a message that was sent."""
        self._grew[fact.process] = run.round
        at, place = _at(fact), (fact.process, fact.group or "")
        match fact.kind:
            case "start":
                self._moments.add(at)
            case "crash":
                self._moments.add(at)
                views = {group: installed for (name, group), installed in self._views.items() if name == fact.process}
                self._halts.stopped(run, fact.process, at, fact.index, detail_of(fact.detail), views)
            case "request" if fact.group is not None:
                self._moments.add(at)
                self._halts.requested(fact.process, fact.group, detail_of(fact.detail))
            case "fault":
                detail = detail_of(fact.detail)
                self._faults.append((at, fact.process, detail))
                sets = sets_clock(detail) and fact.true_time is None
                if sets or is_timing_fault(detail) or isinstance(detail.get("took_ns"), int):
                    self.clockless.add(fact.process)
            case "join" if fact.group is not None:
                self._enter(place, at)
            case "leave" if fact.group is not None:
                if place in self._members:
                    self._members.discard(place)
                    self._moments.add(at)
                    self._halts.left(*place, at)
                self._views.setdefault(place, []).append((at, frozenset()))
            case "view" if fact.group is not None:
                self._view(place, at, frozenset(fact.members or ()))
            case "accept" if fact.group is not None:
                for offset in range(fact.count):
                    content = fact.digests[offset] if fact.digests is not None else fact.size
                    given = _Given(at, fact.index + offset, content, fact.size)
                    self._waiting.setdefault(place, deque()).append(given)
            case "reject" if fact.seq is None and fact.group is not None:
                self.unordered.add(place)

    def _enter(self, place: _Stream, at: int) -> None:
        if place not in self._members:
            self._members.add(place)
            self._moments.add(at)
            self._halts.entered(*place, at)

    def _view(self, place: _Stream, at: int, members: frozenset[str]) -> None:
        if self._seen.setdefault(place, Seen()).changes(members):
            self._moments.add(at)
        if place[0] in members:
            self._enter(place, at)
        self._views.setdefault(place, []).append((at, members))

    def sent(self, run: RunState, fact: Fact, message: Message, index: int) -> None:
        group, sender, number = message
        stream, at = (sender, group), _at(fact)
        self._grew[sender] = run.round
        content = fact.digests[number - (fact.seq or number)] if fact.digests is not None else fact.size
        waiting = self._waiting.get(stream, deque())
        place = next((place for place, given in enumerate(waiting) if given.content == content), None)
        given = _Given(at, index, content, fact.size)
        if place is not None:
            given = waiting[place]
            del waiting[place]
            if place:
                self.unordered.add(stream)
        in_force = run.histories[sender].in_force.get(group)
        members = None if in_force is None else run.views[in_force].members
        taken = self._taken.setdefault(stream, {})
        views = len(self._views.get(stream, ()))
        taken[number] = _Taken(given.at, (sender, given.index), members, views, given.size, place is not None)
        if (sender, group, given.index) in self._stuck:
            self._reported.add((message, sender))
        if len(taken) > MAX_ACCEPTED:
            del taken[next(iter(taken))]
            run.late += 1
        for receiver, before, delivered, where in self._early.pop(message, ()):
            self._compare(run, message, receiver, before, delivered, where)

    def delivered(self, run: RunState, fact: Fact, message: Message, index: int) -> None:
        """The first delivery of a message at a process."""
        group, sender, number = message
        at = _at(fact)
        self._grew[fact.process] = run.round
        before = self._last.get((fact.process, group, sender), _NOTHING).at
        self._last[fact.process, group, sender] = _Delivered(number, at)
        if number in self._taken.get((sender, group), {}):
            self._compare(run, message, fact.process, before, at, index)
        elif number > run.histories[sender].sent.get(group, 0) if sender in run.histories else True:
            self._early.setdefault(message, []).append((fact.process, before, at, index))
            if len(self._early) > MAX_ACCEPTED:
                del self._early[next(iter(self._early))]
                run.late += 1

    def _compare(self, run: RunState, message: Message, receiver: str, before: int, at: int, index: int) -> None:
        taken = self._taken[message[1], message[0]][message[2]]
        if self._is_too_large(taken.size):
            return
        if self._accepted is not None and taken.has_accept:
            self._bounded(run, message, receiver, taken, at, index)
        if self._bound is None:
            return
        run.book.case("progress")
        since = max(taken.accepted, before)
        if at - since > self._bound and (message, receiver) not in self._reported:
            self._suspected.append(_Wait(message, receiver, since, at, (taken.place, (receiver, index))))
            if len(self._suspected) > MAX_SUSPECTED:
                self._suspected.popleft()
                run.late += 1

    def _bounded(self, run: RunState, message: Message, receiver: str, taken: _Taken, at: int, index: int) -> None:
        assert self._accepted is not None
        run.book.case("bounded")
        took = at - taken.accepted
        if took > self._accepted:
            told = f"{receiver} delivers {say(message)} {took} ns after it was accepted; the bound is {self._accepted} ns"
            events = [taken.place, (receiver, index)]
            unless = [Condition("timing", process) for process in dict.fromkeys((receiver, message[1]))]
            run.book.violation("bounded", told, run.histories[receiver].time, events, messages=[message], unless=unless)

    def tick(self, run: RunState, *, over: bool = False) -> None:
        """Judges what nothing that is still unread can excuse."""
        self._forget(run)
        longest = max(self._bound or 0, self._answered or 0)
        if not longest:
            return
        now = {history.name: _now(history) for history in run.histories.values()}
        halts = self._halts.ready(run, now, over=over)
        waits: list[_Wait] = []
        untaken: list[tuple[_Stream, _Given, Stretch]] = []
        if self._bound is not None:
            reached = FOREVER if over else self._horizon(run)
            waits, untaken = [*self._ready(run, reached), *self._lacked(run, reached)], [*self._untaken(run, reached)]
        if not (waits or untaken or halts):
            return
        disturbances = Disturbances(self._despite or frozenset(), self._faults, self._moments)
        for halt in halts:
            self._halts.judge(run, halt, longest, disturbances, now)
        for wait in waits:
            self._judge(run, wait, disturbances)
        for stream, given, span in untaken:
            self._judge_untaken(run, stream, given, span, disturbances)

    def _horizon(self, run: RunState) -> int:
        """Up to when everything is known."""
        growing = [history for history in run.histories.values() if run.round - self._grew.get(history.name, 0) < ROUNDS]
        return min((_now(history) for history in growing if not history.final), default=-FOREVER)

    def _ready(self, run: RunState, reached: int) -> Iterator[_Wait]:
        for _ in range(len(self._suspected)):
            wait = self._suspected.popleft()
            sender = run.histories[wait.message[1]]
            if wait.until <= reached and (sender.final or reached == FOREVER or wait.until <= _now(sender)):
                yield wait
            else:
                self._suspected.append(wait)

    def _lacked(self, run: RunState, reached: int) -> Iterator[_Wait]:
        """Messages that wait too long now: of each sender, the first one that a process owes and has not delivered."""
        assert self._bound is not None
        for (sender, group), taken in self._taken.items():
            p = run.histories[sender]
            for q in run.histories.values():
                last = self._last.get((q.name, group, sender), _NOTHING)
                first = self._first_lacking(taken, q, last.number)
                if first is None or self._is_too_large(taken[first].size):
                    continue
                later = self._views.get((sender, group), [])[taken[first].views :]
                # When p left or installed a view without q: then q owes it nothing any more.
                parted = next((at for at, members in later if q.name not in members), FOREVER)
                until = min(_now(p), _now(q), reached, parted)
                since = taken[first].accepted
                if last.number == first - 1:
                    since = max(since, last.at)
                message = (group, sender, first)
                if until - since > self._bound and (message, q.name) not in self._reported:
                    yield _Wait(message, q.name, since, until, (taken[first].place, (q.name, q.expected - 1)))

    @staticmethod
    def _first_lacking(taken: dict[int, _Taken], q: History, passed: int) -> int | None:
        highest = next(reversed(taken), 0)
        if passed >= highest:
            return None
        for number in range(max(passed + 1, next(iter(taken))), highest + 1):
            members = taken[number].members
            if members is not None and q.name in members:
                return number
        return None

    def _untaken(self, run: RunState, reached: int) -> Iterator[tuple[_Stream, _Given, Stretch]]:
        """Messages that their sender waits for to be taken, after everything before them was delivered to it."""
        assert self._bound is not None
        for (sender, group), waiting in self._waiting.items():
            p = run.histories[sender]
            if not waiting or (sender, group, waiting[0].index) in self._stuck or self._is_too_large(waiting[0].size):
                continue
            last = self._last.get((sender, group, sender), _NOTHING)
            if last.number < p.sent.get(group, 0):
                continue
            since = max(waiting[0].at, last.at)
            until = min(_now(p), reached)
            if until - since > self._bound:
                yield (sender, group), waiting[0], (since, until)

    def _judge(self, run: RunState, wait: _Wait, disturbances: Disturbances) -> None:
        assert self._bound is not None
        group, sender, number = wait.message
        waited = self._waited(run, group, sender, wait.receiver, (wait.since, wait.until), disturbances)
        if not waited or (wait.message, wait.receiver) in self._reported:
            return
        self._reported.add((wait.message, wait.receiver))
        is_delivered = self._last.get((wait.receiver, group, sender), _NOTHING).number >= number
        does = f"delivers {say(wait.message)} late" if is_delivered else f"does not deliver {say(wait.message)}"
        if not is_delivered:
            run.book.case("progress")
        unless = [Condition("clock", process) for process in dict.fromkeys((sender, wait.receiver))]
        told = f"{wait.receiver} {does}: it waits {waited} ns while nothing disturbs the run; the bound is {self._bound} ns"
        time, events = run.histories[wait.receiver].time, list(dict.fromkeys(wait.events))
        run.book.violation("progress", told, time, events, messages=[wait.message], unless=unless)

    def _judge_untaken(self, run: RunState, stream: _Stream, given: _Given, span: Stretch, disturbances: Disturbances) -> None:
        sender, group = stream
        waited = self._waited(run, group, sender, sender, span, disturbances)
        if not waited:
            return
        self._stuck.add((sender, group, given.index))
        run.book.case("progress")
        told = f"{sender} does not deliver a message that {sender} accepted in {group} and never sent: it waits {waited} ns"
        told = f"{told} while nothing disturbs the run; the bound is {self._bound} ns"
        history, unless = run.histories[sender], [Condition("clock", sender), Condition("untaken", sender, group)]
        events = list(dict.fromkeys([(sender, given.index), (sender, history.expected - 1)]))
        run.book.violation("progress", told, history.time, events, group=group, unless=unless)

    def _waited(self, run: RunState, group: str, p: str, q: str, span: Stretch, disturbances: Disturbances) -> int:
        """The longest time in a span in which p and q name each other and nothing disturbs, if longer than the bound; else 0."""
        assert self._bound is not None
        stretches = [*common([*self._naming(run.histories[q], group, p)], [span])]
        if p != q:
            stretches = [*common(stretches, [*self._naming(run.histories[p], group, q)])]
        return max((disturbances.longest_free(*stretch, self._bound, (p, q)) for stretch in stretches), default=0)

    def _naming(self, history: History, group: str, other: str) -> Iterator[Stretch]:
        """When the last view that a process has installed names another process, as far as its history is known."""
        since: int | None = None
        for at, members in self._views.get((history.name, group), ()):
            if other in members:
                since = at if since is None else since
            elif since is not None:
                yield since, at
                since = None
        if since is not None:
            yield since, _now(history)

    def _forget(self, run: RunState) -> None:
        """Forgets messages that all members have passed."""
        for (sender, group), taken in self._taken.items():
            members = [history.name for history in run.histories.values() if history.member.get(group) and not history.final]
            passed = min((self._last.get((name, group, sender), _NOTHING).number for name in members), default=0)
            for number in [number for number in taken if number < passed]:
                del taken[number]
                for name in run.histories:
                    self._reported.discard(((group, sender, number), name))

    def _is_too_large(self, size: int | None) -> bool:
        return self._size is not None and size is not None and size > self._size


def _at(fact: Fact) -> int:
    return fact.time if fact.true_time is None else fact.true_time


def _now(history: History) -> int:
    return history.time if history.true_time is None else history.true_time
