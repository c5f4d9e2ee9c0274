"""``plainchant bench live``: how fast real groups are, beside raw UDP and other systems in the same run."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from ..model import UsageError
from .console import EXIT_UNEXPECTED, complain, guarded, output, plain_table

QUICK_SECONDS = 1.0
SECONDS = 1.5
STALL_SECONDS = 30.0
WIDTH = 190
"""Columns of the tables where no terminal says how many it has."""


@guarded
def bench_live(
    quick: Annotated[bool, typer.Option("--quick", help="Only what has a target, once each: about a minute.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Every combination, and the long run: about half an hour.")] = False,
    stall: Annotated[bool, typer.Option("--stall", help="Also a long run, for the slowest second of it.")] = False,
    peers: Annotated[bool, typer.Option(help="Measure the other systems that are installed, too.")] = True,
    rounds: Annotated[int, typer.Option(help="Rounds of what has a target; the best of them counts.", min=1)] = 3,
    seconds: Annotated[float | None, typer.Option(help="Seconds that are counted of each.", min=0.1)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Measure live groups beside raw UDP and other systems.

    Members are processes of their own on this machine. Rates are of ordered messages delivered at every member, placed by the
    system; round trips are from `send` to one's own delivery in the order, at a member that is not the sequencer, with members
    pinned to the cores in turn. Raw UDP is blocking sockets in Python, with the same pins.

    Examples:

      plainchant bench live --quick

      plainchant bench live --stall --json > live.json
    """
    from ..live.bench.measure import run
    from ..live.bench.plan import Level, make_plan

    if quick and full:
        raise UsageError("--quick and --full exclude each other; choose one")
    level: Level = "quick" if quick else "full" if full else "default"
    plan = make_plan(
        level,
        rounds=rounds,
        seconds=seconds if seconds is not None else QUICK_SECONDS if quick else SECONDS,
        stall_seconds=STALL_SECONDS if stall or full else 0.0,
    )
    columns = (TextColumn("measuring {task.completed} of {task.total}: {task.description}"), TimeElapsedColumn())
    # Drawn only between measurements: a thread that draws would take processor time from what is measured.
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=plan.steps(peers), completed=0)

        def progress(what: str) -> None:
            bar.update(task, description=what, advance=1, refresh=True)

        result = run(plan, peers=peers, progress=progress)
    if as_json:
        print(json.dumps(result))
    else:
        _show(result)
    wrong = [row["error"] for row in result["rows"] if row["error"] is not None]
    if wrong:
        complain(f"{len(wrong)} of {len(result['rows'])} cases failed, the first with: {wrong[0]}")
        raise typer.Exit(EXIT_UNEXPECTED)


def _show(result: dict[str, Any]) -> None:
    """The result as tables."""
    console = output()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH)
    table = plain_table(
        "members", "size", "senders", "packet", "trace", "read by", "sent by", "messages/s", "µs a message", "round trip, µs",
        "of raw UDP's", "same core, µs", "of raw UDP's", "at 200/s, µs", "at half load, µs",
    )
    for row in result["rows"]:
        if row["error"] is not None:
            continue
        table.add_row(
            f"{row['members']}", f"{row['size']:,}", row["senders"], f"{row['packet']:,}", "on" if row["traced"] else "off",
            row["reading"], row["sending"], *map(_figure, (
                row["messages_per_s"], row["cpu_us_per_message"], row["rtt_us_p50"], row["rtt_ratio_to_raw_udp"],
                row["rtt_us_p50_same_core"], row["rtt_ratio_to_raw_udp_same_core"], row["rtt_us_p50_at_200_per_s"],
                row["rtt_us_p50_at_half_load"],
            )),
        )
    console.print(table)
    console.print()
    table = plain_table("beside it", "version", "members", "size", "senders", "messages/s", "round trip, µs", "of raw UDP's", "")
    for row in result["peers"]:
        note = row["why"] or (f"{row['datagrams_per_s']:,} datagrams/s one way" if "datagrams_per_s" in row else "")
        table.add_row(
            row["protocol"], row["version"] or "", *map(_figure, (row["members"], row["size"])), row["senders"] or "",
            *map(_figure, (row["messages_per_s"], row["rtt_us_p50"], row["rtt_ratio_to_raw_udp"])), note,
        )
    console.print(table)
    console.print()
    table = plain_table("wanted", "target", "measured", "")
    for row in result["wanted"]:
        verdict = {True: "reached", False: "not reached", None: row.get("error", "not measured")}[row["reached"]]
        table.add_row(row["what"], _figure(row["target"]), _figure(row["measured"]), verdict)
    console.print(table)
    machine = result["machine"]
    pins = ", ".join(f"{member} on core {core}" for member, core in machine["pins"].items())
    console.print(f"\n{machine['cores']} cores. Pins, where round trips are taken: {pins}.")
    if (load := machine["load_average_before"]) and load > 1:
        console.print(f"This machine was busy when it began (load average {load}): the figures are too low.")
    console.print(f"The sequencer is {machine['sequencer']}; measured: {machine['measured']}.")


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or isinstance(value, int) else f"{value:,.2f}"
