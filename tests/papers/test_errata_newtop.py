"""Counter-examples of docs/errata.md (newtop) that no figure of the thesis shows: each as printed, and as it is here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from plainchant.engine import Engine, Host
from plainchant.model import MS, SECOND, Duration, GroupId, ProcessId
from plainchant.protocols.newtop import Process
from plainchant.protocols.newtop.flow import Flow
from plainchant.protocols.newtop.part import Part
from plainchant.scenario.model import Delay, LinkOverride, Network, Scenario, Workload
from plainchant.sim import Simulation
from plainchant.sim.summary import Summary
from plainchant.trace import TraceBuffer

Maker = Callable[[Host, Any], Engine]


def sends(sender: ProcessId, group: GroupId, count: int, at: int = 0) -> Workload:
    """So many messages at once, one a packet, at a time (ms)."""
    return Workload(senders=(sender,), group=group, rate=1000.0, burst=count, count=count, start=Duration(at * MS))


def link(source: ProcessId, target: ProcessId, delay: int) -> LinkOverride:
    return LinkOverride(source=source, target=target, delay=Delay("constant", Duration(delay * MS)))


def perform(scenario: Scenario, make: Maker) -> Summary:
    return Simulation(scenario, trace=TraceBuffer(), run="r", make=make).run()


# --- 8: a counter of its own for each group ---------------------------------------------------------------------------


class NoFlowPart(Part):
    """Null messages are owed by block numbers alone."""

    __slots__ = ()

    @property
    def owes_flow(self) -> bool:
        return False


class NoFlowNulls(Process):
    def make_part(self, group: GroupId, members: tuple[ProcessId, ...]) -> Part:
        return NoFlowPart(self.host, group, members, self.parameters)


@pytest.mark.parametrize(("make", "quiet"), [(NoFlowNulls, False), (Process, True)])
def test_8_a_member_whose_block_counter_is_ahead_owes_null_messages_all_the_same(make: Maker, quiet: bool) -> None:
    """q sends 1, 2 and 4 in y, and null messages in x for them: the third has block 4 and is q's third in x. p's own block 4 is
    its fourth. By its block number q owes nothing more, and p's fifth waits for q's fourth."""
    scenario = Scenario(
        protocol="newtop",
        members=("p", "q", "s"),
        groups={"x": ("p", "q"), "y": ("q", "s")},
        duration=Duration(100 * MS),
        drain=Duration(5 * SECOND),
        parameters={"blocks": 3, "pack": False, "order": "slow"},
        network=Network(delay=Delay("constant", Duration(1 * MS))),
        workload=(sends("q", "y", 3), sends("p", "x", 4, at=2)),
    )
    summary = perform(scenario, make)
    assert summary.quiet is quiet
    assert (summary.messages_sent == 7) is quiet


# --- 8: stable is not delivered ---------------------------------------------------------------------------------------


class NoRoom(Flow):
    """fl1 to fl3 and nothing else."""

    __slots__ = ()

    def room(self, flow: int) -> bool:
        return True


class NoRoomProcess(Process):
    def make_part(self, group: GroupId, members: tuple[ProcessId, ...]) -> Part:
        part = super().make_part(group, members)
        part.flow = NoRoom(part.matrix, part.me, self.parameters.blocks)
        return part


@pytest.mark.parametrize(("make", "bounded"), [(NoRoomProcess, False), (Process, True)])
def test_8_stability_alone_does_not_bound_what_waits(make: Maker, bounded: bool) -> None:
    """p is in x and y. Blocks of x are complete and stable within milliseconds, delivered only when y's are, whose s is far."""
    most = 0

    class Counting(make):  # type: ignore[misc, valid-type]
        def _settle(self) -> None:
            nonlocal most
            super()._settle()
            most = max([most, *(len(column.queue) for part in self.parts.values() for column in part.matrix.members)])

    scenario = Scenario(
        protocol="newtop",
        members=("p", "q", "s"),
        groups={"x": ("p", "q"), "y": ("p", "s")},
        duration=Duration(200 * MS),
        parameters={"blocks": 8, "pack": False, "probe_after": Duration(SECOND)},
        network=Network(delay=Delay("constant", Duration(1 * MS)), link=(link("s", "p", 80),)),
        workload=(Workload(senders=("q",), group="x", rate=1000.0),),
    )
    summary = perform(scenario, Counting)
    assert summary.quiet
    assert (most <= 8) is bounded
