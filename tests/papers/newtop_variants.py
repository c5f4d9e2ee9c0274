"""Newtop with one rule taken out or as the thesis prints it: what the rules are for."""

from __future__ import annotations

from collections import Counter
from typing import Any

from plainchant.model import ProcessId
from plainchant.protocols.newtop.delivery import Delivery
from plainchant.protocols.newtop.flow import Flow
from plainchant.protocols.newtop.matrix import Column, Multicast
from plainchant.protocols.newtop.packets import Data
from plainchant.protocols.newtop.parameters import Parameters
from plainchant.protocols.newtop.part import Part
from plainchant.protocols.newtop.process import Process
from plainchant.protocols.newtop.vectors import Compact, Need, Relative, Vectors

# --- chapter 4 ----------------------------------------------------------------------------------------------------------


class WithoutCA2(Process):
    """The block counter does not advance on delivery."""

    def advance_on_delivery(self, part: Part, packet: Data) -> None:
        part.counter = max(part.counter, packet.flow)


class OwnGroupOnly(Process):
    """safe1 as in a single group: a block has to be complete in its own group only."""

    def make_delivery(self) -> Delivery:
        return _OwnGroupOnly(self)


class _OwnGroupOnly(Delivery):
    def ripe(self, part: Part, block: int) -> bool:
        return block <= part.matrix.complete


class WithoutSecondLiveness(Process):
    """Time-silence alone."""

    def second_liveness(self, part: Part, packet: Multicast) -> None:
        pass


class BreedingNulls(Process):
    """Null messages set the second mechanism off as messages do."""

    def sets_off(self, part: Part, packet: Multicast) -> bool:
        return len(self.parts) > 1


class CounterAGroup(Process):
    """A block counter for each group."""

    def __init__(self, host: Any, parameters: Parameters) -> None:
        super().__init__(host, parameters)
        self.counters: Counter[str] = Counter()

    def next_block(self, part: Part, above: int) -> int:
        self.counters[part.group] = max(self.counters[part.group], above) + 1
        return self.counters[part.group]

    def raise_counter(self, part: Part, block: int) -> None:
        self.counters[part.group] = max(self.counters[part.group], block)


# --- chapter 5 ----------------------------------------------------------------------------------------------------------


class WithVectors(Process):
    """Another kind of vectors for all groups."""

    kind: type[Vectors]

    def make_delivery(self) -> Delivery:
        return _WithVectors(self)


class _WithVectors(Delivery):
    def make_vectors(self, name: str) -> Vectors:
        assert isinstance(self.process, WithVectors)
        return self.process.kind(self.process.host.me, self.process.parts)


class _CompactAsPrinted(Compact):
    """The delivery test of 5.5: numbers count that were learnt from delivered messages, and nothing else."""

    def is_met(self, column: Column, number: int) -> bool:
        return self.known.get(column.process, 0) >= number


class CompactAsPrinted(WithVectors):
    """Fast order with one number a process, and no nulls for other groups."""

    kind = _CompactAsPrinted

    def sets_off(self, part: Part, packet: Multicast) -> bool:
        return False


class _Truncated(Compact):
    def keeps(self, process: ProcessId) -> bool:
        return any(process in part.matrix.columns for part in self.parts.values())


class TruncatedUpdate(WithVectors):
    """5.5's update rule, which names only processes that one shares a group with."""

    kind = _Truncated


class _Reversed(Relative):
    def unmet(self, part: Part, packet: Data) -> Need | None:
        (_, numbers), *others = packet.vector
        mine = self.last.get(part.group, [0] * len(numbers))
        for column, number in zip(part.matrix.members, numbers, strict=True):
            if number < mine[column.index]:
                return column, part.matrix.largest + 1
        assert not others, "one group is enough"
        return None


class ReversedInequality(WithVectors):
    """Fig. 5.5 as printed: m is delivered if m.ldv >= LDV."""

    kind = _Reversed


class _Assigned(Relative):
    def learn(self, part: Part, column: Column, packet: Data, nth: int) -> None:
        super().learn(part, column, packet, nth)
        self.groups[part.group] = packet.block


class AssignedGroupNumber(WithVectors):
    """5.6 as printed: GBN[m.g] := m.b after delivery, also if it was larger."""

    kind = _Assigned


# --- chapter 8 ----------------------------------------------------------------------------------------------------------


class WithFlow(Process):
    """Other conditions of flow control, or another bound than the parameters allow."""

    conditions: type[Flow] = Flow
    bound = 0

    def make_part(self, group: str, members: tuple[ProcessId, ...]) -> Part:
        part = super().make_part(group, members)
        part.flow = self.conditions(part.matrix, part.me, self.bound or self.parameters.blocks)
        return part


class _Fl1(Flow):
    __slots__ = ()

    def fl2(self, flow: int) -> bool:
        return True

    def fl3(self, flow: int) -> bool:
        return True


class Fl1Alone(WithFlow):
    conditions = _Fl1


class _WithoutFl2(Flow):
    __slots__ = ()

    def fl2(self, flow: int) -> bool:
        return True


class WithoutFl2(WithFlow):
    conditions = _WithoutFl2


class _WithoutFl3(Flow):
    __slots__ = ()

    def fl3(self, flow: int) -> bool:
        return True


class WithoutFl3(WithFlow):
    conditions = _WithoutFl3


class BoundOfTwo(WithFlow):
    bound = 2


# --- 9.2 ----------------------------------------------------------------------------------------------------------------


class RequestsWithoutNumber(Process):
    """The sequencer does not look at the block counter that a request carries."""

    def next_block(self, part: Part, above: int) -> int:
        return super().next_block(part, 0)


class SendsMeanwhile(Process):
    """Sends in other groups although a request has not come back."""

    def _elsewhere(self, part: Part) -> bool:
        return False


class WithoutEmit(Process):
    """Nobody asks an idle sequencer for a number."""

    def emit(self, part: Part) -> None:
        pass
