"""What ``verify`` checks when, and what it says."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from plainchant.core.model import UsageError
from plainchant.lab.properties import PROPERTIES, verify
from plainchant.trace.schema import SCHEMA, Malformed

from ...trace.build import check, trace

AB = "view 1 a,b"
SWAPPED = {
    "a": f"{AB} | send | send | deliver a 1 | deliver a 2 | end",
    "b": f"{AB} | deliver a 2 | deliver a 1 | end",
}
UNFINISHED = {"a": f"{AB} | send | deliver a 1 | end", "b": f"{AB} | end"}
"""Nothing wrong yet: the message is still under way to b."""


def test_there_are_all_the_properties_of_the_format() -> None:
    assert " ".join(PROPERTIES) == (
        "integrity fifo causal identical total acyclic self-delivery validity agreement uniform view-order "
        "view-atomicity view-exclusion convergence sender-in-view same-view disjoint-views unanimity deadline "
        "bounded progress prompt "
        "replica-agreement dictionary-merge counter-sum lock-exclusion one-leader "
        "jobs-once answers"
    )


def test_an_unknown_property_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'causal'"):
        verify(SCHEMA.empty_table(), ["casual"])


@pytest.mark.parametrize("name", PROPERTIES)
def test_no_property_holds_of_nothing(name: str) -> None:
    idle = {"a": "join | end", "b": "join | end"}
    for table in (SCHEMA.empty_table(), trace(idle)):
        found = verify(table, [name])
        assert found.properties[name].verdict == "nothing to check"
        assert found.ok


def test_a_run_is_checked_for_what_it_promises() -> None:
    found = verify(trace(SWAPPED, promises=["integrity", "agreement"]))
    assert found.ok
    assert list(found.properties) == ["integrity", "agreement"]
    assert not verify(trace(SWAPPED, promises=["fifo"])).ok


def test_each_run_keeps_its_own_promises() -> None:
    tables = [trace(SWAPPED, run="r1", promises=["fifo"]), trace(SWAPPED, run="r2", promises=["integrity"])]
    found = verify(pa.concat_tables(tables))
    assert {violation.run for violation in found.violations} == {"r1"}
    assert (found.properties["fifo"].runs, found.properties["integrity"].runs) == (1, 1)
    assert found.properties["fifo"].events == tables[0].num_rows


def test_a_run_that_promises_nothing_is_checked_for_all_it_has_cases_of() -> None:
    found = verify(trace(SWAPPED))
    assert {"integrity", "fifo", "causal", "agreement", "same-view"} <= set(found.properties)
    assert not {"deadline", "bounded", "prompt", "unanimity", "disjoint-views"} & set(found.properties)
    assert found.properties["fifo"].verdict == "violated"


def test_promising_the_empty_list_is_promising_nothing_at_all() -> None:
    assert verify(trace(SWAPPED, promises=[])).properties == {}


@pytest.mark.parametrize("name", ["validity", "agreement", "uniform"])
def test_what_speaks_of_the_end_waits_for_a_drained_run_or_for_being_asked(name: str) -> None:
    assert verify(trace(UNFINISHED, promises=[name], drained=False)).properties[name].verdict == "nothing to check"
    assert not verify(trace(UNFINISHED, promises=[name])).ok
    assert not verify(trace(UNFINISHED, drained=False), [name]).ok


@pytest.mark.parametrize(
    ("name", "histories"),
    [
        ("self-delivery", {"a": f"{AB} | send | end"}),
        ("view-exclusion", {"a": f"{AB} | end", "b": f"{AB} | crash"}),
        ("view-order", {"a": f"{AB} | view 2 a,b | end", "b": f"{AB} | end"}),
        ("causal", {
            "a": "view 1 a,c | view 1 a,c group=h | send | send group=h | end",
            "c": "view 1 a,c | view 1 a,c group=h | deliver a 1 group=h | end",
        }),
    ],
)  # fmt: skip
def test_clauses_that_speak_of_the_end_do_so_too(name: str, histories: dict[str, str]) -> None:
    assert verify(trace(histories, promises=[name], drained=False)).ok
    assert not verify(trace(histories, promises=[name])).ok
    assert not verify(trace(histories, drained=False), [name]).ok


def test_the_rest_of_such_a_property_is_checked_in_every_run() -> None:
    differ = {"a": f"{AB} | view 2 a,b | end", "b": f"{AB} | view 3 a,b | end"}
    for name, histories in (("view-order", differ), ("causal", SWAPPED), ("uniform", SWAPPED), ("total", SWAPPED)):
        assert not verify(trace(histories, promises=[name], drained=False)).ok


def test_runs_and_the_order_of_rows_do_not_matter() -> None:
    tables = [trace(SWAPPED, run="r1"), trace(UNFINISHED, run="r0")]
    rows = pa.concat_tables(tables)
    backwards = rows.take(list(range(rows.num_rows))[::-1])
    assert verify(rows).to_json() == verify(backwards).to_json()


def test_the_same_message_in_two_runs_is_two_messages() -> None:
    fine = {"a": f"{AB} | send | deliver a 1 | end", "b": f"{AB} | deliver a 1 | end"}
    assert verify(pa.concat_tables([trace(fine, run="r1"), trace(fine, run="r2")]), list(PROPERTIES)).ok


def test_json_has_the_keys_of_the_format() -> None:
    found = json.loads(json.dumps(check(SWAPPED, "fifo", "prompt").to_json()))
    assert list(found) == ["verdict", "properties", "violations", "malformed"]
    assert found["verdict"] == "violated"
    assert found["properties"] == {
        "fifo": {"runs": 1, "events": 10, "cases": 2, "violations": 1},
        "prompt": {"runs": 1, "events": 10, "cases": 0, "violations": 0},
    }
    (violation,) = found["violations"]
    assert violation == {
        "run": "r0",
        "property": "fifo",
        "group": "g",
        "processes": ["b"],
        "messages": [["g", "a", 1], ["g", "a", 2]],
        "events": [["b", 1], ["b", 2]],
        "sentence": "b delivers message 1 of a in g only after message 2 of a in g",
    }


def test_a_malformed_trace_is_not_verified() -> None:
    problem = Malformed("t.parquet", "r0", "a", 3, "a gap in index")
    found = verify(trace(SWAPPED), ["fifo"], malformed=[problem])
    assert (found.verdict, found.ok, found.violations) == ("malformed", False, ())
    assert found.to_json()["malformed"][0]["problem"] == "a gap in index"


def test_violations_are_counted_all_shown_in_part_smallest_and_earliest_first() -> None:
    again = " | ".join(f"deliver a {seq}" for seq in range(1, 41))
    sends = " | ".join(["send"] * 40)
    found = check({"a": f"{AB} | {sends} | end", "b": f"{AB} | {again} | {again} | deliver x 1 | end"}, "integrity")
    assert found.properties["integrity"].violations == 41
    assert len(found.violations) == 20
    assert found.violations[0].messages == (("g", "x", 1),), "one event is smaller than two"
    assert [violation.messages[0][2] for violation in found.violations[1:]] == list(range(1, 20))


def test_unobserved_members_and_unknown_promises_are_warned_of() -> None:
    found = verify(trace({"a": "view 1 a,ghost | end"}, promises=["fifo", "telepathy"]))
    assert found.ok
    assert len(found.warnings) == 2
    assert "ghost" in found.warnings[0]
    assert "telepathy" in found.warnings[1]
