"""Paper 002, section 3.6.2: its three examples, each with the rule that it explains and without it (claims 97 to 99).

``tests/transcripts/dedos/`` has the same runs to read.
"""

from __future__ import annotations

import pytest

from plainchant.sim.scripted import Script
from tests.protocols.dedos.runs import ONE_EACH, DedosRun, crash, fault, messages, modules, simulate, slow


def everybody_fails(*, all_boxes: bool) -> DedosRun:
    """n1.s sends; both relays store; nobody has read it when the active boxes and the distributor crash."""
    return simulate(
        "n1.s n1.a n2.a", messages("n1.s", 300), senders=("n1.s",), rules={"all_boxes": all_boxes}, until=400,
        faults=[slow("n1.a", 299), slow("n2.a", 299), *modules(306, "n1/1", "n2/1"), *crash(306, "n1.r")],
    )  # fmt: skip


def test_97_a_message_that_is_in_all_boxes_of_its_sender_survives() -> None:
    run = everybody_fails(all_boxes=True)
    assert run.is_good
    assert {process: run.delivered(process) for process in ("n1.a", "n2.a")} == {"n1.a": [("n1.s", 1)], "n2.a": [("n1.s", 1)]}
    assert min(row["true_time"] for row in run.of("deliver")) > 306_000_000, "nobody had read it"


def test_97_otherwise_it_is_lost() -> None:
    run = everybody_fails(all_boxes=False)
    assert run.violated == ["validity"]
    assert run.of("deliver") == []


def one_of_four(*, restore_buffers: bool) -> DedosRun:
    """n2.s sends; the multicast reaches n1 only; n1.a has read it, n1.b has not, when boxes, distributor and sender crash."""
    return simulate(
        "n1.a n1.b n2.a n2.b n2.s", messages("n2.s", 300), senders=("n2.s",), until=500,
        rules={"restore_buffers": restore_buffers},
        faults=[
            fault("omit", 299, process="n2.r", packet="Multicast"), slow("n1.b", 299), *modules(306, "n1/1", "n2/1"),
            *crash(306, "n1.r", "n2.s"),
        ],
    )  # fmt: skip


def test_98_what_one_of_four_receivers_keeps_comes_to_all() -> None:
    run = one_of_four(restore_buffers=True)
    assert run.is_good
    assert [run.delivered(process) for process in ("n1.a", "n1.b", "n2.a", "n2.b")] == [[("n2.s", 1)]] * 4
    first, *others = sorted(row["true_time"] for row in run.of("deliver"))
    assert first < 306_000_000 < others[0], "one had read it"


def test_98_otherwise_only_that_one_has_it() -> None:
    run = one_of_four(restore_buffers=False)
    assert run.violated == ["agreement"]
    assert [run.delivered(process) for process in ("n1.a", "n1.b", "n2.a", "n2.b")] == [[("n2.s", 1)], [], [], []]


def full_buffer(*, restore_flags: bool) -> DedosRun:
    """n1.a has read 20 messages that n2 has not got, as many as the box has elements. The box and the distributor crash, and n1.a
    sends while it restores."""
    return simulate(
        "n1.a n2.a n2.s", messages("n2.s", 250, 20), messages("n1.a", 300.1, 30),
        senders=("n2.s",), rules={"restore_flags": restore_flags}, until=500, drain=2500, relays="n1.r n1.t n2.r",
        elements=20, reserve=0, window=64, places=3, network=ONE_EACH, script=Script({"n1.a restore": 8}, {}, None),
        faults=[fault("cut", 249, source="n1.r", target="n2.r", length=80), *modules(300, "n1/1"), *crash(300, "n1.r")],
    )  # fmt: skip


def test_99_nobody_stores_before_all_have_restored() -> None:
    run = full_buffer(restore_flags=True)
    assert run.is_good
    (recovers,) = run.states("recovers", "n1.a")
    (recovered,) = run.states("recovered", "n1.a")
    assert recovers["kept"] == 20
    assert not [row for row in run.of("send", "n1.a") if recovers["at"] < row["true_time"] / 1e6 < recovered["at"]]
    assert len(run.delivered("n2.a")) == 50


def test_99_otherwise_the_box_is_full_and_the_buffer_too() -> None:
    """n1.a cannot restore, since no element is free; and none gets free, since a new distributor waits for what n1.a restores.

    The thesis has the relay as the one who stores. Ours asks for all numbers from the first that is missing, so what it would
    store is what the receiver would restore; local senders do the damage.
    """
    run = full_buffer(restore_flags=False)
    assert run.states("recovers", "n1.a")
    assert not run.states("recovered")
    assert not run.summary.quiet
    assert "n1.a has messages in g to send" in run.summary.not_quiet.values()
    assert run.violated == ["validity", "agreement"]


@pytest.mark.parametrize("process", ["n1.r", "n2.r"])
def test_99_what_the_relay_stores_meanwhile_is_what_the_receiver_restores(process: str) -> None:
    """Box and receiver as above, without messages of n1's own and without the rule."""
    run = simulate(
        "n1.a n2.a n2.s", messages("n2.s", 250, 20), senders=("n2.s",), rules={"restore_flags": False}, until=500,
        relays="n1.r n1.t n2.r", elements=20, reserve=0, window=64, places=3, network=ONE_EACH,
        script=Script({"n1.a restore": 8}, {}, None), faults=[slow("n2.a", 249, 100), *modules(300, f"{process[:2]}/1")],
    )  # fmt: skip
    assert run.is_good
    assert len(run.delivered("n2.a")) == 20
