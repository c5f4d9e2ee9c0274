"""Mutants of the sequencer: a function in place of each safety rule.

``mutants.toml`` beside this file says which seed of the sweep catches each, and by which property (:mod:`..mutating`). After a
change of the protocol or the sweep:

    python -m tests.protocols.sequencer.mutants            # look for seeds that catch, and rewrite mutants.toml
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from plainchant.core.model import Batch, ProcessId, Reason
from plainchant.protocols.sequencer import election
from plainchant.protocols.sequencer.calling import Calling
from plainchant.protocols.sequencer.election import Election, Rebuild
from plainchant.protocols.sequencer.hearing import Hearing
from plainchant.protocols.sequencer.log import Log
from plainchant.protocols.sequencer.member import Member
from plainchant.protocols.sequencer.office import Office
from plainchant.protocols.sequencer.packets import AckCommit, Ask, Broadcast, Change, Entry
from plainchant.protocols.sequencer.parameters import Parameters
from plainchant.protocols.sequencer.pause import Pause
from plainchant.protocols.sequencer.requests import Requests
from plainchant.protocols.sequencer.standing import NO_EPOCH, Standing
from plainchant.protocols.sequencer.watch import Watch

from ..mutating import Applied, Mutants, Row, look_for_seeds
from ..sweeping import ordinary
from . import sweep
from .cases import CASES

SEEDS = 504
"""The ordinary sweep: a mutant has to be caught within it."""
SHORT = (*range(SEEDS // 3), 361, 454)
"""What ``make test`` has of it: each family 21 times, and two runs that carry over an undecided view, which is rare."""


def attempt(row: Row, applied: Applied) -> list[str]:
    with applied():
        return CASES[row["scenario"]]() if "scenario" in row else sweep.run(row["seed"]).violated


MUTANTS = Mutants(Path(__file__).with_name("mutants.toml"), attempt, searched=SEEDS)
mutant = MUTANTS.replaces

_ON_BROADCAST = Member._on_broadcast
_STEP_DOWN = Member.step_down
_OFFICE_INIT = Office.__init__
_ASK_NUMBER = Office.ask_number
_NOTE = Office._note
_OPEN = Office.open
_ON_ACK_COMMIT = Office._on_ack_commit
_BEGIN_AT = Log.begin_at
_TICK = Watch.tick
_ELECTION_INIT = Election.__init__
_KEEP = Hearing.keep
_MAY_BE_HELD = Rebuild._may_be_held
_MISSING = Log.missing
_DECIDED = Office._decided
_KEEP_PACE = Election._keep_pace
_VOTE = Election._vote
_SUSPECT_SEQUENCER = Member._suspect_sequencer


# --- members ------------------------------------------------------------------------------------------------------------


@mutant("no fencing", Member, "_on_broadcast")
def _hears_all(self: Member, source: ProcessId, packet: Broadcast) -> None:
    if self.listening == NO_EPOCH:
        _ON_BROADCAST(self, source, packet)
    else:
        _ON_BROADCAST(self, self.sequencer, replace(packet, epoch=self.listening))


@mutant("a promise binds nobody", Member, "step_down")
def _still_listens(self: Member, epoch: int, promised_to: ProcessId, pace: int = 0) -> None:
    listening = self.listening
    _STEP_DOWN(self, epoch, promised_to, pace)
    self.listening = listening


@mutant("no out-of-order buffer", Member, "_on_broadcast")
def _over_gaps(self: Member, source: ProcessId, packet: Broadcast) -> None:
    log, number = self.log, packet.number
    if packet.epoch == self.listening and source == self.sequencer and number > log.contiguous + 1:
        in_order = number > log.highest and log.delivered == log.contiguous
        if in_order and self._immediate and packet.entry.batch is not None and not self.pause.phase:
            log.contiguous = log.delivered = number - 1
        else:
            packet = replace(packet, number=log.contiguous + 1)
    _ON_BROADCAST(self, source, packet)


@mutant("last-message rule off", Member, "_learn_highest")
def _highest_unknown(self: Member, highest: int) -> None:
    """Whatever comes later will show a gap."""


@mutant("delivery without permission", Member, "_is_permitted")
def _always_permitted(self: Member, number: int, entry: Entry) -> bool:
    return True


@mutant("phase acknowledged before it is complete", Pause, "is_complete")
def _always_complete(self: Pause, contiguous: int) -> bool:
    return True


@mutant("a request is sent once", Requests, "_repeat")
def _not_repeated(self: Requests, request: int) -> None:
    """The sequencer will have got it."""


@mutant("an office takes its own requests with it", Office, "number_outstanding")
def _taken_along(self: Office) -> None:
    own, self.requests.outstanding = self.requests.outstanding, {}
    for request, batch in own.items():
        self.ask_number(self.standing.me, request, batch)


@mutant("an idle sequencer's death goes unnoticed", Watch, "tick")
def _never_silent(self: Watch, stopped: bool) -> int | None:
    self._silent_ticks = -1
    return _TICK(self, stopped)


# --- the log ------------------------------------------------------------------------------------------------------------


@mutant("duplicate table not given to a joiner", Log, "begin_at")
def _without_table(self: Log, number: int, entry: Entry, table: dict[ProcessId, int]) -> None:
    _BEGIN_AT(self, number, entry, {})


@mutant("out-of-order survives the epoch", Log, "void_later")
def _kept_later(self: Log) -> int:
    return len(self.later)


# --- the office ---------------------------------------------------------------------------------------------------------


@mutant("duplicate table lost at election", Office, "__init__")
def _table_lost(self: Office, standing: Standing, *parts: Any, **calls: Any) -> None:
    standing.log.table.clear()
    _OFFICE_INIT(self, standing, *parts, **calls)


@mutant("phase numbers start again in each epoch", Office, "__init__")
def _from_zero(self: Office, *parts: Any, **calls: Any) -> None:
    _OFFICE_INIT(self, *parts, **calls)
    self.phase_number = 0


def _ask_as_next(self: Office, source: ProcessId, request: int, batch: Batch) -> None:
    """Asks for a number as if the request were the next of its sender."""
    table = self.log.table
    last = table.get(source)
    table[source] = request - 1
    _ASK_NUMBER(self, source, request, batch)
    if table.get(source) == request - 1:
        del table[source]
        if last is not None:
            table[source] = last


mutant("no duplicate check", Office, "ask_number")(_ask_as_next)


@mutant("requests may overtake", Office, "ask_number")
def _overtakes(self: Office, source: ProcessId, request: int, batch: Batch) -> None:
    is_new = request > self.log.table.get(source, 0)
    (_ask_as_next if is_new and self.open else _ASK_NUMBER)(self, source, request, batch)


@mutant("a numbered request stays held", Office, "ask_number")
def _stays_held(self: Office, source: ProcessId, request: int, batch: Batch) -> None:
    held = self.held.get(source, {}).get(request)
    _ASK_NUMBER(self, source, request, batch)
    if held is not None and source in self.acked:
        self.held.setdefault(source, {})[request] = held


@mutant("purge before stable", Office, "_update_stable")
def _anyone_has_it(self: Office) -> None:
    self._settle(max(self.acked.values(), default=self.log.contiguous))


@mutant("acknowledgement overwritten", Office, "_note")
def _overwritten(self: Office, source: ProcessId, ack: int, behind: int) -> bool:
    is_member = _NOTE(self, source, ack, behind)
    if is_member and ack < self.acked[source]:
        self.acked[source] = ack
    return is_member


@mutant("strangers are numbered", Office, "_note")
def _all_are_members(self: Office, source: ProcessId, ack: int, behind: int) -> bool:
    return source not in self.acked or _NOTE(self, source, ack, behind)


@mutant("one acknowledgement is enough", Office, "_held_by")
def _held_by_one(self: Office, needed: int) -> int:
    return max(self.acked.values())


@mutant("view without a majority", Office, "_decided")
def _decided_at_once(self: Office) -> bool:
    return True


@mutant("phases unnumbered", Office, "_on_ack_commit")
def _any_phase(self: Office, source: ProcessId, packet: AckCommit) -> None:
    _ON_ACK_COMMIT(self, source, packet if self.phase is None else replace(packet, phase=self.phase.number))


def _closed_to_itself(self: Office) -> Any:
    return not self.standing.leaving and _OPEN.__get__(self)


mutant("a leaving sequencer closes its office to itself", Office, "open")(property(_closed_to_itself))


@mutant("a lonely sequencer stays", Office, "_alone")
def _never_alone(self: Office) -> Reason | None:
    return None


@mutant("silence goes unnoticed", Hearing, "look")
def _never_suspects(self: Hearing, now: int) -> None:
    for process in self._heard:
        self.suspects.pop(process, None)


@mutant("a new view keeps the dead", Office, "_staying")
def _all_stay(self: Office, newest: Change, left: dict[ProcessId, Reason]) -> tuple[ProcessId, ...]:
    return newest.members


@mutant("a sender that had its turn has the next one too", Office, "_end_turn")
def _stays_first(self: Office, source: ProcessId) -> None:
    """It is still the first of those that wait."""


@mutant("the sequencer takes its turn when others have no more", Office, "_take_turn")
def _after_all_others(self: Office) -> None:
    if not self.held and self.requests.wants_number:
        self.pump()


@mutant("a view waits for members that did not vote", Hearing, "miss")
def _not_missed(self: Hearing, reasons: dict[ProcessId, Reason]) -> None:
    """Silence will show it."""


# --- elections ----------------------------------------------------------------------------------------------------------


@mutant("highest instead of highest contiguous", Election, "_history")
def _with_gaps(self: Election, process: ProcessId) -> tuple[int, int]:
    status = self.yes[process]
    return status.synced[0], max((status.contiguous, *status.later))


@mutant("first voter instead of longest history", Election, "_history")
def _all_alike(self: Election, process: ProcessId) -> tuple[int, int]:
    return 0, 0


@mutant("coordinators do not yield", Election, "yields_to")
def _never_yields(self: Election, source: ProcessId) -> bool:
    return False


@mutant("coordinators do not yield", Calling, "defer")
def _never_defers(self: Calling) -> None:
    """Its own trial may be over first."""


@mutant("coordinators do not yield", election, "next_epoch")
def _without_rank(latest: int, rank: int, members: int) -> int:
    return latest + 1


@mutant("the dead sequencer is waited for", Election, "__init__")
def _none_missed(self: Election, *parts: Any, **named: Any) -> None:
    _ELECTION_INIT(self, *parts, **named | {"missed": frozenset()})


@mutant("an election has no pace", Election, "_keep_pace")
def _no_pace(self: Election) -> None:
    """Round trips are short."""


@mutant("waiting for the dead is part of the pace", Election, "_keep_pace")
def _until_now(self: Election) -> None:
    self.answered = self.host.now
    _KEEP_PACE(self)


@mutant("the vote waits for members that were silent in the trial", Election, "_vote")
def _waits_again(self: Election) -> None:
    self._missed = frozenset((self.standing.sequencer,))
    _VOTE(self)


@mutant("a sequencer that brings no number is not asked", Member, "_suspect_sequencer")
def _not_asked(self: Member, reason: Reason) -> None:
    heard, self.watch.heard = self.watch.heard, False
    ticks, self.watch._silent_ticks = self.watch._silent_ticks, 1 << 20
    _SUSPECT_SEQUENCER(self, reason)
    self.watch.heard, self.watch._silent_ticks = heard, ticks


@mutant("a hand-over forgets which members live", Election, "__init__")
def _none_heard(self: Election, *parts: Any, **named: Any) -> None:
    _ELECTION_INIT(self, *parts, **named | {"heard": frozenset()})


@mutant("the sequencer is heard for two ticks", Watch, "hears_sequencer")
def _two_ticks(self: Watch) -> bool:
    return self.heard or self._silent_ticks < 2


@mutant("rebuilding gives up after three rounds", Rebuild, "_may_be_held")
def _three_rounds(self: Rebuild, number: int) -> bool:
    self._rounds = getattr(self, "_rounds", 0) + 1  # type: ignore[attr-defined]
    return self._rounds <= 3 and _MAY_BE_HELD(self, number)  # type: ignore[attr-defined]


@mutant("first contact has no patience", Hearing, "keep")
def _missed_at_once(self: Hearing, members: tuple[ProcessId, ...]) -> None:
    self._first = 0
    _KEEP(self, members)


@mutant("a silent member is not asked", Hearing, "silent")
def _asks_no_member(self: Hearing, now: int) -> tuple[ProcessId, ...]:
    return ()


@mutant("asks go out together at a tick", Office, "ask")
def _asks_together(self: Office) -> None:
    for _ in range(4):
        if silent := self.hearing.silent(self.host.now):
            self.host.send(silent, Ask(self.group, self.epoch))


@mutant("a view without its members", Election, "_can_decide")
def _without_its_members(self: Election) -> bool:
    return True


@mutant("one gap at a time", Log, "missing")
def _first_gap(self: Log, most: int) -> list[tuple[int, int]]:
    return _MISSING(self, most)[:1]


mutant("survivors need a majority", Parameters, "any_survivor")(property(lambda self: False))


@mutant("survivors do not wait for each other", Office, "_decided")
def _decided_alone(self: Office) -> bool:
    return self._any_survivor or _DECIDED(self)


def seeds(times: int = 1) -> list[int]:
    """The seeds of the sweep: the ordinary ones, so many times as many, and those that a mutant needs."""
    return MUTANTS.with_needed(ordinary(times, SEEDS, SHORT))


if __name__ == "__main__":
    look_for_seeds("tests.protocols.sequencer.mutants", sys.argv[1:])
