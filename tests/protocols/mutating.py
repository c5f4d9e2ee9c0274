"""Mutants: variants of a protocol with one rule taken out, and the table that says what catches each.

A :class:`Mutants` has the variants of one protocol (:mod:`plainchant.protocols.variants`), how one is tried, and the table beside
the module that defines it. A row of the table has the run that catches the mutant (``seed``: one of the sweep; ``scenario`` or
``course``: one made for the rule) and the property that does not hold there; or why the mutant ``survives``. After a change of
the protocol or the sweep, ``python -m`` that module looks for seeds that catch, and rewrites the table.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeAlias, TypeVar

from plainchant.core.model import PlainchantError
from plainchant.protocols.variants import AS_BUILT, Replacement, Variant

from .sweeping import processes

Row: TypeAlias = Mapping[str, Any]
Applied: TypeAlias = Callable[[], AbstractContextManager[Any]]
"""Within what it gives, the protocol is the mutant."""
_Function = TypeVar("_Function")


class Attempt(Protocol):
    """Makes the run that a row names, and runs it while the mutant is applied. Gives what it violates.

    The scenario is made before: as the protocol has it, for a mutant may calculate otherwise.
    """

    def __call__(self, row: Row, applied: Applied) -> list[str]: ...


def _anywhere(seed: int) -> bool:
    return True


@dataclasses.dataclass(frozen=True)
class Mutants:
    """The mutants of one protocol."""

    table: Path
    attempt: Attempt
    searched: int
    """A mutant has to be caught within so many seeds."""
    variants: dict[str, Variant] = dataclasses.field(default_factory=dict)
    likely: dict[str, Callable[[int], bool]] = dataclasses.field(default_factory=dict)
    """The seeds in which a mutant's rule matters."""

    # --- what there is ------------------------------------------------------------------------------------------------

    def add(self, name: str, *variants: Variant, likely: Callable[[int], bool] = _anywhere) -> None:
        """A mutant that is these variants at once."""
        assert name not in self.variants, f"there are two mutants {name!r}"
        replacements = sum(variants, AS_BUILT).replacements
        self.variants[name] = Variant(name, replacements)
        self.likely[name] = likely

    def replaces(
        self, name: str, owner: type | ModuleType, attribute: str, likely: Callable[[int], bool] = _anywhere
    ) -> Callable[[_Function], _Function]:
        """Decorator: the function replaces a rule in the mutant of this name. A mutant may replace several rules."""

        def enter(by: _Function) -> _Function:
            before = self.variants.get(name, Variant(name))
            self.variants[name] = Variant(name, (*before.replacements, Replacement(owner, attribute, by)))
            self.likely[name] = likely
            return by

        return enter

    @functools.cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The table. Empty before it is first made."""
        if not self.table.exists():
            return {}
        with self.table.open("rb") as file:
            return tomllib.load(file)

    @property
    def caught(self) -> dict[str, dict[str, Any]]:
        return {name: row for name, row in self.rows.items() if "survives" not in row}

    @property
    def survivors(self) -> dict[str, dict[str, Any]]:
        return {name: row for name, row in self.rows.items() if "survives" in row}

    def with_needed(self, seeds: Iterable[int]) -> list[int]:
        """These seeds, and those that mutants need."""
        return sorted({*seeds, *(row["seed"] for row in self.rows.values() if "seed" in row)})

    # --- what tests ask -----------------------------------------------------------------------------------------------

    def catch(self, name: str) -> list[str]:
        """What a mutant violates in the run that the table names. A mutant that cannot act there is an error."""
        return self.attempt(self.rows[name], functools.partial(self.variants[name].applied, must_act=True))

    def survive(self, row: Row) -> list[str]:
        """What the protocol itself violates in the run that a row names."""
        return self.attempt(row, AS_BUILT.applied)

    def check_table(self, *, also: Collection[int] = (), **made: Collection[Any]) -> None:
        """The table has every mutant and no other; what catches them exists (scenarios, courses) or is a seed that is searched
        (or one of ``also``); the others say why they survive."""
        assert sorted(self.rows) == sorted(self.variants)
        for name, row in self.caught.items():
            by = [kind for kind in made if kind in row]
            if by:
                assert all(row[kind] in made[kind] for kind in by), f"{name}: there is no {by[0]} {row[by[0]]}"
            else:
                seed = row["seed"]
                assert 0 <= seed < self.searched or seed in also, f"{name}: seed {seed} is not searched"
        assert all(len(row["survives"]) > 40 for row in self.survivors.values())

    # --- looking for seeds --------------------------------------------------------------------------------------------

    def search(self, name: str) -> tuple[int, list[str]] | None:
        """The first seed that catches a mutant and that the protocol itself comes through, and the properties. The one that
        caught it before comes first. An exception does not count."""
        known = self.rows.get(name, {})
        seeds = [*([known["seed"]] if "seed" in known else []), *filter(self.likely[name], range(self.searched))]
        for seed in seeds:
            try:
                violated = self.attempt({"seed": seed}, self.variants[name].applied)
            except PlainchantError:
                continue
            if violated and not self.survive({"seed": seed}):
                return seed, violated
        return None

    def write(self, rows: Mapping[str, Row]) -> None:
        lines = ["# mutant -> the seed of the sweep that catches it, and the property; made by mutants.py\n"]
        for name in self.variants:
            if name in rows:
                lines.append(f'["{name}"]')
                lines += [f"{key} = {json.dumps(value)}" for key, value in rows[name].items()]
                lines.append("")
        self.table.write_text("\n".join(lines))


def mutants_of(module: str) -> Mutants:
    """The mutants that a module defines: what travels to another process is its name."""
    found: Mutants = importlib.import_module(module).MUTANTS
    return found


def _search(module: str, name: str) -> tuple[int, list[str]] | None:
    return mutants_of(module).search(name)


def look_for_seeds(module: str, chosen: Sequence[str]) -> None:
    """Looks for a seed that catches each of the chosen mutants, and writes the table of a module anew.

    If none is chosen, all are but those that a run made for them catches.
    """
    mutants = mutants_of(module)
    rows = dict(mutants.rows)
    made = {name for name, row in rows.items() if "scenario" in row or "course" in row}
    wanted = [name for name in mutants.variants if name in chosen or (not chosen and name not in made)]
    with processes() as pool:
        for name, found in zip(wanted, pool.map(functools.partial(_search, module), wanted), strict=True):
            print(name, found or "SURVIVES", flush=True)
            why = rows.get(name, {}).get("survives", "unexplained")
            rows[name] = {"seed": found[0], "property": found[1][0]} if found is not None else {"survives": why}
    mutants.write(rows)
