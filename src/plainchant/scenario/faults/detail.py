"""A fault as plain data: the detail of its rows in a trace, and its entry in a summary."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..model import Fault


def describe_background(loss: float) -> dict[str, Any]:
    """The loss of a network that has a rate of its own, up to the end of the time of faults; healing does not change it."""
    return {"fault": "loss", "rate": loss, "background": True}


def describe_fault(fault: Fault, *, at: bool = False) -> dict[str, Any]:
    """A fault's kind, its time if asked for, and every setting that differs from the default.

    >>> describe_fault(Fault(kind="crash", at=5, process="p3"))
    {'fault': 'crash', 'process': 'p3'}
    """
    described: dict[str, Any] = {"fault": fault.kind} | ({"at": fault.at} if at else {})
    for field in dataclasses.fields(fault):
        value = getattr(fault, field.name)
        if field.name not in ("kind", "at") and value != field.default:
            described[field.name] = [list(part) for part in value] if field.name == "parts" else value
    return described
