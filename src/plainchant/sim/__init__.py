"""The deterministic simulator: a scenario in, a trace and a :class:`Summary` out, the same for the same seed.

May import ``model``, ``engine``, ``fragmentation``, ``wire``, ``scenario`` and ``protocols.registry``; knows the
trace only as something that gives histories. Start reading with ``simulation``, then ``host`` (what a process is) and
``kernel`` (the loop).
"""

from .application import Application, ApplicationError, Member, functions
from .faults import draw_faults
from .simulation import Simulation, run_scenario
from .summary import ProcessEnd, Summary

__all__ = [
    "Application",
    "ApplicationError",
    "Member",
    "ProcessEnd",
    "Simulation",
    "Summary",
    "draw_faults",
    "functions",
    "run_scenario",
]
