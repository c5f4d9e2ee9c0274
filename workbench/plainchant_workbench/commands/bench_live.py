"""``plainchant bench live``: how fast real groups are, beside each other, raw UDP and other systems in the same run."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from plainchant.cli.console import guarded, plain_table
from plainchant.cli.options import JsonOption
from plainchant.core.model import UsageError

from .telling import fail_on_errors, figure, spread, wide_output

QUICK_SECONDS = 1.0
SECONDS = 1.5
STALL_SECONDS = 30.0
WIDTH = 190
"""Columns of the tables where no terminal says how many it has."""


@guarded
def bench_live(
    quick: Annotated[
        bool, typer.Option("--quick", help="Only what has a target, and deadlines, once each: about four minutes.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Every combination, and the long run: about an hour.")] = False,
    stall: Annotated[bool, typer.Option("--stall", help="Also a long run, for the slowest second of it.")] = False,
    peers: Annotated[bool, typer.Option(help="Measure the other systems that are installed, too.")] = True,
    protocol: Annotated[
        list[str] | None,
        typer.Option(help="Only this one: sequencer, newtop, rtcast or mailbox. May be given again. [default: all]"),
    ] = None,
    encrypted: Annotated[
        bool, typer.Option("--encrypted", help="Only what has a target, each right before the same with a key, and the ratio.")
    ] = False,
    rounds: Annotated[int, typer.Option(help="Rounds of what has a target; the best of them counts.", min=1)] = 3,
    seconds: Annotated[float | None, typer.Option(help="Seconds that are counted of each.", min=0.1)] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure live groups beside raw UDP and other systems.

    Members are processes of their own on this machine. Rates are of ordered messages delivered at every member, placed by the
    system; round trips are from `send` to one's own delivery in the order, at a member that is not the sequencer, with members
    pinned to the cores in turn. Raw UDP is blocking sockets in Python, with the same pins. In a nearly idle group one member
    sends now and then; how long that takes is told in round trips of the link, which are measured in the same run. Where members
    of `rtcast` send with deadlines, it is counted how many are missed, beside how long the token took round and may take.
    `mailbox` is measured beside what else processes of one machine can do: our groups over UDP, `multiprocessing.Queue` with a
    queue a receiver, and Unix socket pairs, three receivers each; its ratios are of the same round.

    Examples:

      plainchant bench live --quick

      plainchant bench live --protocol newtop --no-peers

      plainchant bench live --encrypted --protocol sequencer

      plainchant bench live --stall --json > live.json
    """
    from ..live.measure import run
    from ..live.plan import MEASURED, Level, make_encrypted_plan, make_plan

    if encrypted and (quick or full or stall):
        raise UsageError("--encrypted has a plan of its own; leave out --quick, --full and --stall")
    if quick and full:
        raise UsageError("--quick and --full exclude each other; choose one")
    unknown = [name for name in protocol or () if name not in MEASURED]
    if unknown:
        raise UsageError(f"there is no protocol {unknown[0]!r} to measure; there are: {', '.join(MEASURED)}")
    level: Level = "quick" if quick else "full" if full else "default"
    plan = make_plan(
        level,
        rounds=rounds,
        seconds=seconds if seconds is not None else QUICK_SECONDS if quick else SECONDS,
        stall_seconds=STALL_SECONDS if stall or full else 0.0,
        protocols=tuple(protocol) if protocol else MEASURED,
    )
    if encrypted:
        protocols = tuple(protocol) if protocol else MEASURED
        plan = make_encrypted_plan(rounds=rounds, seconds=seconds if seconds is not None else QUICK_SECONDS, protocols=protocols)
        peers = False
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
    fail_on_errors([*result["rows"], *result["idle"], *result["timed"], *result["local"]], "cases")


def _show(result: dict[str, Any]) -> None:
    """The result as tables."""
    console = wide_output(WIDTH)
    table = plain_table(
        "protocol",
        "members",
        "size",
        "senders",
        "packet",
        "key",
        "trace",
        "read by",
        "sent by",
        "messages/s",
        "µs a message",
        "round trip, µs",
        "of raw UDP's",
        "same core, µs",
        "of raw UDP's",
        "at 200/s, µs",
        "at half load, µs",
    )
    for row in result["rows"]:
        if row["error"] is not None:
            continue
        table.add_row(
            row["protocol"],
            f"{row['members']}",
            f"{row['size']:,}",
            row["senders"],
            f"{row['packet']:,}",
            "with" if row["encrypted"] else "without",
            "on" if row["traced"] else "off",
            row["reading"],
            row["sending"],
            *map(
                figure,
                (
                    row["messages_per_s"],
                    row["cpu_us_per_message"],
                    row["rtt_us_p50"],
                    row["rtt_ratio_to_raw_udp"],
                    row["rtt_us_p50_same_core"],
                    row["rtt_ratio_to_raw_udp_same_core"],
                    row["rtt_us_p50_at_200_per_s"],
                    row["rtt_us_p50_at_half_load"],
                ),
            ),
        )
    console.print(table)
    console.print()
    _show_encrypted(console, result.get("encrypted_to_plain", []))
    _show_sealing(console, result.get("sealing", []))
    _show_newtop(console, result)
    _show_timed(console, result["timed"])
    _show_local(console, result)
    table = plain_table("beside it", "version", "members", "size", "senders", "messages/s", "round trip, µs", "of raw UDP's", "")
    for row in result["peers"]:
        note = row["why"] or (f"{row['datagrams_per_s']:,} datagrams/s one way" if "datagrams_per_s" in row else "")
        table.add_row(
            row["protocol"],
            row["version"] or "",
            *map(figure, (row["members"], row["size"])),
            row["senders"] or "",
            *map(figure, (row["messages_per_s"], row["rtt_us_p50"], row["rtt_ratio_to_raw_udp"])),
            note,
        )
    console.print(table)
    console.print()
    table = plain_table("wanted", "target", "measured", "")
    for row in result["wanted"]:
        verdict = {True: "reached", False: "not reached", None: row.get("error", "not measured")}[row["reached"]]
        table.add_row(row["what"], figure(row["target"]), figure(row["measured"]), verdict)
    console.print(table)
    machine = result["machine"]
    pins = ", ".join(f"{member} on core {core}" for member, core in machine["pins"].items())
    console.print(f"\n{machine['cores']} cores. Pins, where round trips are taken: {pins}.")
    if (load := machine["load_average_before"]) and load > 1:
        console.print(f"This machine was busy when it began (load average {load}): the figures are too low.")
    console.print(f"The sequencer is {machine['sequencer']}; measured: {machine['measured']}.")


def _show_encrypted(console: Console, rows: list[dict[str, Any]]) -> None:
    """Rates with a key to those without."""
    if not rows:
        return
    table = plain_table(
        "with a key to without",
        "size",
        "packet",
        "rate: median",
        "least",
        "largest",
        "processor time",
        "round trip",
        "rounds",
    )
    for row in rows:
        figures = (figure(row[name]) for name in ("median", "least", "largest", "processor", "round_trip"))
        table.add_row(row["protocol"], f"{row['size']:,}", f"{row['packet']:,}", *figures, f"{row['rounds']}")
    console.print(table)
    console.print()


def _show_sealing(console: Console, rows: list[dict[str, Any]]) -> None:
    """Processor time with a key to that without, in one process."""
    if not rows:
        return
    table = plain_table(
        "processor time a message, in one process",
        "size",
        "packet",
        "without, µs",
        "with, µs",
        "ratio",
        "least",
        "largest",
        "rounds",
    )
    for row in rows:
        figures = (figure(row[name]) for name in ("plain_us", "sealed_us", "median", "least", "largest"))
        table.add_row(row["protocol"], f"{row['size']:,}", f"{row['packet']:,}", *figures, f"{row['rounds']}")
    console.print(table)
    console.print()


def _show_newtop(console: Console, result: dict[str, Any]) -> None:
    """newtop's rates beside sequencer's, and nearly idle groups."""
    if result["newtop_to_sequencer"]:
        table = plain_table("newtop's rate to sequencer's", "size", "senders", "packet", "sent by", "median", "least", "largest")
        for row in result["newtop_to_sequencer"]:
            ratios = (figure(row[name]) for name in ("median", "least", "largest"))
            table.add_row(
                f"{row['members']} members", f"{row['size']:,}", row["senders"], f"{row['packet']:,}", row["sending"], *ratios
            )
        console.print(table)
        console.print()
    if not result["idle"]:
        return
    table = plain_table(
        "nearly idle",
        "members",
        "time-silence",
        "link, ms",
        "own, µs",
        "everywhere, µs",
        "link, µs",
        "raw UDP, µs",
        "own in link round trips",
        "everywhere",
        "own in raw ones",
        "packets",
        "simulated: own",
        "everywhere",
        "packets",
    )
    for row in result["idle"]:
        silence = f"{row['silence_ms']} ms" if row["silence_ms"] else "adaptive" if row["protocol"] == "newtop" else ""
        table.add_row(
            row["protocol"],
            f"{row['members']}",
            silence,
            figure(row["link_ms"]),
            *(figure(row.get(name)) for name in ("own_us_p50", "everywhere_us_p50", "link_us_p50", "raw_us_p50")),
            *(spread(row.get(name)) for name in ("round_trips", "round_trips_everywhere", "raw_round_trips")),
            figure(row.get("packets")),
            *(figure(row[f"simulated_{name}"]) for name in ("round_trips", "round_trips_everywhere", "packets")),
        )
    console.print(table)
    console.print()


def _show_timed(console: Console, rows: list[dict[str, Any]]) -> None:
    """Deadlines, and the token's way round."""
    if not rows:
        return
    table = plain_table(
        "rtcast, in time",
        "members",
        "reckoned delay, ms",
        "deadline, ms",
        "deliveries",
        "missed",
        "delivered in, ms",
        "99 %",
        "longest",
        "rotation, ms",
        "99 %",
        "longest",
        "bound",
        "too old",
        "broken",
        "beside it, messages/s",
    )
    for row in rows:
        if row["error"] is not None or not row["rounds"]:
            continue
        figures = (
            "delivery_ms_p50",
            "delivery_ms_p99",
            "delivery_ms_max",
            "rotation_ms_p50",
            "rotation_ms_p99",
            "rotation_ms_max",
            "rotation_ms_bound",
            "late_packets",
        )
        table.add_row(
            "in a flood" if row["flooded"] else "alone",
            f"{row['members']}",
            figure(row["delay_max_ms"]) or "chosen",
            figure(row["deadline_ms"]),
            f"{row['deliveries']:,}",
            f"{row['missed']:,} ({row['miss_ratio']:.2%})",
            *(figure(row[name]) for name in figures),
            ", ".join(f"{name}: {count}" for name, count in row["broken"].items()),
            figure(row["beside_per_s"]),
        )
    console.print(table)
    for row in rows:
        if row["halted"] is not None:
            delay = f", reckoning with {row['delay_max_ms']} ms" if row["delay_max_ms"] else ""
            console.print(f"{row['members']} members{delay}, after {row['rounds']} rounds: {row['halted']}")
    console.print()


def _show_local(console: Console, result: dict[str, Any]) -> None:
    """Common memory, and what else there is on one machine."""
    if not result["local"]:
        return
    ratios = {(row["to"], row["size"], row["senders"]): row for row in result["mailbox_to"]}
    table = plain_table(
        "on one machine",
        "size",
        "senders",
        "messages/s",
        "MB/s",
        "µs a message",
        "delay, µs",
        "99 %",
        "mailbox's rate to it",
        "mailbox's delay to it",
    )
    for row in result["local"]:
        ratio = ratios.get((row["how"], row["size"], row["senders"]), {})
        figures = ("messages_per_s", "megabytes_per_s", "cpu_us_per_message", "delay_us_p50", "delay_us_p99")
        table.add_row(
            row["how"],
            f"{row['size']:,}",
            row["senders"],
            *(figure(row[name]) for name in figures),
            figure(ratio.get("messages_per_s")),
            figure(ratio.get("delay_us_p50")),
        )
    console.print(table)
    console.print()
