"""RTCast with one rule as the paper prints it, or without it: what the rules are for.

They are rings without admission control and without a clock layer: parameters that ask for these have no effect here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from plainchant.core.engine import Engine, Host
from plainchant.core.model import ProcessId
from plainchant.protocols.rtcast.gaps import Gaps
from plainchant.protocols.rtcast.packets import Ask, Here
from plainchant.protocols.rtcast.ring import TOKEN, Ring
from plainchant_papers.rtcast.variants import AtOnce
from plainchant_papers.rtcast.variants import engine_of as variant

Maker = Callable[[Host, Any], Engine]


class NoQuestions(Ring):
    """4.3 as printed: who times out eliminates at once, and asks nobody."""

    def _probe(self) -> None:
        self._probing = True
        self._answers = {self.me: Here(self.group, self.name, self.heard_visit, self.heard_visit, self.heard_holder, 0, ())}
        self._probed()


class NaiveTimeout(NoQuestions):
    """4.1 as printed: the bound on the token's rotation is everybody's timeout, from its own turn on."""

    def _arm(self) -> None:
        if self.name and not self._phase and self.heard_holder == self.me:
            self._set(TOKEN, self.host.now + self.rotation)


class AllSilent(NoQuestions):
    """4.3's first thought: everybody is eliminated of whom no heartbeat was heard."""

    def _silent(self, path: Sequence[ProcessId]) -> list[ProcessId]:
        return [
            process
            for process in self.ring
            if process != self.me and ((beat := self._beats.get(process)) is None or beat.visit <= self.visit)
        ]


class CountsTheAsking(Gaps):
    """4.6 as printed: the counter is decremented at the token visit that sends the request, too."""

    def _own_asks(self) -> tuple[Ask, ...]:
        before = self._head
        asked = super()._own_asks()
        if asked and self._head != before:
            self._left -= 1
            if self._left <= 0:
                self._give_up()
        return asked


VARIANTS: Final[Mapping[str, Maker]] = {
    "NaiveTimeout": variant(NaiveTimeout),
    "NoQuestions": variant(NoQuestions),
    "AllSilent": variant(AllSilent),
    "AtOnce": variant(AtOnce),
    "CountsTheAsking": variant(gaps=CountsTheAsking),
}
__all__ = ["VARIANTS", "AllSilent", "AtOnce", "CountsTheAsking", "NaiveTimeout", "NoQuestions", "variant"]
