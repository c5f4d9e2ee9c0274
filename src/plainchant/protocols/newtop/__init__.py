"""``newtop``: Causal Blocks, total and causal order in overlapping groups, flow control (paper 001).

Macêdo, 1994: messages bear the number of a logical clock, the block counter; messages with one number make up a block, and a
block is complete when every member is known to have sent all that it will send with that number. Total order waits for
complete blocks, in one or many overlapping groups, for one number of overhead. Causal orders stand on the same blocks: slow
(numbers alone), fast (vectors), relative (between the two). Members that have nothing to send complete blocks by null messages.

Start with ``packets`` (what is said), then ``matrix`` (the Block Matrix), ``delivery`` and ``vectors`` (which message is next),
``flow``, ``silence``, ``repair``, ``asymmetric``; then ``suspector``, ``membership`` (who has failed) and ``formation`` (who
comes in, and how parts come together); and ``process`` (the engine that puts them together).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...core.model import GroupId, ProcessId
from ..registry import Description, Progress, Promise
from .formation import ENTRY_PATIENCE
from .membership import GIVE_UP
from .packets import PACKETS
from .parameters import LONGEST, Parameters
from .process import Process
from .repair import RAREST, SLOWEST
from .suspector import OPENING
from .tuning import tune

if TYPE_CHECKING:
    from ..story import Story

ALIVE = "all members live, and the network heals"
ANY = "whatever fails; liveness, if the network heals"
TOTAL = 'every group has order "total" (the default)'
VIEWS = ("view-order", "view-atomicity", "view-exclusion", "sender-in-view")


def promises(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> tuple[Promise, ...]:
    """What holds with these parameters: less where a group has a causal order only."""
    orders = {parameters.order_of(group) for group in groups} or {parameters.order}
    names = ["integrity", "fifo", "causal", "self-delivery", "validity", "agreement"]
    if orders == {"total"}:
        names[3:3] = ["identical", "total", "acyclic"]
    if any(parameters.is_static(group) for group in groups) or not parameters.suspect_after:
        if orders == {"cbcast"} or (orders == {"fast"} and parameters.vectors == "keyed"):
            names.append("prompt")
        return tuple(Promise(name, ALIVE) for name in names)
    names += VIEWS
    if parameters.merge_after or parameters.partitions == "majority":
        names.append("convergence")
    if parameters.same_view:
        names.append("same-view")
    if parameters.signatures:
        names.append("disjoint-views")
    return tuple(Promise(name, ANY) for name in names)


def check(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> str | None:
    """Names in ``orders`` and ``sequencers`` are those of groups and their members."""
    for name in ("orders", "sequencers"):
        for group in getattr(parameters, name):
            if group not in groups:
                return f"{name} names group {group!r}, which does not exist; there are: {', '.join(groups)}"
    for group, sequencer in parameters.sequencers.items():
        if sequencer not in groups[group]:
            return f"the sequencer of group {group} is {sequencer!r}, which is no member; there are: {', '.join(groups[group])}"
    return None


def settle(parameters: Any) -> int:
    """What is lost is noticed after a probe, at its slowest, and twice that to be sure that nothing more comes of it. Where
    groups change: a crash is noticed after the extended time-silence and omega, and then parts look for each other and meet."""
    static = 2 * int(max(parameters.silence, parameters.stability_after, parameters.probe_after))
    if not parameters.suspect_after:
        return static
    return static + 2 * int(parameters.alive_every) + 4 * int(parameters.suspect_after + parameters.merge_after)


def progress(parameters: Any, groups: Mapping[GroupId, Sequence[ProcessId]]) -> Progress:
    """How long applications may wait, whatever one or several other members do. The terms:

    - *A member stops* (crash, pause), or parts of the network do not hear each other: the others suspect it after omega at the
      latest, which grows to at most ``LONGEST`` times ``suspect_after``, and is ``OPENING`` times as long for a member that has
      not been heard in a new formation yet. A block by which it is missed comes within ``alive_every``.
    - *A member does not read*: it goes after ``patience``. Members that cannot settle a suspicion part after as long.
    - *Agreement* is four words, one after the other, each answered by the others: Suspect, Refute or Confirmed, Remove, and the
      null messages that complete its block. A word that is lost is found by the next probe (at most ``SLOWEST`` times
      ``probe_after`` later) and asked for (at most two to the power ``RAREST`` times ``ask_after`` later).

    A request to join or to form a group is refused after ``ENTRY_PATIENCE`` times ``suspect_after``; a leaver is let go, or
    gives up waiting for that, after the group has settled whatever is under way.

    That is enough for round trips of up to three times ``suspect_after``. With longer ones a formation, and
    words that are lost, take longer.

    Static groups (``suspect_after = 0``, or a sequencer) have no bound: their members wait for each other for good.
    """
    if any(parameters.is_static(group) for group in groups) or not parameters.suspect_after:
        return Progress(because="the members of a static group wait for each other, however long one of them takes")
    omega = int(parameters.suspect_after)
    suspicion = OPENING * LONGEST * omega + int(parameters.alive_every)
    agreement = 4 * (SLOWEST * int(parameters.probe_after) + (int(parameters.ask_after) << RAREST))
    within = suspicion + parameters.longest_wait + agreement
    despite = frozenset({"pause", "sluggish", "partition", "loss<=0.3"})
    return Progress(within=within, answered=within + (ENTRY_PATIENCE + GIVE_UP) * omega, despite=despite)


def changes(parameters: Any) -> bool:
    """Whether members may join, leave and fail."""
    return bool(parameters.suspect_after) and not parameters.sequencers


def _story() -> type[Story]:
    """Imported when asked for: a live member needs no story."""
    from .story import NewtopStory

    return NewtopStory


DESCRIPTION = Description(
    name="newtop",
    paper="001",
    about="Blocks of a logical clock: total order over overlapping groups for one number a message, or a causal order.",
    parameters=Parameters,
    packets=PACKETS,
    make=Process,
    promises=promises,
    conditional=(
        Promise(
            "prompt",
            'every group has order "cbcast", or "fast" with vectors = "keyed", and suspect_after is 0 (a view that changes holds '
            "messages back)",
        ),
        *(Promise(name, TOTAL) for name in ("identical", "total", "acyclic")),
        Promise("same-view", "same_view is true"),
        Promise("disjoint-views", "signatures is true"),
    ),
    faults=("crash", "loss", "duplication", "reordering", "corruption", "pause", "partition", "cut", "clog", "clock steps"),
    settle=settle,
    check=check,
    progress=progress,
    tune=tune,
    changes=changes,
    proposes=changes,
    lossless=lambda given: given.get("transport") == "fifo",
    recorded=frozenset({"null", "retransmit", "suspect", "unblock"}),
    story=_story,
)
__all__ = ["DESCRIPTION", "Parameters", "Process"]
