"""``plainchant bench groups``: what many overlapping groups cost, beside what their shape allows.

A ring of groups that share members with their neighbours, in the simulator. With few senders every message makes the members of
its group, and of the groups that overlap it, send null messages; that may grow with the size of a group times the groups that
a process is in, and no faster. With steady traffic everywhere messages complete each other's blocks.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import resource
import time
from typing import Annotated, Any, Final

import typer

from plainchant.cli.console import guarded, output, plain_table
from plainchant.cli.options import JsonOption
from plainchant.core.model import MS, SECOND, Duration, UsageError
from plainchant.protocols.newtop.parameters import ORDERS
from plainchant.scenario.model import Scenario, Workload
from plainchant.scenario.read import nearest
from plainchant.sim import Simulation

from .bench_sim import Forgetful
from .telling import progress

SPARSE: Final = 20.0
"""Messages a second of all senders together in a group where few send."""
STEADY: Final = 200.0
"""Messages a second of each member in each of its groups where all send."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """A ring of groups; each has ``shared`` members in common with the next one."""

    members: int
    groups: int
    shared: int
    steady: bool

    @property
    def size(self) -> int:
        return self.members // self.groups + self.shared

    @property
    def groups_a_process(self) -> float:
        return self.groups * self.size / self.members

    def scenario(self, order: str) -> Scenario:
        names = [f"p{number + 1}" for number in range(self.members)]
        step = self.members // self.groups
        groups = {
            f"g{number + 1}": tuple(names[(number * step + place) % self.members] for place in range(self.size))
            for number in range(self.groups)
        }
        if self.steady:
            workload = (Workload(rate=STEADY),)
        else:
            senders = tuple(members[len(members) // 2] for members in groups.values())
            workload = (Workload(rate=SPARSE, senders=senders, arrivals="poisson"),)
        parameters = {"order": order, "suspect_after": 0}  # static: the protocol's own null messages, without signs of life
        return Scenario(
            protocol="newtop", name="bench", members=tuple(names), groups=groups, parameters=parameters, workload=workload,
            duration=Duration((100 if self.steady else 500) * MS), drain=Duration(20 * SECOND),
        )  # fmt: skip


@guarded
def bench_groups(
    members: Annotated[int, typer.Option(help="Processes.", min=20)] = 1000,
    groups: Annotated[int, typer.Option(help="Groups.", min=3)] = 100,
    order: Annotated[str, typer.Option(help="Order: total, slow, fast, relative or cbcast.")] = "total",
    as_json: JsonOption = False,
) -> None:
    """Measure many overlapping groups in the simulator (newtop).

    A ring of groups, each sharing 2 or 10 members with the next; one sender a group, and everybody sending steadily; and the same
    with a tenth of the processes and groups, to see what does not grow. Cost: packets that arrive, and processor time, for each
    delivered message. Each run is a process of its own.

    Examples:

      plainchant bench groups

      plainchant bench groups --members 200 --groups 20 --json
    """
    if order not in ORDERS:
        raise UsageError(f'there is no order "{order}"; {nearest(order, ORDERS)}')
    shapes = [
        Shape(members // part, groups // part, shared, steady)
        for steady in (False, True) for part in (10, 1) for shared in (2, 10) if groups // part >= 3
    ]  # fmt: skip
    rows = []
    for shape in shapes:
        progress(f"{shape.members} members in {shape.groups} groups of {shape.size}", as_json)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows.append(pool.apply(measure, (shape, order)))
    if as_json:
        print(json.dumps({"order": order, "rows": rows}))
        return
    table = plain_table("members, groups of size", "traffic", "nulls", "arrivals", "of size x groups", "µs", "MiB")
    for row in rows:
        allowed = row["size"] * row["groups_a_process"]
        table.add_row(
            f"{row['members']:,} in {row['groups']} of {row['size']}", row["traffic"], f"{row['nulls_a_message']:.1f}",
            f"{row['arrivals_a_delivery']:.1f}", f"{row['arrivals_a_delivery'] / allowed:.2f} of {allowed:.1f}",
            f"{row['us_a_delivery']:.0f}", f"{row['mib']}",
        )  # fmt: skip
    console = output()
    console.print(table)
    console.print("nulls: for each message sent; arrivals (packets), µs (processor time): for each message delivered;")
    console.print("of size x groups: arrivals beside the members of a group times the groups that a process is in.")


def measure(shape: Shape, order: str) -> dict[str, Any]:
    """One run: what it cost."""
    began = time.process_time()
    summary = Simulation(shape.scenario(order), trace=Forgetful()).run()
    seconds = time.process_time() - began
    delivered = summary.messages_delivered
    nulls = summary.packets_by_type.get("Null", 0) + summary.packets_by_type.get("Status", 0)
    return {
        "members": shape.members,
        "groups": shape.groups,
        "size": shape.size,
        "groups_a_process": shape.groups_a_process,
        "traffic": "steady" if shape.steady else "sparse",
        "quiet": summary.quiet,
        "sent": summary.messages_sent,
        "delivered": delivered,
        "nulls_a_message": round(nulls / summary.messages_sent, 2),
        "arrivals_a_delivery": round(summary.interrupts / delivered, 2),
        "us_a_delivery": round(seconds / delivered * 1e6, 1),
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
