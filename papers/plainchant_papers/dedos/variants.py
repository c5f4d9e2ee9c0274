"""The engine with one decision made differently: what claims are compared with, or measured by. None of these is for use."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

from plainchant.core.engine import Host
from plainchant.core.memory import Layout, Port, Request
from plainchant.core.model import ProcessId
from plainchant.protocols.dedos.engine import Dedos
from plainchant.protocols.dedos.nodes import Appeared, Gone, NodesEvent
from plainchant.protocols.dedos.parameters import Parameters
from plainchant.protocols.dedos.ports import Ports
from plainchant.protocols.dedos.rules import Rules


class OneDistributor(Dedos):
    """The first node distributes all groups, however much it has to do."""

    def _choose(self, group: str, relay: Any, tried: ProcessId) -> ProcessId:
        alive = self._relays_alive()
        return alive[min(alive)]


class _TightPorts(Ports):
    """Makes mailboxes without room beside their elements."""

    def connect(self, group: str, layout: Layout) -> Generator[Request, Any, Port | str]:
        slots = self._parameters.elements // layout.places
        return (yield from super().connect(group, Layout(layout.copies, layout.places, slots, layout.room)))


class Tight(Dedos):
    """A mailbox holds what the paper gives it, where ours has room for what processes store at once."""

    def __init__(self, host: Host, parameters: Parameters, rules: Rules) -> None:
        super().__init__(host, parameters, rules)
        self.ports = _TightPorts(host, parameters)


class Told(Dedos):
    """Writes down what it is told of nodes."""

    def __init__(self, host: Host, parameters: Parameters, rules: Rules) -> None:
        self.told: list[tuple[int, str, str]] = []
        """When, what, and of which node."""
        super().__init__(host, parameters, rules)

    def _nodes_changed(self, event: NodesEvent) -> None:
        where = event.node if isinstance(event, Gone) else event.state.node if isinstance(event, Appeared) else ""
        self.told.append((self.host.now, type(event).__name__, where))
        super()._nodes_changed(event)


VARIANTS: Final[Mapping[str, type[Dedos]]] = {"one distributor": OneDistributor, "tight": Tight, "told": Told}
"""By name: what travels to a task is the name."""
