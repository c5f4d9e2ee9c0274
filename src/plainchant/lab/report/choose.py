"""Which rows tell a violation, or the life of a message: few enough to be drawn, enough to be understood.

A scene has *lanes* (the processes involved), the rows drawn on them, the faults behind them, and the *marked* rows, which
are numbered. What must be there: the events that the violation names and everything that happened to its messages on these
lanes. What helps: views, crashes and suspicions, the nearest in time first, and a few neighbours of the marked events.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow.compute as pc

from ...core.words import natural
from ..draw.layout import Message, Place, message_of
from ..properties import Violation
from .overview import SPARSE, each_once, with_moments
from .source import Rows
from .words import Row

LANES_MAX: Final = 8
DRAWN_MAX: Final = 70
MESSAGES_MAX: Final = 6
FAULTS_MAX: Final = 8
STEPS_MAX: Final = 16
AROUND_MAX: Final = 40
_NEIGHBOURS: Final = 3
_SPARSE_MAX: Final = 26
_MESSAGE_ROWS: Final = ("send", "deliver", "reject", "block", "unblock", "drop")
_HELPFUL: Final = ("view", "join", "leave", "crash", "suspect", "confirm", "reject")


@dataclasses.dataclass(frozen=True)
class Scene:
    """What is drawn and told of a violation or a message."""

    run: str
    lanes: tuple[str, ...]
    lanes_left_out: int
    messages: tuple[Message, ...]
    messages_left_out: int
    drawn: tuple[Row, ...]
    """In the order in which things happened."""
    drawn_left_out: int
    states: tuple[Row, ...]
    """Every row of the lanes that changes what a lane looks like: views, leaves, crashes, ends."""
    faults: tuple[Row, ...]
    marks: dict[Place, int]
    """Numbers of the events that the violation names."""
    never: tuple[tuple[Message, str], ...]
    """Messages that a process of the violation never delivers."""
    steps: tuple[Row, ...]
    around: tuple[Row, ...]
    around_left_out: int


def prepare(rows: Rows, violations: Iterable[Violation]) -> None:
    """Selects what the scenes of these violations need, one pass for each run that is too large to be read whole."""
    by_run: dict[str, list[Violation]] = {}
    for violation in violations:
        by_run.setdefault(violation.run, []).append(violation)
    for run, found in by_run.items():
        if rows.whole(run) is None:
            messages = dict.fromkeys(message for violation in found for message in violation.messages[:MESSAGES_MAX])
            wanted = _wanted(messages, dict.fromkeys(place for violation in found for place in violation.events[:AROUND_MAX]))
            rows.prepared[run] = rows.select(run, wanted)


def scene_of_violation(rows: Rows, violation: Violation) -> Scene:
    """The scene of a violation."""
    messages = violation.messages[:MESSAGES_MAX]
    marked = list(dict.fromkeys(violation.events[:AROUND_MAX]))
    involved = [*(process for process, _ in marked), *violation.processes, *(sender for _, sender, _ in messages)]
    wanted = _wanted(messages, marked)
    prepared = rows.prepared.get(violation.run)
    chosen = prepared.filter(wanted) if prepared is not None else rows.select(violation.run, wanted)
    found = with_moments(chosen, rows.origins.get(violation.run, 0), rows.story(violation.run))
    marks = {place: number for number, place in enumerate((p for p in map(_place, _in_order(found)) if p in marked), 1)}
    delivered = {(message_of(row), row["process"]) for row in found if row["kind"] == "deliver"}
    there = {row["process"] for row in found}
    never = tuple(
        (message, process)
        for message in messages
        for process in sorted(violation.processes, key=natural)
        if process in there and (message, process) not in delivered and process != message[1]
    )
    scene = _scene(violation.run, found, messages, involved, marks, never)
    return dataclasses.replace(scene, messages_left_out=len(violation.messages) - len(messages))


def scene_of_message(rows: Rows, run: str, message: Message) -> Scene:
    """The scene of a message's life."""
    about = rows.select(run, _about(message) & pc.field("kind").isin(["send", "deliver"]))
    places = [_place(row) for row in about.select(["process", "index"]).to_pylist()]
    chosen = rows.select(run, _wanted([message], places[: 2 * LANES_MAX], reach=1))
    found = with_moments(chosen, rows.origins.get(run, 0), rows.story(run))
    delivered = [process for process, _ in places]
    members = _members_then(found, message)
    never = tuple((message, process) for process in sorted(members, key=natural) if process not in delivered)
    return _scene(run, found, (message,), [message[1], *delivered, *members], {}, never)


def _members_then(rows: list[Row], message: Message) -> list[str]:
    """The observed members of the view in which a message was sent: who might have delivered it."""
    send = next((row for row in rows if row["kind"] == "send" and message_of(row) == message), None)
    if send is None or send["view"] is None:
        return []
    there, wanted = {row["process"] for row in rows}, ("view", send["process"], send["view"])
    view = next((row for row in rows if (row["kind"], row["process"], row["view"]) == wanted), {"members": ()})
    return [name for name in view["members"] or () if name in there]


def telling_message(rows: Rows, run: str, *, troubled: bool) -> Message | None:
    """A message to tell: the slowest if something went wrong, else, of those that most processes delivered, a usual one."""
    whole = rows.whole(run)
    table = whole if whole is not None else rows.select(run, pc.field("index") < 2_000)
    table = table.filter(pc.equal(table.column("kind"), "deliver"))
    if not table.num_rows:
        return None
    taken = pc.subtract(pc.coalesce(table.column("true_time"), table.column("time")), table.column("sent"))
    keys = ["group", "sender", "seq"]
    lives = table.select(keys).append_column("taken", pc.fill_null(taken, 0)).group_by(keys, use_threads=False)
    summed = lives.aggregate([("taken", "max"), ("taken", "count")])
    if not troubled:
        summed = summed.filter(pc.equal(summed.column("taken_count"), pc.max(summed.column("taken_count"))))
    summed = summed.sort_by([("taken_max", "ascending"), *((key, "ascending") for key in keys)])
    chosen = summed.slice(summed.num_rows - 1 if troubled else summed.num_rows // 2, 1).to_pylist()[0]
    return chosen["group"], chosen["sender"], chosen["seq"]


def _about(message: Message) -> pc.Expression:
    group, sender, seq = message
    return (pc.field("group") == group) & (pc.field("sender") == sender) & (pc.field("seq") == seq)


def _wanted(messages: Iterable[Message], places: Iterable[Place], reach: int = _NEIGHBOURS) -> pc.Expression:
    """Rows that are few, rows of these messages, and rows near these places."""
    wanted = pc.field("kind").isin(list(SPARSE))
    for message in messages:
        wanted |= _about(message)
    for process, index in places:
        near = (pc.field("index") >= index - reach) & (pc.field("index") <= index + reach)
        wanted |= (pc.field("process") == process) & near
    return wanted


def _in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["moment"], natural(row["process"]), row["index"]))


def _scene(
    run: str,
    found: list[Row],
    messages: tuple[Message, ...],
    involved: Sequence[str],
    marks: dict[Place, int],
    never: tuple[tuple[Message, str], ...],
) -> Scene:
    wanted = list(dict.fromkeys(involved))
    lanes = set(wanted[:LANES_MAX])
    on_lanes = [row for row in found if row["process"] in lanes]
    must = [row for row in on_lanes if _place(row) in marks or (message_of(row) in messages and row["kind"] in _MESSAGE_ROWS)]
    focus = sorted(row["moment"] for row in must)
    must_places = {_place(row) for row in must}
    seen_by_view = {row["process"] for row in on_lanes if row["kind"] == "view"}
    others = [row for row in on_lanes if _place(row) not in must_places]
    helpful = [row for row in others if row["kind"] in _HELPFUL and (row["kind"] != "join" or row["process"] not in seen_by_view)]
    sparse = _nearest(helpful, focus, _SPARSE_MAX)
    neighbours = [row for row in others if row["kind"] in ("send", "deliver")]
    near = _nearest(neighbours, focus, max(DRAWN_MAX - len(must) - len(sparse), 0))
    # The end of a history that never delivers is what makes "never" final.
    owing = {process for _, process in never}
    ends = [row for row in others if row["kind"] == "end" and row["process"] in owing]
    drawn = _in_order([*must[:DRAWN_MAX], *sparse, *near, *ends])
    faults = _faults(found, focus)
    around = _around(on_lanes, list(marks) or [_place(row) for row in must])
    return Scene(
        run=run,
        lanes=tuple(sorted(lanes, key=natural)),
        lanes_left_out=max(len(wanted) - LANES_MAX, 0),
        messages=messages,
        messages_left_out=0,
        drawn=tuple(drawn),
        drawn_left_out=max(len(must) - DRAWN_MAX, 0) + len(helpful) - len(sparse),
        states=tuple(row for row in on_lanes if row["kind"] in ("view", "leave", "crash", "end")),
        faults=tuple(faults),
        marks=marks,
        never=never,
        steps=tuple(_steps(must, sparse, faults, marks)),
        around=tuple(around[:AROUND_MAX]),
        around_left_out=max(len(around) - AROUND_MAX, 0),
    )


def _place(row: Row) -> Place:
    return row["process"], row["index"]


def _nearest(rows: list[Row], focus: list[int], most: int) -> list[Row]:
    """The rows that are nearest to what matters; a crash or a leave counts as ten times nearer than it is."""
    if len(rows) <= most:
        return rows

    def distance(row: Row) -> tuple[float, int, str, int]:
        away = min((abs(row["moment"] - moment) for moment in focus), default=0)
        return away / 10 if row["kind"] in ("crash", "leave") else away, row["moment"], *_place(row)

    return sorted(rows, key=distance)[:most]


def _faults(rows: list[Row], focus: list[int]) -> list[Row]:
    """The faults of the run, each once although it is recorded at every process it hit; the nearest if they are many."""
    return _in_order(_nearest(each_once(_in_order(row for row in rows if row["kind"] == "fault")), focus, FAULTS_MAX))


def _steps(must: list[Row], sparse: list[Row], faults: list[Row], marks: dict[Place, int]) -> list[Row]:
    """What is told one by one: marked events always, then what is most telling, as far as there is room."""
    rank = {"send": 1, "crash": 2, "leave": 2, "fault": 2, "deliver": 3, "suspect": 4, "view": 5}
    started = min((row["moment"] for row in must if row["kind"] == "send"), default=None)
    candidates = [row for row in (*must, *sparse, *faults) if row["kind"] in rank or _place(row) in marks]
    # What was there before the first message is background, unless the violation names it.
    once = {
        _place(row): row
        for row in candidates
        if _place(row) in marks or started is None or row["moment"] >= started or row["kind"] == "fault"
    }
    ranks = {place: 0 if place in marks else rank.get(row["kind"], 9) for place, row in once.items()}
    return _in_order(sorted(once.values(), key=lambda row: (ranks[_place(row)], row["moment"], *_place(row)))[:STEPS_MAX])


def _around(rows: list[Row], places: list[Place]) -> list[Row]:
    """The rows next to these places, in the order of histories."""
    wanted = {(process, near) for process, index in places for near in range(index - 2, index + 3)}
    return sorted([row for row in rows if _place(row) in wanted], key=lambda row: (natural(row["process"]), row["index"]))
