"""``plainchant report``: what was verified and found, as one HTML file for people."""

from __future__ import annotations

import functools
from glob import has_magic
from pathlib import Path
from typing import Annotated

from typer import Argument

from ..core.model import UsageError
from .console import guarded, moving_line
from .options import option
from .output import OutputError, write_whole
from .spark import ConfOption, MasterOption, MemoryOption, RemoteOption, UiOption, spark_for


@guarded
def report(
    path: Annotated[str, Argument(help="The directory of a run or of a sweep, or any trace: a file, directory or glob.")],
    out: Annotated[Path | None, option("The HTML file; by default report.html in that directory.")] = None,
    most: Annotated[int, option("At most so many violations are shown.", min=1)] = 10,
    master: MasterOption = None,
    remote: RemoteOption = None,
    memory: MemoryOption = None,
    conf: ConfOption = None,
    ui: UiOption = False,
) -> None:
    """Write a report: one HTML file that opens in any browser, without network.

    It has the verdict, every property, the run over time, distributions, and for each violation a sentence, a space-time diagram,
    the reasons step by step, the rows around it and the command that runs it again. An earlier report in the same place is
    replaced. A run or a sweep brings its verdict with it; any other trace is verified, on Spark if it is large or --master or
    --remote says where. The exit status is 0 when the report was written, whatever it says, and 2 if the input was wrong.

    Examples:

      plainchant run why-resilience --out why
      plainchant report why
      plainchant report sweeps/loss --most 30
      plainchant report 'traces/*.parquet' --out traces.html
      plainchant report s3://bucket/traces --out traces.html --master spark://host:7077
    """
    from ..lab.report import HERE_UP_TO, page, subject_at

    target = _target(path, out)
    with moving_line("reading") as progress:
        progress("verifying")
        spark = functools.partial(spark_for, master, remote, memory, conf, ui=ui)
        somewhere = master is not None or remote is not None
        subject = subject_at(path, most=most, spark=spark, here_up_to=-1 if somewhere else HERE_UP_TO)
        text = page(subject, progress=progress)
    write_whole(target, text)
    violations = f"{subject.count:,}" if subject.count else "no"
    print(f"{violations} violation{'s' * (subject.count != 1)}; report written to {target}")


def _target(path: str, out: Path | None) -> Path:
    if out is not None:
        if out.is_dir():
            raise OutputError(f"{out} is a directory; name a file with --out, such as {out / 'report.html'}")
        return out
    if Path(path).is_dir():
        return Path(path) / "report.html"
    if "://" not in path and not has_magic(path) and not Path(path).exists():
        raise UsageError(f"there is nothing at {path}; give the directory of a run or of a sweep, or a trace")
    raise UsageError(f"where should the report on {path} go? It is no directory: say --out FILE.html")
