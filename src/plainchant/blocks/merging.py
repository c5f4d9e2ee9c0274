"""Parts of a group that have come together: what is known of their states, and what waits until all are known.

:class:`Merge` is one meeting of parts; the replica keeps a line of them. All of it is the same at every member of the view, and
travels with the state to a process that joins meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..core.model import ProcessId, Reason, View
from ..group import Message


class Merge:
    """Parts that came together in a view, until each has said its state; and what is to be done after that."""

    def __init__(self, view: View, parts: Iterable[Sequence[ProcessId]]) -> None:
        self.view = view
        self.parts = [tuple(part) for part in parts]
        self.said: dict[int, tuple[ProcessId, list[Any]]] = {}  # by place in ``parts``: speaker, states of the blocks
        self.gone: set[int] = set()  # places of parts that are not there any more and have said nothing
        self.held: list[Message | View] = []
        self.spoken = False  # whether this process has spoken for its part

    @property
    def key(self) -> list[Any]:
        """What says which merge is meant."""
        return [self.view.number, list(self.view.members)]

    @property
    def is_complete(self) -> bool:
        return len(self.said) + len(self.gone) == len(self.parts)

    def place_of(self, process: ProcessId) -> int:
        return next(place for place, part in enumerate(self.parts) if process in part)

    def members_of(self, place: int) -> tuple[ProcessId, ...]:
        """Who was in a part when the parts met, without those who are new since."""
        return tuple(member for member in self.parts[place] if member not in self.view.newcomers)

    def leave_out(self, members: Sequence[ProcessId]) -> None:
        """Parts of which nobody is left, and nobody has spoken, are left out."""
        for place, part in enumerate(self.parts):
            if place not in self.said and not any(member in members for member in part):
                self.gone.add(place)


def parts_of(view: View) -> list[list[ProcessId]]:
    """The parts that have a state, in the order of the view. Who is new in it gets that of the first part, and belongs to it."""
    parts = [list(part) for part in view.parts if part[0] not in view.newcomers]
    parts[0] += [member for member in view.members if member in view.newcomers]
    return parts


def _view_out(view: View) -> list[Any]:
    left = [[name, reason.code, reason.text] for name, reason in view.left.items()]
    return [view.number, list(view.members), list(view.joined), left, [list(part) for part in view.parts], list(view.newcomers)]


def _view_in(told: list[Any], group: str) -> View:
    number, members, joined, left, parts, newcomers = told
    gone = {name: Reason(code, text) for name, code, text in left}
    apart = tuple(tuple(part) for part in parts)
    return View(group, number, tuple(members), tuple(joined), gone, parts=apart, newcomers=tuple(newcomers))


def merge_out(merge: Merge) -> list[Any]:
    held = [
        _view_out(item) if isinstance(item, View) else [item.sender, item.payload, item.seq, item.rank] for item in merge.held
    ]
    said = [[place, speaker, states] for place, (speaker, states) in merge.said.items()]
    return [_view_out(merge.view), [list(part) for part in merge.parts], said, sorted(merge.gone), held]


def merge_in(told: list[Any], group: str) -> Merge:
    view, parts, said, gone, held = told
    merge = Merge(_view_in(view, group), parts)
    merge.said = {place: (speaker, states) for place, speaker, states in said}
    merge.gone = set(gone)
    for item in held:
        if isinstance(item[0], int):
            merge.held.append(_view_in(item, group))
        else:
            sender, payload, seq, rank = item
            merge.held.append(Message(sender, payload, seq, group, rank))
    return merge
