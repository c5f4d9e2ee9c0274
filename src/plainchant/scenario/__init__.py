"""Scenario files: what to run, as data. Start with ``model``.

May import ``model``, ``protocols.registry`` and, for the names of properties, ``trace.properties``.

``load`` and ``parse`` read a scenario, ``dump`` writes one out completely, ``find`` and ``shipped`` name those that
come with plainchant. Errors are made in ``read`` (a single value) and ``check`` (the whole), at lines that
``locate`` finds.
"""

from .dump import dump
from .load import load, parse
from .model import Scenario
from .shipped import find, shipped

__all__ = ["Scenario", "dump", "find", "load", "parse", "shipped"]
