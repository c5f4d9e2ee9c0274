"""What a member does when the token does not come (4.3): it asks around, and eliminates its silent predecessors.

**Asking.** A member whose patience is over asks all others (``Where``). Each answers in short (``Here``): which turn it heard
last, whether that turn ended, and how far it has heard the members that the asker misses. If an answer shows more than the asker
knows, it asks that member for the whole, with the heartbeat and the change. So at most one of n answers is long, and the time
that all take on a shared medium is known and part of P: :meth:`~.interface.Interface.probe`, :meth:`~.interface.Interface.tale`.

**One asks at a time.** Members hear the question too. Those whose turns come after the asker's let it ask and have its turn
before they ask themselves. Otherwise sixteen members would ask one after the other, and their fifteen answers each would fill the
medium just when the asker begins its turn: its heartbeat is late, which is as good as lost.

**When an answer goes out at once.** While the ring stands still the medium is free, and an answer goes at once. A deaf member
asks while the ring turns. Then the medium belongs to the member whose turn it is, and each answers in its turn
(:meth:`Inquiry.pay`).

**Deciding.** When no member knows of a later turn, and none is alive whose turn it is, the asker's immediate silent predecessors
are dead (Fig. 5), and its turn begins with a change that eliminates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.model import ProcessId
from .packets import Change, Here, Where

if TYPE_CHECKING:
    from .ring import Ring
    from .turn import Turn

PROBE: Final = "probe"
TOKEN: Final = "token"
OWED: Final = 2  # Answers that a turn has time for; further askers ask again


class Inquiry:
    """One member's questions about the token, and its answers to those of others."""

    def __init__(self, ring: Ring) -> None:
        self._ring, self._host = ring, ring.host
        self.is_open = False  # Whether we have asked and wait for answers
        self.answers: dict[ProcessId, Here] = {}
        self._answered_at: dict[ProcessId, int] = {}
        self._wanted: ProcessId = ""  # The member that is to tell us all it knows
        self._asked_twice = False
        self._owed: dict[ProcessId, Where] = {}
        self._gave_way: tuple[ProcessId, int] = ("", 0)  # The last member that we let ask first, and our ``heard_visit`` then

    def reset(self) -> None:
        self.close()
        self._asked_twice = False
        self._owed.clear()

    def close(self) -> None:
        """The token has been heard of."""
        if self.is_open:
            self.is_open = False
            self._host.cancel_timer(PROBE)

    def begin(self) -> None:
        """Our patience is over."""
        self._asked_twice = False
        self.answers.clear()
        self.ask()

    def ask(self) -> None:
        """Asks all others."""
        ring = self._ring
        self.is_open = True
        self._wanted = ""
        others = tuple(process for process in ring.ring if process != ring.me)
        self._send(others, whole=False)
        ring.set_due(PROBE, self._host.now + ring.interface.probe(ring.ring))

    def _send(self, to: tuple[ProcessId, ...], *, whole: bool) -> None:
        ring = self._ring
        packet = Where(ring.group, ring.name, ring.heard_visit, ring.number, self._named(), whole)
        for _ in range(ring.parameters.heartbeats):
            self._host.send(to, packet)

    def _named(self) -> tuple[ProcessId, ...]:
        """The silent members that we ask about. A member that was stopped or is deaf misses all others; it names a few, or
        question and answers would take longer than P allows. The last is the one whose turn may not have ended; those between
        said nothing since their last turn."""
        silent, most = self.silent(self._ring.path()), self._ring.interface.silent
        return tuple(silent) if len(silent) <= most else (*silent[: most - 1], silent[-1])

    def answered(self, source: ProcessId, here: Here) -> None:
        ring = self._ring
        if here.ring != ring.name or ring.order is None or source not in ring.ring:
            return
        if here.change is not None and ring.me not in here.change.ring:
            # The ring turns without us. Such an answer comes in its sender's turn, when we have ceased to wait for it, or have
            # asked another question. Thrown away, it left a member that had been deaf for a while asking for ever.
            ring.glimpse(here.change)
            return
        if not self.is_open or here.asked != ring.heard_visit:
            return
        self.answers[source] = here
        self._answered_at[source] = self._host.now
        is_whole = here.beat is not None or here.change is not None
        if not is_whole and (here.ended or here.number > ring.number):
            if not self._wanted and self._knows_more(source, here):
                self._wanted = source
                self._send((source,), whole=True)
                ring.set_due(PROBE, max(ring.due[PROBE], self._host.now + ring.interface.tale(ring.ring)))
            return
        if here.change is not None and ring.parameters.retransmissions:
            ring.glimpse(here.change)
            if not ring.name:
                return
        if self._counts(source, here):
            self._adopt(source, here)

    def _counts(self, source: ProcessId, here: Here) -> bool:
        """Without retransmission what only others have heard cannot be had: only their number counts (:meth:`_stands_alone`)."""
        return bool(self._ring.parameters.retransmissions) or source == here.holder

    def _knows_more(self, source: ProcessId, here: Here) -> bool:
        ring = self._ring
        if here.number > ring.number:
            return True
        later = here.visit > ring.heard_visit or (here.visit == ring.heard_visit and here.ended and not ring.heard_end)
        return later and self._counts(source, here)

    def _adopt(self, source: ProcessId, here: Here) -> None:
        """Takes over what a member has heard and we have not."""
        ring = self._ring
        ring.note_highest(here.highest)
        if here.visit > ring.heard_visit:
            ring.hears_of(here.visit, here.holder, here.ago + self._host.now - self._answered_at[source])
        if here.beat is not None and here.beat.visit == here.visit and here.holder in ring.ring:
            ring.note_beat(here.holder, here.beat)

    def asked(self, source: ProcessId, where: Where) -> None:
        ring = self._ring
        if where.ring != ring.name or not ring.name or ring.order is None or ring.entrance.is_outside:
            return
        # One that has heard less than we have gets this time once: it may be deaf.
        again = where.visit < ring.heard_visit and self._gave_way == (source, ring.heard_visit)
        if ring.me not in where.silent and not again:
            self._make_way(source, is_ahead=where.visit > ring.heard_visit)
        if self._stands_still(source, where):
            # A question comes as often as a heartbeat is sent, and each copy of it is answered once: `probe` has time for that.
            self._answer(source, where)
        elif source in self._owed or len(self._owed) < OWED:
            self._owed[source] = where

    def _answer(self, source: ProcessId, where: Where) -> None:
        ring = self._ring
        heard = (where.visit, ring.heard_visit, ring.heard_holder, self._host.now - ring.heard_at, ring.highest_of(where.silent))
        beat = ring.beats[ring.heard_holder] if where.whole and ring.heard_end else None
        if beat is not None:  # without what else it told of
            beat = msgspec.structs.replace(beat, asks=(), change=None, voting=(), mentioned=())
        whole = (beat, ring.change if where.whole else None)
        self._host.send((source,), Here(ring.group, ring.name, *heard, ring.number, ring.heard_end, *whole))

    def _stands_still(self, source: ProcessId, where: Where) -> bool:
        """Whether no member speaks as far as we hear: then the medium is free for an answer."""
        ring = self._ring
        if where.visit >= ring.heard_visit or ring.successor(ring.heard_holder) == source:
            return True
        hold = ring.holds.get(ring.heard_holder, int(ring.parameters.hold))
        return self._host.now - ring.heard_at >= ring.interface.patience([hold])

    def _make_way(self, source: ProcessId, *, is_ahead: bool) -> None:
        """A member before us asks: it has the time to be answered and to have its turn, before we ask. It is before us if it
        misses the same turns as we do and is nearer to them; or if it knows of later turns and does not wait for ours."""
        ring = self._ring
        path = ring.path()
        if ring.in_turn or source not in ring.ring or not (is_ahead or source in self.silent(path)):
            return
        self.close()
        self._gave_way = source, ring.heard_visit
        between = path[path.index(source) :] if source in path else [source, *path]
        holds = [ring.holds.get(process, int(ring.parameters.hold)) for process in between]
        asking = ring.interface.probe(ring.ring) + ring.interface.tale(ring.ring)
        ring.set_due(TOKEN, self._host.now + asking + ring.interface.patience(holds))

    def pay(self, turn: Turn) -> None:
        """In our turn: answers members that asked while the ring turned, if time is left. Nothing promised waits for an
        answer."""
        owed, self._owed = self._owed, {}
        size = turn.sizes.tale
        for source, where in owed.items():
            if self._ring.interface.cost(size) <= turn.left:
                self._answer(source, where)
                turn.charge(size)

    def decide(self) -> None:
        """Whoever could answer has done so."""
        ring = self._ring
        if not self.is_open or ring.in_turn or ring.order is None:
            return
        self.is_open = False
        best = max(self.answers, key=lambda process: self.answers[process].visit, default="")
        if best and self.answers[best].visit > ring.heard_visit and self._counts(best, self.answers[best]):
            self._adopt(best, self.answers[best])  # Its whole answer was lost.
            return
        path = ring.path()
        silent = self.silent(path)
        waited, is_deaf = self._host.now - ring.heard_at, len(ring.ring) > 2 and not self.answers
        if any(process in self.answers for process in silent):
            # A member that is alive has its turn before us, and finds out itself.
            wait = ring.interface.patience([ring.holds.get(process, 0) for process in path])
            ring.set_due(TOKEN, self._host.now + wait)
        elif is_deaf and not self._asked_twice:
            self._asked_twice = True
            self.ask()
        elif is_deaf:
            ring.halt("deaf", f"{ring.me} asks where the token is, and nobody answers", waited=waited)
        elif not ring.parameters.retransmissions and self._stands_alone(silent):
            ring.omission([], f"{ring.me} has heard something else than most others of {', '.join(silent)}")
        elif not silent:
            ring.take_lost_token()
        elif not self._may_go_on(silent):
            base = list(ring.base)
            ring.halt("minority", f"{ring.me} hears only the smaller part of {ring.group}", silent=silent, base=base)
        else:
            self._eliminate(silent, waited)

    def _eliminate(self, silent: Sequence[ProcessId], waited: int) -> None:
        ring = self._ring
        last = tuple((process, self._last_of(process)) for process in silent)
        gone = tuple((process, number) for process, number in ring.out.items() if process not in ring.ring)
        found = {"processes": list(silent), "last": dict(last), "after": ring.heard_visit, "waited": waited}
        self._host.record("suspect", ring.group, **found, answers=list(self.answers))
        visit = ring.heard_visit + len(ring.path())
        staying = tuple(process for process in ring.ring if process not in silent)
        holds = tuple(ring.holds[process] for process in staying)
        change = Change(ring.number + 1, staying, holds, 0, ring.will_form, (*last, *gone), ring.heard_visit, by=ring.me)
        ring.take_turn("timeout", visit, False, change)

    def silent(self, path: Sequence[ProcessId]) -> list[ProcessId]:
        """The closure of immediate predecessors without a heartbeat (4.3): the members between us and the last one heard, and
        that one too if its turn did not end."""
        ring = self._ring
        has_ended = ring.heard_holder == ring.me or ring.heard_end
        return [process for process in reversed(path[has_ended:]) if process in ring.ring]

    def _stands_alone(self, silent: Sequence[ProcessId]) -> bool:
        """Without retransmission no member can make up for what a dead one sent to some only. A member that goes on by its own
        vector stops all that have more; so it stops itself if most have more than it, or most have less."""
        ring = self._ring
        order = ring.order
        assert order is not None
        more = less = 0
        for here in self.answers.values():
            highest = dict(here.highest)
            ahead = [order.ahead(highest[process], self._last_of(process)) for process in silent if process in highest]
            more += here.visit > ring.heard_visit or any(distance > 0 for distance in ahead)
            less += here.visit < ring.heard_visit or any(distance < 0 for distance in ahead)
        return 2 * max(more, less) > len(self.answers) + 1

    def _last_of(self, process: ProcessId) -> int:
        """The highest number of a member's packets that anybody has heard of; without retransmission, that we have ourselves."""
        ring = self._ring
        order = ring.order
        assert order is not None
        known = order.seqs.get(process, ring.parameters.numbers - 1)
        if not ring.parameters.retransmissions:
            while ring.gaps is not None and ring.gaps.waits(process, order.following(known)):
                known = order.following(known)
            return known
        highest = [seq for name, seq in ring.highest_of((process,)) if name == process]
        told = [seq for here in self.answers.values() for name, seq in here.highest if name == process]
        for seq in (*highest, *told):
            known = seq if order.ahead(seq, known) > 0 else known
        return known

    def _may_go_on(self, silent: Sequence[ProcessId]) -> bool:
        """Whether this part of the group goes on. Members count that were heard since our last turn, or answer now; of exactly
        half, the part with the first member of the ring."""
        ring = self._ring
        if ring.parameters.partitions == "any":
            return True
        base = ring.base or ring.ring
        heard = {ring.me, *self.answers} | {
            process for process, beat in ring.beats.items() if beat.visit > ring.visit and process not in silent
        }
        part = [process for process in base if process in heard]
        return 2 * len(part) > len(base) or (2 * len(part) == len(base) and base[0] in part)
