"""Stories of messages in common memory."""

from __future__ import annotations

import pytest

from plainchant.core.model import MS
from plainchant.core.words import crash_words, fault_words
from plainchant.lab.explain.explainer import Explainer

from .mailboxes import MailboxScript, late_sender

EXPLAINER = Explainer(late_sender().table())


def told(message: tuple[str, str, int]) -> list[str]:
    return [step.what for step in EXPLAINER.message(message).steps]


def test_a_message_that_is_not_the_last_of_its_batch_has_the_rows_of_its_batch() -> None:
    steps = told(("g", "p2", 1))
    assert "p2 has written it into every copy and set all flags, in 900 us" in steps
    assert "p2 has written it into every copy and set all flags, in 200 us, at attempt 2" in steps
    assert "p1 decides to reject it, 1.0 ms after its timestamp" in steps
    assert "p3 decides to accept it, by its flag in copy 1, 1.0 ms after its timestamp" in steps
    assert steps[-1] == "p3 delivers it, 4.0 ms after its send"


def test_a_late_sender_is_why_its_message_was_rejected() -> None:
    story = EXPLAINER.message(("g", "p2", 2))
    (because,) = {step.because for step in story.steps if step.process == "p1" and "decides to reject" in step.what}
    assert because == "its Send took 900 us, and should take 300 us at the most (write in copy 2 took 700 us instead of 100 us)"
    assert "What held it up: it was rejected once, first at 2.000 ms, and sent again" in story.conclusion


def test_who_joins_later_is_not_expected_to_deliver_it() -> None:
    conclusion = EXPLAINER.message(("g", "p2", 1)).conclusion
    assert conclusion.startswith("Delivered by all 3 that were members when it was sent.")


def test_a_crashed_sender_is_why_its_message_was_rejected() -> None:
    story = EXPLAINER.message(("g", "p1", 1))
    assert "p1 crashes in the middle of a Send, after its write in copy 2" in [step.what for step in story.steps]
    (why,) = {step.because for step in story.steps if step.process == "p4" and "never delivers" in step.what}
    assert why == "p2, p3 and p4 decided to reject it: p1 crashed at 8.100 ms, before it had set all flags"
    assert story.conclusion == "Nobody delivered it."


def test_the_story_of_a_process_has_what_was_late_and_when_it_had_no_slot() -> None:
    steps = {step.what: step.because for step in EXPLAINER.process("p3").steps}
    assert "p3 is a receiver of g from now on" in steps
    assert "fault: memory module 1 crashes, and with it every copy that is in it" in steps
    assert steps["p3 may not send: it has no free slot"] == "all 4 slots of p3 hold messages that not everybody has read"
    slow = [step.what for step in EXPLAINER.process("p2").steps]
    assert "fault: timing: write in copy 2 took 700 us instead of 100 us" in slow


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ({"fault": "module", "module": 2}, "memory module 2 crashes, and with it every copy that is in it"),
        ({"fault": "timing", "operation": "wait", "took_ns": 5_000_000, "bound_ns": 0}, "timing: a wait ended 5.0 ms late"),
        ({"fault": "timing", "operation": "look"}, "timing: look took too long"),
        ({"fault": "slow", "process": "p2", "timing": True, "delay": 3_000_000}, "slow, delay 3ms"),
    ],
)
def test_faults_of_common_memory_have_words(detail: dict[str, object], words: str) -> None:
    assert fault_words(detail) == words


def test_a_crash_in_the_middle_of_a_broadcast_without_memory_is_told_as_before() -> None:
    assert crash_words("p", {"mid_broadcast": True, "reached": ["q"]}).endswith("only q still got the packet")


def test_who_acts_for_somebody_elsewhere_says_for_whom() -> None:
    script = MailboxScript("p1 p2")
    script.enter(0.1, "p1 p2", 64)
    script.send(1, "p2")
    script.about(1.9, "p1", "sent", "p2", 1, stamp=MS, took_ns=900_000, acting_for="p2")
    script.decide(2, "p1", "p2", 1, 1, accepted=False, acting_for="p2")
    script.end(9, "p1 p2")
    steps = {step.what: step.because for step in Explainer(script.table()).message(("g", "p2", 1)).steps}
    assert "p1 has written it into every copy and set all flags, in 900 us (for p2)" in steps
    because = steps["p1 decides to reject it, 1.0 ms after its timestamp (for p2)"]
    assert because == "its Send took 900 us, and should take 300 us at the most"


def test_another_protocol_has_none_of_its_rows_taken_for_those_of_a_batch() -> None:
    story = Explainer(late_sender("homemade").table()).message(("g", "p2", 1))
    assert not any("written it into every copy" in step.what for step in story.steps)
