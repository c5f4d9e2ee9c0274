"""Membership (6.3.2): who has failed, and where in the order of messages the others agree that it has.

Theory of operation
-------------------
A *group view* is this class for one group at one process. Group views talk by words: null messages of the Block Matrix with
something to say. So words come reliably, in the order in which each member sent them, and before anything that it sent after
them, which the agreement depends on. They do not wait for flow control: a failed member stops stability, and with it sending.

The rules bear the thesis's numbers.

(i)    The suspector gives up on P_k, whose last message here has block lbn: {P_k, lbn} is suspected, and everybody told.
(ii)   Another's suspicion is recorded; one's own of oneself is not.
(iii)  Who has more of P_k than a recorded lbn refutes it, and sends what it has along.
(iv)   A refuted suspicion is void: what is recorded of it is erased, the missing messages are recovered, what was pending is
       received, the member's time-outs begin anew, and the refutation is repeated, so that it precedes whatever is said next.
(v)    When everybody who is not suspected suspects all whom this process suspects, with the same lbn, they are *confirmed*
       together.
(vi)   Another's confirmed detection, if all of it is suspected here, is taken over. If not yet, it is kept until it is.
(vii)  All in a detection have failed together. Nothing of theirs after a *cut* counts; virtual null messages, stable and
       complete everywhere, take its place, so that blocks get complete again. A ``Remove`` goes out.
(viii) Who finds itself in another's detection suspects that one: exclusion is mutual.
(ix)   The view without them is installed when a ``Remove`` is delivered, in its place in the order.

While P_k is suspected, what comes from it is pending: kept, not looked at. That makes (v) sound. When it holds, all outside the
detection have the same last message of each in it and take nothing more from them, refutations included; so none can go back on
it, and a member that has confirmed less has said so before.

**Suspicions in a circle** (a suspects c, c suspects b, b suspects a) satisfy neither (iii) nor (v): the only member that could
refute a suspicion suspects the member that has it, and does not look at what it says. So a suspicion is *repeated*, every one and
a half omegas, until it is settled, and a ``Suspect`` among the pending packets is *overheard*: a member that has more of the
accused and does not suspect it refutes, as in (iii). That is sound: a Refute only says that its sender has not agreed and has
more; a detection that was confirmed without it has its sender in it, and those who agreed on that do not look at the Refute. If
the links of the circle stay broken, nothing settles the suspicions. Then, after the time by which every live member has suspected
or refuted (:meth:`Membership.parts_at`), those that have done neither are suspected too, so that parts go on by themselves and
meet again when the links work. Where only a majority may go on, that would halt all of them, so members wait for the links.

**The cut.** Total order: the smallest lbn of the detection. No member has a complete block above it, so none has delivered
anything there, and what one of the failed sent after delivering something of another that no survivor has is above it. A causal
order may have delivered all it has. There each of the failed has its own lbn, which all have, lessened by what depends on
something beyond another's cut (which none can have delivered either). Slow order, which delivers one block ahead: the smallest
lbn and one more, or the own if that is less.

**When the view changes.** In total order the first ``Remove`` that is delivered does it, at the same place for all, with every
other member that has a cut below it. A causal order has no such place. There the *last* of all survivors' ``Remove`` with the
same failed members does: each of them holds back what is numbered above its own one, everything up to the last is delivered when
its block is complete, then comes the view. The same for original virtual synchrony (``same_view``, 6.4), with sending stopped
from one's own ``Remove`` to the view: what was sent before is numbered below; only what a member sends after it is held back.

**Leaving.** ``Bye`` is a member's last message. A process that has it treats the member as failed there, and no agreement is
needed: it is the same message for all. The leaver says it when everything that it had before its last message is stable: it can
be asked for nothing, and none has to miss what it knew. Then it waits until all have shown that they have it.

**An application that does not read** stops the senders of the group (``Flow.room``). When it has held them up for ``patience``,
the process goes by itself: it leaves as above, without what it had still to send, with a ``Bye`` that says why, and halts.

**Moving** to another formation (:mod:`.formation`): at the delivery of a ``Move`` sending stops, and each member says ``Close``;
at the last Close all that was sent here is delivered, and the formation ends. If a member is removed before, the move is void.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...core.model import ProcessId, Reason, format_duration
from .delivery import RANK_BITS
from .matrix import Column, Multicast
from .packets import Bye, Close, Confirmed, Move, Plan, Refute, Remove, Suspect, Word, weight
from .parameters import LONGEST
from .suspector import Suspector

if TYPE_CHECKING:
    from .part import Part
    from .process import Process

Detection: TypeAlias = tuple[tuple[ProcessId, int], ...]
PENDING: Final = 10_000  # packets of a suspected member that are kept; further ones are asked for again if it turns out to live
PENDING_BYTES: Final = 16 << 20  # bytes of messages in them
DETECTIONS: Final = 256  # detections of others that cannot be taken over yet
LEFT: Final = "left"
NOT_READING: Final = "not reading"
DEPARTED: Final = frozenset({LEFT, NOT_READING})  # members that have said Bye: all have the same of them, none looks for them
UNSETTLED: Final = "unsettled"
REPEAT: Final = 3  # unsettled suspicions are repeated after this many halves of ``suspect_after``: most answers are here by then
GIVE_UP: Final = 4  # a leaver waits for the others' answers for so many times ``suspect_after`` at the most


class Membership:
    """The group view of one group at one process."""

    def __init__(self, process: Process, part: Part) -> None:
        self.process = process
        self.host = process.host
        self.part = part
        self.parameters = process.parameters
        self.suspector = Suspector(self)
        self.suspicions: dict[ProcessId, int] = {}
        self.reasons: dict[ProcessId, Reason] = {}  # why each of them is suspected,
        self.since: dict[ProcessId, int] = {}  # and since when
        self._overheard: dict[tuple[ProcessId, ProcessId], int] = {}  # refuted here: (suspected member, its suspect), block
        self._repeats = False  # the timer for repeating them is set
        self.recorded: dict[ProcessId, dict[ProcessId, int]] = {}  # others' suspicions: of whom, by whom, and its last block
        self.kept: list[tuple[ProcessId, Detection]] = []  # others' detections that cannot be taken over yet
        self.pending: dict[ProcessId, list[Multicast]] = {}
        self._pending_bytes: dict[ProcessId, int] = {}
        self.failed: dict[ProcessId, Reason] = {}  # failed or left, and in the view still
        self.counted = part.order != "total" or self.parameters.same_view  # the view waits for the last Remove, not for the first
        self.votes: dict[ProcessId, frozenset[ProcessId]] = {}  # whom each member's last Remove that was delivered here removes
        self.controls: list[tuple[int, int, ProcessId, Column, Word]] = []  # ordered words that are not delivered yet (a heap)
        self.limit: int | None = None  # causal orders: messages with larger numbers are held back; None: none are
        # Original virtual synchrony: the Removes of each member that have not installed a view. What follows is in the next view.
        self.marks: dict[ProcessId, list[int]] = {}
        self.own_removes: list[int] = []  # causal orders: the blocks of one's own Removes that have not installed a view yet
        self.held_back: list[Column] = []
        self.owes_remove = False
        self.moving: Plan | None = None
        self.said_close = False
        self.closed: dict[ProcessId, None] = {}
        self.before_last = 0  # what there was (flow number) when this process sent its last message
        self.wants_out = False
        self.expelled: Reason | None = None  # it goes because its application does not read
        self._held_up: int | None = None  # since when senders wait for this process's application to read
        self.bye = 0  # the block of one's own Bye; 0: not said
        self.let_go: dict[ProcessId, None] = {}  # who has shown that it has it
        self.origins: tuple[tuple[ProcessId, ...], ...] = ()  # the parts that this formation comes from
        self._absent: set[ProcessId] = set()  # members of them that never came
        self.halted = False  # this process is in a minority, and stops
        self.stopped = ""  # why sending is stopped, as far as that has been written down

    # --- what others know ---------------------------------------------------------------------------------------------

    @property
    def calm(self) -> bool:
        """Nothing is under way."""
        return not (self.suspicions or self.failed or self.moving or self.bye or self.recorded)

    @property
    def survivors(self) -> list[ProcessId]:
        """Whom this process does not hold for failed, itself included."""
        return [member for member in self.part.members if member not in self.failed]

    def may_send(self) -> bool:
        """Whether messages may be sent; writes down when that ends and begins again."""
        if self.part.begun is not None:  # a message that has gone out in part is finished
            return True
        condition = ""
        if self.moving is not None:
            condition = "moving"
        elif self.bye or (self.parameters.same_view and self.failed):
            condition = "leaving" if self.bye else "view change"
        if condition and not self.stopped:
            text = f"{self.host.me} may not send in {self.part.group}: {_STOPS[condition]}"
            reason = Reason(condition, text, {"condition": condition})
            self.host.record("block", self.part.group, reason=reason, condition=condition, situation=f"stopped: {condition}")
        elif self.stopped and not condition:
            self.host.record("unblock", self.part.group, over=True, condition=self.stopped)
        self.stopped = condition
        return not condition

    @property
    def finishes(self) -> bool:
        """Others wait until the message that is under way in part is out: it goes even if they have no room for it."""
        return self.part.begun is not None and (self.owes_remove or self.moving is not None)

    def unfinished(self) -> Reason | None:
        """What has to happen before the group is at rest."""
        group = self.part.group
        if self.suspicions:
            return Reason("suspects", f"{', '.join(self.suspicions)} in {group} is suspected", {"group": group})
        if self.failed:
            text = f"the view of {group} without {', '.join(self.failed)} is not installed yet"
            return Reason("removing", text, {"group": group})
        if self.moving is not None:
            return Reason("moving", f"{group} moves to view {self.moving.number}", {"group": group})
        return Reason("leaving", f"{self.host.me} leaves {group}", {"group": group}) if self.wants_out else None

    def suspect(self, found: Sequence[tuple[Column, dict[str, Any]]], why: str = "silence") -> None:
        """(i), and the second half of (viii)."""
        now, group = self.host.now, self.part.group
        for column, evidence in found:
            process = column.process
            self.suspicions[process] = column.last
            self.since[process] = now
            self.reasons[process] = self._reason(process, column.last, why, evidence)
            situation = "suspects" if len(self.suspicions) == 1 and not self.failed else "suspects several"
            self.host.record("suspect", group, process=process, last=column.last, why=why, situation=situation, **evidence)
        self._say_suspect({column.process: column.last for column, _ in found})
        if why == "mutual":
            self.host.record("state", group, situation="mutual suspicion")

    def _say_suspect(self, suspicions: dict[ProcessId, int]) -> None:
        self.process.say(self.part, Suspect(tuple(suspicions.items())), above=max(suspicions.values()))
        if not self._repeats:
            self._repeats = True
            self.host.set_timer(("repeat", self.part.group), self.host.now + REPEAT * self.parameters.suspect_after // 2)

    def repeat(self) -> None:
        """Suspicions that are not settled yet are said again: a member that suspects this one may have missed them."""
        self._repeats = False
        if not self.suspicions or self.bye or self.halted:
            return
        self._part_from_the_undecided()
        self.host.record("state", self.part.group, suspects=dict(self.suspicions), situation="suspicions repeated")
        self._say_suspect(self.suspicions)

    @property
    def disagreement(self) -> int:
        """How long the others may neither share nor refute a suspicion: the longest omega, ``patience``, and time for repairs."""
        return LONGEST * self.parameters.suspect_after + self.parameters.longest_wait + self.suspector.repair()

    def parts_at(self, since: int) -> int:
        """When members part that have disagreed since then; 0: never, because it would halt them."""
        return 0 if self.parameters.partitions == "majority" else since + self.disagreement

    def _part_from_the_undecided(self) -> None:
        """Suspects members that have neither shared nor refuted a suspicion although they had the time."""
        undecided: dict[ProcessId, ProcessId] = {}
        for process in [process for process, since in self.since.items() if 0 < self.parts_at(since) <= self.host.now]:
            recorded, last = self.recorded.get(process, {}), self.suspicions[process]
            undecided.update({member: process for member in self._others() if recorded.get(member) != last})
        found = [(self.part.matrix.columns[member], {"about": process}) for member, process in undecided.items()]
        if found:
            self.suspect(found, UNSETTLED)

    def _reason(self, process: ProcessId, last: int, why: str, evidence: dict[str, Any]) -> Reason:
        me = self.host.me
        if why == "mutual":
            return Reason("excluded us", f"{process} has excluded {me}", {"last": last, "by": evidence["by"], "suspected_by": me})
        if why == "absent":
            text = f"{process} did not come: it failed on the way"
            return Reason("crashed", text, {"last": last, "suspected_by": evidence["by"]})
        if why == UNSETTLED:
            time = format_duration(self.disagreement)
            text = f"{process} has neither confirmed nor refuted in {time} that {evidence['about']} failed"
        else:
            time = format_duration(evidence["silence"] // 1000 * 1000)
            text = f"{process} has sent nothing for block {evidence['block']} in {time}; its last message had block {last}"
        code = UNSETTLED if why == UNSETTLED else "crashed"
        return Reason(code, text, {"last": last, "suspected_by": me, **evidence})

    def is_pending(self, source: ProcessId, packet: Multicast) -> bool:
        """Keeps what a suspected member sends."""
        if source not in self.suspicions:
            return False
        pending = self.pending.setdefault(source, [])
        held = self._pending_bytes.get(source, 0) if pending else 0
        if len(pending) < PENDING and held < PENDING_BYTES:
            pending.append(packet)
            self._pending_bytes[source] = held + weight(packet)
        if type(packet) is Word and type(packet.say) is Suspect:
            self.overhear(source, packet.say)
        return True

    def overhear(self, by: ProcessId, say: Suspect) -> None:
        """A suspected member suspects others. It is not taken into account, but refuted where it is wrong: see above."""
        for process, last in say.suspicions:
            column = self._column(process) if process not in self.suspicions and process != self.host.me else None
            if column is None or self._has(column) <= last or self._overheard.get((by, process), -1) >= last:
                continue
            self._overheard[by, process] = last
            self._refute(column, {by: last})

    def heard(self, column: Column, word: Word) -> None:
        """A word has come in sequence."""
        say, by = word.say, column.process
        if by == self.host.me:
            return
        if type(say) is Suspect:
            for process, last in say.suspicions:
                self._record(by, process, last)
        elif type(say) is Refute:
            self._refuted(by, say)
        elif type(say) is Confirmed:
            self._told(column, say)
        elif type(say) is Bye:
            self._departs(column, say)
        elif type(say) is Remove and self.bye and self.host.me in say.failed:
            self.let_go[by] = None

    def _record(self, by: ProcessId, process: ProcessId, last: int) -> None:
        """(ii)"""
        if process == self.host.me:
            self.host.record("state", self.part.group, suspected_by=by, last=last, situation="suspected by another")
            return
        column = self._column(process)
        if column is None or (column.cut is not None and column.cut <= last):
            return
        self.recorded.setdefault(process, {})[by] = last
        self.suspector.shorten()
        self.compare(column)
        if not self.part.open and last == column.last == 0 and process not in self.suspicions:
            self.suspect([(column, {"by": by})], "absent")

    def _column(self, process: ProcessId) -> Column | None:
        """A member's column, or that of one who has left."""
        return next((column for column in self.part.matrix.roster if column.process == process), None)

    def compare(self, column: Column) -> None:
        """(iii): there may be more of the member here than others have who suspect it."""
        last = self._has(column)
        behind = {by: theirs for by, theirs in self.recorded.get(column.process, {}).items() if theirs < last}
        if behind:
            self._refute(column, behind)

    def _has(self, column: Column) -> int:
        """Up to which block this process has what counts of a member."""
        return column.last if column.cut is None else column.cut

    def _refute(self, column: Column, behind: dict[ProcessId, int]) -> None:
        """Tells all that there is more of a member than these have."""
        last, highest = self._has(column), max(behind.values())
        sent = sum([self.process.repair.send_again(self.part, by, column, theirs, last) for by, theirs in behind.items()])
        known = {"process": column.process, "last": highest, "up_to": last, "of": list(behind), "packets": sent}
        self.host.record("refute", self.part.group, **known, situation="refutes")
        self.process.say(self.part, Refute(column.process, highest, last))
        self.erase(column.process, highest)

    def erase(self, process: ProcessId, last: int) -> None:
        """What is recorded of a refuted suspicion is void."""
        left = {by: theirs for by, theirs in self.recorded.get(process, {}).items() if theirs > last}
        if left:
            self.recorded[process] = left
        else:
            self.recorded.pop(process, None)

    def _refuted(self, by: ProcessId, say: Refute) -> None:
        self.erase(say.process, say.last)
        last = self.suspicions.get(say.process)
        if last is None or last > say.last:
            return
        process, part = say.process, self.part
        column = part.matrix.columns[process]
        self.withdraw(process)
        self.host.record("refute", part.group, process=process, last=last, heard=True, by=by, situation="refuted")
        column.announced = max(column.announced, say.up_to)
        self.receive_pending(column)
        if column.gaps():
            self.process.repair.gap(part, column)
        self.process.say(part, Refute(process, last, column.last))

    def withdraw(self, process: ProcessId) -> None:
        """It is not suspected any more, and its time begins anew."""
        del self.suspicions[process], self.since[process], self.reasons[process]
        self.suspector.rearm(process)

    def receive_pending(self, column: Column) -> None:
        """What came meanwhile counts as just received."""
        for packet in sorted(self.pending.pop(column.process, ()), key=lambda packet: packet.block):
            self.process.multicast(self.part, column.process, packet)

    def think(self) -> None:
        """Confirms whatever can be."""
        while self.suspicions and not self.bye and not self.halted and (agreed := self._taken_over() or self._agreed()):
            by, detection = agreed
            self._confirm(detection, by)

    def _agreed(self) -> tuple[ProcessId, Detection] | None:
        """(v)"""
        for process, last in self.suspicions.items():
            recorded = self.recorded.get(process, {})
            if any(recorded.get(member) != last for member in self._others()):
                return None
        return self.host.me, tuple(sorted(self.suspicions.items()))

    def _others(self) -> list[ProcessId]:
        """The other members, without those that are suspected here or have failed."""
        gone = {self.host.me, *self.suspicions, *self.failed}
        return [member for member in self.part.members if member not in gone]

    def _taken_over(self) -> tuple[ProcessId, Detection] | None:
        """(vi)"""
        for by, detection in self.kept:
            if by not in self.suspicions and all(self.suspicions.get(process) == last for process, last in detection):
                return by, detection
        return None

    def _told(self, column: Column, say: Confirmed) -> None:
        """(vi), which is kept until it applies, or (viii)."""
        by = column.process
        if any(process == self.host.me for process, _ in say.detection):
            self.exclude_in_turn(column)
        elif any(self._is_member(process) for process, _ in say.detection):
            self.kept.append((by, tuple(dict(say.detection).items())))
            del self.kept[:-DETECTIONS]
            if any(self.suspicions.get(process) != last for process, last in say.detection):
                self.host.record("state", self.part.group, by=by, situation="keeps a detection")

    def _is_member(self, process: ProcessId) -> bool:
        return process in self.part.matrix.columns and process not in self.failed

    def exclude_in_turn(self, column: Column) -> None:
        """(viii)"""
        if column.process not in self.suspicions and not self.bye:
            self.suspect([(column, {"by": column.process})], "mutual")

    def _confirm(self, detection: Detection, by: ProcessId) -> None:
        """(v) or (vi), and (vii)."""
        part = self.part
        self.process.say(part, Confirmed(detection))
        if self._is_minority(detection):
            return
        cuts = self.cuts(dict(detection))
        asked = min(self.since[process] for process, _ in detection)
        columns = [part.matrix.columns[process] for process, _ in detection]
        discarded: list[tuple[ProcessId, int, int]] = []
        for column in columns:
            for packet in column.end(cuts[column.process]):
                if packet.batch.count or not packet.batch.total:
                    discarded.append((packet.sender or column.process, packet.batch.first, packet.batch.count))
            self._forget(column.process)
        known: dict[str, Any] = {"detection": dict(detection), "cut": cuts, "by": by, "discarded": discarded}
        situation = "confirms" if by == self.host.me else "takes a detection over"
        self.host.record("confirm", part.group, **known, suspected_for=self.host.now - asked, situation=situation)
        if self.failed:
            self.host.record("state", part.group, situation="cascade")
        for process, _ in detection:
            self.failed[process] = self.reasons.pop(process)
        self.kept = [(one, other) for one, other in self.kept if any(self._is_member(process) for process, _ in other)]
        part.others = tuple(one for one in part.others if one not in self.failed or self.failed[one].code in DEPARTED)
        self.process.delivery.ended(part, columns)
        self._remove()

    def _forget(self, process: ProcessId) -> None:
        """It has failed: what it suspected, and what was pending, is void."""
        del self.suspicions[process], self.since[process]
        self.suspector.disturbed()
        self.pending.pop(process, None)
        self.recorded.pop(process, None)
        self._unrecord(process)

    def _unrecord(self, by: ProcessId) -> None:
        """What a member suspected or detected that is gone is void."""
        self.kept = [(one, detection) for one, detection in self.kept if one != by]
        left = {process: {one: last for one, last in held.items() if one != by} for process, held in self.recorded.items()}
        self.recorded = {process: held for process, held in left.items() if held}

    def cuts(self, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
        """Up to where what each of them sent counts."""
        least = min(detection.values())
        if self.part.order == "total":
            return dict.fromkeys(detection, least)
        if self.part.order == "slow":
            return {process: min(last, least + 1) for process, last in detection.items()}
        cuts, before = dict(detection), dict[ProcessId, int]()
        vectors = self.process.delivery.vectors[self.part.kind]
        while cuts != before:
            before = dict(cuts)
            for process, cut in before.items():
                for packet in self.part.matrix.columns[process].queue:
                    needs = vectors.within(self.part, packet) if packet.block <= cut else ()
                    if any(
                        column.process in cuts and vectors.is_beyond(column, last, cuts[column.process]) for column, last in needs
                    ):
                        cuts[process] = packet.block - 1
                        break
        return cuts

    def _is_minority(self, detection: Detection) -> bool:
        """Whether this part may not go on (``partitions = "majority"``)."""
        if self.parameters.partitions != "majority":
            return False
        departed = {member for member, reason in self.failed.items() if reason.code in DEPARTED}
        members = [member for member in self.part.members if member not in departed]
        gone = {process for process, _ in detection} | self.failed.keys()
        stays = [member for member in members if member not in gone]
        self._absent.update(process for process, last in detection if last == 0)
        if is_majority(stays, members):
            behind = self.left_behind()
            if behind is None:
                return False
            stays, members = behind
        text = f"{self.host.me} is with {len(stays)} of the {len(members)} members of {self.part.group}: not a majority"
        self.halted = True
        self.host.halt(Reason("minority", text, {"with": stays, "members": list(members)}))
        return True

    def left_behind(self) -> tuple[list[ProcessId], list[ProcessId]] | None:
        """Those that have come, and all that should have, of a part whose majority may have stayed where it was; None: of no part
        it can. (a and b move to a formation with c. b comes, a does not get b's Close, loses b, and goes on alone: then b and c
        must not go on, although they are two of three.)"""
        for origin in self.origins:
            came = [member for member in origin if member not in self._absent]
            if not is_majority(came, origin):
                return came, list(origin)
        return None

    def _remove(self) -> None:
        """(vii), at the end; for original virtual synchrony not in the middle of a message."""
        self.owes_remove = True
        self.say_what_is_owed()

    def say_what_is_owed(self) -> None:
        """Says Remove, and Close, which is one's last message here, when no message is under way in part."""
        whole = self.part.begun is None
        if self.owes_remove and (whole or not self.parameters.same_view):
            self._say_remove()
        if whole and self.moving is not None and not self.said_close:
            self.said_close = True
            self.process.say(self.part, Close(self.moving.form))

    def _say_remove(self) -> None:
        self.owes_remove = False
        block = self.process.say(self.part, Remove(tuple(sorted(self.failed))))
        self.host.record("remove", self.part.group, failed=sorted(self.failed), block=block)
        if self.part.order != "total" and not self.parameters.same_view:
            self.own_removes.append(block)
            self.limit = block if self.limit is None else self.limit

    def arrived(self, column: Column, word: Word, emitter_hash: int) -> None:
        """An ordered word is here and waits for its place."""
        if self.parameters.same_view and type(word.say) is Remove:
            self.marks.setdefault(column.process, []).append(word.block)
        heappush(self.controls, (word.block, emitter_hash, column.process, column, word))

    def next_control(self) -> tuple[Column, Word] | None:
        """The next ordered word, if its block is complete and delivered in this group; lets what was held back of that go."""
        if not self.controls:
            return None
        block = self.controls[0][0]
        if self.part.matrix.complete < block:
            return None
        if self.limit is not None and self.limit < block:
            self.limit = block
            self.let_through()
        return heappop(self.controls)[3:] if self.part.matrix.settled() >= block else None

    def holds(self, column: Column, block: int) -> bool:
        """Whether a message of a causal order may have to come after a view that is not installed yet."""
        if self.limit is not None and block > self.limit:
            return True
        marks = self.marks.get(column.process)
        return marks is not None and block > marks[0]

    def let_through(self) -> None:
        """What was held back is looked at again."""
        self.process.delivery.candidates.extend((self.part, column) for column in self.held_back)
        self.held_back = []

    def deliver(self, column: Column, word: Word) -> None:
        """An ordered word has its turn: after all messages of its block."""
        say = word.say
        if column.cut is not None and word.block > column.cut:
            return
        if type(say) is Remove:
            self.removed(column.process, say, word.block)
        elif type(say) is Move:
            self._moved(say.plan)
        elif type(say) is Close and self.moving is not None and say.plan == self.moving.form:
            self.closed[column.process] = None
        self._end_if_all_closed()

    def removed(self, by: ProcessId, say: Remove, block: int) -> None:
        """(ix), with 6.4."""
        if self.is_beyond_bye(block):
            return
        if self.counted:
            self.votes[by] = frozenset(say.failed)
        if (self.counted and not self._is_last(self.votes[by], block)) or self.host.me in say.failed:
            return
        # The first one removes whoever else is virtual up to its block: nobody who agrees on that has delivered anything so
        # far on, and who does not must not install the same view.
        failed = [member for member in self.part.members if member in self.failed]
        gone = [one for one in failed if (one in say.failed if self.counted else self._is_virtual(one, block))]
        self.marks = {one: left for one, marks in self.marks.items() if (left := [mark for mark in marks if mark > block])}
        self.own_removes = [own for own in self.own_removes if own > block]
        self.install(gone, (block + 1 << RANK_BITS) - 1 if self.part.order == "total" else None)

    def is_beyond_bye(self, block: int) -> bool:
        """Whether this process has left before a block. It is in no view that begins after its Bye, so that it must not install
        one: with itself in it, that would be another view than the one that those who stay install with the same number."""
        return 0 < self.bye < block

    def _is_last(self, vote: frozenset[ProcessId], block: int) -> bool:
        """Whether with this Remove all that stay have said the same, and none of them is virtual here (else one follows)."""
        members = self.part.members
        stay = [member for member in members if member not in vote]
        if any(self._is_virtual(member, block) for member in stay):
            return False
        return all(self.votes.get(member, frozenset()).intersection(members) == vote.intersection(members) for member in stay)

    def _is_virtual(self, member: ProcessId, block: int) -> bool:
        """It has failed here, and has only virtual messages up to this block."""
        return member in self.failed and (self.part.matrix.columns[member].cut or 0) < block

    def install(self, gone: Sequence[ProcessId], rank: int | None) -> None:
        if not gone:
            return
        self.votes.clear()
        reasons = {process: self.failed.pop(process) for process in gone}
        if self.limit is not None:
            self.limit = self.next_limit()
        if self.held_back:
            self.let_through()
        if self.moving is not None and self.moving.name:
            self._stay()
        self.process.install_smaller(self.part, reasons, rank)

    def next_limit(self) -> int | None:
        """What to hold back after a view: whatever is above the *first* own Remove that comes after it. (With the last one, a
        member that has said two more of them delivers before the next view what others deliver after it.)"""
        return self.own_removes[0] if self.failed and self.own_removes else None

    # --- leaving ------------------------------------------------------------------------------------------------------

    def notice_readers(self) -> None:
        """Senders wait for this process's application, or no longer do."""
        waits = self.part.flow.full and bool(self.part.wanted_by or self.part.blocked == "room")
        if waits and self._held_up is None:
            self._held_up = self.host.now
            self.host.set_timer(("reading", self.part.group), self.host.now + self.parameters.longest_wait)
        elif not waits and self._held_up is not None:
            self._held_up = None
            self.host.cancel_timer(("reading", self.part.group))

    def expel_oneself(self) -> None:
        """Senders have waited for this process's application for ``patience``."""
        if self._held_up is None or self.bye:
            return
        self.expelled = not_reading(self.host.me, self.host.now - self._held_up)
        self.wants_out = True
        self.host.record("state", self.part.group, **self.expelled.to_detail(), situation="does not read")

    def _departs(self, column: Column, bye: Bye) -> None:
        """A member has said Bye."""
        process, group = column.process, self.part.group
        self._unrecord(process)
        reason = Reason(LEFT, f"{process} has left {group}", {"last": column.last})
        self.failed[process] = not_reading(process, bye.held_up) if bye.held_up else reason
        self.host.record("bye", group, process=process, situation="member leaves")
        self.process.raise_counter(self.part, column.last)
        column.end(column.last)
        self.process.delivery.ended(self.part, [column])
        if not self.bye:
            self._remove()
        self.let_go[process] = None

    def go_on_leaving(self) -> None:
        """The next step on the way out, if it can be made now."""
        part = self.part
        if not self.bye:
            part.flow.refresh()
            unsent = (part.ready or part.begun) and self.expelled is None
            if unsent or self.moving is not None or not part.open or part.me.stable < self.before_last:
                return
            held_up = self.expelled.evidence["held_up_ns"] if self.expelled is not None else 0
            self.bye = self.process.say(part, Bye(held_up))
            omega = max(self.parameters.suspect_after, self.suspector.learned)
            self.host.set_timer(("leave", part.group), self.host.now + GIVE_UP * omega)
        if all(member in self.let_go or member in self.failed for member in part.members if member != self.host.me):
            self.process.gone(part)

    # --- moving -------------------------------------------------------------------------------------------------------

    def _moved(self, plan: Plan) -> None:
        """The first plan that is delivered counts; it has everybody who is in the view."""
        part = self.part
        lacks_a_member = bool(plan.name) and not set(part.members) <= set(plan.members)
        if self.moving is not None or self.bye or plan.number <= part.number or lacks_a_member:
            return
        self.moving = plan
        known = {"form": plan.form, "number": plan.number, "members": list(plan.members)}
        situation = "move during a view change" if self.failed or self.suspicions else "moves"
        self.host.record("form", part.group, stage="move", **known, situation=situation)
        self.say_what_is_owed()

    def _stay(self) -> None:
        """Members are gone on the way to a formation and may have delivered something else: the move is void for the rest."""
        assert self.moving is not None
        self.host.record("form", self.part.group, stage="gave up", form=self.moving.form, situation="move given up")
        self.skip_numbers_of(self.moving)
        self.moving, self.said_close = None, False
        self.closed.clear()
        self.process.formations.stays(self.part.group)

    def skip_numbers_of(self, plan: Plan) -> None:
        """Another member may have gone there before it was lost, and have installed views."""
        self.part.reach = max(self.part.reach, plan.number + len(plan.members))

    def _end_if_all_closed(self) -> None:
        if self.moving is not None and all(member in self.closed for member in self.part.members):
            self.process.formations.finish(self.part, self.moving)


def is_majority(some: Sequence[ProcessId], members: Sequence[ProcessId]) -> bool:
    """More than half of the members, or half of them with the first."""
    return 2 * len(some) > len(members) or (2 * len(some) == len(members) and members[0] in some)


def not_reading(process: ProcessId, held_up: int) -> Reason:
    """Why a member cannot stay whose application does not read."""
    text = f"the application of {process} has not read what it was given and held the group up for {held_up // 1_000_000} ms"
    return Reason(NOT_READING, text, {"held_up_ns": held_up})


_STOPS: Final = {
    "moving": "the group moves to a new formation",
    "leaving": "it leaves",
    "view change": "members have failed, and the view without them is not installed yet",
}
