"""What a sweep is: seeds and grids as people write them, the runs that they mean, and how runs are named and replayed."""

from __future__ import annotations

import pickle
import shlex
from pathlib import Path

import pytest

from plainchant.cli import main
from plainchant.core.model import ScenarioError, UsageError
from plainchant.lab.errors import LabError
from plainchant.lab.sweep.plan import UNIT_ROWS, define, parse_grid, parse_seeds, points_of
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer, read

SMALL = """\
protocol = "sequencer"
members = 3
duration = "100ms"
[network]
loss = 0.05
[[workload]]
rate = 50
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return str(path)


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("0:4", [0, 1, 2, 3]),
        ("10:20:4", [10, 14, 18]),
        ("3,5,8", [3, 5, 8]),
        ("7", [7]),
        ("1, 4:6", [1, 4, 5]),
    ],
)
def test_seeds_are_ranges_that_leave_the_end_out_or_lists(text: str, seeds: list[int]) -> None:
    assert list(parse_seeds(text)) == seeds


@pytest.mark.parametrize("text", ["", "x", "1:", "-1:3", "1:2:3:4", "0:5:0", "5:5", "1,1", "0:3,2", "0:99999999"])
def test_seeds_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--seeds"):
        parse_seeds(text)


def test_commas_inside_brackets_and_quotes_belong_to_a_value_of_a_grid() -> None:
    assert parse_grid("network.loss=0, 0.1") == ("network.loss", ("0", "0.1"))
    assert parse_grid("members=3,['a,b','c']") == ("members", ("3", "['a,b','c']"))


@pytest.mark.parametrize("text", ["network.loss", "=1", "network.loss=", "network.loss=1,,2", "seed=1,2", "a=1,1"])
def test_a_grid_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--grid"):
        parse_grid(text)


def test_grids_are_multiplied() -> None:
    assert points_of([("a", ("1", "2")), ("b", ("x", "y"))]) == [
        ("a=1", "b=x"),
        ("a=1", "b=y"),
        ("a=2", "b=x"),
        ("a=2", "b=y"),
    ]
    assert points_of([]) == [()]


def test_every_seed_at_every_point_is_one_run_with_a_name_of_its_own(small: str) -> None:
    definition = define(small, "3,5", grid=["network.loss=0,0.3", "members=3,4"])
    names = [definition.name(number) for number in range(definition.runs)]
    assert len(set(names)) == definition.runs == 8
    assert names[0] == "network.loss=0,members=3,seed=3"
    scenario = definition.scenario_of(7)
    assert (scenario.seed, scenario.network.loss, len(scenario.members)) == (5, 0.3, 4)
    assert define(small, "17:18").name(0) == "seed=17"


def test_every_grid_point_is_read_before_anything_runs(small: str) -> None:
    with pytest.raises(ScenarioError, match=r"network\.los"):
        define(small, "0:3", grid=["network.los=0.1"])
    with pytest.raises(ScenarioError, match=r"network\.loss=3"):
        define(small, "0:3", grid=["network.loss=0.1,3"])
    with pytest.raises(UsageError, match="did you mean 'fifo'"):
        define(small, "0:3", properties=["fife"])
    with pytest.raises(UsageError, match="--keep"):
        define(small, "0:3", keep="some")
    with pytest.raises(UsageError, match="given twice"):
        define(small, "0:3", grid=["network.loss=0.1", "network.loss=0.2"])
    with pytest.raises(UsageError, match="10,000,000"):
        define(small, "0:9000000", grid=["network.loss=0.1,0.2"])


def test_units_cover_every_run_once(small: str) -> None:
    definition = define(small, "0:200", grid=["network.loss=0,0.1"])
    assert definition.units > 1
    covered = [number for unit in range(definition.units) for number in definition.unit(unit)]
    assert covered == list(range(definition.runs))


def test_a_unit_holds_fewer_runs_the_longer_they_are(small: str) -> None:
    short = define(small, "0:100000")
    long = define(small, "0:100000", grid=["duration=2s"])
    endless = define(small, "0:100000", grid=["duration=500s"])
    trace = TraceBuffer()
    Simulation(long.scenario_of(0), trace=trace).run()
    assert long.unit_runs == UNIT_ROWS // trace.table().num_rows
    assert short.unit_runs > long.unit_runs > endless.unit_runs == 1


def test_the_definition_travels_without_what_is_computed_from_it(small: str) -> None:
    definition = define(small, "0:100000")
    assert definition.runs == 100_000
    travelled = pickle.dumps(definition)
    assert len(travelled) < len(SMALL) + 1_000
    assert pickle.loads(travelled) == definition


def test_the_same_sweep_has_the_same_identity_however_it_is_written(small: str, tmp_path: Path) -> None:
    definition = define(small, "0:3")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "small.toml").write_text(SMALL)
    assert define(str(tmp_path / "other" / "small.toml"), "0,1,2").id == definition.id
    assert define(small, "0:4").id != definition.id
    assert define(small, "0:3", keep="all").id != definition.id
    assert define(small, "0:3", properties=["total"]).id != definition.id


def test_the_replay_command_runs_that_run_again(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    definition = define(small, "4:6", grid=["network.delay={uniform=['1ms','3ms']}"], properties=["total", "uniform"])
    command = definition.replay(1)
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)
    assert words[:2] == ["plainchant", "run"]
    assert words[-4:-1] == ["--seed", "5", "--out"]
    assert main(words[1:]) == 0, capsys.readouterr().err
    replayed = read(tmp_path / words[-1] / "trace").table
    trace = TraceBuffer()
    Simulation(definition.scenario_of(1), trace=trace, run=definition.name(1)).run()
    assert replayed.drop_columns("run").equals(trace.table().drop_columns("run"))
    assert "uniform" in capsys.readouterr().out


def test_the_replay_of_a_long_run_asks_for_verification(small: str) -> None:
    assert "--verify" in define(small, "0:1").replay(0, events=1_000_000)
    assert "--verify" not in define(small, "0:1").replay(0, events=1_000)


def test_a_directory_that_says_nonsense_is_refused() -> None:
    from plainchant.lab.sweep.plan import read_definition

    with pytest.raises(LabError, match="is not a sweep's"):
        read_definition('{"seeds": "0:3"}', SMALL, "here")
