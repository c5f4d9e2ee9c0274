"""Plug-ins are found by their entry points; one that is broken names its distribution and leaves the others alone."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import plainchant
from plainchant import Node, UsageError
from plainchant.core import plugins
from plainchant.core.plugins import PluginError, PluginWarning
from plainchant.lab.properties import verify
from plainchant.lab.watch.node import NodePage
from plainchant.live.config import parse_config
from plainchant.live.transports import transports
from plainchant.protocols import registry
from plainchant.trace.verifier import Verifier, verifier

from ..live.test_api import addresses

OURS = ["sequencer", "newtop", "rtcast", "mailbox", "dedos"]
PEERS = {"a": "127.0.0.1:1"}

Install = Callable[..., None]

GOOD = """
import dataclasses
from plainchant.protocols.sequencer import DESCRIPTION
SOLO = dataclasses.replace(DESCRIPTION, name="solo")
made = []
def make(address, packet):
    from plainchant.live.udp import UdpTransport
    made.append(address)
    return UdpTransport(address, packet=packet)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a distribution: its name, the source of its module, and its entry points by group."""

    def do(name: str, source: str, **groups: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)
        info = tmp_path / f"{name}-2.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.1\n")
        lines = [f"[plainchant.{group}]\n{entries}\n" for group, entries in groups.items()]
        (info / "entry_points.txt").write_text("\n".join(lines))
        plugins.plugins.cache_clear()

    monkeypatch.syspath_prepend(tmp_path)
    plugins.plugins.cache_clear()
    yield do
    plugins.plugins.cache_clear()


def test_the_library_finds_what_the_laboratory_declares() -> None:
    reference: Verifier = verify  # it is what the contract says
    assert verifier("this test needs") is reference
    assert plugins.load("plainchant.pages", "watch", "this test needs", "observe") is NodePage


def test_what_is_not_installed_says_which_extra_brings_it() -> None:
    with pytest.raises(
        PluginError, match=re.escape("pictures need the plug-in 'paint' (plainchant.none), which is not installed")
    ):
        plugins.load("plainchant.none", "paint", "pictures need", "lab")


def test_a_protocol_of_another_distribution_comes_after_ours(install: Install) -> None:
    install("plug_good", GOOD, protocols="solo = plug_good:SOLO\nsequencer = plug_good:SOLO")
    assert list(registry.protocols()) == [*OURS, "solo"]
    assert registry.describe("solo").name == "solo"
    assert registry.describe("sequencer") is registry.protocols()["sequencer"]
    assert registry.describe("sequencer").name == "sequencer"  # our names cannot be taken
    with pytest.raises(UsageError, match="did you mean 'solo'"):
        registry.describe("sollo")


@pytest.mark.parametrize(
    ("source", "value", "problem"),
    [
        ("1 / 0", "plug_bad:SOLO", "ZeroDivisionError: division by zero; update or uninstall plug_bad 2.1"),
        ("import no_such_module", "plug_bad:SOLO", "there is no module 'no_such_module'; install it, or reinstall plug_bad 2.1"),
        ("", "plug_bad:SOLO", "AttributeError: module 'plug_bad' has no attribute 'SOLO'; update or uninstall plug_bad 2.1"),
        ("SOLO = 3", "plug_bad:SOLO", "expected a Description, got int; point the entry point to one"),
        (GOOD.replace('"solo"', '"duet"'), "plug_bad:SOLO", "its description has the name 'duet'; use one name for both"),
    ],
)
def test_a_broken_protocol_names_its_distribution_and_leaves_the_others(
    source: str, value: str, problem: str, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "plug_bad", raising=False)
    install("plug_bad", source, protocols=f"solo = {value}")
    wanted = re.escape(f"cannot load 'solo' (plainchant.protocols, {value}) of plug_bad 2.1: {problem}")
    with pytest.warns(PluginWarning, match=wanted):
        assert list(registry.protocols()) == OURS
    with pytest.raises(PluginError, match=wanted):
        registry.describe("solo")
    monkeypatch.delitem(sys.modules, "plug_bad", raising=False)


def test_a_name_that_two_distributions_declare_is_an_error(install: Install) -> None:
    install("plug_one", GOOD, protocols="solo = plug_one:SOLO")
    install("plug_two", GOOD, protocols="solo = plug_two:SOLO")
    with pytest.raises(PluginError, match=re.escape("several distributions declare it (plug_one 2.1, plug_two 2.1)")):
        registry.describe("solo")


def test_a_transport_of_another_distribution_is_known_by_its_name(install: Install) -> None:
    install("plug_pigeon", GOOD, transports="pigeon = plug_pigeon:make\nrock = plug_pigeon:made")
    assert transports() == ("udp", "tcp", "multicast", "pigeon", "rock")
    text = 'me = "a"\ntransport = "pigeon"\n[peers]\na = "127.0.0.1:1"\n'
    assert parse_config(text).transport == "pigeon"

    async def main() -> None:
        async with plainchant.join("g", me="a", peers=addresses("a"), transport="pigeon") as group:
            await group.send(b"coo")
            async for event in group:
                if isinstance(event, plainchant.Message):
                    return

    asyncio.run(main())
    assert len(sys.modules["plug_pigeon"].made) == 1
    with pytest.raises(PluginError, match=re.escape("expected a function make(address, packet), got list")):
        Node(me="a", peers=PEERS, transport="rock")
    with pytest.raises(UsageError, match="there are udp, tcp, multicast, pigeon and rock, or give a function that makes one"):
        Node(me="a", peers=PEERS, transport="owl")
    with pytest.raises(UsageError, match=r':2: transport cannot be "owl"'):
        parse_config(text.replace("pigeon", "owl"))
