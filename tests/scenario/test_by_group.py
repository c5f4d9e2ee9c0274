"""Parameters by group, and groups that do not change, in scenario files, options, dumps and scenarios of Python's own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from plainchant.core.model import MS, Duration, ScenarioError, UsageError
from plainchant.lab.sweep.plan import define
from plainchant.protocols import registry
from plainchant.scenario import Scenario, dump, parse
from plainchant.scenario.model import Fault, RandomFaults
from plainchant.scenario.read import given_parameters
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer

from ..fixed import PLAINSONG, Parameters

TOP = 'protocol = "plainsong"\n[groups]\nnews = ["p1", "p2"]\n"old.news" = ["p2", "p3"]\n'
GROUPS = {"news": ("p1", "p2"), "old.news": ("p2", "p3")}


@pytest.fixture(autouse=True)
def _plainsong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "protocols", lambda: {"plainsong": PLAINSONG})


def refused(text: str, *overrides: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse(text, "s.toml", overrides)
    return str(caught.value)


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "overrides"),
    [
        ('[parameters.moods]\n"old.news" = "hasty"\nnews = "solemn"\n', ()),
        ('[parameters]\nmoods = { "old.news" = "hasty", news = "solemn" }\n', ()),
        ('[parameters]\nmoods."old.news" = "hasty"\nmoods.news = "solemn"\n', ()),
        ("", ('parameters.moods."old.news"=hasty', "parameters.moods.news=solemn")),
        ('[parameters.moods]\n"old.news" = "hasty"\nnews = "calm"\n', ("parameters.moods.news=solemn",)),
        ("", ('parameters.moods={"old.news" = "hasty", news = "solemn"}',)),
    ],
)
def test_every_way_to_write_them_means_the_same(rest: str, overrides: tuple[str, ...]) -> None:
    moods = parse(TOP + rest, overrides=overrides).parameters["moods"]
    assert list(moods.items()) == [("old.news", "hasty"), ("news", "solemn")]


def test_what_is_left_out_is_empty() -> None:
    parameters = parse(TOP).parameters
    assert parameters == {"mood": "calm", "moods": {}, "leaders": {}, "pauses": {}, "breaths": {}}
    assert json.loads(json.dumps(dataclasses.asdict(Parameters(**parameters)))) == parameters


def test_a_name_that_looks_like_a_number_needs_no_quotes_on_a_command_line() -> None:
    text = 'protocol = "plainsong"\n[groups]\n7 = ["1", "2"]\n'
    assert parse(text, overrides=["parameters.leaders.7=1"]).parameters["leaders"] == {"7": "1"}


def test_a_dump_reads_back_equal() -> None:
    rest = '[parameters]\nmoods = { "old.news" = "hasty", news = "calm" }\npauses.news = "1500us"\nleaders.news = "p2"\n'
    scenario = parse(TOP + rest, "s.toml")
    assert scenario.parameters["pauses"] == {"news": 1500 * 1000}
    text = dump(scenario)
    again = parse(text, "elsewhere.toml")
    assert again == scenario
    assert list(again.parameters["moods"]) == ["old.news", "news"]
    assert dump(again) == text


@pytest.mark.parametrize(
    ("rest", "overrides"),
    [
        ('[parameters.breaths]\np1 = "8ms"\n"p2>p1" = "250us"\n', ()),
        ('[parameters]\nbreaths = { p1 = "8ms", "p2>p1" = "250us" }\n', ()),
        ("", ("parameters.breaths.p1=8ms", 'parameters.breaths."p2>p1"=250us')),
        ("", ('parameters.breaths={p1 = "8ms", "p2>p1" = "250us"}',)),
        ('[parameters.breaths]\np1 = "1s"\n"p2>p1" = "250us"\n', ("parameters.breaths.p1=8ms",)),
    ],
)
def test_durations_by_process_or_path_are_read_written_and_read_again(rest: str, overrides: tuple[str, ...]) -> None:
    scenario = parse(TOP + rest, overrides=overrides)
    assert scenario.parameters["breaths"] == {"p1": 8 * MS, "p2>p1": MS // 4}
    assert parse(dump(scenario)).parameters == scenario.parameters
    assert simulate(parameters=scenario.parameters).parameters.breaths == {"p1": 8 * MS, "p2>p1": MS // 4}


@pytest.mark.parametrize(
    "given",
    [{"p1": "8ms", "p2>p1": "250us"}, {"p1": 8 * MS, "p2>p1": MS // 4}, MappingProxyType({"p1": 8 * MS, "p2>p1": "250us"})],
)
def test_programs_give_durations_by_process_as_text_or_in_nanoseconds(given: Any) -> None:
    assert given_parameters(Parameters, {"breaths": given}, "plainsong") == {"breaths": {"p1": 8 * MS, "p2>p1": MS // 4}}


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "overrides", "problem"),
    [
        (
            '[parameters.moods]\nnews = "calm"\n"old.news" = "hasti"\n',
            (),
            's.toml:7: parameters.moods.old.news cannot be "hasti"; did you mean "hasty"?',
        ),
        ("[parameters]\nmoods = { news = 3 }\n", (), "s.toml:6: parameters.moods.news must be text in quotes, not 3"),
        (
            '[parameters]\nmoods = "calm"\n',
            (),
            's.toml:6: parameters.moods must be a table such as { news = "hasty" }, not "calm"',
        ),
        ("", ("parameters.moods=calm",), "--set parameters.moods=calm: parameters.moods must be a table such as { news ="),
        (
            "",
            ("parameters.moods.news=hsty",),
            '--set parameters.moods.news=hsty: parameters.moods.news cannot be "hsty"; did you',
        ),
        (
            '[parameters.mods]\nnews = "calm"\n',
            (),
            's.toml:5: unknown key "mods" among the parameters of plainsong; did you mean',
        ),
        ("[parameters.pauses]\nnews = 5\n", (), "s.toml:6: parameters.pauses.news must be a duration with its unit"),
        (
            "[parameters.breaths]\np1 = 8\n",
            (),
            's.toml:6: parameters.breaths.p1 must be a duration with its unit, such as "50ms"',
        ),
        ('[parameters.breaths]\np1 = "0s"\n', (), 's.toml:6: parameters.breaths.p1 must be above 0, not "0s"'),
        (
            "",
            ("parameters.breaths.p1=8",),
            "--set parameters.breaths.p1=8: parameters.breaths.p1 must be a duration with its unit",
        ),
        (
            "",
            ("parameters.breaths=8ms",),
            "--set parameters.breaths=8ms: parameters.breaths must be a table such as { process = ... }",
        ),
        ('\n[parameters.moods]\nnew = "calm"\n', (), "s.toml:6: there is no group new; name one of news, old.news"),
        ('[parameters.leaders]\nnews = "p3"\n', (), "s.toml:5: p3 leads news and is not in it; name one of p1, p2"),
        ("", ("parameters.leaders.news=p3",), "--set parameters.leaders.news=p3: p3 leads news and is not in it"),
        ('[parameters]\nmood = "solemn"\nmoods.news = "hasty"\n', (), "s.toml:5: a hasty group does not go with"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(rest: str, overrides: tuple[str, ...], problem: str) -> None:
    assert refused(TOP + rest, *overrides).startswith(problem)


FIXED = "with these parameters the groups of plainsong do not change, so "
CRASH = "with these parameters plainsong does not survive"


@pytest.mark.parametrize(
    ("text", "overrides", "problem"),
    [
        ('later = ["q"]\n' + TOP, (), f"s.toml:1: {FIXED}nobody can join them later; leave `later` out"),
        (
            TOP + '[[fault]]\nat = "1ms"\nkind = "crash"\nprocess = "p1"\n',
            (),
            f"s.toml:7: {CRASH} a crash: the others would wait",
        ),
        (
            TOP + '[[fault]]\nkind = "leave"\nat = "1ms"\nprocess = "p1"\n',
            (),
            f"s.toml:6: {FIXED}there can be no leave; leave the",
        ),
        (TOP + '[[fault]]\nkind = "restart"\nat = "1ms"\nprocess = "p1"\n', (), f"s.toml:6: {FIXED}there can be no restart"),
        (
            TOP + '[[fault]]\nkind = "heal"\nat = "1ms"\n[[fault]]\nkind = "join"\nat = "1ms"\nprocess = "p3"\ngroup = "news"\n',
            (),
            f"s.toml:9: {FIXED}there can be no join",
        ),
        (TOP + "[random]\npause = 1\ncrash = 0.5\n", (), f"s.toml:7: {CRASH} crashes: "),
        (TOP, ("random.restart_halted=1",), f"--set random.restart_halted=1: {FIXED}nobody can come back to them; set it to 0"),
        (TOP, ("random.leave=2",), f"--set random.leave=2: {FIXED}nobody can leave them; set it to 0"),
    ],
)
def test_groups_that_do_not_change_have_no_faults_that_change_them(text: str, overrides: tuple[str, ...], problem: str) -> None:
    assert refused(text, *overrides).startswith(problem)


def test_other_faults_are_as_ever() -> None:
    rest = '[[fault]]\nkind = "pause"\nat = "1ms"\nlength = "2ms"\nprocess = "p1"\n[random]\npartition = 1\ncut = 2\nstep = 1\n'
    assert parse(TOP + rest).random.cut == 2


# --- from Python ------------------------------------------------------------------------------------------------------


def simulate(**settings: Any) -> Simulation:
    scenario = Scenario(protocol="plainsong", members=("p1", "p2", "p3"), groups=dict(GROUPS), **settings)
    return Simulation(scenario, trace=TraceBuffer())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"parameters": {"moods": {"nws": "calm"}}}, "scenario, parameters: there is no group nws"),
        ({"parameters": {"moods": {"news": "cam"}}}, 'scenario, parameters.moods.news: parameters.moods.news cannot be "cam"'),
        ({"parameters": {"moods": [("news", "calm")]}}, "scenario, parameters.moods: parameters.moods must be a table"),
        ({"parameters": {"moods": {3: "calm"}}}, "scenario, parameters.moods: parameters.moods must be a table"),
        ({"later": ("q",)}, f"scenario, later: {FIXED}"),
        ({"fault": (Fault(kind="crash", process="p1", at=Duration(MS)),)}, f"scenario, fault.0.kind: {CRASH}"),
        ({"random": RandomFaults(leave=1.0)}, f"scenario, random.leave: {FIXED}"),
    ],
)
def test_scenarios_of_python_are_judged_alike(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        simulate(**settings)
    assert str(caught.value).startswith(problem)


def test_a_description_of_its_own_checks_its_parameters_too() -> None:
    scenario = Scenario(protocol="x", members=("p1", "p2"), parameters={"leaders": {"g": "p9"}})
    with pytest.raises(ScenarioError, match="p9 leads g and is not in it"):
        Simulation(scenario, trace=TraceBuffer(), description=PLAINSONG)


def test_they_stand_in_the_start_rows_as_they_were_given() -> None:
    trace = TraceBuffer()
    parameters = {"moods": {"old.news": "hasty", "news": "calm"}}
    scenario = Scenario(protocol="plainsong", members=("p1", "p2", "p3"), groups=dict(GROUPS), parameters=parameters)
    Simulation(scenario, trace=trace).run()
    starts = [row for row in trace.table().to_pylist() if row["kind"] == "start"]
    assert len(starts) == 3
    assert [json.loads(row["detail"])["parameters"]["moods"] for row in starts] == [parameters["moods"]] * 3


def test_programs_may_give_any_mapping() -> None:
    given = given_parameters(Parameters, {"moods": MappingProxyType({"news": "hasty"})}, "plainsong")
    assert given == {"moods": {"news": "hasty"}}
    assert type(given["moods"]) is dict


# --- sweeps -----------------------------------------------------------------------------------------------------------


def test_a_sweep_sets_them_by_its_grid(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(TOP + "[[workload]]\ncount = 1\n")
    definition = define(str(file), "0:2", grid=["parameters.moods.news=calm,hasty", 'parameters.moods."old.news"=solemn'])
    found = [definition.scenario_of(number).parameters["moods"] for number in range(definition.runs)]
    assert found == [{"news": mood, "old.news": "solemn"} for mood in ("calm", "calm", "hasty", "hasty")]
    with pytest.raises(ScenarioError, match="there is no group nws"):
        define(str(file), "0:2", grid=["parameters.moods.nws=calm"])
