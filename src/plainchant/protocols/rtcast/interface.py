"""The virtual network interface (section 1): how long things take, and nothing of what the network is.

It knows the bandwidth and the largest delay between any two processes, and from these everything that the other layers
need: how long a packet takes to be sent, when a silence is too long, how long the token takes around the ring. All times are
whole nanoseconds, rounded up where a bound depends on it.

The token's way round
---------------------
Equations 4.1 and 4.2 count n - 1 hops. From one of my turns to the next the token makes n: :meth:`Interface.printed` is what
the paper says, :meth:`Interface.rotation` what holds. A member that dies costs more than its turn: its successor waits until it
is sure (:meth:`Interface.patience`). P makes room for as many of these timeouts as ``crashes`` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...core.model import SECOND, GroupId, ProcessId
from ...core.names import place_of
from .parameters import PATH, Parameters
from .sizes import JOINERS, SILENT, Sizes, envelope_of, largest

REQUEST: Final = 96  # Bytes reserved for a request to join, at least
KNOCK: Final = 96  # Bytes of a knock of a joiner, or of an answer about the time, at most, with a group's name of up to 40 bytes
STRAYS: Final = 2
"""Packets outside turns that each hop has time for: knocks, whose senders cannot know the turn, and answers about the time."""
CROWD: Final = 40  # Processes that may ask to join at one instant without delaying the token
ENVELOPE: Final = 64  # Bytes that a packet with messages has besides them, where names are short
SMALL: Final = 64  # Bytes of a message that every turn has time for
LARGEST: Final = 1500  # Bytes of a packet, for what depends on one packet only


class Interface:
    """The times of a network, as ``parameters`` state them."""

    def __init__(self, parameters: Parameters, group: GroupId = "") -> None:
        self._parameters = parameters
        self._group = group
        self._paths = {tuple(path.split(PATH, 1)): int(delay) for path, delay in parameters.paths.items()}
        self.delay_max = max((int(parameters.delay_max), *self._paths.values()))  # The largest delay of all paths
        self.slack = int(parameters.slack)
        self.silent = max(SILENT, parameters.crashes + 1)  # Most members in a question: the dead, and the last one heard
        self.stray = STRAYS * self.cost(KNOCK)  # How long a packet may wait for the medium because of packets that are in no turn

    def slot(self, ring: Sequence[ProcessId]) -> int:
        """T_v: joiners hear the token, and their requests are heard, one after the other where they share a medium."""
        request = self.cost(max(REQUEST, self.sizes(ring).request))
        return int(self._parameters.join_slot) or 2 * self.delay_max + JOINERS * request + self.slack

    @property
    def crowd(self) -> int:
        """Time over which a joiner spreads its knocks. It does not know the turn, nor who else knocks. While a turn of T and its
        hop pass, :data:`CROWD` joiners together take no more of a shared medium than P has for strangers, and half of
        ``slack``."""
        parameters = self._parameters
        hop = max(int(parameters.hold), *map(int, parameters.holds.values()), 0) + self.delay_max
        return CROWD * self.cost(KNOCK) * hop // (self.stray + self.slack // 2)

    def delay(self, source: ProcessId, target: ProcessId) -> int:
        """The largest delay from one process to another; incarnations of a process have the same."""
        if not self._paths:
            return int(self._parameters.delay_max)
        key = (place_of(source), place_of(target))
        return self._paths.get(key, int(self._parameters.delay_max))

    def cost(self, size: int) -> int:
        """How long it takes to send one packet with so many bytes in it (C)."""
        return -(-(size + self._parameters.header) * 8 * SECOND // self._parameters.bandwidth)

    def room(self, time: int) -> int:
        """How many bytes a packet may hold that is to be sent within this time; less than 1: none."""
        return time * self._parameters.bandwidth // (8 * SECOND) - self._parameters.header

    def hold(self, process: ProcessId) -> int:
        """T of a process."""
        return self._parameters.hold_of(process)

    def least_hold(self, ring: Sequence[ProcessId]) -> int:
        """The shortest T that suffices on this ring: for a change, an acknowledgement, heartbeats and a small message."""
        sizes = self.sizes(ring)
        beats = self._parameters.heartbeats * self.cost(sizes.beat)
        return self.cost(sizes.change) + self.cost(sizes.acknowledgement) + beats + 2 * self.cost(SMALL)

    def hops(self, ring: Sequence[ProcessId]) -> int:
        """The largest delays of the token's n hops, all together."""
        return sum(self.delay(ring[index - 1], ring[index]) for index in range(len(ring)))

    def printed(self, ring: Sequence[ProcessId], holds: Sequence[int]) -> int:
        """Equation 4.2, as printed: n - 1 hops."""
        return sum(holds) + (len(ring) - 1) * self.delay_max + self.slot(ring)

    @property
    def hold_back(self) -> int:
        """How long a packet that is early waits for those before it."""
        return self.delay_max + self.slack + self.stray

    def sizes(self, ring: Sequence[ProcessId]) -> Sizes:
        """The largest packets of a ring of these members."""
        return largest(self._group, ring, self.silent)

    def envelope(self, ring: Sequence[ProcessId]) -> int:
        """Bytes that a packet with messages has beyond ``header``, where names are long: ``header`` is for short ones."""
        return max(0, envelope_of(self._group, ring) - ENVELOPE)

    def probe(self, ring: Sequence[ProcessId]) -> int:
        """How long to wait for answers to ``Where``: all answer, one after the other on a shared medium, each as often as a
        heartbeat is sent."""
        return self._answered_within(ring, (len(ring) - 1) * self.cost(self.sizes(ring).here))

    def tale(self, ring: Sequence[ProcessId]) -> int:
        """How long to wait for one whole answer, of a member that knows more than we do."""
        return self._answered_within(ring, self.cost(self.sizes(ring).tale))

    def _answered_within(self, ring: Sequence[ProcessId], answers: int) -> int:
        packets = self._parameters.heartbeats * (self.cost(self.sizes(ring).where) + answers)
        return self.delay_max + self.hold_back + packets

    def timeout(self, ring: Sequence[ProcessId]) -> int:
        """What a dead member takes at most besides its turn and its hop, until its successor goes on without it: the successor
        heard the turn before as late as can be, was patient, and had to ask around. Others had heard the beginning of a turn that
        it had not, so it asked again; or they had heard its end, and one of them told it the rest."""
        asking = self.probe(ring) + max(self.probe(ring), self.tale(ring))
        return self.cost(LARGEST) + self.delay_max + 2 * self.slack + asking

    def safe(self, ring: Sequence[ProcessId], holds: Sequence[int]) -> int:
        """The longest time between two turns of a member, with as many failures in it as P makes room for."""
        reaction = len(ring) * (self.slack + self.stray)
        failures = min(self._parameters.crashes, len(ring) - 1) * self.timeout(ring)
        return sum(holds) + self.hops(ring) + self.slot(ring) + reaction + failures

    def rotation(self, ring: Sequence[ProcessId], holds: Sequence[int]) -> int:
        """P_token of a ring: by the formula that was chosen."""
        return self.safe(ring, holds) if self._parameters.rotation == "safe" else self.printed(ring, holds)

    def patience(self, holds: Sequence[int]) -> int:
        """How long to wait for the token after something was heard: ``holds`` are the T of those who have their turn before us,
        from the one that was heard to our predecessor. The token takes no longer, so nobody asks around while all is well; and of
        those who wait for the turn of a dead member the nearest is the first to do so."""
        return sum(holds) + len(holds) * (self.delay_max + self.slack + self.stray)
