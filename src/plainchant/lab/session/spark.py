"""Spark sessions: on this machine by default, on a cluster by ``master``, on a Connect server by ``remote``.

``session`` starts what is needed and ends all of it: after the block no JVM, no worker and no file is left. A session that the
process already has is used and left alone. A local session listens on loopback only, has its files in one scratch directory, and
prints nothing on standard error (see ``jvm``).

Workers on this machine run our interpreter; those of a cluster or a Connect server get our code as a zip (``code``), so that
driver and tasks have the same version. What it *requires* (NumPy, PyArrow, msgspec) must be installed there. A master or server
that does not answer is refused within seconds, and a cluster proves with one small job that it has an executor with a Python that
can run ours. A task that fails is run again, here as on a cluster: four times in all.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import socket
import sys
import tempfile
import threading
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ..errors import LabError
from .code import has_code, send_code, write_package
from .failures import explain_failure, explained_here, failures_as_sentences
from .java import find_java
from .jvm import START_WITHIN, Jvm, changed_environment, end, given_up_after, launch, unchanged_process, why_not_started

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

REACH_WITHIN: Final = 10
"""Seconds for a master or a Connect server to answer at all."""
EXECUTOR_WITHIN: Final = 120
"""Seconds for a cluster to run a first small job: it may have to start machines."""
_RETRIES: Final = 8
"""With pauses that grow to 5 s, half a minute in all."""
WAIT: Final = "PLAINCHANT_SPARK_WAIT"
"""The environment variable for another number of seconds, where a cluster takes longer."""
_SHUFFLE_PARTITIONS: Final = 8
"""The fewest: measured as good for 10 to 50 million events; adaptive execution merges small ones."""
_SERIAL_UP_TO: Final = 4
"""With so few cores the serial collector starts faster and keeps less memory."""
_ALWAYS: Final = {
    "spark.app.name": "plainchant",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
    "spark.log.structuredLogging.enabled": "false",
}
_ATTEMPTS: Final = 4
"""How often a task may fail: Spark's own number on a cluster. On one machine it would be once, and a worker that the kernel ends
for want of memory the end of everything."""
_OWN_OPTIONS: Final = {"spark.master": "--master", "spark.remote": "--remote", "spark.driver.memory": "--memory"}
"""Settings that have options of their own."""
_UNLIMITED_SLOTS: Final = 128
"""Taken for the slots of a cluster that adds executors as tasks wait, without a limit."""
_ROOM: Final = 1_000_000
"""Bytes that must be free for a session's files. A JVM that cannot write where it listens would be waited for without end."""
_NOT_INHERITED: Final = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_API_MODE", "SPARK_CONNECT_MODE", "SPARK_REMOTE")
"""Variables that would give another session than the one that was asked for."""
_MASTER: Final = re.compile(r"local(\[(\d+|\*)(, *\d+)?\])?|local-cluster\[\d+, *\d+, *\d+\]|spark://.+|yarn|k8s://.+")
_LOOPBACK: Final = "127.0.0.1"
_PY_FILES: Final = "spark.submit.pyFiles"
_QUICK: Final = "-XX:TieredStopAtLevel=1"


@contextlib.contextmanager
def session(
    master: str | None = None,
    remote: str | None = None,
    *,
    memory: str | None = None,
    shuffle_partitions: int | None = None,
    quick: bool = False,
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A Spark session for the duration of the block: ``with session() as spark: ...``.

    ``master`` is as Spark writes it (``local[*]``, ``spark://host:7077``, ``yarn``, ``k8s://...``), ``remote`` a Connect server
    (``sc://host:15002``; the environment variable ``SPARK_REMOTE`` if neither is given). ``memory`` is that of the driver,
    which on one machine is all of Spark's; ``quick`` is for small inputs and tests, where compiling Java code well does not pay.
    ``conf`` has settings of Spark's, which go before ours: ``{"spark.executor.memory": "8g"}``.
    """
    given = dict(conf or {})
    for name in given:
        if name in _OWN_OPTIONS:
            raise LabError(f"{name} has an option of its own: say it by {_OWN_OPTIONS[name]}")
        if not name.startswith("spark."):
            raise LabError(f"{name!r} is no setting of Spark's: their names begin with spark.")
    if master is not None and remote is not None:
        raise LabError("a session has a master or a Connect server, not both: leave one of them out")
    if importlib.util.find_spec("pyspark") is None:
        raise LabError("the laboratory needs Spark, which is not installed: pip install 'plainchant[lab]'")
    remote = remote or (os.environ.get("SPARK_REMOTE") if master is None else None)
    active = _active()
    if active is not None:
        if given:
            raise LabError(f"this process has a Spark session already, which is used as it is: set {', '.join(given)} there")
        yield active
        return
    with _files_written():
        scratch = tempfile.TemporaryDirectory(prefix="plainchant-", ignore_cleanup_errors=True)
    with scratch, unchanged_process():
        place = Path(scratch.name)
        with _files_written(), tempfile.TemporaryFile(dir=place) as probe:
            probe.write(bytes(_ROOM))
        with _connected(remote, place, given) if remote else _started(_again(master), place, memory, quick, given) as spark:
            if "spark.sql.shuffle.partitions" not in given:
                partitions = shuffle_partitions or max(_SHUFFLE_PARTITIONS, 2 * slots(spark))
                spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
            yield spark


@contextlib.contextmanager
def explained_session(master: str | None = None, remote: str | None = None, **options: Any) -> Iterator[SparkSession]:
    """A :func:`session` in which Spark's failures become sentences, while the JVM that knows of them is still there."""
    with failures_as_sentences(), session(master, remote, **options) as spark, explained_here():
        yield spark


@contextlib.contextmanager
def _files_written() -> Iterator[None]:
    """A start that finds no room for its files, as a sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise LabError(f"Spark cannot write its files ({reason}): make room, or set TMPDIR to another directory") from error


def _again(master: str | None) -> str:
    """A master whose tasks are run again: on one machine Spark does that only if the master's name says so."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master or "local[*]")
    return master or "" if found is None else f"local[{found[1] or 1},{_ATTEMPTS}]"


def slots(spark: SparkSession) -> int:
    """How many tasks run at the same time; where executors come as they are needed, how many will at most."""
    local = _local_slots(spark.conf.get("spark.master", "") or "")
    is_connected = "connect" in type(spark).__module__
    if local is not None and not is_connected:
        return local
    at_most = _dynamic_slots(spark)
    if at_most is not None:
        return at_most
    if not is_connected:
        return int(spark.sparkContext.defaultParallelism)
    if spark not in _KNOWN_SLOTS:
        # What Spark splits a range into by default is its number of slots. Behind a server only a job can tell.
        from pyspark.sql import functions as F

        parts = spark.range(1_000_000).select(F.spark_partition_id().alias("part"))
        _KNOWN_SLOTS[spark] = 1 + parts.agg(F.max("part").alias("last")).collect()[0]["last"]
    return _KNOWN_SLOTS[spark]


_KNOWN_SLOTS: Final[weakref.WeakKeyDictionary[SparkSession, int]] = weakref.WeakKeyDictionary()
"""Of sessions of Connect."""


def _dynamic_slots(spark: SparkSession) -> int | None:
    """The slots of a cluster that adds executors while tasks wait: those that it has now say nothing; None for others."""

    def setting(name: str, otherwise: str) -> str:
        return spark.conf.get(name, otherwise) or otherwise

    if setting("spark.dynamicAllocation.enabled", "false").lower() != "true":
        return None
    executors = setting("spark.dynamicAllocation.maxExecutors", "")
    if not executors.isdecimal():
        return _UNLIMITED_SLOTS
    tasks = int(setting("spark.executor.cores", "1")) // int(setting("spark.task.cpus", "1"))
    return max(1, min(int(executors) * max(tasks, 1), _UNLIMITED_SLOTS))


def _active() -> SparkSession | None:
    """The session that this process already has, if it has one that lives."""
    from pyspark.sql import SparkSession

    if "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        from pyspark.sql.connect.session import SparkSession as Remote

        connected: Any = Remote.getActiveSession()
        return connected if connected is not None and not connected.is_stopped else None
    classic = SparkSession._instantiatedSession
    return classic if classic is not None and classic._sc._jsc is not None else None


@contextlib.contextmanager
def _started(master: str, scratch: Path, memory: str | None, quick: bool, given: Mapping[str, str]) -> Iterator[SparkSession]:
    """A classic session: a JVM of ours, whose tasks run in it or on the cluster that ``master`` names."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    cores = _local_slots(master)
    _check_master(master)
    settings = {**_ALWAYS, "spark.master": master, "spark.driver.memory": _driver_memory(memory)}
    with _files_written():
        java = find_java(scratch)
        settings |= _settings(scratch, quick, cores is not None)
    if code := [files for files in (given.get(_PY_FILES), settings.get(_PY_FILES)) if files]:
        given = {**given, _PY_FILES: ",".join(code)}
    settings |= given
    with changed_environment(_environment(master, str(java.home))):
        serial = ["-XX:+UseSerialGC"] if (os.cpu_count() or 1) <= _SERIAL_UP_TO else []
        with _files_written():
            jvm = launch(settings, [*serial, *([_QUICK] if quick else [])], java, scratch)
        owner, failed = os.getpid(), True
        try:
            with given_up_after(jvm, START_WITHIN) as too_late:
                try:
                    context = SparkContext(conf=SparkConf(loadDefaults=False).setAll(list(settings.items())), gateway=jvm.gateway)
                    # The server for accumulators, which are not used, would print a traceback when the JVM goes away.
                    vars(context)["_accumulatorServer"].handle_error = lambda request, address: None
                    spark = SparkSession(context, options=settings)
                except Exception as error:
                    if too_late.is_set():
                        raise LabError(f"{master} gave no session within {START_WITHIN} s: see that it runs") from error
                    raise _why_not_started_on(jvm, master, settings, error) from error
            has_code(spark)
            if cores is None:
                _prove(spark, f"the cluster {master}")
            yield spark
            failed = False
        finally:
            if os.getpid() == owner:  # not in a process that was forked inside the block: it shares the JVM
                try:
                    end(jvm, local=cores is not None, failed=failed)
                finally:
                    _forget_classic()  # after the JVM, for whose updates the server for accumulators waits up to a second


def _why_not_started_on(jvm: Jvm, master: str, settings: dict[str, str], error: Exception) -> LabError:
    """The sentence for a JVM that came up without a session."""
    text = str(error)
    if _local_slots(master) is None and re.search(r"ConnectException|Connection refused|UnknownHost|No route to host", text):
        return LabError(f"{master} cannot be reached: see that it runs there, and that nothing is in between")
    with jvm.log.open("a") as log:
        log.write(text)
    return why_not_started(jvm.log, settings)


def _forget_classic() -> None:
    """Takes the session out of the process's state, as ``stop`` would, but without calls into a JVM that may not answer."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext._active_spark_context
    if context is not None:
        server = getattr(context, "_accumulatorServer", None)
        if server is not None:
            server.shutdown()
            server.server_close()
        context._accumulatorServer = context._jsc = None
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    classic: Any = SparkSession
    classic._instantiatedSession = classic._activeSession = None


@contextlib.contextmanager
def _connected(remote: str, scratch: Path, given: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session on a Connect server."""
    from pyspark.sql import SparkSession

    _check_server(remote)
    owner = os.getpid()
    with failures_as_sentences():
        spark = SparkSession.builder.remote(remote).getOrCreate()
    try:
        with failures_as_sentences():
            _retry(spark, times=_RETRIES)
            send_code(spark)
            spark.conf.set("spark.sql.session.timeZone", "UTC")
            for name, value in given.items():
                _set(spark, name, value)
        _prove(spark, f"the Connect server {remote}")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")  # the exception that follows says it
            yield spark
    finally:
        if os.getpid() == owner:
            with contextlib.suppress(Exception):  # a server that is gone has ended the session by itself
                _retry(spark, times=1)
                spark.stop()
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)


def _set(spark: SparkSession, name: str, value: str) -> None:
    """Of a server that runs already, only some settings can be changed."""
    if not spark.conf.isModifiable(name):
        raise LabError(f"{name} cannot be set on a Spark Connect server that runs: set it where the server is started")
    spark.conf.set(name, value)


def _retry(spark: SparkSession, *, times: int) -> None:
    """How often the client tries again a server that does not answer; by itself it would for ten minutes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    spark.client.set_retry_policies([DefaultPolicy(max_retries=times, max_backoff=5_000)])


def _local_slots(master: str) -> int | None:
    """The number of slots of a master on this machine, ``None`` for other masters."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", master)
    if found is None:
        return None
    return os.cpu_count() or 1 if found[1] == "*" else int(found[1] or 1)


def _settings(scratch: Path, quick: bool, is_local: bool) -> dict[str, str]:
    if is_local:
        own = {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
        return {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK, **own}
    code = {_PY_FILES: str(write_package(scratch))}
    return {**code, "spark.executor.extraJavaOptions": _QUICK} if quick else code


def _environment(master: str, java_home: str) -> dict[str, str]:
    """The variables that the JVM is started with; an empty value takes one away."""
    import pyspark

    ours = str(Path(pyspark.__file__).parent)
    given = os.environ.get("SPARK_HOME")
    environment = {
        "JAVA_HOME": java_home,
        "SPARK_HOME": ours,  # another Spark's jars would not fit this PySpark
        "SPARK_LAUNCHER_OPTS": f"{_QUICK} -XX:+UseSerialGC",
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable,
        **dict.fromkeys(_NOT_INHERITED, ""),
    }
    if _local_slots(master) is not None:
        environment["PYSPARK_PYTHON"] = sys.executable
        environment["SPARK_LOCAL_IP"] = _LOOPBACK
    elif given and given != ours and "SPARK_CONF_DIR" not in os.environ and Path(given, "conf").is_dir():
        environment["SPARK_CONF_DIR"] = str(Path(given, "conf"))  # how that cluster is reached is said there
    if any(host in ("127.0.0.1", "localhost") for host, _ in _standalone(master)):
        environment["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP") or _LOOPBACK
    return environment


def _driver_memory(wanted: str | None) -> str:
    """What was asked for if the machine has it; else an eighth of the machine's: Python workers need theirs too."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # in a container, what its control group allows, if that is limited
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    if wanted is None:
        return f"{min(max(total // 8 // 2**20, 1024), 4096)}m"
    found = re.fullmatch(r"([1-9]\d{0,6})([kmgt])", wanted.lower())
    if found is None:
        raise LabError(f"{wanted!r} is no memory size: write it as 4g or 1500m")
    # Java would start with it all the same, and be killed when it comes to use it.
    if int(found[1]) * 1024 ** (1 + "kmgt".index(found[2])) > total:
        raise LabError(f"{wanted} is more than the {total / 2**30:.1f} GB of memory here: give Spark less with --memory")
    return wanted


def _standalone(master: str) -> list[tuple[str, int]]:
    """Hosts and ports of a standalone cluster's masters."""
    if not master.startswith("spark://"):
        return []
    found = []
    for each in master.removeprefix("spark://").split(","):
        host, _, port = each.rpartition(":")
        if not host or not port.isdecimal():
            raise LabError(f"{master!r} is no master of Spark's: write it as spark://host:7077")
        found.append((host.strip("[]"), int(port)))
    return found


def _check_master(master: str) -> None:
    if not _MASTER.fullmatch(master):
        raise LabError(f"{master!r} is no master of Spark's: say local[*], spark://host:7077, yarn or k8s://https://host:port")
    if master == "yarn" and not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
        raise LabError("the master yarn needs Hadoop's configuration: set HADOOP_CONF_DIR to its directory")
    if masters := _standalone(master):
        _reach(masters, master, "see that Spark's master runs there")


def _check_server(remote: str) -> None:
    parts = urlsplit(remote)
    try:
        host, port = parts.hostname, parts.port or 15002
    except ValueError:
        host, port = None, 0
    if parts.scheme != "sc" or not host:
        raise LabError(f"{remote!r} is no Spark Connect server: write it as sc://host:15002")
    if not any(os.environ.get(name) for name in ("grpc_proxy", "https_proxy", "http_proxy")):
        _reach([(host, port)], remote, "see that the Spark Connect server runs there")
    _reach_service(remote)


def _reach(places: Iterable[tuple[str, int]], url: str, advice: str) -> None:
    """Refuses a place where nothing listens, which Spark would try again and again."""
    reason = ""
    for host, port in places:
        try:
            with socket.create_connection((host, port), timeout=REACH_WITHIN):
                return
        except TimeoutError:
            reason = f"no answer within {REACH_WITHIN} s"
        except OSError as error:
            reason = error.strerror or str(error)
    raise LabError(f"{url} cannot be reached ({reason}): {advice}, and that nothing is in between")


def _reach_service(remote: str) -> None:
    """Refuses a server that listens but does not speak gRPC, for which the client would wait for minutes."""
    from pyspark.sql.connect.client import DefaultChannelBuilder

    grpc: Any = importlib.import_module("grpc")  # it comes without type information
    with contextlib.closing(DefaultChannelBuilder(remote).toChannel()) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=REACH_WITHIN)
        except grpc.FutureTimeoutError:
            raise LabError(f"what listens at {remote} does not answer as a Spark Connect server: check host and port") from None


def _prove(spark: SparkSession, where: str) -> None:
    """Runs one small job in Python on the cluster, so that what is wrong there is said at once."""
    seconds = float(os.environ.get(WAIT) or EXECUTOR_WITHIN)
    outcome: list[Exception | None] = []

    def run() -> None:
        try:
            spark.range(0, 1, 1, 1).mapInArrow(_import_ours, "id long").collect()
            outcome.append(None)
        except Exception as error:
            outcome.append(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    worker.join(seconds)
    if not outcome:
        advice = f"see that it has workers with free cores and memory, or set {WAIT} to more seconds"
        raise LabError(f"{where} ran nothing for {seconds:.0f} s: {advice}")
    if outcome[0] is not None:
        raise explain_failure(outcome[0]) or outcome[0]


def _import_ours(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    importlib.import_module("plainchant.lab.verify.check")
    yield from batches
