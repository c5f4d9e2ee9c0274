"""Sweeps: thousands of simulated runs as Spark tasks, verified and measured where they run.

``plan`` defines the runs and cuts them into units, ``task`` performs a unit, ``store`` is the directory in which units are
committed, ``driver`` runs the Spark job and adds everything up. Start reading with ``driver``.
"""

from __future__ import annotations

from ...core.lazily import callable_as
from .driver import Progress, Swept, sweep, swept
from .plan import Definition, define
from .store import Store

__all__ = ["Definition", "Progress", "Store", "Swept", "define", "sweep", "swept"]

callable_as(__name__, "plainchant.lab.frames")
