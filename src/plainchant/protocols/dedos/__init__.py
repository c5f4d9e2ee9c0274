"""``dedos``: soft real-time multicast within a node and between nodes (paper 002).

Members of a node share mailboxes in shared memory; one relay per node speaks to the others; one distributor per group numbers the
messages. Within one node nothing else is needed (``reach = "node"``, appendix C).

Start with ``box`` (what a mailbox is), then ``member``, ``relay``, ``distributor``, ``engine``; ``nodes`` is the membership of
nodes, ``intra`` the protocol within a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...core.engine import Engine, Host, PerGroup
from ...core.model import MS, Duration, GroupId, ProcessId, format_duration
from ...core.names import place_of
from ..registry import Description, Placement, Progress, Promise
from .box import layout, send_length
from .engine import Dedos
from .intra import Intra
from .member import JOINING
from .nodes_packets import PACKETS as NODES_PACKETS
from .packets import PACKETS
from .parameters import Parameters
from .places import node_of, processor_of
from .tuning import tune

if TYPE_CHECKING:
    from ..story import Story


def make(host: Host, parameters: Any) -> Engine:
    if parameters.reach == "node":
        return PerGroup(host, lambda inner, group: Intra(inner, group, parameters))
    return Dedos(host, parameters)


def promises(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> tuple[Promise, ...]:
    """What holds however many processes and nodes crash."""
    provided = "a box of each node is left, and the network is whole (or a second one is)"
    return tuple(Promise(name, provided) for name in ("integrity", "fifo", "identical", "validity", "agreement"))


def settle(parameters: Any) -> int:
    """Until it is noticed that a process hangs, or that a node is gone, and a distributor with it, and another one is there."""
    if parameters.reach == "node":
        return int(parameters.longest_silence + 4 * parameters.poll + 5 * MS)
    rounds = (2 * parameters.misses + 4) * parameters.present_every + 2 * parameters.delta
    return int(rounds + 10 * parameters.retry + 4 * parameters.poll)


def progress(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> Progress:
    """How long a hung process can hold up the others.

    A process that hangs is excluded after ``silence``: its neighbours see its last stamp at most a poll late, and notice at
    most a poll late that it stands still. A process whose application does not read halts after ``patience``, which it
    notices within a poll. Both are changes of members, from which the time counts anew. *Within a node* the survivors then
    delete the process and restore a box: a few operations, and a poll where they wait for each other. *Between nodes* a
    process may be alone on its node. Then the node is missed after ``misses`` rounds; a relay that asks it in vain waits as
    long before it calls for another distributor, and each of the other nodes that has members may call before it is this
    node's turn (``retry`` + 2 ``delta`` each). A relay that has only come waits for the nodes that it may not have heard
    instead (:attr:`.nodes.Nodes.knows_all`). The new distributor asks, loads and begins in three exchanges. Packets may be
    lost: 10 repetitions are allowed for the exchanges of a change, and 10 for those of a message; a node that is not heard is
    asked before it is missed, except with ``misses`` = 1 (:mod:`.nodes`). A request to join or to form that cannot be met is
    refused, or goes on with the processes that are there, after 12 times ``misses`` rounds.
    """
    if parameters.reach == "lan" and not parameters.reserve:
        full = "with reserve = 0 the senders of a node can fill its mailbox, and a number that all wait for has no place in it"
        return Progress(because=full)
    silent, unread = parameters.longest_silence + 4 * parameters.poll, parameters.patience + 4 * parameters.poll
    if parameters.reach == "node":
        within = max(silent, unread) + 2 * parameters.poll + 5 * MS
    else:
        nodes = {node_of(parameters, member) for members in groups.values() for member in members}
        rounds = (2 * parameters.misses + 4) * parameters.present_every + 2 * parameters.delta
        turns = len(nodes) * (parameters.retry + 2 * parameters.delta)
        within = max(unread, silent + rounds + turns) + 20 * parameters.retry
    answered = JOINING * parameters.node_timeout + within
    despite = {"pause", "sluggish", "loss<=0.3"} if parameters.reach == "lan" and parameters.misses > 1 else {"pause", "sluggish"}
    return Progress(int(within), int(answered), frozenset(despite), acting=_alone(parameters, groups))


def _alone(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> dict[ProcessId, ProcessId]:
    """Processes on nodes with one networked process, and that process: it cannot be replaced as their relay."""
    networked: dict[str, list[ProcessId]] = {}
    for process in parameters.networked if parameters.reach == "lan" else ():
        networked.setdefault(node_of(parameters, process), []).append(process)
    members = sorted({member for members in groups.values() for member in members})
    relays = {member: networked.get(node_of(parameters, member), []) for member in members}
    return {member: only[0] for member, only in relays.items() if len(only) == 1 and only[0] != member}


def check(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> str | None:
    for group, members in groups.items():
        nodes: dict[str, list[ProcessId]] = {}
        for member in members:
            nodes.setdefault(node_of(parameters, member), []).append(member)
        if not [member for member in members if place_of(member) not in parameters.senders]:
            return f"nobody in {group} receives: senders names all its members; leave one out"
        if parameters.reach == "node" and len(nodes) > 1:
            return f'{group} has members on {", ".join(sorted(nodes))}; with reach = "node" put them on one, or set reach = "lan"'
        for node, there in nodes.items():
            if len(there) >= parameters.places:
                full = f"{group} has {len(there)} members on {node}, and a mailbox has {parameters.places} places"
                return f"{full}, one of them for the relay; set places higher"
            if parameters.networked and not any(node_of(parameters, name) == node for name in parameters.networked):
                return f"nobody on {node} is networked, so its members of {group} cannot be reached; name one in networked"
        processes = {*members, *(name for name in parameters.networked if node_of(parameters, name) in nodes)}
        noticed = parameters.longest_silence + 2 * parameters.poll
        if len(processes) > len(nodes) > 1 and noticed >= parameters.soonest_given_up:
            late = f"a process that hangs is noticed after {format_duration(Duration(noticed))} (silence + 2 poll)"
            given_up = format_duration(Duration(parameters.soonest_given_up))
            crashed = f"its node may count as crashed after {given_up} ((misses - 1) x present_every + delta)"
            return f"{late}, but {crashed}; make poll and silence shorter, or misses or present_every larger"
        names = sum(len(member) + 2 for member in members)
        if names + 64 > parameters.room:
            long = f"the names of the members of {group} take {names} bytes"
            return f"{long}, and an element of a mailbox has {parameters.room}; set room higher"
    return None


def _story() -> type[Story]:
    """Imported when asked for: a live member needs no story."""
    from .story import DedosStory

    return DedosStory


DESCRIPTION = Description(
    name="dedos",
    paper="002",
    about="soft real-time multicast within a node and between nodes: mailboxes, relays, distributors",
    parameters=Parameters,
    packets=(*PACKETS, *NODES_PACKETS),
    make=make,
    promises=promises,
    faults=(
        *("crash", "restart", "join", "leave", "pause", "module", "slow"),
        *("node", "processor", "lan", "loss", "clog", "omit", "sluggish"),
    ),
    settle=settle,
    progress=progress,
    check=check,
    tune=tune,
    views=False,
    recorded=frozenset({"unblock", "retransmit", "sync", "suspect"}),
    placement=Placement(
        memory=layout,
        node_of=node_of,
        processor_of=processor_of,
        lans=lambda parameters: parameters.lans,
        idle=True,
        timely=False,
        send_length=send_length,
        roles=True,
        only_send=lambda parameters: frozenset(parameters.senders),
    ),
    story=_story,
)
