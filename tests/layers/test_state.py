"""State transfer: a joiner has the state at exactly its view, whatever is lost, and knows when it cannot have it."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

import pytest

from plainchant.core.engine import Engine, Host
from plainchant.core.model import (
    MS,
    SECOND,
    Batch,
    Duration,
    Form,
    GroupId,
    Join,
    Packet,
    ProcessId,
    Propose,
    ProtocolError,
    Reason,
    Timer,
    View,
)
from plainchant.core.wire import Codec
from plainchant.lab.properties import Verification, verify
from plainchant.layers.state import STATE_LOST, StateTransfer, StateWanted, donor_of
from plainchant.layers.state_parts import STATE_PACKETS, StateAsk, StateLost, StatePart, StateWait
from plainchant.protocols.registry import describe
from plainchant.scenario.model import Delay, Fault, Network, RandomFaults, Scenario, Workload
from plainchant.sim import Member, Simulation, Summary
from plainchant.sim.host import SimHost
from plainchant.trace import TraceBuffer

from ..fakes import FakeHost, as_host

G = "g"
ASK = ("state", "ask", G)
AGAIN = ("state", "again", 1)
RETRY = 10 * MS


class Toy(Engine):
    """A protocol that does what the test tells it to, and remembers what it was asked."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.calls: list[tuple[Any, ...]] = []
        self.reason: Reason | None = None

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        self.calls.append(("join", group, how))

    def leave(self, group: GroupId) -> None:
        self.calls.append(("leave", group))

    def close(self, group: GroupId) -> None:
        self.calls.append(("close", group))

    def receive(self, source: ProcessId, packet: Packet) -> None:
        self.calls.append(("receive", source, packet))

    def expire(self, timer: Timer) -> None:
        self.calls.append(("expire", timer))

    def waiting(self) -> Reason | None:
        return self.reason


class Process:
    """A process: the fake host outside, the layer, the toy inside. What the keeper is told is among the host's calls."""

    def __init__(self, name: ProcessId, *, max_packet: int = 64, window: int = 4) -> None:
        self.name = name
        self.host = FakeHost(name, max_packet)
        self.layer = StateTransfer(as_host(self.host), Toy, self, window=window, retry=RETRY, patience=5 * RETRY)
        assert isinstance(self.layer.inner, Toy)
        self.engine = self.layer.inner

    def state_wanted(self, wanted: StateWanted) -> None:
        self.host.calls.append(("wanted", wanted.transfer, wanted.view.number, wanted.joiner))

    def state_room(self, transfer: int) -> None:
        self.host.calls.append(("room", transfer))

    def state_over(self, transfer: int, reason: Reason | None) -> None:
        self.host.calls.append(("over", transfer, reason.code if reason else None))

    def state_arrived(self, group: GroupId, view: View, donor: ProcessId, chunks: list[bytes]) -> None:
        self.host.calls.append(("arrived", group, view.number, donor, chunks))

    def form(self, members: str) -> None:
        self.layer.join(G, Form(tuple(members)))
        self.install(1, members, members)

    def join(self) -> None:
        self.layer.join(G, Join(("a",)))

    def install(self, number: int, members: str, joined: str = "") -> None:
        self.engine.host.install(View(G, number, tuple(members), tuple(joined)))

    def deliver(self, sender: ProcessId, body: bytes) -> None:
        self.engine.host.deliver(G, sender, Batch(1, 1, body), 7)

    def write(self, *chunks: bytes, transfer: int = 1) -> None:
        for chunk in chunks:
            self.layer.put(transfer, chunk)

    def sent(self) -> list[tuple[ProcessId, Packet]]:
        """The packets since the last time, by receiver."""
        packets = [(to, packet) for to_all, packet in self.host.called("send") for to in to_all]
        self.host.calls = [call for call in self.host.calls if call[0] != "send"]
        return packets

    def fire(self, timer: Timer) -> None:
        self.host.time = max(self.host.time, self.host.timers.pop(timer))
        self.layer.expire(timer)

    @property
    def stream(self) -> list[Any]:
        """What the application gets, in order: bodies of messages, numbers of views, and what the keeper is told."""
        found: list[Any] = []
        for call in self.host.calls:
            if call[0] == "deliver":
                found.append(call[3].body)
            elif call[0] == "install":
                found.append(call[1].number)
            elif call[0] in ("wanted", "arrived", "left", "stable"):
                found.append(call)
        return found

    @property
    def lost(self) -> Reason | None:
        """Why the process has given up; it must have left the group before it halts."""
        assert self.host.called("halt") == []
        if ("leave", G) not in self.engine.calls and self.host.timers.get(ASK) == self.host.time:
            self.fire(ASK)
        if ("leave", G) not in self.engine.calls:
            return None
        self.engine.host.left(G, 9)
        assert self.host.called("left") == []
        ((reason,),) = self.host.called("halt")
        assert isinstance(reason, Reason)
        assert reason.code == STATE_LOST
        return reason

    @property
    def stages(self) -> list[tuple[str, int, int | None]]:
        """The rows of the trace: stage, view, bytes."""
        rows = self.host.called("record")
        assert all(kind == "state" and group == G for kind, group, _ in rows)
        return [(detail["stage"], detail["at_view"], detail.get("bytes")) for _, _, detail in rows]


def exchange(*processes: Process, lose: Callable[[Packet], bool] = lambda packet: False) -> None:
    """Passes packets to and fro until nobody has any; without timers."""
    by_name = {process.name: process for process in processes}
    under_way: deque[tuple[ProcessId, ProcessId, Packet]] = deque()
    for _ in range(10_000):
        for process in processes:
            under_way += [(process.name, to, packet) for to, packet in process.sent()]
        if not under_way:
            return
        source, to, packet = under_way.popleft()
        if not lose(packet):
            by_name[to].layer.receive(source, packet)
    raise AssertionError("the processes do not stop talking")


@pytest.fixture
def a() -> Process:
    """The donor, a member of the group from the beginning."""
    process = Process("a")
    process.form("ab")
    return process


@pytest.fixture
def j() -> Process:
    """Who joins."""
    process = Process("j")
    process.join()
    return process


def both_install(a: Process, j: Process) -> None:
    for process in (a, j):
        process.install(2, "abj", "j")


# --- parts that come together ---------------------------------------------------------------------------------------


def merged(number: int, parts: str, *, me: str, newcomers: str = "") -> View:
    """A view in which parts came together, as the members of ``me``'s part see it: ``merged(5, "ab c", me="a")``."""
    split = tuple(tuple(part) for part in parts.split())
    members = tuple(name for part in split for name in part)
    joined = next(tuple(name for name in members if name not in part) for part in split if me in part)
    return View(G, number, members, joined, parts=split, newcomers=tuple(newcomers))


def test_a_merge_gives_nobody_a_state(a: Process) -> None:
    c = Process("c")
    c.form("cd")
    for process in (a, c):
        process.engine.host.install(merged(5, "ab cd", me=process.name))
        process.deliver("b", b"after")
        assert process.stream == [1, 5, b"after"]
        assert process.sent() == []
        assert process.layer.waiting() is None


def test_who_joins_where_parts_come_together_gets_the_state_of_the_first_part(a: Process, j: Process) -> None:
    c = Process("c")
    c.form("cd")
    for process in (a, c, j):
        process.engine.host.install(merged(5, "ab cd j", me=process.name, newcomers="j"))
    assert a.stream == [1, 5, ("wanted", 1, 5, "j")]
    assert c.stream == [1, 5]
    a.write(b"of the first part")
    a.layer.finish(1)
    exchange(a, c, j)
    assert j.stream == [5, ("arrived", G, 5, "a", [b"of the first part"])]


def test_a_lone_member_that_comes_back_is_no_newcomer(a: Process) -> None:
    """All others of the view are new to it, and it is new to them; only who asked to join needs a state."""
    b = Process("b")
    b.form("ab")
    b.install(2, "b")
    a.install(2, "a")
    for process in (a, b):
        process.engine.host.install(merged(5, "a b j", me=process.name, newcomers="j"))
    assert a.stream == [1, 2, 5, ("wanted", 1, 5, "j")]
    assert b.stream == [1, 2, 5]
    assert donor_of(merged(5, "j a", me="a", newcomers="j")) == "a"
    assert donor_of(merged(5, "j k", me="j", newcomers="jk")) is None


def test_a_proposed_group_begins_without_a_state(a: Process) -> None:
    p = Process("p")
    p.layer.join("room", Propose(("a",)))
    p.engine.host.install(View("room", 1, ("p", "a"), ("p", "a")))
    a.engine.host.install(View("room", 1, ("p", "a"), ("p", "a")))
    assert p.sent() == a.sent() == []
    assert p.stream == [1]
    p.layer.join("attic", Propose(("a",)))
    p.engine.host.refused("attic", Reason("nobody", "nobody agreed"))
    assert [call[0] for call in p.host.called("refused")] == ["attic"]
    assert p.layer.waiting() is None


# --- other names, and the end for all -------------------------------------------------------------------------------


def rename(process: Process, number: int = 3) -> None:
    process.engine.host.renamed(G, View("h", number, ("a", "b", "j")))


def test_a_new_name_has_its_place_among_what_is_held(a: Process, j: Process) -> None:
    both_install(a, j)
    for process in (a, j):
        process.deliver("b", b"before")
        rename(process)
        process.engine.host.deliver("h", "b", Batch(1, 1, b"after"), 8)
    assert [call[0] for call in a.host.calls if call[0] in ("deliver", "renamed")] == ["deliver", "renamed", "deliver"]
    assert j.stream == [2]
    a.write(b"state")
    a.layer.finish(1)
    exchange(a, j)
    assert [call[0] for call in j.host.calls if call[0] in ("arrived", "deliver", "renamed")] == [
        "arrived",
        "deliver",
        "renamed",
        "deliver",
    ]
    assert j.host.timers == {}
    j.layer.leave("h")
    assert j.engine.calls[-1] == ("leave", "h")


def test_who_asked_to_leave_while_it_waits_leaves_under_the_new_name(a: Process, j: Process) -> None:
    both_install(a, j)
    j.layer.leave(G)
    for process in (a, j):
        rename(process)
    a.layer.finish(1)
    exchange(a, j)
    assert j.engine.calls[-1] == ("leave", "h")


def test_the_donor_forgets_a_joiner_that_is_gone_under_the_new_name(a: Process, j: Process) -> None:
    both_install(a, j)
    rename(a)
    a.engine.host.install(View("h", 4, ("a", "b")))
    assert a.host.called("over") == [(1, STATE_LOST)]


def test_who_gives_up_leaves_the_group_by_its_name_of_now(a: Process, j: Process) -> None:
    both_install(a, j)
    rename(j)
    j.engine.host.install(View("h", 4, ("b", "j")))
    j.fire(ASK)
    assert j.engine.calls[-1] == ("leave", "h")
    j.engine.host.left("h", 9)
    ((reason,),) = j.host.called("halt")
    assert reason.code == STATE_LOST
    assert j.host.called("left") == []


def test_a_group_that_is_closed_while_somebody_waits_is_over_for_it_too(a: Process, j: Process) -> None:
    both_install(a, j)
    j.deliver("b", b"held")
    for process in (a, j):
        process.engine.host.left(G, 9)
    assert j.stream == [2, ("left", G, 9)]
    assert j.host.timers == {}
    assert j.host.called("halt") == []
    assert a.host.called("over") == [(1, STATE_LOST)]


def test_who_wants_to_close_a_group_has_its_state_first(a: Process, j: Process) -> None:
    both_install(a, j)
    j.layer.close(G)
    assert ("close", G) not in j.engine.calls
    a.layer.finish(1)
    exchange(a, j)
    assert j.engine.calls[-1] == ("close", G)
    a.layer.close(G)
    assert a.engine.calls[-1] == ("close", G)


# --- the cut --------------------------------------------------------------------------------------------------------


def test_the_state_comes_after_the_view_and_before_what_was_delivered_meanwhile(a: Process, j: Process) -> None:
    both_install(a, j)
    for process in (a, j):
        process.deliver("b", b"later")
        process.engine.host.stable(G, 7)
        process.install(3, "abjk", "k")
    assert a.stream == [1, 2, ("wanted", 1, 2, "j"), b"later", ("stable", G, 7), 3, ("wanted", 2, 3, "k")]
    assert j.stream == [2]
    a.write(b"state")
    a.layer.finish(1)
    exchange(a, j)
    assert j.stream == [2, ("arrived", G, 2, "a", [b"state"]), b"later", ("stable", G, 7), 3]
    j.deliver("b", b"last")
    assert j.stream[-1] == b"last"
    assert j.host.called("deliver")[0] == (G, "b", Batch(1, 1, b"later"), 7)


def test_both_sides_write_rows_and_the_donor_is_told_the_end(a: Process, j: Process) -> None:
    both_install(a, j)
    a.write(b"12345")
    a.layer.finish(1)
    exchange(a, j)
    assert a.stages == [("wanted", 2, None), ("given", 2, 5)]
    assert j.stages == [("arrived", 2, 5)]
    assert a.host.called("over") == [(1, None)]
    assert a.host.timers == j.host.timers == {}
    assert a.layer.waiting() is None
    assert j.layer.waiting() is None


def test_a_state_of_no_bytes_is_a_state(a: Process, j: Process) -> None:
    both_install(a, j)
    a.layer.finish(1)
    exchange(a, j)
    assert j.stream == [2, ("arrived", G, 2, "a", [])]


def test_who_forms_a_group_waits_for_nothing(a: Process) -> None:
    a.deliver("b", b"x")
    assert a.stream == [1, b"x"]
    assert a.sent() == []
    assert a.layer.waiting() is None


def test_only_the_first_member_that_is_not_new_is_asked() -> None:
    b = Process("b")
    b.form("ab")
    b.install(2, "abj", "j")
    assert b.stream == [1, 2]
    b.install(3, "jbk", "k")
    assert b.stream == [1, 2, 3]
    b.install(4, "bl", "l")
    assert b.stream == [1, 2, 3, 4, ("wanted", 1, 4, "l")]
    assert donor_of(View(G, 2, ("j", "a"), ("j",))) == "a"
    assert donor_of(View(G, 1, ("a", "b"), ("b", "a"))) is None


def test_several_joiners_of_one_view_have_a_transfer_each(a: Process) -> None:
    j, k = Process("j"), Process("k")
    j.join()
    k.join()
    for process in (a, j, k):
        process.install(2, "abjk", "jk")
    a.write(b"to j", transfer=1)
    a.write(b"to k", transfer=2)
    a.layer.finish(2)
    exchange(a, j, k)
    assert k.stream == [2, ("arrived", G, 2, "a", [b"to k"])]
    assert j.stream == [2]
    a.layer.finish(1)
    exchange(a, j, k)
    assert j.stream == [2, ("arrived", G, 2, "a", [b"to j"])]


def test_two_groups_of_one_process_do_not_mix(a: Process, j: Process) -> None:
    other = View("h", 2, ("b", "j"), ("j",))
    j.layer.join("h", Join(("b",)))
    j.engine.host.install(other)
    both_install(a, j)
    j.engine.host.deliver("h", "b", Batch(1, 1, b"in h"))
    j.deliver("b", b"in g")
    assert {to for to, _ in j.sent()} == {"a", "b"}
    j.layer.receive("a", StatePart("h", 2, 1, (b"not the donor",), False, True))
    j.layer.receive("b", StatePart("h", 2, 1, (b"state of h",), False, True))
    assert j.stream == [2, 2, ("arrived", "h", 2, "b", [b"state of h"]), b"in h"]


def test_a_donor_that_waits_itself_is_asked_when_the_view_has_its_turn(a: Process, j: Process) -> None:
    both_install(a, j)
    k = Process("k")
    k.join()
    for process in (j, a):
        process.deliver("b", b"x")
    for process in (j, a, k):
        process.install(3, "jkab", "k")  # a protocol whose views are not in order of age
        process.deliver("b", b"y")
    exchange(a, j, k)
    assert j.stream == [2]
    assert k.layer.waiting() is not None
    a.layer.finish(1)
    exchange(a, j, k)
    assert j.stream == [2, ("arrived", G, 2, "a", []), b"x", 3, ("wanted", 1, 3, "k"), b"y"]
    j.write(b"with x")
    j.layer.finish(1)
    k.fire(ASK)
    k.fire(ASK)
    exchange(a, j, k)
    assert k.stream == [3, ("arrived", G, 3, "j", [b"with x"]), b"y"]


# --- chunks, window, acknowledgements -------------------------------------------------------------------------------


def test_chunks_arrive_as_they_were_written(a: Process, j: Process) -> None:
    both_install(a, j)
    chunks = [b"", b"small", bytes(range(200)), b"", b"x" * 59, b"y" * 60, b"z" * 500]
    a.write(*chunks)
    a.layer.finish(1)
    exchange(a, j)
    assert j.stream[-1] == ("arrived", G, 2, "a", chunks)


@pytest.mark.parametrize("seed", range(30))
def test_chunks_of_any_size_fit_the_packets(seed: int) -> None:
    random = Random(seed)
    size = random.randrange(64, 200)
    a, j = Process("a", max_packet=size, window=random.randrange(1, 5)), Process("j")
    a.form("ab")
    j.join()
    both_install(a, j)
    chunks = [random.randbytes(random.choice((0, 1, size - 6, size - 5, size - 4, 3 * size))) for _ in range(30)]
    seen: list[StatePart] = []

    def look(packet: Packet) -> bool:
        if isinstance(packet, StatePart):
            seen.append(packet)
        return False

    rest = deque(chunks)
    while rest:
        while rest and a.layer.has_room(1):
            a.write(rest.popleft())
        exchange(a, j, lose=look)
    a.layer.finish(1)
    exchange(a, j, lose=look)
    assert j.stream[-1] == ("arrived", G, 2, "a", chunks)
    assert max(sum(len(piece) + 5 for piece in part.pieces) for part in seen) <= size


def test_nothing_is_sent_before_the_joiner_asks_and_no_more_than_a_window_then(a: Process, j: Process) -> None:
    a.install(2, "abj", "j")
    a.write(b"x" * 1000)
    assert a.sent() == []
    j.install(2, "abj", "j")
    assert j.sent() == [("a", StateAsk(G, 2, 0))]
    a.layer.receive("j", StateAsk(G, 2, 0))
    parts = [packet for _, packet in a.sent()]
    assert [part.number for part in parts if isinstance(part, StatePart)] == [1, 2, 3, 4]
    assert len(parts) == 4
    a.layer.receive("j", StateAsk(G, 2, 3))
    assert len(a.sent()) == 3


def test_back_pressure_is_said_and_taken_back(a: Process) -> None:
    a.install(2, "abj", "j")
    assert a.layer.has_room(1)
    a.write(b"x" * 300)
    assert not a.layer.has_room(1)
    a.layer.receive("j", StateAsk(G, 2, 0))
    assert a.host.called("room") == []
    a.layer.receive("j", StateAsk(G, 2, 1))
    assert a.host.called("room") == [(1,)]
    assert a.layer.has_room(1)
    a.layer.receive("j", StateAsk(G, 2, 2))
    assert a.host.called("room") == [(1,)]


def test_many_small_chunks_share_a_packet(a: Process, j: Process) -> None:
    both_install(a, j)
    a.write(*[b"tiny"] * 12)
    a.layer.receive("j", StateAsk(G, 2, 0))
    assert len(a.sent()) == 2


def test_a_donor_with_nothing_to_send_says_that_it_is_there(a: Process, j: Process) -> None:
    both_install(a, j)
    a.layer.receive("j", StateAsk(G, 2, 0))
    assert a.sent() == [("j", StateWait(G, 2))]
    for _ in range(100):
        j.fire(ASK)
        j.layer.receive("a", StateWait(G, 2))
    assert j.lost is None


def test_a_donor_that_has_not_come_to_the_view_yet_says_so(a: Process) -> None:
    a.layer.receive("j", StateAsk(G, 2, 0))
    late = Process("late")
    late.join()
    late.layer.receive("j", StateAsk(G, 2, 0))
    assert a.sent() == late.sent() == [("j", StateWait(G, 2))]


def test_parts_may_come_twice_late_and_in_any_order(j: Process) -> None:
    j.install(2, "abj", "j")
    j.sent()
    parts = [StatePart(G, 2, number, (b"%d" % number,), number == 2, number == 4) for number in (1, 2, 3, 4)]
    for number in (3, 1, 3, 4, 1, 2, 2):
        j.layer.receive("a", parts[number - 1])
    assert j.stream == [2, ("arrived", G, 2, "a", [b"1", b"23", b"4"])]
    acknowledged = [packet.received for _, packet in j.sent() if isinstance(packet, StateAsk)]
    assert acknowledged == [0, 1, 1, 1, 1, 4, 4]


def test_whoever_is_not_the_donor_or_speaks_of_another_view_is_not_heard(j: Process) -> None:
    part = StatePart(G, 2, 1, (b"false",), False, True)
    j.layer.receive("a", part)
    j.install(2, "abj", "j")
    j.layer.receive("b", part)
    j.layer.receive("a", StatePart(G, 1, 1, (b"false",), False, True))
    j.layer.receive("b", StateLost(G, 2, "no"))
    j.layer.receive("a", StateLost(G, 1, "no"))
    j.layer.receive("a", StatePart(G, 2, 5_000, (b"much too early",), False, True))
    assert j.stream == [2]
    assert j.lost is None


def test_a_lost_part_is_sent_again_at_the_third_equal_acknowledgement(a: Process, j: Process) -> None:
    both_install(a, j)
    lost: list[Packet] = []

    def lose_the_first(packet: Packet) -> bool:
        if isinstance(packet, StatePart) and not lost:
            lost.append(packet)
            return True
        return False

    a.write(b"x" * 500)
    a.layer.finish(1)
    exchange(a, j, lose=lose_the_first)
    assert j.stream[-1] == ("arrived", G, 2, "a", [b"x" * 500])


def test_what_is_not_acknowledged_is_sent_again_ever_more_slowly(a: Process, j: Process) -> None:
    both_install(a, j)
    a.write(b"x" * 100)
    a.layer.finish(1)
    exchange(a, j, lose=lambda packet: isinstance(packet, StatePart))
    waits = []
    for _ in range(9):
        waits.append(a.host.timers[AGAIN] - a.host.time)
        a.fire(AGAIN)
        assert [packet.number for _, packet in a.sent() if isinstance(packet, StatePart)] == [1, 2]
    assert waits == [RETRY * 2**n for n in range(7)] + [SECOND, SECOND]
    a.fire(AGAIN)
    exchange(a, j)
    assert j.stream[-1] == ("arrived", G, 2, "a", [b"x" * 100])
    assert a.host.timers == {}


def test_a_lost_question_is_asked_again(a: Process, j: Process) -> None:
    both_install(a, j)
    j.sent()
    a.layer.finish(1)
    j.fire(ASK)
    j.fire(ASK)
    exchange(a, j)
    assert j.stream[-1] == ("arrived", G, 2, "a", [])


def test_the_last_acknowledgement_may_be_lost(a: Process, j: Process) -> None:
    both_install(a, j)
    a.layer.finish(1)
    exchange(a, j, lose=lambda packet: isinstance(packet, StateAsk) and packet.received == 1)
    assert j.stream[-1] == ("arrived", G, 2, "a", [])
    assert a.layer.waiting() is not None
    a.fire(AGAIN)
    exchange(a, j)
    assert a.host.called("over") == [(1, None)]
    assert len(j.host.called("arrived")) == 1


@pytest.mark.parametrize("seed", range(40))
def test_any_loss_repetition_and_order_is_harmless(seed: int) -> None:
    random = Random(seed)
    a, j = Process("a", window=random.choice((1, 2, 4, 9))), Process("j")
    a.form("ab")
    j.join()
    both_install(a, j)
    chunks = [random.randbytes(random.randrange(150)) for _ in range(12)]
    rest = deque(chunks)
    network: list[tuple[Process, Process, Packet]] = []
    for _ in range(3_000):
        for process, other in ((a, j), (j, a)):
            for _, packet in process.sent():
                network += [(process, other, packet)] * random.choice((0, 1, 1, 1, 2))
        if rest and a.layer.has_room(1):
            a.write(rest.popleft())
            if not rest:
                a.layer.finish(1)
        if network and random.random() < 0.9:
            source, to, packet = network.pop(random.randrange(len(network)))
            to.layer.receive(source.name, packet)
        elif not network:
            for process, timer in ((a, AGAIN), (j, ASK)):
                if timer in process.host.timers:
                    process.fire(timer)
        if a.host.called("over"):
            break
    assert j.stream == [2, ("arrived", G, 2, "a", chunks)]
    assert a.host.called("over") == [(1, None)]


def test_all_packets_can_travel() -> None:
    codec = Codec((*describe("sequencer").packets, *STATE_PACKETS))
    packets = (StateAsk(G, 2, 3), StatePart(G, 2, 3, (b"", b"x"), True, False), StateWait(G, 2), StateLost(G, 2, "why"))
    assert tuple(codec.decode(codec.encode(packet)) for packet in packets) == packets
    assert {type(packet) for packet in packets} == set(STATE_PACKETS)


# --- when it cannot be ----------------------------------------------------------------------------------------------


def test_a_joiner_whose_donor_is_gone_gives_up(a: Process, j: Process) -> None:
    both_install(a, j)
    a.write(b"half")
    exchange(a, j)
    j.install(3, "bj")
    j.deliver("b", b"x")
    j.install(4, "bjk", "k")
    assert ("leave", G) not in j.engine.calls  # it is the protocol that has called us
    a.write(b"more")
    a.layer.finish(1)
    exchange(a, j)
    assert j.lost == Reason(
        STATE_LOST,
        "j cannot get the state of g at view 2: a is gone in view 3 of g; join again",
        {"group": G, "view": 2, "donor": "a", "bytes": 4},
    )
    assert j.stream == [2]
    assert j.stages == [("lost", 2, 4)]


def test_a_joiner_that_has_its_state_does_not_need_its_donor_any_more(a: Process, j: Process) -> None:
    both_install(a, j)
    a.layer.finish(1)
    exchange(a, j)
    j.install(3, "bj")
    assert j.lost is None
    assert j.stream[-1] == 3


def test_other_members_may_go(a: Process, j: Process) -> None:
    both_install(a, j)
    for process in (a, j):
        process.install(3, "aj")
    a.layer.finish(1)
    exchange(a, j)
    assert j.stream == [2, ("arrived", G, 2, "a", []), 3]


def test_a_joiner_whose_donor_does_not_answer_gives_up(j: Process) -> None:
    j.install(2, "abj", "j")
    for _ in range(5):
        assert j.lost is None
        j.fire(ASK)
    assert len(j.sent()) == 5
    j.fire(ASK)
    reason = j.lost
    assert reason is not None
    assert "a did not answer 5 times" in reason.text


def test_a_joiner_that_was_stopped_for_long_asks_before_it_gives_up(j: Process) -> None:
    j.install(2, "abj", "j")
    j.host.time += 60 * SECOND
    j.fire(ASK)
    assert j.lost is None


@pytest.mark.parametrize("is_first_word_lost", [True, False])
def test_a_donor_that_fails_says_why(a: Process, j: Process, is_first_word_lost: bool) -> None:
    both_install(a, j)
    a.write(b"half")
    exchange(a, j)
    a.layer.fail(1, "the disk is gone")
    exchange(a, j, lose=lambda packet: is_first_word_lost and isinstance(packet, StateLost))
    if is_first_word_lost:
        assert j.lost is None
        j.fire(ASK)
        j.fire(ASK)
        exchange(a, j)
    reason = j.lost
    assert reason is not None
    assert "a could not give it: the disk is gone" in reason.text
    assert a.stages == [("wanted", 2, None), ("lost", 2, 4)]
    assert a.host.called("over") == [(1, STATE_LOST)]
    assert a.layer.waiting() is None
    assert a.host.timers == {}
    a.install(3, "ab")
    assert a.host.called("over") == [(1, STATE_LOST)]


def test_calls_for_a_transfer_that_is_over_do_nothing(a: Process, j: Process) -> None:
    both_install(a, j)
    a.layer.fail(1, "no")
    a.write(b"x")
    a.layer.finish(1)
    a.layer.fail(1, "no, no")
    assert not a.layer.has_room(1)
    assert a.host.called("over") == [(1, STATE_LOST)]
    assert not a.layer.has_room(99)
    a.write(b"x", transfer=99)


def test_nothing_may_follow_the_end(a: Process) -> None:
    a.install(2, "abj", "j")
    a.layer.finish(1)
    assert not a.layer.has_room(1)
    with pytest.raises(ProtocolError, match="put for transfer 1, which was finished"):
        a.write(b"x")
    with pytest.raises(ProtocolError, match="finish for transfer 1"):
        a.layer.finish(1)


def test_a_donor_forgets_a_joiner_that_is_gone(a: Process, j: Process) -> None:
    both_install(a, j)
    a.write(b"x" * 1000)
    a.layer.receive("j", StateAsk(G, 2, 1))
    a.install(3, "ab")
    assert a.host.called("over") == [(1, STATE_LOST)]
    assert a.host.timers == {}
    assert a.layer.waiting() is None
    a.sent()
    a.layer.receive("j", StateAsk(G, 2, 2))
    assert a.sent() == [("j", StateLost(G, 2, "a has no state for j at view 2 of g"))]


def test_a_donor_that_leaves_drops_its_transfers_and_says_so(a: Process, j: Process) -> None:
    both_install(a, j)
    a.layer.leave(G)
    assert a.engine.calls[-1] == ("leave", G)
    a.engine.host.left(G, 9)
    assert a.host.called("over") == [(1, STATE_LOST)]
    assert a.host.called("left") == [(G, 9)]
    exchange(a, j)
    reason = j.lost
    assert reason is not None
    assert "a has no state for j at view 2 of g" in reason.text


def test_a_view_of_new_members_only_has_no_state(j: Process) -> None:
    j.install(1, "jk", "jk")
    reason = j.lost
    assert reason is not None
    assert "all members of view 1 of g are new" in reason.text


def test_a_joiner_that_gives_up_leaves_its_other_groups_too_before_it_halts(j: Process) -> None:
    j.layer.join("h", Form(("j",)))
    j.engine.host.install(View("h", 1, ("j", "k"), ("j", "k")))
    j.layer.join("i", Join(("a",)))
    j.engine.host.install(View("i", 5, ("a", "j"), ("j",)))
    j.install(2, "abj", "j")
    j.layer.receive("a", StateLost(G, 2, "no"))
    j.fire(ASK)
    assert [call for call in j.engine.calls if call[0] == "leave"] == [("leave", G), ("leave", "h")]
    j.engine.host.left(G)
    j.engine.host.left("h", 3)
    assert j.host.called("left") == [("h", 3)]
    assert j.host.called("halt") == []
    j.layer.receive("a", StatePart("i", 5, 1, (), False, True))
    assert j.engine.calls[-1] == ("leave", "i")
    j.engine.host.left("i", 9)
    assert j.host.called("left") == [("h", 3), ("i", 9)]
    assert [reason.code for (reason,) in j.host.called("halt")] == [STATE_LOST]


@pytest.mark.parametrize("when", ["before its view", "after it"])
def test_a_joiner_leaves_when_it_has_its_state(a: Process, j: Process, when: str) -> None:
    if when == "before its view":
        j.layer.leave(G)
    both_install(a, j)
    j.layer.leave(G)
    j.deliver("b", b"x")
    assert ("leave", G) not in j.engine.calls
    a.layer.finish(1)
    exchange(a, j)
    assert j.stream == [2, ("arrived", G, 2, "a", []), b"x"]
    assert j.engine.calls[-1] == ("leave", G)


def test_a_joiner_that_gives_up_says_what_it_waits_for(j: Process) -> None:
    j.install(2, "abj", "j")
    j.layer.receive("a", StateLost(G, 2, "no"))
    reason = j.layer.waiting()
    assert reason is not None
    assert reason.code == STATE_LOST
    assert j.lost == reason
    assert j.host.timers == {}


def test_a_process_that_left_starts_with_nothing(j: Process) -> None:
    j.install(2, "abj", "j")
    j.engine.host.left(G)
    assert j.host.timers == {}
    assert j.layer.waiting() is None
    j.sent()
    j.layer.receive("a", StatePart(G, 2, 1, (), False, True))
    assert j.sent() == []
    assert j.host.called("arrived") == []


# --- a layer among layers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timer", ["ask", "state", "sta", ("state", "ask"), ("g", "ask", "x"), ("fragmentation", "nudge", G)])
def test_timers_of_the_engine_are_passed_in(a: Process, timer: Timer) -> None:
    a.layer.expire(timer)
    assert a.engine.calls[-1] == ("expire", timer)


@pytest.mark.parametrize("timer", [ASK, AGAIN])
def test_a_timer_that_comes_when_all_is_over_does_nothing(a: Process, timer: Timer) -> None:
    before = list(a.host.calls)
    a.layer.expire(timer)
    assert (a.host.calls, a.host.timers) == (before, {})


def test_packets_of_the_protocol_are_passed_in(a: Process) -> None:
    class Other(Packet, frozen=True, array_like=True, gc=False, tag=1):
        group: GroupId

    a.layer.receive("b", Other(G))
    assert a.engine.calls[-1] == ("receive", "b", Other(G))


def test_it_says_what_it_waits_for(a: Process, j: Process) -> None:
    both_install(a, j)
    a.write(b"1234")
    exchange(a, j)
    assert a.layer.waiting() == Reason("state", "a gives j the state of g at view 2", {"group": G, "joiner": "j", "bytes": 4})
    assert j.layer.waiting() == Reason(
        "state", "j waits for the state of g at view 2 from a", {"group": G, "donor": "a", "bytes": 4}
    )
    a.engine.reason = Reason("busy", "busy")
    assert a.layer.waiting() == Reason("busy", "busy")


@pytest.mark.parametrize("wrong", [{"window": 0}, {"retry": 0}, {"patience": 1}])
def test_settings_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ProtocolError, match="the window is at least 1 packet"):
        StateTransfer(as_host(FakeHost()), Toy, Process("x"), **wrong)


# --- in the simulator -----------------------------------------------------------------------------------------------

FILLER = b"0123456789" * 10


class Ledger:
    """A replicated state machine on one process, for all its groups: it counts messages and chains all that it sees, views
    too, so that two ledgers are equal only if they saw the same in the same order. ``filler`` makes its state large."""

    def __init__(self, host: SimHost, filler: int) -> None:
        self.host = host
        self.layer: StateTransfer
        self.states: dict[GroupId, dict[str, Any]] = {}
        self._filler = filler
        self._unwritten: dict[int, deque[bytes]] = {}

    def _fold(self, group: GroupId, what: str) -> None:
        state = self.states.get(group)
        if state is not None:
            state["chain"] = crc32(what.encode(), state["chain"])

    def on_view(self, member: Member, view: View) -> None:
        if view.joined == view.members:
            self.states[view.group] = {"chain": 0, "counts": {}}
        self._fold(view.group, f"view {view.number} {view.members}")

    def on_deliver(self, member: Member, group: GroupId, sender: ProcessId, payload: bytes, seq: int) -> None:
        self._fold(group, f"{sender} {seq} {crc32(payload)}")
        counts = self.states[group]["counts"] if group in self.states else {}
        counts[sender] = counts.get(sender, 0) + 1

    def state_wanted(self, wanted: StateWanted) -> None:
        self.host.after(self._give, wanted)

    def state_room(self, transfer: int) -> None:
        self.host.after(self._write, transfer)

    def state_over(self, transfer: int, reason: Reason | None) -> None:
        self.host.after(self._stop, transfer)

    def state_arrived(self, group: GroupId, view: View, donor: ProcessId, chunks: list[bytes]) -> None:
        self.host.after(self._take, group, chunks)

    def _give(self, wanted: StateWanted) -> None:
        self._unwritten[wanted.transfer] = deque([json.dumps(self.states[wanted.group]).encode(), *[FILLER] * self._filler])
        self._write(wanted.transfer)

    def _write(self, transfer: int) -> None:
        chunks = self._unwritten.get(transfer, deque())
        while chunks and self.layer.has_room(transfer):
            self.host.turn(self.layer.put, transfer, chunks.popleft())
            if not chunks:
                self.host.turn(self.layer.finish, transfer)

    def _stop(self, transfer: int) -> None:
        self._unwritten.pop(transfer, None)

    def _take(self, group: GroupId, chunks: list[bytes]) -> None:
        assert chunks[1:] == [FILLER] * self._filler
        self.states[group] = json.loads(chunks[0])


@dataclasses.dataclass
class Outcome:
    """What a run with ledgers amounted to."""

    summary: Summary
    verification: Verification
    ledgers: dict[ProcessId, Ledger]
    rows: list[dict[str, Any]]
    """The layer's rows, with what is in their detail."""

    @property
    def stages(self) -> Counter[str]:
        return Counter(row["stage"] for row in self.rows)

    @property
    def alive(self) -> list[ProcessId]:
        return [name for name, end in self.summary.processes.items() if end.state == "alive"]

    @property
    def problems(self) -> list[str]:
        """What is wrong: no rest, a broken promise of the protocol, a group that dies of a joiner that gives up, a member
        without its state or with another one."""
        found = [] if self.summary.quiet else [f"not quiet: {self.summary.not_quiet}"]
        if not self.alive and any("cannot get the state" in end.reason for end in self.summary.processes.values()):
            found.append("nobody is left")
        found += [name for name, outcome in self.verification.properties.items() if outcome.violations]
        groups = {group for name in self.alive for group in self.ledgers[name].host.entered}
        for group in sorted(groups):
            members = [name for name in self.alive if group in self.ledgers[name].host.entered]
            states = [self.ledgers[name].states.get(group) for name in members]
            if any(state is None or state != states[0] for state in states):
                found.append(f"states of {group} differ: {dict(zip(members, states, strict=True))}")
        return found


def run(scenario: Scenario, layer: type[StateTransfer] = StateTransfer, filler: int = 100, **settings: int) -> Outcome:
    """Runs a scenario with a ledger and the layer at every process."""
    ledgers: dict[ProcessId, Ledger] = {}

    def wrap(host: SimHost, inside: Callable[[Host], Engine]) -> Engine:
        ledger = ledgers[host.me] = Ledger(host, filler)
        ledger.layer = layer(host, inside, ledger, **settings)
        return ledger.layer

    trace = TraceBuffer()
    simulation = Simulation(scenario, trace=trace, packets=STATE_PACKETS, wrap=wrap, applications=ledgers.__getitem__)
    summary = simulation.run()
    table = trace.table()
    rows = [
        {**row, **json.loads(row["detail"])}
        for row in table.to_pylist()
        if row["kind"] == "state" and "stage" in (row["detail"] or "")
    ]
    return Outcome(summary, verify(table), ledgers, rows)


def busy(**changes: Any) -> Scenario:
    """Three members under load, and j1, who joins after 50 ms."""
    fields: dict[str, Any] = {
        "protocol": "sequencer",
        "members": ("p1", "p2", "p3"),
        "later": ("j1",),
        "network": Network(delay=Delay("uniform", Duration(1 * MS), Duration(3 * MS))),
        "workload": (Workload(rate=400.0, arrivals="poisson"),),
        "fault": (Fault(kind="join", process="j1", at=Duration(50 * MS)),),
        "duration": Duration(200 * MS),
    }
    return Scenario(**{**fields, **changes})


def test_a_joiner_under_load_ends_with_the_state_of_the_others() -> None:
    outcome = run(busy())
    assert outcome.problems == []
    assert outcome.stages == {"wanted": 1, "given": 1, "arrived": 1}
    (arrived,) = [row for row in outcome.rows if row["stage"] == "arrived"]
    assert (arrived["process"], arrived["donor"], arrived["group"], arrived["at_view"]) == ("j1", "p1", "g", 2)
    assert arrived["held"] > 0
    assert arrived["bytes"] > 100 * len(FILLER)
    assert outcome.ledgers["j1"].states["g"]["counts"]["p1"] > 0


def test_the_group_goes_on_while_a_state_is_under_way() -> None:
    outcome = run(busy(), filler=1_000, window=2)
    assert outcome.problems == []
    (arrived,) = [row for row in outcome.rows if row["stage"] == "arrived"]
    assert arrived["true_time"] > 200 * MS  # it takes until after everybody has stopped sending
    quick = run(busy(), filler=0)
    assert outcome.summary.messages_delivered == quick.summary.messages_delivered
    assert arrived["held"] > 50


def test_a_joiner_whose_donor_crashes_in_the_middle_halts_with_the_reason() -> None:
    crash = Fault(kind="crash", process="p1", at=Duration(80 * MS))
    outcome = run(busy(fault=(*busy().fault, crash)), filler=1_000)
    assert outcome.problems == []
    assert outcome.stages == {"wanted": 1, "lost": 1}
    end = outcome.summary.processes["j1"]
    assert end.state == "halted"
    assert "j1 cannot get the state of g at view 2: p1 is gone in view 3 of g; join again" in end.reason
    assert outcome.alive == ["p2", "p3"]


def test_who_joins_again_after_that_gets_its_state_from_another() -> None:
    faults = (
        *busy().fault,
        Fault(kind="crash", process="p1", at=Duration(80 * MS)),
        Fault(kind="restart", process="j1", at=Duration(1_000 * MS)),
    )
    outcome = run(busy(fault=faults, duration=Duration(1_200 * MS)), filler=1_000)
    assert outcome.problems == []
    assert outcome.stages == {"wanted": 2, "lost": 1, "given": 1, "arrived": 1}
    assert outcome.alive == ["p2", "p3", "j1#1"]


def test_a_donor_forgets_a_joiner_that_crashes_in_the_middle() -> None:
    crash = Fault(kind="crash", process="j1", at=Duration(80 * MS))
    outcome = run(busy(fault=(*busy().fault, crash)), filler=1_000)
    assert outcome.problems == []
    assert outcome.stages == {"wanted": 1, "lost": 1}


def random_scenario(seed: int) -> Scenario:
    """Joiners under load on a bad network; in two of three, members crash, leave, stop and come back too."""
    random = Random(f"state transfer {seed}")
    members = tuple(f"p{number}" for number in range(1, random.choice((3, 4, 5)) + 1))
    first = random.randrange(20, 100)
    second = random.choice((first, random.randrange(20, 200)))
    faults = [
        Fault(kind="join", process="j1", at=Duration(first * MS)),
        Fault(kind="join", process="j2", at=Duration(second * MS)),
    ]
    rates = RandomFaults()
    if seed % 3 == 1:
        rates = RandomFaults(crash=2.0, leave=4.0, restart_after=Duration(100 * MS))
        faults.append(Fault(kind=random.choice(("crash", "leave")), process="p1", at=Duration((first + 40) * MS)))
    elif seed % 3 == 2:
        rates = RandomFaults(crash=4.0, restart=0.5, pause=4.0, cut=2.0, restart_after=Duration(100 * MS))
    return Scenario(
        protocol="sequencer",
        seed=seed,
        members=members,
        later=("j1", "j2"),
        groups={"g": members, "h": members[:3]} if random.random() < 0.2 else {},
        network=Network(
            delay=Delay("uniform", Duration(1 * MS), Duration(4 * MS)),
            loss=random.choice((0.0, 0.05, 0.2)),
            duplicate=random.choice((0.0, 0.1)),
            reorder=random.choice((0.0, 0.2)),
            wire=random.random() < 0.2,
        ),
        workload=(Workload(rate=60.0, arrivals="poisson", size=random.choice((10, 10, 10, 3_000))),),
        fault=tuple(faults),
        random=rates,
        duration=Duration(250 * MS),
    )


SEEDS = 102


def test_in_every_run_all_members_end_with_the_same_state() -> None:
    stages: Counter[str] = Counter()
    problems = {}
    held = 0
    for seed in range(SEEDS):
        outcome = run(random_scenario(seed), filler=Random(seed).choice((0, 20, 400)))
        stages += outcome.stages
        held += sum(row["held"] for row in outcome.rows if row["stage"] == "arrived")
        if outcome.problems:
            problems[seed] = outcome.problems
    assert problems == {}
    assert stages["arrived"] > SEEDS
    assert stages["lost"] >= SEEDS // 10
    assert held > 10 * SEEDS


# --- mutants --------------------------------------------------------------------------------------------------------


class WithoutHolding(StateTransfer):
    """Lets a joiner deliver before it has its state."""

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        self.host.deliver(group, sender, batch, rank)


class AskedLate(StateTransfer):
    """Asks the donor's application not at the view but when the joiner's first question comes."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.late: dict[tuple[int, ProcessId], View] = {}
        super().__init__(*arguments, **settings)

    def _want(self, view: View, joiner: ProcessId) -> None:
        self.late[view.number, joiner] = view

    def _on_ask(self, source: ProcessId, packet: StateAsk) -> None:
        view = self.late.pop((packet.view, source), None)
        if view is not None:
            super()._want(view, source)
        super()._on_ask(source, packet)


class HaltsAtOnce(StateTransfer):
    """Gives up without leaving the group first, which has just lost the donor."""

    def _give_up(self, incoming: Any, text: str) -> None:
        self.host.halt(Reason(STATE_LOST, f"{self.me} cannot get the state: {text}"))


class WithoutGivingUp(StateTransfer):
    """Waits for a donor that is gone."""

    def _give_up(self, incoming: Any, text: str) -> None:
        return


@pytest.mark.parametrize(
    ("mutant", "crash", "symptom"),
    [
        (WithoutHolding, False, "states of g differ"),
        (AskedLate, False, "states of g differ"),
        (WithoutGivingUp, True, "not quiet"),
        (HaltsAtOnce, True, "nobody is left"),
    ],
)
def test_a_layer_with_a_rule_taken_out_is_caught(mutant: type[StateTransfer], crash: bool, symptom: str) -> None:
    faults, members = busy().fault, busy().members
    if crash:
        # Of two members and the joiner: without the donor, the joiner is needed for a majority until it has left.
        faults, members = (*faults, Fault(kind="crash", process="p1", at=Duration(80 * MS))), members[:2]
    scenario = busy(fault=faults, members=members, drain=Duration(3 * SECOND))
    assert run(scenario, filler=1_000).problems == []
    assert any(problem.startswith(symptom) for problem in run(scenario, mutant, filler=1_000).problems)
