"""What the ring tells admission control, and asks of it.

The ring knows P, and who wants to join; admission control knows what has been promised. Without admission control (parameter
``admission``) the ring talks to an :class:`Advisor` as it is here: nothing is promised, so everything can be carried.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.model import ProcessId


class Advisor:
    """Whoever has promised deadlines. This one has promised none."""

    def rotation(self, period: int, ring: Sequence[ProcessId] = (), hold: int = 0) -> None:
        """P (ns) from now on, on this ring, where our T is ``hold`` (0: as parameters say). A vote about P is over."""

    def carries(self, period: int, ring: Sequence[ProcessId] = ()) -> bool | None:
        """Whether all promises can be kept with this larger P, on this larger ring. None: messages planned with the present P are
        under way, so ask again next turn. Until ``rotation`` or ``decided`` nothing is promised that cannot be kept with both."""
        return True

    def decided(self) -> None:
        """A vote is over, and P stays as it is."""

    def has_messages(self) -> bool:
        """Whether messages that were promised have not all gone out: who leaves waits for them."""
        return False

    def partial(self) -> bytes:
        """What has come of incomplete messages, the same at all members at one place of the order; a joiner there gets it."""
        return b""

    def adopt(self, data: bytes) -> None:
        """Takes over what the others have heard (``partial``), at the place of the order at which this process joins."""

    def spare(self) -> int | None:
        """How much of a turn is not promised (ns); None: all of it."""
        return None
