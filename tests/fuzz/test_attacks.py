"""Hostile packets change nothing that they should not: every protocol, from strangers, old incarnations and lying members.

``make sweep`` looks further (``long``), ``make fuzz`` for as long as one likes. Findings of theirs become cases of
:data:`FOUND` (what a seed has found) or tests of their own in ``test_found``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plainchant.core.engine import Engine, Host
from plainchant.core.model import Packet, ProcessId
from plainchant.protocols.registry import describe

from .attack import MEMBERS, STRANGERS, Attack, attacked
from .courses import COURSES, Course
from .dice import Dice, dice_of
from .packets import bend, make

FOUND = {
    ("sequencer", STRANGERS): (2, 18, 36),
    ("newtop", STRANGERS): (37,),
    ("newtop", MEMBERS): (29,),
    ("dedos", STRANGERS): (6, 9, 13),
}
"""Seeds that once halted somebody, broke a promise, raised, or went round for ever; docs/bounds.md says how."""

QUICK = ("sequencer", "newtop-asymmetric", "mailbox", "dedos")


def found() -> Iterator[Any]:
    for (name, sources), seeds in FOUND.items():
        for seed in seeds:
            yield pytest.param(COURSES[name], sources, seed, id=f"{name}-{sources}-{seed}")


@pytest.mark.long
@pytest.mark.parametrize("course", COURSES.values(), ids=lambda course: course.name)
def test_without_an_attack_nobody_halts_and_all_promises_are_kept(course: Course) -> None:
    attack = Attack(course, Dice(b""), STRANGERS)
    attack._strike = lambda _: None  # type: ignore[method-assign]
    result = attack.run()
    assert (result.halted, result.violated, result.summary.quiet) == ({}, [], True)
    assert max(result.sizes.values()) < course.most


@pytest.mark.parametrize(("course", "sources", "seed"), list(found()))
def test_what_has_been_found_is_found_no_more(course: Course, sources: str, seed: int) -> None:
    attacked(course, dice_of(seed), sources, seed=seed % 7 + 1)


@pytest.mark.parametrize("sources", [STRANGERS, MEMBERS])
@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=1, suppress_health_check=list(HealthCheck))
@given(data=st.binary(min_size=300, max_size=800))
def test_an_attack_comes_to_nothing(name: str, sources: str, data: bytes) -> None:
    attacked(COURSES[name], Dice(data), sources)


@pytest.mark.long
@pytest.mark.parametrize("sources", [STRANGERS, MEMBERS])
@pytest.mark.parametrize("course", COURSES.values(), ids=lambda course: course.name)
def test_many_attacks_come_to_nothing(course: Course, sources: str, times: int) -> None:
    for seed in range(1000, 1000 + 10 * times):
        attacked(course, dice_of(seed), sources, seed=seed % 7 + 1)


# --- floods: what grows with what somebody sends ----------------------------------------------------------------------------

SHORT = (("dedos", STRANGERS), ("mailbox", STRANGERS))
"""The floods of every day; ``make sweep`` has them all."""

FLOOD = 4_000
"""Hostile packets: to each process more of them than it may hold items of."""
FLOODS = [
    pytest.param(name, sources, id=f"{name}-{sources}", marks=[] if (name, sources) in SHORT else pytest.mark.long)
    for name in ("sequencer", "newtop-groups", "rtcast-plain", "mailbox", "dedos")
    for sources in (STRANGERS, MEMBERS)
]


class Flood(Attack):
    """The same kind of packet again and again, with other numbers and names, from strangers with other names."""

    def run(self) -> Any:
        for step in range(40):
            self.kernel.at(1 + self.length * step // 40, self._pour)
        self.kernel.at(self.length - 1, self._measure)
        return super().run()

    def _strike(self, _: None) -> None: ...

    def _pour(self, _: None) -> None:
        targets = [host for host in self.simulation.hosts if host.alive]
        if not targets:
            return
        pool, dice = self._pool(), self.dice
        for number in range(FLOOD // 40):
            target = targets[0]  # all of it to one: it is there that something would grow
            kind = self.kinds[number % len(self.kinds)]
            near = [packet for _, packet in self.seen if type(packet) is kind]
            packet: Packet = bend(near[-1], dice, pool) if near and number % 2 else make(kind, dice, pool)
            source = f"{self.course.strangers[0]}{self.handed}"
            if self.sources == MEMBERS:
                source = targets[number % len(targets)].me
            self.hand(target, source, packet)


@pytest.mark.parametrize(("name", "sources"), FLOODS)
def test_a_flood_leaves_nothing_behind(name: str, sources: str) -> None:
    course = COURSES[name]
    result = Flood(course, dice_of(f"flood {name}"), sources).run()
    assert result.handed > FLOOD // 4
    most = course.most if sources == STRANGERS else course.lies
    assert max(result.sizes.values(), default=0) < most, result.largest


# --- that the checks can fail -----------------------------------------------------------------------------------------------


def leaky(host: Host, parameters: Any) -> Engine:
    """The sequencer with a table of everybody who ever spoke to it, as somebody might add it."""
    engine = describe("sequencer").make(host, parameters)
    engine.spoken = {}  # type: ignore[attr-defined]
    receive = engine.receive

    def noting(source: ProcessId, packet: Packet) -> None:
        engine.spoken[source] = packet  # type: ignore[attr-defined]
        receive(source, packet)

    engine.receive = noting  # type: ignore[method-assign]
    return engine


def test_a_table_that_grows_is_found_wherever_it_is() -> None:
    course = COURSES["sequencer"]
    result = Flood(course, dice_of("flood sequencer"), STRANGERS, make=leaky).run()
    assert max(result.sizes.values()) > course.most
    tables = [line for lines in result.largest.values() for line in lines]
    assert max(int(line.split()[2].rstrip(":")) for line in tables) > FLOOD // 2, tables
