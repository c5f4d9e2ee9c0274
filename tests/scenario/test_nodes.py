"""Scenarios of protocols whose processes are on nodes: what they may say, and what makes no sense without nodes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from plainchant.core import model
from plainchant.core.memory import Layout
from plainchant.core.model import ScenarioError
from plainchant.protocols import registry
from plainchant.protocols.registry import Placement
from plainchant.scenario import dump, parse
from plainchant.scenario.model import Fault

from .conftest import CHANT

MS: Any = model.MS
NODED = dataclasses.replace(
    CHANT,
    name="noded",
    placement=Placement(
        memory=lambda parameters: Layout(2, 16, 4, 65536),
        idle=True,
        lans=lambda parameters: 2,
        node_of=lambda parameters, process: process.partition(".")[0],
        processor_of=lambda parameters, process: process[:4] if process.count(".") > 1 else process,
    ),
)
FIXED = dataclasses.replace(NODED, name="fixed", changes=lambda parameters: False)
FULL = """
protocol = "noded"
members = ["a.c1.p1", "a.c1.p2", "b.p1", "b.p2", "c.p1"]
[groups]
g = ["a.c1.p1", "b.p1"]
[[fault]]
kind = "node"
node = "b"
at = "1ms"
[[fault]]
kind = "processor"
processor = "a.c1"
at = "2ms"
[[fault]]
kind = "module"
node = "a"
module = 2
at = "3ms"
[[fault]]
kind = "lan"
lan = 2
at = "4ms"
length = "5ms"
[[fault]]
kind = "partition"
at = "5ms"
parts = [["a.c1.p1"], ["b.p1"]]
[[fault]]
kind = "sluggish"
process = "c.p1"
at = "6ms"
length = "7ms"
count = 8
[random]
node = 1.0
keep_nodes = 2
processor = 2.0
lan = 3.0
sluggish = 4.0
sluggish_length = "5ms"
"""


@pytest.fixture(autouse=True)
def _noded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "protocols", lambda: {"chant": CHANT, "noded": NODED, "fixed": FIXED})


def refused(text: str, *overrides: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse(text, "s.toml", overrides)
    return str(caught.value)


def test_everything_about_nodes_is_read_and_written() -> None:
    scenario = parse(FULL, "s.toml")
    assert scenario.fault[0] == Fault(kind="node", node="b", at=1 * MS)
    assert scenario.fault[1] == Fault(kind="processor", processor="a.c1", at=2 * MS)
    assert scenario.fault[2] == Fault(kind="module", node="a", module=2, at=3 * MS)
    assert scenario.fault[3] == Fault(kind="lan", lan=2, at=4 * MS, length=5 * MS)
    assert scenario.fault[5] == Fault(kind="sluggish", process="c.p1", at=6 * MS, length=7 * MS, count=8)
    assert (scenario.random.node, scenario.random.keep_nodes, scenario.random.processor, scenario.random.lan) == (1, 2, 2, 3)
    assert (scenario.random.sluggish, scenario.random.sluggish_length) == (4, 5 * MS)
    assert parse(dump(scenario), "s.toml") == scenario


def test_who_is_in_no_group_is_there_only_where_that_is_allowed() -> None:
    assert "c.p1" in parse(FULL, "s.toml").members
    text = 'protocol = "chant"\nmembers = 3\n[groups]\ng = ["p1", "p2"]\n'
    assert refused(text) == 's.toml:2: "p3" is in no group; name it in [groups] or leave it out of members'


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("fault.0.node=bb", 'there is no node "bb"; did you mean "b"?'),
        ("fault.1.processor=a.c3", 'there is no processor "a.c3"; did you mean "a.c1"?'),
        ("fault.2.node=x", 'there is no node "x"; there are: a, b, c'),
        ("fault.2.module=3", "there is no module 3; with these parameters there are 2"),
        ("fault.3.lan=3", "there is no network 3; with these parameters there are 2"),
        ("fault.0.length=1ms", 'a fault of kind node has no "length"; it has: at, node'),
        ("random.keep_nodes=3", "of 3 nodes 3 are kept, so none could crash; keep fewer, or set node to 0"),
        ("random.keep_nodes=0", "random.keep_nodes must be a whole number of at least 1"),
    ],
)
def test_what_is_not_there_is_refused(override: str, sentence: str) -> None:
    assert sentence in refused(FULL, override)


def test_a_module_says_its_node_where_there_are_several() -> None:
    text = FULL.replace('node = "a"\nmodule = 2', "module = 2")
    assert refused(text) == 's.toml:14: there are 3 nodes, so a module needs "node": in which of them it is'
    alone = 'protocol = "noded"\nmembers = ["a.p1", "a.p2"]\n[[fault]]\nkind = "module"\nmodule = 1\nat = "1ms"\n'
    assert parse(alone, "s.toml").fault[0].node == ""


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ('fault=[{kind = "node", node = "a", at = "1ms"}]', "the processes of chant are not on nodes; leave it out"),
        ('fault=[{kind = "processor", processor = "a", at = "1ms"}]', "the processes of chant are not on nodes; leave it out"),
        ("random.node=1", "the processes of chant are not on nodes; set it to 0"),
        ("random.processor=1", "the processes of chant are not on nodes; set it to 0"),
        ('fault=[{kind = "lan", lan = 2, at = "1ms"}]', "there is no network 2; with these parameters there are 1"),
        ("random.lan=1", "the only network never crashes by chance; set it to 0, or let there be two"),
    ],
)
def test_protocols_without_nodes_have_none_of_their_faults(override: str, sentence: str) -> None:
    assert sentence in refused('protocol = "chant"\nmembers = 3\n', override)


def test_the_only_network_may_crash_and_any_application_may_be_sluggish() -> None:
    lan = 'fault.0={kind = "lan", lan = 1, at = "1ms"}'
    sluggish = 'fault.1={kind = "sluggish", process = "p1", at = "1ms", length = "1ms"}'
    faults = parse('protocol = "chant"\nmembers = 3\n', "s.toml", [lan, sluggish]).fault
    assert [fault.kind for fault in faults] == ["lan", "sluggish"]


@pytest.mark.parametrize("override", ["random.node=1", "random.processor=1"])
def test_groups_that_do_not_change_do_not_survive_nodes(override: str) -> None:
    text = 'protocol = "fixed"\nmembers = ["a.p1", "b.p1"]\n'
    assert "does not survive crashes" in refused(text, override)
    fault = '[[fault]]\nkind = "node"\nnode = "a"\nat = "1ms"\n'
    assert "does not survive a crash" in refused(text + fault)
