"""The first protocol on a machine that is now and then late: no member is lost because a message of another was late.

Lateness is a failure that the first protocol does not tolerate, so agreement may break. But a member that reads and sets its
flags must not be excluded, and must not halt. Every process is late now and then, by less than a fifth of ``patience``. Seen
live: two receivers that found a message too late did not bar the next copy, its sender wrote there after them, and the receiver
that was later still excluded both."""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import Random
from typing import Any

import pytest

from plainchant.core.memory import Copy
from plainchant.core.model import MS, US, Duration
from plainchant.protocols.mailbox import first
from plainchant.protocols.mailbox.box import changed, find
from plainchant.protocols.mailbox.engine import Mailbox
from plainchant.protocols.mailbox.message import Message
from plainchant.protocols.mailbox.receiving import Receiver
from plainchant.protocols.mailbox.sending import Outgoing, Sender
from plainchant.protocols.variants import replaced
from plainchant.sim.scripted import Script

from .test_alive import MEMBERS, Ran, run

BOUNDS = {"write": 200 * US, "flag": 100 * US, "look": 100 * US, "decide": 100 * US, "read": 200 * US, "finish": 100 * US}
LATEST = 10 * MS
OPERATIONS = 800
"""Of one process, of one kind, in one copy: more than a run has."""

Rule = tuple[Any, str, Callable[..., Any]]


def busy(seed: int, often: float = 0.05, mean: int = 1 * MS) -> Ran:
    """Four members, each of which is late so often, by so much on average."""
    random = Random(f"mailbox busy {seed}")
    copies, slots = random.choice((2, 3)), random.choice((1, 2, 4))
    members = MEMBERS[:4]

    def late(bound: int) -> list[float | None]:
        shares = (random.expovariate(1 / mean) if random.random() < often else None for _ in range(OPERATIONS))
        return [None if share is None else 1 + min(share, LATEST) / bound for share in shares]

    names = [(member, name, copy) for member in members for name in BOUNDS for copy in range(copies)]
    durations: dict[str, Any] = {f"{member} {name} {copy + 1}": late(BOUNDS[name]) for member, name, copy in names}
    given: dict[str, Any] = {name: Duration(bound) for name, bound in BOUNDS.items() if name != "look"}
    return run(
        [],
        members=members,
        script=Script(durations, usual=None),
        rate=150.0,
        duration=400 * MS,
        tolerate="crash",
        copies=copies,
        slots=slots,
        skew=Duration(1 * US),
        poll=Duration(300 * US),
        **given,
    )


_BAR = Receiver._bar


def _bars_only_what_was_rejected(self: Receiver, copy: Copy, message: Message) -> None:
    if message.verdict is False:
        _BAR(self, copy, message)


def _sends_again_before_the_send_is_over(self: Mailbox) -> None:
    if self.outcome is not None:
        accepted, self.outcome = self.outcome, None
        self._ended(accepted)


def _passes_by_what_was_removed(message: Message) -> None:
    """Rejects nothing."""


def _withdraws_what_others_have_accepted(self: Sender, outgoing: Outgoing) -> Generator[Any, Any, bool]:
    def remove(copy: Copy) -> None:
        there = find(copy, outgoing.slot, outgoing.key)
        if there is not None:
            copy.put(outgoing.slot, changed(there, done=there.listed, removed=True))

    for copy in range(self.box.copies):
        yield self.box.flag(copy, remove)
    return True


BARS: Rule = (Receiver, "_bar", _bars_only_what_was_rejected)
SENDS: Rule = (Mailbox, "_end_if_over", _sends_again_before_the_send_is_over)
PASSES: Rule = (first, "_reject", _passes_by_what_was_removed)
WITHDRAWS: Rule = (Sender, "withdraw", _withdraws_what_others_have_accepted)
CASES: dict[tuple[int, float, int], Rule] = {
    (15, 0.05, 1 * MS): BARS,
    (58, 0.05, 1 * MS): BARS,
    (0, 0.05, 1 * MS): SENDS,
    (12, 0.05, 1 * MS): SENDS,
    (3, 0.05, 1 * MS): WITHDRAWS,
    (18, 0.05, 1 * MS): WITHDRAWS,
    (11, 0.15, 4 * MS): PASSES,
    (32, 0.1, 2 * MS): PASSES,
}
"""How a run is drawn, and the rule without which it loses a member."""


@pytest.mark.parametrize(("seed", "often", "mean"), CASES)
def test_a_busy_machine_loses_no_member(seed: int, often: float, mean: int) -> None:
    ran = busy(seed, often, mean)
    assert len({row["process"] for row in ran.of("fault") if row["detail"].get("timing")}) == 4
    assert ran.of("late"), "no message was late"
    assert ran.halted() == {}
    assert ran.summary.quiet


@pytest.mark.parametrize(("seed", "often", "mean"), CASES)
def test_without_the_rule_it_does(seed: int, often: float, mean: int) -> None:
    with replaced(*CASES[seed, often, mean]):
        ran = busy(seed, often, mean)
    assert set(ran.halted().values()) & {"excluded", "missed"}
