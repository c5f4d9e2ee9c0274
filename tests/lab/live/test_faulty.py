"""What is done to packets on purpose, and that the same rules mean the same as in the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from plainchant.core import model
from plainchant.core.model import UsageError
from plainchant.lab.live.faulty import HARMLESS, NETWORK_FAULTS, FaultyTransport
from plainchant.live.tcp import TcpTransport
from plainchant.live.transport import Address, Counters, Data, Limits, Receive, Transport, TurnOver
from plainchant.live.udp import UdpTransport
from plainchant.scenario.model import FAULTS, Delay, Fault, LinkOverride, Network

from ...live.endpoints import HOST, opened, run, until

MS: Any = model.MS
NO_DELAY = HARMLESS.delay
P1, P2, P3, P4 = ((HOST, port) for port in (1, 2, 3, 4))
NAMES: dict[Address, str] = {P1: "p1", P2: "p2", P3: "p3#1"}


class Recorder:
    """A transport that writes down what it is told to send, and when."""

    def __init__(self) -> None:
        self.limits = Limits(1000, 10)
        self.address = P1
        self.counters = Counters()
        self.sent: list[tuple[float, Address, bytes]] = []
        self.calls: list[tuple[tuple[Address, ...], bytes]] = []
        self.closed = False

    async def open(self, receive: Receive, turn_over: TurnOver) -> None:
        self.limits = Limits(1000, 20)
        self.address = (HOST, 1001)

    def send(self, to: Sequence[Address], data: Data) -> None:
        now = asyncio.get_running_loop().time()
        self.calls.append((tuple(to), bytes(data)))
        self.sent += [(now, address, bytes(data)) for address in to]

    def catch_up(self) -> bool:
        return False

    async def close(self) -> None:
        self.closed = True

    def to(self, address: Address) -> list[bytes]:
        return [data for _, target, data in self.sent if target == address]


def faulty(recorder: Transport, rules: Network = HARMLESS, *, me: str = "p1", seed: int = 7) -> FaultyTransport:
    return FaultyTransport(recorder, rules, Random(seed), me=me, names=NAMES)


def spoil(rules: Network, act: Callable[[FaultyTransport, Recorder], None], *, seed: int = 7) -> tuple[FaultyTransport, Recorder]:
    """Sends what ``act`` says through a spoiled transport, and closes it, so that what is under way leaves."""
    recorder = Recorder()
    transport = faulty(recorder, rules, seed=seed)

    async def main() -> None:
        async with opened(transport):
            act(transport, recorder)

    run(main())
    assert recorder.closed
    return transport, recorder


def send_many(count: int = 1000, to: Sequence[Address] = (P2,)) -> Callable[[FaultyTransport, Recorder], None]:
    def act(transport: FaultyTransport, recorder: Recorder) -> None:
        for number in range(count):
            transport.send(to, number.to_bytes(2, "big"))

    return act


def numbers(packets: Sequence[bytes]) -> list[int]:
    return [int.from_bytes(packet, "big") for packet in packets]


def under(*faults: Fault, me: str = "p1", rules: Network = HARMLESS, to: Sequence[Address] = (P2, P3, P4)) -> list[Address]:
    """Who gets a packet of ``me`` under these faults."""
    recorder = Recorder()
    transport = faulty(recorder, rules, me=me)

    async def main() -> None:
        async with opened(transport):
            for fault in faults:
                transport.apply(fault)
            transport.send(to, b"x")

    run(main())
    return [address for _, address, _ in recorder.sent]


# --- rules ------------------------------------------------------------------------------------------------------------


def test_without_rules_a_packet_goes_through_untouched_in_one_call() -> None:
    packet = bytearray(b"same")
    transport, recorder = spoil(HARMLESS, lambda transport, _: transport.send((P2, P3, P4), packet))
    assert recorder.calls == [((P2, P3, P4), b"same")]
    assert transport.limits == Limits(1000, 20)
    assert transport.address == (HOST, 1001)
    assert transport.counters is recorder.counters


def test_loss_is_per_destination() -> None:
    transport, recorder = spoil(Network(loss=0.3, delay=NO_DELAY), send_many(to=(P2, P3)))
    assert 600 < len(recorder.to(P2)) < 800
    assert recorder.to(P2) != recorder.to(P3)
    assert transport.spoiled.lost == 2000 - len(recorder.sent)
    assert numbers(recorder.to(P2)) == sorted(numbers(recorder.to(P2)))


def test_the_seed_decides() -> None:
    rules = Network(loss=0.2, duplicate=0.2, corrupt=0.2, delay=NO_DELAY)
    first = spoil(rules, send_many(), seed=1)[1].calls
    assert spoil(rules, send_many(), seed=1)[1].calls == first
    assert spoil(rules, send_many(), seed=2)[1].calls != first


def test_duplicates_leave_twice() -> None:
    transport, recorder = spoil(Network(duplicate=0.3, delay=NO_DELAY), send_many())
    assert 200 < transport.spoiled.duplicated < 400
    assert len(recorder.sent) == 1000 + transport.spoiled.duplicated
    assert set(numbers(recorder.to(P2))) == set(range(1000))


def test_damaged_packets_have_one_to_three_flipped_bits() -> None:
    def act(transport: FaultyTransport, recorder: Recorder) -> None:
        for _ in range(1000):
            transport.send((P2,), bytes(20))

    transport, recorder = spoil(Network(corrupt=0.3, delay=NO_DELAY), act)
    flipped = [int.from_bytes(packet, "big").bit_count() for packet in recorder.to(P2)]
    assert len(flipped) == 1000
    assert set(flipped) == {0, 1, 2, 3}
    assert sum(map(bool, flipped)) == transport.spoiled.corrupted > 200


def test_what_a_process_sends_to_itself_is_not_spoiled_by_the_networks_rates() -> None:
    rules = Network(loss=1.0, delay=NO_DELAY)
    assert under(rules=rules, to=(P1, P2)) == [P1]
    assert under(Fault(kind="partition", parts=(("p2", "p3"),)), to=(P1, P2)) == [P1]
    assert under(Fault(kind="cut", source="p1"), to=(P1, P2)) == []
    assert under(Fault(kind="loss", target="p1", rate=1.0), to=(P1, P2)) == [P2]


def test_a_link_that_differs() -> None:
    rules = Network(delay=NO_DELAY, link=(LinkOverride(delay=NO_DELAY, loss=1.0, source="p1", target="p3"),))
    assert under(rules=rules) == [P2, P4]
    assert under(rules=rules, me="p2", to=(P1, P3)) == [P1, P3]


# --- delays -----------------------------------------------------------------------------------------------------------


def delays(rules: Network, *faults: Fault, count: int = 50) -> tuple[list[float], list[int], FaultyTransport]:
    """How many ms packets that are sent at once are held, in the order in which they leave, and their numbers."""
    recorder = Recorder()
    transport = faulty(recorder, rules)
    started = 0.0

    async def main() -> None:
        nonlocal started
        async with opened(transport):
            for fault in faults:
                transport.apply(fault)
            started = asyncio.get_running_loop().time()
            send_many(count)(transport, recorder)
            async with asyncio.timeout(20):
                while len(recorder.sent) < count:
                    await asyncio.sleep(0.001)

    run(main())
    held = [(time - started) * 1000 for time, _, _ in recorder.sent]
    return held, numbers(recorder.to(P2)), transport


def test_a_constant_delay_holds_each_packet_and_keeps_their_order() -> None:
    held, order, transport = delays(Network(delay=Delay("constant", 5 * MS)))
    assert min(held) >= 5
    assert order == list(range(50))
    assert transport.spoiled.delayed == 50


def test_packets_that_are_due_at_one_instant_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FaultyTransport, "_now", lambda self: 0)
    _, recorder = spoil(Network(delay=Delay("constant", 3600_000 * MS)), send_many(100))
    assert numbers(recorder.to(P2)) == list(range(100))


def test_a_packet_that_is_due_earlier_does_not_wait_for_one_that_was_sent_before() -> None:
    async def main() -> None:
        recorder = Recorder()
        transport = faulty(recorder, Network(delay=Delay("constant", 1 * MS)))
        async with opened(transport):
            transport.apply(Fault(kind="clog", target="p2", delay=3600_000 * MS))
            transport.send((P2,), b"late")
            transport.send((P3,), b"early")
            await until(lambda: bool(recorder.sent))
            assert recorder.to(P3) == [b"early"]
            assert recorder.to(P2) == []

    run(main())


def test_a_uniform_delay_is_within_its_bounds() -> None:
    held, order, _ = delays(Network(delay=Delay("uniform", 2 * MS, 30 * MS)))
    assert min(held) >= 2
    assert max(held) >= 20
    assert order != sorted(order)


def test_an_exponential_delay_has_a_minimum_and_a_tail() -> None:
    held, order, _ = delays(Network(delay=Delay("exponential", 2 * MS, 10 * MS)))
    assert min(held) >= 2
    assert max(held) >= 12
    assert order != sorted(order)


def test_a_clog_adds_to_the_delay() -> None:
    clogs = (Fault(kind="clog", delay=6 * MS), Fault(kind="clog", delay=4 * MS))
    held, _, _ = delays(Network(delay=Delay("constant", 2 * MS)), *clogs)
    assert min(held) >= 12


@pytest.mark.parametrize("delay", [Delay("constant", 2 * MS), NO_DELAY])
def test_reordered_packets_are_overtaken(delay: Delay) -> None:
    _, order, transport = delays(Network(delay=delay, reorder=0.3))
    assert order != sorted(order)
    assert sorted(order) == list(range(50))
    assert 5 <= transport.spoiled.held_back <= 30
    late = [number for index, number in enumerate(order) if any(other > number for other in order[:index])]
    assert len(late) <= transport.spoiled.held_back


def test_a_bandwidth_makes_packets_queue_on_each_link() -> None:
    # 2 bytes and 123 of a header are 1,000 bits: 1 ms each.
    held, order, _ = delays(Network(delay=NO_DELAY, bandwidth=1_000_000, header=123), count=20)
    assert order == list(range(20))
    assert all(time >= number + 1 for number, time in enumerate(held))


def test_a_shared_medium_is_each_senders_own_and_a_broadcast_takes_it_once() -> None:
    recorder = Recorder()
    transport = faulty(recorder, Network(delay=NO_DELAY, shared=True, bandwidth=1_000_000, minimum_frame=125))

    async def main() -> None:
        async with opened(transport):
            loop = asyncio.get_running_loop()
            started = loop.time()
            for _ in range(10):
                transport.send((P2, P3), b"x")
            async with asyncio.timeout(20):
                while len(recorder.calls) < 10:
                    await asyncio.sleep(0.001)
            times = [time - started for time, address, _ in recorder.sent if address == P2]
            assert all(time >= (number + 1) / 1000 for number, time in enumerate(times))

    run(main())
    assert {to for to, _ in recorder.calls} == {(P2, P3)}


def test_what_is_under_way_arrives_although_the_link_is_cut_meanwhile() -> None:
    def act(transport: FaultyTransport, recorder: Recorder) -> None:
        transport.send((P2,), b"under way")
        transport.apply(Fault(kind="cut"))
        transport.send((P2,), b"cut")
        assert recorder.sent == []

    assert spoil(Network(delay=Delay("constant", 3600_000 * MS)), act)[1].to(P2) == [b"under way"]


# --- faults -----------------------------------------------------------------------------------------------------------


def test_a_partition_lets_packets_through_within_a_part_and_who_is_in_none_is_alone() -> None:
    assert under(Fault(kind="partition", parts=(("p1", "p2"), ("p3",)))) == [P2]
    assert under(Fault(kind="partition", parts=(("p1", "p3"), ("p2",)))) == [P3]
    assert under(Fault(kind="partition", parts=(("p2", "p3"),))) == []
    assert under(Fault(kind="partition", parts=(("p1", "p2"), ("p3",))), me="p3", to=(P1, P2)) == []
    assert under(Fault(kind="partition", parts=(("p1", "p2", "p3"),)), Fault(kind="partition", parts=(("p1", "p2"),))) == [P2]


def test_links_are_those_of_processes_not_of_incarnations() -> None:
    assert under(Fault(kind="cut", source="p1", target="p3")) == [P2, P4]
    assert under(Fault(kind="cut", source="p1", target="p3"), me="p1#4") == [P2, P4]


def test_a_cut_is_one_way() -> None:
    cut = Fault(kind="cut", source="p1", target="p2")
    assert under(cut) == [P3, P4]
    assert under(cut, me="p2", to=(P1, P3)) == [P1, P3]
    assert under(Fault(kind="cut", target="p2")) == [P3, P4]
    assert under(Fault(kind="cut", source="p1")) == []


def test_losses_multiply() -> None:
    def act(transport: FaultyTransport, recorder: Recorder) -> None:
        transport.apply(Fault(kind="loss", rate=0.5))
        transport.apply(Fault(kind="loss", source="p1", target="p2", rate=0.5))
        transport.apply(Fault(kind="loss", source="p2", rate=1.0))
        send_many(to=(P2, P3))(transport, recorder)

    _, recorder = spoil(Network(delay=NO_DELAY), act)
    assert 180 < len(recorder.to(P2)) < 320
    assert 400 < len(recorder.to(P3)) < 600


def test_heal_ends_every_fault_and_leaves_the_rules() -> None:
    faults = [Fault(kind="partition", parts=(("p1",),)), Fault(kind="cut"), Fault(kind="loss", rate=1.0)]
    assert under(*faults) == []
    assert under(*faults, Fault(kind="heal")) == [P2, P3, P4]
    assert under(*faults, Fault(kind="heal"), rules=Network(loss=1.0, delay=NO_DELAY)) == []


def test_a_fault_with_a_length_ends_by_itself_and_no_other_with_it() -> None:
    async def main() -> None:
        recorder = Recorder()
        transport = faulty(recorder)
        async with opened(transport):
            transport.apply(Fault(kind="cut", source="p1", target="p3"))
            transport.apply(Fault(kind="cut", source="p1", target="p2", length=20 * MS))
            transport.send((P2, P3), b"early")
            assert recorder.sent == []
            async with asyncio.timeout(20):
                while not recorder.sent:
                    transport.send((P2, P3), b"late")
                    await asyncio.sleep(0.005)
            assert [(address, data) for _, address, data in recorder.sent] == [(P2, b"late")]

    run(main())


def test_calm_ends_faults_and_rates() -> None:
    def act(transport: FaultyTransport, recorder: Recorder) -> None:
        transport.apply(Fault(kind="cut"))
        transport.doom(lambda reached: pytest.fail("nobody dies when it is calm"))
        transport.calm()
        send_many(to=(P2, P3))(transport, recorder)

    _, recorder = spoil(Network(loss=0.5, duplicate=0.5, corrupt=0.5, reorder=0.5, delay=NO_DELAY), act)
    assert numbers(recorder.to(P2)) == numbers(recorder.to(P3)) == list(range(1000))


@pytest.mark.parametrize("kind", sorted(set(FAULTS) - set(NETWORK_FAULTS)))
def test_faults_that_are_not_of_the_network_are_refused(kind: str) -> None:
    with pytest.raises(UsageError, match="takes partition, cut, clog, loss, lan, heal"):
        faulty(Recorder()).apply(Fault(kind=kind))


# --- a crash in a broadcast -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_doomed_process_reaches_some_and_never_all_and_sends_nothing_after(seed: int) -> None:
    killed: list[Sequence[Address]] = []
    recorder = Recorder()
    transport = faulty(recorder, Network(delay=Delay("constant", 3600_000 * MS)), seed=seed)

    async def main() -> None:
        async with opened(transport):
            transport.doom(killed.append)
            transport.send((P2,), b"to one")
            await asyncio.sleep(0)
            assert killed == []
            transport.send((P2, P3, P4), b"last")
            transport.send((P2, P3, P4), b"after")
            transport.send((P2,), b"after")
            await asyncio.sleep(0)
            assert len(killed) == 1

    run(main())
    assert recorder.calls[0] == ((P2,), b"to one")
    assert [data for _, data in recorder.calls[1:]] == [b"last"]
    reached = recorder.calls[1][0]
    assert reached == tuple(killed[0])
    assert 1 <= len(reached) <= 2
    assert list(reached) == sorted(reached)


def test_every_part_can_be_the_one_that_is_reached() -> None:
    parts = set()
    for seed in range(60):

        def act(transport: FaultyTransport, recorder: Recorder) -> None:
            transport.doom(lambda reached: None)
            transport.send((P2, P3, P4), b"last")

        parts.add(spoil(HARMLESS, act, seed=seed)[1].calls[0][0])
    assert parts == {(P2,), (P3,), (P4,), (P2, P3), (P2, P4), (P3, P4)}


def test_who_is_spared_lives_on() -> None:
    def act(transport: FaultyTransport, recorder: Recorder) -> None:
        transport.doom(lambda reached: pytest.fail("it was spared"))
        assert transport.spare()
        transport.send((P2, P3), b"all")

    assert spoil(HARMLESS, act)[1].calls == [((P2, P3), b"all")]


def test_a_process_that_has_begun_to_die_is_not_spared() -> None:
    """The supervisor would take its end for one that no fault explains (chaos on dedos, round seed 51000204)."""
    killed: list[Sequence[Address]] = []

    async def main() -> None:
        transport = faulty(Recorder(), HARMLESS)
        async with opened(transport):
            transport.doom(killed.append)
            transport.send((P2, P3), b"some")
            assert not transport.spare()
            await asyncio.sleep(0)

    run(main())
    assert len(killed) == 1


# --- around real transports -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [UdpTransport, TcpTransport])
def test_around_real_transports(kind: Callable[[Address], Transport]) -> None:
    async def main() -> None:
        names: dict[Address, str] = {}
        first, second = (
            FaultyTransport(kind((HOST, 0)), Network(delay=Delay("constant", 1 * MS)), Random(1), me=name, names=names)
            for name in ("a", "b")
        )
        async with opened(first, second) as (a, b):
            packets = [bytes((number,)) for number in range(100)]
            for packet in packets:
                a.transport.send([b.address], packet)
            await b.hears_all(*packets)
            assert b.heard[0][0] == a.address
            assert first.counters.sent == 100
            first.apply(Fault(kind="cut"))
            a.transport.send([b.address], b"lost")
            first.apply(Fault(kind="heal"))
            a.transport.send([b.address], b"healed")
            await b.hears_all(*packets, b"healed")

    run(main())


@pytest.mark.parametrize("kind", [UdpTransport, TcpTransport])
def test_what_a_doomed_process_sends_leaves_before_it_is_killed(kind: Callable[[Address], Transport]) -> None:
    async def main() -> None:
        async with opened(kind((HOST, 0)), kind((HOST, 0))) as (b, c):
            doomed = FaultyTransport(kind((HOST, 0)), HARMLESS, Random(3), me="a", names={})
            async with opened(doomed):
                both = [b.address, c.address]
                doomed.send(both, b"connects")
                await b.hears_all(b"connects")
                await c.hears_all(b"connects")
                sent_when_killed: list[int] = []
                doomed.doom(lambda reached: sent_when_killed.append(doomed.counters.sent))
                for address in both:
                    doomed.send([address], b"same turn")
                doomed.send(both, b"last")
                await asyncio.sleep(0)
                assert sent_when_killed == [5]
                await until(lambda: len(b.heard + c.heard) == 5)

    run(main())
