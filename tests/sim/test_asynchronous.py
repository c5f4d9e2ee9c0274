"""asyncio programs in the simulator: every primitive, every fault, the ends of a run, and what it is for: finding mistakes."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import logging
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from plainchant.core.model import MS, SECOND, UsageError, View, parse_duration
from plainchant.core.names import is_place
from plainchant.group import Group, Halted, JoinTimeout, Message, Refused, State, StateRequest
from plainchant.scenario.model import Fault, Network, RandomFaults, Scenario
from plainchant.sim import NotSimulated, Outcome, Result, Standstill, Unfinished, run
from plainchant.trace import read

Log = dict[str, list[str]]


def now() -> float:
    return asyncio.get_running_loop().time()


# --- services that the tests run --------------------------------------------------------------------------------------


class Bank:
    """A replicated account book: every replica applies what the group delivers, in the group's order."""

    def __init__(self, transfers: int = 10, pause: float = 0.02, *, wrong: bool = False) -> None:
        self.books: dict[str, list[str]] = {}
        self.confirmed: dict[str, list[str]] = {}
        self._transfers = transfers
        self._pause = pause
        self._wrong = wrong

    async def main(self, group: Group) -> None:
        book = self.books[group.me] = []
        self.confirmed[group.me] = []
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._teller(group))
            async for event in group:
                if isinstance(event, Message) and not (self._wrong and event.sender == group.me):
                    book.append(event.payload.decode())

    async def _teller(self, group: Group) -> None:
        for number in range(self._transfers):
            text = f"{group.me} pays {number}"
            if self._wrong:
                self.books[group.me].append(text)  # its own writes at once, before the group has ordered them
            receipt = await group.send(text.encode())
            await receipt.delivered()
            self.confirmed[group.me].append(text)
            await asyncio.sleep(self._pause)

    def replicas(self, names: list[str]) -> set[tuple[str, ...]]:
        return {tuple(self.books[name]) for name in names}


def survivors(result: Result) -> list[str]:
    """Those that were members from the start and still are at the end."""
    return [name for name, end in result.summary.processes.items() if end.state == "alive" and is_place(name)]


CRASH = {"kind": "crash", "process": "p1", "at": "60ms", "mid_broadcast": True}
RESTART = {"kind": "restart", "process": "p1", "at": "300ms"}
PARTITION = {"kind": "partition", "at": "50ms", "parts": [["p1", "p2", "p3"], ["p4", "p5"]], "length": "100ms"}
PAUSE = {"kind": "pause", "process": "p2", "at": "80ms", "length": "40ms"}


@pytest.mark.parametrize(
    "faults",
    [[], [CRASH], [CRASH, RESTART], [PARTITION], [PAUSE], [CRASH, PAUSE]],
    ids=["none", "crash", "restart", "partition", "pause", "crash and pause"],
)
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_replicas_of_a_service_are_equal_whatever_happens(faults: list[dict[str, Any]], loss: float) -> None:
    bank = Bank()
    result = run(
        bank.main, members=5, seed=3, parameters={"resilience": 1}, network={"loss": loss}, faults=faults, duration="600ms"
    )
    assert result.verdict == "holds"
    assert result.violations == ()
    assert result.summary.quiet
    names = survivors(result)
    assert len(names) >= 3
    assert len(bank.replicas(names)) == 1
    book = bank.books[names[0]]
    assert len(book) == len(set(book))
    for name, confirmed in bank.confirmed.items():
        assert set(confirmed) <= set(book), f"{name} was told that something is done, and it is not"
    for name in names:
        assert len(bank.confirmed[name]) == 10
        assert result.outcomes[name].state == "cancelled"


def test_a_service_that_applies_its_own_writes_before_delivery_is_caught() -> None:
    """What the tool is for: the live program would pass any test on a quiet machine."""
    right, wrong = Bank(), Bank(wrong=True)
    for bank in (right, wrong):
        result = run(bank.main, members=3, seed=1, duration="500ms")
        assert result.verdict == "holds"
    assert len(right.replicas(["p1", "p2", "p3"])) == 1
    assert len(wrong.replicas(["p1", "p2", "p3"])) > 1
    assert {len(book) for book in wrong.books.values()} == {30}


def test_random_faults_and_many_seeds() -> None:
    crashed = 0
    for seed in range(8):
        bank = Bank(transfers=6)
        result = run(
            bank.main,
            members=5,
            seed=seed,
            parameters={"resilience": 2},
            random={"crash": 4.0, "pause": 4.0, "step": 4.0},
            network={"loss": 0.05, "duplicate": 0.05},
            duration="500ms",
        )
        assert result.verdict == "holds", seed
        crashed += sum(outcome.state == "crashed" for outcome in result.outcomes.values())
        assert len(bank.replicas(survivors(result))) <= 1, seed
    assert crashed > 3


# --- determinism --------------------------------------------------------------------------------------------------------


async def busy(group: Group) -> list[str]:
    """Does a bit of everything, and writes down what came when."""
    log: list[str] = []

    async def send(number: int) -> None:
        await asyncio.sleep(number * 0.003)
        receipt = await group.send(f"{group.me}/{number}/{now():.9f}".encode())
        await receipt.stable()
        log.append(f"stable {number} {now():.9f}")

    async def read() -> None:
        async for batch in group.batches():
            log.append(f"{now():.9f} {batch!r}")

    reader = asyncio.create_task(read())
    try:
        async with asyncio.timeout(0.2), asyncio.TaskGroup() as tasks:
            for number in range(8):
                tasks.create_task(send(number))
    except (TimeoutError, Halted, ExceptionGroup) as error:
        log.append(type(error).__name__)
    await asyncio.sleep(0.05)
    reader.cancel()
    return log


BUSY: dict[str, Any] = {
    "members": 4,
    "seed": 11,
    "network": {"loss": 0.15, "delay": {"uniform": ["500us", "3ms"]}},
    "faults": [{"kind": "crash", "process": "p1", "at": "20ms"}, {"kind": "restart", "process": "p1", "at": "150ms"}],
}


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    first, again = run(busy, **BUSY), run(busy, **BUSY)
    assert first.trace.equals(again.trace)
    assert first.outcomes == again.outcomes
    assert first.summary == again.summary
    other = run(busy, **{**BUSY, "seed": 12})
    assert not first.trace.equals(other.trace)
    assert first.returned
    assert first.outcomes["p1"].state == "crashed"
    assert list(first.outcomes) == ["p1", "p2", "p3", "p4", "p1#1"]


def digest_of_a_busy_run() -> str:
    result = run(busy, **BUSY, verify=False)
    return hashlib.sha256(f"{result.trace.to_pylist()} {result.returned}".encode()).hexdigest()


def test_a_run_does_not_depend_on_the_process_it_runs_in() -> None:
    program = "from tests.sim.test_asynchronous import digest_of_a_busy_run; print(digest_of_a_busy_run())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).resolve().parents[2],
        env={"PYTHONHASHSEED": "12345", "PYTHONPATH": "src"},
    )
    assert (done.returncode, done.stderr, done.stdout.strip()) == (0, "", digest_of_a_busy_run())


def test_a_trace_in_a_directory_is_the_same_as_one_in_memory(tmp_path: Path) -> None:
    in_memory = run(busy, **BUSY)
    written = run(busy, **BUSY, trace=tmp_path / "out")
    assert written.trace.equals(in_memory.trace)
    assert read(tmp_path / "out" / "trace").table.equals(in_memory.trace)


# --- asyncio ------------------------------------------------------------------------------------------------------------

CASES: dict[str, Callable[[], Awaitable[Any]]] = {}


def case(function: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    CASES[function.__name__] = function
    return function


@case
async def sleep() -> None:
    before = now()
    assert await asyncio.sleep(1.5, "up") == "up"
    assert now() == pytest.approx(before + 1.5, abs=1e-9)
    await asyncio.sleep(0)
    assert now() == pytest.approx(before + 1.5, abs=1e-9)


@case
async def sleeping_until_a_deadline_that_no_number_hits() -> None:
    deadline = now() + 0.1 + 0.2
    while now() < deadline:
        await asyncio.sleep(deadline - now())
    assert now() - deadline < 1e-8


@case
async def wait_for_and_timeout() -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.25)
    assert await asyncio.wait_for(asyncio.sleep(0.1, "done"), 0.2) == "done"
    began = now()
    try:
        async with asyncio.timeout(0.5) as deadline:
            deadline.reschedule(now() + 0.1)
            await asyncio.sleep(1)
    except TimeoutError:
        assert now() == pytest.approx(began + 0.1, abs=1e-9)
    assert deadline.expired()


@case
async def task_group() -> None:
    others: list[asyncio.Task[None]] = []

    async def fail_together() -> None:
        async with asyncio.TaskGroup() as tasks:
            others.append(tasks.create_task(asyncio.sleep(10)))
            tasks.create_task(fail_after(0.1))

    with pytest.raises(ExceptionGroup) as caught:
        await fail_together()
    assert caught.value.subgroup(ZeroDivisionError)
    assert others[0].cancelled()


async def fail_after(seconds: float) -> None:
    await asyncio.sleep(seconds)
    raise ZeroDivisionError("as asked")


@case
async def gather_and_wait() -> None:
    assert list(await asyncio.gather(asyncio.sleep(0.2, 1), asyncio.sleep(0.1, 2))) == [1, 2]
    results = await asyncio.gather(fail_after(0.1), asyncio.sleep(0.2, "fine"), return_exceptions=True)
    assert isinstance(results[0], ZeroDivisionError)
    assert results[1] == "fine"
    tasks = [asyncio.create_task(asyncio.sleep(seconds, seconds)) for seconds in (0.3, 0.1)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert done == {tasks[1]}
    assert pending == {tasks[0]}
    assert [await each for each in asyncio.as_completed(tasks)] == [0.1, 0.3]


@case
async def queues() -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)
    got = []

    async def consume() -> None:
        while True:
            got.append(await queue.get())
            await asyncio.sleep(0.01)
            queue.task_done()

    consumer = asyncio.create_task(consume())
    for number in range(6):
        await queue.put(number)
    await queue.join()
    consumer.cancel()
    assert got == list(range(6))


@case
async def locks_events_conditions_semaphores_barriers() -> None:
    lock, event, condition, order = asyncio.Lock(), asyncio.Event(), asyncio.Condition(), list[str]()

    async def work(name: str) -> None:
        await event.wait()
        async with lock:
            await asyncio.sleep(0.01)
            order.append(name)
        async with condition:
            condition.notify_all()

    tasks = [asyncio.create_task(work(name)) for name in "abc"]
    asyncio.get_running_loop().call_later(0.1, event.set)
    async with condition:
        await condition.wait_for(lambda: len(order) == 3)
    assert order == ["a", "b", "c"]
    semaphore = asyncio.BoundedSemaphore(1)
    async with semaphore:
        assert semaphore.locked()
    barrier = asyncio.Barrier(2)
    assert sorted(await asyncio.gather(barrier.wait(), barrier.wait())) == [0, 1]
    await asyncio.gather(*tasks)


@case
async def cancellation_and_shield() -> None:
    inner = asyncio.create_task(asyncio.sleep(0.2, "kept"))
    outer = asyncio.create_task(wait_for_it(asyncio.shield(inner)))
    await asyncio.sleep(0.1)
    outer.cancel("enough")
    with pytest.raises(asyncio.CancelledError):
        await outer
    assert await inner == "kept"


async def wait_for_it(future: asyncio.Future[Any]) -> Any:
    return await future


@case
async def many_cancelled_timers() -> None:
    for _ in range(500):
        await asyncio.wait_for(asyncio.sleep(0), 1000)
    assert len(asyncio.get_running_loop()._timers) < 250  # type: ignore[attr-defined]


@case
async def asynchronous_generators() -> None:
    closed = []

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(10):
                yield number
                await asyncio.sleep(0.01)
        finally:
            await asyncio.sleep(0.01)
            closed.append("closed")

    async for number in numbers():
        if number == 3:
            break
    await asyncio.sleep(0.1)
    assert closed == ["closed"]


@case
async def the_running_loop_and_task() -> None:
    loop = asyncio.get_running_loop()
    assert asyncio.get_event_loop() is loop
    assert loop.is_running()
    assert not loop.is_closed()
    task = asyncio.current_task()
    assert task in asyncio.all_tasks()
    assert asyncio.create_task(asyncio.sleep(0)).get_name().startswith("Task-")
    seen: list[int] = []
    loop.call_soon(seen.append, 1)
    loop.call_soon_threadsafe(seen.append, 2)
    loop.call_at(now() + 0.1, seen.append, 3).cancel()
    await asyncio.sleep(0.2)
    assert seen == [1, 2]


@pytest.mark.parametrize("name", CASES)
def test_asyncio_works_in_virtual_time(name: str) -> None:
    async def main(group: Group) -> str:
        await CASES[name]()
        return "done"

    result = run(main, members=2, verify=False)
    assert result.returned == {"p1": "done", "p2": "done"}


def test_each_member_has_a_loop_of_its_own_and_they_share_virtual_time() -> None:
    loops = {}

    async def main(group: Group) -> float:
        loops[group.me] = asyncio.get_running_loop()
        await asyncio.sleep(50)
        return now()

    result = run(main, verify=False)
    assert result.returned == {"p1": 50.0, "p2": 50.0, "p3": 50.0}
    assert len(set(loops.values())) == 3
    assert asyncio._get_running_loop() is None


def test_an_exception_that_nobody_gets_is_logged_with_the_name_of_the_member(caplog: pytest.LogCaptureFixture) -> None:
    async def main(group: Group) -> None:
        if group.me == "p2":
            asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0.25)

    with caplog.at_level(logging.ERROR, "asyncio"):
        run(main, verify=False)
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("p2 at 0")
    assert "ZeroDivisionError" in caplog.text


# --- the real world -----------------------------------------------------------------------------------------------------


async def connect() -> None:
    await asyncio.open_connection("127.0.0.1", 1)


async def serve() -> None:
    await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)


async def use_a_thread() -> None:
    await asyncio.to_thread(print)


async def start_a_process() -> None:
    await asyncio.create_subprocess_exec("true")


async def look_up() -> None:
    await asyncio.get_running_loop().getaddrinfo("localhost", 80)


async def catch_a_signal() -> None:
    asyncio.get_running_loop().add_signal_handler(15, print)


@pytest.mark.parametrize("ask", [connect, serve, use_a_thread, start_a_process, look_up, catch_a_signal])
def test_real_input_and_output_is_refused(ask: Callable[[], Awaitable[None]]) -> None:
    async def main(group: Group) -> None:
        await ask()

    with pytest.raises(NotSimulated, match=r"real I/O inside a simulated member: p1 called .*: give main what it needs"):
        run(main, verify=False)


def test_it_is_not_run_inside_another_loop() -> None:
    async def main(group: Group) -> None: ...

    async def outer() -> None:
        run(main)

    with pytest.raises(UsageError, match="not async"):
        asyncio.run(outer())


def test_what_is_no_coroutine_function_is_refused() -> None:
    with pytest.raises(UsageError, match="async function"):
        run("main")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="write `async def`"):
        run(lambda group: 3, verify=False)  # type: ignore[arg-type, return-value]


# --- crash, pause, restart, leave, halt ---------------------------------------------------------------------------------


def test_a_crash_runs_nothing_any_more() -> None:
    log: Log = {}

    async def background(mine: list[str]) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            mine.append("finally in a task")

    async def generate(mine: list[str]) -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            mine.append("finally in a generator")

    async def main(group: Group) -> None:
        mine = log[group.me] = []
        loop = asyncio.get_running_loop()
        task = loop.create_task(background(mine))
        generator = generate(mine)
        await anext(generator)
        loop.call_later(0.2, mine.append, "timer")
        try:
            async for event in group:
                del event
        except BaseException as error:
            mine.append(type(error).__name__)
            raise
        finally:
            mine.append("finally in main")
        del task

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = run(main, faults=[{"kind": "crash", "process": "p2", "at": "100ms"}], duration="300ms")
        gc.collect()
    assert result.outcomes["p2"] == Outcome("crashed", at=100 * MS)
    assert log["p2"] == []
    assert sorted(log["p1"]) == [
        "CancelledError",
        "finally in a generator",
        "finally in a task",
        "finally in main",
        "timer",
    ]


NOISELESS = """
import asyncio
from plainchant.sim import run

async def main(group):
    never_awaited = asyncio.sleep(1)
    tasks = [asyncio.ensure_future(asyncio.sleep(100)) for _ in range(3)]
    try:
        if group.me == "p1":
            asyncio.create_task(asyncio.sleep(0.1))
            await asyncio.gather(never_awaited, *tasks)
        never_awaited.close()
        async for event in group:
            pass
    finally:
        print("finally", group.me)

result = run(main, faults=[{"kind": "crash", "process": "p1", "at": "100ms"}], duration="200ms")
print(result.outcomes["p1"].state)
try:
    run(main, limit="100ms")
except Exception as error:
    print(type(error).__name__)
"""


def test_what_a_crash_leaves_makes_no_noise_even_when_the_interpreter_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", NOISELESS],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).resolve().parents[2],
        env={"PYTHONPATH": "src"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert sorted(done.stdout.split("\n")) == ["", "Unfinished", "crashed", "finally p2", "finally p3"]


def test_a_pause_stops_the_program_and_its_timers() -> None:
    ticks: dict[str, list[float]] = {}

    async def main(group: Group) -> None:
        mine = ticks[group.me] = []
        while True:
            await asyncio.sleep(0.01)
            mine.append(round(now(), 6))

    run(main, faults=[{"kind": "pause", "process": "p2", "at": "45ms", "length": "30ms"}], duration="100ms", drain="0s")
    assert ticks["p1"][:8] == [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08]
    assert ticks["p2"][:6] == [0.01, 0.02, 0.03, 0.04, 0.075, 0.085]


def test_a_restart_begins_anew_as_a_new_process() -> None:
    begun: dict[str, float] = {}
    views: dict[str, tuple[str, ...]] = {}

    async def main(group: Group) -> None:
        begun[group.me] = now()
        async for event in group:
            if isinstance(event, View):
                views[group.me] = event.members

    faults = [{"kind": "crash", "process": "p3", "at": "50ms"}, {"kind": "restart", "process": "p3", "at": "400ms"}]
    result = run(main, faults=faults, duration="1s")
    assert list(begun) == ["p1", "p2", "p3", "p3#1"]
    assert begun["p3#1"] > 0.4
    assert views["p1"] == views["p2"] == views["p3#1"] == ("p1", "p2", "p3#1")
    assert result.outcomes["p3"].state == "crashed"
    assert result.outcomes["p3#1"].state == "cancelled"


def test_a_leave_cancels_main_and_the_process_leaves() -> None:
    log: list[str] = []

    async def main(group: Group) -> str:
        try:
            async for event in group:
                del event
        except asyncio.CancelledError:
            await group.send(b"a last word")
            await asyncio.sleep(0.01)
            log.append(group.me)
            return "in good order"
        return "at the end"

    result = run(main, faults=[{"kind": "leave", "process": "p1", "at": "50ms"}], duration="300ms")
    assert result.outcomes["p1"].state == "returned"
    assert result.outcomes["p1"].value == "in good order"
    assert result.outcomes["p1"].at < 300 * MS
    assert result.summary.processes["p1"].state == "left"
    assert result.summary.messages_delivered >= 3
    assert log[0] == "p1"


def test_who_is_cut_off_is_halted_and_told_so() -> None:
    caught: dict[str, str] = {}

    async def main(group: Group) -> None:
        try:
            async for event in group:
                del event
        except Halted as error:
            caught[group.me] = error.reason.code
            with pytest.raises(Refused):
                await group.send(b"nobody hears me")
            await asyncio.sleep(0.5)
            raise

    fault = {"kind": "partition", "at": "100ms", "parts": [["p1", "p2"], ["p3"]], "length": "3s"}
    result = run(main, faults=[fault], duration="5s")
    assert set(caught) == {"p3"}
    assert result.outcomes["p3"].state == "halted"
    assert isinstance(result.outcomes["p3"].error, Halted)
    assert result.outcomes["p3"].reason == result.summary.processes["p3"].reason != ""
    assert result.outcomes["p1"].state == "cancelled"
    assert result.verdict == "holds"


def test_a_program_that_still_runs_when_its_halted_process_is_restarted_ends_there() -> None:
    log: Log = {}

    async def main(group: Group) -> None:
        mine = log[group.me] = []
        try:
            async for event in group:
                del event
        except Halted:
            mine.append("halted")
            await asyncio.sleep(100)
            mine.append("after the restart")

    faults: list[dict[str, Any]] = [
        {"kind": "partition", "at": "50ms", "parts": [["p1", "p2"], ["p3"]], "length": "1s"},
        {"kind": "restart", "process": "p3", "at": "2s"},
    ]
    result = run(main, faults=faults, duration="4s")
    assert log["p3"] == ["halted"]
    assert result.outcomes["p3"].state == "halted"
    assert result.outcomes["p3#1"].state == "cancelled"


# --- how a run ends -----------------------------------------------------------------------------------------------------


def test_an_error_is_raised_at_the_end_with_where_it_came_from() -> None:
    ended: list[str] = []

    async def main(group: Group) -> str:
        await asyncio.sleep(0.1 if group.me == "p2" else 0.2)
        if group.me != "p1":
            raise ValueError(f"{group.me} cannot")
        ended.append(group.me)
        return "fine"

    with pytest.raises(ValueError, match="p2 cannot") as caught:
        run(main, seed=5)
    assert ended == ["p1"]
    assert any("the program of p2" in note and "seed 5" in note for note in caught.value.__notes__)
    assert any("p3" in note for note in caught.value.__notes__)
    result = run(main, raises=False)
    assert result.returned == {"p1": "fine"}
    assert result.outcomes["p2"].state == "raised"
    assert "in main\n" in result.outcomes["p2"].traceback
    assert "raise ValueError" in result.outcomes["p2"].traceback
    assert result.summary.processes["p2"].state == "left"


def test_programs_that_never_end_are_named_with_what_they_wait_for() -> None:
    async def main(group: Group) -> None:
        if group.me != "p1":
            async for event in group:
                del event

    with pytest.raises(Unfinished, match=r"give a duration") as caught:
        run(main, limit="2s")
    assert set(caught.value.waiting) == {"p2", "p3"}
    assert "test_asynchronous.py:" in caught.value.waiting["p2"]
    result = run(main, limit="2s", raises=False)
    assert [outcome.state for outcome in result.outcomes.values()] == ["returned", "unfinished", "unfinished"]
    assert result.virtual_time == 2 * SECOND


def test_an_error_goes_before_those_who_wait_because_of_it() -> None:
    async def main(group: Group) -> None:
        if group.me == "p2":
            raise ValueError("the cause")
        await asyncio.sleep(1e6)

    with pytest.raises(ValueError, match="the cause") as caught:
        run(main, limit="1s")
    assert any("still running" in note and "p1, p3" in note for note in caught.value.__notes__)


def test_who_does_not_heed_its_cancellation_is_named() -> None:
    async def main(group: Group) -> None:
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                continue

    with pytest.raises(Unfinished, match="let CancelledError pass"):
        run(main, duration="10ms", verify=False)


def test_time_that_stands_still_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plainchant.sim.program.STANDSTILL", 2000)

    async def main(group: Group) -> None:
        while group.me == "p2":
            await asyncio.sleep(0)

    with pytest.raises(Standstill, match=r"program of p2 .*test_asynchronous.py:\d+, .*main"):
        run(main)


def test_after_the_duration_the_run_goes_on_until_nothing_moves() -> None:
    """A slow reader gets to the end of what it has to read, and only then is cancelled."""
    read_so_far: dict[str, int] = {}

    async def main(group: Group) -> None:
        read_so_far[group.me] = 0
        if group.me == "p1":
            await group.send_many([b"x"] * 100)
        async for event in group:
            if isinstance(event, Message):
                await asyncio.sleep(0.02)
                read_so_far[group.me] += 1

    result = run(main, duration="100ms")
    assert read_so_far == {"p1": 100, "p2": 100, "p3": 100}
    assert 2 * SECOND < result.virtual_time < 4 * SECOND
    read_so_far.clear()
    result = run(main, duration="100ms", drain="0s")
    assert max(read_so_far.values()) < 10
    assert result.virtual_time == 100 * MS
    assert not result.summary.quiet


def test_who_is_cancelled_at_the_end_is_alive_in_the_trace_and_all_of_it_is_verified() -> None:
    async def main(group: Group) -> None:
        await group.send(b"x")
        async for event in group:
            del event

    result = run(main, duration="100ms")
    assert {end.state for end in result.summary.processes.values()} == {"alive"}
    assert result.trace.column("kind").to_pylist().count("end") == 3
    assert "leave" not in result.trace.column("kind").to_pylist()
    assert result.verification is not None
    assert result.verification.properties["agreement"].cases > 0
    by_itself = run(lambda group: group.send(b"x"))
    assert by_itself.trace.column("kind").to_pylist().count("leave") == 3


def test_a_run_waits_for_those_who_are_to_come_back() -> None:
    async def main(group: Group) -> str:
        await asyncio.sleep(0.05)
        return group.me

    faults: list[dict[str, Any]] = [{"kind": "crash", "process": name, "at": "20ms"} for name in ("p1", "p2", "p3")]
    result = run(main, faults=[*faults, {"kind": "restart", "process": "p1", "at": "500ms"}], raises=False, timeout=1.0)
    assert result.outcomes["p1#1"].state == "raised"
    error = result.outcomes["p1#1"].error
    assert isinstance(error, JoinTimeout)
    assert "could not enter g in 1 s" in str(error)


def test_tasks_that_main_leaves_behind_are_cancelled() -> None:
    log: Log = {}

    async def linger(mine: list[str], name: str) -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            await asyncio.sleep(0.01)
            mine.append(name)

    async def main(group: Group) -> None:
        mine = log[group.me] = []
        for name in "abc":
            asyncio.get_running_loop().create_task(linger(mine, name))
        await asyncio.sleep(0.01)

    run(main)
    assert log == {name: ["a", "b", "c"] for name in ("p1", "p2", "p3")}


# --- groups -------------------------------------------------------------------------------------------------------------


def test_two_readers_of_one_group_are_an_error() -> None:
    async def read(group: Group) -> None:
        async for event in group:
            del event

    async def main(group: Group) -> None:
        await asyncio.gather(read(group), read(group))

    with pytest.raises(UsageError, match="two tasks read group 'g' at once"):
        run(main)


def test_back_pressure_is_seen_and_passes() -> None:
    async def main(group: Group) -> int:
        refused = 0
        sent = 0
        while sent < 200:
            receipt = group.try_send(b"x" * 100)
            if receipt is None:
                refused += 1
                await asyncio.sleep(0.001)
            else:
                sent += 1
        assert receipt is not None
        await receipt.delivered()
        assert group.metrics()["accepted"] == 200
        return refused

    result = run(main, outgoing=1000, verify=False)
    assert min(result.returned.values()) > 10


def test_a_send_that_waits_for_room_gets_its_turn_or_sends_nothing() -> None:
    async def main(group: Group) -> tuple[int, int]:
        if group.me == "p2":
            async with asyncio.TaskGroup() as tasks:
                for number in range(50):
                    tasks.create_task(group.send(b"%d" % number))
            await group.send(b"fills it up" * 10)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(group.send(b"late"), 0.0001)
        payloads = [event.payload async for event in first(group, 51) if isinstance(event, Message)]
        assert payloads == [*(b"%d" % number for number in range(50)), b"fills it up" * 10]
        await asyncio.sleep(0.1)
        metrics = group.metrics()
        return metrics["accepted"], metrics["delivered"]

    result = run(main, outgoing=100, parameters={"window": 1})
    assert result.returned == {"p1": (0, 51), "p2": (51, 51), "p3": (0, 51)}
    assert result.summary.messages_sent == 51


async def first(group: Group, number: int) -> AsyncIterator[Any]:
    async for event in group:
        yield event
        number -= isinstance(event, Message)
        if not number:
            return


def test_a_reader_that_does_not_read_slows_the_senders_down() -> None:
    seen: dict[str, int] = {}

    async def main(group: Group) -> None:
        if group.me == "p3":
            await asyncio.sleep(0.5)
            seen["before"] = group.metrics()["delivered"]
            async for event in group:
                seen["after"] = seen.get("after", 0) + isinstance(event, Message)
                if seen["after"] == 3000:
                    return
        group.stop_listening()
        if group.me == "p1":
            for _ in range(300):
                await (await group.send_many([b"x" * 100] * 10)).delivered()
        await asyncio.sleep(1)

    result = run(main, unread=20_000, outgoing=20_000, verify=False, parameters={"history": 64})
    assert seen["before"] < 2000
    assert {"block", "unblock"} <= set(result.trace.column("kind").to_pylist())
    assert seen["after"] == 3000


def test_guarantees_and_metrics_and_waiting() -> None:
    groups = {}

    async def main(group: Group) -> None:
        groups[group.me] = group
        assert "total" in group.guarantees
        assert group.members == ("p1", "p2", "p3")
        assert group.view is not None
        await (await group.send(b"x")).stable()
        assert group.waiting() is None
        assert group.metrics()["packets_sent"] > 0

    run(main, parameters={"resilience": 1, "suspect_after": 200 * MS})
    assert groups["p1"].metrics()["packets_received"] > 0
    assert groups["p1"].waiting() is None


def test_a_message_that_was_stable_before_it_came_is_stable_when_it_comes() -> None:
    """The last member of a group holds everything at once, and its protocol says so before it delivers."""

    async def main(group: Group) -> None:
        if group.me == "p1":
            async for event in group:
                if isinstance(event, View) and event.members == ("p1",):
                    break
            for _ in range(40):
                receipt = await group.send(b"alone")
                async with asyncio.timeout(1):
                    await receipt.stable()

    run(main, parameters={"history": 64})


def test_groups_can_be_looked_at_after_the_run_and_are_over() -> None:
    groups = {}

    async def main(group: Group) -> None:
        groups[group.me] = group
        await group.send(b"x")
        await asyncio.sleep(1)

    run(main, faults=[{"kind": "crash", "process": "p1", "at": "100ms"}])
    for group in groups.values():
        assert group.metrics()["delivered"] == 3
        assert group.members == ()
        with pytest.raises(Refused):
            group.try_send(b"too late")


def test_large_messages_travel_in_fragments_and_with_wire() -> None:
    async def main(group: Group) -> int:
        await group.send(group.me.encode() * 5000)
        return sum([len(event.payload) async for event in first(group, 3) if isinstance(event, Message)])

    assert set(run(main, network={"wire": True}).returned.values()) == {30_000}


def test_several_groups_in_one_process() -> None:
    async def main(groups: dict[str, Group]) -> dict[str, list[bytes]]:
        for group in groups.values():
            await group.send(f"{group.me} in {group.name}".encode())
        got: dict[str, list[bytes]] = {}
        for name, group in groups.items():
            number = {"a": 3, "b": 2}[name]
            got[name] = [event.payload async for event in first(group, number) if isinstance(event, Message)]
        return got

    result = run(main, groups={"a": ["x", "y", "z"], "b": ["y", "z"]})
    assert sorted(result.returned["x"]) == ["a"]
    assert result.returned["y"] == result.returned["z"]
    assert sorted(result.returned["y"]["b"]) == [b"y in b", b"z in b"]


def test_a_leave_of_one_of_several_groups_ends_its_stream_only() -> None:
    ended: list[tuple[str, str]] = []

    async def main(groups: dict[str, Group]) -> None:
        async def read(group: Group) -> None:
            async for event in group:
                del event
            ended.append((group.me, group.name))

        async with asyncio.TaskGroup() as tasks:
            for group in groups.values():
                tasks.create_task(read(group))

    fault = {"kind": "leave", "process": "y", "group": "a", "at": "50ms"}
    result = run(main, groups={"a": ["x", "y", "z"], "b": ["y", "z"]}, faults=[fault], duration="300ms")
    assert ended == [("y", "a")]
    assert result.summary.processes["y"].state == "alive"


# --- state transfer -----------------------------------------------------------------------------------------------------


class Counter:
    """A replicated counter whose joiners get its value."""

    def __init__(self, chunks: int = 1) -> None:
        self.value: dict[str, int] = {}
        self.seen: dict[str, list[str]] = {}
        self._chunks = chunks

    async def main(self, group: Group) -> None:
        me = group.me
        self.value[me] = 0
        seen = self.seen[me] = []
        adding = asyncio.create_task(self._add(group)) if is_place(me) else None
        async for event in group:
            match event:
                case Message():
                    self.value[me] += 1
                case State():
                    seen.append(f"state from {event.donor} in {len(event.chunks)}")
                    self.value[me] = json.loads(event.payload)
                case StateRequest():
                    seen.append(f"request of {event.joiner}")
                    asyncio.get_running_loop().create_task(self._answer(event, self.value[me]))
        del adding

    async def _add(self, group: Group) -> None:
        for _ in range(40):
            await group.send(b"+1")
            await asyncio.sleep(0.02)

    async def _answer(self, request: StateRequest, value: int) -> None:
        await request.write(b" " * 2000)
        for _ in range(self._chunks - 2):
            await request.write(b" " * 2000)
        await request.write(json.dumps(value).encode())
        await request.close()
        with pytest.raises(UsageError, match="answered already"):
            await request.write(b"more")


@pytest.mark.parametrize("chunks", [2, 300])
@pytest.mark.parametrize("network", [{}, {"loss": 0.1, "wire": True}], ids=["calm", "lossy wire"])
def test_a_joiner_gets_the_state(chunks: int, network: dict[str, Any]) -> None:
    counter = Counter(chunks)
    faults = [{"kind": "crash", "process": "p3", "at": "100ms"}, {"kind": "restart", "process": "p3", "at": "400ms"}]
    result = run(
        counter.main, faults=faults, duration="1500ms", state=True, network=network, parameters={"resilience": 1}, seed=2
    )
    assert counter.seen["p3#1"] == [f"state from p1 in {chunks}"]
    assert counter.seen["p1"] == ["request of p3#1"]
    assert counter.value["p1"] == counter.value["p2"] == counter.value["p3#1"]
    assert counter.value["p1"] > 80
    assert result.verdict == "holds"


def test_a_request_that_is_refused_halts_the_joiner() -> None:
    async def main(group: Group) -> None:
        async for event in group:
            if isinstance(event, StateRequest):
                await event.refuse("the books are closed")

    faults = [{"kind": "crash", "process": "p3", "at": "100ms"}, {"kind": "restart", "process": "p3", "at": "400ms"}]
    result = run(main, faults=faults, duration="1s", state=True)
    assert result.outcomes["p3#1"].state == "halted"
    assert "the books are closed" in result.outcomes["p3#1"].reason


def test_who_writes_to_a_joiner_that_is_gone_is_not_kept_waiting() -> None:
    done: list[str] = []

    async def main(group: Group) -> None:
        async for event in group:
            if isinstance(event, StateRequest):
                for _ in range(2000):
                    await event.write(b"x" * 10_000)
                done.append(event.joiner)

    faults = [
        {"kind": "crash", "process": "p3", "at": "100ms"},
        {"kind": "restart", "process": "p3", "at": "400ms"},
        {"kind": "crash", "process": "p3", "at": "450ms"},
    ]
    result = run(main, faults=faults, duration="1s", state=True, network={"bandwidth": 20_000_000})
    assert done == ["p3#1"]
    assert result.outcomes["p1"].state == "cancelled"


# --- what can be asked for ----------------------------------------------------------------------------------------------


async def listen(group: Group) -> None:
    async for event in group:
        del event


@pytest.mark.parametrize("name", ["sequencer-crash", "join-and-leave", "partition", "lossy-network"])
def test_shipped_scenarios_run_with_a_program_instead_of_their_workload(name: str) -> None:
    bank = Bank(transfers=5)
    result = run(bank.main, scenario=name, seed=4)
    assert result.verdict == "holds"
    assert result.scenario.seed == 4
    assert result.scenario.workload == ()
    assert result.summary.messages_sent > 0


def test_scenario_objects_faults_as_objects_and_names_of_members() -> None:
    scenario = Scenario(
        protocol="sequencer",
        members=("ann", "ben", "cyd"),
        duration=parse_duration("200ms"),
        network=Network(loss=0.1),
        fault=(Fault(kind="crash", process="ann", at=parse_duration("50ms")),),
    )
    assert run(listen, scenario=scenario).outcomes["ann"].state == "crashed"
    result = run(
        listen,
        members=("ann", "ben", "cyd"),
        later=["dot"],
        group="chat",
        network=Network(loss=0.1),
        random=RandomFaults(pause=1.0),
        duration="500ms",
        faults=[Fault(kind="crash", process="ann", at=parse_duration("50ms")), {"kind": "join", "process": "dot", "at": "300ms"}],
    )
    assert result.outcomes["ann"].state == "crashed"
    assert list(result.outcomes) == ["ann", "ben", "cyd", "dot"]
    assert list(result.scenario.groups) == ["chat"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"members": 0}, "members must be"),
        ({"protocol": "sequenzer"}, "did you mean 'sequencer'"),
        ({"faults": [{"kind": "crash", "process": "p9", "at": "1ms"}]}, "p9"),
        ({"faults": [{"kind": "crash", "process": "p1", "at": 5}]}, "duration with its unit"),
        ({"faults": [{"kind": "crush", "process": "p1", "at": "5ms"}]}, "crush"),
        ({"faults": [{"kind": "crash", "proces": "p1", "at": "5ms"}]}, "proces"),
        ({"network": {"los": 0.1}}, "los"),
        ({"parameters": {"resilience": 7}}, "at most 2"),
        ({"scenario": "partition", "members": 3}, "put members into it"),
        ({"scenario": "no-such-thing"}, "no scenario file"),
        ({"group": "a", "groups": {"b": ["x", "y"]}}, "not both"),
        ({"duration": "0s"}, "at least 1ms"),
        ({"duration": "soon"}, "not a duration"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        run(listen, **arguments)
