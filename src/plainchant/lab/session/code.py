"""Our own code as a zip, by which it reaches executors that have no plainchant installed.

The zip has ``plainchant`` and every imported package whose name begins with ``plainchant_``: the papers' experiments run as tasks
too, and so do protocols of other distributions that follow the convention. It goes before what is installed there. Sessions that
we start have it from the beginning; a user's own session gets it from the first function of ours that it is given to.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.util
import shutil
import sys
import tempfile
import weakref
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ... import __version__
from ...core.plugins import plugins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The same code gives the same zip, byte for byte, so that its name can carry its digest."""


_HAVE_CODE: Final[weakref.WeakSet[SparkSession]] = weakref.WeakSet()
"""Sessions whose workers have our code."""


def has_code(spark: SparkSession) -> None:
    """Notes that the workers of a session have our code."""
    _HAVE_CODE.add(spark)


def send_code(spark: SparkSession) -> None:
    """Sends our code to the workers of a session, once; those of a local session have it, as they are started by this process."""
    if spark in _HAVE_CODE:
        return
    is_connected = "connect" in type(spark).__module__
    if is_connected or (spark.conf.get("spark.master", "") or "").partition("[")[0] != "local":
        spark.addArtifacts(str(write_package(_kept())), pyfile=True)
    has_code(spark)


@functools.cache
def _kept() -> Path:
    """A directory for as long as this process lives: executors that start later fetch the zip, too."""
    directory = Path(tempfile.mkdtemp(prefix="plainchant-code-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def write_package(directory: Path) -> Path:
    """Writes our code into a zip in ``directory`` and returns its path."""
    digest = hashlib.sha256()
    unnamed = directory / "package.zip"
    with zipfile.ZipFile(unnamed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(_files()):
            content = path.read_bytes()
            digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    # Python workers keep a zip of the same name that they have seen; another version of the code must have another name.
    return unnamed.rename(directory / f"plainchant-{__version__}-{digest.hexdigest()[:12]}.zip")


@functools.cache
def code_digest() -> str:
    """A digest of the code that decides what runs and verdicts are: all of plainchant but its command line, and the protocols
    of other distributions.

    >>> len(code_digest())
    16
    """
    found = dict(_below(Path(sys.modules["plainchant"].__file__ or "").resolve().parent))
    for plugin in plugins("plainchant.protocols").values():
        module = importlib.util.find_spec(plugin.entry.module.partition(".")[0])
        if module is not None and module.origin is not None:
            path = Path(module.origin).resolve()
            found.update(_below(path.parent) if path.name == "__init__.py" else [(path.name, path)])
    digest = hashlib.sha256()
    for name, path in sorted(found.items()):
        if path.suffix == ".py" and not name.startswith("plainchant/cli/"):
            digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _files() -> Iterator[tuple[str, Path]]:
    """The files of the zip, each with its name there."""
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." in name or file is None or not (name == "plainchant" or name.startswith("plainchant_")):
            continue
        path = Path(file).resolve()
        if path.name != "__init__.py":
            yield path.name, path
            continue
        yield from _below(path.parent)


def _below(package: Path) -> Iterator[tuple[str, Path]]:
    for each in package.rglob("*"):
        if each.is_file() and "__pycache__" not in each.parts:
            yield each.relative_to(package.parent).as_posix(), each
