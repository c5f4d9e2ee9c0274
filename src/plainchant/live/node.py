"""A member as a real process: sockets, a protocol, and the groups that an application joins.

Theory of operation
-------------------
A :class:`Node` is one process on one address: it opens a transport, finds out who else is there and under which name it is
known (:mod:`.presence`), and runs one engine for all its groups (:mod:`.host`). ``plainchant.join`` makes a node for a single
group.

Entering a group asks everybody until a way in is known, then waits for the first view; both within ``timeout``. Leaving sends
what was accepted, then asks the group to be let go; a process that simply closes is one that the others have to miss.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from ..engine import Engine, Host
from ..fragmentation import Fragmentation
from ..group import OUTGOING, UNREAD, Group, Guarantees, Halted, JoinTimeout, LeaveTimeout
from ..model import Form, Join, PlainchantError, Reason, UsageError
from ..protocols.registry import Description, Surroundings, describe
from ..state import STATE_LOST, STATE_PACKETS, StateTransfer
from ..state_events import StateEvents
from ..wire import Stamped
from .host import LiveHost
from .names import packet_for, parse_address, resolve
from .presence import HELLO_PACKETS, Hello, Presence
from .transport import Address, Transport
from .udp import UdpTransport

TRACE_VERSION: Final = 1
TICK: Final = 0.05
"""Seconds between two hellos while an answer is waited for."""
SETTLE: Final = 0.2
"""Seconds that a process that joins gives everybody to say whether its name is taken, if not all are heard before."""

LOST_BEGINNING: Final = "lost beginning"
"""Why a process has to start again before it ever was a member."""
COME_BACK: Final = (LOST_BEGINNING, STATE_LOST)
"""Reasons for which ``join`` starts again by itself, within its time."""

MakeTransport = Callable[[Address, int], Transport]


class Node:
    """One process: ``async with Node(...) as node``, then ``node.join(group)``.

    ``peers`` maps the names of places to addresses; ``me`` is one of them. ``parameters`` are the protocol's (see ``plainchant
    protocols``). ``transport`` is ``"udp"``, ``"tcp"``, ``"multicast"``, or a function that makes one. ``packet`` is the size
    of packets in bytes; 0: what the network's interface takes. With ``trace`` everything that happens is recorded in a spool
    under that directory, which ``plainchant collect`` turns into a trace to verify. With ``state``, which all members must
    agree on, who joins a group that exists gets the application's state from a member: its first events are the view and a
    ``State``, and a member is asked for it by a ``StateRequest`` in its stream. ``groups`` are the groups that there are, with
    the places that form them: where groups share members some protocols promise less, so without it the least is promised.
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
        run: str = "r0",
        incarnation: int = 0,
        seed: int | None = None,
        state: bool = False,
        groups: Mapping[str, Sequence[str]] | None = None,
        description: Description | None = None,
    ) -> None:
        if me not in peers:
            raise UsageError(f"me is {me!r}, which is not among peers ({', '.join(peers)}): add it with its own address")
        if not me or any("#" in name for name in peers):
            raise UsageError("names of places are not empty and have no '#': it marks a process that came back (a, then a#1)")
        self.description = description if description is not None else describe(protocol)
        self.place = me
        self._given = dict(parameters or {})
        self._parameters = _parameters(self.description, self._given)
        self._groups = {name: tuple(members) for name, members in groups.items()} if groups is not None else None
        self._peers = {
            name: parse_address(address) if isinstance(address, str) else address for name, address in peers.items()
        }
        self._make_transport = _transport_maker(transport)
        self._packet = packet
        self._trace = trace
        self._run = run
        self._incarnation = incarnation
        self._random = Random(seed if seed is not None else int.from_bytes(os.urandom(8)))
        self._state = state
        self._boot = os.urandom(4)
        self._ticking: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()
        self._is_open = False
        self._closed = False
        self._entered: set[str] = set()
        """Groups that this process is or has been in: it joins each of them once, as the trace's processes do."""
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
        peers = {name: await resolve(address) for name, address in self._peers.items()}
        here = peers[self.place]
        size = self._packet or min(packet_for(address) for address in peers.values())
        self._transport = self._make_transport(here, size)
        codec = Stamped((*self.description.packets, *STATE_PACKETS, *HELLO_PACKETS), self._boot)
        opened = False
        try:
            # The host needs the limits that the transport finds out when it opens; what comes before it is there is lost.
            await self._transport.open(self._on_packet, self._on_turn_over)
            opened = True
            self._host = LiveHost(self._transport, codec, random=self._random, stopped=self._on_stopped)
            self._codec = codec
            self._presence = self._host.presence = Presence(
                self.place, self._boot, peers, self._send_hello, self._on_news, incarnation=self._incarnation
            )
            self._is_open = True
        except BaseException:
            if opened:
                await self._transport.close()
            raise

    def _on_packet(self, source: Address, data: Any) -> None:
        if self._is_open:
            self._host.packet(source, data)

    def _on_turn_over(self) -> None:
        if self._is_open:
            self._host.turn_over()

    async def close(self, *, drained: bool = False) -> None:
        """Stops at once. (Leave the groups first: else the others have to find out.)

        ``drained`` is for whoever knows the whole run: senders had stopped, and nothing was under way anywhere.
        """
        if self._closed:
            return
        self._closed = True
        if self._ticking is not None:
            self._ticking.cancel()
        try:
            self._host.close({"drained": True} if drained else None)
        finally:
            await self._transport.close()
            for group in list(self._host.groups.values()):
                group.halted(Reason("closed", f"{self.name} was closed"))

    # --- who it is --------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name under which this process is known: its place, and ``#1``, ``#2``, ... if it was here before."""
        return self._host.me or self._presence.name

    @property
    def address(self) -> Address:
        return self._transport.address

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

        ``members`` are the places whose processes form the group together if it does not exist; by default all peers. Once it
        exists, whoever comes is let in by its members. Raises :class:`JoinTimeout`, saying what it waited for.
        """
        first = tuple(members) if members is not None else tuple(self._peers)
        unknown = [place for place in first if place not in self._peers]
        if unknown:
            raise UsageError(f"members of {group!r} that are not among the peers: {', '.join(unknown)}")
        buffers = {"outgoing": outgoing, "unread": unread, "listen": listen}
        return Joining(self, group, first, timeout, leave_timeout, buffers)

    async def enter(self, name: str, first: tuple[str, ...], timeout: float, buffers: Mapping[str, Any]) -> Group:
        """Finds the way into a group, and returns when the first view is there."""
        if self._closed:
            raise UsageError(f"{self.place} is closed; open a new node to join {name!r}")
        if not self._host.alive:
            raise UsageError(f"{self.name} was stopped ({self._host.end_reason}); open a new node to join {name!r} again")
        if name in self._host.groups:
            raise UsageError(f"{self.name} is in {name!r} already; leave it first")
        if name in self._entered:
            raise UsageError(f"{self.name} has been in {name!r} before; open a new node to join it again")
        presence = self._presence
        try:
            async with asyncio.timeout(timeout):
                how = await self._find_way(name, first)
                group = self._become_member(name, first, how, buffers)
                try:
                    await group.joined()
                except asyncio.CancelledError:
                    self._host.leave(name)
                    raise
                presence.entered(name)
                if self._state and isinstance(how, Join):
                    await group.has_state()
        except TimeoutError:
            presence.give_up(name)
            text = f"{presence.name} could not enter group {name!r} in {timeout:.3g} s: {presence.missing(name)}"
            raise JoinTimeout(Reason("join timeout", text)) from None
        except BaseException:
            presence.give_up(name)
            raise
        return group

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
        # A process that does not say which groups there are may come to be in several, with the same others.
        groups = self._groups if self._groups is not None else {name: first, f"{name}, and another": first}
        if not host.me:
            self._begin(groups)
        guarantees = Guarantees(self.description.promises(self.parameters, groups), self.description.faults)
        group = Group(host, name, host.me, guarantees, **buffers)
        self._entered.add(name)
        self._presence.enter(name, how)
        host.enter(group, how)
        return group

    def _begin(self, groups: dict[str, tuple[str, ...]]) -> None:
        """The name is settled: the engine and the spool can be made."""
        description = self.description
        limits = self._transport.limits
        surroundings = Surroundings(
            members=len(self._peers), packet=limits.packet, buffer=limits.buffer // max(1, len(self._groups or ())),
            given=frozenset(self._given), live=True,
        )
        self.parameters = description.tune(self._parameters, surroundings)
        # Who only joins need not know who forms a group.
        problem = description.check(self.parameters, {name: members for name, members in groups.items() if members})
        if problem is not None:
            raise UsageError(problem)
        spool = None
        if self._trace is not None:
            from ..trace.spool import Spool  # brings Arrow, which a process without a trace does not need

            start = {
                "version": TRACE_VERSION,
                "protocol": description.name,
                "parameters": dataclasses.asdict(self.parameters),
                "promises": [promise.name for promise in description.promises(self.parameters, groups)],
                "bounds": dict(description.bounds(self.parameters)),
            }
            spool = Spool(self._trace, run=self._run, process=self._presence.name, start=start, time=self._host.clock())
        self._host.begin(self._presence.name, self._make_engine, spool)

    def _make_engine(self, host: LiveHost) -> Engine:
        """The stack: state transfer, if wanted, on fragmentation on the protocol."""

        def whole_messages(inner: Host) -> Engine:
            return Fragmentation(inner, lambda inmost: self.description.make(inmost, self.parameters))

        if not self._state:
            return whole_messages(host)
        events = StateEvents(host.groups, place=host.place, turn=host.later)
        events.layer = StateTransfer(host, whole_messages, events)
        return events.layer

    def finish(self, group: str) -> None:
        """The process has left a group."""
        self._presence.left(group)

    # --- hellos -----------------------------------------------------------------------------------------------------

    def _send_hello(self, to: Sequence[Address], hello: Hello) -> None:
        self._transport.send(to, self._codec.encode_frame(hello))

    def _on_news(self) -> None:
        self._host.forget_routes()
        self._news.set()
        if self._presence.seeking:
            self._ask_for_tick()

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
        self._presence.standing.clear()


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

    async def __aenter__(self) -> Group:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
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
            self._node.finish(self._name)
            if self._make_node is not None:
                await self._node.close()

    async def _leave(self, group: Group, error: BaseException | None) -> None:
        group.stop_listening()
        problem: PlainchantError | None = None
        try:
            async with asyncio.timeout(self._leave_timeout):
                await group.leave()
        except TimeoutError:
            waiting = group.waiting()
            text = (
                f"{group.me} left {group.name} without being let go in {self._leave_timeout:g} s "
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
    timeout: float = 30.0,
    leave_timeout: float = 10.0,
    outgoing: int = OUTGOING,
    unread: int = UNREAD,
    listen: bool = True,
    **options: Any,
) -> Joining:
    """Joins a group with a process of its own: ``async with plainchant.join("bank", me="a", peers={...}) as group``.

    ``options`` are those of :class:`Node`. To join several groups from one process, make a node.
    """

    first = tuple(members) if members is not None else tuple(peers)

    def make_node() -> Node:
        return Node(protocol=protocol, me=me, peers=peers, groups={group: first}, **options)

    joining = make_node().join(
        group, members=members, timeout=timeout, leave_timeout=leave_timeout, outgoing=outgoing, unread=unread, listen=listen
    )
    joining._make_node = make_node
    return joining


def _parameters(description: Description, given: Mapping[str, Any]) -> Any:
    if not given:
        return description.parameters()
    from ..scenario.read import parameters_of  # brings Arrow, which a process without parameters or trace does not need

    return parameters_of(description.parameters, given, description.name)


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

