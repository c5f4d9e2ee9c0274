"""What every test gets: hypothesis that gives the same examples on every run and never complains of a busy machine."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A failure in `make test` must come back when it is run again; looking for new examples is what sweeps are for.
settings.register_profile("plainchant", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("plainchant")


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "write the transcripts under tests/transcripts anew instead of comparing with them"
    parser.addoption("--rewrite-transcripts", action="store_true", help=about)
