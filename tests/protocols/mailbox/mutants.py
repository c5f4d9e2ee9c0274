"""Mutants of mailbox: another value of a rule that has a name (``mailbox.variants``), or a function in place of another rule.

``mutants.toml`` beside this file says what catches each (:mod:`..mutating`). After a change of the protocol or the sweep:

    python -m tests.protocols.mailbox.mutants            # look for seeds that catch, and rewrite mutants.toml
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from plainchant.core.memory import FAILED, Connection, Copy, Disconnect, Entry, Operate, Procedure, Request, Step, Until
from plainchant.core.model import ProcessId
from plainchant.protocols.mailbox import first, membership, second, sending
from plainchant.protocols.mailbox.box import Box, Key, changed, find, majority, receivers
from plainchant.protocols.mailbox.engine import Mailbox
from plainchant.protocols.mailbox.message import Message
from plainchant.protocols.mailbox.receiving import Receiver
from plainchant.protocols.mailbox.sending import Sender
from plainchant.protocols.mailbox.times import Times
from plainchant.protocols.mailbox.variants import variant_of
from plainchant.protocols.mailbox.watching import Guard, Watch

from ..mutating import Applied, Mutants, Row, look_for_seeds
from ..sweeping import ordinary
from . import alive, scripted, sweep

FIRST = "crash"
SECOND = "timing"


def attempt(row: Row, applied: Applied) -> list[str]:
    if "scenario" in row:
        course = scripted.SCENARIOS[row["scenario"]]
        with applied():
            violated = sweep.run(0, None, course.scenario, course.script).violated
        return [broken for broken in violated if broken != "untimely"]  # a process that is late is so by its script
    scenario = sweep.scenario_of(row["seed"])
    with applied():
        return sweep.run(row["seed"], None, scenario).violated


MUTANTS = Mutants(Path(__file__).with_name("mutants.toml"), attempt, searched=5 * sweep.SEEDS)


def _in(protocols: Sequence[str], families: Sequence[str]) -> Callable[[int], bool]:
    return lambda seed: sweep.protocol_of(seed) in protocols and sweep.family_of(seed) in families


def without(name: str, protocols: Sequence[str], families: Sequence[str], **rules: str | bool) -> None:
    """A mutant with other values of the rules that have a name."""
    MUTANTS.add(name, variant_of(rules), likely=_in(protocols, families))


def mutant(
    name: str, owner: Any, attribute: str, *protocols: str, families: Sequence[str] = sweep.FAMILIES
) -> Callable[[Any], Any]:
    """A mutant in which a function replaces a rule that has no name."""
    return MUTANTS.replaces(name, owner, attribute, _in(protocols or (FIRST, SECOND), families))


# --- the rules that have a name ---------------------------------------------------------------------------------------

without("no extra delay after a dead copy", (FIRST,), ("overtaking",), extra="none")
without("the printed extra delay after a dead copy", (FIRST,), ("overtaking",), extra="printed")
without("the printed wait before voting", (SECOND,), sweep.FAMILIES, wait="printed")
without("the printed expiry time", (SECOND,), ("overtaking", "crashes", "timing"), expiry="printed")
without("votes are not atomic", (SECOND,), sweep.FAMILIES, atomic_votes=False)
without("removing is not atomic", (FIRST, SECOND), ("pressure",), atomic_remove=False)
without("no D field", (SECOND,), ("timing", "overtaking"), decision_field=False)
without("no second look", (FIRST, SECOND), sweep.FAMILIES, look_again=False)
without("nobody listens in", (SECOND,), ("timing",), listen=False)
without("removal is not postponed", (SECOND,), ("timing",), postpone=False)
without("what is absent from a copy is not decided there", (SECOND,), ("overtaking", "timing"), placeholders=False)
without("nobody listens in, or minds messages that lie ahead", (SECOND,), ("timing",), listen=False, enter_after=False)
without("removal is not postponed, nor minds who enters what is ahead", (SECOND,), ("timing",), postpone=False, enter_after=False)
without("who enters does not mind messages that lie ahead", (SECOND,), ("timing", "churn"), enter_after=False)


# --- times ------------------------------------------------------------------------------------------------------------


def _times(**values: Callable[[Times], int]) -> Any:
    """Times of which some are others."""
    original = Times.__init__

    def init(self: Times, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        for name, value in values.items():
            setattr(self, name, value(self))

    return init


mutant("receivers do not wait until a Send must be over", Times, "__init__")(_times(complete=lambda times: 0))
mutant("receivers do not allow for the clocks' difference", Times, "__init__")(_times(complete=lambda times: times.send))
mutant("nothing expires", Times, "__init__", SECOND, families=("timing",))(_times(expiry=lambda times: 1 << 60))
mutant("accepted messages do not wait for earlier ones to expire", Times, "__init__", SECOND, families=("timing",))(
    _times(settled=lambda times: times.complete)
)
mutant("a dead copy has no slot", Times, "__init__", SECOND, families=("overtaking", "timing"))(_times(slot=lambda times: 0))


# --- sending ----------------------------------------------------------------------------------------------------------


def _write(change: Callable[[Box, Copy, Mapping[int, Entry]], None]) -> Any:
    """Writing of messages after which something is changed, given what was there before."""

    def write(self: Box, copy: int, step: Step, size: int) -> Operate:
        def both(there: Copy) -> None:
            before = dict(there.entries())
            step(there)
            change(self, there, before)

        return _WRITE(self, copy, both, size)

    return write


_WRITE = Box.write


@_write
def _flag_at_once(box: Box, copy: Copy, before: Mapping[int, Entry]) -> None:
    for slot, entry in list(copy.entries()):
        if entry.place == box.place and entry.filled:
            copy.put(slot, changed(entry, available=True))


@_write
def _forget_votes(box: Box, copy: Copy, before: Mapping[int, Entry]) -> None:
    for slot, entry in list(copy.entries()):
        if entry.place == box.place and entry.filled and slot in before and not before[slot].filled:
            copy.put(slot, changed(entry, seen=0, voted=0, done=0, local=False, decision=None))


mutant("a-flags are set before all copies are written", Box, "write", families=("overtaking", "crashes"))(_flag_at_once)
mutant("a late sender does not keep the votes", Box, "write", SECOND, families=("timing",))(_forget_votes)


@mutant("a message lists who is there, whatever its timestamp", sending, "receivers", families=("churn", "crashes"))
def _whoever(copy: Copy, stamp: int) -> int:
    return receivers(copy, 1 << 62)


@mutant("a slot is free when it is in the first copy", Sender, "wait_for_slot", families=("pressure",))
def _first_copy_only(self: Sender) -> Generator[Request, Any, bool]:
    copies = self.box.copies
    self.box.copies = 1
    try:
        return (yield from _WAIT_FOR_SLOT(self))
    finally:
        self.box.copies = copies


_WAIT_FOR_SLOT = Sender.wait_for_slot


@mutant("slots are not waited for", Sender, "wait_for_slot", families=("pressure",))
def _no_wait(self: Sender) -> Generator[Request, Any, bool]:
    yield Until(self.box.clock)
    return True


@mutant("who was late has no more time the next time", Sender, "stamp", SECOND, families=("timing",))
def _plain_clock(self: Sender) -> int:
    self.lead = 0
    period = self.box.parameters.schedule
    stamp = self.box.clock
    return stamp + -stamp % period if period else stamp


# --- the first protocol -----------------------------------------------------------------------------------------------


def _decide(*, follow: bool = True, spread: bool = True) -> Any:
    """The decision, without looking at others' (``follow``) or writing it into later copies (``spread``)."""

    def decide(box: Box, batch: list[Message], start: int) -> Generator[Request, Any, None]:
        def settle(copy: Copy) -> None:
            for message in batch:
                entry = find(copy, message.slot, message.key)
                if entry is None or entry.removed or (message.verdict is not None and not spread):
                    continue
                if message.verdict is None:
                    message.verdict = entry.available if entry.decision is None or not follow else entry.decision
                if entry.decision is None:
                    copy.put(message.slot, changed(entry, decision=message.verdict))

        end = box.clock
        for copy in range(start, box.copies):
            result = yield box.decide(copy, settle)
            end += box.parameters.decide
            if result is FAILED:
                end += box.times.extra
            for message in batch:
                message.follow(copy)
            yield Until(end)

    return decide


mutant("nobody follows a decision that is there", first, "decide", FIRST, families=("overtaking",))(_decide(follow=False))
mutant("a decision is not written into later copies", first, "decide", FIRST, families=("overtaking",))(_decide(spread=False))


# --- the second protocol ----------------------------------------------------------------------------------------------


@mutant("a quorum is one smaller", second, "majority", SECOND, families=("timing", "overtaking"))
def _minority(listed: int) -> int:
    return max(1, listed.bit_count() // 2)


@mutant("a quorum is of who is in the list now", second, "find", SECOND, families=("churn", "timing", "crashes"))
def _listed_now(copy: Copy, slot: int, key: Key) -> Entry | None:
    entry = find(copy, slot, key)
    return entry if entry is None else changed(entry, listed=receivers(copy, 1 << 62))


@mutant("LD is changed after the quorum", second, "_would_change", SECOND, families=("timing",))
def _at_any_time(box: Box, batch: list[Message], copy: Copy) -> list[Message]:
    setting = []
    for message in batch:
        entry = find(copy, message.slot, message.key)
        if entry is None or not entry.listed & box.mask or not entry.available or entry.local:
            continue
        if entry.seen.bit_count() >= majority(entry.listed):
            setting.append(message)
    return setting


@mutant("nobody asks how many have seen a message in time", second, "_would_change", SECOND, families=("timing",))
def _unseen(box: Box, batch: list[Message], copy: Copy) -> list[Message]:
    setting = []
    for message in batch:
        entry = find(copy, message.slot, message.key)
        if entry is None or not entry.listed & box.mask or not entry.available or entry.local:
            continue
        if entry.voted.bit_count() < majority(entry.listed):
            setting.append(message)
    return setting


@mutant("the first vote counts", second, "_would_settle", SECOND, families=("timing",))
def _no_quorum(box: Box, batch: list[Message], copy: Copy) -> tuple[list[tuple[Message, bool]], list[Message]]:
    found = [(message, find(copy, message.slot, message.key)) for message in batch]
    return [(message, entry.decision is None) for message, entry in found if entry is not None], []


@mutant("a decision overwrites the one that is there", second, "_join_in", SECOND, families=("timing", "overtaking"))
def _overwrite(box: Box, batch: list[Message], copy: Copy) -> list[Message]:
    for message in batch:
        entry = find(copy, message.slot, message.key)
        if entry is not None and message.verdict is not None and not entry.removed:
            copy.put(message.slot, changed(entry, decision=message.verdict))
    return _JOIN_IN(box, batch, copy)


_JOIN_IN = second._join_in


@mutant("decisions are kept to oneself", second, "_join_in", SECOND, families=("timing", "overtaking"))
def _keeps_it(box: Box, batch: list[Message], copy: Copy) -> list[Message]:
    known = {message.key: message.verdict for message in batch}
    for message in batch:
        entry = find(copy, message.slot, message.key)
        message.verdict = None if entry is None or entry.decision is None else entry.decision
    undecided = _JOIN_IN(box, batch, copy)
    for message in batch:
        message.verdict = known[message.key] if known[message.key] is not None else message.verdict
    return [message for message in undecided if known[message.key] is None]


# --- receiving --------------------------------------------------------------------------------------------------------


@mutant("d-flags are set before reading", Receiver, "_take_off", families=("steady", "pressure"))
def _flag_first(self: Receiver, message: Message) -> None:
    self._finish([message])
    _TAKE_OFF(self, message)


_TAKE_OFF = Receiver._take_off


@mutant("messages are delivered as they are decided", Receiver, "advance")
def _as_decided(self: Receiver) -> None:
    if self.started:
        for item in [item for item in self.order if item[1].decided and item[1].verdict]:
            self.order.remove(item)
            self._take_off(item[1])
    _ADVANCE(self)


_ADVANCE = Receiver.advance


@mutant("who is overtaken goes on", Receiver, "_take_off", SECOND, families=("timing",))
def _goes_on(self: Receiver, message: Message) -> None:
    if message.key <= self.passed:
        message.wanted = False
    _TAKE_OFF(self, message)


@mutant("a message is read from one copy or not at all", Receiver, "_fetch", families=("overtaking", "crashes"))
def _from_one(self: Receiver, message: Message) -> Generator[Request, Any, Any]:
    copies = self.box.copies
    self.box.copies = self.box.first + 1
    try:
        return (yield from _FETCH(self, message))
    finally:
        self.box.copies = copies


_FETCH = Receiver._fetch


# --- the list of receivers --------------------------------------------------------------------------------------------


@mutant("who enters does so at once", membership, "enter", families=("churn",))
def _enters_now(box: Box) -> Generator[Request, Any, int]:
    entry = box.clock
    yield from membership._write(box, Connection(box.host.me, entry))
    return entry


@mutant("who leaves does so at once", membership, "leave", families=("churn",))
def _leaves_now(box: Box, entry: int) -> Generator[Request, Any, int]:
    leaving = box.clock
    yield from membership._write(box, Connection(box.host.me, entry, leaving))
    return leaving


@mutant("a leaver does not read what is earlier", Receiver, "_is_at_end", families=("churn",))
def _at_once(self: Receiver) -> bool:
    return bool(self.exit) and not self.stopped


@mutant("nobody collects for who has crashed", Mailbox, "_collect", families=("crashes",))
def _not_collected(self: Mailbox, process: ProcessId) -> None:
    """What it has not read stays."""


def _excuse(*, votes: bool = True, flags: bool = True) -> Any:
    """Acting for who is gone, in which something is forgotten."""

    def excuse(box: Box, copy: Copy, mask: int) -> None:
        for slot, entry in list(copy.entries()):
            if entry.listed & mask and not entry.done & mask:
                voted = entry.voted | mask if votes else entry.voted
                copy.put(slot, changed(entry, voted=voted, done=entry.done | mask if flags else entry.done))
        box.sweep(copy)

    return excuse


mutant("collecting forgets the votes", membership, "_excuse", SECOND, families=("majority",))(_excuse(votes=False))
mutant("collecting forgets the d-flags", membership, "_excuse", families=("crashes", "churn"))(_excuse(flags=False))


@mutant("collecting does not mark who is gone", membership, "Connection", families=("crashes", "churn"))
def _never_gone(process: ProcessId, entry: int = 0, exit: int = 0, gone: bool = False, reports: int = 0) -> Connection:
    return Connection(process, entry, exit)


@mutant("a place is free before it is collected", membership, "collect", families=("crashes", "churn"))
def _free_first(box: Box, place: int, process: ProcessId) -> Procedure:
    yield Disconnect(box.group, place, process)
    yield from _COLLECT(box, place, process)


_COLLECT = membership.collect


# --- receivers that are overdue ---------------------------------------------------------------------------------------


@mutant("no process is overdue", Watch, "_overdue", families=("alive",))
def _never_overdue(self: Watch, copy: Copy, entered: int) -> int:
    return 0


@mutant("only the first copy is watched", Guard, "__init__", families=("alive",))
def _one_watch(self: Guard, box: Box, excluded: Any) -> None:
    _GUARD_INIT(self, box, excluded)
    del self._watches[1:]


_GUARD_INIT = Guard.__init__


@mutant("an exclusion stays in the copy in which it was decided", Guard, "_carry", families=("alive",))
def _not_carried(self: Guard, connections: Sequence[tuple[int, Connection]]) -> Generator[Request, Any, None]:
    yield from ()


@mutant("an excluded process goes on", Guard, "judge", families=("alive",))
def _unjudged(self: Guard, connections: Sequence[tuple[int, Connection]]) -> bool:
    return False


@mutant("one report suffices", Watch, "_enough", SECOND, families=("alive",))
def _one_report(self: Watch, others: int) -> int:
    return 1


@mutant("all others have to report", Watch, "_enough", SECOND, families=("alive",))
def _all_reports(self: Watch, others: int) -> int:
    return others.bit_count()


@mutant("a receiver that was stopped judges at once", Watch, "_was_stopped", families=("alive",))
def _always_attentive(self: Watch, now: int) -> bool:
    return False


@mutant("the place of an excluded process is free at once", membership, "spread", families=("alive",))
def _free_at_once(box: Box, place: int, process: ProcessId, reports: int = 0) -> Procedure:
    yield from _SPREAD(box, place, process, reports)
    if reports:
        yield Disconnect(box.group, place, process)


_SPREAD = membership.spread


# --- the table --------------------------------------------------------------------------------------------------------


def seeds(times: int = 1) -> list[int]:
    """The seeds of a sweep that is ``times`` as long as the ordinary one, and those that mutants need."""
    stopped = alive.SHORT if times == 1 else range(alive.FIRST_SEED, alive.FIRST_SEED + times * alive.SEEDS)
    return MUTANTS.with_needed([*ordinary(times, sweep.SEEDS, sweep.SHORT), *stopped, *sweep.REGRESSIONS])


if __name__ == "__main__":
    look_for_seeds("tests.protocols.mailbox.mutants", sys.argv[1:])
