"""The senders of a live scenario, on a group whose host is a list."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from plainchant.core.model import MS, SECOND, Duration, Reason, Stream
from plainchant.group import OUTGOING, Buffers, Group
from plainchant.lab.live.workload import Numbering, Sender, outgoing_for
from plainchant.scenario.model import Workload

from ...live.endpoints import run
from ...ports import a_membership


class Host:
    """Takes every message at once; ``deliver`` gives it back in the next turn of the loop, if it is to. Of streams and messages
    that have to be admitted it rejects those whose numbers, counted from 0, are in ``rejecting``."""

    def __init__(self, *, deliver: bool = True, rejecting: Sequence[int] = ()) -> None:
        self.accepted: list[bytes] = []
        self.most_under_way = 0
        self._under_way = 0
        self._deliver = deliver
        self._rejecting = rejecting
        self.asked: list[Stream] = []
        self.released: list[str] = []
        self.member = a_membership(self, buffers=Buffers(listen=False), admits=True)
        self.group = Group(self.member)

    def accept(self, group: str, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self._take(payload, "")

    def _take(self, payload: bytes, stream: str) -> None:
        self.accepted.append(payload)
        self._under_way += 1
        self.most_under_way = max(self.most_under_way, self._under_way)
        self.member.took(1, len(payload), stream)
        if self._deliver:
            asyncio.get_running_loop().call_soon(self._back, len(self.accepted), payload)

    def admit(self, group: str, wanted: Stream, payload: bytes | None, arrived: int) -> None:
        self.asked.append(wanted)
        asyncio.get_running_loop().call_soon(self._answer, len(self.asked) - 1, wanted, payload)

    def _answer(self, number: int, wanted: Stream, payload: bytes | None) -> None:
        if number in self._rejecting:
            self.member.rejected(wanted.name, Reason("no room", "there is no room"))
            return
        self.member.admitted(wanted.name)
        if payload is not None:
            self._take(payload, wanted.name)

    def offer(self, group: str, stream: str, payload: bytes, arrived: int) -> None:
        self._take(payload, stream)

    def release(self, group: str, stream: str) -> None:
        self.released.append(stream)

    def admission(self, group: str) -> Mapping[str, Any] | None:
        return None

    def is_traced(self) -> bool:
        return False

    def write_note(self, group: str, sender: str | None, seq: int | None, detail: dict[str, Any]) -> None:
        raise AssertionError("nobody notes anything in this group")

    def _back(self, seq: int, payload: bytes) -> None:
        self._under_way -= 1
        self.member.deliver("p1", seq, [payload], seq, len(payload))

    def leave(self, group: str) -> None:
        self.member.left()

    def close_group(self, group: str) -> None:
        raise AssertionError("nobody closes this group")

    def rename(self, group: str, name: str) -> None:
        raise AssertionError("nobody renames this group")

    def pressure(self, group: str, full: bool) -> None:
        pass

    def waiting(self, group: str) -> Reason | None:
        return None

    def counters(self) -> Mapping[str, int]:
        return {}


def sender(host: Host, workload: Workload, numbering: Numbering | None = None, length: int = 60 * SECOND) -> Sender:
    now = time.monotonic_ns()
    return Sender(host.group, workload, numbering or Numbering(), Random(1), begin=now, end=now + length, stream="w0")


def test_an_open_loop_sends_its_count_with_the_simulators_payloads() -> None:
    async def main() -> None:
        host = Host()
        await sender(host, Workload(rate=5000.0, count=7, burst=3, size=10)).run()
        assert host.accepted == [f"p1/g/{number}".encode().ljust(10, b".") for number in range(1, 8)]

    run(main())


def test_senders_of_one_group_number_together() -> None:
    async def main() -> None:
        host, numbering = Host(), Numbering()
        workload = Workload(rate=5000.0, arrivals="poisson", count=20, size=12)
        await asyncio.gather(*(sender(host, workload, numbering).run() for _ in range(2)))
        assert [payload.rstrip(b".") for payload in host.accepted] == [f"p1/g/{number}".encode() for number in range(1, 41)]

    run(main())


def test_a_closed_loop_has_so_many_under_way_and_no_more() -> None:
    async def main() -> None:
        host = Host()
        await sender(host, Workload(closed=4, burst=2, count=21)).run()
        assert len(host.accepted) == 21
        assert host.most_under_way == 4

    run(main())


def test_a_closed_loop_waits_for_what_does_not_come_back() -> None:
    async def main() -> None:
        host = Host(deliver=False)
        waiting = asyncio.create_task(sender(host, Workload(closed=3)).run())
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(host.accepted) == 3
        host.member.halted(Reason("minority", "over"))
        await waiting

    run(main())


def test_a_closed_loop_beside_a_stream_counts_its_own() -> None:
    async def main() -> None:
        host = Host()
        stream = await host.group.stream("pulse", size=1, deadline="1ns", period="1ns")
        for _ in range(10):
            await stream.send(b".")
        await sender(host, Workload(closed=4, count=21)).run()
        assert len(host.accepted) == 31
        assert host.most_under_way <= 14

    run(main())


def test_a_regular_sender_with_deadlines_asks_for_a_stream() -> None:
    async def main() -> None:
        host = Host()
        await sender(host, Workload(rate=1000.0, count=5, size=12, deadline=Duration(MS))).run()
        assert host.asked == [Stream("w0", 12, MS, MS)]
        assert host.accepted == [f"p1/g/w0/{number}".encode().ljust(12, b".") for number in range(1, 6)]
        assert host.released == ["w0"]
        rejecting = Host(rejecting=[0])
        await sender(rejecting, Workload(rate=1000.0, count=5, deadline=Duration(MS))).run()
        assert not rejecting.accepted
        assert not rejecting.released

    run(main())


def test_a_random_sender_with_deadlines_asks_for_each_message_and_sends_what_is_admitted() -> None:
    async def main() -> None:
        host = Host(rejecting=[1, 3])
        await sender(host, Workload(rate=5000.0, arrivals="poisson", count=5, burst=2, deadline=Duration(MS))).run()
        assert [stream.name for stream in host.asked] == ["~1", "~2", "~3", "~4", "~5"]
        assert [payload.rstrip(b".") for payload in host.accepted] == [f"p1/g/w0/{number}".encode() for number in (1, 3, 5)]

    run(main())


def test_a_sender_with_deadlines_that_is_stopped_releases_its_stream() -> None:
    async def main() -> None:
        host = Host()
        sending = asyncio.create_task(sender(host, Workload(rate=1000.0, deadline=Duration(MS))).run())
        while len(host.accepted) < 3:
            await asyncio.sleep(0.001)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert host.released == ["w0"]

    run(main())


def test_a_sender_starts_and_stops_at_its_times() -> None:
    async def main() -> None:
        host = Host()
        workload = Workload(rate=1000.0, start=Duration(5 * MS), stop=Duration(6 * MS))
        before = time.monotonic_ns()
        await sender(host, workload).run()
        assert time.monotonic_ns() - before >= 5 * MS
        late = Host()
        await sender(late, Workload(), length=0).run()
        assert late.accepted == []

    run(main())


def test_a_sender_ends_when_the_group_takes_no_more() -> None:
    async def main() -> None:
        host = Host()
        sending = asyncio.create_task(sender(host, Workload(rate=100_000.0)).run())
        while len(host.accepted) < 10:
            await asyncio.sleep(0)
        await host.group.leave()
        await sending

    run(main())


def test_only_the_greedy_have_a_small_buffer() -> None:
    greedy = Workload(size=100)
    assert outgoing_for([]) == outgoing_for([Workload(rate=1.0)]) == outgoing_for([greedy, Workload(closed=1)]) == OUTGOING
    assert outgoing_for([greedy]) < 64 * 1024
