"""Simulations with a script: how long each operation on shared memory takes, and what crashes after which.

Theory of operation
-------------------
A :class:`Script` names an operation by its process, what it does and the copy, counted from 1: ``"a decide 1"``, or ``"a look"``
for every copy. ``durations`` are shares of the operation's bound, one for all or several, one after the other, of which the last
stays; what is not named takes ``usual``, or what the simulator draws. Above 1 the operation is late, which is a timing fault.
``after`` says what crashes right after an operation, the first of a name or, with ``"a decide 1 #3"``, the third: the process
itself, or ``module 1``, of its node.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.memory import Entry, Operate
from ..scenario.faults import describe_fault
from ..scenario.model import Fault, Scenario
from .memory import SimMailbox, SimMemory
from .simulation import Simulation


@dataclasses.dataclass(frozen=True, slots=True)
class Script:
    """How long operations take, and what crashes after them."""

    durations: Mapping[str, float | Sequence[float]] = dataclasses.field(default_factory=dict)
    after: Mapping[str, str] = dataclasses.field(default_factory=dict)
    usual: float | None = 0


class ScriptedMemory(SimMemory):
    """Operations take what a script says."""

    def __init__(self, script: Script, *settings: Any, **more: Any) -> None:
        super().__init__(*settings, **more)
        self.flagged: dict[tuple[str, int, int], frozenset[str]] = {}
        """Who had a decision flag when a message was written: by sender, timestamp and copy."""
        self.changed: Counter[tuple[str, str]] = Counter()  # how many operations of a process, by name, changed an entry
        self._script = script
        self._counted: Counter[str] = Counter()

    def _duration(self, running: Any, bound: int) -> int:
        request = running.request
        share = self._script.usual
        name = f"{running.host.me} {request.name}"
        for key in (name, f"{name} {request.copy + 1}"):
            given = self._script.durations.get(key, share)
            if given is None or isinstance(given, int | float):
                share = given
            else:
                self._counted[key] += 1
                share = given[min(self._counted[key], len(given)) - 1]
        return super()._duration(running, bound) if share is None else int(bound * share)

    def _effect(self, running: Any) -> Any:
        request, host = running.request, running.host
        mailbox = self.server.mailboxes[request.mailbox]
        before = dict(mailbox.copies[request.copy].entries())
        result = super()._effect(running)
        self._note(host.me, request, mailbox, before)
        name = f"{host.me} {request.name} {request.copy + 1}"
        self._counted["after " + name] += 1
        number = self._counted["after " + name]
        fails = self._script.after.get(f"{name} #{number}" if number > 1 else name, "")
        if fails == host.me:
            host.crash_inside({"operation": request.name, "copy": request.copy})
        elif fails and self.crash_module(number := int(fails.removeprefix("module "))):
            self._kernel.at(self._kernel.now, self._tell_of_module, Fault(kind="module", module=number, node=self.node))
        return result

    def _note(self, process: str, request: Operate, mailbox: SimMailbox, before: Mapping[int, Entry]) -> None:
        """Remembers who has a decision flag in what was written, and whose operations have changed entries."""
        after = dict(mailbox.copies[request.copy].entries())
        if after != before:
            self.changed[process, request.name] += 1
        for entry in after.values():
            if request.name == "write" and entry.sender == process and entry not in before.values():
                names = frozenset(name for place, name in mailbox.places.items() if entry.listed >> place & 1)
                self.flagged[process, entry.stamp, request.copy + 1] = names

    def _tell_of_module(self, dead: Fault) -> None:
        for host in self._hosts.values():
            host.note("fault", describe_fault(dead))


class ScriptedSimulation(Simulation):
    """A simulation whose memory follows a script, if there is one. ``settle``: how long it is idle before it is at rest."""

    def __init__(self, script: Script | None, scenario: Scenario, *, settle: int = 0, **settings: Any) -> None:
        self._script = script
        super().__init__(scenario, **settings)
        self._settle = settle or self._settle

    def _new_memory(self, *settings: Any, **more: Any) -> SimMemory:
        if self._script is None:
            return super()._new_memory(*settings, **more)
        return ScriptedMemory(self._script, *settings, **more)
