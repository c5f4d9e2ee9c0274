"""Fits the parameters of ``dedos`` to where it runs: real processes wait for a processor, and are not to be taken for crashed."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from ...core.model import MS, SECOND, Duration
from ..registry import Surroundings
from .parameters import Parameters

_BESIDE: Final = 1024  # Bytes of a packet beside a batch, at the most


def tune(parameters: Parameters, surroundings: Surroundings) -> Parameters:
    """Live, a node may be silent for 2 s, a process for 1 s, an application not read for 5 s, and an element holds a packet."""
    if not surroundings.live:
        return parameters
    wanted: dict[str, Any] = {
        "present_every": Duration(250 * MS),
        "misses": 8,
        "delta": Duration(100 * MS),
        "retry": Duration(60 * MS),
        "operation": Duration(1 * SECOND),
        "patience": Duration(5 * SECOND),
        "room": max(parameters.room, surroundings.packet - _BESIDE),
    }
    return dataclasses.replace(parameters, **{name: value for name, value in wanted.items() if name not in surroundings.given})
