"""The trace: one table of events that every host writes and everything downstream reads.

``schema`` says what the table is, ``writer`` turns a host's raw rows into Parquet, ``reader`` brings files back as one
Arrow table, ``validation`` says what is malformed about it, ``spool`` is what a live process records, ``collect`` makes a
trace of that, ``show``, ``explain``, ``diagram`` and ``export`` are for people and other tools, ``properties`` names what can be
promised, and ``reference`` is the plain-Python verifier. This package imports ``model`` and nothing else of ours: a trace can
come from anywhere, and nothing here may know which host or protocol wrote it. ``spool`` and ``properties`` do without Arrow:
live members need them.

Start reading with ``schema``, then ``writer.History`` (what hosts append to).
"""

from typing import TYPE_CHECKING

from ..core.lazily import exports
from ..core.model import TRACE_VERSION

if TYPE_CHECKING:
    from .reader import Trace, read
    from .schema import KINDS, SCHEMA, Malformed, MalformedTrace
    from .validation import validate
    from .writer import History, TraceBuffer, TraceWriter

__all__ = [
    "KINDS",
    "SCHEMA",
    "TRACE_VERSION",
    "History",
    "Malformed",
    "MalformedTrace",
    "Trace",
    "TraceBuffer",
    "TraceWriter",
    "read",
    "validate",
]

__getattr__ = exports(
    __name__,
    {
        **dict.fromkeys(("Trace", "read"), "reader"),
        **dict.fromkeys(("KINDS", "SCHEMA", "Malformed", "MalformedTrace"), "schema"),
        "validate": "validation",
        **dict.fromkeys(("History", "TraceBuffer", "TraceWriter"), "writer"),
    },
)
