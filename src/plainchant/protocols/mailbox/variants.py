"""The rules of ``mailbox`` that the explorer can take out or replace, by name: ``--rules extra=printed``.

Each value of a rule that is not the protocol's own is a variant (:mod:`..variants`) named ``RULE=VALUE``. Tests and papers use
the same names. The bounds that a run is checked against stay those of the protocol itself: only engines calculate otherwise."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from ...core.memory import FAILED, Connection, Copy, Request
from ...core.model import UsageError
from ..variants import Calls, Replacement, Variant, Variants
from . import box as boxes
from . import membership, second
from .box import Box, changed, find
from .message import Message
from .parameters import Parameters
from .receiving import Receiver
from .times import TICK, Times

BOOLEAN: Final[Mapping[str, str | bool]] = {"true": True, "false": False}
PRINTED: Final[Mapping[str, str | bool]] = {"corrected": "corrected", "printed": "printed"}

# Each rule with the values that it can have, as the command line has them; the first is the protocol's own.
VALUES: Final[Mapping[str, Mapping[str, str | bool]]] = {
    # How much longer the first protocol waits after a copy that it found dead: two steps, the clocks' difference, or not at all.
    "extra": {**PRINTED, "none": "none"},
    "wait": PRINTED,  # how long the second protocol waits between seeing a message and voting on it
    "expiry": PRINTED,  # the expiry time X of the second protocol
    "atomic_votes": BOOLEAN,  # the second protocol tests and changes LD and nrd in one step
    "atomic_remove": BOOLEAN,  # the process that sets the last decision flag removes the message in the same step
    "decision_field": BOOLEAN,  # the second protocol writes a decision that was made in an earlier copy into D
    "look_again": BOOLEAN,  # after waiting a receiver looks again, because an earlier message may have been inserted
    "enter_after": BOOLEAN,  # a receiver enters after everything that is there already, whatever its timestamp says
    "listen": BOOLEAN,  # a receiver without a decision flag reads what was sent after its entry (A.1.2)
    "postpone": BOOLEAN,  # with the second protocol a message is removed only when every receiver had time to read it (A.1.2)
    "placeholders": BOOLEAN,  # with the second protocol a message that is absent from a copy is decided on there all the same
}

VARIANTS: Final = Variants()


def variant_of(rules: Mapping[str, str | bool]) -> Variant:
    """The protocol with these values of its rules; the values that it has itself change nothing."""
    chosen = []
    for rule, value in rules.items():
        words = {value: word for word, value in VALUES.get(rule, {}).items()}
        if value not in words:
            raise UsageError(f"there is no rule {rule!r} of mailbox with the value {value!r}; rules: {', '.join(VALUES)}")
        if words[value] != next(iter(VALUES[rule])):
            chosen.append(f"{rule}={words[value]}")
    times = [name for name in chosen if name in _TIMES]
    if len(times) < 2:
        return VARIANTS.together(*chosen)
    others = VARIANTS.together(*(name for name in chosen if name not in _TIMES))
    return others + Variant(" and ".join(times), (Replacement(boxes, "Times", _times_with(*times)),))


def times_of(parameters: Parameters, rules: Mapping[str, str | bool]) -> Times:
    """The times that an engine with these rules goes by."""
    with variant_of(rules).applied():
        made: Times = vars(boxes)["Times"](parameters)
    return made


def _printed_expiry(times: Times) -> int:
    parameters = times.parameters
    return times.send + times.detect + parameters.copies * parameters.decide + 2 * parameters.skew


_TIMES: Final = {
    "extra=printed": Replacement(Times, "_extra", lambda times: times.parameters.skew),
    "extra=none": Replacement(Times, "_extra", lambda times: 0),
    "expiry=printed": Replacement(Times, "_expiry", _printed_expiry),
    "postpone=false": Replacement(Times, "_kept", lambda times: 0),
}


def _times_with(*names: str) -> Callable[[Parameters], Times]:
    """Makes the times of an engine, some of them calculated in other ways."""

    def times(parameters: Parameters) -> Times:
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(_TIMES[name].applied(Calls()))
            return Times(parameters)

    return times


for _name in _TIMES:
    VARIANTS.replaces(_name, boxes, "Times")(_times_with(_name))


VARIANTS.replaces("wait=printed", second, "_vote_at")(lambda box, slot: box.clock + box.parameters.skew)


@VARIANTS.replaces("wait=printed", second, "_wait_to_settle")
def _settle_at_once(box: Box, slot: int) -> Generator[Request, Any, None]:
    yield from ()


@VARIANTS.replaces("atomic_votes=false", second, "_vote")
def _vote_in_steps(box: Box, copy: int, batch: list[Message]) -> Generator[Request, Any, Any]:
    changes = yield box.decide(copy, partial(second._would_change, box, batch))
    if changes is FAILED:
        return FAILED
    yield box.decide(copy, partial(second._change, changes))
    return (yield box.decide(copy, partial(second._only_count, box, batch)))


@VARIANTS.replaces("atomic_votes=false", second, "_settle_in")
def _settle_in_steps(box: Box, copy: int, batch: list[Message]) -> Generator[Request, Any, Any]:
    tested = yield box.decide(copy, partial(second._would_settle, box, batch))
    if tested is FAILED:
        return FAILED
    setting, without = tested
    written = yield box.decide(copy, partial(second._set_decision, box, setting))
    return FAILED if written is FAILED else without


VARIANTS.replaces("decision_field=false", second, "_waits_for_slot")(lambda batch: True)
VARIANTS.replaces("decision_field=false", second, "_decision_for")(lambda entry, message: entry.decision)
VARIANTS.replaces("decision_field=false", second, "_verdict_of")(lambda entry: entry.local)
VARIANTS.replaces("placeholders=false", second, "_entry")(lambda box, message, copy: find(copy, message.slot, message.key))


@VARIANTS.replaces("look_again=false", Receiver, "_look_back")
def _never_again(self: Receiver, began: int, instant: int | None) -> None:
    self.horizon = 1 << 62
    self._begin([message for _, message in self.order if not message.begun], None)


VARIANTS.replaces("listen=false", Receiver, "_listens")(lambda self: False)


@VARIANTS.replaces("atomic_remove=false", Receiver, "_set_flags")
def _remove_later(self: Receiver, batch: list[Message]) -> Generator[Request, Any, None]:
    box = self.box

    def set_flags(copy: Copy) -> None:
        for message in batch:
            entry = find(copy, message.slot, message.key)
            if entry is not None and not entry.removed:
                copy.put(message.slot, changed(entry, done=entry.done | box.mask))

    def complete(copy: Copy) -> list[int]:
        entries = ((message.slot, find(copy, message.slot, message.key)) for message in batch)
        return [slot for slot, entry in entries if entry is not None and not entry.listed & ~entry.done]

    for copy in range(box.copies):
        if (yield box.finish(copy, set_flags)) is FAILED:
            continue
        slots = yield box.finish(copy, complete)
        if slots is not FAILED and slots:
            yield box.finish(copy, partial(_remove, slots))


def _remove(slots: list[int], copy: Copy) -> None:
    for slot in slots:
        entry = copy.entry(slot)
        if entry is not None:
            copy.put(slot, changed(entry, removed=True))


@VARIANTS.replaces("enter_after=false", membership, "_change")
def _enters_anywhere(box: Box, connection: Connection, listed: int, copy: Copy) -> int | None:
    if listed and box.host.clock() >= listed + box.times.settled - box.parameters.skew - TICK:
        return None
    copy.connect(box.place, connection)
    return 0
