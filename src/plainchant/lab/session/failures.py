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
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from ...core.model import PlainchantError, ProtocolError
from ..errors import LabError

_Rule: TypeAlias = tuple[str, Callable[["re.Match[str]"], str]]

_MEMORY: Final = "give Spark more with --memory, use fewer cores (--master 'local[1]'), or verify less at a time"

_RULES: Final[tuple[_Rule, ...]] = (
    (
        r"PYTHON_VERSION_MISMATCH.*?worker_version[^\d]*([\d.]+)|"
        r"Python in worker has different version:? ([\d.]+)",
        lambda found: (
            f"the Python of Spark's workers is {found[1] or found[2]} and ours is another one: "
            "set PYSPARK_PYTHON to the same release on the workers"
        ),
    ),
    (r"PYTHON_VERSION_MISMATCH", lambda found: _OTHER_PYTHON),
    (
        r'Cannot run program "([^"]*)"',
        lambda found: (
            f"Spark's workers have no {found[1]}: set PYSPARK_PYTHON to a Python that is there, "
            "with plainchant's requirements installed"
        ),
    ),
    (
        r"(?:ModuleNotFoundError|ImportError): No module named '([^']+)'",
        lambda found: (
            f"the Python of Spark's workers has no module {found[1]!r}: "
            "install what plainchant requires there, or set PYSPARK_PYTHON to a Python that has it"
        ),
    ),
    (
        r"java\.lang\.OutOfMemoryError|SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|unable to create native thread",
        lambda found: f"Spark ran out of memory: {_MEMORY}",
    ),
    (
        r"(?m)^(?:MemoryError|pyarrow\.lib\.ArrowMemoryError|numpy\.[\w.]*_ArrayMemoryError)\b",
        lambda found: (
            "a task's Python ran out of memory: use fewer cores at a time (--master 'local[1]'), "
            "a machine with more, or verify less at a time"
        ),
    ),
    (
        r"Total size of serialized results of \d+ tasks \(([^)]+)\)",
        lambda found: f"the result is too large for Spark's driver ({found[1]}): give it more with --memory",
    ),
    (
        r"No space left on device",
        lambda found: "there is no space left on the disk that Spark writes to: free some, or set SPARK_LOCAL_DIRS to another",
    ),
    (
        r"(?:CANNOT_READ_FILE_FOOTER|Could not read footer for file:?|CANNOT_READ_FILE)[^\n]*?((?:\w+:)?/[^\s,;\"'`]+)",
        lambda found: (
            f"{_plain(found[1])} cannot be read as Parquet: it is cut off, corrupt or something else; "
            "write it again or leave it out"
        ),
    ),
    (
        r"((?:\w+:)?/[^\s,;\"'`]+) is not a Parquet file",
        lambda found: f"{_plain(found[1])} is not a Parquet file: write it again or leave it out",
    ),
    (
        r"\[PATH_NOT_FOUND\][^:]*: ([^\s]+?)\.? ",
        lambda found: f"{_plain(found[1])} is not there, as Spark sees it: name a path that its workers can reach too",
    ),
    (
        r"ExecutorLostFailure|Python worker exited unexpectedly|EXECUTOR_LOST|Slave lost|Remote RPC client disassociated",
        lambda found: "Spark lost its workers again and again, most likely because the machine ran out of memory: " + _MEMORY,
    ),
    (
        r"All masters are unresponsive|Could not connect to any master|Master removed our application",
        lambda found: "Spark's master gave up on us: see that it runs and has workers, and try again",
    ),
    (
        r"StatusCode\.UNAVAILABLE|RETRIES_EXCEEDED|failed to connect to all addresses",
        lambda found: "the Spark Connect server cannot be reached any more: see that it runs, and try again",
    ),
    (
        r"INVALID_HANDLE\.SESSION|SESSION_CLOSED|SESSION_NOT_FOUND",
        lambda found: "the Spark Connect server has ended our session: it may have been restarted; try again",
    ),
    (
        # Py4J's last two words for a JVM that is gone; what the JVM itself reports goes on after the name of the call.
        r"SparkContext (?:has been|was) shut ?down|Cannot call methods on a stopped SparkContext|"
        r"Answer from Java side is empty|\AAn error occurred while calling \S+\s*\Z|"
        r"Error while sending or receiving|Connection refused|Connection reset|Broken pipe",
        lambda found: f"Spark's process has ended in the middle, most likely for lack of memory: {_MEMORY}",
    ),
)

_OTHER_PYTHON: Final = (
    "the Python of Spark's workers is of another release than ours: set PYSPARK_PYTHON to the same release on the workers"
)
_OURS: Final = re.compile(r"(?m)^(plainchant(?:\.\w+)+)\.(\w+): (.+)$")
_SPARKS: Final = ("pyspark.", "py4j.", "grpc.", "grpc_status.")


def explain_failure(error: BaseException) -> LabError | None:
    """What to tell a person instead of ``error``, or ``None`` if it is not a known failure of Spark's.

    >>> print(explain_failure(ConnectionRefusedError("Connection refused")))
    Spark's process has ended in the middle, most likely for lack of memory: give Spark more with --memory, ...
    """
    if isinstance(error, PlainchantError) or not _from_spark(error):
        return None
    text = _text(error)
    ours, sentence = _raised_in_a_task(text)
    if ours:
        return LabError(sentence) if sentence is not None else None
    for pattern, say in _RULES:
        found = re.search(pattern, text, re.DOTALL if "PYTHON_VERSION" in pattern else 0)
        if found:
            return LabError(say(found))
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


def _from_spark(error: BaseException) -> bool:
    """Whether it came out of Spark or of a connection to it: a broken file of our own is told by those who read it."""
    return type(error).__module__.startswith(_SPARKS) or isinstance(error, ConnectionError)


def _text(error: BaseException) -> str:
    """All that an exception of Spark's says. Its ``str`` may leave out the Java side, which often is the only one to know."""
    texts = [str(error)]
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
