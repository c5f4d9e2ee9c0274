"""Counter-examples of ``errata.md``: each rule as printed, and as it is here."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from plainchant.protocols.rtcast.interface import Interface
from plainchant.protocols.rtcast.packets import Beat, Data
from plainchant.protocols.rtcast.parameters import Parameters
from plainchant.scenario.model import Delay, Fault, Network, Workload

from .runs import RingRun, fault, message, ms, simulate

# --- 4.1: hops --------------------------------------------------------------------------------------------------------------


def test_4_1_a_rotation_has_n_hops() -> None:
    """Every packet takes d_max: a rotation with the slot in it is longer than (4.2) says, though nobody needs its T."""
    parameters = {"hold": ms(1.5), "idle_hold": ms(0.5), "delay_max": ms(5)}
    run = simulate(
        "a b c",
        parameters=parameters,
        later=("d",),
        network=Network(delay=Delay("constant", ms(5))),
        faults=[fault("join", 100, process="d"), fault("omit", 100, process="a", packet="Request")],
    )
    times = Interface(Parameters(**parameters))  # type: ignore[arg-type]
    turns = [detail for detail in run.details("token", "a") if detail["rotation"] and detail["bound"] == run.bounds("a")[0]]
    longest = max(detail["rotation"] for detail in turns)
    assert longest == 3 * ms(0.5) + 3 * ms(5) + times.slot("abc")
    assert times.printed("abc", [ms(1.5)] * 3) < longest <= times.rotation("abc", [ms(1.5)] * 3)
    assert run.violated == []


# --- 4.1: everybody's timeout is P ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "survivors"), [("NaiveTimeout", 1), ("", 4)])
def test_4_1_one_crash_and_the_timeouts(variant: str, survivors: int) -> None:
    """The network is a little slower than a rotation before, within d_max."""
    run = simulate(
        "a b c d e", variant=variant, faults=[fault("crash", 60, process="c"), fault("clog", 63, delay=0.8, length=100)]
    )
    assert len(run.alive()) == survivors


# --- the deaf member --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "alive"), [("NaiveTimeout", ["c"]), ("", ["a", "b"])])
@pytest.mark.parametrize("at", [49, 50, 51.5])
def test_4_3_the_deaf_member_does_not_eliminate_those_whom_it_cannot_hear(variant: str, alive: list[str], at: float) -> None:
    """c goes deaf at different places of a rotation."""
    run = simulate("a b c", variant=variant, faults=[fault("cut", at, source=name, target="c") for name in "ab"])
    assert run.alive() == alive


def test_A1_a_member_that_does_not_hear_itself_stops() -> None:
    run = simulate("a b c", faults=[fault("cut", 45, source="b", target="b")])
    assert run.halted() == {"b": "unheard"}
    assert run.views("a")[-1] == ("a", "c")
    assert run.violated == []


# --- 4.2: Fig. 3 ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Figure3:
    """The message reception handler, lines 1 to 18, word for word; ``updates``: with the assignment that is missing."""

    ring: Sequence[str]
    last_sender: str
    updates: bool
    seqs: dict[str, int] = dataclasses.field(default_factory=dict)
    delivered: list[str] = dataclasses.field(default_factory=list)
    state: str = "RUNNING"

    def receives(self, sender: str, seq: int) -> None:
        if self.state != "RUNNING":
            return
        correct = seq == self.seqs.get(sender, 0) + 1
        if sender == self.last_sender:
            self.state = self.state if correct else "CRASHED"
        elif correct:
            place, end = self.ring.index(self.last_sender), self.ring.index(sender)
            between = [self.ring[(place + step) % len(self.ring)] for step in range(1, (end - place) % len(self.ring))]
            self.state = "CRASHED" if between else self.state
        else:
            self.state = "CRASHED"
        if self.state == "RUNNING":
            self.seqs[sender] = seq
            self.delivered.append(f"{sender}{seq}")
            if self.updates:
                self.last_sender = sender


def test_fig_3_never_updates_last_sender() -> None:
    """The second round stops everybody: between a, which is last_sender for ever, and c lies b."""
    stuck, going = (Figure3("abc", "a", updates) for updates in (False, True))
    for handler in (stuck, going):
        for sender, seq in (("a", 1), ("b", 1), ("c", 1), ("a", 2)):
            handler.receives(sender, seq)
    assert stuck.state == "CRASHED"
    assert stuck.delivered == ["a1", "b1"]
    assert going.state == "RUNNING"


def test_fig_3_does_not_miss_the_last_message_of_a_turn() -> None:
    """a sends 1 and 2, and 2 is lost: b's message is delivered after an omission, and a's third shows it a round later."""
    handler = Figure3("abc", "a", updates=True)
    for sender, seq in (("a", 1), ("b", 1), ("c", 1)):
        handler.receives(sender, seq)
    assert handler.state == "RUNNING"
    assert handler.delivered == ["a1", "b1", "c1"]
    handler.receives("a", 3)
    assert handler.state == "CRASHED"
    load = [Workload(senders=(name,), rate=1000.0, start=ms(40), stop=ms(120)) for name in "ac"]
    here = simulate("a b c", *load, faults=[fault("omit", 60, process="b", packet="Data", source="a")])
    assert here.halted() == {"b": "omission"}
    assert here.delivered("b")[-1][0] == "c", "nothing is delivered after the omission"


# --- 4.3: heartbeats, and who has heard what ----------------------------------------------------------------------------------


def unheard(*kinds: str) -> list[Fault]:
    """d misses packets of c, in one turn."""
    return [fault("omit", 61.5, process="d", packet=kind, source="c") for kind in kinds]


@pytest.mark.parametrize(("variant", "halted"), [("NoQuestions", {"c": "eliminated"}), ("", {})])
def test_4_3_a_lost_heartbeat_eliminates_a_correct_sender_whatever_r_is(variant: str, halted: dict[str, str]) -> None:
    run = simulate("a b c d e", variant=variant, parameters={"retransmissions": 3}, faults=unheard("Beat"))
    assert run.halted() == halted


def test_4_3_a_heartbeat_that_is_sent_twice_may_be_lost_once() -> None:
    run = simulate("a b c d e", variant="NoQuestions", parameters={"heartbeats": 2}, faults=unheard("Beat"))
    assert run.halted() == {}


def test_4_3_an_elimination_with_an_old_number_stops_everybody_else() -> None:
    """d misses c's whole turn, which all others have heard: c is eliminated, and a, b and e have what d will never have."""
    run = simulate("a b c d e", variant="NoQuestions", faults=unheard("Data", "Beat"))
    assert run.halted() == {"c": "eliminated", "a": "omission", "b": "omission", "e": "omission"}


@pytest.mark.parametrize(("retransmissions", "halted"), [(0, {"d": "omission"}), (1, {})])
def test_4_3_whoever_asks_around_first_stops_nobody_else(retransmissions: int, halted: dict[str, str]) -> None:
    parameters = {"retransmissions": retransmissions}
    run = simulate("a b c d e", variant="", parameters=parameters, faults=unheard("Data", "Beat"))
    assert run.halted() == halted
    assert run.violated == []


# --- 4.6: the counter ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "halted"), [("CountsTheAsking", {"b": "omission"}), ("", {})])
def test_4_6_the_turn_that_asks_does_not_count(variant: str, halted: dict[str, str]) -> None:
    run = simulate(
        "a b c",
        variant=variant,
        parameters={"retransmissions": 1},
        faults=[fault("omit", 60, process="b", packet="Data", source="a")],
    )
    assert run.halted() == halted
    assert bool(run.of("retransmit")), "it was sent again in either case"


# --- Lemma 5: a change that its sender did not survive --------------------------------------------------------------------------


def half_announced(variant: str) -> RingRun:
    """c dies. d, which eliminates it, reaches only a, and dies too."""
    faults = [fault("crash", 60, process="c"), *(fault("cut", 63, source="d", target=name) for name in "be")]
    calm = simulate("a b c d e", variant=variant, faults=faults)
    announced = next(row["true_time"] for row in calm.of("suspect", "d"))
    dies = Fault(kind="crash", at=ms((announced + 500_000) / 1_000_000), process="d")
    return simulate("a b c d e", variant=variant, faults=[*faults, dies])


def test_lemma_5_a_change_delivered_at_once_leaves_two_views() -> None:
    run = half_announced("at once")
    assert run.views("a")[1] == ("a", "b", "d", "e")
    assert run.views("b")[1] == run.views("e")[1] == ("a", "b", "e"), "they never have that view"


def test_lemma_5_a_view_waits_until_everybody_in_it_has_spoken() -> None:
    run = half_announced("")
    assert len(run.views("a")) == 1
    assert run.views("b") == run.views("e")
    lost = [sorted(detail["left"]) for detail in run.details("view", "b") if "left" in detail]
    assert lost[0] == ["c", "d"], "whoever is not in the next view has a reason"
    assert set(run.violated) <= {"bounded"}, "two have crashed within a rotation"


def test_every_turn_is_over_with_its_heartbeat() -> None:
    """What Fig. 3 cannot tell: the heartbeat says which was the turn's last packet."""
    run = simulate("a b c", message("a", 45))
    ends = {sent.packet.visit: sent.packet.seq for sent in run.packets_of(Beat) if sent.packet.ring == "a"}
    last = {sent.packet.visit: sent.packet.seq for sent in run.packets_of(Data) if sent.packet.ring == "a" and sent.packet.last}
    assert ends
    assert all(last[visit] == seq for visit, seq in ends.items())
