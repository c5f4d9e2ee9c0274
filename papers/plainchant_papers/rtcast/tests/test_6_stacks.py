"""Section 6.1 and Fig. 8: every configuration of the stack keeps order, atomicity and agreement (claim 80)."""

from __future__ import annotations

from itertools import product

import pytest

from plainchant.scenario.model import Clock, Delay, Network, Workload

from .runs import fault, ms, simulate

CRASH_AND_COME_BACK = [fault("crash", 150, process="c"), fault("restart", 350, process="c")]
BROADCAST = Network(delay=Delay("constant", ms(0.5)), bandwidth=10_000_000, shared=True, broadcast=True)


def test_80_the_minimal_stack_on_a_broadcast_medium() -> None:
    """Claim 80: no admission control, no retransmission, no clocks, no hold. Fig. 8 (b)."""
    run = simulate(
        "a b c d",
        Workload(rate=200.0, size=300),
        length=600,
        faults=CRASH_AND_COME_BACK,
        network=BROADCAST,
        parameters={"admission": False, "retransmissions": 0, "clocks": "none", "overtaking": False},
    )
    assert run.halted() == {}
    assert run.violated == []
    assert run.summary.quiet
    assert run.views("a")[-1] == ("a", "b", "d", "c#1")
    assert len(run.delivered("a")) > 200


@pytest.mark.parametrize(
    ("admission", "retransmissions", "clocks", "overtaking"),
    list(product([False, True], [0, 1], ["none", "assumed", "synchronised"], [False, True])),
)
def test_fig_8_every_configuration_runs(admission: bool, retransmissions: int, clocks: str, overtaking: bool) -> None:
    """With a crash and a rejoin, a stream with a deadline where that can be had, and clocks that are off where they are set."""
    stream = [Workload(senders=("b",), rate=5.0, deadline=ms(190), start=ms(100))] if admission else []
    off = [Clock(process="b", offset=5_000_000)] if clocks == "synchronised" else []
    run = simulate(
        "a b c",
        Workload(rate=50.0, size=100),
        *stream,
        length=500,
        faults=CRASH_AND_COME_BACK,
        clock=tuple(off),
        network=Network(delay=Delay("constant", ms(0.5))),
        parameters={
            "admission": admission,
            "retransmissions": retransmissions,
            "clocks": clocks,
            "overtaking": overtaking,
            "clock_every": ms(100),
            "idle_hold": ms(2),
        },
    )
    assert run.violated == []
    assert run.summary.quiet, run.summary.not_quiet
    assert run.halted() == {}
    assert run.views("b")[-1] == ("a", "b", "c#1")
    assert {kind for kind in ("admit", "sync") if run.of(kind)} == {
        *(["admit"] if admission else []),
        *(["sync"] if clocks == "synchronised" else []),
    }
