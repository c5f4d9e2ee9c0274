"""What the laboratory's commands share: the options that say where Spark runs and how, and the session they get."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from ..core.model import UsageError
from ..lab.session import explained_session
from .console import complain
from .options import option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MasterOption = Annotated[
    str | None,
    option("Where Spark runs: local[*] (this machine, the default), spark://host:7077, yarn, k8s://...", "--master", of="URL"),
]
RemoteOption = Annotated[str | None, option("A Spark Connect server: sc://host:15002.", "--remote", of="URL")]
MemoryOption = Annotated[
    str | None,
    option("Memory of Spark's driver, such as 4g; by default an eighth of the machine's, 1 to 4 GB.", "--memory", of="SIZE"),
]
ConfOption = Annotated[
    list[str] | None,
    option("A setting of Spark's, such as spark.executor.memory=8g; repeat as needed.", "--conf", of="KEY=VALUE"),
]
UiOption = Annotated[bool, option("Serve Spark's own page while the command works, and say where.", "--spark-ui")]

TableOption = Annotated[
    str | None, option("Instead of paths: a table or view of Spark's catalogue, as catalog.db.table.", "--table", of="NAME")
]
ExplainOption = Annotated[bool, option("Print Spark's plan, and do nothing else.", "--explain")]

Engine: TypeAlias = Literal["auto", "local", "spark"]
EngineOption = Annotated[
    Engine,
    option("Where it is done: in this process, on Spark, or (auto) here if it is little and no option is about Spark."),
]

_UI: Final = "spark.ui.enabled"


def paths_of(paths: list[str] | None, table: str | None) -> list[str]:
    """The paths, of which there are none if a table is named."""
    if (not paths) == (table is None):
        raise UsageError("name traces by their paths, or one table with --table")
    return paths or []


def engine_of(engine: Engine, *about_spark: object) -> Engine:
    """The engine that is asked for; an option about Spark asks for Spark."""
    if engine == "local" and any(about_spark):
        raise UsageError("--engine local works without Spark; leave out the options that are about it")
    return "spark" if any(about_spark) else engine


@contextlib.contextmanager
def spark_for(
    master: str | None,
    remote: str | None,
    memory: str | None = None,
    conf: Sequence[str] | None = None,
    *,
    ui: bool = False,
    shuffle_partitions: int | None = None,
    quick: bool = False,
) -> Iterator[SparkSession]:
    """A session where the options say, in which Spark's failures become sentences."""
    if master is not None and remote is not None:
        raise UsageError("--master and --remote exclude each other: name the cluster or the Connect server")
    if ui and remote is not None:
        raise UsageError("--spark-ui is about a Spark that this command starts; a Connect server has its own page")
    settings = settings_of(conf or (), ui=ui)
    options = {"memory": memory, "shuffle_partitions": shuffle_partitions, "quick": quick, "conf": settings}
    with explained_session(master, remote, **options) as spark:
        if ui:
            complain(f"Spark's page is at {spark.sparkContext.uiWebUrl}")
        yield spark


def settings_of(conf: Sequence[str], *, ui: bool) -> dict[str, str]:
    """Settings of Spark's as options give them."""
    settings = {_UI: "true"} if ui else {}
    for text in conf:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--conf {text}: write a setting of Spark's as spark.executor.memory=8g")
        settings[name.strip()] = value.strip()
    return settings
