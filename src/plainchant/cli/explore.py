"""``plainchant explore``: every run of a small case of a protocol on shared memory that its bounds allow."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit

from ..core.model import UsageError
from ..lab.explore.checks import PROMISES
from ..lab.explore.search import Result, replay
from ..lab.explore.search import explore as search
from ..lab.explore.story import timeline, write
from ..protocols import registry
from ..protocols.exploration import Case, Exploration
from .console import EXIT_UNEXPECTED, guarded
from .options import JsonOption, option
from .output import json_text, refuse_occupied, staged

_PROGRESS_SECONDS = 5.0


@guarded
def explore(
    protocol: Annotated[str, Argument(help="The protocol, such as mailbox.")],
    receivers: Annotated[int, option("Processes that receive: r1, r2, ...", min=1, max=9)] = 2,
    senders: Annotated[int, option("Processes that send: s1, s2, ...", min=1, max=9)] = 1,
    both: Annotated[bool, option("The first receivers send; nobody only sends.", "--both")] = False,
    copies: Annotated[int, option("Copies of the mailbox, each in a module of its own.", min=1, max=9)] = 2,
    tolerate: Annotated[str, option("The first protocol (crash) or the second (timing).")] = "crash",
    messages: Annotated[int, option("Messages that each sender sends.", min=1)] = 1,
    crashes: Annotated[int, option("Processes that may crash.", min=0)] = 1,
    modules: Annotated[int | None, option("Modules that may crash; all but one, unless given.", min=0)] = None,
    failures: Annotated[
        int | None,
        option(
            "Of the crashes, how many may be receivers'; unless given, any, or, of the second protocol, what it tolerates.", min=0
        ),
    ] = None,
    early: Annotated[list[str] | None, option("This process's clock is so far ahead; may be repeated.", of="NAME=UNITS")] = None,
    late: Annotated[
        list[str] | None, option("This process may stop once for so long, anywhere; may be repeated.", of="NAME=UNITS")
    ] = None,
    rules: Annotated[
        list[str] | None, option("Change a rule of the protocol, such as extra=printed; may be repeated.", of="RULE=VALUE")
    ] = None,
    settings: Annotated[
        list[str] | None, option("A bound or another number of the protocol, such as decide=10.", "--set", of="NAME=UNITS")
    ] = None,
    detections: Annotated[
        list[int] | None,
        option(
            "How long after a crash all are told; each is tried.", "--detection", of="UNITS", show_default="1, delivery bound"
        ),
    ] = None,
    phases: Annotated[
        list[int] | None,
        option(
            "When sends begin, from the last moment that is early enough for a look; each is tried.",
            "--phase",
            of="UNITS",
            show_default="0, 1",
        ),
    ] = None,
    vary: Annotated[
        list[str] | None,
        option(
            "Only such operations take nothing or their whole bound; the others take it all. May be repeated.",
            of="OPERATION",
            show_default="all",
        ),
    ] = None,
    strike: Annotated[
        list[str] | None,
        option("Things go wrong only before such operations. May be repeated.", of="OPERATION", show_default="all"),
    ] = None,
    limit: Annotated[int, option("States at the most.", min=1)] = 1_000_000,
    probes: Annotated[int, option("Runs that are drawn first, to find at once what breaks easily.", min=0)] = 2_000,
    random: Annotated[int, option("Runs that are drawn if the limit is reached.", min=0)] = 0,
    seed: Annotated[int, option("What drawn runs are drawn with.")] = 0,
    promise: Annotated[str, option("Look for a run that breaks this promise, whatever others it breaks.")] = "",
    as_json: JsonOption = False,
    trace: Annotated[Path | None, option("New directory for the trace of a run that breaks a promise.", of="DIR")] = None,
) -> None:
    """Try every run of a small case that the bounds allow: every crash, every order, shortest and longest operations.

    The protocol's own code runs, in whole units of time. Operations take nothing or their whole bound, clocks are ahead by
    nothing or by the skew, and just before each operation has its effect its process or its module may crash, as long as there
    are crashes left. In every run: consensus, validity, order, bounded times, that it ends, and that nothing is left in the
    memory. If a run breaks a promise, the smallest that was found is shown, and the status is 1.

    Examples:

      plainchant explore mailbox --receivers 2 --senders 1 --copies 2
      plainchant explore mailbox --rules extra=printed --trace overtaken
      plainchant explore mailbox --tolerate timing --receivers 3 --early r1=70 --crashes 0
    """
    exploration = _exploration(protocol)
    if promise and promise not in PROMISES:
        raise UsageError(f"there is no promise {promise!r}; there are: {', '.join(PROMISES)}")
    if trace is not None:
        refuse_occupied(trace)
    chosen: dict[str, Any] = {"modules": modules, "failures": failures}
    chosen |= {"detections": tuple(detections or ()) or None, "phases": tuple(phases or ()) or None}
    case = exploration.case(
        receivers=receivers,
        senders=senders,
        both=both,
        rules=_rules(rules or (), exploration),
        parameters={"copies": copies, "tolerate": tolerate, **_numbers(settings or (), "--set", exploration)},
        crashes=crashes,
        early=_numbers(early or (), "--early", exploration),
        late=_numbers(late or (), "--late", exploration),
        messages=messages,
        varied=frozenset(vary or ()),
        struck=frozenset(strike or ()),
        **{name: value for name, value in chosen.items() if value is not None},
    )
    found = search(case, limit=limit, probes=probes, random=random, seed=seed, promise=promise, progress=_progress())
    lines = []
    if found.violation is not None:
        world, _ = replay(found)
        lines = list(timeline(world))
        if trace is not None:
            from ..trace import TraceWriter

            with staged(trace) as directory, TraceWriter(directory) as writer:
                write(world, writer)
    if as_json:
        counts = ("states", "branches", "runs", "transitions", "deepest", "sampled", "complete", "faults")
        document: dict[str, Any] = {name: getattr(found, name) for name in counts}
        document["seconds"] = round(found.seconds, 3)
        document["violation"] = None if found.violation is None else dataclasses.asdict(found.violation)
        print(json_text({**document, "timeline": lines}), end="")
    else:
        _tell(case, found, lines)
    if found.violation is not None:
        raise Exit(EXIT_UNEXPECTED)


def _exploration(protocol: str) -> Exploration:
    known = registry.protocols()
    explored = [name for name, description in known.items() if description.exploration is not None]
    description = known.get(protocol)
    if description is None or description.exploration is None:
        raise UsageError(f"{protocol!r} cannot be explored; protocols that can be: {', '.join(explored)}")
    return description.exploration()


def _numbers(pairs: Sequence[str], option: str, exploration: Exploration) -> dict[str, int]:
    numbers = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not value.isdigit():
            like = f"such as {next(iter(exploration.units))}=2"
            raise UsageError(f"{option} {pair}: write a name, =, and a whole number of units, {like}")
        numbers[name] = int(value)
    return numbers


def _rules(pairs: Sequence[str], exploration: Exploration) -> dict[str, Any]:
    """Rules by their names, each with one of its values."""
    known = exploration.rules
    rules: dict[str, Any] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        values = known.get(name)
        if values is None:
            raise UsageError(f"--rules {pair}: there is no rule {name!r}; there are: {', '.join(known)}")
        if value not in values:
            raise UsageError(f"--rules {pair}: {name} is one of: {', '.join(values)}")
        rules[name] = values[value]
    return rules


def _progress() -> Callable[[int, int], None]:
    last = time.monotonic()

    def tell(states: int, branches: int) -> None:
        nonlocal last
        if time.monotonic() - last > _PROGRESS_SECONDS:
            last = time.monotonic()
            print(f"{states:,} states, {branches:,} branches so far", file=sys.stderr)

    return tell


def _tell(case: Case, found: Result, lines: list[str]) -> None:
    names = f"{', '.join(case.receivers)} receive, {', '.join(case.senders)} send, {case.copies} copies"
    print(f"{names}; bounds: Send {case.bounds['send']}, delivery {case.bounds['deliver']}")
    if found.states:
        states = f"{found.states:,} states, {found.transitions:,} transitions, {found.branches:,} branches"
        print(f"{states}, {found.runs:,} whole runs; the longest has {found.deepest} events; {found.seconds:.1f} s")
    if found.sampled:
        print(f"{found.sampled:,} runs were drawn")
    if found.violation is not None:
        faults = "1 fault that was" if found.faults == 1 else f"{found.faults} faults that were"
        print(f"\nBroken: {found.violation.promise}. {found.violation.text}. The run, with {faults} chosen:\n")
        print("\n".join(lines))
    elif found.complete:
        print("everything was tried; no promise is broken")
    else:
        print("no promise is broken, but not everything was tried; raise --limit")
