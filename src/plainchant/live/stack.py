"""What runs inside a live process: the protocol, the layers over it, and what the host needs for this protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.engine import Engine, Host
from ..group.state_transfer import StateEvents
from ..layers.fragmentation import Fragmentation
from ..layers.state import StateTransfer
from .host import LiveHost
from .setup import Setup


class Stack:
    """The engine of one process: state transfer, if wanted, on fragmentation on the protocol."""

    def __init__(self, setup: Setup, parameters: Any, *, state: bool) -> None:
        self._setup, self.parameters, self._state = setup, parameters, state
        self._events: StateEvents | None = None
        self._layer: StateTransfer | None = None

    def equip(self, host: LiveHost, memory: str, peers: Mapping[str, str]) -> None:
        """Gives the host what the protocol needs of it; ``memory`` is the name of the shared memory, ``peers`` are the addresses
        of processes that may share it under another name."""
        setup, placement = self._setup, self._setup.description.placement
        host.has_views = setup.description.views
        host.only_sends = setup.place in placement.only_send(self.parameters)
        if not setup.has_memory:
            return
        from .memory.server import MailboxServer, namespace_of
        from .memory.stepper import Stepper

        node = setup.node_of(setup.place)
        namespace = memory if node is None else namespace_of(memory, node)
        server = MailboxServer(namespace, address=peers.get(setup.place, ""), peers=peers.values() if node is None else ())
        host.memory = Stepper(host, server, timely=placement.timely)
        if placement.room is not None:
            host.max_packet = placement.room(self.parameters)

    def make(self, host: LiveHost) -> Engine:
        """The engine for a host."""

        def whole_messages(inner: Host) -> Engine:
            return Fragmentation(inner, lambda inmost: self._setup.description.make(inmost, self.parameters))

        if not self._state:
            return whole_messages(host)
        events = self._events = StateEvents(host.groups, defer=host.defer, turn=host.later)
        self._layer = events.layer = StateTransfer(host, whole_messages, events)
        return self._layer

    def abandon(self, host: LiveHost, group: str) -> None:
        """Leaves a group in which this process may still wait for its state, without that state."""
        if self._layer is not None:
            host.later(self._layer.abandon, group, "the application no longer waits for it")
        else:
            host.leave(group)

    def end(self) -> None:
        """The process has stopped: tasks that write a state wait no longer."""
        if self._events is not None:
            self._events.end()
