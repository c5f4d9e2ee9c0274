"""No crash, join, pause or reader that stops costs a member that is well: rings of 2 to 32 on every medium (``alive``)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from plainchant.core import wire
from plainchant.core.engine import Engine, Host, Layer
from plainchant.core.model import MS, SECOND, US, Duration, Packet, ProcessId
from plainchant.lab.properties import verify
from plainchant.lab.show import decode
from plainchant.protocols.rtcast import DESCRIPTION, Parameters
from plainchant.protocols.rtcast.gaps import Gaps
from plainchant.protocols.rtcast.interface import KNOCK, REQUEST, Interface
from plainchant.protocols.rtcast.order import Order
from plainchant.protocols.rtcast.packets import Ask, Data, Here
from plainchant.protocols.rtcast.ring import Ring
from plainchant.protocols.rtcast.sizes import FRAME, largest, size_of
from plainchant.protocols.variants import Variants
from plainchant.scenario.model import Delay, Fault, Network, Scenario, Workload
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer

from .. import sweeping
from . import alive, scripted
from .sweep import GROUP


def examine(seed: int) -> sweeping.Examined:
    return sweeping.examine(alive.run, alive.situations, seed)


def about(seed: int) -> str:
    return alive.scenario_of(seed).about


@pytest.mark.sweep
def test_every_run_goes_on_and_every_situation_occurs(times: int) -> None:
    seeds = sweeping.ordinary(times, alive.SEEDS, alive.SHORT)
    occurred = sweeping.run_all(examine, seeds, about, "tests.protocols.rtcast.alive", 2)
    sweeping.demand(occurred, dict.fromkeys(alive.SITUATIONS, 1))


@pytest.mark.parametrize("seeds", [range(alive.SEEDS), alive.SHORT], ids=["ordinary", "short"])
def test_the_seeds_cover_sizes_media_and_retransmissions(seeds: Sequence[int]) -> None:
    scenarios = [alive.scenario_of(seed) for seed in seeds]
    pairs: Counter[tuple[str, int]] = Counter()
    for scenario in scenarios:
        network = scenario.network
        medium = "shared" if network.shared else "switched" if network.bandwidth else "plain"
        pairs[medium, scenario.parameters["retransmissions"]] += 1
    assert {len(scenario.members) for scenario in scenarios} >= {2, 3, 16, 17, 32}
    assert {alive.family_of(seed) for seed in seeds if len(alive.scenario_of(seed).members) > 16} == set(alive.FAMILIES)
    assert len(pairs) == len(alive.MEDIA) * 4
    kinds = {fault.kind for scenario in scenarios for fault in scenario.fault}
    assert kinds == {"crash", "restart", "join", "leave", "pause", "sluggish"}


CRASH = Fault(kind="crash", at=Duration(4050 * MS), process="p3")
JOIN = Fault(kind="join", at=Duration(4050 * MS), process="q1", group=GROUP)


@pytest.mark.parametrize(("size", "retransmissions", "fault"), [(16, 0, CRASH), (16, 1, CRASH), (16, 1, JOIN)])
def test_a_crash_or_a_join_costs_no_other_member_where_delays_are_near_the_bound(
    size: int, retransmissions: int, fault: Fault
) -> None:
    """A shared medium of 10 Mbit/s, 1.9 ms of d_max = 2 ms, nothing lost. The crash once halted 10 of 15 survivors (15 without
    retransmissions; 2 of 14 members), the join 12 of 17."""
    names = tuple(f"p{number + 1}" for number in range(size))
    scenario = Scenario(
        protocol="rtcast",
        members=names,
        later=("q1",) if fault is JOIN else (),
        groups={GROUP: names},
        duration=Duration(4600 * MS),
        drain=Duration(10 * SECOND),
        parameters={"retransmissions": retransmissions},
        network=Network(delay=Delay("constant", Duration(1900 * US)), bandwidth=10_000_000, shared=True),
        workload=(Workload(rate=2.0, size=64),),
        fault=(fault,),
    )
    assert Parameters().delay_max == 2 * MS
    trace = TraceBuffer()
    summary = Simulation(scenario, trace=trace).run()
    assert summary.quiet
    assert [violation.sentence for violation in verify(trace.table()).violations] == []
    lost = [name for name, end in summary.processes.items() if end.state != "alive"]
    assert lost == ([] if fault is JOIN else ["p3"])


@pytest.mark.parametrize(
    ("size", "name"),
    [
        *((size, "station-{:04}") for size in (2, 16, 32)),
        (16, "the-station-in-the-north-of-the-west-{:03}"),
        (32, "the-station-in-the-north-of-the-west-which-is-the-largest-{:03}"),
    ],
)
def test_no_packet_is_larger_than_what_is_reserved_for_it(size: int, name: str) -> None:
    """With names of twelve letters: a change of sixteen members had 438 bytes in a heartbeat for which 192 were reserved. With
    names of forty: a knock had 98 bytes (96 reserved), a vote and a refusal were charged as 64 with the network's header. With
    names of sixty: a request to join had 99 bytes (96 reserved). A member that wakes up named all others in its question, and
    each answer named them too: 166 bytes more than reserved."""
    members = tuple(name.format(number) for number in range(size))
    at = Duration((1200 if len(name) > 20 else 1290) * MS)  # such that it is eliminated meanwhile
    sleeper = (Fault(kind="pause", at=at, process=members[1], length=Duration(150 * MS)),) if size > 2 else ()
    hold = max(9 * MS, Interface(Parameters(), GROUP).least_hold((*members, "station-late")) + MS)
    joins = (1800 if hold == 9 * MS else 3500) * MS  # when P of those that are gone has been given back, so that there is a vote
    scenario = dataclasses.replace(
        alive.scenario_of(0),
        members=members,
        later=("station-late",),
        groups={GROUP: members},
        duration=Duration(joins + 700 * MS),
        parameters={"gather": Duration(SECOND), "hold": Duration(hold), "reclaim_after": Duration(50 * MS), "clocks": "none"},
        fault=(
            Fault(kind="crash", at=Duration(1200 * MS), process=members[-1]),
            *sleeper,
            Fault(kind="join", at=Duration(joins), process="station-late"),
        ),
    )
    sent: Counter[str] = Counter()
    reserved = largest(GROUP, (*members, "station-late"))
    limits = {
        "Beat": reserved.beat,
        "JoinAck": reserved.acknowledgement,
        "Knock": KNOCK,
        "Request": max(REQUEST, reserved.request),
        "Where": reserved.where,
        "Here": reserved.here,
        "Data": reserved.change,
        "Vote": reserved.acknowledgement,
    }

    class Weighing(Layer):
        def send(self, to: Sequence[ProcessId], packet: Packet) -> None:
            kind = type(packet).__name__
            sent[kind] += 1
            whole = isinstance(packet, Here) and (packet.beat is not None or packet.change is not None)
            if not isinstance(packet, Data) or packet.word is not None:
                assert size_of(packet) <= (reserved.tale if whole else limits[kind]), packet
            self.host.send(to, packet)

    def weighed(host: Host, parameters: Any) -> Engine:
        return Weighing(host, lambda inner: DESCRIPTION.make(inner, parameters))

    trace = TraceBuffer()
    Simulation(scenario, trace=trace, make=weighed).run()
    rows = sorted(trace.table().to_pylist(), key=lambda row: row["true_time"])
    views = [row["members"] for row in rows if row["kind"] == "view"]
    gone = {members[-1], *(fault.process for fault in sleeper)}
    assert set(views[-1]) == {*members, "station-late"} - gone
    assert set(limits) - set(sent) <= ({"Here", "Vote"} if size == 2 else set())


def views_with(script: str, process: ProcessId) -> tuple[list[dict[str, Any]], dict[ProcessId, int]]:
    """Rows of a scripted run in the order of time, and when each process had its first view with ``process`` in it (ns)."""
    trace = TraceBuffer()
    Simulation(scripted.SCENARIOS[script].scenario, trace=trace).run()
    rows = sorted(trace.table().to_pylist(), key=lambda row: row["true_time"])
    views = [row for row in rows if row["kind"] == "view" and process in row["members"]]
    return rows, {row["process"]: row["true_time"] for row in reversed(views)}


@pytest.mark.parametrize("script", [name for name in scripted.SCENARIOS if name.startswith("forty join")])
def test_forty_that_ask_at_one_instant_are_in_within_six_rotations(script: str) -> None:
    """Eight are let in by one change, a rotation after they asked; P is that of the ring of forty-four."""
    scenario = scripted.SCENARIOS[script].scenario
    ring = (*scenario.members, *scenario.later)
    interface = Interface(Parameters(**scenario.parameters), GROUP)
    rotation = interface.rotation(ring, [interface.hold(process) for process in ring])
    rows, _ = views_with(script, scenario.members[0])
    first = {row["process"]: row["true_time"] for row in reversed(rows) if row["kind"] == "view"}
    assert set(first) == set(ring)
    assert max(first.values()) - int(scenario.fault[0].at) < interface.crowd + 6 * rotation


def test_all_members_reckon_with_the_T_that_a_joiner_was_offered() -> None:
    """q asks for T = 12 ms (T_new). The vote goes against it; the refusal offers what is left of P, and q's change says it."""
    rows, first = views_with("a joiner is offered less", "q")
    details = [(row["kind"], row["process"], decode(row["detail"])) for row in rows if row["detail"]]
    refused = [detail for kind, process, detail in details if (kind, process) == ("reject", "q")]
    assert len(refused) == 1
    assert "cannot keep its guarantees" in refused[0]["why"]
    assert set(first) == {"a", "b", "c", "q"}
    bounds = {process: detail["bound"] for kind, process, detail in details if kind == "token"}
    assert bounds["q"] == bounds["a"] == bounds["b"] == bounds["c"]
    scenario = scripted.SCENARIOS["a joiner is offered less"].scenario
    stated = Interface(Parameters(**scenario.parameters), GROUP)
    assert bounds["q"] < stated.rotation("abcq", [4 * MS, 4 * MS, 4 * MS, 12 * MS])
    assert bounds["q"] == stated.rotation("abcd", [4 * MS] * 4), "P has not grown"
    held = [detail["hold"] for kind, process, detail in details if (kind, process) == ("token", "q")]
    assert max(held) <= 4 * MS


def test_the_frame_is_that_of_the_wire_format() -> None:
    assert FRAME == wire.FRAME_BYTES


WITHOUT = Variants()


@WITHOUT.replaces("what has been missing for a second is news", Gaps, "_is_lost")
def _is_news(self: Gaps, ask: Ask) -> bool:
    now = self.host.now
    if now - self._noticed[ask[:2]] >= SECOND:
        self._noticed[ask[:2]] = now
    return _IS_LOST(self, ask)


_IS_LOST = Gaps._is_lost


@pytest.mark.parametrize("variant", ["", "what has been missing for a second is news"])
def test_a_member_that_misses_a_packet_for_good_stops_although_turns_are_slow(variant: str) -> None:
    """b loses every copy of a packet, on a channel without an order, and a rotation takes more than half a second. Live (chaos on
    rtcast, round seed 51000202) such a member asked for 90 s, delivered nothing and did not stop."""
    scenario = Scenario(
        protocol="rtcast",
        members=("a", "b"),
        seed=1,
        duration=Duration(20 * SECOND),
        drain=Duration(40 * SECOND),
        parameters={"retransmissions": 3, "delay_max": Duration(400 * MS), "hold": Duration(20 * MS), "timing": "soft"},
        network=Network(delay=Delay("uniform", Duration(200 * MS), Duration(400 * MS))),
        workload=(Workload(rate=5.0),),
        fault=(Fault(kind="omit", at=Duration(9 * SECOND), process="b", source="a", packet="Data", count=1_000),),
    )
    with WITHOUT[variant].applied(must_act=bool(variant)):
        summary = Simulation(scenario, trace=TraceBuffer()).run()
    assert summary.quiet
    assert summary.processes["b"].state == ("alive" if variant else "halted")


@WITHOUT.replaces("packets are kept for some rotations, however short these are", Ring, "_forget")
def _forgets_soon(self: Ring) -> None:
    keep = self.heard_visit - (self.parameters.retransmissions + 3) * max(1, len(self.ring))
    self.ends = {visit: last for visit, last in self.ends.items() if visit >= keep}
    if self.gaps is not None:
        self.gaps.forget(keep)


@pytest.mark.parametrize("variant", ["", "packets are kept for some rotations, however short these are"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_lost_packet_is_repaired_although_the_ring_turns_many_times_in_d_max(seed: int, variant: str) -> None:
    """As live: d_max is 250 ms and an idle rotation takes 10 to 20 ms. On a channel without an order, b asks after d_max for what
    it has not got. The others had forgotten it by then: b halted, and no property was violated (chaos, round seed 51000302)."""
    scenario = Scenario(
        protocol="rtcast",
        members=("a", "b", "c"),
        seed=seed,
        duration=Duration(8 * SECOND),
        drain=Duration(20 * SECOND),
        parameters={
            **{"retransmissions": 3, "delay_max": Duration(250 * MS), "hold": Duration(20 * MS), "idle_hold": Duration(4 * MS)},
            "timing": "soft",
        },
        network=Network(delay=Delay("uniform", Duration(500 * US), Duration(6 * MS))),
        workload=(Workload(rate=20.0),),
        fault=(Fault(kind="omit", at=Duration(5 * SECOND), process="b", source="a", packet="Data"),),
    )
    trace = TraceBuffer()
    with WITHOUT[variant].applied(must_act=bool(variant)):
        summary = Simulation(scenario, trace=trace).run()
    found = verify(trace.table())
    assert summary.processes["b"].state == ("halted" if variant else "alive")
    assert found.properties["progress"].verdict == ("violated" if variant else "holds")


@WITHOUT.replaces("packets are kept for some time", Ring, "_forget")
def _forgets_by_time(self: Ring) -> None:
    begin = self.host.now - 2 * self.interface.hold_back
    self._past.append((self.host.now, self.heard_visit))
    while len(self._past) > 1 and self._past[1][0] <= begin:
        self._past.popleft()
    since, visit = self._past[0]
    if since <= begin:
        keep = visit - (self.parameters.retransmissions + 3) * max(1, len(self.ring))
        self.ends = {visit: last for visit, last in self.ends.items() if visit >= keep}
        if self.gaps is not None:
            self.gaps.forget(keep)


@pytest.mark.parametrize("variant", ["", "packets are kept for some time"])
def test_the_last_packet_of_a_dead_member_is_repaired_although_a_member_is_slow(variant: str) -> None:
    """e dies in the middle of a broadcast, and b stands still for 750 ms before the others can ask for what they lack. It was
    forgotten by then: all four halted. Live, two of three halted, and the group was lost (chaos, round seed 20000002)."""
    scenario = Scenario(
        protocol="rtcast",
        members=("a", "b", "c", "d", "e"),
        seed=1,
        duration=Duration(12 * SECOND),
        drain=Duration(30 * SECOND),
        parameters={
            **{"retransmissions": 3, "delay_max": Duration(250 * MS), "hold": Duration(20 * MS), "idle_hold": Duration(4 * MS)},
            "timing": "soft",
        },
        network=Network(delay=Delay("uniform", Duration(500 * US), Duration(6 * MS))),
        workload=(Workload(rate=20.0),),
        fault=(
            Fault(kind="crash", at=Duration(5 * SECOND), process="e", mid_broadcast=True),
            Fault(kind="pause", at=Duration(6_700 * MS), process="b", length=Duration(750 * MS)),
        ),
    )
    trace = TraceBuffer()
    with WITHOUT[variant].applied(must_act=bool(variant)):
        summary = Simulation(scenario, trace=trace).run()
    assert {summary.processes[name].state for name in "abcd"} == {"halted" if variant else "alive"}
    assert verify(trace.table()).properties["progress"].verdict == ("violated" if variant else "holds")


@WITHOUT.replaces("only the last turns of a member that is gone are passed over", Order, "_is_over")
def _is_last(self: Order, visit: int, gone: Mapping[str, int]) -> bool:
    return visit == self.visit and (self.complete or self.holder in gone)


@pytest.mark.parametrize("after", [4, 8])
@pytest.mark.parametrize("variant", ["", "only the last turns of a member that is gone are passed over"])
def test_a_turn_of_a_dead_member_whose_packets_reached_no_member_holds_no_member_up(variant: str, after: int) -> None:
    """Every copy of d's packet is lost, its heartbeat is heard, and d dies before it can send the packet again. Others have had
    their turns before d is eliminated. Live, four others waited for that packet to the end (chaos, round seed 21000302)."""
    scenario = Scenario(
        protocol="rtcast",
        members=("a", "b", "c", "d"),
        seed=1,
        duration=Duration(9 * SECOND),
        drain=Duration(30 * SECOND),
        parameters={
            **{"retransmissions": 3, "delay_max": Duration(250 * MS), "hold": Duration(20 * MS), "idle_hold": Duration(4 * MS)},
            "timing": "soft",
        },
        network=Network(delay=Delay("uniform", Duration(500 * US), Duration(6 * MS))),
        workload=(Workload(rate=20.0),),
        fault=(
            *(Fault(kind="omit", at=Duration(4 * SECOND), process=name, source="d", packet="Data") for name in "abcd"),
            Fault(kind="crash", at=Duration(4 * SECOND + after * MS), process="d"),
        ),
    )
    trace = TraceBuffer()
    with WITHOUT[variant].applied(must_act=bool(variant)):
        summary = Simulation(scenario, trace=trace).run()
    assert {summary.processes[name].state for name in "abc"} == {"halted" if variant else "alive"}
    found = verify(trace.table())
    assert found.properties["progress"].verdict == ("violated" if variant else "holds")
    assert variant or found.verdict == "holds"
