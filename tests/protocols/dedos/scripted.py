"""Scenarios made for one rule each, which need a course of events that no seed is likely to find.

Between nodes times are in ms and relays are processes of their own (``n1.r``, and ``n1.t`` after it); within a node times are in
µs, and an operation takes 10, or as many times that as its script says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from plainchant.core.model import MS, SECOND, US, Duration
from plainchant.protocols.dedos.engine import Dedos
from plainchant.protocols.dedos.presence import Presence
from plainchant.protocols.variants import AS_BUILT, Replacement, Variant
from plainchant.scenario.model import Fault, Memory, Network, Scenario, Workload
from plainchant.sim.scripted import Script
from tests.protocols.dedos.runs import ONE_EACH, crash, fault, messages, modules, slow

from . import sweep, within

_LATE = within.us(5_000)
"""How seldom who waits for news looks even so."""


@dataclasses.dataclass(frozen=True)
class Scripted:
    """A scenario, and how long its operations take or what crashes after them."""

    scenario: Scenario
    script: Script | None
    excludes: bool = True
    """Whether nodes exclude processes that hang. Where a process is to be late for longer, they do not."""

    def run(self) -> sweep.Outcome:
        with (AS_BUILT if self.excludes else UNNOTICED).applied():
            return sweep.run(0, None, self.scenario, self.script)


UNNOTICED = Variant(
    "no node notices that a process hangs, and the process does not notice it itself",
    (Replacement(Presence, "_is_silent", lambda self, length: False), Replacement(Dedos, "_is_stale", False)),
)


def _between(
    members: str,
    *workload: Workload,
    faults: Sequence[Fault],
    relays: str = "n1.r n1.t n2.r n2.t",
    later: str = "",
    until: float = 500,
    network: Mapping[str, Any] | None = None,
    script: Script | None = None,
    excludes: bool = False,
    **parameters: Any,
) -> Scripted:
    idle, names = tuple(relays.split()), tuple(members.split())
    return Scripted(
        Scenario(
            protocol="dedos", members=(*idle, *names), later=tuple(later.split()), groups={"g": names}, workload=workload,
            fault=tuple(faults), duration=Duration(round(until * MS)), drain=Duration(4 * SECOND),
            network=Network(**(network or {})), memory=Memory(duration="max"),
            parameters={"networked": idle, "senders": (), **parameters},
        ),
        script,
        excludes,
    )  # fmt: skip


def _within(
    members: str, *workload: Workload, faults: Sequence[Fault], script: Script, later: str = "", **parameters: Any
) -> Scripted:
    names = tuple(members.split())
    return Scripted(
        Scenario(
            protocol="dedos", members=names, groups={"g": names}, later=tuple(later.split()), workload=workload,
            fault=tuple(faults), duration=within.us(6_000), drain=Duration(3 * SECOND), memory=Memory(detection=within.us(100)),
            parameters={
                "reach": "node", "senders": (), "reserve": 0, "elements": 8, "places": 8, "room": 256,
                "operation": within.us(within.OPERATION), "poll": within.us(within.POLL), "present_every": Duration(10 * MS),
                "delta": Duration(1 * MS), "retry": Duration(1 * MS), **parameters,
            },
        ),
        script,
    )  # fmt: skip


def _course_of(seed: int) -> Scripted:
    """The course of a seed, on nodes that do not notice that processes hang."""
    scenario, script = sweep.course_of(seed)
    return Scripted(scenario, script, excludes=False)


def _unheard_until(end: float) -> Scripted:
    """n1.a, alone on n1, stops. n1.c joins there, and relays from 1411 on, when n2 has given n1 up. It knows n2 by name only, and
    n2 does not hear it before ``end``."""
    return _between(
        "n1.a n2.a", messages("n2.a", 300, 60, rate=20), relays="", later="n1.c", until=3000, excludes=True,
        faults=[
            fault("pause", 800, process="n1.a", length=4000), fault("join", 1150, process="n1.c", group="g"),
            fault("cut", 1150, source="n1.c", target="n2.a", length=end - 1150),
        ],
    )  # fmt: skip


SCENARIOS: dict[str, Scripted] = {
    # n1.a has read 20 messages that n2 has not got, as many as the box has elements. The box and the distributor crash, and n1.a
    # sends while it restores.
    "a full Hbuffer": _between(
        "n1.a n2.a n2.s", messages("n2.s", 250, 20), messages("n1.a", 300.1, 30), senders=("n2.s",), relays="n1.r n1.t n2.r",
        elements=20, reserve=0, window=64, places=3, network=ONE_EACH, script=Script({"n1.a restore": 8}, {}, None),
        faults=[fault("cut", 249, source="n1.r", target="n2.r", length=80), *modules(300, "n1/1"), *crash(300, "n1.r")],
    ),
    # n2.s sends; the multicast reaches n1 only; n1.a has read it, n1.b has not, when boxes, distributor and sender crash.
    "one of four has read it": _between(
        "n1.a n1.b n2.a n2.b n2.s", messages("n2.s", 300), senders=("n2.s",),
        faults=[
            fault("omit", 299, process="n2.r", packet="Multicast"), slow("n1.b", 299), *modules(306, "n1/1", "n2/1"),
            *crash(306, "n1.r", "n2.s"),
        ],
    ),
    # What n1 says takes a second longer for a while, n1.a's messages among it: n2 and n3 take n1 for crashed, and go on.
    "late multicasts": _between(
        "n1.a n2.a n3.a", messages("n1.a", 310, 4), messages("n2.a", 1350), relays="n1.r n1.t n2.r n3.r", until=1500,
        network=ONE_EACH, faults=[fault("clog", 300, source="n1.r", delay=1000, length=900)],
    ),
    # n2 does not hear n1, takes it for crashed, and begins an epoch. n3, which hears both, promises it, and its relay dies before
    # it begins there. The relay after it hears n1 first, which still distributes and sends.
    "a promise of a relay that dies": _between(
        "n1.a n2.a n3.a", messages("n1.a", 840), messages("n1.a", 860), messages("n2.a", 1000), messages("n2.a", 1100),
        relays="n1.r n2.r n3.r n3.t", until=1600,
        faults=[
            fault("cut", 300, source="n1.r", target="n2.r", length=1200), *crash(812.1, "n3.r"),
            fault("cut", 812.1, source="n2.r", target="n3.t", length=100),
            fault("cut", 812.1, source="n3.t", target="n2.r", length=100),
        ],
    ),
    # n2 cannot hear the distributor for 60 ms.
    "cut off in a synchronisation phase": _between(
        "n1.s n1.a n2.a", messages("n1.s", 300, 10), senders=("n1.s",), history=3, elements=8, reserve=2, network=ONE_EACH,
        faults=[fault("cut", 300.9, source="n1.r", target="n2.r", length=60)],
    ),
    # Sender and distributor crash, and the request was lost: nobody will ever number it.
    "a request that is lost": _between(
        "n1.a n2.a n2.s", messages("n2.s", 300), senders=("n2.s",), until=700,
        faults=[fault("omit", 299, process="n1.r", packet="McRequest"), *crash(305, "n2.s", "n1.r")],
    ),
    # n2.s dies between MC_REQUEST and MULTICAST.
    "a sender that dies after its request": _between(
        "n1.a n2.a n2.s", messages("n2.s", 300), senders=("n2.s",), until=700,
        faults=[fault("clog", 299, source="n1.r", target="n2.r", delay=20, length=5), *crash(302, "n2.s")],
    ),
    # Both mailboxes have the message and n1.a has read it; n2.a has not when the distributor crashes, and then the box of n2.
    "a message that every mailbox has": _between(
        "n1.s n1.a n2.a", messages("n1.s", 300), senders=("n1.s",), until=1200,
        faults=[slow("n2.a", 299, 10, 600), *crash(306, "n1.r"), *modules(800, "n2/1")],
    ),
    # The acknowledgement of 2 is overtaken by that of 3.
    "a late acknowledgement": _between(
        "n1.s n1.a n2.a", messages("n1.s", 300), messages("n1.s", 310), senders=("n1.s",), until=600,
        faults=[fault("clog", 311, source="n2.r", target="n1.r", delay=60, length=5)],
    ),
    # n2's relay stops for so long that n1 takes it for crashed; nobody there has anything to say afterwards.
    "a node that is out and silent": _between(
        "n1.a n2.a", messages("n1.a", 600), relays="n1.r n2.r", until=2500,
        faults=[fault("pause", 700, process="n2.r", length=900)],
    ),
    # n2.a leaves and is slow: what comes after its leave is for nobody on n2, and so has been read by all.
    "a slow leaver": _between(
        "n1.s n1.a n2.a", messages("n1.s", 300), messages("n1.s", 310), messages("n1.s", 320), senders=("n1.s",), until=700,
        faults=[fault("leave", 300, process="n2.a"), slow("n2.a", 300.3, 20, 200)],
    ),
    # The box of n2 crashes with 2, which n2.a has read, 3, which it has not, and 4, a local sender's and so in the spare box.
    "a gap": _between(
        "n1.a n2.a n1.s n2.s", messages("n1.s", 300), messages("n1.s", 310), messages("n2.s", 312), senders=("n1.s", "n2.s"),
        faults=[slow("n2.a", 305, 12), *modules(316, "n2/1")],
    ),
    # As before, and n3 has not got 3 when n1 crashes as well: nobody has it. Then n3.a sends.
    "a gap that nobody can fill": _between(
        "n1.a n2.a n3.a n1.s n2.s", messages("n1.s", 300), messages("n1.s", 310), messages("n2.s", 312), messages("n3.a", 320),
        messages("n3.a", 330), senders=("n1.s", "n2.s"), relays="n1.r n2.r n3.r", until=900,
        faults=[
            slow("n2.a", 305, 12), fault("cut", 305, source="n1.r", target="n3.r", length=50), *modules(316, "n2/1"),
            fault("node", 316, node="n1"),
        ],
    ),
    # n2.a has read it, n2.b has not and is slow to do so, when the box crashes.
    "a receiver that is slow after a recovery": _between(
        "n1.s n1.a n2.a n2.b", messages("n1.s", 300), senders=("n1.s",), until=900,
        faults=[slow("n2.b", 299, 300, 70), *modules(306, "n2/1")],
    ),
    # n1.b has read what n1.a has not, and n2 has not got; it leaves, and the box, the distributor and the sender crash.
    "a leaver that has read more": _between(
        "n1.a n1.b n2.a n2.s", messages("n2.s", 300), messages("n2.a", 600), senders=("n2.s",), until=700,
        faults=[
            fault("cut", 299, source="n1.r", target="n2.r", length=50), slow("n1.a", 299, 8, 40),
            fault("leave", 304, process="n1.b"), *modules(315, "n1/1"), *crash(315, "n1.r", "n2.s"),
        ],
    ),
    # The mailbox crashes before anybody has read the message.
    "a sender's box crashes": _within(
        "s a b", within.message("s", 1000), senders=("s",), script=Script(usual=1, after={"s send 1": "module 1"}), faults=[],
    ),
    "a member's box crashes": _within(
        "a b", within.message("a", 1000), script=Script(usual=1, after={"a send 1": "module 1"}), faults=[],
    ),
    # t has its P-flag in the next box already; s is slow to restore what it has sent.
    "a P-flag that was set before": _within(
        "s t a", within.message("s", 1000), within.message("t", 1040), within.message("t", 1600), senders=("s", "t"),
        script=Script({"a receive 1": 20, "s start 2": 200}, usual=1), faults=[within.fault("module", 1060, module=1)],
    ),
    # t restores its message before s, whose has a lower number.
    "a lower number is restored late": _within(
        "s t a", within.message("s", 1000), within.message("t", 1005), senders=("s", "t"),
        script=Script({"a receive 1": 10, "s start 2": 20}, usual=1), faults=[within.fault("module", 1030, module=1)],
    ),
    # t does not know that s has used a number; s is slow to restore what has it.
    "a sender that restores late": _within(
        "s t a", within.message("s", 1000), within.message("t", 1600), senders=("s", "t"),
        script=Script({"a receive 1": 20, "s start 2": 200}, usual=1), faults=[within.fault("module", 1060, module=1)],
    ),
    # a restores its messages in a spare box while it leaves, and dies; then the other boxes crash, one after the other.
    "a leaver that dies": _within(
        "a b c", Workload(senders=("a",), closed=2, count=2, start=Duration(1000 * US), size=200), within.message("b", 2500),
        boxes=3, poll=_LATE,
        script=Script(
            {"b receive 1": [1, 1, 60], "c receive 1": [1, 1, 60], "c receive 2": [1, 1, 60]}, usual=1,
            after={"a recover 3 #2": "a", "b send 2": "module 2"},
        ),
        faults=[within.fault("leave", 1005, process="a"), within.fault("module", 1120, module=1)],
    ),
    # b has not read the first message of s; a, which has, and s crash with the box. d joined between the two messages and has
    # read the second.
    "a joiner between two messages": _within(
        "s a b", within.message("s", 1000), within.message("s", 1200), later="d", senders=("s",), poll=_LATE,
        script=Script({"b receive 1": [1, 1, 60]}, usual=1),
        faults=[
            within.fault("join", 1050, process="d", group="g"), within.fault("crash", 1300, process="s"),
            within.fault("crash", 1300, process="a"), within.fault("module", 1310, module=1),
        ],
    ),
    # n2.a stops reading, and the history of the distributor is full soon.
    "an application that stops reading": _between(
        "n1.a n1.b n2.a", messages("n1.a", 300, 400, rate=100), relays="", until=6000, history=8, elements=16, reserve=4,
        patience=Duration(300 * MS), excludes=True, faults=[fault("sluggish", 800, process="n2.a", length=5000, count=1)],
    ),
    # The distributor asks again after 30 ms, and one that has not run for 20 ms asks the others whether it still is one.
    "a distributor that asks again seldom": _between(
        "n1.a n1.b", messages("n1.a", 300), messages("n1.b", 600), relays="", until=700, misses=2, excludes=True,
        present_every=Duration(20 * MS), delta=Duration(9 * MS), retry=Duration(30 * MS), faults=[],
    ),
    # n1.a relays for n1 and hangs. It misses a round, and the one that n3.a asks for. (n1.c shows that n1 could have stayed.)
    "a newcomer while a relay hangs": _between(
        "n1.a n1.b n2.a n2.b", messages("n2.b", 300, 60, rate=20), relays="", later="n3.a n1.c", until=3000, misses=2,
        present_every=Duration(50 * MS), delta=Duration(15 * MS), poll=Duration(5 * MS), excludes=True,
        faults=[
            fault("pause", 1805, process="n1.a", length=61), fault("join", 1808, process="n3.a", group="g"),
            fault("join", 2500, process="n1.c", group="g"),
        ],
    ),
    # n1 does not get five Presents of n2 in a row, but those that it asks for after them.
    "a node of which five Presents are lost": _between(
        "n1.a n2.a n3.a", messages("n1.a", 300, 60, rate=20), relays="", until=2000, excludes=True,
        faults=[fault("omit", 800, process="n1.a", packet="Present", source="n2.a", count=5)],
    ),
    # n1.c is heard when it has had its seat for longer than it takes to hear of all nodes; when one Present more is all that it
    # would get; and when it is about to take the office.
    "a newcomer on a node that was given up": _unheard_until(1740),
    "a newcomer that is heard late": _unheard_until(1900),
    "a newcomer that is heard at the last moment": _unheard_until(1940),
    # A distributor is stopped for so long that others have another one; and nodes that were given up answer one.
    "a distributor that goes on": _course_of(2420),
    "a node that answers late": _course_of(3104),
}  # fmt: skip
