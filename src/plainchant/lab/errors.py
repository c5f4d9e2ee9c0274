"""What can go wrong in the laboratory, as errors that say what to do."""

from __future__ import annotations

from ..core.model import PlainchantError


class LabError(PlainchantError):
    """The laboratory cannot do what was asked: no Java, no cluster, no memory, nothing to read."""
