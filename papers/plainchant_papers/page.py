"""Results of a reproduction as files: a page with everything, the figures, and the data behind each claim.

``index.html`` needs nothing but itself: figures are in it. The same results always give the same bytes: pictures carry no
date and no drawn identifiers.
"""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from plainchant.lab.errors import LabError

from .claims import FAILS, HOLDS, OPEN, REMARK, VERDICTS, Figure, Result, Series, Table

_COLOURS: Final = {HOLDS: "#1a7f37", REMARK: "#9a6700", FAILS: "#cf222e", OPEN: "#59636e"}
_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1f2328; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid #d1d9e0; }
th { border-bottom-width: 2px; }
.claims th:nth-child(3) { width: 30%; }
.numbers { width: auto; margin-top: 1rem; }
figure { display: inline-block; margin: 1rem 1rem 0 0; max-width: 100%; }
figure svg { max-width: 100%; height: auto; }
figcaption, .how { color: #59636e; }
.verdict { font-weight: 600; white-space: nowrap; }
"""


def check_drawing() -> None:
    """Fails if figures cannot be drawn here: better before a long measurement than after it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise LabError("figures need matplotlib, which is not installed: pip install 'plainchant[lab]'")


def write(directory: Path, documents: Mapping[str, Sequence[Result]], *, quick: bool) -> None:
    """Writes ``index.html``, ``claims.json``, and a file for each figure and each claim's data into a directory.

    Of several documents, a figure's file has the document's name before its own."""
    (directory / "figures").mkdir()
    (directory / "data").mkdir()
    results = [result for found in documents.values() for result in found]
    pictures = {name: dict(_pictures(found)) for name, found in documents.items()}
    for result in results:
        if result.measured.data:
            (directory / "data" / f"claim-{result.claim.number:03}.csv").write_text(_csv(result), encoding="utf-8")
    for name, drawn in pictures.items():
        for shown, svg in drawn.items():
            file = f"{name}-{shown}.svg" if len(documents) > 1 else f"{shown}.svg"
            (directory / "figures" / file).write_text(svg, encoding="utf-8")
    claims = [{**result.to_json(), "how": result.claim.how, "expected": result.claim.expected} for result in results]
    text = json.dumps({"claims": claims}, indent=2, ensure_ascii=False)
    (directory / "claims.json").write_text(text + "\n", encoding="utf-8")
    page = "\n".join(_page(documents, pictures, quick))
    (directory / "index.html").write_text(page + "\n", encoding="utf-8")


def _pictures(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """The pictures of a document by name, as SVG."""
    for result in results:
        for figure in result.measured.figures:
            yield figure.name, draw(figure)
        for picture in result.measured.pictures:
            yield picture.name, picture.svg


def _csv(result: Result) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(result.measured.data[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(result.measured.data)
    return text.getvalue()


def draw(figure: Figure) -> str:
    """A figure as SVG: what was measured as a line with points, the document's own points as open circles or a dashed line.

    Lines that lie on each other are drawn as one, which has the labels of all.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    with matplotlib.rc_context({"svg.hashsalt": figure.name, "svg.fonttype": "none", "font.size": 10}):
        canvas = Canvas(figsize=(6, 3.8), layout="constrained")
        FigureCanvasSVG(canvas)
        axes = canvas.add_subplot()
        for number, series in _joined(figure.series):
            line = "-" if len(set(series.x)) == len(series.x) else "none"
            look: dict[str, Any] = {"linestyle": line, "marker": "o", "markersize": 4}
            if figure.steps:
                look = {"drawstyle": "steps-post", "linewidth": 2}
            if series.from_document:
                look = {"linestyle": "none", "marker": "o", "markersize": 8, "fillstyle": "none"}
                if len(series.x) == 2:  # a line, given by its ends
                    look = {"linestyle": "--"}
            axes.plot(series.x, series.y, color=f"C{number}", label=series.label, **look)
        axes.set_title(figure.title)
        axes.set_xlabel(figure.x_label)
        axes.set_ylabel(figure.y_label)
        if figure.log_x:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(FixedLocator(sorted({x for series in figure.series for x in series.x})))
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if figure.log_y:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        else:
            axes.set_ylim(bottom=0, top=1.08 * (max(max(series.y) for series in figure.series) or 1))
        for axis, logarithmic in ((axes.xaxis, figure.log_x), (axes.yaxis, figure.log_y)):
            if logarithmic:
                axis.set_minor_locator(NullLocator())
                axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.grid(alpha=0.3)
        axes.legend()
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def _joined(several: Sequence[Series]) -> list[tuple[int, Series]]:
    """Each set of points once, with the number of the first series that has them and the labels of all."""
    found: dict[tuple[bool, tuple[float, ...], tuple[float, ...]], tuple[int, Series]] = {}
    for number, series in enumerate(several):
        points = (series.from_document, tuple(series.x), tuple(series.y))
        first, joint = found.get(points, (number, series))
        label = series.label if first == number else f"{joint.label} and {series.label}"
        found[points] = (first, dataclasses.replace(joint, label=label))
    return list(found.values())


def _page(documents: Mapping[str, Sequence[Result]], pictures: Mapping[str, Mapping[str, str]], quick: bool) -> Iterator[str]:
    results = [result for found in documents.values() for result in found]
    count = Counter(result.measured.verdict for result in results)
    verdicts = ", ".join(f"{verdict}: {count[verdict]}" for verdict in VERDICTS if count[verdict] or verdict != OPEN)
    names = ", ".join(f"<code>{name}</code>" for name in documents)
    title = " ".join(documents) if len(documents) == 1 else "all documents"
    yield f"<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n<title>plainchant reproduce: {title}</title>"
    yield f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>Reproduction of {names}</h1>"
    yield f"<p>{len(results)} claims ({verdicts}). {'Smaller sweeps (--quick).' if quick else 'Full sweeps.'}</p>"
    yield "<table class='claims'>\n<tr><th></th><th>section</th><th>claim</th><th>measured</th><th>verdict, and why</th></tr>"
    for name, found in documents.items():
        if len(documents) > 1:
            yield f"<tr><th colspan='5'><code>{name}</code> (paper {found[0].claim.paper})</th></tr>"
        yield from map(_row, found)
    yield "</table>"
    for name, found in documents.items():
        for result in found:
            for shown in [*(figure.name for figure in result.measured.figures), *(one.name for one in result.measured.pictures)]:
                svg = pictures[name][shown]
                yield f"<figure>{svg[svg.index('<svg') :]}<figcaption>Claim {result.claim.number}</figcaption></figure>"
            for table in result.measured.tables:
                yield from _table(table, result.claim.number)
    yield "</body>\n</html>"


def _row(result: Result) -> str:
    claim, measured = result.claim, result.measured
    news = "" if result.as_expected else f" <strong>(on record: {claim.expected})</strong>"
    return (
        f"<tr id='claim-{claim.number}'><td>{claim.number}</td><td>{escape(claim.section)}</td>"
        f"<td>{escape(claim.claim)}<br><span class='how'>{escape(claim.how)}</span></td><td>{escape(measured.measured)}</td>"
        f"<td><span class='verdict' style='color: {_COLOURS[measured.verdict]}'>{measured.verdict}</span>{news}: "
        f"{escape(measured.why)}</td></tr>"
    )


def _table(table: Table, number: int) -> Iterator[str]:
    yield f"<table class='numbers'>\n<caption>Claim {number}: {escape(table.title)}</caption>"
    yield "<tr>" + "".join(f"<th>{escape(name)}</th>" for name in table.columns) + "</tr>"
    for row in table.rows:
        yield "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>"
    yield "</table>"
