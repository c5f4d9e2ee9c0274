"""``plainchant live``: a scenario with real processes on this machine, its faults made for real, its trace verified."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from typer import Exit

from ..core.model import format_duration, parse_duration
from ..lab.live.crew import COMPLAINTS
from ..lab.live.supervisor import DRAIN_AT_MOST, LiveSummary, supervise
from ..lab.properties import Verification, verify
from ..scenario import Scenario, dump, find, load
from ..scenario.load import apply_option, parse_document
from ..trace import read
from ..trace.collect import CollectSummary, collect
from ..trace.validation import validate
from .console import EXIT_UNEXPECTED, complain, guarded, moving_line, output, plain_table, print_some
from .options import ScenarioArgument, SetOption, option
from .output import json_text, staged
from .run import count_words, tell_restless, tell_verification
from .running import VERIFY_UP_TO, VerifyOption, headline

_HEADER: Final = (
    "# The scenario of a live run, with the parameters that its processes worked with. Again: plainchant live scenario.toml\n"
)
_SHOWN: Final = 10
"""So many processes that halted, and faults that were skipped, are told; the others are counted."""


@dataclasses.dataclass(frozen=True, slots=True)
class LiveResult:
    """What a live run came to."""

    scenario: Scenario
    summary: LiveSummary
    collected: CollectSummary
    packets: int
    """Sent, by all processes; one to many is one."""
    verification: Verification | None
    malformed: tuple[str, ...]
    """What is wrong with the trace itself: a defect of ours."""

    @property
    def events(self) -> int:
        """Rows in the trace."""
        return sum(self.collected.events.values())

    @property
    def restless(self) -> bool:
        """The run was to be drained and did not get quiet."""
        return self.summary.drained and not self.summary.quiet

    @property
    def as_expected(self) -> bool | None:
        """None: nothing was verified, and nobody can tell. Whether a violation shows itself live is chance: both will do."""
        if self.summary.unexpected or self.malformed:
            return False
        if self.scenario.expect == "violation":
            return True
        if self.restless:
            return False
        return None if self.verification is None else self.verification.verdict == "holds"

    @property
    def passes(self) -> bool:
        """Whether the command succeeds; holding is not doubted unasked."""
        return self.as_expected is not False

    def to_json(self) -> dict[str, Any]:
        messages = {f"messages_{word}": self.collected.events.get(kind, 0) for word, kind in _MESSAGES.items()}
        return {
            **headline("live", self.scenario, self.as_expected, self.events),
            "malformed": list(self.malformed),
            "run": {**self.summary.to_dict(), **messages, "packets_sent": self.packets},
            "verification": self.verification.to_json() if self.verification is not None else None,
        }


_MESSAGES: Final = {"accepted": "accept", "sent": "send", "delivered": "deliver"}


@guarded
def live(
    file: ScenarioArgument,
    seed: Annotated[int | None, option("Decides which random faults happen.", min=0)] = None,
    sets: SetOption = None,
    out: Annotated[Path | None, option("New directory for the trace, the scenario and the summary.")] = None,
    verify_it: VerifyOption = None,
    namespaces: Annotated[
        bool, option("A network namespace for each process; partitions are made by the kernel.", "--namespaces")
    ] = False,
    time_scale: Annotated[float, option("Stretch the times of senders and faults by this factor.", of="FACTOR")] = 1.0,
    drain_at_most: Annotated[
        str, option("Wait for quiet no longer than this, whatever the scenario says.", of="DURATION")
    ] = format_duration(DRAIN_AT_MOST),
    watch_at: Annotated[str | None, option("Serve a page here that shows the run as it goes.", "--watch", of="HOST:PORT")] = None,
    encrypted: Annotated[bool, option("Seal all packets, with a key made for the run.", "--encrypted")] = False,
    as_json: Annotated[bool, option("Print the summary as JSON.", "--json")] = False,
) -> None:
    """Run a scenario with real processes on this machine and verify what they did.

    Every member is a process of its own on loopback. Crashes are kill -9, pauses are SIGSTOP; loss, delay and the like happen
    in the processes' transports; partitions there too, or with --namespaces in the kernel.

    The exit status is 0 if all went well, 1 if a property was violated (where the scenario wants to show a violation, both are
    well: live, chance decides), the run did not get quiet or a process ended unexpectedly, 2 if the input was wrong.

    Examples:

      plainchant live first-steps
      plainchant live sequencer-crash --out crash
      plainchant live partition --namespaces
      plainchant live everything-at-once --seed 7 --time-scale 4
      plainchant live chaos --encrypted
    """
    overrides = [*(sets or ()), *([f"seed={seed}"] if seed is not None else ())]
    path = find(file)
    scenario = load(path, overrides)
    options = {"given": given_parameters(path, overrides), "namespaces": namespaces, "time_scale": time_scale}
    options |= {"drain_at_most": parse_duration(drain_at_most), "encrypted": encrypted}
    results = staged(out) if out is not None else tempfile.TemporaryDirectory(prefix="plainchant-live-")
    with results as directory, _watched(Path(directory, "spools"), watch_at):
        result = execute(scenario, Path(directory), verify_it=verify_it, options=options)
    if as_json:
        print(json_text(result.to_json()), end="")
    else:
        console = output()
        tell(result, console)
        if out is not None:
            console.print(f"\nWritten to {out}. Read it with: plainchant trace {out}", markup=False)
    if not result.passes:
        raise Exit(EXIT_UNEXPECTED)


@contextlib.contextmanager
def _watched(spools: Path, place: str | None) -> Iterator[None]:
    """The page of a run, with a live verdict, while the run goes on."""
    if place is None:
        yield
        return
    from ..lab.watch.server import served
    from ..lab.watch.sources import Spools
    from ..lab.watch.verdict import SparkVerdict

    verdict = SparkVerdict(None)
    verdict.start()
    try:
        with served(Spools(spools), place, verdicts=verdict) as page:
            complain(f"the page is at {page.url}; the run begins when Spark is there to judge it")
            verdict.wait()
            yield
    finally:
        verdict.stop()


def given_parameters(path: Path, overrides: Sequence[str]) -> frozenset[str]:
    """The protocol's parameters that a file and options name, whatever their values."""
    document = parse_document(path.read_text(encoding="utf-8"), str(path))
    for override in overrides:
        apply_option(document, override, {})
    parameters = document.get("parameters", {})
    return frozenset(parameters) if isinstance(parameters, dict) else frozenset()


def execute(
    scenario: Scenario, directory: Path, *, verify_it: bool | None = None, options: dict[str, Any] | None = None
) -> LiveResult:
    """Runs a scenario live; writes trace, scenario, summary, and the complaints of processes if one ended unexpectedly.

    ``verify_it``: None verifies runs that are small enough, True all, False none. ``options`` are those of ``supervise``.
    """
    spools = directory / "spools"
    with moving_line() as progress:
        summary = supervise(scenario, spools, progress=progress, **(options or {}))
        progress("collecting")
        collected = collect([spools], directory, alive=())
        if summary.unexpected:
            (spools / COMPLAINTS).rename(directory / COMPLAINTS)
        shutil.rmtree(spools)
        events = sum(collected.events.values())
        verification = None
        malformed: tuple[str, ...] = ()
        if verify_it if verify_it is not None else events <= VERIFY_UP_TO:
            progress("verifying")
            found = read(directory / "trace")
            malformed = tuple(str(problem) for problem in validate(found.table, found.files))
            verification = verify(found.table, scenario.verify or None) if not malformed else None
    files = sorted((directory / "trace").rglob("*.parquet"))
    packets = sum(pc.sum(pq.read_table(file, columns=["packets"]).column("packets")).as_py() or 0 for file in files)
    result = LiveResult(scenario, summary, collected, packets, verification, malformed)
    used = dataclasses.replace(scenario, parameters=summary.parameters)
    (directory / "scenario.toml").write_text(_HEADER + dump(used), encoding="utf-8")
    (directory / "summary.json").write_text(json_text(result.to_json()), encoding="utf-8")
    return result


def tell(result: LiveResult, console: Console) -> None:
    """The short account of a live run."""
    scenario, summary = result.scenario, result.summary
    events = result.collected.events
    states = Counter(end.state for end in summary.processes.values())
    facts = plain_table("", "")
    facts.add_row("scenario", f"{scenario.name} (seed {scenario.seed}), live")
    facts.add_row("protocol", scenario.protocol)
    facts.add_row("processes", count_words(states))
    facts.add_row("messages", ", ".join(f"{events.get(kind, 0):,} {word}" for word, kind in _MESSAGES.items()))
    facts.add_row("packets", f"{result.packets:,} sent, {summary.packets_lost:,} lost on purpose")
    if summary.faults:
        kinds = Counter(fault.kind for fault in summary.faults)
        made = "by network namespaces" if summary.partitions == "namespaces" else "in the transport"
        facts.add_row("faults", count_words(kinds) + (f" (partitions {made})" if "partition" in kinds else ""))
    traffic = format_duration(round(scenario.duration * summary.time_scale))
    facts.add_row("time", f"{traffic} of traffic, {summary.elapsed / 1e9:.3f} s in all")
    facts.add_row("events", f"{result.events:,} in the trace")
    if summary.not_applied:
        facts.add_row("not applied live", ", ".join(summary.not_applied))
    console.print(facts)
    lines = [f"{name} {text}" for name, text in summary.unexpected.items()]
    lines += [f"{name} halted: {end.reason}" for name, end in summary.processes.items() if end.state == "halted"]
    lines += [f"skipped: {fault.kind} at {format_duration(fault.at)}: {why}" for fault, why in summary.skipped]
    print_some(console, lines, _SHOWN)
    if states["halted"] and not states["alive"]:
        left = "Nobody was left: too many were lost at once. Live, it takes longer until somebody is missed; --time-scale 4"
        console.print(f"{left} gives the group four times as long between its faults.")
    if result.restless:
        tell_restless(summary.drain, summary.not_quiet, console)
    console.print()
    _tell_verdict(result, console)


def _tell_verdict(result: LiveResult, console: Console) -> None:
    if result.malformed:
        console.print("The trace is malformed, which is a defect of plainchant:")
        for problem in result.malformed[:_SHOWN]:
            console.print(f"  {problem}", markup=False)
    elif result.verification is None:
        more = f": {result.events:,} events are more than are checked without being asked ({VERIFY_UP_TO:,})"
        console.print(f"Not verified{more if result.events > VERIFY_UP_TO else ', as asked'}.")
    else:
        tell_verification(result.verification, console)
    if result.scenario.expect == "violation":
        found = result.verification is not None and result.verification.verdict == "violated"
        shown = "one was found" if found else "none was found this time"
        console.print(f"This scenario is meant to show a violation; live, chance decides: {shown}.")
