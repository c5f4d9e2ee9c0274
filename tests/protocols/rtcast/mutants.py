"""Mutants of rtcast: a function in place of each rule.

``mutants.toml`` beside this file says what catches each (:mod:`..mutating`). After a change of the protocol or the sweep:

    python -m tests.protocols.rtcast.mutants            # look for seeds that catch, and rewrite mutants.toml
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from plainchant.core.model import Batch, GroupId, ProcessId
from plainchant.protocols.rtcast import analysis
from plainchant.protocols.rtcast.admission import Admission
from plainchant.protocols.rtcast.analysis import NUMBER, Item
from plainchant.protocols.rtcast.entrance import Entrance
from plainchant.protocols.rtcast.gaps import Gaps
from plainchant.protocols.rtcast.interface import Interface
from plainchant.protocols.rtcast.order import Order, Place
from plainchant.protocols.rtcast.packets import Ask, Asked, Change, Data, Here, JoinAck, Reclaim
from plainchant.protocols.rtcast.parameters import Parameters
from plainchant.protocols.rtcast.ring import TOKEN, Ring
from plainchant.protocols.rtcast.sponsor import Sponsor

from ..mutating import Applied, Mutants, Row, look_for_seeds
from . import scripted, sweep


def attempt(row: Row, applied: Applied) -> list[str]:
    if "course" in row:
        return scripted.COURSES[row["course"]](applied)
    if "scenario" in row:
        script = scripted.SCENARIOS[row["scenario"]]
        with applied():
            return script.violated(sweep.run(0, scenario=script.scenario))
    scenario = sweep.scenario_of(row["seed"])
    with applied():
        return sweep.run(row["seed"], scenario=scenario).violated


MUTANTS = Mutants(Path(__file__).with_name("mutants.toml"), attempt, searched=6 * sweep.SEEDS)
mutant = MUTANTS.replaces


# --- turns and crashes (4.1 to 4.3) -----------------------------------------------------------------------------------


def _goes_by_itself(self: Ring) -> None:
    """Nobody is asked; it is as if somebody had answered that it knows of nothing."""
    self._probing = True
    self._answers.clear()
    self._answers[""] = Here(self.group, self.name, self.heard_visit, self.heard_visit, "", 0, ())
    self._probed()


mutant("nobody is asked where the token is", Ring, "_probe")(_goes_by_itself)
mutant("everyone times out P after its own turn", Ring, "_probe")(_goes_by_itself)


@mutant("everyone times out P after its own turn", Ring, "_arm")
def _after_own_turn(self: Ring) -> None:
    if self.name and not self._phase and self.me in self.ring:
        self._set(TOKEN, max((self._spoke_at or self._heard_at) + self.rotation, self.host.now))


@mutant("all wait for the token equally long", Interface, "patience")
def _no_distance(self: Interface, holds: Sequence[int]) -> int:
    return 4 * (holds[0] + self.delay_max + self.slack)


@mutant("all silent members are eliminated", Ring, "_silent")
def _all_silent(self: Ring, path: Sequence[ProcessId]) -> list[ProcessId]:
    if not _SILENT(self, path):
        return []
    return [
        process
        for process in self.ring
        if process != self.me and ((beat := self._beats.get(process)) is None or beat.visit <= self.visit)
    ]


_SILENT = Ring._silent


@mutant("the last number of an eliminated member is not compared", Order, "_explained")
def _any_number(self: Order, change: Change, ahead: int) -> Place:
    own = tuple((process, self.seqs.get(process, last)) for process, last in change.out)
    return _EXPLAINED(self, msgspec.structs.replace(change, out=own), ahead)


_EXPLAINED = Order._explained


@mutant("who has more than an elimination knows of goes on", Order, "_explained")
def _more_is_fine(self: Order, change: Change, ahead: int) -> Place:
    known = tuple(
        (process, own if (own := self.seqs.get(process)) is not None and self.ahead(last, own) < 0 else last)
        for process, last in change.out
    )
    return _EXPLAINED(self, msgspec.structs.replace(change, out=known, after=max(change.after, self.visit)), ahead)


@mutant("an elimination names only what its sender has", Ring, "_last_of")
def _own_vector(self: Ring, process: ProcessId) -> int:
    assert self.order is not None
    return self.order.seqs.get(process, self.parameters.numbers - 1)


@mutant("the deaf does not halt", Ring, "_probed")
def _deaf_goes_on(self: Ring) -> None:
    if not self._answers:
        self._answers[""] = Here(self.group, self.name, self.heard_visit, self.heard_visit, "", 0, ())
    _PROBED(self)


_PROBED = Ring._probed


@mutant("who does not hear itself goes on", Ring, "_check_own")
def _never_unheard(self: Ring) -> None:
    self._own_heard = self.visit
    _CHECK_OWN(self)


_CHECK_OWN = Ring._check_own


@mutant("one's own lost packets are not brought back", Gaps, "bring_back")
def _not_brought_back(self: Gaps) -> None:
    """They come by the network or not at all."""


@mutant("a minority goes on", Ring, "_may_go_on")
def _may_always_go_on(self: Ring, silent: Sequence[ProcessId]) -> bool:
    return True


@mutant("r = 0: who stands alone with what it has heard goes on", Ring, "_stands_alone")
def _never_alone(self: Ring, silent: Sequence[ProcessId]) -> bool:
    return False


@mutant("a change is not told by heartbeats", Ring, "_unconfirmed")
def _change_once(self: Ring) -> Change | None:
    return None


@mutant("views are installed at once", Ring, "_confirmed")
def _at_once(self: Ring, change: Change) -> bool:
    return True


@mutant("packets older than d_max count", Ring, "fresh")
def _never_old(self: Ring, source: ProcessId, at: int, kind: str) -> bool:
    return True


@mutant("numbers do not roll over", Order, "ahead")
def _plain_difference(self: Order, one: int, other: int) -> int:
    return one - other


# --- omissions and retransmission (4.2, 4.6) --------------------------------------------------------------------------


@mutant("no hold for overtaking", Gaps, "accept")
def _no_hold(self: Gaps, source: ProcessId, data: Data) -> None:
    order = self.inner.order
    if order is not None and order.place(data) is not Place.OLD:
        self._pass_up(data)


@mutant("delivery goes on after an omission", Ring, "ordered")
def _over_the_gap(self: Ring, data: Data) -> None:
    order = self.order
    assert order is not None
    if order.place(data) is Place.EARLY and data.sender in order.seqs:
        order.seqs[data.sender] = (data.seq - 1) % self.parameters.numbers
        order.visit, order.complete = data.visit - 1, True
        order._following = data.sender
    _ORDERED(self, data)


_ORDERED = Ring.ordered


@mutant("the counter runs from the turn that asks", Gaps, "_own_asks")
def _early_count(self: Gaps) -> tuple[Ask, ...]:
    before = self._head
    asked = _OWN_ASKS(self)
    if asked and self._head != before:
        self._left -= 1
        if self._left <= 0:
            self._give_up()
    return asked


_OWN_ASKS = Gaps._own_asks


@mutant("nobody answers for the dead", Gaps, "_sent_or_kept")
def _own_only(self: Gaps, sender: ProcessId) -> dict[int, Data]:
    return _SENT_OR_KEPT(self, sender) if sender == self.me else {}


_SENT_OR_KEPT = Gaps._sent_or_kept


@mutant("requests are not answered", Gaps, "_sent_or_kept")
def _never_again(self: Gaps, sender: ProcessId) -> dict[int, Data]:
    return {}


@mutant("requests are not passed on with the token", Gaps, "asks")
def _own_requests(self: Gaps) -> tuple[Asked, ...]:
    return tuple(asked for asked in _ASKS(self) if asked[0] == self.me)


_ASKS = Gaps.asks


@mutant("tokens and changes wait behind a gap", Gaps, "receive")
def _all_wait(self: Gaps, source: ProcessId, packet: Any) -> None:
    if not self._queue or isinstance(packet, Data):
        _RECEIVE(self, source, packet)


_RECEIVE = Gaps.receive


# --- joining, leaving, P (4.4, 4.5) -----------------------------------------------------------------------------------


@mutant("a majority of acknowledgements is enough", Entrance, "_enough")
def _majority(self: Entrance, ack: JoinAck) -> bool:
    expected = [process for process in ack.members if process not in ack.joined]
    return 2 * sum(self._acks.get(process) == ack for process in expected) > len(expected)


@mutant("acknowledgements are not compared", Entrance, "_enough")
def _whatever_they_say(self: Entrance, ack: JoinAck) -> bool:
    return all(process in self._acks for process in ack.members if process not in ack.joined)


@mutant("a joiner keeps nothing that it hears before it is in", Entrance, "keeps")
def _forgetful(self: Entrance, source: ProcessId, data: Data) -> bool:
    return bool(self._asked) and data.ring == self._asked and data.ring != self._ring.name


@mutant("a joiner keeps its numbers", Ring, "_enter")
def _same_numbers(
    self: Ring, name: ProcessId, ring: tuple[ProcessId, ...], holds: dict[ProcessId, int], number: int, formed: bool
) -> None:
    seq = self.seq
    _ENTER(self, name, ring, holds, number, formed)
    if len(ring) > 1:
        self.seq = seq


_ENTER = Ring._enter


@mutant("a joiner does not take over what is partly there", Admission, "adopt")
def _adopts_nothing(self: Admission, data: bytes) -> None:
    self._heard = {}


@mutant("a joiner does not take over what is partly there", Admission, "deliver")
def _ends_without_beginning(self: Admission, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
    is_known = (sender, int.from_bytes(batch.body[:NUMBER], "big")) in self._heard
    if not batch.total or not batch.offset or is_known:
        _DELIVER(self, group, sender, batch, rank)


_DELIVER = Admission.deliver


def _always_up_to_date(self: Ring) -> bool:
    return True


mutant("a sponsor need not be up to date", Ring, "is_up_to_date")(property(_always_up_to_date))


@mutant("nobody votes on a larger P", Sponsor, "_let_in")
def _no_query(self: Sponsor) -> Any:
    ring = self._ring
    joiners = dict(sorted(self._requests.items()))
    self._requests.clear()
    holds = [*(ring.holds[process] for process in ring.ring), *joiners.values()]
    needed = ring.interface.rotation((*ring.ring, *joiners), holds)
    return self._change(joiners, max(needed, ring.rotation), formed=ring.will_form)


@mutant("P is given back while somebody joins", Sponsor, "_reclaim")
def _reclaims_always(self: Sponsor) -> Reclaim | None:
    asked, self._asked = self._asked, None
    with mock.patch.object(Entrance, "knockers", return_value=()):
        word = _RECLAIM(self)
    self._asked = asked
    return word


_RECLAIM = Sponsor._reclaim


# --- times and admission (4.1, section 5) -----------------------------------------------------------------------------


@mutant("P counts n - 1 hops and no timeouts (equation 4.2)", Interface, "safe")
def _printed(self: Interface, ring: Sequence[ProcessId], holds: Sequence[int]) -> int:
    return self.printed(ring, holds)


def _without(*names: str) -> Any:
    def overhead(parameters: Parameters, interface: Interface, max_packet: int) -> tuple[Item, ...]:
        return tuple(item for item in _OVERHEAD(parameters, interface, max_packet) if not item.name.startswith(names))

    return overhead


_OVERHEAD = analysis.overhead
mutant("admission without the membership stream", analysis, "overhead")(_without("membership"))
mutant("admission without retransmissions", analysis, "overhead")(_without("retransmission"))
mutant("admission without anything that the ring sends", analysis, "overhead")(_without(""))


@mutant("admission under the old P after a vote", Admission, "rotation")
def _old_rotation(self: Admission, period: int) -> None:
    known = self._turn.rotation if self._turn is not None and self._is_in else period
    _ROTATION(self, min(period, known))


_ROTATION = Admission.rotation


@mutant("a vote does not freeze admission", Admission, "_reckoned")
def _not_frozen(self: Admission) -> Any:
    return self._turn


@mutant("every stream is admitted", analysis.Turn, "judge")
def _yes(self: analysis.Turn, demand: analysis.Demand, used: int, *, waited: int = 0) -> analysis.Verdict:
    visits = max(1, self.visits(demand.deadline))
    return analysis.Verdict(demand, visits, self.pieces(demand, visits), self.share(demand, visits), used)


# --- the table --------------------------------------------------------------------------------------------------------


def seeds(times: int = 1) -> list[int]:
    """The seeds of a sweep that is ``times`` as long as the ordinary one, and those that mutants need."""
    return MUTANTS.with_needed([*range(times * sweep.SEEDS), *sweep.REGRESSIONS])


if __name__ == "__main__":
    look_for_seeds("tests.protocols.rtcast.mutants", sys.argv[1:])
