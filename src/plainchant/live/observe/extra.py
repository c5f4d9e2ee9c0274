"""Packages that come with the extra ``observe`` only: imported late, and missed with a sentence that says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...core.model import UsageError


def need(module: str, what: str) -> Any:
    """A module of the extra; ``what`` is what it is needed for.

    >>> need("json", "an example").__name__
    'json'
    """
    try:
        return import_module(module)
    except ImportError as error:
        missing = error.name or module
        raise UsageError(
            f"{what} need the package {missing.partition('.')[0]}, which is not installed: pip install 'plainchant[observe]'"
        ) from error
