"""A store that several processes write to, one at a time: a distributed lock, its tokens, and a holder that is killed.

Theory of operation
-------------------
Three workers write to a store that is no member of their group and knows nothing of it. Each write has two lines, ``begins``
and ``ends``, and nobody else's line may stand between them. A lock sees to that: a worker writes while it holds the lock. The
store trusts nobody: each line bears the token under which the lock was held, and the store's fence refuses a token that is
smaller than one that it has seen. So a worker that was paused, or cut off, and goes on with a lock that it has lost does no
harm.

In the middle the worker that holds the lock is killed. Its write is left without an end; the next worker gets the lock with a
larger token as soon as the group's view lacks the dead one. Then it comes back, as a new process, gets the state of the group
(here: how many writes there were, which a counter knows), and goes on.

:func:`simulate` runs everything on virtual time. ``python examples/fenced_store.py`` has a process for each worker, real
sockets and a real kill; the store is the process that started them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import plainchant
from plainchant import Group
from plainchant.blocks import Counter, Fence, Lock, LockLost, Replica, StaleToken

GROUP: Final = "workers"
WORKERS: Final = ("ann", "ben", "cyd")
LIVE_TIMEOUT: Final = 120.0
"""Seconds after which a live run has failed."""
HOLD: Final = 0.03
"""Seconds that a write takes."""


@dataclasses.dataclass
class Store:
    """What is protected: lines, each with its token, and what was refused."""

    fence: Fence = dataclasses.field(default_factory=lambda: Fence("store"))
    lines: list[tuple[int, str, str]] = dataclasses.field(default_factory=list)
    refused: list[str] = dataclasses.field(default_factory=list)

    def write(self, token: int, worker: str, line: str, note: Callable[..., None] | None = None) -> None:
        try:
            self.fence.admit(token, note)
        except StaleToken as stale:
            self.refused.append(str(stale))
        else:
            self.lines.append((token, worker, line))

    @property
    def problems(self) -> list[str]:
        """What is wrong with the lines: tokens that become smaller, writes that are mixed up."""
        found = []
        for (token, worker, line), (after, other, following) in zip(self.lines, self.lines[1:], strict=False):
            if after < token:
                found.append(f"{other} writes with token {after} after {worker} with {token}")
            if (line, following) == ("begins", "ends") and (token, worker) != (after, other):
                found.append(f"{other} ends what {worker} began")
            if line == following == "ends":
                found.append(f"{other} ends what it has not begun")
        return found


async def work(group: Group, write: Callable[..., None], over: asyncio.Event) -> int:
    """A worker: writes until it is over; the number of writes that the group knows of."""
    lock, writes = Lock(), Counter()
    async with Replica(group, lock=lock, writes=writes) as replica:
        while not over.is_set():
            with contextlib.suppress(LockLost):  # another one has it by now, and ends its own write
                async with lock as token:
                    put = partial(write, token, group.me, note=partial(lock.note, "admit"))
                    put("begins")
                    await asyncio.sleep(HOLD)
                    put("ends")
                    await writes.add()
            await asyncio.sleep(HOLD)
        await replica.catch_up()
        return writes.value


# --- on virtual time ------------------------------------------------------------------------------------------------------


def simulate(
    *, seed: int = 0, protocol: str = "sequencer", faults: Sequence[Mapping[str, Any]] | None = None
) -> tuple[Store, Any]:
    """The workers on virtual time; unless told otherwise ann is killed and comes back."""
    store = Store()
    if faults is None:
        faults = [{"kind": "crash", "process": "ann", "at": "310ms"}, {"kind": "restart", "process": "ann", "at": "1s"}]

    async def main(group: Group) -> int:
        over = asyncio.Event()
        asyncio.get_running_loop().call_later(2.0, over.set)
        return await work(group, store.write, over)

    result = plainchant.sim.run(
        main, members=WORKERS, group=GROUP, protocol=protocol, seed=seed, faults=list(faults), state=True, raises=False
    )
    return store, result


# --- with real processes --------------------------------------------------------------------------------------------------


async def worker(task: Mapping[str, Any]) -> int:
    """The whole life of a worker's process; it is over when its standard input is."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(sys.stdin.fileno())
        over.set()

    loop.add_reader(sys.stdin.fileno(), end)
    async with plainchant.join(GROUP, me=task["me"], peers=task["peers"], state=True, trace=task["trace"]) as group:
        return await work(group, _tell, over)


def _tell(token: int, name: str, line: str, note: Callable[..., None]) -> None:
    """A line for the store, which is another process. (What it lets in it knows itself; here nothing is noted.)"""
    print(json.dumps([token, name, line]), flush=True)


class Workers:
    """The workers' processes, and the store that hears them."""

    def __init__(self, peers: Mapping[str, str], trace: str | None) -> None:
        self.store = Store()
        self.known: dict[str, int] = {}
        """How many writes each worker knew of in the end."""
        self._peers, self._trace = dict(peers), trace
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._readers: list[asyncio.Task[None]] = []
        self._changed = asyncio.Condition()

    async def start(self, me: str) -> None:
        task = {"me": me, "peers": self._peers, "trace": self._trace}
        self._processes[me] = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).resolve()),
            "worker",
            json.dumps(task),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._readers.append(asyncio.create_task(self._read(me, self._processes[me])))

    async def _read(self, me: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for text in process.stdout:
            said = json.loads(text)
            async with self._changed:
                if isinstance(said, int):
                    self.known[me] = said
                else:
                    self.store.write(*said)
                self._changed.notify_all()

    async def until(self, condition: Callable[[Store], Any]) -> None:
        """Waits until something holds of the store; nobody may end meanwhile who was not told to."""
        async with self._changed:
            await self._changed.wait_for(lambda: condition(self.store))

    async def kill(self, me: str) -> None:
        self._processes[me].kill()
        await self._processes[me].wait()

    async def finish(self) -> None:
        """Tells those that are left that it is over, and waits for their ends."""
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        for me, process in self._processes.items():
            if await process.wait():
                raise plainchant.PlainchantError(f"{me} has ended with status {process.returncode}; what it said is above")
        await asyncio.gather(*self._readers)

    async def end(self) -> None:
        """Whatever happened, nobody is left."""
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)


async def live(*, peers: Mapping[str, str], trace: str | None = None) -> tuple[Workers, str, int]:
    """The workers as processes: whoever holds the lock after some writes is killed, and started again when others have written.
    The workers, who was killed, and with which token."""
    workers = Workers(peers, trace)
    try:
        async with asyncio.timeout(LIVE_TIMEOUT):
            for me in peers:
                await workers.start(me)
            await workers.until(lambda store: len(store.lines) >= 6 and store.lines[-1][2] == "begins")
            token, killed, _ = workers.store.lines[-1]
            await workers.kill(killed)
            await workers.until(lambda store: store.lines[-1][0] >= token + 4)
            await workers.start(killed)
            await workers.until(lambda store: any(name == f"{killed}#1" for _, name, _ in store.lines))
            await workers.finish()
    finally:
        await workers.end()
    return workers, killed, token


def free_peers() -> dict[str, str]:
    """Addresses on this machine that nobody has now."""
    from plainchant.live.ports import free_ports

    return {name: f"127.0.0.1:{port}" for name, port in zip(WORKERS, free_ports(len(WORKERS)), strict=True)}


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["worker"]:
        print(asyncio.run(worker(json.loads(arguments[1]))), flush=True)
        return 0
    workers, killed, token = asyncio.run(live(peers=free_peers()))
    store = workers.store
    print(f"{killed} was killed while it held the lock with token {token}.")
    print(
        f"{len(store.lines)} lines, tokens 1 to {store.lines[-1][0]}, {len(store.refused)} refused; "
        f"writes that each worker knew of in the end: {workers.known}"
    )
    print("\n".join(store.problems) or "no two writes are mixed up")
    return 1 if store.problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
