"""One run of a scenario in virtual time.

Theory of operation
-------------------
One seed decides everything. Whatever draws at random has a stream of its own, named by a string, so that more draws in one place
do not shift those in another, and nothing depends on hashes or on the order of sets. The run has two phases: until ``duration``
senders send and faults happen; then, if the scenario is drained, everything heals and the run goes on until no process waits for
anything during a whole *settle* period of the protocol, or until the ``drain`` bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Protocol

from ..core.engine import Engine, Host
from ..core.model import MS, TRACE_VERSION, Form, Join, Met, Packet, UsageError
from ..core.names import process_name
from ..core.wire import Codec
from ..layers.fragmentation import Fragmentation
from ..protocols.registry import Description, describe, promised
from ..scenario.faults import Injector, describe_background, describe_fault, schedule_of
from ..scenario.links import background_loss
from ..scenario.load import DEFAULT_GROUP
from ..scenario.model import Fault, Scenario, clock_of, first_groups, groups_ever
from ..scenario.traffic import sends
from .application import Attendant, check_application
from .check import check_scenario
from .clocks import ProcessClock, agreeing
from .faults import SimFaults
from .host import History, SimHost, World
from .kernel import Kernel
from .listener import Listener
from .memory import SimMemory, Watch
from .network import Networks, SimNetwork
from .sends import SendTimes
from .summary import Summary
from .workload import Numbering, Source

_SHORTEST_SETTLE = 1 * MS

Make = Callable[[Host, Any], Engine]
Wrap = Callable[[SimHost, Callable[[Host], Engine]], Engine]
Applications = Mapping[str, Any] | Callable[[str], Any]


class Trace(Protocol):
    """Where rows go: ``trace.TraceBuffer`` or ``trace.TraceWriter``."""

    def history(self, run: str, process: str) -> Any: ...
    def flush_if_full(self) -> None: ...


class Simulation:
    """Runs a scenario once.

    ``make`` replaces the protocol's engine factory (variants, toys) and ``description`` its whole description. ``wrap`` puts
    further layers outside: it gets a process's host and what makes the stack inside, and gives the whole stack. ``applications``
    maps process names to applications, or makes one for the name of each incarnation. With ``tolerate`` an engine that raises
    only halts its process. ``packets`` are those of further layers, for ``network.wire``. ``progress`` is called now and then
    with the virtual time. ``watch`` is called after every operation on shared memory, with the process, the request and the
    memory of its node: what it raises ends the run. A scenario that cannot be is refused with the sentence that its file would
    get.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        trace: Trace,
        run: str = "r0",
        make: Make | None = None,
        wrap: Wrap | None = None,
        applications: Applications | None = None,
        description: Description | None = None,
        tolerate: bool = False,
        accept_rows: bool = False,
        packets: tuple[type[Packet], ...] = (),
        progress: Callable[[int], None] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.scenario = scenario
        check_scenario(scenario, description)
        self.description = description if description is not None else describe(scenario.protocol)
        self.parameters = self.description.parameters(**scenario.parameters)
        self._node_of = self.description.placement.node_of
        self._trace = trace
        self._run = run
        self._make: Make = make if make is not None else self.description.make
        self._wrap = wrap
        self._applications = applications if applications is not None else {}
        self._progress = progress
        self.groups = scenario.groups or {DEFAULT_GROUP: scenario.members}
        if isinstance(self._applications, Mapping):
            for name, application in self._applications.items():
                if name not in (*scenario.members, *scenario.later):
                    raise UsageError(f"applications names {name!r}, which is no process of this scenario")
                check_application(application, name)
        self._kernel = Kernel()
        self._networks = self._make_networks(packets)
        self.hosts: list[SimHost] = []
        self._incarnations: dict[str, int] = {}  # how many each process has had
        self.latest: dict[str, SimHost] = {}  # the last incarnation of each process
        middle, halted = self._stream("faults/middle"), self._stream("faults/halted")
        self._injector = Injector(SimFaults(self._kernel, self._networks, self, middle), self, scenario.random, halted)
        self.memories = self._make_memories(watch)  # shared memory by node; where there are no nodes, under an empty name
        self._start_detail = self._describe_start()
        judged = "progress" in self._start_detail["promises"]
        room = self.description.placement.room
        sends = self._kernel.sends = SendTimes(self.hosts)
        self._world = World(
            *(scenario.seed, self._kernel, self._networks, sends, self._stopped, self._entered_by_itself, self._renamed),
            max_packet=room(self.parameters) if room is not None else scenario.network.max_packet,
            memory_of=self.memory_of,
            views=self.description.views,
            only_send=self.description.placement.only_send(self.parameters),
            admits=self.description.admits(self.parameters),
            tolerate=tolerate,
            accept_rows=accept_rows or judged,
            request_rows=judged,
        )
        self._clocks: dict[str, ProcessClock] = {}
        self._agreeing = (0, 0)
        if self.memories and self.timely:
            placement = self.description.placement
            elsewhere = placement.remote(self.parameters)
            clocks = [self.clock(place) for place in (*scenario.members, *scenario.later) if place not in elsewhere]
            self._agreeing = agreeing(clocks, placement.skew(self.parameters), self._longest)
        self._entered: dict[str, dict[str, None]] = {}
        self._names: dict[str, str] = {}  # what groups were renamed to; nothing if they were closed
        self._sources: list[Source] = []
        self._faults = schedule_of(scenario, self.description, self.parameters)
        unnoticed = scenario.memory.detection if self.memories else 0
        self._settle = max(_SHORTEST_SETTLE, self.description.settle(self.parameters), 2 * unnoticed)
        self._quiet_since: int | None = None
        self._not_quiet: dict[str, str] = {}
        self._quiet = False

    def run(self) -> Summary:
        """Runs to the end and says what happened; the caller closes the trace."""
        if self.hosts:
            raise UsageError("a Simulation runs once; make a new one of the same scenario to run it again")
        scenario = self.scenario
        self._kernel.at(scenario.duration, self._end_of_duration)
        forms = {group: Form(tuple(members), fresh=True) for group, members in self.groups.items()}
        for host in [self._create(place) for place in scenario.members]:
            self._start(host, {group: form for group, form in forms.items() if host.place in form.members}, None)
        loss = background_loss(scenario.network)
        if loss and self.hosts and self.hosts[0].notes_requests:
            self.hosts[0].note("fault", describe_background(loss))
        self._injector.schedule(self._faults)
        self._kernel.run(self._housekeeping)
        self._write_end()
        self._trace.flush_if_full()
        return self._summary()

    # --- who takes part (Population) ----------------------------------------------------------------------------------

    def clock(self, place: str) -> ProcessClock:
        if place not in self._clocks:
            given = clock_of(place, self.scenario.clock)
            self._clocks[place] = ProcessClock(given.offset, given.drift)
        return self._clocks[place]

    def groups_of(self, place: str) -> tuple[str, ...]:
        """The groups that a place's next process enters: those of the process before, by their present names."""
        entered = self._entered.get(place)
        groups = tuple(entered) if entered is not None else first_groups(place, self.groups, self.scenario.members)
        if not self._names:
            return groups
        return tuple(dict.fromkeys(name for group in groups if (name := self._name_now(group))))

    def closed(self, group: str) -> None:
        self._names[group] = ""

    def _name_now(self, group: str) -> str:
        """What a group is called now; nothing if it was closed."""
        while group in self._names:
            group = self._names[group]
        return group

    def contacts(self, place: str, group: str) -> Join:
        if group in self.groups:
            names = dict.fromkeys((*self.groups[group], *self.scenario.later))
        else:
            names = dict.fromkeys(name for name, entered in self._entered.items() if group in entered)
        return Join(tuple(self.latest[name].me for name in names if name != place and name in self.latest))

    def come(self, place: str, groups: Mapping[str, Form | Join], fault: Fault) -> None:
        self._start(self._create(place), groups, fault)

    def _create(self, place: str) -> SimHost:
        incarnation = self._incarnations.get(place, 0)
        self._incarnations[place] = incarnation + 1
        name = process_name(place, incarnation)
        host = self._new_host(name, place, self._trace.history(self._run, name))
        host.engine = self._stack(host) if self._wrap is None else self._wrap(host, self._stack)
        host.receive = host.engine.receive
        self.hosts.append(host)
        self.latest[place] = host
        self._networks.connect(host)
        return host

    def _new_host(self, name: str, place: str, history: History) -> SimHost:
        return SimHost(self._world, name, place, history, self.clock(place))

    def _stack(self, host: Host) -> Engine:
        return Fragmentation(host, lambda inner: self._make(inner, self.parameters))

    def _start(self, host: SimHost, groups: Mapping[str, Form | Join], fault: Fault | None) -> None:
        host.note("start", self._start_detail)
        if fault is not None:
            host.note("fault", describe_fault(fault))
        if host.memory is not None:
            self._begin_in_memory(host, host.memory)
        host.application = self._application_side(host)
        host.turn(host.engine.start)
        self._introduce(host)
        for group, how in groups.items():
            self.enter(host, group, how)
        host.request(host.application.started)

    def enter(self, host: SimHost, group: str, how: Form | Join) -> None:
        sources = self._attend(host, group)
        host.enter(group, how)
        for source in sources:
            source.start()

    def _attend(self, host: SimHost, group: str) -> list[Source]:
        """The workload of a process in a group that it enters."""
        self._names.pop(group, None)
        self._entered.setdefault(host.place, {})[group] = None
        attendant = host.application
        if not isinstance(attendant, Attendant):
            return []
        # One that is back in a group it had left goes on after the last message that got a number.
        numbering = attendant.numbering[group] = Numbering(host.taken(group))
        sources = [
            Source(
                *(host, group, workload, numbering, self._stream(f"workload/{host.me}/{group}/{number}")),
                stop=self.scenario.duration,
                stream=f"w{number}",
            )
            for number, workload in enumerate(self.scenario.workload)
            if sends(workload, host.place, group)
        ]
        attendant.attach(group, sources)
        self._sources += sources
        return sources

    def _entered_by_itself(self, host: SimHost, group: str) -> None:
        """A process is in a group that it, or another process, proposed: its workload there begins."""
        for source in self._attend(host, group):
            source.start()

    def _renamed(self, host: SimHost, old: str, new: str, shift: int) -> None:
        self._names[old] = new
        self._names.pop(new, None)
        self._entered.setdefault(host.place, {}).pop(old, None)
        self._entered[host.place][new] = None
        if isinstance(host.application, Attendant):
            host.application.rename(old, new, shift)

    def _application_side(self, host: SimHost) -> Listener:
        if isinstance(self._applications, Mapping):
            return Attendant(host, self._applications.get(host.place))
        application = self._applications(host.me)
        check_application(application, host.me)
        return Attendant(host, application)

    # --- shared memory ------------------------------------------------------------------------------------------------

    @property
    def memory(self) -> SimMemory | None:
        """Shared memory, where there is one for all processes."""
        return self.memories.get("")

    def memory_of(self, place: str) -> SimMemory | None:
        return self.memories.get(self.node_of(place))

    def node_of(self, place: str) -> str:
        """The node of a process; empty: there are no nodes."""
        return self._node_of(self.parameters, place) if self._node_of is not None else ""

    def _make_memories(self, watch: Watch | None) -> dict[str, SimMemory]:
        placement, scenario = self.description.placement, self.scenario
        if placement.memory is None:
            return {}
        layout = placement.memory(self.parameters)
        more = {"timely": placement.timely, "watch": watch, "send_length": placement.send_length}
        nodes = dict.fromkeys(self.node_of(place) for place in (*scenario.members, *scenario.later))
        return {node: self._new_memory(self._kernel, scenario.memory, layout, scenario.seed, node=node, **more) for node in nodes}

    def _new_memory(self, *settings: Any, **more: Any) -> SimMemory:
        return SimMemory(*settings, **more)

    def processor_of(self, place: str) -> str:
        return self.description.placement.processor_of(self.parameters, place)

    @property
    def timely(self) -> bool:
        """Whether a process that misses a shared-memory deadline, or whose clock is wrong, has failed."""
        return self.description.placement.timely

    @property
    def _longest(self) -> int:
        return self.scenario.duration + self.scenario.drain

    def _introduce(self, newcomer: SimHost) -> None:
        """Where processes may be in no group: a process that starts later and those that run hear of each other."""
        if not self.description.placement.idle or not self._kernel.now:
            return
        for host in self.hosts:
            if host.alive and host is not newcomer:
                host.post(host.turn, host.engine.notice, Met(newcomer.me))
                newcomer.post(newcomer.turn, newcomer.engine.notice, Met(host.me))

    def _begin_in_memory(self, host: SimHost, memory: SimMemory) -> None:
        memory.started(host)
        (low, high), clock = self._agreeing, host.clock_
        if not self.timely or host.place in self.description.placement.remote(self.parameters):
            return
        if not low <= clock.lowest(self._longest) <= clock.highest(self._longest) <= high:
            host.note("fault", {"fault": "clock", "timing": True, "offset": clock.offset, "drift": clock.drift})

    def _stopped(self, host: SimHost) -> None:
        self._injector.gone(host.place, host, halted=host.end.state == "halted")
        if host.memory is not None:
            host.memory.stopped(host)

    # --- the two phases -----------------------------------------------------------------------------------------------

    def _end_of_duration(self, _: None) -> None:
        if not self.scenario.drain:
            self._kernel.stop()
            return
        for source in self._sources:
            source.stopped = True
        self._injector.stop()
        self._check_quiet(None)

    def _check_quiet(self, _: None) -> None:
        now, bound = self._kernel.now, self._longest
        if waiting := self._waiting():
            self._quiet_since = None
            self._not_quiet = waiting
        elif self._quiet_since is None:
            self._quiet_since = now
        elif now - self._quiet_since >= self._settle:
            self._quiet = True
            self._not_quiet = {}
        if self._quiet or now >= bound:
            self._drained()
        else:
            self._kernel.at(min(bound, now + max(1, self._settle // 4)), self._check_quiet)

    def _waiting(self) -> dict[str, str]:
        """What each process waits for."""
        return {host.me: reason.text for host in self.hosts if host.alive and (reason := host.waiting()) is not None}

    def _drained(self) -> None:
        """The run is quiet, or has had its time to get there."""
        self._kernel.stop()

    def _write_end(self) -> None:
        for host in self.hosts:
            host.note("end", {"drained": True} if self._quiet else None)

    def _housekeeping(self) -> None:
        self._trace.flush_if_full()
        if self._progress is not None:
            self._progress(self._kernel.now)

    def _make_networks(self, packets: tuple[type[Packet], ...]) -> Networks:
        network, loopback = self.scenario.network, self.description.loopback
        codec = Codec((*self.description.packets, *packets)) if network.wire else None
        lans = []
        for number in range(1, max(1, self.description.placement.lans(self.parameters)) + 1):
            random = self._stream("network" if number == 1 else f"network/{number}")
            lans.append(SimNetwork(network, self._kernel, random, codec, loopback=loopback, number=number))
        return Networks(lans)

    # --- small things -------------------------------------------------------------------------------------------------

    def _stream(self, name: str) -> Random:
        return Random(f"{self.scenario.seed}/{name}")

    def _describe_start(self) -> dict[str, Any]:
        description, parameters, later = self.description, self.parameters, self.scenario.later
        groups = groups_ever({group: tuple(members) for group, members in self.groups.items()}, self.scenario.fault)
        largest = {group: tuple(dict.fromkeys((*members, *later))) for group, members in groups.items()}
        start = {"version": TRACE_VERSION, "protocol": description.name, "parameters": dataclasses.asdict(parameters)}
        return start | promised(description, parameters, groups, largest)

    def _summary(self) -> Summary:
        kernel, counters, hosts = self._kernel, self._networks.counters, self.hosts
        interrupts = {kind.__name__: count for kind, count in kernel.interrupts.items()}
        messages, streams = ("sent", "delivered", "dropped"), ("asked", "admitted", "rejected")
        return Summary(
            run=self._run,
            protocol=self.description.name,
            seed=self.scenario.seed,
            virtual_time=kernel.now,
            events=kernel.events,
            packets_sent=sum(counters.by_type.values()),
            packets_delivered=sum(interrupts.values()),
            **{f"packets_{name}": getattr(counters, name) for name in ("lost", "overflowed", "duplicated", "corrupted")},
            broadcasts=counters.broadcasts,
            interrupts=sum(interrupts.values()),
            packets_by_type={kind.__name__: count for kind, count in counters.by_type.items()},
            interrupts_by_type=interrupts,
            **{f"messages_{name}": sum(getattr(host, name) for host in hosts) for name in messages},
            **{f"streams_{name}": sum(getattr(host.streams, name) for host in hosts) for name in streams},
            processes={host.me: host.end for host in hosts},
            drained=bool(self.scenario.drain),
            quiet=self._quiet,
            not_quiet=self._not_quiet,
            faults=self._faults,
        )


def run_scenario(scenario: Scenario, trace: Trace, *, run: str = "r0") -> Summary:
    """Runs a scenario once, into a trace."""
    return Simulation(scenario, trace=trace, run=run).run()
