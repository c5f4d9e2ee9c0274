"""Questions with one rule taken out. Each is caught by ``answers`` in the sweep."""

from __future__ import annotations

from typing import Any, Final

from plainchant.blocks import Requests
from plainchant.blocks.requests import _Open
from plainchant.core.model import View


class MajorityOfThoseThere(Requests):
    """Counts a majority of the view that is in force when answers come, and not of those that were asked."""

    def _needed(self, question: _Open) -> int:
        return len(self._members) // 2 + 1 if question.need == "majority" else 1


class AsksLaterComers(Requests):
    """Takes those for asked who are there when it looks: who has joined since is waited for, too."""

    def changed(self, view: View) -> None:
        for question in self._open.values():
            question.asked += [member for member in view.members if member not in question.asked]
        super().changed(view)


class AsksTheFirstView(Requests):
    """Goes on asking those of the first view that it had."""

    def changed(self, view: View) -> None:
        before = self._members
        super().changed(view)
        self._members = before or self._members


class WaitsForTheDead(Requests):
    """Does not look at views."""

    def changed(self, view: View) -> None:
        if not self._members:
            super().changed(view)
        self._members, self._view = list(view.members), view.number


class CountsTwice(Requests):
    """Counts whoever answers as if there were two of it."""

    def _hear(self, member: str, name: str, value: Any, *, failed: bool) -> None:
        question = self._open.get(name)
        if question is not None and not failed and member in question.pending:
            question.answers.append([member, value])
        super()._hear(member, name, value, failed=failed)


class CountsFailures(Requests):
    """Takes the error of a handler for an answer."""

    def _hear(self, member: str, name: str, value: Any, *, failed: bool) -> None:
        super()._hear(member, name, "nothing" if failed else value, failed=False)


class OneIsEnough(Requests):
    """Is content with the first answer."""

    def _is_enough(self, question: _Open) -> bool:
        return bool(question.answers)


class LooksNoMore(Requests):
    """Never says that enough have answered."""

    def _look(self, question: _Open) -> None:
        if question.need != "majority":
            super()._look(question)


class Invents(Requests):
    """Puts in a word for who is late."""

    def _close(self, question: _Open, why: str) -> None:
        for member in question.pending[:1]:
            question.answers.append([member, "certainly"])
        super()._close(question, why)


class HidesTheGone(Requests):
    """Calls late who is gone."""

    def _close(self, question: _Open, why: str) -> None:
        question.gone = []
        super()._close(question, why)


MUTANTS: Final[tuple[type[Requests], ...]] = (
    MajorityOfThoseThere,
    AsksLaterComers,
    AsksTheFirstView,
    WaitsForTheDead,
    CountsTwice,
    CountsFailures,
    OneIsEnough,
    LooksNoMore,
    Invents,
    HidesTheGone,
)
