"""Spans of real nodes, as OpenTelemetry gets them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import plainchant
from plainchant import Halted, JoinTimeout, Node, State, StateRequest, UsageError
from plainchant.live.memory import server
from plainchant.live.observe import spans as spans_module
from plainchant.live.observe.spans import PENDING, Spans, next_traced

from ...ports import member_of
from ..endpoints import until
from ..test_api import CALM, HASTY, Cables, addresses, full, members, run

EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def provider() -> TracerProvider:
    """What a program sets up, once: a process has one, and another test may have been first."""
    there = trace.get_tracer_provider()
    made = there if isinstance(there, TracerProvider) else TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(EXPORTER))
    if made is not there:
        trace.set_tracer_provider(made)
    return made


@pytest.fixture(autouse=True)
def nothing_before() -> Iterator[None]:
    EXPORTER.clear()
    yield
    EXPORTER.clear()


def told(name: str, process: str = "") -> list[ReadableSpan]:
    """The spans that are over, of a process or all, in the order in which they ended."""
    found = [span for span in EXPORTER.get_finished_spans() if span.name == f"plainchant.{name}"]
    return [span for span in found if not process or of(span, "process") == process]


def of(span: ReadableSpan, attribute: str) -> Any:
    assert span.attributes is not None
    return span.attributes.get(f"plainchant.{attribute}")


def lasted(span: ReadableSpan) -> int:
    assert span.start_time is not None
    assert span.end_time is not None
    return span.end_time - span.start_time


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    found: int = span.context.trace_id
    return found


def is_failed(span: ReadableSpan) -> bool:
    return span.status.status_code is trace.StatusCode.ERROR


# --- membership -----------------------------------------------------------------------------------------------------------


def test_joining_views_and_leaving_are_spans() -> None:
    async def main() -> None:
        with trace.get_tracer("program").start_as_current_span("program") as outer:
            async with members("a", "b", spans=0) as (a, b):
                await b.leave()
                await until(lambda: a.members == ("a",))
        joined = told("join", "a")[0]
        assert (of(joined, "group"), of(joined, "view"), of(joined, "formed")) == ("g", 1, True)
        assert of(joined, "members") == ("a", "b")
        assert of(joined, "protocol") == "sequencer"
        assert joined.parent is not None
        assert joined.parent.span_id == outer.get_span_context().span_id  # in the program's own trace
        assert not is_failed(joined)
        assert lasted(joined) > 0
        first, second = told("view", "a")
        assert (of(first, "view"), of(first, "members"), of(first, "joined")) == (1, ("a", "b"), ("a", "b"))
        assert (of(second, "members"), of(second, "left"), of(second, "reasons")) == (("a",), ("b",), ("left",))
        assert trace_of(first) != trace_of(second)
        (theirs,) = told("view", "b")
        assert of(theirs, "view") == 1
        assert trace_of(theirs) == trace_of(first)  # one view, one trace
        assert [span.status.is_unset for span in told("leave", "b")] == [True]
        assert not told("message")
        assert not told("deliver")
        assert not told("halt")

    run(main())


def test_a_view_begins_with_the_suspicion_and_a_halt_says_why() -> None:
    async def main() -> None:
        peers, cables = addresses("a", "b", "c"), Cables()
        began = time.time_ns()
        with contextlib.suppress(Halted):  # c, as it leaves
            async with members("a", "b", "c", peers=peers, transport=cables, parameters=HASTY, spans=1.0) as (a, b, c):
                for each in (a, b, c):
                    await (await each.send(b"x")).delivered()
                cables.made[peers["c"]].cut = True
                lost = await c.send(b"nobody hears it")
                await until(lambda: len(a.members) == 2 and c.is_over)
        view = next(span for span in told("view", "a") if of(span, "left") == ("c",))
        events = [event.name for event in view.events]
        assert events[0] == "suspect"
        assert events[-1] == "departure"
        assert view.events[-1].attributes is not None
        assert view.events[-1].attributes["process"] == "c"
        assert lasted(view) > 0
        assert view.start_time is not None
        assert began < view.start_time <= view.events[0].timestamp
        (halt,) = told("halt")
        assert (of(halt, "process"), is_failed(halt)) == ("c", True)
        assert of(halt, "reason")
        assert of(halt, "text") == halt.status.description
        unheard = [span for span in told("message", "c") if of(span, "seq") == lost.seq]
        assert [is_failed(span) for span in unheard] == [True]
        assert not any(is_failed(span) for span in told("message", "a"))

    run(main())


def test_who_is_not_let_in_has_a_failed_span() -> None:
    async def main() -> None:
        with pytest.raises(JoinTimeout):
            async with plainchant.join("g", me="a", peers=addresses("a", "b"), timeout=0.1, spans=0):
                pytest.fail("it is in")
        (span,) = told("join")
        assert is_failed(span)
        assert "not heard: b" in str(span.status.description)

    run(main())


def test_a_state_transfer_is_a_span_at_both_ends() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        options: dict[str, Any] = {"peers": peers, "members": ["a"], "state": True, "parameters": CALM, "spans": 0}
        async with plainchant.join("g", me="a", **options) as a:

            async def serve() -> None:
                async for event in a:
                    if isinstance(event, StateRequest):
                        await event.reply(b"x" * 1000)

            serving = asyncio.create_task(serve())
            async with plainchant.join("g", me="b", **options) as b:
                async for event in b:
                    if isinstance(event, State):
                        break
                await until(lambda: bool(told("state.give")))
            serving.cancel()
        (given,), (received,) = told("state.give", "a"), told("state.receive", "b")
        assert (of(given, "joiner"), of(given, "bytes"), of(given, "view")) == ("b", 1000, 2)
        assert (of(received, "donor"), of(received, "bytes"), of(received, "view")) == ("a", 1000, 2)
        assert lasted(given) > 0 < lasted(received)
        assert not is_failed(given)
        assert not is_failed(received)

    run(main())


# --- messages -------------------------------------------------------------------------------------------------------------


def test_spans_of_a_message_are_in_one_trace_at_all_members() -> None:
    async def main() -> None:
        async with members("a", "b", "c", spans=1.0) as (a, b, c):
            with trace.get_tracer("program").start_as_current_span("program") as outer:
                first = await a.send(b"one")
            await first.delivered()
            await (await b.send_many([b"two", b"three"])).delivered()
            await until(lambda: all(each.metrics()["delivered"] == 3 for each in (a, b, c)))
        sent, delivered = told("message"), told("deliver")
        assert [(of(span, "sender"), of(span, "seq")) for span in sent] == [("a", 1), ("b", 1), ("b", 2)]
        for span in sent:
            assert span.attributes is not None
            name = span.attributes["messaging.message.id"]
            others = [each for each in delivered if each.attributes and each.attributes["messaging.message.id"] == name]
            assert {of(each, "process") for each in others} == {"a", "b", "c"} - {of(span, "sender")}
            assert {trace_of(each) for each in others} == {trace_of(span)}
            assert {each.parent.span_id for each in others if each.parent} == {span.parent.span_id if span.parent else 0}
            assert {each.kind for each in others} == {trace.SpanKind.CONSUMER}
            assert (span.kind, is_failed(span), of(span, "view")) == (trace.SpanKind.PRODUCER, False, 1)
        assert len({trace_of(span) for span in sent}) == 3
        assert [link.context.span_id for link in sent[0].links] == [outer.get_span_context().span_id]
        assert not sent[1].links

    run(main())


@pytest.mark.parametrize(
    ("protocol", "names"), [("newtop", ("a", "b")), ("mailbox", ("a", "b")), ("dedos", ("n1.a", "n1.b", "n2.a"))]
)
def test_other_protocols_are_told_of_in_the_same_way(
    protocol: str, names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SHARED", tmp_path)

    async def main() -> None:
        async with members(*names, protocol=protocol, parameters={}, spans=1.0, metrics="0") as groups:
            for group in groups:
                await group.send(b"x")
            await until(lambda: all(group.metrics()["delivered"] == len(names) for group in groups))
            await until(lambda: len(told("message")) == len(names))
        for span in told("message"):
            others = [each for each in told("deliver") if of(each, "sender") == of(span, "sender")]
            assert sorted(of(each, "process") for each in others) == sorted({*names} - {of(span, "sender")})
            assert {trace_of(each) for each in others} == {trace_of(span)}
        first = [span for span in told("view") if {*of(span, "members")} == {*names}]
        assert {of(span, "process") for span in first} == {*names}

    run(main())


def test_all_members_trace_the_same_messages_and_few() -> None:
    async def main() -> None:
        async with members("a", "b", spans=0.05) as (a, b):
            for _ in range(30):
                await (await a.send_many([b"x"] * 7)).delivered()
                receipt = await b.send(b"y")
            await receipt.delivered()
            await until(lambda: a.metrics()["delivered"] == b.metrics()["delivered"] == 240)
        sent = {(of(span, "sender"), of(span, "seq")) for span in told("message")}
        assert sent == {(of(span, "sender"), of(span, "seq")) for span in told("deliver")}
        wanted = {
            (who, seq)
            for who, last in (("a", 210), ("b", 30))
            for seq in range(1, last + 1)
            if next_traced(seq, "g", who, 20) == seq
        }
        assert sent == wanted
        assert len(wanted) in (11, 12)  # 240 / 20, as it falls

    run(main())


def test_a_program_that_comes_again_has_other_traces() -> None:
    async def main() -> None:
        for _ in range(2):
            async with members("a", spans=1.0) as (a,):
                await (await a.send(b"x")).delivered()
        first, second = told("message")
        assert of(first, "seq") == of(second, "seq") == 1
        assert trace_of(first) != trace_of(second)

    run(main())


def test_messages_that_wait_are_bounded_and_fail_when_nobody_looks_any_more() -> None:
    async def main() -> None:
        async with full(b"x", spans=1.0) as (_, b, cable, accepted):
            assert accepted > PENDING
            assert told("message", "b") == []
            assert isinstance(b.node, Node)
            assert b.node.observer is not None
            await b.node.observer.close()
            ended = told("message", "b")
            assert len(ended) == PENDING
            assert all(is_failed(span) for span in ended)
            await b.node.observer.close()
            cable.cut = False
            await (await b.send(b"last")).delivered()
        assert len(told("message", "b")) == PENDING

    run(main())


def test_a_group_that_gets_another_name_chooses_anew() -> None:
    async def main() -> None:
        peers = addresses("a", "b")
        nodes = [Node(me=name, peers=peers, protocol="newtop", spans=1.0, agree=lambda invitation: True) for name in peers]
        async with nodes[0] as a, nodes[1] as b:
            meeting = await a.form("meeting", ["b"])
            theirs = await b.next_group()
            await (await meeting.send(b"x")).delivered()
            await meeting.rename("assembly")
            await (await meeting.send(b"y")).delivered()
            await until(lambda: theirs.metrics()["delivered"] == 2)
            await meeting.close()
            await theirs.ended()
        names = [(of(span, "group"), of(span, "seq")) for span in told("message")]
        assert names == [("meeting", 1), ("assembly", 1)]
        assert [(of(span, "group"), of(span, "seq")) for span in told("deliver")] == names

    run(main())


# --- what it costs, and where it goes ---------------------------------------------------------------------------------------


def test_without_spans_nothing_is_looked_at() -> None:
    async def main() -> None:
        async with members("a", parameters=CALM) as (a,):
            assert (member_of(a).outgoing.sample_at, member_of(a).delivery_observer) == (math.inf, None)
            await (await a.send(b"x")).delivered()
        async with members("a", parameters=CALM, spans=0) as (a,):
            assert member_of(a).delivery_observer is None
            await (await a.send(b"x")).delivered()
        assert not told("message")

    run(main())


class Collector:
    """Takes spans as a collector does, on loopback."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()

    async def take(self, request: web.Request) -> web.Response:
        for resource in ExportTraceServiceRequest.FromString(await request.read()).resource_spans:
            self.services |= {each.value.string_value for each in resource.resource.attributes if each.key == "service.name"}
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return web.Response(body=b"", content_type="application/x-protobuf")


def test_a_node_sends_spans_to_a_collector_and_leaves_no_thread() -> None:
    async def main() -> None:
        collector = Collector()
        application = web.Application()
        application.router.add_post("/v1/traces", collector.take)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            threads = set(threading.enumerate())
            async with members("a", spans=Spans(1.0, f"http://{host}:{port}")) as (a,):
                await (await a.send(b"x")).delivered()
            names = [span.name for span in collector.spans]
            assert sorted(names) == ["plainchant.join", "plainchant.leave", "plainchant.message", "plainchant.view"]
            assert collector.services == {"plainchant"}
            (message,) = [span for span in collector.spans if span.name == "plainchant.message"]
            assert {each.key: each.value.int_value for each in message.attributes}["plainchant.seq"] == 1
            await until(lambda: set(threading.enumerate()) <= threads)
        finally:
            await runner.cleanup()
        assert EXPORTER.get_finished_spans() == ()  # the program's own provider is left alone

    run(main())


def test_a_collector_that_is_not_there_keeps_nobody_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_module, "FLUSH", 1.0)

    async def main() -> None:
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        where = addresses("x")["x"]  # nobody listens there
        async with members("a", spans=Spans(1.0, f"http://{where}")) as (a,):
            await (await a.send(b"x")).delivered()
        assert all("spans could not be sent to" in problem["message"] for problem in problems)

    run(main())


@pytest.mark.parametrize("ratio", [-0.1, 1.5, math.nan, "x"])
def test_a_share_that_is_none_is_said(ratio: Any) -> None:
    with pytest.raises(UsageError, match=r"the share of messages that are traced is .*; give a number from 0 to 1"):
        Spans(ratio)


def test_an_address_that_is_no_collector_is_said() -> None:
    with pytest.raises(UsageError, match=r"'127\.0\.0\.1:4318' is no address of a collector: write it as \"http://"):
        Spans(otlp="127.0.0.1:4318")
    assert Spans(otlp="http://x/v1/traces").endpoint == "http://x/v1/traces"
