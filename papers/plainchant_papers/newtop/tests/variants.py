"""Newtop with one rule taken out or as the thesis prints it: what the rules are for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from plainchant.core.model import Packet, ProcessId, Reason
from plainchant.protocols.newtop.delivery import Delivery
from plainchant.protocols.newtop.flow import Flow
from plainchant.protocols.newtop.matrix import Column, Multicast
from plainchant.protocols.newtop.membership import Membership
from plainchant.protocols.newtop.packets import Confirmed, Data, Refute, Say
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

    def make_part(self, group: str, members: tuple[ProcessId, ...], form: int = 1, number: int = 1) -> Part:
        part = super().make_part(group, members, form, number)
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


# --- chapter 6 ----------------------------------------------------------------------------------------------------------


class WithMembership(Process):
    """Other rules of membership."""

    rules: type[Membership]

    def make_membership(self, part: Part) -> Membership:
        return self.rules(self, part)


class SilentWhenIdle(Process):
    """No extended time-silence."""

    def _show_life(self, part: Part) -> None:
        pass


class _OwnCut(Membership):
    def cuts(self, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
        return detection


class OwnCut(WithMembership):
    """Those who have failed together end each at its own last block."""

    rules = _OwnCut


class _TransportAlone(Membership):
    def suspect(self, found: Sequence[tuple[Column, dict[str, Any]]], why: str = "silence") -> None:
        gone = {column.process: Reason("crashed", f"{column.process} is suspected") for column, _ in found}
        self.process.install_smaller(self.part, gone, None)


class TransportAlone(WithMembership):
    """Fig. 2.6: what arrives is delivered, and whoever is suspected is removed, each when it happens."""

    rules = _TransportAlone

    def _dispatch(self, source: ProcessId, packet: Packet) -> None:
        if isinstance(packet, Data):
            self.host.deliver(packet.group, source, packet.batch)

    def _enter(self, part: Part, column: Column, packet: Multicast) -> None:
        if isinstance(packet, Data):
            self.host.deliver(part.group, column.process, packet.batch)


class _DiscardsWhatIsComplete(Flow):
    __slots__ = ()

    def refresh(self) -> None:
        super().refresh()
        self.matrix.discard(self.mine.complete)


class DiscardsWhatIsComplete(WithFlow):
    """What is complete here is forgotten, whoever lacks it."""

    conditions = _DiscardsWhatIsComplete


class ExclusionsCounted(Process):
    """6.4 as printed: the signature of a member is the number of processes that have been excluded."""

    def __init__(self, host: Any, parameters: Parameters) -> None:
        super().__init__(host, parameters)
        self.excluded = 0

    def install_smaller(self, part: Part, gone: dict[ProcessId, Reason], rank: int | None) -> None:
        self.excluded += len(gone)
        super().install_smaller(part, gone, rank)

    def signatures(self, part: Part) -> dict[ProcessId, int]:
        return dict.fromkeys(part.members, self.excluded)


class _NotErased(Membership):
    def _refuted(self, by: ProcessId, say: Refute) -> None:
        if say.process in self.suspicions:
            super()._refuted(by, say)


class RecordedNotErased(WithMembership):
    """(iv) as printed: a refutation concerns those who suspect, and not what is recorded of others' suspicions."""

    rules = _NotErased


class _NotMutual(Membership):
    def exclude_in_turn(self, column: Column) -> None:
        pass


class NotMutual(WithMembership):
    """(viii) as printed: its condition, that P_j is in its own detection, never holds."""

    rules = _NotMutual


class _BelowTheMinimum(Membership):
    def cuts(self, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
        return {process: cut - 1 for process, cut in super().cuts(detection).items()}


class BelowTheMinimum(WithMembership):
    """6.4 as printed: what bears the minimum lbn is discarded too."""

    rules = _BelowTheMinimum


class _MinimumCut(Membership):
    def cuts(self, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
        return dict.fromkeys(detection, min(detection.values()))


class MinimumCut(WithMembership):
    """(vii) as printed, for every order."""

    rules = _MinimumCut


class _NoStability(Membership):
    def _confirm(self, detection: Sequence[tuple[ProcessId, int]], by: ProcessId) -> None:
        columns = [self.part.matrix.columns[process] for process, _ in detection]
        before = [column.stable for column in columns]
        super()._confirm(tuple(detection), by)
        for column, stable in zip(columns, before, strict=True):
            column.stable = stable


class VirtualNullsNotStable(WithMembership):
    """(vii) as printed: virtual null messages have an lcb, and no lsb."""

    rules = _NoStability


class WordsWait(Process):
    """Membership messages wait for flow control like all others, and are tried again whenever something happens."""

    def __init__(self, host: Any, parameters: Parameters) -> None:
        super().__init__(host, parameters)
        self.unsaid: list[tuple[Part, Say]] = []

    def say(self, part: Part, say: Say, *, above: int = 0) -> int:
        part.flow.refresh()
        if part.flow.closed(max(part.matrix.largest_flow, part.me.flow + 1), null=True):
            self.unsaid.append((part, say))
            return part.me.last
        return super().say(part, say, above=above)

    def _tend(self, part: Part) -> None:
        unsaid, self.unsaid = self.unsaid, []
        for where, say in unsaid:
            self.say(where, say)
        super()._tend(part)


class SignsOfLifeWait(Process):
    """The null messages of the extended time-silence wait for flow control like all others."""

    def _null(self, part: Part, block: int, why: str) -> None:
        super()._null(part, block, "silence" if why == "alive" else why)


class _Counting(Membership):
    def _told(self, column: Column, say: Confirmed) -> None:
        ours = all(self.suspicions.get(process) == last for process, last in say.detection)
        concerns = any(self._is_member(process) for process, _ in say.detection)
        if concerns and self.host.me not in dict(say.detection):
            self.host.record("told", self.part.group, early=not ours)
        super()._told(column, say)


class CountsDetections(WithMembership):
    """Writes down whether a detection that it hears can be taken over at once (vi)."""

    rules = _Counting
