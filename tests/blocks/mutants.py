"""Mutants of the building blocks: a function in place of each rule.

``mutants.toml`` beside this file says what catches each (:mod:`tests.protocols.mutating`). ``python -m tests.blocks.mutants``
looks for seeds anew.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plainchant.blocks import dictionary, office
from plainchant.blocks.block import Command, Part, decode, encode
from plainchant.blocks.counter import Counter
from plainchant.blocks.dictionary import Dictionary
from plainchant.blocks.election import Election
from plainchant.blocks.lock import Fence
from plainchant.blocks.merging import Merge
from plainchant.blocks.office import Office
from plainchant.blocks.replica import MARK, Replica
from plainchant.core.model import View
from plainchant.group import Message, State
from tests.protocols.mutating import Applied, Mutants, Row, look_for_seeds

from . import scripted, sweep


def attempt(row: Row, applied: Applied) -> list[str]:
    with applied():
        return scripted.SCRIPTED[row["scenario"]]() if "scenario" in row else sweep.run(row["seed"]).violated


MUTANTS = Mutants(Path(__file__).with_name("mutants.toml"), attempt, searched=200)


# --- offices ------------------------------------------------------------------------------------------------------------


def held_at_once(self: Office) -> bool:
    """Nobody has to know of an owner."""
    return self.owner is not None


def always_primary(self: Office) -> bool:
    return True


_merge = Office.merge


def token_of_the_first_part(self: Office, parts: Sequence[Part], view: View) -> None:
    token = parts[0].state[1]
    _merge(self, [Part(part.members, [part.state[0], token, *part.state[2:]], part.speaker) for part in parts], view)


def first_part_is_primary(self: Office, parts: Sequence[Part], view: View) -> None:
    """Whichever part is first keeps its owner, and its electors are all."""
    _merge(self, parts[:1], view)


def owner_stays(self: Office, view: View) -> None:
    """Who is gone keeps the office."""
    self._members = list(view.members)
    self._admit()
    self._appoint()
    self._tell_holder()


def new_electors_at_once(self: Office) -> None:
    """A view's members are the only electors as soon as it comes."""
    if self.is_primary:
        self._take_step()
        self._electors = [[self._step, list(self._members)]]
    else:
        self._vacate()


def half_are_enough(present: Sequence[str], electors: Sequence[str]) -> bool:
    """Whichever half."""
    return 2 * len([process for process in electors if process in present]) >= len(electors)


def admit_anything(self: Fence, token: int, note: Any = None) -> None:
    self._admitted += 1
    note(resource=self.resource, token=token, number=self._admitted)


def owner_by_name(self: Office) -> None:
    """Each member has its own opinion about who is next."""
    if self.owner is None and self._waiting and self.is_primary:
        self._waiting.sort(key=lambda entry: entry[0] != self.me)
        self.owner, self._request = self._waiting.pop(0)
        self.token += 1
        self._take_step()


def nobody_stands(self: Election, members: Any = None) -> None:
    """Only the first members are candidates, and those only once."""
    if not self.token and members is not None:
        self._waiting = [[member, 0] for member in members]


# --- counter and dictionary ---------------------------------------------------------------------------------------------


def sums_are_added(self: Counter, parts: Sequence[Part], view: View) -> None:
    merged: dict[str, list[int]] = {}
    for part in parts:
        for process, (added, number) in part.state.items():
            before = merged.get(process, [0, 0])
            merged[process] = [before[0] + added, max(before[1], number)]
    self._sums = merged


def first_part_counts(self: Counter, parts: Sequence[Part], view: View) -> None:
    self._sums = parts[0].state


def own_is_counted_twice(self: Counter, command: Command) -> int:
    entry = self._sums.setdefault(command.sender, [0, 0])
    entry[0] += command.body * (2 if command.sender == self.me else 1)
    entry[1] = command.number
    return self.value


_last_written = dictionary.last_written


def deletions_are_forgotten(parts: Sequence[Part]) -> Any:
    return _last_written([Part(part.members, [*part.state[:2], []], part.speaker) for part in parts])


def first_written(parts: Sequence[Part]) -> Any:
    return _last_written(parts[:1])


def smaller(parts: Sequence[Part]) -> int:
    return min(range(len(parts)), key=lambda place: len(parts[place].members))


_merge_dictionary = Dictionary.merge


def own_clock(self: Dictionary, parts: Sequence[Part], view: View) -> None:
    """Stamps begin again where this member was."""
    clock = self._clock
    _merge_dictionary(self, parts, view)
    self._clock = clock


def nothing_is_restored(self: Dictionary, snapshot: Any) -> None:
    self._clock = snapshot[0]


# --- the replica --------------------------------------------------------------------------------------------------------


_apply = Replica._apply


def commands_do_not_wait(self: Replica, item: Message | View) -> None:
    """What comes while parts tell their states is applied at once."""
    if isinstance(item, View):
        self._change(item, "view")
    else:
        _apply(self, item, *decode(item.payload[len(MARK) :]))


_take_state = Replica._take_state


def line_is_not_taken_over(self: Replica, state: State) -> None:
    """Who joins does not hear of parts that are coming together."""
    states, _ = decode(state.payload)
    _take_state(self, State(state.group, state.view, state.donor, (encode([states, []]),)))


def nobody_is_left_out(self: Merge, members: Sequence[str]) -> None:
    """A part that is gone is waited for."""


def only_the_first_speaks(self: Replica, merge: Merge) -> None:
    """If it is gone, nobody says the state of its part."""
    place = merge.place_of(self.group.me)
    if merge.parts[place][0] == self.group.me and not merge.spoken:
        _speak(self, merge)


_speak = Replica._speak

MUTANTS.replaces("offices are held before anybody has acknowledged", Office, "is_confirmed")(property(held_at_once))
MUTANTS.replaces("every part is primary", Office, "is_primary")(property(always_primary))
MUTANTS.replaces("a merge takes the token of the first part", Office, "merge")(token_of_the_first_part)
MUTANTS.replaces("a merge takes everything of the first part", Office, "merge")(first_part_is_primary)
MUTANTS.replaces("who is gone keeps the office", Office, "changed")(owner_stays)
MUTANTS.replaces("new electors count at once, and the old ones no more", Office, "_admit")(new_electors_at_once)
MUTANTS.replaces("half of the electors are enough", office, "_has_majority")(half_are_enough)
MUTANTS.replaces("a fence lets everybody in", Fence, "admit")(admit_anything)
MUTANTS.replaces("each member chooses the next owner", Office, "_appoint")(owner_by_name)
MUTANTS.replaces("who comes later is no candidate", Election, "_stand")(nobody_stands)
MUTANTS.replaces("a merge adds all sums up", Counter, "merge")(sums_are_added)
MUTANTS.replaces("a merge takes the sums of the first part", Counter, "merge")(first_part_counts)
MUTANTS.replaces("one's own additions count twice", Counter, "apply")(own_is_counted_twice)
MUTANTS.replaces("a merge forgets deletions", dictionary, "last_written")(deletions_are_forgotten)
MUTANTS.replaces("a merge takes the entries of the first part", dictionary, "last_written")(first_written)
MUTANTS.replaces("the smaller part wins", dictionary, "larger")(smaller)
MUTANTS.replaces("stamps go on from one's own part", Dictionary, "merge")(own_clock)
MUTANTS.replaces("joiners begin with nothing", Dictionary, "restore")(nothing_is_restored)
MUTANTS.replaces("commands do not wait for a merge", Replica, "_hold")(commands_do_not_wait)
MUTANTS.replaces("joiners do not hear of a merge that goes on", Replica, "_take_state")(line_is_not_taken_over)
MUTANTS.replaces("a part that is gone is waited for", Merge, "leave_out")(nobody_is_left_out)
MUTANTS.replaces("only the first of a part speaks for it", Replica, "_speak")(only_the_first_speaks)


if __name__ == "__main__":
    look_for_seeds("tests.blocks.mutants", sys.argv[1:])
