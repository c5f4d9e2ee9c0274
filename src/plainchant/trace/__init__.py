"""The trace: one table of events that every host writes and everything downstream reads.

``schema`` defines the table. ``history`` has the rows of a process and ``buffer`` those of a run; ``columns`` makes Arrow of
them, and ``writer`` files. ``reader`` brings files back as one Arrow table, ``validation`` reports what is malformed, ``spool``
is what a live process records, ``collect`` makes a trace of spools, ``importing`` one of other systems' logs, ``properties``
names what can be promised, and ``verifier`` is the contract of whatever verifies traces. This package imports ``core`` and
nothing else of ours: a trace can come from anywhere, and nothing here may know which host or protocol wrote it. ``history``,
``buffer``, ``spool``, ``properties`` and ``verifier`` do without Arrow: members and simulations need them.

Start reading with ``schema``, then ``history`` (what hosts append to).
"""

from typing import TYPE_CHECKING

from ..core.lazily import exports
from ..core.model import TRACE_VERSION

if TYPE_CHECKING:
    from .buffer import TraceBuffer
    from .history import History
    from .reader import Trace, read
    from .schema import KINDS, SCHEMA, Malformed, MalformedTrace
    from .validation import validate
    from .writer import TraceWriter

__all__ = ["KINDS", "SCHEMA", "TRACE_VERSION", "History", "Malformed", "MalformedTrace"]
__all__ += ["Trace", "TraceBuffer", "TraceWriter", "read", "validate"]

__getattr__ = exports(
    __name__,
    {
        "TraceBuffer": "buffer",
        "History": "history",
        **dict.fromkeys(("Trace", "read"), "reader"),
        **dict.fromkeys(("KINDS", "SCHEMA", "Malformed", "MalformedTrace"), "schema"),
        "validate": "validation",
        "TraceWriter": "writer",
    },
)
