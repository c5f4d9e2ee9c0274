"""On-line server migration (seed 001, 2.3): the example, with crashes, loss and cuts in the middle of it, and on real sockets."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from examples import migration
from examples.migration import Client, Outcome, Server, problems, say, simulate
from plainchant.lab.properties import verify
from plainchant.protocols.variants import replaced
from plainchant.trace import read
from plainchant.trace.collect import collect

from .live.test_api import addresses

KINDS = (
    "loss",
    "driver crashes",
    "server crashes",
    "newcomer crashes",
    "client crashes",
    "clients are cut off",
    "newcomer is cut off",
    "server pauses",
)
SEEDS = 5
CLIENTS = ("X", "Y")
MOVES = "B has moved to C"


def fault(kind: str, random: Random) -> list[dict[str, Any]]:
    """A fault about when the migration is under way, which without loss is from 85 ms to 165 ms."""
    at = f"{random.randint(70, 170)}ms"
    length = f"{random.randint(50, 600)}ms"
    if kind == "server crashes":
        return [{"kind": "crash", "process": random.choice("AB"), "at": at, "mid_broadcast": random.random() < 0.5}]
    if kind == "driver crashes":
        return [{"kind": "crash", "process": "A", "at": f"{random.randint(70, 110)}ms"}]
    if kind == "newcomer crashes":
        return [{"kind": "crash", "process": "C", "at": f"{random.randint(60, 110)}ms"}]
    if kind == "client crashes":
        return [{"kind": "crash", "process": "X", "at": at}]
    if kind == "clients are cut off":
        parts = random.choice([[["A", "B", "C", "X"], ["Y"]], [["A", "B", "C"], ["X", "Y"]], [["A", "B", "C"], ["X"], ["Y"]]])
        return [{"kind": "partition", "at": at, "length": length, "parts": parts}]
    if kind == "newcomer is cut off":
        return [{"kind": "partition", "at": at, "length": length, "parts": [["A", "B", "X", "Y"], ["C"]]}]
    if kind == "server pauses":
        return [{"kind": "pause", "process": random.choice("ABC"), "at": at, "length": f"{random.randint(20, 150)}ms"}]
    return []


def run(seed: int, faults: Sequence[Mapping[str, Any]], loss: float = 0.0, **options: Any) -> Outcome:
    settings = {"requests": 20, "pause": 0.015, "move_after": 10, "duration": "1s", **options}
    return simulate(seed=seed, faults=faults, loss=loss, **settings)


def wrong(outcome: Outcome, *, one_history: bool = True) -> list[str]:
    """What the application and the trace say is wrong."""
    result = outcome.result
    alive = [name for name, end in result.summary.processes.items() if end.state == "alive"]
    found = problems(outcome, alive, one_history=one_history)
    found += [str(violation) for violation in result.violations]
    if not result.summary.quiet:
        found.append(f"not quiet: {result.summary.not_quiet}")
    return found


def situations(outcome: Outcome) -> Counter[str]:
    """What happened, without names and numbers."""
    stories = [(server, line) for server in outcome.servers.values() for line in server.story]
    seen = Counter(line for line in dict.fromkeys(line for _, line in stories) if line in (MOVES, "nobody moves", "gives up"))
    seen["requests kept"] = sum(line.startswith("keeps") for _, line in stories)
    seen["requests held"] = sum(line.startswith("holds") for _, line in stories)
    seen["another driver"] = any(line == "goes over to g1-for-C-by-B" for _, line in stories)
    seen["newcomer lost"] = any(line == "C did not stay" for _, line in stories)
    return seen


def test_a_replica_moves_while_clients_go_on() -> None:
    outcome = simulate()
    assert wrong(outcome) == []
    assert outcome.result.outcomes["B"].state == "returned"
    a, b, c = (outcome.servers[name] for name in "ABC")
    assert MOVES in c.story
    assert 0 < len(b.log) < len(a.log) == len(c.log) == 60
    assert c.answered
    assert len(a.answered) + len(b.answered) + len(c.answered) == 60
    rows = [row for row in outcome.result.trace.to_pylist() if row["process"] == "A" and row["kind"] in ("join", "leave", "view")]
    of_service = [(row["kind"], row["group"], row["members"]) for row in rows if row["group"].startswith("g1")]
    assert of_service == [
        ("join", "g1", None),
        ("view", "g1", ["A", "B"]),
        ("join", "g1-for-C-by-A", None),
        ("view", "g1-for-C-by-A", ["A", "B", "C"]),
        ("leave", "g1", None),
        ("leave", "g1-for-C-by-A", None),
        ("join", "g1", None),
        ("view", "g1", ["A", "B", "C"]),
        ("view", "g1", ["A", "C"]),
    ]


@pytest.mark.sweep
def test_every_request_is_answered_once_whatever_happens_meanwhile(times: int) -> None:
    seen: Counter[str] = Counter()
    for kind in KINDS:
        for seed in range(SEEDS * times):
            random = Random(f"{kind}/{seed}")
            faults = fault(kind, random)
            outcome = run(seed, faults, loss=random.choice([0.02, 0.08]) if kind == "loss" else random.choice([0.0, 0.03]))
            assert wrong(outcome) == [], (kind, seed, faults)
            seen += situations(outcome)
    for situation in (MOVES, "nobody moves", "gives up", "requests kept", "another driver", "newcomer lost"):
        assert seen[situation], (situation, seen)


@pytest.mark.parametrize(
    "parts",
    [
        [["A", "X"], ["C", "Y", "B"]],
        [["A", "B", "X", "Y"], ["C"]],
        [["A", "B"], ["C", "X", "Y"]],
        [["A"], ["C"], ["B", "X", "Y"]],
    ],
)
def test_servers_that_are_cut_off_from_each_other_come_to_one_history_that_has_every_request_once(parts: list[list[str]]) -> None:
    cut = {"kind": "partition", "at": "600ms", "length": "700ms", "parts": parts}
    for seed in range(2):
        outcome = run(seed, [cut], requests=50, duration="1500ms")
        assert MOVES in outcome.servers["B"].story
        assert wrong(outcome, one_history=False) == [], seed


def test_both_parts_answer_and_the_one_that_gives_way_sends_its_requests_again() -> None:
    cut = {"kind": "partition", "at": "600ms", "length": "700ms", "parts": [["A", "X"], ["C", "Y"]]}
    outcome = run(1, [cut], requests=50, duration="1500ms")
    assert wrong(outcome, one_history=False) == []
    assert any(line.startswith("takes a state") for line in outcome.servers["C"].story[2:])
    assert any("was answered" in problem for problem in wrong(outcome))  # numbers that the other history gives otherwise


# --- checks that can fail ---------------------------------------------------------------------------------------------


def forget_requests(self: Server, sender: str, request: str) -> None:
    self.sent.pop(request, None)


async def apply_always(self: Server, sender: str, request: str) -> None:
    self.log.append(request)
    self.places[request] = len(self.log)
    self.sent.pop(request, None)
    if request in self.wanted:
        await self._answer(request)


async def learn_nothing(self: Server, group: str, *state: Any) -> None:
    self.knows = self.taught = True
    self.move, self.into = tuple(state[1]), (state[2][0], tuple(state[2][1]))


@pytest.mark.parametrize(
    ("method", "mutant"),
    [
        ("_keep_again", forget_requests),
        ("_learn", learn_nothing),
    ],
)
def test_a_server_with_a_mistake_is_found_out(method: str, mutant: Any) -> None:
    crash = {"kind": "crash", "process": "A", "at": "120ms"}
    with replaced(Server, method, mutant):
        outcomes = [run(seed, [crash] if seed % 2 else [], loss=0.05, pause=0.004, raises=False) for seed in range(2)]
    assert any(map(wrong, outcomes))


class Impatient(Client):
    """Asks at all counters at once."""

    async def _ask(self, request: str) -> None:
        for counter in self.open:
            self.asked[request] = counter
            await say(self.counters[counter], "ask", request)


def test_a_request_that_is_asked_everywhere_is_applied_once_and_answered_alike() -> None:
    with replaced(migration, "Client", Impatient):
        outcome = run(0, [])
    assert wrong(outcome, one_history=False) == []
    places = {request: place for place, request in enumerate(outcome.servers["A"].log, 1)}
    answers = {request: set(given) for client in outcome.clients.values() for request, given in client.answers.items()}
    assert answers == {request: {place} for request, place in places.items()}
    assert any(len(given) > 1 for client in outcome.clients.values() for given in client.answers.values())

    with replaced(migration, "Client", Impatient), replaced(Server, "_ordered", apply_always):
        outcome = run(0, [])
    assert "A has applied a request twice" in wrong(outcome, one_history=False)


# --- live -------------------------------------------------------------------------------------------------------------


def test_a_replica_moves_between_real_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "FORM_TIMEOUT", 30.0)
    peers = addresses("A", "B", "C", *CLIENTS)
    patient = {"suspect_after": "10s"}  # a machine that is busy with other tests is not to be taken for a crash
    outcome = asyncio.run(migration.live(peers=peers, parameters=patient, trace=str(tmp_path / "spool")))
    assert problems(outcome, ["A", "C", *CLIENTS]) == []
    assert all(MOVES in server.story for server in outcome.servers.values())
    collect([tmp_path / "spool"], tmp_path / "out", alive=())
    assert verify(read(tmp_path / "out" / "trace").table).verdict == "holds"
