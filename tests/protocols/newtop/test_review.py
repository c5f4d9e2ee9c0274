"""What a review of the engine found, each kept from coming back by the smallest course of events that showed it."""

from __future__ import annotations

import dataclasses
from itertools import permutations
from random import Random
from typing import Any

import pytest

from plainchant.core.model import MS, SECOND, Duration, Form, Pressure
from plainchant.protocols.newtop import process
from plainchant.protocols.newtop.packets import Again, Ask, Data, Null, Request, Status
from plainchant.protocols.newtop.parameters import Parameters
from plainchant.protocols.newtop.process import Process
from plainchant.scenario.model import Delay, Fault, LinkOverride, Network, Workload
from tests.fakes import as_host
from tests.protocols.newtop.by_hand import CAUSAL, ORDERS, USUAL, ByHand, link, name_of, to
from tests.protocols.newtop.runs import simulate
from tests.protocols.runs import Run

from . import scripted

LOSSY = {"transport": "lossy", "silence_by": "adaptive"}
NEAR = Network(delay=Delay("constant", Duration(1 * MS)))
FAR = Network(delay=Delay("constant", Duration(100 * MS)))


def clean(run: Run) -> bool:
    """Nothing was violated, and the run came to rest."""
    return not run.violated and run.summary.quiet


# --- messages of many packets -----------------------------------------------------------------------------------------

SEQUENCERS: tuple[dict[str, Any], ...] = ({"sequencers": {"x": "b"}}, {"sequencers": {"y": "b"}}, {"orders": {"x": "fast"}})


@pytest.mark.parametrize("parameters", [*ORDERS, *SEQUENCERS], ids=name_of)
@pytest.mark.parametrize("blocks", [4, 256])
def test_a_message_that_flow_control_stops_half_way_is_not_overtaken(parameters: dict[str, Any], blocks: int) -> None:
    """Every message of x has about 20 packets, and its number is that of the last: no later one of y may be smaller."""
    run = simulate(
        {"x": "a b c", "y": "a b c"},
        Workload(group="x", rate=30.0, size=3000),
        Workload(group="y", rate=200.0, size=20),
        parameters={**LOSSY, **parameters, "blocks": blocks},
        duration=Duration(100 * MS),
        network=Network(max_packet=200, delay=Delay("uniform", Duration(500_000), Duration(2 * MS))),
    )
    assert clean(run), run.violated
    assert any(row["size"] == 3000 for row in run.of("deliver"))


@pytest.mark.parametrize("order", ["fast", "cbcast"])
def test_later_fragments_do_not_wait_for_what_was_delivered_since_the_first(order: str) -> None:
    """a delivers b's messages while its large ones are under way; c gets b's 50 ms later, and a's need not wait for them."""
    run = simulate(
        {"x": "a c", "y": "a b c"},
        Workload(group="x", senders=("a",), count=2, size=3000),
        Workload(group="y", senders=("b",), rate=200.0),
        parameters={**LOSSY, "order": order, "blocks": 4},
        duration=Duration(100 * MS),
        network=dataclasses.replace(
            NEAR,
            max_packet=200,
            link=(LinkOverride(source="b", target="c", delay=Delay("constant", Duration(50 * MS))),),
        ),
    )
    assert clean(run), run.violated
    assert len([row for row in run.of("deliver") if row["group"] == "x"]) == 4


@pytest.mark.parametrize("order", ["fast", "cbcast"])
def test_nothing_waits_for_fragments_of_a_message_that_its_sender_had_not_delivered(order: str) -> None:
    """b has some of a's fragments when it sends in y; c gets them 50 ms later, and b's message need not wait for them."""
    run = simulate(
        {"x": "a b c", "y": "b c"},
        Workload(group="x", senders=("a",), count=2, size=3000),
        Workload(group="y", senders=("b",), rate=200.0),
        parameters={**LOSSY, "order": order, "blocks": 64},
        duration=Duration(50 * MS),
        network=dataclasses.replace(
            NEAR,
            max_packet=200,
            send_cost=Duration(MS),
            link=(LinkOverride(source="a", target="c", delay=Delay("constant", Duration(50 * MS))),),
        ),
    )
    assert clean(run), run.violated
    assert len([row for row in run.of("deliver") if row["group"] == "x"]) == 6


# --- requests to a sequencer ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sequencers", [{"y": "c"}, {"y": "c", "x": "b"}], ids=("symmetric", "asymmetric"))
def test_steady_sending_to_a_sequencer_leaves_other_groups_their_turn(sequencers: dict[str, str]) -> None:
    """a sends as fast as it may in y, and every 10 ms in x."""
    run = simulate(
        {"x": "a b", "y": "a b c"},
        Workload(group="y", senders=("a",)),
        Workload(group="x", senders=("a",), rate=100.0),
        parameters={**LOSSY, "sequencers": sequencers},
        duration=Duration(50 * MS),
        network=NEAR,
    )
    assert clean(run)
    moments = [row["true_time"] for row in run.of("send") if row["group"] == "x"]
    assert len(moments) == 5
    assert all(moment <= (number * 10 + 5) * MS for number, moment in enumerate(moments))


def test_a_message_gets_its_turn_after_the_requests_that_are_under_way() -> None:
    assert scripted.turns() == []


def unread(**parameters: Any) -> ByHand:
    """Everybody sends much, and the application of d does not read."""
    hands = ByHand({"y": "a b c d"}, blocks=3, transport="lossy", **parameters)
    hands["d"].notice(Pressure("y", True))
    for name in "bcd":
        hands.say(name, "y", *(f"{name}{number}" for number in range(100)))
    hands.rest(most=200)
    return hands


def test_requests_under_way_are_no_more_than_flow_control_lets_be() -> None:
    hands = unread(sequencers={"y": "a"})
    office = hands.part("a", "y").office
    assert office is not None
    for name in "bcd":
        desk = hands.part(name, "y").desk
        assert desk is not None
        assert len(desk.open) == 3
        assert sum(source == name for source, _ in (*office.queue, *office._early)) == 3


@pytest.mark.parametrize("parameters", [{"sequencers": {"y": "a"}}, {}], ids=("asymmetric", "symmetric"))
def test_little_is_said_while_an_application_does_not_read(parameters: dict[str, Any]) -> None:
    """Ten seconds in which nothing can happen: at most eight things are said a second by each."""
    hands = unread(**parameters)
    start = hands.time
    before = {name: len(hands.sent(name, Status)) + len(hands.sent(name, Request)) for name in "abcd"}
    while hands.time < start + 10 * SECOND:
        hands.rest(most=1)
    after = {name: len(hands.sent(name, Status)) + len(hands.sent(name, Request)) for name in "abcd"}
    assert max(after[name] - before[name] for name in "abcd") <= 80
    hands["d"].notice(Pressure("y", False))
    hands.rest()
    assert [len(hands.delivered(name)) for name in "abcd"] == [300] * 4


@pytest.mark.parametrize("parameters", ORDERS, ids=name_of)
def test_what_is_stable_is_told_to_all_alike(parameters: dict[str, Any]) -> None:
    """Over a lossless transport, and without announcements: who knows more than the others runs ahead, and their nulls wait."""
    for seed in range(25):
        random = Random(f"alike {seed}")
        hands = ByHand({"g": "a b c"}, blocks=4, **parameters)
        full = dict.fromkeys("abc", False)
        for _ in hands.wander(random, 400, messages=100, timers=0.15):
            if random.random() < 0.05:
                name = random.choice("abc")
                full[name] = not full[name]
                hands[name].notice(Pressure("g", full[name]))
        for name in "abc":
            hands[name].notice(Pressure("g", False))
        hands.rest()
        assert not hands.waiting(), seed
        assert hands.in_order(), seed


def test_a_late_status_does_not_take_a_wish_back() -> None:
    """b wants to hear when 9 is delivered at a; what it said before, that it wants to hear of 5, comes after it."""
    hands = ByHand({"y": "a b"}, transport="lossy")
    for wanted in (9, 5, 0, -1):
        hands["a"].receive("b", Status("y", 0, 0, 0, 0, 0, wanted))
    assert hands.part("a", "y").wanted_by == {"b": 9}


# --- orders by vectors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", CAUSAL, ids=name_of)
@pytest.mark.parametrize("blocks", [3, 8, 32])
def test_one_greedy_sender_is_as_fast_in_every_order(parameters: dict[str, Any], blocks: int) -> None:
    """What listeners have is waited for where the order waits for nothing, too."""
    sent = [
        len(
            simulate(
                {"g": "a b c"},
                Workload(senders=("a",)),
                parameters={**LOSSY, **one, "blocks": blocks},
                duration=Duration(50 * MS),
                network=NEAR,
            ).of("send")
        )
        for one in ({"order": "total"}, parameters)
    ]
    assert sent[1] >= sent[0] / 2 > 0


@pytest.mark.parametrize("order", ["fast", "cbcast", "relative"])
def test_a_kind_of_order_that_begins_late_has_everything_before_it_below_it(order: str) -> None:
    assert scripted.late_kind(order) == []


@pytest.mark.parametrize("order", ["fast", "cbcast"])
def test_a_total_message_does_not_wait_for_stability_in_a_group_that_is_not_eager(order: str) -> None:
    """d's messages in f take numbers that a's in x wait for; nobody who completes them may take his time."""
    run = simulate(
        {"x": "a b c", "f": "a b c d"},
        Workload(group="x", senders=("a",), rate=50.0, arrivals="poisson"),
        Workload(group="f", senders=("d",), rate=100.0, arrivals="poisson"),
        parameters={**LOSSY, "pack": True, "orders": {"f": order}, "stability_after": Duration(200 * MS)},
        duration=Duration(SECOND),
        network=Network(delay=Delay("uniform", Duration(1 * MS), Duration(3 * MS))),
    )
    assert clean(run)
    waits = [row["true_time"] - row["sent"] for row in run.of("deliver") if row["group"] == "x"]
    assert len(waits) > 100
    assert max(waits) < 60 * MS


# --- repair -----------------------------------------------------------------------------------------------------------

PATIENT = {"announce_after": Duration(100 * MS)}
KINDS: tuple[dict[str, Any], ...] = (
    {"order": "total"},
    {"order": "fast"},
    {"sequencers": {"g": "a"}},
    {"sequencers": {"g": "c"}},
)


@pytest.mark.parametrize("parameters", KINDS[:3], ids=name_of)
def test_what_is_only_on_its_way_is_not_sent_again(parameters: dict[str, Any]) -> None:
    """Links are longer than a probe waits, and lose nothing. (Of 200 requests some are repeated, as nothing tells that.)"""
    run = simulate(
        {"g": "a b c"},
        Workload(rate=100.0),
        parameters={**LOSSY, **PATIENT, **parameters},
        network=FAR,
        duration=Duration(SECOND),
    )
    assert clean(run)
    packets = run.summary.packets_by_type
    assert "Again" not in packets
    assert packets.get("Request", 0) <= 300


@pytest.mark.parametrize("parameters", KINDS, ids=name_of)
@pytest.mark.parametrize("kind", ["pause", "partition"])
def test_a_long_silence_of_one_member_is_no_storm(parameters: dict[str, Any], kind: str) -> None:
    """Thirty seconds: each of the 60 messages is sent again once to who lacks it, and the rest is said ever more rarely."""
    away: dict[str, Any] = {"process": "c"} if kind == "pause" else {"parts": (("a", "b"), ("c",))}
    run = simulate(
        {"g": "a b c"},
        Workload(rate=100.0, stop=Duration(200 * MS)),
        parameters={**LOSSY, **PATIENT, **parameters},
        network=NEAR,
        duration=Duration(31 * SECOND),
        fault=(Fault(kind, at=Duration(50 * MS), length=Duration(30 * SECOND), **away),),
    )
    assert clean(run)
    packets = run.summary.packets_by_type
    assert packets["Data"] == 60
    assert packets.get("Again", 0) <= 60
    assert packets.get("Request", 0) <= 250
    assert packets["Status"] <= 500


def test_a_gap_that_stays_is_asked_for_ever_more_rarely_until_something_comes() -> None:
    hands = ByHand({"g": "a b c"}, transport="lossy", announce_after=100 * MS)
    hands.say("a", "g", "m0", "m1")
    first = next(letter for letter in hands.mail if letter.target == "c")
    hands.mail.remove(first)
    hands.carry(only=link("a", "c"))
    while hands.time < 20 * SECOND:
        hands.rest(lose=to("a", "b"), most=1)
    asked = len(hands.sent("c", Ask))
    assert 10 <= asked <= 80
    hands.bring(first)
    hands.rest()
    assert hands.in_order()
    assert hands.part("c", "g").matrix.columns["a"].tries == 0


def test_a_request_that_stays_away_is_repeated_alone_and_ever_more_rarely() -> None:
    hands = ByHand({"g": "a b"}, transport="lossy", sequencers={"g": "a"})
    hands.say("b", "g", *(f"m{number}" for number in range(20)))
    assert len(hands.sent("b", Request)) == 20
    while hands.time < 20 * SECOND:
        hands.rest(lose=to("a"), most=1)
    again = hands.sent("b", Request)[20:]
    assert 10 <= len(again) <= 60
    assert {request.request for request in again} == {1}
    again_at = hands.time
    hands.carry()
    while len(hands.delivered("a")) < 20:
        hands.rest(most=1)
    assert hands.delivered("a") == [f"m{number}" for number in range(20)]
    assert hands.time <= again_at + 500 * MS  # when the first one is there, the others follow at once
    hands.rest()
    assert hands.delivered("b") == hands.delivered("a")


def test_a_lost_null_holds_up_its_senders_next_message_until_it_is_sent_again() -> None:
    """As vectors.Keyed has it: a message is here when its column has no gap, and nulls are in the column."""
    hands = ByHand({"g": "a b c"}, order="fast", transport="lossy")

    def lost(letter: Any) -> bool:
        return link("a", "c")(letter) and isinstance(letter.packet, Null)

    hands.say("b", "g", "m0")
    while not hands.sent("a", Null):
        hands.rest(lose=lost, most=1)
    hands.carry(lose=lost)
    hands.say("a", "g", "m1")
    hands.carry(keep=lambda letter: isinstance(letter.packet, Ask | Again))
    assert hands.delivered("c") == ["m0"]
    hands.rest()
    assert hands.delivered("c") == ["m0", "m1"]


# --- members that do not fit ------------------------------------------------------------------------------------------

SETTINGS: tuple[dict[str, Any], ...] = (*ORDERS, {"sequencers": {"x": "a"}}, {"sequencers": {"x": "b"}}, {"transport": "fifo"})
SHAPE = {"total": "", "slow": "", "fast": "keyed", "fast-compact": "compact", "relative": "relative", "cbcast": "keyed"}
"""What the vector of an order looks like: members of the same shape cannot tell."""


@pytest.mark.parametrize(("one", "other"), list(permutations(SETTINGS, 2)), ids=name_of)
def test_members_with_different_parameters_do_not_bring_each_other_down(one: dict[str, Any], other: dict[str, Any]) -> None:
    hands = ByHand({"x": "a b", "y": "a b"})
    for name, setting in (("a", one), ("b", other)):
        host = hands.hosts[name]
        host.calls.clear()
        host.timers.clear()
        hands.processes[name] = Process(as_host(host), Parameters(**{**USUAL, "transport": "lossy", **setting}))
        for group in "xy":
            hands[name].join(group, Form(("a", "b"), fresh=True))
    for number in range(4):
        for group in "xy":
            for name in "ab":
                hands.say(name, group, f"{name}{group}{number}")
                hands.rest(most=5)
    hands.rest(most=60)
    shapes = {SHAPE.get(name_of(setting), "") for setting in (one, other)}
    refused = [record for name in "ab" for record in hands.records(name, "refuse")]
    assert bool(refused) == (len(shapes) == 2), refused


def test_packets_of_groups_that_are_never_entered_are_kept_within_bounds() -> None:
    """Of a lossy transport at most 500: what is lost is asked for."""
    hands = ByHand({"x": "a b"}, transport="lossy")
    for number in range(1, 3_000):
        hands["a"].receive("b", Null("z", number, number - 1, number, 0, 0, 0))
    assert len(hands["a"]._early) == process.EARLY["lossy"] == 500


# --- effort -----------------------------------------------------------------------------------------------------------


def test_what_is_held_is_not_counted_anew_for_every_message() -> None:
    """Without flow control, and with c away, a holds ever more; counting it each time would be quadratic."""
    hands = ByHand({"g": "a b c"}, blocks=0)
    for number in range(500):
        hands.say("a", "g", f"m{number}")
    hands.carry(keep=to("c"))
    states = hands.records("a", "state")
    assert max(state["unstable"] for state in states) == 500
    counted = [state["history"] for state in states if "history" in state]
    assert counted[-1] >= 400
    assert len(counted) <= 60
    assert len(hands.sent("a", Data)) == 500
