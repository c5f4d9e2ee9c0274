"""The ring with one rule taken out, or as it is printed: what claims are compared with. None of these is for use.

They are rings without admission control and without the clock layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from plainchant.core.engine import Engine, Host, PerGroup
from plainchant.core.model import GroupId, ProcessId
from plainchant.protocols.rtcast.gaps import Gaps
from plainchant.protocols.rtcast.interface import Interface
from plainchant.protocols.rtcast.packets import Change, Data
from plainchant.protocols.rtcast.ring import Ring

from ..observe import Make


class EveryOmission(Ring):
    """4.2 without the optimisation: an elimination explains nothing, and who has not heard a turn of the eliminated stops."""

    def ordered(self, data: Data) -> None:
        if self.formed and isinstance(data.word, Change) and data.word.out and data.sender != self.me:
            self.omission([], f"{self.me} has missed a turn of {', '.join(process for process, _ in data.word.out)}")
        else:
            super().ordered(data)


class AllSilent(Ring):
    """4.3, "a possible decision": who times out eliminates everybody of whom it has not heard, whoever answers."""

    def _silent(self, path: Sequence[ProcessId]) -> list[ProcessId]:
        heard = {process for process, beat in self._beats.items() if beat.visit > self.visit}
        silent = [process for process in self.ring if process != self.me and process not in heard]
        for process in silent:
            self._answers.pop(process, None)
        return silent


class AtOnce(Ring):
    """A change is a view as soon as it comes in its order, like any message."""

    def _confirmed(self, change: Change) -> bool:
        return True


def engine_of(ring: type[Ring] = Ring, gaps: type[Gaps] = Gaps) -> Make:
    """Makes engines with this ring, and this layer below it."""

    def make(host: Host, parameters: Any) -> Engine:
        def one(outer: Host, group: GroupId) -> Engine:
            def inside(inner: Host) -> Ring:
                return ring(inner, group, parameters, Interface(parameters))

            if parameters.retransmissions or parameters.overtaking:
                return gaps(outer, inside, parameters.retransmissions)
            return inside(outer)

        return PerGroup(host, one)

    return make


VARIANTS: Final[Mapping[str, Make]] = {
    "every omission": engine_of(EveryOmission),
    "all silent": engine_of(AllSilent),
    "at once": engine_of(AtOnce),
}
"""By name: what travels to a task is the name."""


def variant(name: str) -> Make | None:
    """The engine of this name; empty: the protocol's own."""
    return VARIANTS[name] if name else None
