"""The decision of the first protocol, which tolerates crashes (3.3.1): the first receiver that comes decides, by the a-flag.

The loop is timed: each copy has a slot of ``decide``, and after a copy that was found dead everything is later by
``times.extra``, so that nobody overtakes who has found it alive (see ``times``)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...core.memory import FAILED, Copy, Request, Until
from .box import Box, changed, find
from .message import Message


def decide(box: Box, batch: list[Message], start: int) -> Generator[Request, Any, None]:
    """Decides on messages together, in every copy from ``start`` on."""

    def settle(copy: Copy) -> None:
        for message in batch:
            entry = find(copy, message.slot, message.key)
            if entry is None:
                continue
            if entry.removed:
                if message.verdict is None and not entry.decision:
                    _reject(message)
            elif entry.decision is None:
                if message.verdict is None:
                    message.verdict = entry.available
                copy.put(message.slot, changed(entry, decision=message.verdict))
            elif message.verdict is None:
                message.verdict = entry.decision

    end = box.clock
    for copy in range(start, box.copies):
        result = yield box.decide(copy, settle)
        end += box.parameters.decide
        if result is FAILED:
            end += box.times.extra
        for message in batch:
            message.follow(copy)
        yield Until(end)


def _reject(message: Message) -> None:
    """A message was withdrawn, or barred before it was written: its sender may not have removed it from the next copies yet."""
    message.verdict = False
