"""What all processes of one simulation share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .host import SimHost
    from .kernel import Kernel
    from .memory import SimMemory
    from .network import Networks
    from .sends import SendTimes


@dataclasses.dataclass(slots=True)
class World:
    """Virtual time, the networks, the table of send times, and the settings that hosts look at."""

    seed: int
    kernel: Kernel
    networks: Networks
    sends: SendTimes
    stopped: Callable[[SimHost], None]  # called when a process has stopped for ever
    entered: Callable[[SimHost, str], None]
    """Called when a process is in a group that it was not made to enter: it proposed the group, or was invited."""
    renamed: Callable[[SimHost, str, str, int], None]
    """Called when a group of a process is renamed: the old name, the new one, and the shift of waiting messages' numbers."""
    max_packet: int  # bytes of messages that go together
    memory_of: Callable[[str], SimMemory | None] = lambda place: None
    """The shared memory of a process's node, if the protocol uses one."""
    views: bool = True  # whether views are written into the trace
    only_send: frozenset[str] = frozenset()  # processes that are in groups without receiving anything there
    admits: bool = False  # whether the protocol, with its parameters, can guarantee deadlines
    tolerate: bool = False  # an engine that raises halts its process, and the run goes on
    accept_rows: bool = False  # write an `accept` row when a message enters the queue
    request_rows: bool = False
    """Write a ``request`` row when a process is asked to enter or leave a group, and a ``fault`` row when faults are over: what
    ``progress`` needs, where the protocol promises it."""
