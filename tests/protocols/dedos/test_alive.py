"""Liveness of processes (3.3.2): a process that hangs holds up no other, and learns what happened when it goes on.

Each case was once a run in which correct processes stood still, or halted.
"""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from plainchant.core.engine import Host, Layer
from plainchant.core.memory import Connection
from plainchant.core.model import MS, Duration, View
from plainchant.lab.properties import verify
from plainchant.protocols.dedos import check, progress
from plainchant.protocols.dedos.box import EXCLUDED, Box, layout
from plainchant.protocols.dedos.parameters import Parameters
from plainchant.protocols.dedos.presence import Presence
from plainchant.scenario.load import parse
from plainchant.sim import Simulation
from plainchant.sim.memory import SimCopy
from plainchant.trace import TraceBuffer

from .mutants import MUTANTS
from .runs import DedosRun, fault, messages, modules, simulate

TWO_NODES = "n1.a n1.b n2.a n2.b n2.c"


def standstill(run: DedosRun, process: str, *, since: float, until: float, kind: str = "deliver") -> float:
    """The longest time (ms) between two deliveries of a process in a part of the run, or between two other rows of a kind."""
    times = [row["true_time"] / 1e6 for row in run.of(kind, process)]
    marks = [since, *(time for time in times if since < time < until), until]
    return float(max(later - earlier for earlier, later in pairwise(marks)))


def reason(run: DedosRun, process: str) -> str:
    return str(run.details("crash", process)[0]["reason"])


def test_a_relay_that_hangs_is_replaced_and_its_node_stays() -> None:
    """n2.a relays for n2 and hangs for 28 s. n2.b takes over before the other nodes give n2 up."""
    run = simulate(
        TWO_NODES, messages("n1.b", 200, 700, rate=20), messages("n2.b", 210, 700, rate=20), relays="",
        faults=[fault("pause", 1000, process="n2.a", length=28_000)], until=32_000,
    )  # fmt: skip
    assert run.is_good, run.sentences
    assert run.halted() == ["n2.a"]
    assert reason(run, "n2.a") == "excluded"
    assert [each["process"] for each in run.details("suspect")] == ["n2.a"] * len(run.of("suspect"))
    for survivor in ("n1.a", "n1.b", "n2.b", "n2.c"):
        assert standstill(run, survivor, since=300, until=32_000) < 600


@pytest.mark.parametrize("hung", ["n2.a", "n2.b"])
def test_a_process_that_comes_back_does_not_suspect_its_former_incarnation(hung: str) -> None:
    """The mark of the excluded process is still there when the next one takes a seat; it has not seen the silence itself."""
    run = simulate(
        TWO_NODES, messages("n1.b", 200, 60, rate=40), relays="", until=2_500,
        faults=[fault("pause", 500, process=hung, length=700), fault("restart", 1202, process=hung)],
    )  # fmt: skip
    assert run.is_good, run.sentences
    suspicions = {(row["process"], msgspec.json.decode(row["detail"])["process"]) for row in run.of("suspect")}
    assert suspicions
    assert suspicions <= {(other, hung) for other in {"n2.a", "n2.b", "n2.c"} - {hung}}
    assert run.delivered(f"{hung}#1")


def test_a_process_that_crashed_is_not_suspected_by_one_that_finds_its_mark() -> None:
    """Processes are told of a crash one after the other. The first marks the seat, and the others were told by the mark: they
    suspected that the process hangs."""
    presence = Presence(Parameters())
    copy = SimCopy(layout(Parameters()))
    copy.connect(0, Connection("n1.a"))
    copy.connect(1, Connection("n1.b", stamp=7))
    assert presence.attend(copy, 0, 1000 * MS) == []
    copy.connect(1, Connection("n1.b", stamp=8, gone=True))
    assert presence.attend(copy, 0, 1010 * MS) == ["n1.b"]
    assert not presence.saw_silence("n1.b", 1010 * MS)
    assert presence.saw_silence("n1.b", 1010 * MS + Parameters().longest_silence)


@pytest.mark.parametrize("at", range(1800, 1850, 5))
def test_a_round_that_a_newcomer_asks_for_does_not_cost_the_node_of_a_relay_that_hangs(at: int) -> None:
    """n1.a relays and hangs. It misses an ordinary round, and the one that n3.a asks for when it starts soon after. That gave n1
    up after 36 ms, and n1.b and n1.c halted; n1.b takes over after 55 ms."""
    run = simulate(
        "n1.a n1.b n1.c n2.a n2.b", messages("n2.b", 300, 60, rate=20), relays="", later="n3.a", until=3000, misses=2,
        present_every=Duration(50 * MS), delta=Duration(15 * MS), poll=Duration(5 * MS),
        faults=[fault("pause", at, process="n1.a", length=61), fault("join", at + 3, process="n3.a", group="g")],
    )  # fmt: skip
    assert run.is_good, run.sentences
    assert run.halted() == ["n1.a"]


def test_a_member_that_hangs_is_excluded_and_senders_go_on() -> None:
    """n2.b hangs for 15 s and reads nothing. A sender on the other node waits no longer than until n2.b is excluded."""
    run = simulate(
        TWO_NODES, messages("n1.b", 200, 1500, rate=100), relays="", history=16, elements=32,
        faults=[fault("pause", 1000, process="n2.b", length=15_000)], until=17_000,
    )  # fmt: skip
    assert run.is_good, run.sentences
    assert run.halted() == ["n2.b"]
    assert reason(run, "n2.b") == "excluded"
    assert run.of("suspect"), "the metrics count this failure as detected"
    assert standstill(run, "n1.b", since=300, until=15_000, kind="send") < 400
    for survivor in ("n1.a", "n1.b", "n2.a", "n2.c"):
        assert standstill(run, survivor, since=300, until=15_000) < 400


@pytest.mark.parametrize("hung", ["n1.a", "n1.c"])
def test_within_a_node_a_member_that_hangs_does_not_hold_up_a_recovery(hung: str) -> None:
    """A member hangs for 6 s, and the active box crashes meanwhile: the others do not wait for its P-flag."""
    run = simulate(
        "n1.a n1.b n1.c", messages("n1.b", 200, 200, rate=40), relays="", reach="node", until=8_000,
        faults=[fault("pause", 1000, process=hung, length=6000), *modules(1100, "n1/1")],
    )  # fmt: skip
    assert run.is_good, run.sentences
    assert run.halted() == [hung]
    assert reason(run, hung) == "excluded"
    for survivor in {"n1.a", "n1.b", "n1.c"} - {hung}:
        assert standstill(run, survivor, since=300, until=5_000) < 600


def test_within_a_node_a_member_that_hangs_does_not_fill_the_mailbox() -> None:
    run = simulate(
        "n1.a n1.b n1.c", messages("n1.b", 200, 600, rate=100), relays="", reach="node", until=8_000, elements=16, reserve=2,
        faults=[fault("pause", 1000, process="n1.c", length=6000)],
    )  # fmt: skip
    assert run.is_good, run.sentences
    assert run.halted() == ["n1.c"]
    assert standstill(run, "n1.b", since=300, until=6_000, kind="send") < 400


@pytest.mark.parametrize("reach", ["lan", "node"])
def test_a_member_that_only_sends_sees_the_views_of_the_others(reach: str) -> None:
    """Its views are those of the receivers, from its first on: one leaves, one joins, one hangs, and a box crashes."""
    node = "n2" if reach == "lan" else "n1"
    seen: dict[str, list[tuple[int, tuple[str, ...]]]] = {}

    class Noted(Layer):
        def install(self, view: View) -> None:
            seen.setdefault(self.me, []).append((view.number, view.members))
            self.host.install(view)

    run = simulate(
        f"n1.a n1.s {node}.b {node}.c {node}.d", messages("n1.s", 200, 60, rate=20), relays="", later="n1.x", reach=reach,
        senders=("n1.s",), until=4_000, layer=Noted,
        faults=[
            fault("leave", 500, process=f"{node}.b"), fault("join", 900, process="n1.x", group="g"), *modules(1300, "n1/1"),
            fault("pause", 1500, process=f"{node}.c", length=1500),
        ],
    )  # fmt: skip
    assert run.is_good, run.sentences
    assert run.halted() == [f"{node}.c"]
    assert seen["n1.s"] == seen["n1.a"]
    assert set(seen["n1.s"][-1][1]) == {"n1.a", "n1.x", f"{node}.d"}
    assert run.delivered("n1.s") == []


def test_a_step_of_an_excluded_process_changes_nothing() -> None:
    parameters = Parameters()
    copy = SimCopy(layout(parameters))
    steps: list[str] = []
    member = Box(cast(Host, SimpleNamespace(me="n1.a")), "g", parameters)
    member.place, member.listed = 0, {0}
    copy.connect(0, Connection("n1.a"))
    step = member.operate(0, "read", lambda copy: steps.append("read")).step
    assert step(copy) is not EXCLUDED
    copy.connect(0, Connection("n1.a", gone=True))
    assert step(copy) is EXCLUDED
    copy.connect(0, Connection("n1.b"))
    assert step(copy) is EXCLUDED
    copy.disconnect(0)
    assert step(copy) is EXCLUDED
    assert steps == ["read"]


def test_a_relay_is_refused_where_a_later_one_has_been() -> None:
    parameters = Parameters()
    copy = SimCopy(layout(parameters))
    steps: list[int] = []
    relays = []
    for seat in (3, 7):
        box = Box(cast(Host, SimpleNamespace(me=f"n1.r{seat}")), "g", parameters)
        box.token = seat
        relays.append(box.operate(0, "store", lambda copy, seat=seat: steps.append(seat)).step)  # type: ignore[misc]
    earlier, later = relays
    earlier(copy)
    later(copy)
    assert earlier(copy) is EXCLUDED
    assert steps == [3, 7]
    assert copy.header().token == 7


def test_a_machine_that_was_suspended_excludes_no_process() -> None:
    """All processes of a node stop at once for 3 s, and go on at once: each knows nothing about the time in between."""
    members = ("n1.a", "n1.b", "n1.c")
    run = simulate(
        " ".join(members), messages("n1.b", 200, 200, rate=40), relays="", reach="node", until=6_000,
        faults=[fault("pause", 1000, process=name, length=3000) for name in members],
    )  # fmt: skip
    assert run.is_good, run.sentences
    assert run.halted() == []
    assert not run.of("suspect")


def test_a_relay_hears_of_what_is_stored_while_it_removes_elements() -> None:
    """The relay looks last before it waits, so no message waits for the end of that wait (a second here). Operations are slow,
    so that messages are often stored while elements are removed."""
    second = Duration(1000 * MS)
    run = simulate(
        "n1.a n1.b n2.a n2.b", messages("n2.b", 3000, 60, rate=7), messages("n1.b", 3010, 60, rate=11), relays="", until=13_000,
        acknowledge=Duration(20 * MS), retry=second, poll=second, present_every=second, misses=20,
        operation=Duration(4 * MS), history=512, elements=512,
    )  # fmt: skip
    assert not run.violated, run.sentences
    sent = {(row["sender"], row["seq"]): row["true_time"] for row in run.of("send")}
    latency = [row["true_time"] - sent[row["sender"], row["seq"]] for row in run.of("deliver")]
    assert latency
    assert max(latency) < 50 * MS  # looking first and removing afterwards, it was 108 ms


@pytest.mark.parametrize("members", ["n1.a n1.b n1.c", "n1.a n1.b n2.a n2.b"])
@pytest.mark.parametrize("retry", [5, 20, 21, 30, 200])
def test_a_distributor_that_has_nothing_to_do_does_not_take_itself_for_stopped(members: str, retry: float) -> None:
    """A distributor that has not run for half of ``misses`` x ``present_every``, 20 ms here, asks first whether it still is one.
    With a ``retry`` longer than that it did so again and again, and numbered nothing for as long as the run lasted."""
    run = simulate(
        members, messages("n1.b", 300, 20, rate=10), relays="", until=3000, misses=2, present_every=Duration(20 * MS),
        delta=Duration(9 * MS), poll=Duration(2 * MS), retry=Duration(round(retry * MS)),
        faults=[fault("crash", 700, process="n1.c")] if "n1.c" in members else [],
    )  # fmt: skip
    assert run.is_good, run.sentences
    assert run.halted() == []
    sent = {(row["sender"], row["seq"]): row["true_time"] for row in run.of("send")}
    latency = [row["true_time"] - sent[row["sender"], row["seq"]] for row in run.of("deliver")]
    assert len(latency) >= 40
    assert max(latency) < 50 * MS


def test_without_a_reserve_no_time_is_stated_and_a_full_mailbox_stands_still() -> None:
    """The thesis has no reserve. Senders of n1 fill its mailbox of four elements with messages that have no number yet."""
    senders = ("n1.a", "n1.b", "n1.c", "n2.a", "n2.b")
    runs = {
        reserve: simulate(
            " ".join(senders), *(messages(name, 300, 200, rate=100) for name in senders), relays="", until=3000, drain=4000,
            elements=4, history=8, reserve=reserve,
        )
        for reserve in (0, 1)
    }  # fmt: skip
    assert (runs[0].summary.quiet, runs[1].summary.quiet) == (False, True)
    none, stated = (progress(Parameters(elements=4, reserve=reserve), {"g": senders}) for reserve in (0, 1))
    assert stated.within is not None
    assert none.within is None
    assert "reserve" in none.because


FEW_ROUNDS = """
protocol = "dedos"
seed = 44
members = ["n1.a", "n1.b", "n1.c", "n1.d"]
duration = "4s"
parameters = { present_every = "20ms", delta = "9ms", misses = 2, senders = ["n1.b"] }
workload = [{ rate = 10, arrivals = "poisson" }]
fault = [
    { kind = "crash", at = "455ms", process = "n1.c" },
    { kind = "leave", at = "479ms", process = "n1.a" },
    { kind = "sluggish", at = "1400ms", process = "n1.d", length = "1100ms" },
    { kind = "restart", at = "2525ms", process = "n1.d" },
]
"""


@pytest.mark.parametrize("mended", [True, False])
def test_a_distributor_that_takes_over_with_few_rounds_numbers_messages(mended: bool) -> None:
    """Without the timer's rule messages waited for 30 s, until the run ended; 1.68 s are allowed."""
    trace = TraceBuffer()
    seldom = MUTANTS.variants["a distributor that has nothing to do looks as seldom as it asks again"]
    with nullcontext() if mended else seldom.applied():
        summary = Simulation(parse(FEW_ROUNDS), trace=trace).run()
    found = verify(trace.table())
    assert ("progress" in {violation.property for violation in found.violations}) != mended
    assert summary.quiet == mended


@pytest.mark.parametrize(
    ("members", "parameters", "refused"),
    [
        ("n1.a n1.b n2.a", {"silence": Duration(410 * MS)}, "450ms (silence + 2 poll), but its node may count as crashed"),
        ("n1.a n1.b n2.a", {"silence": Duration(409 * MS)}, ""),
        ("n1.a n1.b n2.a", {"poll": Duration(100 * MS)}, "700ms (silence + 2 poll)"),
        ("n1.a n1.b n2.a", {"poll": Duration(100 * MS), "misses": 8}, ""),
        ("n1.a n2.a", {"poll": Duration(100 * MS)}, ""),
        ("n1.a n2.a", {"poll": Duration(100 * MS), "networked": ("n1.r", "n1.a", "n2.a")}, "700ms (silence + 2 poll)"),
        ("n1.a n1.b", {"poll": Duration(100 * MS)}, ""),
    ],
)  # fmt: skip
def test_a_node_notices_a_process_that_hangs_before_it_is_given_up(
    members: str, parameters: dict[str, Any], refused: str
) -> None:
    """Otherwise a hung relay costs the members on its node, too. Where each process is alone on its node, or there is one node,
    nothing is lost."""
    said = check(Parameters(**parameters), {"g": tuple(members.split())})
    assert (said is None) == (not refused)
    assert refused in (said or "")
