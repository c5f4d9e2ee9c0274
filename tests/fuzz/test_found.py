"""What was found in the protocols, each with the packets that do it, and with the check taken out where it is one."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

import msgspec
import pytest
from msgspec import inspect

from plainchant.core.model import MOST, MS, Batch, Packet, WireError
from plainchant.core.wire import VERSION, Codec
from plainchant.layers.state_parts import STATE_PACKETS
from plainchant.protocols import registry
from plainchant.protocols.dedos import nodes_packets
from plainchant.protocols.dedos import packets as dedos
from plainchant.protocols.dedos.engine import Dedos
from plainchant.protocols.dedos.nodes import Nodes
from plainchant.protocols.newtop import formation
from plainchant.protocols.newtop import packets as newtop
from plainchant.protocols.newtop.part import Part
from plainchant.protocols.rtcast import packets as rtcast
from plainchant.protocols.sequencer import packets as sequencer
from plainchant.protocols.sequencer.door import Door
from plainchant.protocols.variants import replaced
from plainchant.sim.host import SimHost

from .attack import STRANGERS, Attack, Result
from .courses import COURSES
from .dice import Dice
from .packets import integers_in
from .targets import TARGETS, spools

EVERY_PACKET = [*(packet for one in registry.protocols().values() for packet in one.packets), *STATE_PACKETS]


class Scripted(Attack):
    """Hands certain packets over, at a certain time."""

    def __init__(self, name: str, at: int, target: str, source: str, packets: Sequence[Packet]) -> None:
        super().__init__(COURSES[name], Dice(b""), STRANGERS)
        self.kernel.at(at, self._hand_over)
        self._script = target, source, packets

    def _strike(self, _: None) -> None: ...

    def _hand_over(self, _: None) -> None:
        name, source, packets = self._script
        target = next(host for host in self.simulation.hosts if host.me == name)
        for packet in packets:
            self.hand(target, source, packet)


def harm(result: Result) -> bool:
    return bool(result.halted or result.violated or not result.summary.quiet)


# --- the decoder --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packet", EVERY_PACKET, ids=lambda packet: f"{packet.__module__}.{packet.__name__}")
def test_every_integer_in_a_packet_has_a_range(packet: type[Packet]) -> None:
    without = [where for where, kind in integers_in(packet) if kind.le is None or kind.ge is None]
    assert not without, f"declare them as model.Number, or with a range of their own: {without}"


def test_an_integer_without_a_range_is_found() -> None:
    class Loose(Packet, frozen=True, array_like=True, gc=False, tag=1):
        pairs: tuple[tuple[str, int], ...]

    assert [(where, kind) for where, kind in integers_in(Loose)] == [("Loose.pairs", inspect.IntType())]


@pytest.mark.parametrize("number", [MOST + 1, 1 << 63, (1 << 64) - 1, -(1 << 63)])
def test_a_number_that_would_overflow_a_trace_is_refused(number: int) -> None:
    body = msgspec.msgpack.encode([4, "g", 1, number, 0])
    with pytest.raises(WireError, match="no packet of this protocol"):
        Codec(sequencer.PACKETS).decode(struct.pack(">BI", VERSION, crc32(body)) + body)


def test_a_name_that_nobody_has_is_refused() -> None:
    codec = Codec(sequencer.PACKETS)
    with pytest.raises(WireError, match="no packet of this protocol"):
        codec.decode(codec.encode(sequencer.Where("g", "p" * 500)))


# --- sequencer ----------------------------------------------------------------------------------------------------------

EXCLUDED = sequencer.Excluded("g", 1000, "silence", "you are out")


def test_a_stranger_excludes_nobody() -> None:
    assert not harm(Scripted("sequencer", 100 * MS, "p2", "mallory", [EXCLUDED]).run())
    with replaced(Door, "knows", lambda self, source: True):
        assert Scripted("sequencer", 100 * MS, "p2", "mallory", [EXCLUDED]).run().halted


def test_a_stranger_is_not_followed() -> None:
    invite = sequencer.Invite("g", 7, False)
    announce = sequencer.Announce("g", 7, 0, (), ("mallory", "p2"), 90, 0, 90, 0)
    forged = sequencer.Broadcast("g", 7, 40, 0, 90, sequencer.Entry("p3", 1, Batch(1, 1, b"forged")))
    assert not harm(Scripted("sequencer", 100 * MS, "p2", "mallory", [invite, announce, forged] * 3).run())


def test_a_range_is_not_walked_through_because_somebody_names_it() -> None:
    fetch = sequencer.Fetch("g", 7, (1, "p1"), 0, MOST)
    assert not harm(Scripted("sequencer", 100 * MS, "p2", "mallory", [sequencer.Invite("g", 7, False), fetch]).run())


# --- newtop -------------------------------------------------------------------------------------------------------------


def test_a_beacon_of_nobody_is_none() -> None:
    assert not harm(Scripted("newtop-groups", 50 * MS, "p1", "mallory", [newtop.Beacon("g", 3, ())]).run())


def test_a_stranger_without_a_name_is_no_sequencer() -> None:
    """``#`` is an incarnation of the empty name, which stood for "no sequencer": its column alone counted, until it was gone."""
    assert not harm(Scripted("newtop-groups", 50 * MS, "p1", "#", [newtop.AskJoin("g", "#")]).run())


def test_a_stranger_does_not_close_a_group() -> None:
    plan = newtop.Plan(77, "", 50, ("p1", "p2", "p3", "p4", "mallory"))
    packets = [newtop.Call("g", 5), newtop.Convene("g", 5, plan)]
    result = Scripted("newtop-groups", 50 * MS, "p1", "mallory", packets).run()
    assert not harm(result)
    assert {end.state for end in result.summary.processes.values()} == {"alive"}
    with replaced(formation.Formations, "_convened", _credulous):
        result = Scripted("newtop-groups", 50 * MS, "p1", "mallory", packets).run()
    assert {end.state for end in result.summary.processes.values()} != {"alive"}


def _credulous(self: formation.Formations, part: Part, source: str, convene: newtop.Convene) -> None:
    self.process.say(part, newtop.Move(convene.plan))


# --- rtcast -------------------------------------------------------------------------------------------------------------


def test_a_stranger_on_no_ring_is_not_missed() -> None:
    data = rtcast.Data("g", "p1", 900, 5000, "mallory", 7, True, 0, Batch(1, 1, b"forged"))
    spoofed = rtcast.Data("g", "p1", 900, 5000, "p3", 7, True, 0, Batch(1, 1, b"forged"))
    assert not harm(Scripted("rtcast-plain", 260 * MS, "p3", "mallory", [data, spoofed] * 5).run())


# --- dedos --------------------------------------------------------------------------------------------------------------


def test_a_stranger_speaks_for_no_node_of_others() -> None:
    later = nodes_packets.Present("n2", MOST, 200 * MS, 0, ("n9.x",), 0, (), 0, 1, 0)
    assert not harm(Scripted("dedos", 200 * MS, "n1.a", "n9.x", [later]).run())


def test_a_stranger_sends_no_node_away() -> None:
    assert not harm(_fenced())
    with replaced(Nodes, "is_listed", lambda self, source: True):
        assert _fenced().halted


def _fenced() -> Result:
    """A stranger tells a node that its group goes on without it."""
    attack = Scripted("dedos", 200 * MS, "n1.a", "n9.x", [])

    def hand_over(_: None) -> None:
        target, engine = _engine(attack, "n1.a")
        epoch = dedos.epoch_of(9, "n9.x")
        attack.hand(target, "n9.x", dedos.Fence("g", epoch, "n1", engine.relays["g"].box.life))

    attack.kernel.at(201 * MS, hand_over)
    return attack.run()


def _engine(attack: Attack, name: str) -> tuple[SimHost, Dedos]:
    target = next(host for host in attack.simulation.hosts if host.me == name)
    engine = target.engine.inner.inner  # type: ignore[attr-defined]  # within the tap and fragmentation
    assert isinstance(engine, Dedos)
    return target, engine


def test_a_number_far_ahead_is_not_asked_for_one_by_one() -> None:
    attack = Scripted("dedos", 200 * MS, "n2.a", "n1.a", [])
    epochs: list[int] = []

    def hand_over(_: None) -> None:
        target, engine = next(found for found in (_engine(attack, "n2.a"), _engine(attack, "n2.b")) if found[1].relays)
        epochs.append(engine.relays["g"].promised)
        attack.hand(target, "n1.a", dedos.Multicast("g", epochs[0], MOST - 5, 1, MOST, ()))

    attack.kernel.at(201 * MS, hand_over)
    attack.run()
    assert epochs


def test_names_of_any_shape_are_names() -> None:
    acquaint = nodes_packets.Acquaint(("n1.a#x", "n5.b#", "#", "n5.b#" + "9" * 80))
    assert not harm(Scripted("dedos", 200 * MS, "n1.a", "n2.b", [acquaint]).run())


# --- readers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(12))
def test_a_damaged_spool_is_refused_with_a_sentence(number: int) -> None:
    spools(bytes([number]) + b"spool" * 20 + bytes([number * 17 % 256]) * 40)


@pytest.mark.parametrize("name", ["decoder", "framing"])
def test_bytes_of_any_kind_come_to_an_end(name: str) -> None:
    for number in range(200):
        TARGETS[name](bytes((number * step) % 256 for step in range(1, 60)))
