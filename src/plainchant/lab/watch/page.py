"""The page as one text: the report's style sheet and this page's own, the markup, the script. Nothing else is loaded.

The script is real JavaScript in a file beside this one, and so are markup and style. The policy that goes with the page allows
exactly these two texts, by their hashes, and connections to where it came from: whatever a trace may hold, it cannot become
code. (It is shown as text anyway: the script never makes markup of data.)
"""

from __future__ import annotations

import base64
import re
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Final

from ..report.style import STYLE

_DARK: Final = re.compile(r"@media \(prefers-color-scheme:dark\)\{:root\{(?P<values>[^}]*)\}\}")


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def style() -> str:
    """The style sheet: dark colours also where the person has chosen them, and not where it has chosen light ones."""
    dark = _DARK.search(STYLE)
    assert dark is not None, "the report's style sheet has no dark colours"
    values = dark["values"]
    chosen = (
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{values}}}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{values}}}\n:root[data-theme=light]{{color-scheme:light}}"
    )
    return _DARK.sub(lambda found: chosen, STYLE) + _file("page.css")


@cache
def script() -> str:
    return _file("page.js")


@cache
def page() -> str:
    """The page; it is the same for everybody, and asks for its data."""
    return _file("page.html").replace("/*STYLE*/", style()).replace("/*SCRIPT*/", script())


@cache
def policy() -> str:
    """The Content-Security-Policy of the page."""
    allowed = f"script-src {_hash(script())}; style-src {_hash(style())}; connect-src 'self'; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"
