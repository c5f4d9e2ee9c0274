"""Figures of real nodes, as Prometheus gets them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import prometheus_client
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

import plainchant
from plainchant import Group, Halted, Node, UsageError
from plainchant.core import plugins
from plainchant.core.model import Reason
from plainchant.live.keys import Keyring
from plainchant.live.observe.endpoint import PIECE
from plainchant.live.observe.metrics import COUNTER, GAUGE, HISTOGRAM, METRICS, Metric, refused_packets
from plainchant.live.observe.observer import TICK, Observer
from plainchant.live.refusals import Refusals
from plainchant.live.transport import Counters

from ...ports import member_of
from ..endpoints import until
from ..test_api import CALM, HASTY, Cables, addresses, full, members, read, run

PAGE = Path(__file__).resolve().parents[3] / "docs" / "observe.md"


def observer_of(group: Group) -> Observer:
    assert isinstance(group.node, Node)
    assert group.node.observer is not None
    return group.node.observer


async def fetch(where: tuple[str, int], path: str = "/metrics", **headers: str) -> tuple[int, str, str]:
    """Status, content type and text."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{where[0]}:{where[1]}{path}", headers=headers) as response,
    ):
        return response.status, response.headers["Content-Type"], await response.text()


class Scrape:
    """What a scrape said, by name and labels."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in parse(text)}
        self.samples = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        return self.samples[(f"plainchant_{name}", *sorted(labels.items()))]

    def labels(self, name: str, label: str) -> set[str]:
        """The values that a label has in the samples of a figure."""
        return {value for found, *rest in self.samples if found == f"plainchant_{name}" for key, value in rest if key == label}


async def scrape(group: Group) -> Scrape:
    status, _, text = await fetch(observer_of(group).metrics_address)
    assert status == 200
    return Scrape(text)


# --- what is told -------------------------------------------------------------------------------------------------------


def test_the_figures_are_what_happened(tmp_path: Path) -> None:
    async def main() -> None:
        async with members("a", "b", metrics="0", trace=tmp_path) as (a, b):
            for _ in range(5):
                receipt = await a.send(b"ten bytes.")
            await (await b.send_many([b"xyz"] * 3)).delivered()
            await receipt.delivered()
            await until(lambda: a.metrics()["delivered"] == 8)
            said = await scrape(a)
            assert said("messages_accepted_total", group="g") == said("messages_sent_total", group="g") == 5
            assert said("messages_delivered_total", group="g") == 8
            assert said("own_messages_delivered_total", group="g") == 5
            assert said("message_sent_bytes_total", group="g") == 50
            assert 59 <= said("message_delivered_bytes_total", group="g") <= 59 + 5 * (8 + 8)
            assert said("message_latency_seconds_count", group="g") == 5
            assert said("message_latency_seconds_bucket", group="g", le="+Inf") == 5
            assert 0 < said("message_latency_seconds_sum", group="g") < 60
            assert said("queue_messages", group="g") == said("blocked_senders", group="g") == 0
            assert said("unread_bytes", group="g") == a.metrics()["unread_bytes"] > 0
            assert (said("members", group="g"), said("view_number", group="g")) == (2, 1)
            assert (said("views_total", group="g"), said("arrivals_total", group="g")) == (1, 2)
            assert said("node_alive") == 1
            assert said("node_info", process="a", place="a", protocol="sequencer", version=plainchant.__version__) == 1
            assert said("packets_sent_total") > 0 < said("packets_received_bytes_total")
            assert said("spool_rows_total") > 16 < said("spool_bytes_total") < said("spool_free_bytes")
            assert said.samples[("process_open_fds",)] > 3
            assert said("spool_bytes_total") == sum(path.stat().st_size for path in (tmp_path / "r0" / "a").glob("*.spool"))

    run(main())


def test_what_is_told_is_what_is_declared_and_documented() -> None:
    async def main() -> None:
        async with members("a", metrics="0") as (a,):
            said = await scrape(a)
        of_ours = {name for name in said.families if name.startswith("plainchant_")}
        assert of_ours == {metric.name.removesuffix("_total") for metric in METRICS}
        assert {name for name in said.families if not name.startswith("plainchant_")} >= {
            "process_cpu_seconds",
            "process_resident_memory_bytes",
            "process_open_fds",
            "python_info",
        }
        for metric in METRICS:
            family = said.families[metric.name.removesuffix("_total")]
            assert (family.type, family.documentation) == (metric.kind, metric.about)

    run(main())
    assert documented(PAGE.read_text()) == [row(metric) for metric in METRICS]


def row(metric: Metric) -> tuple[str, str, str, str]:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return (f"`{metric.name}`", metric.kind, labels, metric.about.removesuffix("."))


def documented(page: str) -> list[tuple[str, ...]]:
    """The rows of the table of figures."""
    lines = [line for line in page.splitlines() if re.match(r"\| `plainchant_\w+` \|", line)]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def test_a_figure_that_the_page_does_not_have_is_found() -> None:
    page = PAGE.read_text()
    wanted = [row(metric) for metric in METRICS]
    assert documented(page.replace("| `plainchant_members` |", "| `plainchant_people` |")) != wanted
    assert documented(re.sub(r"(?m)^\| `plainchant_halts_total`.*\n", "", page)) != wanted


def test_queries_and_alerts_ask_for_figures_that_there_are() -> None:
    there = {metric.name for metric in METRICS}
    there |= {f"{metric.name}_{part}" for metric in METRICS if metric.kind == HISTOGRAM for part in ("bucket", "sum", "count")}
    asked = set(re.findall(r"\bplainchant_\w+", PAGE.read_text()))
    assert asked - there - {"plainchant_workbench"} == set()
    assert asked - {metric.name for metric in METRICS}  # it is looked at more than the table


def naming_problems(metrics: tuple[Metric, ...]) -> list[str]:
    """Names that are not as Prometheus wants them."""
    found = [metric.name for metric in metrics if not re.fullmatch(r"plainchant_[a-z]+(_[a-z]+)*", metric.name)]
    found += [metric.name for metric in metrics if (metric.kind == COUNTER) != metric.name.endswith("_total")]
    found += [metric.name for metric in metrics if metric.kind == HISTOGRAM and not metric.name.endswith("_seconds")]
    found += [metric.name for metric in metrics if re.search(r"_(ms|ns|milliseconds|kilobytes|kb)(_|$)", metric.name)]
    return found + [name for name, number in Counter(metric.name for metric in metrics).items() if number > 1]


def test_names_are_as_prometheus_wants_them() -> None:
    assert naming_problems(METRICS) == []
    for name, kind in (
        ("plainchant_x", COUNTER),
        ("plainchant_x_total", GAUGE),
        ("x_total", COUNTER),
        ("plainchant_x_ms", GAUGE),
        ("plainchant_x", HISTOGRAM),
        ("plainchant_X", GAUGE),
    ):
        assert naming_problems((Metric(name, kind, (), "", lambda snapshot: []),)) == [name]


def test_openmetrics_is_spoken_to_who_wants_it() -> None:
    async def main() -> None:
        async with members("a", metrics="0") as (a,):
            await (await a.send(b"x")).delivered()
            where = observer_of(a).metrics_address
            status, kind, text = await fetch(where, Accept="application/openmetrics-text; version=1.0.0")
            assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
            assert text.count("# EOF") == 1
            found = {family.name: family for family in parse_openmetrics(text)}  # type: ignore[no-untyped-call]
            (sample,) = found["plainchant_messages_delivered"].samples
            assert (sample.labels, sample.value) == ({"group": "g"}, 1)
            assert (await fetch(where))[1].startswith("text/plain; version=0.0.4")
            assert "/metrics" in (await fetch(where, "/"))[2]
            assert (await fetch(where, "/other"))[0] == 404

    run(main())


# --- who is gone, and who waits -------------------------------------------------------------------------------------------


def test_exclusions_and_halts_are_told_by_reason() -> None:
    async def main() -> None:
        peers, cables = addresses("a", "b", "c"), Cables()
        options: dict[str, Any] = {"peers": peers, "transport": cables, "metrics": "0", "parameters": HASTY}
        with contextlib.suppress(Halted):  # c, as it leaves
            async with members("a", "b", "c", **options) as (a, b, c):
                cables.made[peers["c"]].cut = True
                await until(lambda: len(a.members) == 2 and c.is_over)
                said = await scrape(a)
                (reason,) = said.labels("departures_total", "reason")
                assert reason != "left"
                assert said("departures_total", group="g", reason=reason) == 1
                assert said("protocol_events_total", group="g", kind="suspect") >= 1
                of_c = await scrape(c)
                assert of_c("node_alive") == 0
                (why,) = of_c.labels("halts_total", "reason")
                assert of_c("halts_total", reason=why) == 1
                assert of_c("members", group="g") == 0
                await b.leave()
                await until(lambda: len(a.members) == 1)
                assert (await scrape(a))("departures_total", group="g", reason="left") == 1

    run(main())


def test_the_time_that_senders_wait_and_what_is_sent_again_are_told() -> None:
    async def main() -> None:
        async with full(b"x" * 1000, metrics="0", outgoing=5000) as (_, b, cable, accepted):
            sending = asyncio.create_task(b.send(b"x" * 1000))
            await until(lambda: b.metrics()["blocked_senders"] == 1)
            before = (await scrape(b))("blocked_seconds_total", group="g")
            await until(lambda: b.metrics()["blocked_ns"] > before * 1e9 + 1e7)
            said = await scrape(b)
            assert said("blocked_seconds_total", group="g") > before
            assert said("blocked_senders", group="g") == 1
            assert said("queue_messages", group="g") == b.metrics()["queued"] > 0
            assert said("queue_bytes", group="g") <= said("queue_limit_bytes", group="g") == 5000
            assert said("messages_accepted_total", group="g") == accepted
            assert said.labels("waiting", "reason")
            cable.cut = False
            await (await sending).delivered()
            await until(lambda: b.metrics()["blocked_senders"] == 0)
            after = await scrape(b)
            assert after("blocked_seconds_total", group="g") == (await scrape(b))("blocked_seconds_total", group="g")
            assert after("retransmitted_packets_total", group="g") > 0

    run(main())


def test_the_time_for_which_too_much_is_unread_is_told() -> None:
    async def main() -> None:
        async with members("a", metrics="0", unread=2000) as (a,):
            assert (await scrape(a))("overfull_seconds_total", group="g") == 0
            await (await a.send_many([b"x" * 500] * 10)).delivered()
            await until(lambda: a.metrics()["overfull_ns"] > 0)
            said = await scrape(a)
            assert said("unread_bytes", group="g") > said("unread_limit_bytes", group="g") == 2000
            await read(a, 10)
            rested = a.metrics()["overfull_ns"]
            await asyncio.sleep(0.01)
            assert a.metrics()["overfull_ns"] == rested > 0

    run(main())


def test_figures_of_a_group_go_with_it_and_follow_its_name() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        nodes = [Node(me=name, peers=peers, protocol="newtop", metrics="0", agree=lambda invitation: True) for name in peers]
        async with nodes[0] as a, nodes[1] as b:
            meeting = await a.form("meeting", ["b"])
            theirs = await b.next_group()
            await (await meeting.send(b"x")).delivered()
            await meeting.rename("assembly")
            said = await scrape(meeting)
            assert said.labels("messages_delivered_total", "group") == {"assembly"}
            assert said("message_latency_seconds_count", group="assembly") == 1
            await (await meeting.send(b"y")).delivered()
            assert (await scrape(meeting))("message_latency_seconds_count", group="assembly") == 2
            await meeting.close()
            await theirs.ended()
            left = await scrape(meeting)
            assert left.labels("messages_delivered_total", "group") == set()
            assert left.labels("protocol_events_total", "group") <= {""}
            observer = observer_of(meeting)
            for number in range(100):
                observer.recorded("form", f"never {number}", {})
            assert (await scrape(meeting)).labels("protocol_events_total", "group") == {""}

    run(main())


# --- whatever is counted --------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Guard:
    noise: int = 3
    replays: int = 4


class Counting:
    """As much of a host as counts."""

    def __init__(self) -> None:
        self.packets_sent = 1
        self.packets_damaged = 2
        self.packets_late = 5
        self.guard = Guard()
        self.reason = Reason("x", "no counters")
        self.events = 9


def test_kinds_of_refused_packets_need_not_be_named_here() -> None:
    transport = {"sent": 1, "received": 1, "sent_bytes": 1, "received_bytes": 1, "dropped": 7, "oversized": 8}
    statistics = {"packets_sent": 1, "packets_foreign": 2, "packets_dropped": 7, "packets_unproved": 6, "bytes_sent": 8}
    assert refused_packets(Counting(), transport, statistics) == {
        "transport_dropped": 7,
        "transport_oversized": 8,
        "damaged": 2,
        "unproved": 6,
        "late": 5,
        "noise": 3,
        "replays": 4,
    }
    assert dataclasses.asdict(Counters()).keys() >= {"sent", "sent_bytes", "received", "received_bytes"}


def test_noise_is_told() -> None:
    async def main() -> None:
        async with members("a", metrics="0") as (a,):
            assert isinstance(a.node, Node)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.sendto(b"noise" * 20, a.node.address)
            await until(lambda: a.metrics()["packets_damaged"] == 1)
            said = await scrape(a)
            assert said("packets_refused_total", kind="noise") == 1
            assert {kind for kind in said.labels("packets_refused_total", "kind")} >= set(Refusals().as_dict())
            assert sum(said("packets_refused_total", kind=kind) for kind in said.labels("packets_refused_total", "kind")) == 1

    run(main())


def test_sessions_and_keys_are_told_where_there_are_keys() -> None:
    async def main() -> None:
        ring = Keyring.new()
        async with members("a", "b", key=ring, metrics="0") as (a, _):
            said = await scrape(a)
            assert said("peers") == 1 <= said("sessions")
            assert said.labels("sealed_with", "key") == {str(ring.sealing)}
            assert said("sealed_with", key=str(ring.sealing)) == 1
        async with members("a", metrics="0") as (a,):
            said = await scrape(a)
            assert said("peers") == 0
            assert said.labels("sealed_with", "key") == set()

    run(main())


# --- what it costs --------------------------------------------------------------------------------------------------------


async def calls_for(number: int, **options: Any) -> int:
    """Python functions that are called while so many messages are sent, delivered and read, one by one."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    async with members("a", **options) as (a,):
        for _ in range(200):
            receipt = await a.send(b"warm")
        await receipt.delivered()
        await read(a, 200)
        sys.setprofile(count)
        try:
            for _ in range(number):
                receipt = await a.send(b"x")
            await receipt.delivered()
            await read(a, number)
        finally:
            sys.setprofile(None)
    return calls


def test_a_node_with_metrics_does_no_work_a_message() -> None:
    async def main() -> None:
        number = 10_000

        async def fewest(**options: Any) -> int:
            """Timers come in between, on a busy machine more of them."""
            return min([await calls_for(number, **options) for _ in range(3)])

        without = await fewest()
        for options in ({"metrics": "0"}, {"metrics": "0", "spans": 0.0}):
            # Samples of a burst: their number grows with its logarithm.
            assert (await fewest(**options) - without) / number < 0.2
        everything = await calls_for(300, spans=1.0)
        assert everything / 300 > 2 * without / number  # it would be seen

    run(main())


def test_the_loop_goes_on_while_it_is_scraped_and_figures_are_of_one_instant() -> None:
    async def main() -> None:
        turns, running, flooded = 0, True, asyncio.Event()

        def turn() -> None:
            nonlocal turns
            turns += 1
            if running:
                asyncio.get_running_loop().call_soon(turn)

        async def flood(group: Group) -> None:
            while not flooded.is_set():
                await group.send_many([b"x" * 100] * 50)
                await asyncio.sleep(0)

        async with members("a", "b", metrics="0", outgoing=20_000) as (a, b):
            b.stop_listening()
            a.stop_listening()
            flooding = asyncio.create_task(flood(a))
            observer = observer_of(a)
            endpoint = observer._endpoint
            assert endpoint is not None
            for _ in range(5):
                turn()
                before = turns
                await endpoint.text(prometheus_client.generate_latest)
                assert turns - before >= len(METRICS)
                said = await scrape(a)  # while messages are sent at every turn of the loop
                accepted, sent = (said(f"messages_{word}_total", group="g") for word in ("accepted", "sent"))
                assert accepted == sent + said("queue_messages", group="g") > 0
                running = False
                await asyncio.sleep(0)
                running = True
            running = False
            flooded.set()
            await flooding

    run(main())


def test_many_groups_are_told_piece_by_piece() -> None:
    async def main() -> None:
        async with members("a", metrics="0") as (a,):
            await (await a.send(b"x")).delivered()
            observer = observer_of(a)
            endpoint, host = observer._endpoint, a.node.host  # type: ignore[attr-defined]
            assert endpoint is not None
            others = [f"group {number}" for number in range(3 * PIECE)]
            longest = 0

            def encode(families: Any) -> bytes:
                nonlocal longest
                longest = max(
                    longest, *(len({sample.labels.get("group") for sample in each.samples}) for each in families.collect())
                )
                return prometheus_client.generate_latest(families)

            for name in others:
                host.groups[name], observer.figures[name] = member_of(a), observer.figures["g"]
            text = (await endpoint.text(encode)).decode()
            for name in others:
                del host.groups[name], observer.figures[name]
            said = Scrape(text)
            assert said.labels("messages_delivered_total", "group") == {"g", *others}
            assert said.labels("message_latency_seconds_bucket", "group") == {"g", *others}
            assert text.count("# TYPE plainchant_members ") == text.count("# HELP plainchant_message_latency_seconds ") == 1
            assert longest == PIECE

    run(main())


def test_many_scrapes_at_once_are_told_to_come_again() -> None:
    async def main() -> None:
        async with members("a", metrics="0") as (a,):
            where = observer_of(a).metrics_address
            answers = await asyncio.gather(*(fetch(where) for _ in range(20)))
            assert 200 in {status for status, *_ in answers} <= {200, 503}
            assert (await fetch(where))[0] == 200

    run(main())


# --- from beginning to end ------------------------------------------------------------------------------------------------


def test_it_ends_with_the_node() -> None:
    async def main() -> None:
        threads, tasks = threading.enumerate(), asyncio.all_tasks()
        connector = aiohttp.TCPConnector()
        async with members("a", metrics="0") as (a,), aiohttp.ClientSession(connector=connector) as session:
            host, port = observer_of(a).metrics_address
            assert host == "127.0.0.1"
            async with session.get(f"http://{host}:{port}/metrics") as response:
                await response.read()  # and the connection is kept
            assert threading.enumerate() == threads
            await asyncio.sleep(2 * TICK)  # its timer has run
            node = a.node
            assert isinstance(node, Node)
        await until(lambda: asyncio.all_tasks() == tasks)
        assert threading.enumerate() == threads
        assert node.host.observer is None
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, port)
        async with members("a", metrics=f"{host}:{port}") as (again,):
            assert (await scrape(again))("node_alive") == 1

    run(main())


def test_a_registry_of_the_program_may_have_them() -> None:
    async def main() -> None:
        registry = prometheus_client.CollectorRegistry()
        async with members("a", metrics=registry) as (a,):
            await (await a.send(b"x")).delivered()
            labels = {"group": "g"}
            assert registry.get_sample_value("plainchant_messages_delivered_total", labels) == 1
            with pytest.raises(UsageError, match="figures of a node already; give each node of a program a registry"):
                async with members("b", metrics=registry):
                    pytest.fail("two nodes share a registry")
            assert registry.get_sample_value("plainchant_messages_delivered_total", labels) == 1
            other = await asyncio.to_thread(registry.get_sample_value, "plainchant_messages_delivered_total", labels)
            assert other == 1  # a thread of the program's may ask
            with pytest.raises(UsageError, match="no endpoint for metrics"):
                _ = observer_of(a).metrics_address
        assert registry.get_sample_value("plainchant_messages_delivered_total", labels) is None
        async with members("a", metrics=registry):
            assert registry.get_sample_value("plainchant_members", labels) == 1

    run(main())


@pytest.mark.parametrize("text", ["somewhere", "127.0.0.1:x", "", "127.0.0.1:99999", "a:b:1"])
def test_an_address_that_is_none_is_said(text: str) -> None:
    with pytest.raises(UsageError, match=r"metrics are found at an address or a port, such as"):
        Node(me="a", peers={"a": "127.0.0.1:1"}, metrics=text)


def test_an_address_that_is_taken_is_said_and_nothing_is_left_open() -> None:
    async def main() -> None:
        peers = addresses("a")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(UsageError, match=rf"metrics cannot be served at 127\.0\.0\.1:{port}: .*Name another port"):
                async with members("a", peers=peers, metrics=str(port)):
                    pytest.fail("it is open")
        async with members("a", peers=peers, metrics="0", parameters=CALM) as (a,):
            assert a.members == ("a",)

    run(main())


def without(*packages: str) -> Callable[[str], Any]:
    def find(name: str) -> Any:
        if name.partition(".")[0] in packages:
            raise ImportError(f"No module named {name!r}", name=name)
        return sys.modules[name] if name in sys.modules else __import__(name)

    return find


@pytest.mark.parametrize(
    ("options", "package", "what"),
    [
        ({"metrics": "0"}, "prometheus_client", "metrics"),
        ({"metrics": "0"}, "aiohttp", "metrics"),
        ({"spans": 0.5}, "opentelemetry", "spans"),
    ],
)
def test_without_the_extra_it_says_what_to_install(
    options: dict[str, Any], package: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "import_module", without(package))
    wanted = f"{what} need the package {package}, which is not installed: pip install 'plainchant[observe]'"
    with pytest.raises(UsageError, match=re.escape(wanted)):
        Node(me="a", peers={"a": "127.0.0.1:1"}, **options)
