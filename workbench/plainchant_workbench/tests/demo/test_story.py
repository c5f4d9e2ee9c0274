"""The story of a trace: the few events that matter, in sentences."""

from __future__ import annotations

from typing import Any

from plainchant.trace import TraceBuffer
from plainchant_workbench.commands.story import tell


class Script:
    """A trace written by hand, an event a line."""

    def __init__(self) -> None:
        self.trace = TraceBuffer()
        self.now = 0

    def add(
        self,
        at: str,
        kind: str,
        view: int | None = None,
        members: list[str] | None = None,
        seq: int | None = None,
        **detail: Any,
    ) -> None:
        self.now += 1_000_000
        extra: dict[str, Any] = {"detail": detail} if detail else {}
        if members:
            extra["members"] = members
        sender = "a" if seq is not None else None
        row = (kind, self.now, self.now, "g", view, sender, seq, None, None, None, None, extra or None)
        self.trace.history("r0", at).rows.append(row)

    def sentences(self) -> list[str]:
        return [moment.text for moment in tell(self.trace.table())]


def test_a_crash_an_election_and_a_return() -> None:
    script = Script()
    for process in ("a", "b", "c"):
        script.add(process, "join")
        script.add(process, "view", 1, ["a", "b", "c"])
    script.add("a", "send", 1, seq=1)
    script.add("a", "deliver", 1, seq=1)
    script.add("b", "deliver", 1, seq=1)
    script.add("c", "retransmit", 1, what="numbers")
    script.add("a", "fault", fault="crash")
    script.add("a", "crash", by="fault", mid_broadcast=True, reached=["b"])
    script.add("b", "suspect", 1, process="a", text="b has not heard a for 150 ms")
    script.add("b", "suspect", 1, process="a", text="b has not heard a for 160 ms")
    script.add("b", "elect", 1, stage="elected", epoch=2, voters=["b", "c"], base=7)
    left = {"a": {"reason": "not heard", "text": "a did not answer"}}
    script.add("b", "view", 2, ["b", "c"], left=left)
    script.add("c", "view", 2, ["b", "c"], left=left)
    script.add("b", "view", 3, ["b", "c", "a#1"], joined=["a#1"])
    script.add("a#1", "join")
    script.add("a#1", "view", 3, ["b", "c", "a#1"])
    script.add("c", "crash", by="protocol", text="c reached 1 of 3 members")
    assert script.sentences() == [
        "The group g is formed: a, b and c.",
        "a crashes in the middle of a broadcast: only b still got the packet.",
        "b suspects a: b has not heard a for 150 ms.",
        "b is elected: it heard b and c, numbers go on after 7.",
        "View 2 of g begins, without a: b and c. (a did not answer)",
        "View 3 of g begins, with a#1 joined: b, c and a#1.",
        "a#1 has joined g.",
        "c halts: c reached 1 of 3 members.",
        "(meanwhile: 1 message sent, 2 times delivered and missing packets asked for 1 time)",
    ]


def test_faults_and_departures_are_told() -> None:
    script = Script()
    script.add("a", "view", 1, ["a", "b"])
    script.add("b", "fault", fault="pause", process="b", length=5_000_000)
    script.add("b", "leave")
    script.add("a", "crash", by="fault")
    assert script.sentences()[1:] == ["Fault at b: pause, length 5ms.", "b has left g, as it wished.", "a crashes."]
