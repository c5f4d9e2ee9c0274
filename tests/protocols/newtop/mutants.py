"""Variants of newtop with one rule taken out or turned round, each a class that overrides the method that the rule is.

``mutants.toml`` beside this file says for each what catches it: a seed of the sweep, and the property or bound that does not
hold; or, for a few that need a particular course of events, a scenario or course of ``scripted``. After a change of the protocol
or the sweep:

    python -m tests.protocols.newtop.mutants            # look for seeds that catch, and rewrite mutants.toml
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from plainchant.core.engine import Host
from plainchant.core.model import GroupId, ProcessId
from plainchant.protocols.newtop import Parameters, Process
from plainchant.protocols.newtop.asymmetric import Office
from plainchant.protocols.newtop.delivery import Delivery
from plainchant.protocols.newtop.flow import Flow, OneWay
from plainchant.protocols.newtop.matrix import Column, Multicast
from plainchant.protocols.newtop.packets import Data, Request, Status
from plainchant.protocols.newtop.part import BLOCK, Part
from plainchant.protocols.newtop.repair import Repair
from plainchant.protocols.newtop.vectors import Compact, Keyed, Relative, Vectors

from .. import sweeping
from . import scripted, sweep

TABLE = Path(__file__).with_name("mutants.toml")
SEEDS = 252
"""The ordinary sweep: these, and those further on that a mutant needs."""
SEARCHED = 2 * SEEDS
"""A mutant has to be caught within these."""

MUTANTS: dict[str, scripted.MakeProcess] = {}


def mutant(name: str) -> Callable[[type[Process]], type[Process]]:
    def enter(variant: type[Process]) -> type[Process]:
        MUTANTS[name] = variant
        return variant

    return enter


# --- what is delivered when -------------------------------------------------------------------------------------------


def with_delivery(name: str) -> Callable[[type[Delivery]], type[Delivery]]:
    """A mutant that has this class of Delivery."""

    def enter(variant: type[Delivery]) -> type[Delivery]:
        class Variant(Process):
            def make_delivery(self) -> Delivery:
                return variant(self)

        MUTANTS[name] = Variant
        return variant

    return enter


@with_delivery("safe1 instead of safe1'")
class _OwnGroup(Delivery):
    def ripe(self, part: Part, block: int) -> bool:
        return block <= part.matrix.complete


@with_delivery("ties by arrival")
class _ByArrival(Delivery):
    def arrived(self, part: Part, column: Column, packet: Data) -> None:
        if part.order != "total":
            super().arrived(part, column, packet)
            return
        column.queue.append(packet)
        heappush(self.totals, (packet.block, 0, "", next(self._order), part, column, packet))


@with_delivery("slow order two blocks ahead")
class _TwoAhead(Delivery):
    def _block_order(self) -> bool:
        if super()._block_order():
            return True
        if self.totals or not self.slows or self.slows[0][0] > self.complete + 2:
            return False
        _, _, part, column, packet = heappop(self.slows)
        self._deliver(part, column, packet, None)
        return True


@with_delivery("one's own messages are not kept in order where kinds meet")
class _OwnOvertake(Delivery):
    def _own_before(self, packet: Data) -> Any:
        return None


@with_delivery("no floor where kinds meet")
class _NoFloor(Delivery):
    def raise_floors(self, kind: str, block: int, floor: int) -> None:
        """Messages of one kind know nothing of the others."""


@with_delivery("a kind that begins late has nothing below it")
class _NothingBelow(Delivery):
    def add(self, part: Part) -> None:
        begins = part.kind != BLOCK and part.kind not in self.vectors
        super().add(part)
        if begins:
            self.floors[part.kind] = 0


# --- causal orders ----------------------------------------------------------------------------------------------------


def with_vectors(name: str, replaces: str) -> Callable[[type[Vectors]], type[Vectors]]:
    """A mutant that has this class of Vectors in place of the one of that name."""

    def enter(variant: type[Vectors]) -> type[Vectors]:
        class Deliveries(Delivery):
            def make_vectors(self, name: str) -> Vectors:
                return variant(self.process.host.me, self.process.parts) if name == replaces else super().make_vectors(name)

        class Variant(Process):
            def make_delivery(self) -> Delivery:
                return Deliveries(self)

        MUTANTS[name] = Variant
        return variant

    return enter


@with_vectors("reversed inequality of Fig. 5.5", "relative")
class _Reversed(Relative):
    def is_met(self, column: Column, number: int) -> bool:
        return column.settled <= number


@with_vectors("GBN not looked at", "relative")
class _NoGroupNumbers(Relative):
    def unmet(self, part: Part, packet: Data) -> Any:
        need = super().unmet(part, packet)
        return need if need is not None and isinstance(need[0], Column) else None


@with_vectors("GBN not passed on", "relative")
class _OwnGroupNumbers(Relative):
    def learn(self, part: Part, column: Column, packet: Data, nth: int) -> None:
        before = dict(self.groups)
        super().learn(part, column, packet, nth)
        for group in self.groups:
            if group != part.group:
                self.groups[group] = before.get(group, 0)


@with_vectors("truncated update, compact", "compact")
class _Truncated(Compact):
    def keeps(self, process: ProcessId) -> bool:
        return any(process in part.members for part in self.parts.values())


@with_vectors("truncated update, keyed", "keyed")
class _TruncatedKeyed(Keyed):
    def merge(self, group: GroupId, numbers: tuple[int, ...]) -> None:
        if group in self.parts:
            super().merge(group, numbers)


class _Delivered:
    """What waits for a delivery."""

    def __init__(self) -> None:
        self.watchers: list[tuple[int, int, Any]] = []


class _AsPrinted(Compact):
    """A number of a process is settled by nothing but the delivery of a message of it that is as new."""

    def __init__(self, me: ProcessId, parts: Mapping[GroupId, Part], delivery: Delivery) -> None:
        super().__init__(me, parts)
        self.delivery = delivery
        self.delivered: dict[ProcessId, int] = {}
        self.waiting = _Delivered()

    def unmet(self, part: Part, packet: Data) -> Any:
        for process, (number,) in packet.vector:
            shared = any(process in here.members for here in self.parts.values())
            if process != self.me and shared and self.delivered.get(process, 0) < number:
                return self.waiting, number
        return None

    def learn(self, part: Part, column: Column, packet: Data, nth: int) -> None:
        super().learn(part, column, packet, nth)
        self.delivered[column.process] = max(packet.block, self.delivered.get(column.process, 0))
        while self.waiting.watchers:
            self.delivery.candidates.append(heappop(self.waiting.watchers)[2])


class _AsPrintedDelivery(Delivery):
    def make_vectors(self, name: str) -> Vectors:
        parts = self.process.parts
        return _AsPrinted(self.process.host.me, parts, self) if name == "compact" else super().make_vectors(name)


@mutant("fast order as printed")
class _FastAsPrinted(Process):
    def make_delivery(self) -> Delivery:
        return _AsPrintedDelivery(self)


# --- the block counter ------------------------------------------------------------------------------------------------


class _CounterAGroup(Process):
    """As in chapters 3 and 5: every group of this order has a counter of its own."""

    order = ""

    def __init__(self, host: Host, parameters: Parameters) -> None:
        super().__init__(host, parameters)
        self.counters: dict[GroupId, int] = {}

    def next_block(self, part: Part, above: int) -> int:
        if part.order != self.order:
            return super().next_block(part, above)
        block = self.counters[part.group] = max(self.counters.get(part.group, 0), above) + 1
        return block

    def raise_counter(self, part: Part, block: int) -> None:
        if part.order == self.order:
            self.counters[part.group] = max(self.counters.get(part.group, 0), block)
        else:
            super().raise_counter(part, block)


@mutant("block counter a group, total order")
class _CounterAGroupTotal(_CounterAGroup):
    order = "total"


@mutant("block counter a group, relative order")
class _CounterAGroupRelative(_CounterAGroup):
    order = "relative"


def _no_advance(self: Process, part: Part, packet: Data) -> None:
    """Only the counter of flow control goes on."""
    part.counter = max(part.counter, packet.flow)


@mutant("no CA2 in slow order")
class _NoAdvanceSlow(Process):
    def advance_on_delivery(self, part: Part, packet: Data) -> None:
        if part.order == "slow":
            _no_advance(self, part, packet)
        else:
            super().advance_on_delivery(part, packet)


@mutant("no CA2 in asymmetric groups")
class _NoAdvanceAsymmetric(Process):
    def advance_on_delivery(self, part: Part, packet: Data) -> None:
        if part.sequencer:
            _no_advance(self, part, packet)
        else:
            super().advance_on_delivery(part, packet)


@mutant("no CA2 in causal orders by vectors")
class _NoAdvanceVectors(Process):
    def advance_on_delivery(self, part: Part, packet: Data) -> None:
        if part.kind != BLOCK:
            _no_advance(self, part, packet)
        else:
            super().advance_on_delivery(part, packet)


# --- liveness ---------------------------------------------------------------------------------------------------------


@mutant("no second liveness mechanism")
class _NoSecond(Process):
    def second_liveness(self, part: Part, packet: Multicast) -> None:
        """The other groups are left as they are."""


@mutant("nulls breed nulls")
class _Breeding(Process):
    def sets_off(self, part: Part, packet: Multicast) -> bool:
        return len(self.parts) > 1


@mutant("every status is answered")
class _Polite(Process):
    def _status(self, part: Part, source: ProcessId, status: Status) -> None:
        super()._status(part, source, status)
        self.host.send((source,), self.status(part))


@mutant("no time-silence")
class _NoSilence(Process):
    def _oblige(self, part: Part) -> None:
        """Who has nothing to send sends nothing."""


# --- what is missing --------------------------------------------------------------------------------------------------


@mutant("gaps ignored")
class _NoGaps(Process):
    def make_part(self, group: GroupId, members: tuple[ProcessId, ...], form: int = 1, number: int = 1) -> Part:
        part = super().make_part(group, members, form, number)
        part.matrix.fifo = True
        return part


class _NoProbes(Repair):
    def watch(self, part: Part) -> None:
        """An incomplete block goes unnoticed."""


@mutant("no probe")
class _Unprobed(Process):
    def __init__(self, host: Host, parameters: Parameters) -> None:
        super().__init__(host, parameters)
        self.repair = _NoProbes(self)


# --- flow control -----------------------------------------------------------------------------------------------------


def with_flow(name: str) -> Callable[[type[Flow]], type[Flow]]:
    """A mutant that has this class of Flow in its symmetric groups."""

    def enter(variant: type[Flow]) -> type[Flow]:
        class Variant(Process):
            def make_part(self, group: GroupId, members: tuple[ProcessId, ...], form: int = 1, number: int = 1) -> Part:
                part = super().make_part(group, members, form, number)
                if not part.sequencer:
                    part.flow = variant(part.matrix, part.me, self.parameters.blocks)
                return part

        MUTANTS[name] = Variant
        return variant

    return enter


@with_flow("fl1 dropped")
class _NoFirst(Flow):
    def fl1(self, flow: int) -> bool:
        return True


@with_flow("fl2 dropped")
class _NoSecondCondition(Flow):
    def fl2(self, flow: int) -> bool:
        return True


@with_flow("fl3 dropped")
class _NoThird(Flow):
    def fl3(self, flow: int) -> bool:
        return True


@with_flow("room dropped")
class _NoRoom(Flow):
    def room(self, flow: int) -> bool:
        return True


@with_flow("forgotten before it is stable")
class _Forgetful(Flow):
    def refresh(self) -> None:
        super().refresh()
        self.matrix.discard(self.mine.complete)


class _NoRoomOneWay(OneWay):
    def room(self, flow: int) -> bool:
        return True


@mutant("room dropped in asymmetric groups")
class _NoRoomAsymmetric(Process):
    def make_part(self, group: GroupId, members: tuple[ProcessId, ...], form: int = 1, number: int = 1) -> Part:
        part = super().make_part(group, members, form, number)
        if part.sequencer:
            part.flow = _NoRoomOneWay(part.matrix, part.me, self.parameters.blocks)
        return part


# --- messages of many packets -----------------------------------------------------------------------------------------


@mutant("a message that has gone out in part may be overtaken by another group's")
class _OvertakenInPart(Process):
    def _elsewhere(self, part: Part) -> bool:
        begun, self._begun_in = self._begun_in, None
        waits = super()._elsewhere(part)
        self._begun_in = begun
        return waits


@mutant("later fragments wait for what was delivered since the first")
class _LaterFragments(Process):
    def _send_own(self, part: Part) -> bool:
        part.begun = None
        return super()._send_own(part)


# --- asymmetric groups ------------------------------------------------------------------------------------------------


@mutant("a request may be overtaken")
class _Overtaken(Process):
    def _elsewhere(self, part: Part) -> bool:
        return self._begun_in is not None and self._begun_in is not part


@mutant("groups that were kept waiting get no turn")
class _NoTurn(Process):
    def _elsewhere(self, part: Part) -> bool:
        waits = super()._elsewhere(part)
        self._kept.clear()
        return waits


@mutant("a number that comes back teaches nothing")
class _Unlearned(Process):
    def raise_counter(self, part: Part, block: int) -> None:
        if part.desk is None:
            super().raise_counter(part, block)


@mutant("a request is numbered without regard to its sender's counter")
class _Below(Process):
    def next_block(self, part: Part, above: int) -> int:
        return super().next_block(part, 0)


class _Trusting(Office):
    def asked(self, source: ProcessId, request: Request) -> None:
        self.queue.append((source, request))


@mutant("requests are numbered as they come")
class _AsTheyCome(Process):
    def make_part(self, group: GroupId, members: tuple[ProcessId, ...], form: int = 1, number: int = 1) -> Part:
        part = super().make_part(group, members, form, number)
        if part.office is not None:
            part.office = _Trusting()
        return part


@mutant("a request is sent once")
class _RequestedOnce(Process):
    def _repeat_request(self, part: Part) -> None:
        """The sequencer will have got it."""


@mutant("an idle sequencer is not asked")
class _Unasked(Process):
    def emit(self, part: Part) -> None:
        """It will send something."""


# --- the table --------------------------------------------------------------------------------------------------------


def table() -> dict[str, dict[str, Any]]:
    """What is checked in: mutant to seed or scenario, and property."""
    return sweeping.read_table(TABLE)


def seeds(times: int = 1) -> list[int]:
    """The seeds of a sweep that is so many times as long as the ordinary one."""
    return sweeping.with_needed(table(), range(times * SEEDS))


def catch(variant: scripted.MakeProcess | None, row: Mapping[str, Any]) -> list[str]:
    """What a variant (or the protocol itself) violates in the run that a row of the table names."""
    if row.get("scenario") in scripted.COURSES:
        return scripted.COURSES[row["scenario"]](variant or Process)
    if "scenario" in row:
        return sweep.run(0, variant, scripted.SCENARIOS[row["scenario"]], least_events=0).violated
    return sweep.run(row["seed"], variant).violated


def _search(name: str) -> tuple[int, list[str]] | None:
    return sweeping.first_that_catches(sweep.run, MUTANTS[name], sweeping.known_first(TABLE, name, range(SEARCHED)))


if __name__ == "__main__":
    sweeping.look_for_seeds(TABLE, list(MUTANTS), sys.argv[1:], _search)
