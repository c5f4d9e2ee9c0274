"""``plainchant demo``: five members, loss, a crash of the one that matters most, and the story of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from ..protocols.registry import describe
from ..scenario import find, load
from . import story
from .console import EXIT_UNEXPECTED, guarded, output
from .output import staged
from .run import states, tell_verification
from .running import Result, execute

_SCENARIO: Final = "demo"


@guarded
def demo(
    out: Annotated[Path, typer.Option(help="Directory for the results; one of an earlier demo is replaced.")] = Path(
        "demo-out"
    ),
    seed: Annotated[int | None, typer.Option(help="Another seed is another story.", min=0)] = None,
) -> None:
    """Show a group that survives loss and a crash.

    Five members in the simulator, a lossy network, a sequencer that crashes in the middle of a broadcast, and a
    readable account of what happened.

    Examples:

      plainchant demo

      plainchant demo --seed 7 --out story-7
    """
    scenario = load(find(_SCENARIO), [f"seed={seed}"] if seed is not None else ())
    with staged(out, replace=_is_a_demo) as directory:
        result = execute(scenario, directory, verify_it=True, command="demo")
    _account(result, out)
    if not result.passes:
        raise typer.Exit(EXIT_UNEXPECTED)


def _is_a_demo(target: Path) -> bool:
    """Whether an earlier demo made this directory: then, and only then, it may be replaced."""
    try:
        summary = json.loads((target / "summary.json").read_text())
    except (OSError, ValueError):
        return False
    names = {entry.name for entry in target.iterdir()}
    return (
        isinstance(summary, dict)
        and summary.get("command") == "demo"
        and names == {"scenario.toml", "summary.json", "trace"}
    )


def _account(result: Result, out: Path) -> None:
    scenario, summary = result.scenario, result.summary
    console = output()
    names = ", ".join(scenario.members)
    console.print("[bold]The group[/bold]")
    console.print(
        f"{names} are a group under the protocol {scenario.protocol}. {describe(scenario.protocol).about} "
        f"{scenario.members[0]} numbers at first. The network loses {scenario.network.loss:.0%} of all packets, "
        "and all of this happens in virtual time, decided by one seed "
        f"({scenario.seed}): run it again and it happens again.\n",
        markup=False,
    )
    console.print("[bold]What happened[/bold]")
    for moment in story.tell(result.table):
        console.print(f"{moment.time / 1e6:9.1f} ms  {moment.text}", markup=False)
    console.print(
        f"\n{summary.messages_sent:,} messages were sent and {summary.messages_delivered:,} times delivered, with "
        f"{summary.packets_sent:,} packets, of which {summary.packets_lost:,} were lost on the way to somebody. "
        f"At the end: {states(result)}.\n",
        markup=False,
    )
    console.print("[bold]Was it right?[/bold]")
    if result.verification is not None:
        tell_verification(result.verification, console)
    console.print("\n[bold]Where to go next[/bold]")
    for command, why in (
        (f"plainchant trace {out} --kind view", "who was in the group, and when"),
        (f"plainchant trace {out} --message g/{scenario.members[1]}/1", "the way of one message"),
        (f"plainchant trace {out} --export chrome --out demo.json", "a picture, in ui.perfetto.dev"),
        ("plainchant run --list", "other scenarios to try"),
        ("plainchant protocols sequencer", "what it promises, and what can be set"),
    ):
        console.print(f"  {command:<58} {why}", markup=False)
