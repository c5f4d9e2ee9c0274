"""A controller in three copies: each reads all sensors through a mailbox, one acts, it is killed, and the next one takes over.

Theory of operation
-------------------
A tank has two sensors, ``level`` and ``inflow``, which only send, and three controllers, which read what they send through the
protocol ``mailbox``: common memory, in two copies. All controllers read the same values in the same order, and each works out the
position of the outlet valve from them by the same rule: all have the same opinion at the same place of the order, and are copies
of each other without a word between them. The *acting* one, which is the first of those that are there, sets the valve.

In the middle the acting controller is killed. That it is gone is an event in the same order as the values, so the others agree
from which value on the next one acts. It sets the valve once more, as the last command may not have been carried out, and goes
on: no value is missed and none is used twice.

A command that comes too late is worth nothing: how long values take is measured, from the sensor to each controller, and the
protocol has a bound for it. :func:`simulate` runs everything on virtual time, where the bound is kept or the run is wrong.
``python examples/replicated_controller.py`` runs processes of their own on this machine, with real memory and a real kill; there
a value that is late is told, and not lost.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import plainchant
from plainchant import Group, Message, View
from plainchant.core.model import SECOND
from plainchant.protocols.registry import describe

GROUP: Final = "tank"
SENSORS: Final = ("level", "inflow")
CONTROLLERS: Final = ("left", "middle", "right")
PLACES: Final = (*CONTROLLERS, *SENSORS)
KILLED: Final = CONTROLLERS[0]
WANTED: Final = 500
"""Litres in the tank."""
END: Final = "end"
PARAMETERS: Final[Mapping[str, Any]] = {"senders": list(SENSORS)}
LIVE_TIMEOUT: Final = 60.0
"""Seconds after which a live run has failed."""


@dataclasses.dataclass(frozen=True)
class Times:
    """How fast the tank is read."""

    period: float
    """Seconds between two values of a sensor."""
    values: int
    """Of each sensor, at the least."""


VIRTUAL: Final = Times(period=0.01, values=100)
REAL: Final = Times(period=0.02, values=150)


@dataclasses.dataclass
class Report:
    """What a controller has seen and done."""

    controller: str
    commands: list[tuple[str, int, int]] = dataclasses.field(default_factory=list)
    """For each value, in the order in which they came: its sensor, its number, and where the valve should be."""
    acted: list[int] = dataclasses.field(default_factory=list)
    """Which of them it carried out itself."""
    gone: dict[str, str] = dataclasses.field(default_factory=dict)
    """Controllers that are gone, and why."""
    delays: list[float] = dataclasses.field(default_factory=list)
    """How long each value took to here, seconds."""


class Controller:
    """One of the three. Its state depends on nothing but what it has read, in whole numbers."""

    def __init__(self, group: Group, tell: Callable[[str], None]) -> None:
        self.group = group
        self._tell = tell
        self.report = Report(group.me)
        self.valve = 0
        self._surplus = 0
        self._inflow = 0
        self._acting = ""
        self._ended: set[str] = set()

    async def run(self) -> Report:
        """Reads until no sensor has any more."""
        async for event in self.group:
            if isinstance(event, View):
                self._see(event)
            elif isinstance(event, Message):
                self._read(event)
                if self._ended == set(SENSORS):
                    break
        return self.report

    def _see(self, view: View) -> None:
        """Who acts follows from the view, and everybody has the same one here."""
        for name, reason in view.left.items():
            self.report.gone[name] = reason.text
            self._tell(name)
        before, self._acting = self._acting, min(view.members)
        if before not in ("", self._acting) and self._acting == self.group.me:
            self._act()

    def _read(self, message: Message) -> None:
        sensor, number, value, sent = json.loads(message.payload)
        if number == END:
            self._ended.add(sensor)
            return
        self.report.delays.append(asyncio.get_running_loop().time() - sent)
        if sensor == "inflow":
            self._inflow = value
        else:
            self._surplus = max(-2000, min(2000, self._surplus + value - WANTED))
            self.valve = max(0, min(100, self._inflow + (value - WANTED) // 5 + self._surplus // 50))
        self.report.commands.append((sensor, number, self.valve))
        if self._acting == self.group.me:
            self._act()

    def _act(self) -> None:
        """Sets the valve to where it should be, which does no harm if it is there already."""
        if self.report.commands:
            self.report.acted.append(len(self.report.commands) - 1)


async def measure(group: Group, times: Times, over: asyncio.Event) -> int:
    """A sensor: a value every period until it is over, and that there are no more; how many there were."""
    loop = asyncio.get_running_loop()
    me, number = group.me, 0
    while number < times.values or not over.is_set():
        value = 400 + (37 * number) % 200 if me == "level" else 30 + number % 7
        await group.send(json.dumps([me, number, value, loop.time()]).encode())
        number += 1
        await asyncio.sleep(times.period)
    await group.send(json.dumps([me, END, 0, loop.time()]).encode())
    return number


async def take_part(
    group: Group, times: Times, over: asyncio.Event, tell: Callable[[str], None] = lambda gone: None
) -> Report | int:
    """What a place does in the group; a controller tells at once who is gone."""
    return await (measure(group, times, over) if group.me in SENSORS else Controller(group, tell).run())


# --- the whole plant --------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Outcome:
    """What became of a run: controllers that were not killed, how many values each sensor had, and in the simulator the run."""

    reports: dict[str, Report]
    values: dict[str, int]
    result: Any = None


def problems(outcome: Outcome) -> list[str]:
    """What is wrong with a run."""
    found = []
    reports = list(outcome.reports.values())
    for report in reports:
        if report.commands != reports[0].commands:
            found.append(f"{report.controller} has other commands than {reports[0].controller}")
        for sensor, values in outcome.values.items():
            if [number for name, number, _ in report.commands if name == sensor] != list(range(values)):
                found.append(f"{report.controller} has not read every value of {sensor} once, in order")
        if KILLED not in report.gone:
            found.append(f"{report.controller} does not know that {KILLED} is gone")
    acted = [report for report in reports if report.acted]
    if [report.controller for report in acted] != [min(outcome.reports)]:
        found.append(f"{', '.join(report.controller for report in acted) or 'nobody'} acted after {KILLED} was killed")
    elif acted[0].acted != list(range(acted[0].acted[0], len(acted[0].commands))):
        found.append(f"{acted[0].controller} left a command out, or carried one out twice")
    if outcome.result is not None and outcome.result.verdict != "holds":
        found.append(f"the run: {outcome.result.verdict}")
    return found


def bound() -> float:
    """The longest that the protocol says a value takes on virtual time, seconds."""
    protocol = describe("mailbox")
    return protocol.bounds(protocol.parameters(senders=SENSORS), {GROUP: PLACES})["deliver"] / SECOND


def simulate(*, seed: int = 0, times: Times = VIRTUAL) -> Outcome:
    """The plant on virtual time."""
    killed_at = round(times.values * times.period * SECOND / 2)

    async def program(group: Group) -> Report | int:
        over = asyncio.Event()
        over.set()
        return await take_part(group, times, over)

    result = plainchant.sim.run(
        program,
        members=PLACES,
        protocol="mailbox",
        group=GROUP,
        parameters=PARAMETERS,
        seed=seed,
        faults=[{"kind": "crash", "process": KILLED, "at": f"{killed_at}ns"}],
    )
    reports = {name: report for name, report in result.returned.items() if isinstance(report, Report)}
    return Outcome(reports, {name: result.returned[name] for name in SENSORS}, result)


async def place(task: Mapping[str, Any]) -> Report | int:
    """The whole life of a process; it is over for a sensor when its standard input is."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(sys.stdin.fileno())
        over.set()

    loop.add_reader(sys.stdin.fileno(), end)
    async with plainchant.join(
        GROUP,
        me=task["me"],
        peers=task["peers"],
        protocol="mailbox",
        parameters=task["parameters"],
        trace=task["trace"],
    ) as group:
        say("in")
        return await take_part(group, Times(**task["times"]), over, say)


def say(what: Any) -> None:
    """A line for the process that has started this one."""
    print(json.dumps(what), flush=True)


async def live(
    *,
    peers: Mapping[str, str],
    times: Times = REAL,
    parameters: Mapping[str, Any] = PARAMETERS,
    trace: str | None = None,
) -> Outcome:
    """The plant with a process for each place; the acting controller is killed, and when the others know that, sensors come to an
    end. All processes have ended when this returns."""
    processes: dict[str, asyncio.subprocess.Process] = {}
    common = {"peers": dict(peers), "times": dataclasses.asdict(times), "parameters": dict(parameters), "trace": trace}
    try:
        async with asyncio.timeout(LIVE_TIMEOUT):
            for me in peers:
                processes[me] = await asyncio.create_subprocess_exec(
                    sys.executable,
                    str(Path(__file__).resolve()),
                    "place",
                    json.dumps({**common, "me": me}),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=1 << 24,
                )
            for me in peers:
                await _line(me, processes[me])
            await asyncio.sleep(times.values * times.period / 2)
            processes[KILLED].kill()
            left = [me for me in CONTROLLERS if me != KILLED]
            for me in left:
                await _line(me, processes[me])
            for process in processes.values():
                assert process.stdin is not None
                process.stdin.close()
            values = {me: await _line(me, processes[me]) for me in SENSORS}
            reports = {me: Report(**await _line(me, processes[me])) for me in left}
            for report in reports.values():
                report.commands = [(sensor, number, valve) for sensor, number, valve in report.commands]
            for me in (*left, *SENSORS):
                if await processes[me].wait():
                    raise plainchant.PlainchantError(f"{me} has ended with status {processes[me].returncode}: see above")
    finally:
        for process in processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()
    return Outcome(reports, values)


async def _line(me: str, process: asyncio.subprocess.Process) -> Any:
    """The next thing that a process says."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise plainchant.PlainchantError(f"{me} has ended with status {await process.wait()}; what it said is above")
    return json.loads(line)


def account(outcome: Outcome) -> str:
    """What happened, for people."""
    lines = []
    for report in outcome.reports.values():
        acted = f"acted from value {report.acted[0] + 1} on" if report.acted else "never acted"
        lines.append(f"{report.controller}: {len(report.commands)} values, {acted}")
        lines += [f"    gone   {name}: {why}" for name, why in report.gone.items()]
        median, longest = statistics.median(report.delays) * 1000, max(report.delays) * 1000
        lines.append(f"    delay  {median:.2f} ms at the median, {longest:.2f} ms at the most")
    return "\n".join(lines)


def free_peers() -> dict[str, str]:
    """Addresses on this machine that nobody has now."""
    from plainchant.live.ports import free_ports

    return {name: f"127.0.0.1:{port}" for name, port in zip(PLACES, free_ports(len(PLACES)), strict=True)}


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["place"]:
        found_out = asyncio.run(place(json.loads(arguments[1])))
        say(dataclasses.asdict(found_out) if isinstance(found_out, Report) else found_out)
        return 0
    simulated = arguments == ["--simulated"]
    outcome = simulate() if simulated else asyncio.run(live(peers=free_peers()))
    print(f"{KILLED}, which acted, was killed in the middle, {'on virtual time' if simulated else 'for real'}.")
    print(account(outcome))
    if simulated:
        print(f"the bound is {bound() * 1000:.2f} ms")
    found = problems(outcome)
    print("\n".join(found) or "both others have the same commands, and none is missing")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
