"""What a scenario says about the links between processes, for the simulated network and for the faulty transport.

Both do the same to a packet, in the same order: bandwidth, cuts and partitions, loss, damage, duplication, delay, reordering.
Here is what they compute alike: the link's settings, what the faults on a link amount to, and the draws. Draws come from the
caller's random stream, in a fixed order, so that runs replay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from random import Random
from typing import Final, NamedTuple

from ..core.model import SECOND
from .model import Delay, Fault, Link, Network

HELD_BACK: Final = 4  # a reordered packet is held back by up to this many times its delay
_MAX_FLIPPED: Final = 3  # bits that differ in a damaged packet


class Effect(NamedTuple):
    """What the faults on one direction of a link amount to."""

    blocked: bool
    added: int  # delay that is added, ns
    loss: float


def effect_of(faults: Iterable[Fault], source: str, target: str) -> Effect:
    """The effect of a network's faults on packets from one place to another. (A ``lan`` fault blocks all of its network.)"""
    blocked, added, kept = False, 0, 1.0
    for fault in faults:
        if fault.kind == "lan":
            blocked = True
        elif fault.kind == "partition":
            part = part_of(fault.parts)
            blocked |= part.get(source, source) != part.get(target, target)
        elif fault.source in ("", source) and fault.target in ("", target):
            blocked |= fault.kind == "cut"
            added += fault.delay if fault.kind == "clog" else 0
            kept *= 1 - fault.rate if fault.kind == "loss" else 1
    return Effect(blocked, added, 1 - kept)


def background_loss(network: Network) -> float:
    """The largest share of packets that a link loses all the time, damaged ones included.

    >>> background_loss(Network(loss=0.1, corrupt=0.1))
    0.19
    """
    return max(round(1 - (1 - link.loss) * (1 - link.corrupt), 9) for link in (network, *network.link))


def part_of(parts: tuple[tuple[str, ...], ...]) -> Mapping[str, int]:
    """The number of the part that each place is in; a place that is in none is alone."""
    return {name: number for number, names in enumerate(parts) for name in names}


def link_between(network: Network, source: str, target: str) -> Link:
    """The link of two places: the last ``[[network.link]]`` that matches, else the network's own."""
    for link in reversed(network.link):
        if link.source in ("", source) and link.target in ("", target):
            return link
    return network


def without_rates(link: Link) -> Link:
    """A link on which no packet is lost, damaged, duplicated or reordered; delay and bandwidth stay."""
    return dataclasses.replace(link, loss=0.0, duplicate=0.0, reorder=0.0, corrupt=0.0)


def transmission_time(network: Network, size: int, bandwidth: int) -> int:
    """How long a packet with this many bytes occupies a medium of this bandwidth, ns."""
    frame = max(size + network.header, network.minimum_frame)
    return frame * 8 * SECOND // bandwidth


def draw_delay(delay: Delay, random: Random) -> int:
    """The delay of one packet, ns."""
    if delay.kind == "uniform":
        return delay.low + int(random.random() * (delay.high - delay.low + 1))
    if delay.kind == "exponential" and delay.high:
        return delay.low + int(random.expovariate(1 / delay.high))
    return delay.low


def damaged(data: bytes, random: Random) -> bytes:
    """A packet's bytes with a few bits flipped."""
    flipped = bytearray(data)
    bits = min(8 * len(flipped), 1 + random.randrange(_MAX_FLIPPED))
    for bit in random.sample(range(8 * len(flipped)), bits):
        flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)
