"""Mutants of newtop: a function in place of each rule.

``mutants.toml`` beside this file says what catches each (:mod:`..mutating`).

After a change of the protocol or the sweep:

    python -m tests.protocols.newtop.mutants            # look for seeds that catch, and rewrite mutants.toml
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from plainchant.core.model import GroupId, ProcessId
from plainchant.protocols.newtop import Process
from plainchant.protocols.newtop.asymmetric import Office
from plainchant.protocols.newtop.delivery import Delivery
from plainchant.protocols.newtop.flow import Flow, OneWay
from plainchant.protocols.newtop.matrix import Column, Multicast
from plainchant.protocols.newtop.packets import Data, Request, Status
from plainchant.protocols.newtop.part import BLOCK, Part
from plainchant.protocols.newtop.repair import Repair
from plainchant.protocols.newtop.vectors import Compact, Keyed, Relative, Vectors

from ..mutating import Applied, Mutants, Row, look_for_seeds
from ..sweeping import ordinary
from . import scripted, sweep

SEEDS = 252
"""The ordinary sweep: these, and those further on that a mutant needs."""
SHORT = range(SEEDS // 2)
"""What ``make test`` has of it: each family nine times."""


def attempt(row: Row, applied: Applied) -> list[str]:
    with applied():
        if row.get("scenario") in scripted.COURSES:
            return scripted.COURSES[row["scenario"]]()
        if "scenario" in row:
            return sweep.run(0, None, scripted.SCENARIOS[row["scenario"]], least_events=0).violated
        return sweep.run(row["seed"]).violated


MUTANTS = Mutants(Path(__file__).with_name("mutants.toml"), attempt, searched=2 * SEEDS)
mutant = MUTANTS.replaces

_DELIVERY_BLOCK_ORDER = Delivery._block_order
_DELIVERY_ADD = Delivery.add
_DELIVERY_ARRIVED = Delivery.arrived
_FLOW_REFRESH = Flow.refresh
_KEYED_MERGE = Keyed.merge
_PROCESS_ELSEWHERE = Process._elsewhere
_PROCESS_SEND_OWN = Process._send_own
_PROCESS_STATUS = Process._status
_PROCESS_ADVANCE_ON_DELIVERY = Process.advance_on_delivery
_PROCESS_NEXT_BLOCK = Process.next_block
_PROCESS_RAISE_COUNTER = Process.raise_counter
_RELATIVE_LEARN = Relative.learn
_RELATIVE_UNMET = Relative.unmet
_VECTORS_IS_MET = Vectors.is_met
_COMPACT_LEARN = Compact.learn
_PART_INIT = Part.__init__
_FLOW_ROOM = Flow.room


# --- what is delivered when -------------------------------------------------------------------------------------------


@mutant("safe1 instead of safe1'", Delivery, "ripe")
def _own_group(self: Delivery, part: Part, block: int) -> bool:
    return block <= part.matrix.complete


@mutant("ties by arrival", Delivery, "arrived")
def _by_arrival(self: Delivery, part: Part, column: Column, packet: Data) -> None:
    if part.order != "total":
        _DELIVERY_ARRIVED(self, part, column, packet)
        return
    column.queue.append(packet)
    heappush(self.totals, (packet.block, 0, "", next(self._order), part, column, packet))


@mutant("slow order two blocks ahead", Delivery, "_block_order")
def _two_ahead(self: Delivery) -> bool:
    if _DELIVERY_BLOCK_ORDER(self):
        return True
    if self.totals or not self.slows or self.slows[0][0] > self.complete + 2:
        return False
    _, _, part, column, packet = heappop(self.slows)
    self._deliver(part, column, packet, None)
    return True


@mutant("one's own messages are not kept in order where kinds meet", Delivery, "_own_before")
def _own_overtake(self: Delivery, packet: Data) -> Any:
    return None


@mutant("no floor where kinds meet", Delivery, "raise_floors")
def _no_floor(self: Delivery, kind: str, block: int, floor: int) -> None:
    """Messages of one kind know nothing of the others."""


@mutant("a kind that begins late has nothing below it", Delivery, "add")
def _nothing_below(self: Delivery, part: Part) -> None:
    begins = part.kind != BLOCK and part.kind not in self.vectors
    _DELIVERY_ADD(self, part)
    if begins:
        self.floors[part.kind] = 0


# --- causal orders ----------------------------------------------------------------------------------------------------


@mutant("reversed inequality of Fig. 5.5", Vectors, "is_met")
def _reversed(self: Vectors, column: Column, number: int) -> bool:
    return column.settled <= number if isinstance(self, Relative) else _VECTORS_IS_MET(self, column, number)


@mutant("GBN not looked at", Relative, "unmet")
def _no_group_numbers(self: Relative, part: Part, packet: Data) -> Any:
    need = _RELATIVE_UNMET(self, part, packet)
    return need if need is not None and isinstance(need[0], Column) else None


@mutant("GBN not passed on", Relative, "learn")
def _own_group_numbers(self: Relative, part: Part, column: Column, packet: Data, nth: int) -> None:
    before = dict(self.groups)
    _RELATIVE_LEARN(self, part, column, packet, nth)
    for group in self.groups:
        if group != part.group:
            self.groups[group] = before.get(group, 0)


@mutant("truncated update, compact", Compact, "keeps")
def _truncated(self: Compact, process: ProcessId) -> bool:
    return any(process in part.members for part in self.parts.values())


@mutant("truncated update, keyed", Keyed, "merge")
def _truncated_keyed(self: Keyed, group: GroupId, numbers: tuple[int, ...]) -> None:
    if group in self.parts or type(self) is not Keyed:
        _KEYED_MERGE(self, group, numbers)


class _Delivered:
    """What waits for a delivery."""

    def __init__(self) -> None:
        self.watchers: list[tuple[int, int, Any]] = []


class _Printed:
    """A number of a process is settled by nothing but the delivery of a message of it that is as new."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.delivered: dict[ProcessId, int] = {}
        self.waiting = _Delivered()


@mutant("fast order as printed", Delivery, "add")
def _with_state(self: Delivery, part: Part) -> None:
    _DELIVERY_ADD(self, part)
    for vectors in self.vectors.values():
        vars(vectors).setdefault("printed", _Printed(self))


@mutant("fast order as printed", Compact, "unmet")
def _undelivered(self: Compact, part: Part, packet: Data) -> Any:
    printed: _Printed = vars(self)["printed"]
    for process, (number,) in packet.vector:
        shared = any(process in here.members for here in self.parts.values())
        if process != self.me and shared and printed.delivered.get(process, 0) < number:
            return printed.waiting, number
    return None


@mutant("fast order as printed", Compact, "learn")
def _delivered(self: Compact, part: Part, column: Column, packet: Data, nth: int) -> None:
    printed: _Printed = vars(self)["printed"]
    _COMPACT_LEARN(self, part, column, packet, nth)
    printed.delivered[column.process] = max(packet.block, printed.delivered.get(column.process, 0))
    while printed.waiting.watchers:
        printed.delivery.candidates.append(heappop(printed.waiting.watchers)[2])


# --- the block counter ------------------------------------------------------------------------------------------------


def _counter_a_group(name: str, order: str) -> None:
    """As in chapters 3 and 5: every group of this order has a counter of its own."""

    def counters(process: Process) -> dict[GroupId, int]:
        found: dict[GroupId, int] = vars(process).setdefault("counters", {})
        return found

    @mutant(name, Process, "next_block")
    def next_block(self: Process, part: Part, above: int) -> int:
        if part.order != order:
            return _PROCESS_NEXT_BLOCK(self, part, above)
        block = counters(self)[part.group] = max(counters(self).get(part.group, 0), above) + 1
        return block

    @mutant(name, Process, "raise_counter")
    def raise_counter(self: Process, part: Part, block: int) -> None:
        if part.order == order:
            counters(self)[part.group] = max(counters(self).get(part.group, 0), block)
        else:
            _PROCESS_RAISE_COUNTER(self, part, block)


_counter_a_group("block counter a group, total order", "total")
_counter_a_group("block counter a group, relative order", "relative")


def _no_advance(self: Process, part: Part, packet: Data) -> None:
    """Only the counter of flow control goes on."""
    part.counter = max(part.counter, packet.flow)


@mutant("no CA2 in slow order", Process, "advance_on_delivery")
def _no_advance_slow(self: Process, part: Part, packet: Data) -> None:
    if part.order == "slow":
        _no_advance(self, part, packet)
    else:
        _PROCESS_ADVANCE_ON_DELIVERY(self, part, packet)


@mutant("no CA2 in asymmetric groups", Process, "advance_on_delivery")
def _no_advance_asymmetric(self: Process, part: Part, packet: Data) -> None:
    if part.sequencer:
        _no_advance(self, part, packet)
    else:
        _PROCESS_ADVANCE_ON_DELIVERY(self, part, packet)


@mutant("no CA2 in causal orders by vectors", Process, "advance_on_delivery")
def _no_advance_vectors(self: Process, part: Part, packet: Data) -> None:
    if part.kind != BLOCK:
        _no_advance(self, part, packet)
    else:
        _PROCESS_ADVANCE_ON_DELIVERY(self, part, packet)


# --- liveness ---------------------------------------------------------------------------------------------------------


@mutant("no second liveness mechanism", Process, "second_liveness")
def _no_second(self: Process, part: Part, packet: Multicast) -> None:
    """The other groups are left as they are."""


@mutant("nulls breed nulls", Process, "sets_off")
def _breeding(self: Process, part: Part, packet: Multicast) -> bool:
    return len(self.parts) > 1


@mutant("every status is answered", Process, "_status")
def _polite(self: Process, part: Part, source: ProcessId, status: Status) -> None:
    _PROCESS_STATUS(self, part, source, status)
    self.host.send((source,), self.status(part))


@mutant("no time-silence", Process, "_oblige")
def _no_silence(self: Process, part: Part) -> None:
    """Who has nothing to send sends nothing."""


# --- what is missing --------------------------------------------------------------------------------------------------


@mutant("gaps ignored", Part, "__init__")
def _no_gaps(self: Part, *given: Any) -> None:
    _PART_INIT(self, *given)
    self.matrix.fifo = True


@mutant("no probe", Repair, "watch")
def _no_probes(self: Repair, part: Part) -> None:
    """An incomplete block goes unnoticed."""


# --- flow control -----------------------------------------------------------------------------------------------------


def symmetric(name: str, attribute: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A mutant in which a condition of flow control is replaced in symmetric groups only."""
    original = getattr(Flow, attribute)

    def enter(by: Callable[..., Any]) -> Callable[..., Any]:
        @mutant(name, Flow, attribute)
        def either(self: Flow, *given: Any) -> Any:
            return by(self, *given) if type(self) is Flow else original(self, *given)

        return by

    return enter


@symmetric("fl1 dropped", "fl1")
def _no_first(self: Flow, flow: int) -> bool:
    return True


@symmetric("fl2 dropped", "fl2")
def _no_second_condition(self: Flow, flow: int) -> bool:
    return True


@symmetric("fl3 dropped", "fl3")
def _no_third(self: Flow, flow: int) -> bool:
    return True


@symmetric("room dropped", "room")
def _no_room(self: Flow, flow: int) -> bool:
    return True


@symmetric("forgotten before it is stable", "refresh")
def _forgetful(self: Flow) -> None:
    _FLOW_REFRESH(self)
    self.matrix.discard(self.mine.complete)


@mutant("room dropped in asymmetric groups", Flow, "room")
def _no_room_asymmetric(self: Flow, flow: int) -> bool:
    return isinstance(self, OneWay) or _FLOW_ROOM(self, flow)


# --- messages of many packets -----------------------------------------------------------------------------------------


@mutant("a message that has gone out in part may be overtaken by another group's", Process, "_elsewhere")
def _overtaken_in_part(self: Process, part: Part) -> bool:
    begun, self._begun_in = self._begun_in, None
    waits = _PROCESS_ELSEWHERE(self, part)
    self._begun_in = begun
    return waits


@mutant("later fragments wait for what was delivered since the first", Process, "_send_own")
def _later_fragments(self: Process, part: Part) -> bool:
    part.begun = None
    return _PROCESS_SEND_OWN(self, part)


# --- asymmetric groups ------------------------------------------------------------------------------------------------


@mutant("a request may be overtaken", Process, "_elsewhere")
def _overtaken(self: Process, part: Part) -> bool:
    return self._begun_in is not None and self._begun_in is not part


@mutant("groups that were kept waiting get no turn", Process, "_elsewhere")
def _no_turn(self: Process, part: Part) -> bool:
    waits = _PROCESS_ELSEWHERE(self, part)
    self._kept.clear()
    return waits


@mutant("a number that comes back teaches nothing", Process, "raise_counter")
def _unlearned(self: Process, part: Part, block: int) -> None:
    if part.desk is None:
        _PROCESS_RAISE_COUNTER(self, part, block)


@mutant("a request is numbered without regard to its sender's counter", Process, "next_block")
def _below(self: Process, part: Part, above: int) -> int:
    return _PROCESS_NEXT_BLOCK(self, part, 0)


@mutant("requests are numbered as they come", Office, "asked")
def _as_they_come(self: Office, source: ProcessId, request: Request) -> None:
    self.queue.append((source, request))


@mutant("a request is sent once", Process, "_repeat_request")
def _requested_once(self: Process, part: Part) -> None:
    """The sequencer will have got it."""


@mutant("an idle sequencer is not asked", Process, "emit")
def _unasked(self: Process, part: Part) -> None:
    """It will send something."""


# --- the table --------------------------------------------------------------------------------------------------------


def seeds(times: int = 1) -> list[int]:
    """The seeds of a sweep that is ``times`` as long as the ordinary one, and those that mutants need."""
    return MUTANTS.with_needed(ordinary(times, SEEDS, SHORT))


if __name__ == "__main__":
    look_for_seeds("tests.protocols.newtop.mutants", sys.argv[1:])
