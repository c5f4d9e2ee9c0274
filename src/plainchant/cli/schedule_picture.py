"""The picture of ``plainchant schedule``: what each node's turn is filled with, and what one rotation is made of.

All turns have one scale, so that bars can be compared; the rotation has its own. What does not fit stands beyond the end of T, in
outlines. Colours follow the reader's choice of light or dark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..core.words import short
from ..lab.draw.svg import Drawing, steps_between, width_of
from ..protocols.rtcast.analysis import readable
from ..protocols.rtcast.schedulability import NodeVerdict, RingVerdict

_LEFT: Final = 120
_WIDE: Final = 860
_RIGHT: Final = 40
_TOP: Final = 56
_BAR: Final = 26
_LINE: Final = 16
_TONES: Final = 6
SHEET: Final = """
text{font:11px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:#1d2328}
.paper{fill:#fdfdfb}.title{font-size:14px;font-weight:600}.lane{font-size:12px;font-weight:600}.soft{fill:#5b6670}
.tick{fill:#5b6670;font-size:10px;text-anchor:middle}.axis{stroke:#8b959e}.end{stroke:#1d2328;stroke-width:2}
.frame{fill:#f3f5f4;stroke:#8b959e}.ring{fill:#c3cad0}.way{fill:#e3e6e8;stroke:#8b959e;stroke-width:.5}
.v0{fill:#8fbbe3}.v1{fill:#9fd3a9}.v2{fill:#e3c07a}.v3{fill:#cfaee0}.v4{fill:#8fd3cf}.v5{fill:#e5a5a0}
.over{fill:#fbe7e4;stroke:#b3261e;stroke-width:1.5;stroke-dasharray:4 3}.bad{fill:#b3261e;font-weight:600}
.good{fill:#1a7044;font-weight:600}
@media (prefers-color-scheme:dark){text{fill:#e4e8ea}.paper{fill:#15191d}.soft,.tick{fill:#a9b3ba}.axis{stroke:#7f8a92}
.end{stroke:#e4e8ea}.frame{fill:#1e2429;stroke:#7f8a92}.ring{fill:#4a545c}.way{fill:#2a3137;stroke:#7f8a92}
.v0{fill:#2f5f8c}.v1{fill:#2f6b3f}.v2{fill:#7a5a17}.v3{fill:#65447a}.v4{fill:#22686a}.v5{fill:#7d3a36}
.over{fill:#401d1a;stroke:#ff9a90}.bad{fill:#ff9a90}.good{fill:#7fd3a2}}
""".strip()


def picture(verdict: RingVerdict) -> str:
    """The picture as SVG."""
    return str(_Picture(verdict).draw())


class _Picture:
    def __init__(self, verdict: RingVerdict) -> None:
        self._verdict = verdict
        self._tones = {node.node: place % _TONES for place, node in enumerate(verdict.nodes)}
        self._longest = max(max(node.turn.hold, self._wanted(node)) for node in verdict.nodes)
        word = "schedulable" if verdict.is_schedulable else "not schedulable"
        self._title = f"{word}: {len(verdict.nodes)} nodes, P = {readable(verdict.rotation)}, Delta = {readable(verdict.delay)}"
        self._drawing = Drawing(_LEFT + _WIDE + _RIGHT, 0, self._title, sheet=SHEET)

    def draw(self) -> Drawing:
        drawing, height = self._drawing, self._height()
        drawing.height = height
        drawing.box(0, 0, drawing.width, height, "paper")
        drawing.text(16, 24, self._title, "title")
        drawing.text(16, 42, "what each turn is filled with (one scale for all)", "soft")
        y = float(_TOP)
        for node in self._verdict.nodes:
            y = self._node(node, y)
        self._axis(y, self._longest)
        self._rotation(y + 54)
        return drawing

    def _height(self) -> float:
        turns = sum(_BAR + 34 + _LINE * len(self._legend_lines(node)) for node in self._verdict.nodes)
        rotation = _LINE * len(_wrapped([title for *_, title in self._parts()]))
        return _TOP + turns + 54 + 24 + _BAR + 34 + rotation + 16

    def _wanted(self, node: NodeVerdict) -> int:
        return node.used + sum(self._refused_share(node).values())

    def _refused_share(self, node: NodeVerdict) -> dict[str, int]:
        """What the messages that are rejected would take; one whose deadline is too short: all of it at once."""
        refused = [verdict.demand for verdict in node.verdicts if not verdict.is_admitted]
        return {demand.name: node.turn.share(demand, max(1, node.turn.visits(demand.deadline))) for demand in refused}

    def _node(self, node: NodeVerdict, y: float) -> float:
        drawing = self._drawing
        scale = _WIDE / self._longest
        drawing.text(16, y + _BAR / 2 + 4, short(node.node, 16), "lane", title=node.node)
        hold = node.turn.hold * scale
        drawing.box(_LEFT, y, hold, _BAR, "frame", title=f"T of {node.node}: {readable(node.turn.hold)}")
        x = float(_LEFT)
        reserved = node.turn.reserved
        x = self._segment(x, y, reserved * scale, "ring", "ring", f"what the ring sends: {readable(reserved)}")
        for place, verdict in enumerate([verdict for verdict in node.verdicts if verdict.is_admitted]):
            told = f"{verdict.demand.name}: {readable(verdict.share)} of each turn, n = {verdict.visits}"
            x = self._segment(x, y, verdict.share * scale, f"v{place % _TONES}", verdict.demand.name, told)
        for name, share in self._refused_share(node).items():
            x = self._segment(x, y, share * scale, "over", name, f"{name} would take {readable(share)}: rejected")
        drawing.line(_LEFT + hold, y - 4, _LEFT + hold, y + _BAR + 4, "end", title=f"end of T: {readable(node.turn.hold)}")
        word, style = ("schedulable", "good") if node.is_schedulable else ("not schedulable", "bad")
        drawing.text(_LEFT, y + _BAR + 14, word, style)
        used = f"{readable(node.used)} of T = {readable(node.turn.hold)} ({node.used / node.turn.hold:.0%})"
        drawing.text(_LEFT + width_of(word) + 14, y + _BAR + 14, f"{used}, {readable(node.slack)} left", "soft")
        y += _BAR + 14
        for line in self._legend_lines(node):
            y += _LINE
            drawing.text(_LEFT, y, line, "soft")
        return y + 20

    def _segment(self, x: float, y: float, width: float, style: str, name: str, title: str) -> float:
        self._drawing.box(x, y, width, _BAR, style, title=title)
        if width_of(name) + 8 <= width:
            self._drawing.text(x + 4, y + _BAR / 2 + 4, name, title=title)
        return x + width

    def _legend_lines(self, node: NodeVerdict) -> list[str]:
        parts = [f"ring {readable(node.turn.reserved)}"]
        for verdict in sorted(node.verdicts, key=lambda verdict: not verdict.is_admitted):
            share = f"{readable(verdict.share)} x {verdict.pieces}" if verdict.is_admitted else "rejected"
            parts.append(f"{short(verdict.demand.name, 24)} {share}")
        return _wrapped(parts)

    def _rotation(self, y: float) -> None:
        drawing, verdict = self._drawing, self._verdict
        drawing.text(16, y, f"one rotation, P = {readable(verdict.rotation)}", "soft")
        y += 12
        parts = list(self._parts())
        scale = _WIDE / max(verdict.rotation, sum(length for _, _, length, _ in parts))
        drawing.text(16, y + _BAR / 2 + 4, "token", "lane")
        x = float(_LEFT)
        for name, style, length, title in parts:
            x = self._segment(x, y, length * scale, style, name, title)
        end = _LEFT + verdict.rotation * scale
        drawing.line(end, y - 4, end, y + _BAR + 4, "end", title=f"P = {readable(verdict.rotation)}")
        self._axis(y + _BAR + 8, verdict.rotation, scale)
        y += _BAR + 22
        for line in _wrapped([title for *_, title in parts]):
            y += _LINE
            drawing.text(_LEFT, y, line, "soft")

    def _parts(self) -> Iterator[tuple[str, str, int, str]]:
        """The parts of P in their order: name, style, length, title."""
        verdict = self._verdict
        parameters, interface = verdict.given.parameters, verdict.interface
        ring = [node.node for node in verdict.nodes]
        is_safe = parameters.rotation == "safe"
        total = 0
        for place, node in enumerate(verdict.nodes):
            name = node.node
            yield name, f"v{self._tones[name]}", node.turn.hold, f"turn of {name}: T = {readable(node.turn.hold)}"
            following = ring[(place + 1) % len(ring)]
            hop = interface.delay(name, following) if is_safe else interface.delay_max
            hop = 0 if not is_safe and place == len(ring) - 1 else hop
            total += node.turn.hold + hop
            if hop:
                yield "", "way", hop, f"the token's way to {following}: {readable(hop)}"
        slot = interface.slot(ring)
        yield "slot", "ring", slot, f"time to ask to join: {readable(slot)}"
        total += slot
        if verdict.rotation > total:
            rest = verdict.rotation - total
            yield "reserve", "way", rest, f"time to react, and for members that fail: {readable(rest)}"

    def _axis(self, y: float, length: int, scale: float | None = None) -> None:
        drawing = self._drawing
        scale = scale if scale is not None else _WIDE / length
        drawing.line(_LEFT, y, _LEFT + length * scale, y, "axis")
        for step in steps_between(0, length, 8):
            x = _LEFT + step * scale
            drawing.line(x, y, x, y + 4, "axis")
            drawing.text(x, y + 15, readable(round(step)), "tick")


def _wrapped(parts: list[str]) -> list[str]:
    """Parts with dots between them, in as many lines as they need."""
    lines = parts[:1]
    for part in parts[1:]:
        longer = f"{lines[-1]}  ·  {part}"
        lines[-1:] = [longer] if width_of(longer) <= _WIDE else [lines[-1], part]
    return lines
