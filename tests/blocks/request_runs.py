"""Runs of questions to the group under faults: members crash and are excluded while they are asked, join, fail, and are slow."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter
from random import Random
from typing import Any

import plainchant
from plainchant.blocks import NoOutcome, NotEnoughAnswers, Outcome, Question, Replica, ReplicaOver, Requests
from plainchant.core.names import is_place
from plainchant.sim import Result

from .queue_runs import faults_of

QUESTIONS = 9
"""That each member asks."""
DURATION = "900ms"


@dataclasses.dataclass
class Ran:
    result: Result
    outcomes: list[Outcome]
    situations: Counter[str]

    @property
    def violated(self) -> list[str]:
        raised = [outcome.traceback for outcome in self.result.outcomes.values() if outcome.state == "raised"]
        return [*(f"{violation.property}: {violation.sentence}" for violation in self.result.violations), *raised]


def run(seed: int, **settings: Any) -> Ran:
    """One run of five members that ask and answer."""
    outcomes: list[Outcome] = []
    situations: Counter[str] = Counter()

    async def main(group: plainchant.Group) -> None:
        chance = Random(f"{seed} {group.me}")

        async def answer(question: Question) -> str:
            await asyncio.sleep(chance.choice((0.0, 0.002, 0.01, 0.06)))
            if chance.random() < 0.05:
                raise ValueError("no idea")
            return f"{question.payload} by {group.me}"

        async def ask(number: int) -> None:
            await asyncio.sleep(chance.uniform(0.0, 0.25))
            need = ("first", "majority", "all")[number % 3]
            patient = 20.0 if number % 2 else chance.uniform(0.005, 0.08)
            try:
                outcomes.append(await members.ask(f"{group.me} {number}", need=need, timeout=patient))  # type: ignore[arg-type]
                situations[f"{need}: enough"] += 1
            except NotEnoughAnswers as problem:
                outcomes.append(problem.outcome)
                situations[f"{need}: not enough"] += 1
            except NoOutcome:
                situations["no room"] += 1

        members = Requests(answer, most=12)
        try:
            async with Replica(group, members=members, patience=20.0) as replica, asyncio.TaskGroup() as tasks:
                for number in range(QUESTIONS):
                    tasks.create_task(ask(number))
                await replica.ended()
        except* ReplicaOver:
            situations["halted"] += 1

    result = plainchant.sim.run(
        main,
        members=5,
        seed=seed,
        state=True,
        duration=DURATION,
        raises=False,
        **{"network": {"loss": 0.03, "delay": {"uniform": ["500us", "4ms"]}}, "faults": faults_of(seed), **settings},
    )
    ran = Ran(result, outcomes, situations)
    _look(ran)
    return ran


def _look(ran: Ran) -> None:
    """What has happened in the run."""
    for outcome in ran.outcomes:
        for what in ("gone", "late", "failed"):
            ran.situations[f"somebody is {what}"] += bool(getattr(outcome, what))
        ran.situations["a view of fewer than five"] += len(outcome.asked) < 5
        if outcome.need == "majority" and outcome.enough and outcome.gone:
            ran.situations["a majority though somebody is gone"] += 1
    for row in ran.result.trace.select(["kind", "process", "detail"]).to_pylist():
        if row["kind"] == "note":
            detail = json.loads(row["detail"])
            if detail["event"] == "given" and not is_place(row["process"]):
                ran.situations["a joiner answers"] += 1
            elif detail["event"] == "outcome":
                ran.situations[f"over: {detail['why']}"] += 1
            elif detail["event"] == "apply" and detail.get("refused"):
                ran.situations["refused"] += 1
