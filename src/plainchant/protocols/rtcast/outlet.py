"""Between the order and the application: what is in order is delivered at once, but for two things that wait.

**A view waits until everybody in it has spoken in it.** The paper delivers a change like a message, at once. But then a member
that dies in the middle of announcing a change leaves one survivor with a view that the others never install, though that survivor
stops as soon as it hears theirs. So a view, and what comes after it in the order, waits until every member of the ring has been
heard to know of the change, which takes one rotation at the most: within the bound of every message's delivery, and only when
views change.

**Safe delivery** (as Totem does it, to compare with): a message waits until every member's heartbeat has said that it has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from .packets import Change, Data


class Outlet:
    """A queue in the order of the ring; ``flush`` lets out what may go."""

    def __init__(
        self,
        confirmed: Callable[[Change], bool],
        reached: Callable[[Change], None],
        out: Callable[[int, Data], None],
        got: Callable[[], int] | None = None,
    ) -> None:
        self._confirmed, self._reached, self._out = confirmed, reached, out
        self._got = got  # Safe delivery: up to which rank every member has everything
        self._queue: deque[tuple[int, Data]] = deque()  # Packets and their ranks
        self._told = False

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, rank: int, data: Data) -> None:
        self._queue.append((rank, data))

    def flush(self, *, everything: bool = False) -> None:
        """Lets out, in order, whatever need not wait; ``everything``: we leave, and shall not hear what it waits for."""
        queue = self._queue
        while queue:
            rank, data = queue[0]
            if self._got is not None and rank > self._got() and not everything:
                return
            if isinstance(data.word, Change):
                if not self._told:
                    self._told = True
                    self._reached(data.word)
                if not self._confirmed(data.word) and not everything:
                    return
                self._told = False
            queue.popleft()
            self._out(rank, data)
