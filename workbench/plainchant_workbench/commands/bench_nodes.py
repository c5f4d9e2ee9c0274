"""``plainchant bench nodes``: two nodes of four processes, common memory inside and UDP between them, beside a flat group."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from plainchant.cli.console import guarded, plain_table
from plainchant.cli.options import JsonOption

from .telling import fail_on_errors, figure, progress, spread, wide_output

WIDTH: Final = 150
"""Columns of the tables where no terminal says how many it has."""


@guarded
def bench_nodes(
    rounds: Annotated[int, typer.Option(help="Rounds; the median of them counts.", min=1)] = 3,
    seconds: Annotated[float, typer.Option(help="Seconds that are counted of each flood.", min=0.1)] = 1.5,
    messages: Annotated[int, typer.Option(help="Messages of a sender whose delays are taken.", min=1)] = 100,
    size: Annotated[int, typer.Option(help="Bytes of a message.", min=1)] = 32,
    as_json: JsonOption = False,
) -> None:
    """Measure two nodes of four processes (dedos) beside a flat group over UDP.

    All on this machine: `dedos` on two nodes, `sequencer` with the same eight processes; `dedos` that reaches over one node
    only, and `sequencer` with its four processes. Rates are of ordered messages delivered at every member while all send as much
    as goes. Delays are from `send` until a receiver has read a message, in a group that is nearly idle, to receivers on the
    sender's node and on the other one. Ratios are of the same round. Raw UDP is blocking sockets in Python.

    Examples:

      plainchant bench nodes

      plainchant bench nodes --rounds 5 --json > nodes.json
    """
    from ..live.nodes import run

    result = run(
        rounds=rounds, seconds=seconds, messages=messages, size=size, progress=lambda what: progress(what, quiet=as_json)
    )
    if as_json:
        print(json.dumps(result))
    else:
        _show(result)
    fail_on_errors(result["rows"], "arrangements")


def _show(result: dict[str, Any]) -> None:
    """The result as tables."""
    console = wide_output(WIDTH)
    table = plain_table(
        "processes",
        "members",
        "messages/s",
        "best",
        "µs a message",
        "inside a node, µs",
        "across, µs",
        "from the first node, µs",
        "from the second, µs",
    )
    for row in result["rows"]:
        figures = ("messages_per_s", "best_messages_per_s", "cpu_us_per_message", "inside_us_p50", "across_us_p50")
        ways = (_ways(row["from_first_us_p50"]), _ways(row["from_second_us_p50"]))
        table.add_row(row["name"], f"{row['members']}", *(figure(row[name]) for name in figures), *ways)
    console.print(table)
    console.print()
    table = plain_table("ratio", "to", "rounds", "messages/s", "delay inside", "delay across")
    for ratio in result["ratios"]:
        spreads = (spread(ratio[name]) for name in ("messages_per_s", "inside", "across"))
        table.add_row(ratio["name"], ratio["to"], f"{ratio['rounds']}", *spreads)
    console.print(table)
    raw, machine = result["raw"], result["machine"]
    console.print(
        f"\nRaw UDP: {figure(raw['rtt_us_p50'])} µs there and back, {raw['datagrams_per_s']:,} datagrams/s one way. "
        f"{machine['cores']} cores; load average {machine['load_average_before']} before, {machine['load_average_after']} after."
    )


def _ways(delays: dict[str, float | None]) -> str:
    return ", ".join(f"{name} {figure(delay)}" for name, delay in delays.items() if delay is not None)
