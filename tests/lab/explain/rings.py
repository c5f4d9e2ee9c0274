"""Traces of a token ring, written by hand: a crash that is found out, a member that misses something, a join with a vote."""

from __future__ import annotations

from plainchant.core.model import MS, US

from .script import Script

EVERYBODY = "a b c"
P = 40 * MS


def ring(members: str = EVERYBODY, **parameters: object) -> Script:
    """The beginning of a run; the first view is 1."""
    script = Script()
    bounds = {"rotation": P, "detection": 150 * MS}
    script.add(0, members, "start", group=None, version=1, protocol="rtcast", parameters=parameters, bounds=bounds)
    script.view(1, members, 1, members)
    return script


def turn(script: Script, when: float, at: str, visit: int, *, by: str = "token", rotation: float | None = 6.0) -> None:
    lasted = None if rotation is None else round(rotation * MS)
    script.add(when, at, "token", by=by, visit=visit, rotation=lasted, hold=460 * US, bound=P, printed=30 * MS, packets=3)


def crashed() -> Script:
    """b dies after its turn; its successor c finds out, eliminates it and goes on."""
    script = ring()
    turn(script, 10, "a", 7)
    turn(script, 11, "b", 8)
    seq = script.send(12, "c")
    turn(script, 12, "c", 9)
    script.deliver(13, "a b c", "c", seq)
    script.crash(13.5, "b")
    turn(script, 14, "a", 10)
    script.add(40, "c", "suspect", processes=["b"], last={"b": 4}, after=10, waited=26 * MS, answers=["a"])
    turn(script, 40, "c", 12, by="timeout", rotation=28)
    turn(script, 41, "a", 13)
    left = {"b": {"reason": "crashed", "text": "c heard no heartbeat of b"}}
    for process in ("a", "c"):
        script.add(42, process, "confirm", number=2, kinds=["eliminate"], by="c", rotation=P)
        script.view(42, process, 2, "a c", left=left)
    turn(script, 43, "c", 14)
    script.end(60, "a c")
    return script


def omission(*, asked: bool = True) -> Script:
    """c misses packet 7 of a, asks for it, does not get it, and halts."""
    script = ring(retransmissions=1 if asked else 0)
    first = script.send(10, "a")
    turn(script, 10, "a", 4)
    script.deliver(11, "a b", "a", first)
    if asked:
        script.add(12, "c", "ask", sender="a", first=7, last=7, left=1)
        turn(script, 12, "c", 6)
        script.add(13, "a", "retransmit", sender="a", to=["c"], number=7, visit=4)
        turn(script, 13, "a", 7)
    script.add(18, "c", "drop", why="late", packet="Data", source="a", age=9 * MS, bound=2 * MS)
    script.add(20, "c", "receive", omission=True, missing=[["a", 7, 7]])
    text = "c has missed a packet before turn 5 of b"
    script.add(20, "c", "state", state="crashed", reason="omission")
    script.add(20, "c", "crash", group=None, by="protocol", reason="omission", text=text)
    script.add(45, "a", "suspect", processes=["c"], last={"c": 9}, after=8, waited=24 * MS, answers=["b"])
    for process in ("a", "b"):
        script.add(47, process, "confirm", number=2, kinds=["eliminate"], by="a", rotation=P)
        script.view(47, process, 2, "a b", left={"c": {"reason": "crashed", "text": "a heard no heartbeat of c"}})
    script.end(60, "a b")
    return script


def voted() -> Script:
    """d asks to join; P must grow for it, and everybody votes."""
    script = ring()
    for process in EVERYBODY.split():
        script.add(30, process, "confirm", number=1, kinds=["form"], by="a", rotation=P)
    script.add(35, "a", "confirm", kinds=["reclaim"], rotation=30 * MS, present=P)
    script.add(40, "d", "state", state="joining")
    script.add(41, "d", "request", to="a", ring="a")
    script.add(43, "a", "query", attempt=1, rotation=50 * MS, present=30 * MS, joiners=["d"])
    for when, process in ((44, "b"), (45, "c"), (50, "b")):
        script.add(when, process, "usend", vote=True, attempt=1, to="a", rotation=50 * MS)
        script.add(when + 0.5, "a", "udeliver", vote=True, attempt=1, source=process)
    for when, process in ((54, "b"), (55, "a"), (55, "c"), (55, "d")):
        if process != "d":
            script.add(when, process, "confirm", number=2, kinds=["join"], by="a", rotation=50 * MS)
        else:
            script.add(when, process, "state", state="running")
        script.view(when, process, 2, "a b c d", joined=["d"])
    script.end(60, "a b c d")
    return script
