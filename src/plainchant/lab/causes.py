"""What the certificates prove about causes: ``causal`` where processes are in several groups or the order is only causal, and
``prompt``.

Theory of operation
-------------------
Two ways, and each counts the cases that the reference verifier would have examined.

**By one order** (:func:`by_one_order`), where the delivery orders of all processes together are known to have no cycle
(``acyclic``), by ranks or otherwise. Every process delivers all that it sends, after sending it, in the order in which it sent
it, whatever the groups. So what it sends or delivers before it sends m, it delivers before m: happened-before is made of
delivery orders, and nobody can deliver against it without a cycle. Nobody lacks a message that it could owe. What is left to be
told is a number: of the first messages that a process delivers of a sender and group, how many have something before them that
the same process delivers. For that, every process's knowledge is followed as a set of processes ("something that q delivers
happened before"), from the beginning until it is everybody, which is soon.

**By clocks** (:class:`Clocks`), for orders that are only causal. A vector clock a *message*, not an event: one row of a matrix of
32-bit integers, made of the rows of what the sender delivered since its last send. Then every process q is looked at by
columns: of r's messages up to the one that a clock names, where does q deliver the last? That must be before the message with
that clock. Everything but the making of a row is array arithmetic. What q lacks and could owe must lie beyond all that it
delivers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from ..trace.reference.facts import History, Run
from .columns import Ints, stable_order, starts_of
from .evidence import Evidence, Place, Range
from .order import Doubtful
from .woven import Woven

_AT_ONCE = 1 << 20
"""So many numbers of clocks are looked at together."""


def by_one_order(evidence: Evidence, woven: Woven) -> int:
    """Of the first messages that processes deliver of each sender and group, how many have a cause that they deliver too;
    Doubtful if somebody does not deliver what it sent as it sent it, or lacks something. That delivery orders have no cycle, and
    that everybody delivers ranges of what was sent, after sending it if it is its own, is known."""
    if not are_recorded(evidence):
        raise Doubtful
    run = evidence.facts
    for history in run.all:
        strand = woven.strand(history.name)
        sent = strand.groups[strand.senders == 0]
        own = woven.own_code(history.name)
        if not np.array_equal(sent, strand.groups[strand.senders == own] if own else sent[:0]):
            raise Doubtful
        if next(_lacking(evidence, history), None) is not None:
            raise Doubtful
    return _Knowledge(evidence, woven).first_with_a_cause()


def are_recorded(evidence: Evidence) -> bool:
    """Whether of everything that is delivered there is a ``send``."""
    ranges = evidence.ranges
    return ranges is not None and all(
        high <= evidence.sent_up_to(sender, group)
        for (_, group), by_sender in ranges.items()
        for sender, (_, high) in by_sender.items()
    )


def _lacking(evidence: Evidence, history: History) -> Iterator[tuple[str, str, int]]:
    """Messages that a process does not deliver and may owe: the first of each interval of sends, as (group, sender, number)."""
    run, ranges = evidence.facts, evidence.ranges
    if ranges is None:
        raise Doubtful
    for group, senders in _senders(evidence).items():
        if not _can_owe(run, history, group):
            continue
        mine = ranges.get((history.name, group), {})
        for sender in senders:
            low, high = mine.get(sender, (0, -1))
            if (low, high) == (1, evidence.sent_up_to(sender, group)):
                continue
            for span in evidence.sent[sender, group]:
                first = span.low if span.low < low or span.low > high else high + 1
                if first > span.high:
                    continue
                view = evidence.view_at(sender, span.first)
                if view is None or view in history.installed:
                    yield group, sender, first


def _senders(evidence: Evidence) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for sender, group in evidence.sent:
        found.setdefault(group, []).append(sender)
    return found


def _can_owe(run: Run, history: History, group: str) -> bool:
    """Whether a process can come to owe a message of a group at all."""
    if group in run.viewed:
        return bool(history.views.get(group))
    if group in run.joined:
        return bool(history.stays.get(group))
    return run.is_ever_member(history, group)


# --- by one order -----------------------------------------------------------------------------------------------------


class _Walker:
    """A process while its history is followed."""

    def __init__(self, name: str, rows: Iterator[tuple[int, int]]) -> None:
        self.name = name
        self.rows = rows
        self.next: tuple[int, int] | None = next(rows, None)
        self.knows = 0
        """A bit for each process that delivers something which happened before, or which this one just sent."""
        self.sent: dict[int, int] = {}
        self.wanted: dict[int, int] = {}
        """By group: it has to be followed until it has sent so many."""
        self.delivered: dict[tuple[int, int], int] = {}


class _Knowledge:
    """Follows what processes know, as sets of those who deliver some of it too."""

    def __init__(self, evidence: Evidence, woven: Woven) -> None:
        ranges = evidence.ranges
        if ranges is None:
            raise Doubtful
        self._woven = woven
        places = {history.name: place for place, history in enumerate(evidence.facts.all)}
        groups = {name: place for place, name in enumerate(woven.groups)}
        self._receivers: dict[tuple[int, str], list[tuple[Range, int]]] = {}
        """By group and sender: who delivers which of its messages, as a bit."""
        self._ranges: dict[str, dict[tuple[int, int], int]] = {}
        """By process, then by group and code of the sender: the first number that it delivers."""
        for (process, group), by_sender in ranges.items():
            for sender, mine in by_sender.items():
                place = groups[group]
                self._receivers.setdefault((place, sender), []).append((mine, 1 << places[process]))
                self._ranges.setdefault(process, {})[place, woven.own_code(sender)] = mine[0]
        self._walkers = {name: _Walker(name, self._rows(name)) for name in places}
        self._everybody = _everybody(evidence, places)
        self._with: dict[tuple[int, str], list[int]] = {}
        """By group and sender: what is known with each of its messages, as far as they were reached."""
        self._before: dict[tuple[int, str, int], int] = {}
        """By group, sender and number: what was known before it was sent."""

    def _rows(self, process: str) -> Iterator[tuple[int, int]]:
        strand = self._woven.strand(process)
        for first in range(0, len(strand.groups), 1024):
            part = slice(first, first + 1024)
            yield from zip(strand.groups[part].tolist(), strand.senders[part].tolist(), strict=True)

    def first_with_a_cause(self) -> int:
        firsts: dict[tuple[int, str, int], int] = {}
        """By message: those who deliver it as the first of its sender and group."""
        for (group, sender), receivers in self._receivers.items():
            for (low, _), bit in receivers:
                firsts[group, sender, low] = firsts.get((group, sender, low), 0) | bit
        for group, sender, low in firsts:
            wanted = self._walkers[sender].wanted
            wanted[group] = max(low, wanted.get(group, 0))
        while any([self._advance(walker) for walker in self._walkers.values()]):
            continue
        found = 0
        for (group, sender, low), bits in firsts.items():
            if low <= self._walkers[sender].sent.get(group, 0):
                found += (self._before[group, sender, low] & bits).bit_count()
            elif self._is_full(self._walkers[sender]):
                found += bits.bit_count()
            else:
                raise Doubtful
        return found

    def _is_full(self, walker: _Walker) -> bool:
        return walker.knows == self._everybody[walker.name]

    def _advance(self, walker: _Walker) -> bool:
        """Follows a process as far as is wanted and others have been followed; returns whether anything came of it."""
        name, moved = walker.name, False
        own = self._woven.own_code(name)
        while any(walker.sent.get(group, 0) < number for group, number in walker.wanted.items()) and not self._is_full(walker):
            if walker.next is None:
                return moved
            group, code = walker.next
            if code == 0:
                number = walker.sent[group] = walker.sent.get(group, 0) + 1
                self._before[group, name, number] = walker.knows
                for (low, high), bit in self._receivers.get((group, name), ()):
                    if low <= number <= high:
                        walker.knows |= bit
                self._with.setdefault((group, name), []).append(walker.knows)
            elif code != own:
                sender = self._woven.senders[code - 1]
                number = walker.delivered.get((group, code), self._ranges[name][group, code] - 1) + 1
                known = self._with.get((group, sender), ())
                if number <= len(known):
                    walker.knows |= known[number - 1]
                else:
                    other = self._walkers[sender]
                    if not self._is_full(other):
                        asked = number > other.wanted.get(group, 0)
                        other.wanted[group] = max(number, other.wanted.get(group, 0))
                        return moved or asked
                    walker.knows |= other.knows
                walker.delivered[group, code] = number
            walker.next = next(walker.rows, None)
            moved = True
        return moved


def _everybody(evidence: Evidence, places: Mapping[str, int]) -> dict[str, int]:
    """By process: those who deliver anything, among all whom its groups connect it with."""
    delivering = {process for process, _ in evidence.delivered}
    together: dict[str, int] = {}
    connected: dict[int, set[str]] = {}
    for number, (process, groups) in enumerate(evidence.participates.items()):
        mine = {number: {process}}
        connected[number] = {process}
        for group in groups:
            other = together.get(group, number)
            if other not in mine:
                mine[other] = connected.pop(other)
            together[group] = number
        connected[number] = set().union(*mine.values())
        for group, other in together.items():
            if other in mine:
                together[group] = number
    found: dict[str, int] = {}
    for processes in connected.values():
        bits = sum(1 << places[process] for process in processes & delivering)
        found.update(dict.fromkeys(processes, bits))
    return {process: found.get(process, 0) for process in places}


# --- by clocks --------------------------------------------------------------------------------------------------------


class Clocks:
    """The vector clocks of a run's messages; Doubtful if they cannot be told from the certificates.

    A message is an integer: messages of one sender are consecutive, in the order in which it sent them, whatever the group.
    """

    def __init__(self, evidence: Evidence, woven: Woven) -> None:
        if not are_recorded(evidence):
            raise Doubtful
        self._evidence = evidence
        self._run = evidence.facts
        self._woven = woven
        self._names = [history.name for history in self._run.all]
        self._places = {name: place for place, name in enumerate(self._names)}
        strands = [woven.strand(name) for name in self._names]
        self._counts = [int(np.count_nonzero(strand.senders == 0)) for strand in strands]
        self._bases: list[int] = [0, *np.cumsum(self._counts).tolist()]
        self._size = self._bases[-1]
        self._told: dict[Place, Ints] = {}
        """By sender and group: its messages, in the order of their numbers."""
        for name, strand, base in zip(self._names, strands, self._bases, strict=False):
            sent = strand.groups[strand.senders == 0]
            for group in np.unique(sent).tolist():
                self._told[name, woven.groups[group]] = np.flatnonzero(sent == group) + base
        self._owner: NDArray[np.int32] = np.repeat(np.arange(len(self._names), dtype=np.int32), self._counts)
        self._delivered = [self._messages(name, *strand) for name, strand in zip(self._names, strands, strict=True)]
        """By process: where in its strand a delivery stands, and of which message."""
        self._clocks: NDArray[np.int32] = np.zeros((self._size, len(self._names)), np.int32)
        self._fill([np.flatnonzero(strand.senders == 0) for strand in strands])
        self._last: dict[int, tuple[Ints, Ints]] = {}

    def _messages(self, name: str, groups: Ints, senders: Ints) -> tuple[Ints, Ints]:
        ranges = self._evidence.ranges
        if ranges is None:
            raise Doubtful
        at = np.flatnonzero(senders != 0)
        width = len(self._woven.senders) + 1
        keys = groups[at].astype(np.int64) * width + senders[at]
        order = stable_order(keys, width * len(self._woven.groups))
        messages = np.empty(len(at), np.int64)
        starts = starts_of(np.diff(keys[order]) != 0) if len(at) else np.zeros(0, np.int64)
        for a, b in zip(starts.tolist(), [*starts[1:].tolist(), len(at)], strict=False):
            group, code = divmod(int(keys[order[a]]), width)
            sender, named = self._woven.senders[code - 1], self._woven.groups[group]
            low = ranges[name, named][sender][0]
            messages[order[a:b]] = self._told[sender, named][low - 1 : low - 1 + b - a]
        return at, messages

    def _fill(self, sends: list[Ints]) -> None:
        """Makes the clocks, following each process as far as the messages that it delivers have theirs."""
        needs = [self._needs(place, at) for place, at in enumerate(sends)]
        clocks, owner = self._clocks, self._owner.tolist()
        upto = self._bases[:-1]
        waiting: dict[int, list[int]] = {}
        work = list(range(len(self._names)))
        while work:
            place = work.pop()
            messages, listed, bounds = needs[place]
            end = self._bases[place + 1]
            while upto[place] < end:
                message = upto[place]
                number = message - self._bases[place]
                a, b = bounds[number], bounds[number + 1]
                missing = next((other for other in listed[a:b] if other >= upto[owner[other]]), None)
                if missing is not None:
                    waiting.setdefault(missing, []).append(place)
                    break
                mine = clocks[message]
                if b - a > 1:
                    np.maximum.reduce(clocks.take(messages[a:b], axis=0), axis=0, out=mine)
                elif b > a:
                    mine[:] = clocks[listed[a]]
                if number:
                    np.maximum(mine, clocks[message - 1], out=mine)
                mine[place] = number + 1
                upto[place] = message + 1
                if message in waiting:
                    work += waiting.pop(message)
        if upto != self._bases[1:]:
            raise Doubtful  # messages that each happened before the other

    def _needs(self, place: int, sends: Ints) -> tuple[Ints, list[int], list[int]]:
        """What a process delivers before each of its sends and after the one before: of each sender the last. And where in that
        list the part for each send begins."""
        at, messages = self._delivered[place]
        segment = np.searchsorted(sends, at)
        kept = (segment < len(sends)) & (self._owner[messages] != place)
        segment, messages = segment[kept], messages[kept]
        keys = (segment * len(self._names) + self._owner[messages]) * self._size + messages
        keys.sort()
        of_sender = keys // max(1, self._size)
        last = np.append(of_sender[1:] != of_sender[:-1], True)[: len(keys)]
        chosen = keys[last] % max(1, self._size)
        bounds = np.searchsorted(of_sender[last] // len(self._names), np.arange(len(sends) + 1))
        return chosen, chosen.tolist(), bounds.tolist()

    # --- what is asked --------------------------------------------------------------------------------------------------

    def in_causal_order(self) -> int:
        """How many deliveries have a cause that the same process delivers; Doubtful if one comes after them, or if a process
        lacks a cause that it may owe."""
        cases = 0
        for place, history in enumerate(self._run.all):
            at, last = self._last_causes(place)
            if (last >= at).any():
                raise Doubtful
            cases += int(np.count_nonzero(last >= 0))
            for group, sender, number in _lacking(self._evidence, history):
                known = self._clocks[self._delivered[place][1], self._places[sender]].max(initial=0)
                if self._told[sender, group][number - 1] < self._bases[self._places[sender]] + known:
                    raise Doubtful
        return cases

    def _last_causes(self, place: int) -> tuple[Ints, Ints]:
        """Where in its strand a process delivers each message, and where the last of the causes of that message; -1 if it
        delivers none."""
        if place not in self._last:
            self._last[place] = self._find_last_causes(place)
        return self._last[place]

    def _find_last_causes(self, place: int) -> tuple[Ints, Ints]:
        at, messages = self._delivered[place]
        where = np.full(self._size, -1, np.int64)
        where[messages] = at
        owners = self._owner[messages]
        columns = np.unique(owners)
        parts: list[Ints] = []
        for column in columns.tolist():
            own = np.maximum.accumulate(where[self._bases[column] : self._bases[column + 1]])
            parts += [np.array([-1]), own]
        reached = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        """Per sender and number: where the last of so many of its messages is delivered."""
        offsets = np.cumsum([0, *(self._counts[column] + 1 for column in columns.tolist())])[:-1]
        own_column = np.searchsorted(columns, owners)
        last = np.empty(len(at), np.int64)
        step = max(1, _AT_ONCE // max(1, len(columns)))
        for first in range(0, len(at), step):
            part = slice(first, first + step)
            known = self._clocks[messages[part, None], columns] + offsets
            known[np.arange(len(known)), own_column[part]] -= 1
            last[part] = reached[known].max(axis=1)
        return at, last

    def waited_for_a_cause(self) -> int:
        """How many ``block`` rows there are about messages that were sent; Doubtful unless each of these messages has a cause
        that is delivered later, and is delivered in the same moment as the last."""
        cases = 0
        for place, history in enumerate(self._run.all):
            if not history.blocks:
                continue
            stops = self._woven.stops(history.name)
            at, last = self._last_causes(place)
            number_of = np.full(self._size, -1, np.int64)
            number_of[self._delivered[place][1]] = np.arange(len(at))
            moments = np.cumsum(self._woven.moved(history.name))
            for block in history.blocks:
                group, sender, number = block.message
                told = self._told.get((sender, group), ())
                if not 1 <= number <= len(told):
                    continue
                cases += 1
                delivery = number_of[told[number - 1]]
                if delivery < 0 or not stops[block.index] <= last[delivery] < at[delivery]:
                    raise Doubtful
                if moments[last[delivery]] != moments[at[delivery]]:
                    raise Doubtful
        return cases
