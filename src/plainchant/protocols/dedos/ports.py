"""Which mailboxes a process is connected to: once each, whatever it does there, as a member, as a relay, or both."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...core.engine import Host
from ...core.memory import Connect, Disconnect, Layout, Nap, Port, Request
from ...core.model import GroupId
from .parameters import Parameters


class Ports:
    """The ports of one process."""

    def __init__(self, host: Host, parameters: Parameters) -> None:
        self._host = host
        self._parameters = parameters
        self._ports: dict[GroupId, tuple[Port, int]] = {}  # Each with how many use it
        self._changing: set[GroupId] = set()

    def connect(self, group: GroupId, layout: Layout) -> Generator[Request, Any, Port | str]:
        """A port, or why there is none."""
        while group in self._changing:
            yield Nap(self._host.clock() + self._parameters.operation)
        if group in self._ports:
            port, uses = self._ports[group]
        else:
            self._changing.add(group)
            found = yield Connect(group, layout)
            self._changing.discard(group)
            if not isinstance(found, Port):
                return str(found)
            port, uses = found, 0
        self._ports[group] = (port, uses + 1)
        return port

    def disconnect(self, group: GroupId) -> Generator[Request, Any, None]:
        """One use less; the last one gives the place back."""
        port, uses = self._ports[group]
        if uses > 1:
            self._ports[group] = (port, uses - 1)
            return
        del self._ports[group]
        self._changing.add(group)
        yield Disconnect(group, port.place, self._host.me)
        self._changing.discard(group)
