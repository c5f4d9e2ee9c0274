"""Scenario files: what to run, as data, and the faults in it. Start with ``model``.

``load`` and ``parse`` read a scenario, ``dump`` writes one out completely, ``find`` and ``shipped`` name those that come with
plainchant. Errors are made in ``read`` (a single value) and ``check`` (the whole), at lines that ``locate`` finds. ``faults``
draws and injects faults for any host; ``links``, ``traffic`` and ``outcome`` are what the simulator and live scenarios compute
alike.

Imports ``core``, the registry of protocols and, for the names of properties, ``trace.properties``.
"""

from .dump import dump
from .load import load, parse
from .model import Scenario
from .shipped import find, shipped

__all__ = ["Scenario", "dump", "find", "load", "parse", "shipped"]
