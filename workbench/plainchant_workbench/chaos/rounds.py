"""One round, from the start of its processes to its verdict.

Theory of operation
-------------------
A round is an ordinary live scenario (:func:`~..supervisor.supervise`) with a
:class:`~.figures.Sampler` that watches. When all is over, its spools are collected and these questions are asked; whatever the
answer to one of them is, the others are asked too:

- did every process end as somebody meant it to, and did nobody hang (:attr:`Result.problems` says where it was)?
- did a member survive? Else nothing was checked;
- did no engine raise? A protocol may halt a process, with a reason; an exception is none.
- did whoever halted because its trace could not be written have a full disk?
- is the trace well formed, and were all promises kept?
- was every message that was accepted of a survivor delivered exactly once (:mod:`plainchant.lab.properties.accepted`)?
- does nothing grow, and is nothing left in common memory on a node where somebody ended in good order?

A round without a problem leaves nothing behind. One with a problem is kept: the trace, the scenario with every fault that
happened, the summary, the complaints of its processes and the command that runs it again.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from plainchant.core.names import place_of
from plainchant.lab.live.crew import COMPLAINTS
from plainchant.lab.live.supervisor import LiveSummary, supervise
from plainchant.lab.properties import Verification, verify
from plainchant.lab.properties.accepted import AcceptedOnce, accepted_once
from plainchant.protocols.registry import describe
from plainchant.scenario import Scenario, dump
from plainchant.trace import read
from plainchant.trace.collect import collect
from plainchant.trace.validation import validate

from .figures import EVERY, Figure, Sampler
from .plan import Round

SAMPLES: Final = 120
"""Of a process that lives for all of a round, unless that is too often."""
SOONEST: Final = 0.05
MOST_PROBLEMS: Final = 10
"""Of one kind are told."""
_FRAMES: Final = 4
"""Lines of the stacks of a process that hangs that are told."""
_FULL: Final = "cannot write the spool"
Verify = Callable[[Path, pa.Table], Verification]


def by_reference(trace: Path, table: pa.Table) -> Verification:
    """Verifies with the reference verifier, in this process."""
    return verify(table)


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What a round came to."""

    round: Round
    scenario: Scenario
    summary: LiveSummary
    events: dict[str, int]
    """Rows of the trace, by kind."""
    verification: Verification | None
    """None: the trace is malformed."""
    accepted: AcceptedOnce
    figures: tuple[Figure, ...]
    problems: tuple[str, ...]
    halts: dict[str, int]
    """Why protocols halted processes, by the reasons' codes."""
    seconds: float
    """That all of it took."""

    @property
    def is_well(self) -> bool:
        return not self.problems

    @property
    def watched(self) -> int:
        """Processes that lived for long enough to be asked whether they grow."""
        return len({figure.process for figure in self.figures if figure.trend is not None and figure.name == "files"})

    def to_json(self) -> dict[str, Any]:
        return {
            "round": self.round.name,
            "protocol": self.round.protocol,
            "seed": self.round.seed,
            "again": self.round.command,
            "seconds_of_traffic": self.round.seconds,
            "seconds": round(self.seconds, 1),
            "faults": dict(Counter(fault.kind for fault in self.summary.faults)),
            "skipped": len(self.summary.skipped),
            "processes": dict(Counter(end.state for end in self.summary.processes.values())),
            "halts": self.halts,
            "events": self.events,
            "verdict": self.verification.verdict if self.verification is not None else "malformed",
            "cases": {name: found.cases for name, found in self.verification.properties.items()} if self.verification else {},
            "accepted": {
                "verdict": self.accepted.verdict,
                "survivors": self.accepted.survivors,
                "messages": self.accepted.accepted,
                "deliveries": self.accepted.deliveries,
                "violations": self.accepted.count,
            },
            "watched": self.watched,
            "figures": [figure.to_json() for figure in self.figures if figure.trend is not None],
            "problems": list(self.problems),
        }


def run_round(
    each: Round,
    directory: Path,
    *,
    verify: Verify = by_reference,
    progress: Callable[[str], None] = lambda text: None,
) -> Result:
    """Runs a round in a new directory, which is gone afterwards if all is well, or if the round does not come to its end."""
    directory.mkdir(parents=True)
    try:
        return _run(each, directory, verify, progress)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _run(each: Round, directory: Path, verify: Verify, progress: Callable[[str], None]) -> Result:
    began = time.monotonic()
    scenario = each.scenario()
    sampler = Sampler(min(EVERY, max(SOONEST, each.seconds / SAMPLES)))
    spools = directory / "spools"
    given = scenario_parameters(scenario)
    summary = supervise(scenario, spools, given=given, progress=lambda text: progress(f"{each.name}: {text}"), watch=sampler)
    progress(f"{each.name}: verifying")
    collected = collect([spools], directory, alive=())
    found = read(directory / "trace")
    malformed = validate(found.table, found.files)
    verification = None if malformed else verify(directory / "trace", found.table)
    accepted = accepted_once(found.table) if not malformed else AcceptedOnce()
    figures = tuple(sampler.figures())
    halts, raised = _halts(found.table)
    problems = [
        *_of_processes(summary),
        *raised,
        *_of_survivors(accepted, halts),
        *_of_disks(summary),
        *_few(f"the trace is malformed: {problem}" for problem in malformed),
        *_few(str(violation) for violation in (verification.violations if verification is not None else ())),
        *_few(str(violation) for violation in accepted.violations),
        *_few(_growth(figure) for figure in figures if figure.grows),
        *_of_memory(scenario, summary),
    ]
    result = Result(
        each,
        scenario,
        summary,
        dict(collected.events),
        verification,
        accepted,
        figures,
        tuple(problems),
        halts,
        time.monotonic() - began,
    )
    if result.is_well:
        shutil.rmtree(directory)
    else:
        _keep(result, directory)
    return result


def scenario_parameters(scenario: Scenario) -> frozenset[str]:
    """The parameters that a diet gives; the protocol fits the others to the machine."""
    defaults = dataclasses.asdict(describe(scenario.protocol).parameters())
    return frozenset(name for name, value in scenario.parameters.items() if value != defaults[name])


def _few(problems: Any) -> list[str]:
    found = list(problems)
    more = len(found) - MOST_PROBLEMS
    return found[:MOST_PROBLEMS] + ([f"and {more:,} more like these"] if more > 0 else [])


def _of_processes(summary: LiveSummary) -> list[str]:
    problems = [f"{name} {text}" for name, text in summary.unexpected.items()]
    if not summary.quiet:
        problems += [f"{name} is not quiet: {text}" for name, text in summary.not_quiet.items()] or ["the run did not get quiet"]
    return problems + [f"{name} hangs: {_innermost(text)}" for name, text in summary.stuck.items()]


def _innermost(stacks: str) -> str:
    """Where it is; the rest of what it told is in the summary."""
    frames = [line.strip() for line in stacks.splitlines() if line.strip()]
    return " < ".join(frames[:_FRAMES]) + (" < ... (summary.json has the rest)" if len(frames) > _FRAMES else "")


def _halts(table: pa.Table) -> tuple[dict[str, int], list[str]]:
    """Why protocols halted processes, and those among them that are defects: the engine raised."""
    codes: Counter[str] = Counter()
    raised: list[str] = []
    rows = table.filter(pc.equal(table["kind"], "crash")).select(["process", "detail"]).to_pylist()
    for row in rows:
        detail = json.loads(row["detail"] or "{}")
        if detail.get("by") == "protocol":
            codes[str(detail.get("reason"))] += 1
            if detail.get("reason") in ("exception", "transport"):
                raised.append(f"{row['process']} was halted by a defect: {detail.get('text')}")
    return dict(codes), raised


def _of_survivors(accepted: AcceptedOnce, halts: dict[str, int]) -> list[str]:
    """A round that no member survives checks nothing, so it is never well."""
    if accepted.survivors:
        return []
    why = ", ".join(f"{code} ({count})" for code, count in sorted(halts.items())) or "none"
    return [f"no member survived, so nothing could be checked; reasons of halts: {why}"]


def _of_disks(summary: LiveSummary) -> list[str]:
    """Only who has a full disk stops because its trace cannot be written."""
    full = {fault.process for fault in summary.faults if fault.kind == "disk"}
    return [
        f"{name} could not write its trace, and its disk was not full: {end.reason}"
        for name, end in summary.processes.items()
        if end.reason.startswith(_FULL) and place_of(name) not in full
    ]


def _of_memory(scenario: Scenario, summary: LiveSummary) -> list[str]:
    """Who ends in good order as the last one leaves nothing; who is killed may."""
    description = describe(scenario.protocol)
    node_of = description.placement.node_of
    parameters = description.parameters(**scenario.parameters)
    orderly = {
        node_of(parameters, name) if node_of is not None else ""
        for name, end in summary.processes.items()
        if end.state == "alive"
    }
    return [
        f"{number} files are left in common memory{f' of node {node}' if node else ''}"
        for node, number in summary.left.items()
        if node in orderly
    ]


def _growth(figure: Figure) -> str:
    assert figure.trend is not None
    return (
        f"{figure.name} of {figure.process} grow: by {figure.trend.growth:,.0f} to {figure.last:,.0f} in the last "
        f"{figure.trend.samples} samples ({figure.trend.certainty:.1f} standard deviations; less than {figure.trend.floor:,.0f} "
        "would be allowed)"
    )


def _keep(result: Result, directory: Path) -> None:
    """What a person needs to find out what went wrong."""
    spools = directory / "spools"
    (spools / COMPLAINTS).rename(directory / COMPLAINTS)
    shutil.rmtree(spools)
    used = dataclasses.replace(result.scenario, parameters=result.summary.parameters)
    (directory / "scenario.toml").write_text(f"# Again: {result.round.command}\n" + dump(used), encoding="utf-8")
    text = json.dumps({**result.to_json(), "run": result.summary.to_dict()}, indent=2, ensure_ascii=False)
    (directory / "summary.json").write_text(text + "\n", encoding="utf-8")


def own_files() -> int:
    """The open files of this process, which starts and watches all others."""
    return len(os.listdir("/proc/self/fd"))
