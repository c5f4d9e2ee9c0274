"""What is computed beside verification, of the rows that it has read: one pass over a trace serves both.

Each unit of rows gives *partials*, one a run; those of a run are *settled* into a result once all of them are together.
Verification carries both through its own tasks and its own shuffle. It also decides what is malformed, so that a result is
only of use if nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from ..properties.certificates.columns import Rows

__all__ = ["AGAIN", "APART", "Beside", "Rows"]

AGAIN: Final = b"again"  # a result that needs partials with everything in them, which the first ones may leave out
APART: Final = b"apart"  # the partials are not of pieces of histories: rows stand in another order, or are missing


class Beside(Protocol):
    """Something computed of each run. It is pickled for tasks."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns of a trace that it reads."""

    def partials(self, rows: Rows, *, everything: bool = False) -> Iterable[tuple[str, Any]]:
        """What a unit of rows says of each run in it."""

    def shipped(self, partial: Any) -> bytes:
        """A partial as bytes."""

    def settled(self, run: str, partials: Sequence[Any]) -> bytes:
        """What all partials of a run come to, some of which may be bytes; or ``AGAIN``, or ``APART``."""
