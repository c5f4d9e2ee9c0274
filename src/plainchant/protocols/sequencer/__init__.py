"""``sequencer``: reliable, identically ordered broadcast through one member that numbers everything (paper 004).

Kaashoek, Tanenbaum, Flynn Hummel and Bal, 1989: a member sends its message point-to-point to the sequencer, which numbers and
broadcasts it. Two packets and n interrupts a broadcast. Receivers see gaps in the numbers and ask for what is missing;
acknowledgements ride on other packets. Section 5's fault tolerance is built out here: replicated histories, elections with
fencing, views that come in the same order as messages, joining and leaving, and Amoeba's resilience degree.

Read it from the leaves up: ``packets``, ``log`` (what is kept), ``standing`` (what a member knows, with ``room``, ``pause`` and
``watch``), its parts ``requests``, ``gaps``, ``phases``, ``calling`` and ``door``, ``office`` (what the sequencer does, with
``hearing``), ``election``, and ``member``, which reacts to packets and timers. ``tuning`` fits parameters to a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...core.engine import Engine, Host, PerGroup
from ...core.model import GroupId, ProcessId
from ..registry import Description, Progress, Promise
from .door import JOIN_PATIENCE
from .member import Member
from .packets import PACKETS
from .parameters import Parameters
from .tuning import tune

if TYPE_CHECKING:
    from ..story import Story

MAJORITY = "a majority of each view survives"
CRASHES = "processes crash, but the network never falls apart and no process that lives is silent for suspect_after"
LOST_IN_CRASHES = "the same, and at most {r} members of a view are lost"
LOST = "at most {r} members of a view are lost; across partitions only if {members} members are a majority"


def make(host: Host, parameters: Any) -> Engine:
    """A process's engine: one member for each of its groups."""
    return PerGroup(host, lambda inner, group: Member(inner, group, parameters))


def promises(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> tuple[Promise, ...]:
    """What holds with these parameters: more with resilience, less where groups overlap (each has its own sequencer)."""
    names = [
        "integrity", "fifo", "causal", "identical", "self-delivery", "validity", "agreement", "view-order", "view-atomicity",
        "sender-in-view", "view-exclusion", "convergence",
    ]  # fmt: skip
    members = [process for group in groups.values() for process in group]
    overlap = len(members) != len(set(members))
    if overlap:
        names.remove("causal")
    promised = [Promise(name, CRASHES if parameters.any_survivor else MAJORITY) for name in names]
    if parameters.resilience:
        worded = LOST_IN_CRASHES if parameters.any_survivor else LOST
        lost = worded.format(r=parameters.resilience, members=parameters.resilience + 1)
        promised.append(Promise("uniform", lost))
        if not overlap:
            promised.append(Promise("total", lost))
    return tuple(promised)


def check(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> str | None:
    """Besides the sequencer a group has one member less than it has: more can never hold a message."""
    for group, members in groups.items():
        if parameters.resilience > len(members) - 1:
            size = f"group {group} has {len(members)} members, the sequencer among them"
            return f"resilience is {parameters.resilience}, but {size}; make it at most {len(members) - 1}"
    return None


def beyond(parameters: Any) -> frozenset[str]:
    """With ``partitions = "none"`` a process that is not heard has crashed: what only looks like a crash is not tolerated."""
    return frozenset({"pause", "partition", "cut", "clog"}) if parameters.any_survivor else frozenset()


def progress(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> Progress:
    """How long an application may wait, where a round trip is shorter than ``suspect_after``. (A fail-over alone takes a
    suspicion and at most four round trips, for every round trip shorter than ``patience``: :mod:`.election`.)

    An election takes a suspicion (``suspect_after`` and two ticks), at most twice ``suspect_after`` for voters that do not
    answer, and four round trips: less than eight times ``suspect_after``. If the sequencer's own application does not read, it
    hands its office over after ``patience``, and its successor excludes it after another one; each of the two steps of a
    synchronisation phase ends after ``patience`` too. Only one of these holds a message up at a time.

    Senders take turns. Where a history has room for fewer batches than there are members, a message waits for its turn for some
    phases more, of two round trips each; the last of a member that leaves waits for all turns of its window. A joiner gives up
    after ``JOIN_PATIENCE`` times ``patience``. A member that leaves waits for its own messages; a sequencer hands over."""
    members = max(map(len, groups.values()), default=1)
    phase = 3 * parameters.suspect_after + parameters.sync_after
    within = 2 * parameters.patience + 8 * parameters.suspect_after
    turn, turns = (phase * ((batches - 1) // parameters.history) for batches in (members, members * parameters.window))
    despite = {"sluggish", "loss<=0.3"} if parameters.any_survivor else {"pause", "sluggish", "loss<=0.3"}
    return Progress(within + turn, within + turns + JOIN_PATIENCE * parameters.patience, frozenset(despite))


def settle(parameters: Any) -> int:
    """A crash is noticed after ``suspect_after`` and two ticks; twice that, to be sure that nothing more comes of it."""
    return 2 * int(parameters.suspect_after) + 4 * int(max(parameters.heartbeat, parameters.quiet_after))


def _story() -> type[Story]:
    """Imported when asked for: a live member needs no story."""
    from .story import SequencerStory

    return SequencerStory


DESCRIPTION = Description(
    name="sequencer",
    paper="004",
    about="One member numbers and broadcasts everything: two packets a broadcast, one order for all.",
    parameters=Parameters,
    packets=PACKETS,
    make=make,
    promises=promises,
    conditional=(
        Promise("uniform", "parameters.resilience is r > 0 and " + LOST.format(r="r", members="r + 1")),
        Promise("total", "the same, and groups do not overlap"),
    ),
    faults=("crash", "loss", "duplication", "reordering", "corruption", "pause", "partition", "cut", "clog", "clock steps"),
    beyond=beyond,
    progress=progress,
    settle=settle,
    check=check,
    tune=tune,
    recorded=frozenset({"null", "retransmit", "suspect", "sync", "unblock"}),
    story=_story,
)
__all__ = ["DESCRIPTION", "Member", "Parameters"]
