"""Paper 002, 3.1, 3.2, 3.7, 4.2 and appendix A: mailboxes, joining as a sender or as a receiver, several groups (claim 108)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from plainchant.core.memory import Layout, Port
from plainchant.core.model import UsageError
from plainchant.scenario.model import Fault
from plainchant.sim.memory import SimMailboxServer
from tests.protocols.dedos.runs import ONE_EACH, DedosRun, crash, fault, messages, modules, simulate

LAYOUT = Layout(copies=2, places=2, slots=4, room=64)


# --- appendix A ---------------------------------------------------------------------------------------------------------------


def test_a_mailbox_is_created_once() -> None:
    server = SimMailboxServer()
    server.create("g", LAYOUT, 7)
    with pytest.raises(UsageError, match="there is a mailbox 'g' already"):
        server.create("g", LAYOUT, 8)


def test_who_connects_gets_a_port_and_who_disconnects_gives_it_back() -> None:
    server = SimMailboxServer()
    assert server.connect("g", LAYOUT, "a") == "there is no mailbox 'g'"
    server.create("g", LAYOUT, 7)
    assert server.connect("g", LAYOUT, "a") == Port(0, 7)
    assert server.connect("g", LAYOUT, "b") == Port(1, 7)
    assert "all 2 places" in str(server.connect("g", LAYOUT, "c"))
    server.disconnect("g", 0, "a")
    assert server.connect("g", LAYOUT, "c") == Port(0, 7)


def test_a_mailbox_is_removed_only_when_nobody_is_connected() -> None:
    server = SimMailboxServer()
    server.create("g", LAYOUT, 7)
    server.connect("g", LAYOUT, "a")
    with pytest.raises(UsageError, match="cannot be removed while a are connected"):
        server.remove("g")
    server.disconnect("g", 0, "a")
    assert server.names() == ()
    with pytest.raises(UsageError, match="there is no mailbox 'g'"):
        server.remove("g")


def test_4_2_a_mailbox_is_only_where_a_group_has_members() -> None:
    """n3 has none. n2's member leaves, and its mailbox is removed."""
    run = simulate(
        "n1.a n2.a", messages("n1.a", 200, 10, rate=50), relays="n1.r n2.r n3.r", until=700,
        faults=[fault("leave", 300, process="n2.a")],
    )  # fmt: skip
    assert run.is_good
    assert {node: memory.server.names() for node, memory in run.simulation.memories.items()} == {
        "n1": ("@node", "g"), "n2": ("@node",), "n3": ("@node",),
    }  # fmt: skip


# --- joining and leaving ------------------------------------------------------------------------------------------------------


def newcomers(faults: Sequence[Fault] = ()) -> DedosRun:
    """A sender and a receiver join on a node that has members, and a receiver on one that has none."""
    return simulate(
        "n1.a n2.a", messages("n1.a", 200, 30, rate=100), messages("n2.a", 200, 30, rate=100), messages("n2.s", 420, 3),
        messages("n2.b", 420, 3), later="n2.s n2.b n3.b", relays="n1.r n1.t n2.r n2.t n3.r", senders=("n2.s",), until=700,
        faults=[*(fault("join", 350, process=process) for process in ("n2.s", "n2.b", "n3.b")), *faults],
    )  # fmt: skip


def first_numbers(run: DedosRun) -> dict[str, int]:
    return {row["process"]: row["rank"] for row in run.of("join")}


def test_3_7_a_process_joins_as_a_sender_or_as_a_receiver() -> None:
    run = newcomers()
    assert run.is_good
    assert run.delivered("n2.s") == [], "it only sends"
    assert ("n2.s", 3) in run.delivered("n1.a")
    assert ("n2.b", 3) in run.delivered("n3.b")


@pytest.mark.parametrize("faults", [
    [], crash(351.05, "n1.r"), crash(351.5, "n1.r"), crash(352.15, "n1.r"), crash(352.25, "n1.r"), crash(353.25, "n1.r"),
    crash(351.5, "n2.r"), crash(352.15, "n2.r"), modules(352.15, "n2/1"), modules(352.3, "n2/1"), modules(353.3, "n3/1"),
])  # fmt: skip
def test_3_7_all_know_the_first_number_of_who_joins(faults: list[Fault]) -> None:
    """It gets the message with the number after its change, and everything from there on, whatever fails meanwhile."""
    run = newcomers(faults=faults)
    assert run.is_good
    joined = first_numbers(run)
    everything = [(rank, *message) for rank, message in zip(run.ranks("n1.a"), run.delivered("n1.a"), strict=True)]
    for process in ("n2.b", "n3.b"):
        got = [(rank, *message) for rank, message in zip(run.ranks(process), run.delivered(process), strict=True)]
        assert got == [each for each in everything if each[0] > joined[process]]
        assert got, process


# --- several groups -----------------------------------------------------------------------------------------------------------


def test_3_1_a_process_is_in_several_groups() -> None:
    run = simulate(
        "n1.a n1.b n2.a n3.a", messages("n1.a", 300, 3, group="g"), messages("n1.a", 300, 3, group="h"),
        messages("n3.a", 300, group="i"),
        groups={"g": "n1.a n1.b", "h": "n1.a n2.a n3.a", "i": "n2.a n3.a"}, relays="n1.r n2.r n3.r", network=ONE_EACH, until=500,
        faults=modules(305, "n1/1"),
    )  # fmt: skip
    assert run.is_good
    got = {
        (process, group): [row["seq"] for row in run.of("deliver", process) if row["group"] == group]
        for process in ("n1.a", "n1.b", "n2.a", "n3.a") for group in ("g", "h", "i")
    }  # fmt: skip
    assert {key: seqs for key, seqs in got.items() if seqs} == {
        ("n1.a", "g"): [1, 2, 3], ("n1.b", "g"): [1, 2, 3], ("n1.a", "h"): [1, 2, 3], ("n2.a", "h"): [1, 2, 3],
        ("n3.a", "h"): [1, 2, 3], ("n2.a", "i"): [1], ("n3.a", "i"): [1],
    }  # fmt: skip


def test_108_there_is_no_order_between_groups() -> None:
    """Two groups of the same members, whose distributors are on different nodes. Nothing fails, and nothing is lost."""
    run = simulate(
        "n1.a n2.a", messages("n1.a", 300, group="g"), messages("n2.a", 300, group="h"), until=400,
        groups={"g": "n1.a n2.a", "h": "n1.a n2.a"},
    )  # fmt: skip
    assert run.is_good
    order = {process: [row["group"] for row in run.of("deliver", process)] for process in ("n1.a", "n2.a")}
    assert order == {"n1.a": ["g", "h"], "n2.a": ["h", "g"]}


def test_4_2_distributors_are_spread_over_the_nodes() -> None:
    """Six groups on three nodes that form at once."""
    names = [f"g{number}" for number in range(6)]
    run = simulate(
        "n1.a n2.a n3.a", groups=dict.fromkeys(names, "n1.a n2.a n3.a"), relays="n1.r n2.r n3.r", until=300,
    )  # fmt: skip
    assert run.is_good
    assert sorted(begin["process"] for begin in run.stages("begin")) == ["n1.r", "n1.r", "n2.r", "n2.r", "n3.r", "n3.r"]
