"""Packages import what docs/architecture.md says, wherever in a file the import stands, and there is no cycle between them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.layering import CONFIGURATION, CYCLIC, HEADING, PAGE, ROOT, acyclic, contracts, table

LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(config_filename=sys.argv[1], no_cache=True))"


def lint(configuration: Path, *, path: Path | None = None) -> tuple[int, str]:
    """The status of import-linter with this configuration, and what it says."""
    search = f"import sys; sys.path.insert(0, {str(path)!r}); " if path is not None else ""
    command = [sys.executable, "-c", search + LINT, str(configuration)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_every_package_has_a_row() -> None:
    rows = table(PAGE.read_text())
    packages = {path.parent.name for path in (ROOT / "src" / "plainchant").glob("*/__init__.py")}
    assert packages <= rows.keys(), f"without a row: {sorted(packages - rows.keys())}"
    for name in rows:
        folder = ROOT / name if name in ("papers", "workbench") else ROOT / "src" / "plainchant" / name
        assert folder.is_dir(), f"{name} has a row and no folder"


def test_the_contracts_are_those_of_the_table() -> None:
    made = contracts(table(PAGE.read_text()))
    assert CONFIGURATION.read_text() == made, "make it anew: python -m tests.layering"


def test_every_contract_is_kept() -> None:
    status, text = lint(CONFIGURATION)
    assert status == 0, text


def test_packages_without_a_cycle_are_taken_off_the_list(tmp_path: Path) -> None:
    configuration = tmp_path / "contracts"
    configuration.write_text(acyclic(CYCLIC))
    _, text = lint(configuration)
    assert [name for name in CYCLIC if f"{name} has no cycle BROKEN" not in text] == [], text


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A package in which one module imports another that it must not, inside a function."""
    package = tmp_path / "planted"
    for name in ("low", "high"):
        (package / name).mkdir(parents=True)
        (package / name / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "high" / "__init__.py").write_text("import planted.low\n")
    return tmp_path


CONTRACTS = """[importlinter]
root_packages =
    planted

[importlinter:contract:low]
name = low imports nothing
type = forbidden
source_modules =
    planted.low
forbidden_modules =
    planted.high
allow_indirect_imports = True

[importlinter:contract:acyclic]
name = no cycle
type = acyclic_siblings
ancestors =
    planted
depth = 0
"""


@pytest.mark.parametrize(
    "offence",
    [
        "",
        "import planted.high\n",
        "def late():\n    from planted import high\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import planted.high\n",
    ],
)
def test_a_planted_offence_is_found(planted: Path, offence: str) -> None:
    (planted / "planted" / "low" / "__init__.py").write_text(offence)
    configuration = planted / "contracts"
    configuration.write_text(CONTRACTS)
    status, text = lint(configuration, path=planted)
    assert (status != 0) == bool(offence), text
    if offence:
        assert "low imports nothing BROKEN" in text
        assert "no cycle BROKEN" in text


def test_a_row_names_packages_that_have_rows() -> None:
    page = f"{HEADING}\n|---|---|---|\n| `core` | | nothing |\n| `sim` | | `core`, `moon` |\n"
    with pytest.raises(ValueError, match="sim may import moon"):
        table(page)
