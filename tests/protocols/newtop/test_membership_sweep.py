"""The fault sweep of membership: seeded runs, every one verified, and proof that they go where it is dangerous."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import product

import pyarrow as pa
import pytest

from plainchant.core.model import MS

from .. import sweeping
from . import membership_sweep as sweep
from .membership_mutants import seeds

LEAST = 20
"""How often each situation has to occur in the ordinary sweep."""
RARE = 4
"""The same for those that need several faults at one moment."""
SHORT = {LEAST: 5, RARE: 2}
"""The same in a third of it."""


@pytest.mark.sweep
def test_every_run_keeps_every_promise_and_comes_to_rest_and_every_situation_occurs(times: int) -> None:
    occurred = sweeping.run_all(
        partial(sweeping.examine, sweep.run, sweep.situations),
        seeds(times),
        lambda seed: f"{sweep.kind_of(seed)}, {sweep.trouble_of(seed)}",
        sweep.__name__,
        chunksize=16,
    )
    usual = dict.fromkeys((*sweep.SITUATIONS, *sweep.FURTHER), LEAST)
    least = {**usual, **dict.fromkeys(sweep.RARE, RARE)}
    sweeping.demand(occurred, {name: SHORT[number] if times == 1 else number for name, number in least.items()})


def test_the_seeds_cover_what_is_promised() -> None:
    scenarios = [sweep.scenario_of(seed) for seed in range(sweep.SEEDS)]
    assert sweep.SEEDS >= 1_000
    assert {len(scenario.groups) for scenario in scenarios} == {1, 2, 3, 4, 5}
    sizes = {len(scenario.members) for scenario in scenarios}
    assert set(range(2, 7)) < sizes
    assert max(sizes) == 15
    assert len(sizes) >= 12
    for key, value, least in (
        ("same_view", True, 250),
        ("signatures", True, 250),
        ("partitions", "majority", 90),
        ("blocks", 3, 120),
        ("pack", False, 300),
        ("silence_by", "ticks", 200),
        ("silence_by", "timeout", 200),
        ("transport", "fifo", 60),
    ):
        assert sum(scenario.parameters.get(key) == value for scenario in scenarios) >= least, key
    assert sum(scenario.network.max_packet == sweep.MAX_PACKET for scenario in scenarios) >= 150
    assert sum(scenario.network.corrupt > 0 for scenario in scenarios) >= 30
    assert sum(scenario.network.wire for scenario in scenarios) >= 50
    assert {scenario.about for scenario in scenarios} == {f"{kind}, {of}" for kind, of in product(sweep.KINDS, sweep.TROUBLES)}
    kinds = Counter(fault.kind for scenario in scenarios for fault in scenario.fault)
    assert set(kinds) == {
        "crash",
        "restart",
        "join",
        "leave",
        "form",
        "refuse",
        "close",
        "rename",
        "pause",
        "partition",
        "cut",
        "clog",
        "step",
    }
    assert min(kinds.values()) >= 20
    assert sum(fault.mid_broadcast for scenario in scenarios for fault in scenario.fault) >= 200
    victims = [{fault.process for fault in scenario.fault if fault.kind == "crash"} for scenario in scenarios]
    assert sum(len(names) >= 2 for names in victims) >= 200
    assert {len(fault.parts) for scenario in scenarios for fault in scenario.fault if fault.kind == "partition"} == {2, 3, 4}


def rows(*given: tuple[int, str, str, str, str]) -> pa.Table:
    """Rows of a trace: time in ms, process, kind, group, detail."""
    found = [
        {"true_time": time * MS, "process": process, "kind": kind, "group": group, "detail": detail, "index": index}
        for index, (time, process, kind, group, detail) in enumerate(given)
    ]
    return pa.Table.from_pylist(found)


REFUSED = '{"reason":"no group","text":""}'


def test_who_is_refused_is_shut_out_if_somebody_was_there_all_the_time() -> None:
    inside = (0, "a", "join", "g", "")
    assert sweep.shut_out(rows(inside, (900, "b", "refused", "g", REFUSED))) == [("b", "g")]
    assert sweep.shut_out(rows(inside, (900, "b", "refused", "h", REFUSED))) == []
    assert sweep.shut_out(rows(inside, (900, "b", "refused", "g", REFUSED), (950, "a", "crash", "", "{}"))) == []
    assert sweep.shut_out(rows(inside, (800, "a", "leave", "g", ""), (900, "b", "refused", "g", REFUSED))) == []
    late = (700, "a", "join", "g", "")
    assert sweep.shut_out(rows(late, (900, "b", "refused", "g", REFUSED))) == []
