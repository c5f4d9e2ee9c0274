"""A member as a real process: sockets, a protocol, and the groups that an application joins.

A :class:`Node` is one process on one address. It checks its configuration (:mod:`.setup`), opens a transport, meets the other
processes and learns the name by which they know it (:mod:`.rendezvous`, :mod:`.presence`), and runs one engine for all its
groups (:mod:`.stack`, :mod:`.host`). Its keys are in :mod:`.node_keys`, its spool and its page in :mod:`.recording`.
``plainchant.join`` makes a node for a single group.

Entering a group asks the other processes until a way in is known, then waits for the first view; both within ``timeout``.
Leaving sends what was accepted, then asks the group to be released; the others have to detect a process that simply closes.

Where groups do not change (``Description.changes``), a group is formed once; no process joins it later or leaves it. A
membership then ends when the group is idle, and the process with its node. Where processes form groups while they run
(``Description.proposes``), one proposes (``form``), the others are asked (``agree``), and those that agree find themselves in
the group (``next_group``).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self

from ..core.model import BOTH, TRACE_VERSION, Invitation, Met, Reason, UsageError
from ..core.wire import Stamped
from ..group import OUTGOING, UNREAD, Buffers, Group
from ..layers.state_parts import STATE_PACKETS
from ..protocols.registry import DEFAULT_PROTOCOL, Description, describe, promised
from .addresses import family_of, format_address, packet_for, resolve
from .host import LiveHost
from .joining import Joining
from .lans import Lans
from .memberships import DEFAULT_BUFFERS, Memberships
from .node_keys import Insecure, NodeKeys
from .presence import HELLO_PACKETS, Hello, Presence
from .recording import Recording
from .refusals import Refusals
from .rendezvous import Rendezvous
from .setup import Setup
from .stack import Stack
from .transport import Address, MakeTransport, Transport, senders_of
from .transports import transport_maker
from .udp import UdpTransport

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from .keys import Keyring
    from .observe.observer import Observer
    from .observe.spans import Spans

SMALLEST_PACKET: Final = 256  # bytes of the smallest packet size


class Node:
    """One process: ``async with Node(...) as node``, then ``node.join(group)``.

    ``peers`` maps the names of places to addresses; ``me`` is one of them. ``parameters`` are the protocol's (``plainchant
    protocols``). ``transport`` is ``"udp"``, ``"tcp"``, ``"multicast"``, or a function that makes one. ``packet`` is the size of
    packets in bytes; 0: what the network's interface takes. With ``trace`` everything that happens is recorded in a spool under
    that directory, which ``plainchant collect`` turns into a trace to verify. With ``state``, which all members must agree on, a
    process that joins an existing group gets the application's state from a member: its first events are the view and a
    ``State``, and a member is asked for it by a ``StateRequest`` in its stream. ``groups`` lists the groups that exist, with the
    places that form them: ``join`` takes the members from it and enters no others. Where groups share members some protocols
    promise less, so without it the least is promised.

    ``agree`` gets an :class:`~.core.model.Invitation` to a group that another process proposes (:meth:`form`) and says whether
    this one wants to be in it. A node that is given it can be asked as soon as it is open, another once it has joined a group;
    that one agrees to everything. Take such groups with :meth:`next_group`, and read them.

    Protocols on shared memory need all peers on one machine, or, where processes are on nodes (``n1.a`` is on ``n1``), those of
    each node. Those with the same ``memory`` share it, node by node: any name, by default one made of the peers' addresses, so
    that unrelated programs do not meet. With a second network (the parameter ``lans``) ``backup`` has the addresses of all peers
    there. A process that is in no group and serves the others calls :meth:`serve`.

    ``watch`` (``"127.0.0.1:8765"``) serves a page that shows what this process does (``docs/watch.md``). ``metrics`` is an
    address (``"127.0.0.1:9464"``, or a port on loopback) at which Prometheus finds the node's figures, or a registry of
    ``prometheus_client`` that gets them. With ``spans`` it reports to OpenTelemetry (:class:`~.observe.spans.Spans`, or the share
    of messages that are traced). Both need the extra ``observe``.

    ``key`` is a key file (``plainchant key new``) or a :class:`~plainchant.Keyring`; by default the environment's
    (``PLAINCHANT_KEY``, ``PLAINCHANT_KEY_FILE``). All members need the same one: then every packet is sealed. A file that changes
    is read again. Without a key a node is only at an address that no other machine reaches, unless that is intended
    (``insecure``).
    """

    def __init__(
        self,
        *,
        protocol: str = DEFAULT_PROTOCOL,
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
        self.description = description if description is not None else describe(protocol)
        self._setup = Setup(self.description, place=me, peers=peers, given=parameters or {}, groups=groups, backup=backup or {})
        if agree is not None:
            self._setup.check_proposes()
        self.agree = agree
        self.place = me  # the name of the place at which this process runs
        self.proposes = self._setup.proposes  # whether groups can be proposed, closed and renamed
        self.has_state = state  # whether a process that joins gets the application's state
        self.is_closed = False
        self._memory = memory
        self._sharing: dict[str, str] = {}  # peers that may share memory under another name; empty: the name was given
        self._make_transport = transport_maker(transport)
        self._packet = packet
        self._recording = Recording(me, trace=trace, run=run, watch=watch)
        self._incarnation = incarnation
        self._random = Random(seed if seed is not None else int.from_bytes(os.urandom(8)))
        self._boot = os.urandom(4)
        self._keys = NodeKeys(me, key)
        self._insecure = insecure
        self._refusals = Refusals()
        self._is_open = False
        self._met: set[str] = set()  # processes that the protocol has been told of
        self._halted = asyncio.Event()
        self.observer: Observer | None = None  # what reports on this process, if ``metrics`` or ``spans`` were asked for
        if metrics is not None or spans is not None:
            from .observe.observer import Observer

            self.observer = Observer(metrics, spans)
        self._rendezvous = Rendezvous(self._on_news)
        self._memberships = Memberships(
            self._setup, self._rendezvous, self, state=state, agree=agree, begin=self._begin, take_name=self._take_name
        )
        self.parameters: Any  # the parameters in force, once the process has its name
        self._transport: Transport
        self.host: LiveHost  # the process itself, for tools and tests
        self._presence: Presence

    # --- opening and closing ----------------------------------------------------------------------------------------
    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Binds the address and begins to listen."""
        if self._is_open or self.is_closed:
            raise UsageError(f"the node of {self.place} was opened before; it is one process, so make a new one to come back")
        setup = self._setup
        peers = {name: await resolve(address) for name, address in setup.peers.items()}
        backup = {name: await resolve(address) for name, address in setup.backup.items()}
        self._keys.find()
        exposed = [each[self.place] for each in (peers, backup) if each]
        danger = self._keys.check_reach(exposed, insecure=self._insecure)
        self._recording.check()
        if setup.has_memory:
            from .memory.server import check_root

            check_root()
            if not self._memory:
                self._memory = setup.memory_name(peers)
                self._sharing = {name: format_address(address) for name, address in peers.items()}
        transport = self._make_transports(peers, backup, self._packet or min(map(packet_for, peers.values())))
        if isinstance(transport, UdpTransport):
            _check_family(peers[self.place], peers)
        self._transport = self._keys.seal(transport, self._boot, peers, self._refusals, self._on_proved)
        opened = False
        try:
            # The host needs the limits that the transport finds out when it opens; packets that arrive before are lost.
            await self._transport.open(self._on_packet, self._on_turn_over)
            opened = True
            if self._transport.limits.packet < SMALLEST_PACKET:
                taken = f"packets of {self._transport.limits.packet} bytes have no room for messages"
                raise UsageError(f"{taken}; choose a larger packet, of at least {SMALLEST_PACKET}")
            self._make_host(peers)
            if self.observer is not None:
                await self.observer.open(self)
            self._is_open = True
            await self._recording.open()
            if danger:
                warnings.warn(danger, Insecure, stacklevel=2)
            self._keys.watch()
            if self.agree is not None:
                await self._take_name()
        except BaseException:
            self._is_open = False
            await self._recording.close()
            if self.observer is not None:
                await self.observer.close()
            if opened:
                await self._transport.close()
            raise

    def _make_transports(self, peers: Mapping[str, Address], backup: Mapping[str, Address], size: int) -> Transport:
        first = self._make_transport(peers[self.place], size)
        if self._setup.lans == 1:
            return first
        second = self._make_transport(backup[self.place], size)
        return Lans((first, second), [{peers[name]: address for name, address in backup.items()}])

    def _make_host(self, peers: dict[str, Address]) -> None:
        # Without state transfer its packets are unknown: a process that asks for state gets none, and does no harm.
        state_packets = STATE_PACKETS if self.has_state else ()
        self._codec = Stamped((*self.description.packets, *state_packets, *HELLO_PACKETS), self._boot)
        loopback, refusals, owner, stopped = self.description.loopback, self._refusals, self._memberships, self._on_stopped
        self.host = owner.host = LiveHost(
            self._transport, self._codec, random=self._random, stopped=stopped, owner=owner, loopback=loopback, refusals=refusals
        )
        if self._keys.sealed is not None:
            self.host.gate.place_at = self._keys.sealed.place_at
        calls, terms = (self._send_hello, self._rendezvous.on_news), self._setup.terms(state=self.has_state)
        self._presence = self.host.presence = self._rendezvous.presence = Presence(
            self.place, self._boot, peers, *calls, incarnation=self._incarnation, terms=terms, refusals=refusals
        )

    async def close(self, *, drained: bool = False) -> None:
        """Stops at once. (Leave the groups first, if they can be left: otherwise the others have to detect it.) ``drained`` is
        for a caller that knows the whole run: senders had stopped, and nothing was under way anywhere."""
        if self.is_closed:
            return
        self.is_closed = True
        if not self._is_open:
            return
        self._rendezvous.stop()
        self._keys.stop()
        try:
            self.host.close({"drained": True} if drained else None)
        finally:
            for group in list(self.host.groups.values()):
                group.halted(Reason("closed", f"{self.name} was closed"))
            self._end_state()
            await self._recording.close()
            await self._transport.close()
            if self.observer is not None:
                await self.observer.close()

    async def serve(self) -> None:
        """Takes part without being in a group, where the protocol has use for such processes; returns when this one does."""
        if not self.description.placement.idle:
            raise UsageError(f"with {self.description.name} a process that is in no group has nothing to do; join one")
        if not self._is_open:
            raise UsageError(f"the node of {self.place} is not open; write `async with Node(...) as node` and serve there")
        await self._take_name()

    async def halted(self) -> Reason:
        """Waits until the protocol stops this process, and says why it did."""
        await self._halted.wait()
        assert self.host.end_reason is not None
        return self.host.end_reason

    # --- identity, keys, figures --------------------------------------------------------------------------------------
    @property
    def name(self) -> str:
        """The name under which this process is known: its place, and ``#1``, ``#2``, ... if it was here before."""
        return self.host.me or self._presence.name

    @property
    def address(self) -> Address:
        return self._transport.address

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the keys that this process has now, the one that it seals with first; none without a key."""
        return self._keys.ids

    def reload_key(self) -> bool:
        """Reads the key file again, now; returns whether it has other keys than before. (It is read every second anyway.) Raises
        ``UsageError`` if it cannot be read, and goes on with the keys that there are."""
        return self._keys.reload()

    def use_keys(self, ring: Keyring) -> None:
        """Changes the keys, for programs that have them from elsewhere than a file."""
        self._keys.use(ring)

    def statistics(self) -> dict[str, int]:
        """What this process has sent, received and refused, as numbers by name: ``packets_...`` and ``bytes_...`` are the
        transport's, ``refused_...`` packets that arrived and changed nothing, by reason (:class:`~.refusals.Refusals`),
        ``network_errors`` what the network or a connection's other end refused, ``peers`` the size of the address book,
        ``sessions`` the processes that have proved themselves, ``sealed_with_ID`` how many of the others seal with that key."""
        found = {**self.host.counters(), **{f"refused_{name}": count for name, count in self._refusals.as_dict().items()}}
        inner = self._keys.sealed.inner if self._keys.sealed is not None else self._transport
        if isinstance(inner, Lans):
            found["refused_stranger"] += inner.strangers
        found["network_errors"] = inner.counters.errors
        found["peers"] = len(self._presence.peers)
        return found | self._keys.statistics()

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
        role: str = BOTH,
    ) -> Joining:
        """Joins a group: ``async with node.join("bank") as group``. ``members`` are the places whose processes form the group
        together if it does not exist; by default those that the node's ``groups`` names, or all peers. Once it exists, its
        members admit the processes that join. Raises :class:`JoinTimeout`, saying what it waited for. With protocols that have
        roles (``dedos``), ``role="sends"`` joins without receiving messages and ``role="receives"`` without sending any."""
        return self.joining(group, members, timeout, leave_timeout, Buffers(outgoing, unread, listen), role)

    def joining(
        self, group: str, members: Sequence[str] | None, timeout: float, leave_timeout: float, buffers: Buffers, role: str
    ) -> Joining:
        """The membership that :meth:`join` returns."""
        setup = self._setup
        setup.check_role(role)
        first = setup.first_members(group, members)
        if self.has_state and not buffers.listen:
            raise UsageError("with state=True every member may be asked for the state in its stream; leave listen=False out")
        if not setup.changes and self.place not in first:
            text = f"{self.place} is not among the members of {group!r} ({', '.join(first)})"
            raise UsageError(f"{text}, and groups of {self.description.name} do not change; name all that are ever to be in it")
        setup.check(setup.parameters, {**(setup.groups if setup.groups is not None else self._memberships.mine), group: first})
        return Joining(self, group, first, timeout, leave_timeout, buffers, role)

    async def enter(
        self, name: str, first: tuple[str, ...], timeout: float, buffers: Buffers = DEFAULT_BUFFERS, role: str = BOTH
    ) -> Group:
        """Finds the way into a group, and returns when the first view is there."""
        self._check_open(name)
        with self.observer.joining(name) if self.observer is not None else contextlib.nullcontext():
            return await self._memberships.enter(name, first, timeout, buffers, role)

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
        """Proposes a new group to the processes at these places; those that agree form it with this one. Returns when the group
        is formed. ``group.leave()`` leaves it and ``group.close()`` ends it for all; do one of them before the node is closed.
        Raises :class:`NotFormed` if no process agreed, :class:`JoinTimeout` if one cannot be reached or it takes too long."""
        self._setup.check_proposes()
        buffers = Buffers(outgoing, unread, listen)
        self._check_open(group)
        return await self._memberships.form(group, members, timeout, buffers)

    async def next_group(self) -> Group:
        """Waits for the next group that this process is in because another process proposed it."""
        self._setup.check_proposes()
        return await self._memberships.proposals.next_group()

    def finish(self, group: str) -> None:
        """The process has left a group."""
        self._memberships.finish(group)

    def _check_open(self, group: str) -> None:
        if self.is_closed:
            raise UsageError(f"{self.place} is closed; open a new node to join {group!r}")
        if not self._is_open:
            raise UsageError(f"the node of {self.place} is not open; write `async with Node(...) as node` and join there")

    # --- the process ----------------------------------------------------------------------------------------------------
    async def _take_name(self) -> None:
        """Learns the name under which this process is known, so that others can speak to it before it is in any group."""
        await self._rendezvous.hear_all(lambda: bool(self.host.me))
        if not self.host.me:
            places = tuple(self._setup.peers)
            self._begin(self._setup.groups if self._setup.groups is not None else {"a group": places, "and another": places})
            self._presence.settle()

    def _begin(self, groups: Mapping[str, tuple[str, ...]]) -> None:
        """The name is settled: the engine and the spool can be made."""
        description, setup = self.description, self._setup
        self.parameters = setup.tune(self._transport.limits)
        # A process that only joins need not know the members that form a group.
        setup.check(self.parameters, {name: members for name, members in groups.items() if members})
        spool = None
        if self._recording.is_wanted:
            start = {
                "version": TRACE_VERSION,
                "protocol": description.name,
                "parameters": dataclasses.asdict(self.parameters),
                **promised(description, self.parameters, groups),
            }
            self.host.notes_requests = "progress" in start["promises"]
            spool = self._recording.begin(self._presence.name, start, self.host.clock())
        stack = self._memberships.stack = Stack(setup, self.parameters, state=self.has_state)
        stack.equip(self.host, self._memory, self._sharing)
        self.host.begin(self._presence.name, stack.make, spool)
        self._introduce()

    def _on_packet(self, source: Address, data: Any) -> None:
        if self._is_open:
            self.host.packet(source, data)

    def _on_turn_over(self) -> None:
        if self._is_open:
            self.host.turn_over()

    def _on_proved(self, address: Address) -> None:
        if self._is_open:
            self._presence.greet((address,))

    def _send_hello(self, to: Sequence[Address], hello: Hello) -> None:
        frame = self._codec.encode_frame(hello)
        for send in senders_of(self._transport):
            send(to, frame)

    def _on_news(self) -> None:
        self.host.routes.ready.clear()
        self._introduce()

    def _introduce(self) -> None:
        """Where processes may be in no group: tells the protocol which processes there are."""
        if self.description.placement.idle and self.host.me and self.host.alive:
            self._met.intersection_update(self._presence.routes)
            for name in self._presence.routes:
                if name not in self._met:
                    self._met.add(name)
                    self.host.later(self.host.engine.notice, Met(name))

    def _on_stopped(self, reason: Reason) -> None:
        """The protocol stopped this process: it answers no hello any more."""
        self._memberships.proposals.halt(reason)
        self._presence.standing.clear()
        self._end_state()
        self._halted.set()

    def _end_state(self) -> None:
        if self._memberships.stack is not None:
            self._memberships.stack.end()


def join(
    group: str,
    *,
    me: str,
    peers: Mapping[str, str | Address],
    protocol: str = DEFAULT_PROTOCOL,
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
    role: str = BOTH,
    key: Keyring | str | Path | None = None,
    insecure: bool = False,
) -> Joining:
    """Joins a group with a process of its own: ``async with plainchant.join("bank", me="a", peers={...}) as group``. ``peers``
    maps the names of places to addresses (``"host:port"``), ``me`` is one of them, ``members`` those that form the group together
    if it does not exist (all of ``peers`` by default). ``timeout`` and ``leave_timeout`` are seconds. The rest is as
    :class:`Node` and :meth:`Node.join` have it. To join several groups from one process, make a node."""
    groups = {group: members if members is not None else tuple(peers)}
    node = partial(Node, protocol=protocol, me=me, peers=peers, parameters=parameters, state=state, groups=groups)
    node = partial(node, transport=transport, packet=packet, trace=trace, run=run, incarnation=incarnation, memory=memory)
    node = partial(node, backup=backup, watch=watch, metrics=metrics, spans=spans, key=key, insecure=insecure)
    buffers = Buffers(outgoing, unread, listen)
    return node().joining(group, members, timeout, leave_timeout, buffers, role).own_process(node)


def _check_family(here: Address, peers: Mapping[str, Address]) -> None:
    """A UDP socket reaches addresses of its own family."""
    others = [f"{name} at {format_address(address)}" for name, address in peers.items() if family_of(address) != family_of(here)]
    if others:
        kind = "an IPv6" if family_of(here) == socket.AF_INET6 else "an IPv4"
        text = f"{format_address(here)} is {kind} address and does not reach {', '.join(others)}"
        raise UsageError(f"{text}; give all peers addresses of one kind, or use the transport tcp")
