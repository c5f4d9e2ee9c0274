"""Which trouble each protocol gets, and which rounds there are.

Theory of operation
-------------------
Each protocol has a :class:`Diet`: a scenario with rates of random faults, and what is left out, with the reason. A protocol gets
what its own fault assumptions (``Description.faults``) let it survive, since a promise that was never made cannot be broken; what
lies outside, or is allowed to stop everybody, is left out and said to be. Kinds that every protocol must survive are in all
diets: crashes, pauses, processors that are shared, applications that do not read, disks that are full.

A :class:`Round` is a diet with a seed. The seed decides the schedule of faults, as it does in every scenario, and, here, the
state of the network (loss, duplicates, overtaking, damage, delay, sometimes a narrow line) and who is *steady*: never killed or
cut off in this round, so that there is somebody whose files and memory can be watched for all of it. In another round it is
somebody else.

Two faults are in every round besides those that are drawn from rates: a *long stop*, longer than every time-out of the protocol
where the round is long enough, and a *reader that stops*: the application of a member takes no messages for as long. They happen
one after the other, to members that are not steady, and the round goes on after them. The others have to go on meanwhile
(``progress``).

How long rounds are follows from the time that was asked for, and from nothing else: the same options are the same rounds. What a
round takes besides its traffic (starting, getting quiet, verifying) is reckoned with :data:`BESIDE`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Final

from plainchant.core.model import SECOND, Duration, UsageError
from plainchant.protocols.registry import protocols
from plainchant.scenario import Scenario, parse
from plainchant.scenario.model import Fault

LONGEST: Final = 120.0
"""Seconds of traffic of a round. Its trace is verified as a whole, so it must not be too large."""
SHORTEST: Final = 4.0
BESIDE: Final = 20.0
"""Seconds that a round takes besides its traffic, on a machine with two cores."""

LONG: Final = 12.0
"""Seconds of a long stop, and of a reader that stops, in rounds that are long enough; else a fifth of the round."""
UNREAD: Final = 100
"""Messages of a group that wait at a reader that stops, when its protocol is told."""

_COMMON: Final = """
[random]
restart = 1.0
restart_after = "1200ms"
restart_halted = 1.0
crash = 0.35
pause = 0.4
busy = 0.3
busy_length = "1500ms"
disk = 0.2
sluggish = 0.25
sluggish_length = "400ms"
"""
_OF_THE_NETWORK: Final = """
pause_length = "400ms"
leave = 0.15
step = 0.4
step_most = "5s"
clog = 0.3
cut = 0.3
partition = 0.3
network_length = "700ms"
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Diet:
    """The trouble that a protocol gets."""

    protocol: str
    text: str
    """The scenario; it ends with its section ``[random]``."""
    left_out: Mapping[str, str]
    """Kinds of fault that it does not get, and why."""
    packets: bool = True
    """Whether there is a network that can be spoiled."""
    losses: Sequence[float] = (0.0, 0.01, 0.03)
    most_delay_ms: int = 4


DIETS: Final[Mapping[str, Diet]] = MappingProxyType(
    {
        diet.protocol: diet
        for diet in (
            Diet(
                "sequencer",
                """
protocol = "sequencer"
members = 5
drain = "60s"
[parameters]
resilience = 2                    # with the sequencer a majority of five, so that what one delivered survives partitions too
suspect_after = "2s"              # who waits for a processor is not to be taken for dead: that would be one loss more
patience = "8s"
[[workload]]
rate = 60
size = 64
[[workload]]
rate = 2
size = 5000                       # more than a packet
"""
                + _COMMON
                + _OF_THE_NETWORK
                + """
most_lost = 1
""",
                {
                    "more than one loss at a time": "who is lost is missed for a second, and by then another one may be; were a "
                    "third of five lost, there would be no majority, and all would halt, as they must",
                },
            ),
            Diet(
                "newtop",
                """
protocol = "newtop"
members = 5
drain = "60s"
[groups]
red = ["p1", "p2", "p3", "p4", "p5"]
blue = ["p3", "p4", "p5"]
[parameters]
signatures = true
[[workload]]
rate = 40
size = 64
[[workload]]
rate = 1
size = 5000
"""
                + _COMMON
                + _OF_THE_NETWORK,
                {},
            ),
            Diet(
                "rtcast",
                """
protocol = "rtcast"
members = 5
drain = "60s"
[parameters]
retransmissions = 3
crashes = 2
delay_max = "250ms"               # a process that has a tenth of a processor is late, and is not to be taken for dead
[[workload]]
rate = 30
size = 64
"""
                + _COMMON
                + """
pause_length = "150ms"
leave = 0.15
step = 0.4
step_most = "5s"
omit = 0.3
omit_most = 2
omit_packet = "Data"
most_lost = 1
""",
                {
                    "partition": "to each part the others are dead, and nothing is promised of what both deliver",
                    "cut": "half a link is a partition too",
                    "clog": "a packet that takes longer than d_max is thrown away and counts as lost; delays stay below",
                },
                losses=(0.0, 0.001, 0.002),
            ),
            Diet(
                "mailbox",
                """
protocol = "mailbox"
members = 5
drain = "60s"
[parameters]
tolerate = "timing"               # processes that share processors are late now and then
copies = 4
write = "500us"
flag = "500us"
decide = "500us"
read = "500us"
finish = "500us"
skew = "1us"                      # one machine, one clock
poll = "1ms"
notice = "50ms"
places = 16
[[workload]]
rate = 40
size = 200
"""
                + _COMMON
                + """
leave = 0.15
module = 0.05
slow = 0.3
slow_length = "20ms"
step = 0.02
step_most = "2s"
pause_length = "100ms"
""",
                {
                    "partition, cut, clog, loss": "members exchange nothing over a network",
                    "more than a few clock steps": "clocks are compared: nothing is promised to one that was set, ever again, so "
                    "it counts as lost",
                    "the last copy": "all but one memory module may crash, not all",
                },
                packets=False,
            ),
            Diet(
                "dedos",
                """
protocol = "dedos"
members = ["n1.a", "n1.b", "n2.a", "n2.b", "n2.c", "n3.a", "n3.b"]
drain = "60s"
[groups]
g = ["n1.a", "n1.b", "n2.a", "n2.b", "n2.c", "n3.a", "n3.b"]
h = ["n1.b", "n2.a", "n2.b", "n3.b"]
[parameters]
boxes = 3
lans = 2
[[workload]]
rate = 20
size = 64
"""
                + _COMMON
                + """
pause_length = "250ms"
leave = 0.15
module = 0.05
node = 0.05
keep_nodes = 2
processor = 0.05
lan = 0.2
clog = 0.3
network_length = "700ms"
most_lost = 3
""",
                {
                    "partition, cut": "a node that is not heard for two seconds is taken for crashed and its members halt; with "
                    "both networks cut that is all that can happen",
                    "step": "rounds are held at clock times, and clocks may differ by `delta` only",
                },
            ),
        )
    }
)
assert DIETS.keys() == protocols().keys()


@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    """One round."""

    protocol: str
    number: int
    """Counted from 1, protocol by protocol."""
    seed: int
    seconds: float
    """Of traffic."""

    @property
    def name(self) -> str:
        return f"{self.protocol}-{self.number}"

    @property
    def command(self) -> str:
        """What runs it again."""
        return f"plainchant chaos --protocol {self.protocol} --round-seed {self.seed} --seconds {self.seconds:g}"

    def scenario(self) -> Scenario:
        """What happens in it."""
        diet = DIETS[self.protocol]
        drawn = Random(f"{self.seed}/chaos")
        overrides = [f"seed={self.seed}", f'duration="{round(self.seconds * 1000)}ms"', f'name="chaos {self.name}"']
        plain = parse(diet.text, f"chaos of {self.protocol}", overrides)
        steady = sorted(drawn.sample(plain.members, 2))
        overrides.append(f"random.steady={list(steady)}")
        if diet.packets:
            overrides += _network(diet, drawn)
        scenario = parse(diet.text, f"chaos of {self.protocol}", overrides)
        others = [member for member in plain.members if member not in steady]
        return dataclasses.replace(scenario, fault=(*scenario.fault, *_long_faults(others, self.seconds, drawn)))


def _long_faults(members: Sequence[str], seconds: float, drawn: Random) -> tuple[Fault, Fault]:
    """A long stop and a reader that stops, in either order, each in its own half of the round."""
    length = Duration(round(min(LONG, seconds / 5) * SECOND))
    first, second = drawn.sample(members, 2)
    stop = Fault(kind="pause", process=first, length=length)
    unread = Fault(kind="sluggish", process=second, length=length, count=UNREAD)
    early, late = drawn.sample([stop, unread], 2)
    begins = [Duration(round(share * seconds * SECOND)) for share in (0.1, 0.5)]
    return dataclasses.replace(early, at=begins[0]), dataclasses.replace(late, at=begins[1])


def _network(diet: Diet, drawn: Random) -> list[str]:
    loss = drawn.choice(diet.losses)
    delay = drawn.randint(0, diet.most_delay_ms)
    spoiled = [f"network.loss={loss}", f'network.delay={{uniform = ["0ms", "{delay}ms"]}}']
    for kind, rates in (("duplicate", (0.0, 0.02)), ("reorder", (0.0, 0.02)), ("corrupt", (0.0, 0.002))):
        spoiled.append(f"network.{kind}={drawn.choice(rates)}")
    if drawn.random() < 0.25:
        spoiled.append("network.bandwidth=20000000")
    return spoiled


def rounds(minutes: float, names: Sequence[str] = (), seed: int = 0) -> list[Round]:
    """The rounds that fill so many minutes, protocol by protocol in turn.

    >>> [(each.name, each.seconds) for each in rounds(2, ["newtop", "mailbox"])]
    [('newtop-1', 40.0), ('mailbox-1', 40.0)]
    >>> [(each.name, each.seconds) for each in rounds(6, ["newtop"])]
    [('newtop-1', 100.0), ('newtop-2', 100.0), ('newtop-3', 100.0)]
    """
    if not minutes > 0:
        raise UsageError(f"chaos cannot last {minutes:g} minutes; give a number above 0")
    chosen = list(dict.fromkeys(names)) or list(DIETS)
    for name in chosen:
        if name not in DIETS:
            raise UsageError(f"there is no live protocol {name!r}; there are: {', '.join(DIETS)}")
    share = minutes * 60 / len(chosen)
    number = max(1, -int(-share // (LONGEST + BESIDE)))
    seconds = max(SHORTEST, round(share / number - BESIDE, 1))
    return [
        Round(name, index + 1, seed * 1_000_000 + index * 100 + list(DIETS).index(name), seconds)
        for index in range(number)
        for name in chosen
    ]
