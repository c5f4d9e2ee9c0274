"""The deterministic simulator: a scenario in, a trace and a :class:`Summary` out, the same for the same seed.

May import ``model``, ``engine``, ``fragmentation``, ``wire``, ``scenario`` and ``protocols.registry``; knows the
trace only as something that gives histories. Start reading with ``simulation``, then ``host`` (what a process is) and
``kernel`` (the loop). ``asynchronous`` (:func:`run`) puts asyncio programs on top of it all, and may import ``group``, ``state``,
``state_events`` and ``trace`` besides.
"""

from typing import TYPE_CHECKING

from ..core.lazily import exports

if TYPE_CHECKING:
    from ..scenario.outcome import ProcessEnd
    from .application import Application, ApplicationError, Member, functions
    from .asynchronous import Result, Unfinished, run
    from .program import Outcome, Standstill
    from .simulation import Simulation, run_scenario
    from .summary import Summary
    from .virtual_loop import NotSimulated

__all__ = [
    "Application",
    "ApplicationError",
    "Member",
    "NotSimulated",
    "Outcome",
    "ProcessEnd",
    "Result",
    "Simulation",
    "Standstill",
    "Summary",
    "Unfinished",
    "functions",
    "run",
    "run_scenario",
]

__getattr__ = exports(
    __name__,
    {
        **dict.fromkeys(("Application", "ApplicationError", "Member", "functions"), "application"),
        **dict.fromkeys(("Result", "Unfinished", "run"), "asynchronous"),
        **dict.fromkeys(("Outcome", "Standstill"), "program"),
        **dict.fromkeys(("Simulation", "run_scenario"), "simulation"),
        **dict.fromkeys(("ProcessEnd", "Summary"), "summary"),
        "NotSimulated": "virtual_loop",
    },
)
