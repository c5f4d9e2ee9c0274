"""Mutants of newtop's membership: a function in place of each rule.

``membership_mutants.toml`` beside this file says what catches each (:mod:`..mutating`): a seed of ``membership_sweep``, a seed of
``alive_sweep`` (``alive``), or a scenario of ``membership_scripted``. After a change of the protocol or the sweep:

    python -m tests.protocols.newtop.membership_mutants            # look for seeds that catch, and rewrite the table
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from plainchant.core.model import GroupId, ProcessId, Reason
from plainchant.protocols.newtop import Process
from plainchant.protocols.newtop.attempts import Entry, Followed
from plainchant.protocols.newtop.delivery import RANK_BITS
from plainchant.protocols.newtop.flow import Flow
from plainchant.protocols.newtop.formation import ANSWER_PATIENCE, FIRST_TAG, Formations
from plainchant.protocols.newtop.matrix import Column, Multicast
from plainchant.protocols.newtop.membership import Detection, Membership
from plainchant.protocols.newtop.packets import FORMING, Answer, Beacon, Confirmed, Plan, Refute, Suspect, Word
from plainchant.protocols.newtop.part import Part
from plainchant.protocols.newtop.repair import Repair
from plainchant.protocols.newtop.suspector import Suspector

from ..mutating import Applied, Mutants, Row, look_for_seeds
from ..sweeping import ordinary
from . import alive_sweep
from . import membership_scripted as scripted
from . import membership_sweep as sweep


def attempt(row: Row, applied: Applied) -> list[str]:
    with applied():
        if "alive" in row:
            return alive_sweep.run(row["alive"]).violated
        if "scenario" in row:
            return sweep.run(0, None, scripted.SCENARIOS[row["scenario"]]).violated
        return sweep.run(row["seed"]).violated


MUTANTS = Mutants(Path(__file__).with_name("membership_mutants.toml"), attempt, searched=2 * sweep.SEEDS)
mutant = MUTANTS.replaces

_FORMATIONS_MAKE_PLAN = Formations.make_plan
_MEMBERSHIP_CONFIRM = Membership._confirm
_MEMBERSHIP_MOVED = Membership._moved
_MEMBERSHIP_RECORD = Membership._record
_MEMBERSHIP_REFUTED = Membership._refuted
_MEMBERSHIP_TOLD = Membership._told
_MEMBERSHIP_COMPARE = Membership.compare
_MEMBERSHIP_CUTS = Membership.cuts
_MEMBERSHIP_DELIVER = Membership.deliver
_MEMBERSHIP_GO_ON_LEAVING = Membership.go_on_leaving
_MEMBERSHIP_MAY_SEND = Membership.may_send
_PROCESS_DISPATCH = Process._dispatch
_PROCESS_NULL = Process._null
_PROCESS_OPENED = Process._opened
_PROCESS_RETIRE = Process.retire
_PROCESS_INSTALL_SMALLER = Process.install_smaller
_FLOW_REFRESH = Flow.refresh
_MEMBERSHIP_INIT = Membership.__init__


# --- (i) to (iv): suspecting and refuting -----------------------------------------------------------------------------


@mutant("no extended time-silence", Process, "_show_life")
def _lifeless(self: Process, part: Part) -> None:
    """Who has nothing to send sends nothing."""


@mutant("signs of life wait for flow control", Process, "_null")
def _shy(self: Process, part: Part, block: int, why: str) -> None:
    _PROCESS_NULL(self, part, block, "silence" if why == "alive" else why)


@mutant("no suspector", Suspector, "watch")
def _never(self: Suspector) -> None:
    """No process is ever suspected."""


@mutant("a member that is heard is suspected", Process, "_dispatch")
def _unheard(self: Process, source: ProcessId, packet: Any) -> None:
    """As in the thesis: a missing part of a block is enough."""
    part = self.parts.get(packet.group)
    _PROCESS_DISPATCH(self, source, packet)
    if part is not None and source in part.matrix.columns:
        part.matrix.columns[source].heard = 0


@mutant("no questions for signs of life", Suspector, "probe")
def _unasked(self: Suspector, column: Column) -> None:
    """Null messages will do."""


@mutant("omega begins with suspect_after", Suspector, "is_experienced")
def _inexperienced(self: Suspector) -> bool:
    return True


@mutant("what another suspects does not shorten the first omega", Suspector, "shorten")
def _not_shortened(self: Suspector) -> None:
    """The timer of the longest omega ends when it ends."""


@mutant("a block that was late for a suspicion is learned from", Suspector, "disturbed")
def _undisturbed(self: Suspector) -> None:
    """Omega is as long as it took to miss a member."""


@mutant("disagreement takes no account of how long blocks take", Suspector, "repair")
def _unrepaired(self: Suspector) -> int:
    return 0


@mutant("suspected members are asked for what is missing", Repair, "_whom")
def _whom_also_suspected(self: Repair, part: Part, column: Column) -> ProcessId:
    """Every second question goes to a member that may be dead."""
    others = [process for process in part.others if process != column.process]
    if column.tries % 2 or not others:
        return column.process
    return others[(column.index + column.tries // 2) % len(others)]


@mutant("late answers teach nothing", Formations, "_learn")
def _untaught(self: Formations, source: ProcessId, answer: Answer) -> None:
    """A call waits twice as long as the one before until an answer is in time."""


@mutant("how far a joiner is does not count", Entry, "noted")
def _unnoted(self: Entry, now: int) -> None:
    """It gives up after the same time, near or far."""


@mutant("the time-outs of a refuted suspicion do not begin anew", Suspector, "rearm")
def _once_only(self: Suspector, process: ProcessId) -> None:
    """A process that was suspected wrongly is never suspected again."""
    self._since[process] = 1 << 62


@mutant("a suspicion of oneself is recorded", Membership, "_record")
def _self_recorded_record(self: Membership, by: ProcessId, process: ProcessId, last: int) -> None:
    if process == self.host.me:
        self.recorded.setdefault(process, {})[by] = last
    _MEMBERSHIP_RECORD(self, by, process, last)


@mutant("a suspicion of oneself is recorded", Membership, "compare")
def _self_recorded_compare(self: Membership, column: Column) -> None:
    if column is not self.part.me:
        _MEMBERSHIP_COMPARE(self, column)


@mutant("what a suspected member sends is looked at", Membership, "is_pending")
def _open(self: Membership, source: ProcessId, packet: Multicast) -> bool:
    return False


@mutant("what is pending is dropped at a refutation", Membership, "receive_pending")
def _dropped(self: Membership, column: Column) -> None:
    self.pending.pop(column.process, None)


@mutant("suspicions of a suspected member are not overheard", Membership, "overhear")
def _deaf(self: Membership, by: ProcessId, say: Suspect) -> None:
    """It is suspected: whatever it says is not looked at."""


@mutant("suspicions are not repeated", Membership, "repeat")
def _said_once(self: Membership) -> None:
    """They have been said."""


@mutant("members that neither share nor refute a suspicion are waited for", Membership, "_part_from_the_undecided")
def _undecided(self: Membership) -> None:
    """They may still agree."""


@mutant("a member that has said Bye installs further views", Membership, "is_beyond_bye")
def _installs_on(self: Membership, block: int) -> bool:
    return False


@mutant("an application that does not read is waited for", Membership, "notice_readers")
def _waits_for_readers(self: Membership) -> None:
    """It may still read."""


@mutant("nobody refutes", Membership, "compare")
def _silent(self: Membership, column: Column) -> None:
    """Let them think what they like."""


@mutant("a refuted suspicion is not erased", Membership, "erase")
def _unforgiving(self: Membership, process: ProcessId, last: int) -> None:
    """Once recorded, always recorded."""


@mutant("a refutation is not repeated", Membership, "_refuted")
def _not_repeated(self: Membership, by: ProcessId, say: Refute) -> None:
    spoken = self.process.say
    self.process.say = lambda part, say, **above: 0  # type: ignore[method-assign]
    try:
        _MEMBERSHIP_REFUTED(self, by, say)
    finally:
        self.process.say = spoken  # type: ignore[method-assign]


# --- (v) to (viii): agreeing ------------------------------------------------------------------------------------------


@mutant("confirmed although not everybody suspects them", Membership, "_agreed")
def _hasty(self: Membership) -> tuple[ProcessId, Detection] | None:
    return self.host.me, tuple(sorted(self.suspicions.items()))


@mutant("confirmed with different last blocks", Membership, "_agreed")
def _roughly(self: Membership) -> tuple[ProcessId, Detection] | None:
    for process in self.suspicions:
        recorded = self.recorded.get(process, {})
        for member in self.part.members:
            if member not in (self.host.me, *self.suspicions, *self.failed) and member not in recorded:
                return None
    return self.host.me, tuple(sorted(self.suspicions.items()))


@mutant("suspected together, failed one by one (6.3.2's P_r and P_s)", Membership, "_agreed")
def _one_by_one(self: Membership) -> tuple[ProcessId, Detection] | None:
    for process, last in self.suspicions.items():
        recorded = self.recorded.get(process, {})
        others = [one for one in self.part.members if one not in (self.host.me, *self.suspicions, *self.failed)]
        if all(recorded.get(member) == last for member in others):
            return self.host.me, ((process, last),)
    return None


@mutant("no detection is taken over", Membership, "_taken_over")
def _stubborn(self: Membership) -> tuple[ProcessId, Detection] | None:
    return None


@mutant("a detection that cannot be taken over yet is not kept", Membership, "_told")
def _not_kept(self: Membership, column: Column, say: Confirmed) -> None:
    mine = any(process == self.host.me for process, _ in say.detection)
    if mine or all(self.suspicions.get(process) == last for process, last in say.detection):
        _MEMBERSHIP_TOLD(self, column, say)


@mutant("a detection is taken over although not all of it is suspected", Membership, "_taken_over")
def _credulous(self: Membership) -> tuple[ProcessId, Detection] | None:
    for by, detection in self.kept:
        if by not in self.suspicions:
            for process, last in detection:
                if process not in self.suspicions and self._is_member(process):
                    self.suspicions[process] = last
                    self.since[process] = self.host.now
                    self.reasons[process] = Reason("crashed", f"{by} says so", {"last": last})
            return by, tuple((process, last) for process, last in detection if process in self.suspicions)
    return None


@mutant("no mutual suspicion", Membership, "exclude_in_turn")
def _forgiving(self: Membership, column: Column) -> None:
    """Who excludes us is still one of us."""


@mutant("each one's own last block instead of the minimum", Membership, "cuts")
def _own_last(self: Membership, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
    return dict(detection) if self.part.order in ("total", "slow") else _MEMBERSHIP_CUTS(self, detection)


@mutant("slow order is cut at the minimum", Membership, "cuts")
def _slow_minimum(self: Membership, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
    return dict.fromkeys(detection, min(detection.values())) if self.part.order == "slow" else _MEMBERSHIP_CUTS(self, detection)


@mutant("causal orders are cut at the minimum", Membership, "cuts")
def _causal_minimum(self: Membership, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
    if self.part.order in ("total", "slow"):
        return _MEMBERSHIP_CUTS(self, detection)
    return dict.fromkeys(detection, min(detection.values()))


@mutant("what depends on something beyond another's cut counts", Membership, "cuts")
def _dangling(self: Membership, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
    return _MEMBERSHIP_CUTS(self, detection) if self.part.order in ("total", "slow") else dict(detection)


@mutant("virtual nulls without lsb", Membership, "_confirm")
def _no_stable(self: Membership, detection: Detection, by: ProcessId) -> None:
    columns = [self.part.matrix.columns[process] for process, _ in detection]
    before = [column.stable for column in columns]
    _MEMBERSHIP_CONFIRM(self, detection, by)
    for column, stable in zip(columns, before, strict=True):
        column.stable = stable


@mutant("virtual nulls without lcb", Membership, "_confirm")
def _no_complete(self: Membership, detection: Detection, by: ProcessId) -> None:
    columns = [self.part.matrix.columns[process] for process, _ in detection]
    before = [column.complete for column in columns]
    _MEMBERSHIP_CONFIRM(self, detection, by)
    for column, complete in zip(columns, before, strict=True):
        column.complete = complete


@mutant("a minority goes on", Membership, "_is_minority")
def _minority(self: Membership, detection: Detection) -> bool:
    return False


# --- (ix): the view ---------------------------------------------------------------------------------------------------


@mutant("the view changes when the failed are confirmed, not at a Remove", Membership, "_remove")
def _at_once(self: Membership) -> None:
    rank = self.process.delivery.complete << RANK_BITS if self.part.order == "total" else None
    self.install(list(self.failed), rank)


@mutant("the first Remove changes the view in every order", Membership, "__init__")
def _first_remove(self: Membership, process: Process, part: Part) -> None:
    _MEMBERSHIP_INIT(self, process, part)
    self.counted = False


@mutant("views are counted, not the members that are gone", Process, "install_smaller")
def _views_counted(self: Process, part: Part, gone: dict[ProcessId, Reason], rank: int | None) -> None:
    part.number += 1 - len(gone)
    _PROCESS_INSTALL_SMALLER(self, part, gone, rank)


@mutant("those that stayed behind are not counted", Membership, "left_behind")
def _forgotten(self: Membership) -> None:
    """Whoever has come is enough."""


@mutant("numbers of a move that was given up are used again", Membership, "skip_numbers_of")
def _used_again(self: Membership, plan: Plan) -> None:
    """No process can have gone there."""


@mutant("two Removes hold back as much as the last", Membership, "next_limit")
def _last_limit(self: Membership) -> int | None:
    return self.own_removes[-1] if self.failed and self.own_removes else None


@mutant("nothing is held back until the view", Membership, "holds")
def _not_held(self: Membership, column: Column, block: int) -> bool:
    return False


@mutant("original virtual synchrony does not stop sending", Membership, "may_send")
def _goes_on(self: Membership) -> bool:
    failed, self.failed = self.failed, {}
    allowed = _MEMBERSHIP_MAY_SEND(self)
    self.failed = failed
    return allowed


@mutant("an excluded member's Remove counts", Membership, "deliver")
def _posthumous(self: Membership, column: Column, word: Word) -> None:
    cut, column.cut = column.cut, None
    _MEMBERSHIP_DELIVER(self, column, word)
    column.cut = cut


@mutant("signatures count exclusions, as in the thesis", Process, "signatures")
def _counting(self: Process, part: Part) -> dict[ProcessId, int]:
    if not self.parameters.signatures:
        return {}
    return dict.fromkeys(part.members, len(part.matrix.roster) - len(part.members))


@mutant("discarded when complete, not when stable", Flow, "refresh")
def _forgetful(self: Flow) -> None:
    _FLOW_REFRESH(self)
    self.matrix.discard(self.mine.complete)


# --- leaving ----------------------------------------------------------------------------------------------------------


@mutant("a leaver does not wait", Membership, "go_on_leaving")
def _abrupt(self: Membership) -> None:
    _MEMBERSHIP_GO_ON_LEAVING(self)
    if self.bye and self.process.parts.get(self.part.group) is self.part:
        self.process.gone(self.part)


# --- formations -------------------------------------------------------------------------------------------------------


@mutant("parts do not look for each other", Formations, "_saw")
def _solitary(self: Formations, part: Part, beacon: Beacon) -> None:
    """Whoever that is."""


@mutant("a merge reuses a view's identity", Formations, "make_plan")
def _again_first(
    self: Formations,
    group: GroupId,
    number: int,
    members: tuple[ProcessId, ...],
    parts: tuple[tuple[ProcessId, ...], ...] = (),
    newcomers: tuple[ProcessId, ...] = (),
) -> Plan:
    return _FORMATIONS_MAKE_PLAN(self, group, 1 if parts else number, members, parts, newcomers)


@mutant("a merge reuses a view's identity", Membership, "_moved")
def _any_number(self: Membership, plan: Plan) -> None:
    number, self.part.number = self.part.number, 0
    _MEMBERSHIP_MOVED(self, plan)
    self.part.number = number


@mutant("a formation's tag is the number of its view", Formations, "make_plan")
def _number_as_tag(
    self: Formations,
    group: GroupId,
    number: int,
    members: tuple[ProcessId, ...],
    parts: tuple[tuple[ProcessId, ...], ...] = (),
    newcomers: tuple[ProcessId, ...] = (),
) -> Plan:
    plan = _FORMATIONS_MAKE_PLAN(self, group, number, members, parts, newcomers)
    return msgspec.structs.replace(plan, form=FIRST_TAG + number)


@mutant("tags of formations are ignored", Process, "_dispatch")
def _untagged(self: Process, source: ProcessId, packet: Any) -> None:
    part = self.parts.get(packet.group)
    if part is not None and type(packet) not in FORMING:
        packet = msgspec.structs.replace(packet, form=part.form)
    _PROCESS_DISPATCH(self, source, packet)


@mutant("nobody waits for openings", Process, "_opened")
def _impatient(self: Process, part: Part) -> None:
    _PROCESS_OPENED(self, part)
    part.open = True


@mutant("Close is not waited for", Membership, "_end_if_all_closed")
def _not_closed(self: Membership) -> None:
    if self.moving is not None and self.host.me in self.closed:
        self.process.formations.finish(self.part, self.moving)


@mutant("a move does not stop sending", Membership, "may_send")
def _sends_on(self: Membership) -> bool:
    moving, self.moving = self.moving, None
    allowed = _MEMBERSHIP_MAY_SEND(self)
    self.moving = moving
    return allowed


@mutant("a plan counts that lacks a member", Membership, "_moved")
def _lacking(self: Membership, plan: Plan) -> None:
    members = self.part.members
    self.part.members = tuple(member for member in members if member in plan.members) if plan.name else members
    _MEMBERSHIP_MOVED(self, plan)
    self.part.members = members


@mutant("a formation that has ended answers no more", Process, "retire")
def _ended(self: Process, part: Part) -> None:
    _PROCESS_RETIRE(self, part)
    self._retired.clear()
    part.matrix.discard(1 << 62)
    self._retired[part.group, part.form] = part


@mutant("what was learned about blocks is lost at a merge", Suspector, "begin_with")
def _unlearned(self: Suspector, patience: int) -> None:
    """Every formation begins with ``suspect_after``."""
    self._experienced = True


@mutant("parts do not back off", Formations, "_back_off")
def _eager_parts(self: Formations, group: GroupId) -> None:
    """They call each other whenever they can."""


@mutant("calls that were given up are not told", Formations, "_abandon")
def _untold(self: Formations, group: GroupId, attempt: int, leaders: tuple[ProcessId, ...]) -> None:
    """The others will see."""


@mutant("a later call does not take the place of the one before", Followed, "gives_way_to")
def _first_call_only(self: Followed, caller: ProcessId, attempt: int) -> bool:
    return self.is_of(caller, attempt)


@mutant("a call waits no longer than the one before", Formations, "_wait_for_answers")
def _no_longer(self: Formations, group: GroupId) -> int:
    return ANSWER_PATIENCE * self.parameters.suspect_after


@mutant("the group that has waited least comes first", Process, "_touch_all")
def _last_come(self: Process) -> None:
    for part in (*self.parts.values(), *self._kept):
        self.touched.pop(part, None)
        self.touched[part] = None


@mutant("room is counted in blocks", Part, "count_undelivered")
def _by_block(self: Part) -> int:
    """Signs of life count like messages."""
    return self.counter + 1 - self.flow.roomy


# --- the table --------------------------------------------------------------------------------------------------------


def seeds(times: int = 1) -> list[int]:
    """The seeds of a sweep that is ``times`` as long as the ordinary one, and those that mutants need."""
    return MUTANTS.with_needed([*ordinary(times, sweep.SEEDS, sweep.SHORT), *sweep.REGRESSIONS])


if __name__ == "__main__":
    look_for_seeds("tests.protocols.newtop.membership_mutants", sys.argv[1:])
