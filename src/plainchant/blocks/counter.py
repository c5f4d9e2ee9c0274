"""A replicated counter: every member adds, and every addition counts once, also where parts of a group went on alone.

The state has, for each process that ever added, the sum of what it added and the number of its last command in it; the value is
the sum of the sums. Where parts come together, each process's entry comes from the part that has the most of its commands: a
process's commands reach every part in their order, so that part has all that any other has. Nothing is lost and nothing counts
twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.model import ProcessId, UsageError, View
from .block import Block, Command, Part

LARGEST = 2**63  # what is added at once, and the value, are smaller than this


class Counter(Block):
    """A number that every member adds to: ``await counter.add(3)``, ``counter.value``."""

    kind: ClassVar[str] = "counter"

    def __init__(self) -> None:
        super().__init__()
        self._sums: dict[ProcessId, list[int]] = {}  # process to what it added, and its last command in that

    @property
    def value(self) -> int:
        """The value as far as this member has come."""
        return sum(added for added, _ in self._sums.values())

    async def add(self, amount: int = 1, *, timeout: float | None = None) -> int:
        """Adds, and returns the value with it in its place in the order; amounts may be negative."""
        if amount.__class__ is not int or abs(amount) >= LARGEST:
            raise UsageError(f"{amount!r} cannot be added: give a whole number below 2 to the 63rd")
        return int(await self.execute(amount, timeout=timeout))

    async def read(self) -> int:
        """The value with all that was added before this call."""
        await self.replica.catch_up()
        return self.value

    def apply(self, command: Command) -> int:
        entry = self._sums.setdefault(command.sender, [0, 0])
        entry[0] += command.body
        entry[1] = command.number
        return self.value

    def snapshot(self) -> dict[str, list[int]]:
        return {process: list(entry) for process, entry in self._sums.items()}

    def restore(self, snapshot: dict[str, list[int]]) -> None:
        self._sums = snapshot

    def merge(self, parts: Sequence[Part], view: View) -> None:
        merged: dict[ProcessId, list[int]] = {}
        for part in parts:
            for process, entry in part.state.items():
                if process not in merged or entry[1] > merged[process][1]:
                    merged[process] = list(entry)
        self._sums = merged

    def told(self, command: Command | None) -> dict[str, Any]:
        amount = {} if command is None else {"amount": command.body}
        return {"value": self.value, **amount}
