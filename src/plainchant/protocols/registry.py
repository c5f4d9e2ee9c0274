"""What protocols there are: name to engine, parameters, promised properties and their fault assumptions.

A protocol is described once, here, by a :class:`Description` that its package exports. Hosts build engines from it,
scenario files and ``--help`` are validated and written from its parameters, runs are verified for what it promises.
"""

from __future__ import annotations

import dataclasses
import difflib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..core.engine import Engine, Host
from ..core.memory import Layout
from ..core.model import GroupId, Packet, ProcessId, UsageError
from ..core.plugins import PluginError, PluginWarning, plugins


@dataclasses.dataclass(frozen=True, slots=True)
class Promise:
    """A property that a protocol keeps, and as long as what."""

    name: str
    provided: str


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """Where an engine is about to run, as far as its parameters should fit to it."""

    members: int
    """How many processes the group is meant to have."""
    packet: int
    """Bytes of a full packet."""
    buffer: int
    """Bytes of packets that wait at a receiver before any are lost, as its system counts them; 0: none are lost, the transport
    has back-pressure of its own. Who is in several groups has one buffer for all of them: give each its share."""
    given: frozenset[str] = frozenset()
    """Parameters that the user has set himself: they stay."""
    live: bool = True
    """Whether time is real: processors are shared, and processes wait for them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """Everything the rest of the system knows about a protocol."""

    name: str
    seed: str
    about: str
    parameters: type[Any]
    """A frozen dataclass whose fields are declared with ``model.parameter``; its ``__post_init__`` raises UsageError. A field
    of type ``Mapping[str, ...]`` is a parameter with several values: by group, or by whatever its declaration says (``keys``)."""
    packets: tuple[type[Packet], ...]
    make: Callable[[Host, Any], Engine]
    """Builds a process's engine from its host and an instance of ``parameters``."""
    promises: Callable[[Any, Mapping[GroupId, Sequence[ProcessId]]], tuple[Promise, ...]]
    """What is promised with these parameters and these groups."""
    faults: tuple[str, ...]
    """Kinds of fault under which the promises hold."""
    settle: Callable[[Any], int]
    """The longest time (ns) that a fault can go unnoticed: a drained run stays quiet for so long before it ends."""
    conditional: tuple[Promise, ...] = ()
    """What is promised only with other parameters than the defaults, for people to read."""
    check: Callable[[Any, Mapping[GroupId, Sequence[ProcessId]]], str | None] = lambda parameters, groups: None
    """What is wrong with these parameters for these groups, as a sentence that says what to do; None: nothing."""
    bounds: Callable[[Any, Mapping[GroupId, Sequence[ProcessId]]], Mapping[str, int]] = lambda parameters, groups: {}
    """Times (ns) that are promised by ``bounded``, by name, if no group ever has more members than these."""
    tune: Callable[[Any, Surroundings], Any] = lambda parameters, surroundings: parameters
    """The same parameters, fitted to where the engine is to run; what the user has set is not changed."""
    changes: Callable[[Any], bool] = lambda parameters: True
    """Whether, with these parameters, groups can change: members join, leave and crash. If not, a group is formed once and ends
    as a whole."""
    proposes: Callable[[Any], bool] = lambda parameters: False
    """Whether, with these parameters, processes can propose groups to others (``model.Propose``), close and rename them."""
    lossless: Callable[[Mapping[str, Any]], bool] = lambda given: False
    """Whether, with these parameters, it takes the network for one that loses nothing and overtakes nothing."""
    admits: Callable[[Any], bool] = lambda parameters: False
    """Whether, with these parameters, deadlines can be guaranteed (``model.Admit``)."""
    loopback: bool = False
    """Whether what a process sends to itself goes over the network like what it sends to others, and can be lost there."""
    memory: Callable[[Any], Layout] | None = None
    """Of a protocol on common memory: how large its mailboxes are, with these parameters. Processes have to be where the memory
    is, but for those that ``remote`` names."""
    remote: Callable[[Any], Mapping[ProcessId, ProcessId]] = lambda parameters: {}
    """Of a protocol on common memory: processes that are elsewhere, and who acts for each of them."""
    node_of: Callable[[Any, ProcessId], str] | None = None
    """Of a protocol whose processes are on nodes, each with its own common memory: the node of a process (its name may have an
    incarnation). None: all are on one."""
    processor_of: Callable[[Any, ProcessId], str] = lambda parameters, process: process
    """The processor of a process: processes on one fail together."""
    timely: bool = True
    """Whether who is late on common memory has failed: a timing fault in the trace, of whom promises ask nothing."""
    lans: Callable[[Any], int] = lambda parameters: 1
    """How many networks there are (``Host.send``), each with its own faults."""
    idle: bool = False
    """Whether there may be processes that are in no group: they serve the others."""
    only_send: Callable[[Any], frozenset[ProcessId]] = lambda parameters: frozenset()
    """Processes (without their incarnations) that are in groups without receiving anything there."""
    views: bool = True
    """Whether its views are written into the trace and are what promises go by. If not, a member owes what was sent between its
    ``join`` and its ``leave``, by rank; views tell applications who is there, at the same point of the order for all."""
    room: Callable[[Any], int] | None = None
    """Bytes of messages that go together, where that is not what a packet carries."""
    recorded: frozenset[str] = frozenset()
    """Kinds of row, of those that a protocol may leave out (``lab.metrics.OPTIONAL``), that it writes whenever they happen."""


ENTRY_POINTS: Final = "plainchant.protocols"
"""Installed distributions declare their protocols here: name -> :class:`Description`."""


def protocols() -> dict[str, Description]:
    """All protocols by name: ours, in the order in which people should meet them, then those of other distributions.

    A protocol that cannot be loaded is left out with a warning; :func:`describe` raises the error.
    """
    known = _own()
    for name in plugins(ENTRY_POINTS):
        if name in known:
            continue
        try:
            known[name] = _load(name)
        except PluginError as error:
            warnings.warn(str(error), PluginWarning, stacklevel=2)
    return known


def describe(name: str) -> Description:
    """The protocol of that name, or an error that names the nearest."""
    known = _own()
    if name in known:
        return known[name]
    if name in plugins(ENTRY_POINTS):
        return _load(name)
    known = protocols()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
    raise UsageError(f"there is no protocol {name!r}; {hint}")


def _own() -> dict[str, Description]:
    from .dedos import DESCRIPTION as dedos
    from .mailbox import DESCRIPTION as mailbox
    from .newtop import DESCRIPTION as newtop
    from .rtcast import DESCRIPTION as rtcast
    from .sequencer import DESCRIPTION as sequencer

    return {description.name: description for description in (sequencer, newtop, rtcast, mailbox, dedos)}


def _load(name: str) -> Description:
    """A protocol of another distribution."""
    plugin = plugins(ENTRY_POINTS)[name]
    loaded = plugin.load()
    if not isinstance(loaded, Description):
        raise plugin.error(f"expected a Description, got {type(loaded).__name__}; point the entry point to one")
    if loaded.name != name:
        raise plugin.error(f"its description has the name {loaded.name!r}; use one name for both")
    return loaded
