"""The scenarios that come with plainchant, by name: the files of ``scenarios/`` in a checkout, or of the installed package."""

from __future__ import annotations

from pathlib import Path

from ..core.model import ScenarioError
from ..core.shipped import shipped_folder
from .read import nearest


def shipped() -> dict[str, Path]:
    """Every shipped scenario: name to file, in the order of their names."""
    return {file.stem: file for file in sorted(shipped_folder("scenarios").glob("*.toml"), key=lambda file: file.stem)}


def find(name: str) -> Path:
    """The file that a person means: a path, or the name of a shipped scenario."""
    path = Path(name)
    known = shipped()
    if path.exists() and not (path.is_dir() and name in known):  # results are often named after their scenario
        return path
    if path.name in known and path.name == name:
        return known[name]
    if path.parent.name == "scenarios" and path.stem in known and path.suffix == ".toml":
        return known[path.stem]
    raise ScenarioError(f"there is no scenario file {name}, and no shipped scenario of that name; {nearest(path.stem, known)}")
