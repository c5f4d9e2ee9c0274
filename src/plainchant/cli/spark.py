"""What the laboratory's commands share: the options that say where Spark runs, and the session they get."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from ..core.model import UsageError
from ..lab.session import session
from ..lab.session.failures import failures_as_sentences
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


@contextlib.contextmanager
def spark_for(
    master: str | None,
    remote: str | None,
    memory: str | None = None,
    *,
    shuffle_partitions: int | None = None,
    quick: bool = False,
) -> Iterator[SparkSession]:
    """A session where the options say, in which Spark's failures become sentences."""
    if master is not None and remote is not None:
        raise UsageError("--master and --remote exclude each other: name the cluster or the Connect server")
    with (
        failures_as_sentences(),
        session(master, remote, memory=memory, shuffle_partitions=shuffle_partitions, quick=quick) as spark,
    ):
        yield spark
