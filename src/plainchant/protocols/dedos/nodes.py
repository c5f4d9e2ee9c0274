"""Which nodes are there (1.3): Cristian's first protocol for the membership of processor groups, spoken by relays.

Theory of operation
-------------------
Time is divided into *rounds*. At clock time O the relay of every node broadcasts a :class:`~.nodes_packets.Present`. At
O + delta, when everybody has got all of them, every networked process concludes the round: who has come, who has gone. Only then
does :attr:`Nodes.alive` change, so that all conclude the same from the same packets. A conclusion that changes something, and
that of a round that was asked for, makes a new processor group, and O is its identity.

- **Join.** A relay that starts broadcasts :class:`~.nodes_packets.NewGroup` at T. All nodes, this one included, hold a round at
  T + delta; it is concluded at T + 2 delta. T is a multiple of delta / 5, so that nodes that start together share a round. A node
  takes no part in rounds that others have asked for before: not all know it then.
- **Failure.** The next rounds are at identity + k pi. A node that was not heard during ``misses`` of these intervals is gone when
  the last of them is concluded. With ``misses`` = 1 that is the protocol of the thesis, for networks that lose nothing.
- **Loss.** New-group packets are sent twice. A process that misses both learns from the presents: an unknown node that says that
  it is there is taken in when the round is concluded, and a process that hears of a group with a later identity holds its rounds
  when that group does. While packets are lost groups with the same identity may differ for some rounds.
- **Asking.** A process that has not heard a node for half of ``misses`` rounds asks its relay, many times until the last of them
  is concluded. The relay says again what it said last, with the time of that round. So the process knows as much as if that
  present had not been lost, and a crash is noticed no later. Where nothing is lost a node is asked only when it has crashed.
- **Strangers.** Nobody speaks to a process whose node has not named it: the relay may hang, and its node be given up, while the
  process takes its seat. So the time after which what was heard is all that there is (:attr:`Nodes.knows_all`) begins when this
  node names the process. In the second half of that time it asks the nodes that it was told of and has not heard.
- **Clocks** are to differ by less than delta. A present whose time cannot be right counts as heard now. A process whose clock has
  jumped, or that was stopped, begins to listen anew: for it no node was silent before.
- **Listening.** All networked processes hear everything and conclude the rounds; only relays speak. So a new relay knows what the
  old one knew, and speaks at once.
- **Fencing.** Who was gone and is heard again with the same life was wrongly reported: :class:`Returned`. It is not taken in.
- **Networks.** Presents go over all of them. The one for everything else is that on which most nodes were heard of late.

A present costs its receiver the same however many nodes there are, a conclusion a look at every node.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from ...core.engine import Host
from ...core.model import GroupId, Packet, ProcessId, Reason, Timer, format_duration
from ...core.names import incarnation_of, place_of
from .nodes_packets import PACKETS, Acquaint, AskPresent, Claim, NewGroup, Present
from .parameters import Parameters
from .places import is_networked, node_of

_HAIL: Final = ("nodes", "hail")
_ROUND: Final = ("nodes", "round")
_CONCLUDE: Final = ("nodes", "conclude")
_ASK: Final = ("nodes", "ask")
_SHARES: Final = 5  # New groups are asked for at so many times during a delta, at the most
_ASKS: Final = 20  # Times that a silent node is asked in half its time: at 30 % loss all are in vain once in 700,000 times
_TELLING: Final = 32  # So many nodes tell a newcomer of the others, about
MOST_NODES: Final = 1024  # Nodes that are known of at once; of further ones nothing is noted
MOST_NAMES: Final = 16_384  # Names of processes that others have told of; further ones are not noted
_MOST_PARTS: Final = 64  # Packets that the claims of a node come in, at the most
_CLAIM_BYTES: Final = 16  # What a claim takes of a packet beside its names, at the most


@dataclasses.dataclass(slots=True)
class NodeState:
    """What is known of a node, from its last present."""

    node: str
    life: int
    relay: ProcessId
    networked: tuple[ProcessId, ...]
    load: int = 0
    claims: tuple[Claim, ...] = ()
    heard: int = 0  # When it was heard last (``host.now``)
    said: int = 0  # The time that its last present gives
    first: int = 0  # The time of the first round in which it was heard
    last: int = 0  # The time of the last one
    lans: list[int] = dataclasses.field(default_factory=list)  # When it was heard last on each network (``host.now``); -1: never
    parts: dict[int, tuple[Claim, ...]] = dataclasses.field(default_factory=dict)  # Its claims, packet by packet


@dataclasses.dataclass(frozen=True, slots=True)
class Appeared:
    """A node is there that was not."""

    state: NodeState


@dataclasses.dataclass(frozen=True, slots=True)
class Gone:
    """A node has crashed: all its processes, or all that are networked."""

    node: str
    life: int
    reason: Reason
    until: int  # What was made there later (by the clock) is of a later life


@dataclasses.dataclass(frozen=True, slots=True)
class Replaced:
    """Another process of the node is its relay."""

    state: NodeState


@dataclasses.dataclass(frozen=True, slots=True)
class Returned:
    """A node is heard that was reported as crashed, with the same life: it has to stop. Told for each of its presents."""

    state: NodeState


@dataclasses.dataclass(frozen=True, slots=True)
class Formed:
    """A processor group is in force, with those who are alive; what made it was told right before."""

    identity: int


NodesEvent: TypeAlias = Appeared | Gone | Replaced | Returned | Formed


class Nodes:
    """The membership service of one networked process. There are no events about its own node."""

    def __init__(
        self, host: Host, node: str, parameters: Parameters, changed: Callable[[NodesEvent], None],
        claims: Callable[[], tuple[Claim, ...]], load: Callable[[], int],
    ) -> None:  # fmt: skip
        self._host, self._node, self._parameters = host, node, parameters
        self._changed, self._claims, self._load = changed, claims, load
        self._pi, self._delta = int(parameters.present_every), int(parameters.delta)
        self._patience = parameters.node_timeout - 1 if parameters.misses > 1 else 0
        """How old the last present of a node may be at the time of a round. Rounds that newcomers ask for come early. With one
        miss each counts, as in the thesis; with more, a node has ``misses`` intervals: else a start elsewhere could cost a node
        whose relay hangs and is about to be replaced."""
        self.alive: dict[str, NodeState] = {}
        self.identity = 0  # The time of the round that the processor group in force came from; 0: there is none yet
        self._fresh: dict[str, NodeState] = {}  # Nodes that were heard and are not alive yet
        self._gone: dict[str, int] = {}  # The last life of nodes that was reported as over
        self._returned: dict[str, int] = {}  # The time of the last present of a node by which it was found to have returned
        self._book: dict[str, tuple[ProcessId, ...]] = {}  # Whom to speak to, by node
        self._everybody: tuple[ProcessId, ...] | None = ()
        self._learnt: set[ProcessId] = set()
        self._hail: int | None = None  # When a new group was or will be asked for, as long as that is not done with
        self._hails = 0
        self._entrance: int | None = None  # The round that this node enters by: the first whose presents all come here
        self._joins: set[int] = set()  # Rounds ahead that were asked for
        self._next: int | None = None  # The next ordinary round
        self._open: dict[int, bool] = {}  # Rounds that are not concluded, and whether they were asked for
        self._silent: dict[str, NodeState] = {}  # Nodes that were not heard for so long that they are asked
        self._since: int | None = None  # Since when others know this process (``host.now``), or since it was stopped; None: never
        self._told = 0  # Of who is in no group yet: the latest that he has heard of
        self._lan = 0

    # --- what the engine calls ----------------------------------------------------------------------------------------

    def start(self, life: int, relay: ProcessId, networked: tuple[ProcessId, ...]) -> None:
        """This process is seated at its node. Of two lives of a node the later one has the larger number."""
        self.alive[self._node] = NodeState(self._node, life, relay, networked)
        self._address(self._node, networked)
        if relay == self._host.me:
            self._named()
            self._invite()

    def local(self, relay: ProcessId, networked: tuple[ProcessId, ...]) -> None:
        """The node's relay or its networked processes have changed."""
        state = self.alive[self._node]
        before, state.relay, state.networked = state.relay, relay, networked
        self._address(self._node, networked)
        if relay == self._host.me != before:
            self._named()
            if self.identity:
                self._speak(self._host.clock())
            else:
                self._invite()

    def _named(self) -> None:
        """This node tells others of this process, from now on at the latest."""
        if self._since is None:
            self._since = self._host.now

    def listen_anew(self) -> None:
        """This process was stopped, and does not know what has happened."""
        if self._since is not None:
            self._since = self._host.now

    @property
    def knows_all(self) -> bool:
        """Whether this process has listened for long enough to have heard of all nodes that there are."""
        return self._since is not None and self._host.now - self._since >= self._parameters.node_timeout + self._delta

    def begin_anew(self, life: int) -> None:
        """This node was reported as crashed, and is heard again: it has a new life from now on."""
        state = self.alive[self._node]
        if life > state.life:
            state.life = life
            self._invite()

    def learn(self, names: Iterable[ProcessId]) -> None:
        """Processes that may be there. Of nodes that are alive they are known better than that."""
        names = [name for name in names if name not in self._learnt]
        if len(self._learnt) + len(names) > MOST_NAMES:
            return
        self._learnt.update(names)
        found: dict[str, dict[str, ProcessId]] = {}
        for name in names:
            node = node_of(self._parameters, name)
            if node != self._node and node not in self.alive and is_networked(self._parameters, name):
                if node not in found:
                    found[node] = {place_of(other): other for other in self._book.get(node, ())}
                known = found[node].setdefault(place_of(name), name)
                if incarnation_of(known) < incarnation_of(name):
                    found[node][place_of(name)] = name
        new = [self._address(node, tuple(latest.values())) for node, latest in found.items()]
        if any(new) and self._is_relay:
            self._invite()

    def receive(self, source: ProcessId, packet: Packet) -> bool:
        """Whether it was a packet about nodes."""
        if isinstance(packet, Present):
            if self._node in self.alive and self._speaks_for(source, packet.node):
                self._on_present(source, packet)
        elif isinstance(packet, NewGroup):
            # It may be passed on by another process of our own node.
            if self._node in self.alive and (self._speaks_for(source, packet.node) or self._speaks_for(source, self._node)):
                self._on_new_group(packet)
                self._acquaint(source, packet)
        elif isinstance(packet, Acquaint) and self.is_listed(source):
            self.learn(packet.names)
        elif isinstance(packet, AskPresent) and packet.node == self._node and self._is_relay and self._may_ask(source):
            self._speak_again(source)
        return isinstance(packet, PACKETS)

    def _speaks_for(self, source: ProcessId, node: str) -> bool:
        """Whether a process is one that can say something about a node."""
        return node_of(self._parameters, source) == node and is_networked(self._parameters, source)

    def _may_ask(self, source: ProcessId) -> bool:
        """Whether a process is on a node that was heard. That node may not have named it yet."""
        node = node_of(self._parameters, source)
        return (self.knows(node) or node in self._gone) and self._speaks_for(source, node)

    def is_listed(self, source: ProcessId) -> bool:
        """Whether a process listens for its node, as far as that has said so, and the node is alive, or was."""
        node = node_of(self._parameters, source)
        state = self.alive.get(node)
        if state is not None and (source == state.relay or source in state.networked):
            return True
        return (state is not None or node in self._gone) and source in self._book.get(node, ())

    def expire(self, timer: Timer) -> bool:
        """Whether it was a timer of the membership service."""
        acts: dict[Timer, Callable[[], None]] = {
            _ROUND: self._hold,
            _CONCLUDE: self._conclude,
            _HAIL: self._call,
            _ASK: self._ask,
        }
        if (act := acts.get(timer)) is not None:
            act()
        return act is not None

    def lan(self) -> int:
        """The network to use for everything but presents."""
        return self._lan

    def knows(self, node: str) -> bool:
        """Whether a node is alive, or was heard and will be; if it is silent after that, it is said to be gone."""
        return node == self._node or node in self.alive or node in self._fresh

    def will_be(self, process: ProcessId) -> bool:
        """Whether a process is the relay of a node that was heard, and is alive from the next processor group on."""
        state = self._fresh.get(node_of(self._parameters, process))
        return state is not None and state.relay == process

    def state_of(self, process: ProcessId) -> NodeState | None:
        """The node that a process is on, if it is alive."""
        return self.alive.get(node_of(self._parameters, process))

    def claim_of(self, group: GroupId) -> Claim | None:
        """Who distributes in a group as far as any node has said: the latest claim, whoever made it. None: nobody."""
        states = (*self.alive.values(), *self._fresh.values())
        claims = (claim for state in states for claim in state.claims if claim.group == group)
        return max(claims, key=lambda claim: (claim.epoch, claim.distributor), default=None)

    def waiting(self) -> Reason | None:
        """Whether a processor group is being formed. That a node is silent is no reason: nobody knows yet."""
        if self._node not in self.alive:
            return None
        if self._fresh:
            return Reason("node-appears", f"{', '.join(sorted(self._fresh))} will be in the next processor group")
        if not self.identity or self._joins or any(self._open.values()) or self._hail is not None:
            return Reason("group-forms", f"{self._node} forms a processor group")
        return None

    # --- joining ------------------------------------------------------------------------------------------------------

    @property
    def _is_relay(self) -> bool:
        state = self.alive.get(self._node)
        return state is not None and state.relay == self._host.me

    def _invite(self) -> None:
        """A new group is asked for at the next time at which that is done."""
        step = max(1, self._delta // _SHARES)
        self._hail = -(-self._host.clock() // step) * step
        self._hails = 0
        if self._entrance is None:
            self._entrance = self._hail + self._delta
        self._host.set_timer(_HAIL, self._when(self._hail))

    def _call(self) -> None:
        """Asks for a new group, for the first or the second time."""
        if self._hail is None or not self._is_relay:
            self._hail = None
            return
        state, time = self.alive[self._node], self._hail
        for lan in range(self._parameters.lans):
            self._host.send(self._addresses(), NewGroup(self._node, state.life, time, state.networked, lan), lan)
        self._hails += 1
        if self._hails == 1:
            self._joins.add(time + self._delta)
            self._host.set_timer(_HAIL, self._when(time + self._delta // 2))
            self._plan()
        else:
            self._hail = None

    def _acquaint(self, source: ProcessId, packet: NewGroup) -> None:
        """Tells a node that asks for a new group which others there are; a process that is not the relay passes the packet on to
        its relay. Where there are many nodes only some of them do."""
        if packet.node == self._node:
            return
        state = self.alive[self._node]
        if not self._is_relay:
            if source in packet.networked:
                self._host.send((state.relay,), packet, self._lan)
            return
        others = [name for node, other in self.alive.items() if node not in (self._node, packet.node) for name in other.networked]
        if others and self._host.random.random() * len(self.alive) < _TELLING:
            self._host.send(packet.networked, Acquaint((*others, *state.networked)), self._lan)

    def _on_new_group(self, packet: NewGroup) -> None:
        known = self.alive.get(packet.node) or self._fresh.get(packet.node)
        if self._is_over(packet.node, packet.life) or (known is not None and packet.life < known.life):
            return
        if packet.node != self._node:
            self._address(packet.node, packet.networked)
        time = packet.time + self._delta
        if not self.identity and self._entrance is not None and time < self._entrance:
            return
        if packet.time % max(1, self._delta // _SHARES):
            return  # nobody asks at such a time
        if time in self._open:
            self._open[time] = True
        elif time not in self._joins and 0 <= time - self._host.clock() <= 2 * self._delta:
            self._joins.add(time)
            self._plan()

    # --- rounds -------------------------------------------------------------------------------------------------------

    def _when(self, reading: int) -> int:
        """When the clock shows this."""
        return self._host.now + max(0, reading - self._host.clock())

    def _ahead(self) -> int | None:
        """The next round."""
        return min(self._joins if self._next is None else {*self._joins, self._next}, default=None)

    def _plan(self) -> None:
        """Sets the timers for what comes next."""
        ahead = self._ahead()
        if ahead is not None and ahead > self._host.clock() + 2 * self._pi:
            ahead = self._begin_anew()
        if ahead is not None:
            self._host.set_timer(_ROUND, self._when(ahead))
        if self._open:
            self._host.set_timer(_CONCLUDE, self._when(min(self._open) + self._delta))

    def _hold(self) -> None:
        """A round begins."""
        time = self._ahead()
        assert time is not None, "a round without a time"
        clock = self._host.clock()
        if abs(clock - time) > self._delta:
            self._begin_anew()
            time = clock
        else:
            self._open[time] = time in self._joins
            self._joins.discard(time)
            self._next = self._following(time, time)
        if self._is_relay:
            self._speak(time)
        self._plan()

    def _begin_anew(self) -> int:
        """This process was stopped, or its clock has jumped: it takes everybody for heard, and holds the next round ahead."""
        clock = self._host.clock()
        for state in (*self.alive.values(), *self._fresh.values()):
            state.last, state.first = clock, min(state.first, clock)
        asked = bool(self._joins) or any(self._open.values())
        self._open.clear()
        self._host.cancel_timer(_CONCLUDE)
        self._next = self._following(self.identity, clock)
        self._joins = {self._next} if asked else set()
        return self._next

    def _following(self, phase: int, after: int) -> int:
        """The first ordinary round after a time; it has to be ahead."""
        after = max(after, self._host.clock())
        return phase + ((after - phase) // self._pi + 1) * self._pi

    def _speak(self, time: int) -> None:
        """Broadcasts that this node is there."""
        own = self.alive[self._node]
        own.load, own.claims, own.heard = self._load(), self._claims(), self._host.now
        own.said = own.last = time
        self._say(self._addresses())

    def _say(self, to: tuple[ProcessId, ...]) -> None:
        own = self.alive[self._node]
        parts = self._divide(own)
        for lan in range(self._parameters.lans):
            for part, claims in enumerate(parts):
                packet = Present(
                    own.node, own.life, own.said, self.identity, own.networked, own.load, claims, part, len(parts), lan
                )  # fmt: skip
                self._host.send(to, packet, lan)

    def _speak_again(self, to: ProcessId) -> None:
        """A process has not heard this node for some rounds."""
        if self.alive[self._node].said:
            self._say((to,))

    def _ask(self) -> None:
        """Asks the nodes that were not heard for long, or never, and goes on until they are heard or gone."""
        self._silent = {node: state for node, state in self._silent.items() if self.alive.get(node) is state}
        asked = [*((node, (state.relay,)) for node, state in self._silent.items()), *self._unheard()]
        for node, names in asked:
            for lan in range(self._parameters.lans):
                self._host.send(names, AskPresent(node), lan)
        if asked:
            self._host.set_timer(_ASK, self._host.now + max(1, self._parameters.node_timeout // (2 * _ASKS)))

    def _divide(self, own: NodeState) -> list[tuple[Claim, ...]]:
        """The claims, as many together as fit into a packet."""
        room = max(_CLAIM_BYTES, self._host.max_packet - sum(len(name) + 2 for name in own.networked))
        parts: list[list[Claim]] = [[]]
        left = room
        for claim in own.claims:
            size = len(claim.group) + len(claim.distributor) + _CLAIM_BYTES
            if size > left and parts[-1]:
                parts.append([])
                left = room
            parts[-1].append(claim)
            left -= size
        return [tuple(part) for part in parts]

    def _conclude(self) -> None:
        """A round is over: who has come, and who has gone?"""
        time = min(self._open)
        asked = self._open.pop(time)
        vanished = self._vanishing(time)
        events = [*self._leaving(time), *self._coming(time)]
        identity = self.identity
        if not identity and not asked:
            self.identity = self._told or time
        elif asked or events:
            self.identity = time
        if self.identity != identity:
            events.append(Formed(self.identity))
        if self._parameters.lans > 1:
            self._choose_lan()
        self._look_for_silent(time)
        self._plan()
        for event in (*vanished, *events):
            self._changed(event)

    def _look_for_silent(self, time: int) -> None:
        """Finds the nodes to ask. With one miss there is no time for that, as in the thesis."""
        if self._parameters.misses == 1:
            return
        others = (state for state in self.alive.values() if state.node != self._node)
        silent = {state.node: state for state in others if 2 * (time - state.last) >= self._parameters.node_timeout}
        asking, self._silent = bool(self._silent), silent
        if not asking and (silent or self._unheard()):
            self._ask()

    def _unheard(self) -> list[tuple[str, tuple[ProcessId, ...]]]:
        """The nodes that this process was told of and has never heard, and whom to ask there, when it is time to."""
        if self._since is None or self.knows_all or 2 * (self._host.now - self._since) < self._parameters.node_timeout:
            return []
        return [(node, names) for node, names in sorted(self._book.items()) if not self.knows(node) and node not in self._gone]

    def _vanishing(self, time: int) -> list[NodesEvent]:
        """Who was heard, and is silent again before everybody knew it. That forms no group, but somebody may count on it."""
        events: list[NodesEvent] = []
        for node, state in sorted(self._fresh.items(), key=lambda each: each[0]):
            if state.first <= time and time - state.last > self._patience:
                del self._fresh[node]
                reason = Reason("node-silent", f"{node} was silent again before everybody knew it")
                events.append(Gone(node, state.life, reason, state.last + self._delta))
        return events

    def _leaving(self, time: int) -> list[NodesEvent]:
        now = self._host.now
        silent = [state for state in self.alive.values() if time - state.last > self._patience and state.node != self._node]
        events: list[NodesEvent] = []
        for state in sorted(silent, key=lambda state: state.node):
            rounds = self._parameters.misses
            text = f"{state.node} was not heard in {rounds} {'rounds' if rounds > 1 else 'round'}, the last of them at {time}"
            evidence = {"heard": format_duration(now - state.heard) + " ago", "round": time, "last": state.last}
            events.append(self._take_out(state, Reason("node-silent", text, evidence), state.last + self._delta))
        return events

    def _coming(self, time: int) -> list[NodesEvent]:
        events: list[NodesEvent] = []
        for node in sorted(node for node, state in self._fresh.items() if state.first <= time):
            state = self._fresh.pop(node)
            before = self.alive.get(node)
            if before is not None and before.last >= time:
                continue  # its former life has spoken in this very round: it is somebody else who says that it is over
            if before is not None:
                text = f"{node} has started again: all its processes had stopped"
                events.append(self._take_out(before, Reason("node-restarted", text, {"life": state.life}), state.life))
            self.alive[node] = state
            events.append(Appeared(state))
        return events

    def _take_out(self, state: NodeState, reason: Reason, until: int) -> Gone:
        del self.alive[state.node]
        _limit(self._gone, MOST_NODES)
        self._gone[state.node] = state.life
        return Gone(state.node, state.life, reason, until)

    def _choose_lan(self) -> None:
        """The network on which most nodes were heard lately, the first of equal ones; it stays if none was heard."""
        since = self._host.now - self._parameters.node_timeout
        others = [state.lans for state in self.alive.values() if state.node != self._node]
        counts = [sum(lans[lan] > since for lans in others) for lan in range(self._parameters.lans)]
        if most := max(counts):
            self._lan = counts.index(most)

    # --- hearing presents ---------------------------------------------------------------------------------------------

    def _on_present(self, source: ProcessId, packet: Present) -> None:
        node, life = packet.node, packet.life
        if node == self._node:
            self._on_own(source, packet)
            return
        state = self.alive.get(node)
        if state is None or state.life != life:
            if state is not None and life < state.life:
                return
            if self._has_returned(node, life):
                self._on_returned(source, packet)
                return
            state = self._fresh.get(node)
            if state is None and len(self._fresh) + len(self.alive) >= MOST_NODES:
                return
            if state is None or state.life < life:
                state = self._fresh[node] = self._new_state(source, packet)
            elif life < state.life:
                return
        self._note(state, packet)
        if 0 < state.said - packet.time <= self._parameters.node_timeout:
            return
        state.said = packet.time
        self._take(state, packet)
        if packet.networked != state.networked:
            state.networked = packet.networked
            self._address(node, packet.networked)
        if packet.formed != self.identity or not self.identity:
            self._follow(packet)
        if source != state.relay:
            state.relay = source
            if self.alive.get(node) is state:
                self._changed(Replaced(state))

    def _has_returned(self, node: str, life: int) -> bool:
        """Whether a node speaks that was reported as gone: it is not in the group of the latest epoch and has to halt."""
        return self._is_over(node, life)

    def _is_over(self, node: str, life: int) -> bool:
        """Whether this life of a node was reported as over."""
        return node in self._gone and life <= self._gone[node]

    def _on_own(self, source: ProcessId, packet: Present) -> None:
        """Who only listens hears of its own node what everybody hears."""
        own = self.alive[self._node]
        if packet.life > own.life and source == own.relay:
            own.life = packet.life
        if packet.life == own.life and source == own.relay != self._host.me:
            if self._host.me in packet.networked:
                self._named()
            own.heard = self._host.now
            own.said = own.last = packet.time
            self._take(own, packet)
            self._follow(packet)

    def _on_returned(self, source: ProcessId, packet: Present) -> None:
        if self._returned.get(packet.node) != packet.time:
            _limit(self._returned, MOST_NODES)
            self._returned[packet.node] = packet.time
            state = self._new_state(source, packet)
            self._note(state, packet)
            self._take(state, packet)
            self._changed(Returned(state))

    def _new_state(self, source: ProcessId, packet: Present) -> NodeState:
        state = NodeState(packet.node, packet.life, source, packet.networked, lans=[-1] * self._parameters.lans)
        state.said = packet.time
        state.first = state.last = self._right(packet.time)
        self._address(packet.node, packet.networked)
        return state

    def _right(self, time: int, oldest: int = 0) -> int:
        """The time of a round, or now, if that cannot be right."""
        clock = self._host.clock()
        return time if -self._delta <= clock - time <= (oldest or self._delta) else clock

    def _note(self, state: NodeState, packet: Present) -> None:
        """It was heard, and over which network."""
        asked = self._silent.get(state.node) is state
        time = self._right(packet.time, self._pi + self._delta if asked else 0)
        if time > state.last:
            state.last = time
            self._silent.pop(state.node, None)
        elif time < state.first:
            state.first = time
        now = state.heard = self._host.now
        if 0 <= packet.lan < len(state.lans):
            state.lans[packet.lan] = now

    @staticmethod
    def _take(state: NodeState, packet: Present) -> None:
        """What a node says of itself."""
        state.load = packet.load
        if not 0 <= packet.part < packet.parts <= _MOST_PARTS:
            return
        if packet.parts == 1:
            state.parts.clear()
            state.claims = packet.claims
            return
        state.parts[packet.part] = packet.claims
        state.claims = tuple(claim for part in sorted(state.parts) if part < packet.parts for claim in state.parts[part])

    def _follow(self, packet: Present) -> None:
        """Who has missed that a group was formed holds its rounds from now on."""
        if not self.identity:
            if packet.formed <= self._host.clock() + self._delta:
                self._told = max(self._told or packet.formed, packet.formed or self._told)
            if not self._joins and not self._open and self._hail is None:
                time = self._right(packet.time)
                self._open[time] = False
                self._next = self._following(time, time)
                self._plan()
        elif packet.formed in self._open or not packet.formed:
            return
        elif self.identity < packet.formed <= self._host.clock() + self._delta:
            self.identity = packet.formed
            if self._next is not None:
                self._next = self._following(self.identity, self._next - self._pi)
            self._plan()
            self._changed(Formed(self.identity))

    # --- whom to speak to ---------------------------------------------------------------------------------------------

    def _address(self, node: str, names: tuple[ProcessId, ...]) -> bool:
        """Notes who listens on a node; whether that is new."""
        if self._book.get(node) == names:
            return False
        if node not in self._book and len(self._book) >= MOST_NODES:
            forgotten = next((other for other in self._book if other not in self.alive), None)
            if forgotten is None:
                return False
            del self._book[forgotten]
        self._book[node] = names
        self._everybody = None
        return True

    def _addresses(self) -> tuple[ProcessId, ...]:
        if self._everybody is None:
            me = self._host.me
            self._everybody = tuple(name for node in sorted(self._book) for name in self._book[node] if name != me)
        return self._everybody


def _limit(known: dict[str, int], most: int) -> None:
    """Makes room for one more: what has been there for the longest time goes."""
    if len(known) >= most:
        del known[next(iter(known))]
