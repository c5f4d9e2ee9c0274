"""Processes of one machine: a group through common memory, beside our groups over UDP, queues and socket pairs, in the same run.

Theory of operation
-------------------
Three processes get everything that one of them, or all, send. *Rates* are of a flood, at the slowest of the three. *Delays* are
of one message every :data:`PERIOD`, from ``send`` until a receiver has it, of all receivers, the sender included if it is one;
``time.monotonic_ns`` is one clock for all. Nobody is pinned: the system places the processes.

Members are killed when they have been measured, and what they leave of common memory is removed.

Everything is measured right after the mailbox, and the ratios are those of one round; of several rounds the median counts.

A group's members are three; queues and socket pairs have senders of their own besides the three (:mod:`.handover`), order nothing
and survive nothing. That is what the difference buys.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from plainchant.core.model import US
from plainchant.live.memory.server import MailboxServer

from .handover import Handover
from .plan import MAILBOX, PAIR, QUEUE, Case, Local, Plan
from .session import Flood, Session
from .us import MEASURED, names, start

PERIOD: Final = 0.005
"""Seconds between two messages whose delay counts."""
MEMBERS: Final = 3
LARGE: Final = 16 << 10
"""Bytes of a message from which on a mailbox is given room for many of them at once, and fewer slots."""
TOGETHER: Final = 64
"""How many."""
SLOTS: Final = 2


@dataclasses.dataclass(frozen=True)
class Handed:
    """What one round came to."""

    flood: Flood
    delays: tuple[int, ...]
    """In ns, in order."""

    @property
    def median(self) -> float:
        """Of the delays, in µs."""
        return statistics.median(self.delays) / US


def measure_local(local: Local, plan: Plan) -> Handed:
    """One round, with fresh processes."""
    messages = max(20, round(plan.latency_seconds / PERIOD))
    if local.how in (QUEUE, PAIR):
        with Handover(local.how, local.size) as handover:
            delays = handover.delays(messages, PERIOD)
        with Handover(local.how, local.size, local.senders) as handover:
            flood = handover.flood(plan.warm, plan.seconds)
        return Handed(flood, tuple(sorted(delays)))
    server = MailboxServer(f"bench {os.urandom(8).hex()}")
    try:
        return _measure_group(local, plan, server.namespace, messages)
    finally:
        server.remove_all()


def _measure_group(local: Local, plan: Plan, memory: str, messages: int) -> Handed:
    case = Case(protocol=local.how, members=MEMBERS, size=local.size, senders=local.senders)
    everybody = names(MEMBERS)
    with (
        tempfile.TemporaryDirectory(prefix="plainchant-bench-") as directory,
        start(case, Path(directory), parameters=parameters(local), memory=memory) as crew,
    ):
        crew.answers()
        crew.pin(False)
        session = Session(crew, everybody, [MEASURED] if local.senders == "one" else range(MEMBERS))
        crew.ask({"do": "watch", "watched": everybody[MEASURED]})
        answers = crew.ask({"do": "idle", "messages": messages, "period": PERIOD}, seconds=messages * PERIOD)
        session.compare(answers)
        sent = answers[MEASURED]["times"]
        reports = crew.ask({"do": "times"})
        delays = [there - at for report in reports for at, there in zip(sent, report["arrivals"], strict=True)]
        return Handed(session.flood(plan.warm, plan.seconds), tuple(sorted(delays)))


def parameters(local: Local) -> dict[str, Any]:
    """What is set for large messages; everything else is as the protocol chooses it for real processes."""
    return {"room": TOGETHER * local.size, "slots": SLOTS} if local.how == MAILBOX and local.size >= LARGE else {}


def local_row(local: Local, rounds: Sequence[Handed], error: str | None) -> dict[str, Any]:
    """A row of the result: the best round, as everywhere."""
    row: dict[str, Any] = {
        "how": local.how,
        "members": MEMBERS,
        "size": local.size,
        "senders": local.senders,
        "rounds": len(rounds),
        "error": error,
        "parameters": parameters(local),
        "messages_per_s": None,
        "megabytes_per_s": None,
        "cpu_us_per_message": None,
        "delay_us_p50": None,
        "delay_us_p99": None,
    }
    if not rounds or error is not None:
        return row
    best = max(rounds, key=lambda each: each.flood.messages_per_s)
    quickest = min(rounds, key=lambda each: each.median)
    spent = best.flood.cpu_us_per_message
    return row | {
        "messages_per_s": round(best.flood.messages_per_s),
        "megabytes_per_s": round(best.flood.messages_per_s * local.size / 1e6, 1),
        "cpu_us_per_message": None if spent is None else round(spent, 3),
        "delay_us_p50": round(quickest.median, 1),
        "delay_us_p99": round(quickest.delays[int(0.99 * len(quickest.delays))] / US, 1),
    }


def compare_local(rounds: Mapping[Local, Sequence[Handed]]) -> list[dict[str, Any]]:
    """The mailbox's rates and delays to those of everything else, round by round."""
    found = []
    for local, others in rounds.items():
        ours = rounds.get(dataclasses.replace(local, how=MAILBOX), ())
        together = list(zip(ours, others, strict=False))
        if local.how == MAILBOX or not together:
            continue
        rates = [mine.flood.messages_per_s / its.flood.messages_per_s for mine, its in together if its.flood.messages_per_s]
        found.append(
            {
                "to": local.how,
                "size": local.size,
                "senders": local.senders,
                "rounds": len(together),
                "messages_per_s": round(statistics.median(rates), 3) if rates else None,
                "delay_us_p50": round(statistics.median(mine.median / its.median for mine, its in together), 3),
            }
        )
    return found
