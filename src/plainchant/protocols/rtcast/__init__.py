"""``rtcast``: real-time process groups on a logical ring (paper 003).

Abdelzaher, Shaikh, Jahanian, Shin, 1996: senders take turns; the heartbeat that ends a turn is the token for the next; a member
that misses a message stops, so that the remaining ones have everything and deliver messages as soon as they come. On top of it,
admission control guarantees deadlines.

A stack of layers, each of which can be left out (Fig. 8): ``admission`` (section 5), ``clocks`` (Cristian's synchronisation),
``gaps`` (overtaking, and the retransmission layer of 4.6), ``ring`` (RTCast itself). Start with ``packets`` and ``interface``
(how long things take), then ``order`` (which packet is next), ``ring``, ``entrance`` and ``sponsor`` (who comes in), ``outlet``,
``gaps``; then ``analysis`` and ``admission``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...core.engine import Engine, Host, PerGroup
from ...core.model import GroupId, ProcessId, format_duration
from ..registry import Description, Progress, Promise
from .admission import Admission
from .advisor import Advisor
from .analysis import SMALLEST, overhead
from .clocks import CLOCK_PACKETS, ClockSync
from .entrance import LONGEST_WAIT, PATIENCE
from .gaps import Gaps
from .interface import Interface
from .packets import PACKETS
from .parameters import PATH, Parameters
from .ring import Ring
from .tuning import tune

if TYPE_CHECKING:
    from ..story import Story


def make(host: Host, parameters: Any) -> Engine:
    """A process's engine: a stack for each group (there is one)."""
    return PerGroup(host, lambda inner, group: stack(inner, group, parameters))


def stack(host: Host, group: GroupId, parameters: Parameters) -> Engine:
    """The layers of one group, from the application's side down to the ring."""
    is_synchronised = parameters.clocks == "synchronised"
    synchronised: list[ClockSync] = []
    rings: list[Ring] = []

    def clock_error() -> int | None:
        return synchronised[0].error() if synchronised else None

    def ring(outer: Host, advisor: Advisor) -> Ring:
        error = clock_error if is_synchronised else None
        rings.append(Ring(outer, group, parameters, Interface(parameters, group), advisor, error))
        return rings[0]

    def gaps(outer: Host, advisor: Advisor) -> Engine:
        if parameters.retransmissions or parameters.overtaking:
            return Gaps(outer, lambda inner: ring(inner, advisor), parameters.retransmissions)
        return ring(outer, advisor)

    def clocks(outer: Host, advisor: Advisor) -> Engine:
        if not is_synchronised:
            return gaps(outer, advisor)
        inside = functools.partial(gaps, advisor=advisor)
        synchronised.append(ClockSync(outer, inside, group, parameters, post=lambda send: setattr(rings[0], "aside", send)))
        return synchronised[0]

    return Admission(host, clocks, group, parameters) if parameters.admission else clocks(host, Advisor())


WITHIN = "packets take d_max or are lost, processes keep their T, and no part of the group is cut off from another"
ALWAYS = (
    *("integrity", "fifo", "causal", "identical", "total", "self-delivery", "validity", "agreement"),
    *("view-order", "view-atomicity", "view-exclusion", "sender-in-view", "convergence"),
)
TIMED = (
    "at most `crashes` members fail in a rotation (with r = 0 one that dies in the middle of a broadcast counts twice), and a "
    "data packet is lost at most r times, `resends` of them in a turn"
)
SIZE = 8192  # Bytes of the largest message for which ``progress`` states a time; longer ones take more turns
MEMBERS = 16  # Ring size for which the settling time is calculated; a larger ring settles by what its members wait for


def promises(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> tuple[Promise, ...]:
    """What holds with these parameters: times only where they are hard."""
    promised = [Promise(name, WITHIN) for name in ALWAYS]
    if parameters.timing == "hard" and parameters.rotation == "safe":
        if parameters.admission:
            promised.append(Promise("deadline", TIMED))
        promised.append(Promise("bounded", TIMED))
    return tuple(promised)


def bounds(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> dict[str, int]:
    """Rotation, delivery and crash detection for the largest ring; and the message size for which ``progress`` holds."""
    if parameters.timing != "hard" or not groups:
        return {"size": SIZE}
    group = max(groups, key=lambda name: len(groups[name]))
    return bounds_of(parameters, groups[group], group) | {"size": SIZE}


def progress(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> Progress:
    """How long an application waits at most.

    *A message* of up to ``SIZE`` bytes. A silent member (crashed, paused, not reading) is eliminated within ``detection``; from
    then on a turn comes once in P. Promised streams may have all of T, except what the ring reserves for a change and for an
    acknowledgement. In turns without either, this time is for messages without a deadline: so a turn carries at least as many
    bytes as both of these packets. After its last piece a message may be lost r times, each of which takes a rotation, and waits
    for a view that is about to be installed (P) or, with safe delivery, for two rotations more.

    *A request.* A joiner asks for ``PATIENCE`` times ``gather`` at most, then it is refused. Processes that form a group wait
    ``gather`` for the others, and so much longer if they hear of them. A leaver has its last turn when all that it handed in
    before is sent."""
    if not groups:
        return Progress(because="there is no group")
    group = max(groups, key=lambda name: len(groups[name]))
    ring = groups[group]
    interface = Interface(parameters, group)
    holds = [interface.hold(process) for process in ring]
    rotation = interface.safe(ring, holds)
    sizes = interface.sizes(ring)
    room = interface.room(interface.cost(sizes.change) + interface.cost(sizes.acknowledgement)) - interface.envelope(ring)
    turns = -(-SIZE // max(1, room)) + 1
    after = parameters.retransmissions + (2 if parameters.delivery == "immediate" else 4)
    waits = (1 + parameters.crashes) * (max(holds) + interface.timeout(ring)) + interface.slot(ring)
    within = (2 + parameters.retransmissions + turns + after) * rotation + waits
    knocking = 2 * interface.hold_back + LONGEST_WAIT * int(parameters.gather)
    answered = (PATIENCE + 1) * int(parameters.gather) + knocking + within
    despite = {"pause", "sluggish"} | ({f"omit<={parameters.retransmissions}"} if parameters.retransmissions else set())
    return Progress(within, answered, despite=frozenset(despite))


def bounds_of(parameters: Parameters, ring: Sequence[ProcessId], group: GroupId = "") -> dict[str, int]:
    """The bounds of a ring of these members.

    A crash is detected at the latest when it happened right after the member's turn: the token comes round once more (P), its
    successor waits and asks around, and the view waits until everybody has spoken in it (P again); the announcement may have to
    be sent r times."""
    interface = Interface(parameters, group)
    holds = [interface.hold(process) for process in ring]
    rotation = interface.rotation(ring, holds)
    waits = (1 + parameters.crashes) * (max(holds, default=0) + interface.timeout(ring)) + interface.slot(ring)
    return {
        "rotation": rotation,
        "deliver": (parameters.retransmissions + (1 if parameters.delivery == "immediate" else 3)) * rotation,
        "detection": (2 + parameters.retransmissions) * rotation + waits,
    }


def check(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> str | None:
    """Processes named in parameters exist, each is in one group, and T is long enough to say anything in."""
    processes: dict[ProcessId, GroupId] = {}
    for group, members in groups.items():
        for process in members:
            if process in processes:
                return (
                    f"{process} is in the groups {processes[process]} and {group}; a token ring has the network to itself, so "
                    "with rtcast a process is in one group: put them on processes of their own, or use newtop"
                )
            processes[process] = group
    for group, members in groups.items():
        interface = Interface(parameters, group)
        items = overhead(dataclasses.replace(parameters, retransmissions=0), interface, 0, members)
        least = sum(item.cost for item in items) + interface.cost(SMALLEST)
        for process in members:
            if interface.hold(process) < least:
                return (
                    f"the token hold time of {process} is {format_duration(interface.hold(process))}; in a ring of "
                    f"{len(members)} a turn has to have time for a membership change, an acknowledgement, "
                    f"{parameters.heartbeats} heartbeats and a message: make it at least {format_duration(least)}, or give more "
                    "bandwidth"
                )
    named = {process: "holds" for process in parameters.holds}
    named.update({process: "paths" for path in parameters.paths for process in path.split(PATH, 1)})
    for process, where in named.items():
        if processes and process not in processes:
            return f"{where} names {process!r}, which is in no group; there are: {', '.join(processes)}"
    return None


def settle(parameters: Any) -> int:
    """By then a crash is detected, missing packets are asked for and P is given back. In real time a turn is as long as what is
    sent in it, not T: twice the wait until a member is given up."""
    ring = [f"p{number}" for number in range(MEMBERS)]
    if parameters.timing == "soft":
        interface = Interface(parameters)
        return 2 * (int(parameters.hold) + interface.hold_back + interface.timeout(ring))
    return 2 * bounds_of(parameters, ring)["detection"]


def _story() -> type[Story]:
    """Imported when asked for: a live member needs no story."""
    from .story import RingStory

    return RingStory


DESCRIPTION = Description(
    name="rtcast",
    paper="003",
    about="A token ring: members take turns, deadlines are guaranteed by admission control, who misses something stops.",
    parameters=Parameters,
    packets=(*PACKETS, *CLOCK_PACKETS),
    make=make,
    promises=promises,
    conditional=(
        Promise("deadline", 'admission is true, timing is "hard" (the simulator) and rotation is "safe"'),
        Promise("bounded", 'timing is "hard" (the simulator) and rotation is "safe"'),
    ),
    faults=("crash", "loss", "duplication", "reordering", "corruption", "pause", "clock steps"),
    settle=settle,
    check=check,
    bounds=bounds,
    progress=progress,
    tune=tune,
    admits=lambda parameters: bool(parameters.admission),
    loopback=True,
    recorded=frozenset({"retransmit", "suspect", "token", "state"}),
    story=_story,
)
__all__ = ["DESCRIPTION", "Parameters", "Ring", "stack"]
