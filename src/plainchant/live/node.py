"""A member as a real process: sockets, a protocol, and the groups that an application joins.

Theory of operation
-------------------
A :class:`Node` is one process on one address: it opens a transport, finds out who else is there and under which name it is
known (:mod:`.presence`), and runs one engine for all its groups (:mod:`.host`). ``plainchant.join`` makes a node for a single
group.

Entering a group asks everybody until a way in is known, then waits for the first view; both within ``timeout``. Leaving sends
what was accepted, then asks the group to be let go; a process that simply closes is one that the others have to miss.

Some protocols have groups that do not change (``Description.changes``). Such a group is formed once; nobody joins it later and
nobody leaves. A membership then ends when the group is at rest, and the process with its node.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import socket
from collections.abc import Callable, Generator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from ..engine import Engine, Host
from ..fragmentation import Fragmentation
from ..group import OUTGOING, UNREAD, Group, Guarantees, Halted, JoinTimeout, LeaveTimeout, check_buffers
from ..model import (
    SECOND,
    Declared,
    Form,
    Join,
    PlainchantError,
    Reason,
    TraceError,
    UsageError,
    declarations,
    format_duration,
)
from ..protocols.registry import Description, Surroundings, describe
from ..state import STATE_LOST, STATE_PACKETS, StateTransfer
from ..state_events import StateEvents
from ..wire import Stamped
from .host import LONGEST_NAME, LiveHost
from .names import family_of, format_address, packet_for, parse_address, resolve
from .presence import HELLO_PACKETS, Hello, Presence
from .transport import Address, Transport
from .udp import UdpTransport

TRACE_VERSION: Final = 1
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

MakeTransport = Callable[[Address, int], Transport]


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
        description: Description | None = None,
    ) -> None:
        if me not in peers:
            raise UsageError(f"me is {me!r}, which is not among peers ({', '.join(peers)}): add it with its own address")
        if not me or any("#" in name for name in peers):
            raise UsageError("names of places are not empty and have no '#': it marks a process that came back (a, then a#1)")
        for name in peers:
            _check_length(name)
        self.description = description if description is not None else describe(protocol)
        self.place = me
        self._given = dict(parameters or {})
        self._parameters = _parameters(self.description, self._given)
        self._groups = {name: _members(name, given, peers) for name, given in groups.items()} if groups is not None else None
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
        self._layer: StateTransfer | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()
        self._is_open = False
        self._closed = False
        self._entering: set[str] = set()
        self._entered: set[str] = set()
        """Groups that this process is or has been in: it joins each of them once, as the trace's processes do."""
        self._state_events: StateEvents | None = None
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
        if self._trace is not None:
            _check_trace(Path(self._trace))
        size = self._packet or min(packet_for(address) for address in peers.values())
        self._transport = self._make_transport(here, size)
        if isinstance(self._transport, UdpTransport):
            _check_family(here, peers)
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
            self._host = LiveHost(self._transport, codec, random=self._random, stopped=self._on_stopped)
            self._codec = codec
            self._presence = self._host.presence = Presence(
                self.place, self._boot, peers, self._send_hello, self._on_news, incarnation=self._incarnation,
                terms=self._terms(),
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
        """Stops at once. (Leave the groups first, if they can be left: else the others have to find out.)

        ``drained`` is for whoever knows the whole run: senders had stopped, and nothing was under way anywhere.
        """
        if self._closed:
            return
        self._closed = True
        if not self._is_open:
            return
        if self._ticking is not None:
            self._ticking.cancel()
        try:
            self._host.close({"drained": True} if drained else None)
        finally:
            for group in list(self._host.groups.values()):
                group.halted(Reason("closed", f"{self.name} was closed"))
            self._end_state()
            await self._transport.close()

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
        if not self.description.changes and self.place not in first:
            raise UsageError(
                f"{self.place} is not among the members of {group!r} ({', '.join(first)}), and groups of {self.description.name} "
                f"do not change; name all that are ever to be in it"
            )
        self._check(self._parameters, {**(self._groups or {}), group: first})
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
        if self._closed:
            raise UsageError(f"{self.place} is closed; open a new node to join {name!r}")
        if not self._is_open:
            raise UsageError(f"the node of {self.place} is not open; write `async with Node(...) as node` and join there")
        if not self._host.alive:
            raise UsageError(f"{self.name} was stopped ({self._host.end_reason}); open a new node to join {name!r} again")
        if name in self._host.groups or name in self._entering:
            remedy = "leave it first" if self.description.changes else "its members do not change, so it stays there"
            raise UsageError(f"{self.name} is in {name!r} already; {remedy}")
        if name in self._entered:
            raise UsageError(f"{self.name} has been in {name!r} before; open a new node to join it again")
        presence = self._presence
        group: Group | None = None
        self._entering.add(name)
        try:
            async with asyncio.timeout(timeout):
                how = await self._find_way(name, first)
                if isinstance(how, Join) and not self.description.changes:
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
            text = f"{presence.name} could not enter group {name!r} in {timeout:.3g} s: {missing}"
            raise JoinTimeout(Reason("join timeout", text)) from None
        except BaseException:
            await self._give_up(name, group)
            raise
        finally:
            self._entering.discard(name)
        return group

    async def _give_up(self, name: str, group: Group | None) -> None:
        """Nobody waits to enter any more. Who was let in all the same says goodbye, or the others would have to miss it."""
        self._presence.give_up(name)
        if group is None:
            return
        group.stop_listening()
        if not self.description.changes:
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
        # A process that does not say which groups there are may come to be in several, with the same others.
        groups = self._groups if self._groups is not None else {name: first, f"{name}, and another": first}
        if not host.me:
            self._begin(groups)
        guarantees = Guarantees(self.description.promises(self.parameters, groups), self.description.faults)
        settle = max(SHORTEST_SETTLE, self.description.settle(self.parameters) / SECOND)
        fixed: dict[str, Any] = {"changes": self.description.changes, "settle": settle}
        group = Group(host, name, host.me, guarantees, formed=isinstance(how, Form), **fixed, **buffers)
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
        self._check(self.parameters, {name: members for name, members in groups.items() if members})
        spool = None
        if self._trace is not None:
            from ..trace.spool import Spool, next_run  # brings Arrow, which a process without a trace does not need

            start = {
                "version": TRACE_VERSION,
                "protocol": description.name,
                "parameters": dataclasses.asdict(self.parameters),
                "promises": [promise.name for promise in description.promises(self.parameters, groups)],
                "bounds": dict(description.bounds(self.parameters)),
            }
            name = self._presence.name
            run = self._run if self._run is not None else next_run(self._trace, name)
            spool = Spool(self._trace, run=run, process=name, start=start, time=self._host.clock())
        self._host.begin(self._presence.name, self._make_engine, spool)

    def _check(self, parameters: Any, groups: Mapping[str, Sequence[str]]) -> None:
        """Fails if the parameters do not fit to the groups. Where not all groups are known, others may be named in them."""
        if self._groups is None:
            parameters = dataclasses.replace(parameters, **_by_group(parameters, groups))
        problem = self.description.check(parameters, groups)
        if problem is not None:
            raise UsageError(problem)

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
        self._end_state()


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
                self._node.finish(self._name)
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
    timeout: float = 30.0,
    leave_timeout: float = 10.0,
    outgoing: int = OUTGOING,
    unread: int = UNREAD,
    listen: bool = True,
) -> Joining:
    """Joins a group with a process of its own: ``async with plainchant.join("bank", me="a", peers={...}) as group``.

    Who and where: ``peers`` maps the names of places to addresses (``"host:port"``), ``me`` is one of them, ``members`` those
    that form the group together if it does not exist (all of ``peers`` by default). ``timeout`` and ``leave_timeout`` are
    seconds. The rest is as :class:`Node` and :meth:`Node.join` have it. To join several groups from one process, make a node.
    """
    first = members if members is not None else tuple(peers)

    def make_node() -> Node:
        return Node(
            protocol=protocol, me=me, peers=peers, parameters=parameters, state=state, transport=transport, packet=packet,
            trace=trace, run=run, incarnation=incarnation, groups={group: first},
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
    tables = {field.name: getattr(parameters, field.name) for field in dataclasses.fields(parameters)}
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
    _check_length(group)
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


def _check_length(name: str) -> None:
    """Names stand in every packet, where there is little room for them."""
    length = len(name.encode(errors="surrogatepass"))
    if length > LONGEST_NAME:
        raise UsageError(f"the name {name!r} has {length} bytes, of {LONGEST_NAME} at the most; choose a shorter one")


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

