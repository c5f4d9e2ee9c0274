"""Process control: sensors, an alarm with a deadline and an operator's console in one group, one of them killed in the middle.

Theory of operation
-------------------
Four stations are a group of the protocol ``rtcast``. ``boiler`` and ``tank`` measure: each has a *stream*, a message every period
with a deadline. ``control`` reads all of it; when the boiler gets too hot it says so, and when a station is gone it raises the
alarm: messages that come once, with a deadline each. ``console`` is the operator's: notes without any deadline, which go when
there is time left. He also ends the shift: all stations read that at the same place in the order, so all have the same log.

Each station asks before it relies on anything. What the protocol admits it promises; what it cannot promise it rejects at once,
with the nearest deadline that it could (``boiler`` asks for one stream too many). And each station looks at its own clock when a
message comes, and counts what was in time and what was late.

In the middle of the shift the tank is killed. The others go on, agree that it is gone, and the controller raises the alarm.

:func:`simulate` runs the stations on virtual time. There the network keeps its bounds and deadlines are hard: none is missed,
or the run is wrong. ``python examples/process_control.py`` runs them as processes of their own on this machine, with sockets
and a real kill. There a deadline is an aim, the machine may break it, and what was late is told.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import plainchant
from plainchant import Group, Guaranteed, Message, View
from plainchant.core.model import MS, SECOND, parse_duration
from plainchant.protocols.registry import describe

GROUP: Final = "plant"
SENSORS: Final = {"boiler": "temperature", "tank": "level"}
STATIONS: Final = (*SENSORS, "control", "console")
KILLED: Final = "tank"
SIZE: Final = 128
"""Bytes of a reading, at the most."""
HOT: Final = 99.0
"""Degrees."""
LIVE_TIMEOUT: Final = 60.0
"""Seconds after which a live run has failed."""
CAREFUL: Final = {"delay_max": "50ms", "slack": "20ms", "hold": "5ms", "crashes": 0}
"""Live: what this machine keeps as a rule. With ``crashes`` 0 no time is kept for a member that dies: a deadline may be missed
then, and is nearer for that."""


@dataclasses.dataclass(frozen=True)
class Times:
    """How fast the plant is; durations as text."""

    period: str
    """Of the sensors."""
    deadline: str
    """Of a reading."""
    alarm: str
    """Of an alarm."""
    shift: int
    """How many periods it takes."""

    @property
    def seconds(self) -> float:
        """Of a period."""
        return parse_duration(self.period) / SECOND


VIRTUAL: Final = Times(period="200ms", deadline="180ms", alarm="150ms", shift=10)
REAL: Final = Times(period="1500ms", deadline="1400ms", alarm="1350ms", shift=5)


# --- a station --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Report:
    """What a station has seen."""

    station: str
    admitted: dict[str, str] = dataclasses.field(default_factory=dict)
    """Streams and alarms that were promised, with their deadlines."""
    rejected: dict[str, str] = dataclasses.field(default_factory=dict)
    """What was not, and why."""
    met: int = 0
    late: list[str] = dataclasses.field(default_factory=list)
    notes: int = 0
    """Messages without a deadline."""
    nearest: float | None = None
    """Seconds that were left when the message came that had the fewest; negative: it was late."""
    log: list[str] = dataclasses.field(default_factory=list)
    """Everything that was said, in its order."""
    gone: dict[str, str] = dataclasses.field(default_factory=dict)
    """Stations that are gone, and why."""
    room: str = ""
    """What is promised of a turn, and how much of it that is."""
    halted: str = ""
    """Why the protocol has stopped this station; empty: it has not."""


class Station:
    """One process of the plant; its name says what it does."""

    def __init__(self, group: Group, times: Times) -> None:
        self.group = group
        self.times = times
        self.report = Report(group.me)
        self.heat = 90.0
        self.is_cooled = False

    async def run(self) -> Report:
        """Works until the shift is over, or the protocol stops this station."""
        work = asyncio.ensure_future(self._work())
        try:
            await self._read()
            self._tell_room()
        except plainchant.Halted as halted:
            self.report.halted = str(halted)
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        return self.report

    async def _work(self) -> None:
        if self.group.me in SENSORS:
            await self._measure(SENSORS[self.group.me])
        elif self.group.me == "console":
            await self._operate()

    # --- reading ----------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        async for event in self.group:
            if isinstance(event, View):
                await self._see(event)
            elif isinstance(event, Message):
                word, value, sent, deadline = json.loads(event.payload)
                self.report.log.append(f"{event.sender} {word} {value}")
                self._judge(f"{word} of {event.sender}", sent, deadline)
                if word == "end of shift":
                    return
                await self._hear(word, value)

    def _judge(self, what: str, sent: float, deadline: str | None) -> None:
        """Counts whether a message came in time."""
        if deadline is None:
            self.report.notes += 1
            return
        left = sent + parse_duration(deadline) / SECOND - asyncio.get_running_loop().time()
        self.report.nearest = left if self.report.nearest is None else min(left, self.report.nearest)
        if left >= 0:
            self.report.met += 1
        else:
            self.report.late.append(f"{what} by {-left * 1000:.1f} ms")

    async def _hear(self, word: str, value: Any) -> None:
        if word == "cool" and self.group.me == "boiler":
            self.is_cooled = True
        elif word == "temperature" and self.group.me == "control" and value > HOT:
            await self._raise("cool", value)

    async def _see(self, view: View) -> None:
        for name, reason in view.left.items():
            self.report.gone[name] = reason.text
            if self.group.me == "control":
                await self._raise("alarm", f"{name} is gone")

    # --- sending ----------------------------------------------------------------------------------------------------

    def _words(self, word: str, value: Any, deadline: str | None = None) -> bytes:
        return json.dumps([word, value, asyncio.get_running_loop().time(), deadline]).encode()

    async def _raise(self, word: str, value: Any) -> None:
        """Says something that has to be known in time, once."""
        deadline = self.times.alarm
        try:
            await self.group.send(self._words(word, value, deadline), deadline=deadline)
            self.report.admitted[word] = f"once, within {deadline}"
        except plainchant.Rejected as rejected:
            self.report.rejected[word] = str(rejected)

    async def _measure(self, name: str) -> None:
        """A sensor: a reading every period, as long as it is admitted."""
        stream = await self._ask(name, self.times.deadline)
        if self.group.me == "boiler":
            await self._ask("vibration", "1us")
        while stream is not None:
            self.heat += -6.0 if self.is_cooled else 2.5
            self.is_cooled = False
            await stream.send(self._words(name, round(self.heat, 1), self.times.deadline))
            await asyncio.sleep(self.times.seconds)

    async def _ask(self, name: str, deadline: str) -> Guaranteed | None:
        """Asks for a stream; None: it cannot be promised."""
        try:
            stream = await self.group.stream(name, size=SIZE, deadline=deadline, period=self.times.period)
        except plainchant.Rejected as rejected:
            self.report.rejected[name] = str(rejected)
            return None
        self.report.admitted[name] = f"every {self.times.period}, within {deadline}"
        return stream

    async def _operate(self) -> None:
        """The operator: notes now and then; then the shift is over."""
        for number in range(self.times.shift):
            await self.group.send(self._words("note", f"round {number + 1}"))
            await asyncio.sleep(self.times.seconds)
        await self.group.send(self._words("end of shift", None))

    def _tell_room(self) -> None:
        room = self.group.admission
        if room is not None and room["rotation"] is not None:
            used, hold, rotation = (f"{room[name] / MS:.1f} ms" for name in ("used", "hold", "rotation"))
            self.report.room = f"{used} of a turn of {hold} ({room['utilisation']:.0%}), every {rotation} at the latest"


# --- the whole plant --------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Outcome:
    """What became of a run: a report of each station that was not killed, and in the simulator the run itself."""

    reports: dict[str, Report]
    result: Any = None


def problems(outcome: Outcome) -> list[str]:
    """What is wrong with a run; a deadline that was missed is wrong where time is virtual."""
    reports = outcome.reports
    at_work = [report for report in reports.values() if not report.halted]
    if not at_work:
        return ["every station was stopped: this machine is too busy"]
    found = []
    longest = at_work[0].log
    for report in reports.values():
        if report.log != (longest[: len(report.log)] if report.halted else longest):
            found.append(f"{report.station} has another log than {at_work[0].station}")
    for report in at_work:
        if KILLED not in report.gone:
            found.append(f"{report.station} does not know that {KILLED} is gone")
    if outcome.result is not None:
        found += [f"{report.station}: late: {what}" for report in reports.values() for what in report.late]
        found += [f"{report.station} was stopped: {report.halted}" for report in reports.values() if report.halted]
        if outcome.result.verdict != "holds":
            found.append(f"the run: {outcome.result.verdict}")
    return found


def simulate(*, seed: int = 0, times: Times = VIRTUAL, loss: float = 0.0) -> Outcome:
    """The plant on virtual time; sending takes time by the protocol's own bandwidth, on one medium for all."""
    protocol = describe("rtcast").parameters()

    async def program(group: Group) -> Report:
        return await Station(group, times).run()

    killed_at = round(times.shift * times.seconds / 2 * 1000)
    result = plainchant.sim.run(
        program,
        members=STATIONS,
        protocol="rtcast",
        group=GROUP,
        seed=seed,
        network={"delay": {"uniform": ["200us", "1500us"]}, "bandwidth": protocol.bandwidth, "shared": True, "loss": loss},
        faults=[{"kind": "crash", "process": KILLED, "at": f"{killed_at}ms"}],
    )
    return Outcome(dict(result.returned), result)


async def station(task: Mapping[str, Any]) -> Report:
    """One station with a socket: the whole life of a process."""
    async with plainchant.join(
        GROUP,
        me=task["me"],
        peers=task["peers"],
        protocol="rtcast",
        parameters=task["parameters"],
        trace=task["trace"],
    ) as group:
        print(json.dumps("in"), flush=True)
        return await Station(group, Times(**task["times"])).run()


async def live(
    *,
    peers: Mapping[str, str],
    times: Times = REAL,
    parameters: Mapping[str, Any] = CAREFUL,
    trace: str | None = None,
) -> Outcome:
    """The plant with a process for each station; one of them is killed. All have ended when this returns."""
    processes: dict[str, asyncio.subprocess.Process] = {}
    common = {"peers": dict(peers), "times": dataclasses.asdict(times), "parameters": dict(parameters), "trace": trace}
    try:
        async with asyncio.timeout(LIVE_TIMEOUT):
            for me in peers:
                processes[me] = await asyncio.create_subprocess_exec(
                    sys.executable,
                    str(Path(__file__).resolve()),
                    "station",
                    json.dumps({**common, "me": me}),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                )
            for me in peers:
                await _line(me, processes[me])
            await asyncio.sleep(times.shift * times.seconds / 2)
            processes[KILLED].kill()
            reports = {me: Report(**await _line(me, process)) for me, process in processes.items() if me != KILLED}
    finally:
        for process in processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()
    return Outcome(reports)


async def _line(me: str, process: asyncio.subprocess.Process) -> Any:
    """The next thing that a station says."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise plainchant.PlainchantError(f"{me} has ended with status {await process.wait()}; what it said is above")
    return json.loads(line)


def account(outcome: Outcome) -> str:
    """What happened, for people."""
    lines = []
    for report in outcome.reports.values():
        lines.append(f"{report.station}:")
        lines += [f"    admitted  {name}: {what}" for name, what in report.admitted.items()]
        lines += [f"    rejected  {name}: {why}" for name, why in report.rejected.items()]
        lines += [f"    gone      {name}: {why}" for name, why in report.gone.items()]
        nearest = f"; the nearest was {report.nearest * 1000:.0f} ms before its time" if report.nearest is not None else ""
        lines.append(f"    in time   {report.met}, late {len(report.late)}{nearest}; {report.notes} without a deadline")
        lines += [f"    late      {what}" for what in report.late]
        lines += [f"    promised  {report.room}"] if report.room else []
        lines += [f"    stopped   {report.halted}"] if report.halted else []
    return "\n".join(lines)


def free_peers(names: Sequence[str] = STATIONS) -> dict[str, str]:
    """Addresses on this machine that nobody has now."""
    from plainchant.live.ports import free_ports

    return {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["station"]:
        print(json.dumps(dataclasses.asdict(asyncio.run(station(json.loads(arguments[1]))))), flush=True)
        return 0
    simulated = arguments == ["--simulated"]
    outcome = simulate() if simulated else asyncio.run(live(peers=free_peers()))
    print(f"{KILLED} was killed in the middle of the shift, {'on virtual time' if simulated else 'for real'}.")
    print(account(outcome))
    found = problems(outcome)
    print("\n".join(found) or "all stations have the same log")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
