"""What the laboratory's tests share: real services."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import cluster


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


@pytest.fixture(scope="session")
def at_standalone(standalone: cluster.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Driver]:
    """A process with a session on the cluster."""
    with cluster.Driver(tmp_path_factory.mktemp("driver"), standalone.master, "") as driver:
        yield driver


@pytest.fixture(scope="session")
def at_connect(connect: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Driver]:
    """A process with a session at the Connect server."""
    with cluster.Driver(tmp_path_factory.mktemp("driver"), "", connect) as driver:
        yield driver
