"""Parting and owing: which process has to deliver which message, up to which event.

*q owes m* if q installed the view in force at m's ``send``, and q and the sender did not part since, up to the event that is
judged. A run has no common time, so "up to the event" means what happened before it: of q's own history, what precedes the event;
of the sender's, what precedes the last of its sends that the event can know of, and what precedes a view that q has installed by
then (a process that merges knows that there were parts). With the sender's whole history instead, a sender that drops q from its
view *afterwards* would excuse a hole that q left long before. Judged at ``end``, both histories count whole.

Three points that the definition leaves open:

- *Sender without a view*, or a ``send`` that is not in the trace: q owes m if some process p delivers m in a view that q
  installed, and p and q have not parted. Only a sender with views can part from q: in a partition, q would owe every message of
  an outsider that reached the other part alone. So p stands in for the sender.
- A ``leave`` ends owing: a process that left may not deliver (integrity), so it cannot owe.
- *Group without views*: "sent while it is a member" compares ranks where join, leave and message have one, else the global clock,
  else the processes' own clocks.
"""

from __future__ import annotations

from ...core.model import GroupId, ProcessId
from .causality import Causality
from .facts import Event, History, Message, Run, View


def parted(p: History, q: History, view: View) -> bool:
    """Whether, after both installed the view, one of the two installed a view without the other."""
    return drops(p, q, view) or drops(q, p, view)


def drops(p: History, q: History, view: View) -> bool:
    """Whether p, after it installed the view, installed one without q."""
    return p.first_view_without(view.group, q.name, p.installed[view]) is not None


class Owing:
    """Answers "does q owe m?" for one run. Clocks are computed when first needed."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._causality: dict[GroupId | None, Causality] = {}

    def causality(self, group: GroupId | None = None) -> Causality:
        """Happened-before of the run, or through one group's messages alone."""
        key = None if len(self.run.groups) == 1 else group
        if key not in self._causality:
            self._causality[key] = Causality(self.run, key)
        return self._causality[key]

    def owes(self, q: History, message: Message, at: int | None = None) -> bool:
        """Whether q owes the message up to q's event with index ``at``, or, without it, up to the end."""
        if message[0] not in self.run.viewed:
            return self._owes_as_member(q, message, at)
        send = self.run.sends.get(message)
        if send is not None and send.view is not None:
            return self._stayed_together(q, send, at)
        sender = message[1]
        deliveries = self.run.deliveries_of(message)
        return any(self._stayed_together(q, each, at) and not self._dropped(q, sender, each.view, at) for each in deliveries)

    def starts(self, q: History, message: Message) -> list[int]:
        """The indices after which q can come to owe the message; none if it never does.

        From each on, q can only cease to owe it, so whether q owes it at any of some events is decided at the first event after
        each start."""
        group = message[0]
        if group not in self.run.viewed:
            if group in self.run.joined:
                return [stay.begin for stay in q.stays.get(group, ())]
            return [-1] if self.run.is_ever_member(q, group) else []
        send = self.run.sends.get(message)
        if send is not None and send.view is not None:
            return [q.installed[send.view]] if send.view in q.installed else []
        views = [delivery.view for delivery in self.run.deliveries_of(message) if delivery.view is not None]
        return sorted({q.installed[view] for view in views if view in q.installed})

    def have_parted(self, q: History, sender: ProcessId, view: View, sent: int, at: int) -> bool:
        """Whether q, which installed the view in which ``sender`` sent something, had parted from it, or had left, by q's event
        with index ``at``. Only views and leaves count here, not what q knows of the sender through messages."""
        since = q.installed[view]
        if q.left_since(view.group, since, at):
            return True
        if sender == q.name:
            return False
        left = q.first_view_without(view.group, sender, since)
        if left is not None and left <= at:
            return True
        other = self.run.histories[sender]
        dropped = other.first_view_without(view.group, q.name, sent)
        merged = (other.installed.get(i.view, -1) for i in q.views[view.group] if since < i.index <= at)
        return dropped is not None and dropped < max(merged, default=-1)

    def _stayed_together(self, q: History, event: Event, at: int | None) -> bool:
        """Whether q installed the view in force at another's event and the two did not part since."""
        view = event.view
        since = None if view is None else q.installed.get(view)
        if view is None or since is None or (at is not None and since > at):
            return False
        if self.have_parted(q, event.process, view, event.index, q.last_index if at is None else at):
            return False
        if event.process == q.name:
            return True
        other = self.run.histories[event.process]
        dropped = other.first_view_without(view.group, q.name, event.index)
        if dropped is None or at is None:
            return dropped is None
        known = self.causality().known(q, at)[other.place]  # its sends that q's event can know of
        return dropped > (self.causality().sends[other.place][known - 1].index if known else -1)

    def _dropped(self, q: History, sender: str, view: View | None, at: int | None) -> bool:
        """Whether q, since that view named the sender, has installed one that does not."""
        if view is None or sender not in view.members:
            return False
        left = q.first_view_without(view.group, sender, q.installed[view])
        return left is not None and (at is None or left <= at)

    def _owes_as_member(self, q: History, message: Message, at: int | None) -> bool:
        if message[0] not in self.run.joined:
            has_left = message[0] in q.left and (at is None or q.left[message[0]] <= at)
            return self.run.is_ever_member(q, message[0]) and not has_left
        for stay in q.stays.get(message[0], ()):
            if (at is None or stay.begin <= at) and not q.left_since(message[0], stay.begin, at):
                begins = self._compare(message, stay.begin_row)
                ends = None if stay.end_row is None else self._compare(message, stay.end_row)
                if begins is not None and begins >= 0 and (ends is None or ends < 0):
                    return True
        return False

    def _compare(self, message: Message, row: int) -> int | None:
        """The message's place against a ``join`` or ``leave``: negative before, else after; None if nothing tells."""
        columns = self.run.columns
        for delivery in self.run.deliveries_of(message):
            mine, other = columns.rank[delivery.row], columns.rank[row]
            if mine is not None and other is not None:
                return 1 if mine > other else -1
        send = self.run.sends.get(message)
        if send is None:
            return None
        mine, other = columns.true_time[send.row], columns.true_time[row]
        if mine is None or other is None:
            mine, other = columns.time[send.row], columns.time[row]
        return mine - other
