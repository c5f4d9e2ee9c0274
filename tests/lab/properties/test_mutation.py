"""Random correct runs hold; spoilt in one place, the property that must see it does.

Each spoiling returns whom it hurt, or None where the run has no place for it. A spoiling that never found a place would
test nothing, so that is an error too.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

import pytest

from plainchant.lab.properties import verify

from ...trace.build import correct_run, joined, trace

Histories: TypeAlias = dict[str, list[str]]
SEEDS = range(12)
KEPT = (
    *("integrity", "fifo", "causal", "identical", "total", "acyclic", "self-delivery", "validity", "agreement"),
    *("uniform", "view-order", "view-atomicity", "view-exclusion", "convergence", "sender-in-view"),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_correct_run_holds(seed: int) -> None:
    found = verify(trace(joined(correct_run(Random(seed)))), KEPT)
    assert found.ok, [violation.sentence for violation in found.violations]
    assert {name: outcome.verdict for name, outcome in found.properties.items()} == dict.fromkeys(KEPT, "holds")


def survivors(histories: Histories) -> list[str]:
    return [name for name, events in histories.items() if events[-1] == "end"]


def places(events: list[str], kind: str) -> list[int]:
    return [place for place, event in enumerate(events) if event.split()[0] == kind]


def swap(random: Random, histories: Histories, *, same_sender: bool) -> str | None:
    """Two deliveries, one right after the other, change places at a process that survives."""
    name = random.choice(survivors(histories))
    events = histories[name]
    pairs = [
        place
        for place in places(events, "deliver")
        if events[place + 1].startswith("deliver") and (events[place].split()[1] == events[place + 1].split()[1]) is same_sender
    ]
    if not pairs:
        return None
    place = random.choice(pairs)
    events[place], events[place + 1] = events[place + 1], events[place]
    return name


def swap_one_sender(random: Random, histories: Histories) -> str | None:
    return swap(random, histories, same_sender=True)


def swap_two_senders(random: Random, histories: Histories) -> str | None:
    return swap(random, histories, same_sender=False)


def swap_at_a_crashed_process(random: Random, histories: Histories) -> str | None:
    """As two survivors would notice it, but the one with the other order is dead."""
    name = next(name for name, events in histories.items() if events[-1] == "crash")
    events = histories[name]
    pairs = [
        place
        for place in places(events, "deliver")
        if events[place + 1].startswith("deliver") and events[place].split()[1] != events[place + 1].split()[1]
    ]
    if not pairs:
        return None
    place = random.choice(pairs)
    events[place], events[place + 1] = events[place + 1], events[place]
    return name


def drop(random: Random, histories: Histories) -> str | None:
    name = random.choice(["p1", "p3"])
    del histories[name][random.choice(places(histories[name], "deliver"))]
    return name


def drop_own(random: Random, histories: Histories) -> str | None:
    own = [place for place, event in enumerate(histories["p1"]) if event.startswith("deliver p1 ")]
    if not own:
        return None
    del histories["p1"][random.choice(own)]
    return "p1"


def drop_with_a_later_one(random: Random, histories: Histories) -> str | None:
    """A message is dropped of whose sender the process delivers a later one."""
    events = histories["p1"]
    senders = [events[place].split()[1] for place in places(events, "deliver")]
    holes = [
        place
        for count, place in enumerate(places(events, "deliver"))
        if events[place].split()[1] in senders[count + 1 :] and events[place].split()[1] in survivors(histories)
    ]
    if not holes:
        return None
    del events[random.choice(holes)]
    return "p1"


def duplicate(random: Random, histories: Histories) -> str | None:
    name = random.choice(sorted(histories))
    delivered = places(histories[name], "deliver")
    if not delivered:
        return None
    place = random.choice(delivered)
    later = random.randint(place + 1, len(histories[name]) - 1)
    histories[name].insert(later, histories[name][place])
    return name


def forge(random: Random, histories: Histories) -> str | None:
    name = random.choice(survivors(histories))
    place = random.choice(places(histories[name], "deliver"))
    histories[name][place] = f"deliver {random.choice(['p1', 'p3', 'nobody'])} 999"
    return name


def move_across_a_view(random: Random, histories: Histories) -> str | None:
    """The last delivery before a view is made after it; others install both views."""
    events = histories["p1"]
    changes = [place for place in places(events, "view") if place > 0 and events[place - 1].startswith("deliver")]
    if not changes:
        return None
    place = random.choice(changes)
    events[place - 1], events[place] = events[place], events[place - 1]
    return "p1"


def change_members(random: Random, histories: Histories) -> str | None:
    """Another process is named in one view that is not the first, at one process only."""
    views = places(histories["p1"], "view")[1:]
    place = random.choice(views)
    histories["p1"][place] += ",p77"
    return "p1"


def keep_the_crashed(random: Random, histories: Histories) -> str | None:
    """Every view goes on naming the process that crashed."""
    crashed = next(name for name, events in histories.items() if events[-1] == "crash")
    for events in histories.values():
        for place in places(events, "view"):
            if crashed not in events[place].split()[2].split(","):
                events[place] += f",{crashed}"
    return crashed


def miss_the_last_view(random: Random, histories: Histories) -> str | None:
    """One process neither installs the last view nor delivers what comes after it."""
    place = places(histories["p1"], "view")[-1]
    histories["p1"] = [event for at, event in enumerate(histories["p1"]) if at < place or event in ("send", "end")]
    return "p1"


def forget_a_sender(random: Random, histories: Histories) -> str | None:
    """One process's last view lacks somebody who goes on sending in it."""
    events = histories["p1"]
    last = places(events, "view")[-1]
    senders = {event.split()[1] for event in events[last:] if event.startswith("deliver")} - {"p1"}
    if not senders:
        return None
    _, number, members = events[last].split()
    gone = min(senders)
    events[last] = f"view {number} {','.join(name for name in members.split(',') if name != gone)}"
    return "p1"


Spoiling: TypeAlias = Callable[[Random, Histories], str | None]
SPOILINGS: list[tuple[Spoiling, tuple[str, ...]]] = [
    (swap_one_sender, ("fifo", "causal", "identical", "total", "acyclic", "uniform")),
    (swap_two_senders, ("identical", "total", "acyclic", "uniform")),
    (swap_at_a_crashed_process, ("total", "acyclic", "uniform")),
    (drop, ("agreement", "uniform")),
    (drop_own, ("self-delivery", "validity", "agreement")),
    (drop_with_a_later_one, ("fifo", "causal", "total")),
    (duplicate, ("integrity",)),
    (forge, ("integrity",)),
    (move_across_a_view, ("view-atomicity",)),
    (change_members, ("view-order",)),
    (keep_the_crashed, ("view-exclusion",)),
    (miss_the_last_view, ("view-order", "convergence")),
    (forget_a_sender, ("sender-in-view",)),
]


@pytest.mark.parametrize(("spoil", "seen_by"), [pytest.param(s, names, id=s.__name__) for s, names in SPOILINGS])
def test_a_spoilt_run_is_caught_by_the_property_that_must_see_it(spoil: Spoiling, seen_by: tuple[str, ...]) -> None:
    spoilt = 0
    for seed in SEEDS:
        histories = correct_run(Random(seed))
        culprit = spoil(Random(f"spoil {seed}"), histories)
        if culprit is None:
            continue
        spoilt += 1
        found = verify(trace(joined(histories)), seen_by)
        for name in seen_by:
            blamed = [violation.processes for violation in found.violations if violation.property == name]
            assert any(culprit in processes for processes in blamed), (seed, name, blamed)
    assert spoilt >= len(SEEDS) // 2
