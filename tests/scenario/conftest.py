"""A protocol that only scenario files know, so that these tests say nothing about any real one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pytest

from plainchant.core.engine import Engine
from plainchant.core.model import MS, Duration, Packet, UsageError, parameter
from plainchant.protocols import registry


class Note(Packet, frozen=True, array_like=True, gc=False, tag=1):
    group: str


class Rest(Packet, frozen=True, array_like=True, gc=False, tag=2):
    group: str


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    window: int = parameter(16, "batches under way", unit="batches", minimum=1, maximum=1000)
    share: float = parameter(0.5, "a share", minimum=0, maximum=1)
    pack: bool = parameter(True, "whether to pack")
    mode: str = parameter("calm", "the mood", choices=("calm", "hasty"))
    heartbeat: Duration = parameter(Duration(20 * MS), "how often", unit="duration", minimum=1)

    def __post_init__(self) -> None:
        if self.mode == "hasty" and not self.pack:
            raise UsageError("a hasty chant has to pack; set pack = true")


def check(parameters: Parameters, groups: Mapping[str, Sequence[str]]) -> str | None:
    fewest = min(map(len, groups.values()))
    return f"a window of 999 is too much for {fewest} members" if parameters.window == 999 and fewest < 4 else None


CHANT = registry.Description(
    name="chant",
    about="For tests.",
    parameters=Parameters,
    packets=(Note, Rest),
    make=lambda host, parameters: Engine(),
    promises=lambda parameters, groups: (),
    faults=(),
    settle=lambda parameters: MS,
    check=check,
    admits=lambda parameters: parameters.mode == "calm",
)


@pytest.fixture(autouse=True)
def _chant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "protocols", lambda: {"chant": CHANT})
