"""A member as a real process: sockets, a protocol, and the groups that an application joins.

Theory of operation
-------------------
A :class:`Node` is one process on one address: it opens a transport, finds out who else is there and under which name it is
known (:mod:`.presence`), and runs one engine for all its groups (:mod:`.host`). ``plainchant.join`` makes a node for a single
group.

Entering a group asks everybody until a way in is known, then waits for the first view; both within ``timeout``. Leaving sends
what was accepted, then asks the group to be let go; a process that simply closes is one that the others have to miss.

With some protocols and parameters groups do not change (``Description.changes``). Such a group is formed once; nobody joins it
later and nobody leaves. A membership then ends when the group is at rest, and the process with its node.

With others processes form groups while they run (``Description.proposes``): one proposes (``form``), the others are asked
(``agree``), and those who agree find themselves in the group (``next_group``).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import socket
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from ..core.engine import Engine, Host
from ..core.model import (
    SECOND,
    TRACE_VERSION,
    Declared,
    Form,
    Invitation,
    Join,
    Met,
    PlainchantError,
    Reason,
    TraceError,
    UsageError,
    View,
    declarations,
    format_duration,
)
from ..core.names import is_place
from ..core.wire import Stamped
from ..group import (
    LARGEST_MESSAGE,
    OUTGOING,
    UNREAD,
    Group,
    Guarantees,
    Halted,
    JoinTimeout,
    LeaveTimeout,
    NotFormed,
    check_buffers,
)
from ..group.state_transfer import StateEvents
from ..layers.fragmentation import Fragmentation
from ..layers.state import STATE_LOST, STATE_PACKETS, StateTransfer
from ..protocols.registry import Description, Surroundings, describe
from .host import LiveHost, check_name
from .lans import Lans, check_lans
from .names import family_of, format_address, is_here, is_loopback, packet_for, parse_address, resolve
from .presence import HELLO_PACKETS, MOST_GROUPS, Hello, Presence
from .refusals import Refusals
from .transport import Address, Transport, senders_of
from .udp import UdpTransport

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from ..lab.watch.node import NodePage
    from ..trace.spool import Spool
    from .keys import Keyring, KeySource
    from .observe.observer import Observer
    from .observe.spans import Spans
    from .sealed import Sealed

SMALLEST_PACKET: Final = 256
"""Bytes that a packet has at the least."""
TICK: Final = 0.05
"""Seconds between two hellos while an answer is waited for."""
SETTLE: Final = 0.2
"""Seconds that a process that joins gives everybody to say whether its name is taken, if not all are heard before."""

GOODBYE: Final = 1.0
"""Seconds that a process that gives up while it is let in has to leave again."""

LOST_BEGINNING: Final = "lost beginning"
"""Why a process has to start again before it ever was a member."""
NO_GROUP: Final = "no group"
"""Why a protocol halts a process that nobody lets in: those whom it asked may be gone, and others may be there."""
SHORTEST_SETTLE: Final = 0.1
"""Seconds that a group that does not change is at rest before a member ends, at the least."""
LONGEST_TERM: Final = 100
"""Characters of a table of parameters that are told to others as they are; of a longer one a digest is."""
COME_BACK: Final = (LOST_BEGINNING, NO_GROUP, STATE_LOST)
"""Reasons for which ``join`` starts again by itself, within its time."""

KEY_POLL: Final = 1.0
"""Seconds between two looks at the key file."""

MakeTransport = Callable[[Address, int], Transport]


class Insecure(UserWarning):
    """A node that others can reach over a network runs without a key."""


class Node:
    """One process: ``async with Node(...) as node``, then ``node.join(group)``.

    ``peers`` maps the names of places to addresses; ``me`` is one of them. ``parameters`` are the protocol's (see ``plainchant
    protocols``). ``transport`` is ``"udp"``, ``"tcp"``, ``"multicast"``, or a function that makes one. ``packet`` is the size
    of packets in bytes; 0: what the network's interface takes. With ``trace`` everything that happens is recorded in a spool
    under that directory, which ``plainchant collect`` turns into a trace to verify. With ``state``, which all members must
    agree on, who joins a group that exists gets the application's state from a member: its first events are the view and a
    ``State``, and a member is asked for it by a ``StateRequest`` in its stream. ``groups`` are the groups that there are, with
    the places that form them: ``join`` takes the members from it and enters no others. Where groups share members some
    protocols promise less, so without it the least is promised.

    ``agree`` is asked about groups that others propose (:meth:`form`): it gets an :class:`~.core.model.Invitation` and says
    whether this process wants to be in the group. A node that is given it can be asked as soon as it is open, another once it
    has joined a group; that one agrees to everything. Take the groups that come of it with :meth:`next_group`, and read them.

    Protocols on common memory need all peers on one machine, or, where processes are on nodes (``n1.a`` is on ``n1``), those of
    each node. Those with the same ``memory`` share it, node by node: any name, and by default one that is made of the peers'
    addresses, so that unrelated programs do not meet. With a second network (the parameter ``lans``) ``backup`` has the addresses
    of all peers there. Where processes may be in no group, to serve others, :meth:`serve` is what such a one does.

    ``watch`` (``"127.0.0.1:8765"``) serves a page there that shows what this process does (``docs/watch.md``).

    ``metrics`` is an address (``"127.0.0.1:9464"``; a port alone is one of this machine's own) at which Prometheus finds the
    node's figures as long as it is open, or a registry of ``prometheus_client`` that is to have them. With ``spans`` it tells
    OpenTelemetry of what happens (:class:`~.observe.spans.Spans`, or the share of messages that are traced). Both need the extra
    ``observe``.

    ``key`` is the name of a key file (``plainchant key new``) or a :class:`~plainchant.Keyring`; without it the environment is
    looked at (``PLAINCHANT_KEY``, ``PLAINCHANT_KEY_FILE``). All members need the same one: then every packet is sealed. A
    file that changes is read again. Without any key a node is only at an address that no other machine reaches, unless it is
    told that this is meant (``insecure``).
    """

    def __init__(
        self,
        *,
        protocol: str = "sequencer",
        me: str,
        peers: Mapping[str, str | Address],
        parameters: Mapping[str, Any] | None = None,
        transport: str | MakeTransport = "udp",
        packet: int = 0,
        trace: str | Path | None = None,
        run: str | None = None,
        incarnation: int = 0,
        seed: int | None = None,
        state: bool = False,
        groups: Mapping[str, Sequence[str]] | None = None,
        agree: Callable[[Invitation], bool] | None = None,
        memory: str = "",
        backup: Mapping[str, str | Address] | None = None,
        watch: str | None = None,
        description: Description | None = None,
        metrics: str | CollectorRegistry | None = None,
        spans: Spans | float | None = None,
        key: Keyring | str | Path | None = None,
        insecure: bool = False,
    ) -> None:
        if me not in peers:
            raise UsageError(f"me is {me!r}, which is not among peers ({', '.join(peers)}): add it with its own address")
        if not me or not all(is_place(name) for name in peers):
            raise UsageError("names of places are not empty and have no '#': it marks a process that came back (a, then a#1)")
        for name in peers:
            check_name(name)
        self.description = description if description is not None else describe(protocol)
        self.place = me
        self._given = dict(parameters or {})
        self._parameters = _parameters(self.description, self._given)
        self._changes = self.description.changes(self._parameters)
        self.proposes = self.description.proposes(self._parameters)
        """Whether groups can be proposed, closed and renamed."""
        if agree is not None:
            self._check_proposes()
        self.agree = agree
        self._memory = memory
        self._lans = self.description.lans(self._parameters)
        self._backup = {
            name: parse_address(address) if isinstance(address, str) else address for name, address in (backup or {}).items()
        }
        self._groups = {name: _members(name, given, peers) for name, given in groups.items()} if groups is not None else None
        self._peers = {name: parse_address(address) if isinstance(address, str) else address for name, address in peers.items()}
        check_lans(self._lans, self._peers, self._backup)
        self._make_transport = _transport_maker(transport)
        self._packet = packet
        self._trace = trace
        self._watch = watch
        self._page: NodePage | None = None
        self._run = run
        self._incarnation = incarnation
        self._random = Random(seed if seed is not None else int.from_bytes(os.urandom(8)))
        self._state = state
        self._boot = os.urandom(4)
        self._layer: StateTransfer | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()
        self._is_open = False
        self._closed = False
        self._mine: dict[str, tuple[str, ...]] = {}
        """Groups that this process was told to enter, and who forms them."""
        self._entering: set[str] = set()
        self._entered: set[str] = set()
        """Groups that this process is or has been in: it joins each of them once, as the trace's processes do."""
        self._forming: dict[str, _Proposal] = {}
        """Groups that this process has proposed and that are neither formed nor refused."""
        self._came: asyncio.Queue[Group] = asyncio.Queue()
        """Groups that this process is in because it was invited, until somebody takes them."""
        self._state_events: StateEvents | None = None
        self._observer: Observer | None = None
        if metrics is not None or spans is not None:
            from .observe.observer import Observer

            self._observer = Observer(metrics, spans)
        self._halted = asyncio.Event()
        self._met: set[str] = set()
        """Names of whom the protocol has been told."""
        self._key = key
        self._insecure = insecure
        self._keys: KeySource | None = None
        self._key_problem: str | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._sealed: Sealed | None = None
        self._refusals = Refusals()
        self._transport: Transport
        self._host: LiveHost
        self._presence: Presence

    # --- opening and closing ----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Binds the address and begins to listen."""
        if self._is_open or self._closed:
            raise UsageError(f"the node of {self.place} was opened before; it is one process, so make a new one to come back")
        peers = {name: await resolve(address) for name, address in self._peers.items()}
        here = peers[self.place]
        self._keys = _find_keys(self._key)
        danger = await self._reach(here)
        if self._trace is not None:
            _check_trace(Path(self._trace))
        if self._has_memory:
            self._find_memory(peers)
        size = self._packet or min(packet_for(address) for address in peers.values())
        self._transport = await self._make_transports(peers, size)
        if isinstance(self._transport, UdpTransport):
            _check_family(here, peers)
        if self._keys is not None:
            self._transport = self._seal(self._keys.ring, peers)
        # Without state its packets are a stranger's: who wants state from us does not get it, and does no harm.
        state_packets = STATE_PACKETS if self._state else ()
        codec = Stamped((*self.description.packets, *state_packets, *HELLO_PACKETS), self._boot)
        opened = False
        try:
            # The host needs the limits that the transport finds out when it opens; what comes before it is there is lost.
            await self._transport.open(self._on_packet, self._on_turn_over)
            opened = True
            if self._transport.limits.packet < SMALLEST_PACKET:
                taken = f"packets of {self._transport.limits.packet} bytes have no room for messages"
                raise UsageError(f"{taken}; choose a larger packet, of at least {SMALLEST_PACKET}")
            self._host = LiveHost(
                self._transport,
                codec,
                random=self._random,
                stopped=self._on_stopped,
                owner=self,
                loopback=self.description.loopback,
                refusals=self._refusals,
            )
            if self._sealed is not None:
                self._host.place_at = self._sealed.place_at
            self._codec = codec
            self._presence = self._host.presence = Presence(
                self.place,
                self._boot,
                peers,
                self._send_hello,
                self._on_news,
                incarnation=self._incarnation,
                terms=self._terms(),
                refusals=self._refusals,
            )
            if self._observer is not None:
                await self._observer.open(self)
            self._is_open = True
            if self._watch is not None:
                from ..lab.watch.node import NodePage  # brings aiohttp

                self._page = NodePage(self.place, self._watch)
                await self._page.open()
            if danger:
                warnings.warn(danger, Insecure, stacklevel=2)
            self._watch_key()
            if self.agree is not None:
                await self._take_name()
        except BaseException:
            self._is_open = False
            if self._page is not None:
                await self._page.close()
            if self._observer is not None:
                await self._observer.close()
            if opened:
                await self._transport.close()
            raise

    async def _make_transports(self, peers: Mapping[str, Address], size: int) -> Transport:
        """A transport, or one for each network."""
        first = self._make_transport(peers[self.place], size)
        if self._lans == 1:
            return first
        there = {name: await resolve(address) for name, address in self._backup.items()}
        return Lans(
            (first, self._make_transport(there[self.place], size)), [{peers[name]: address for name, address in there.items()}]
        )

    async def _reach(self, here: Address) -> str:
        """Without a key nobody else may reach this process, unless that is meant; then that is said."""
        places = [here]
        if self._backup:
            places.append(await resolve(self._backup[self.place]))
        reachable = [format_address(address) for address in places if not is_loopback(address)]
        if self._keys is not None or not reachable:
            return ""
        what = f"{self.place} is at {' and '.join(reachable)}, where other machines reach it, and has no key"
        if not self._insecure:
            raise UsageError(
                f"{what}: anybody there could read, change and forge all messages; make a key with `plainchant key new FILE`, "
                "give key=FILE at every member, or say insecure=True (--insecure) if that is meant"
            )
        return f"{what}: anybody there can read, change and forge all messages (`plainchant key new FILE`, then key=FILE)"

    def _seal(self, ring: Keyring, peers: Mapping[str, Address]) -> Sealed:
        from .sealed import Sealed  # brings the ciphers, which a process without a key does not need

        self._sealed = Sealed(
            self._transport, ring, place=self.place, boot=self._boot, peers=peers, refusals=self._refusals, proved=self._on_proved
        )
        return self._sealed

    def _on_proved(self, address: Address) -> None:
        if self._is_open:
            self._presence.greet((address,))

    def _watch_key(self) -> None:
        """Looks at the key file now and then."""
        if self._keys is not None and self._keys.path is not None:
            self._watching = asyncio.get_running_loop().call_later(KEY_POLL, self._look_at_key)

    def _look_at_key(self) -> None:
        try:
            self._reload_key(always=False)
        except UsageError as problem:
            if str(problem) != self._key_problem:
                self._key_problem = str(problem)
                warnings.warn(f"{self.place} goes on with the keys that it has: {problem}", RuntimeWarning, stacklevel=2)
        self._watch_key()

    def reload_key(self) -> bool:
        """Reads the key file again, now; whether it has other keys than before. (It is looked at every second anyway.) Raises
        ``UsageError`` if it cannot be read, and goes on with the keys that there are."""
        if self._keys is None or self._keys.path is None:
            raise UsageError(f"{self.place} has no key file; give key=FILE, or other keys by use_keys")
        return self._reload_key(always=True)

    def _reload_key(self, *, always: bool) -> bool:
        assert self._keys is not None
        ring = self._keys.reload(always=always)
        if ring is None:
            return False
        self._key_problem = None
        if self._sealed is not None:
            self._sealed.use(ring)
        return True

    def use_keys(self, ring: Keyring) -> None:
        """Other keys from here on, for programs that have them from elsewhere than a file."""
        if self._keys is None or self._sealed is None or self._keys.path is not None:
            raise UsageError(f"{self.place} was not started with a Keyring; change its key file, or give key=Keyring(...)")
        self._keys.ring = ring
        self._sealed.use(ring)

    def statistics(self) -> dict[str, int]:
        """What this process has sent, received and refused, as numbers by name: ``packets_...`` and ``bytes_...`` are the
        transport's, ``refused_...`` packets that came and changed nothing, by reason (:class:`~.refusals.Refusals`),
        ``network_errors`` what the network or a connection's other end refused, ``peers`` those who are in the address book,
        ``sessions`` the processes that have proved themselves, ``sealed_with_ID`` how many of the others seal with that key."""
        found = {**self._host.counters(), **{f"refused_{name}": count for name, count in self._refusals.as_dict().items()}}
        inner = self._sealed.inner if self._sealed is not None else self._transport
        if isinstance(inner, Lans):
            found["refused_stranger"] += inner.strangers
        found["network_errors"] = inner.counters.errors
        found["peers"] = len(self._presence.peers)
        if self._sealed is not None and self._keys is not None:
            found["packets_unproved"] = self._sealed.unproved
            found["sessions"] = self._sealed.sessions
            users = self._sealed.sealed_with
            found |= {f"sealed_with_{key}": users.get(key.id, 0) for key in self._keys.ring.keys}
        return found

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the keys that this process has now, the one that it seals with first; none without a key."""
        return tuple(str(key) for key in self._keys.ring.keys) if self._keys is not None else ()

    @property
    def _has_memory(self) -> bool:
        """Whether the protocol has common memory and this process is where that is."""
        description = self.description
        return description.memory is not None and self.place not in description.remote(self._parameters)

    def _find_memory(self, peers: Mapping[str, Address]) -> None:
        """Fails unless there is a place for common memory, and all who need it are on this machine."""
        from .memory.server import check_root

        check_root()
        if self._memory:
            return
        remote = self.description.remote(self._parameters)
        mine = self._node_of(self.place)
        elsewhere = [
            name for name, address in peers.items() if name not in remote and self._node_of(name) == mine and not is_here(address)
        ]
        if elsewhere:
            where = ", ".join(f"{name} at {format_address(peers[name])}" for name in elsewhere)
            if mine is not None:
                raise UsageError(
                    f"a node is on one machine, and these processes of node {mine} are elsewhere: {where}; name them otherwise"
                )
            raise UsageError(
                f"{self.description.name} is for processes on one machine, and these are elsewhere: {where}; say in its "
                "parameter remote who acts for them, or choose another protocol"
            )
        addresses = sorted(format_address(address) for address in peers.values())
        self._memory = sha256(" ".join(addresses).encode()).hexdigest()[:16]

    def _node_of(self, place: str) -> str | None:
        """The node of a place, where there are nodes."""
        return self.description.node_of(self._parameters, place) if self.description.node_of is not None else None

    async def serve(self) -> None:
        """Takes part without being in a group, where the protocol has use for such processes; returns when this one does."""
        if not self.description.idle:
            raise UsageError(f"with {self.description.name} a process that is in no group has nothing to do; join one")
        if not self._is_open:
            raise UsageError(f"the node of {self.place} is not open; write `async with Node(...) as node` and serve there")
        await self._take_name()

    async def halted(self) -> Reason:
        """Waits until the protocol stops this process, and says why it did."""
        await self._halted.wait()
        assert self._host.end_reason is not None
        return self._host.end_reason

    async def _take_name(self) -> None:
        """Finds out under which name this process is known, so that others can speak to it before it is in any group."""
        presence = self._presence
        loop = asyncio.get_running_loop()
        end = loop.time() + SETTLE
        while not self._host.me and loop.time() < end and not all(peer.knows_us for peer in presence.peers.values()):
            presence.seek()
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    await self._news.wait()
        if not self._host.me:
            everybody = tuple(self._peers)
            self._begin(self._groups if self._groups is not None else {"a group": everybody, "and another": everybody})
            presence.settle()

    def _on_packet(self, source: Address, data: Any) -> None:
        if self._is_open:
            self._host.packet(source, data)

    def _on_turn_over(self) -> None:
        if self._is_open:
            self._host.turn_over()

    async def close(self, *, drained: bool = False) -> None:
        """Stops at once. (Leave the groups first, if they can be left: else the others have to find out.)

        ``drained`` is for whoever knows the whole run: senders had stopped, and nothing was under way anywhere.
        """
        if self._closed:
            return
        self._closed = True
        if not self._is_open:
            return
        for handle in (self._ticking, self._watching):
            if handle is not None:
                handle.cancel()
        try:
            self._host.close({"drained": True} if drained else None)
        finally:
            for group in list(self._host.groups.values()):
                group.halted(Reason("closed", f"{self.name} was closed"))
            self._end_state()
            if self._page is not None:
                await self._page.close()
            await self._transport.close()
            if self._observer is not None:
                await self._observer.close()

    def _end_state(self) -> None:
        """Whoever writes a state, or waits to, waits no longer."""
        if self._state_events is not None:
            self._state_events.end()

    def _terms(self) -> str:
        """What all members have to agree on: the protocol, the parameters that are not its defaults, state transfer."""
        default = self.description.parameters()
        differing = []
        for field, declared in declarations(self.description.parameters):
            value = getattr(self._parameters, field.name)
            if field.name in self._given and value != getattr(default, field.name):
                differing.append(f"{field.name}={_term(value, declared)}")
        return " ".join([self.description.name, *differing, "with state transfer" if self._state else "without state transfer"])

    # --- who it is --------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name under which this process is known: its place, and ``#1``, ``#2``, ... if it was here before."""
        return self._host.me or self._presence.name

    @property
    def address(self) -> Address:
        return self._transport.address

    @property
    def has_state(self) -> bool:
        """Whether who joins gets the application's state."""
        return self._state

    @property
    def observer(self) -> Observer | None:
        """What tells others of this process, if ``metrics`` or ``spans`` were asked for."""
        return self._observer

    @property
    def host(self) -> LiveHost:
        """The process itself, for tools and tests."""
        return self._host

    # --- groups -----------------------------------------------------------------------------------------------------

    def join(
        self,
        group: str,
        *,
        members: Sequence[str] | None = None,
        timeout: float = 30.0,
        leave_timeout: float = 10.0,
        outgoing: int = OUTGOING,
        unread: int = UNREAD,
        listen: bool = True,
    ) -> Joining:
        """Joins a group: ``async with node.join("bank") as group``.

        ``members`` are the places whose processes form the group together if it does not exist; by default those that the
        node's ``groups`` names, or all peers. Once it exists, whoever comes is let in by its members. Raises
        :class:`JoinTimeout`, saying what it waited for.
        """
        first = self._first_members(group, members)
        if self._state and not listen:
            raise UsageError("with state=True every member may be asked for the state in its stream; leave listen=False out")
        if not self._changes and self.place not in first:
            raise UsageError(
                f"{self.place} is not among the members of {group!r} ({', '.join(first)}), and groups of {self.description.name} "
                f"do not change; name all that are ever to be in it"
            )
        self._check(self._parameters, {**(self._groups if self._groups is not None else self._mine), group: first})
        check_buffers(outgoing, unread)
        buffers = {"outgoing": outgoing, "unread": unread, "listen": listen}
        return Joining(self, group, first, timeout, leave_timeout, buffers)

    def _first_members(self, group: str, given: Sequence[str] | None) -> tuple[str, ...]:
        """Who forms a group: as ``join`` was told, as ``groups`` says, or everybody. The first two may not contradict."""
        first = _members(group, given, self._peers) if given is not None else None
        if self._groups is None:
            return first if first is not None else _members(group, tuple(self._peers), self._peers)
        if group not in self._groups:
            there = ", ".join(self._groups) or "none"
            raise UsageError(f"group {group!r} is not in the groups of this node ({there}); add it there, at every process")
        known = self._groups[group]
        if first is not None and set(first) != set(known):
            raise UsageError(
                f"members of {group!r} are {', '.join(first)}, and {', '.join(known)} in the groups of this node; "
                f"make both the same, or leave members out"
            )
        return first if first is not None else known

    async def enter(self, name: str, first: tuple[str, ...], timeout: float, buffers: Mapping[str, Any]) -> Group:
        """Finds the way into a group, and returns when the first view is there."""
        if self._observer is None:
            return await self._enter(name, first, timeout, buffers)
        with self._observer.joining(name):
            return await self._enter(name, first, timeout, buffers)

    async def _enter(self, name: str, first: tuple[str, ...], timeout: float, buffers: Mapping[str, Any]) -> Group:
        self._check_outside(name)
        presence = self._presence
        group: Group | None = None
        self._entering.add(name)
        try:
            async with asyncio.timeout(timeout):
                how = await self._find_way(name, first)
                if isinstance(how, Join) and not self._changes:
                    raise UsageError(
                        f"group {name!r} runs already ({', '.join(how.contacts)}), and groups of {self.description.name} do not "
                        f"change; end all its members and start them together"
                    )
                group = self._become_member(name, first, how, buffers)
                await group.joined()
                presence.entered(name)
                if self._state and isinstance(how, Join):
                    await group.has_state()
        except TimeoutError:
            waiting = self._host.waiting(name) if group is not None else None
            missing = waiting.text if waiting is not None else presence.missing(name)
            await self._give_up(name, group)
            text = f"{presence.name} could not enter group {name!r} in {timeout:.3g} s: {missing}{self._key_hint()}"
            raise JoinTimeout(Reason("join timeout", text)) from None
        except BaseException:
            await self._give_up(name, group)
            raise
        finally:
            self._entering.discard(name)
        return group

    def _key_hint(self) -> str:
        """What the counters say of keys that do not fit, for somebody who waits."""
        refused = self._refusals
        for count, what in (
            (refused.other_key, "are sealed with a key that it does not have: give everybody the same key file"),
            (refused.unsealed, "are not sealed: give the others the key, too"),
            (refused.sealed, "are sealed, and it has no key: give key=FILE here, too"),
        ):
            if count:
                return f"; {count} packets came that {what}"
        return ""

    def _check_outside(self, name: str) -> None:
        """Fails unless this process runs and has never been in the group."""
        if self._closed:
            raise UsageError(f"{self.place} is closed; open a new node to join {name!r}")
        if not self._is_open:
            raise UsageError(f"the node of {self.place} is not open; write `async with Node(...) as node` and join there")
        if not self._host.alive:
            raise UsageError(f"{self.name} was stopped ({self._host.end_reason}); open a new node to join {name!r} again")
        if self._is_in(name):
            remedy = "leave it first" if self._changes else "its members do not change, so it stays there"
            raise UsageError(f"{self.name} is in {name!r} already; {remedy}")
        if name in self._entered:
            raise UsageError(f"{self.name} has been in {name!r} before; open a new node to join it again")

    def _is_in(self, name: str) -> bool:
        """Whether this process is in a group, or on its way there."""
        return name in self._host.groups or name in self._entering or name in self._forming

    async def _give_up(self, name: str, group: Group | None) -> None:
        """Nobody waits to enter any more. Who was let in all the same says goodbye, or the others would have to miss it."""
        self._presence.give_up(name)
        if group is None:
            return
        group.stop_listening()
        if not self._changes:
            return  # the others count on this process until it is closed
        if self._layer is not None and group.view is not None:
            self._host.later(self._layer.abandon, name, "nobody waits for it any more")
        else:
            self._host.leave(name)
        if group.view is not None:
            try:
                async with asyncio.timeout(GOODBYE):
                    await group.ended()
            except TimeoutError:
                return  # the others will find out

    async def _find_way(self, name: str, first: tuple[str, ...]) -> Form | Join:
        presence = self._presence
        loop = asyncio.get_running_loop()
        asked = loop.time()
        presence.want(name, first)
        self._ask_for_tick()
        while True:
            self._news.clear()
            how = presence.way_in(name)
            everybody = all(peer.knows_us for peer in presence.peers.values())
            if isinstance(how, Form) or (how is not None and (presence.settled or everybody or loop.time() > asked + SETTLE)):
                return how
            lost = presence.lost(name)
            if lost is not None:
                raise Halted(Reason(LOST_BEGINNING, lost))
            await self._news.wait()

    def _become_member(self, name: str, first: tuple[str, ...], how: Form | Join, buffers: Mapping[str, Any]) -> Group:
        host = self._host
        groups = self._groups if self._groups is not None else self._possible(name, first)
        if self._groups is None:
            self._check(self._parameters, {**self._mine, name: first})
        if not host.me:
            self._begin(groups)
        self._mine[name] = first
        group = self._make_group(name, groups, isinstance(how, Form), buffers)
        self._presence.enter(name, how)
        host.enter(group, how)
        return group

    def _possible(self, name: str, first: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """The groups that there may be, where nobody has said which there are: a process may come to be in several, with the same
        others, unless the protocol allows one only."""
        several = {name: first, f"{name}, and another": first}
        return several if self._problem(self._parameters, several) is None else {name: first}

    def _make_group(self, name: str, groups: Mapping[str, Sequence[str]], formed: bool, buffers: Mapping[str, Any]) -> Group:
        """What the application sees of a group that this process enters; ``groups`` are those that there are."""
        description, host = self.description, self._host
        guarantees = Guarantees(description.promises(self.parameters, groups), description.faults)
        settle = max(SHORTEST_SETTLE, description.settle(self.parameters) / SECOND)
        self._entered.add(name)
        return Group(
            host,
            name,
            host.me,
            guarantees,
            formed=formed,
            changes=self._changes,
            proposes=self.proposes,
            admits=description.admits(self.parameters),
            settle=settle,
            largest=host.max_packet if host.only_sends else LARGEST_MESSAGE,
            node=self,
            **buffers,
        )

    def _begin(self, groups: dict[str, tuple[str, ...]]) -> None:
        """The name is settled: the engine and the spool can be made."""
        description = self.description
        limits = self._transport.limits
        surroundings = Surroundings(
            members=len(self._peers),
            packet=limits.packet,
            buffer=limits.buffer // max(1, len(self._groups or ())),
            given=frozenset(self._given),
            live=True,
        )
        self.parameters = description.tune(self._parameters, surroundings)
        # Who only joins need not know who forms a group.
        self._check(self.parameters, {name: members for name, members in groups.items() if members})
        spool = None
        if self._trace is not None or self._page is not None:
            start = {
                "version": TRACE_VERSION,
                "protocol": description.name,
                "parameters": dataclasses.asdict(self.parameters),
                "promises": [promise.name for promise in description.promises(self.parameters, groups)],
                "bounds": dict(description.bounds(self.parameters, groups)),
            }
            spool = self._spool(self._presence.name, start)
        self._suit_host()
        self._host.begin(self._presence.name, self._make_engine, spool)
        self._introduce()

    def _spool(self, name: str, start: dict[str, Any]) -> Spool | None:
        """What records this process: its spool, its page, or both."""
        spool = None
        run = self._run
        if self._trace is not None:
            from ..trace.spool import Spool, next_run  # brings Arrow, which a process without a trace does not need

            run = run if run is not None else next_run(self._trace, name)
            spool = Spool(self._trace, run=run, process=name, start=start, time=self._host.clock())
        return self._page.tap(run or "now", name, start, spool) if self._page is not None else spool

    def _suit_host(self) -> None:
        """Gives the host what this protocol needs of it."""
        description, host = self.description, self._host
        host.has_views = description.views
        host.only_sends = self.place in description.only_send(self.parameters)
        if not self._has_memory:
            return
        from .memory.server import MailboxServer, namespace_of
        from .memory.stepper import Stepper

        node = self._node_of(self.place)
        namespace = self._memory if node is None else namespace_of(self._memory, node)
        host.memory = Stepper(host, MailboxServer(namespace), timely=description.timely)
        if description.room is not None:
            host.max_packet = description.room(self.parameters)

    def _check(self, parameters: Any, groups: Mapping[str, Sequence[str]]) -> None:
        """Fails if the parameters do not fit to the groups."""
        problem = self._problem(parameters, groups)
        if problem is not None:
            raise UsageError(problem)

    def _problem(self, parameters: Any, groups: Mapping[str, Sequence[str]]) -> str | None:
        """Why the parameters do not fit to the groups. Where not all groups are known, others may be named in them."""
        if self._groups is None:
            parameters = dataclasses.replace(parameters, **_by_group(parameters, groups))
        return self.description.check(parameters, groups)

    def _make_engine(self, host: LiveHost) -> Engine:
        """The stack: state transfer, if wanted, on fragmentation on the protocol."""

        def whole_messages(inner: Host) -> Engine:
            return Fragmentation(inner, lambda inmost: self.description.make(inmost, self.parameters))

        if not self._state:
            return whole_messages(host)
        events = self._state_events = StateEvents(host.groups, place=host.place, turn=host.later)
        self._layer = events.layer = StateTransfer(host, whole_messages, events)
        return self._layer

    def finish(self, group: str) -> None:
        """The process has left a group."""
        self._mine.pop(group, None)
        self._presence.left(group)

    # --- groups that are formed while processes run -----------------------------------------------------------------

    async def form(
        self,
        group: str,
        members: Sequence[str],
        *,
        timeout: float = 30.0,
        outgoing: int = OUTGOING,
        unread: int = UNREAD,
        listen: bool = True,
    ) -> Group:
        """Proposes a new group to the processes at these places; those who agree form it with this one.

        Returns when the group is formed. ``group.leave()`` leaves it and ``group.close()`` ends it for everybody; do one of them
        before the node is closed. Raises :class:`NotFormed` if nobody agreed, :class:`JoinTimeout` if somebody cannot be reached
        or it takes too long.
        """
        self._check_proposes()
        places = _members(group, members, self._peers)
        check_buffers(outgoing, unread)
        self._check_outside(group)
        proposal = self._forming[group] = _Proposal({"outgoing": outgoing, "unread": unread, "listen": listen})
        presence = self._presence
        missing: list[str] = []
        try:
            async with asyncio.timeout(timeout):
                await self._take_name()
                while missing := [place for place in places if place != self.place and presence.name_at(place) is None]:
                    presence.seek()
                    self._news.clear()
                    await self._news.wait()
                self._host.propose(group, [presence.name_at(place) or self.name for place in places])
                return await proposal.outcome
        except TimeoutError:
            waiting = self._host.waiting(group) if self._host.me and not missing else None
            what = waiting.text if waiting is not None else f"not heard: {', '.join(missing)}" if missing else "no answer"
            text = f"{self.name} could not form group {group!r} in {timeout:.3g} s: {what}"
            raise JoinTimeout(Reason("join timeout", text)) from None
        finally:
            # What was proposed may be formed yet: then this process leaves at once.
            proposal.outcome.cancel()
            if missing:
                self._forming.pop(group, None)

    async def next_group(self) -> Group:
        """Waits for the next group that this process is in because somebody proposed it."""
        self._check_proposes()
        return await self._came.get()

    def _check_proposes(self) -> None:
        if not self.proposes:
            raise UsageError(
                f"with {self.description.name} and these parameters processes do not form groups while they run; name all groups "
                f"before, and join them"
            )

    def formed(self, view: View) -> Group:
        """For the host: this process is in a group that it proposed, or was invited to."""
        name = view.group
        proposal = self._forming.pop(name, None)
        groups = {**(self._groups or {}), name: view.members, f"{name}, and another": view.members}
        group = self._make_group(name, groups, True, proposal.buffers if proposal is not None else {})
        self._presence.be_member(name)
        if proposal is None:
            self._came.put_nowait(group)
        elif proposal.outcome.done():
            group.stop_listening()
            asyncio.get_running_loop().call_soon(self._host.leave, name)
        else:
            proposal.outcome.set_result(group)
        return group

    def invited(self, invitation: Invitation) -> str:
        """For the host: whether the application agrees; why not, or nothing."""
        name = invitation.group
        if self._is_in(name) or name in self._entered:
            return f"{self.name} is in {name}, has been, or is on its way there"
        if len(self._entered) >= MOST_GROUPS:
            return f"{self.name} has been in {MOST_GROUPS} groups, and that is as many as it can be in"
        try:
            agrees = self.agree is None or self.agree(invitation)
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"{self.name} could not say whether it agrees to {name}, so it does not", "exception": error}
            )
            agrees = False
        return "" if agrees else f"{self.name} does not agree"

    def refused(self, group: str, reason: Reason) -> None:
        """For the host: this process is not in a group that it proposed, agreed to or asked to join."""
        self._entered.discard(group)
        proposal = self._forming.pop(group, None)
        if proposal is not None and not proposal.outcome.done():
            proposal.outcome.set_exception(NotFormed(reason))

    def renamed(self, group: str, name: str) -> None:
        """For the host: the group has another name."""
        self._entered.add(name)
        self._presence.left(group)
        self._presence.be_member(name)

    # --- hellos -----------------------------------------------------------------------------------------------------

    def _send_hello(self, to: Sequence[Address], hello: Hello) -> None:
        frame = self._codec.encode_frame(hello)
        for send in senders_of(self._transport):
            send(to, frame)

    def _on_news(self) -> None:
        self._host.forget_routes()
        self._introduce()
        self._news.set()
        if self._presence.seeking:
            self._ask_for_tick()

    def _introduce(self) -> None:
        """Where processes may be in no group: the protocol hears who is there."""
        if self.description.idle and self._host.me and self._host.alive:
            self._met.intersection_update(self._presence.routes)
            for name in self._presence.routes:
                if name not in self._met:
                    self._met.add(name)
                    self._host.later(self._host.engine.notice, Met(name))

    def _ask_for_tick(self) -> None:
        if self._ticking is None and not self._closed:
            self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)

    def _tick(self) -> None:
        self._ticking = None
        if self._presence.tick():
            self._ask_for_tick()
        self._news.set()

    def _on_stopped(self, reason: Reason) -> None:
        """The protocol stopped this process: it answers nobody any more."""
        for proposal in self._forming.values():
            if not proposal.outcome.done():
                proposal.outcome.set_exception(Halted(reason))
        self._presence.standing.clear()
        self._end_state()
        self._halted.set()


class _Proposal:
    """A group that this process has proposed, until it is known what becomes of it."""

    def __init__(self, buffers: Mapping[str, Any]) -> None:
        self.buffers = buffers
        self.outcome: asyncio.Future[Group] = asyncio.get_running_loop().create_future()


class Joining:
    """A membership from its beginning to its end: what ``join`` returns, for ``async with``."""

    def __init__(
        self,
        node: Node,
        name: str,
        first: tuple[str, ...],
        timeout: float,
        leave_timeout: float,
        buffers: Mapping[str, Any],
        *,
        make_node: Callable[[], Node] | None = None,
    ) -> None:
        self._node = node
        self._make_node = make_node
        self._name = name
        self._first = first
        self._timeout = timeout
        self._leave_timeout = leave_timeout
        self._buffers = buffers
        self._group: Group | None = None

    def __await__(self) -> Generator[Any, None, Group]:
        raise UsageError(f"a membership has an end: write `async with ...join({self._name!r}, ...) as group` instead of `await`")

    async def __aenter__(self) -> Group:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        if self._make_node is not None and self._node._closed:
            self._node = self._make_node()
        while True:
            try:
                return await self._enter(deadline - loop.time())
            except Halted as halted:
                # A process of its own comes back as a new one, as somebody who starts it again would have it.
                if self._make_node is None or halted.reason.code not in COME_BACK or loop.time() >= deadline:
                    raise
                self._node = self._make_node()

    async def _enter(self, timeout: float) -> Group:
        if self._make_node is not None:
            await self._node.open()
        try:
            self._group = await self._node.enter(self._name, self._first, timeout, self._buffers)
        except BaseException:
            if self._make_node is not None:
                await self._node.close()
            raise
        return self._group

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        group = self._group
        assert group is not None
        try:
            await self._leave(group, error)
        finally:
            if group.changes:
                self._node.finish(group.name)
            if self._make_node is not None:
                await self._node.close()

    async def _leave(self, group: Group, error: BaseException | None) -> None:
        group.stop_listening()
        problem: PlainchantError | None = None
        try:
            async with asyncio.timeout(self._leave_timeout):
                await group.finish()
        except TimeoutError:
            waiting = group.waiting()
            what = "left {} without being let go" if group.changes else "ended its part in {}, which was not at rest"
            text = (
                f"{group.me} {what.format(group.name)} in {self._leave_timeout:g} s "
                f"({waiting.text if waiting is not None else 'nothing is waited for'}); "
                f"{group.metrics()['queued']} accepted messages were not sent"
            )
            problem = LeaveTimeout(Reason("leave timeout", text))
        except Halted as halted:
            problem = None if isinstance(error, Halted) else halted
        if problem is not None:
            if error is None:
                raise problem
            error.add_note(str(problem))


def join(
    group: str,
    *,
    me: str,
    peers: Mapping[str, str | Address],
    protocol: str = "sequencer",
    members: Sequence[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    state: bool = False,
    transport: str | MakeTransport = "udp",
    packet: int = 0,
    trace: str | Path | None = None,
    run: str | None = None,
    incarnation: int = 0,
    memory: str = "",
    backup: Mapping[str, str | Address] | None = None,
    watch: str | None = None,
    metrics: str | CollectorRegistry | None = None,
    spans: Spans | float | None = None,
    timeout: float = 30.0,
    leave_timeout: float = 10.0,
    outgoing: int = OUTGOING,
    unread: int = UNREAD,
    listen: bool = True,
    key: Keyring | str | Path | None = None,
    insecure: bool = False,
) -> Joining:
    """Joins a group with a process of its own: ``async with plainchant.join("bank", me="a", peers={...}) as group``.

    Who and where: ``peers`` maps the names of places to addresses (``"host:port"``), ``me`` is one of them, ``members`` those
    that form the group together if it does not exist (all of ``peers`` by default). ``timeout`` and ``leave_timeout`` are
    seconds. The rest is as :class:`Node` and :meth:`Node.join` have it. To join several groups from one process, make a node.
    """
    first = members if members is not None else tuple(peers)

    def make_node() -> Node:
        return Node(
            protocol=protocol,
            me=me,
            peers=peers,
            parameters=parameters,
            state=state,
            transport=transport,
            packet=packet,
            trace=trace,
            run=run,
            incarnation=incarnation,
            groups={group: first},
            memory=memory,
            backup=backup,
            watch=watch,
            metrics=metrics,
            spans=spans,
            key=key,
            insecure=insecure,
        )

    joining = make_node().join(
        group, members=members, timeout=timeout, leave_timeout=leave_timeout, outgoing=outgoing, unread=unread, listen=listen
    )
    joining._make_node = make_node
    return joining


def _parameters(description: Description, given: Mapping[str, Any]) -> Any:
    """The parameters, before they are fitted to the network. Those that are not given may have to fit to those that are."""
    if not given:
        return description.parameters()
    from ..scenario.read import given_parameters

    checked = given_parameters(description.parameters, given, description.name)
    try:
        return description.parameters(**checked)
    except UsageError:
        live = description.tune(description.parameters(), Surroundings(members=2, packet=1400, buffer=0, live=True))
        return dataclasses.replace(live, **checked)


def _by_group(parameters: Any, groups: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters by group, of these groups alone."""
    by_group = [field.name for field, declared in declarations(type(parameters)) if declared.keys == "group"]
    tables = {name: getattr(parameters, name) for name in by_group}
    return {
        name: {group: value for group, value in table.items() if group in groups}
        for name, table in tables.items()
        if isinstance(table, Mapping)
    }


def _term(value: Any, declared: Declared) -> str:
    """A parameter as others are told of it: the same text for the same value."""
    if isinstance(value, Mapping):
        text = json.dumps(value, sort_keys=True, ensure_ascii=False)
        return text if len(text) <= LONGEST_TERM else f"{len(value)} entries of digest {sha256(text.encode()).hexdigest()[:12]}"
    return format_duration(value) if declared.unit == "duration" else str(value)


def _members(group: str, given: Sequence[str], peers: Mapping[str, Any]) -> tuple[str, ...]:
    """The places that form a group, each of them a peer."""
    check_name(group)
    if isinstance(given, str):
        raise UsageError(f"members of {group!r} is {given!r}; it must be a list of names, even of one")
    members = tuple(given)
    unknown = [place for place in members if place not in peers]
    if unknown:
        raise UsageError(f"members of {group!r} that are not among the peers: {', '.join(unknown)}")
    if not members:
        raise UsageError(f"members of {group!r} is empty, so nobody forms the group; name at least one, or leave it out")
    twice = sorted({place for place in members if members.count(place) > 1})
    if twice:
        raise UsageError(f"members of {group!r} that are named twice: {', '.join(twice)}; every process is named once")
    return members


def _find_keys(given: Keyring | str | Path | None) -> KeySource | None:
    """The keys that are given or in the environment. The ciphers are only loaded where there are any."""
    if given is None and not any(name in os.environ for name in ("PLAINCHANT_KEY", "PLAINCHANT_KEY_FILE")):
        return None
    from .keys import KeySource

    return KeySource.find(given)


def _check_trace(directory: Path) -> None:
    """Who cannot write its trace says so before others count on it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        problem = "" if os.access(directory, os.W_OK | os.X_OK) else "it may not be written"
    except OSError as error:
        problem = error.strerror or str(error)
    if problem:
        raise TraceError(f"cannot write a trace to {directory}: {problem}; choose another directory")


def _check_family(here: Address, peers: Mapping[str, Address]) -> None:
    """A UDP socket reaches addresses of its own family."""
    others = [f"{name} at {format_address(address)}" for name, address in peers.items() if family_of(address) != family_of(here)]
    if others:
        kind = "an IPv6" if family_of(here) == socket.AF_INET6 else "an IPv4"
        text = f"{format_address(here)} is {kind} address and does not reach {', '.join(others)}"
        raise UsageError(f"{text}; give all peers addresses of one kind, or use the transport tcp")


def _transport_maker(transport: str | MakeTransport) -> MakeTransport:
    if not isinstance(transport, str):
        return transport
    if transport == "udp":
        return lambda address, packet: UdpTransport(address, packet=packet)
    if transport == "tcp":
        from .tcp import TcpTransport

        return lambda address, packet: TcpTransport(address)
    if transport == "multicast":
        from .multicast import MulticastTransport

        return lambda address, packet: MulticastTransport(address, packet=packet)
    raise UsageError(f"there is no transport {transport!r}; there are udp, tcp and multicast, or give a function that makes one")
