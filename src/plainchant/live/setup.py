"""What a node is configured with, and whether it fits together.

Everything here is decided before a socket is opened: the protocol and its parameters, the peers, the groups that exist, where
shared memory is. A :class:`Setup` does not change; a problem is a ``UsageError`` that says what to write instead.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from ..core.model import BOTH, ROLES, Declared, UsageError, declarations, format_duration
from ..core.names import is_place
from ..protocols.registry import Description, Surroundings
from .addresses import format_address, is_here, parse_address
from .host import check_name
from .lans import check_lans
from .transport import Address, Limits

LONGEST_TERM: Final = 100  # characters of the longest table of parameters that others are told as it is, not as a digest


class Setup:
    """The configuration of one node, checked."""

    def __init__(
        self,
        description: Description,
        *,
        place: str,
        peers: Mapping[str, str | Address],
        given: Mapping[str, Any],
        groups: Mapping[str, Sequence[str]] | None,
        backup: Mapping[str, str | Address],
    ) -> None:
        if place not in peers:
            raise UsageError(f"me is {place!r}, which is not among peers ({', '.join(peers)}): add it with its own address")
        if not place or not all(map(is_place, peers)):
            raise UsageError("names of places are not empty and have no '#': it marks a process that came back (a, then a#1)")
        for name in peers:
            check_name(name)
        self.description = description
        self.place = place
        self.given = dict(given)
        self.parameters = _parameters(description, self.given)  # before they are fitted to the network, see :meth:`tune`
        self.changes = description.changes(self.parameters)  # whether members can join and leave groups
        self.proposes = description.proposes(self.parameters)  # whether groups can be proposed, closed and renamed
        self.lans = description.placement.lans(self.parameters)  # number of networks
        self.backup = {name: _address(address) for name, address in backup.items()}
        self.groups = {name: members_of(name, of, peers) for name, of in groups.items()} if groups is not None else None
        """The groups that exist, with the places that form them; None if the configuration does not say."""
        self.peers = {name: _address(address) for name, address in peers.items()}
        check_lans(self.lans, self.peers, self.backup)

    def first_members(self, group: str, given: Sequence[str] | None) -> tuple[str, ...]:
        """The places that form a group: those given to ``join``, those in ``groups``, or all. The first two must agree."""
        first = members_of(group, given, self.peers) if given is not None else None
        if self.groups is None:
            return first if first is not None else members_of(group, tuple(self.peers), self.peers)
        if group not in self.groups:
            there = ", ".join(self.groups) or "none"
            raise UsageError(f"group {group!r} is not in the groups of this node ({there}); add it there, at every process")
        known = self.groups[group]
        if first is not None and set(first) != set(known):
            text = f"members of {group!r} are {', '.join(first)}, and {', '.join(known)} in the groups of this node"
            raise UsageError(f"{text}; make both the same, or leave members out")
        return first if first is not None else known

    def possible_groups(self, name: str, first: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """The groups to expect where the configuration does not list them: a process may come to be in several with the same
        others, unless the protocol allows only one."""
        several = {name: first, f"{name}, and another": first}
        return several if self.problem(self.parameters, several) is None else {name: first}

    def check(self, parameters: Any, groups: Mapping[str, Sequence[str]]) -> None:
        """Fails if the parameters do not fit the groups."""
        problem = self.problem(parameters, groups)
        if problem is not None:
            raise UsageError(problem)

    def problem(self, parameters: Any, groups: Mapping[str, Sequence[str]]) -> str | None:
        """Why the parameters do not fit the groups. Where not all groups are known, parameters may name others."""
        if self.groups is None:
            parameters = dataclasses.replace(parameters, **_by_group(parameters, groups))
        return self.description.check(parameters, groups)

    def check_role(self, role: str) -> None:
        """Fails if a process cannot join in this role."""
        if role not in ROLES:
            raise UsageError(f"there is no role {role!r}; choose one of {', '.join(ROLES)}")
        if role != BOTH and not self.description.placement.roles:
            raise UsageError(f"with {self.description.name} every member sends and receives; leave role out")

    def check_proposes(self) -> None:
        """Fails if processes cannot form groups while they run."""
        if not self.proposes:
            text = f"with {self.description.name} and these parameters processes do not form groups while they run"
            raise UsageError(f"{text}; name all groups before, and join them")

    def tune(self, limits: Limits) -> Any:
        """The parameters, fitted to what the transport carries."""
        members, given, buffer = len(self.peers), frozenset(self.given), limits.buffer // max(1, len(self.groups or ()))
        surroundings = Surroundings(members=members, packet=limits.packet, buffer=buffer, given=given, live=True)
        return self.description.tune(self.parameters, surroundings)

    def terms(self, *, state: bool) -> str:
        """What all members have to agree on: the protocol, the parameters that are not its defaults, state transfer."""
        default = self.description.parameters()
        differing = []
        for field, declared in declarations(self.description.parameters):
            value = getattr(self.parameters, field.name)
            if field.name in self.given and value != getattr(default, field.name):
                differing.append(f"{field.name}={_term(value, declared)}")
        return " ".join([self.description.name, *differing, "with state transfer" if state else "without state transfer"])

    @property
    def has_memory(self) -> bool:
        """Whether the protocol uses shared memory and this process is on a machine that has it."""
        placement = self.description.placement
        return placement.memory is not None and self.place not in placement.remote(self.parameters)

    def memory_name(self, peers: Mapping[str, Address]) -> str:
        """The name of the shared memory of these peers (numeric addresses), the same at all of them. Fails unless those that
        share it are on this machine."""
        remote = self.description.placement.remote(self.parameters)
        mine = self.node_of(self.place)
        near = [name for name in peers if name not in remote and self.node_of(name) == mine]
        elsewhere = [name for name in near if not is_here(peers[name])]
        if elsewhere:
            where = ", ".join(f"{name} at {format_address(peers[name])}" for name in elsewhere)
            if mine is not None:
                raise UsageError(
                    f"a node is on one machine, and these processes of node {mine} are elsewhere: {where}; name them otherwise"
                )
            text = f"{self.description.name} is for processes on one machine, and these are elsewhere: {where}"
            raise UsageError(f"{text}; say in its parameter remote who acts for them, or choose another protocol")
        addresses = sorted(format_address(address) for address in peers.values())
        return sha256(" ".join(addresses).encode()).hexdigest()[:16]

    def node_of(self, place: str) -> str | None:
        """The node of a place, where the protocol has nodes."""
        node_of = self.description.placement.node_of
        return node_of(self.parameters, place) if node_of is not None else None


def members_of(group: str, given: Sequence[str], peers: Mapping[str, Any]) -> tuple[str, ...]:
    """The places that form a group, each of them a peer."""
    check_name(group)
    if isinstance(given, str):
        raise UsageError(f"members of {group!r} is {given!r}; it must be a list of names, even of one")
    members = tuple(given)
    unknown = [place for place in members if place not in peers]
    if unknown:
        raise UsageError(f"members of {group!r} that are not among the peers: {', '.join(unknown)}")
    if not members:
        raise UsageError(f"members of {group!r} is empty, so no process forms the group; name at least one, or leave it out")
    twice = sorted({place for place in members if members.count(place) > 1})
    if twice:
        raise UsageError(f"members of {group!r} that are named twice: {', '.join(twice)}; every process is named once")
    return members


def _address(given: str | Address) -> Address:
    return parse_address(given) if isinstance(given, str) else given


def _parameters(description: Description, given: Mapping[str, Any]) -> Any:
    """The parameters, before they are fitted to the network. Those that are not given may have to fit those that are."""
    if not given:
        return description.parameters()
    from ..scenario.read import given_parameters

    checked = given_parameters(description.parameters, given, description.name)
    try:
        return description.parameters(**checked)
    except UsageError:
        live = description.tune(description.parameters(), Surroundings(members=2, packet=1400, buffer=0, live=True))
        return dataclasses.replace(live, **checked)


def _by_group(parameters: Any, groups: Mapping[str, Any]) -> dict[str, Any]:
    by_group = [field.name for field, declared in declarations(type(parameters)) if declared.keys == "group"]
    tables = {name: table for name in by_group if isinstance(table := getattr(parameters, name), Mapping)}
    return {name: {group: value for group, value in table.items() if group in groups} for name, table in tables.items()}


def _term(value: Any, declared: Declared) -> str:
    """A parameter as others are told of it: the same text for the same value."""
    if isinstance(value, Mapping):
        text = json.dumps(value, sort_keys=True, ensure_ascii=False)
        return text if len(text) <= LONGEST_TERM else f"{len(value)} entries of digest {sha256(text.encode()).hexdigest()[:12]}"
    return format_duration(value) if declared.unit == "duration" else str(value)
