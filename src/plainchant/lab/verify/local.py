"""Verification in this process, without Spark: small traces are settled in less time than Spark takes to start.

The functions are those of Spark's tasks (``job.certify_chunk``), and all rows are one chunk: every run in it is whole, and is
settled there. So the verdict, the counts and the sentences are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...core.model import TraceError
from ...trace.schema import MalformedTrace
from ..properties import Verification
from ..properties.narrowing.portion import WHOLE_UP_TO
from ..properties.reference import require_known
from ..properties.report import MAX_SHOWN
from . import parts
from .beside import Beside
from .job import certify_chunk
from .results import Options, Sum, verification_of

HERE_UP_TO: Final = 300_000
"""Rows of traces that are verified without Spark, unless somebody says otherwise."""
_ONE_CHUNK: Final = 2**62


def is_small(paths: Sequence[str], up_to: int = HERE_UP_TO) -> bool:
    """Whether Spark is not worth its start. What is malformed as files is told here, at once. Many files are not small, as
    reading their footers alone takes longer than Spark's start."""
    try:
        if parts.files_of(paths) > parts.MANY_FILES:
            return False
        found = parts.plan(paths, 1)
    except MalformedTrace:
        return True
    return not found.foreign and found.rows <= up_to


def verify_here(
    paths: Sequence[str],
    properties: Sequence[str] | None = None,
    *,
    most: int | None = MAX_SHOWN,
    search_up_to: int = WHOLE_UP_TO,
    beside: Beside | None = None,
    results: dict[str, bytes] | None = None,
) -> Verification:
    """The same as ``verify`` on Spark, in this process: for traces whose rows fit into its memory."""
    require_known(properties or ())
    asked = tuple(properties) if properties is not None else None
    options, total = Options(asked, most, whole_up_to=search_up_to, beside=beside), Sum()
    try:
        plan = parts.plan([str(path) for path in paths], 1, chunk_rows=_ONE_CHUNK, least_rows=_ONE_CHUNK)
        if plan.foreign:
            raise TraceError(f"only Spark can read {plan.foreign[0]}: leave out --engine local")
        for chunk in plan.chunks:
            for found in certify_chunk(chunk, options):
                assert isinstance(found, Sum)  # all its runs are whole
                total.add(found)
        if results is not None:
            results |= total.beside
    except MalformedTrace as error:
        total = Sum(malformed=list(error.malformed))
    return verification_of(total, options)
