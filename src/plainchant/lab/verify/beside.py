"""What may be computed beside verification, of the rows that it has decoded: one pass over a large trace serves both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..properties.certificates.columns import Rows

__all__ = ["Beside", "Rows"]


class Beside(Protocol):
    """Something computed of every run, by pieces. It travels to tasks, so it can be pickled."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a trace that it reads."""

    def partials(self, rows: Rows) -> Iterable[tuple[str, bytes]]:
        """What a unit of rows says of each run in it."""

    def settled(self, run: str, partials: list[bytes]) -> bytes | None:
        """What all partials of a run come to; None if they are not those of whole histories."""
