"""The scenarios that come with plainchant, by name.

In a checkout they are the files in ``scenarios/`` at the top; in an installed wheel the same files lie in the package,
as ``plainchant/scenarios/``. Both places are looked up, so that ``plainchant run first-steps`` works either way.
"""

from __future__ import annotations

from pathlib import Path

from ..core.model import ScenarioError
from .read import nearest


def shipped() -> dict[str, Path]:
    """Every shipped scenario: name to file, in the order of their names."""
    package = Path(__file__).resolve().parent.parent
    places = [package / "scenarios"]
    if package.parent.name == "src":
        places.append(package.parent.parent / "scenarios")
    found = {file.stem: file for place in places for file in place.glob("*.toml")}
    return dict(sorted(found.items()))


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
