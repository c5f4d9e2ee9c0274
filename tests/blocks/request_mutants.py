"""Mutants of requests: a function in place of each rule. Each is caught by ``answers`` in the sweep."""

from __future__ import annotations

from typing import Any, Final

from plainchant.blocks import Requests
from plainchant.blocks.requests import _Open
from plainchant.core.model import View
from plainchant.protocols.variants import Variants

MUTANTS: Final = Variants()
_CHANGED = Requests.changed
_HEAR = Requests._hear
_LOOK = Requests._look
_CLOSE = Requests._close


@MUTANTS.replaces("majority of those there", Requests, "_needed")
def _majority_of_those_there(self: Requests, question: _Open) -> int:
    """Counts a majority of the view that is in force when answers come, and not of those that were asked."""
    return len(self._members) // 2 + 1 if question.need == "majority" else 1


@MUTANTS.replaces("asks later comers", Requests, "changed")
def _asks_later_comers(self: Requests, view: View) -> None:
    """Takes the members of the current view for asked: a process that has joined since is waited for, too."""
    for question in self._open.values():
        question.asked += [member for member in view.members if member not in question.asked]
    _CHANGED(self, view)


@MUTANTS.replaces("asks the first view", Requests, "changed")
def _asks_the_first_view(self: Requests, view: View) -> None:
    """Goes on asking those of the first view that it had."""
    before = self._members
    _CHANGED(self, view)
    self._members = before or self._members


@MUTANTS.replaces("waits for the dead", Requests, "changed")
def _waits_for_the_dead(self: Requests, view: View) -> None:
    """Does not look at views."""
    if not self._members:
        _CHANGED(self, view)
    self._members, self._view = list(view.members), view.number


@MUTANTS.replaces("counts twice", Requests, "_hear")
def _counts_twice(self: Requests, member: str, name: str, value: Any, *, failed: bool) -> None:
    """Counts each answer twice."""
    question = self._open.get(name)
    if question is not None and not failed and member in question.pending:
        question.answers.append([member, value])
    _HEAR(self, member, name, value, failed=failed)


@MUTANTS.replaces("counts failures", Requests, "_hear")
def _counts_failures(self: Requests, member: str, name: str, value: Any, *, failed: bool) -> None:
    """Takes the error of a handler for an answer."""
    _HEAR(self, member, name, "nothing" if failed else value, failed=False)


@MUTANTS.replaces("one is enough", Requests, "_is_enough")
def _one_is_enough(self: Requests, question: _Open) -> bool:
    """Is content with the first answer."""
    return bool(question.answers)


@MUTANTS.replaces("looks no more", Requests, "_look")
def _looks_no_more(self: Requests, question: _Open) -> None:
    """Never says that enough have answered."""
    if question.need != "majority":
        _LOOK(self, question)


@MUTANTS.replaces("invents", Requests, "_close")
def _invents(self: Requests, question: _Open, why: str) -> None:
    """Invents the answer of a member that is late."""
    for member in question.pending[:1]:
        question.answers.append([member, "certainly"])
    _CLOSE(self, question, why)


@MUTANTS.replaces("hides the gone", Requests, "_close")
def _hides_the_gone(self: Requests, question: _Open, why: str) -> None:
    """Calls a member late that is gone."""
    question.gone = []
    _CLOSE(self, question, why)
