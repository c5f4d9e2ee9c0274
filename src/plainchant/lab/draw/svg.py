"""A little SVG: elements, numbers and text written so that the same picture is always the same bytes.

Colours and fonts are classes of a style sheet: that of the page that a picture stands in, or its own if it is a file by itself.
A picture says in its title what it shows, for people who do not see it; a mark says in its own title what it stands for, which
browsers show when it is pointed at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, TypeAlias

Value: TypeAlias = str | int | float
_CHARACTER: Final = 6.1
"""Average width in px of a character of the small text in pictures (11 px)."""


def clean(text: object) -> str:
    """Text for HTML: escaped, and without characters that no HTML file may hold.

    >>> clean('a<b\\x00')
    'a&lt;b�'
    """
    told = str(text)
    if not told.isprintable():
        told = "".join(sign if sign.isprintable() or sign in "\n\t" else "\ufffd" for sign in told)
    return escape(told)


def width_of(text: str) -> float:
    """About how wide a small text is drawn, in px."""
    return len(text) * _CHARACTER


def number(value: Value) -> str:
    """A coordinate with at most one decimal.

    >>> number(3.04), number(2.5), number(7)
    ('3', '2.5', '7')
    """
    if isinstance(value, str):
        return value
    told = f"{value:.1f}"
    return told[:-2] if told.endswith(".0") else told


class Drawing:
    """An SVG element that is being drawn."""

    def __init__(self, width: float, height: float, title: str, *, fluid: bool = True, sheet: str = "") -> None:
        """``sheet`` is the style sheet of a picture that is a file by itself."""
        self.width = width
        self.height = height
        self._title = title
        self._fluid = fluid
        self._sheet = sheet
        self._parts: list[str] = []

    def add(self, tag: str, style: str = "", *, title: str = "", text: str | None = None, **attributes: Value) -> None:
        """One element. ``style`` is its class; ``title`` is shown when it is pointed at; ``_`` in a name means ``-``."""
        written = f' class="{style}"' if style else ""
        written += "".join(f' {name.replace("_", "-")}="{clean(number(value))}"' for name, value in attributes.items())
        inside = (f"<title>{clean(title)}</title>" if title else "") + (clean(text) if text is not None else "")
        self._parts.append(f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>")

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str, *, title: str = "") -> None:
        self.add("line", style, title=title, x1=x1, y1=y1, x2=x2, y2=y2)

    def box(self, x: float, y: float, width: float, height: float, style: str, *, title: str = "", round_by: float = 0) -> None:
        self.add("rect", style, title=title, x=x, y=y, width=max(width, 0.5), height=height, rx=round_by)

    def text(self, x: float, y: float, text: str, style: str = "", *, title: str = "") -> None:
        self.add("text", style, title=title, text=text, x=x, y=y)

    def shape(self, points: Sequence[tuple[float, float]], style: str, *, title: str = "") -> None:
        self.add("polygon", style, title=title, points=" ".join(f"{number(x)},{number(y)}" for x, y in points))

    def path(self, points: Sequence[tuple[float, float]], style: str) -> None:
        told = "M" + "L".join(f"{number(x)},{number(y)}" for x, y in points)
        self.add("path", style, d=told)

    def axis(
        self, left: float, right: float, y: float, ticks: Iterable[tuple[float, str]], *, below: float = 17, apart: float = 8
    ) -> None:
        """A line with ticks and their texts; a tick whose text would touch the one before is left out."""
        self.line(left, y, right, y, "axis")
        free = -1.0
        for x, told in ticks:
            if x - width_of(told) / 2 > free:
                self.line(x, y, x, y + 4, "axis")
                self.text(x, y + below, told, "tick")
                free = x + width_of(told) / 2 + apart

    def cross(self, x: float, y: float, size: float, *, title: str) -> None:
        """The sign of a process that stops."""
        for slope in (1, -1):
            self.line(x - size, y - size * slope, x + size, y + size * slope, "crash", title=title)

    def arrow(self, x1: float, y1: float, x2: float, y2: float, style: str, *, title: str = "", head: float = 7) -> None:
        """A line with a head, which ends a little before the mark it points at."""
        length = math.hypot(x2 - x1, y2 - y1)
        if length < head * 2:
            self.line(x1, y1, x2, y2, f"{style} stroke", title=title)
            return
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        tip = (x2 - dx * 4, y2 - dy * 4)
        back = (tip[0] - dx * head, tip[1] - dy * head)
        side = head * 0.45
        self.line(x1, y1, back[0], back[1], f"{style} stroke", title=title)
        wings = [(back[0] - dy * side, back[1] + dx * side), (back[0] + dy * side, back[1] - dx * side)]
        self.shape([tip, *wings], f"{style} fill")

    def __str__(self) -> str:
        size = f'width="{number(self.width)}" height="{number(self.height)}"'
        box = f'viewBox="0 0 {number(self.width)} {number(self.height)}"'
        style = "fluid" if self._fluid else "natural"
        told = f'role="img" aria-label="{clean(self._title)}"'
        if self._sheet:
            start = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} {told}>\n<style>{self._sheet}</style>\n'
            return start + "\n".join(self._parts) + "\n</svg>\n"
        return f'<svg {size} {box} class="{style}" {told}>' + "".join(self._parts) + "</svg>"


def steps_between(low: float, high: float, most: int) -> list[float]:
    """At most ``most`` round numbers between two.

    >>> steps_between(0, 93, 5)
    [0.0, 20.0, 40.0, 60.0, 80.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / max(most, 1)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return [(first + each) * step for each in range(max(count, 0))]
