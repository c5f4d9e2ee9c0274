"""The directory of a sweep: whatever is killed when, a unit is there completely or not at all, and never twice."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from plainchant.lab.errors import LabError
from plainchant.lab.sweep.driver import Progress, progress_of, swept
from plainchant.lab.sweep.plan import Definition, define
from plainchant.lab.sweep.store import Store
from plainchant.lab.sweep.task import Job, Task

from .test_plan import SMALL


@pytest.fixture
def definition(tmp_path: Path) -> Definition:
    (tmp_path / "small.toml").write_text(SMALL)
    return define(str(tmp_path / "small.toml"), "0:128", keep="all")


def job(definition: Definition, directory: Path, *units: int) -> Job:
    store = Store(directory)
    return Job(store.enter(definition), str(store.directory), units, 1)


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


@pytest.fixture
def undisturbed(definition: Definition, tmp_path: Path) -> dict[str, bytes]:
    """What two units come to if nothing happens."""
    assert Task(job(definition, tmp_path / "undisturbed", 0, 1), 0).work() is None
    return contents(tmp_path / "undisturbed")


def test_an_address_is_no_directory() -> None:
    with pytest.raises(LabError, match="s3://bucket/swept is an address; a sweep needs a directory"):
        Store("s3://bucket/swept")


def test_units_have_files_in_every_table_and_a_marker(undisturbed: dict[str, bytes]) -> None:
    assert [name for name in undisturbed if "unit-00000" in name] == [
        "metrics/unit-00000.parquet",
        "outcomes/unit-00000.parquet",
        "runs/unit-00000.parquet",
        "trace/unit-00000.parquet",
        "units/unit-00000.json",
        "violations/unit-00000.parquet",
    ]
    assert "violations/unit-00001.parquet" not in undisturbed, "only the first unit has files without rows"


def test_whatever_step_a_task_is_killed_at_the_next_one_leaves_the_same(
    definition: Definition, tmp_path: Path, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace
    for step in range(1, 12):  # two units have eleven renames
        place = tmp_path / f"killed-{step}"
        work = job(definition, place, 0, 1)
        left = step

        def killed(source: Path, target: Path) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
            replace(source, target)

        monkeypatch.setattr("plainchant.lab.sweep.store.os.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            Task(work, 0).work()
        monkeypatch.setattr("plainchant.lab.sweep.store.os.replace", replace)
        markers = {name for name in contents(place) if name.startswith("units/unit-")}
        for unit, tally in Store(place).tallies().items():
            assert f"units/unit-{unit:05d}.json" in markers
            assert all(f"{name}/unit-{unit:05d}.parquet" in contents(place) for name in tally.files)
        assert Task(work, 0).work() is None
        Store(place).tidy()
        assert contents(place) == undisturbed


def test_two_tasks_that_do_the_same_units_leave_what_one_leaves(
    definition: Definition, tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    work = job(definition, tmp_path / "twice", 0, 1)
    for unit in (0, 1, 1, 0):
        (tmp_path / "twice" / "units" / f"unit-{unit:05d}.json").unlink(missing_ok=True)
        Task(work, 0).do(unit)
    assert contents(tmp_path / "twice") == undisturbed


def test_a_committed_unit_is_not_done_again(definition: Definition, tmp_path: Path) -> None:
    work = job(definition, tmp_path / "out", 0)
    Task(work, 0).work()

    def never(*arguments: object) -> None:
        raise AssertionError("performed again")

    again = Job(work.definition, work.directory, work.todo, 1, never)  # type: ignore[arg-type]
    assert Task(again, 0).work() is None
    Task(again, 0).do(0)


def test_tasks_help_each_other_and_each_sees_to_its_own(definition: Definition, tmp_path: Path) -> None:
    place = tmp_path / "out"
    store = Store(place)
    units = tuple(range(6))
    work = Job(store.enter(definition), str(place), units, 2)
    assert store.claim(3)  # by a task that is at work, or dead
    assert Task(work, 0).work() is None
    assert sorted(store.tallies()) == [0, 1, 2, 4, 5], "all of its own and of the other's, but not what another works on"
    assert Task(work, 1).work() is None
    assert sorted(store.tallies()) == list(units), "the owner does what is not committed, whoever claimed it"


def test_a_marker_whose_files_are_gone_or_cut_does_not_count(definition: Definition, tmp_path: Path) -> None:
    place = tmp_path / "out"
    Task(job(definition, place, 0, 1, 2), 0).work()
    (place / "runs" / "unit-00001.parquet").unlink()
    with open(place / "trace" / "unit-00002.parquet", "r+b") as file:
        file.truncate(100)
    assert list(Store(place).recover()) == [0]
    assert list(Store(place).tallies()) == [0]


def test_markers_say_how_far_it_is(definition: Definition, tmp_path: Path) -> None:
    Task(job(definition, tmp_path / "out", 0, 3), 0).work()
    assert progress_of(definition, Store(tmp_path / "out").tallies()) == Progress(4, 128, 0, 0)


def test_traces_are_sorted_by_run_process_and_index_and_written_as_every_trace(definition: Definition, tmp_path: Path) -> None:
    wide = define(definition.scenario, "9:12", keep="all")
    wide = Definition(**{**wide.__getstate__(), "unit_runs": 3})
    Task(job(wide, tmp_path / "out", 0), 0).work()
    file = pq.ParquetFile(tmp_path / "out" / "trace" / "unit-00000.parquet")
    assert file.metadata.metadata[b"plainchant.trace.version"] == b"1"
    keys = [(row["run"], row["process"], row["index"]) for row in file.read(columns=["run", "process", "index"]).to_pylist()]
    assert keys == sorted(keys)
    assert list(dict.fromkeys(run for run, _, _ in keys)) == ["seed=10", "seed=11", "seed=9"]


# --- whose directory it is --------------------------------------------------------------------------------------------


def test_another_sweep_in_the_same_directory_is_refused(definition: Definition, tmp_path: Path) -> None:
    place = tmp_path / "out"
    Store(place).enter(definition)
    with pytest.raises(LabError, match="seeds 0:128 there, 0:9 here"):
        Store(place).enter(define(definition.scenario, "0:9", keep="all"))
    with pytest.raises(LabError, match="keep all there, none here"):
        Store(place).enter(define(definition.scenario, "0:128", keep="none"))
    Path(definition.scenario).write_text(SMALL + "# changed\n")
    with pytest.raises(LabError, match="before it was changed"):
        Store(place).enter(define(definition.scenario, "0:128", keep="all"))


def test_a_sweep_of_another_version_is_refused(definition: Definition, tmp_path: Path) -> None:
    place = tmp_path / "out"
    Store(place).enter(definition)
    said = json.loads((place / "sweep.json").read_text())
    (place / "sweep.json").write_text(json.dumps({**said, "plainchant": "0.0.1", "id": "another"}))
    with pytest.raises(LabError, match=r"made by plainchant 0\.0\.1"):
        Store(place).enter(definition)


def test_a_sweep_of_the_code_before_a_change_is_refused(definition: Definition, tmp_path: Path) -> None:
    place = tmp_path / "out"
    store = Store(place)
    store.enter(definition)
    assert store.enter(definition) == definition
    changed = dataclasses.replace(definition, code="0123456789abcdef")
    with pytest.raises(LabError, match="made by plainchant's code before it was changed"):
        store.enter(changed)
    assert Task(Job(changed, str(place), (0,), 1), 0).work() is not None, "nor does a task of it write there"
    said = json.loads((place / "sweep.json").read_text())
    del said["code"]  # as an earlier version wrote it
    (place / "sweep.json").write_text(json.dumps({**said, "id": "another"}))
    with pytest.raises(LabError, match="made by plainchant's code before it was changed"):
        store.enter(definition)


def test_a_directory_with_something_else_in_it_is_refused_and_an_empty_one_taken(definition: Definition, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert swept(definition, tmp_path / "empty")[1] is None
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(LabError, match="holds no sweep"):
        swept(definition, tmp_path / "mine")
    with pytest.raises(LabError, match="choose another directory"):
        swept(definition, tmp_path / "mine" / "thesis.tex" / "out")


def test_a_machine_that_does_not_see_the_directory_says_so(definition: Definition, tmp_path: Path) -> None:
    problem = Task(Job(definition, str(tmp_path / "elsewhere"), (0,), 1), 0).work()
    assert problem is not None
    assert "all executors share" in problem
    assert not (tmp_path / "elsewhere").exists()


def test_a_full_disk_is_a_sentence(definition: Definition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = job(definition, tmp_path / "out", 0)

    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("plainchant.lab.sweep.store.pq.write_table", full)
    assert "No space left on device; make room" in str(Task(work, 0).work())
    assert [name for name in contents(tmp_path / "out") if "partial" in name] == []
