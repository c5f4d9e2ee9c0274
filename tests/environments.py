"""Environments for tests of what is installed: a virtual environment and wheels of this tree, without any network.

Packages that an environment needs are taken from the running one, so that it has exactly these.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
BUILT_FROM = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "src", "scenarios", "docs")
BUILD = "from setuptools import build_meta; print(build_meta.build_wheel('wheels'))"
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PLAINCHANT", "VIRTUAL_ENV"))}


def build_wheel(source: Path, work: Path, names: Sequence[str]) -> Path:
    """A wheel of a source tree, built in a copy of it, because building leaves files behind."""
    for name in names:
        if (source / name).is_dir():
            shutil.copytree(source / name, work / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "figures"))
        else:
            shutil.copy(source / name, work / name)
    done = subprocess.run([sys.executable, "-c", BUILD], cwd=work, env=CLEAN, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return work / "wheels" / done.stdout.split()[-1]


@functools.cache
def our_wheel() -> Path:
    """The wheel of this tree; built once for a process of the tests."""
    return build_wheel(ROOT, Path(tempfile.mkdtemp(prefix="plainchant-wheel-")), BUILT_FROM)


@dataclasses.dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    directory: Path

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"

    @property
    def packages(self) -> Path:
        (found,) = self.directory.glob("lib/python*/site-packages")
        return found

    def install(self, wheel: Path) -> None:
        """Installs a wheel and nothing else."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "--disable-pip-version-check", "--quiet"]
        options = ["install", "--no-deps", "--no-index", "--no-cache-dir", "--no-compile"]
        done = subprocess.run([*pip, *options, str(wheel)], env=CLEAN, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def copy(self, names: Iterable[str]) -> None:
        """Puts these distributions, and what they require, here from the running environment."""
        for name in closure(names):
            found = metadata.distribution(name)
            for file in found.files or ():
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    there = self.packages / file
                    there.parent.mkdir(parents=True, exist_ok=True)
                    _link(Path(str(found.locate_file(file))).resolve(), there)

    def share(self) -> None:
        """Makes everything that the running environment has importable, after what is installed here."""
        theirs = Path(str(metadata.distribution("pytest").locate_file("")))
        (self.packages / "shared.pth").write_text(f"{theirs}\n")

    def run(self, *arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
        """Runs this environment's Python."""
        command = [str(self.python), *arguments]
        return subprocess.run(command, cwd=directory, env=CLEAN, capture_output=True, text=True, timeout=300)


def _link(file: Path, there: Path) -> None:
    """A second name for a file; a copy of it on another file system."""
    try:
        there.hardlink_to(file)
    except OSError:
        shutil.copy(file, there)


def new_environment(directory: Path) -> Environment:
    """An empty environment: Python's standard library and nothing else, not even pip."""
    venv.create(directory, with_pip=False, symlinks=True)
    return Environment(directory)


def closure(names: Iterable[str]) -> list[str]:
    """These distributions and all that they require here, without extras."""
    found: dict[str, None] = {}
    waiting = [canonicalize_name(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = None
        needed = map(Requirement, metadata.requires(name) or ())
        waiting += [canonicalize_name(each.name) for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return list(found)
