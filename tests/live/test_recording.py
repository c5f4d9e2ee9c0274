"""What records a process: how a node finds the page that the laboratory provides."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import pytest

from plainchant import Message, Node, UsageError
from plainchant.core import plugins
from plainchant.core.model import SECOND
from plainchant.core.plugins import Plugin
from plainchant.lab.properties import verify
from plainchant.lab.watch.node import NodePage
from plainchant.live.recording import PAGES, WATCH, Page
from plainchant.protocols.registry import Progress, describe
from plainchant.trace import read
from plainchant.trace.collect import collect

from .test_api import addresses, run

PROVIDED: Callable[[str, str], Page] = NodePage
"""What the laboratory provides is a page, says mypy."""


class Leaf:
    """A page that only remembers."""

    opened: ClassVar[list[str]] = []

    def __init__(self, place: str, address: str) -> None:
        self.url = f"http://{address}/"
        self._what = f"{place} at {address}"

    async def open(self) -> None:
        self.opened.append(self._what)

    async def close(self) -> None:
        self.opened.remove(self._what)

    def tap(self, run: str, process: str, start: dict[str, Any], spool: Any) -> Any:
        return spool


def install(monkeypatch: pytest.MonkeyPatch, *entries: metadata.EntryPoint) -> None:
    """Pretends that these entry points, and no others, are installed."""
    found = {entry.name: Plugin(entry.group, entry.name, entry, "a test") for entry in entries}
    monkeypatch.setattr(plugins, "plugins", lambda group: {name: each for name, each in found.items() if each.group == group})


def test_a_page_that_is_not_installed_is_missed_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)

    async def main() -> None:
        with pytest.raises(UsageError, match=r"not installed: pip install 'plainchant\[observe\]'"):
            await Node(me="a", peers=addresses("a"), watch="127.0.0.1:0").open()

    run(main())


def test_a_node_opens_and_closes_the_page_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, metadata.EntryPoint(WATCH, f"{__name__}:{Leaf.__name__}", PAGES))

    async def main() -> None:
        async with Node(me="a", peers=addresses("a"), watch="127.0.0.1:0") as node:
            assert Leaf.opened == ["a at 127.0.0.1:0"]
            async with node.join("g"):
                await asyncio.sleep(0)
        assert Leaf.opened == []

    run(main())


def test_a_node_whose_protocol_states_a_time_records_requests_and_keeps_progress(tmp_path: Path) -> None:
    """The time is longer than the test may take, so that the speed of the machine does not matter."""
    progress = Progress(within=120 * SECOND, answered=120 * SECOND)
    stating = dataclasses.replace(describe("sequencer"), progress=lambda parameters, groups: progress)
    peers = addresses("a", "b")

    async def member(name: str) -> None:
        node = Node(me=name, peers=peers, description=stating, trace=tmp_path / "spools", run="r")
        async with node, node.join("g") as group:
            await group.send(name.encode())
            missing = {b"a", b"b"}
            async for event in group:
                if isinstance(event, Message):
                    missing.discard(event.payload)
                if not missing:
                    break

    async def main() -> None:
        await asyncio.gather(member("a"), member("b"))

    run(main())
    collect([tmp_path / "spools"], tmp_path, alive=())
    table = read(tmp_path / "trace").table
    rows = [row for row in table.to_pylist() if row["kind"] == "request"]
    asked = [(row["process"], json.loads(row["detail"])["request"]) for row in rows]
    assert [name for name, what in asked if what in ("form", "join")] == ["a", "b"]
    assert [name for name, what in asked if what == "leave"] == ["a", "b"]
    outcome = verify(table).properties["progress"]
    assert (outcome.verdict, outcome.cases) == ("holds", 4 + len(rows))
