"""The rules that make the protocols correct, one by one: tests, claims and the explorer take them away to show what breaks."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """What the protocols do; the defaults are what we run."""

    extra: str = "corrected"
    """How much longer the first protocol waits after a copy that it found dead: ``corrected`` (two steps), ``printed`` (the
    clocks' difference) or ``none``."""
    wait: str = "corrected"
    """How long the second protocol waits between seeing a message and voting on it: ``corrected`` or ``printed``."""
    expiry: str = "corrected"
    """The expiry time X of the second protocol: ``corrected`` or ``printed``."""
    atomic_votes: bool = True
    """The second protocol tests and changes LD and nrd in one step."""
    atomic_remove: bool = True
    """Who sets the last decision flag finds that out, and removes the message, in the same step."""
    decision_field: bool = True
    """The second protocol writes a decision that was made in an earlier copy into D."""
    look_again: bool = True
    """After waiting a receiver looks again, because an earlier message may have been inserted."""
    enter_after: bool = True
    """A receiver enters after everything that is there already, whatever its timestamp says."""
    listen: bool = True
    """A receiver without a decision flag reads what was sent after its entry (A.1.2)."""
    postpone: bool = True
    """With the second protocol a message is removed only when every receiver had time to read it (A.1.2)."""
    placeholders: bool = True
    """With the second protocol a message that is absent from a copy is decided on there all the same."""


RULES = Rules()
