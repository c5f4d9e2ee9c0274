"""Running a scenario for a command: simulate, write the trace, verify, judge.

A run with an output directory writes its trace there; one without keeps it in memory, and only as long as it is small
enough to be verified. The verdict compares what was found with what the scenario expects.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow as pa

from .. import __version__
from ..core.model import format_duration
from ..lab.properties import Verification, verify
from ..scenario import Scenario, dump
from ..sim import Simulation, Summary
from ..trace import TraceBuffer, TraceWriter, read
from .console import terminal
from .options import option
from .output import json_text

VERIFY_UP_TO: Final = 200_000
"""Events that are verified at once without being asked to: some seconds' work for the reference verifier."""
_HEADER: Final = "# Complete: every value that decided this run. It replays with: plainchant run scenario.toml\n"
VerifyOption = Annotated[
    bool | None, option(f"Check the promised properties (by default up to {VERIFY_UP_TO:,} events).", "--verify/--no-verify")
]


def headline(command: str, scenario: Scenario, as_expected: bool | None, events: int) -> dict[str, Any]:
    """The first keys of the JSON of a run: which run it was, and whether it was as expected."""
    return {
        "plainchant": __version__,
        "command": command,
        "scenario": scenario.name,
        "protocol": scenario.protocol,
        "seed": scenario.seed,
        "expect": scenario.expect,
        "as_expected": as_expected,
        "trace_events": events,
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What a run came to."""

    scenario: Scenario
    summary: Summary
    events: int
    """Rows in the trace."""
    table: pa.Table | None
    """The trace, where it was small enough to look at."""
    verification: Verification | None

    @property
    def restless(self) -> bool:
        """The run was to be drained and did not get quiet."""
        return bool(self.scenario.drain) and not self.summary.quiet

    @property
    def as_expected(self) -> bool | None:
        """None: nothing was verified, and nobody can tell. A run that did not get quiet never holds, verified or not."""
        if self.scenario.expect == "holds" and self.restless:
            return False
        if self.verification is None:
            return None
        wanted = "violated" if self.scenario.expect == "violation" else "holds"
        return self.verification.verdict == wanted

    @property
    def passes(self) -> bool:
        """Whether the command succeeds. A violation that is to be shown must be found; holding is not doubted unasked."""
        return self.scenario.expect == "holds" if self.as_expected is None else self.as_expected

    def to_json(self, command: str) -> dict[str, Any]:
        return {
            **headline(command, self.scenario, self.as_expected, self.events),
            "run": self.summary.to_dict(),
            "verification": self.verification.to_json() if self.verification is not None else None,
        }


def execute(scenario: Scenario, directory: Path | None = None, *, verify_it: bool | None = None, command: str = "run") -> Result:
    """Runs a scenario; with a directory, writes trace, scenario and summary into it.

    ``verify_it``: None verifies runs that are small enough, True all, False none.
    """
    trace = _Kept(limit=None if verify_it else VERIFY_UP_TO) if directory is None else _Written(directory)
    try:
        with _progress(trace, scenario) as progress:
            summary = Simulation(scenario, trace=trace, progress=progress).run()
            trace.finish()
    except BaseException:
        trace.abort()
        raise
    wanted = verify_it if verify_it is not None else trace.events <= VERIFY_UP_TO
    table = None
    if wanted or trace.events <= VERIFY_UP_TO:
        table = read(directory / "trace").table if directory is not None else trace.table()
    verification = verify(table, scenario.verify or None) if wanted and table is not None else None
    result = Result(scenario, summary, trace.events, table, verification)
    if directory is not None:
        (directory / "scenario.toml").write_text(_HEADER + dump(scenario))
        (directory / "summary.json").write_text(json_text(result.to_json(command)), encoding="utf-8")
    return result


class _Watched(TraceBuffer):
    """A trace that knows how many events it has had."""

    events = 0

    def flush_if_full(self) -> None:
        self._count()
        super().flush_if_full()

    def finish(self) -> None:
        self._count()
        self.close()

    def _count(self) -> None:
        self.events = sum(history.first + len(history.rows) for history in self._histories.values())


class _Kept(_Watched):
    """In memory; beyond the limit nothing can be done with it any more, and it is forgotten as it comes."""

    def __init__(self, limit: int | None) -> None:
        super().__init__()
        self._limit = limit

    def flush_if_full(self) -> None:
        super().flush_if_full()
        if self._limit is not None and self.events > self._limit:
            for history in self._histories.values():
                history.first += len(history.rows)
                history.rows.clear()
                history.packets.clear()


class _Written(_Watched, TraceWriter):
    """In files."""


@contextmanager
def _progress(trace: _Watched, scenario: Scenario) -> Iterator[Callable[[int], None] | None]:
    """A status line, on a terminal only."""
    console = terminal()
    if console is None:
        yield None
        return
    with console.status("running") as status:

        def tell(now: int) -> None:
            done = min(now, scenario.duration) / scenario.duration
            draining = ", getting quiet" if now > scenario.duration else ""
            status.update(f"{done:.0%} of {format_duration(scenario.duration)}, {trace.events:,} events{draining}")

        yield tell
