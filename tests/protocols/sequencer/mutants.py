"""Variants of the sequencer with one safety rule removed, each a one-line change of its source.

A mutant is a copy of the package in which one piece of one module's text is replaced; the text must occur exactly once, so
that a mutant cannot silently become the original. ``mutants.toml`` beside this file says for each which seed of the sweep
catches it, and by which property. After a change of the protocol or the sweep:

    python -m tests.protocols.sequencer.mutants            # look for seeds that catch, and rewrite mutants.toml
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import plainchant.protocols.sequencer as original

from .. import sweeping
from ..sweeping import Make
from . import sweep

TABLE = Path(__file__).with_name("mutants.toml")
SOURCE = Path(original.__file__).parent
SEEDS = 504
"""The ordinary sweep: a mutant has to be caught within it."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One rule removed: in this module, this text becomes that."""

    name: str
    module: str
    old: str
    new: str

    @property
    def package(self) -> str:
        return "plainchant.protocols.mutant_" + self.name.replace(" ", "_").replace("-", "_")

    def make(self) -> Make:
        """The variant's engine factory."""
        finder = _Finder(self)
        sys.meta_path.insert(0, finder)
        try:
            made: Make = importlib.import_module(self.package).make
        finally:
            sys.meta_path.remove(finder)
        return made

    def patched(self, text: str) -> str:
        if text.count(self.old) != 1:
            raise ValueError(f"mutant {self.name!r}: its text occurs {text.count(self.old)} times in {self.module}.py")
        return text.replace(self.old, self.new)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the mutant's package from the original's files."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == self.mutant.package:
            return importlib.util.spec_from_loader(fullname, self, is_package=True)
        if fullname.startswith(self.mutant.package + "."):
            return importlib.util.spec_from_loader(fullname, self)
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.removeprefix(self.mutant.package).lstrip(".") or "__init__"
        text = (SOURCE / f"{name}.py").read_text()
        if name == self.mutant.module:
            text = self.mutant.patched(text)
        exec(compile(text, f"{self.mutant.name}/{name}.py", "exec"), module.__dict__)


MUTANTS = (
    Mutant(
        "no fencing",
        "member",
        "    def _on_broadcast(self, source: ProcessId, packet: Broadcast) -> None:\n"
        "        if packet.epoch != self.listening or source != self.sequencer:",
        "    def _on_broadcast(self, source: ProcessId, packet: Broadcast) -> None:\n        if self.listening == NOBODY:",
    ),
    Mutant(
        "a promise binds nobody",
        "member",
        "        self.rebuild = None\n        self.listening = NOBODY\n",
        "        self.rebuild = None\n",
    ),
    Mutant("no duplicate check", "office", "        last = self.log.table.get(source, 0)\n", "        last = request - 1\n"),
    Mutant(
        "duplicate table lost at election",
        "member",
        "        log.highest = log.contiguous\n",
        "        log.highest = log.contiguous; log.table.clear()\n",
    ),
    Mutant("duplicate table not given to a joiner", "log", "        self.table.update(table)\n", ""),
    Mutant("requests may overtake", "office", "elif request == last + 1 and self.open:", "elif self.open:"),
    Mutant(
        "no out-of-order buffer", "member", "        if number == log.contiguous + 1:\n", "        if number > log.contiguous:\n"
    ),
    Mutant(
        "out-of-order survives the epoch", "log", "        self.later.clear()\n        return voided\n", "        return voided\n"
    ),
    Mutant("purge before stable", "office", "lowest = min(self.acked.values()", "lowest = max(self.acked.values()"),
    Mutant("acknowledgement overwritten", "office", "        if ack > known:  #", "        if ack != known:  #"),
    Mutant(
        "last-message rule off",
        "member",
        "            log.highest = packet.highest  # the last message",
        "            pass  # the last message",
    ),
    Mutant(
        "highest instead of highest contiguous",
        "election",
        "return status.synced[0], status.contiguous",
        "return status.synced[0], max((status.contiguous, *status.later))",
    ),
    Mutant("first voter instead of longest history", "election", "if self._history(process) == best]", "]"),
    Mutant("phases unnumbered", "office", "packet.phase != current.number or packet.step", "packet.step"),
    Mutant("phase acknowledged before it is complete", "pause", "if member.log.contiguous >= self._highest:", "if True:"),
    Mutant("view without a majority", "office", "            if 2 * votes <= len(deciders):\n                return False\n", ""),
    Mutant(
        "delivery without permission",
        "member",
        "            if number > self.allowed and not",
        "            if number < 0 and not",
    ),
    Mutant(
        "a request is sent once",
        "requests",
        "                self._send(request, self.outstanding[request])\n        self._arm()",
        "                pass\n        self._arm()",
    ),
    Mutant(
        "an office takes its own requests with it",
        "requests",
        "        for request, batch in list(self.outstanding.items()):\n",
        "        own, self.outstanding = self.outstanding, {}\n        for request, batch in own.items():\n",
    ),
    Mutant("phase numbers start again in each epoch", "office", "member.epoch * PHASES_AN_EPOCH", "0"),
    Mutant("a numbered request stays held", "office", "                self.held[source].pop(request, None)\n", ""),
    Mutant(
        "a leaving sequencer closes its office to itself",
        "office",
        "self.member.leaving and not self.member.requests.outstanding:",
        "self.member.leaving:",
    ),
    Mutant(
        "a lonely sequencer stays",
        "office",
        "        if not self._majority_heard():\n            # Members",
        "        if False:\n            # Members",
    ),
    Mutant(
        "strangers are numbered",
        "office",
        "            self.member.door.tell_excluded(source)\n            return False\n",
        "            return True\n",
    ),
    Mutant("one acknowledgement is enough", "office", "reverse=True)[needed - 1]", "reverse=True)[0]"),
    Mutant("silence goes unnoticed", "office", "            if silent <= limit:\n", "            if silent >= 0:\n"),
    Mutant("an idle sequencer's death goes unnoticed", "watch", "            self._silent_ticks += 1\n", ""),
    Mutant(
        "a new view keeps the dead",
        "office",
        "members = tuple(process for process in newest.members if process not in left)",
        "members = newest.members",
    ),
)


def by_name(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def table() -> dict[str, dict[str, Any]]:
    """What is checked in: mutant to seed and property, or to why it survives."""
    return sweeping.read_table(TABLE)


def _search(name: str) -> tuple[int, list[str]] | None:
    seeds = sweeping.known_first(TABLE, name, range(SEEDS))
    return sweeping.first_that_catches(sweep.run, by_name(name).make(), seeds)


if __name__ == "__main__":
    sweeping.look_for_seeds(TABLE, [mutant.name for mutant in MUTANTS], sys.argv[1:], _search)
