"""Scenarios of overlapping groups.

Structures are the shapes that groups can overlap in (chains, rings, stars, cliques, and any at all). Where nothing fails, links
have delays of very different size, each always the same: the network is FIFO, as chapters 3 to 5 assume, unless it is to lose
packets. Where members fail (chapter 6), links may lose packets: a partition does.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from plainchant.core.model import MS, US, Duration
from plainchant.scenario.model import Delay, LinkOverride, Network, RandomFaults, Scenario, Workload

from ..runs import ONE_MILLISECOND, milliseconds, names
from ..runs import scenario as any_scenario

Groups = dict[str, tuple[str, ...]]
ORDERS: Final = ("total", "slow", "fast", "relative")
EVERY_ORDER: Final[Mapping[str, Mapping[str, Any]]] = {
    **{order: {"order": order} for order in ("total", "slow", "relative")},
    **{f"fast, {vectors}": {"order": "fast", "vectors": vectors} for vectors in ("compact", "keyed")},
    "cbcast": {"order": "cbcast"},
}
"""Parameters of every order, with both kinds of vectors."""


# Structures
def chain(groups: int, size: int) -> Groups:
    """Each group shares one member with the next."""
    members = names(groups * (size - 1) + 1)
    return {f"g{number + 1}": members[number * (size - 1) : number * (size - 1) + size] for number in range(groups)}


def ring(groups: int, size: int) -> Groups:
    """The same, and the last shares one with the first."""
    count = groups * (size - 1)
    members = names(count)
    return {
        f"g{number + 1}": tuple(members[(number * (size - 1) + place) % count] for place in range(size))
        for number in range(groups)
    }


def star(groups: int, size: int) -> Groups:
    """One process is in every group."""
    members = names(groups * (size - 1) + 1)
    return {
        f"g{number + 1}": (members[0], *members[1 + number * (size - 1) : 1 + (number + 1) * (size - 1)])
        for number in range(groups)
    }


def clique(groups: int, size: int) -> Groups:
    """All groups have the same members."""
    return {f"g{number + 1}": names(size) for number in range(groups)}


def anything(draw: random.Random, groups: int, processes: int) -> Groups:
    """Groups of two or more, drawn; who is in none is in no structure."""
    members = names(processes)
    most = max(2, processes * 2 // 3)
    drawn = (draw.sample(members, draw.randint(2, most)) for _ in range(groups))
    return {f"g{number}": tuple(sorted(chosen, key=members.index)) for number, chosen in enumerate(drawn, 1)}


def structure(draw: random.Random, most_groups: int = 5) -> Groups:
    """One of all kinds."""
    groups, size = draw.randrange(1, most_groups + 1), draw.randrange(2, 6)
    shape = draw.choice(("chain", "ring", "star", "clique", "anything"))
    if shape == "chain":
        return chain(groups, size)
    if shape == "ring" and groups > 2:
        return ring(groups, size)
    if shape == "star":
        return star(groups, size)
    if shape == "clique":
        return clique(groups, size)
    return anything(draw, groups, draw.randrange(3, 9))


def small_structure(draw: random.Random) -> Groups:
    """One group of two to eight, or two or three that overlap."""
    groups = draw.choice((1, 1, 1, 2, 3))
    if groups == 1:
        return {"g": names(draw.randrange(2, 9))}
    size = draw.randrange(2, 5)
    shape = draw.choice((chain, star, clique))
    return anything(draw, groups, 6) if draw.random() < 0.4 else shape(groups, size)


def members_of(groups: Groups) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for members in groups.values() for name in members))


# Networks and scenarios
def uneven(draw: random.Random, members: Sequence[str]) -> Network:
    """Every link has a constant delay of its own, from a fifth of a millisecond to fifty."""
    links = tuple(
        LinkOverride(source=source, target=target, delay=Delay("constant", Duration(round(MS * 0.2 * 250 ** draw.random()))))
        for source in members
        for target in members
        if source != target
    )
    return Network(delay=Delay("constant", Duration(1 * MS)), link=links)


def delayed(base: Mapping[tuple[str, str], float], otherwise: float = 1.0) -> Network:
    """A network with these delays in ms, and one for all other links."""
    links = tuple(
        LinkOverride(source=source, target=target, delay=Delay("constant", Duration(round(delay * MS))))
        for (source, target), delay in base.items()
    )
    return Network(delay=Delay("constant", Duration(round(otherwise * MS))), link=links)


_NEVER: Final = {"announce_after": Duration(0), "suspect_after": Duration(0)}
_THESIS: Final[Mapping[str, Any]] = {"transport": "fifo", "pack": False, **_NEVER}
LOSSY: Final = Network(loss=0.05, duplicate=0.02, reorder=0.1, delay=Delay("uniform", Duration(500 * US), Duration(5 * MS)))


_LINKS: Final = Network(delay=Delay("uniform", milliseconds(0.5), milliseconds(1.5)))


def scenario(
    groups: Groups, *workload: Workload, length: float = 1000, drain: float = 30, network: Network = _LINKS, **given: Any
) -> Scenario:
    """A scenario of these groups, with links of about a millisecond; ``length`` in ms, ``drain`` in seconds."""
    members, drain = members_of(groups), 1000 * drain
    return any_scenario("newtop", members, *workload, length=length, drain=drain, groups=groups, network=network, **given)


def static(
    groups: Groups, *workload: Workload, seconds: float = 0.5, drain: float = 60, network: Network = ONE_MILLISECOND, **given: Any
) -> Scenario:
    """Groups that never change, over a FIFO network, with the parameters of the thesis unless others are given."""
    return scenario(groups, *workload, length=1000 * seconds, drain=drain, network=network, **{**_THESIS, **given})


def random_run(seed: int, order: str, *, lossy: bool = False, most_groups: int = 5, **parameters: Any) -> Scenario:
    """Groups of any shape; some members send, some in bursts, some hardly ever."""
    draw = random.Random(f"{seed}/structure")
    groups = structure(draw, most_groups)
    members = members_of(groups)
    workload = tuple(
        Workload(
            senders=(name,), rate=draw.choice((10.0, 40.0, 120.0)), arrivals="poisson", burst=draw.choice((1, 1, 1, 4)), size=16
        )
        for name in members
        if draw.random() < 0.7
    ) or (Workload(senders=members[:1], rate=40.0),)
    network = LOSSY if lossy else uneven(draw, members)
    settings: dict[str, Any] = {"silence_by": draw.choice(("adaptive", "timeout")), "order": order, **parameters}
    if lossy:
        settings["transport"] = "lossy"
    return static(groups, *workload, seed=seed, network=network, **settings)


def faulty_run(seed: int, order: str, **parameters: Any) -> Scenario:
    """Members of overlapping groups send, crash, come back, pause; the network loses packets and falls apart, for a while."""
    draw = random.Random(f"{seed}/{order}/membership")
    groups = small_structure(draw)
    rate = draw.choice((0.5, 1.0, 2.0))
    load = Workload(rate=draw.choice((10.0, 40.0)), arrivals="poisson", size=16)
    delay = Delay("uniform", milliseconds(0.5), milliseconds(draw.choice((1, 5))))
    network = Network(delay=delay, loss=draw.choice((0, 0.02, 0.1)), reorder=draw.choice((0, 0.1)))
    often: dict[str, Any] = {
        "crash": draw.choice((0.0, rate, 2 * rate)), "partition": draw.choice((rate, 2 * rate)), "cut": draw.choice((0.0, rate)),
        "pause": draw.choice((0.0, rate)), "network_length": milliseconds(draw.choice((150, 500))),
    }  # fmt: skip
    faults = RandomFaults(restart=0.5, pause_length=milliseconds(300), most_lost=len(members_of(groups)), **often)
    return scenario(groups, load, seed=seed, network=network, random_faults=faults, length=1500, order=order, **parameters)
