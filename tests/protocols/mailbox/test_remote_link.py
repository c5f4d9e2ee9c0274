"""The link between a remote process and who acts for it: everything comes once and in order, whatever the datagrams do."""

from __future__ import annotations

import heapq
from random import Random
from typing import Any

import pytest

from plainchant.core.model import MS, SECOND, Batch, Duration, Packet, Reason, View, WireError
from plainchant.core.wire import Codec
from plainchant.protocols.mailbox.parameters import Parameters
from plainchant.protocols.mailbox.remote_link import PIECE, WINDOW, Link, silence
from plainchant.protocols.mailbox.remote_packets import (
    PACKETS,
    AnyItem,
    Data,
    Delivered,
    Halted,
    Heard,
    Installed,
    Piece,
    Pressed,
    item_from_bytes,
    item_to_bytes,
)
from tests.fakes import FakeHost, as_host

PARAMETERS = Parameters(remote={"p4": "p1"}, datagram=Duration(100 * MS), room=4 * WINDOW * PIECE)


class Side:
    """One end of a link and what it has heard."""

    def __init__(self, me: str, peer: str) -> None:
        self.host = FakeHost(me)
        self.heard: list[AnyItem] = []
        self.lost: list[Reason] = []
        self.overdue: list[int] = []
        self.link = Link(as_host(self.host), "g", peer, 7, PARAMETERS, self.heard.append, self.lost.append, self.overdue.append)


class Channel:
    """Two ends, and datagrams between them that are lost, repeated and overtaken; time goes on as they say."""

    def __init__(self, seed: int = 0, *, loss: float = 0, repeat: float = 0, most: int = 2 * MS) -> None:
        self.random = Random(seed)
        self.loss, self.repeat, self.most = loss, repeat, most
        self.sides = {"p1": Side("p1", "p4"), "p4": Side("p4", "p1")}
        self.codec = Codec(PACKETS)
        self.under_way: list[tuple[int, int, str, bytes]] = []
        self.now = 0
        self.count = 0
        self.log: list[Packet] = []
        """Everything that was sent, lost or not."""

    def run(self, until: int) -> None:
        """Delivers packets and lets timers expire, in order."""
        while True:
            self._collect()
            timers = [(min(side.host.timers.values()), name) for name, side in self.sides.items() if side.host.timers]
            at, name = min(timers, default=(until + 1, ""))
            arrival = self.under_way[0][0] if self.under_way else until + 1
            if min(at, arrival) > until:
                break
            self._set(min(at, arrival))
            if arrival <= at:
                _, _, name, data = heapq.heappop(self.under_way)
                packet = self.codec.decode(data)
                assert isinstance(packet, Piece | Heard)
                self.sides[name].link.receive(packet)
            else:
                self.sides[name].host.timers.clear()
                self.sides[name].link.expire()
        self._set(until)

    def _set(self, now: int) -> None:
        self.now = now
        for side in self.sides.values():
            side.host.time = now

    def _collect(self) -> None:
        for side in self.sides.values():
            for to, packet in side.host.called("send"):
                self.log.append(packet)
                for _ in range(1 + (self.random.random() < self.repeat)):
                    if self.random.random() >= self.loss:
                        self.count += 1
                        at = self.now + self.random.randint(0, self.most)
                        heapq.heappush(self.under_way, (at, self.count, to[0], self.codec.encode(packet)))
            side.host.calls.clear()


def items(count: int, random: Random) -> list[AnyItem]:
    sizes = [random.choice((1, 100, PIECE, 3 * PIECE, 30 * PIECE)) for _ in range(count)]
    return [Data(Batch(number, 1, bytes([number % 256]) * size)) for number, size in enumerate(sizes, 1)]


@pytest.mark.parametrize("seed", range(6))
def test_everything_comes_once_and_in_order(seed: int) -> None:
    channel = Channel(seed, loss=0.25, repeat=0.2, most=8 * MS)
    there, back = items(40, channel.random), items(25, channel.random)
    for number, item in enumerate(there):
        channel.sides["p4"].link.say(item)
        if number < len(back):
            channel.sides["p1"].link.say(back[number])
        channel.run(channel.now + channel.random.randint(0, 5 * MS))
    channel.run(channel.now + 5 * SECOND)
    assert channel.sides["p1"].heard == there
    assert channel.sides["p4"].heard == back
    assert [side.link.backlog for side in channel.sides.values()] == [0, 0]
    assert not any(side.lost for side in channel.sides.values())


def test_no_more_than_a_window_is_under_way() -> None:
    channel = Channel()
    link = channel.sides["p4"].link
    link.say(Data(Batch(1, 1, bytes(3 * WINDOW * PIECE))))
    assert link.backlog > 3 * WINDOW
    assert len(channel.sides["p4"].host.called("send")) == WINDOW
    channel.run(1 * SECOND)
    assert link.backlog == 0
    assert len(channel.sides["p1"].heard) == 1


def test_a_lost_piece_is_sent_again_and_nothing_else() -> None:
    channel = Channel(most=0)
    channel.sides["p4"].link.say(Pressed(True))
    channel.run(50 * MS)
    host = channel.sides["p4"].host
    channel.sides["p4"].link.say(Data(Batch(1, 1, bytes(10 * PIECE))))
    numbers = [packet.number for _, packet in host.called("send")]
    assert 5 in numbers
    host.calls[:] = [call for call in host.calls if call[2].number != 5]
    channel.log.clear()
    channel.run(200 * MS)
    assert sorted(packet.number for packet in channel.log if isinstance(packet, Piece)) == numbers
    assert len(channel.sides["p1"].heard) == 2


def test_silence_ends_a_link_on_both_sides() -> None:
    channel = Channel()
    for side in channel.sides.values():
        side.link.say(Pressed(False))
    channel.run(1 * SECOND)
    channel.loss = 1
    channel.run(channel.now + silence(PARAMETERS) + 1 * SECOND)
    assert [[reason.code for reason in side.lost] for side in channel.sides.values()] == [["silence"], ["silence"]]


def test_two_sides_with_nothing_to_say_hear_each_other_for_ever() -> None:
    channel = Channel(loss=0.1)
    for side in channel.sides.values():
        side.link.say(Pressed(False))
    channel.run(20 * silence(PARAMETERS))
    assert not any(side.lost for side in channel.sides.values())


def test_who_rests_speaks_again_when_it_is_spoken_to() -> None:
    channel = Channel()
    acting, remote = channel.sides["p1"], channel.sides["p4"]
    acting.link.say(Pressed(False))
    remote.link.say(Pressed(False))
    channel.run(1 * SECOND)
    channel.loss = 1
    acting.link.say(Halted(Reason("silence", "gone")))
    acting.link.rest()
    channel.log.clear()
    channel.run(channel.now + silence(PARAMETERS) // 2)
    assert [type(packet) for packet in channel.log if isinstance(packet, Piece)] == [Piece]
    channel.loss = 0
    channel.run(channel.now + silence(PARAMETERS) // 3)
    assert remote.heard[-1] == Halted(Reason("silence", "gone"))
    assert not remote.lost


@pytest.mark.parametrize(("most", "is_overdue"), [(49 * MS, False), (150 * MS, True)])
def test_acknowledgements_that_take_longer_than_the_bound_are_told_once(most: int, is_overdue: bool) -> None:
    channel = Channel(3, most=most)
    for _ in range(60):
        channel.sides["p4"].link.say(Pressed(True))
        channel.run(channel.now + 100 * MS)
    told = channel.sides["p4"].overdue
    assert len(told) == is_overdue
    assert all(took > PARAMETERS.datagram for took in told)


def test_what_cannot_be_read_ends_the_link() -> None:
    side = Side("p1", "p4")
    side.link.receive(Piece("g", 7, 1, 0, False, b"\xc1"))
    assert [reason.code for reason in side.lost] == ["garbled"]
    assert not side.heard


def test_who_is_closed_still_acknowledges() -> None:
    side = Side("p4", "p1")
    piece = Piece("g", 7, 1, 0, False, item_to_bytes(Pressed(True)))
    side.link.receive(piece)
    side.link.close()
    side.link.say(Pressed(False))
    side.link.receive(piece)
    assert side.host.called("send")[-1] == (("p1",), Heard("g", 7, 1))
    assert side.link.backlog == 0
    assert not side.host.timers


def test_items_are_read_back_as_they_were() -> None:
    view = View("g", 3, ("p1", "p4"), ("p4",), {"p2": Reason("left", "it left", {"stamp": 7})}, rank=99)
    said: list[Any] = [Installed(view), Delivered("p1", Batch(1, 1, b"x"), 5), Delivered("p1", Batch(1, 0, b"x", 0, 9), None)]
    assert [item_from_bytes(item_to_bytes(item)) for item in said] == said
    for garbage in (b"", b"\x00", item_to_bytes(said[0])[:-1], b"\x91\x63"):
        with pytest.raises(WireError, match="run the same version everywhere"):
            item_from_bytes(garbage)
