"""Tests that run under a variant of the protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from plainchant_papers.newtop.variants import VARIANTS


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    """While a test runs the protocol is the variant that its parameter names; empty: the protocol itself."""
    name: str = request.param
    with VARIANTS[name].applied(must_act=True):
        yield name
