"""Paper 002, chapter 3: what its text does not say and its pseudo-code does not do, as runs with the rule and without it."""

from __future__ import annotations

import pytest

from plainchant.core.model import MS
from plainchant.sim.scripted import Script
from tests.protocols.dedos.runs import ONE_EACH, DedosRun, crash, fault, messages, modules, simulate, slow

# --- a new distributor --------------------------------------------------------------------------------------------------------


def rebuilt(*, load_unread: bool, box: bool) -> DedosRun:
    """Both mailboxes have the message and n1.a has read it; n2.a has not when the distributor crashes, and then, if wanted, the
    box of n2."""
    return simulate(
        "n1.s n1.a n2.a", messages("n1.s", 600), senders=("n1.s",), rules={"load_unread": load_unread}, until=800,
        faults=[slow("n2.a", 599, 10, 80), *crash(606, "n1.r"), *(modules(650, "n2/1") if box else [])],
    )  # fmt: skip


@pytest.mark.parametrize("box", [False, True])
def test_102_a_new_distributor_loads_what_not_every_receiver_has_read(box: bool) -> None:
    run = rebuilt(load_unread=True, box=box)
    assert run.is_good
    assert run.delivered("n2.a") == [("n1.s", 1)]
    assert [begin["loaded"] for begin in run.stages("begin")] == [0, 1]


@pytest.mark.parametrize("box", [False, True])
def test_102_appendix_b_what_every_mailbox_has_need_not_have_been_read(box: bool) -> None:
    """The lowest of the highest numbers is 2. By appendix B everything up to 2 has been read by all, and need not be kept."""
    run = rebuilt(load_unread=False, box=box)
    assert [begin["loaded"] for begin in run.stages("begin")] == [0, 0]
    assert run.violated == ["agreement"]
    assert run.delivered("n1.a") == [("n1.s", 1)]
    assert run.delivered("n2.a") == []


def late_multicasts(**rules: bool) -> DedosRun:
    """What n1 says takes a second longer for a while, n1.a's messages among it: n2 and n3 take n1 for crashed, and go on."""
    return simulate(
        "n1.a n2.a n3.a", messages("n1.a", 610, 4), messages("n2.a", 1650), relays="n1.r n1.t n2.r n3.r", rules=rules, until=1800,
        network=ONE_EACH, faults=[fault("clog", 600, source="n1.r", delay=1000, length=900)], drain=3000,
    )  # fmt: skip


def test_of_two_distributors_the_earlier_one_is_not_listened_to() -> None:
    run = late_multicasts()
    assert run.is_good
    assert run.delivered("n1.a") == [("n1.a", seq) for seq in (1, 2, 3, 4)]
    assert run.delivered("n2.a") == run.delivered("n3.a") == [("n2.a", 1)]


def test_without_epochs_its_messages_are_taken_for_the_next_ones() -> None:
    run = late_multicasts(epochs=False)
    assert run.violated == ["fifo"]
    assert run.delivered("n2.a")[0] == ("n1.a", 2)


def test_who_was_wrongly_reported_is_killed() -> None:
    run = late_multicasts()
    assert run.halted() == ["n1.a"]
    assert run.summary.processes["n1.a"].reason.startswith("g goes on without this node")
    fenced, *_ = run.states("fenced")
    assert fenced["process"] == "n1.r"


def test_without_fencing_both_go_on() -> None:
    run = late_multicasts(fencing=False)
    assert run.halted() == []
    assert run.violated == ["validity", "agreement"]


def test_a_distributor_that_was_stopped_steps_down() -> None:
    """n1.a is alone on its node and does nothing for 900 ms: n1 counts as crashed, and its distributor is one no more."""
    run = simulate(
        "n1.a n2.a n3.a", *(messages(f"{node}.a", 200, 30, rate=20) for node in ("n1", "n2", "n3")),
        relays="n2.r n3.r", networked=("n1.a", "n2.r", "n3.r"), until=2000,
        faults=[fault("pause", 300, process="n1.a", length=900)],
    )  # fmt: skip
    assert run.is_good
    assert run.halted() == ["n1.a"]
    assert run.delivered("n2.a") == run.delivered("n3.a")
    assert {("n2.a", 30), ("n3.a", 30)} <= set(run.delivered("n2.a"))


def test_a_distributor_that_hangs_costs_its_node_nothing() -> None:
    """n1.r distributes, relays for n1 and hangs. n1.t relays in its place, and no member halts."""
    run = simulate(
        "n1.a n2.a n3.a", *(messages(f"{node}.a", 200, 30, rate=20) for node in ("n1", "n2", "n3")),
        relays="n1.r n1.t n2.r n3.r", until=2000, faults=[fault("pause", 300, process="n1.r", length=900)],
    )  # fmt: skip
    assert run.is_good
    assert run.halted() == ["n1.r"]
    assert len(run.delivered("n1.a")) == 90


def test_who_gets_no_answers_chooses_another_distributor_and_nobody_halts() -> None:
    """n1.r is deaf to n2's requests, though not to anything else: for n2 it has crashed. n3 may send meanwhile."""
    run = simulate(
        "n1.a n2.a n3.a", messages("n2.a", 310), messages("n3.a", 1200), messages("n1.a", 1200),
        relays="n1.r n2.r n3.r", until=1500,
        faults=[fault("omit", 300, process="n1.r", packet="McRequest", source="n2.r", count=100)],
    )  # fmt: skip
    assert run.is_good
    assert run.halted() == []
    (call,) = [call for call in run.stages("call") if call["reason"] == "silent"]
    assert call["process"] == "n2.r"
    assert call["distributor"] != "n1.r"
    assert [step["process"] for step in run.stages("steps down")] == ["n1.r"]
    assert len(run.delivered("n1.a")) == 3


def test_a_new_distributor_waits_for_all_who_are_alive() -> None:
    assert unanswered(wait_for_answers=True).is_good


def test_otherwise_who_answers_late_is_taken_for_lost() -> None:
    run = unanswered(wait_for_answers=False)
    assert "n2.a" in run.halted()


def unanswered(**rules: bool) -> DedosRun:
    """n2.r does not hear the first HIGHEST."""
    return simulate(
        "n1.s n1.a n2.a n3.a", messages("n1.s", 300), senders=("n1.s",), relays="n1.r n1.t n2.r n3.r", rules=rules, until=500,
        faults=[slow("n2.a", 299, 10, 60), *crash(310, "n1.r"), fault("omit", 305, process="n2.r", packet="Highest")], drain=2500,
    )  # fmt: skip


@pytest.mark.parametrize("at", [300.8, 302, 305, 310, 320, 340])
def test_the_distributor_dies_in_the_synchronisation_phase(at: float) -> None:
    """Its history has room for three messages."""
    run = simulate(
        "n1.s n1.a n2.a", messages("n1.s", 300, 10), messages("n2.a", 301, 5), senders=("n1.s",), until=500,
        history=3, elements=8, reserve=2, network=ONE_EACH, faults=[slow("n2.a", 302, 30), *crash(at, "n1.r")],
    )  # fmt: skip
    assert run.is_good
    begun = [sync for sync in run.details("sync", "n1.r") if sync["at"] <= at]
    assert begun[-1]["stage"] == "begin", "it is in the phase when it dies"
    assert len(run.delivered("n2.a")) == 15


# --- a mailbox ----------------------------------------------------------------------------------------------------------------


def with_a_gap(*, gaps: bool) -> DedosRun:
    """The box of n2 crashes with 2, which n2.a has read, 3, which it has not, and 4, a local sender's and so in the spare box."""
    return simulate(
        "n1.a n2.a n1.s n2.s", messages("n1.s", 300), messages("n1.s", 310), messages("n2.s", 312), senders=("n1.s", "n2.s"),
        rules={"gaps": gaps}, until=500, faults=[slow("n2.a", 305, 12), *modules(316, "n2/1")], drain=2500,
    )  # fmt: skip


def test_after_recovery_every_number_is_asked_for() -> None:
    run = with_a_gap(gaps=True)
    assert run.is_good
    assert run.ranks("n2.a") == [2, 3, 4]
    assert 3 in [row["rank"] for row in run.of("retransmit")]


def test_the_number_after_the_highest_is_not_the_first_that_is_missing() -> None:
    run = with_a_gap(gaps=False)
    assert run.ranks("n2.a") == [2]
    assert run.of("retransmit") == []
    assert run.violated == ["agreement"]


def filled(*, reserve: bool) -> DedosRun:
    """n2.a fills its box while n1.s's message is on its way."""
    return simulate(
        "n1.s n1.a n2.a", messages("n2.a", 300, 20), messages("n1.s", 300.3), senders=("n1.s",), rules={"reserve": reserve},
        elements=8, reserve=2, window=64, network=ONE_EACH, until=400, drain=8000 if reserve else 2000,
    )  # fmt: skip


def test_local_senders_cannot_fill_the_box() -> None:
    run = filled(reserve=True)
    assert run.is_good
    assert len(run.delivered("n2.a")) == 21


def test_otherwise_what_comes_first_has_no_place_and_nothing_moves() -> None:
    run = filled(reserve=False)
    assert run.delivered("n2.a") == []
    assert "8 messages of g on n2 have no number" in run.summary.not_quiet.values()
    assert run.violated == ["validity", "agreement"]


def idle_receiver(*, idle_recovery: bool) -> DedosRun:
    """The box of n2 crashes while nobody sends anything, and then the distributor."""
    return simulate(
        "n1.s n1.a n2.a", messages("n1.s", 500), senders=("n1.s",), rules={"idle_recovery": idle_recovery}, until=600,
        faults=[*modules(300, "n2/1"), *crash(350, "n1.r")], drain=2500,
    )  # fmt: skip


def test_who_has_nothing_to_read_recovers_all_the_same() -> None:
    run = idle_receiver(idle_recovery=True)
    assert run.is_good
    (recovered,) = run.states("recovered", "n2.a")
    assert recovered["at"] <= 300 + 20 + 1, "within the time after which it looks again"


def test_otherwise_no_distributor_ever_gets_its_answer() -> None:
    run = idle_receiver(idle_recovery=False)
    assert run.states("recovered") == []
    assert run.violated == ["validity"]


# --- processes that die inside a primitive ------------------------------------------------------------------------------------


@pytest.mark.parametrize("box", [1, 2, 3])
def test_a_sender_dies_between_two_boxes(box: int) -> None:
    """The message is in some boxes, and in none of them afterwards, or it is delivered to all."""
    script = Script({}, {f"n2.s store {box}": "n2.s"}, 1)
    run = simulate(
        "n1.a n2.a n2.s", messages("n2.s", 300, 3), senders=("n2.s",), boxes=3, script=script, until=600, network=ONE_EACH
    )
    assert run.is_good
    assert run.summary.processes["n2.s"].state == "crashed"
    boxes = run.simulation.memories["n2"].server.mailboxes["g"].copies
    assert not [entry for copy in boxes for _, entry in copy.entries() if entry.sender == "n2.s" and not entry.stamp]


@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("box", [1, 2])
def test_a_relay_dies_after_any_of_its_stores(box: int, number: int) -> None:
    """It sets the numbers of local messages in all boxes, spares first; the first box crashes a little later."""
    script = Script({}, {f"n2.r store {box}" + (f" #{number}" if number > 1 else ""): "n2.r"}, 1)
    run = simulate(
        "n1.a n2.a n2.s", messages("n2.s", 300, 8), messages("n1.a", 300, 3), senders=("n2.s",), script=script, until=600,
        network=ONE_EACH, faults=modules(310, "n2/1"),
    )  # fmt: skip
    assert run.is_good
    assert run.summary.processes["n2.r"].state == "crashed"
    assert len(run.delivered("n2.a")) == 11


@pytest.mark.parametrize("number", range(1, 7))
def test_a_receiver_dies_while_it_restores(number: int) -> None:
    """n1.a and n1.b have read what n2 has not got. One dies after any of its steps; the other restores all of it."""
    name = f"n1.a restore 2 #{number}" if number > 1 else "n1.a restore 2"
    script = Script({}, {name: "n1.a"}, None)
    run = simulate(
        "n1.a n1.b n2.a n2.s", messages("n2.s", 300, 6), senders=("n2.s",), window=8, until=600, network=ONE_EACH, script=script,
        faults=[fault("cut", 299, source="n1.r", target="n2.r", length=60), *modules(320, "n1/1"), *crash(320, "n1.r", "n2.s")],
    )  # fmt: skip
    assert run.summary.processes["n1.a"].state == "crashed"
    assert run.is_good
    assert len(run.delivered("n2.a")) == 6


# --- the order of a sender's messages -----------------------------------------------------------------------------------------


def overtaken(*, fifo: bool) -> DedosRun:
    """The first request is lost, the second is not."""
    return simulate(
        "n1.a n2.s", messages("n2.s", 300), messages("n2.s", 305), senders=("n2.s",), rules={"fifo": fifo}, until=500,
        faults=[fault("omit", 299, process="n1.r", packet="McRequest")], drain=2500,
    )  # fmt: skip


def test_messages_of_a_sender_are_numbered_in_their_order() -> None:
    run = overtaken(fifo=True)
    assert run.is_good
    assert run.delivered("n1.a") == [("n2.s", 1), ("n2.s", 2)]


def test_otherwise_a_request_that_is_lost_is_overtaken() -> None:
    run = overtaken(fifo=False)
    assert "fifo" in run.violated
    assert run.delivered("n1.a")[0] == ("n2.s", 2)


def order_rebuilt(*, rebuild_order: bool) -> DedosRun:
    """The distributor crashes; the first request to the next one is lost, the second is not."""
    return simulate(
        "n1.a n2.s", messages("n2.s", 600), messages("n2.s", 630), senders=("n2.s",), rules={"rebuild_order": rebuild_order},
        faults=[*crash(600, "n1.r"), fault("omit", 599, process="n1.t", packet="McRequest")], until=800, drain=2500,
    )  # fmt: skip


def test_a_new_distributor_knows_whose_turn_it_is() -> None:
    run = order_rebuilt(rebuild_order=True)
    assert run.is_good
    assert run.delivered("n1.a") == [("n2.s", 1), ("n2.s", 2)]


def test_otherwise_it_begins_with_what_comes_first() -> None:
    run = order_rebuilt(rebuild_order=False)
    assert "fifo" in run.violated


# --- nodes and networks -------------------------------------------------------------------------------------------------------


def test_a_node_whose_last_networked_process_is_gone_has_crashed() -> None:
    run = simulate(
        "n1.a n2.a", messages("n1.a", 200, 20, rate=50), messages("n2.a", 200, 20, rate=50), until=1200,
        faults=[*crash(300, "n2.r"), *crash(330, "n2.t")],
    )  # fmt: skip
    assert run.is_good
    assert run.halted() == ["n2.a"]
    assert "no networked process" in run.summary.processes["n2.a"].reason
    gone = [change["gone"] for change in run.states("change") if change["gone"]]
    assert gone == [{"n2.a": "node crashed"}]
    assert ("n1.a", 20) in run.delivered("n1.a")


@pytest.mark.parametrize("lans", [1, 2])
def test_a_network_crashes(lans: int) -> None:
    """For longer than it takes until nodes are taken for crashed: with a second one nobody notices."""
    run = simulate(
        "n1.a n2.a", messages("n1.a", 200, 20, rate=50), messages("n2.a", 200, 20, rate=50), lans=lans, until=1500,
        faults=[fault("lan", 300, lan=1, length=1200)],
    )  # fmt: skip
    if lans == 2:
        assert run.is_good
        assert run.halted() == []
        assert len(run.delivered("n1.a")) == len(run.delivered("n2.a")) == 40
        assert max(row["true_time"] for row in run.of("deliver")) < 1500 * MS, "before the first network is back"
    else:
        assert run.halted(), "the network falls into parts, which the failure hypothesis excludes: one of them stops"
