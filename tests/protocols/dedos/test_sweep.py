"""The fault sweep: seeded runs, every one verified, and proof that they go where it is dangerous."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from .. import sweeping
from . import sweep
from .mutants import seeds

LEAST = 1
"""How often each situation has to occur."""


@pytest.mark.sweep
def test_every_run_keeps_every_promise_and_comes_to_rest_and_every_situation_occurs(times: int) -> None:
    occurred = sweeping.run_all(
        partial(sweeping.examine, sweep.run, sweep.situations), seeds(times), lambda seed: sweep.scenario_of(seed).about,
        sweep.__name__, chunksize=4,
    )  # fmt: skip
    sweeping.demand(occurred, dict.fromkeys(sweep.SITUATIONS, LEAST))


def test_the_seeds_cover_what_is_promised() -> None:
    courses = [sweep.course_of(seed) for seed in range(sweep.SEEDS)]
    scenarios = [scenario for scenario, _ in courses]
    assert {sweep.family_of(seed) for seed in range(sweep.SEEDS)} == set(sweep.FAMILIES)
    assert {len({name.partition(".")[0] for name in scenario.groups["g"]}) for scenario in scenarios} == {1, 2, 3, 4, 5}
    assert {len(scenario.groups) for scenario in scenarios} == {1, 2, 3}
    for key, values in (("boxes", (1, 2, 3)), ("window", (1, 2, 4, 8)), ("lans", (1, 2)), ("reach", ("lan", "node"))):
        for value in values:
            default = {"lans": 1, "reach": "lan"}.get(key)
            assert sum(scenario.parameters.get(key, default) == value for scenario in scenarios) >= 5, (key, value)
    for key in ("networked", "senders"):
        assert sum(bool(scenario.parameters[key]) for scenario in scenarios) >= 8, key
    for rate in (0, 0.1):
        assert sum(scenario.network.loss == rate for scenario in scenarios) >= 5, rate
    kinds = Counter(fault.kind for scenario in scenarios for fault in scenario.fault)
    wanted = ("crash", "restart", "join", "leave", "module", "node", "lan", "pause", "sluggish")
    assert min(kinds[kind] for kind in wanted) >= 5, kinds
    assert sum(script is not None for _, script in courses) >= 8


def test_a_node_is_left_in_every_scenario() -> None:
    for seed in range(sweep.SEEDS):
        scenario, script = sweep.course_of(seed)
        gone = {fault.process for fault in scenario.fault if fault.kind in ("crash", "leave")}
        gone |= {fault.process for fault in scenario.fault if fault.kind == "pause" and fault.length > sweep.SILENCE // 2}
        nodes = {fault.node for fault in scenario.fault if fault.kind == "node"}
        gone |= {process for process in (script.after.values() if script is not None else ()) if "module" not in process}
        for group, members in scenario.groups.items():
            stay = [
                name for name in members
                if name not in gone and name.partition(".")[0] not in nodes and name not in scenario.parameters["senders"]
            ]  # fmt: skip
            assert stay, f"seed {seed}: {group}"
