"""Claims 71 to 73 (section 5): Lemma 1, Lemma 2 and Theorem 1, looked for exceptions by drawing message sets and turns.

Theory of operation
-------------------
No ring, no network: one member, its turns, and messages that wait for them first in, first out. Times are whole numbers. Time
can be divided at will, as in the paper, but for the last part of claim 73, which has the packets of
:mod:`plainchant.protocols.rtcast`.

Turns begin at most P apart, and an adversary draws how much earlier. A turn is *kept* for all of T, whether there is something to
send or not; then any interval of length P has T of it, which is Assumption 1. Or it is *released* as soon as nothing waits (4.1),
which is what the ring does.

What can be done at all is known exactly: by earliest deadline first, messages that all come at once right after a turn are the
worst case, and they are in time if what is due by t never exceeds what turns give by t.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from plainchant.core.model import MS, SECOND, Duration
from plainchant.protocols.rtcast.analysis import Demand, Turn
from plainchant.protocols.rtcast.parameters import Parameters
from plainchant.protocols.rtcast.regulator import Plan, Regulator
from plainchant.scenario.model import Workload

from ..claims import Context, Measured, Table, judge, rows, totals
from ..observe import trace_of
from ..runs import Given, milliseconds, names, rows_of
from .guarantees import timely
from .rings import BEGIN, FULL, parameters_of, ring, times_of

P: Final = 1000
_ROTATIONS: Final = 60


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """Something that waits to be sent."""

    released: int
    cost: int


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """When it was through, and when the turn began that sent the last of it."""

    turn: int
    end: int


def served(pieces: Sequence[Piece], turns: Iterator[int], hold: int, *, kept: bool) -> list[Sent]:
    """What becomes of pieces, which are in the order of their release."""
    found: list[Sent] = []
    left = [piece.cost for piece in pieces]
    first = 0
    for begin in turns:
        now, end = begin, begin + hold
        while first < len(pieces) and now < end:
            if pieces[first].released > now:
                if not kept or pieces[first].released >= end:
                    break
                now = pieces[first].released
            step = min(left[first], end - now)
            now += step
            left[first] -= step
            if not left[first]:
                found.append(Sent(begin, now))
                first += 1
        if first == len(pieces):
            return found
    return found


def beginnings(draw: random.Random, late: int = 0) -> Iterator[int]:
    """When turns begin: P apart, or now and then less."""
    now = late
    while True:
        yield now
        now += P - draw.choice((0, 0, 0, 1, draw.randrange(P // 2)))


# 71: Lemma 1
@dataclasses.dataclass(frozen=True, slots=True)
class Lemma1:
    """Flows that keep the lemma's condition, and what became of them."""

    kept: bool
    messages: int
    late: int  # Not sent within P of their arrival,
    beyond: int  # and not even within P + T.
    turn_late: int  # Sent in a turn that began more than P after their arrival.
    worst: float  # The longest time above P, in T.


def flow(draw: random.Random, hold: int, count: int) -> list[Piece]:
    """Messages that come so that within no half-open interval of length P more than T of them comes."""
    pieces: list[Piece] = []
    now = 0
    while len(pieces) < count:
        now += draw.choice((0, 1, hold, P - 1, P, draw.randrange(1, P)))
        room = hold - sum(piece.cost for piece in pieces if piece.released > now - P)
        if room > 0:
            pieces.append(Piece(now, draw.choice((room, 1, draw.randint(1, room)))))
    return pieces


def lemma_1_of(item: tuple[int, bool]) -> Lemma1:
    seed, kept = item
    draw = random.Random(f"{seed}/lemma 1")
    messages = late = beyond = turn_late = 0
    worst = 0.0
    for _ in range(50):
        hold = draw.choice((P // 2, P // 5, draw.randrange(2, P)))
        pieces = flow(draw, hold, 40)
        first = draw.choice((0, -1, -hold, -draw.randrange(P)))
        for piece, sent in zip(pieces, served(pieces, beginnings(draw, first), hold, kept=kept), strict=True):
            messages += 1
            over = sent.end - piece.released - P
            late += over > 0
            beyond += over > hold
            turn_late += sent.turn - piece.released > P
            worst = max(worst, over / hold)
    return Lemma1(kept, messages, late, beyond, turn_late, worst)


@dataclasses.dataclass(frozen=True, slots=True)
class Waited:
    """How long messages of a promised stream waited to be sent, on a ring where the others' turns are full."""

    messages: int
    longest: float  # In P.


def waited_of(seed: int) -> Waited:
    draw = random.Random(f"{seed}/waited")
    members = draw.randrange(2, 5)
    given: Given = {"retransmissions": 0, "heartbeats": 1}
    rotation = times_of(ring(members, **given))["rotation"]
    deadline = Duration(2 * rotation + draw.randrange(rotation))
    begin = milliseconds(BEGIN + draw.uniform(0, 50))
    stream = Workload(senders=("p1",), rate=0.97 * SECOND / deadline, size=400, deadline=deadline, start=begin)
    full = Workload(senders=names(members)[1:], size=1000, start=begin)
    length = BEGIN + 50 + 12 * rotation / MS
    _, table = trace_of(ring(members, stream, full, length=length, drain=0, network=FULL, seed=seed, **given))
    found = [row["time"] - (row["deadline"] - deadline) for row in rows_of(table, "send") if row["deadline"] is not None]
    return Waited(len(found), max(found) / rotation)


def lemma_1(context: Context) -> Measured:
    waited = context.sweep(waited_of, range(context.of(2, 10)))
    seeds = range(context.of(2, 40))
    kept, released = (context.sweep(lemma_1_of, [(seed, kept) for seed in seeds]) for kept in (True, False))
    count = sum(run.messages for run in kept)
    late, early = sum(run.late for run in kept), sum(run.late for run in released)
    beyond = sum(run.beyond + run.turn_late for run in released)
    return Measured(
        f"{count:,} messages of flows with at most T in any P, turns drawn: if turns are kept for all of T, {late} are not "
        f"sent within P; if they are released early, as 4.1 has it, {early:,} are not, by "
        f"{max(run.worst for run in released):.2f} T at most; {beyond} wait longer than P for their turn to begin. "
        f"{sum(run.messages for run in waited)} messages in the simulator, the others' turns full: sent "
        f"{max(run.longest for run in waited):.2f} P after they came at the most",
        judge(
            holds=not late and not early,
            nearly=not late and not beyond and count > 0 and all(0 < run.longest <= 1 for run in waited),
        ),
        "under Assumption 1 it holds; but a ring that releases the token early does not give T in *every* interval of length "
        "P: what comes right after the token has gone is sent in a turn that begins within P, and is through up to T later. "
        "That T is part of Delta here",
        rows(kept, released),
    )


# Message sets
@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """A periodic message: it has n P from its arrival until its last piece is to be sent (d - Delta, rounded down)."""

    cost: int
    visits: int
    slack: int  # What d - Delta has besides n P.
    period: int

    @property
    def share(self) -> int:
        return -(-self.cost // self.visits)


def drawn(draw: random.Random, hold: int) -> list[Message]:
    """A set that has C1 (a piece fits into T) and, as far as it goes, C2 (the mean flow does)."""
    messages: list[Message] = []
    for _ in range(draw.randrange(1, 7)):
        visits = draw.randrange(1, 6)
        slack = draw.choice((0, draw.randrange(P)))
        period = (visits + 1) * P + slack + draw.choice((0, draw.randrange(8 * P)))
        left = hold * period // P - sum(-(-message.cost * period // message.period) for message in messages)
        most = min(visits * hold, left)
        if most >= 1:
            messages.append(Message(draw.choice((most, draw.randint(1, most), draw.randint(1, most))), visits, slack, period))
    return messages


def released(messages: Sequence[Message], phases: Sequence[int]) -> list[tuple[Piece, int]]:
    """The pieces of all messages in so many rotations, in their order, each with when it is to be sent."""
    found = []
    for message, phase in zip(messages, phases, strict=True):
        for arrival in range(phase, _ROTATIONS * P, message.period):
            rest = message.cost
            for number in range(message.visits):
                cost = min(message.share, rest)
                rest -= cost
                if cost:
                    found.append((Piece(arrival + number * P, cost), arrival + message.visits * P))
    return sorted(found, key=lambda item: item[0].released)


def missed(messages: Sequence[Message], phases: Sequence[int], hold: int, draw: random.Random, *, kept: bool) -> int:
    """Pieces that are sent too late; T later counts as in time where turns are released early."""
    pieces = released(messages, phases)
    first = draw.choice((0, -hold, -hold - 1, -draw.randrange(P)))
    sent = served([piece for piece, _ in pieces], beginnings(draw, first), hold, kept=kept)
    return sum(one.end > due + (0 if kept else hold) for (_, due), one in zip(pieces, sent, strict=True))


def possible(messages: Sequence[Message], hold: int) -> bool:
    """Whether earliest deadline first sends in time whatever comes in so many rotations: an exact test."""
    moments = {
        message.visits * P + message.slack + count * message.period
        for message in messages
        for count in range(_ROTATIONS * P // message.period)
    }
    for moment in moments:
        due = sum(
            ((moment - message.visits * P - message.slack) // message.period + 1) * message.cost
            for message in messages
            if moment >= message.visits * P + message.slack
        )
        given = moment // P * hold + max(0, moment % P - (P - hold))
        if due > given:
            return False
    return True


@dataclasses.dataclass(frozen=True, slots=True)
class Sets:
    """Message sets with C1, C2 and C3, by whether the inequality of Theorem 1 has them."""

    fit: int  # Sets with sum of C/n <= T,
    fit_missed: int  # of which some message came too late, turns kept,
    fit_missed_early: int  # and with turns that are released early, by more than T.
    over: int  # Sets with more,
    over_missed: int  # of which some message came too late by this schedule,
    over_impossible: int  # and those that no schedule can send in time.
    over_possible: int  # Sets with more that can be sent in time by another schedule.
    example: str  # The smallest set of the first kind that no schedule can send in time.


def sets_of(seed: int) -> Sets:
    draw = random.Random(f"{seed}/sets")
    counts = {field.name: 0 for field in dataclasses.fields(Sets) if field.name != "example"}
    smallest: tuple[int, str] | None = None
    for _ in range(150):
        hold = draw.choice((P // 5, P // 2, draw.randrange(20, P // 2)))
        messages = drawn(draw, hold)
        together = [0] * len(messages)
        phases = draw.choice((together, [draw.randrange(message.period) for message in messages]))
        if sum(message.share for message in messages) <= hold:
            counts["fit"] += 1
            counts["fit_missed"] += missed(messages, phases, hold, draw, kept=True) > 0
            counts["fit_missed_early"] += missed(messages, phases, hold, draw, kept=False) > 0
            continue
        counts["over"] += 1
        counts["over_missed"] += missed(messages, together, hold, draw, kept=True) > 0
        can = possible(messages, hold)
        counts["over_possible" if can else "over_impossible"] += 1
        if not can and (smallest is None or len(messages) < smallest[0]):
            said = "; ".join(f"C = {message.cost}, n = {message.visits}, period {message.period}" for message in messages)
            smallest = len(messages), f"P = {P}, T = {hold}: {said}"
    return Sets(**counts, example=smallest[1] if smallest is not None else "")


def _sets(context: Context) -> list[Sets]:
    return context.sweep(sets_of, range(context.of(2, 40)))


def both_of(members: int) -> tuple[int, int]:
    """A member asks for two rare messages, each of which fills a turn: how many it is promised, and how many it is refused."""
    settings: dict[str, Any] = {"retransmissions": 0}
    plain = ring(members, **settings)
    turn = Turn(parameters_of(plain), "p1", times_of(plain)["rotation"], plain.network.max_packet, plain.members)
    size = max(size for size in range(5000) if turn.share(Demand("m", 0, size=size), 1) <= turn.hold - turn.reserved)
    deadline = Duration(2 * turn.rotation)
    rare = Workload(senders=("p1",), rate=0.1 * SECOND / deadline, size=size, deadline=deadline, start=milliseconds(BEGIN))
    summary, _ = trace_of(ring(members, rare, rare, length=BEGIN + 100, drain=0, **settings))
    return summary.streams_admitted, summary.streams_rejected


def _either(values: Iterable[int]) -> str:
    return " or ".join(map(str, sorted(set(values))))


def lemma_2(context: Context) -> Measured:
    both = context.sweep(both_of, context.of((3,), (2, 3, 5, 8)))
    runs = context.once("message sets", _sets)
    fit, over, misses, impossible = totals(runs, "fit", "over", "over_missed", "over_impossible")
    example = min((run.example for run in runs if run.example), key=lambda text: (text.count(";"), len(text), text), default="")
    return Measured(
        f"{fit + over:,} message sets with C1, C2 and C3, all members of a set coming at once: {misses:,} send some message "
        f"too late, {impossible:,} of them could not be sent in time by any schedule; the smallest found: {example}. "
        f"In the simulator, of two rare streams whose messages fill a turn each, admission control promises "
        f"{_either(one for one, _ in both)} and refuses {_either(other for _, other in both)}",
        judge(holds=not misses),
        "a mean flow of T a rotation (C2) says nothing of what comes at once, and C3 is a lower bound where an upper one is "
        "needed: two messages that each fill a whole T and have one rotation left cannot both be sent in it, however rare "
        "they are. What holds is the inequality of Theorem 1, which limits what is released in any P",
        rows(runs),
    )


# 73: Theorem 1
_MAX_PACKET: Final = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Packets:
    """A set that the protocol's own analysis admits, run through its regulator."""

    streams: int
    packets: int
    late: int  # Packets whose turn began more than P after their release,
    missed: int  # and messages that were sent later than Delta - T before their deadline.


def packets_of(seed: int) -> Packets:
    draw = random.Random(f"{seed}/packets")
    rotation = 20_000
    settings: Given = {"bandwidth": 8_000_000_000, "header": 20, "idle_hold": Duration(0), "heartbeats": 1}
    settings["retransmissions"] = draw.randrange(3)
    reserved = Turn(Parameters(**settings), "p1", rotation, _MAX_PACKET).reserved
    hold = reserved + draw.choice((300, 1000, 3000))
    turn = Turn(Parameters(**settings, hold=Duration(hold)), "p1", rotation, _MAX_PACKET)
    demands = []
    for number in range(draw.randrange(1, 9)):
        deadline = turn.delay + draw.randrange(1, 6) * rotation + draw.choice((0, draw.randrange(rotation)))
        period = deadline + draw.choice((0, 1, draw.randrange(3 * rotation)))
        demands.append(Demand(f"m{number}", deadline, period, size=draw.choice((10, 100, 700, draw.randrange(2000)))))
    verdicts, _ = turn.admit(demands)
    admitted = {verdict.demand.name: verdict.demand for verdict in verdicts if verdict.is_admitted}
    return _regulated(turn, admitted, draw)


def _regulated(turn: Turn, demands: dict[str, Demand], draw: random.Random) -> Packets:
    regulator = Regulator(_MAX_PACKET)
    for name in demands:
        regulator.add(name)
    arrives = {name: draw.choice((0, 1, draw.randrange(demand.period))) for name, demand in demands.items()}
    arrived: dict[str, int] = {}
    packets = late = misses = start = 0
    for _ in range(120):
        now, left = start, turn.hold - turn.reserved
        while True:
            for name, demand in demands.items():
                flow = regulator.flows[name]
                if not flow.is_under_way and arrives[name] <= now:
                    visits = turn.visits(demand.deadline)
                    piece = max(1, -(-demand.size // turn.pieces(demand, visits)))
                    flow.begin(b"x" * demand.size, arrives[name], Plan(piece, turn.rotation, turn.share(demand, visits)))
                    arrived[name] = arrives[name]
                    arrives[name] += demand.period + draw.choice((0, 0, 1))
            chunk = regulator.next(now)
            if chunk is None or turn.interface.cost(chunk.size) > left:
                break
            cost = turn.interface.cost(chunk.size)
            now, left = now + cost, left - cost
            flow = regulator.flows[chunk.stream]
            packets += 1
            late += start - (flow.release or 0) > turn.rotation
            if chunk.is_last:
                due = arrived[chunk.stream] + demands[chunk.stream].deadline - turn.delay + turn.hold
                misses += now > due
            flow.advance(chunk)
        start += now - start + turn.reserved + turn.rotation - turn.hold - draw.choice((0, 0, 0, 1, turn.rotation // 3))
    return Packets(len(demands), packets, late, misses)


def theorem_1(context: Context) -> Measured:
    runs = context.once("message sets", _sets)
    regulated = context.sweep(packets_of, range(context.of(30, 600)))
    simulated = context.once("timely", timely)
    delivered = sum(run.cases["deadline"] for run in simulated)
    overdue = sum(run.violations["deadline"] for run in simulated)
    fit, wrong, wrong_early = totals(runs, "fit", "fit_missed", "fit_missed_early")
    over, possible_sets = totals(runs, "over", "over_possible")
    late, misses, packets = totals(regulated, "late", "missed", "packets")
    return Measured(
        f"sufficient: of {fit:,} sets with sum of C/n <= T {wrong} send a message too late ({wrong_early} with early release, "
        f"by more than T); {packets:,} packets of {len(regulated)} sets that admission control takes, through its regulator: "
        f"{late} in a turn that begins more than P after their release, {misses} messages late; "
        f"{delivered:,} deliveries in the simulator (claim 79), {overdue} late. Not necessary: of {over:,} "
        f"sets with more, {possible_sets:,} can always be sent in time by earliest deadline first",
        judge(
            holds=not wrong + wrong_early + late + misses + overdue and min(fit, packets, delivered, possible_sets) > 0,
            nearly=not wrong + late + misses + overdue,
        ),
        "each stream releases one piece in any P at most, and all pieces together fit into T: nothing is ever left over. The "
        "inequality throws away what a message has besides whole rotations, and gives every message its pieces from the first "
        "rotation on",
        rows(regulated),
        (),
        (
            Table(
                "message sets with C1, C2 and C3",
                ("sum of C/n", "sets", "late as the paper sends them", "possible at all"),
                [("<= T", fit, wrong, fit), ("> T", over, sum(run.over_missed for run in runs), possible_sets)],
            ),
        ),
    )
