"""On-line server migration: a replica moves to another machine while clients go on asking.

Theory of operation
-------------------
The service hands out tickets: each request gets the next number. Its replicas are a group, ``g1``, in total order; a replica's
state is the list of the requests that it has applied, and a request's answer is its place in that list. Each server has a
*counter*, a group of it and all clients. A client asks at the counter of a server that is open; the server sends the request
into ``g1``, and answers at its counter when the request has its place. A client keeps a request until it is answered, and asks
at another counter if the server is gone; replicas know requests by their names and apply each once.

B moves to C, with groups that overlap:

1. ``move`` is sent in ``g1``. From its place in the order on, requests in ``g1`` are not applied; who sent one keeps it.
2. The *driver* (the first replica that is there) forms a group with the other replicas and C, and says so in ``g1`` (``into``:
   the first one counts, so that all go to the same group, whoever dies meanwhile). Now everybody sends there what it has kept.
   The state comes as a message; C holds requests until it is there. If C does not come, ``stay`` takes ``move`` back.
3. The driver closes ``g1``; each replica says when it is ``closed``; then the new group is renamed ``g1``, and ``done`` is said.
4. B answers what it has accepted, and leaves ``g1`` and its counter. C opens its own.

One order holds over both groups: every replica has read ``move`` and ``into`` before any request that was sent behind them.

If the servers themselves are cut off from each other, each part goes on. When they come together, the part that is first in
``view.parts`` counts: the others take its state and send again what is not in it.

``Server`` and ``Client`` are ordinary programs over groups. :func:`simulate` runs them on virtual time, ``python
examples/migration.py`` with real sockets.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, TypeAlias

import plainchant
from plainchant import Group, Message, View

SERVICE: Final = "g1"
SERVERS: Final = ("A", "B", "C")
FORM_TIMEOUT: Final = 2.0
"""Seconds that the new group may take; meanwhile requests are kept."""
REPLICAS: Final = ("A", "B")
"""The servers that are replicas in the beginning."""
PEERS: Final = {place: f"127.0.0.1:{7401 + number}" for number, place in enumerate((*SERVERS, "X", "Y"))}
"""Where everybody is, live: three servers and two clients."""
LIVE_TIMEOUT: Final = 60.0
"""Seconds after which a live run has failed."""
Groups: TypeAlias = Mapping[str, Group]


def counter_of(server: str) -> str:
    return f"counter-{server}"


def groups_of(clients: Sequence[str]) -> dict[str, list[str]]:
    """All groups, with the processes that form them."""
    return {SERVICE: list(REPLICAS), **{counter_of(server): [server, *clients] for server in SERVERS}}


async def say(group: Group | None, *words: Any) -> None:
    """Sends words to a group, unless this process is out of it, or on its way out."""
    if group is not None and not group.is_over:
        try:
            await group.send(json.dumps(words).encode())
        except plainchant.Refused:
            return  # whoever needs an answer asks again


# --- a server ---------------------------------------------------------------------------------------------------------


class Server:
    """A server: a replica of the service if it is in ``g1``."""

    def __init__(self, groups: Groups, move_after: int = 0) -> None:
        self.move_after = move_after
        """B moves to C when so many requests have been applied; 0: it does not."""
        self.counter = next(group for name, group in groups.items() if name != SERVICE)
        self.me = self.counter.me
        self.node = self.counter.node
        self.old = groups.get(SERVICE)
        """The group that is left behind in a migration; without one, that of the service."""
        self.formed: dict[str, Group] = {}
        """Groups that were formed in a migration, by their first names."""
        self.log: list[str] = []
        """Requests in the order in which they were applied."""
        self.places: dict[str, int] = {}
        self.answered: list[str] = []
        """Requests that this server has answered."""
        self.knows = self.old is not None
        """Whether its state is that of the service."""
        self.teachers: tuple[str, ...] = ()
        """Who has the state that it waits for."""
        self.held: dict[str, list[tuple[str, str]]] = {}
        """Requests that came before the state did, by group."""
        self.kept: dict[str, None] = {}
        """Requests that are to be sent to the service."""
        self.sent: dict[str, Group] = {}
        """Requests that were sent, and have not come back in the order."""
        self.move: tuple[str, str] | None = None
        self.into: tuple[str, tuple[str, ...]] | None = None
        self.taught = True
        """Whether all who need the state have been given it."""
        self.wanted: dict[str, None] = {}
        """Requests that clients wait for at this counter."""
        self.closed: set[str] = set()
        self.said: set[str] = set()
        """What this server has done for the migration already."""
        self.retiring = False
        self.story: list[str] = []
        """What happened to it, for people."""
        self._work: dict[asyncio.Task[Any], str] = {}

    @property
    def service(self) -> Group | None:
        """Where requests are put in order now; none: they are kept."""
        if self.into is not None:
            return self.formed.get(self.into[0], self.formed.get(SERVICE))
        return self.old if self.move is None else None

    @property
    def members(self) -> tuple[str, ...]:
        group = self.service or self.old
        return group.members if group is not None else ()

    def drives(self) -> bool:
        """Whether this server is the first of those that have the state."""
        comer = self.move[1] if self.move is not None else ""
        return self.knows and next((member for member in self.members if member != comer), self.me) == self.me

    # --- the loop ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serves until it has moved away."""
        self._begin("a new group", self.node.next_group())
        if self.old is not None:
            self._begin("the end of the group", self.old.ended())
        stream, reading = self._stream(), None
        try:
            while not (self.retiring and self._is_free_to_go()):
                reading = reading or asyncio.ensure_future(anext(stream))
                await asyncio.wait({reading, *self._work}, return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    await self._read(reading.result())
                    reading = None
                for task in [task for task in self._work if task.done()]:
                    if await self._finished(self._work.pop(task), task):
                        if reading is not None and not reading.cancel():
                            await self._read(await reading)
                        elif reading is not None:
                            await asyncio.wait({reading})
                        stream, reading = self._stream(), None
                await self._go_on()
        finally:
            for task in (*self._work, *([reading] if reading is not None else [])):
                task.cancel()
            await asyncio.gather(*self._work, *([reading] if reading is not None else []), return_exceptions=True)
        await self._retire()

    def _stream(self) -> plainchant.Stream:
        """One stream of everything, in the order in which it was delivered here."""
        groups = [self.counter, *([self.old] if self.old is not None else []), *self.formed.values()]
        return plainchant.merged(*dict.fromkeys(groups))

    def _begin(self, what: str, work: Coroutine[Any, Any, Any]) -> None:
        """Does something beside reading."""
        self._work[asyncio.ensure_future(work)] = what

    async def _finished(self, what: str, task: asyncio.Task[Any]) -> bool:
        """Something is done; whether there is a group to be read from now on."""
        if what == "a new group":
            group = task.result()
            self.formed[group.name] = group
            self._begin(what, self.node.next_group())
            return True
        if what == "form":
            try:
                group = task.result()
            except (plainchant.NotFormed, plainchant.JoinTimeout):
                await say(self.old, "stay")
                return False
            self.formed[group.name] = group
            await say(self.old, "into", group.name, list(group.members))
            return True
        task.result()
        return False

    async def _read(self, event: plainchant.Event) -> None:
        if isinstance(event, View):
            await self._see(event)
        elif isinstance(event, Message) and event.group == self.counter.name:
            if event.sender != self.me and not self.retiring:
                await self._asked(json.loads(event.payload)[1])
        elif isinstance(event, Message):
            await self._hear(event.group, event.sender, *json.loads(event.payload))

    # --- requests ---------------------------------------------------------------------------------------------------

    async def _asked(self, request: str) -> None:
        """A client wants an answer."""
        self.wanted[request] = None
        if request in self.places and self.knows:
            await self._answer(request)
        elif request not in self.sent:
            self.kept[request] = None

    async def _ordered(self, sender: str, request: str) -> None:
        """A request has its place in the order."""
        if request not in self.places:
            self.log.append(request)
            self.places[request] = len(self.log)
        if sender == self.me:
            self.sent.pop(request, None)
        if request in self.wanted:
            await self._answer(request)

    async def _answer(self, request: str) -> None:
        del self.wanted[request]
        self.kept.pop(request, None)
        self.answered.append(request)
        await say(self.counter, "answer", request, self.places[request])

    # --- what is said in the group of the service -------------------------------------------------------------------

    async def _hear(self, group: str, sender: str, word: str, *rest: Any) -> None:
        if word == "request":
            if not self.knows:
                self.story.append(f"holds {rest[0]}")
                self.held.setdefault(group, []).append((sender, rest[0]))
            elif self.move is not None and self._is_old(group):
                self._keep_again(sender, rest[0])
            else:
                await self._ordered(sender, rest[0])
        elif word == "state":
            await self._learn(group, *rest)
        elif word == "move" and self.move is None and self.knows:
            self.move, self.move_after = (rest[0], rest[1]), 0
            self.story.append(f"{rest[0]} is to move to {rest[1]}, says {sender}")
        elif word == "stay" and self.into is None:
            self.story.append("nobody moves")
            self._stay()
        elif word == "into" and self.move is not None and self.into is None:
            self.into = (rest[0], tuple(rest[1]))
            self.story.append(f"goes over to {rest[0]}")
            self.taught = False
            self.retiring = self.retiring or self.me not in self.into[1]
        elif word == "closed":
            self.closed.add(sender)
        elif word == "done" and self.move is not None:
            await self._moved()

    def _is_old(self, group: str) -> bool:
        """Whether that name means the group that is left behind: until this server has read the last of it."""
        return group == SERVICE and self.old is not None and self.me not in self.closed

    def _keep_again(self, sender: str, request: str) -> None:
        """A request that came in the old group after the move began goes to the new one."""
        if sender == self.me:
            self.story.append(f"keeps {request} for the new group")
            self.sent.pop(request, None)
            self.kept[request] = None

    async def _learn(self, group: str, log: list[str], move: list[str] | None, into: list[Any] | None) -> None:
        self.taught = True
        if self.knows:
            return
        self.story.append(f"takes a state of {len(log)} requests")
        mine, self.log = self.log, list(log)
        self.places = {request: place for place, request in enumerate(self.log, 1)}
        self.knows, self.teachers = True, ()
        self.move = (move[0], move[1]) if move is not None else None
        self.into = (into[0], tuple(into[1])) if into is not None else None
        self.kept |= dict.fromkeys(request for request in mine if request not in self.places)
        for sender, request in self.held.pop(group, []):
            await self._ordered(sender, request)
        await self._open()

    async def _open(self) -> None:
        """Tells clients that they are served here."""
        is_to_come = self.move is not None and self.me == self.move[1]
        if self.knows and not self.retiring and not is_to_come:
            await say(self.counter, "open")

    async def _see(self, view: View) -> None:
        """Members came or went."""
        if view.group == self.counter.name:
            await self._open()
        elif view.group in self.formed and not any(member in REPLICAS for member in view.members):
            self._give_up(self.formed[view.group])
        elif view.is_merge and self.knows:
            self.taught = False
            if self.me not in view.parts[0]:
                self.knows, self.teachers = False, view.parts[0]
        elif not self.knows and self.teachers and not any(teacher in view.members for teacher in self.teachers):
            self.knows, self.teachers = True, ()  # what counted is gone: what is here does
            await self._open()
            for sender, request in self.held.pop(view.group, []):
                await self._ordered(sender, request)

    # --- the migration ----------------------------------------------------------------------------------------------

    async def _go_on(self) -> None:
        """Does what is due."""
        service, driver = self.service, self.drives()
        if service is not None and self.knows:
            if driver and not self.taught:
                self.taught = True
                await say(service, "state", self.log, self.move, self.into)
            for request in list(self.kept):
                del self.kept[request]
                self.sent[request] = service
                await say(service, "request", request)
        for request, group in list(self.sent.items()):
            if group.is_over:  # it may not have been sent
                del self.sent[request]
                self.kept[request] = None
        if not self.knows:
            return
        if self.move is None:
            if driver and 0 < self.move_after <= len(self.log) and self._first_time("move"):
                await say(service, "move", "B", "C")
        elif self.into is None:
            if driver and self._first_time("form"):
                others = [member for member in (*self.members, self.move[1]) if member != self.me]
                self._begin("form", self.node.form(f"{SERVICE}-for-{self.move[1]}-by-{self.me}", others, timeout=FORM_TIMEOUT))
        elif service is not None:
            await self._go_over(service, driver)

    async def _go_over(self, service: Group, driver: bool) -> None:
        """The new group is there: the old one is closed, and its name given to the new one."""
        old = self.old
        if old is not None and old.is_over and self._first_time("closed"):
            await say(service, "closed")
        if not driver:
            return
        assert self.move is not None
        if old is not None and not old.is_over:
            if self.taught and self._first_time("close"):
                self._begin("close", old.close())
        elif all(member in self.closed for member in self.members if member != self.move[1]) and self._first_time("rename"):
            self._begin("rename", self._rename(service))

    def _first_time(self, what: str) -> bool:
        is_first = what not in self.said
        self.said.add(what)
        return is_first

    async def _rename(self, service: Group) -> None:
        await service.rename(SERVICE)
        await say(service, "done")

    async def _moved(self) -> None:
        """The migration is over."""
        assert self.move is not None
        leaver, comer = self.move
        self.old = self.service
        assert self.old is not None
        self.story.append(f"{leaver} has moved to {comer}" if comer in self.old.members else f"{comer} did not stay")
        self._stay()
        if self.me == leaver and comer in self.old.members:
            self.retiring = True
        elif self.me == comer:
            await self._open()

    def _give_up(self, group: Group) -> None:
        """Who has come for a migration, and is alone before it is over, is no replica; it can be asked again."""
        self.story.append("gives up")
        self._begin(f"leaving {group.name}", group.leave())
        if group is self.service or not self.knows:
            self.knows, self.move, self.into = False, None, None
            self.log.clear()
            self.places.clear()
            self.held.clear()
        self.formed = {name: one for name, one in self.formed.items() if one is not group}

    def _stay(self) -> None:
        """No migration is under way any more; groups that were formed for it and are not that of the service are left."""
        for group in self.formed.values():
            if group is not self.old:
                self._begin(f"leaving {group.name}", group.leave())
        self.formed.clear()
        self.move = self.into = None
        self.said.clear()
        self.closed.clear()

    def _is_free_to_go(self) -> bool:
        """Whether everything that this server has accepted is answered, or cannot be answered here."""
        return self.service is None or not (self.kept or self.sent or self.wanted)

    async def _retire(self) -> None:
        for group in (self.old, *self.formed.values(), self.counter):
            if group is not None and not group.is_over:
                await group.leave()


# --- a client ---------------------------------------------------------------------------------------------------------


class Client:
    """Asks for tickets at whatever counter is open."""

    def __init__(self, groups: Groups, requests: int, pause: float) -> None:
        self.counters = dict(groups)
        self.me = next(iter(groups.values())).me
        self.requests = requests
        self.pause = pause
        self.open: dict[str, None] = {}
        """Counters at which a server answers."""
        self.asked: dict[str, str] = {}
        """Requests without an answer, and at which counter they were asked last."""
        self.answers: dict[str, list[int]] = {}
        """Every answer that came, also one too many."""
        self.done = asyncio.Event()

    async def run(self) -> None:
        asking = asyncio.ensure_future(self._ask_all())
        try:
            async for event in plainchant.merged(*self.counters.values()):
                if isinstance(event, View):
                    server = event.group.removeprefix("counter-")
                    if server not in event.members or server not in event.part_of(self.me):
                        self.open.pop(event.group, None)
                        await self._ask_again(event.group)
                elif isinstance(event, Message):
                    await self._hear(event.group, *json.loads(event.payload))
        finally:
            asking.cancel()

    async def _ask_all(self) -> None:
        for number in range(1, self.requests + 1):
            request = f"{self.me}/{number}"
            self.asked[request] = ""
            await self._ask(request)
            await asyncio.sleep(self.pause)

    async def _ask(self, request: str) -> None:
        """Asks at one of the open counters, by turns; if there is none, later."""
        if self.open:
            counters = sorted(self.open)
            counter = counters[int(request.split("/")[1]) % len(counters)]
            self.asked[request] = counter
            await say(self.counters[counter], "ask", request)

    async def _ask_again(self, counter: str) -> None:
        for request in [request for request, where in self.asked.items() if where == counter]:
            self.asked[request] = ""
            await self._ask(request)

    async def _hear(self, counter: str, word: str, *rest: Any) -> None:
        if word == "open" and counter not in self.open:
            self.open[counter] = None
            await self._ask_again("")
        elif word == "answer" and rest[0].startswith(f"{self.me}/"):
            self.answers.setdefault(rest[0], []).append(rest[1])
            self.asked.pop(rest[0], None)
            if len(self.answers) == self.requests:
                self.done.set()


# --- running it -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Outcome:
    """What became of a run: all servers and clients, by name, and in the simulator the run itself."""

    servers: dict[str, Server] = dataclasses.field(default_factory=dict)
    clients: dict[str, Client] = dataclasses.field(default_factory=dict)
    result: Any = None

    async def program(self, groups: Groups, *, requests: int, pause: float, move_after: int) -> None:
        """The program of each process: its groups say what it is."""
        me = next(iter(groups.values())).me
        if me in SERVERS:
            self.servers[me] = Server(groups, move_after if me in REPLICAS else 0)
            await self.servers[me].run()
        else:
            self.clients[me] = Client(groups, requests, pause)
            await self.clients[me].run()


def simulate(
    *,
    seed: int = 0,
    clients: Sequence[str] = ("X", "Y"),
    requests: int = 30,
    pause: float = 0.01,
    move_after: int = 15,
    faults: Sequence[Mapping[str, Any]] = (),
    loss: float = 0.0,
    duration: str = "2s",
    raises: bool = True,
) -> Outcome:
    """The migration on virtual time; the other arguments are those of ``sim.run``."""
    outcome = Outcome()

    async def program(groups: Groups) -> None:
        await outcome.program(groups, requests=requests, pause=pause, move_after=move_after)

    outcome.result = plainchant.sim.run(
        program,
        groups=groups_of(clients),
        protocol="newtop",
        seed=seed,
        network={"loss": loss},
        faults=faults,
        duration=duration,
        agree=lambda invitation: True,
        raises=raises,
    )
    return outcome


async def live(
    *,
    peers: Mapping[str, str] = PEERS,
    requests: int = 30,
    move_after: int = 15,
    parameters: Mapping[str, Any] | None = None,
    trace: str | None = None,
) -> Outcome:
    """The same programs with a socket each: here in one event loop, elsewhere on five machines. Ends when all is answered."""
    outcome = Outcome()
    groups = groups_of([place for place in peers if place not in SERVERS])

    async def process(me: str) -> None:
        async with (
            plainchant.Node(
                me=me, peers=peers, protocol="newtop", parameters=parameters, agree=lambda invitation: True, trace=trace
            ) as node,
            AsyncExitStack() as stack,
        ):
            mine = {name: members for name, members in groups.items() if me in members}
            entering = [stack.enter_async_context(node.join(name, members=members)) for name, members in mine.items()]
            joined = dict(zip(mine, await asyncio.gather(*entering), strict=True))
            await outcome.program(joined, requests=requests, pause=0.01, move_after=move_after)

    tasks = {me: asyncio.ensure_future(process(me)) for me in peers}
    try:
        async with asyncio.timeout(LIVE_TIMEOUT):
            await tasks["B"]  # it has moved away
            for client in outcome.clients.values():
                await client.done.wait()
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    return outcome


def problems(outcome: Outcome, alive: Sequence[str], *, one_history: bool = True) -> list[str]:
    """What is wrong with a run in which these processes are there at the end; ``one_history``: servers were never cut off."""
    found = []
    replicas = {name: outcome.servers[name] for name in alive if name in outcome.servers}
    replicas = {name: replica for name, replica in replicas.items() if replica.knows and not replica.retiring}
    if not replicas:
        return ["no replica is there"]
    first, *others = replicas
    log = replicas[first].log
    found += [f"{other} has another state than {first}" for other in others if replicas[other].log != log]
    if len(set(log)) < len(log):
        found.append(f"{first} has applied a request twice")
    if one_history:
        servers = outcome.servers.items()
        found += [f"{name} has applied something else" for name, one in servers if one.log != log[: len(one.log)]]
    places = {request: place for place, request in enumerate(log, 1)}
    for name, client in outcome.clients.items():
        if name in alive and len(client.answers) < client.requests:
            found.append(f"{name} was answered {len(client.answers)} of {client.requests} requests; asked: {client.asked}")
        for request, answers in client.answers.items():
            if request not in places:
                found.append(f"{request} was answered and is lost")
            elif one_history and answers != [places[request]]:
                found.append(f"{request} is number {places[request]} and was answered {answers}")
    return found


def main() -> None:
    outcome = asyncio.run(live())
    for name, place in outcome.servers.items():
        print(f"{name}: applied {len(place.log)}, answered {len(place.answered)}")
        for line in place.story:
            print(f"    {line}")
    for name, client in outcome.clients.items():
        print(f"{name}: {len(client.answers)} of {client.requests} requests answered")
    print("\n".join(problems(outcome, ["A", "C", *outcome.clients])) or "all in order")


if __name__ == "__main__":
    main()
