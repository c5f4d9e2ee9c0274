"""Properties of a trace that is still growing: what can be said before the end, as soon as it can be said.

:class:`Growing` takes the facts of one run, in any order and any portions. The facts of a history count in the order of their
index; a fact that comes early waits. Each property has a check (``growing`` of each family) with a method for each kind of event.
A check says *violated* only if the reference check says so of every way in which the run can continue. What depends on the future
is a *condition* (``identical`` speaks of processes that do not crash), and a violation whose condition fails later is withdrawn.
What only the end decides is *open* (``catalogue``).

**Rounds.** A reader follows the spools of all processes in turn; in one round it may see a delivery and not yet the send. What
was on disk when a round ended is read in the next one, so a check that must know that something did *not* happen waits for two
ends of rounds (:meth:`Growing.tick`).

**Memory is bounded.** Of a message that all members have passed only intervals of numbers are kept. Its letter (send, deliveries,
digest) is forgotten beyond the last few thousand, and the oldest letters go when there are too many. A fact about a forgotten
message is counted as ``late``: only the end decides about it. Views, pairs of views and signatures are kept up to a limit. The
state is a Python object that can be pickled, for the stream (``lab.watch.stream``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from ...trace.fact import Fact
from ...trace.properties import BLOCK_PROPERTIES, PROPERTIES
from .catalogue import CATALOGUE
from .delivery.growing import Integrity, Unanimity
from .facts import TAKES_PART, Message, View, detail_of, is_timing_fault
from .growth import Condition, Delivery, Finding, History, Installed, Intervals, Letter, RunState, Sent, ViewId
from .order.growing import Fifo, Orders
from .timing.growing import Bounded, Deadline
from .timing.progress_growing import Progress
from .views.growing import DisjointViews, SameView, SenderInView, ViewAtomicity, ViewOrder


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How much is remembered of a run."""

    kept: int = 5_000  # letters that are kept even if all members are past them
    most: int = 200_000  # letters that are kept if a member is not; then the oldest are forgotten
    early: int = 200_000  # facts that wait for those that precede them in their histories


class Growing(RunState):
    """A run and its checkers.

    >>> from plainchant.trace.fact import Fact
    >>> run = Growing("r0")
    >>> run.feed([Fact("r0", "p", 0, "view", 0, "g", 1, members=("p",)), Fact("r0", "p", 1, "send", 1, "g", 1, "p", 1)])
    >>> run.feed([Fact("r0", "p", index, "deliver", index, "g", 1, "p", 1) for index in (2, 3)])
    >>> [finding.sentence for finding in run.findings()]
    ['p delivers message 1 of p in g twice']
    """

    def __init__(self, name: str, limits: Limits | None = None) -> None:
        super().__init__(name)
        self.limits = limits or Limits()
        self.events = 0
        self.time = 0  # the latest time of any event
        self.early = 0  # facts that wait for those that precede them
        self.promises: list[str] | None = None
        self.blocks: set[str] = set()  # properties of the building blocks that the run has rows of
        self._view_ids: dict[tuple[str, int, frozenset[str]], ViewId] = {}
        self._forgotten: dict[tuple[str, str], int] = {}  # of each group and sender, the highest number that was forgotten
        self._integrity = Integrity()
        self._unanimity = Unanimity()
        self._orders = Orders()
        self._fifo = Fifo()
        self._view_order = ViewOrder()
        self._atomicity = ViewAtomicity()
        self._sender_in_view = SenderInView()
        self._same_view = SameView()
        self._disjoint = DisjointViews()
        self._deadline = Deadline()
        self._bounded = Bounded()
        self._progress = Progress()

    def feed(self, facts: Iterable[Fact]) -> None:
        """Takes facts of this run, in any order; those that it has already are ignored."""
        for fact in facts:
            history = self.histories.get(fact.process)
            if history is None:
                history = self.histories[fact.process] = History(fact.process)
            if fact.index > history.expected:
                if self.early < self.limits.early and fact.index not in history.early:
                    history.early[fact.index] = fact
                    self.early += 1
                continue
            following: Fact | None = fact
            while following is not None and not history.final and following.index + following.count > history.expected:
                # One that comes again may go on farther than before: a reader that starts anew joins other rows to it.
                again = following.index < history.expected
                self._apply(history, following.starting_at(history.expected) if again else following)
                if again:
                    self._drop_passed(history)
                following = history.early.pop(history.expected, None)
                self.early -= following is not None

    def _drop_passed(self, history: History) -> None:
        """Forgets early facts that are not early any more; of one that goes on, the rest is what is next."""
        for index in sorted(index for index in history.early if index < history.expected):
            fact = history.early.pop(index)
            self.early -= 1
            if fact.index + fact.count > history.expected:
                self._apply(history, fact.starting_at(history.expected))

    def tick(self) -> None:
        """A round of reading is over."""
        self.round += 1
        self._fifo.tick(self)
        self._deadline.tick(self)
        self._progress.tick(self)
        self._forget()

    def finish(self) -> None:
        """No more facts come: whatever waited for later rounds is judged, and histories without an end have crashed."""
        self._fifo.tick(self, over=True)
        self._deadline.tick(self, over=True)
        self._progress.tick(self, over=True)
        for history in self.histories.values():
            history.crashed = history.crashed or history.is_cut

    def _apply(self, history: History, fact: Fact) -> None:
        history.expected = fact.index + fact.count
        history.time, history.true_time = fact.time, fact.true_time
        self.events += fact.count
        self.time = max(self.time, fact.time)
        kind = fact.kind
        if kind in TAKES_PART:
            history.taking_part = True
        if kind not in ("deliver", "send"):
            self._progress.saw(self, fact)
        if kind == "deliver":
            self._deliver(history, fact)
        elif kind == "send":
            self._send(history, fact)
        elif kind == "view":
            self._view(history, fact)
        elif kind == "join" and fact.group is not None:
            history.member[fact.group] = True
            self._declare(fact.group)
            self._name(fact.group, history.name)
        elif kind == "leave" and fact.group is not None:
            self._leave(history, fact)
        elif kind == "token":
            self._bounded.token(self, fact)
        elif kind in ("reject", "sent"):
            self._about_message(history, fact)
        elif kind == "start":
            self._start(detail_of(fact.detail))
        elif kind == "note" and isinstance(about := detail_of(fact.detail).get("note"), str):
            # A row of a building block: its properties are checked, too, at the end.
            self.blocks.update(name for name, of in BLOCK_PROPERTIES.items() if of in (None, about))
        elif kind == "fault":
            history.untimely = history.untimely or is_timing_fault(detail_of(fact.detail))
        elif kind in ("crash", "end"):
            history.crashed, history.ended = kind == "crash", kind == "end"
            self.early -= len(history.early)
            history.early.clear()
            self._integrity.final(self, history)

    def _start(self, detail: dict[str, Any]) -> None:
        self._progress.stated(detail)
        if isinstance(detail.get("promises"), list):
            before = self.promises or []
            self.promises = before + [name for name in detail["promises"] if name not in before]
        if isinstance(detail.get("bounds"), dict):
            self.bounds.update(detail["bounds"])
            self._bounded.stated(self)

    def _send(self, history: History, fact: Fact) -> None:
        group, first = fact.group, fact.seq
        if group is None or first is None:
            return
        view = history.in_force.get(group)
        for offset in range(fact.count):
            index = fact.index + offset
            self._progress.sent(self, fact, (group, history.name, first + offset), index)
            letter = self._letter((group, history.name, first + offset))
            if letter is None:
                continue
            letter.sent = Sent(index, view, fact.time, fact.true_time, fact.deadline, fact.size)
            if fact.digests is not None:
                self._integrity.content(self, letter, history.name, index, fact.time, fact.digests[offset])
            self._bounded.sent(self, fact, letter.message, index, fact.size)
            self._deadline.sent(self, letter)
            for process, delivery in letter.delivered.items():
                self._same_view.delivered(self, process, letter, delivery)
                self._deadline.delivered(self, process, letter, delivery)
        history.sent[group] = max(history.sent.get(group, 0), first + fact.count - 1)

    def _deliver(self, history: History, fact: Fact) -> None:
        group, sender, first = fact.group, fact.sender, fact.seq
        if group is None or sender is None or first is None:
            return
        numbers = history.delivered.setdefault((group, sender), Intervals())
        view = history.in_force.get(group)
        for offset in range(fact.count):
            message, index = (group, sender, first + offset), fact.index + offset
            highest = numbers.highest
            again = not numbers.add(first + offset)
            self._integrity.delivered(self, history, message, index, fact.time, again=again)
            letter = self._letter(message)
            if letter is not None and fact.digests is not None:
                self._integrity.content(self, letter, history.name, index, fact.time, fact.digests[offset])
            if again:
                continue
            self._progress.delivered(self, fact, message, index)
            delivery = Delivery(index, view, fact.time, fact.true_time, fact.deadline)
            self._fifo.delivered(self, history, message, index, fact.time, highest)
            self._atomicity.delivered(history, message)
            self._sender_in_view.delivered(self, history, message, delivery)
            self._bounded.delivered(self, fact, message, index)
            if letter is not None:
                self._orders.delivered(self, history, letter, delivery)
                self._unanimity.delivered(self, history, letter, delivery)
                self._same_view.delivered(self, history.name, letter, delivery)
                self._deadline.delivered(self, history.name, letter, delivery)
                letter.delivered[history.name] = delivery

    def _view(self, history: History, fact: Fact) -> None:
        group, number = fact.group, fact.view
        if group is None or number is None:
            return
        members = frozenset(fact.members or ())
        stay = len(history.leaves.get(group, ()))
        new = Installed(self._view_id(group, number, members), fact.index, stay, fact.time, fact.true_time)
        installations = history.views.setdefault(group, [])
        before = installations[-1] if installations and installations[-1].stay == new.stay else None
        self._view_order.installed(self, history, new, before)
        self._atomicity.installed(self, history, new, before)
        self._disjoint.installed(self, history, new, fact)
        installations.append(new)
        history.installed.setdefault(new.view, new.index)
        history.in_force[group] = new.view
        self._bounded.broken(history.name, group)
        if history.name in members:
            history.member[group] = True
        self._declare(group)
        for process in sorted(members):
            self._name(group, process)

    def _view_id(self, group: str, number: int, members: frozenset[str]) -> ViewId:
        key = (group, number, members)
        if key not in self._view_ids:
            self._view_ids[key] = len(self.views)
            self.views.append(View(group, number, members))
        return self._view_ids[key]

    def _leave(self, history: History, fact: Fact) -> None:
        assert fact.group is not None
        history.in_force.pop(fact.group, None)
        history.member[fact.group] = False
        history.leaves.setdefault(fact.group, []).append(fact.index)
        self._atomicity.left(history, fact.group)
        self._bounded.broken(history.name, fact.group)
        undeclared = {group for group, _ in history.delivered} - history.member.keys()
        history.taking_part = bool(undeclared) or any(history.member.values())

    def _about_message(self, history: History, fact: Fact) -> None:
        """A ``reject``, or the ``sent`` of a message of its own."""
        if fact.group is None or fact.sender is None or fact.seq is None:
            return
        message = (fact.group, fact.sender, fact.seq)
        if fact.kind == "sent":
            known = self.letters.get(message)
            if fact.sender == history.name:
                size = known.sent.size if known is not None and known.sent is not None else None
                self._bounded.sent(self, fact, message, fact.index, size)
            return
        letter = self._letter(message)
        if letter is not None:
            self._unanimity.rejected(self, history, letter, fact.index, fact.time)

    def _declare(self, group: str) -> None:
        if group not in self.declared:
            self.declared.add(group)
            self._integrity.declared(self, group)

    def _name(self, group: str, process: str) -> None:
        if (group, process) not in self.named:
            self.named.add((group, process))
            self._sender_in_view.named(self, group, process)

    def _letter(self, message: Message) -> Letter | None:
        """What is known of a message; None if it was forgotten."""
        letter = self.letters.get(message)
        if letter is None:
            if message[2] <= self._forgotten.get(message[:2], 0):
                self.late += 1
                return None
            letter = self.letters[message] = Letter(message)
        return letter

    def _forget(self) -> None:
        """Forgets letters that all members have passed, and the oldest if there are too many."""
        excess = len(self.letters) - self.limits.kept
        if excess <= 0:
            return
        gone: list[Message] = []
        for message, letter in self.letters.items():
            if len(gone) >= excess:
                break
            members = (each for each in self.histories.values() if each.member.get(message[0]) and not each.final)
            if letter.sent is not None and all(member.has_passed(message) for member in members):
                gone.append(message)
        too_many = len(self.letters) - len(gone) - self.limits.most
        if too_many > 0:
            passed = set(gone)
            oldest = [message for message in self.letters if message not in passed][:too_many]
            self.late += len(oldest)
            gone += oldest
        for message in gone:
            del self.letters[message]
            key = message[:2]
            self._forgotten[key] = max(self._forgotten.get(key, 0), message[2])

    def _holds(self, condition: Condition) -> bool:
        history = self.histories.get(condition.process)
        if history is None:
            return False
        progress = {"clock": condition.process in self._progress.clockless, "untaken": condition[1:] in self._progress.unordered}
        came_true = {"crash": history.crashed, "timing": history.untimely, "leave": condition.group in history.leaves, **progress}
        return came_true[condition.kind]

    def findings(self) -> list[Finding]:
        """Violations that stand, those of promised properties only if anything is promised, the earliest first."""
        names = set(self.names())
        return [finding for finding in self.book.standing(self._holds)[1] if finding.property in names]

    def names(self) -> list[str]:
        """The properties that this run is held to: what it promises and what its building blocks do, else all."""
        return [name for name in PROPERTIES if self.promises is None or name in self.promises or name in self.blocks]

    def to_json(self) -> dict[str, Any]:
        """The verdict so far, for people and pages."""
        counts, findings = self.book.standing(self._holds)
        withdrawn = self.book.withdrawn(self._holds)[1]
        names = self.names()
        properties = {}
        for name in names:
            cases, violations = self.book.cases.get(name, 0), counts.get(name, 0)
            state = "violated" if violations else "open" if CATALOGUE[name].growing is None else "holds" if cases else "nothing"
            if self.promises is not None or cases or violations:
                properties[name] = {"state": state, "cases": cases, "violations": violations, "open": CATALOGUE[name].open}
        return {
            "run": self.name,
            "events": self.events,
            "time": self.time,
            "over": bool(self.histories) and all(not h.is_cut for h in self.histories.values()),
            "promised": self.promises is not None,
            "properties": properties,
            "violations": [finding.to_json() for finding in findings if finding.property in names],
            "withdrawn": [finding.to_json() for finding in withdrawn if finding.property in names],
            "waiting": self._fifo.waiting + self.early,
            "late": self.late,
            "letters": len(self.letters),
        }
