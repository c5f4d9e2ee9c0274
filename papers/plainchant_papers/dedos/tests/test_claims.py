"""Claims 96 to 108 (paper 002): each gives the verdict on record, and another one where something comes out differently."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plainchant_papers import claims_of
from plainchant_papers.claims import FAILS, HOLDS, REMARK, Context, measure
from plainchant_papers.dedos import cases, hierarchy, installation
from plainchant_papers.dedos.hierarchy import Cost, Crash, cost_of, ratios, recovery_of, steady
from plainchant_papers.dedos.installation import BYTES, Installation, model, simulate
from plainchant_papers.dedos.lemmas import asked_of, between
from plainchant_papers.dedos.metered import Run
from plainchant_papers.dedos.network import loads_of, several
from plainchant_papers.dedos.towns import SMALLEST, Plan, frame_time, town
from plainchant_papers.page import write
from plainchant_papers.runs import rows_of
from plainchant_papers.tests.remembered import Altered, Remembering, altered, measured, on_record

test_the_verdict_is_the_one_on_record = on_record(range(96, 109))


def test_the_claims_of_paper_002() -> None:
    claims = claims_of("dedos")
    assert [claim.number for claim in claims] == list(range(96, 109))
    assert {claim.paper for claim in claims} == {"002"}
    assert {claim.number: claim.expected for claim in claims if claim.expected != HOLDS} == {96: REMARK, 102: FAILS, 103: REMARK}


# --- a verdict can be another one -----------------------------------------------------------------------------------


WRONG: dict[str, Any] = {"violated": ("agreement",)}


@pytest.mark.parametrize(
    ("number", "fields", "verdict"),
    [
        (96, {"holes": 0}, HOLDS), (96, {"broken": ("read_is_kept: a",)}, FAILS), (96, WRONG, FAILS), (96, {"asked": {}}, FAILS),
        (97, {"violated": ()}, FAILS), (97, WRONG, FAILS),
        (98, {"violated": ()}, FAILS), (98, WRONG, FAILS),
        (99, {"violated": ()}, FAILS), (99, {"violated": ("rest",)}, FAILS),
        (100, {"broken": ("removed_is_read: a",)}, FAILS), (100, WRONG, FAILS), (100, {"asked": {}}, FAILS),
        (101, {"broken": ("kept_is_there: a",)}, FAILS), (101, WRONG, FAILS), (101, {"asked": {}}, FAILS),
        (102, {"violated": ()}, HOLDS), (102, WRONG, FAILS),
        (103, {"stall": 0.1}, FAILS), (103, {"stall": 100.0}, FAILS), (103, WRONG, FAILS),
        (104, {"lan_time": 1.0}, FAILS),
        (105, {"again": 1}, FAILS), (105, WRONG, FAILS),
        (106, {"handled": (("n", 1.0), ("m", 1.0))}, FAILS), (106, {"distributors": (("n", 4), ("m", 0))}, FAILS),
        (107, {"joined": (101.0,) * 4}, FAILS), (107, {"gone": (51.0,) * 5}, FAILS), (107, {"gone": (50.0,) * 4}, FAILS),
        (108, {"same_between": True}, FAILS), (108, {"same_within": False}, FAILS), (108, WRONG, FAILS),
    ],
)  # fmt: skip
def test_a_different_result_gives_another_verdict(number: int, fields: dict[str, Any], verdict: str) -> None:
    assert measured(number, Altered(altered(**fields))).verdict == verdict


# --- what is counted ------------------------------------------------------------------------------------------------


def test_what_stays_on_a_node_is_not_on_the_lan() -> None:
    alone = cost_of(steady("dedos", 1, 3, 0.1))
    assert (alone.packets, alone.lan_time, alone.interrupts) == (0, 0, 0)
    assert alone.messages > 0
    assert alone.operations > 0


def test_frames_have_a_smallest_size() -> None:
    assert frame_time(0) == frame_time(SMALLEST - 66) == pytest.approx(6.72)
    assert frame_time(1000) == pytest.approx((1000 + 66) * 0.08)


def test_a_lemma_that_is_broken_is_told() -> None:
    one = dataclasses.replace(between(2), variants=("restore_buffers",))
    found = asked_of(one)
    assert found.broken[0].startswith("read_is_kept:")


@pytest.mark.parametrize("build", [cases.sender_buffer, cases.four_receivers, cases.full_buffer, cases.rebuild, cases.gap])
@pytest.mark.parametrize("seed", range(3))
def test_the_situations_of_the_examples_are_there(build: Callable[[], Plan], seed: int) -> None:
    """What crashes is the relay and distributor, and a receiver that reads late is not excluded."""
    one = build()
    run = Run(dataclasses.replace(one, scenario=dataclasses.replace(one.scenario, seed=seed)))
    assert run.relays(at=cases.AT) == {"n1": "n1.r", "n2": "n2.r"}
    assert min((row["true_time"], row["process"]) for row in rows_of(run.table, "elect"))[1] == "n1.r"
    assert list(rows_of(run.table, "suspect")) == []
    assert run.violated == ()


@pytest.mark.parametrize("seed", range(3))
def test_the_first_process_of_each_node_relays(seed: int) -> None:
    one = Crash("dedos", "relay", 3, 3, after=60.0, seed=seed)
    assert Run(one.plan()).relays(at=one.at) == {f"n000{number}": f"n000{number}.p01" for number in (1, 2, 3)}


def test_a_crash_is_felt_and_noticed() -> None:
    relay, receiver = (recovery_of(Crash("dedos", kind, 3, 3, after=60.0)) for kind in ("relay", "receiver"))
    assert receiver.stall < 2 * receiver.usual < 10 < relay.stall
    assert receiver.noticed == pytest.approx(10, abs=5)
    flat = recovery_of(Crash("sequencer", "receiver", 2, 2, after=300.0))
    assert flat.noticed > 100
    assert flat.halted == 0


def test_a_full_history_is_felt_and_the_same_load_without_it_is_not() -> None:
    full = Crash("dedos", "full history", 3, 3, after=60.0)
    one = full.plan()
    roomy = dataclasses.replace(one.scenario, parameters={**one.scenario.parameters, "history": 1024})
    assert recovery_of(full).stall > 10
    assert max(Run(dataclasses.replace(one, scenario=roomy)).latencies()) < 2000


def test_of_two_flat_nodes_none_is_left_and_of_two_with_mailboxes_one() -> None:
    """Half of its members are no majority for the sequencer."""
    flat, ours = (recovery_of(Crash(protocol, "distributor's node", 2, 2)) for protocol in ("sequencer", "dedos"))
    assert (flat.halted, ours.halted) == (2, 0)
    assert ours.stall > 400
    assert not ours.violated


def test_crashes_are_compared_by_size() -> None:
    found = [
        hierarchy.Recovery("dedos", "box", 0.5, 20.0 + nodes, -1.0, 1, (), nodes, members, int(nodes == 2))
        for nodes, members in hierarchy.FELT
    ]
    (row,) = hierarchy.size_table(found).rows
    assert row == ("dedos", "box", "all stop", "all stop", "28.0", "52.0")


def test_ratios_compare_installations_of_the_same_size() -> None:
    ours = Cost("dedos", 2, 2, 1, 2.0, 0, 0, 10.0, 5.0, 1.0, 0, 100.0, 0)
    flat = dataclasses.replace(ours, protocol="sequencer", packets=6.0, lan_time=5.0, interrupts=50.0, busiest=2.0, latency=50.0)
    elsewhere = dataclasses.replace(flat, nodes=4)
    assert ratios([ours, flat, elsewhere]) == [(2, 2, 3.0, 0.5, 10.0, 2.0, 0.5)]
    assert ratios([ours, elsewhere]) == []


def test_the_hierarchy_pays_with_many_members_a_node() -> None:
    """Eight members a node: flat, each of them handles every broadcast, and says every 20 ms that it is there."""
    found = [cost_of(steady(protocol, 2, 8, 0.1)) for protocol in ("dedos", "sequencer")]
    ((_, _, packets, _, handled, _, latency),) = ratios(found)
    assert packets > 1
    assert handled > 3
    assert latency < 1


def test_the_variants_differ_from_what_we_run() -> None:
    one = loads_of(several(4, "one distributor", 0.1))
    assert [count for _, count in one.distributors] == [4, 0, 0, 0]
    runs = [Run(cases.full_buffer(("restore_flags",), tight=tight)) for tight in (True, False)]
    assert [run.violated != () for run in runs] == [True, False]


# --- the model ------------------------------------------------------------------------------------------------------


def test_the_model_says_what_simulations_do() -> None:
    size = Installation(10, 1, 40)
    found = simulate(size)
    said = model(dataclasses.replace(size, rate=found.rate))
    assert said.packets == pytest.approx(found.simulated.packets, rel=0.25)
    assert said.latency == pytest.approx(found.simulated.latency, rel=0.15)
    assert said.lan == pytest.approx(found.simulated.lan, rel=0.25)
    assert said.presents == found.simulated.presents


def test_the_model_says_what_simulations_of_several_groups_do() -> None:
    size = Installation(6, 1, 10, groups=3)
    found = simulate(size)
    said = model(dataclasses.replace(size, rate=found.rate))
    for name in ("packets", "relay", "distributor"):
        assert getattr(said, name) == pytest.approx(getattr(found.simulated, name), rel=0.25), name


def test_packets_are_as_large_as_the_model_takes_them_to_be() -> None:
    meter = Run(Installation(4, 2, 20).plan()).meter
    for kind, more in (("McRequest", 0), ("AcksOnly", 0), ("Present", 20)):
        assert meter.bytes[kind] / meter.packets[kind] == pytest.approx(BYTES[kind] + more, rel=0.1)


def test_the_model_grows_as_it_says() -> None:
    one, ten = model(Installation(100, 16, 100)), model(Installation(100, 16, 100, groups=10))
    assert ten.presents == one.presents
    assert ten.requests == 10 * one.requests
    assert ten.relay < 10 * one.relay
    rare = model(Installation(1000, 1, 100, present_every=10_000))
    assert rare.presents == 100
    assert model(Installation(100, 1, 100, loss=0.1)).latency > 10 * one.latency
    assert len(installation.outlook().rows) == 5


def test_all_sizes_are_measured() -> None:
    full = Context(None)
    assert len(hierarchy.sizes(full)) == 20
    assert max(one.nodes for one in installation.installations(full)) == 1000
    assert len(town(32, 16)) == 512


def test_tables_are_on_the_page(tmp_path: Path) -> None:
    results = measure(claims_of("dedos", [103, 104, 106]), Remembering())
    write(tmp_path, {"dedos": results}, quick=True)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    for words in ("what a message costs", "as a multiple of dedos", "how long it is felt", "model / simulation"):
        assert words in page
