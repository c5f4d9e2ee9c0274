"""How options are declared, and options that several commands have."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Argument, Option


def option(text: str, *names: str, of: str | None = None, **settings: Any) -> Any:
    """An option with its help; ``names`` where they are not the parameter's, ``of`` for what its value is called."""
    return Option(*names, metavar=of, help=text, **settings)


JsonOption = Annotated[bool, option("As JSON, for programs.", "--json")]
SetOption = Annotated[list[str] | None, option("Override a value of the file; repeat as needed.", "--set", of="KEY=VALUE")]
TracesOrTableArgument = Annotated[
    list[str] | None,
    Argument(help="Traces: a run's or sweep's directory, a Parquet file, a directory or glob of them, an address; or --table."),
]
ScenarioArgument = Annotated[str, Argument(help="A scenario file, or the name of a shipped scenario.")]
