"""What the laboratory's tests share: one small Spark session for all tests of a process, and real services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from plainchant.lab.session import session

from . import cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on two cores of this machine. Commands that are called in the same process find it and use it too."""
    with session("local[2]", memory="1g", shuffle_partitions=2, quick=True) as started:
        yield started


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Cluster]:
    """A real cluster: one master, two workers."""
    with cluster.standalone_cluster(tmp_path_factory.mktemp("standalone")) as started:
        yield started


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real Spark Connect server."""
    with cluster.connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address
