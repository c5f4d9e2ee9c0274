"""A record of a history while it grows: one row of a trace, or a range of rows about consecutive messages.

Whoever reads a trace that is not finished (``following`` tails spools, ``facts_of`` takes a table apart) hands out facts; the
checkers of ``growing``, the page of ``plainchant watch`` and the stream on Spark take them. A fact has its place in its
history, so that facts may come late, twice or in another order than they happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa


class Fact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Rows ``index`` to ``index + count - 1`` of a history; about messages ``seq`` to ``seq + count - 1`` if about any."""

    run: str
    process: str
    index: int
    kind: str
    time: int  # by the process's own clock, ns
    group: str | None = None
    view: int | None = None
    sender: str | None = None
    seq: int | None = None
    count: int = 1
    members: tuple[str, ...] | None = None
    detail: str | None = None
    deadline: int | None = None
    true_time: int | None = None
    sent: int | None = None
    digests: tuple[int, ...] | None = None  # one for each message; None where there are none
    size: int | None = None  # bytes of the (largest) message

    def starting_at(self, index: int) -> Fact:
        """The same rows without those before ``index``.

        >>> rest = Fact("r", "p", 4, "deliver", 0, seq=10, count=3).starting_at(6)
        >>> rest.index, rest.seq, rest.count
        (6, 12, 1)
        """
        skipped = index - self.index
        seq = None if self.seq is None else self.seq + skipped
        digests = None if self.digests is None else self.digests[skipped:]
        return msgspec.structs.replace(self, index=index, count=self.count - skipped, seq=seq, digests=digests)


_COLUMNS: Final = (
    *("run", "process", "index", "kind", "time", "group", "view", "sender", "seq"),
    *("members", "detail", "deadline", "true_time", "sent", "digest", "size"),
)


def facts_of(table: pa.Table) -> Iterator[Fact]:
    """The rows of a trace as facts, in the order of the table."""
    columns: Sequence[list[Any]] = [table.column(name).to_pylist() for name in _COLUMNS]
    for *first, members, detail, deadline, true_time, sent, digest, size in zip(*columns, strict=True):
        names, digests = None if members is None else tuple(members), None if digest is None else (digest,)
        values: tuple[Any, ...] = (*first, 1, names, detail, deadline, true_time, sent, digests, size)
        yield Fact(*values)
