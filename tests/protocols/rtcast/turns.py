"""One member's turns, as bad as a ring may make them, with the regulator between messages and turns. No engine, no network."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from plainchant.protocols.rtcast.analysis import Demand, Turn
from plainchant.protocols.rtcast.regulator import Plan, Regulator


@dataclasses.dataclass(frozen=True)
class Sent:
    """A packet that has gone out."""

    demand: Demand
    arrived: int
    released: int
    turn: int
    """When the turn began that sent it."""
    end: int
    """When it was through."""
    is_last: bool


class Turns:
    """Messages come at ``phases`` and then every period; or when ``arrivals`` (hypothesis) draws, never before a period is over.
    What the ring needs of a turn it takes first, all of it. ``kept``: how long the token is kept if there is nothing to send."""

    def __init__(
        self,
        turn: Turn,
        demands: Sequence[Demand],
        *,
        max_packet: int,
        phases: Sequence[int] = (),
        arrivals: Callable[[Any], int] | None = None,
        kept: int = 0,
    ) -> None:
        self._turn = turn
        self._demands = {demand.name: demand for demand in demands}
        self._kept = kept
        self._arrivals = arrivals
        self._regulator = Regulator(max_packet)
        self._arrived: dict[str, int] = {}
        self._next: dict[str, int] = {}
        for number, demand in enumerate(demands):
            self._regulator.add(demand.name)
            self._next[demand.name] = phases[number] if arrivals is None else arrivals(st.integers(0, demand.period))

    def run(self, rotations: int, *, gap: int = 0, adversary: Callable[[Any], int] | None = None) -> Iterator[Sent]:
        """So many turns; the token is away for as long as P allows (``gap`` = P) or as the adversary draws."""
        start = 0
        for _ in range(rotations):
            end = start
            for sent in self._one(start):
                end = sent.end
                yield sent
            away = self._turn.rotation - self._turn.hold
            if adversary is not None:
                away -= adversary(st.sampled_from((0, 0, 0, 1, away // 3, away - 1)))
            else:
                assert gap == self._turn.rotation
            used = max(end - start, self._kept) + self._turn.reserved
            start += used + away

    def _one(self, start: int) -> Iterator[Sent]:
        """A turn; it ends when nothing is released, or there is no room for what is."""
        now, left = start, self._turn.hold - self._turn.reserved
        interface = self._turn.interface
        while True:
            self._hand_over(now)
            chunk = self._regulator.next(now)
            if chunk is None or interface.cost(chunk.size) > left:
                return
            cost = interface.cost(chunk.size)
            now, left = now + cost, left - cost
            flow = self._regulator.flows[chunk.stream]
            released = flow.release
            assert released is not None
            flow.advance(chunk)
            yield Sent(self._demands[chunk.stream], self._arrived[chunk.stream], released, start, now, chunk.is_last)

    def _hand_over(self, now: int) -> None:
        for name, demand in self._demands.items():
            flow = self._regulator.flows[name]
            arrives = self._next[name]
            if flow.is_under_way or arrives > now:
                continue
            visits = max(1, self._turn.visits(demand.deadline))
            piece = max(1, -(-demand.size // self._turn.pieces(demand, visits)))
            flow.begin(b"x" * demand.size, arrives, Plan(piece, self._turn.rotation, self._turn.share(demand, visits)))
            self._arrived[name] = arrives
            later = self._arrivals(st.sampled_from((0, 0, 1, demand.period))) if self._arrivals is not None else 0
            self._next[name] = arrives + demand.period + later
