"""The layering of the packages: the table in docs/architecture.md, as contracts of import-linter.

The table says for each package what it may import. ``.importlinter`` at the top of the repository is made from it
(``python -m tests.layering``), so that ``lint-imports`` works from a shell, and tests/test_layers.py checks that the two agree
and that every contract is kept. Imports inside functions and under ``TYPE_CHECKING`` count like any other.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "architecture.md"
CONFIGURATION: Final = ROOT / ".importlinter"
HEADING: Final = "| package | what it is | may import |"
BESIDE: Final = {"papers": "plainchant_papers", "workbench": "plainchant_workbench"}
"""Packages beside the library, by the folder that they are in."""
PROTOCOLS: Final = "protocols"
CYCLIC: Final = (
    "blocks",
    "lab/explore",
    "live",
    "protocols/newtop",
    "protocols/rtcast",
    "sim",
)
"""Packages whose own modules still import each other in a cycle, mostly for types alone. The list only gets shorter."""
_NAMES: Final = re.compile(r"`([a-z_/]+)`")


def table(page: str) -> dict[str, frozenset[str]]:
    """What each package may import, by the names that the page uses for packages."""
    lines = page[page.index(HEADING) :].splitlines()[2:]
    found: dict[str, frozenset[str]] = {}
    for line in lines:
        if not line.startswith("|"):
            break
        package, _, imports = (cell.strip() for cell in line.strip("|").split("|"))
        (name,) = _NAMES.findall(package)
        found[name] = frozenset(_NAMES.findall(imports))
    for name, allowed in found.items():
        unknown = sorted(allowed - found.keys())
        if unknown:
            raise ValueError(f"{name} may import {', '.join(unknown)}, which have no row of their own")
    return found


def module(name: str) -> str:
    """The module that the table means: ``lab/report`` is ``plainchant.lab.report``."""
    return BESIDE.get(name) or f"plainchant.{name.replace('/', '.')}"


ROOTS: Final = "[importlinter]\nroot_packages =\n"


def contracts(rows: dict[str, frozenset[str]]) -> str:
    """The configuration of import-linter for these rows."""
    sections = [
        "# Made from the table in docs/architecture.md by `python -m tests.layering`: edit the table, not this file.",
        ROOTS + _listed(["plainchant", *BESIDE.values()]),
        "[importlinter:contract:packages]\nname = no cycle between packages\ntype = acyclic_siblings\n"
        "ancestors =\n    plainchant\ndepth = 0",
        "[importlinter:contract:modules]\nname = no cycle within packages but those listed\ntype = acyclic_siblings\n"
        "ancestors =\n    plainchant\nskip_descendants =\n" + _listed([module(name) for name in CYCLIC]),
    ]
    for name, allowed in rows.items():
        forbidden = [module(other) for other in rows if not _allowed(other, allowed) and not _overlap(name, other)]
        if forbidden:
            sections.append(
                f"[importlinter:contract:{name.replace('/', '-')}]\n"
                f"name = {name} imports {', '.join(sorted(allowed)) or 'nothing'}\n"
                f"type = forbidden\nsource_modules =\n    {module(name)}\nforbidden_modules =\n{_listed(forbidden)}\n"
                f"allow_indirect_imports = True"
            )
    return "\n\n".join(sections) + "\n"


def acyclic(names: tuple[str, ...]) -> str:
    """A configuration that allows none of these packages a cycle: a contract for each."""
    sections = [
        f"[importlinter:contract:{name.replace('/', '-')}]\nname = {name} has no cycle\ntype = acyclic_siblings\n"
        f"ancestors =\n    {module(name)}\ndepth = 0"
        for name in names
    ]
    return "\n\n".join([ROOTS + _listed(["plainchant"]), *sections]) + "\n"


def _allowed(other: str, allowed: frozenset[str]) -> bool:
    """Whether a package is among those allowed, or inside one of them, or around one. A protocol is allowed only by its own
    name."""
    return (
        other in allowed
        or any(other.startswith(f"{each}/") for each in allowed if each != PROTOCOLS)
        or any(each.startswith(f"{other}/") for each in allowed)
    )


def _overlap(name: str, other: str) -> bool:
    """Whether one of two packages contains the other, or they are the same."""
    return f"{name}/".startswith(f"{other}/") or f"{other}/".startswith(f"{name}/")


def _listed(modules: list[str]) -> str:
    return "\n".join(f"    {each}" for each in modules)


if __name__ == "__main__":
    CONFIGURATION.write_text(contracts(table(PAGE.read_text())))
    print(f"{CONFIGURATION.name} is made")
