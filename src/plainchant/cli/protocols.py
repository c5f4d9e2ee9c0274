"""``plainchant protocols``: what there is, what can be set, what is promised under which faults."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Annotated, Any

from rich.markup import escape
from typer import Argument

from ..core.model import Duration, declarations, format_duration
from ..protocols import registry
from ..scenario.read import hints
from .console import guarded, output, plain_table
from .options import JsonOption
from .output import json_text


@guarded
def protocols(
    name: Annotated[str | None, Argument(help="A protocol; without it, all of them are listed.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List protocols, or show what one promises.

    With a name: its parameters, its promises, and the faults under which they hold.

    Examples:

      plainchant protocols
      plainchant protocols sequencer
      plainchant protocols sequencer --json
    """
    chosen = [registry.describe(name)] if name is not None else list(registry.protocols().values())
    if as_json:
        described = [facts(description) for description in chosen]
        print(json_text(described[0] if name is not None else described), end="")
    elif name is not None:
        _show(chosen[0])
    else:
        table = plain_table("protocol", "what it is")
        for description in chosen:
            table.add_row(description.name, description.about)
        output().print(table, f"\nMore about one of them: plainchant protocols {chosen[0].name}", sep="\n")


def facts(description: registry.Description) -> dict[str, Any]:
    """Everything the command shows, as data."""
    return {
        "name": description.name,
        "about": description.about,
        "seed": description.paper,
        "parameters": [
            {
                "name": field.name,
                "type": _type_name(hints(description.parameters)[field.name], declared.keys),
                "default": _default(description, field),
                **{name: getattr(declared, name) for name in ("unit", "minimum", "maximum")},
                "choices": list(declared.choices),
                "example": declared.example,
                "about": declared.about,
            }
            for field, declared in declarations(description.parameters)
        ],
        "promises": [dataclasses.asdict(promise) for promise in _promises(description)],
        "conditional": [dataclasses.asdict(promise) for promise in description.conditional],
        "faults": list(description.faults),
        "changes": description.changes(description.parameters()),
        "proposes": description.proposes(description.parameters()),
    }


def _promises(description: registry.Description) -> tuple[registry.Promise, ...]:
    """What is promised with the default parameters, to one group of five."""
    return description.promises(description.parameters(), {"g": ("p1", "p2", "p3", "p4", "p5")})


def _type_name(hint: Any, keys: str = "") -> str:
    if typing.get_origin(hint) is Mapping:
        return f"{_type_name(typing.get_args(hint)[1])} by {keys}"
    if typing.get_origin(hint) is tuple:
        return f"list of {_type_name(typing.get_args(hint)[0])}s"
    names = {int: "whole number", float: "number", bool: "true or false", str: "text", Duration: "duration"}
    return names.get(hint) or str(typing.get_origin(hint) or hint)


def _default(description: registry.Description, field: dataclasses.Field[Any]) -> Any:
    value = getattr(description.parameters(), field.name)
    return format_duration(value) if hints(description.parameters)[field.name] is Duration else value


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "true" if default else "false"
    return "none" if default in ({}, ()) else str(default)


def _show(description: registry.Description) -> None:
    console = output()
    console.print(f"[bold]{description.name}[/bold]: {description.about}\n")
    parameters = plain_table("parameter", "type", "default", "what it is")
    for field, declared in declarations(description.parameters):
        type_name = _type_name(hints(description.parameters)[field.name], declared.keys)
        shown = _shown(_default(description, field))
        unit = f" ({declared.unit})" if declared.unit not in ("", "duration") and declared.unit not in declared.about else ""
        choices = f"; one of {', '.join(declared.choices)}" if declared.choices else ""
        example = f"; such as {declared.example}" if declared.example else ""
        parameters.add_row(field.name, type_name, shown, escape(declared.about + choices + example + unit))
    console.print(parameters)
    promises = plain_table("promise", "as long as")
    provided: dict[str, list[str]] = {}
    for promise in (*_promises(description), *description.conditional):
        provided.setdefault(promise.name, []).append(promise.provided)
    for name, conditions in provided.items():
        promises.add_row(name, ", and ".join(conditions))
    console.print("", promises, sep="\n")
    console.print(f"\n[bold]All this under[/bold] {', '.join(description.faults)}.")
    if description.proposes(description.parameters()):
        console.print("Groups can be proposed to others, closed and renamed while processes run.")
    if not description.changes(description.parameters()):
        console.print("Its groups do not change: they are formed once, nobody joins or leaves, and no member may crash.")
    first = next((field.name for field, _ in declarations(description.parameters)), None)
    if first is not None:
        console.print(f"Set a parameter in a scenario file under \\[parameters], or with --set parameters.{first}=...")
