"""Messages larger than a packet: cut at the sender, joined at every member at the same point, whoever joins or goes."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plainchant.core.engine import Engine, Host
from plainchant.core.model import Batch, GroupId, ProcessId, ProtocolError, Reason, Timer, View, pack, unpack
from plainchant.layers.fragmentation import MOST_PARTIAL, MOST_SPANS, Fragmentation

from ..fakes import FakeHost, as_host
from ..fuzz.sizes import size_of

G = "g"
NUDGE = ("fragmentation", "nudge", G)


class Toy(Engine):
    """The smallest engine that takes: it remembers whether it was told that there is something."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.eager = False
        self.expired: list[Timer] = []
        self.reason: Reason | None = None
        self.left: list[GroupId] = []

    def leave(self, group: GroupId) -> None:
        self.left.append(group)

    def close(self, group: GroupId) -> None:
        self.left.append(f"close {group}")

    def ready(self, group: GroupId) -> None:
        self.eager = True

    def expire(self, timer: Timer) -> None:
        self.expired.append(timer)

    def waiting(self) -> Reason | None:
        return self.reason

    def take(self, max_bytes: int, group: GroupId = G) -> Batch | None:
        batch = self.host.take(group, max_bytes)
        self.eager = batch is not None
        assert batch is None or len(batch.body) <= max_bytes
        return batch


class Process:
    """A process: the fake host outside, the layer, the toy engine inside."""

    def __init__(self, name: ProcessId) -> None:
        self.host = FakeHost(name)
        self.layer = Fragmentation(as_host(self.host), Toy)
        assert isinstance(self.layer.inner, Toy)
        self.engine = self.layer.inner

    def submit(self, body: bytes) -> None:
        """As a host does: the engine hears of it if there was nothing before."""
        nothing = not self.host.has_messages(G)
        self.host.submit(G, body)
        if nothing:
            self.layer.ready(G)

    def take_all(self, max_bytes: int) -> list[Batch]:
        batches = []
        while (batch := self.engine.take(max_bytes)) is not None:
            batches.append(batch)
        return batches

    def deliver(self, sender: ProcessId, *batches: Batch, rank: int | None = None) -> None:
        for batch in batches:
            self.engine.host.deliver(G, sender, batch, rank)

    def install(self, number: int, members: str, joined: str = "") -> None:
        self.engine.host.install(View(G, number, tuple(members), tuple(joined)))

    def fire(self) -> None:
        """Lets the timers that are due expire."""
        for timer in [timer for timer, at in self.host.timers.items() if at <= self.host.time]:
            del self.host.timers[timer]
            self.layer.expire(timer)

    @property
    def delivered(self) -> list[tuple[ProcessId, Batch]]:
        return [(sender, batch) for _, sender, batch, _ in self.host.called("deliver")]


@pytest.fixture
def a() -> Process:
    return Process("a")


@pytest.fixture
def b() -> Process:
    return Process("b")


# --- cutting and joining --------------------------------------------------------------------------------------------


def test_what_fits_is_passed_on_untouched(a: Process) -> None:
    a.submit(b"one")
    a.submit(b"two")
    batch = a.engine.take(100)
    assert batch == pack(1, [b"one", b"two"])
    a.deliver("a", batch, rank=4)
    assert a.host.called("deliver") == [(G, "a", batch, 4)]


def test_a_message_of_exactly_the_size_asked_for_stays_whole(a: Process) -> None:
    a.submit(bytes(10))
    assert a.take_all(10) == [Batch(1, 1, bytes(10))]


def test_the_limit_on_the_number_of_messages_reaches_the_host(a: Process) -> None:
    for body in (b"one", b"two", b"three"):
        a.submit(body)
    assert a.layer.take(G, 100, 2) == pack(1, [b"one", b"two"])


def test_a_large_message_is_cut_and_its_last_fragment_counts(a: Process) -> None:
    a.submit(b"abcdefgh")
    assert a.take_all(3) == [Batch(1, 0, b"abc", 0, 8), Batch(1, 0, b"def", 3, 8), Batch(1, 1, b"gh", 6, 8)]


def test_fragments_are_as_large_as_each_take_allows(a: Process) -> None:
    a.submit(b"abcdefgh")
    assert [a.layer.take(G, size) for size in (1, 5, 9)] == [
        Batch(1, 0, b"a", 0, 8),
        Batch(1, 0, b"bcdef", 1, 8),
        Batch(1, 1, b"gh", 6, 8),
    ]


def test_a_message_is_delivered_whole_with_the_rank_of_the_fragment_that_completes_it(a: Process, b: Process) -> None:
    a.submit(b"abcdefgh")
    for rank, fragment in enumerate(a.take_all(3), start=10):
        assert b.delivered == []
        b.deliver("a", fragment, rank=rank)
    assert b.host.called("deliver") == [(G, "a", Batch(1, 1, b"abcdefgh"), 12)]


def test_fragments_of_different_senders_and_groups_do_not_mix(b: Process) -> None:
    b.engine.host.deliver(G, "x", Batch(1, 0, b"x1", 0, 4))
    b.engine.host.deliver(G, "y", Batch(1, 0, b"y1", 0, 4))
    b.engine.host.deliver("h", "x", Batch(1, 0, b"z1", 0, 4))
    b.engine.host.deliver("h", "x", Batch(1, 1, b"z2", 2, 4))
    b.engine.host.deliver(G, "y", Batch(1, 1, b"y2", 2, 4))
    b.engine.host.deliver(G, "x", Batch(1, 1, b"x2", 2, 4))
    assert [(group, batch.body) for group, _, batch, _ in b.host.called("deliver")] == [
        ("h", b"z1z2"),
        (G, b"y1y2"),
        (G, b"x1x2"),
    ]


def test_a_whole_batch_of_one_sender_does_not_wait_for_the_partial_message_of_another(b: Process) -> None:
    b.deliver("x", Batch(1, 0, b"x1", 0, 4))
    b.deliver("y", Batch(1, 1, b"small"))
    assert b.delivered == [("y", Batch(1, 1, b"small"))]


# --- one large message at a time ------------------------------------------------------------------------------------


def test_nothing_follows_a_large_message_until_it_has_come_back(a: Process) -> None:
    a.submit(b"abcd")
    a.submit(b"next")
    fragments = a.take_all(2)
    assert len(fragments) == 2
    a.deliver("a", fragments[0])
    a.fire()
    assert a.take_all(4) == []
    a.deliver("a", fragments[1])
    a.fire()
    assert a.engine.eager
    assert a.take_all(4) == [Batch(2, 1, b"next")]


def test_the_engine_is_not_called_back_from_within_its_own_delivery(a: Process) -> None:
    a.submit(b"abcd")
    a.host.time = 7
    a.deliver("a", *a.take_all(2))
    assert not a.engine.eager
    assert a.host.timers == {NUDGE: 7}


def test_an_engine_that_was_refused_nothing_needs_no_nudge(a: Process) -> None:
    a.submit(b"abcd")
    fragments = [a.engine.take(2), a.engine.take(2)]
    a.deliver("a", *(fragment for fragment in fragments if fragment is not None))
    assert a.host.timers == {}
    assert a.delivered == [("a", Batch(1, 1, b"abcd"))]


def test_a_process_waits_for_its_large_message_to_come_back(a: Process) -> None:
    a.submit(b"abcd")
    first = a.engine.take(3)
    assert first is not None
    reason = a.layer.waiting()
    assert reason is not None
    assert reason.text == "message 1 of a in g (4 bytes) has not come back whole"
    assert reason.evidence == {"group": G, "first": 1, "bytes_untaken": 1}
    a.deliver("a", first, *a.take_all(3))
    assert a.layer.waiting() is None


def test_what_the_engine_waits_for_comes_first(a: Process) -> None:
    a.engine.reason = Reason("busy", "busy")
    a.submit(b"abcd")
    a.engine.take(3)
    assert a.layer.waiting() == Reason("busy", "busy")


# --- timers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timer", ["retry", "nudge", "fgh", ("g", "retry"), ("fragmentation", G)])
def test_timers_of_the_engine_are_passed_in(a: Process, timer: Timer) -> None:
    a.layer.expire(timer)
    assert a.engine.expired == [timer]


def test_its_own_timer_tells_the_engine_that_there_is_something_to_take(a: Process) -> None:
    a.layer.expire(NUDGE)
    assert a.engine.expired == []
    assert a.engine.eager


# --- views ----------------------------------------------------------------------------------------------------------


def test_a_joiner_in_the_middle_of_a_message_delivers_it_with_the_others(a: Process) -> None:
    a.submit(b"abcdef")
    ab, cd, ef = (a.engine.take(2) for _ in range(3))
    assert ab is not None
    assert cd is not None
    assert ef is not None
    j, b = Process("j"), Process("b")
    for process in (a, b):
        process.deliver("a", ab)
        process.install(2, "abj", joined="j")
    j.install(2, "abj", joined="j")
    for process in (a, b, j):
        process.deliver("a", cd, ef)
        assert process.delivered == []
    a.fire()
    assert a.engine.eager
    (again,) = a.take_all(2)
    assert again == ab
    for process in (a, b, j):
        process.deliver("a", again)
        assert process.delivered == [("a", Batch(1, 1, b"abcdef"))]


def test_only_what_was_heard_before_the_view_is_sent_again(a: Process) -> None:
    a.submit(b"abcdefgh")
    heard, on_its_way = a.engine.take(2), a.engine.take(2)
    assert heard is not None
    assert on_its_way is not None
    a.deliver("a", heard)
    a.install(2, "aj", joined="j")
    assert [fragment.offset for fragment in a.take_all(2)] == [0, 4, 6]


def test_another_join_while_fragments_come_again_starts_afresh_once_more(a: Process) -> None:
    a.submit(b"abcd")
    a.deliver("a", *[fragment for fragment in (a.engine.take(1), a.engine.take(1)) if fragment is not None])
    a.install(2, "aj", joined="j")
    again = a.engine.take(1)
    assert again is not None
    a.deliver("a", again)
    a.install(3, "ajk", joined="k")
    rest = a.take_all(1)
    assert [fragment.body for fragment in rest] == [b"a", b"b", b"c", b"d"]
    j, k = Process("j"), Process("k")
    j.deliver("a", again)
    j.install(3, "ajk", joined="k")
    k.install(3, "ajk", joined="k")
    for process in (a, j, k):
        process.deliver("a", *rest)
        assert process.delivered == [("a", Batch(1, 1, b"abcd"))]


def test_a_view_without_joiners_changes_nothing_for_those_who_stay(b: Process) -> None:
    b.deliver("a", Batch(1, 0, b"ab", 0, 4))
    b.install(2, "ab")
    b.deliver("a", Batch(1, 1, b"cd", 2, 4))
    assert b.delivered == [("a", Batch(1, 1, b"abcd"))]


def test_a_partial_message_disappears_with_the_view_that_removes_its_sender(b: Process) -> None:
    b.deliver("a", Batch(1, 0, b"ab", 0, 4))
    b.deliver("c", Batch(1, 0, b"wx", 0, 4))
    b.install(2, "bc")
    b.deliver("a", Batch(1, 1, b"cd", 2, 4))
    b.deliver("c", Batch(1, 1, b"yz", 2, 4))
    assert b.delivered == [("c", Batch(1, 1, b"wxyz"))]


def test_views_are_passed_on(b: Process) -> None:
    b.install(1, "ab", joined="ab")
    b.engine.host.left(G, 5)
    assert b.host.calls == [("install", View(G, 1, ("a", "b"), ("a", "b"))), ("left", G, 5)]


def test_a_process_that_left_starts_with_nothing(a: Process) -> None:
    a.submit(b"abcd")
    a.deliver("a", *a.take_all(3)[:1])
    a.install(2, "aj", joined="j")
    a.engine.host.left(G)
    assert a.host.timers == {}
    assert a.layer.waiting() is None
    a.submit(b"new")
    assert a.take_all(3) == [Batch(2, 1, b"new")]


def test_a_process_leaves_at_once_if_nothing_large_is_under_way(a: Process) -> None:
    a.submit(b"abcd")
    a.layer.leave(G)
    assert a.engine.left == [G]


@pytest.mark.parametrize("taken_before", [1, 2])
def test_a_process_leaves_when_its_large_message_is_back_and_takes_no_other(a: Process, taken_before: int) -> None:
    a.submit(b"abcd")
    a.submit(b"never")
    before = [fragment for fragment in (a.engine.take(2) for _ in range(taken_before)) if fragment is not None]
    a.layer.leave(G)
    after = a.take_all(2)
    assert len(before + after) == 2
    a.deliver("a", *before, *after)
    assert a.delivered == [("a", Batch(1, 1, b"abcd"))]
    assert a.take_all(5) == []
    assert a.engine.left == []
    a.fire()
    assert a.engine.left == [G]
    assert a.layer.waiting() is None


def test_a_join_does_not_lose_the_message_of_a_process_that_is_leaving(a: Process) -> None:
    a.submit(b"abcd")
    heard = a.engine.take(2)
    assert heard is not None
    a.deliver("a", heard)
    a.layer.leave(G)
    a.install(2, "aj", joined="j")
    a.fire()
    a.deliver("a", *a.take_all(2))
    a.fire()
    assert a.delivered == [("a", Batch(1, 1, b"abcd"))]
    assert a.engine.left == [G]


# --- broken contracts -----------------------------------------------------------------------------------------------


def test_a_host_that_packs_too_much_is_found_out(a: Process) -> None:
    a.host.take = lambda group, max_bytes, most=0, stream="": pack(1, [b"abc", b"def"])  # type: ignore[method-assign]
    with pytest.raises(ProtocolError, match="the host packed 2 messages into 11 bytes, and 5 were asked for"):
        a.layer.take(G, 5)


def test_a_fragment_of_no_bytes_cannot_be_asked_for(a: Process) -> None:
    a.submit(b"abc")
    with pytest.raises(ProtocolError, match="at most 0 bytes was asked for"):
        a.layer.take(G, 0)


def test_a_repeated_fragment_does_not_complete_a_message(b: Process) -> None:
    b.deliver("a", Batch(1, 0, b"ab", 0, 4), Batch(1, 0, b"ab", 0, 4))
    assert b.delivered == []
    b.deliver("a", Batch(1, 1, b"cd", 2, 4))
    assert b.delivered == [("a", Batch(1, 1, b"abcd"))]


def test_fragments_that_overlap_are_no_message_at_all(b: Process) -> None:
    b.deliver("a", Batch(1, 0, b"ab", 0, 4))
    b.deliver("a", Batch(1, 1, b"xyz", 1, 4))
    b.deliver("a", Batch(1, 1, b"cd", 2, 4))
    assert b.delivered == []
    b.deliver("a", Batch(2, 0, b"ab", 0, 4), Batch(2, 1, b"cd", 2, 4))
    assert b.delivered == [("a", Batch(2, 1, b"abcd"))]


def test_a_fragment_beyond_the_end_of_its_message_is_left_out(b: Process) -> None:
    b.deliver("a", Batch(1, 0, b"ab", 3, 4), Batch(1, 0, b"", 0, 4), Batch(1, 0, b"abcd", 0, 1 << 40))
    assert b.delivered == []
    assert size_of(b.layer._partial) < 100


def test_a_partial_message_is_kept_in_few_pieces_however_it_is_cut(b: Process) -> None:
    for offset in range(0, 20 * MOST_SPANS, 2):  # every other byte: nothing touches anything
        b.deliver("a", Batch(1, 0, b"x", offset, 1 << 20))
    assert size_of(b.layer._partial) < 10 * MOST_SPANS


def test_no_more_messages_are_partial_than_there_is_room_for(b: Process) -> None:
    for number in range(MOST_PARTIAL + 500):
        b.deliver(f"stranger {number}", Batch(1, 0, b"x", 0, 1 << 20))
    assert size_of(b.layer._partial) < 6 * MOST_PARTIAL
    b.deliver("a", Batch(1, 1, b"whole"))
    assert b.delivered == [("a", Batch(1, 1, b"whole"))]


# --- against a total order ------------------------------------------------------------------------------------------


class Member(Process):
    """A process of a TotalOrder. What it has taken waits in ``pipe``; it has heard the order up to ``position``."""

    def __init__(self, name: ProcessId, position: int) -> None:
        super().__init__(name)
        self.joined_at = self.position = position
        self.removed_at: int | None = None
        self.pipe: deque[Batch] = deque()
        self.submitted: list[bytes] = []

    def send(self, size: int) -> None:
        body = (f"{self.host.me}/{len(self.submitted)}/".encode() * size)[:size]
        self.submitted.append(body)
        self.submit(body)

    def take(self, max_bytes: int) -> None:
        # A process that has not heard of its own joining yet takes nothing, like one that was told there is nothing.
        if self.engine.eager and self.position > self.joined_at and self.removed_at is None:
            batch = self.engine.take(max_bytes)
            if batch is not None:
                self.pipe.append(batch)

    def messages(self, start: int, end: int) -> list[tuple[int, ProcessId, int, bytes]]:
        """What it delivered at these places of the order: place, sender, number, payload."""
        return [
            (place, sender, batch.first + i, payload)
            for _, sender, batch, place in self.host.called("deliver")
            if start <= place < end
            for i, payload in enumerate(unpack(batch))
        ]


class TotalOrder:
    """The toy protocol: one list of batches and views, which every process hears at its own pace."""

    def __init__(self) -> None:
        self.order: list[View | tuple[ProcessId, Batch]] = []
        self.everybody: list[Member] = []
        self.number = 0
        self.change(joined=("p0", "p1"))

    @property
    def present(self) -> list[Member]:
        return [process for process in self.everybody if process.removed_at is None]

    def change(self, joined: tuple[ProcessId, ...] = (), removed: Member | None = None) -> None:
        if removed is not None:
            removed.removed_at = len(self.order)
        self.everybody += [Member(name, len(self.order)) for name in joined]
        self.number += 1
        self.order.append(View(G, self.number, tuple(process.host.me for process in self.present), joined))

    def sequence(self, process: Member) -> None:
        """The next batch of a process gets its place in the order."""
        if process.pipe and process.removed_at is None:
            self.order.append((process.host.me, process.pipe.popleft()))

    def hear(self, process: Member) -> None:
        end = len(self.order) if process.removed_at is None else process.removed_at
        if process.position < end:
            place, process.position = process.position, process.position + 1
            entry = self.order[place]
            if isinstance(entry, View):
                process.engine.host.install(entry)
            else:
                process.deliver(entry[0], entry[1], rank=place)

    def drain(self) -> None:
        """Everything that was submitted takes its way; the bound is far above what is needed."""
        for _ in range(2_000):
            before = (len(self.order), sum(process.position for process in self.everybody))
            for process in self.everybody:
                process.fire()
                process.take(5)
                self.sequence(process)
                self.hear(process)
            if before == (len(self.order), sum(process.position for process in self.everybody)) and not any(
                process.engine.eager or process.host.timers for process in self.present
            ):
                return
        raise AssertionError("the group does not get quiet")


def members_agree(group: TotalOrder) -> None:
    """Where two processes were members at the same places of the order, they delivered the same at the same places."""
    for p in group.everybody:
        for q in group.everybody:
            start = max(p.joined_at, q.joined_at)
            end = min(process.removed_at or len(group.order) for process in (p, q))
            assert p.messages(start, end) == q.messages(start, end), (p.host.me, q.host.me)


def messages_are_what_was_sent(group: TotalOrder) -> None:
    """In the order of sending, once, unchanged; all of them, if the sender is still there."""
    end = len(group.order)
    for sender in group.everybody:
        own = [(number, payload) for _, name, number, payload in sender.messages(0, end) if name == sender.host.me]
        assert own == list(enumerate(sender.submitted, start=1))[: len(own)]
        if sender.removed_at is None:
            assert len(own) == len(sender.submitted)
            assert sender.layer.waiting() is None


WHO = st.integers(0, 4)
ACTIONS = st.one_of(
    st.tuples(st.just("send"), WHO, st.integers(0, 30)),
    st.tuples(st.just("take"), WHO, st.integers(1, 8)),
    st.tuples(st.just("take"), WHO, st.integers(1, 8)),
    st.tuples(st.just("sequence"), WHO, st.integers(1, 3)),
    st.tuples(st.just("hear"), WHO, st.integers(1, 6)),
    st.tuples(st.just("hear"), WHO, st.integers(1, 6)),
    st.tuples(st.just("change"), WHO, st.integers(0, 2)),
)


def perform(group: TotalOrder, what: str, who: int, amount: int) -> None:
    process = group.present[who % len(group.present)]
    match what:
        case "send":
            process.send(amount)
        case "take":
            process.fire()
            process.take(amount)
        case "sequence":
            for _ in range(amount):
                group.sequence(process)
        case "hear":
            for _ in range(amount):
                group.hear(process)
        case "change":
            joined = (f"p{len(group.everybody)}",) if amount > 0 else ()
            removed = process if amount != 1 and len(group.present) > 1 else None
            group.change(joined, removed)


@settings(max_examples=300)
@given(st.lists(ACTIONS, min_size=10, max_size=80))
def test_members_deliver_the_same_at_the_same_places_whoever_joins_or_goes(actions: list[tuple[str, int, int]]) -> None:
    group = TotalOrder()
    for action in actions:
        perform(group, *action)
    group.drain()
    members_agree(group)
    messages_are_what_was_sent(group)


@pytest.mark.parametrize("joins", range(1, 7))
@pytest.mark.parametrize("pipeline", [1, 2, 5])
def test_a_message_arrives_although_somebody_joins_after_each_of_its_fragments(joins: int, pipeline: int) -> None:
    group = TotalOrder()
    sender, _ = group.everybody
    group.hear(sender)
    sender.send(12)
    sender.send(3)
    for _ in range(joins):
        for _ in range(pipeline):
            perform(group, "take", 0, 3)
        group.sequence(sender)
        group.change(joined=(f"p{len(group.everybody)}",))
        group.hear(sender)
        group.hear(sender)
    group.drain()
    members_agree(group)
    messages_are_what_was_sent(group)
    assert len(group.everybody[-1].messages(0, len(group.order))) == 2


# --- parts that come together -----------------------------------------------------------------------------------------


def test_a_merge_starts_messages_afresh_in_every_part(a: Process, b: Process) -> None:
    """a and c were one part, b and d another; a and b each have a message under way, of which their parts have heard some."""
    c, d = Process("c"), Process("d")
    parts = {"ac": (a, c), "bd": (b, d)}
    for names, part in parts.items():
        part[0].submit(b"abcdefgh")
        first = part[0].engine.take(3)
        assert first is not None
        for process in part:
            process.install(1, names)
            process.deliver(part[0].host.me, first)
    for names, part in parts.items():
        for process in part:
            process.install(5, "abcd", "".join(name for name in "abcd" if name not in names))
            process.fire()
    for sender in (a, b):
        for batch in sender.take_all(3):
            for process in (a, b, c, d):
                process.deliver(sender.host.me, batch)
    for process in (a, b, c, d):
        assert process.delivered == [("a", Batch(1, 1, b"abcdefgh")), ("b", Batch(1, 1, b"abcdefgh"))]


def test_who_comes_back_from_another_part_continues_nothing_that_it_had_begun(a: Process, b: Process) -> None:
    """b hears a's first fragment, is lost, and is back: what a's part has delivered since is none of its business."""
    a.submit(b"abcdefgh")
    first, *rest = a.take_all(3)
    b.install(1, "ab")
    b.deliver("a", first)
    b.install(2, "b")
    a.install(1, "ab")
    a.deliver("a", first)
    a.install(2, "a")
    a.deliver("a", *rest)
    assert a.delivered == [("a", Batch(1, 1, b"abcdefgh"))]
    a.install(7, "ab", "b")
    b.install(7, "ab", "a")
    a.fire()
    a.submit(b"ijklmnop")
    for batch in a.take_all(3):
        a.deliver("a", batch)
        b.deliver("a", batch)
    assert b.delivered == [("a", Batch(2, 1, b"ijklmnop"))]


# --- other names, and the end for all ---------------------------------------------------------------------------------


def rename(process: Process, name: GroupId = "h") -> None:
    process.engine.host.renamed(G, View(name, 2, ("a", "b")))


def test_a_message_that_a_new_name_cuts_off_goes_back_to_the_host_and_is_sent_first(a: Process, b: Process) -> None:
    a.submit(b"abcdefgh")
    a.submit(b"next")
    first = a.engine.take(3)
    assert first is not None
    a.deliver("a", first)
    b.deliver("a", first)
    for process in (a, b):
        rename(process)
    assert a.host.called("renamed")[0][2] == (b"abcdefgh",)
    assert b.host.called("renamed")[0][2] == ()
    a.fire()
    assert a.engine.eager
    batches = [batch for _ in range(3) if (batch := a.engine.take(3, "h")) is not None]
    assert [batch.body for batch in batches] == [b"abc", b"def", b"gh"]
    for process in (a, b):
        for batch in batches:
            process.engine.host.deliver("h", "a", batch)
        assert process.delivered == [("a", Batch(1, 1, b"abcdefgh"))]
    assert a.engine.take(10, "h") == Batch(2, 1, b"next")


def test_who_was_to_leave_after_its_message_leaves_after_it_under_the_new_name(a: Process) -> None:
    a.submit(b"abcdefgh")
    a.take_all(3)
    a.layer.leave(G)
    rename(a)
    a.fire()
    a.layer.leave("h")
    assert a.engine.left == []
    for _ in range(3):
        batch = a.engine.take(3, "h")
        assert batch is not None
        a.engine.host.deliver("h", "a", batch)
    a.fire()
    assert a.engine.left == ["h"]


def test_it_leaves_also_if_the_message_fits_into_a_packet_under_the_new_name(a: Process) -> None:
    a.submit(b"abcdefgh")
    a.take_all(3)
    a.layer.leave(G)
    rename(a)
    assert a.engine.take(100, "h") == Batch(1, 1, b"abcdefgh")
    assert a.engine.take(100, "h") is None
    a.fire()
    assert a.engine.left == ["h"]


def test_who_was_about_to_leave_does_so_under_the_new_name(a: Process) -> None:
    a.submit(b"abcdefgh")
    for batch in a.take_all(3):
        a.layer.leave(G)
        a.deliver("a", batch)
    rename(a)
    assert a.host.called("renamed")[0][2] == ()
    a.fire()
    assert a.engine.left == ["h"]


def test_a_group_is_closed_when_ones_own_message_is_back(a: Process) -> None:
    a.submit(b"abcdefgh")
    batches = a.take_all(3)
    a.layer.close(G)
    a.layer.leave(G)
    assert a.engine.left == []
    a.deliver("a", *batches)
    a.fire()
    assert a.engine.left == ["close g"]
    a.engine.host.left(G)
    a.layer.close(G)
    assert a.engine.left == ["close g", "close g"]
