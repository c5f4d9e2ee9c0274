"""The paper's machines and network as a cost model: calibrated on Fig. 6, everything else predicted.

Theory of operation
-------------------
The network is that of the scenario ``ethernet-1989``: one 10 Mbit/s medium for all; a frame costs its bytes, preamble and
gap; stations that wait at once lose slots by collisions. A processor does one thing at a time and spends ``send`` on a
packet that it sends and ``receive`` on one that it receives, whatever is in it. The sender on the sequencer's node has no
packet to send, but Fig. 3 has it ask the sequencer like everybody else, so that its request costs the sequencer's processor
``receive`` too.

These two costs are all that is not known from standards, and Fig. 6 has two numbers for them: its height is twice their
sum (a request and a broadcast, each sent and received), its slope ``receive`` over the history's length (each further node's
acknowledgement, once a history, is received by the sequencer before the next request). They are fitted to the nine points by
least squares, on simulated runs (:func:`calibrate`); no other figure enters the fit. The cost of the request on the sequencer's
own node is an assumption that was made with Fig. 7 in view; docs/reproduce.md says how much depends on it.

A sender's delay is taken as the time between two of its own messages coming back: the next call follows at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from plainchant.core.model import MS, SECOND, US, Duration
from plainchant.lab.errors import LabError
from plainchant.scenario import find, load
from plainchant.scenario.model import Scenario, Workload
from plainchant.sim import Summary
from plainchant.sim.network import ESTIMATED_OVERHEAD

from ..claims import Context
from ..observe import trace_of
from ..runs import names
from .broadcasts import CALM, deliveries

HISTORY: Final = 20  # HISTORY_SIZE in both figures.
FIG_6: Final[Mapping[int, float]] = {2: 1.32, 3: 1.35, 4: 1.38, 5: 1.40, 6: 1.43, 7: 1.45, 8: 1.48, 9: 1.50, 10: 1.53}
"""Group size to delay in ms, as printed."""
FIG_7_RATE: Final[Mapping[int, int]] = {2: 1333, 3: 1428, 4: 1538, 5: 1562, 6: 1500, 7: 1521}
"""Senders to broadcasts a second, as printed."""
FIG_7_DELAY: Final[Mapping[int, float]] = {2: 1.5, 3: 2.1, 4: 2.6, 5: 3.2, 6: 4.0, 7: 4.6}  # Senders to delay in ms, as printed.
NODES: Final = 10  # Group size of Fig. 7.
ROUNDED: Final = 0.005  # Fig. 6 is printed to a hundredth of a millisecond.

SEQUENCER: Final = "p1"

_STEP: Final = 20 * US
_ROUNDS: Final = 6
_WARM_UP: Final = 40
"""A sender's first messages are not counted: two histories, after which acknowledgements come in their rhythm."""


@dataclasses.dataclass(frozen=True, slots=True)
class Costs:
    """Processor time for a packet, in ns."""

    send: int
    receive: int


START: Final = Costs(300 * US, 300 * US)  # Where the fit begins: it does not matter where.


@dataclasses.dataclass(frozen=True, slots=True)
class Calibration:
    """The costs that fit Fig. 6 best, and how well."""

    costs: Costs
    delays: Mapping[int, float]  # Group size to simulated delay, in ms.

    @property
    def worst(self) -> float:
        """The largest difference from Fig. 6, in ms."""
        return max(abs(self.delays[size] - printed) for size, printed in FIG_6.items())


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """An experiment of section 3: who sends how much on how many nodes."""

    costs: Costs
    nodes: int
    senders: tuple[str, ...]
    size: int = 0
    seconds: float = 1.0
    seed: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Performance:
    """What came of it."""

    rate: float  # Broadcasts a second.
    delays: Mapping[str, float]  # Sender to its mean delay in ms.
    packets: Mapping[str, int]
    lost: int
    busy: float  # Share of the time in which the medium carried frames, preambles and gaps included.

    @property
    def deviation(self) -> float:
        """Mean deviation of the senders' delays from their mean, in ms."""
        return _deviation(list(self.delays.values()))

    @property
    def deviation_of_remote(self) -> float:
        """The same without the sender on the sequencer's node."""
        return _deviation([delay for sender, delay in self.delays.items() if sender != SEQUENCER])


def _deviation(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum(abs(value - mean) for value in values) / len(values)


def scenario_of(load_: Load) -> Scenario:
    """The shipped scenario, with these costs and this load; acknowledgements once a history, as the paper's 2.5 packets say.

    It is made where the command runs: tasks elsewhere have the package, but not its scenario files."""
    base = load(find("ethernet-1989"))
    costs, members = load_.costs, names(load_.nodes)
    network = dataclasses.replace(base.network, send_cost=Duration(costs.send), receive_cost=Duration(costs.receive))
    own = {SEQUENCER: Duration(costs.receive)}
    workload = [
        Workload(senders=(sender,), closed=1, size=load_.size, cost=own.get(sender, Duration(0))) for sender in load_.senders
    ]
    parameters = {**base.parameters, **CALM, "history": HISTORY, "acknowledge_every": HISTORY}
    length = Duration(round(load_.seconds * SECOND))
    made = dataclasses.replace(base, seed=load_.seed, members=members, groups={"g": members}, parameters=parameters)
    return dataclasses.replace(made, network=network, workload=tuple(workload), duration=length, drain=Duration(0))


def perform(scenario: Scenario) -> Performance:
    """Runs an experiment."""
    summary, table = trace_of(scenario)
    delays = {}
    for sender in (workload.senders[0] for workload in scenario.workload):
        times, senders = deliveries(table, sender, "true_time", "sender")
        back = [time for time, whose in zip(times, senders, strict=True) if whose == sender]
        delays[sender] = _mean_gap(back) / MS
    (times,) = deliveries(table, SEQUENCER, "true_time")
    busy = _bits(scenario, summary) * SECOND / (scenario.network.bandwidth * summary.virtual_time)
    return Performance(SECOND / _mean_gap(times), delays, summary.packets_by_type, summary.packets_lost, busy)


def _mean_gap(times: Sequence[int]) -> float:
    """The mean time between two, over whole histories after the first few messages."""
    settled = times[_WARM_UP:]
    histories = (len(settled) - 1) // HISTORY
    if not histories:
        raise LabError(f"a sender got only {len(times)} messages through: simulate for longer")
    return (settled[histories * HISTORY] - settled[0]) / (histories * HISTORY)


def _bits(scenario: Scenario, summary: Summary) -> int:
    """Bits that the medium carried, preambles and gaps included; all messages of a run are of one size."""
    network = scenario.network
    with_message = sum(summary.packets_by_type.get(kind, 0) for kind in ("Request", "Broadcast"))
    frame = max(ESTIMATED_OVERHEAD + scenario.workload[0].size + network.header, network.minimum_frame)
    return 8 * (with_message * frame + (summary.packets_sent - with_message) * network.minimum_frame)


def run_all(context: Context, loads: Iterable[Load]) -> list[Performance]:
    """Sweeps over experiments."""
    return context.sweep(perform, [scenario_of(each) for each in loads])


def calibration(context: Context) -> Calibration:
    """The calibration, made once for all claims that need it."""
    return context.once("calibration", calibrate)


def calibrate(context: Context) -> Calibration:
    """Fits both costs to Fig. 6 by least squares, with derivatives taken from simulated runs (Gauss-Newton)."""
    sizes = tuple(FIG_6)
    printed = np.array([FIG_6[size] for size in sizes])
    seconds = context.of(0.3, 2.0)
    costs = START
    for _ in range(_ROUNDS):
        tried = (costs, Costs(costs.send + _STEP, costs.receive), Costs(costs.send, costs.receive + _STEP))
        loads = [Load(each, size, ("p2",), seconds=seconds) for each in tried for size in sizes]
        delays = np.array([run.delays["p2"] for run in run_all(context, loads)]).reshape(len(tried), len(sizes))
        slopes = (delays[1:] - delays[0]).T / _STEP
        (send, receive), *_ = np.linalg.lstsq(slopes, printed - delays[0], rcond=None)
        better = Costs(_whole_us(costs.send + send), _whole_us(costs.receive + receive))
        if better == costs:
            break
        costs = better
    runs = run_all(context, [Load(costs, size, ("p2",), seconds=seconds) for size in sizes])
    return Calibration(costs, {size: run.delays["p2"] for size, run in zip(sizes, runs, strict=True)})


def _whole_us(ns: float) -> int:
    return max(0, round(ns / US)) * US


def slope(delays: Mapping[int, float]) -> tuple[float, float]:
    """Slope (µs a node) and delay at two nodes (ms) of the line through delays."""
    sizes = np.array(list(delays), dtype=float)
    line = np.polyfit(sizes - 2, np.array(list(delays.values())), 1)
    return float(line[0]) * 1000, float(line[1])


def heavy_load(context: Context) -> dict[int, Performance]:
    """Fig. 7 as the calibrated model predicts it: senders to performance."""
    return context.once("heavy load", _heavy_load)


def _heavy_load(context: Context) -> dict[int, Performance]:
    costs = calibration(context).costs
    counts = tuple(FIG_7_RATE)
    loads = [Load(costs, NODES, names(senders), seconds=context.of(1.0, 8.0)) for senders in counts]
    return dict(zip(counts, run_all(context, loads), strict=True))
