"""The parameters of ``mailbox``: which protocol, how many copies, and how long operations take at the most."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ...core.memory import MOST_PLACES
from ...core.model import MS, SECOND, US, Duration, UsageError, duration, format_duration, parameter


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """Bounds are those of one operation on one copy, waiting for the memory included."""

    tolerate: str = parameter(
        "timing",
        "failures of processes that are tolerated: crash (the first protocol), or timing failures as well (the second)",
        choices=("crash", "timing"),
    )
    copies: int = parameter(
        2, "copies of a mailbox, each in a memory module of its own; all but one may fail", minimum=1, maximum=9
    )
    write: Duration = duration(100 * US, "to write a message (ds)")
    flag: Duration = duration(50 * US, "to set an availability flag (df), or to change the list of receivers")
    decide: Duration = duration(50 * US, "to look at the queue, or for one step of a decision (dd)")
    read: Duration = duration(100 * US, "to read a message (dr)")
    finish: Duration = duration(50 * US, "to set a decision flag and to remove the message if it was the last (dfd)")
    skew: Duration = duration(50 * US, "largest difference between two clocks (e)", minimum=0)
    poll: Duration = duration(500 * US, "receivers look for messages once in this time (p)")
    schedule: Duration = duration(
        0,
        "off-line schedule: sends begin at multiples of this, and receivers know when to look; 0: they look every `poll`",
        minimum=0,
    )
    expiry: Duration = duration(
        0,
        "a message that most receivers have not seen so long after its timestamp is rejected (X); 0: as short as is safe",
        minimum=0,
    )
    rejected: str = parameter(
        "again",
        "what a process does whose own message was rejected because it was late: send it again, or halt",
        choices=("again", "halt"),
    )
    attempts: int = parameter(
        1000, "how often a message is sent, if it is rejected again and again, before its process halts", minimum=1
    )
    notice: Duration = duration(
        0,
        "how much further ahead a process enters or leaves than listing it takes; who is too slow even so has to begin again",
        minimum=0,
    )
    patience: Duration = duration(
        1 * SECOND,
        "how long a receiver may leave a decision flag unset, because it is stopped, slow or does not read, before the others "
        "exclude it; 0: only processes that crash are excluded",
        minimum=0,
    )
    senders: tuple[str, ...] = parameter((), "processes that only send", example='["p3"]')
    remote: Mapping[str, str] = parameter(
        factory=dict,
        about="processes that are not where the memory is, each with the one there that acts for it",
        keys="process",
        example='{ p4 = "p1" }',
    )
    datagram: Duration = duration(
        5 * MS,
        "longest time until a packet between a remote process and who acts for it is acknowledged, sending it again included",
    )
    places: int = parameter(16, "processes that can be connected to a mailbox at once", minimum=1, maximum=MOST_PLACES)
    slots: int = parameter(8, "messages of one sender that a mailbox holds; with more it waits", minimum=1, maximum=1024)
    room: int = parameter(65536, "bytes that a message in the mailbox may have", unit="bytes", minimum=64, maximum=1 << 26)

    def __post_init__(self) -> None:
        period = self.schedule or self.poll
        if period < 2 * self.decide:
            name = "schedule" if self.schedule else "poll"
            looks = f"a look may take {format_duration(self.decide)}"
            raise UsageError(f"receivers look every {format_duration(period)}, but {looks}; let {name} be twice that at least")
        for process, acting in self.remote.items():
            if acting in self.remote:
                raise UsageError(f"{acting} acts for {process}, but is remote itself; name a process where the memory is")
