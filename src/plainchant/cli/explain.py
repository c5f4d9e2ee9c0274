"""``plainchant explain``: the life of a message, the story of a view change, what became of a process, or a standstill."""

from __future__ import annotations

import json as json_module
from typing import Annotated

from typer import Argument

from ..core.model import MS, UsageError
from ..lab.show import parse_message
from .console import guarded
from .options import option


@guarded
def explain(
    path: Annotated[str, Argument(help="The directory of a run or a sweep, a Parquet file, or a glob of them.")],
    run: Annotated[str | None, option("Which run; needed if there are several.")] = None,
    message: Annotated[str | None, option("The life of this message: GROUP/SENDER/NUMBER.")] = None,
    view: Annotated[str | None, option("The story of this view: GROUP/NUMBER; a GROUP alone lists its views.")] = None,
    process: Annotated[
        str | None,
        option(
            "What became of this process; with --view: whose view, where parts of a group have the same number; "
            "with --standstill: whose standstill."
        ),
    ] = None,
    standstill: Annotated[
        bool, option("Why a member delivered nothing although a message waited: the longest time.", "--standstill")
    ] = False,
    json: Annotated[bool, option("Print the story as JSON.", "--json")] = False,
) -> None:
    """Explain a message, a view, the end of a process or a standstill, step by step, with reasons.

    A message: when it was sent, who delivered it when, what a delivery that waited waited for, and why somebody did
    not deliver it. A view: who suspected whom and on what evidence, who refuted it, what was agreed, who installed it when,
    who went another way, what came together, and whether all had delivered the same until then. A process: what its protocol
    decided, which streams were admitted or rejected, who took it for dead, and why it stopped. A standstill: from when to when
    a member delivered nothing, what it waited for, and what ended it. What the trace only suggests is called probable.

    Examples:

      plainchant explain DIR --message g/p2/17
      plainchant explain DIR --view g
      plainchant explain DIR --view g/2
      plainchant explain DIR --view g/2 --process p4
      plainchant explain DIR --process p4
      plainchant explain DIR --standstill
      plainchant explain DIR --standstill --process p2
      plainchant explain SWEEP --run seed-7 --view g/2 --json
    """
    asked = [message is not None, view is not None, standstill]
    if sum(asked) > 1 or not (any(asked) or process is not None):
        choices = "--message GROUP/SENDER/NUMBER, --view GROUP/NUMBER, --process NAME and --standstill"
        raise UsageError(f"explain what? Give one of {choices}")
    if process is not None and message is not None:
        raise UsageError("--process says which process, or whose view, is meant: it goes with --view GROUP/NUMBER or alone")
    from ..lab.explain.reading import explainer_of

    if message is not None:
        names = parse_message(message)
        wanted = (names["group"], names["sender"], names["seq"])
        found = explainer_of(path, run, message=wanted)
        story = found.explainer.message(wanted)
    elif standstill:
        found = explainer_of(path, run, process=process, is_standstill=True)
        story = found.explainer.standstill(process)
    elif view is None and process is not None:
        found = explainer_of(path, run, process=process)
        story = found.explainer.process(process)
    else:
        group, number = _parse_view(view or "")
        found = explainer_of(path, run, view=(group, number))
        story = found.explainer.views(group, process) if number is None else found.explainer.view(group, number, process)
    if json:
        return print(json_module.dumps({"run": found.run, **story.to_json()}, indent=2))
    print(f"{story.title}\n")
    before: str | None = None
    for step in story.steps:
        print(f"{(step.when - found.explainer.origin) / MS:12.3f} ms  {step.what}")
        if step.because:
            print(f"{'':15}    because: {'the same' if step.because == before else step.because}")
        before = step.because
    print(f"\n{story.conclusion}")


def _parse_view(text: str) -> tuple[str, int | None]:
    """The group, and the number if there is one. A group whose name looks like a view is meant by a slash at the end."""
    group, slash, number = text.rpartition("/")
    if not slash:
        group, number = text, ""
    if not group or not (number.isascii() and (number.isdigit() or not number)):
        raise UsageError(f'{text!r} does not name a view: write group/number, such as "g/2", or a group to list its views')
    return group, int(number) if number else None
