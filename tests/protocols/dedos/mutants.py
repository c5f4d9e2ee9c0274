"""Mutants of dedos: one rule of ``plainchant_papers.dedos.variants`` taken out, or a function in place of another rule.

Those named after an *erratum* do what the pseudo-code of the paper prints (``docs/errata.md``); a *trap* is what it overlooks.
``mutants.toml`` beside this file says what catches each (:mod:`..mutating`). After a change of the protocol or the sweep:

    python -m tests.protocols.dedos.mutants            # look for seeds that catch, and rewrite mutants.toml
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from plainchant.core.memory import Copy, Nap, Operate, Procedure, Request
from plainchant.core.model import ProcessId
from plainchant.core.names import place_of
from plainchant.protocols.dedos import box as boxes
from plainchant.protocols.dedos import relay_steps
from plainchant.protocols.dedos.box import Box, Element
from plainchant.protocols.dedos.distributor import Distributor, Peer
from plainchant.protocols.dedos.engine import Dedos
from plainchant.protocols.dedos.intra import Intra
from plainchant.protocols.dedos.member import Member, Reading
from plainchant.protocols.dedos.nodes import Nodes
from plainchant.protocols.dedos.packets import Change, Held, Highest, SyncInit
from plainchant.protocols.dedos.presence import Presence
from plainchant.protocols.dedos.relay import Relay
from plainchant_papers.dedos.variants import RULES

from ..mutating import Applied, Mutants, Row, look_for_seeds
from ..sweeping import ordinary
from . import scripted, sweep

BETWEEN = tuple(dict.fromkeys(family for family in sweep.FAMILIES if not family.endswith("within")))
WITHIN = ("within", "primitives within")
CRASHES = ("crashes", "primitives", "nodes", "boxes", "pressure")


def attempt(row: Row, applied: Applied) -> list[str]:
    if "scenario" in row:
        made = scripted.SCENARIOS[row["scenario"]]
        with applied():
            violated = made.run().violated
        # Where no process that hangs is excluded, one that is taken for crashed is so by its script.
        return violated if made.excludes else [broken for broken in violated if broken != "halted"]
    with applied():
        return sweep.run(row["seed"]).violated


MUTANTS = Mutants(Path(__file__).with_name("mutants.toml"), attempt, searched=12 * sweep.SEEDS)


def without(name: str, *rules: str, families: Sequence[str] = BETWEEN) -> None:
    """A mutant without these rules of the paper's list."""
    MUTANTS.add(name, *(RULES[rule] for rule in rules), likely=lambda seed: sweep.family_of(seed) in families)


def mutant(name: str, owner: Any, attribute: str, families: Sequence[str] = BETWEEN) -> Callable[[Any], Any]:
    """A mutant in which a function replaces a rule that has no name."""
    return MUTANTS.replaces(name, owner, attribute, lambda seed: sweep.family_of(seed) in families)


def _answering(
    procedure: Generator[Request, Any, Any], name: str, leaves_out: Callable[[Operate], bool]
) -> Generator[Request, Any, Any]:
    """A procedure that leaves out some operations of a name, and goes on as if they had given True."""
    result: Any = None
    while True:
        try:
            request = procedure.send(result)
        except StopIteration as end:
            return end.value
        is_left_out = isinstance(request, Operate) and request.name == name and leaves_out(request)
        result = True if is_left_out else (yield request)


# --- the rules that have a name ---------------------------------------------------------------------------------------

without("trap: no elements are reserved", "reserve", families=("pressure",))
without("messages are stored before a box is restored", "restore_flags", families=("boxes", "primitives", *WITHIN))
without("receivers keep nothing", "restore_buffers", families=("boxes", "primitives", *WITHIN))
without("erratum 8: no own flag on what others restored", "own_flag", families=("boxes", "primitives", *WITHIN))
without("senders store into the active box only", "all_boxes", families=("boxes", "primitives"))
without("trap: idle receivers do not recover", "idle_recovery", families=("boxes", "pressure", *WITHIN))
without("erratum 9: who is gone is deleted from one box", "delete_everywhere", families=("boxes", "primitives", *WITHIN, "churn"))
without("erratum 9: who leaves restores nothing", "leave_restores", families=("churn", "boxes", *WITHIN))
without("erratum 12: messages without a number of the dead stay", "drop_unnumbered", families=CRASHES)
without("senders within a node keep nothing", "senders_keep", families=WITHIN)
without("who restores has its flag on what it only sent", "flag_of_read", families=WITHIN)
without("numbers begin anew in a box with nothing to restore", "numbers_go_on", families=WITHIN)
without("numbers are skipped before a box is restored", "skip_when_restored", families=WITHIN)
without("who joins keeps nothing of what is there", "joiner_keeps", families=WITHIN)
without("erratum 10: who joins has its P-flag in spare boxes", "spares_unset", families=WITHIN)
without("who leaves restores into the last box first", "leave_ascending", families=WITHIN)
without("elements are removed when the node has read them", "wait_for_all", families=("boxes", "nodes", "primitives"))
without("erratum 11: a node acknowledges beyond a gap", "contiguous", families=("boxes", "pressure", "nodes"))
without("erratum 1: a message may be numbered twice", "duplicates")
without("trap: no order of a sender's messages", "fifo")
without("erratum 5: acknowledgements go back", "maximum")
without("erratum 5: acknowledgements go back, and nobody asks again", "maximum", "tail")
without("trap: gaps after a recovery are not asked for", "gaps", families=("boxes", "primitives"))
without("what is early is discarded", "buffering")
without("erratum 3: what found no room is not asked for again", "full_is_asked_again", families=("pressure",))
without("erratum 11: a node without receivers does not acknowledge", "senderless_acks")
without("the last number is not said again", "tail")
without("trap: a new distributor loads from the highest numbers", "load_unread", families=CRASHES)
without("erratum 14: a new distributor does not wait for answers", "wait_for_answers", families=CRASHES)
without("trap: no epochs", "epochs", families=("pauses", "nodes", "crashes"))
without("trap: no fencing", "fencing", families=("pauses", "nodes"))
without("erratum 13: anybody who says something is up to date", "only_up_to_date", families=("pressure",))
without("trap: a new distributor does not know how far senders were", "rebuild_order", families=CRASHES)
without("erratum 12: the answer to who has died meanwhile is dropped", "late_sender", families=CRASHES)


# --- boxes ------------------------------------------------------------------------------------------------------------


@mutant("trap: the active box comes first", Box, "spares_first", ("primitives", "boxes", "churn"))
def _active_first(self: Box) -> Iterator[int]:
    return (copy for copy in range(self.copies) if copy not in self.dead)


@mutant("erratum 15: the element stays in Fset", boxes, "put", sweep.FAMILIES)
def _stays_free(copy: Copy, element: Element, stamp: int, listed: int, done: int = 0, place: int = 0) -> bool:
    stored = _PUT(copy, element, stamp, listed, done, place)
    for slot, entry in tuple(copy.entries()):
        if (entry.sender, entry.number, entry.kind) == (element.sender, element.number, element.kind):
            copy.put(slot, boxes.changed(entry, removed=True))
    return stored


_PUT = boxes.put


@mutant("erratum 9: the leaver's place is forgotten, not its flags", boxes, "delete", ("churn", *CRASHES))
def _keeps_flags(copy: Copy, process: ProcessId, *, drop: bool = True) -> int | None:
    place = boxes.place_of(copy, process)
    if place is not None:
        copy.disconnect(place)
    return place


def _restore(change: Callable[[Copy, int], None]) -> Any:
    def restore(copy: Copy, number: int, element: Element, mask: int) -> bool:
        before = boxes.numbered(copy)
        restored = _RESTORE(copy, number, element, mask)
        if number not in before:
            change(copy, number)
        return restored

    return restore


_RESTORE = boxes.restore


def _all_have_read(copy: Copy, number: int) -> None:
    there = boxes.numbered(copy).get(number)
    if there is not None:
        slot, entry = there
        copy.put(slot, boxes.changed(entry, done=entry.listed))


mutant("what one restores counts as read by all", boxes, "restore", ("boxes", "primitives"))(_restore(_all_have_read))


# --- members ----------------------------------------------------------------------------------------------------------


@mutant("erratum 15: receivers take the least number that is there", Member, "_read", ("boxes", "primitives", "nodes"))
def _least(self: Member, copy: Copy) -> Reading:
    found = _READ(self, copy)
    if found.status != "read" or found.elements or self.only_sends or self.pressed:
        return found
    connection = copy.connection(self.box.place)
    assert connection is not None
    after = self.last or connection.entry - 1
    for number, (slot, entry) in sorted(boxes.numbered(copy).items()):
        if number > after and boxes.receives(connection, number):
            copy.put(slot, boxes.changed(entry, done=entry.done | self.box.mask))
            return Reading("read", connection, ((number, boxes.element_of(copy, slot, entry)),), found.oldest)
    return found


_READ = Member._read


@mutant("who leaves does not wait for its messages' numbers", Member, "_wish_to_leave", ("churn", "pauses"))
def _leaves_at_once(self: Member) -> Procedure:
    yield from _answering(_WISH_TO_LEAVE(self), "look", lambda request: True)


_WISH_TO_LEAVE = Member._wish_to_leave


# --- relays -----------------------------------------------------------------------------------------------------------


@mutant("erratum 2: HIGHEST is answered to oneself", Relay, "highest", ("steady", "crashes", "nodes"))
def _to_itself(self: Relay, source: ProcessId, packet: Highest) -> None:
    _HIGHEST(self, self.host.me, packet)


_HIGHEST = Relay.highest


@mutant("erratum 3: the next number stays", Relay, "_receive", ("steady",))
def _stays(self: Relay, oldest: int, elements: Iterable[tuple[int, Element]]) -> None:
    _RECEIVE(self, oldest, [(number, element) for number, element in elements if number == 1])


_RECEIVE = Relay._receive


def _place(change: Callable[[Relay, Copy, int, bool], None]) -> Any:
    """Storing, after which something is changed."""

    def place(
        self: Relay, copy: Copy, *, number: int, element: Element, change: Change | None, is_local: bool, is_active: bool
    ) -> str:
        result = _PLACE(self, copy, number=number, element=element, change=change, is_local=is_local, is_active=is_active)
        if result == "stored":
            changes(self, copy, number, is_local)
        return result

    changes = change
    return place


_PLACE = Relay._place


def _to_free(self: Relay, copy: Copy, number: int, is_local: bool) -> None:
    there = boxes.numbered(copy).get(number)
    if is_local and there is not None:
        copy.put(there[0], boxes.changed(there[1], removed=True))


def _only_remote(self: Relay, copy: Copy, number: int, is_local: bool) -> None:
    there = boxes.numbered(copy).get(number)
    has_receivers = any(connection.entry for _, connection in copy.connections())
    if is_local and there is not None and not has_receivers:
        copy.put(there[0], boxes.changed(there[1], stamp=0))


mutant("erratum 4: a local sender's element goes to Fset", Relay, "_place")(_place(_to_free))
mutant("erratum 4: a node without receivers does not store its numbers", Relay, "_place")(_place(_only_remote))


@mutant("a local sender's number is written into the active box only", Relay, "_store_one", ("boxes", "primitives"))
def _active_only(self: Relay, number: int, element: Element) -> Generator[Request, Any, str]:
    stored = yield from _answering(_STORE_ONE(self, number, element), "store", lambda request: request.copy != self.box.active)
    return str(stored)


_STORE_ONE = Relay._store_one


@mutant("a promise is not written down", Relay, "_answer", ("crashes", "pauses", "nodes", "primitives"))
def _by_word(self: Relay, packet: Highest) -> Procedure:
    yield from _answering(_ANSWER(self, packet), "promise", lambda request: True)


_ANSWER = Relay._answer


@mutant("numbers that nobody has are not void", relay_steps, "turn", CRASHES)
def _not_void(copy: Copy, *, packet: SyncInit) -> None:
    header = copy.header()
    oldest = max(header.oldest, packet.start)
    copy.put_header(boxes.changed(header, oldest=oldest, epoch=packet.epoch, promised=max(header.promised, packet.epoch)))


@mutant("a relay that is new asks nobody", Relay, "_report", CRASHES)
def _silent(self: Relay) -> None:
    self.wants_report = False


@mutant("erratum 9: DeleteMember has no branch for senders", Relay, "_delete", CRASHES)
def _only_receivers(self: Relay, process: ProcessId) -> Procedure:
    if place_of(process) in self.parameters.senders:
        yield Nap(self.host.clock())
        return
    yield from _DELETE(self, process)


_DELETE = Relay._delete


@mutant("nobody deletes who has crashed", Relay, "_delete", CRASHES)
def _not_deleted(self: Relay, process: ProcessId) -> Procedure:
    yield Nap(self.host.clock())


# --- distributors -----------------------------------------------------------------------------------------------------


@mutant("erratum 5: the message that was acknowledged last is kept", Distributor, "_purge", ("pressure",))
def _keeps_last(self: Distributor) -> None:
    oldest = min((peer.acked for peer in self.peers.values()), default=self.next - 1)
    if oldest > self.oldest:
        self.oldest = oldest
        for number in [number for number in self.history if number < oldest]:
            del self.history[number]
        self._end_sync()
        self._change()
        self._number_early()


@mutant("erratum 6: nobody is told of the synchronisation phase", Distributor, "_start_sync", ("pressure",))
def _no_sync_init(self: Distributor) -> None:
    if not self.syncing:
        self.flush()
        self.syncing = True
        self.host.record("sync", self.group, stage="begin", last=self.next - 1, oldest=self.oldest)
        for peer in self.peers.values():
            peer.up_to_date = False


@mutant("erratum 6: there is no synchronisation phase", Distributor, "_start_sync", ("pressure",))
def _no_sync(self: Distributor) -> None:
    self.flush()


@mutant("erratum 14: a node with another relay is another node", Distributor, "replace", ("crashes", "boxes", "primitives"))
def _another(self: Distributor, node: str, relay: ProcessId) -> None:
    before = self.peers.get(node)
    if before is not None and not self.starting:
        self.peers[before.relay] = Peer(before.relay, before.relay, before.life, before.acked, before.next)
    _REPLACE(self, node, relay)


_REPLACE = Distributor.replace


@mutant("erratum 14: what is silent has everything", Distributor, "_load", CRASHES)
def _silent_has_all(self: Distributor, kept: dict[str, tuple[ProcessId, Held]]) -> None:
    highest = max(held.acked for _, held in kept.values())
    everything = {
        node: (relay, msgspec.structs.replace(held, acked=max(highest, held.acked))) for node, (relay, held) in kept.items()
    }
    _LOAD(self, everything)


_LOAD = Distributor._load


@mutant("crashes are no changes", Distributor, "_lose_member", CRASHES)
def _no_change(self: Distributor, name: ProcessId, why: str) -> None:
    del self.members[name]


@mutant("a node that is gone is waited for", Distributor, "lose", ("nodes", "lans", "pressure"))
def _waited_for(self: Distributor, node: str, *more: Any, **settings: Any) -> None:
    if self.starting:
        _LOSE(self, node, *more, **settings)


_LOSE = Distributor.lose


@mutant("a distributor that was stopped goes on at once", Distributor, "_look_up", ("pauses",))
def _goes_on_at_once(self: Distributor) -> None:
    self._ran_at = self.host.now


@mutant("answers of nodes that are gone count", Distributor, "answered", ("pauses", "nodes"))
def _counts_the_gone(self: Distributor, source: ProcessId, held: Held) -> None:
    relays = self.relays
    self.relays = lambda: {held.node: source, **relays()}
    _ANSWERED(self, source, held)
    self.relays = relays


_ANSWERED = Distributor.answered


@mutant("who is out of a group and silent is not told", Distributor, "estranged", ("pauses",))
def _not_told(self: Distributor, node: str, relay: ProcessId) -> None:
    pass


@mutant("a node that has started again is lost with its former life", Distributor, "lose", ("nodes", "pressure", "lans"))
def _lost_again(self: Distributor, node: str, why: str, life: int | None = None) -> None:
    _LOSE(self, node, why, None)


# --- nodes ------------------------------------------------------------------------------------------------------------


@mutant("a node without networked processes goes on", Dedos, "_look_round", ("crashes", "nodes", "lans", "boxes"))
def _goes_on(self: Dedos, directory: Mapping[str, tuple[ProcessId, ...]], seats: tuple[ProcessId, ...]) -> None:
    with mock.patch.object(self.host, "halt"):
        _LOOK_ROUND(self, directory, seats)


_LOOK_ROUND = Dedos._look_round


@mutant("presents go over the first network only", Nodes, "_say", ("lans",))
def _first_network(self: Nodes, to: tuple[ProcessId, ...]) -> None:
    with mock.patch.object(self, "_parameters", dataclasses.replace(self._parameters, lans=1)):
        _SAY(self, to)


_SAY = Nodes._say


@mutant("the network is never changed", Nodes, "lan", ("lans",))
def _never_changed(self: Nodes) -> int:
    return 0


@mutant("a node is gone after one round", Nodes, "_leaving", BETWEEN)
def _one_round(self: Nodes, time: int) -> Any:
    with mock.patch.object(self, "_patience", 0):
        return _LEAVING(self, time)


_LEAVING = Nodes._leaving


@mutant("a round that a newcomer asks for counts as missed", Nodes, "_leaving", BETWEEN)
def _each_round(self: Nodes, time: int) -> Any:
    with mock.patch.object(self, "_patience", (self._parameters.misses - 1) * self._pi):
        return _LEAVING(self, time)


@mutant("a silent node is not asked", Nodes, "_ask", BETWEEN)
def _not_asked(self: Nodes) -> None:
    pass


@mutant("a process is known to all nodes as soon as it has a seat", Nodes, "start", BETWEEN)
def _known_at_once(self: Nodes, life: int, relay: ProcessId, networked: tuple[ProcessId, ...]) -> None:
    self._named()
    _START(self, life, relay, networked)


_START = Nodes.start


@mutant("a node that is known by name only is not asked", Nodes, "_unheard", BETWEEN)
def _unasked(self: Nodes) -> list[Any]:
    return []


@mutant("a node counts for nothing until it is in a processor group", Nodes, "will_be", BETWEEN)
def _counts_for_nothing(self: Nodes, process: ProcessId) -> bool:
    return False


@mutant("nodes that are silent stay", Nodes, "_leaving", ("nodes", "lans"))
def _for_ever(self: Nodes, time: int) -> Any:
    return []


# --- within a node ----------------------------------------------------------------------------------------------------


@mutant("a number is given before all P-flags are set", Intra, "_may_send", WITHIN)
def _sends_early(self: Intra, copy: Copy) -> bool:
    return len(tuple(copy.entries())) < self.parameters.elements


@mutant("erratum 9: nobody deletes who has failed within a node", Intra, "_delete_failed", WITHIN)
def _stays_within(self: Intra, process: ProcessId) -> Procedure:
    yield Nap(self.host.clock())
    self.deleting -= 1


@mutant("who joins is not listed in spare boxes", Intra, "_list", WITHIN)
def _unlisted(self: Intra) -> Generator[Request, Any, None]:
    yield Nap(self.host.clock())


# --- liveness of processes ------------------------------------------------------------------------------------------------

HUNG = ("hung", "pauses")


@mutant("processes that hang are not excluded", Presence, "_is_silent", HUNG)
def _never_silent(self: Presence, length: int) -> bool:
    return False


@mutant("a relay that was excluded goes on", Box, "_is_served_by_me", HUNG)
def _always_served(self: Box, copy: Copy) -> bool:
    return True


@mutant("a process that was excluded goes on", Box, "_is_listed", HUNG)
def _always_listed(self: Box, number: int, copy: Copy) -> bool:
    return True


def _never_stale(self: Dedos) -> bool:
    return False


mutant("a relay that was stopped speaks before it has looked", Dedos, "_is_stale", HUNG)(property(_never_stale))


@mutant("applications may stop reading", Box, "is_overdue", HUNG)
def _never_overdue(self: Box, unread: bool) -> bool:
    return self.parameters.reach == "node" and _IS_OVERDUE(self, unread)


@mutant("applications within a node may stop reading", Box, "is_overdue", HUNG)
def _never_overdue_within(self: Box, unread: bool) -> bool:
    return self.parameters.reach != "node" and _IS_OVERDUE(self, unread)


_IS_OVERDUE = Box.is_overdue


@mutant("to a joiner all members are new", Member, "_joined", ("churn", "hung"))
def _all_are_new(self: Member, change: Change) -> tuple[ProcessId, ...]:
    return tuple(name for name in change.members if name not in self.members)


@mutant("a joiner within a node says which members are new", Intra, "_is_older_there", (*WITHIN, "hung"))
def _no_older(self: Intra, copy: Copy) -> bool:
    return False


@mutant("members that only send read no changes", Member, "_read_changes")
def _reads_no_changes(self: Member, copy: Copy, there: Any) -> tuple[tuple[int, Element], ...]:
    return ()


@mutant("a fenced mailbox is not made anew", Relay, "_renew", HUNG)
def _not_renewed(self: Relay) -> Generator[Request, Any, None]:
    yield Nap(self.host.clock())


@mutant("a distributor that has nothing to do looks as seldom as it asks again", Distributor, "_set_timer", HUNG)
def _only_retries(self: Distributor) -> None:
    self.host.set_timer(("distributor", self.group), self.host.now + self.parameters.retry)


# --- the table --------------------------------------------------------------------------------------------------------


def seeds(times: int = 1) -> list[int]:
    """The seeds of a sweep that is ``times`` as long as the ordinary one, and those that mutants need."""
    return MUTANTS.with_needed([*ordinary(times, sweep.SEEDS, sweep.SHORT), *sweep.REGRESSIONS])


if __name__ == "__main__":
    look_for_seeds("tests.protocols.dedos.mutants", sys.argv[1:])
