"""A measurement of one group, whoever implements it: flood it, ask for round trips, and compare what its members delivered.

Theory of operation
-------------------
All kinds of member processes answer the same questions. ``flood``: the senders send as much as they may, from one instant on
and up to another; a member's rate is what it delivered between the end of the warm-up and that instant, and the group's rate
is that of its slowest member. ``closed``: one member sends one message at a time and waits for it in the order. ``paced``: some
send at a rate, and one has its round trips taken. After each, everything that was sent must arrive everywhere (``drain``), in
one order.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence
from typing import Any, Final

from .processes import BenchError, Crew
from .recorder import Sample, at, delivered

SECOND: Final = 1_000_000_000
SOON: Final = 0.1
"""Seconds until everybody has got the question."""


@dataclasses.dataclass(frozen=True)
class Flood:
    """What a flood came to."""

    messages_per_s: float
    """At the slowest member."""
    cpu_us_per_message: float | None
    """Processor time of all members together for one message of the group; None if there was none."""
    seconds: tuple[int, ...]
    """Messages in each whole second, at the member with the worst one."""

    @property
    def slowest_to_median_second(self) -> float | None:
        """None if there were not enough seconds."""
        return min(self.seconds) / (statistics.median(self.seconds) or 1.0) if len(self.seconds) > 2 else None


def flood_of(samples: Sequence[Sequence[Sample]], counted: int, end: int, others: Sequence[Sequence[Sample]] = ()) -> Flood:
    """What members' samples say of the time from ``counted`` to ``end``; ``others`` only send, and take processor time."""
    seconds = (end - counted) / SECOND
    rates = [delivered(each, counted, end) / seconds for each in samples]
    spent = sum(at(each, end)[2] - at(each, counted)[2] for each in [*samples, *others] if each)
    starts = range(counted, end - SECOND + 1, SECOND)
    by_second = [tuple(delivered(each, start, start + SECOND) for start in starts) for each in samples]
    cpu = spent / 1_000 / (min(rates) * seconds) if min(rates) else None
    return Flood(min(rates), cpu, min(by_second, key=lambda counts: min(counts, default=0)))


class Session:
    """Member processes that are ready. ``senders`` are the numbers of those that flood; ``patience`` is how many seconds what
    they have sent may take to arrive, more than an answer takes."""

    def __init__(self, crew: Crew, names: Sequence[str], senders: Sequence[int], *, patience: float = 0.0) -> None:
        self._crew = crew
        self._names = names
        self._senders = senders
        self._patience = patience

    def flood(self, warm: float, seconds: float) -> Flood:
        """Sends as much as possible for a time."""
        self._crew.pin(False)
        begin = time.monotonic_ns() + round(SOON * SECOND)
        counted = begin + round(warm * SECOND)
        end = counted + round(seconds * SECOND)
        question = {"do": "flood", "begin": begin, "counted": counted, "end": end}
        reports = self._do([{**question, "send": number in self._senders} for number in self._everybody()], warm + seconds)
        return flood_of([report["samples"] for report in reports], counted, end)

    def closed(self, number: int, seconds: float) -> dict[str, Any]:
        """Round trips of one member, one after the other."""
        return self._trips([{"do": "closed", "send": each == number, "seconds": seconds} for each in self._everybody()], number)

    def paced(self, number: int, seconds: float, rate: float = 0.0) -> dict[str, Any]:
        """Round trips of one member at 200/s, while the senders send ``rate`` messages a second together."""
        share = rate / len(self._senders)
        questions = [
            {
                "do": "paced",
                "send": each == number,
                "seconds": seconds,
                "rate": share if each in self._senders else 0.0,
                "load": bool(rate),
            }
            for each in self._everybody()
        ]
        return self._trips(questions, number)

    def _trips(self, questions: list[dict[str, Any]], number: int) -> dict[str, Any]:
        seconds = questions[0]["seconds"]
        self._crew.pin(True)
        answers = self._crew.ask(questions, seconds=seconds)
        self.compare(answers)
        trips: dict[str, Any] = answers[number]["trips"]
        if not trips["count"]:
            raise BenchError(f"no round trip was done in {seconds} s")
        return trips

    def _do(self, questions: list[dict[str, Any]], seconds: float) -> list[dict[str, Any]]:
        return self.compare(self._crew.ask(questions, seconds=seconds))

    def compare(self, answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Waits until everything has arrived, and compares."""
        expected = {name: answer["sent"] for name, answer in zip(self._names, answers, strict=True) if answer["sent"]}
        reports = self._crew.ask({"do": "drain", "expected": expected}, seconds=self._patience)
        for name, report in zip(self._names, reports, strict=True):
            if report["counts"] != expected:
                raise BenchError(f"{expected} were sent, and {name} delivered {report['counts']}")
            if report["digest"] != reports[0]["digest"]:
                raise BenchError(f"{name} delivered the same messages as {self._names[0]}, in another order")
        return reports

    def _everybody(self) -> range:
        return range(len(self._names))
