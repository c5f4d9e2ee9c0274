"""A replicated dictionary: every member has all of it, and reads it locally.

Keys are texts; values are what MessagePack can carry. Changes are commands: ``set``, ``delete``, several at once (``update``),
or only if a key has the expected value (``compare_and_set``). Each entry remembers its *stamp*: the place of the command that
wrote it, by a clock that is part of the state, and its writer.

**Merge policies** say what becomes of different entries of parts that went on alone:

- ``"last-writer"``: of each key the entry with the largest stamp, of equal ones that of the larger writer's name. The clock goes
  on from the largest of all parts, so later writes win over earlier ones. A deletion is a write, too: it is remembered for a
  while (``tombstones`` of them), or a part that has not seen it would bring the key back.
- ``"larger-part"``: the whole dictionary of the part with more members, of equal ones that of the first in the view.
- a function: it gets the parts' dictionaries, in the order of the view, and returns the one for all. It must depend on nothing
  else, and leave its arguments unchanged.

The digest of the state is a sum over its entries, so a change costs the same whatever the size of the dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from ..core.model import UsageError, View
from .block import Block, Command, CommandRefused, Part, decode, encode

Merge: TypeAlias = str | Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]]
LAST_WRITER: Final = "last-writer"
LARGER_PART: Final = "larger-part"
POLICIES: Final = (LAST_WRITER, LARGER_PART)
TOMBSTONES: Final = 10_000  # deletions that are remembered, unless told otherwise
MOST_TOLD: Final = 64  # rows about a merge tell the stamps of all entries of dictionaries up to this size
_MASK: Final = (1 << 64) - 1

Entry: TypeAlias = list[Any]  # value, stamp, writer


class Dictionary(Block, Mapping[str, Any]):
    """Read it like a dictionary; change it by ``await book.set(key, value)`` and the like. Reading gives what this member has
    applied so far; ``await book.read(key)`` what is there when it is called. Values are shared with the state: do not change them
    in place."""

    kind: ClassVar[str] = "dictionary"

    def __init__(self, *, merge: Merge = LAST_WRITER, tombstones: int = TOMBSTONES) -> None:
        super().__init__()
        if not callable(merge) and merge not in POLICIES:
            raise UsageError(f"there is no merge policy {merge!r}; give a function, or one of {', '.join(POLICIES)}")
        if tombstones < 0:
            raise UsageError(f"{tombstones} deletions cannot be remembered; give 0 or more")
        self._policy = merge
        self._most_tombstones = tombstones
        self._entries: dict[str, Entry] = {}
        self._deleted: dict[str, Entry] = {}  # stamps of deletions, the oldest first; their values are nothing
        self._clock = self._sum = 0

    def __getitem__(self, key: str) -> Any:
        return self._entries[key][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def copy(self) -> dict[str, Any]:
        """A snapshot: all keys and values as they are at one place of the order, which is this member's."""
        return dict(decode(encode({key: entry[0] for key, entry in self._entries.items()})))

    async def read(self, key: str, default: Any = None) -> Any:
        """The value with all changes that were made before this call."""
        await self.replica.catch_up()
        return self.get(key, default)

    async def set(self, key: str, value: Any) -> None:
        """Gives a key a value."""
        await self.update({key: value})

    async def delete(self, key: str) -> bool:
        """Removes a key; whether it was there."""
        return bool(await self._change(["delete", _checked(key)]))

    async def update(self, changes: Mapping[str, Any], deleted: Iterable[str] = ()) -> None:
        """Makes several changes at one place of the order: nobody ever sees some of them without the others."""
        wanted = {_checked(key): value for key, value in changes.items()}
        await self._change(["update", wanted, [_checked(key) for key in deleted]])

    async def compare_and_set(self, key: str, expected: Any, value: Any) -> None:
        """Gives a key a value if it has the expected one (None: if it is not there, or is None). Raises :class:`CommandRefused`
        if it has not, with nothing changed."""
        await self._change(["compare", _checked(key), expected, value])

    async def _change(self, body: list[Any]) -> Any:
        try:
            encode(body)
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            raise UsageError(f"a value cannot be sent: {error}; give texts, numbers, bytes, lists and mappings") from error
        return await self.execute(body)

    def apply(self, command: Command) -> Any:
        what, *rest = command.body
        if what == "compare":
            key, expected, value = rest
            there = self.get(key)
            if there != expected:
                raise CommandRefused(f"{key!r} is {there!r} and not {expected!r}; look again, and compare with that")
            what, rest = "update", [{key: value}, []]
        self._clock += 1
        if what == "delete":
            return self._remove(rest[0], command.sender)
        changes, deleted = rest
        for key in deleted:
            self._remove(key, command.sender)
        for key, value in changes.items():
            self._deleted.pop(key, None)
            self._put(key, [value, self._clock, command.sender])
        return None

    def _put(self, key: str, entry: Entry) -> None:
        if key in self._entries:
            self._sum -= _weight(key, self._entries[key])
        self._entries[key] = entry
        self._sum = self._sum + _weight(key, entry) & _MASK

    def _remove(self, key: str, writer: str) -> bool:
        before = self._entries.pop(key, None)
        if before is not None:
            self._sum = self._sum - _weight(key, before) & _MASK
        self._deleted.pop(key, None)
        self._deleted[key] = [None, self._clock, writer]
        self._forget()
        return before is not None

    def _forget(self) -> None:
        while len(self._deleted) > self._most_tombstones:
            del self._deleted[next(iter(self._deleted))]

    def snapshot(self) -> list[Any]:
        return [self._clock, _listed(self._entries), _listed(self._deleted)]

    def restore(self, snapshot: list[Any]) -> None:
        self._clock, entries, deleted = snapshot
        self._become(_tabled(entries), _tabled(deleted))

    def _become(self, entries: Mapping[str, Entry], deleted: Mapping[str, Entry]) -> None:
        self._entries, self._sum = {}, 0
        for key, entry in entries.items():
            self._put(key, entry)
        self._deleted = dict(deleted)
        self._forget()

    def merge(self, parts: Sequence[Part], view: View) -> None:
        self._clock = max(part.state[0] for part in parts)
        if self._policy == LAST_WRITER:
            entries, deleted = last_written(parts)
        elif self._policy == LARGER_PART:
            _, listed, gone = parts[larger(parts)].state
            entries, deleted = _tabled(listed), _tabled(gone)
        else:
            entries, deleted = self._as_told(parts), {}
        self._become(entries, deleted)

    def _as_told(self, parts: Sequence[Part]) -> dict[str, Entry]:
        """What the program's function makes of the parts' dictionaries. The merge is the writer of it all."""
        assert callable(self._policy)
        told = self._policy([{key: entry[0] for key, entry in _tabled(part.state[1]).items()} for part in parts])
        self._clock += 1
        return {_checked(key): [value, self._clock, ""] for key, value in sorted(told.items())}

    def digest(self) -> str:
        return f"{self._sum:016x}"

    def merged_detail(self, parts: Sequence[Part]) -> dict[str, Any]:
        """What the policy chose from, for ``dictionary-merge``."""
        detail: dict[str, Any] = {
            "policy": self._policy if isinstance(self._policy, str) else "function",
            "digests": [_digest(_tabled(part.state[1])) for part in parts],
        }
        if self._policy == LAST_WRITER and sum(len(part.state[1]) + len(part.state[2]) for part in parts) <= MOST_TOLD:
            detail["written"] = [_stamps(_tabled(part.state[1]), _tabled(part.state[2])) for part in parts]
            detail["kept"] = _stamps(self._entries, self._deleted)
        return detail


def last_written(parts: Sequence[Part]) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """Of each key what was written last, in any part: entries, and deletions in the order of their stamps."""
    newest: dict[str, tuple[bool, Entry]] = {}
    for part in parts:
        for is_there, table in ((True, part.state[1]), (False, part.state[2])):
            for key, entry in _tabled(table).items():
                if key not in newest or entry[1:] > newest[key][1][1:]:
                    newest[key] = is_there, entry
    entries = {key: entry for key, (is_there, entry) in sorted(newest.items()) if is_there}
    deleted = {key: entry for key, (is_there, entry) in newest.items() if not is_there}
    return entries, dict(sorted(deleted.items(), key=lambda pair: (pair[1][1], pair[0])))


def larger(parts: Sequence[Part]) -> int:
    """The place of the part with the most members, the first of those."""
    return max(range(len(parts)), key=lambda place: (len(parts[place].members), -place))


def _listed(table: Mapping[str, Entry]) -> list[Any]:
    """As a list, because the order of a table of MessagePack is not the order in which it was made."""
    return [[key, *entry] for key, entry in table.items()]


def _tabled(listed: Iterable[Sequence[Any]]) -> dict[str, Entry]:
    return {key: list(entry) for key, *entry in listed}


def _stamps(entries: Mapping[str, Entry], deleted: Mapping[str, Entry]) -> dict[str, list[Any]]:
    """Stamp and writer of each key, and whether it is there."""
    tables = ((True, entries), (False, deleted))
    return {key: [*entry[1:], is_there] for is_there, table in tables for key, entry in table.items()}


def _weight(key: str, entry: Entry) -> int:
    return int.from_bytes(blake2b(encode([key, *entry]), digest_size=8).digest())


def _digest(entries: Mapping[str, Entry]) -> str:
    return f"{sum(_weight(key, entry) for key, entry in entries.items()) & _MASK:016x}"


def _checked(key: Any) -> str:
    if not isinstance(key, str):
        raise UsageError(f"the key {key!r} is no text; keys of a replicated dictionary are")
    return key
