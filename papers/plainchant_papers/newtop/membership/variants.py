"""The engine with one rule of chapter 6 taken out or replaced: what claims are compared with. None of these is for use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from plainchant.core.engine import Engine, Host
from plainchant.core.model import GroupId, ProcessId
from plainchant.protocols.newtop import Parameters, Process
from plainchant.protocols.newtop.flow import Flow
from plainchant.protocols.newtop.membership import Membership
from plainchant.protocols.newtop.part import Part

Make = Callable[[Host, Any], Engine]


class _EachItsOwn(Membership):
    def cuts(self, detection: dict[ProcessId, int]) -> dict[ProcessId, int]:
        return dict(detection)


class FailedApart(Process):
    """6.3.2 without "failed together": what each of the failed sent counts up to its own last message."""

    def make_membership(self, part: Part) -> Membership:
        return _EachItsOwn(self, part)


class _StopsAtSuspicion(Membership):
    """While anybody is suspected, the view change counts as under way."""

    def may_send(self) -> bool:
        if not self.suspicions or self.failed:
            return super().may_send()
        failed, self.failed = self.failed, dict(self.reasons)
        try:
            return super().may_send()
        finally:
            self.failed = failed


class BlocksOnSuspicion(Process):
    """The rule of [Schiper93c] as 6.4 tells it: sending stops while anybody is suspected, or removed."""

    def make_membership(self, part: Part) -> Membership:
        return _StopsAtSuspicion(self, part)


class CountedSignatures(Process):
    """6.4 as printed: a member's signature is the number of processes that were excluded from the first view."""

    def __init__(self, host: Host, parameters: Parameters) -> None:
        super().__init__(host, parameters)
        self._first: dict[GroupId, frozenset[ProcessId]] = {}

    def signatures(self, part: Part) -> dict[ProcessId, int]:
        first = self._first.setdefault(part.group, frozenset(part.members))
        return dict.fromkeys(part.members, len(first.difference(part.members)))


class _ForgetsWhatIsComplete(Flow):
    def refresh(self) -> None:
        super().refresh()
        self.matrix.discard(self.mine.complete)


class DiscardsAtCompletion(Process):
    """6.3.1 without stability: what is complete here is forgotten, whoever may still ask for it."""

    def make_part(self, group: GroupId, members: tuple[ProcessId, ...], form: int = 1, number: int = 1) -> Part:
        part = super().make_part(group, members, form, number)
        part.flow = _ForgetsWhatIsComplete(part.matrix, part.me, self.parameters.blocks)
        return part


VARIANTS: Final[Mapping[str, Make]] = {
    "failed apart": FailedApart,
    "blocks on suspicion": BlocksOnSuspicion,
    "counted signatures": CountedSignatures,
    "discards at completion": DiscardsAtCompletion,
}
"""By name: what travels to a task is the name."""


def variant(name: str) -> Make | None:
    """The engine of this name; empty: the protocol's own."""
    return VARIANTS[name] if name else None
