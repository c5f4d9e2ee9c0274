"""``plainchant schedule``: can these messages be promised? Section 5 of rtcast, for whole rings, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit

from ..protocols.rtcast.analysis import Demand, Turn, Verdict, enough, readable
from ..protocols.rtcast.schedulability import NodeVerdict, RingVerdict, judge
from .console import EXIT_UNEXPECTED, guarded, output, plain_table
from .options import option
from .output import json_text, write_new
from .schedule_file import load

if TYPE_CHECKING:
    from rich.console import Console


@guarded
def schedule(
    file: Annotated[Path, Argument(help="The message set: a TOML file, or a CSV file with a row a message.")],
    overrides: Annotated[
        list[str] | None, option("Replace a value of the file, such as ring.hold=8ms; may be repeated.", "--set", of="KEY=VALUE")
    ] = None,
    json_file: Annotated[Path | None, option("Write the verdict as JSON; - is standard output.", "--json", of="FILE")] = None,
    draw: Annotated[Path | None, option("Draw every node's turn, and one rotation, into this SVG file.", of="FILE")] = None,
) -> None:
    """Say whether messages meet their deadlines on an rtcast ring, node by node, before anything runs.

    Each node has T of sending time in a turn ("hold"), and its turns begin at most P apart. A message with deadline d may take
    n = floor((d - Delta) / P) turns, where Delta = (r + 1) P with r retransmissions. It is cut into pieces, one for each turn;
    all pieces of a node, and what the ring itself sends, must fit into T. If they do not, the command says which condition fails
    and the nearest deadline that could be promised, and ends with status 1.

    A message set is a TOML file:

      [ring]
      members = ["sensor", "valve"]  # in the order of the ring
      hold = "4ms"                   # T; by node: holds = { valve = "6ms" }
      retransmissions = 1            # and any other parameter of rtcast

      [[message]]
      name = "temperature"
      node = "sensor"
      size = 64                      # bytes; or cost = "120us", time to send it
      period = "250ms"               # leave it out for one message alone
      deadline = "200ms"

    In a CSV file the first row names the columns: name, node, size or cost, period, deadline; the ring is given by --set.

    Examples:

      plainchant schedule process-control.toml
      plainchant schedule process-control.toml --set ring.retransmissions=3 --draw turns.svg
      plainchant schedule messages.csv --set ring.hold=8ms --json -
    """
    verdict = judge(load(file, overrides or []))
    if draw is not None:
        from .schedule_picture import picture

        write_new(draw, picture(verdict), "--draw")
    if json_file is not None and str(json_file) != "-":
        write_new(json_file, _json(verdict), "--json")
    if str(json_file) == "-":
        print(_json(verdict), end="")
    else:
        _tell(verdict, output())
    if not verdict.is_schedulable:
        raise Exit(EXIT_UNEXPECTED)


def _json(verdict: RingVerdict) -> str:
    times = {"rotation_ns": verdict.rotation, "rotation_printed_ns": verdict.printed, "delay_ns": verdict.delay}
    counts = {"retransmissions": verdict.given.parameters.retransmissions}
    nodes = [_node_json(node) for node in verdict.nodes]
    return json_text({"schedulable": verdict.is_schedulable, **times, **counts, "nodes": nodes})


def _node_json(node: NodeVerdict) -> dict[str, Any]:
    return {
        "node": node.node,
        "schedulable": node.is_schedulable,
        "hold_ns": node.turn.hold,
        "used_ns": node.used,
        "slack_ns": node.slack,
        "demanded_ns": node.demanded,
        "utilisation": node.used / node.turn.hold,
        "overhead": [{"name": item.name, "bytes": item.bytes, "cost_ns": item.cost} for item in node.turn.overhead],
        "messages": [_message_json(node.turn, verdict) for verdict in node.verdicts],
    }


def _message_json(turn: Turn, verdict: Verdict) -> dict[str, Any]:
    demand, size = verdict.demand, verdict.demand.size if verdict.demand.cost is None else None
    told: dict[str, Any] = {"name": demand.name, "size": size, "cost_ns": turn.cost(demand)}
    told |= {"period_ns": demand.period or None, "deadline_ns": demand.deadline, "admitted": verdict.is_admitted}
    told |= {"visits": verdict.visits, "pieces": verdict.pieces, "share_ns": verdict.share}
    if not verdict.is_admitted:
        told |= {"term": verdict.term, "why": verdict.text}
        told |= {"nearest_deadline_ns": verdict.nearest, "hopeless": verdict.hopeless or None}
    return told


def _tell(verdict: RingVerdict, console: Console) -> None:
    retransmissions = verdict.given.parameters.retransmissions
    times = "1 retransmission" if retransmissions == 1 else f"{retransmissions} retransmissions"
    printed = "" if verdict.given.token else f" (equation 4.2: {readable(verdict.printed)})"
    console.print(f"P = {readable(verdict.rotation)}{printed}, Delta = {readable(verdict.delay)} with {times}", markup=False)
    for node in verdict.nodes:
        console.print()
        _tell_node(node, console)
    console.print()
    messages = [one for node in verdict.nodes for one in node.verdicts]
    if verdict.is_schedulable:
        console.print(f"schedulable: all {len(messages)} messages meet their deadlines")
    else:
        refused = sum(not one.is_admitted for one in messages)
        console.print(f"not schedulable: {refused} of {len(messages)} messages cannot be promised")


def _tell_node(node: NodeVerdict, console: Console) -> None:
    turn = node.turn
    word = "schedulable" if node.is_schedulable else "not schedulable"
    if turn.reserved > turn.hold:
        room = f"the ring itself needs {readable(turn.reserved)} of T = {readable(turn.hold)}; make T longer"
    else:
        used = f"{readable(node.used)} of T = {readable(turn.hold)} used ({node.used / turn.hold:.0%})"
        room = f"{used}, {readable(node.slack)} left"
    wanted = "" if node.is_schedulable or node.demanded <= turn.hold else f"; everything would take {readable(node.demanded)}"
    console.print(f"{node.node}: {word}; {room}{wanted}", markup=False)
    if not node.verdicts:
        return
    table = plain_table("  message", "C", "period", "deadline", "n", "pieces", "of T", "")
    for column in table.columns[1:7]:
        column.justify = "right"
    table.add_row("  (the ring)", "", "", "", "", "", readable(turn.reserved), "")
    for verdict in node.verdicts:
        demand: Demand = verdict.demand
        period = readable(demand.period) if demand.period else "once"
        asked = (f"  {demand.name}", readable(turn.cost(demand)), period, readable(demand.deadline))
        given = (str(verdict.visits), str(verdict.pieces), readable(verdict.share))
        table.add_row(*asked, *given, "" if verdict.is_admitted else "rejected")
    console.print(table)
    for verdict in node.verdicts:
        if not verdict.is_admitted:
            advice = f"no deadline can be promised: {verdict.hopeless}"
            if verdict.nearest is not None:
                advice = f"the nearest deadline that can be promised is {enough(verdict.nearest)}"
            console.print(f"  {verdict.text}; {advice}", markup=False)
