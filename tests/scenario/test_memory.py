"""Scenarios of protocols on common memory: what they may say, and what makes no sense without it."""

from __future__ import annotations

import dataclasses

import pytest

from plainchant.core.memory import Layout
from plainchant.core.model import MS, US, ScenarioError
from plainchant.protocols import registry
from plainchant.protocols.registry import Placement
from plainchant.scenario import dump, parse
from plainchant.scenario.model import Fault, Memory

from .conftest import CHANT

SHARED = dataclasses.replace(
    CHANT,
    name="shared",
    packets=(),
    placement=Placement(
        memory=lambda parameters: Layout(2, 16, 4, 65536),
        remote=lambda parameters: {"p3": "p1"} if parameters.mode == "hasty" else {},
    ),
)
FULL = """
protocol = "shared"
members = 3
[memory]
duration = "extremes"
share = 0.5
service = "2us"
detection = "5ms"
operations = true
[[fault]]
kind = "module"
module = 2
at = "1ms"
[[fault]]
kind = "slow"
process = "p1"
at = "2ms"
length = "3ms"
delay = "4us"
[random]
module = 1.0
slow = 2.0
slow_length = "3ms"
slow_delay = "4us"
step_most = "5us"
"""


@pytest.fixture(autouse=True)
def _shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "protocols", lambda: {"chant": CHANT, "shared": SHARED})


def refused(text: str, *overrides: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse(text, "s.toml", overrides)
    return str(caught.value)


def test_everything_about_common_memory_is_read_and_written() -> None:
    scenario = parse(FULL)
    assert scenario.memory == Memory("extremes", 0.5, 2 * US, 5 * MS, operations=True)  # type: ignore[arg-type]
    assert scenario.fault[0] == Fault(kind="module", module=2, at=1 * MS)  # type: ignore[arg-type]
    assert (scenario.random.slow_delay, scenario.random.step_most) == (4 * US, 5 * US)
    assert parse(dump(scenario)) == scenario


def test_only_protocols_on_common_memory_have_a_table_for_it() -> None:
    top = "members = 2\nprotocol = "
    assert "[memory]" not in dump(parse(top + '"chant"'))
    assert '[memory]\nduration = "uniform"\nshare = 1.0\n' in dump(parse(top + '"shared"'))


@pytest.mark.parametrize(
    ("rest", "line", "problem"),
    [
        ('[memory]\nduration = "max"', 3, "chant sends packets and has no common memory; leave [memory] out"),
        ('[[fault]]\nkind = "module"\nat = "1ms"\nmodule = 1', 4, "so there can be no fault of kind module; leave it out"),
        ("[random]\nslow = 1.0", 4, "so there can be no faults of kind slow; set it to 0"),
    ],
)
def test_what_needs_common_memory_is_refused_without(rest: str, line: int, problem: str) -> None:
    said = refused(f'protocol = "chant"\nmembers = 3\n{rest}\n')
    assert said.startswith(f"s.toml:{line}: ")
    assert problem in said
    assert said.endswith("or take a protocol on common memory")


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        ('[memory]\nduration = "long"', 'memory.duration cannot be "long"; there are: uniform, max, min, extremes'),
        ("[memory]\nservice = 3", "memory.service must be a duration with its unit"),
        ('[[fault]]\nkind = "module"\nat = "1ms"\nmodule = 3', "there is no module 3; with these parameters there are 2"),
        ('[[fault]]\nkind = "module"\nat = "1ms"', 'a fault of kind module needs "module" (module: which one, counted from 1)'),
        ('[[fault]]\nkind = "slow"\nat = "1ms"\nprocess = "p1"\ndelay = "1ms"', 'a fault of kind slow needs "length"'),
        ('[[fault]]\nkind = "heal"\nat = "1ms"', "nobody sends packets with shared, so a fault of kind heal would do nothing"),
        ("[random]\ncut = 1.0", "nobody sends packets with shared, so faults of kind cut would do nothing; set it to 0"),
    ],
)
def test_what_makes_no_sense_on_common_memory_is_refused(rest: str, problem: str) -> None:
    assert problem in refused(f'protocol = "shared"\nmembers = 3\n{rest}\n')


def test_faults_of_the_network_are_for_members_that_are_elsewhere() -> None:
    text = 'protocol = "shared"\nmembers = 3\n[[fault]]\nkind = "cut"\nat = "1ms"\nsource = "p3"\n'
    assert "a fault of kind cut would do nothing; leave it out" in refused(text)
    assert parse(text, "s.toml", ["parameters.mode=hasty"]).fault[0].kind == "cut"
