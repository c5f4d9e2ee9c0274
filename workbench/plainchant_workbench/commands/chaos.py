"""``plainchant chaos``: real members of every live protocol in trouble, for minutes or hours; what must be true then."""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow as pa
import typer
from rich.console import Console

from plainchant import __version__
from plainchant.cli.console import EXIT_INTERRUPTED, EXIT_UNEXPECTED, complain, guarded, moving_line, output, plain_table
from plainchant.cli.output import refuse_occupied
from plainchant.core.model import UsageError
from plainchant.lab.live.process import LiveError
from plainchant.lab.properties import Verification

from ..chaos.figures import MIB, Figure
from ..chaos.plan import DIETS, LONGEST, SHORTEST, Round, rounds
from ..chaos.rounds import Result, by_reference, own_files, run_round

MINUTES: Final = 5.0
REFERENCE_UP_TO: Final = 1_000_000
"""Events that the reference verifier takes; larger rounds are verified on Spark."""
_OWN_FILES: Final = 3
"""So many files more than after the first round this process itself may have open."""
_SHOWN: Final = 12
"""Problems of a round that are told."""


@guarded
def chaos(
    minutes: Annotated[float, typer.Option(help="About how long, all protocols together.", metavar="MINUTES")] = MINUTES,
    protocol: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this protocol; repeat as needed. By default all live ones.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides which faults happen to whom, in every round.", min=0)] = 0,
    round_seed: Annotated[
        int | None, typer.Option(help="One round of one protocol, by its own seed: for running a round again.", min=0)
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="With --round-seed: of traffic in that round.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="New directory: a line of JSON for each round, and what is kept of rounds with problems.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only say what would happen: the rounds, their faults, what is left out and why.")
    ] = False,
) -> None:
    """Put real members of every live protocol into trouble and look whether everything still holds.

    Round after round, processes are killed (SIGKILL), stopped, cut off, slowed down and started again at random while they
    send; their disks fill, their clocks are set, memory modules and nodes crash. Each protocol gets what it is made to survive.

    After each round: no property is violated; every message that was accepted of a member that lives was delivered exactly
    once; nobody hangs; files, threads, memory and segments of those that live do not grow. A round that is well leaves nothing
    behind; of one that is not, everything is kept, with the command that runs it again.

    The exit status is 0 if all rounds are well, 1 if one is not, 2 if the options are wrong.

    Examples:

      plainchant chaos

      plainchant chaos --minutes 60 --out tonight

      plainchant chaos --protocol newtop --protocol mailbox --minutes 2 --seed 7

      plainchant chaos --protocol dedos --round-seed 1004 --seconds 30
    """
    wanted = _wanted(minutes, protocol or (), seed, round_seed, seconds)
    if plan:
        _tell_plan(wanted, as_json=as_json)
        return
    if out is not None:
        refuse_occupied(out)
        out.mkdir(parents=True, exist_ok=True)
    home = out if out is not None else Path(tempfile.mkdtemp(prefix="plainchant-chaos-"))
    console = output()
    results: list[Result] = []
    failed: dict[str, str] = {}
    files: list[int] = []
    began = time.monotonic()
    try:
        with moving_line() as progress:
            for each in wanted:
                try:
                    result = run_round(each, home / each.name, verify=_verify, progress=progress)
                except LiveError as error:
                    failed[each.name] = f"{error}; again: {each.command}"
                    complain(f"{each.name} (seed {each.seed}): {failed[each.name]}")
                    continue
                results.append(result)
                files.append(own_files())
                if out is not None:
                    with (out / "rounds.jsonl").open("a", encoding="utf-8") as lines:
                        lines.write(json.dumps(result.to_json(), ensure_ascii=False) + "\n")
                if not as_json:
                    _tell_round(result, home, console)
    except KeyboardInterrupt:
        kept = f"; {out / 'rounds.jsonl'} has them" if out is not None and results else ""
        complain(f"interrupted after {len(results)} rounds of {len(wanted)}{kept}")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        if out is None and not failed and all(result.is_well for result in results):
            shutil.rmtree(home, ignore_errors=True)
    own = _own_growth(files)
    well = not own and not failed and all(result.is_well for result in results)
    if as_json:
        told = _json(results, own, time.monotonic() - began) | {"well": well, "failed": failed}
        print(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        _tell(results, failed, own, time.monotonic() - began, console)
    if not well:
        raise typer.Exit(EXIT_UNEXPECTED)


def _wanted(minutes: float, names: Sequence[str], seed: int, round_seed: int | None, seconds: float | None) -> list[Round]:
    if round_seed is None:
        if seconds is not None:
            raise UsageError("--seconds is for one round; give its --round-seed too, or say --minutes")
        return rounds(minutes, names, seed)
    if len(names) != 1 or names[0] not in DIETS:
        raise UsageError(f"--round-seed is for one round of one protocol; give one --protocol of {', '.join(DIETS)}")
    length = seconds if seconds is not None else 30.0
    if not SHORTEST <= length <= 30 * LONGEST:
        raise UsageError(f"a round has {SHORTEST:g} to {30 * LONGEST:g} seconds of traffic, not {length:g}")
    return [Round(names[0], 1, round_seed, length)]


def _verify(trace: Path, table: pa.Table) -> Verification:
    """As its size demands."""
    if table.num_rows <= REFERENCE_UP_TO:
        return by_reference(trace, table)
    from plainchant.cli.spark import spark_for
    from plainchant.lab.verify import verify as verify_on_spark

    with spark_for(None, None, None, quick=False) as spark:
        return verify_on_spark(spark, [str(trace)], None)


def _own_growth(files: Sequence[int]) -> str:
    """Whether this process, which starts and watches all the others, has more and more files open."""
    if len(files) > 1 and files[-1] > files[0] + _OWN_FILES:
        return f"the supervisor had {files[0]} files open after the first round and has {files[-1]} now"
    return ""


# --- telling ----------------------------------------------------------------------------------------------------------


def _tell_plan(wanted: Sequence[Round], *, as_json: bool) -> None:
    from plainchant.lab.live.supervisor import stretched

    faults = {each: Counter(fault.kind for fault in stretched(each.scenario(), 1.0).fault) for each in wanted}
    if as_json:
        told = [{"round": r.name, "seed": r.seed, "seconds": r.seconds, "again": r.command, "faults": faults[r]} for r in wanted]
        left = {name: dict(DIETS[name].left_out) for name in dict.fromkeys(each.protocol for each in wanted)}
        print(json.dumps({"rounds": told, "left_out": left}, indent=2, ensure_ascii=False))
        return
    console = output()
    table = plain_table("round", "seed", "traffic", "faults that are drawn")
    for each in wanted:
        table.add_row(each.name, str(each.seed), f"{each.seconds:g} s", _counted(faults[each]))
    console.print(table)
    for name in dict.fromkeys(each.protocol for each in wanted):
        for kind, why in DIETS[name].left_out.items():
            console.print(f"{name} does not get {kind}: {why}", markup=False)


def _counted(numbers: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in sorted(numbers.items()))


def _tell_round(result: Result, home: Path, console: Console) -> None:
    each = result.round
    verdict = "well" if result.is_well else "NOT WELL"
    ends = _counted(Counter(end.state for end in result.summary.processes.values()))
    console.print(
        f"{each.name} (seed {each.seed}, {each.seconds:g} s): {verdict}. Processes: {ends}. "
        f"{sum(result.events.values()):,} events; {result.accepted.accepted:,} messages accepted of {result.accepted.survivors} "
        f"survivors, each delivered once: {result.accepted.verdict}; {result.watched} processes watched for growth.",
        markup=False,
    )
    for problem in result.problems[:_SHOWN]:
        console.print(f"  {problem}", markup=False)
    if len(result.problems) > _SHOWN:
        console.print(f"  and {len(result.problems) - _SHOWN} more problems")
    if not result.is_well:
        console.print(f"  kept in {home / each.name}; again: {each.command}", markup=False)


def _tell(results: Sequence[Result], failed: Collection[str], own: str, seconds: float, console: Console) -> None:
    console.print()
    table = plain_table("protocol", "rounds", "traffic", "faults", "processes", "accepted", "verdict")
    for name in dict.fromkeys(result.round.protocol for result in results):
        mine = [result for result in results if result.round.protocol == name]
        table.add_row(
            name,
            str(len(mine)),
            f"{sum(result.round.seconds for result in mine):,.0f} s",
            f"{sum(len(result.summary.faults) - len(result.summary.skipped) for result in mine):,}",
            f"{sum(len(result.summary.processes) for result in mine):,}",
            f"{sum(result.accepted.accepted for result in mine):,}",
            "well" if all(result.is_well for result in mine) else "NOT WELL",
        )
    console.print(table)
    console.print()
    _tell_figures(results, console)
    console.print()
    kinds: Counter[str] = Counter(fault.kind for result in results for fault in result.summary.faults)
    console.print(f"Faults: {_counted(kinds)}.", markup=False)
    halts: Counter[str] = Counter()
    for result in results:
        halts.update(result.halts)
    if halts:
        console.print(f"Halted by their protocols, with reasons: {_counted(halts)}.", markup=False)
    empty = sorted({result.round.name for result in results if not result.accepted.accepted})
    if empty:
        console.print(f"Nobody survived to be asked for its messages in {', '.join(empty)}.", markup=False)
    if own:
        console.print(own, markup=False)
    bad = [*failed, *(result.round.name for result in results if not result.is_well)]
    number = len(results) + len(failed)
    told = f"{number - len(bad)} of {number} rounds are well, in {seconds / 60:.1f} minutes"
    console.print(f"{told}{'; not well: ' + ', '.join(bad) if bad else ''}.", markup=False)


def _tell_figures(results: Sequence[Result], console: Console) -> None:
    """The figures of those who were watched for long enough: medians, and the most that one of them grew."""
    table = plain_table("protocol", "figure", "of", "first", "last", "growth", "limit", "grows")
    for name in dict.fromkeys(result.round.protocol for result in results):
        figures: dict[str, list[Figure]] = {}
        for result in results:
            if result.round.protocol == name:
                for figure in result.figures:
                    if figure.trend is not None:
                        figures.setdefault(figure.name, []).append(figure)
        for kind, found in figures.items():
            table.add_row(name, kind, *_row(kind, found))
    console.print(table)
    console.print(
        "of: processes that were watched for long enough; first, last: medians of their first and last samples; growth: the "
        "largest in a second half; limit: from which on it counts, if it is steady."
    )


def _row(kind: str, found: Sequence[Figure]) -> Iterable[str]:
    growth, floor = max((figure.trend.growth, figure.trend.floor) for figure in found if figure.trend is not None)
    amount = _mib if kind in ("memory", "resident", "shared") else _number
    first = statistics.median(figure.first for figure in found)
    last = statistics.median(figure.last for figure in found)
    grows = sum(figure.grows for figure in found)
    return str(len(found)), amount(first), amount(last), amount(growth), amount(floor), f"{grows}" if grows else "no"


def _mib(value: float) -> str:
    return f"{value / MIB:.2f} MiB"


def _number(value: float) -> str:
    return f"{value:.0f}"


def _json(results: Sequence[Result], own: str, seconds: float) -> dict[str, Any]:
    return {
        "plainchant": __version__,
        "command": "chaos",
        "minutes": round(seconds / 60, 2),
        "supervisor": own,
        "rounds": [result.to_json() for result in results],
    }
