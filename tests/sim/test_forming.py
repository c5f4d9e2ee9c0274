"""Groups that are formed, closed and renamed while processes run: what a simulated process and its workload make of them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from plainchant.core.model import Duration, Invitation, Join, Reason, ScenarioError, UsageError, View
from plainchant.lab.properties import verify
from plainchant.scenario.model import Fault, Network, Scenario, Workload
from plainchant.sim import ApplicationError, Member, Simulation, functions
from plainchant.trace import TraceBuffer
from plainchant.trace.validation import validate
from tests.salon import SALON, Salon, Song

from .conftest import MS, Run

FOUR = ("p1", "p2", "p3", "p4")


def fault(kind: str, at_ms: float, process: str, group: str = "", **settings: Any) -> Fault:
    return Fault(kind=kind, at=Duration(int(at_ms * MS)), process=process, group=group, **settings)


def run_salon(*faults: Fault, options: dict[str, Any] | None = None, **settings: Any) -> Run:
    """Runs the salon with four members for 100 ms and drains it; the trace must be in order and keep what is promised."""
    given: dict[str, Any] = {
        "protocol": "salon",
        "members": FOUR,
        "duration": 100 * MS,
        "drain": 1000 * MS,
        "workload": (Workload(rate=1000.0),),
        "fault": faults,
    }
    trace = TraceBuffer()
    simulation = Simulation(Scenario(**{**given, **settings}), trace=trace, description=SALON, **(options or {}))
    run = Run(simulation.run(), trace)
    assert validate(run.table) == []
    assert verify(run.table).verdict == "holds"
    return run


class Slow(Salon):
    """Sends one small packet a millisecond."""

    def start(self) -> None:
        self.busy: dict[str, None] = {}

    def ready(self, group: str) -> None:
        if group in self.views and group not in self.busy and (batch := self.host.take(group, 200, 1)) is not None:
            self.busy[group] = None
            self.host.send(self.views[group].members, Song(group, batch))
            self.host.set_timer(("go on", group), self.host.now + MS)

    def expire(self, timer: Any) -> None:
        del self.busy[timer[1]]
        self.ready(timer[1])


def of_group(run: Run, group: str, process: str) -> list[str]:
    return [row["kind"] for row in run.rows if row["process"] == process and row["group"] == group]


def detail(row: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(row["detail"])
    return told


# --- forming ----------------------------------------------------------------------------------------------------------


def test_those_who_agree_form_a_group_and_their_workload_begins_there() -> None:
    run = run_salon(fault("refuse", 10, "p4"), fault("form", 20.5, "p1", "room", members=("p2", "p3", "p4")))
    views = [row for row in run.of("view") if row["group"] == "room"]
    assert {row["process"]: row["members"] for row in views} == {name: ["p1", "p2", "p3"] for name in ("p1", "p2", "p3")}
    for name in ("p1", "p2", "p3"):
        assert of_group(run, "room", name)[:2] == ["join", "view"]
        assert len([row for row in run.of("send", name) if row["group"] == "room"]) > 50
    assert not of_group(run, "room", "p4")
    assert run.summary.quiet


def test_a_process_may_refuse_one_group_and_not_another() -> None:
    run = run_salon(
        fault("refuse", 1, "p2", "attic"),
        fault("form", 20.5, "p1", "attic", members=("p2", "p3")),
        fault("form", 20.5, "p1", "room", members=("p2", "p3")),
    )
    views = {(row["process"], row["group"]): row["members"] for row in run.of("view") if row["group"] != "g"}
    assert views["p1", "attic"] == ["p1", "p3"]
    assert views["p2", "room"] == ["p1", "p2", "p3"]
    assert ("p2", "attic") not in views


def test_a_group_that_nobody_agrees_to_is_not_formed() -> None:
    run = run_salon(fault("refuse", 1, "p2"), fault("form", 20.5, "p1", "room", members=("p2",)))
    (refused,) = run.of("refused")
    assert (refused["process"], refused["group"], detail(refused)["reason"]) == ("p1", "room", "nobody")
    assert "p2 refuses to be in room" in detail(refused)["text"]
    assert "room" not in {row["group"] for row in run.of("send")}


def test_a_group_is_proposed_to_the_incarnations_that_are_there() -> None:
    run = run_salon(
        fault("leave", 10.5, "p2"),
        fault("restart", 20.5, "p2"),
        fault("form", 40.5, "p1", "room", members=("p2",)),
        workload=(),
    )
    assert [row["members"] for row in run.of("view", "p2#1") if row["group"] == "room"] == [["p1", "p2#1"]]


def test_applications_are_asked_and_told() -> None:
    log: list[Any] = []

    def start(member: Member) -> None:
        if member.name == "p1":
            member.propose("room", ("p2", "p3"))
            member.propose("attic", ("p3",))

    def invited(member: Member, invitation: Invitation) -> bool:
        log.append((member.name, invitation))
        return member.name != "p3"

    def view(member: Member, view: View) -> None:
        if view.group == "room":
            log.append((member.name, view.members))
            member.send("room", b"here")

    def deliver(member: Member, group: str, sender: str, payload: bytes, seq: int) -> None:
        log.append((member.name, group, sender, payload))
        if (member.name, sender) == ("p1", "p2"):
            member.rename("room", "hall")
            member.rename("room", "hall")

    def renamed(member: Member, group: str, view: View) -> None:
        log.append((member.name, group, view.group))
        if member.name == "p2":
            member.close("hall")

    application = functions(
        on_start=start,
        on_invited=invited,
        on_view=view,
        on_deliver=deliver,
        on_renamed=renamed,
        on_refused=lambda member, group, reason: log.append((member.name, group, reason)),
        on_left=lambda member, group: log.append((member.name, f"left {group}")),
    )
    run_salon(workload=(), options={"applications": lambda name: application})
    p1 = [entry[1:] for entry in log if entry[0] == "p1"]
    assert p1[0] == ("attic", Reason("nobody", "nobody agreed to attic: the application of p3 does not agree"))
    assert p1[1] == (("p1", "p2"),)
    assert sorted(p1[2:4]) == [("room", "p1", b"here"), ("room", "p2", b"here")]
    assert p1[4:] == [("room", "hall"), ("left hall",)], "the second wish came too late: the group has another name"
    assert ("p2", Invitation("room", "p1", ("p1", "p2", "p3"), 1)) in log
    assert [entry for entry in log if entry[0] == "p2"][-1] == ("p2", "left hall")


def test_what_an_application_may_not_ask_for_is_said() -> None:
    def start(member: Member) -> None:
        with pytest.raises(UsageError, match="p1 is in 'g' already"):
            member.propose("g", ("p2",))
        with pytest.raises(UsageError, match="p1 is not in group 'room'; it is in: g"):
            member.close("room")
        with pytest.raises(UsageError, match="p1 is not in group 'room'; it is in: g"):
            member.rename("room", "hall")

    run_salon(options={"applications": {"p1": functions(on_start=start)}})


def test_an_application_that_cannot_answer_is_an_error() -> None:
    def invited(member: Member, invitation: Invitation) -> bool:
        raise KeyError(invitation.group)

    with pytest.raises(ApplicationError, match=r"the application of p2 at 21500us raised KeyError: 'room'"):
        run_salon(
            fault("form", 20.5, "p1", "room", members=("p2",)), options={"applications": {"p2": functions(on_invited=invited)}}
        )


class Unkind(Salon):
    """Lets nobody in who comes later."""

    def join(self, group: str, how: Any) -> None:
        if isinstance(how, Join):
            self.host.refused(group, Reason("no group", f"nobody let {self.host.me} into {group}"))
        else:
            super().join(group, how)


def test_who_is_let_into_no_group_halts_and_may_come_back() -> None:
    run = run_salon(
        fault("join", 20.5, "p5"),
        fault("restart", 40.5, "p5"),
        later=("p5",),
        options={"make": Unkind},
    )
    assert run.history("p5") == ["start", "fault", "refused", "crash"]
    assert run.history("p5#1")[-2:] == ["refused", "crash"]
    assert run.summary.processes["p5"].reason == "nobody let p5 into g"


def test_who_is_not_let_into_one_group_goes_on_in_the_others() -> None:
    groups = {"g": FOUR, "h": ("p1", "p2")}
    run = run_salon(fault("join", 20.5, "p4", "h"), groups=groups, options={"make": Unkind})
    assert "crash" not in run.history("p4")
    assert [row["group"] for row in run.of("refused", "p4")] == ["h"]
    assert {row["group"] for row in run.of("send", "p4")} == {"g"}


# --- closing ----------------------------------------------------------------------------------------------------------


def test_a_closed_group_is_over_for_everybody_and_nobody_comes_back_to_it() -> None:
    run = run_salon(
        fault("form", 10.5, "p1", "room", members=("p2", "p3")),
        fault("close", 40.5, "p2", "room"),
        fault("leave", 50.5, "p3"),
        fault("restart", 70.5, "p3"),
    )
    for name in ("p1", "p2", "p3"):
        assert of_group(run, "room", name)[-1] == "leave"
        assert run.of("leave", name)[0]["true_time"] < 45 * MS
    assert {row["group"] for row in run.of("join", "p3#1")} == set(), "the salon lets nobody in, but only g was asked for"
    assert run.summary.processes["p1"].state == "alive"


def test_a_process_whose_last_group_is_closed_is_gone() -> None:
    run = run_salon(fault("close", 40.5, "p2", "g"))
    assert {end.state for end in run.summary.processes.values()} == {"left"}


# --- other names ------------------------------------------------------------------------------------------------------


def test_a_renamed_group_is_left_and_joined_and_its_workload_goes_on() -> None:
    run = run_salon(fault("rename", 40.5, "p2", "g", name="hall"))
    for name in FOUR:
        history = [(row["kind"], row["group"]) for row in run.rows if row["process"] == name]
        at = history.index(("leave", "g"))
        assert history[at : at + 3] == [("leave", "g"), ("join", "hall"), ("view", "hall")]
        assert ("send", "g") not in history[at:]
        seqs = [row["seq"] for row in run.of("send", name) if row["group"] == "hall"]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) > 50
        assert run.of("view", name)[-1]["view"] == 2


@pytest.mark.parametrize("workload", [Workload(closed=3, count=60), Workload(count=60), Workload(rate=500.0, burst=7)])
def test_every_kind_of_workload_survives_a_new_name(workload: Workload) -> None:
    run = run_salon(
        fault("rename", 10.5, "p2", "g", name="hall"),
        fault("rename", 20.5, "p2", "hall", name="attic"),
        workload=(workload,),
        options={"make": Slow},
    )
    assert {row["group"] for row in run.of("deliver", "p1")} == {"g", "hall", "attic"}
    sent = [len(run.of("send", name)) for name in FOUR]
    if workload.count:
        assert sent == [workload.count] * 4
    assert run.summary.quiet


def test_a_message_that_a_new_name_cuts_off_is_sent_whole_under_it() -> None:
    """p1 has a message of ten fragments under way, of which some are delivered in g when the group gets its new name."""

    run = run_salon(
        fault("rename", 3.2, "p2", "g", name="hall"),
        workload=(Workload(senders=("p1",), size=2000, count=2, rate=10_000.0),),
        options={"make": Slow},
    )
    assert [(row["group"], row["seq"], row["size"]) for row in run.of("send", "p1")] == [
        ("g", 1, 2000),
        ("hall", 1, 2000),
        ("hall", 2, 2000),
    ]
    for name in FOUR:
        delivered = [(row["group"], row["seq"], row["size"]) for row in run.of("deliver", name)]
        assert delivered == [("hall", 1, 2000), ("hall", 2, 2000)]


def test_a_process_that_is_leaving_leaves_under_the_new_name() -> None:
    run = run_salon(
        fault("pause", 39, "p3", length=10 * MS),
        fault("rename", 40.5, "p2", "g", name="hall"),
        fault("leave", 42.5, "p3"),
        network=Network(wire=True),
    )
    assert [row["group"] for row in run.of("leave", "p3")] == ["g", "hall"]
    assert run.summary.processes["p3"].state == "left"


def test_who_comes_back_comes_back_to_the_group_by_its_name_of_now() -> None:
    asked: list[tuple[str, Any]] = []

    class Listening(Salon):
        def join(self, group: str, how: Any) -> None:
            asked.append((self.host.me, group))
            super().join(group, how)

    run_salon(
        fault("rename", 10.5, "p2", "g", name="hall"),
        fault("crash", 20.5, "p4"),
        fault("rename", 30.5, "p2", "hall", name="attic"),
        fault("restart", 40.5, "p4"),
        fault("form", 45.5, "p1", "g", members=("p2",)),
        fault("close", 60.5, "p1", "attic"),
        fault("crash", 70.5, "p3"),
        options={"make": Listening},
    )
    assert asked[-2:] == [("p4#1", "attic"), ("p1", "g")]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "problem"),
    [
        ([fault("form", 1, "p1", "room")], 'needs "members"'),
        ([fault("form", 1, "p1", members=("p2",))], 'needs "group"'),
        ([fault("form", 1, "p1", "g", members=("p2",))], 'there is a group "g" from the start; choose another name'),
        ([fault("form", 1, "p1", "room", members=("p9",))], 'fault.0.members.0: there is no process "p9"'),
        ([fault("rename", 1, "p1", "g", name="g")], 'there is a group "g" from the start'),
        ([fault("rename", 1, "p1", "g")], 'needs "name"'),
        ([fault("close", 1, "p1")], 'needs "group"'),
        ([fault("close", 1, "p1", "rom")], 'there is no group "rom"; there are: g'),
        ([fault("close", 1, "p1", "g", members=("p2",))], 'a fault of kind close has no "members"'),
    ],
)
def test_what_cannot_be_is_refused(faults: list[Fault], problem: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        run_salon(*faults)
    assert problem in str(caught.value)


def test_names_that_are_given_up_may_be_given_again() -> None:
    run = run_salon(
        fault("rename", 10.5, "p1", "g", name="hall"),
        fault("form", 30.5, "p3", "g", members=("p4",)),
    )
    numbers = [row["seq"] for row in run.of("send", "p3") if row["group"] == "g"]
    assert numbers == list(range(1, len(numbers) + 1)), "numbers go on where they were"
    assert [row["members"] for row in run.of("view", "p3")][-1] == ["p3", "p4"]


def test_workload_may_name_a_group_that_is_formed_later() -> None:
    run = run_salon(
        fault("form", 10.5, "p1", "room", members=("p2",)), workload=(Workload(senders=("p2",), group="room", rate=500.0),)
    )
    assert {(row["process"], row["group"]) for row in run.of("send")} == {("p2", "room")}


def test_protocols_that_cannot_are_not_asked() -> None:
    scenario = Scenario(
        protocol="salon", members=FOUR, parameters={"forming": False}, fault=(fault("close", 1, "p1", "g"),), duration=100 * MS
    )
    with pytest.raises(ScenarioError, match="processes of salon do not form, close or rename groups while they run"):
        Simulation(scenario, trace=TraceBuffer(), description=SALON)
    still = dataclasses.replace(scenario, parameters={"moving": False}, fault=(fault("crash", 1, "p1"),))
    with pytest.raises(ScenarioError, match="with these parameters salon does not survive a crash"):
        Simulation(still, trace=TraceBuffer(), description=SALON)
