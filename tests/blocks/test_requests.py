"""Questions to the group: first, majority and all, whoever crashes, fails, joins or is late; and requests that are wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import plainchant
from plainchant import UsageError
from plainchant.blocks import Block, Command, NoOutcome, NotEnoughAnswers, Question, Replica, Requests
from plainchant.sim import Result

from . import request_runs
from .request_mutants import MUTANTS

SEEDS = 10
SITUATIONS = (
    "first: enough",
    "first: not enough",
    "majority: enough",
    "majority: not enough",
    "all: enough",
    "all: not enough",
    "halted",
    "somebody is gone",
    "somebody is late",
    "somebody is failed",
    "a view of fewer than five",
    "a majority though somebody is gone",
    "a joiner answers",
    "over: enough",
    "over: stopped",
    "over: impossible",
    "refused",
)
"""What has to occur somewhere in the sweep."""
Program = Callable[[Replica, Requests], Awaitable[Any]]


async def own_name(question: Question) -> str:
    """p1 answers at once, p2 after 10 ms, and so on; who is asked something else than its name takes for ever, or has no idea."""
    me = question.payload
    if me == "slow":
        await asyncio.sleep(1000)
    if me == "unknown":
        raise KeyError("unknown")
    return "here"


def together(program: Program, members: int = 3, handler: Any = own_name, **settings: Any) -> Result:
    """Runs a program at p1; the others only answer."""
    made = {name: settings.pop(name) for name in ("most", "largest") if name in settings}

    async def main(group: plainchant.Group) -> Any:
        requests = Requests(handler, **made)
        async with Replica(group, members=requests) as replica:
            if group.me == "p1":
                return await program(replica, requests)
            await replica.until(lambda: "p1" not in (replica.view.members if replica.view else ()))
            return None

    return plainchant.sim.run(main, members=members, state=True, **settings)


def value(result: Result) -> Any:
    assert result.verdict == "holds", result.violations
    return result.returned["p1"]


# --- what a question does ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("need", "least"), [("first", 1), ("majority", 3), ("all", 5)])
def test_a_question_waits_for_as_many_answers_as_it_needs(need: Any, least: int) -> None:
    async def program(replica: Replica, requests: Requests) -> Any:
        return await requests.ask("who is there?", need=need)

    outcome = value(together(program, 5))
    assert outcome.asked == ("p1", "p2", "p3", "p4", "p5")
    assert len(outcome.answers) == least
    assert outcome.first == "here"
    assert set(outcome.answers) | set(outcome.late) == set(outcome.asked)
    assert outcome.enough
    assert not outcome.gone
    assert not outcome.failed


def test_who_is_asked_and_crashes_is_not_waited_for() -> None:
    async def program(replica: Replica, requests: Requests) -> Any:
        return await requests.ask("who is there?", need="all")

    async def wait_a_little(question: Question) -> str:
        await asyncio.sleep(0.05)
        return "here"

    faults = [{"kind": "crash", "process": "p2", "at": "20ms"}]
    outcome = value(together(program, 4, wait_a_little, faults=faults))
    assert outcome.enough
    assert outcome.gone == ("p2",)
    assert set(outcome.answers) == {"p1", "p3", "p4"}


def test_a_majority_is_one_of_those_who_were_asked() -> None:
    """Two of five are gone, and two do not answer: one answer is no majority, though three are there."""

    async def program(replica: Replica, requests: Requests) -> Any:
        with pytest.raises(NotEnoughAnswers) as problem:
            await requests.ask("who is there?", need="majority", timeout=2)
        return problem.value

    async def only_p1(question: Question) -> str:
        names.append(asyncio.current_task().get_name())  # type: ignore[union-attr]
        if len(names) > 1:
            await asyncio.sleep(1000)
        return "here"

    names: list[str] = []
    faults = [{"kind": "crash", "process": process, "at": "30ms"} for process in ("p4", "p5")]
    problem = value(together(program, 5, only_p1, faults=faults))
    assert len(problem.outcome.answers) == 1
    assert problem.outcome.gone == ("p4", "p5")
    assert len(problem.outcome.late) == 2
    assert "wanted 'majority', and 1 of 5 have answered (gone: p4, p5; late: p2, p3)" in str(problem)


def test_a_handler_that_fails_is_no_answer() -> None:
    async def program(replica: Replica, requests: Requests) -> Any:
        with pytest.raises(NotEnoughAnswers, match="0 of 3 have answered") as problem:
            await requests.ask("unknown", need="first")  # it is over when all have failed, and nobody waits any longer
        return problem.value.outcome.failed

    assert value(together(program)) == {name: "KeyError: 'unknown'" for name in ("p1", "p2", "p3")}


def test_who_waits_long_enough_is_told_who_is_late() -> None:
    async def program(replica: Replica, requests: Requests) -> Any:
        with pytest.raises(NotEnoughAnswers) as problem:
            await requests.ask("slow", timeout=0.5)
        assert requests.digest() == Requests.digest(requests)
        assert (await requests.ask("who is there?", need="all")).enough
        return problem.value.outcome.late

    assert value(together(program)) == ("p1", "p2", "p3")


def test_a_question_that_nobody_waits_for_any_more_is_over() -> None:
    async def program(replica: Replica, requests: Requests) -> Any:
        asking = asyncio.create_task(requests.ask("slow"))
        await replica.until(lambda: len(requests._open) == 1)
        asking.cancel()
        await replica.until(lambda: not requests._open)
        return True

    assert value(together(program))


class Log(Block):
    """A block beside the requests: all that was written."""

    kind = "log"

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Any] = []

    def apply(self, command: Command) -> None:
        self.lines.append(command.body)

    def snapshot(self) -> Any:
        return list(self.lines)

    def restore(self, snapshot: Any) -> None:
        self.lines = list(snapshot)


def test_an_ordinary_function_answers_from_the_place_of_the_question() -> None:
    """All members have read the same when they answer, however fast the log grows meanwhile."""

    async def main(group: plainchant.Group) -> Any:
        log = Log()
        requests = Requests(lambda question: len(log.lines))
        async with Replica(group, log=log, members=requests) as replica, asyncio.TaskGroup() as tasks:
            for number in range(20):
                tasks.create_task(log.execute(number))
            outcomes = [await requests.ask("how long?", need="all") for _ in range(5)]
            await replica.until(lambda: len(log.lines) == 60)
            return [set(outcome.answers.values()) for outcome in outcomes]

    result = plainchant.sim.run(main, members=3, state=True, network={"delay": {"uniform": ["1ms", "5ms"]}}, duration="2s")
    assert result.verdict == "holds"
    assert all(len(lengths) == 1 for outcomes in result.returned.values() for lengths in outcomes)


def test_there_are_no_more_open_questions_than_agreed() -> None:
    async def program(replica: Replica, requests: Requests) -> Any:
        most = 0
        async with asyncio.TaskGroup() as tasks:
            asking = [tasks.create_task(requests.ask(number, need="all")) for number in range(12)]
            while not all(task.done() for task in asking):
                most = max(most, len(requests._open))
                await asyncio.sleep(0.0005)
        slow = [asyncio.create_task(requests.ask("slow", timeout=5)) for _ in range(3)]
        await replica.until(lambda: len(requests._open) == 3)
        with pytest.raises(NoOutcome, match="there was no room for a question"):
            await requests.ask("who is there?", timeout=1)
        await asyncio.gather(*slow, return_exceptions=True)
        return most

    assert value(together(program, most=3)) == 3


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="the most of requests is 0"):
        Requests(own_name, most=0)
    with pytest.raises(UsageError, match="give a function of one"):
        Requests("hello")  # type: ignore[arg-type]

    async def program(replica: Replica, requests: Requests) -> Any:
        with pytest.raises(UsageError, match="a question needs 'first', 'majority', 'all', and not 'some'"):
            await requests.ask("?", need="some")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="a question of 12 bytes: members takes 8"):
            await requests.ask(b"0123456789")
        with pytest.raises(UsageError, match="give it more time"):
            await requests.ask("?", timeout=0)
        with pytest.raises(NotEnoughAnswers) as problem:
            await requests.ask("long")
        return problem.value.outcome.failed

    def long(question: Question) -> Any:
        return "x" * 20 if question.asker == "p1" else object()

    assert set(value(together(program, handler=long, largest=8)).values()) == {"its answer has 21 bytes, and members takes 8"}


def test_an_answer_that_cannot_be_sent_is_a_failure() -> None:
    async def program(replica: Replica, requests: Requests) -> Any:
        with pytest.raises(NotEnoughAnswers) as problem:
            await requests.ask("?")
        return problem.value.outcome.failed

    assert "TypeError" in value(together(program, handler=lambda question: object()))["p1"]


def test_parts_that_come_together_end_what_is_open() -> None:
    async def main(group: plainchant.Group) -> Any:
        requests = Requests(own_name)
        async with Replica(group, members=requests) as replica:
            await asyncio.sleep(0.6)
            outcome = None
            if group.me in ("p1", "p3"):
                with pytest.raises(NotEnoughAnswers) as problem:
                    await requests.ask("slow", need="all", timeout=20)
                outcome = problem.value.outcome
            await replica.until(lambda: len(replica.view.members) == 5 and not replica.is_merging)  # type: ignore[union-attr]
            await asyncio.sleep(1.0)
            return outcome, requests.digest()

    parts = {"kind": "partition", "at": "300ms", "length": "900ms", "parts": [["p1", "p2"], ["p3", "p4", "p5"]]}
    result = plainchant.sim.run(main, members=5, protocol="newtop", state=True, faults=[parts], duration="3s")
    assert result.verdict == "holds", result.violations
    assert result.returned["p1"][0].asked == ("p1", "p2")
    assert result.returned["p3"][0].late == ("p3", "p4", "p5")
    assert len({digest for _, digest in result.returned.values()}) == 1


# --- under faults -----------------------------------------------------------------------------------------------------


def test_a_majority_is_not_asked_for_where_any_survivor_goes_on() -> None:
    """One of two members would never get it again, though it goes on."""

    async def ask(replica: Replica, members: Requests) -> tuple[int, int]:
        with pytest.raises(UsageError, match='choose need="first" or "all"'):
            await members.ask("here?")
        both = await members.ask("here?", need="all")
        await asyncio.sleep(1)
        alone = await members.ask("here?", need="all")
        return len(both.answers), len(alone.answers)

    crash = {"kind": "crash", "process": "p2", "at": "300ms"}
    result = together(ask, members=2, parameters={"partitions": "none"}, faults=[crash])
    assert result.returned["p1"] == (2, 1)


@pytest.mark.sweep
def test_every_outcome_is_right_whatever_goes_wrong(times: int) -> None:
    occurred: Counter[str] = Counter()
    for seed in range(times * SEEDS):
        ran = request_runs.run(seed)
        assert ran.violated == [], f"tests.blocks.request_runs.run({seed})"
        assert ran.result.summary.quiet
        for outcome in ran.outcomes:
            assert all(answer.endswith(f" by {member}") for member, answer in outcome.answers.items())
        occurred += ran.situations
    missing = [situation for situation in SITUATIONS if not occurred[situation]]
    assert not missing, f"the sweep never came to: {', '.join(missing)}; it came to {dict(occurred)}"


@pytest.mark.parametrize(
    ("protocol", "parameters"),
    [
        ("sequencer", {"resilience": 1}),
        ("newtop", {}),
        ("rtcast", {}),
        ("mailbox", {}),
        ("dedos", {}),
        ("dedos", {"reach": "node"}),
    ],
)
def test_it_runs_over_every_order(protocol: str, parameters: dict[str, Any]) -> None:
    faults = [{"kind": "crash", "process": "p2", "at": "60ms"}]
    ran = request_runs.run(2, protocol=protocol, parameters=parameters, faults=faults, network={})
    assert ran.violated == []
    assert ran.situations["somebody is gone"] + ran.situations["a view of fewer than five"] > 0


@pytest.mark.parametrize("mutant", MUTANTS)
def test_requests_without_one_of_their_rules_are_caught(mutant: str) -> None:
    """Only ``majority of those there`` takes more than two seeds: a member has to be gone at the right moment."""
    with MUTANTS[mutant].applied(must_act=True):
        for seed in (11, 0, *range(1, 24)):
            if any(sentence.startswith("answers") for sentence in request_runs.run(seed).violated):
                return
    raise AssertionError(f"{mutant} was not caught")
