"""Scenario files: what they may say, and what is refused, at which line, with what advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from plainchant.core.model import MS, Duration, ScenarioError
from plainchant.scenario import Scenario, find, load, parse, shipped
from plainchant.scenario.model import Delay, Fault, LinkOverride, Workload

TOP = 'protocol = "chant"\nmembers = 3\n'


def read(rest: str = "", *overrides: str) -> Scenario:
    return parse(TOP + rest, "s.toml", overrides)


def refused(text: str, *overrides: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse(text, "s.toml", overrides)
    return str(caught.value)


# --- what is read -----------------------------------------------------------------------------------------------------


def test_the_smallest_file_gives_a_complete_scenario() -> None:
    scenario = read()
    assert scenario.name == "s"
    assert scenario.members == ("p1", "p2", "p3")
    assert scenario.groups == {"g": ("p1", "p2", "p3")}
    assert scenario.workload == (Workload(rate=100.0),)
    assert scenario.parameters == {"window": 16, "share": 0.5, "pack": True, "mode": "calm", "heartbeat": 20 * MS}


def test_a_full_file() -> None:
    scenario = read("""
later = ["q"]
duration = "2s"
[groups]
left = ["p1", "p2"]
right = ["p2", "p3"]
[parameters]
heartbeat = "5ms"
[network]
delay = {exponential = "2ms", minimum = "1ms"}
[[network.link]]
source = "p1"
delay = {uniform = ["1ms", "5ms"]}
loss = 1
[[workload]]
senders = ["p1", "q"]
closed = 4
[[clock]]
process = "p1"
offset = "-3ms"
[[fault]]
kind = "crash"
process = "p3"
at = "1500ms"
[[fault]]
kind = "partition"
at = "1s"
parts = [["p1"], ["p2", "p3"]]
[random]
crash = 1
""")
    assert scenario.groups == {"left": ("p1", "p2"), "right": ("p2", "p3")}
    assert scenario.parameters["heartbeat"] == 5 * MS
    assert scenario.network.delay == Delay("exponential", 1 * MS, 2 * MS)  # type: ignore[arg-type]
    assert scenario.network.link == (LinkOverride(delay=Delay("uniform", 1 * MS, 5 * MS), loss=1.0, source="p1"),)  # type: ignore[arg-type]
    assert scenario.workload[0].senders == ("p1", "q")
    assert scenario.clock[0].offset == -3 * MS
    assert scenario.fault[0] == Fault(kind="crash", process="p3", at=1500 * MS)  # type: ignore[arg-type]
    assert scenario.fault[1].parts == (("p1",), ("p2", "p3"))
    assert scenario.random.crash == 1.0


def test_what_a_link_does_not_set_is_as_in_the_network() -> None:
    network = read("""
[network]
delay = "7ms"
loss = 0.1
duplicate = 0.2
reorder = 0.3
corrupt = 0.4
bandwidth = 1000
[[network.link]]
source = "p1"
loss = 0
[[network.link]]
target = "p2"
delay = "1ms"
""").network
    own = {"duplicate": 0.2, "reorder": 0.3, "corrupt": 0.4, "bandwidth": 1000}
    seven, one = (Delay("constant", Duration(length * MS), Duration(0)) for length in (7, 1))
    assert network.link == (
        LinkOverride(source="p1", delay=seven, loss=0.0, **own),  # type: ignore[arg-type]
        LinkOverride(target="p2", delay=one, loss=0.1, **own),  # type: ignore[arg-type]
    )


def test_a_link_inherits_what_an_option_sets() -> None:
    assert read("[[network.link]]\nsource = 'p1'", "network.loss=0.5").network.link[0].loss == 0.5


def test_members_may_be_left_to_the_groups() -> None:
    text = 'protocol = "chant"\n[groups]\na = ["x", "y"]\nb = ["y", "z"]'
    assert parse(text).members == ("x", "y", "z")


def test_an_empty_workload_is_a_run_without_messages() -> None:
    assert read("workload = []").workload == ()


def test_a_bare_zero_needs_no_unit() -> None:
    assert read("drain = 0").drain == 0


def test_lines_may_end_as_on_windows() -> None:
    assert parse(TOP.replace("\n", "\r\n")).members == ("p1", "p2", "p3")


# --- what is refused --------------------------------------------------------------------------------------------------

WRONG = {
    "a key that there is not": ("sede = 1", 's.toml:3: unknown key "sede" in a scenario; did you mean "seed"?'),
    "a key in a table": ("[network]\nlosss = 0.1", 's.toml:4: unknown key "losss" in [network]; did you mean "loss"?'),
    "a key in an array": ("[[fault]]\nknd = 'crash'", 's.toml:4: unknown key "knd" in [[fault]]; did you mean "kind"?'),
    "a parameter": ("[parameters]\nwindw = 1", 'unknown key "windw" among the parameters of chant; did you mean "window"?'),
    "a choice": ("[parameters]\nmode = 'hastly'", 's.toml:4: parameters.mode cannot be "hastly"; did you mean "hasty"?'),
    "a text for a number": ("seed = 'x'", 's.toml:3: seed must be a whole number of at least 0, not "x"'),
    "a truth for a number": ("seed = true", "seed must be a whole number of at least 0, not true"),
    "a fraction for a whole": ("seed = 1.5", "seed must be a whole number of at least 0, not 1.5"),
    "a number for a text": ("name = 5", "s.toml:3: name must be text in quotes, not 5"),
    "a number for a truth": ("[network]\nwire = 1", "network.wire must be true or false, not 1"),
    "a number for a table": ("network = 5", "network must be a table of keys and values, not 5"),
    "a table for an array": ("[fault]\nkind = 'crash'", "fault must be an array of tables: write [[fault]] above each of them"),
    "a list of numbers": ("later = [1]", "s.toml:3: 1 cannot be a name"),
    "a text for a list": ("later = 'p9'", "later must be a list of processes"),
    "a number out of range": (
        "[network]\nloss = 1.5",
        "network.loss must be a number from 0 to 1, not 1.5 (share of packets lost)",
    ),
    "not a number": ("[network]\nloss = nan", "network.loss must be a number from 0 to 1, not nan"),
    "a number for a duration": (
        "duration = 50",
        'duration must be a duration with its unit, such as "50ms" or "2s", not 50 (did you mean "50ms"?)',
    ),
    "a duration without unit": ("duration = '50'", "s.toml:3: duration: '50' is not a duration: write a number and a unit"),
    "an unknown unit": ("duration = '5 days'", "'5 days' is not a duration"),
    "a negative duration": ("duration = '-5s'", 'duration must be above 0, not "-5s"'),
    "no duration": ("duration = 0", 'duration must be above 0, not "0s"'),
    "an endless duration": (f"duration = '{'9' * 400}s'", "duration is longer than 146 years"),
    "parameters that do not fit": (
        "[parameters]\nmode = 'hasty'\npack = false",
        "s.toml:3: a hasty chant has to pack; set pack = true",
    ),
    "a delay of two kinds": ("[network]\ndelay = {uniform = ['1ms', '2ms'], exponential = '1ms'}", "network.delay must be"),
    "a delay backwards": ("[network]\ndelay = {uniform = ['2ms', '1ms']}", "the smallest delay comes first"),
    "a delay of an unknown kind": (
        "[network]\ndelay = {unifrm = ['2ms', '1ms']}",
        'unknown key "unifrm" of a delay; did you mean "uniform"?',
    ),
    "a shared medium without bandwidth": ("[network]\nshared = true", "s.toml:4: a shared medium needs a bandwidth"),
    "a link of nobody": ("[[network.link]]\nloss = 0.5", "s.toml:3: a [[network.link]] needs a source, a target or both"),
    "a link of a stranger": (
        "[[network.link]]\nsource = 'p33'",
        's.toml:4: network.link.0.source: there is no process "p33"; did you mean "p3"?',
    ),
    "a group of one": ("[groups]\na = ['p1']", "s.toml:4: group a has 1 member; a group needs at least two"),
    "a group of nobody": ("[groups]\na = []", "s.toml:4: group a has no member; a group needs at least two"),
    "a parameter at the top": ("mode = 'hasty'", 's.toml:3: "mode" is a parameter of chant; write it below [parameters]'),
    "a delay as a range": ("[network]\ndelay = '1ms..4ms'", 'for one that varies write {uniform = ["1ms", "5ms"]}'),
    "a group of nobody known": ("[groups]\na = ['p1', 'p4']", 's.toml:4: "p4" of group a is not among the members; did you mean'),
    "a member of no group": ("[groups]\na = ['p1', 'p2']", '"p3" is in no group'),
    "a member twice in a group": ("[groups]\na = ['p1', 'p1']", '"p1" is named twice in groups.a'),
    "a member that is also later": ("later = ['p1']", 's.toml:3: "p1" is named twice'),
    "an incarnation as a member": ("later = ['p1#1']", "cannot be a name"),
    "a sender that is not there": (
        "[[workload]]\nsenders = ['p1', 'px']",
        's.toml:4: workload.0.senders.1: there is no process "px"; did you mean',
    ),
    "a group that is not there": ("[[workload]]\ngroup = 'h'", 'workload.0.group: there is no group "h"; there are: g'),
    "a rate of zero": ("[[workload]]\nrate = 0", "s.toml:4: rate must be above 0; leave it out to send as fast as accepted"),
    "a negative rate": ("[[workload]]\nrate = -5", "workload.0.rate must be a number of at least 0, not -5"),
    "a size of zero": ("[[workload]]\nsize = 0", "s.toml:4: size must be at least 1 byte"),
    "a negative size": ("[[workload]]\nsize = -1", "workload.0.size must be a whole number from 0 to 67,108,864, not -1"),
    "an empty burst": ("[[workload]]\nburst = 0", "workload.0.burst must be a whole number of at least 1, not 0"),
    "two loops": ("[[workload]]\nrate = 5\nclosed = 5", "a workload is an open loop (rate) or a closed one (closed), not both"),
    "a workload that starts too late": ("[[workload]]\nstart = '5s'", "sending begins at 5s, but the scenario lasts 1s"),
    "a workload that stops before": (
        "[[workload]]\nstart = '5ms'\nstop = '4ms'",
        "sending stops at 4ms, before it starts at 5ms",
    ),
    "a clock of a stranger": ("[[clock]]\nprocess = 'p9'", 'clock.0.process: there is no process "p9"'),
    "a fault without a kind": ("[[fault]]\nat = '1ms'", "s.toml:3: a fault needs a kind, one of: crash, restart"),
    "a fault of an unknown kind": ("[[fault]]\nkind = 'crsh'", 's.toml:4: fault.0.kind cannot be "crsh"; did you mean "crash"?'),
    "a crash of nobody": ("[[fault]]\nkind = 'crash'\nat = '1ms'", 's.toml:3: a fault of kind crash needs "process"'),
    "a crash at no time": ("[[fault]]\nkind = 'crash'\nprocess = 'p1'", 'needs "at", "after_events" or "mid_broadcast"'),
    "a crash twice timed": (
        "[[fault]]\nkind = 'crash'\nprocess = 'p1'\nat = '1ms'\nafter_events = 5",
        "at a time or after so many events, not both",
    ),
    "a crash of a stranger": (
        "[[fault]]\nkind = 'crash'\nprocess = 'p11'\nat = '1ms'",
        's.toml:5: fault.0.process: there is no process "p11"; did you mean "p1"?',
    ),
    "a crash of an incarnation": (
        "[[fault]]\nkind = 'crash'\nprocess = 'p1#2'\nat = '1ms'",
        's.toml:5: fault.0.process: write "p1", which means whichever incarnation',
    ),
    "a member that joins": (
        "[[fault]]\nkind = 'join'\nprocess = 'p1'\nat = '1ms'",
        's.toml:3: "p1" is a member from the start; name who joins in `later` instead',
    ),
    "a stranger that leaves": (
        "later = ['q']\n[[fault]]\nkind = 'leave'\nprocess = 'q'\nat = '1ms'",
        's.toml:4: "q" is not a member: it needs a fault of kind join',
    ),
    "a pause without length": ("[[fault]]\nkind = 'pause'\nprocess = 'p1'\nat = '1ms'", 'a fault of kind pause needs "length"'),
    "a restart at no time": ("[[fault]]\nkind = 'restart'\nprocess = 'p1'", 'a fault of kind restart needs "at"'),
    "a step of nothing": ("[[fault]]\nkind = 'step'\nprocess = 'p1'\nat = '1ms'", 'a fault of kind step needs "offset"'),
    "a clog without delay": ("[[fault]]\nkind = 'clog'\nat = '1ms'", 'a fault of kind clog needs "delay"'),
    "a loss without rate": ("[[fault]]\nkind = 'loss'\nat = '1ms'", 'a fault of kind loss needs "rate"'),
    "a cut of nothing": ("[[fault]]\nkind = 'cut'\nat = '1ms'", "a cut needs a source, a target or both"),
    "a key of another kind": (
        "[[fault]]\nkind = 'heal'\nat = '1ms'\nrate = 0.5",
        's.toml:6: a fault of kind heal has no "rate"; it has: at',
    ),
    "a fault after the end": (
        "[[fault]]\nkind = 'heal'\nat = '2s'",
        "s.toml:5: the heal happens at 2s, but the scenario lasts 1s",
    ),
    "a fault at the very end": (
        "[[fault]]\nkind = 'heal'\nat = '1s'",
        "s.toml:5: the heal happens at 1s, but the scenario lasts 1s",
    ),
    "a crash after events of a later process": (
        "later = ['q']\n[[fault]]\nkind = 'crash'\nprocess = 'q'\nafter_events = 5",
        's.toml:7: "q" is not there at the start',
    ),
    "a storm of random faults": ("[random]\nstep = 1e9", "random.step must be a number from 0 to 1,000, not 1000000000.0"),
    "parameters that do not fit the groups": (
        "[parameters]\nwindow = 999",
        "s.toml:3: a window of 999 is too much for 3 members",
    ),
    "a text for a list of properties": (
        "verify = 'fifo'",
        's.toml:3: verify must be a list such as ["fifo", "total"], not "fifo"',
    ),
    "a deadline of a closed loop": (
        "[[workload]]\nclosed = 2\ndeadline = '5ms'",
        "s.toml:5: messages with a deadline are those of an open loop",
    ),
    "a deadline of a greedy one": (
        "[[workload]]\ndeadline = '5ms'",
        "s.toml:4: messages with a deadline are those of an open loop, whose periods are known: write rate",
    ),
    "a deadline in bursts": (
        "[[workload]]\nrate = 10\nburst = 3\ndeadline = '5ms'",
        "s.toml:6: a regular workload with a deadline sends one message a period",
    ),
    "a deadline after the next": (
        "[[workload]]\nrate = 10\ndeadline = '101ms'",
        "s.toml:5: messages come every 100ms and are due 101ms later",
    ),
    "a deadline of nobody": (
        "[[workload]]\nrate = 10\ndeadline = '5ms'\n[parameters]\nmode = 'hasty'",
        "s.toml:5: with these parameters chant guarantees no deadlines; leave the deadline out",
    ),
    "an omission of nobody": ("[[fault]]\nkind = 'omit'\nat = '1ms'", 's.toml:3: a fault of kind omit needs "process"'),
    "an omission of no kind": (
        "[[fault]]\nkind = 'omit'\nat = '1ms'\nprocess = 'p1'\npacket = 'Nota'",
        's.toml:7: fault.0.packet: chant has no packet "Nota"; there are: Note, Rest',
    ),
    "an omission of nothing": (
        "[[fault]]\nkind = 'omit'\nat = '1ms'\nprocess = 'p1'\ncount = 0",
        "s.toml:7: fault.0.count must be a whole number of at least 1, not 0",
    ),
    "random omissions of no kind": ("[random]\nomit_packet = 'Nota'", 's.toml:4: random.omit_packet: chant has no packet "Nota"'),
    "a partition without parts": ("[[fault]]\nkind = 'partition'\nat = '1ms'", 'a fault of kind partition needs "parts"'),
    "parts that overlap": (
        "[[fault]]\nkind = 'partition'\nat = '1ms'\nparts = [['p1'], ['p2', 'p1']]",
        '"p1" is in parts 1 and 2',
    ),
    "an empty part": ("[[fault]]\nkind = 'partition'\nat = '1ms'\nparts = [['p1'], []]", "a part of a partition is empty"),
    "a flat partition": (
        "[[fault]]\nkind = 'partition'\nat = '1ms'\nparts = ['p1', 'p2']",
        'fault.0.parts.0 must be a list such as ["p1", "p2"], not "p1"',
    ),
    "a negative random rate": ("[random]\ncrash = -1", "random.crash must be a number from 0 to 1,000, not -1"),
    "a wrong expectation": ("expect = 'violaton'", 'expect cannot be "violaton"; did you mean "violation"?'),
    "a property that there is not": (
        "verify = ['fifo', 'causl']",
        's.toml:3: there is no property "causl"; did you mean "causal"?',
    ),
    "no TOML": ("network = [", "s.toml:3: this is not TOML"),
    "a key twice": ("members = 4", "s.toml:3: this is not TOML: Cannot overwrite a value"),
    "a nesting without end": (f"x = {'[' * 5000}", "this is not a scenario: a number or a nesting in it is far too large"),
}


@pytest.mark.parametrize(("rest", "message"), WRONG.values(), ids=WRONG.keys())
def test_refused_with_file_line_and_advice(rest: str, message: str) -> None:
    said = refused(TOP + rest)
    assert said.startswith("s.toml")
    assert message in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("members = 3", 's.toml: protocol is missing: write protocol = "chant"'),
        ('protocol = "chnt"\nmembers = 3', "s.toml:1: there is no protocol 'chnt'; did you mean 'chant'?"),
        ("protocol = 5", "s.toml:1: protocol must be a name in quotes, one of: chant"),
        ('protocol = "chant"', "s.toml: members is missing: write members = 5"),
        ('protocol = "chant"\nmembers = 1', "s.toml:2: members has 1 process; a group needs at least two"),
        ('protocol = "chant"\nmembers = 0', "s.toml:2: members must be from 2 to 10,000, not 0"),
        ('protocol = "chant"\nmembers = []', "s.toml:2: members has no process"),
        ('protocol = "chant"\nmembers = ["a"]', "a group needs at least two"),
        ('protocol = "chant"\nmembers = "a"', "members must be a number or a list"),
        ('protocol = "chant"\nmembers = ["a", "b",\n"a"]', 's.toml:3: "a" is named twice in members'),
        ('protocol = "chant"\nmembers = ["a", "b c"]', "'b c' cannot be a name"),
    ],
)
def test_the_top_is_checked(text: str, message: str) -> None:
    assert message in refused(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no scenario file"),
        (b"\xff\xfe", "is not text in UTF-8 (at byte 0)"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "s.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ScenarioError, match=message.replace("(", r"\(").replace(")", r"\)")):
        load(file)


def test_a_directory_is_not_a_scenario(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="is a directory"):
        load(tmp_path)


# --- --set ------------------------------------------------------------------------------------------------------------


def test_an_option_wins_over_the_file_and_the_last_option_over_all() -> None:
    scenario = read("[network]\nloss = 0.1", "network.loss=0.2", "network.loss=0.3")
    assert scenario.network.loss == 0.3


def test_options_reach_elements_and_make_new_ones() -> None:
    crash = "[[fault]]\nkind = 'crash'\nprocess = 'p1'\nat = '1ms'"
    scenario = read(crash, "fault.0.at=500ms", "fault.1.kind=heal", "fault.1.at=900ms")
    assert [(fault.kind, fault.at) for fault in scenario.fault] == [("crash", 500 * MS), ("heal", 900 * MS)]


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("name=two words", "two words"),
        ("name=7", "7"),
        ('name="7"', "7"),
        ("name=2020-01-01", "2020-01-01"),
        ("name=", ""),
        ("name=true", "true"),
    ],
)
def test_texts_need_no_quotes_in_an_option(override: str, value: str) -> None:
    assert read("", override).name == value


def test_options_may_be_lists_and_tables() -> None:
    scenario = read("", 'members=["a","b"]', 'network.delay={uniform=["1ms","2ms"]}')
    assert scenario.members == ("a", "b")
    assert scenario.network.delay == Delay("uniform", 1 * MS, 2 * MS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("network.losss=0.1", '--set network.losss=0.1: unknown key "losss" in [network]; did you mean "loss"?'),
        ("netwrk.loss=0.1", '--set netwrk.loss=0.1: unknown key "netwrk" in a scenario; did you mean "network"?'),
        ("network.loss=2", "--set network.loss=2: network.loss must be a number from 0 to 1, not 2"),
        ("network.loss=lots", '--set network.loss=lots: network.loss must be a number from 0 to 1, not "lots"'),
        ("duration=50", "--set duration=50: duration must be a duration with its unit"),
        ("protocol=chnt", "--set protocol=chnt: there is no protocol 'chnt'; did you mean 'chant'?"),
        ("parameters.windw=1", '--set parameters.windw=1: unknown key "windw"'),
        ("fault.0.at=1s", "--set fault.0.at=1s: a fault needs a kind"),
        ("fault.3.at=1s", "--set fault.3.at=1s: fault has 0 elements, counted from 0"),
        ("fault.x.at=1s", "--set fault.x.at=1s: fault is a list; name one of its elements by number"),
        ("seed.x=1", None),
        ("members.0.x=1", "--set members.0.x=1: members is a single value here"),
        ("loss", "--set loss: write --set key=value"),
        ("=5", "--set =5: write --set key=value"),
        ("a b=5", "--set a b=5: write --set key=value"),
    ],
)
def test_errors_in_options_name_the_option(override: str, message: str | None) -> None:
    said = refused(TOP, override)
    assert said.startswith("--set")
    assert message is None or message in said


def test_an_error_in_the_file_is_not_blamed_on_an_option() -> None:
    assert refused(TOP + "[network]\nloss = 7", "network.duplicate=0.1").startswith("s.toml:4:")


# --- shipped scenarios ------------------------------------------------------------------------------------------------


def test_a_shipped_scenario_is_found_by_name_also_beside_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "partition").mkdir()
    assert find("partition") == shipped()["partition"]
    assert find("scenarios/partition.toml") == shipped()["partition"]


def test_a_file_of_ones_own_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "partition").write_text(TOP)
    assert find("partition") == Path("partition")


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ScenarioError, match='no shipped scenario of that name; did you mean "partition"'):
        find("partitoin.toml")
