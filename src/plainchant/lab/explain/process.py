"""What became of a process: how it entered its groups, what its protocol decided, which others suspected it, how it ended.

What happens all the time (sends, deliveries, turns, packets that are asked for and come) is counted in the conclusion; what is
rare is told, a row that says the same as one before only once, with how often it was said.
"""

from __future__ import annotations

from typing import Final

from ...core.model import UsageError
from ...core.names import place_of
from ...core.words import braces, crash_words, fault_words, listed, natural, span, times
from ...protocols.story import Event
from .membership import about, sentence
from .rows import Rows, Told, once, unless_said
from .why import Why, touches

_OWN: Final = ("view", "leave", "refused", "crash", "state", "elect", "suspect")
"""What is told of a process, besides what its protocol's story adds."""
_OF_IT: Final = ("suspect", "refute", "remove")
"""What others say of a process."""
_STEPS_MAX: Final = 200
_NAMED: Final = 4


class ProcessExplainer:
    """Tells the life of one process."""

    def __init__(self, rows: Rows, why: Why, process: str) -> None:
        if process not in rows.names["process"]:
            there = listed(sorted(rows.processes(), key=natural), most=10)
            raise UsageError(f"there is no process {process!r} in this run; there are {there}")
        self._rows = rows
        self._why = why
        self._story = why.story
        self._process = process
        self._own = rows.process == rows.code("process", process)

    def tell(self) -> tuple[str, Told, str]:
        """The title, the steps and the conclusion."""
        # The same thing said again and again becomes one step.
        every = self._rows.alike([*self._own_steps(), *self._faults(), *self._of_others()], self._likeness)
        steps = sorted(every, key=lambda step: (step[0].when, step[0].at))
        left_out = max(0, len(steps) - _STEPS_MAX)
        # The end of a process is told in any case.
        told = steps if not left_out else [*steps[: _STEPS_MAX - 1], steps[-1]]
        sentences = [self._end(), self._traffic(), *self._story.summary(self._process), *self._deadlines()]
        sentences += [f"{times(left_out, 'further step')} are not told."] if left_out else []
        return f"What became of {self._process}", told, " ".join(filter(None, [*sentences, *self._rows.clocks]))

    def _own_steps(self) -> Told:
        told: Told = []
        for event in self._rows.find(*_OWN, *self._story.process_kinds, process=self._process):
            if not self._story.is_told(event):
                continue
            what, because = self._step(event)
            if what:
                told.append((event, what, unless_said(what, because)))
        return told

    def _step(self, event: Event) -> tuple[str, str | None]:
        does = self._story.message_act(event)
        if does is not None:
            of = f" ({event.name})" if event.seq is not None else ""
            return f"{self._process} {does}{of}", self._why.clause(event)
        if event.kind == "join":
            return f"{self._process} is a receiver of {event.group} from now on", None
        if event.kind == "crash":
            return crash_words(self._process, event.detail), self._story.stopped(event)
        acts = {
            "refused": f"is not let into {event.group}",
            "view": f"installs view {event.view} of {event.group} {braces(event.members)}",
            "leave": f"has left {event.group}",
        }
        does = acts.get(event.kind)
        return f"{self._process} {does}" if does else sentence(event, self._story) or "", self._why.clause(event)

    def _faults(self) -> Told:
        """Faults of the process itself, and those that stood between it and everybody else; each once."""
        told: Told = []
        place = place_of(self._process)
        begin, end = (int(self._rows.when[self._own][edge]) for edge in (0, -1))
        for row in self._rows.find("fault", after=begin - 1, until=end):
            mine = row.detail.get("process") == place and row.detail.get("fault") != "crash"
            own = row.process == self._process and row.detail.get("fault") in ("timing", "module")
            if mine or own or touches(row.detail, self._process, ""):
                told.append((row, f"fault: {fault_words(row.detail)}" + (f" at {place}" if mine else ""), None))
        return once(told)

    def _of_others(self) -> Told:
        """What others said of it."""
        return [
            (event, sentence(event, self._story) or "", self._why.clause(event))
            for event in self._rows.find(*_OF_IT)
            if event.process != self._process and self._process in about(event)
        ]

    def _likeness(self, event: Event, what: str) -> tuple[str, ...]:
        """What rows have in common that are told as one step: the sentence, unless the protocol's story knows better."""
        alike = self._story.likeness(event)
        return alike or (event.process, event.kind, what, str(event.when if event.kind in ("view", "crash") else ""))

    def _end(self) -> str:
        last = self._rows.last_row(self._process)
        assert last is not None
        when = self._why.moment(last.when)
        views = self._rows.find("view", process=self._process)
        where = f", in view {views[-1].view} of {views[-1].group} {braces(views[-1].members)}" if views else ""
        comma = "," if where else ""
        if last.kind == "crash":
            why = self._story.stopped(last)
            told = f"At {when}{where}{comma} {crash_words(self._process, last.detail)}."
            return told + (f" The reason: {why}." if why else "")
        if last.kind == "end":
            left = self._rows.find("leave", process=self._process)
            return f"{self._process} is alive at the end" + (f"; it left {left[-1].group}." if left else f"{where}.")
        is_leave = last.kind == "leave"
        return f"{self._process} left {last.group} at {when}." if is_leave else f"Its history breaks off at {when}."

    def _traffic(self) -> str:
        sent, delivered = (int(self._rows.mask(kind, process=self._process).sum()) for kind in ("send", "deliver"))
        return f"It sent {times(sent, 'message')} and delivered {delivered:,}." if sent or delivered else ""

    def _deadlines(self) -> list[str]:
        """Which of its messages came too late somewhere."""
        sends = {event.message: event.due for event in self._rows.find("send", process=self._process) if event.due is not None}
        if not sends:
            return []
        late: dict[str, int] = {}
        for event in self._rows.find("deliver", sender=self._process):
            due = event.due if event.due is not None else sends.get(event.message)
            if due is not None and event.when > due:
                late[event.name] = max(late.get(event.name, 0), event.when - due)
        if not late:
            return [f"Of its {times(len(sends), 'message')} with a deadline none was delivered late."]
        named = sorted(late, key=lambda name: (-late[name], name))
        shown = listed(f"{name} (by {span(late[name])})" for name in named[:_NAMED])
        more = f", and {len(late) - _NAMED:,} more" if len(late) > _NAMED else ""
        return [
            f"Of its {times(len(sends), 'message')} with a deadline {len(late):,} came late: {shown}{more}; "
            f"--message {named[0]} tells why."
        ]
