"""What is told about runs of ``newtop``: the blocks that had to be complete before a delivery.

Theory of operation
-------------------
A message in total order is delivered when its block is complete in every group of the process, at its sender too; one in slow
order when the blocks before it are. A block is complete when every member has sent something with its number or a larger one:
``null`` rows have the number of the block, and a delivery's rank has it in its upper bits. So the rows tell which member was the
last to send for a block. They do not tell when that arrived, but ``ask`` and ``retransmit`` rows tell what was missing and was
retransmitted to which process.

The last member to send is named only where it is certain: one clock, all rows, and every group of the process in total order
without a sequencer (messages in other orders have no rank). What was retransmitted last is only the probable cause.
"""

from __future__ import annotations

from typing import Any

from ...core.words import listed, whole
from ..story import Event, Run, Story
from .delivery import RANK_BITS


class NewtopStory(Story):
    """The story of a run of ``newtop``."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._known_nulls: dict[tuple[str, str], list[Event]] = {}

    def place(self, event: Event) -> str:
        return f", in block {event.rank >> RANK_BITS}" if event.rank is not None else ""

    def waited(self, event: Event, since: int) -> str | None:
        order = self._order_of(event.group or "")
        if order not in ("total", "slow"):
            return None
        groups = self._groups(event)
        everywhere = f"in every group of {event.process} ({listed(groups)})" if len(groups) > 1 else f"at {event.process}"
        if event.rank is None:
            told = f"in {order} order all blocks before its own had to be complete {everywhere}"
            return told + self._sent_again(event, since, since, groups)
        block = event.rank >> RANK_BITS
        told = f"its block {block} had to be complete {everywhere}"
        last = self._last_for(event, block, groups)
        if last is None:
            return told + self._sent_again(event, since, since, groups)
        who = f"{last.process} itself" if last.process == event.process else last.process
        what = f"a null message in {last.group}" if last.kind == "null" else last.name
        told += f", and the last to send for it was {who} ({what} at {self.run.moment(last.when)})"
        return told + self._sent_again(event, since, max(since, last.when), groups)

    def _order_of(self, group: str) -> str:
        parameters = self.run.parameters
        orders: Any = parameters.get("orders")
        return str((orders if isinstance(orders, dict) else {}).get(group, parameters.get("order", "total")))

    def _groups(self, event: Event) -> dict[str, tuple[str, ...]]:
        """The groups of the process at that moment, and their members."""
        found = self.run.find("view", process=event.process)
        return {row.group: row.members for row in found if row.group is not None and row.at < event.at}

    def _last_for(self, event: Event, block: int, groups: dict[str, tuple[str, ...]]) -> Event | None:
        """The first row that the last member sent for the block; None if that is not certain."""
        sequencers = self.run.parameters.get("sequencers") or {}
        if not (self.run.is_whole and self.run.is_global):
            return None
        if any(self._order_of(group) != "total" or group in sequencers for group in groups):
            return None
        sendings = [self._first_for(block, group, member) for group, members in groups.items() for member in members]
        known = [row for row in sendings if row is not None and row.when <= event.when]
        return max(known, key=lambda row: row.when, default=None) if len(known) == len(sendings) else None

    def _first_for(self, block: int, group: str, member: str) -> Event | None:
        """The first that a member sent in a group with the block's number or a larger one."""
        found = [row for row in self._nulls(group, member) if row.detail["block"] >= block][:1]
        first = self.run.least_seq("deliver", group=group, sender=member, rank=block << RANK_BITS)
        if first is not None:
            found += [row for row in self.run.naming((group, member, first)) if row.kind == "send" and row.process == member]
        return min(found, key=lambda row: row.when, default=None)

    def _nulls(self, group: str, member: str) -> list[Event]:
        """The null messages of a member in a group that have a block, in order."""
        if (group, member) not in self._known_nulls:
            rows = self.run.find("null", process=member, group=group)
            self._known_nulls[group, member] = [row for row in rows if whole(row.detail, "block") is not None]
        return self._known_nulls[group, member]

    def _sent_again(self, event: Event, sent: int, after: int, groups: dict[str, tuple[str, ...]]) -> str:
        """The last retransmission to this process that it had asked for, between ``after`` and the delivery."""
        run = self.run
        if not run.is_global or (not run.is_whole and len(groups) > 1):
            return ""
        asked = run.find("ask", process=event.process, after=sent, until=event.when)
        again = run.find("retransmit", after=after, until=event.when)
        for row in reversed([row for row in again if row.detail.get("to") == event.process and row.group in groups]):
            source = row.detail.get("source")
            before = [
                ask for ask in asked if (ask.group, ask.detail.get("process")) == (row.group, source) and ask.when < row.when
            ]
            if before:
                return (
                    f"; it probably waited for something of {source} in {row.group}, missing here: {event.process} asked at "
                    f"{run.moment(before[-1].when)}, and {row.process} sent it again at {run.moment(row.when)}"
                )
        return ""
