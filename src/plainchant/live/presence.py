"""Which processes there are: addresses, incarnations, and how a group begins.

Engines speak to process names, transports to addresses. Between them stands an address book, kept up to date by *hellos*. This
module does no I/O: it is given hellos and asks for hellos to be sent.

**Incarnations.** A process that comes back is a new one, with a new name: ``a``, then ``a#1``. It may not know that it was here
before, so each start draws a random *boot* number, which stands in every packet, and others remember which boot had which name.
A starting process says hello under the lowest name that it thinks free; a peer that knows that name under another boot says so,
and it takes the next one. There is time for that because names matter only once it enters a group. A packet counts only if its
boot is the one that its address's name is known under, and only if its sender knows us (else it may be meant for an earlier
incarnation). What is sent to a name that has a successor goes nowhere.

**Beginning.** A group is formed by all its first members together, or joined. A process that wants to enter asks all others. If
one is a member, it joins. Otherwise the first member with the least name, once it has heard all of them wait for the group,
*binds*: it names the exact incarnations that form it, in the order that it was told. (Others may have been told another order.)
A first member that hears of such a list, itself in it, binds to it too, for ever, and says so; one that has heard from all in
the list that they are bound forms the group. (The list's maker is bound to it.) No process is bound to two lists, so there is
one first view, whatever is lost or dies; a process that dies after it was bound is excluded by the protocol. A process whose
list can never be complete gives up when its time is over.

**Bounds.** Any process may say hello, so names, incarnations, groups and lists are bounded, and so are the *strangers* in the
address book, which the configuration does not name. When there are too many, one that has not shown that it knows us makes room.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from ..core.model import Form, GroupId, Join, Packet, ProcessId
from ..core.names import is_place, place_of, process_name
from .addresses import format_address, is_numeric
from .refusals import Refusals
from .transport import Address

OUTSIDE: Final = "outside"
WAITING: Final = "waiting"
BOUND: Final = "bound"
JOINING: Final = "joining"
MEMBER: Final = "member"

SILENT: Final = 5  # ticks without a hello after which a peer is reported as gone


HELLO_TAG: Final = 120
LARGEST_HELLO: Final = 65_507  # bytes of a hello, as it comes: those of a datagram
BOOT_BYTES: Final = 4
LONGEST_NAME: Final = 50  # bytes of the name of a place or a group
LARGEST_INCARNATION: Final = 1_000_000
MOST_GROUPS: Final = 1024  # groups in a hello
MOST_FIRST: Final = 1024  # first members of a group
LONGEST_TERMS: Final = 8192
NEW_STRANGERS: Final = 16  # that come into the address book between two ticks
MOST_STRANGERS: Final = 64  # in the address book; and those whose packets are answered by a hello, between two ticks


class Standing(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How a process stands to a group. ``first``: the first members it is bound to, or formed the group with."""

    state: str
    first: tuple[ProcessId, ...] = ()


class Known(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one process knows about another."""

    incarnation: int
    boot: bytes
    host: str
    port: int


class Hello(Packet, frozen=True, array_like=True, gc=False, tag=HELLO_TAG):
    """I am here, under this name; this is how I stand to groups, and whom I know. ``answer``: please say the same."""

    place: str
    incarnation: int
    boot: bytes
    answer: bool
    groups: dict[GroupId, Standing]
    known: dict[str, Known]
    terms: str = ""


HELLO_PACKETS: Final = (Hello,)


@dataclasses.dataclass(slots=True)
class Peer:
    """Another process, as far as it is known."""

    place: str
    address: Address
    incarnation: int = 0
    boot: bytes = b""
    knows_us: bool = False
    unanswered: int = 0
    terms: str = ""
    groups: dict[GroupId, Standing] = dataclasses.field(default_factory=dict)

    @property
    def heard(self) -> bool:
        return bool(self.boot)

    @property
    def name(self) -> ProcessId:
        return process_name(self.place, self.incarnation)


def _is_name(name: str) -> bool:
    return 0 < len(name.encode(errors="surrogatepass")) <= LONGEST_NAME


def _is_place(name: str) -> bool:
    return _is_name(name) and is_place(name)


def _asked(first: tuple[ProcessId, ...]) -> list[ProcessId]:
    """Those whose yes a list of first members needs: all but the one who made it."""
    maker = min(first, key=place_of)
    return [name for name in first if name != maker]


def _places(peers: Iterable[Peer]) -> str:
    return ", ".join(f"{peer.place} at {format_address(peer.address)}" for peer in peers)


def _awaited(peer: Peer) -> list[GroupId]:
    return [group for group, standing in peer.groups.items() if standing.state in (WAITING, BOUND)]


class Presence:
    """One process's address book, its own name, and its way into groups."""

    def __init__(
        self,
        place: str,
        boot: bytes,
        peers: dict[str, Address],
        send: Callable[[Sequence[Address], Hello], None],
        changed: Callable[[], None],
        *,
        incarnation: int = 0,
        terms: str = "",
        refusals: Refusals | None = None,
    ) -> None:
        self.place = place
        self.refusals = refusals if refusals is not None else Refusals()  # what was not taken, and why
        self.terms = terms  # what all members have to agree on, as text: peers with other terms are not spoken to
        self.boot = boot
        self.incarnation = incarnation
        self.settled = False  # whether our name is in use and cannot change any more
        self.taken = False  # whether a peer knows that name as another process's after all
        self.peers: dict[str, Peer] = {name: Peer(name, address) for name, address in peers.items() if name != place}
        self._named = frozenset(peers)  # places that the configuration names; others are strangers
        self.standing: dict[GroupId, Standing] = {}
        self._first: dict[GroupId, tuple[str, ...]] = {}
        self.seeking = False
        self._strangers: dict[Address, None] = {}
        self._added = 0  # strangers that have come into the address book since the last tick
        self._send = send
        self._changed = changed
        self.routes: dict[ProcessId, Address] = {}  # names that can be sent to
        self.sources: dict[Address, tuple[bytes, ProcessId]] = {}  # addresses whose packets count: boot and name of the process

    @property
    def name(self) -> ProcessId:
        return process_name(self.place, self.incarnation)

    def greet(self, to: Iterable[Address] | None = None, *, answer: bool = True) -> None:
        """Says hello: to everybody, or to these."""
        addresses = tuple(peer.address for peer in self.peers.values()) if to is None else tuple(to)
        if addresses:
            heard = [peer for peer in self.peers.values() if peer.heard]
            known = {peer.place: Known(peer.incarnation, peer.boot, *peer.address) for peer in heard}
            groups = dict(self.standing)
            self._send(addresses, Hello(self.place, self.incarnation, self.boot, answer, groups, known, self.terms))

    def on_hello(self, source: Address, hello: Hello) -> None:
        """Somebody is there."""
        if hello.place == self.place:
            self.refusals.old += 1  # two processes of one name, or our own word come back: names are whose they were first
            return
        if not self._is_sound(hello):
            return
        peer = self.peers.get(hello.place) or self._add(hello.place, source)
        if peer is None:
            self.refusals.crowded += 1
            return
        is_news = self._note(peer, source, hello)
        if is_news is None:
            self.greet((source,), answer=False)  # an old incarnation, or one that does not know its name is taken
            return
        peer.unanswered = 0
        self._learn(hello)
        about_us = hello.known.get(self.place)
        knew_us = peer.knows_us
        peer.knows_us = about_us is not None and about_us.boot == self.boot and about_us.incarnation == self.incarnation
        if about_us is not None and about_us.boot != self.boot and about_us.incarnation >= self.incarnation:
            self._name_is_taken(about_us.incarnation)
            return
        if is_news or knew_us != peer.knows_us:
            self._update()
        for group in list(self.standing):
            self._consider_binding(group)
        if hello.answer or is_news or (peer.knows_us and not knew_us):
            self.greet((source,), answer=not peer.knows_us)
        self._changed()

    def _is_sound(self, hello: Hello) -> bool:
        incarnations = [hello.incarnation, *(known.incarnation for known in hello.known.values())]
        if min(incarnations) < 0 or max(incarnations) > LARGEST_INCARNATION:
            self.refusals.future += 1
            return False
        sound = (
            len(hello.boot) == BOOT_BYTES
            and _is_place(hello.place)
            and len(hello.terms) <= LONGEST_TERMS
            and len(hello.groups) <= MOST_GROUPS
            and all(_is_name(group) and len(standing.first) <= MOST_FIRST for group, standing in hello.groups.items())
            and all(_is_place(place) and len(known.boot) == BOOT_BYTES for place, known in hello.known.items())
        )
        self.refusals.hello += not sound
        return sound

    def _add(self, place: str, address: Address) -> Peer | None:
        """Somebody new in the address book, if there is room for strangers, or one can be forgotten, and not too many come."""
        if self._added >= NEW_STRANGERS:
            if not self.seeking:
                self.seek()
            return None
        self._added += 1
        strangers = [peer for peer in self.peers.values() if peer.place not in self._named]
        if len(strangers) >= MOST_STRANGERS:
            doubtful = [peer for peer in strangers if not self._is_certain(peer)]
            if not doubtful:
                return None
            del self.peers[doubtful[0].place]
            self._update()
        peer = self.peers[place] = Peer(place, address)
        return peer

    def _name_is_taken(self, incarnation: int) -> None:
        if self.settled:
            self.taken = True
            self._changed()
            return
        self.incarnation = incarnation + 1
        for other in self.peers.values():
            other.knows_us = False
        self._update()
        self.greet()

    def _note(self, peer: Peer, source: Address, hello: Hello) -> bool | None:
        """Takes down what a hello says of its sender; None if somebody else bears that name or a later one."""
        if peer.heard and hello.boot != peer.boot and hello.incarnation <= peer.incarnation:
            return None
        is_news = hello.boot != peer.boot or hello.incarnation != peer.incarnation or source != peer.address
        peer.address, peer.incarnation, peer.boot, peer.groups = source, hello.incarnation, hello.boot, hello.groups
        peer.terms = hello.terms
        return is_news

    def _learn(self, hello: Hello) -> None:
        """Whom others know we want to know too; what they are, they say themselves."""
        for place, known in hello.known.items():
            if place == self.place or not is_numeric((known.host, known.port)):
                continue
            peer = self.peers.get(place)
            if peer is None:
                if self._add(place, (known.host, known.port)) is None:
                    self.refusals.crowded += 1
                    continue
                self.greet(((known.host, known.port),))
            elif peer.heard and known.incarnation > peer.incarnation:
                peer.address = (known.host, known.port)
                self.greet((peer.address,))

    def _update(self) -> None:
        heard = [peer for peer in self.peers.values() if peer.heard]
        self.routes.clear()
        self.routes.update((peer.name, peer.address) for peer in heard)
        self.sources.clear()
        self.sources.update((peer.address, (peer.boot, peer.name)) for peer in heard if self._is_certain(peer))

    def meet(self, source: Address) -> None:
        """A packet from somebody who is not known, or does not know us: say hello, but not for each of many packets."""
        if len(self._strangers) < MOST_STRANGERS:
            self._strangers[source] = None
        if not self.seeking:
            self.seek()

    def seek(self) -> None:
        """Somebody is not in the address book: ask, at the next tick."""
        self.seeking = True
        self._changed()

    def tick(self) -> bool:
        """Says hello where an answer is wanted; False if there is nothing to wait for."""
        wanted = self.seeking or any(standing.state in (WAITING, BOUND) for standing in self.standing.values())
        if wanted:
            self.greet()
            for peer in self.peers.values():
                peer.unanswered += 1
        strangers = [source for source in self._strangers if all(source != peer.address for peer in self.peers.values())]
        if strangers:
            self.greet(strangers)
        self._strangers.clear()
        self._added = 0
        self.seeking = False
        return wanted

    def want(self, group: GroupId, first: tuple[str, ...]) -> None:
        """We want to enter a group. ``first``: the places whose processes form it together, if it is not there yet."""
        self._first[group] = first
        if group not in self.standing:
            self.standing[group] = Standing(WAITING)
        self._consider_binding(group)
        self.greet()

    def give_up(self, group: GroupId) -> None:
        """We do not want to any more. (Who is bound stays so: the others may form the group.)"""
        if group in self.standing and self.standing[group].state != BOUND:
            del self.standing[group]

    def enter(self, group: GroupId, how: Form | Join) -> None:
        """We go in: a process that forms the group is in, one that joins it has yet to be let in."""
        self.standing[group] = Standing(MEMBER, how.members) if isinstance(how, Form) else Standing(JOINING)
        self.settle()

    def settle(self, *, answer: bool = False) -> None:
        """Our name is in use from here on, whether or not we are in a group."""
        self.settled = True
        self.greet(answer=answer)

    def be_member(self, group: GroupId) -> None:
        """We are in a group that was formed, or got its name, while processes ran."""
        self.standing[group] = Standing(MEMBER)
        self.settle()

    def name_at(self, place: str) -> ProcessId | None:
        """The process at a place, if it is there to be spoken to."""
        peer = self.peers.get(place)
        return peer.name if peer is not None and self._is_certain(peer) else None

    def entered(self, group: GroupId) -> None:
        """We have been let in."""
        if self.standing.get(group) == Standing(JOINING):
            self.standing[group] = Standing(MEMBER)
            self.greet(answer=False)

    def left(self, group: GroupId) -> None:
        self.standing.pop(group, None)
        self.greet(answer=False)

    def way_in(self, group: GroupId) -> Form | Join | None:
        """How to enter the group, as far as that is known now."""
        mine = self.standing.get(group)
        if mine is None or mine.state in (JOINING, MEMBER):
            return None
        standings = {peer.name: peer.groups[group] for peer in self._certain() if group in peer.groups}
        members = tuple(name for name, standing in standings.items() if standing.state == MEMBER)
        for name in members:
            if self.name in standings[name].first:
                return Form(standings[name].first)  # it was formed with us, while we had not heard of it
        if mine.state == BOUND:
            others = [name for name in _asked(mine.first) if name != self.name]
            bound = [name for name in others if name in standings and standings[name].first == mine.first]
            return Form(mine.first) if len(bound) == len(others) else None
        return Join(members) if members else None

    def _certain(self) -> list[Peer]:
        """The peers that have been heard, know us, and work on the same terms."""
        return [peer for peer in self.peers.values() if self._is_certain(peer)]

    def _is_certain(self, peer: Peer) -> bool:
        return peer.heard and peer.knows_us and peer.terms == self.terms

    def _consider_binding(self, group: GroupId) -> None:
        if self.standing[group].state != WAITING:
            return
        first = self._first[group]
        there = [(peer, peer.groups[group]) for peer in self._certain() if group in peer.groups]
        lists = [standing.first for _, standing in there if standing.state == BOUND]
        for names in lists:
            if self.name in names:
                self._bind(group, names)
                return
        if not first or min(first) != self.place or lists:
            return
        ready = {peer.place: peer for peer, standing in there if standing.state == WAITING}
        if all(place == self.place or place in ready for place in first):
            self._bind(group, tuple(self.name if place == self.place else ready[place].name for place in first))

    def _bind(self, group: GroupId, names: tuple[ProcessId, ...]) -> None:
        self.standing[group] = Standing(BOUND, names)
        self.settle(answer=True)

    def lost(self, group: GroupId) -> str | None:
        """Why we can never get in under this name: somebody whose yes is needed is gone or has gone another way. (Others may have
        formed the group before, so we may not bind again; only a new process may.)"""
        mine = self.standing.get(group)
        if mine is None or mine.state != BOUND or self.way_in(group) is not None:
            return None
        if self.taken:
            return f"the name {self.name} is known as that of a process that was here before; start again"
        places = {peer.place: peer for peer in self._certain()}
        gone = []
        for name in _asked(mine.first):
            peer = places.get(place_of(name))
            if peer is not None:
                standing = peer.groups.get(group, Standing(OUTSIDE))
                if peer.name != name or (standing.state in (JOINING, MEMBER) and standing.first != mine.first):
                    gone.append(name)
        if not gone:
            return None
        return f"{self.name} was to form {group} with {', '.join(mine.first)}, but {', '.join(gone)} cannot any more; start again"

    def missing(self, group: GroupId) -> str:
        """What the way in still waits for, as a sentence."""
        mine = self.standing.get(group, Standing(OUTSIDE))
        certain = {peer.place: peer for peer in self._certain()}
        if mine.state == BOUND:
            bound = [peer.name for peer in certain.values() if group in peer.groups and peer.groups[group].first == mine.first]
            wait = [name for name in _asked(mine.first) if name not in (self.name, *bound)]
            return f"{self.name} is to form it with {', '.join(mine.first)}, and {', '.join(wait)} did not say yes"
        differing = {place: peer.terms for place, peer in self.peers.items() if peer.heard and peer.terms != self.terms}
        first = self._first[group]
        unheard = [peer for place, peer in self.peers.items() if place not in certain and place not in differing]
        gone = [peer for peer in certain.values() if peer.unanswered >= SILENT]
        idle = [peer for peer in certain.values() if peer not in gone and group not in peer.groups and peer.place in first]
        parts = [f"{place} works with {terms}, and {self.name} with {self.terms}" for place, terms in differing.items()]
        if unheard:
            parts.append(f"not heard: {_places(unheard)}")
        if gone:
            parts.append(f"heard before, but not any more: {_places(gone)}")
        if idle:
            parts.append(f"there, but not in this group: {', '.join(peer.place for peer in idle)}")
        elsewhere = [f"{peer.place} waits for {', '.join(groups)} first" for peer in idle if (groups := _awaited(peer))]
        if elsewhere:
            parts.append(f"{', '.join(elsewhere)}: enter groups in the same order everywhere, or at once with asyncio.gather")
        return "; ".join(parts) or self._not_formed(group, certain)

    def _not_formed(self, group: GroupId, certain: dict[str, Peer]) -> str:
        """What is known of a group that is not formed though everybody whom it needs is there and wants it."""
        first = self._first[group]
        without_us = [peer.place for peer in certain.values() if group in peer.groups and peer.groups[group].state == BOUND]
        if without_us:
            return f"{', '.join(without_us)} agreed to form it without {self.name}; give everybody the same members"
        if self.place not in first:
            return "nobody is a member yet" + (f"; it is formed by {', '.join(first)}" if first else "")
        return f"everybody is heard and waits; {min(first)} begins it, once it has heard all whom it was given as members"
