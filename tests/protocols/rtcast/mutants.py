"""Mutants of rtcast: a function in place of each rule.

``mutants.toml`` beside this file says what catches each (:mod:`..mutating`). After a change of the protocol or the sweep:

    python -m tests.protocols.rtcast.mutants            # look for seeds that catch, and rewrite mutants.toml
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from plainchant.core.model import Batch, GroupId, ProcessId
from plainchant.protocols.rtcast import analysis
from plainchant.protocols.rtcast.admission import Admission
from plainchant.protocols.rtcast.analysis import NUMBER, Item
from plainchant.protocols.rtcast.entrance import Entrance
from plainchant.protocols.rtcast.gaps import Gaps
from plainchant.protocols.rtcast.inquiry import TOKEN, Inquiry
from plainchant.protocols.rtcast.interface import Interface
from plainchant.protocols.rtcast.order import Order, Place
from plainchant.protocols.rtcast.packets import Ask, Asked, Beat, Change, Data, Here, JoinAck, Reclaim, Refuse, Where
from plainchant.protocols.rtcast.parameters import Parameters
from plainchant.protocols.rtcast.ring import Ring
from plainchant.protocols.rtcast.sponsor import Sponsor
from plainchant.protocols.variants import Replacement, Variant

from ..mutating import Applied, Mutants, Row, look_for_seeds
from ..sweeping import ordinary
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


@mutant("late packets are thrown away where time is soft", Ring, "fresh")
def _throws_away(self: Ring, source: str, at: int, kind: str) -> bool:
    declared, self.parameters = self.parameters, dataclasses.replace(self.parameters, timing="hard")
    is_fresh = _FRESH(self, source, at, kind)
    self.parameters = declared
    return is_fresh


_FRESH = Ring.fresh


# --- turns and crashes (4.1 to 4.3) -----------------------------------------------------------------------------------


def _nothing_more(ring: Ring) -> Here:
    """The answer of a member that knows of nothing more."""
    return Here(ring.group, ring.name, ring.heard_visit, ring.heard_visit, "", 0, (), ring.number)


def _goes_by_itself(self: Inquiry) -> None:
    """No member is asked; it is as if one had answered that it knows of nothing."""
    self.is_open = True
    self.answers.clear()
    self.answers[""] = _nothing_more(self._ring)
    self.decide()


mutant("nobody is asked where the token is", Inquiry, "ask")(_goes_by_itself)
mutant("everyone times out P after its own turn", Inquiry, "ask")(_goes_by_itself)


@mutant("everyone times out P after its own turn", Ring, "_arm")
def _after_own_turn(self: Ring) -> None:
    if self.name and not self._phase and self.me in self.ring:
        self.set_due(TOKEN, max((self._spoke_at or self.heard_at) + self.rotation, self.host.now))


@mutant("all wait for the token equally long", Interface, "patience")
def _no_distance(self: Interface, holds: Sequence[int]) -> int:
    return 4 * (holds[0] + self.delay_max + self.slack)


@mutant("all silent members are eliminated", Inquiry, "silent")
def _all_silent(self: Inquiry, path: Sequence[ProcessId]) -> list[ProcessId]:
    if not _SILENT(self, path):
        return []
    ring = self._ring
    return [
        process
        for process in ring.ring
        if process != ring.me and ((beat := ring.beats.get(process)) is None or beat.visit <= ring.visit)
    ]


_SILENT = Inquiry.silent


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


@mutant("an elimination names only what its sender has", Inquiry, "_last_of")
def _own_vector(self: Inquiry, process: ProcessId) -> int:
    order = self._ring.order
    assert order is not None
    return order.seqs.get(process, self._ring.parameters.numbers - 1)


@mutant("the deaf does not halt", Inquiry, "decide")
def _deaf_goes_on(self: Inquiry) -> None:
    if not self.answers:
        self.answers[""] = _nothing_more(self._ring)
    _DECIDE(self)


_DECIDE = Inquiry.decide


@mutant("who does not hear itself goes on", Ring, "_check_own")
def _never_unheard(self: Ring) -> None:
    self._own_heard = self.visit
    _CHECK_OWN(self)


_CHECK_OWN = Ring._check_own


@mutant("one's own lost packets are not brought back", Gaps, "bring_back")
def _not_brought_back(self: Gaps) -> None:
    """They come by the network or not at all."""


@mutant("a minority goes on", Inquiry, "_may_go_on")
def _may_always_go_on(self: Inquiry, silent: Sequence[ProcessId]) -> bool:
    return True


@mutant("r = 0: who stands alone with what it has heard goes on", Inquiry, "_stands_alone")
def _never_alone(self: Inquiry, silent: Sequence[ProcessId]) -> bool:
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


# --- one medium for all -----------------------------------------------------------------------------------------------


@mutant("all ask at once", Inquiry, "_make_way")
@mutant("all ask, and there is no time for answers", Inquiry, "_make_way")
def _no_way_made(self: Inquiry, source: ProcessId, *, is_ahead: bool) -> None:
    """A member asks though one before it does so already."""


@mutant("there is no time for answers", Interface, "probe")
@mutant("all ask, and there is no time for answers", Interface, "probe")
def _round_trip(self: Interface, ring: Sequence[ProcessId]) -> int:
    return 2 * self.delay_max + self.slack


@mutant("all answers are whole", Inquiry, "_answer")
def _whole(self: Inquiry, source: ProcessId, where: Where) -> None:
    _ANSWER(self, source, msgspec.structs.replace(where, whole=True))


_ANSWER = Inquiry._answer


@mutant("the deaf are answered at once", Inquiry, "_stands_still")
def _always_still(self: Inquiry, source: ProcessId, where: Where) -> bool:
    return True


def _never_silent(self: Ring) -> bool:
    return False


mutant("a ring of one speaks before there is a group", Ring, "_is_silent")(property(_never_silent))


def _looks_at_the_token_alone(self: Ring) -> bool:
    return self._spoke_at is None or self.host.now > self.due.get(TOKEN, self.host.now) + self.interface.slack


mutant("a process that wakes up takes the first token that it finds", Ring, "_may_have_slept")(
    property(_looks_at_the_token_alone)
)


@mutant("a turn begins with the first copy of the heartbeat", Ring, "_take_token")
def _takes_at_once(self: Ring, beat: Beat) -> None:
    self.take_turn("token", beat.visit + 1, beat.slot)


@mutant("each copy of a question is answered as often as a heartbeat is sent", Inquiry, "_answer")
def _repeats(self: Inquiry, source: ProcessId, where: Where) -> None:
    for _ in range(self._ring.parameters.heartbeats):
        _ANSWER(self, source, where)


@mutant("an answer counts only while it is waited for", Inquiry, "answered")
def _only_in_time(self: Inquiry, source: ProcessId, here: Here) -> None:
    if self.is_open and here.asked == self._ring.heard_visit:
        _ANSWERED(self, source, here)


_ANSWERED = Inquiry.answered


@mutant("a joiner takes no offer", Entrance, "refused")
def _takes_no_offer(self: Entrance, packet: Refuse) -> None:
    if packet.ring == self._asked:
        self._fail(packet.text)


@mutant("a ring that is to stay is forgotten between two requests", Entrance, "_hears_better")
def _forgets_soon(self: Entrance, rotation: int) -> None:
    _HEARS_BETTER(self, 0)


_HEARS_BETTER = Entrance._hears_better


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
    with AT_NO_DOOR.applied():
        word = _RECLAIM(self)
    self._asked = asked
    return word


_RECLAIM = Sponsor._reclaim
AT_NO_DOOR = Variant("no process knocks", (Replacement(Entrance, "knockers", lambda self: ()),))


mutant("joiners knock at once, and often", Interface, "crowd")(property(lambda self: 0))


# --- times and admission (4.1, section 5) -----------------------------------------------------------------------------


@mutant("P counts n - 1 hops and no timeouts (equation 4.2)", Interface, "safe")
def _printed(self: Interface, ring: Sequence[ProcessId], holds: Sequence[int]) -> int:
    return self.printed(ring, holds)


def _without(*names: str) -> Any:
    def overhead(
        parameters: Parameters, interface: Interface, max_packet: int, ring: Sequence[ProcessId] = ()
    ) -> tuple[Item, ...]:
        return tuple(item for item in _OVERHEAD(parameters, interface, max_packet, ring) if not item.name.startswith(names))

    return overhead


_OVERHEAD = analysis.overhead
mutant("admission without the membership stream", analysis, "overhead")(_without("membership"))
mutant("admission without retransmissions", analysis, "overhead")(_without("retransmission"))
mutant("admission without anything that the ring sends", analysis, "overhead")(_without(""))


@mutant("admission under the old P after a vote", Admission, "rotation")
def _old_rotation(self: Admission, period: int, ring: Sequence[ProcessId] = (), hold: int = 0) -> None:
    known = self._turn.rotation if self._turn is not None and self._is_in else period
    _ROTATION(self, min(period, known), ring, hold)


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
    return MUTANTS.with_needed([*ordinary(times, sweep.SEEDS, sweep.SHORT), *sweep.REGRESSIONS])


if __name__ == "__main__":
    look_for_seeds("tests.protocols.rtcast.mutants", sys.argv[1:])
