"""What is written out reads back as the same scenario."""

from __future__ import annotations

import dataclasses
import tomllib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plainchant.core.model import SECOND, Duration, declarations
from plainchant.scenario import Scenario, dump, parse
from plainchant.scenario.model import Clock, Delay, Fault, Link, LinkOverride, Network, RandomFaults, Workload
from plainchant.scenario.read import hints

MEMBERS = ("p1", "p2", "p3", "ann.b-c")
LATER = ("q",)
names = st.sampled_from([*MEMBERS, *LATER])
durations = st.integers(0, 1000 * SECOND).map(Duration)
moments = st.integers(0, SECOND - 1).map(Duration)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
delays = st.one_of(
    st.builds(lambda low: Delay("constant", low, Duration(0)), durations),
    st.builds(lambda low, more: Delay("uniform", low, Duration(low + more)), durations, durations),
    st.builds(lambda low, mean: Delay("exponential", low, mean), durations, durations),
)


def declared(cls: type[Any], **special: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any values that the declarations of a class allow."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for field, declaration in declarations(cls):
        hint, low, high = hints(cls)[field.name], declaration.minimum, declaration.maximum
        if field.name in special:
            fields[field.name] = special[field.name]
        elif hint is Delay:
            fields[field.name] = delays
        elif hint is Duration:
            fields[field.name] = st.integers(int(low or 0), 1000 * SECOND).map(Duration)
        elif hint is float:
            fields[field.name] = st.floats(low, high if high is not None else 1e9, allow_nan=False, width=64).map(
                lambda x: x + 0.0
            )
        elif hint is int:
            fields[field.name] = st.integers(int(low) if low is not None else -SECOND, int(high) if high is not None else 10**12)
        elif hint is bool:
            fields[field.name] = st.booleans()
        elif declaration.choices:
            fields[field.name] = st.sampled_from(declaration.choices)
    return st.builds(cls, **fields)


networks = declared(
    Network,
    shared=st.just(False),
    link=st.lists(declared(LinkOverride, source=names, target=st.sampled_from(["", "p2"])), max_size=2).map(tuple),
)
sent: dict[str, st.SearchStrategy[Any]] = {
    "senders": st.lists(names, unique=True, max_size=2).map(tuple),
    "group": st.sampled_from(["", "g"]),
    "closed": st.just(0),
    "size": st.integers(1, 10_000),
    "start": st.just(Duration(5)),
    "stop": st.sampled_from([Duration(0), Duration(SECOND)]),
}
workloads = st.one_of(
    declared(Workload, **sent, deadline=st.just(Duration(0))),
    declared(Workload, **sent, rate=st.floats(0.1, 1e6), arrivals=st.just("poisson")),
)
packets = st.sampled_from(["", "Note", "Rest"])
faults = st.one_of(
    st.builds(Fault, kind=st.just("crash"), at=moments, process=names, mid_broadcast=st.booleans()),
    st.builds(Fault, kind=st.just("crash"), after_events=st.integers(1, 100), process=st.sampled_from(MEMBERS)),
    st.builds(Fault, kind=st.just("join"), at=moments, process=st.just("q"), group=st.sampled_from(["", "g"])),
    st.builds(Fault, kind=st.just("leave"), at=moments, process=st.just("p1"), group=st.sampled_from(["", "g"])),
    st.builds(Fault, kind=st.just("pause"), at=moments, process=names, length=st.just(Duration(7))),
    st.builds(Fault, kind=st.just("partition"), at=moments, parts=st.just((("p1", "p2"), ("p3",))), length=durations),
    st.builds(Fault, kind=st.just("clog"), at=moments, source=names, delay=st.just(Duration(9)), length=durations),
    st.builds(Fault, kind=st.just("loss"), at=moments, target=names, rate=st.floats(0.001, 1), length=durations),
    st.builds(Fault, kind=st.just("step"), at=moments, process=names, offset=st.integers(-SECOND, -1)),
    st.builds(Fault, kind=st.just("heal"), at=moments),
    st.builds(Fault, kind=st.just("omit"), at=moments, process=names, source=names, packet=packets, count=st.integers(1, 9)),
    st.builds(Fault, kind=st.just("lan"), at=moments, lan=st.just(1), length=durations),
    st.builds(Fault, kind=st.just("busy"), at=moments, process=names, length=st.just(Duration(7)), rate=st.floats(0.001, 1)),
    st.builds(Fault, kind=st.just("disk"), at=moments, process=names, room=st.integers(0, 9)),
    st.builds(Fault, kind=st.just("sluggish"), at=moments, process=names, length=st.just(Duration(7)), count=st.integers(1, 9)),
)
scenarios = st.builds(
    Scenario,
    protocol=st.just("chant"),
    name=texts,
    about=texts,
    seed=st.integers(0, 2**62),
    duration=st.just(Duration(SECOND)),
    drain=durations,
    members=st.just(MEMBERS),
    later=st.just(LATER),
    groups=st.sampled_from([{"g": MEMBERS}, {"g": ("p1", "p2"), "h.x": ("p3", "ann.b-c")}]),
    parameters=st.fixed_dictionaries(
        {
            "window": st.integers(1, 998),
            "share": st.floats(0, 1).map(lambda x: x + 0.0),
            "pack": st.booleans(),
            "mode": st.just("calm"),
            "heartbeat": st.integers(1, SECOND),
        }
    ),
    network=networks,
    workload=st.lists(workloads, max_size=2).map(tuple),
    clock=st.lists(declared(Clock, process=names), max_size=2).map(tuple),
    fault=st.lists(faults, max_size=4).map(tuple),
    random=declared(
        RandomFaults, omit_packet=packets, **dict.fromkeys(("module", "slow", "node", "processor", "lan"), st.just(0.0))
    ),
    expect=st.sampled_from(["holds", "violation"]),
)


@given(scenarios)
@settings(max_examples=50, deadline=None)
def test_a_dumped_scenario_reads_back_equal(scenario: Scenario) -> None:
    assert parse(dump(scenario), "other-name.toml") == scenario


def test_a_dump_spells_out_every_default() -> None:
    document = tomllib.loads(dump(parse('protocol = "chant"\nmembers = 2')))
    assert set(document["network"]) == {field.name for field in dataclasses.fields(Network)} - {"link"}
    assert set(document["network"]) > {field.name for field in dataclasses.fields(Link)}
    assert document["parameters"]["heartbeat"] == "20ms"
    assert document["groups"] == {"g": ["p1", "p2"]}
    assert document["workload"] == [{"group": "", "rate": 100.0, "arrivals": "regular", "burst": 1, "size": 32}]


def test_a_dump_is_a_fixed_point() -> None:
    text = dump(parse('protocol = "chant"\nmembers = 2\n[[fault]]\nkind = "crash"\nprocess = "p1"\nat = "1ms"'))
    assert dump(parse(text, "elsewhere.toml")) == text
