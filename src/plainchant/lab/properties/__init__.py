"""The properties: what it means for a run to be correct, and every way in which that is checked.

:func:`verify` is the entry for programs and tests: ``verify(table, names=None)``.

Where things are
----------------
``catalogue`` is the table: for each property its definition in ``docs/properties.md``, its reference check, its check on a
growing trace, and its proof. A family of properties is a package (``delivery``, ``order``, ``views``, ``timing``, ``blocks``)
with a module for each way to check:

- ``reference``: plain Python on whole histories (``facts``, ``causality``, ``owing``, ``report``), run by ``reference.verify``;
- ``growing``: on a trace while it is written (``growth``), run by ``growing.Growing``;
- ``proof``: from certificates (``certificates``), run by ``proof.prove``. ``lab.verify`` uses it for traces of any size.

``accepted`` is a check beside the properties: was everything that the API accepted delivered once?

Why there are growing checks
----------------------------
They could be the reference checks on a consistent cut of what has been read, once each round. That was tried, on a stream of
7,000 rows a second (3 members, a round each half second, 2 cores, 2026-11-18, CPU time of one round):

====================  =============  ===================  =======================  ==========================
rows so far           stream so far  growing checks       reference on the cut     certificates on the cut
====================  =============  ===================  =======================  ==========================
21,000                3 s            0.02 s               0.10 s                   0.01 s
105,000               15 s           0.03 s               0.52 s                   0.03 s
210,000               30 s           0.03 s               1.22 s                   0.06 s
====================  =============  ===================  =======================  ==========================

The reference takes longer than a round after 15 seconds, the certificates after some four minutes, and both need every row in
the state of the stream, which Spark writes again in each micro-batch. The growing checks cost the same in each round and keep a
bounded state. A cut also changes the meaning: a history without an end counts as crashed, and nothing would show a violation
that a later crash withdraws. So the growing checks stay, and tests hold their verdicts equal to the reference's.
"""

from __future__ import annotations

from ...trace.properties import PROPERTIES, SPEAK_OF_END
from .reference import verify
from .report import Outcome, Verification, Violation

__all__ = ["PROPERTIES", "SPEAK_OF_END", "Outcome", "Verification", "Violation", "verify"]
