"""Engine and Host: what a protocol is, and all that it may ask for.

Theory of operation
-------------------
An :class:`Engine` is one process's protocol, for *all* the groups that the process belongs to. It is called and never waits: no
socket, no clock, no thread, no log. What it wants done it asks of its :class:`Host`, and two rules make that safe everywhere:

1. **Host calls never call back.** They become the effects of the turn. When the engine's method has returned, the effects
   are performed in order; if the method raised, they are dropped and the process halts. ``take``, ``now``, ``clock`` and
   ``random`` answer at once, because they only read or hand over. Entry points are not re-entrant, and hosts assert it.
2. **Pull, and batches.** An engine *takes* messages when it may send; backpressure is not taking. One batch carries
   many messages, and no protocol looks inside.

There is one implementation of :class:`Host`, :class:`~.process.Process`; the simulator, the live host and the explorer are
its drivers.

A :class:`Layer` is an engine for the host outside it and a host for the engine inside it. What it does not override is
bound straight through, so a layer costs only what it changes. :class:`PerGroup` runs a protocol that is written for
one group once for each group. The layer that every host puts at the top is :class:`~.fragmentation.Fragmentation`.

This module imports ``model`` and ``memory`` and nothing else of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, Protocol

from .memory import Procedure
from .model import (
    Admit,
    Batch,
    Consent,
    Due,
    Form,
    GroupId,
    Invitation,
    Join,
    Packet,
    Pressure,
    ProcessId,
    Propose,
    ProtocolError,
    Reason,
    Release,
    Timer,
    View,
)


class Host(Protocol):
    """Everything an engine may ask for."""

    me: ProcessId
    random: Random  # seeded; the only source of chance that an engine may use
    max_packet: int  # how many bytes of batch body a packet may carry

    @property
    def now(self) -> int:
        """Monotonic time in ns: for timers and intervals, never compared between processes."""

    def clock(self) -> int:
        """The process's clock in ns, which may be off, drift and step."""

    def take(self, group: GroupId, max_bytes: int, most: int = 0, stream: str = "") -> Batch | None:
        """The next messages to send, numbered from now on: at most ``max_bytes`` of them and at most ``most`` (0: no limit), or
        None. The host records their ``send``. With a ``stream`` (see ``admitted``): its next messages; else those of none."""

    def peek(self, group: GroupId, stream: str = "") -> Due | None:
        """The message that ``take`` would give next, which stays where it is; None: there is none."""

    def admitted(self, group: GroupId, stream: str) -> None:
        """The deadlines of this stream (:class:`~.model.Admit`) are guaranteed; its messages wait under its name."""

    def rejected(self, group: GroupId, stream: str, reason: Reason) -> None:
        """The deadlines of this stream cannot be guaranteed, or no longer, and why."""

    def send(self, to: Sequence[ProcessId], packet: Packet, lan: int = 0) -> None:
        """Sends a packet to processes (an empty list does nothing); the host makes it a multicast where it can. A packet to
        this process itself is queued like any other. ``lan``: the network, where there are several (``Placement.lans``)."""

    def set_timer(self, timer: Timer, at: int) -> None:
        """Calls ``expire(timer)`` at ``at``; setting it again moves it."""

    def cancel_timer(self, timer: Timer) -> None: ...

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        """Hands messages to the application. ``rank`` is the protocol's own order key, if it has one."""

    def install(self, view: View) -> None:
        """From here on this view is in force. The first view of a group with this process in it is its ``join``."""

    def left(self, group: GroupId, rank: int | None = None) -> None:
        """This process is out of the group, as it asked to be, or because a member closed the group."""

    def invited(self, invitation: Invitation) -> None:
        """A group is proposed to this process. The host answers, then or later, with ``notice(Consent(...))``."""

    def refused(self, group: GroupId, reason: Reason) -> None:
        """This process is not in a group that it proposed, agreed to or asked to join, and why."""

    def renamed(self, group: GroupId, view: View, returned: Sequence[bytes] = ()) -> None:
        """The group has another name from here on, that of this view. What waits to be sent in the old one is sent in the new
        one, after what is ``returned``: the last messages that were taken and not sent, which have to be taken again."""

    def stable(self, group: GroupId, rank: int) -> None:
        """Whatever was delivered with a rank up to this one is held by every member."""

    def record(self, kind: str, group: GroupId | None = None, **detail: Any) -> None:
        """Writes an explanation into the trace. Facts (send, deliver, view, crash, end) are written by the host itself.
        ``sender``, ``seq``, ``rank`` and ``deadline`` become columns, everything else goes into ``detail``."""

    def halt(self, reason: Reason) -> None:
        """Stops this process for ever."""

    def spawn(self, name: str, procedure: Procedure) -> None:
        """Runs a procedure on shared memory (:mod:`.memory`), step by step, beside those that run already. What it asks of the
        host between two of its requests is a turn like any other. Hosts without shared memory refuse."""

    def report(self, process: ProcessId, reason: Reason) -> None:
        """Tells the process membership service that a process seems to have failed. If it has, ``notice`` of a
        :class:`~.model.Failure` comes sooner; hosts without such a service ignore it."""


class Engine:
    """One process's protocol. Subclasses override what they need; the defaults do nothing or refuse."""

    def start(self) -> None:
        """Called once, before anything else."""

    def ready(self, group: GroupId) -> None:
        """There is something to send in this group now where there was nothing."""

    def receive(self, source: ProcessId, packet: Packet) -> None:
        """A packet arrived. It may be late, repeated, out of order, or from a stranger."""

    def expire(self, timer: Timer) -> None:
        """A timer that was set has come due. It may be late (a process that was stopped)."""

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        raise ProtocolError(f"{type(self).__name__} cannot join groups")

    def leave(self, group: GroupId) -> None:
        raise ProtocolError(f"{type(self).__name__} cannot leave groups")

    def close(self, group: GroupId) -> None:
        """Ends the group for all its members: ``left`` at each of them."""
        raise ProtocolError(f"{type(self).__name__} cannot close groups")

    def rename(self, group: GroupId, name: GroupId) -> None:
        """Gives the group another name: ``renamed`` at each member."""
        raise ProtocolError(f"{type(self).__name__} cannot rename groups")

    def notice(self, event: Any) -> None:
        """News from the layer below or the host, such as a :class:`~.model.Pressure`. An engine ignores what it does not know."""

    def admission(self, group: GroupId) -> Mapping[str, Any] | None:
        """What is guaranteed in this group now, and how much room is left; None: the protocol has no admission control."""
        return None

    def waiting(self) -> Reason | None:
        """What this engine still has to do before it is at rest; None if nothing. A drained run ends when nobody waits."""
        return None


_HOST_CALLS, _ENGINE_CALLS = (
    tuple(name for name, call in vars(side).items() if callable(call) and not name.startswith("_")) for side in (Host, Engine)
)


class Layer(Engine):
    """An engine on an engine: to the host outside it is the engine, to the engine inside it is the host. A subclass overrides
    calls of either side. Whatever it leaves alone is bound straight to the other side when the stack is built, so that it costs
    nothing. The overriding method reaches the outside as ``self.host`` and the inside as ``self.inner``. Calls inwards come only
    from the layer's own ``receive``, ``expire`` or ``notice``."""

    host: Host
    inner: Engine
    me: ProcessId
    random: Random
    max_packet: int

    def __init__(self, host: Host, inside: Callable[[Host], Engine]) -> None:
        self.host = host
        self.me = host.me
        self.random = host.random
        self.max_packet = host.max_packet
        for name in _HOST_CALLS:
            if name not in _overridden(type(self)):
                setattr(self, name, getattr(host, name))
        self.inner = inside(self)  # type: ignore[arg-type]  # host calls are bound above, where a checker cannot see them
        for name in _ENGINE_CALLS:
            if name not in _overridden(type(self)):
                setattr(self, name, getattr(self.inner, name))

    @property
    def now(self) -> int:
        return self.host.now


_calls_of: Final[dict[type[Engine], set[str]]] = {}


def _overridden(layer: type[Layer]) -> set[str]:
    """The calls that a layer class defines itself, below Layer."""
    if layer not in _calls_of:
        below = layer.__mro__[: layer.__mro__.index(Layer)]
        _calls_of[layer] = {name for cls in below for name in vars(cls)}
    return _calls_of[layer]


class PerGroup(Engine):
    """Runs a protocol that is written for one group, one instance a group. Instances are told apart by the first field of their
    packets (``group``) and by the names of their timers."""

    def __init__(self, host: Host, make: Callable[[Host, GroupId], Engine]) -> None:
        self._host = host
        self._make = make
        self.instances: dict[GroupId, Engine] = {}
        self._receivers: dict[GroupId, Callable[[ProcessId, Packet], None]] = {}

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        if group in self.instances:
            raise ProtocolError(f"{self._host.me} joins {group!r} a second time; leave it first")
        instance = self._make(_GroupHost(self._host, group), group)  # type: ignore[arg-type]  # see _GroupHost
        self.instances[group] = instance
        self._receivers[group] = instance.receive
        instance.start()
        instance.join(group, how)

    def leave(self, group: GroupId) -> None:
        self.instances[group].leave(group)

    def close(self, group: GroupId) -> None:
        self.instances[group].close(group)

    def ready(self, group: GroupId) -> None:
        instance = self.instances.get(group)
        if instance is not None:
            instance.ready(group)

    def receive(self, source: ProcessId, packet: Packet) -> None:
        receive = self._receivers.get(packet.group)  # type: ignore[attr-defined]  # by the rule in Packet's docstring
        if receive is not None:
            receive(source, packet)

    def expire(self, timer: Timer) -> None:
        assert isinstance(timer, tuple), timer
        group, name = timer
        self.instances[group].expire(name)

    def notice(self, event: Any) -> None:
        if isinstance(event, Consent):
            groups = [event.invitation.group]
        else:
            groups = [event.group] if isinstance(event, Pressure | Admit | Release) else sorted(self.instances)
        for group in groups:
            if (instance := self.instances.get(group)) is not None:
                instance.notice(event)

    def admission(self, group: GroupId) -> Mapping[str, Any] | None:
        instance = self.instances.get(group)
        return None if instance is None else instance.admission(group)

    def waiting(self) -> Reason | None:
        reasons = (self.instances[group].waiting() for group in sorted(self.instances))
        return next((reason for reason in reasons if reason is not None), None)


class _GroupHost:
    """The host of one instance: everything of the outer host, with the group's name on the timers."""

    def __init__(self, host: Host, group: GroupId) -> None:
        self._host = host
        self._group = group
        # Engines ask often what time it is: a layer that has no answer of its own is not asked.
        self._timekeeper = host
        while isinstance(self._timekeeper, Layer) and "now" not in _overridden(type(self._timekeeper)):
            self._timekeeper = self._timekeeper.host
        self.me = host.me
        self.random = host.random
        self.max_packet = host.max_packet
        for name in _HOST_CALLS:
            if name not in ("set_timer", "cancel_timer"):
                setattr(self, name, getattr(host, name))

    @property
    def now(self) -> int:
        return self._timekeeper.now

    def set_timer(self, timer: Timer, at: int) -> None:
        self._host.set_timer((self._group, timer), at)

    def cancel_timer(self, timer: Timer) -> None:
        self._host.cancel_timer((self._group, timer))
