"""Mutants of the clock layer, which the runs of ``clock_runs`` have to catch.

Each comes with a seed that catches it. After a change of the layer or the runs:

    python -m tests.protocols.rtcast.clock_mutants            # look for seeds that catch
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from plainchant.core.model import ProcessId
from plainchant.protocols.rtcast.clocks import ClockSync, Reading, Steady
from plainchant.protocols.variants import Variants

from .clock_runs import course_of, run

SEARCHED = 100
MUTANTS: Final = Variants()
SEEDS: Final = {
    "drift is ignored": 0,
    "only half of the drift counts": 0,
    "any round trip is accepted, as if it were a good one": 0,
    "a reading is accepted however large its error is": 0,
    "both ways are taken to be equally long": 0,
    "a new master goes on with its raw clock": 0,
    "a new master has no error from the beginning": 0,
    "a joiner that is the master begins with its own clock": 10,
    "steps are believed": 7,
    "the error of who is asked is left out": 4,
    "the clock jumps back": 0,
    "what is still to be taken off is no error": 0,
    "eras do not count": 67,
}
"""The seed that catches each."""

mutant = MUTANTS.replaces
_GROWTH = ClockSync._growth
_INIT = ClockSync.__init__
_ERROR_OF = ClockSync._error_of
_CHANGE_MASTER = ClockSync._change_master
_ADOPT = ClockSync._adopt


@mutant("drift is ignored", ClockSync, "_growth")
def _driftless(self: ClockSync, time: int) -> int:
    return 0


@mutant("only half of the drift counts", ClockSync, "_growth")
def _half_the_drift(self: ClockSync, time: int) -> int:
    return _GROWTH(self, time) // 2


@mutant("any round trip is accepted, as if it were a good one", ClockSync, "__init__")
@mutant("a reading is accepted however large its error is", ClockSync, "__init__")
def _patient(self: ClockSync, *given: Any) -> None:
    _INIT(self, *given)
    self._wait = 50 * self._precision


@mutant("any round trip is accepted, as if it were a good one", ClockSync, "_error_of")
def _credulous(self: ClockSync, round_trip: int) -> int:
    return min(_ERROR_OF(self, round_trip), self._precision)


@mutant("a reading is accepted however large its error is", ClockSync, "_accepts")
def _modest(self: ClockSync, error: int) -> bool:
    return True


@mutant("both ways are taken to be equally long", ClockSync, "_error_of")
def _symmetric(self: ClockSync, round_trip: int) -> int:
    return _ERROR_OF(self, round_trip) // 4


@mutant("a new master goes on with its raw clock", ClockSync, "_change_master")
def _raw_master(self: ClockSync, master: ProcessId) -> None:
    _CHANGE_MASTER(self, master)
    if master == self.me and self._reading is not None:
        self._offset = 0


@mutant("a new master has no error from the beginning", ClockSync, "_change_master")
def _fresh_master(self: ClockSync, master: ProcessId) -> None:
    _CHANGE_MASTER(self, master)
    self._master_since = -(10**18)


@mutant("a joiner that is the master begins with its own clock", ClockSync, "_change_master")
def _hasty_master(self: ClockSync, master: ProcessId) -> None:
    _CHANGE_MASTER(self, master)
    self._without = set(self._others)


@mutant("steps are believed", Steady, "look")
def _raw(self: Steady) -> tuple[int, int]:
    return self._host.clock(), 0


@mutant("the error of who is asked is left out", ClockSync, "_adopt")
def _forgetful(self: ClockSync, reading: Reading, time: int, round_trip: int) -> None:
    _ADOPT(self, dataclasses.replace(reading, error=self._error_of(round_trip)), time, round_trip)


@mutant("the clock jumps back", ClockSync, "_still_ahead")
def _jumping(self: ClockSync, time: int) -> int:
    return 0


@mutant("what is still to be taken off is no error", ClockSync, "error")
def _smug(self: ClockSync) -> int | None:
    self._look()
    return self._bound()


@mutant("eras do not count", ClockSync, "_adopt")
def _timeless(self: ClockSync, reading: Reading, time: int, round_trip: int) -> None:
    _ADOPT(self, dataclasses.replace(reading, era=0), time, round_trip)


def violations(name: str, seed: int) -> list[str]:
    """What a mutant violates in the course of a seed."""
    course = course_of(seed)
    with MUTANTS[name].applied():
        return run(course).violations


def search() -> None:
    """Prints, for each mutant, the first seed that catches it."""
    for name in MUTANTS:
        print(f"{name}: {next((seed for seed in range(SEARCHED) if violations(name, seed)), None)}")


if __name__ == "__main__":
    search()
