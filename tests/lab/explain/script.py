"""Traces written by hand, an event a call, with times in ms on a global clock and details as keywords."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from plainchant.core.model import MS
from plainchant.lab.explain.explainer import Explainer, Explanation
from plainchant.trace import TraceBuffer


class Script:
    """A trace that is being written: ``script.add(260, "i j", "suspect", process="m", ...)`` adds a row at i and one at j."""

    def __init__(self, *, is_global: bool = True) -> None:
        self.buffer = TraceBuffer()
        self._is_global = is_global
        self._views: dict[tuple[str, str], int] = {}
        self._sent: dict[tuple[str, str], int] = {}

    def add(self, when: float, at: str, kind: str, *, group: str | None = "g", sender: str | None = None, **detail: Any) -> None:
        for process in at.split():
            self._row(when, process, kind, group, sender, extra={"detail": detail} if detail else None)

    def view(self, when: float, at: str, number: int, members: str, *, group: str = "g", **detail: Any) -> None:
        """All of them install it."""
        for process in at.split():
            self._views[process, group] = number
            extra: dict[str, Any] = {"members": members.split()} | ({"detail": detail} if detail else {})
            self._row(when, process, "view", group, extra=extra)

    def send(self, when: float, at: str, *, group: str = "g", due: float | None = None) -> int:
        """The next message of a process, and when it is due."""
        self._sent[at, group] = self._sent.get((at, group), 0) + 1
        extra = {"deadline": round(due * MS)} if due is not None else None
        self._row(when, at, "send", group, at, self._sent[at, group], extra)
        return self._sent[at, group]

    def deliver(self, when: float, at: str, sender: str, seq: int, *, group: str = "g") -> None:
        for process in at.split():
            self._row(when, process, "deliver", group, sender, seq)

    def end(self, when: float, at: str) -> None:
        self.add(when, at, "end", group=None)

    def crash(self, when: float, at: str) -> None:
        self.add(when, at, "crash", group=None)

    def _row(
        self,
        when: float,
        process: str,
        kind: str,
        group: str | None,
        sender: str | None = None,
        seq: int | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        time = round(when * MS)
        view = self._views.get((process, group)) if group is not None else None
        row = (kind, time, time if self._is_global else None, group, view, sender, seq, None, None, None, None, extra)
        self.buffer.history("r0", process).rows.append(row)

    def table(self) -> pa.Table:
        return self.buffer.table()

    def story(self, number: int, process: str | None = None) -> Explanation:
        return Explainer(self.table()).view("g", number, process)


def silence(of: str, *, last: int, block: int = 10, for_: float = 251) -> dict[str, Any]:
    """The detail of a suspicion because of a silence, in ms; the patience is 250 ms."""
    return {
        "process": of,
        "last": last,
        "block": block,
        "silence": round(for_ * MS),
        "patience": 250 * MS,
        "why": "silence",
        "situation": "suspects",
    }


def partition() -> Script:
    """The example of 6.3.3: m crashes; the network parts {i, j} and {k, l} after k and l have heard that i and j suspect m."""
    script = Script()
    everybody = "i j k l m"
    script.view(0, everybody, 1, everybody)
    seq = script.send(5, "m")
    script.deliver(9, everybody, "m", seq)
    script.crash(10, "m")
    script.add(200, "i k", "fault", group=None, fault="partition", parts=[["i", "j"], ["k", "l", "m"]])
    seq = script.send(210, "k")
    for when, who in ((260, "k l"), (261, "i j")):
        script.add(when, who, "suspect", **silence("m", last=8))
    for who in ("k", "l"):
        script.add(262, who, "confirm", detection={"m": 8}, cut={"m": 8}, by="k", discarded=[], suspected_for=2 * MS)
        script.add(262, who, "remove", failed=["m"], block=12)
        left = {"m": {"reason": "crashed", "text": "m has sent nothing for block 10 in 251ms; its last message had block 8"}}
        script.view(265 if who == "k" else 266, who, 2, "i j k l", left=left)
        script.deliver(266, who, "k", seq)
    for who in ("i", "j"):
        for of, last in (("k", 11), ("l", 10)):
            script.add(500, who, "suspect", **silence(of, last=last, block=13, for_=250.5))
        detection = {"m": 8, "k": 11, "l": 10}
        discarded = [["k", 1, 1]] if who == "i" else []
        script.add(
            502,
            who,
            "confirm",
            detection=detection,
            cut=dict.fromkeys(detection, 8),
            by="i",
            discarded=discarded,
            suspected_for=241 * MS,
        )
        script.add(502, who, "remove", failed=["k", "l", "m"], block=14)
        script.view(504, who, 2, "i j")
    for who in ("k", "l"):
        for of in ("i", "j"):
            script.add(530, who, "suspect", process=of, last=12, why="mutual", by=of, situation="suspects")
        script.add(
            532, who, "confirm", detection={"i": 12, "j": 12}, cut={"i": 12, "j": 12}, by="l", discarded=[], suspected_for=2 * MS
        )
        script.add(532, who, "remove", failed=["i", "j"], block=16)
        script.view(534, who, 3, "k l")
    script.end(600, "i j k l")
    return script
