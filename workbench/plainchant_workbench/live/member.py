"""One member of ours: reads all the time, and sends as it is told. Started by ``plainchant bench live``.

A closed loop is what an application would write: the consumer sends the next message when it has read its last one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, Final

import plainchant

from .link import over_link
from .processes import BenchError, enter, listen_apart, tell, telling_errors
from .recorder import Recorder, summary
from .sequences import Runs

GROUP: Final = "bench"
TOGETHER: Final = 64
"""Events of ``async for`` that are looked at together, while they come fast."""
TICK: Final = 0.001
"""Seconds between two sends of a paced member."""
IMPOSSIBLE: Final = "1ns"
"""A deadline that nobody can promise."""
PROBES: Final = 200
"""Round trips a second, where not as many as possible."""


class Member:
    """What a member process does with its group."""

    def __init__(self, group: Any, task: dict[str, Any]) -> None:
        self._group = group
        self._me: str = task["me"]
        self._members = len(task["peers"])
        self._batches: bool = task["reading"] == "batches()"
        self._one_by_one: bool = task["sending"] == "send"
        self._payload = bytes([task["number"]]) * task["size"]
        self._messages = [self._payload] * task["together"]
        self._recorder = Recorder()
        self._runs = Runs(self._recorder.order, plainchant.Message, task["size"])
        self._formed = asyncio.Event()
        self._pending: list[Any] = []
        self._eager = True
        """Nothing waits in ``_pending``."""
        self._sent = 0
        self._probes: deque[tuple[int, int]] = deque()
        """Own messages that are waited for: how many were sent with it, and when."""
        self._trips: list[int] = []
        self._closed_until = 0
        self._opened = asyncio.Event()
        self._watched = ""
        """Whose messages' times are written down."""
        self._arrivals: list[int] = []
        self._packets = 0

    # --- reading ---

    async def read(self) -> None:
        """Reads events for ever."""
        if self._batches:
            async for batch in self._group.batches():
                self._take(batch)
                if self._closed_until:
                    await self._next_of_closed_loop()
            raise BenchError("the stream of events ended")
        pending = self._pending
        async for event in self._group:
            pending.append(event)
            if self._eager or len(pending) >= TOGETHER or (self._probes and self._awaited(event)):
                self._flush()
                if self._closed_until:
                    await self._next_of_closed_loop()
        raise BenchError("the stream of events ended")

    def _awaited(self, event: Any) -> bool:
        """Whether it is the own message that is waited for: messages are numbered from 1 on."""
        return isinstance(event, plainchant.Message) and event.sender == self._me and event.seq == self._probes[0][0]

    def _flush(self) -> None:
        if self._pending:
            self._take(self._pending)
            self._pending.clear()

    def _take(self, batch: list[Any]) -> None:
        now = time.monotonic_ns()
        if not self._formed.is_set():
            batch = self._until_formed(batch)
        self._runs.add(batch)
        self._recorder.sample(now)
        if self._watched:
            self._arrivals += [now for event in batch if event.sender == self._watched]
        probes = self._probes
        if probes:
            mine = self._recorder.order.counts.get(self._me, 0)
            while probes and probes[0][0] <= mine:
                self._trips.append(now - probes.popleft()[1])

    def _until_formed(self, batch: list[Any]) -> list[Any]:
        """Drops events up to the view of all members."""
        for index, event in enumerate(batch):
            if isinstance(event, plainchant.View) and len(event.members) == self._members:
                self._formed.set()
                return batch[index + 1 :]
        return []

    async def _next_of_closed_loop(self) -> None:
        if self._probes:
            return
        if time.monotonic_ns() < self._closed_until:
            await self._probe()
        else:
            self._closed_until = 0
            self._opened.set()

    async def _probe(self) -> None:
        self._sent += 1
        self._probes.append((self._sent, time.monotonic_ns()))
        await self._group.send(self._payload)

    # --- doing ---

    async def formed(self) -> dict[str, Any]:
        """Waits for the view of all members."""
        await self._formed.wait()
        return {"members": list(self._group.view.members)}

    async def flood(self, question: dict[str, Any]) -> dict[str, Any]:
        """Sends as fast as there is room, from ``begin`` to ``end``."""
        counted, end = question["counted"], question["end"]
        self._eager = False
        await asyncio.sleep(max(0, question["begin"] - time.monotonic_ns()) / 1e9)
        thorough = asyncio.get_running_loop().call_later((counted - time.monotonic_ns()) / 1e9, self._warmed)
        if question["send"]:
            while time.monotonic_ns() < end:
                if self._one_by_one:
                    for _ in range(TOGETHER):
                        await self._group.send(self._payload)
                    self._sent += TOGETHER
                else:
                    await self._group.send_many(self._messages)
                    self._sent += len(self._messages)
        else:
            await asyncio.sleep((end - time.monotonic_ns()) / 1e9)
        thorough.cancel()
        return {"sent": self._sent}

    def _warmed(self) -> None:
        self._runs.thorough = False

    async def closed(self, question: dict[str, Any]) -> dict[str, Any]:
        """One message at a time, the next when the last is delivered here."""
        if question["send"]:
            self._trips = []
            self._opened.clear()
            self._closed_until = time.monotonic_ns() + round(question["seconds"] * 1e9)
            await self._probe()
            await self._opened.wait()
            return {"sent": self._sent, "trips": summary(self._trips[len(self._trips) // 10 :])}
        return {"sent": self._sent}

    async def paced(self, question: dict[str, Any]) -> dict[str, Any]:
        """``rate`` messages a second, and with ``send`` round trips of some more."""
        rate, seconds = question["rate"], question["seconds"]
        self._eager = self._runs.thorough = not question["load"]
        if not rate and not question["send"]:
            return {"sent": self._sent}
        began = time.monotonic()
        background = probes = 0
        self._trips = []
        while (elapsed := time.monotonic() - began) < seconds:
            due = int(rate * elapsed) - background
            background += due
            while due > 0:
                part = self._messages[:due]
                due -= len(part)
                self._sent += len(part)
                await self._group.send_many(part)
            if question["send"] and probes < PROBES * elapsed:
                probes += 1
                await self._probe()
            await asyncio.sleep(TICK if rate else 1 / PROBES)
        while self._probes:
            await asyncio.sleep(TICK)
        return {"sent": self._sent, "trips": summary(self._trips)}

    async def watch(self, question: dict[str, Any]) -> dict[str, Any]:
        """From now on writes down when messages of one member come."""
        self._watched = question["watched"]
        self._arrivals = []
        self._packets = self._group.metrics()["packets_sent"]
        return {}

    async def idle(self, question: dict[str, Any]) -> dict[str, Any]:
        """Who is watched sends ``messages``, one every ``period`` seconds."""
        times = []
        if self._watched == self._me:
            for _ in range(question["messages"]):
                self._sent += 1
                times.append(time.monotonic_ns())
                await self._group.send(self._payload)
                await asyncio.sleep(question["period"])
        return {"sent": self._sent, "times": times}

    async def times(self, question: dict[str, Any]) -> dict[str, Any]:
        """What was written down, and how many packets this member has sent meanwhile, to each other one."""
        self._watched = ""
        packets = self._group.metrics()["packets_sent"] - self._packets
        return {"arrivals": self._arrivals, "packets": packets / (self._members - 1)}

    async def promise(self, question: dict[str, Any]) -> dict[str, Any]:
        """The nearest deadline that is admitted: what a message is told that asks for too much."""
        try:
            await self._group.send(self._payload, deadline=IMPOSSIBLE)
        except plainchant.Rejected as rejected:
            return {"nearest": rejected.reason.evidence["nearest_ns"]}
        raise BenchError(f"a deadline of {IMPOSSIBLE} was admitted")

    async def timed(self, question: dict[str, Any]) -> dict[str, Any]:
        """``rate`` messages a second with a deadline, and with ``load`` as many without as go."""
        began = time.monotonic()
        until = began + question["seconds"]
        deadline = f"{question['deadline']}ns"
        self._eager = self._runs.thorough = not question["load"]
        flood = asyncio.create_task(self._flood_until(until)) if question["load"] else None
        asked = rejected = 0
        while (now := time.monotonic()) < until:
            if asked < question["rate"] * (now - began):
                asked += 1
                try:
                    await self._group.send(self._payload, deadline=deadline)
                    self._sent += 1
                except plainchant.Rejected:
                    rejected += 1
            await asyncio.sleep(TICK)
        if flood is not None:
            await flood
        return {"sent": self._sent, "rejected": rejected}

    async def _flood_until(self, until: float) -> None:
        while time.monotonic() < until:
            await self._group.send_many(self._messages)
            self._sent += len(self._messages)

    async def drain(self, question: dict[str, Any]) -> dict[str, Any]:
        """Waits until everything that was sent is delivered here, and tells what was."""
        expected: dict[str, int] = question["expected"]
        self._eager = self._runs.thorough = True
        while True:
            self._flush()
            if self._recorder.order.counts == expected and not self._probes:
                return self._recorder.report()
            if any(count > expected.get(sender, 0) for sender, count in self._recorder.order.counts.items()):
                raise BenchError(f"{self._recorder.order.counts} were delivered, but {expected} sent")
            await asyncio.sleep(TICK)

    async def talk(self, questions: asyncio.Queue[dict[str, Any] | None]) -> None:
        """Does what it is told to, until there is nothing more."""
        tell(await self.formed())
        while (question := await questions.get()) is not None:
            tell(await getattr(self, question["do"])(question))


async def run(task: dict[str, Any]) -> None:
    """The whole life of the process."""
    loop = asyncio.get_running_loop()
    questions: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    listen_apart(lambda question: loop.call_soon_threadsafe(questions.put_nowait, question))
    async with plainchant.join(
        GROUP,
        protocol=task["protocol"],
        me=task["me"],
        peers=task["peers"],
        packet=task["packet"],
        trace=task["trace"],
        parameters=task["parameters"],
        transport=over_link(task["link_ms"]),
        memory=task["memory"],
        key=plainchant.Keyring.parse(task["key"]) if task.get("key") else None,
    ) as group:
        member = Member(group, task)
        tasks = {asyncio.create_task(member.read()), asyncio.create_task(member.talk(questions))}
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in others:
            each.cancel()
        for each in done:
            each.result()


def main() -> None:
    with telling_errors():
        asyncio.run(run(enter()))


if __name__ == "__main__":
    main()
