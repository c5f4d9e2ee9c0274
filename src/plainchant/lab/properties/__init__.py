"""The properties: what it means for a run to be correct, and every way in which that is checked. Programs and tests call
:func:`verify`.

``catalogue`` is the table: for each property its definition in ``docs/properties.md``, its reference check, its check on a
growing trace, and its proof. A family of properties is a package (``delivery``, ``order``, ``views``, ``timing``, ``blocks``)
with a module for each way to check:

- ``reference``: plain Python on whole histories (``facts``, ``causality``, ``owing``, ``report``), run by ``reference.verify``;
- ``growing``: on a trace while it is written (``growth``), run by ``growing.Growing``;
- ``proof``: from certificates (``certificates``), run by ``proof.prove``. ``lab.verify`` uses it for traces of any size.

``accepted`` is a check beside the properties: was everything that the API accepted delivered once?

Why growing checks, and not the reference checks on a consistent cut of what has been read, once each round? Measured on a stream
of 7,000 rows per second (3 members, a round each half second, 2 cores, 2026-11-18), after 30 s the CPU time of a round was 0.03 s
for the growing checks, 1.22 s for the reference and 0.06 s for certificates. The last two grow with the stream and need every row
in its state, which Spark writes again in each micro-batch; the growing checks keep a bounded state. A cut also changes the
meaning: a history without an end counts as crashed, and nothing would show a violation that a later crash withdraws. Tests hold
the verdicts of growing checks equal to the reference's.
"""

from __future__ import annotations

from ...trace.properties import PROPERTIES, SPEAK_OF_END
from .reference import verify
from .report import Outcome, Verification, Violation

__all__ = ["PROPERTIES", "SPEAK_OF_END", "Outcome", "Verification", "Violation", "verify"]
