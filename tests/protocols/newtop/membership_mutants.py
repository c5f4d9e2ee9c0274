"""Variants of newtop's membership with one rule taken out or turned round, each a class that overrides the method that it is.

``membership_mutants.toml`` beside this file says for each what catches it: a seed of ``membership_sweep``, and the property or
bound that does not hold; or, for a few, a scenario of ``membership_scripted``. After a change of the protocol or the sweep:

    python -m tests.protocols.newtop.membership_mutants            # look for seeds that catch, and rewrite the table
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from plainchant.core.engine import Host
from plainchant.core.model import GroupId, ProcessId, Reason
from plainchant.protocols.newtop import Process
from plainchant.protocols.newtop.delivery import RANK_BITS
from plainchant.protocols.newtop.flow import Flow
from plainchant.protocols.newtop.formation import FIRST_TAG, Formations
from plainchant.protocols.newtop.matrix import Column, Multicast
from plainchant.protocols.newtop.membership import Detection, Membership
from plainchant.protocols.newtop.packets import FORMING, Beacon, Confirmed, Plan, Refute, Word
from plainchant.protocols.newtop.part import Part
from plainchant.protocols.newtop.suspector import Suspector

from .. import sweeping
from ..sweeping import Make
from . import membership_scripted as scripted
from . import membership_sweep as sweep

TABLE = Path(__file__).with_name("membership_mutants.toml")
SEARCHED = 2 * sweep.SEEDS
"""A mutant has to be caught within these."""

MUTANTS: dict[str, Callable[[Host, Any], Process]] = {}


def mutant(name: str) -> Callable[[type[Process]], type[Process]]:
    def enter(variant: type[Process]) -> type[Process]:
        MUTANTS[name] = variant
        return variant

    return enter


def with_membership(name: str) -> Callable[[type[Membership]], type[Membership]]:
    """A mutant that has this class of Membership."""

    def enter(variant: type[Membership]) -> type[Membership]:
        class Variant(Process):
            def make_membership(self, part: Part) -> Membership:
                return variant(self, part)

        MUTANTS[name] = Variant
        return variant

    return enter


def with_formations(name: str) -> Callable[[type[Formations]], type[Formations]]:
    """A mutant that has this class of Formations."""

    def enter(variant: type[Formations]) -> type[Formations]:
        class Variant(Process):
            def make_formations(self) -> Formations:
                return variant(self)

        MUTANTS[name] = Variant
        return variant

    return enter


# --- (i) to (iv): suspecting and refuting -----------------------------------------------------------------------------


@mutant("no extended time-silence")
class _Lifeless(Process):
    def _show_life(self, part: Part) -> None:
        """Who has nothing to send sends nothing."""


@mutant("signs of life wait for flow control")
class _Shy(Process):
    def _null(self, part: Part, block: int, why: str) -> None:
        super()._null(part, block, "silence" if why == "alive" else why)


class _Never(Suspector):
    def watch(self) -> None:
        """Nobody is ever suspected."""


@with_membership("no suspector")
class _Trusting(Membership):
    def make_suspector(self) -> Suspector:
        return _Never(self)


class _OnceOnly(Suspector):
    def rearm(self, process: ProcessId) -> None:
        """Who was suspected wrongly is above suspicion."""
        self._since[process] = 1 << 62


@with_membership("the time-outs of a refuted suspicion do not begin anew")
class _NotRearmed(Membership):
    def make_suspector(self) -> Suspector:
        return _OnceOnly(self)


@with_membership("a suspicion of oneself is recorded")
class _SelfRecorded(Membership):
    def _record(self, by: ProcessId, process: ProcessId, last: int) -> None:
        if process == self.host.me:
            self.recorded.setdefault(process, {})[by] = last
        super()._record(by, process, last)

    def compare(self, column: Column) -> None:
        if column is not self.part.me:
            super().compare(column)


@with_membership("what a suspected member sends is looked at")
class _Open(Membership):
    def is_pending(self, source: ProcessId, packet: Multicast) -> bool:
        return False


@with_membership("what is pending is dropped at a refutation")
class _Dropped(Membership):
    def receive_pending(self, column: Column) -> None:
        self.pending.pop(column.process, None)


@with_membership("nobody refutes")
class _Silent(Membership):
    def compare(self, column: Column) -> None:
        """Let them think what they like."""


@with_membership("a refuted suspicion is not erased")
class _Unforgiving(Membership):
    def erase(self, process: ProcessId, last: int) -> None:
        """Once recorded, always recorded."""


@with_membership("a refutation is not repeated")
class _NotRepeated(Membership):
    def _refuted(self, by: ProcessId, say: Refute) -> None:
        spoken = self.process.say
        self.process.say = lambda part, say, **above: 0  # type: ignore[method-assign]
        try:
            super()._refuted(by, say)
        finally:
            self.process.say = spoken  # type: ignore[method-assign]


# --- (v) to (viii): agreeing ------------------------------------------------------------------------------------------


@with_membership("confirmed although not everybody suspects them")
class _Hasty(Membership):
    def _agreed(self) -> tuple[ProcessId, Detection] | None:
        return self.host.me, tuple(sorted(self.suspicions.items()))


@with_membership("confirmed with different last blocks")
class _Roughly(Membership):
    def _agreed(self) -> tuple[ProcessId, Detection] | None:
        for process in self.suspicions:
            recorded = self.recorded.get(process, {})
            for member in self.part.members:
                if member not in (self.host.me, *self.suspicions, *self.failed) and member not in recorded:
                    return None
        return self.host.me, tuple(sorted(self.suspicions.items()))


@with_membership("suspected together, failed one by one (6.3.2's P_r and P_s)")
class _OneByOne(Membership):
    def _agreed(self) -> tuple[ProcessId, Detection] | None:
        for process, last in self.suspicions.items():
            recorded = self.recorded.get(process, {})
            others = [one for one in self.part.members if one not in (self.host.me, *self.suspicions, *self.failed)]
            if all(recorded.get(member) == last for member in others):
                return self.host.me, ((process, last),)
        return None


@with_membership("no detection is taken over")
class _Stubborn(Membership):
    def _taken_over(self) -> tuple[ProcessId, Detection] | None:
        return None


@with_membership("a detection that cannot be taken over yet is not kept")
class _NotKept(Membership):
    def _told(self, column: Column, say: Confirmed) -> None:
        mine = any(process == self.host.me for process, _ in say.detection)
        if mine or all(self.suspicions.get(process) == last for process, last in say.detection):
            super()._told(column, say)


@with_membership("a detection is taken over although not all of it is suspected")
class _Credulous(Membership):
    def _taken_over(self) -> tuple[ProcessId, Detection] | None:
        for by, detection in self.kept:
            if by not in self.suspicions:
                for process, last in detection:
                    if process not in self.suspicions and self._is_member(process):
                        self.suspicions[process] = last
                        self.since[process] = self.host.now
                        self.reasons[process] = Reason("crashed", f"{by} says so", {"last": last})
                return by, tuple((process, last) for process, last in detection if process in self.suspicions)
        return None


@with_membership("no mutual suspicion")
class _Forgiving(Membership):
    def exclude_in_turn(self, column: Column) -> None:
        """Who excludes us is still one of us."""


@with_membership("each one's own last block instead of the minimum")
class _OwnLast(Membership):
    def cuts(self, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
        return dict(detection) if self.part.order in ("total", "slow") else super().cuts(detection)


@with_membership("slow order is cut at the minimum")
class _SlowMinimum(Membership):
    def cuts(self, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
        return dict.fromkeys(detection, min(detection.values())) if self.part.order == "slow" else super().cuts(detection)


@with_membership("causal orders are cut at the minimum")
class _CausalMinimum(Membership):
    def cuts(self, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
        if self.part.order in ("total", "slow"):
            return super().cuts(detection)
        return dict.fromkeys(detection, min(detection.values()))


@with_membership("what depends on something beyond another's cut counts")
class _Dangling(Membership):
    def cuts(self, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
        return super().cuts(detection) if self.part.order in ("total", "slow") else dict(detection)


@with_membership("virtual nulls without lsb")
class _NoStable(Membership):
    def _confirm(self, detection: Detection, by: ProcessId) -> None:
        columns = [self.part.matrix.columns[process] for process, _ in detection]
        before = [column.stable for column in columns]
        super()._confirm(detection, by)
        for column, stable in zip(columns, before, strict=True):
            column.stable = stable


@with_membership("virtual nulls without lcb")
class _NoComplete(Membership):
    def _confirm(self, detection: Detection, by: ProcessId) -> None:
        columns = [self.part.matrix.columns[process] for process, _ in detection]
        before = [column.complete for column in columns]
        super()._confirm(detection, by)
        for column, complete in zip(columns, before, strict=True):
            column.complete = complete


@with_membership("a minority goes on")
class _Minority(Membership):
    def _is_minority(self, detection: Detection) -> bool:
        return False


# --- (ix): the view ---------------------------------------------------------------------------------------------------


@with_membership("the view changes when the failed are confirmed, not at a Remove")
class _AtOnce(Membership):
    def _remove(self) -> None:
        rank = self.process.delivery.complete << RANK_BITS if self.part.order == "total" else None
        self.install(list(self.failed), rank)


@with_membership("the first Remove changes the view in every order")
class _FirstRemove(Membership):
    def __init__(self, process: Process, part: Part) -> None:
        super().__init__(process, part)
        self.counted = False


@with_membership("nothing is held back until the view")
class _NotHeld(Membership):
    def holds(self, column: Column, block: int) -> bool:
        return False


@with_membership("original virtual synchrony does not stop sending")
class _GoesOn(Membership):
    def may_send(self) -> bool:
        failed, self.failed = self.failed, {}
        allowed = super().may_send()
        self.failed = failed
        return allowed


@with_membership("an excluded member's Remove counts")
class _Posthumous(Membership):
    def deliver(self, column: Column, word: Word) -> None:
        cut, column.cut = column.cut, None
        super().deliver(column, word)
        column.cut = cut


@mutant("signatures count exclusions, as in the thesis")
class _Counting(Process):
    def signatures(self, part: Part) -> dict[ProcessId, int]:
        if not self.parameters.signatures:
            return {}
        return dict.fromkeys(part.members, len(part.matrix.roster) - len(part.members))


@mutant("discarded when complete, not when stable")
class _Forgetful(Process):
    def make_part(self, group: GroupId, members: tuple[ProcessId, ...], form: int = 1, number: int = 1) -> Part:
        part = super().make_part(group, members, form, number)
        part.flow = _ForgetfulFlow(part.matrix, part.me, self.parameters.blocks)
        return part


class _ForgetfulFlow(Flow):
    def refresh(self) -> None:
        super().refresh()
        self.matrix.discard(self.mine.complete)


# --- leaving ----------------------------------------------------------------------------------------------------------


@with_membership("a leaver does not wait")
class _Abrupt(Membership):
    def go_on_leaving(self) -> None:
        super().go_on_leaving()
        if self.bye and self.process.parts.get(self.part.group) is self.part:
            self.process.gone(self.part)


# --- formations -------------------------------------------------------------------------------------------------------


@with_formations("parts do not look for each other")
class _Solitary(Formations):
    def _saw(self, part: Part, beacon: Beacon) -> None:
        """Whoever that is."""


class _AgainFirst(Formations):
    def make_plan(
        self,
        group: GroupId,
        number: int,
        members: tuple[ProcessId, ...],
        parts: tuple[tuple[ProcessId, ...], ...] = (),
        newcomers: tuple[ProcessId, ...] = (),
    ) -> Plan:
        return super().make_plan(group, 1 if parts else number, members, parts, newcomers)


class _AnyNumber(Membership):
    def _moved(self, plan: Plan) -> None:
        number, self.part.number = self.part.number, 0
        super()._moved(plan)
        self.part.number = number


@mutant("a merge reuses a view's identity")
class _Reused(Process):
    def make_formations(self) -> Formations:
        return _AgainFirst(self)

    def make_membership(self, part: Part) -> Membership:
        return _AnyNumber(self, part)


@with_formations("a formation's tag is the number of its view")
class _NumberAsTag(Formations):
    def make_plan(
        self,
        group: GroupId,
        number: int,
        members: tuple[ProcessId, ...],
        parts: tuple[tuple[ProcessId, ...], ...] = (),
        newcomers: tuple[ProcessId, ...] = (),
    ) -> Plan:
        plan = super().make_plan(group, number, members, parts, newcomers)
        return msgspec.structs.replace(plan, form=FIRST_TAG + number)


@mutant("tags of formations are ignored")
class _Untagged(Process):
    def _dispatch(self, source: ProcessId, packet: Any) -> None:
        part = self.parts.get(packet.group)
        if part is not None and type(packet) not in FORMING:
            packet = msgspec.structs.replace(packet, form=part.form)
        super()._dispatch(source, packet)


@mutant("nobody waits for openings")
class _Impatient(Process):
    def _opened(self, part: Part) -> None:
        super()._opened(part)
        part.open = True


@with_membership("Close is not waited for")
class _NotClosed(Membership):
    def _end_if_all_closed(self) -> None:
        if self.moving is not None and self.host.me in self.closed:
            self.process.formations.finish(self.part, self.moving)


@with_membership("a move does not stop sending")
class _SendsOn(Membership):
    def may_send(self) -> bool:
        moving, self.moving = self.moving, None
        allowed = super().may_send()
        self.moving = moving
        return allowed


@with_membership("a plan counts that lacks a member")
class _Lacking(Membership):
    def _moved(self, plan: Plan) -> None:
        members = self.part.members
        self.part.members = tuple(member for member in members if member in plan.members) if plan.name else members
        super()._moved(plan)
        self.part.members = members


@mutant("a formation that has ended answers no more")
class _Ended(Process):
    def retire(self, part: Part) -> None:
        super().retire(part)
        self._retired.clear()
        part.matrix.discard(1 << 62)
        self._retired[part.group, part.form] = part


# --- the table --------------------------------------------------------------------------------------------------------


def table() -> dict[str, dict[str, Any]]:
    """What is checked in: mutant to seed and property."""
    return sweeping.read_table(TABLE)


def seeds(times: int = 1) -> list[int]:
    """The seeds of a sweep that is so many times as long as the ordinary one."""
    return sweeping.with_needed(table(), [*range(times * sweep.SEEDS), *sweep.REGRESSIONS])


def catch(variant: Make | None, row: Mapping[str, Any]) -> list[str]:
    """What a variant (or the protocol itself) violates in the run that a row of the table names."""
    if "scenario" in row:
        return sweep.run(0, variant, scripted.SCENARIOS[row["scenario"]]).violated
    return sweep.run(row["seed"], variant).violated


def _search(name: str) -> tuple[int, list[str]] | None:
    return sweeping.first_that_catches(sweep.run, MUTANTS[name], sweeping.known_first(TABLE, name, range(SEARCHED)))


if __name__ == "__main__":
    sweeping.look_for_seeds(TABLE, list(MUTANTS), sys.argv[1:], _search)
