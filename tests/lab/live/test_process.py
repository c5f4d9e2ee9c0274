"""A worker process as its supervisor sees it."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from plainchant.core.model import MS
from plainchant.lab.live.process import Process


def test_a_pause_ends_although_the_supervisor_waits_for_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agenda of faults is held up here for good. Chaos found it (dedos, round seed 20000204): pauses of 0.4 s lasted 20 s
    while the agenda waited for processes that did not answer, and the standstill was taken for the protocol's."""
    process = Process.__new__(Process)
    process.paused_until = 0
    signals: list[tuple[signal.Signals, int]] = []

    async def pause() -> None:
        continued = asyncio.Event()

        def sent(number: signal.Signals) -> bool:
            signals.append((number, time.monotonic_ns()))
            if number == signal.SIGCONT:
                continued.set()
            return True

        monkeypatch.setattr(process, "_signal", sent, raising=False)
        until = time.monotonic_ns() + 30 * MS
        process.pause(until - 20 * MS)
        process.pause(until)
        async with asyncio.timeout(60):
            await continued.wait()
        assert signals[-1][1] >= until

    asyncio.run(pause())
    assert [number for number, _ in signals] == [signal.SIGSTOP, signal.SIGSTOP, signal.SIGCONT]
    assert not process.paused_until
