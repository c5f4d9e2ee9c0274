"""What stands between a host and a protocol: layers, and one instance a group."""

from __future__ import annotations

from typing import Any

import pytest

from plainchant.core.engine import Engine, Host, Layer, PerGroup
from plainchant.core.model import (
    Batch,
    Consent,
    Form,
    GroupId,
    Invitation,
    Join,
    Packet,
    Pressure,
    ProcessId,
    Propose,
    ProtocolError,
    Reason,
    Timer,
    View,
)

from .fakes import FakeHost, as_host

HOST_CALLS = (
    *("clock", "take", "send", "set_timer", "cancel_timer", "deliver"),
    *("install", "left", "stable", "record", "halt", "spawn"),
)
ENGINE_CALLS = ("start", "ready", "receive", "expire", "join", "leave", "notice", "waiting")


class Hello(Packet, frozen=True, array_like=True, gc=False, tag=1):
    group: GroupId


class Recorder(Engine):
    """An engine that writes down how it is called."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.calls: list[tuple[Any, ...]] = []
        self.reason: Reason | None = None

    def start(self) -> None:
        self.calls.append(("start",))

    def ready(self, group: GroupId) -> None:
        self.calls.append(("ready", group))

    def receive(self, source: ProcessId, packet: Packet) -> None:
        self.calls.append(("receive", source, packet))

    def expire(self, timer: Timer) -> None:
        self.calls.append(("expire", timer))

    def join(self, group: GroupId, how: Form | Join | Propose) -> None:
        self.calls.append(("join", group, how))

    def leave(self, group: GroupId) -> None:
        self.calls.append(("leave", group))

    def notice(self, event: Any) -> None:
        self.calls.append(("notice", event))

    def waiting(self) -> Reason | None:
        return self.reason


class Shouting(Layer):
    """Changes one call of either side and leaves the others alone."""

    def deliver(self, group: GroupId, sender: ProcessId, batch: Batch, rank: int | None = None) -> None:
        self.host.deliver(group, sender, Batch(batch.first, batch.count, batch.body.upper()), rank)

    def ready(self, group: GroupId) -> None:
        self.inner.ready(group.upper())


class Nothing(Layer):
    """Changes nothing."""


# --- Engine ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "argument"),
    [("join", (Form(("p1",)),)), ("join", (Propose(("p1",)),)), ("leave", ()), ("close", ()), ("rename", ("h",))],
)
def test_an_engine_that_knows_no_groups_refuses_them(call: str, argument: tuple[Any, ...]) -> None:
    with pytest.raises(ProtocolError, match=f"Engine cannot {call} groups"):
        getattr(Engine(), call)("g", *argument)


def test_an_engine_does_nothing_and_waits_for_nothing_unless_it_says_so() -> None:
    engine = Engine()
    engine.start()
    engine.ready("g")
    engine.receive("p2", Hello("g"))
    engine.expire("t")
    engine.notice("event")
    assert engine.waiting() is None


# --- Layer ----------------------------------------------------------------------------------------------------------


def test_what_a_layer_leaves_alone_is_bound_straight_to_the_other_side() -> None:
    host = FakeHost()
    layer = Nothing(as_host(host), Recorder)
    for name in HOST_CALLS:
        assert getattr(layer, name) == getattr(host, name), name
    for name in ENGINE_CALLS:
        assert getattr(layer, name) == getattr(layer.inner, name), name


def test_calls_through_three_idle_layers_end_at_the_host_and_at_the_engine() -> None:
    host = FakeHost()
    stack = Nothing(as_host(host), lambda a: Nothing(a, lambda b: Nothing(b, Recorder)))
    engine = stack.inner.inner.inner  # type: ignore[attr-defined]
    assert engine.host.send == host.send
    assert stack.receive == engine.receive


def test_a_layer_changes_what_it_overrides_on_either_side() -> None:
    host = FakeHost()
    layer = Shouting(as_host(host), Recorder)
    engine = layer.inner
    assert isinstance(engine, Recorder)
    layer.ready("g")
    engine.host.deliver("g", "p2", Batch(1, 1, b"hey"), 9)
    assert engine.calls == [("ready", "G")]
    assert host.called("deliver") == [("g", "p2", Batch(1, 1, b"HEY"), 9)]


def test_an_override_in_a_base_class_of_a_layer_counts_too() -> None:
    class Louder(Shouting):
        pass

    host = FakeHost()
    layer = Louder(as_host(host), Recorder)
    layer.inner.host.deliver("g", "p2", Batch(1, 1, b"hey"))  # type: ignore[attr-defined]
    assert host.called("deliver") == [("g", "p2", Batch(1, 1, b"HEY"), None)]


def test_a_layer_shows_its_host_to_the_inside() -> None:
    host = FakeHost("p7", max_packet=99)
    seen = Nothing(as_host(host), Recorder).inner.host  # type: ignore[attr-defined]
    host.time = 5
    assert (seen.me, seen.max_packet, seen.random, seen.now, seen.clock()) == ("p7", 99, host.random, 5, 1_005)


# --- PerGroup -------------------------------------------------------------------------------------------------------


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def engines(host: FakeHost) -> PerGroup:
    """A process in the groups a and b."""
    engines = PerGroup(as_host(host), lambda inner, group: Recorder(inner))
    engines.join("b", Form(("p1", "p2")))
    engines.join("a", Join(("p3",)))
    return engines


def instance(engines: PerGroup, group: GroupId) -> Recorder:
    found = engines.instances[group]
    assert isinstance(found, Recorder)
    return found


def test_joining_a_group_makes_and_starts_its_instance(engines: PerGroup) -> None:
    assert instance(engines, "a").calls == [("start",), ("join", "a", Join(("p3",)))]
    assert instance(engines, "b").calls == [("start",), ("join", "b", Form(("p1", "p2")))]


def test_a_group_is_not_joined_twice(engines: PerGroup) -> None:
    with pytest.raises(ProtocolError, match="p1 joins 'a' a second time; leave it first"):
        engines.join("a", Join(("p3",)))


def test_a_call_reaches_the_instance_of_its_group_alone(engines: PerGroup) -> None:
    for group in ("a", "b"):
        instance(engines, group).calls.clear()
    engines.ready("a")
    engines.receive("p2", Hello("a"))
    engines.leave("a")
    assert instance(engines, "a").calls == [("ready", "a"), ("receive", "p2", Hello("a")), ("leave", "a")]
    assert instance(engines, "b").calls == []


def test_what_concerns_a_group_that_one_is_not_in_is_passed_over(engines: PerGroup) -> None:
    engines.ready("elsewhere")
    engines.receive("p2", Hello("elsewhere"))
    assert sorted(engines.instances) == ["a", "b"]


def test_instances_with_timers_of_the_same_name_do_not_meet(host: FakeHost, engines: PerGroup) -> None:
    instance(engines, "a").host.set_timer("retry", 5)
    instance(engines, "b").host.set_timer("retry", 7)
    assert host.timers == {("a", "retry"): 5, ("b", "retry"): 7}
    engines.expire(("b", "retry"))
    assert instance(engines, "b").calls[-1] == ("expire", "retry")
    assert ("expire", "retry") not in instance(engines, "a").calls
    instance(engines, "a").host.cancel_timer("retry")
    assert host.timers == {("b", "retry"): 7}


def test_everything_but_timers_goes_from_an_instance_straight_to_the_host(host: FakeHost, engines: PerGroup) -> None:
    inner = instance(engines, "a").host
    for name in HOST_CALLS:
        if name not in ("set_timer", "cancel_timer"):
            assert getattr(inner, name) == getattr(host, name), name
    host.time = 3
    assert (inner.me, inner.max_packet, inner.random, inner.now) == (host.me, host.max_packet, host.random, 3)
    inner.install(View("a", 1, ("p1",)))
    assert host.called("install") == [(View("a", 1, ("p1",)),)]


def test_every_instance_hears_a_notice_in_the_order_of_group_names(host: FakeHost) -> None:
    heard: list[GroupId] = []

    class Listener(Recorder):
        def notice(self, event: Any) -> None:
            heard.append(event + self.calls[-1][1])

    engines = PerGroup(as_host(host), lambda inner, group: Listener(inner))
    for group in ("c", "a", "b"):
        engines.join(group, Form(("p1",)))
    engines.notice("to ")
    assert heard == ["to a", "to b", "to c"]


def test_pressure_reaches_the_instance_of_its_group_alone(engines: PerGroup) -> None:
    full = Pressure("a", True)
    engines.notice(full)
    engines.notice(Pressure("not joined", True))
    assert instance(engines, "a").calls[-1] == ("notice", full)
    assert not any(call[0] == "notice" for call in instance(engines, "b").calls)


def test_consent_reaches_the_instance_of_its_group_alone(engines: PerGroup) -> None:
    consent = Consent(Invitation("a", "p2", ("p1", "p2"), 1), True)
    engines.notice(consent)
    engines.notice(Consent(Invitation("not joined", "p2", ("p1", "p2"), 1), True))
    assert instance(engines, "a").calls[-1] == ("notice", consent)
    assert not any(call[0] == "notice" for call in instance(engines, "b").calls)


def test_a_group_is_closed_by_its_instance(engines: PerGroup) -> None:
    with pytest.raises(ProtocolError, match="cannot close groups"):
        engines.close("a")


def test_a_process_waits_as_long_as_one_of_its_groups_does(engines: PerGroup) -> None:
    assert engines.waiting() is None
    instance(engines, "b").reason = Reason("busy", "b is busy")
    assert engines.waiting() == Reason("busy", "b is busy")
    instance(engines, "a").reason = Reason("busy", "a is busy")
    assert engines.waiting() == Reason("busy", "a is busy")
