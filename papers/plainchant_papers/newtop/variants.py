"""Newtop with one rule as the thesis prints it, or with one rule taken out: what claims and tests compare the protocol with.

None of these is for use: each loses something, and the claim or test that runs it says what. By name: what travels to a task is
the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from plainchant.core.model import GroupId, Packet, ProcessId, Reason
from plainchant.protocols.newtop.delivery import Delivery
from plainchant.protocols.newtop.flow import Flow
from plainchant.protocols.newtop.matrix import BlockMatrix, Column, Multicast
from plainchant.protocols.newtop.membership import Detection, Membership
from plainchant.protocols.newtop.packets import Confirmed, Data, Refute, Say
from plainchant.protocols.newtop.part import Part
from plainchant.protocols.newtop.process import Process
from plainchant.protocols.newtop.vectors import Compact, Keyed, Need, Relative
from plainchant.protocols.variants import Variants

from ..observe import constants

VARIANTS: Final = Variants()

# The rules as they are built, for variants that change only a part of them.
_ADVANCE_ON_DELIVERY = Process.advance_on_delivery
_MERGE = Keyed.merge
_LEARN = Relative.learn
_CUTS = Membership.cuts
_MAY_SEND = Membership.may_send
_INSTALL_SMALLER = Process.install_smaller
_REFRESH = Flow.refresh
_REFUTED = Membership._refuted
_CONFIRM = Membership._confirm
_SAY = Process.say
_TEND = Process._tend
_NULL = Process._null
_TOLD = Membership._told
_FLOW = Flow.__init__
_NEXT_BLOCK = Process.next_block

constants(
    VARIANTS,
    ("no second liveness", Process, "sets_off", False),  # Without the null messages of 4.4: time-silence alone.
    ("silent when idle", Process, "_show_life", None),  # No extended time-silence.
    ("not mutual", Membership, "exclude_in_turn", None),  # (viii) as printed: P_j in its own detection never holds.
    # Conditions of chapter 8 that keep no message back.
    ("fl1 alone", Flow, "fl2", True), ("fl1 alone", Flow, "fl3", True),
    ("without fl2", Flow, "fl2", True), ("without fl3", Flow, "fl3", True), ("without room", Flow, "room", True),
    ("sends meanwhile", Process, "_elsewhere", False),  # 9.2: sends in other groups although a request has not come back.
    ("without Emit", Process, "emit", None),  # 9.2: an idle sequencer is not asked for a number.
)  # fmt: skip


# Chapter 4
@VARIANTS.replaces("without CA2", Process, "advance_on_delivery")
def _no_advance(self: Process, part: Part, packet: Data) -> None:
    """The block counter does not advance on delivery."""
    part.counter = max(part.counter, packet.flow)


@VARIANTS.replaces("counting advances", Process, "advance_on_delivery")
def _counted_advance(self: Process, part: Part, packet: Data) -> None:
    """Not another rule: counts the deliveries that advance the block counter, for :func:`advances`."""
    vars(self)["advances"] = advances(self) + (packet.block > self.counter)
    _ADVANCE_ON_DELIVERY(self, part, packet)


def advances(process: Process) -> int:
    """The deliveries that advanced the block counter in a run with the variant ``counting advances``."""
    found: int = vars(process).get("advances", 0)
    return found


@VARIANTS.replaces("safe1", Delivery, "ripe")
def _own_group_only(self: Delivery, part: Part, block: int) -> bool:
    """A block has to be complete in the message's own group only."""
    return block <= part.matrix.complete


@VARIANTS.replaces("nulls breed nulls", Process, "sets_off")
def _all_set_off(self: Process, part: Part, packet: Multicast) -> bool:
    """Null messages set the second mechanism off as messages do."""
    return len(self.parts) > 1


# Chapter 5
@VARIANTS.replaces("GLDV of messages alone", Compact, "is_met")
def _of_messages(self: Compact, column: Column, number: int) -> bool:
    """5.5 as printed: what counts is numbers of messages that were delivered, or that those messages told of."""
    return self.known.get(column.process, 0) >= number


@VARIANTS.replaces("truncated GLDV", Compact, "keeps")
def _truncated(self: Compact, process: ProcessId) -> bool:
    """5.5's update rule, which names only processes that one shares a group with."""
    return any(process in part.members for part in self.parts.values())


@VARIANTS.replaces("truncated vectors", Keyed, "merge")
def _truncated_keyed(self: Keyed, key: GroupId, numbers: tuple[int, ...]) -> None:
    if key in self.parts:
        _MERGE(self, key, numbers)


@VARIANTS.replaces("reversed inequality", Relative, "unmet")
def _reversed(self: Relative, part: Part, packet: Data) -> Need | None:
    """Fig. 5.5 as printed: m is delivered if m.ldv >= LDV."""
    (_, numbers), *others = packet.vector
    mine = self.last.get(part.group, [0] * len(numbers))
    for column, number in zip(part.matrix.members, numbers, strict=True):
        if number < mine[column.index]:
            return column, part.matrix.largest + 1
    assert not others, "one group is enough"
    return None


@VARIANTS.replaces("GBN assigned", Relative, "learn")
def _assigned(self: Relative, part: Part, column: Column, packet: Data, nth: int) -> None:
    """5.6 as printed: GBN[m.g] := m.b after delivery, also if it was larger."""
    _LEARN(self, part, column, packet, nth)
    self.groups[part.group] = packet.block


def _counters(process: Process) -> dict[GroupId, int]:
    found: dict[GroupId, int] = vars(process).setdefault("counters", {})
    return found


@VARIANTS.replaces("counter a group", Process, "next_block")
def _next_in_group(self: Process, part: Part, above: int) -> int:
    """5.6 as printed: every group has a block counter of its own."""
    counters = _counters(self)
    counters[part.group] = max(counters.get(part.group, 0), above) + 1
    return counters[part.group]


@VARIANTS.replaces("counter a group", Process, "raise_counter")
def _raise_in_group(self: Process, part: Part, block: int) -> None:
    counters = _counters(self)
    counters[part.group] = max(counters.get(part.group, 0), block)


# Chapter 6
@VARIANTS.replaces("transport alone", Membership, "suspect")
def _removed_at_once(self: Membership, found: Sequence[tuple[Column, dict[str, Any]]], why: str = "silence") -> None:
    """Fig. 2.6: what arrives is delivered, and a process that is suspected is removed, each when it happens."""
    gone = {column.process: Reason("crashed", f"{column.process} is suspected") for column, _ in found}
    self.process.install_smaller(self.part, gone, None)


@VARIANTS.replaces("transport alone", Process, "_dispatch")
def _delivered_on_arrival(self: Process, source: ProcessId, packet: Packet) -> None:
    if isinstance(packet, Data):
        self.host.deliver(packet.group, source, packet.batch)


@VARIANTS.replaces("transport alone", Process, "_enter")
def _delivered_on_entry(self: Process, part: Part, column: Column, packet: Multicast) -> None:
    if isinstance(packet, Data):
        self.host.deliver(part.group, column.process, packet.batch)


@VARIANTS.replaces("failed apart", Membership, "cuts")
def _own_cut(self: Membership, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
    """6.3.2 without "failed together": what each of the failed sent counts up to its own last message."""
    return dict(detection)


@VARIANTS.replaces("minimum cut", Membership, "cuts")
def _minimum_cut(self: Membership, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
    """(vii) as printed, for every order."""
    return dict.fromkeys(detection, min(detection.values()))


@VARIANTS.replaces("below the minimum", Membership, "cuts")
def _below_the_minimum(self: Membership, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
    """6.4 as printed: what bears the minimum lbn is discarded too."""
    return {process: cut - 1 for process, cut in _CUTS(self, detection).items()}


@VARIANTS.replaces("blocks on suspicion", Membership, "may_send")
def _stops_at_suspicion(self: Membership) -> bool:
    """The rule of [Schiper93c] as 6.4 tells it: sending stops while a process is suspected, or removed."""
    if not self.suspicions or self.failed:
        return _MAY_SEND(self)
    failed, self.failed = self.failed, dict(self.reasons)
    try:
        return _MAY_SEND(self)
    finally:
        self.failed = failed


@VARIANTS.replaces("counted signatures", Process, "signatures")
def _counted_from_first(self: Process, part: Part) -> dict[ProcessId, int]:
    """6.4 as printed: a member's signature is the number of processes that were excluded from the first view."""
    firsts: dict[GroupId, frozenset[ProcessId]] = vars(self).setdefault("firsts", {})
    first = firsts.setdefault(part.group, frozenset(part.members))
    return dict.fromkeys(part.members, len(first.difference(part.members)))


@VARIANTS.replaces("exclusions counted", Process, "install_smaller")
def _counts_exclusions(self: Process, part: Part, gone: dict[ProcessId, Reason], rank: int | None) -> None:
    """6.4 as printed: the signature of a member is the number of processes that have been excluded."""
    vars(self)["excluded"] = vars(self).get("excluded", 0) + len(gone)
    _INSTALL_SMALLER(self, part, gone, rank)


@VARIANTS.replaces("exclusions counted", Process, "signatures")
def _exclusions(self: Process, part: Part) -> dict[ProcessId, int]:
    return dict.fromkeys(part.members, vars(self).get("excluded", 0))


@VARIANTS.replaces("discards at completion", Flow, "refresh")
def _discards_what_is_complete(self: Flow) -> None:
    """6.3.1 without stability: what is complete here is forgotten, also if another process may still ask for it."""
    _REFRESH(self)
    self.matrix.discard(self.mine.complete)


@VARIANTS.replaces("recorded is not erased", Membership, "_refuted")
def _not_erased(self: Membership, by: ProcessId, say: Refute) -> None:
    """(iv) as printed: a refutation concerns those who suspect, and not what is recorded of others' suspicions."""
    if say.process in self.suspicions:
        _REFUTED(self, by, say)


@VARIANTS.replaces("virtual nulls are not stable", Membership, "_confirm")
def _not_stable(self: Membership, detection: Detection, by: ProcessId) -> None:
    """(vii) as printed: virtual null messages have an lcb, and no lsb."""
    columns = [self.part.matrix.columns[process] for process, _ in detection]
    before = [column.stable for column in columns]
    _CONFIRM(self, detection, by)
    for column, stable in zip(columns, before, strict=True):
        column.stable = stable


def _unsaid(process: Process) -> list[tuple[Part, Say]]:
    found: list[tuple[Part, Say]] = vars(process).setdefault("unsaid", [])
    return found


@VARIANTS.replaces("words wait", Process, "say")
def _waits_to_say(self: Process, part: Part, say: Say, *, above: int = 0) -> int:
    """Membership messages wait for flow control like all others, and are tried again whenever something happens."""
    part.flow.refresh()
    if part.flow.closed(max(part.matrix.largest_flow, part.me.flow + 1), null=True):
        _unsaid(self).append((part, say))
        return part.me.last
    return _SAY(self, part, say, above=above)


@VARIANTS.replaces("words wait", Process, "_tend")
def _says_later(self: Process, part: Part) -> None:
    unsaid = list(_unsaid(self))
    _unsaid(self).clear()
    for where, say in unsaid:
        self.say(where, say)
    _TEND(self, part)


@VARIANTS.replaces("signs of life wait", Process, "_null")
def _sign_of_life_waits(self: Process, part: Part, block: int, why: str) -> None:
    """The null messages of the extended time-silence wait for flow control like all others."""
    _NULL(self, part, block, "silence" if why == "alive" else why)


@VARIANTS.replaces("counting detections", Membership, "_told")
def _counted_detection(self: Membership, column: Column, say: Confirmed) -> None:
    """Not another rule: writes down whether a detection that a process hears can be taken over at once (vi)."""
    ours = all(self.suspicions.get(process) == last for process, last in say.detection)
    concerns = any(self._is_member(process) for process, _ in say.detection)
    if concerns and self.host.me not in dict(say.detection):
        self.host.record("told", self.part.group, early=not ours)
    _TOLD(self, column, say)


# Chapter 8


@VARIANTS.replaces("N = 2", Flow, "__init__")
def _bound_of_two(self: Flow, matrix: BlockMatrix, mine: Column, bound: int) -> None:
    """The parameters refuse this bound."""
    _FLOW(self, matrix, mine, 2)


def _owes_none(self: Part) -> bool:
    """Null messages are owed by block numbers alone."""
    return False


VARIANTS.replaces("nulls by block numbers", Part, "owes_flow")(property(_owes_none))


# 9.2
@VARIANTS.replaces("requests without a number", Process, "next_block")
def _regardless(self: Process, part: Part, above: int) -> int:
    """The sequencer does not look at the block counter that a request carries."""
    return _NEXT_BLOCK(self, part, 0)
