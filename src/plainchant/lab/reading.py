"""Damage that shows only when the rows of a trace are read, as a sentence: what reads a trace piece by piece shares this."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from .errors import LabError


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Around everything that reads rows of a path."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        advice = "find the damaged file with `plainchant verify`, and make it again"
        raise LabError(f"cannot read {path}: {error}; {advice}") from error


def whole(table: pa.Table) -> pa.Table:
    """The same rows, if all their values are values of their types; pa.ArrowInvalid if not: strings that are no UTF-8, for one.

    >>> whole(pa.table({"name": ["p1"]})).num_rows
    1
    """
    table.validate(full=True)
    return table
