"""What nodes tell each other about themselves (1.3): :class:`NewGroup`, :class:`Present`, and what asks for it again.

Times are readings of the senders' clocks. ``life`` tells apart a node before and after all its processes had stopped: the later
one has the larger number. ``lan`` is the network that the packet goes over. ``networked`` are the processes that listen for the
node; the one that sends the packet is its relay.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ...core.model import GroupId, Number, Packet, ProcessId


class Claim(Struct, frozen=True, array_like=True, gc=False):
    """Who distributes in a group, as far as a node knows: an entry of the table of server groups. The later epoch counts."""

    group: GroupId
    epoch: Number
    distributor: ProcessId


class NewGroup(Packet, frozen=True, array_like=True, gc=False, tag=93):
    """A node has started at ``time`` and asks everybody to say that he is there, a delta later."""

    node: str
    life: Number
    time: Number
    networked: tuple[ProcessId, ...]
    lan: Number


class Present(Packet, frozen=True, array_like=True, gc=False, tag=94):
    """A node is there: in the round of ``time``, as a member of the processor group ``formed`` (0: of none yet). A table of
    claims that does not fit into a packet goes in several, ``part`` of ``parts``."""

    node: str
    life: Number
    time: Number
    formed: Number
    networked: tuple[ProcessId, ...]
    load: Number
    claims: tuple[Claim, ...]
    part: Number
    parts: Number
    lan: Number


class Acquaint(Packet, frozen=True, array_like=True, gc=False, tag=95):
    """Who has started may not know all who are there: processes have other names after they have crashed. These are there."""

    names: tuple[ProcessId, ...]


class AskPresent(Packet, frozen=True, array_like=True, gc=False, tag=96):
    """A node was not heard for some rounds: if it is there, its relay says again what it said last."""

    node: str


PACKETS: Final = (NewGroup, Present, Acquaint, AskPresent)
