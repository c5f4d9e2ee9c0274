"""Files that come with plainchant beside its modules: scenarios and documentation pages.

In a checkout they lie at the top, where people look for them; ``setup.py`` puts the same files into the wheel, inside the
package.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_PAGE: Final = re.compile(r"\bdocs/([a-z-]+\.md)\b")


def shipped_folder(name: str) -> Path:
    """Where the files of ``scenarios`` or ``docs`` are.

    >>> (shipped_folder("scenarios") / "first-steps.toml").exists()
    True
    """
    package = Path(__file__).resolve().parent.parent
    checkout = package.parent.parent / name
    return checkout if package.parent.name == "src" and checkout.is_dir() else package / name


def with_pages(text: str) -> str:
    """A text for people, in which pages of the documentation (``docs/trace.md``) are named by where they are on this machine."""

    def path(found: re.Match[str]) -> str:
        page = shipped_folder("docs") / found[1]
        here = Path.cwd()
        return str(page.relative_to(here) if page.is_relative_to(here) else page)

    return _PAGE.sub(path, text)
