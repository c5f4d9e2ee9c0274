"""The way of a message, as docs/architecture.md lists it: each function exists and calls the next one in a real run."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import plainchant
from plainchant.live.ports import free_ports

PAGE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"
OURS = str(Path(plainchant.__file__).parent)
HEADING = "## The way of a message"
MOST = 25
"""Hops from ``group.send`` to a peer's reader."""
HOP = re.compile(r"^(\d+)\. `([\w.]+):([\w.]+)`(?: \(called by (the event loop|the application|\d+)\))?", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Hop:
    """A function that a message passes through, and the number of the hop that calls it; None: it is called from outside."""

    number: int
    name: str
    code: CodeType
    caller: int | None


def code_of(module: str, name: str) -> CodeType:
    found: Any = importlib.import_module(f"plainchant.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    code = inspect.unwrap(found).__code__
    assert isinstance(code, CodeType)
    return code


def hops(page: str) -> list[Hop]:
    """The list on the page."""
    section = page[page.index(HEADING) + len(HEADING) :]
    section = section[: section.index("\n## ")]
    found: list[Hop] = []
    for number, module, name, caller in HOP.findall(section):
        assert int(number) == len(found) + 1, f"hop {number} is number {len(found) + 1}"
        by = None if caller.startswith("the ") or number == "1" else int(caller or int(number) - 1)
        found.append(Hop(int(number), f"{module}:{name}", code_of(module, name), by))
    return found


@contextmanager
def traced(calls: set[tuple[CodeType, CodeType | None]]) -> Iterator[None]:
    """Notes which code calls which."""

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            calls.add((frame.f_code, frame.f_back.f_code if frame.f_back is not None else None))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


async def send_and_read() -> set[tuple[CodeType, CodeType | None]]:
    """Every call of a live run in which one member, the sequencer, sends a message and another one reads it."""
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(("ann", "ben"), free_ports(2), strict=True)}
    calls: set[tuple[CodeType, CodeType | None]] = set()
    are_in, is_read = asyncio.Barrier(2), asyncio.Event()

    async def ann() -> None:
        async with plainchant.join("bank", me="ann", peers=peers) as group:
            await are_in.wait()
            with traced(calls):
                await group.send(b"hello")
                await is_read.wait()

    async def ben() -> None:
        async with plainchant.join("bank", me="ben", peers=peers) as group:
            await are_in.wait()
            async for event in group:
                if isinstance(event, plainchant.Message):
                    break
            is_read.set()

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(ann())
        tasks.create_task(ben())
    return calls


def test_the_list_is_the_way_that_a_message_takes() -> None:
    listed = hops(PAGE.read_text())
    assert 10 < len(listed) <= MOST
    calls = asyncio.run(send_and_read())
    called = {code for code, _ in calls}
    missing = [hop.name for hop in listed if hop.code not in called]
    assert not missing, f"a message does not come by {', '.join(missing)}"
    for hop in listed:
        if hop.caller is not None:
            caller = listed[hop.caller - 1]
            assert (hop.code, caller.code) in calls, f"{caller.name} does not call {hop.name}"
        elif hop.number > 1:
            callers = {by for code, by in calls if code is hop.code}
            assert any(by is None or not by.co_filename.startswith(OURS) for by in callers), f"{hop.name} is called by us"
