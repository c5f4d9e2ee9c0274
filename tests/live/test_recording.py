"""What records a process: how a node finds the page that the laboratory provides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import metadata
from typing import Any, ClassVar

import pytest

from plainchant import Node, UsageError
from plainchant.core import plugins
from plainchant.core.plugins import Plugin
from plainchant.lab.watch.node import NodePage
from plainchant.live.recording import PAGES, WATCH, Page

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
