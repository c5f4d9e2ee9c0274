"""Newtop processes whose membership changes, by hand (ch. 6): notifications, words, crashes and cuts, as the thesis tells them.

What a suspector would say is said by the test (:meth:`Changing.notify`), so that who suspects whom, and when, is what the
example wants; the suspector's own time-outs are timers like all others. A word is written as the thesis writes it:
``(i, suspect, {m, 4})``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plainchant.core.model import MS, GroupId, ProcessId, Timer, View
from plainchant.protocols.newtop.membership import Membership
from plainchant.protocols.newtop.packets import Confirmed, Refute, Remove, Suspect, Word

from .by_hand import MOST_STEPS, ByHand, Choice, Letter, nothing

CHANGING: dict[str, Any] = {"transport": "lossy", "suspect_after": 250 * MS, "merge_after": 0}
"""A transport that may be cut; parts stay apart, as in the thesis."""


def saying(*kinds: type) -> Choice:
    """Chooses words of these kinds."""
    return lambda letter: isinstance(letter.packet, Word) and isinstance(letter.packet.say, kinds)


def between(one: str, other: str) -> Choice:
    """Chooses what goes from one of these to one of those, or back."""
    first, second = one.split(), other.split()
    return lambda letter: (
        (letter.source in first and letter.target in second) or (letter.source in second and letter.target in first)
    )


def either(*choices: Choice) -> Choice:
    return lambda letter: any(choice(letter) for choice in choices)


def pairs(suspicions: Mapping[ProcessId, int] | tuple[tuple[ProcessId, int], ...]) -> str:
    items = suspicions.items() if isinstance(suspicions, Mapping) else suspicions
    return ", ".join(f"{{{process}, {last}}}" for process, last in items)


def told(by: ProcessId, word: Word) -> str:
    """A word as the thesis writes it; of others than those of 6.3.2 the name."""
    say = word.say
    if isinstance(say, Suspect):
        return f"({by}, suspect, {pairs(say.suspicions)})"
    if isinstance(say, Refute):
        return f"({by}, refute, {{{say.process}, {say.last}}})"
    if isinstance(say, Confirmed):
        return f"({by}, confirmed, {{{pairs(say.detection)}}})"
    if isinstance(say, Remove):
        return f"({by}, remove, {{{', '.join(say.failed)}}})"
    return f"({by}, {type(say).__name__.lower()})"


class Changing(ByHand):
    """One group, or several, whose members may fail."""

    def __init__(self, groups: Mapping[GroupId, str] | str, **parameters: Any) -> None:
        self.crashed: list[ProcessId] = []
        named = {"g": groups} if isinstance(groups, str) else groups
        super().__init__(named, **{**CHANGING, **parameters})

    # --- what happens -----------------------------------------------------------------------------------------------

    def notify(self, name: ProcessId, *suspected: ProcessId, group: GroupId = "g") -> None:
        """The suspector of that process gives these up."""
        membership = self.membership(name, group)
        columns = self.matrix(name, group).columns
        evidence = {"block": self.matrix(name, group).largest, "silence": 0, "patience": 0}
        membership.suspect([(columns[one], dict(evidence)) for one in suspected])
        self[name]._settle()

    def lose_patience(self, name: ProcessId, group: GroupId = "g") -> None:
        """Time-outs of that process expire, one after the other, until it suspects somebody."""
        before = len(self.words(name, group))
        while len(self.words(name, group)) == before:
            self.expire(name, ("suspect", group))

    def crash(self, name: ProcessId, *, reaches: str | None = None) -> None:
        """It stops. What it has sent is still under way, to everybody or to those whom it ``reaches``."""
        self.crashed.append(name)
        self.hosts[name].timers.clear()
        if reaches is not None:
            self.lose(lambda letter: letter.source == name and letter.target not in reaches.split())

    def lose(self, choice: Choice) -> None:
        """The network loses these packets, which are under way."""
        self.mail = [letter for letter in self.mail if not choice(letter)]

    def bring(self, letter: Letter) -> None:
        if letter.target not in self.crashed:
            super().bring(letter)

    def complete(self, *names: ProcessId, group: GroupId = "g") -> None:
        """Time-silence ends at these (at all who owe something): null messages go out, and arrive with all other mail."""
        timer: Timer = ("silence", group)
        for name in names or self.processes:
            if timer in self.hosts[name].timers:
                self.expire(name, timer)
        self.carry()

    def pass_time(self, length: int, *, lose: Choice = nothing) -> None:
        """So much time passes: timers expire, packets arrive at once."""
        end = self.time + length
        for _ in range(MOST_STEPS):
            self.carry(lose=lose)
            due = self.next_timer()
            if due is None or due[0] > end:
                self.time = end
                return
            self.expire(*due[1:])
        raise AssertionError("timers expire without end")

    # --- what can be seen -------------------------------------------------------------------------------------------

    def membership(self, name: ProcessId, group: GroupId = "g") -> Membership:
        membership = self.part(name, group).membership
        assert membership is not None
        return membership

    def suspicions(self, name: ProcessId, group: GroupId = "g") -> dict[ProcessId, int]:
        return self.membership(name, group).suspicions

    def failed(self, name: ProcessId, group: GroupId = "g") -> list[ProcessId]:
        return list(self.membership(name, group).failed)

    def last(self, name: ProcessId, of: ProcessId, group: GroupId = "g") -> int:
        """The block of the last message that it has of that one (lbn)."""
        return self.matrix(name, group).columns[of].last

    def installed(self, name: ProcessId, group: GroupId = "g") -> list[View]:
        return [view for (view,) in self.hosts[name].called("install") if view.group == group]

    def views(self, name: ProcessId, group: GroupId = "g") -> list[str]:
        """The views that it has installed, the first one first."""
        return [" ".join(view.members) for view in self.installed(name, group)]

    def words(self, name: ProcessId, group: GroupId = "g") -> list[str]:
        """What its group view has said, as the thesis writes it."""
        return [told(name, word) for word in self.sent(name, Word, group)]

    def history(self, name: ProcessId, group: GroupId = "") -> list[str]:
        """What its application has seen: messages by their texts, and views."""
        seen = []
        for call in self.hosts[name].calls:
            if call[0] == "deliver" and group in ("", call[1]):
                seen.append(call[3].body.decode())
            elif call[0] == "install" and group in ("", call[1].group):
                seen.append(f"{{{' '.join(call[1].members)}}}")
        return seen
