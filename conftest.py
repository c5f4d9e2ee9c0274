"""What every test gets: hypothesis that gives the same examples on every run and never complains of a busy machine, one small
Spark session for all tests of a process, and a garbage collector that looks seldom.

Modules whose tests use services of Spark's come first, then those that use a session: so they are one worker's (``worksteal``
gives each worker a row of neighbours), and what others take from it when they have nothing left to do are tests without.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.collector import collect_seldom

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A failure in `make test` must come back when it is run again; looking for new examples is what sweeps are for.
settings.register_profile("plainchant", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("plainchant")


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "write the transcripts under tests/transcripts anew instead of comparing with them"
    parser.addoption("--rewrite-transcripts", action="store_true", help=about)
    more = "sweeps and random traces: whole, so many times as many as ordinarily (make sweep); 1 is a part of them"
    parser.addoption("--times", type=int, default=1, metavar="N", help=more)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks: dict[Path, int] = {}
    for item in items:
        ranks[item.path] = min(rank_of(item), ranks.get(item.path, 2))
    items.sort(key=lambda item: ranks[item.path])


def rank_of(item: pytest.Item) -> int:
    """What a worker has to start for a test: services of Spark's (a parameter may name them), a session, or nothing."""
    parameters = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    wanted = {*getattr(item, "fixturenames", ()), *(value for value in parameters if isinstance(value, str))}
    return 0 if wanted & {"standalone", "connect"} else 1 if "spark" in wanted else 2


def pytest_collection_finish() -> None:
    collect_seldom()


@pytest.fixture(scope="session")
def times(pytestconfig: pytest.Config) -> int:
    """By how much sweeps are longer than ordinarily."""
    number: int = pytestconfig.getoption("--times")
    return number


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on two cores of this machine. Commands that are called in the same process find it and use it too."""
    from plainchant.lab.session import session

    with session("local[2]", memory="1g", shuffle_partitions=2, quick=True) as started:
        yield started
