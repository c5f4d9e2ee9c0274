"""Scenarios made for one rule each."""

from __future__ import annotations

from plainchant.scenario.model import Scenario

SCENARIOS: dict[str, Scenario] = {}
