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
