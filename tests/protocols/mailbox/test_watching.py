"""Reports and exclusions on one copy, step by step."""

from __future__ import annotations

from typing import cast

import pytest

from plainchant.core.engine import Host
from plainchant.core.memory import Connection, Entry
from plainchant.core.model import MS, SECOND, Duration
from plainchant.protocols.mailbox.box import Box, changed
from plainchant.protocols.mailbox.parameters import Parameters
from plainchant.protocols.mailbox.watching import Watch, is_excluded
from plainchant.sim.memory import SimCopy

PATIENCE = 80 * MS
ALL = 0b11111


class Clocks:
    """What a watch asks of its host: a name, the monotonic clock, and the clock that may be set."""

    now = SECOND
    offset = 0

    def __init__(self, me: str) -> None:
        self.me = me

    def clock(self) -> int:
        return Clocks.now + self.offset


class Table:
    """A copy with five receivers, ``a`` to ``e``, and a watch of each."""

    def __init__(self, tolerate: str = "timing") -> None:
        Clocks.now = SECOND
        self.hosts = {name: Clocks(name) for name in "abcde"}
        self.watches: dict[str, Watch] = {}
        parameters = Parameters(tolerate=tolerate, patience=Duration(PATIENCE))
        for place, (name, host) in enumerate(self.hosts.items()):
            box = Box(cast("Host", host), "g", parameters)
            box.place, box.mask = place, 1 << place
            self.watches[name] = Watch(box)
            self.flagged = box.times.flagged
        self.copy = SimCopy(box.layout)
        for place, name in enumerate(self.hosts):
            self.copy.connect(place, Connection(name, entry=1))

    def put(self, done: int, *, slot: int = 0, ahead: int = 0, voted: int = 0, decision: bool | None = True) -> None:
        """A message that some have done with."""
        entry = Entry(Clocks.now + ahead, 0, "a", listed=ALL, done=done, filled=True, voted=voted, decision=decision)
        self.copy.put(slot, entry)

    def set_flags(self, done: int, slot: int = 0) -> None:
        entry = self.copy.entry(slot)
        assert entry is not None
        self.copy.put(slot, changed(entry, done=done))

    def look(self, names: str, length: int = PATIENCE) -> None:
        """These processes look, ten times in ``PATIENCE``, for so long."""
        for _ in range(-(-length // (PATIENCE // 10))):
            Clocks.now += PATIENCE // 10
            for name in names:
                self.watches[name].look(self.copy)

    def reports(self, place: int = 4) -> int:
        connection = self.copy.connection(place)
        assert connection is not None
        return connection.reports

    def excluded(self) -> str:
        return "".join(connection.process for _, connection in self.copy.connections() if is_excluded(connection))


def test_a_flag_is_overdue_when_it_was_watched_for_patience_and_what_an_intact_receiver_needs() -> None:
    table = Table()
    table.put(0b01111)
    table.look("a")
    assert table.reports() == 0
    table.look("a", table.flagged + 2 * (PATIENCE // 10))
    assert table.reports() == 0b00001
    assert table.excluded() == ""


def test_three_of_four_others_exclude_with_the_second_protocol_and_set_votes_and_flags() -> None:
    table = Table()
    table.put(0b01111)
    table.look("ab", 2 * PATIENCE)
    assert (table.reports(), table.excluded()) == (0b00011, "")
    table.look("abd", 2 * PATIENCE)
    assert (table.reports(), table.excluded()) == (0b01011, "e")
    entry = table.copy.entry(0)
    assert entry is not None
    assert entry.done == ALL
    assert entry.voted & 0b10000


def test_one_report_suffices_with_the_first_protocol() -> None:
    table = Table("crash")
    table.put(0b01111)
    table.look("b", 2 * PATIENCE)
    assert table.excluded() == "e"


def test_reports_of_processes_that_are_gone_do_not_count() -> None:
    table = Table()
    table.put(0b01111)
    table.look("ab", 2 * PATIENCE)
    gone = table.copy.connection(1)
    assert gone is not None
    table.copy.connect(1, changed(gone, gone=True))
    table.look("ac", PATIENCE)
    assert table.excluded() == ""
    table.look("ac", PATIENCE)  # two of three others
    assert table.excluded() == "e"


def test_a_report_is_taken_back_when_the_flag_is_set() -> None:
    table = Table()
    table.put(0b01111)
    table.look("ab", 2 * PATIENCE)
    table.set_flags(ALL)
    table.look("ab", PATIENCE // 10)
    assert table.reports() == 0
    table.put(0b01111, slot=1)
    table.look("c", 2 * PATIENCE)
    assert (table.reports(), table.excluded()) == (0b00100, "")


def test_a_receiver_that_was_stopped_itself_watches_anew() -> None:
    table = Table("crash")
    table.put(0b01111)
    table.look("b", PATIENCE // 2)
    Clocks.now += 10 * PATIENCE
    table.look("b", PATIENCE)
    assert table.excluded() == ""
    table.look("b", PATIENCE)
    assert table.excluded() == "e"


@pytest.mark.parametrize("offset", [-10 * SECOND, 10 * SECOND])
def test_a_wrong_clock_accuses_no_process(offset: int) -> None:
    table = Table("crash")
    table.hosts["b"].offset = offset
    table.put(0b01111)
    table.look("b", PATIENCE)
    assert table.excluded() == ""
    table.look("b", SECOND + PATIENCE)  # a message may lie ahead by the longest lead
    assert table.excluded() == "e"


def test_a_message_that_lies_ahead_is_waited_for() -> None:
    table = Table("crash")
    table.put(0b01111, ahead=SECOND // 2)
    table.look("b", SECOND // 2)
    assert table.excluded() == ""
    table.look("b", 2 * PATIENCE)
    assert table.excluded() == "e"


@pytest.mark.parametrize("tolerate", ["crash", "timing"])
def test_a_receiver_reports_nothing_that_it_has_not_done_itself(tolerate: str) -> None:
    table = Table(tolerate)
    table.put(0)
    table.look("abcde", 3 * PATIENCE)
    assert table.excluded() == ""


def test_until_there_is_a_decision_those_that_have_not_voted_are_overdue() -> None:
    table = Table()
    table.put(0, voted=0b00111, decision=None)
    table.look("abc", 2 * PATIENCE)
    assert table.excluded() == "de"
    # Now there is a decision, and the flags have to be set anew from here.
    entry = table.copy.entry(0)
    assert entry is not None
    table.copy.put(0, changed(entry, decision=True, done=entry.done | 0b00001))
    table.look("ab", PATIENCE)
    assert table.excluded() == "de"


def test_a_process_that_got_the_place_of_another_does_not_judge_by_its_flags() -> None:
    table = Table("crash")
    table.put(0b00010)
    table.copy.connect(1, Connection("b", entry=Clocks.now + 1))
    table.look("b", 3 * PATIENCE)
    assert table.excluded() == ""


def test_an_excluded_process_reports_no_other() -> None:
    table = Table("crash")
    table.put(0b01111)
    table.look("b", 2 * PATIENCE)
    table.put(0b10000, slot=1)
    table.look("e", 3 * PATIENCE)
    assert table.excluded() == "e"
