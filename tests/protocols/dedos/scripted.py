"""Scenarios made for one rule each, which need a course of events that no seed is likely to find."""

from __future__ import annotations

import dataclasses

from plainchant.scenario.model import Scenario
from plainchant.sim.scripted import Script


@dataclasses.dataclass(frozen=True)
class Scripted:
    """A scenario, and what crashes after which operation."""

    scenario: Scenario
    script: Script


SCENARIOS: dict[str, Scripted] = {}
