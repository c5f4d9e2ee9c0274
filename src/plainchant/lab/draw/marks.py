"""The signs of a space-time diagram, each with what it means: drawn the same way in the picture and in its legend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from .svg import Drawing

Sign: TypeAlias = Callable[[Drawing, float, float, str, str], None]
"""Draws a sign at a point, with a tone (a class of the style sheet, where the sign takes one) and a title."""
SHEET: Final = """
text{font:11px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:#1d2328}
.paper{fill:#fdfdfb}.title{font-size:13px;font-weight:600}.lane{font-size:12px;font-weight:600}
.life{stroke:#5b6670;stroke-width:1.5}.gone{stroke:#c3cad0;stroke-width:1.5;stroke-dasharray:2 5}
.tick{fill:#5b6670;font-size:10px;text-anchor:middle}.axis{stroke:#8b959e}.soft{fill:#5b6670}
.band{fill:#f0b45a;fill-opacity:.16}.faultline{stroke:#a8620c;stroke-width:1.2;stroke-dasharray:5 3}
.faulttext{fill:#a8620c;font-weight:600}
.label,.viewtext,.faulttext{paint-order:stroke;stroke:#fdfdfb;stroke-width:3px;stroke-linejoin:round}
.label{font-size:10px;text-anchor:middle}.viewtext{font-size:10px;fill:#5b6670}
.v0{fill:#8fbbe3}.v1{fill:#9fd3a9}.v2{fill:#e3c07a}.v3{fill:#cfaee0}.v4{fill:#8fd3cf}.v5{fill:#e5a5a0}
.stroke{stroke-width:1.2;stroke-opacity:.7}
.t0{fill:#1f5fa8}.t1{fill:#b8860b}.t2{fill:#1a7044}.t3{fill:#7b3fa0}.t4{fill:#0f6f78}.t5{fill:#5b6670}
.stroke.t0{stroke:#1f5fa8}.stroke.t1{stroke:#b8860b}.stroke.t2{stroke:#1a7044}.stroke.t3{stroke:#7b3fa0}
.stroke.t4{stroke:#0f6f78}.stroke.t5{stroke:#5b6670}
.install,.left,.bye{stroke:#5b6670;stroke-width:2}.left,.bye,.suspect,.refute,.remove,.form{fill:#fdfdfb}
.crash{stroke:#b3261e;stroke-width:3;stroke-linecap:round}.bad{fill:#b3261e;font-weight:600}
.suspect,.confirm,.remove{stroke:#b3261e;stroke-width:1.8}.confirm{fill:#b3261e}
.refute,.heard{stroke:#1a7044;stroke-width:1.8}.heard,.good{fill:#1a7044}.good{font-weight:600}
.form{stroke:#7b3fa0;stroke-width:1.8}.formtext{fill:#7b3fa0;font-weight:600}
.null{stroke:#8b959e;stroke-width:1.2}.blocked{stroke:#f0b45a;stroke-width:7;stroke-opacity:.6}
""".strip()
"""The style sheet. Classes ``t0`` to ``t5`` are the tones of senders, ``v0`` to ``v5`` those of views."""
_RING: Final = """
.turn{fill:#e9edf1;stroke:#8b959e;stroke-width:1}.turn.overdue{fill:#fbeceb;stroke:#b3261e;stroke-dasharray:3 2}
.stroke.token{stroke:#5b6670;stroke-opacity:1;stroke-dasharray:4 3}.token{fill:#5b6670}
.beat{stroke:#5b6670;stroke-width:2}.ask{fill:#fdfdfb;stroke:#a8620c;stroke-width:1.6}.again{fill:#a8620c}
.asktext{fill:#a8620c}.omission{fill:none;stroke:#b3261e;stroke-width:2}
""".strip()
_MEMORY: Final = """
.untimely{fill:#fdfdfb;stroke:#a8620c;stroke-width:1.6}.rejected{fill:#fbeceb;stroke:#b3261e;stroke-width:1.6}
""".strip()
SHEETS: Final = {"ring": _RING, "memory": _MEMORY}
"""Style sheets of signs that not every picture has: turns and missing packets, late operations and rejected messages."""
TONES: Final = 6
TURN: Final = 18
"""Height of the box of a turn."""
_DIAMOND: Final = ((0, -6), (6, 0), (0, 6), (-6, 0))
_HEXAGON: Final = ((-6, 0), (-3, -5), (3, -5), (6, 0), (3, 5), (-3, 5))


def _circle(style: str, radius: float) -> Sign:
    return lambda picture, x, y, tone, title: picture.add("circle", style or tone, title=title, cx=x, cy=y, r=radius)


def _shape(style: str, points: Sequence[tuple[float, float]]) -> Sign:
    return lambda picture, x, y, tone, title: picture.shape([(x + dx, y + dy) for dx, dy in points], style or tone, title=title)


def _line(style: str, x1: float, y1: float, x2: float, y2: float) -> Sign:
    return lambda picture, x, y, tone, title: picture.line(x + x1, y + y1, x + x2, y + y2, style, title=title)


def _box(style: str, width: float, height: float, round_by: float = 0) -> Sign:
    return lambda picture, x, y, tone, title: picture.box(
        x - width / 2, y - height / 2, width, height, style, title=title, round_by=round_by
    )


def _arrow(style: str) -> Sign:
    return lambda picture, x, y, tone, title: picture.arrow(x - 9, y, x + 12, y, style or tone, title=title, head=6)


def _with(sign: Sign, *others: Sign) -> Sign:
    """A sign with others over it, which have no title."""

    def draw(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
        sign(picture, x, y, tone, title)
        for other in others:
            other(picture, x, y, tone, "")

    return draw


SIGNS: Final[dict[str, tuple[Sign, str]]] = {
    "send": (_circle("", 4), "send (its number)"),
    "deliver": (_shape("", ((-4, -4), (4, -4), (0, 4))), "delivery"),
    "message": (_arrow(""), "message"),
    "view": (_box("v0", 18, 4, 1), "view in force (same colour: same view)"),
    "install": (_line("install", 0, -7, 0, 8), "view installed"),
    "crash": (lambda picture, x, y, tone, title: picture.cross(x, y, 6, title=title), "process stops"),
    "leave": (_box("left", 8, 8), "has left"),
    "bye": (_shape("bye", _DIAMOND), "last message of a leaver heard"),
    "suspect": (_shape("suspect", _DIAMOND), "p? suspects p"),
    "refute": (_shape("refute", _DIAMOND), "p! refutes a suspicion of p"),
    "heard": (_shape("heard", _DIAMOND), "p! drops its suspicion of p"),
    "late": (_with(_shape("refute", _DIAMOND), _line("suspect", -6, 6, 6, -6)), "refutation too late"),
    "confirm": (_shape("confirm", _DIAMOND), "confirms that p failed"),
    "remove": (_with(_circle("remove", 6), _line("remove", -3, 0, 3, 0)), "multicasts the removal"),
    "form": (_shape("form", _HEXAGON), "step of a formation, election or proposal"),
    "null": (_line("null", 0, -4, 0, 4), "null message"),
    "blocked": (_line("blocked", -9, 0, 9, 0), "may not send"),
    "turn": (_box("turn", 16, TURN, 4), "turn on the ring (its number)"),
    "overdue": (_box("turn overdue", 16, TURN, 4), "turn after a timeout, without the token"),
    "beat": (_line("beat", 0, -5, 0, 5), "heartbeat, which ends a turn"),
    "token": (_arrow("token"), "heartbeat as the token"),
    "ask": (_circle("ask", 4), "asks for packets that it misses"),
    "again": (_circle("again", 4), "sends packets again"),
    "omission": (_circle("omission", 6), "has missed packets for good"),
    "untimely": (
        _with(_circle("untimely", 5), _line("untimely", 0, 0, 0, -4), _line("untimely", 0, 0, 3, 0)),
        "an operation took longer than its bound",
    ),
    "rejected": (_with(_box("rejected", 10, 10), _line("rejected", -5, 5, 5, -5)), "decides to reject a message"),
}
"""Signs by name, in the legend's order, with their meanings."""
