"""Variants of the clock layer with one rule taken out, which the runs of ``clock_runs`` have to catch.

Each comes with a seed that catches it. After a change of the layer or the runs:

    python -m tests.protocols.rtcast.clock_mutants            # look for seeds that catch
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from plainchant.core.model import ProcessId
from plainchant.protocols.rtcast.clocks import ClockSync, Reading, Steady

from .clock_runs import course_of, run

SEARCHED = 100
MUTANTS: dict[str, tuple[type[ClockSync], int]] = {}


def mutant(name: str, *, seed: int) -> Callable[[type[ClockSync]], type[ClockSync]]:
    def enter(variant: type[ClockSync]) -> type[ClockSync]:
        MUTANTS[name] = variant, seed
        return variant

    return enter


@mutant("drift is ignored", seed=0)
class Driftless(ClockSync):
    def _growth(self, time: int) -> int:
        return 0


@mutant("only half of the drift counts", seed=0)
class HalfTheDrift(ClockSync):
    def _growth(self, time: int) -> int:
        return super()._growth(time) // 2


@mutant("any round trip is accepted, as if it were a good one", seed=0)
class Credulous(ClockSync):
    def __init__(self, host: Any, inside: Any, group: Any, parameters: Any) -> None:
        super().__init__(host, inside, group, parameters)
        self._wait = 50 * self._precision

    def _error_of(self, round_trip: int) -> int:
        return min(super()._error_of(round_trip), self._precision)


@mutant("a reading is accepted however large its error is", seed=0)
class Modest(ClockSync):
    def __init__(self, host: Any, inside: Any, group: Any, parameters: Any) -> None:
        super().__init__(host, inside, group, parameters)
        self._wait = 50 * self._precision

    def _accepts(self, error: int) -> bool:
        return True


@mutant("both ways are taken to be equally long", seed=0)
class Symmetric(ClockSync):
    def _error_of(self, round_trip: int) -> int:
        return super()._error_of(round_trip) // 4


@mutant("a new master goes on with its raw clock", seed=0)
class RawMaster(ClockSync):
    def _change_master(self, master: ProcessId) -> None:
        super()._change_master(master)
        if master == self.me and self._reading is not None:
            self._offset = 0


@mutant("a new master has no error from the beginning", seed=0)
class FreshMaster(ClockSync):
    def _change_master(self, master: ProcessId) -> None:
        super()._change_master(master)
        self._master_since = -(10**18)


@mutant("a joiner that is the master begins with its own clock", seed=10)
class HastyMaster(ClockSync):
    def _change_master(self, master: ProcessId) -> None:
        super()._change_master(master)
        self._without = set(self._others)


@mutant("steps are believed", seed=7)
class Stepping(ClockSync):
    def __init__(self, host: Any, inside: Any, group: Any, parameters: Any) -> None:
        super().__init__(host, inside, group, parameters)
        self._steady = _Raw(host, self._drift)


class _Raw(Steady):
    def look(self) -> tuple[int, int]:
        return self._host.clock(), 0


@mutant("the error of who is asked is left out", seed=4)
class Forgetful(ClockSync):
    def _adopt(self, reading: Reading, time: int, round_trip: int) -> None:
        super()._adopt(dataclasses.replace(reading, error=self._error_of(round_trip)), time, round_trip)


@mutant("the clock jumps back", seed=0)
class Jumping(ClockSync):
    def _still_ahead(self, time: int) -> int:
        return 0


@mutant("what is still to be taken off is no error", seed=0)
class Smug(ClockSync):
    def error(self) -> int | None:
        self._look()
        return self._bound()


@mutant("eras do not count", seed=67)
class Timeless(ClockSync):
    def _adopt(self, reading: Reading, time: int, round_trip: int) -> None:
        super()._adopt(dataclasses.replace(reading, era=0), time, round_trip)


def search() -> None:
    """Prints, for each mutant, the first seed that catches it."""
    for name, (variant, _) in MUTANTS.items():
        found = next((seed for seed in range(SEARCHED) if run(course_of(seed), variant).violations), None)
        print(f"{name}: {found}")


if __name__ == "__main__":
    search()
