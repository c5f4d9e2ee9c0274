"""``mailbox``: hard real-time multicast through replicated mailboxes in common memory (seed 000).

Members exchange messages through n copies of a mailbox in independent memory modules, of which all but one may fail. The first
protocol (``first``) tolerates crashes of processes, the second (``second``) timing failures as well, of a minority of the
receivers and of any senders. Both are timed: an operation on a copy takes no longer than a bound, and everything else follows
from that (``times``).

Procedures are generators of operations on common memory (:mod:`plainchant.memory`), so that they read like the seed's and can be
stopped anywhere. Start with ``times``, then ``sending``, ``first``, ``second``, ``receiving`` (the whole of a Receive),
``membership`` (Join, Leave, garbage collection), ``engine``. ``rules`` has what can be taken away, to see what it was for. """

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...engine import Engine, Host, PerGroup
from ...model import MS, GroupId, ProcessId
from ..registry import Description, Promise
from .box import layout
from .engine import Mailbox
from .parameters import Parameters
from .rules import RULES, Rules
from .times import Times


def maker(rules: Rules = RULES) -> Callable[[Host, Any], Engine]:
    """Makes engines that go by these rules."""

    def make(host: Host, parameters: Any) -> Engine:
        return PerGroup(host, lambda inner, group: Mailbox(inner, group, parameters, rules))

    return make


def promises(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> tuple[Promise, ...]:
    """What holds among processes without crash or timing fault."""
    if parameters.tolerate == "crash":
        faults = "processes only crash, clocks differ by no more than skew, and a copy is left"
    else:
        faults = "most receivers have no crash or timing failure, and a copy is left"
    names = ("integrity", "identical", "total", "agreement", "uniform", "validity", "unanimity", "bounded")
    return tuple(Promise(name, faults) for name in names)


def bounds(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> dict[str, int]:
    """How long a Send takes, and how long it takes from its beginning until everybody has delivered."""
    most = max((len(members) for members in groups.values()), default=1)
    times = Times(parameters, RULES, most)
    return {"send": times.send, "deliver": times.deliver}


def settle(parameters: Any) -> int:
    times = Times(parameters, RULES, parameters.places)
    return 2 * times.deliver + times.kept + 50 * MS


def check(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> str | None:
    for group, members in groups.items():
        if len(members) > parameters.places:
            return f"{group} has {len(members)} members and a mailbox has {parameters.places} places; set places higher"
        if not [member for member in members if member not in parameters.senders]:
            return f"nobody in {group} receives: senders names all its members; leave one out"
    return None


DESCRIPTION = Description(
    name="mailbox",
    seed="000",
    about="hard real-time multicast through replicated mailboxes in common memory",
    parameters=Parameters,
    packets=(),
    make=maker(),
    promises=promises,
    faults=("crash", "restart", "join", "leave", "pause", "module", "slow", "step"),
    settle=settle,
    check=check,
    bounds=bounds,
    memory=layout,
    remote=lambda parameters: parameters.remote,
    only_send=lambda parameters: frozenset(parameters.senders),
    views=False,
    room=lambda parameters: parameters.room,
)
