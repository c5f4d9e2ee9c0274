"""``dedos`` without one of its rules, or with a choice of the paper in place of ours: what claims compare the protocol with.

:data:`RULES` has a variant for each rule that makes the protocol correct, by the rule's name. A rule is an erratum of the paper
or one of its traps, and ``docs/errata.md`` has the runs that show them. :data:`CHOICES` has other variants. None is for use. What
travels to a task is the name.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, Final

from plainchant.core.memory import Connection, Copy, Entry, Header, Layout, Nap, Port, Request
from plainchant.core.model import ProcessId
from plainchant.protocols.dedos import box as boxes
from plainchant.protocols.dedos import intra_steps as steps
from plainchant.protocols.dedos import relay_steps
from plainchant.protocols.dedos.box import Box, Element
from plainchant.protocols.dedos.distributor import Distributor, Peer
from plainchant.protocols.dedos.engine import Dedos
from plainchant.protocols.dedos.intra import Intra
from plainchant.protocols.dedos.member import Member
from plainchant.protocols.dedos.nodes import Appeared, Gone, Nodes, NodesEvent
from plainchant.protocols.dedos.packets import Held, Said
from plainchant.protocols.dedos.ports import Ports
from plainchant.protocols.dedos.relay import Relay
from plainchant.protocols.variants import Variant, Variants

from ..observe import constants

RULES: Final = Variants()  # By the name of the rule that is taken out.
CHOICES: Final = Variants()

# The rules as they are built, for variants that change only a part of them.
_RESTORE = boxes.restore
_SET_PRESENT = boxes.set_present
_BE_PRESENT = steps.be_present
_NAP = Member._nap
_READ_ONCE = Intra._read_once
_START_RECOVERY = steps.start_recovery
_IN_SPARE_BOX = Intra._in_spare_box
_SPARES = Intra._spares
_PUT_OFF = Relay._put_off
_MISSING = Relay._missing
_FORGET = Relay._forget
_COUNT_ACKED = relay_steps.count_acked
_CONNECT = Ports.connect
_NODES_CHANGED = Dedos._nodes_changed

constants(
    RULES,
    ("restore_flags", boxes, "accepts_new", True), ("restore_flags", steps, "accepts_new", True),
    # What was read or sent is in the mailbox alone.
    ("restore_buffers", Member, "_keep", None), ("restore_buffers", Intra, "_keep", None),
    ("senders_keep", Intra, "_keep_sent", None),
    ("own_flag", Intra, "_flag", 0),
    ("skip_when_restored", Intra, "_may_read", True),
    ("joiner_keeps", Member, "_earlier", ()),
    ("duplicates", Distributor, "_is_numbered", False),
    ("tail", Distributor, "_repeat_last", None),  # What was lost at the end stays lost.
    ("epochs", Relay, "_listens_to", True), ("epochs", Relay, "_refuses", False),
    # A node that was taken for crashed goes on.
    ("fencing", Distributor, "_must_halt", False), ("fencing", Distributor, "_went_along", True),
    ("fencing", Distributor, "estranged", None), ("fencing", Nodes, "_has_returned", False),
    ("only_up_to_date", Distributor, "_has_caught_up", True),
    ("late_sender", Relay, "_stores_for_gone", False),
)  # fmt: skip


def variant(*names: str) -> Variant:
    """The protocol without these rules, and with these other choices; no names: the protocol itself."""
    return Variants({**CHOICES, **RULES}).together(*names)


def without(rules: Mapping[str, bool]) -> Variant:
    """The protocol without the rules that are False here."""
    return RULES.together(*(name for name, is_kept in rules.items() if not is_kept))


# Within a node
@RULES.replaces("reserve", Member, "_is_element_left")
def _any_element(self: Member, copy: Copy, waiting: int) -> bool:
    return len(tuple(copy.entries())) < self.parameters.elements


@RULES.replaces("reserve", Relay, "_is_full")
def _nothing_reserved(self: Relay, copy: Copy, number: int) -> bool:
    return len(tuple(copy.entries())) >= self.parameters.elements


@RULES.replaces("own_flag", boxes, "restore")
def _restores_only(copy: Copy, number: int, element: Element, mask: int) -> bool:
    return _RESTORE(copy, number, element, 0 if boxes.find(copy, number, element) is not None else mask)


@RULES.replaces("own_flag", boxes, "set_present")
def _present_without_flags(copy: Copy, place: int, last: int, oldest: int) -> Header:
    return _SET_PRESENT(copy, place, 0, oldest)


@RULES.replaces("own_flag", steps, "be_present")
def _present_within_without_flags(copy: Copy, place: int, last: int) -> Header:
    return _BE_PRESENT(copy, place, 0)


@RULES.replaces("all_boxes", Box, "stores_into")
@RULES.replaces("delete_everywhere", Box, "deletes_from")
def _active_box_only(self: Box) -> list[int]:
    return [self.active]


@RULES.replaces("idle_recovery", Member, "_nap")
def _naps_for_ever(self: Member, soon: bool) -> Nap:
    if soon:
        return _NAP(self, soon)
    latest = self.host.clock() + (1 << 61)
    return Nap(latest, latest, self.group)


@RULES.replaces("idle_recovery", Intra, "_read_once")
def _idle_while_pressed(self: Intra, news: bool) -> Generator[Request, Any, bool]:
    if self.pressed:
        yield self._nap()
        return news
    return (yield from _READ_ONCE(self, news))


@RULES.replaces("leave_restores", Member, "_restore_into_spares")
@RULES.replaces("leave_restores", Intra, "_restore_into_spares")
def _restores_nothing(self: Member | Intra) -> Generator[Request, Any, None]:
    yield from ()


@RULES.replaces("drop_unnumbered", Relay, "_delete_from")
def _keeps_unnumbered(self: Relay, copy: Copy, *, process: ProcessId) -> int | None:
    return boxes.delete(copy, process, drop=False)


@RULES.replaces("flag_of_read", Intra, "_flag")
def _flag_on_all(self: Intra, number: int) -> int:
    return 0 if self.only_sends else self.box.mask


@RULES.replaces("numbers_go_on", steps, "start_recovery")
def _starts_anew(copy: Copy, place: int, connection: Connection, known: Header) -> Header:
    before = copy.header().next
    _START_RECOVERY(copy, place, connection, known)
    copy.put_header(boxes.changed(copy.header(), next=before))
    return copy.header()


@RULES.replaces("numbers_go_on", steps, "be_present")
def _present_anew(copy: Copy, place: int, last: int) -> Header:
    before = copy.header().next
    _BE_PRESENT(copy, place, last)
    copy.put_header(boxes.changed(copy.header(), next=before))
    return copy.header()


@RULES.replaces("joiner_keeps", Intra, "_earlier")
def _nothing_earlier_within(self: Intra, copy: Copy) -> list[tuple[int, Element]]:
    return []


@RULES.replaces("joiner_keeps", Distributor, "_first_for_joiner")
def _only_later(self: Distributor) -> int:
    return self.next


@RULES.replaces("spares_unset", Intra, "_in_spare_box")
def _present_in_spares(self: Intra) -> Connection:
    return boxes.changed(_IN_SPARE_BOX(self), present=True)


@RULES.replaces("leave_ascending", Intra, "_spares")
def _last_box_first(self: Intra) -> list[int]:
    return _SPARES(self)[::-1]


@RULES.replaces("wait_for_all", Relay, "_removable")
def _read_here(self: Relay) -> int:
    return max(self.oldest, self.acked + 1)


@RULES.replaces("contiguous", relay_steps, "count_acked")
def _beyond_gaps(copy: Copy, there: dict[int, tuple[int, Entry]], oldest: int, next_: int) -> int:
    done = [number for number, (_, entry) in there.items() if not entry.listed & ~entry.done]
    return max(done, default=oldest - 1)


# Between nodes


@RULES.replaces("duplicates", Distributor, "_next_of")
def _also_again(self: Distributor, sender: ProcessId, early: dict[int, Element]) -> int | None:
    number = self.expected.get(sender, 1)
    return number if number in early else min(early) if min(early) < number else None


@RULES.replaces("fifo", Distributor, "_next_of")
def _as_they_come(self: Distributor, sender: ProcessId, early: dict[int, Element]) -> int | None:
    return next(iter(early))


@RULES.replaces("maximum", Distributor, "_count")
def _last_said(self: Distributor, peer: Peer, packet: Said) -> None:
    peer.acked, peer.next = packet.acked, packet.next
    self._purge()


@RULES.replaces("gaps", relay_steps, "first_missing")
def _after_highest(there: dict[int, tuple[int, Entry]], oldest: int) -> int:
    return max(there) + 1 if there else oldest


@RULES.replaces("buffering", Relay, "_keeps")
def _only_next(self: Relay, number: int) -> bool:
    return number >= self.next and number == self.next + len(self.early)


def _dropped(relay: Relay) -> set[int]:
    """The numbers for which a relay found no room, and which it does not ask for again."""
    dropped: set[int] = vars(relay).setdefault("dropped", set())
    return dropped


@RULES.replaces("full_is_asked_again", Relay, "_put_off")
def _drop(self: Relay, number: int, why: str) -> None:
    _PUT_OFF(self, number, why)
    if why == "full":
        del self.early[number]
        _dropped(self).add(number)


@RULES.replaces("full_is_asked_again", Relay, "_missing")
def _not_dropped(self: Relay) -> Iterator[int]:
    return (number for number in _MISSING(self) if number not in _dropped(self))


@RULES.replaces("full_is_asked_again", Relay, "_forget")
def _forget_dropped(self: Relay) -> None:
    _FORGET(self)
    _dropped(self).clear()


@RULES.replaces("senderless_acks", relay_steps, "count_acked")
def _receivers_only(copy: Copy, there: dict[int, tuple[int, Entry]], oldest: int, next_: int) -> int:
    has_receivers = any(connection.entry and not connection.only_sends for _, connection in copy.connections())
    return _COUNT_ACKED(copy, there, oldest, next_) if has_receivers else oldest - 1


@RULES.replaces("load_unread", Distributor, "_read_by_all")
def _in_all_mailboxes(self: Distributor, kept: dict[str, tuple[ProcessId, Held]]) -> int:
    return min(held.next for _, held in kept.values()) - 1


@RULES.replaces("wait_for_answers", Distributor, "_waits_for_answers")
def _one_answer(self: Distributor) -> bool:
    return not self.held and bool(self._unheard())


@RULES.replaces("rebuild_order", Distributor, "_expect")
def _expects_anything(self: Distributor, floors: dict[ProcessId, int]) -> None:
    self.expected = {}


# Other choices
@CHOICES.replaces("one distributor", Dedos, "_choose")
def _first_node(self: Dedos, group: str, relay: Any, tried: ProcessId) -> ProcessId:
    """The first node distributes all groups, however much it has to do."""
    alive = self._relays_alive()
    return alive[min(alive)]


@CHOICES.replaces("tight", Ports, "connect")
def _tight(self: Ports, group: str, layout: Layout) -> Generator[Request, Any, Port | str]:
    """A mailbox holds what the paper gives it; ours has room for what processes store at once."""
    slots = self._parameters.elements // layout.places
    return (yield from _CONNECT(self, group, Layout(layout.copies, layout.places, slots, layout.room)))


@CHOICES.replaces("told", Dedos, "_nodes_changed")
def _writes_down(self: Dedos, event: NodesEvent) -> None:
    """Not another choice: the process writes down what it is told of nodes, for :func:`told`."""
    where = event.node if isinstance(event, Gone) else event.state.node if isinstance(event, Appeared) else ""
    vars(self).setdefault("told", []).append((self.host.now, type(event).__name__, where))
    _NODES_CHANGED(self, event)


def told(engine: Dedos) -> list[tuple[int, str, str]]:
    """What a process was told of nodes in a run with variant ``told``: when, what, and of which node."""
    found: list[tuple[int, str, str]] = vars(engine).get("told", [])
    return found
