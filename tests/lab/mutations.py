"""Ways of spoiling a correct run in one place, on the histories of ``random_traces`` and on rows of real traces.

A mutation takes histories, changes them in place and says whom it hurt, or returns None if there is no place for it. What
it leaves is always a well-formed trace (views in force are filled in afterwards, numbers of sends stay dense): a mutated
run is a bad run, not a broken file.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pyarrow as pa

from .random_traces import Event, RandomRun

Histories = dict[str, list[Event]]
Mutation = Callable[[Random, Histories], str | None]


def mutated(random: Random, run: RandomRun, name: str, mutation: Mutation) -> RandomRun | None:
    """A spoilt copy of a run under another name; None if the mutation finds no place in it."""
    histories = copy.deepcopy(run.histories)
    if mutation(random, histories) is None:
        return None
    return RandomRun(name, {process: events for process, events in histories.items() if events}, run.promises, run.features)


def histories_of(table: pa.Table) -> Histories:
    """The histories of a trace of one run, for mutations."""
    histories: Histories = {}
    rows = table.sort_by([("process", "ascending"), ("index", "ascending")]).to_pylist()
    for row in rows:
        event = {name: value for name, value in row.items() if value is not None and name not in ("run", "process", "index")}
        if event["kind"] != "view":
            event.pop("view", None)
        histories.setdefault(row["process"], []).append(event)
    return histories


def _places(events: list[Event], *kinds: str) -> list[int]:
    return [place for place, event in enumerate(events) if event["kind"] in kinds]


def _somewhere(random: Random, histories: Histories, *kinds: str) -> tuple[str, int] | None:
    """A row of such a kind, of any process."""
    found = [(process, place) for process, events in histories.items() for place in _places(events, *kinds)]
    return random.choice(found) if found else None


def _same(one: Event, other: Event, *columns: str) -> bool:
    return all(one.get(column) == other.get(column) for column in columns)


def swap_neighbours(random: Random, histories: Histories) -> str | None:
    """Two deliveries of one process, with none between them, change places."""
    pairs = [
        (process, one, other)
        for process, events in histories.items()
        for one, other in zip(_places(events, "deliver"), _places(events, "deliver")[1:], strict=False)
    ]
    if not pairs:
        return None
    process, one, other = random.choice(pairs)
    _swap(histories[process], one, other)
    return process


def swap_far(random: Random, histories: Histories) -> str | None:
    """Any two deliveries of one process change places."""
    able = [process for process, events in histories.items() if len(_places(events, "deliver")) > 1]
    if not able:
        return None
    process = random.choice(able)
    _swap(histories[process], *random.sample(_places(histories[process], "deliver"), 2))
    return process


def _swap(events: list[Event], one: int, other: int) -> None:
    """Times stay where they are, so that only the order is spoilt."""
    events[one], events[other] = events[other], events[one]
    for column in ("time", "true_time"):
        if column in events[one]:
            events[one][column], events[other][column] = events[other][column], events[one][column]


def drop_delivery(random: Random, histories: Histories) -> str | None:
    return _drop(random, histories, "deliver")


def drop_own_delivery(random: Random, histories: Histories) -> str | None:
    own = [
        (process, place)
        for process, events in histories.items()
        for place in _places(events, "deliver")
        if events[place]["sender"] == process
    ]
    if not own:
        return None
    process, place = random.choice(own)
    del histories[process][place]
    return process


def drop_view(random: Random, histories: Histories) -> str | None:
    return _drop(random, histories, "view")


def drop_end(random: Random, histories: Histories) -> str | None:
    """Nobody wrote down that it was alive: its history is cut."""
    return _drop(random, histories, "end")


def drop_crash(random: Random, histories: Histories) -> str | None:
    return _drop(random, histories, "crash")


def drop_join(random: Random, histories: Histories) -> str | None:
    return _drop(random, histories, "join")


def drop_leave(random: Random, histories: Histories) -> str | None:
    return _drop(random, histories, "leave")


def _drop(random: Random, histories: Histories, kind: str) -> str | None:
    found = _somewhere(random, histories, kind)
    if found is None:
        return None
    process, place = found
    del histories[process][place]
    return process


def drop_last_send(random: Random, histories: Histories) -> str | None:
    """A process's last send to a group is not in the trace."""
    found = _somewhere(random, histories, "send")
    if found is None:
        return None
    process, place = found
    events = histories[process]
    del events[[at for at in _places(events, "send") if _same(events[at], events[place], "group")][-1]]
    return process


def drop_history(random: Random, histories: Histories) -> str | None:
    """A process is not observed."""
    if len(histories) < 3:
        return None
    process = random.choice(list(histories))
    del histories[process]
    return process


def cut_tail(random: Random, histories: Histories) -> str | None:
    """A history breaks off somewhere."""
    able = [process for process, events in histories.items() if len(events) > 3]
    if not able:
        return None
    process = random.choice(able)
    del histories[process][random.randint(2, len(histories[process]) - 1) :]
    return process


def duplicate_delivery(random: Random, histories: Histories) -> str | None:
    return _again(random, histories, "deliver")


def duplicate_view(random: Random, histories: Histories) -> str | None:
    return _again(random, histories, "view")


def _again(random: Random, histories: Histories, kind: str) -> str | None:
    """The same row once more, later, but before the history ends."""
    found = _somewhere(random, histories, kind)
    if found is None:
        return None
    process, place = found
    events = histories[process]
    last = len(events) - (events[-1]["kind"] in ("end", "crash"))
    events.insert(random.randint(place + 1, max(place + 1, last)), dict(events[place]))
    return process


def deliver_older(random: Random, histories: Histories) -> str | None:
    """A process delivers up to two messages that others deliver and it did not, in any order, anywhere: in another view,
    perhaps, than they did."""
    everything = {_message(events[at]): events[at] for events in histories.values() for at in _places(events, "deliver")}
    lacking = []
    for process, events in histories.items():
        has = {_message(events[at]) for at in _places(events, "deliver")}
        groups = {event.get("group") for event in events if event["kind"] in ("view", "deliver")}
        missing = [event for message, event in everything.items() if message not in has and message[0] in groups]
        lacking += [(process, missing)] if missing else []
    if not lacking:
        return None
    process, missing = random.choice(lacking)
    events = histories[process]
    for event in random.sample(missing, min(2, len(missing))):
        last = len(events) - (events[-1]["kind"] in ("end", "crash"))
        events.insert(random.randint(min(last, len(events) // 2), last), dict(event))
    return process


def _message(event: Event) -> tuple[str, str, int]:
    return event["group"], event["sender"], event["seq"]


def move_across_view(random: Random, histories: Histories) -> str | None:
    """A delivery and the view of its group that comes next, or came last, change sides."""
    pairs = []
    for process, events in histories.items():
        for view in _places(events, "view"):
            group = [at for at in _places(events, "deliver") if _same(events[at], events[view], "group")]
            pairs += [(process, view, at) for at in group if abs(at - view) < 8]
    if not pairs:
        return None
    process, view, at = random.choice(pairs)
    events = histories[process]
    event = events.pop(at)
    # Taken out before the view, the delivery lands behind it; taken out after it, before it.
    events.insert(view, event)
    return process


def move_delivery(random: Random, histories: Histories) -> str | None:
    """A delivery is made elsewhere in the history."""
    found = _somewhere(random, histories, "deliver")
    if found is None:
        return None
    process, place = found
    events = histories[process]
    event = events.pop(place)
    last = len(events) - (bool(events) and events[-1]["kind"] in ("end", "crash"))
    events.insert(random.randint(0, last), event)
    return process


def deliver_before_send(random: Random, histories: Histories) -> str | None:
    """A process delivers its own message before it sends it."""
    pairs = [
        (process, send, delivery)
        for process, events in histories.items()
        for send in _places(events, "send")
        for delivery in _places(events, "deliver")
        if send < delivery and _same(events[send], events[delivery], "group", "sender", "seq")
    ]
    if not pairs:
        return None
    process, send, delivery = random.choice(pairs)
    event = histories[process].pop(delivery)
    histories[process].insert(send, event)
    return process


def add_member(random: Random, histories: Histories) -> str | None:
    """A view names somebody more, at one process only."""
    found = _somewhere(random, histories, "view")
    if found is None:
        return None
    process, place = found
    view = histories[process][place]
    absent = [name for name in [*histories, "nobody"] if name not in view["members"]]
    view["members"] = [*view["members"], random.choice(absent)]
    return process


def remove_member(random: Random, histories: Histories) -> str | None:
    """A view lacks somebody, at one process only."""
    found = [
        (process, place)
        for process, events in histories.items()
        for place in _places(events, "view")
        if len(events[place]["members"]) > 1
    ]
    if not found:
        return None
    process, place = random.choice(found)
    view = histories[process][place]
    gone = random.choice(view["members"])
    view["members"] = [name for name in view["members"] if name != gone]
    return process


def renumber_view(random: Random, histories: Histories) -> str | None:
    return _with(random, histories, "view", lambda view: {"view": view["view"] + random.choice((-1, 1, 100))})


def forge_sender(random: Random, histories: Histories) -> str | None:
    """A delivery is in another's name."""
    names = [*histories, "nobody"]

    def forge(event: Event) -> Event:
        return {"sender": random.choice([name for name in names if name != event["sender"]])}

    return _with(random, histories, "deliver", forge)


def forge_number(random: Random, histories: Histories) -> str | None:
    return _with(random, histories, "deliver", lambda event: {"seq": event["seq"] + random.choice((-1, 1, 2, 10**6))})


def forge_group(random: Random, histories: Histories) -> str | None:
    """A delivery is in another group."""

    def forge(event: Event) -> Event:
        return {"group": random.choice([group for group in ("g", "h", "k") if group != event["group"]])}

    return _with(random, histories, "deliver", forge)


def change_digest(random: Random, histories: Histories) -> str | None:
    """Another content; only where there is a digest to compare with."""
    able = {process: [e for e in events if e.get("digest") is not None] for process, events in histories.items()}
    able = {process: events for process, events in able.items() if events}
    if not able:
        return None
    process = random.choice(list(able))
    random.choice(able[process])["digest"] += 1
    return process


def change_rank(random: Random, histories: Histories) -> str | None:
    """The hint lies."""
    return _with(random, histories, "deliver", lambda e: {"rank": (e.get("rank") or 0) + random.choice((-3, -1, 1, 2, 50))})


def drop_rank(random: Random, histories: Histories) -> str | None:
    return _with(random, histories, "deliver", lambda e: {"rank": None})


def _later(event: Event) -> Event:
    return {column: event[column] + 10**6 for column in ("time", "true_time") if event.get(column) is not None}


def delay_delivery(random: Random, histories: Histories) -> str | None:
    """A delivery comes after every deadline and bound."""
    return _with(random, histories, "deliver", _later)


def stand_still(random: Random, histories: Histories) -> str | None:
    """A process does nothing for a while before it delivers a message of its own."""
    own = [
        (process, place)
        for process, events in histories.items()
        for place in _places(events, "deliver")
        if events[place]["sender"] == process
    ]
    if not own:
        return None
    process, place = random.choice(own)
    events = histories[process]
    events[place:] = [event | _later(event) for event in events[place:]]
    return process


def delay_turn(random: Random, histories: Histories) -> str | None:
    """A token comes long after it was due."""
    return _with(random, histories, "token", _later)


def delay_end(random: Random, histories: Histories) -> str | None:
    """A process goes on for long: all that it might still have done it has not done."""
    return _with(random, histories, "end", _later)


def slow_send(random: Random, histories: Histories) -> str | None:
    kind = random.choice(("send", "sent"))
    return _with(random, histories, kind, lambda event: {"detail": json.dumps({"took_ns": 10**6})})


def crash_instead_of_end(random: Random, histories: Histories) -> str | None:
    return _with(random, histories, "end", lambda event: {"kind": "crash", "detail": None})


def end_instead_of_crash(random: Random, histories: Histories) -> str | None:
    return _with(random, histories, "crash", lambda event: {"kind": "end", "detail": '{"drained": true}'})


def leave_early(random: Random, histories: Histories) -> str | None:
    """A process leaves a group and goes on in it as if it had not."""
    found = _somewhere(random, histories, "deliver")
    if found is None:
        return None
    process, place = found
    events = histories[process]
    leave = {"kind": "leave", "group": events[place]["group"], "time": events[place]["time"]}
    events.insert(random.choice((place, place + 1)), leave)
    return process


def reject_delivered(random: Random, histories: Histories) -> str | None:
    """A message that somebody delivers is rejected by another, or by the same."""
    return _beside(random, histories, "reject")


def block_needlessly(random: Random, histories: Histories) -> str | None:
    """A process lets a message wait somewhere."""
    return _beside(random, histories, "block")


def _beside(random: Random, histories: Histories, kind: str) -> str | None:
    found = _somewhere(random, histories, "deliver")
    if found is None:
        return None
    event = histories[found[0]][found[1]]
    process = random.choice(list(histories))
    events = histories[process]
    last = len(events) - (events[-1]["kind"] in ("end", "crash"))
    at = random.randint(min(1, last), last)
    row = {"kind": kind, "group": event["group"], "sender": event["sender"], "seq": event["seq"]}
    events.insert(at, row | {"time": events[max(0, at - 1)]["time"]})
    return process


def share_signature(random: Random, histories: Histories) -> str | None:
    """Two views, anywhere, carry one signature."""
    views = [(process, place) for process, events in histories.items() for place in _places(events, "view")]
    if len(views) < 2:
        return None
    for process, place in random.sample(views, 2):
        histories[process][place]["detail"] = json.dumps({"signatures": {"x": 7}})
    return views[0][0]


def timing_fault(random: Random, histories: Histories) -> str | None:
    """A process is marked as slow: it owes less."""
    process = random.choice(list(histories))
    events = histories[process]
    events.insert(0, {"kind": "fault", "time": events[0]["time"], "detail": '{"timing": true}'})
    return process


def _with(random: Random, histories: Histories, kind: str, change: Callable[[Event], Mapping[str, Any]]) -> str | None:
    """Changes columns of one row of that kind."""
    found = _somewhere(random, histories, kind)
    if found is None:
        return None
    process, place = found
    histories[process][place] = {**histories[process][place], **change(histories[process][place])}
    return process


CAUGHT: tuple[Mutation, ...] = (
    *(swap_neighbours, swap_far, drop_delivery, drop_own_delivery, duplicate_delivery, move_across_view, move_delivery),
    *(deliver_before_send, add_member, remove_member, renumber_view, drop_view, duplicate_view, forge_sender, forge_number),
    *(forge_group, change_digest, drop_end, drop_last_send, cut_tail, delay_delivery, slow_send, crash_instead_of_end),
    *(leave_early, reject_delivered, block_needlessly, share_signature, drop_join, end_instead_of_crash, deliver_older),
    *(delay_turn, stand_still),
)
"""Mutations that break some property in many of the runs they are tried on."""

HARMLESS: tuple[Mutation, ...] = (delay_end, change_rank, drop_rank, drop_crash, drop_leave, drop_history, timing_fault)
"""Mutations that say less, or something that is not to be trusted: they need not break anything."""
