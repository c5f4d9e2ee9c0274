"""The explorer: every run of a small case of a protocol on shared memory that the bounds allow.

``protocols.exploration`` says what is explored; ``world`` runs the protocol's own engines once, in integer time, and asks at
every point where something could go one way or another; ``search`` answers in every way there is, and ``state`` tells it where it
has been already; ``checks`` says what a run must keep; ``story`` shows a run that does not. ``memory`` and ``host`` are what the
engines see.

May import ``core`` and ``protocols``. Start with ``world``, then ``search``.
"""

from ...protocols.exploration import Case
from .checks import Violation
from .search import Result, explore, replay

__all__ = ["Case", "Result", "Violation", "explore", "replay"]
