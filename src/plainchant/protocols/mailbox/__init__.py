"""``mailbox``: hard real-time multicast through replicated mailboxes in shared memory (paper 000).

Members exchange messages through n copies of a mailbox in independent memory modules, of which all but one may fail. The first
protocol (``first``) tolerates crashes of processes, the second (``second``) timing failures as well, of a minority of the
receivers and of any senders. Both are timed: an operation on a copy takes no longer than a bound, and everything else follows
from that (``times``).

Procedures are generators of operations on shared memory (:mod:`.core.memory`), so that they read like the paper's and can be
stopped anywhere. Start with ``times``, then ``sending``, ``first``, ``second``, ``receiving`` (the whole of a Receive),
``membership`` (Join, Leave, garbage collection), ``watching`` (receivers that are overdue), ``engine``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...core.engine import Engine, Host, PerGroup
from ...core.model import MS, GroupId, ProcessId, format_duration
from ...core.names import place_of
from ..registry import Description, Placement, Progress, Promise
from .box import layout, send_length
from .engine import Mailbox
from .parameters import Parameters
from .remote import Remote
from .remote_link import silence, unnoticed
from .remote_packets import PACKETS
from .remote_slave import Acting
from .sending import LONGEST_LEAD
from .times import Times
from .tuning import tune

if TYPE_CHECKING:
    from ..exploration import Exploration
    from ..story import Story


def make(host: Host, parameters: Any) -> Engine:
    me = place_of(host.me)

    def member(inner: Host, group: GroupId) -> Engine:
        if me in parameters.remote:
            return Remote(inner, group, parameters)
        if me in parameters.remote.values():
            return Acting(inner, group, parameters)
        return Mailbox(inner, group, parameters)

    return PerGroup(host, member)


def promises(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> tuple[Promise, ...]:
    """What holds among processes without crash or timing fault."""
    if parameters.tolerate == "crash":
        faults = "processes only crash, clocks differ by no more than skew, and a copy is left"
    else:
        faults = "most receivers have no crash or timing failure, and a copy is left"
    names = ["integrity", "identical", "agreement", "uniform", "validity", "unanimity", "bounded"]
    members = [process for group in groups.values() for process in group]
    if len(members) == len(set(members)):
        # A mailbox orders one group; across groups that share members nothing is ordered.
        names.insert(2, "total")
    return tuple(Promise(name, faults) for name in names)


def bounds(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> dict[str, int]:
    """How long a Send takes, and how long it takes from its beginning until everybody has delivered."""
    times = Times(parameters)
    there_and_back = 0
    if parameters.remote:
        # A message of a remote process goes to its slave, which sees that there is still a slot, and each delivery comes back.
        there_and_back = 2 * parameters.datagram + parameters.copies * parameters.decide + parameters.schedule
    return {"send": times.send, "deliver": times.deliver + there_and_back, "size": parameters.room}


def progress(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> Progress:
    """A message of at most ``room`` bytes waits for a slot, for its turn on the schedule, and for the decision on it.

    The sender's next slot is free ``slot_free`` after the message in it was sent, at the latest. Without a majority of votes the
    second protocol decides when the processes that do not vote are excluded, which takes no longer. Then the message takes a
    period, a Send and its delivery; the message before it may still be on its way for as long.

    A process joins and leaves at a timestamp that is ahead of its clock, and of every message in the mailbox. Messages of a late
    sender lie up to ``LONGEST_LEAD`` ahead. Then everything earlier has to be delivered. A leaver first sends what it took. A
    process that forms the group waits ``patience`` for those that do not come. A remote process, or the one that acts for it, may
    be silent for a while before the other side takes it for gone.

    Other processes with lasting faults are excluded. With the first protocol clocks have to be right, because one receiver with a
    fast clock rejects the messages of all senders (3.4.1)."""
    if not parameters.patience:
        return Progress(because="with patience 0 a receiver that is stopped keeps all senders waiting")
    times = Times(parameters)
    unheard = 2 * parameters.datagram + silence(parameters) if parameters.remote else 0
    within = times.slot_free + 2 * (times.period + times.deliver) + unheard
    listed = LONGEST_LEAD + 2 * (times.join + parameters.notice) + times.settled + times.deliver + 4 * times.period
    faults = {"pause", "slow", "sluggish", "busy"} | (set() if times.first else {"step"})
    return Progress(within, within + listed + parameters.patience + unheard, frozenset(faults), acting=parameters.remote)


def settle(parameters: Any) -> int:
    times = Times(parameters)
    unheard = unnoticed(parameters) if parameters.remote else 0
    return 2 * times.deliver + times.kept + 50 * MS + unheard


def check(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> str | None:
    least = 4 * Times(parameters).flagged
    if 0 < parameters.patience < least:
        needed = f"{format_duration(least)}, four times what an intact receiver needs for a message"
        return f"patience is {format_duration(parameters.patience)}; make it at least {needed}, or 0"
    for group, members in groups.items():
        if len(members) > parameters.places:
            return f"{group} has {len(members)} members and a mailbox has {parameters.places} places; set places higher"
        if not [member for member in members if member not in parameters.senders]:
            return f"nobody in {group} receives: senders names all its members; leave one out"
        for process in members:
            acting = parameters.remote.get(process, process)
            if acting not in members:
                return f"{acting} acts for {process}, which is in {group}, but is not in {group} itself; put it there"
    return None


def _story() -> type[Story]:
    """Imported when asked for: a live member needs no story."""
    from .story import MailboxStory

    return MailboxStory


def _exploration() -> Exploration:
    """Imported when asked for: only the explorer needs cases."""
    from .exploration import EXPLORATION

    return EXPLORATION


DESCRIPTION = Description(
    name="mailbox",
    paper="000",
    about="hard real-time multicast through replicated mailboxes in common memory",
    parameters=Parameters,
    packets=PACKETS,
    make=make,
    promises=promises,
    faults=("crash", "restart", "join", "leave", "pause", "module", "slow", "step"),
    settle=settle,
    check=check,
    bounds=bounds,
    progress=progress,
    tune=tune,
    views=False,
    recorded=frozenset({"suspect", "unblock"}),
    placement=Placement(
        memory=layout,
        remote=lambda parameters: parameters.remote,
        skew=lambda parameters: int(parameters.skew),
        send_length=send_length,
        only_send=lambda parameters: frozenset(parameters.senders),
        room=lambda parameters: parameters.room,
    ),
    story=_story,
    exploration=_exploration,
)
