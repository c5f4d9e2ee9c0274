"""``plainchant watch``: a page that shows what a group does while it does it, with a verdict that grows with the trace."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Argument, Exit

from ..lab.watch.server import DEFAULT, PAUSE, Watch
from ..lab.watch.sources import Replay, Spools, source_at
from ..lab.watch.verdict import NoVerdict, SparkVerdict, Verdicts, collected
from .console import EXIT_UNEXPECTED, EXIT_WRONG_INPUT, complain, guarded
from .options import option
from .spark import ConfOption, MasterOption, MemoryOption, UiOption, settings_of

_SHOWN: Final = 5


@guarded
def watch(
    path: Annotated[
        Path, Argument(metavar="DIR", help="Where live processes record (spools), or a finished trace or run directory.")
    ],
    at: Annotated[str, option("Where the page is; port 0 is any free one.", of="HOST:PORT")] = DEFAULT,
    verdict: Annotated[
        bool, option("Judge the run as it grows, on Spark, and whole when it has ended.", "--verdict/--no-verdict")
    ] = True,
    speed: Annotated[
        float, option("Replay a finished trace so many times as fast; 0 shows its end at once.", of="FACTOR", min=0.0)
    ] = 0.0,
    run: Annotated[str | None, option("Of a finished trace with several runs, this one.", of="NAME")] = None,
    until_end: Annotated[
        bool, option("Stop when all has ended and is judged; the exit status is the verdict's.", "--until-end")
    ] = False,
    state: Annotated[
        Path | None,
        option("Where the verdict keeps its state, for a later watch to continue; a cluster's machines must share it.", of="DIR"),
    ] = None,
    master: MasterOption = None,
    memory: MemoryOption = None,
    conf: ConfOption = None,
    ui: UiOption = False,
) -> None:
    """Show a group in the browser while it works: who is there, views and why, rates, latencies, messages, and a verdict.

    DIR is what the processes record to (`plainchant node --trace DIR`, `Node(trace=DIR)`); they may start later, die and come
    back. A finished trace is shown as it ended, or replayed with --speed. The page needs no network and changes nothing.

    The verdict needs Spark (the extra lab) and Java; without them the page says so and shows the rest. Ctrl-C stops.

    The exit status is 0; with --until-end, 1 if a promise was broken and 2 if there is no verdict.

    Examples:

      plainchant watch spools
      plainchant watch crash --speed 0.5
      plainchant watch spools --state watched
      plainchant watch spools --at 127.0.0.1:0 --no-verdict
    """
    source = source_at(path, run=run, speed=speed)
    options = {"master": master, "memory": memory, "conf": settings_of(conf or (), ui=ui), "state": state}
    judge = _judge(source, path, wanted=verdict, **options)
    if isinstance(judge, SparkVerdict):
        judge.start()
    try:
        status = asyncio.run(_serve(source, at, judge, until_end=until_end))
    except KeyboardInterrupt:
        status = 0
    finally:
        if isinstance(judge, SparkVerdict):
            judge.stop()
    if status:
        raise Exit(status)


def _judge(source: Spools | Replay, path: Path, *, wanted: bool, **options: Any) -> Verdicts:
    if not wanted:
        return NoVerdict("it was not asked for (--no-verdict)")
    whole = collected(path, lambda: source.size) if isinstance(source, Spools) else lambda out: str(path)
    return SparkVerdict(whole, **options)


async def _serve(source: Spools | Replay, at: str, judge: Verdicts, *, until_end: bool) -> int:
    async with Watch(source, at, verdicts=judge) as page:
        announce(page)
        while True:
            await asyncio.sleep(PAUSE)
            if page.problem is not None:
                raise page.problem
            if until_end and source.is_over and (not isinstance(judge, SparkVerdict) or judge.is_settled):
                return _status(judge.told(page.picture.latest()))


def announce(page: Watch) -> None:
    """Says where the page is."""
    print(f"watching {page.what}: {page.url}", flush=True)
    if not page.is_loopback:
        complain(f"{page.url} is open to everybody who reaches this machine, without a password; 127.0.0.1 keeps it here")


def _status(told: dict[str, Any]) -> int:
    """The exit status that a verdict is worth, told in words as well."""
    final = told["final"]
    if final is None or "problem" in final:
        complain(f"no verdict: {told['why'] if final is None else final['problem']}")
        return EXIT_WRONG_INPUT
    print(f"verdict: {final['verdict']}")
    for violation in final["violations"][:_SHOWN]:
        print(f"  {violation['property']}: {violation['sentence']}")
    return {"holds": 0, "violated": EXIT_UNEXPECTED}.get(final["verdict"], EXIT_WRONG_INPUT)
