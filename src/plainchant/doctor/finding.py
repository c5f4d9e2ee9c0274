"""What an examination comes to: findings, each with what to change."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from ..live.config import NodeConfig
    from .machine import Machine

OK: Final = "ok"
WARNING: Final = "warning"
PROBLEM: Final = "problem"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``change`` is the command or the setting that helps, where something is amiss."""

    check: str
    level: str
    text: str
    change: str = ""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """What is looked at beside the machine: a node's configuration, where spools go, and whether Spark is started."""

    config: NodeConfig | None = None
    me: str = ""
    """Which of its peers this machine is to run; empty: any."""
    spool: Path = Path(".")
    spark: bool = False


Check: TypeAlias = "Callable[[Machine, Subject], Iterable[Finding]]"


def ok(text: str, change: str = "", *, check: str = "") -> Finding:
    """A finding of the check that makes it, unless it names another."""
    return Finding(check, OK, text, change)


def warning(text: str, change: str, *, check: str = "") -> Finding:
    return Finding(check, WARNING, text, change)


def problem(text: str, change: str, *, check: str = "") -> Finding:
    return Finding(check, PROBLEM, text, change)
