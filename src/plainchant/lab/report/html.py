"""Pieces of HTML: tables, figures, chips, commands. Everything that comes from outside passes through ``clean`` here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...core.words import short
from ..draw.svg import clean

TEXT_MAX = 1_200
"""Characters of one sentence or cell; what is longer is cut, with a sign that it was."""


def text(value: object, most: int = TEXT_MAX) -> str:
    """Text from outside, made safe and not too long; what stands between backquotes becomes code.

    >>> text("see `a<b`")
    'see <code>a&lt;b</code>'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", clean(short(value, most)))


def paragraph(value: object, style: str = "") -> str:
    return f"<p{_class(style)}>{text(value)}</p>"


def chip(verdict: str) -> str:
    """A verdict as a coloured word."""
    style = {"holds": "holds", "violated": "violated"}.get(verdict, "nothing")
    return f'<span class="chip {style}">{text(verdict)}</span>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, side by side."""
    told = "".join(f"<div><dt>{text(name, 60)}</dt><dd>{text(value, 200)}</dd></div>" for name, value in pairs)
    return f'<dl class="facts">{told}</dl>' if told else ""


def table(
    headings: Sequence[str],
    rows: Iterable[tuple[str, Sequence[str]]],
    caption: str,
    *,
    right: Sequence[int] = (),
    style: str = "",
) -> str:
    """A table. A row is its class and its cells, which are HTML; ``right`` are the columns of numbers."""
    side = ["n" if number in right else "" for number in range(len(headings))]
    head = "".join(f'<th scope="col"{_class(each)}>{text(name)}</th>' for name, each in zip(headings, side, strict=True))
    body = []
    for row_style, (first, *others) in rows:
        cells = "".join(f"<td{_class(each)}>{cell}</td>" for cell, each in zip(others, side[1:], strict=True))
        body.append(f'<tr{_class(row_style)}><th scope="row"{_class(side[0])}>{first}</th>{cells}</tr>')
    inside = f"<caption>{text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody>"
    return f'<div class="wide"><table{_class(style)}>{inside}</table></div>'


def figure(picture: str, caption: str) -> str:
    """A picture with its caption, which is HTML."""
    return f'<figure><div class="wide">{picture}</div><figcaption>{caption}</figcaption></figure>'


def command(line: str) -> str:
    return f"<pre><code>{clean(short(line, TEXT_MAX))}</code></pre>"


def fold(summary: str, inside: str, *, is_open: bool = False) -> str:
    """Something that can be folded away."""
    return f"<details{' open' if is_open else ''}><summary>{text(summary)}</summary>{inside}</details>"


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""
