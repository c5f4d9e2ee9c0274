"""Stories of messages of dedos, whose members are known by the ranks of their joins."""

from __future__ import annotations

from plainchant.lab.explain.explainer import Explainer
from plainchant.scenario import find, load
from plainchant.sim import run_scenario
from plainchant.trace import TraceBuffer


def test_who_comes_back_later_is_not_expected_to_deliver_what_was_sent_before() -> None:
    trace = TraceBuffer()
    run_scenario(load(find("dedos-crashes")), trace)
    explainer = Explainer(trace.table())
    first = explainer.message(("g", "n2.b", 3))
    assert first.conclusion.startswith("Delivered by all 7 that were members when it was sent.")
    assert not [step.what for step in first.steps if "never delivers" in step.what]
