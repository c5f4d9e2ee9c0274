"""What a verifier returns, as far as ``sim.run`` shows it: the contract of the entry points ``plainchant.verifiers``.

The library does not import a verifier. The laboratory has one (``plainchant.lab.properties.verify``), declared as an entry
point; :func:`verifier` loads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..core.model import GroupId, ProcessId
from ..core.plugins import load

if TYPE_CHECKING:
    import pyarrow as pa


class Violation(Protocol):
    """One way in which a run breaks a property."""

    @property
    def run(self) -> str: ...
    @property
    def group(self) -> GroupId | None: ...
    @property
    def processes(self) -> tuple[ProcessId, ...]: ...
    @property
    def sentence(self) -> str: ...

    # Last, because within the class it hides the decorator.
    @property
    def property(self) -> str: ...

    def to_json(self) -> dict[str, Any]: ...


class Outcome(Protocol):
    """What was found about one property."""

    @property
    def cases(self) -> int: ...
    @property
    def violations(self) -> int: ...
    @property
    def verdict(self) -> Literal["holds", "violated", "unknown", "nothing to check"]: ...


class Verification(Protocol):
    """What was found about a trace: each property's outcome, and the violations with their witnesses."""

    @property
    def properties(self) -> Mapping[str, Outcome]: ...
    @property
    def violations(self) -> Sequence[Violation]: ...
    @property
    def verdict(self) -> Literal["holds", "violated", "unknown", "malformed"]: ...
    @property
    def ok(self) -> bool: ...
    @property
    def warnings(self) -> Sequence[str]: ...


class Verifier(Protocol):
    """Verifies every run of a trace for these properties, or for those that its ``start`` rows promise."""

    def __call__(self, table: pa.Table, properties: Sequence[str] | None = None, /) -> Verification: ...


def verifier(what: str) -> Verifier:
    """The installed reference verifier; ``what`` says which feature needs it, for the error ("result.verdict needs")."""
    loaded: Verifier = load("plainchant.verifiers", "reference", what, "cli")
    return loaded
