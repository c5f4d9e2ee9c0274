"""Reference checks of fifo, causal, identical, total, acyclic and prompt."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import combinations, pairwise

from ....core.model import GroupId, ProcessId
from ..causality import Causality
from ..facts import Event, History, Message
from ..report import Report, say


def fifo(report: Report) -> None:
    """A process that delivers m' has delivered, before it, every earlier message of that sender and group that it delivers at all
    or owes up to then. A process with a timing fault owes nothing here."""
    for history in report.run.all:
        by_sender: dict[tuple[GroupId, ProcessId], list[Event]] = {}
        for (group, sender, _), delivery in history.first.items():
            by_sender.setdefault((group, sender), []).append(delivery)
        for deliveries in by_sender.values():
            report.cases += len(deliveries) - 1
            for earlier, later in pairwise(deliveries):
                if earlier.message[2] > later.message[2]:
                    told = f"{later.process} delivers {say(later.message)} only after {say(earlier.message)}"
                    report.violation(told, events=[earlier, later], messages=[later.message, earlier.message])
            if not history.timing_fault:
                _without_holes(report, history, deliveries)


def _without_holes(report: Report, history: History, deliveries: Sequence[Event]) -> None:
    """Looks at each message that the process skipped, and judges it at the first later one delivered since it can be
    owed: parting only ever excuses more, so that one decides."""
    group, sender, _ = deliveries[0].message
    by_seq = sorted(deliveries, key=lambda delivery: delivery.message[2])
    highest = by_seq[-1].message[2]
    if by_seq[0].message[2] == 1 and highest == len(by_seq):
        return
    in_order = all(earlier.index < later.index for earlier, later in pairwise(by_seq))
    seqs = [delivery.message[2] for delivery in by_seq]
    delivered = set(seqs)
    known = report.run.numbers[group, sender]
    # One number that is neither sent nor delivered anywhere stands for all such: there may be hundreds of millions.
    gaps = (seq for seq, seen in enumerate(known, 1) if seq != seen)
    unknown = highest if (group, sender) in report.run.partly else next(gaps, highest)
    for seq in sorted({unknown, *known}):
        if seq >= highest:
            break
        message = (group, sender, seq)
        starts = [] if seq in delivered else report.owing.starts(history, message)
        if not starts:
            continue
        later = by_seq[bisect_right(seqs, seq) :]
        if not in_order:
            later.sort(key=lambda delivery: delivery.index)
        judged = [next((delivery for delivery in later if delivery.index > start), None) for start in starts]
        owed = _first_owed(report, history, message, judged)
        if owed is not None:
            send = report.run.sends.get(message)
            told = f"{history.name} delivers {say(owed.message)} without {say(message)}, which it owes"
            report.violation(told, events=[owed, *([send] if send else [])], messages=[message, owed.message])


def _first_owed(report: Report, history: History, message: Message, judged: Sequence[Event | None]) -> Event | None:
    """The first of some deliveries up to which a message that the process never delivers is owed."""
    for delivery in judged:
        if delivery is not None:
            report.cases += 1
            if report.owing.owes(history, message, delivery.index):
                return delivery
    return None


def causal(report: Report) -> None:
    """If ``m -> m'`` and q delivers both, m comes first; if q delivers m' and never m: not if it owes m up to then and ``m ->
    m'`` through m's group alone, and not if it owes m until ``end``.

    "Through m's group alone": every message of the chain, m' too, is one of that group. The last clause alone speaks of ``end``;
    the others are checked in every run. A process with a timing fault owes nothing here: it delivers in order what it delivers,
    and leaves out what came too late for that order."""
    everything = report.owing.causality()
    in_causal_order(report)
    for history in report.run.all:
        if history.timing_fault:
            continue
        blamed: set[Message] = set()
        for group in report.run.groups:
            _no_missing_cause(report, history, report.owing.causality(group), group, blamed)
        if report.until_end and history.end:
            _no_missing_cause(report, history, everything, None, blamed)


def blamed_before_the_end(report: Report) -> int:
    """How many cases ``causal`` leaves out at the end of the run: processes were blamed for them before."""
    found = 0
    for history in report.run.all:
        blamed: set[Message] = set()
        if report.until_end and history.end and not history.timing_fault:
            for group in report.run.groups:
                _no_missing_cause(report, history, report.owing.causality(group), group, blamed)
        found += len(blamed)
    return found


def in_causal_order(report: Report) -> None:
    """The first clause of ``causal``: what a process delivers of two messages, it delivers in the order of cause and effect."""
    for history in report.run.all:
        _in_causal_order(report, history, report.owing.causality())


def _in_causal_order(report: Report, history: History, causality: Causality) -> None:
    """Examines each send once, when it first belongs to the past of a delivery: delivered before that delivery, it is before all
    later ones."""
    looked_at = [0] * len(causality.sends)
    lowest = [next((n for n, send in enumerate(sends, 1) if send.message in history.first), 0) for sends in causality.sends]
    for message, delivery in history.first.items():
        clock = causality.clocks.get(message)
        if clock is None:
            continue
        sender = causality.place[message]
        if 0 < lowest[sender] < clock[sender] or any(
            0 < low <= count for place, (low, count) in enumerate(zip(lowest, clock, strict=True)) if place != sender
        ):
            report.cases += 1
        for place, count in enumerate(clock):
            if count <= looked_at[place]:
                continue
            for send in causality.sends[place][looked_at[place] : count]:
                mine = history.first.get(send.message)
                if mine is not None and mine.index > delivery.index:
                    told = f"{say(send.message)} happened before {say(message)}, and {history.name} delivers it after"
                    report.violation(told, events=[delivery, mine], messages=[send.message, message])
            looked_at[place] = count


def _no_missing_cause(
    report: Report, history: History, causality: Causality, group: GroupId | None, blamed: set[Message]
) -> None:
    """A message that the process never delivers though one that follows it was delivered. With a group, it is judged at
    that delivery, for that group's messages; without, at the end, unless it was blamed already."""
    reach = [0] * len(causality.sends)
    followers = [d for m, d in history.first.items() if group is None or m[0] == group]
    for follower in reversed(followers):
        causality.include(reach, follower.message)
    for place, count in enumerate(reach):
        for number, send in enumerate(causality.sends[place][:count], 1):
            if send.message in history.first or send.message in blamed:
                continue
            starts = report.owing.starts(history, send.message)
            if group is not None:
                judged = [_first_follower(followers, causality, place, number, start) for start in starts]
                owed = _first_owed(report, history, send.message, judged)
            else:
                report.cases += bool(starts)
                owes = report.owing.owes(history, send.message)
                owed = _first_follower(followers, causality, place, number, -1) if owes else None
            if owed is not None:
                blamed.add(send.message)
                until = "" if group is not None else " until the end"
                told = f"{say(send.message)} happened before {say(owed.message)}, which {history.name} delivers"
                told += f"; it never delivers the first, which it owes{until}"
                report.violation(told, events=[send, owed], messages=[send.message, owed.message])


def _first_follower(followers: Sequence[Event], causality: Causality, place: int, number: int, since: int) -> Event | None:
    for follower in followers:
        clock = causality.clocks.get(follower.message)
        if clock is not None and clock[place] >= number and follower.index > since:
            return follower
    return None


def identical(report: Report) -> None:
    """Any two processes that do not crash deliver the messages they have in common in one relative order, group by group."""
    alive = [history for history in report.run.all if not history.crashed]
    for group in report.run.groups:
        compare_orders(report, alive, group)


def total(report: Report) -> None:
    """The same across all groups that two processes share, crashed processes included; and ``causal``."""
    compare_orders(report, report.run.all, None)
    causal(report)


def compare_orders(report: Report, histories: Sequence[History], group: GroupId | None) -> None:
    """Projects each pair of histories on the messages they have in common. If the projections differ, two neighbours
    of the one stand the other way round in the other: they are the witness."""
    orders = [{m: delivery for m, delivery in history.first.items() if group is None or m[0] == group} for history in histories]
    for mine, theirs in combinations(orders, 2):
        indices = [theirs[message].index for message in mine if message in theirs]
        if len(indices) < 2:
            continue
        report.cases += 1
        if indices == sorted(indices):
            continue
        common = [message for message in mine if message in theirs]
        for first, second in pairwise(common):
            if theirs[first].index > theirs[second].index:
                one, other = mine[first], theirs[first]
                told = f"{one.process} delivers {say(first)} before {say(second)}, {other.process} the other way round"
                report.violation(told, events=[one, mine[second], theirs[second], other], messages=[first, second])


def acyclic(report: Report) -> None:
    """The union of all processes' delivery orders has no cycle.

    A cycle needs messages that several processes deliver; they are the cases. For each knot (a strongly connected set of
    messages) one shortest cycle is shown."""
    messages = dict.fromkeys(message for history in report.run.all for message in history.first)
    shared = [message for message in messages if len(report.run.deliveries_of(message)) > 1]
    report.cases += len(shared)
    kept = set(shared)
    after: dict[Message, dict[Message, History]] = {message: {} for message in shared}
    for history in report.run.all:
        # A message that one process alone delivers lies on no cycle that does not exist without it.
        for first, second in pairwise([m for m in history.first if m in kept]):
            after[first].setdefault(second, history)
    for knot in _knots(after):
        _show_cycle(report, knot, after)


def _knots(after: dict[Message, dict[Message, History]]) -> list[list[Message]]:
    """The strongly connected components with more than one message (Tarjan's algorithm, without recursion)."""
    number: dict[Message, int] = {}
    low: dict[Message, int] = {}
    stack: list[Message] = []
    waiting: set[Message] = set()
    knots: list[list[Message]] = []
    for root in after:
        if root in number:
            continue
        path = [(root, iter(after[root]))]
        while path:
            message, following = path[-1]
            if message not in number:
                number[message] = low[message] = len(number)
                stack.append(message)
                waiting.add(message)
            deeper = next((m for m in following if m not in number or m in waiting), None)
            if deeper is not None:
                if deeper in number:
                    low[message] = min(low[message], number[deeper])
                else:
                    path.append((deeper, iter(after[deeper])))
                continue
            path.pop()
            if path:
                low[path[-1][0]] = min(low[path[-1][0]], low[message])
            if low[message] == number[message]:
                knot = [stack.pop()]
                while knot[-1] != message:
                    knot.append(stack.pop())
                waiting.difference_update(knot)
                if len(knot) > 1:
                    knots.append(knot)
    return knots


def _show_cycle(report: Report, knot: list[Message], after: dict[Message, dict[Message, History]]) -> None:
    ordered = sorted(knot, reverse=True)  # of those that are delivered at the same time, the last one, however the knot was found
    start = min(ordered, key=lambda m: min(report.run.when(d.place) for d in report.run.deliveries_of(m)))
    cycle = _shortest_cycle(start, set(knot), after)
    # Two steps at one process are one step at it: what is left are the messages where the witness changes.
    steps = [(first, second, after[first][second]) for first, second in pairwise(cycle)]
    merged = [steps[0]]
    for first, second, history in steps[1:]:
        if merged[-1][2] is history:
            merged[-1] = (merged[-1][0], second, history)
        else:
            merged.append((first, second, history))
    if len(merged) > 1 and merged[0][2] is merged[-1][2]:
        merged[0] = (merged[-1][0], merged[0][1], merged[0][2])
        merged.pop()
    clauses = [f"{history.name} delivers {say(first)} before {say(second)}" for first, second, history in merged]
    told, messages = "delivery orders form a cycle: " + ", ".join(clauses), [first for first, _, _ in merged]
    events = [history.first[m] for first, second, history in merged for m in (first, second)]
    report.violation(told, events=events, messages=messages)


def _shortest_cycle(start: Message, knot: set[Message], after: dict[Message, dict[Message, History]]) -> list[Message]:
    """A shortest way from a message of the knot back to itself, breadth first."""
    came_from: dict[Message, Message] = {}
    frontier = [start]
    while frontier:
        reached: list[Message] = []
        for message in frontier:
            for following in after[message]:
                if following == start:
                    way = [start, message]
                    while way[-1] != start:
                        way.append(came_from[way[-1]])
                    return way[::-1]
                if following in knot and following not in came_from:
                    came_from[following] = message
                    reached.append(following)
        frontier = reached
    raise AssertionError("a message of a knot lies on a cycle")


def prompt(report: Report) -> None:
    """No delivery waited (``block``, with the message that waits) without a causal predecessor missing.

    A predecessor is missing if it is not yet delivered there and either will be or is owed; one of a group that the
    process is not in is no reason to wait. Where the trace has a global clock, waiting on after the last missing
    predecessor was delivered counts as well."""
    causality = report.owing.causality()
    for history in report.run.all:
        settled = [0] * len(causality.sends)
        for block in history.blocks:
            if block.message in causality.clocks:
                report.cases += 1
                for place, sends in enumerate(causality.sends):
                    # Past the sends that it has delivered, or neither delivers nor can owe: later blocks need not examine them.
                    while settled[place] < len(sends):
                        message = sends[settled[place]].message
                        mine = history.first.get(message)
                        if mine.index > block.index if mine is not None else report.owing.starts(history, message):
                            break
                        settled[place] += 1
                _waited_for_something(report, history, causality, settled, block)


def _waited_for_something(report: Report, history: History, causality: Causality, settled: Sequence[int], block: Event) -> None:
    missing: list[Message] = []
    for place, count in enumerate(causality.clocks[block.message]):
        for message in (send.message for send in causality.sends[place][settled[place] : count]):
            mine = history.first.get(message)
            is_missing = mine.index > block.index if mine is not None else report.owing.owes(history, message, block.index)
            if is_missing and message != block.message:
                missing.append(message)
    judge_wait(report, history, block, missing)


def judge_wait(report: Report, history: History, block: Event, missing: Sequence[Message]) -> None:
    """``prompt`` for one message that waited, given those of its predecessors that were missing."""
    delivery = history.first.get(block.message)
    if not missing:
        told = f"{history.name} lets {say(block.message)} wait although nothing that happened before it is missing"
        report.violation(told, events=[block, *([delivery] if delivery else [])], messages=[block.message])
        return
    last = max((history.first[m] for m in missing if m in history.first), key=lambda d: d.index, default=None)
    if delivery is None or last is None or any(m not in history.first for m in missing):
        return
    times = report.run.columns.true_time
    freed, ended = times[last.row], times[delivery.row]
    if freed is not None and ended is not None and freed < ended:
        told = f"{history.name} lets {say(block.message)} wait on after {say(last.message)}, the last that it waited for"
        report.violation(told, events=[block, last, delivery], messages=[block.message, last.message])
