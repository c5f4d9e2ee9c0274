"""What a sweep is: a scenario, seeds, a grid of settings; and how its runs are numbered, named and cut into units.

Every (grid point, seed) is one run, numbered by point and then by seed. A *unit* is a number of consecutive runs: what is worked
on, written and committed in one piece. All of that follows from the definition alone, never from the machine or the number of
tasks, so that a sweep gives the same files wherever it runs and however often it was interrupted. The size of a unit comes from
the rows of the first run of the first and of the last grid point: enough of them that a unit is worth its files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from ... import __version__
from ...core.model import UsageError
from ...scenario import Scenario, find, parse
from ...scenario.load import load
from ...sim import Simulation
from ...trace import TraceBuffer
from ...trace.schema import SCHEMA
from ..errors import LabError
from ..session import code_digest
from ..verify.check import check

Keep: TypeAlias = Literal["all", "violations", "none"]
RUNS_MAX: Final = 10_000_000
POINTS_MAX: Final = 10_000
UNIT_ROWS: Final = 100_000
"""Rows of trace in a unit, about: a few seconds of work."""
UNIT_RUNS_MAX: Final = 256
UNITS_WANTED: Final = 64
"""A sweep of few runs is cut finer than that, so that there is something to share among tasks."""
_VERIFIED_UNASKED: Final = 200_000
"""Longer runs are verified by ``plainchant run`` only when it is told to."""
_PIECE: Final = re.compile(r"(\d+)(?::(\d+)(?::(\d+))?)?")


@dataclasses.dataclass(frozen=True)
class Definition:
    """Everything that decides a sweep's results. Made by :func:`define`, which checks it; it travels to the tasks."""

    scenario: str
    """As the user named it: what replay commands name again."""
    filename: str
    text: str
    seeds: str
    grid: tuple[tuple[str, tuple[str, ...]], ...]
    """Key and values, in the order in which they were given."""
    keep: Keep
    properties: tuple[str, ...]
    """Asked for by name; empty: what the scenario verifies, or what each run promises."""
    unit_runs: int
    """Runs in a unit."""
    code: str
    """A digest of the code: results of two versions are never in one directory."""

    @functools.cached_property
    def seed_list(self) -> Sequence[int]:
        return parse_seeds(self.seeds)

    @functools.cached_property
    def points(self) -> list[tuple[str, ...]]:
        """The grid points, each as its overrides; without a grid there is one, without any."""
        return points_of(self.grid)

    @property
    def runs(self) -> int:
        return len(self.points) * len(self.seed_list)

    @property
    def units(self) -> int:
        return -(-self.runs // self.unit_runs)

    def unit(self, number: int) -> range:
        """The runs of a unit."""
        return range(number * self.unit_runs, min((number + 1) * self.unit_runs, self.runs))

    def point_and_seed(self, number: int) -> tuple[tuple[str, ...], int]:
        point, place = divmod(number, len(self.seed_list))
        return self.points[point], self.seed_list[place]

    def name(self, number: int) -> str:
        """A run's name: ``network.loss=0.3,seed=17``."""
        point, seed = self.point_and_seed(number)
        return ",".join([*point, f"seed={seed}"])

    def scenario_of(self, number: int) -> Scenario:
        """The scenario of a run. Points are parsed once: reading a file takes a tenth of the time of a small run."""
        point, seed = self.point_and_seed(number)
        return dataclasses.replace(self._scenario_at(point), seed=seed)

    @functools.cached_property
    def _scenario_at(self) -> Callable[[tuple[str, ...]], Scenario]:
        return functools.cache(lambda point: parse(self.text, self.filename, point))

    def replay(self, number: int, *, events: int = 0) -> str:
        """The one command that runs it again, alone, and keeps its trace."""
        point, seed = self.point_and_seed(number)
        overrides = [*point, *([f"verify={json.dumps(list(self.properties))}"] if self.properties else [])]
        words = ["plainchant", "run", self.scenario, *(word for override in overrides for word in ("--set", override))]
        words += ["--verify"] if events > _VERIFIED_UNASKED else []
        return shlex.join([*words, "--seed", str(seed), "--out", re.sub(r"[^\w.-]+", "-", self.name(number)).strip("-")])

    def to_json(self) -> dict[str, Any]:
        """What ``sweep.json`` says; the scenario's text stands beside it."""
        return {
            "plainchant": __version__,
            "code": self.code,
            "scenario": self.scenario,
            "filename": self.filename,
            "seeds": self.seeds,
            "grid": [[key, list(values)] for key, values in self.grid],
            "keep": self.keep,
            "properties": list(self.properties),
            "runs": self.runs,
            "unit_runs": self.unit_runs,
            "units": self.units,
            "id": self.id,
        }

    @functools.cached_property
    def id(self) -> str:
        """The same for the same sweep and for no other, whatever its scenario file is called today."""
        what = [__version__, self.code, self.text, list(self.seed_list), self.grid, self.keep, self.properties]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]

    def __getstate__(self) -> dict[str, Any]:
        """Without what is computed: it is not to travel to every task."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def define(
    scenario: str, seeds: str, *, grid: Sequence[str] = (), keep: str = "violations", properties: Sequence[str] = ()
) -> Definition:
    """A sweep that can be run: every grid point is a scenario, every property exists.

    >>> define("first-steps", "0:10", grid=["network.loss=0,0.1"]).runs
    20
    """
    if keep not in get_args(Keep):
        raise UsageError(f"--keep {keep}: keep the traces of which runs? Say all, violations or none")
    check(SCHEMA.empty_table(), list(properties))  # names the nearest one if there is no such property
    file = find(scenario)
    load(file)  # a file that cannot be read, or is wrong as it stands
    text = Path(file).read_text(encoding="utf-8")
    definition = Definition(
        scenario=scenario,
        filename=Path(file).name,
        text=text,
        seeds=seeds,
        grid=tuple(parse_grid(one) for one in grid),
        keep=keep,  # type: ignore[arg-type]  # one of them, as was just checked
        properties=tuple(dict.fromkeys(properties)),
        unit_runs=1,
        code=code_digest(),
    )
    _check_size(definition)
    for point in definition.points:
        parse(text, str(file), point)
    return dataclasses.replace(definition, unit_runs=_unit_runs(definition))


def _check_size(definition: Definition) -> None:
    keys = [key for key, _ in definition.grid]
    for key in (key for key in keys if keys.count(key) > 1):
        raise UsageError(f"--grid {key} is given twice; write all its values in one: --grid {key}=1,2,3")
    points = math.prod(len(values) for _, values in definition.grid)
    if points > POINTS_MAX:
        raise UsageError(f"the grid has {points:,} points, more than {POINTS_MAX:,}; make it coarser or sweep it in parts")
    runs = points * len(definition.seed_list)
    if runs > RUNS_MAX:
        raise UsageError(f"this would be {runs:,} runs, more than {RUNS_MAX:,}; sweep them in parts, each with its own --out")


# --- seeds and grids --------------------------------------------------------------------------------------------------


def parse_seeds(text: str) -> Sequence[int]:
    """Seeds as people write them: ``0:1000`` (1000 not included), ``0:1000:10``, ``3,5,8``, or several with commas.

    >>> list(parse_seeds("3,10:16:2"))
    [3, 10, 12, 14]
    """
    pieces: list[Sequence[int]] = []
    for piece in text.split(","):
        found = _PIECE.fullmatch(piece.strip())
        if found is None:
            raise UsageError(f"--seeds {text}: write a range as 0:1000 or 0:1000:10, or single seeds as 3,5,8")
        first, end, step = (int(number) if number is not None else None for number in found.groups())
        assert first is not None
        if step == 0:
            raise UsageError(f"--seeds {text}: a step of 0 never gets anywhere; write 1 or more")
        pieces.append((first,) if end is None else range(first, end, step or 1))
    if sum(len(piece) for piece in pieces) > RUNS_MAX:
        raise UsageError(f"--seeds {text} are more than {RUNS_MAX:,}; sweep them in parts, each with its own --out")
    seeds = pieces[0] if len(pieces) == 1 else tuple(itertools.chain.from_iterable(pieces))
    if not seeds:
        raise UsageError(f"--seeds {text} is no seed at all; the end of a range is not included: 0:1 is seed 0")
    if len(set(seeds)) != len(seeds):
        raise UsageError(f"--seeds {text} names a seed twice; every run is made once")
    return seeds


def parse_grid(text: str) -> tuple[str, tuple[str, ...]]:
    """``key=a,b,c``; commas inside brackets, braces and quotes belong to a value.

    >>> parse_grid('network.delay="1ms",{uniform=["1ms","2ms"]}')
    ('network.delay', ('"1ms"', '{uniform=["1ms","2ms"]}'))
    """
    key, equals, rest = text.partition("=")
    key = key.strip()
    values = tuple(value.strip() for value in _split(rest))
    if not equals or not key or not all(values):
        raise UsageError(f"--grid {text}: write --grid key=a,b,c, for instance --grid network.loss=0,0.1,0.3")
    if key == "seed":
        raise UsageError("--grid seed: seeds are not part of the grid; name them with --seeds 0:1000 or --seeds 3,5,8")
    if len(set(values)) != len(values):
        raise UsageError(f"--grid {text} has a value twice; every run is made once")
    return key, values


def _split(text: str) -> list[str]:
    """At the commas that stand outside of everything."""
    pieces, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0 and not quote:
            pieces.append("")
        else:
            pieces[-1] += character
    return pieces


def points_of(grid: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, ...]]:
    """Every combination, the last key changing fastest."""
    choices = [[f"{key}={value}" for value in values] for key, values in grid]
    return [tuple(point) for point in itertools.product(*choices)]


# --- how much is a unit -----------------------------------------------------------------------------------------------


class _Enough(Exception):
    """The run that is tried is so long that it is a unit by itself."""


class _Counted(TraceBuffer):
    """A trace that ends the run when it is clear that nothing else fits into its unit."""

    def flush_if_full(self) -> None:
        if self.rows() > UNIT_ROWS:
            raise _Enough

    def rows(self) -> int:
        return sum(len(history.rows) for history in self._histories.values())


def _unit_runs(definition: Definition) -> int:
    rows = max(_rows(definition, number) for number in sorted({0, definition.runs - len(definition.seed_list)}))
    by_rows = UNIT_ROWS // max(rows, 1)
    return max(1, min(by_rows, -(-definition.runs // UNITS_WANTED), UNIT_RUNS_MAX))


def _rows(definition: Definition, number: int) -> int:
    """About how many rows a run has. One that raises counts as far as it came; that it does is for its task to report."""
    trace = _Counted()
    with contextlib.suppress(Exception):  # whatever a defective protocol raises
        Simulation(definition.scenario_of(number), trace=trace).run()
    return min(trace.rows(), UNIT_ROWS)


def read_definition(text: str, scenario_text: str, where: str) -> Definition:
    """The definition that ``sweep.json`` and ``scenario.toml`` hold."""
    try:
        said = json.loads(text)
        same = {name: said[name] for name in ("scenario", "filename", "seeds", "keep", "unit_runs")}
        same["code"] = said.get("code", "")  # sweeps of earlier versions do not say
        grid = tuple((key, tuple(values)) for key, values in said["grid"])
        return Definition(text=scenario_text, grid=grid, properties=tuple(said["properties"]), **same)
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(f"{where} is not a sweep's: {error!r}; name another directory with --out") from None
