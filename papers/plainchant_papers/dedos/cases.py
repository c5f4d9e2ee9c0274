"""The paper's examples as runs: what is lost, or waits for ever, without each rule (claims 97 to 99, 102).

Every node has a relay that is in no group, and a second process that can take over from it: so relays and distributors can crash
without members. The relays are ``n1.r``, which is the distributor too, and ``n2.r`` (:data:`RELAYS`). Receivers that are to read
late have operations that take long. Times are in ms. The message is sent at :data:`AT` and in all mailboxes half a millisecond
later; what crashes does so at :data:`CRASH`. By then all relays have listened for long enough to take over at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from plainchant.core.model import US, Duration
from plainchant.scenario.model import Fault, Workload

from ..runs import fault
from .towns import Plan, message, plan

AT: Final = 700.0
CRASH: Final = 705.0
RELAYS: Final = ("n1.r", "n2.r")


def stage(members: str, *workload: Workload, faults: Sequence[Fault], senders: str = "", **given: Any) -> Plan:
    """One group of these, on n1 and n2, with relays of their own."""
    networked = (*RELAYS, "n1.q", "n2.q")
    group = tuple(members.split())
    return plan(
        (*networked, *group), *workload, length=1000, drain=10_000, groups={"g": group}, faults=faults,
        networked=networked, seated=RELAYS, senders=tuple(senders.split()), operation=Duration(50 * US), **given,
    )  # fmt: skip


def late(process: str, begin: float, length: float, delay: float = 20) -> Fault:
    """A process whose operations take so much longer for a while."""
    return fault("slow", begin, process=process, length=length, delay=Duration(round(delay * 1000 * US)))


def boxes(at: float) -> list[Fault]:
    """The mailboxes of both nodes crash: what is left are spare boxes."""
    return [fault("module", at, module=1, node=node) for node in ("n1", "n2")]


def sender_buffer(variants: Sequence[str] = ()) -> Plan:
    """First example: all relays have the message, nobody has read it, all mailboxes and the distributor crash."""
    faults = [late("n1.a", AT - 2, 6), late("n2.b", AT - 2, 6), *boxes(CRASH), fault("crash", CRASH, process="n1.r")]
    return stage("n1.s n1.a n2.b", message("n1.s", AT), faults=faults, variants=variants, senders="n1.s", label="sender buffer")


def four_receivers(variants: Sequence[str] = ()) -> Plan:
    """Second example: only one receiver, on the distributor's node, has read it; mailboxes, distributor and sender crash."""
    faults = [
        fault("cut", AT - 1, source="n1.r", target="n2.r", length=20), late("n1.b", AT - 2, 6), *boxes(CRASH),
        fault("crash", CRASH, process="n1.r"), fault("crash", CRASH, process="n2.s"),
    ]  # fmt: skip
    members = "n1.a n1.b n2.s n2.c n2.d"
    return stage(members, message("n2.s", AT), faults=faults, variants=variants, senders="n2.s", label="four receivers")


def full_buffer(variants: Sequence[str] = (), *, tight: bool = True) -> Plan:
    """Third example: the only receiver of a node keeps as many messages as a mailbox holds, its mailbox crashes, and new messages
    are stored before it has restored its own. A local sender stores them, for our relays store nothing but what is missing; and
    the mailbox is tight, for ours has room for what is restored meanwhile, and then gets out of it by itself."""
    count = 24
    faults = [
        # What n2's receiver has read cannot be acknowledged for a while, so that it has to keep everything.
        fault("cut", AT - 1, source="n2.r", target="n1.r", length=60), fault("module", CRASH + 20, module=1, node="n2"),
        late("n2.b", CRASH + 19, 30, 1),
    ]  # fmt: skip
    load = [message("n1.s", AT + number / 4) for number in range(count)] + [
        message("n2.s", CRASH + 20 + number / 8) for number in range(2 * count)
    ]
    chosen = ("tight",) if tight else ()
    return stage(
        "n1.s n1.a n2.s n2.b", *load, faults=faults, variants=(*variants, *chosen), senders="n1.s n2.s", label="full buffer",
        elements=count, reserve=0, window=64, places=4, history=64,
    )  # fmt: skip


def rebuild(variants: Sequence[str] = ()) -> Plan:
    """Appendix B: every mailbox has the message and not every receiver has read it; the distributor crashes, and when there is
    another one, a mailbox. The late receiver is not silent for so long that its node excludes it."""
    faults = [
        late("n2.b", AT - 2, 60, 150), fault("crash", CRASH, process="n1.r"), fault("module", CRASH + 100, module=1, node="n2"),
    ]  # fmt: skip
    return stage("n1.s n1.a n2.b", message("n1.s", AT), faults=faults, variants=variants, senders="n1.s", label="rebuild")


def gap(variants: Sequence[str] = ()) -> Plan:
    """On n2, one message was read, one from elsewhere was not, and a local one comes after it. Then the mailbox crashes."""
    faults = [late("n1.a", AT - 6, 4), late("n2.b", AT - 2, 4, 8), fault("module", AT + 3, module=1, node="n2")]
    load = [message("n1.s", AT - 4), message("n1.s", AT), message("n2.s", AT + 1)]
    return stage("n1.s n1.a n2.s n2.b", *load, faults=faults, variants=variants, senders="n1.s n2.s", label="gap")
