"""A sweep's directory: what is in it, and how it is filled so that nothing is ever missing or there twice.
::

    DIR/sweep.json, scenario.toml     the definition; both are there, or the directory is not
    DIR/runs/unit-00012.parquet       and so in outcomes, violations, metrics, trace: the tables of unit 12
    DIR/units/unit-00012.json         the marker: unit 12 is committed; its files and their sizes, and its sums
    DIR/summary.json                  the verdict, when every unit is committed

A task writes the files of a unit under hidden names of its own, renames them, and renames the marker last. Names and contents
depend on the unit alone. Whatever is killed when, either the marker is there, and everything else is; or it is not, and the unit
is done again, which replaces what was already renamed. Two tasks that do the same unit replace each other's equal files: no lock
and no clean-up is needed. Readers keep to units that have markers. A marker whose files are not there as it says (removed, or
lost with a machine's power) does not count. A *claim* is a hint beside the marker that some task works on a unit, so that others
choose another one; nothing depends on it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ...trace.writer import write_table
from ..errors import LabError
from .plan import Definition, read_definition

TABLES: Final = ("runs", "outcomes", "violations", "metrics", "trace")


class Tally(msgspec.Struct, frozen=True):
    """A unit's marker: what it comes to."""

    files: dict[str, int]
    """Table to bytes."""
    verdicts: dict[str, int]
    unexpected: int
    """Runs that did not end as their scenario expects."""
    events: int
    properties: dict[str, tuple[int, int, int, int]]
    """Name to runs, events, cases and violations."""

    @property
    def runs(self) -> int:
        return sum(self.verdicts.values())


class Store:
    """The directory of one sweep, for tasks and driver alike."""

    def __init__(self, directory: str | Path) -> None:
        if "://" in str(directory):
            raise LabError(f"{directory} is an address; a sweep needs a directory that all machines share")
        self.directory = Path(os.path.abspath(directory))

    def enter(self, definition: Definition) -> Definition:
        """Makes the directory, or finds it made for the same sweep; then its definition counts, whose units are begun."""
        try:
            if not (self.directory / "sweep.json").is_file():
                self._make(definition)
            return self._agree(definition)
        except OSError as error:
            raise LabError(f"cannot write to {self.directory}: {error.strerror}; choose another directory with --out") from error

    def _make(self, definition: Definition) -> None:
        if self.directory.exists() and not (self.directory.is_dir() and not any(self.directory.iterdir())):
            raise LabError(f"{self.directory} exists and holds no sweep; name another directory with --out, or remove it first")
        hidden = self.directory.parent / f".{self.directory.name}.partial-{_me()}"
        try:
            hidden.mkdir(parents=True)
            (hidden / "units").mkdir()
            (hidden / "scenario.toml").write_text(definition.text, encoding="utf-8")
            (hidden / "sweep.json").write_text(_json(definition.to_json()), encoding="utf-8")
            hidden.rename(self.directory)  # on POSIX it replaces an empty directory, and nothing else
        except OSError as error:
            shutil.rmtree(hidden, ignore_errors=True)
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            # another process was faster; _agree checks whether it is the same sweep

    def _agree(self, definition: Definition) -> Definition:
        text = (self.directory / "sweep.json").read_text(encoding="utf-8")
        stored = read_definition(text, (self.directory / "scenario.toml").read_text(encoding="utf-8"), str(self.directory))
        said = json.loads(text)
        if said.get("id") != definition.id:
            other = f"holds another sweep ({_difference(said, stored, definition)})"
            raise LabError(f"{self.directory} {other}; name another directory with --out, or remove it first")
        return stored

    def is_here(self, definition: Definition) -> bool:
        """Whether this machine sees the sweep's directory, and not another of the same name."""
        with contextlib.suppress(OSError, ValueError):
            said = json.loads((self.directory / "sweep.json").read_text(encoding="utf-8"))
            return bool(said.get("id") == definition.id)
        return False

    def is_committed(self, unit: int) -> bool:
        return self._marker(unit).exists()

    def claim(self, unit: int) -> bool:
        """Whether no other task seems to be working on it."""
        try:
            self._claim(unit).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def commit(self, unit: int, tables: Mapping[str, pa.Table], tally: Callable[[dict[str, int]], Tally]) -> None:
        """Writes a unit's tables, then its marker, which ``tally`` makes from the sizes of the files."""
        with contextlib.ExitStack() as leftovers:
            hidden = {name: self._write(name, unit, table, leftovers) for name, table in tables.items()}
            marker = tally({name: path.stat().st_size for name, path in hidden.items()})
            for name, path in hidden.items():
                os.replace(path, self._file(name, unit))
            self._replace(self._marker(unit), msgspec.json.encode(marker))
        self._claim(unit).unlink(missing_ok=True)

    def _write(self, name: str, unit: int, table: pa.Table, leftovers: contextlib.ExitStack) -> Path:
        final = self._file(name, unit)
        final.parent.mkdir(exist_ok=True)
        hidden = final.with_name(f".{final.name}.{_me()}.partial")
        leftovers.callback(hidden.unlink, missing_ok=True)
        if name == "trace":
            write_table(table, hidden)
        else:
            pq.write_table(table, hidden, compression="zstd")
        return hidden

    def tallies(self, known: Mapping[int, Tally] | None = None) -> dict[int, Tally]:
        """The committed units, in their order; those already ``known`` are not read again."""
        found = dict(known or {})
        for path in (self.directory / "units").iterdir():
            if path.match("unit-*.json") and (unit := int(path.stem.removeprefix("unit-"))) not in found:
                found[unit] = msgspec.json.decode(path.read_bytes(), type=Tally)
        return dict(sorted(found.items()))

    def recover(self) -> dict[int, Tally]:
        """The committed units whose files are there; the markers of others go, and so do the claims of who worked here before."""
        whole = {}
        for unit, tally in self.tallies().items():
            files = [(self._file(name, unit), size) for name, size in tally.files.items()]
            if all(file.is_file() and file.stat().st_size == size for file, size in files):
                whole[unit] = tally
            else:
                self._marker(unit).unlink(missing_ok=True)
        self.forget_claims()
        return whole

    def forget_claims(self) -> None:
        for path in (self.directory / "units").glob(".unit-*.claim"):
            path.unlink(missing_ok=True)

    def tidy(self) -> None:
        """Removes what killed tasks left; only when every unit is committed, because until then a task may need it."""
        self.forget_claims()
        for name in (*TABLES, "units"):
            for path in (self.directory / name).glob(".*.partial"):
                path.unlink(missing_ok=True)

    def read(self, name: str, units: Iterator[int] | list[int]) -> Iterator[pa.Table]:
        """A table of these units, unit by unit; a unit without rows in it may have no file."""
        for unit in units:
            if (path := self._file(name, unit)).exists():
                yield pq.read_table(path, partitioning=None)

    def write_summary(self, summary: dict[str, Any]) -> None:
        self._replace(self.directory / "summary.json", _json(summary).encode())

    def _file(self, name: str, unit: int) -> Path:
        return self.directory / name / f"unit-{unit:05d}.parquet"

    def _marker(self, unit: int) -> Path:
        return self.directory / "units" / f"unit-{unit:05d}.json"

    def _claim(self, unit: int) -> Path:
        return self.directory / "units" / f".unit-{unit:05d}.claim"

    @staticmethod
    def _replace(path: Path, content: bytes) -> None:
        hidden = path.with_name(f".{path.name}.{_me()}.partial")
        hidden.write_bytes(content)
        os.replace(hidden, path)


def _difference(said: dict[str, Any], stored: Definition, wanted: Definition) -> str:
    """What is different, shortly."""
    now = wanted.to_json()
    if said.get("plainchant") != now["plainchant"]:
        return f"made by plainchant {said.get('plainchant')}, this is {now['plainchant']}"
    if said.get("code") != now["code"]:
        return "made by plainchant's code before it was changed"
    if stored.text != wanted.text:
        return "of another scenario, or of this one before it was changed"
    for key in ("seeds", "grid", "keep", "properties"):
        if said.get(key) != now[key]:
            return f"{key} {_said(said.get(key))} there, {_said(now[key])} here"
    return "its sweep.json was changed"


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _me() -> str:
    """Different for any two processes that may write into one directory at the same time."""
    return f"{socket.gethostname()}-{os.getpid()}"


def _json(what: dict[str, Any]) -> str:
    return json.dumps(what, indent=2, ensure_ascii=False) + "\n"
