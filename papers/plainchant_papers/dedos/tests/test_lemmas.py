"""Paper 002, 3.6.2 and appendix B: the invariants and lemmas between nodes, asserted after every operation on shared memory
(claims 96 and 100)."""

from __future__ import annotations

from typing import Any

import pytest

from plainchant.scenario.model import Fault
from plainchant_papers.dedos.watch import Lemmas
from tests.protocols.dedos.runs import DedosRun, crash, fault, messages, modules, simulate

MEMBERS = "n1.a n1.b n2.a n2.b n3.a"
LOAD = [messages(sender, 200, count=25, rate=100) for sender in ("n1.a", "n2.b", "n3.a")]
RELAYS = "n1.r n1.t n2.r n2.t n3.r n3.t"
ALL = {
    "flags_in_order",
    "flags_mean_read",
    "removed_is_read",
    "read_is_kept",
    "sent_is_there",
    "history_consecutive",
    "acknowledged_is_read",
}


def asserted(faults: list[Fault], **settings: Any) -> tuple[Lemmas, DedosRun]:
    lemmas = Lemmas()
    run = simulate(MEMBERS, *LOAD, faults=faults, relays=RELAYS, watch=lemmas, until=600, boxes=3, poll=5_000_000, **settings)
    return lemmas, run


@pytest.mark.parametrize(
    ("faults", "settings"),
    [
        ([], {}),
        ([], {"network": {"loss": 0.1, "duplicate": 0.05, "reorder": 0.1}}),
        (modules(250, "n1/1") + modules(300, "n2/1") + modules(301, "n1/2"), {}),
        (crash(250, "n1.b") + crash(300, "n2.b"), {}),
        (crash(250, "n1.r") + crash(300, "n3.r"), {}),
        ([fault("node", 300, node="n1")], {}),
        ([], {"elements": 6, "reserve": 2, "history": 4}),
    ],
    ids=["steady", "packets", "boxes", "members", "relays", "node", "small"],
)
def test_96_and_100_the_invariants_hold(faults: list[Fault], settings: dict[str, Any]) -> None:
    lemmas, run = asserted(faults, **settings)
    assert run.is_good
    assert lemmas.broken == []
    assert not lemmas.holes or any(each.kind == "module" for each in faults)
    assert set(lemmas.asked) == ALL
    assert min(lemmas.asked.values()) > 300


@pytest.mark.parametrize(("rule", "broken"), [("restore_buffers", "read_is_kept"), ("wait_for_all", "removed_is_read")])
def test_96_an_invariant_does_not_hold_without_its_rule(rule: str, broken: str) -> None:
    lemmas, _ = asserted([], rules={rule: False}, network={"loss": 0.2})
    assert lemmas.broken[0].startswith(broken)
