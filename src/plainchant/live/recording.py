"""What records a process: its spool on disk, the page that shows it, or both.

The page is not part of the library: the laboratory provides it as the entry point ``watch`` of the group ``plainchant.pages``
(:mod:`plainchant.core.plugins`), a function ``make(place, address)`` that returns a :class:`Page`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..core.model import TraceError
from ..core.plugins import load

if TYPE_CHECKING:
    from ..trace.spool import Spool

PAGES: Final = "plainchant.pages"
WATCH: Final = "watch"


class Page(Protocol):
    """A page in the browser that shows what one node does."""

    async def open(self) -> None:
        """Begins to serve."""

    async def close(self) -> None: ...
    @property
    def url(self) -> str: ...

    def tap(self, run: str, process: str, start: dict[str, Any], spool: Spool | None) -> Spool:
        """What the host records with; it passes everything on to ``spool``, if there is one."""


class Recording:
    """The records of the process at a place. ``trace`` is the directory of its spool, ``watch`` the address of its page."""

    def __init__(self, place: str, *, trace: str | Path | None, run: str | None, watch: str | None) -> None:
        self._place, self._trace, self._run, self._watch = place, trace, run, watch
        self.page: Page | None = None

    @property
    def is_wanted(self) -> bool:
        return self._trace is not None or self.page is not None

    def check(self) -> None:
        """Fails if the spool cannot be written: before other processes count on this one."""
        if self._trace is None:
            return
        directory = Path(self._trace)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            problem = "" if os.access(directory, os.W_OK | os.X_OK) else "it may not be written"
        except OSError as error:
            problem = error.strerror or str(error)
        if problem:
            raise TraceError(f"cannot write a trace to {directory}: {problem}; choose another directory")

    async def open(self) -> None:
        """Serves the page, if one is wanted."""
        if self._watch is not None:
            make = load(PAGES, WATCH, "watch= needs", "observe")
            page: Page = make(self._place, self._watch)
            self.page = page
            await page.open()

    def begin(self, name: str, start: dict[str, Any], time: int) -> Spool | None:
        """What the process of that name records with; ``start`` describes it."""
        spool = None
        run = self._run
        if self._trace is not None:
            from ..trace.spool import Spool, next_run  # brings Arrow, which a process without a trace does not need

            run = run if run is not None else next_run(self._trace, name)
            spool = Spool(self._trace, run=run, process=name, start=start, time=time)
        return self.page.tap(run or "now", name, start, spool) if self.page is not None else spool

    async def close(self) -> None:
        """Closes the page; the host closes the spool."""
        if self.page is not None:
            await self.page.close()
