"""The engine with one rule as the thesis prints it, or with one rule taken out: what claims are compared with.

None of these is for use: each loses something, and the claim that runs it says what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from plainchant.core.engine import Engine, Host
from plainchant.core.model import GroupId, ProcessId
from plainchant.protocols.newtop import Parameters, Process
from plainchant.protocols.newtop.delivery import Delivery
from plainchant.protocols.newtop.flow import Flow
from plainchant.protocols.newtop.matrix import Column, Multicast
from plainchant.protocols.newtop.packets import Data
from plainchant.protocols.newtop.part import Part
from plainchant.protocols.newtop.vectors import Compact, Keyed, Vectors

Make = Callable[[Host, Any], Engine]


# --- chapter 4 ------------------------------------------------------------------------------------------------------


class _Safe1Delivery(Delivery):
    def ripe(self, part: Part, block: int) -> bool:
        return block <= part.matrix.complete


class Safe1(Process):
    """A block has to be complete in the message's own group only."""

    def make_delivery(self) -> Delivery:
        return _Safe1Delivery(self)


class NoSecondLiveness(Process):
    """Without the null messages of 4.4."""

    def sets_off(self, part: Part, packet: Multicast) -> bool:
        return False


class CountingAdvances(Process):
    """Counts the deliveries that advance the block counter."""

    advances = 0

    def advance_on_delivery(self, part: Part, packet: Data) -> None:
        self.advances += packet.block > self.counter
        super().advance_on_delivery(part, packet)


# --- chapter 5 ------------------------------------------------------------------------------------------------------


class _OfMessages(Compact):
    """5.5 as printed: what counts is numbers of messages that were delivered, or that those messages told of."""

    def is_met(self, column: Column, number: int) -> bool:
        return self.known.get(column.process, 0) >= number


class _TruncatedCompact(Compact):
    def keeps(self, process: ProcessId) -> bool:
        return any(process in part.members for part in self.parts.values())


class _TruncatedKeyed(Keyed):
    def merge(self, group: GroupId, numbers: Any) -> None:
        if group in self.parts:
            super().merge(group, numbers)


class _OtherVectors(Delivery):
    vectors_class: type[Vectors]

    def make_vectors(self, name: str) -> Vectors:
        return self.vectors_class(self.process.host.me, self.process.parts)


def _with_vectors(cls: type[Vectors]) -> Make:
    class Other(_OtherVectors):
        vectors_class = cls

    class Variant(Process):
        def make_delivery(self) -> Delivery:
            return Other(self)

    return Variant


class CounterAGroup(Process):
    """5.6 as printed: every group has a block counter of its own."""

    def __init__(self, host: Host, parameters: Parameters) -> None:
        super().__init__(host, parameters)
        self._counters: dict[GroupId, int] = {}

    def next_block(self, part: Part, above: int) -> int:
        number = max(self._counters.get(part.group, 0), above) + 1
        self._counters[part.group] = number
        return number

    def raise_counter(self, part: Part, block: int) -> None:
        self._counters[part.group] = max(self._counters.get(part.group, 0), block)


# --- chapter 8 ------------------------------------------------------------------------------------------------------


class _Fl1Alone(Flow):
    def fl2(self, flow: int) -> bool:
        return True

    def fl3(self, flow: int) -> bool:
        return True


class Fl1Alone(Process):
    """Flow control by fl1 alone."""

    def make_part(self, group: GroupId, members: tuple[ProcessId, ...], form: int = 1, number: int = 1) -> Part:
        part = super().make_part(group, members, form, number)
        part.flow = _Fl1Alone(part.matrix, part.me, self.parameters.blocks)
        return part


class Two(Process):
    """N = 2, which the parameters refuse."""

    def make_part(self, group: GroupId, members: tuple[ProcessId, ...], form: int = 1, number: int = 1) -> Part:
        part = super().make_part(group, members, form, number)
        part.flow = Flow(part.matrix, part.me, 2)
        return part


VARIANTS: Final[Mapping[str, Make]] = {
    "safe1": Safe1,
    "no second liveness": NoSecondLiveness,
    "GLDV of messages alone": _with_vectors(_OfMessages),
    "truncated GLDV": _with_vectors(_TruncatedCompact),
    "truncated vectors": _with_vectors(_TruncatedKeyed),
    "counter a group": CounterAGroup,
    "fl1 alone": Fl1Alone,
    "N = 2": Two,
}
"""By name: what travels to a task is the name."""
