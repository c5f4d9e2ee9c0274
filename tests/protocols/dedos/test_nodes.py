"""Membership of nodes: loss, wrong reports, new lives, relays that replace each other, networks that crash, clocks that jump."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from plainchant.core.model import MS, Duration, Packet
from plainchant.core.wire import Codec
from plainchant.protocols.dedos.nodes import Appeared, Formed, Gone, Nodes, NodesEvent, Replaced, Returned
from plainchant.protocols.dedos.nodes_packets import PACKETS, AskPresent, Claim, NewGroup, Present
from plainchant.protocols.dedos.parameters import Parameters
from plainchant.scenario.model import Delay, Network
from plainchant_papers.dedos.variants import RULES

from ...fakes import FakeHost, as_host
from .speakers import DELTA, PI, Town, fault, town_of

JITTER = Delay("uniform", Duration(0), Duration(20 * MS))


# --- in the simulator -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_lost_packets_do_not_look_like_crashes(seed: int) -> None:
    """A quarter of all packets is lost. Nobody is reported but who has crashed, and that by everybody."""
    town = Town(
        town_of(6),
        fault("join", 700, process="n7.a"),
        fault("crash", 1200, process="n2.a"),
        later=("n7.a",),
        network=Network(delay=JITTER, loss=0.25, duplicate=0.1, reorder=0.1),
        misses=9,
        length=3000,
        seed=seed,
    )
    alive = [process for process in town.speakers if process != "n2.a"]
    assert {gone.node for gone in town.log if gone.kind == "Gone"} == {"n2"}
    assert len(town.of("Gone")) == len(alive)
    assert town.of("Returned") == []
    assert {tuple(town.alive(process)) for process in alive} == {("n1", "n3", "n4", "n5", "n6", "n7")}
    assert len({town.speakers[process].nodes.identity for process in alive}) == 1
    last = {gone.clock for gone in town.of("Gone")}
    assert max(last) <= 1200 * MS + 10 * PI + DELTA


def test_who_misses_the_new_group_hears_the_presents() -> None:
    """n3 gets no new-group message of n4."""
    omitted = fault("omit", 390, process="n3.a", packet="NewGroup", source="n4.a", count=2)
    town = Town(town_of(3), fault("join", 400, process="n4.a"), omitted, later=("n4.a",), misses=2)
    assert town.alive("n3.a") == ["n1", "n2", "n3", "n4"]
    assert len({speaker.nodes.identity for speaker in town.speakers.values()}) == 1
    assert town.of("Gone") == []
    times = {told.clock % PI for told in town.log if told.clock > 700 * MS}
    assert times <= {0}, "rounds of all are at the same times again"


def test_a_node_that_was_wrongly_reported_is_told_so_and_not_taken_in() -> None:
    """n2 is stopped for six rounds."""
    town = Town(town_of(3), fault("pause", 320, process="n2.a", length=600), misses=3, length=1500)
    for process in ("n1.a", "n3.a"):
        (gone,) = town.of("Gone", process)
        assert gone.node == "n2"
        assert town.alive(process) == ["n1", "n3"]
        returned = town.of("Returned", process)
        assert len(returned) >= 4, "once a round"
        assert {told.node for told in returned} == {"n2"}
    assert town.of("Gone", "n2.a") == [], "who was stopped reports nobody"


def test_without_fencing_it_is_taken_in() -> None:
    with RULES["fencing"].applied(must_act=True):
        town = Town(town_of(3), fault("pause", 320, process="n2.a", length=600), misses=3, length=1500)
    assert town.alive("n1.a") == ["n1", "n2", "n3"]
    assert town.of("Returned") == []


def test_a_new_life_ends_the_old_one() -> None:
    """n2 is back before anybody has missed it."""
    town = Town(town_of(3), fault("crash", 320, process="n2.a"), fault("restart", 370, process="n2.a"), misses=5)
    for process in ("n1.a", "n3.a"):
        told = [event for event in town.log if event.process == process and event.clock > 320 * MS]
        assert [(event.kind, event.node) for event in told] == [("Gone", "n2"), ("Appeared", "n2"), ("Formed", "")]
        assert {event.clock for event in told} == {470 * MS}
    assert town.speakers["n1.a"].nodes.alive["n2"].relay == "n2.a#1"


def test_another_relay_speaks_at_once() -> None:
    """n2.a dies, and n2.b, which has only listened, is the relay 20 ms later."""
    town = Town(
        "n1.a n2.a n2.b n3.a",
        fault("crash", 320, process="n2.a"),
        seats={"n2": ((0, "n2.a"), (340, "n2.b"))},
        misses=2,
    )
    for process in ("n1.a", "n3.a"):
        (replaced,) = town.of("Replaced", process)
        assert replaced.clock == 341 * MS
        state = town.speakers[process].nodes.alive["n2"]
        assert (state.relay, state.networked) == ("n2.b", ("n2.b",))
    assert town.of("Gone") == []
    assert town.alive("n2.b") == ["n1", "n2", "n3"]
    assert town.groups("n2.b") == town.groups("n1.a")


def test_who_only_listens_reports_like_a_relay() -> None:
    town = Town("n1.a n2.a n2.b n3.a", fault("crash", 320, process="n1.a"))
    assert town.groups("n2.b") == town.groups("n2.a") == town.groups("n3.a")
    assert {gone.process for gone in town.of("Gone")} == {"n2.a", "n2.b", "n3.a"}


def test_a_listener_that_comes_later_learns_the_group_from_presents() -> None:
    town = Town("n1.a n2.a n3.a", fault("join", 410, process="n2.b"), later=("n2.b",), seats={"n2": ((0, "n2.a"),)}, misses=2)
    assert town.alive("n2.b") == ["n2"], "nobody was told that it is there"

    def tell(speaker: Any) -> None:
        if speaker.host.me == "n2.a":
            speaker.neighbours = ("n2.a", "n2.b")
            speaker.nodes.local("n2.a", ("n2.a", "n2.b"))

    town = Town(
        "n1.a n2.a n3.a",
        fault("join", 410, process="n2.b"),
        later=("n2.b",),
        seats={"n2": ((0, "n2.a"),)},
        misses=2,
        begin=tell,
    )
    assert town.alive("n2.b") == ["n1", "n2", "n3"]
    assert {speaker.nodes.identity for speaker in town.speakers.values()} == {DELTA}


def test_a_crash_of_a_network_moves_everybody_to_the_other() -> None:
    crash = fault("lan", 320, lan=1)
    town = Town(town_of(3), crash, misses=3, lans=2)
    assert {speaker.nodes.lan() for speaker in town.speakers.values()} == {1}
    assert town.of("Gone") == []
    town = Town(town_of(3), crash, fault("heal", 700), misses=3, lans=2)
    assert {speaker.nodes.lan() for speaker in town.speakers.values()} == {0}
    town = Town(town_of(3), fault("lan", 320, lan=2), misses=3, lans=2)
    assert {speaker.nodes.lan() for speaker in town.speakers.values()} == {0}


@pytest.mark.parametrize("at", [370, 420])
@pytest.mark.parametrize("offset", [5000, -5000, 180, -180])
def test_a_clock_that_jumps_moves_rounds_only(offset: int, at: int) -> None:
    """During a round, or between two of them."""
    town = Town(town_of(3), fault("step", at, process="n2.a", offset=offset), misses=4, length=8000)
    assert town.of("Gone") == []
    assert town.of("Returned") == []
    step, crash = fault("step", at, process="n2.a", offset=offset), fault("crash", 1000, process="n3.a")
    town = Town(town_of(3), step, crash, misses=4, length=2000)
    assert {gone.process for gone in town.of("Gone")} == {"n1.a", "n2.a"}


def test_a_run_waits_for_groups_that_form() -> None:
    town = Town(town_of(3), length=60, drain=2000)
    assert town.summary.quiet
    assert town.alive("n1.a") == ["n1", "n2", "n3"]


# --- by hand ----------------------------------------------------------------------------------------------------------------


class Bench:
    """The service of n1.a with a host that does nothing."""

    def __init__(self, relay: str = "n1.a", max_packet: int = 1400, **parameters: Any) -> None:
        self.host = FakeHost("n1.a", max_packet)
        self.events: list[NodesEvent] = []
        self.claims: tuple[Claim, ...] = ()
        chosen = Parameters(**{"misses": 2, **parameters})
        self.nodes = Nodes(as_host(self.host), "n1", chosen, self.events.append, lambda: self.claims, lambda: 7)
        self.nodes.learn(["n2.a", "n2.b", "n3.a", "n1.b"])
        self.nodes.start(1, relay, ("n1.a", "n1.b"))

    def run(self, until: int) -> None:
        """Lets timers expire until a time of the clock."""
        while (due := min(self.host.timers.items(), key=lambda item: item[1], default=None)) and due[1] < until - 1000:
            self.host.timers.pop(due[0])
            self.host.time = due[1]
            assert self.nodes.expire(due[0])
        self.host.time = until - 1000

    def hear(self, source: str, time: int | None = None, life: int = 1, **fields: Any) -> None:
        clock = self.host.clock() if time is None else time
        node = source.partition(".")[0]
        given: dict[str, Any] = {
            "formed": 0,
            "networked": (source,),
            "load": 0,
            "claims": (),
            "part": 0,
            "parts": 1,
            "lan": 0,
            **fields,
        }
        assert self.nodes.receive(source, Present(node, life, clock, **given))

    def sent(self, kind: type[Packet]) -> Iterator[tuple[tuple[str, ...], Any]]:
        for call in self.host.called("send"):
            if isinstance(call[1], kind):
                yield call[0], call[1]


def test_new_group_goes_to_all_that_may_be_there_and_twice() -> None:
    bench = Bench()
    bench.run(100 * MS)
    sent = list(bench.sent(NewGroup))
    assert {to for to, _ in sent} == {("n1.b", "n2.a", "n2.b", "n3.a")}
    assert [packet.time for _, packet in sent] == [10 * MS, 10 * MS]
    ((_, present),) = bench.sent(Present)
    assert (present.time, present.networked, present.load) == (60 * MS, ("n1.a", "n1.b"), 7)
    assert bench.nodes.identity == 0
    bench.run(111 * MS)
    assert bench.events == [Formed(60 * MS)], "alone"


def test_who_is_not_networked_is_not_spoken_to() -> None:
    bench = Bench(networked=("n1.a", "n2.b", "n3.a"))
    bench.run(20 * MS)
    assert next(bench.sent(NewGroup))[0] == ("n1.b", "n2.b", "n3.a")


def test_names_of_new_nodes_are_invited_and_known_ones_are_not() -> None:
    bench = Bench()
    bench.run(200 * MS)
    before = len(list(bench.sent(NewGroup)))
    bench.nodes.learn(["n2.a", "n3.a", "n1.c"])
    bench.run(300 * MS)
    assert len(list(bench.sent(NewGroup))) == before
    bench.nodes.learn(["n4.a", "n2.a#1"])
    bench.nodes.learn(["n2.a"])
    bench.run(400 * MS)
    assert list(bench.sent(NewGroup))[-1][0] == ("n1.b", "n2.a#1", "n2.b", "n3.a", "n4.a")


def test_nobody_is_alive_before_the_round_is_concluded() -> None:
    bench = Bench()
    bench.run(61 * MS)
    bench.hear("n2.a", 60 * MS)
    assert bench.nodes.state_of("n2.b") is None
    waiting = bench.nodes.waiting()
    assert waiting is not None
    assert waiting.code == "node-appears"
    bench.run(111 * MS)
    state = bench.nodes.state_of("n2.b")
    assert state is not None
    assert bench.events == [Appeared(state), Formed(60 * MS)]
    assert bench.nodes.waiting() is None


def test_nodes_take_no_part_in_rounds_from_before_they_asked() -> None:
    """n2 asked at 0. Who answers it then need not know n1."""
    bench = Bench()
    bench.nodes.receive("n2.a", NewGroup("n2", 1, 0, ("n2.a",), 0))
    bench.run(200 * MS)
    assert [packet.time for _, packet in bench.sent(Present)] == [60 * MS, 160 * MS]


def test_who_was_heard_before_the_round_and_not_in_it_does_not_appear() -> None:
    bench = Bench(misses=1)
    bench.run(51 * MS)
    bench.hear("n2.a", 50 * MS)
    assert bench.nodes.knows("n2")
    bench.run(111 * MS)
    gone, formed = bench.events
    assert isinstance(gone, Gone), "somebody may have counted on it"
    assert (gone.node, gone.until) == ("n2", 100 * MS)
    assert formed == Formed(60 * MS)
    assert not bench.nodes.knows("n2")
    assert bench.nodes.waiting() is None


def test_presents_of_two_rounds_may_overtake_each_other() -> None:
    bench = Bench(misses=1)
    bench.nodes.receive("n3.a", NewGroup("n3", 1, 20 * MS, ("n3.a",), 0))
    bench.run(75 * MS)
    bench.hear("n2.a", 70 * MS)
    bench.hear("n2.a", 60 * MS)
    bench.run(111 * MS)
    assert [type(event) for event in bench.events] == [Appeared, Formed]
    bench.run(121 * MS)
    assert [type(event) for event in bench.events] == [Appeared, Formed, Formed]


def test_who_was_heard_in_the_second_of_two_rounds_only_appears_then() -> None:
    bench = Bench(misses=1)
    bench.nodes.receive("n3.a", NewGroup("n3", 1, 20 * MS, ("n3.a",), 0))
    bench.run(75 * MS)
    bench.hear("n2.a", 70 * MS)
    bench.run(111 * MS)
    assert bench.events == [Formed(60 * MS)]
    bench.run(121 * MS)
    assert [type(event) for event in bench.events] == [Formed, Appeared, Formed]


def test_who_was_stopped_takes_nobody_for_silent() -> None:
    """It begins to listen when it goes on: n2 has as many rounds as ever to be heard."""
    bench = Bench()
    bench.run(61 * MS)
    bench.hear("n2.a", 60 * MS)
    bench.run(165 * MS)
    bench.host.time = 10_000 * MS
    bench.host.timers.pop(("nodes", "round"))
    assert bench.nodes.expire(("nodes", "round"))
    assert ("nodes", "conclude") not in bench.host.timers, "the round is given up"
    bench.run(10_140 * MS)
    assert "n2" in bench.nodes.alive
    bench.run(10_340 * MS)
    assert "n2" not in bench.nodes.alive


def test_a_group_that_others_have_formed_already_is_waited_for() -> None:
    """n2's clock is ahead: it says 160 while the round of 160 is not concluded here. Of 140 nothing was known here."""
    bench = Bench()
    bench.run(161 * MS)
    bench.hear("n2.a", 160 * MS)
    bench.hear("n2.a", 161 * MS, formed=160 * MS)
    assert bench.nodes.identity == 60 * MS
    bench.hear("n2.a", 161 * MS, formed=140 * MS)
    assert bench.nodes.identity == 140 * MS
    bench.run(245 * MS)
    assert [packet.time for _, packet in bench.sent(Present)] == [60 * MS, 160 * MS, 240 * MS]


def test_gone_says_why() -> None:
    bench = Bench()
    bench.run(61 * MS)
    bench.hear("n2.a", 60 * MS)
    bench.run(312 * MS)
    gone = bench.events[-2]
    assert isinstance(gone, Gone)
    assert (gone.node, gone.life, gone.reason.code) == ("n2", 1, "node-silent")
    assert gone.reason.evidence == {"heard": "249ms ago", "round": 260 * MS, "last": 60 * MS}
    assert bench.events[-1] == Formed(260 * MS)


def test_old_presents_of_known_nodes_change_nothing() -> None:
    bench = Bench()
    bench.run(61 * MS)
    bench.hear("n2.b", 60 * MS, load=3)
    bench.run(112 * MS)
    bench.hear("n2.a", 59 * MS, load=9)
    state = bench.nodes.alive["n2"]
    assert (state.relay, state.load) == ("n2.b", 3)
    bench.hear("n2.c", 62 * MS, load=5)
    assert bench.events[-1] == Replaced(state)
    assert (state.relay, state.load) == ("n2.c", 5)
    bench.hear("n2.a", 63 * MS, life=0)
    assert state.relay == "n2.c", "of an earlier life"


def test_returned_once_a_present_whatever_the_network() -> None:
    bench = Bench(lans=2)
    bench.run(61 * MS)
    bench.hear("n2.a", 60 * MS)
    bench.run(320 * MS)
    for time in (320 * MS, 420 * MS):
        bench.run(time)
        bench.hear("n2.a", lan=0)
        bench.hear("n2.a", time, lan=1)
    returned = [event for event in bench.events if isinstance(event, Returned)]
    assert [event.state.last for event in returned] == [320 * MS, 420 * MS]
    assert "n2" not in bench.nodes.alive
    bench.hear("n2.a", life=2)
    bench.run(540 * MS)
    assert bench.nodes.alive["n2"].life == 2


def test_nodes_that_are_known_by_name_only_are_asked_before_this_process_knows_all() -> None:
    bench = Bench()
    bench.run(200 * MS)
    asked = {packet.node: to for to, packet in bench.sent(AskPresent)}
    assert asked == {"n2": ("n2.a", "n2.b"), "n3": ("n3.a",)}
    bench.hear("n2.a")
    before = len(list(bench.sent(AskPresent)))
    bench.run(249 * MS)
    assert {packet.node for _, packet in list(bench.sent(AskPresent))[before:]} == {"n3"}
    knew_all = bench.nodes.knows_all
    bench.run(252 * MS)
    assert (knew_all, bench.nodes.knows_all) == (False, True)
    before = len(list(bench.sent(AskPresent)))
    bench.run(500 * MS)
    assert {packet.node for _, packet in list(bench.sent(AskPresent))[before:]} == {"n2"}, "which is silent"


def test_who_listens_knows_all_only_some_time_after_its_node_has_named_it() -> None:
    bench, knew_all = Bench(relay="n1.b"), []
    for until, named in ((1000, ()), (1300, ("n1.b",)), (1500, ("n1.b", "n1.a")), (1749, ())):
        bench.run(until * MS)
        knew_all.append(bench.nodes.knows_all)
        if named:
            bench.hear("n1.b", networked=named)
    assert knew_all == [False, False, False, False]
    bench.run(1751 * MS)
    assert bench.nodes.knows_all


def test_a_process_that_its_node_has_not_named_is_answered_if_the_node_was_heard() -> None:
    bench = Bench()
    bench.run(61 * MS)
    bench.hear("n2.a", 60 * MS)
    for time in (111, 320):  # n2 is alive, and then gone
        bench.run(time * MS)
        bench.nodes.receive("n2.c", AskPresent("n1"))
        assert list(bench.sent(Present))[-1][0] == ("n2.c",)
        bench.nodes.receive("n9.x", AskPresent("n1"))
        assert list(bench.sent(Present))[-1][0] == ("n2.c",), "nothing was heard of n9"


def test_a_long_table_goes_in_several_packets() -> None:
    bench = Bench(max_packet=120)
    bench.claims = tuple(Claim(f"group-{number}", number, "n1.a") for number in range(12))
    bench.run(61 * MS)
    packets = [packet for _, packet in bench.sent(Present)]
    assert len(packets) == 4
    assert [claim for packet in packets for claim in packet.claims] == list(bench.claims)
    codec = Codec(PACKETS)
    assert all(len(codec.encode(packet)) <= 160 for packet in packets)
    assert [codec.decode(codec.encode(packet)) for packet in packets] == packets
    for packet in reversed(packets):
        bench.hear("n2.a", packet.time, claims=packet.claims, part=packet.part, parts=packet.parts)
    assert bench.nodes.claim_of("group-11") == Claim("group-11", 11, "n1.a")
    bench.run(111 * MS)
    assert bench.nodes.alive["n2"].claims == bench.claims
    bench.hear("n2.a", 62 * MS, claims=bench.claims[:1], part=0, parts=2)
    bench.hear("n2.a", 62 * MS, claims=bench.claims[1:2], part=1, parts=2)
    assert bench.nodes.alive["n2"].claims == bench.claims[:2]


def test_a_network_that_only_one_node_has_lost_is_left_by_all() -> None:
    bench = Bench(lans=2)
    for time in range(60, 500, 100):
        bench.run(time * MS + 1)
        bench.hear("n2.a", time * MS, lan=0)
        bench.hear("n2.a", time * MS, lan=1)
        bench.hear("n3.a", time * MS, lan=1)
    assert bench.nodes.lan() == 1
    bench.run(2000 * MS)
    assert sorted(bench.nodes.alive) == ["n1"]
    assert bench.nodes.lan() == 1, "nothing is heard on either"


def test_what_is_not_its_own_is_left_to_others() -> None:
    bench = Bench()
    assert not bench.nodes.receive("n2.a", Packet())
    assert not bench.nodes.expire(("nodes", "else"))
    assert not bench.nodes.expire("poll")


def test_before_it_is_seated_it_hears_nothing() -> None:
    events: list[NodesEvent] = []
    nodes = Nodes(as_host(FakeHost("n1.a")), "n1", Parameters(), events.append, lambda: (), lambda: 0)
    assert nodes.receive("n2.a", NewGroup("n2", 1, 0, ("n2.a",), 0))
    assert nodes.receive("n2.a", Present("n2", 1, 0, 0, ("n2.a",), 0, (), 0, 1, 0))
    assert nodes.claim_of("g") is None
    assert nodes.waiting() is None
    nodes.start(1, "n1.b", ("n1.a", "n1.b"))
    waiting = nodes.waiting()
    assert waiting is not None
    assert waiting.code == "group-forms"


def test_new_groups_of_long_ago_or_far_ahead_make_no_round() -> None:
    bench = Bench()
    bench.run(200 * MS)
    before = dict(bench.host.timers)
    for time in (100 * MS, 900 * MS):
        bench.nodes.receive("n4.a", NewGroup("n4", 1, time, ("n4.a",), 0))
    assert bench.host.timers == before
    bench.nodes.receive("n4.a", NewGroup("n4", 1, 190 * MS, ("n4.a",), 0))
    bench.run(300 * MS)
    to, present = list(bench.sent(Present))[-1]
    assert present.time == 240 * MS
    assert "n4.a" in to
