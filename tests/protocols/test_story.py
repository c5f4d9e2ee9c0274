"""Stories: whatever a new protocol has to say about its runs is told without a change anywhere else."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from plainchant import protocols
from plainchant.core.model import UsageError
from plainchant.lab.draw.diagram import diagram
from plainchant.lab.draw.timing import timing_diagram
from plainchant.lab.explain.explainer import Explainer
from plainchant.lab.explain.rows import Rows
from plainchant.lab.export import to_shiviz
from plainchant.lab.show import lines, select
from plainchant.protocols import registry
from plainchant.protocols.story import Detail, Event, Sign, Story
from plainchant.scenario import parse
from plainchant.sim import run_scenario
from plainchant.trace import TraceBuffer
from tests.fixed import PLAINSONG
from tests.lab.explain.script import Script


class Antiphon(Story):
    """Two choirs sing in turns; a choir that loses the tune falls silent."""

    view_kinds: ClassVar = ("request",)
    process_kinds: ClassVar = ("request",)
    drawn_kinds: ClassVar = ("request",)
    operations: ClassVar = {"sing": ("write", "sing a verse")}

    @staticmethod
    def act(kind: str, detail: Detail, sender: str | None = None) -> str | None:
        return f"asks for verse {detail['verse']}" if kind == "request" and "verse" in detail else None

    @staticmethod
    def ground(kind: str, detail: Detail) -> str | None:
        return "it has lost the tune" if kind == "request" else None

    @staticmethod
    def sign(event: Event) -> Sign | None:
        return ("form", f"verse {event.detail.get('verse')}?", "formtext") if event.kind == "request" else None

    def place(self, event: Event) -> str:
        return ", in the second verse"

    def stopped(self, crash: Event) -> str | None:
        return "the tune was lost"

    def summary(self, process: str) -> list[str]:
        return [f"It asked for {len(self.run.find('request', process=process))} verse."]


ANTIPHON = dataclasses.replace(PLAINSONG, name="antiphon", story=lambda: Antiphon)


@pytest.fixture
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "protocols", lambda: {"antiphon": ANTIPHON})


def sung(protocol: str = "antiphon") -> Script:
    script = Script()
    script.add(0, "p q", "start", group=None, version=1, protocol=protocol)
    script.view(1, "p q", 1, "p q")
    seq = script.send(2, "p")
    script.deliver(3, "p q", "p", seq)
    script.add(4, "q", "request", verse=2)
    script.add(4, "q", "operation", operation="sing", copy=0, began=3)
    script.crash(5, "q")
    script.end(9, "p")
    return script


@pytest.mark.usefixtures("_known")
def test_explanations_ask_the_story() -> None:
    explainer = Explainer(sung().table())
    life = explainer.message(("g", "p", 1))
    assert "q delivers it, 1.0 ms after its send, in the second verse" in [step.what for step in life.steps]
    story = explainer.process("q")
    told = {step.what: step.because for step in story.steps}
    assert told["q asks for verse 2"] == "it has lost the tune"
    assert told["q crashes"] == "the tune was lost"
    assert "It asked for 1 verse." in story.conclusion


@pytest.mark.usefixtures("_known")
def test_listings_and_exports_ask_the_story_even_of_a_selection() -> None:
    table = sung().table()
    (line,) = lines(table, kind="request")
    assert line.endswith("asks for verse 2 (it has lost the tune)")
    assert "asks for verse 2" in to_shiviz(table)
    assert "asks for verse 2" not in to_shiviz(select(table, {"kind": "request"})), "no start row says which story it is"


@pytest.mark.usefixtures("_known")
def test_diagrams_ask_the_story() -> None:
    assert "verse 2?" in diagram(sung().table())
    assert "sing a verse" in timing_diagram(sung().table())


@pytest.mark.parametrize("protocol", ["", "whistling", "antiphon"])
def test_a_protocol_that_is_not_known_has_the_plain_story(protocol: str) -> None:
    rows = Rows(sung(protocol).table())
    assert type(rows.story) is Story
    assert rows.description is None
    explainer = Explainer(sung(protocol).table())
    assert not any("verse" in step.what for step in explainer.process("q").steps)
    assert "verse" not in diagram(sung(protocol).table())


def test_every_protocol_has_a_story_of_its_own() -> None:
    for name, description in registry.protocols().items():
        story = description.story()
        assert story is registry.story_of(name)
        assert story.__module__ == f"plainchant.protocols.{name}.story"


def test_a_start_row_with_a_strange_protocol_is_no_error() -> None:
    assert registry.story_of(None) is registry.story_of(["newtop"]) is registry.story_of("no such") is Story


def test_what_can_be_explored_is_a_matter_of_the_description(monkeypatch: pytest.MonkeyPatch) -> None:
    from plainchant.cli.explore import _exploration

    with pytest.raises(UsageError, match="'sequencer' cannot be explored; protocols that can be: mailbox"):
        _exploration("sequencer")
    cases = _exploration("mailbox")
    assert cases.case(receivers=1).receivers == ("r1",)
    explored = dataclasses.replace(ANTIPHON, exploration=lambda: cases)
    monkeypatch.setattr(registry, "protocols", lambda: {"antiphon": explored})
    assert _exploration("antiphon") is cases


def test_a_new_folder_is_a_new_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "chorale"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "import dataclasses\n"
        "from ..sequencer import DESCRIPTION as MODEL\n"
        "def tell():\n"
        "    from .story import Chorale\n"
        "    return Chorale\n"
        "DESCRIPTION = dataclasses.replace(MODEL, name='chorale', story=tell)\n"
    )
    (folder / "story.py").write_text(
        "from ..story import Story\nclass Chorale(Story):\n    def place(self, event):\n        return ', in four voices'\n"
    )
    monkeypatch.setattr(protocols, "__path__", [*protocols.__path__, str(tmp_path)])
    registry._own_names.cache_clear()
    try:
        assert list(registry.protocols())[:5] == ["sequencer", "newtop", "rtcast", "mailbox", "dedos"]
        assert "chorale" in registry.protocols()
        trace = TraceBuffer()
        run_scenario(parse('protocol = "chorale"\nmembers = 3\nduration = "20ms"\n[[workload]]\nrate = 100\n'), trace=trace)
        sends = select(trace.table(), {"kind": "send"}).to_pylist()
        life = Explainer(trace.table()).message((sends[0]["group"], sends[0]["sender"], sends[0]["seq"]))
        assert any(step.what.endswith(", in four voices") for step in life.steps)
    finally:
        registry._own_names.cache_clear()
        for name in ("chorale", "chorale.story"):
            sys.modules.pop(f"plainchant.protocols.{name}", None)
