"""Faults, for every host: the random ones are drawn, all are described and injected in one way.

``drawing`` turns the rates of a scenario into a schedule, ``injector`` has the table of faults and makes a schedule happen on a
:class:`Backend` (the simulator's or the live one's), ``omissions`` decides which packets a process drops, ``detail`` is how a
fault reads in a trace. Imports ``core``, ``protocols.registry`` and ``scenario.model``. Start with ``injector``.
"""

from .detail import describe_background, describe_fault
from .drawing import Units, draw_faults, schedule_of
from .injector import Action, Backend, Injector, Population, State
from .omissions import Omission

__all__ = ["Action", "Backend", "Injector", "Omission", "Population", "State", "Units"]
__all__ += ["describe_background", "describe_fault", "draw_faults", "schedule_of"]
