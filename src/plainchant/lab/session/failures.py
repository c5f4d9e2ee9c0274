"""Spark's failures as sentences that say what to do.

Spark reports by exceptions that carry pages of Java; what a person can do something about is a line in them. Each rule here
recognises one cause and says the sentence. The order is from the specific to the general: an executor is lost *because*
memory ran out, a stage is aborted *because* a task of ours refused its input. An error that no rule knows keeps its traceback.

An error of ours that was raised in a task comes back as text, in which we find the sentence again: tasks simply raise.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Iterator
from typing import Final

from ...core.model import PlainchantError, ProtocolError
from ..errors import LabError

_MEMORY: Final = (
    "give Spark more with --memory, the executors of a cluster with --conf spark.executor.memory=8g, use fewer cores "
    "(--master 'local[1]', --conf spark.executor.cores=1), or verify less at a time"
)
_OUT_OF_MEMORY: Final = (
    r"java\.lang\.OutOfMemoryError|SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|unable to create native thread"
)
_PYTHON_MEMORY: Final = (
    r"(?m)^(?:MemoryError|pyarrow\.lib\.ArrowMemoryError|numpy\.[\w.]*_ArrayMemoryError)\b|OSError: \[Errno 12\]|"
    r"failed to map segment from shared object(?!: Operation not permitted)"  # not even its libraries had room
)
_UNREADABLE: Final = (
    r"(?:CANNOT_READ_FILE_FOOTER|Could not read footer for file:?|CANNOT_READ_FILE|FAILED_READ_FILE)"
    r"[^\n]*?((?:\w+:)?/[^\s,;\"'`]+)"
)
_LOST: Final = r"ExecutorLostFailure|Python worker exited unexpectedly|EXECUTOR_LOST|Slave lost|Remote RPC client disassociated"
# Py4J's last two words for a JVM that is gone; what the JVM itself reports goes on after the name of the call.
_GONE: Final = (
    r"SparkContext (?:has been|was) shut ?down|Cannot call methods on a stopped SparkContext|"
    r"Answer from Java side is empty|\AAn error occurred while calling \S+\s*\Z|"
    r"Error while sending or receiving|Connection refused|Connection reset|Broken pipe"
)
_SAME_PYTHON: Final = "set PYSPARK_PYTHON to the same release on the workers"
_AGAIN: Final = "write it again or leave it out"
_RULES: Final = {
    r"(?s)PYTHON_VERSION_MISMATCH.*?worker_version[^\d]*([\d.]+)|Python in worker has different version:? ([\d.]+)": (
        f"the Python of Spark's workers is {{}} and ours is another one: {_SAME_PYTHON}"
    ),
    r"PYTHON_VERSION_MISMATCH": f"the Python of Spark's workers is of another release than ours: {_SAME_PYTHON}",
    r'Cannot run program "([^"]*)"': (
        "Spark's workers have no {}: set PYSPARK_PYTHON to a Python that is there, with plainchant's requirements installed"
    ),
    r"(?:ModuleNotFoundError|ImportError): No module named '([^']+)'": (
        "the Python of Spark's workers has no module {!r}: "
        "install what plainchant requires there, or set PYSPARK_PYTHON to a Python that has it"
    ),
    _OUT_OF_MEMORY: f"Spark ran out of memory: {_MEMORY}",
    _PYTHON_MEMORY: "a task's Python ran out of memory: use fewer cores at a time (--master 'local[1]', "
    "on a cluster --conf spark.executor.cores=1), a machine with more, a larger spark.executor.pyspark.memory if it is set, "
    "or verify less at a time",
    r"Total size of serialized results of \d+ tasks \(([^)]+)\)": (
        "the result is too large for Spark's driver ({}): give it more with --memory"
    ),
    r"No space left on device": (
        "there is no space left on the disk that Spark writes to: free some, or set TMPDIR to another directory, "
        "on the workers of a cluster SPARK_LOCAL_DIRS"
    ),
    _UNREADABLE: f"{{}} cannot be read as Parquet: it is cut off, corrupt or something else; {_AGAIN}",
    r"((?:\w+:)?/[^\s,;\"'`]+) is not a Parquet file": f"{{}} is not a Parquet file: {_AGAIN}",
    r"\[PATH_NOT_FOUND\][^:]*: ([^\s]+?)\.? ": "{} is not there, as Spark sees it: name a path that its workers can reach too",
    _LOST: f"Spark lost its workers again and again, most likely because the machine ran out of memory: {_MEMORY}",
    r"All masters are unresponsive|Could not connect to any master|Master removed our application": (
        "Spark's master gave up on us: see that it runs and has workers, and try again"
    ),
    r"StatusCode\.UNAVAILABLE|RETRIES_EXCEEDED|failed to connect to all addresses": (
        "the Spark Connect server cannot be reached any more: see that it runs, and try again"
    ),
    r"INVALID_HANDLE\.SESSION|SESSION_CLOSED|SESSION_NOT_FOUND": (
        "the Spark Connect server has ended our session: it may have been restarted; try again"
    ),
    _GONE: f"Spark's process has ended in the middle, most likely for lack of memory: {_MEMORY}",
}
"""Patterns, and the sentences for them; what a pattern's group finds (a path, a version) goes into the sentence."""
_OURS: Final = re.compile(r"(?m)^(plainchant(?:\.\w+)+)\.(\w+): (.+)$")
_IN_A_TASK: Final = "Traceback (most recent call last)"
_CALLING: Final = "An error occurred while calling"
_REASON_MAX: Final = 300
_SPARKS: Final = ("pyspark.", "py4j.", "grpc.", "grpc_status.")


def explain_failure(error: BaseException) -> LabError | None:
    """What to tell a person instead of ``error``, or ``None`` if it is not a known failure of Spark's.

    >>> print(explain_failure(ConnectionRefusedError("Connection refused")))
    Spark's process has ended in the middle, most likely for lack of memory: give Spark more with --memory, ...
    """
    # A broken file of our own, which came neither out of Spark nor of a connection to it, is told by what reads it.
    from_spark = type(error).__module__.startswith(_SPARKS) or isinstance(error, ConnectionError)
    if isinstance(error, PlainchantError) or not from_spark:
        return None
    text = _text(error)
    ours, sentence = _raised_in_a_task(text)
    if ours:
        return LabError(sentence) if sentence is not None else None
    for pattern, sentence in _RULES.items():
        if found := re.search(pattern, text):
            groups = [_plain(group) if sentence.startswith("{}") else group for group in found.groups() if group]
            return LabError(sentence.format(*groups))
    return None


@contextlib.contextmanager
def failures_as_sentences() -> Iterator[None]:
    """Turns Spark's exceptions into a :class:`LabError` where a rule knows what happened; others pass as they are."""
    try:
        yield
    except Exception as error:
        told = explain_failure(error)
        if told is None:
            raise
        raise told from error


@contextlib.contextmanager
def explained_here() -> Iterator[None]:
    """The same inside a session that ends with the block: an exception of Spark's asks the JVM for its words, so not later.
    What no rule knows is a sentence, too, unless a task of ours failed: its traceback is what we need then."""
    try:
        with failures_as_sentences():
            yield
    except Exception as error:
        if not type(error).__module__.startswith(_SPARKS):
            raise
        text = _text(error)
        if _IN_A_TASK in text:
            raise RuntimeError(text) from None
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith(_CALLING)]
        reason = (lines or [type(error).__name__])[0].strip().rstrip(".")[:_REASON_MAX]
        raise LabError(f"Spark failed: {reason}; PLAINCHANT_SPARK_LOG=FILE keeps all that it says") from None


def _text(error: BaseException) -> str:
    """All that an exception of Spark's says. Its ``str`` may leave out the Java side, which often is the only one to know."""
    try:
        texts = [str(error)]
    except OSError as gone:  # it asks the JVM for the words
        texts = [str(gone)]
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    if cause is not None:
        with contextlib.suppress(Exception):  # the JVM that knows may be gone
            texts.append(str(cause))
    return "\n".join(texts)


def _raised_in_a_task(text: str) -> tuple[bool, str | None]:
    """Whether one of our own errors ended a task, and the sentence of it unless it is a defect, whose traceback we need."""
    for module, name, sentence in reversed(_OURS.findall(text)):
        with contextlib.suppress(ImportError):
            kind = getattr(importlib.import_module(module), name, None)
            if isinstance(kind, type) and issubclass(kind, PlainchantError):
                return True, None if issubclass(kind, ProtocolError) else sentence.strip()
    return False, None


def _plain(path: str) -> str:
    return path.removeprefix("file://").removeprefix("file:").rstrip(".")
