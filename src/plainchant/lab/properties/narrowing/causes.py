"""What ``causal`` blames in runs of any kind, by the clocks of all messages.

The clocks of the whole run (``order.causes``) tell which deliveries come before one of their causes, and which messages
processes lack though something that follows from them was delivered. For each such pair of a cause and the first delivery that
follows from it, a *chain* is doubtful as well: from message to message, the first delivery by which each sender knew of the
cause. With that, the cause is before its effect among the doubtful messages alone; and nothing is before another there that is
not so in the run. So the doubtful messages show the same violations, with the same witnesses. Cases are counted in the whole
run.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

import numpy as np

from ..certificates.columns import Ints
from ..certificates.evidence import Doubtful
from ..certificates.woven import Woven
from ..facts import History
from ..order.causes import Clocks, Lacking, can_owe, lacking_of
from ..owing import Owing
from .doubts import Doubts
from .strands import Strands

_MAX_CHAINS: Final = 300  # chains that are followed one by one
_MAX_HOLES: Final = 5_000  # stretches that processes lack; more take longer one by one than a search


class Causes:
    """The causes of a run's deliveries; Doubtful where clocks do not tell them as the reference check does."""

    def __init__(self, strands: Strands, doubts: Doubts, woven: Woven, *, until_end: bool) -> None:
        evidence = self._evidence = strands.evidence
        run = evidence.facts
        lacks = [list(islice(lacking_of(evidence, history), _MAX_HOLES + 1)) for history in run.all]
        if sum(map(len, lacks)) > _MAX_HOLES:
            raise Doubtful
        self._strands, self._doubts, self._woven = strands, doubts, woven
        self._owing = Owing(run)
        self._chains = 0
        self._clocks: dict[str | None, Clocks] = {None: Clocks(evidence, woven, settle=True)}
        self._names: dict[str | None, Ints] = {}
        self.cases = 0  # but for what the reference check does not count at the end because it was blamed before
        for place, history in enumerate(run.all):
            at, last = self._clocks[None].last_causes(place)
            self.cases += int(np.count_nonzero(last >= 0))
            if (last >= at).any():
                self._come_late(place)
            self._lack_unrecorded(history)
            for lacking in lacks[place]:
                self._misses(history, lacking, until_end=until_end and history.end)

    def _of(self, group: str) -> Clocks:
        if len(self._strands.groups) == 1:
            return self._clocks[None]
        if group not in self._clocks:
            self._clocks[group] = Clocks(self._evidence, self._woven, group, settle=True)
        return self._clocks[group]

    def _doubt(self, clocks: Clocks, messages: list[int]) -> None:
        """Messages as clocks number them."""
        names = self._names.get(clocks.group)
        if names is None:
            names = self._names[clocks.group] = np.zeros(clocks.size, np.int64)
            for (sender, group), told in clocks.told.items():
                names[told] = self._strands.of((group, sender), np.arange(1, len(told) + 1))
            for number, (key, numbers) in enumerate(clocks.unrecorded.items(), len(self._strands.all)):
                names[clocks.bases[number] : clocks.bases[number + 1]] = self._strands.of(key, numbers)
        self._doubts.add(names[messages])

    def _come_late(self, place: int) -> None:
        """Causes that a process delivers after what follows from them, each with the first delivery that does."""
        clocks = self._clocks[None]
        _, messages = clocks.delivered[place]
        where = np.full(clocks.size, -1, np.int64)
        where[messages] = np.arange(len(messages))
        for sender in range(len(clocks.counts)):
            mine = where[clocks.bases[sender] : clocks.bases[sender + 1]]
            first = clocks.first_with(messages, sender, np.arange(1, len(mine) + 1))
            late = np.flatnonzero(mine > first)
            for at in np.unique(first[late]).tolist():
                self._chain(clocks, sender, late[first[late] == at] + 1, int(messages[at]))

    def _chain(self, clocks: Clocks, sender: int, numbers: Ints, effect: int) -> None:
        """Makes some causes of one sender doubtful, what follows from them, and what is between."""
        causes = clocks.bases[sender] + numbers - 1
        self._doubt(clocks, [effect, *causes.tolist()])
        if clocks.owner[effect] == sender:
            return
        knowing = clocks.first_known(effect, sender, numbers)
        for number, cause, known in zip(numbers.tolist(), causes.tolist(), knowing.tolist(), strict=True):
            if known != cause:
                self._go_back(clocks, sender, number, known)

    def _go_back(self, clocks: Clocks, sender: int, number: int, effect: int) -> None:
        self._chains += 1
        if self._chains > _MAX_CHAINS:
            raise Doubtful
        cause = clocks.bases[sender] + number - 1
        found = [effect]
        while effect != cause and clocks.owner[effect] != sender:
            effect = int(clocks.first_known(effect, sender, np.array([number]))[0])
            if effect in found:  # each of these knew of it by another one
                found += clocks.path(sender, number, effect)
                break
            found.append(effect)
        self._doubt(clocks, found)

    def _lack_unrecorded(self, history: History) -> None:
        """Doubtful if a process may owe what is not recorded: whether it does depends on those who deliver it."""
        everything = self._clocks[None]
        _, messages = everything.delivered[history.place]
        for place, (group, _) in enumerate(everything.unrecorded, len(self._strands.all)):
            mine = np.arange(everything.bases[place], everything.bases[place] + everything.known(messages, place))
            if can_owe(self._evidence.facts, history, group) and not np.isin(mine, messages).all():
                raise Doubtful

    def _misses(self, history: History, lacking: Lacking, *, until_end: bool) -> None:
        """What a process lacks and may owe: what follows from each, and whether it had parted from the sender by then."""
        everything = self._clocks[None]
        count = everything.reached(history.place, lacking)
        if not count:
            return
        run, group = self._evidence.facts, lacking.span.group
        if lacking.view is None and (group in run.viewed or len(history.stays.get(group, ())) > 1):
            raise Doubtful
        since = history.installed[lacking.view] if lacking.view is not None else -1
        if lacking.view is None and group in run.joined:
            since = history.stays[group][0].begin
        clocks = self._of(group)
        sender = clocks.place_of(lacking.span.process)
        messages, begins = clocks.followers(history.place, group), clocks.segments(history.name, group)
        messages, begins = messages[begins > since], begins[begins > since]
        told = clocks.told[lacking.span.process, group][lacking.low - 1 : lacking.high]
        numbers = told - clocks.bases[sender] + 1
        first = clocks.first_with(messages, sender, numbers)
        is_judged = first < len(messages)
        self.cases += int(np.count_nonzero(is_judged))
        if is_judged.any() and not self._had_parted(history, lacking, int(begins[first[0]])):
            for number, follower in zip(numbers[is_judged].tolist(), first[is_judged].tolist(), strict=True):
                self._chain(clocks, sender, np.array([number]), int(messages[follower]))
                self._knows(history, lacking, int(messages[follower]), clocks)
        if until_end:
            self.cases += count
            example = group, lacking.span.process, lacking.span.low
            if lacking.view is None or self._owing.owes(history, example):
                self._misses_at_the_end(history, lacking)

    def _had_parted(self, history: History, lacking: Lacking, at: int) -> bool:
        if lacking.view is None:
            return False
        return self._owing.have_parted(history, lacking.span.process, lacking.view, lacking.span.first, at)

    def _knows(self, history: History, lacking: Lacking, follower: int, clocks: Clocks) -> None:
        """If the sender dropped the process, it matters which of its messages the process knew of at a follower."""
        sender = self._evidence.facts.histories[lacking.span.process]
        if lacking.view is None or sender.first_view_without(lacking.view.group, history.name, lacking.span.first) is None:
            return
        if clocks.group is not None:
            raise Doubtful
        _, messages = clocks.delivered[history.place]
        upto = messages[: int(np.flatnonzero(messages == follower)[0]) + 1]
        known = clocks.known(upto, sender.place)
        if known:
            numbers = np.array([known])
            self._chain(clocks, sender.place, numbers, int(upto[clocks.first_with(upto, sender.place, numbers)[0]]))

    def _misses_at_the_end(self, history: History, lacking: Lacking) -> None:
        clocks = self._clocks[None]
        sender = clocks.place_of(lacking.span.process)
        _, messages = clocks.delivered[history.place]
        told = clocks.told[lacking.span.process, lacking.span.group][lacking.low - 1 : lacking.high]
        numbers = told - clocks.bases[sender] + 1
        first = clocks.first_with(messages, sender, numbers)
        for number, follower in zip(numbers.tolist(), first.tolist(), strict=True):
            if follower < len(messages):
                self._chain(clocks, sender, np.array([number]), int(messages[follower]))
