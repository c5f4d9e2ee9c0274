"""Short runs of every protocol in which something happens at all times, and nobody halts by itself."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Final

from plainchant.scenario.load import parse
from plainchant.scenario.model import Scenario


@dataclasses.dataclass(frozen=True)
class Course:
    """A run to attack. What an engine holds in it (:func:`~.sizes.size_of`) is below ``most`` whatever strangers send, and below
    ``lies`` whatever members do: docs/bounds.md has the tables that these are made of."""

    name: str
    text: str
    most: int = 3_000
    lies: int = 30_000
    strangers: tuple[str, ...] = ("mallory", "p9", "zed#3")

    @property
    def scenario(self) -> Scenario:
        return _parsed(self.name, self.text)


@lru_cache
def _parsed(name: str, text: str) -> Scenario:
    return parse(text, name)


_CHANGES: Final = """
duration = "700ms"
drain = "10s"
members = ["p1", "p2", "p3", "p4"]
later = ["p5"]
network = {delay = {uniform = ["500us", "2ms"]}, loss = 0.02, duplicate = 0.02, reorder = 0.02, max_packet = 200}

[[workload]]
rate = 60
size = 40

[[workload]]
senders = ["p2"]
rate = 10
size = 500

[[fault]]
kind = "crash"
process = "p1"
at = "150ms"

[[fault]]
kind = "restart"
process = "p1"
at = "300ms"

[[fault]]
kind = "join"
process = "p5"
at = "400ms"

[[fault]]
kind = "leave"
process = "p4"
at = "500ms"
"""

COURSES: Final = {
    course.name: course
    for course in (
        Course("sequencer", 'protocol = "sequencer"\nparameters = {history = 16, suspect_after = "60ms"}\n' + _CHANGES),
        Course(
            "sequencer-resilient",
            'protocol = "sequencer"\nparameters = {resilience = 1, history = 16, suspect_after = "60ms"}\n' + _CHANGES,
        ),
        Course(
            "newtop",
            'protocol = "newtop"\n'
            'parameters = {suspect_after = "80ms", probe_after = "20ms", alive_every = "20ms", merge_after = "50ms"}\n'
            'groups = {g = ["p1", "p2", "p3", "p4"], h = ["p2", "p3", "p4"]}\n' + _CHANGES,
        ),
        Course(
            "newtop-causal",
            'protocol = "newtop"\n'
            'parameters = {suspect_after = "80ms", probe_after = "20ms", alive_every = "20ms", order = "fast"}\n'
            'groups = {g = ["p1", "p2", "p3", "p4"], h = ["p2", "p3", "p4"]}\n' + _CHANGES,
        ),
        Course(
            "newtop-asymmetric",
            'protocol = "newtop"\nparameters = {sequencers = {g = "p1"}, suspect_after = "0s"}\n'
            'duration = "400ms"\nmembers = ["p1", "p2", "p3"]\ngroups = {g = ["p1", "p2", "p3"], h = ["p2", "p3"]}\n'
            'network = {delay = {uniform = ["500us", "2ms"]}, loss = 0.02}\n[[workload]]\nrate = 100\n',
        ),
        Course(
            "newtop-groups",
            'protocol = "newtop"\nmembers = ["p1", "p2", "p3", "p4"]\nduration = "700ms"\n'
            'parameters = {suspect_after = "80ms", probe_after = "20ms", alive_every = "20ms"}\n'
            'network = {delay = {uniform = ["500us", "2ms"]}}\n[[workload]]\nrate = 50\n'
            '[[fault]]\nkind = "form"\nprocess = "p1"\ngroup = "meeting"\nmembers = ["p2", "p3"]\nat = "100ms"\n'
            '[[fault]]\nkind = "rename"\nprocess = "p2"\ngroup = "meeting"\nname = "dinner"\nat = "300ms"\n'
            '[[fault]]\nkind = "close"\nprocess = "p3"\ngroup = "dinner"\nat = "500ms"\n',
        ),
        Course(
            "rtcast",
            'protocol = "rtcast"\n'
            'parameters = {retransmissions = 2, delay_max = "3ms", clocks = "synchronised", gather = "200ms"}\n'
            + _CHANGES.replace("reorder = 0.02", "reorder = 0.0").replace("loss = 0.02", "loss = 0.001"),
        ),
        Course(
            "rtcast-plain",
            'protocol = "rtcast"\nparameters = {retransmissions = 0, admission = false, clocks = "none", gather = "200ms"}\n'
            'duration = "500ms"\nmembers = ["p1", "p2", "p3", "p4"]\nlater = ["p5"]\nnetwork = {delay = "1ms"}\n'
            '[[workload]]\nrate = 60\n[[fault]]\nkind = "crash"\nprocess = "p2"\nat = "150ms"\n'
            '[[fault]]\nkind = "join"\nprocess = "p5"\nat = "300ms"\n',
        ),
        Course(
            "mailbox",
            'protocol = "mailbox"\nmembers = ["p1", "p2", "p3", "p4"]\nduration = "400ms"\n'
            'parameters = {remote = {p3 = "p1", p4 = "p1"}, datagram = "300ms", poll = "2ms"}\n'
            'network = {delay = {uniform = ["200us", "2ms"]}, loss = 0.05}\n[[workload]]\nrate = 40\n'
            '[[fault]]\nkind = "crash"\nprocess = "p4"\nat = "150ms"\n'
            '[[fault]]\nkind = "restart"\nprocess = "p4"\nat = "250ms"\n',
            strangers=("mallory", "p9", "p2#7"),
        ),
        Course(
            "dedos",
            'protocol = "dedos"\nmembers = ["n1.a", "n1.b", "n2.a", "n2.b", "n3.a"]\nduration = "1200ms"\n'
            'parameters = {present_every = "20ms", delta = "8ms", silence = "50ms", poll = "10ms"}\n'
            'network = {delay = {uniform = ["200us", "1ms"]}, loss = 0.01}\n[[workload]]\nrate = 40\n'
            '[[fault]]\nkind = "crash"\nprocess = "n2.a"\nat = "300ms"\n'
            '[[fault]]\nkind = "restart"\nprocess = "n2.a"\nat = "600ms"\n'
            '[[fault]]\nkind = "node"\nnode = "n3"\nat = "800ms"\n',
            strangers=("n9.x", "mallory", "n1.zed", "n2.a#9"),
        ),
    )
}
