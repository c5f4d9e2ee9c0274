"""The signs of a space-time diagram, each with what it means: drawn the same way in the picture and in its legend."""

from __future__ import annotations

from collections.abc import Callable
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


def _send(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.add("circle", tone, title=title, cx=x, cy=y, r=4)


def _deliver(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.shape([(x - 4, y - 4), (x + 4, y - 4), (x, y + 4)], tone, title=title)


def _arrow(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.arrow(x - 9, y, x + 12, y, tone, title=title, head=6)


def _bar(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.box(x - 9, y - 2, 18, 4, "v0", title=title, round_by=1)


def _install(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.line(x, y - 7, x, y + 8, "install", title=title)


def _crash(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    for slope in (1, -1):
        picture.line(x - 6, y - 6 * slope, x + 6, y + 6 * slope, "crash", title=title)


def _leave(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.box(x - 4, y - 4, 8, 8, "left", title=title)


def _bye(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.shape(_diamond(x, y), "bye", title=title)


def _suspect(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.shape(_diamond(x, y), "suspect", title=title)


def _refute(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.shape(_diamond(x, y), "refute", title=title)


def _heard(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.shape(_diamond(x, y), "heard", title=title)


def _late(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.shape(_diamond(x, y), "refute", title=title)
    picture.line(x - 6, y + 6, x + 6, y - 6, "suspect")


def _confirm(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.shape(_diamond(x, y), "confirm", title=title)


def _remove(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.add("circle", "remove", title=title, cx=x, cy=y, r=6)
    picture.line(x - 3, y, x + 3, y, "remove")


def _form(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.shape([(x - 6, y), (x - 3, y - 5), (x + 3, y - 5), (x + 6, y), (x + 3, y + 5), (x - 3, y + 5)], "form", title=title)


def _null(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.line(x, y - 4, x, y + 4, "null", title=title)


def _blocked(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.line(x - 9, y, x + 9, y, "blocked", title=title)


def _turn(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.box(x - 8, y - TURN / 2, 16, TURN, "turn", title=title, round_by=4)


def _overdue(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.box(x - 8, y - TURN / 2, 16, TURN, "turn overdue", title=title, round_by=4)


def _beat(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.line(x, y - 5, x, y + 5, "beat", title=title)


def _token(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.arrow(x - 9, y, x + 12, y, "token", title=title, head=6)


def _ask(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.add("circle", "ask", title=title, cx=x, cy=y, r=4)


def _again(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.add("circle", "again", title=title, cx=x, cy=y, r=4)


def _omission(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.add("circle", "omission", title=title, cx=x, cy=y, r=6)


def _untimely(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.add("circle", "untimely", title=title, cx=x, cy=y, r=5)
    picture.line(x, y, x, y - 4, "untimely")
    picture.line(x, y, x + 3, y, "untimely")


def _rejected(picture: Drawing, x: float, y: float, tone: str, title: str) -> None:
    picture.box(x - 5, y - 5, 10, 10, "rejected", title=title)
    picture.line(x - 5, y + 5, x + 5, y - 5, "rejected")


def _diamond(x: float, y: float) -> list[tuple[float, float]]:
    return [(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)]


TURN: Final = 18
"""Height of the box of a turn."""

SIGNS: Final[dict[str, tuple[Sign, str]]] = {
    "send": (_send, "send (its number)"),
    "deliver": (_deliver, "delivery"),
    "message": (_arrow, "message"),
    "view": (_bar, "view in force (same colour: same view)"),
    "install": (_install, "view installed"),
    "crash": (_crash, "process stops"),
    "leave": (_leave, "has left"),
    "bye": (_bye, "last message of a leaver heard"),
    "suspect": (_suspect, "p? suspects p"),
    "refute": (_refute, "p! refutes a suspicion of p"),
    "heard": (_heard, "p! drops its suspicion of p"),
    "late": (_late, "refutation too late"),
    "confirm": (_confirm, "confirms that p failed"),
    "remove": (_remove, "multicasts the removal"),
    "form": (_form, "step of a formation, election or proposal"),
    "null": (_null, "null message"),
    "blocked": (_blocked, "may not send"),
    "turn": (_turn, "turn on the ring (its number)"),
    "overdue": (_overdue, "turn after a timeout, without the token"),
    "beat": (_beat, "heartbeat, which ends a turn"),
    "token": (_token, "heartbeat as the token"),
    "ask": (_ask, "asks for packets that it misses"),
    "again": (_again, "sends packets again"),
    "omission": (_omission, "has missed packets for good"),
    "untimely": (_untimely, "an operation took longer than its bound"),
    "rejected": (_rejected, "decides to reject a message"),
}
"""Signs by name, in the legend's order, with their meanings."""
