"""Small simulations of newtop."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from statistics import fmean
from typing import Any

from plainchant.core.model import MS, SECOND, Duration
from plainchant.protocols.newtop.process import Process
from plainchant.scenario.model import Delay, LinkOverride, Network, Scenario, Workload

from ..runs import Run, verified
from .by_hand import USUAL


def simulate(
    groups: Mapping[str, str], *workload: Workload, parameters: Mapping[str, Any], engine: Any = Process, **settings: Any
) -> Run:
    """Runs these groups; one message a packet, FIFO links and fixed time-outs unless the parameters say otherwise."""
    named = {group: tuple(members.split()) for group, members in groups.items()}
    members = tuple(dict.fromkeys(name for names in named.values() for name in names))
    settings = {"duration": Duration(500 * MS), "drain": Duration(20 * SECOND), **settings}
    scenario = Scenario(
        protocol="newtop", members=members, groups=named, workload=workload, parameters={**USUAL, **parameters}, **settings
    )
    return verified(scenario, engine)


def uneven(members: str, seed: int) -> Network:
    """A network whose links differ much in delay, each always the same."""
    random = Random(seed)
    return Network(
        link=tuple(
            LinkOverride(source=source, target=target, delay=Delay("constant", Duration(random.choice((1, 2, 5, 10, 20)) * MS)))
            for source in members.split()
            for target in members.split()
            if source != target
        )
    )


def mean_delay(run: Run) -> float:
    """From send to delivery, over all deliveries, in milliseconds."""
    return fmean(row["true_time"] - row["sent"] for row in run.of("deliver")) / MS
