"""What the certificates prove about causes: ``causal``, where processes are in several groups or the order is only causal, and
``prompt``. Both ways count the cases that the reference verifier would have examined.

**By one order** (:func:`by_one_order`), where the delivery orders of all processes together are known to have no cycle
(``acyclic``), by ranks or otherwise. Every process delivers all that it sends, after sending it, in the order in which it sent
it, whatever the groups. So what it sends or delivers before it sends m, it delivers before m: happened-before is made of delivery
orders, and no process can deliver against it without a cycle. No process lacks a message that it could owe. What is left is to
count: of the first messages that a process delivers of a sender and group, how many have something before them that the same
process delivers. For that, the knowledge of every process is followed as a set of processes ("something that q delivers happened
before") until the set is complete, which is soon.

**By clocks** (:class:`Clocks`), for orders that are only causal: a vector clock for each *message*, one row of a matrix of 32-bit
integers, made of the rows of what the sender delivered since its last send. Every process q is then looked at by columns: of r's
messages up to the one that a clock names, where does q deliver the last? That must be before the message with that clock.
Everything but the making of a row is array arithmetic. What q lacks and could owe lies beyond all that it delivers; or q had
parted from its sender before it delivered the first message that follows it in its group, which clocks of that group's messages
alone tell, and does not owe it at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..certificates.columns import Ints, Mask
from ..certificates.evidence import Doubtful, Evidence, Place
from ..certificates.ranges import Range, missing
from ..certificates.records import Sent
from ..certificates.woven import Woven
from ..facts import Event, History, Message, Run, View
from ..owing import Owing

_NONE = np.zeros(0, np.int64)
_PASSES = 10  # after which clocks that grow together are left to the search
_MAX_EARLY = 1_000  # messages that are known before they are sent
_AT_ONCE = 1 << 20  # clock entries that are examined together


def by_one_order(evidence: Evidence, woven: Woven) -> int:
    """Of the first messages that processes deliver of each sender and group, how many have a cause that they deliver too;
    Doubtful if a process does not deliver what it sent in the order of its sends, or lacks something. Known before: delivery
    orders have no cycle, and every process delivers ranges of what was sent, its own messages after sending them."""
    if not are_recorded(evidence):
        raise Doubtful
    run = evidence.facts
    for history in run.all:
        strand = woven.strand(history.name)
        sent = strand.groups[strand.senders == 0]
        own = woven.own_code(history.name)
        if not np.array_equal(sent, strand.groups[strand.senders == own] if own else sent[:0]):
            raise Doubtful
        if next(lacking_of(evidence, history), None) is not None:
            raise Doubtful
    return _Knowledge(evidence, woven).first_with_a_cause()


def are_recorded(evidence: Evidence) -> bool:
    """Whether of everything that is delivered there is a ``send``."""
    for (_, group), by_sender in (evidence.sets or {}).items():
        if any(ranges[-1][1] > evidence.sent_up_to(sender, group) for sender, ranges in by_sender.items()):
            return False
    return evidence.sets is not None


def are_senders_known(evidence: Evidence) -> bool:
    """Whether of every sender all is known that it sent; and no process delivers an own message before it sends that."""
    histories = evidence.facts.histories
    senders = {sender for by_sender in evidence.delivered.values() for sender in by_sender}
    return not evidence.leads and all(sender in histories and not histories[sender].cut for sender in senders)


def _outside(numbers: Range, sent: int) -> Iterator[Range]:
    """The part of a range below 1, and the part beyond what was sent."""
    low, high = numbers
    if low < 1:
        yield low, min(high, 0)
    if high > sent:
        yield max(low, sent + 1), high


class Lacking(NamedTuple):
    """Messages ``low`` to ``high`` that a process does not deliver and may owe, sent in one view, or in none."""

    span: Sent
    view: View | None
    low: int
    high: int


def lacking_of(evidence: Evidence, history: History) -> Iterator[Lacking]:
    run = evidence.facts
    owed = {group for group in run.groups if can_owe(run, history, group)}
    for sender, group in sorted(evidence.sent, key=lambda place: place[1]):
        ranges = evidence.covered.get((history.name, group), {}).get(sender, ())
        if group not in owed or ranges == ((1, evidence.sent_up_to(sender, group)),):
            continue
        for span in evidence.sent[sender, group]:
            view = evidence.view_at(sender, span.first)
            if view is None or view in history.installed:
                yield from (Lacking(span, view, *hole) for hole in missing(ranges, span.low, span.high))


def can_owe(run: Run, history: History, group: str) -> bool:
    """Whether a process can come to owe a message of a group at all."""
    if history.timing_fault:
        return False
    if group in run.viewed:
        return bool(history.views.get(group))
    if group in run.joined:
        return bool(history.stays.get(group))
    return run.is_ever_member(history, group)


class _Walker:
    """A process while its history is followed."""

    def __init__(self, name: str, rows: Iterator[tuple[int, int]]) -> None:
        self.name = name
        self.rows = rows
        self.next: tuple[int, int] | None = next(rows, None)
        self.knows = 0  # a bit for each process that delivers something which happened before, or which this one just sent
        self.sent: dict[int, int] = {}
        self.wanted: dict[int, int] = {}  # by group: how many sends it has to be followed to
        self.delivered: dict[tuple[int, int], int] = {}


class _Knowledge:
    """Follows what processes know, as sets of the processes that deliver some of it too."""

    def __init__(self, evidence: Evidence, woven: Woven) -> None:
        ranges = evidence.ranges
        if ranges is None:
            raise Doubtful
        self._woven = woven
        places = {history.name: place for place, history in enumerate(evidence.facts.all)}
        groups = {name: place for place, name in enumerate(woven.groups)}
        self._receivers: dict[tuple[int, str], list[tuple[Range, int]]] = {}  # by group and sender: ranges, and a receiver's bit
        self._ranges: dict[str, dict[tuple[int, int], int]] = {}  # by process, group and sender's code: its first number
        for (process, group), by_sender in ranges.items():
            for sender, mine in by_sender.items():
                place = groups[group]
                self._receivers.setdefault((place, sender), []).append((mine, 1 << places[process]))
                self._ranges.setdefault(process, {})[place, woven.own_code(sender)] = mine[0]
        self._walkers = {name: _Walker(name, self._rows(name)) for name in places}
        self._all_delivering = _all_delivering(evidence, places)
        self._with: dict[tuple[int, str], list[int]] = {}  # by group and sender: what is known with each message
        self._before: dict[tuple[int, str, int], int] = {}  # by group, sender and number: what was known before it was sent

    def _rows(self, process: str) -> Iterator[tuple[int, int]]:
        strand = self._woven.strand(process)
        for first in range(0, len(strand.groups), 1024):
            part = slice(first, first + 1024)
            yield from zip(strand.groups[part].tolist(), strand.senders[part].tolist(), strict=True)

    def first_with_a_cause(self) -> int:
        firsts: dict[tuple[int, str, int], int] = {}  # by message: those who deliver it as the first of its sender and group
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
        return walker.knows == self._all_delivering[walker.name]

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


def _all_delivering(evidence: Evidence, places: Mapping[str, int]) -> dict[str, int]:
    """By process: the processes that deliver anything, among all that its groups connect it with."""
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


class Wait(NamedTuple):
    """A message that waited, as a place among ``Clocks``, and the last of the causes that the process delivered while it did."""

    history: History
    block: Event
    message: int
    cause: Message | None


class Clocks:
    """The vector clocks of a run's messages; Doubtful if messages each happened before the other. With a group, of its messages
    alone, as if there were no others. Deliveries of what was never sent, and repeated ones, do not count.

    A message is an integer: messages of one sender are consecutive, in the order in which it sent them, whatever the group. What
    has no ``send`` in the trace, because its sender is not observed or was cut, has places after those of all processes, by group
    and sender (``causality`` says why)."""

    def __init__(self, evidence: Evidence, woven: Woven, group: str | None = None, *, settle: bool = False) -> None:
        """``settle``: where messages are delivered before they are sent, let clocks grow until none changes."""
        self._evidence = evidence
        self._run = evidence.facts
        self._woven = woven
        self.group = group
        self._kept: dict[str, Mask] = {}  # by process: which of its deliveries count
        self._names = [history.name for history in self._run.all]
        self._places = {name: place for place, name in enumerate(self._names)}
        strands = [woven.strand(name, group) for name in self._names]
        self.counts = [int(np.count_nonzero(strand.senders == 0)) for strand in strands]
        self.unrecorded = self._unrecorded(group)
        self.counts += [len(numbers) for numbers in self.unrecorded.values()]
        self.bases: list[int] = [0, *np.cumsum(self.counts).tolist()]
        self.size = self.bases[-1]
        self.told: dict[Place, Ints] = {}  # by sender and group: its messages, in the order of their numbers
        for name, strand, base in zip(self._names, strands, self.bases, strict=False):
            sent = strand.groups[strand.senders == 0]
            for place in np.unique(sent).tolist():
                self.told[name, woven.groups[place]] = np.flatnonzero(sent == place) + base
        self.owner: NDArray[np.int32] = np.repeat(np.arange(len(self.counts), dtype=np.int32), self.counts)
        self.delivered = [self._messages(name, group) for name in self._names]  # by process: places in its strand, messages
        self.sends = [np.flatnonzero(strand.senders == 0) for strand in strands]  # by process: places in its strand
        self._add_unrecorded()
        self._clocks: NDArray[np.int32] = np.zeros((self.size, len(self.counts)), np.int32)
        self._fill(settle=settle)
        self._last: dict[int, tuple[Ints, Ints]] = {}
        self._since: dict[Place, Ints] = {}
        self._delivered_in: dict[Place, Ints] = {}

    def _unrecorded(self, only: str | None) -> dict[Place, Ints]:
        """By group and sender: the numbers of what is delivered and has no ``send``, of senders that may have sent it."""
        found: dict[Place, set[int]] = {}
        for (_, group), by_sender in self._evidence.covered.items():
            for sender, ranges in by_sender.items() if only in (None, group) else ():
                history = self._run.histories.get(sender)
                sent = self._evidence.sent_up_to(sender, group)
                if (history is None or history.cut) and (ranges[0][0] < 1 or ranges[-1][1] > sent):
                    beyond = (range(low, high + 1) for each in ranges for low, high in _outside(each, sent))
                    found.setdefault((group, sender), set()).update(*beyond)
        return {key: np.array(sorted(found[key])) for key in sorted(found)}

    def _add_unrecorded(self) -> None:
        """What a cut sender did before its last row comes before what is not recorded of it."""
        for _, sender in self.unrecorded:
            before = _NONE
            if sender in self._places:
                place = self._places[sender]
                before = np.concatenate([self.delivered[place][1], np.arange(self.bases[place], self.bases[place + 1])])
            number = len(self.delivered)
            self.delivered.append((np.arange(len(before)), before))
            self.sends.append(len(before) + np.arange(self.counts[number]))

    def _messages(self, name: str, only: str | None) -> tuple[Ints, Ints]:
        at, found = self._woven.numbered(name, only)
        messages = np.full(len(at), -1, np.int64)
        for group, sender, numbers, places in found:
            told = self.told.get((sender, group), _NONE)
            is_told = (numbers >= 1) & (numbers <= len(told))
            messages[places[is_told]] = told[numbers[is_told] - 1]
            if (group, sender) in self.unrecorded:
                place = len(self._names) + list(self.unrecorded).index((group, sender))
                found_at = np.searchsorted(self.unrecorded[group, sender], numbers[~is_told])
                messages[places[~is_told]] = self.bases[place] + found_at
        kept = messages >= 0
        if self._evidence.sets is None:
            firsts = np.unique(messages, return_index=True)[1]
            is_first = np.zeros(len(at), np.bool_)
            is_first[firsts] = True
            kept &= is_first
        self._kept[name] = kept
        return at[kept], messages[kept]

    def _fill(self, *, settle: bool) -> None:
        """Makes the clocks. Messages that each happened before the other have clocks that grow together."""
        needs = [self._needs(place, settle=settle) for place in range(len(self.counts))]
        early: set[int] = set()  # messages that are known before they are sent
        for _ in range(_PASSES):
            before = self._clocks[sorted(early)]
            known = len(early)
            self._pass(needs, early, settle=settle)
            if len(early) == known and np.array_equal(self._clocks[sorted(early)], before):
                return
        raise Doubtful

    def _pass(self, needs: list[tuple[Ints, list[int], list[int], list[int]]], early: set[int], *, settle: bool) -> None:
        """Follows each process as far as the messages that it delivers have their clocks, and on if it has to. Sends without a
        delivery between them differ in their own numbers only, and are made together."""
        clocks, owner = self._clocks, self.owner.tolist()
        upto = self.bases[:-1]
        waiting: dict[int, list[int]] = {}
        work = list(range(len(self.counts)))
        while work or waiting:
            if not work:
                if not settle or len(early) > _MAX_EARLY:
                    raise Doubtful
                message = max(waiting, key=lambda early: (early - upto[owner[early]], early))  # the furthest ahead of its sender
                early.add(message)
                work = waiting.pop(message)
            place = work.pop()
            messages, listed, bounds, following = needs[place]
            base, end = self.bases[place], self.bases[place + 1]
            while upto[place] < end:
                message = upto[place]
                number = message - base
                a, b = bounds[number], bounds[number + 1]
                missing = next((other for other in listed[a:b] if other >= upto[owner[other]] and other not in early), None)
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
                after = base + following[number]
                own = np.arange(number + 1, after - base + 1)
                clocks[message + 1 : after] = mine
                clocks[message:after, place] = np.maximum(own, mine[place]) if early else own
                upto[place] = after
                for each in range(message, after):
                    if each in waiting:
                        work += waiting.pop(each)

    def _needs(self, place: int, *, settle: bool) -> tuple[Ints, list[int], list[int], list[int]]:
        """What a process delivers before each of its sends and after the one before: of each sender the last. And where in that
        list the part for each send begins, and, for each send, the next one with such a part."""
        (at, messages), sends = self.delivered[place], self.sends[place]
        segment = np.searchsorted(sends, at)
        kept = self.owner[messages] != place
        if settle:  # own messages that are delivered before they are sent
            kept |= messages >= self.bases[place] + segment
        kept &= segment < len(sends)
        segment, messages = segment[kept], messages[kept]
        keys = (segment * len(self.counts) + self.owner[messages]) * self.size + messages
        keys.sort()
        of_sender = keys // max(1, self.size)
        last = np.append(of_sender[1:] != of_sender[:-1], True)[: len(keys)]
        chosen = keys[last] % max(1, self.size)
        bounds = np.searchsorted(of_sender[last] // len(self.counts), np.arange(len(sends) + 1))
        heads = np.append(np.flatnonzero(np.diff(bounds)), len(sends))
        following = heads[np.searchsorted(heads, np.arange(len(sends)), side="right")]
        return chosen, chosen.tolist(), bounds.tolist(), following.tolist()

    def in_causal_order(self, owing: Owing, *, until_end: bool) -> int:
        """How many deliveries have a cause that the same process delivers, and how many causes processes lack that they might
        have owed; Doubtful if a cause comes after what follows it, or a process lacks one that it owes."""
        cases = 0
        alone = len(self._run.groups) == 1
        by_group: dict[str, Clocks] = {}
        for place, history in enumerate(self._run.all):
            at, last = self.last_causes(place)
            if (last >= at).any():
                raise Doubtful
            cases += int(np.count_nonzero(last >= 0))
            for lacking in lacking_of(self._evidence, history):
                count = self.reached(place, lacking)
                if not count:
                    continue  # what is not reached through all groups is not through one
                if lacking.view is None:
                    raise Doubtful
                group = lacking.span.group
                least, most, has_parted = self._missed(history, lacking, owing)
                if not alone and not (has_parted and least == most):
                    if group not in by_group:
                        by_group[group] = Clocks(self._evidence, self._woven, group)
                    _, most, has_parted = by_group[group]._missed(history, lacking, owing)
                if not has_parted:
                    raise Doubtful
                cases += most
                if until_end and history.end:
                    if owing.owes(history, (group, lacking.span.process, lacking.span.low)):
                        raise Doubtful
                    cases += count
        return cases

    def reached(self, place: int, lacking: Lacking) -> int:
        """How many of some messages that a process lacks happened before anything that it delivers."""
        sender = self._places[lacking.span.process]
        known = self._clocks[self.delivered[place][1], sender].max(initial=0)
        told = self.told[lacking.span.process, lacking.span.group][lacking.low - 1 : lacking.high]
        return int(np.count_nonzero(told < self.bases[sender] + known))

    def _missed(self, history: History, lacking: Lacking, owing: Owing) -> tuple[int, int, bool]:
        """How many of some messages, that a process lacks, of a view that it installed, happened before something that it
        delivers since in their group, through that group alone: at least and at most; and whether it had parted from their sender
        by the first of these deliveries. From then on it owes none of them.

        The least is what the sender's own later messages tell. The most is exact where these clocks are of one group."""
        place, sender, view = history.place, self._places[lacking.span.process], lacking.view
        assert view is not None
        group = lacking.span.group
        since = self.segments(history.name, group)
        later = since > history.installed[view]
        messages = self.followers(place, group)[later]
        told = self.told[lacking.span.process, group][lacking.low - 1 : lacking.high]
        reached = np.maximum.accumulate(self._clocks[messages, sender])
        first = np.searchsorted(reached, told - self.bases[sender] + 1)
        most = int(np.count_nonzero(first < len(reached)))
        if not most:
            return 0, 0, True
        own = messages[self.owner[messages] == sender].max(initial=-1)
        at = int(since[later][first[0]])
        has_parted = owing.have_parted(history, lacking.span.process, view, lacking.span.first, at)
        return int(np.count_nonzero(told < own)), most, has_parted

    def followers(self, place: int, group: str) -> Ints:
        """What a process delivers of a group, in order."""
        key = self._names[place], group
        if key not in self._delivered_in:
            at, messages = self.delivered[place]
            code = self._woven.groups.index(group)
            self._delivered_in[key] = messages[self._woven.strand(key[0], self.group).groups[at] == code]
        return self._delivered_in[key]

    def segments(self, process: str, group: str) -> Ints:
        """For each delivery of a process in a group, the index of a row from which up to it the process installs no view of the
        group and leaves none."""
        if (process, group) not in self._since:
            tapes = [tape for part in self._evidence.slices for tape in part.tapes if tape[:2] == (process, group)]
            tapes.sort(key=lambda tape: tape.first)
            parts = [np.full(np.count_nonzero(tape.codes), tape.first, np.int64) for tape in tapes]
            at, _ = self._woven.numbered(process, self.group)
            of_group = self._woven.strand(process, self.group).groups[at] == self._woven.groups.index(group)
            self._since[process, group] = np.concatenate(parts)[self._kept[process][of_group]] if parts else _NONE
        return self._since[process, group]

    def last_causes(self, place: int) -> tuple[Ints, Ints]:
        """Where in its strand a process delivers each message, and where the last of the causes of that message; -1 if it
        delivers none."""
        if place not in self._last:
            self._last[place] = self._find_last_causes(place)
        return self._last[place]

    def _find_last_causes(self, place: int) -> tuple[Ints, Ints]:
        at, messages = self.delivered[place]
        where = np.full(self.size, -1, np.int64)
        where[messages] = at
        owners = self.owner[messages]
        columns = np.unique(owners)
        parts: list[Ints] = []
        for column in columns.tolist():
            own = np.maximum.accumulate(where[self.bases[column] : self.bases[column + 1]])
            parts += [np.array([-1]), own]
        reached = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        """Per sender and number: where the last of its messages up to that number is delivered."""
        offsets = np.cumsum([0, *(self.counts[column] + 1 for column in columns.tolist())])[:-1]
        own_column = np.searchsorted(columns, owners)
        last = np.empty(len(at), np.int64)
        step = max(1, _AT_ONCE // max(1, len(columns)))
        for first in range(0, len(at), step):
            part = slice(first, first + step)
            known = self._clocks[messages[part, None], columns] + offsets
            known[np.arange(len(known)), own_column[part]] -= 1
            last[part] = reached[known].max(axis=1)
        return at, last

    def place_of(self, process: str) -> int:
        """The column of a process's messages."""
        return self._places[process]

    def first_with(self, messages: Ints, sender: int, numbers: Ints) -> Ints:
        """Where in a history's deliveries the first stands that has each of some messages of a sender in its past, or is it; the
        length of the history where none has."""
        reached = np.maximum.accumulate(self._clocks[messages, sender])
        return np.searchsorted(reached, numbers)

    def known(self, messages: Ints, sender: int) -> int:
        """How many messages of a sender are in the past of some messages."""
        return int(self._clocks[messages, sender].max(initial=0))

    def first_known(self, message: int, sender: int, numbers: Ints) -> Ints:
        """By which deliveries the sender of a message first knew of some others, before it sent that one."""
        place = int(self.owner[message])
        at, messages = self.delivered[place]
        before = messages[: int(np.searchsorted(at, self.sends[place][message - self.bases[place]]))]
        return before[self.first_with(before, sender, numbers)]

    def path(self, sender: int, number: int, effect: int) -> list[int]:
        """Messages by which what follows from a message of a sender came to know of it, last first, even where deliveries come
        before sends."""
        carrying = np.array(self.bases[1:])  # by process: its first message that knows of it
        carrying[sender] = self.bases[sender] + number - 1
        learnt: list[tuple[int, int, int]] = []  # process, its first message since, and from which one it learnt
        moved = True
        while moved:
            moved = False
            for place, (at, messages) in enumerate(self.delivered):
                knowing = np.flatnonzero(messages >= carrying[self.owner[messages]])[:1]
                since = self.bases[place] + np.searchsorted(self.sends[place], at[knowing])
                if len(knowing) and since[0] < carrying[place]:
                    carrying[place], moved = since[0], True
                    learnt.append((place, int(since[0]), int(messages[knowing[0]])))
        found: list[int] = []
        while self.owner[effect] != sender or effect < self.bases[sender] + number - 1:
            effect = next(message for place, since, message in learnt if place == self.owner[effect] and since <= effect)
            found.append(effect)
        return found

    def waits(self) -> tuple[int, list[Wait]]:
        """How many ``block`` rows there are about messages that were sent; and those about messages that have no cause that is
        delivered later, or are not delivered in the same moment as the last."""
        cases, found = 0, list[Wait]()
        for place, history in enumerate(self._run.all):
            if not history.blocks:
                continue
            stops = self._woven.stops(history.name)
            at, last = self.last_causes(place)
            number_of = np.full(self.size, -1, np.int64)
            number_of[self.delivered[place][1]] = np.arange(len(at))
            moments = np.cumsum(self._woven.moved(history.name))
            for block in history.blocks:
                group, sender, number = block.message
                told = self.told.get((sender, group), ())
                if not 1 <= number <= len(told):
                    continue
                cases += 1
                delivery, since = number_of[told[number - 1]], stops[block.index]
                cause = last[delivery] if delivery >= 0 else self._last_cause_of(place, int(told[number - 1]))
                if delivery >= 0 and since <= cause < at[delivery] and moments[cause] == moments[at[delivery]]:
                    continue
                named = self._named(int(self.delivered[place][1][np.searchsorted(at, cause)])) if cause >= since else None
                found.append(Wait(history, block, int(told[number - 1]), named))
        return cases, found

    def _last_cause_of(self, place: int, message: int) -> int:
        """Where in its strand a process delivers the last of the causes of a message that it does not deliver; -1: nowhere."""
        at, messages = self.delivered[place]
        owners = self.owner[messages]
        number = messages - np.array(self.bases)[owners]
        return int(at[number < self._clocks[message, owners]].max(initial=-1))

    def _named(self, message: int) -> Message:
        sender = self._names[self.owner[message]]
        for (name, group), told in self.told.items():
            number = int(np.searchsorted(told, message)) if name == sender else len(told)
            if number < len(told) and told[number] == message:
                return group, sender, number + 1
        raise AssertionError("each message has a group")

    def lacks_a_cause(self, wait: Wait) -> bool:
        """Whether a process may owe a cause of a message, and does not deliver it."""
        if wait.history.timing_fault:
            return True  # what it lacks is not followed here
        for lacking in lacking_of(self._evidence, wait.history):
            sender = self._places[lacking.span.process]
            first = self.told[lacking.span.process, lacking.span.group][lacking.low - 1]
            if first < self.bases[sender] + self._clocks[wait.message, sender]:
                return True
        return False
