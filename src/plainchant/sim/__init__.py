"""The deterministic simulator: a scenario in, a trace and a :class:`Summary` out, the same for the same seed.

Start with ``simulation``, then ``host``, which performs the effects of the process core in virtual time, and ``kernel`` (the
loop). ``listener`` is what a process tells its application, ``outgoing`` how an application sends, ``faults`` the simulator's
side of the injector. ``asynchronous`` (:func:`run`) puts asyncio programs on top. (``lab.explore`` tries every run of a case.)

Imports ``core``, ``layers``, ``protocols``, ``group``, ``scenario`` and ``trace``; rows are kept without Arrow.
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

__all__ = ["Application", "ApplicationError", "Member", "NotSimulated", "Outcome", "ProcessEnd", "Result", "Simulation"]
__all__ += ["Standstill", "Summary", "Unfinished", "functions", "run", "run_scenario"]

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
