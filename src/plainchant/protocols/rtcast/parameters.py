"""RTCast's parameters, declared once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from ...core.model import MS, SECOND, US, Duration, ProcessId, UsageError, duration, format_duration, parameter
from ...core.names import place_of

PATH: Final = ">"  # Between the two processes of a path's name


@dataclasses.dataclass(frozen=True, slots=True)
class Parameters:
    """What can be set. The defaults suit a local network of 10 Mbit/s with delays of up to two milliseconds."""

    # the virtual network interface (section 1)
    delay_max: Duration = duration(2 * MS, "d_max: a packet arrives within this time or not at all; what is older is thrown away")
    paths: Mapping[str, Duration] = parameter(
        factory=dict,
        about="the largest delay between two processes, where it is another one",
        example='{ "p1>p2" = "5ms", "p2>p1" = "4ms" }',
        keys="path",
    )
    bandwidth: int = parameter(
        10_000_000, "bits per second that a sender puts on the network; messages take their time by it", unit="bit/s", minimum=1
    )
    header: int = parameter(64, "bytes that a packet takes besides its messages, for this reckoning", unit="bytes", minimum=0)

    # the ring (4.1, 4.2)
    hold: Duration = duration(4 * MS, "T: the longest time that a member keeps the token")
    holds: Mapping[str, Duration] = parameter(
        factory=dict, about="members whose T is another one", example='{ p1 = "8ms", p2 = "2ms" }', keys="process"
    )
    least_hold: Duration = duration(
        0,
        "a joiner that cannot have its T takes less if it is offered at least this; 0: as much as the ring's own packets and a "
        "small message need",
        minimum=0,
    )
    idle_hold: Duration = duration(
        200 * US,
        "a member without messages keeps the token so long before it passes it on, at the most T: something may come",
        minimum=0,
    )
    heartbeats: int = parameter(
        2,
        "how often a heartbeat is sent: it is the token, nobody asks for it, and one that is lost costs a member",
        minimum=1,
        maximum=8,
    )
    numbers: int = parameter(65_536, "sequence numbers run from 0 to this and begin again", minimum=64)
    slack: Duration = duration(500 * US, "what timeouts add for the time that processes take to react")
    overtaking: bool = parameter(
        True,
        "whether a packet may overtake that of another sender: then one that comes too early waits d_max for those before it; a "
        "broadcast medium can do without",
    )
    delivery: str = parameter(
        "immediate",
        "immediate (when a message comes in its order) or safe (when every member is known to have it: two rotations, as Totem)",
        choices=("immediate", "safe"),
    )

    # membership (4.3 to 4.5)
    rotation: str = parameter(
        "safe",
        "how P is reckoned: safe (n hops, and the timeouts of `crashes` members) or printed (n - 1 hops: equation 4.2)",
        choices=("safe", "printed"),
    )
    crashes: int = parameter(
        1, "members that may fail within one rotation without anybody's deadline being missed (part of P)", minimum=0
    )
    join_slot: Duration = duration(0, "T_v: time in a rotation for others to ask to join; 0: as long as that takes", minimum=0)
    collisions: bool = parameter(False, "two requests to join in one slot destroy each other, as on an Ethernet")
    backoff: int = parameter(4, "who was not let in waits up to so many rotations before it asks again", minimum=1, maximum=1000)
    reclaim_after: Duration = duration(
        2 * SECOND,
        "P is kept so long after members have gone, for them to come back; then the member of the smallest id gives it back",
    )
    gather: Duration = duration(
        500 * MS, "how long those who form a group look for each other before they go on without the others"
    )
    partitions: str = parameter(
        "any",
        "who goes on when the network falls apart: any (each part, as in the paper) or majority (the part with most members of "
        "the last view; the others halt)",
        choices=("any", "majority"),
    )

    patience: Duration = duration(
        1 * SECOND, "how long a member's application may leave what it is given unread before the member halts"
    )

    # retransmission (4.6)
    retransmissions: int = parameter(
        1, "r: how often a lost packet may be sent again; 0 leaves the layer out", minimum=0, maximum=16
    )
    resends: int = parameter(
        1, "packets that a member may have to send again in one turn: time is kept for so many", minimum=0, maximum=1000
    )

    # admission control (section 5)
    admission: bool = parameter(True, "whether deadlines can be guaranteed; false leaves the layer out")
    timing: str = parameter(
        "hard",
        "hard (guaranteed deadlines are promised) or soft (they are aimed at, and misses are counted: real time on a shared "
        "processor)",
        choices=("hard", "soft"),
    )

    # clocks (P4)
    clocks: str = parameter(
        "assumed",
        "whose clocks tell how old a packet is: assumed (those of the hosts, off by at most `clock_error`), synchronised (the "
        "clock layer), none (nobody asks)",
        choices=("assumed", "synchronised", "none"),
    )
    clock_error: Duration = duration(100 * US, "assumed: how far two clocks are apart at the most", minimum=0)
    clock_drift: float = parameter(0.0001, "synchronised: how much faster or slower a clock may run", minimum=0, maximum=0.1)
    clock_precision: Duration = duration(2 * MS, "synchronised: a reading whose error may be larger is tried again")
    clock_tries: int = parameter(
        8, "synchronised: readings that may fail, one after the other, before the clock counts as lost", minimum=1, maximum=1000
    )
    clock_every: Duration = duration(500 * MS, "synchronised: how often a clock is set")

    def __post_init__(self) -> None:
        for name, hold in self.holds.items():
            if hold < 1:
                raise UsageError(f"the token hold time of {name!r} is {format_duration(hold)}; give it a positive one")
        for path, delay in self.paths.items():
            source, separator, target = path.partition(PATH)
            if not separator or not source or not target:
                raise UsageError(f'paths has {path!r}; write "from{PATH}to", such as "p1{PATH}p2"')
            if delay < 1:
                raise UsageError(f"the largest delay of path {path!r} is {format_duration(delay)}; give it a positive one")
        if self.delivery == "safe" and self.admission:
            raise UsageError(
                'delivery is "safe", which takes two rotations and more: deadlines cannot be guaranteed; set admission to false'
            )
        if self.idle_hold > min(self.hold, *self.holds.values(), self.hold):
            raise UsageError(
                f"idle_hold is {format_duration(self.idle_hold)}, longer than a token hold time; make it shorter than every T"
            )

    def hold_of(self, process: ProcessId) -> int:
        """A process's T; that of ``p3`` is also that of its later incarnations ``p3#1``, ``p3#2``."""
        return int(self.holds.get(process, self.holds.get(place_of(process), self.hold)))
