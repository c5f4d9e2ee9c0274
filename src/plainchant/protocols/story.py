"""What explanations, listings and diagrams say about the runs of one protocol.

Theory of operation
-------------------
The laboratory tells runs of any protocol in a common vocabulary: sends, deliveries, views, suspicions, elections, faults
(``docs/explain.md`` lists what it reads). A protocol that records more has a *story*, a subclass of :class:`Story` in
``protocols/NAME/story.py``, to which its description refers. The laboratory finds it by the protocol's name in a trace's
``start`` row and asks it the questions below. The base class answers none of them: it is the story of a protocol that adds
nothing, and of a trace whose protocol is not known.

Questions about one row are static: they take plain values. Questions about a run are methods of an instance, which holds that
run and may ask of it what :class:`Run` has. An answer is a clause or a sentence in plain words; None or an empty value means
that there is nothing to add. Stories are pure: they import ``core`` and their own package.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

Message: TypeAlias = tuple[str, str, int]  # A message by its group, its sender and its number
Detail: TypeAlias = Mapping[str, Any]
Step: TypeAlias = tuple["Event", str, str | None]  # A step of an explanation: a row, what happened, and why
Sign: TypeAlias = tuple[str, str, str]
"""How a row is drawn: the name of a sign (``lab.draw.marks.SIGNS``), its label, and the label's style."""


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One row of a trace, with its detail decoded and its moment (ns, on the global clock if there is one)."""

    at: int  # Its position among the rows
    process: str
    index: int
    when: int
    kind: str
    group: str | None
    view: int | None
    sender: str | None
    seq: int | None
    members: tuple[str, ...]
    sent: int | None
    rank: int | None
    size: int | None
    packets: int | None
    detail: dict[str, Any]
    due: int | None = None  # The message's deadline, on the clock of ``when``

    @classmethod
    def of(cls, row: Mapping[str, Any], detail: object, when: int, *, at: int = 0, due: int | None = None) -> Event:
        """From a row by column, its decoded detail and its moment."""
        kept = {name: row[name] for name in _KEPT}
        members = tuple(str(name) for name in row["members"] or ())
        return cls(at=at, when=when, members=members, detail=detail if isinstance(detail, dict) else {}, due=due, **kept)

    @property
    def message(self) -> Message:
        return self.group or "", self.sender or "", self.seq or 0

    @property
    def name(self) -> str:
        """The message, as people write it."""
        return f"{self.group}/{self.sender}/{self.seq}"


_KEPT = ("process", "index", "kind", "group", "view", "sender", "seq", "sent", "rank", "size", "packets")


class Run(Protocol):
    """What a story may ask about a run (``lab.explain.rows.Rows`` answers)."""

    @property
    def is_global(self) -> bool:
        """Whether all moments are on one clock."""

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the run are there."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The protocol's parameters, from a ``start`` row."""

    @property
    def bounds(self) -> Mapping[str, int]:
        """The times (ns) that the run promises, from a ``start`` row."""

    def find(
        self, *kinds: str, process: str | None = None, group: str | None = None, sender: str | None = None,
        after: int | None = None, until: int | None = None,
    ) -> list[Event]:  # fmt: skip
        """Rows of these kinds in ``(after, until]``, in the order of their moments; ``group`` also finds rows without one."""

    def naming(self, message: Message) -> list[Event]:
        """Every row that names the message, in the order in which they happened."""

    def last_row(self, process: str) -> Event | None:
        """The last row of a process."""

    def least_seq(self, *kinds: str, group: str, sender: str, seq: int | None = None, rank: int | None = None) -> int | None:
        """The least message number among such rows; with ``seq`` or ``rank``, among those with at least this number or rank."""

    def ranks(self, *kinds: str, process: str, group: str, sender: str) -> list[tuple[int, int]]:
        """Message numbers and ranks of the rows that have a rank, in the order of the process's history."""

    def instants(self, *kinds: str, process: str, group: str) -> list[int]:
        """When rows of these kinds happened, in the order of the process's history."""

    def moment(self, when: int) -> str:
        """A moment as the run's readers count."""

    def moments(self, when: Iterable[int]) -> str:
        """Moments in order: all of a few, the first and the last of many."""


class Story:
    """The questions that a protocol's story can answer, and the answers of a protocol that adds nothing."""

    view_kinds: ClassVar[tuple[str, ...]] = ()  # Kinds of row that lead to a view, besides the common ones
    process_kinds: ClassVar[tuple[str, ...]] = ()  # Kinds of row that belong into the story of a process, besides the common ones
    drawn_kinds: ClassVar[tuple[str, ...]] = ()  # Kinds of row that a diagram shows, besides the common ones
    sheets: ClassVar[tuple[str, ...]] = ()  # Style sheets that its signs need (``lab.draw.marks.SHEETS``)
    has_turns: ClassVar[bool] = False  # Whether processes take turns, each ended by a ``token`` row; diagrams draw them as boxes
    polls: ClassVar[bool] = False  # Whether receivers look for messages at times of their own: a later delivery needs no reason
    # Operations on shared memory by name, in the order of a timing diagram's legend: style and meaning
    operations: ClassVar[Mapping[str, tuple[str, str]]] = {}
    last_operation: ClassVar[str] = ""  # The operation that ends the work on a delivered message, once in each copy

    def __init__(self, run: Run) -> None:
        self.run = run

    @staticmethod
    def act(kind: str, detail: Detail, sender: str | None = None) -> str | None:
        """What the process does in a row, as a clause without its subject, for listings and explanations."""
        return None

    @staticmethod
    def ground(kind: str, detail: Detail) -> str | None:
        """Why it does that, as far as the row itself tells."""
        return None

    @classmethod
    def sentence(cls, event: Event) -> str | None:
        """What happens in a row, as a sentence of an explanation."""
        does = cls.act(event.kind, event.detail, event.sender)
        return f"{event.process} {does}" if does is not None else None

    @staticmethod
    def message_act(event: Event) -> str | None:
        """What the process does with a message ("it") or in its group, as a clause without its subject."""
        return None

    @staticmethod
    def likeness(event: Event) -> tuple[str, ...] | None:
        """What rows have in common that are told as one step; None: the sentence that tells them."""
        return None

    @staticmethod
    def sign(event: Event) -> Sign | None:
        """How a diagram shows a row; None: like that of any other protocol."""
        return None

    @staticmethod
    def caption(event: Event) -> str | None:
        """What the mark of a row says when pointed at; None: what an explanation says."""
        return None

    @staticmethod
    def is_quiet(event: Event) -> bool:
        """Whether a diagram leaves a row out because another mark of the same instant shows it."""
        return False

    def about(self, message: Message) -> list[Event]:
        """Rows about a message that do not name it."""
        return []

    def steps(self, message: Message, send: Event, until: int) -> list[Step]:
        """Steps in the life of a message, from its send on, that are told by rows which do not name it."""
        return []

    def sent_in(self, event: Event) -> str:
        """When in the protocol's own time a message was sent, as the end of a sentence."""
        return ""

    def place(self, event: Event) -> str:
        """The place of a delivery in the order, as the end of a sentence."""
        return f", as number {event.rank}" if event.rank is not None else ""

    def outcome(self, message: Message) -> str | None:
        """What was decided about a message that no process delivers."""
        return None

    def reason(self, event: Event) -> str | None:
        """Why a row says what it says, as far as other rows tell."""
        return None

    def held_up(self, first: Event, sent: int, naming: Sequence[Event]) -> list[str]:
        """What kept all processes from delivering a message between its send and ``first``; ``naming``: the rows that name it."""
        return []

    def waited(self, event: Event, since: int) -> str | None:
        """The condition that the order set for this delivery, if it came late; told after the faults."""
        return None

    def lacked(self, event: Event, since: int) -> str | None:
        """What was missing at this process, if its delivery came later than others'; told before the faults."""
        return None

    def own_delays(self, event: Event, since: int) -> list[str]:
        """What this process did late before this delivery."""
        return []

    def stopped(self, crash: Event) -> str | None:
        """Why a process halted, beyond what its ``crash`` row says."""
        return None

    def meanwhile(self, after: int, until: int) -> list[str]:
        """Assumptions of the protocol's timing that were broken in this time."""
        return []

    def admitted_by(self, view: Event) -> str | None:
        """The process that let the newcomers of a view in."""
        return None

    def after_view(self, view: Event) -> str | None:
        """What a view changed besides the members, as a sentence without its full stop."""
        return None

    def is_aside(self, event: Event) -> bool:
        """Whether a row of ``view_kinds`` or of the common kinds is no step on the way to a view."""
        return False

    def is_told(self, event: Event) -> bool:
        """Whether a row belongs into the story of its process; no if another row tells the same."""
        return True

    def summary(self, process: str) -> list[str]:
        """Sentences for the conclusion of a process's story."""
        return []
