"""The travelling salesman by parallel branch and bound: workers share the shortest tour so far by broadcast.

Theory of operation
-------------------
A salesman visits every city once and comes home; which tour is the shortest? The tree of all beginnings of tours is searched
depth first, and a beginning is left alone if no tour that begins so can be shorter than the best that is known (:class:`Search`).
What a beginning costs at the least is its length and, of every city that is still to be left and to be reached, the cheapest way:
distances are *reduced* by these beforehand, so that the bound is a sum like the length itself.

Workers are the members of one group. The tree is cut into *jobs*, beginnings of a few cities each, which everybody knows. Three
things are said, and each member does the same with them at the same place of the group's order:

- ``bound``: a tour that is shorter than the sender knew of. The shortest counts from here on, for everybody.
- ``done``: a job is finished. Who has fewer than two jobs is dealt the next ones, so nobody waits for the network; when no more
  are left, who has none gets the second one of another.
- a view: who is gone gives back what it had not finished, and it is dealt to the others; who comes is dealt jobs.

So there is no master, nobody asks for work, and all agree when everything is done, and on the result. A worker says ``bound``
before it says ``done``, and the group's order keeps that: a job is never done while a tour that was found in it is not known. Its
own tours a worker uses at once; if it crashes before they are known, its job is searched again.

A worker that is not in the first view comes later: it gets the state of the search (``StateRequest``) and helps.

:func:`simulate` runs workers on virtual time, where visiting a node of the tree costs :data:`NODE_COST`, and :func:`live` runs
processes of their own. ``python examples/travelling_salesman.py`` measures the speed-up of two processes on this machine, with
``--simulated`` that of one to sixteen on virtual time.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any, Final, TypeAlias

import plainchant
from plainchant import Group, Message, View

GROUP: Final = "salesman"
HANDS: Final = 2
"""Jobs that a worker has at a time: one that it does, and one so that it need not wait for the next."""
SLICE: Final = 500
"""Nodes that a worker visits before it looks at what the group has said."""
NODE_COST: Final = 5e-6
"""Seconds that it takes to visit a node on virtual time."""
LIVE_TIMEOUT: Final = 120.0
"""Seconds after which a live run has failed."""
NOTHING: Final = 1 << 62
"""The length of the best tour when none is known."""
NETWORK: Final[Mapping[str, Any]] = {"delay": "100us"}
"""Of the simulated workers: a local network, which does not reorder."""
PATIENT: Final[Mapping[str, Any]] = {"suspect_after": "2s", "patience": "5s"}
"""Parameters of live workers, which may have to wait for a processor."""
Tour: TypeAlias = tuple[int, ...]


# --- the problem ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Problem:
    """So many cities at random places of a square; the same seed gives the same ones."""

    cities: int
    seed: int = 0
    beginning: int = 4
    """Cities that a job begins with."""

    def __post_init__(self) -> None:
        if not 2 <= self.beginning < self.cities <= 30:
            raise plainchant.UsageError(
                f"{self.cities} cities, and jobs that begin with {self.beginning}: take 3 to 30 cities, and jobs that begin with "
                f"two at the least and not with all of them"
            )

    @cached_property
    def distances(self) -> list[list[int]]:
        chance = random.Random(self.seed)
        places = [complex(chance.randrange(1000), chance.randrange(1000)) for _ in range(self.cities)]
        return [[round(abs(one - other)) for other in places] for one in places]

    @cached_property
    def reduced(self) -> tuple[int, list[list[int]]]:
        """What every tour costs at the least, and what each step costs beyond that."""
        rows = [list(row) for row in self.distances]
        least = 0
        for city, row in enumerate(rows):
            cheapest = min(way for other, way in enumerate(row) if other != city)
            least += cheapest
            rows[city] = [way - cheapest for way in row]
        for city in range(self.cities):
            cheapest = min(row[city] for other, row in enumerate(rows) if other != city)
            least += cheapest
            for row in rows:
                row[city] -= cheapest
        return least, rows

    @cached_property
    def ways(self) -> list[list[tuple[int, int, int]]]:
        """From each city, the farthest first: to which one, its bit, what it costs beyond the least."""
        _, rows = self.reduced
        return [
            sorted(((to, 1 << to, rows[city][to]) for to in range(self.cities) if to != city), key=lambda way: (-way[2], way[0]))
            for city in range(self.cities)
        ]

    def bound(self, beginning: Tour) -> int:
        """What a tour that begins so costs at the least."""
        least, rows = self.reduced
        return least + sum(rows[one][other] for one, other in pairwise(beginning))

    def length(self, tour: Tour) -> int:
        return sum(self.distances[one][other] for one, other in zip(tour, (*tour[1:], tour[0]), strict=True))

    @cached_property
    def jobs(self) -> list[Tour]:
        """All beginnings, the most promising first."""
        beginnings = [(0, *rest) for rest in permutations(range(1, self.cities), self.beginning - 1)]
        return sorted(beginnings, key=lambda beginning: (self.bound(beginning), beginning))


class Search:
    """The tours that begin in one way, the nearest city first; some nodes at a time."""

    def __init__(self, problem: Problem, beginning: Tour) -> None:
        self._problem = problem
        self._open = [(problem.bound(beginning), sum(1 << city for city in beginning), beginning)]
        self.best: tuple[int, Tour] | None = None
        """The best tour that was found here and was better than what was known."""

    @property
    def is_over(self) -> bool:
        return not self._open

    def go(self, best: int, most: int) -> int:
        """Looks for tours that are shorter than ``best``; visits so many nodes at the most, and says how many."""
        problem, waiting, visited = self._problem, self._open, 0
        ways, (_, rows), cities = problem.ways, problem.reduced, problem.cities
        while waiting and visited < most:
            bound, been, path = waiting.pop()
            if bound >= best:
                continue
            visited += 1
            last = path[-1]
            if len(path) == cities:
                if bound + rows[last][0] < best:
                    best = bound + rows[last][0]
                    self.best = (best, path)
                continue
            waiting += [
                (bound + more, been | bit, (*path, city))
                for city, bit, more in ways[last]
                if not been & bit and bound + more < best
            ]
        return visited


def serial(problem: Problem) -> tuple[int, Tour, int]:
    """The shortest tour by one search, without any group: its length, the tour, and nodes visited."""
    search = Search(problem, (0,))
    nodes = search.go(NOTHING, NOTHING)
    assert search.best is not None
    return (*search.best, nodes)


def exact(problem: Problem) -> int:
    """The length of the shortest tour by dynamic programming (Held and Karp), for few cities."""
    distances, others = problem.distances, range(1, problem.cities)
    lengths = {(1 << city, city): distances[0][city] for city in others}
    for _ in range(problem.cities - 2):
        longer: dict[tuple[int, int], int] = {}
        for (been, last), length in lengths.items():
            for city in others:
                if not been >> city & 1:
                    key = (been | 1 << city, city)
                    longer[key] = min(longer.get(key, NOTHING), length + distances[last][city])
        lengths = longer
    return min(length + distances[last][0] for (_, last), length in lengths.items())


# --- a worker ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Report:
    """What a worker has come to, and what it did for it."""

    worker: str
    length: int = NOTHING
    tour: Tour = ()
    nodes: int = 0
    jobs: int = 0
    """Jobs that it has finished."""
    inherited: int = 0
    """Jobs that were given back by workers that are gone."""
    bounds: int = 0
    """Tours that it has broadcast."""
    seconds: float = 0.0
    """From its first view to the end, by its event loop's clock."""
    processor: float = 0.0
    """Seconds of processor time for that."""


async def _turn(nodes: int) -> None:
    """What visiting nodes costs where it takes time of its own: the event loop has its turn, no more."""
    await asyncio.sleep(0)


class Worker:
    """A member of the group that searches. All that the group agrees on is in ``best``, ``waiting`` and ``hands``."""

    def __init__(
        self,
        group: Group,
        problem: Problem,
        *,
        share: bool = True,
        pay: Callable[[int], Awaitable[None]] = _turn,
        tell: Callable[[str], None] = lambda what: None,
    ) -> None:
        self.group = group
        self.problem = problem
        self.share = share
        """Whether what others found cuts the search here."""
        self._pay = pay
        self._tell = tell
        self.best: tuple[int, Tour] = (NOTHING, ())
        self.waiting = list(range(len(problem.jobs)))
        """Jobs that nobody has, by number."""
        self.hands: dict[str, list[int]] = {}
        """Who has which jobs; its keys are the members."""
        self.report = Report(group.me)
        self._mine = NOTHING
        """The length of the best tour that was found here."""
        self._finished: set[int] = set()
        """Jobs that are finished here, whether the group knows it or not."""
        self._dealt = asyncio.Event()

    async def run(self) -> Report:
        """Searches until the whole group has finished."""
        async with asyncio.TaskGroup() as tasks:
            searching = tasks.create_task(self._search())
            await self._follow()
            searching.cancel()
        self.report.length, self.report.tour = self.best
        return self.report

    # --- what the group says ----------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        began: tuple[float, float] | None = None
        async for event in self.group:
            match event:
                case Message(sender=sender, payload=payload):
                    self._hear(sender, *json.loads(payload))
                case View():
                    began = began or (asyncio.get_running_loop().time(), time.process_time())
                    self._see(event)
                case plainchant.StateRequest():
                    await event.reply(json.dumps([self.best, self.waiting, self.hands]).encode())
                case plainchant.State(payload=payload):
                    (length, tour), self.waiting, self.hands = json.loads(payload)
                    self.best = (length, tuple(tour))
            self._dealt.set()
            if self.hands and not self.waiting and not any(self.hands.values()):
                break
        assert began is not None
        self.report.seconds = asyncio.get_running_loop().time() - began[0]
        self.report.processor = time.process_time() - began[1]

    def _hear(self, sender: str, word: str, *rest: Any) -> None:
        if word == "bound":
            length, tour = rest
            if length < self.best[0]:
                self.best = (length, tuple(tour))
        else:
            for jobs in self.hands.values():
                if rest[0] in jobs:  # whoever has done it
                    jobs.remove(rest[0])
            self._finished.discard(rest[0])
            self._deal()

    def _see(self, view: View) -> None:
        """Who is gone gives back, who has come is dealt to."""
        before, self.hands = self.hands, {member: self.hands.get(member, []) for member in view.members}
        given_back = [job for member, jobs in before.items() if member not in self.hands for job in jobs]
        self.report.inherited += len(given_back)
        self.waiting = sorted([*self.waiting, *given_back])
        self._deal()

    def _deal(self) -> None:
        """Everybody has two jobs as long as there are any, those with the fewest first; when there are no more, who has none
        gets one that another has not begun. (Nobody is told: all do the same.)"""
        if self.waiting and self.share and self.problem.bound(self.problem.jobs[self.waiting[0]]) >= self.best[0]:
            self.waiting.clear()  # no tour that is left can be shorter: the most promising jobs come first
        while True:
            poorest = min(self.hands.values(), key=len)
            richest = max(self.hands.values(), key=len)
            if self.waiting and len(poorest) < HANDS:
                poorest.append(self.waiting.pop(0))
            elif not poorest and len(richest) > 1:
                poorest.append(richest.pop())
            else:
                return

    # --- searching --------------------------------------------------------------------------------------------------

    async def _search(self) -> None:
        while True:
            job = next((job for job in self.hands.get(self.group.me, ()) if job not in self._finished), None)
            if job is None:
                self._dealt.clear()
                await self._dealt.wait()
            else:
                await self._do(job)

    async def _do(self, job: int) -> None:
        search = Search(self.problem, self.problem.jobs[job])
        while not search.is_over:
            if job not in self.hands[self.group.me]:
                return  # it was dealt to another, or another has done it
            best = min(self._mine, self.best[0]) if self.share else self._mine
            nodes = search.go(best, SLICE)
            self.report.nodes += nodes
            await self._pay(nodes)
            if search.best is not None and search.best[0] < self._mine:
                self._mine = search.best[0]
                if self._mine < self.best[0]:
                    self.report.bounds += 1
                    await self._say("bound", *search.best)
        self._finished.add(job)
        self.report.jobs += 1
        await self._say("done", job)
        self._tell("done")

    async def _say(self, *words: Any) -> None:
        await self.group.send(json.dumps(words).encode())


# --- runs -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Outcome:
    """What became of a run: workers that were there at the end, and in the simulator the run."""

    problem: Problem
    reports: dict[str, Report]
    result: Any = None

    @property
    def length(self) -> int:
        return next(iter(self.reports.values())).length

    @property
    def nodes(self) -> int:
        return sum(report.nodes for report in self.reports.values())

    @property
    def seconds(self) -> float:
        return max(report.seconds for report in self.reports.values())

    @property
    def processor(self) -> float:
        """Processor time of the busiest worker."""
        return max(report.processor for report in self.reports.values())


def problems(outcome: Outcome, length: int) -> list[str]:
    """What is wrong with a run, if the shortest tour has that length."""
    found = []
    everywhere = set(range(outcome.problem.cities))
    first = next(iter(outcome.reports.values()))
    for name, report in outcome.reports.items():
        if report.tour != first.tour:
            found.append(f"{name} has another tour than {first.worker}")
        if set(report.tour) != everywhere or len(report.tour) != len(everywhere):
            found.append(f"{name} has no tour through every city once")
        elif report.length != outcome.problem.length(report.tour):
            found.append(f"{name} says that its tour is {report.length} long, and it is {outcome.problem.length(report.tour)}")
        elif report.length != length:
            found.append(f"{name} has a tour of {report.length}; the shortest is {length}")
    if outcome.result is not None and outcome.result.verdict not in ("holds", None):
        found.append(f"the run: {outcome.result.verdict}")
    return found


async def _pay_on_virtual_time(nodes: int) -> None:
    await asyncio.sleep(nodes * NODE_COST)


def simulate(
    problem: Problem,
    workers: int,
    *,
    share: bool = True,
    seed: int = 0,
    verify: bool = True,
    worker: type[Worker] = Worker,
    **settings: Any,
) -> Outcome:
    """Workers on virtual time; ``settings`` are those of ``sim.run``: faults, network, ..."""

    async def program(group: Group) -> Report:
        return await worker(group, problem, share=share, pay=_pay_on_virtual_time).run()

    result = plainchant.sim.run(
        program,
        members=workers,
        group=GROUP,
        seed=seed,
        state=True,
        verify=verify,
        **{"network": NETWORK, "limit": "600s", **settings},
    )
    return Outcome(problem, result.returned, result)


async def place(task: Mapping[str, Any]) -> Report:
    """The whole life of a worker's process."""
    async with plainchant.join(
        GROUP,
        me=task["me"],
        peers=task["peers"],
        members=task["members"],
        state=True,
        parameters=task["parameters"],
        trace=task["trace"],
    ) as group:
        return await Worker(group, Problem(**task["problem"]), share=task["share"], tell=say).run()


def say(what: Any) -> None:
    """A line for the process that has started this one."""
    print(json.dumps(what), flush=True)


async def live(
    problem: Problem,
    peers: Mapping[str, str],
    *,
    share: bool = True,
    kill: Sequence[str] = (),
    parameters: Mapping[str, Any] = PATIENT,
    trace: str | None = None,
) -> Outcome:
    """A process for each worker; those in ``kill`` are killed when they have done a job. All have ended when this returns."""
    processes: dict[str, asyncio.subprocess.Process] = {}
    common = {
        "peers": dict(peers),
        "members": list(peers),
        "problem": dataclasses.asdict(problem),
        "share": share,
        "parameters": dict(parameters),
        "trace": trace,
    }
    try:
        async with asyncio.timeout(LIVE_TIMEOUT):
            for me in peers:
                processes[me] = await asyncio.create_subprocess_exec(
                    sys.executable,
                    str(Path(__file__).resolve()),
                    "--worker",
                    json.dumps({**common, "me": me}),
                    stdout=asyncio.subprocess.PIPE,
                    limit=1 << 24,
                )
            reports = await asyncio.gather(*(_watch(me, processes[me], kill=me in kill) for me in peers))
    except TimeoutError:
        late = f"{len(peers)} workers have not finished in {LIVE_TIMEOUT:g} s; take fewer cities"
        raise plainchant.PlainchantError(late) from None
    finally:
        for process in processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()
    return Outcome(problem, {report.worker: report for report in reports if report is not None})


async def _watch(me: str, process: asyncio.subprocess.Process, *, kill: bool) -> Report | None:
    """Reads what a worker says, up to its report; kills it after its first job if that is wanted."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        said = json.loads(line)
        if kill:
            process.kill()
            await process.wait()
            return None
        if said != "done":
            await process.wait()
            return Report(**{**said, "tour": tuple(said["tour"])})
    raise plainchant.PlainchantError(f"{me} has ended with status {await process.wait()}; what it said is above")


def free_peers(workers: int) -> dict[str, str]:
    """Addresses on this machine that nobody has now."""
    from plainchant.live.ports import free_ports

    return {f"w{number}": f"127.0.0.1:{port}" for number, port in enumerate(free_ports(workers), 1)}


# --- tables -----------------------------------------------------------------------------------------------------------


def simulated_table(problem: Problem, workers: Sequence[int]) -> list[str]:
    """Speed-up on virtual time beside one search without a group, with and without sharing the bound."""
    length, _, nodes = serial(problem)
    alone = nodes * NODE_COST
    lines = [
        f"{problem.cities} cities (seed {problem.seed}), {len(problem.jobs)} jobs; the shortest tour is {length} long",
        f"visiting a node takes {NODE_COST * 1e6:g} us; one worker is a search without a group",
        "",
        "workers  seconds  speed-up      nodes  bounds  jobs  broadcasts  packets a broadcast  |  unshared: speed-up      nodes",
        f"{1:7}  {alone:7.3f}  {1:8.2f}  {nodes:9,}" if 1 in workers else "",
    ]
    for number in [number for number in workers if number > 1]:
        shared = simulate(problem, number, verify=False)
        apart = simulate(problem, number, verify=False, share=False)
        for outcome in (shared, apart):
            if found := problems(outcome, length):
                raise plainchant.PlainchantError("; ".join(found))
        summary = shared.result.summary
        bounds = sum(report.bounds for report in shared.reports.values())
        jobs = sum(report.jobs for report in shared.reports.values())
        lines.append(
            f"{number:7}  {shared.seconds:7.3f}  {alone / shared.seconds:8.2f}  {shared.nodes:9,}  {bounds:6}  {jobs:4}  "
            f"{summary.messages_sent:10}  {summary.packets_sent / summary.messages_sent:19.2f}  |  "
            f"{alone / apart.seconds:18.2f}  {apart.nodes:9,}"
        )
    return lines


def live_table(problem: Problem, workers: Sequence[int]) -> list[str]:
    """Speed-up of processes on this machine beside one search without a group, with and without sharing the bound."""
    wall, processor = time.perf_counter(), time.process_time()
    length, _, nodes = serial(problem)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    lines = [
        f"{problem.cities} cities (seed {problem.seed}), {len(problem.jobs)} jobs; the shortest tour is {length} long",
        f"one search without a group: {nodes:,} nodes, {wall:.2f} s, processor time {processor:.2f} s",
        "",
        "workers  bound       seconds  speed-up  processor of the busiest  speed-up by that       nodes",
    ]
    for number in workers:
        for share in (True, False):
            outcome = asyncio.run(live(problem, free_peers(number), share=share))
            if found := problems(outcome, length):
                raise plainchant.PlainchantError("; ".join(found))
            lines.append(
                f"{number:7}  {'shared' if share else 'not shared':10}  {outcome.seconds:7.2f}  {wall / outcome.seconds:8.2f}  "
                f"{outcome.processor:24.2f}  {processor / outcome.processor:16.2f}  {outcome.nodes:10,}"
            )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="the travelling salesman by workers that share their best bound")
    parser.add_argument("--simulated", action="store_true", help="on virtual time instead of real processes")
    parser.add_argument("--cities", type=int, default=0, help="how many cities (16 live, 15 simulated)")
    parser.add_argument("--seed", type=int, default=4, help="which cities")
    parser.add_argument("--workers", type=int, nargs="+", help="how many workers (1 2 live; 1 2 4 8 16 simulated)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker is not None:
        say(dataclasses.asdict(asyncio.run(place(json.loads(given.worker)))))
        return 0
    try:
        if given.workers and min(given.workers) < 1:
            raise plainchant.UsageError(f"{min(given.workers)} workers find nothing; take at least one")
        if given.simulated:
            lines = simulated_table(Problem(given.cities or 15, given.seed), given.workers or (1, 2, 4, 8, 16))
        else:
            lines = live_table(Problem(given.cities or 16, given.seed), given.workers or (1, 2))
    except plainchant.PlainchantError as problem:
        print(f"travelling_salesman: {problem}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
