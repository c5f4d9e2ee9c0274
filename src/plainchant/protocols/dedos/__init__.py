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
from ...core.model import MS, GroupId, ProcessId
from ...core.names import place_of
from ..registry import Description, Placement, Promise
from .box import layout, send_length
from .engine import Dedos
from .intra import Intra
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
    """Until it is noticed that a node is gone, and a distributor with it, and another one is there."""
    if parameters.reach == "node":
        return int(4 * parameters.poll + 5 * MS)
    rounds = (2 * parameters.misses + 4) * parameters.present_every + 2 * parameters.delta
    return int(rounds + 10 * parameters.retry + 4 * parameters.poll)


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
        "crash",
        "restart",
        "join",
        "leave",
        "pause",
        "module",
        "slow",
        "node",
        "processor",
        "lan",
        "loss",
        "clog",
        "omit",
        "sluggish",
    ),
    settle=settle,
    check=check,
    tune=tune,
    views=False,
    recorded=frozenset({"unblock", "retransmit", "sync"}),
    placement=Placement(
        memory=layout,
        node_of=node_of,
        processor_of=processor_of,
        lans=lambda parameters: parameters.lans,
        idle=True,
        timely=False,
        send_length=send_length,
        only_send=lambda parameters: frozenset(parameters.senders),
    ),
    story=_story,
)
