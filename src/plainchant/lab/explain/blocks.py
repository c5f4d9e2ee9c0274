"""What a delivery of the newtop protocol waited for: blocks that had to be complete.

Theory of operation
-------------------
A message in total order is delivered when its block is complete in every group of the process, at its sender too; one in slow
order when the blocks before are. A block is complete when everybody has sent something with its number or a larger one: ``null``
rows have the number of the block, and a delivery's rank has it in its upper part. So the rows tell who sent for a block last.
They do not tell when that arrived, but ``ask`` and ``retransmit`` rows tell of what was missing and was sent again to whom.

Who sent last is only told where it is certain: one clock, all rows, and every group of the process in total order without
a sequencer (messages of other orders bear no rank). That what was sent again last is what was waited for is probable only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .rows import Event, Rows, ints
from .words import listed

RANK_BITS: Final = 24
"""A rank of newtop is the number of a block, and below it so many bits for who sent the message."""


class Blocks:
    """Answers for one run; about a run of another protocol it has nothing to say."""

    def __init__(self, rows: Rows, moment: Callable[[int], str], *, is_whole: bool) -> None:
        self._rows = rows
        self._moment = moment
        self._is_whole = is_whole
        self._known_nulls: dict[tuple[str, str], list[Event]] = {}
        self._has_blocks = rows.protocol() == "newtop"
        self._parameters: dict[str, Any] = rows.parameters() if self._has_blocks else {}

    def number(self, event: Event) -> int | None:
        """The block of a delivery, where its rank tells."""
        return event.rank >> RANK_BITS if self._has_blocks and event.rank is not None else None

    def waited(self, event: Event, sent: int) -> str | None:
        """What a delivery had to wait for, as a clause; None where its order does not wait for blocks."""
        order = self._order_of(event.group or "")
        if not self._has_blocks or order not in ("total", "slow"):
            return None
        groups = self._groups(event)
        everywhere = f"in every group of {event.process} ({listed(groups)})" if len(groups) > 1 else f"at {event.process}"
        block = self.number(event)
        if block is None:
            told = f"in {order} order all blocks before its own had to be complete {everywhere}"
            return told + self._sent_again(event, sent, sent, groups)
        told = f"its block {block} had to be complete {everywhere}"
        last = self._last_for(event, block, groups)
        if last is None:
            return told + self._sent_again(event, sent, sent, groups)
        who = f"{last.process} itself" if last.process == event.process else last.process
        what = f"a null message in {last.group}" if last.kind == "null" else last.name
        told += f", and the last to send for it was {who} ({what} at {self._moment(last.when)})"
        return told + self._sent_again(event, sent, max(sent, last.when), groups)

    def _order_of(self, group: str) -> str:
        orders = self._parameters.get("orders")
        return str((orders if isinstance(orders, dict) else {}).get(group, self._parameters.get("order", "total")))

    def _groups(self, event: Event) -> dict[str, tuple[str, ...]]:
        """The groups of the process at that moment, and their members."""
        found = self._rows.find("view", process=event.process)
        return {row.group: row.members for row in found if row.group is not None and row.at < event.at}

    def _last_for(self, event: Event, block: int, groups: dict[str, tuple[str, ...]]) -> Event | None:
        """What was sent for the block by whoever was the last to do so; None if that is not certain."""
        sequencers = self._parameters.get("sequencers") or {}
        if not (self._is_whole and self._rows.is_global):
            return None
        if any(self._order_of(group) != "total" or group in sequencers for group in groups):
            return None
        sendings = [self._first_for(block, group, member) for group, members in groups.items() for member in members]
        known = [row for row in sendings if row is not None and row.when <= event.when]
        return max(known, key=lambda row: row.when, default=None) if len(known) == len(sendings) else None

    def _first_for(self, block: int, group: str, member: str) -> Event | None:
        """The first that a member sent in a group with the block's number or a larger one."""
        rows = self._rows
        found = [row for row in self._nulls(group, member) if row.detail["block"] >= block][:1]
        numbered = rows.mask("deliver", group=group, sender=member) & (rows.rank >= block << RANK_BITS)
        if numbered.any():
            first = rows.seq == int(rows.seq[numbered].min())
            found += rows.events(np.flatnonzero(rows.mask("send", process=member, group=group) & first))
        return min(found, key=lambda row: row.when, default=None)

    def _nulls(self, group: str, member: str) -> list[Event]:
        """The null messages of a member in a group that have a block, in order."""
        if (group, member) not in self._known_nulls:
            rows = self._rows.find("null", process=member, group=group)
            self._known_nulls[group, member] = [row for row in rows if ints([row.detail.get("block")])]
        return self._known_nulls[group, member]

    def _sent_again(self, event: Event, sent: int, after: int, groups: dict[str, tuple[str, ...]]) -> str:
        """The last that was sent again to this process, after it had asked, between ``after`` and the delivery."""
        if not self._rows.is_global or (not self._is_whole and len(groups) > 1):
            return ""
        asked = self._rows.find("ask", process=event.process, after=sent, until=event.when)
        again = [
            row
            for row in self._rows.find("retransmit", after=after, until=event.when)
            if row.detail.get("to") == event.process and row.group in groups
        ]
        for row in reversed(again):
            source = row.detail.get("source")
            before = [
                ask for ask in asked if ask.group == row.group and ask.detail.get("process") == source and ask.when < row.when
            ]
            if before:
                return (
                    f"; it probably waited for something of {source} in {row.group}, missing here: {event.process} asked at "
                    f"{self._moment(before[-1].when)}, and {row.process} sent it again at {self._moment(row.when)}"
                )
        return ""
