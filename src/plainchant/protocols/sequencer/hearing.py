"""Which members the sequencer hears: when each was heard last, and which are suspected.

A member that is silent for ``suspect_after`` is suspected until it is heard again. In the last two thirds of that time it is
asked to say something, at equal intervals: where much is lost, all that it said before sometimes is, and a loss in bursts takes
some of the asks only. One that has just come has longer, because the sequencer does not know its round trip: at the beginning of
an epoch as long as the voters took to answer (the *pace*)."""

from __future__ import annotations

from collections.abc import Container

from ...core.engine import Host
from ...core.model import GroupId, ProcessId, Reason
from .parameters import Parameters


class Hearing:
    """Exists in an office. ``suspects`` has a reason for each."""

    __slots__ = ("_ask_after", "_first", "_group", "_heard", "_host", "_limit", "suspects")

    def __init__(self, host: Host, group: GroupId, parameters: Parameters, pace: int) -> None:
        self._host, self._group = host, group
        self._limit, self._ask_after = parameters.suspect_after, parameters.ask_after
        self._first = host.now + pace
        self._heard: dict[ProcessId, int] = {}
        self.suspects: dict[ProcessId, Reason] = {}

    def keep(self, members: tuple[ProcessId, ...]) -> None:
        """These are the members that may be missed, those that are new from now on."""
        first = max(self._host.now, self._first)
        self._heard = {process: self._heard.get(process, first) for process in members}

    def note(self, process: ProcessId) -> None:
        """It has been heard."""
        self._heard[process] = self._host.now

    def miss(self, reasons: dict[ProcessId, Reason]) -> None:
        """These are suspected from now on."""
        self._heard |= dict.fromkeys(reasons, self._host.now - self._limit - 1)
        self.suspects |= reasons

    def forgive(self, now: int) -> None:
        """This process was stopped: the others were not silent."""
        self._heard = dict.fromkeys(self._heard, now)

    def forget(self, members: Container[ProcessId]) -> None:
        """Other processes than these are suspected no longer."""
        self.suspects = {process: reason for process, reason in self.suspects.items() if process in members}

    def look(self, now: int) -> None:
        """Suspects members that were not heard for too long."""
        for process, heard in self._heard.items():
            silent = now - heard
            if silent <= self._limit:
                self.suspects.pop(process, None)
            elif process not in self.suspects:
                text = f"the sequencer {self._host.me} has not heard {process} for {silent // 1_000_000} ms"
                self.suspects[process] = reason = Reason("silence", text, {"silent_ns": silent})
                self._host.record("suspect", self._group, process=process, **reason.to_detail())

    def silent(self, now: int) -> tuple[ProcessId, ...]:
        """Members that will be suspected if they are not heard soon."""
        asked = now - self._ask_after
        return tuple(process for process, heard in self._heard.items() if heard < asked and process not in self.suspects)

    def all_lately(self, others: Container[ProcessId]) -> bool:
        """Whether every member but those others was heard in the last half of ``suspect_after``."""
        recent = self._host.now - self._limit // 2
        return all(heard >= recent for process, heard in self._heard.items() if process not in others)
