"""What is run, and how it is made into a digest."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from plainchant.core.model import PlainchantError
from plainchant.lab.draw.diagram import diagram
from plainchant.lab.draw.timing import timing_diagram
from plainchant.lab.explain.explainer import Explainer
from plainchant.lab.properties import verify
from plainchant.lab.show import lines
from plainchant.scenario import dump, load
from plainchant.scenario.shipped import shipped
from plainchant.sim import Simulation
from plainchant.trace import TraceBuffer

PATH: Final = Path(__file__).with_name("digests.toml")
SWEEPS: Final = {
    "sequencer": ("tests.protocols.sequencer.sweep", range(300)),
    "newtop": ("tests.protocols.newtop.sweep", range(200)),
    "newtop-membership": ("tests.protocols.newtop.membership_sweep", range(200)),
    "rtcast": ("tests.protocols.rtcast.sweep", range(200)),
    "mailbox": ("tests.protocols.mailbox.sweep", range(300)),
    "dedos": ("tests.protocols.dedos.sweep", range(300)),
    "blocks": ("tests.blocks.sweep", range(60)),
}
"""The sweeps, and which of their seeds are compared."""
LENGTH: Final = 12
"""Digits of a digest."""
MOST_EXPLAINED: Final = 40
"""Messages of a shipped scenario whose explanation is part of its digest."""
MOST_ROWS: Final = 60_000
"""A larger trace is not verified or explained here: others of the same protocol are."""


def cases() -> list[str]:
    """The names of everything that has a digest."""
    seeds = [f"{sweep}/{seed}" for sweep, (_, chosen) in SWEEPS.items() for seed in chosen]
    return [*(f"scenario/{name}" for name in sorted(shipped())), *seeds]


def digest(case: str) -> str:
    """Runs a case and gives its digest."""
    kind, _, name = case.partition("/")
    parts = _shipped(name) if kind == "scenario" else _swept(SWEEPS[kind][0], int(name))
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part if isinstance(part, bytes) else part.encode())
        whole.update(b"\0")
    return whole.hexdigest()[:LENGTH]


def _swept(module: str, seed: int) -> Iterator[str | bytes]:
    outcome = importlib.import_module(module).run(seed)
    if module == "tests.blocks.sweep":  # programs: the seed is all there is of their scenario
        result = outcome.result
        table = result.trace
    else:
        yield dump(outcome.scenario)
        result = outcome
        table = outcome.table
    yield _as_text(result.summary.to_dict())
    yield from _rows(table)
    yield _as_text(result.verification.to_json())
    yield _as_text(sorted(outcome.violated))


def _shipped(name: str) -> Iterator[str | bytes]:
    scenario = load(shipped()[name])
    yield dump(scenario)
    trace = TraceBuffer()
    yield _as_text(Simulation(scenario, trace=trace, run=name, accept_rows=True).run().to_dict())
    table = trace.table()
    yield from _rows(table)
    if table.num_rows <= MOST_ROWS:
        yield _as_text(verify(table, scenario.verify or None).to_json())
        yield from lines(table)
        yield from _told(table)


def _told(table: pa.Table) -> Iterator[str]:
    """What people are told of a run."""
    explainer = Explainer(table)
    seen: dict[str, dict[Any, None]] = {"message": {}, "view": {}, "process": {}}
    for row in table.select(["kind", "process", "group", "sender", "seq", "view"]).to_pylist():
        if row["kind"] == "send":
            seen["message"][row["group"], row["sender"], row["seq"]] = None
        elif row["kind"] == "view":
            seen["view"][row["group"], row["view"], row["process"]] = None
        seen["process"][row["process"]] = None
    step = max(1, len(seen["message"]) // MOST_EXPLAINED)
    for message in islice(seen["message"], 0, None, step):
        yield _attempt(lambda: _as_text(explainer.message(message).to_json()))  # noqa: B023
    for view in islice(seen["view"], MOST_EXPLAINED):
        yield _attempt(lambda: _as_text(explainer.view(*view).to_json()))  # noqa: B023
    for process in seen["process"]:
        yield _attempt(lambda: _as_text(explainer.process(process).to_json()))  # noqa: B023
    yield _attempt(lambda: diagram(table))
    yield _attempt(lambda: diagram(table, nulls=True, messages=5))
    yield _attempt(lambda: timing_diagram(table))


def _attempt(tell: Callable[[], str]) -> str:
    """What is told, or the sentence that says why nothing can be."""
    try:
        return tell()
    except PlainchantError as error:
        return f"{type(error).__name__}: {error}"


def _rows(table: pa.Table) -> Iterator[bytes]:
    """The trace's rows as text, column by column, whatever way they lie in memory."""
    for name in table.column_names:
        yield name.encode()
        yield _as_text(table.column(name).to_pylist()).encode()


def _as_text(value: Any) -> str:
    return json.dumps(value, default=str, sort_keys=True, ensure_ascii=False)


__all__ = ["PATH", "SWEEPS", "cases", "digest"]
