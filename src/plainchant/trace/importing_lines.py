"""From the lines of logs to events, by a mapping: one regular expression after the other, streaming."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from .importing_mapping import MEANT, ImportProblem, Mapping

_SHOWN: Final = 5  # lines that match nothing and are shown; the others are counted

_PLAIN: Final = frozenset({"run", "time", "process", "kind", "group", "sender", "id", "view"})


@dataclasses.dataclass(slots=True)
class Said:
    """What one line says, in our terms but with the log's own names of messages and views."""

    file: str
    line: int
    run: str
    process: str
    kind: str
    time: int | None
    group: str | None
    sender: str | None
    id: str | None
    view: str | None
    members: tuple[str, ...] | None = None
    digest: int | None = None
    size: int | None = None
    rank: int | None = None
    deadline: int | None = None
    detail: dict[str, Any] | None = None

    @property
    def where(self) -> str:
        return f"{self.file}, line {self.line}"


@dataclasses.dataclass
class Tally:
    """What was made of the lines."""

    lines: int = 0
    ignored: int = 0
    unmatched: int = 0
    shown: list[str] = dataclasses.field(default_factory=list)

    def refuse(self) -> None:
        """Lines that nobody accounted for may be the ones that matter."""
        if self.unmatched:
            more = f" and {self.unmatched - len(self.shown):,} more" if self.unmatched > len(self.shown) else ""
            lines = f"{self.unmatched:,} of {self.lines:,} lines match no [[line]] and no ignore of the mapping"
            raise ImportProblem(f"{lines}: {'; '.join(self.shown)}{more}; add a pattern for them, or ignore them")


class Lines:
    """The events of some logs. May be gone through several times, always with the same result."""

    def __init__(self, logs: Sequence[Path], mapping: Mapping) -> None:
        self._logs = logs
        self._mapping = mapping
        self.tally = Tally()

    def __iter__(self) -> Iterator[Said]:
        self.tally = Tally()
        default = self._mapping.run or self._logs[0].stem
        for log in self._logs:
            known = {"run": default, **self._from_name(log)}
            yield from self._of_file(log, known)

    def _from_name(self, log: Path) -> dict[str, str]:
        pattern = self._mapping.file_name
        if pattern is None:
            return {}
        found = pattern.search(log.name)
        if found is None:
            raise ImportProblem(f"the name of {log} does not match files.name of the mapping; mend one of them")
        return {name: value for name, value in found.groupdict().items() if value is not None}

    def _of_file(self, log: Path, known: dict[str, str]) -> Iterator[Said]:
        try:
            with log.open(encoding="utf-8", errors="replace") as lines:
                for number, text in enumerate(lines, start=1):
                    self.tally.lines += 1
                    found = self._match(text.rstrip("\r\n"), known)
                    if found is not None:
                        yield self._said(str(log), number, found)
                    elif any(pattern.search(text) for pattern in self._mapping.ignore):
                        self.tally.ignored += 1
                    else:
                        self.tally.unmatched += 1
                        if len(self.tally.shown) < _SHOWN:
                            self.tally.shown.append(f"{log.name}:{number} {text.strip()[:100]!r}")
        except OSError as error:
            raise ImportProblem(f"cannot read {log}: {error.strerror}; check the path") from error

    def _match(self, text: str, known: dict[str, str]) -> dict[str, str] | None:
        for pattern in self._mapping.patterns:
            found = pattern.expression.search(text)
            if found is not None:
                given = found.groupdict()
                if None in given.values():
                    given = {name: value for name, value in given.items() if value is not None}
                return {**known, **pattern.constants, **given}
        return None

    def _said(self, file: str, number: int, given: dict[str, str]) -> Said:
        mapping = self._mapping
        where = f"{file}, line {number}"
        names, get = mapping.names, given.get
        process, sender, kind = given["process"], get("sender"), given["kind"]
        if names:
            process, sender = names.get(process, process), None if sender is None else names.get(sender, sender)
        time = self._time(given, "time", where) if "time" in given else None
        kind = mapping.kinds.get(kind, kind)
        said = Said(file, number, given["run"], process, kind, time, get("group"), sender, get("id"), get("view"))
        # Most lines say no more than this, and there may be millions of them.
        if not given.keys() <= _PLAIN:
            self._add(said, given, where)
        return said

    def _add(self, said: Said, given: dict[str, str], where: str) -> None:
        """What only some lines say."""
        payload = given.get("payload")
        # Equal for equal payloads: of the payload itself, or of the hash that the log gives.
        text = payload if payload is not None else given.get("digest")
        said.digest = None if text is None else crc32(text.encode())
        said.size = _integer(given, "size", where)
        if said.size is None and payload is not None:
            said.size = len(payload.encode())
        said.rank = _integer(given, "rank", where)
        if "members" in given:
            names = self._mapping.names
            said.members = tuple(names.get(one, one) for one in self._mapping.split.split(given["members"].strip()) if one)
        if "deadline" in given:
            said.deadline = self._time(given, "deadline", where)
        detail = {name: value for name, value in given.items() if name not in MEANT and name != "run"}
        said.detail = detail or None

    def _time(self, given: dict[str, str], name: str, where: str) -> int:
        try:
            return self._mapping.nanoseconds(given[name])
        except ValueError as error:
            raise ImportProblem(f"{where}: {given[name]!r} is no {name}: {error}; mend [time] of the mapping") from error


def _integer(given: dict[str, str], name: str, where: str) -> int | None:
    try:
        return int(given[name]) if name in given else None
    except ValueError as error:
        raise ImportProblem(f"{where}: the {name} {given[name]!r} is no whole number; mend the pattern") from error
