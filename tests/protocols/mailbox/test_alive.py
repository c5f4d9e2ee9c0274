"""No stopped, slow or unread process stops the others: it is reported, excluded, told, and may come back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from itertools import pairwise
from typing import Any, Final

import pytest

from plainchant.core.memory import Copy
from plainchant.core.model import MS, SECOND, US, Duration
from plainchant.lab.properties import verify
from plainchant.protocols.mailbox import DESCRIPTION
from plainchant.protocols.mailbox.message import Message
from plainchant.protocols.mailbox.parameters import Parameters
from plainchant.protocols.mailbox.receiving import Receiver
from plainchant.protocols.mailbox.sending import Sender
from plainchant.protocols.mailbox.watching import Watch
from plainchant.protocols.variants import replaced
from plainchant.scenario.model import Fault, Scenario, Workload
from plainchant.sim import Simulation
from plainchant.sim.scripted import Script, ScriptedSimulation
from plainchant.sim.summary import Summary
from plainchant.trace import TraceBuffer

MEMBERS = ("p1", "p2", "p3", "p4", "p5")
BOTH = pytest.mark.parametrize("tolerate", ["crash", "timing"])
RATE = 100.0


class Ran:
    """A run, verified, and what its trace tells."""

    def __init__(self, summary: Summary, trace: TraceBuffer) -> None:
        self.summary = summary
        table = trace.table()
        self.rows: list[dict[str, Any]] = sorted(table.to_pylist(), key=lambda row: (row["true_time"], row["index"]))
        self.violated = {name: found.violations for name, found in verify(table).properties.items() if found.violations}

    def of(self, kind: str, *processes: str) -> list[dict[str, Any]]:
        rows = [row for row in self.rows if row["kind"] == kind and (not processes or row["process"] in processes)]
        return [{**row, "detail": json.loads(row["detail"] or "{}")} for row in rows]

    def standstill(self, process: str, since: int = 0, until: int = 1 << 62) -> int:
        """The longest time between two deliveries at a process."""
        times: list[int] = [row["true_time"] for row in self.of("deliver", process) if since <= row["true_time"] <= until]
        return max(later - earlier for earlier, later in pairwise(times))

    def halted(self) -> dict[str, str]:
        """Processes that their protocol halted, each with the reason."""
        return {row["process"]: row["detail"]["reason"] for row in self.of("crash") if row["detail"].get("by") == "protocol"}


def run(
    faults: Sequence[Fault],
    *,
    members: tuple[str, ...] = MEMBERS,
    later: tuple[str, ...] = (),
    duration: int = 1 * SECOND,
    script: Script | None = None,
    rate: float = RATE,
    **parameters: Any,
) -> Ran:
    given = {"patience": Duration(50 * MS), "poll": Duration(1 * MS), **parameters}
    scenario = Scenario(
        protocol="mailbox",
        members=members,
        later=later,
        groups={"g": members},
        duration=Duration(duration),
        drain=Duration(5 * SECOND),
        seed=1,
        parameters=given,
        workload=(Workload(rate=rate, size=20),),
        fault=tuple(sorted(faults, key=lambda fault: fault.at)),
    )
    trace = TraceBuffer()
    simulation = Simulation(scenario, trace=trace) if script is None else ScriptedSimulation(script, scenario, trace=trace)
    return Ran(simulation.run(), trace)


def bound(rate: float = RATE, **parameters: Any) -> int:
    """The longest standstill: what the protocol states, and the time between two messages."""
    given = {"patience": Duration(50 * MS), "poll": Duration(1 * MS), **parameters}
    within = DESCRIPTION.progress(Parameters(**given), {"g": MEMBERS}).within
    assert within is not None
    return within + round(SECOND / rate)


def fault(kind: str, process: str, *, at: int = 200 * MS, length: int = 500 * MS, **more: Any) -> Fault:
    return Fault(kind=kind, process=process, at=Duration(at), length=Duration(length), **more)


# --- the rows of the issue --------------------------------------------------------------------------------------------


@BOTH
def test_five_members_of_which_one_is_paused_for_20_s(tolerate: str) -> None:
    settings: dict[str, Any] = {"tolerate": tolerate, "patience": Duration(1 * SECOND), "poll": Duration(4 * MS)}
    ran = run(
        [
            fault("pause", "p5", at=2 * SECOND, length=20 * SECOND),
            Fault(kind="restart", process="p5", at=Duration(23 * SECOND)),
        ],
        duration=25 * SECOND,
        rate=20.0,
        **settings,
    )
    assert ran.summary.quiet
    assert ran.violated == {}
    assert ran.halted() == {"p5": "excluded"}
    assert max(ran.standstill(member) for member in MEMBERS[:4]) < bound(20.0, **settings) < 1500 * MS
    assert ran.of("deliver", "p5#1")


@BOTH
@pytest.mark.parametrize("kind", ["pause", "sluggish", "slow"])
def test_the_others_go_on_within_the_bound(tolerate: str, kind: str) -> None:
    settings: dict[str, dict[str, Any]] = {"sluggish": {"count": 5}, "slow": {"delay": Duration(100 * MS)}}
    more = settings.get(kind, {})
    ran = run([fault(kind, "p5", **more), Fault(kind="restart", process="p5", at=Duration(800 * MS))], tolerate=tolerate)
    assert ran.summary.quiet
    assert ran.violated == {}
    assert ran.halted() == {"p5": "excluded"}
    assert max(ran.standstill(member) for member in MEMBERS[:4]) < bound(tolerate=tolerate) < 200 * MS
    (told,) = [row["detail"]["text"] for row in ran.of("crash")]
    assert "p5 was excluded from g: it had not set its decision flags for 50ms" in told
    assert ("its application does not read" in told) == (kind == "sluggish")
    assert ran.of("deliver", "p5#1")


# --- who is excluded, and who is not ----------------------------------------------------------------------------------


def test_the_second_protocol_goes_on_with_a_majority() -> None:
    ran = run([fault("pause", "p4"), fault("pause", "p5", at=210 * MS)])
    assert ran.violated == {}
    assert ran.halted() == {"p4": "excluded", "p5": "excluded"}
    assert max(ran.standstill(member) for member in MEMBERS[:3]) < bound()


def test_the_second_protocol_waits_for_a_majority_and_goes_on_with_it() -> None:
    ran = run([fault("pause", member) for member in MEMBERS[2:]])
    assert ran.summary.quiet
    assert ran.halted() == {}
    assert all(ran.standstill(member, since=701 * MS) < bound() for member in MEMBERS)


def test_the_first_protocol_goes_on_with_the_one_that_is_left() -> None:
    ran = run([fault("pause", member) for member in MEMBERS[1:]], tolerate="crash")
    assert ran.violated == {}
    assert set(ran.halted()) == set(MEMBERS[1:])
    assert ran.standstill("p1") < bound(tolerate="crash")


@BOTH
def test_after_all_were_stopped_none_is_excluded(tolerate: str) -> None:
    ran = run([fault("pause", member, at=200 * MS + number * US) for number, member in enumerate(MEMBERS)], tolerate=tolerate)
    assert ran.summary.quiet
    assert ran.halted() == {}
    assert all(ran.standstill(member, since=701 * MS) < bound(tolerate=tolerate) for member in MEMBERS)


@BOTH
def test_a_pause_shorter_than_patience_excludes_no_process(tolerate: str) -> None:
    ran = run([fault("pause", "p5", length=45 * MS)], tolerate=tolerate)
    assert ran.halted() == {}
    assert not ran.of("remove")


def test_of_two_members_one_goes_on() -> None:
    # Two receivers tolerate no failure: the message that was under way is decided when p2 is excluded.
    ran = run([fault("pause", "p2")], members=("p1", "p2"))
    assert set(ran.violated) <= {"bounded"}
    assert ran.halted() == {"p2": "excluded"}
    assert ran.standstill("p1") < bound()


@pytest.mark.parametrize(("tolerate", "excluded"), [("crash", {"p2", "p3", "p4", "p5"}), ("timing", set())])
def test_one_receiver_that_is_wrong_excludes_no_other_with_the_second_protocol(tolerate: str, excluded: set[str]) -> None:
    # The monotonic clock of p1 cannot be wrong in the simulator: here it reports all others without a reason.
    overdue = Watch._overdue

    def wrong(self: Watch, copy: Copy, entered: int) -> int:
        return 0b11110 if self.box.host.me == "p1" else overdue(self, copy, entered)

    with replaced(Watch, "_overdue", wrong):
        ran = run([], tolerate=tolerate)
    assert {row["process"] for row in ran.of("suspect")} == {"p1"}
    assert set(ran.halted()) == excluded


@pytest.mark.parametrize("members", [MEMBERS[:3], tuple(f"p{number}" for number in range(1, 21))])
def test_a_clock_that_is_set_back_by_an_hour(members: tuple[str, ...]) -> None:
    # All waits of p2 that go by its clock would last an hour; the one after which it looks for its exclusion does not.
    back = Fault(kind="step", process="p2", at=Duration(200 * MS), offset=Duration(-3600 * SECOND))
    right = Fault(kind="step", process="p2", at=Duration(600 * MS), offset=Duration(3600 * SECOND))
    again = Fault(kind="restart", process="p2", at=Duration(700 * MS))
    ran = run([back, right, again], members=members, poll=Duration(2 * MS), rate=50.0, places=20)
    assert ran.summary.quiet
    assert ran.halted() == {"p2": "excluded"}
    assert ran.of("crash", "p2")[0]["true_time"] < 400 * MS
    assert max(ran.standstill(member) for member in members if member != "p2") < bound(50.0, poll=Duration(2 * MS))
    assert ran.of("deliver", "p2#1")


@BOTH
def test_an_only_sender_that_is_stopped_is_not_waited_for(tolerate: str) -> None:
    ran = run([fault("pause", "p5")], tolerate=tolerate, senders=("p5",))
    assert ran.summary.quiet
    assert ran.halted() == {}
    assert max(ran.standstill(member) for member in MEMBERS[:4]) < 30 * MS


def test_without_patience_only_crashed_processes_are_excluded() -> None:
    ran = run([fault("pause", "p5")], patience=Duration(0))
    assert ran.halted() == {}
    assert ran.standstill("p1") > 400 * MS
    assert DESCRIPTION.progress(Parameters(patience=Duration(0)), {}).because


@pytest.mark.parametrize("slots", [1, 8])
def test_a_receiver_that_waits_for_votes_is_not_reported(slots: int) -> None:
    # Two of four are no minority: there is no quorum until they are excluded, so p1 and p2 set no flags either.
    ran = run([fault("pause", "p3"), fault("pause", "p4")], members=MEMBERS[:4], slots=slots)
    assert set(ran.violated) <= {"bounded"}
    assert ran.halted() == {"p3": "excluded", "p4": "excluded"}
    assert max(ran.standstill(member) for member in MEMBERS[:2]) < bound()


# --- coming, going, and copies ----------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("after", [10, 60, 120, 200, 1000])
def test_a_process_that_is_stopped_while_it_joins(tolerate: str, after: int) -> None:
    join = Fault(kind="join", process="q1", at=Duration(200 * MS), group="g")
    ran = run([join, fault("pause", "q1", at=200 * MS + after * US)], later=("q1",), tolerate=tolerate)
    assert ran.summary.quiet
    assert ran.violated == {}
    assert set(ran.halted()) <= {"q1"}
    assert max(ran.standstill(member) for member in MEMBERS) < bound(tolerate=tolerate)


@BOTH
def test_a_process_that_is_stopped_while_it_leaves(tolerate: str) -> None:
    leave = Fault(kind="leave", process="p5", at=Duration(200 * MS))
    ran = run([leave, fault("pause", "p5", at=200 * MS + 60 * US)], tolerate=tolerate)
    assert ran.summary.quiet
    assert ran.violated == {}
    assert max(ran.standstill(member) for member in MEMBERS[:4]) < bound(tolerate=tolerate)


@BOTH
def test_a_process_that_is_stopped_before_it_is_listed_is_not_waited_for(tolerate: str) -> None:
    ran = run([], members=MEMBERS[:3], tolerate=tolerate, script=Script({"p3 list 1": [500 * MS / (50 * US), 1]}))
    assert ran.violated == {}
    first = {member: ran.of("deliver", member)[0]["true_time"] for member in ("p1", "p2")}
    assert all(50 * MS < time < bound(tolerate=tolerate) for time in first.values())
    assert {row["detail"].get("state") for row in ran.of("state", "p1")} == {"entered", "formed without"}


@BOTH
def test_the_first_copy_dies_when_the_process_is_overdue(tolerate: str) -> None:
    ran = run([fault("pause", "p5"), Fault(kind="module", at=Duration(255 * MS), module=1)], tolerate=tolerate, copies=3)
    assert ran.summary.quiet
    assert ran.violated == {}
    assert ran.halted() == {"p5": "excluded"}
    assert max(ran.standstill(member) for member in MEMBERS[:4]) < 2 * bound(tolerate=tolerate, copies=3)


def test_a_joiner_does_not_get_the_place_of_an_excluded_process_that_may_still_write() -> None:
    join = Fault(kind="join", process="q1", at=Duration(400 * MS), group="g")
    again = Fault(kind="join", process="q2", at=Duration(800 * MS), group="g")
    ran = run([fault("pause", "p5"), join, again], later=("q1", "q2"))
    assert ran.violated == {}
    places = {row["sender"]: row["rank"] % 64 for row in ran.of("deliver", "p1")}
    assert places["p5"] == places["q2"] == 4
    assert places["q1"] == 5


_BAR = Receiver._bar


def _bar_rejected(self: Receiver, copy: Copy, message: Message) -> None:
    if message.verdict is False:
        _BAR(self, copy, message)


BAR: Final = (Receiver, "_bar", _bar_rejected)
WITHOUT: Mapping[str, Sequence[tuple[type, str, Callable[..., Any]]]] = {
    "": (),
    "bar": (BAR,),
    "bar, own flags": (
        BAR,
        (Watch, "_missing", lambda self, entry: entry.listed & ~entry.done & ~self.box.mask),
        (Watch, "_is_concerned", lambda self, entry, entered: True),
    ),
    "bar, abandoned": (BAR, (Sender, "_is_abandoned", lambda self, entry: False)),
}


@pytest.mark.parametrize("rules", WITHOUT)
def test_what_a_late_sender_left_in_one_copy_before_it_crashed(rules: str) -> None:
    # p3 writes so late into copy 1 that later messages have been read, then into copy 2, where the others have done with it, and
    # crashes: no receiver would ever set a flag there, so it is barred. Even without that the receivers do not report each other,
    # and q1, which gets the place, does not wait for it.
    script = Script({"p3 write 1": 60 * MS / (100 * US), "p3 write 2": 50}, {"p3 write 2": "p3"})
    join = Fault(kind="join", process="q1", at=Duration(300 * MS), group="g")
    with ExitStack() as without:
        for other in WITHOUT[rules]:
            without.enter_context(replaced(*other))
        ran = run([join], members=MEMBERS[:3], later=("q1",), script=script, tolerate="crash", slots=1)
    left = [row["detail"] for row in ran.of("fault", "p3") if row["detail"].get("operation") == "write"]
    assert left, "p3 was not late"
    assert bool(ran.halted()) == ("own flags" in rules)
    assert any(row["sender"] == "q1" for row in ran.of("deliver", "p1")) == ("abandoned" not in rules)


@pytest.mark.parametrize("barred", [True, False])
def test_a_copy_that_a_late_sender_had_not_reached_when_its_message_was_rejected(barred: bool) -> None:
    # p3 is stopped while it writes into copy 2. p1 has set its flags before that, and p2 after: p2 must not report p1.
    script = Script({"p3 write 2": [1, 50], "p2 finish 2": [1, 1, 200, 1]}, usual=0)
    pause = fault("pause", "p3", at=10 * MS + 120 * US)
    with nullcontext() if barred else replaced(Receiver, "_bar", lambda self, copy, message: None):
        ran = run([pause], members=MEMBERS[:3], script=script, tolerate="crash", duration=600 * MS)
    assert ran.of("late", "p1"), "no message of p3 was rejected"
    assert set(ran.halted()) == ({"p3"} if barred else {"p1", "p3"})


# --- members elsewhere ------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("kind", "process", "told"),
    [
        ("sluggish", "p6", {"p6": "excluded"}),
        ("pause", "p6", {"p6": "excluded"}),
        ("pause", "p5", {"p5": "excluded", "p6": "silence"}),
    ],
)
def test_a_remote_member_and_the_process_that_acts_for_it(tolerate: str, kind: str, process: str, told: dict[str, str]) -> None:
    more: dict[str, Any] = {"count": 5} if kind == "sluggish" else {}
    settings: dict[str, Any] = {"tolerate": tolerate, "remote": {"p6": "p5"}, "patience": Duration(200 * MS)}
    stop = fault(kind, process, length=4 * SECOND, **more)
    ran = run([stop], members=(*MEMBERS, "p6"), duration=6 * SECOND, rate=40.0, poll=Duration(2 * MS), **settings)
    assert ran.summary.quiet
    assert ran.violated == {}
    assert ran.halted() == told
    assert max(ran.standstill(member) for member in MEMBERS[:4]) < 500 * MS
    late = {row["process"] for row in ran.of("fault") if row["detail"].get("timing")}
    assert late == ({process} if kind == "pause" else set())


# --- parameters -------------------------------------------------------------------------------------------------------


def test_a_patience_that_intact_receivers_could_exceed_is_refused() -> None:
    problem = DESCRIPTION.check(Parameters(patience=Duration(5 * MS)), {"g": MEMBERS})
    assert problem is not None
    assert "patience is 5ms; make it at least" in problem
    assert DESCRIPTION.check(Parameters(patience=Duration(50 * MS)), {"g": MEMBERS}) is None
    assert DESCRIPTION.check(Parameters(patience=Duration(0)), {"g": MEMBERS}) is None
