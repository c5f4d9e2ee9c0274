"""The ring with one rule taken out, or as it is printed: what claims, tests and transcripts compare it with. None is for use.

They run on the bare ring (:func:`bare_ring`): without admission control and without the clock layer, whatever parameters ask for.
By name: what travels to a task is the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from plainchant.core.engine import Engine, Host, PerGroup
from plainchant.core.model import GroupId, ProcessId
from plainchant.protocols.rtcast.gaps import Gaps
from plainchant.protocols.rtcast.inquiry import TOKEN, Inquiry
from plainchant.protocols.rtcast.interface import Interface
from plainchant.protocols.rtcast.packets import Ask, Change, Data, Here
from plainchant.protocols.rtcast.ring import Ring
from plainchant.protocols.variants import Variant, Variants

from ..observe import Make

VARIANTS: Final = Variants()


def bare_ring(host: Host, parameters: Any) -> Engine:
    """Makes the ring, with the layer for gaps below it where parameters ask for that, and nothing else."""

    def one(outer: Host, group: GroupId) -> Engine:
        def inside(inner: Host) -> Ring:
            return Ring(inner, group, parameters, Interface(parameters))

        if parameters.retransmissions or parameters.overtaking:
            return Gaps(outer, inside, parameters.retransmissions)
        return inside(outer)

    return PerGroup(host, one)


def variant(name: str) -> tuple[Variant, Make | None]:
    """What :func:`..observe.trace_of` takes: the variant of this name on the bare ring; empty: the protocol itself."""
    return VARIANTS[name], bare_ring if name else None


# Claims
@VARIANTS.replaces("every omission", Ring, "ordered")
def _every_omission(self: Ring, data: Data) -> None:
    """4.2 without the optimisation: an elimination explains nothing; a process that has missed a turn of the eliminated stops."""
    if self.formed and isinstance(data.word, Change) and data.word.out and data.sender != self.me:
        self.omission([], f"{self.me} has missed a turn of {', '.join(process for process, _ in data.word.out)}")
    else:
        _ORDERED(self, data)


_ORDERED = Ring.ordered


@VARIANTS.replaces("all silent", Inquiry, "silent")
def _all_silent(self: Inquiry, path: Sequence[ProcessId]) -> list[ProcessId]:
    """4.3, "a possible decision": a process that times out eliminates all of which it has not heard, whatever others answer."""
    ring = self._ring
    heard = {process for process, beat in ring.beats.items() if beat.visit > ring.visit}
    silent = [process for process in ring.ring if process != ring.me and process not in heard]
    for process in silent:
        self.answers.pop(process, None)
    return silent


@VARIANTS.replaces("at once", Ring, "_confirmed")
def _at_once(self: Ring, change: Change) -> bool:
    """A change is a view as soon as it comes in its order, like any message."""
    return True


# Tests, and transcripts
@VARIANTS.replaces("NoQuestions", Inquiry, "ask")
@VARIANTS.replaces("NaiveTimeout", Inquiry, "ask")
@VARIANTS.replaces("AllSilent", Inquiry, "ask")
def _asks_no_process(self: Inquiry) -> None:
    """4.3 as printed: a process that times out eliminates at once, without asking."""
    ring = self._ring
    self.is_open = True
    nothing = Here(ring.group, ring.name, ring.heard_visit, ring.heard_visit, ring.heard_holder, 0, (), ring.number)
    self.answers = {ring.me: nothing}
    self.decide()


@VARIANTS.replaces("NaiveTimeout", Ring, "_arm")
def _after_own_turn(self: Ring) -> None:
    """4.1 as printed: the bound on the token's rotation is the timeout of every process, from its own turn on."""
    if self.name and not self._phase and self.heard_holder == self.me:
        self.set_due(TOKEN, self.host.now + self.rotation)


@VARIANTS.replaces("AllSilent", Inquiry, "silent")
def _without_heartbeat(self: Inquiry, path: Sequence[ProcessId]) -> list[ProcessId]:
    """4.3's first thought: all are eliminated whose heartbeat was not heard."""
    ring = self._ring
    return [
        process
        for process in ring.ring
        if process != ring.me and ((beat := ring.beats.get(process)) is None or beat.visit <= ring.visit)
    ]


@VARIANTS.replaces("CountsTheAsking", Gaps, "_own_asks")
def _counts_the_asking(self: Gaps) -> tuple[Ask, ...]:
    """4.6 as printed: the counter is decremented at the token visit that sends the request, too."""
    before = self._head
    asked = _OWN_ASKS(self)
    if asked and self._head != before:
        self._left -= 1
        if self._left <= 0:
            self._give_up()
    return asked


_OWN_ASKS = Gaps._own_asks
