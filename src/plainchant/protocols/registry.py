"""Which protocols there are: each name with its engine, its parameters, what it promises and under which faults.

A protocol is described once, by the :class:`Description` that its package exports. Hosts build engines from it, scenario files
and ``--help`` are validated and written from its parameters, and runs are verified for what it promises. What is told about its
runs is its *story* (:mod:`.story`), which a description only refers to: a live member never imports it.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..core.engine import Engine, Host
from ..core.memory import Layout, Operate
from ..core.model import GroupId, Packet, ProcessId, UsageError
from ..core.plugins import PluginError, PluginWarning, part, parts, plugins

if TYPE_CHECKING:
    from .exploration import Exploration
    from .story import Story

Groups: TypeAlias = Mapping[GroupId, Sequence[ProcessId]]
DEFAULT_PROTOCOL: Final = "sequencer"  # The protocol of a node or a run that names none


@dataclasses.dataclass(frozen=True, slots=True)
class Promise:
    """A property that a protocol keeps, and the condition under which it does."""

    name: str
    provided: str


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """How long a protocol may let its applications wait, as long as faults stay within what it tolerates.

    Times are in ns, from the call of the application, not from when the protocol takes the message. They count anew from every
    fault, crash and change of members, because each may begin a new suspicion or election.
    """

    within: int | None = None
    """Longest time from ``send`` (or, if earlier messages of this sender wait, from the delivery of the last of them) to the
    delivery at every correct member of the view; None: not bounded."""
    answered: int | None = None
    """Longest time until a request to join, leave or form a group, or to merge its parts, is answered; None: not bounded."""
    despite: frozenset[str] = frozenset()
    """Kinds of fault (``scenario.model.FAULTS``) of *other* processes or links that may last without being an excuse. A kind with
    a rate can have a limit: ``"loss<=0.3"``. So can omissions, of one packet at one process: ``"omit<=2"``."""
    because: str = ""  # Why a time is not bounded
    acting: Mapping[ProcessId, ProcessId] = dataclasses.field(default_factory=dict)
    """Processes that depend on a single other one, which speaks for them: its faults may cost them their membership."""

    @property
    def bounds(self) -> dict[str, int]:
        """The times, by the names that they have in ``bounds`` of ``start`` rows."""
        named = {"progress": self.within, "answer": self.answered}
        return {name: bound for name, bound in named.items() if bound is not None}


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """Where an engine is about to run, as far as its parameters should fit it."""

    members: int  # Expected number of processes in the group
    packet: int  # Bytes of a full packet
    buffer: int
    """Bytes of packets that a receiver's system buffers before it drops any; 0: the transport has backpressure of its own and
    drops none. A process in several groups has one buffer for all of them: give each group its share."""
    given: frozenset[str] = frozenset()  # Parameters that the user has set; they are not changed
    live: bool = True  # Whether time is real: processors are shared, and processes wait for them


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Where a protocol's processes run and what they share: nodes, processors, networks, shared memory.

    A protocol whose processes need only a network says nothing about it: all defaults.
    """

    memory: Callable[[Any], Layout] | None = None
    """The size of its mailboxes in shared memory, with these parameters; None: it uses no shared memory. Processes run where the
    memory is, except those that ``remote`` names."""
    remote: Callable[[Any], Mapping[ProcessId, ProcessId]] = lambda parameters: {}  # Processes without it: who acts for each
    node_of: Callable[[Any, ProcessId], str] | None = None
    """The node of a process, whose name may have an incarnation. Each node has its own shared memory. None: there is one node."""
    processor_of: Callable[[Any, ProcessId], str] = lambda parameters, process: process  # Processes on one fail together
    timely: bool = True  # Missing a shared-memory deadline is a timing fault in the trace; promises no longer cover the process
    skew: Callable[[Any], int] = lambda parameters: 0
    """Largest difference (ns) between two clocks that it tolerates, where it is ``timely``: a larger one counts as a failure."""
    lans: Callable[[Any], int] = lambda parameters: 1  # Number of networks (``Host.send``), each with its own faults
    idle: bool = False  # Whether a process may be in no group at all and only serve the others
    only_send: Callable[[Any], frozenset[ProcessId]] = lambda parameters: frozenset()
    """Processes (without their incarnations) that are in groups but receive nothing there."""
    roles: bool = False  # Whether a process chooses when it joins a group what it does there (``model.ROLES``)
    send_length: Callable[[Operate, int], int | None] = lambda operation, copies: None
    """Number of operations on shared memory in the Send that begins with this one; 0: it only continues a Send; None: neither.
    A process that is to crash in the middle of a broadcast crashes between them."""
    room: Callable[[Any], int] | None = None  # Bytes of messages that travel together, where that is not a packet's capacity

    def copies(self, parameters: Any) -> int:
        """Copies of each mailbox in shared memory; 0 without shared memory."""
        return self.memory(parameters).copies if self.memory is not None else 0


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """Everything the rest of the system knows about a protocol."""

    name: str
    about: str
    parameters: type[Any]
    """A frozen dataclass whose fields are declared with ``model.parameter``; its ``__post_init__`` raises UsageError. A field
    of type ``Mapping[str, ...]`` is a parameter with several values: one for each group, or whatever ``keys`` declares."""
    packets: tuple[type[Packet], ...]
    make: Callable[[Host, Any], Engine]  # Builds a process's engine from its host and an instance of ``parameters``
    promises: Callable[[Any, Groups], tuple[Promise, ...]]  # What is promised with these parameters and these groups
    faults: tuple[str, ...]  # Kinds of fault under which the promises hold
    settle: Callable[[Any], int]  # Longest time (ns) that a fault can go unnoticed: drained runs stay quiet for this long
    paper: str = ""  # Number of the paper that it implements, such as ``"002"``; empty: none
    beyond: Callable[[Any], frozenset[str]] = lambda parameters: frozenset()  # Of its ``faults``: promises do not hold under them
    conditional: tuple[Promise, ...] = ()  # What is promised only with parameters other than the defaults, for people to read
    check: Callable[[Any, Groups], str | None] = lambda parameters, groups: None
    """What is wrong with these parameters for these groups, as a sentence that says what to do; None: nothing."""
    bounds: Callable[[Any, Groups], Mapping[str, int]] = lambda parameters, groups: {}
    """Times (ns) that ``bounded`` promises, by name, as long as no group has more members than these."""
    # How long applications may have to wait, with these parameters and these groups
    progress: Callable[[Any, Groups], Progress] = lambda parameters, groups: Progress(because="the protocol states none")
    tune: Callable[[Any, Surroundings], Any] = lambda parameters, surroundings: parameters
    """The same parameters, fitted to where the engine is to run; those that the user has set are not changed."""
    # Whether, with these parameters, members can join, leave and crash (if not, a group is formed once and ends as a whole);
    # processes can propose groups to others (``model.Propose``), close and rename them; it requires a network that neither loses
    # nor reorders packets; deadlines can be guaranteed (``model.Admit``).
    changes: Callable[[Any], bool] = lambda parameters: True
    proposes: Callable[[Any], bool] = lambda parameters: False
    lossless: Callable[[Mapping[str, Any]], bool] = lambda given: False
    admits: Callable[[Any], bool] = lambda parameters: False
    loopback: bool = False  # Whether what a process sends to itself goes over the network like any packet, and can be lost there
    views: bool = True
    """Whether its views are written into the trace and promises refer to them. If not, a member must deliver what was sent
    between its ``join`` and its ``leave``, by rank; views only tell applications the members, at the same point of the order."""
    recorded: frozenset[str] = frozenset()  # Optional kinds of row (``lab.metrics.OPTIONAL``) that it writes whenever they happen
    placement: Placement = Placement()  # Where its processes run and what they share besides a network
    story: Callable[[], type[Story]] = lambda: _plain_story()  # Imports its story; the default is common to all protocols
    exploration: Callable[[], Exploration] | None = None
    """Imports and returns its small cases for the explorer (``plainchant explore``); None: it cannot be explored."""


def promised(description: Description, parameters: Any, groups: Groups, largest: Groups | None = None) -> dict[str, Any]:
    """What ``start`` rows say of a protocol's promises and bounds; ``largest``: the groups with every process that may join them.

    A run promises ``progress`` exactly if its protocol states one of the two times.
    """
    largest = groups if largest is None else largest
    names = [promise.name for promise in description.promises(parameters, groups)]
    bounds = dict(description.bounds(parameters, largest))
    progress = description.progress(parameters, largest)
    if not progress.bounds:
        return {"promises": names, "bounds": bounds}
    names = [*(name for name in names if name != "progress"), "progress"]
    acting = {"acting": dict(progress.acting)} if progress.acting else {}
    return {"promises": names, "bounds": bounds | progress.bounds, "despite": sorted(progress.despite), **acting}


def _plain_story() -> type[Story]:
    from .story import Story

    return Story


ORDER: Final = ("sequencer", "newtop", "rtcast", "mailbox", "dedos")  # As people should meet them; others follow alphabetically
ENTRY_POINTS: Final = "plainchant.protocols"  # Installed distributions declare their protocols here: name -> :class:`Description`


def protocols() -> dict[str, Description]:
    """All protocols by name: ours, in the order in which people should meet them, then those of other distributions.

    A protocol that cannot be loaded is left out with a warning; :func:`describe` raises the error.
    """
    known = {name: _own(name) for name in _own_names()}
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
    if name in _own_names():
        return _own(name)
    if name in plugins(ENTRY_POINTS):
        return _load(name)
    known = protocols()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
    raise UsageError(f"there is no protocol {name!r}; {hint}")


@functools.cache
def _own_names() -> tuple[str, ...]:
    """The protocols in this package: every folder is one."""
    folders = parts(__package__)
    return (*(name for name in ORDER if name in folders), *(name for name in folders if name not in ORDER))


def _own(name: str) -> Description:
    description = part(__package__, name).DESCRIPTION
    assert isinstance(description, Description), name
    assert description.name == name
    return description


def _load(name: str) -> Description:
    """A protocol of another distribution."""
    plugin = plugins(ENTRY_POINTS)[name]
    loaded = plugin.load()
    if not isinstance(loaded, Description):
        raise plugin.error(f"expected a Description, got {type(loaded).__name__}; point the entry point to one")
    if loaded.name != name:
        raise plugin.error(f"its description has the name {loaded.name!r}; use one name for both")
    return loaded


def known(name: object) -> Description | None:
    """The protocol that a trace names; None if it names none, or one that cannot be used here."""
    try:
        return describe(name) if isinstance(name, str) else None
    except UsageError:
        return None


def story_of(name: object) -> type[Story]:
    """The story of the protocol that a trace names; the plain one if it names none, or one that cannot be used here."""
    description = known(name)
    return description.story() if description is not None else _plain_story()
