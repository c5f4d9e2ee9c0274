"""The shipped scenarios of rtcast show what they say; for ``rtcast-ring`` and ``rtcast-partition`` the docs see to that."""

from __future__ import annotations

from typing import Any

from plainchant.lab.properties import verify
from plainchant.lab.show import decode
from plainchant.scenario import find, load
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer


class Shown:
    """A run of a shipped scenario, which kept what is promised."""

    def __init__(self, name: str, *settings: str) -> None:
        trace = TraceBuffer()
        summary = Simulation(load(find(name), settings), trace=trace).run()
        assert summary.quiet
        table = trace.table()
        self.rows = table.to_pylist()
        verification = verify(table)
        assert verification.verdict == "holds"
        self.cases = {name: outcome.cases for name, outcome in verification.properties.items()}

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [row | {"detail": decode(row["detail"])} for row in self.rows if row["kind"] == kind]

    @property
    def views(self) -> list[str]:
        """Each view once, as its members."""
        return list(dict.fromkeys(" ".join(row["members"]) for row in self.of("view")))

    @property
    def halted(self) -> dict[str, str]:
        """Who was halted, and by which rule."""
        return {row["process"]: row["detail"]["reason"] for row in self.of("crash") if "reason" in row["detail"]}


def test_realtime_keeps_what_is_promised_and_refuses_what_cannot_be() -> None:
    plant = Shown("rtcast-realtime")
    assert plant.cases["deadline"] > 100
    assert {(row["process"], row["detail"]["stream"]) for row in plant.of("reject")} == {("valve", "w3")}
    assert all(row["detail"]["nearest_ns"] <= row["detail"]["period_ns"] for row in plant.of("reject"))
    admitted = [row["detail"] for row in plant.of("admit")]
    assert any(not stream["period_ns"] for stream in admitted)
    assert any(stream["pieces"] > 1 for stream in admitted)
    assert any(row["process"] == "sensor-2" and row["detail"]["to"] == ["valve"] for row in plant.of("retransmit"))
    assert plant.views[-1] == "console controller sensor-2 valve sensor-1#1"
    assert not plant.halted


def test_omissions_are_made_good_r_times() -> None:
    omissions = Shown("rtcast-omissions")
    assert len([row for row in omissions.of("ask") if row["process"] == "cyd"]) == 3
    assert omissions.halted == {"dan": "omission"}
    assert omissions.views[-1] == "ann ben cyd dan#1"


def test_without_retransmission_the_first_omission_stops_a_member() -> None:
    assert Shown("rtcast-omissions", "parameters.retransmissions=0").halted == {"cyd": "omission", "dan": "omission"}


def test_who_joins_is_voted_on() -> None:
    join = Shown("rtcast-join")
    assert [row["detail"]["joiners"] for row in join.of("query")][:2] == [["fay"], ["gus"]]
    assert {row["detail"]["vote"] for row in join.of("udeliver")} == {True, False}
    assert [row["process"] for row in join.of("reject")].count("gus") >= 1
    assert join.views == ["ann ben cyd dan", "ann ben cyd dan fay", "ann ben dan fay", "ann ben dan fay gus"]
    assert join.cases["deadline"] > 50
