"""Hand-written traces of runs on common memory."""

from __future__ import annotations

from typing import Any

from plainchant.core.model import MS, US

from .script import Script

BOUNDS = {"send": 300 * US, "deliver": 3 * MS}


class MailboxScript(Script):
    """A trace of a run of ``mailbox`` that is being written."""

    def __init__(self, processes: str, protocol: str = "mailbox") -> None:
        super().__init__()
        for name in processes.split():
            self.add(0, name, "start", group=None, protocol=protocol, bounds=BOUNDS)

    def enter(self, when: float, at: str, rank: int) -> None:
        for process in at.split():
            self.add(when, process, "state", state="entered", entry=rank)
            self.ranked(when, process, "join", None, None, rank)

    def about(self, when: float, at: str, kind: str, sender: str, seq: int, **detail: Any) -> None:
        """A row about a message, at each of these processes."""
        for process in at.split():
            self._row(when, process, kind, "g", sender, seq, {"detail": detail} if detail else None)

    def decide(self, when: float, at: str, sender: str, seq: int, stamp: float, *, accepted: bool = True, **detail: Any) -> None:
        told = {"stamp": round(stamp * MS), "decision": int(accepted), "took_ns": 200 * US}
        told["after_ns"] = round((when - stamp) * MS)
        self.about(when, at, "decide", sender, seq, **told, **detail)

    def ranked(self, when: float, at: str, kind: str, sender: str | None, seq: int | None, rank: int) -> None:
        time = round(when * MS)
        for process in at.split():
            row = (kind, time, time, "g", None, sender, seq, rank, None, None, None, None)
            self.buffer.history("r0", process).rows.append(row)

    def operation(self, began: float, ended: float, at: str, name: str, copy: int, *, failed: bool = False) -> None:
        self.add(ended, at, "operation", operation=name, copy=copy, began=round(began * MS), failed=failed)


def late_sender(protocol: str = "mailbox") -> MailboxScript:
    """p2 is slow: its batch of g/p2/1 and g/p2/2 is rejected and sent again; p1 crashes while it sends; p4 joins later; module 1
    crashes."""
    script = MailboxScript("p1 p2 p3 p4", protocol)
    script.enter(0.1, "p1 p2 p3", 64)
    for _ in range(2):
        script.send(1, "p2")
    late: dict[str, Any] = {"operation": "write", "copy": 1, "took_ns": 700 * US, "bound_ns": 100 * US}
    script.add(1.8, "p2", "fault", group=None, fault="timing", timing=True, **late)
    script.about(1.9, "p2", "sent", "p2", 2, stamp=MS, took_ns=900 * US, attempt=1)
    script.decide(2, "p1 p3", "p2", 2, 1, accepted=False)
    for seq in (1, 2):
        script.about(2, "p1 p3", "late", "p2", seq, stamp=MS, text="most receivers did not see it in time with its flag set")
    script.decide(2.1, "p2", "p2", 2, 1, accepted=False)
    script.about(3.2, "p2", "sent", "p2", 2, stamp=3 * MS, took_ns=200 * US, attempt=2)
    script.decide(4, "p1 p2 p3", "p2", 2, 3, copy=0, own=True)
    for seq in (1, 2):
        script.ranked(5, "p1 p2 p3", "deliver", "p2", seq, 3_000)
    script.add(6, "p1 p2 p3", "fault", group=None, fault="module", module=1)
    script.enter(7, "p4", 7_000)
    script.send(8, "p1")
    script.add(8.1, "p1", "crash", group=None, by="fault", mid_broadcast=True, operation="write", copy=1)
    script.decide(9, "p2 p3 p4", "p1", 1, 8, accepted=False)
    script.add(10, "p3", "block", reason="slots", text="all 4 slots of p3 hold messages that not everybody has read")
    script.add(11, "p3", "unblock")
    script.end(20, "p2 p3 p4")
    return script


def sending() -> MailboxScript:
    """p1 sends g/p1/1 into two copies, of which the first is lost meanwhile; p1 and p2 receive it."""
    script = MailboxScript("p1 p2")
    script.enter(0.1, "p1 p2", 64)
    script.send(1, "p1")
    for place, (name, copy) in enumerate((("write", 0), ("write", 1), ("flag", 0), ("flag", 1))):
        began = 1 + place * 0.1
        script.operation(began, began + 0.1, "p1", name, copy, failed=name == "flag" and copy == 0)
    script.about(1.4, "p1", "sent", "p1", 1, stamp=MS, took_ns=400 * US, attempt=1)
    for name, later in (("p1", 0.0), ("p2", 0.01)):
        script.operation(1.5, 1.55, name, "look", 1)
        script.operation(2 + later, 2.1 + later, name, "decide", 1)
        script.operation(2.05, 2.15, name, "look", 1)
        script.decide(2.2 + later, name, "p1", 1, 1)
        script.operation(2.5, 2.6, name, "read", 1)
        script.ranked(2.6, name, "deliver", "p1", 1, 64_000)
        script.operation(3, 3.05, name, "finish", 0, failed=True)
        script.operation(3.05, 3.1, name, "finish", 1)
    script.end(9, "p1 p2")
    return script
