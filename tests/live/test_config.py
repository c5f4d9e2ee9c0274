"""Configurations of nodes: what is read, and that what is wrong is said with its line."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from plainchant.core.model import SECOND, ScenarioError, declarations
from plainchant.live.config import EXAMPLE, MulticastConfig, NodeConfig, ObserveConfig, load_config, parse_config

PEERS = '[peers]\na = "127.0.0.1:7001"\nb = "127.0.0.1:7002"\n'
SMALL = 'me = "a"\n' + PEERS


def test_what_is_left_out_has_its_default() -> None:
    config = parse_config(SMALL)
    assert config == NodeConfig(me="a", peers={"a": "127.0.0.1:7001", "b": "127.0.0.1:7002"})
    assert (config.protocol, config.group, config.transport, config.members) == ("sequencer", "g", "udp", ())
    assert config.timeout == 30 * SECOND
    assert config.parameters == {}


def test_everything_can_be_set() -> None:
    text = """\
me = "b"
protocol = "sequencer"
group = "bank"
members = ["b", "a"]
transport = "multicast"
packet = 1400
trace = "spools"
run = "monday"
watch = "127.0.0.1:8765"
incarnation = 2
timeout = "5s"
leave_timeout = "500ms"
key = "bank.key"
insecure = true
[multicast]
group = "239.1.2.3:9000"
interface = "127.0.0.1"
ttl = 4
[observe]
metrics = "9464"
otlp = "http://127.0.0.1:4318"
messages = 0.5
[parameters]
resilience = 1
heartbeat = "10ms"
"""
    config = parse_config(text + PEERS)
    assert config.members == ("b", "a")
    assert (config.packet, config.trace, config.run, config.incarnation) == (1400, "spools", "monday", 2)
    assert (config.timeout, config.leave_timeout) == (5 * SECOND, SECOND // 2)
    assert (config.key, config.insecure) == ("bank.key", True)
    assert config.multicast == MulticastConfig("239.1.2.3:9000", "127.0.0.1", 4)
    assert config.parameters == {"resilience": 1, "heartbeat": 10_000_000}
    assert config.observe == ObserveConfig("9464", "http://127.0.0.1:4318", 0.5)
    assert config.watch == "127.0.0.1:8765"
    assert set(tomllib.loads(text + PEERS)) | {"backup"} == {field.name for field in dataclasses.fields(NodeConfig)}


NODES = """me = "n1.a"
protocol = "dedos"
parameters.lans = 2
[peers]
"n1.a" = "127.0.0.1:7001"
"n2.a" = "127.0.0.1:7002"
"""


def test_names_may_say_nodes_and_there_may_be_two_networks() -> None:
    config = parse_config(NODES + '[backup]\n"n2.a" = "127.0.0.1:7012"\n"n1.a" = "127.0.0.1:7011"\n')
    assert config.peers == {"n1.a": "127.0.0.1:7001", "n2.a": "127.0.0.1:7002"}
    assert config.backup == {"n1.a": "127.0.0.1:7011", "n2.a": "127.0.0.1:7012"}


def test_options_win_over_the_file_and_later_ones_over_earlier_ones() -> None:
    config = parse_config(SMALL, overrides=["me=b", "parameters.window=3", "parameters.window=1", "group=7", "timeout=1s"])
    assert (config.me, config.group, config.parameters, config.timeout) == ("b", "7", {"window": 1}, SECOND)
    assert parse_config("", overrides=["me=a", "peers.a=localhost:7001"]).peers == {"a": "localhost:7001"}


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("me = ", (), "node.toml:1: this is not TOML"),
        ('me = "a"\npeer = 1\n', (), 'node.toml:2: unknown key "peer" in a node\'s configuration; did you mean "peers"?'),
        ('me = "a"\n', (), "node.toml: peers are missing"),
        ('me = "a"\npeers = 3\n', (), "node.toml:2: peers must be a table"),
        ('me = "a"\n[peers]\n', (), "node.toml:2: peers must be a table"),
        (PEERS, (), 'node.toml: me is missing: write me = "a" at the top, or say --me a'),
        ('me = "c"\n' + PEERS, (), 'node.toml:1: me is "c", which is not among the peers; there are: a, b'),
        ("me = 3\n" + PEERS, (), "node.toml:1: me must be text in quotes"),
        ('me = "a"\n[peers]\na = 7001\n', (), "node.toml:3: peers.a must be an address in quotes"),
        ('me = "a"\n[peers]\na = "somewhere"\n', (), "node.toml:3: peers.a: 'somewhere' is not an address"),
        ('me = "a"\n[peers]\na = "here:0"\n', (), "node.toml:3: peers.a: the others have to know the port"),
        ('me = "a"\n[peers]\na = "h:1"\nb = "h:1"\n', (), 'node.toml:4: "b" has the address of "a"'),
        ('me = "a"\n[peers]\n"a#1" = "h:1"\n', (), "node.toml:3: 'a#1' cannot be a name"),
        ('me = "a"\ngroup = ""\n' + PEERS, (), "node.toml:2: '' cannot be a name"),
        ('me = "a"\nmembers = ["a",\n"bb"]\n' + PEERS, (), 'node.toml:3: member "bb" is not among the peers; did you mean "b"?'),
        ('me = "a"\nmembers = ["a", "a"]\n' + PEERS, (), 'node.toml:2: "a" is named twice'),
        ('me = "a"\ntransport = "upd"\n' + PEERS, (), 'node.toml:2: transport cannot be "upd"; did you mean "udp"?'),
        ('me = "a"\ntimeout = 5\n' + PEERS, (), "node.toml:2: timeout must be a duration with its unit"),
        ('me = "a"\ntimeout = "0s"\n' + PEERS, (), "node.toml:2: timeout must be above 0"),
        ('me = "a"\npacket = -1\n' + PEERS, (), "node.toml:2: packet must be a whole number"),
        ('me = "a"\nprotocol = "seqencer"\n' + PEERS, (), "node.toml:2: there is no protocol 'seqencer'; did you mean"),
        (SMALL + "[parameters]\nresilence = 1\n", (), 'node.toml:6: unknown key "resilence" among the parameters of sequencer'),
        (SMALL + "[parameters]\nresilience = 2\n", (), "node.toml:5: resilience is 2, but group g has 2 members"),
        (SMALL + '[parameters]\nsuspect_after = "1ms"\n', (), "node.toml:5: suspect_after is 1ms"),
        ('me = "a"\ntransport = "multicast"\nmulticast.group = "x"\n' + PEERS, (), "node.toml:3: multicast.group: 'x' is not"),
        (SMALL + "[multicast]\nttll = 2\n", (), 'node.toml:6: unknown key "ttll" in [multicast]; did you mean "ttl"?'),
        ('me = "a"\n[peers]\nn1.a = "h:1"\n', (), "node.toml:3: peers are addresses by name; put a name with dots into quotes"),
        (NODES, (), "node.toml:3: with lans = 2 each of the peers has an address on the second network, too: n1.a, n2.a missing"),
        (NODES + '[backup]\n"n1.a" = "h:1"\n', (), "node.toml:7: with lans = 2 each of the peers has an address on the second"),
        (SMALL + "[backup]\na = 3\n", (), "node.toml:6: backup.a must be an address in quotes"),
        (SMALL + '[backup]\na = "h:1"\n', (), "node.toml:5: backup gives addresses on a second network, and there is one"),
        (SMALL, ("nonsense",), "--set nonsense: write --set key=value, for instance --set me=a"),
        (SMALL, ("parameters.window=0",), "--set parameters.window=0: parameters.window must be a whole number from 1"),
        (SMALL, ("me=z",), '--set me=z: me is "z"'),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, options: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ScenarioError, match="^" + re.escape(problem)):
        parse_config(text, "node.toml", options)


def test_files_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"no configuration file .*x\.toml; `plainchant node --example`"):
        load_config(tmp_path / "x.toml")
    with pytest.raises(ScenarioError, match="is a directory; name the configuration file in it"):
        load_config(tmp_path)
    file = tmp_path / "latin.toml"
    file.write_bytes(b'me = "\xe9"')
    with pytest.raises(ScenarioError, match=r"is not text in UTF-8 .*; a configuration is a TOML file"):
        load_config(file)
    file.write_text(SMALL)
    assert load_config(file, ["me=b"]).me == "b"


def test_the_example_says_every_key_with_its_default() -> None:
    config = parse_config(EXAMPLE)
    assert (config.me, config.group, config.parameters) == ("a", "bank", {"resilience": 1})
    complete = re.sub(r"(?m)^# (?=\[|\w+ = )", "", EXAMPLE)
    assert set(tomllib.loads(complete)) == {field.name for field, _ in declarations(NodeConfig)}
    assert set(tomllib.loads(complete)["multicast"]) == {field.name for field, _ in declarations(MulticastConfig)}
    assert set(tomllib.loads(complete)["observe"]) == {field.name for field, _ in declarations(ObserveConfig)}
    one_network = complete[: complete.index("[backup]")]
    assert parse_config(one_network) == dataclasses.replace(config, members=("a", "b", "c"))
