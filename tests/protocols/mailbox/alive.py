"""Seeds of the fault sweep in which processes stop, or do not read, for longer than every timeout.

A seed decides the protocol, the size of the group (2 to 40), ``patience``, and which roles fail: a sender, a receiver that sends
nothing, a process that only sends, one that is about to join or to leave, one whose application does not read. Modules and
processes crash meanwhile, and excluded processes come back. With the second protocol a minority of the receivers fails in any
way, clocks included. With the first protocol any number but one is stopped or does not read. There the stopped processes send
nothing: a late sender is a failure that it does not tolerate (errata)."""

from __future__ import annotations

from random import Random
from typing import Any

from plainchant.core.model import MS, SECOND, US, Duration, ProcessId
from plainchant.protocols.mailbox.parameters import Parameters
from plainchant.protocols.mailbox.times import Times
from plainchant.scenario.model import Fault, Memory, Scenario, Workload

FIRST_SEED = 10_000
SEEDS = 60
"""The ordinary sweep."""
SHORT = tuple(FIRST_SEED + number for number in (*range(20), 29, 31, 44, 50))
"""What ``make test`` has of it."""
SITUATIONS = (
    "excluded",
    "several excluded",
    "excluded sender",
    "excluded while it joins or leaves",
    "excluded because it does not read",
    "excluded because it is slow",
    "stopped and not excluded",
    "only sender stopped",
    "back after its exclusion",
    "module and exclusion",
    "large group",
)


def protocol_of(seed: int) -> str:
    return "crash" if seed % 3 == 0 else "timing"


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed."""
    return _Plan(seed).scenario()


class _Plan:
    """Everything that is drawn for one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(f"mailbox alive {seed}")
        self.tolerate = protocol_of(seed)
        count = random.choice((2, 3, 3, 4, 5, 5, 6, 8, 12, 40)) if seed % 5 else random.choice((3, 5))
        self.members = tuple(f"p{number + 1}" for number in range(count))
        self.later = ("q1",) if random.random() < 0.4 else ()
        self.only_send = self.members[-1:] if count > 2 and random.random() < 0.3 else ()
        self.receivers = [name for name in self.members if name not in self.only_send]
        self.parameters = self._parameters()
        self.patience: int = self.parameters["patience"]
        self.duration = 8 * self.patience + random.randrange(100 * MS)
        self.faults: list[Fault] = []
        self.stopped: dict[ProcessId, None] = {}

    def _parameters(self) -> dict[str, Any]:
        random = self.random
        large = len(self.members) > 8
        copies = random.choice((1, 2)) if large else random.choice((1, 2, 2, 3))
        parameters: dict[str, Any] = {
            "tolerate": self.tolerate,
            "copies": copies,
            "decide": Duration(random.choice((20, 50)) * US),
            "skew": Duration(random.choice((0, 10, 50)) * US),
            "poll": Duration((2_000 if large else random.choice((200, 500, 1_000))) * US),
            "schedule": Duration(2 * MS if random.random() < 0.15 else 0),
            "senders": self.only_send,
            "slots": random.choice((1, 2, 8)),
            "places": 48,
        }
        least = 4 * Times(Parameters(**parameters)).flagged
        return {**parameters, "patience": Duration(least + random.choice((0, 10 * MS, 30 * MS)))}

    # --- who may fail ---

    @property
    def _most(self) -> int:
        """Number of receivers that may fail."""
        return len(self.receivers) - 1 if self.tolerate == "crash" else (len(self.receivers) - 1) // 2

    def _victim(self) -> ProcessId | None:
        able = [*self.receivers, *self.later]
        failing = [name for name in able if name in self.stopped]
        names = [*(failing if len(failing) >= self._most else able), *self.only_send]
        if not names:
            return None
        name: ProcessId = self.random.choice(names)
        self.stopped[name] = None
        return name

    # --- faults ---

    def _draw(self) -> None:
        random = self.random
        for name in self.later:
            self._add("join", name, self._moment(), group="g")
        for _ in range(random.choice((1, 1, 2, 3))):
            victim = self._victim()
            if victim is not None:
                self._stop(victim)
        if self.parameters["copies"] > 1 and random.random() < 0.4:
            self.faults.append(Fault(kind="module", at=self._moment(), module=1))
        if random.random() < 0.3:
            self._leave_or_crash()

    def _stop(self, name: ProcessId) -> None:
        """A process is stopped, slow, or does not read."""
        random = self.random
        at = self._moment()
        asked = [fault.at for fault in self.faults if fault.kind in ("join", "leave") and fault.process == name]
        if asked:
            at = Duration(asked[0] + random.randrange(600) * US)
        length = Duration(int(self.patience * random.choice((0.3, 0.8, 2, 2, 3, 5))))
        kinds = ["pause", "pause", "sluggish"] if self.tolerate == "crash" else ["pause", "pause", "sluggish", "slow", "step"]
        kind = random.choice(["pause"] if name in self.only_send else kinds)
        more: dict[str, Any] = {}
        if kind == "sluggish":
            more["count"] = random.choice((1, 3, 10))
        elif kind == "slow":
            more["delay"] = Duration(random.choice((self.patience // 20, self.patience // 2, 2 * self.patience)))
        elif kind == "step":
            offset = random.choice((-3, -1, 1, 3)) * self.patience // 2
            self.faults.append(Fault(kind="step", at=at, process=name, offset=offset))
            return
        self._add(kind, name, at, length=length, **more)
        if random.random() < 0.7:
            back = Duration(at + length + random.randrange(1, 20) * MS)
            if back < self.duration:
                self._add("restart", name, back)

    def _leave_or_crash(self) -> None:
        name = self._victim()
        if name is None or any(fault.process == name for fault in self.faults):
            return
        at = self._moment()
        kind = self.random.choice(("leave", "crash"))
        self._add(kind, name, at)
        if kind == "leave" and self.random.random() < 0.7:
            length = Duration(2 * self.patience)
            self._add("pause", name, Duration(at + self.random.randrange(600) * US), length=length)

    def _add(self, kind: str, name: ProcessId, at: Duration, **more: Any) -> None:
        self.faults.append(Fault(kind=kind, at=at, process=name, **more))

    def _moment(self) -> Duration:
        return Duration(self.random.randrange(3 * MS, self.duration // 2))

    # --- the scenario ---

    def scenario(self) -> Scenario:
        random = self.random
        self._draw()
        large = len(self.members) > 8
        senders = self.members[:4] if large else self.members
        if self.tolerate == "crash":
            senders = tuple(name for name in self.members if name not in self.stopped)[:4]
        rate = random.choice((50.0, 200.0)) if large else random.choice((50.0, 200.0, 600.0))
        return Scenario(
            protocol="mailbox",
            name=f"mailbox-{self.seed}",
            about=f"alive, {self.tolerate}, {len(self.members)} members, patience {self.patience / MS:g} ms",
            seed=self.seed,
            duration=Duration(self.duration),
            drain=Duration(10 * SECOND),
            members=self.members,
            later=self.later,
            groups={"g": self.members},
            parameters=self.parameters,
            memory=Memory(detection=Duration(random.randrange(3 * MS))),
            workload=(Workload(rate=rate, arrivals=random.choice(("regular", "poisson")), senders=senders),),
            fault=tuple(sorted(self.faults, key=lambda fault: fault.at)),
        )
